//! Room for the next group: waits for the memory limit, and seals full memtables.
//!
//! Stalled writes wait before they are queued. Only the leader of the write queue makes room.
//! Memtables may share their memory limit with other databases: the largest one is then sealed, in
//! whichever database it is.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use koeldb_base::perf::{self, PerfMetric};
use koeldb_base::stats::{HistogramKind, Ticker};
use koeldb_base::{Result, SeqNo};

use super::protocol::{ColumnFamilyMemtable, CommitPipeline, CommitState};
use super::queue::CommitEnv;
use super::writer::CommitMode;
use crate::batch::BatchIter;
use crate::env::write_buffers::{ManagedDatabase, WriteBufferManager};
use crate::report::listener::FlushReason;
use crate::state::spans;

impl CommitPipeline {
    /// Makes room for a write group: switches full memtables, and waits while memory is short.
    #[inline]
    pub(crate) fn make_room(
        self: &Arc<Self>,
        commit: &mut CommitState,
        mode: CommitMode,
    ) -> Result<()> {
        self.health.check_writable()?;
        if self.check_due.load(Ordering::Relaxed) || commit.is_wal_check_due() {
            self.check_memtable_sizes(commit)?;
        }
        if self.is_out_of_memory() {
            self.wait_for_memory(commit, mode)?;
        }
        Ok(())
    }

    /// Rejects or delays a write while the column families of its records are stalled.
    #[cold]
    pub(super) fn wait_while_stalled(&self, records: &[u8], mode: CommitMode) -> Result<()> {
        let mut families = Vec::new();
        let mut operations = BatchIter::new(records);
        while let Some(operation) = operations.next_operation()? {
            if families.last() != Some(&operation.cf) {
                families.push(operation.cf);
            }
        }
        families.sort_unstable();
        families.dedup();
        if !self.stall.limits(&families) {
            self.keep_pace(records, &families, mode);
            return Ok(());
        }
        // A failed database refuses the write in any case: it does not wait for that.
        self.health.check_writable()?;
        let _span = spans::stall();
        self.families.announce_stall_soon();
        let remaining = || self.remaining_stall(mode, &families);
        remaining()?;
        let _timer = perf::timer(PerfMetric::WriteDelayTime);
        let begun = self.context.clock.now();
        self.wait_while_stopped(&families, remaining)?;
        self.stall
            .delay(&*self.context.clock, &families, records.len(), || {
                remaining()?;
                self.health.check_writable()
            })?;
        // They may have been stopped in the meantime.
        self.wait_while_stopped(&families, remaining)?;
        self.record_stall(self.context.clock.now().saturating_sub(begun));
        Ok(())
    }

    /// Delays a write while writes to `families` outpace compactions (RocksDB: `DelayWrite`).
    ///
    /// A write with a time limit for stalls waits for half of what is left of it, and one that must
    /// not wait for a stall not at all.
    fn keep_pace(&self, records: &[u8], families: &[u32], mode: CommitMode) {
        let clock = &*self.context.clock;
        let limit = match mode.stall_timeout {
            _ if mode.no_slowdown => return,
            Some(timeout) => timeout.left(clock) / 2,
            None => Duration::MAX,
        };
        let _timer = perf::timer(PerfMetric::WriteDelayTime);
        let waited = self.stall.keep_pace(clock, families, records.len(), limit);
        if !waited.is_zero() {
            self.record_stall(waited);
        }
    }

    /// Waits while writes to `families` are stopped, at most for the `remaining` time.
    fn wait_while_stopped(
        &self,
        families: &[u32],
        remaining: impl Fn() -> Result<Duration>,
    ) -> Result<()> {
        while self.stall.stops(families) {
            self.background.schedule();
            let slice = remaining()?.min(Duration::from_millis(100));
            if !self.context.env.pool.wait(slice) {
                self.stall.wait(families, slice);
            }
            self.health.check_writable()?;
        }
        Ok(())
    }

    /// Returns how long a write to stalled column families may still wait.
    fn remaining_stall(&self, mode: CommitMode, families: &[u32]) -> Result<Duration> {
        self.remaining_of(mode, || self.stall.limits(families))
    }

    /// Adds the duration of a stall to the counters and statistics.
    fn record_stall(&self, waited: Duration) {
        self.counters.stalled(waited);
        let micros = u64::try_from(waited.as_micros()).unwrap_or(u64::MAX);
        self.context.count(Ticker::StallMicros, micros);
        self.context.record(HistogramKind::WriteStall, micros);
    }

    /// Switches full memtables, after one of them or the log has reached its check size.
    ///
    /// Seals full ones and those that keep too many logs, requests successors and the next log for
    /// those that will be full soon, and updates memory charges.
    #[cold]
    fn check_memtable_sizes(self: &Arc<Self>, commit: &mut CommitState) -> Result<()> {
        self.check_due.store(false, Ordering::Relaxed);
        let mut full = Vec::new();
        let mut is_any_half_full = false;
        // Unlogged writes need no next log.
        let is_logged = commit
            .wal
            .as_ref()
            .is_some_and(|wal| !wal.writer.is_empty());
        for (index, active) in commit.families.iter().enumerate() {
            if let Some(charge) = &active.charge {
                charge.set(active.memtable.memory_bytes());
            }
            let bytes = active.memtable.filled_bytes();
            if bytes >= active.write_buffer_bytes || active.has_many_range_deletions() {
                full.push(index);
                continue;
            }
            active
                .family
                .set_next_switch_check(bytes, active.write_buffer_bytes);
            if bytes >= active.write_buffer_bytes / 2 {
                active
                    .family
                    .request_successor(&self.context.env.pool, &self.slots);
                is_any_half_full = true;
            }
        }
        if !full.is_empty() {
            self.switch_memtables(commit, full, FlushReason::WriteBufferFull)?;
            self.background.schedule_flushes();
        }
        self.watch_deleted_ranges(commit)?;
        self.check_wal_size(commit)?;
        if is_any_half_full && is_logged {
            self.wals.request_standby();
        }
        let manager = self.write_buffers.as_ref();
        if manager.is_some_and(WriteBufferManager::should_flush) {
            self.seal_largest_of_all(commit)?;
        }
        Ok(())
    }

    /// Makes writes check the ranges of deleted keys that scans have proposed to skip.
    fn watch_deleted_ranges(&self, commit: &mut CommitState) -> Result<()> {
        let mut is_drained = false;
        // Out of order a number is published before its entries are inserted: a scan at the last
        // one may have begun before they were. The next one is published after the drain.
        let is_unordered = self.context.db_options.unordered_write;
        let unwatched = commit.last_seqno + SeqNo::from(is_unordered);
        for index in 0..commit.families.len() {
            let active = &commit.families[index];
            let current = Arc::clone(&active.family.super_version.load().deleted_ranges);
            if !active.watched.is_outdated(&current) {
                continue;
            }
            if !is_drained {
                // Groups that are being inserted do not watch new ranges.
                self.queue.pipeline.drain()?;
                is_drained = true;
            }
            let order = active.family.order.clone();
            let renewed = active.watched.renewed(&current, &order, unwatched);
            Arc::make_mut(&mut commit.families)[index].watched = renewed;
        }
        Ok(())
    }

    /// Switches the memtables that keep the oldest log if the logs exceed `max_total_wal_size`.
    ///
    /// As in RocksDB, it does nothing in a database with a single column family.
    fn check_wal_size(self: &Arc<Self>, commit: &mut CommitState) -> Result<()> {
        commit.wal_check_bytes = u64::MAX;
        if commit.families.len() < 2 || commit.wal.is_none() {
            return Ok(());
        }
        let limit = self.wal_bytes_max(commit);
        let oldest = self.oldest_log_needed(commit)?;
        let closed = self.wals.closed_bytes_from(oldest);
        let current = commit.wal()?.writer.len();
        if closed.saturating_add(current) <= limit {
            commit.wal_check_bytes = limit.saturating_sub(closed).saturating_add(1);
            return Ok(());
        }
        self.switch_oldest_logged(commit, oldest)?;
        self.background.schedule_flushes();
        // The logs stay until the flush is done. Sealing more of them does not speed it up.
        let step = (limit / 8).max(4096);
        commit.wal_check_bytes = commit.wal()?.writer.len().saturating_add(step);
        Ok(())
    }

    /// The effective `max_total_wal_size`: if it is 0, 8 times the write buffers of all families.
    fn wal_bytes_max(&self, commit: &CommitState) -> u64 {
        let chosen = || {
            let memtables = commit.families.iter();
            memtables
                .map(|active| (active.write_buffer_bytes as u64).saturating_mul(8))
                .sum()
        };
        match self.context.mutable_options().max_total_wal_size {
            0 => chosen(),
            limit => limit,
        }
    }

    /// Whether memtables exceed the write buffer manager's limit, so that writes must stall.
    #[inline]
    pub(super) fn is_out_of_memory(&self) -> bool {
        let manager = self.write_buffers.as_ref();
        manager.is_some_and(WriteBufferManager::should_stall)
    }

    /// Waits until flushes have freed memory of the write buffer manager.
    ///
    /// Returns immediately if no flush can free much: readers may hold the memory of memtables that
    /// were flushed before, and writes do not wait for readers.
    #[cold]
    fn wait_for_memory(self: &Arc<Self>, commit: &mut CommitState, mode: CommitMode) -> Result<()> {
        let Some(manager) = &self.write_buffers else {
            return Ok(());
        };
        let mut begun = None;
        while manager.should_stall() {
            let mut is_flushing = false;
            for database in manager.databases() {
                is_flushing |= database.flush_all_sealed();
            }
            if !is_flushing {
                is_flushing = manager.should_flush() && self.seal_largest_of_all(commit)?;
            }
            if !is_flushing {
                break;
            }
            let left = self.remaining_wait(mode)?;
            if begun.is_none() {
                begun = Some(self.context.clock.now());
                self.counters.stopped_by_memory();
            }
            self.queue.waiting.release_left();
            let slice = left.min(Duration::from_millis(100));
            if !self.context.env.pool.wait(slice) {
                manager.wait(slice);
            }
            self.health.check_writable()?;
        }
        if let Some(begun) = begun {
            self.record_stall(self.context.clock.now().saturating_sub(begun));
        }
        Ok(())
    }

    /// Switches the largest memtable of all databases that share the write buffer manager.
    ///
    /// Returns `false` if there is none to switch.
    fn seal_largest_of_all(self: &Arc<Self>, commit: &mut CommitState) -> Result<bool> {
        let databases = self.write_buffers.iter().flat_map(|m| m.databases());
        let other = databases
            .filter(|other| other.id() != self.id())
            .filter_map(|other| Some((other.freeable_bytes_max()?, other)))
            .max_by_key(|(freeable_bytes, _)| *freeable_bytes);
        let own = commit
            .families
            .iter()
            .map(ColumnFamilyMemtable::freeable_bytes)
            .max();
        match other {
            Some((freeable_bytes, other))
                if freeable_bytes > own.unwrap_or(0) && self.context.env.pool.ensure_threads() =>
            {
                other.seal_largest_later();
                Ok(true)
            }
            _ => self.seal_largest(commit),
        }
    }

    /// Switches the largest memtable of this database; `false` if none uses memory to free.
    pub(crate) fn seal_largest(self: &Arc<Self>, commit: &mut CommitState) -> Result<bool> {
        let gains = commit
            .families
            .iter()
            .map(ColumnFamilyMemtable::freeable_bytes);
        let largest = gains
            .enumerate()
            .max_by_key(|(_, freeable_bytes)| *freeable_bytes);
        let Some((index, 1..)) = largest else {
            return Ok(false);
        };
        self.switch_memtables(commit, vec![index], FlushReason::WriteBufferManager)?;
        commit.families[index].family.request_flush();
        self.background.schedule_flushes();
        Ok(true)
    }
}

impl ManagedDatabase for CommitPipeline {
    fn id(&self) -> u64 {
        self.context.id
    }

    fn freeable_bytes_max(&self) -> Option<u64> {
        self.health.check_writable().ok()?;
        Some(self.families.freeable_bytes_max())
    }

    fn flush_all_sealed(&self) -> bool {
        if self.health.check_writable().is_err() {
            return false;
        }
        let is_any = self.families.request_flush_of_sealed();
        if is_any {
            self.background.schedule_flushes();
        }
        is_any
    }

    fn seal_largest_later(self: Arc<Self>) {
        if self.is_relieving.swap(true, Ordering::AcqRel) {
            return;
        }
        let pool = self.context.env.pool.clone();
        pool.submit_waiting(move || {
            if let Ok(_foreground) = self.slots.enter() {
                // The failure is stored, and later writes of this database report it.
                let _ = self.seal_largest(&mut self.queue.lead().commit);
                self.health.report_failures();
            }
            self.is_relieving.store(false, Ordering::Release);
        });
    }
}
