//! The output tables of a job: where each is cut, its range tombstones, and its bounds.
//!
//! A table never begins in the middle of a user key's versions. The tables of one job divide the
//! key space: each covers the range from its first key up to the first key of the next, the first
//! one from the beginning and the last one to the end, and contains the range tombstones of its
//! part. If a tombstone reaches the end of a part, that end becomes the table's largest key, marked
//! as exclusive.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use koeldb_base::entity::{self, MovedColumn, has_blob_indexes};
use koeldb_base::file_name::{self, FileNumber};
use koeldb_base::key::{FOOTER_BYTES, MAX_SEQNO, encode, footer_of, seqno, user_key};
use koeldb_base::range_del::{FragmentedTombstones, RangeTombstone};
use koeldb_base::{KeyOrder, PinnedSlice, Result, SeqNo, Timestamp, ValueType};
use koeldb_fs::rate_limit::{IoCharge, LimitedFile};
use koeldb_fs::{FileSystem, WriteOptions};
use koeldb_table::TableProperties;
use koeldb_table::blob::{BlobReference, references};
use koeldb_table::builder::{TableBuildContext, TableBuilder};
use koeldb_table::properties::names;

use super::blob_flow::{BlobFlow, may_refer};
use super::blob_output::{BlobOutput, BlobSpec, FileMaker};
use super::deletion_trigger::{DeletionCounter, DeletionTrigger};
use super::entry_hash::EntryHash;
use super::grandparents::{Crossing, Grandparents, TableSizes};
use super::hidden_tables::HiddenTables;
use super::snapshots::stripe_of;
use crate::blob_space::TableReferences;
use crate::file_checksum::{self, SummedFile};
use crate::version::{BlobFileMeta, BlobGarbage, FileMeta};

/// The settings of a job's output tables.
#[derive(Clone)]
pub struct OutputSpec<'a> {
    /// The file system.
    pub fs: &'a dyn FileSystem,
    /// The directory of the tables.
    pub directory: &'a Path,
    /// The index of the directory among those of the column family.
    pub path_id: u8,
    /// The settings for writing files.
    pub write_options: WriteOptions,
    /// Charges the written bytes to a rate limiter.
    pub charge: Option<Arc<IoCharge>>,
    /// The parameters of table builders; the file number is set for each file.
    pub context: TableBuildContext,
    /// The function that allocates the numbers of new files.
    pub next_file_number: &'a (dyn Fn() -> FileNumber + Sync),
    /// The size at which a table is cut if nothing is below.
    pub target_file_bytes: u64,
    /// The size at which a table is cut if something is below, unless it was cut where a table below
    /// begins or ends.
    pub file_bytes_max: u64,
    /// Whether the target is an upper bound of a table with its filter and index, as far as their
    /// sizes can be estimated and one key fits; otherwise the target is that of the data blocks.
    pub target_is_upper_bound: bool,
    /// The files below the output in its range, in key order.
    pub grandparents: &'a [Arc<FileMeta>],
    /// The limit of the bytes of a table and the grandparents that it overlaps.
    pub max_grandparent_bytes: u64,
    /// The live snapshots, ascending.
    pub snapshots: &'a [SeqNo],
    /// Whether there is nothing below the output.
    pub bottommost: bool,
    /// The timestamp below which only the newest version of a key is kept; `None` keeps all.
    pub history_low: Option<Timestamp>,
    /// The tables whose entries the range tombstones of the output hide; `None` if they are
    /// unknown.
    pub hidden: Option<HiddenTables<'a>>,
    /// The epoch of the new files.
    pub epoch: u64,
    /// Whether to compute a checksum of each file.
    pub file_checksums: bool,
    /// The leading bytes of the user key that do not change within a table; `None` for any change.
    pub partition_bytes: Option<usize>,
    /// The deletions that mark a table for compaction, unless it is a bottommost one.
    pub deletion_triggers: &'a [DeletionTrigger],
    /// Whether to hash the entries of each table.
    pub hash_entries: bool,
    /// The settings of blob files.
    pub blobs: BlobSpec<'a>,
}

/// The report of a table written as block-based, as its entries do not fit another format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fallback {
    /// The number of the file.
    pub number: FileNumber,
    /// The reason why the entries do not fit the requested format.
    pub reason: String,
}

/// The tables that a flush or compaction has written, with their properties.
#[derive(Debug, Default)]
pub struct Outputs {
    /// The written tables, synced with their directory.
    pub files: Vec<FileMeta>,
    /// The properties of each of them.
    pub properties: Vec<TableProperties>,
    /// The hashes of the entries of the tables, if they were requested.
    pub entry_hashes: Vec<EntryHash>,
    /// The tables that are not in the requested format.
    pub fallbacks: Vec<Fallback>,
    /// The uncompressed size of all keys and values in them.
    pub raw_bytes: u64,
    /// The new blob files.
    pub blob_files: Vec<BlobFileMeta>,
    /// The references to blob files in the tables.
    pub references: BlobFlow,
    /// The blobs to which no table refers any more.
    pub blob_garbage: Vec<BlobGarbage>,
    /// The number of values that were moved out of blob files.
    pub moved_values: u64,
    /// The size of these values, as they were stored.
    pub moved_bytes: u64,
    /// The number of range tombstones that no table has any more, as nothing is below; one that
    /// reaches over several tables counts in each.
    pub obsolete_tombstones: u64,
}

/// A table being written, and the statistics of its entries for its metadata.
struct OpenOutput {
    builder: TableBuilder,
    number: FileNumber,
    /// The checksum of the whole file, if requested.
    sum: Option<Arc<AtomicU32>>,
    smallest: Option<Vec<u8>>,
    largest: Vec<u8>,
    seqno_min: SeqNo,
    seqno_max: SeqNo,
    deletions: Vec<DeletionCounter>,
    entry_hash: EntryHash,
    /// The references to blob files in the table.
    references: BlobFlow,
}

/// Where the value of an entry is put.
enum Placed {
    /// It stays where it is.
    Unchanged,
    /// It goes to a blob file.
    Blob(Vec<u8>),
    /// It goes from a blob file to the table.
    Table(PinnedSlice),
    /// Columns of the entity go to other places.
    Entity(Vec<u8>),
}

/// Returns an internal key with another value type.
fn with_type(key: &[u8], value_type: ValueType) -> Vec<u8> {
    let mut key = key.to_vec();
    let at = key.len() - FOOTER_BYTES;
    key[at] = value_type as u8;
    key
}

/// Returns the first `bytes` bytes of a key, or all of a shorter one.
fn leading(key: &[u8], bytes: usize) -> &[u8] {
    key.get(..bytes).unwrap_or(key)
}

/// A writer that splits the entries of a job into output tables (`CompactionOutputs`).
pub struct TableOutputs<'a> {
    spec: OutputSpec<'a>,
    order: KeyOrder,
    current: Option<OpenOutput>,
    finished: Outputs,
    /// The start of the key range of the current table; `None` for the beginning of all keys.
    part_from: Option<Vec<u8>>,
    grandparents: Grandparents<'a>,
    made: Vec<FileNumber>,
    blobs: BlobOutput,
}

impl<'a> TableOutputs<'a> {
    /// Creates a writer without any table yet.
    #[must_use]
    pub fn new(spec: OutputSpec<'a>) -> Self {
        let order = spec.context.order.clone();
        TableOutputs {
            grandparents: Grandparents::new(spec.grandparents, order.clone()),
            order,
            spec,
            current: None,
            finished: Outputs::default(),
            part_from: None,
            made: Vec::new(),
            blobs: BlobOutput::default(),
        }
    }

    /// Appends an entry to the current table, after starting a new table where one is due.
    ///
    /// `starts_key` marks the first entry of its user key, before which a table may be cut.
    ///
    /// `tombstones` are those of the whole job.
    ///
    /// # Errors
    /// Those of the file system or the builder.
    pub fn add(
        &mut self,
        key: &[u8],
        value: &[u8],
        starts_key: bool,
        tombstones: Option<&FragmentedTombstones>,
    ) -> Result<()> {
        match self.placed(key, value)? {
            Placed::Unchanged => self.add_entry(key, value, starts_key, tombstones),
            Placed::Blob(reference) => {
                let key = with_type(key, ValueType::BlobIndex);
                self.add_entry(&key, &reference, starts_key, tombstones)
            }
            Placed::Table(value) => {
                let key = with_type(key, ValueType::Value);
                self.add_entry(&key, &value, starts_key, tombstones)
            }
            Placed::Entity(entity) => self.add_entry(key, &entity, starts_key, tombstones),
        }
    }

    /// Appends a value to a blob file, moves it from an old one, or leaves it where it is.
    #[inline]
    fn placed(&mut self, key: &[u8], value: &[u8]) -> Result<Placed> {
        match footer_of(key).1.to_le_bytes()[0] {
            value_type if value_type == ValueType::Value as u8 => match self.is_large(value) {
                true => self.separate(key, value).map(Placed::Blob),
                false => Ok(Placed::Unchanged),
            },
            _ if !self.spec.blobs.relocates_any() => Ok(Placed::Unchanged),
            value_type if value_type == ValueType::BlobIndex as u8 => {
                Ok(match self.moved(key, value)? {
                    MovedColumn::Kept => Placed::Unchanged,
                    MovedColumn::Inline(value) => Placed::Table(value),
                    MovedColumn::BlobIndex(reference) => Placed::Blob(reference),
                })
            }
            value_type if value_type == ValueType::WideColumnEntity as u8 => {
                if !has_blob_indexes(value) {
                    return Ok(Placed::Unchanged);
                }
                let mut moved = |reference: &[u8]| self.moved(key, reference);
                entity::with_moved_columns(value, &mut moved).map(Placed::Entity)
            }
            _ => Ok(Placed::Unchanged),
        }
    }

    /// Whether a value goes to a blob file.
    #[inline]
    fn is_large(&self, value: &[u8]) -> bool {
        let min = self.spec.blobs.min_bytes;
        min.is_some_and(|min| value.len() as u64 >= min && !value.is_empty())
    }

    /// Moves the value to which `reference` refers, if its file is to be emptied.
    fn moved(&mut self, key: &[u8], reference: &[u8]) -> Result<MovedColumn> {
        let spec = &self.spec.blobs;
        let decoded = BlobReference::decode(reference)?;
        let Some(source) = spec.source.filter(|_| spec.relocates(decoded.file)) else {
            return Ok(MovedColumn::Kept);
        };
        let value = source.fetch(user_key(key), reference)?;
        self.finished.moved_values += 1;
        self.finished.moved_bytes += decoded.bytes;
        match self.is_large(&value) {
            true => self.separate(key, &value).map(MovedColumn::BlobIndex),
            false => Ok(MovedColumn::Inline(value)),
        }
    }

    /// Appends a value to the current blob file.
    fn separate(&mut self, key: &[u8], value: &[u8]) -> Result<Vec<u8>> {
        let spec = &self.spec;
        let maker = FileMaker {
            fs: spec.fs,
            directory: spec.blobs.directory.unwrap_or(spec.directory),
            write_options: &spec.write_options,
            charge: spec.charge.as_ref(),
            file_checksums: spec.file_checksums,
            next_file_number: spec.next_file_number,
        };
        let reference = self.blobs.add(&spec.blobs, &maker, user_key(key), value)?;
        Ok(reference.encode())
    }

    /// Appends an entry to the current table.
    fn add_entry(
        &mut self,
        key: &[u8],
        value: &[u8],
        starts_key: bool,
        tombstones: Option<&FragmentedTombstones>,
    ) -> Result<()> {
        if starts_key {
            let crossing = self.grandparents.pass(user_key(key));
            if self.is_cut(key, value, crossing) {
                let next = self.order.before_versions(user_key(key));
                self.finish_table(Some(&next), tombstones)?;
            }
            if self.current.is_none() {
                self.grandparents.begin_table();
            }
        }
        let current = match &mut self.current {
            Some(current) => current,
            None => {
                let opened = self.open()?;
                self.current.insert(opened)
            }
        };
        if may_refer(key) {
            current.references.add(key, value)?;
        }
        current.builder.add(key, value)?;
        if !starts_key {
            current.builder.count_older_version();
        }
        if self.spec.hash_entries {
            current.entry_hash.add(key, value);
        }
        if !current.deletions.is_empty() {
            let value_type = ValueType::from_byte(footer_of(key).1.to_le_bytes()[0]);
            let is_deletion = matches!(
                value_type,
                Some(
                    ValueType::Deletion
                        | ValueType::SingleDeletion
                        | ValueType::DeletionWithTimestamp
                )
            );
            let file_bytes = current.builder.file_bytes();
            for counter in &mut current.deletions {
                counter.add(is_deletion, file_bytes);
            }
        }
        let at = seqno(key);
        current.seqno_min = current.seqno_min.min(at);
        current.seqno_max = current.seqno_max.max(at);
        if current.smallest.is_none() {
            current.smallest = Some(key.to_vec());
        }
        current.largest.clear();
        current.largest.extend_from_slice(key);
        Ok(())
    }

    /// Whether to cut the current table before an entry, the first one of its user key.
    fn is_cut(&self, key: &[u8], value: &[u8], crossing: Crossing) -> bool {
        let Some(current) = &self.current else {
            return false;
        };
        let target = self.spec.target_file_bytes;
        let file_bytes = current.builder.file_bytes();
        let is_full = match self.spec.target_is_upper_bound {
            true => {
                let entry_bytes = (key.len() + value.len()) as u64;
                current.builder.estimated_file_bytes() + entry_bytes > target
            }
            false if self.grandparents.is_empty() => file_bytes >= target,
            false => file_bytes >= self.spec.file_bytes_max,
        };
        let sizes = TableSizes {
            target,
            max_overlap: self.spec.max_grandparent_bytes,
        };
        is_full
            || self.grandparents.is_cut(crossing, file_bytes, sizes)
            || self.spec.partition_bytes.is_some_and(|bytes| {
                leading(user_key(&current.largest), bytes) != leading(user_key(key), bytes)
            })
    }

    /// Creates the file and the table builder of the next output table.
    fn open(&mut self) -> Result<OpenOutput> {
        let number = (self.spec.next_file_number)();
        self.made.push(number);
        let path = file_name::table(self.spec.directory, number);
        let mut file = self.spec.fs.create(&path, &self.spec.write_options)?;
        if let Some(charge) = &self.spec.charge {
            file = Box::new(LimitedFile::new(file, Arc::clone(charge)));
        }
        let mut sum = None;
        if self.spec.file_checksums {
            let (summed, its_sum) = SummedFile::new(file);
            (file, sum) = (Box::new(summed), Some(its_sum));
        }
        self.spec.context.file_number = number;
        Ok(OpenOutput {
            builder: TableBuilder::create(file, &self.spec.context)?,
            number,
            sum,
            smallest: None,
            largest: Vec::new(),
            seqno_min: MAX_SEQNO,
            seqno_max: 0,
            deletions: (self.spec.deletion_triggers.iter())
                .map(DeletionCounter::new)
                .collect(),
            entry_hash: EntryHash::default(),
            references: BlobFlow::default(),
        })
    }

    /// Returns the range tombstones to be kept in the current table, whose range ends at `to`.
    fn part_tombstones(
        &mut self,
        to: Option<&[u8]>,
        tombstones: Option<&FragmentedTombstones>,
    ) -> Vec<RangeTombstone> {
        let Some(tombstones) = tombstones else {
            return Vec::new();
        };
        let part = tombstones.clipped(self.part_from.as_deref(), to);
        let oldest_snapshot = self.spec.snapshots.first().copied().unwrap_or(MAX_SEQNO);
        let mut kept = Vec::new();
        for fragment in part.writable_fragments() {
            let mut stripe = None;
            for (index, &seqno) in fragment.seqnos.iter().enumerate() {
                // A reader at a timestamp may need each tombstone from the low mark on.
                if let Some(time) = fragment.timestamps.get(index)
                    && !self.is_collectable(time)
                {
                    kept.push(fragment.tombstone(&self.order, index));
                    continue;
                }
                let own_stripe = stripe_of(self.spec.snapshots, seqno);
                let is_hidden = stripe == Some(own_stripe);
                let is_obsolete = self.spec.bottommost && seqno <= oldest_snapshot;
                self.finished.obsolete_tombstones += u64::from(is_obsolete);
                stripe = Some(own_stripe);
                if !is_hidden && !is_obsolete {
                    kept.push(fragment.tombstone(&self.order, index));
                }
            }
        }
        kept
    }

    /// Whether a range tombstone of this timestamp is before the low mark.
    fn is_collectable(&self, time: &Timestamp) -> bool {
        let low = self.spec.history_low.as_ref();
        low.is_some_and(|low| self.order.compare_timestamps(time, low).is_lt())
    }

    /// Estimates the bytes of older tables that range tombstones delete; 0 if none or unknown.
    fn freed_by(&self, tombstones: &[RangeTombstone]) -> u64 {
        match self.spec.hidden {
            Some(hidden) if !self.spec.bottommost => {
                hidden.freed_by(tombstones.iter().map(|t| (&*t.start, &*t.end)))
            }
            _ => 0,
        }
    }

    /// Finishes the current table, whose key range ends at `next_key` or is unbounded.
    fn finish_table(
        &mut self,
        next_key: Option<&[u8]>,
        tombstones: Option<&FragmentedTombstones>,
    ) -> Result<()> {
        let part = self.part_tombstones(next_key, tombstones);
        self.part_from = next_key.map(<[u8]>::to_vec);
        let mut current = match self.current.take() {
            Some(current) => current,
            None if part.is_empty() => return Ok(()),
            None => self.open()?,
        };
        for tombstone in &part {
            current.builder.add_tombstone(tombstone);
            current.seqno_min = current.seqno_min.min(tombstone.seqno);
            current.seqno_max = current.seqno_max.max(tombstone.seqno);
            let first = encode(&tombstone.start, tombstone.seqno, ValueType::RangeDeletion);
            let is_smaller = current
                .smallest
                .as_ref()
                .is_none_or(|smallest| self.order.compare_internal(&first, smallest).is_lt());
            if is_smaller {
                current.smallest = Some(first);
            }
            let end = self.order.before_versions(&tombstone.end);
            let last = encode(&end, MAX_SEQNO, ValueType::RangeDeletion);
            if current.largest.is_empty()
                || self.order.compare_internal(&last, &current.largest).is_gt()
            {
                current.largest = last;
            }
        }
        let freed_bytes = self.freed_by(&part);
        let smallest = current.smallest.unwrap_or_default();
        let references = current.references.list();
        let property = references::encode(&references).filter(|_| !references.is_empty());
        let is_opaque = property.is_none() && !references.is_empty();
        if let Some(property) = property {
            let name = names::BLOB_REFERENCES;
            current.builder.set_property(name, property);
        }
        let table = current.builder.finish()?;
        let mut file = FileMeta::new(current.number, table.file_bytes, smallest, current.largest);
        file.path_id = self.spec.path_id;
        file.smallest_seqno = current.seqno_min.min(current.seqno_max);
        file.largest_seqno = current.seqno_max;
        file.epoch = self.spec.epoch;
        file.temperature = self.spec.write_options.temperature;
        file.undated = self.spec.context.undated;
        file.oldest_ancestor_time = self.spec.context.oldest_ancestor_time;
        file.creation_time = self.spec.context.file_creation_time;
        // A bottommost table has only deletions that a snapshot needs: it would be marked again.
        file.marked_for_compaction =
            !self.spec.bottommost && current.deletions.iter().any(DeletionCounter::marks);
        file.compensated_range_deletion_bytes = freed_bytes;
        file.entry_stats.record(&table.properties);
        file.record_timestamps(&table.properties);
        file.unique_id = table.unique_id;
        file.oldest_blob_file = current.references.oldest();
        let references = match is_opaque {
            true => TableReferences::Opaque,
            false => TableReferences::Exact(references.into()),
        };
        let _ = file.blob_references.set(references);
        self.finished.references.extend(current.references);
        file.tail_bytes = table.tail_bytes;
        file.memory_filter = table.memory_filter;
        if let Some(sum) = &current.sum {
            file_checksum::record(&mut file, sum);
        }
        self.finished.raw_bytes +=
            table.properties.raw_key_bytes + table.properties.raw_value_bytes;
        if let Some(reason) = table.fallback {
            let number = file.number;
            self.finished.fallbacks.push(Fallback { number, reason });
        }
        self.finished.files.push(file);
        self.finished.entry_hashes.push(current.entry_hash);
        self.finished.properties.push(table.properties);
        Ok(())
    }

    /// Finishes the last table, without syncing the directory.
    ///
    /// # Errors
    /// The errors of the file system.
    pub fn end(&mut self, tombstones: Option<&FragmentedTombstones>) -> Result<()> {
        self.blobs.finish_file()?;
        self.finished.blob_files.extend(self.blobs.take_finished());
        self.finish_table(None, tombstones)
    }

    /// The files finished so far.
    pub(crate) fn finished(&self) -> &Outputs {
        &self.finished
    }

    /// Finishes the last table, syncs the directory, and returns the files.
    ///
    /// If dropped earlier, or after an error, the outputs remove every file they created.
    ///
    /// # Errors
    /// The errors of the file system.
    pub fn finish(mut self, tombstones: Option<&FragmentedTombstones>) -> Result<Outputs> {
        self.end(tombstones)?;
        Self::finish_all(vec![self])
    }

    /// Returns the references to blob files in all tables of the writers `parts`.
    pub(crate) fn references(parts: &[Self]) -> BlobFlow {
        let mut all = BlobFlow::default();
        for part in parts {
            all.extend(part.finished.references.clone());
        }
        all
    }

    /// Syncs the directory of the finished writers `parts`, in key order; returns all their tables.
    ///
    /// # Errors
    /// The errors of the file system; every file is removed then.
    pub fn finish_all(mut parts: Vec<Self>) -> Result<Outputs> {
        // The directory of the blob files first: the tables refer to them.
        let mut with_blobs = parts.iter();
        let with_blobs = with_blobs.find(|part| !part.finished.blob_files.is_empty());
        if let Some(part) = with_blobs
            && let Some(directory) = part.spec.blobs.directory
            && directory != part.spec.directory
        {
            part.spec.fs.sync_dir(directory)?;
        }
        let has_files =
            |part: &&Self| !part.finished.files.is_empty() || !part.finished.blob_files.is_empty();
        let with_files = parts.iter().find(has_files);
        if let Some(part) = with_files {
            part.spec.fs.sync_dir(part.spec.directory)?;
        }
        let mut all = Outputs::default();
        for part in &mut parts {
            part.made.clear();
            part.blobs.made.clear();
            let finished = std::mem::take(&mut part.finished);
            all.files.extend(finished.files);
            all.blob_files.extend(finished.blob_files);
            all.entry_hashes.extend(finished.entry_hashes);
            all.properties.extend(finished.properties);
            all.fallbacks.extend(finished.fallbacks);
            all.raw_bytes += finished.raw_bytes;
            all.moved_values += finished.moved_values;
            all.moved_bytes += finished.moved_bytes;
            all.obsolete_tombstones += finished.obsolete_tombstones;
            all.references.extend(finished.references);
        }
        Ok(all)
    }
}

impl Drop for TableOutputs<'_> {
    fn drop(&mut self) {
        self.current = None;
        self.blobs.abandon();
        let directory = self.spec.directory;
        let tables = self
            .made
            .iter()
            .map(|&number| file_name::table(directory, number));
        let blob_files = self.blobs.made.iter();
        let blob_directory = self.spec.blobs.directory.unwrap_or(directory);
        let blob_files = blob_files.map(|&number| file_name::blob(blob_directory, number));
        for path in tables.chain(blob_files) {
            // A file that cannot be removed now is obsolete, and the next open removes it.
            let _ = self.spec.fs.remove_file(&path);
        }
    }
}
