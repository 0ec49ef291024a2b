//! Queues of the column families whose changes may require work.
//!
//! A column family enters a queue whenever its state changes, and leaves it when a look at it finds
//! nothing to do. Whether a job is worth starting is therefore known without visiting any family,
//! and a choice visits the queued ones alone. A family that changes during such a look stays: each
//! entry has the stamp of its last change, and only the stamp that was seen is removed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use koeldb_base::SeqNo;
use koeldb_base::sync::lock_plain as lock;

use crate::report::StallCondition;
use crate::state::write_stall::WriteStall;

/// The kind of background work of a column family: a flush or a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkKind {
    Flush,
    Compaction,
}

/// The number of the change that last queued a column family, to detect later changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp(u64);

/// The queues of column families to check for flushes and compactions, guarded by a mutex.
#[derive(Debug, Default)]
struct Queues {
    changes: u64,
    flushes: BTreeMap<u32, Stamp>,
    compactions: BTreeMap<u32, Stamp>,
    /// Column families whose stall conditions were not reported to listeners yet.
    stalls: BTreeSet<u32>,
}

impl Queues {
    /// Returns the queue of the column families to check for this kind of work.
    fn of(&mut self, kind: WorkKind) -> &mut BTreeMap<u32, Stamp> {
        match kind {
            WorkKind::Flush => &mut self.flushes,
            WorkKind::Compaction => &mut self.compactions,
        }
    }
}

/// The queues of column families that may have background work due, and when others will.
#[derive(Debug)]
pub(crate) struct WorkQueue {
    queues: Mutex<Queues>,
    /// The Unix time, in seconds, at which a file of some column family expires.
    next_expiry: AtomicU64,
    /// The sequence number below which all snapshots must be released for some file to become due.
    next_release: AtomicU64,
    stall: Arc<WriteStall>,
}

impl WorkQueue {
    pub(crate) fn new(stall: &Arc<WriteStall>) -> Self {
        WorkQueue {
            queues: Mutex::default(),
            next_expiry: AtomicU64::new(u64::MAX),
            next_release: AtomicU64::new(u64::MAX),
            stall: Arc::clone(stall),
        }
    }

    /// Queues a column family to be checked for a due flush or compaction.
    pub(crate) fn push(&self, kind: WorkKind, family: u32) {
        let mut queues = lock(&self.queues);
        queues.changes += 1;
        let stamp = Stamp(queues.changes);
        queues.of(kind).insert(family, stamp);
    }

    /// Whether any column family is queued for this kind of work.
    pub(crate) fn has(&self, kind: WorkKind) -> bool {
        !lock(&self.queues).of(kind).is_empty()
    }

    /// The number of column families queued for this kind of work.
    pub(crate) fn count(&self, kind: WorkKind) -> u64 {
        lock(&self.queues).of(kind).len() as u64
    }

    /// Returns the column families queued for this kind of work, with their change stamps.
    pub(crate) fn queued(&self, kind: WorkKind) -> Vec<(u32, Stamp)> {
        let mut queues = lock(&self.queues);
        let queue = queues.of(kind).iter();
        queue.map(|(&family, &stamp)| (family, stamp)).collect()
    }

    /// Removes a column family without work from the queue, unless it has changed since `stamp`.
    pub(crate) fn remove(&self, kind: WorkKind, family: u32, stamp: Stamp) {
        let mut queues = lock(&self.queues);
        let queue = queues.of(kind);
        if queue.get(&family) == Some(&stamp) {
            queue.remove(&family);
        }
    }

    /// Removes a column family from a queue although work is due, because it cannot run now.
    pub(crate) fn leave(&self, kind: WorkKind, family: u32) {
        lock(&self.queues).of(kind).remove(&family);
    }

    /// Records the Unix time at which a file becomes due for compaction by its age.
    pub(crate) fn expires_at(&self, unix_secs: u64) {
        self.next_expiry.fetch_min(unix_secs, Ordering::AcqRel);
    }

    /// Whether a file is due for compaction by its age; `true` once for each recorded time.
    pub(crate) fn take_expiry(&self, unix_secs: u64) -> bool {
        let next = self.next_expiry.load(Ordering::Acquire);
        let is_due = next <= unix_secs;
        if is_due {
            self.next_expiry.store(u64::MAX, Ordering::Release);
        }
        is_due
    }

    /// Records that a compaction becomes due once all snapshots below `seqno` are released.
    pub(crate) fn waits_for_release(&self, seqno: SeqNo) {
        self.next_release.fetch_min(seqno, Ordering::AcqRel);
    }

    /// Whether the release of a snapshot made files due; `true` once for each recorded number.
    pub(crate) fn take_release(&self, oldest_snapshot: SeqNo) -> bool {
        let next = self.next_release.load(Ordering::Acquire);
        let is_due = next <= oldest_snapshot && next != u64::MAX;
        if is_due {
            self.next_release.store(u64::MAX, Ordering::Release);
        }
        is_due
    }

    /// Sets the stall condition and writer pace of a column family; queues a new one for reports.
    ///
    /// Called under the lock of its state, so that an older condition never replaces a newer one.
    pub(crate) fn stalled(
        &self,
        family: u32,
        condition: StallCondition,
        pace: Option<u64>,
        is_new: bool,
    ) {
        self.stall.set(family, condition, pace);
        if is_new {
            lock(&self.queues).stalls.insert(family);
        }
    }

    /// Whether there are stall conditions to report.
    pub(crate) fn has_stalls(&self) -> bool {
        !lock(&self.queues).stalls.is_empty()
    }

    /// Removes and returns the column families whose new stall conditions are to be reported.
    pub(crate) fn take_stalls(&self) -> BTreeSet<u32> {
        std::mem::take(&mut lock(&self.queues).stalls)
    }

    /// Removes a dropped column family from the queues and ends its stall.
    pub(crate) fn forget(&self, family: u32) {
        let mut queues = lock(&self.queues);
        queues.flushes.remove(&family);
        queues.compactions.remove(&family);
        drop(queues);
        self.stall.set(family, StallCondition::Normal, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_that_changes_during_a_look_stays_queued() {
        let queue = WorkQueue::new(&Arc::default());
        queue.push(WorkKind::Compaction, 7);
        let seen = queue.queued(WorkKind::Compaction);
        queue.push(WorkKind::Compaction, 7);
        queue.remove(WorkKind::Compaction, 7, seen[0].1);
        assert!(queue.has(WorkKind::Compaction));
        let seen = queue.queued(WorkKind::Compaction);
        queue.remove(WorkKind::Compaction, 7, seen[0].1);
        assert!(!queue.has(WorkKind::Compaction));
        assert!(!queue.has(WorkKind::Flush));
    }

    #[test]
    fn the_earliest_expiry_is_taken_once() {
        let queue = WorkQueue::new(&Arc::default());
        assert!(!queue.take_expiry(100));
        queue.expires_at(50);
        queue.expires_at(70);
        assert!(!queue.take_expiry(49));
        assert!(queue.take_expiry(50));
        assert!(!queue.take_expiry(100));
    }
}
