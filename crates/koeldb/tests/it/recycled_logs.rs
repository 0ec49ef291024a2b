//! Recycled logs: obsolete logs over which later ones are written, with `recycle_log_file_num`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use koeldb::fs::{
    Failure, FaultFileSystem, FaultRule, FileSystem, MemoryFileSystem, Operation, Purpose,
    SurvivalPolicy, SystemClock, TraceDetail, TraceFileSystem,
};
use koeldb::{
    BatchEntry, CheckpointOptions, ColumnFamily, Compression, Db, Env, IteratorMode, Options,
    RecoveryMode, WriteBatch, WriteOptions,
};
use koeldb_testkit::Random;

use crate::history::theirs::{RocksDb, hex};
use crate::prelude::creating;
use crate::rocksdb::Java;
use crate::scratch::ScratchDir;

const HERE: &str = "/db";

fn options(fs: Arc<dyn FileSystem>) -> Options {
    let mut options = creating();
    options
        .set_recycle_log_file_num(2)
        .set_env(&Env::new(fs, Arc::new(SystemClock)));
    options
}

/// The names of the files in the directory that end with `suffix`.
fn names(fs: &dyn FileSystem, suffix: &str) -> BTreeSet<String> {
    let entries = fs.list(HERE.as_ref()).unwrap().into_iter();
    let names = entries.map(|entry| entry.name);
    names.filter(|name| name.ends_with(suffix)).collect()
}

/// Writes `count` logs of one key each, and waits until they are obsolete and retired.
fn fill(db: &Db, keys: std::ops::Range<u32>, value: &[u8]) {
    for key in keys {
        db.put(format!("{key:04}"), value).unwrap();
        db.default_cf().flush().unwrap();
        db.wait_for_compact(None).unwrap();
    }
}

#[test]
fn an_obsolete_log_becomes_a_later_one_and_a_close_leaves_none() {
    let fs = MemoryFileSystem::new();
    let trace = Arc::new(TraceFileSystem::new(
        Arc::new(fs.clone()),
        TraceDetail::Events,
    ));
    let db = Db::open(&options(trace.clone()), HERE).unwrap();
    fill(&db, 0..4, &[1; 5000]);
    assert_eq!(names(&fs, ".log").len(), 1, "obsolete ones are no logs");
    let spares = names(&fs, ".log.trash");
    assert!(!spares.is_empty() && spares.len() <= 2, "{spares:?}");
    let of_logs = |operation| {
        let events = trace.events();
        let is_log = |path: &Path| path.to_string_lossy().contains(".log");
        let events = events.iter();
        let events = events.filter(|event| event.operation == operation && is_log(&event.path));
        events.count()
    };
    let created = of_logs(Operation::Create);
    fill(&db, 4..20, &[2; 4000]);
    assert_eq!(of_logs(Operation::Create), created);
    assert!(of_logs(Operation::Reuse) >= 16);
    // The file still has the space of the longer ones before it.
    db.put("last", [3; 100]).unwrap();
    let open = names(&fs, ".log").into_iter().next().unwrap();
    let length = fs.metadata(&Path::new(HERE).join(open)).unwrap().len;
    assert!(length > 4000, "{length} bytes");
    let log = db.log_files().unwrap().pop().unwrap();
    assert!(log.bytes < 200, "{log:?}");
    db.close().unwrap();
    assert_eq!(names(&fs, ".trash"), BTreeSet::new());
    let db = Db::open(&options(Arc::new(fs.clone())), HERE).unwrap();
    assert_eq!(db.iterator(IteratorMode::Start).count(), 21);
}

#[test]
fn modes_and_limits_that_need_logs_of_their_own_recycle_none() {
    type Change = fn(&mut Options);
    let changes: [Change; 4] = [
        |options| {
            options.set_wal_recovery_mode(RecoveryMode::AbsoluteConsistency);
        },
        |options| {
            options.set_wal_recovery_mode(RecoveryMode::TolerateCorruptedTailRecords);
        },
        |options| {
            options.set_wal_size_limit_mb(1);
        },
        |options| {
            options.set_recycle_log_file_num(0);
        },
    ];
    for (index, change) in changes.iter().enumerate() {
        let fs = MemoryFileSystem::new();
        let mut options = options(Arc::new(fs.clone()));
        change(&mut options);
        let db = Db::open(&options, HERE).unwrap();
        fill(&db, 0..5, &[1; 1000]);
        assert_eq!(names(&fs, ".trash"), BTreeSet::new(), "{index}");
    }
}

#[test]
fn a_log_that_a_checkpoint_linked_is_not_written_over() {
    let fs: Arc<dyn FileSystem> = Arc::new(MemoryFileSystem::new());
    let (db, [other]) = Db::open_cf(&options(Arc::clone(&fs)), HERE, ["other"]).unwrap();
    fill(&db, 0..4, &[1; 1000]);
    // The unflushed key keeps the logs of all that follow.
    other.put("pinned", "value").unwrap();
    fill(&db, 4..8, &[2; 1000]);
    let mut how = CheckpointOptions::new();
    how.set_flush(koeldb::FlushPolicy::Never);
    db.create_checkpoint_opt("/copy", &how).unwrap();
    assert!(names(&*fs, ".log").len() >= 4, "the checkpoint has logs");
    other.flush().unwrap();
    fill(&db, 8..20, &[3; 1000]);
    let (copy, [other]) = Db::open_cf(&options(fs), "/copy", ["other"]).unwrap();
    assert_eq!(other.get("pinned").unwrap().as_deref(), Some(&b"value"[..]));
    assert_eq!(copy.iterator(IteratorMode::Start).count(), 8);
    assert!(!copy.recovery_report().dropped_anything());
}

#[test]
fn a_change_feed_keeps_its_logs_and_misses_nothing() {
    let fs = MemoryFileSystem::new();
    let db = Db::open(&options(Arc::new(fs.clone())), HERE).unwrap();
    fill(&db, 0..4, &[1; 2000]);
    let from = db.latest_sequence_number() + 1;
    let mut updates = db.get_updates_since(from).unwrap();
    let mut next = 4;
    for round in 0..30_u32 {
        fill(
            &db,
            4 + round..5 + round,
            &vec![2; 1000 + 50 * (round as usize % 7)],
        );
        // Records behind which there are remains of an older log.
        if round % 3 == 0 {
            continue;
        }
        for update in updates.by_ref() {
            for entry in &update.unwrap().batch {
                if let BatchEntry::Put { key, .. } = entry.unwrap() {
                    assert_eq!(key, format!("{next:04}").as_bytes());
                    next += 1;
                }
            }
        }
        assert_eq!(next, 5 + round);
    }
    drop(updates);
    fill(&db, 34..40, &[3; 500]);
    assert!(!names(&fs, ".log.trash").is_empty());
    assert_eq!(names(&fs, ".log").len(), 1);
}

#[test]
fn where_no_log_can_be_reused_a_new_one_serves() {
    for failing in [Operation::Reuse, Operation::Rename, Operation::Metadata] {
        let memory = MemoryFileSystem::new();
        let faults = FaultFileSystem::new(Arc::new(memory.clone()), 0);
        let db = Db::open(&options(Arc::new(faults.clone())), HERE).unwrap();
        fill(&db, 0..4, &[1; 1000]);
        faults.add_rule(
            FaultRule::fail(Failure::PermissionDenied)
                .on(&[failing])
                .suffix(".log"),
        );
        fill(&db, 4..12, &[2; 1000]);
        let image = memory.crash_image(SurvivalPolicy::Generous, 0);
        let db = Db::open(&options(Arc::new(image)), HERE).unwrap();
        assert_eq!(db.iterator(IteratorMode::Start).count(), 12, "{failing:?}");
    }
}

/// Acknowledged writes: for each column family the value of a key, and whether it is synced.
type Owed = BTreeMap<(usize, u64), bool>;

/// A database whose logs are recycled, with the writes that it owes.
struct Busy {
    fs: MemoryFileSystem,
    options: Options,
    owed: Arc<Mutex<Owed>>,
}

impl Busy {
    fn new(random: &mut Random) -> Self {
        let fs = MemoryFileSystem::new();
        let mut options = options(Arc::new(fs.clone()));
        options
            .set_manual_wal_flush(random.chance(1, 4))
            .set_enable_pipelined_write(random.chance(1, 4))
            .set_avoid_flush_during_recovery(random.chance(1, 2))
            .set_wal_recovery_mode(match random.chance(1, 4) {
                true => RecoveryMode::SkipAnyCorruptedRecords,
                false => RecoveryMode::PointInTime,
            })
            .set_write_buffer_size(64 << 10);
        if random.chance(1, 4) && Compression::Zstd.is_available() {
            options.set_wal_compression(Compression::Zstd);
        }
        Busy {
            fs,
            options,
            owed: Arc::default(),
        }
    }

    fn open(options: &Options) -> koeldb::Result<(Db, Vec<ColumnFamily>)> {
        let (db, [other]) = Db::open_cf(options, HERE, ["other"])?;
        let families = vec![db.default_cf().clone(), other];
        Ok((db, families))
    }

    /// Writes, flushes and syncs at random.
    fn work(&self, random: &mut Random, steps: usize) {
        let (db, families) = Self::open(&self.options).unwrap();
        for key in 0..steps as u64 {
            let index = usize::from(random.chance(1, 3));
            let size = usize::try_from(1 + random.below(9000)).unwrap();
            let sync = random.chance(1, 2);
            let mut how = WriteOptions::new();
            how.set_sync(sync);
            let value = vec![u8::try_from(key % 251).unwrap(); size];
            families[index]
                .put_opt(format!("{key:04}"), value, &how)
                .unwrap();
            let mut owed = self.owed.lock().unwrap();
            owed.insert((index, key), sync);
            if sync {
                owed.values_mut().for_each(|is_synced| *is_synced = true);
            }
            drop(owed);
            match random.below(8) {
                0 => families[0].flush().unwrap(),
                1 => families[1].flush().unwrap(),
                2 => db.flush_wal(true).unwrap(),
                3 => db.wait_for_compact(None).unwrap(),
                _ => {}
            }
        }
        db.wait_for_compact(None).unwrap();
    }

    /// Checks a crash image: it has what was synced, and all that an abandoned process had written.
    fn check(&self, image: &MemoryFileSystem, owed: &Owed, is_power_cut: bool, what: &str) {
        let mut options = self.options.clone();
        options.set_env(&Env::new(Arc::new(image.clone()), Arc::new(SystemClock)));
        let (db, families) = Self::open(&options).unwrap_or_else(|error| panic!("{what}: {error}"));
        let report = db.recovery_report();
        let mut missing = None;
        for (&(index, key), &is_synced) in owed {
            let found = families[index].get(format!("{key:04}")).unwrap();
            if let Some(value) = &found {
                let byte = u8::try_from(key % 251).unwrap();
                assert!(value.iter().all(|&at| at == byte), "{what}: {key}");
                continue;
            }
            let may_miss = is_power_cut || options.get_manual_wal_flush();
            assert!(may_miss && !is_synced, "{what}: {key} is lost\n{report}");
            missing = Some(key);
        }
        if !is_power_cut && !options.get_manual_wal_flush() {
            assert_eq!(missing, None);
            assert!(!report.dropped_anything(), "{what}\n{report}");
            let is_clean = |log: &koeldb::LogReport| log.problem.is_none();
            assert!(report.logs.iter().all(is_clean), "{what}\n{report}");
        }
    }
}

#[test]
fn a_crash_at_any_operation_loses_nothing_synced_and_reports_nothing_lost() {
    let images_of_each = 3;
    for seed in 0..6_u64 {
        let mut random = Random::new(seed);
        let busy = Busy::new(&mut random);
        type Image = (u64, SurvivalPolicy, MemoryFileSystem, Owed);
        let images: Arc<Mutex<Vec<Image>>> = Arc::default();
        let (collected, owed) = (Arc::clone(&images), Arc::clone(&busy.owed));
        let draws = AtomicU64::new(0);
        busy.fs.observe_mutations(move |fs, operation| {
            // The observer may run in several threads.
            let draw = draws.fetch_add(1, Ordering::Relaxed);
            let mut random = Random::new(seed << 32 | draw);
            if !random.chance(1, 4) {
                return;
            }
            let owed = owed.lock().unwrap().clone();
            for of in 0..images_of_each {
                let index = usize::try_from(random.below(14)).unwrap();
                let policy = match of {
                    0 => SurvivalPolicy::Generous,
                    _ => SurvivalPolicy::ALL[index],
                };
                let image = fs.crash_image(policy, random.draw());
                let image = (operation, policy, image, owed.clone());
                collected.lock().unwrap().push(image);
            }
        });
        busy.work(&mut random, 80);
        let images = std::mem::take(&mut *images.lock().unwrap());
        assert!(images.len() > 100);
        for (operation, policy, image, owed) in images {
            let what = format!("seed {seed}, operation {operation}, {policy:?}");
            let is_power_cut = policy != SurvivalPolicy::Generous;
            busy.check(&image, &owed, is_power_cut, &what);
        }
    }
}

/// Copies the database in memory to a directory.
fn copy_out(fs: &MemoryFileSystem) -> ScratchDir {
    let directory = ScratchDir::new();
    for entry in fs.list(HERE.as_ref()).unwrap() {
        let path: PathBuf = Path::new(HERE).join(&entry.name);
        let bytes = fs.read_all(&path, u64::MAX, Purpose::Other).unwrap();
        std::fs::write(directory.join(&entry.name), bytes).unwrap();
    }
    directory
}

#[test]
fn rocksdb_recovers_from_our_recycled_logs_what_we_do() {
    let Some(java) = Java::find() else { return };
    let mut rocks = RocksDb::start(java);
    for seed in 100..112_u64 {
        let mut random = Random::new(seed);
        let mut busy = Busy::new(&mut random);
        busy.options
            .set_wal_recovery_mode(RecoveryMode::PointInTime);
        let images: Arc<Mutex<Vec<(SurvivalPolicy, MemoryFileSystem)>>> = Arc::default();
        let collected = Arc::clone(&images);
        busy.fs.observe_mutations(move |fs, operation| {
            if operation > 100 && (operation + seed).is_multiple_of(200) {
                let policy = SurvivalPolicy::ALL[usize::try_from(operation / 200 % 14).unwrap()];
                let image = fs.crash_image(policy, operation);
                collected.lock().unwrap().push((policy, image));
            }
        });
        busy.work(&mut random, 80);
        let image = busy.fs.crash_image(SurvivalPolicy::Generous, 0);
        let mut images = std::mem::take(&mut *images.lock().unwrap());
        images.push((SurvivalPolicy::Generous, image));
        for (policy, image) in images {
            let directory = copy_out(&image);
            let mut options = busy.options.clone();
            options.set_env(&Env::new(Arc::new(image), Arc::new(SystemClock)));
            let (_db, families) = Busy::open(&options).unwrap();
            let path = directory.path().display().to_string();
            let database = "recycle_log_file_num=2;create_missing_column_families=true;\
                            create_if_missing=true";
            let mut fields = vec!["open", "strings", &path, database];
            for family in ["default", "other"] {
                fields.extend([family, "bytewise", ""]);
            }
            let opened = rocks.execute(&fields);
            assert!(opened.is_ok(), "seed {seed}, {policy:?}: {opened:?}");
            for family in &families {
                let theirs = rocks.dump(family.name(), None, false).unwrap();
                let ours = family.iterator(IteratorMode::Start);
                let ours: Vec<_> = ours
                    .map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())))
                    .collect::<koeldb::Result<_>>()
                    .unwrap();
                assert!(ours == theirs, "seed {seed}, {policy:?}");
            }
            rocks.execute(&["close"]).unwrap();
        }
    }
}

#[test]
fn rocksdb_keeps_what_it_writes_behind_a_log_of_ours_that_has_no_batch() {
    let Some(java) = Java::find() else { return };
    let mut rocks = RocksDb::start(java);
    for mode in ["strings", "WRITE_COMMITTED"] {
        let fs = MemoryFileSystem::new();
        let db = Db::open(&options(Arc::new(fs.clone())), HERE).unwrap();
        // The log being written has the remains of a longer one in its file.
        fill(&db, 0..6, &[1; 100_000]);
        let directory = copy_out(&fs.crash_image(SurvivalPolicy::Generous, 0));
        let path = directory.path().display().to_string();
        let database = "avoid_flush_during_recovery=true;recycle_log_file_num=2";
        let open = ["open", mode, &path, database, "default", "bytewise", ""];
        for key in 6..9 {
            let opened = rocks.execute(&open);
            assert!(opened.is_ok(), "{mode}, {key}: {opened:?}");
            let found = rocks.dump("default", None, false).unwrap();
            assert_eq!(found.len(), key, "{mode}");
            let mut batch = WriteBatch::new();
            batch.put(format!("{key:04}"), "of RocksDB");
            rocks.execute(&["write", "s", &hex(batch.data())]).unwrap();
            rocks.kill();
        }
    }
}
