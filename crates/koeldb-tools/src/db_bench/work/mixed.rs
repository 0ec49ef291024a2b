//! Reads and writes by the same threads.

use super::read::add_bytes;
use crate::db_bench::keys::ReadNumbers;
use crate::db_bench::plan::{Failure, Outcome};
use crate::db_bench::tally::OpKind;
use crate::db_bench::worker::Worker;

fn put_error(error: &koeldb::Error) -> Failure {
    Failure::of("put error", error)
}

/// Runs `readrandomwriterandom`: `readwritepercent` reads, then writes, of random keys, repeatedly.
pub(crate) fn read_random_write_random(worker: &mut Worker<'_>) -> Outcome {
    let plan = worker.plan();
    let reads_per_cycle = worker.flags().readwritepercent;
    let mut limit = worker.limit(plan.duration, plan.reads_and_writes);
    let mut values = plan.value_source();
    let mut key = plan.key_buffer();
    let numbers = ReadNumbers::new(plan.key_count, 0.0);
    let mut value = Vec::new();
    let (mut reads, mut writes, mut found) = (0, 0, 0);
    let mut step = 0;
    while !limit.done(1) {
        let database = worker.select();
        let key = key.key(numbers.take(&mut worker.random));
        let family = database.default_family();
        if step < reads_per_cycle {
            match family.get_into(key, &plan.read_options, &mut value) {
                Ok(is_found) => found += u64::from(is_found),
                // The run continues, since more errors may follow and are of interest.
                Err(error) => eprintln!("get error: {error}"),
            }
            reads += 1;
            worker.finished(1, OpKind::Read);
        } else {
            let put = family.put_opt(key, values.take(), &plan.write_options);
            put.map_err(|error| put_error(&error))?;
            writes += 1;
            worker.finished(1, OpKind::Write);
        }
        step = if step == 99 { 0 } else { step + 1 };
    }
    let total = plan.reads_and_writes;
    worker.tally.add_message(&format!(
        "( reads:{reads} writes:{writes} total:{total} found:{found})"
    ));
    worker
        .tally
        .facts
        .extend([("reads", reads), ("writes", writes), ("found", found)]);
    Ok(())
}

/// The way in which an update makes the new value: replacement, XOR or append.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Replace,
    Xor,
    Append,
}

/// Runs `updaterandom`: reads a random key and writes a new value.
pub(crate) fn update_random(worker: &mut Worker<'_>) -> Outcome {
    update(worker, Change::Replace)
}

/// Runs `xorupdaterandom`: reads a random key and writes the XOR of its value and another.
pub(crate) fn xor_update_random(worker: &mut Worker<'_>) -> Outcome {
    update(worker, Change::Xor)
}

/// Runs `appendrandom`: reads a random key and writes its value with another appended.
pub(crate) fn append_random(worker: &mut Worker<'_>) -> Outcome {
    update(worker, Change::Append)
}

/// Repeats a read of a random key and a write of its changed value (read-modify-write).
fn update(worker: &mut Worker<'_>, change: Change) -> Outcome {
    let plan = worker.plan();
    let mut limit = worker.limit(plan.duration, plan.reads_and_writes);
    let mut values = plan.value_source();
    let mut key = plan.key_buffer();
    let numbers = ReadNumbers::new(plan.key_count, 0.0);
    let mut value = Vec::new();
    let (mut found, mut bytes) = (0, 0);
    while !limit.done(1) {
        let database = worker.select();
        let key = key.key(numbers.take(&mut worker.random));
        let family = database.default_family();
        let is_found = family
            .get_into(key, &plan.read_options, &mut value)
            .map_err(|error| Failure::of("Get returned an error", &error))?;
        if is_found {
            found += 1;
            add_bytes(&mut bytes, key.len(), value.len());
        } else {
            value.clear();
        }
        if let Some(pacer) = &worker.shared.write_pacer
            && change == Change::Replace
        {
            pacer.request(u64::try_from(key.len() + value.len()).unwrap_or(0));
        }
        let new = match change {
            Change::Replace => values.take(),
            Change::Xor => {
                let mask = values.take_bytes(value.len());
                for (byte, mask) in value.iter_mut().zip(mask) {
                    *byte ^= mask;
                }
                value.as_slice()
            }
            Change::Append => {
                // The separator of RocksDB's string append operator.
                if !value.is_empty() {
                    value.push(b',');
                }
                value.extend_from_slice(values.take());
                value.as_slice()
            }
        };
        let put = family.put_opt(key, new, &plan.write_options);
        put.map_err(|error| put_error(&error))?;
        add_bytes(&mut bytes, key.len(), new.len());
        let kind = if change == Change::Xor {
            OpKind::Other
        } else {
            OpKind::Update
        };
        worker.finished(1, kind);
    }
    if change != Change::Xor {
        worker.tally.bytes += bytes;
    }
    let total = plan.reads_and_writes;
    worker
        .tally
        .add_message(&format!("( updates:{total} found:{found})"));
    worker.tally.facts.push(("found", found));
    Ok(())
}

fn merge_error(error: &koeldb::Error) -> Failure {
    Failure::of("merge error", error)
}

/// Runs `mergerandom`: merges operands into random keys.
pub(crate) fn merge_random(worker: &mut Worker<'_>) -> Outcome {
    let plan = worker.plan();
    let mut limit = worker.limit(plan.duration, plan.reads_and_writes);
    let mut values = plan.value_source();
    let mut key = plan.key_buffer_of(plan.merge_keys);
    let mut bytes = 0;
    while !limit.done(1) {
        let database = worker.select();
        let number = worker.random.below(plan.merge_keys);
        let (key, operand) = (key.key(number), values.take());
        let merge = database
            .family(number)
            .merge_opt(key, operand, &plan.write_options);
        merge.map_err(|error| merge_error(&error))?;
        add_bytes(&mut bytes, key.len(), operand.len());
        worker.finished(1, OpKind::Merge);
    }
    worker.tally.bytes += bytes;
    let total = plan.reads_and_writes;
    worker.tally.add_message(&format!("( updates:{total})"));
    Ok(())
}

/// Runs `readrandommergerandom`: reads random keys or merges operands into them.
pub(crate) fn read_random_merge_random(worker: &mut Worker<'_>) -> Outcome {
    let plan = worker.plan();
    let merge_percent = u64::try_from(worker.flags().mergereadpercent).unwrap_or(0);
    let mut limit = worker.limit(plan.duration, plan.reads_and_writes);
    let mut values = plan.value_source();
    let mut key = plan.key_buffer_of(plan.merge_keys);
    let mut value = Vec::new();
    let (mut reads, mut merges, mut hits, mut longest) = (0, 0, 0, 0);
    while !limit.done(1) {
        let family = worker.select().default_family();
        let key = key.key(worker.random.below(plan.merge_keys));
        if worker.random.below(100) < merge_percent {
            let merge = family.merge_opt(key, values.take(), &plan.write_options);
            merge.map_err(|error| merge_error(&error))?;
            merges += 1;
            worker.finished(1, OpKind::Merge);
        } else {
            match family.get_into(key, &plan.read_options, &mut value) {
                Ok(is_found) => hits += u64::from(is_found),
                Err(error) => eprintln!("get error: {error}"),
            }
            longest = longest.max(value.len());
            reads += 1;
            worker.finished(1, OpKind::Read);
        }
    }
    let total = plan.reads_and_writes;
    worker.tally.add_message(&format!(
        "(reads:{reads} merges:{merges} total:{total} hits:{hits} maxlength:{longest})"
    ));
    worker
        .tally
        .facts
        .extend([("reads", reads), ("merges", merges), ("found", hits)]);
    Ok(())
}
