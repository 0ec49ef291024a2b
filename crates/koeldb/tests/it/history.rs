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

mod model;
mod options;
mod ours;
mod theirs;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use koeldb::fs::{Clock, SystemClock};
use koeldb_testkit::random::mix;
use koeldb_testkit::{Floors, Random, Summary};

use crate::rocksdb::Java;
use model::{Change, Dump, Family, Merge, Order, encode};
use ours::{How, Ours, agree};
use theirs::{HANGS, RocksDb, hex};

/// Names of column families besides the default one: few, so that they are reused.
const NAMES: [&str; 3] = ["koel", "cuckoo", "ani"];

#[derive(Default)]
struct Figures {
    turns: AtomicU64,
    operations: AtomicU64,
    kills: AtomicU64,
    refusals: AtomicU64,
    entries: AtomicU64,
    /// Histories that ended early, in a call of RocksDB that waits for ever.
    unanswered: AtomicU64,
}

/// Options with which RocksDB opened the directory.
#[derive(Clone, Debug, Default)]
struct Latest {
    /// Whether the options of the OPTIONS file were used instead of the others.
    as_written: bool,
    database: String,
    /// By name of the column family.
    families: BTreeMap<String, String>,
}

/// Parts of the messages of permitted open failures in KoelDB.
const REFUSALS: &[&str] = &[
    "atomic_flush=true: families are not flushed together yet",
    "Blob files can only be kept by RocksDB",
];

/// The engine whose turn it is.
enum Engine<'w> {
    Theirs(&'w mut RocksDb),
    Ours(Ours),
}

impl Engine<'_> {
    fn is_ours(&self) -> bool {
        matches!(self, Engine::Ours(_))
    }

    fn dump(&mut self, family: &str, snapshot: Option<usize>) -> Result<model::Scan, String> {
        match self {
            Engine::Theirs(rocks) => rocks.dump(family, snapshot, true),
            Engine::Ours(ours) => ours.dump(family, snapshot),
        }
    }

    fn dump_all(&mut self, families: &[Family]) -> Result<Dump, String> {
        let mut dump = Dump::new();
        for family in families {
            dump.insert(family.name.clone(), self.dump(&family.name, None)?);
        }
        Ok(dump)
    }
}

/// The state of a history.
struct History<'h> {
    random: Random,
    base: PathBuf,
    db: PathBuf,
    /// Options of every open of this history.
    fixed: String,
    /// Options that every family of this history has.
    fixed_of_families: String,
    families: Vec<Family>,
    /// The column families at the time of each snapshot of this turn.
    snapshots: Vec<Vec<Family>>,
    /// Whether the end of the turn may lose unlogged changes.
    may_lose: bool,
    /// Changes that the killed engine may have applied.
    in_flight: Option<Vec<Family>>,
    /// Options of the last open by RocksDB.
    latest: Latest,
    /// Whether a column family was recreated with another comparator.
    ///
    /// RocksDB also checks the comparators of dropped column families, as long as they are in the
    /// MANIFEST, and rejects its own directory.
    is_remade: bool,
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

    fn index(&mut self, count: usize) -> usize {
        usize::try_from(self.random.below(count as u64)).unwrap()
    }

    fn draw_family(&mut self, name: &str, id: u32) -> Family {
        let order = match self.random.below(6) {
            0..3 => Order::Bytewise,
            // RocksDB does not find the comparator for numbers by its name in an OPTIONS file.
            5 if !self.latest.as_written => Order::Uint64,
            _ => Order::Reverse,
        };
        let merge = match self.random.below(4) {
            0 => Merge::None,
            1 | 2 => Merge::Append,
            _ => Merge::Add,
        };
        let operator = match merge {
            Merge::None => "",
            Merge::Append => "merge_operator=stringappend;",
            Merge::Add => "merge_operator=uint64add;",
        };
        Family {
            name: name.to_owned(),
            id,
            order,
            merge,
            fixed: format!(
                "{operator}{}{}",
                options::style(&mut self.random),
                self.fixed_of_families
            ),
            entries: Default::default(),
        }
    }

    fn family_text(&mut self, family: &Family) -> String {
        let has_prefixes = family.order != Order::Uint64;
        let drawn = options::family(&mut self.random, has_prefixes, &family.fixed);
        format!("{drawn}{}", family.fixed)
    }

    /// Returns the model as a dump.
    fn expected(families: &[Family]) -> Dump {
        families
            .iter()
            .map(|family| (family.name.clone(), family.scan()))
            .collect()
    }

    /// Compares a dump with the model, or replaces the model if changes may be lost.
    fn judge(&mut self, what: &str, dump: &Dump) -> Result<(), String> {
        let entries: usize = dump.values().map(Vec::len).sum();
        self.figures
            .entries
            .fetch_add(entries as u64, Ordering::Relaxed);
        if self.may_lose {
            for family in &mut self.families {
                family.entries = dump[&family.name].iter().cloned().collect();
            }
            self.may_lose = false;
            self.in_flight = None;
            return Ok(());
        }
        if let Some(after) = self.in_flight.take()
            && Self::expected(&after) == *dump
        {
            self.families = after;
            return Ok(());
        }
        for (name, expected) in Self::expected(&self.families) {
            agree(&name, what, &expected, &dump[&name])?;
        }
        Ok(())
    }

    // Hand-overs.

    /// Opens the directory in RocksDB with new random options, or with those of the OPTIONS file.
    fn open_theirs(&mut self, rocks: &mut RocksDb, is_new: bool) -> Result<(), String> {
        let mut listed = match is_new {
            true => vec!["default".to_owned()],
            false => rocks.list(&self.db)?,
        };
        listed.sort();
        let mut names: Vec<String> = self.families.iter().map(|f| f.name.clone()).collect();
        names.sort();
        if listed != names {
            return Err(format!("RocksDB lists {listed:?}, not {names:?}"));
        }
        let only_built_in = self.families.iter().all(|f| f.order != Order::Uint64);
        self.latest.as_written = !is_new && only_built_in && self.random.chance(1, 3);
        self.latest.database = options::database(&mut self.random, &self.fixed);
        self.latest.families = BTreeMap::new();
        for index in 0..self.families.len() {
            let family = self.families[index].clone();
            let text = self.family_text(&family);
            self.latest.families.insert(family.name, text);
        }
        match self.reopen_theirs(rocks) {
            // A MANIFEST started by KoelDB has only the remaining column families.
            Err(error) if self.is_refusal_of_remade(&error) => {
                if let Some(ours) = self.open_ours(&How::default())? {
                    ours.close()?;
                }
                self.is_remade = false;
                self.reopen_theirs(rocks)
            }
            other => other,
        }
    }

    /// Reopens the directory in RocksDB with the same options.
    fn reopen_theirs(&mut self, rocks: &mut RocksDb) -> Result<(), String> {
        let dir = self.db.display().to_string();
        let latest = self.latest.clone();
        let mut command = match latest.as_written {
            true => vec!["open".to_owned(), "latest".to_owned(), dir],
            false => vec![
                "open".to_owned(),
                "strings".to_owned(),
                dir,
                latest.database,
            ],
        };
        for family in self.families.iter().filter(|_| !latest.as_written) {
            let text = latest.families[&family.name].clone();
            command.extend([family.name.clone(), family.order.name().to_owned(), text]);
        }
        self.note(&format!("RocksDB: {}", command.join(" ")));
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        let ids = rocks.execute(&command)?;
        for id in ids {
            let (name, id) = id.split_once(':').unwrap();
            let family = self.families.iter_mut().find(|family| family.name == name);
            family
                .ok_or_else(|| format!("RocksDB opened family {name}"))?
                .id = id.parse().unwrap();
        }
        Ok(())
    }

    /// Opens the directory in KoelDB; `None` if that failed for a permitted reason.
    fn open_ours(&mut self, how: &How) -> Result<Option<Ours>, String> {
        self.note(&format!("KoelDB opens: {how:?}"));
        let ours = match Ours::open(&self.db, how) {
            Ok(ours) => ours,
            Err(error) if REFUSALS.iter().any(|reason| error.contains(reason)) => {
                self.note(&format!("  {error}"));
                self.figures.refusals.fetch_add(1, Ordering::Relaxed);
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let mut found = ours.names();
        found.sort();
        let mut names: Vec<String> = self.families.iter().map(|f| f.name.clone()).collect();
        names.sort();
        if found != names {
            return Err(format!("KoelDB opened {found:?}, not {names:?}"));
        }
        Ok(Some(ours))
    }

    /// Dumps the directory without changing it, by a read-only open in KoelDB.
    fn look_on(&mut self) -> Result<Option<Dump>, String> {
        let how = How {
            read_only: true,
            ..How::default()
        };
        let ours = self.open_ours(&how)?;
        let dump = ours.map(|ours| Engine::Ours(ours).dump_all(&self.families));
        match dump.transpose() {
            // A read-only open reads around them.
            Err(error) if !self.fixed_of_families.is_empty() && error.contains("blob file") => {
                self.note(&format!("  {error}"));
                self.figures.refusals.fetch_add(1, Ordering::Relaxed);
                Ok(None)
            }
            other => other,
        }
    }

    /// Whether RocksDB rejected an open because of a recreated column family.
    fn is_refusal_of_remade(&mut self, error: &str) -> bool {
        let is_expected = self.is_remade && error.contains("does not match existing comparator");
        if is_expected {
            self.note(&format!("  {error}"));
        }
        is_expected
    }

    /// Dumps the directory by an open in RocksDB, and restores it.
    fn look_by_theirs(&mut self, rocks: &mut RocksDb) -> Result<Option<Dump>, String> {
        let kept = self.base.with_extension("kept");
        copy_tree(&self.base, &kept);
        let dump = match self.reopen_theirs(rocks) {
            Err(error) if self.is_refusal_of_remade(&error) => None,
            Err(error) => return Err(error),
            Ok(()) => {
                let dump = Engine::Theirs(rocks).dump_all(&self.families)?;
                rocks.execute(&["close"])?;
                Some(dump)
            }
        };
        std::fs::remove_dir_all(&self.base).unwrap();
        std::fs::rename(&kept, &self.base).unwrap();
        Ok(dump)
    }

    /// Dumps the directory by both engines, which must agree, and checks the result.
    fn look_by_both(&mut self, what: &str, rocks: &mut RocksDb) -> Result<(), String> {
        let ours = self.look_on()?;
        let theirs = self.look_by_theirs(rocks)?;
        if let (Some(ours), Some(theirs)) = (&ours, &theirs) {
            Self::same(&format!("{what}, KoelDB: the scan"), theirs, ours)?;
        }
        match ours.or(theirs) {
            Some(dump) => self.judge(&format!("{what}: the scan"), &dump),
            None => Err(format!("{what}: both refuse")),
        }
    }

    /// Fails unless two dumps of the same directory are equal.
    fn same(what: &str, one: &Dump, other: &Dump) -> Result<(), String> {
        for (name, entries) in one {
            agree(name, what, entries, &other[name])?;
        }
        Ok(())
    }

    // Operations.

    fn key(&mut self, order: Order) -> Vec<u8> {
        let number = self.random.below(160);
        match order {
            Order::Uint64 => number.to_le_bytes().to_vec(),
            // Some keys are prefixes of others, or shorter than the prefix extractors require.
            _ if number.is_multiple_of(40) => format!("k{}", number / 40).into_bytes(),
            _ => format!("k{:02}/{:03}", number / 20, number).into_bytes(),
        }
    }

    /// Returns a key that is only put once and then singly deleted.
    fn single_key(&mut self, order: Order) -> Vec<u8> {
        let number = self.random.below(12);
        match order {
            Order::Uint64 => (1_000_000 + number).to_le_bytes().to_vec(),
            _ => format!("single{number}").into_bytes(),
        }
    }

    fn value(&mut self, merge: Merge) -> Vec<u8> {
        if merge == Merge::Add {
            return self.random.below(1_000_000).to_le_bytes().to_vec();
        }
        let length = match self.random.below(20) {
            0 => 0,
            1 => 3000 + self.random.below(6000),
            2..8 => 200 + self.random.below(600),
            _ => self.random.below(60),
        };
        let word = self.random.draw().to_le_bytes();
        let is_plain = self.random.chance(1, 2);
        let mut value = format!("v{}:", self.random.below(1000)).into_bytes();
        for at in 0..length {
            value.push(match is_plain {
                true => word[usize::try_from(at % 8).unwrap()],
                false => mix(at ^ u64::from_le_bytes(word)).to_le_bytes()[0],
            });
        }
        value
    }

    fn change(&mut self, family: usize) -> Change {
        let Family { order, merge, .. } = self.families[family];
        match self.random.below(100) {
            0..50 => Change::Put(self.key(order), self.value(merge)),
            50..62 => Change::Delete(self.key(order)),
            62..70 => {
                let key = self.single_key(order);
                match self.families[family].entries.contains_key(&key) {
                    true => Change::SingleDelete(key),
                    false => Change::Put(key, self.value(merge)),
                }
            }
            70..84 if merge != Merge::None => {
                let operand = match merge {
                    Merge::Add => self.value(merge),
                    _ => format!("m{}", self.random.below(1000)).into_bytes(),
                };
                Change::Merge(self.key(order), operand)
            }
            84..92 => {
                let (mut from, mut to) = (self.key(order), self.key(order));
                if order.compare(&from, &to).is_gt() {
                    std::mem::swap(&mut from, &mut to);
                }
                Change::DeleteRange(from, to)
            }
            92..96 => {
                let mut columns = vec![(Vec::new(), self.value(merge))];
                for name in ["color", "song"] {
                    if self.random.chance(2, 3) {
                        columns.push((name.into(), self.value(Merge::None)));
                    }
                }
                Change::PutEntity(self.key(order), columns)
            }
            _ => Change::Put(self.key(order), self.value(merge)),
        }
    }

    /// Draws the changes of a batch and applies them to the model.
    fn batch(&mut self) -> Vec<(u32, Change)> {
        let is_burst = self.random.chance(1, 8);
        let count = match is_burst {
            true => 40 + self.random.below(60),
            false => 1 + self.random.below(6),
        };
        let only = self.index(self.families.len());
        let mut changes = Vec::new();
        for _ in 0..count {
            let family = match self.random.chance(2, 3) {
                true => only,
                false => self.index(self.families.len()),
            };
            let change = self.change(family);
            self.families[family].apply(&change);
            changes.push((self.families[family].id, change));
        }
        changes
    }

    fn write(&mut self, engine: &mut Engine<'_>) -> Result<(), String> {
        let changes = self.batch();
        let mut unlogged = self.random.chance(1, 25);
        if !engine.is_ours() {
            // RocksDB rejects that if logs are recycled.
            let latest = &self.latest;
            unlogged &= !latest.as_written && !latest.database.contains("recycle_log_file_num");
        }
        let sync = !unlogged && self.random.chance(1, 10);
        self.note(&format!(
            "write sync={sync} unlogged={unlogged} {}",
            show(&changes)
        ));
        self.may_lose |= unlogged;
        let batch = encode(&changes);
        match engine {
            Engine::Ours(ours) => ours.write(&batch, sync, unlogged),
            Engine::Theirs(rocks) => {
                let flags = match (sync, unlogged) {
                    (true, _) => "s",
                    (_, true) => "w",
                    _ => "-",
                };
                rocks.execute(&["write", flags, &hex(&batch)]).map(drop)
            }
        }
    }

    fn flush(&mut self, engine: &mut Engine<'_>) -> Result<(), String> {
        let mut names: Vec<String> = Vec::new();
        for index in 0..self.families.len() {
            if self.random.chance(1, 2) || self.families.len() == 1 {
                names.push(self.families[index].name.clone());
            }
        }
        let wait = self.random.chance(3, 4);
        self.note(&format!("flush wait={wait} {names:?}"));
        let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
        match engine {
            Engine::Ours(ours) => ours.flush(&names, wait),
            Engine::Theirs(_) if names.is_empty() => Ok(()),
            Engine::Theirs(rocks) => {
                let mut command = vec!["flush", if wait { "1" } else { "0" }];
                command.append(&mut names);
                let done = rocks.execute(&command).map(drop);
                self.tolerate(done, &["Writes have been stopped"])
            }
        }
    }

    fn compact(&mut self, engine: &mut Engine<'_>) -> Result<(), String> {
        let family = self.index(self.families.len());
        let Family {
            name, order, fixed, ..
        } = self.families[family].clone();
        let (mut from, mut to) = (None, None);
        if self.random.chance(2, 3) {
            let (mut first, mut last) = (self.key(order), self.key(order));
            if order.compare(&first, &last).is_gt() {
                std::mem::swap(&mut first, &mut last);
            }
            from = self.random.chance(4, 5).then_some(first);
            to = self.random.chance(4, 5).then_some(last);
        }
        let force = self.random.chance(1, 3);
        let level = (fixed.contains("num_levels=7") && self.random.chance(1, 6))
            .then(|| 1 + u32::try_from(self.random.below(6)).unwrap());
        self.note(&format!(
            "compact {name} {} {} force={force} level={level:?}",
            show_bound(&from),
            show_bound(&to)
        ));
        let done = match engine {
            Engine::Ours(ours) => ours.compact(&name, from.as_deref(), to.as_deref(), force, level),
            Engine::Theirs(rocks) => {
                let bound = |key: Option<Vec<u8>>| key.map_or("-".to_owned(), |key| hex(&key));
                let flags = if force { "f" } else { "-" };
                let level = level.map_or("-1".to_owned(), |level| level.to_string());
                rocks
                    .execute(&["compact", &name, &bound(from), &bound(to), flags, &level])
                    .map(drop)
            }
        };
        // The level cannot take the result.
        self.tolerate(done, &["level", "Level", "Incomplete"])
    }

    fn compact_files(&mut self, engine: &mut Engine<'_>) -> Result<(), String> {
        let family = self.index(self.families.len());
        let Family { name, fixed, .. } = self.families[family].clone();
        let level = match fixed.contains("num_levels=1;") {
            true => 0,
            false => 1 + u32::try_from(self.random.below(3)).unwrap(),
        };
        let pick = self.random.draw();
        self.note(&format!("compact_files {name} {level} {pick}"));
        let done = match engine {
            Engine::Ours(ours) => ours.compact_files(&name, level, pick),
            Engine::Theirs(rocks) => rocks
                .execute(&[
                    "compact_files",
                    &name,
                    &level.to_string(),
                    &(pick % 65_536).to_string(),
                ])
                .map(drop),
        };
        // Files of a background compaction, a level above an input, or another error without
        // damage.
        match done {
            Err(error) if !error.contains("orruption") => {
                self.note(&format!("  {error}"));
                Ok(())
            }
            other => other,
        }
    }

    fn tolerate(&mut self, done: Result<(), String>, words: &[&str]) -> Result<(), String> {
        match done {
            Err(error) if words.iter().any(|word| error.contains(word)) => {
                self.note(&format!("  {error}"));
                Ok(())
            }
            other => other,
        }
    }

    fn snapshot(&mut self, engine: &mut Engine<'_>) -> Result<(), String> {
        self.note("snapshot");
        self.snapshots.push(self.families.clone());
        match engine {
            Engine::Ours(ours) => ours.snapshots.push(ours.db.snapshot()),
            Engine::Theirs(rocks) => drop(rocks.execute(&["snapshot"])?),
        }
        Ok(())
    }

    fn release(&mut self, engine: &mut Engine<'_>) -> Result<(), String> {
        if self.snapshots.is_empty() {
            return Ok(());
        }
        let index = self.index(self.snapshots.len());
        self.note(&format!("release {index}"));
        self.snapshots.remove(index);
        match engine {
            Engine::Ours(ours) => drop(ours.snapshots.remove(index)),
            Engine::Theirs(rocks) => drop(rocks.execute(&["release", &index.to_string()])?),
        }
        Ok(())
    }

    /// Reads a column family in its current state or at a snapshot.
    fn read(&mut self, engine: &mut Engine<'_>) -> Result<(), String> {
        let mut seen = self.families.clone();
        let mut snapshot = None;
        if !self.snapshots.is_empty() && self.random.chance(2, 3) {
            let index = self.index(self.snapshots.len());
            snapshot = Some(index);
            // Column families that existed then and exist now.
            seen = self.snapshots[index].clone();
            seen.retain(|then| self.families.iter().any(|now| now.id == then.id));
        }
        if seen.is_empty() {
            return Ok(());
        }
        let family = &seen[self.index(seen.len())];
        self.note(&format!("read {} at {snapshot:?}", family.name));
        let found = engine.dump(&family.name, snapshot)?;
        let who = if engine.is_ours() {
            "KoelDB"
        } else {
            "RocksDB"
        };
        agree(
            &family.name,
            &format!("{who}, in its turn: the scan"),
            &family.scan(),
            &found,
        )
    }

    fn create_or_drop(&mut self, engine: &mut Engine<'_>) -> Result<(), String> {
        if self.fixed.contains("atomic_flush") {
            // Only RocksDB opens these, and it rejects those with recreated column families.
            return Ok(());
        }
        let name = NAMES[self.index(NAMES.len())];
        let existing = self.families.iter().position(|family| family.name == name);
        if let Some(index) = existing {
            self.note(&format!("drop {name}"));
            self.families.remove(index);
            self.latest.families.remove(name);
            return match engine {
                Engine::Ours(ours) => ours.drop_family(name),
                Engine::Theirs(rocks) => rocks.execute(&["drop", name]).map(drop),
            };
        }
        let mut family = self.draw_family(name, 0);
        let before = self.orders.insert(name.to_owned(), family.order);
        self.is_remade |= before.is_some_and(|order| order != family.order);
        let text = self.family_text(&family);
        self.note(&format!("create {name} {:?} {text}", family.order));
        family.id = match engine {
            Engine::Ours(ours) => ours.create(name, family.order, &text)?,
            Engine::Theirs(rocks) => {
                let answer = rocks.execute(&["create", name, family.order.name(), &text])?;
                answer[0].parse().unwrap()
            }
        };
        self.families.push(family);
        self.latest.families.insert(name.to_owned(), text);
        Ok(())
    }

    fn set_options(&mut self, engine: &mut Engine<'_>) -> Result<(), String> {
        let family = self.index(self.families.len());
        let name = self.families[family].name.clone();
        let text = options::mutable(&mut self.random);
        self.note(&format!("set {name} {text}"));
        match engine {
            Engine::Ours(ours) => ours.set_options(&name, &text),
            Engine::Theirs(rocks) => rocks.execute(&["set", &name, &text]).map(drop),
        }
    }

    fn ingest(&mut self, engine: &mut Engine<'_>) -> Result<(), String> {
        let Engine::Theirs(rocks) = engine else {
            return Ok(());
        };
        let family = self.index(self.families.len());
        let Family {
            name, order, merge, ..
        } = self.families[family].clone();
        let mut changes = std::collections::BTreeMap::new();
        for _ in 0..=self.random.below(30) {
            let key = self.key(order);
            let change = match self.random.below(6) {
                0 => Change::Delete(key.clone()),
                1 if merge == Merge::Append => Change::Merge(key.clone(), b"ingested".to_vec()),
                _ => Change::Put(key.clone(), self.value(merge)),
            };
            changes.insert(key, change);
        }
        let mut changes: Vec<(Vec<u8>, Change)> = changes.into_iter().collect();
        changes.sort_by(|left, right| order.compare(&left.0, &right.0));
        let file = self.base.join("ingested.sst").display().to_string();
        let flags = if self.random.chance(1, 2) { "m" } else { "-" };
        let mut fields = vec!["ingest".to_owned(), name, flags.to_owned(), file];
        let mut shown = Vec::new();
        for (_, change) in changes {
            self.families[family].apply(&change);
            match &change {
                Change::Put(key, value) => fields.extend(["p".to_owned(), hex(key), hex(value)]),
                Change::Merge(key, value) => fields.extend(["m".to_owned(), hex(key), hex(value)]),
                Change::Delete(key) => fields.extend(["d".to_owned(), hex(key), String::new()]),
                _ => unreachable!("no other change is drawn"),
            }
            shown.push((self.families[family].id, change));
        }
        self.note(&format!("ingest {}", show(&shown)));
        let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
        rocks.execute(&fields).map(drop)
    }

    fn step(&mut self, engine: &mut Engine<'_>) -> Result<(), String> {
        self.figures.operations.fetch_add(1, Ordering::Relaxed);
        match self.random.below(100) {
            0..52 => self.write(engine),
            52..62 => self.flush(engine),
            62..69 => self.compact(engine),
            69..72 => self.compact_files(engine),
            72..79 => self.snapshot(engine),
            79..84 => self.release(engine),
            84..87 => self.create_or_drop(engine),
            87..89 => self.set_options(engine),
            89..92 => self.ingest(engine),
            92..94 => {
                let sync = self.random.chance(1, 2);
                self.note(&format!("flush_wal {sync}"));
                match engine {
                    Engine::Ours(ours) => ours.flush_wal(sync),
                    Engine::Theirs(rocks) => rocks
                        .execute(&["flush_wal", if sync { "1" } else { "0" }])
                        .map(drop),
                }
            }
            94..96 => {
                let pause = Duration::from_millis(self.random.below(20));
                self.note(&format!("sleep {pause:?}"));
                SystemClock.sleep(pause);
                Ok(())
            }
            _ => self.read(engine),
        }
    }

    // Turns.

    fn their_turn(&mut self, rocks: &mut RocksDb, is_new: bool) -> Result<(), String> {
        let seen_here = match is_new || !self.random.chance(1, 2) && !self.may_lose {
            true => None,
            false => self.look_on()?,
        };
        self.open_theirs(rocks, is_new)?;
        let mut engine = Engine::Theirs(rocks);
        let dump = engine.dump_all(&self.families)?;
        if let Some(seen) = &seen_here {
            Self::same("after a turn of KoelDB, KoelDB: the scan", &dump, seen)?;
        }
        self.judge("after a turn of KoelDB, RocksDB: the scan", &dump)?;
        if let Engine::Theirs(rocks) = &mut engine {
            rocks.execute(&["verify"])?;
        }
        for _ in 0..10 + self.random.below(40) {
            self.step(&mut engine)?;
        }
        self.snapshots.clear();
        let Engine::Theirs(rocks) = engine else {
            unreachable!("the engine stays the same")
        };
        if !self.random.chance(2, 5) {
            self.note("RocksDB closes");
            let avoids_flush = self
                .latest
                .database
                .contains("avoid_flush_during_shutdown=true")
                || self.latest.as_written;
            self.may_lose &= avoids_flush;
            rocks.execute(&["close"])?;
            if self.may_lose {
                self.look_by_both("after a close of RocksDB", rocks)?;
            }
            return Ok(());
        }
        // Killed, possibly during a write.
        if self.random.chance(1, 2) {
            let before = self.families.clone();
            let batch = self.batch();
            self.note(&format!("RocksDB is killed in write {}", show(&batch)));
            rocks.send(&["write", "-", &hex(&encode(&batch))]);
            self.in_flight = Some(std::mem::replace(&mut self.families, before));
            SystemClock.sleep(Duration::from_micros(self.random.below(2000)));
        } else {
            self.note("RocksDB is killed");
        }
        rocks.kill();
        self.figures.kills.fetch_add(1, Ordering::Relaxed);
        self.may_lose |=
            self.latest.database.contains("manual_wal_flush=true") || self.latest.as_written;
        self.look_by_both("after RocksDB was killed", rocks)
    }

    fn our_turn(&mut self) -> Result<(), String> {
        let mut how = How::default();
        if self.random.chance(1, 2) {
            how.database = options::redrawn_database(&mut self.random);
            for index in 0..self.families.len() {
                let family = self.families[index].clone();
                let text = self.family_text(&family);
                how.families.insert(family.name, text);
            }
        }
        let Some(ours) = self.open_ours(&how)? else {
            return Ok(());
        };
        let options = ours.db.options();
        let loses_at_close = options.get_avoid_flush_during_shutdown();
        let loses_without_close = options.get_manual_wal_flush();
        let mut engine = Engine::Ours(ours);
        let dump = engine.dump_all(&self.families)?;
        self.judge("after a turn of RocksDB, KoelDB: the scan", &dump)?;
        for _ in 0..self.random.below(40) {
            self.step(&mut engine)?;
        }
        self.snapshots.clear();
        let Engine::Ours(ours) = engine else {
            unreachable!("the engine stays the same")
        };
        if self.random.chance(1, 2) {
            ours.verify()?;
        }
        if self.random.chance(2, 3) {
            self.note("KoelDB closes");
            self.may_lose &= loses_at_close;
            ours.close()
        } else {
            self.note("KoelDB is dropped");
            self.may_lose |= loses_without_close;
            drop(ours);
            Ok(())
        }
    }

    fn run(&mut self, rocks: &mut RocksDb) -> Result<(), String> {
        let default = self.draw_family("default", 0);
        self.families.push(default);
        self.their_turn(rocks, true)?;
        for _ in 0..1 + self.random.below(3) {
            self.our_turn()?;
            self.their_turn(rocks, false)?;
            self.figures.turns.fetch_add(2, Ordering::Relaxed);
        }
        Ok(())
    }
}

fn show_bound(key: &Option<Vec<u8>>) -> String {
    key.as_ref()
        .map_or("-".to_owned(), |key| key.escape_ascii().to_string())
}

fn show(changes: &[(u32, Change)]) -> String {
    let mut text = String::new();
    for (family, change) in changes {
        let _ = match change {
            Change::Put(key, value) => {
                write!(text, "{family}:put {} {};", key.escape_ascii(), value.len())
            }
            Change::Delete(key) => write!(text, "{family}:delete {};", key.escape_ascii()),
            Change::SingleDelete(key) => {
                write!(text, "{family}:single_delete {};", key.escape_ascii())
            }
            Change::Merge(key, _) => write!(text, "{family}:merge {};", key.escape_ascii()),
            Change::DeleteRange(from, to) => write!(
                text,
                "{family}:delete_range {}..{};",
                from.escape_ascii(),
                to.escape_ascii()
            ),
            Change::PutEntity(key, _) => write!(text, "{family}:entity {};", key.escape_ascii()),
        };
    }
    text
}

fn copy_tree(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Runs the history of a seed; returns its failure, and then keeps the directory.
fn run(seed: u64, rocks: &mut RocksDb, figures: &Figures, is_verbose: bool) -> Result<(), String> {
    let name = format!("koeldb-history-{}-{seed}", std::process::id());
    let base = std::env::temp_dir().join(name);
    let mut history = History {
        random: Random::new(mix(seed)),
        db: base.join("db"),
        fixed: "create_if_missing=true;".to_owned(),
        fixed_of_families: String::new(),
        base: base.clone(),
        families: Vec::new(),
        snapshots: Vec::new(),
        may_lose: false,
        in_flight: None,
        latest: Latest::default(),
        is_remade: false,
        orders: BTreeMap::new(),
        trace: String::new(),
        is_verbose,
        figures,
    };
    std::fs::create_dir_all(&base).unwrap();
    if history.random.chance(1, 40) {
        history.fixed.push_str("atomic_flush=true;");
    } else if history.random.chance(1, 20) {
        history.fixed_of_families = options::BLOBS.to_owned();
    }
    if history.random.chance(1, 5) {
        let logs = base.join("logs");
        std::fs::create_dir_all(&logs).unwrap();
        history
            .fixed
            .push_str(&format!("wal_dir={};", logs.display()));
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
                "history {seed}: {error}; kept in {}",
                base.display()
            ))
        }
    }
}

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect("a number"))
}

#[test]
fn rocksdb_and_we_agree_on_random_histories() {
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
                            Err(error) if error.contains(HANGS) => {
                                figures.unanswered.fetch_add(1, Ordering::Relaxed);
                            }
                            Err(error) => {
                                eprintln!("{error}");
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
            ("refusals", figure(&figures.refusals)),
            ("entries", figure(&figures.entries)),
            ("unanswered", figure(&figures.unanswered)),
        ],
        seconds: (SystemClock.now() - begun).as_secs_f64(),
        failures: failures.len() as u64,
    }
    .finish("histories", count);
    let unanswered = figure(&figures.unanswered);
    assert!(
        unanswered * 10 <= count.max(10),
        "RocksDB leaves {unanswered} of {count} histories unfinished"
    );
}
