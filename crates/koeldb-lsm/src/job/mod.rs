//! Flush and compaction jobs, which turn inputs into finished, durable tables.
//!
//! A job reads its inputs, writes tables and returns their metadata; it changes nothing else and
//! holds no lock. The database turns the result into an edit, logs it, and installs the next
//! version.

mod blob_flow;
mod blob_output;
mod compaction;
mod compaction_cursor;
mod deletion_trigger;
mod entry_hash;
mod figures;
mod filter;
mod flush;
mod grandparents;
mod hidden_tables;
mod output;
mod part;
mod snapshots;
mod undating;

pub use blob_flow::BlobFlow;
pub use blob_output::BlobSpec;
pub use compaction::{
    CompactionJob, CompactionResult, NewFilter, RunPart, RunParts, input_entry_count,
};
pub use compaction_cursor::{CompactionCursor, CompactionRules, DropCounts, ExistsBelow};
pub use deletion_trigger::DeletionTrigger;
pub use entry_hash::EntryHash;
pub use figures::{InputFigures, MergeFigures, OutputFigures, SingleDeletionCounts};
pub use filter::{CompactionFilter, CompactionFilterContext, CompactionFilterFactory, Decision};
pub use flush::{FlushJob, FlushResult};
pub use hidden_tables::HiddenTables;
pub use output::{Fallback, OutputSpec, Outputs, TableOutputs};
pub use part::PartRange;
pub use snapshots::LiveSnapshots;
pub use undating::Undating;
