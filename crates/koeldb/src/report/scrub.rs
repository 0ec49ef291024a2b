//! The result of a scrub.

use std::time::Duration;

use koeldb_base::Error;
use koeldb_base::file_name::FileNumber;

/// The result of a scrub, which verifies the checksums of all tables and blob files.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ScrubReport {
    /// The number of tables read.
    pub tables: u64,
    /// The number of blob files read.
    pub blob_files: u64,
    /// The number of tables and blob files whose whole-file checksum was verified too.
    pub file_checksums: u64,
    /// The number of bytes read.
    pub bytes: u64,
    /// The duration of the scrub.
    pub elapsed: Duration,
    /// The damaged or unreadable tables and blob files, with the first error of each.
    pub damaged: Vec<(FileNumber, Error)>,
    /// Whether the database was closed during the scrub, which ended it.
    pub cancelled: bool,
}
