//! Cursors over sorted runs: one level of disjoint tables, and many runs merged.

mod level;
mod merging;

pub use level::LevelCursor;
pub use merging::{MergingCursor, RunsCursor};
