//! Point reads.

use koeldb::PinnedSlices;

use crate::db_bench::plan::{Failure, Outcome};
use crate::db_bench::tally::OpKind;
use crate::db_bench::worker::Worker;

/// Adds the lengths of a key and a value to the byte count `sum`.
#[inline]
pub(crate) fn add_bytes(sum: &mut u64, key: usize, value: usize) {
    *sum += u64::try_from(key + value).unwrap_or(0);
}

/// Records the numbers of keys found and read, in the result line and the JSON report.
pub(crate) fn note_found(worker: &mut Worker<'_>, found: u64, read: u64, line_end: &str) {
    let message = format!("({found} of {read} found){line_end}");
    worker.tally.add_message(&message);
    worker
        .tally
        .facts
        .extend([("found", found), ("read", read)]);
}

/// Runs `readrandom`: gets random keys.
pub(crate) fn random(worker: &mut Worker<'_>) -> Outcome {
    let plan = worker.plan();
    let mut limit = worker.limit(plan.duration, plan.reads);
    let mut key = plan.key_buffer();
    let numbers = plan.read_numbers();
    let (mut read, mut found, mut bytes) = (0, 0, 0);
    let mut walk = StridedKeys::new(worker);
    loop {
        let steps = limit.steps(worker.unwatched_reads());
        if steps == 0 {
            break;
        }
        for _ in 0..steps {
            let database = worker.select();
            let number = match &mut walk {
                None => numbers.take(&mut worker.random),
                Some(walk) => walk.next_number(|| numbers.take(&mut worker.random)),
            };
            let key = key.key(number);
            let family = database.family(number);
            match family.get_with(key, &plan.read_options, <[u8]>::len) {
                Ok(Some(value_bytes)) => {
                    found += 1;
                    add_bytes(&mut bytes, key.len(), value_bytes);
                }
                Ok(None) => {}
                Err(error) => return Err(Failure::of("Get returned an error", &error)),
            }
        }
        read += steps;
        worker.pace_reads(read);
        worker.finished(steps, OpKind::Read);
    }
    worker.tally.bytes += bytes;
    note_found(worker, found, read, "\n");
    Ok(())
}

/// A generator of keys for single reads with a stride: batches of keys a stride apart.
///
/// The first walk begins one stride after 0 and is one key short.
pub(super) struct StridedKeys {
    batch: u64,
    stride: u64,
    key_count: u64,
    step: u64,
    number: u64,
}

impl StridedKeys {
    pub(super) fn new(worker: &Worker<'_>) -> Option<Self> {
        let plan = worker.plan();
        (plan.batch > 1 && plan.stride > 0).then_some(StridedKeys {
            batch: plan.batch,
            stride: plan.stride,
            key_count: plan.key_count,
            step: 0,
            number: 0,
        })
    }

    /// Returns the next key number; `start` draws the first number of a new batch.
    pub(super) fn next_number(&mut self, start: impl FnOnce() -> u64) -> u64 {
        self.step += 1;
        if self.step == self.batch {
            self.step = 0;
            self.number = stride_start(start(), self.batch, self.stride, self.key_count);
        } else {
            self.number += self.stride;
        }
        self.number
    }
}

/// Limits the start of a batch so that `batch` keys a stride apart are within the key space.
pub(super) fn stride_start(start: u64, batch: u64, stride: u64, key_count: u64) -> u64 {
    if start + (batch - 1) * stride >= key_count {
        key_count.saturating_sub(batch * stride)
    } else {
        start
    }
}

/// Runs `readrandomfast`: reads random keys, some missing, and times them by the hundred.
pub(crate) fn random_fast(worker: &mut Worker<'_>) -> Outcome {
    const STEP: u64 = 100;
    let plan = worker.plan();
    let mut limit = worker.limit(plan.duration, plan.reads);
    let database = worker.select();
    let mut key = plan.key_buffer();
    let mut value = Vec::new();
    let mask = plan.key_count.next_power_of_two() - 1;
    let (mut read, mut found, mut missing) = (0, 0, 0);
    loop {
        for _ in 0..STEP {
            let number = worker.random.draw() & mask;
            let family = database.default_family();
            let result = family.get_into(key.key(number), &plan.read_options, &mut value);
            let is_found = result.map_err(|error| Failure::of("Get returned an error", &error))?;
            read += 1;
            found += u64::from(is_found);
            missing += u64::from(number >= plan.key_count);
        }
        if let Some(pacer) = &worker.shared.read_pacer {
            pacer.request(STEP);
        }
        worker.finished(STEP, OpKind::Read);
        if limit.done(STEP) {
            break;
        }
    }
    let message = format!("({found} of {read} found, issued {missing} non-exist keys)\n");
    worker.tally.add_message(&message);
    worker
        .tally
        .facts
        .extend([("found", found), ("read", read)]);
    Ok(())
}

/// Runs `multireadrandom`: reads batches of random keys, or keys a stride apart, by `MultiGet`.
pub(crate) fn multi_random(worker: &mut Worker<'_>) -> Outcome {
    let plan = worker.plan();
    // Keys of common lengths are stored contiguously.
    match plan.layout.key_bytes {
        _ if plan.existing_keys.is_some() => multi_random_of(worker, Vec::new()),
        8 => multi_random_of(worker, [0; 8]),
        16 => multi_random_of(worker, [0; 16]),
        32 => multi_random_of(worker, [0; 32]),
        bytes => multi_random_of(worker, vec![0; bytes]),
    }
}

/// A buffer for one key of a `MultiGet` batch: a vector, or an array if all keys have its length.
trait BatchKey: AsRef<[u8]> + Clone {
    /// Copies `key` into the buffer.
    fn set(&mut self, key: &[u8]);
}

impl<const BYTES: usize> BatchKey for [u8; BYTES] {
    #[inline]
    fn set(&mut self, key: &[u8]) {
        if let Some(key) = key.first_chunk() {
            *self = *key;
        }
    }
}

impl BatchKey for Vec<u8> {
    fn set(&mut self, key: &[u8]) {
        key.clone_into(self);
    }
}

/// Runs `multireadrandom` with keys in buffers of type `K`, which begin as copies of `blank`.
fn multi_random_of<K: BatchKey>(worker: &mut Worker<'_>, blank: K) -> Outcome {
    let plan = worker.plan();
    let mut limit = worker.limit(plan.duration, plan.reads);
    let numbers = plan.read_numbers();
    let mut maker = plan.key_buffer();
    let mut keys = vec![blank; koeldb_base::coding::to_usize(plan.batch)];
    let mut values = PinnedSlices::new();
    let (mut read, mut found, mut bytes, mut batches) = (0, 0, 0, 0u64);
    while !limit.done(plan.batch) {
        let database = worker.select();
        if plan.stride > 0 {
            let start = numbers.take(&mut worker.random);
            let mut number = stride_start(start, plan.batch, plan.stride, plan.key_count);
            for key in &mut keys {
                key.set(maker.key(number));
                number += plan.stride;
            }
        } else {
            for key in &mut keys {
                key.set(maker.key(numbers.take(&mut worker.random)));
            }
        }
        let family = database.default_family();
        family.multi_get_into(&keys, &plan.read_options, &mut values);
        read += plan.batch;
        batches += 1;
        for (key, value) in keys.iter().zip(values.iter()) {
            let value = value.map_err(|error| Failure::of("MultiGet returned an error", &error))?;
            if let Some(value) = value {
                found += 1;
                add_bytes(&mut bytes, key.as_ref().len(), value.len());
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

/// Runs `approximatesizerandom`: estimates the sizes of random key ranges.
#[expect(clippy::cast_precision_loss, reason = "a mean is an approximation")]
pub(crate) fn approximate_sizes(worker: &mut Worker<'_>) -> Outcome {
    let plan = worker.plan();
    let mut limit = worker.limit(plan.duration, plan.reads);
    let numbers = plan.read_numbers();
    let (mut from, mut to) = (plan.key_buffer(), plan.key_buffer());
    let (mut sum, mut count) = (0u64, 0u64);
    while !limit.done(1) {
        let database = worker.select();
        let ranges: Vec<_> = (0..plan.batch)
            .map(|_| {
                let ends = [
                    numbers.take(&mut worker.random),
                    numbers.take(&mut worker.random),
                ];
                let low = from.key(ends[0].min(ends[1])).to_vec();
                low..to.key(ends[0].max(ends[1])).to_vec()
            })
            .collect();
        let sizes = database.default_family().approximate_sizes(&ranges);
        let sizes = sizes.map_err(|error| Failure::of("approximate sizes", &error))?;
        count += plan.batch;
        sum += sizes.iter().sum::<u64>();
        worker.finished(plan.batch, OpKind::Other);
    }
    let average = sum as f64 / count.max(1) as f64;
    worker
        .tally
        .add_message(&format!("(Avg approx size={average})"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_stay_within_the_keys() {
        assert_eq!(stride_start(10, 4, 5, 100), 10);
        assert_eq!(stride_start(84, 4, 5, 100), 84);
        assert_eq!(stride_start(85, 4, 5, 100), 80);
        assert_eq!(stride_start(5, 4, 50, 100), 0);
    }

    #[test]
    fn the_first_walk_begins_at_a_stride_and_is_one_key_short() {
        let mut walk = StridedKeys {
            batch: 3,
            stride: 10,
            key_count: 1000,
            step: 0,
            number: 0,
        };
        let numbers: Vec<u64> = (0..8).map(|_| walk.next_number(|| 500)).collect();
        assert_eq!(numbers, [10, 20, 500, 510, 520, 500, 510, 520]);
    }
}
