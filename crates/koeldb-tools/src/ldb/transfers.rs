//! Commands that take files out of databases and into them: checkpoints, backups, ingestion.

use std::io::{BufRead, Write as _};
use std::path::Path;

use koeldb::{
    BackupEngine, BackupEngineOptions, CheckpointOptions, CreateBackupOptions,
    IngestExternalFileOptions, RestoreOptions, SstFileWriter, SstFileWriterOptions,
};

use super::args::{Backups, Global, Ingestion};
use super::data::parse_line;
use super::database::{directory, open_to_read, open_to_write};
use super::output::Output;
use super::{Failure, Outcome};
use crate::progress;

pub(super) fn checkpoint(global: &Global, target: &Path, out: &mut Output) -> Outcome {
    let database = open_to_write(global)?;
    let mut options = CheckpointOptions::new();
    options.set_log_size_for_flush(0);
    database.db.create_checkpoint_opt(target, &options)?;
    database.close()?;
    out.ok()
}

pub(super) fn backup(global: &Global, backups: &Backups, out: &mut Output) -> Outcome {
    let database = open_to_write(global)?;
    out.line("open db OK")?;
    let engine = BackupEngine::open(&backups.backup_dir, &engine_options(backups))?;
    out.line("open backup engine OK")?;
    let bar = progress::bytes("backup");
    let mut options = CreateBackupOptions::new();
    let shown = bar.clone();
    options.set_progress(move |done, all| {
        shown.set_length(all);
        shown.set_position(done);
    });
    let made = engine.create_new_backup_opt(&database.db, &options);
    bar.finish_and_clear();
    made?;
    database.close()?;
    out.line("create new backup OK")
}

pub(super) fn restore(global: &Global, backups: &Backups, out: &mut Output) -> Outcome {
    let path = directory(global)?;
    let engine = BackupEngine::open_read_only(&backups.backup_dir, &engine_options(backups))?;
    out.line("open restore engine OK")?;
    let Some(latest) = engine.backups().pop() else {
        return Err(Failure::Message("there is no backup to restore".to_owned()));
    };
    let bar = progress::bytes("restore");
    let mut options = RestoreOptions::new();
    let shown = bar.clone();
    options.set_progress(move |done, all| {
        shown.set_length(all);
        shown.set_position(done);
    });
    let restored = engine.restore(latest.backup_id, &path, &path, &options);
    bar.finish_and_clear();
    for name in restored?.unknown_names {
        eprintln!("Note: {name} is no file of a database and was left alone");
    }
    out.line("restore from backup OK")
}

/// Converts the flags to backup engine options.
fn engine_options(backups: &Backups) -> BackupEngineOptions {
    let mut options = BackupEngineOptions::new();
    if let Some(threads) = backups.num_threads {
        options.set_max_background_operations(threads);
    }
    options
}

/// Runs `write_extern_sst`: writes `key ==> value` lines of standard input to a table file.
pub(super) fn write_table(global: &Global, path: &Path, out: &mut Output) -> Outcome {
    let database = open_to_write(global)?;
    let mut how = SstFileWriterOptions::new();
    how.set_column_family(&database.family).set_sync_dir(true);
    let mut writer = SstFileWriter::create_opt(&database.family.options(), path, &how)?;
    let mut bad_lines = 0_u64;
    for line in std::io::stdin().lock().split(b'\n') {
        let line = line?;
        match parse_line(&line, out) {
            Some((key, value)) => writer.put(key, value)?,
            None if line.starts_with(b"Keys in range:") => {}
            None => bad_lines += 1,
        }
    }
    writer.finish()?;
    database.close()?;
    if bad_lines > 0 {
        eprintln!("Warning: {bad_lines} bad lines ignored.");
    }
    out.line(&format!("external SST file written to {}", path.display()))
}

pub(super) fn ingest(global: &Global, ingestion: &Ingestion, out: &mut Output) -> Outcome {
    let database = open_to_write(global)?;
    let mut options = IngestExternalFileOptions::new();
    options
        .set_move_files(ingestion.move_files)
        .set_snapshot_consistency(ingestion.snapshot_consistency)
        .set_allow_global_seqno(ingestion.allow_global_seqno)
        .set_allow_blocking_flush(ingestion.allow_blocking_flush);
    database
        .family
        .ingest_external_file_opt(&ingestion.files, &options)?;
    database.close()?;
    out.line("external SST files ingested")
}

/// Runs `file_checksum_dump`: prints the recorded checksum of each table and blob file.
pub(super) fn file_checksums(global: &Global, out: &mut Output) -> Outcome {
    let database = open_to_read(global)?;
    let tables = database.db.live_files().into_iter();
    let tables = tables.map(|file| {
        (
            file.number,
            file.file_checksum_func_name,
            file.file_checksum,
        )
    });
    let blobs = database.db.live_blob_files().into_iter();
    let blobs = blobs.map(|file| {
        (
            file.number,
            file.file_checksum_func_name,
            file.file_checksum,
        )
    });
    let mut files: Vec<_> = tables.chain(blobs).collect();
    files.sort();
    for (number, function, checksum) in files {
        let function = match function.as_str() {
            "" => "Unknown",
            name => name,
        };
        write!(out.writer(), "{number}, {function}, ")?;
        out.value(&checksum)?;
    }
    out.line("Print SST file checksum information finished ")
}
