//! Errors say what is wrong, where, and what to do. Texts are compared in full.

use std::os::unix::fs::FileExt;
use std::path::Path;

use koeldb::fs::{Failure, FaultRule, Operation};
use koeldb::{
    BackupEngine, BackupEngineOptions, Compression, ConfigOptions, Db, Error, ErrorDetail, Options,
    RecoveryMode, StringAppend,
};

use super::{change_byte, make_newer, middle, refusal, truncate};
use crate::golden::golden;
use crate::prelude::creating;
use crate::scratch::ScratchDir;
use crate::storage::{HERE, Storage};

/// Checks the text of an error, in which `DIR` stands for the directory.
fn assert_text(error: &Error, dir: &Path, text: &str) {
    let found = error.to_string();
    let found = found.replace(&*dir.to_string_lossy(), "DIR");
    assert_eq!(found, text);
}

fn assert_refused(options: &Options, dir: &Path, text: &str) {
    assert_text(&refusal(options, dir), dir, text);
}

/// Opens a database over a file system in which the next call of `operation` fails.
fn open_with(failure: Failure, operation: Operation) -> Error {
    let storage = Storage::new();
    let options = storage.options();
    drop(Db::open(&options, HERE).unwrap());
    let rule = FaultRule::fail(failure).on(&[operation]);
    storage.faults.add_rule(rule);
    Db::open(&options, HERE).unwrap_err()
}

#[test]
fn a_path_without_database() {
    let absent = ScratchDir::absent();
    let error = Db::open(&Options::new(), absent.path()).unwrap_err();
    assert_text(
        &error,
        absent.path(),
        "Invalid argument: DIR: does not exist (create_if_missing is false); \
         check the path, or set create_if_missing to create a database there",
    );
    let empty = ScratchDir::new();
    assert_refused(
        &Options::new(),
        empty.path(),
        "Invalid argument: DIR: holds no database: CURRENT is missing (create_if_missing is false); \
         check the path, or set create_if_missing to create a database there",
    );
    let error = Db::builder(&Options::new()).read_only().open(empty.path());
    assert_text(
        &error.unwrap_err(),
        empty.path(),
        "Invalid argument: DIR: there is no database to open read-only (CURRENT is missing); \
         check the path, or open it for writing with create_if_missing",
    );
    let error = Db::list_cf(&Options::new(), empty.path()).unwrap_err();
    assert_text(
        &error,
        empty.path(),
        "IO error: No such file or directory (os error 2) (open DIR/CURRENT); \
         check the path: a directory without CURRENT has no database",
    );
}

#[test]
fn a_directory_with_files_of_others() {
    let dir = ScratchDir::new();
    std::fs::write(dir.join("notes.txt"), "mine").unwrap();
    assert_refused(
        &creating(),
        dir.path(),
        "Invalid argument: DIR: a database is created only in an empty directory, and this one \
         holds \"notes.txt\"; choose another directory, or move the files away",
    );
    let db = Db::open(creating().set_creates_beside_files(true), dir.path()).unwrap();
    drop(db);
    Db::destroy(&creating(), dir.path()).unwrap();
    assert_eq!(std::fs::read(dir.join("notes.txt")).unwrap(), b"mine");
}

#[test]
fn a_file_in_place_of_the_directory() {
    let dir = ScratchDir::new();
    let file = dir.join("file");
    std::fs::write(&file, "").unwrap();
    for options in [Options::new(), creating()] {
        assert_text(
            &Db::open(&options, &file).unwrap_err(),
            dir.path(),
            "IO error: Not a directory (os error 20) (stat DIR/file/CURRENT); \
             a part of the path is a file: give the path of a directory",
        );
    }
}

#[test]
fn failures_of_the_operating_system() {
    for (failure, operation, text) in [
        (
            Failure::PermissionDenied,
            Operation::Open,
            "IO error: injected fault 1 at Open: Permission denied (os error 13) \
             (injected /db/IDENTITY); \
             run as a user who may use the path, or change its owner or permissions",
        ),
        (
            Failure::ReadOnly,
            Operation::Create,
            "IO error: injected fault 2 at Create: Read-only file system (os error 30) \
             (injected /db/000006.log); \
             mount the file system for writing, or open the database read-only",
        ),
        (
            Failure::NoSpace,
            Operation::Create,
            "IO error: injected fault 2 at Create: No space left on device (os error 28) \
             (injected /db/000006.log); \
             free space on the device",
        ),
        (
            Failure::Quota,
            Operation::Create,
            "IO error: injected fault 2 at Create: Disk quota exceeded (os error 122) \
             (injected /db/000006.log); \
             free space, or raise the quota",
        ),
        (
            Failure::TooManyFiles,
            Operation::Open,
            "IO error: injected fault 1 at Open: Too many open files (os error 24) \
             (injected /db/IDENTITY); \
             raise the limit of open files (`ulimit -n`), or set max_open_files below it",
        ),
    ] {
        assert_eq!(open_with(failure, operation).to_string(), text);
    }
}

#[test]
fn a_directory_that_is_in_use() {
    let dir = ScratchDir::new();
    let _db = Db::open(&creating(), dir.path()).unwrap();
    assert_refused(
        &Options::new(),
        dir.path(),
        "IO error: the lock is held by this process (lock DIR/LOCK); \
         share the open handle among threads, or close it first",
    );
}

#[test]
fn an_existing_database() {
    let dir = ScratchDir::copy_of(&golden("block-v6"));
    assert_refused(
        creating().set_error_if_exists(true),
        dir.path(),
        "Invalid argument: DIR: exists (error_if_exists is true); \
         choose another path, or set error_if_exists to false",
    );
}

#[test]
fn another_comparator() {
    let dir = ScratchDir::copy_of(&golden("reverse-comparator"));
    assert_refused(
        &Options::new(),
        dir.path(),
        "Invalid argument: leveldb.BytewiseComparator: does not match \
         existing comparator rocksdb.ReverseBytewiseComparator; \
         set the comparator of column family 'default' to rocksdb.ReverseBytewiseComparator",
    );
}

#[test]
fn operands_without_merge_operator() {
    let dir = ScratchDir::new();
    let mut options = creating();
    options.set_merge_operator(StringAppend::new(","));
    let db = Db::open(&options, dir.path()).unwrap();
    db.merge("key", "operand").unwrap();
    drop(db);
    let db = Db::builder(&Options::new()).read_only().open(dir.path());
    assert_text(
        &db.unwrap().get("key").unwrap_err(),
        dir.path(),
        "Not supported: merge operands found for key \"key\" of column family \"default\", but \
         no merge_operator is set; set the merge_operator that they were written with",
    );
}

#[test]
fn column_families_that_are_left_out_or_unknown() {
    let dir = ScratchDir::copy_of(&golden("column-families"));
    assert_refused(
        &Options::new(),
        dir.path(),
        "Invalid argument: Column families not opened: alpha, beta; \
         name all column families to open for writing, take them from Options::load_latest, or \
         set DbBuilder::other_column_families",
    );
    let error = Db::open_cf(&Options::new(), dir.path(), ["gamma"]).unwrap_err();
    assert_text(
        &error,
        dir.path(),
        "Invalid argument: Column family not found: gamma (existing: default, alpha, beta; \
         create_missing_column_families is false); \
         name an existing one, or set create_missing_column_families to create it",
    );
}

#[test]
fn missing_files() {
    let dir = ScratchDir::copy_of(&golden("block-v6"));
    std::fs::remove_file(dir.join("000009.sst")).unwrap();
    assert_refused(
        &Options::new(),
        dir.path(),
        "Corruption: table 000009.sst is in the MANIFEST but does not exist (open DIR/000009.sst); \
         restore a backup, open with best_efforts_recovery, which returns to the newest state \
         without the file, or run `ldb repair`",
    );

    let dir = ScratchDir::copy_of(&golden("blob-none"));
    std::fs::remove_file(dir.join("000017.blob")).unwrap();
    let db = Db::open(&Options::new(), dir.path()).unwrap();
    assert_text(
        &db.range(..).find_map(Result::err).unwrap(),
        dir.path(),
        "IO error: No such file or directory (os error 2) (open DIR/000017.blob); \
         restore a backup, open with best_efforts_recovery, which returns to the newest state \
         without the file, or run `ldb repair`",
    );

    let dir = ScratchDir::copy_of(&golden("block-v6"));
    std::fs::remove_file(dir.join("MANIFEST-000005")).unwrap();
    assert_refused(
        &Options::new(),
        dir.path(),
        "Corruption: CURRENT names a MANIFEST that does not exist (open DIR/MANIFEST-000005); \
         restore a backup, open with best_efforts_recovery, which returns to the newest state \
         without the file, or run `ldb repair`",
    );

    let dir = ScratchDir::copy_of(&golden("block-v6"));
    std::fs::remove_file(dir.join("CURRENT")).unwrap();
    assert_refused(
        &Options::new(),
        dir.path(),
        "Corruption: CURRENT is missing, but the directory holds 1 table, 1 log, MANIFEST-000005 \
         (open DIR); \
         restore a backup, or run `ldb repair`, which writes CURRENT and MANIFEST anew",
    );
}

#[test]
fn damaged_files() {
    let dir = ScratchDir::copy_of(&golden("block-v6"));
    truncate(&dir.join("000009.sst"), |length| length - 1);
    assert_refused(
        &Options::new(),
        dir.path(),
        "Corruption: the file has 44599 bytes, but 44600 are recorded (open DIR/000009.sst); \
         restore a backup, open with best_efforts_recovery, which returns to the newest state \
         without the file, or run `ldb repair`",
    );
    let mut options = Options::new();
    options.set_best_efforts_recovery(true);
    drop(Db::open(&options, dir.path()).unwrap());

    let dir = ScratchDir::copy_of(&golden("block-v6"));
    change_byte(&dir.join("000009.sst"), 700);
    let db = Db::builder(&Options::new()).read_only().open(dir.path());
    let error = db.unwrap().range(..).find_map(Result::err).unwrap();
    assert_text(
        &error,
        dir.path(),
        "Corruption: block checksum mismatch: stored = 1736283312, computed = 57454169, type = 4, \
         size 483 (read DIR/000009.sst at offset 483); \
         restore a backup, or run `ldb repair`, which keeps what is readable",
    );

    let dir = ScratchDir::copy_of(&golden("block-v6"));
    change_byte(&dir.join("MANIFEST-000005"), 20);
    assert_refused(
        &Options::new(),
        dir.path(),
        "Corruption: checksum mismatch; 250 bytes dropped (read DIR/MANIFEST-000005 at offset 0); \
         restore a backup, or run `ldb repair`, which writes CURRENT and MANIFEST anew",
    );

    let dir = ScratchDir::copy_of(&golden("block-v6"));
    std::fs::write(dir.join("CURRENT"), "MANIFEST-000005").unwrap();
    assert_refused(
        &Options::new(),
        dir.path(),
        "Corruption: CURRENT file does not end with newline (read DIR/CURRENT); \
         restore a backup, or run `ldb repair`, which writes CURRENT and MANIFEST anew",
    );

    let dir = ScratchDir::copy_of(&golden("wal-only"));
    let log = dir.join("000004.log");
    change_byte(&log, middle(&log));
    assert_refused(
        Options::new().set_wal_recovery_mode(RecoveryMode::AbsoluteConsistency),
        dir.path(),
        "Corruption: checksum mismatch; 16040 bytes dropped (read DIR/000004.log at offset 82264); \
         restore a backup, or set wal_recovery_mode=kPointInTimeRecovery, which keeps the writes \
         before the damage",
    );
}

/// The repair reports what is lost without the advice to repair.
#[test]
fn a_repair_gives_no_advice_to_repair() {
    let dir = ScratchDir::copy_of(&golden("block-v6"));
    truncate(&dir.join("000009.sst"), |length| length / 2);
    let report = Db::repair(&Options::new(), dir.path()).unwrap();
    let (_, reason) = &report
        .lost
        .iter()
        .find(|(name, _)| name == "000009.sst")
        .unwrap();
    assert!(reason.starts_with("Corruption: "), "{reason}");
    assert!(!reason.contains("ldb repair"), "{reason}");
}

#[test]
fn tables_of_formats_that_are_not_read() {
    let dir = ScratchDir::copy_of(&golden("block-v6"));
    make_newer(&dir.join("000009.sst"));
    assert_refused(
        &Options::new(),
        dir.path(),
        "Not supported: format_version 8 is newer than 7, the newest that this release reads \
         (open DIR/000009.sst); read the table with the release that wrote it, or a newer one",
    );

    let legacy_magic = 0xdb47_7524_8b80_fb57_u64.to_le_bytes();
    let table = std::fs::File::options()
        .write(true)
        .open(dir.join("000009.sst"));
    let table = table.unwrap();
    let length = table.metadata().unwrap().len();
    table.write_all_at(&legacy_magic, length - 8).unwrap();
    assert_refused(
        &Options::new(),
        dir.path(),
        "Not supported: block-based tables of format_version 0, which LevelDB writes, are not \
         supported (open DIR/000009.sst); \
         copy the entries into a new database with the program that wrote the table",
    );
}

#[test]
fn databases_of_other_engines() {
    let copy = "open it with that engine, and copy its entries into a new database";
    for (what, names) in [
        ("LMDB", &["data.mdb", "lock.mdb"][..]),
        ("sled", &["blobs", "conf", "db"]),
        (
            "Pebble",
            &[
                "MANIFEST-000012",
                "000010.sst",
                "marker.format-version.000001.013",
            ],
        ),
        ("Badger", &["000001.vlog", "KEYREGISTRY", "MANIFEST"]),
        (
            "WiredTiger",
            &["WiredTiger", "WiredTiger.wt", "WiredTiger.lock"],
        ),
    ] {
        let dir = ScratchDir::new();
        for name in names {
            std::fs::write(dir.join(name), "").unwrap();
        }
        let text = format!("Invalid argument: DIR: holds a database of {what}; {copy}");
        assert_refused(&Options::new(), dir.path(), &text);
        assert_refused(&creating(), dir.path(), &text);
        let error = Db::builder(&Options::new()).read_only().open(dir.path());
        assert_text(&error.unwrap_err(), dir.path(), &text);
    }
    for (what, head) in [
        ("SQLite", &b"SQLite format 3\0\x10\0"[..]),
        ("redb", b"redb\x1a\x0a\xa9\x0d\x0a\0\0"),
        ("LMDB", b"0123456789abcdef\xde\xc0\xef\xbe\x01"),
        ("bbolt", b"0123456789abcdef\xed\xda\x0c\xed\x02"),
    ] {
        let dir = ScratchDir::new();
        std::fs::write(dir.join("file"), head).unwrap();
        let text = format!("Invalid argument: DIR/file: holds a database of {what}; {copy}");
        for options in [Options::new(), creating()] {
            let error = Db::open(&options, dir.join("file")).unwrap_err();
            assert_text(&error, dir.path(), &text);
        }
    }
}

#[test]
fn databases_and_backups_confused() {
    let dir = ScratchDir::new();
    let db = Db::open(&creating(), dir.join("db")).unwrap();
    let how = BackupEngineOptions::new();
    let backups = BackupEngine::open(dir.join("backups"), &how).unwrap();
    backups.create_new_backup(&db).unwrap();
    drop((db, backups));
    for options in [Options::new(), creating()] {
        assert_text(
            &Db::open(&options, dir.join("backups")).unwrap_err(),
            dir.path(),
            "Invalid argument: DIR/backups: holds backups; \
             restore one into a new directory, with `ldb restore` or a BackupEngine",
        );
    }
    for opened in [
        BackupEngine::open(dir.join("db"), &how),
        BackupEngine::open_read_only(dir.join("db"), &how),
    ] {
        assert_text(
            &opened.err().unwrap(),
            dir.path(),
            "Invalid argument: DIR/db: holds a database; \
             give the directory of the backups, or an empty one for new backups",
        );
    }
    let error = BackupEngine::open_read_only(dir.join("nothing"), &how);
    assert_text(
        &error.err().unwrap(),
        dir.path(),
        "IO error: No such file or directory (os error 2) (list DIR/nothing/meta); \
         check the path: a directory without `meta` has no backups",
    );
    let table = dir.join("backups/shared_checksum");
    let table = std::fs::read_dir(table).unwrap().next();
    assert!(table.is_none(), "the database is empty");
    // RocksDB creates a database beside the backups, and both can be used.
    let mut beside = creating();
    beside.set_creates_beside_files(true);
    drop(Db::open(&beside, dir.join("backups")).unwrap());
    let backups = BackupEngine::open(dir.join("backups"), &how).unwrap();
    assert_eq!(backups.backups().len(), 1);
    drop(backups);
    Db::destroy(&creating(), dir.join("backups")).unwrap();
    let current = dir.join("backups/private/1/CURRENT");
    std::fs::write(current, "MANIFEST-123456\n").unwrap();
    let backups = BackupEngine::open(dir.join("backups"), &how).unwrap();
    assert_text(
        &backups.verify_backup(1, true).unwrap_err(),
        dir.path(),
        "Corruption: file checksum mismatch: recorded = 2380087979, computed = 295258413 \
         (verify DIR/backups/private/1/CURRENT); \
         delete the backups with this file, and create a new one",
    );
}

#[test]
fn options_that_are_unknown() {
    let error = Options::new()
        .apply_str("no_such_option=1", &ConfigOptions::new())
        .map(|_| ())
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "Invalid argument: Extra option not recognized: no_such_option; \
         correct or remove the name: `Options::registry` lists all"
    );

    let with_line = |version: Option<&str>, line: &str| {
        let dir = ScratchDir::copy_of(&golden("block-v6"));
        let file = dir.only("OPTIONS");
        let mut text = std::fs::read_to_string(&file).unwrap();
        text = text.replace("[CFOptions", &format!("  {line}\n[CFOptions"));
        if let Some(version) = version {
            let old = text.lines().find(|line| line.contains("rocksdb_version"));
            let old = old.unwrap().to_owned();
            text = text.replace(&old, &format!("  rocksdb_version={version}"));
        }
        std::fs::write(&file, text).unwrap();
        let error = Options::load_latest(dir.path(), &ConfigOptions::new()).unwrap_err();
        error
            .to_string()
            .replace(&*dir.path().to_string_lossy(), "DIR")
    };
    assert_eq!(
        with_line(None, "no_such_option=1"),
        "Invalid argument: line 111: Extra option not recognized: no_such_option \
         (read DIR/OPTIONS-000007); correct or remove the line"
    );
    assert_eq!(
        with_line(Some("99.1.2"), "no_such_option=1"),
        "Invalid argument: line 111: Extra option not recognized: no_such_option \
         (read DIR/OPTIONS-000007); \
         a newer release may have written the file: skip its new options, with \
         ConfigOptions::set_ignore_unknown_options"
    );
}

#[test]
fn a_secondary_of_nothing() {
    let dir = ScratchDir::new();
    let error = Db::builder(&Options::new())
        .secondary(dir.join("own"))
        .open(dir.join("nothing"));
    assert!(!dir.join("own").exists());
    assert_text(
        &error.unwrap_err(),
        dir.path(),
        "Invalid argument: DIR/nothing: there is no database to open read-only (CURRENT is missing); \
         check the path, or open it for writing with create_if_missing",
    );
}

#[test]
fn a_codec_that_is_not_in_the_build() {
    for codec in Compression::ALL {
        if let Err(error) = codec.ensure_available()
            && error.detail() == Some(ErrorDetail::FeatureMissing)
        {
            let text = error.to_string();
            assert!(
                text.contains("; build koeldb with the cargo feature `"),
                "{text}"
            );
        }
    }
    if !Compression::Bzip2.is_available() {
        let mut options = creating();
        options.set_compression_type(Compression::Bzip2);
        let dir = ScratchDir::absent();
        assert_text(
            &Db::open(&options, dir.path()).unwrap_err(),
            dir.path(),
            "Not supported: compression=kBZip2Compression (column family \"default\"): this build \
             has no such codec; build with the feature \"bzip2\", or choose another",
        );
    }
}
