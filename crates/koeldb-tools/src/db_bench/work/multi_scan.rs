//! Scans of several key ranges per operation, each by a cursor with bounds.
//!
//! RocksDB's program calls `NewMultiScan`, which reads the blocks of all ranges ahead.

use koeldb::{ColumnFamily, ReadOptions};

use super::scan::iterator_error;
use crate::db_bench::keys::KeyBuffer;
use crate::db_bench::plan::{Failure, Outcome};
use crate::db_bench::tally::OpKind;
use crate::db_bench::worker::Worker;

/// A scanner of key ranges of a column family, forwards or with `--reverse_iterator` backwards.
struct Scanner {
    options: ReadOptions,
    key: KeyBuffer,
    reverse: bool,
}

impl Scanner {
    fn new(worker: &Worker<'_>) -> Self {
        Scanner {
            options: worker.plan().read_options.clone(),
            key: worker.plan().key_buffer(),
            reverse: worker.flags().reverse_iterator,
        }
    }

    /// Scans the keys numbered `from..to` with iterate bounds; returns the number of keys found.
    fn scan(&mut self, family: &ColumnFamily, from: u64, to: u64) -> Outcome<u64> {
        self.options
            .set_iterate_lower_bound(self.key.key(from).to_vec());
        self.options
            .set_iterate_upper_bound(self.key.key(to).to_vec());
        let mut cursor = family.cursor_opt(&self.options);
        let mut step = if self.reverse {
            cursor.seek_to_last()
        } else {
            cursor.seek_to_first()
        };
        let mut keys = 0;
        while step.map_err(|error| iterator_error(&error))? {
            keys += 1;
            step = if self.reverse {
                cursor.prev()
            } else {
                cursor.next()
            };
        }
        Ok(keys)
    }
}

/// Prints `text` to standard error, in the first thread only.
fn announce(worker: &Worker<'_>, text: &str) {
    if worker.is_first() {
        eprintln!("{text}");
    }
}

/// Runs `multiscan`: scans `multiscan_size` ranges of `seek_nexts` keys, a stride apart.
pub(crate) fn strided(worker: &mut Worker<'_>) -> Outcome {
    let (plan, flags) = (worker.plan(), worker.flags());
    let flag = |value: i64| u64::try_from(value).unwrap_or(0);
    let (count, stride) = (flag(flags.multiscan_size), flag(flags.multiscan_stride));
    let keys = match flag(flags.seek_nexts.into()) {
        0 => 50,
        keys => keys,
    };
    announce(
        worker,
        &format!(
            "multiscan_stride = {stride}\nmultiscan_size = {count}\nseek_nexts = {}\n\
             reverse_iterator = {}",
            flags.seek_nexts, flags.reverse_iterator
        ),
    );
    let needed = keys.saturating_add(stride).saturating_mul(count);
    let starts = plan
        .key_count
        .checked_sub(needed)
        .filter(|&starts| starts > 0);
    let Some(starts) = starts else {
        return Err(Failure::new(format!(
            "multiscan needs --num above {needed}: multiscan_size times a scan and its stride"
        )));
    };
    let mut scanner = Scanner::new(worker);
    let mut limit = worker.limit(plan.duration, plan.reads);
    let (mut read, mut scans) = (1, 0);
    while !limit.done(read) {
        let family = worker.select().default_family();
        let mut start = worker.random.below(starts);
        let mut found = 0;
        for _ in 0..count {
            found += scanner.scan(family, start, start + keys)?;
            start += keys + stride;
        }
        read = found.max(1);
        scans += 1;
        if let Some(pacer) = &worker.shared.read_pacer {
            pacer.request(1);
        }
        worker.finished(1, OpKind::MultiScan);
    }
    worker.tally.add_message(&format!("(multiscans:{scans})"));
    Ok(())
}

/// Runs `multiscanrandom`: scans 1 to 64 random ranges of at most 1 MiB.
pub(crate) fn random(worker: &mut Worker<'_>) -> Outcome {
    const RANGES_MAX: u64 = 64;
    const RANGE_BYTES_MAX: u64 = 1 << 20;
    let (plan, flags) = (worker.plan(), worker.flags());
    let entry = u64::try_from(flags.key_size + flags.value_size).unwrap_or(1);
    let keys_max = (RANGE_BYTES_MAX / entry.max(1)).max(1);
    announce(
        worker,
        &format!(
            "multiscanrandom: batch_size=1..{RANGES_MAX}, max_range_keys={keys_max}\n\
             reverse_iterator = {}",
            flags.reverse_iterator
        ),
    );
    let mut scanner = Scanner::new(worker);
    let mut limit = worker.limit(plan.duration, plan.reads);
    let (mut read, mut scans, mut rows) = (1, 0_u64, 0);
    while !limit.done(read) {
        let family = worker.select().default_family();
        let count = 1 + worker.random.below(RANGES_MAX);
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for _ in 0..count {
            let keys = 1 + worker.random.below(keys_max);
            let start = worker.random.below(plan.key_count.saturating_sub(keys) + 1);
            ranges.push((start, start + keys));
        }
        ranges.sort_unstable_by_key(|range| range.0);
        let ranges = without_overlaps(&ranges);
        let mut found = 0;
        for &(from, to) in &ranges {
            found += scanner.scan(family, from, to)?;
        }
        read = found.max(1);
        rows += found;
        scans += 1;
        if let Some(pacer) = &worker.shared.read_pacer {
            pacer.request(1);
        }
        worker.finished(1, OpKind::MultiScan);
    }
    let mean = rows.checked_div(scans).unwrap_or(0);
    worker.tally.add_message(&format!(
        "(multiscans:{scans} rows_scanned:{rows} rows_per_multiscan:{mean} \
         max_range_keys:{keys_max})"
    ));
    Ok(())
}

/// Removes overlaps: moves each start to the end of earlier ranges; `ranges` are sorted by start.
fn without_overlaps(ranges: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut end = 0;
    let cut = ranges.iter().filter_map(|&(from, to)| {
        let range = (from.max(end), to);
        end = end.max(to);
        (range.0 < range.1).then_some(range)
    });
    cut.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_ranges_are_cut() {
        let ranges = [(0, 5), (3, 4), (4, 9), (9, 10)];
        assert_eq!(without_overlaps(&ranges), [(0, 5), (5, 9), (9, 10)]);
    }
}
