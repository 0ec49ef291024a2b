//! Values of the log in blob files: recoveries write them by the rules of flushes.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use koeldb::fs::fault::Injection;
use koeldb::fs::{
    Failure, FaultAction, FaultFileSystem, FaultRule, FileSystem, MemoryFileSystem, Operation,
    PosixFileSystem, Purpose, SurvivalPolicy, SystemClock,
};
use koeldb::statistics::{Statistics, Ticker};
use koeldb::{
    BytewiseComparatorWithU64Ts, ColumnFamilyDescriptor, ColumnFamilyOptions, CompactRangeOptions,
    ConfigOptions, Db, Env, FileChecksumGenerator, Options, ReadOptions, StringAppend, WriteBatch,
    WriteOptions,
};

use koeldb_testkit::Floors;

use crate::expected::Expected;
use crate::prelude::creating;
use crate::rocksdb::Java;
use crate::scratch::ScratchDir;
use crate::storage::HERE;

/// The column families: all, some or none of their values are separated at level 0.
const FAMILIES: [(&str, &str); 6] = [
    ("default", "enable_blob_files=true;min_blob_size=100;"),
    ("plain", "enable_blob_files=false;"),
    (
        "late",
        "enable_blob_files=true;min_blob_size=0;blob_file_starting_level=1;",
    ),
    (
        "packed",
        "enable_blob_files=true;min_blob_size=30;blob_file_size=2000;blob_compression_type=kSnappyCompression;",
    ),
    (
        "collected",
        "enable_blob_files=true;min_blob_size=0;enable_blob_garbage_collection=true;\
         blob_cache=100K;prepopulate_blob_cache=kFlushOnly;",
    ),
    ("empty", "enable_blob_files=true;min_blob_size=0;"),
];

fn options(env: &Env) -> Options {
    let mut options = creating();
    options
        .set_avoid_flush_during_shutdown(true)
        .set_disable_auto_compactions(true)
        .set_merge_operator(StringAppend::default())
        .set_file_checksum_gen_factory(FileChecksumGenerator::Crc32c)
        .set_env(env);
    options
}

fn env_over(fs: impl FileSystem + 'static) -> Env {
    Env::new(Arc::new(fs), Arc::new(SystemClock))
}

fn builder(options: &Options) -> koeldb::DbBuilder {
    let mut builder = Db::builder(options);
    for (name, settings) in FAMILIES {
        let mut family = ColumnFamilyOptions::from(options);
        family.apply_str(settings, &ConfigOptions::new()).unwrap();
        builder.column_family(ColumnFamilyDescriptor::new(name, family));
    }
    builder
}

fn open(options: &Options, path: impl AsRef<Path>) -> koeldb::Result<Db> {
    builder(options).open(path)
}

fn value(key: u32, round: u32) -> Vec<u8> {
    format!("{key} of {round} ")
        .repeat(usize::try_from(key % 40).unwrap())
        .into_bytes()
}

/// Changes of all kinds in every column family but the last.
fn write(db: &Db, round: u32) {
    for (name, _) in &FAMILIES[..5] {
        let family = db.cf_handle(name).unwrap();
        let mut batch = WriteBatch::new();
        for key in 0..120 {
            let name = format!("{key:03}");
            match (key + round) % 12 {
                3 => batch.delete_cf(&family, name),
                4 | 5 => batch.merge_cf(&family, name, value(key, round)),
                6 => {
                    let columns = [(&b""[..], &value(key, round)[..]), (b"column", b"value")];
                    batch.put_entity_cf(&family, name, &columns).unwrap()
                }
                7 => continue,
                _ => batch.put_cf(&family, name, value(key, round)),
            };
        }
        batch.delete_range_cf(&family, "050", "055");
        batch.put_cf(&family, format!("round {round}"), value(39, round));
        db.write(&batch).unwrap();
    }
}

fn content(db: &Db) -> Expected {
    let mut expected = Expected::default();
    for family in db.cf_handles() {
        let entries = family.range(..).map(Result::unwrap);
        for (key, value) in entries {
            let found = expected.family(family.name());
            found.insert(key.to_vec(), value.to_vec());
        }
    }
    expected
}

/// Returns a file system with a database whose log has rounds of changes, one of them flushed.
fn unflushed(rounds: u32) -> (MemoryFileSystem, Expected) {
    let fs = MemoryFileSystem::new();
    let options = options(&env_over(fs.clone()));
    let db = open(&options, HERE).unwrap();
    write(&db, 0);
    for family in db.cf_handles() {
        family.flush().unwrap();
    }
    for round in 1..=rounds {
        write(&db, round);
    }
    let wanted = content(&db);
    let left = fs.crash_image(SurvivalPolicy::Generous, 1);
    (left, wanted)
}

/// Returns the names of the tables and blob files of a directory.
fn data_files(fs: &MemoryFileSystem) -> BTreeSet<String> {
    let entries = fs.list(Path::new(HERE)).unwrap().into_iter();
    let names = entries.map(|entry| entry.name);
    names
        .filter(|name| name.ends_with(".sst") || name.ends_with(".blob"))
        .collect()
}

/// Returns the names of the tables and blob files that the tree has.
fn live_files(db: &Db) -> BTreeSet<String> {
    let tables = db.live_files().into_iter().map(|file| file.name);
    let blob_files = db.live_blob_files().into_iter().map(|file| file.name);
    tables
        .chain(blob_files)
        .map(|name| name.trim_start_matches('/').to_owned())
        .collect()
}

#[test]
fn a_recovery_separates_values_as_each_column_family_says() {
    let (fs, wanted) = unflushed(1);
    let mut options = options(&env_over(fs.clone()));
    let statistics = Statistics::new();
    options.set_statistics(statistics.clone());
    let db = open(&options, HERE).unwrap();
    let written = db.recovery_report().blob_files_written.clone();
    let of_family = |name: &str| {
        let mut files = db.cf_handle(name).unwrap().live_blob_files();
        files.retain(|file| written.contains(&file.number));
        files
    };
    for (name, counts) in [
        ("default", 1..2),
        ("plain", 0..1),
        ("late", 0..1),
        ("packed", 2..20),
        ("collected", 1..2),
        ("empty", 0..1),
    ] {
        let files = of_family(name);
        assert!(counts.contains(&files.len()), "{name}: {files:?}");
        for file in &files {
            assert_eq!(file.file_checksum.len(), 4, "{name}");
            assert_eq!((file.garbage_count, file.garbage_bytes), (0, 0), "{name}");
        }
    }
    // Neither short nor overwritten values, nor those of operands and entities.
    let large = (0..120).filter(|key| {
        let is_put = !(3..=7).contains(&((key + 1) % 12)) && !(50..55).contains(key);
        is_put && value(*key, 1).len() >= 100
    });
    let large = u64::try_from(large.count()).unwrap() + 1;
    let [file] = &of_family("default")[..] else {
        panic!("one blob file");
    };
    assert_eq!(file.total_count, large);
    let bytes: u64 = ["default", "packed", "collected"]
        .iter()
        .flat_map(|name| of_family(name))
        .map(|file| file.bytes)
        .sum();
    assert_eq!(statistics.ticker(Ticker::BlobDbBlobFileBytesWritten), bytes);
    assert_eq!(statistics.ticker(Ticker::BlobDbCacheAdd), 0);
    wanted.check(&db, "recovered");
    assert_eq!(live_files(&db), data_files(&fs));
    db.verify_checksums().unwrap();
    db.verify_file_checksums().unwrap();
    db.compact_all(&CompactRangeOptions::new()).unwrap();
    wanted.check(&db, "compacted");
    db.close().unwrap();
    drop(db);
    let db = open(&options, HERE).unwrap();
    assert!(db.recovery_report().blob_files_written.is_empty());
    wanted.check(&db, "opened again");
    assert_eq!(live_files(&db), data_files(&fs));
}

/// Whether the failed call left it open whether CURRENT names the new MANIFEST.
fn may_have_committed(injection: &Injection) -> bool {
    let is_temporary = injection.path.extension().is_some_and(|it| it == "dbtmp");
    let is_current = matches!(injection.operation, Operation::Rename | Operation::SyncDir);
    is_temporary || is_current || injection.purpose == Some(Purpose::Manifest)
}

/// Opens a copy of the database while its storage fails by `rule`, and once more without.
///
/// `false` if nothing failed.
fn fail_an_open(rule: FaultRule, image: &MemoryFileSystem, wanted: &Expected) -> bool {
    let fs = image.crash_image(SurvivalPolicy::Generous, 0);
    let before = data_files(&fs);
    let faults = FaultFileSystem::new(Arc::new(fs.clone()), 1);
    faults.add_rule(rule);
    let faults = Arc::new(faults);
    let env = Env::new(Arc::clone(&faults) as _, Arc::new(SystemClock));
    let mut failing = options(&env);
    // Several tables are written during the replay.
    failing.set_write_buffer_size(64 << 10);
    let opened = open(&failing, HERE);
    let injections = faults.injections();
    let Some(first) = injections.first() else {
        opened.unwrap();
        return false;
    };
    let what = format!("{:?} of {}", first.operation, first.path.display());
    if opened.is_err() {
        let after = data_files(&fs);
        assert!(before.is_subset(&after), "{what}: files are gone");
        let removes = (injections.iter()).all(|it| it.operation != Operation::RemoveFile);
        // The first failure may be one that the open goes on after, as of LOG.
        if removes && !injections.iter().any(may_have_committed) {
            assert_eq!(after, before, "{what}");
        }
    }
    drop(opened);
    let seen = data_files(&fs);
    let db = open(&options(&env_over(fs.clone())), HERE).unwrap();
    wanted.check(&db, &what);
    assert_eq!(live_files(&db), data_files(&fs), "{what}");
    let number = |name: &String| name.split('.').next().unwrap().parse::<u64>().unwrap();
    let largest = seen.iter().map(number).max();
    let now = data_files(&fs);
    let new = now.difference(&seen).map(number).min();
    assert!(new.is_none() || new > largest, "{what}: {new:?}");
    true
}

#[test]
fn a_recovery_that_fails_anywhere_leaves_no_file_and_loses_nothing() {
    let (image, wanted) = unflushed(4);
    let step = Floors::chosen().of(40, 4, 1);
    let faults: [fn(u64) -> FaultRule; 4] = [
        |n| FaultRule::fail(Failure::NoSpace).on_mutations().nth(n),
        |n| FaultRule::fail(Failure::NoSpace).on_mutations().from_nth(n),
        |n| {
            FaultRule::new(FaultAction::FailAfter(Failure::Device))
                .on_mutations()
                .nth(n)
        },
        |n| {
            FaultRule::new(FaultAction::TornWrite(Failure::Device))
                .on_mutations()
                .nth(n)
        },
    ];
    for (index, fault) in (0..).zip(faults) {
        let mut n = 1 + index * 5 % step;
        while fail_an_open(fault(n), &image, &wanted) {
            n += step;
        }
        assert!(n > 60, "{n} calls");
    }
    // Among them are those after which nobody knows whether the edit is in force.
    let names = |n| {
        FaultRule::new(FaultAction::FailAfter(Failure::Device))
            .on(&[Operation::Rename, Operation::SyncDir])
            .nth(n)
    };
    assert!(
        (1..)
            .take_while(|&n| fail_an_open(names(n), &image, &wanted))
            .count()
            > 5
    );
}

#[test]
fn a_repair_after_an_interrupted_recovery_has_everything() {
    let (fs, wanted) = unflushed(2);
    let images: Arc<Mutex<Vec<MemoryFileSystem>>> = Arc::default();
    let taken = Arc::clone(&images);
    fs.observe_mutations(move |fs, operation| {
        let policies = SurvivalPolicy::ALL;
        let policy = policies[usize::try_from(operation % policies.len() as u64).unwrap()];
        let image = fs.crash_image(policy, operation);
        taken.lock().unwrap().push(image);
    });
    drop(open(&options(&env_over(fs.clone())), HERE).unwrap());
    fs.observe_mutations(|_, _| ());
    let images = std::mem::take(&mut *images.lock().unwrap());
    let step = Floors::chosen().of(9, 2, 1);
    for (number, image) in images.iter().enumerate().step_by(step) {
        for loses_manifest in [false, true] {
            let image = image.crash_image(SurvivalPolicy::Generous, 0);
            let what = format!("operation {number}, without MANIFEST: {loses_manifest}");
            for entry in image.list(Path::new(HERE)).unwrap() {
                let is_named = entry.name.starts_with("MANIFEST") || entry.name == "CURRENT";
                if loses_manifest && is_named {
                    let path = Path::new(HERE).join(entry.name);
                    image.remove_file(&path).unwrap();
                }
            }
            let options = options(&env_over(image.clone()));
            let report = Db::repair(&options, HERE).unwrap();
            assert!(report.lost_values.is_empty(), "{what}: {report:?}");
            let db = open(&options, HERE).unwrap();
            wanted.check(&db, &what);
            db.compact_all(&CompactRangeOptions::new()).unwrap();
            wanted.check(&db, &what);
            assert_eq!(live_files(&db), data_files(&image), "{what}");
        }
    }
}

#[test]
fn readers_and_kept_memtables_write_no_blob_file() {
    let (image, wanted) = unflushed(1);
    let before = data_files(&image);
    let faults = FaultFileSystem::new(Arc::new(image.clone()), 1);
    faults.add_rule(FaultRule::fail(Failure::ReadOnly).on_mutations());
    let env = env_over(faults);
    let db = builder(&options(&env)).read_only().open(HERE).unwrap();
    wanted.check(&db, "read-only");
    drop(db);

    let env = env_over(image.clone());
    let db = builder(&options(&env))
        .secondary("/own")
        .open(HERE)
        .unwrap();
    wanted.check(&db, "a secondary");
    drop(db);
    assert_eq!(data_files(&image), before);

    let mut keeping = options(&env);
    keeping.set_avoid_flush_during_recovery(true);
    let db = open(&keeping, HERE).unwrap();
    assert_eq!(data_files(&image), before);
    wanted.check(&db, "in memory");
    drop(db);
    let db = open(&keeping, HERE).unwrap();
    for family in db.cf_handles() {
        family.flush().unwrap();
    }
    let blob_files = |names: BTreeSet<String>| {
        let names = names.into_iter();
        names.filter(|name| name.ends_with(".blob")).count()
    };
    assert!(blob_files(data_files(&image)) > blob_files(before));
    wanted.check(&db, "flushed");
}

#[test]
fn a_recovery_leaves_timestamps_out_of_blob_files_as_well() {
    let fs = MemoryFileSystem::new();
    let mut options = options(&env_over(fs.clone()));
    options
        .set_comparator(BytewiseComparatorWithU64Ts)
        .set_allow_concurrent_memtable_write(false);
    let undated = "persist_user_defined_timestamps=false;enable_blob_files=true;min_blob_size=10;";
    (options.apply_str(undated, &ConfigOptions::new())).unwrap();
    let db = Db::open(&options, HERE).unwrap();
    let at = |time: u64| time.to_le_bytes();
    for time in 1..20 {
        let key = format!("{:02}", time % 7);
        db.default_cf()
            .put_with_ts(key, at(time), value(20, u32::try_from(time).unwrap()))
            .unwrap();
    }
    let fs = fs.crash_image(SurvivalPolicy::Generous, 1);
    drop(db);
    options.set_env(&env_over(fs));
    for _ in 0..2 {
        let db = Db::open(&options, HERE).unwrap();
        assert_eq!(db.live_blob_files().len(), 1);
        let low = db.default_cf().full_history_ts_low().unwrap();
        assert_eq!(low, Some(at(20)));
        let mut reads = ReadOptions::new();
        reads.set_timestamp(at(20));
        for time in 13..20_u32 {
            let found = db.get_opt(format!("{:02}", time % 7), &reads).unwrap();
            assert_eq!(found.as_deref(), Some(&value(20, time)[..]));
        }
        db.verify_checksums().unwrap();
    }
}

#[test]
fn values_with_their_times_to_live_are_separated() {
    let fs = MemoryFileSystem::new();
    let mut options = options(&env_over(fs.clone()));
    let blobs = "enable_blob_files=true;min_blob_size=10;";
    (options.apply_str(blobs, &ConfigOptions::new())).unwrap();
    let ttl = Duration::from_secs(1000);
    let db = Db::open_with_ttl(&options, HERE, ttl).unwrap();
    db.put("short", "5 + 4").unwrap();
    db.put("long", value(30, 1)).unwrap();
    db.put("base", value(31, 1)).unwrap();
    db.merge("base", "operand").unwrap();
    let fs = fs.crash_image(SurvivalPolicy::Generous, 1);
    drop(db);
    options.set_env(&env_over(fs));
    let db = Db::open_with_ttl(&options, HERE, ttl).unwrap();
    let [file] = &db.live_blob_files()[..] else {
        panic!("one blob file");
    };
    assert_eq!(file.total_count, 2);
    assert_eq!(db.get("short").unwrap().as_deref(), Some(&b"5 + 4"[..]));
    assert_eq!(db.get("long").unwrap().as_deref(), Some(&value(30, 1)[..]));
    let merged = [&value(31, 1)[..], b",operand"].concat();
    assert_eq!(db.get("base").unwrap().as_deref(), Some(&merged[..]));
}

#[test]
fn rocksdb_reads_what_a_recovery_separated() {
    let Some(java) = Java::find() else { return };
    let dir = ScratchDir::new();
    let options = options(&env_over(PosixFileSystem::new()));
    let db = open(&options, dir.path()).unwrap();
    write(&db, 0);
    let mut sync = WriteOptions::new();
    sync.set_sync(true);
    db.put_opt("synced", value(39, 9), &sync).unwrap();
    let wanted = content(&db);
    db.close().unwrap();
    drop(db);
    let db = open(&options, dir.path()).unwrap();
    assert!(db.recovery_report().blob_files_written.len() >= 4);
    wanted.check(&db, "recovered");
    // A log stays again, which RocksDB recovers.
    write(&db, 1);
    let wanted = content(&db);
    db.close().unwrap();
    drop(db);
    let found = java.check(dir.path(), &["merge=stringappend"]).found;
    assert!(found == wanted, "RocksDB differs");
    let db = open(&options, dir.path()).unwrap();
    wanted.check(&db, "after RocksDB");
}

#[test]
fn values_in_the_log_of_rocksdb_are_separated() {
    let Some(java) = Java::find() else { return };
    let dir = ScratchDir::new();
    let blobs = ["cf:enable_blob_files=true", "cf:min_blob_size=0"];
    let mut options = options(&env_over(PosixFileSystem::new()));
    let separated = "enable_blob_files=true;min_blob_size=6;blob_file_size=300;";
    (options.apply_str(separated, &ConfigOptions::new())).unwrap();
    Db::open(&options, dir.path()).unwrap().close().unwrap();
    for _ in 0..2 {
        // It leaves its log behind, and flushes that of the last round.
        java.set(dir.path(), &blobs);
    }
    let before = dir.all("blob").len();
    let db = Db::open(&options, dir.path()).unwrap();
    assert!(db.recovery_report().blob_files_written.len() > 3);
    let mut wanted = Expected::default();
    for key in 0..100 {
        let (key, value) = (format!("key{key}"), format!("value{key}"));
        (wanted.family("default")).insert(key.into_bytes(), value.into_bytes());
    }
    wanted.check(&db, "the log of RocksDB");
    assert!(before > 0 && dir.all("blob").len() > before);
    db.close().unwrap();
    drop(db);
    assert!(
        java.check(dir.path(), &[]).found == wanted,
        "RocksDB differs"
    );
}
