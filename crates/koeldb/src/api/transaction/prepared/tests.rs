//! Prepared transactions through closes, crashes, flushes and failures.

mod races;

use std::sync::Arc;

use koeldb_base::merge_operator::StringAppend;
use koeldb_fs::{
    Failure, FaultFileSystem, FaultRule, MemoryFileSystem, Purpose, SurvivalPolicy, SystemClock,
};

use crate::{
    ColumnFamily, ColumnFamilyDescriptor, ColumnFamilyOptions, Db, Env, ErrorDetail, ErrorKind,
    Options, Result, TransactionDbOptions, TransactionOptions, WriteBatch, WriteOptions,
    WriteOutcome,
};

const PATH: &str = "/prepared";

fn options(fs: &MemoryFileSystem) -> Options {
    let mut locks = TransactionDbOptions::new();
    locks
        .set_default_lock_timeout(0)
        .set_transaction_lock_timeout(0);
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .create_missing_column_families(true)
        .set_merge_operator(StringAppend::default())
        .set_transactions(&locks)
        .set_env(&Env::new(Arc::new(fs.clone()), Arc::new(SystemClock)));
    options
}

fn open_as(options: &Options) -> Result<(Db, ColumnFamily)> {
    let mut other = ColumnFamilyOptions::new();
    other.set_merge_operator(StringAppend::default());
    let family = ColumnFamilyDescriptor::new("other", other);
    let (db, [family]) = Db::open_cf(options, PATH, [family])?;
    Ok((db, family))
}

fn open(fs: &MemoryFileSystem) -> (Db, ColumnFamily) {
    open_as(&options(fs)).unwrap()
}

fn synced() -> WriteOptions {
    let mut options = WriteOptions::new();
    options.set_sync(true);
    options
}

fn prepare(db: &Db, name: &str, key: &str, value: &str) {
    let mut transaction = db
        .transaction_opt(&synced(), &TransactionOptions::new())
        .unwrap();
    transaction.put(key, value).unwrap();
    transaction.prepare(name).unwrap();
}

#[test]
fn a_prepared_transaction_waits_locked_and_unseen_for_its_decision() {
    let fs = MemoryFileSystem::new();
    for is_reopened in [false, true] {
        for commits in [false, true] {
            let (mut db, mut other) = open(&fs);
            let before = db.get("k").unwrap().map(|value| value.to_vec());
            prepare(&db, "t", "k", "new");
            if is_reopened {
                db.close().unwrap();
                drop((db, other));
                (db, other) = open(&fs);
            }
            assert_eq!(db.get("k").unwrap().map(|value| value.to_vec()), before);
            let error = db.put("k", "2").unwrap_err();
            assert_eq!(error.detail(), Some(ErrorDetail::LockTimeout));
            assert!(db.prepared_transaction("u").is_none());
            let prepared = db.prepared_transaction("t").unwrap();
            assert_eq!(
                (prepared.name(), prepared.operation_count()),
                (&b"t"[..], 1)
            );
            let mut again = db.transaction();
            again.put("other", "1").unwrap();
            let error = again.prepare("t").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            if commits {
                let mut batch = WriteBatch::new();
                batch.put_cf(&other, "time", "1");
                let seqno = prepared.commit_with(&batch, &WriteOptions::new()).unwrap();
                assert_eq!(prepared.commit().unwrap(), seqno);
                assert_eq!(
                    prepared.rollback().unwrap_err().kind(),
                    ErrorKind::InvalidArgument
                );
                assert_eq!(db.get("k").unwrap().as_deref(), Some(&b"new"[..]));
                assert!(other.get("time").unwrap().is_some());
            } else {
                prepared.rollback().unwrap();
                prepared.rollback().unwrap();
                assert_eq!(
                    prepared.commit().unwrap_err().kind(),
                    ErrorKind::InvalidArgument
                );
            }
            assert!(db.prepared_transactions().is_empty() && db.lock_status().is_empty());
            db.put("k", "after").unwrap();
        }
    }
}

#[test]
fn a_database_without_such_transactions_refuses_them_by_name() {
    let fs = MemoryFileSystem::new();
    let (db, _) = open(&fs);
    prepare(&db, "koel", "k", "v");
    drop(db);
    let mut plain = Options::new();
    plain.set_env(&Env::new(Arc::new(fs.clone()), Arc::new(SystemClock)));
    let error = open_as(&plain).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported);
    assert!(error.message().contains("'koel' is prepared"), "{error}");
    // Readers list it.
    let mut builder = Db::builder(&plain);
    let reader = builder.read_only().open(PATH).unwrap();
    assert_eq!(reader.prepared_transactions().len(), 1);
    assert!(reader.prepared_transactions()[0].commit().is_err());
    drop(reader);
    let (db, _) = open(&fs);
    db.prepared_transaction("koel").unwrap().commit().unwrap();
    drop(db);
    let (db, _) = open_as(&plain).unwrap();
    assert_eq!(db.get("k").unwrap().as_deref(), Some(&b"v"[..]));
    assert_eq!(
        db.transaction().prepare("t").unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
}

/// A commit whose log failed stands: it takes effect when writes resume, exactly once.
#[test]
fn a_decision_that_failed_takes_effect_when_writes_resume() {
    for commits in [false, true] {
        for is_crash in [false, true] {
            let fs = MemoryFileSystem::new();
            let faults = Arc::new(FaultFileSystem::new(Arc::new(fs.clone()), 1));
            let mut options = options(&fs);
            options
                .set_max_bgerror_resume_count(0)
                .set_env(&Env::new(faults.clone(), Arc::new(SystemClock)));
            let (db, _) = open_as(&options).unwrap();
            db.merge("k", "0").unwrap();
            let mut transaction = db.transaction();
            transaction.merge("k", "1").unwrap();
            let prepared = transaction.prepare("t").unwrap();
            prepare(&db, "u", "waits", "v");
            faults.add_rule(FaultRule::fail(Failure::Device).purpose(Purpose::Wal));
            let error = match commits {
                true => prepared.commit().unwrap_err(),
                false => prepared.rollback().unwrap_err(),
            };
            assert_eq!(error.write_outcome(), Some(WriteOutcome::Indeterminate));
            assert_eq!(prepared.commit().unwrap_err().kind(), ErrorKind::Busy);
            assert_eq!(db.get("k").unwrap().as_deref(), Some(&b"0"[..]));
            faults.clear_rules();
            db.resume().unwrap();
            let value = if commits { "0,1" } else { "0" };
            let check = |db: &Db| {
                assert_eq!(db.get("k").unwrap().as_deref(), Some(value.as_bytes()));
                let undecided = db.prepared_transactions();
                assert_eq!(undecided.len(), 1);
                assert_eq!(undecided[0].name(), b"u");
            };
            check(&db);
            db.merge("k", "2").unwrap_or_else(|error| panic!("{error}"));
            let left = match is_crash {
                true => fs.crash_image(SurvivalPolicy::Strict, 0),
                false => {
                    db.close().unwrap();
                    fs.clone()
                }
            };
            drop((prepared, db));
            let (db, _) = open(&left);
            if is_crash {
                check(&db);
            }
        }
    }
}

/// The keys of writes after a prepare are locked as long as the commit may still take effect.
#[test]
fn a_commit_that_stands_keeps_the_locks_of_writes_after_the_prepare() {
    let faults = Arc::new(FaultFileSystem::new(Arc::new(MemoryFileSystem::new()), 1));
    let mut options = options(&MemoryFileSystem::new());
    options
        .set_max_bgerror_resume_count(0)
        .set_env(&Env::new(faults.clone(), Arc::new(SystemClock)));
    let (db, _) = open_as(&options).unwrap();
    db.put("n", "0").unwrap();
    let mut transaction = db.transaction();
    transaction.put("k", "1").unwrap();
    transaction.prepare_in_place("t").unwrap();
    transaction.put("n", "1").unwrap();
    faults.add_rule(FaultRule::fail(Failure::Device).purpose(Purpose::Wal));
    let error = transaction.commit().unwrap_err();
    assert_eq!(error.write_outcome(), Some(WriteOutcome::Indeterminate));
    let mut other = db.transaction();
    let error = other.get_for_update("n").unwrap_err();
    assert_eq!(error.detail(), Some(ErrorDetail::LockTimeout));
    faults.clear_rules();
    db.resume().unwrap();
    assert_eq!(
        other.get_for_update("n").unwrap().as_deref(),
        Some(&b"1"[..])
    );
    drop(other);
    assert!(db.lock_status().is_empty());
}

#[test]
fn a_transaction_prepared_in_place_is_empty_after_its_commit() {
    let (db, _) = open(&MemoryFileSystem::new());
    let mut transaction = db.transaction();
    for name in ["one", "two"] {
        transaction.put("k", name).unwrap();
        transaction.prepare_in_place(name).unwrap();
        transaction.put("l", name).unwrap();
        transaction.try_commit().unwrap();
        assert!(transaction.batch().is_empty() && transaction.prepared().is_none());
        assert!(db.lock_status().is_empty());
        assert_eq!(db.get("l").unwrap().as_deref(), Some(name.as_bytes()));
    }
}

#[test]
fn a_transaction_that_was_cleared_shares_no_locks_with_what_it_prepared() {
    let (db, _) = open(&MemoryFileSystem::new());
    let mut transaction = db.transaction();
    transaction.put("k", "1").unwrap();
    let prepared = transaction.prepare_in_place("t").unwrap();
    transaction.clear();
    let error = transaction.put("k", "2").unwrap_err();
    assert_eq!(error.detail(), Some(ErrorDetail::LockTimeout));
    transaction.put("l", "2").unwrap();
    transaction.try_commit().unwrap();
    assert!(db.put("k", "3").is_err());
    prepared.commit().unwrap();
    assert_eq!(db.get("k").unwrap().as_deref(), Some(&b"1"[..]));
    assert!(db.lock_status().is_empty());
}

#[test]
fn a_prepared_transaction_whose_operations_were_removed_is_not_committed() {
    let (db, _) = open(&MemoryFileSystem::new());
    let mut transaction = db.transaction();
    transaction.set_save_point();
    transaction.put("k", "1").unwrap();
    let prepared = transaction.prepare_in_place("t").unwrap();
    transaction.batch_mut().rollback_to_save_point().unwrap();
    transaction.batch_mut().put("k", "2");
    let error = transaction.try_commit().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert_eq!(error.write_outcome(), Some(WriteOutcome::NotApplied));
    assert_eq!(db.get("k").unwrap(), None);
    transaction.clear();
    prepared.commit().unwrap();
    assert_eq!(db.get("k").unwrap().as_deref(), Some(&b"1"[..]));
    assert!(db.lock_status().is_empty());
}

/// A decision is synced if the writes of the transaction are, and always after a recovery.
#[test]
fn an_acknowledged_decision_survives_a_crash() {
    for is_recovered in [false, true] {
        for commits in [false, true] {
            let fs = MemoryFileSystem::new();
            let (mut db, _) = open(&fs);
            let mut transaction = db
                .transaction_opt(&synced(), &TransactionOptions::new())
                .unwrap();
            transaction.put("k", "v").unwrap();
            let mut prepared = transaction.prepare("t").unwrap();
            let batch = prepared.batch();
            assert_eq!((batch.len(), prepared.operation_count()), (1, 1));
            if is_recovered {
                db.close().unwrap();
                db = open(&fs).0;
                prepared = db.prepared_transaction("t").unwrap();
                assert_eq!(prepared.batch().data(), batch.data());
            }
            match commits {
                true => assert!(prepared.commit().unwrap() > 0),
                false => prepared.rollback().unwrap(),
            }
            let (left, _) = open(&fs.crash_image(SurvivalPolicy::Strict, 0));
            let expected = commits.then_some(&b"v"[..]);
            assert_eq!(left.get("k").unwrap().as_deref(), expected);
            assert!(left.prepared_transactions().is_empty());
        }
    }
}
