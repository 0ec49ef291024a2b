//! Writes tables: merges those of uncertain order into tables that share no keys, and entries of
//! logs.
//!
//! Every version of every key is kept; entries in both tables are written once. The caller sets the
//! merged tables aside, so that nothing is lost if a merge was unnecessary.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use koeldb_base::file_name::{self, FileNumber};
use koeldb_base::key::user_key;
use koeldb_base::range_del::{FragmentedTombstones, union_of};
use koeldb_base::timestamp::MIN_TIMESTAMP;
use koeldb_base::{Blocking, Cursor, InternalKey, Result, SeqNo, ValueType};
use koeldb_fs::{FileSystem, Purpose, WriteOptions};
use koeldb_lsm::cursor::MergingCursor;
use koeldb_lsm::job::{BlobSpec, OutputSpec, TableOutputs, Undating};
use koeldb_memtable::Memtable;
use koeldb_table::builder::TableBuildContext;
use koeldb_table::reader::TableCursorOptions;
use koeldb_table::source::{BlockReadOptions, BlockingSource};

use super::families::FamilyKeys;
use super::tables::{self, FoundTable};
use crate::options::Options;

/// A writer of new tables during a repair, from tables to merge or from memtables.
pub(super) struct Merger<'a> {
    pub(super) fs: &'a dyn FileSystem,
    pub(super) path: &'a Path,
    pub(super) options: &'a Options,
    /// The id of the database; empty if unknown.
    pub(super) db_id: &'a str,
    /// The number for the next new file.
    pub(super) next_number: &'a AtomicU64,
}

impl Merger<'_> {
    /// Merges tables of one column family into new level 0 tables, which share no keys.
    pub(super) fn merge(
        &self,
        keys: FamilyKeys<'_>,
        family: (u32, &str),
        merged: &[FoundTable],
    ) -> Result<Vec<FoundTable>> {
        let mut newest_first: Vec<&FoundTable> = merged.iter().collect();
        // Of equal entries the one that was written last is kept.
        newest_first.sort_by_key(|table| std::cmp::Reverse(table.file.number));
        let mut cursors = Vec::new();
        let mut tombstones = Vec::new();
        for table in newest_first {
            let reader = tables::reopen(self.fs, table, self.options)?;
            tombstones.extend(reader.tombstones().iter().map(|all| Arc::clone(all)));
            cursors.push(reader.cursor(
                BlockingSource::new(BlockReadOptions::default()),
                &TableCursorOptions::default(),
            ));
        }
        let cursor = MergingCursor::new(keys.order.clone(), cursors);
        let flushed = merged.iter().filter_map(|table| table.flushed).max();
        self.write_as_stored(keys, family, cursor, &tombstones, flushed.unwrap_or(0))
    }

    /// Writes all entries of a memtable into new level 0 tables.
    pub(super) fn write_memtable(
        &self,
        keys: FamilyKeys<'_>,
        family: (u32, &str),
        memtable: &Arc<Memtable>,
    ) -> Result<Vec<FoundTable>> {
        let tombstones: Vec<_> = memtable.tombstones().into_iter().collect();
        let flushed = memtable.largest_seqno();
        self.write_as_stored(keys, family, memtable.cursor(), &tombstones, flushed)
    }

    /// Writes entries and range tombstones into new level 0 tables, without their timestamps if
    /// tables of the column family have none.
    fn write_as_stored(
        &self,
        keys: FamilyKeys<'_>,
        family: (u32, &str),
        cursor: impl Cursor<Suspend = Blocking>,
        tombstones: &[Arc<FragmentedTombstones>],
        flushed: SeqNo,
    ) -> Result<Vec<FoundTable>> {
        let tombstones = union_of(keys.order, tombstones);
        if !keys.undated {
            return self.write(keys, family, cursor, tombstones.as_ref(), flushed);
        }
        let cursor = Undating::new(cursor, keys.order.clone());
        let tombstones = tombstones.map(|all| all.all_at(&MIN_TIMESTAMP));
        self.write(keys, family, cursor, tombstones.as_ref(), flushed)
    }

    /// Calls `take` with the sequence number of each entry of a table.
    pub(super) fn each_seqno(&self, table: &FoundTable, take: impl FnMut(SeqNo)) -> Result<()> {
        tables::each_seqno(self.fs, table, self.options, take)
    }

    /// Writes the entries of `cursor` and the range tombstones into new level 0 tables.
    fn write(
        &self,
        FamilyKeys { order, undated }: FamilyKeys<'_>,
        family: (u32, &str),
        mut cursor: impl Cursor<Suspend = Blocking>,
        tombstones: Option<&FragmentedTombstones>,
        flushed: SeqNo,
    ) -> Result<Vec<FoundTable>> {
        let cf = &self.options.cf;
        let (compression, compression_options) = cf.compression_at(0, 0, false);
        let next_file_number =
            || -> FileNumber { self.next_number.fetch_add(1, Ordering::Relaxed) };
        let mut context = TableBuildContext {
            order: order.clone(),
            undated,
            format: cf.block_based_write_options(false),
            compression,
            compression_options,
            column_family_id: u64::from(family.0),
            column_family_name: family.1.to_owned(),
            db_id: self.db_id.to_owned(),
            level: Some(0),
            ..TableBuildContext::default()
        };
        context.set_flushed_seqno(flushed);
        let mut outputs = TableOutputs::new(OutputSpec {
            fs: self.fs,
            directory: self.path,
            path_id: 0,
            write_options: WriteOptions::new(Purpose::Compaction),
            charge: None,
            context,
            next_file_number: &next_file_number,
            target_file_bytes: cf.target_file_size_base,
            file_bytes_max: cf.target_file_size_base,
            target_is_upper_bound: false,
            grandparents: &[],
            max_grandparent_bytes: u64::MAX,
            snapshots: &[],
            bottommost: false,
            history_low: None,
            hidden: None,
            epoch: 0,
            file_checksums: false,
            partition_bytes: None,
            deletion_triggers: &[],
            hash_entries: false,
            blobs: BlobSpec::unchanged(),
        });
        cursor.seek_to_first()?;
        let mut last: Vec<u8> = Vec::new();
        // A reference whose value a compaction may have put into another of the tables.
        let mut held: Option<Vec<u8>> = None;
        let starts_key = |last: &[u8], key: &[u8]| {
            last.is_empty() || order.compare(user_key(last), user_key(key)).is_ne()
        };
        let mut add = |last: &mut Vec<u8>, key: &[u8], value: &[u8]| {
            let starts_key = starts_key(last, key);
            last.clear();
            last.extend_from_slice(key);
            outputs.add(key, value, starts_key, tombstones)
        };
        let mut held_key = Vec::new();
        while cursor.valid() {
            let key = cursor.key();
            if let Some(reference) = held.take_if(|_| held_key != key)
                && !is_value_of(key, &held_key)
            {
                add(&mut last, &held_key, &reference)?;
            }
            if held.is_none() && last != key {
                if InternalKey::parse(key)?.value_type == ValueType::BlobIndex {
                    held = Some(cursor.value().to_vec());
                    held_key.clear();
                    held_key.extend_from_slice(key);
                } else {
                    add(&mut last, key, cursor.value())?;
                }
            }
            cursor.next()?;
        }
        if let Some(reference) = held {
            add(&mut last, &held_key, &reference)?;
        }
        let made = outputs.finish(tombstones)?.files;
        made.iter()
            .map(|file| {
                let path = file_name::table(self.path, file.number);
                let identity = (self.db_id, file.number);
                let mut table = tables::examine(self.fs, &path, identity, self.options)?;
                table.adapt_to(order, !undated);
                Ok(table)
            })
            .collect()
    }
}

/// Whether `key` is that of the value to which the entry with the internal key `reference` refers.
fn is_value_of(key: &[u8], reference: &[u8]) -> bool {
    let (key, reference) = (InternalKey::parse(key), InternalKey::parse(reference));
    key.ok()
        .zip(reference.ok())
        .is_some_and(|(key, reference)| {
            key.value_type == ValueType::Value
                && key.seqno == reference.seqno
                && key.user_key == reference.user_key
        })
}
