//! Reports: values that calls return and events contain, and the listeners that receive events.
//!
//! They are plain values, which use no other storey.

mod job_figures;
pub mod listener;
mod recovery;
mod scrub;
mod setting;
mod sst_properties;
mod stall;
pub(crate) mod stats_history;

pub use job_figures::{
    BlobFileAdditionInfo, BlobFileGarbageInfo, CompactionFileInfo, CompactionJobStats,
};
pub use recovery::{LogReport, RecoveryReport};
pub use scrub::ScrubReport;
pub use setting::SettingWithoutEffect;
pub use sst_properties::SstFileProperties;
pub use stall::{StallCause, StallCondition};
