//! The hash index from tags to slots: open addressing with linear probing.
//!
//! A bucket holds a tag, which is 32 bits of the hash, and a slot number plus one; 0 is empty. The
//! tag determines a bucket's home, so that neither growing nor removing accesses entries. Removal
//! shifts later buckets back, so there are no tombstones and a search ends at the first empty
//! bucket.
//!
//! Lookups read the buckets while the holder of the shard's lock changes them. A bucket is a hint
//! to them: the slot itself says whether it has the entry, and a lookup that finds none repeats the
//! search with the lock.

use std::sync::atomic::Ordering;

use crate::sync::AtomicU64;

/// The number of an entry's slot in its shard.
pub(crate) type SlotIndex = u32;

/// The slot index that stands for no slot.
pub(crate) const NOWHERE: SlotIndex = u32::MAX;

/// A hash index from 32-bit hash tags to slot numbers, with open addressing and linear probing.
pub(crate) struct Index {
    /// The buckets, a power of two of them, at most three quarters full.
    buckets: Box<[AtomicU64]>,
}

/// Returns the tag of a key hash: the low 32 bits, by which the index finds a slot.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "a part of the hash")]
pub(crate) fn tag_of(hash: u64) -> u32 {
    hash as u32
}

/// Encodes a bucket: the tag in the high half, the slot number plus one in the low half.
#[inline]
fn bucket(tag: u32, slot: SlotIndex) -> u64 {
    u64::from(tag) << 32 | (u64::from(slot) + 1)
}

/// Returns the tag of a bucket.
#[inline]
fn tag(bucket: u64) -> u32 {
    (bucket >> 32) as u32
}

/// Returns the slot number of a bucket that is not empty.
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "the low half, which is not 0"
)]
fn slot(bucket: u64) -> SlotIndex {
    bucket as u32 - 1
}

impl Index {
    /// Creates an empty index with `bucket_count` buckets, a power of two.
    pub(crate) fn new(bucket_count: usize) -> Self {
        Index {
            buckets: (0..bucket_count).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    pub(crate) fn bucket_count(&self) -> usize {
        self.buckets.len()
    }

    /// The number of slots that the index may hold before it must grow: 3/4 of its buckets.
    pub(crate) fn len_max(&self) -> usize {
        self.buckets.len() / 4 * 3
    }

    /// Searches the slots with tag `wanted` for the first for which `of` returns `Some`.
    ///
    /// Without the lock it may miss a slot whose bucket moves at the time, and meet slots that were
    /// removed. The number of steps is limited, since the buckets may change all the time.
    #[inline]
    pub(crate) fn find<R>(&self, wanted: u32, of: impl Fn(SlotIndex) -> Option<R>) -> Option<R> {
        let mask = self.buckets.len() - 1;
        let mut at = wanted as usize & mask;
        for _ in 0..self.buckets.len() {
            let bucket = self.get(at);
            if bucket == 0 {
                return None;
            }
            if tag(bucket) == wanted
                && let Some(found) = of(slot(bucket))
            {
                return Some(found);
            }
            at = (at + 1) & mask;
        }
        None
    }

    /// Adds a slot under a tag. The caller holds the lock and is below [`Index::len_max`].
    pub(crate) fn insert(&self, tag: u32, slot: SlotIndex) {
        self.insert_bucket(bucket(tag, slot));
    }

    /// Copies all buckets of a smaller index `other` into this one, which no thread reads yet.
    pub(crate) fn insert_all(&self, other: &Index) {
        for bucket in (0..other.buckets.len()).map(|at| other.get(at)) {
            if bucket != 0 {
                self.insert_bucket(bucket);
            }
        }
    }

    /// Stores a bucket in the first empty place of its probe sequence. The lock must be held.
    fn insert_bucket(&self, bucket: u64) {
        let mask = self.buckets.len() - 1;
        let mut at = tag(bucket) as usize & mask;
        while self.get(at) != 0 {
            at = (at + 1) & mask;
        }
        self.set(at, bucket);
    }

    /// Removes a slot that is in the index. Only the holder of the lock may call this.
    pub(crate) fn remove(&self, tag_of_removed: u32, removed: SlotIndex) {
        let wanted = bucket(tag_of_removed, removed);
        let mask = self.buckets.len() - 1;
        let mut hole = tag_of_removed as usize & mask;
        while self.get(hole) != wanted {
            debug_assert!(self.get(hole) != 0, "the slot is in the index");
            hole = (hole + 1) & mask;
        }
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let bucket = self.get(at);
            if bucket == 0 {
                break;
            }
            // A bucket may move back to the hole unless the hole lies before its home.
            let home = tag(bucket) as usize & mask;
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(hole) & mask) {
                self.set(hole, bucket);
                hole = at;
            }
        }
        self.set(hole, 0);
    }

    /// Loads the bucket at `at` with acquire, so that the slot it refers to is visible.
    #[inline]
    fn get(&self, at: usize) -> u64 {
        self.buckets[at].load(Ordering::Acquire)
    }

    /// Stores a bucket at `at` with release, which publishes its slot to lock-free lookups.
    fn set(&self, at: usize, bucket: u64) {
        self.buckets[at].store(bucket, Ordering::Release);
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        // Each step searches for every slot under every tag.
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        #[cfg_attr(miri, ignore = "many searches, and no unsafe code")]
        fn finds_what_a_map_finds(steps in prop::collection::vec((any::<bool>(), 0..40_u32, 0..64_u32), 0..400)) {
            let mut index = Index::new(16);
            let mut model: HashMap<SlotIndex, u32> = HashMap::new();
            for (insert, tag, slot) in steps {
                // Few homes, so that probe sequences collide and wrap around.
                let tag = tag % 5 * 7 + 13;
                let len = model.len();
                if insert {
                    model.entry(slot).or_insert_with(|| {
                        if len == index.len_max() {
                            let twice = Index::new(2 * index.bucket_count());
                            twice.insert_all(&index);
                            index = twice;
                        }
                        index.insert(tag, slot);
                        tag
                    });
                } else if let Some(tag) = model.remove(&slot) {
                    index.remove(tag, slot);
                }
                for slot in 0..64 {
                    for tag in [13, 20, 27, 34, 41] {
                        let found = index.find(tag, |candidate| (candidate == slot).then_some(()));
                        prop_assert_eq!(found.is_some(), model.get(&slot) == Some(&tag));
                    }
                }
            }
        }
    }
}
