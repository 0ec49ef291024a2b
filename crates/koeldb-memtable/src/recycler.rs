//! A recycler of the memory of dropped memtables for new ones.
//!
//! A memtable that begins with fresh memory pays for a page fault every 4 KiB, and one with a
//! bucket array of megabytes for many in a row. A database therefore keeps the blocks and the
//! arrays of dropped memtables, and clears the arrays on dropping, which happens in the background.
//! The amount kept is bounded by a limit, and by the decrease of memtable memory since its peak:
//! including kept memory, memtables of the same shape never take more than they once did without
//! it. When writes stop, blocks are returned to the system.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::arena::Block;
use crate::rep::{BucketArray, MemtableOptions, bucket_count};
use koeldb_base::sync::lock_plain as lock;

/// The number of bucket arrays kept, of any size: those of a memtable in use and of a flushed one.
const ARRAYS_MAX: usize = 4;
/// The limit of the memory kept, as a multiple of the memory in use.
///
/// A memtable that is flushed while its successor is a fifth full is thus kept whole.
const KEPT_PER_USED: usize = 4;

/// A pool of the arena blocks and bucket arrays of dropped memtables, for reuse by new ones.
///
/// A database has one.
///
/// Any number of threads may use it concurrently.
pub struct Recycler {
    max_bytes: usize,
    held_bytes: AtomicUsize,
    /// The bytes that memtables use.
    used_bytes: AtomicUsize,
    /// The maximum of `used_bytes` so far.
    used_bytes_max: AtomicUsize,
    blocks: Mutex<Vec<Block>>,
    arrays: Mutex<VecDeque<BucketArray>>,
}

impl Recycler {
    /// Creates an empty recycler that keeps up to `max_bytes` bytes.
    #[must_use]
    pub fn new(max_bytes: usize) -> Arc<Self> {
        Arc::new(Recycler {
            max_bytes,
            held_bytes: AtomicUsize::new(0),
            used_bytes: AtomicUsize::new(0),
            used_bytes_max: AtomicUsize::new(0),
            blocks: Mutex::default(),
            arrays: Mutex::default(),
        })
    }

    /// The bytes of the blocks and arrays kept for reuse.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.held_bytes.load(Ordering::Relaxed)
    }

    /// Creates and clears a bucket array in advance for a memtable with these options.
    ///
    /// Takes milliseconds for an array of megabytes: to be called in the background, before the
    /// switch.
    pub fn prepare(&self, options: &MemtableOptions) {
        let Some(count) = bucket_count(options, None) else {
            return;
        };
        let missing = !lock(&self.arrays).iter().any(|array| array.is_for(count));
        if missing {
            let mut array = BucketArray::new(count);
            array.clear();
            self.note_taken(array.memory_bytes());
            self.give_array(array);
        }
    }

    /// Adds bytes that a memtable takes, recycled or not, to the memory in use.
    fn note_taken(&self, bytes: usize) {
        let used = self.used_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.used_bytes_max.fetch_max(used, Ordering::Relaxed);
    }

    /// Removes and returns a kept block of exactly `bytes` bytes; `None` if there is none.
    ///
    /// The bytes count as in use in any case.
    pub(crate) fn take_block(&self, bytes: usize) -> Option<Block> {
        self.note_taken(bytes);
        let mut blocks = lock(&self.blocks);
        let at = blocks.iter().rposition(|block| block.bytes() == bytes)?;
        self.held_bytes.fetch_sub(bytes, Ordering::Relaxed);
        Some(blocks.swap_remove(at))
    }

    /// Returns the blocks of a dropped memtable to the pool, which keeps them within its limits.
    ///
    /// Few are kept if other memtables use little: without writers they would not be needed soon.
    pub(crate) fn give_blocks(&self, blocks: impl IntoIterator<Item = Block>, bytes: usize) {
        let used = self.note_given(bytes);
        let wanted = used.saturating_mul(KEPT_PER_USED);
        for block in blocks {
            if self.has_room(block.bytes(), used, wanted) {
                lock(&self.blocks).push(block);
            }
        }
    }

    /// Removes and returns a kept bucket array for `count` keys; `None` if there is none.
    ///
    /// The bytes count as in use in any case.
    pub(crate) fn take_array(&self, count: usize) -> Option<BucketArray> {
        self.note_taken(BucketArray::bytes_of(count));
        let mut arrays = lock(&self.arrays);
        let at = arrays.iter().position(|array| array.is_for(count))?;
        let array = arrays.remove(at)?;
        self.held_bytes
            .fetch_sub(array.memory_bytes(), Ordering::Relaxed);
        Some(array)
    }

    /// Returns a cleared bucket array to the pool, which may drop its oldest array in exchange.
    pub(crate) fn give_array(&self, array: BucketArray) {
        let mut arrays = lock(&self.arrays);
        if arrays.len() >= ARRAYS_MAX
            && let Some(oldest) = arrays.pop_front()
        {
            self.held_bytes
                .fetch_sub(oldest.memory_bytes(), Ordering::Relaxed);
        }
        let used = self.note_given(array.memory_bytes());
        if self.has_room(array.memory_bytes(), used, usize::MAX) {
            arrays.push_back(array);
        }
    }

    /// Subtracts bytes that a memtable returns from the memory in use; returns what is left.
    fn note_given(&self, bytes: usize) -> usize {
        self.used_bytes.fetch_sub(bytes, Ordering::Relaxed) - bytes
    }

    /// Reserves room to keep `bytes` more in the pool; returns false if that exceeds a limit.
    ///
    /// The limits are `max_bytes`, `wanted`, and the peak of used bytes less `used`.
    fn has_room(&self, bytes: usize, used: usize, wanted: usize) -> bool {
        let most = self.used_bytes_max.load(Ordering::Relaxed);
        let limit = self.max_bytes.min(most.saturating_sub(used)).min(wanted);
        let held = self.held_bytes.fetch_add(bytes, Ordering::Relaxed);
        let has_room = held + bytes <= limit;
        if !has_room {
            self.held_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        has_room
    }
}

impl fmt::Debug for Recycler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recycler")
            .field("memory_bytes", &self.memory_bytes())
            .field("max_bytes", &self.max_bytes)
            .finish_non_exhaustive()
    }
}
