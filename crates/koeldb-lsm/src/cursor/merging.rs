//! Many sorted runs as one: a heap of cursors, the smallest (or, going back, the largest) entry on top.
//!
//! The heap holds indexes of the children that are valid in the current direction; the top is where the merged
//! cursor stands. A step moves the top child and sifts it down; a change of direction repositions every other
//! child around the current key. Children must not share an internal key, which sequence numbers guarantee.
//!
//! A positioning call asks every child before it suspends, so that what all of them miss can be read together; the same
//! call, made again, goes on with those that had suspended. A step that suspends leaves everything as it is for the
//! same step, made again.

use std::cmp::Ordering;

use koeldb_base::{Cursor, Fault, KeyOrder};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

/// The merged view of several cursors.
pub struct MergingCursor<C> {
    order: KeyOrder,
    children: Vec<C>,
    heap: Vec<usize>,
    direction: Direction,
    pivot: Vec<u8>,
    /// The positioning call that suspended, and the children it has still to place.
    call: Option<Call>,
    suspended: Vec<usize>,
}

/// A call that places all children; what it places them around is in the pivot.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    First,
    Last,
    Seek,
    SeekForPrev,
    /// Around the current entry.
    Turn,
}

impl<C: Cursor> MergingCursor<C> {
    /// Merges `children`, in any order; without position until the first seek.
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

    /// The merged cursors.
    pub fn children_mut(&mut self) -> &mut [C] {
        &mut self.children
    }

    /// Whether child `a` comes before child `b` in the current direction.
    #[inline]
    fn precedes(&self, a: usize, b: usize) -> bool {
        let ordering = self
            .order
            .compare_internal(self.children[a].key(), self.children[b].key());
        match self.direction {
            Direction::Forward => ordering == Ordering::Less,
            Direction::Backward => ordering == Ordering::Greater,
        }
    }

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

    fn build_heap(&mut self) {
        self.heap.clear();
        for (index, child) in self.children.iter().enumerate() {
            if child.valid() {
                self.heap.push(index);
            }
        }
        for at in (0..self.heap.len() / 2).rev() {
            self.sift_down(at);
        }
    }

    /// Places all children, or those that suspended when the same call was made before.
    fn position(
        &mut self,
        call: Call,
        direction: Direction,
        target: &[u8],
    ) -> Result<(), Fault<C::Suspend>> {
        let place = |child: &mut C| match (call, direction) {
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
            match place(child) {
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

    /// Repositions all children around the current entry, so that the other direction can go on from it.
    fn turn(&mut self, direction: Direction) -> Result<(), Fault<C::Suspend>> {
        let mut pivot = std::mem::take(&mut self.pivot);
        if self.call != Some(Call::Turn) {
            pivot.clear();
            pivot.extend_from_slice(self.children[self.heap[0]].key());
        }
        let placed = self.position(Call::Turn, direction, &pivot);
        self.pivot = pivot;
        placed
    }

    /// After the top child moved: restores the heap.
    #[inline]
    fn settle_top(&mut self) {
        let top = self.heap[0];
        if self.children[top].valid() {
            if self.heap.len() > 1 {
                self.sift_down(0);
            }
        } else {
            self.heap.swap_remove(0);
            self.sift_down(0);
        }
    }

    fn step(&mut self, direction: Direction) -> Result<(), Fault<C::Suspend>> {
        if self.direction != direction {
            self.turn(direction)?;
        }
        let top = self.heap[0];
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
        self.children[self.heap[0]].key()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.children[self.heap[0]].value()
    }

    fn pinned_value(&self) -> koeldb_base::PinnedSlice {
        self.children[self.heap[0]].pinned_value()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use koeldb_base::Blocking;
    use koeldb_base::key::{ValueType, encode};
    use proptest::prelude::*;

    struct VecCursor {
        keys: Vec<Vec<u8>>,
        at: Option<usize>,
    }

    impl Cursor for VecCursor {
        type Suspend = Blocking;

        fn valid(&self) -> bool {
            self.at.is_some()
        }

        fn seek_to_first(&mut self) -> Result<(), Fault<Blocking>> {
            self.at = (!self.keys.is_empty()).then_some(0);
            Ok(())
        }

        fn seek_to_last(&mut self) -> Result<(), Fault<Blocking>> {
            self.at = self.keys.len().checked_sub(1);
            Ok(())
        }

        fn seek(&mut self, target: &[u8]) -> Result<(), Fault<Blocking>> {
            let order = KeyOrder::Bytewise;
            let at = self
                .keys
                .partition_point(|key| order.compare_internal(key, target).is_lt());
            self.at = (at < self.keys.len()).then_some(at);
            Ok(())
        }

        fn seek_for_prev(&mut self, target: &[u8]) -> Result<(), Fault<Blocking>> {
            let order = KeyOrder::Bytewise;
            let behind = self
                .keys
                .partition_point(|key| order.compare_internal(key, target).is_le());
            self.at = behind.checked_sub(1);
            Ok(())
        }

        fn next(&mut self) -> Result<(), Fault<Blocking>> {
            self.at = self.at.map(|at| at + 1).filter(|&at| at < self.keys.len());
            Ok(())
        }

        fn prev(&mut self) -> Result<(), Fault<Blocking>> {
            self.at = self.at.and_then(|at| at.checked_sub(1));
            Ok(())
        }

        fn key(&self) -> &[u8] {
            &self.keys[self.at.unwrap()]
        }

        fn value(&self) -> &[u8] {
            b""
        }
    }

    proptest! {
        #[test]
        fn runs_merge_as_one_sorted_sequence(
            homes in prop::collection::vec((0..20_u8, 0..4_usize), 0..40),
            steps in prop::collection::vec((0..6_u8, 0..20_u8), 0..40),
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
            let children = runs.into_iter().map(|keys| VecCursor { keys, at: None }).collect();
            let mut merged = MergingCursor::new(order.clone(), children);
            let mut model = VecCursor { keys: all, at: None };
            for (step, key) in steps {
                let target = encode(&[key], 20, ValueType::FOR_SEEK);
                match step {
                    0 => (merged.seek_to_first().unwrap(), model.seek_to_first().unwrap()),
                    1 => (merged.seek_to_last().unwrap(), model.seek_to_last().unwrap()),
                    2 => (merged.seek(&target).unwrap(), model.seek(&target).unwrap()),
                    3 => (merged.seek_for_prev(&target).unwrap(), model.seek_for_prev(&target).unwrap()),
                    4 if model.valid() => (merged.next().unwrap(), model.next().unwrap()),
                    5 if model.valid() => (merged.prev().unwrap(), model.prev().unwrap()),
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
