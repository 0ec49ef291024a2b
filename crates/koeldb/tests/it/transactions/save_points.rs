//! Save points against a plain model: uses of keys, locks, and the snapshot before and after.

use koeldb::{
    Db, ErrorKind, LockMode, ReadOptions, Transaction, TransactionDbOptions, TransactionOptions,
    WriteOptions,
};
use koeldb_testkit::{Floors, Random};

use crate::prelude::in_memory;

const KEYS: usize = 4;

fn open(is_pessimistic: bool) -> Db {
    let mut options = in_memory();
    if is_pessimistic {
        let mut locks = TransactionDbOptions::new();
        locks.set_default_lock_timeout(1);
        options.set_transactions(&locks);
    }
    Db::open(&options, "/save_points").unwrap()
}

fn begin(db: &Db) -> Transaction {
    let mut options = TransactionOptions::new();
    options.set_lock_timeout(0);
    db.transaction_opt(&WriteOptions::new(), &options).unwrap()
}

fn name(key: usize) -> [u8; 1] {
    [b'a' + u8::try_from(key).unwrap()]
}

/// The uses of one key since a save point and before the next.
#[derive(Clone, Copy, Debug, Default)]
struct Uses {
    reads: usize,
    writes: usize,
    is_upgraded: bool,
}

/// The state since a save point; the first one is since the beginning.
#[derive(Clone, Debug, Default)]
struct Frame {
    uses: [Uses; KEYS],
    /// The snapshot at the save point, and whether one was due.
    saved: (Option<u64>, bool),
}

/// The model of one transaction.
#[derive(Clone, Debug)]
struct Model {
    frames: Vec<Frame>,
    snapshot: Option<u64>,
    is_due: bool,
    is_exclusive: [bool; KEYS],
    /// The number since which each used key must be unchanged.
    since: [Option<u64>; KEYS],
}

impl Model {
    fn is_used(&self, key: usize) -> bool {
        let mut frames = self.frames.iter();
        frames.any(|frame| frame.uses[key].reads + frame.uses[key].writes > 0)
    }

    fn top(&mut self) -> &mut Frame {
        self.frames.last_mut().unwrap()
    }

    fn take_due_snapshot(&mut self, now: u64) {
        if self.is_due {
            (self.snapshot, self.is_due) = (Some(now), false);
        }
    }

    /// Adds a use of a key that was last written at `written`; `false` for a conflict.
    fn use_key(
        &mut self,
        key: usize,
        use_: Use,
        is_pessimistic: bool,
        (now, written): (u64, u64),
    ) -> bool {
        if !is_pessimistic && use_ == Use::Untracked {
            return true;
        }
        let was_used = self.is_used(key);
        self.take_due_snapshot(now);
        let since = self.snapshot.unwrap_or(now);
        if is_pessimistic && use_ != Use::Untracked && written > since {
            return false;
        }
        let oldest = self.since[key].filter(|_| was_used);
        self.since[key] = Some(oldest.map_or(since, |oldest| oldest.min(since)));
        let is_exclusive = use_ != Use::Shared;
        let is_upgraded = was_used && is_exclusive && !self.is_exclusive[key];
        self.is_exclusive[key] = is_exclusive || (was_used && self.is_exclusive[key]);
        let uses = &mut self.top().uses[key];
        uses.is_upgraded |= is_upgraded;
        match use_ {
            Use::Shared | Use::Exclusive => uses.reads += 1,
            Use::Put | Use::Untracked => uses.writes += 1,
        }
        true
    }

    fn undo(&mut self, key: usize) {
        let uses = &mut self.top().uses[key];
        uses.reads = uses.reads.saturating_sub(1);
        if uses.reads + uses.writes == 0 {
            *uses = Uses::default();
        }
    }

    fn rollback(&mut self) {
        let frame = self.frames.pop().unwrap();
        (self.snapshot, self.is_due) = frame.saved;
        for (key, uses) in frame.uses.iter().enumerate() {
            if uses.is_upgraded && self.is_used(key) {
                self.is_exclusive[key] = false;
            }
        }
    }

    fn pop(&mut self) {
        let frame = self.frames.pop().unwrap();
        for (all, new) in self.top().uses.iter_mut().zip(frame.uses) {
            all.reads += new.reads;
            all.writes += new.writes;
            all.is_upgraded |= new.is_upgraded;
        }
    }
}

/// A use of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Shared,
    Exclusive,
    Put,
    Untracked,
}

const USES: [Use; 4] = [Use::Shared, Use::Exclusive, Use::Put, Use::Untracked];

fn apply(transaction: &mut Transaction, db: &Db, key: usize, use_: Use) -> koeldb::Result<()> {
    let (family, name, options) = (db.default_cf(), name(key), ReadOptions::new());
    let read = |transaction: &mut Transaction, mode| {
        let read = transaction.get_for_update_opt(family, name, &options, mode);
        read.map(drop)
    };
    match use_ {
        Use::Shared => read(transaction, LockMode::Shared),
        Use::Exclusive => read(transaction, LockMode::Exclusive),
        Use::Put => transaction.put(name, "mine"),
        Use::Untracked => transaction.put_untracked(family, name, "mine"),
    }
}

/// Compares the locks that another transaction meets with the model.
fn check_locks(db: &Db, model: &Model, trace: &[String]) {
    for key in 0..KEYS {
        let is_free = |mode| begin(db).lock(db.default_cf(), name(key), mode).is_ok();
        let found = (is_free(LockMode::Shared), is_free(LockMode::Exclusive));
        let is_used = model.is_used(key);
        let expected = (!is_used || !model.is_exclusive[key], !is_used);
        assert_eq!(found, expected, "key {key}: {trace:#?}");
    }
}

fn run(seed: u64) {
    let mut random = Random::new(seed);
    let is_pessimistic = random.chance(1, 2);
    let db = open(is_pessimistic);
    let mut transaction = begin(&db);
    let mut model = Model {
        frames: vec![Frame::default()],
        snapshot: None,
        is_due: false,
        is_exclusive: [false; KEYS],
        since: [None; KEYS],
    };
    let mut written = [0_u64; KEYS];
    let mut trace = vec![format!("seed {seed}, pessimistic {is_pessimistic}")];
    for _ in 0..40 {
        let now = db.latest_sequence_number();
        let key = usize::try_from(random.below(KEYS as u64)).unwrap();
        let action = random.below(12);
        trace.push(format!("{action} of key {key} at {now}"));
        match action {
            0 => {
                transaction.set_snapshot();
                (model.snapshot, model.is_due) = (Some(now), false);
            }
            1 => {
                transaction.set_snapshot_on_next_operation();
                model.is_due = true;
            }
            2 => {
                transaction.clear_snapshot();
                (model.snapshot, model.is_due) = (None, false);
            }
            3 | 4 => {
                transaction.set_save_point();
                model.frames.push(Frame {
                    saved: (model.snapshot, model.is_due),
                    ..Frame::default()
                });
            }
            5 => {
                let done = transaction.rollback_to_save_point();
                if model.frames.len() > 1 {
                    done.unwrap();
                    model.rollback();
                } else {
                    assert_eq!(done.unwrap_err().kind(), ErrorKind::NotFound);
                }
            }
            6 => {
                let done = transaction.pop_save_point();
                if model.frames.len() > 1 {
                    done.unwrap();
                    model.pop();
                } else {
                    assert_eq!(done.unwrap_err().kind(), ErrorKind::NotFound);
                }
            }
            7 => {
                transaction.undo_get_for_update(db.default_cf(), name(key));
                model.undo(key);
            }
            8 => {
                if !is_pessimistic || !model.is_used(key) {
                    db.put(name(key), "theirs").unwrap();
                    written[key] = db.latest_sequence_number();
                }
            }
            _ => {
                let use_ = USES[usize::try_from(random.below(4)).unwrap()];
                trace.push(format!("... {use_:?}"));
                let done = apply(&mut transaction, &db, key, use_);
                let times = (now, written[key]);
                let is_done = model.use_key(key, use_, is_pessimistic, times);
                assert_eq!(done.is_ok(), is_done, "{done:?}: {trace:#?}");
            }
        }
        let snapshot = transaction.snapshot();
        let number = snapshot.map(koeldb::Snapshot::sequence_number);
        assert_eq!(number, model.snapshot, "{trace:#?}");
        if is_pessimistic {
            check_locks(&db, &model, &trace);
        }
    }
    let is_stale = |key: usize| {
        let since = model.since[key].filter(|_| model.is_used(key));
        since.is_some_and(|since| written[key] > since)
    };
    let is_busy = !is_pessimistic && (0..KEYS).any(is_stale);
    let done = transaction.commit();
    assert_eq!(done.is_err(), is_busy, "{done:?}: {trace:#?}");
    assert!(db.lock_status().is_empty());
}

#[test]
fn a_rollback_to_a_save_point_restores_locks_uses_and_snapshot() {
    let count = Floors::chosen().of(400, 4_000, 100_000);
    let seed = std::env::var("KOELDB_SEED").ok();
    match seed.and_then(|seed| seed.parse().ok()) {
        Some(seed) => run(seed),
        None => (0..count).for_each(run),
    }
}

#[test]
fn a_rollback_brings_back_the_snapshot_of_the_save_point() {
    for is_pessimistic in [false, true] {
        for is_deferred in [false, true] {
            let db = open(is_pessimistic);
            db.put("k", "3").unwrap();
            let mut transaction = begin(&db);
            transaction.set_snapshot();
            db.put("k", "4").unwrap();
            transaction.set_save_point();
            if is_deferred {
                transaction.set_snapshot_on_next_operation();
                transaction.put("other", "x").unwrap();
            } else {
                transaction.set_snapshot();
            }
            let seen = |transaction: &Transaction| transaction.get("k").unwrap().unwrap().to_vec();
            assert_eq!(seen(&transaction), b"4");
            transaction.rollback_to_save_point().unwrap();
            assert_eq!(seen(&transaction), b"3");
            let done = transaction
                .put("k", "5")
                .and_then(|()| transaction.commit());
            assert_eq!(done.unwrap_err().kind(), ErrorKind::Busy);
        }
    }
}

#[test]
fn a_key_read_before_and_after_a_save_point_is_free_after_rollback_and_undo() {
    let db = open(true);
    let mut transaction = begin(&db);
    transaction.get_for_update("k").unwrap();
    transaction.set_save_point();
    transaction.get_for_update("k").unwrap();
    transaction.put("k", "v").unwrap();
    transaction.rollback_to_save_point().unwrap();
    assert_eq!(db.lock_status().len(), 1);
    transaction.undo_get_for_update(db.default_cf(), "k");
    assert!(db.lock_status().is_empty());
    db.put("k", "theirs").unwrap();
}

/// The snapshot that is due is set behind the write that the lock was waited for.
#[test]
fn a_snapshot_that_is_due_is_set_once_the_lock_is_held() {
    let db = open(true);
    let mut holder = begin(&db);
    holder.put("k", "1").unwrap();
    let mut options = TransactionOptions::new();
    options.set_lock_timeout(-1).set_deadlock_detect(false);
    let mut waiting = db.transaction_opt(&WriteOptions::new(), &options).unwrap();
    waiting.set_snapshot_on_next_operation();
    let future = waiting.get_for_update_async(db.default_cf(), "k", LockMode::Exclusive);
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(future.as_mut().poll(&mut context).is_pending());
    holder.commit().unwrap();
    let std::task::Poll::Ready(read) = future.as_mut().poll(&mut context) else {
        panic!("the lock is free");
    };
    assert_eq!(read.unwrap().as_deref(), Some(&b"1"[..]));
}
