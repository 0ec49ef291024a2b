//! Transactions on keys with user-defined timestamps.

use std::path::Path;

use koeldb::{
    BatchEntry, Db, Env, ErrorDetail, ErrorKind, Options, Transaction, TransactionDbOptions,
    WriteBatch, WriteOutcome,
};

use super::{at, get, options, read_at, scan};
use crate::rocksdb::Java;
use crate::scratch::ScratchDir;

fn for_transactions(env: &Env) -> Options {
    let mut options = options(env);
    let mut locks = TransactionDbOptions::new();
    locks.set_transaction_lock_timeout(0);
    options.set_transactions(&locks);
    options
}

fn open() -> Db {
    Db::open(&for_transactions(&Env::mem_env()), "/db").unwrap()
}

/// Commits a put at a timestamp.
fn put(db: &Db, key: &str, time: u64, value: &str) {
    let mut transaction = db.transaction();
    transaction.put(key, value).unwrap();
    transaction.set_commit_timestamp(time).unwrap();
    transaction.commit().unwrap();
}

fn refused<T: std::fmt::Debug>(outcome: koeldb::Result<T>, kind: ErrorKind) {
    let error = outcome.unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert_eq!(error.write_outcome(), Some(WriteOutcome::NotApplied));
}

fn key_of(entry: BatchEntry<'_>) -> Vec<u8> {
    match entry {
        BatchEntry::Put { key, .. }
        | BatchEntry::Merge { key, .. }
        | BatchEntry::Delete { key, .. } => key.to_vec(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn all_writes_of_a_transaction_get_the_timestamp_of_its_commit() {
    let db = open();
    let family = db.default_cf();
    put(&db, "old", 1, "old");
    let mut transaction = db.transaction();
    transaction.put("k", "v").unwrap();
    transaction.merge("m", "1").unwrap();
    transaction.set_save_point();
    transaction.put("undone", "v").unwrap();
    transaction.rollback_to_save_point().unwrap();
    transaction.merge("m", "2").unwrap();
    transaction.delete("old").unwrap();
    // Its own writes are newer than every timestamp.
    let value = |key: &str| {
        let found = transaction.get_opt(family, key, &read_at(1)).unwrap();
        found.map(|value| String::from_utf8(value.to_vec()).unwrap())
    };
    assert_eq!(value("k").as_deref(), Some("v"));
    assert_eq!(value("m").as_deref(), Some("1,2"));
    assert_eq!(value("old"), None);
    let error = transaction.get("k").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let mut cursor = transaction.cursor_opt(family, &read_at(1));
    let mut keys = Vec::new();
    let mut found = cursor.seek_to_first().unwrap();
    while found {
        keys.push(String::from_utf8(cursor.key().unwrap().to_vec()).unwrap());
        found = cursor.next().unwrap();
    }
    assert_eq!(keys, ["k", "m"]);
    let mut seen = Vec::new();
    transaction.batch().entries(family, |entry| {
        seen.push(key_of(entry));
    });
    assert_eq!(seen, [&b"k"[..], b"m", b"m", b"old"]);
    refused(
        transaction.set_commit_timestamp(u64::MAX),
        ErrorKind::InvalidArgument,
    );
    transaction.set_commit_timestamp(5).unwrap();
    transaction.commit().unwrap();
    super::in_all_places(&db, |db| {
        assert_eq!(scan(db, &read_at(4)), ["old@1=old"]);
        assert_eq!(scan(db, &read_at(5)), ["k@5=v", "m@5=1,2"]);
    });

    let mut transaction = db.transaction();
    transaction.put("k", "lost").unwrap();
    refused(transaction.commit(), ErrorKind::InvalidArgument);
    assert_eq!(get(&db, "k", u64::MAX).as_deref(), Some("v"));
}

#[test]
fn only_transactions_write_such_keys_of_a_database_for_transactions() {
    let db = open();
    let family = db.default_cf();
    refused(family.put_with_ts("k", at(1), "v"), ErrorKind::NotSupported);
    let mut batch = WriteBatch::new();
    batch.delete_cf_with_ts(family, "k", at(1));
    refused(db.write(&batch), ErrorKind::NotSupported);
    let optimistic = Db::open(&options(&Env::mem_env()), "/db").unwrap();
    refused(
        optimistic.transaction().put("k", "v"),
        ErrorKind::NotSupported,
    );
}

#[test]
fn a_version_above_the_read_timestamp_is_a_conflict() {
    for is_flushed in [false, true] {
        let db = open();
        let family = db.default_cf();
        put(&db, "k", 3, "3");
        put(&db, "k", 7, "7");
        if is_flushed {
            db.flush().unwrap();
        }
        let reading_at = |time: u64| -> Transaction {
            let mut transaction = db.transaction();
            transaction.set_read_timestamp_for_validation(time).unwrap();
            transaction
        };
        let conflicts = |outcome: koeldb::Result<()>| {
            let error = outcome.unwrap_err();
            assert_eq!(error.detail(), Some(ErrorDetail::WriteConflict), "{error}");
        };
        conflicts(reading_at(5).get_for_update("k").map(drop));
        conflicts(reading_at(5).put("k", "v"));
        reading_at(5).put_untracked(family, "k", "v").unwrap();
        let mut transaction = reading_at(7);
        let found = transaction.get_for_update("k").unwrap();
        assert_eq!(found.as_deref(), Some(&b"7"[..]));
        refused(
            transaction.set_commit_timestamp(7),
            ErrorKind::InvalidArgument,
        );
        refused(
            transaction.set_read_timestamp_for_validation(6),
            ErrorKind::InvalidArgument,
        );
        let other =
            transaction.get_for_update_opt(family, "k", &read_at(6), koeldb::LockMode::Exclusive);
        refused(other, ErrorKind::InvalidArgument);
        transaction.put("k", "8").unwrap();
        transaction.set_commit_timestamp(8).unwrap();
        transaction.commit().unwrap();
        assert_eq!(get(&db, "k", 8).as_deref(), Some("8"));

        // Without a read timestamp there is nothing to validate by.
        refused(
            db.transaction().get_for_update("k"),
            ErrorKind::InvalidArgument,
        );
        // A snapshot still counts.
        let mut transaction = db.transaction();
        transaction.set_snapshot();
        put(&db, "k", 9, "9");
        conflicts(transaction.put("k", "v"));
    }
}

#[test]
fn validation_by_timestamps_can_be_turned_off() {
    let mut options = for_transactions(&Env::mem_env());
    let mut locks = TransactionDbOptions::new();
    locks.set_enable_udt_validation(false);
    options.set_transactions(&locks);
    let db = Db::open(&options, "/db").unwrap();
    put(&db, "k", 7, "7");
    let mut transaction = db.transaction();
    let found = transaction.get_for_update("k").unwrap();
    assert_eq!(found.as_deref(), Some(&b"7"[..]));
    transaction.set_read_timestamp_for_validation(5).unwrap();
    refused(transaction.get_for_update("k"), ErrorKind::InvalidArgument);
    transaction.put("k", "5").unwrap();
}

#[test]
fn a_prepared_transaction_is_committed_at_a_timestamp_also_after_a_crash() {
    let dir = ScratchDir::new();
    let open = || Db::open(&for_transactions(&Env::default()), dir.join("db")).unwrap();
    let db = open();
    let prepare = |name: &str| {
        let mut transaction = db.transaction();
        transaction.put(name, name).unwrap();
        transaction.prepare(name).unwrap()
    };
    let one = prepare("one");
    refused(one.commit(), ErrorKind::InvalidArgument);
    one.set_commit_timestamp(5).unwrap();
    one.commit().unwrap();
    assert_eq!(get(&db, "one", 4), None);
    assert_eq!(get(&db, "one", 5).as_deref(), Some("one"));
    prepare("two");
    prepare("three").rollback().unwrap();
    prepare("four");
    let mut updates = db.get_updates_since(0).unwrap();
    let update = updates.next().unwrap().unwrap();
    let first = update.batch.iter().next().unwrap().unwrap();
    assert_eq!(key_of(first), [b"one", &at(5)[..]].concat());
    drop((one, updates, db));

    let db = open();
    assert_eq!(get(&db, "one", 4), None);
    assert_eq!(scan(&db, &read_at(5)), ["one@5=one"]);
    let [four, two] = &db.prepared_transactions()[..] else {
        panic!("{:?}", db.prepared_transactions());
    };
    assert_eq!((four.name(), two.name()), (&b"four"[..], &b"two"[..]));
    let error = db.transaction().put("two", "v").unwrap_err();
    assert_eq!(error.detail(), Some(ErrorDetail::LockTimeout), "{error}");
    two.set_commit_timestamp(8).unwrap();
    two.commit().unwrap();
    four.rollback().unwrap();
    for is_again in [false, true] {
        assert_eq!(scan(&db, &read_at(7)), ["one@5=one"], "{is_again}");
        assert_eq!(scan(&db, &read_at(8)), ["one@5=one", "two@8=two"]);
        if !is_again {
            db.flush().unwrap();
        }
    }
    put(&db, "two", 9, "nine");
}

const COMPARATOR: &str = "leveldb.BytewiseComparator.u64ts";

/// What RocksDB reads at these timestamps.
fn read_by_rocksdb(java: &Java, dir: &Path, times: &[&str]) -> String {
    let arguments = [&[COMPARATOR], times].concat();
    java.timestamps("read-transactions", dir, &arguments)
}

#[test]
fn rocksdb_replays_commits_with_timestamps_and_its_prepared_ones_are_committed_here() {
    let Some(java) = Java::find() else { return };
    let dir = ScratchDir::new();
    let path = dir.join("db");
    let left = java.timestamps("prepare", &path, &[COMPARATOR, "theirs", "key", "value"]);
    assert_eq!(left, "prepared\n");
    let db = Db::open(&for_transactions(&Env::default()), &path).unwrap();
    let theirs = db.prepared_transaction("theirs").unwrap();
    refused(theirs.commit(), ErrorKind::InvalidArgument);
    theirs.set_commit_timestamp(300).unwrap();
    theirs.commit().unwrap();
    assert_eq!(get(&db, "key", 299), None);
    assert_eq!(get(&db, "key", 300).as_deref(), Some("value"));
    let mut transaction = db.transaction();
    transaction.put("ours", "prepared").unwrap();
    let prepared = transaction.prepare("ours").unwrap();
    prepared.set_commit_timestamp(400).unwrap();
    prepared.commit().unwrap();
    put(&db, "alone", 500, "committed");
    drop((theirs, prepared, db));
    let found = read_by_rocksdb(java, &path, &["299", "300", "400", "500"]);
    let expected = [
        "entry\t300\tkey\tvalue",
        "entry\t400\tkey\tvalue",
        "entry\t400\tours\tprepared",
        "entry\t500\talone\tcommitted",
        "entry\t500\tkey\tvalue",
        "entry\t500\tours\tprepared",
    ];
    let mut found: Vec<&str> = found.lines().collect();
    found.sort_unstable();
    assert_eq!(found, expected);
}
