//! Descriptions of compactions and subcompactions, for listeners.

#![expect(unsafe_code, reason = "lends parts of objects of the caller")]

use std::fmt::Debug;
use std::time::Duration;

use koeldb::{CompactionFileInfo, CompactionJobInfo, CompactionJobStats, SubcompactionJobInfo};

use crate::boundary::Failure;
use crate::handle::Handle;
use crate::memory::ToC;
use crate::text::Text;

use super::job_info::{BlobFile, BlobGarbage, codec, getters, int, lent, thread_id};
use super::table_properties::TableProperties;

/// Returns the number of a reason in C.
pub(super) fn reason_number(reason: impl Debug) -> u32 {
    match format!("{reason:?}").as_str() {
        "LevelL0FilesNum" => 1,
        "LevelMaxLevelSize" => 2,
        "UniversalSizeAmplification" => 3,
        "UniversalSizeRatio" => 4,
        "UniversalSortedRunNum" => 5,
        "FifoMaxSize" => 6,
        "FifoReduceNumFiles" => 7,
        "FifoTtl" => 8,
        "ManualCompaction" => MANUAL,
        "FilesMarkedForCompaction" => 10,
        "BottommostFiles" => 11,
        "Ttl" => 12,
        "PeriodicCompaction" => 15,
        "ChangeTemperature" => 16,
        "ForcedBlobGc" => 17,
        _ => 0,
    }
}

/// The reason of compactions that a call requested.
pub(super) const MANUAL: u32 = 9;

/// A file of a compaction (`rocksdb_compaction_file_info_t`).
pub(crate) struct FileInfo {
    level: i32,
    number: u64,
    oldest_blob_file: u64,
}

getters!(FileInfo {
    level: i32 = |of| of.level;
    file_number: u64 = |of| of.number;
    oldest_blob_file: u64 = |of| of.oldest_blob_file;
});

/// A file of a compaction, with its path.
struct File {
    path: Text,
    info: Handle<FileInfo>,
}

impl From<&CompactionFileInfo> for File {
    fn from(file: &CompactionFileInfo) -> Self {
        File {
            path: Text::of_path(&file.path),
            info: Handle::new(FileInfo {
                level: file.level.to_c(),
                number: file.file,
                oldest_blob_file: file.oldest_blob_file,
            }),
        }
    }
}

/// The figures of a compaction (`rocksdb_compaction_job_stats_t`).
pub(crate) struct JobStats {
    of: CompactionJobStats,
    smallest: Text,
    largest: Text,
}

/// The length of the prefixes of keys in the figures.
const PREFIX_BYTES: usize = 8;

impl From<&CompactionJobStats> for JobStats {
    fn from(of: &CompactionJobStats) -> Self {
        let prefix = |key: &Option<Vec<u8>>| {
            let key = key.as_deref().unwrap_or_default();
            Text::new(&key[..key.len().min(PREFIX_BYTES)])
        };
        JobStats {
            smallest: prefix(&of.smallest_output_key),
            largest: prefix(&of.largest_output_key),
            of: of.clone(),
        }
    }
}

/// Returns a duration in microseconds.
fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

getters!(JobStats {
    elapsed_micros: u64 = |stats| micros(stats.of.elapsed);
    cpu_micros: u64 = |stats| micros(stats.of.cpu);
    num_input_records: u64 = |stats| stats.of.num_input_records;
    // Every entry of the inputs is read.
    has_accurate_num_input_records: bool = |_stats| true;
    num_blobs_read: u64 = |stats| stats.of.num_blobs_read;
    num_input_files: usize = |stats| stats.of.num_input_files;
    num_input_files_trivially_moved: usize = |stats| stats.of.num_input_files_trivially_moved;
    num_input_files_at_output_level: usize = |stats| stats.of.num_input_files_at_output_level;
    num_output_records: u64 = |stats| stats.of.num_output_records;
    num_output_files: usize = |stats| stats.of.num_output_files;
    num_output_files_blob: usize = |stats| stats.of.num_output_blob_files;
    is_full_compaction: bool = |stats| stats.of.is_full_compaction;
    is_manual_compaction: bool = |stats| stats.of.is_manual_compaction;
    is_remote_compaction: bool = |stats| stats.of.is_remote_compaction;
    total_input_bytes: u64 = |stats| stats.of.input_bytes;
    total_blob_bytes_read: u64 = |stats| stats.of.blob_bytes_read;
    total_output_bytes: u64 = |stats| stats.of.output_bytes;
    total_output_bytes_blob: u64 = |stats| stats.of.output_blob_bytes;
    num_records_replaced: u64 = |stats| stats.of.num_records_replaced;
    total_input_raw_key_bytes: u64 = |stats| stats.of.input_raw_key_bytes;
    total_input_raw_value_bytes: u64 = |stats| stats.of.input_raw_value_bytes;
    num_input_deletion_records: u64 = |stats| stats.of.num_input_deletion_records;
    num_expired_deletion_records: u64 = |stats| stats.of.num_expired_deletion_records;
    smallest_output_key_prefix: &[u8] = |stats| stats.smallest.bytes();
    largest_output_key_prefix: &[u8] = |stats| stats.largest.bytes();
    num_single_del_fallthru: u64 = |stats| stats.of.num_single_deletions_unmatched;
    num_single_del_mismatch: u64 = |stats| stats.of.num_single_deletions_mismatched;
});

/// Returns 0, a count of what does not happen in this engine.
///
/// Every input is read, and a damaged key fails the compaction.
pub(crate) fn none(_: &JobStats) -> u64 {
    0
}

/// Returns 0, the count of damaged keys: they fail a compaction.
pub(crate) fn none_of_job(_: &CompactionJob) -> u64 {
    0
}

/// A compaction (`rocksdb_compactionjobinfo_t`).
pub(crate) struct CompactionJob {
    family: Text,
    family_id: u32,
    job_id: u64,
    error: Option<koeldb::Error>,
    base_input_level: i32,
    output_level: i32,
    level0_files: i32,
    reason: u32,
    compression: u32,
    blob_compression: u32,
    inputs: Vec<File>,
    outputs: Vec<File>,
    stats: Handle<JobStats>,
    properties: Vec<(Text, Handle<TableProperties>)>,
    blob_files: Vec<Handle<BlobFile>>,
    blob_garbage: Vec<Handle<BlobGarbage>>,
}

impl Default for CompactionJob {
    fn default() -> Self {
        CompactionJob {
            family: Text::default(),
            family_id: 0,
            job_id: 0,
            error: None,
            base_input_level: 0,
            output_level: 0,
            level0_files: 0,
            reason: 0,
            compression: 0,
            blob_compression: 0,
            inputs: Vec::new(),
            outputs: Vec::new(),
            stats: Handle::new((&CompactionJobStats::default()).into()),
            properties: Vec::new(),
            blob_files: Vec::new(),
            blob_garbage: Vec::new(),
        }
    }
}

impl From<&CompactionJobInfo> for CompactionJob {
    fn from(info: &CompactionJobInfo) -> Self {
        let files = info.inputs.iter().chain(&info.outputs);
        CompactionJob {
            family: Text::new(&info.column_family),
            family_id: info.column_family_id,
            job_id: info.job_id,
            error: info.error.clone(),
            base_input_level: info.base_input_level.to_c(),
            output_level: info.output_level.to_c(),
            level0_files: info.num_level0_files.to_c(),
            reason: reason_number(info.reason),
            compression: codec(info.compression),
            blob_compression: codec(info.blob_compression),
            inputs: info.inputs.iter().map(Into::into).collect(),
            outputs: info.outputs.iter().map(Into::into).collect(),
            stats: Handle::new((&info.stats).into()),
            properties: files
                .filter_map(|file| {
                    let properties = file.properties.as_ref()?;
                    Some((Text::of_path(&file.path), Handle::new(properties.into())))
                })
                .collect(),
            blob_files: info.blob_files.iter().map(BlobFile::handle).collect(),
            blob_garbage: info.blob_garbage.iter().map(BlobGarbage::handle).collect(),
        }
    }
}

impl CompactionJob {
    /// Fails as the compaction did.
    pub(crate) fn status(&self) -> Result<(), Failure> {
        self.error.clone().map_or(Ok(()), |error| Err(error.into()))
    }

    pub(crate) fn input_file_at(&self, at: usize) -> Option<&[u8]> {
        self.inputs.get(at).map(|file| file.path.bytes())
    }

    pub(crate) fn output_file_at(&self, at: usize) -> Option<&[u8]> {
        self.outputs.get(at).map(|file| file.path.bytes())
    }

    pub(crate) fn table_properties_key_at(&self, at: usize) -> Option<&[u8]> {
        self.properties.get(at).map(|(path, _)| path.bytes())
    }
}

getters!(CompactionJob {
    cf_id: u32 = |of| of.family_id;
    cf_name: &[u8] = |of| of.family.bytes();
    thread_id: u64 = |_of| thread_id();
    job_id: i32 = |of| int(of.job_id);
    num_l0_files: i32 = |of| of.level0_files;
    base_input_level: i32 = |of| of.base_input_level;
    output_level: i32 = |of| of.output_level;
    reason: u32 = |of| of.reason;
    compression: u32 = |of| of.compression;
    blob_compression: u32 = |of| of.blob_compression;
    // No function of C aborts compactions.
    is_aborted: bool = |_of| false;
    input_count: usize = |of| of.inputs.len();
    output_count: usize = |of| of.outputs.len();
    table_properties_count: usize = |of| of.properties.len();
    blob_file_count: usize = |of| of.blob_files.len();
    blob_garbage_count: usize = |of| of.blob_garbage.len();
    elapsed_micros: u64 = |of| of.stats.get().elapsed_micros();
    input_records: u64 = |of| of.stats.get().num_input_records();
    total_input_bytes: u64 = |of| of.stats.get().total_input_bytes();
    total_output_bytes: u64 = |of| of.stats.get().total_output_bytes();
    output_records: u64 = |of| of.stats.get().num_output_records();
    inputs_at_output_level: usize = |of| of.stats.get().num_input_files_at_output_level();
});

lent!(
    stats(CompactionJob) -> JobStats = |of| Some(&of.stats);
    input_at(CompactionJob, at: usize) -> FileInfo = |of| of.inputs.get(at).map(|file| &file.info);
    output_at(CompactionJob, at: usize) -> FileInfo =
        |of| of.outputs.get(at).map(|file| &file.info);
    properties_at(CompactionJob, at: usize) -> TableProperties =
        |of| of.properties.get(at).map(|(_, properties)| properties);
    properties_for(CompactionJob, name: *const std::ffi::c_char, length: usize) -> TableProperties =
        |of| {
            // SAFETY: the caller of this function promises that the name has this length.
            let name = unsafe { crate::memory::bytes(name, length, "file_name") };
            let name = name.unwrap_or_default();
            let found = of.properties.iter().find(|(path, _)| path.bytes() == name);
            found.map(|(_, properties)| properties)
        };
    blob_file_at(CompactionJob, at: usize) -> BlobFile = |of| of.blob_files.get(at);
    blob_garbage_at(CompactionJob, at: usize) -> BlobGarbage = |of| of.blob_garbage.get(at);
    part_stats(Subcompaction) -> JobStats = |of| Some(&of.stats);
);

/// A part of a compaction (`rocksdb_subcompactionjobinfo_t`).
pub(crate) struct Subcompaction {
    info: SubcompactionJobInfo,
    family: Text,
    stats: Handle<JobStats>,
}

impl From<&SubcompactionJobInfo> for Subcompaction {
    fn from(info: &SubcompactionJobInfo) -> Self {
        Subcompaction {
            info: info.clone(),
            family: Text::new(&info.column_family),
            stats: Handle::new((&info.stats).into()),
        }
    }
}

impl Subcompaction {
    /// Fails as the part did.
    pub(crate) fn status(&self) -> Result<(), Failure> {
        self.info
            .error
            .clone()
            .map_or(Ok(()), |error| Err(error.into()))
    }
}

getters!(Subcompaction {
    cf_id: u32 = |of| of.info.column_family_id;
    cf_name: &[u8] = |of| of.family.bytes();
    thread_id: u64 = |_of| thread_id();
    job_id: i32 = |of| int(of.info.job_id);
    subcompaction_job_id: i32 = |of| of.info.subcompaction_job_id.to_c();
    base_input_level: i32 = |of| of.info.base_input_level.to_c();
    output_level: i32 = |of| of.info.output_level.to_c();
    reason: u32 = |of| reason_number(of.info.reason);
    compression: u32 = |of| codec(of.info.compression);
    blob_compression: u32 = |of| codec(of.info.blob_compression);
});
