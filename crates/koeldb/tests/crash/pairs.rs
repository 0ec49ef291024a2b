//! The power is cut at every operation of calls that change two directories: the database and a
//! copy, a backup, or the place of files to ingest.
//!
//! Both directories are on one file system, so that linked files share their bytes in the images.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use koeldb::fs::{
    FileSystem, MemoryFileSystem, Purpose, SurvivalPolicy, SystemClock, WriteOptions,
};
use koeldb::{
    BackupEngine, BackupEngineOptions, CheckpointOptions, CompactRangeOptions, Db, Env,
    FlushPolicy, IngestExternalFileArg, IngestExternalFileOptions, LogLevel, Logger, Options,
    RestoreOptions, SstFileWriter, SstFileWriterOptions,
};
use koeldb_testkit::Floors;
use koeldb_testkit::random::mix;

pub(crate) const SOURCE: &str = "/db";

/// The contents of all column families.
pub(crate) type Contents = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

struct NoLog;

impl Logger for NoLog {
    fn log(&self, _level: LogLevel, _message: std::fmt::Arguments<'_>) {}

    fn is_enabled(&self, _: LogLevel) -> bool {
        false
    }
}

pub(crate) fn options(fs: &MemoryFileSystem) -> Options {
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_logger(NoLog)
        .set_env(&Env::new(Arc::new(fs.clone()), Arc::new(SystemClock)));
    options
}

pub(crate) fn open(fs: &MemoryFileSystem, path: &str) -> koeldb::Result<Db> {
    let options = options(fs);
    let names = match Db::list_cf(&options, path) {
        Ok(names) => names,
        Err(error) if error.is_path_not_found() => Vec::new(),
        Err(error) => return Err(error),
    };
    let mut builder = Db::builder(&options);
    builder.column_families(names);
    builder.open(path)
}

pub(crate) fn contents(db: &Db) -> koeldb::Result<Contents> {
    let mut contents = Contents::new();
    for family in db.cf_handles() {
        let entries = contents.entry(family.name().to_owned()).or_default();
        for entry in family.range(..) {
            let (key, value) = entry?;
            entries.insert(key.to_vec(), value.to_vec());
        }
    }
    Ok(contents)
}

pub(crate) fn fill(db: &Db, from: u32, count: u32) {
    for family in db.cf_handles() {
        for index in from..from + count {
            let key = format!("key{index:05}");
            let value = format!("{} {index}", family.name());
            family.put(key, value).unwrap();
        }
    }
}

/// An image of both directories.
pub(crate) struct PairImage {
    pub(crate) fs: MemoryFileSystem,
    /// The steps that had returned.
    pub(crate) done: u64,
    policy: SurvivalPolicy,
    operation: u64,
}

/// The number of steps of a run that have returned.
#[derive(Clone, Default)]
pub(crate) struct Steps(Arc<AtomicU64>);

impl Steps {
    pub(crate) fn done(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

const POLICIES: [SurvivalPolicy; 7] = [
    SurvivalPolicy::Strict,
    SurvivalPolicy::Generous,
    SurvivalPolicy::TornPrefix,
    SurvivalPolicy::LengthFirst,
    SurvivalPolicy::EntriesWithoutData,
    SurvivalPolicy::DataWithoutEntries,
    SurvivalPolicy::Reordered,
];

/// Runs `run`, and checks the images of every moment with what it returned.
pub(crate) fn sweep<T>(
    name: &str,
    run: impl FnOnce(&MemoryFileSystem, &Steps) -> T,
    check: impl Fn(&PairImage, &T) -> Result<(), String>,
) {
    let seed = crate::seed();
    let per_moment = Floors::chosen().of(1, 3, 7);
    let memory = MemoryFileSystem::new();
    let steps = Steps::default();
    let images: Arc<Mutex<Vec<PairImage>>> = Arc::default();
    let (taken, of_steps) = (Arc::clone(&images), steps.clone());
    memory.observe_mutations(move |fs, operation| {
        for index in 0..per_moment {
            let choice = mix(seed ^ operation).wrapping_add(index) % POLICIES.len() as u64;
            let policy = POLICIES[usize::try_from(choice).unwrap()];
            // Before the image: a step that ends meanwhile may not be in it.
            let done = of_steps.0.load(Ordering::SeqCst);
            let image = PairImage {
                fs: fs.crash_image(policy, mix(seed.wrapping_add(operation))),
                done,
                policy,
                operation,
            };
            let mut images = taken.lock().unwrap_or_else(PoisonError::into_inner);
            images.push(image);
        }
    });
    let outcome = run(&memory, &steps);
    memory.observe_mutations(|_, _| ());
    let images = std::mem::take(&mut *images.lock().unwrap_or_else(PoisonError::into_inner));
    let mut failures = Vec::new();
    for image in &images {
        if let Err(text) = check(image, &outcome) {
            let (operation, policy) = (image.operation, image.policy);
            failures.push(format!(
                "{name}: crash before operation {operation} under {policy:?}: {text}"
            ));
        }
    }
    eprintln!(
        "{name}: {} images, {} failures",
        images.len(),
        failures.len()
    );
    assert!(images.len() > 100, "{name}: {} images", images.len());
    assert!(
        failures.is_empty(),
        "KOELDB_SEED={seed}\n{}",
        failures[..failures.len().min(5)].join("\n")
    );
}

/// Opens the database at `path` and compares it with `expected`.
pub(crate) fn check_contents(
    fs: &MemoryFileSystem,
    path: &str,
    expected: &Contents,
) -> Result<(), String> {
    let db = open(fs, path).map_err(|error| format!("{path}: {error}"))?;
    let found = contents(&db).map_err(|error| format!("{path}: {error}"))?;
    if &found == expected {
        return Ok(());
    }
    let count = |contents: &Contents| contents.values().map(BTreeMap::len).sum::<usize>();
    Err(format!(
        "{path} has {} entries and should have {}",
        count(&found),
        count(expected)
    ))
}

const COPIES: [&str; 2] = ["/copies/log", "/copies/flushed"];

#[test]
fn a_crash_during_a_checkpoint_leaves_none_or_a_whole_one() {
    let run = |fs: &MemoryFileSystem, steps: &Steps| {
        let db = open(fs, SOURCE).unwrap();
        db.create_cf("koel", &db.default_cf().options()).unwrap();
        fill(&db, 0, 30);
        db.flush().unwrap();
        fill(&db, 20, 30);
        let mut expected = Vec::new();
        for (path, flush) in COPIES
            .into_iter()
            .zip([FlushPolicy::Never, FlushPolicy::Always])
        {
            let mut how = CheckpointOptions::new();
            how.set_flush(flush).set_threads(1);
            expected.push(contents(&db).unwrap());
            db.create_checkpoint_opt(path, &how).unwrap();
            steps.done();
            fill(&db, 60, 5);
        }
        db.compact_all(&CompactRangeOptions::new()).unwrap();
        db.close().unwrap();
        expected
    };
    let check = |image: &PairImage, expected: &Vec<Contents>| {
        for (index, (path, expected)) in COPIES.into_iter().zip(expected).enumerate() {
            if image.fs.exists(Path::new(path)).unwrap() {
                check_contents(&image.fs, path, expected)?;
            } else if image.done > index as u64 {
                return Err(format!("{path} is gone"));
            }
        }
        open(&image.fs, SOURCE)
            .and_then(|db| db.verify_checksums())
            .map_err(|error| format!("the source: {error}"))
    };
    sweep("checkpoint", run, check);
}

const BACKUPS: &str = "/backups";
const RESTORED: &str = "/restored";

fn engine(fs: &MemoryFileSystem) -> koeldb::Result<BackupEngine> {
    let mut options = BackupEngineOptions::new();
    options
        .set_env(&Env::new(Arc::new(fs.clone()), Arc::new(SystemClock)))
        .set_max_background_operations(1);
    BackupEngine::open(BACKUPS, &options)
}

#[test]
fn a_crash_during_backups_leaves_every_listed_one_whole() {
    let run = |fs: &MemoryFileSystem, steps: &Steps| {
        let db = open(fs, SOURCE).unwrap();
        let backups = engine(fs).unwrap();
        let mut expected = Vec::new();
        for round in 0..3 {
            fill(&db, round * 20, 30);
            db.flush().unwrap();
            fill(&db, round * 20 + 5, 3);
            expected.push(contents(&db).unwrap());
            backups.create_new_backup(&db).unwrap();
            steps.done();
            if round == 1 {
                db.compact_all(&CompactRangeOptions::new()).unwrap();
                backups.delete_backup(1).unwrap();
                steps.done();
            }
        }
        expected
    };
    let check = |image: &PairImage, expected: &Vec<Contents>| {
        if !image.fs.exists(Path::new(BACKUPS)).unwrap() {
            return match image.done {
                0 => Ok(()),
                _ => Err("the directory of backups is gone".to_owned()),
            };
        }
        let backups = engine(&image.fs).map_err(|error| error.to_string())?;
        if let Some((id, error)) = backups.corrupted_backups().first() {
            return Err(format!("backup {id}: {error}"));
        }
        let ids: Vec<u32> = backups
            .backups()
            .iter()
            .map(|info| info.backup_id)
            .collect();
        // The steps: backup 1, backup 2, deletion of 1, backup 3.
        let owed: &[u32] = match image.done {
            0 => &[],
            1 => &[1],
            2 => &[2],
            3 => &[2],
            _ => &[2, 3],
        };
        if !owed.iter().all(|id| ids.contains(id)) || image.done > 2 && ids.contains(&1) {
            return Err(format!("backups {ids:?} after {} steps", image.done));
        }
        backups
            .garbage_collect()
            .map_err(|error| error.to_string())?;
        for id in ids {
            let how = RestoreOptions::new();
            let restored = backups.restore(id, RESTORED, RESTORED, &how);
            restored.map_err(|error| format!("backup {id}: {error}"))?;
            check_contents(&image.fs, RESTORED, &expected[id as usize - 1])?;
        }
        Ok(())
    };
    sweep("backup", run, check);
}

/// Checks a directory whose restoration ended after it removed CURRENT, the first file to go.
///
/// An open with `create_if_missing` begins an empty database or names the directory in its error.
/// The next restoration is complete.
fn check_interrupted_restoration(fs: &MemoryFileSystem, restored: &Contents) -> Result<(), String> {
    match open(fs, SOURCE) {
        Ok(db) => {
            let found = contents(&db).map_err(|error| error.to_string())?;
            let empty = Contents::from([("default".to_owned(), BTreeMap::new())]);
            if found != empty {
                return Err(format!("an open without CURRENT shows {found:?}"));
            }
        }
        Err(error) if error.to_string().contains(SOURCE) => {}
        Err(error) => return Err(format!("an open without CURRENT: {error}")),
    }
    let backups = engine(fs).map_err(|error| error.to_string())?;
    let repeated = backups.restore_latest(SOURCE);
    repeated.map_err(|error| format!("the repeated restoration: {error}"))?;
    check_contents(fs, SOURCE, restored)
}

#[test]
fn a_crash_during_a_restoration_leaves_no_database_or_the_restored_one() {
    let run = |fs: &MemoryFileSystem, steps: &Steps| {
        let db = open(fs, SOURCE).unwrap();
        let backups = engine(fs).unwrap();
        fill(&db, 0, 30);
        db.flush().unwrap();
        fill(&db, 40, 10);
        let old = contents(&db).unwrap();
        backups.create_new_backup(&db).unwrap();
        fill(&db, 60, 30);
        db.flush().unwrap();
        db.compact_all(&CompactRangeOptions::new()).unwrap();
        let new = contents(&db).unwrap();
        db.close().unwrap();
        drop(db);
        steps.done();
        backups.restore_latest(SOURCE).unwrap();
        steps.done();
        (old, new)
    };
    let check = |image: &PairImage, (old, new): &(Contents, Contents)| {
        if image.done == 0 {
            return Ok(());
        }
        let current = Path::new(SOURCE).join("CURRENT");
        if !image.fs.exists(&current).unwrap() {
            return match image.done {
                2 => Err("the restored database is gone".to_owned()),
                _ => check_interrupted_restoration(&image.fs, old),
            };
        }
        // Until CURRENT is gone, the old database is whole.
        let is_old = image.done == 1 && check_contents(&image.fs, SOURCE, new).is_ok();
        match is_old {
            true => Ok(()),
            false => check_contents(&image.fs, SOURCE, old),
        }
    };
    sweep("restore", run, check);
}

#[test]
fn a_crash_during_an_ingestion_leaves_all_files_or_none() {
    let table = |fs: &MemoryFileSystem, name: &str, from: u32| {
        let mut how = SstFileWriterOptions::new();
        how.set_env(&Env::new(Arc::new(fs.clone()), Arc::new(SystemClock)))
            .set_sync_dir(true);
        let path = Path::new("/in").join(format!("{name}.draft"));
        let options = koeldb::ColumnFamilyOptions::new();
        let mut writer = SstFileWriter::create_opt(&options, &path, &how).unwrap();
        for index in from..from + 20 {
            writer.put(format!("key{index:05}"), name).unwrap();
        }
        let written = writer.finish().unwrap().path;
        // The owner need not have synced a file.
        let path = Path::new("/in").join(name);
        let mut copy = fs
            .create(&path, &WriteOptions::new(Purpose::Ingest))
            .unwrap();
        let bytes = fs.read_all(&written, 1 << 20, Purpose::Ingest).unwrap();
        copy.append(&bytes).unwrap();
        copy.close().unwrap();
        fs.sync_dir("/in".as_ref()).unwrap();
        path
    };
    // The fourth mode replaces all of the default column family.
    for (mode, overlaps) in (0..4).flat_map(|mode| [(mode, true), (mode, false)]) {
        let run = |fs: &MemoryFileSystem, steps: &Steps| {
            fs.create_dir_all("/in".as_ref()).unwrap();
            fs.sync_dir("/".as_ref()).unwrap();
            let db = open(fs, SOURCE).unwrap();
            let koel = db.create_cf("koel", &db.default_cf().options()).unwrap();
            fill(&db, 0, 30);
            if !overlaps {
                // Nothing but the ingestion makes the files and the end of the log durable: it
                // flushes no memtable, and the name of the log is durable.
                db.flush().unwrap();
                fill(&db, 200, 5);
                db.flush_wal(true).unwrap();
                fill(&db, 205, 5);
            }
            let mut args = [
                IngestExternalFileArg::new(
                    db.default_cf(),
                    [table(fs, "a", 10), table(fs, "b", 100)],
                ),
                IngestExternalFileArg::new(&koel, [table(fs, "c", 20)]),
            ];
            let before = contents(&db).unwrap();
            let mut how = IngestExternalFileOptions::new();
            how.set_link_files(mode == 1).set_move_files(mode == 2);
            if mode == 3 {
                how.set_snapshot_consistency(false);
                args[0].set_atomic_replace_range(..).unwrap();
            }
            steps.done();
            db.ingest_external_files(&args, &how).unwrap();
            let after = contents(&db).unwrap();
            steps.done();
            // Unsynced writes after the ingestion may be lost.
            db.put("key00010", "later").unwrap();
            steps.done();
            db.close().unwrap();
            (before, after)
        };
        let check = |image: &PairImage, (before, after): &(Contents, Contents)| {
            if image.done == 0 {
                return Ok(());
            }
            let db = open(&image.fs, SOURCE).map_err(|error| error.to_string())?;
            let mut found = contents(&db).map_err(|error| error.to_string())?;
            let default = found.entry("default".to_owned()).or_default();
            let is_later = default
                .get(&b"key00010"[..])
                .is_some_and(|value| value == b"later");
            if is_later {
                default.insert(b"key00010".to_vec(), b"a".to_vec());
            }
            let has_files = &found == after;
            let sources = ["a", "b", "c"].map(|name| Path::new("/in").join(name));
            let has_sources = sources.iter().all(|path| image.fs.exists(path).unwrap());
            if !has_files && image.done >= 2 {
                return Err("the ingested files are gone".to_owned());
            }
            if !has_files && !has_sources {
                return Err("files are neither here nor there".to_owned());
            }
            // Writes before the ingestion were not synced.
            let is_part = found.iter().all(|(name, entries)| {
                let known = before.get(name);
                entries
                    .iter()
                    .all(|(key, value)| known.is_some_and(|k| k.get(key) == Some(value)))
            });
            match has_files || is_part {
                true => Ok(()),
                false => Err("a part of the files".to_owned()),
            }
        };
        sweep(
            &format!("ingestion {mode}, overlapping: {overlaps}"),
            run,
            check,
        );
    }
}
