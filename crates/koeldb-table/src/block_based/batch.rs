//! Batched lookups in a block-based table.
//!
//! Most of a cached read is waiting for memory. A batch therefore goes through the table in steps,
//! each for all of its keys: the filter, the index, the data blocks, the entries. The data for the
//! next step is prefetched while the other keys are still at the current one, and neighbouring keys
//! share index searches and blocks.

use std::sync::Arc;

use koeldb_base::{Fault, Lookup};

use super::reader::BlockBasedReader;
use crate::block::index::{INDEX_BATCH, IndexSearchResult};
use crate::block::{Block, prefetch_item};
use crate::source::{BlockKind, BlockSource, CachedBlock};

impl BlockBasedReader {
    /// Looks up a batch of keys (`MultiGet`), querying a full filter for all of them together.
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
            // Each lookup searches alone, and fails or suspends alone: it may not need the index.
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
                    self.count_denied();
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

    /// Queries a full whole-key filter for all lookups; `None` if there is none or a legacy one.
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

    /// Searches the index and the data blocks for the lookups at `indices` together, as one batch.
    fn search_together<S: BlockSource>(
        &self,
        root: &Block,
        lookups: &mut [&mut Lookup],
        indices: &[usize],
        source: &mut S,
        outcome: &mut impl FnMut(usize, Result<(), Fault<S::Suspend>>),
    ) {
        let filtered = self.knows_whole_keys();
        let mut places = [IndexSearchResult::Unknown; INDEX_BATCH];
        let mut targets: [&[u8]; INDEX_BATCH] = [&[]; INDEX_BATCH];
        for (target, &index) in targets.iter_mut().zip(indices) {
            *target = lookups[index].seek_key();
        }
        let targets = &targets[..indices.len()];
        let found = self.index_format.find_blocks(root, targets, &mut places);
        if found.is_err() {
            // Only lookups that need the damaged entry meet the error again.
            places.fill(IndexSearchResult::Unknown);
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
            let IndexSearchResult::Block(handle) = places[at] else {
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
                (IndexSearchResult::Unknown, _) => self.search_entries(lookup, source, filtered),
                (_, block) => self
                    .search_one(block.as_deref(), lookup, filtered)
                    .map_err(Fault::Error),
            };
            outcome(index, result);
        }
    }

    /// Replaces partitions of a two-level index in `places` by the data blocks for the targets.
    ///
    /// Each partition is searched once, for all targets that it may hold.
    fn enter_partitions<S: BlockSource>(
        &self,
        targets: &[&[u8]],
        places: &mut [IndexSearchResult],
        source: &mut S,
        mut fail: impl FnMut(usize, Fault<S::Suspend>),
    ) {
        let mut at = 0;
        while at < targets.len() {
            let IndexSearchResult::Block(handle) = places[at] else {
                at += 1;
                continue;
            };
            let same = places[at..targets.len()]
                .iter()
                .take_while(|place| **place == IndexSearchResult::Block(handle))
                .count();
            let partition = match source.block(&self.file, handle, BlockKind::Index) {
                Ok(partition) => partition,
                Err(fault) => {
                    // The next lookup requests the partition itself.
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
                places.fill(IndexSearchResult::Unknown);
            }
            at += same;
        }
    }

    /// Searches one data block for a lookup; without a block the key is not in the table.
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
