//! Sorted runs of inserted entries, created by the readers that need the order.
//!
//! A [`RunSet`] records which part of the logs is sorted in which runs; the entries after that part
//! are the *tail*. Sets and runs never change, so any number of cursors share them; a reader that
//! sorts a tail creates a new set and offers it as replacement for the one it began with.
//! Neighbouring runs are merged so that each is several times as long as all after it together;
//! short runs are always merged, so there are few. Merges of long runs are left to the background,
//! if there is one.
//!
//! # Invariants
//! - **R1** The runs of a set hold exactly the slots below `covered`, each once.
//! - **R2** A set is replaced only by one that covers as much: by the thread that began with it, or
//!   with some of its runs replaced by one with the same content.

use std::cmp::Ordering;
use std::ops::RangeInclusive;
use std::sync::Arc;

use koeldb_base::KeyOrder;
use koeldb_base::coding::to_usize;

use super::log::{self, Item, LogLengths, Segment};
use super::memory::Gauge;
use crate::arena::{LINE_BYTES, SharedArena, prefetch, vec_for};
use crate::rep::index::BATCH;

/// The divisor of a run's length that gives the length of later runs with which it is merged.
const RATIO: usize = 4;
/// The largest merge that a seek performs regardless of run lengths: some ten microseconds.
pub(super) const SEEK_MERGE_MAX: usize = 4096;
/// The factor of lengths up to which two runs are merged item by item.
const EVEN: usize = 8;
/// The number of runs at which a seek merges them, if the background did not.
pub(super) const RUNS_MAX: usize = 16;
/// The sampling interval of prefixes in a long run, for searches.
const SAMPLED: usize = 16;
/// The sampling interval of the summary over the sample; it stays in the cache for any run.
const SAMPLED_AGAIN: usize = 32;

/// The order of log items: by key prefix, then by internal key.
#[derive(Clone, Copy)]
pub(super) struct ItemOrder<'t> {
    pub(super) keys: &'t KeyOrder,
    pub(super) arena: &'t SharedArena,
}

impl<'t> ItemOrder<'t> {
    /// Returns the internal key of an item.
    #[inline]
    pub(super) fn key(self, item: Item) -> &'t [u8] {
        item.node.entry(self.arena).key()
    }

    /// Compares items by prefix, and for equal prefixes by internal key.
    #[inline]
    pub(super) fn compare(self, a: Item, b: Item) -> Ordering {
        a.prefix
            .cmp(&b.prefix)
            .then_with(|| self.compare_keys(a, b))
    }

    /// Compares the internal keys of two items.
    #[inline(never)]
    fn compare_keys(self, a: Item, b: Item) -> Ordering {
        self.keys.compare_internal(self.key(a), self.key(b))
    }

    /// Sorts log items by key prefix and internal key.
    pub(super) fn sort(self, items: &mut [Item]) {
        // By prefix first: without branches that depend on the comparison, and without accessing
        // keys.
        items.sort_unstable_by_key(|item| item.prefix);
        for ties in items.chunk_by_mut(|a, b| a.prefix == b.prefix) {
            if ties.len() > 1 {
                ties.sort_unstable_by(|&a, &b| self.compare_keys(a, b));
            }
        }
    }

    /// Merges two sorted slices of items into one sorted vector.
    fn merge(self, many: &[Item], few: &[Item]) -> Vec<Item> {
        let mut merged = vec_for(many.len() + few.len());
        if many.len() > EVEN * few.len() {
            self.merge_few(many, few, &mut merged);
        } else {
            self.merge_evenly(many, few, &mut merged);
        }
        merged
    }

    /// Merges two sorted slices item by item, for slices of similar length.
    fn merge_evenly(self, mut a: &[Item], mut b: &[Item], merged: &mut Vec<Item>) {
        while let (Some(&first), Some(&other)) = (a.first(), b.first()) {
            let is_other = if first.prefix == other.prefix {
                self.compare_keys(other, first).is_lt()
            } else {
                other.prefix < first.prefix
            };
            merged.push(if is_other { other } else { first });
            a = &a[usize::from(!is_other)..];
            b = &b[usize::from(is_other)..];
        }
        merged.extend_from_slice(a);
        merged.extend_from_slice(b);
    }

    /// Merges a short sorted slice into a long one, by binary search and copies of ranges.
    ///
    /// Their positions are searched in batches, to overlap cache misses.
    fn merge_few(self, many: &[Item], few: &[Item], merged: &mut Vec<Item>) {
        let mut rest = many;
        for some in few.chunks(BATCH) {
            let mut places = [0; BATCH];
            for (place, &item) in places.iter_mut().zip(some) {
                *place = self.count_before(rest, item);
            }
            let mut copied = 0;
            for (&place, &item) in places.iter().zip(some) {
                merged.extend_from_slice(&rest[copied..place]);
                merged.push(item);
                copied = place;
            }
            rest = &rest[copied..];
        }
        merged.extend_from_slice(rest);
    }

    /// Returns the number of items in a sorted slice that sort before `item`.
    #[inline]
    fn count_before(self, items: &[Item], item: Item) -> usize {
        let first = items.partition_point(|other| other.prefix < item.prefix);
        let has_tie = items
            .get(first)
            .is_some_and(|other| other.prefix == item.prefix);
        if has_tie {
            let is_before = |&other: &Item| self.compare(other, item).is_lt();
            return first + items[first..].partition_point(is_before);
        }
        first
    }

    /// Whether an item sorts before a search target.
    #[inline]
    pub(super) fn is_before(self, item: Item, target: Target<'_>) -> bool {
        match item.prefix.cmp(&target.prefix) {
            Ordering::Equal => self
                .keys
                .compare_internal(self.key(item), target.key)
                .is_lt(),
            order => order.is_lt(),
        }
    }

    /// Finds the position of a target among items with an equal prefix, which start at `first`.
    #[inline]
    fn among_ties(self, items: &[Item], first: usize, target: Target<'_>) -> usize {
        match items.get(first) {
            Some(item) if item.prefix == target.prefix => {
                let ties = items[first..].partition_point(|item| item.prefix == target.prefix);
                first
                    + items[first..first + ties]
                        .partition_point(|&item| self.is_before(item, target))
            }
            _ => first,
        }
    }
}

/// The target of a search in a run: an internal key and its prefix.
#[derive(Clone, Copy)]
pub(super) struct Target<'k> {
    pub(super) prefix: u64,
    pub(super) key: &'k [u8],
}

/// An immutable sorted run of log items, with samples of key prefixes for fast searches.
///
/// A search of a long run goes through three arrays: a part of each leads to a part of the next.
/// Each part is prefetched before it is needed, so that the cache misses of many runs overlap.
pub(super) struct Run {
    pub(super) items: Box<[Item]>,
    /// A sample of the prefixes of a long run.
    sample: Box<[u64]>,
    /// A sample of the prefixes in `sample`.
    summary: Box<[u64]>,
    gauge: Gauge,
}

impl Run {
    /// Creates a run of sorted items, with samples of the prefixes if it is long.
    fn new(items: Vec<Item>, gauge: &Gauge) -> Arc<Self> {
        let sample: Box<[u64]> = if items.len() > 16 * SAMPLED {
            items
                .iter()
                .step_by(SAMPLED)
                .map(|item| item.prefix)
                .collect()
        } else {
            Box::default()
        };
        let run = Run {
            items: items.into_boxed_slice(),
            summary: sample.iter().step_by(SAMPLED_AGAIN).copied().collect(),
            sample,
            gauge: gauge.clone(),
        };
        gauge.add(run.memory_bytes());
        Arc::new(run)
    }

    fn memory_bytes(&self) -> usize {
        let arrays = size_of_val(&*self.items) + size_of_val(&*self.sample);
        // Includes the counters of the `Arc`.
        arrays + size_of_val(&*self.summary) + size_of::<Self>() + 16
    }

    /// Returns the index of the first item of the run at or after a target.
    #[inline]
    pub(super) fn lower_bound(&self, order: ItemOrder<'_>, target: Target<'_>) -> usize {
        let part = self.part(target);
        self.lower_bound_in(self.block(part, target), order, target)
    }

    /// Search step 1: finds, by the summary, the part of the prefix sample for a target.
    ///
    /// It prefetches that part, and returns its start.
    #[inline]
    pub(super) fn part(&self, target: Target<'_>) -> usize {
        let part = part_of(&self.summary, target) * SAMPLED_AGAIN;
        prefetch_part(&self.sample, part, SAMPLED_AGAIN);
        part
    }

    /// Search step 2: finds, in the part of the sample at `part`, the block of items for a target.
    ///
    /// It prefetches that block, and returns its start.
    #[inline]
    pub(super) fn block(&self, part: usize, target: Target<'_>) -> usize {
        if self.sample.is_empty() {
            return 0;
        }
        let end = (part + SAMPLED_AGAIN).min(self.sample.len());
        let block = (part + part_of(&self.sample[part..end], target)) * SAMPLED;
        prefetch_part(&self.items, block, SAMPLED);
        block
    }

    /// Prefetches the block of items that follows the one at `block`.
    #[inline]
    pub(super) fn prefetch_behind(&self, block: usize) {
        prefetch_part(&self.items, block + SAMPLED, SAMPLED);
    }

    /// Search step 3: the index of the first item at or after a target whose block is at `block`.
    #[inline]
    pub(super) fn lower_bound_in(
        &self,
        block: usize,
        order: ItemOrder<'_>,
        target: Target<'_>,
    ) -> usize {
        let end = if self.sample.is_empty() {
            self.items.len()
        } else {
            // The next sampled prefix, if any, is not below the target.
            (block + SAMPLED).min(self.items.len())
        };
        let items = &self.items[block..end];
        let before = items.partition_point(|item| item.prefix < target.prefix);
        order.among_ties(&self.items, block + before, target)
    }
}

/// Returns the index of the last of the sorted `prefixes` below the target's, or 0.
#[inline]
fn part_of(prefixes: &[u64], target: Target<'_>) -> usize {
    let below = prefixes.partition_point(|&prefix| prefix < target.prefix);
    below.saturating_sub(1)
}

/// Prefetches the cache lines of `count` elements of a slice from `start`.
#[inline]
fn prefetch_part<T>(all: &[T], start: usize, count: usize) {
    let end = (start + count).min(all.len());
    for line in all[start.min(end)..end].chunks(LINE_BYTES / size_of::<T>()) {
        prefetch(line.as_ptr().cast());
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.gauge.sub(self.memory_bytes());
    }
}

/// An immutable set of sorted runs, and the log positions up to which they cover the logs.
///
/// The log items after these positions, in no run yet, are the tail.
pub(super) struct RunSet {
    pub(super) runs: Vec<Arc<Run>>,
    /// For each log, the segment of the first slot that is in no run, or an earlier segment.
    tails: Arc<[Arc<Segment>]>,
    covered: LogLengths,
    /// Whether this is the final set, which consists of one run.
    pub(super) is_finished: bool,
}

impl RunSet {
    /// Creates a set without runs, over logs whose first segments are `tails`.
    pub(super) fn new(tails: Vec<Arc<Segment>>) -> Self {
        RunSet {
            runs: Vec::new(),
            covered: LogLengths::new(tails.len(), |_| 0),
            tails: Arc::from(tails),
            is_finished: false,
        }
    }

    /// The length of the log tail: the number of items up to `appended` that are in no run.
    #[inline]
    pub(super) fn tail_len(&self, appended: &LogLengths) -> u64 {
        let slots = appended.iter().zip(&*self.covered);
        slots.map(|(end, start)| end - start).sum()
    }

    /// Prefetches the last items of the log tail up to `appended`.
    #[inline]
    pub(super) fn prefetch_tail(&self, appended: &LogLengths) {
        let slots = self.covered.iter().zip(&**appended);
        for (segment, (&start, &end)) in self.tails.iter().zip(slots) {
            if start < end {
                segment.prefetch(start, end);
            }
        }
    }

    /// Passes the items of the log tail with key prefixes in `window` to `take`.
    #[inline]
    pub(super) fn read_tail(
        &self,
        appended: &LogLengths,
        window: RangeInclusive<u64>,
        mut take: impl FnMut(Item),
    ) {
        let slots = self.covered.iter().zip(&**appended);
        for (segment, (&start, &end)) in self.tails.iter().zip(slots) {
            if start < end {
                log::read(segment, start, end, window.clone(), &mut take);
            }
        }
    }

    /// Creates a set that also covers the log tail up to `appended`, sorted into the last run.
    ///
    /// Short runs are merged into it, up to `merge_max` entries.
    pub(super) fn with_tail(
        &self,
        appended: &LogLengths,
        merge_max: usize,
        order: ItemOrder<'_>,
        gauge: &Gauge,
    ) -> RunSet {
        let mut tails = Arc::clone(&self.tails);
        let mut items = vec_for(to_usize(self.tail_len(appended)));
        for (shard, (&start, &end)) in self.covered.iter().zip(&**appended).enumerate() {
            if start < end {
                let last = log::read(&tails[shard], start, end, log::ALL, |item| items.push(item));
                if !Arc::ptr_eq(last, &tails[shard]) {
                    let last = Arc::clone(last);
                    Arc::make_mut(&mut tails)[shard] = last;
                }
            }
        }
        order.sort(&mut items);
        let (kept, merged) = self
            .runs
            .split_at(self.suffix_to_merge(items.len(), merge_max));
        for run in merged.iter().rev() {
            items = order.merge(&run.items, &items);
        }
        let mut runs = Vec::with_capacity(kept.len() + 1);
        runs.extend_from_slice(kept);
        if !items.is_empty() {
            runs.push(Run::new(items, gauge));
        }
        RunSet {
            runs,
            tails,
            covered: *appended,
            is_finished: false,
        }
    }

    /// Returns the index of the first run to merge with `added` entries, within `merge_max`.
    fn suffix_to_merge(&self, added: usize, merge_max: usize) -> usize {
        let mut first = self.runs.len();
        let mut sum = added;
        for run in self.runs.iter().rev() {
            let len = run.items.len();
            let is_due = len <= RATIO * sum || sum + len <= SEEK_MERGE_MAX;
            if !is_due || sum + len > merge_max {
                break;
            }
            sum += len;
            first -= 1;
        }
        first
    }

    /// Returns adjacent long runs that the background should merge; `None` if there are none.
    pub(super) fn overdue(&self) -> Option<&[Arc<Run>]> {
        let len = |run: &Arc<Run>| run.items.len();
        // Seeks may merge those at the end; in time the others will not fit with them.
        let mut end = self.runs.len();
        let mut sum = 0;
        while end > 0 && sum + len(&self.runs[end - 1]) <= SEEK_MERGE_MAX {
            end -= 1;
            sum += len(&self.runs[end]);
        }
        let mut first = end.checked_sub(1)?;
        let mut sum = len(&self.runs[first]);
        while first > 0 && len(&self.runs[first - 1]) <= RATIO * sum {
            first -= 1;
            sum += len(&self.runs[first]);
        }
        (end - first > 1).then(|| &self.runs[first..end])
    }

    /// Merges all entries of `runs`, at least one, into one run.
    pub(super) fn merge(runs: &[Arc<Run>], order: ItemOrder<'_>, gauge: &Gauge) -> Arc<Run> {
        let mut shortest_first: Vec<&Run> = runs.iter().map(|run| &**run).collect();
        shortest_first.sort_by_key(|run| run.items.len());
        let mut merged = Vec::new();
        for run in shortest_first {
            merged = order.merge(&run.items, &merged);
        }
        Run::new(merged, gauge)
    }

    /// Returns a set with adjacent `runs` replaced by their merge; `None` if they are not in it.
    pub(super) fn replaced(&self, runs: &[Arc<Run>], merged: Arc<Run>) -> Option<RunSet> {
        let is_there = |window: &[Arc<Run>]| {
            let mut pairs = window.iter().zip(runs);
            pairs.all(|(a, b)| Arc::ptr_eq(a, b))
        };
        let at = self.runs.windows(runs.len()).position(is_there)?;
        let mut replaced = self.runs.clone();
        replaced.splice(at..at + runs.len(), [merged]);
        Some(RunSet {
            runs: replaced,
            tails: Arc::clone(&self.tails),
            covered: self.covered,
            is_finished: false,
        })
    }

    /// Creates the final set, one run of all log items up to `appended`, which frees the logs.
    pub(super) fn finished(
        &self,
        appended: &LogLengths,
        end: &Arc<Segment>,
        order: ItemOrder<'_>,
        gauge: &Gauge,
    ) -> RunSet {
        let all = self.with_tail(appended, 0, order, gauge);
        let runs = match &*all.runs {
            [] => Vec::new(),
            [run] => vec![Arc::clone(run)],
            runs => vec![Self::merge(runs, order, gauge)],
        };
        RunSet {
            runs,
            tails: appended.iter().map(|_| Arc::clone(end)).collect(),
            covered: *appended,
            is_finished: true,
        }
    }
}
