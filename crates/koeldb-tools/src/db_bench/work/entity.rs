//! Point reads of all columns of keys. Plain values are read as default columns.

use koeldb::WideColumns;
use koeldb_base::coding::to_usize;

use super::read::{StridedKeys, add_bytes, note_found, stride_start};
use crate::db_bench::plan::{Failure, Outcome};
use crate::db_bench::tally::OpKind;
use crate::db_bench::worker::Worker;

/// Adds the lengths of a key and of the names and values of its columns to the byte count `sum`.
fn add_columns(sum: &mut u64, key: &[u8], columns: &WideColumns) {
    let lengths = columns.iter().map(|(name, value)| name.len() + value.len());
    add_bytes(sum, key.len(), lengths.sum());
}

/// Runs `readrandomentity`: reads the columns of random keys.
pub(crate) fn read_random(worker: &mut Worker<'_>) -> Outcome {
    let plan = worker.plan();
    let mut limit = worker.limit(plan.duration, plan.reads);
    let mut key = plan.key_buffer();
    let numbers = plan.read_numbers();
    let (mut read, mut found, mut bytes) = (0, 0, 0);
    let mut walk = StridedKeys::new(worker);
    while !limit.done(1) {
        let database = worker.select();
        let number = match &mut walk {
            None => numbers.take(&mut worker.random),
            Some(walk) => walk.next_number(|| numbers.take(&mut worker.random)),
        };
        let key = key.key(number);
        let columns = database
            .family(number)
            .get_entity_opt(key, &plan.read_options)
            .map_err(|error| Failure::of("Get returned an error", &error))?;
        if let Some(columns) = columns {
            found += 1;
            add_columns(&mut bytes, key, &columns);
        }
        read += 1;
        worker.pace_reads(read);
        worker.finished(1, OpKind::Read);
    }
    worker.tally.bytes += bytes;
    note_found(worker, found, read, "\n");
    Ok(())
}

/// Runs `multireadentity`: reads the columns of batches of random keys, or keys a stride apart.
pub(crate) fn multi_random(worker: &mut Worker<'_>) -> Outcome {
    let plan = worker.plan();
    let mut limit = worker.limit(plan.duration, plan.reads);
    let numbers = plan.read_numbers();
    let mut maker = plan.key_buffer();
    let mut keys: Vec<Vec<u8>> = vec![Vec::new(); to_usize(plan.batch)];
    let (mut read, mut found, mut bytes, mut batches) = (0, 0, 0, 0u64);
    while !limit.done(plan.batch) {
        let database = worker.select();
        let start = numbers.take(&mut worker.random);
        let mut number = match plan.stride {
            0 => start,
            stride => stride_start(start, plan.batch, stride, plan.key_count),
        };
        for (at, key) in keys.iter_mut().enumerate() {
            match plan.stride {
                0 if at > 0 => number = numbers.take(&mut worker.random),
                stride if at > 0 => number += stride,
                _ => {}
            }
            maker.key(number).clone_into(key);
        }
        let family = database.default_family();
        let all = family.multi_get_entity_opt(&keys, &plan.read_options);
        read += plan.batch;
        batches += 1;
        for (key, columns) in keys.iter().zip(all) {
            let columns =
                columns.map_err(|error| Failure::of("MultiGetEntity returned an error", &error))?;
            if let Some(columns) = columns {
                found += 1;
                add_columns(&mut bytes, key, &columns);
            }
        }
        if let Some(pacer) = &worker.shared.read_pacer
            && batches % 256 == 255
        {
            pacer.request(256 * plan.batch);
        }
        worker.finished(plan.batch, OpKind::Read);
    }
    worker.tally.bytes += bytes;
    note_found(worker, found, read, "");
    Ok(())
}
