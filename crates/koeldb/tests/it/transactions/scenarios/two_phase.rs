//! Two-phase commits through names, expiry, flushes and crashes.

use std::sync::Arc;

use koeldb::fs::{MemoryFileSystem, SurvivalPolicy, SystemClock};
use koeldb::{ColumnFamily, WriteBatch};

use super::*;

fn options_on(fs: &MemoryFileSystem) -> Options {
    let mut options = options(true);
    options
        .create_missing_column_families(true)
        .set_env(&Env::new(Arc::new(fs.clone()), Arc::new(SystemClock)));
    options
}

fn open_on(fs: &MemoryFileSystem) -> (Db, ColumnFamily) {
    let (db, [other]) = Db::open_cf(&options_on(fs), "/two-phase", ["other"]).unwrap();
    (db, other)
}

/// Returns the file system as a power cut leaves it.
fn crashed(fs: &MemoryFileSystem) -> MemoryFileSystem {
    fs.crash_image(SurvivalPolicy::Strict, 0)
}

fn synced() -> WriteOptions {
    let mut options = WriteOptions::new();
    options.set_sync(true);
    options
}

fn begin_synced(db: &Db) -> Transaction {
    db.transaction_opt(&synced(), &TransactionOptions::new())
        .unwrap()
}

#[test]
fn a_name_has_1_to_512_bytes_and_is_unique() {
    let db = open(true);
    for name in [String::new(), "x".repeat(513)] {
        let mut transaction = begin(&db, false);
        transaction.put("k", "v").unwrap();
        assert_eq!(kind(transaction.prepare(name)), ErrorKind::InvalidArgument);
    }
    let first = begin(&db, false).prepare("name1").unwrap();
    assert_eq!(
        kind(begin(&db, false).prepare("name1")),
        ErrorKind::InvalidArgument
    );
    let second = begin(&db, false).prepare("x".repeat(512)).unwrap();
    assert_eq!(db.prepared_transactions().len(), 2);
    assert_eq!(first.name(), b"name1");
    first.rollback().unwrap();
    second.rollback().unwrap();
    // A decided one gives its name back.
    begin(&db, false)
        .prepare("name1")
        .unwrap()
        .commit()
        .unwrap();
}

#[test]
fn a_prepared_transaction_is_found_by_its_name_until_it_is_decided() {
    let fs = MemoryFileSystem::new();
    let (db, other) = open_on(&fs);
    let mut transaction = begin(&db, false);
    transaction.put("foo", "bar").unwrap();
    db.put("foo2", "bar2").unwrap();
    let prepared = transaction.prepare("xid").unwrap();
    assert_eq!(value(&db, "foo"), None);
    assert_eq!(db.prepared_transaction("xid").unwrap().name(), b"xid");
    let mut batch = WriteBatch::new();
    batch.put_cf(&other, "gtid", "dogs");
    prepared.commit_with(&batch, &WriteOptions::new()).unwrap();
    assert_eq!(value(&db, "foo").as_deref(), Some("bar"));
    assert!(db.prepared_transaction("xid").is_none());
    db.flush().unwrap();
    // The batch of the commit is visible as soon as the commit is, and after a crash.
    let (db, other) = open_on(&crashed(&fs));
    assert_eq!(other.get("gtid").unwrap().as_deref(), Some(&b"dogs"[..]));
    assert_eq!(value(&db, "foo").as_deref(), Some("bar"));
}

#[test]
fn empty_transactions_are_prepared_and_committed() {
    let fs = MemoryFileSystem::new();
    let (db, other) = open_on(&fs);
    db.write(&WriteBatch::new()).unwrap();
    db.write(&WriteBatch::new()).unwrap();
    begin_synced(&db).prepare("joe").unwrap().commit().unwrap();
    let prepared = begin_synced(&db).prepare("bob").unwrap();
    let mut batch = WriteBatch::new();
    batch.put_cf(&other, "foo", "bar");
    prepared.commit_with(&batch, &synced()).unwrap();
    let mut transaction = begin_synced(&db);
    transaction.put("foo0", "bar0").unwrap();
    transaction.prepare("left").unwrap();
    let (db, other) = open_on(&crashed(&fs));
    assert_eq!(other.get("foo").unwrap().as_deref(), Some(&b"bar"[..]));
    assert_eq!(db.prepared_transactions().len(), 1);
    db.prepared_transaction("left").unwrap().commit().unwrap();
    assert_eq!(value(&db, "foo0").as_deref(), Some("bar0"));
}

#[test]
fn a_prepared_transaction_does_not_expire() {
    let db = open(true);
    let mut options = TransactionOptions::new();
    options.set_expiration(1);
    let begin = || db.transaction_opt(&WriteOptions::new(), &options).unwrap();
    // A slow machine may let it expire before it is prepared.
    let prepared = loop {
        match begin().prepare("joe") {
            Ok(prepared) => break prepared,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Expired, "{error}"),
        }
    };
    let late = begin();
    let mut waiter = begin();
    while waiter.put("k", "1").is_ok() {}
    assert_eq!(kind(late.prepare("bob")), ErrorKind::Expired);
    prepared.commit().unwrap();
}

#[test]
fn a_rollback_of_a_prepared_transaction_is_final_across_logs() {
    let fs = MemoryFileSystem::new();
    let (db, _) = open_on(&fs);
    let mut transaction = begin_synced(&db);
    transaction.put("tfoo", "tbar").unwrap();
    transaction.clear();
    assert_eq!(seen(&transaction, "tfoo"), None);
    transaction.put("tfoo2", "tbar2").unwrap();
    let prepared = transaction.prepare("xid").unwrap();
    db.put("foo", "bar").unwrap();
    db.flush().unwrap();
    prepared.rollback().unwrap();
    assert_eq!(value(&db, "tfoo2"), None);
    assert_eq!(kind(prepared.commit()), ErrorKind::InvalidArgument);
    let (db, _) = open_on(&crashed(&fs));
    assert_eq!(value(&db, "tfoo2"), None);
    assert!(db.prepared_transactions().is_empty());
}

#[test]
fn a_prepared_transaction_survives_many_crashes_and_logs() {
    let mut fs = MemoryFileSystem::new();
    let (db, _) = open_on(&fs);
    let mut transaction = begin_synced(&db);
    transaction.put("foo", "bar").unwrap();
    transaction.prepare("bob").unwrap();
    drop(db);
    for round in 0..12 {
        let (db, other) = open_on(&fs);
        for at in 0..5 {
            let mut batch = WriteBatch::new();
            batch.put(format!("key{round}-{at}"), vec![b'v'; 1000]);
            db.write_opt(&batch, &synced()).unwrap();
        }
        match round % 4 {
            0 => db.flush().unwrap(),
            1 => other.put("x", "1").and_then(|()| other.flush()).unwrap(),
            2 => db.close().unwrap(),
            _ => {}
        }
        fs = crashed(&fs);
    }
    let (db, _) = open_on(&fs);
    let error = db.put("foo", "theirs").unwrap_err();
    assert_eq!(error.detail(), Some(ErrorDetail::LockTimeout));
    db.prepared_transaction("bob").unwrap().commit().unwrap();
    let mut next = begin_synced(&db);
    next.put("foo2", "bar2").unwrap();
    next.prepare("b").unwrap().commit().unwrap();
    let (db, _) = open_on(&crashed(&fs));
    assert_eq!(value(&db, "foo").as_deref(), Some("bar"));
    assert_eq!(value(&db, "foo2").as_deref(), Some("bar2"));
    for round in 0..12 {
        for at in 0..5 {
            assert!(db.get(format!("key{round}-{at}")).unwrap().is_some());
        }
    }
}

#[test]
fn writes_without_the_log_beside_a_prepared_transaction_keep_their_order() {
    let fs = MemoryFileSystem::new();
    let (db, _) = open_on(&fs);
    let mut without_log = WriteOptions::new();
    without_log.disable_wal(true);
    let put = |key: &str, text: &str, options: &WriteOptions| {
        let mut batch = WriteBatch::new();
        batch.put(key, text);
        db.write_opt(&batch, options).unwrap();
    };
    put("first", "first", &synced());
    let mut transaction = begin_synced(&db);
    transaction.put("dummy", "dummy").unwrap();
    transaction.prepare("1").unwrap();
    for text in ["dogs1", "dogs2", "dogs3"] {
        put("cats", text, &without_log);
    }
    db.flush().unwrap();
    put("cats", "dogs4", &synced());
    let (db, _) = open_on(&crashed(&fs));
    assert_eq!(value(&db, "first").as_deref(), Some("first"));
    assert_eq!(value(&db, "cats").as_deref(), Some("dogs4"));
    assert_eq!(db.prepared_transactions().len(), 1);
}

#[test]
fn a_flush_between_prepare_and_commit_loses_neither() {
    let fs = MemoryFileSystem::new();
    let (db, other) = open_on(&fs);
    let mut names = Vec::new();
    for at in 0..40 {
        let mut transaction = begin_synced(&db);
        transaction.put(format!("foo{at}"), "bar").unwrap();
        let prepared = transaction.prepare(format!("xid{at}")).unwrap();
        match at % 5 {
            0 => names.push(format!("xid{at}")),
            1 => {
                let mut batch = WriteBatch::new();
                batch.put_cf(&other, "gtid", format!("{at}"));
                prepared.commit_with(&batch, &synced()).unwrap();
            }
            _ => drop(prepared.commit().unwrap()),
        }
        db.put("other", "1").unwrap();
        db.flush().unwrap();
    }
    for name in names {
        db.prepared_transaction(&name).unwrap().commit().unwrap();
    }
    // No log is kept for decided transactions.
    db.put("other", "2").unwrap();
    db.flush().unwrap();
    assert!(db.prepared_transactions().is_empty());
    let (db, other) = open_on(&crashed(&fs));
    for at in 0..40 {
        assert_eq!(value(&db, &format!("foo{at}")).as_deref(), Some("bar"));
    }
    assert_eq!(other.get("gtid").unwrap().as_deref(), Some(&b"36"[..]));
}

#[test]
fn a_commit_without_prepare_is_refused_where_it_is_not_permitted() {
    let db = open(true);
    let mut options = TransactionOptions::new();
    options.set_skip_prepare(false);
    let mut transaction = db.transaction_opt(&WriteOptions::new(), &options).unwrap();
    transaction.put("k", "v").unwrap();
    let error = transaction.commit().unwrap_err();
    assert_eq!(error.detail(), Some(ErrorDetail::NotPrepared));
    assert_eq!(value(&db, "k"), None);
    assert!(db.lock_status().is_empty());
}

#[test]
fn a_read_never_sees_a_part_of_a_commit() {
    let db = open(true);
    db.put("key", "value").unwrap();
    std::thread::scope(|scope| {
        let committer = scope.spawn(|| {
            for _ in 0..100 {
                let mut transaction = begin(&db, false);
                transaction.put("key", "overridden").unwrap();
                transaction.put("key", "value").unwrap();
                transaction.prepare("xid").unwrap().commit().unwrap();
            }
        });
        while !committer.is_finished() {
            assert_eq!(value(&db, "key").as_deref(), Some("value"));
        }
    });
}
