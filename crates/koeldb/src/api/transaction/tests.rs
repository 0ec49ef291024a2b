//! Transactions in interleavings that one thread makes step by step.

mod cleared;
mod group_commits;
mod lock_release;
mod lost_updates;

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use koeldb_base::merge_operator::StringAppend;
use proptest::prelude::*;

use crate::{
    CompactRangeOptions, Db, Env, ErrorDetail, ErrorKind, LockMode, Options, Result, Transaction,
    TransactionDbOptions, TransactionOptions, ValidationTier, WriteBatch, WriteOptions,
};

fn open(is_pessimistic: bool) -> Db {
    let mut locks = TransactionDbOptions::new();
    locks.set_default_lock_timeout(1);
    open_with(is_pessimistic.then_some(&locks))
}

/// Opens a database whose writes and transactions wait for locks without a time limit.
fn open_patient() -> Db {
    let mut locks = TransactionDbOptions::new();
    locks
        .set_default_lock_timeout(-1)
        .set_transaction_lock_timeout(-1);
    open_with(Some(&locks))
}

fn open_with(locks: Option<&TransactionDbOptions>) -> Db {
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_merge_operator(StringAppend::default())
        .set_env(&Env::mem_env());
    if let Some(locks) = locks {
        options.set_transactions(locks);
    }
    Db::open(&options, "/transactions").unwrap()
}

fn begin(db: &Db, options: &TransactionOptions) -> Transaction {
    db.transaction_opt(&WriteOptions::new(), options).unwrap()
}

/// Options of a transaction that waits for no lock.
fn impatient() -> TransactionOptions {
    let mut options = TransactionOptions::new();
    options.set_lock_timeout(0);
    options
}

/// A column of the table of anomalies.
#[derive(Clone, Copy, Debug)]
struct Mode {
    is_pessimistic: bool,
    has_snapshot: bool,
    reads_for_update: bool,
}

/// O, O+S, O+U, P, P+S, P+U.
const MODES: [Mode; 6] = {
    const fn mode(is_pessimistic: bool, has_snapshot: bool, reads_for_update: bool) -> Mode {
        Mode {
            is_pessimistic,
            has_snapshot,
            reads_for_update,
        }
    }
    [
        mode(false, false, false),
        mode(false, true, false),
        mode(false, false, true),
        mode(true, false, false),
        mode(true, true, false),
        mode(true, false, true),
    ]
};

impl Mode {
    fn begin(self, db: &Db) -> Transaction {
        let mut options = impatient();
        options.set_snapshot(self.has_snapshot);
        begin(db, &options)
    }

    fn read(self, transaction: &mut Transaction, key: &str) -> Result<String> {
        let value = match self.reads_for_update {
            true => transaction.get_for_update(key)?,
            false => transaction.get(key)?,
        };
        Ok(String::from_utf8(value.unwrap_or_default().to_vec()).unwrap())
    }
}

/// Whether each mode lets an anomaly happen; a conflict is a prevented anomaly.
fn happens(anomaly: impl Fn(Mode, &Db) -> Result<bool>) -> [bool; 6] {
    MODES.map(|mode| {
        let db = open(mode.is_pessimistic);
        for key in ["x", "y"] {
            db.put(key, "0").unwrap();
        }
        match anomaly(mode, &db) {
            Ok(happened) => happened,
            Err(error) => {
                let kinds = [ErrorKind::Busy, ErrorKind::TimedOut];
                assert!(kinds.contains(&error.kind()), "{mode:?}: {error}");
                false
            }
        }
    })
}

const NEVER: [bool; 6] = [false; 6];
const ALWAYS: [bool; 6] = [true; 6];
/// In modes without a snapshot and without reads for update.
const PLAIN: [bool; 6] = [true, false, false, true, false, false];

#[test]
fn no_mode_has_dirty_writes() {
    let found = happens(|mode, db| {
        let (mut first, mut second) = (mode.begin(db), mode.begin(db));
        first.put("x", "1")?;
        second.put("x", "2")?;
        second.put("y", "2")?;
        first.put("y", "1")?;
        first.commit()?;
        second.commit()?;
        Ok(db.get("x")? != db.get("y")?)
    });
    assert_eq!(found, NEVER);
}

#[test]
fn no_mode_has_dirty_reads() {
    let found = happens(|mode, db| {
        let (mut first, mut second) = (mode.begin(db), mode.begin(db));
        first.put("x", "1")?;
        first.put("x", "2")?;
        let dirty = mode.read(&mut second, "x")?;
        first.rollback();
        Ok(dirty != "0")
    });
    assert_eq!(found, NEVER);
}

#[test]
fn no_mode_has_circular_information_flow() {
    let found = happens(|mode, db| {
        let (mut first, mut second) = (mode.begin(db), mode.begin(db));
        first.put("x", "1")?;
        second.put("y", "2")?;
        let (y, x) = (mode.read(&mut first, "y")?, mode.read(&mut second, "x")?);
        first.commit()?;
        second.commit()?;
        Ok(y == "2" && x == "1")
    });
    assert_eq!(found, NEVER);
}

#[test]
fn read_skew_needs_a_snapshot_or_reads_for_update() {
    let found = happens(|mode, db| {
        let mut reader = mode.begin(db);
        let x = mode.read(&mut reader, "x")?;
        let mut batch = WriteBatch::new();
        db.write(batch.put("x", "1").put("y", "1"))?;
        let y = mode.read(&mut reader, "y")?;
        reader.commit()?;
        Ok(x != y)
    });
    assert_eq!(found, PLAIN);
}

#[test]
fn lost_updates_need_a_snapshot_or_reads_for_update() {
    let found = happens(|mode, db| {
        let (mut first, mut second) = (mode.begin(db), mode.begin(db));
        let seen = mode.read(&mut first, "x")?;
        let seen_too = mode.read(&mut second, "x")?;
        first.put("x", format!("{seen},1"))?;
        first.commit()?;
        second.put("x", format!("{seen_too},2"))?;
        second.commit()?;
        Ok(true)
    });
    assert_eq!(found, PLAIN);
}

#[test]
fn write_skew_needs_reads_for_update() {
    let found = happens(|mode, db| {
        let (mut first, mut second) = (mode.begin(db), mode.begin(db));
        for transaction in [&mut first, &mut second] {
            mode.read(transaction, "x")?;
            mode.read(transaction, "y")?;
        }
        first.put("x", "1")?;
        second.put("y", "1")?;
        first.commit()?;
        second.commit()?;
        Ok(true)
    });
    assert_eq!(found, [true, true, false, true, true, false]);
}

#[test]
fn every_mode_has_phantoms() {
    let found = happens(|mode, db| {
        let (mut first, mut second) = (mode.begin(db), mode.begin(db));
        for (transaction, key) in [(&mut first, "p1"), (&mut second, "p2")] {
            let mut cursor = transaction.cursor();
            assert!(cursor.seek("p")?, "x follows");
            assert_eq!(cursor.key(), Some(&b"x"[..]));
            transaction.put(key, "alone")?;
        }
        first.commit()?;
        second.commit()?;
        Ok(true)
    });
    assert_eq!(found, ALWAYS);
}

#[test]
fn long_forks_need_a_snapshot_or_reads_for_update() {
    let found = happens(|mode, db| {
        let mut late = mode.begin(db);
        let late_x = mode.read(&mut late, "x")?;
        db.put("x", "1")?;
        let mut early = mode.begin(db);
        let early_seen = (mode.read(&mut early, "x")?, mode.read(&mut early, "y")?);
        early.commit()?;
        db.put("y", "1")?;
        let late_y = mode.read(&mut late, "y")?;
        late.commit()?;
        Ok(early_seen == ("1".into(), "0".into()) && (late_x, late_y) == ("0".into(), "1".into()))
    });
    assert_eq!(found, PLAIN);
}

#[test]
fn a_write_at_the_snapshot_is_no_conflict_and_the_next_one_is() {
    for is_pessimistic in [false, true] {
        for (before, after) in [(1, 0), (0, 1), (1, 1)] {
            let db = open(is_pessimistic);
            db.put("other", "0").unwrap();
            if before > 0 {
                db.put("k", "before").unwrap();
            }
            let mut transaction = db.transaction();
            transaction.set_snapshot();
            if after > 0 {
                db.put("k", "after").unwrap();
            }
            let done = transaction
                .put("k", "1")
                .and_then(|()| transaction.commit());
            assert_eq!(done.is_err(), after > 0);
            if let Err(error) = done {
                assert_eq!(error.detail(), Some(ErrorDetail::WriteConflict));
            }
        }
    }
}

/// Writes of others between the beginning and the commit of a transaction.
#[derive(Clone, Debug)]
enum Step {
    Put(u8),
    Delete(u8),
    SingleDelete(u8),
    Merge(u8),
    DeleteRange(u8, u8),
    Flush,
    Compact,
    /// Begins a transaction that uses this key.
    Begin(u8, bool),
    /// Commits the oldest transaction.
    Commit,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = || 0..6_u8;
    let step = prop_oneof![
        4 => key().prop_map(Step::Put),
        2 => key().prop_map(Step::Delete),
        2 => key().prop_map(Step::SingleDelete),
        1 => key().prop_map(Step::Merge),
        1 => (key(), key()).prop_map(|(a, b)| Step::DeleteRange(a.min(b), a.max(b))),
        2 => Just(Step::Flush),
        1 => Just(Step::Compact),
        4 => (key(), any::<bool>()).prop_map(|(key, first)| Step::Begin(key, first)),
        3 => Just(Step::Commit),
    ];
    proptest::collection::vec(step, 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// A commit conflicts if and only if its key was written since, wherever the write is by now.
    #[test]
    fn a_commit_conflicts_with_the_writes_since_its_first_use(steps in steps()) {
        let db = open(false);
        let mut last_write = [0_usize; 6];
        let mut open: Vec<(Transaction, usize, usize)> = Vec::new();
        let steps = steps.into_iter().chain(std::iter::repeat_n(Step::Commit, 60));
        for (at, step) in steps.enumerate() {
            let (mut from, mut to) = (0, 0);
            match step {
                Step::Put(key) => {
                    db.put([key], "v").unwrap();
                    (from, to) = (usize::from(key), usize::from(key) + 1);
                }
                Step::Delete(key) => {
                    db.delete([key]).unwrap();
                    (from, to) = (usize::from(key), usize::from(key) + 1);
                }
                Step::SingleDelete(key) => {
                    db.default_cf().single_delete([key]).unwrap();
                    (from, to) = (usize::from(key), usize::from(key) + 1);
                }
                Step::Merge(key) => {
                    db.merge([key], "m").unwrap();
                    (from, to) = (usize::from(key), usize::from(key) + 1);
                }
                Step::DeleteRange(a, b) => {
                    db.delete_range([a], [b]).unwrap();
                    (from, to) = (usize::from(a), usize::from(b));
                }
                Step::Flush => db.flush().unwrap(),
                Step::Compact => db.compact_all(&CompactRangeOptions::new()).unwrap(),
                Step::Begin(key, by_snapshot) => {
                    let mut transaction = db.transaction();
                    if by_snapshot {
                        transaction.set_snapshot();
                    } else {
                        transaction.get_for_update([key]).unwrap();
                    }
                    open.push((transaction, usize::from(key), at));
                }
                Step::Commit => {
                    if open.is_empty() {
                        continue;
                    }
                    let (mut transaction, key, begun) = open.remove(0);
                    transaction.put([u8::try_from(key).unwrap()], "t").unwrap();
                    let done = transaction.commit();
                    prop_assert_eq!(done.is_err(), last_write[key] > begun, "{:?}", done);
                    if done.is_ok() {
                        last_write[key] = at;
                    }
                }
            }
            last_write[from..to].fill(at);
        }
    }
}

#[test]
fn memtables_alone_do_not_decide_what_they_do_not_reach() {
    let db = open(false);
    db.put("k", "0").unwrap();
    let mut options = TransactionOptions::new();
    options.set_validation_tier(ValidationTier::Memtable);
    let mut transaction = begin(&db, &options);
    transaction.put("k", "1").unwrap();
    db.put("other", "0").unwrap();
    db.flush().unwrap();
    let error = transaction.commit().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TryAgain);
    let mut transaction = begin(&db, &options);
    transaction.put("k", "1").unwrap();
    transaction.commit().unwrap();
}

#[test]
fn every_write_of_a_pessimistic_database_locks_its_keys() {
    let db = open(true);
    let mut transaction = db.transaction();
    transaction.put("k", "1").unwrap();
    let mut batch = WriteBatch::new();
    batch
        .put("a", "1")
        .put("k", "2")
        .put("z", "3")
        .put("z", "4");
    for refused in [db.put("k", "2"), db.write(&batch), db.merge("k", "2")] {
        let error = refused.unwrap_err();
        assert_eq!(error.detail(), Some(ErrorDetail::LockTimeout));
    }
    assert_eq!(db.lock_status().len(), 1);
    assert_eq!(
        db.delete_range("a", "b").unwrap_err().kind(),
        ErrorKind::NotSupported
    );
    transaction.commit().unwrap();
    db.write(&batch).unwrap();
    assert_eq!(db.get("k").unwrap().as_deref(), Some(&b"2"[..]));
    assert!(db.lock_status().is_empty());
}

#[test]
fn transactions_of_threads_that_use_two_databases_have_ids_of_their_own() {
    let databases = [open_patient(), open_patient()];
    let ids_of = |thread: usize| -> Vec<(usize, u64)> {
        let mut ids = Vec::new();
        // More than a thread takes from the common counter together.
        for round in 0..200 {
            let which = (round / (thread + 1)) % 2;
            let db = &databases[which];
            let mut transaction = db.transaction();
            ids.push((which, transaction.id()));
            transaction.put(format!("{thread}"), "1").unwrap();
            transaction.commit().unwrap();
            let mut batch = WriteBatch::new();
            batch.put(format!("{thread}"), "2").put("common", "2");
            db.put(format!("{thread}"), "2").unwrap();
            db.write(&batch).unwrap();
        }
        ids
    };
    let mut ids: Vec<(usize, u64)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|thread| scope.spawn(move || ids_of(thread)))
            .collect();
        let all = threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap());
        all.collect()
    });
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count);
    assert!(databases.iter().all(|db| db.lock_status().is_empty()));
}

#[test]
fn writes_that_wait_for_each_other_leave_no_lock() {
    let db = open_patient();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for round in 0..100 {
                    db.put("hot", format!("{round}")).unwrap();
                    let mut transaction = db.transaction();
                    transaction.put("hot", "transaction").unwrap();
                    transaction.commit().unwrap();
                }
            });
        }
    });
    assert!(db.lock_status().is_empty());
    db.put("hot", "last").unwrap();
    assert_eq!(db.get("hot").unwrap().as_deref(), Some(&b"last"[..]));
}

#[test]
fn a_deadlock_ends_with_the_error_of_one_and_is_remembered() {
    let db = open(true);
    let mut options = TransactionOptions::new();
    options.set_lock_timeout(60_000);
    let (mut first, mut second) = (begin(&db, &options), begin(&db, &options));
    first.put("x", "1").unwrap();
    second.put("y", "2").unwrap();
    let ids = [first.id(), second.id()];
    let (first_done, second_done) = std::thread::scope(|scope| {
        let other = scope.spawn(move || {
            let done = first.put("y", "1");
            drop(first);
            done
        });
        let done = second.put("x", "2");
        drop(second);
        (other.join().unwrap(), done)
    });
    let failed: Vec<_> = [first_done, second_done]
        .into_iter()
        .filter_map(Result::err)
        .collect();
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0].detail(), Some(ErrorDetail::Deadlock));
    let deadlocks = db.deadlocks();
    assert_eq!(deadlocks.len(), 1);
    assert_eq!(deadlocks[0].path.len(), 2);
    assert!(
        deadlocks[0]
            .path
            .iter()
            .all(|wait| ids.contains(&wait.transaction))
    );
    let message = failed[0].message();
    assert!(message.contains("deadlock"), "{message}");
    assert!(db.lock_status().is_empty());
}

#[test]
fn an_expired_transaction_loses_its_locks_and_does_not_commit() {
    let db = open(true);
    let mut options = TransactionOptions::new();
    // On a busy machine it may expire before its first write; the next one lives twice as long.
    let mut expired = (0..)
        .find_map(|attempt| {
            options.set_expiration(20 << attempt);
            let mut transaction = begin(&db, &options);
            transaction.put("k", "1").ok().map(|()| transaction)
        })
        .unwrap();
    // It waits for the expiration, not for the end of its own time limit.
    let mut thief = db.transaction();
    thief.put("k", "2").unwrap();
    assert_eq!(
        expired.put("x", "1").unwrap_err().kind(),
        ErrorKind::Expired
    );
    assert_eq!(expired.commit().unwrap_err().kind(), ErrorKind::Expired);
    thief.commit().unwrap();
    assert_eq!(db.get("k").unwrap().as_deref(), Some(&b"2"[..]));
}

#[test]
fn save_points_take_back_writes_and_locks() {
    for is_pessimistic in [false, true] {
        let db = open(is_pessimistic);
        let mut transaction = db.transaction();
        transaction.put("a", "1").unwrap();
        transaction
            .lock(db.default_cf(), "s", LockMode::Shared)
            .unwrap();
        transaction.set_save_point();
        transaction.put("a", "2").unwrap();
        transaction.put("b", "2").unwrap();
        transaction.put("s", "2").unwrap();
        transaction.rollback_to_save_point().unwrap();
        assert_eq!(
            transaction.rollback_to_save_point().unwrap_err().kind(),
            ErrorKind::NotFound
        );
        assert_eq!(transaction.get("b").unwrap(), None);
        if is_pessimistic {
            let mut other = begin(&db, &impatient());
            other.lock(db.default_cf(), "s", LockMode::Shared).unwrap();
            assert!(other.put("s", "3").is_err());
            assert!(other.put("a", "3").is_err());
            other.put("b", "3").unwrap();
            other.commit().unwrap();
        } else {
            db.put("b", "3").unwrap();
        }
        transaction.commit().unwrap();
        assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"1"[..]));
        assert_eq!(db.get("b").unwrap().as_deref(), Some(&b"3"[..]));
    }
}

#[test]
fn a_read_for_update_can_be_taken_back() {
    let db = open(true);
    let family = db.default_cf();
    let mut transaction = db.transaction();
    transaction.get_for_update("a").unwrap();
    transaction.get_for_update("a").unwrap();
    transaction.get_for_update("b").unwrap();
    transaction.put("b", "1").unwrap();
    for key in ["a", "b", "c"] {
        transaction.undo_get_for_update(family, key);
    }
    assert_eq!(db.lock_status().len(), 2);
    transaction.undo_get_for_update(family, "a");
    assert_eq!(db.lock_status().len(), 1);
    transaction.get_for_update("a").unwrap();
    assert_eq!(db.lock_status().len(), 2);
}

#[test]
fn limits_of_locks_and_batches_are_errors_that_change_nothing() {
    let mut locks = TransactionDbOptions::new();
    locks.set_max_num_locks(2);
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_env(&Env::mem_env())
        .set_transactions(&locks);
    let db = Db::open(&options, "/limits").unwrap();
    let mut how = TransactionOptions::new();
    how.set_max_write_batch_size(40);
    let mut transaction = begin(&db, &how);
    transaction.put("a", "1").unwrap();
    assert_eq!(
        transaction.put("b", [0; 40]).unwrap_err().kind(),
        ErrorKind::MemoryLimit
    );
    let error = transaction.put("c", "1").unwrap_err();
    assert_eq!(error.detail(), Some(ErrorDetail::LockLimit));
    transaction.put("b", "1").unwrap();
    transaction.commit().unwrap();
    assert_eq!(db.iterator(crate::IteratorMode::Start).count(), 2);
}

#[derive(Default)]
struct CountWakes(std::sync::atomic::AtomicUsize);

impl Wake for CountWakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    }
}

#[test]
fn a_wait_for_a_lock_is_a_future_that_is_woken_or_dropped() {
    let db = open(true);
    let family = db.default_cf().clone();
    let wakes = Arc::new(CountWakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let mut context = Context::from_waker(&waker);
    let mut holder = db.transaction();
    holder.put("k", "1").unwrap();
    let (mut waiter, mut leaver) = (db.transaction(), db.transaction());
    {
        let mut waits = pin!(waiter.get_for_update_async(&family, "k", LockMode::Exclusive));
        assert!(waits.as_mut().poll(&mut context).is_pending());
        {
            let mut leaves = pin!(leaver.lock_async(&family, "k", LockMode::Exclusive));
            assert!(leaves.as_mut().poll(&mut context).is_pending());
        }
        assert_eq!(db.lock_status()[0].waiting.len(), 2 - 1);
        holder.commit().unwrap();
        assert_eq!(wakes.0.load(std::sync::atomic::Ordering::SeqCst), 1);
        match waits.as_mut().poll(&mut context) {
            Poll::Ready(value) => assert_eq!(value.unwrap().as_deref(), Some(&b"1"[..])),
            Poll::Pending => panic!("the lock was handed on"),
        }
    }
    // The time limit wakes the task.
    let mut how = TransactionOptions::new();
    how.set_lock_timeout(20);
    let mut late = begin(&db, &how);
    let mut waits = pin!(late.lock_async(&family, "k", LockMode::Shared));
    assert!(waits.as_mut().poll(&mut context).is_pending());
    let mut error = None;
    for _ in 0..1000 {
        std::thread::park_timeout(Duration::from_millis(2));
        if wakes.0.load(std::sync::atomic::Ordering::SeqCst) > 1
            && let Poll::Ready(done) = waits.as_mut().poll(&mut context)
        {
            error = done.err();
            break;
        }
    }
    assert_eq!(error.unwrap().detail(), Some(ErrorDetail::LockTimeout));
    let is_send = |_: &(dyn Send + 'static)| ();
    is_send(&leaver);
}

#[test]
fn transact_repeats_its_body_after_conflicts_and_counts_right() {
    for is_pessimistic in [false, true] {
        let db = open(is_pessimistic);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        // Ten attempts may not be enough for optimistic ones.
                        while db
                            .transact(&TransactionOptions::new(), |transaction| {
                                let count = transaction.get_for_update("count")?;
                                let count = count
                                    .map_or(0, |v| u32::from_le_bytes(v[..].try_into().unwrap()));
                                transaction.put("count", (count + 1).to_le_bytes())
                            })
                            .is_err()
                        {}
                    }
                });
            }
        });
        assert_eq!(
            db.get("count").unwrap().as_deref(),
            Some(&200_u32.to_le_bytes()[..])
        );
    }
}

#[test]
fn other_errors_of_the_body_are_not_repeated() {
    let db = open(false);
    let mut runs = 0;
    let done = db.transact(&TransactionOptions::new(), |transaction| {
        runs += 1;
        transaction.put("k", "1")?;
        Err::<(), _>(crate::Error::corruption("planted"))
    });
    assert!(done.is_err());
    assert_eq!((runs, db.get("k").unwrap()), (1, None));
}
