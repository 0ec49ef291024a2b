//! Failed opens and reads report the file and the reason, and leave the directory unchanged.

mod advice;

use std::path::{Path, PathBuf};
use std::process::Command;

use koeldb::{
    BlockBasedOptions, ConfigOptions, Db, Error, ErrorDetail, ErrorKind, Options, RecoveryMode,
    ReverseBytewiseComparator, SstFileReader,
};
use koeldb_table::block_based::format::{FOOTER_BYTES, FORMAT_VERSION_MAX, Footer};

use crate::golden::{expected, golden, is_readable};
use crate::rocksdb::Holder;
use crate::scratch::{ScratchDir, data_files};

/// Opens a directory, which must fail and change nothing.
fn refusal(options: &Options, dir: &Path) -> Error {
    let before = data_files(dir);
    let error = match Db::open(options, dir) {
        Ok(_) => panic!("{} opens", dir.display()),
        Err(error) => error,
    };
    assert_unchanged(dir, &before);
    error
}

fn assert_unchanged(dir: &Path, before: &std::collections::BTreeMap<String, Vec<u8>>) {
    let after = data_files(dir);
    let names = |files: &std::collections::BTreeMap<String, Vec<u8>>| {
        files.keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!(names(&after), names(before));
    for (name, bytes) in before {
        assert!(after[name] == *bytes, "{name} was changed");
    }
}

/// The kind, and words that must all be in the message, in whatever case.
fn assert_says(error: &Error, kind: ErrorKind, words: &[&str]) {
    let text = error.to_string();
    assert_eq!(error.kind(), kind, "{text}");
    for word in words {
        let is_there = text.to_lowercase().contains(&word.to_lowercase());
        assert!(is_there, "{word:?} is not in: {text}");
    }
}

fn change_byte(file: &Path, offset: usize) {
    let mut bytes = std::fs::read(file).unwrap();
    bytes[offset] ^= 0x40;
    std::fs::write(file, bytes).unwrap();
}

fn truncate(file: &Path, keep: impl FnOnce(usize) -> usize) {
    let mut bytes = std::fs::read(file).unwrap();
    bytes.truncate(keep(bytes.len()));
    std::fs::write(file, bytes).unwrap();
}

fn middle(file: &Path) -> usize {
    std::fs::read(file).unwrap().len() / 2
}

#[test]
fn a_wrong_comparator_is_named_with_the_right_one() {
    let dir = ScratchDir::copy_of(&golden("reverse-comparator"));
    let error = refusal(&Options::new(), dir.path());
    let both = [
        "leveldb.BytewiseComparator",
        "rocksdb.ReverseBytewiseComparator",
    ];
    assert_says(&error, ErrorKind::InvalidArgument, &both);

    let dir = ScratchDir::copy_of(&golden("block-v6"));
    let error = refusal(
        Options::new().set_comparator(ReverseBytewiseComparator),
        dir.path(),
    );
    assert_says(&error, ErrorKind::InvalidArgument, &both);
}

#[test]
fn a_missing_directory_is_not_created_unless_asked() {
    let dir = ScratchDir::absent();
    let path = dir.path().to_string_lossy().into_owned();
    let error = Db::open(&Options::new(), dir.path()).unwrap_err();
    assert_says(
        &error,
        ErrorKind::InvalidArgument,
        &[&path, "create_if_missing"],
    );
    let error = Db::builder(&Options::new())
        .read_only()
        .open(dir.path())
        .unwrap_err();
    assert_says(&error, error.kind(), &[&path]);
    let error = Db::list_cf(&Options::new(), dir.path()).unwrap_err();
    assert_says(&error, error.kind(), &[&path]);
    assert!(!dir.path().exists());
}

#[test]
fn a_database_is_created_only_in_a_directory_without_files_of_others() {
    let mut options = Options::new();
    options.create_if_missing(true);
    for stranger in ["notes.txt", "data/", "000001.txt", "MANIFEST"] {
        let dir = ScratchDir::new();
        match stranger.strip_suffix('/') {
            Some(name) => std::fs::create_dir(dir.join(name)).unwrap(),
            None => std::fs::write(dir.join(stranger), "mine").unwrap(),
        }
        let error = refusal(&options, dir.path());
        let name = stranger.trim_end_matches('/');
        assert_says(
            &error,
            ErrorKind::InvalidArgument,
            &[&format!("{name:?}"), "empty directory"],
        );
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        // They may come later.
        std::fs::remove_dir_all(dir.path()).unwrap();
        drop(Db::open(&options, dir.path()).unwrap());
        std::fs::write(dir.join("notes.txt"), "mine").unwrap();
        drop(Db::open(&options, dir.path()).unwrap());
        assert!(dir.join("notes.txt").exists());
    }
}

#[test]
fn remains_of_an_interrupted_creation_and_own_directories_are_no_files_of_others() {
    let dir = ScratchDir::new();
    for name in [
        ".hidden",
        "IDENTITY",
        "LOCK",
        "LOG",
        "LOG.old.1700000000000000",
        "MANIFEST-000001",
        "000000.dbtmp",
        "OPTIONS-000005.dbtmp",
        "OPTIONS-000005",
        "000009.sst.trash",
    ] {
        std::fs::write(dir.join(name), "").unwrap();
    }
    for name in ["lost+found", "archive", "lost", "logs/new", "info"] {
        std::fs::create_dir_all(dir.join(name)).unwrap();
    }
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_wal_dir(dir.join("logs/new"))
        .set_db_log_dir(dir.join("info"));
    let db = Db::open(&options, dir.path()).unwrap();
    db.put("key", "value").unwrap();
    db.close().unwrap();

    // LOG has another name if its directory is given, though it is that of the database.
    let dir = ScratchDir::new();
    options.set_wal_dir("").set_db_log_dir(dir.path());
    let db = Db::open(&options, dir.path()).unwrap();
    db.close().unwrap();
    for name in ["CURRENT", "IDENTITY"] {
        std::fs::remove_file(dir.join(name)).unwrap();
    }
    let is_remains = |name: &str| name.ends_with(".log") || name.starts_with("MANIFEST");
    for (name, _) in data_files(dir.path()) {
        if is_remains(&name) {
            std::fs::remove_file(dir.join(name)).unwrap();
        }
    }
    Db::open(&options, dir.path()).unwrap();
}

#[test]
fn a_lost_current_is_refused_with_the_remains_and_the_remedy() {
    let dir = ScratchDir::copy_of(&golden("block-v6"));
    std::fs::remove_file(dir.join("CURRENT")).unwrap();
    let before = data_files(dir.path());
    let mut creating = Options::new();
    creating.create_if_missing(true);
    for options in [Options::new(), creating] {
        let errors = [
            refusal(&options, dir.path()),
            Db::builder(&options)
                .read_only()
                .open(dir.path())
                .unwrap_err(),
        ];
        for error in errors {
            assert_says(
                &error,
                ErrorKind::Corruption,
                &["CURRENT is missing", "1 table", "MANIFEST-0", "repair"],
            );
        }
    }
    assert!(data_files(dir.path()) == before);
    assert!(!dir.join("LOCK").exists());
    Db::repair(&Options::new(), dir.path()).unwrap();
    Db::open(&Options::new(), dir.path()).unwrap();
}

#[test]
fn an_existing_database_is_left_alone_if_asked() {
    let dir = ScratchDir::copy_of(&golden("block-v6"));
    let mut options = Options::new();
    options.create_if_missing(true).set_error_if_exists(true);
    assert_says(
        &refusal(&options, dir.path()),
        ErrorKind::InvalidArgument,
        &["error_if_exists"],
    );
}

#[test]
fn a_directory_in_use_by_this_process_is_refused() {
    let dir = ScratchDir::new();
    let db = Db::open(Options::new().create_if_missing(true), dir.path()).unwrap();
    db.put("key", "value").unwrap();
    let error = refusal(&Options::new(), dir.path());
    assert_says(
        &error,
        ErrorKind::IoError,
        &["LOCK", "lock", "this process"],
    );
    assert_eq!(error.detail(), Some(ErrorDetail::LockHeld));
    // Another path to the same directory.
    let detour = dir.path().join("..").join(dir.path().file_name().unwrap());
    assert_eq!(
        refusal(&Options::new(), &detour).detail(),
        Some(ErrorDetail::LockHeld)
    );
    db.put("key", "another value").unwrap();
    drop(db);
    Db::open(&Options::new(), dir.path()).unwrap();
}

/// The calls that lock the directory of a database, each of which must be refused.
fn assert_is_in_use(dir: &Path) {
    let options = Options::new();
    for error in [
        refusal(&options, dir),
        Db::destroy(&options, dir).unwrap_err(),
        Db::repair(&options, dir).unwrap_err(),
    ] {
        assert_eq!(error.detail(), Some(ErrorDetail::LockHeld), "{error}");
        assert_says(&error, ErrorKind::IoError, &["LOCK was free", "in use"]);
    }
}

#[test]
fn a_directory_in_use_is_refused_whatever_happens_to_its_lock_file() {
    let dir = ScratchDir::new();
    let db = Db::open(Options::new().create_if_missing(true), dir.path()).unwrap();
    db.put("key", "value").unwrap();
    let link = ScratchDir::new();
    std::os::unix::fs::symlink(dir.path(), link.join("link")).unwrap();
    for path in [dir.path(), &link.join("link")] {
        std::fs::remove_file(dir.join("LOCK")).unwrap();
        assert_is_in_use(path);
    }
    std::fs::remove_file(dir.join("LOCK")).unwrap();
    std::fs::write(dir.join("NEW"), "").unwrap();
    std::fs::rename(dir.join("NEW"), dir.join("LOCK")).unwrap();
    assert_is_in_use(dir.path());
    db.flush().unwrap();
    db.close().unwrap();
    let db = Db::open(&Options::new(), dir.path()).unwrap();
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"value"[..]));
}

/// The environment variable with the directory for `hold_a_directory`.
const HOLD: &str = "KOELDB_TEST_HOLD";

/// The other process of `a_directory_in_use_by_another_process_is_refused`.
#[test]
#[ignore = "run by another test in a process of its own"]
fn hold_a_directory() {
    let dir = PathBuf::from(std::env::var_os(HOLD).unwrap());
    let db = Db::open(&Options::new(), dir).unwrap();
    db.put("held by", "another process").unwrap();
    println!("held");
    let mut rest = String::new();
    std::io::stdin().read_line(&mut rest).unwrap();
    db.close().unwrap();
}

#[test]
fn a_directory_in_use_by_another_process_is_refused() {
    let dir = ScratchDir::copy_of(&golden("block-v6"));
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([
            "--exact",
            "errors::hold_a_directory",
            "--ignored",
            "--nocapture",
        ])
        .env(HOLD, dir.path());
    let holder = Holder::start(&mut command);
    let error = refusal(&Options::new(), dir.path());
    assert_says(&error, ErrorKind::IoError, &["LOCK", "another process"]);
    let advice = "close the database in that process, or open it read-only or as a secondary";
    assert_eq!(error.advice(), Some(advice));
    assert_eq!(error.detail(), Some(ErrorDetail::LockHeld));
    std::fs::remove_file(dir.join("LOCK")).unwrap();
    assert_is_in_use(dir.path());
    let error = refusal(&Options::new(), dir.path());
    assert_says(&error, ErrorKind::IoError, &["another process"]);
    holder.release();
    let db = Db::open(&Options::new(), dir.path()).unwrap();
    assert_eq!(
        db.get("held by").unwrap().as_deref(),
        Some(&b"another process"[..])
    );
}

#[test]
fn a_damaged_current_file_is_named() {
    for content in [
        &b""[..],
        b"MANIFEST-000005",
        b"MANIFEST-\n",
        b"garbage\n",
        b"../MANIFEST-000005\n",
        b"\xff\xfe\n",
    ] {
        let dir = ScratchDir::copy_of(&golden("block-v6"));
        std::fs::write(dir.join("CURRENT"), content).unwrap();
        assert_says(
            &refusal(&Options::new(), dir.path()),
            ErrorKind::Corruption,
            &["CURRENT"],
        );
    }
}

#[test]
fn a_manifest_that_is_not_there_is_named() {
    let dir = ScratchDir::copy_of(&golden("block-v6"));
    std::fs::write(dir.join("CURRENT"), "MANIFEST-000099\n").unwrap();
    let error = refusal(&Options::new(), dir.path());
    assert_says(&error, error.kind(), &["MANIFEST-000099"]);
    assert!(
        matches!(error.kind(), ErrorKind::Corruption | ErrorKind::IoError),
        "{error}"
    );
}

#[test]
fn a_damaged_manifest_is_named_with_the_place() {
    let length = std::fs::read(golden("column-families").join("MANIFEST-000005"))
        .unwrap()
        .len();
    for offset in (0..length).step_by(13) {
        let dir = ScratchDir::copy_of(&golden("column-families"));
        change_byte(&dir.join("MANIFEST-000005"), offset);
        let error = refusal(&Options::new(), dir.path());
        assert_says(&error, error.kind(), &["MANIFEST-000005"]);
        assert!(error.is_corruption(), "byte {offset}: {error}");
    }
}

#[test]
fn an_empty_manifest_is_named() {
    let dir = ScratchDir::copy_of(&golden("block-v6"));
    truncate(&dir.join("MANIFEST-000005"), |_| 0);
    assert_says(
        &refusal(&Options::new(), dir.path()),
        ErrorKind::Corruption,
        &["MANIFEST-000005"],
    );
}

#[test]
fn a_missing_table_is_named() {
    let dir = ScratchDir::copy_of(&golden("block-v6"));
    std::fs::remove_file(dir.join("000009.sst")).unwrap();
    let error = refusal(&Options::new(), dir.path());
    assert_says(&error, ErrorKind::Corruption, &["000009.sst"]);
}

#[test]
fn a_table_of_the_wrong_length_is_named() {
    let dir = ScratchDir::copy_of(&golden("block-v6"));
    truncate(&dir.join("000009.sst"), |length| length - 1);
    assert_says(
        &refusal(&Options::new(), dir.path()),
        ErrorKind::Corruption,
        &["000009.sst"],
    );
}

#[test]
fn a_damaged_footer_is_named() {
    for name in ["block-v2", "block-v5", "block-v6", "block-v7"] {
        let dir = ScratchDir::copy_of(&golden(name));
        let table = dir.join("000009.sst");
        let length = std::fs::read(&table).unwrap().len();
        change_byte(&table, length - 3);
        let before = data_files(dir.path());
        // Tables may be opened by the open, or by the first read.
        let error = match Db::builder(&Options::new()).read_only().open(dir.path()) {
            Err(error) => error,
            Ok(db) => db.range(..).find_map(Result::err).expect("the scan fails"),
        };
        assert_says(&error, ErrorKind::Corruption, &["000009.sst"]);
        assert_unchanged(dir.path(), &before);
    }
}

#[test]
fn a_damaged_block_is_an_error_of_those_who_read_it() {
    for name in [
        "block-v2", "block-v3", "block-v4", "block-v5", "block-v6", "block-v7",
    ] {
        if !is_readable(name) {
            continue;
        }
        let dir = ScratchDir::copy_of(&golden(name));
        change_byte(&dir.join("000009.sst"), 700);
        let before = data_files(dir.path());
        let db = Db::builder(&Options::new())
            .read_only()
            .open(dir.path())
            .unwrap();
        let entries = expected(name).families.remove("default").unwrap();
        let keys: Vec<&Vec<u8>> = entries.keys().collect();
        let mut errors = 0;
        for (key, answer) in keys.iter().zip(&db.multi_get(&keys)) {
            match (db.get(key), answer) {
                (Ok(value), Ok(same)) => {
                    assert_eq!(value.as_deref(), Some(entries[*key].as_slice()));
                    assert_eq!(value.as_deref(), same);
                }
                (Err(error), Err(_)) => {
                    errors += 1;
                    assert_says(&error, ErrorKind::Corruption, &["000009.sst", "offset"]);
                    assert_eq!(
                        error.file().map(|file| file.path.ends_with("000009.sst")),
                        Some(true)
                    );
                }
                (one, other) => panic!("get says {one:?}, multi_get {other:?}"),
            }
        }
        assert!(
            errors > 0 && errors < keys.len(),
            "{name}: {errors} keys cannot be read"
        );
        // A scan from either side ends with the error, which it reports once.
        for scan in [
            db.range(..).collect::<Vec<_>>(),
            db.range(..).rev().collect(),
        ] {
            let (last, good) = scan.split_last().unwrap();
            assert_says(
                last.as_ref().unwrap_err(),
                ErrorKind::Corruption,
                &["000009.sst"],
            );
            assert!(good.iter().all(Result::is_ok));
        }
        assert_says(
            &db.verify_checksums().unwrap_err(),
            ErrorKind::Corruption,
            &["000009.sst"],
        );
        db.close().unwrap();
        assert_unchanged(dir.path(), &before);
    }
}

#[test]
fn a_damaged_block_is_never_laundered_by_a_compaction() {
    let dir = ScratchDir::copy_of(&golden("block-v6"));
    change_byte(&dir.join("000009.sst"), 700);
    let damaged = std::fs::read(dir.join("000009.sst")).unwrap();
    let db = Db::open(&Options::new(), dir.path()).unwrap();
    // Over all of the damaged table, so that it cannot be moved as it is.
    for key in expected("block-v6").families["default"].keys().step_by(50) {
        db.put(key, "value").unwrap();
    }
    db.flush().unwrap();
    let error = db.default_cf().compact_range(..).unwrap_err();
    assert_says(&error, ErrorKind::Corruption, &["000009.sst"]);
    drop(db);
    assert!(std::fs::read(dir.join("000009.sst")).unwrap() == damaged);
}

#[test]
fn damage_inside_the_log_fails_an_open_that_wants_all() {
    for mode in [
        RecoveryMode::AbsoluteConsistency,
        RecoveryMode::TolerateCorruptedTailRecords,
    ] {
        let dir = ScratchDir::copy_of(&golden("wal-only"));
        let log = dir.join("000004.log");
        change_byte(&log, middle(&log));
        let error = refusal(Options::new().set_wal_recovery_mode(mode), dir.path());
        assert_says(&error, ErrorKind::Corruption, &["000004.log"]);
    }
}

#[test]
fn a_torn_log_fails_only_an_open_that_wants_all() {
    let dir = ScratchDir::copy_of(&golden("wal-only"));
    truncate(&dir.join("000004.log"), |length| length - 10);
    let error = refusal(
        Options::new().set_wal_recovery_mode(RecoveryMode::AbsoluteConsistency),
        dir.path(),
    );
    assert_says(&error, ErrorKind::Corruption, &["000004.log"]);
    let db = Db::open(&Options::new(), dir.path()).unwrap();
    assert!(
        db.recovery_report()
            .logs
            .iter()
            .any(|log| log.number == 4 && log.problem.is_some())
    );
}

#[test]
fn damage_inside_the_log_keeps_what_is_before_it_and_says_so() {
    let dir = ScratchDir::copy_of(&golden("wal-only"));
    let log = dir.join("000004.log");
    change_byte(&log, middle(&log));
    let damaged = std::fs::read(&log).unwrap();
    let db = Db::open(&Options::new(), dir.path()).unwrap();
    let report = db.recovery_report();
    assert!(report.dropped_anything(), "{report}");
    let log_report = report.logs.iter().find(|log| log.number == 4).unwrap();
    assert!(
        log_report.batches > 0 && log_report.dropped_bytes > 0 && log_report.problem.is_some(),
        "{report}"
    );
    // Every value that is there was written; the last batch of the log is not there.
    let entries = expected("wal-only").families.remove("default").unwrap();
    let found: Vec<_> = db.range(..).map(Result::unwrap).collect();
    assert!(
        !found.is_empty() && found.len() < entries.len(),
        "{} of {}",
        found.len(),
        entries.len()
    );
    // Dropped data is not deleted.
    drop(db);
    let kept = [log, dir.join("archive").join("000004.log")];
    let kept = kept
        .iter()
        .find(|path| path.exists())
        .expect("the damaged log is kept");
    assert!(std::fs::read(kept).unwrap() == damaged);
}

#[test]
fn an_unknown_option_is_named() {
    let mut options = Options::new();
    let error = options
        .apply_str("no_such_option=1", &ConfigOptions::new())
        .unwrap_err();
    assert_says(&error, ErrorKind::InvalidArgument, &["no_such_option"]);

    let dir = ScratchDir::copy_of(&golden("block-v6"));
    let file = dir.only("OPTIONS");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(
        &file,
        text.replace("[CFOptions", "  no_such_option=1\n[CFOptions"),
    )
    .unwrap();
    let before = data_files(dir.path());
    let error = Options::load_latest(dir.path(), &ConfigOptions::new()).unwrap_err();
    assert_says(
        &error,
        ErrorKind::InvalidArgument,
        &["no_such_option", "OPTIONS-000007", "line"],
    );
    assert_unchanged(dir.path(), &before);
}

#[test]
fn a_value_out_of_range_is_named_with_the_range() {
    let dir = ScratchDir::copy_of(&golden("block-v6"));
    let mut options = Options::new();
    options.set_block_based_table_factory(BlockBasedOptions::new().set_format_version(9));
    assert_says(
        &refusal(&options, dir.path()),
        ErrorKind::InvalidArgument,
        &["format_version", "9", "2", "7"],
    );

    let mut options = Options::new();
    let error = options
        .apply_str("num_levels=many", &ConfigOptions::new())
        .unwrap_err();
    assert_says(&error, ErrorKind::InvalidArgument, &["num_levels", "many"]);

    let absent = ScratchDir::absent();
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_allow_mmap_reads(true)
        .set_use_direct_reads(true);
    let error = Db::open(&options, absent.path()).unwrap_err();
    assert_says(
        &error,
        ErrorKind::InvalidArgument,
        &["allow_mmap_reads", "use_direct_reads"],
    );
    assert!(!absent.path().exists());
}

#[test]
fn a_family_left_out_is_named() {
    let dir = ScratchDir::copy_of(&golden("column-families"));
    let error = refusal(&Options::new(), dir.path());
    assert_says(&error, ErrorKind::InvalidArgument, &["alpha", "beta"]);
}

#[test]
fn a_family_that_does_not_exist_is_not_created_unless_asked() {
    let dir = ScratchDir::copy_of(&golden("block-v6"));
    let before = data_files(dir.path());
    let error = Db::open_cf(&Options::new(), dir.path(), ["gamma"]).unwrap_err();
    assert_says(
        &error,
        ErrorKind::InvalidArgument,
        &["gamma", "create_missing_column_families"],
    );
    assert_unchanged(dir.path(), &before);
}

#[test]
fn a_plain_table_without_its_prefix_extractor_is_named() {
    for name in ["plain-fixed-stored-index", "plain-plain", "plain-prefix"] {
        let dir = ScratchDir::copy_of(&golden(name));
        let before = data_files(dir.path());
        let error = Db::open(&Options::new(), dir.path()).expect_err(name);
        let words = [".sst", "Prefix extractor is missing"];
        assert_says(&error, ErrorKind::InvalidArgument, &words);
        assert_unchanged(dir.path(), &before);
    }
}

/// Gives a table the footer of the next format version, with a checksum that matches.
fn make_newer(table: &Path) {
    let mut bytes = std::fs::read(table).unwrap();
    let start = bytes.len() - FOOTER_BYTES;
    let mut footer = Footer::decode(&bytes, bytes.len() as u64).unwrap();
    footer.format_version = FORMAT_VERSION_MAX + 1;
    let footer = footer.encode(start as u64).unwrap();
    bytes[start..].copy_from_slice(&footer);
    std::fs::write(table, bytes).unwrap();
}

#[test]
fn a_table_of_a_newer_format_is_refused_by_its_version_wherever_it_is_read() {
    let says = |error: &Error| {
        assert_says(
            error,
            ErrorKind::NotSupported,
            &["format_version 8", "newer than 7", ".sst"],
        );
    };
    let dir = ScratchDir::copy_of(&golden("block-v6"));
    let tables = data_files(dir.path());
    for (name, _) in tables.iter().filter(|(name, _)| name.ends_with(".sst")) {
        make_newer(&dir.join(name));
    }
    let before = data_files(dir.path());
    let options = Options::new();
    for is_read_only in [true, false] {
        let mut builder = Db::builder(&options);
        builder.other_column_families(options.cf_options());
        if is_read_only {
            builder.read_only();
        }
        // An open need not open all tables.
        match builder.open(dir.path()) {
            Err(error) => says(&error),
            Ok(db) => {
                says(&db.get("any").unwrap_err());
                says(&db.range(..).next().unwrap().unwrap_err());
                if !is_read_only {
                    says(&db.compact_range(..).unwrap_err());
                }
            }
        }
    }
    for (name, bytes) in before.iter().filter(|(name, _)| name.ends_with(".sst")) {
        assert!(std::fs::read(dir.join(name)).unwrap() == *bytes, "{name}");
        let table = dir.join(name);
        says(
            &SstFileReader::open(options.cf_options(), &table)
                .err()
                .unwrap(),
        );
        let other = ScratchDir::new();
        let db = Db::open(Options::new().create_if_missing(true), other.path()).unwrap();
        says(&db.ingest_external_file(&[&table]).unwrap_err());
    }
}
