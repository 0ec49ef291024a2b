//! Events that the engine reports to listeners.
//!
//! Listeners run in the thread in which the event happened, without locks of the engine; they
//! should be quick. A panic of a listener is caught and ignored for that event.

use std::path::PathBuf;
use std::time::Duration;

use koeldb_base::codec::Compression;
use koeldb_base::{Error, SeqNo, Timestamp, file_name::FileNumber};
use koeldb_lsm::pick::CompactionReason;

use crate::report::StallCondition;
use crate::report::{
    BlobFileAdditionInfo, BlobFileGarbageInfo, CompactionFileInfo, CompactionJobStats,
    RecoveryReport, ScrubReport, SettingWithoutEffect, SstFileProperties,
};

/// The reason for a flush: why its last memtable was sealed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FlushReason {
    /// Any other reason.
    #[default]
    Others,
    /// The memtable was full.
    WriteBufferFull,
    /// All memtables together reached their limit.
    WriteBufferManager,
    /// A call of `flush`, or of another function that flushes first.
    ManualFlush,
    /// Files to ingest overlap the memtable.
    ExternalFileIngestion,
    /// The logs reached their limit.
    WalFull,
    /// The database is being closed.
    ShutDown,
    /// Writes are being resumed after an error.
    ErrorRecovery,
}

impl FlushReason {
    /// The name, as RocksDB writes it to LOG.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            FlushReason::Others => "Other Reasons",
            FlushReason::WriteBufferFull => "Write Buffer Full",
            FlushReason::WriteBufferManager => "Write Buffer Manager",
            FlushReason::ManualFlush => "Manual Flush",
            FlushReason::ExternalFileIngestion => "External File Ingestion",
            FlushReason::WalFull => "WAL Full",
            FlushReason::ShutDown => "Shut Down",
            FlushReason::ErrorRecovery => "Error Recovery",
        }
    }
}

impl std::fmt::Display for FlushReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A flush that begins or has ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FlushJobInfo {
    /// The name of the column family.
    pub column_family: String,
    /// The id of the column family.
    pub column_family_id: u32,
    /// The number of the job, unique in the open database.
    pub job_id: u64,
    /// The new table; `None` at the beginning, or if there was no entry to write.
    pub file: Option<FileNumber>,
    /// The path of the new table.
    pub path: Option<PathBuf>,
    /// The properties of the new table.
    pub properties: Option<SstFileProperties>,
    /// The number of the oldest blob file that the new table refers to; 0 without one.
    pub oldest_blob_file: FileNumber,
    /// The blob files that the flush wrote.
    pub blob_files: Vec<BlobFileAdditionInfo>,
    /// The codec of new blob files.
    pub blob_compression: Compression,
    /// The reason for the flush.
    pub reason: FlushReason,
    /// Whether writes to the column family were delayed when the flush began.
    pub triggered_writes_slowdown: bool,
    /// Whether writes to the column family were stopped when the flush began.
    pub triggered_writes_stop: bool,
    /// The smallest sequence number in the table; 0 without one.
    pub smallest_seqno: SeqNo,
    /// The largest sequence number in the table; 0 without one.
    pub largest_seqno: SeqNo,
    /// The length of the table in bytes.
    pub bytes: u64,
    /// The duration of the flush; zero at the beginning.
    pub elapsed: Duration,
}

/// A compaction that begins or has ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CompactionJobInfo {
    /// The name of the column family.
    pub column_family: String,
    /// The id of the column family.
    pub column_family_id: u32,
    /// The number of the job, unique in the open database.
    pub job_id: u64,
    /// The reason for the compaction.
    pub reason: CompactionReason,
    /// The error that ended the compaction; its outputs are removed.
    pub error: Option<Error>,
    /// The first level with inputs.
    pub base_input_level: usize,
    /// The input tables, upper levels first.
    pub inputs: Vec<CompactionFileInfo>,
    /// The output tables; none at the beginning.
    pub outputs: Vec<CompactionFileInfo>,
    /// The output level.
    pub output_level: usize,
    /// The number of tables on level 0 when the event happens.
    pub num_level0_files: usize,
    /// The codec of new tables.
    pub compression: Compression,
    /// The codec of new blob files.
    pub blob_compression: Compression,
    /// The blob files that the compaction wrote; none at the beginning.
    pub blob_files: Vec<BlobFileAdditionInfo>,
    /// The values in blob files that the compaction made garbage; none at the beginning.
    pub blob_garbage: Vec<BlobFileGarbageInfo>,
    /// The figures of the compaction.
    pub stats: CompactionJobStats,
    /// Bytes read.
    pub input_bytes: u64,
    /// Bytes written; 0 if the files were moved or dropped.
    pub output_bytes: u64,
    /// The duration of the compaction; zero at the beginning.
    pub elapsed: Duration,
}

/// A subcompaction: the part of a compaction in one key range, run by one thread.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SubcompactionJobInfo {
    /// The name of the column family.
    pub column_family: String,
    /// The id of the column family.
    pub column_family_id: u32,
    /// The number of the job.
    pub job_id: u64,
    /// The number of the part, from 0.
    pub subcompaction_job_id: usize,
    /// The first level with inputs.
    pub base_input_level: usize,
    /// The output level.
    pub output_level: usize,
    /// The reason for the compaction.
    pub reason: CompactionReason,
    /// The codec of new tables.
    pub compression: Compression,
    /// The codec of new blob files.
    pub blob_compression: Compression,
    /// The error that ended the part.
    pub error: Option<Error>,
    /// The figures of the part.
    pub stats: CompactionJobStats,
}

/// The reason for writing a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TableCreationReason {
    /// A flush.
    Flush,
    /// A compaction.
    Compaction,
    /// The replay of logs at an open.
    Recovery,
    /// Anything else.
    Misc,
}

/// A table file whose creation begins or has ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TableFileCreationInfo {
    /// The name of the column family.
    pub column_family: String,
    /// The number of the job.
    pub job_id: u64,
    /// The number of the table.
    pub file: FileNumber,
    /// The path of the table.
    pub path: PathBuf,
    /// The reason for the table.
    pub reason: TableCreationReason,
    /// The length of the table in bytes; 0 at the beginning and after an error.
    pub bytes: u64,
    /// The properties of the table; `None` at the beginning and after an error.
    pub properties: Option<SstFileProperties>,
    /// The error of the job that wrote the table.
    pub error: Option<Error>,
}

/// A memtable that was sealed: it takes no more writes and waits for its flush.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MemtableInfo {
    /// The name of the column family.
    pub column_family: String,
    /// The sequence number of the first entry; 0 without one.
    pub first_seqno: SeqNo,
    /// A sequence number that none of its entries is below: the newest one of the database when the
    /// memtable became the active one, or that of an older entry which was recovered from a log.
    pub earliest_seqno: SeqNo,
    /// The number of entries.
    pub num_entries: u64,
    /// The number of deletions.
    pub num_deletes: u64,
    /// The newest user-defined timestamp; `None` unless the flush will leave out the timestamps
    /// (`persist_user_defined_timestamps`).
    pub newest_timestamp: Option<Timestamp>,
}

/// An external file that became a table of the database.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ExternalFileIngestionInfo {
    /// The name of the column family.
    pub column_family: String,
    /// The path of the file that was ingested.
    pub external_file_path: PathBuf,
    /// The path of the table.
    pub internal_file_path: PathBuf,
    /// The sequence number of all entries; 0 if the file needed none.
    pub global_seqno: SeqNo,
    /// The level of the table.
    pub level: usize,
    /// The properties of the file.
    pub properties: Option<SstFileProperties>,
}

/// A table written in the block-based format because the other format cannot hold its entries.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TableFallbackInfo {
    /// The name of the column family.
    pub column_family: String,
    /// The number of the table.
    pub file: FileNumber,
    /// The reason, in words.
    pub reason: String,
}

/// An event of a database that is reported to its listeners.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The database was recovered.
    Recovered(&'a RecoveryReport),
    /// Settings other than the default have no effect; the database was opened all the same.
    SettingsWithoutEffect(&'a [SettingWithoutEffect]),
    /// A memtable was sealed. Reported by the next call or job that holds no lock.
    MemtableSealed(&'a MemtableInfo),
    /// A call has sealed memtables to flush them; the names of their column families.
    ManualFlushScheduled(&'a [String]),
    /// A flush begins.
    FlushBegin(&'a FlushJobInfo),
    /// A flush has written memtables to a table, or found nothing to write.
    FlushCompleted(&'a FlushJobInfo),
    /// A compaction begins.
    CompactionBegin(&'a CompactionJobInfo),
    /// A part of a compaction begins, in the thread that runs it.
    SubcompactionBegin(&'a SubcompactionJobInfo),
    /// A part of a compaction has ended, in the thread that ran it.
    SubcompactionCompleted(&'a SubcompactionJobInfo),
    /// A table file is begun.
    TableFileCreationStarted(&'a TableFileCreationInfo),
    /// A table file is durable, or its job failed; reported when all tables of the job are written.
    TableFileCreated(&'a TableFileCreationInfo),
    /// An external file became a table.
    ExternalFileIngested(&'a ExternalFileIngestionInfo),
    /// A column family was dropped; the name.
    ColumnFamilyDropped(&'a str),
    /// A compaction has merged, moved or dropped tables, or failed.
    CompactionCompleted(&'a CompactionJobInfo),
    /// A table is block-based although the column family has another format.
    TableFellBack(&'a TableFallbackInfo),
    /// Writes to a column family are delayed, stopped, or no longer stalled.
    StallConditionsChanged {
        /// The name of the column family.
        column_family: &'a str,
        /// The new condition.
        condition: StallCondition,
        /// The condition that was reported before.
        previous: StallCondition,
    },
    /// A table file was removed.
    TableFileDeleted(
        /// The number of the removed table.
        FileNumber,
    ),
    /// Background work failed; writes may be refused now.
    BackgroundError(&'a Error),
    /// An automatic resume begins, after this error.
    ErrorRecoveryBegin(&'a Error),
    /// An automatic resume has ended.
    ErrorRecoveryEnd {
        /// The error after which it began.
        old: &'a Error,
        /// The error that is left; `None` if writes are accepted again.
        new: Option<&'a Error>,
    },
    /// A resume failed; it may be retried.
    ResumeFailed(&'a Error),
    /// Writes are accepted again after a resume.
    Resumed,
    /// A scrub found a damaged or unreadable table.
    DamageFound(&'a Error),
    /// The database is being closed.
    ShutdownBegin,
    /// A scrub has read all tables.
    ScrubCompleted(&'a ScrubReport),
}

/// A receiver of database events (RocksDB: `EventListener`). Any `Fn(&Event<'_>)` is a listener.
pub trait EventListener: Send + Sync + 'static {
    /// Handles an event.
    fn on_event(&self, event: &Event<'_>);
}

impl<F: Fn(&Event<'_>) + Send + Sync + 'static> EventListener for F {
    fn on_event(&self, event: &Event<'_>) {
        self(event);
    }
}
