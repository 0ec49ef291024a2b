//! Merges sorted runs: a heap of cursors with the smallest entry on top, or the largest going
//! backward.
//!
//! The heap holds the children that are valid in the current direction; the top one has the current
//! entry. A step moves the top child and sifts it down; a change of direction repositions every
//! other child around the current key. Children must not share an internal key, which sequence
//! numbers guarantee. Beside each child the heap keeps the head of its key, which decides most
//! comparisons without accessing the children.
//!
//! A positioning call positions every child before it suspends, so that the blocks that all of them
//! miss can be read together; repeating the call continues with the suspended children. A step that
//! suspends leaves all state unchanged, for repeating the step.

use std::cmp::Ordering;

use koeldb_base::key::user_key;
use koeldb_base::{Cursor, Fault, KeyOrder};

/// The direction of the merge, which gives the order of the heap.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

/// A child cursor in the merge heap, with the first bytes of its key for fast comparisons.
#[derive(Clone, Copy)]
struct HeapChild {
    /// The first bytes of the child's key as a number; going backward its complement.
    head: u64,
    child: usize,
}

/// A cursor over the merged entries of several child cursors (RocksDB: `MergingIterator`).
pub struct MergingCursor<C> {
    order: KeyOrder,
    children: Vec<C>,
    heap: Vec<HeapChild>,
    direction: Direction,
    pivot: Vec<u8>,
    /// The positioning call that is suspended.
    call: Option<Call>,
    /// The children that the suspended call has not positioned.
    suspended: Vec<usize>,
}

/// The kind of a call that positions all children, to resume it after it was suspended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    First,
    Last,
    Seek,
    SeekForPrev,
    /// A change of direction at the current entry.
    Turn,
}

impl<C: Cursor> MergingCursor<C> {
    /// Creates an unpositioned cursor over the merged entries of `children`, given in any order.
    #[must_use]
    pub fn new(order: KeyOrder, children: Vec<C>) -> Self {
        MergingCursor {
            order,
            heap: Vec::with_capacity(children.len()),
            children,
            direction: Direction::Forward,
            pivot: Vec::new(),
            call: None,
            suspended: Vec::new(),
        }
    }

    /// Creates the heap entry of a child that is positioned on an entry.
    #[inline]
    fn heap_child(&self, child: usize) -> HeapChild {
        let head = self.order.head(user_key(self.children[child].key()));
        let head = match self.direction {
            Direction::Forward => head,
            Direction::Backward => !head,
        };
        HeapChild { head, child }
    }

    /// Whether child `a` comes before child `b` in the current direction.
    #[inline]
    fn precedes(&self, a: HeapChild, b: HeapChild) -> bool {
        if a.head != b.head {
            return a.head < b.head;
        }
        let (a, b) = (&self.children[a.child], &self.children[b.child]);
        let ordering = self.order.compare_internal(a.key(), b.key());
        match self.direction {
            Direction::Forward => ordering == Ordering::Less,
            Direction::Backward => ordering == Ordering::Greater,
        }
    }

    /// Sifts the element at position `at` of the heap down until the heap order holds.
    fn sift_down(&mut self, mut at: usize) {
        let len = self.heap.len();
        loop {
            let mut first = 2 * at + 1;
            if first >= len {
                return;
            }
            let right = first + 1;
            if right < len && self.precedes(self.heap[right], self.heap[first]) {
                first = right;
            }
            if !self.precedes(self.heap[first], self.heap[at]) {
                return;
            }
            self.heap.swap(at, first);
            at = first;
        }
    }

    /// Rebuilds the heap from all valid children.
    fn build_heap(&mut self) {
        self.heap.clear();
        for child in 0..self.children.len() {
            if self.children[child].valid() {
                self.heap.push(self.heap_child(child));
            }
        }
        for at in (0..self.heap.len() / 2).rev() {
            self.sift_down(at);
        }
    }

    /// Positions all children by a seek `call`; a repeated call positions only the suspended ones.
    fn position(
        &mut self,
        call: Call,
        direction: Direction,
        target: &[u8],
    ) -> Result<(), Fault<C::Suspend>> {
        let position_child = |child: &mut C| match (call, direction) {
            (Call::First, _) => child.seek_to_first(),
            (Call::Last, _) => child.seek_to_last(),
            (Call::Seek, _) | (Call::Turn, Direction::Forward) => child.seek(target),
            (Call::SeekForPrev, _) | (Call::Turn, Direction::Backward) => {
                child.seek_for_prev(target)
            }
        };
        let resumes =
            self.call.take() == Some(call) && (call == Call::Turn || self.pivot == target);
        let before = std::mem::take(&mut self.suspended);
        self.heap.clear();
        let mut suspend = None;
        for (index, child) in self.children.iter_mut().enumerate() {
            if resumes && !before.contains(&index) {
                continue;
            }
            match position_child(child) {
                Ok(()) => {}
                Err(Fault::Error(error)) => {
                    self.suspended.clear();
                    return Err(Fault::Error(error));
                }
                Err(Fault::Suspend(awaited)) => {
                    self.suspended.push(index);
                    suspend = Some(awaited);
                }
            }
        }
        if let Some(awaited) = suspend {
            self.call = Some(call);
            if call != Call::Turn {
                self.pivot.clear();
                self.pivot.extend_from_slice(target);
            }
            return Err(Fault::Suspend(awaited));
        }
        self.direction = direction;
        self.build_heap();
        Ok(())
    }

    /// Reverses the direction: repositions all children around the current entry.
    fn turn(&mut self, direction: Direction) -> Result<(), Fault<C::Suspend>> {
        let mut pivot = std::mem::take(&mut self.pivot);
        if self.call != Some(Call::Turn) {
            pivot.clear();
            pivot.extend_from_slice(self.children[self.heap[0].child].key());
        }
        let placed = self.position(Call::Turn, direction, &pivot);
        self.pivot = pivot;
        placed
    }

    /// Restores the heap order after the top child has moved, and removes it if it is exhausted.
    #[inline]
    fn settle_top(&mut self) {
        let top = self.heap[0].child;
        if self.children[top].valid() {
            if self.heap.len() > 1 {
                self.heap[0] = self.heap_child(top);
                self.sift_down(0);
            }
        } else {
            self.heap.swap_remove(0);
            self.sift_down(0);
        }
    }

    /// Moves to the next entry in `direction`, after a change of direction if needed.
    fn step(&mut self, direction: Direction) -> Result<(), Fault<C::Suspend>> {
        if self.direction != direction {
            self.turn(direction)?;
        }
        let top = self.heap[0].child;
        let moved = match direction {
            Direction::Forward => self.children[top].next(),
            Direction::Backward => self.children[top].prev(),
        };
        if let Err(fault) = moved {
            if matches!(fault, Fault::Error(_)) {
                self.heap.clear();
            }
            return Err(fault);
        }
        self.settle_top();
        Ok(())
    }
}

/// A cursor that merges sorted runs and knows which run has the current entry.
pub trait RunsCursor: Cursor {
    /// The index of the run with the current entry.
    fn run(&self) -> usize;

    /// Moves the run with the current entry, in the current direction, to `target` or beyond.
    ///
    /// The other runs stay where they are.
    ///
    /// The caller knows that its entries before `target` are of no interest.
    ///
    /// # Errors
    /// See [`Cursor::next`].
    fn skip_in_run(&mut self, target: &[u8]) -> Result<(), Fault<Self::Suspend>>;
}

impl<C: Cursor> RunsCursor for MergingCursor<C> {
    fn run(&self) -> usize {
        self.heap[0].child
    }

    #[cold]
    #[inline(never)]
    fn skip_in_run(&mut self, target: &[u8]) -> Result<(), Fault<C::Suspend>> {
        let top = &mut self.children[self.heap[0].child];
        let moved = match self.direction {
            Direction::Forward => top.seek(target),
            Direction::Backward => top.seek_for_prev(target),
        };
        if let Err(fault) = moved {
            if matches!(fault, Fault::Error(_)) {
                self.heap.clear();
            }
            return Err(fault);
        }
        // A second caller of `settle_top` would keep it from being inlined into steps.
        self.build_heap();
        Ok(())
    }
}

impl<C: Cursor> Cursor for MergingCursor<C> {
    type Suspend = C::Suspend;

    #[inline]
    fn valid(&self) -> bool {
        !self.heap.is_empty()
    }

    fn seek_to_first(&mut self) -> Result<(), Fault<C::Suspend>> {
        self.position(Call::First, Direction::Forward, &[])
    }

    fn seek_to_last(&mut self) -> Result<(), Fault<C::Suspend>> {
        self.position(Call::Last, Direction::Backward, &[])
    }

    fn seek(&mut self, target: &[u8]) -> Result<(), Fault<C::Suspend>> {
        self.position(Call::Seek, Direction::Forward, target)
    }

    fn seek_for_prev(&mut self, target: &[u8]) -> Result<(), Fault<C::Suspend>> {
        self.position(Call::SeekForPrev, Direction::Backward, target)
    }

    #[inline]
    fn next(&mut self) -> Result<(), Fault<C::Suspend>> {
        self.step(Direction::Forward)
    }

    #[inline]
    fn prev(&mut self) -> Result<(), Fault<C::Suspend>> {
        self.step(Direction::Backward)
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.children[self.heap[0].child].key()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.children[self.heap[0].child].value()
    }

    fn pinned_value(&self) -> koeldb_base::PinnedSlice {
        self.children[self.heap[0].child].pinned_value()
    }

    fn version(&self) -> Option<koeldb_base::timestamp::EntryVersion> {
        self.children[self.heap[0].child].version()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use koeldb_base::key::{ValueType, encode};
    use proptest::prelude::*;

    /// A cursor that suspends a given number of times before each call succeeds.
    struct VecCursor {
        keys: Vec<Vec<u8>>,
        at: Option<usize>,
        suspends_before: u32,
        answered: u32,
        suspended: bool,
        asked: u32,
    }

    impl VecCursor {
        fn new(keys: Vec<Vec<u8>>, suspends_before: u32) -> Self {
            VecCursor {
                keys,
                at: None,
                suspends_before,
                answered: 0,
                suspended: false,
                asked: 0,
            }
        }

        fn place(&mut self, at: impl FnOnce(&Self) -> Option<usize>) -> Result<(), Fault<()>> {
            self.asked += 1;
            let is_turn = self.suspends_before > 0
                && (self.answered + 1).is_multiple_of(self.suspends_before);
            if is_turn && !self.suspended {
                self.suspended = true;
                return Err(Fault::Suspend(()));
            }
            self.suspended = false;
            self.answered += 1;
            self.at = at(self);
            Ok(())
        }
    }

    impl Cursor for VecCursor {
        type Suspend = ();

        fn valid(&self) -> bool {
            self.at.is_some() && !self.suspended
        }

        fn seek_to_first(&mut self) -> Result<(), Fault<()>> {
            self.place(|cursor| (!cursor.keys.is_empty()).then_some(0))
        }

        fn seek_to_last(&mut self) -> Result<(), Fault<()>> {
            self.place(|cursor| cursor.keys.len().checked_sub(1))
        }

        fn seek(&mut self, target: &[u8]) -> Result<(), Fault<()>> {
            let order = KeyOrder::Bytewise;
            self.place(|cursor| {
                let before = |key: &Vec<u8>| order.compare_internal(key, target).is_lt();
                Some(cursor.keys.partition_point(before)).filter(|&at| at < cursor.keys.len())
            })
        }

        fn seek_for_prev(&mut self, target: &[u8]) -> Result<(), Fault<()>> {
            let order = KeyOrder::Bytewise;
            self.place(|cursor| {
                let up_to = |key: &Vec<u8>| order.compare_internal(key, target).is_le();
                cursor.keys.partition_point(up_to).checked_sub(1)
            })
        }

        fn next(&mut self) -> Result<(), Fault<()>> {
            self.place(|cursor| {
                let next = cursor.at.map(|at| at + 1);
                next.filter(|&at| at < cursor.keys.len())
            })
        }

        fn prev(&mut self) -> Result<(), Fault<()>> {
            self.place(|cursor| cursor.at.and_then(|at| at.checked_sub(1)))
        }

        fn key(&self) -> &[u8] {
            &self.keys[self.at.unwrap()]
        }

        fn value(&self) -> &[u8] {
            b""
        }
    }

    /// Repeats a call until it does not suspend.
    fn done(mut call: impl FnMut() -> Result<(), Fault<()>>) {
        for _ in 0..100 {
            match call() {
                Ok(()) => return,
                Err(Fault::Suspend(())) => {}
                Err(Fault::Error(error)) => panic!("{error}"),
            }
        }
        panic!("the call suspends for ever");
    }

    #[test]
    fn a_seek_asks_every_child_before_it_suspends_and_none_twice_that_answered() {
        let key = |number| encode(&[number], 1, ValueType::Value);
        let child = |number: u8, suspends| VecCursor::new(vec![key(number)], suspends);
        let children = vec![child(1, 1), child(2, 0), child(3, 1), child(4, 0)];
        let mut merged = MergingCursor::new(KeyOrder::Bytewise, children);
        let asked = |merged: &MergingCursor<VecCursor>| -> Vec<u32> {
            merged.children.iter().map(|child| child.asked).collect()
        };
        assert!(matches!(merged.seek(&key(0)), Err(Fault::Suspend(()))));
        assert_eq!(asked(&merged), [1, 1, 1, 1]);
        assert!(!merged.valid());
        merged.seek(&key(0)).unwrap();
        assert_eq!(asked(&merged), [2, 1, 2, 1]);
        assert_eq!(merged.key(), key(1));
        // Another target is another call, although one had suspended.
        assert!(matches!(merged.seek(&key(2)), Err(Fault::Suspend(()))));
        done(|| merged.seek(&key(3)));
        assert_eq!(merged.key(), key(3));
        assert_eq!(asked(&merged)[1], 3, "asked by both");
    }

    proptest! {
        #[test]
        fn runs_merge_as_one_sorted_sequence(
            homes in prop::collection::vec((0..20_u8, 0..4_usize), 0..40),
            steps in prop::collection::vec((0..6_u8, 0..20_u8), 0..40),
            suspends in prop::array::uniform4(0..4_u32),
        ) {
            let order = KeyOrder::Bytewise;
            let mut runs = vec![Vec::new(); 4];
            let mut all = Vec::new();
            for (seqno, &(key, run)) in homes.iter().enumerate() {
                let key = encode(&[key], seqno as u64 + 1, ValueType::Value);
                runs[run].push(key.clone());
                all.push(key);
            }
            for run in &mut runs {
                run.sort_by(|a, b| order.compare_internal(a, b));
            }
            all.sort_by(|a, b| order.compare_internal(a, b));
            let children = runs
                .into_iter()
                .zip(suspends)
                .map(|(keys, suspends)| VecCursor::new(keys, suspends))
                .collect();
            let mut merged = MergingCursor::new(order.clone(), children);
            let mut model = VecCursor::new(all, 0);
            for (step, key) in steps {
                let target = encode(&[key], 20, ValueType::FOR_SEEK);
                match step {
                    0 => (done(|| merged.seek_to_first()), model.seek_to_first().unwrap()),
                    1 => (done(|| merged.seek_to_last()), model.seek_to_last().unwrap()),
                    2 => (done(|| merged.seek(&target)), model.seek(&target).unwrap()),
                    3 => (done(|| merged.seek_for_prev(&target)), model.seek_for_prev(&target).unwrap()),
                    4 if model.valid() => (done(|| merged.next()), model.next().unwrap()),
                    5 if model.valid() => (done(|| merged.prev()), model.prev().unwrap()),
                    _ => continue,
                };
                prop_assert_eq!(merged.valid(), model.valid());
                if model.valid() {
                    prop_assert_eq!(merged.key(), model.key());
                }
            }
        }
    }
}
