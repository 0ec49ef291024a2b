//! Copies of tables with the values in them to which they refer.

use std::path::Path;

use koeldb_base::file_name::FileNumber;
use koeldb_base::key::user_key;
use koeldb_base::range_del::union_of;
use koeldb_base::{Cursor, Error, Result};
use koeldb_fs::Purpose;
use koeldb_fs::rate_limit::{IoKind, IoPriority};
use koeldb_lsm::job::{BlobSpec, OutputSpec, TableOutputs};
use koeldb_lsm::version::VersionBlobs;
use koeldb_lsm::{FileMeta, Version};
use koeldb_table::blob::BlobReadahead;
use koeldb_table::builder::TableReason;
use koeldb_table::reader::TableCursorOptions;
use koeldb_table::source::{BlockReadOptions, BlockingSource};

use super::{TableDestination, TableFiles};
use crate::state::column_family_data::ColumnFamilyData;

impl TableFiles {
    /// Writes a copy of a table of `version` into a directory, with all values in the table.
    ///
    /// The copy has the number of the table and all of its entries. It is synced.
    ///
    /// # Errors
    /// `Corruption` if a value is damaged; errors of the file system. An incomplete file may be left.
    pub(crate) fn write_inlined(
        &self,
        family: &ColumnFamilyData,
        version: &Version,
        (level, file): (usize, &FileMeta),
        directory: &Path,
    ) -> Result<FileMeta> {
        let options = family.options();
        let table = family.tables.reader(file, level)?;
        let source = BlockingSource::new(BlockReadOptions {
            fill_cache: false,
            ..BlockReadOptions::default()
        });
        let mut cursor = table.cursor(source, &TableCursorOptions::default());
        let tombstones: Vec<_> = table.tombstones().into_iter().cloned().collect();
        let tombstones = union_of(&family.order, &tombstones);
        let place = TableDestination {
            level: u32::try_from(level).unwrap_or(u32::MAX),
            base_level: u32::from(level > 0),
            bottommost: false,
            reason: TableReason::Compaction,
            target_file_bytes: 0,
        };
        let blobs = VersionBlobs::new(version, &family.tables, true, BlobReadahead::BYTES_MAX);
        let next_file_number = || -> FileNumber { file.number };
        let mut outputs = TableOutputs::new(OutputSpec {
            fs: &*self.fs,
            directory,
            path_id: 0,
            write_options: self.write_options(Purpose::Checkpoint, file.bytes),
            charge: self.charge(IoPriority::Low, IoKind::Write),
            context: self.build_context(family, &options, place),
            next_file_number: &next_file_number,
            target_file_bytes: u64::MAX,
            file_bytes_max: u64::MAX,
            target_is_upper_bound: false,
            grandparents: &[],
            max_grandparent_bytes: u64::MAX,
            snapshots: &[],
            bottommost: false,
            hidden: None,
            epoch: file.epoch,
            file_checksums: self.file_checksums,
            partition_bytes: None,
            deletion_triggers: &[],
            hash_entries: false,
            history_low: version.history_low(),
            blobs: BlobSpec {
                relocates_below: FileNumber::MAX,
                source: Some(&blobs),
                ..BlobSpec::unchanged()
            },
        });
        cursor.seek_to_first()?;
        let mut last = Vec::new();
        while cursor.valid() {
            let key = user_key(cursor.key());
            let starts_key = last.is_empty() || family.order.compare(&last, key).is_ne();
            outputs.add(
                cursor.key(),
                cursor.value(),
                starts_key,
                tombstones.as_ref(),
            )?;
            last.clear();
            last.extend_from_slice(key);
            cursor.next()?;
        }
        let mut made = outputs.finish(tombstones.as_ref())?.files;
        match (made.pop(), made.is_empty()) {
            (Some(copy), true) => Ok(copy),
            _ => Err(Error::corruption(format!(
                "table {:06} has no entries",
                file.number
            ))),
        }
    }
}
