//! A cursor over the runs of a moment and the sorted tail behind them.
//!
//! Each source, a run or the tail, has a position between two of its items. All positions lie on the same side of the
//! cursor's entry: before it when the cursor goes forward, so that the entry is the smallest behind a position, and
//! behind it when it goes backward. To turn around, the positions stay where they are.
//!
//! There are few sources and most entries are in one of them, so there is no heap and no tree: a step looks whether the
//! source stays ahead of the *rival*, the best of the others, and goes through all of them only if it does not.

use std::cmp::Ordering;
use std::sync::Arc;

use koeldb_base::key::footer_of;

use super::SortedHash;
use super::log::Item;
use super::runs::{ItemOrder, RunSet, Target};
use crate::arena::SHARDS;
use crate::rep::entry::Entry;

/// A tail of no more entries is sorted by each cursor for itself.
pub(super) const TAIL_MAX: usize = if cfg!(all(loom, test)) { 0 } else { 16 };
/// So many entries' memory is asked for in advance.
const AHEAD: usize = 4;
/// So many entries of the best source are what a short scan reads.
const SCANNED: usize = 8;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

/// A position in the entries that were there when the cursor was made, or refreshed.
pub(crate) struct SortedHashCursor {
    table: Arc<SortedHash>,
    set: Arc<RunSet>,
    appended: [u64; SHARDS],
    /// Whether the tail is sorted: the first search does it.
    is_ready: bool,
    tail: Vec<Item>,
    positions: Vec<usize>,
    direction: Direction,
    /// Whether it began at the first entry of a finished table, as who writes it out does.
    takes_all: bool,
    /// The source of the entry.
    winner: usize,
    /// The best of the other sources.
    rival: Option<Item>,
    current: Option<Item>,
}

impl SortedHashCursor {
    pub(crate) fn new(table: Arc<SortedHash>) -> Self {
        let (set, appended) = table.capture_for_cursor();
        SortedHashCursor {
            table,
            set,
            appended,
            is_ready: false,
            tail: Vec::new(),
            positions: Vec::new(),
            direction: Direction::Forward,
            takes_all: false,
            winner: 0,
            rival: None,
            current: None,
        }
    }

    pub(crate) fn refresh(&mut self) {
        (self.set, self.appended) = self.table.capture_for_cursor();
        self.is_ready = false;
        self.tail.clear();
        self.positions.clear();
        self.current = None;
    }

    /// The runs it shows, once its tail is sorted.
    #[cfg(all(test, not(loom)))]
    pub(super) fn ready_set(&mut self) -> &Arc<RunSet> {
        self.get_ready();
        &self.set
    }

    #[inline]
    pub(crate) fn entry(&self) -> Option<Entry<'_>> {
        self.current.map(|item| item.node.entry(self.table.arena()))
    }

    /// Sorts the tail: a short one for this cursor alone.
    fn get_ready(&mut self) {
        if self.is_ready {
            return;
        }
        let len = self.set.tail_len(&self.appended);
        if len > self.table.tail_max() as u64 {
            self.set = self.table.sort_tail(&self.set, &self.appended);
            self.table.offer_if_overdue(&self.set);
        } else if len > 0 {
            let tail = &mut self.tail;
            tail.reserve(TAIL_MAX);
            self.set.read_tail(&self.appended, |item| tail.push(item));
            self.table.item_order().sort(tail);
        }
        self.is_ready = true;
    }

    fn order(&self) -> ItemOrder<'_> {
        self.table.item_order()
    }

    fn source_count(&self) -> usize {
        self.set.runs.len() + usize::from(!self.tail.is_empty())
    }

    #[inline]
    fn source(&self, index: usize) -> &[Item] {
        match self.set.runs.get(index) {
            Some(run) => &run.items,
            None => &self.tail,
        }
    }

    /// The item of a source that comes next in this direction.
    #[inline]
    fn candidate(&self, source: usize) -> Option<Item> {
        let at = match self.direction {
            Direction::Forward => self.positions[source],
            Direction::Backward => self.positions[source].checked_sub(1)?,
        };
        self.source(source).get(at).copied()
    }

    /// Whether `a` comes before `b` in this direction.
    #[inline]
    fn is_ahead(&self, a: Item, b: Item) -> bool {
        let ahead = match self.direction {
            Direction::Forward => Ordering::Less,
            Direction::Backward => Ordering::Greater,
        };
        self.order().compare(a, b) == ahead
    }

    /// Finds the source that is ahead of all others, and its rival.
    fn choose(&mut self) {
        let (mut best, mut rival) = (None, None);
        for source in 0..self.positions.len() {
            let Some(item) = self.candidate(source) else {
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
                    best = Some((source, item));
                }
            }
        }
        self.rival = rival;
        self.current = best.map(|(_, item)| item);
        self.winner = best.map_or(0, |(source, _)| source);
    }

    pub(crate) fn seek_to_first(&mut self) {
        self.get_ready();
        self.positions.clear();
        self.positions.resize(self.source_count(), 0);
        self.direction = Direction::Forward;
        self.takes_all = self.set.is_finished;
        self.choose();
        self.prefetch_first();
    }

    pub(crate) fn seek_to_last(&mut self) {
        self.get_ready();
        self.positions.clear();
        for source in 0..self.source_count() {
            let end = self.source(source).len();
            self.positions.push(end);
        }
        self.direction = Direction::Backward;
        self.choose();
    }

    pub(crate) fn seek(&mut self, internal_key: &[u8]) {
        self.get_ready();
        self.takes_all = false;
        let target = self.table.target(internal_key);
        let order = self.table.item_order();
        self.positions.clear();
        // All runs at once wait for the memory they are searched in.
        for run in &self.set.runs {
            let block = run.block(target);
            run.prefetch(&block);
            self.positions.push(block.start);
        }
        for (run, position) in self.set.runs.iter().zip(&mut self.positions) {
            *position = run.lower_bound_in(run.block_at(*position), order, target);
        }
        if !self.tail.is_empty() {
            self.positions.push(order.lower_bound(&self.tail, target));
        }
        self.direction = Direction::Forward;
        self.choose();
        self.prefetch_first();
    }

    pub(crate) fn seek_for_prev(&mut self, internal_key: &[u8]) {
        self.seek(internal_key);
        let is_at = self.current.is_some_and(|item| {
            let order = self.order();
            order
                .keys
                .compare_internal(order.key(item), internal_key)
                .is_eq()
        });
        if !is_at {
            self.direction = Direction::Backward;
            self.choose();
        }
    }

    /// Asks for the value of an entry that was asked for before.
    #[inline]
    fn prefetch_value(&self) {
        let soon = self.positions[self.winner] + AHEAD / 2;
        if let Some(item) = self.source(self.winner).get(soon) {
            item.node.entry(self.table.arena()).prefetch_value();
        }
    }

    /// Asks for the entries that a scan forward will come to first.
    fn prefetch_first(&self) {
        let behind = |source| self.source(source).iter().skip(self.positions[source]);
        if self.current.is_none() {
            return;
        }
        for item in behind(self.winner).take(AHEAD) {
            item.node.prefetch();
        }
        // Other sources are not stepped ahead of, so theirs are asked for as far as a short scan may come.
        let last = behind(self.winner).nth(SCANNED);
        let last = last.map_or(u64::MAX, |item| item.prefix);
        for source in (0..self.positions.len()).filter(|&source| source != self.winner) {
            let soon = behind(source).take_while(|item| item.prefix <= last);
            for item in soon.take(AHEAD) {
                item.node.prefetch();
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

    #[inline]
    fn step(&mut self, direction: Direction) {
        if self.current.is_none() {
            return;
        }
        if self.direction == direction {
            self.step_over();
        } else {
            // The positions are between the entry and what is wanted now.
            self.direction = direction;
            self.choose();
        }
    }

    /// Leaves the entry behind, in the direction of the cursor.
    #[inline]
    fn step_over(&mut self) {
        let winner = self.winner;
        let ahead = match self.direction {
            Direction::Forward => {
                self.positions[winner] += 1;
                if self.takes_all {
                    self.prefetch_value();
                }
                self.positions[winner].checked_add(AHEAD)
            }
            Direction::Backward => {
                self.positions[winner] -= 1;
                self.positions[winner].checked_sub(1 + AHEAD)
            }
        };
        if let Some(item) = ahead.and_then(|at| self.source(winner).get(at)) {
            item.node.prefetch();
        }
        match (self.candidate(winner), self.rival) {
            (Some(item), None) => self.current = Some(item),
            (Some(item), Some(rival)) if self.is_ahead(item, rival) => self.current = Some(item),
            _ => self.choose(),
        }
    }
}

impl SortedHash {
    /// Where to search for an internal key.
    #[inline]
    pub(super) fn target<'k>(&self, internal_key: &'k [u8]) -> Target<'k> {
        Target {
            prefix: self.prefix(footer_of(internal_key).0),
            key: internal_key,
        }
    }
}
