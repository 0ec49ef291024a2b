//! Time series: one thread writes entries of ids with a rising time, the others read or expire
//! them.
//!
//! A key is the number of its id, 8 bytes, and its time, 8 bytes big-endian. A reader scans all
//! entries of a random id. (RocksDB's readers compare with whole keys, so they see at most the
//! entry of time 0.)

use std::sync::atomic::{AtomicU64, Ordering};

use koeldb::{CompactionFilter, CompactionFilterContext, CompactionFilterFactory, Decision};
use koeldb_fs::clock::{Clock, SystemClock};

use super::scan::iterator_error;
use crate::db_bench::flags::Flags;
use crate::db_bench::limit::Pacer;
use crate::db_bench::plan::{Failure, Outcome};
use crate::db_bench::report::Outcome as Report;
use crate::db_bench::tally::OpKind;
use crate::db_bench::worker::Worker;

const ID_BYTES: usize = 8;
const TIME_BYTES: usize = 8;

/// The time of the next entry: the number of entries written.
static TIME: AtomicU64 = AtomicU64::new(0);

/// The way in which `timeseries` entries expire: never, by compaction filter or by deletion.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expiry {
    Never,
    CompactionFilter,
    /// By threads that delete them.
    Deletion,
}

impl Expiry {
    /// Parses `--expire_style`.
    pub(crate) fn of(flags: &Flags) -> Outcome<Self> {
        match flags.expire_style.as_str() {
            "none" => Ok(Expiry::Never),
            "compaction_filter" => Ok(Expiry::CompactionFilter),
            "delete" => Ok(Expiry::Deletion),
            other => Err(Failure::new(format!(
                "--expire_style is none, compaction_filter or delete, not '{other}'"
            ))),
        }
    }
}

/// A compaction filter that removes entries whose timestamp is more than `time_range` ago.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExpiredFilter {
    pub(crate) time_range: u64,
}

impl CompactionFilter for ExpiredFilter {
    fn filter(&mut self, _level: u32, key: &[u8], _value: &[u8]) -> Decision {
        match is_expired(key, self.time_range) {
            true => Decision::Remove,
            false => Decision::Keep,
        }
    }
}

impl CompactionFilterFactory for ExpiredFilter {
    fn name(&self) -> &str {
        "ExpiredTimeFilter"
    }

    fn create(&self, _context: &CompactionFilterContext) -> Option<Box<dyn CompactionFilter>> {
        Some(Box::new(*self))
    }
}

/// Returns whether the time in `key` is more than `time_range` ago; `false` for keys without time.
#[expect(clippy::big_endian_bytes, reason = "keys sort by time")]
fn is_expired(key: &[u8], time_range: u64) -> bool {
    let time = key.get(ID_BYTES..).and_then(|rest| rest.first_chunk());
    let time = time.map_or(u64::MAX, |time| u64::from_be_bytes(*time));
    TIME.load(Ordering::Relaxed).saturating_sub(time) > time_range
}

/// Runs `timeseries`: thread 0 writes ids with rising times, the others read or expire them.
pub(crate) fn run(worker: &mut Worker<'_>) -> Outcome {
    let flags = worker.flags();
    if worker.plan().layout.key_bytes < ID_BYTES + TIME_BYTES {
        return Err(Failure::new("timeseries needs a key_size of at least 16"));
    }
    if worker.is_first() {
        return write(worker);
    }
    let deleters = usize::try_from(flags.num_deletion_threads).unwrap_or(0);
    let deletes = Expiry::of(flags)? == Expiry::Deletion && worker.number() <= deleters;
    read_or_delete(worker, deletes)
}

/// Writes entries with random ids and rising times, and prints a result line of its own.
fn write(worker: &mut Worker<'_>) -> Outcome {
    let (plan, flags) = (worker.plan(), worker.flags());
    TIME.store(0, Ordering::Relaxed);
    let ids = u64::try_from(flags.key_id_range).unwrap_or(0).max(1);
    let pacer = Pacer::new(flags.benchmark_write_rate_limit);
    let mut values = plan.value_source();
    let mut key_buffer = plan.key_buffer();
    let mut key = Vec::new();
    let mut limit = worker.limit(plan.duration, plan.writes);
    while !limit.done(1) {
        let family = worker.select().default_family();
        let id = worker.random.below(ids);
        key_buffer.key(id).clone_into(&mut key);
        set_time(&mut key, TIME.fetch_add(1, Ordering::Relaxed));
        let value = values.take();
        let put = family.put_opt(&key, value, &plan.write_options);
        put.map_err(|error| Failure::of("put error", &error))?;
        let bytes = u64::try_from(key.len() + value.len()).unwrap_or(0);
        worker.tally.bytes += bytes;
        worker.finished(1, OpKind::Write);
        if let Some(pacer) = &pacer {
            pacer.request(bytes);
        }
    }
    worker.tally.stop();
    let tally = std::slice::from_ref(&worker.tally);
    print!(
        "{}",
        Report::new("timeseries write", tally, SystemClock.now()).text()
    );
    worker.tally.excluded = true;
    Ok(())
}

/// Encodes `time` big-endian after the id of `key`.
#[expect(clippy::big_endian_bytes, reason = "keys sort by time")]
fn set_time(key: &mut [u8], time: u64) {
    if let Some(place) = key.get_mut(ID_BYTES..ID_BYTES + TIME_BYTES) {
        place.copy_from_slice(&time.to_be_bytes());
    }
}

/// Scans the entries of random ids until the writer ends; with `deletes`, deletes expired ones.
fn read_or_delete(worker: &mut Worker<'_>, deletes: bool) -> Outcome {
    let (plan, flags) = (worker.plan(), worker.flags());
    let ids = u64::try_from(flags.key_id_range).unwrap_or(0).max(1);
    let database = &worker.databases().all()[0];
    let family = database.default_family();
    let mut key_buffer = plan.key_buffer();
    let mut cursor = family.cursor_opt(&plan.read_options);
    let (mut read, mut found, mut bytes) = (0, 0, 0);
    while !worker.one_is_done() {
        if flags.use_tailing_iterator {
            cursor.refresh().map_err(|error| iterator_error(&error))?;
        } else {
            cursor = family.cursor_opt(&plan.read_options);
        }
        let mut key = key_buffer.key(worker.random.below(ids)).to_vec();
        set_time(&mut key, 0);
        let id = &key[..ID_BYTES];
        read += 1;
        let mut is_found = false;
        let mut step = cursor.seek(&key);
        while step.map_err(|error| iterator_error(&error))? {
            let Some((key, value)) = cursor.entry().filter(|entry| entry.0.starts_with(id)) else {
                break;
            };
            is_found = true;
            if deletes {
                bytes += u64::try_from(key.len()).unwrap_or(0);
                if !is_expired(key, flags.time_range) {
                    break;
                }
                let deleted = family.delete_opt(key, &plan.write_options);
                deleted.map_err(|error| Failure::of("delete error", &error))?;
                worker.finished(1, OpKind::Delete);
            } else {
                super::read::add_bytes(&mut bytes, key.len(), value.len());
                worker.finished(1, OpKind::Read);
            }
            step = cursor.next();
        }
        found += u64::from(is_found);
        if let Some(pacer) = &worker.shared.read_pacer {
            pacer.request(1);
        }
    }
    worker.tally.bytes += bytes;
    super::read::note_found(worker, found, read, "");
    Ok(())
}
