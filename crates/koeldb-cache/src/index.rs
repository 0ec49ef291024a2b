//! The hash index from tags to slots: open addressing with linear probing.
//!
//! A bucket holds a tag, which is 32 bits of the hash, and a slot number plus one; 0 is empty. The
//! tag determines a bucket's home, so that neither growing nor removing accesses entries. Removal
//! shifts later buckets back, so there are no tombstones and a search ends at the first empty
//! bucket.

use crate::entry::SlotIndex;

const BUCKETS_MIN: usize = 16;

pub(crate) struct Index {
    /// The buckets, a power of two of them, at most three quarters full.
    buckets: Vec<u64>,
    len: usize,
}

/// The part of a hash that the index uses. The highest bits choose the shard.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "a part of the hash")]
pub(crate) fn tag_of(hash: u64) -> u32 {
    hash as u32
}

#[inline]
fn bucket(tag: u32, slot: SlotIndex) -> u64 {
    u64::from(tag) << 32 | (u64::from(slot) + 1)
}

#[inline]
fn tag(bucket: u64) -> u32 {
    (bucket >> 32) as u32
}

#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "the low half, which is not 0"
)]
fn slot(bucket: u64) -> SlotIndex {
    bucket as u32 - 1
}

impl Index {
    pub(crate) fn new() -> Self {
        Index {
            buckets: vec![0; BUCKETS_MIN],
            len: 0,
        }
    }

    pub(crate) fn bucket_count(&self) -> usize {
        self.buckets.len()
    }

    /// The slot with tag `wanted` that satisfies `is_it`.
    #[inline]
    pub(crate) fn find(&self, wanted: u32, is_it: impl Fn(SlotIndex) -> bool) -> Option<SlotIndex> {
        let mask = self.buckets.len() - 1;
        let mut at = wanted as usize & mask;
        loop {
            let bucket = self.buckets[at];
            if bucket == 0 {
                return None;
            }
            if tag(bucket) == wanted && is_it(slot(bucket)) {
                return Some(slot(bucket));
            }
            at = (at + 1) & mask;
        }
    }

    /// Adds a slot that is not in the index; returns true if the number of buckets grew.
    pub(crate) fn insert(&mut self, tag: u32, slot: SlotIndex) -> bool {
        let grows = (self.len + 1) * 4 > self.buckets.len() * 3;
        if grows {
            let twice = vec![0; self.buckets.len() * 2];
            for old in std::mem::replace(&mut self.buckets, twice) {
                if old != 0 {
                    self.insert_bucket(old);
                }
            }
        }
        self.insert_bucket(bucket(tag, slot));
        self.len += 1;
        grows
    }

    fn insert_bucket(&mut self, bucket: u64) {
        let mask = self.buckets.len() - 1;
        let mut at = tag(bucket) as usize & mask;
        while self.buckets[at] != 0 {
            at = (at + 1) & mask;
        }
        self.buckets[at] = bucket;
    }

    /// Removes a slot that is in the index.
    pub(crate) fn remove(&mut self, tag_of_removed: u32, removed: SlotIndex) {
        let wanted = bucket(tag_of_removed, removed);
        let mask = self.buckets.len() - 1;
        let mut hole = tag_of_removed as usize & mask;
        while self.buckets[hole] != wanted {
            debug_assert!(self.buckets[hole] != 0, "the place is in the index");
            hole = (hole + 1) & mask;
        }
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let bucket = self.buckets[at];
            if bucket == 0 {
                break;
            }
            // A bucket may move back to the hole unless the hole lies before its home.
            let home = tag(bucket) as usize & mask;
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(hole) & mask) {
                self.buckets[hole] = bucket;
                hole = at;
            }
        }
        self.buckets[hole] = 0;
        self.len -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn finds_what_a_map_finds(steps in prop::collection::vec((any::<bool>(), 0..40_u32, 0..64_u32), 0..400)) {
            let mut index = Index::new();
            let mut model: HashMap<SlotIndex, u32> = HashMap::new();
            for (insert, tag, slot) in steps {
                // Few homes, so that probe sequences collide and wrap around.
                let tag = tag % 5 * 7 + 13;
                if insert {
                    model.entry(slot).or_insert_with(|| {
                        index.insert(tag, slot);
                        tag
                    });
                } else if let Some(tag) = model.remove(&slot) {
                    index.remove(tag, slot);
                }
                for slot in 0..64 {
                    for tag in [13, 20, 27, 34, 41] {
                        let found = index.find(tag, |candidate| candidate == slot);
                        prop_assert_eq!(found.is_some(), model.get(&slot) == Some(&tag));
                    }
                }
            }
        }
    }
}
