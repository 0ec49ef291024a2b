//! A block source that never waits: a missing block becomes a *need*, and its read suspends.
//!
//! One operation, a multi-get or the step of a cursor, has one list of [`Needs`]. It probes: it
//! runs its reads as plain code over a [`ProbeSource`], and those that miss a block suspend. Then
//! it has the needs read together ([`crate::source::gather`]) and repeats the suspended reads.
//!
//! A block that was needed once stays in the list until the list is cleared. A repeated read thus
//! finds its block regardless of the cache's evictions, and whether or not the block was inserted
//! into the cache. A block that could not be read fails every read that requests it, and no other.
//! While nothing was missed the list is empty, and a block costs one additional comparison.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::sync::Arc;

use koeldb_base::coding::to_usize;
use koeldb_base::{Error, Fault, Result};

use crate::format::BlockHandle;
use crate::source::{BlockKind, BlockReadOptions, BlockSource, CachedBlock, TableFile, not_cached};

/// The number of a missing block in [`Needs`], for which a suspended read waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NeedId(u32);

impl NeedId {
    /// The index of the missing block in the list.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A block missing from the cache, with the outcome of reading it.
#[derive(Clone, Debug)]
pub struct Need {
    /// The file that contains the block.
    pub file: Arc<TableFile>,
    /// The location of the block in the file.
    pub handle: BlockHandle,
    /// The kind of block.
    pub kind: BlockKind,
    /// The outcome of reading the block; `None` until it was read.
    outcome: Option<Result<Arc<CachedBlock>>>,
}

/// The list of blocks that one operation found missing, with the outcomes of reading them.
#[derive(Debug, Default)]
pub struct Needs {
    list: Vec<Need>,
    /// An open-addressed hash table over `list`: index + 1, or 0.
    ///
    /// Its length is a power of two, at least twice that of `list`.
    table: Vec<u32>,
    /// The missing blocks whose reads have not begun.
    wanted: Vec<NeedId>,
    held_bytes: u64,
}

impl Needs {
    /// Whether no missing block was recorded since the list was cleared.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The number of blocks recorded as missing since the list was cleared.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// The memory of the blocks that were read, in bytes.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// Returns the missing block with number `id`; `None` if the list has none.
    #[must_use]
    pub fn get(&self, id: NeedId) -> Option<&Need> {
        self.list.get(id.index())
    }

    /// Whether the read of a missing block has completed or failed; true for an unknown number.
    #[must_use]
    pub fn is_settled(&self, id: NeedId) -> bool {
        self.get(id).is_none_or(|need| need.outcome.is_some())
    }

    /// Removes and returns the missing blocks whose reads have not begun, for the caller to read.
    pub fn take_wanted(&mut self) -> Vec<NeedId> {
        std::mem::take(&mut self.wanted)
    }

    /// Removes and returns the missing block whose read has not begun, if there is only one.
    pub fn take_only_wanted(&mut self) -> Option<NeedId> {
        match *self.wanted {
            [only] => {
                self.wanted.clear();
                Some(only)
            }
            _ => None,
        }
    }

    /// Whether there are missing blocks whose reads have not begun.
    #[must_use]
    pub fn has_wanted(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// Records the outcome of reading the missing block `id`.
    pub fn settle(&mut self, id: NeedId, outcome: Result<Arc<CachedBlock>>) {
        if let Some(need) = self.list.get_mut(id.index()) {
            if let Ok(block) = &outcome {
                self.held_bytes = self.held_bytes.saturating_add(block.charge());
            }
            need.outcome = Some(outcome);
        }
    }

    /// Empties the list and releases the blocks that were read; invalidates every `NeedId`.
    pub fn clear(&mut self) {
        self.list.clear();
        self.table.fill(0);
        self.wanted.clear();
        self.held_bytes = 0;
    }

    /// Returns the number of a block in the list; `None` if it was not recorded as missing.
    #[must_use]
    pub fn find(&self, file: &Arc<TableFile>, handle: BlockHandle) -> Option<NeedId> {
        let mask = self.table.len().checked_sub(1)?;
        let mut slot = hash(file, handle) & mask;
        loop {
            let index = self.table.get(slot)?.checked_sub(1)?;
            let need = self.list.get(index as usize)?;
            if need.handle == handle && Arc::ptr_eq(&need.file, file) {
                return Some(NeedId(index));
            }
            slot = slot.wrapping_add(1) & mask;
        }
    }

    /// Records a block as missing, unless it is recorded already; returns its number.
    pub fn want(&mut self, file: &Arc<TableFile>, handle: BlockHandle, kind: BlockKind) -> NeedId {
        if let Some(id) = self.find(file, handle) {
            return id;
        }
        // A list of 4 Gi needs would take 400 GiB.
        let id = NeedId(u32::try_from(self.list.len()).unwrap_or(u32::MAX));
        self.list.push(Need {
            file: Arc::clone(file),
            handle,
            kind,
            outcome: None,
        });
        self.wanted.push(id);
        if self.list.len().saturating_mul(2) > self.table.len() {
            self.grow();
        } else {
            self.enter(id);
        }
        id
    }

    /// Doubles the hash table over the list, and inserts all missing blocks again.
    fn grow(&mut self) {
        let slots = self.table.len().saturating_mul(2).max(32);
        self.table.clear();
        self.table.resize(slots, 0);
        for index in 0..self.list.len() {
            self.enter(NeedId(u32::try_from(index).unwrap_or(u32::MAX)));
        }
    }

    /// Inserts a missing block into the hash table over the list, by linear probing.
    fn enter(&mut self, id: NeedId) {
        let (Some(need), Some(mask)) = (self.list.get(id.index()), self.table.len().checked_sub(1))
        else {
            return;
        };
        let mut slot = hash(&need.file, need.handle) & mask;
        while let Some(entry) = self.table.get_mut(slot) {
            if *entry == 0 {
                *entry = id.0.saturating_add(1);
                return;
            }
            slot = slot.wrapping_add(1) & mask;
        }
    }
}

/// Returns a hash of file and block offset, with well-mixed low bits.
fn hash(file: &Arc<TableFile>, handle: BlockHandle) -> usize {
    let mixed = (file.number ^ handle.offset.rotate_left(20)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    to_usize(mixed >> 32)
}

/// A block source that never waits: it records a missing block as needed and suspends the read.
#[derive(Debug, Default)]
pub struct ProbeSource {
    options: BlockReadOptions,
    needs: Needs,
}

impl ProbeSource {
    /// Creates a source for reads with `options`, which records missing blocks for others to read.
    #[must_use]
    pub fn new(options: BlockReadOptions) -> Self {
        ProbeSource {
            options,
            needs: Needs::default(),
        }
    }

    /// The options of block reads.
    #[must_use]
    pub fn options(&self) -> &BlockReadOptions {
        &self.options
    }

    /// The blocks recorded as missing.
    #[inline]
    #[must_use]
    pub fn needs(&self) -> &Needs {
        &self.needs
    }

    /// The blocks recorded as missing, for reading them and recording the outcomes.
    pub fn needs_mut(&mut self) -> &mut Needs {
        &mut self.needs
    }

    /// Returns the outcome of reading a recorded block, or a suspension; `None` if not recorded.
    #[cold]
    fn needed(
        &self,
        file: &Arc<TableFile>,
        handle: BlockHandle,
    ) -> Option<Result<Arc<CachedBlock>, Fault<NeedId>>> {
        let id = self.needs.find(file, handle)?;
        Some(match &self.needs.get(id)?.outcome {
            Some(Ok(block)) => Ok(Arc::clone(block)),
            Some(Err(error)) => Err(Fault::Error(error.clone())),
            None => Err(Fault::Suspend(id)),
        })
    }

    /// Returns a block after a cache miss, if it was read already or the file is mapped.
    ///
    /// Otherwise it records a need and suspends.
    ///
    /// # Errors
    /// See [`BlockSource::block`].
    #[cold]
    pub fn missed(
        &mut self,
        file: &Arc<TableFile>,
        handle: BlockHandle,
        kind: BlockKind,
    ) -> Result<Arc<CachedBlock>, Fault<NeedId>> {
        match self.needed(file, handle) {
            Some(outcome) => outcome,
            None => self.miss(file, handle, kind),
        }
    }

    /// Reads the block of a mapped file; for other files, records it as missing and suspends.
    #[cold]
    fn miss(
        &mut self,
        file: &Arc<TableFile>,
        handle: BlockHandle,
        kind: BlockKind,
    ) -> Result<Arc<CachedBlock>, Fault<NeedId>> {
        if self.options.cache_only {
            return Err(Fault::Error(not_cached()));
        }
        // An invalid handle is the error of the read that followed it.
        file.stored_bytes(handle, kind)?;
        if file.file.mapped().is_some() {
            return Ok(self.read(file, handle, kind)?);
        }
        Err(Fault::Suspend(self.needs.want(file, handle, kind)))
    }

    /// Reads a block from the file synchronously.
    fn read(
        &self,
        file: &TableFile,
        handle: BlockHandle,
        kind: BlockKind,
    ) -> Result<Arc<CachedBlock>, Error> {
        self.options.pay(handle.size);
        let block = Arc::new(file.read(handle, kind, self.options.verify_checksums)?);
        if self.options.fill_cache {
            file.publish(handle, kind, &block);
        }
        Ok(block)
    }

    /// Reads the missing block `id` synchronously, and records the outcome.
    pub fn read_in_place(&mut self, id: NeedId) {
        if let Some(need) = self.needs.get(id) {
            let outcome = self.read(&need.file, need.handle, need.kind);
            self.needs.settle(id, outcome);
        }
    }
}

impl BlockSource for ProbeSource {
    type Suspend = NeedId;

    #[inline]
    fn block(
        &mut self,
        file: &Arc<TableFile>,
        handle: BlockHandle,
        kind: BlockKind,
    ) -> Result<Arc<CachedBlock>, Fault<NeedId>> {
        if !self.needs.is_empty()
            && let Some(outcome) = self.needed(file, handle)
        {
            return outcome;
        }
        match file.cached(handle, kind) {
            Some(block) => Ok(block),
            None => self.miss(file, handle, kind),
        }
    }
}
