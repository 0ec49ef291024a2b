//! Loom models of queued writers: leadership, results, and visibility to readers.

use koeldb_base::sync::{AtomicBool, AtomicU8, AtomicU64, explore, explore_large, spawn};
use koeldb_base::{Error, ErrorKind};

use super::*;
use crate::commit::group_wait::GroupWait;
use crate::commit::protocol::ColumnFamilyMemtable;
use crate::commit::recent_writes::{KeyHash, RecentWrites};
use crate::state::health::failures::Failures;

const WRITES_MAX: usize = 4;

/// The errors that the model simulates.
#[derive(Clone, Copy, Default)]
struct Fault {
    /// The record at which the log fails.
    log: Option<u8>,
    /// The record that cannot be inserted.
    insert: Option<u8>,
}

/// The key of a record: 1 and 3 have the same.
fn key_of(number: u8) -> KeyHash {
    u64::from(number % 2)
}

/// The check of a commit that has read its key at `validated`.
struct ModelCheck<'m> {
    model: &'m Model,
    number: u8,
    validated: SeqNo,
}

impl CommitCheck for ModelCheck<'_> {
    fn validated(&self) -> SeqNo {
        self.validated
    }

    fn in_group(&self) -> Option<GroupCheck> {
        Some(GroupCheck {
            validated: self.validated,
            keys: vec![key_of(self.number)],
            admitted: None,
        })
    }

    fn validate_rest(&self) -> Result<()> {
        // All earlier writes are visible, those without a leader too.
        let last = self.model.visible.load(Ordering::Acquire);
        let model = self.model;
        match model.has_changed(self.number, self.validated, last + 1) {
            true => Err(Error::with_kind(ErrorKind::Busy, "a conflict")),
            false => Ok(()),
        }
    }
}

/// A model of the engine: a log of numbers, memtables that record inserted ones, and readers.
struct Model {
    queue: WriteQueue,
    is_ordered: bool,
    /// Whether the gate for writes without a leader was opened.
    has_gate: bool,
    fault: Fault,
    is_closing: AtomicBool,
    /// Whether the writers that give up do so at their next look.
    is_late: AtomicBool,
    failures: Failures,
    visible: AtomicU64,
    /// The numbers of inserted records by sequence number.
    inserted: [AtomicU8; WRITES_MAX + 1],
    /// The last logged sequence number.
    logged: AtomicU64,
}

impl CommitEnv for Model {
    fn commit_group(
        self: &Arc<Self>,
        commit: &mut CommitState,
        records: &[&[u8]],
        count: u32,
        _how: CommitMode,
    ) -> Result<SeqNo> {
        if self.is_closing.load(Ordering::Acquire) {
            return Err(Error::with_kind(ErrorKind::ShutdownInProgress, "closed"));
        }
        if let Some(failure) = self.failures.first() {
            assert!(self.failures.is_any());
            return Err(failure);
        }
        if self
            .fault
            .log
            .is_some_and(|number| records.concat().contains(&number))
        {
            let error = Error::invalid_argument("a log that fails");
            self.failures.store(&error);
            return Err(error);
        }
        let first = commit.last_seqno + 1;
        commit.last_seqno += SeqNo::from(count);
        let before = self.logged.load(Ordering::Relaxed);
        let is_next = before == first - 1 || self.has_gate && before < first;
        assert!(is_next, "only one leads");
        self.logged.store(commit.last_seqno, Ordering::Relaxed);
        Ok(first)
    }

    fn hash_keys(&self, records: &[u8], note: &mut dyn FnMut(KeyHash)) -> bool {
        records.iter().for_each(|&number| note(key_of(number)));
        true
    }

    fn count_committed(&self, _batches: usize, _bytes: usize, _how: CommitMode) {}

    fn insert(
        &self,
        _families: &[ColumnFamilyMemtable],
        records: &[u8],
        first: SeqNo,
    ) -> Result<bool> {
        for (at, &number) in records.iter().enumerate() {
            if self.fault.insert == Some(number) {
                return Err(Error::invalid_argument("a record that cannot be inserted"));
            }
            let seqno = koeldb_base::coding::to_usize(first) + at;
            let before = self.inserted[seqno].swap(number, Ordering::Relaxed);
            assert_eq!(before, 0, "{seqno} is inserted twice");
        }
        Ok(false)
    }

    fn handle_insertion(&self, inserted: Result<bool>) -> Result<()> {
        inserted
            .map(|_| ())
            .inspect_err(|error| self.failures.store(error))
    }

    fn publish(&self, seqno: SeqNo) {
        let before = self.visible.load(Ordering::Relaxed);
        assert!(before < seqno, "{seqno} is published after {before}");
        if self.is_ordered {
            self.check_whole(seqno);
        }
        self.visible.store(seqno, Ordering::Release);
    }

    fn remaining_wait(&self, how: CommitMode) -> Result<Duration> {
        // The first look is before the writer is queued.
        match how.no_slowdown && self.is_late.swap(true, Ordering::AcqRel) {
            true => Err(Error::invalid_argument("late")),
            false => Ok(Duration::MAX),
        }
    }

    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn may_write_directly(&self) -> bool {
        !self.failures.is_any() && !self.is_closing.load(Ordering::Acquire)
    }

    fn count_direct(&self, _slot: usize, _count: u32, _bytes: usize) {}
}

impl Model {
    fn new(insertion: Insertion, fault: Fault) -> Arc<Self> {
        let commit = CommitState {
            wal: None,
            last_seqno: 0,
            wal_check_bytes: 0,
            families: Arc::default(),
            recent: RecentWrites::default(),
            group_wait: GroupWait::default(),
        };
        Arc::new(Model {
            queue: WriteQueue::new(commit, insertion, 1 << 20),
            is_ordered: insertion != Insertion::Unordered,
            has_gate: false,
            fault,
            is_closing: AtomicBool::new(false),
            is_late: AtomicBool::new(false),
            failures: Failures::default(),
            visible: AtomicU64::new(0),
            inserted: std::array::from_fn(|_| AtomicU8::new(0)),
            logged: AtomicU64::new(0),
        })
    }

    /// Returns a model with an open gate.
    fn with_gate(fault: Fault) -> Arc<Self> {
        let model = Model::new(Insertion::Pipelined, fault);
        let mut model = Arc::into_inner(model).unwrap();
        model.has_gate = true;
        model.queue.lead().opens_gate = true;
        assert!(model.queue.direct.is_open());
        Arc::new(model)
    }

    fn write(self: &Arc<Self>, number: u8) -> Result<()> {
        self.write_as(number, CommitMode::default())
    }

    fn write_unlogged(self: &Arc<Self>, number: u8) -> Result<()> {
        let mode = CommitMode {
            disable_wal: true,
            ..CommitMode::default()
        };
        self.write_as(number, mode)
    }

    fn write_synced(self: &Arc<Self>, number: u8) -> Result<()> {
        let mode = CommitMode {
            sync: true,
            ..CommitMode::default()
        };
        self.write_as(number, mode)
    }

    fn write_as(self: &Arc<Self>, number: u8, mode: CommitMode) -> Result<()> {
        let written = self.queue.write(self, &[number], 1, mode);
        if written.is_ok() {
            assert_eq!(
                self.inserted_up_to_visible(number),
                1,
                "{number} is not there"
            );
        }
        written
    }

    /// Whether the key of `number` was written after `validated` and before `end`.
    fn has_changed(&self, number: u8, validated: SeqNo, end: SeqNo) -> bool {
        let [begin, end] = [validated + 1, end].map(koeldb_base::coding::to_usize);
        let mut between = self.inserted[begin..end].iter();
        between.any(|inserted| {
            let found = inserted.load(Ordering::Relaxed);
            found != 0 && key_of(found) == key_of(number)
        })
    }

    /// Commits a record whose key was read before; returns whether there was no conflict.
    fn commit(self: &Arc<Self>, number: u8) -> bool {
        let validated = self.visible.load(Ordering::Acquire);
        let check = ModelCheck {
            model: self,
            number,
            validated,
        };
        let mode = CommitMode::default();
        match self.queue.write_checked(self, &[number], 1, mode, &check) {
            Ok(last) => {
                let own = &self.inserted[koeldb_base::coding::to_usize(last)];
                assert_eq!(own.load(Ordering::Relaxed), number);
                assert!(self.visible.load(Ordering::Acquire) >= last);
                assert!(!self.has_changed(number, validated, last), "a lost update");
                true
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Busy);
                assert_eq!(self.inserted_up_to_visible(number), 0);
                let end = self.visible.load(Ordering::Acquire) + 1;
                assert!(self.has_changed(number, validated, end));
                false
            }
        }
    }

    /// Checks that everything up to `seqno` is in the memtables.
    fn check_whole(&self, seqno: SeqNo) {
        let upto = koeldb_base::coding::to_usize(seqno);
        for inserted in &self.inserted[1..=upto] {
            assert_ne!(inserted.load(Ordering::Relaxed), 0);
        }
    }

    /// The number of occurrences of a record that a reader sees.
    fn inserted_up_to_visible(&self, number: u8) -> usize {
        let visible = koeldb_base::coding::to_usize(self.visible.load(Ordering::Acquire));
        let seen = self.inserted[1..=visible].iter();
        seen.filter(|inserted| inserted.load(Ordering::Relaxed) == number)
            .count()
    }

    /// Checks the guarantees for readers.
    fn read(&self) {
        self.check_whole(self.visible.load(Ordering::Acquire));
    }
}

/// Runs two writers besides the current thread; the last writer has number 3.
fn three_writers(name: &'static str, insertion: Insertion) {
    explore_large(name, move || {
        let model = Model::new(insertion, Fault::default());
        let writers = [1, 2].map(|number| {
            let model = Arc::clone(&model);
            spawn(move || model.write(number).unwrap())
        });
        model.write(3).unwrap();
        for writer in writers {
            writer.join().unwrap();
        }
        assert_eq!(model.visible.load(Ordering::Acquire), 3);
        model.read();
    });
}

#[test]
fn a_leader_alone_inserts_and_hands_on() {
    three_writers("write queue, leader alone", Insertion::Alone);
}

#[test]
fn members_insert_while_their_leader_keeps_leadership() {
    three_writers("write queue, shared", Insertion::Shared);
}

#[test]
fn members_insert_their_own_and_groups_are_published_in_order() {
    three_writers("write queue, pipelined", Insertion::Pipelined);
}

#[test]
fn unordered_groups_find_their_own_writes() {
    three_writers("write queue, unordered", Insertion::Unordered);
}

/// Runs two synced writers beside another one, whose leaders wait for each other.
fn synced_writers(insertion: Insertion, fault: Fault) {
    explore("write queue, synced", move || {
        let model = Model::new(insertion, fault);
        let mut leadership = model.queue.lead();
        let wait = &mut leadership.commit.group_wait;
        wait.record_sync(2, Duration::from_millis(1));
        drop(leadership);
        let other = {
            let model = Arc::clone(&model);
            spawn(move || model.write_synced(1).is_ok())
        };
        let own = [2, 3].map(|number| model.write_synced(number).is_ok());
        let all = [own[0], own[1], other.join().unwrap()];
        let acknowledged = all.map(u64::from).iter().sum::<u64>();
        assert_eq!(model.visible.load(Ordering::Acquire), acknowledged);
        assert!(fault.log.is_some() || fault.insert.is_some() || acknowledged == 3);
        model.read();
    });
}

#[test]
fn a_synced_leader_waits_for_the_writers_of_the_last_group() {
    for insertion in [
        Insertion::Alone,
        Insertion::Shared,
        Insertion::Pipelined,
        Insertion::Unordered,
    ] {
        synced_writers(insertion, Fault::default());
    }
}

#[test]
fn a_synced_group_that_fails_is_not_acknowledged() {
    let faults = [(Some(1), None), (None, Some(1))];
    for (log, insert) in faults {
        for insertion in [Insertion::Shared, Insertion::Pipelined] {
            synced_writers(insertion, Fault { log, insert });
        }
    }
}

#[test]
fn readers_see_whole_groups_alone() {
    for insertion in [Insertion::Shared, Insertion::Pipelined] {
        explore("write queue, a reader", move || {
            let model = Model::new(insertion, Fault::default());
            let writers = [1, 2].map(|number| {
                let model = Arc::clone(&model);
                spawn(move || model.write(number).unwrap())
            });
            model.read();
            model.read();
            for writer in writers {
                writer.join().unwrap();
            }
        });
    }
}

/// Model: a leader that drains the pipeline finds all logged entries in the memtables.
#[test]
fn a_leader_that_seals_finds_everything_logged_inserted() {
    for insertion in [
        Insertion::Shared,
        Insertion::Pipelined,
        Insertion::Unordered,
    ] {
        explore("write queue, sealing", move || {
            let model = Model::new(insertion, Fault::default());
            let writers = [1, 2].map(|number| {
                let model = Arc::clone(&model);
                spawn(move || model.write(number).unwrap())
            });
            {
                let leadership = model.queue.lead();
                model.queue.pipeline.drain().unwrap();
                model.check_whole(leadership.commit.last_seqno);
            }
            for writer in writers {
                writer.join().unwrap();
            }
            assert_eq!(model.visible.load(Ordering::Acquire), 2);
        });
    }
}

/// Model: when a close takes the log as leader, every write is acknowledged, or rejected.
#[test]
fn a_close_leaves_no_write_half_done() {
    for insertion in [Insertion::Shared, Insertion::Pipelined] {
        explore("write queue, close", move || {
            let model = Model::new(insertion, Fault::default());
            let writers = [1, 2].map(|number| {
                let model = Arc::clone(&model);
                spawn(move || usize::from(model.write(number).is_ok()))
            });
            model.is_closing.store(true, Ordering::Release);
            let logged = {
                let leadership = model.queue.lead();
                model.queue.pipeline.drain().unwrap();
                leadership.commit.last_seqno
            };
            let acknowledged: usize = writers.map(|writer| writer.join().unwrap()).iter().sum();
            assert_eq!(acknowledged as u64, logged);
            assert_eq!(model.logged.load(Ordering::Relaxed), logged);
        });
    }
}

/// Runs three concurrent writers, the first of which fails.
///
/// It gets the error, and everything visible was acknowledged.
fn three_writers_of_whom_the_first_fails(insertion: Insertion, fault: Fault) -> Arc<Model> {
    let model = Model::new(insertion, fault);
    let writers = [1, 2].map(|number| {
        let model = Arc::clone(&model);
        spawn(move || (number, model.write(number)))
    });
    let own = model.write(3);
    let mut acknowledged = usize::from(own.is_ok());
    for writer in writers {
        let (number, written) = writer.join().unwrap();
        assert!(number != 1 || written.is_err());
        acknowledged += usize::from(written.is_ok());
    }
    let visible = model.visible.load(Ordering::Acquire);
    assert_eq!(acknowledged as u64, visible);
    model
}

/// Model: after a failed log write all members get the error, and nothing more is logged.
#[test]
fn no_writer_is_told_of_success_behind_a_log_that_failed() {
    let fault = Fault {
        log: Some(1),
        insert: None,
    };
    for insertion in [Insertion::Shared, Insertion::Pipelined] {
        explore("write queue, a log that fails", move || {
            let model = three_writers_of_whom_the_first_fails(insertion, fault);
            assert!(model.failures.is_any() && model.write(4).is_err());
        });
    }
}

/// Model: after a failed insertion nothing more is published, and the writers get the error.
#[test]
fn nothing_is_published_behind_a_group_that_was_not_inserted() {
    let fault = Fault {
        log: None,
        insert: Some(1),
    };
    for insertion in [Insertion::Shared, Insertion::Pipelined] {
        explore_large("write queue, an insert that fails", move || {
            let model = three_writers_of_whom_the_first_fails(insertion, fault);
            model.read();
        });
    }
}

/// Runs three writers of which the first one gives up, or none if there is no leader to wait for.
fn three_writers_of_whom_one_gives_up(insertion: Insertion, spinners_max: usize) {
    explore_large("write queue, a writer gives up", move || {
        let model = Model::new(insertion, Fault::default());
        let mut model = Arc::into_inner(model).unwrap();
        model.queue.spinners_max = spinners_max;
        let model = Arc::new(model);
        let write = |model: &Arc<Model>, number: u8| {
            let mode = CommitMode {
                no_slowdown: number == 1,
                ..CommitMode::default()
            };
            model.queue.write(model, &[number], 1, mode).is_ok()
        };
        let writers = [1, 2].map(|number| {
            let model = Arc::clone(&model);
            spawn(move || write(&model, number))
        });
        assert!(write(&model, 3));
        let [first, second] = writers.map(|writer| writer.join().unwrap());
        assert!(second);
        assert_eq!(model.inserted_up_to_visible(1), usize::from(first));
        // There is no leader, and every place is free.
        drop(model.queue.lead());
        for _ in 0..4 {
            assert!(model.queue.waiting.places.claim().is_some());
        }
    });
}

#[test]
fn a_writer_that_gives_up_is_not_written_and_leaves_its_place() {
    for insertion in [Insertion::Alone, Insertion::Shared, Insertion::Pipelined] {
        three_writers_of_whom_one_gives_up(insertion, 0);
    }
}

#[test]
fn with_spare_cores_leadership_passes_before_the_insertion() {
    three_writers_of_whom_one_gives_up(Insertion::Shared, 2);
}

/// Model: writers without a leader find their own writes, and a reader sees them in order.
#[test]
fn without_a_leader_readers_see_everything_up_to_the_last() {
    explore("write queue, open gate", || {
        let model = Model::with_gate(Fault::default());
        let writers = [1, 2].map(|number| {
            let model = Arc::clone(&model);
            spawn(move || model.write_unlogged(number).unwrap())
        });
        model.read();
        model.read();
        for writer in writers {
            writer.join().unwrap();
        }
        assert_eq!(model.visible.load(Ordering::Acquire), 2);
    });
}

/// Model: three writers without a leader, more than there are slots.
#[test]
fn without_a_leader_nobody_sleeps_for_ever() {
    explore_large("write queue, open gate, three writers", || {
        let model = Model::with_gate(Fault::default());
        let writers = [1, 2].map(|number| {
            let model = Arc::clone(&model);
            spawn(move || model.write_unlogged(number).unwrap())
        });
        model.write_unlogged(3).unwrap();
        for writer in writers {
            writer.join().unwrap();
        }
        assert_eq!(model.visible.load(Ordering::Acquire), 3);
        model.read();
    });
}

/// Model: a leader finds all entries that have numbers in the memtables, and leads alone.
#[test]
fn a_leader_closes_the_gate_and_waits_for_the_writers_behind_it() {
    explore("write queue, closing gate", || {
        let model = Model::with_gate(Fault::default());
        let writers = [1, 2].map(|number| {
            let model = Arc::clone(&model);
            spawn(move || model.write_unlogged(number).unwrap())
        });
        {
            let leadership = model.queue.lead();
            model.queue.pipeline.drain().unwrap();
            let last = leadership.commit.last_seqno;
            model.check_whole(last);
            assert_eq!(model.visible.load(Ordering::Acquire), last);
            assert!(!model.queue.direct.is_open());
        }
        for writer in writers {
            writer.join().unwrap();
        }
        assert_eq!(model.visible.load(Ordering::Acquire), 2);
    });
}

/// Model: a write with a log closes the gate for good.
#[test]
fn writes_with_and_without_a_log_have_numbers_of_their_own() {
    explore_large("write queue, a logged write at an open gate", || {
        let model = Model::with_gate(Fault::default());
        let writers = [1, 2].map(|number| {
            let model = Arc::clone(&model);
            spawn(move || match number {
                1 => model.write(number).unwrap(),
                _ => model.write_unlogged(number).unwrap(),
            })
        });
        model.write_unlogged(3).unwrap();
        for writer in writers {
            writer.join().unwrap();
        }
        assert!(!model.queue.direct.is_open());
        assert_eq!(model.visible.load(Ordering::Acquire), 3);
        model.read();
    });
}

/// Model: nothing behind a batch that could not be inserted is published or acknowledged.
#[test]
fn without_a_leader_nothing_is_published_behind_a_batch_that_was_not_inserted() {
    explore_large("write queue, open gate, an insert that fails", || {
        let fault = Fault {
            log: None,
            insert: Some(1),
        };
        let model = Model::with_gate(fault);
        let writers = [1, 2].map(|number| {
            let model = Arc::clone(&model);
            spawn(move || (number, model.write_unlogged(number)))
        });
        let own = model.write_unlogged(3);
        let mut acknowledged = usize::from(own.is_ok());
        for writer in writers {
            let (number, written) = writer.join().unwrap();
            assert!(number != 1 || written.is_err());
            acknowledged += usize::from(written.is_ok());
        }
        assert_eq!(acknowledged as u64, model.visible.load(Ordering::Acquire));
        model.read();
        let leadership = model.queue.lead();
        assert!(model.queue.pipeline.drain().is_err());
        drop(leadership);
        assert!(!model.queue.direct.is_open());
    });
}

/// Model: after a close no write without a leader is acknowledged.
#[test]
fn a_close_is_seen_behind_the_gate() {
    explore("write queue, close at an open gate", || {
        let model = Model::with_gate(Fault::default());
        let writers = [1, 2].map(|number| {
            let model = Arc::clone(&model);
            spawn(move || usize::from(model.write_unlogged(number).is_ok()))
        });
        let last = {
            let leadership = model.queue.lead();
            model.is_closing.store(true, Ordering::Release);
            leadership.commit.last_seqno
        };
        let acknowledged: usize = writers.map(|writer| writer.join().unwrap()).iter().sum();
        assert_eq!(acknowledged as u64, last);
    });
}

/// Model: a commit fails if and only if its key was written between its validation and its number.
#[test]
fn a_commit_in_a_group_conflicts_exactly_with_the_writes_since_its_validation() {
    for (is_on, insertion) in [
        (true, Insertion::Shared),
        (true, Insertion::Pipelined),
        (false, Insertion::Pipelined),
    ] {
        explore_large("write queue, commits with checks", move || {
            let model = Model::new(insertion, Fault::default());
            if is_on {
                model.queue.lead().commit.recent.cover(0);
            }
            let writers = [1, 2].map(|number| {
                let model = Arc::clone(&model);
                spawn(move || model.commit(number))
            });
            model.write(3).unwrap();
            let [first, second] = writers.map(|writer| writer.join().unwrap());
            assert!(second, "no other write is of its key");
            let last = 2 + u64::from(first);
            assert_eq!(model.visible.load(Ordering::Acquire), last);
            model.read();
        });
    }
}

/// Model: a commit knows the writes that passed the gate before it.
#[test]
fn a_commit_conflicts_with_a_write_without_a_leader() {
    explore("write queue, a commit at an open gate", || {
        let model = Model::with_gate(Fault::default());
        let writer = spawn({
            let model = Arc::clone(&model);
            move || model.write_unlogged(3).unwrap()
        });
        let committed = model.commit(1);
        writer.join().unwrap();
        let last = 1 + u64::from(committed);
        assert_eq!(model.visible.load(Ordering::Acquire), last);
        model.read();
    });
}
