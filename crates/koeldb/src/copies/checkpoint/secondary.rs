//! Checkpoints of the view of a secondary.
//!
//! Tables are linked or copied. The logs belong to the primary, which may remove them at any time:
//! the memtables are written to tables of the checkpoint instead.

use std::path::Path;
use std::sync::Arc;

use koeldb_base::Result;
use koeldb_base::file_name;
use koeldb_lsm::job::LiveSnapshots;
use koeldb_lsm::manifest::{self, ColumnFamilySnapshot, ManifestSnapshot};
use koeldb_lsm::version::{FileNumbers, VersionEdit, apply_edit};
use koeldb_table::builder::TableReason;

use super::{CheckpointOptions, CheckpointReport, check_names, report_transfers, transfer_files};
use crate::commit::protocol::CommitPipeline;
use crate::copies::capture::{CapturedFile, captured_blob_files, captured_tables, paths_by_id};
use crate::engine::secondary::Secondary;
use crate::open::staging::Staging;
use crate::state::column_family_data::ColumnFamilyData;
use crate::state::info_log::JobId;
use crate::state::memtables::newest_timestamp;
use crate::state::table_files::TableFiles;

/// Creates a checkpoint of the current view of a secondary. Catch-ups wait meanwhile.
pub(super) fn create(
    secondary: &Secondary,
    commit: &CommitPipeline,
    target: &Path,
    options: &CheckpointOptions,
) -> Result<CheckpointReport> {
    let held = secondary.hold_view(&commit.visibility)?;
    let seqno = commit.visibility.seqno();
    let mut snapshot = selected_families(commit, options)?;
    snapshot.last_seqno = seqno;
    let staging = Staging::create(&commit.context.fs, target, &[])?;
    let paths = paths_by_id(&commit.families.all());
    let mut files = captured_tables(&commit.context, &snapshot, &paths)?;
    files.extend(captured_blob_files(&commit.context, &snapshot, &paths));
    files.extend(options_file(commit)?);
    let outcomes = transfer_files(&commit.context, &files, staging.path(), options)?;
    let numbers = FileNumbers::starting_at(commit.tree.versions().file_numbers().peek());
    let manifest_number = numbers.next();
    let tables = TableFiles {
        directory: staging.path().to_owned(),
        in_one_directory: true,
        numbers: numbers.clone(),
        // Another checkpoint may give the same number to a table of other content.
        session_id: crate::open::new_session_id(),
        ..commit.context.table_files.clone()
    };
    let mut is_flushed = false;
    let job = commit.context.info_log.new_job();
    for family in &mut snapshot.families {
        if let Some(data) = commit.families.by_id().get(&family.id) {
            is_flushed |= flush(data, &tables, family, job)?;
        }
        family.log_number = manifest_number;
    }
    manifest::install(
        &*commit.context.fs,
        staging.path(),
        manifest_number,
        numbers.peek(),
        &snapshot,
    )?;
    staging.publish()?;
    drop(held);
    let report = CheckpointReport {
        sequence_number: seqno,
        is_flushed,
        ..report_transfers(&files, &outcomes)
    };
    commit
        .context
        .info_log
        .info(format_args!("checkpoint {}: {report:?}", target.display()));
    Ok(report)
}

/// Returns the MANIFEST state, without logs, of the column families in the checkpoint.
fn selected_families(
    commit: &CommitPipeline,
    options: &CheckpointOptions,
) -> Result<ManifestSnapshot> {
    let mut snapshot = commit.tree.versions().snapshot();
    snapshot.wals.clear();
    snapshot.in_one_directory = true;
    snapshot.min_log_number_to_keep = 0;
    if let Some(names) = &options.families {
        check_names(&snapshot, names)?;
        snapshot
            .families
            .retain(|family| family.id == 0 || names.contains(&family.name));
    }
    Ok(snapshot)
}

/// The newest OPTIONS file of the primary, if it is still there.
fn options_file(commit: &CommitPipeline) -> Result<Option<CapturedFile>> {
    let Some(number) = commit.newest_options_below(u64::MAX)? else {
        return Ok(None);
    };
    let source = file_name::options(&commit.context.path, number);
    match commit.context.fs.metadata(&source) {
        Err(error) if error.is_path_not_found() => Ok(None),
        metadata => Ok(Some(CapturedFile {
            name: format!("OPTIONS-{number:06}"),
            bytes: metadata?.len,
            source,
            is_constant: true,
            table: None,
            blob: None,
        })),
    }
}

/// Writes the memtables of a column family to a table, and adds it to the version.
fn flush(
    data: &ColumnFamilyData,
    tables: &TableFiles,
    family: &mut ColumnFamilySnapshot,
    job: JobId,
) -> Result<bool> {
    // Sealed, since later batches of the log belong to later views.
    data.install_view(|state| {
        if state.active.memtable.is_empty() {
            return;
        }
        let mut next = data.maker.make(&data.order, &state.options);
        next.first_log = state.active.first_log;
        next.activate();
        let full = std::mem::replace(&mut state.active, next);
        full.memtable.seal();
        state.sealed.push(full);
    });
    let memtables: Vec<_> = data.read(|state| {
        let sealed = state.sealed.iter();
        sealed.map(|sealed| Arc::clone(&sealed.memtable)).collect()
    });
    if memtables.is_empty() {
        return Ok(false);
    }
    let newest = family.version.files().map(|(_, file)| file.epoch).max();
    let epoch = newest.unwrap_or(0) + 1;
    let flushed = tables.flush(
        job,
        data,
        &memtables,
        &LiveSnapshots::default(),
        epoch,
        TableReason::Flush,
    )?;
    let added = flushed.file.into_iter();
    let edit = VersionEdit {
        added_files: added.map(|file| (0, Arc::new(file))).collect(),
        added_blob_files: flushed.blob_files,
        full_history_ts_low: family.version.raised_by_flush(newest_timestamp(&memtables)),
        ..VersionEdit::of(family.id)
    };
    if edit.changes_version() {
        family.version = Arc::new(apply_edit(&family.version, &edit)?);
    }
    Ok(true)
}
