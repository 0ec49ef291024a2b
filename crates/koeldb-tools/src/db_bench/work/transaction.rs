//! Transactions that add one number to a random key of each set, so that the sums of sets agree.
//!
//! The mix is that of RocksDB's `RandomTransactionInserter`: every other read is for update, 9 of 10
//! pessimistic transactions are prepared, 1 of 20 is rolled back.

use std::sync::atomic::{AtomicUsize, Ordering};

use koeldb::{Db, ErrorKind, LockMode, ReadOptions, Transaction, TransactionOptions, WriteBatch};

use crate::db_bench::plan::{Failure, Outcome};
use crate::db_bench::random::shuffle;
use crate::db_bench::tally::OpKind;
use crate::db_bench::worker::Worker;

/// The threads of the benchmark that have ended.
static ENDED: AtomicUsize = AtomicUsize::new(0);

/// The way in which `randomtransaction` writes: write batch, optimistic or pessimistic transaction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Batch,
    Optimistic,
    Pessimistic,
}

/// Runs `randomtransaction`: adds a number to a random key of each set, in one transaction.
pub(crate) fn random_transaction(worker: &mut Worker<'_>) -> Outcome {
    let (flags, plan) = (worker.flags(), worker.plan());
    let kind = match (flags.transaction_db, flags.optimistic_transaction_db) {
        (true, _) => Kind::Pessimistic,
        (_, true) => Kind::Optimistic,
        _ => Kind::Batch,
    };
    let db = &worker.select().db;
    let mut options = TransactionOptions::new();
    // A plain read and the write that follows it then conflict with a commit between them.
    options.set_snapshot(true);
    let mut limit = worker.limit(plan.duration, plan.reads_and_writes);
    let mut sets: Vec<u64> = (1..=flags.transaction_sets.clamp(1, 9999)).collect();
    let (mut done, mut aborts) = (0_u64, 0_u64);
    while !limit.done(1) {
        let add = worker.random.below(100) + 1;
        shuffle(&mut sets, worker.random.draw());
        let is_committed = if kind == Kind::Batch {
            write_batch(worker, db, &sets, add)?
        } else {
            let begun = db.transaction_opt(&plan.write_options, &options);
            let transaction = begun.map_err(|error| Failure::of("begin", &error))?;
            match run(worker, transaction, &sets, add, kind) {
                Ok(()) => true,
                Err(error) if is_conflict(error.kind()) => false,
                Err(error) => return Err(Failure::of("transaction error", &error)),
            }
        };
        done += 1;
        aborts += u64::from(!is_committed);
        worker.finished(1, OpKind::Other);
    }
    worker.tally.add_message(&match kind {
        Kind::Batch => format!("( batches:{done} )"),
        _ => format!("( transactions:{done} aborts:{aborts})"),
    });
    let threads = usize::try_from(flags.threads).unwrap_or(1);
    if ENDED.fetch_add(1, Ordering::AcqRel) + 1 < threads || kind == Kind::Batch && threads > 1 {
        return Ok(());
    }
    ENDED.store(0, Ordering::Release);
    verify(db, sets.len())
}

/// Returns whether an error is a conflict or lock timeout, after which the step counts as aborted.
fn is_conflict(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Busy | ErrorKind::TimedOut | ErrorKind::TryAgain
    )
}

/// Returns a key of a key set: four digits of the set, then the number.
fn key_of(set: u64, number: u64) -> String {
    format!("{set:04}{number}")
}

/// Parses the decimal number in a value; 0 if it is absent or no number.
fn number_of(value: Option<&[u8]>) -> u64 {
    let text = value.and_then(|value| std::str::from_utf8(value).ok());
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Adds `add` to the number at a random key of each set, in one write batch, not a transaction.
fn write_batch(worker: &mut Worker<'_>, db: &Db, sets: &[u64], add: u64) -> Outcome<bool> {
    let plan = worker.plan();
    let mut batch = WriteBatch::new();
    for &set in sets {
        let key = key_of(set, worker.random.below(plan.key_count));
        let value = db.get_opt(&key, &plan.read_options);
        let value = value.map_err(|error| Failure::of("Get returned an error", &error))?;
        batch.put(&key, (number_of(value.as_deref()) + add).to_string());
    }
    let written = db.write_opt(&batch, &plan.write_options);
    written.map_err(|error| Failure::of("put error", &error))?;
    Ok(true)
}

/// Adds `add` to the number at a random key of each set, then commits or rolls back.
fn run(
    worker: &mut Worker<'_>,
    mut transaction: Transaction,
    sets: &[u64],
    add: u64,
    kind: Kind,
) -> koeldb::Result<()> {
    let plan = worker.plan();
    let db = transaction.db().clone();
    let family = db.default_cf();
    for &set in sets {
        let key = key_of(set, worker.random.below(plan.key_count));
        let value = if worker.random.below(2) == 0 {
            let mode = LockMode::Exclusive;
            transaction.get_for_update_opt(family, &key, &plan.read_options, mode)?
        } else {
            transaction.get_opt(family, &key, &plan.read_options)?
        };
        // As in RocksDB's program, sets delete in different ways.
        if set % 4 == 1 {
            transaction.delete_cf(family, &key)?;
        } else {
            transaction.single_delete(family, &key)?;
        }
        let sum = number_of(value.as_deref()) + add;
        transaction.put_cf(family, &key, sum.to_string())?;
    }
    let is_rolled_back = worker.random.below(20) == 0;
    if kind == Kind::Optimistic || worker.random.below(10) == 0 {
        return match is_rolled_back {
            true => {
                transaction.rollback();
                Ok(())
            }
            false => transaction.commit().map(drop),
        };
    }
    let has_commit_batch = worker.random.below(20) == 0;
    let name = format!("txn{}", transaction.id());
    let prepared = transaction.prepare(&name)?;
    if is_rolled_back {
        return prepared.rollback();
    }
    let mut batch = WriteBatch::new();
    if has_commit_batch {
        batch.put("cat", "dog");
    }
    prepared.commit_with(&batch, &plan.write_options).map(drop)
}

/// Checks that the sums of the values of all key sets are equal.
fn verify(db: &Db, sets: usize) -> Outcome {
    let mut sums = vec![0_u64; sets];
    let mut cursor = db.cursor_opt(&ReadOptions::new());
    let mut is_valid = cursor.seek("0001");
    while is_valid
        .clone()
        .map_err(|error| Failure::of("scan", &error))?
    {
        let entry = cursor.entry();
        let set = entry.and_then(|(key, _)| std::str::from_utf8(key.get(..4)?).ok()?.parse().ok());
        let value = number_of(entry.map(|(_, value)| value));
        if let Some(sum) = set.and_then(|set: usize| sums.get_mut(set.wrapping_sub(1))) {
            *sum += value;
        }
        is_valid = cursor.next();
    }
    match sums.windows(2).all(|pair| pair[0] == pair[1]) {
        true => {
            println!("RandomTransactionVerify Success.");
            Ok(())
        }
        false => Err(Failure::new(format!(
            "RandomTransactionVerify failed: the sums of the sets are {sums:?}"
        ))),
    }
}
