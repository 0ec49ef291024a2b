//! Checkpoints.

use std::ffi::CStr;

use koeldb::{CheckpointOptions, ColumnFamily, Db, FlushPolicy};

use crate::boundary::Failure;
use crate::copies::export::ExportMetadata;
use crate::memory::path;

/// A creator of checkpoints of one database (`rocksdb_checkpoint_t`).
pub(crate) struct Checkpoint(Db);

/// Returns a creator of checkpoints of `db`.
pub(crate) fn of(db: &Db) -> Result<Checkpoint, Failure> {
    Ok(Checkpoint(db.clone()))
}

/// Returns the flush policy of RocksDB's `log_size_for_flush`: a flush from that many bytes on.
pub(crate) fn flush_from(log_size: u64) -> FlushPolicy {
    match log_size {
        0 => FlushPolicy::Always,
        u64::MAX => FlushPolicy::Never,
        bytes => FlushPolicy::LogsOver(bytes - 1),
    }
}

/// Creates a checkpoint.
pub(crate) fn create(
    checkpoint: &Checkpoint,
    directory: &CStr,
    log_size_for_flush: u64,
) -> koeldb::Result<()> {
    let mut options = CheckpointOptions::new();
    options.set_flush(flush_from(log_size_for_flush));
    checkpoint
        .0
        .create_checkpoint_opt(path(directory), &options)?;
    Ok(())
}

/// Exports a column family.
pub(crate) fn export(
    _: &Checkpoint,
    family: &ColumnFamily,
    directory: &CStr,
) -> koeldb::Result<ExportMetadata> {
    Ok(ExportMetadata::of(family.export(path(directory))?))
}
