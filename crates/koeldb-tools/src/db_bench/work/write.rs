//! Fills and deletions.

use std::collections::VecDeque;

use koeldb::{ColumnFamily, WriteBatch};

use crate::db_bench::database::Database;
use crate::db_bench::keys::{FillNumbers, FillOrder, KeyBuffer};
use crate::db_bench::plan::{Failure, Outcome};
use crate::db_bench::random::{Bernoulli, Mersenne64};
use crate::db_bench::tally::OpKind;
use crate::db_bench::worker::Worker;

/// Runs `fillseq`: writes keys in order.
pub(crate) fn sequential(worker: &mut Worker<'_>) -> Outcome {
    let writes = worker.plan().writes;
    fill(worker, FillOrder::Sequential, writes)
}

/// Runs `fillrandom` and `overwrite`: writes random keys.
pub(crate) fn random(worker: &mut Worker<'_>) -> Outcome {
    let writes = worker.plan().writes;
    fill(worker, FillOrder::Random, writes)
}

/// Runs `filluniquerandom`: writes every key once, in random order.
pub(crate) fn unique_random(worker: &mut Worker<'_>) -> Outcome {
    let writes = worker.plan().writes;
    fill(worker, FillOrder::UniqueRandom, writes)
}

/// Writes `writes` entries per database, in batches in this order; 0 is the number of keys.
pub(crate) fn fill(worker: &mut Worker<'_>, order: FillOrder, writes: u64) -> Outcome {
    let (plan, databases) = (worker.plan(), worker.databases().all());
    let database_count = u64::try_from(databases.len()).unwrap_or(1);
    let ops = if writes == 0 { plan.fill_keys } else { writes };
    let seconds = if order == FillOrder::Random {
        plan.duration
    } else {
        0
    };
    let mut limit = worker.limit(seconds, ops * database_count);
    if plan.fill_keys != plan.key_count {
        worker
            .tally
            .add_message(&format!("({} ops)", plan.fill_keys));
    }
    let mut filler = Filler::new(worker, order)?;
    if filler.key_space == 0 {
        return Ok(());
    }
    let mut last_of_database = ops;
    let mut index = 0;
    while !limit.done(plan.batch) {
        if order == FillOrder::Sequential {
            // Several databases are filled in turn.
            if filler.written >= last_of_database && index + 1 < databases.len() {
                last_of_database += ops;
                index += 1;
            }
        } else {
            index = koeldb_base::coding::to_usize(worker.random.below(database_count));
        }
        let database = &databases[index];
        filler.make_batch(worker, database, index);
        if let Some(pacer) = &worker.shared.write_pacer {
            pacer.request(filler.batch_bytes);
            worker.tally.forget_wait();
        }
        let result = database.db.write_opt(&filler.batch, &plan.write_options);
        worker.finished(plan.batch, OpKind::Write);
        result.map_err(|error| Failure::of("put error", &error))?;
    }
    filler.print_counts();
    worker.tally.bytes += filler.bytes;
    Ok(())
}

/// The write batch, key generators and counts of a fill.
struct Filler {
    batch: WriteBatch,
    batch_bytes: u64,
    bytes: u64,
    written: u64,
    key: KeyBuffer,
    end_key: KeyBuffer,
    values: crate::db_bench::values::Values,
    /// One sequence of key numbers per database.
    numbers: Vec<FillNumbers>,
    key_space: u64,
    repeats: Option<Repeats>,
    tombstones: Tombstones,
}

impl Filler {
    fn new(worker: &Worker<'_>, order: FillOrder) -> Outcome<Self> {
        let (plan, flags) = (worker.plan(), worker.flags());
        let tombstones = Tombstones::new(worker);
        let key_space = plan.fill_keys + tombstones.most;
        let databases = worker.databases().all().iter();
        Ok(Filler {
            batch: WriteBatch::new(),
            batch_bytes: 0,
            bytes: 0,
            written: 0,
            key: plan.key_buffer(),
            end_key: plan.key_buffer(),
            numbers: databases
                .map(|_| FillNumbers::new(order, key_space, plan.seed))
                .collect(),
            values: plan.value_source(),
            key_space,
            repeats: match order {
                FillOrder::UniqueRandom if flags.overwrite_probability > 0.0 => Some(Repeats::new(
                    flags.overwrite_probability.min(1.0),
                    flags.overwrite_window_size,
                    plan.seed,
                )?),
                _ => None,
            },
            tombstones,
        })
    }

    /// Fills the write batch with the next entries, and the range deletions that are due.
    #[inline]
    fn make_batch(&mut self, worker: &mut Worker<'_>, database: &Database, index: usize) {
        self.batch.clear();
        self.batch_bytes = 0;
        for _ in 0..worker.plan().batch {
            let numbers = &mut self.numbers[index];
            let number = match &mut self.repeats {
                None => numbers.take(&mut worker.random),
                Some(repeats) => repeats.take(|| numbers.take(&mut worker.random)),
            };
            let key = self.key.key(number);
            let value = self.values.take();
            self.batch_bytes += u64::try_from(key.len() + value.len()).unwrap_or(0);
            match database.families.as_slice() {
                [_] => self.batch.put(key, value),
                _ => self.batch.put_cf(database.family(number), key, value),
            };
            self.written += 1;
            if self.tombstones.is_due(self.written) {
                let begin = self.numbers[index].take(&mut worker.random);
                self.delete_range(database.family(number), begin);
            }
        }
        self.bytes += self.batch_bytes;
    }

    /// Adds to the batch a range deletion from number `begin`, or point deletions of its keys.
    #[cold]
    fn delete_range(&mut self, family: &ColumnFamily, begin: u64) {
        let end = begin + self.tombstones.width;
        if self.tombstones.expand {
            for number in begin..end {
                self.batch.delete_cf(family, self.key.key(number));
            }
        } else {
            let (from, to) = (self.key.key(begin), self.end_key.key(end));
            self.batch.delete_range_cf(family, from, to);
        }
        self.tombstones.count += 1;
    }

    /// Prints the numbers of unique keys, overwrites and range deletions.
    fn print_counts(&self) {
        if let Some(repeats) = &self.repeats {
            println!(
                "Number of unique keys inserted: {}.\nNumber of overwrites: {}",
                repeats.unique_keys, repeats.overwrites
            );
        }
        self.tombstones.print_count();
    }
}

/// A generator that repeats a recent key number with a fixed probability (`overwrite_probability`).
struct Repeats {
    decider: Bernoulli,
    chooser: Mersenne64,
    recent: VecDeque<u64>,
    recent_most: usize,
    unique_keys: u64,
    overwrites: u64,
}

impl Repeats {
    fn new(probability: f64, window: u32, seed: u64) -> Outcome<Self> {
        if window == 0 {
            return Err(Failure::new(
                "Overwrite_window_size must be  strictly greater than 0.",
            ));
        }
        Ok(Repeats {
            decider: Bernoulli::new(probability, seed),
            chooser: Mersenne64::new(seed),
            recent: VecDeque::new(),
            recent_most: koeldb_base::coding::to_usize(window.into()),
            unique_keys: 0,
            overwrites: 0,
        })
    }

    /// Returns a recent key number with the fixed probability, or else the one from `fresh`.
    fn take(&mut self, fresh: impl FnOnce() -> u64) -> u64 {
        if !self.recent.is_empty() && self.decider.draw() {
            self.overwrites += 1;
            let count = u64::try_from(self.recent.len()).unwrap_or(1);
            let index = koeldb_base::coding::to_usize(self.chooser.below(count));
            return self.recent[index];
        }
        self.unique_keys += 1;
        let number = fresh();
        if self.recent.len() == self.recent_most {
            self.recent.pop_front();
        }
        self.recent.push_back(number);
        number
    }
}

/// The schedule and the width of the range deletions that a fill intersperses.
#[derive(Clone, Debug)]
pub(crate) struct Tombstones {
    /// The number of writes between two range deletions; 0 for none.
    every: u64,
    after: u64,
    pub(crate) most: u64,
    pub(crate) width: u64,
    /// Whether to delete every key of the range by a point deletion instead.
    pub(crate) expand: bool,
    pub(crate) count: u64,
}

impl Tombstones {
    pub(crate) fn new(worker: &Worker<'_>) -> Self {
        let flags = worker.flags();
        let count = |flag: i64| u64::try_from(flag).unwrap_or(0);
        Tombstones {
            every: count(flags.writes_per_range_tombstone),
            after: count(flags.writes_before_delete_range),
            most: count(flags.max_num_range_tombstones),
            width: count(flags.range_tombstone_width),
            expand: flags.expand_range_tombstones,
            count: 0,
        }
    }

    /// Returns whether a range deletion is due after `written` writes.
    #[inline]
    pub(crate) fn is_due(&self, written: u64) -> bool {
        if self.every == 0 || written <= self.after {
            return false;
        }
        let since = written - self.after;
        since / self.every <= self.most && since.is_multiple_of(self.every)
    }

    /// Prints the number of range deletions, if there were any.
    pub(crate) fn print_count(&self) {
        if self.count > 0 {
            println!("Number of range deletions: {}", self.count);
        }
    }
}

/// Runs `deleteseq`: deletes keys in order.
pub(crate) fn delete_sequential(worker: &mut Worker<'_>) -> Outcome {
    delete(worker, true)
}

/// Runs `deleterandom`: deletes random keys.
pub(crate) fn delete_random(worker: &mut Worker<'_>) -> Outcome {
    delete(worker, false)
}

/// Deletes keys in batches, in order or at random.
fn delete(worker: &mut Worker<'_>, sequential: bool) -> Outcome {
    let plan = worker.plan();
    let seconds = if sequential { 0 } else { plan.duration };
    let mut limit = worker.limit(seconds, plan.deletes);
    let mut key = plan.key_buffer();
    let mut batch = WriteBatch::new();
    let mut next = 0;
    while !limit.done(plan.batch) {
        let database = worker.select();
        batch.clear();
        for _ in 0..plan.batch {
            let number = if sequential {
                next
            } else {
                worker.random.below(plan.key_count)
            };
            next += 1;
            batch.delete(key.key(number));
        }
        let result = database.db.write_opt(&batch, &plan.write_options);
        worker.finished(plan.batch, OpKind::Delete);
        result.map_err(|error| Failure::of("del error", &error))?;
    }
    Ok(())
}
