//! Ingestion of external table files.

#![expect(unsafe_code, reason = "arrays of names are the caller's")]

use std::ffi::c_char;
use std::path::Path;

use koeldb::{ColumnFamily, Db, IngestExternalFileOptions};

use crate::boundary::Failure;
use crate::copies::fields::plain_options;
use crate::handle::{self, Handle};
use crate::memory;

plain_options! {
    /// Options of an ingestion (`rocksdb_ingestexternalfileoptions_t`).
    ///
    /// Without effect are `write_global_seqno`, as the MANIFEST has the number, and RocksDB takes
    /// it from there since 5.16; `verify_file_checksum`, as callers of C cannot pass checksums; and
    /// the sizes and caching of reads.
    IngestOptions {
        move_files: bool = false, set_move_files;
        link_files: bool = false, set_link_files;
        failed_move_fall_back_to_copy: bool = true, set_failed_move_fall_back_to_copy;
        snapshot_consistency: bool = true, set_snapshot_consistency;
        allow_global_seqno: bool = true, set_allow_global_seqno;
        allow_blocking_flush: bool = true, set_allow_blocking_flush;
        ingest_behind: bool = false, set_ingest_behind;
        write_global_seqno: bool = false, set_write_global_seqno;
        verify_checksums_before_ingest: bool = false, set_verify_checksums_before_ingest;
        verify_checksums_readahead_size: usize = 0, set_verify_checksums_readahead_size;
        verify_file_checksum: bool = true, set_verify_file_checksum;
        fail_if_not_bottommost_level: bool = false, set_fail_if_not_bottommost_level;
        allow_db_generated_files: bool = false, set_allow_db_generated_files;
        fill_cache: bool = true, set_fill_cache;
        prefetch_lmax_index_and_filter_blocks: bool = true,
            set_prefetch_lmax_index_and_filter_blocks;
        file_opening_threads: i32 = 1, set_file_opening_threads;
    }
}

impl IngestOptions {
    /// Returns the engine's options.
    fn engine(&self) -> Result<IngestExternalFileOptions, Failure> {
        if self.allow_db_generated_files {
            return Err(Failure::unserved(
                "allow_db_generated_files: only files of an SstFileWriter are ingested",
            ));
        }
        let mut options = IngestExternalFileOptions::new();
        options
            .set_move_files(self.move_files)
            .set_link_files(self.link_files)
            .set_failed_move_fall_back_to_copy(self.failed_move_fall_back_to_copy)
            .set_snapshot_consistency(self.snapshot_consistency)
            .set_allow_global_seqno(self.allow_global_seqno)
            .set_allow_blocking_flush(self.allow_blocking_flush)
            .set_ingest_behind(self.ingest_behind)
            .set_verify_checksums_before_ingest(self.verify_checksums_before_ingest)
            .set_fail_if_not_bottommost_level(self.fail_if_not_bottommost_level)
            .set_file_opening_threads(usize::try_from(self.file_opening_threads).unwrap_or(1));
        Ok(options)
    }
}

/// Ingests the files of a list of names.
///
/// # Safety
/// `names` has `count` C strings.
unsafe fn ingest(
    family: &ColumnFamily,
    names: *const *const c_char,
    count: usize,
    options: &IngestOptions,
) -> Result<(), Failure> {
    // SAFETY: promised by the caller.
    let names = unsafe { memory::array(names, count, "file_list")? };
    let mut paths: Vec<&Path> = Vec::with_capacity(count);
    for name in names {
        // SAFETY: promised by the caller.
        let name = unsafe { memory::text(*name, "a name in file_list")? };
        paths.push(memory::path(name));
    }
    Ok(family.ingest_external_file_opt(&paths, &options.engine()?)?)
}

/// Ingests files into the default column family.
///
/// # Safety
/// See [`ingest`]; the objects are those of their types.
pub(crate) unsafe fn ingest_default(
    db: *const Handle<Db>,
    names: *const *const c_char,
    count: usize,
    options: *const Handle<IngestOptions>,
) -> Result<(), Failure> {
    // SAFETY: promised by the caller.
    let db = unsafe { handle::shared(db, "db")? };
    // SAFETY: promised by the caller.
    let options = unsafe { handle::shared(options, "opt")? };
    // SAFETY: promised by the caller.
    unsafe { ingest(db.default_cf(), names, count, options) }
}

/// Ingests files into a column family.
///
/// # Safety
/// See [`ingest_default`].
pub(crate) unsafe fn ingest_cf(
    db: *const Handle<Db>,
    family: *const Handle<ColumnFamily>,
    names: *const *const c_char,
    count: usize,
    options: *const Handle<IngestOptions>,
) -> Result<(), Failure> {
    // SAFETY: promised by the caller.
    unsafe { handle::shared(db, "db")? };
    // SAFETY: promised by the caller.
    let family = unsafe { handle::shared(family, "handle")? };
    // SAFETY: promised by the caller.
    let options = unsafe { handle::shared(options, "opt")? };
    // SAFETY: promised by the caller.
    unsafe { ingest(family, names, count, options) }
}
