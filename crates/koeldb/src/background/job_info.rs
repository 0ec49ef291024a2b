//! Descriptions of flushes and compactions, for the events of listeners.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use koeldb_base::file_name;
use koeldb_lsm::pick::{CompactionPlan, CompactionReason};
use koeldb_lsm::version::{BlobFileMeta, BlobGarbage};
use koeldb_lsm::{DataPaths, FileMeta};
use koeldb_table::TableProperties;

use super::Background;
use super::compaction::{CarriedOut, CompactionRequest};
use super::merge::output_compression;
use crate::report::listener::{CompactionJobInfo, FlushJobInfo};
use crate::report::{
    BlobFileAdditionInfo, BlobFileGarbageInfo, CompactionFileInfo, CompactionJobStats,
    SstFileProperties,
};
use crate::state::column_family_data::ColumnFamilyData;

impl Background {
    /// Whether the description of a compaction has a reader: a listener, or the caller.
    pub(super) fn tells(&self, request: &CompactionRequest<'_>) -> bool {
        !self.context.listeners.is_empty() || request.report.is_some()
    }

    /// Returns the description of a compaction that begins.
    ///
    /// It lacks the input tables if it has no reader.
    pub(super) fn compaction_info(
        &self,
        family: &ColumnFamilyData,
        plan: &CompactionPlan,
        request: &CompactionRequest<'_>,
    ) -> CompactionJobInfo {
        let (options, version) = (family.options(), family.version());
        let there = |(level, _): &(usize, _)| *level == plan.output_level;
        let input_files = plan.files().count();
        let inputs = match self.tells(request) {
            true => input_info(family, plan),
            false => Vec::new(),
        };
        CompactionJobInfo {
            column_family: family.name.to_string(),
            column_family_id: family.id,
            job_id: self.context.info_log.new_job(),
            reason: plan.reason,
            error: None,
            base_input_level: plan.inputs.first().map_or(0, |input| input.level),
            inputs,
            outputs: Vec::new(),
            output_level: plan.output_level,
            num_level0_files: version.levels[0].files.len(),
            compression: output_compression(&options, &version, plan, request),
            blob_compression: options.blob_compression_type,
            blob_files: Vec::new(),
            blob_garbage: Vec::new(),
            stats: CompactionJobStats {
                num_input_files: input_files,
                num_input_files_at_output_level: plan.files().filter(there).count(),
                num_input_files_trivially_moved: match plan.trivial_move {
                    true => input_files,
                    false => 0,
                },
                input_bytes: plan.input_bytes(),
                is_full_compaction: plan.is_full(&version),
                is_manual_compaction: plan.reason == CompactionReason::ManualCompaction,
                ..CompactionJobStats::default()
            },
            input_bytes: plan.input_bytes(),
            output_bytes: 0,
            elapsed: Duration::ZERO,
        }
    }

    /// Adds the result of a compaction to its description, which has the inputs already.
    pub(super) fn add_result(
        &self,
        info: &mut CompactionJobInfo,
        family: &ColumnFamilyData,
        done: &CarriedOut,
    ) {
        let paths = family.tables.paths();
        // A merge knows the properties of its tables.
        let properties = done.properties.iter().map(Some);
        let properties = properties.chain(std::iter::repeat(None));
        info.outputs = (done.files.iter().zip(properties))
            .map(|(file, properties)| file_info(paths, info.output_level, file, properties))
            .collect();
        info.num_level0_files = family.version().levels[0].files.len();
        let directory = paths.directory(0);
        info.blob_files = blob_file_info(directory, &done.blob_files);
        info.blob_garbage = blob_garbage(directory, &done.blob_garbage);
        if let Some(merge) = &done.merge {
            info.stats = CompactionJobStats {
                num_input_files: info.stats.num_input_files,
                num_input_files_at_output_level: info.stats.num_input_files_at_output_level,
                input_bytes: info.stats.input_bytes,
                is_full_compaction: info.stats.is_full_compaction,
                is_manual_compaction: info.stats.is_manual_compaction,
                ..merge.stats.clone()
            };
        }
    }
}

/// Adds the result of a flush to its description.
pub(super) fn add_flushed(
    info: &mut FlushJobInfo,
    family: &ColumnFamilyData,
    table: Option<(&FileMeta, Option<&TableProperties>)>,
    blob_files: &[BlobFileMeta],
) {
    let paths = family.tables.paths();
    if let Some((file, properties)) = table {
        info.path = Some(file_name::table(paths.directory(file.path_id), file.number));
        info.properties = properties.and_then(|properties| SstFileProperties::of(properties).ok());
        info.oldest_blob_file = file.oldest_blob_file;
    }
    info.blob_files = blob_file_info(paths.directory(0), blob_files);
}

/// Describes the input tables of a plan; opens those that will be merged.
fn input_info(family: &ColumnFamilyData, plan: &CompactionPlan) -> Vec<CompactionFileInfo> {
    let paths = family.tables.paths();
    let info = |(level, file): (usize, &Arc<FileMeta>)| {
        if !plan.trivial_move && !plan.deletion_only {
            // The merge reports a failure.
            let _ = family.tables.reader(file, level);
        }
        file_info(paths, level, file, None)
    };
    plan.files().map(info).collect()
}

/// Describes a table of a compaction; without `properties`, those of the open table are taken.
fn file_info(
    paths: &DataPaths,
    level: usize,
    file: &Arc<FileMeta>,
    properties: Option<&TableProperties>,
) -> CompactionFileInfo {
    let properties = match properties {
        Some(properties) => SstFileProperties::of(properties).ok(),
        None => {
            (file.open_reader()).and_then(|reader| SstFileProperties::of(reader.properties()).ok())
        }
    };
    CompactionFileInfo {
        level,
        file: file.number,
        path: file_name::table(paths.directory(file.path_id), file.number),
        oldest_blob_file: file.oldest_blob_file,
        properties,
    }
}

/// Describes the blob files that a job wrote.
fn blob_file_info(directory: &Path, files: &[BlobFileMeta]) -> Vec<BlobFileAdditionInfo> {
    let info = |file: &BlobFileMeta| BlobFileAdditionInfo {
        path: file_name::blob(directory, file.number),
        file: file.number,
        blob_count: file.count,
        blob_bytes: file.bytes,
    };
    files.iter().map(info).collect()
}

/// Describes the garbage that a compaction left.
fn blob_garbage(directory: &Path, garbage: &[BlobGarbage]) -> Vec<BlobFileGarbageInfo> {
    let info = |of: &BlobGarbage| BlobFileGarbageInfo {
        path: file_name::blob(directory, of.number),
        file: of.number,
        garbage_blob_count: of.count,
        garbage_blob_bytes: of.bytes,
    };
    garbage.iter().map(info).collect()
}
