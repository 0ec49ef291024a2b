//! The holder of the parts of an open database, and the operations that need several of them.
//!
//! [`crate::db::Db`] and [`crate::ColumnFamily`] hold a handle to it; dropping the last handle
//! closes the database. Each part owns its state and its rules, and holds the parts it needs:
//!
//! - [`Context`]: file system, clock, paths, options, log, listeners.
//! - [`Health`]: the life cycle, and the failures that stop writes.
//! - [`ColumnFamilySet`]: the live column families, and the stalls they impose.
//! - [`Visibility`]: the published sequence number and the snapshots.
//! - [`WalSet`]: all logs but the one being written.
//! - [`Tree`]: the version set and obsolete files.
//! - [`Background`]: flushes and compactions.
//! - [`CommitPipeline`]: the write queue, and the log being written.
//!
//! Lock order: leadership of the write queue, the version set, the state of a column family, all
//! others. Readers take none of them. Listeners and loggers are called without locks.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use koeldb_base::sync::lock_plain as lock;
use koeldb_base::{Error, ErrorKind, Result};
use koeldb_fs::FileLock;
use koeldb_fs::read_driver::AsyncReads;
use koeldb_lsm::version::VersionSet;
use koeldb_table::block_based::scan_reads::{ENGINE_BYTES, ScanEngine};

use crate::background::Background;
use crate::column_family_data::ColumnFamilyData;
use crate::column_family_set::ColumnFamilySet;
use crate::context::Context;
use crate::counters::WriteCounters;
use crate::health::Health;
use crate::job_slots::JobSlots;
use crate::open::RecoveryReport;
use crate::options::{CompactRangeOptions, FlushOptions, WriteOptions};
use crate::read::KeyBounds;
use crate::secondary::Secondary;
use crate::transaction::Transactions;
use crate::tree::{Tree, TreeParts};
use crate::visibility::Visibility;
use crate::wal_set::WalSet;
use crate::write::batch::WriteBatch;
use crate::write::commit::{CommitPipeline, CommitState, WriteParts};
use crate::write_stall::WriteStall;

pub(crate) static NEXT_DATABASE: AtomicU64 = AtomicU64::new(1);

/// The parts of an open database.
pub(crate) struct DbInner {
    pub(crate) context: Arc<Context>,
    pub(crate) health: Arc<Health>,
    pub(crate) slots: Arc<JobSlots>,
    pub(crate) families: Arc<ColumnFamilySet>,
    pub(crate) visibility: Arc<Visibility>,
    pub(crate) wals: Arc<WalSet>,
    pub(crate) tree: Arc<Tree>,
    pub(crate) background: Arc<Background>,
    pub(crate) commit: Arc<CommitPipeline>,
    pub(crate) transactions: Arc<Transactions>,
    /// The primary database that this one follows.
    pub(crate) secondary: Option<Secondary>,
    pub(crate) recovery_report: RecoveryReport,
    /// The engine and the limits of asynchronous reads.
    pub(crate) async_reads: AsyncReads,
    /// The engine for the readahead of scans.
    pub(crate) scan_engine: Arc<ScanEngine>,
    /// Held while the OPTIONS file is rewritten.
    pub(crate) options_file: Mutex<()>,
    file_lock: Mutex<Option<Box<dyn FileLock>>>,
}

/// The components of a `DbInner`, for `open`.
pub(crate) struct Parts {
    pub(crate) context: Context,
    pub(crate) recovery_report: RecoveryReport,
    pub(crate) async_reads: AsyncReads,
    pub(crate) families: BTreeMap<u32, Arc<ColumnFamilyData>>,
    pub(crate) commit: CommitState,
    pub(crate) versions: VersionSet,
    pub(crate) file_lock: Option<Box<dyn FileLock>>,
    pub(crate) secondary: Option<Secondary>,
}

impl DbInner {
    pub(crate) fn new(parts: Parts) -> Self {
        let context = Arc::new(parts.context);
        let stall = Arc::new(WriteStall::default());
        let counters = Arc::new(WriteCounters::default());
        let slots = Arc::new(JobSlots::new(context.env.pool.clone()));
        let health = Arc::new(Health::new(&context, &stall, &slots));
        let families = Arc::new(ColumnFamilySet::new(parts.families, &context, &stall));
        let visibility = Arc::new(Visibility::new(parts.commit.last_seqno));
        let wals = Arc::new(WalSet::new(&context, &health, &slots, &counters));
        let owners = TreeParts {
            context: &context,
            health: &health,
            slots: &slots,
            families: &families,
            visibility: &visibility,
            wals: &wals,
        };
        let tree = Arc::new(Tree::new(parts.versions, &owners));
        let background = Arc::new(Background::new(&tree, &owners));
        let transactions = Arc::new(Transactions::new(context.plugins.transactions.clone()));
        let write_parts = WriteParts {
            background: &background,
            stall: &stall,
            counters: &counters,
            carried: Arc::clone(&transactions) as _,
        };
        let commit = CommitPipeline::new(parts.commit, write_parts, &owners);
        DbInner {
            secondary: parts.secondary,
            transactions,
            commit: Arc::new(commit),
            background,
            tree,
            wals,
            visibility,
            families,
            health,
            slots,
            context,
            recovery_report: parts.recovery_report,
            scan_engine: ScanEngine::new(parts.async_reads.clone(), ENGINE_BYTES),
            async_reads: parts.async_reads,
            options_file: Mutex::new(()),
            file_lock: Mutex::new(parts.file_lock),
        }
    }

    /// Writes a batch; locks its keys meanwhile if transactions are pessimistic.
    #[inline]
    pub(crate) fn write(&self, batch: &WriteBatch, options: &WriteOptions) -> Result<()> {
        if self.context.table_files.ttl.is_some() {
            return self.write_with_times(batch, options);
        }
        let _locks = self.lock_keys_of(batch)?;
        self.commit.write(batch, options)
    }

    pub(crate) fn flush_wal(&self, sync: bool) -> Result<()> {
        self.health.check_open()?;
        if self.context.read_only {
            return self.health.check_writable();
        }
        let flushed = {
            let mut leadership = self.commit.queue.lead();
            // The current log is not the one with the caller's writes.
            if self.health.gave_up_logs()
                && let Some(failure) = self.health.failure()
            {
                return Err(failure);
            }
            let wal = leadership.commit.wal()?;
            match sync {
                true => self.wals.sync(wal),
                false => self.wals.flush(wal),
            }
        };
        self.health.report_failures();
        flushed
    }

    /// Seals the memtables of `families` and, if requested, waits for their flush.
    pub(crate) fn flush_families(
        &self,
        families: &[Arc<ColumnFamilyData>],
        options: &FlushOptions,
    ) -> Result<()> {
        self.health.check_writable()?;
        let _foreground = self.slots.enter()?;
        let sealed = self.commit.seal_families(families);
        if sealed.is_err() {
            self.health.report_failures();
        }
        sealed?;
        self.background.schedule();
        if options.wait {
            self.background.wait_until_flushed(families)?;
        }
        Ok(())
    }

    /// Flushes `family`, and compacts `bounds` of it down to the last level in use.
    pub(crate) fn compact_range(
        &self,
        family: &Arc<ColumnFamilyData>,
        bounds: &KeyBounds,
        options: &CompactRangeOptions,
    ) -> Result<()> {
        self.flush_families(std::slice::from_ref(family), &FlushOptions::new())?;
        self.background.compact_range(family, bounds, options)
    }

    /// Flushes data that no log contains, when the database is closed.
    fn flush_unlogged(&self) -> Result<()> {
        if self.context.mutable_options().avoid_flush_during_shutdown {
            return Ok(());
        }
        for family in self.commit.seal_unlogged()? {
            self.background.flush_until_empty(&family)?;
        }
        Ok(())
    }

    /// Closes the database for every handle.
    ///
    /// Later calls fail, running operations end, and the log is made durable. A forked child leaves
    /// the database to its parent.
    pub(crate) fn close(&self) -> Result<()> {
        if self.context.is_forked() {
            return Err(Error::with_kind(
                ErrorKind::Aborted,
                "a forked child cannot close the database of its parent",
            ));
        }
        if !self.health.begin_closing() {
            return Ok(());
        }
        let flushed = if self.context.read_only || self.health.has_failed() {
            Ok(())
        } else {
            self.flush_unlogged()
        };
        self.slots.shut_down();
        if let Some(secondary) = &self.secondary {
            secondary.close();
        }
        let wal = self.commit.queue.lead().commit.wal.take();
        let synced = self.wals.close(wal);
        self.tree.remove_obsolete_files();
        self.health.report_failures();
        self.health.finish_closing();
        *lock(&self.file_lock) = None;
        self.context.info_log.info(format_args!("closed"));
        flushed
            .and(synced)
            .and(self.health.failure().map_or(Ok(()), Err))
    }
}
