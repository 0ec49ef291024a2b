//! The shared state of an open database and its life cycle: open, failed, resumed, closed.
//!
//! [`crate::db::Db`] and [`crate::ColumnFamily`] hold a handle; background work holds the inner
//! [`DbInner`]. Dropping the last handle closes the database.
//!
//! Lock order: leadership of the write queue, the version set, the state of a column family, all
//! others. Readers take none of them. Listeners and loggers are called without locks.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use koeldb_base::error::{Severity, WriteOutcome};
use koeldb_base::file_name::FileNumber;
use koeldb_base::sabotage::{Sabotage, is_on};
use koeldb_base::stats::{HistogramKind, Ticker};
use koeldb_base::sync::lock_plain as lock;
use koeldb_base::{Error, ErrorKind, Result, SeqNo};
use koeldb_fs::FileLock;
use koeldb_fs::read_driver::AsyncReads;
use koeldb_log::RecordWriter;
use koeldb_lsm::version::VersionSet;
use koeldb_table::block_based::scan_reads::{ENGINE_BYTES, ScanEngine};

use crate::background::Background;
use crate::column_family_data::ColumnFamilyData;
use crate::context::Context;
use crate::counters::WriteCounters;
use crate::failures::Failures;
use crate::listener::Event;
use crate::open::RecoveryReport;
use crate::options::WriteOptions;
use crate::purge::Purge;
use crate::snapshot::SnapshotList;
use crate::transaction::Transactions;
use crate::write::batch::WriteBatch;
use crate::write::commit::check_entry;
use crate::write::queue::{CommitMode, Insertion, StallTimeout, WriteQueue};
use crate::write::stall::WriteStall;
use crate::write::standby_log::StandbyLog;
use crate::write::unsynced_logs::UnsyncedLogs;
use crate::write_buffers::WriteBufferManager;

pub(crate) static NEXT_DATABASE: AtomicU64 = AtomicU64::new(1);

/// States of the life cycle of a database.
const OPEN: u8 = 0;
const CLOSING: u8 = 1;
const CLOSED: u8 = 2;

/// State shared by all parts of an open database.
pub(crate) struct DbInner {
    // Constant after open.
    pub(crate) context: Arc<Context>,
    pub(crate) recovery_report: RecoveryReport,
    /// The engine and the limits of asynchronous reads.
    pub(crate) async_reads: AsyncReads,
    /// The engine for the readahead of scans.
    pub(crate) scan_engine: Arc<ScanEngine>,
    // Fields with internal synchronization.
    pub(crate) families: RwLock<BTreeMap<u32, Arc<ColumnFamilyData>>>,
    pub(crate) queue: WriteQueue,
    visible: AtomicU64,
    /// A memtable has reached its check size: the next leader checks all of them.
    pub(crate) check_due: AtomicBool,
    /// Whether a batch was written with the WAL disabled.
    pub(crate) has_unlogged: AtomicBool,
    pub(crate) write_buffers: Option<WriteBufferManager>,
    /// Whether a job is scheduled that seals a memtable on behalf of another database.
    pub(crate) is_relieving: AtomicBool,
    pub(crate) write_counters: WriteCounters,
    pub(crate) snapshots: SnapshotList,
    pub(crate) transactions: Transactions,
    pub(crate) stall: WriteStall,
    pub(crate) background: Background,
    pub(crate) purge: Purge,
    pub(crate) unsynced_logs: UnsyncedLogs<RecordWriter>,
    pub(crate) standby_log: StandbyLog,
    /// Logs that are no longer written and not yet removed, with their sizes.
    pub(crate) closed_logs: Mutex<Vec<(FileNumber, u64)>>,
    life: AtomicU8,
    failures: Failures,
    resuming: Mutex<()>,
    /// A resume has abandoned logs whose data is not in tables yet.
    gave_up_logs: AtomicBool,
    /// Held while the OPTIONS file is rewritten.
    pub(crate) options_file: Mutex<()>,
    // Fields under their own mutex.
    /// Held while the MANIFEST is written; readers and writers are not blocked.
    pub(crate) versions: Mutex<VersionSet>,
    pub(crate) file_lock: Mutex<Option<Box<dyn FileLock>>>,
}

/// The components of a `DbInner`, for `open`.
pub(crate) struct Parts {
    pub(crate) context: Context,
    pub(crate) recovery_report: RecoveryReport,
    pub(crate) async_reads: AsyncReads,
    pub(crate) families: BTreeMap<u32, Arc<ColumnFamilyData>>,
    pub(crate) commit: crate::write::commit::CommitState,
    pub(crate) versions: VersionSet,
    pub(crate) file_lock: Option<Box<dyn FileLock>>,
}

impl DbInner {
    pub(crate) fn new(parts: Parts) -> Self {
        let last_seqno = parts.commit.last_seqno;
        let insertion = Insertion::of(&parts.context.db_options);
        let write_buffers = parts.context.table_files.memtables.write_buffers.clone();
        DbInner {
            background: Background::new(parts.context.env.pool.clone()),
            transactions: Transactions::new(parts.context.plugins.transactions.clone()),
            context: Arc::new(parts.context),
            recovery_report: parts.recovery_report,
            scan_engine: ScanEngine::new(parts.async_reads.clone(), ENGINE_BYTES),
            async_reads: parts.async_reads,
            families: RwLock::new(parts.families),
            queue: WriteQueue::new(parts.commit, insertion),
            visible: AtomicU64::new(last_seqno),
            check_due: AtomicBool::new(false),
            has_unlogged: AtomicBool::new(false),
            write_buffers,
            is_relieving: AtomicBool::new(false),
            write_counters: WriteCounters::default(),
            snapshots: SnapshotList::default(),
            stall: WriteStall::default(),
            purge: Purge::default(),
            unsynced_logs: UnsyncedLogs::default(),
            standby_log: StandbyLog::default(),
            closed_logs: Mutex::new(Vec::new()),
            resuming: Mutex::new(()),
            gave_up_logs: AtomicBool::new(false),
            options_file: Mutex::new(()),
            life: AtomicU8::new(OPEN),
            failures: Failures::default(),
            versions: Mutex::new(parts.versions),
            file_lock: Mutex::new(parts.file_lock),
        }
    }

    /// The sequence number of the latest visible write.
    #[inline]
    pub(crate) fn visible_seqno(&self) -> SeqNo {
        self.visible.load(Ordering::Acquire)
    }

    /// Makes all entries up to `seqno` visible.
    #[inline]
    pub(crate) fn publish(&self, seqno: SeqNo) {
        self.visible.store(seqno, Ordering::Release);
    }

    /// Returns all live column families, by id.
    pub(crate) fn all_families(&self) -> Vec<Arc<ColumnFamilyData>> {
        let families = self
            .families
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        families.values().cloned().collect()
    }

    /// Applies the stall conditions of all column families to writers.
    pub(crate) fn update_stall(&self) {
        self.stall.set(|| {
            let families = self.all_families();
            families
                .into_iter()
                .map(|family| family.read(|state| state.stall))
        });
    }

    /// Reports changed stall conditions to listeners; must be called without locks.
    pub(crate) fn announce_stall(&self) {
        for family in self.all_families() {
            let changed = family.update(|state| {
                let is_same = std::mem::discriminant(&state.stall)
                    == std::mem::discriminant(&state.announced);
                state.announced = state.stall;
                (!is_same).then_some(state.stall)
            });
            if let Some(condition) = changed {
                self.context.info_log.info(format_args!(
                    "[{}] stall condition: {condition:?}",
                    family.name
                ));
                self.context.notify(&Event::StallConditionsChanged {
                    column_family: &family.name,
                    condition,
                });
            }
        }
    }

    // The life of the database.

    #[inline]
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.life.load(Ordering::Acquire) == OPEN {
            return Ok(());
        }
        Err(Error::with_kind(
            ErrorKind::ShutdownInProgress,
            "the database is closed",
        ))
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.life.load(Ordering::Acquire) != OPEN
    }

    /// Whether writes are accepted; the stored error if not.
    #[inline]
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.check_open()?;
        if !self.context.read_only && !self.failures.is_any() {
            return Ok(());
        }
        Err(self.write_refusal())
    }

    #[cold]
    fn write_refusal(&self) -> Error {
        if self.context.read_only {
            return Error::not_supported("the database was opened read-only")
                .with_outcome(WriteOutcome::NotApplied);
        }
        match self.failures.first() {
            Some(error) => error.with_outcome(WriteOutcome::NotApplied),
            None => Error::with_kind(ErrorKind::Busy, "the database resumes"),
        }
    }

    /// The error that stopped writes, if one did.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.failures.first()
    }

    /// Stores the first error that stops writes, wakes all waiting threads, and returns the error.
    #[cold]
    pub(crate) fn fail_writes(&self, error: Error) -> Error {
        self.failures.store(&error);
        self.stall.notify();
        self.background.notify();
        error
    }

    /// Reports failures to the log and to listeners, and starts automatic resume if possible.
    ///
    /// Must be called without locks.
    pub(crate) fn report_failures(self: &Arc<Self>) {
        if !self.failures.is_any() {
            return;
        }
        for error in self.failures.take_unreported() {
            self.context.info_log.log(
                crate::options::LogLevel::Error,
                format_args!("writes are refused: {error}"),
            );
            self.context.notify(&Event::BackgroundError(&error));
            self.context.count(Ticker::ErrorHandlerBgErrorCount, 1);
        }
        self.begin_resuming();
    }

    /// Handles a failed change of the MANIFEST.
    ///
    /// A rejection before writing affects only the caller; after that the state on disk is unknown,
    /// and writes stop (O21).
    pub(crate) fn manifest_failed(&self, error: Error) -> Error {
        let severity = match error.kind() {
            ErrorKind::InvalidArgument | ErrorKind::ColumnFamilyDropped => return error,
            ErrorKind::Corruption => Severity::Unrecoverable,
            _ => Severity::Hard,
        };
        self.fail_writes(
            error
                .context("writing the MANIFEST")
                .with_severity(severity),
        )
    }

    /// Accepts writes again after a repair; fails if there were more than `count` failures.
    fn clear_failure(&self, count: u64) -> Result<()> {
        self.failures.clear(count)?;
        self.context
            .info_log
            .info(format_args!("writes are accepted again"));
        self.context.notify(&Event::Resumed);
        self.stall.notify();
        Ok(())
    }

    /// Repairs the effects of a hard error.
    ///
    /// Every column family is flushed past the failed log, which is no longer written.
    pub(crate) fn resume(self: &Arc<Self>) -> Result<()> {
        let _foreground = self.background.enter()?;
        let Ok(_only_one) = self.resuming.try_lock() else {
            return Err(Error::with_kind(ErrorKind::Busy, "somebody else resumes"));
        };
        if self.failure().is_none() {
            return Ok(());
        }
        // Flushes that began before the failure rely on logs that are abandoned here.
        self.wait_for_flushes();
        let count = self.failures.count();
        let Some(failure) = self.failure() else {
            return Ok(());
        };
        if failure.severity() > Severity::Hard {
            return Err(failure.context("this error requires a reopen"));
        }
        {
            let mut leadership = self.queue.lead();
            self.gave_up_logs.store(true, Ordering::Release);
            self.abandon_wal(&mut leadership.commit)?;
            self.apply_standing_decisions(&mut leadership.commit)?;
            if !is_on(Sabotage::ResumeWithoutFlush) {
                self.seal_memtables(&mut leadership.commit)?;
            }
        }
        if !is_on(Sabotage::ResumeWithoutFlush) {
            self.flush_all_as_one()?;
        }
        self.gave_up_logs.store(false, Ordering::Release);
        self.forget_decided();
        self.clear_failure(count)?;
        self.schedule();
        Ok(())
    }

    // Writes.

    /// Writes a batch; locks its keys meanwhile if transactions are pessimistic.
    #[inline]
    pub(crate) fn write(
        self: &Arc<Self>,
        batch: &WriteBatch,
        options: &WriteOptions,
    ) -> Result<()> {
        let _locks = self.lock_keys_of(batch)?;
        self.write_unlocked(batch, options)
    }

    /// Writes a batch whose keys are locked, if they need to be.
    #[inline]
    pub(crate) fn write_unlocked(
        self: &Arc<Self>,
        batch: &WriteBatch,
        options: &WriteOptions,
    ) -> Result<()> {
        let mode = self.check_write(batch, options)?;
        let begun = self.context.measures().then(|| self.context.clock.now());
        let written = self.queue.write(self, batch.records(), batch.count(), mode);
        if written.is_err() {
            self.report_failures();
        }
        written?;
        if let Some(begun) = begun {
            self.context.record_elapsed(HistogramKind::DbWrite, begun);
        }
        Ok(())
    }

    /// Rejects a batch that must not reach the log, and contradictory options.
    #[inline]
    pub(crate) fn check_write(
        &self,
        batch: &WriteBatch,
        options: &WriteOptions,
    ) -> Result<CommitMode> {
        if !batch.belongs_to(self.context.id) {
            return Err(Error::invalid_argument(
                "the batch names a column family of another database",
            )
            .with_outcome(WriteOutcome::NotApplied));
        }
        batch.check_size()?;
        if options.sync && options.disable_wal {
            return Err(
                Error::invalid_argument("sync and disable_wal exclude each other")
                    .with_outcome(WriteOutcome::NotApplied),
            );
        }
        self.check_batch(batch)?;
        Ok(CommitMode {
            sync: options.sync,
            disable_wal: options.disable_wal,
            no_slowdown: options.no_slowdown,
            stall_timeout: options
                .stall_timeout
                .map(|limit| StallTimeout::new(limit, &*self.context.clock)),
        })
    }

    /// Rejects batches that must not reach the log: unknown column families, keys no table can
    /// hold.
    fn check_batch(&self, batch: &WriteBatch) -> Result<()> {
        let families = self
            .families
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut known: Option<&Arc<ColumnFamilyData>> = None;
        for entry in batch {
            use crate::write::batch::BatchEntry;
            let entry = entry?;
            let is_range = matches!(entry, BatchEntry::DeleteRange { .. });
            let (cf, key, value) = match entry {
                BatchEntry::Put { cf, key, value } => (cf, key, value),
                BatchEntry::Delete { cf, key } | BatchEntry::SingleDelete { cf, key } => {
                    (cf, key, &[][..])
                }
                BatchEntry::DeleteRange { cf, from, to } => (cf, from, to),
                BatchEntry::Merge { cf, key, operand } => (cf, key, operand),
                BatchEntry::PutEntity { cf, key, entity } => (cf, key, entity),
                BatchEntry::LogData(_) => continue,
            };
            let family = match known {
                Some(family) if family.id == cf => family,
                _ => {
                    let found = families.get(&cf).filter(|family| !family.is_dropped());
                    let family = found.ok_or_else(|| {
                        Error::with_kind(
                            ErrorKind::ColumnFamilyDropped,
                            format!("the batch names column family {cf}, which was dropped or never existed"),
                        )
                        .with_outcome(WriteOutcome::NotApplied)
                    })?;
                    known = Some(family);
                    family
                }
            };
            if is_range && family.order.compare(key, value).is_gt() {
                return Err(Error::invalid_argument(
                    "delete_range: the end of the range comes before its start",
                )
                .with_outcome(WriteOutcome::NotApplied));
            }
            check_entry(&family.order, key, value)?;
        }
        Ok(())
    }

    pub(crate) fn flush_wal(self: &Arc<Self>, sync: bool) -> Result<()> {
        self.check_open()?;
        if self.context.read_only {
            return self.check_writable();
        }
        let flushed = {
            let mut leadership = self.queue.lead();
            // The current log is not the one with the caller's writes.
            if self.gave_up_logs.load(Ordering::Acquire)
                && let Some(failure) = self.failure()
            {
                return Err(failure);
            }
            if sync {
                self.sync_wal(&mut leadership.commit)
            } else {
                let flushed = leadership.commit.wal()?.writer.flush();
                flushed.map_err(|error| self.fail_writes(error.with_severity(Severity::Hard)))
            }
        };
        self.report_failures();
        flushed
    }

    // Closing.

    /// Closes the database for every handle.
    ///
    /// Later calls fail, running operations end, and the log is made durable. A forked child leaves
    /// the database to its parent.
    pub(crate) fn close(self: &Arc<Self>) -> Result<()> {
        if self.context.is_forked() {
            return Err(Error::with_kind(
                ErrorKind::Aborted,
                "a forked child cannot close the database of its parent",
            ));
        }
        if self
            .life
            .compare_exchange(OPEN, CLOSING, Ordering::AcqRel, Ordering::Acquire)
            .is_err()
        {
            return Ok(());
        }
        self.stall.notify();
        let flushed = if self.context.read_only || self.failures.is_any() {
            Ok(())
        } else {
            self.flush_unlogged()
        };
        self.background.shut_down();
        let wal = self.queue.lead().commit.wal.take();
        let synced = match wal {
            // A failed log is never touched again; a healthy one is synced even after other
            // failures.
            Some(mut wal) if wal.writer.failure().is_none() => {
                let synced = match is_on(Sabotage::CloseWithoutSync) {
                    true => Ok(()),
                    false => wal.sync(self),
                };
                synced.and_then(|()| wal.writer.close())
            }
            _ => Ok(()),
        };
        self.forget_log();
        self.remove_obsolete_files();
        self.report_failures();
        self.life.store(CLOSED, Ordering::Release);
        *lock(&self.file_lock) = None;
        self.context.info_log.info(format_args!("closed"));
        flushed.and(synced).and(self.failure().map_or(Ok(()), Err))
    }
}
