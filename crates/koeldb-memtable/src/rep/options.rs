//! The settings of a memtable: of its representation, its memory and its filter.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use koeldb_base::prefix::PrefixExtractor;

use super::kind::RepKind;
use super::sorted_hash::Sorter;
use crate::bloom::BloomOptions;
use crate::recycler::Recycler;

/// The settings of a memtable.
#[derive(Clone)]
pub struct MemtableOptions {
    /// The representation, which orders the entries.
    pub rep: RepKind,
    /// The size of an arena block once the memtable is no longer small.
    pub arena_block_bytes: usize,
    /// The Bloom filter, if enabled.
    pub bloom: Option<BloomOptions>,
    /// The size in bytes at which the memtable will be sealed; hash tables are sized by it.
    pub write_buffer_bytes: usize,
    /// The prefix extractor of [`RepKind::HashSkipList`] and [`RepKind::HashLinkList`].
    pub prefixes: Option<Arc<dyn PrefixExtractor>>,
    /// The source of recycled memory, if set.
    pub recycler: Option<Arc<Recycler>>,
    /// The function that receives sort tasks to run them in the background, if set.
    pub sorter: Option<Sorter>,
    /// Whether keys are hashed with the same seed in every memtable, so that a run can be repeated;
    /// otherwise with a random one.
    pub fixed_hash_seed: bool,
    /// The bytes of checksum per point entry, at most 8; 0 for none.
    pub protection_bytes: usize,
    /// Whether cursors verify the order of the keys they pass (`paranoid_memory_checks`).
    pub checks_order: bool,
    /// Whether the newest user-defined timestamp is tracked, if keys have timestamps.
    pub tracks_timestamps: bool,
    /// A charge that is dropped when the memory of the entries is freed.
    ///
    /// Pinned values may keep that memory longer than the memtable.
    pub charge: Option<Arc<dyn Any + Send + Sync>>,
}

impl Default for MemtableOptions {
    fn default() -> Self {
        MemtableOptions {
            rep: RepKind::default(),
            arena_block_bytes: 1 << 20,
            bloom: None,
            write_buffer_bytes: 64 << 20,
            prefixes: None,
            recycler: None,
            sorter: None,
            fixed_hash_seed: false,
            protection_bytes: 0,
            checks_order: false,
            tracks_timestamps: false,
            charge: None,
        }
    }
}

impl fmt::Debug for MemtableOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemtableOptions")
            .field("rep", &self.rep)
            .field("arena_block_bytes", &self.arena_block_bytes)
            .field("bloom", &self.bloom.is_some())
            .field("write_buffer_bytes", &self.write_buffer_bytes)
            .field("prefixes", &self.prefixes.is_some())
            .field("recycler", &self.recycler)
            .field("sorter", &self.sorter.is_some())
            .field("fixed_hash_seed", &self.fixed_hash_seed)
            .field("protection_bytes", &self.protection_bytes)
            .field("checks_order", &self.checks_order)
            .finish()
    }
}
