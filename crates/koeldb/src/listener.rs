//! Events that the engine reports to listeners.
//!
//! Listeners run in the thread in which the event happened, without locks of the engine; they
//! should be quick. A panic of a listener is caught and ignored for that event.

use std::time::Duration;

use koeldb_base::{Error, file_name::FileNumber};
use koeldb_lsm::pick::CompactionReason;

use crate::report::{RecoveryReport, ScrubReport, SettingWithoutEffect};
use crate::write_stall::StallCondition;

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
    /// A call: of `flush`, or of one that flushes first.
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

/// A finished flush.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FlushJobInfo {
    /// The name of the column family.
    pub column_family: String,
    /// The new table; `None` if there was no entry to write.
    pub file: Option<FileNumber>,
    /// The reason for the flush.
    pub reason: FlushReason,
    /// The length of the table in bytes.
    pub bytes: u64,
    /// The duration of the flush.
    pub elapsed: Duration,
}

/// A finished compaction.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CompactionJobInfo {
    /// The name of the column family.
    pub column_family: String,
    /// The reason for the compaction.
    pub reason: CompactionReason,
    /// The input files, with their levels.
    pub inputs: Vec<(usize, FileNumber)>,
    /// The output files.
    pub outputs: Vec<FileNumber>,
    /// The output level.
    pub output_level: usize,
    /// Bytes read.
    pub input_bytes: u64,
    /// Bytes written.
    pub output_bytes: u64,
    /// The duration of the compaction.
    pub elapsed: Duration,
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

/// An event.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The database was recovered.
    Recovered(&'a RecoveryReport),
    /// Settings other than the default have no effect; the database was opened all the same.
    SettingsWithoutEffect(&'a [SettingWithoutEffect]),
    /// A flush has written memtables to a table, or found nothing to write.
    FlushCompleted(&'a FlushJobInfo),
    /// A compaction has merged, moved or dropped tables.
    CompactionCompleted(&'a CompactionJobInfo),
    /// A table is block-based although the column family has another format.
    TableFellBack(&'a TableFallbackInfo),
    /// Writes to a column family are delayed, stopped, or no longer stalled.
    StallConditionsChanged {
        /// The name of the column family.
        column_family: &'a str,
        /// The new condition.
        condition: StallCondition,
    },
    /// A table file was removed.
    TableFileDeleted(
        /// The number of the removed table.
        FileNumber,
    ),
    /// Background work failed; writes may be refused now.
    BackgroundError(&'a Error),
    /// A resume failed; it may be retried.
    ResumeFailed(&'a Error),
    /// Writes are accepted again after a resume.
    Resumed,
    /// A scrub found a damaged or unreadable table.
    DamageFound(&'a Error),
    /// A scrub has read all tables.
    ScrubCompleted(&'a ScrubReport),
}

/// A receiver of events. Any `Fn(&Event<'_>)` is a listener.
pub trait EventListener: Send + Sync + 'static {
    /// Handles an event.
    fn on_event(&self, event: &Event<'_>);
}

impl<F: Fn(&Event<'_>) + Send + Sync + 'static> EventListener for F {
    fn on_event(&self, event: &Event<'_>) {
        self(event);
    }
}
