//! Counters of flushes, compactions and writes since open, the source of `rocksdb.stats`.
//!
//! Those of a column family are updated when a job ends, under an uncontended lock. Those of writes
//! are updated only by the leader of the write queue, or, for writes without a leader, by the holder of
//! a slot, with plain loads and stores instead of atomic read-modify-write operations.

use std::ops::{AddAssign, Sub};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use crate::report::{StallCause, StallCondition};
use koeldb_base::sync::{Padded, lock_plain as lock, stripe_count};

/// Totals of flushes or compactions: their number, times, bytes and keys.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct JobTotals {
    pub(crate) count: u64,
    pub(crate) elapsed: Duration,
    pub(crate) cpu: Duration,
    /// Bytes read from the levels above the output level.
    pub(crate) read_above: u64,
    /// Bytes read from the output level.
    pub(crate) read_there: u64,
    pub(crate) written: u64,
    /// Bytes written before compression.
    pub(crate) raw: u64,
    /// Bytes of tables that were moved without rewriting.
    pub(crate) moved: u64,
    pub(crate) keys_in: u64,
    pub(crate) keys_dropped: u64,
}

impl JobTotals {
    /// Returns the bytes read from all levels.
    pub(crate) fn read(&self) -> u64 {
        self.read_above + self.read_there
    }
}

impl AddAssign for JobTotals {
    fn add_assign(&mut self, other: Self) {
        self.count += other.count;
        self.elapsed += other.elapsed;
        self.cpu += other.cpu;
        self.read_above += other.read_above;
        self.read_there += other.read_there;
        self.written += other.written;
        self.raw += other.raw;
        self.moved += other.moved;
        self.keys_in += other.keys_in;
        self.keys_dropped += other.keys_dropped;
    }
}

impl Sub for JobTotals {
    type Output = Self;

    /// Returns the difference from `earlier`.
    fn sub(self, earlier: Self) -> Self {
        JobTotals {
            count: self.count - earlier.count,
            elapsed: self.elapsed.saturating_sub(earlier.elapsed),
            cpu: self.cpu.saturating_sub(earlier.cpu),
            read_above: self.read_above - earlier.read_above,
            read_there: self.read_there - earlier.read_there,
            written: self.written - earlier.written,
            raw: self.raw - earlier.raw,
            moved: self.moved - earlier.moved,
            keys_in: self.keys_in - earlier.keys_in,
            keys_dropped: self.keys_dropped - earlier.keys_dropped,
        }
    }
}

/// The numbers of write delays and stops for one cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StallTotals {
    pub(crate) delays: u64,
    pub(crate) stops: u64,
}

/// Totals of ingested tables.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IngestTotals {
    pub(crate) files: u64,
    pub(crate) level0_files: u64,
    pub(crate) bytes: u64,
    pub(crate) keys: u64,
}

/// Statistics totals of one column family: jobs by output level, ingestions and stalls.
#[derive(Clone, Debug, Default)]
pub(crate) struct ColumnFamilyTotals {
    /// Totals of jobs by output level; flushes write level 0.
    pub(crate) levels: Vec<JobTotals>,
    pub(crate) flushes: JobTotals,
    pub(crate) compactions: JobTotals,
    pub(crate) ingested: IngestTotals,
    pub(crate) memtable_limit: StallTotals,
    pub(crate) level0_limit: StallTotals,
    /// The part of `level0_limit` that occurred during compactions of level 0.
    pub(crate) level0_limit_compacting: StallTotals,
    pub(crate) pending_bytes: StallTotals,
}

impl ColumnFamilyTotals {
    /// Returns the totals of flushes and compactions, summed over all levels.
    pub(crate) fn all_jobs(&self) -> JobTotals {
        let mut sum = JobTotals::default();
        for level in &self.levels {
            sum += *level;
        }
        sum
    }

    /// Returns the totals of jobs with this output level, which is added if it is new.
    fn level(&mut self, level: usize) -> &mut JobTotals {
        if self.levels.len() <= level {
            self.levels.resize(level + 1, JobTotals::default());
        }
        &mut self.levels[level]
    }
}

/// Current totals and those at the previous report, for interval statistics.
#[derive(Clone, Debug)]
pub(crate) struct SinceLast<T> {
    pub(crate) now: T,
    pub(crate) then: T,
    /// Time since open.
    pub(crate) uptime: Duration,
    /// Time since the earlier report.
    pub(crate) interval: Duration,
}

/// The totals of a column family at present and at the last report.
#[derive(Debug, Default)]
struct ColumnFamilyState {
    now: ColumnFamilyTotals,
    reported: ColumnFamilyTotals,
    reported_at: Option<Duration>,
}

/// The counters of one column family.
#[derive(Debug, Default)]
pub(crate) struct ColumnFamilyCounters {
    state: Mutex<ColumnFamilyState>,
}

impl ColumnFamilyCounters {
    /// Adds a flush to the totals, as a job of level 0.
    pub(crate) fn flushed(&self, job: JobTotals) {
        let now = &mut lock(&self.state).now;
        *now.level(0) += job;
        now.flushes += job;
    }

    /// Adds a compaction to the totals of its output level.
    pub(crate) fn compacted(&self, output_level: usize, job: JobTotals) {
        let now = &mut lock(&self.state).now;
        *now.level(output_level) += job;
        now.compactions += job;
    }

    /// Counts a change to delayed or stopped writes, by its cause.
    pub(crate) fn stalled(&self, condition: StallCondition, is_compacting: bool) {
        let Some((cause, is_stop)) = condition.cause() else {
            return;
        };
        let add = |totals: &mut StallTotals| {
            totals.delays += u64::from(!is_stop);
            totals.stops += u64::from(is_stop);
        };
        let now = &mut lock(&self.state).now;
        match cause {
            StallCause::MemtableLimit => add(&mut now.memtable_limit),
            StallCause::PendingCompactionBytes => add(&mut now.pending_bytes),
            StallCause::Level0FileLimit => {
                add(&mut now.level0_limit);
                if is_compacting {
                    add(&mut now.level0_limit_compacting);
                }
            }
        }
    }

    /// Counts a table that was ingested.
    pub(crate) fn ingested(&self, level: usize, bytes: u64, keys: u64) {
        let now = &mut lock(&self.state).now.ingested;
        now.files += 1;
        now.level0_files += u64::from(level == 0);
        now.bytes += bytes;
        now.keys += keys;
    }

    /// Returns the totals since the database was opened.
    pub(crate) fn totals(&self) -> ColumnFamilyTotals {
        lock(&self.state).now.clone()
    }

    /// Returns the totals now and at the previous call, with uptime and interval.
    pub(crate) fn report(&self, opened: Duration, now: Duration) -> SinceLast<ColumnFamilyTotals> {
        let mut state = lock(&self.state);
        let since = SinceLast {
            now: state.now.clone(),
            then: std::mem::take(&mut state.reported),
            uptime: now.saturating_sub(opened),
            interval: now.saturating_sub(state.reported_at.unwrap_or(opened)),
        };
        state.reported = since.now.clone();
        state.reported_at = Some(now);
        since
    }
}

/// Totals of writes, over all column families.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WriteTotals {
    /// The number of batches.
    pub(crate) writes: u64,
    /// The number of groups of batches that were committed together.
    pub(crate) groups: u64,
    pub(crate) keys: u64,
    pub(crate) bytes: u64,
    pub(crate) logged_writes: u64,
    pub(crate) logged_bytes: u64,
    pub(crate) log_syncs: u64,
    pub(crate) stalled: Duration,
    /// The number of waits of writes because memtables exceeded their common limit.
    pub(crate) memory_stops: u64,
}

impl Sub for WriteTotals {
    type Output = Self;

    /// Returns the difference from `earlier`.
    ///
    /// The counters are not read at the same moment, so a difference below zero is zero.
    fn sub(self, earlier: Self) -> Self {
        WriteTotals {
            writes: self.writes.saturating_sub(earlier.writes),
            groups: self.groups.saturating_sub(earlier.groups),
            keys: self.keys.saturating_sub(earlier.keys),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            logged_writes: self.logged_writes.saturating_sub(earlier.logged_writes),
            logged_bytes: self.logged_bytes.saturating_sub(earlier.logged_bytes),
            log_syncs: self.log_syncs.saturating_sub(earlier.log_syncs),
            stalled: self.stalled.saturating_sub(earlier.stalled),
            memory_stops: self.memory_stops.saturating_sub(earlier.memory_stops),
        }
    }
}

/// A counter with one writer at a time: the write leader, or the holder of a slot.
#[derive(Debug, Default)]
struct OwnedCounter(AtomicU64);

impl OwnedCounter {
    /// Adds to the counter without an atomic addition: its slot has one writer at a time.
    #[inline]
    fn add(&self, count: u64) {
        let sum = self.0.load(Ordering::Relaxed).wrapping_add(count);
        self.0.store(sum, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of direct writes, which bypass the write leader, in one writer slot.
#[derive(Debug, Default)]
struct SlotCounters {
    writes: OwnedCounter,
    bytes: OwnedCounter,
}

/// The counters of direct writes in all writer slots, allocated by the first such write.
#[derive(Debug, Default)]
struct DirectCounters(OnceLock<Box<[Padded<SlotCounters>]>>);

impl DirectCounters {
    /// Returns the counters of direct writes of one writer slot.
    #[inline]
    fn of(&self, slot: usize) -> &SlotCounters {
        let counters = || (0..stripe_count()).map(|_| Padded::default());
        &self.0.get_or_init(|| counters().collect())[slot]
    }

    /// Returns the sum of a counter over all slots.
    fn sum(&self, of: impl Fn(&SlotCounters) -> &OwnedCounter) -> u64 {
        let slots = self.0.get().into_iter().flatten();
        slots.map(|slot| of(slot).get()).sum()
    }
}

/// The counters of writes of a database: batches, groups, bytes, WAL syncs and stalls.
#[derive(Debug, Default)]
pub(crate) struct WriteCounters {
    writes: OwnedCounter,
    groups: OwnedCounter,
    bytes: OwnedCounter,
    unlogged_writes: OwnedCounter,
    unlogged_groups: OwnedCounter,
    unlogged_bytes: OwnedCounter,
    log_syncs: OwnedCounter,
    stall_nanos: OwnedCounter,
    memory_stops: OwnedCounter,
    direct: DirectCounters,
    reported: Mutex<(WriteTotals, Option<Duration>)>,
}

impl WriteCounters {
    /// Counts a write group of `writes` batches with `bytes` of records; called by its leader.
    #[inline]
    pub(crate) fn committed(&self, writes: u64, bytes: u64, is_logged: bool) {
        self.writes.add(writes);
        self.groups.add(1);
        self.bytes.add(bytes);
        if !is_logged {
            self.unlogged_writes.add(writes);
            self.unlogged_groups.add(1);
            self.unlogged_bytes.add(bytes);
        }
    }

    /// Counts a direct write, which bypassed the write leader; called by the holder of `slot`.
    #[inline]
    pub(crate) fn wrote_directly(&self, slot: usize, bytes: u64) {
        let counters = self.direct.of(slot);
        counters.writes.add(1);
        counters.bytes.add(bytes);
    }

    /// Counts a sync of the log; called by the leader.
    pub(crate) fn log_synced(&self) {
        self.log_syncs.add(1);
    }

    /// Adds the time that a write waited in a stall; called by the leader.
    pub(crate) fn stalled(&self, waited: Duration) {
        let nanos = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX);
        self.stall_nanos.add(nanos);
    }

    /// Counts a stall of writes by the write buffer manager; called by the leader.
    pub(crate) fn stopped_by_memory(&self) {
        self.memory_stops.add(1);
    }

    /// Returns the totals since the database was opened; see [`WriteCounters::report`].
    pub(crate) fn totals(&self, keys: u64, header_bytes: u64) -> WriteTotals {
        let (groups, bytes) = (self.groups.get(), self.bytes.get());
        let logged_groups = groups.saturating_sub(self.unlogged_groups.get());
        // Each is a group.
        let direct_writes = self.direct.sum(|slot| &slot.writes);
        let direct_bytes = self.direct.sum(|slot| &slot.bytes);
        WriteTotals {
            writes: self.writes.get() + direct_writes,
            groups: groups + direct_writes,
            keys,
            bytes: bytes + direct_bytes + (groups + direct_writes) * header_bytes,
            logged_writes: self.writes.get().saturating_sub(self.unlogged_writes.get()),
            logged_bytes: bytes.saturating_sub(self.unlogged_bytes.get())
                + logged_groups * header_bytes,
            log_syncs: self.log_syncs.get(),
            stalled: Duration::from_nanos(self.stall_nanos.get()),
            memory_stops: self.memory_stops.get(),
        }
    }

    /// Returns the totals of writes now and at the previous report, with uptime and interval.
    ///
    /// `keys` were written since the database was opened; each group has `header_bytes` in the log
    /// besides its records.
    pub(crate) fn report(
        &self,
        keys: u64,
        header_bytes: u64,
        opened: Duration,
        now: Duration,
    ) -> SinceLast<WriteTotals> {
        let mut reported = lock(&self.reported);
        let totals = self.totals(keys, header_bytes);
        let (then, at) = std::mem::replace(&mut *reported, (totals, Some(now)));
        SinceLast {
            now: totals,
            then,
            uptime: now.saturating_sub(opened),
            interval: now.saturating_sub(at.unwrap_or(opened)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_what_came_since_the_last_one() {
        let seconds = Duration::from_secs;
        let counters = ColumnFamilyCounters::default();
        let job = JobTotals {
            count: 1,
            written: 10,
            ..JobTotals::default()
        };
        counters.flushed(job);
        counters.compacted(6, job);
        let first = counters.report(seconds(100), seconds(103));
        assert_eq!((first.uptime, first.interval), (seconds(3), seconds(3)));
        counters.compacted(6, job);
        let second = counters.report(seconds(100), seconds(110));
        assert_eq!((second.uptime, second.interval), (seconds(10), seconds(7)));
        assert_eq!(second.now.all_jobs().written, 30);
        let since = second.now.all_jobs() - second.then.all_jobs();
        assert_eq!((since.count, since.written), (1, 10));
        assert_eq!(second.now.levels[6].count, 2);
        assert_eq!(second.now.flushes.count, 1);
    }

    #[test]
    fn what_no_log_has_is_counted_apart() {
        let counters = WriteCounters::default();
        counters.committed(3, 300, true);
        counters.committed(1, 50, false);
        let report = counters.report(7, 12, Duration::ZERO, Duration::from_secs(1));
        let totals = report.now;
        assert_eq!((totals.writes, totals.groups, totals.keys), (4, 2, 7));
        assert_eq!((totals.bytes, totals.logged_bytes), (374, 312));
        assert_eq!(totals.logged_writes, 3);
    }
}
