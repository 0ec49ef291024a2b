//! Versions of the tree, and the edits that lead from one to the next.
//!
//! A [`Version`] is one state of one family's tree. A [`VersionEdit`] describes a change;
//! [`VersionSet`] records it in the MANIFEST and [`builder`] applies it to build the next version.

pub mod builder;
pub mod column_family;
pub mod edit;
mod key_range;
mod recovery;
pub mod running;
mod search;
pub mod set;
mod tail;
#[expect(
    clippy::module_inception,
    reason = "the folder is named by its main type, and so is that type's file"
)]
pub mod version;

pub use builder::apply_edit;
pub use column_family::{ColumnFamilySpec, ColumnFamilyVersions, Epochs, FileNumbers};
pub use edit::{BlobGarbage, VersionEdit};
pub use recovery::ColumnFamilySpecs;
pub use recovery::point_in_time::{BlobFileCheck, FileChecks, TableCheck, has_manifest};
pub use search::BatchVisitor;
pub use set::{LiveFiles, ManifestReport, VersionSet, VersionSetOptions};
pub use tail::{ManifestTail, TailedState};
pub use version::{BlobRead, Level, Version, VersionBlobs};

pub use crate::blob_file_meta::{BlobFileMeta, SharedReader, WeakReader};

pub use crate::file_meta::{EntryStats, FileMeta};

pub(crate) use key_range::KeyRange;
