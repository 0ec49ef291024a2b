//! KoelDB: an embedded key-value store, compatible with the on-disk formats of RocksDB.
//!
//! It is a log-structured merge tree built for point lookups.
//!
//! ```
//! use koeldb::{Db, Options};
//! # fn main() -> koeldb::Result<()> {
//! # let dir = std::env::temp_dir().join(format!("koeldb-doc-{}", std::process::id()));
//! let db = Db::open(Options::new().create_if_missing(true), &dir)?;
//! db.put("koel", "Eudynamys")?;
//! assert_eq!(db.get("koel")?.as_deref(), Some(&b"Eudynamys"[..]));
//! for entry in db.range("a".."m") {
//!     let (key, value) = entry?;
//!     println!("{} = {}", key.escape_ascii(), value.escape_ascii());
//! }
//! db.delete("koel")?;
//! db.close()?;
//! # Db::destroy(&Options::new(), &dir)
//! # }
//! ```
//!
//! [`Db`] is the database and its default column family, [`ColumnFamily`] any column family;
//! [`WriteBatch`] and [`Snapshot`] span column families. All of them are owned, cheap to clone and
//! can be shared by threads. Options have RocksDB's names.
//!
//! Modules: [`Db`] and opening, the write path (`write`), the read paths (`read`), background work,
//! and the options. The crates below are independent of each other: memtables, tables, logs, the
//! shape of the tree, files.

#![cfg_attr(koeldb_counts, feature(arbitrary_self_types))]

#[cfg(koeldb_counts)]
extern crate koeldb_counts as std;

mod alarm;
mod background;
mod backup;
mod batch;
#[cfg(doctest)]
mod book;
mod capture;
mod checkpoint;
mod clip;
mod column_family;
mod column_family_data;
mod column_family_set;
mod compaction_service;
mod context;
mod counters;
mod db;
mod default_family;
mod deleted_ranges;
mod deletions;
mod destroy;
mod env;
mod export;
mod file_options;
mod health;
mod hex;
mod indexed_batch;
mod info_log;
mod ingest;
mod inner;
mod job_slots;
mod key_bounds;
mod key_locks;
pub mod listener;
mod listeners;
mod live_files;
mod maintenance;
mod memtables;
mod open;
mod options;
mod periodic_reports;
mod prepared;
mod prepopulate;
mod prometheus;
mod property;
mod read;
mod read_modify_write;
mod reads;
mod remote;
mod remote_worker;
mod repair;
mod report;
mod rest;
mod resume;
mod secondary;
mod snapshot;
mod spans;
mod sst_file_manager;
mod sst_file_reader;
mod sst_file_sorter;
mod sst_file_writer;
mod staging;
mod stats_history;
mod super_version;
mod table_files;
mod thread_status;
mod transaction;
mod transfer;
mod tree;
mod ttl;
mod updates;
mod visibility;
mod wal_set;
mod work_queue;
mod write;
mod write_buffers;
mod write_stall;

pub use koeldb_base::comparator::{
    BytewiseComparator, Comparator, PrefixBounds, ReverseBytewiseComparator, Uint64Comparator,
};
pub use koeldb_base::error::{
    BoxError, Error, ErrorDetail, ErrorKind, FileContext, Result, Severity, WriteOutcome,
};
pub use koeldb_base::merge_operator::{
    MergeOperands, MergeOperator, StringAppend, Uint64Add, associative_merge,
};
pub use koeldb_base::pinned::PinnedSlice;
pub use koeldb_base::prefix::{CappedPrefix, FixedPrefix, PrefixExtractor};
pub use koeldb_base::{KeyOrder, SeqNo};
pub use koeldb_fs::rate_limit::{
    IoKind, IoPriority, RateLimiter, RateLimiterBuilder, RateLimiterMode,
};
pub use koeldb_lsm::job::{
    CompactionFilter, CompactionFilterContext, CompactionFilterFactory, Decision,
};

pub use backup::{
    BackupEngine, BackupEngineOptions, BackupFileInfo, BackupId, BackupInfo, BackupStopHandle,
    CreateBackupOptions, RestoreMode, RestoreOptions, RestoreReport, ShareFilesNaming,
};
pub use batch::{BatchEntry, WriteBatch};
pub use capture::FlushPolicy;
pub use checkpoint::{CheckpointOptions, CheckpointReport};
pub use column_family::{ColumnFamily, ColumnFamilyDescriptor};
pub use compaction_service::{
    CompactionService, CompactionServiceJobInfo, CompactionServiceJobStatus,
    CompactionServiceScheduleResponse, CompactionServiceWaitResponse,
};
pub use db::{Db, MemoryReport};
pub use deletions::DeletionGuard;
pub use env::Env;
pub use export::{ExportedColumnFamily, ExportedFile, ImportColumnFamilyOptions};
pub use indexed_batch::{BatchCursor, BatchValue, WriteBatchWithIndex};
pub use ingest::{IngestExternalFileArg, IngestExternalFileOptions, PreparedIngest};
pub use key_bounds::{IterateBounds, KeyBounds, PrefixRange};
pub use key_locks::{DeadlockInfo, DeadlockPath, LockInfo, LockMode};
pub use listener::{
    CompactionJobInfo, Event, EventListener, ExternalFileIngestionInfo, FlushJobInfo, FlushReason,
    MemtableInfo, SubcompactionJobInfo, TableCreationReason, TableFallbackInfo,
    TableFileCreationInfo,
};
pub use live_files::{LiveFile, LiveStorage, LogFile, StorageFile, StorageFileKind};
pub use open::DbBuilder;
pub use options::*;
pub use read::{
    Answers, DbCursor, DbIterator, DbStream, Direction, IteratorMode, MultiGetStream, PinnedSlices,
    ReadOptions,
};
pub use remote_worker::compaction_failure_result;
pub use repair::RepairReport;
pub use report::{LogReport, RecoveryReport, ScrubReport, SettingWithoutEffect, SstFileProperties};
pub use secondary::{CatchUpReport, KeepTables, SecondaryOptions};
pub use snapshot::Snapshot;
pub use sst_file_reader::{SstEntries, SstEntry, SstEntryKind, SstFileReader, SstRangeTombstone};
pub use sst_file_sorter::{SstFileSorter, SstFileSorterOptions};
pub use sst_file_writer::{ExternalSstFileInfo, SstFileWriter, SstFileWriterOptions};
pub use stats_history::StatsHistoryEntry;
pub use thread_status::{ThreadOperation, ThreadStatus};
pub use transaction::{PreparedTransaction, Transaction};
pub use updates::{TailOptions, UpdateBatch, UpdateIterator};

pub use sst_file_manager::{SstFileManager, SstFileManagerBuilder};
pub use write_buffers::WriteBufferManager;
pub use write_stall::{StallCause, StallCondition};

/// File systems and clocks.
pub mod fs {
    pub use koeldb_fs::*;
}

/// Perf context and I/O statistics: counts and times of the operations of one thread.
///
/// ```
/// # fn main() -> Result<(), koeldb::Error> {
/// use koeldb::perf::{self, PerfLevel, PerfMetric};
///
/// let db = koeldb::Db::temporary()?;
/// db.put("key", "value")?;
/// let (value, done) = perf::measure(PerfLevel::EnableTime, || db.get("key"));
/// assert_eq!(done.get(PerfMetric::GetReadBytes), 5);
/// println!("{:?} took: {done}", value?);
/// # Ok(())
/// # }
/// ```
pub mod perf {
    pub use koeldb_base::perf::{
        PerfContext, PerfLevel, PerfMetric, context, level, measure, reset, set_level,
    };
}

/// Statistics: tickers and histograms.
pub mod statistics {
    pub use koeldb_base::stats::*;
}

/// The README, whose programs are compiled as documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
