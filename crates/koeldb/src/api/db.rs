//! The database handle: an open database and its default column family.

mod futures;
mod snapshot_reads;
mod ttl;

use std::cell::Cell;
use std::fmt;
use std::ops::RangeBounds;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use koeldb_base::stats::{Statistics, StatisticsSnapshot, Ticker};
use koeldb_base::{Error, ErrorKind, Result, SeqNo};
use koeldb_lsm::version::BlobFileMeta;
use koeldb_lsm::{FileMeta, TableOpener};

use crate::api::column_family::{ColumnFamily, ColumnFamilyDescriptor};
use crate::batch::WriteBatch;
use crate::engine::secondary::CatchUpReport;
use crate::options::{
    ColumnFamilyOptions, CompactRangeOptions, FlushOptions, Options, WriteOptions,
};
use crate::read::snapshot::Snapshot;
use crate::report::stats_history::StatsHistoryEntry;
use crate::report::{RecoveryReport, ScrubReport, SettingWithoutEffect};
use crate::state::column_family_data::ColumnFamilyData;
use crate::state::visibility::SnapshotPurpose;

use crate::engine::inner::{DbInner, OpenColumnFamily};

/// An open database. It is cheap to clone and can be used by any number of threads.
#[derive(Clone)]
pub struct Db {
    default: ColumnFamily,
}

impl Db {
    pub(crate) fn from_inner(inner: &Arc<DbInner>) -> Self {
        Db {
            default: ColumnFamily::new(OpenColumnFamily::default_of(inner)),
        }
    }

    pub(crate) fn inner(&self) -> &Arc<DbInner> {
        self.default.inner()
    }

    /// Returns a handle to a column family of this database.
    fn family(&self, data: Arc<ColumnFamilyData>) -> ColumnFamily {
        ColumnFamily::new(self.default.open().sibling(data))
    }

    /// Opens a new database in memory, with all features and without files.
    ///
    /// Its content is lost when its last handle is dropped. [`Env::mem_env`](crate::Env::mem_env)
    /// opens one with options, or several that share a file system.
    ///
    /// # Errors
    /// None are expected.
    pub fn temporary() -> Result<Db> {
        let mut options = Options::new();
        options
            .create_if_missing(true)
            .set_env(&crate::Env::mem_env());
        Db::open(&options, "/temporary")
    }

    /// The report of recovery at open.
    #[must_use]
    pub fn recovery_report(&self) -> &RecoveryReport {
        &self.inner().context.recovery_report
    }

    /// Returns the options that differ from their default but have no effect in this engine.
    ///
    /// They could only change speed, space or statistics. An open also writes them to LOG and
    /// reports them as [`Event::SettingsWithoutEffect`](crate::Event::SettingsWithoutEffect).
    #[must_use]
    pub fn settings_without_effect(&self) -> Vec<SettingWithoutEffect> {
        self.inner().families.settings_without_effect()
    }

    /// Closes the database for every handle, after operations in flight, and makes the log durable.
    ///
    /// Later calls return `ShutdownInProgress`; closing again does nothing.
    ///
    /// A close waits for running jobs, and for one sync of the log if it has unsynced writes. Closes
    /// of different databases do not wait for each other: many are closed fastest by a thread each.
    ///
    /// # Errors
    /// If acknowledged data could not be made durable; `Aborted` in a forked child, which leaves a
    /// database to its parent.
    pub fn close(&self) -> Result<()> {
        self.inner().close()
    }

    /// The directory of the database, as an absolute path in the real file system.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.inner().context.path
    }

    /// The unique id of the database (RocksDB's `GetDbIdentity`).
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.inner().context.identity
    }

    /// The current options of the database and of the default column family.
    #[must_use]
    pub fn options(&self) -> Options {
        let mutable = self
            .inner()
            .context
            .mutable
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        Options {
            db: mutable.clone(),
            cf: self.default.options(),
            plugins: self.inner().context.plugins.clone(),
            mended: Vec::new(),
        }
    }

    /// The default column family.
    #[inline]
    #[must_use]
    pub fn default_cf(&self) -> &ColumnFamily {
        &self.default
    }

    /// Returns the open column family of this name.
    #[must_use]
    pub fn cf_handle(&self, name: &str) -> Option<ColumnFamily> {
        let families = self.inner().families.all();
        let found = families
            .into_iter()
            .find(|family| *family.name == *name && !family.is_dropped())?;
        Some(self.family(found))
    }

    /// Returns all open column families, by id.
    #[must_use]
    pub fn cf_handles(&self) -> Vec<ColumnFamily> {
        self.inner()
            .families
            .all()
            .into_iter()
            .map(|family| self.family(family))
            .collect()
    }

    /// Creates a column family.
    ///
    /// # Errors
    /// `InvalidArgument` if the name is in use or an option is out of range; errors of the file
    /// system.
    pub fn create_cf(&self, name: &str, options: &ColumnFamilyOptions) -> Result<ColumnFamily> {
        self.create_cf_with_ttl(name, options, Duration::ZERO)
    }

    /// Creates a column family whose values live for `ttl`, in a TTL database; zero keeps them.
    ///
    /// [`Db::create_cf`] creates one with zero. In other databases, `ttl` has no effect.
    ///
    /// # Errors
    /// See [`Db::create_cf`].
    pub fn create_cf_with_ttl(
        &self,
        name: &str,
        options: &ColumnFamilyOptions,
        ttl: Duration,
    ) -> Result<ColumnFamily> {
        let family = (name.to_owned(), options.clone());
        let mut created = self.create_families(vec![family], ttl)?;
        created
            .pop()
            .ok_or_else(|| Error::corruption("no column family was created"))
    }

    /// Creates several column families, with a single rewrite of the OPTIONS file.
    ///
    /// Each call that creates or drops a column family writes the options of all families to a new
    /// OPTIONS file, so one call is much faster than many. Without options of its own, a
    /// descriptor means the default options. After a crash during the call, the first of the
    /// families may exist. (RocksDB's `CreateColumnFamilies`.)
    ///
    /// # Errors
    /// See [`Db::create_cf`]. An error creates none, or all if only the OPTIONS file is not written.
    pub fn create_cfs(
        &self,
        families: impl IntoIterator<Item = ColumnFamilyDescriptor>,
    ) -> Result<Vec<ColumnFamily>> {
        let families = families
            .into_iter()
            .map(|family| (family.name, family.options.unwrap_or_default()));
        self.create_families(families.collect(), Duration::ZERO)
    }

    /// Creates column families with a time to live; returns their handles.
    fn create_families(
        &self,
        families: Vec<(String, ColumnFamilyOptions)>,
        ttl: Duration,
    ) -> Result<Vec<ColumnFamily>> {
        let created = self.inner().commit.create_families(families, ttl)?;
        Ok(created
            .into_iter()
            .map(|family| self.family(family))
            .collect())
    }

    /// Drops a column family, whose data stays readable until its last handle is dropped.
    ///
    /// # Errors
    /// `InvalidArgument` for the default column family and for those of another database;
    /// `ColumnFamilyDropped` if it was dropped already; errors of the file system.
    pub fn drop_cf(&self, family: &ColumnFamily) -> Result<()> {
        self.drop_cfs([family])
    }

    /// Drops several column families, with a single rewrite of the OPTIONS file.
    ///
    /// See [`Db::create_cfs`].
    ///
    /// After a crash during the call, the first of them may be dropped. (RocksDB's
    /// `DropColumnFamilies`.)
    ///
    /// # Errors
    /// See [`Db::drop_cf`]. An error drops none, or all if only the OPTIONS file is not written.
    pub fn drop_cfs<'f>(&self, families: impl IntoIterator<Item = &'f ColumnFamily>) -> Result<()> {
        let families = self.own_families(families)?;
        self.inner().commit.drop_families(&families)
    }

    /// Returns the data of column family handles; `InvalidArgument` for one of another database.
    fn own_families<'f>(
        &self,
        families: impl IntoIterator<Item = &'f ColumnFamily>,
    ) -> Result<Vec<Arc<ColumnFamilyData>>> {
        let own = |family: &ColumnFamily| {
            family.check_database(self.inner().context.id)?;
            Ok(Arc::clone(family.data()))
        };
        families.into_iter().map(own).collect()
    }

    /// Applies a batch atomically, across column families.
    ///
    /// # Errors
    /// See [`Db::write_opt`].
    pub fn write(&self, batch: &WriteBatch) -> Result<()> {
        self.write_opt(batch, &WriteOptions::new())
    }

    /// Like [`Db::write`], with `options`.
    ///
    /// # Errors
    /// [`Error::write_outcome`] of every error says whether the write may still take effect.
    /// `InvalidArgument` for a column family of another database, a key that a format cannot hold,
    /// contradictory options; `ColumnFamilyDropped`; `Incomplete` if it would have to wait and
    /// `no_slowdown` is set; `NotSupported` if the database was opened read-only;
    /// `ShutdownInProgress` after a close; `TimedOut` if it waited in a stall for `stall_timeout`; `IoError` if
    /// the log cannot be written, after which writes are refused until an automatic resume,
    /// [`Db::resume`], or a reopen.
    pub fn write_opt(&self, batch: &WriteBatch, options: &WriteOptions) -> Result<()> {
        self.inner().write(batch, options)
    }

    /// Writes the buffered log to the operating system, and syncs it if `sync`.
    ///
    /// Other writes continue while the device syncs, except those with
    /// [`WriteOptions::set_sync`]. One sync serves all calls that wait for it.
    ///
    /// # Errors
    /// Errors of the file system, after which writes are refused until a resume or a reopen.
    pub fn flush_wal(&self, sync: bool) -> Result<()> {
        self.inner().commit.flush_wal(sync)
    }

    /// The sequence number of the latest write.
    #[must_use]
    pub fn latest_sequence_number(&self) -> SeqNo {
        self.inner().visibility.seqno()
    }

    /// Creates a snapshot of all column families; its state stays readable until it is dropped.
    ///
    /// ```
    /// # fn main() -> koeldb::Result<()> {
    /// let db = koeldb::Db::temporary()?;
    /// db.put("key", "old")?;
    /// let snapshot = db.snapshot();
    /// db.put("key", "new")?;
    /// assert_eq!(snapshot.get("key")?.as_deref(), Some(&b"old"[..]));
    /// assert_eq!(db.get("key")?.as_deref(), Some(&b"new"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Compactions keep old versions for it: drop a snapshot that is not needed any more.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(self.inner(), SnapshotPurpose::Reads)
    }

    /// Creates a snapshot for reads and write-conflict checks of a transaction.
    pub(crate) fn conflict_snapshot(&self) -> Snapshot {
        Snapshot::new(self.inner(), SnapshotPurpose::Conflicts)
    }

    /// Flushes every column family and waits until the tables are durable.
    ///
    /// # Errors
    /// `IoError` or `Corruption` if a table or the MANIFEST cannot be written, which also stops writes;
    /// the error that stopped writes before; `NotSupported` if the database was opened read-only;
    /// `ShutdownInProgress` after a close.
    pub fn flush(&self) -> Result<()> {
        self.flush_opt(&FlushOptions::new())
    }

    /// Like [`Db::flush`], with `options`.
    ///
    /// # Errors
    /// See [`Db::flush`].
    pub fn flush_opt(&self, options: &FlushOptions) -> Result<()> {
        self.inner()
            .commit
            .flush_families(&self.inner().families.all(), options)
    }

    /// Flushes all column families if data was written without the log, as [`Db::close`] does.
    ///
    /// Does nothing with `avoid_flush_during_shutdown`.
    ///
    /// # Errors
    /// See [`Db::flush`].
    pub fn flush_unlogged(&self) -> Result<()> {
        let inner = self.inner();
        let options = inner.context.mutable_options();
        if options.avoid_flush_during_shutdown || !inner.commit.visibility.has_unlogged() {
            return Ok(());
        }
        self.flush()
    }

    /// Flushes several column families; waits until the tables are durable if `options` say so.
    ///
    /// Column families that were dropped are skipped.
    ///
    /// # Errors
    /// See [`Db::flush`]; `InvalidArgument` for a column family of another database;
    /// `ColumnFamilyDropped` if all of them were dropped.
    pub fn flush_cfs<'f>(
        &self,
        families: impl IntoIterator<Item = &'f ColumnFamily>,
        options: &FlushOptions,
    ) -> Result<()> {
        let all = self.own_families(families)?;
        self.inner().commit.flush_families(&all, options)
    }

    /// Compacts all data of every column family: see [`ColumnFamily::compact_range_opt`].
    ///
    /// # Errors
    /// See [`ColumnFamily::compact_range_opt`].
    pub fn compact_all(&self, options: &CompactRangeOptions) -> Result<()> {
        for family in self.cf_handles() {
            match family.compact_range_opt(.., options) {
                // It was dropped after it was listed.
                Err(error) if error.kind() == ErrorKind::ColumnFamilyDropped => {}
                compacted => compacted?,
            }
        }
        Ok(())
    }

    /// Keeps flushes and compactions from starting, and waits for those that run.
    ///
    /// Calls that need a flush or compaction, and stalled writes, wait for
    /// [`Db::continue_background_work`]. Pauses are counted: each needs a call of its own to end. A
    /// close ends all of them.
    ///
    /// # Errors
    /// `ShutdownInProgress` if the database is closed.
    pub fn pause_background_work(&self) -> Result<()> {
        self.inner().health.check_open()?;
        self.inner().background.pause_work();
        Ok(())
    }

    /// Reverts one call of [`Db::pause_background_work`].
    ///
    /// # Errors
    /// `InvalidArgument` if there is none to revert.
    pub fn continue_background_work(&self) -> Result<()> {
        self.inner().background.continue_work()
    }

    /// Cancels the running manual compactions, waits for their end, and refuses new ones.
    ///
    /// They fail with `Incomplete`. Each call is taken back by one of
    /// [`Db::enable_manual_compaction`].
    pub fn disable_manual_compaction(&self) {
        self.inner().background.disable_manual_compaction();
    }

    /// Reverts one call of [`Db::disable_manual_compaction`].
    ///
    /// Calls are counted, as in RocksDB: one without an earlier counterpart cancels the next one.
    pub fn enable_manual_compaction(&self) {
        self.inner().background.enable_manual_compaction();
    }

    /// Waits until no flush or compaction is due or running; `TimedOut` after `timeout`.
    ///
    /// # Errors
    /// The error that stopped background work; `TimedOut`.
    pub fn wait_for_compact(&self, timeout: Option<Duration>) -> Result<()> {
        self.inner().background.wait_for_compact(timeout, false)
    }

    /// Waits like [`Db::wait_for_compact`], but fails while background work is paused.
    ///
    /// # Errors
    /// See [`Db::wait_for_compact`]; `Aborted` between [`Db::pause_background_work`] and
    /// [`Db::continue_background_work`].
    pub fn wait_for_compact_unless_paused(&self, timeout: Option<Duration>) -> Result<()> {
        self.inner().background.wait_for_compact(timeout, true)
    }

    /// Changes mutable options of the database atomically.
    ///
    /// # Errors
    /// `InvalidArgument` with the name of an unknown, immutable or out-of-range option.
    pub fn set_db_options<K: AsRef<str>, V: AsRef<str>>(
        &self,
        options: impl IntoIterator<Item = (K, V)>,
    ) -> Result<()> {
        self.inner().commit.set_db_options(options)
    }

    /// The current counters; `None` unless the options have statistics.
    #[must_use]
    pub fn statistics(&self) -> Option<StatisticsSnapshot> {
        let statistics = self.inner().context.statistics.as_ref();
        statistics.map(Statistics::snapshot)
    }

    /// Returns the in-memory statistics history, oldest entry first (RocksDB's `GetStatsHistory`).
    ///
    /// The entries are those whose periods ended within `unix_secs`.
    ///
    /// Every `stats_persist_period_sec` an entry is appended with the changes since the last one, if
    /// the options have statistics. The oldest entries leave when the history exceeds
    /// `stats_history_buffer_size`. It begins anew with each open.
    #[must_use]
    pub fn stats_history(&self, unix_secs: impl RangeBounds<u64>) -> Vec<StatsHistoryEntry> {
        self.inner().context.periodic.history(&unix_secs)
    }

    /// Resumes writes after a background error whose cause is removed (RocksDB's `Resume`).
    ///
    /// The database also resumes automatically, according to the options `max_bgerror_resume_count`
    /// and `bgerror_resume_retry_interval`. A listener may call it when it is told of the error, but not
    /// when it is told that a flush begins or ends: this call waits for running flushes.
    ///
    /// # Errors
    /// If the cause still exists, or the error needs a reopen; `Busy` during another attempt.
    pub fn resume(&self) -> Result<()> {
        self.inner().background.retry_immediately();
        let resumed = self.inner().resume.run();
        self.inner().health.report_failures();
        resumed
    }

    /// Verifies the checksum of every block of every table and of every record of every blob file.
    ///
    /// It bypasses the caches.
    ///
    /// # Errors
    /// The first mismatch, with file and offset; `ShutdownInProgress` if the database is closed.
    pub fn verify_checksums(&self) -> Result<()> {
        let count = |bytes| self.count_verified(bytes);
        self.verify_files(
            |tables, file, level| {
                let table = tables.reader(file, level)?;
                table.verify_checksums(&mut { count })
            },
            |tables, file, family| tables.verify_blob_file(file, family, &mut { count }),
        )
    }

    /// Counts bytes that were read to compare checksums.
    fn count_verified(&self, bytes: u64) {
        let context = &self.inner().context;
        context.count(Ticker::VerifyChecksumReadBytes, bytes);
    }

    /// Calls `verify` with each table file and its level, and `verify_blobs` with each blob file and
    /// the id of its column family; stops at the first error.
    ///
    /// The error is that of the close if the database was closed meanwhile, since its files may be
    /// gone.
    fn verify_files(
        &self,
        mut verify: impl FnMut(&TableOpener, &FileMeta, usize) -> Result<()>,
        mut verify_blobs: impl FnMut(&TableOpener, &BlobFileMeta, u32) -> Result<()>,
    ) -> Result<()> {
        let inner = self.inner();
        let named = |verified: Result<()>| {
            verified.map_err(|error| inner.health.check_open().err().unwrap_or(error))
        };
        inner
            .families
            .for_each_table(|tables, file, level| named(verify(tables, file, level)))?;
        inner
            .families
            .for_each_blob_file(|tables, file, family| named(verify_blobs(tables, file, family)))
    }

    /// Verifies the whole-file checksum of every table and blob file that has one; returns their number.
    ///
    /// Files get a checksum in the MANIFEST with the option `file_checksum_gen_factory`.
    ///
    /// # Errors
    /// The first mismatch, with the name of the file; `ShutdownInProgress` if the database is closed.
    pub fn verify_file_checksums(&self) -> Result<u64> {
        let compared = Cell::new(0);
        let count = |is_compared: bool| compared.set(compared.get() + u64::from(is_compared));
        let read = |bytes| self.count_verified(bytes);
        self.verify_files(
            |tables, file, _| {
                let is_compared = tables.compare_file_checksum(file, &mut { read })?;
                count(is_compared);
                Ok(())
            },
            |tables, file, _| {
                let is_compared = tables.compare_blob_file_checksum(file, &mut { read })?;
                count(is_compared);
                Ok(())
            },
        )?;
        Ok(compared.get())
    }

    /// Reads and verifies all tables and blob files at `bytes_per_sec`, and continues after damaged ones.
    ///
    /// It reads at most `bytes_per_sec` bytes per second (0: no limit). [`Options::set_scrub`] does
    /// it periodically.
    ///
    /// # Errors
    /// `ShutdownInProgress` if the database is closed. Damage is in the report.
    pub fn scrub(&self, bytes_per_sec: u64) -> Result<ScrubReport> {
        self.inner().background.scrub(bytes_per_sec)
    }

    /// Updates a secondary to the current state of its primary (`TryCatchUpWithPrimary`).
    ///
    /// Running reads, cursors and snapshots keep their view. New column families are opened if the
    /// builder was given options for others; dropped ones stay readable through their handles.
    ///
    /// # Errors
    /// All of these leave the view as it was. `NotSupported` if the database is no secondary;
    /// `TryAgain` if the primary removed files repeatedly while they were opened; `Aborted` if another
    /// database, or an earlier state, is at the path of the primary now: later calls return it too, so
    /// open the secondary again; `Corruption` for damaged files; errors of the file system.
    pub fn try_catch_up_with_primary(&self) -> Result<CatchUpReport> {
        let inner = self.inner();
        match &inner.secondary {
            Some(secondary) => secondary.catch_up(&inner.commit, &inner.prepared),
            None => Err(Error::not_supported(
                "the database is not a secondary: it has no primary to catch up with",
            )),
        }
    }

    /// Returns the memory in use by kind, in bytes.
    #[must_use]
    pub fn memory_report(&self) -> MemoryReport {
        let mut report = MemoryReport::default();
        for family in self.inner().families.all() {
            family.read(|state| {
                report.memtables += state.unflushed_bytes() as u64;
                report.held_memtables += state.held.bytes() as u64;
                report.table_readers += state
                    .version
                    .files()
                    .filter_map(|(_, file)| file.open_reader())
                    .map(|reader| reader.memory_bytes())
                    .sum::<u64>();
            });
            if let Some(cache) = &family.tables.context().cache {
                report.block_cache = report.block_cache.max(cache.usage());
                report.pinned = report.pinned.max(cache.pinned_usage());
            }
        }
        report
    }
}

impl ColumnFamily {
    /// Returns the database of the column family.
    #[must_use]
    pub fn db(&self) -> Db {
        Db::from_inner(self.inner())
    }
}

/// Memory in use by kind, in bytes.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct MemoryReport {
    /// Memtables that are not flushed.
    pub memtables: u64,
    /// Memtables that are flushed, and still held by cursors, snapshots of a secondary database, or
    /// values: one longer than 256 bytes that was read from a memtable holds all of it.
    pub held_memtables: u64,
    /// Blocks in the cache.
    pub block_cache: u64,
    /// Pinned blocks of the block cache.
    pub pinned: u64,
    /// Open tables: indexes and filters outside of the cache.
    pub table_readers: u64,
}

impl MemoryReport {
    /// The total memory.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.memtables + self.held_memtables + self.block_cache + self.table_readers
    }
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Db({:?})", self.inner().context.path)
    }
}
