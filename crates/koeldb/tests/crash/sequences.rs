//! All short sequences of a few operations, each with crashes at every sync and at its end.
//!
//! The alphabet has one letter for each difference in the states of memtables, logs, tables and
//! column families; keys are few, so that operations interact. Errors that three letters reveal
//! need not be found by chance in longer sequences.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use koeldb::fs::{FileSystem, MemoryFileSystem, SurvivalPolicy};
use koeldb::{
    ColumnFamily, CompactRangeOptions, Db, FlushOptions, Options, ReadOptions, Snapshot,
    WriteBatch, WriteOptions,
};
use koeldb_testkit::monitor::{self, Acknowledged, OrderingMonitor};
use koeldb_testkit::oracle::{Bounds, DEFAULT_FAMILY};
use koeldb_testkit::random::mix;
use koeldb_testkit::{
    Change, Content, Crash, Entries, FamilyId, Floors, History, Legality, Summary,
};

use crate::check;
use crate::script::Script;
use crate::scripts::SCRIPTS;
use crate::session::{PATH, add, image_options, open, options};

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Letter {
    /// A new key in both column families.
    Put,
    /// Always the same key.
    Overwrite,
    SyncedPut,
    Delete,
    DeleteRange,
    Merge,
    Flush,
    /// Flushes one of two column families.
    FlushOne,
    Compact,
    /// Clips one of two column families to the key in the middle.
    Clip,
    /// Takes a snapshot, or verifies and releases an existing one.
    Snapshot,
    /// Creates or drops the second column family.
    Family,
    Reopen,
}

const ALPHABET: [Letter; 13] = [
    Letter::Put,
    Letter::Overwrite,
    Letter::SyncedPut,
    Letter::Delete,
    Letter::DeleteRange,
    Letter::Merge,
    Letter::Flush,
    Letter::FlushOne,
    Letter::Compact,
    Letter::Clip,
    Letter::Snapshot,
    Letter::Family,
    Letter::Reopen,
];

/// A crash image and the required contents.
struct Image {
    files: MemoryFileSystem,
    policy: SurvivalPolicy,
    operation: u64,
    bounds: Bounds,
}

struct Run {
    memory: MemoryFileSystem,
    monitor: OrderingMonitor,
    options: Options,
    history: Arc<History>,
    db: Option<Db>,
    families: Vec<(FamilyId, ColumnFamily)>,
    snapshot: Option<(Snapshot, Content)>,
    writes: u64,
}

/// Keys as [`check::content`] reads them.
fn key(number: u64) -> Vec<u8> {
    format!("k{:03}", number % 3).into_bytes()
}

fn text(error: &koeldb::Error) -> String {
    error.to_string()
}

impl Run {
    fn new(script: &Script) -> Result<Self, String> {
        let memory = MemoryFileSystem::new();
        let monitor = monitor::watch(Arc::new(memory.clone()), Path::new(PATH));
        let fs: Arc<dyn FileSystem> = Arc::new(monitor.clone());
        let mut options = options(script, fs);
        options.set_disable_auto_compactions(true);
        let mut run = Run {
            memory,
            monitor,
            options,
            history: Arc::new(History::new()),
            db: None,
            families: Vec::new(),
            snapshot: None,
            writes: 0,
        };
        run.open()?;
        // Every sequence starts with a nonempty second column family.
        run.step(Letter::Family)?;
        run.step(Letter::Put)?;
        Ok(run)
    }

    fn open(&mut self) -> Result<(), String> {
        let db = open(&self.options, Path::new(PATH)).map_err(|error| text(&error))?;
        let known = std::mem::take(&mut self.families);
        if known.is_empty() {
            self.families
                .push((DEFAULT_FAMILY, db.default_cf().clone()));
        }
        for (id, old) in known {
            let handle = db.cf_handle(old.name()).ok_or("a family is gone")?;
            self.families.push((id, handle));
        }
        self.db = Some(db);
        Ok(())
    }

    fn db(&self) -> Result<&Db, String> {
        self.db.as_ref().ok_or_else(|| "not open".to_owned())
    }

    fn write(&mut self, change: impl Fn(u64) -> Change, sync: bool) -> Result<(), String> {
        self.writes += 1;
        let change = change(self.writes);
        let mut batch = WriteBatch::new();
        let mut changes = Vec::new();
        for (id, family) in &self.families {
            add(&mut batch, family, &change);
            changes.push((*id, change.clone()));
        }
        let time = self.writes.to_le_bytes();
        batch
            .update_timestamps(time)
            .map_err(|error| text(&error))?;
        let number = self.history.begin(changes);
        let mut options = WriteOptions::new();
        // Alternates: half of the batches carry checksums to the memtables.
        options
            .set_sync(sync)
            .set_protection_bytes_per_key((number % 2 * 8) as u64);
        self.db()?
            .write_opt(&batch, &options)
            .map_err(|error| text(&error))?;
        self.history.acknowledge(number, true, sync);
        self.monitor.layer().acknowledged(match sync {
            true => Acknowledged::Synced,
            false => Acknowledged::Handed,
        });
        Ok(())
    }

    fn step(&mut self, letter: Letter) -> Result<(), String> {
        let value = |number: u64| format!("value {number}").into_bytes();
        let all: Vec<FamilyId> = self.families.iter().map(|(id, _)| *id).collect();
        match letter {
            Letter::Put => self.write(|n| Change::Put(key(n), value(n)), false)?,
            Letter::Overwrite => self.write(|n| Change::Put(key(1), value(n)), false)?,
            Letter::SyncedPut => self.write(|n| Change::Put(key(n), value(n)), true)?,
            Letter::Delete => self.write(|_| Change::Delete(key(1)), false)?,
            Letter::DeleteRange => {
                self.write(|_| Change::DeleteRange(key(0), key(2)), false)?;
            }
            Letter::Merge => self.write(|n| Change::Merge(key(1), value(n)), false)?,
            Letter::Flush => {
                self.db()?.flush().map_err(|error| text(&error))?;
                self.history.flushed(&all);
            }
            Letter::FlushOne => {
                let (id, family) = &self.families[self.families.len() - 1];
                let flushed = family.flush_opt(&FlushOptions::new());
                flushed.map_err(|error| text(&error))?;
                self.history.flushed(&[*id]);
            }
            Letter::Compact => {
                let compacted = self.db()?.compact_all(&CompactRangeOptions::new());
                compacted.map_err(|error| text(&error))?;
                self.history.flushed(&all);
            }
            Letter::Clip => self.step_clip()?,
            Letter::Snapshot => self.step_snapshot()?,
            Letter::Family => self.step_family()?,
            Letter::Reopen => {
                self.snapshot = None;
                let db = self.db.take().ok_or("not open")?;
                db.close().map_err(|error| text(&error))?;
                drop(db);
                self.history.all_durable();
                self.open()?;
            }
        }
        Ok(())
    }

    /// All keys outside go in one write; without such keys there is none.
    fn step_clip(&mut self) -> Result<(), String> {
        let (id, family) = &self.families[self.families.len() - 1];
        if check::is_dated(family) {
            // Refused: its keys have timestamps.
            return Ok(());
        }
        let mut is_written = false;
        for outside in [key(0), key(2)] {
            is_written |= family.get(outside).map_err(|error| text(&error))?.is_some();
        }
        let outside = [(key(0), key(1)), (key(2), b"k999".to_vec())];
        let changes = outside.map(|(from, to)| (*id, Change::DeleteRange(from, to)));
        let number = is_written.then(|| self.history.begin(changes.to_vec()));
        let clipped = family.clip(key(1), key(2));
        clipped.map_err(|error| text(&error))?;
        if let Some(number) = number {
            self.history.acknowledge(number, true, false);
        }
        self.history.flushed(&[*id]);
        Ok(())
    }

    fn step_snapshot(&mut self) -> Result<(), String> {
        match self.snapshot.take() {
            Some((snapshot, before)) => self.check_snapshot(&snapshot, &before),
            None => {
                let content = check::content(self.db()?)?;
                self.snapshot = Some((self.db()?.snapshot(), content));
                Ok(())
            }
        }
    }

    /// Checks that a snapshot shows the contents from when it was taken.
    fn check_snapshot(&self, snapshot: &Snapshot, before: &Content) -> Result<(), String> {
        for (_, family) in &self.families {
            let Some(expected) = before.get(family.name()) else {
                continue;
            };
            let reads = check::newest(family, ReadOptions::at(snapshot));
            let found = family.range_opt(.., &reads).map(|entry| {
                let (key, value) = entry.map_err(|error| text(&error))?;
                Ok((key.to_vec(), value.to_vec()))
            });
            let found: Entries = found.collect::<Result<_, String>>()?;
            if found != *expected {
                return Err(format!("a snapshot of {:?} has changed", family.name()));
            }
        }
        Ok(())
    }

    fn step_family(&mut self) -> Result<(), String> {
        if self.families.len() == 1 {
            let id = self.history.begin_create("second");
            let options = self.db()?.default_cf().options();
            let family = self
                .db()?
                .create_cf("second", &options)
                .map_err(|error| text(&error))?;
            self.history.created(id);
            self.families.push((id, family));
            return Ok(());
        }
        // A dropped column family is no longer in the snapshot.
        self.snapshot = None;
        if let Some((id, family)) = self.families.pop() {
            self.history.begin_drop(id);
            self.db()?.drop_cf(&family).map_err(|error| text(&error))?;
            self.history.dropped(id);
        }
        Ok(())
    }

    fn finish(mut self) -> Result<(), String> {
        if let Some((snapshot, before)) = self.snapshot.take() {
            self.check_snapshot(&snapshot, &before)?;
        }
        let content = check::content(self.db()?)?;
        let bounds = self.history.bounds_of_all();
        self.history.judge(&content, &bounds, Legality::Prefix)?;
        monitor::verdict(&self.monitor).map_err(|error| text(&error))
    }
}

/// Takes crash images before each sync and at the end.
///
/// Each uses the most pessimistic policy and one that the seed determines.
fn film(run: &Run, seed: u64, every: bool) -> Arc<Mutex<Vec<Image>>> {
    let images: Arc<Mutex<Vec<Image>>> = Arc::default();
    let (taken, history) = (Arc::clone(&images), Arc::clone(&run.history));
    run.memory.observe_mutations(move |fs, operation| {
        if !every && !mix(seed ^ operation).is_multiple_of(16) {
            return;
        }
        take(fs, &history, seed, operation, &taken);
    });
    images
}

fn take(
    fs: &MemoryFileSystem,
    history: &History,
    seed: u64,
    operation: u64,
    images: &Mutex<Vec<Image>>,
) {
    let all = SurvivalPolicy::ALL;
    let chosen = all[usize::try_from(mix(seed ^ mix(operation)) % all.len() as u64).unwrap_or(0)];
    for policy in [SurvivalPolicy::Strict, chosen] {
        let crash = match policy {
            SurvivalPolicy::Generous => Crash::Process,
            _ => Crash::Power,
        };
        let owed = history.owed(crash);
        let files = fs.crash_image(policy, seed ^ operation);
        let bounds = history.bounds(&owed);
        images
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Image {
                files,
                policy,
                operation,
                bounds,
            });
    }
}

/// Runs one sequence and checks its crash images; returns their number.
fn run_sequence(
    script: &Script,
    letters: &[Letter],
    seed: u64,
    every: bool,
) -> Result<u64, String> {
    let mut run = Run::new(script)?;
    let images = film(&run, seed, every);
    for letter in letters {
        run.step(*letter)?;
    }
    run.memory.observe_mutations(|_, _| ());
    take(&run.memory, &run.history, seed, u64::MAX, &images);
    let history = Arc::clone(&run.history);
    run.finish()?;
    let images = std::mem::take(&mut *images.lock().unwrap_or_else(PoisonError::into_inner));
    let mut count = 0;
    for image in images {
        count += 1;
        let context = |error: String| {
            format!(
                "crash before operation {} under {:?}: {error}",
                image.operation, image.policy
            )
        };
        let options = image_options(script, &image.files);
        let db = open(&options, Path::new(PATH)).map_err(|error| context(text(&error)))?;
        let content = check::content(&db).map_err(context)?;
        let judged = history.judge(&content, &image.bounds, Legality::Prefix);
        judged.map_err(context)?;
    }
    Ok(count)
}

/// The sequence of this number: its digits are letters.
fn letters(mut number: u64, length: usize) -> Vec<Letter> {
    let base = ALPHABET.len() as u64;
    let mut letters = Vec::new();
    for _ in 0..length {
        letters.push(ALPHABET[usize::try_from(number % base).unwrap_or(0)]);
        number /= base;
    }
    letters
}

#[test]
fn no_short_sequence_loses_anything() {
    let seed = crate::seed();
    let begun = crate::seconds();
    let floors = Floors::chosen();
    let length = floors.of(3, 3, 4);
    let all = (ALPHABET.len() as u64).pow(u32::try_from(length).unwrap_or(3));
    let only: Option<u64> = std::env::var("KOELDB_N")
        .ok()
        .and_then(|text| text.parse().ok());
    let script_of = |name| SCRIPTS.iter().find(|script| script.name == name).unwrap();
    let (plain, dated) = (script_of("create"), script_of("timestamps"));
    let next = AtomicU64::new(only.unwrap_or(0));
    let end = only.map_or(all, |only| only + 1);
    let (images, failures) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= end {
                        break;
                    }
                    let letters = letters(number, length);
                    let every = floors != Floors::Short || only.is_some();
                    let own = mix(seed ^ number);
                    let ran = run_sequence(plain, &letters, own, every).and_then(|count| {
                        // Of a sixth, the keys have timestamps, too.
                        match own % 6 {
                            0 => Ok(count + run_sequence(dated, &letters, own, every)?),
                            _ => Ok(count),
                        }
                    });
                    match ran {
                        Ok(count) => {
                            images.fetch_add(count, Ordering::Relaxed);
                        }
                        Err(error) => {
                            failures.fetch_add(1, Ordering::Relaxed);
                            eprintln!(
                                "{letters:?}: {error}\n  repeat: KOELDB_SEED={seed} KOELDB_N={number} cargo test -p koeldb \
                                 --test crash sequences"
                            );
                        }
                    }
                }
            });
        }
    });
    Summary {
        suite: "sequences",
        seed,
        figures: vec![
            ("sequences", end - only.unwrap_or(0)),
            ("images", images.into_inner()),
        ],
        seconds: crate::seconds() - begun,
        failures: failures.into_inner(),
    }
    .finish("sequences", if only.is_some() { 1 } else { all });
}
