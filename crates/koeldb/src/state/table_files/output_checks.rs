//! Verification of the tables that a job wrote, before they become part of the database
//! (`paranoid_file_checks`, `verify_output_flags`).

use koeldb_base::{Cursor, Error, Result};
use koeldb_lsm::job::EntryHash;
use koeldb_lsm::{FileMeta, TableOpener};
use koeldb_table::reader::TableCursorOptions;
use koeldb_table::source::{BlockReadOptions, BlockingSource};

use super::TableFiles;
use crate::options::ColumnFamilyOptions;

/// The readahead of the verification in bytes.
const READAHEAD_BYTES: u64 = 256 << 10;

/// The flags of `verify_output_flags`.
mod flags {
    pub(super) const BLOCKS: u32 = 1;
    pub(super) const ENTRIES: u32 = 2;
    pub(super) const WHOLE_FILES: u32 = 4;
    pub(super) const LOCAL_COMPACTIONS: u32 = 1 << 10;
}

/// The checks of the tables that flushes and compactions write (`verify_output_flags`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OutputChecks {
    /// The checksum of every block.
    blocks: bool,
    /// The checksum of the whole file, if it has one.
    whole_file: bool,
    /// The entries, against those that were added.
    pub(crate) entries: bool,
}

/// Whether tables are block-based; other formats may drop parts of entries, as sequence numbers.
fn is_block_based(options: &ColumnFamilyOptions) -> bool {
    options.table_factory.block_based().is_some()
}

impl OutputChecks {
    /// Returns the checks of the table of a flush.
    pub(crate) fn of_flush(options: &ColumnFamilyOptions) -> Self {
        OutputChecks {
            blocks: false,
            whole_file: false,
            entries: options.paranoid_file_checks && is_block_based(options),
        }
    }

    /// Returns the checks of the output tables of a local compaction.
    pub(crate) fn of_compaction(options: &ColumnFamilyOptions) -> Self {
        let flags = options.verify_output_flags;
        let has = |flag| flags & flag != 0 && flags & flags::LOCAL_COMPACTIONS != 0;
        OutputChecks {
            blocks: has(flags::BLOCKS),
            whole_file: has(flags::WHOLE_FILES),
            entries: (has(flags::ENTRIES) || options.paranoid_file_checks)
                && is_block_based(options),
        }
    }

    /// Verifies the output tables of a job, and removes all of them if one fails.
    pub(crate) fn verify(
        self,
        outputs: (&[FileMeta], &[EntryHash]),
        level: usize,
        tables: &TableOpener,
        files: &TableFiles,
    ) -> Result<()> {
        if self == OutputChecks::default() {
            return Ok(());
        }
        let (written, hashes) = outputs;
        let outcome = (written.iter().zip(hashes))
            .try_for_each(|(file, &expected)| self.verify_table(file, expected, level, tables));
        if outcome.is_err() {
            for file in written {
                // One that cannot be removed is an orphan, which the next open removes.
                let path = tables.paths().of_table(file);
                let _ = files.fs.remove_file(&path);
            }
        }
        outcome
    }

    /// Verifies a table against the hash of the entries that were written to it.
    fn verify_table(
        self,
        file: &FileMeta,
        expected: EntryHash,
        level: usize,
        tables: &TableOpener,
    ) -> Result<()> {
        if self.whole_file {
            tables.compare_file_checksum(file, &mut |_| ())?;
        }
        let reader = tables.reader(file, level)?;
        if self.blocks {
            reader.verify_checksums(&mut |_| ())?;
        }
        if !self.entries {
            return Ok(());
        }
        let source = BlockingSource::new(BlockReadOptions {
            fill_cache: false,
            readahead_bytes: READAHEAD_BYTES,
            ..BlockReadOptions::default()
        });
        let mut cursor = reader.cursor(source, &TableCursorOptions::default());
        let mut found = EntryHash::default();
        cursor.seek_to_first()?;
        while cursor.valid() {
            found.add(cursor.key(), cursor.value());
            cursor.next()?;
        }
        if found != expected {
            return Err(Error::corruption(format!(
                "table {:06}.sst does not have the entries that were written to it",
                file.number
            )));
        }
        Ok(())
    }
}
