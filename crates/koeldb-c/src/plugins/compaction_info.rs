//! What listeners read of compactions and their parts.

#![expect(unsafe_code, reason = "lends parts of objects of the caller")]

use std::fmt::Debug;

use koeldb::{CompactionJobInfo, SubcompactionJobInfo};

use crate::boundary::Failure;
use crate::handle::Handle;
use crate::memory::ToC;

use super::job_info::{getters, int, lent, table_name, thread_id};
use super::table_properties::TableProperties;
use super::text::Text;

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

/// A table that a job has created.
#[derive(Clone)]
pub(super) struct CreatedTable {
    pub(super) job_id: u64,
    pub(super) number: u64,
    pub(super) path: Text,
    pub(super) properties: Option<TableProperties>,
}

/// A file of a compaction (`rocksdb_compaction_file_info_t`).
pub(crate) struct FileInfo {
    level: i32,
    number: u64,
}

getters!(FileInfo {
    level: i32 = |of| of.level;
    file_number: u64 = |of| of.number;
});

/// A file of a compaction, with its path.
struct File {
    path: Text,
    info: Handle<FileInfo>,
}

impl File {
    fn new(path: Text, level: usize, number: u64) -> Self {
        let level = level.to_c();
        File {
            path,
            info: Handle::new(FileInfo { level, number }),
        }
    }
}

/// The figures of a compaction (`rocksdb_compaction_job_stats_t`).
#[derive(Clone, Default)]
pub(crate) struct JobStats {
    elapsed_micros: u64,
    input_files: usize,
    input_files_there: usize,
    output_files: usize,
    input_bytes: u64,
    output_bytes: u64,
    output_records: u64,
    is_manual: bool,
}

getters!(JobStats {
    elapsed_micros: u64 = |of| of.elapsed_micros;
    num_input_files: usize = |of| of.input_files;
    num_input_files_at_output_level: usize = |of| of.input_files_there;
    num_output_files: usize = |of| of.output_files;
    total_input_bytes: u64 = |of| of.input_bytes;
    num_output_records: u64 = |of| of.output_records;
    total_output_bytes: u64 = |of| of.output_bytes;
    is_manual_compaction: bool = |of| of.is_manual;
});

/// A compaction (`rocksdb_compactionjobinfo_t`).
pub(crate) struct CompactionJob {
    family: Text,
    family_id: u32,
    job_id: u64,
    error: Option<koeldb::Error>,
    base_input_level: i32,
    output_level: i32,
    reason: u32,
    inputs: Vec<File>,
    outputs: Vec<File>,
    stats: Handle<JobStats>,
    properties: Vec<(Text, Handle<TableProperties>)>,
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
            reason: 0,
            inputs: Vec::new(),
            outputs: Vec::new(),
            stats: Handle::new(JobStats::default()),
            properties: Vec::new(),
        }
    }
}

impl CompactionJob {
    /// Describes a compaction that has created these tables.
    ///
    /// The engine tells the numbers of the inputs, not where they are: their paths are the names of
    /// the files.
    pub(super) fn new(info: &CompactionJobInfo, created: &[CreatedTable]) -> Self {
        let there = info.inputs.iter().filter(|of| of.0 == info.output_level);
        let reason = reason_number(info.reason);
        let created = |number: &u64| {
            let is_it =
                |table: &&CreatedTable| (table.job_id, table.number) == (info.job_id, *number);
            created.iter().find(is_it)
        };
        let path = |number: &u64| {
            created(number).map_or_else(|| table_name(*number), |table| table.path.clone())
        };
        let outputs = info.outputs.iter();
        let records = (outputs.clone().filter_map(created))
            .filter_map(|table| Some(table.properties.as_ref()?.num_entries()));
        CompactionJob {
            family: Text::new(&info.column_family),
            family_id: info.column_family_id,
            job_id: info.job_id,
            error: info.error.clone(),
            base_input_level: info.base_input_level.to_c(),
            output_level: info.output_level.to_c(),
            reason,
            stats: Handle::new(JobStats {
                elapsed_micros: u64::try_from(info.elapsed.as_micros()).unwrap_or(u64::MAX),
                input_files: info.inputs.len(),
                input_files_there: there.count(),
                output_files: info.outputs.len(),
                input_bytes: info.input_bytes,
                output_bytes: info.output_bytes,
                output_records: records.sum(),
                is_manual: reason == MANUAL,
            }),
            inputs: (info.inputs.iter())
                .map(|(level, number)| File::new(table_name(*number), *level, *number))
                .collect(),
            properties: (outputs.clone().filter_map(created))
                .filter_map(|table| {
                    let properties = Handle::new(table.properties.clone()?);
                    Some((table.path.clone(), properties))
                })
                .collect(),
            outputs: outputs
                .map(|number| File::new(path(number), info.output_level, *number))
                .collect(),
        }
    }

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
    base_input_level: i32 = |of| of.base_input_level;
    output_level: i32 = |of| of.output_level;
    reason: u32 = |of| of.reason;
    // No function of C aborts compactions.
    is_aborted: bool = |_of| false;
    input_count: usize = |of| of.inputs.len();
    output_count: usize = |of| of.outputs.len();
    table_properties_count: usize = |of| of.properties.len();
    elapsed_micros: u64 = |of| of.stats.get().elapsed_micros;
    total_input_bytes: u64 = |of| of.stats.get().input_bytes;
    total_output_bytes: u64 = |of| of.stats.get().output_bytes;
    output_records: u64 = |of| of.stats.get().output_records;
    inputs_at_output_level: usize = |of| of.stats.get().input_files_there;
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
);

/// A part of a compaction (`rocksdb_subcompactionjobinfo_t`).
pub(crate) struct Subcompaction {
    info: SubcompactionJobInfo,
    family: Text,
}

impl From<&SubcompactionJobInfo> for Subcompaction {
    fn from(info: &SubcompactionJobInfo) -> Self {
        Subcompaction {
            info: info.clone(),
            family: Text::new(&info.column_family),
        }
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
});
