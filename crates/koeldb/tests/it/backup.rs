//! Backups: naming, sharing, verification, restoration, removal, damage, and RocksDB's engine in the
//! same directory.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use koeldb::fs::{
    Failure, FaultRule, FileSystem, Operation, Purpose, SurvivalPolicy, SystemClock, WriteOptions,
};
use koeldb::{
    BackupEngine, BackupEngineOptions, CompactRangeOptions, CreateBackupOptions, Db, Env,
    ErrorDetail, ErrorKind, Options, RestoreMode, RestoreOptions, ShareFilesNaming,
};

use crate::expected::Expected;
use crate::rocksdb::Java;
use crate::scratch::ScratchDir;
use crate::storage::{HERE, Storage};

const BACKUPS: &str = "/backups";
const RESTORED: &str = "/restored";

struct Backed {
    storage: Storage,
    db: Db,
}

impl Backed {
    fn new() -> Self {
        let storage = Storage::new();
        let mut options = storage.options();
        options.set_file_checksum_gen_factory(koeldb::FileChecksumGenerator::Crc32c);
        let db = Db::open(&options, HERE).unwrap();
        Backed { storage, db }
    }

    fn env(&self) -> Env {
        Env::new(Arc::clone(&self.storage.faults) as _, Arc::new(SystemClock))
    }

    fn engine_options(&self) -> BackupEngineOptions {
        let mut options = BackupEngineOptions::new();
        options.set_env(&self.env());
        options
    }

    fn engine(&self) -> BackupEngine {
        BackupEngine::open(BACKUPS, &self.engine_options()).unwrap()
    }

    /// One more table, and data in the log.
    fn grow(&self, from: u32) {
        for index in from..from + 100 {
            self.db.put(format!("key{index:05}"), "value").unwrap();
        }
        self.db.flush().unwrap();
        self.db.put(format!("log{from:05}"), "value").unwrap();
    }

    fn contents(&self) -> Expected {
        contents(&self.db)
    }

    fn check_restored(&self, expected: &Expected, what: &str) {
        let db = Db::open(&self.storage.options(), RESTORED).unwrap();
        expected.check(&db, what);
        db.verify_checksums().unwrap();
    }

    fn names(&self, directory: &str) -> BTreeSet<String> {
        let path = Path::new(BACKUPS).join(directory);
        let entries = self.storage.memory.list(&path).unwrap();
        let names = entries.into_iter().map(|entry| entry.name);
        names.filter(|name| name != ".koeldb-lock").collect()
    }

    fn write(&self, path: &str, bytes: &[u8]) {
        let memory = &self.storage.memory;
        let _ = memory.remove_file(path.as_ref());
        let mut file = memory
            .create(path.as_ref(), &WriteOptions::default())
            .unwrap();
        file.append(bytes).unwrap();
        file.close().unwrap();
    }

    fn read(&self, path: &str) -> Vec<u8> {
        let memory = &self.storage.memory;
        memory
            .read_all(path.as_ref(), u64::MAX, Purpose::Other)
            .unwrap()
    }
}

fn contents(db: &Db) -> Expected {
    let mut expected = Expected::default();
    for family in db.cf_handles() {
        let entries = expected.family(family.name());
        for entry in family.range(..) {
            let (key, value) = entry.unwrap();
            entries.insert(key.to_vec(), value.to_vec());
        }
    }
    expected
}

#[test]
fn backups_of_every_naming_and_schema_share_tables_and_restore() {
    type Choice = fn(&mut BackupEngineOptions);
    let choices: [(&str, Choice, &str); 6] = [
        ("default", |_| (), "shared_checksum"),
        (
            "schema 2",
            |options| {
                options.set_schema_version(2);
            },
            "shared_checksum",
        ),
        (
            "session id alone",
            |options| {
                options.set_share_files_with_checksum_naming(ShareFilesNaming::UseDbSessionId);
            },
            "shared_checksum",
        ),
        (
            "checksum and size",
            |options| {
                let naming = ShareFilesNaming::LegacyCrc32cAndFileSize;
                options.set_share_files_with_checksum_naming(naming);
            },
            "shared_checksum",
        ),
        (
            "names of the database",
            |options| {
                options.set_share_files_with_checksum(false);
            },
            "shared",
        ),
        (
            "nothing shared",
            |options| {
                options.set_share_table_files(false);
            },
            "private/1",
        ),
    ];
    for (what, choose, directory) in choices {
        let backed = Backed::new();
        let mut options = backed.engine_options();
        choose(&mut options);
        let engine = BackupEngine::open(BACKUPS, &options).unwrap();
        backed.grow(0);
        let first = backed.contents();
        assert_eq!(engine.create_new_backup(&backed.db).unwrap(), 1);
        let is_table = |name: &String| name.ends_with(".sst");
        assert_eq!(
            backed
                .names(directory)
                .iter()
                .filter(|n| is_table(n))
                .count(),
            1,
            "{what}"
        );
        backed.grow(200);
        let second = backed.contents();
        let mut how = CreateBackupOptions::new();
        how.set_app_metadata("of the second night");
        assert_eq!(engine.create_new_backup_opt(&backed.db, &how).unwrap(), 2);
        if directory != "private/1" {
            assert_eq!(backed.names(directory).len(), 2, "{what}");
        }
        drop(engine);
        let engine = BackupEngine::open(BACKUPS, &options).unwrap();
        assert!(engine.corrupted_backups().is_empty(), "{what}");
        let infos = engine.backups();
        assert_eq!(infos[1].app_metadata, b"of the second night");
        assert!(infos[1].sequence_number > infos[0].sequence_number);
        for (id, expected) in [(1, &first), (2, &second), (1, &first)] {
            engine.verify_backup(id, true).unwrap();
            let how = RestoreOptions::new();
            engine.restore(id, RESTORED, RESTORED, &how).unwrap();
            backed.check_restored(expected, what);
        }
        engine.delete_backup(1).unwrap();
        engine.restore_latest(RESTORED).unwrap();
        backed.check_restored(&second, what);
        engine.purge_old_backups(0).unwrap();
        for directory in ["shared", "shared_checksum", "private", "meta"] {
            assert!(backed.names(directory).is_empty(), "{what} {directory}");
        }
    }
}

#[test]
fn a_damaged_file_is_found_by_verification_and_by_restoration() {
    let backed = Backed::new();
    let engine = backed.engine();
    backed.grow(0);
    engine.create_new_backup(&backed.db).unwrap();
    let name = backed.names("shared_checksum").into_iter().next().unwrap();
    let path = format!("{BACKUPS}/shared_checksum/{name}");
    let good = backed.read(&path);
    let mut bad = good.clone();
    bad[good.len() / 2] ^= 1;
    backed.write(&path, &bad);
    engine.verify_backup(1, false).unwrap();
    let error = engine.verify_backup(1, true).unwrap_err();
    assert_eq!(error.detail(), Some(ErrorDetail::ChecksumMismatch));
    assert!(error.to_string().contains(&name), "{error}");
    let error = engine.restore_latest(RESTORED).unwrap_err();
    assert!(error.is_corruption(), "{error}");
    let error = Db::open(&backed.storage.options(), RESTORED).unwrap_err();
    assert!(error.is_corruption(), "a part of a database: {error}");

    bad.pop();
    backed.write(&path, &bad);
    assert!(engine.verify_backup(1, false).unwrap_err().is_corruption());
    let error = engine.create_new_backup(&backed.db);
    assert_eq!(error.unwrap(), 2, "the length at open counts until then");
    drop(engine);
    let engine = backed.engine();
    backed.db.put("more", "1").unwrap();
    let error = engine.create_new_backup(&backed.db).unwrap_err();
    assert!(error.to_string().contains("verify"), "{error}");
    assert_eq!(engine.backups().len(), 2);
}

#[test]
fn a_table_that_is_not_what_the_manifest_records_fails_the_backup() {
    let backed = Backed::new();
    let engine = backed.engine();
    backed.grow(0);
    let table = backed.storage.only(".sst");
    let path = table.to_str().unwrap();
    let mut bytes = backed.read(path);
    bytes[20] ^= 1;
    backed.write(path, &bytes);
    let error = engine.create_new_backup(&backed.db).unwrap_err();
    assert!(error.is_corruption(), "{error}");
    assert!(error.to_string().contains(path), "{error}");
    assert!(engine.backups().is_empty());
}

#[test]
fn writes_without_the_log_are_part_of_a_backup() {
    let backed = Backed::new();
    backed.db.put("logged", "1").unwrap();
    let mut unlogged = koeldb::WriteOptions::new();
    unlogged.disable_wal(true);
    backed.db.put_opt("unlogged", "1", &unlogged).unwrap();
    backed.db.put("later", "1").unwrap();
    let engine = backed.engine();
    engine.create_new_backup(&backed.db).unwrap();
    engine.restore_latest(RESTORED).unwrap();
    backed.check_restored(&backed.contents(), "a backup without a flush");
}

#[test]
fn one_engine_writes_and_others_read() {
    let backed = Backed::new();
    backed.grow(0);
    let engine = backed.engine();
    let error = BackupEngine::open(BACKUPS, &backed.engine_options()).unwrap_err();
    assert_eq!(error.detail(), Some(ErrorDetail::LockHeld));
    engine.create_new_backup(&backed.db).unwrap();
    let reader = BackupEngine::open_read_only(BACKUPS, &backed.engine_options()).unwrap();
    reader.verify_backup(1, true).unwrap();
    let error = reader.create_new_backup(&backed.db).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported);
    assert_eq!(
        reader.delete_backup(1).unwrap_err().kind(),
        ErrorKind::NotSupported
    );
    let error = engine.verify_backup(7, false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn a_restoration_keeps_what_its_mode_says_and_files_of_others() {
    let backed = Backed::new();
    let engine = backed.engine();
    backed.grow(0);
    backed.grow(200);
    engine.create_new_backup(&backed.db).unwrap();
    let expected = backed.contents();
    engine.restore_latest(RESTORED).unwrap();
    {
        // The database goes on: a new table, another log.
        let mut options = backed.storage.options();
        options.set_disable_auto_compactions(true);
        let db = Db::open(&options, RESTORED).unwrap();
        db.put("key00001", "changed").unwrap();
        db.flush().unwrap();
    }
    backed.write("/restored/letter.txt", b"dear");
    for (mode, kept) in [
        (RestoreMode::KeepLatestDbSessionIdFiles, 2),
        (RestoreMode::VerifyChecksum, 2),
        (RestoreMode::PurgeAllFiles, 0),
    ] {
        let mut how = RestoreOptions::new();
        how.set_mode(mode);
        let report = engine.restore(1, RESTORED, RESTORED, &how).unwrap();
        assert_eq!(report.kept_files, kept, "{mode:?}");
        assert_eq!(report.unknown_names, ["letter.txt"], "{mode:?}");
        assert_eq!(backed.read("/restored/letter.txt"), b"dear");
        backed.check_restored(&expected, &format!("{mode:?}"));
    }
    let open = Db::open(&backed.storage.options(), RESTORED).unwrap();
    let error = engine.restore_latest(RESTORED).unwrap_err();
    assert_eq!(error.detail(), Some(ErrorDetail::LockHeld));
    drop(open);
}

#[test]
fn excluded_files_come_from_an_alternate_directory() {
    let backed = Backed::new();
    backed.grow(0);
    let whole = backed.engine();
    whole.create_new_backup(&backed.db).unwrap();
    let engine = BackupEngine::open("/partial", &backed.engine_options()).unwrap();
    let mut how = CreateBackupOptions::new();
    how.set_exclude_files(|path| path.ends_with(".sst"));
    engine.create_new_backup_opt(&backed.db, &how).unwrap();
    drop(engine);
    let engine = BackupEngine::open("/partial", &backed.engine_options()).unwrap();
    let excluded = &engine.backups()[0].excluded_files;
    assert_eq!(excluded.len(), 1);
    let error = engine.restore_latest(RESTORED).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains(&excluded[0]), "{error}");
    let mut how = RestoreOptions::new();
    how.add_alternate_dir("/nowhere").add_alternate_dir(BACKUPS);
    engine.restore(1, RESTORED, RESTORED, &how).unwrap();
    backed.check_restored(&backed.contents(), "from two directories");
}

#[test]
fn remains_are_collected_unless_a_damaged_backup_may_need_them() {
    let backed = Backed::new();
    let engine = backed.engine();
    backed.grow(0);
    engine.create_new_backup(&backed.db).unwrap();
    backed.db.compact_all(&CompactRangeOptions::new()).unwrap();
    backed.grow(200);
    engine.create_new_backup(&backed.db).unwrap();
    drop(engine);
    backed
        .storage
        .memory
        .create_dir_all(format!("{BACKUPS}/private/7").as_ref())
        .unwrap();
    for remains in [
        "meta/.3.tmp",
        "shared_checksum/.000099_s1_1.sst.tmp",
        "shared_checksum/000099_s1_1.sst",
        "private/7/CURRENT",
    ] {
        backed.write(&format!("{BACKUPS}/{remains}"), b"x");
    }
    let meta = format!("{BACKUPS}/meta/1");
    let good = backed.read(&meta);
    backed.write(&meta, b"noon\n");
    let engine = backed.engine();
    assert_eq!(engine.corrupted_backups().len(), 1);
    engine.garbage_collect().unwrap();
    assert!(backed.names("shared_checksum").contains("000099_s1_1.sst"));
    assert!(
        !backed
            .names("shared_checksum")
            .contains(".000099_s1_1.sst.tmp")
    );
    assert_eq!(backed.names("private").len(), 2);
    drop(engine);
    backed.write(&meta, &good);
    let engine = backed.engine();
    engine.garbage_collect().unwrap();
    assert!(!backed.names("shared_checksum").contains("000099_s1_1.sst"));
    engine.verify_backup(1, true).unwrap();
    engine.verify_backup(2, true).unwrap();
}

#[test]
fn a_meta_file_of_others_makes_one_damaged_backup() {
    let backed = Backed::new();
    backed.grow(0);
    let engine = backed.engine();
    engine.create_new_backup(&backed.db).unwrap();
    drop(engine);
    backed.write("/secret", b"x");
    for meta in [
        "1\n2\n1\n../secret crc32 1\n",
        "1\n2\n1\nshared_checksum/../../secret crc32 1\n",
        "1\n2\n99999999999\n",
        "1\n2\n1\nshared/000001.sst crc32 1\n",
        "\u{0}\n",
    ] {
        backed.write(&format!("{BACKUPS}/meta/2"), meta.as_bytes());
        let engine = backed.engine();
        let damaged = engine.corrupted_backups();
        assert_eq!(damaged.len(), 1, "{meta:?}");
        assert_eq!(damaged[0].0, 2);
        assert!(
            engine
                .restore(2, RESTORED, RESTORED, &RestoreOptions::new())
                .is_err()
        );
        engine.verify_backup(1, true).unwrap();
        assert_eq!(engine.create_new_backup(&backed.db).unwrap(), 3, "{meta:?}");
        engine.delete_backup(3).unwrap();
        engine.delete_backup(2).unwrap();
        assert_eq!(backed.read("/secret"), b"x");
    }
}

#[test]
fn a_stopped_backup_leaves_the_engine_usable() {
    let backed = Backed::new();
    backed.grow(0);
    let engine = backed.engine();
    let stop = engine.stop_handle();
    let mut how = CreateBackupOptions::new();
    how.set_progress(move |_, _| stop.stop());
    let error = engine.create_new_backup_opt(&backed.db, &how).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incomplete);
    let seen = Arc::new(AtomicU64::new(0));
    let of_progress = Arc::clone(&seen);
    let mut how = CreateBackupOptions::new();
    how.set_flush_before_backup(true)
        .set_progress(move |done, all| {
            assert!(done <= all);
            of_progress.store(done, Ordering::Relaxed);
        });
    engine.create_new_backup_opt(&backed.db, &how).unwrap();
    assert!(seen.load(Ordering::Relaxed) > 0);
    engine.verify_backup(1, true).unwrap();
}

#[test]
fn a_verification_does_not_take_back_the_stop_of_a_restoration() {
    let backed = Backed::new();
    backed.grow(0);
    let engine = Arc::new(backed.engine());
    engine.create_new_backup(&backed.db).unwrap();
    let (stop, other) = (engine.stop_handle(), Arc::clone(&engine));
    let mut how = RestoreOptions::new();
    how.set_progress(move |_, _| {
        stop.stop();
        other.verify_backup(1, false).unwrap();
    });
    let restored = engine.restore(1, RESTORED, RESTORED, &how);
    assert_eq!(restored.unwrap_err().kind(), ErrorKind::Incomplete);
    engine.restore_latest(RESTORED).unwrap();
}

#[test]
fn a_table_of_the_same_number_and_length_is_not_taken_for_another() {
    for is_recorded in [false, true] {
        let storage = Storage::new();
        let mut options = storage.options();
        if is_recorded {
            options.set_file_checksum_gen_factory(koeldb::FileChecksumGenerator::Crc32c);
        }
        let env = Env::new(Arc::clone(&storage.faults) as _, Arc::new(SystemClock));
        let mut how = BackupEngineOptions::new();
        how.set_env(&env).set_share_files_with_checksum(false);
        let engine = BackupEngine::open(BACKUPS, &how).unwrap();
        let make = |path: &str, value: &str| {
            let db = Db::open(&options, path).unwrap();
            db.put("key", value).unwrap();
            db.flush().unwrap();
            db
        };
        let db = make("/one", "value");
        engine.create_new_backup(&db).unwrap();
        engine.create_new_backup(&db).unwrap();
        let error = engine
            .create_new_backup(&make("/two", "other"))
            .unwrap_err();
        assert!(error.is_corruption(), "{error}");
        let text = error.to_string();
        let names_both = text.contains("shared/0") && text.contains("with checksum");
        assert!(names_both, "{text}");
        engine.verify_backup(2, true).unwrap();
    }
}

#[test]
fn a_collection_makes_an_interrupted_removal_durable_first() {
    let backed = Backed::new();
    backed.grow(0);
    let engine = backed.engine();
    engine.create_new_backup(&backed.db).unwrap();
    let rule = FaultRule::fail(Failure::Device).on(&[Operation::SyncDir]);
    backed.storage.faults.add_rule(rule);
    engine.delete_backup(1).unwrap_err();
    assert!(!backed.names("shared_checksum").is_empty());
    backed.storage.faults.clear_rules();
    engine.garbage_collect().unwrap();
    let left = backed.storage.memory.crash_image(SurvivalPolicy::Strict, 0);
    let mut how = BackupEngineOptions::new();
    how.set_env(&Env::new(Arc::new(left), Arc::new(SystemClock)));
    let engine = BackupEngine::open(BACKUPS, &how).unwrap();
    assert!(engine.backups().is_empty() && engine.corrupted_backups().is_empty());
}

#[test]
fn an_error_at_any_operation_of_a_backup_spoils_no_other() {
    let mut at = 1;
    loop {
        let backed = Backed::new();
        let engine = backed.engine();
        backed.grow(0);
        engine.create_new_backup(&backed.db).unwrap();
        backed.grow(200);
        let rule = FaultRule::fail(Failure::NoSpace)
            .purpose(Purpose::Backup)
            .on_mutations();
        backed.storage.faults.add_rule(rule.nth(at));
        let made = engine.create_new_backup(&backed.db);
        backed.storage.faults.clear_rules();
        drop(engine);
        let engine = backed.engine();
        assert!(engine.corrupted_backups().is_empty(), "after {at}");
        engine.verify_backup(1, true).unwrap();
        if made.is_ok() {
            break;
        }
        engine.garbage_collect().unwrap();
        engine.create_new_backup(&backed.db).unwrap();
        engine.verify_backup(2, true).unwrap();
        at += 1;
    }
    assert!(at > 5, "{at} operations");
}

#[test]
fn rocksdb_and_koeldb_write_backups_in_turn() {
    let Some(java) = Java::find() else { return };
    let dir = ScratchDir::new();
    let path = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    let (db_path, backups, restored) = (path("db"), path("backups"), path("restored"));
    let mut options = Options::new();
    options.create_if_missing(true);
    let put = |from: u32| {
        let db = Db::open(&options, &db_path).unwrap();
        for index in from..from + 50 {
            db.put(format!("key{index:05}"), "of KoelDB").unwrap();
        }
        db.flush().unwrap();
        db.put(format!("log{from}"), "of KoelDB").unwrap();
        let engine = BackupEngine::open(&backups, &BackupEngineOptions::new()).unwrap();
        let id = engine.create_new_backup(&db).unwrap();
        (id, contents(&db))
    };
    assert_eq!(put(0).0, 1);
    java.files(&["fill", &db_path, "100", "50"]);
    java.files(&["backup", &db_path, &backups]);
    let (id, expected) = put(200);
    assert_eq!(id, 3);
    // RocksDB's engine takes ours.
    let listed = java.files(&["backups", &backups]);
    assert_eq!(listed.lines().count(), 3, "{listed}");
    java.files(&["verify", &backups]);
    java.files(&["collect", &backups]);
    java.files(&["restore", &backups, &restored]);
    assert_eq!(java.check(restored.as_ref(), &[]).found, expected);
    expected.check(
        &Db::open(&options, &restored).unwrap(),
        "restored by RocksDB",
    );
    // Our engine takes RocksDB's, of every naming.
    for how in [&[][..], &["flush"], &["legacy"], &["private"]] {
        java.files(&[&["backup", &db_path, &backups], how].concat());
        let engine = BackupEngine::open(&backups, &BackupEngineOptions::new()).unwrap();
        assert!(engine.corrupted_backups().is_empty(), "{how:?}");
        let last = engine.backups().pop().unwrap();
        assert_eq!(last.app_metadata, b"of RocksDB");
        engine.verify_backup(last.backup_id, true).unwrap();
        engine.restore_latest(&restored).unwrap();
        expected.check(&Db::open(&options, &restored).unwrap(), &format!("{how:?}"));
    }
    // Each removes what the other made.
    java.files(&["purge", &backups, "5"]);
    let engine = BackupEngine::open(&backups, &BackupEngineOptions::new()).unwrap();
    assert_eq!(engine.backups().len(), 5);
    engine.garbage_collect().unwrap();
    engine.purge_old_backups(2).unwrap();
    drop(engine);
    java.files(&["verify", &backups]);
    assert_eq!(java.files(&["backups", &backups]).lines().count(), 2);
}
