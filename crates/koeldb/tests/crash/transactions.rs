//! Prepared transactions: the power is cut at every operation of random histories.
//!
//! Transactions merge operands, so that what is applied twice shows. Each image must be one of the
//! states that the history may have had since its last sync: its content, and its undecided
//! transactions. What is undecided is then decided, and the result must survive another open.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use koeldb::fs::{MemoryFileSystem, SurvivalPolicy, SystemClock};
use koeldb::{
    ColumnFamily, ColumnFamilyDescriptor, ColumnFamilyOptions, Db, Env, Options, StringAppend,
    TransactionDbOptions, TransactionOptions, WriteBatch, WriteOptions,
};
use koeldb_testkit::random::mix;
use koeldb_testkit::{Floors, Random, Summary};

use crate::session::image_env;

const PATH: &str = "/prepared";

fn open(env: &Env) -> koeldb::Result<(Db, ColumnFamily)> {
    let mut locks = TransactionDbOptions::new();
    locks
        .set_default_lock_timeout(0)
        .set_transaction_lock_timeout(0);
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .create_missing_column_families(true)
        .set_merge_operator(StringAppend::default())
        .set_transactions(&locks)
        .set_env(env);
    let mut other = ColumnFamilyOptions::new();
    other.set_merge_operator(StringAppend::default());
    let family = ColumnFamilyDescriptor::new("other", other);
    let (db, [family]) = Db::open_cf(&options, PATH, [family])?;
    Ok((db, family))
}

/// The entries of both families.
type Entries = [BTreeMap<String, String>; 2];

/// An operand for a key of a family.
type Operation = (usize, String, String);

/// The content of both families, and the operations of undecided transactions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct State {
    entries: Entries,
    prepared: BTreeMap<String, Vec<Operation>>,
}

impl State {
    fn merge(&mut self, (family, key, operand): &Operation) {
        let value = self.entries[*family].entry(key.clone()).or_default();
        if !value.is_empty() {
            value.push(',');
        }
        value.push_str(operand);
    }

    fn commit(&mut self, name: &str) {
        for operation in self.prepared.remove(name).unwrap_or_default() {
            self.merge(&operation);
        }
    }

    fn names(&self) -> BTreeSet<String> {
        self.prepared.keys().cloned().collect()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Reads the content and the names of undecided transactions.
fn read(db: &Db, other: &ColumnFamily) -> koeldb::Result<(Entries, BTreeSet<String>)> {
    let mut entries = Entries::default();
    for (family, entries) in [db.default_cf(), other].iter().zip(&mut entries) {
        for entry in family.range(..) {
            let (key, value) = entry?;
            entries.insert(text(&key), text(&value));
        }
    }
    let prepared = db.prepared_transactions();
    Ok((
        entries,
        prepared.iter().map(|one| text(one.name())).collect(),
    ))
}

/// An image and the states that it may have.
struct Shot {
    image: MemoryFileSystem,
    possible: Vec<State>,
    what: String,
}

/// Opens an image, finds its state, decides what is undecided, and opens it again.
fn check(shot: &Shot, random: &mut Random) -> Result<(), String> {
    let failed = |error: koeldb::Error| format!("{}: {error}", shot.what);
    let env = image_env(&shot.image);
    let (db, other) = open(&env).map_err(failed)?;
    let (entries, names) = read(&db, &other).map_err(failed)?;
    let is_state = |state: &&State| state.entries == entries && state.names() == names;
    let Some(state) = shot.possible.iter().find(is_state) else {
        return Err(format!(
            "{}: found {entries:?} and {names:?}, possible are {:?}",
            shot.what, shot.possible
        ));
    };
    let mut state = state.clone();
    for prepared in db.prepared_transactions() {
        let name = text(prepared.name());
        match random.below(3) {
            0 => {
                prepared.commit().map_err(failed)?;
                state.commit(&name);
            }
            1 => {
                prepared.rollback().map_err(failed)?;
                state.prepared.remove(&name);
            }
            _ => {}
        }
    }
    db.close().map_err(failed)?;
    drop((db, other));
    let (db, other) = open(&env).map_err(failed)?;
    let (entries, names) = read(&db, &other).map_err(failed)?;
    match state.entries == entries && state.names() == names {
        true => Ok(()),
        false => Err(format!(
            "{}: decided {state:?}, then found {entries:?} and {names:?}",
            shot.what
        )),
    }
}

/// A running history, and the states that a crash at this moment may leave.
struct History {
    db: Db,
    other: ColumnFamily,
    random: Random,
    possible: Arc<Mutex<Vec<State>>>,
}

fn synced() -> WriteOptions {
    let mut options = WriteOptions::new();
    options.set_sync(true);
    options
}

impl History {
    fn state(&self) -> State {
        self.possible.lock().unwrap().last().unwrap().clone()
    }

    /// Runs a step that leads to `next`; after it, no earlier state is possible if it `syncs`.
    fn step(&self, next: State, syncs: bool, run: impl FnOnce() -> koeldb::Result<()>) {
        self.possible.lock().unwrap().push(next);
        run().unwrap();
        if syncs {
            let mut possible = self.possible.lock().unwrap();
            let last = possible.len() - 1;
            possible.drain(..last);
        }
    }

    fn operation(&mut self, prefix: &str, at: u64) -> Operation {
        let family = usize::try_from(self.random.below(2)).unwrap();
        (
            family,
            format!("{prefix}{}", self.random.below(4)),
            at.to_string(),
        )
    }

    fn family(&self, family: usize) -> ColumnFamily {
        [self.db.default_cf(), &self.other][family].clone()
    }

    fn write(&mut self, at: u64) {
        let operation = self.operation("p", at);
        let mut next = self.state();
        next.merge(&operation);
        let mut batch = WriteBatch::new();
        batch.merge_cf(&self.family(operation.0), &operation.1, &operation.2);
        let syncs = self.random.chance(1, 2);
        let mut options = synced();
        options.set_sync(syncs);
        self.step(next, syncs, || self.db.write_opt(&batch, &options));
    }

    fn prepare(&mut self, at: u64) {
        let syncs = self.random.chance(3, 4);
        let mut options = synced();
        options.set_sync(syncs);
        let mut transaction = self
            .db
            .transaction_opt(&options, &TransactionOptions::new())
            .unwrap();
        let mut operations = Vec::new();
        for _ in 0..self.random.below(3) {
            let operation = self.operation("k", at);
            let family = self.family(operation.0);
            if transaction
                .merge_cf(&family, &operation.1, &operation.2)
                .is_ok()
            {
                operations.push(operation);
            }
        }
        let (name, mut next) = (format!("t{at}"), self.state());
        next.prepared.insert(name.clone(), operations);
        self.step(next, syncs, || transaction.prepare(&name).map(drop));
    }

    fn decide(&mut self, at: u64) {
        let prepared = self.db.prepared_transactions();
        let Some(one) = prepared.first() else { return };
        let (name, mut next) = (text(one.name()), self.state());
        if self.random.chance(1, 3) {
            next.prepared.remove(&name);
            self.step(next, false, || one.rollback());
            return;
        }
        let mut batch = WriteBatch::new();
        if self.random.chance(1, 2) {
            batch.merge_cf(&self.other, "time", at.to_string());
            next.merge(&(1, "time".into(), at.to_string()));
        }
        next.commit(&name);
        let syncs = self.random.chance(1, 2);
        let mut options = synced();
        options.set_sync(syncs);
        self.step(next, syncs, || one.commit_with(&batch, &options).map(drop));
    }

    fn run(&mut self, env: &Env, steps: u64) {
        for at in 0..steps {
            match self.random.below(12) {
                0..3 => self.write(at),
                3..6 => self.prepare(at),
                6..9 => self.decide(at),
                9 => self.step(self.state(), false, || self.db.default_cf().flush()),
                10 => self.step(self.state(), false, || self.other.flush()),
                _ => {
                    self.step(self.state(), true, || self.db.close());
                    (self.db, self.other) = open(env).unwrap();
                }
            }
        }
    }
}

/// Runs one history and checks a sample of its images; returns the number of moments and images.
fn sweep(seed: u64, steps: u64, one_in: u64) -> (u64, u64, Vec<String>) {
    let fs = MemoryFileSystem::new();
    let env = Env::new(Arc::new(fs.clone()), Arc::new(SystemClock));
    let (db, other) = open(&env).unwrap();
    let possible = Arc::new(Mutex::new(vec![State::default()]));
    let shots = Arc::new(Mutex::new((0_u64, Vec::new())));
    let (states, taken) = (Arc::clone(&possible), Arc::clone(&shots));
    fs.observe_mutations(move |fs, operation| {
        taken.lock().unwrap().0 += 1;
        for (index, policy) in (0_u64..).zip(SurvivalPolicy::ALL) {
            let chosen = mix(seed ^ mix(operation ^ (index << 40)));
            if chosen.is_multiple_of(one_in) {
                // Before the image: what becomes impossible meanwhile is judged mildly.
                let mut possible = states.lock().unwrap().clone();
                let image = fs.crash_image(policy, chosen);
                for state in states.lock().unwrap().iter() {
                    if !possible.contains(state) {
                        possible.push(state.clone());
                    }
                }
                let what = format!("seed {seed}, operation {operation} under {policy:?}");
                taken.lock().unwrap().1.push(Shot {
                    image,
                    possible,
                    what,
                });
            }
        }
    });
    let mut history = History {
        db,
        other,
        random: Random::new(seed),
        possible,
    };
    history.run(&env, steps);
    fs.observe_mutations(|_, _| ());
    drop(history);
    let (moments, shots) = std::mem::take(&mut *shots.lock().unwrap());
    let mut random = Random::new(mix(seed));
    let failures = shots
        .iter()
        .filter_map(|shot| check(shot, &mut random).err());
    let failures = failures.collect();
    (moments, shots.len() as u64, failures)
}

/// A crash at any operation leaves prepared transactions undecided or decided, never half of either.
#[test]
#[expect(clippy::disallowed_methods, reason = "the duration of the suite")]
fn a_crash_at_any_operation_leaves_transactions_whole() {
    let begun = Instant::now();
    let floors = Floors::chosen();
    let (histories, one_in) = floors.of((4, 40), (150, 20), (3_000, 20));
    let seed = std::env::var("KOELDB_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seeds = seed.map_or(0..histories, |seed: u64| seed..seed + 1);
    let (mut moments, mut images, mut failures) = (0, 0, Vec::new());
    for seed in seeds {
        let (more_moments, more_images, more_failures) = sweep(seed, 30, one_in);
        moments += more_moments;
        images += more_images;
        failures.extend(more_failures);
    }
    for failure in failures.iter().take(3) {
        eprintln!("{failure}");
    }
    let summary = Summary {
        suite: "transactions-crash",
        seed: seed.unwrap_or(0),
        figures: vec![
            ("histories", histories),
            ("moments", moments),
            ("images", images),
        ],
        seconds: begun.elapsed().as_secs_f64(),
        failures: failures.len() as u64,
    };
    println!("{summary}");
    assert!(failures.is_empty(), "{} failures", failures.len());
}
