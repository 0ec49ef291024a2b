//! Options of the files that a database writes: how they are synced, written back and reserved.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use koeldb::fs::layer::{Call, Layer, Layered, Operation};
use koeldb::fs::{
    AccessHint, FileSystem, MemoryFileSystem, OpenOptions, Purpose, SurvivalPolicy, SystemClock,
    WriteOptions,
};
use koeldb::{
    ColumnFamilyOptions, Db, Env, Error, ErrorKind, Options, RecoveryMode, Result, Temperature,
};

use crate::scratch::{ScratchDir, files};

/// Notes how files are created.
#[derive(Debug, Default)]
struct Notes {
    created: Mutex<Vec<(String, WriteOptions)>>,
    /// The tables opened for reads.
    opened: Mutex<Vec<OpenOptions>>,
    /// The largest read of a log or MANIFEST.
    largest_log_read: AtomicU64,
    /// Whether direct writes fail, as on some file systems.
    refuses_direct: AtomicBool,
}

impl Layer for Notes {
    fn around<T>(&self, call: &Call<'_>, proceed: impl FnOnce() -> Result<T>) -> Result<T> {
        if let Some(options) = call.write_options {
            let name = call.path.file_name().unwrap().to_string_lossy();
            self.created
                .lock()
                .unwrap()
                .push((name.into_owned(), *options));
            if options.direct && self.refuses_direct.load(Ordering::Relaxed) {
                let refused = std::io::Error::from(std::io::ErrorKind::InvalidInput);
                return Err(Error::io(refused, "create", call.path));
            }
        }
        let name = call.path.file_name().unwrap_or_default().to_string_lossy();
        if let Some(options) = call.open_options
            && name.ends_with(".sst")
        {
            self.opened.lock().unwrap().push(*options);
        }
        if call.operation == Operation::Read && name.ends_with(".log") {
            self.largest_log_read.fetch_max(call.len, Ordering::Relaxed);
        }
        proceed()
    }
}

/// A database in memory, and how its files are created.
struct Noted {
    fs: Layered<Notes>,
}

impl Noted {
    fn new() -> Self {
        let memory = Arc::new(MemoryFileSystem::new());
        Noted {
            fs: Layered::with_layer(memory, Notes::default()),
        }
    }

    fn options(&self) -> Options {
        let mut options = Options::new();
        options
            .create_if_missing(true)
            .set_env(&Env::new(Arc::new(self.fs.clone()), Arc::new(SystemClock)));
        options
    }

    /// Flushes and compacts, and returns the settings of the last file of each purpose.
    fn run(&self, db: &Db) -> BTreeMap<&'static str, WriteOptions> {
        self.fs.layer().created.lock().unwrap().clear();
        for round in 0..2 {
            for key in 0..100 {
                db.put(format!("{key:03}"), format!("{round}")).unwrap();
            }
            db.flush().unwrap();
        }
        db.compact_range(..).unwrap();
        self.last()
    }

    fn last(&self) -> BTreeMap<&'static str, WriteOptions> {
        let created = self.fs.layer().created.lock().unwrap();
        let kind = |(name, options): &(String, WriteOptions)| {
            let kind = match options.purpose {
                Purpose::Wal => "log",
                Purpose::Flush => "flush",
                Purpose::Compaction => "compaction",
                Purpose::Manifest if name.starts_with("MANIFEST") => "manifest",
                _ => return None,
            };
            Some((kind, *options))
        };
        created.iter().filter_map(kind).collect()
    }
}

#[test]
fn logs_tables_and_manifests_are_synced_and_written_back_as_the_options_say() {
    for on in [false, true] {
        let noted = Noted::new();
        let mut options = noted.options();
        options
            .set_use_fsync(on)
            .set_strict_bytes_per_sync(on)
            .set_allow_fallocate(on)
            .set_max_manifest_file_size(1)
            .set_max_manifest_space_amp_pct(0)
            .set_manifest_preallocation_size(123);
        let db = Db::open(&options, "/db").unwrap();
        let files = noted.run(&db);
        assert_eq!(files.len(), 4, "{files:?}");
        for (kind, file) in &files {
            assert_eq!(file.full_sync, on, "{kind}");
            assert_eq!(file.strict_bytes_per_sync, on, "{kind}");
            // The size of a flushed table is not known before.
            let reserves = on && *kind != "flush";
            assert_eq!(file.preallocate_bytes > 0, reserves, "{kind}: {file:?}");
        }
        if on {
            assert_eq!(files["manifest"].preallocate_bytes, 123);
        }
    }
}

#[test]
fn files_have_the_temperatures_of_the_options() {
    let noted = Noted::new();
    let mut options = noted.options();
    options
        .set_wal_write_temperature(Temperature::Ice)
        .set_metadata_write_temperature(Temperature::Hot)
        .set_default_write_temperature(Temperature::Warm)
        .set_last_level_temperature(Temperature::Cold)
        .set_default_temperature(Temperature::Cool)
        .set_max_manifest_file_size(1)
        .set_max_manifest_space_amp_pct(0);
    let db = Db::open(&options, "/db").unwrap();
    let files = noted.run(&db);
    let temperatures = files.iter().map(|(kind, file)| (*kind, file.temperature));
    let expected = [
        ("compaction", 12),
        ("flush", 8),
        ("log", 16),
        ("manifest", 4),
    ];
    assert_eq!(temperatures.collect::<Vec<_>>(), expected);
    // The MANIFEST keeps them.
    drop(db);
    noted.fs.layer().opened.lock().unwrap().clear();
    let db = Db::open(&options, "/db").unwrap();
    assert_eq!(db.live_files()[0].temperature, 12);
    let property = "rocksdb.live-sst-files-size-at-temperature12";
    assert_ne!(db.property_value(property).unwrap().as_deref(), Some("0"));
    let opened = noted.fs.layer().opened.lock().unwrap().clone();
    assert!(!opened.is_empty() && opened.iter().all(|file| file.temperature == 12));
}

#[test]
fn tables_are_opened_as_the_options_say() {
    for on in [false, true] {
        let noted = Noted::new();
        let mut options = noted.options();
        options
            .set_advise_random_on_open(on)
            .set_default_temperature(Temperature::Cool);
        let db = Db::open(&options, "/db").unwrap();
        noted.run(&db);
        let opened = noted.fs.layer().opened.lock().unwrap().clone();
        let hint = if on {
            AccessHint::Random
        } else {
            AccessHint::Normal
        };
        assert!(!opened.is_empty());
        assert!(opened.iter().all(|file| file.hint == hint), "{opened:?}");
        assert!(opened.iter().all(|file| file.temperature == 10));
    }
}

#[test]
fn an_open_reads_logs_in_pieces_of_the_given_size() {
    for (bytes, expected) in [(0, 256 << 10), (1, 32 << 10), (500_000, 512 << 10)] {
        let noted = Noted::new();
        let mut options = noted.options();
        options
            .set_log_readahead_size(bytes)
            .set_avoid_flush_during_shutdown(true);
        let db = Db::open(&options, "/db").unwrap();
        for key in 0..1000 {
            db.put(format!("{key}"), [7; 1000]).unwrap();
        }
        drop(db);
        let db = Db::open(&options, "/db").unwrap();
        assert!(db.get("999").unwrap().is_some());
        let largest = noted.fs.layer().largest_log_read.load(Ordering::Relaxed);
        assert_eq!(largest, expected);
    }
}

#[test]
fn a_manifest_that_was_damaged_while_it_was_open_is_replaced_at_close() {
    for verifies in [false, true] {
        let dir = ScratchDir::new();
        let mut options = Options::new();
        options
            .create_if_missing(true)
            .set_verify_manifest_content_on_close(verifies);
        let db = Db::open(&options, dir.path()).unwrap();
        for round in 0..3 {
            db.put("key", format!("{round}")).unwrap();
            db.flush().unwrap();
        }
        let manifests = files(dir.path()).into_iter();
        let (live, mut bytes) = manifests
            .filter(|(name, _)| name.starts_with("MANIFEST"))
            .max()
            .unwrap();
        let live = dir.path().join(live);
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&live, bytes).unwrap();
        db.close().unwrap();
        drop(db);
        let reopened = Db::open(&options, dir.path());
        if verifies {
            assert_eq!(*reopened.unwrap().get("key").unwrap().unwrap(), *b"2");
        } else {
            assert_eq!(reopened.unwrap_err().kind(), ErrorKind::Corruption);
        }
    }
}

#[test]
fn changed_options_apply_to_the_next_file() {
    let noted = Noted::new();
    let db = Db::open(&noted.options(), "/db").unwrap();
    let before = noted.run(&db);
    assert_eq!(before["log"].bytes_per_sync, 0);
    db.set_db_options([
        ("bytes_per_sync", "111"),
        ("wal_bytes_per_sync", "222"),
        ("strict_bytes_per_sync", "true"),
        ("writable_file_max_buffer_size", "70000"),
        ("max_manifest_file_size", "1"),
        ("max_manifest_space_amp_pct", "0"),
        ("manifest_preallocation_size", "333"),
    ])
    .unwrap();
    let after = noted.run(&db);
    for kind in ["flush", "compaction"] {
        assert_eq!(after[kind].bytes_per_sync, 111);
        assert_eq!(after[kind].buffer_bytes, 70_000);
    }
    assert_eq!(after["log"].bytes_per_sync, 222);
    assert_eq!(after["log"].buffer_bytes, 70_000);
    // A small MANIFEST is replaced by the next edit only under the new limit.
    assert!(!before.contains_key("manifest"));
    assert_eq!(after["manifest"].preallocate_bytes, 333);
    assert!(after.values().all(|file| file.strict_bytes_per_sync));
}

#[test]
fn logs_are_bounded_although_no_memtable_is_full() {
    let open = |limit: u64| {
        let fs: Arc<dyn FileSystem> = Arc::new(MemoryFileSystem::new());
        let env = Env::stepped(Arc::clone(&fs), Arc::new(SystemClock), 1);
        let mut options = Options::new();
        options
            .create_if_missing(true)
            .set_max_total_wal_size(limit)
            .set_env(&env);
        let db = Db::open(&options, "/db").unwrap();
        let other = db
            .create_cf("other", &ColumnFamilyOptions::default())
            .unwrap();
        other.put("rare", "value").unwrap();
        (db, fs, env)
    };
    let logs = |fs: &Arc<dyn FileSystem>| {
        let entries = fs.list(Path::new("/db")).unwrap();
        let logs = entries.iter().filter(|entry| entry.name.ends_with(".log"));
        let path = |name: &String| Path::new("/db").join(name);
        logs.map(|log| fs.metadata(&path(&log.name)).unwrap().len)
            .sum::<u64>()
    };
    let put = |db: &Db, env: &Env, key: u32| {
        db.put(format!("{key:04}"), [1; 1000]).unwrap();
        while env.step() {}
    };
    let (db, fs, env) = open(100_000);
    for key in 0..1000 {
        put(&db, &env, key);
        let bytes = logs(&fs);
        assert!(
            bytes < 110_000,
            "{bytes} bytes after {key}: {:?}",
            fs.list(Path::new("/db"))
        );
    }
    // A change applies to the next write.
    let (db, fs, env) = open(0);
    for key in 0..1000 {
        put(&db, &env, key);
    }
    assert!(logs(&fs) > 1_000_000);
    db.set_db_options([("max_total_wal_size", "100000")])
        .unwrap();
    put(&db, &env, 1000);
    assert!(logs(&fs) < 110_000);
}

#[test]
fn the_identity_is_where_the_options_say() {
    let fs: Arc<dyn FileSystem> = Arc::new(MemoryFileSystem::new());
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_write_identity_file(false)
        .set_env(&Env::new(Arc::clone(&fs), Arc::new(SystemClock)));
    let file = Path::new("/db/IDENTITY");
    let open = |options: &Options| Db::open(options, "/db").unwrap().identity().to_owned();
    let identity = open(&options);
    assert!(!fs.exists(file).unwrap());
    assert_eq!(open(&options), identity);
    options.set_write_identity_file(true);
    assert_eq!(open(&options), identity);
    assert!(fs.exists(file).unwrap());
    // One that is not wanted any more is removed.
    options.set_write_identity_file(false);
    assert_eq!(open(&options), identity);
    assert!(!fs.exists(file).unwrap());
    assert_eq!(open(&options), identity);
}

#[test]
fn unused_space_at_the_end_of_logs_and_manifests_is_no_damage() {
    let fs = MemoryFileSystem::new();
    let options = |fs: &MemoryFileSystem, mode| {
        let mut options = Options::new();
        options
            .create_if_missing(true)
            .set_wal_recovery_mode(mode)
            .set_env(&Env::new(Arc::new(fs.clone()), Arc::new(SystemClock)));
        options
    };
    let db = Db::open(&options(&fs, RecoveryMode::PointInTime), "/db").unwrap();
    for key in ["a", "b"] {
        db.put(key, "value").unwrap();
        db.flush().unwrap();
    }
    db.put("c", "value").unwrap();
    let image = fs.crash_image(SurvivalPolicy::Generous, 1);
    for mode in [
        RecoveryMode::TolerateCorruptedTailRecords,
        RecoveryMode::AbsoluteConsistency,
        RecoveryMode::PointInTime,
        RecoveryMode::SkipAnyCorruptedRecords,
    ] {
        for zeros in [1, 6, 511, 40_000, 4 << 20] {
            let image = image.crash_image(SurvivalPolicy::Generous, 1);
            for entry in image.list(Path::new("/db")).unwrap() {
                if entry.name.ends_with(".log") || entry.name.starts_with("MANIFEST") {
                    let path = Path::new("/db").join(entry.name);
                    let len = image.metadata(&path).unwrap().len;
                    image.truncate(&path, len + zeros).unwrap();
                }
            }
            let db = Db::open(&options(&image, mode), "/db").unwrap();
            assert_eq!(db.range(..).count(), 3, "{mode:?}, {zeros} zeros");
            assert!(!db.recovery_report().dropped_anything());
        }
    }
}

#[test]
fn info_logs_are_in_their_directory_under_the_name_of_the_database() {
    let fs: Arc<dyn FileSystem> = Arc::new(MemoryFileSystem::new());
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_db_log_dir("/logs/here")
        .set_keep_log_file_num(2)
        .set_env(&Env::new(Arc::clone(&fs), Arc::new(SystemClock)));
    for _ in 0..4 {
        for path in ["/data/a b", "/data/a"] {
            Db::open(&options, path).unwrap().close().unwrap();
        }
    }
    let entries = fs.list(Path::new("/logs/here")).unwrap();
    let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
    for name in ["data_a_b_LOG", "data_a_LOG"] {
        let old = format!("{name}.old.");
        assert!(names.contains(&name), "{names:?}");
        assert_eq!(
            names.iter().filter(|found| found.starts_with(&old)).count(),
            1
        );
        let text = fs.read_all(&Path::new("/logs/here").join(name), 1 << 20, Purpose::Read);
        assert!(
            String::from_utf8(text.unwrap())
                .unwrap()
                .contains("opened /data/a")
        );
    }
    assert!(!fs.exists(Path::new("/data/a/LOG")).unwrap());
}

#[test]
fn tables_are_written_directly_where_the_file_system_can() {
    let noted = Noted::new();
    let mut options = noted.options();
    options.set_use_direct_io_for_flush_and_compaction(true);
    let db = Db::open(&options, "/db").unwrap();
    for (kind, file) in noted.run(&db) {
        assert_eq!(
            file.direct,
            matches!(kind, "flush" | "compaction"),
            "{kind}"
        );
    }
    drop(db);
    // A crash during the check leaves its file.
    let left = Path::new("/db/000000.dbtmp");
    let file = noted
        .fs
        .create(left, &WriteOptions::new(Purpose::Open))
        .unwrap();
    file.close().unwrap();
    Db::open(&options, "/db").unwrap();
    assert!(!noted.fs.exists(left).unwrap());
    noted
        .fs
        .layer()
        .refuses_direct
        .store(true, Ordering::Relaxed);
    let refused = Db::open(&options, "/db").unwrap_err().to_string();
    assert!(
        refused.contains("use_direct_io_for_flush_and_compaction"),
        "{refused}"
    );
    Db::open(&noted.options(), "/db").unwrap();
}
