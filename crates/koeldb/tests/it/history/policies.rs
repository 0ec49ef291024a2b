//! Turns of RocksDB as a `TransactionDB` of one of its write policies.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::Ordering;

use super::draw::show;
use super::model::{Change, Family, Format, Merge, encode};
use super::theirs::{REFUSES_ITS_OWN, RocksDb, hex};
use super::transactions::WRITE_COMMITTED;
use super::{Engine, History, options};

const POLICIES: [&str; 3] = ["WRITE_PREPARED", "WRITE_UNPREPARED", WRITE_COMMITTED];

/// A prepared transaction: its name, and changes by the index of their column family.
type Undecided = (String, Vec<(usize, Change)>);

/// The data files of a directory with their sizes.
fn files(dir: &Path) -> BTreeSet<(String, u64)> {
    let entries = std::fs::read_dir(dir).unwrap().map(Result::unwrap);
    let files = entries.map(|entry| {
        let name = entry.file_name().into_string().unwrap();
        (name, entry.metadata().unwrap().len())
    });
    files.filter(|(name, _)| !name.starts_with("LOG")).collect()
}

impl History<'_> {
    /// Runs a turn of RocksDB under a write policy, then one of KoelDB; or nothing.
    ///
    /// The policies other than write-committed have one sequence number for each batch.
    pub(super) fn turn_of_policy(&mut self, rocks: &mut RocksDb) -> Result<(), String> {
        // RocksDB has timestamps under one policy alone, and there its Java library cannot write them.
        let can_be_written = |family: &Family| {
            let order = family.order;
            order.is_found_by_name() && !order.is_dated() && family.format == Format::BlockBased
        };
        let can_all_be_written = self.families.iter().all(can_be_written);
        if self.is_remade || self.may_lose || !self.prepared.is_empty() || !can_all_be_written {
            return Ok(());
        }
        // RocksDB changes between policies only with empty logs.
        self.open_for_transactions(rocks, WRITE_COMMITTED, "")?;
        self.flush_theirs(rocks)?;
        rocks.execute(&["close"])?;
        let policy = POLICIES[self.random.index(POLICIES.len())];
        let queues = options::queues_of_policy(&mut self.random);
        self.open_for_transactions(rocks, policy, queues)?;
        let dump = Engine::Theirs(rocks).dump_all(&self.families)?;
        self.judge("at the begin of a policy: the scan", &dump)?;
        let undecided = self.steps_of_policy(rocks)?;
        self.figures.policies.fetch_add(1, Ordering::Relaxed);
        if undecided.is_empty() {
            self.end_policy(rocks)?;
        } else {
            self.note(&format!("RocksDB leaves {} undecided", undecided.len()));
            match self.random.chance(1, 2) {
                true => rocks.execute(&["close"]).map(drop)?,
                false => rocks.kill(),
            }
            if policy == WRITE_COMMITTED {
                self.look_by_both("with undecided transactions", rocks)?;
            } else {
                self.is_refused_unchanged()?;
                if self.random.chance(2, 3) && self.decide_by_ours(&undecided)? {
                    self.latest.policy = WRITE_COMMITTED;
                    self.look_by_both("after KoelDB decided a policy", rocks)?;
                    return self.our_turn(rocks);
                }
            }
            self.reopen_theirs(rocks)?;
            let dump = Engine::Theirs(rocks).dump_all(&self.families)?;
            self.judge("with undecided transactions, RocksDB: the scan", &dump)?;
            for transaction in undecided {
                self.decide(transaction, rocks)?;
            }
            self.end_policy(rocks)?;
        }
        let latest = self.latest.clone();
        self.latest.policy = WRITE_COMMITTED;
        self.our_turn(rocks)?;
        if self.is_theirs {
            // KoelDB opened nothing, so that the logs are still those of the policy.
            self.latest = latest;
            self.reopen_theirs(rocks)?;
            self.flush_theirs(rocks)?;
            rocks.execute(&["close"])?;
        }
        Ok(())
    }

    /// Writes by batches and transactions; returns the transactions that are left undecided.
    fn steps_of_policy(&mut self, rocks: &mut RocksDb) -> Result<Vec<Undecided>, String> {
        let mut undecided: Vec<Undecided> = Vec::new();
        for step in 0..10 + self.random.below(40) {
            match self.random.below(12) {
                0 => {
                    let family = self.random.index(self.families.len());
                    let name = self.families[family].name.clone();
                    self.note(&format!("flush {name}"));
                    rocks.execute(&["flush", "1", &name])?;
                }
                1 => {
                    let family = self.random.index(self.families.len());
                    let name = self.families[family].name.clone();
                    self.note(&format!("compact {name}"));
                    rocks.execute(&["compact", &name, "-", "-", "-", "-1"])?;
                }
                2..5 if !undecided.is_empty() => {
                    let transaction = undecided.remove(self.random.index(undecided.len()));
                    self.decide(transaction, rocks)?;
                }
                5..9 => {
                    let changes = self.unlocked_changes(&undecided, true);
                    let of_family = |(family, change): &(usize, Change)| {
                        (self.families[*family].id, change.clone())
                    };
                    let batch: Vec<_> = changes.iter().map(of_family).collect();
                    self.note(&format!("write {}", show(&batch)));
                    rocks.execute(&["write", "-", &hex(&encode(&batch))])?;
                    self.apply_all(&changes);
                }
                _ => {
                    let is_prepared = self.random.chance(1, 2);
                    // Flushes and compactions of RocksDB apply operands of undecided transactions.
                    let merges = !is_prepared || self.latest.policy == WRITE_COMMITTED;
                    let changes = self.unlocked_changes(&undecided, merges);
                    let name = format!("policy{step}");
                    let mut command = vec!["transact".to_owned(), name.clone()];
                    command.push(if is_prepared { "prepare" } else { "commit" }.to_owned());
                    for (family, change) in &changes {
                        let (kind, key, value) = match change {
                            Change::Put(key, value) => ("p", key, &value[..]),
                            Change::Merge(key, value) => ("m", key, &value[..]),
                            Change::Delete(key) => ("d", key, &[][..]),
                            _ => unreachable!("not drawn"),
                        };
                        let family = self.families[*family].name.clone();
                        command.extend([family, kind.to_owned(), hex(key), hex(value)]);
                    }
                    self.note(&command.join(" "));
                    let command: Vec<&str> = command.iter().map(String::as_str).collect();
                    rocks.execute(&command)?;
                    match is_prepared {
                        true => undecided.push((name, changes)),
                        false => self.apply_all(&changes),
                    }
                }
            }
        }
        if !self.random.chance(1, 3) {
            for transaction in std::mem::take(&mut undecided) {
                self.decide(transaction, rocks)?;
            }
        }
        Ok(undecided)
    }

    fn apply_all(&mut self, changes: &[(usize, Change)]) {
        for (family, change) in changes {
            self.families[*family].apply(change);
        }
    }

    /// Draws changes of keys that no undecided transaction locks; keys may repeat.
    fn unlocked_changes(&mut self, undecided: &[Undecided], merges: bool) -> Vec<(usize, Change)> {
        let mut changes = Vec::new();
        for _ in 0..=self.random.below(6) {
            let family = self.random.index(self.families.len());
            let (order, merge) = (self.families[family].order, self.families[family].merge);
            let key = self.key(order, Format::BlockBased);
            let is_locked = |(locked, change): &(usize, Change)| match change {
                Change::Put(other, _) | Change::Merge(other, _) | Change::Delete(other) => {
                    *locked == family && *other == key
                }
                _ => false,
            };
            if undecided.iter().flat_map(|(_, all)| all).any(is_locked) {
                continue;
            }
            let change = match self.random.below(4) {
                0 => Change::Delete(key),
                1 if merges && merge == Merge::Add => {
                    Change::Merge(key, self.value(merge, Format::BlockBased))
                }
                1 if merges && merge != Merge::None => {
                    Change::Merge(key, format!("m{}", self.random.below(1000)).into_bytes())
                }
                _ => Change::Put(key, self.value(merge, Format::BlockBased)),
            };
            changes.push((family, change));
        }
        changes
    }

    fn decide(&mut self, transaction: Undecided, rocks: &mut RocksDb) -> Result<(), String> {
        let (name, changes) = transaction;
        let commits = self.random.chance(2, 3);
        self.note(&format!("decide {name}: commit {commits}"));
        let command = ["decide", &name, if commits { "1" } else { "0" }];
        rocks.execute(&command).map_err(|error| {
            // A rollback reads older values, and fails so on intact tables of RocksDB.
            match error.contains("bad entry in block") {
                true => format!("{REFUSES_ITS_OWN}: {error}"),
                false => error,
            }
        })?;
        if commits {
            self.apply_all(&changes);
        }
        // A rollback of RocksDB writes the older values of its keys as plain ones: entities lose their columns.
        for (family, _) in changes.iter().filter(|_| !commits) {
            self.families[*family].forget_columns();
        }
        Ok(())
    }

    /// Decides all transactions by KoelDB, which takes their entries out of the tables.
    ///
    /// `false` if it does not open the directory for transactions.
    fn decide_by_ours(&mut self, undecided: &[Undecided]) -> Result<bool, String> {
        let Some(ours) = self.open_ours_for_transactions()? else {
            return Ok(false);
        };
        let mut expected: Vec<&str> = undecided.iter().map(|(name, _)| &**name).collect();
        expected.sort_unstable();
        let mut found = ours.prepared();
        found.sort();
        if found != expected {
            return Err(format!(
                "KoelDB finds {found:?} undecided, not {expected:?}"
            ));
        }
        let mut engine = Engine::Ours(ours);
        let dump = engine.dump_all(&self.families)?;
        self.judge("with undecided transactions, KoelDB: the scan", &dump)?;
        let mut commits_of = Vec::new();
        for (name, changes) in undecided {
            let commits = self.random.chance(1, 2);
            self.note(&format!("KoelDB decides {name}: commit {commits}"));
            if let Engine::Ours(ours) = &engine {
                ours.decide(name, commits)?;
            }
            commits_of.push(commits);
            if commits {
                self.apply_all(changes);
            }
        }
        let dump = engine.dump_all(&self.families)?;
        self.judge("after KoelDB decided: the scan", &dump)?;
        let names: Vec<String> = self.families.iter().map(|f| f.name.clone()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        if let Engine::Ours(ours) = engine {
            if self.random.chance(1, 2) {
                let name = names[self.random.index(names.len())];
                ours.compact(name, None, None, true, None)?;
                let mut engine = Engine::Ours(ours);
                let dump = engine.dump_all(&self.families)?;
                self.judge("after KoelDB compacted: the scan", &dump)?;
                if let Engine::Ours(ours) = engine {
                    ours.flush(&names, true)?;
                    ours.close()?;
                }
            } else {
                ours.flush(&names, true)?;
                ours.close()?;
            }
        }
        self.figures
            .policies_decided
            .fetch_add(1, Ordering::Relaxed);
        Ok(true)
    }

    /// Closes or kills RocksDB after all transactions were decided.
    fn end_policy(&mut self, rocks: &mut RocksDb) -> Result<(), String> {
        let dump = Engine::Theirs(rocks).dump_all(&self.families)?;
        self.judge("at the end of a policy: the scan", &dump)?;
        // A close may leave unlogged changes only; there are none.
        match self.random.chance(1, 2) {
            true => {
                self.note("RocksDB closes");
                rocks.execute(&["close"])?;
            }
            false => {
                self.note("RocksDB is killed");
                rocks.kill();
                self.figures.kills.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.look_by_both("after a policy", rocks)
    }

    /// Checks that KoelDB refuses undecided transactions of a policy by its name, and changes
    /// nothing.
    fn is_refused_unchanged(&mut self) -> Result<(), String> {
        let before = files(&self.db);
        for read_only in [true, false] {
            let mut how = self.how();
            how.read_only = read_only;
            match self.open_ours(&how) {
                Err(error) if error.contains("write-prepared or write-unprepared") => {}
                Err(error) => return Err(format!("refused as {error}")),
                // Refused for a permitted reason, such as blob files, before the logs are read.
                Ok(None) => {}
                Ok(Some(_)) => {
                    return Err("undecided transactions of a policy are accepted".to_owned());
                }
            }
        }
        match files(&self.db) == before {
            true => Ok(()),
            false => Err("a refused directory changed".to_owned()),
        }
    }
}
