//! The division of a compaction into parts by key range, which several threads can run.
//!
//! All versions of a user key are in one part, so that each part decides on its keys alone. Borders
//! are chosen from keys that divide the inputs into pieces of known size (RocksDB:
//! `db/compaction/compaction_job.cc`, `GenSubcompactionBoundaries`; 11.9).

use koeldb_base::key::{MAX_SEQNO, encode, user_key};
use koeldb_base::{Blocking, Cursor, Fault, KeyOrder, PinnedSlice, Result, ValueType};
use koeldb_table::reader::Anchor;

/// The maximum number of anchors, keys that divide a table into pieces of known size, of a table.
pub(super) const ANCHORS_MAX: usize = 128;

/// Returns user keys that divide a compaction into up to `count` parts of similar size.
///
/// (RocksDB: `GenSubcompactionBoundaries`.)
///
/// A part gets at least `part_bytes_min` bytes. A key begins the part after it.
pub(super) fn borders(
    order: &KeyOrder,
    mut anchors: Vec<Anchor>,
    count: usize,
    part_bytes_min: u64,
) -> Vec<Vec<u8>> {
    let total: u64 = anchors.iter().map(|anchor| anchor.bytes).sum();
    let target = (total / count.max(1) as u64).max(part_bytes_min).max(1);
    if target >= total {
        return Vec::new();
    }
    if order.has_timestamps() {
        for anchor in &mut anchors {
            anchor.user_key = order.before_versions(&anchor.user_key);
        }
    }
    anchors.sort_by(|a, b| order.compare(&a.user_key, &b.user_key));
    anchors.dedup_by(|next, kept| {
        let is_same = order.equal(&next.user_key, &kept.user_key);
        kept.bytes += if is_same { next.bytes } else { 0 };
        is_same
    });
    // After the last anchor there is nothing.
    anchors.pop();
    let (mut borders, mut passed, mut next) = (Vec::new(), 0, target);
    for anchor in anchors {
        passed += anchor.bytes;
        if passed >= next && borders.len() + 1 < count {
            borders.push(anchor.user_key);
            while next <= passed {
                next += target;
            }
        }
    }
    borders
}

/// The user key range of a subcompaction, inclusive of `from` and exclusive of `to`.
#[derive(Clone, Debug, Default)]
pub struct PartRange {
    /// The first user key; `None` for no bound.
    pub from: Option<Vec<u8>>,
    /// The first user key after the range; `None` for no bound.
    pub to: Option<Vec<u8>>,
}

impl PartRange {
    /// Whether the range contains all keys.
    #[must_use]
    pub fn is_unbounded(&self) -> bool {
        self.from.is_none() && self.to.is_none()
    }
}

/// Returns the ranges of user keys between consecutive subcompaction borders.
pub(super) fn ranges(borders: Vec<Vec<u8>>) -> Vec<PartRange> {
    let mut ranges = Vec::with_capacity(borders.len() + 1);
    let mut from = None;
    for border in borders {
        let to = Some(border.clone());
        ranges.push(PartRange { from, to });
        from = Some(border);
    }
    ranges.push(PartRange { from, to: None });
    ranges
}

/// A forward cursor restricted to the key range of one subcompaction.
pub(super) struct PartCursor<C> {
    inner: C,
    order: KeyOrder,
    range: PartRange,
    is_inside: bool,
}

impl<C: Cursor<Suspend = Blocking>> PartCursor<C> {
    pub(super) fn new(inner: C, order: KeyOrder, range: PartRange) -> Self {
        PartCursor {
            inner,
            order,
            range,
            is_inside: false,
        }
    }

    /// Updates the validity: whether the inner cursor is before the end of the range.
    fn check_end(&mut self) {
        self.is_inside = self.inner.valid()
            && self.range.to.as_ref().is_none_or(|to| {
                let key = user_key(self.inner.key());
                self.order.compare(key, to).is_lt()
            });
    }
}

impl<C: Cursor<Suspend = Blocking>> Cursor for PartCursor<C> {
    type Suspend = Blocking;

    fn valid(&self) -> bool {
        self.is_inside
    }

    fn seek_to_first(&mut self) -> Result<(), Fault<Blocking>> {
        match &self.range.from {
            None => self.inner.seek_to_first()?,
            Some(from) => {
                let before = encode(from, MAX_SEQNO, ValueType::RangeDeletion);
                self.inner.seek(&before)?;
            }
        }
        self.check_end();
        Ok(())
    }

    fn next(&mut self) -> Result<(), Fault<Blocking>> {
        self.inner.next()?;
        self.check_end();
        Ok(())
    }

    fn key(&self) -> &[u8] {
        self.inner.key()
    }

    fn value(&self) -> &[u8] {
        self.inner.value()
    }

    fn pinned_value(&self) -> PinnedSlice {
        self.inner.pinned_value()
    }

    // A compaction only moves forward.

    fn seek_to_last(&mut self) -> Result<(), Fault<Blocking>> {
        unreachable!("a compaction reads forward")
    }

    fn seek(&mut self, _target: &[u8]) -> Result<(), Fault<Blocking>> {
        unreachable!("a compaction reads its whole range")
    }

    fn seek_for_prev(&mut self, _target: &[u8]) -> Result<(), Fault<Blocking>> {
        unreachable!("a compaction reads forward")
    }

    fn prev(&mut self) -> Result<(), Fault<Blocking>> {
        unreachable!("a compaction reads forward")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anchor(key: &str, bytes: u64) -> Anchor {
        Anchor {
            user_key: key.into(),
            bytes,
        }
    }

    fn chosen(anchors: &[(&str, u64)], count: usize, min: u64) -> Vec<String> {
        let anchors = anchors.iter().map(|(key, bytes)| anchor(key, *bytes));
        borders(&KeyOrder::default(), anchors.collect(), count, min)
            .into_iter()
            .map(|key| String::from_utf8(key).unwrap())
            .collect()
    }

    #[test]
    fn parts_are_of_similar_size() {
        let even = [("d", 10), ("b", 10), ("a", 10), ("c", 10)];
        assert_eq!(chosen(&even, 2, 0), ["b"]);
        assert_eq!(chosen(&even, 4, 0), ["a", "b", "c"]);
        assert_eq!(chosen(&even, 9, 0), ["a", "b", "c"]);
        assert_eq!(chosen(&even, 4, 20), ["b"]);
        assert!(chosen(&even, 4, 40).is_empty());
        assert!(chosen(&even, 1, 0).is_empty());
        assert!(chosen(&[], 4, 0).is_empty());
    }

    #[test]
    fn equal_keys_of_several_tables_count_together() {
        let skewed = [("a", 1), ("m", 50), ("m", 50), ("z", 100)];
        assert_eq!(chosen(&skewed, 2, 0), ["m"]);
        assert!(chosen(&[("a", 1000), ("a", 1000)], 2, 0).is_empty());
    }
}
