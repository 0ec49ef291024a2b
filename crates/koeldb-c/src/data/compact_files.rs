//! Compactions of named tables.

#![expect(unsafe_code, reason = "arrays and flags of the caller")]

use std::ffi::c_char;
use std::path::PathBuf;
use std::sync::Arc;

use koeldb::{ColumnFamily, CompactionOptions, Compression, Db};

use crate::boundary::Failure;
use crate::data::cancel_flag::{self, CancelFlag};
use crate::data::lists;
use crate::handle::{self, Handle};
use crate::memory;
use crate::plugins::compaction_info::CompactionJob;

/// The number for the compression of the output level (RocksDB's `kDisableCompressionOption`).
const NO_COMPRESSION: i32 = 0xff;

/// The options of a compaction of named tables (`rocksdb_compaction_options_t`).
pub(crate) struct FilesOptions {
    compression: i32,
    output_file_size_limit: u64,
    max_subcompactions: u32,
    /// Kept without effect: a hint for file systems with several kinds of storage.
    output_temperature_override: i32,
    /// Kept without effect: it would change only the speed.
    allow_trivial_move: bool,
    canceled: Option<Arc<CancelFlag>>,
}

impl Default for FilesOptions {
    fn default() -> Self {
        FilesOptions {
            compression: NO_COMPRESSION,
            output_file_size_limit: u64::MAX,
            max_subcompactions: 0,
            output_temperature_override: 0,
            allow_trivial_move: false,
            canceled: None,
        }
    }
}

macro_rules! fields {
    ($($field:ident: $value:ty, $set:ident;)*) => {$(
        #[doc = concat!("Sets `", stringify!($field), "`.")]
        pub(crate) fn $set(options: &mut FilesOptions, value: $value) {
            options.$field = value;
        }

        #[doc = concat!("Returns `", stringify!($field), "`.")]
        pub(crate) fn $field(options: &FilesOptions) -> $value {
            options.$field
        }
    )*};
}

fields! {
    compression: i32, set_compression;
    output_file_size_limit: u64, set_output_file_size_limit;
    max_subcompactions: u32, set_max_subcompactions;
    output_temperature_override: i32, set_output_temperature_override;
    allow_trivial_move: bool, set_allow_trivial_move;
}

impl FilesOptions {
    /// Returns the options of the engine.
    fn of_engine(&self, path_id: i32) -> Result<CompactionOptions, Failure> {
        let mut options = CompactionOptions::new();
        if self.compression != NO_COMPRESSION {
            let codec = u8::try_from(self.compression).ok();
            let codec = codec.and_then(Compression::from_byte).ok_or_else(|| {
                Failure::argument(format!("{} is no compression type", self.compression))
            })?;
            options.set_compression(codec);
        }
        options
            .set_output_file_size_limit(
                Some(self.output_file_size_limit).filter(|limit| *limit < u64::MAX),
            )
            .set_max_subcompactions(self.max_subcompactions)
            .set_output_path_id(u32::try_from(path_id).ok());
        if let Some(canceled) = &self.canceled {
            options.set_canceled(&canceled.token());
        }
        Ok(options)
    }
}

/// Sets the flag that cancels the compactions with these options; null for none.
///
/// # Safety
/// The rules of C.
pub(crate) unsafe fn set_canceled(options: *mut Handle<FilesOptions>, canceled: *mut u8) {
    // SAFETY: promised by the caller.
    if let Ok(options) = unsafe { handle::exclusive(options, "options") } {
        // SAFETY: promised by the caller.
        options.canceled = unsafe { cancel_flag::share(canceled) };
    }
}

/// Compacts tables of the default column family.
///
/// # Safety
/// The rules of C.
#[expect(clippy::too_many_arguments, reason = "those of C")]
pub(crate) unsafe fn compact(
    db: *mut Handle<Db>,
    options: *const Handle<FilesOptions>,
    names: *const *const c_char,
    count: usize,
    output_level: i32,
    output_path_id: i32,
    made: *mut *mut *mut c_char,
    made_count: *mut usize,
    job_info: *mut Handle<CompactionJob>,
) -> Result<(), Failure> {
    let family = std::ptr::null_mut();
    // SAFETY: promised by the caller.
    unsafe {
        compact_cf(
            db,
            family,
            options,
            names,
            count,
            output_level,
            output_path_id,
            made,
            made_count,
            job_info,
        )
    }
}

/// Compacts tables of a column family; null means the default one.
///
/// # Safety
/// The rules of C.
#[expect(clippy::too_many_arguments, reason = "those of C")]
pub(crate) unsafe fn compact_cf(
    db: *mut Handle<Db>,
    family: *mut Handle<ColumnFamily>,
    options: *const Handle<FilesOptions>,
    names: *const *const c_char,
    count: usize,
    output_level: i32,
    output_path_id: i32,
    made: *mut *mut *mut c_char,
    made_count: *mut usize,
    job_info: *mut Handle<CompactionJob>,
) -> Result<(), Failure> {
    // SAFETY: promised by the caller.
    let db = unsafe { handle::shared(db, "db")? };
    // SAFETY: promised by the caller.
    let family = unsafe { handle::optional(family) };
    // SAFETY: promised by the caller.
    let options = unsafe { handle::optional(options) };
    // SAFETY: promised by the caller.
    let names = unsafe { lists::texts(names, count, "input_file_names")? };
    // SAFETY: promised by the caller.
    let job_info = unsafe { handle::exclusive(job_info, "compaction_job_info") }.ok();
    let defaults = FilesOptions::default();
    let options = options.unwrap_or(&defaults).of_engine(output_path_id)?;
    let level = u32::try_from(output_level)
        .map_err(|_| Failure::argument(format!("{output_level} is no level")))?;
    let files: Vec<PathBuf> = names
        .into_iter()
        .map(|name| memory::path(name).to_owned())
        .collect();
    let family = family.unwrap_or(db.default_cf());
    let mut report = None;
    let tables = match job_info {
        None => family.compact_files_opt(&files, level, &options),
        Some(job_info) => {
            let tables = family.compact_files_reported(&files, level, &options, &mut report);
            if let Some(report) = &report {
                *job_info = CompactionJob::from(report);
            }
            tables
        }
    };
    let tables = tables?;
    // SAFETY: promised by the caller.
    unsafe { memory::set(made_count, if made.is_null() { 0 } else { tables.len() }) };
    if !made.is_null() {
        let texts = lists::give_texts(tables.iter().map(|path| path.to_string_lossy()));
        // SAFETY: promised by the caller.
        unsafe { memory::set(made, texts) };
    }
    Ok(())
}
