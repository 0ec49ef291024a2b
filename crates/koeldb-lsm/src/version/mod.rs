//! Versions of the tree and the edits between them.
pub mod version;
pub use version::{EntryStats, FileMeta, Level, Version};
