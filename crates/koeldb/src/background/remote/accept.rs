//! The checks of a worker's result: a primary relies on no part of it unchecked.
//!
//! A job is accepted only as a whole. Values of entries cannot be checked without compacting
//! again; everything that would damage the tree is: names, sizes, block and file checksums, unique
//! ids, owner, key and sequence number ranges, order, and numbers of entries.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use koeldb_base::range_del::FragmentedTombstones;
use koeldb_base::{Cursor, Error, KeyOrder, Result, SeqNo};
use koeldb_lsm::job::input_entry_count;
use koeldb_lsm::pick::CompactionPlan;
use koeldb_lsm::{FileMeta, OpenTables, TableOpener};
use koeldb_table::TableProperties;
use koeldb_table::reader::{TableCursorOptions, TableReader};
use koeldb_table::source::{BlockReadOptions, BlockingSource};

use super::format::{JobResult, OutputTable, table_number};
use crate::state::column_family_data::ColumnFamilyData;
use crate::state::table_files::TableFiles;

/// The readahead of the verification in bytes.
const READAHEAD_BYTES: u64 = 256 << 10;

/// A table in the output directory of a worker that has passed all checks.
pub(crate) struct AcceptedTable {
    pub(crate) path: PathBuf,
    /// The metadata, with the number that the worker chose.
    pub(crate) file: FileMeta,
    pub(crate) properties: TableProperties,
    /// The range tombstones.
    pub(crate) tombstones: Option<Arc<FragmentedTombstones>>,
}

/// The tables and statistics of a remote compaction that have passed all checks.
pub(crate) struct AcceptedJob {
    pub(crate) tables: Vec<AcceptedTable>,
    pub(crate) result: JobResult,
}

/// A remote compaction whose result is checked: its plan, column family and output directory.
pub(crate) struct RemoteJob<'a> {
    pub(crate) files: &'a TableFiles,
    pub(crate) family: &'a ColumnFamilyData,
    pub(crate) plan: &'a CompactionPlan,
    /// The output directory of the job.
    pub(crate) directory: &'a Path,
}

/// Returns the `Corruption` error of a result that is rejected.
fn refused(what: impl std::fmt::Display) -> Error {
    Error::corruption(format!("remote compaction: {what}"))
}

/// Returns a `Corruption` error with the text `what` unless `holds` is true.
fn require(holds: bool, what: impl std::fmt::Display) -> Result<()> {
    if holds { Ok(()) } else { Err(refused(what)) }
}

impl RemoteJob<'_> {
    /// Checks the result message of a worker and verifies its output tables.
    ///
    /// # Errors
    /// The worker's error; `Corruption` for the first violation; errors of reading tables.
    pub(crate) fn accept(&self, message: &[u8]) -> Result<AcceptedJob> {
        let result = JobResult::decode(message)?;
        if let Some(error) = &result.error {
            return Err(error.clone());
        }
        let is_own_level = result.output_level as usize == self.plan.output_level;
        require(is_own_level, "the output level is another one")?;
        let is_own_directory = Path::new(&result.directory) == self.directory;
        require(is_own_directory, "the output directory is another one")?;
        let mut own =
            std::iter::once(&*self.files.directory).chain(self.family.tables.paths().directories());
        require(
            !own.any(|own| self.directory.starts_with(own)),
            "the output directory is in that of the database",
        )?;
        if let Some(expected) = input_entry_count(self.plan, &self.family.tables) {
            let read = result.figures.input_entries;
            require(
                read == expected,
                format_args!("{read} entries were read of {expected}"),
            )?;
        }
        let of_worker = TableFiles {
            directory: self.directory.to_owned(),
            in_one_directory: true,
            open_tables: Arc::new(OpenTables::new(None)),
            ..self.files.clone()
        };
        let options = self.family.options();
        let opener = of_worker.table_opener(&self.family.order, &options);
        let mut tables: Vec<AcceptedTable> = Vec::new();
        for output in &result.files {
            let before = tables.last().map(|table| &table.file);
            let table = self.accept_table(output, before, &opener);
            let named = |error: Error| error.context(format_args!("table {:?}", output.name));
            tables.push(table.map_err(named)?);
        }
        let written: u64 = tables.iter().map(|it| it.properties.entry_count).sum();
        let figures = &result.figures;
        require(
            figures.output_files == tables.len() as u64 && figures.output_entries == written,
            "the figures are not those of the tables",
        )?;
        Ok(AcceptedJob { tables, result })
    }

    /// Verifies one output table: bounds, size, checksums, identity and entries.
    fn accept_table(
        &self,
        output: &OutputTable,
        before: Option<&FileMeta>,
        opener: &TableOpener,
    ) -> Result<AcceptedTable> {
        let order = &self.family.order;
        let number = table_number(&output.name)?;
        let path = self.directory.join(&output.name);
        require(!output.is_proximal, "a table of another level")?;
        let is_key = |key: &[u8]| key.len() >= 8;
        require(
            is_key(&output.smallest) && is_key(&output.largest),
            "a bound is not an internal key",
        )?;
        let mut file = FileMeta {
            smallest_seqno: output.smallest_seqno,
            largest_seqno: output.largest_seqno,
            oldest_ancestor_time: output.oldest_ancestor_time,
            creation_time: output.creation_time,
            checksum_name: output.checksum_name.clone(),
            checksum: output.checksum.clone(),
            marked_for_compaction: output.marked_for_compaction,
            unique_id: output.unique_id,
            undated: self.family.has_undated_tables(),
            ..FileMeta::new(
                number,
                output.bytes,
                output.smallest.clone(),
                output.largest.clone(),
            )
        };
        self.check_bounds(&file, before, order)?;
        let bytes = self.files.fs.metadata(&path)?.len;
        require(
            bytes == file.bytes,
            format_args!("{bytes} bytes instead of {}", file.bytes),
        )?;
        require(file.unique_id != [0; 2], "it has no unique id")?;
        let is_summed = opener.compare_file_checksum(&file, &mut |_| ())?;
        // RocksDB writes "Unknown" as the function of a missing checksum.
        let has_none =
            file.checksum.is_empty() && matches!(&file.checksum_name[..], b"" | b"Unknown");
        require(
            is_summed || has_none && !self.files.file_checksums,
            "its checksum is missing or of an unknown function",
        )?;
        if has_none {
            file.checksum_name.clear();
        }
        let reader = opener.reader(&file, self.plan.output_level)?;
        let properties = reader.properties().clone();
        require(
            properties.column_family_id == u64::from(self.family.id)
                && properties.db_id == self.files.identity.as_bytes(),
            "it belongs to another database or column family",
        )?;
        reader.verify_checksums(&mut |_| ())?;
        check_entries(&reader, &file, order)?;
        let tombstones = reader.tombstones().cloned();
        drop(reader);
        file.record_timestamps(&properties);
        Ok(AcceptedTable {
            path,
            properties,
            tombstones,
            file,
        })
    }

    /// Checks that a table follows the previous one and lies within the key bounds of the inputs.
    fn check_bounds(
        &self,
        file: &FileMeta,
        before: Option<&FileMeta>,
        order: &KeyOrder,
    ) -> Result<()> {
        require(
            order
                .compare_internal(&file.smallest, &file.largest)
                .is_le(),
            "its bounds do not ascend",
        )?;
        if let Some(before) = before {
            let gap = order.compare(before.largest_user_key(), file.smallest_user_key());
            require(
                gap.is_lt() || gap.is_eq() && before.largest_is_exclusive(),
                "it overlaps the one before it",
            )?;
        }
        let inputs = || self.plan.files().map(|(_, file)| file);
        let begins = |input: &Arc<FileMeta>| {
            let begin = order.compare(input.smallest_user_key(), file.smallest_user_key());
            begin.is_le()
        };
        let ends = |input: &Arc<FileMeta>| {
            let end = order.compare(file.largest_user_key(), input.largest_user_key());
            end.is_lt()
                || end.is_eq() && (file.largest_is_exclusive() || !input.largest_is_exclusive())
        };
        require(
            inputs().any(begins) && inputs().any(ends),
            "its keys are not within those of the inputs",
        )?;
        let newest: Option<SeqNo> = inputs().map(|input| input.largest_seqno).max();
        require(
            file.smallest_seqno <= file.largest_seqno && Some(file.largest_seqno) <= newest,
            "its sequence numbers are not within those of the inputs",
        )
    }
}

/// Checks that the entries and tombstones of a table begin and end at its bounds.
fn check_entries(reader: &Arc<TableReader>, file: &FileMeta, order: &KeyOrder) -> Result<()> {
    let source = BlockingSource::new(BlockReadOptions {
        fill_cache: false,
        readahead_bytes: READAHEAD_BYTES,
        ..BlockReadOptions::default()
    });
    let mut cursor = reader.cursor(source, &TableCursorOptions::default());
    let (mut first, mut last) = (None, None);
    cursor.seek_to_first()?;
    if cursor.valid() {
        first = Some(cursor.key().to_vec());
        cursor.seek_to_last()?;
        last = Some(cursor.key().to_vec());
    }
    let has_tombstones = reader.properties().range_deletion_count > 0;
    // A tombstone may lie before the first or after the last entry; it is then the bound.
    let is_bound = |found: &Option<Vec<u8>>, bound: &[u8], is_inside: bool| match found {
        Some(key) => key == bound || has_tombstones && is_inside,
        None => has_tombstones,
    };
    let compare = |key: &Option<Vec<u8>>, bound: &[u8]| {
        key.as_ref().map(|key| order.compare_internal(key, bound))
    };
    let after_smallest = compare(&first, &file.smallest).is_none_or(|it| it.is_ge());
    let before_largest = compare(&last, &file.largest).is_none_or(|it| it.is_le());
    // Tombstones are cut at the bounds by every reader.
    require(
        is_bound(&first, &file.smallest, after_smallest)
            && is_bound(&last, &file.largest, before_largest),
        "its entries do not begin and end at its bounds",
    )
}
