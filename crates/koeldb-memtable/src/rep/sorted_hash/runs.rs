//! Sorted runs: the order of what was inserted, made by who asks for it.
//!
//! A [`RunSet`] says which part of the logs lies sorted in which runs; what is appended behind that part is the *tail*.
//! Sets and runs never change, so any number of cursors share them; who sorts a tail makes a set of its own and offers
//! it in place of the one it began with. Neighbouring runs are merged so that each is several times as long as all
//! behind it together, and short ones always, so there are few. Merges of long runs are left to the background, if there is
//! one.
//!
//! # Invariants
//! - **R1** The runs of a set hold exactly the slots below `covered`, each once.
//! - **R2** A set is replaced only by one that covers as much: by who began with it, or with some of its runs replaced by
//!   one that holds the same.

use std::cmp::Ordering;
use std::ops::RangeInclusive;
use std::sync::Arc;

use koeldb_base::KeyOrder;
use koeldb_base::coding::to_usize;

use super::log::{self, Item, Segment};
use super::memory::Gauge;
use crate::arena::{LINE_BYTES, SHARDS, SharedArena, prefetch, vec_for};
use crate::rep::index::BATCH;

/// A run is merged with those behind it that together have at least this part of its length.
const RATIO: usize = 4;
/// Merges of no more entries are done by the seek that finds them, whatever their lengths: some ten microseconds.
pub(super) const SEEK_MERGE_MAX: usize = 4096;
/// Two are merged item by item if one is no more than so many times as long as the other.
const EVEN: usize = 8;
/// So many runs are merged by a seek if nobody else did.
pub(super) const RUNS_MAX: usize = 16;
/// One of so many prefixes of a long run is kept apart, for searches to look at first.
const SAMPLED: usize = 16;
/// One of so many of those is kept once more: few enough to stay in the cache, however long the run.
const SAMPLED_AGAIN: usize = 32;

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

    /// Merges sorted items.
    fn merge(self, many: &[Item], few: &[Item]) -> Vec<Item> {
        let mut merged = vec_for(many.len() + few.len());
        if many.len() > EVEN * few.len() {
            self.merge_few(many, few, &mut merged);
        } else {
            self.merge_evenly(many, few, &mut merged);
        }
        merged
    }

    /// Merges item by item, without a branch that depends on which is taken.
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

    /// Copies as a whole what lies between two of the `few`. Their places are searched for some at a time, which does not
    /// make one wait for the other.
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

    /// How many of sorted items come before `item`.
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

    /// Whether an item comes before a target.
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

    /// The same, when none of the items from `first` on has a smaller prefix than the target, and all others have.
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

/// Where a search goes.
#[derive(Clone, Copy)]
pub(super) struct Target<'k> {
    pub(super) prefix: u64,
    pub(super) key: &'k [u8],
}

/// Sorted items.
///
/// A search of a long run goes through three arrays: a part of each leads to a part of the next. So that many runs wait for
/// memory together, each part is asked for before it is needed.
pub(super) struct Run {
    pub(super) items: Box<[Item]>,
    /// Every so many prefixes of a long run.
    sample: Box<[u64]>,
    /// Every so many prefixes of the sample.
    summary: Box<[u64]>,
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
            summary: sample.iter().step_by(SAMPLED_AGAIN).copied().collect(),
            sample,
            gauge: gauge.clone(),
        };
        gauge.add(run.memory_bytes());
        Arc::new(run)
    }

    fn memory_bytes(&self) -> usize {
        let arrays = size_of_val(&*self.items) + size_of_val(&*self.sample);
        // With the counters of the `Arc`.
        arrays + size_of_val(&*self.summary) + size_of::<Self>() + 16
    }

    /// The first item at or behind a target.
    #[inline]
    pub(super) fn lower_bound(&self, order: ItemOrder<'_>, target: Target<'_>) -> usize {
        let part = self.part(target);
        self.lower_bound_in(self.block(part, target), order, target)
    }

    /// Where the part of the sample begins that leads to a target. It is asked for.
    #[inline]
    pub(super) fn part(&self, target: Target<'_>) -> usize {
        let part = part_of(&self.summary, target) * SAMPLED_AGAIN;
        prefetch_part(&self.sample, part, SAMPLED_AGAIN);
        part
    }

    /// Where the block of items begins that the part of the sample at `part` leads to for a target. It is asked for.
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

    /// Asks for the items of the block behind the one at `block`.
    #[inline]
    pub(super) fn prefetch_behind(&self, block: usize) {
        prefetch_part(&self.items, block + SAMPLED, SAMPLED);
    }

    /// The first item at or behind a target, whose block is at `block`.
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
            // What is sampled next, if anything, is not below the target.
            (block + SAMPLED).min(self.items.len())
        };
        let items = &self.items[block..end];
        let before = items.partition_point(|item| item.prefix < target.prefix);
        order.among_ties(&self.items, block + before, target)
    }
}

/// The last of sorted prefixes that is below a target, or the first: the one whose part has what is not.
#[inline]
fn part_of(prefixes: &[u64], target: Target<'_>) -> usize {
    let below = prefixes.partition_point(|&prefix| prefix < target.prefix);
    below.saturating_sub(1)
}

/// Asks for the lines of some elements.
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

    /// Asks for what was appended last.
    #[inline]
    pub(super) fn prefetch_tail(&self, appended: &[u64; SHARDS]) {
        let slots = self.covered.iter().zip(appended);
        for (segment, (&start, &end)) in self.tails.iter().zip(slots) {
            if start < end {
                segment.prefetch(start, end);
            }
        }
    }

    /// Passes on the items of the tail whose prefixes are in `window`.
    #[inline]
    pub(super) fn read_tail(
        &self,
        appended: &[u64; SHARDS],
        window: RangeInclusive<u64>,
        mut take: impl FnMut(Item),
    ) {
        let slots = self.covered.iter().zip(appended);
        for (segment, (&start, &end)) in self.tails.iter().zip(slots) {
            if start < end {
                log::read(segment, start, end, window.clone(), &mut take);
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

    /// From which run on to merge with `added` entries, so that no more than `merge_max` are moved.
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
