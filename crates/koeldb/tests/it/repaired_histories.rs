//! Repairs of directories of random histories, taken at any moment, with and without a MANIFEST.

use std::path::Path;
use std::sync::Arc;

use koeldb::fs::{FileSystem, MemoryFileSystem, SurvivalPolicy, SystemClock};
use koeldb::{
    ColumnFamily, CompactRangeOptions, Db, Env, Options, StringAppend, TransactionDbOptions,
};
use koeldb_testkit::{Floors, Random};

use crate::wait;

const HERE: &str = "/db";

/// Beginnings of the names of files that list tables or name the database.
const LOSSES: &[&str] = &["CURRENT", "MANIFEST", "IDENTITY"];

fn lose(fs: &MemoryFileSystem, names: &[&str]) {
    for entry in fs.list(Path::new(HERE)).unwrap() {
        if names.iter().any(|name| entry.name.starts_with(name)) {
            fs.remove_file(&Path::new(HERE).join(entry.name)).unwrap();
        }
    }
}

fn options(fs: &MemoryFileSystem) -> Options {
    let mut options = Options::new();
    let mut locks = TransactionDbOptions::new();
    locks
        .set_transaction_lock_timeout(0)
        .set_default_lock_timeout(0);
    options
        .create_if_missing(true)
        .create_missing_column_families(true)
        .set_avoid_flush_during_shutdown(true)
        .set_disable_auto_compactions(true)
        .set_transactions(&locks)
        .set_merge_operator(StringAppend::new(","));
    options.set_env(&Env::new(Arc::new(fs.clone()), Arc::new(SystemClock)));
    options
}

fn open(fs: &MemoryFileSystem) -> koeldb::Result<(Db, ColumnFamily)> {
    let (db, [other]) = Db::open_cf(&options(fs), HERE, ["other"])?;
    Ok((db, other))
}

/// All entries by key, and the names of undecided transactions.
type State = (Vec<(String, String)>, Vec<String>);

fn state(db: &Db, other: &ColumnFamily) -> State {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let mut entries = Vec::new();
    for family in [db.default_cf(), other] {
        for entry in family.range(..) {
            let (key, value) = entry.unwrap();
            entries.push((format!("{}/{}", family.name(), text(&key)), text(&value)));
        }
    }
    let names = db.prepared_transactions();
    let names = names.iter().map(|transaction| text(transaction.name()));
    (entries, names.collect())
}

/// A database that is written at random.
struct History {
    fs: MemoryFileSystem,
    db: Db,
    other: ColumnFamily,
    random: Random,
    step: u64,
    log: Vec<String>,
}

impl History {
    fn new(seed: u64) -> Self {
        let fs = MemoryFileSystem::new();
        let (db, other) = open(&fs).unwrap();
        for family in [db.default_cf(), &other] {
            // Only a table knows the name of a column family when the MANIFEST is lost.
            family.put("kept", "value").unwrap();
            family.flush().unwrap();
        }
        History {
            fs,
            db,
            other,
            random: Random::new(seed),
            step: 0,
            log: Vec::new(),
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    fn family(&mut self) -> ColumnFamily {
        match self.below(2) {
            0 => self.db.default_cf().clone(),
            _ => self.other.clone(),
        }
    }

    /// Makes a random step; a step that needs a lock of another transaction is left out.
    fn step(&mut self) {
        self.step += 1;
        let step = self.step;
        let family = self.family();
        let key = format!("{:02}", self.below(12));
        let kind = self.below(24);
        self.log.push(format!("{kind} {} {key}", family.name()));
        match kind {
            0 | 1 => drop(family.delete(&key)),
            2 => {
                let end = format!("{:02}", self.below(12));
                drop(family.delete_range(key.clone().min(end.clone()), key.max(end)));
            }
            3..=7 => drop(family.merge(&key, format!("{step}"))),
            8 | 9 => {
                // A flush drops both, so that its table ends before them.
                let once = format!("once {step}");
                family.put(&once, "value").unwrap();
                family.single_delete(&once).unwrap();
            }
            10 | 11 => family.flush().unwrap(),
            12 => family.compact_range(..).unwrap(),
            13 => self.prepare(&key),
            14 => self.decide(),
            15 => self.restart(),
            16 => self.go_on_repaired(),
            _ => drop(family.put(&key, format!("put {step}"))),
        }
    }

    fn prepare(&mut self, key: &str) {
        let mut transaction = self.db.transaction();
        let families = [self.db.default_cf().clone(), self.other.clone()];
        for family in &families {
            if transaction
                .merge_cf(family, key, format!("t{}", self.step))
                .is_err()
            {
                return;
            }
        }
        let name = format!("transaction {}", self.step);
        transaction.prepare(name).unwrap();
    }

    fn decide(&mut self) {
        let undecided = self.db.prepared_transactions();
        if let Some(transaction) = undecided.into_iter().next() {
            match self.below(3) {
                0 => transaction.rollback().unwrap(),
                _ => drop(transaction.commit().unwrap()),
            }
        }
    }

    /// Opens the database again, as after the death of the process.
    fn restart(&mut self) {
        let left = self.fs.crash_image(SurvivalPolicy::Generous, 0);
        let (db, other) = open(&left).unwrap();
        (self.fs, self.db, self.other) = (left, db, other);
    }

    /// Repairs the directory up to three times and goes on in it.
    fn go_on_repaired(&mut self) {
        let expected = state(&self.db, &self.other);
        let left = self.left();
        for _ in 0..=self.below(3) {
            let count = usize::try_from(1 + self.below(3)).unwrap();
            lose(&left, &LOSSES[..count]);
            Db::repair(&options(&left), HERE).unwrap();
        }
        let (db, other) = open(&left).unwrap();
        assert_eq!(state(&db, &other), expected, "{:#?}", self.log);
        (self.fs, self.db, self.other) = (left, db, other);
    }

    /// Returns what a killed process leaves, once obsolete tables are deleted: without a MANIFEST
    /// nothing tells them from others.
    fn left(&self) -> MemoryFileSystem {
        wait::until("the deletion of obsolete tables", || {
            let entries = self.fs.list(Path::new(HERE)).unwrap();
            let tables = entries.iter().filter(|entry| entry.name.ends_with(".sst"));
            tables.count() == self.db.live_files().len()
        });
        self.fs.crash_image(SurvivalPolicy::Generous, 0)
    }

    /// Repairs a copy of the directory that lost CURRENT, and the MANIFEST too if asked.
    fn check_repair(&self, loses_manifest: bool, what: &str) {
        let expected = state(&self.db, &self.other);
        let left = self.left();
        lose(&left, &LOSSES[..1 + usize::from(loses_manifest)]);
        let what = format!("{what}, MANIFEST lost: {loses_manifest}");
        for round in ["once", "again"] {
            let report = Db::repair(&options(&left), HERE)
                .unwrap_or_else(|error| panic!("{what}, repaired {round}: {error}"));
            let (db, other) = open(&left).unwrap();
            let found = state(&db, &other);
            let history = &self.log;
            assert_eq!(found, expected, "{what}, {round}: {report:?}\n{history:#?}");
            if round == "again" {
                db.compact_all(&CompactRangeOptions::new()).unwrap();
                let found = state(&db, &other);
                assert_eq!(found, expected, "{what}, compacted: {report:?}");
            }
        }
    }
}

#[test]
fn a_repair_finds_what_a_killed_process_left() {
    for seed in 0..Floors::chosen().of(3, 40, 2000) {
        let mut history = History::new(seed);
        for step in 0..60 {
            history.step();
            if history.below(8) == 0 {
                for loses_manifest in [false, true] {
                    history.check_repair(loses_manifest, &format!("seed {seed}, step {step}"));
                }
            }
        }
    }
}
