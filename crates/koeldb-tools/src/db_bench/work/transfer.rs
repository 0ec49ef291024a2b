//! Files into the database and out of it: ingestion, backup and restore.

use std::path::Path;

use koeldb::{
    BackupEngine, BackupEngineOptions, ColumnFamily, IngestExternalFileOptions, SstFileWriter,
};

use crate::db_bench::plan::{Failure, Outcome, Plan};
use crate::db_bench::tally::OpKind;
use crate::db_bench::values::Values;
use crate::db_bench::worker::Worker;

/// Runs `ingestexternalfile`: writes tables of `num` keys each, and ingests them in batches.
pub(crate) fn ingest(worker: &mut Worker<'_>) -> Outcome {
    let (plan, flags) = (worker.plan(), worker.flags());
    let database = worker.select();
    let family = database.default_family();
    let files_per_batch = flags.ingest_external_file_batch_size.max(1);
    let batches = flags.ingest_external_file_num_batches.max(1);
    let threads = flags.ingest_external_file_file_opening_threads.max(1);
    let mut options = IngestExternalFileOptions::new();
    options
        .set_move_files(true)
        .set_file_opening_threads(usize::try_from(threads).unwrap_or(1));
    let directory = database.path.join("ingest_tmp");
    let failed = |error: std::io::Error| Failure::of(&directory.display().to_string(), &error);
    #[expect(clippy::disallowed_methods, reason = "files outside the database")]
    std::fs::create_dir_all(&directory).map_err(failed)?;
    let mut values = plan.value_source();
    worker.announce(u64::try_from(batches).unwrap_or(0));
    for batch in 0..batches {
        let mut files = Vec::new();
        for file in 0..files_per_batch {
            let path = directory.join(format!("ingest_{batch}_{file}.sst"));
            worker.tally.bytes += write_table(family, &path, plan, &mut values)?;
            files.push(path);
        }
        let ingested = family.ingest_external_file_opt(&files, &options);
        ingested.map_err(|error| Failure::of("IngestExternalFile failed", &error))?;
        worker.finished(1, OpKind::Write);
    }
    std::fs::remove_dir_all(&directory).map_err(failed)?;
    worker.tally.add_message(&format!(
        "({batches} batches x {files_per_batch} files, {} keys/file, {threads} threads)",
        plan.key_count
    ));
    Ok(())
}

/// Writes a table file with all keys; returns the bytes of keys and values.
fn write_table(
    family: &ColumnFamily,
    path: &Path,
    plan: &Plan,
    values: &mut Values,
) -> Outcome<u64> {
    let failed = |error: koeldb::Error| Failure::of("SstFileWriter failed", &error);
    let mut writer = SstFileWriter::create(&family.options(), path).map_err(failed)?;
    let mut key = plan.key_buffer();
    let mut bytes = 0;
    for number in 0..plan.key_count {
        let (key, value) = (key.key(number), values.take());
        writer.put(key, value).map_err(failed)?;
        super::read::add_bytes(&mut bytes, key.len(), value.len());
    }
    writer.finish().map_err(failed)?;
    Ok(bytes)
}

/// Runs `backup`: replaces the backups in `backup_dir` by a new one.
pub(crate) fn backup(worker: &mut Worker<'_>) -> Outcome {
    let flags = worker.flags();
    let directory = directory("backup_dir", &flags.backup_dir)?;
    println!("Backup path: [{directory}]");
    let mut options = BackupEngineOptions::new();
    options.set_backup_rate_limit(flags.backup_rate_limit);
    let failed = |error: koeldb::Error| Failure::of("backup failed", &error);
    let engine = BackupEngine::open(directory, &options).map_err(failed)?;
    engine.purge_old_backups(0).map_err(failed)?;
    let made = engine.create_new_backup(&worker.select().db);
    made.map(drop).map_err(failed)
}

/// Runs `restore`: restores the latest backup in `backup_dir` into `restore_dir`.
pub(crate) fn restore(worker: &mut Worker<'_>) -> Outcome {
    let flags = worker.flags();
    let from = directory("backup_dir", &flags.backup_dir)?;
    let to = directory("restore_dir", &flags.restore_dir)?;
    println!("Backup path: [{from}]\nRestore path: [{to}]");
    let mut options = BackupEngineOptions::new();
    options.set_restore_rate_limit(flags.restore_rate_limit);
    let failed = |error: koeldb::Error| Failure::of("restore failed", &error);
    let engine = BackupEngine::open_read_only(from, &options).map_err(failed)?;
    engine.restore_latest(to).map(drop).map_err(failed)
}

/// Returns the directory that a flag names; fails if it is empty.
pub(super) fn directory<'f>(flag: &str, directory: &'f str) -> Outcome<&'f str> {
    match directory {
        "" => Err(Failure::new(format!("--{flag} is not given"))),
        directory => Ok(directory),
    }
}
