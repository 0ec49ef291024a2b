//! Random histories of directories that RocksDB and KoelDB write in turn.
//!
//! The seed of a history determines options, column families, operations and ends of turns. RocksDB
//! (`tests/java/History.java`) and KoelDB take turns in one directory. At every hand-over the dumps
//! of every column family by each engine must be equal, and equal to the model's (`model`), unless
//! unlogged writes were lost: then the engines must agree with each other.
//!
//! `KOELDB_SEED=N` runs the history of one seed and prints its operations, with
//! `KOELDB_HISTORIES=M` those of M seeds from there. The seed of a failed history is printed, and
//! its directory and operations are kept. The timing of RocksDB's background jobs varies, so that a
//! seed repeats the operations but not always the tree.
//!
//! - `draw`: column families, keys, values and changes. `options`: option strings.
//! - `operations`: the steps of a turn. `turns`: turns and hand-overs.
//! - `copies`: checkpoints, backups and secondaries. `transactions`: prepared and settled by
//!   either. `policies`: RocksDB under each of its write policies.
//! - `theirs` and `ours`: the engines. `child`: KoelDB in a process that is killed.

mod child;
mod copies;
mod draw;
pub(crate) mod model;
mod operations;
mod options;
mod ours;
mod policies;
pub(crate) mod theirs;
mod transactions;
mod turns;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use koeldb::fs::{Clock, SystemClock};
use koeldb_testkit::random::mix;
use koeldb_testkit::{Floors, Random, Summary};

use crate::rocksdb::Java;
use model::{Dump, Family, Format, Order};
use ours::{Ours, agree};
use theirs::{FAULTS_OF_ITS_OWN, HANGS, REFUSES_ITS_OWN, RocksDb};

/// Names of column families besides the default one: few, so that they are reused.
const NAMES: [&str; 3] = ["koel", "cuckoo", "ani"];

#[derive(Default)]
struct Figures {
    turns: AtomicU64,
    operations: AtomicU64,
    kills: AtomicU64,
    /// Kills of KoelDB.
    our_kills: AtomicU64,
    /// Directories with prepared transactions.
    transactions: AtomicU64,
    /// Turns of RocksDB under a write policy.
    policies: AtomicU64,
    /// Those whose undecided transactions KoelDB decided.
    policies_decided: AtomicU64,
    refusals: AtomicU64,
    entries: AtomicU64,
    /// Blob files that KoelDB wrote with values of logs.
    blob_files: AtomicU64,
    /// Histories that ended early, in a call of RocksDB that waits for ever.
    unanswered: AtomicU64,
}

/// Options with which RocksDB opened the directory.
#[derive(Clone, Debug, Default)]
struct Latest {
    /// Whether the options of the OPTIONS file were used instead of the others.
    as_written: bool,
    /// Whether it was opened as a `TransactionDB`.
    for_transactions: bool,
    /// The write policy of a `TransactionDB`.
    policy: &'static str,
    database: String,
    /// By name of the column family.
    families: BTreeMap<String, String>,
}

/// The engine whose turn it is.
enum Engine<'w> {
    Theirs(&'w mut RocksDb),
    Ours(Ours),
}

impl Engine<'_> {
    fn is_ours(&self) -> bool {
        matches!(self, Engine::Ours(_))
    }

    /// Returns the entries of a column family, by canonical key.
    fn dump(&mut self, family: &Family, snapshot: Option<usize>) -> Result<model::Scan, String> {
        let mut scan = self.dump_at(family, snapshot, family.newest())?;
        for (key, _) in &mut scan {
            *key = family.order.canonical(key);
        }
        // What differs in its values is judged first.
        if scan != family.scan() {
            return Ok(scan);
        }
        for moment in &family.moments {
            let found = self.dump_at(family, snapshot, Some(moment.time))?;
            let what = format!("the scan at timestamp {}", moment.time);
            agree(&family.name, &what, &family.scan_of(moment), &found)?;
        }
        if let Engine::Ours(ours) = self {
            ours.check_columns(family, snapshot)?;
        }
        Ok(scan)
    }

    fn dump_at(
        &mut self,
        family: &Family,
        snapshot: Option<usize>,
        time: Option<u64>,
    ) -> Result<model::Scan, String> {
        match self {
            Engine::Theirs(rocks) => {
                // It scans other tables forward only.
                let both = family.format == Format::BlockBased;
                rocks.dump_at(&family.name, snapshot, both, time)
            }
            Engine::Ours(ours) => ours.dump(&family.name, snapshot, time),
        }
    }

    fn dump_all(&mut self, families: &[Family]) -> Result<Dump, String> {
        let mut dump = Dump::new();
        for family in families {
            dump.insert(family.name.clone(), self.dump(family, None)?);
        }
        Ok(dump)
    }
}

/// A put of a prepared transaction.
struct Prepared {
    family: String,
    key: Vec<u8>,
    value: Vec<u8>,
}

/// The state of a history.
struct History<'h> {
    random: Random,
    /// Draws what concerns timestamps alone, so that the others repeat without it.
    dates: Random,
    /// The timestamp of the last batch.
    time: u64,
    base: PathBuf,
    db: PathBuf,
    /// Options of every open of this history.
    fixed: String,
    /// Options that every family of this history has.
    has_blobs: bool,
    families: Vec<Family>,
    /// Whether every open of the directory has the `db_paths` that a file beside it names.
    has_paths: bool,
    /// The column families at the time of each snapshot of this turn.
    snapshots: Vec<Vec<Family>>,
    /// Whether the end of the turn may lose unlogged changes.
    may_lose: bool,
    /// Changes that the killed engine may have applied.
    in_flight: Option<Vec<Family>>,
    /// The puts of transactions that are prepared and not settled.
    prepared: Vec<Prepared>,
    /// The copies that KoelDB made in this turn.
    copies: Vec<copies::Copy>,
    copies_made: u64,
    /// A secondary of KoelDB, in a turn of RocksDB.
    secondary: Option<Ours>,
    /// Options of the last open by RocksDB.
    latest: Latest,
    /// Whether a column family was recreated with another comparator.
    ///
    /// RocksDB also checks the comparators of dropped column families, as long as they are in the
    /// MANIFEST, and rejects its own directory.
    is_remade: bool,
    /// Whether KoelDB has changed nothing since RocksDB opened the directory.
    is_theirs: bool,
    orders: BTreeMap<String, Order>,
    trace: String,
    is_verbose: bool,
    figures: &'h Figures,
}

impl History<'_> {
    fn note(&mut self, text: &str) {
        if self.is_verbose {
            eprintln!("{text}");
        }
        let _ = writeln!(self.trace, "{text}");
    }

    /// Returns the model as a dump.
    fn expected(families: &[Family]) -> Dump {
        families
            .iter()
            .map(|family| (family.name.clone(), family.scan()))
            .collect()
    }

    /// Gives up the earlier states of families, of which changes without a log may be lost.
    fn forget_moments(&mut self) {
        if self.may_lose {
            self.families
                .iter_mut()
                .for_each(|family| family.moments.clear());
        }
    }

    /// Compares a dump with the model, or replaces the model if changes may be lost.
    fn judge(&mut self, what: &str, dump: &Dump) -> Result<(), String> {
        let entries: usize = dump.values().map(Vec::len).sum();
        self.figures
            .entries
            .fetch_add(entries as u64, Ordering::Relaxed);
        let after = self.in_flight.take();
        if self.may_lose {
            for family in &mut self.families {
                family.entries = dump[&family.name].iter().cloned().collect();
                family.forget_columns();
                family.time = self.time;
            }
            self.may_lose = false;
            return Ok(());
        }
        if let Some(after) = after
            && Self::expected(&after) == *dump
        {
            let may_be_before = Self::expected(&self.families) == *dump;
            self.families = after;
            if may_be_before {
                self.families.iter_mut().for_each(Family::forget_columns);
            }
            return Ok(());
        }
        for (name, expected) in Self::expected(&self.families) {
            agree(&name, what, &expected, &dump[&name])?;
        }
        Ok(())
    }
}

/// Runs the history of a seed; returns its failure, and then keeps the directory.
fn run(seed: u64, rocks: &mut RocksDb, figures: &Figures, is_verbose: bool) -> Result<(), String> {
    let name = format!("koeldb-history-{}-{seed}", std::process::id());
    let base = std::env::temp_dir().join(name);
    let mut history = History {
        random: Random::new(mix(seed)),
        dates: Random::new(mix(seed ^ 0x0da7_e500)),
        time: 1,
        db: base.join("db"),
        fixed: "create_if_missing=true;".to_owned(),
        has_blobs: false,
        base: base.clone(),
        families: Vec::new(),
        snapshots: Vec::new(),
        may_lose: false,
        in_flight: None,
        prepared: Vec::new(),
        copies: Vec::new(),
        has_paths: false,
        copies_made: 0,
        secondary: None,
        latest: Latest::default(),
        is_remade: false,
        is_theirs: false,
        orders: BTreeMap::new(),
        trace: String::new(),
        is_verbose,
        figures,
    };
    std::fs::create_dir_all(&base).unwrap();
    if history.random.chance(1, 4) {
        history.has_blobs = true;
    } else if history.random.chance(1, 5) {
        history.fixed.push_str(options::FORMATS);
    }
    if history.random.chance(1, 5) {
        let logs = base.join("logs");
        std::fs::create_dir_all(&logs).unwrap();
        history
            .fixed
            .push_str(&format!("wal_dir={};", logs.display()));
    }
    if history.random.chance(1, 5) {
        let mut lines = String::new();
        for (name, bytes) in [("fast", "40000"), ("middle", "150000"), ("slow", "0")] {
            lines.push_str(&format!("{}\t{bytes}\n", base.join(name).display()));
        }
        std::fs::write(base.join("db.paths"), lines).unwrap();
        history.has_paths = true;
    }
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| history.run(rocks)));
    let done = done.unwrap_or_else(|_| Err("a panic".to_owned()));
    match done {
        Ok(()) => {
            // The directory was closed at the end of the last turn.
            std::fs::remove_dir_all(&base).unwrap();
            Ok(())
        }
        Err(error) => {
            rocks.kill();
            history.note(&error);
            std::fs::write(base.join("trace"), &history.trace).unwrap();
            Err(format!(
                "history {seed}: {error}; kept in {}, its end:\n{}",
                base.display(),
                end_of(&history.trace)
            ))
        }
    }
}

/// The last lines of a trace, without the ends of long ones.
fn end_of(trace: &str) -> String {
    let lines: Vec<&str> = trace.lines().collect();
    let last = lines[lines.len().saturating_sub(12)..].iter();
    let shortened = last.map(|line| format!("    {}", line.chars().take(400).collect::<String>()));
    shortened.collect::<Vec<_>>().join("\n")
}

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect("a number"))
}

#[test]
fn rocksdb_and_we_agree_on_random_histories() {
    if !koeldb::Compression::Zstd.is_available() {
        println!("not tested: RocksDB writes ZSTD, which this build lacks");
        return;
    }
    let Some(java) = Java::find() else {
        return;
    };
    let only = variable("KOELDB_SEED");
    let floor = Floors::chosen().of(10, 200, 20_000);
    let (first, count) = match only {
        Some(seed) => (seed, variable("KOELDB_HISTORIES").unwrap_or(1)),
        None => (1, floor),
    };
    let figures = Figures::default();
    let next = AtomicU64::new(0);
    let begun = SystemClock.now();
    let failures: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..count.min(2))
            .map(|_| {
                scope.spawn(|| {
                    let mut rocks = RocksDb::start(java);
                    let mut failures = Vec::new();
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= count {
                            return failures;
                        }
                        let done = run(first + number, &mut rocks, &figures, count == 1);
                        match done {
                            Ok(()) => {}
                            Err(error)
                                if [HANGS, REFUSES_ITS_OWN]
                                    .iter()
                                    .chain(&FAULTS_OF_ITS_OWN)
                                    .any(|text| error.contains(text)) =>
                            {
                                eprintln!("{error}");
                                figures.unanswered.fetch_add(1, Ordering::Relaxed);
                            }
                            Err(error) => {
                                eprintln!(
                                    "{error}\n  repeat: KOELDB_SEED={} cargo test -p koeldb --test it random_histories",
                                    first + number
                                );
                                failures.push(error);
                            }
                        }
                    }
                })
            })
            .collect();
        let failures = workers.into_iter().map(|worker| worker.join().unwrap());
        failures.flatten().collect()
    });
    let figure = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
    Summary {
        suite: "history",
        seed: first,
        figures: vec![
            ("histories", count),
            ("turns", figure(&figures.turns)),
            ("operations", figure(&figures.operations)),
            ("kills", figure(&figures.kills)),
            ("our_kills", figure(&figures.our_kills)),
            ("transactions", figure(&figures.transactions)),
            ("policies", figure(&figures.policies)),
            ("policies_decided", figure(&figures.policies_decided)),
            ("refusals", figure(&figures.refusals)),
            ("entries", figure(&figures.entries)),
            ("blob_files_of_logs", figure(&figures.blob_files)),
            ("unanswered", figure(&figures.unanswered)),
        ],
        seconds: (SystemClock.now() - begun).as_secs_f64(),
        failures: failures.len() as u64,
    }
    .finish("histories", count);
    assert!(
        count < 50 || figure(&figures.blob_files) > 0,
        "no recovery of KoelDB wrote a blob file"
    );
    let unanswered = figure(&figures.unanswered);
    assert!(
        unanswered * 10 <= count.max(10),
        "RocksDB leaves {unanswered} of {count} histories unfinished"
    );
}
