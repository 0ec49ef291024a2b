//! The tombstones of a sorted run: those of its tables, each truncated to its table.
//!
//! A scan needs a search only where the covering tombstone changes: a [`Coverage`] includes the
//! range of keys, in both directions, for which it holds.

use std::sync::Arc;

use super::{Border, Fragment, FragmentedTombstones};
use crate::key::{MAX_SEQNO, SeqNo, ValueType, encode_into};
use crate::timestamp::Timestamp;

/// The newest visible tombstone over a key, and the range of keys for which it is the newest.
#[derive(Clone, Copy, Debug)]
pub struct Coverage<'t> {
    /// The sequence number of the tombstone; 0 if there is none.
    pub seqno: SeqNo,
    /// The start of the range of keys for which `seqno` holds; `None` for no bound.
    since: Option<Border<'t>>,
    /// The end of that range; `None` for no bound.
    until: Option<Border<'t>>,
}

impl<'t> Coverage<'t> {
    /// Returns the coverage without a tombstone, which holds for all keys.
    #[must_use]
    pub fn none() -> Self {
        Coverage {
            seqno: 0,
            since: None,
            until: None,
        }
    }

    /// Combines two coverages: the newer tombstone, for the keys for which both coverages hold.
    #[must_use]
    pub fn and(self, order: &crate::KeyOrder, other: Coverage<'t>) -> Self {
        let later = |a: Border<'t>, b: Border<'t>| match a.compare(order, b).is_lt() {
            true => b,
            false => a,
        };
        let earlier = |a: Border<'t>, b: Border<'t>| match a.compare(order, b).is_lt() {
            true => a,
            false => b,
        };
        Coverage {
            seqno: self.seqno.max(other.seqno),
            since: match (self.since, other.since) {
                (Some(a), Some(b)) => Some(later(a, b)),
                (a, b) => a.or(b),
            },
            until: match (self.until, other.until) {
                (Some(a), Some(b)) => Some(earlier(a, b)),
                (a, b) => a.or(b),
            },
        }
    }

    /// Copies the range of keys for which the coverage holds.
    #[must_use]
    pub fn range(&self) -> CoveredRange {
        let copy = |border: Border<'_>| (border.key.to_vec(), border.is_behind);
        CoveredRange {
            since: self.since.map(copy),
            until: self.until.map(copy),
        }
    }
}

/// The range of keys for which a [`Coverage`] holds, with copies of its bounds.
#[derive(Clone, Debug)]
pub struct CoveredRange {
    since: Option<(Vec<u8>, bool)>,
    until: Option<(Vec<u8>, bool)>,
}

/// Borrows a copied border: its key, and whether it is behind the entries of the key.
fn border(of: &(Vec<u8>, bool)) -> Border<'_> {
    Border {
        key: &of.0,
        is_behind: of.1,
    }
}

impl CoveredRange {
    /// Whether a user key is in the range.
    #[inline]
    #[must_use]
    pub fn contains(&self, order: &crate::KeyOrder, user_key: &[u8]) -> bool {
        let key = Border::before(user_key);
        let is_before = |until: &(Vec<u8>, bool)| key.compare(order, border(until)).is_lt();
        let is_since = |since: &(Vec<u8>, bool)| key.compare(order, border(since)).is_ge();
        self.until.as_ref().is_none_or(is_before) && self.since.as_ref().is_none_or(is_since)
    }
}

/// The range tombstones of a sorted run: those of its tables, each list truncated to its table.
#[derive(Clone, Debug)]
pub struct RunTombstones {
    /// The tombstones of each table that has any, in key order; neighbours share at most one key.
    lists: Arc<[Arc<FragmentedTombstones>]>,
}

impl RunTombstones {
    /// Collects the tombstones of the tables of a run, which are given in key order.
    ///
    /// Each list is truncated to its table. `None` if there are no tombstones.
    #[must_use]
    pub fn new(lists: impl IntoIterator<Item = Arc<FragmentedTombstones>>) -> Option<Self> {
        let lists: Vec<_> = lists.into_iter().filter(|list| !list.is_empty()).collect();
        (!lists.is_empty()).then(|| RunTombstones {
            lists: lists.into(),
        })
    }

    /// The tombstones that a read at the timestamp `time` sees, with keys without timestamps.
    #[must_use]
    pub fn as_of(&self, time: &Timestamp) -> Option<Self> {
        let lists = self.lists.iter();
        Self::new(lists.map(|list| Arc::new(list.as_of(time))))
    }

    /// The tombstones that a scan of versions up to the timestamp `time` sees.
    #[must_use]
    pub fn up_to(&self, time: &Timestamp) -> Option<Self> {
        let lists = self.lists.iter();
        Self::new(lists.map(|list| Arc::new(list.up_to(time))))
    }

    /// The newest sequence number of all tombstones.
    #[must_use]
    pub fn seqno_max(&self) -> SeqNo {
        let seqnos = self.lists.iter().map(|list| list.seqno_max());
        seqnos.max().unwrap_or(0)
    }

    /// Returns the newest tombstone over `user_key` visible at `snapshot`, and its range of keys.
    #[must_use]
    pub fn coverage(&self, user_key: &[u8], snapshot: SeqNo) -> Coverage<'_> {
        let key = Border::before(user_key);
        let order = &self.lists[0].order;
        let first = self.first_behind(key);
        let before = first.checked_sub(1).and_then(|at| self.lists.get(at));
        let mut coverage = Coverage {
            seqno: 0,
            since: before.and_then(|list| list.end()),
            until: None,
        };
        for list in &self.lists[first..] {
            coverage = coverage.and(order, list.coverage(key, snapshot));
            let begins_behind = |from: Border<'_>| from.compare(order, key).is_gt();
            if list.start().is_some_and(begins_behind) {
                break;
            }
        }
        coverage
    }

    /// Returns the index of the first list whose tombstones end after `key`.
    fn first_behind(&self, key: Border<'_>) -> usize {
        self.lists.partition_point(|list| {
            let ends_before = |end: Border<'_>| end.compare(&list.order, key).is_le();
            list.end().is_none_or(ends_before)
        })
    }

    /// Sets `target` behind the tombstones that cover `user_key` at `snapshot`; false if none does.
    ///
    /// It is also past all tombstones that follow without a gap. Returns `false` if none covers
    /// the key.
    pub fn seek_behind(&self, user_key: &[u8], snapshot: SeqNo, target: &mut Vec<u8>) -> bool {
        let key = Border::before(user_key);
        let order = &self.lists[0].order;
        let fragments = self.lists[self.first_behind(key)..]
            .iter()
            .flat_map(|list| &list.fragments);
        let mut end: Option<Border<'_>> = None;
        for fragment in fragments {
            if fragment.to().compare(order, end.unwrap_or(key)).is_le() {
                continue;
            }
            let is_beyond = fragment.from().compare(order, end.unwrap_or(key)).is_gt();
            if is_beyond || fragment.visible(snapshot) == 0 {
                break;
            }
            end = Some(fragment.to());
        }
        end.inspect(|&end| write_position(end, target)).is_some()
    }

    /// Sets `target`, to seek backward, before the tombstones that cover `user_key`; false if none.
    ///
    /// It is also before all tombstones that precede them without a gap. Returns `false` if none
    /// covers the key.
    pub fn seek_before(&self, user_key: &[u8], snapshot: SeqNo, target: &mut Vec<u8>) -> bool {
        let key = Border::behind(user_key);
        let order = &self.lists[0].order;
        let behind = self.lists.partition_point(|list| {
            let begins_before = |from: Border<'_>| from.compare(order, key).is_lt();
            list.start().is_none_or(begins_before)
        });
        let fragments = self.lists[..behind]
            .iter()
            .rev()
            .flat_map(|list| list.fragments.iter().rev());
        let mut start: Option<Border<'_>> = None;
        for fragment in fragments {
            if fragment.from().compare(order, start.unwrap_or(key)).is_ge() {
                continue;
            }
            let is_beyond = match start {
                Some(start) => fragment.to().compare(order, start).is_lt(),
                None => fragment
                    .to()
                    .compare(order, Border::before(user_key))
                    .is_le(),
            };
            // A fragment that begins behind the key does not cover it.
            let misses = start.is_none()
                && (fragment.from().compare(order, Border::before(user_key))).is_gt();
            if misses {
                continue;
            }
            if is_beyond || fragment.visible(snapshot) == 0 {
                break;
            }
            start = Some(fragment.from());
        }
        start
            .inspect(|&start| write_position(start, target))
            .is_some()
    }
}

/// Writes the internal key that sorts between the entries on both sides of `border`.
fn write_position(border: Border<'_>, target: &mut Vec<u8>) {
    match border.is_behind {
        true => encode_into(target, border.key, 0, ValueType::Deletion),
        false => encode_into(target, border.key, MAX_SEQNO, ValueType::FOR_SEEK),
    }
}

impl Fragment {
    /// Returns the newest sequence number of the fragment's tombstones up to `snapshot`; 0 if none.
    pub(super) fn visible(&self, snapshot: SeqNo) -> SeqNo {
        let mut seqnos = self.seqnos.iter().copied();
        seqnos.find(|&seqno| seqno <= snapshot).unwrap_or(0)
    }
}

impl FragmentedTombstones {
    /// The border at which the first fragment begins.
    fn start(&self) -> Option<Border<'_>> {
        self.fragments.first().map(Fragment::from)
    }

    /// The border at which the last fragment ends.
    fn end(&self) -> Option<Border<'_>> {
        self.fragments.last().map(Fragment::to)
    }

    /// Returns the newest tombstone over a position visible at `snapshot`, and its extent.
    fn coverage(&self, key: Border<'_>, snapshot: SeqNo) -> Coverage<'_> {
        let behind = self
            .fragments
            .partition_point(|fragment| fragment.from().compare(&self.order, key).is_le());
        let before = behind.checked_sub(1).and_then(|at| self.fragments.get(at));
        match before {
            Some(over) if over.to().compare(&self.order, key).is_gt() => Coverage {
                seqno: over.visible(snapshot),
                since: Some(over.from()),
                until: Some(over.to()),
            },
            before => Coverage {
                seqno: 0,
                since: before.map(Fragment::to),
                until: self.fragments.get(behind).map(Fragment::from),
            },
        }
    }
}
