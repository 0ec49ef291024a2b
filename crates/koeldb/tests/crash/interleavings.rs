//! Calls between the steps of jobs, by actors that share a database.
//!
//! A switch from one actor to another may happen before every operation of the file system
//! (`koeldb_testkit::turns`). So every call may run between any two steps of a flush, a compaction,
//! a log switch, a purge, an open or another call. Crash images are taken at such points, recovered
//! and checked.
//!
//! A run has phases. Each opens the result of the previous one with new options, lets its actors do
//! what the seed determines, and ends with a close or a crash. Only one write runs at a time, so
//! that batches have an order; everything else overlaps. A call may fail for two reasons: another
//! actor closed the database or dropped the family, or an operation of the file system failed. In
//! a third of the phases some do; then a write may be indeterminate, and so may a family.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use koeldb::fs::layer::{Call, Layer, Layered};
use koeldb::fs::{
    Clock, Failure, FaultAction, FaultFileSystem, FaultRule, FileSystem, ManualClock,
    MemoryFileSystem, SurvivalPolicy,
};
use koeldb::{
    BottommostLevelCompaction, ColumnFamily, ColumnFamilyOptions, CompactRangeOptions,
    ConfigOptions, Db, DbIterator, Env, Error, ErrorDetail, ErrorKind, FlushOptions, IteratorMode,
    LogLevel, Logger, Options, ReadOptions, Snapshot, SstFileManager, StringAppend, WriteBatch,
    WriteOptions, WriteOutcome,
};
use koeldb_testkit::model::describe_differences;
use koeldb_testkit::monitor::{self, OrderingMonitor};
use koeldb_testkit::oracle::{DEFAULT_FAMILY, UNLOGGED_PREFIX};
use koeldb_testkit::random::mix;
use koeldb_testkit::turns::Body;
use koeldb_testkit::variety::{Drawer, Drawn, Suite};
use koeldb_testkit::{
    Change, Content, Crash, Entries, FamilyId, Floors, History, Legality, Random, Shot, Summary,
    Turns,
};

use crate::check;
use crate::session::{PATH, add};

/// Families besides the default one. A name comes again after a drop.
const NAMES: [&str; 3] = ["a", "b", "c"];

/// Points of a phase after which it counts as endless.
const POINTS_MAX: u64 = 400_000;

/// Calls that the report of a failure shows.
const DONE_MAX: usize = 60;

/// Images of one phase.
const IMAGES_MAX: usize = 24;

struct NoLog;

impl Logger for NoLog {
    fn log(&self, _level: LogLevel, _message: std::fmt::Arguments<'_>) {}

    fn is_enabled(&self, _: LogLevel) -> bool {
        false
    }
}

/// Prints every operation, for a run that is repeated.
#[derive(Debug)]
struct Printer {
    turns: Turns,
}

impl Layer for Printer {
    fn around<T>(
        &self,
        call: &Call<'_>,
        proceed: impl FnOnce() -> koeldb::Result<T>,
    ) -> koeldb::Result<T> {
        let result = proceed();
        if call.operation.is_mutating() {
            eprintln!(
                "    {:?} {:?} {} {} ok {}",
                self.turns.actor(),
                call.operation,
                call.path.display(),
                call.len,
                result.is_ok()
            );
        }
        result
    }
}

/// A snapshot that stays, and what it showed when it was taken.
struct Held {
    snapshot: Snapshot,
    families: Vec<(ColumnFamily, Entries)>,
    iterator: Option<(DbIterator, Entries)>,
    /// How often the database had been closed by then.
    closes: u64,
}

#[derive(Default)]
struct State {
    db: Option<Db>,
    families: Vec<(FamilyId, ColumnFamily)>,
    /// Names of families that an actor makes or drops.
    busy: Vec<String>,
    /// Actors that read families by name: none of those is made anew meanwhile.
    readers: usize,
    /// The column family that most batches change, so that others are often empty; dropped first.
    hot: usize,
    is_writing: bool,
    is_closing: bool,
    /// How many closes began.
    closes: u64,
    held: Vec<Held>,
    /// Families whose creation or drop failed with an unknown outcome.
    uncertain: Vec<(FamilyId, String)>,
    /// Whether a fault met a close or an open: only a crash leads on.
    is_over: bool,
    done: Vec<String>,
    failure: Option<String>,
}

impl State {
    /// Whether the database of these handles is closed or being closed.
    fn is_leaving(&self, handles: &Handles) -> bool {
        self.is_closing || self.closes != handles.taken.closes
    }
}

/// State shared by all actors of a phase.
struct World {
    history: Arc<History>,
    turns: Turns,
    env: Env,
    faults: Arc<FaultFileSystem>,
    style: Arc<Style>,
    /// In force since the last open.
    setting: Mutex<Setting>,
    state: Mutex<State>,
    prints: bool,
}

/// The handles of a call. Other actors may close the database before the call begins.
struct Handles {
    db: Db,
    families: Vec<(FamilyId, ColumnFamily)>,
    taken: Moment,
}

/// The state of the world when the handles of a call are taken: by it an error is excused.
#[derive(Clone, Copy)]
struct Moment {
    closes: u64,
    is_closing: bool,
    /// Whether only operations are called that no fault is injected into.
    is_reading: bool,
}

/// The options of an open.
#[derive(Clone, Default)]
struct Setting {
    drawn: Drawn,
    /// Options of the database that the drawer leaves out, or draws too rarely.
    own: String,
    /// Deletes tables slowly.
    files: Option<SstFileManager>,
}

impl Setting {
    fn draw(drawer: &Drawer, random: &mut Random) -> Self {
        let mut own = String::new();
        for (option, one_in) in [
            ("wal_compression=kZSTD;", 3),
            ("manual_wal_flush=true;", 4),
            ("max_total_wal_size=4096;", 4),
        ] {
            if random.chance(1, one_in) {
                own += option;
            }
        }
        let drawn = drawer.draw(random);
        let files = random.chance(1, 3).then(|| {
            SstFileManager::builder()
                .delete_rate_bytes_per_second(100_000)
                .max_trash_db_ratio(1.0)
                .bytes_max_delete_chunk(random.below(2) * 1000)
                .build()
        });
        Setting { drawn, own, files }
    }

    fn has(&self, option: &str) -> bool {
        self.drawn.database.contains(option) || self.own.contains(option)
    }

    /// Of the family of this name; a name comes again with the style it had.
    fn family_options(&self, name: &str) -> Result<ColumnFamilyOptions, String> {
        let index = NAMES.iter().position(|known| *known == name);
        let text = self.drawn.families.get(index.map_or(0, |index| index + 1));
        let mut options = ColumnFamilyOptions::default();
        options
            .set_merge_operator(StringAppend::default())
            .apply_str(text.ok_or("no such family")?, &ConfigOptions::new())
            .map_err(|error| error.to_string())?;
        Ok(options)
    }

    /// Opens every family there is.
    fn open(&self, style: &Style, env: &Env, is_quiet: bool) -> Result<Db, String> {
        let mut options = Options::new();
        options
            .create_if_missing(true)
            .set_logger(NoLog)
            .set_env(env)
            .apply_str(&self.drawn.database, &ConfigOptions::new())
            .and_then(|options| options.apply_str(&self.own, &ConfigOptions::new()))
            .map_err(|error| error.to_string())?;
        if let Some(files) = &self.files {
            options.set_sst_file_manager(files);
        }
        // A thread that opens tables is no actor.
        options.set_max_file_opening_threads(1);
        if let Some(directory) = style.wal_dir {
            options.set_wal_dir(directory);
        }
        *options.cf_options_mut() = self.family_options("default")?;
        options.set_disable_auto_compactions(is_quiet || options.get_disable_auto_compactions());
        let names = match Db::list_cf(&options, PATH) {
            Ok(names) => names,
            Err(error) if error.is_path_not_found() => Vec::new(),
            Err(error) => return Err(error.to_string()),
        };
        let mut builder = Db::builder(&options);
        for name in names.into_iter().filter(|name| name != "default") {
            let mut own = self.family_options(&name)?;
            if is_quiet {
                own.set_disable_auto_compactions(true);
            }
            builder.column_family((name, own));
        }
        builder.open(PATH).map_err(|error| error.to_string())
    }
}

/// Properties that a database keeps for its life.
struct Style {
    drawer: Drawer,
    wal_dir: Option<&'static str>,
    /// The timestamp of the last batch.
    time: AtomicU64,
}

impl Style {
    /// Gives the keys of families that have timestamps the next one.
    fn date(&self, batch: &mut WriteBatch) -> Result<(), String> {
        let time = self.time.fetch_add(1, Ordering::Relaxed);
        let dated = batch.update_timestamps(time.to_le_bytes());
        dated.map_err(|error| error.to_string())
    }
}

fn pick<'t, T>(random: &mut Random, among: &'t [T]) -> Option<&'t T> {
    let index = usize::try_from(random.below(among.len() as u64)).ok()?;
    among.get(index)
}

fn key(random: &mut Random) -> Vec<u8> {
    format!("k{:03}", random.below(40)).into_bytes()
}

fn value(random: &mut Random) -> Vec<u8> {
    let length = match random.below(12) {
        0 => random.below(9000),
        _ => random.below(300),
    };
    let mut value = format!("{}:", random.draw()).into_bytes();
    for _ in 0..length / 8 {
        value.extend_from_slice(&random.draw().to_le_bytes());
    }
    value
}

fn change(random: &mut Random) -> Change {
    let key = key(random);
    match random.below(20) {
        0..3 => Change::Delete(key),
        3..5 => Change::Merge(key, format!("m{}", random.draw()).into_bytes()),
        5 => {
            let to = format!("k{:03}", random.below(45)).into_bytes();
            match key < to {
                true => Change::DeleteRange(key, to),
                false => Change::Delete(key),
            }
        }
        _ => Change::Put(key, value(random)),
    }
}

fn entries(
    scan: impl Iterator<Item = koeldb::Result<(impl AsRef<[u8]>, impl AsRef<[u8]>)>>,
) -> koeldb::Result<Entries> {
    scan.map(|entry| {
        let (key, value) = entry?;
        Ok((key.as_ref().to_vec(), value.as_ref().to_vec()))
    })
    .collect()
}

/// Returns the entries of a column family at a snapshot, read in several ways.
fn read(family: &ColumnFamily, snapshot: &Snapshot) -> Result<koeldb::Result<Entries>, String> {
    let read = || -> koeldb::Result<(Entries, Entries, bool)> {
        let at = check::newest(family, ReadOptions::at(snapshot));
        let forward = entries(family.iterator_opt(IteratorMode::Start, &at))?;
        let backward = entries(family.iterator_opt(IteratorMode::End, &at))?;
        let keys: Vec<Vec<u8>> = (0..40).map(|n| format!("k{n:03}").into_bytes()).collect();
        let mut agree = true;
        for (key, found) in keys.iter().zip(&family.multi_get_opt(&keys, &at)) {
            let expected = forward.get(key).map(Vec::as_slice);
            agree &= found? == expected;
            agree &= family.get_opt(key, &at)?.as_deref() == expected;
        }
        Ok((forward, backward, agree))
    };
    match read() {
        Ok((forward, backward, _)) if forward != backward => {
            Err("scans in both directions differ".to_owned())
        }
        Ok((_, _, false)) => Err("lookups differ from a scan".to_owned()),
        Ok((forward, ..)) => Ok(Ok(forward)),
        Err(error) => Ok(Err(error)),
    }
}

impl World {
    fn new(
        disk: &Disk,
        history: &Arc<History>,
        phase: &Phase,
        style: &Arc<Style>,
        seed: u64,
    ) -> Self {
        let turns = Turns::new(
            mix(seed),
            phase.actors,
            phase.switch_one_in,
            disk.nanos,
            POINTS_MAX,
        );
        let prints = std::env::var("KOELDB_PRINT").is_ok();
        let mut below: Arc<dyn FileSystem> = Arc::new(disk.monitor.clone());
        if prints {
            let turns = turns.clone();
            below = Arc::new(Layered::with_layer(below, Printer { turns }));
        }
        let fs = Layered::with_layer(below, turns.clone());
        World {
            history: Arc::clone(history),
            env: Env::stepped(Arc::new(fs), Arc::new(turns.clone()), seed),
            faults: Arc::clone(&disk.faults),
            turns,
            style: Arc::clone(style),
            setting: Mutex::default(),
            state: Mutex::default(),
            prints,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn setting(&self) -> Setting {
        let setting = self.setting.lock();
        setting.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn has(&self, option: &str) -> bool {
        self.setting().has(option)
    }

    fn note(&self, text: &str) {
        let actor = self.turns.actor();
        let text = format!("{:6} {actor:?} {text}", self.turns.points());
        if self.prints {
            eprintln!("  {text}");
        }
        self.state().done.push(text);
    }

    /// Takes handles for a call; `None` while the database is closed.
    fn handles(&self) -> Option<Handles> {
        let state = self.state();
        let taken = Moment {
            closes: state.closes,
            is_closing: state.is_closing,
            is_reading: false,
        };
        Some(Handles {
            db: state.db.clone()?,
            families: state.families.clone(),
            taken,
        })
    }

    /// Notes that a call begins.
    fn begin(&self, text: &str) {
        self.turns.doing(text);
        self.note(&format!("{text} ..."));
    }

    fn has_faults(&self) -> bool {
        self.faults.injection_count() > 0
    }

    /// Whether the call succeeded; an error that nothing excuses is a failure.
    fn end<T>(
        &self,
        text: &str,
        moment: Moment,
        families: &[(FamilyId, ColumnFamily)],
        result: koeldb::Result<T>,
    ) -> Result<Option<T>, String> {
        let error = match result {
            Ok(value) => {
                self.note(&format!("{text}: done"));
                return Ok(Some(value));
            }
            Err(error) => error,
        };
        self.note(&format!("{text}: {error}"));
        match self.excuses(&error, moment, families) {
            true => Ok(None),
            false => Err(format!("{text}: {:?}: {error}", error.kind())),
        }
    }

    fn excuses(
        &self,
        error: &Error,
        moment: Moment,
        families: &[(FamilyId, ColumnFamily)],
    ) -> bool {
        let has_panicked = error.detail() == Some(ErrorDetail::PluginPanicked);
        let is_bug = has_panicked || error.kind() == ErrorKind::Corruption;
        if self.has_faults() && !moment.is_reading && !is_bug {
            return true;
        }
        // A drop takes the family out of the state first, and is recorded before the handle shows it.
        let state = self.state();
        let is_there = |id| state.families.iter().any(|(known, _)| *known == id);
        let is_dropped = || families.iter().any(|(id, _)| !is_there(*id));
        let has_closed = moment.is_closing || state.closes != moment.closes;
        match error.kind() {
            ErrorKind::ShutdownInProgress => has_closed,
            // A compaction that a close gives up.
            ErrorKind::Aborted => has_closed,
            ErrorKind::ColumnFamilyDropped => is_dropped(),
            _ => false,
        }
    }

    /// Opens; families keep their place in the history.
    fn open(&self, setting: Setting) -> Result<(), String> {
        self.note(&format!("open {} {}", setting.drawn.database, setting.own));
        let opened = setting.open(&self.style, &self.env, false);
        *self.setting.lock().unwrap_or_else(PoisonError::into_inner) = setting;
        let db = opened.map_err(|error| format!("open: {error}"))?;
        let known = self.state().families.clone();
        let mut families = Vec::new();
        for (id, name) in match known.is_empty() {
            true => vec![(DEFAULT_FAMILY, "default".to_owned())],
            false => known
                .iter()
                .map(|(id, f)| (*id, f.name().to_owned()))
                .collect(),
        } {
            let handle = db.cf_handle(&name);
            families.push((id, handle.ok_or_else(|| format!("family {name} is gone"))?));
        }
        let mut state = self.state();
        state.families = families;
        state.db = Some(db);
        state.is_closing = false;
        Ok(())
    }

    /// The life of an actor.
    fn live(&self, seed: u64, steps: u64) {
        let mut random = Random::new(seed);
        for _ in 0..steps {
            let state = self.state();
            if state.failure.is_some() || state.is_over {
                return;
            }
            drop(state);
            let handles = self.handles();
            self.turns.point();
            let acted = match handles {
                Some(handles) => self.act(&handles, &mut random),
                None => {
                    self.turns.sleep(Duration::from_millis(1));
                    Ok(())
                }
            };
            if let Err(error) = acted {
                self.note(&format!("FAILED: {error}"));
                self.state().failure.get_or_insert(error);
            }
        }
    }

    fn act(&self, handles: &Handles, random: &mut Random) -> Result<(), String> {
        let Handles { db, taken, .. } = handles;
        if self.has_faults() && random.chance(1, 12) {
            self.begin("resume");
            return self.end("resume", *taken, &[], db.resume()).map(|_| ());
        }
        match random.below(100) {
            0..30 => self.write(handles, random),
            30..46 => {
                self.run_jobs(random);
                Ok(())
            }
            46..58 => self.flush(handles, random),
            58..62 => self.flush_wal(handles, random),
            62..67 => self.compact(handles, random),
            67..74 => self.drop_family(handles, random),
            74..80 => self.create_family(handles, random),
            80..85 => self.set_options(handles, random),
            85..91 => self.hold(handles, random),
            91..94 => self.take(handles).map(drop),
            94..96 => self.inspect(handles, random),
            96..98 => {
                self.begin("wait");
                let waited = db.wait_for_compact(Some(Duration::from_secs(1)));
                match waited {
                    Err(error) if error.kind() == ErrorKind::TimedOut => Ok(()),
                    waited => self.end("wait", *taken, &[], waited).map(|_| ()),
                }
            }
            _ => self.reopen(handles, random),
        }
    }

    fn run_jobs(&self, random: &mut Random) {
        self.turns.doing("jobs");
        for _ in 0..=random.below(3) {
            if !self.env.step() {
                self.turns
                    .sleep(Duration::from_millis(1 + random.below(20)));
                return;
            }
        }
    }

    fn write(&self, handles: &Handles, random: &mut Random) -> Result<(), String> {
        {
            let mut state = self.state();
            if state.is_writing {
                drop(state);
                self.run_jobs(random);
                return Ok(());
            }
            state.is_writing = true;
        }
        let written = match random.below(12) {
            0 if !self.has("avoid_flush_during_shutdown=true") => {
                self.write_unlogged(handles, random)
            }
            _ => self.write_logged(handles, random),
        };
        self.state().is_writing = false;
        written
    }

    fn write_logged(&self, handles: &Handles, random: &mut Random) -> Result<(), String> {
        let families = &handles.families;
        let mut batch = WriteBatch::new();
        let mut changes = Vec::new();
        let mut involved = Vec::new();
        let hot = {
            let mut state = self.state();
            if random.chance(1, 10) {
                state.hot = usize::try_from(random.below(4)).unwrap_or(0);
            }
            state.hot.min(families.len() - 1)
        };
        let spreads = random.chance(1, 3);
        for _ in 0..=random.below(4) {
            let (id, family) = match spreads {
                true => pick(random, families).ok_or("no family")?,
                false => &families[hot],
            };
            let change = change(random);
            add(&mut batch, family, &change);
            changes.push((*id, change));
            involved.push((*id, family.clone()));
        }
        self.style.date(&mut batch)?;
        let sync = random.chance(1, 4);
        let number = self.history.begin(changes);
        let text = format!("batch {number}, sync {sync}");
        self.begin(&text);
        let mut options = WriteOptions::new();
        // Alternates: half of the batches carry checksums to the memtables.
        options
            .set_sync(sync)
            .set_protection_bytes_per_key((number % 2 * 8) as u64);
        let written = handles.db.write_opt(&batch, &options);
        match &written {
            Ok(()) => {
                let is_handed = !self.has("manual_wal_flush=true");
                self.history.acknowledge(number, is_handed, sync);
            }
            Err(error) => match error.write_outcome() {
                Some(WriteOutcome::NotApplied) => self.history.not_applied(number),
                _ if self.has_faults() => self.history.indeterminate(number),
                outcome => return Err(format!("{text}: outcome {outcome:?}: {error}")),
            },
        }
        self.end(&text, handles.taken, &involved, written)
            .map(|_| ())
    }

    fn write_unlogged(&self, handles: &Handles, random: &mut Random) -> Result<(), String> {
        let (id, family) = pick(random, &handles.families).ok_or("no family")?;
        let mut batch = WriteBatch::new();
        let mut changes = Vec::new();
        for _ in 0..=random.below(3) {
            let mut key = vec![UNLOGGED_PREFIX];
            key.extend_from_slice(format!("{:03}", random.below(40)).as_bytes());
            let change = Change::Put(key, value(random));
            add(&mut batch, family, &change);
            changes.push(change);
        }
        self.style.date(&mut batch)?;
        self.history.begin_unlogged(*id, changes);
        let text = format!("batch without log in {}", family.name());
        self.begin(&text);
        let mut options = WriteOptions::new();
        options.disable_wal(true);
        let written = handles.db.write_opt(&batch, &options);
        match &written {
            Ok(()) => self.history.acknowledge_unlogged(*id),
            Err(_) => self.history.not_applied_unlogged(*id),
        }
        let involved = [(*id, family.clone())];
        self.end(&text, handles.taken, &involved, written)
            .map(|_| ())
    }

    fn flush(&self, handles: &Handles, random: &mut Random) -> Result<(), String> {
        let mut families = handles.families.clone();
        let mut options = FlushOptions::new();
        let waits = random.chance(1, 3);
        options.set_wait(waits);
        let only = random.chance(1, 2);
        if only {
            let chosen = pick(random, &families).cloned();
            families = chosen.into_iter().collect();
        }
        let names: Vec<&str> = families.iter().map(|(_, family)| family.name()).collect();
        let text = format!("flush of {names:?}, waits {waits}");
        let mark = self.history.mark();
        self.begin(&text);
        let flushed = match families.as_slice() {
            [(_, family)] if only => family.flush_opt(&options),
            _ => handles.db.flush_opt(&options),
        };
        // The drop of one of all families is no excuse.
        let involved = if only { families.as_slice() } else { &[] };
        let ended = self.end(&text, handles.taken, involved, flushed)?;
        if ended.is_some() && waits {
            let ids: Vec<FamilyId> = families.iter().map(|(id, _)| *id).collect();
            self.history.flushed_at(&mark, &ids);
        }
        Ok(())
    }

    fn flush_wal(&self, handles: &Handles, random: &mut Random) -> Result<(), String> {
        let sync = random.chance(1, 2);
        let text = format!("flush of the log, sync {sync}");
        let mark = self.history.mark();
        self.begin(&text);
        let flushed = handles.db.flush_wal(sync);
        if self.end(&text, handles.taken, &[], flushed)?.is_some() {
            match sync {
                true => self.history.durable_at(&mark),
                false => self.history.handed_at(&mark),
            }
        }
        Ok(())
    }

    fn compact(&self, handles: &Handles, random: &mut Random) -> Result<(), String> {
        let families = handles.families.as_slice();
        let (id, family) = pick(random, families).ok_or("no family")?;
        let all = random.chance(1, 4);
        let text = match all {
            true => "compaction of all families".to_owned(),
            false => format!("compaction of {}", family.name()),
        };
        let mark = self.history.mark();
        self.begin(&text);
        let mut options = CompactRangeOptions::new();
        options
            .set_exclusive_manual_compaction(random.chance(1, 2))
            .set_max_subcompactions([0, 3][usize::from(random.chance(1, 2))]);
        if random.chance(1, 2) {
            options.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
        }
        if random.chance(1, 8) {
            // Refused once the database closes.
            let _ = family.suggest_compact_range(..);
        }
        let compacted = match random.chance(1, 2) {
            _ if all => handles.db.compact_all(&options),
            true => family.compact_range_opt(.., &options),
            false => {
                let (mut from, mut to) = (key(random), key(random));
                if from > to {
                    std::mem::swap(&mut from, &mut to);
                }
                family.compact_range_opt(from..to, &options)
            }
        };
        let one = [(*id, family.clone())];
        let involved = if all { &[] } else { one.as_slice() };
        let ended = self.end(&text, handles.taken, involved, compacted)?;
        if ended.is_some() {
            let compacted = if all { families } else { one.as_slice() };
            let ids: Vec<FamilyId> = compacted.iter().map(|(id, _)| *id).collect();
            self.history.flushed_at(&mark, &ids);
        }
        Ok(())
    }

    fn drop_family(&self, handles: &Handles, random: &mut Random) -> Result<(), String> {
        let (id, family) = {
            let mut state = self.state();
            let count = state.families.len();
            let index = match random.chance(1, 2) {
                true => state.hot.min(count - 1),
                false => usize::try_from(random.below(count as u64)).unwrap_or(0),
            };
            // A drop may only begin at the database that the handle is of.
            if index == 0 || state.is_leaving(handles) {
                return Ok(());
            }
            let (id, family) = state.families.remove(index);
            state.busy.push(family.name().to_owned());
            self.history.begin_drop(id);
            (id, family)
        };
        let text = format!("drop of {}", family.name());
        self.begin(&text);
        let dropped = handles.db.drop_cf(&family);
        match &dropped {
            Ok(()) => self.history.dropped(id),
            Err(_) if self.has_faults() => self.leave_uncertain(id, family.name()),
            Err(_) => self.created(id, &family),
        }
        self.state().busy.retain(|name| name != family.name());
        self.end(&text, handles.taken, &[], dropped).map(|_| ())
    }

    /// Notes that a family exists. Actors that read see it in the history and in the state, or in
    /// neither.
    fn created(&self, id: FamilyId, family: &ColumnFamily) {
        let mut state = self.state();
        self.history.created(id);
        state.families.push((id, family.clone()));
    }

    /// Notes that it is unknown whether a family exists. Its name is not used again in this phase.
    fn leave_uncertain(&self, id: FamilyId, name: &str) {
        self.state().uncertain.push((id, name.to_owned()));
    }

    fn create_family(&self, handles: &Handles, random: &mut Random) -> Result<(), String> {
        let name = pick(random, &NAMES).copied().unwrap_or("a");
        {
            let mut state = self.state();
            let exists = state
                .families
                .iter()
                .any(|(_, family)| family.name() == name);
            let is_busy = state.busy.iter().any(|busy| busy == name)
                || state
                    .uncertain
                    .iter()
                    .any(|(_, uncertain)| uncertain == name);
            if exists || is_busy || state.readers > 0 || state.is_leaving(handles) {
                return Ok(());
            }
            state.busy.push(name.to_owned());
        }
        let text = format!("creation of {name}");
        let id = self.history.begin_create(name);
        let options = self.setting().family_options(name)?;
        self.begin(&text);
        let created = handles.db.create_cf(name, &options);
        match &created {
            Ok(family) => self.created(id, family),
            Err(_) if self.has_faults() => self.leave_uncertain(id, name),
            Err(_) => self.history.dropped(id),
        }
        self.state().busy.retain(|busy| busy != name);
        self.end(&text, handles.taken, &[], created).map(|_| ())
    }

    fn set_options(&self, handles: &Handles, random: &mut Random) -> Result<(), String> {
        const OF_FAMILIES: [(&str, &str); 9] = [
            ("disable_auto_compactions", "true"),
            ("disable_auto_compactions", "false"),
            ("write_buffer_size", "65536"),
            ("write_buffer_size", "200000"),
            ("level0_file_num_compaction_trigger", "2"),
            ("level0_file_num_compaction_trigger", "8"),
            ("max_write_buffer_number", "2"),
            ("max_write_buffer_number", "4"),
            ("target_file_size_base", "8192"),
        ];
        const OF_DATABASES: [(&str, &str); 4] = [
            ("max_background_jobs", "1"),
            ("max_background_jobs", "4"),
            ("max_total_wal_size", "4096"),
            ("max_total_wal_size", "0"),
        ];
        let Handles {
            db,
            families,
            taken,
        } = handles;
        if random.chance(1, 4) {
            let option = pick(random, &OF_DATABASES).copied().unwrap_or_default();
            let text = format!("{option:?}");
            self.begin(&text);
            let set = db.set_db_options([option]);
            return self.end(&text, *taken, families, set).map(|_| ());
        }
        let option = pick(random, &OF_FAMILIES).copied().unwrap_or_default();
        let (id, family) = pick(random, families).ok_or("no family")?;
        let text = format!("{option:?} of {}", family.name());
        self.begin(&text);
        let set = family.set_options([option]);
        let involved = [(*id, family.clone())];
        self.end(&text, *taken, &involved, set).map(|_| ())
    }

    /// Takes a snapshot, reads it all, and checks that it shows the acknowledged writes.
    ///
    /// `None` if it cannot be judged.
    fn take(&self, handles: &Handles) -> Result<Option<Held>, String> {
        let is_growing = self.has("unordered_write=true");
        let (families, owed) = {
            let mut state = self.state();
            if state.is_leaving(handles) || is_growing && state.is_writing {
                return Ok(None);
            }
            state.readers += 1;
            (state.families.clone(), self.history.visible())
        };
        self.begin("snapshot");
        let moment = Moment {
            is_reading: true,
            ..handles.taken
        };
        let snapshot = handles.db.snapshot();
        let begun = self.history.bounds(&owed).begun;
        let mut content = Content::new();
        let mut held = Vec::new();
        let mut outcome = Ok(Some(()));
        for (_, family) in &families {
            match read(family, &snapshot) {
                Ok(Ok(entries)) => {
                    held.push((family.clone(), entries.clone()));
                    content.insert(family.name().to_owned(), entries);
                }
                Ok(Err(error)) => {
                    outcome = self.end("snapshot", moment, &families, Err::<(), _>(error));
                    break;
                }
                Err(text) => {
                    outcome = Err(format!("family {}: {text}", family.name()));
                    break;
                }
            }
        }
        let mut bounds = self.history.bounds(&owed);
        bounds.begun = begun;
        self.state().readers -= 1;
        if outcome?.is_none() {
            return Ok(None);
        }
        self.history.judge(&content, &bounds, Legality::Visible)?;
        self.note("snapshot: judged");
        Ok(Some(Held {
            snapshot,
            families: held,
            iterator: None,
            closes: handles.taken.closes,
        }))
    }

    /// Takes a snapshot, with or without an iterator, or verifies and releases an earlier one.
    fn hold(&self, handles: &Handles, random: &mut Random) -> Result<(), String> {
        let old = {
            let mut state = self.state();
            match state.held.len() {
                0 => None,
                count if count < 3 && random.chance(1, 2) => None,
                count => {
                    let index = usize::try_from(random.below(count as u64)).unwrap_or(0);
                    Some(state.held.swap_remove(index))
                }
            }
        };
        if let Some(held) = old {
            return self.give_back(held);
        }
        let Some(mut held) = self.take(handles)? else {
            return Ok(());
        };
        if random.chance(1, 2)
            && let Some((family, entries)) = pick(random, &held.families)
        {
            let at = check::newest(family, ReadOptions::at(&held.snapshot));
            let mut iterator = family.iterator_opt(IteratorMode::Start, &at);
            let mut rest = entries.clone();
            for _ in 0..random.below(4) {
                if let Some(Ok((key, _))) = iterator.next() {
                    rest.remove(&*key);
                }
            }
            held.iterator = Some((iterator, rest));
        }
        self.state().held.push(held);
        Ok(())
    }

    fn give_back(&self, held: Held) -> Result<(), String> {
        self.begin("snapshot given back");
        let has_closed = || {
            let state = self.state();
            state.is_closing || state.closes != held.closes
        };
        if let Some((iterator, rest)) = held.iterator {
            match entries(iterator) {
                Ok(found) if found == rest || has_closed() => {}
                Ok(_) => return Err("an iterator shows something else later".to_owned()),
                Err(_) if has_closed() => {}
                Err(error) => return Err(format!("an iterator: {error}")),
            }
        }
        for (family, expected) in &held.families {
            match read(family, &held.snapshot) {
                Ok(Ok(found)) if found == *expected => {}
                _ if has_closed() => {}
                Ok(Ok(found)) => {
                    return Err(format!(
                        "a snapshot of {} at {} shows something else later: {}",
                        family.name(),
                        held.snapshot.sequence_number(),
                        describe_differences(&found, expected)
                    ));
                }
                Ok(Err(error)) => return Err(format!("a snapshot: {error}")),
                Err(text) => return Err(text),
            }
        }
        self.note("snapshot given back: done");
        Ok(())
    }

    fn inspect(
        &self,
        Handles { db, taken, .. }: &Handles,
        random: &mut Random,
    ) -> Result<(), String> {
        self.begin("inspection");
        let inspected = match random.below(4) {
            0 => db.verify_checksums(),
            1 => db.resume(),
            2 => {
                let _ = db.live_files();
                db.property_value("rocksdb.stats").map(drop)
            }
            _ => {
                let _ = db.memory_report();
                db.property_int_value("rocksdb.estimate-num-keys").map(drop)
            }
        };
        self.end("inspection", *taken, &[], inspected).map(|_| ())
    }

    /// Closes and opens, while other actors go on with the old handles.
    fn reopen(&self, handles: &Handles, random: &mut Random) -> Result<(), String> {
        let has_unlogged = !self.has("avoid_flush_during_shutdown=true");
        let excludes_writes = has_unlogged || random.chance(1, 2);
        {
            let mut state = self.state();
            // What is indeterminate is settled by the end of the phase only.
            let is_leaving = state.is_leaving(handles);
            if self.has_faults() || is_leaving || excludes_writes && state.is_writing {
                return Ok(());
            }
            state.is_closing = true;
            state.closes += 1;
            state.is_writing |= excludes_writes;
        }
        self.turns.doing("close");
        self.note("close ...");
        let closed = handles.db.close();
        self.note(&format!("close: {closed:?}"));
        self.state().db = None;
        if self.has_faults() {
            self.state().is_over = true;
            return Ok(());
        }
        closed.map_err(|error| format!("close: {error}"))?;
        self.closed(has_unlogged);
        while !self.state().busy.is_empty() {
            self.turns.sleep(Duration::from_millis(1));
        }
        let setting = match random.chance(1, 2) {
            true => Setting::draw(&self.style.drawer, random),
            false => self.setting(),
        };
        self.turns.doing("open");
        if let Err(error) = self.open(setting) {
            self.state().is_over = self.has_faults();
            return match self.has_faults() {
                true => Ok(()),
                false => Err(error),
            };
        }
        if excludes_writes {
            self.state().is_writing = false;
        }
        let handles = self.handles();
        handles.map_or(Ok(()), |handles| self.take(&handles).map(drop))
    }

    /// After a close everything acknowledged is durable.
    fn closed(&self, has_unlogged: bool) {
        self.history.all_durable();
        if has_unlogged {
            let all: Vec<FamilyId> = self.state().families.iter().map(|(id, _)| *id).collect();
            self.history.flushed(&all);
        }
    }
}

/// State that outlives a phase.
struct Disk {
    memory: MemoryFileSystem,
    faults: Arc<FaultFileSystem>,
    monitor: OrderingMonitor,
    nanos: u64,
    /// By name, as handles end with the database they are of.
    families: Vec<(FamilyId, String)>,
}

impl Disk {
    fn new(memory: MemoryFileSystem, nanos: u64, families: Vec<(FamilyId, String)>) -> Self {
        let faults = Arc::new(FaultFileSystem::new(Arc::new(memory.clone()), nanos));
        let below = Arc::clone(&faults) as Arc<dyn FileSystem>;
        let monitor = monitor::watch(below, Path::new(PATH));
        Disk {
            memory,
            faults,
            monitor,
            nanos,
            families,
        }
    }
}

/// How the actors of a phase go about.
struct Phase {
    actors: usize,
    steps: u64,
    switch_one_in: u64,
    image_one_in: u64,
    fault: Option<FaultRule>,
}

impl Phase {
    fn draw(random: &mut Random, steps: u64) -> Self {
        let actors = if random.chance(2, 3) { 2 } else { 3 };
        let one_in = [2, 5, 12, 40];
        Phase {
            actors,
            steps: steps / actors as u64,
            switch_one_in: pick(random, &one_in).copied().unwrap_or(2),
            image_one_in: 30 + random.below(60),
            fault: random.chance(1, 3).then(|| Self::draw_fault(random)),
        }
    }

    /// Some of the operations that change a file or directory fail.
    fn draw_fault(random: &mut Random) -> FaultRule {
        let actions = [
            FaultAction::Fail(Failure::Device),
            FaultAction::Fail(Failure::NoSpace),
            FaultAction::FailAfter(Failure::Device),
            FaultAction::TornWrite(Failure::NoSpace),
        ];
        let action = pick(random, &actions).cloned();
        let per_million = [3_000, 10_000, 40_000];
        let rate = pick(random, &per_million).copied();
        FaultRule::new(action.unwrap_or(FaultAction::Fail(Failure::Device)))
            .on_mutations()
            .chance(rate.unwrap_or(10_000))
            .limit(1 + random.below(3))
    }
}

/// The result of a run.
#[derive(Default)]
struct Counts {
    points: u64,
    images: u64,
    blocked: u64,
    faults: u64,
}

struct Run {
    random: Random,
    history: Arc<History>,
    style: Arc<Style>,
    counts: Counts,
    /// Of the phase that runs, for the report of a failure.
    world: Option<Arc<World>>,
}

/// Whether power is cut, or the process dies.
fn kind(policy: SurvivalPolicy) -> Crash {
    match policy {
        SurvivalPolicy::Generous => Crash::Process,
        _ => Crash::Power,
    }
}

fn draw_policy(random: &mut Random) -> SurvivalPolicy {
    let all = SurvivalPolicy::ALL;
    match random.below(4) {
        0 => SurvivalPolicy::Strict,
        1 => SurvivalPolicy::Generous,
        _ => pick(random, &all)
            .copied()
            .unwrap_or(SurvivalPolicy::Strict),
    }
}

/// Takes images at some points of a run.
fn film(
    world: &World,
    memory: &MemoryFileSystem,
    phase: &Phase,
    seed: u64,
) -> Arc<Mutex<Vec<Shot>>> {
    let shots: Arc<Mutex<Vec<Shot>>> = Arc::default();
    let taken = Arc::clone(&shots);
    let (memory, history) = (memory.clone(), Arc::clone(&world.history));
    let one_in = phase.image_one_in;
    world.turns.observe(move |point| {
        let mut random = Random::new(mix(seed ^ point));
        if !random.chance(1, one_in) {
            return;
        }
        let policy = draw_policy(&mut random);
        let seed = random.draw();
        let owed = history.owed(kind(policy));
        let image = memory.crash_image(policy, seed);
        let mut taken = taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.len() >= IMAGES_MAX {
            return;
        }
        taken.push(Shot {
            image,
            policy,
            seed,
            operation: point,
            bounds: history.bounds(&owed),
            note: 0,
        });
    });
    shots
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(mix(seed));
        let drawer = Drawer::of_families(Suite::Crash, &mut random, NAMES.len() + 1);
        let drawer = drawer.with_timestamps(Random::new(mix(seed ^ 0x0da7_e500)));
        let wal_dir = random.chance(1, 5).then_some("/logs");
        Run {
            style: Arc::new(Style {
                drawer,
                wal_dir,
                time: AtomicU64::new(0),
            }),
            random,
            history: Arc::new(History::new()),
            counts: Counts::default(),
            world: None,
        }
    }

    fn go(&mut self, phases: u64, steps: u64) -> Result<(), String> {
        let mut disk = Disk::new(MemoryFileSystem::new(), 0, Vec::new());
        for _ in 0..phases {
            disk = self.phase(&disk, steps)?;
        }
        self.rest(&disk)
    }

    fn phase(&mut self, disk: &Disk, steps: u64) -> Result<Disk, String> {
        let phase = Phase::draw(&mut self.random, steps);
        let seed = self.random.draw();
        let world = Arc::new(World::new(disk, &self.history, &phase, &self.style, seed));
        self.world = Some(Arc::clone(&world));
        self.begin(&world, disk)?;
        let shots = film(&world, &disk.memory, &phase, seed);
        if let Some(rule) = phase.fault {
            disk.faults.add_rule(rule);
        }
        let bodies = (0..phase.actors)
            .map(|_| {
                let (world, seed) = (Arc::clone(&world), self.random.draw());
                let steps = phase.steps;
                Box::new(move || world.live(seed, steps)) as Body
            })
            .collect();
        let ran = world.turns.run(bodies);
        self.counts.points += world.turns.points();
        self.counts.blocked += world.turns.blocked();
        self.counts.faults += disk.faults.injection_count();
        disk.faults.clear_rules();
        let failure = world.state().failure.take();
        failure.map_or(Ok(()), Err)?;
        ran?;
        monitor::verdict(&disk.monitor).map_err(|error| error.to_string())?;
        let shots = std::mem::take(&mut *shots.lock().unwrap_or_else(PoisonError::into_inner));
        for shot in shots {
            self.judge(&world, &shot)
                .map_err(|error| format!("{shot}: {error}"))?;
        }
        self.end(&world, disk)
    }

    /// Opens what the phase before left.
    fn begin(&mut self, world: &World, disk: &Disk) -> Result<(), String> {
        let setting = Setting::draw(&self.style.drawer, &mut self.random);
        world.open(setting)?;
        let mut state = world.state();
        let db = state.db.clone().ok_or("not open")?;
        state.families = disk
            .families
            .iter()
            .map(|(id, name)| Some((*id, db.cf_handle(name)?)))
            .collect::<Option<_>>()
            .ok_or("a family is gone")?;
        if state.families.is_empty() {
            state
                .families
                .push((DEFAULT_FAMILY, db.default_cf().clone()));
        }
        Ok(())
    }

    /// Ends a phase with a close or a crash, and settles what is left.
    fn end(&mut self, world: &World, disk: &Disk) -> Result<Disk, String> {
        let crash = match self.random.chance(1, 2) {
            true => Some(draw_policy(&mut self.random)),
            false => None,
        };
        world.note(&format!("the phase ends: {crash:?}"));
        let mut families: Vec<(FamilyId, String)> = {
            let state = world.state();
            let families = state.families.iter();
            families
                .map(|(id, family)| (*id, family.name().to_owned()))
                .collect()
        };
        let db = world.state().db.take();
        if db.is_none() && !world.state().is_over {
            return Err("not open".to_owned());
        }
        let (image, how) = match (crash, &db) {
            (None, Some(db)) => {
                if self.random.chance(1, 2) {
                    while world.env.step() {}
                }
                match db.close() {
                    Ok(()) => world.closed(!world.has("avoid_flush_during_shutdown=true")),
                    // It repeats the error of the background.
                    Err(error) if world.has_faults() => world.note(&format!("close: {error}")),
                    Err(error) => return Err(format!("close: {error}")),
                }
                let image = disk.memory.crash_image(SurvivalPolicy::Strict, 0);
                (image, Crash::Power)
            }
            (crash, _) => {
                let policy = crash.unwrap_or(SurvivalPolicy::Strict);
                let image = disk.memory.crash_image(policy, self.random.draw());
                (image, kind(policy))
            }
        };
        drop(db);
        let mut state = world.state();
        state.held.clear();
        state.families.clear();
        let uncertain = std::mem::take(&mut state.uncertain);
        drop(state);
        monitor::verdict(&disk.monitor).map_err(|error| error.to_string())?;
        let content = self.recover(world, &image, &self.history_bounds(how))?;
        self.history.settle(&content, how)?;
        for (id, name) in uncertain {
            if content.contains_key(&name) {
                self.history.created(id);
                families.push((id, name));
            } else {
                self.history.dropped(id);
            }
        }
        Ok(Disk::new(image, world.turns.nanos(), families))
    }

    fn history_bounds(&self, how: Crash) -> koeldb_testkit::Bounds {
        self.history.bounds(&self.history.owed(how))
    }

    /// Opens an image, where nothing runs beside the checks.
    fn open_image(&self, world: &World, image: &MemoryFileSystem) -> Result<Db, String> {
        let clock = ManualClock::new();
        clock.advance(Duration::from_nanos(world.turns.nanos()));
        let env = Env::stepped(Arc::new(image.clone()), Arc::new(clock), 1);
        let opened = world.setting().open(&self.style, &env, true);
        opened.map_err(|error| format!("open: {error}"))
    }

    fn judge(&mut self, world: &World, shot: &Shot) -> Result<(), String> {
        self.counts.images += 1;
        self.recover(world, &shot.image, &shot.bounds).map(drop)
    }

    /// Recovers an image and checks the content, the files, and that a second open finds the same.
    fn recover(
        &self,
        world: &World,
        image: &MemoryFileSystem,
        bounds: &koeldb_testkit::Bounds,
    ) -> Result<Content, String> {
        let before = check::names(image);
        // A copy for the second open: the image itself is left as it is found.
        let copy = image.crash_image(SurvivalPolicy::Generous, 0);
        let db = self.open_image(world, &copy)?;
        let content = check::content(&db)?;
        let judged = self.history.judge(&content, bounds, Legality::Prefix);
        judged.map_err(|error| format!("{error}\n  {}", db.recovery_report()))?;
        check::check_files(&db, &copy, &before)?;
        db.close().map_err(|error| format!("close: {error}"))?;
        drop(db);
        let db = self.open_image(world, &copy)?;
        if check::content(&db)? != content {
            return Err("a second open finds something else".to_owned());
        }
        db.verify_checksums()
            .map_err(|error| format!("verify: {error}"))?;
        Ok(content)
    }

    /// At last every file on disk belongs to the tree.
    fn rest(&mut self, disk: &Disk) -> Result<(), String> {
        let world = self.world.clone().ok_or("no phase")?;
        let db = self.open_image(&world, &disk.memory)?;
        db.flush().map_err(|error| format!("at rest: {error}"))?;
        let compacted = db.compact_all(&CompactRangeOptions::new());
        compacted.map_err(|error| format!("at rest: {error}"))?;
        let content = check::content(&db)?;
        let bounds = self.history.bounds_of_all();
        self.history.judge(&content, &bounds, Legality::Visible)?;
        check::check_files(&db, &disk.memory, &BTreeSet::new())?;
        db.close().map_err(|error| format!("close: {error}"))
    }
}

fn run(seed: u64, phases: u64, steps: u64) -> (Result<(), String>, Counts) {
    let mut run = Run::new(seed);
    let outcome = run.go(phases, steps).map_err(|error| {
        let Some(world) = &run.world else {
            return error;
        };
        let state = world.state();
        let last = state.done.len().saturating_sub(DONE_MAX);
        let done = state.done[last..].join("\n  ");
        let Setting { drawn, own, .. } = world.setting();
        format!("{own}{drawn}\n  {done}\n  {error}")
    });
    (outcome, run.counts)
}

/// A number that the environment gives.
fn asked(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[test]
fn calls_between_the_steps_of_jobs_lose_nothing() {
    let seed = crate::seed();
    let begun = crate::seconds();
    let only = asked("KOELDB_N");
    let (runs, phases, steps) = Floors::chosen().of((24, 2, 60), (400, 3, 90), (50_000, 3, 90));
    // The seed does not determine the order of two threads after a lock: a failure may need several
    // attempts.
    let times = asked("KOELDB_TIMES").unwrap_or(1);
    let runs = asked("KOELDB_RUNS").unwrap_or(runs);
    let next = AtomicU64::new(only.unwrap_or(0));
    let end = only.map_or(runs, |only| only + 1);
    let totals: [AtomicU64; 4] = Default::default();
    let failures = AtomicU64::new(0);
    let one = |number: u64| {
        let (outcome, counts) = run(mix(seed ^ number << 20), phases, steps);
        let Counts {
            points,
            images,
            blocked,
            faults,
        } = counts;
        for (total, count) in totals.iter().zip([points, images, blocked, faults]) {
            total.fetch_add(count, Ordering::Relaxed);
        }
        if let Err(text) = &outcome {
            failures.fetch_add(1, Ordering::Relaxed);
            eprintln!(
                "{text}\n  repeat: KOELDB_SEED={seed} KOELDB_N={number} KOELDB_TIMES=20 cargo test -p koeldb --test crash interleavings"
            );
        }
        outcome.is_ok()
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= end {
                        break;
                    }
                    // Up to the first failure.
                    let _ = (0..times).all(|_| one(number));
                }
            });
        }
    });
    let [points, images, blocked, faults] = totals.map(AtomicU64::into_inner);
    Summary {
        suite: "interleavings",
        seed,
        figures: vec![
            ("runs", end - only.unwrap_or(0)),
            ("points", points),
            ("images", images),
            ("blocked", blocked),
            ("faults", faults),
        ],
        seconds: crate::seconds() - begun,
        failures: failures.into_inner(),
    }
    .finish("runs", if only.is_some() { 1 } else { runs });
}
