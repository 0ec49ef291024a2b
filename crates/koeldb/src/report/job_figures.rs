//! The files and figures of flushes and compactions, as listeners get them.

use std::path::PathBuf;
use std::time::Duration;

use koeldb_base::file_name::FileNumber;
use koeldb_lsm::job::MergeFigures;

use super::SstFileProperties;

/// A table of a compaction.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CompactionFileInfo {
    /// The level of the table.
    pub level: usize,
    /// The number of the table.
    pub file: FileNumber,
    /// The path of the table.
    pub path: PathBuf,
    /// The number of the oldest blob file that the table refers to; 0 without one.
    pub oldest_blob_file: FileNumber,
    /// The properties of the table; `None` if it is not open.
    pub properties: Option<SstFileProperties>,
}

/// A blob file that a flush or a compaction wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlobFileAdditionInfo {
    /// The path of the blob file.
    pub path: PathBuf,
    /// The number of the blob file.
    pub file: FileNumber,
    /// The number of values in it.
    pub blob_count: u64,
    /// The size of the records of these values, in bytes.
    pub blob_bytes: u64,
}

/// Values in a blob file to which, after a compaction, no table refers any more.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlobFileGarbageInfo {
    /// The path of the blob file.
    pub path: PathBuf,
    /// The number of the blob file.
    pub file: FileNumber,
    /// The number of these values.
    pub garbage_blob_count: u64,
    /// The size of their records, in bytes.
    pub garbage_blob_bytes: u64,
}

/// The figures of a compaction, or of a part of it (RocksDB: `CompactionJobStats`).
///
/// The engine counts reads and writes when a compaction ends: the figures are 0 at its beginning
/// and after an error. A compaction that another process ran has those of its result: times, the
/// numbers of entries and files, and bytes of tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactionJobStats {
    /// The duration.
    pub elapsed: Duration,
    /// The CPU time of all threads.
    pub cpu: Duration,
    /// The number of entries read, without range tombstones.
    pub num_input_records: u64,
    /// The number of deletions among them.
    pub num_input_deletion_records: u64,
    /// The size of the keys read, in bytes, with sequence numbers and types.
    pub input_raw_key_bytes: u64,
    /// The size of the values read, in bytes; of a value in a blob file, that of the reference.
    pub input_raw_value_bytes: u64,
    /// The number of input tables; 0 for a part.
    pub num_input_files: usize,
    /// The number of input tables on the output level; 0 for a part.
    pub num_input_files_at_output_level: usize,
    /// The number of input tables that were moved without being read; 0 for a part.
    pub num_input_files_trivially_moved: usize,
    /// The size of the input tables, in bytes; 0 for a part.
    pub input_bytes: u64,
    /// The number of values read from blob files.
    pub num_blobs_read: u64,
    /// The size of the records of these values, in bytes.
    pub blob_bytes_read: u64,
    /// The number of entries dropped because newer ones hide them, range tombstones among these.
    pub num_records_replaced: u64,
    /// The number of deletions, range tombstones among them, dropped because nothing is left to
    /// delete.
    pub num_expired_deletion_records: u64,
    /// The number of single deletions dropped without meeting a value.
    pub num_single_deletions_unmatched: u64,
    /// The number of single deletions that met another deletion or a merge operand.
    pub num_single_deletions_mismatched: u64,
    /// The number of entries written, with range tombstones.
    pub num_output_records: u64,
    /// The number of tables written.
    pub num_output_files: usize,
    /// The size of the tables written, in bytes.
    pub output_bytes: u64,
    /// The number of blob files written.
    pub num_output_blob_files: usize,
    /// The size of the records in the blob files written, in bytes.
    pub output_blob_bytes: u64,
    /// Whether all tables of the column family are inputs.
    pub is_full_compaction: bool,
    /// Whether a call requested the compaction.
    pub is_manual_compaction: bool,
    /// Whether another process ran the compaction.
    pub is_remote_compaction: bool,
    /// The smallest user key in the tables written; `None` without tables.
    pub smallest_output_key: Option<Vec<u8>>,
    /// The largest user key in the tables written; `None` without tables.
    pub largest_output_key: Option<Vec<u8>>,
}

impl CompactionJobStats {
    /// Returns what was read and written according to the figures of a merge.
    pub(crate) fn of(figures: MergeFigures) -> Self {
        let MergeFigures {
            input,
            drops,
            output,
            single_deletions,
            ..
        } = figures;
        let (smallest, largest) = output.keys.unzip();
        CompactionJobStats {
            num_input_records: figures.entries_read,
            num_input_deletion_records: input.deletions,
            input_raw_key_bytes: input.key_bytes,
            input_raw_value_bytes: input.value_bytes,
            num_blobs_read: figures.blobs_read,
            blob_bytes_read: figures.blob_bytes_read,
            num_records_replaced: drops.hidden + drops.range_deleted,
            num_expired_deletion_records: drops.obsolete + output.obsolete_tombstones,
            num_single_deletions_unmatched: single_deletions.unmatched,
            num_single_deletions_mismatched: single_deletions.mismatched,
            num_output_records: output.entries,
            num_output_files: output.tables,
            output_bytes: output.table_bytes,
            num_output_blob_files: output.blob_files,
            output_blob_bytes: output.blob_bytes,
            smallest_output_key: smallest,
            largest_output_key: largest,
            ..CompactionJobStats::default()
        }
    }
}
