//! Prepared transactions left by RocksDB are decided here, and ours by RocksDB; logs of each write
//! policy are read.

use std::collections::BTreeSet;
use std::path::Path;

use koeldb::{
    ColumnFamily, ColumnFamilyDescriptor, ColumnFamilyOptions, CompactRangeOptions, Db, DbBuilder,
    ErrorKind, Options, RecoveryMode, StringAppend, TransactionDbOptions, TransactionOptions,
    WriteOptions,
};
use koeldb_testkit::Floors;

use crate::golden::{expected as golden_content, golden};
use crate::prelude::creating;
use crate::rocksdb::Java;
use crate::scratch::{ScratchDir, data_files, files};

/// The directories of RocksDB with undecided transactions (`golden/README.md`).
pub(crate) const GOLDEN: &[&str] = &[
    "prepared-closed",
    "prepared-killed",
    "prepared-grouped",
    "write-prepared",
    "write-prepared-undecided",
    "write-prepared-closed",
    "write-prepared-killed",
    "write-prepared-two-queues",
    "write-unprepared-killed",
];

fn open_as(options: &Options, dir: &Path) -> koeldb::Result<(Db, ColumnFamily)> {
    let (db, [other]) = Db::open_cf(options, dir, ["other"])?;
    Ok((db, other))
}

fn open(dir: &Path) -> (Db, ColumnFamily) {
    let mut options = creating();
    options.set_transactions(&TransactionDbOptions::new());
    open_as(&options, dir).unwrap()
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
fn writes_after_a_prepare_are_committed_behind_it_here_and_in_rocksdb() {
    for is_killed in [false, true] {
        let (dir, killed) = (ScratchDir::new(), ScratchDir::new());
        let (db, other) = open(dir.path());
        let mut transaction = db.transaction();
        transaction.put("a", "prepared").unwrap();
        transaction.put("b", "prepared").unwrap();
        let prepared = transaction.prepare_in_place("one").unwrap();
        assert!(transaction.prepare_in_place("again").is_err());
        transaction.put("b", "later").unwrap();
        transaction.put_cf(&other, "c", "later").unwrap();
        assert!(other.put("c", "locked").is_err());
        assert_eq!(prepared.operation_count(), 2);
        assert_eq!(
            transaction.get("b").unwrap().as_deref(),
            Some(&b"later"[..])
        );
        transaction.commit().unwrap();
        other.put("c", "unlocked").unwrap();
        other.delete("c").unwrap();
        // A second one, prepared by a handle that is gone.
        let mut transaction = db.transaction();
        transaction.put("d", "prepared").unwrap();
        transaction.prepare_in_place("two").unwrap();
        transaction.put("e", "never committed").unwrap();
        drop(transaction);
        db.put("e", "unlocked").unwrap();
        assert!(db.put("d", "locked").is_err());
        let mut transaction = db.prepared_transactions()[0].to_transaction().unwrap();
        transaction.put("d", "later").unwrap();
        transaction.put_cf(&other, "c", "later").unwrap();
        transaction.commit().unwrap();
        db.put("d2", "last").unwrap();
        let owed: BTreeSet<String> = [
            "default\ta\tprepared",
            "default\tb\tlater",
            "other\tc\tlater",
            "default\td\tlater",
            "default\td2\tlast",
            "default\te\tunlocked",
        ]
        .into_iter()
        .map(|entry| format!("entry\t{entry}"))
        .collect();
        assert_eq!(content(&db, &other), owed);
        let left = match is_killed {
            true => {
                copy(dir.path(), killed.path());
                killed.path()
            }
            false => dir.path(),
        };
        db.close().unwrap();
        drop((db, other, prepared));
        let again = ScratchDir::new();
        copy(left, again.path());
        let (db, other) = open(again.path());
        assert_eq!(content(&db, &other), owed, "killed: {is_killed}");
        drop((db, other));
        if let Some(java) = Java::find() {
            let found = java.prepared("decide", left, &[]);
            let found: BTreeSet<String> = found.lines().map(str::to_owned).collect();
            assert_eq!(found, owed, "killed: {is_killed}");
        }
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

/// The names of the undecided transactions of a golden directory.
fn undecided(golden: &str) -> Vec<String> {
    match golden {
        "prepared-grouped" => (16..24).map(|number| format!("t{number}")).collect(),
        _ => vec!["one".to_owned(), "two".to_owned()],
    }
}

#[test]
fn golden_directories_list_the_undecided_and_are_left_alone_by_readers() {
    for &name in &GOLDEN[..3] {
        let dir = ScratchDir::copy_of(&golden(name));
        let before = data_files(dir.path());
        let mut builder = Db::builder(&Options::new());
        let other = ColumnFamilyDescriptor::new("other", ColumnFamilyOptions::new());
        let db = builder.column_family(other).read_only();
        let db = db.open(dir.path()).unwrap();
        golden_content(name).check(&db, name);
        let mut found = names(&db);
        found.sort_unstable();
        assert_eq!(found, undecided(name), "{name}");
        db.close().unwrap();
        drop(db);
        let own = ScratchDir::new();
        let other = ColumnFamilyDescriptor::new("other", ColumnFamilyOptions::new());
        let mut builder = Db::builder(&Options::new());
        let secondary = builder.column_family(other).secondary(own.path());
        let secondary = secondary.open(dir.path()).unwrap();
        let mut found = names(&secondary);
        found.sort_unstable();
        assert_eq!(found, undecided(name), "{name}");
        golden_content(name).check(&secondary, name);
        secondary.close().unwrap();
        drop(secondary);
        // So is a database without pessimistic transactions, which could not keep their locks.
        let refused = open_as(&Options::new(), dir.path()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NotSupported, "{name}: {refused}");
        assert!(refused.message().contains("is prepared"), "{refused}");
        assert!(data_files(dir.path()) == before, "{name} changed");
    }
}

/// Decides the transactions of a golden directory, with reopenings between the decisions.
#[test]
fn golden_directories_are_decided_transaction_by_transaction() {
    for &name in &GOLDEN[..3] {
        let dir = ScratchDir::copy_of(&golden(name));
        let mut content = golden_content(name);
        for (index, prepared) in undecided(name).iter().enumerate() {
            let (db, other) = open(dir.path());
            assert_eq!(names(&db).len(), undecided(name).len() - index, "{name}");
            assert!(db.put(prepared, "locked").is_err(), "{name}");
            let found = db.prepared_transaction(prepared).unwrap();
            if index % 2 == 0 {
                found.commit().unwrap();
                for family in ["default", "other"] {
                    let key = prepared.clone().into_bytes();
                    content.family(family).insert(key, b"value".to_vec());
                }
            } else {
                found.rollback().unwrap();
            }
            content.check(&db, &format!("{name}, {prepared} decided"));
            match index % 3 {
                0 => other.flush().unwrap(),
                1 => db.close().unwrap(),
                _ => {}
            }
        }
        // All are decided: other databases open it.
        let (db, other) = open_as(&Options::new(), dir.path()).unwrap();
        content.check(&db, &format!("{name}, all decided"));
        db.compact_all(&CompactRangeOptions::new()).unwrap();
        content.check(&db, &format!("{name}, compacted"));
        drop((db, other));
        let (db, _other) = open(dir.path());
        assert!(names(&db).is_empty(), "{name}");
        content.check(&db, &format!("{name}, opened again"));
    }
}

/// Opens a directory of both column families, whose operands are appended.
fn builder_of_history(options: &Options) -> DbBuilder {
    let mut appending = ColumnFamilyOptions::from(options);
    appending.set_merge_operator(StringAppend::new(","));
    let mut builder = Db::builder(options);
    for name in ["default", "other"] {
        builder.column_family(ColumnFamilyDescriptor::new(name, appending.clone()));
    }
    builder
}

fn content_of(db: &Db) -> BTreeSet<String> {
    content(db, &db.cf_handle("other").unwrap())
}

const MODES: [RecoveryMode; 4] = [
    RecoveryMode::TolerateCorruptedTailRecords,
    RecoveryMode::AbsoluteConsistency,
    RecoveryMode::PointInTime,
    RecoveryMode::SkipAnyCorruptedRecords,
];

/// Checks that a directory is read in every way, written, and read by RocksDB again.
fn is_read_in_every_way(java: &Java, dir: &Path, entries: &BTreeSet<String>, when: &str) {
    let mut options = Options::new();
    for mode in MODES {
        let copy = ScratchDir::copy_of(dir);
        options.set_wal_recovery_mode(mode);
        let mut builder = builder_of_history(&options);
        let before = data_files(copy.path());
        let db = builder.read_only().open(copy.path()).unwrap();
        assert_eq!(&content_of(&db), entries, "{when}, {mode:?}, read-only");
        drop(db);
        let own = ScratchDir::new();
        let mut builder = builder_of_history(&options);
        let db = builder.secondary(own.path()).open(copy.path()).unwrap();
        assert_eq!(&content_of(&db), entries, "{when}, secondary");
        drop(db);
        assert!(data_files(copy.path()) == before, "{when} changed");
        for keeps_memtables in [false, true] {
            if keeps_memtables != (mode == RecoveryMode::PointInTime) {
                continue;
            }
            let copy = ScratchDir::copy_of(dir);
            options.set_avoid_flush_during_recovery(keeps_memtables);
            let mut mine = entries.clone();
            for round in ["0", "1"] {
                let db = builder_of_history(&options).open(copy.path()).unwrap();
                assert_eq!(content_of(&db), mine, "{when}, {mode:?}, round {round}");
                db.put("mine", round).unwrap();
                mine.retain(|line| !line.contains("\tmine\t"));
                mine.insert(format!("entry\tdefault\tmine\t{round}"));
            }
            if mode == RecoveryMode::PointInTime {
                let found = java.prepared("decide", copy.path(), &[]);
                let found: BTreeSet<String> = found.lines().map(str::to_owned).collect();
                assert_eq!(found, mine, "{when}, RocksDB afterwards");
            }
        }
    }
}

#[test]
fn random_histories_under_each_write_policy_are_read_as_rocksdb_left_them() {
    let Some(java) = Java::find() else {
        return;
    };
    const POLICIES: [&str; 3] = ["WRITE_PREPARED", "WRITE_UNPREPARED", "WRITE_COMMITTED"];
    for seed in 0..Floors::chosen().of(12, 120, 1_200) {
        let case = usize::try_from(seed).unwrap();
        let policy = POLICIES[case % 3];
        let how = ["close", "kill"][case / 3 % 2];
        let queues = ["one-queue", "two-queues"][case / 6 % 2];
        let dir = ScratchDir::new();
        let settings = [policy, &seed.to_string(), how, queues];
        let entries = java.prepared("history", dir.path(), &settings);
        let entries: BTreeSet<String> = entries.lines().map(str::to_owned).collect();
        is_read_in_every_way(java, dir.path(), &entries, &settings.join(" "));
        if is_repaired(dir.path()) {
            let db = builder_of_history(&Options::new())
                .open(dir.path())
                .unwrap();
            assert_eq!(content_of(&db), entries, "{settings:?}, repaired");
        }
    }
}

/// Repairs a directory; returns whether that is not refused, which changes nothing.
fn is_repaired(dir: &Path) -> bool {
    let mut options = Options::new();
    options.set_merge_operator(StringAppend::new(","));
    let before = data_files(dir);
    let Err(refused) = Db::repair(&options, dir) else {
        return true;
    };
    assert_eq!(refused.kind(), ErrorKind::NotSupported, "{refused}");
    assert!(refused.message().contains("transaction"), "{refused}");
    assert!(data_files(dir) == before, "changed: {refused}");
    false
}

/// Checks that a directory is refused by a repair and by every open that cannot decide transactions,
/// and not changed.
fn is_refused_without_locks(dir: &Path, word: &str) {
    let before = data_files(dir);
    for (mode, has_locks) in MODES.iter().flat_map(|&mode| [(mode, false), (mode, true)]) {
        let mut options = Options::new();
        options.set_wal_recovery_mode(mode);
        if has_locks {
            options.set_transactions(&TransactionDbOptions::new());
        }
        let own = ScratchDir::new();
        let mut read_only = builder_of_history(&options);
        let mut secondary = builder_of_history(&options);
        let mut opened = vec![
            read_only.read_only().open(dir),
            secondary.secondary(own.path()).open(dir),
        ];
        if !has_locks {
            opened.push(builder_of_history(&options).open(dir));
        }
        for refused in opened {
            let refused = refused.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::NotSupported, "{refused}");
            assert!(refused.message().contains(word), "{refused}");
        }
    }
    let refused = Db::repair(&Options::new(), dir).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotSupported, "{refused}");
    assert!(data_files(dir) == before);
}

#[test]
fn an_undecided_transaction_that_wrote_its_entries_is_refused_by_its_policy() {
    for name in ["write-prepared", "write-prepared-undecided"] {
        let dir = ScratchDir::copy_of(&golden(name));
        is_refused_without_locks(dir.path(), "write-prepared");
    }
}

#[test]
fn an_undecided_transaction_that_wrote_its_entries_is_decided_where_keys_are_locked() {
    let name = "write-prepared";
    for commits in [true, false] {
        let dir = ScratchDir::copy_of(&golden(name));
        let mut content = golden_content(name);
        for reopens in [true, false] {
            let (db, _other) = open(dir.path());
            assert_eq!(names(&db), ["one"]);
            content.check(&db, "undecided");
            assert!(db.put("one", "locked").is_err());
            if reopens {
                db.close().unwrap();
                continue;
            }
            let found = db.prepared_transaction("one").unwrap();
            match commits {
                true => drop(found.commit().unwrap()),
                false => found.rollback().unwrap(),
            }
            for family in ["default", "other"] {
                if commits {
                    let value = b"value".to_vec();
                    content.family(family).insert(b"one".to_vec(), value);
                }
            }
            content.check(&db, "decided");
            db.close().unwrap();
        }
        let (db, _other) = open_as(&Options::new(), dir.path()).unwrap();
        content.check(&db, "opened again");
    }
}

/// Random histories of both policies with an undecided transaction, whose entries are in tables or
/// only in logs.
#[test]
fn undecided_transactions_of_random_histories_are_taken_out() {
    let Some(java) = Java::find() else {
        return;
    };
    let mut locking = Options::new();
    locking.set_transactions(&TransactionDbOptions::new());
    let (mut decided, mut blob_files) = (0, 0);
    let count = Floors::chosen().of(12, 120, 1_200);
    for seed in 0..count {
        locking
            .set_disable_auto_compactions(true)
            .set_enable_blob_files(seed % 3 > 0)
            .set_min_blob_size(seed % 5);
        let policy = ["WRITE_PREPARED", "WRITE_UNPREPARED"][usize::from(seed % 2 == 1)];
        let dir = ScratchDir::new();
        let settings = [policy, &seed.to_string(), "undecided"];
        let entries = java.prepared("history", dir.path(), &settings);
        let entries: BTreeSet<String> = entries.lines().map(str::to_owned).collect();
        let before = data_files(dir.path());
        let db = match builder_of_history(&locking).open(dir.path()) {
            Ok(db) => db,
            Err(refused) => {
                // RocksDB may have applied operands of the transaction in a flush.
                assert!(refused.message().contains("write-prepared"), "{refused}");
                assert!(data_files(dir.path()) == before, "changed: {refused}");
                continue;
            }
        };
        decided += 1;
        blob_files += db.recovery_report().blob_files_written.len();
        // The replay that met the transaction left no file.
        let tables = db.live_files().into_iter().map(|file| file.name);
        let live: BTreeSet<String> = tables
            .chain(db.live_blob_files().into_iter().map(|file| file.name))
            .collect();
        let found = data_files(dir.path()).into_keys();
        let found = found.filter(|name| name.ends_with(".sst") || name.ends_with(".blob"));
        let found: BTreeSet<String> = found.map(|name| format!("/{name}")).collect();
        assert_eq!(found, live, "{settings:?}");
        assert_eq!(names(&db), ["last"], "{settings:?}");
        assert_eq!(content_of(&db), entries, "{settings:?}");
        let found = db.prepared_transaction("last").unwrap();
        if seed % 4 < 2 {
            found.rollback().unwrap();
            assert_eq!(content_of(&db), entries, "{settings:?}, rolled back");
        } else {
            found.commit().unwrap();
            assert_ne!(content_of(&db), entries, "{settings:?}, committed");
        }
        let content = content_of(&db);
        db.compact_all(&CompactRangeOptions::new()).unwrap();
        assert_eq!(content_of(&db), content, "{settings:?}, compacted");
        db.close().unwrap();
        drop(db);
        is_read_in_every_way(java, dir.path(), &content, &settings.join(" "));
    }
    assert!(decided > 0 && blob_files > 0, "of {count}");
    eprintln!("{decided} of {count} decided, {blob_files} blob files");
}

#[test]
fn golden_directories_of_write_policies_are_read_and_written() {
    for &name in &GOLDEN[4..] {
        if name.ends_with("undecided") {
            continue;
        }
        let dir = ScratchDir::copy_of(&golden(name));
        let mut content = golden_content(name);
        let db = builder_of_history(&Options::new())
            .open(dir.path())
            .unwrap();
        content.check(&db, name);
        db.put("mine", "1").unwrap();
        content
            .family("default")
            .insert(b"mine".to_vec(), b"1".to_vec());
        db.compact_all(&CompactRangeOptions::new()).unwrap();
        content.check(&db, name);
    }
}

#[test]
fn a_repair_keeps_committed_and_undecided_transactions() {
    let mut options = Options::new();
    options.set_transactions(&TransactionDbOptions::new());
    for (&name, loses_manifest) in GOLDEN.iter().flat_map(|name| [(name, false), (name, true)]) {
        let dir = ScratchDir::copy_of(&golden(name));
        for file in files(dir.path()).into_keys() {
            if file == "CURRENT" || loses_manifest && file.starts_with("MANIFEST") {
                std::fs::remove_file(dir.join(file)).unwrap();
            }
        }
        let copy = ScratchDir::copy_of(&golden(name));
        if matches!(name, "write-prepared" | "write-prepared-undecided") {
            let before = data_files(dir.path());
            let error = Db::repair(&options, dir.path()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotSupported, "{name}: {error}");
            assert_eq!(data_files(dir.path()), before, "{name}");
            continue;
        }
        let db = builder_of_history(&options).open(copy.path()).unwrap();
        let (content, undecided) = (content_of(&db), names(&db));
        drop(db);
        Db::repair(&options, dir.path()).unwrap();
        if loses_manifest && name == "write-unprepared-killed" {
            // RocksDB compacted a table: nothing says which operands of the logs are in it.
            continue;
        }
        for round in 0..2 {
            let db = builder_of_history(&options).open(dir.path()).unwrap();
            assert_eq!(content_of(&db), content, "{name}, round {round}");
            assert_eq!(names(&db), undecided, "{name}, round {round}");
        }
    }
}

/// Options of a database that archives its logs.
fn archiving() -> Options {
    let mut options = Options::new();
    let config = koeldb::ConfigOptions::new();
    options.apply_str("WAL_ttl_seconds=3600", &config).unwrap();
    options
}

#[test]
fn the_feed_refuses_logs_whose_operations_share_numbers() {
    for name in [
        "write-prepared-killed",
        "write-prepared-two-queues",
        "write-unprepared-killed",
    ] {
        let dir = ScratchDir::copy_of(&golden(name));
        let db = builder_of_history(&archiving()).open(dir.path()).unwrap();
        let latest = db.latest_sequence_number();
        db.put("mine", "1").unwrap();
        let feeds = (1..=latest).filter_map(|seqno| db.get_updates_since(seqno).ok());
        let errors = feeds.flat_map(|feed| feed.take(200).filter_map(Result::err));
        let errors: Vec<_> = errors.map(|error| error.kind()).collect();
        assert!(
            errors.contains(&ErrorKind::NotSupported),
            "{name}: {errors:?}"
        );
    }
}

#[test]
fn the_feed_reads_groups_of_rocksdb_that_end_in_a_transaction_without_operations() {
    let Some(java) = Java::find() else {
        return;
    };
    let dir = ScratchDir::new();
    let printed = java.prepared("empty", dir.path(), &[]);
    let number = printed.trim().strip_prefix("number\t").unwrap();
    let latest: u64 = number.parse().unwrap();
    assert_eq!(latest, 800);
    let options = archiving();
    let (db, _other) = open_as(&options, dir.path()).unwrap();
    assert_eq!(db.latest_sequence_number(), latest);
    db.put("mine", "1").unwrap();
    let mut next = 1;
    for update in db.get_updates_since(1).unwrap() {
        let update = update.unwrap();
        assert_eq!(update.sequence_number, next);
        next += update.batch.len() as u64;
    }
    assert_eq!(next, latest + 2);
}
