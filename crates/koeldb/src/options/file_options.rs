//! The settings of the files that a database writes: logs, tables, MANIFESTs.
//!
//! They follow from the options at the creation of a file, so that a change at run time applies to
//! the next one.

use koeldb_base::coding::to_usize;
use koeldb_fs::{Purpose, WriteOptions};

use crate::options::DbOptions;

/// Logs reserve space in steps of this size, so that a small one wastes little.
const LOG_STEP_BYTES: u64 = 4 << 20;

impl DbOptions {
    /// Returns the write options of a new WAL file.
    pub(crate) fn wal_file(&self) -> WriteOptions {
        WriteOptions {
            buffer_bytes: to_usize(self.writable_file_max_buffer_size).max(64 << 10),
            bytes_per_sync: self.wal_bytes_per_sync,
            preallocate_bytes: self.preallocated(LOG_STEP_BYTES),
            temperature: self.wal_write_temperature.to_byte(),
            ..self.file(Purpose::Wal)
        }
    }

    /// Returns the write options of a new MANIFEST file.
    pub(crate) fn manifest_file(&self) -> WriteOptions {
        WriteOptions {
            preallocate_bytes: self.preallocated(self.manifest_preallocation_size),
            temperature: self.metadata_write_temperature.to_byte(),
            ..self.file(Purpose::Manifest)
        }
    }

    /// Returns the write options of a new table file; `bytes_expected` is 0 if unknown.
    pub(crate) fn table_file(&self, purpose: Purpose, bytes_expected: u64) -> WriteOptions {
        WriteOptions {
            buffer_bytes: table_buffer_bytes(self),
            bytes_per_sync: self.bytes_per_sync,
            preallocate_bytes: self.preallocated(bytes_expected),
            direct: self.use_direct_io_for_flush_and_compaction,
            ..self.file(purpose)
        }
    }

    /// Returns the write options of a file with this purpose.
    fn file(&self, purpose: Purpose) -> WriteOptions {
        WriteOptions {
            strict_bytes_per_sync: self.strict_bytes_per_sync,
            full_sync: self.use_fsync,
            ..WriteOptions::new(purpose)
        }
    }

    /// Returns `bytes` as the size to preallocate; 0 if `allow_fallocate` is off.
    fn preallocated(&self, bytes: u64) -> u64 {
        if self.allow_fallocate { bytes } else { 0 }
    }
}

/// Returns the size of each write to a table file.
///
/// Data copied to the page cache should still be in the L2 cache of the processor, and a system
/// that allocates page-cache memory in the sizes of writes finds smaller pieces more easily (ext4
/// takes a quarter of the time of 1 MiB). Tables that will be mapped are written in huge pages:
/// such a system then maps them as huge pages, and a lookup misses neither in the TLB nor in the
/// page table.
fn table_buffer_bytes(db: &DbOptions) -> usize {
    const HUGE_PAGE_BYTES: usize = 2 << 20;
    const PIECE_BYTES_MAX: usize = 256 << 10;
    let asked = to_usize(db.writable_file_max_buffer_size);
    if db.allow_mmap_reads {
        asked.max(1).next_multiple_of(HUGE_PAGE_BYTES)
    } else {
        asked.min(PIECE_BYTES_MAX)
    }
}
