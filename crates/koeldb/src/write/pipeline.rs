//! The pipeline of write groups that are logged, but not yet visible to readers.
//!
//! With `enable_pipelined_write` or `unordered_write` the next group is logged while the previous
//! one is inserted into the memtables. A group *enters* when it is in the log and *leaves* when its
//! entries, and those of all groups that entered before it, are in the memtables.
//!
//! # Invariants
//! - **L1** Groups enter under leadership, so in the order of their sequence numbers.
//! - **L2** In order (`enable_pipelined_write`), the last sequence number of a group is published
//!   when it leaves, and success is not reported before: readers see whole groups in order. After a
//!   group that could not be inserted none is published any more.
//! - **L3** Out of order (`unordered_write`), it is published on entering, as in RocksDB: a read
//!   may miss a part of a batch in flight, and the view of a snapshot may grow; a writer waits only
//!   for its own group.
//! - **L4** A leader that finds the pipeline empty has exclusive access to the memtables: it may
//!   seal them, and may record that an empty one needs no older log.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

use koeldb_base::sync::{AtomicUsize, Condvar, Mutex, Ordering, SPINS, lock, spin_loop};
use koeldb_base::{Error, Result, SeqNo};

use super::queue::Ticket;

/// A group in the pipeline.
struct InsertingGroup {
    last: SeqNo,
    /// The result of the insertion, once it is complete.
    outcome: Option<Result<()>>,
    /// The ticket with which the group's writers wait for earlier groups.
    ticket: Option<Arc<Ticket>>,
}

#[derive(Default)]
struct Groups {
    inside: VecDeque<InsertingGroup>,
    /// The number of groups that have left the pipeline.
    left: u64,
    /// The error after which no group is published.
    broken: Option<Error>,
}

impl Groups {
    /// Removes the finished groups, up to the first unfinished one.
    ///
    /// Returns the groups to be notified.
    fn leave(&mut self, publish: impl Fn(SeqNo)) -> Vec<(Arc<Ticket>, Option<Error>)> {
        let mut waiting = Vec::new();
        while let Some(InsertingGroup {
            outcome: Some(outcome),
            ..
        }) = self.inside.front()
        {
            if let Err(error) = outcome {
                self.broken.get_or_insert_with(|| error.clone());
            }
            self.left += 1;
            if let Some(group) = self.inside.pop_front() {
                if self.broken.is_none() {
                    publish(group.last);
                }
                waiting.extend(group.ticket.map(|ticket| (ticket, self.broken.clone())));
            }
        }
        waiting
    }
}

/// The position of a group in the pipeline.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub(crate) struct PipelineSlot(u64);

/// The pipeline of groups that are being inserted.
pub(crate) struct Pipeline {
    is_ordered: bool,
    /// The number of groups in the pipeline, and one more for good after a failed insertion.
    ///
    /// All groups then use the pipeline, and none is published after the failed one. Otherwise only
    /// a leader increases it.
    count: AtomicUsize,
    groups: Mutex<Groups>,
    emptied: Condvar,
}

impl Pipeline {
    pub(crate) fn new(is_ordered: bool) -> Self {
        Pipeline {
            is_ordered,
            count: AtomicUsize::new(0),
            groups: Mutex::new(Groups::default()),
            emptied: Condvar::new(),
        }
    }

    /// Whether the pipeline is empty and may stay so. For the leader, true holds during its
    /// leadership.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    fn set_count(&self, groups: &Groups) {
        let is_broken = self.is_ordered && groups.broken.is_some();
        let count = groups.inside.len() + usize::from(is_broken);
        self.count.store(count, Ordering::Release);
    }

    /// Adds a group whose last sequence number is `last`; called by the leader.
    pub(crate) fn enter(&self, last: SeqNo, publish: impl Fn(SeqNo)) -> PipelineSlot {
        let mut groups = lock(&self.groups);
        if !self.is_ordered {
            publish(last);
        }
        groups.inside.push_back(InsertingGroup {
            last,
            outcome: None,
            ticket: None,
        });
        self.set_count(&groups);
        PipelineSlot(groups.left + groups.inside.len() as u64 - 1)
    }

    /// Records the result of the insertion of the group at `slot`.
    ///
    /// If groups are published in order, waits for the earlier ones; its writers may wait on the
    /// `ticket`. Returns the result of the group.
    pub(crate) fn complete(
        &self,
        slot: PipelineSlot,
        outcome: Result<()>,
        ticket: impl FnOnce() -> Arc<Ticket>,
        publish: impl Fn(SeqNo),
        wait: impl FnOnce(&Ticket),
    ) -> Result<()> {
        let PipelineSlot(slot) = slot;
        let mut groups = lock(&self.groups);
        let at = koeldb_base::coding::to_usize(slot - groups.left);
        groups.inside[at].outcome = Some(outcome.clone());
        if at > 0 {
            // The first one is never done, since it would have left.
            if !self.is_ordered {
                return outcome;
            }
            let ticket = ticket();
            groups.inside[at].ticket = Some(Arc::clone(&ticket));
            drop(groups);
            wait(&ticket);
            return ticket.outcome();
        }
        let outcome = match &groups.broken {
            Some(error) if self.is_ordered => outcome.and(Err(error.clone())),
            _ => outcome,
        };
        let waiting = groups.leave(|last| {
            if self.is_ordered {
                publish(last);
            }
        });
        self.set_count(&groups);
        let is_empty = groups.inside.is_empty();
        drop(groups);
        if is_empty {
            self.emptied.notify_all();
        }
        for (ticket, failure) in waiting {
            ticket.finish(failure.map_or(Ok(()), Err));
        }
        outcome
    }

    /// Waits until the pipeline is empty.
    ///
    /// Called by the leader, so that no group enters. The groups inside finish without leadership.
    pub(crate) fn drain(&self) {
        for _ in 0..SPINS {
            if self.is_empty() {
                return;
            }
            spin_loop();
        }
        let mut groups = lock(&self.groups);
        while !groups.inside.is_empty() {
            groups = self
                .emptied
                .wait(groups)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::sync::atomic::AtomicU64;

    use koeldb_testkit::Random;

    use super::*;

    const GROUPS: u64 = 600;
    const THREADS: u64 = 6;

    /// Runs threads that lead in turn and are interrupted anywhere after that.
    ///
    /// `fails` is the group that cannot be inserted.
    fn run(is_ordered: bool, seed: u64, fails: Option<u64>) {
        let pipeline = Pipeline::new(is_ordered);
        let last = Mutex::new(0_u64);
        let published = AtomicU64::new(0);
        // The groups inserted, by number from 1.
        let inserted: Vec<AtomicUsize> = (0..=GROUPS).map(|_| AtomicUsize::new(0)).collect();
        let publish = |seqno: u64| {
            let before = published.swap(seqno, Ordering::SeqCst);
            assert!(before < seqno, "{seqno} is published after {before}");
            if is_ordered {
                let whole = &inserted[1..=usize::try_from(seqno).unwrap()];
                assert!(whole.iter().all(|group| group.load(Ordering::SeqCst) == 1));
            }
        };
        let work = |thread: u64| {
            let mut random = Random::new(seed ^ thread << 32);
            loop {
                let mut leadership = lock(&last);
                if *leadership == GROUPS {
                    return;
                }
                *leadership += 1;
                let own = *leadership;
                if random.chance(1, 16) {
                    pipeline.drain();
                    let before = &inserted[1..usize::try_from(own).unwrap()];
                    assert!(lock(&pipeline.groups).inside.is_empty());
                    assert!(before.iter().all(|group| group.load(Ordering::SeqCst) == 1));
                }
                let slot = pipeline.enter(own, publish);
                drop(leadership);
                for _ in 0..random.below(4) {
                    std::thread::yield_now();
                }
                inserted[usize::try_from(own).unwrap()].store(1, Ordering::SeqCst);
                let outcome = match fails {
                    Some(group) if group == own => {
                        Err(Error::invalid_argument("not to be inserted"))
                    }
                    _ => Ok(()),
                };
                let completed =
                    pipeline.complete(slot, outcome, Arc::default, publish, Ticket::wait);
                let fails = fails.filter(|&group| group == own || is_ordered && group < own);
                assert_eq!(completed.is_err(), fails.is_some(), "group {own}");
                if completed.is_ok() {
                    assert!(published.load(Ordering::SeqCst) >= own);
                }
            }
        };
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let work = &work;
                scope.spawn(move || work(thread));
            }
        });
        assert_eq!(pipeline.is_empty(), fails.is_none() || !is_ordered);
        let published = published.load(Ordering::SeqCst);
        assert_eq!(
            published,
            fails.filter(|_| is_ordered).map_or(GROUPS, |at| at - 1)
        );
    }

    #[test]
    fn groups_are_published_whole_and_in_order() {
        for seed in 0..3 {
            run(true, seed, None);
        }
    }

    #[test]
    fn unordered_groups_wait_for_nobody_and_sealing_waits_for_them() {
        for seed in 0..3 {
            run(false, seed, None);
        }
    }

    #[test]
    fn behind_a_group_that_failed_nothing_is_published() {
        run(true, 1, Some(GROUPS / 2));
        run(false, 1, Some(GROUPS / 2));
    }

    /// Tests all orders of completion of five groups: each is settled when all before it are done.
    #[test]
    fn any_order_of_completion_publishes_in_order() {
        const COUNT: usize = 5;
        let mut orders = vec![Vec::new()];
        for _ in 0..COUNT {
            orders = orders
                .into_iter()
                .flat_map(|order: Vec<usize>| {
                    let free = (0..COUNT)
                        .filter(|n| !order.contains(n))
                        .collect::<Vec<_>>();
                    free.into_iter()
                        .map(move |n| [order.clone(), vec![n]].concat())
                })
                .collect();
        }
        for order in orders {
            for failing in 0..=COUNT {
                let mut groups = Groups::default();
                groups
                    .inside
                    .extend((1..=COUNT as u64).map(|last| InsertingGroup {
                        last,
                        outcome: None,
                        ticket: None,
                    }));
                let mut done = [false; COUNT];
                for &group in &order {
                    done[group] = true;
                    let at = group - usize::try_from(groups.left).unwrap();
                    groups.inside[at].outcome = Some(if group == failing {
                        Err(Error::invalid_argument("not to be inserted"))
                    } else {
                        Ok(())
                    });
                    let published = std::cell::RefCell::new(Vec::new());
                    let left = groups.left;
                    groups.leave(|last| published.borrow_mut().push(last));
                    let whole = done.iter().take_while(|done| **done).count() as u64;
                    assert_eq!(groups.left, whole, "{order:?}");
                    let expected: Vec<u64> = (left + 1..=whole.min(failing as u64)).collect();
                    assert_eq!(
                        published.into_inner(),
                        expected,
                        "{order:?}, {failing} fails"
                    );
                }
            }
        }
    }
}
