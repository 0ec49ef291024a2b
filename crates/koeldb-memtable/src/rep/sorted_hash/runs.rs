//! Sorted runs: the order of what was inserted, made by who asks for it.
//!
//! A [`RunSet`] says which part of the logs lies sorted in which runs; what is appended behind that part is the *tail*.
//! Sets and runs never change, so any number of cursors share them; who sorts a tail makes a set of its own and offers
//! it in place of the one it began with. Neighbouring runs are merged so that each is several times as long as all
//! behind it together, so there are few. Merges of long runs are left to the background, if there is one.
//!
//! # Invariants
//! - **R1** The runs of a set hold exactly the slots below `covered`, each once.
//! - **R2** A set is replaced only by one that covers as much: by who began with it, or with some of its runs replaced by
//!   one that holds the same.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use koeldb_base::KeyOrder;
use koeldb_base::coding::to_usize;

use super::log::{self, Item, Segment};
use super::memory::Gauge;
use crate::arena::{SHARDS, SharedArena, prefetch, vec_for};

/// A run is merged with those behind it that together have at least this part of its length.
const RATIO: usize = 4;
/// Merges of no more entries are done by the seek that finds them: some ten microseconds.
pub(super) const SEEK_MERGE_MAX: usize = 4096;
/// So many runs are merged by a seek if nobody else did.
pub(super) const RUNS_MAX: usize = 16;
/// One of so many prefixes is kept apart, for searches of long runs to begin with.
const SAMPLED: usize = 16;
/// The items of a cache line.
const LINE_ITEMS: usize = 64 / size_of::<Item>();

/// How items compare.
#[derive(Clone, Copy)]
pub(super) struct ItemOrder<'t> {
    pub(super) keys: &'t KeyOrder,
    pub(super) arena: &'t SharedArena,
}

impl<'t> ItemOrder<'t> {
    #[inline]
    pub(super) fn key(self, item: Item) -> &'t [u8] {
        item.node.entry(self.arena).key()
    }

    #[inline]
    pub(super) fn compare(self, a: Item, b: Item) -> Ordering {
        a.prefix
            .cmp(&b.prefix)
            .then_with(|| self.compare_keys(a, b))
    }

    #[inline(never)]
    fn compare_keys(self, a: Item, b: Item) -> Ordering {
        self.keys.compare_internal(self.key(a), self.key(b))
    }

    /// Sorts items in no order.
    pub(super) fn sort(self, items: &mut [Item]) {
        // By prefix alone first: without a branch that depends on the comparison, and without a look at keys.
        items.sort_unstable_by_key(|item| item.prefix);
        for ties in items.chunk_by_mut(|a, b| a.prefix == b.prefix) {
            if ties.len() > 1 {
                ties.sort_unstable_by(|&a, &b| self.compare_keys(a, b));
            }
        }
    }

    /// Merges sorted items. What lies between two of the `few` is copied as a whole.
    fn merge(self, many: &[Item], few: &[Item]) -> Vec<Item> {
        let mut merged = vec_for(many.len() + few.len());
        let mut rest = many;
        for &item in few {
            let before = self.count_before(rest, item);
            let (smaller, larger) = rest.split_at(before);
            merged.extend_from_slice(smaller);
            merged.push(item);
            rest = larger;
        }
        merged.extend_from_slice(rest);
        merged
    }

    /// How many of sorted items come before `item`, which is expected near their beginning.
    #[inline]
    fn count_before(self, items: &[Item], item: Item) -> usize {
        let is_before = |other: &Item| self.compare(*other, item).is_lt();
        let mut end = 1;
        while end <= items.len() && is_before(&items[end - 1]) {
            end *= 2;
        }
        let start = end / 2;
        let end = (end - 1).min(items.len());
        start + items[start..end].partition_point(is_before)
    }

    /// The first of sorted items at or behind a target.
    #[inline]
    pub(super) fn lower_bound(self, items: &[Item], target: Target<'_>) -> usize {
        let first = items.partition_point(|item| item.prefix < target.prefix);
        self.among_ties(items, first, target)
    }

    /// The same, when none of the items from `first` on has a smaller prefix than the target, and all others have.
    #[inline]
    fn among_ties(self, items: &[Item], first: usize, target: Target<'_>) -> usize {
        match items.get(first) {
            Some(item) if item.prefix == target.prefix => {
                let ties = items[first..].partition_point(|item| item.prefix == target.prefix);
                first
                    + items[first..first + ties].partition_point(|&item| {
                        self.keys
                            .compare_internal(self.key(item), target.key)
                            .is_lt()
                    })
            }
            _ => first,
        }
    }
}

/// Where a search goes.
#[derive(Clone, Copy)]
pub(super) struct Target<'k> {
    pub(super) prefix: u64,
    pub(super) key: &'k [u8],
}

/// Sorted items.
pub(super) struct Run {
    pub(super) items: Box<[Item]>,
    /// Every so many prefixes of a long run.
    sample: Box<[u64]>,
    gauge: Gauge,
}

impl Run {
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
            sample,
            gauge: gauge.clone(),
        };
        gauge.add(run.memory_bytes());
        Arc::new(run)
    }

    fn memory_bytes(&self) -> usize {
        // With the counters of the `Arc`.
        size_of_val(&*self.items) + size_of_val(&*self.sample) + size_of::<Self>() + 16
    }

    /// The first item at or behind a target.
    #[inline]
    pub(super) fn lower_bound(&self, order: ItemOrder<'_>, target: Target<'_>) -> usize {
        self.lower_bound_in(self.block(target), order, target)
    }

    /// The items among which, or just behind which, the first with no smaller prefix than the target's is.
    #[inline]
    pub(super) fn block(&self, target: Target<'_>) -> Range<usize> {
        let sampled = self
            .sample
            .partition_point(|&prefix| prefix < target.prefix);
        // What is sampled next, if anything, is not below the target.
        self.block_at(sampled.saturating_sub(1) * SAMPLED)
    }

    /// The block that begins at `start`.
    #[inline]
    pub(super) fn block_at(&self, start: usize) -> Range<usize> {
        if self.sample.is_empty() {
            return 0..self.items.len();
        }
        start..(start + SAMPLED).min(self.items.len())
    }

    /// Asks for the items of a block, if it is one of many.
    #[inline]
    pub(super) fn prefetch(&self, block: &Range<usize>) {
        if !self.sample.is_empty() {
            for line in self.items[block.clone()].chunks(LINE_ITEMS) {
                prefetch(line.as_ptr().cast());
            }
        }
    }

    /// The first item at or behind a target, whose block is known.
    #[inline]
    pub(super) fn lower_bound_in(
        &self,
        block: Range<usize>,
        order: ItemOrder<'_>,
        target: Target<'_>,
    ) -> usize {
        let start = block.start;
        let before = self.items[block].partition_point(|item| item.prefix < target.prefix);
        order.among_ties(&self.items, start + before, target)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.gauge.sub(self.memory_bytes());
    }
}

/// The runs of a moment, and where the tail begins.
pub(super) struct RunSet {
    pub(super) runs: Vec<Arc<Run>>,
    /// For each log the segment of the first slot that no run has, or one before it.
    tails: Arc<[Arc<Segment>; SHARDS]>,
    covered: [u64; SHARDS],
    /// Whether this is all there will be, in one run.
    pub(super) is_finished: bool,
}

impl RunSet {
    /// Nothing is sorted, and the logs begin with `tails`.
    pub(super) fn new(tails: [Arc<Segment>; SHARDS]) -> Self {
        RunSet {
            runs: Vec::new(),
            tails: Arc::new(tails),
            covered: [0; SHARDS],
            is_finished: false,
        }
    }

    /// The number of slots up to `appended` that no run has.
    #[inline]
    pub(super) fn tail_len(&self, appended: &[u64; SHARDS]) -> u64 {
        let slots = appended.iter().zip(&self.covered);
        slots.map(|(end, start)| end - start).sum()
    }

    /// Passes on the items of the tail.
    pub(super) fn read_tail(&self, appended: &[u64; SHARDS], mut take: impl FnMut(Item)) {
        let slots = self.covered.iter().zip(appended);
        for (segment, (&start, &end)) in self.tails.iter().zip(slots) {
            if start < end {
                log::read(segment, start, end, &mut take);
            }
        }
    }

    /// The set that covers the slots up to `appended`. Runs are merged up to `merge_max` entries.
    pub(super) fn with_tail(
        &self,
        appended: &[u64; SHARDS],
        merge_max: usize,
        order: ItemOrder<'_>,
        gauge: &Gauge,
    ) -> RunSet {
        let mut tails = Arc::clone(&self.tails);
        let mut items = vec_for(to_usize(self.tail_len(appended)));
        for (shard, (&start, &end)) in self.covered.iter().zip(appended).enumerate() {
            if start < end {
                let last = log::read(&tails[shard], start, end, |item| items.push(item));
                if !Arc::ptr_eq(&last, &tails[shard]) {
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

    /// From which run on to merge with `added` entries, so that no more than `merge_max` are moved.
    fn suffix_to_merge(&self, added: usize, merge_max: usize) -> usize {
        let mut first = self.runs.len();
        let mut sum = added;
        for run in self.runs.iter().rev() {
            let len = run.items.len();
            if len > RATIO * sum || sum + len > merge_max {
                break;
            }
            sum += len;
            first -= 1;
        }
        first
    }

    /// The neighbouring runs that should become one and that no seek will merge, if there are some.
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

    /// One run of all entries of `runs`, of which there is one at least.
    pub(super) fn merge(runs: &[Arc<Run>], order: ItemOrder<'_>, gauge: &Gauge) -> Arc<Run> {
        let mut shortest_first: Vec<&Run> = runs.iter().map(|run| &**run).collect();
        shortest_first.sort_by_key(|run| run.items.len());
        let mut merged = Vec::new();
        for run in shortest_first {
            merged = order.merge(&run.items, &merged);
        }
        Run::new(merged, gauge)
    }

    /// The set with `merged`, which holds the same, in place of `runs`; none if they are no longer there.
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

    /// One run of everything up to `appended`, with nothing behind it: the logs end.
    pub(super) fn finished(
        &self,
        appended: &[u64; SHARDS],
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
            tails: Arc::new(std::array::from_fn(|_| Arc::clone(end))),
            covered: *appended,
            is_finished: true,
        }
    }
}
