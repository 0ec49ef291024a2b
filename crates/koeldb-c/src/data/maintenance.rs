//! Flushes, waits, verification, and the history of timestamps.

#![expect(unsafe_code, reason = "arrays of the caller")]

use koeldb::{ColumnFamily, Db};

use crate::boundary::Failure;
use crate::data::call_options::{FlushOptions, LogFlushOptions, WaitOptions};
use crate::data::{lists, timestamps};
use crate::handle::{self, Handle};
use crate::settings::read::ReadOptions;

/// Flushes the default column family.
pub(crate) fn flush(db: &Db, options: &FlushOptions) -> Result<(), Failure> {
    flush_cf(db, options, db.default_cf())
}

/// Flushes a column family.
pub(crate) fn flush_cf(
    db: &Db,
    options: &FlushOptions,
    family: &ColumnFamily,
) -> Result<(), Failure> {
    family.flush_opt(options.checked()?)?;
    Ok(options.finish(db)?)
}

/// Flushes column families.
///
/// # Safety
/// The rules of C.
pub(crate) unsafe fn flush_cfs(
    db: *mut Handle<Db>,
    options: *const Handle<FlushOptions>,
    families: *mut *mut Handle<ColumnFamily>,
    count: i32,
) -> Result<(), Failure> {
    // SAFETY: promised by the caller.
    let db = unsafe { handle::shared(db, "db")? };
    // SAFETY: promised by the caller.
    let options = unsafe { handle::shared(options, "options")? };
    // SAFETY: promised by the caller.
    let families =
        unsafe { lists::objects(families.cast(), lists::count(count), "column_family")? };
    db.flush_cfs(families, options.checked()?)?;
    Ok(options.finish(db)?)
}

/// Writes buffered records of the log to its file, and syncs it if asked.
pub(crate) fn flush_wal(db: &Db, sync: bool) -> koeldb::Result<()> {
    db.flush_wal(sync)
}

/// Writes buffered records of the log to its file, and syncs it if the options say so.
pub(crate) fn flush_wal_with_options(
    db: &Db,
    options: Option<&LogFlushOptions>,
) -> koeldb::Result<()> {
    db.flush_wal(options.is_some_and(|options| options.sync))
}

/// Verifies the checksums of all blocks.
pub(crate) fn verify_checksum(db: &Db) -> koeldb::Result<()> {
    db.verify_checksums()
}

/// Verifies the checksums of all blocks; the read options have no effect.
pub(crate) fn verify_checksum_with_options(db: &Db, _: &ReadOptions) -> koeldb::Result<()> {
    db.verify_checksums()
}

/// Verifies the checksums of all files that have one.
///
/// COMPAT: fails without a generator, which may have been there when the files were written.
pub(crate) fn verify_file_checksums(db: &Db) -> Result<(), Failure> {
    if db.options().get_file_checksum_gen_factory().is_none() {
        return Err(Failure::argument(
            "Cannot verify file checksum if options.file_checksum_gen_factory is null",
        ));
    }
    Ok(db.verify_file_checksums().map(drop)?)
}

/// Verifies the checksums of all files that have one; the read options have no effect.
pub(crate) fn verify_file_checksums_with_options(db: &Db, _: &ReadOptions) -> Result<(), Failure> {
    verify_file_checksums(db)
}

/// Waits for flushes and compactions, and starts no more in the background.
pub(crate) fn pause_background_work(db: &Db) -> koeldb::Result<()> {
    db.pause_background_work()
}

/// Reverts one pause.
pub(crate) fn continue_background_work(db: &Db) -> koeldb::Result<()> {
    db.continue_background_work()
}

/// Raises the timestamp below which history may be dropped.
pub(crate) fn increase_history(
    _: &Db,
    family: &ColumnFamily,
    timestamp: &[u8],
) -> Result<(), Failure> {
    Ok(family.increase_full_history_ts_low(timestamps::of(timestamp)?)?)
}

/// Returns the timestamp below which history may be dropped; empty if none was set.
pub(crate) fn history(_: &Db, family: &ColumnFamily) -> koeldb::Result<Option<Vec<u8>>> {
    let low = family.full_history_ts_low()?;
    Ok(Some(low.map_or_else(Vec::new, |low| low.to_vec())))
}

/// Cancels manual compactions for good, after a flush of data that no log has.
///
/// Automatic jobs go on until the close, which ends them.
pub(crate) fn cancel_background_work(db: &Db, _wait: bool) {
    // There is no place for the error; the close flushes again.
    let _ = db.flush_unlogged();
    db.disable_manual_compaction();
}

/// Cancels manual compactions and refuses new ones.
pub(crate) fn disable_manual_compaction(db: &Db) {
    db.disable_manual_compaction();
}

/// Permits manual compactions again.
pub(crate) fn enable_manual_compaction(db: &Db) {
    db.enable_manual_compaction();
}

/// Waits until no background work is due or running.
pub(crate) fn wait_for_compact(db: &Db, options: &WaitOptions) -> Result<(), Failure> {
    if options.wait_for_purge {
        return Err(Failure::unserved("WaitForCompactOptions::wait_for_purge"));
    }
    if options.flush {
        db.flush()?;
    }
    match options.abort_on_pause {
        true => db.wait_for_compact_unless_paused(options.limit())?,
        false => db.wait_for_compact(options.limit())?,
    }
    if options.close_db {
        db.close()?;
    }
    Ok(())
}
