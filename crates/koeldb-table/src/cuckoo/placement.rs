//! Placement of entries into slots.
//!
//! Every entry ends in one of its windows, and every slot on a reader's way to it is occupied. Both
//! algorithms maintain that: an entry takes the first empty slot on its way, and an occupied slot
//! stays occupied, because an entry moves away only for the one that displaces it.
//!
//! - *Greedy*, as in RocksDB: entry by entry; if all windows are full, it searches for the shortest
//!   chain of moves that ends at an empty slot. For the same entries the file is identical to
//!   RocksDB's.
//! - *Earliest deadline*: a first window is an interval, so one sweep over the slots that always
//!   serves the entry whose window ends first puts the largest possible number of entries into
//!   theirs. The greedy algorithm places the rest. Two fifths fewer keys are found outside their
//!   first window, and the sweep is sequential.

use std::collections::VecDeque;

use super::hash::{FUNCTIONS_MAX, SlotHash};
use super::records::{FallbackReason, Possible, SlotEntries};
pub use crate::build_context::Placement;

/// The marker of an empty slot.
pub(super) const EMPTY: u32 = u32::MAX;

/// The entry in each slot of a hash table, and the number of hash functions.
#[derive(Debug)]
pub(super) struct Placed {
    /// The entry in each slot, or [`EMPTY`].
    pub(super) slots: Vec<u32>,
    /// The number of hash functions in use.
    pub(super) function_count: u32,
}

/// Assigns all entries to slots (cuckoo hashing); fails with a reason to fall back.
pub(super) fn place<E: SlotEntries>(
    records: &E,
    placement: Placement,
    hash: SlotHash,
    table_size: u32,
    window_slots: u32,
    depth_max: u32,
) -> Possible<Placed> {
    let slot_count = table_size as usize + window_slots as usize - 1;
    let mut placer = Placer {
        records,
        placement,
        hash,
        window_slots,
        depth_max,
        function_count: 2,
        slots: vec![EMPTY; slot_count],
        seen: Vec::new(),
        searches: 0,
        tree: Vec::new(),
        candidates: Vec::new(),
    };
    match placement {
        Placement::Greedy => {
            for index in 0..records.count() {
                placer.insert(index)?;
            }
        }
        Placement::EarliestDeadline => {
            for index in placer.sweep() {
                placer.insert(index)?;
            }
        }
    }
    Ok(Placed {
        slots: placer.slots,
        function_count: placer.function_count,
    })
}

/// A slot in the breadth-first search for an empty slot (RocksDB: `CuckooNode`).
struct Node {
    slot: u32,
    depth: u32,
    parent: u32,
}

/// An algorithm that assigns entries to slots, with its state.
struct Placer<'r, E> {
    records: &'r E,
    placement: Placement,
    hash: SlotHash,
    window_slots: u32,
    depth_max: u32,
    function_count: u32,
    slots: Vec<u32>,
    /// The last search that reached each slot. Empty until the first search.
    seen: Vec<u32>,
    searches: u32,
    tree: Vec<Node>,
    candidates: Vec<u32>,
}

impl<E: SlotEntries> Placer<'_, E> {
    /// Returns the slots of an entry's cuckoo block by hash function number `function`.
    fn window(&self, function: u32, index: u32) -> std::ops::Range<u32> {
        let first = self.hash.slot(function, self.records.user_key(index));
        #[expect(clippy::cast_possible_truncation, reason = "a slot number")]
        let first = first as u32;
        first..first + self.window_slots
    }

    /// Fills slots by first windows, earliest window end first; returns the entries left over.
    ///
    /// Returns the entries left out, in the order of their cuckoo blocks.
    fn sweep(&mut self) -> Vec<u32> {
        // Chains of the entries whose first window begins at a slot. Until the sweep reaches it,
        // the slot itself holds the head of its chain: with millions of slots there is no memory
        // for both.
        let mut next = vec![EMPTY; self.records.count() as usize];
        for index in (0..self.records.count()).rev() {
            let first = self.window(0, index).start as usize;
            next[index as usize] = std::mem::replace(&mut self.slots[first], index);
        }
        let mut waiting: VecDeque<(u32, u32)> = VecDeque::new();
        let mut left = Vec::new();
        for slot in 0..self.slots.len() {
            let mut entry = std::mem::replace(&mut self.slots[slot], EMPTY);
            #[expect(clippy::cast_possible_truncation, reason = "fewer than 2^32 slots")]
            let slot = slot as u32;
            while entry != EMPTY {
                waiting.push_back((slot + self.window_slots, entry));
                entry = next[entry as usize];
            }
            while let Some(&(deadline, entry)) = waiting.front()
                && deadline <= slot
            {
                waiting.pop_front();
                left.push(entry);
            }
            if let Some((_, entry)) = waiting.pop_front() {
                self.slots[slot as usize] = entry;
            }
        }
        left.extend(waiting.into_iter().map(|(_, entry)| entry));
        left
    }

    /// Assigns an entry to a slot, moving other entries or adding a hash function if necessary.
    fn insert(&mut self, index: u32) -> Possible<()> {
        self.candidates.clear();
        for function in 0..self.function_count {
            if self.try_window(function, index) {
                return Ok(());
            }
        }
        loop {
            if let Some(slot) = self.make_space() {
                self.slots[slot as usize] = index;
                return Ok(());
            }
            if self.function_count == FUNCTIONS_MAX {
                return Err(FallbackReason::Collisions);
            }
            self.function_count += 1;
            if self.try_window(self.function_count - 1, index) {
                return Ok(());
            }
        }
    }

    /// Puts an entry into the first empty slot of a window; returns false if all are occupied.
    ///
    /// The occupied slots become candidates for moves.
    fn try_window(&mut self, function: u32, index: u32) -> bool {
        for slot in self.window(function, index) {
            let place = &mut self.slots[slot as usize];
            if *place == EMPTY {
                *place = index;
                return true;
            }
            self.candidates.push(slot);
        }
        false
    }

    /// Frees one of the candidate slots by the shortest chain of moves; `None` if there is none.
    ///
    /// Returns the candidate, which is then free.
    fn make_space(&mut self) -> Option<u32> {
        self.seen.resize(self.slots.len(), 0);
        self.searches += 1;
        self.tree.clear();
        // COMPAT: RocksDB begins with only as many candidates as there are functions, mostly slots
        // of the first window.
        let roots = match self.placement {
            Placement::Greedy => self.function_count as usize,
            Placement::EarliestDeadline => self.candidates.len(),
        };
        for &slot in self.candidates.iter().take(roots) {
            self.seen[slot as usize] = self.searches;
            self.tree.push(Node {
                slot,
                depth: 0,
                parent: EMPTY,
            });
        }
        let mut at = 0;
        while at < self.tree.len() && self.tree[at].depth < self.depth_max {
            if self.expand(at) {
                return Some(self.move_along());
            }
            at += 1;
        }
        None
    }

    /// Adds the slots to which the entry at a node may move; returns whether the last one is empty.
    fn expand(&mut self, at: usize) -> bool {
        let Node { slot, depth, .. } = self.tree[at];
        let entry = self.slots[slot as usize];
        #[expect(clippy::cast_possible_truncation, reason = "fewer nodes than slots")]
        let parent = at as u32;
        for function in 0..self.function_count {
            for slot in self.window(function, entry) {
                let seen = &mut self.seen[slot as usize];
                if *seen == self.searches {
                    continue;
                }
                *seen = self.searches;
                self.tree.push(Node {
                    slot,
                    depth: depth + 1,
                    parent,
                });
                if self.slots[slot as usize] == EMPTY {
                    return true;
                }
            }
        }
        false
    }

    /// Moves entries along the found path to the empty slot; returns the slot freed at its start.
    fn move_along(&mut self) -> u32 {
        let mut at = self.tree.len() - 1;
        while self.tree[at].parent != EMPTY {
            let parent = self.tree[at].parent as usize;
            self.slots[self.tree[at].slot as usize] = self.slots[self.tree[parent].slot as usize];
            at = parent;
        }
        self.tree[at].slot
    }
}
