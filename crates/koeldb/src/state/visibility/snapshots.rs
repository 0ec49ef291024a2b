//! The live snapshots of a database.
//!
//! They are listed in order of their numbers, which is that of their creation: a new one is added
//! at the end. One that ends in the middle stays, without use, until it is at an end of the list or
//! half of the list is without use. So the lock is held for a few steps, and rarely to allocate.

use std::collections::VecDeque;
use std::sync::Mutex;

use koeldb_base::SeqNo;
use koeldb_base::key::MAX_SEQNO;
use koeldb_base::sync::lock_plain as lock;
use koeldb_lsm::job::LiveSnapshots;

/// The length from which the memory of the list is freed once there are no snapshots.
const KEPT_MAX: usize = 1 << 10;

/// The live snapshots of a database.
#[derive(Debug, Default)]
pub(crate) struct SnapshotList {
    listed: Mutex<Listed>,
}

/// The use of a snapshot: reads only, or also the write-conflict checks of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SnapshotPurpose {
    /// Reads alone.
    Reads,
    /// Reads of a transaction, and its checks for writes since.
    Conflicts,
}

/// The entry of one sequence number in the snapshot list, with the number of its snapshots.
#[derive(Debug)]
struct AtNumber {
    seqno: SeqNo,
    count: usize,
    /// The number of those from which a transaction checks for write conflicts.
    conflict_count: usize,
    /// The time of the first one, in seconds since 1970.
    unix_secs: u64,
}

/// The snapshots by ascending sequence number; only inner entries may have no live snapshot.
#[derive(Debug, Default)]
struct Listed {
    numbers: VecDeque<AtNumber>,
    /// The number of listed sequence numbers without a live snapshot.
    ended: usize,
}

impl Listed {
    /// Returns the sequence numbers with live snapshots.
    fn live(&self) -> impl Iterator<Item = &AtNumber> {
        self.numbers.iter().filter(|at| at.count > 0)
    }

    /// Adds a snapshot at `seqno`.
    fn add(&mut self, seqno: SeqNo, purpose: SnapshotPurpose, unix_secs: u64) {
        let is_newest = self.numbers.back().is_none_or(|last| last.seqno < seqno);
        let found = match is_newest {
            true => Err(self.numbers.len()),
            false => self.numbers.binary_search_by_key(&seqno, |at| at.seqno),
        };
        let at = found.unwrap_or_else(|at| {
            let new = AtNumber {
                seqno,
                count: 0,
                conflict_count: 0,
                unix_secs,
            };
            self.numbers.insert(at, new);
            self.ended += 1;
            at
        });
        let number = &mut self.numbers[at];
        if number.count == 0 {
            self.ended -= 1;
            number.unix_secs = unix_secs;
        }
        number.count += 1;
        number.conflict_count += usize::from(purpose == SnapshotPurpose::Conflicts);
    }

    /// Removes a snapshot at `seqno`.
    fn remove(&mut self, seqno: SeqNo, purpose: SnapshotPurpose) {
        let Ok(at) = self.numbers.binary_search_by_key(&seqno, |at| at.seqno) else {
            return;
        };
        let number = &mut self.numbers[at];
        number.conflict_count -= usize::from(purpose == SnapshotPurpose::Conflicts);
        number.count -= 1;
        if number.count == 0 {
            self.ended += 1;
            self.trim();
        }
    }

    /// Removes entries without live snapshots from both ends, or all such entries if many.
    fn trim(&mut self) {
        while self.numbers.front().is_some_and(|at| at.count == 0) {
            self.numbers.pop_front();
            self.ended -= 1;
        }
        while self.numbers.back().is_some_and(|at| at.count == 0) {
            self.numbers.pop_back();
            self.ended -= 1;
        }
        if self.ended > self.numbers.len() / 2 {
            self.numbers.retain(|at| at.count > 0);
            self.ended = 0;
        }
        if self.numbers.is_empty() && self.numbers.capacity() > KEPT_MAX {
            self.numbers = VecDeque::new();
        }
    }
}

impl SnapshotList {
    /// Registers a snapshot at the number that `current` returns, with the list locked meanwhile.
    pub(crate) fn acquire(
        &self,
        purpose: SnapshotPurpose,
        unix_secs: u64,
        current: impl FnOnce() -> SeqNo,
    ) -> SeqNo {
        let mut listed = lock(&self.listed);
        let seqno = current();
        listed.add(seqno, purpose, unix_secs);
        seqno
    }

    /// Releases a snapshot; returns the oldest live one, or the largest sequence number if none.
    pub(crate) fn release(&self, seqno: SeqNo, purpose: SnapshotPurpose) -> SeqNo {
        let mut listed = lock(&self.listed);
        listed.remove(seqno, purpose);
        listed.numbers.front().map_or(MAX_SEQNO, |at| at.seqno)
    }

    /// Returns the sequence numbers of all live snapshots.
    pub(crate) fn all(&self) -> LiveSnapshots {
        let listed = lock(&self.listed);
        let mut of_transactions = listed.live().filter(|at| at.conflict_count > 0);
        LiveSnapshots {
            oldest_conflict: of_transactions.next().map(|at| at.seqno),
            all: listed.live().map(|at| at.seqno).collect(),
        }
    }

    /// Returns the sequence number of the oldest live snapshot.
    pub(crate) fn oldest(&self) -> Option<SeqNo> {
        lock(&self.listed).numbers.front().map(|at| at.seqno)
    }

    /// Blocks new snapshots until the guard is dropped.
    pub(crate) fn hold(&self) -> SnapshotsHeld<'_> {
        SnapshotsHeld {
            listed: lock(&self.listed),
        }
    }

    /// The number of live snapshots.
    pub(crate) fn count(&self) -> usize {
        lock(&self.listed).live().map(|at| at.count).sum()
    }

    /// Returns the creation time of the oldest live snapshot in Unix seconds; 0 if there is none.
    pub(crate) fn oldest_unix_secs(&self) -> u64 {
        let listed = lock(&self.listed);
        listed.numbers.front().map_or(0, |oldest| oldest.unix_secs)
    }
}

/// A guard that blocks new snapshots, and shows the live ones.
pub(crate) struct SnapshotsHeld<'l> {
    listed: std::sync::MutexGuard<'l, Listed>,
}

impl SnapshotsHeld<'_> {
    /// Whether there is any live snapshot.
    pub(crate) fn is_any(&self) -> bool {
        !self.listed.numbers.is_empty()
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The numbers of all snapshots, and of those of transactions, sorted.
    fn expected(model: &[(SeqNo, SnapshotPurpose)]) -> LiveSnapshots {
        let mut all: Vec<SeqNo> = model.iter().map(|&(seqno, _)| seqno).collect();
        all.sort_unstable();
        all.dedup();
        let of_transactions = model
            .iter()
            .filter(|(_, purpose)| *purpose == SnapshotPurpose::Conflicts);
        LiveSnapshots {
            oldest_conflict: of_transactions.map(|&(seqno, _)| seqno).min(),
            all,
        }
    }

    proptest! {
        #[test]
        fn the_list_has_the_live_snapshots_whatever_the_order_of_their_ends(
            steps in proptest::collection::vec((0_u64..3, any::<bool>(), any::<u16>()), 1..300),
        ) {
            let list = SnapshotList::default();
            let mut model: Vec<(SeqNo, SnapshotPurpose)> = Vec::new();
            let mut seqno = 1;
            for (growth, is_new, chosen) in steps {
                if is_new || model.is_empty() {
                    seqno += growth;
                    let purpose = match chosen % 2 {
                        0 => SnapshotPurpose::Reads,
                        _ => SnapshotPurpose::Conflicts,
                    };
                    prop_assert_eq!(list.acquire(purpose, seqno, || seqno), seqno);
                    model.push((seqno, purpose));
                } else {
                    let ended = model.swap_remove(usize::from(chosen) % model.len());
                    let oldest = list.release(ended.0, ended.1);
                    let expected = model.iter().map(|&(seqno, _)| seqno).min();
                    prop_assert_eq!(oldest, expected.unwrap_or(MAX_SEQNO));
                }
                let (all, expected) = (list.all(), expected(&model));
                prop_assert_eq!(&all.all, &expected.all);
                prop_assert_eq!(all.oldest_conflict, expected.oldest_conflict);
                prop_assert_eq!(list.count(), model.len());
                prop_assert_eq!(list.oldest(), expected.oldest());
                prop_assert_eq!(list.oldest_unix_secs(), expected.oldest().unwrap_or(0));
                prop_assert_eq!(list.hold().is_any(), !model.is_empty());
                let listed = lock(&list.listed);
                prop_assert!(listed.numbers.len() <= 2 * expected.all.len());
            }
        }
    }

    #[test]
    fn ended_snapshots_between_old_and_new_ones_do_not_pile_up() {
        let list = SnapshotList::default();
        let take = |seqno| list.acquire(SnapshotPurpose::Reads, 0, || seqno);
        take(1);
        take(2);
        for seqno in 3..10_000 {
            take(seqno);
            assert_eq!(list.release(seqno - 1, SnapshotPurpose::Reads), 1);
            assert!(lock(&list.listed).numbers.len() <= 4);
        }
    }
}
