//! The hash index from tags to slots: open addressing with linear probing.
//!
//! A bucket holds a tag, which is 32 bits of the hash, and a slot number plus one; 0 is empty. The
//! tag determines a bucket's home, so that neither growing nor removing accesses entries. Removal
//! shifts later buckets back, so there are no tombstones and a search ends at the first empty
//! bucket.

use crate::entry::Place;

const BUCKETS_MIN: usize = 16;

pub(crate) struct Index {
    /// A power of two of buckets, at most three quarters full.
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
fn bucket(tag: u32, place: Place) -> u64 {
    u64::from(tag) << 32 | (u64::from(place) + 1)
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
fn place(bucket: u64) -> Place {
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
    pub(crate) fn find(&self, wanted: u32, is_it: impl Fn(Place) -> bool) -> Option<Place> {
        let mask = self.buckets.len() - 1;
        let mut at = wanted as usize & mask;
        loop {
            let bucket = self.buckets[at];
            if bucket == 0 {
                return None;
            }
            if tag(bucket) == wanted && is_it(place(bucket)) {
                return Some(place(bucket));
            }
            at = (at + 1) & mask;
        }
    }

    /// Adds a slot that is not in the index; returns true if the number of buckets grew.
    pub(crate) fn insert(&mut self, tag: u32, place: Place) -> bool {
        let grows = (self.len + 1) * 4 > self.buckets.len() * 3;
        if grows {
            let twice = vec![0; self.buckets.len() * 2];
            for old in std::mem::replace(&mut self.buckets, twice) {
                if old != 0 {
                    self.place_bucket(old);
                }
            }
        }
        self.place_bucket(bucket(tag, place));
        self.len += 1;
        grows
    }

    fn place_bucket(&mut self, bucket: u64) {
        let mask = self.buckets.len() - 1;
        let mut at = tag(bucket) as usize & mask;
        while self.buckets[at] != 0 {
            at = (at + 1) & mask;
        }
        self.buckets[at] = bucket;
    }

    /// Removes a slot that is in the index.
    pub(crate) fn remove(&mut self, tag_of_place: u32, place_removed: Place) {
        let wanted = bucket(tag_of_place, place_removed);
        let mask = self.buckets.len() - 1;
        let mut hole = tag_of_place as usize & mask;
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
            let mut model: HashMap<Place, u32> = HashMap::new();
            for (insert, tag, place) in steps {
                // Few homes, so that probe sequences collide and wrap around.
                let tag = tag % 5 * 7 + 13;
                if insert {
                    model.entry(place).or_insert_with(|| {
                        index.insert(tag, place);
                        tag
                    });
                } else if let Some(tag) = model.remove(&place) {
                    index.remove(tag, place);
                }
                for place in 0..64 {
                    for tag in [13, 20, 27, 34, 41] {
                        let found = index.find(tag, |candidate| candidate == place);
                        prop_assert_eq!(found.is_some(), model.get(&place) == Some(&tag));
                    }
                }
            }
        }
    }
}
