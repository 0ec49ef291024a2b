//! The files that a database removes, and those that it never does.

use std::path::Path;
use std::sync::{Arc, Mutex};

use koeldb::fs::{FileSystem, MemoryFileSystem, Purpose, SurvivalPolicy, SystemClock};
use koeldb::{
    BackupEngine, BackupEngineOptions, CompactRangeOptions, Db, Env, ErrorDetail, ErrorKind,
    FlushOptions, Options, RecoveryMode, RestoreOptions, SstFileWriter, WriteOptions,
};

use crate::async_reads::block_on;
use crate::golden::{expected, golden};
use crate::prelude::{creating, with_three_tables};
use crate::scratch::{ScratchDir, data_files, files};
use crate::wait::until;

/// Names of database files that this database does not have.
const SOMEBODY_ELSES: [&str; 6] = [
    "000001.sst",
    "000002.blob",
    "000003.dbtmp",
    "MANIFEST-000001",
    "OPTIONS-000001",
    "CURRENT",
];

#[test]
fn in_a_directory_for_logs_only_logs_are_touched() {
    let (dir, logs) = (ScratchDir::new(), ScratchDir::new());
    std::fs::create_dir(logs.join("archive")).unwrap();
    for name in SOMEBODY_ELSES {
        std::fs::write(logs.join(name), "mine").unwrap();
        std::fs::write(logs.join("archive").join(name), "mine").unwrap();
    }
    let are_there = |directory: &Path| {
        let files = files(directory);
        SOMEBODY_ELSES.iter().all(|name| files.contains_key(*name))
    };
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_wal_dir(logs.path().to_str().unwrap());
    for round in 0..3 {
        let db = Db::open(&options, dir.path()).unwrap();
        db.put(format!("{round}"), "value").unwrap();
        if round == 1 {
            db.flush().unwrap();
        }
        drop(db);
        assert_eq!(logs.all("log").len(), 1);
        assert!(dir.all("log").is_empty());
    }
    let db = Db::open(&options, dir.path()).unwrap();
    assert_eq!(db.range(..).count(), 3);
    drop(db);
    // A log in a directory without logs of this database is not removed.
    std::fs::write(dir.join("000004.log"), "of another time").unwrap();
    drop(Db::open(&options, dir.path()).unwrap());
    assert!(dir.join("000004.log").exists());
    assert!(are_there(logs.path()) && are_there(&logs.join("archive")));
    Db::destroy(&options, dir.path()).unwrap();
    assert!(!dir.path().exists());
    assert!(logs.all("log").is_empty());
    assert!(are_there(logs.path()) && are_there(&logs.join("archive")));
}

#[test]
fn a_log_of_which_something_is_left_out_goes_to_the_archive() {
    for mode in [
        RecoveryMode::PointInTime,
        RecoveryMode::SkipAnyCorruptedRecords,
    ] {
        let dir = ScratchDir::copy_of(&golden("wal-only"));
        let log = dir.join("000004.log");
        let mut bytes = std::fs::read(&log).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x40;
        std::fs::write(&log, &bytes).unwrap();
        let mut options = Options::new();
        options.set_wal_recovery_mode(mode);
        let db = Db::open(&options, dir.path()).unwrap();
        assert!(db.recovery_report().dropped_anything());
        drop(db);
        assert!(!log.exists());
        let kept = files(&dir.join("archive"));
        assert_eq!(kept.into_values().collect::<Vec<_>>(), [bytes]);
        drop(Db::open(&options, dir.path()).unwrap());
        Db::destroy(&options, dir.path()).unwrap();
        assert!(!dir.path().exists());
    }
}

#[test]
fn a_damaged_log_is_never_lost_however_often_its_recovery_is_interrupted() {
    const HERE: &str = "/db";
    let here = Path::new(HERE);
    let with = |fs: &MemoryFileSystem| {
        let mut options = Options::new();
        options.set_env(&Env::new(Arc::new(fs.clone()), Arc::new(SystemClock)));
        options
    };
    let fs = MemoryFileSystem::new();
    fs.create_dir_all(here).unwrap();
    let mut damaged = Vec::new();
    for (name, mut bytes) in files(&golden("wal-only")) {
        if name == "000004.log" {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 0x40;
            damaged.clone_from(&bytes);
        }
        let mut file = fs.create(&here.join(name), &Default::default()).unwrap();
        file.append(&bytes).unwrap();
        file.close().unwrap();
    }
    let is_kept = |fs: &MemoryFileSystem| {
        [here.join("000004.log"), here.join("archive/000004.log")]
            .iter()
            .any(|path| {
                let bytes = fs.read_all(path, u64::MAX, Purpose::Read);
                bytes.is_ok_and(|bytes| bytes == damaged)
            })
    };
    let fs = fs.crash_image(SurvivalPolicy::Generous, 0);
    let images: Arc<Mutex<Vec<(String, MemoryFileSystem)>>> = Arc::default();
    let taken = Arc::clone(&images);
    fs.observe_mutations(move |fs, operation| {
        for policy in [
            SurvivalPolicy::Strict,
            SurvivalPolicy::Generous,
            SurvivalPolicy::TornPrefix,
            SurvivalPolicy::Reordered,
        ] {
            let what = format!("crash before operation {operation}, {policy:?}");
            let image = fs.crash_image(policy, operation);
            taken.lock().unwrap().push((what, image));
        }
    });
    let db = Db::open(&with(&fs), HERE).unwrap();
    let whole = expected("wal-only").families["default"].len();
    let recovered = db.range(..).count();
    assert!(recovered > 0 && recovered < whole);
    drop(db);
    fs.observe_mutations(|_, _| ());
    assert!(is_kept(&fs));
    for (what, image) in std::mem::take(&mut *images.lock().unwrap()) {
        assert!(is_kept(&image), "{what}");
        let db = Db::open(&with(&image), HERE).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(db.range(..).count(), recovered, "{what}");
        drop(db);
        assert!(is_kept(&image), "{what}, opened");
    }
}

/// The names of the logs in a directory.
fn logs(directory: &Path) -> Vec<String> {
    let names = std::fs::read_dir(directory).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut logs: Vec<String> = names.filter(|name| name.ends_with(".log")).collect();
    logs.sort();
    logs
}

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "neither the standard library nor rustix forks")]
#[test]
fn a_forked_child_leaves_the_database_to_its_parent() {
    let dir = ScratchDir::new();
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_write_buffer_size(128 << 10)
        .set_disable_auto_compactions(true);
    let db = Db::open(&options, dir.path()).unwrap();
    let mut keys = 0_u64;
    let mut put = |db: &Db| {
        keys += 1;
        db.put(keys.to_le_bytes(), [1; 1000]).unwrap();
    };
    // More than half of a memtable: the standby log is then created.
    let first = logs(dir.path()).len();
    for _ in 0..75 {
        put(&db);
    }
    while logs(dir.path()).len() == first {
        std::thread::yield_now();
    }
    let before = logs(dir.path());
    // SAFETY: the child continues with only this thread, and takes no lock of the test harness.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let closed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            assert_eq!(db.close().unwrap_err().kind(), ErrorKind::Aborted);
            drop(db);
        }));
        // SAFETY: ends the child without running anything of the parent's.
        unsafe { libc::_exit(i32::from(closed.is_err())) };
    }
    let mut status = 0;
    // SAFETY: waits for the child, and writes to a number of this function.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!((waited, status), (child, 0));
    assert_eq!(logs(dir.path()), before);
    // The standby log is in use, and contains new writes.
    while logs(dir.path()).contains(&before[0]) {
        put(&db);
    }
    db.flush_wal(true).unwrap();
    drop(db);
    let db = Db::open(&options, dir.path()).unwrap();
    for key in 1..=keys {
        assert!(db.get(key.to_le_bytes()).unwrap().is_some(), "key {key}");
    }
}

/// Runs `child` in a forked child, which must end without a panic.
///
/// The alarm ends a child that waits for a thread that it does not have.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "neither the standard library nor rustix forks")]
fn in_a_forked_child(child: impl FnOnce()) {
    // SAFETY: the child continues with only this thread, and takes no lock of the test harness.
    let process = unsafe { libc::fork() };
    if process == 0 {
        // SAFETY: a signal with its default action.
        unsafe { libc::alarm(300) };
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child));
        // SAFETY: ends the child without running anything of the parent's.
        unsafe { libc::_exit(i32::from(ended.is_err())) };
    }
    let mut status = 0;
    // SAFETY: waits for the child, and writes to a number of this function.
    let waited = unsafe { libc::waitpid(process, &raw mut status, 0) };
    assert_eq!((waited, status), (process, 0), "a signal or a panic");
}

/// Uses background threads: flushes, compactions, an asynchronous read, the removal of tables.
#[cfg(target_os = "linux")]
fn use_threads(db: &Db) {
    for round in 0..4 {
        db.put("key", format!("{round}")).unwrap();
        db.flush().unwrap();
    }
    db.compact_all(&CompactRangeOptions::new()).unwrap();
    let mut cursor = db.cursor();
    cursor.seek_to_first().unwrap();
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"3"[..]));
    assert_eq!(db.multi_get(&["key", "none"]).len(), 2);
}

#[cfg(target_os = "linux")]
#[test]
fn a_forked_child_works_with_databases_of_its_own() {
    let (dir, other, third) = (ScratchDir::new(), ScratchDir::new(), ScratchDir::new());
    let mut options = Options::new();
    options.create_if_missing(true);
    let db = Db::open(&options, dir.path()).unwrap();
    use_threads(&db);
    in_a_forked_child(|| {
        let own = Db::open(&options, other.path()).unwrap();
        use_threads(&own);
        let shared = Db::open(&options, dir.path()).unwrap_err();
        assert_eq!(shared.detail(), Some(ErrorDetail::LockHeld), "{shared}");
        in_a_forked_child(|| {
            let own = Db::open(Options::new().create_if_missing(true), third.path()).unwrap();
            use_threads(&own);
            own.close().unwrap();
        });
        use_threads(&own);
        own.close().unwrap();
        let own = Db::open(&options, other.path()).unwrap();
        use_threads(&own);
        drop(own);
    });
    use_threads(&db);
    db.close().unwrap();
    for dir in [&dir, &other, &third] {
        let db = Db::open(&Options::new(), dir.path()).unwrap();
        assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"3"[..]));
    }
    drop(db);
    // The parent has closed it: a child may open it.
    in_a_forked_child(|| use_threads(&Db::open(&options, dir.path()).unwrap()));
}

#[cfg(target_os = "linux")]
#[test]
fn a_forked_child_reads_an_inherited_database_and_cannot_change_it() {
    let (dir, elsewhere) = (ScratchDir::new(), ScratchDir::new());
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_write_buffer_size(64 << 10)
        .set_disable_auto_compactions(true);
    let db = Db::open(&options, dir.path()).unwrap();
    db.put("flushed", "value").unwrap();
    db.flush().unwrap();
    db.put("logged", "value").unwrap();
    // The flush may still write to the LOG and remove files.
    db.wait_for_compact(None).unwrap();
    let before = data_files(dir.path());
    in_a_forked_child(|| {
        for key in ["flushed", "logged"] {
            assert_eq!(db.get(key).unwrap().as_deref(), Some(&b"value"[..]));
        }
        assert_eq!(db.range(..).count(), 2);
        let mut unlogged = WriteOptions::new();
        unlogged.disable_wal(true);
        let options = db.default_cf().options();
        for refused in [
            db.put("key", "value"),
            db.default_cf().put_opt("key", "value", &unlogged),
            db.flush(),
            db.flush_wal(true),
            db.compact_all(&CompactRangeOptions::new()),
            db.create_cf("family", &options).map(drop),
            db.create_checkpoint(elsewhere.join("checkpoint")).map(drop),
            db.close(),
        ] {
            let error = refused.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Aborted, "{error}");
            assert!(error.to_string().contains("forked child"), "{error}");
        }
        drop(db.clone());
    });
    assert!(data_files(dir.path()) == before);
    for number in 0..1000 {
        db.put(format!("{number}"), [1; 200]).unwrap();
    }
    db.close().unwrap();
    let db = Db::open(&Options::new(), dir.path()).unwrap();
    assert_eq!(db.range(..).map(Result::unwrap).count(), 1002);
}

/// Waits until there are this many tables while the database is idle.
fn wait_for_tables(dir: &ScratchDir, count: usize) {
    let begun = std::time::Instant::now();
    while dir.all("sst").len() != count {
        let tables = dir.all("sst");
        assert!(begun.elapsed().as_secs() < 120, "{tables:?}");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

#[test]
fn the_last_reader_of_obsolete_tables_has_them_removed_from_an_idle_database() {
    let dir = ScratchDir::new();
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_disable_auto_compactions(true);
    let db = Db::open(&options, dir.path()).unwrap();
    let family = db.create_cf("dropped", &db.default_cf().options()).unwrap();
    family.put("key", "value").unwrap();
    family.flush().unwrap();
    wait_for_tables(&dir, 1);
    db.drop_cf(&family).unwrap();
    assert_eq!(dir.all("sst").len(), 1, "the handle reads it");
    drop(family);
    wait_for_tables(&dir, 0);

    for round in ["first", "second"] {
        for _ in 0..2 {
            db.put("a", round).unwrap();
            db.put("b", round).unwrap();
            db.flush().unwrap();
        }
        let before = dir.all("sst").len();
        let snapshot = db.snapshot();
        let mut cursor = db.cursor();
        cursor.seek_to_first().unwrap();
        let mut entries = snapshot.range(..);
        entries.next().unwrap().unwrap();
        db.compact_all(&CompactRangeOptions::new()).unwrap();
        assert_eq!(dir.all("sst").len(), before + 1);
        drop(cursor);
        assert_eq!(entries.next().unwrap().unwrap().0, b"b"[..]);
        assert_eq!(dir.all("sst").len(), before + 1);
        drop((entries, snapshot));
        wait_for_tables(&dir, 1);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_forked_child_uses_inherited_readers_and_objects_of_its_own_beside_them() {
    let (dir, own, backups) = (ScratchDir::new(), ScratchDir::new(), ScratchDir::new());
    let mut options = Options::new();
    options.create_if_missing(true);
    let db = Db::open(&options, dir.path()).unwrap();
    use_threads(&db);
    let read_only = Db::builder(&options).read_only().open(dir.path()).unwrap();
    let secondary = Db::open_as_secondary(&options, dir.path(), own.path()).unwrap();
    let engine = BackupEngine::open(backups.path(), &BackupEngineOptions::new()).unwrap();
    engine.create_new_backup(&db).unwrap();
    in_a_forked_child(|| {
        for reader in [&read_only, &secondary] {
            assert_eq!(reader.get("key").unwrap().as_deref(), Some(&b"3"[..]));
            assert_eq!(reader.range(..).map(Result::unwrap).count(), 1);
            let mut stream = reader.range(..).into_stream();
            assert!(block_on(stream.next()).unwrap().is_ok());
            let values = block_on(reader.multi_get_async(&["key", "none"]));
            assert_eq!(values.get(0).unwrap(), Some(&b"3"[..]));
            let value = block_on(reader.get_async("key")).unwrap();
            assert_eq!(value.as_deref(), Some(&b"3"[..]));
        }
        // Refused by a thread of the child.
        let refused = block_on(db.flush_async(&FlushOptions::new())).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Aborted, "{refused}");
        secondary.try_catch_up_with_primary().unwrap();
        let refused = engine.create_new_backup(&db).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Aborted, "{refused}");
        engine.verify_backup(1, true).unwrap();
        let restored = own.join("restored");
        engine
            .restore(1, &restored, &restored, &RestoreOptions::new())
            .unwrap();
        let table = own.join("own.sst");
        let mut writer = SstFileWriter::create(options.cf_options(), &table).unwrap();
        writer.put("key", "value").unwrap();
        writer.finish().unwrap();
        drop((read_only.clone(), secondary.clone()));
    });
    use_threads(&db);
    secondary.try_catch_up_with_primary().unwrap();
    engine.create_new_backup(&db).unwrap();
}

/// The inputs of a compaction remained until the next one, since its plan still referred to them.
#[test]
fn the_inputs_of_a_compaction_go_when_it_ends() {
    let dir = ScratchDir::new();
    let db = with_three_tables(&mut creating(), &dir);
    db.compact_all(&CompactRangeOptions::new()).unwrap();
    assert_eq!(db.live_files().len(), 1);
    // A flush that has answered may still hold a version.
    until("the inputs are removed", || dir.all("sst").len() == 1);
}
