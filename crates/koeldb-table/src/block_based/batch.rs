//! Look-ups of many keys at once in a block-based table.
//!
//! Most of a cached read is waiting for memory. So a batch goes through the table in steps, each for all of its keys:
//! the filter, the index, the data blocks, the entries. What the next step needs is fetched while the others are
//! still at this one; and neighbours share the way through the index and the blocks they find themselves in.

use std::sync::Arc;

use koeldb_base::stats::Ticker;
use koeldb_base::{Fault, Lookup};

use super::block::{Block, prefetch_item};
use super::index::{INDEX_BATCH, IndexPlace};
use super::reader::BlockBasedReader;
use crate::source::{BlockKind, BlockSource, CachedBlock};

impl BlockBasedReader {
    /// As `TableReader::search_batch`. A filter over the whole table is asked for all keys at once.
    pub(crate) fn search_batch<S: BlockSource>(
        &self,
        lookups: &mut [&mut Lookup],
        source: &mut S,
        mut outcome: impl FnMut(usize, Result<(), Fault<S::Suspend>>),
    ) {
        let parts = self.filter_batch(lookups, source).and_then(|admitted| {
            let together = !self.partitioned_index && (admitted.is_some() || self.filter.is_none());
            let root = if together {
                Some(self.index.get(&self.file, source)?)
            } else {
                None
            };
            Ok((admitted, root))
        });
        // Otherwise each look-up asks for itself, and fails or suspends for itself: it may not need the index at all.
        let (admitted, root) = parts.unwrap_or_default();
        let root = root.as_ref().map(|root| root.entries());
        let Some(Ok(root)) = root else {
            for (index, lookup) in lookups.iter_mut().enumerate() {
                outcome(index, self.search(lookup, source));
            }
            return;
        };
        let mut together = [0; INDEX_BATCH];
        let mut count = 0;
        for index in 0..lookups.len() {
            self.cover(lookups[index]);
            if admitted.as_ref().is_some_and(|admitted| !admitted[index]) {
                self.count(Ticker::BloomFilterUseful);
                outcome(index, Ok(()));
            } else {
                together[count] = index;
                count += 1;
            }
            if count == INDEX_BATCH || (count > 0 && index + 1 == lookups.len()) {
                self.search_together(root, lookups, &together[..count], source, &mut outcome);
                count = 0;
            }
        }
    }

    /// What a filter of whole keys over the whole table says to each look-up; `None` if there is no such filter.
    fn filter_batch<S: BlockSource>(
        &self,
        lookups: &[&mut Lookup],
        source: &mut S,
    ) -> Result<Option<Vec<bool>>, Fault<S::Suspend>> {
        let Some(part) = &self.filter else {
            return Ok(None);
        };
        if part.partitions.is_some() || !part.whole_keys {
            return Ok(None);
        }
        let block = part.block.get(&self.file, source)?;
        let filter = block.filter()?;
        if filter.is_legacy() {
            return Ok(None);
        }
        let hashes: Vec<u64> = lookups.iter().map(|lookup| lookup.filter_hash()).collect();
        let mut admitted = vec![true; hashes.len()];
        filter.may_contain_hashes(&hashes, &mut admitted);
        Ok(Some(admitted))
    }

    /// Searches index and data for those look-ups that `indices` name.
    fn search_together<S: BlockSource>(
        &self,
        root: &Block,
        lookups: &mut [&mut Lookup],
        indices: &[usize],
        source: &mut S,
        outcome: &mut impl FnMut(usize, Result<(), Fault<S::Suspend>>),
    ) {
        let filtered = self.filter.is_some();
        let mut places = [IndexPlace::Unknown; INDEX_BATCH];
        let mut targets: [&[u8]; INDEX_BATCH] = [&[]; INDEX_BATCH];
        for (target, &index) in targets.iter_mut().zip(indices) {
            *target = lookups[index].seek_key();
        }
        let targets = &targets[..indices.len()];
        let found = self.index_format.find_blocks(root, targets, &mut places);
        if found.is_err() {
            // Those that need the damaged entry meet it again, and only those.
            places.fill(IndexPlace::Unknown);
        }
        let mut blocks: [Option<Arc<CachedBlock>>; INDEX_BATCH] = [const { None }; INDEX_BATCH];
        let mut failed = [false; INDEX_BATCH];
        for at in 0..indices.len() {
            let IndexPlace::Block(handle) = places[at] else {
                continue;
            };
            if at > 0 && places[at - 1] == places[at] && !failed[at - 1] {
                blocks[at] = blocks[at - 1].clone();
                continue;
            }
            match source.block(&self.file, handle, BlockKind::Data) {
                Ok(block) => {
                    prefetch_item(&*block);
                    blocks[at] = Some(block);
                }
                Err(fault) => {
                    failed[at] = true;
                    outcome(indices[at], Err(fault));
                }
            }
        }
        for block in blocks.iter().flatten() {
            if let Ok(block) = block.entries() {
                block.prefetch_search();
            }
        }
        for (at, &index) in indices.iter().enumerate() {
            if failed[at] {
                continue;
            }
            let lookup = &mut *lookups[index];
            let result = match (places[at], &blocks[at]) {
                (IndexPlace::Unknown, _) => self.search_entries(lookup, source, filtered),
                (_, block) => self
                    .search_one(block.as_deref(), lookup, filtered)
                    .map_err(Fault::Error),
            };
            outcome(index, result);
        }
    }

    /// Searches the only block that may hold a look-up's entries, if there is one.
    fn search_one(
        &self,
        block: Option<&CachedBlock>,
        lookup: &mut Lookup,
        filtered: bool,
    ) -> koeldb_base::Result<()> {
        let mut found = false;
        if let Some(block) = block {
            self.search_data(block.entries()?, lookup, &mut found)?;
        }
        self.count_admitted(filtered, found);
        Ok(())
    }
}
