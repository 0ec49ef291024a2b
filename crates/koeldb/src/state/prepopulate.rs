//! Insertion of the blocks of new tables into the block cache (`prepopulate_block_cache`), and of
//! new values into the blob cache (`prepopulate_blob_cache`).
//!
//! The job that wrote a file reads it once more, mostly from the page cache, before the file becomes
//! part of the database. First reads then find its blocks or values in the cache.

use koeldb_base::{Cursor, Result};
use koeldb_lsm::version::BlobFileMeta;
use koeldb_lsm::{FileMeta, TableOpener};
use koeldb_table::builder::TableReason;
use koeldb_table::reader::TableCursorOptions;
use koeldb_table::source::{BlockReadOptions, BlockingSource};

use crate::options::{ColumnFamilyOptions, PrepopulateBlobCache, PrepopulateBlockCache};

/// The size of the reads in bytes.
const READAHEAD_BYTES: u64 = 256 << 10;

/// Inserts the blocks of new tables into the block cache (`prepopulate_block_cache`).
///
/// Blocks that cannot be read are left out: a read that needs them reports why.
pub(crate) fn prepopulate(
    files: &[FileMeta],
    reason: TableReason,
    options: &ColumnFamilyOptions,
    level: usize,
    tables: &TableOpener,
) {
    let Some(table) = options.table_factory.block_based() else {
        return;
    };
    let is_wanted = match table.prepopulate_block_cache {
        PrepopulateBlockCache::Disable => false,
        PrepopulateBlockCache::FlushOnly => reason == TableReason::Flush,
        PrepopulateBlockCache::FlushAndCompaction => {
            matches!(reason, TableReason::Flush | TableReason::Compaction)
        }
    };
    if is_wanted {
        for file in files {
            let _ = insert_blocks(file, level, tables);
        }
    }
}

/// Inserts the values of the blob files of a flush into the blob cache (`prepopulate_blob_cache`).
///
/// Values that cannot be read are left out: a read that needs them reports why.
pub(crate) fn prepopulate_blobs(
    files: &[BlobFileMeta],
    reason: TableReason,
    options: &ColumnFamilyOptions,
    tables: &TableOpener,
) {
    let is_wanted = options.prepopulate_blob_cache == PrepopulateBlobCache::FlushOnly;
    if is_wanted && reason == TableReason::Flush {
        for file in files {
            let _ = tables.prepopulate_blob_cache(file);
        }
    }
}

/// Reads a table from start to end, so that its blocks enter the block cache.
fn insert_blocks(file: &FileMeta, level: usize, tables: &TableOpener) -> Result<()> {
    let source = BlockingSource::new(BlockReadOptions {
        readahead_bytes: READAHEAD_BYTES,
        ..BlockReadOptions::default()
    });
    let reader = tables.reader(file, level)?;
    let mut cursor = reader.cursor(source, &TableCursorOptions::default());
    cursor.seek_to_first()?;
    while cursor.valid() {
        cursor.next()?;
    }
    Ok(())
}
