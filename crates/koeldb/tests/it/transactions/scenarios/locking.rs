//! Locks: sharing, waiting, limits, expiry and deadlocks.

use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use koeldb::ReadOptions;

use super::*;

/// Polls the future once.
fn poll<T>(future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Begins a transaction that waits for locks without limit, and looks for deadlocks.
fn patient(db: &Db) -> Transaction {
    let mut options = TransactionOptions::new();
    options.set_lock_timeout(600_000).set_deadlock_detect(true);
    db.transaction_opt(&WriteOptions::new(), &options).unwrap()
}

#[test]
fn locks_are_shared_upgraded_and_not_downgraded() {
    let db = open(true);
    db.put("foo", "bar").unwrap();
    let (shared, exclusive) = (LockMode::Shared, LockMode::Exclusive);
    let (mut one, mut two, mut three) = (begin(&db, false), begin(&db, false), begin(&db, false));
    for transaction in [&mut one, &mut two, &mut three] {
        lock(transaction, "foo", shared).unwrap();
    }
    let status = db.lock_status();
    assert_eq!((status.len(), status[0].mode), (1, shared));
    assert_eq!(status[0].holders, [one.id(), two.id(), three.id()]);
    three.clear();
    assert_eq!(
        kind(lock(&mut three, "foo", exclusive)),
        ErrorKind::TimedOut
    );
    one.undo_get_for_update(db.default_cf(), "foo");
    assert_eq!(
        kind(lock(&mut three, "foo", exclusive)),
        ErrorKind::TimedOut
    );
    two.undo_get_for_update(db.default_cf(), "foo");
    lock(&mut three, "foo", exclusive).unwrap();
    three.clear();
    // An upgrade waits for the other holders.
    lock(&mut one, "foo", shared).unwrap();
    lock(&mut two, "foo", shared).unwrap();
    assert_eq!(kind(lock(&mut two, "foo", exclusive)), ErrorKind::TimedOut);
    one.undo_get_for_update(db.default_cf(), "foo");
    lock(&mut two, "foo", exclusive).unwrap();
    // A shared request of the holder leaves the lock exclusive.
    lock(&mut two, "foo", shared).unwrap();
    assert_eq!(kind(lock(&mut one, "foo", shared)), ErrorKind::TimedOut);
    two.clear();
    lock(&mut one, "foo", shared).unwrap();
}

#[test]
fn a_wait_shows_its_key_its_holders_and_itself() {
    let mut options = options(true);
    options.create_missing_column_families(true);
    let (db, [other]) = Db::open_cf(&options, "/waits", ["other"]).unwrap();
    let (mut holder, mut waiter) = (begin(&db, false), patient(&db));
    let (holder_id, waiter_id) = (holder.id(), waiter.id());
    holder.get_for_update("foo").unwrap();
    holder.get_for_update_cf(&other, "foo").unwrap();
    assert_eq!(db.lock_status().len(), 2);
    let mut wait = pin!(waiter.lock_async(db.default_cf(), "foo", LockMode::Exclusive));
    assert!(poll(wait.as_mut()).is_pending());
    let status = db.lock_status();
    let waited = status.iter().find(|lock| lock.key.is_some()).unwrap();
    assert_eq!(waited.key, Some((0, b"foo".to_vec())));
    assert_eq!(
        (&*waited.holders, &*waited.waiting),
        (&[holder_id][..], &[waiter_id][..])
    );
    holder.rollback();
    assert!(poll(wait.as_mut()).is_ready());
}

#[test]
fn a_wait_ends_at_its_limit_or_when_the_holder_expires() {
    let db = open(true);
    let with = |expiration: i64, lock_timeout: i64| {
        let mut options = TransactionOptions::new();
        options
            .set_expiration(expiration)
            .set_lock_timeout(lock_timeout);
        db.transaction_opt(&WriteOptions::new(), &options).unwrap()
    };
    // The limit comes first.
    let mut holder = with(6_000_000, 1);
    holder.delete("asdf").unwrap();
    let mut waiter = with(100_000_000, 1);
    assert_eq!(kind(waiter.delete("asdf")), ErrorKind::TimedOut);
    holder.commit().unwrap();
    waiter.put("asdf", "asdf").unwrap();
    waiter.commit().unwrap();
    assert_eq!(value(&db, "asdf").as_deref(), Some("asdf"));
    // The expiration comes first.
    let mut expiring = with(1, -1);
    // It may have expired before it locks the key.
    let _ = expiring.put("a", "2");
    let mut winner = with(-1, 600_000);
    winner.delete("a").unwrap();
    winner.commit().unwrap();
    assert_eq!(kind(expiring.commit()), ErrorKind::Expired);
    assert_eq!(value(&db, "a"), None);
}

#[test]
fn a_write_outside_waits_until_the_transaction_expires() {
    let mut options = options(true);
    let mut locks = TransactionDbOptions::new();
    locks.set_default_lock_timeout(-1);
    options.set_transactions(&locks);
    let db = Db::open(&options, "/expiry").unwrap();
    let mut how = TransactionOptions::new();
    how.set_expiration(1);
    let mut expiring = db.transaction_opt(&WriteOptions::new(), &how).unwrap();
    // It may have expired before it locks the key.
    let _ = expiring.put("X", "1");
    db.put("X", "2").unwrap();
    assert_eq!(kind(expiring.put("Z", "1")), ErrorKind::Expired);
    assert_eq!(kind(expiring.commit()), ErrorKind::Expired);
    assert_eq!(value(&db, "X").as_deref(), Some("2"));
    assert_eq!(value(&db, "Z"), None);
}

#[test]
fn the_limit_of_locks_counts_keys_once_and_is_given_back() {
    let mut options = options(true);
    let mut locks = TransactionDbOptions::new();
    locks
        .set_max_num_locks(3)
        .set_transaction_lock_timeout(0)
        .set_default_lock_timeout(0);
    options.set_transactions(&locks);
    let db = Db::open(&options, "/limit").unwrap();
    let is_limit =
        |done: Result<()>| done.is_err_and(|error| error.detail() == Some(ErrorDetail::LockLimit));
    let mut one = begin(&db, false);
    for key in ["X", "Y", "Z"] {
        one.put(key, "1").unwrap();
    }
    assert!(is_limit(one.put("W", "w")));
    assert!(is_limit(lock(&mut one, "V", LockMode::Shared)));
    one.put("X", "xx").unwrap();
    one.get_for_update("Y").unwrap();
    let mut how = TransactionOptions::new();
    how.set_lock_timeout(1);
    let mut two = db.transaction_opt(&WriteOptions::new(), &how).unwrap();
    assert_eq!(kind(two.put("X", "x")), ErrorKind::TimedOut);
    assert!(is_limit(two.put("M", "m")));
    one.commit().unwrap();
    for key in ["X", "M", "Z"] {
        two.put(key, "2").unwrap();
    }
    two.delete("X").unwrap();
    assert!(is_limit(two.delete("Y")));
    two.commit().unwrap();
    assert_eq!(value(&db, "X"), None);
    assert_eq!(value(&db, "Y").as_deref(), Some("1"));
    assert_eq!(value(&db, "Z").as_deref(), Some("2"));
}

#[test]
fn many_keys_are_locked_by_one_read() {
    let db = open(true);
    let (mut one, mut two) = (begin(&db, true), begin(&db, true));
    let options = ReadOptions::new();
    let read = one.multi_get_for_update(db.default_cf(), &["1", "2", "3"], &options);
    let read = read.unwrap();
    assert!(read.iter().all(|value| value.as_ref().unwrap().is_none()));
    assert_eq!(kind(two.put("2", "x")), ErrorKind::TimedOut);
    one.put("4", "x").unwrap();
    assert_eq!(kind(two.delete("4")), ErrorKind::TimedOut);
    one.commit().unwrap();
    assert!(is_busy(two.get_for_update("4")));
    two.put("2", "y").unwrap();
    two.commit().unwrap();
}

#[test]
fn an_upgrade_beside_another_holder_is_no_deadlock_with_itself() {
    let db = open(true);
    let (mut one, mut two) = (patient(&db), begin(&db, false));
    lock(&mut one, "shared", LockMode::Shared).unwrap();
    lock(&mut two, "shared", LockMode::Shared).unwrap();
    {
        let mut upgrade = pin!(one.lock_async(db.default_cf(), "shared", LockMode::Exclusive));
        assert!(poll(upgrade.as_mut()).is_pending());
        assert!(db.deadlocks().is_empty());
        two.rollback();
        match poll(upgrade.as_mut()) {
            Poll::Ready(done) => done.unwrap(),
            Poll::Pending => panic!("the other holder is gone"),
        }
    }
    one.put("shared", "val").unwrap();
    one.commit().unwrap();
}

#[test]
fn a_cycle_of_any_length_is_a_deadlock_of_the_one_that_closes_it() {
    let db = open(true);
    for length in 2..9_usize {
        let mut all: Vec<Transaction> = (0..length).map(|_| patient(&db)).collect();
        let ids: Vec<u64> = all.iter().map(Transaction::id).collect();
        for (at, transaction) in all.iter_mut().enumerate() {
            lock(transaction, &at.to_string(), LockMode::Exclusive).unwrap();
        }
        let mut last = all.pop().unwrap();
        let mut waits = Vec::new();
        for (at, transaction) in all.iter_mut().enumerate() {
            let key = (at + 1).to_string();
            let wait = transaction.lock_async(db.default_cf(), key, LockMode::Exclusive);
            let mut wait = Box::pin(wait);
            assert!(poll(wait.as_mut()).is_pending());
            waits.push(wait);
        }
        let closes = lock(&mut last, "0", LockMode::Shared).unwrap_err();
        assert_eq!(closes.detail(), Some(ErrorDetail::Deadlock));
        let found = db.deadlocks();
        let path = &found[0].path;
        assert_eq!(path.len(), length);
        assert_eq!(path[0].transaction, ids[length - 1]);
        assert_eq!(path[0].mode, LockMode::Shared);
        assert!(
            path[1..]
                .iter()
                .all(|wait| wait.mode == LockMode::Exclusive)
        );
        // The others go on, one after the other, once it gives up.
        last.rollback();
        for mut wait in waits.into_iter().rev().take(1) {
            assert!(poll(wait.as_mut()).is_ready());
        }
    }
    assert_eq!(db.deadlocks().len(), 5);
}

#[test]
fn a_cycle_through_one_of_many_holders_is_a_deadlock() {
    let db = open(true);
    let mut root = patient(&db);
    lock(&mut root, "root", LockMode::Exclusive).unwrap();
    let mut leaves: Vec<Transaction> = (0..8).map(|_| patient(&db)).collect();
    for leaf in &mut leaves {
        lock(leaf, "leaf", LockMode::Shared).unwrap();
    }
    let mut wait = pin!(root.lock_async(db.default_cf(), "leaf", LockMode::Exclusive));
    assert!(poll(wait.as_mut()).is_pending());
    for leaf in &mut leaves {
        let closes = lock(leaf, "root", LockMode::Shared).unwrap_err();
        assert_eq!(closes.detail(), Some(ErrorDetail::Deadlock));
    }
    drop(leaves);
    assert!(poll(wait.as_mut()).is_ready());
}

#[test]
fn a_transaction_that_waits_too_long_leaves_nothing_behind() {
    let db = open(true);
    let mut holder = begin(&db, false);
    holder.put("k", "1").unwrap();
    let mut options = TransactionOptions::new();
    options.set_lock_timeout(1);
    for _ in 0..3 {
        let mut late = db.transaction_opt(&WriteOptions::new(), &options).unwrap();
        late.put("own", "1").unwrap();
        assert_eq!(kind(late.put("k", "2")), ErrorKind::TimedOut);
        assert_eq!(seen(&late, "k"), None);
        late.commit().unwrap();
    }
    holder.commit().unwrap();
    assert!(db.lock_status().is_empty());
}
