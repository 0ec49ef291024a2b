//! The write-ahead logs of a database: the one being written, closed ones, the standby and spares.
//!
//! The leader of the write queue owns the log being written ([`Wal`]) and passes it to [`WalSet`],
//! which owns all others and alone creates, numbers, syncs and removes logs. A log ends in one of
//! two ways: [`WalSet::switch`] closes it when a memtable is sealed, [`WalSet::abandon`] gives it
//! up after a failure. Closed logs are synced before a later log (O6). When no column family needs
//! them they are removed, moved to the archive, or become spares for later logs. Logs may use all storeys
//! below, `state` and downwards.

pub(crate) mod archive;
mod pinned_logs;
mod spare_logs;
mod standby_log;
mod sync_beside;
mod unsynced_logs;

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

use koeldb_base::error::{Severity, WriteOutcome};
use koeldb_base::file_name::{self, FileNumber};
use koeldb_base::perf::{self, PerfMetric};
use koeldb_base::stats::{HistogramKind, Ticker};
use koeldb_base::sync::lock_plain as lock;
use koeldb_base::{Result, SeqNo};
use koeldb_fs::{FileSystem, WritableFile, WriteOptions};
use koeldb_log::{RecordWriter, RecordWriterOptions, WalCompression};

use crate::batch::{HEADER_BYTES, Link, LinkKind};
use crate::options::{Compression, DbOptions};
use crate::state::context::Context;
use crate::state::counters::WriteCounters;
use crate::state::health::Health;
use crate::state::job_slots::JobSlots;

use archive::ArchiveLimits;
use pinned_logs::PinnedLogs;
use spare_logs::SpareLogs;
use standby_log::{EmptyLog, StandbyLog};
pub(crate) use sync_beside::SyncBeside;
use unsynced_logs::UnsyncedLogs;

/// The largest number of batches in a record.
pub(crate) const BATCHES_MAX: usize = 64;

/// The write-ahead log being written, owned by the write group leader.
pub(crate) struct Wal {
    pub(crate) writer: RecordWriter,
    pub(crate) number: FileNumber,
    /// Whether the directory entry of the log is durable.
    pub(crate) is_entry_synced: bool,
    /// Whether records were appended since the last sync.
    pub(crate) has_unsynced: bool,
    /// The number of the previous log, until a batch is written after the link to it.
    pub(crate) follows: Option<FileNumber>,
    /// Whether that link is written already.
    pub(crate) is_linked: bool,
    /// The number of the previous log, until this log records that it is durable.
    pub(crate) unconfirmed: Option<FileNumber>,
    /// The sequence number after the last logged batch.
    pub(crate) next_seqno: SeqNo,
    /// The state of the log's syncs concurrent with its writer, once one was requested.
    pub(crate) beside: Option<Arc<SyncBeside>>,
}

impl Wal {
    /// Whether no record was appended to this log.
    fn is_unwritten(&self) -> bool {
        !self.has_unsynced && self.writer.is_empty()
    }

    /// Encodes the link record with which a log begins that follows log `before`.
    fn link_to(&self, before: FileNumber) -> Vec<u8> {
        let kind = LinkKind::Follows;
        Link { before, kind }.encode(self.next_seqno)
    }

    /// Appends the record that the previous log is durable, unless this log has it already.
    fn confirm_previous(&mut self) -> Result<()> {
        let Some(before) = self.unconfirmed.take() else {
            return Ok(());
        };
        let kind = LinkKind::Durable;
        let link = Link { before, kind };
        self.writer.add_record(&link.encode(self.next_seqno))
    }

    /// Replaces the log by a new, empty one; returns the writer of the previous log.
    fn restart(&mut self, number: FileNumber, writer: RecordWriter) -> RecordWriter {
        self.number = number;
        self.is_linked = false;
        self.unconfirmed = None;
        self.has_unsynced = false;
        self.is_entry_synced = false;
        self.beside = None;
        std::mem::replace(&mut self.writer, writer)
    }
}

/// The manager of all write-ahead logs of a database; the one being written is passed to it.
pub(crate) struct WalSet {
    context: Arc<Context>,
    health: Arc<Health>,
    slots: Arc<JobSlots>,
    counters: Arc<WriteCounters>,
    /// Closed logs that are not durable yet.
    unsynced: UnsyncedLogs<RecordWriter>,
    standby: StandbyLog,
    spares: SpareLogs,
    /// Logs that are no longer written and not yet removed, with their sizes. Locked before the
    /// state of `pinned`.
    closed: Mutex<Vec<(FileNumber, u64)>>,
    /// Obsolete logs that update iterators need.
    pub(crate) pinned: PinnedLogs,
    /// The number of the first log that was created since the database was opened.
    first: OnceLock<FileNumber>,
}

impl WalSet {
    pub(crate) fn new(
        context: &Arc<Context>,
        health: &Arc<Health>,
        slots: &Arc<JobSlots>,
        counters: &Arc<WriteCounters>,
    ) -> Self {
        WalSet {
            context: Arc::clone(context),
            health: Arc::clone(health),
            slots: Arc::clone(slots),
            counters: Arc::clone(counters),
            unsynced: UnsyncedLogs::default(),
            standby: StandbyLog::default(),
            spares: SpareLogs::default(),
            closed: Mutex::new(Vec::new()),
            pinned: PinnedLogs::default(),
            first: OnceLock::new(),
        }
    }

    /// Sets the number of the first log created since the open; older logs are never recycled.
    pub(crate) fn begin_with(&self, first: FileNumber) {
        self.first.get_or_init(|| {
            self.spares.accept_from(first);
            first
        });
    }

    /// Returns the number of the first log created since the open; `None` if there is none.
    pub(crate) fn first_log(&self) -> Option<FileNumber> {
        self.first.get().copied()
    }

    /// Appends a write group's batches to the log as one record, and syncs the log if `sync`.
    ///
    /// `counts` are the number of operations in it and of sequence numbers that it takes. A failure
    /// stops writes: the group may be in the log, unless the log had failed before; then it is not.
    pub(crate) fn append(
        &self,
        wal: &mut Wal,
        first: SeqNo,
        records: &[&[u8]],
        counts: (u32, u32),
        sync: bool,
    ) -> Result<()> {
        let _timer = perf::timer(PerfMetric::WriteWalTime);
        self.check_log(wal)?;
        let (count, taken) = counts;
        let mut header = [0; HEADER_BYTES];
        header[..8].copy_from_slice(&first.to_le_bytes());
        header[8..].copy_from_slice(&count.to_le_bytes());
        let manual_flush = self.context.db_options.manual_wal_flush;
        let written = (|| {
            wal.has_unsynced = true;
            if let Some(before) = wal.follows.take() {
                wal.unconfirmed = Some(before);
                if !wal.is_linked {
                    wal.writer.add_record(&wal.link_to(before))?;
                }
            }
            match records {
                [records] => wal.writer.add_record_of(&[&header, records])?,
                _ => {
                    let mut parts = [&header[..]; 1 + BATCHES_MAX];
                    parts[1..=records.len()].copy_from_slice(records);
                    wal.writer.add_record_of(&parts[..=records.len()])?;
                }
            }
            wal.next_seqno = first + SeqNo::from(taken);
            if sync {
                self.sync_after_closed(wal)
            } else if manual_flush {
                Ok(())
            } else {
                wal.writer.flush()
            }
        })();
        if self.context.statistics.is_some() {
            let bytes: usize = records.iter().map(|records| records.len()).sum();
            self.context
                .count(Ticker::WalFileBytes, (bytes + HEADER_BYTES) as u64);
            self.context.count(Ticker::WriteWithWal, 1);
        }
        written.map_err(|error| {
            let severity = if manual_flush {
                Severity::Fatal
            } else {
                Severity::Hard
            };
            self.health
                .fail_writes(error.context("writing the log").with_severity(severity))
                .with_outcome(WriteOutcome::Indeterminate)
        })
    }

    /// Declares in the log that keys of these column families end with timestamps of these sizes.
    ///
    /// A failure stops writes; the batch that follows is then not in the log.
    pub(crate) fn declare_timestamps(&self, wal: &mut Wal, sizes: &[(u32, u16)]) -> Result<()> {
        self.check_log(wal)?;
        wal.writer.declare_timestamps(sizes).map_err(|error| {
            let error = error
                .context("writing the log")
                .with_severity(Severity::Hard);
            self.health
                .fail_writes(error)
                .with_outcome(WriteOutcome::NotApplied)
        })
    }

    /// Fails if the log has failed before, for example in a concurrent sync.
    #[inline]
    pub(crate) fn check_log(&self, wal: &Wal) -> Result<()> {
        match wal.writer.failure() {
            None => Ok(()),
            Some(error) => Err(self
                .sync_failed(error.clone())
                .with_outcome(WriteOutcome::NotApplied)),
        }
    }

    /// Writes the log's buffered records to the operating system (RocksDB: `FlushWAL(false)`).
    pub(crate) fn flush(&self, wal: &mut Wal) -> Result<()> {
        wal.writer
            .flush()
            .map_err(|error| self.health.fail_writes(error.with_severity(Severity::Hard)))
    }

    /// Syncs the closed logs and the current one (RocksDB: `SyncWAL`); a failure stops writes.
    pub(crate) fn sync(&self, wal: &mut Wal) -> Result<()> {
        let synced = self.sync_after_closed(wal);
        synced.map_err(|error| self.sync_failed(error))
    }

    /// Syncs the closed logs, and then the current one (O6); leaves a failure to the caller.
    fn sync_after_closed(&self, wal: &mut Wal) -> Result<()> {
        let turn = self.unsynced.take_turn();
        turn.sync(|| self.context.fs.sync_dir(&self.context.wal_dir))?;
        wal.take_over_syncs();
        if wal.is_unwritten() {
            // Whether a log without records survives a crash does not matter.
            return Ok(());
        }
        if wal.has_unsynced || !wal.is_entry_synced {
            // The first sync of a log records that the logs before it are durable. If they are
            // missing nevertheless, no crash explains it.
            wal.confirm_previous()?;
            let begun = self.context.measures().then(|| self.context.clock.now());
            wal.writer.sync()?;
            if let Some(begun) = begun {
                self.context
                    .record_elapsed(HistogramKind::WalFileSyncMicros, begun);
            }
            wal.has_unsynced = false;
        }
        if !wal.is_entry_synced {
            self.context.fs.sync_dir(&self.context.wal_dir)?;
            wal.is_entry_synced = true;
        }
        self.counters.log_synced();
        self.context.count(Ticker::WalFileSynced, 1);
        Ok(())
    }

    /// Syncs the closed logs that are not durable yet, and their directory entries.
    pub(crate) fn sync_closed(&self) -> Result<()> {
        self.unsynced
            .sync(|| self.context.fs.sync_dir(&self.context.wal_dir))
    }

    /// Switches to a new log, unless the current one is empty; returns whether it switched.
    ///
    /// The entries of the old log are in memtables.
    pub(crate) fn switch(&self, wal: &mut Wal) -> Result<bool> {
        if wal.writer.is_empty() {
            return Ok(false);
        }
        self.flush(wal)?;
        let (number, writer, is_linked) = self.begin_behind(wal).map_err(|error| {
            // Without a new log no memtable can be sealed, and the active one would grow without
            // bound.
            let error = error.context("creating a log");
            self.health.fail_writes(error.with_severity(Severity::Hard))
        })?;
        wal.take_over_syncs();
        // Behind remains RocksDB would refuse tables of later logs after a power cut.
        let is_durable = !wal.has_unsynced && wal.is_entry_synced && !wal.writer.has_remains();
        let previous_number = wal.number;
        let previous = wal.restart(number, writer);
        wal.follows = Some(previous_number);
        wal.is_linked = is_linked;
        let previous_bytes = previous.len();
        if !is_durable {
            self.unsynced.add(previous_number, previous);
        } else if let Err(error) = previous.close() {
            self.context
                .info_log
                .warn(format_args!("closing a log: {error}"));
        }
        // A log in this list may become a spare, so this thread no longer has its file.
        lock(&self.closed).push((previous_number, previous_bytes));
        Ok(true)
    }

    /// Begins the log that follows `wal`; also returns whether its link to `wal` is written.
    ///
    /// In a reused file the link comes first: where remains are all that a log has, RocksDB, opened
    /// for transactions, keeps it and takes each later log for one behind a gap.
    fn begin_behind(&self, wal: &Wal) -> Result<(FileNumber, RecordWriter, bool)> {
        let (number, mut writer) = self.begin()?;
        let is_linked = writer.has_remains();
        if is_linked {
            let written = writer.add_preface(&wal.link_to(wal.number));
            if let Err(error) = written.and_then(|()| writer.flush()) {
                drop(writer);
                self.remove_empty(number, Ok(()));
                return Err(error);
            }
        }
        Ok((number, writer, is_linked))
    }

    /// Abandons a log after a failed write, and starts a new log in a new file.
    ///
    /// The old log is not touched again. An unwritten log with a durable name can be used further.
    pub(crate) fn abandon(&self, wal: &mut Wal, next_seqno: SeqNo) -> Result<()> {
        let turn = self.unsynced.take_turn();
        wal.take_over_syncs();
        // The numbers of a batch that was written but not synced are reused for the next one.
        wal.next_seqno = next_seqno;
        // A standby log was created before the failure. A later sync of the directory does not show
        // whether its name is durable.
        self.forget_standby();
        if wal.writer.failure().is_none() && wal.writer.is_empty() && wal.is_entry_synced {
            self.spares.accept_from(wal.number);
            turn.give_up();
            return Ok(());
        }
        self.spares.accept_from(FileNumber::MAX);
        let EmptyLog { number, file } = self.create_log()?;
        let writer = wal_writer(file, number, &self.context.db_options)?;
        self.spares.accept_from(number);
        let failed_number = wal.number;
        self.pinned.record_abandoned(failed_number, next_seqno);
        let failed = wal.restart(number, writer);
        // Before the new log is written, every column family is flushed past the failed one.
        wal.follows = None;
        if failed.failure().is_none() && failed.is_empty() {
            self.remove_empty(failed_number, failed.close());
        } else {
            lock(&self.closed).push((failed_number, failed.len()));
        }
        turn.give_up();
        Ok(())
    }

    /// Adds synced logs of an earlier session, whose entries recovery kept in memtables.
    pub(crate) fn adopt(&self, logs: Vec<(FileNumber, u64)>) {
        lock(&self.closed).extend(logs);
    }

    /// Returns the closed logs that are not yet obsolete, with their sizes.
    pub(crate) fn closed(&self) -> Vec<(FileNumber, u64)> {
        lock(&self.closed).clone()
    }

    /// Returns the total size of the closed logs that are not yet obsolete.
    pub(crate) fn closed_bytes(&self) -> u64 {
        self.closed_bytes_from(0)
    }

    /// Returns the total size of the closed logs from number `first` on.
    pub(crate) fn closed_bytes_from(&self, first: FileNumber) -> u64 {
        let closed = lock(&self.closed);
        let live = closed.iter().filter(|(number, _)| *number >= first);
        live.map(|(_, bytes)| bytes).sum()
    }

    /// Removes, archives or recycles the obsolete logs: those before number `min_needed`.
    ///
    /// A log that cannot be removed is an orphan that the next open removes.
    pub(crate) fn remove_before(&self, min_needed: FileNumber) {
        let unused = {
            let mut logs = lock(&self.closed);
            let (old, live) = logs.iter().partition(|(number, _)| *number < min_needed);
            *logs = live;
            // Under the mutex: a log that is still there is always in one of the two lists.
            self.pinned.retire(old)
        };
        let limits = ArchiveLimits::of(&self.context.db_options);
        if limits.is_none() {
            self.unsynced.close_before(min_needed);
        }
        let is_any = !unused.is_empty();
        for (number, _) in unused {
            self.remove(number, limits.is_some());
        }
        if let Some(limits) = limits
            && is_any
        {
            self.purge_archive(limits);
        }
    }

    /// Removes archived logs beyond the limits of age and size, except those that iterators need.
    fn purge_archive(&self, limits: ArchiveLimits) {
        let fs = &*self.context.fs;
        let now = self.context.clock.unix_micros() / 1_000_000;
        let needed_from = self.pinned.oldest_pin();
        let purged = archive::purge(fs, &self.context.wal_dir, limits, now, needed_from);
        if let Err(error) = purged {
            let log = &self.context.info_log;
            log.warn(format_args!("removing archived logs: {error}"));
        }
    }

    /// Removes an obsolete log, recycles it as a spare, or archives it if `is_archived`.
    ///
    /// A log with batches that never took effect is not archived.
    fn remove(&self, number: FileNumber, is_archived: bool) {
        let path = file_name::wal(&self.context.wal_dir, number);
        let removed = if is_archived && !self.pinned.was_abandoned(number) {
            archive::keep(&*self.context.fs, &self.context.wal_dir, number)
        } else {
            match self.keep_spare(number, &path) {
                Ok(true) => Ok(()),
                Ok(false) => self.context.fs.remove_file(&path),
                Err(error) => Err(error),
            }
        };
        if let Err(error) = removed {
            self.context
                .info_log
                .warn(format_args!("removing {}: {error}", path.display()));
        }
    }

    /// Syncs and closes the log being written, and removes the standby log and the spare logs.
    ///
    /// A failed log is never touched again; a healthy one is synced even after other failures.
    pub(crate) fn close(&self, wal: Option<Wal>) -> Result<()> {
        let closed = match wal {
            Some(mut wal) if wal.writer.failure().is_none() => {
                let synced = self.sync_after_closed(&mut wal);
                synced.and_then(|()| wal.writer.close())
            }
            _ => Ok(()),
        };
        self.forget_standby();
        self.remove_spares();
        closed
    }
}

/// Creates the file of a new WAL.
pub(crate) fn new_wal_file(
    fs: &dyn FileSystem,
    directory: &Path,
    number: FileNumber,
    options: &WriteOptions,
) -> Result<Box<dyn WritableFile>> {
    fs.create(&file_name::wal(directory, number), options)
}

/// Creates the record writer of log `number` on its empty file.
pub(crate) fn wal_writer(
    file: Box<dyn WritableFile>,
    number: FileNumber,
    db: &DbOptions,
) -> Result<RecordWriter> {
    let compression = match db.wal_compression {
        Compression::Zstd => WalCompression::Zstd,
        _ => WalCompression::None,
    };
    let options = RecordWriterOptions {
        compression,
        recyclable: (db.recycle_log_file_num > 0).then_some(number),
    };
    RecordWriter::new(file, options)
}
