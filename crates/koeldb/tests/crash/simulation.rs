//! A deterministic simulation of the whole database in one thread.
//!
//! Files are in memory, the clock is manual, background jobs run one at a time in an order that the
//! seed determines, and storage fails occasionally. The same seed repeats the run, to the last call
//! to the file system.
//!
//! A run has two parts. In the first, there are faults, power cuts and kills, and no guaranteed
//! data may be lost. In the second there are no faults, and the database must reach a clean state:
//! writes accepted, no stored error, no unexpected file.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use koeldb::fs::{
    Failure, FaultAction, FaultFileSystem, FaultRule, FileSystem, ManualClock, MemoryFileSystem,
    Operation, SurvivalPolicy, TraceDetail, TraceFileSystem,
};
use koeldb::{
    ColumnFamily, ColumnFamilyOptions, CompactRangeOptions, ConfigOptions, Db, Env, Event,
    LogLevel, Logger, Options, Severity, StringAppend, WriteBatch, WriteOptions, WriteOutcome,
};
use koeldb_testkit::monitor::{self, OrderingMonitor};
use koeldb_testkit::oracle::DEFAULT_FAMILY;
use koeldb_testkit::random::mix;
use koeldb_testkit::variety::{Drawer, Drawn, Suite};
use koeldb_testkit::{Change, Crash, FamilyId, Floors, History, Legality, Random, Summary};

use crate::check;
use crate::session::{PATH, add};

/// The name of the second column family.
const OTHER: &str = "other";

struct NoLog;

impl Logger for NoLog {
    fn log(&self, _level: LogLevel, _message: std::fmt::Arguments<'_>) {}

    fn is_enabled(&self, _: LogLevel) -> bool {
        false
    }
}

/// A simulated machine: its disk, and the layers between it and the database.
struct Machine {
    memory: MemoryFileSystem,
    faults: Arc<FaultFileSystem>,
    monitor: OrderingMonitor,
    trace: TraceFileSystem,
    env: Env,
}

impl Machine {
    fn new(memory: MemoryFileSystem, clock: &ManualClock, seed: u64) -> Self {
        let clock: Arc<dyn koeldb::fs::Clock> = Arc::new(clock.clone());
        let below: Arc<dyn FileSystem> = Arc::new(memory.clone());
        let faults = FaultFileSystem::with_clock(below, seed, Arc::clone(&clock));
        let faults = Arc::new(faults);
        let monitor = monitor::watch(Arc::clone(&faults) as _, Path::new(PATH));
        let trace = TraceFileSystem::new(Arc::new(monitor.clone()), TraceDetail::Events);
        let env = Env::stepped(Arc::new(trace.clone()), clock, seed);
        Machine {
            memory,
            faults,
            monitor,
            trace,
            env,
        }
    }
}

struct Run {
    random: Random,
    clock: ManualClock,
    machine: Machine,
    /// Draws the options of each open.
    drawer: Drawer,
    /// The options of the last open.
    drawn: Drawn,
    history: Arc<History>,
    db: Option<Db>,
    families: Vec<(FamilyId, ColumnFamily)>,
    hash: DefaultHasher,
    crashes: u64,
    injected: u64,
    /// Whether explicit resumes are absent or rare.
    resumes_itself: bool,
    /// The number of reported resumes, and of automatic ones.
    resumed: Arc<AtomicU64>,
    resumed_itself: u64,
    /// Whether the error needs a reopen.
    is_beyond: bool,
    /// Writes whose outcome is unknown, since the last crash.
    unknown: u64,
    /// The legal contents: a failed write may be visible after a reopen.
    legality: Legality,
    /// The steps so far, for the report of a failure.
    done: Vec<String>,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(mix(seed));
        let clock = ManualClock::new();
        let memory = MemoryFileSystem::with_clock(Arc::new(clock.clone()));
        let drawer = Drawer::of_families(Suite::Crash, &mut random, 2);
        let drawer = drawer.with_timestamps(Random::new(mix(seed ^ 0x0da7_e500)));
        let resumes_itself = random.chance(1, 2);
        Run {
            machine: Machine::new(memory, &clock, random.draw()),
            random,
            clock,
            drawer,
            drawn: Drawn::default(),
            history: Arc::new(History::new()),
            db: None,
            families: Vec::new(),
            hash: DefaultHasher::new(),
            crashes: 0,
            injected: 0,
            resumes_itself,
            resumed: Arc::default(),
            resumed_itself: 0,
            is_beyond: false,
            unknown: 0,
            legality: Legality::Visible,
            done: Vec::new(),
        }
    }

    fn open_options(&self) -> Result<Options, String> {
        let mut options = Options::new();
        options
            .create_if_missing(true)
            .create_missing_column_families(true)
            .set_max_file_opening_threads(1)
            .set_logger(NoLog)
            .set_env(&self.machine.env)
            .apply_str(&self.drawn.database, &ConfigOptions::new())
            .map_err(|error| error.to_string())?;
        *options.cf_options_mut() = self.family_options(0)?;
        if self.resumes_itself {
            let resumed = Arc::clone(&self.resumed);
            options.add_event_listener(move |event: &Event<'_>| {
                if matches!(event, Event::Resumed) {
                    resumed.fetch_add(1, Ordering::Relaxed);
                }
            });
        } else {
            options.set_max_bgerror_resume_count(0);
        }
        Ok(options)
    }

    /// Returns the drawn options of a column family.
    fn family_options(&self, index: usize) -> Result<ColumnFamilyOptions, String> {
        let mut options = ColumnFamilyOptions::default();
        options
            .set_merge_operator(StringAppend::default())
            .apply_str(&self.drawn.families[index], &ConfigOptions::new())
            .map_err(|error| error.to_string())?;
        // Small files, for the small amount of data.
        options
            .set_write_buffer_size(64 << 10)
            .set_max_bytes_for_level_base(32 << 10);
        Ok(options)
    }

    /// Opens the database with all existing column families and the drawn options.
    fn try_open(&self) -> Result<Db, String> {
        let options = self.open_options()?;
        let mut builder = Db::builder(&options);
        if self.families.len() > 1 {
            builder.column_family((OTHER.to_owned(), self.family_options(1)?));
        }
        builder.open(PATH).map_err(|error| error.to_string())
    }

    fn db(&self) -> Result<&Db, String> {
        self.db.as_ref().ok_or_else(|| "not open".to_owned())
    }

    /// Opens; without faults it must succeed.
    fn open(&mut self) -> Result<(), String> {
        self.drawn = self.drawer.draw(&mut self.random);
        let db = match self.try_open() {
            Ok(db) => db,
            Err(_) if self.machine.faults.injection_count() > 0 => {
                self.calm();
                self.try_open()
                    .map_err(|error| format!("open without faults: {error}"))?
            }
            Err(error) => return Err(format!("open: {error}")),
        };
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
        self.is_beyond = false;
        Ok(())
    }

    /// Runs a background job; `false` if there is none.
    fn run_job(&mut self) -> bool {
        let before = self.resumed.load(Ordering::Relaxed);
        let has_run = self.machine.env.step();
        let resumed = self.resumed.load(Ordering::Relaxed) - before;
        if resumed > 0 {
            self.resumed_itself += resumed;
            self.done.push("it resumes by itself".to_owned());
        }
        has_run
    }

    /// Ends all faults.
    fn calm(&mut self) {
        self.machine.faults.clear_rules();
    }

    /// Creates the second column family before any fault.
    fn add_family(&mut self) -> Result<(), String> {
        let id = self.history.begin_create(OTHER);
        let options = self.family_options(1)?;
        let family = self.db()?.create_cf(OTHER, &options);
        let family = family.map_err(|error| error.to_string())?;
        self.history.created(id);
        self.families.push((id, family));
        Ok(())
    }

    fn key(&mut self) -> Vec<u8> {
        format!("k{:03}", self.random.below(40)).into_bytes()
    }

    fn change(&mut self) -> Change {
        let key = self.key();
        match self.random.below(20) {
            0..2 => Change::Delete(key),
            2..4 => Change::Merge(key, format!("m{}", self.random.draw()).into_bytes()),
            4 => {
                let to = self.key();
                match key < to {
                    true => Change::DeleteRange(key, to),
                    false => Change::Delete(key),
                }
            }
            _ => {
                let length = self.random.below(2000);
                let mut value = format!("{}:", self.random.draw()).into_bytes();
                value.resize(value.len() + usize::try_from(length).unwrap_or(0), b'v');
                Change::Put(key, value)
            }
        }
    }

    fn write(&mut self) -> Result<bool, String> {
        let mut batch = WriteBatch::new();
        let mut changes = Vec::new();
        for index in 0..self.families.len() {
            let change = self.change();
            let (id, family) = &self.families[index];
            add(&mut batch, family, &change);
            changes.push((*id, change));
        }
        let sync = self.random.chance(1, 6);
        let number = self.history.begin(changes);
        batch
            .update_timestamps((number as u64).to_le_bytes())
            .map_err(|error| error.to_string())?;
        let mut options = WriteOptions::new();
        // Alternates: half of the batches carry checksums to the memtables.
        options
            .set_sync(sync)
            .set_protection_bytes_per_key((number % 2 * 8) as u64);
        match self.db()?.write_opt(&batch, &options) {
            Ok(()) => {
                self.done.push(format!("batch {number}, sync {sync}"));
                self.history.acknowledge(number, true, sync);
                Ok(true)
            }
            Err(error) => {
                self.done.push(format!("batch {number}: {error}"));
                self.is_beyond = error.severity() > Severity::Hard;
                match error.write_outcome() {
                    Some(WriteOutcome::NotApplied) => self.history.not_applied(number),
                    Some(WriteOutcome::Indeterminate) => {
                        self.unknown += 1;
                        self.history.indeterminate(number);
                    }
                    None => return Err(format!("a write failed without outcome: {error}")),
                }
                match self.machine.faults.injection_count() {
                    0 => Err(format!("a write failed without a fault: {error}")),
                    _ => Ok(false),
                }
            }
        }
    }

    /// An error that an injected fault may explain.
    fn tolerate(&mut self, what: &str, result: koeldb::Result<()>) -> Result<bool, String> {
        self.done.push(format!("{what}: {result:?}"));
        match result {
            Ok(()) => Ok(true),
            Err(_) if self.machine.faults.injection_count() > 0 => Ok(false),
            Err(error) => Err(format!("without a fault: {error}")),
        }
    }

    fn step(&mut self) -> Result<(), String> {
        let all: Vec<FamilyId> = self.families.iter().map(|(id, _)| *id).collect();
        match self.random.below(100) {
            0..60 => drop(self.write()?),
            60..75 => {
                for _ in 0..=self.random.below(3) {
                    self.run_job();
                }
            }
            75..80 => {
                let flushed = self.db()?.flush();
                if self.tolerate("flush", flushed)? {
                    self.history.flushed(&all);
                }
            }
            80..83 => {
                let compacted = self.db()?.compact_all(&CompactRangeOptions::new());
                if self.tolerate("compact", compacted)? {
                    self.history.flushed(&all);
                }
            }
            83..87 => self
                .clock
                .advance(Duration::from_millis(self.random.below(3000))),
            87..90 => {
                let synced = self.db()?.flush_wal(true);
                if self.tolerate("sync", synced)? {
                    self.history.all_durable();
                }
            }
            90..93 if self.unknown < 4 => self.disturb(),
            93..97 => self.crash()?,
            _ => self.look()?,
        }
        let asks = !self.resumes_itself || self.random.chance(1, 8);
        self.get_over_it(asks)
    }

    /// Has something fail soon.
    fn disturb(&mut self) {
        let actions = [
            FaultAction::Fail(Failure::Device),
            FaultAction::Fail(Failure::NoSpace),
            FaultAction::FailAfter(Failure::Device),
            FaultAction::TornWrite(Failure::NoSpace),
        ];
        let action = usize::try_from(self.random.below(actions.len() as u64)).unwrap_or(0);
        let nth = 1 + self.random.below(12);
        let rule = FaultRule::new(actions[action].clone()).on_mutations();
        self.done.push(format!("{:?} at {nth}", actions[action]));
        self.machine
            .faults
            .add_rule(match self.random.chance(1, 3) {
                true => rule.from_nth(nth).limit(5),
                false => rule.nth(nth),
            });
    }

    /// Reopens a database if its error needs it; otherwise calls resume or waits for it.
    fn get_over_it(&mut self, asks: bool) -> Result<(), String> {
        if self.machine.faults.injection_count() == 0 {
            return Ok(());
        }
        if asks && let Err(error) = self.db()?.resume() {
            self.done.push(format!("resume: {error}"));
            self.is_beyond = error.severity() > Severity::Hard;
        }
        if self.is_beyond {
            self.calm();
            let db = self.db.take();
            let _ = db.map(|db| db.close());
            self.reopen(Crash::Process)?;
        }
        Ok(())
    }

    /// Checks that a handle shows what it acknowledged.
    fn look(&mut self) -> Result<(), String> {
        let content = check::content(self.db()?)?;
        let bounds = self.history.bounds_of_all();
        let judged = self.history.judge(&content, &bounds, self.legality);
        judged.map(|_| ())
    }

    /// The process dies, or the machine.
    fn crash(&mut self) -> Result<(), String> {
        self.crashes += 1;
        let policies = SurvivalPolicy::ALL;
        let chosen = usize::try_from(self.random.below(policies.len() as u64)).unwrap_or(0);
        let (policy, seed) = (policies[chosen], self.random.draw());
        let left = self.machine.memory.crash_image(policy, seed);
        self.done.push(format!("crash under {policy:?}"));
        self.leave()?;
        self.machine = Machine::new(left, &self.clock, seed);
        self.reopen(match policy {
            SurvivalPolicy::Generous => Crash::Process,
            _ => Crash::Power,
        })
    }

    /// Ends the use of a machine: checks its ordering rules and adds its calls, but for reads, to
    /// the hash.
    fn leave(&mut self) -> Result<(), String> {
        self.db = None;
        monitor::verdict(&self.machine.monitor).map_err(|error| error.to_string())?;
        self.injected += self.machine.faults.injection_count();
        for event in self.machine.trace.take_events() {
            // Which blocks a small cache keeps depends on a random session id.
            if event.operation != Operation::Read {
                (event.operation, event.path, event.offset, event.len).hash(&mut self.hash);
            }
        }
        Ok(())
    }

    fn reopen(&mut self, crash: Crash) -> Result<(), String> {
        self.open()?;
        let content = check::content(self.db()?)?;
        self.history.settle(&content, crash)?;
        if self.unknown > 0 {
            self.legality = Legality::Prefix;
        }
        self.unknown = 0;
        Ok(())
    }

    /// Checks that the database reaches a clean state without faults.
    fn rest(&mut self) -> Result<(), String> {
        self.calm();
        let mut is_written = false;
        for _ in 0..400 {
            if self.write_calmly()? {
                is_written = true;
                break;
            }
            self.clock.advance(Duration::from_millis(250));
            while self.run_job() {}
        }
        if !is_written {
            return Err("no write is taken though nothing fails any more".to_owned());
        }
        let db = self.db()?;
        db.flush().map_err(|error| format!("at rest: {error}"))?;
        db.wait_for_compact(None)
            .map_err(|error| format!("at rest: {error}"))?;
        let content = check::content(db)?;
        let bounds = self.history.bounds_of_all();
        self.history.judge(&content, &bounds, self.legality)?;
        db.close().map_err(|error| format!("close: {error}"))?;
        self.db = None;
        // A file that could not be removed is removed by the next open.
        self.open()?;
        let db = self.db()?;
        check::check_files(db, &self.machine.memory, &BTreeSet::new())?;
        db.verify_checksums().map_err(|error| error.to_string())?;
        if check::content(db)? != content {
            return Err("the next open finds something else".to_owned());
        }
        db.close().map_err(|error| format!("close: {error}"))?;
        self.leave()
    }

    fn write_calmly(&mut self) -> Result<bool, String> {
        self.get_over_it(!self.resumes_itself)?;
        self.write()
    }
}

/// The result of a run.
struct Ran {
    outcome: Result<(), String>,
    /// The hash of all calls to the file system but reads.
    hash: u64,
    /// Crashes, faults, and how often the database resumed by itself.
    counts: [u64; 3],
}

fn run(seed: u64, steps: u64) -> Ran {
    let mut run = Run::new(seed);
    let mut go = || {
        run.open()?;
        run.add_family()?;
        for _ in 0..steps {
            run.step()?;
        }
        run.rest()
    };
    let outcome = go();
    let outcome = outcome.map_err(|error| {
        let last = run.done.len().saturating_sub(30);
        let done = run.done[last..].join("\n  ");
        format!("{}\n  {done}\n  {error}", run.drawn)
    });
    Ran {
        outcome,
        hash: run.hash.finish(),
        counts: [run.crashes, run.injected, run.resumed_itself],
    }
}

#[test]
fn a_simulated_database_loses_nothing_comes_to_rest_and_repeats_itself() {
    let seed = crate::seed();
    let begun = crate::seconds();
    let only: Option<u64> = std::env::var("KOELDB_N")
        .ok()
        .and_then(|text| text.parse().ok());
    let (runs, steps) = Floors::chosen().of((300, 50), (500, 150), (20_000, 150));
    let next = AtomicU64::new(only.unwrap_or(0));
    let end = only.map_or(runs, |only| only + 1);
    let totals: [AtomicU64; 3] = Default::default();
    let failures = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= end {
                        break;
                    }
                    let own = mix(seed ^ number << 20);
                    let Ran {
                        mut outcome,
                        hash,
                        counts,
                    } = run(own, steps);
                    for (total, count) in totals.iter().zip(counts) {
                        total.fetch_add(count, Ordering::Relaxed);
                    }
                    if number.is_multiple_of(16) && run(own, steps).hash != hash {
                        outcome = Err("the same seed does something else".to_owned());
                    }
                    if let Err(text) = outcome {
                        failures.fetch_add(1, Ordering::Relaxed);
                        eprintln!(
                            "{text}\n  repeat: KOELDB_SEED={seed} KOELDB_N={number} cargo test -p koeldb --test crash simulat"
                        );
                    }
                }
            });
        }
    });
    let [crashes, injected, resumed] = totals.map(AtomicU64::into_inner);
    Summary {
        suite: "simulation",
        seed,
        figures: vec![
            ("runs", end - only.unwrap_or(0)),
            ("crashes", crashes),
            ("injected", injected),
            ("resumed", resumed),
        ],
        seconds: crate::seconds() - begun,
        failures: failures.into_inner(),
    }
    .finish("runs", if only.is_some() { 1 } else { runs });
}
