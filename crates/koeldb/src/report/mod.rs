//! Reports: values that calls return and events contain.

mod recovery;
mod scrub;
mod setting;

pub use recovery::{LogReport, RecoveryReport};
pub use scrub::ScrubReport;
pub use setting::SettingWithoutEffect;
