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

/// The text of the error of a call.
fn text<T>(result: Result<T, rocksdb::Error>) -> String {
    match result {
        Ok(_) => String::from("ok"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_prepared_transaction_can_be_read_and_written() {
    let (dir, db) = opened();
    let transaction = prepared(&db, b"koel", "key");
    assert_eq!(transaction.get("key").unwrap().unwrap(), b"value");
    transaction.put("key", "later").unwrap();
    transaction.put("new", "later").unwrap();
    assert!(
        db.put("new", "other").is_err(),
        "a later write locks its key"
    );
    assert_eq!(transaction.get("key").unwrap().unwrap(), b"later");
    assert_eq!(
        transaction.get_for_update("absent", true).unwrap(),
        None::<Vec<u8>>
    );
    assert_eq!(operations(&transaction), 3);
    transaction.set_savepoint();
    for (result, message) in [
        (transaction.prepare(), "has already been prepared."),
        (transaction.set_name(b"b"), "is beyond state for naming."),
        (
            transaction.rollback_to_savepoint(),
            "is beyond state for rollback.",
        ),
    ] {
        let expected = format!("Invalid argument: Transaction {message}");
        assert_eq!(text(result), expected);
    }
    transaction.commit().unwrap();
    for key in ["key", "new"] {
        assert_eq!(db.get(key).unwrap().unwrap(), b"later");
        db.put("absent", "unlocked").unwrap();
    }
    drop(db);
    let db = open_at(&dir);
    for key in ["key", "new"] {
        assert_eq!(db.get(key).unwrap().unwrap(), b"later");
    }
}

#[test]
fn a_rolled_back_prepared_transaction_can_be_neither_committed_nor_prepared() {
    let (_dir, db) = opened();
    let transaction = prepared(&db, b"koel", "key");
    transaction.put("new", "later").unwrap();
    transaction.rollback().unwrap();
    assert_eq!(transaction.get("key").unwrap(), None);
    db.put("new", "unlocked").unwrap();
    transaction.put("key", "again").unwrap();
    assert!(db.put("key", "other").is_err());
    assert_eq!(
        text(transaction.prepare()),
        "Invalid argument: Transaction has already been rolledback."
    );
    assert_eq!(
        text(transaction.rollback()),
        "Invalid argument: Two phase transaction is not in state for rollback."
    );
    assert_eq!(
        text(transaction.rollback_to_savepoint()),
        "Invalid argument: Transaction is beyond state for rollback."
    );
    assert_eq!(
        text(transaction.commit()),
        "Invalid argument: Transaction has already been rolledback."
    );
    db.put("key", "other").unwrap();
}

#[test]
fn a_recovered_transaction_can_be_read_and_written() {
    let (dir, db) = opened();
    drop(prepared(&db, b"koel", "key"));
    drop(db);
    let db = open_at(&dir);
    let mut found = db.prepared_transactions();
    let transaction = found.pop().unwrap();
    assert_eq!(transaction.get("key").unwrap().unwrap(), b"value");
    transaction.put("key", "later").unwrap();
    transaction.delete("other").unwrap();
    assert_eq!(
        transaction.iterator(rocksdb::IteratorMode::Start).count(),
        1
    );
    transaction.commit().unwrap();
    assert_eq!(db.get("key").unwrap().unwrap(), b"later");
    db.put("other", "unlocked").unwrap();
}

#[test]
fn names_of_transactions_are_unique_while_they_have_handles() {
    let (_dir, db) = opened();
    let first = db.transaction();
    first.set_name(b"koel").unwrap();
    let duplicate = "Invalid argument: Duplicate txn name koel";
    assert_eq!(text(db.transaction().set_name(b"koel")), duplicate);
    drop(first);
    drop(prepared(&db, b"koel", "key"));
    assert_eq!(text(db.transaction().set_name(b"koel")), duplicate);
    db.prepared_transactions().pop().unwrap().commit().unwrap();
    prepared(&db, b"koel", "key").commit().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let db = OptimisticTransactionDB::<MultiThreaded>::open_default(dir.path()).unwrap();
    let transaction = db.transaction();
    assert_eq!(
        text(transaction.set_name(b"koel")),
        "Invalid argument: Optimistic transactions cannot be named."
    );
    assert_eq!(
        text(transaction.prepare()),
        "Invalid argument: Two phase commit not supported for optimistic transactions."
    );
}

#[test]
fn an_iterator_of_a_transaction_meets_later_writes_ahead_of_it() {
    let (_dir, db) = opened();
    let transaction = db.transaction();
    transaction.put("b", "1").unwrap();
    let mut iterator = transaction.raw_iterator();
    iterator.seek_to_first();
    transaction.put("a", "too late").unwrap();
    transaction.put("c", "2").unwrap();
    assert_eq!(iterator.key(), Some(&b"b"[..]));
    iterator.next();
    assert_eq!(iterator.key(), Some(&b"c"[..]));
    transaction.delete("b").unwrap();
    iterator.prev();
    assert_eq!(iterator.key(), Some(&b"a"[..]));
    assert_eq!(
        text(iterator.refresh()),
        "Not implemented: Refresh() is not supported"
    );
}
