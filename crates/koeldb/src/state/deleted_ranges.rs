//! Ranges of a column family in which every key is deleted, so that scans pass them by one seek.
//!
//! The consumer of a queue deletes entries at one end. Until a compaction removes the tombstones, a
//! seek to the first entry would step over all of them, again and again. A scan that has stepped
//! over a long run of deleted keys *proposes* its range:
//!
//! 1. The scan stores the proposal and lets the leader of the write queue check the family soon.
//! 2. The leader *watches* the range: from then on, a write that adds an entry other than a
//!    deletion within the range first makes the range void, for ever.
//! 3. A later scan, whose view has every write from before step 2, again finds nothing but deleted
//!    keys in the range, and *confirms* it as of its own sequence number.
//! 4. Scans at that number or a later one pass the range, unless it is void.
//!
//! A write makes the range void before its entry is inserted, so a scan that may see the entry also
//! sees the void range. Ranges are those of one super-version, whose runs have every
//! write from before step 2. Its successor begins without ranges; the leader makes the ranges of a replaced
//! super-version void when it stops watching them, because cursors may still use it.

use std::cmp::Ordering as KeyOrdering;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use koeldb_base::sync::lock_plain as lock;
use koeldb_base::{KeyOrder, SeqNo};

/// The maximum number of ranges that the writes of a column family compare their keys with.
///
/// A queue has one or two: while a range grows, its longer successor is watched, too.
const RANGES_MAX: usize = 16;
/// The value of [`DeletedRange::since`] before a scan confirms the range.
const UNCONFIRMED: SeqNo = SeqNo::MAX;

/// A run of consecutively deleted user keys, from `lower` to before `upper`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeletedRun {
    pub(crate) lower: Vec<u8>,
    pub(crate) upper: Vec<u8>,
    /// The number of deleted keys that a scan steps over without the range.
    pub(crate) keys: u64,
}

impl DeletedRun {
    /// Whether `key` is in the range `[lower, upper)`.
    fn contains(&self, order: &KeyOrder, key: &[u8]) -> bool {
        order.compare(key, &self.lower) != KeyOrdering::Less
            && order.compare(key, &self.upper) == KeyOrdering::Less
    }

    /// Whether the range is part of `other`.
    fn is_within(&self, order: &KeyOrder, other: &DeletedRun) -> bool {
        order.compare(&other.lower, &self.lower) != KeyOrdering::Greater
            && order.compare(&self.upper, &other.upper) != KeyOrdering::Greater
    }
}

/// A range of deleted keys that scans may skip, until a write inserts a key in it.
#[derive(Debug)]
pub(crate) struct DeletedRange {
    run: DeletedRun,
    /// The last sequence number of the writes that did not compare their keys with the range.
    unwatched: SeqNo,
    /// The sequence number from which on the range is empty; [`UNCONFIRMED`] until a scan shows it.
    since: AtomicU64,
    is_void: AtomicBool,
}

impl DeletedRange {
    fn new(run: DeletedRun, unwatched: SeqNo) -> Self {
        DeletedRange {
            run,
            unwatched,
            since: AtomicU64::new(UNCONFIRMED),
            is_void: AtomicBool::new(false),
        }
    }

    /// Whether scans must not use the range: a write came into it, or it is no longer watched.
    fn is_void(&self) -> bool {
        self.is_void.load(Ordering::Acquire)
    }

    /// Makes the range unusable for all scans, for ever.
    fn make_void(&self) {
        self.is_void.store(true, Ordering::Release);
    }

    /// Whether a scan has verified that the range is empty while writes are compared with it.
    fn is_confirmed(&self) -> bool {
        self.since.load(Ordering::Relaxed) != UNCONFIRMED
    }

    /// Whether a scan at `seqno` finds no key in the range.
    fn is_empty_at(&self, seqno: SeqNo) -> bool {
        self.is_confirmed() && self.since.load(Ordering::Relaxed) <= seqno && !self.is_void()
    }

    /// Invalidates the range if it contains the key of an entry that is about to be inserted.
    pub(crate) fn invalidate(&self, order: &KeyOrder, key: &[u8]) {
        if !self.is_void.load(Ordering::Relaxed) && self.run.contains(order, key) {
            self.make_void();
        }
    }
}

/// The watched ranges and the proposed range, guarded by a mutex.
#[derive(Debug, Default)]
struct State {
    watched: Vec<Arc<DeletedRange>>,
    proposal: Option<DeletedRun>,
}

impl State {
    /// Drops ranges that are void, or contained in another range that scans can use.
    fn drop_needless(&mut self, order: &KeyOrder) {
        let known = self.watched.clone();
        self.watched.retain(|range| {
            let is_covered = known.iter().any(|other| {
                let is_empty = other.is_confirmed() && !other.is_void();
                is_empty && !Arc::ptr_eq(other, range) && range.run.is_within(order, &other.run)
            });
            !is_covered && !range.is_void()
        });
    }
}

/// The ranges of deleted keys in a super version that its scans skip.
#[derive(Debug, Default)]
pub(crate) struct DeletedRanges {
    state: Mutex<State>,
}

impl DeletedRanges {
    /// Returns the widest range around `key` that a scan at `seqno` can skip.
    ///
    /// Widest in the direction of the scan.
    pub(crate) fn find(
        &self,
        order: &KeyOrder,
        key: &[u8],
        seqno: SeqNo,
        forward: bool,
    ) -> Option<DeletedRun> {
        let state = lock(&self.state);
        let around = state
            .watched
            .iter()
            .filter(|range| range.is_empty_at(seqno) && range.run.contains(order, key));
        let widest = around.max_by(|a, b| match forward {
            true => order.compare(&a.run.upper, &b.run.upper),
            false => order.compare(&b.run.lower, &a.run.lower),
        });
        widest.map(|range| range.run.clone())
    }

    /// Records a run of deleted keys seen by a scan at `seqno`; confirms known ranges inside it.
    ///
    /// Returns whether the run was proposed, so that the leader must check the family.
    pub(crate) fn record_run(&self, order: &KeyOrder, run: DeletedRun, seqno: SeqNo) -> bool {
        let mut state = lock(&self.state);
        let mut is_awaited = false;
        for range in state.watched.iter().filter(|range| !range.is_void()) {
            if range.is_confirmed() {
                continue;
            }
            if range.run.is_within(order, &run) && range.unwatched <= seqno {
                range.since.store(seqno, Ordering::Relaxed);
            } else {
                // A later scan will confirm it.
                is_awaited |= order.equal(&range.run.lower, &run.lower);
            }
        }
        let is_known = state
            .watched
            .iter()
            .any(|range| range.is_empty_at(seqno) && run.is_within(order, &range.run));
        if is_awaited || is_known || order.compare(&run.lower, &run.upper) != KeyOrdering::Less {
            return false;
        }
        state.proposal = Some(run);
        true
    }

    /// Adds the proposed range, unless enough longer ones are watched; returns all watched ranges.
    ///
    /// All writes up to `unwatched` must be in memtables.
    fn watch_proposed(&self, order: &KeyOrder, unwatched: SeqNo) -> Vec<Arc<DeletedRange>> {
        let mut state = lock(&self.state);
        state.drop_needless(order);
        let Some(run) = state.proposal.take() else {
            return state.watched.clone();
        };
        if state.watched.len() >= RANGES_MAX {
            let watched = state.watched.iter().enumerate();
            let shortest = watched.min_by_key(|(_, range)| range.run.keys);
            if let Some((index, range)) = shortest
                && range.run.keys < run.keys
            {
                state.watched.remove(index);
            }
        }
        if state.watched.len() < RANGES_MAX {
            let range = DeletedRange::new(run, unwatched);
            state.watched.push(Arc::new(range));
        }
        state.watched.clone()
    }
}

/// The deleted ranges that the write leader compares the keys of writes with.
#[derive(Clone, Debug, Default)]
pub(crate) struct WatchedRanges {
    set: Arc<DeletedRanges>,
    ranges: Vec<Arc<DeletedRange>>,
}

impl WatchedRanges {
    /// Invalidates the ranges that contain the key of an entry before the entry is inserted.
    #[inline]
    pub(crate) fn invalidate(&self, order: &KeyOrder, key: &[u8]) {
        for range in &self.ranges {
            range.invalidate(order, key);
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Whether the watched ranges must be renewed: their set was replaced or has a proposal.
    pub(crate) fn is_outdated(&self, current: &Arc<DeletedRanges>) -> bool {
        let is_replaced = !Arc::ptr_eq(&self.set, current);
        is_replaced && !self.ranges.is_empty() || lock(&current.state).proposal.is_some()
    }

    /// Returns the ranges of `current` to watch, with its proposed one; voids those left out.
    ///
    /// All writes up to `unwatched` must be in memtables.
    pub(crate) fn renewed(
        &self,
        current: &Arc<DeletedRanges>,
        order: &KeyOrder,
        unwatched: SeqNo,
    ) -> WatchedRanges {
        let ranges = current.watch_proposed(order, unwatched);
        // Scans of replaced super-versions may still use the others.
        for range in &self.ranges {
            if !ranges.iter().any(|kept| Arc::ptr_eq(kept, range)) {
                range.make_void();
            }
        }
        WatchedRanges {
            set: Arc::clone(current),
            ranges,
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    const ORDER: &KeyOrder = &KeyOrder::Bytewise;

    fn run(lower: &str, upper: &str) -> DeletedRun {
        DeletedRun {
            lower: lower.into(),
            upper: upper.into(),
            keys: 100,
        }
    }

    #[test]
    fn a_range_is_used_after_a_later_scan_has_confirmed_it() {
        let set = Arc::new(DeletedRanges::default());
        let find = |seqno| set.find(ORDER, b"b", seqno, true);
        assert!(set.record_run(ORDER, run("a", "c"), 5));
        let watched = WatchedRanges::default().renewed(&set, ORDER, 7);
        assert_eq!(find(9), None);
        // It does not see the writes up to the seventh.
        set.record_run(ORDER, run("a", "c"), 6);
        assert_eq!(find(9), None);
        assert!(!set.record_run(ORDER, run("a", "c"), 8));
        assert_eq!((find(7), find(8)), (None, Some(run("a", "c"))));
        watched.invalidate(ORDER, b"c");
        assert!(find(9).is_some());
        watched.invalidate(ORDER, b"a");
        assert_eq!(find(9), None);
        set.record_run(ORDER, run("a", "c"), 10);
        assert_eq!(find(11), None);
    }

    #[test]
    fn ranges_that_writes_no_longer_watch_are_void() {
        let set = Arc::new(DeletedRanges::default());
        set.record_run(ORDER, run("a", "c"), 5);
        let watched = WatchedRanges::default().renewed(&set, ORDER, 5);
        set.record_run(ORDER, run("a", "c"), 5);
        assert!(set.find(ORDER, b"b", 5, true).is_some());
        assert!(!watched.is_outdated(&set));
        let next = Arc::new(DeletedRanges::default());
        assert!(watched.is_outdated(&next));
        assert!(watched.renewed(&next, ORDER, 5).is_empty());
        assert_eq!(set.find(ORDER, b"b", 5, true), None);
    }

    #[test]
    fn the_longest_runs_are_watched() {
        let set = Arc::new(DeletedRanges::default());
        let mut watched = WatchedRanges::default();
        for number in 0_u8..60 {
            let key = vec![b'a' + number];
            let upper = [&key[..], b"x"].concat();
            let keys = u64::from(number % 10 + 1);
            let run = DeletedRun {
                lower: key,
                upper,
                keys,
            };
            set.record_run(ORDER, run.clone(), 5);
            watched = watched.renewed(&set, ORDER, 5);
            set.record_run(ORDER, run, 5);
        }
        let mut keys: Vec<u64> = watched.ranges.iter().map(|range| range.run.keys).collect();
        keys.sort_unstable();
        assert_eq!(keys.len(), RANGES_MAX);
        assert!(keys[0] >= 7, "{keys:?}");
    }
}
