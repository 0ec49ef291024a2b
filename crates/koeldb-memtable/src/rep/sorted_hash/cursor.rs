//! A merging cursor over a snapshot of the runs and the unsorted tail.
//!
//! Each source, a run or the tail, has a position between two of its items. All positions are on
//! the same side of the cursor's entry: before it when the cursor goes forward, so that the entry
//! is the smallest after a position, and after it when it goes backward. Changing direction leaves
//! the positions where they are.
//!
//! There are few sources and most entries are in one of them, so there is no heap and no tree: a
//! step checks whether the source stays ahead of the *rival*, the best of the others, and visits
//! all sources only if it does not.
//!
//! Most scans are short, and most of the tail is outside their range. A forward cursor therefore
//! sorts only the items of the tail in a *window*, from its position to some entries ahead in the
//! longest run. Each window is longer than the one before; a change of direction puts the whole
//! tail in one window.

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicUsize};

use koeldb_base::key::footer_of;

use super::SortedHash;
use super::log::{Item, LogLengths};
use super::runs::{ItemOrder, RunSet, Target};
use crate::rep::entry::Entry;

/// The longest unsorted tail of the logs that a cursor accepts: it sorts the tail for itself.
///
/// The small tables of models and of Miri need runs too.
pub(super) const TAIL_MAX: usize = if cfg!(all(loom, test)) {
    0
} else if cfg!(miri) {
    8
} else {
    128
};
/// The number of entries prefetched in advance.
const AHEAD: usize = 12;
/// Bytes of a value prefetched by a full scan of a finished table, as in a flush.
///
/// The hardware prefetcher detects a stream only after some lines.
const WHOLE_VALUE: usize = 4096;
/// The number of values prefetched in advance by a full scan of a finished table.
const WHOLE_VALUES_AHEAD: usize = 6;
/// Bytes of a value prefetched by a reader of values: the hardware prefetcher fetches the rest.
const VALUE_HEAD: usize = 512;
/// The number of values prefetched in advance by a reader of values.
const VALUES_AHEAD: usize = 3;
/// The number of entries of the longest run in the first window: more than a short scan reads.
const WINDOW: usize = 16;
/// The growth factor of windows.
const WINDOW_GROWTH: usize = 8;

/// The direction in which a cursor moves.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

/// The parts of entries to prefetch for a scan: keys only, or values too.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reads {
    Keys,
    /// Keys, and the values stored beside them, whose size is approximately this many bytes.
    Near(usize),
    /// Keys, and the values stored apart from them.
    Far,
}

impl Reads {
    /// The number of bytes to prefetch after a key, for values stored beside their keys.
    #[inline]
    fn near_bytes(self) -> usize {
        match self {
            Reads::Near(bytes) => bytes,
            Reads::Keys | Reads::Far => 0,
        }
    }
}

/// [`Reads`] as atomics, for threads that share a cursor. A hint: accesses are relaxed.
struct SharedReads(AtomicUsize);

impl SharedReads {
    const KEYS: usize = 0;
    const FAR: usize = usize::MAX;

    fn get(&self) -> Reads {
        match self.0.load(atomic::Ordering::Relaxed) {
            Self::KEYS => Reads::Keys,
            Self::FAR => Reads::Far,
            bytes => Reads::Near(bytes),
        }
    }

    fn set(&self, reads: Reads) {
        let stored = match reads {
            Reads::Keys => Self::KEYS,
            Reads::Far => Self::FAR,
            Reads::Near(bytes) => bytes,
        };
        self.0.store(stored, atomic::Ordering::Relaxed);
    }
}

/// The position of the merging cursor in one input: a sorted run, or the tail of the logs.
#[derive(Clone, Copy)]
struct Source {
    position: usize,
    /// The next item in the direction of the cursor.
    head: Option<Item>,
}

/// A merging cursor over the sorted runs and log tail of a sorted hash memtable.
///
/// It shows the entries that were present when it was created or refreshed.
pub(crate) struct SortedHashCursor {
    table: Arc<SortedHash>,
    set: Arc<RunSet>,
    appended: LogLengths,
    /// Whether the unsorted tail is short; the first search ensures it.
    is_ready: bool,
    /// The items of the tail in the window, once sorted.
    tail: Vec<Item>,
    /// The last key prefix in the window.
    until: u64,
    /// The number of entries of the longest run in the window.
    window: usize,
    /// The inputs of the merge: the runs of the set, then the tail.
    sources: Vec<Source>,
    direction: Direction,
    /// Whether the scan began at the first entry of a finished table, as a flush does.
    takes_all: bool,
    reads: SharedReads,
    /// The input that has the current entry.
    winner: usize,
    /// The best item of the other inputs.
    rival: Option<Item>,
    current: Option<Item>,
}

impl SortedHashCursor {
    /// Creates an unpositioned cursor over the entries inserted so far.
    pub(crate) fn new(table: Arc<SortedHash>) -> Self {
        let (set, appended) = table.capture_for_cursor();
        SortedHashCursor {
            table,
            set,
            appended,
            is_ready: false,
            tail: Vec::new(),
            until: u64::MAX,
            window: 0,
            sources: Vec::new(),
            direction: Direction::Forward,
            takes_all: false,
            reads: SharedReads(AtomicUsize::new(SharedReads::KEYS)),
            winner: 0,
            rival: None,
            current: None,
        }
    }

    /// Refreshes the cursor to all entries inserted so far; it is then unpositioned.
    pub(crate) fn refresh(&mut self) {
        (self.set, self.appended) = self.table.capture_for_cursor();
        self.is_ready = false;
        self.current = None;
    }

    /// Returns the set of sorted runs that the cursor reads, after sorting a long tail.
    #[cfg(all(test, not(loom)))]
    pub(super) fn ready_set(&mut self) -> &Arc<RunSet> {
        self.get_ready();
        &self.set
    }

    /// The current entry; `None` if the cursor is not valid.
    #[inline]
    pub(crate) fn entry(&self) -> Option<Entry<'_>> {
        self.current.map(|item| item.node.entry(self.table.arena()))
    }

    /// Sorts the tail of the logs into a run if it is long, before the first search.
    #[inline]
    fn get_ready(&mut self) {
        if self.is_ready {
            return;
        }
        if self.set.tail_len(&self.appended) > self.table.tail_max() as u64 {
            self.set = self.table.sort_tail(&self.set, &self.appended);
            self.table.offer_if_overdue(&self.set);
        }
        self.is_ready = true;
    }

    /// The order of the items of all inputs.
    fn order(&self) -> ItemOrder<'_> {
        self.table.item_order()
    }

    /// The index of the log tail among the inputs of the merge, after the runs.
    #[inline]
    fn tail_index(&self) -> usize {
        self.set.runs.len()
    }

    /// The sorted items of input `source`: of a run, or of the tail's sorted window.
    #[inline]
    fn items(&self, source: usize) -> &[Item] {
        match self.set.runs.get(source) {
            Some(run) => &run.items,
            None => &self.tail,
        }
    }

    /// Whether item `a` comes before `b` in the direction of the cursor.
    #[inline]
    fn is_ahead(&self, a: Item, b: Item) -> bool {
        let ahead = match self.direction {
            Direction::Forward => Ordering::Less,
            Direction::Backward => Ordering::Greater,
        };
        self.order().compare(a, b) == ahead
    }

    /// Sets the position of input `source`, and loads its next item in the current direction.
    #[inline]
    fn place(&mut self, source: usize, position: usize) {
        let next = match self.direction {
            Direction::Forward => Some(position),
            Direction::Backward => position.checked_sub(1),
        };
        let head = next.and_then(|next| self.items(source).get(next).copied());
        self.sources[source] = Source { position, head };
    }

    /// Sets the direction of the cursor, and reloads the next item of every input for it.
    fn turn(&mut self, direction: Direction) {
        self.direction = direction;
        for source in 0..self.sources.len() {
            self.place(source, self.sources[source].position);
        }
    }

    /// Resets all inputs for a new search: at their start, going forward, with an empty tail.
    fn begin(&mut self) {
        self.get_ready();
        self.takes_all = false;
        self.direction = Direction::Forward;
        self.tail.clear();
        self.sources.clear();
        let source = Source {
            position: 0,
            head: None,
        };
        self.sources.resize(self.tail_index() + 1, source);
    }

    /// Seeks a target in all runs, whose cache misses overlap; leaves the tail empty.
    fn search(&mut self, target: Target<'_>) {
        self.begin();
        self.set.prefetch_tail(&self.appended);
        let order = self.table.item_order();
        // Interleaved, so that the cache misses of all runs overlap.
        for (run, source) in self.set.runs.iter().zip(&mut self.sources) {
            source.position = run.part(target);
        }
        for (run, source) in self.set.runs.iter().zip(&mut self.sources) {
            source.position = run.block(source.position, target);
        }
        if let Some((run, source)) = self.set.runs.first().zip(self.sources.first()) {
            run.prefetch_behind(source.position);
        }
        for (run, source) in self.set.runs.iter().zip(&mut self.sources) {
            source.position = run.lower_bound_in(source.position, order, target);
            source.head = run.items.get(source.position).copied();
        }
    }

    /// Sorts the tail's items in a window of key prefixes, which begins at `from`.
    ///
    /// It spans as many as `entries` items of the longest run do.
    fn open_window(&mut self, from: u64, entries: usize) {
        self.until = u64::MAX;
        self.window = entries;
        self.tail.clear();
        if self.set.tail_len(&self.appended) > 0 {
            if let Some((run, source)) = self.set.runs.first().zip(self.sources.first())
                && let Some(last) = run.items.get(source.position.saturating_add(entries))
            {
                self.until = last.prefix;
            }
            let tail = &mut self.tail;
            let near_bytes = self.reads.get().near_bytes();
            self.set
                .read_tail(&self.appended, from..=self.until, |item| {
                    item.node.prefetch(near_bytes);
                    tail.push(item);
                });
            self.table.item_order().sort(tail);
        }
    }

    /// Sorts the whole tail, and positions it after the items for which `is_before` holds.
    fn open_whole(&mut self, is_before: impl Fn(ItemOrder<'_>, Item) -> bool) {
        self.open_window(0, usize::MAX);
        let order = self.order();
        let position = self.tail.partition_point(|&item| is_before(order, item));
        self.place(self.tail_index(), position);
    }

    /// Selects the next item among all inputs, sorting further windows of the tail if needed.
    ///
    /// It also notes the best item of the other inputs.
    fn choose(&mut self) {
        loop {
            let (mut best, mut rival) = (None, None);
            for (index, source) in self.sources.iter().enumerate() {
                let Some(item) = source.head.filter(|item| item.prefix <= self.until) else {
                    continue;
                };
                match best {
                    Some((_, leader)) if !self.is_ahead(item, leader) => {
                        if rival.is_none_or(|rival| self.is_ahead(item, rival)) {
                            rival = Some(item);
                        }
                    }
                    _ => {
                        rival = best.map(|(_, leader)| leader);
                        best = Some((index, item));
                    }
                }
            }
            if best.is_none() && self.until < u64::MAX {
                let entries = self.window.saturating_mul(WINDOW_GROWTH);
                self.open_window(self.until + 1, entries);
                self.place(self.tail_index(), 0);
                continue;
            }
            self.rival = rival;
            self.current = best.map(|(_, item)| item);
            self.winner = best.map_or(0, |(source, _)| source);
            return;
        }
    }

    pub(crate) fn seek_to_first(&mut self) {
        self.begin();
        self.takes_all = self.set.is_finished;
        self.open_window(0, WINDOW);
        self.turn(Direction::Forward);
        self.choose();
        self.prefetch_first();
    }

    pub(crate) fn seek_to_last(&mut self) {
        self.begin();
        self.open_window(0, usize::MAX);
        for source in 0..self.sources.len() {
            self.sources[source].position = self.items(source).len();
        }
        self.turn(Direction::Backward);
        self.choose();
    }

    pub(crate) fn seek(&mut self, internal_key: &[u8]) {
        let target = self.table.target(internal_key);
        self.search(target);
        self.prefetch_first();
        self.open_window(target.prefix, WINDOW);
        let order = self.order();
        let position = self
            .tail
            .partition_point(|&item| order.is_before(item, target));
        self.place(self.tail_index(), position);
        self.choose();
        if self.reads.get() == Reads::Far {
            self.prefetch_values();
        }
    }

    pub(crate) fn seek_for_prev(&mut self, internal_key: &[u8]) {
        let target = self.table.target(internal_key);
        self.search(target);
        self.open_whole(|order, item| order.is_before(item, target));
        self.choose();
        let is_at = self.current.is_some_and(|item| {
            let order = self.order();
            order
                .keys
                .compare_internal(order.key(item), internal_key)
                .is_eq()
        });
        if !is_at {
            self.turn(Direction::Backward);
            self.choose();
        }
    }

    /// Hints that the scan reads values, so that those of the next entries are prefetched.
    #[inline]
    pub(crate) fn expect_values(&self) {
        if self.reads.get() == Reads::Keys {
            self.learn_from_entry();
        }
    }

    /// Sets how much of each entry is prefetched, by the size of the current value.
    #[inline(never)]
    fn learn_from_entry(&self) {
        let Some(entry) = self.entry() else {
            return;
        };
        let bytes = entry.value().len();
        if bytes == 0 {
            // An empty value says nothing about others.
            return;
        }
        let is_far = self.table.arena().is_far(bytes);
        self.reads.set(if is_far {
            Reads::Far
        } else {
            Reads::Near(bytes)
        });
        if self.direction == Direction::Forward {
            if is_far {
                self.prefetch_values();
            } else {
                self.prefetch_first();
            }
        }
    }

    /// Prefetches the values, stored apart, of the next entries of a forward scan.
    #[inline(never)]
    fn prefetch_values(&self) {
        let from = self.sources[self.winner].position;
        for item in self.items(self.winner).iter().skip(from).take(VALUES_AHEAD) {
            let entry = item.node.entry(self.table.arena());
            entry.prefetch_value(VALUE_HEAD);
        }
    }

    /// Prefetches `bytes` bytes of the value of the entry `steps` ahead, itself prefetched before.
    #[inline]
    fn prefetch_value(&self, steps: usize, bytes: usize) {
        let soon = self.sources[self.winner].position + steps;
        if let Some(item) = self.items(self.winner).get(soon) {
            item.node.entry(self.table.arena()).prefetch_value(bytes);
        }
    }

    /// Prefetches the first entries of a forward scan in all runs.
    fn prefetch_first(&self) {
        let behind = |source: usize| {
            self.items(source)
                .iter()
                .skip(self.sources[source].position)
        };
        let last = behind(0).nth(AHEAD);
        let last = last.map_or(u64::MAX, |item| item.prefix);
        let near_bytes = self.reads.get().near_bytes();
        for run in 0..self.set.runs.len() {
            let soon = behind(run).take_while(|item| item.prefix <= last);
            for item in soon.take(AHEAD) {
                item.node.prefetch(near_bytes);
            }
        }
    }

    #[inline]
    pub(crate) fn next(&mut self) {
        self.step(Direction::Forward);
    }

    #[inline]
    pub(crate) fn prev(&mut self) {
        self.step(Direction::Backward);
    }

    /// Moves to the next entry in `direction`, after a change of direction if needed.
    #[inline]
    fn step(&mut self, direction: Direction) {
        let Some(current) = self.current else {
            return;
        };
        if self.direction == direction {
            self.step_over();
            return;
        }
        if direction == Direction::Backward {
            // The positions are before the entry.
            self.open_whole(|order, item| order.compare(item, current).is_lt());
        }
        // The positions are between the entry and the wanted one.
        self.turn(direction);
        self.choose();
    }

    /// Moves to the next entry in the current direction.
    #[inline]
    fn step_over(&mut self) {
        let winner = self.winner;
        let position = self.sources[winner].position;
        let (position, ahead) = match self.direction {
            Direction::Forward => {
                if self.takes_all {
                    self.prefetch_value(WHOLE_VALUES_AHEAD, WHOLE_VALUE);
                } else if self.reads.get() == Reads::Far {
                    self.prefetch_value(VALUES_AHEAD, VALUE_HEAD);
                }
                (position + 1, position.checked_add(1 + AHEAD))
            }
            Direction::Backward => (position - 1, position.checked_sub(2 + AHEAD)),
        };
        self.place(winner, position);
        if let Some(item) = ahead.and_then(|at| self.items(winner).get(at)) {
            item.node.prefetch(self.reads.get().near_bytes());
        }
        let next = self.sources[winner].head;
        match next.filter(|item| item.prefix <= self.until) {
            Some(item) if self.rival.is_none_or(|rival| self.is_ahead(item, rival)) => {
                self.current = Some(item);
            }
            _ => self.choose(),
        }
    }
}

impl SortedHash {
    /// Returns the search target for an internal key: the key with its prefix.
    #[inline]
    pub(super) fn target<'k>(&self, internal_key: &'k [u8]) -> Target<'k> {
        Target {
            prefix: self.prefix(footer_of(internal_key).0),
            key: internal_key,
        }
    }
}
