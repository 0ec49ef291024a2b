//! Iterators: full scans and seeks.

use std::hint::black_box;

use koeldb::{DbCursor, ReadOptions};

use super::read::{add_bytes, note_found};
use crate::db_bench::database::Database;
use crate::db_bench::keys::{FillOrder, KeyBuffer, ReadNumbers};
use crate::db_bench::plan::{Failure, Outcome};
use crate::db_bench::tally::OpKind;
use crate::db_bench::worker::Worker;

pub(crate) fn iterator_error(error: &koeldb::Error) -> Failure {
    Failure::of("Iterator error", error)
}

/// Returns the read options, with a snapshot if `--explicit_snapshot` is set.
fn options_of(worker: &Worker<'_>, database: &Database) -> ReadOptions {
    let mut options = worker.plan().read_options.clone();
    if worker.flags().explicit_snapshot {
        options.set_snapshot(&database.db.snapshot());
    }
    options
}

/// Runs `readseq`: scans each database forwards.
pub(crate) fn forwards(worker: &mut Worker<'_>) -> Outcome {
    for database in worker.databases().all() {
        scan(worker, database, DbCursor::seek_to_first, DbCursor::next)?;
    }
    Ok(())
}

/// Runs `readreverse`: scans each database backwards.
pub(crate) fn backwards(worker: &mut Worker<'_>) -> Outcome {
    for database in worker.databases().all() {
        scan(worker, database, DbCursor::seek_to_last, DbCursor::prev)?;
    }
    Ok(())
}

/// Scans up to `reads` entries of a database: calls `first` to position, then `step` repeatedly.
fn scan(
    worker: &mut Worker<'_>,
    database: &Database,
    first: fn(&mut DbCursor) -> koeldb::Result<bool>,
    step: fn(&mut DbCursor) -> koeldb::Result<bool>,
) -> Outcome {
    let reads = worker.plan().reads;
    worker.announce(reads);
    let options = options_of(worker, database);
    let mut cursor = database.default_family().cursor_opt(&options);
    let (mut read, mut bytes) = (0, 0);
    first(&mut cursor).map_err(|error| iterator_error(&error))?;
    while read < reads
        && let Some((key, value)) = cursor.entry()
    {
        add_bytes(&mut bytes, key.len(), value.len());
        worker.finished(1, OpKind::Read);
        read += 1;
        if let Some(pacer) = &worker.shared.read_pacer
            && read % 1024 == 1023
        {
            pacer.request(1024);
        }
        step(&mut cursor).map_err(|error| iterator_error(&error))?;
    }
    worker.tally.bytes += bytes;
    Ok(())
}

/// Runs `newiterator`: creates and drops iterators.
pub(crate) fn new_iterator(worker: &mut Worker<'_>) -> Outcome {
    let plan = worker.plan();
    let mut limit = worker.limit(plan.duration, plan.reads);
    while !limit.done(1) {
        let database = worker.select();
        black_box(database.default_family().cursor_opt(&plan.read_options));
        worker.finished(1, OpKind::Other);
    }
    Ok(())
}

/// Runs `seekrandom`: seeks to a random key and takes `seek_nexts` steps, per operation.
pub(crate) fn seek_random(worker: &mut Worker<'_>) -> Outcome {
    let (plan, flags) = (worker.plan(), worker.flags());
    let databases = worker.databases();
    let mut seeker = Seeker::new(worker);
    let numbers = ReadNumbers::new(plan.key_count, 0.0);
    let mut limit = worker.limit(plan.duration, plan.reads);
    let mut tailing: Vec<DbCursor> = Vec::new();
    if flags.use_tailing_iterator {
        let families = databases.all().iter().map(Database::default_family);
        tailing.extend(families.map(|family| family.cursor_opt(&seeker.options)));
    }
    while !limit.done(1) {
        let number = numbers.take(&mut worker.random);
        seeker.aim(number);
        // Unlike reads, seeks draw a random number for the database only if there are several.
        let index = if databases.are_several() {
            let count = u64::try_from(databases.all().len()).unwrap_or(1);
            koeldb_base::coding::to_usize(worker.random.below(count))
        } else {
            0
        };
        let database = &databases.all()[index];
        match tailing.get_mut(index) {
            Some(cursor) => {
                cursor.refresh().map_err(|error| iterator_error(&error))?;
                seeker.seek(cursor)?;
            }
            None => {
                let mut cursor = database.default_family().cursor_opt(&seeker.options);
                seeker.seek(&mut cursor)?;
            }
        }
        worker.pace_reads(seeker.read);
        worker.finished(1, OpKind::Seek);
    }
    worker.tally.bytes += seeker.bytes;
    note_found(worker, seeker.found, seeker.read, "\n");
    Ok(())
}

/// The read options, key buffers and counts of the seeks of one thread.
struct Seeker {
    options: ReadOptions,
    key: KeyBuffer,
    bound: KeyBuffer,
    key_count: u64,
    max_distance: u64,
    missing_prefix: bool,
    prefix_bound: usize,
    reverse: bool,
    steps: u64,
    read: u64,
    found: u64,
    bytes: u64,
    copy: [u8; 256],
}

impl Seeker {
    fn new(worker: &Worker<'_>) -> Self {
        let (plan, flags) = (worker.plan(), worker.flags());
        let mut options = options_of(worker, &worker.databases().all()[0]);
        options.set_auto_prefix_mode(flags.auto_prefix_mode);
        let bounded_by_prefix = flags.auto_prefix_mode && !flags.reverse_iterator;
        Seeker {
            options,
            key: plan.key_buffer(),
            bound: plan.key_buffer(),
            key_count: plan.key_count,
            max_distance: u64::try_from(flags.max_scan_distance).unwrap_or(0),
            missing_prefix: flags.seek_missing_prefix,
            prefix_bound: if bounded_by_prefix {
                plan.layout.prefix_bytes
            } else {
                0
            },
            reverse: flags.reverse_iterator,
            steps: u64::try_from(flags.seek_nexts).unwrap_or(0),
            read: 0,
            found: 0,
            bytes: 0,
            copy: [0; 256],
        }
    }

    /// Encodes the key of `number` as the seek target, and sets the matching iterate bound.
    #[inline]
    fn aim(&mut self, number: u64) {
        if self.missing_prefix {
            self.key.missing_prefix(number);
        } else {
            self.key.key(number);
        }
        if self.max_distance > 0 || self.prefix_bound > 0 {
            self.set_bound(number);
        }
    }

    /// Sets the iterate bound: `--max_scan_distance` keys from the target, or its prefix's end.
    fn set_bound(&mut self, number: u64) {
        if self.max_distance > 0 && self.reverse {
            let from = self.bound.key(number.saturating_sub(self.max_distance));
            self.options.set_iterate_lower_bound(from.to_vec());
        } else if self.max_distance > 0 {
            let to = self
                .bound
                .key(self.key_count.min(number + self.max_distance));
            self.options.set_iterate_upper_bound(to.to_vec());
        } else {
            // The bound is the next prefix.
            let mut to = self.key.bytes()[..self.prefix_bound].to_vec();
            if let Some(last) = to.last_mut() {
                *last = last.wrapping_add(1);
            }
            self.options.set_iterate_upper_bound(to);
        }
    }

    /// Seeks to the target key and takes the configured steps.
    #[inline]
    fn seek(&mut self, cursor: &mut DbCursor) -> Outcome {
        cursor
            .seek(self.key.bytes())
            .map_err(|error| iterator_error(&error))?;
        self.read += 1;
        if cursor.key() == Some(self.key.bytes()) {
            self.found += 1;
        }
        for _ in 0..self.steps {
            let Some((key, value)) = cursor.entry() else {
                break;
            };
            let copied = value.len().min(self.copy.len());
            self.copy[..copied].copy_from_slice(&value[..copied]);
            black_box(&self.copy);
            add_bytes(&mut self.bytes, key.len(), value.len());
            let step = if self.reverse {
                cursor.prev()
            } else {
                cursor.next()
            };
            step.map_err(|error| iterator_error(&error))?;
        }
        Ok(())
    }
}

/// Runs `fillseekseq`: seeks to each key, takes some steps, and seeks to the key reached.
///
/// A sequential fill, which is not measured, precedes the seeks.
pub(crate) fn seek_sequential(worker: &mut Worker<'_>) -> Outcome {
    let (plan, flags) = (worker.plan(), worker.flags());
    super::write::fill(worker, FillOrder::Sequential, plan.key_count)?;
    worker.tally.restart();
    let database = worker.select();
    let options = options_of(worker, database);
    let mut cursor = database.default_family().cursor_opt(&options);
    let mut key = plan.key_buffer();
    worker.announce(plan.key_count);
    let mut number = 0;
    while number < plan.key_count {
        let mut expect = |cursor: &DbCursor, number: u64| {
            let wanted = key.key(number);
            if cursor.key() == Some(wanted) {
                Ok(())
            } else {
                Err(Failure::new(format!(
                    "key {number} was not found by a seek or step"
                )))
            }
        };
        seek_to(&mut cursor, plan.key_buffer().key(number))?;
        expect(&cursor, number)?;
        worker.finished(1, OpKind::Seek);
        for _ in 0..flags.seek_nexts {
            if number + 1 >= plan.key_count {
                break;
            }
            cursor.next().map_err(|error| iterator_error(&error))?;
            number += 1;
            expect(&cursor, number)?;
            worker.finished(1, OpKind::Seek);
        }
        seek_to(&mut cursor, plan.key_buffer().key(number))?;
        expect(&cursor, number)?;
        worker.finished(1, OpKind::Seek);
        number += 1;
    }
    Ok(())
}

/// Seeks the cursor to the first entry at or after `key`.
fn seek_to(cursor: &mut DbCursor, key: &[u8]) -> Outcome {
    cursor.seek(key).map_err(|error| iterator_error(&error))?;
    Ok(())
}
