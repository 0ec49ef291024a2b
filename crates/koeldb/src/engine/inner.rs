//! The holder of the parts of an open database, and the operations that need several of them.
//!
//! [`crate::api::db::Db`], [`crate::ColumnFamily`], cursors and snapshots share it; dropping the last of
//! them closes the database. Each part owns its state and its rules, and holds the parts it needs:
//!
//! - [`Context`]: file system, clock, paths, options, log, listeners.
//! - [`Health`]: the life cycle, and the failures that stop writes.
//! - [`ColumnFamilySet`]: the live column families, and their queues of work.
//! - [`Visibility`]: the published sequence number and the snapshots.
//! - [`Reads`]: what reads need, and the engines of device reads.
//! - [`WalSet`]: all logs but the one being written.
//! - [`Tree`]: the version set, the OPTIONS file, and obsolete files.
//! - [`Background`]: flushes, compactions and scrubs.
//! - [`CommitPipeline`]: the write queue, and the log being written.
//! - [`KeyLocks`], [`PreparedTransactions`]: what transactions share.
//! - [`Resume`]: resuming after failures.
//! - [`Secondary`]: following a primary database.
//!
//! Lock order: leadership of the write queue, the version set, the state of a column family, all
//! others. Readers take none of them. Listeners and loggers are called without locks.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use koeldb_base::sync::lock_plain as lock;
use koeldb_base::{Error, ErrorKind, Result};
use koeldb_fs::FileLock;
use koeldb_fs::read_driver::AsyncReads;
use koeldb_lsm::version::VersionSet;

use crate::background::Background;
use crate::commit::key_locks::KeyLocks;
use crate::commit::prepared::PreparedTransactions;
use crate::commit::protocol::{CommitPipeline, CommitState, WriteParts};
use crate::engine::reads::Reads;
use crate::engine::resume::Resume;
use crate::engine::secondary::Secondary;
use crate::report::listener::Event;
use crate::state::column_family_data::ColumnFamilyData;
use crate::state::column_family_set::ColumnFamilySet;
use crate::state::context::Context;
use crate::state::counters::WriteCounters;
use crate::state::health::Health;
use crate::state::job_slots::JobSlots;
use crate::state::visibility::Visibility;
use crate::state::write_stall::WriteStall;
use crate::tree::{Tree, TreeParts};
use crate::wal::WalSet;

/// The id of the next database that this process opens ([`Context::id`]).
pub(crate) static NEXT_DATABASE: AtomicU64 = AtomicU64::new(1);

/// The shared state of an open database (RocksDB: `DBImpl`); dropping it closes the database.
///
/// Aligned so that the reference count is not on the lines that every read loads.
#[repr(align(128))]
pub(crate) struct DbInner {
    pub(crate) default: Arc<ColumnFamilyData>,
    pub(crate) reads: Reads,
    pub(crate) context: Arc<Context>,
    pub(crate) health: Arc<Health>,
    pub(crate) slots: Arc<JobSlots>,
    pub(crate) families: Arc<ColumnFamilySet>,
    pub(crate) visibility: Arc<Visibility>,
    pub(crate) wals: Arc<WalSet>,
    pub(crate) tree: Arc<Tree>,
    pub(crate) background: Arc<Background>,
    pub(crate) commit: Arc<CommitPipeline>,
    pub(crate) key_locks: Arc<KeyLocks>,
    pub(crate) prepared: Arc<PreparedTransactions>,
    pub(crate) resume: Arc<Resume>,
    /// The part that follows the primary, in a secondary or follower.
    pub(crate) secondary: Option<Arc<Secondary>>,
    file_lock: Mutex<Option<Box<dyn FileLock>>>,
}

/// The recovered components from which `open` constructs a [`DbInner`].
pub(crate) struct Parts {
    pub(crate) context: Context,
    pub(crate) async_reads: AsyncReads,
    pub(crate) default: Arc<ColumnFamilyData>,
    pub(crate) families: BTreeMap<u32, Arc<ColumnFamilyData>>,
    pub(crate) commit: CommitState,
    pub(crate) versions: VersionSet,
    pub(crate) file_lock: Option<Box<dyn FileLock>>,
    pub(crate) secondary: Option<Secondary>,
}

impl DbInner {
    pub(crate) fn new(parts: Parts) -> Self {
        let context = Arc::new(parts.context);
        let stall = Arc::new(WriteStall::new(&context.table_files.urgent));
        let counters = Arc::new(WriteCounters::default());
        let slots = Arc::new(JobSlots::new(context.env.pool.clone()));
        let health = Arc::new(Health::new(&context, &stall, &slots));
        let families = Arc::new(ColumnFamilySet::new(
            &parts.default,
            parts.families,
            &context,
            &stall,
        ));
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
        let key_locks = Arc::new(KeyLocks::new(&context, &health));
        let prepared = Arc::new(PreparedTransactions::new(&key_locks));
        let write_parts = WriteParts {
            tree: &tree,
            background: &background,
            stall: &stall,
            counters: &counters,
            carried: Arc::clone(&prepared) as _,
        };
        let commit = Arc::new(CommitPipeline::new(parts.commit, write_parts, &owners));
        let resume = Arc::new(Resume::new(&commit, &prepared));
        DbInner {
            default: parts.default,
            key_locks,
            prepared,
            reads: Reads::new(&context, &health, &visibility, parts.async_reads),
            resume,
            secondary: parts.secondary.map(Arc::new),
            commit,
            background,
            tree,
            wals,
            visibility,
            families,
            health,
            slots,
            context,
            file_lock: Mutex::new(parts.file_lock),
        }
    }

    /// Closes the database for all handles, also those that still exist (RocksDB: `DB::Close`).
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
        self.context.notify(&Event::ShutdownBegin);
        let flushed = if self.context.read_only || self.health.has_failed() {
            Ok(())
        } else {
            self.commit.flush_unlogged()
        };
        self.slots.cancelled.store(true, Ordering::Relaxed);
        if let Some(service) = &self.context.plugins.compaction_service {
            service.cancel_awaiting_jobs();
        }
        self.slots.shut_down();
        if let Some(secondary) = &self.secondary {
            secondary.close();
        }
        let wal = {
            let mut leadership = self.commit.queue.lead();
            for family in self.families.all() {
                family.read(|state| state.active.retire());
            }
            leadership.commit.wal.take()
        };
        // A resume may have flushed what the close could not.
        let flushed = flushed.or_else(|error| {
            let families = self.families.all();
            let has_unflushed =
                |family: &Arc<ColumnFamilyData>| family.read(|state| state.has_unflushed());
            match families.iter().any(has_unflushed) {
                true => Err(error),
                false => Ok(()),
            }
        });
        let synced = self.wals.close(wal);
        let verified = self.verify_manifest();
        self.tree.remove_obsolete_files();
        self.health.report_failures();
        self.health.finish_closing();
        self.context.table_files.open_tables.close();
        *lock(&self.file_lock) = None;
        if let Some(manager) = &self.context.plugins.sst_file_manager {
            manager.tables_removed();
        }
        self.context.info_log.info(format_args!("closed"));
        flushed
            .and(synced)
            .and(verified)
            .and(self.health.failure().map_or(Ok(()), Err))
    }

    /// Verifies the MANIFEST if `verify_manifest_content_on_close` is set; replaces a damaged one.
    fn verify_manifest(&self) -> Result<()> {
        let is_wanted = self
            .context
            .mutable_options()
            .verify_manifest_content_on_close;
        if !is_wanted || self.context.read_only || self.health.has_failed() {
            return Ok(());
        }
        if let Some(damage) = self.tree.versions().verify_manifest()? {
            let log = &self.context.info_log;
            log.warn(format_args!(
                "the MANIFEST was damaged and is replaced: {damage}"
            ));
        }
        Ok(())
    }
}

impl Drop for DbInner {
    fn drop(&mut self) {
        if self.context.is_forked() {
            return;
        }
        if let Err(error) = self.close() {
            self.context.info_log.warn(format_args!("closing: {error}"));
        }
    }
}

/// A column family handle that keeps its database open (RocksDB: `ColumnFamilyHandle`).
///
/// Clones share one reference count: a clone and its drop cost one pair of locked instructions.
#[derive(Clone)]
pub(crate) struct OpenColumnFamily {
    parts: Arc<FamilyParts>,
}

/// The shared content of an [`OpenColumnFamily`]: its database and its column family data.
///
/// Aligned so that the reference count, which every cursor changes, is on a cache line of its own.
#[repr(align(128))]
struct FamilyParts {
    inner: Arc<DbInner>,
    data: Arc<ColumnFamilyData>,
}

impl OpenColumnFamily {
    fn new(inner: &Arc<DbInner>, data: Arc<ColumnFamilyData>) -> Self {
        let inner = Arc::clone(inner);
        OpenColumnFamily {
            parts: Arc::new(FamilyParts { inner, data }),
        }
    }

    /// Returns a handle to the default column family.
    pub(crate) fn default_of(inner: &Arc<DbInner>) -> Self {
        Self::new(inner, Arc::clone(&inner.default))
    }

    /// Returns a handle to the column family `data` of the same database.
    pub(crate) fn sibling(&self, data: Arc<ColumnFamilyData>) -> Self {
        Self::new(self.inner(), data)
    }

    #[inline]
    pub(crate) fn inner(&self) -> &Arc<DbInner> {
        &self.parts.inner
    }

    #[inline]
    pub(crate) fn data(&self) -> &Arc<ColumnFamilyData> {
        &self.parts.data
    }
}
