//! Prepared transactions that one engine leaves and one of them settles.

use std::sync::atomic::Ordering;

use super::draw::show;
use super::model::{Change, Family, Order, encode};
use super::ours::Ours;
use super::theirs::{RocksDb, hex};
use super::{Engine, History, Prepared, options};

/// The default write policy of a `TransactionDB`.
pub(super) const WRITE_COMMITTED: &str = "WRITE_COMMITTED";

impl History<'_> {
    /// Opens the directory in RocksDB as a `TransactionDB` of a write policy.
    ///
    /// `queues` are options that replace drawn ones.
    pub(super) fn open_for_transactions(
        &mut self,
        rocks: &mut RocksDb,
        policy: &'static str,
        queues: &str,
    ) -> Result<(), String> {
        self.latest.as_written = false;
        self.latest.for_transactions = true;
        self.latest.policy = policy;
        self.latest.database = options::transactional(&mut self.random, &self.fixed);
        self.latest.database.push_str(queues);
        for index in 0..self.families.len() {
            let family = self.families[index].clone();
            let text = self.family_text(&family);
            self.latest.families.insert(family.name, text);
        }
        self.reopen_theirs(rocks)
    }

    /// Leaves transactions that RocksDB prepared and did not settle.
    pub(super) fn leave_prepared(&mut self, rocks: &mut RocksDb) -> Result<(), String> {
        self.open_for_transactions(rocks, WRITE_COMMITTED, "")?;
        for (name, puts) in self.draw_prepared() {
            let mut command = vec!["prepare".to_owned(), name];
            for Prepared { family, key, value } in &puts {
                command.extend([family.clone(), hex(key), hex(value)]);
            }
            self.note(&command.join(" "));
            let command: Vec<&str> = command.iter().map(String::as_str).collect();
            rocks.execute(&command)?;
            self.prepared.extend(puts);
        }
        if self.random.chance(1, 2) {
            self.flush_theirs(rocks)?;
        }
        match self.random.chance(1, 2) {
            true => rocks.execute(&["close"]).map(drop)?,
            false => rocks.kill(),
        }
        self.note("RocksDB leaves prepared transactions");
        self.figures.transactions.fetch_add(1, Ordering::Relaxed);
        self.look_by_both("with prepared transactions", rocks)
    }

    pub(super) fn flush_theirs(&mut self, rocks: &mut RocksDb) -> Result<(), String> {
        let names: Vec<String> = self.families.iter().map(|f| f.name.clone()).collect();
        self.note(&format!("flush {names:?}"));
        let mut command = vec!["flush", "1"];
        command.extend(names.iter().map(String::as_str));
        rocks.execute(&command).map(drop)
    }

    /// Draws transactions of puts, each with a name.
    fn draw_prepared(&mut self) -> Vec<(String, Vec<Prepared>)> {
        let mut drawn: Vec<(String, Vec<Prepared>)> = Vec::new();
        for number in 0..=self.random.below(2) {
            let mut puts: Vec<Prepared> = Vec::new();
            for _ in 0..=self.random.below(3) {
                let family = self.random.index(self.families.len());
                let Family {
                    name,
                    order,
                    merge,
                    format,
                    ..
                } = self.families[family].clone();
                // RocksDB's Java library has no transactions with timestamps.
                if order.is_dated() {
                    continue;
                }
                // The keys of one transaction are locked for the others.
                let key = self.key(order, format);
                let is_taken = |prepared: &Prepared| {
                    prepared.family == name
                        && order.canonical(&prepared.key) == order.canonical(&key)
                };
                let mut earlier = drawn.iter().flat_map(|(_, puts)| puts).chain(&puts);
                if earlier.any(is_taken) {
                    continue;
                }
                let value = self.value(merge, format);
                puts.push(Prepared {
                    family: name,
                    key,
                    value,
                });
            }
            if !puts.is_empty() {
                drawn.push((format!("transaction{number}"), puts));
            }
        }
        drawn
    }

    /// Opens the directory in KoelDB for transactions; `None` if it refuses that.
    pub(super) fn open_ours_for_transactions(&mut self) -> Result<Option<Ours>, String> {
        // Equal keys of different bytes have different locks.
        if self
            .families
            .iter()
            .any(|family| family.order == Order::NoCase)
        {
            return Ok(None);
        }
        let mut how = self.how();
        how.transactions = true;
        // A kill must not lose what was prepared, and these writes are not in order.
        how.database += "unordered_write=false;manual_wal_flush=false;";
        self.open_ours(&how)
    }

    /// Leaves transactions that KoelDB prepared and did not settle.
    pub(super) fn leave_prepared_by_ours(&mut self, rocks: &mut RocksDb) -> Result<(), String> {
        if self.may_lose || self.is_remade {
            return Ok(());
        }
        let Some(ours) = self.open_ours_for_transactions()? else {
            return Ok(());
        };
        for (name, puts) in self.draw_prepared() {
            self.note(&format!("KoelDB prepares {name}, {} puts", puts.len()));
            ours.prepare(
                &name,
                puts.iter()
                    .map(|put| (&put.family[..], &put.key[..], &put.value[..])),
            )?;
            self.prepared.extend(puts);
        }
        if self.random.chance(1, 2) {
            let batch = self.unlocked_batch();
            self.note(&format!("write {}", show(&batch)));
            ours.write(&encode(&batch), false, false)?;
        }
        if self.random.chance(1, 2) {
            let names: Vec<String> = self.families.iter().map(|f| f.name.clone()).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            ours.flush(&names, true)?;
        }
        match self.random.chance(1, 2) {
            true => ours.close()?,
            false => drop(ours),
        }
        self.note("KoelDB leaves prepared transactions");
        self.figures.transactions.fetch_add(1, Ordering::Relaxed);
        // RocksDB recovers them only where it opens for transactions.
        let dump = self.look_on()?;
        self.latest.for_transactions = true;
        self.latest.policy = WRITE_COMMITTED;
        self.latest.as_written = false;
        self.latest.database = options::transactional(&mut self.random, &self.fixed);
        for index in 0..self.families.len() {
            let family = self.families[index].clone();
            let text = self.family_text(&family);
            self.latest.families.insert(family.name, text);
        }
        let theirs = self.look_by_theirs(rocks)?;
        for (engine, dump) in [("KoelDB", dump), ("RocksDB", theirs)] {
            if let Some(dump) = dump {
                self.judge(
                    &format!("with our prepared transactions, {engine}: the scan"),
                    &dump,
                )?;
            }
        }
        Ok(())
    }

    /// Draws puts of keys that no prepared transaction locks, and applies them to the model.
    fn unlocked_batch(&mut self) -> Vec<(u32, Change)> {
        let mut batch = Vec::new();
        for _ in 0..10 {
            let family = self.random.index(self.families.len());
            let Family {
                name,
                id,
                order,
                merge,
                format,
                ..
            } = self.families[family].clone();
            if order.is_dated() {
                continue;
            }
            let key = self.key(order, format);
            let is_locked = |put: &Prepared| {
                put.family == name && order.canonical(&put.key) == order.canonical(&key)
            };
            if self.prepared.iter().any(is_locked) {
                continue;
            }
            let change = Change::Put(key, self.value(merge, format));
            self.families[family].apply(&change);
            batch.push((id, change));
        }
        batch
    }

    /// Applies the puts of the prepared transactions to the model, if they were committed.
    fn apply_prepared(&mut self, commits: bool) {
        for prepared in std::mem::take(&mut self.prepared) {
            let mut families = self.families.iter_mut();
            let family = families.find(|family| family.name == prepared.family);
            if let Some(family) = family.filter(|_| commits) {
                family.apply(&Change::Put(prepared.key, prepared.value));
            }
        }
    }

    /// Commits or rolls back what was prepared, in one of the engines.
    pub(super) fn settle(&mut self, rocks: &mut RocksDb) -> Result<(), String> {
        let commits = self.random.chance(2, 3);
        if self.random.chance(1, 2)
            && let Some(ours) = self.open_ours_for_transactions()?
        {
            self.note(&format!("KoelDB settles: commit {commits}"));
            ours.settle(commits)?;
            self.apply_prepared(commits);
            // So that the flush below ends the log, which RocksDB opens only for transactions.
            let batch = self.unlocked_batch();
            self.note(&format!("write {}", show(&batch)));
            ours.write(&encode(&batch), false, false)?;
            let mut engine = Engine::Ours(ours);
            let dump = engine.dump_all(&self.families)?;
            self.judge("after KoelDB settled transactions: the scan", &dump)?;
            // An open of RocksDB that is not for transactions skips logs of prepared sections.
            let names: Vec<String> = self.families.iter().map(|f| f.name.clone()).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            if let Engine::Ours(ours) = engine {
                ours.flush(&names, true)?;
                ours.close()?;
            }
            return Ok(());
        }
        self.open_for_transactions(rocks, WRITE_COMMITTED, "")?;
        self.note(&format!("settle: commit {commits}"));
        rocks.execute(&["resolve", if commits { "1" } else { "0" }])?;
        self.apply_prepared(commits);
        let dump = Engine::Theirs(rocks).dump_all(&self.families)?;
        self.judge("after transactions were settled: the scan", &dump)?;
        // An open that is not for transactions skips logs of prepared sections that were committed.
        self.flush_theirs(rocks)?;
        rocks.execute(&["close"]).map(drop)
    }
}
