//! Transactions and prepared transactions behave like those of the original crate.

use rocksdb::{
    MultiThreaded, OptimisticTransactionDB, OptimisticTransactionOptions, Options, ReadOptions,
    Transaction, TransactionDB, TransactionDBOptions, TransactionOptions, WriteOptions,
};

type Db = TransactionDB<MultiThreaded>;

fn open_at(dir: &tempfile::TempDir) -> Db {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    let mut locks = TransactionDBOptions::default();
    locks.set_default_lock_timeout(1);
    locks.set_txn_lock_timeout(1);
    Db::open_cf(&options, &locks, dir.path(), ["other"]).unwrap()
}

fn opened() -> (tempfile::TempDir, Db) {
    let dir = tempfile::tempdir().unwrap();
    let db = open_at(&dir);
    (dir, db)
}

fn with_snapshot(db: &Db) -> Transaction<'_, Db> {
    let mut options = TransactionOptions::default();
    options.set_snapshot(true);
    db.transaction_opt(&WriteOptions::default(), &options)
}

/// Begins and prepares a transaction that sets `key`.
fn prepared<'db>(db: &'db Db, name: &[u8], key: &str) -> Transaction<'db, Db> {
    let transaction = db.transaction();
    transaction.put(key, "value").unwrap();
    transaction.set_name(name).unwrap();
    transaction.prepare().unwrap();
    transaction
}

fn operations<D>(transaction: &Transaction<'_, D>) -> usize {
    transaction.get_writebatch().len()
}

#[test]
fn a_rollback_keeps_the_snapshot_and_loses_no_update() {
    let (_dir, db) = opened();
    db.put("key", "0").unwrap();
    let transaction = with_snapshot(&db);
    transaction.put("mine", "1").unwrap();
    db.put("key", "1").unwrap();
    transaction.rollback().unwrap();
    db.put("mine", "2").unwrap();
    assert_eq!(transaction.snapshot().get("key").unwrap().unwrap(), b"0");
    assert!(transaction.put("key", "0+").is_err());

    let dir = tempfile::tempdir().unwrap();
    let db = OptimisticTransactionDB::<MultiThreaded>::open_default(dir.path()).unwrap();
    db.put("key", "0").unwrap();
    let mut options = OptimisticTransactionOptions::default();
    options.set_snapshot(true);
    let transaction = db.transaction_opt(&WriteOptions::default(), &options);
    db.put("key", "1").unwrap();
    transaction.rollback().unwrap();
    transaction.put("key", "0+").unwrap();
    assert!(transaction.commit().is_err());
}

#[test]
fn a_prepared_transaction_shows_its_writes() {
    let (dir, db) = opened();
    let transaction = prepared(&db, b"koel", "key");
    assert_eq!(operations(&transaction), 1);
    drop(transaction);
    drop(db);
    let db = open_at(&dir);
    let found = db.prepared_transactions();
    assert_eq!(operations(&found[0]), 1);
    found[0].rollback().unwrap();
    assert_eq!(operations(&found[0]), 0);
}

#[test]
fn a_dropped_prepared_transaction_can_be_asked_for_again() {
    let (_dir, db) = opened();
    drop(prepared(&db, b"koel", "key"));
    assert!(db.put("key", "other").is_err(), "it is still locked");
    let mut again = db.prepared_transactions();
    assert!(db.prepared_transactions().is_empty());
    assert_eq!(again[0].get_name().unwrap(), b"koel");
    again.pop().unwrap().commit().unwrap();
    assert!(db.prepared_transactions().is_empty());
    assert_eq!(db.get("key").unwrap().unwrap(), b"value");
    let undone = prepared(&db, b"koel", "key");
    undone.rollback().unwrap();
    drop(undone);
    assert!(db.prepared_transactions().is_empty());
    db.put("key", "other").unwrap();
}

#[test]
fn keys_of_several_families_are_read_in_the_latest_state() {
    let (_dir, db) = opened();
    let other = db.cf_handle("other").unwrap();
    db.create_cf("third", &Options::default()).unwrap();
    let third = db.cf_handle("third").unwrap();
    let transaction = with_snapshot(&db);
    db.put_cf(&other, "key", "later").unwrap();
    db.put_cf(&third, "key", "later").unwrap();
    let keys = [(&other, "key"), (&third, "key")];
    let values = transaction.multi_get_cf(keys);
    for value in values {
        assert_eq!(value.unwrap().unwrap(), b"later");
    }
    let mut options = ReadOptions::default();
    options.set_snapshot(&transaction.snapshot());
    for value in transaction.multi_get_cf_opt(keys, &options) {
        assert_eq!(value.unwrap(), None);
    }
}

#[test]
fn the_snapshot_of_a_transaction_without_one_replaces_another() {
    let (_dir, db) = opened();
    db.put("key", "0").unwrap();
    let earlier = db.snapshot();
    db.put("key", "1").unwrap();
    let transaction = db.transaction();
    let mut options = ReadOptions::default();
    options.set_snapshot(&earlier);
    options.set_snapshot(&transaction.snapshot());
    assert_eq!(db.get_opt("key", &options).unwrap().unwrap(), b"1");
}
