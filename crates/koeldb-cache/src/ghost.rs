//! The ghost table of S3-FIFO: tags of evicted entries.
//!
//! A tag is stored in one of four neighbouring buckets, with the time it was added; time counts
//! additions. A new tag replaces the oldest of the four. Forgetting early and confusing tags merely
//! lead to a worse eviction choice.

/// The number of buckets in a group; a tag is stored in any bucket of its group.
const GROUP: usize = 4;

/// The ghost table of S3-FIFO: hash tags of entries recently evicted from the small queue.
///
/// It is a 4-way set-associative table.
pub(crate) struct Ghosts {
    /// The buckets: a tag in the high half, its insertion time in the low half.
    buckets: Vec<u64>,
    now: u32,
}

impl Ghosts {
    pub(crate) fn new() -> Self {
        Ghosts {
            buckets: vec![0; GROUP],
            now: 0,
        }
    }

    /// Grows the table to `count` buckets, a power of two that is not smaller than before.
    ///
    /// The tags of a group move to groups of its own, so none is lost.
    pub(crate) fn resize(&mut self, count: usize) {
        let empty = vec![0; count.max(GROUP)];
        let old = std::mem::replace(&mut self.buckets, empty);
        for held in old.into_iter().filter(|&bucket| bucket != 0) {
            self.put(held);
        }
    }

    /// Adds the tag of an evicted entry; it may replace the oldest tag of its group of buckets.
    pub(crate) fn add(&mut self, tag: u32) {
        self.now = self.now.wrapping_add(1);
        self.put(u64::from(tag) << 32 | u64::from(self.now));
    }

    /// Removes `tag` from the table; returns whether it was among the last `window` tags added.
    pub(crate) fn recall(&mut self, tag: u32, window: usize) -> bool {
        let group = self.group(tag);
        let Some(at) = (group..group + GROUP).find(|&at| tag_of(self.buckets[at]) == tag) else {
            return false;
        };
        let recent = (self.age(self.buckets[at]) as usize) < window;
        self.buckets[at] = 0;
        recent
    }

    /// Stores a tag and its time in an empty bucket of its group, or in place of the oldest tag.
    fn put(&mut self, bucket: u64) {
        let group = self.group(tag_of(bucket));
        let oldest = (group..group + GROUP).max_by_key(|&at| match self.buckets[at] {
            0 => u32::MAX,
            held => self.age(held),
        });
        if let Some(at) = oldest {
            self.buckets[at] = bucket;
        }
    }

    /// Returns the index of the first of the four buckets that may hold a tag.
    fn group(&self, tag: u32) -> usize {
        tag as usize & (self.buckets.len() - 1) & !(GROUP - 1)
    }

    /// Returns the number of tags added since that of `bucket`.
    #[expect(clippy::cast_possible_truncation, reason = "the low half")]
    fn age(&self, bucket: u64) -> u32 {
        self.now.wrapping_sub(bucket as u32)
    }
}

/// Returns the tag of a bucket, its high half.
fn tag_of(bucket: u64) -> u32 {
    (bucket >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scattered(i: u32) -> u32 {
        i.wrapping_mul(0x9e37_79b1)
    }

    #[test]
    fn the_last_tags_are_recalled_once() {
        let mut ghosts = Ghosts::new();
        ghosts.resize(64);
        for tag in 1..=20 {
            ghosts.add(scattered(tag));
        }
        assert!(!ghosts.recall(scattered(10), 5), "too long ago");
        assert!(ghosts.recall(scattered(20), 5));
        assert!(!ghosts.recall(scattered(20), 5));
        ghosts.resize(128);
        assert!(ghosts.recall(scattered(19), 5), "growing keeps them");
    }
}
