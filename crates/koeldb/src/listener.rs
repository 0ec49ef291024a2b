//! Events: what the engine tells those who listen.
//!
//! Listeners run in the thread in which the event happened, under no lock of the engine; they should be quick. A
//! listener that panics is ignored from there on for that event; it never takes the engine down.

use std::time::Duration;

use koeldb_base::{Error, file_name::FileNumber};
use koeldb_lsm::pick::CompactionReason;

use crate::open::RecoveryReport;
use crate::scrub::ScrubReport;
use crate::write::stall::StallCondition;

/// A finished flush.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FlushJobInfo {
    /// The family's name.
    pub column_family: String,
    /// The new table; `None` if nothing was left to write.
    pub file: Option<FileNumber>,
    /// Its length in bytes.
    pub bytes: u64,
    /// How long it took.
    pub elapsed: Duration,
}

/// A finished compaction.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CompactionJobInfo {
    /// The family's name.
    pub column_family: String,
    /// Why it ran.
    pub reason: CompactionReason,
    /// The files it read, with their levels.
    pub inputs: Vec<(usize, FileNumber)>,
    /// The files it made.
    pub outputs: Vec<FileNumber>,
    /// The level they are on.
    pub output_level: usize,
    /// Bytes read.
    pub input_bytes: u64,
    /// Bytes written.
    pub output_bytes: u64,
    /// How long it took.
    pub elapsed: Duration,
}

/// A table that was written in the block-based format because its entries cannot be in the family's.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TableFallbackInfo {
    /// The family's name.
    pub column_family: String,
    /// The table.
    pub file: FileNumber,
    /// What stands in the way, in words.
    pub reason: String,
}

/// Something that happened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The database was recovered.
    Recovered(&'a RecoveryReport),
    /// A memtable became a table.
    FlushCompleted(&'a FlushJobInfo),
    /// Tables were merged, moved or dropped.
    CompactionCompleted(&'a CompactionJobInfo),
    /// A table is block-based, though the family asks for another format.
    TableFellBack(&'a TableFallbackInfo),
    /// A family's writes are slowed, stopped, or free again.
    StallConditionsChanged {
        /// The family's name.
        column_family: &'a str,
        /// What holds now.
        condition: StallCondition,
    },
    /// A table file was removed.
    TableFileDeleted(
        /// Its number.
        FileNumber,
    ),
    /// Background work failed; writes may be refused now.
    BackgroundError(&'a Error),
    /// An attempt to take writes again failed; there may be more.
    ResumeFailed(&'a Error),
    /// Writes are accepted again.
    Resumed,
    /// A scrub met a table that is damaged or cannot be read.
    DamageFound(&'a Error),
    /// All tables were read again.
    ScrubCompleted(&'a ScrubReport),
}

/// Told of events. Any `Fn(&Event<'_>)` is one.
pub trait EventListener: Send + Sync + 'static {
    /// Takes note of an event.
    fn on_event(&self, event: &Event<'_>);
}

impl<F: Fn(&Event<'_>) + Send + Sync + 'static> EventListener for F {
    fn on_event(&self, event: &Event<'_>) {
        self(event);
    }
}
