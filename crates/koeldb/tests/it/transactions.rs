//! Histories of list-append transactions under many threads and modes, checked for what the mode
//! promises.
//!
//! Transactions read lists and append unique numbers to them, in all modes, beside writers outside of
//! transactions, flushes, compactions, save points, rollbacks, expirations and prepared transactions.
//! The lists tell the order of writes (after Elle: Kingsbury and Alvaro, "Elle: inferring isolation
//! anomalies from experimental observations", 2020). `checker` finds the anomalies.

mod checker;
mod conflicts;
mod save_points;
mod scenarios;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use koeldb::fs::{FaultAction, FaultRule, Operation, Purpose};
use koeldb::{
    CompactRangeOptions, Db, ErrorKind, LockMode, ReadOptions, Result, StringAppend, Transaction,
    TransactionDbOptions, TransactionOptions, WriteBatch, WriteOptions,
};
use koeldb_testkit::{Floors, Random, Summary};

use crate::gate::gate;
use crate::prelude::in_memory;
use crate::storage::{HERE, Storage};
use checker::{Action, Event, History, Promise};

/// How the transactions of a history work.
#[derive(Clone, Copy, Debug)]
struct Mode {
    is_pessimistic: bool,
    promise: Promise,
    pipelined: bool,
    /// Whether writes skip the log, so that they may need no leader.
    unlogged: bool,
}

fn mode_of(seed: u64) -> Mode {
    Mode {
        is_pessimistic: seed & 1 == 1,
        promise: match seed >> 1 & 3 {
            0 | 1 => Promise::StrictSerializable,
            2 => Promise::Snapshot,
            _ => Promise::ReadCommitted,
        },
        pipelined: seed >> 3 & 1 == 1,
        unlogged: seed >> 4 & 3 == 3,
    }
}

fn open(mode: Mode) -> Db {
    let mut options = in_memory();
    options
        .set_enable_pipelined_write(mode.pipelined)
        .set_merge_operator(StringAppend::default());
    if mode.is_pessimistic {
        let mut locks = TransactionDbOptions::new();
        locks
            .set_transaction_lock_timeout(20)
            .set_default_lock_timeout(20);
        options.set_transactions(&locks);
    }
    Db::open(&options, "/histories").unwrap()
}

fn list_of(value: Option<&[u8]>) -> Vec<u64> {
    let text = std::str::from_utf8(value.unwrap_or_default()).unwrap();
    let numbers = text.split(',').filter(|number| !number.is_empty());
    numbers.map(|number| number.parse().unwrap()).collect()
}

/// One thread of a history.
struct Worker<'h> {
    db: &'h Db,
    mode: Mode,
    random: Random,
    clock: &'h AtomicU64,
    next_value: &'h AtomicU64,
    events: &'h Mutex<Vec<Event>>,
    keys: u64,
}

impl Worker<'_> {
    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    fn key(&mut self) -> u64 {
        self.random.below(self.keys)
    }

    fn write_options(&mut self) -> WriteOptions {
        let mut options = WriteOptions::new();
        if self.mode.unlogged {
            // Some are logged, between those without a leader.
            options.disable_wal(self.random.chance(9, 10));
        } else {
            options.set_sync(self.random.chance(1, 10));
        }
        options
    }

    fn value(&self) -> u64 {
        self.next_value.fetch_add(1, Ordering::Relaxed)
    }

    /// Reads a list, protected if the mode promises serializability.
    fn read(&mut self, transaction: &mut Transaction, key: u64) -> Result<Vec<u64>> {
        let name = key.to_string();
        let family = self.db.default_cf();
        let value = match self.mode.promise {
            Promise::StrictSerializable => {
                let shared = self.random.chance(1, 3);
                let mode = if shared {
                    LockMode::Shared
                } else {
                    LockMode::Exclusive
                };
                transaction.get_for_update_opt(family, &name, &ReadOptions::new(), mode)?
            }
            _ if self.random.chance(1, 3) => {
                let mut cursor = transaction.cursor();
                let found = cursor.seek(&name)? && cursor.key() == Some(name.as_bytes());
                return Ok(list_of(cursor.value().filter(|_| found)));
            }
            _ => transaction.get(&name)?,
        };
        Ok(list_of(value.as_deref()))
    }

    fn append(&mut self, transaction: &mut Transaction, key: u64, value: u64) -> Result<()> {
        let name = key.to_string();
        if self.random.chance(1, 2) || self.mode.promise == Promise::ReadCommitted {
            return transaction.merge(&name, value.to_string());
        }
        let mut list: Vec<String> = self
            .read(transaction, key)?
            .iter()
            .map(u64::to_string)
            .collect();
        list.push(value.to_string());
        transaction.put(&name, list.join(","))
    }

    /// The operations of a transaction; those that succeeded are in `actions`.
    fn body(&mut self, transaction: &mut Transaction, actions: &mut Vec<Action>) -> Result<()> {
        for _ in 0..1 + self.random.below(4) {
            if self.random.chance(1, 6) {
                std::thread::yield_now();
            }
            if self.random.chance(1, 16) {
                // It begins again at its snapshot, if it has one: nothing before was there.
                transaction.clear();
                actions.retain_mut(|action| match *action {
                    Action::Append(key, value) => {
                        *action = Action::Undone(key, value);
                        true
                    }
                    Action::Undone(..) => true,
                    _ => false,
                });
            }
            let key = self.key();
            match self.random.below(8) {
                0..3 => actions.push(Action::Read(key, self.read(transaction, key)?)),
                3 => {
                    // What follows a save point and is taken back was never there.
                    transaction.set_save_point();
                    let value = self.value();
                    self.append(transaction, key, value)?;
                    transaction.rollback_to_save_point()?;
                    actions.push(Action::Undone(key, value));
                }
                _ => {
                    let value = self.value();
                    // It may be in the batch although the call failed later.
                    self.append(transaction, key, value)?;
                    actions.push(Action::Append(key, value));
                }
            }
        }
        Ok(())
    }

    fn finish(&mut self, transaction: Transaction) -> Result<bool> {
        if self.random.chance(1, 12) {
            transaction.rollback();
            return Ok(false);
        }
        if !self.mode.is_pessimistic || self.random.chance(3, 4) {
            return transaction.commit().map(|_| true);
        }
        let prepared = transaction.prepare(self.value().to_string())?;
        if self.random.chance(1, 3) {
            std::thread::yield_now();
        }
        match self.random.chance(1, 4) {
            true => prepared.rollback().map(|()| false),
            false => prepared.commit().map(|_| true),
        }
    }

    fn run_one(&mut self) {
        let mut options = TransactionOptions::new();
        options.set_snapshot(self.mode.promise == Promise::Snapshot);
        if self.random.chance(1, 20) {
            options.set_expiration(1);
        }
        let begun = self.tick();
        let write = self.write_options();
        let mut transaction = self.db.transaction_opt(&write, &options).unwrap();
        let mut actions = Vec::new();
        let done = self
            .body(&mut transaction, &mut actions)
            .and_then(|()| self.finish(transaction));
        let ended = self.tick();
        if let Err(error) = &done {
            let kinds = [
                ErrorKind::Busy,
                ErrorKind::TimedOut,
                ErrorKind::Expired,
                ErrorKind::TryAgain,
            ];
            assert!(kinds.contains(&error.kind()), "{error}");
        }
        self.events.lock().unwrap().push(Event {
            actions,
            is_committed: matches!(done, Ok(true)),
            begun,
            ended,
        });
    }

    /// A write outside of transactions.
    fn write(&mut self) {
        let (key, value) = (self.key(), self.value());
        let mut batch = WriteBatch::new();
        batch.merge(key.to_string(), value.to_string());
        // Batches of many keys, and ranges, are known to checks only as such.
        let others = if self.random.chance(1, 10) { 40 } else { 0 };
        for number in 0..others {
            batch.put(format!("other {number}"), "");
        }
        if self.random.chance(1, 20) && !self.mode.is_pessimistic {
            batch.delete_range("other 0", "other 9");
        }
        let options = self.write_options();
        let begun = self.tick();
        let done = self.db.write_opt(&batch, &options);
        let ended = self.tick();
        self.events.lock().unwrap().push(Event {
            actions: vec![Action::Append(key, value)],
            is_committed: done.is_ok(),
            begun,
            ended,
        });
    }

    fn run(&mut self, count: u64) {
        for _ in 0..count {
            match self.random.below(40) {
                0 => self.db.default_cf().flush().unwrap(),
                1 => self.db.compact_all(&CompactRangeOptions::new()).unwrap(),
                2..6 => self.write(),
                _ => self.run_one(),
            }
        }
    }
}

/// Runs one history; returns it with the final lists.
fn run(seed: u64, count: u64) -> (Mode, History) {
    let mode = mode_of(seed);
    let db = open(mode);
    let mut random = Random::new(seed);
    let threads = 2 + random.below(4);
    let keys = 2 + random.below(6);
    let (clock, next_value) = (AtomicU64::new(0), AtomicU64::new(1));
    let events = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let mut worker = Worker {
                db: &db,
                mode,
                random: Random::new(random.draw()),
                clock: &clock,
                next_value: &next_value,
                events: &events,
                keys,
            };
            scope.spawn(move || worker.run(count / threads));
        }
    });
    let last = (0..keys).map(|key| {
        let value = db.get(key.to_string()).unwrap();
        (key, list_of(value.as_deref()))
    });
    let history = History {
        events: events.into_inner().unwrap(),
        last: last.collect(),
    };
    assert!(db.lock_status().is_empty() && db.prepared_transactions().is_empty());
    (mode, history)
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the duration of the suite")]
fn transactions_keep_the_promise_of_their_mode() {
    let begun = Instant::now();
    let (histories, count) = Floors::chosen().of((32, 60), (1_000, 120), (40_000, 120));
    let seed = std::env::var("KOELDB_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seeds = seed.map_or(0..histories, |seed: u64| seed..seed + 1);
    let (mut transactions, mut committed, mut failures) = (0, 0, 0);
    for seed in seeds {
        let (mode, history) = run(seed, count);
        transactions += history.events.len() as u64;
        committed += history
            .events
            .iter()
            .filter(|event| event.is_committed)
            .count() as u64;
        if let Err(anomaly) = checker::check(&history, mode.promise) {
            eprintln!("seed {seed}, {mode:?}: {anomaly}");
            failures += 1;
        }
    }
    let summary = Summary {
        suite: "transactions",
        seed: seed.unwrap_or(0),
        figures: vec![
            ("histories", histories),
            ("transactions", transactions),
            ("committed", committed),
        ],
        seconds: begun.elapsed().as_secs_f64(),
        failures,
    };
    println!("{summary}");
    assert_eq!(failures, 0);
}

/// A commit of an optimistic transaction counts writes that are before it in the queue.
#[test]
fn a_commit_behind_a_conflicting_write_in_the_queue_fails() {
    let storage = Storage::new();
    let db = Db::open(&storage.options(), HERE).unwrap();
    let (gate, stands_there, open) = gate();
    let hold = FaultRule::new(FaultAction::Call(Arc::new(move |_| gate.pass())));
    storage.faults.add_rule(
        hold.on(&[Operation::SyncData])
            .purpose(Purpose::Wal)
            .limit(1),
    );
    let mut transaction = db.transaction();
    transaction.put("key", "of the transaction").unwrap();
    let writer = std::thread::spawn({
        let db = db.clone();
        move || {
            let mut sync = WriteOptions::new();
            sync.set_sync(true);
            let mut batch = WriteBatch::new();
            batch.put("key", "of the write");
            db.write_opt(&batch, &sync)
        }
    });
    // The write leads the queue, and no reader sees it yet.
    stands_there.recv_timeout(Duration::from_secs(120)).unwrap();
    let commit = std::thread::spawn(move || transaction.commit());
    std::thread::sleep(Duration::from_millis(100));
    open.send(()).unwrap();
    writer.join().unwrap().unwrap();
    let error = commit.join().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    let value = db.get("key").unwrap();
    assert_eq!(value.as_deref(), Some(&b"of the write"[..]));
}
