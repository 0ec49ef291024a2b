//! Versions of the tree and the edits between them.
//!
//! A [`Version`] is one state of one family's tree. A [`VersionEdit`] says what changes; [`builder`] makes the next
//! version of it, and [`VersionSet`] records it in the MANIFEST first.

pub mod builder;
pub mod edit;
mod recovery;
pub mod set;
pub mod version;

pub use edit::VersionEdit;
pub use set::{
    Epochs, Family, FamilyDescriptor, FileNumbers, LiveFiles, ManifestReport, VersionSet,
    VersionSetOptions,
};
pub use version::{BlobFile, EntryStats, FileMeta, Level, Version};
