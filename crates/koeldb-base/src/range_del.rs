//! Range tombstones, cut into sorted non-overlapping fragments.
//!
//! A tombstone `[start, end)` of sequence number `s` hides entries of keys inside with a smaller
//! sequence number. The tombstones of one memtable or table may overlap; [`FragmentedTombstones`]
//! cuts them at every start and end, so that each fragment has one list of sequence numbers, newest
//! first, and a lookup is one binary search.
//!
//! With user-defined timestamps, both keys of a tombstone end with its timestamp. Fragments begin
//! and end before all versions of a key, so their keys have the largest timestamp; each sequence
//! number has its timestamp beside it. A reader at a timestamp takes the list
//! [`FragmentedTombstones::as_of`] it, which has keys without timestamps.

mod run;

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::comparator::KeyOrder;
use crate::key::{RANGE_DELETION_SENTINEL, SeqNo, footer_of, user_key};
use crate::timestamp::{self, MIN_TIMESTAMP, Timestamp};

/// A range tombstone as written: a deleted range of user keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeTombstone {
    /// The first deleted key.
    pub start: Vec<u8>,
    /// The exclusive end of the range.
    pub end: Vec<u8>,
    /// The sequence number of the deletion.
    pub seqno: SeqNo,
}

/// A position between user keys: before all entries of `key`, or after them.
#[derive(Clone, Copy, Debug)]
struct Border<'a> {
    key: &'a [u8],
    is_behind: bool,
}

impl<'a> Border<'a> {
    /// The border before all entries of `key`.
    fn before(key: &'a [u8]) -> Self {
        Border {
            key,
            is_behind: false,
        }
    }

    /// The border after all entries of `key`.
    fn behind(key: &'a [u8]) -> Self {
        Border {
            key,
            is_behind: true,
        }
    }

    /// Compares the keys, and for equal keys puts the border before the entries first.
    fn compare(self, order: &KeyOrder, other: Border<'_>) -> Ordering {
        order
            .compare(self.key, other.key)
            .then(self.is_behind.cmp(&other.is_behind))
    }
}

/// A fragment of range tombstones: a range of keys that the same tombstones cover.
///
/// Tombstones as written include their start and exclude their end. Clipping to a file whose
/// largest key is a point key includes the end ([`FragmentedTombstones::clipped_to_file`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// The user key at which the fragment begins.
    pub start: Vec<u8>,
    /// Whether the fragment excludes its start.
    pub excludes_start: bool,
    /// The user key at which the fragment ends.
    pub end: Vec<u8>,
    /// Whether the fragment includes its end.
    pub includes_end: bool,
    /// The sequence numbers of the tombstones over the fragment, newest first; never empty.
    pub seqnos: Vec<SeqNo>,
    /// The timestamps of these tombstones, in the same order; empty if keys have none.
    pub timestamps: Vec<Timestamp>,
}

impl Fragment {
    /// The border at which the fragment begins.
    fn from(&self) -> Border<'_> {
        Border {
            key: &self.start,
            is_behind: self.excludes_start,
        }
    }

    /// The border at which the fragment ends.
    fn to(&self) -> Border<'_> {
        Border {
            key: &self.end,
            is_behind: self.includes_end,
        }
    }

    /// Whether the fragment has keys, regardless of their timestamps.
    fn is_writable(&self, order: &KeyOrder) -> bool {
        order
            .compare_without_timestamps(&self.start, &self.end)
            .is_lt()
    }

    /// Returns the tombstone number `index` of the fragment, as written.
    #[must_use]
    pub fn tombstone(&self, order: &KeyOrder, index: usize) -> RangeTombstone {
        let key = |key: &[u8]| match self.timestamps.get(index) {
            Some(time) => timestamp::join(order.strip(key), time),
            None => key.to_vec(),
        };
        RangeTombstone {
            start: key(&self.start),
            end: key(&self.end),
            seqno: self.seqnos.get(index).copied().unwrap_or(0),
        }
    }

    /// Returns the fragment with only the tombstones of timestamps that `keeps` accepts, if any.
    fn restricted(&self, keeps: impl Fn(&Timestamp) -> bool) -> Option<Fragment> {
        let kept = self.seqnos.iter().zip(&self.timestamps);
        let (seqnos, timestamps): (Vec<_>, Vec<_>) = kept.filter(|(_, time)| keeps(time)).unzip();
        (!seqnos.is_empty()).then(|| Fragment {
            seqnos,
            timestamps,
            ..self.clone()
        })
    }
}

/// An input range of the fragmenter, with the sequence numbers of the tombstones over it.
struct Span<'a> {
    from: Border<'a>,
    to: Border<'a>,
    seqnos: &'a [SeqNo],
    timestamps: &'a [Timestamp],
}

impl Span<'_> {
    /// The sequence numbers of the tombstones with their timestamps, the smallest if they have none.
    fn versions(&self) -> impl Iterator<Item = (SeqNo, Timestamp)> {
        let times = self.timestamps.iter().copied();
        let times = times.chain(std::iter::repeat(MIN_TIMESTAMP));
        self.seqnos.iter().copied().zip(times)
    }
}

/// The fragmented range tombstones of one memtable or table (`FragmentedRangeTombstoneList`).
#[derive(Clone, Debug)]
pub struct FragmentedTombstones {
    order: KeyOrder,
    fragments: Vec<Fragment>,
    seqno_max: SeqNo,
}

impl FragmentedTombstones {
    /// Cuts `tombstones`, given in any order, into fragments; drops empty and inverted ranges.
    ///
    /// Takes O(n log n) for n tombstones that overlap little.
    #[must_use]
    pub fn new(order: &KeyOrder, tombstones: &[RangeTombstone]) -> Self {
        if order.has_timestamps() {
            return Self::with_timestamps(order, tombstones);
        }
        let spans = tombstones.iter().map(|tombstone| Span {
            from: Border::before(&tombstone.start),
            to: Border::before(&tombstone.end),
            seqnos: std::slice::from_ref(&tombstone.seqno),
            timestamps: &[],
        });
        Self::of_spans(order, spans.collect())
    }

    /// Cuts tombstones with timestamps into fragments.
    fn with_timestamps(order: &KeyOrder, tombstones: &[RangeTombstone]) -> Self {
        let ranges = tombstones.iter().map(|tombstone| {
            let (from, to) = (&tombstone.start, &tombstone.end);
            (order.before_versions(from), order.before_versions(to))
        });
        let ranges: Vec<_> = ranges.collect();
        let times = tombstones.iter().map(|of| timestamp::split(&of.start).1);
        let times: Vec<_> = times.collect();
        let spans = ranges.iter().zip(&times).zip(tombstones);
        let spans = spans.map(|(((from, to), time), tombstone)| Span {
            from: Border::before(from),
            to: Border::before(to),
            seqnos: std::slice::from_ref(&tombstone.seqno),
            timestamps: std::slice::from_ref(time),
        });
        Self::of_spans(order, spans.collect())
    }

    /// Cuts spans into fragments at every border; empty and inverted spans are dropped.
    fn of_spans(order: &KeyOrder, mut spans: Vec<Span<'_>>) -> Self {
        spans.retain(|span| span.from.compare(order, span.to).is_lt());
        spans.sort_by(|a, b| a.from.compare(order, b.from));
        let mut borders: Vec<Border<'_>> =
            spans.iter().flat_map(|span| [span.from, span.to]).collect();
        borders.sort_by(|a, b| a.compare(order, *b));
        borders.dedup_by(|a, b| a.compare(order, *b).is_eq());

        let mut fragments: Vec<Fragment> = Vec::new();
        let mut active: Vec<&Span<'_>> = Vec::new();
        let mut upcoming = spans.iter().peekable();
        for pair in borders.windows(2) {
            let (from, to) = (pair[0], pair[1]);
            active.retain(|span| span.to.compare(order, from).is_gt());
            while let Some(next) = upcoming.next_if(|span| span.from.compare(order, from).is_le()) {
                active.push(next);
            }
            if active.is_empty() {
                continue;
            }
            let versions = active.iter().flat_map(|span| span.versions());
            let versions: BTreeSet<(SeqNo, Timestamp)> = versions.collect();
            let newest_first = versions.into_iter().rev();
            let (seqnos, timestamps) = match order.has_timestamps() {
                true => newest_first.unzip(),
                false => (newest_first.map(|(seqno, _)| seqno).collect(), Vec::new()),
            };
            fragments.push(Fragment {
                start: from.key.to_vec(),
                excludes_start: from.is_behind,
                end: to.key.to_vec(),
                includes_end: to.is_behind,
                seqnos,
                timestamps,
            });
        }
        let seqnos = spans.iter().flat_map(|span| span.seqnos).copied();
        FragmentedTombstones {
            order: order.clone(),
            fragments,
            seqno_max: seqnos.max().unwrap_or(0),
        }
    }

    /// Whether there are no tombstones.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fragments.is_empty()
    }

    /// The fragments in key order.
    #[must_use]
    pub fn fragments(&self) -> &[Fragment] {
        &self.fragments
    }

    /// The newest sequence number of all tombstones.
    #[must_use]
    pub fn seqno_max(&self) -> SeqNo {
        self.seqno_max
    }

    /// Returns the newest sequence number up to `snapshot` of tombstones over `user_key`, or 0.
    #[inline]
    #[must_use]
    pub fn covering_seqno(&self, user_key: &[u8], snapshot: SeqNo) -> SeqNo {
        let key = Border::before(user_key);
        let behind = self
            .fragments
            .partition_point(|fragment| fragment.from().compare(&self.order, key).is_le());
        let Some(fragment) = behind
            .checked_sub(1)
            .and_then(|index| self.fragments.get(index))
        else {
            return 0;
        };
        if fragment.to().compare(&self.order, key).is_le() {
            return 0;
        }
        fragment.visible(snapshot)
    }

    /// Returns the newest sequence number up to `snapshot` of the tombstones over `user_key` that
    /// are not newer than `time`; 0 if there is none.
    ///
    /// The timestamp of `user_key` does not matter: a fragment that was cut among the versions of a
    /// key hides all its older versions.
    #[must_use]
    pub fn covering_seqno_at(&self, user_key: &[u8], snapshot: SeqNo, time: &Timestamp) -> SeqNo {
        let compare = |bound: &[u8]| self.order.compare_without_timestamps(bound, user_key);
        let behind = self
            .fragments
            .partition_point(|fragment| compare(&fragment.start).is_le());
        let over = behind.checked_sub(1).and_then(|at| self.fragments.get(at));
        let over = over.filter(|over| match compare(&over.end) {
            Ordering::Less => false,
            Ordering::Equal => over.includes_end,
            Ordering::Greater => true,
        });
        let versions = over.map(|over| over.seqnos.iter().zip(&over.timestamps));
        let is_visible = |(seqno, own): &(&SeqNo, &Timestamp)| {
            **seqno <= snapshot && self.order.compare_timestamps(own, time).is_le()
        };
        let newest = versions.and_then(|mut versions| versions.find(is_visible));
        newest.map_or(0, |(seqno, _)| *seqno)
    }

    /// The tombstones that a scan of versions up to the timestamp `time` sees.
    ///
    /// Only for keys with timestamps, which the keys of the fragments keep.
    #[must_use]
    pub fn up_to(&self, time: &Timestamp) -> Self {
        let order = &self.order;
        self.restricted(|own| order.compare_timestamps(own, time).is_le())
    }

    /// The fragments clipped to user keys in `[from, to)`; an absent bound does not clip.
    #[must_use]
    pub fn clipped(&self, from: Option<&[u8]>, to: Option<&[u8]>) -> Self {
        self.clipped_to(from.map(Border::before), to.map(Border::before))
    }

    /// Returns the fragments truncated to a file's bounds, its smallest and largest internal key.
    ///
    /// Both user keys belong to the file, unless `largest` is a range-tombstone sentinel.
    ///
    /// RocksDB writes a tombstone unclipped into every table that it overlaps, so only the bounds
    /// of the file say where it ends. A bound may lie between two versions of one user key. The
    /// next table then holds the older versions and the same tombstones, so including the whole
    /// key is correct (RocksDB 11.9, `CompactionOutputs::AddRangeDels`).
    #[must_use]
    pub fn clipped_to_file(&self, smallest: &[u8], largest: &[u8]) -> Self {
        let (last, footer) = footer_of(largest);
        let is_sentinel = footer == RANGE_DELETION_SENTINEL;
        let to = if is_sentinel {
            Border::before(last)
        } else {
            Border::behind(last)
        };
        self.clipped_to(Some(Border::before(user_key(smallest))), Some(to))
    }

    /// Returns the fragments cut to the range between two borders; `None` is unbounded.
    fn clipped_to(&self, from: Option<Border<'_>>, to: Option<Border<'_>>) -> Self {
        let order = &self.order;
        let first = from.map_or(0, |from| {
            self.fragments
                .partition_point(|fragment| fragment.to().compare(order, from).is_le())
        });
        let mut fragments = Vec::new();
        for fragment in &self.fragments[first..] {
            if to.is_some_and(|to| fragment.from().compare(order, to).is_ge()) {
                break;
            }
            let mut fragment = fragment.clone();
            if let Some(from) = from
                && fragment.from().compare(order, from).is_lt()
            {
                fragment.start = from.key.to_vec();
                fragment.excludes_start = from.is_behind;
            }
            if let Some(to) = to
                && fragment.to().compare(order, to).is_gt()
            {
                fragment.end = to.key.to_vec();
                fragment.includes_end = to.is_behind;
            }
            fragments.push(fragment);
        }
        FragmentedTombstones {
            order: order.clone(),
            fragments,
            seqno_max: self.seqno_max,
        }
    }

    /// The fragments as tombstones that can be written, one for each sequence number.
    ///
    /// A written tombstone includes its start and excludes its end. A fragment that excludes its
    /// start is written from that key on, because all its tombstones cover the key too. The end of
    /// a fragment that includes it is covered by the next fragment or left out.
    pub fn tombstones(&self) -> impl Iterator<Item = RangeTombstone> + '_ {
        let order = &self.order;
        let fragments = self.fragments.iter();
        let writable = fragments.filter(|fragment| fragment.is_writable(order));
        writable.flat_map(|fragment| {
            (0..fragment.seqnos.len()).map(|index| fragment.tombstone(order, index))
        })
    }

    /// The fragments whose keys are a range that can be written (see [`Self::tombstones`]).
    pub fn writable_fragments(&self) -> impl Iterator<Item = &Fragment> {
        let fragments = self.fragments.iter();
        fragments.filter(|fragment| fragment.is_writable(&self.order))
    }

    /// The tombstones of timestamps before `low`, which hide entries of such timestamps for good.
    ///
    /// Only for keys with timestamps.
    #[must_use]
    pub fn before_timestamp(&self, low: &Timestamp) -> Self {
        let order = &self.order;
        self.restricted(|time| order.compare_timestamps(time, low).is_lt())
    }

    /// The same tombstones, all of them of the timestamp `time`.
    ///
    /// Only for keys with timestamps.
    #[must_use]
    pub fn all_at(&self, time: &Timestamp) -> Self {
        let key = |key: &[u8]| timestamp::join(self.order.strip(key), time);
        let moved = self.tombstones().map(|of| RangeTombstone {
            start: key(&of.start),
            end: key(&of.end),
            seqno: of.seqno,
        });
        Self::new(&self.order, &moved.collect::<Vec<_>>())
    }

    /// The tombstones that a read at the timestamp `time` sees, with keys without timestamps.
    ///
    /// Only for keys with timestamps.
    #[must_use]
    pub fn as_of(&self, time: &Timestamp) -> Self {
        let order = &self.order;
        let mut seen = self.restricted(|own| order.compare_timestamps(own, time).is_le());
        seen.order = order.without_timestamps();
        for fragment in &mut seen.fragments {
            fragment.start = order.strip(&fragment.start).to_vec();
            fragment.end = order.strip(&fragment.end).to_vec();
            // A fragment that was cut among the versions of a key hides all its older versions.
            fragment.excludes_start = false;
            fragment.timestamps.clear();
        }
        seen.fragments
            .retain(|fragment| fragment.from().compare(&seen.order, fragment.to()).is_lt());
        seen
    }

    /// The fragments with only the tombstones of timestamps that `keeps` accepts.
    fn restricted(&self, keeps: impl Fn(&Timestamp) -> bool) -> Self {
        let fragments = self.fragments.iter();
        let fragments: Vec<_> = fragments
            .filter_map(|fragment| fragment.restricted(&keeps))
            .collect();
        let newest = fragments
            .iter()
            .filter_map(|fragment| fragment.seqnos.first());
        FragmentedTombstones {
            order: self.order.clone(),
            seqno_max: newest.max().copied().unwrap_or(0),
            fragments,
        }
    }
}

pub use run::{Coverage, CoveredRange, RunTombstones};

/// The union of the tombstones of several tables or memtables; `None` if there are no tombstones.
#[must_use]
pub fn union_of(
    order: &KeyOrder,
    lists: &[Arc<FragmentedTombstones>],
) -> Option<FragmentedTombstones> {
    let fragments = lists.iter().flat_map(|list| &list.fragments);
    let spans = fragments.map(|fragment| Span {
        from: fragment.from(),
        to: fragment.to(),
        seqnos: &fragment.seqnos,
        timestamps: &fragment.timestamps,
    });
    let union = FragmentedTombstones::of_spans(order, spans.collect());
    (!union.is_empty()).then_some(union)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{MAX_SEQNO, ValueType, encode};
    use proptest::prelude::*;

    fn tombstone() -> impl Strategy<Value = RangeTombstone> {
        (0..12_u8, 0..12_u8, 1..8_u64).prop_map(|(start, end, seqno)| RangeTombstone {
            start: vec![start],
            end: vec![end],
            seqno,
        })
    }

    /// The newest tombstone over `key`, by linear search.
    fn hidden_by(
        order: &KeyOrder,
        tombstones: &[RangeTombstone],
        key: &[u8],
        snapshot: SeqNo,
    ) -> SeqNo {
        let covering = tombstones
            .iter()
            .filter(|t| order.compare(&t.start, key).is_le() && order.compare(key, &t.end).is_lt());
        let visible = covering.map(|t| t.seqno).filter(|&seqno| seqno <= snapshot);
        visible.max().unwrap_or(0)
    }

    fn order_of(reverse: bool) -> KeyOrder {
        if reverse {
            KeyOrder::ReverseBytewise
        } else {
            KeyOrder::Bytewise
        }
    }

    proptest! {
        #[test]
        fn fragments_hide_what_the_tombstones_hide(
            tombstones in prop::collection::vec(tombstone(), 0..12),
            snapshot in 0..9_u64,
            reverse: bool,
        ) {
            let order = order_of(reverse);
            let fragmented = FragmentedTombstones::new(&order, &tombstones);
            for key in 0..13_u8 {
                let expected = hidden_by(&order, &tombstones, &[key], snapshot);
                prop_assert_eq!(fragmented.covering_seqno(&[key], snapshot), expected);
            }
            for pair in fragmented.fragments().windows(2) {
                prop_assert!(order.compare(&pair[0].end, &pair[1].start).is_le());
            }
        }

        #[test]
        fn files_that_share_a_key_hide_together_what_was_hidden(
            tombstones in prop::collection::vec(tombstone(), 0..12),
            cuts in prop::collection::btree_set((0..12_u8, any::<bool>()), 0..4),
            snapshot in 0..9_u64,
            reverse: bool,
        ) {
            let order = order_of(reverse);
            let whole = FragmentedTombstones::new(&order, &tombstones);
            let at = |key: u8| if reverse { 11 - key } else { key };
            // Files end at cuts. A shared key belongs to both neighbours, another one to the next.
            let point = |key: u8| encode(&[at(key)], 1, ValueType::Value);
            let sentinel = |key: u8| encode(&[at(key)], MAX_SEQNO, ValueType::RangeDeletion);
            let mut smallest = point(0);
            let mut files = Vec::new();
            for &(key, shared) in &cuts {
                let largest = if shared { point(key) } else { sentinel(key) };
                files.push(Arc::new(whole.clipped_to_file(&smallest, &largest)));
                smallest = point(key);
            }
            files.push(Arc::new(whole.clipped_to_file(&smallest, &point(11))));
            let union = union_of(&order, &files);
            let written: Vec<_> = union.iter().flat_map(FragmentedTombstones::tombstones).collect();
            for key in 0..12_u8 {
                let expected = hidden_by(&order, &tombstones, &[key], snapshot);
                let covering = |list: &FragmentedTombstones| list.covering_seqno(&[key], snapshot);
                prop_assert_eq!(files.iter().map(|file| covering(file)).max(), Some(expected));
                prop_assert_eq!(union.as_ref().map_or(0, covering), expected);
                if key != at(11) {
                    prop_assert_eq!(hidden_by(&order, &written, &[key], snapshot), expected);
                }
            }
            let run = RunTombstones::new(files.iter().cloned());
            for key in 0..12_u8 {
                let seqno = hidden_by(&order, &tombstones, &[key], snapshot);
                let Some(run) = &run else {
                    prop_assert_eq!(seqno, 0);
                    continue;
                };
                let coverage = run.coverage(&[key], snapshot);
                prop_assert_eq!(coverage.seqno, seqno);
                let range = coverage.range();
                prop_assert!(range.contains(&order, &[key]));
                for other in 0..12_u8 {
                    if range.contains(&order, &[other]) {
                        prop_assert_eq!(hidden_by(&order, &tombstones, &[other], snapshot), seqno);
                    }
                }
                let from = encode(&[key], 1, ValueType::Value);
                for forward in [true, false] {
                    let mut target = Vec::new();
                    let found = match forward {
                        true => run.seek_behind(&[key], snapshot, &mut target),
                        false => run.seek_before(&[key], snapshot, &mut target),
                    };
                    prop_assert_eq!(found, seqno > 0);
                    if !found {
                        continue;
                    }
                    let is_before = |a: &[u8], b: &[u8]| match forward {
                        true => order.compare_internal(a, b).is_lt(),
                        false => order.compare_internal(b, a).is_lt(),
                    };
                    prop_assert!(is_before(&from, &target));
                    for other in 0..12_u8 {
                        let at = encode(&[other], 1, ValueType::Value);
                        if is_before(&from, &at) && is_before(&at, &target) {
                            prop_assert!(hidden_by(&order, &tombstones, &[other], snapshot) > 0);
                        }
                    }
                }
            }
            for (file, (key, shared)) in files.iter().zip(cuts) {
                for behind in key + 1..12 {
                    prop_assert_eq!(file.covering_seqno(&[at(behind)], snapshot), 0);
                }
                if !shared {
                    prop_assert_eq!(file.covering_seqno(&[at(key)], snapshot), 0);
                }
            }
        }
    }
}
