//! KoelDB: an embedded key-value store, compatible with the on-disk formats of RocksDB.
//!
//! It is a log-structured merge tree built for point lookups. (A koel is a cuckoo.)
//!
//! ```
//! use koeldb::{Db, Options};
//! # fn main() -> koeldb::Result<()> {
//! # let dir = std::env::temp_dir().join(format!("koeldb-doc-{}", std::process::id()));
//! let mut options = Options::new();
//! options.create_if_missing(true).optimize_for_point_lookup(64); // filters, 64 MB of cache
//! let db = Db::open(&options, &dir)?;
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
//! # Where next
//!
//! - [`Db`] is the database and its default column family, [`ColumnFamily`] any column family.
//!   [`WriteBatch`] and [`Snapshot`] span column families. All of them are owned, cheap to clone and
//!   can be shared by threads. [`Db::builder`] opens read-only databases and secondaries.
//! - [`Options`] lists its setters by subject; names and defaults are RocksDB's.
//!   [`BlockBasedOptions`] has the filters and the cache of tables. [`ReadOptions`] and
//!   [`WriteOptions`] are those of single calls; `WriteOptions::set_sync` survives a power failure.
//! - [`Transaction`], [`DbCursor`] and [`DbIterator`], [`MergeOperator`], [`CompactionFilter`].
//! - Reads as futures and streams: [`ColumnFamily::get_async`], [`DbStream`].
//! - Copies: [`BackupEngine`], [`CheckpointOptions`], [`SstFileWriter`], [`UpdateIterator`].
//! - Observation: [`statistics`], [`perf`], [`EventListener`].
//! - [`Error`] and its [`ErrorKind`].
//!
//! # Features
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `io_uring` | on | concurrent reads by `io_uring` instead of a pool of threads |
//! | `snappy`, `lz4`, `zlib`, `zstd` | on | codecs; `zstd` needs a C compiler |
//! | `bzip2` | off | a codec |
//! | `tracing` | off | spans of flushes, compactions and other long work for the crate `tracing` |

#![cfg_attr(koeldb_counts, feature(arbitrary_self_types))]

#[cfg(koeldb_counts)]
extern crate koeldb_counts as std;

mod api;
mod background;
mod batch;
#[cfg(doctest)]
mod book;
mod commit;
mod copies;
mod engine;
mod env;
mod open;
mod options;
mod read;
mod report;
mod state;
mod tree;
mod wal;

pub use koeldb_base::comparator::{
    BytewiseComparator, Comparator, PrefixBounds, ReverseBytewiseComparator, Uint64Comparator,
};
pub use koeldb_base::entity::{Columns, ColumnsIter, DEFAULT_COLUMN, WideColumns};
pub use koeldb_base::error::{
    BoxError, Error, ErrorDetail, ErrorKind, FileContext, Result, Severity, WriteOutcome,
};
pub use koeldb_base::merge_operator::{
    MergeOperands, MergeOperator, StringAppend, Uint64Add, associative_merge,
};
pub use koeldb_base::pinned::PinnedSlice;
pub use koeldb_base::prefix::{CappedPrefix, FixedPrefix, PrefixExtractor};
pub use koeldb_base::timestamp::{
    BytewiseComparatorWithU64Ts, ReverseBytewiseComparatorWithU64Ts, Timestamp,
};
pub use koeldb_base::{KeyOrder, SeqNo};
pub use koeldb_fs::rate_limit::{
    IoKind, IoPriority, RateLimiter, RateLimiterBuilder, RateLimiterMode,
};
pub use koeldb_lsm::job::{
    CompactionFilter, CompactionFilterContext, CompactionFilterFactory, Decision,
};

pub use api::column_family::{ColumnFamily, ColumnFamilyDescriptor};
pub use api::db::{Db, MemoryReport};
pub use api::families::{AttributeGroupCursor, CoalescingCursor};
pub use api::indexed_batch::{BatchCursor, BatchValue, WriteBatchWithIndex};
pub use api::transaction::{PreparedTransaction, Transaction};
pub use batch::{BatchEntry, WriteBatch};
pub use commit::key_locks::{DeadlockInfo, DeadlockPath, LockInfo, LockMode};
pub use copies::backup::{
    BackupEngine, BackupEngineOptions, BackupFileInfo, BackupId, BackupInfo, BackupStopHandle,
    CreateBackupOptions, RestoreMode, RestoreOptions, RestoreReport, ShareFilesNaming,
};
pub use copies::capture::FlushPolicy;
pub use copies::checkpoint::{CheckpointOptions, CheckpointReport};
pub use copies::deletions::DeletionGuard;
pub use copies::export::{
    ExportOptions, ExportedColumnFamily, ExportedFile, ImportColumnFamilyOptions,
};
pub use copies::ingest::{IngestExternalFileArg, IngestExternalFileOptions, PreparedIngest};
pub use copies::live_files::{
    LiveBlobFile, LiveFile, LiveStorage, LogFile, StorageFile, StorageFileKind,
};
pub use copies::sst_file_reader::{
    SstEntries, SstEntry, SstEntryKind, SstFileReader, SstRangeTombstone,
};
pub use copies::sst_file_sorter::{SstFileSorter, SstFileSorterOptions};
pub use copies::sst_file_writer::{ExternalSstFileInfo, SstFileWriter, SstFileWriterOptions};
pub use copies::updates::{TailOptions, UpdateBatch, UpdateIterator};
pub use engine::secondary::{CatchUpReport, KeepTables, SecondaryOptions};
pub use env::Env;
pub use env::compaction_service::{
    CompactionService, CompactionServiceJobInfo, CompactionServiceJobStatus,
    CompactionServiceScheduleResponse, CompactionServiceWaitResponse,
};
pub use env::thread_status::{ThreadOperation, ThreadStatus};
pub use open::DbBuilder;
pub use open::remote_worker::compaction_failure_result;
pub use open::repair::{LostValue, RepairReport};
pub use options::*;
pub use read::snapshot::Snapshot;
pub use read::{
    Answers, DbCursor, DbIterator, DbStream, Direction, IteratorMode, MultiGetStream, PinnedSlices,
    ReadOptions,
};
pub use report::listener;
pub use report::listener::{
    CompactionJobInfo, Event, EventListener, ExternalFileIngestionInfo, FlushJobInfo, FlushReason,
    MemtableInfo, SubcompactionJobInfo, TableCreationReason, TableFallbackInfo,
    TableFileCreationInfo,
};
pub use report::stats_history::StatsHistoryEntry;
pub use report::{
    BlobFileAdditionInfo, BlobFileGarbageInfo, CompactionFileInfo, CompactionJobStats, LogReport,
    RecoveryReport, ScrubReport, SettingWithoutEffect, SstFileProperties, StallCause,
    StallCondition,
};
pub use state::key_bounds::{IterateBounds, KeyBounds, PrefixRange};

pub use env::sst_file_manager::{SstFileManager, SstFileManagerBuilder};
pub use env::write_buffers::WriteBufferManager;

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
#[doc = include_str!("../README.md")]
struct Readme;
