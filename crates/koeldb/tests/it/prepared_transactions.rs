//! Prepared transactions left by RocksDB are decided here, and ours by RocksDB.

use std::collections::BTreeSet;
use std::path::Path;

use koeldb::{ColumnFamily, Db, Options, TransactionDbOptions, TransactionOptions, WriteOptions};

use crate::rocksdb::Java;
use crate::scratch::ScratchDir;

fn open(dir: &Path) -> (Db, ColumnFamily) {
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .create_missing_column_families(true)
        .set_transactions(&TransactionDbOptions::new());
    let (db, [other]) = Db::open_cf(&options, dir, ["other"]).unwrap();
    (db, other)
}

fn names(db: &Db) -> Vec<String> {
    let all = db.prepared_transactions();
    let name = |name: &[u8]| String::from_utf8(name.to_vec()).unwrap();
    all.iter()
        .map(|transaction| name(transaction.name()))
        .collect()
}

/// The content as `Prepared.java` prints it.
fn content(db: &Db, other: &ColumnFamily) -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    for family in [db.default_cf(), other] {
        for entry in family.range(..) {
            let (key, value) = entry.unwrap();
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            lines.insert(format!(
                "entry\t{}\t{}\t{}",
                family.name(),
                text(&key),
                text(&value)
            ));
        }
    }
    lines
}

/// The content after `one` was decided, among the others that `Prepared.java` leaves.
fn expected(committed: &[&str]) -> BTreeSet<String> {
    let mut lines = BTreeSet::from([
        "entry\tdefault\tplain\t2".to_owned(),
        "entry\tother\tplain\t1".to_owned(),
    ]);
    for name in committed {
        for family in ["default", "other"] {
            lines.insert(format!("entry\t{family}\t{name}\tvalue"));
        }
    }
    lines
}

/// Copies a directory as the death of its process would leave it.
fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

fn prepare(db: &Db, other: &ColumnFamily, name: &str) -> koeldb::PreparedTransaction {
    let mut synced = WriteOptions::new();
    synced.set_sync(true);
    let mut transaction = db
        .transaction_opt(&synced, &TransactionOptions::new())
        .unwrap();
    transaction.put(name, "value").unwrap();
    transaction.put_cf(other, name, "value").unwrap();
    transaction.prepare(name).unwrap()
}

#[test]
fn rocksdbs_prepared_transactions_are_decided_here() {
    let Some(java) = Java::find() else {
        return;
    };
    for how in ["close", "kill"] {
        let dir = ScratchDir::new();
        java.prepared("leave", dir.path(), &[how]);
        let (db, other) = open(dir.path());
        assert_eq!(names(&db), ["one", "two"], "{how}");
        assert_eq!(content(&db, &other), expected(&["three"]), "{how}");
        assert!(db.put("one", "locked").is_err());
        db.prepared_transaction("one").unwrap().commit().unwrap();
        assert_eq!(content(&db, &other), expected(&["one", "three"]), "{how}");
        // The one that is left goes back to RocksDB, through our log.
        db.default_cf().flush().unwrap();
        db.close().unwrap();
        drop((db, other));
        let found = java.prepared("decide", dir.path(), &["two=rollback"]);
        let found: BTreeSet<String> = found.lines().map(str::to_owned).collect();
        let mut owed = expected(&["one", "three"]);
        owed.insert("prepared\ttwo".to_owned());
        assert_eq!(found, owed, "{how}");
        let (db, other) = open(dir.path());
        assert!(names(&db).is_empty());
        assert_eq!(content(&db, &other), expected(&["one", "three"]), "{how}");
    }
}

#[test]
fn our_prepared_transactions_are_decided_by_rocksdb() {
    let Some(java) = Java::find() else {
        return;
    };
    for is_killed in [false, true] {
        let dir = ScratchDir::new();
        let killed = ScratchDir::new();
        let (db, other) = open(dir.path());
        db.put("plain", "0").unwrap();
        let one = prepare(&db, &other, "one");
        let three = prepare(&db, &other, "three");
        db.default_cf().flush().unwrap();
        let two = prepare(&db, &other, "two");
        let four = prepare(&db, &other, "four");
        other.put("plain", "1").unwrap();
        three.commit().unwrap();
        other.flush().unwrap();
        four.rollback().unwrap();
        db.put("plain", "2").unwrap();
        drop((one, two, three, four));
        let left = match is_killed {
            true => {
                copy(dir.path(), killed.path());
                killed.path()
            }
            false => dir.path(),
        };
        db.close().unwrap();
        drop((db, other));
        let found = java.prepared("decide", left, &["one=commit"]);
        let found: BTreeSet<String> = found.lines().map(str::to_owned).collect();
        let mut owed = expected(&["one", "three"]);
        owed.extend(["prepared\tone".to_owned(), "prepared\ttwo".to_owned()]);
        assert_eq!(found, owed, "killed: {is_killed}");
        // And the other one here again.
        let (db, other) = open(left);
        assert_eq!(names(&db), ["two"]);
        db.prepared_transaction("two").unwrap().commit().unwrap();
        assert_eq!(content(&db, &other), expected(&["one", "two", "three"]));
    }
}
