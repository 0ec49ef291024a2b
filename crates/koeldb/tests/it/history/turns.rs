//! Turns of the engines, and hand-overs between them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use koeldb::fs::{Clock, SystemClock};

use super::child::{self, Operation};
use super::draw::show;
use super::model::{Dump, Format, Order, encode};
use super::ours::{How, Ours, agree};
use super::theirs::{REFUSES_ITS_OWN, RocksDb, hex};
use super::{Engine, History, options};

/// Parts of the messages of permitted open failures in KoelDB.
const REFUSALS: &[&str] = &[
    "is prepared and neither committed nor rolled back",
    "the batch belongs to a two-phase transaction",
];

impl History<'_> {
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
        // Its Java library knows no other objects by what an OPTIONS file says.
        let mut families = self.families.iter();
        let only_built_in =
            families.all(|f| f.order.is_found_by_name() && f.format == Format::BlockBased);
        self.latest.as_written = !is_new && only_built_in && self.random.chance(1, 3);
        self.latest.database = options::database(&mut self.random, &self.fixed);
        self.latest.families = BTreeMap::new();
        for index in 0..self.families.len() {
            let family = self.families[index].clone();
            let text = self.family_text(&family);
            self.latest.families.insert(family.name, text);
        }
        self.latest.for_transactions = false;
        match self.reopen_theirs(rocks) {
            // A MANIFEST started by KoelDB has only the remaining column families.
            Err(error) if self.is_refusal_of_remade(&error) => {
                if let Some(ours) = self.open_ours(&self.how())? {
                    ours.close()?;
                }
                self.is_remade = false;
                self.reopen_theirs(rocks)
            }
            other => other,
        }
    }

    /// Reopens the directory in RocksDB with the same options.
    pub(super) fn reopen_theirs(&mut self, rocks: &mut RocksDb) -> Result<(), String> {
        let dir = self.db.display().to_string();
        let latest = self.latest.clone();
        let mode = match (latest.as_written, latest.for_transactions) {
            (true, _) => "latest",
            (_, true) => latest.policy,
            _ => "strings",
        };
        let mut command = vec!["open".to_owned(), mode.to_owned(), dir];
        if !latest.as_written {
            command.push(latest.database);
        }
        for family in self.families.iter().filter(|_| !latest.as_written) {
            let text = latest.families[&family.name].clone();
            command.extend([family.name.clone(), family.order.name().to_owned(), text]);
        }
        self.note(&format!("RocksDB: {}", command.join(" ")));
        self.forget_moments();
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        let is_theirs = std::mem::take(&mut self.is_theirs);
        let ids = rocks.execute(&command).map_err(|error| {
            // The second after a write policy with one number a batch.
            let is_own = error.contains("data beyond the point of corruption")
                || error.contains("Sequence number is being set backwards");
            match is_theirs && is_own {
                true => format!("{REFUSES_ITS_OWN}: {error}"),
                false => error,
            }
        })?;
        self.is_theirs = true;
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
    pub(super) fn open_ours(&mut self, how: &How) -> Result<Option<Ours>, String> {
        self.note(&format!("KoelDB opens: {how:?}"));
        self.forget_moments();
        let ours = match Ours::open(&self.db, how) {
            Ok(ours) => ours,
            Err(error) if self.is_permitted(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let blob_files = &ours.db.recovery_report().blob_files_written;
        self.figures
            .blob_files
            .fetch_add(blob_files.len() as u64, Ordering::Relaxed);
        let mut found = ours.names();
        found.sort();
        let mut names: Vec<String> = self.families.iter().map(|f| f.name.clone()).collect();
        names.sort();
        if found != names {
            return Err(format!("KoelDB opened {found:?}, not {names:?}"));
        }
        self.is_theirs &= how.read_only;
        Ok(Some(ours))
    }

    /// Returns the parameters of an open with the options of the OPTIONS file.
    pub(super) fn how(&self) -> How {
        let families = self.families.iter();
        let ignoring = families.filter(|family| family.order == Order::NoCase);
        How {
            // RocksDB sets it where it opens for transactions.
            database: "allow_2pc=false;".to_owned(),
            ignoring_case: ignoring.map(|family| family.name.clone()).collect(),
            ..How::default()
        }
    }

    /// Draws the parameters of an open of KoelDB.
    fn draw_how(&mut self) -> How {
        let mut how = self.how();
        if self.random.chance(1, 2) {
            how.database += &options::redrawn_database(&mut self.random);
            for index in 0..self.families.len() {
                let family = self.families[index].clone();
                let text = self.family_text(&family);
                how.families.insert(family.name, text);
            }
        }
        how
    }

    /// Dumps the directory without changing it, by a read-only open in KoelDB.
    pub(super) fn look_on(&mut self) -> Result<Option<Dump>, String> {
        let how = How {
            read_only: true,
            ..self.how()
        };
        let ours = self.open_ours(&how)?;
        let dump = ours.map(|ours| Engine::Ours(ours).dump_all(&self.families));
        dump.transpose()
    }

    /// Whether RocksDB rejected an open because of a recreated column family.
    pub(super) fn is_refusal_of_remade(&mut self, error: &str) -> bool {
        let is_comparator = error.contains("does not match existing comparator")
            || error.contains("user-defined timestamps feature");
        let is_expected = self.is_remade && is_comparator;
        if is_expected {
            self.note(&format!("  {error}"));
        }
        is_expected
    }

    /// Dumps the directory by an open in RocksDB, and restores it.
    pub(super) fn look_by_theirs(&mut self, rocks: &mut RocksDb) -> Result<Option<Dump>, String> {
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
    pub(super) fn look_by_both(&mut self, what: &str, rocks: &mut RocksDb) -> Result<(), String> {
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
            // It cannot verify other tables.
            let mut families = self.families.iter();
            if families.all(|family| family.format == Format::BlockBased) {
                rocks.execute(&["verify"])?;
            }
        }
        for _ in 0..10 + self.random.below(40) {
            self.step(&mut engine)?;
        }
        self.snapshots.clear();
        self.secondary = None;
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

    pub(super) fn our_turn(&mut self, rocks: &mut RocksDb) -> Result<(), String> {
        let how = self.draw_how();
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
        if self.random.chance(1, 3) {
            self.look_by_their_secondary(&ours, rocks)?;
        }
        if self.random.chance(2, 3) {
            self.note("KoelDB closes");
            self.may_lose &= loses_at_close;
            ours.close()?;
        } else {
            self.note("KoelDB is dropped");
            self.may_lose |= loses_without_close;
            drop(ours);
        }
        self.look_at_copies_by_theirs(rocks)
    }

    /// Runs KoelDB in a process of its own, which is killed while it writes; RocksDB takes over.
    fn our_killed_turn(&mut self, rocks: &mut RocksDb) -> Result<(), String> {
        let how = self.draw_how();
        let mut operations = Vec::new();
        // The families after each operation.
        let mut states = vec![self.families.clone()];
        for _ in 0..5 + self.random.below(40) {
            let index = self.random.index(self.families.len());
            let family = self.families[index].name.clone();
            let operation = match self.random.below(10) {
                0 => Operation::Flush {
                    family,
                    wait: self.random.chance(1, 2),
                },
                1 => Operation::Compact { family },
                _ => Operation::Write {
                    batch: encode(&self.batch()),
                    sync: self.random.chance(1, 8),
                },
            };
            operations.push(operation);
            states.push(self.families.clone());
        }
        let count = self.random.index(operations.len());
        let pause = Duration::from_micros(self.random.below(3000));
        self.note(&format!("KoelDB in a process: {how:?} {operations:x?}"));
        let path = self.base.join("script");
        let answers = child::run_and_kill(&path, (&self.db, &how), &operations, (count, pause));
        self.note(&format!("KoelDB is killed: {answers:?}"));
        self.families = states[answers.done].clone();
        self.in_flight = states.get(answers.done + 1).cloned();
        self.figures.our_kills.fetch_add(1, Ordering::Relaxed);
        match answers.error {
            None => {}
            Some(error) if self.is_permitted(&error) => {
                self.in_flight = None;
                return Ok(());
            }
            Some(error) => return Err(error),
        }
        self.is_theirs = false;
        self.may_lose |= answers.keeps_log_in_memory;
        self.look_by_both("after KoelDB was killed", rocks)
    }

    /// Whether KoelDB may refuse the directory for this reason.
    pub(super) fn is_permitted(&mut self, error: &str) -> bool {
        let is_permitted = REFUSALS.iter().any(|reason| error.contains(reason));
        if is_permitted {
            self.note(&format!("  {error}"));
            self.figures.refusals.fetch_add(1, Ordering::Relaxed);
        }
        is_permitted
    }

    pub(super) fn run(&mut self, rocks: &mut RocksDb) -> Result<(), String> {
        let default = self.draw_family("default", 0);
        self.families.push(default);
        self.their_turn(rocks, true)?;
        for _ in 0..1 + self.random.below(3) {
            if self.random.chance(1, 3) {
                self.turn_of_policy(rocks)?;
            }
            if !self.is_remade && self.random.chance(1, 10) {
                self.leave_prepared(rocks)?;
            }
            match self.random.chance(1, 4) {
                true => self.our_killed_turn(rocks)?,
                false => self.our_turn(rocks)?,
            }
            if self.prepared.is_empty() && self.random.chance(1, 8) {
                self.leave_prepared_by_ours(rocks)?;
            }
            if !self.prepared.is_empty() {
                self.settle(rocks)?;
            }
            self.their_turn(rocks, false)?;
            self.figures.turns.fetch_add(2, Ordering::Relaxed);
        }
        Ok(())
    }
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
