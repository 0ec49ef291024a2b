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
        let parts = self
            .filter_batch(lookups, source)
            .and_then(|admitted| Ok((admitted, self.index.get(&self.file, source)?)));
        let (admitted, root) = parts.map_or((None, None), |(a, root)| (a, Some(root)));
        let Some(Ok(root)) = root.as_ref().map(|root| root.entries()) else {
            // Each look-up asks for itself, and fails or suspends for itself: it may not need the index at all.
            for (index, lookup) in lookups.iter_mut().enumerate() {
                outcome(index, self.search(lookup, source));
            }
            return;
        };
        let mut together = [0; INDEX_BATCH];
        let mut count = 0;
        for index in 0..lookups.len() {
            self.cover(lookups[index]);
            let admitted = match &admitted {
                Some(admitted) => Ok(admitted[index]),
                None => self.admits(lookups[index], source),
            };
            match admitted {
                Ok(true) => {
                    together[count] = index;
                    count += 1;
                }
                Ok(false) => {
                    self.count(Ticker::BloomFilterUseful);
                    outcome(index, Ok(()));
                }
                Err(fault) => outcome(index, Err(fault)),
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
        let filtered = self.knows_whole_keys();
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
        let mut failed = [false; INDEX_BATCH];
        if self.partitioned_index {
            self.enter_partitions(targets, &mut places, source, |at, fault| {
                failed[at] = true;
                outcome(indices[at], Err(fault));
            });
        }
        let mut blocks: [Option<Arc<CachedBlock>>; INDEX_BATCH] = [const { None }; INDEX_BATCH];
        for at in 0..indices.len() {
            let IndexPlace::Block(handle) = places[at] else {
                continue;
            };
            if failed[at] {
                continue;
            }
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

    /// Goes on from the partitions of an index that may hold the targets to their data blocks. Each partition is
    /// searched once, for all targets that it may hold.
    fn enter_partitions<S: BlockSource>(
        &self,
        targets: &[&[u8]],
        places: &mut [IndexPlace],
        source: &mut S,
        mut fail: impl FnMut(usize, Fault<S::Suspend>),
    ) {
        let mut at = 0;
        while at < targets.len() {
            let IndexPlace::Block(handle) = places[at] else {
                at += 1;
                continue;
            };
            let same = places[at..targets.len()]
                .iter()
                .take_while(|place| **place == IndexPlace::Block(handle))
                .count();
            let partition = match source.block(&self.file, handle, BlockKind::Index) {
                Ok(partition) => partition,
                Err(fault) => {
                    // The next one asks for itself.
                    fail(at, fault);
                    at += 1;
                    continue;
                }
            };
            let (targets, places) = (&targets[at..at + same], &mut places[at..at + same]);
            let found = partition
                .entries()
                .and_then(|partition| self.index_format.find_blocks(partition, targets, places));
            if found.is_err() {
                places.fill(IndexPlace::Unknown);
            }
            at += same;
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
