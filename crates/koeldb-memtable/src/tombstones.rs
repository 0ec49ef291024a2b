//! The range tombstones of a memtable, and their fragments for readers.
//!
//! Tombstones are kept as written. Readers need them in fragments, which the first reader after an
//! insert builds: those of the new tombstones, together with the preceding parts that have no more.
//! The parts thus shrink by half, and a tombstone is cut into fragments a logarithmic number of
//! times. Each state is published in a slot that is written once, so that readers take no lock. The
//! states exist as long as the memtable, and are counted as its memory.
//!
//! # Invariants
//! - **T1** `count` is increased, with release, after the tombstone is in the list. A reader that
//!   loads it after it got its snapshot therefore counts every tombstone published before, and uses
//!   no older fragments.
//! - **T2** States are pushed under the lock of the list, each of more tombstones than the last.
//!   `States::count` is increased, with release, after the slot of the state is set.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use koeldb_base::range_del::{Fragment, FragmentedTombstones, RangeTombstone};
use koeldb_base::sync::lock_plain as lock;
use koeldb_base::{KeyOrder, SeqNo};

/// The fragmented range tombstones of some consecutive inserts.
#[derive(Clone)]
struct Part {
    /// The number of tombstones that the fragments were made of.
    count: usize,
    fragments: Arc<FragmentedTombstones>,
}

/// The fragmented range tombstones of the first `count` inserts, in parts of decreasing size.
struct State {
    count: usize,
    parts: Vec<Part>,
}

/// An append-only list of all published states, which readers access without a lock.
#[derive(Default)]
struct States {
    count: AtomicUsize,
    /// Segment n holds 2^n states, from state 2^n - 1 on.
    segments: [OnceLock<Box<[OnceLock<State>]>>; 32],
}

impl States {
    /// Returns the segment that holds the state at `index`, and its index in the segment.
    fn place(index: usize) -> (usize, usize) {
        let segment = (index + 1).ilog2();
        (segment as usize, index + 1 - (1 << segment))
    }

    /// Returns the published state number `index`; `None` if there is none yet.
    #[inline]
    fn get(&self, index: usize) -> Option<&State> {
        let (segment, at) = Self::place(index);
        self.segments.get(segment)?.get()?.get(at)?.get()
    }

    /// The state that was published last; `None` if there is none.
    #[inline]
    fn newest(&self) -> Option<&State> {
        self.get(self.count.load(Ordering::Acquire).checked_sub(1)?)
    }

    /// Appends and publishes a state. The caller holds the lock of the tombstone list.
    fn push(&self, state: State) -> &State {
        let index = self.count.load(Ordering::Relaxed);
        let (segment, at) = Self::place(index);
        let empty = || (0..1_usize << segment).map(|_| OnceLock::new()).collect();
        let state = self.segments[segment].get_or_init(empty)[at].get_or_init(|| state);
        self.count.store(index + 1, Ordering::Release);
        state
    }
}

/// The range tombstones of a memtable, as inserted and fragmented for readers.
#[derive(Default)]
pub(crate) struct Tombstones {
    count: AtomicUsize,
    memory_bytes: AtomicUsize,
    written: Mutex<Vec<RangeTombstone>>,
    /// Created by the first reader that finds tombstones.
    states: OnceLock<Box<States>>,
}

impl Tombstones {
    /// Adds a range tombstone, and makes it visible to readers.
    pub(crate) fn insert(&self, tombstone: RangeTombstone) {
        let bytes =
            size_of::<RangeTombstone>() + tombstone.start.capacity() + tombstone.end.capacity();
        let mut written = lock(&self.written);
        written.push(tombstone);
        self.memory_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.count.store(written.len(), Ordering::Release);
    }

    /// The number of range tombstones inserted.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// The bytes of the range tombstones and of all their fragments.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory_bytes.load(Ordering::Relaxed)
    }

    /// Returns all range tombstones so far, fragmented in one list; `None` if there are none.
    pub(crate) fn fragments(&self, order: &KeyOrder) -> Option<Arc<FragmentedTombstones>> {
        if self.count() == 0 {
            return None;
        }
        let state = self.newest(order);
        match &state.parts[..] {
            [only] => Some(Arc::clone(&only.fragments)),
            _ => Some(Arc::new(FragmentedTombstones::new(
                order,
                &lock(&self.written)[..state.count],
            ))),
        }
    }

    /// Returns all range tombstones so far, in a few fragmented lists that may overlap.
    pub(crate) fn lists(
        &self,
        order: &KeyOrder,
    ) -> impl Iterator<Item = &Arc<FragmentedTombstones>> {
        let parts = match self.count() {
            0 => &[],
            _ => &self.newest(order).parts[..],
        };
        parts.iter().map(|part| &part.fragments)
    }

    /// Returns the sequence number of the newest tombstone over `user_key` at `snapshot`, or 0.
    #[inline]
    pub(crate) fn covering_seqno(
        &self,
        order: &KeyOrder,
        user_key: &[u8],
        snapshot: SeqNo,
    ) -> SeqNo {
        if self.count() == 0 {
            return 0;
        }
        let mut newest = 0;
        for part in self.newest(order).parts.iter().rev() {
            if part.fragments.seqno_max() > newest {
                newest = newest.max(part.fragments.covering_seqno(user_key, snapshot));
            }
        }
        newest
    }

    /// Returns the fragmented state of all range tombstones so far, building it if needed.
    #[inline]
    fn newest(&self, order: &KeyOrder) -> &State {
        let states = self.states.get_or_init(Box::default);
        match states.newest() {
            Some(state) if state.count >= self.count() => state,
            _ => self.build(order, states),
        }
    }

    /// Builds and publishes the fragmented state of all range tombstones so far.
    #[cold]
    fn build<'s>(&self, order: &KeyOrder, states: &'s States) -> &'s State {
        let written = lock(&self.written);
        let (mut parts, mut from) = match states.newest() {
            // Another reader was faster.
            Some(state) if state.count == written.len() => return state,
            Some(state) => (state.parts.clone(), state.count),
            None => (Vec::new(), 0),
        };
        while let Some(last) = parts.pop_if(|last| last.count <= written.len() - from) {
            from -= last.count;
        }
        let fragments = FragmentedTombstones::new(order, &written[from..]);
        let bytes: usize = fragments.fragments().iter().map(memory_of).sum();
        self.memory_bytes.fetch_add(bytes, Ordering::Relaxed);
        parts.push(Part {
            count: written.len() - from,
            fragments: Arc::new(fragments),
        });
        states.push(State {
            count: written.len(),
            parts,
        })
    }
}

/// Returns the approximate memory of a range tombstone fragment in bytes.
fn memory_of(fragment: &Fragment) -> usize {
    let seqnos = size_of::<SeqNo>() * fragment.seqnos.len();
    size_of::<Fragment>() + fragment.start.len() + fragment.end.len() + seqnos
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tombstone(start: u8, end: u8, seqno: SeqNo) -> RangeTombstone {
        RangeTombstone {
            start: vec![start],
            end: vec![end],
            seqno,
        }
    }

    #[test]
    fn every_tombstone_counts_from_its_insert_on() {
        let (order, tombstones) = (KeyOrder::Bytewise, Tombstones::default());
        let mut written = Vec::new();
        for number in 0..300_u64 {
            // Sequence numbers may arrive out of order.
            let seqno = number ^ 1;
            let [start, width, ..] = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
            written.push(tombstone(
                start,
                start.saturating_add(width % 16),
                seqno + 1,
            ));
            tombstones.insert(written[written.len() - 1].clone());
            if number % 7 > 4 {
                continue;
            }
            for key in (0..=255).step_by(3) {
                let snapshot = number / 2;
                let over = |t: &&RangeTombstone| t.start[0] <= key && key < t.end[0];
                let seqnos = written.iter().filter(over).map(|t| t.seqno);
                let expected = seqnos.filter(|&seqno| seqno <= snapshot).max();
                let covering = tombstones.covering_seqno(&order, &[key], snapshot);
                assert_eq!(covering, expected.unwrap_or(0), "{key} after {number}");
                let whole = tombstones.fragments(&order).unwrap();
                assert_eq!(whole.covering_seqno(&[key], snapshot), covering);
            }
            let parts = tombstones.lists(&order).count();
            assert!(parts <= 9, "{parts} parts of {number} tombstones");
        }
    }

    #[test]
    fn a_read_of_known_tombstones_takes_no_lock() {
        let (order, tombstones) = (KeyOrder::Bytewise, Tombstones::default());
        for seqno in 1..20 {
            tombstones.insert(tombstone(1, 5, seqno));
            assert_eq!(tombstones.covering_seqno(&order, &[2], 100), seqno);
        }
        let writer = lock(&tombstones.written);
        assert_eq!(tombstones.covering_seqno(&order, &[2], 100), 19);
        assert_eq!(tombstones.lists(&order).count(), 3);
        drop(writer);
    }
}
