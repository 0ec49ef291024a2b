//! Reports: values that calls return and events contain.

mod recovery;
mod scrub;
mod setting;
mod sst_properties;

pub use recovery::{LogReport, RecoveryReport};
pub use scrub::ScrubReport;
pub use setting::SettingWithoutEffect;
pub use sst_properties::SstFileProperties;
