//! Approximate sizes of ranges, of tables, blob files and memtables.
//!
//! Tables are estimated by the engine, and blob files in proportion to them, as in RocksDB.
//! Memtables are scanned.

#![expect(unsafe_code, reason = "arrays of the caller")]

use std::ffi::c_char;
use std::ops::Range;

use koeldb::{ColumnFamily, Db, ReadOptions, ReadTier};

use crate::boundary::Failure;
use crate::data::call_options::SizeOptions;
use crate::data::lists;
use crate::handle::{self, Handle};
use crate::memory;

/// The ranges of C and the place of their sizes.
struct Ranges {
    count: i32,
    starts: *const *const c_char,
    start_lengths: *const usize,
    limits: *const *const c_char,
    limit_lengths: *const usize,
    sizes: *mut u64,
}

impl Ranges {
    /// Writes the sizes of the ranges.
    ///
    /// # Safety
    /// The arrays have `count` elements.
    unsafe fn fill(self, family: &ColumnFamily, options: &SizeOptions) -> Result<(), Failure> {
        let count = lists::count(self.count);
        // SAFETY: promised by the caller.
        let starts =
            unsafe { memory::list(self.starts, self.start_lengths, count, "range_start_key")? };
        // SAFETY: promised by the caller.
        let limits =
            unsafe { memory::list(self.limits, self.limit_lengths, count, "range_limit_key")? };
        options.check()?;
        let ranges: Vec<_> = starts.into_iter().zip(limits).map(|(a, b)| a..b).collect();
        let sizes = sizes_of(family, &ranges, options)?;
        for (index, size) in sizes.into_iter().enumerate() {
            // SAFETY: promised by the caller.
            unsafe { lists::put(self.sizes, index, size) };
        }
        Ok(())
    }
}

/// Estimates the sizes of ranges.
fn sizes_of(
    family: &ColumnFamily,
    ranges: &[Range<&[u8]>],
    options: &SizeOptions,
) -> koeldb::Result<Vec<u64>> {
    let tables = match options.include_files || options.include_blob_files {
        true => family.approximate_sizes(ranges)?,
        false => vec![0; ranges.len()],
    };
    let blob_files = match options.include_blob_files {
        true => Some(BlobShare::of(family)?),
        false => None,
    };
    let size_of = |(range, tables): (&Range<&[u8]>, u64)| {
        let mut size = if options.include_files { tables } else { 0 };
        size += blob_files
            .as_ref()
            .map_or(0, |share| share.of_range(tables));
        if options.include_memtables {
            size += memtable_bytes(family, range)?;
        }
        Ok(size)
    };
    ranges.iter().zip(tables).map(size_of).collect()
}

/// The bytes of all blob files and of all tables.
struct BlobShare {
    blob_bytes: u64,
    table_bytes: u64,
}

impl BlobShare {
    fn of(family: &ColumnFamily) -> koeldb::Result<Self> {
        let blob_files = family.live_blob_files();
        Ok(BlobShare {
            blob_bytes: blob_files.iter().map(|file| file.bytes).sum(),
            table_bytes: family.approximate_sizes(&[..])?.iter().sum(),
        })
    }

    /// Returns the bytes of blob files of a range whose tables have so many bytes.
    fn of_range(&self, table_bytes: u64) -> u64 {
        let product = u128::from(self.blob_bytes) * u128::from(table_bytes);
        let share = product.checked_div(u128::from(self.table_bytes));
        share
            .and_then(|share| u64::try_from(share).ok())
            .unwrap_or(0)
    }
}

/// Returns the bytes of the keys and values of a range that are in memtables.
fn memtable_bytes(family: &ColumnFamily, range: &Range<&[u8]>) -> koeldb::Result<u64> {
    let mut options = ReadOptions::new();
    options
        .set_read_tier(ReadTier::Memtable)
        .set_total_order_seek(true)
        .set_iterate_lower_bound(range.start.to_vec())
        .set_iterate_upper_bound(range.end.to_vec());
    // Only families with timestamps have a history.
    if family.full_history_ts_low().is_ok() {
        options.set_timestamp([u8::MAX; 8]);
    }
    let mut cursor = family.cursor_opt(&options);
    let mut bytes = 0;
    let mut is_there = cursor.seek_to_first()?;
    while is_there {
        if let Some((key, value)) = cursor.entry() {
            bytes += (key.len() + value.len()) as u64;
        }
        is_there = cursor.next()?;
    }
    Ok(bytes)
}

/// Declares a function with the arrays of ranges last.
macro_rules! functions {
    ($(
        $(#[$attribute:meta])*
        $name:ident($($argument:ident: $type:ty),*) $before:block;
    )*) => {$(
        $(#[$attribute])*
        ///
        /// # Safety
        /// The rules of C.
        pub(crate) unsafe fn $name(
            $($argument: $type,)*
            count: i32,
            starts: *const *const c_char,
            start_lengths: *const usize,
            limits: *const *const c_char,
            limit_lengths: *const usize,
            sizes: *mut u64,
        ) -> Result<(), Failure> {
            let (family, options): (&ColumnFamily, &SizeOptions) = $before;
            let ranges = Ranges { count, starts, start_lengths, limits, limit_lengths, sizes };
            // SAFETY: promised by the caller.
            unsafe { ranges.fill(family, options) }
        }
    )*};
}

functions! {
    /// Estimates the bytes of ranges of the default column family.
    approximate(db: *mut Handle<Db>) {
        // SAFETY: promised by the caller.
        let db = unsafe { handle::shared(db, "db")? };
        (db.default_cf(), &SizeOptions::FILES)
    };
    /// Estimates the bytes of ranges of a column family.
    #[expect(clippy::too_many_arguments, reason = "those of C")]
    approximate_cf(_db: *mut Handle<Db>, family: *mut Handle<ColumnFamily>) {
        // SAFETY: promised by the caller.
        let family = unsafe { handle::shared(family, "column_family")? };
        (family, &SizeOptions::FILES)
    };
    /// Estimates the bytes of ranges of the default column family, with options.
    #[expect(clippy::too_many_arguments, reason = "those of C")]
    approximate_with_options(db: *mut Handle<Db>, options: *const Handle<SizeOptions>) {
        // SAFETY: promised by the caller.
        let db = unsafe { handle::shared(db, "db")? };
        // SAFETY: promised by the caller.
        (db.default_cf(), unsafe { handle::shared(options, "options")? })
    };
    /// Estimates the bytes of ranges of a column family, with options.
    #[expect(clippy::too_many_arguments, reason = "those of C")]
    approximate_cf_with_options(
        _db: *mut Handle<Db>,
        family: *mut Handle<ColumnFamily>,
        options: *const Handle<SizeOptions>
    ) {
        // SAFETY: promised by the caller.
        let family = unsafe { handle::shared(family, "column_family")? };
        // SAFETY: promised by the caller.
        (family, unsafe { handle::shared(options, "options")? })
    };
}

/// Estimates the bytes of ranges of a column family, as flags say.
///
/// # Safety
/// The rules of C.
#[expect(clippy::too_many_arguments, reason = "those of C")]
pub(crate) unsafe fn approximate_cf_with_flags(
    _: *mut Handle<Db>,
    family: *mut Handle<ColumnFamily>,
    count: i32,
    starts: *const *const c_char,
    start_lengths: *const usize,
    limits: *const *const c_char,
    limit_lengths: *const usize,
    flags: u8,
    sizes: *mut u64,
) -> Result<(), Failure> {
    // SAFETY: promised by the caller.
    let family = unsafe { handle::shared(family, "column_family")? };
    let ranges = Ranges {
        count,
        starts,
        start_lengths,
        limits,
        limit_lengths,
        sizes,
    };
    // SAFETY: promised by the caller.
    unsafe { ranges.fill(family, &SizeOptions::of_flags(flags)) }
}
