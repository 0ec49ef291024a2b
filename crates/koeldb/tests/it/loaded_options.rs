//! Databases opened with their OPTIONS files: unchecked values, and logs in another directory.

use std::path::{Path, PathBuf};

use koeldb::{ColumnFamilyDescriptor, ConfigOptions, Db, LoadedOptions, Options, Result};

use crate::rocksdb::Java;
use crate::scratch::{ScratchDir, files};

fn load(dir: &Path) -> LoadedOptions {
    Options::load_latest(dir, &ConfigOptions::new()).unwrap()
}

fn open_as_written(dir: &Path) -> Result<Db> {
    let loaded = load(dir);
    let families = loaded.column_families.into_iter();
    Db::builder(&loaded.options)
        .column_families(families.map(|(name, options)| ColumnFamilyDescriptor::new(name, options)))
        .open(dir)
}

#[test]
fn options_that_rocksdb_was_given_while_it_ran_are_mended() {
    if !koeldb::Compression::Zstd.is_available() {
        println!("not tested: the codec is mended as well in a build without ZSTD");
        return;
    }
    let Some(java) = Java::find() else {
        return;
    };
    for (settings, mended) in [
        (
            &[
                "set:table_factory.block_align=true",
                "set:table_factory.block_size=5000",
            ][..],
            &["block_align"][..],
        ),
        (
            &[
                "set:table_factory.block_align=true",
                "set:compression=kZSTD",
            ],
            &["block_align"],
        ),
        (
            &["set:compaction_options_universal={max_read_amp=2;}"],
            &["compaction_options_universal.max_read_amp"],
        ),
        (
            &[
                "set:table_factory.index_type=kHashSearch",
                "set:table_factory.no_block_cache=true",
                "set:table_factory.cache_index_and_filter_blocks=true",
            ],
            &["index_type", "cache_index_and_filter_blocks"],
        ),
        (
            &[
                "set:level0_file_num_compaction_trigger=-1",
                "set:target_file_size_multiplier=0",
            ],
            &[
                "level0_file_num_compaction_trigger",
                "target_file_size_multiplier",
            ],
        ),
        (
            &[
                "set:table_factory.data_block_hash_table_util_ratio=0",
                "set:table_factory.super_block_alignment_space_overhead_ratio=2",
                "set:table_factory.super_block_alignment_size=3000",
            ],
            &[
                "data_block_hash_table_util_ratio",
                "super_block_alignment_size",
                "super_block_alignment_space_overhead_ratio",
            ],
        ),
    ] {
        let dir = ScratchDir::new();
        java.set(dir.path(), &[&["create=true"], settings].concat());
        let loaded = load(dir.path());
        let names: Vec<&str> = loaded.mended.iter().map(|option| &*option.name).collect();
        assert_eq!(names, mended, "{settings:?}");
        let db =
            open_as_written(dir.path()).unwrap_or_else(|error| panic!("{settings:?}: {error}"));
        assert_eq!(db.get("key99").unwrap().as_deref(), Some(&b"value99"[..]));
        db.put("more", "value").unwrap();
        db.close().unwrap();
        let log = std::fs::read_to_string(dir.join("LOG")).unwrap();
        for name in mended {
            assert!(
                log.contains(&format!("OPTIONS file: {name}=")),
                "{name}: {log}"
            );
        }
        assert_eq!(
            java.check(dir.path(), &[]).found.in_order("default").len(),
            101,
            "{settings:?}"
        );
    }
}

/// A database whose logs hold a key that no table has.
struct Logged {
    root: ScratchDir,
}

impl Logged {
    fn new(wal_dir: impl Fn(&Path) -> PathBuf) -> Self {
        let root = ScratchDir::new();
        let mut options = Options::new();
        options
            .create_if_missing(true)
            .set_avoid_flush_during_shutdown(true)
            .set_wal_dir(wal_dir(root.path()));
        let db = Db::open(&options, root.join("db")).unwrap();
        db.put("logged", "value").unwrap();
        db.close().unwrap();
        Logged { root }
    }

    fn outside() -> Self {
        Self::new(|root| root.join("logs"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn copy(&self, from: &str, to: &str) -> PathBuf {
        let to = self.path(to);
        std::fs::create_dir(&to).unwrap();
        for (name, bytes) in files(&self.path(from)) {
            std::fs::write(to.join(name), bytes).unwrap();
        }
        to
    }
}

fn assert_has_the_logged_key(dir: &Path) {
    let db = open_as_written(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    assert_eq!(db.get("logged").unwrap().as_deref(), Some(&b"value"[..]));
    db.close().unwrap();
}

#[test]
fn logs_that_lie_outside_of_their_database_are_found() {
    let logged = Logged::outside();
    let loaded = load(&logged.path("db"));
    assert_eq!(loaded.options.get_wal_dir(), logged.path("logs"));
    assert!(loaded.ignored.is_empty(), "{:?}", loaded.ignored);
    assert_has_the_logged_key(&logged.path("db"));
}

#[test]
fn a_database_that_was_moved_keeps_its_logs() {
    let logged = Logged::outside();
    std::fs::rename(logged.path("db"), logged.path("moved")).unwrap();
    assert_has_the_logged_key(&logged.path("moved"));

    let inside = Logged::new(|root| root.join("db/logs"));
    assert_has_the_logged_key(&inside.path("db"));
    std::fs::rename(inside.path("db"), inside.path("moved")).unwrap();
    let loaded = load(&inside.path("moved"));
    assert_eq!(loaded.options.get_wal_dir(), inside.path("moved/logs"));
    assert_has_the_logged_key(&inside.path("moved"));
}

#[test]
fn a_copy_takes_no_logs_from_its_original_and_does_not_open_without_them() {
    let logged = Logged::outside();
    let (copy, other) = (logged.copy("db", "copy"), logged.copy("db", "other"));
    let before = files(&logged.path("logs"));
    let loaded = load(&copy);
    assert_eq!(loaded.options.get_wal_dir(), Path::new(""));
    let reason = &loaded.ignored[0].reason;
    assert!(reason.contains("of which this is a copy"), "{reason}");
    let error = open_as_written(&copy).unwrap_err().to_string();
    assert!(error.contains("set wal_dir"), "{error}");
    assert_eq!(files(&logged.path("logs")), before);

    // It opens with logs of its own, and without any if that is asked for.
    std::fs::create_dir(copy.join("logs")).unwrap();
    for (name, bytes) in before {
        std::fs::write(copy.join("logs").join(name), bytes).unwrap();
    }
    assert_has_the_logged_key(&copy);
    assert_has_the_logged_key(&logged.path("db"));
    let mut options = Options::new();
    options.set_wal_dir(&other);
    let db = Db::open(&options, &other).unwrap();
    assert_eq!(db.get("logged").unwrap(), None);
}

#[test]
fn a_copy_takes_no_logs_from_its_original_if_its_log_files_name_only_the_copy() {
    let logged = Logged::outside();
    let copy = logged.copy("db", "copy");
    // A checkpoint has no LOG. RocksDB writes one in every open for writing, also if that fails.
    let name = copy.display();
    let log = format!(
        "2026/11/23-03:00:00.000000 1 SST files in {name} dir, Total Num: 0, files: \n\
         2026/11/23-03:00:00.000000 1                                 Options.wal_dir: {name}\n"
    );
    std::fs::write(copy.join("LOG"), log).unwrap();
    let opened = open_as_written(&copy).map(drop);
    assert_has_the_logged_key(&logged.path("db"));
    let error = opened.unwrap_err().to_string();
    assert!(error.contains("set wal_dir"), "{error}");
}

#[test]
fn an_open_that_misses_the_logs_is_refused() {
    let logged = Logged::outside();
    let mut options = Options::new();
    let error = Db::open(&options, logged.path("db"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("logs"), "{error}");
    let mut builder = Db::builder(&options);
    assert!(builder.read_only().open(logged.path("db")).is_err());
    assert!(Db::repair(&options, logged.path("db")).is_err());
    options.set_wal_dir(logged.path("logs"));
    let db = Db::open(&options, logged.path("db")).unwrap();
    assert_eq!(db.get("logged").unwrap().as_deref(), Some(&b"value"[..]));
}

#[test]
fn logs_that_rocksdb_wrote_outside_of_its_directory_are_found() {
    let Some(java) = Java::find() else {
        return;
    };
    let root = ScratchDir::new();
    let (dir, logs) = (root.join("db"), root.join("logs"));
    let wal_dir = format!("wal_dir={}", logs.display());
    java.set(&dir, &["create=true", &wal_dir, "set:ttl=0"]);
    let db = open_as_written(&dir).unwrap();
    assert_eq!(db.get("key7").unwrap().as_deref(), Some(&b"value7"[..]));
    db.close().unwrap();
    assert_eq!(
        java.check(&dir, &[&wal_dir])
            .found
            .in_order("default")
            .len(),
        100
    );
}

/// Sets `wal_dir` in the newest OPTIONS file of `dir`.
fn record_wal_dir(dir: &Path, wal_dir: &Path) {
    let file = load(dir).file;
    let text = std::fs::read_to_string(&file).unwrap();
    let recorded = format!("[DBOptions]\n  wal_dir={}\n", wal_dir.display());
    std::fs::write(&file, text.replace("[DBOptions]\n", &recorded)).unwrap();
}

#[test]
fn a_database_that_recorded_its_own_directory_for_logs_can_be_copied_and_moved() {
    // RocksDB up to 6.22 records it if `wal_dir` is not set.
    let root = ScratchDir::new();
    let (dir, copy, moved) = (root.join("db"), root.join("copy"), root.join("moved"));
    let open = |dir: &Path| {
        let mut options = Options::new();
        Db::open(options.create_if_missing(true), dir).unwrap()
    };
    let write = |value: &str| {
        open(&dir).put("key", value).unwrap();
        // Replays the log and begins an empty one.
        drop(open(&dir));
        record_wal_dir(&dir, &dir);
    };
    let assert_has = |dir: &Path, value: &str| {
        assert_eq!(load(dir).options.get_wal_dir(), Path::new(""));
        let db = open(dir);
        assert_eq!(db.get("key").unwrap().as_deref(), Some(value.as_bytes()));
    };

    write("old");
    std::fs::create_dir(&copy).unwrap();
    for (name, bytes) in files(&dir) {
        // A checkpoint has no LOG.
        if !name.starts_with("LOG") {
            std::fs::write(copy.join(name), bytes).unwrap();
        }
    }
    open(&dir).put("key", "newer").unwrap();
    assert_has(&copy, "old");

    write("newest");
    std::fs::rename(&dir, &moved).unwrap();
    assert_has(&moved, "newest");
    // The old path is an unrelated directory now.
    record_wal_dir(&moved, &dir);
    std::fs::create_dir(&dir).unwrap();
    assert_has(&moved, "newest");
}
