//! The work of the leader of the write queue: making room, log, memtables, publication.
//!
//! Only the leader accesses [`CommitState`]. A group becomes one log record; its entries get
//! consecutive sequence numbers; the last one is published when all entries are in the memtables,
//! so that no reader sees a part of a batch. A failed log is never used again: no write is
//! acknowledged from a later one until every column family was flushed past it
//! (`docs/reliability.md`, O20).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use koeldb_base::error::{Severity, WriteOutcome};
use koeldb_base::file_name::FileNumber;
use koeldb_base::key::MAX_SEQNO;
use koeldb_base::limits::ENTRY_BYTES_MAX;
use koeldb_base::sabotage::{Sabotage, is_on};
use koeldb_base::stats::Ticker;
use koeldb_base::sync::lock_plain as lock;
use koeldb_base::{Error, ErrorKind, Result, SeqNo};
use koeldb_log::RecordWriter;
use koeldb_memtable::Memtable;

use super::apply::{insert, position_of};
use super::batch::{HEADER_BYTES, Link, LinkKind};
use super::queue::{CommitEnv, CommitMode};
use crate::column_family_data::ColumnFamilyData;
use crate::inner::DbInner;
use crate::memtables::{LoggedMemtable, write_buffer_bytes};
use crate::write_buffers::{Charge, WriteBufferManager};

/// The log being written.
pub(crate) struct Wal {
    pub(crate) writer: RecordWriter,
    pub(crate) number: FileNumber,
    /// Whether its directory entry is durable.
    pub(crate) is_entry_synced: bool,
    /// Whether there are records since the last sync.
    pub(crate) has_unsynced: bool,
    /// The previous log, until the link to it is written.
    pub(crate) follows: Option<FileNumber>,
    /// The previous log, until this log records that it is durable.
    pub(crate) unconfirmed: Option<FileNumber>,
    /// The sequence number after the last logged batch.
    pub(crate) next_seqno: SeqNo,
}

impl Wal {
    /// Makes everything written so far durable, the logs before this one first (O6).
    pub(crate) fn sync(&mut self, inner: &DbInner) -> Result<()> {
        if !is_on(Sabotage::YoungerLogFirst) {
            inner.sync_closed_logs()?;
        }
        if self.has_unsynced || !self.is_entry_synced {
            // The first sync of a log records that the logs before it are durable. If they are
            // missing nevertheless, no crash explains it.
            if let Some(before) = self.unconfirmed.take() {
                let kind = LinkKind::Durable;
                let link = Link { before, kind };
                self.writer.add_record(&link.encode(self.next_seqno))?;
            }
            match is_on(Sabotage::UnsyncedLog) {
                true => self.writer.flush()?,
                false => self.writer.sync()?,
            }
            self.has_unsynced = false;
        }
        if !self.is_entry_synced && !is_on(Sabotage::UnsyncedDirectoryOfLog) {
            inner.context.fs.sync_dir(&inner.context.wal_dir)?;
            self.is_entry_synced = true;
        }
        inner.write_counters.log_synced();
        inner.context.count(Ticker::WalFileSynced, 1);
        Ok(())
    }
}

/// The view of a column family that the leader keeps.
#[derive(Clone)]
pub(crate) struct ColumnFamilyMemtable {
    pub(crate) family: Arc<ColumnFamilyData>,
    pub(crate) memtable: Arc<Memtable>,
    pub(crate) charge: Option<Arc<Charge>>,
    pub(crate) write_buffer_bytes: usize,
}

impl ColumnFamilyMemtable {
    /// Returns the column family with its current memtable.
    pub(crate) fn of(family: &Arc<ColumnFamilyData>) -> Self {
        family.read(|state| ColumnFamilyMemtable {
            family: Arc::clone(family),
            memtable: Arc::clone(&state.active.memtable),
            charge: state.active.charge.clone(),
            write_buffer_bytes: write_buffer_bytes(&state.options),
        })
    }

    /// The memory that sealing its memtable can free.
    fn freeable_bytes(&self) -> u64 {
        match &self.charge {
            Some(charge) if !self.memtable.is_empty() => charge.bytes(),
            _ => 0,
        }
    }
}

/// State that only the leader accesses.
pub(crate) struct CommitState {
    pub(crate) wal: Option<Wal>,
    pub(crate) last_seqno: SeqNo,
    /// By ascending id; shared with the members of a group while they insert.
    pub(crate) families: Arc<Vec<ColumnFamilyMemtable>>,
}

impl CommitState {
    pub(crate) fn position_of(&self, id: u32) -> Option<usize> {
        position_of(&self.families, id)
    }

    pub(crate) fn wal(&mut self) -> Result<&mut Wal> {
        self.wal.as_mut().ok_or_else(|| {
            Error::with_kind(ErrorKind::ShutdownInProgress, "the database is closed")
        })
    }
}

fn not_applied(error: Error) -> Error {
    error.with_outcome(WriteOutcome::NotApplied)
}

impl CommitEnv for DbInner {
    fn commit_group(
        self: &Arc<Self>,
        commit: &mut CommitState,
        records: &[u8],
        count: u32,
        mode: CommitMode,
    ) -> Result<SeqNo> {
        self.make_room(commit, records.len(), mode)
            .map_err(not_applied)?;
        let first = commit.last_seqno + 1;
        if commit.last_seqno + SeqNo::from(count) > MAX_SEQNO {
            return Err(not_applied(Error::invalid_argument(
                "the sequence numbers of the database are exhausted",
            )));
        }
        if !mode.disable_wal && !records.is_empty() {
            if is_on(Sabotage::PublishedEarly) {
                self.publish(commit.last_seqno + SeqNo::from(count));
            }
            self.write_log(commit, first, records, (count, count), mode.sync)?;
        } else if mode.sync {
            self.sync_wal(commit)?;
        } else {
            if count > 0 && !self.has_unlogged.load(Ordering::Relaxed) {
                // Published with the entries.
                self.has_unlogged.store(true, Ordering::Relaxed);
            }
        }
        commit.last_seqno = first - 1 + SeqNo::from(count);
        if self.context.statistics.is_some() {
            self.context
                .count(Ticker::NumberKeysWritten, u64::from(count));
            self.context
                .count(Ticker::BytesWritten, records.len() as u64);
            self.context.count(Ticker::WriteDoneBySelf, 1);
        }
        Ok(first)
    }

    #[inline]
    fn count_committed(&self, batches: usize, bytes: usize, mode: CommitMode) {
        self.write_counters
            .committed(batches as u64, bytes as u64, !mode.disable_wal);
    }

    #[inline]
    fn insert(
        &self,
        families: &[ColumnFamilyMemtable],
        records: &[u8],
        first: SeqNo,
    ) -> Result<bool> {
        insert(families, records, first)
    }

    /// Handles the result of an insertion.
    ///
    /// Schedules a check of memtables that have grown, and stops writes if the entries of a group
    /// were not inserted: their batch is in the log, and partially in the memtables.
    #[inline]
    fn handle_insertion(&self, inserted: Result<bool>) -> Result<()> {
        match inserted {
            Ok(false) => Ok(()),
            Ok(true) => {
                self.check_due.store(true, Ordering::Release);
                Ok(())
            }
            Err(error) => {
                let error = error.with_severity(Severity::Fatal);
                Err(self.fail_writes(error.with_outcome(WriteOutcome::Indeterminate)))
            }
        }
    }

    #[inline]
    fn publish(&self, seqno: SeqNo) {
        self.publish(seqno);
    }

    fn remaining_wait(&self, mode: CommitMode) -> Result<Duration> {
        // Queued writers are not woken when a stall begins.
        const SLICE: Duration = Duration::from_millis(5);
        let is_stalled = !self.stall.is_normal() || self.is_out_of_memory();
        if mode.no_slowdown && is_stalled {
            return Err(not_applied(Error::with_kind(
                ErrorKind::Incomplete,
                "writes are stalled, and no_slowdown is set",
            )));
        }
        let left = match mode.stall_timeout {
            Some(stall_timeout) => stall_timeout.left(&*self.context.clock),
            None => Duration::MAX,
        };
        if left.is_zero() && is_stalled {
            return Err(not_applied(Error::with_kind(
                ErrorKind::TimedOut,
                "writes were stalled for longer than stall_timeout",
            )));
        }
        Ok(if left.is_zero() || mode.no_slowdown {
            SLICE
        } else {
            left
        })
    }
}

impl DbInner {
    /// Writes a record to the log.
    ///
    /// `counts` are the number of operations in the record and of sequence numbers that it takes,
    /// which differ for two-phase transactions.
    pub(crate) fn write_log(
        &self,
        commit: &mut CommitState,
        first: SeqNo,
        records: &[u8],
        counts: (u32, u32),
        sync: bool,
    ) -> Result<()> {
        let (count, taken) = counts;
        let mut header = [0; HEADER_BYTES];
        header[..8].copy_from_slice(&first.to_le_bytes());
        header[8..].copy_from_slice(&count.to_le_bytes());
        let manual_flush = self.context.db_options.manual_wal_flush;
        let written = (|| {
            let wal = commit.wal()?;
            wal.has_unsynced = true;
            if let Some(before) = wal.follows.take() {
                wal.unconfirmed = Some(before);
                let kind = LinkKind::Follows;
                let link = Link { before, kind };
                wal.writer.add_record(&link.encode(wal.next_seqno))?;
            }
            wal.writer.add_record_of(&[&header, records])?;
            wal.next_seqno = first + SeqNo::from(taken);
            if sync {
                wal.sync(self)
            } else if manual_flush {
                Ok(())
            } else {
                wal.writer.flush()
            }
        })();
        if self.context.statistics.is_some() {
            self.context
                .count(Ticker::WalFileBytes, (records.len() + HEADER_BYTES) as u64);
            self.context.count(Ticker::WriteWithWal, 1);
        }
        written.map_err(|error| {
            let severity = if manual_flush {
                Severity::Fatal
            } else {
                Severity::Hard
            };
            self.fail_writes(error.context("writing the log").with_severity(severity))
                .with_outcome(WriteOutcome::Indeterminate)
        })
    }

    pub(crate) fn sync_wal(&self, commit: &mut CommitState) -> Result<()> {
        let synced = match commit.wal() {
            Ok(wal) => wal.sync(self),
            Err(closed) => return Err(closed),
        };
        synced.map_err(|error| {
            self.fail_writes(
                error
                    .context("syncing the log")
                    .with_severity(Severity::Hard),
            )
        })
    }

    /// Rejects the write if necessary, waits as required, and seals full memtables.
    #[inline]
    pub(crate) fn make_room(
        self: &Arc<Self>,
        commit: &mut CommitState,
        bytes: usize,
        mode: CommitMode,
    ) -> Result<()> {
        self.check_writable()?;
        if !self.stall.is_normal() {
            self.wait_out_stall(bytes, mode)?;
        }
        if self.check_due.load(Ordering::Relaxed) {
            self.check_memtable_sizes(commit)?;
        }
        if self.is_out_of_memory() {
            self.wait_for_memory(commit, mode)?;
        }
        Ok(())
    }

    #[cold]
    fn wait_out_stall(self: &Arc<Self>, bytes: usize, mode: CommitMode) -> Result<()> {
        self.remaining_wait(mode)?;
        let begun = self.context.clock.now();
        while self.stall.is_stopped() {
            self.schedule();
            self.update_stall();
            let left = self.remaining_wait(mode)?;
            let slice = left.min(Duration::from_millis(100));
            if !self.context.env.pool.wait(slice) {
                self.stall.wait(slice);
            }
            self.check_writable()?;
        }
        self.stall.delay(&*self.context.clock, bytes, || {
            self.remaining_wait(mode)?;
            self.check_writable()
        })?;
        self.record_stall(begun);
        Ok(())
    }

    fn record_stall(&self, begun: Duration) {
        let waited = self.context.clock.now().saturating_sub(begun);
        self.write_counters.stalled(waited);
        self.context.count(
            Ticker::StallMicros,
            u64::try_from(waited.as_micros()).unwrap_or(u64::MAX),
        );
    }

    /// Whether writes wait because memtables exceed the memory limit.
    #[inline]
    fn is_out_of_memory(&self) -> bool {
        let manager = self.write_buffers.as_ref();
        manager.is_some_and(WriteBufferManager::should_stall)
    }

    /// Waits until flushes of any database that shares the limit have freed memory.
    ///
    /// Returns immediately if there is nothing to flush.
    #[cold]
    fn wait_for_memory(self: &Arc<Self>, commit: &mut CommitState, mode: CommitMode) -> Result<()> {
        let Some(manager) = &self.write_buffers else {
            return Ok(());
        };
        let begun = self.context.clock.now();
        while manager.should_stall() {
            let left = self.remaining_wait(mode)?;
            let mut is_flushing = false;
            for database in manager.databases() {
                is_flushing |= database.flush_all_sealed();
            }
            if !is_flushing && !self.seal_largest_of_all(commit)? {
                break;
            }
            let slice = left.min(Duration::from_millis(100));
            if !self.context.env.pool.wait(slice) {
                manager.wait(slice);
            }
            self.check_writable()?;
        }
        self.record_stall(begun);
        Ok(())
    }

    /// Requests a flush of all sealed memtables, however small; returns whether there are any.
    fn flush_all_sealed(self: &Arc<Self>) -> bool {
        if self.check_writable().is_err() {
            return false;
        }
        let mut is_any = false;
        for family in self.all_families() {
            family.update(|state| {
                state.flush_requested |= !state.sealed.is_empty();
                is_any |= !state.sealed.is_empty();
            });
        }
        if is_any {
            self.schedule_flushes();
        }
        is_any
    }

    /// Seals the largest memtable of all databases that share the limit; `false` if there is none.
    fn seal_largest_of_all(self: &Arc<Self>, commit: &mut CommitState) -> Result<bool> {
        let databases = self.write_buffers.iter().flat_map(|m| m.databases());
        let other = databases
            .filter(|other| other.context.id != self.context.id && other.check_writable().is_ok())
            .map(|other| (other.freeable_bytes_max(), other))
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

    /// Seals the largest memtable; `false` if there is none.
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
        self.switch_memtable(commit, index)?;
        commit.families[index]
            .family
            .update(|state| state.flush_requested = true);
        self.schedule_flushes();
        Ok(true)
    }

    /// Checks the memtables after one has reached its check size.
    ///
    /// Seals full ones, requests successors and the next log for those that will be full soon, and
    /// updates memory charges.
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
            if bytes >= active.write_buffer_bytes {
                full.push(index);
                continue;
            }
            active
                .family
                .set_next_check(bytes, active.write_buffer_bytes);
            if bytes >= active.write_buffer_bytes / 2 {
                self.request_successor(&active.family);
                is_any_half_full = true;
            }
        }
        if !full.is_empty() {
            for index in full {
                self.switch_memtable(commit, index)?;
            }
            if self.is_wal_over_limit(commit) {
                self.switch_oldest_logged(commit)?;
            }
            self.schedule_flushes();
        }
        if is_any_half_full && is_logged {
            self.request_log();
        }
        let manager = self.write_buffers.as_ref();
        if manager.is_some_and(WriteBufferManager::should_flush) {
            self.seal_largest_of_all(commit)?;
        }
        Ok(())
    }

    /// Whether the total size of the logs exceeds `max_total_wal_size`.
    fn is_wal_over_limit(&self, commit: &CommitState) -> bool {
        if commit.families.len() < 2 {
            return false;
        }
        let limit = match self.context.mutable_options().max_total_wal_size {
            0 => commit
                .families
                .iter()
                .map(|active| (active.write_buffer_bytes as u64).saturating_mul(8))
                .sum(),
            limit => limit,
        };
        let current = commit.wal.as_ref().map_or(0, |wal| wal.writer.len());
        let closed: u64 = lock(&self.closed_logs).iter().map(|(_, bytes)| bytes).sum();
        closed + current > limit
    }

    /// Seals the memtables that keep the oldest log alive.
    fn switch_oldest_logged(&self, commit: &mut CommitState) -> Result<()> {
        let current = commit.wal()?.number;
        let needed: Vec<FileNumber> = commit
            .families
            .iter()
            .map(|active| active.family.oldest_log_needed(current))
            .collect();
        let Some(&oldest) = needed.iter().min() else {
            return Ok(());
        };
        for (index, &log) in needed.iter().enumerate() {
            if log == oldest && !commit.families[index].memtable.is_empty() {
                self.switch_memtable(commit, index)?;
                commit.families[index]
                    .family
                    .update(|state| state.flush_requested = true);
            }
        }
        Ok(())
    }

    /// Seals the memtable of the column family at `index`; starts a new memtable and a new log.
    pub(crate) fn switch_memtable(&self, commit: &mut CommitState, index: usize) -> Result<()> {
        self.switch_wal(commit)?;
        let log = commit.wal()?.number;
        let active = &mut Arc::make_mut(&mut commit.families)[index];
        if let Some(charge) = &active.charge {
            charge.set(active.memtable.memory_bytes());
            charge.seal();
        }
        active.memtable.seal();
        let family = Arc::clone(&active.family);
        let options = family.options();
        let next = LoggedMemtable {
            first_log: log,
            ..family.take_successor(&options)
        };
        next.activate();
        active.memtable = Arc::clone(&next.memtable);
        active.charge.clone_from(&next.charge);
        active.write_buffer_bytes = write_buffer_bytes(&options);
        family.set_next_check(next.memtable.filled_bytes(), active.write_buffer_bytes);
        family.seal_active(self.context.delayed_write_rate(), next);
        self.update_stall();
        Ok(())
    }

    /// Seals the nonempty memtables, and makes the others start with the current log.
    pub(crate) fn seal_memtables(&self, commit: &mut CommitState) -> Result<()> {
        self.queue.pipeline.drain();
        for index in 0..commit.families.len() {
            if !commit.families[index].memtable.is_empty() {
                self.switch_memtable(commit, index)?;
            }
        }
        let log = commit.wal()?.number;
        for active in commit.families.iter() {
            active.family.update(|state| {
                if state.active.memtable.is_empty() {
                    state.active.first_log = log;
                }
            });
        }
        Ok(())
    }

    /// Syncs the logs that are no longer written, with their directory entries.
    pub(crate) fn sync_closed_logs(&self) -> Result<()> {
        self.unsynced_logs
            .sync(|| self.context.fs.sync_dir(&self.context.wal_dir))
    }

    /// Abandons a log that failed or may have a failed batch, and starts a new one.
    ///
    /// The old log is not touched again. An unwritten log with a durable name can be used further.
    pub(crate) fn abandon_wal(&self, commit: &mut CommitState) -> Result<()> {
        let unsynced = self.unsynced_logs.block_syncs();
        let next_seqno = commit.last_seqno + 1;
        let wal = commit.wal()?;
        // The numbers of a batch that was written but not synced are reused for the next one.
        wal.next_seqno = next_seqno;
        // A standby log was created before the failure. A later sync of the directory does not show
        // whether its name is durable.
        self.forget_log();
        if wal.writer.failure().is_none() && wal.writer.is_empty() && wal.is_entry_synced {
            unsynced.discard();
            return Ok(());
        }
        let (number, writer) = self.begin_log()?;
        self.purge
            .pinned_logs
            .note_abandoned(wal.number, next_seqno);
        let failed = std::mem::replace(&mut wal.writer, writer);
        if failed.failure().is_none() && failed.is_empty() {
            self.remove_empty_log(wal.number, failed.close());
        } else {
            lock(&self.closed_logs).push((wal.number, failed.len()));
        }
        wal.number = number;
        // Before the new log is written, every column family is flushed past the failed one.
        wal.follows = None;
        wal.unconfirmed = None;
        wal.has_unsynced = false;
        wal.is_entry_synced = false;
        unsynced.discard();
        self.move_sections(commit)
    }

    /// Starts a new log, unless the current one is empty; the entries of the old one are in
    /// memtables.
    pub(crate) fn switch_wal(&self, commit: &mut CommitState) -> Result<()> {
        self.queue.pipeline.drain();
        let wal = commit.wal()?;
        if wal.writer.is_empty() {
            return Ok(());
        }
        wal.writer
            .flush()
            .map_err(|error| self.fail_writes(error.with_severity(Severity::Hard)))?;
        let (number, writer) = self.begin_log().map_err(|error| {
            if is_on(Sabotage::LogCreationErrorNotStored) {
                return error;
            }
            // Without a new log no memtable can be sealed, and the active one would grow without
            // bound.
            let error = error.context("creating a log");
            self.fail_writes(error.with_severity(Severity::Hard))
        })?;
        let previous = std::mem::replace(&mut wal.writer, writer);
        let is_durable = !wal.has_unsynced && wal.is_entry_synced;
        lock(&self.closed_logs).push((wal.number, previous.len()));
        wal.follows = Some(wal.number);
        wal.unconfirmed = None;
        wal.number = number;
        wal.has_unsynced = false;
        wal.is_entry_synced = false;
        if !is_durable {
            self.unsynced_logs.add(previous);
        } else if let Err(error) = previous.close() {
            self.context
                .info_log
                .warn(format_args!("closing a log: {error}"));
        }
        // A column family without unflushed data needs no older log.
        for active in commit.families.iter() {
            active.family.update(|state| {
                if state.active.memtable.is_empty() {
                    state.active.first_log = number;
                }
            });
        }
        self.move_sections(commit)
    }
}

/// Checks for entries that a format cannot hold, before anything is written.
pub(crate) fn check_entry(order: &koeldb_base::KeyOrder, key: &[u8], value: &[u8]) -> Result<()> {
    let bytes = key.len().saturating_add(value.len());
    if bytes > ENTRY_BYTES_MAX {
        return Err(not_applied(Error::invalid_argument(format!(
            "key and value are too large: {bytes} bytes, at most {ENTRY_BYTES_MAX}"
        ))));
    }
    if matches!(order, koeldb_base::KeyOrder::Uint64) && key.len() != 8 {
        return Err(not_applied(Error::invalid_argument(format!(
            "rocksdb.Uint64Comparator needs keys of 8 bytes, but this one has {}",
            key.len()
        ))));
    }
    Ok(())
}
