//! The commit of an ingestion: one edit for all tables of all column families.
//!
//! Memtables that overlap a table are flushed first, if possible before writers are stopped. Then,
//! under write leadership: the log is made durable (O17), tables are placed and numbered under the
//! version set, the edit is recorded, and the last sequence number is raised and published. Snapshots
//! wait meanwhile: a table without a number must not appear inside one.

use std::sync::Arc;

use koeldb_base::key::{MAX_SEQNO, RANGE_DELETION_SENTINEL, encode, footer_of, user_key};
use koeldb_base::stats::HistogramKind;
use koeldb_base::{Cursor, Error, KeyOrder, Result, SeqNo, ValueType};
use koeldb_lsm::file_checksum;
use koeldb_lsm::pick::leveled;
use koeldb_lsm::version::{VersionEdit, VersionSet};
use koeldb_lsm::{FileMeta, TableOpener, Version};
use koeldb_memtable::Memtable;
use koeldb_table::reader::TableCursorOptions;
use koeldb_table::source::{BlockReadOptions, BlockingSource};

use super::place::{PlaceRules, TablePlace, behind, overlaps, place};
use super::prepare::{PreparedFamily, PreparedFile, PreparedIngest, TableBounds};
use super::replace::{dropped_tables, memtable_reaches};
use crate::background::blob_garbage::learn_references;
use crate::commit::protocol::CommitState;
use crate::options::FlushOptions;
use crate::options::pick_settings;
use crate::report::listener::{Event, ExternalFileIngestionInfo, FlushReason};
use crate::state::column_family_data::{ColumnFamilyData, ColumnFamilyState};
use crate::state::info_log::JsonObject;
use crate::state::work_queue::WorkKind;

/// The number of flushes of overlapping memtables before one is done with writers stopped.
const FLUSHES_MAX: usize = 3;

impl PreparedIngest {
    /// Installs the prepared tables in the database atomically, and makes them visible.
    ///
    /// # Errors
    /// `InvalidArgument` if a table needs a sequence number, a flush, or a level that the options
    /// refuse, or a sequence number that its format cannot take; `Aborted` if a table of the database
    /// is partly in a range to replace, or is being compacted; `ColumnFamilyDropped`; errors of
    /// the file system, after which the tables are part of the database or not once it was
    /// reopened.
    pub fn commit(mut self) -> Result<()> {
        let pipeline = Arc::clone(&self.commit);
        let _foreground = pipeline.slots.enter()?;
        let begun = pipeline.context.clock.now();
        let committed = self.lead_and_install();
        pipeline.background.schedule();
        if committed.is_err() {
            pipeline.health.report_failures();
        }
        let places = committed?;
        pipeline.tree.remove_obsolete_files();
        self.report(&places);
        pipeline
            .context
            .record_elapsed(HistogramKind::IngestExternalFileRunTime, begun);
        if self.options.move_files {
            self.remove_sources();
        }
        Ok(())
    }

    /// Reports the ingested tables to statistics, LOG and listeners.
    ///
    /// `places` has the level and the sequence number of each table.
    fn report(&self, places: &[(usize, SeqNo)]) {
        let context = &self.commit.context;
        let mut places = places.iter();
        let mut ingested = Vec::new();
        for prepared in &self.families {
            let mut files = Vec::new();
            for (file, &(level, seqno)) in prepared.files.iter().zip(&mut places) {
                let path = prepared.target(file);
                context.info_log.info(format_args!(
                    "[AddFile] External SST file {} was ingested in L{level} with path {} (global_seqno={seqno})",
                    file.source.display(),
                    path.display()
                ));
                let counters = &prepared.family.counters;
                counters.ingested(level, file.bytes, file.entries);
                ingested.push(ExternalFileIngestionInfo {
                    column_family: prepared.family.name.to_string(),
                    external_file_path: file.source.clone(),
                    internal_file_path: path.clone(),
                    global_seqno: seqno,
                    level,
                    properties: file.properties.clone(),
                });
                let file = JsonObject::default()
                    .text("file", &path.to_string_lossy())
                    .number("level", level);
                files.push(file);
            }
            let event = context.info_log.event(None, "ingest_finished");
            context.info_log.log_event(
                event
                    .text("cf_name", &prepared.family.name)
                    .objects("files_ingested", files)
                    .lsm_state(&prepared.family.version()),
            );
        }
        for info in &ingested {
            context.notify(&Event::ExternalFileIngested(info));
        }
    }

    /// Flushes overlapping memtables, takes leadership of writes and installs the files.
    fn lead_and_install(&mut self) -> Result<Vec<(usize, SeqNo)>> {
        let pipeline = Arc::clone(&self.commit);
        for _ in 0..FLUSHES_MAX {
            let overlapped = self.overlapped()?;
            if overlapped.is_empty() {
                break;
            }
            refuse_with_timestamps(&overlapped)?;
            if !self.options.allow_blocking_flush {
                return Err(Error::invalid_argument(
                    "a memtable overlaps a file to ingest, and allow_blocking_flush is off",
                ));
            }
            pipeline.flush_first(&overlapped, FlushOptions::new().set_allow_write_stall(true))?;
        }
        let mut leadership = pipeline.queue.lead();
        let commit = &mut *leadership.commit;
        pipeline.health.check_writable()?;
        pipeline.queue.pipeline.drain()?;
        let overlapped = self.overlapped()?;
        refuse_with_timestamps(&overlapped)?;
        for family in overlapped {
            if let Some(index) = commit.position_of(family.id)
                && !commit.families[index].memtable.is_empty()
            {
                let reason = FlushReason::ExternalFileIngestion;
                pipeline.switch_memtables(commit, vec![index], reason)?;
            }
            pipeline.background.flush_until_empty(&family)?;
        }
        pipeline.wals.sync(commit.wal()?)?;
        self.mark_families(1);
        let installed = self.install(commit);
        self.mark_families(-1);
        installed
    }

    /// Adds `change` to the count of ingestions that block compactions of the column families.
    ///
    /// Only the leader may stop it: a leader before it may wait for a compaction.
    fn mark_families(&self, change: i32) {
        for prepared in &self.families {
            let count = |state: &mut ColumnFamilyState| {
                state.ingestions = state.ingestions.saturating_add_signed(change);
            };
            prepared.family.update(count);
            prepared.family.queue(WorkKind::Compaction);
        }
    }

    /// Returns the column families whose memtables overlap a table to ingest or a replaced range.
    fn overlapped(&self) -> Result<Vec<Arc<ColumnFamilyData>>> {
        let mut overlapped = Vec::new();
        for prepared in &self.families {
            let (mut memtables, order) = prepared.family.read(|state| {
                let sealed = state
                    .sealed
                    .iter()
                    .map(|sealed| Arc::clone(&sealed.memtable));
                let all: Vec<_> = sealed.chain([Arc::clone(&state.active.memtable)]).collect();
                (all, prepared.family.order.clone())
            });
            memtables.retain(|memtable| !memtable.is_empty());
            let mut is_overlapped = false;
            for memtable in &memtables {
                for file in &prepared.files {
                    is_overlapped |= memtable_overlaps(memtable, &order, &file.bounds)?;
                }
                if let Some(range) = &prepared.replaced {
                    is_overlapped |= memtable_reaches(memtable, &order, range)?;
                }
            }
            if is_overlapped {
                overlapped.push(Arc::clone(&prepared.family));
            }
        }
        Ok(overlapped)
    }

    /// Assigns levels and sequence numbers to the tables, records them and makes them visible.
    ///
    /// Returns the level and the sequence number of each.
    fn install(&mut self, commit: &mut CommitState) -> Result<Vec<(usize, SeqNo)>> {
        let pipeline = Arc::clone(&self.commit);
        let mut versions = pipeline.tree.versions();
        let snapshots = pipeline.visibility.snapshots.hold();
        let has_snapshots = snapshots.is_any() && self.options.snapshot_consistency;
        let mut last_seqno = commit.last_seqno;
        let mut edits = Vec::new();
        for prepared in &self.families {
            edits.push(self.edit_of(prepared, &versions, has_snapshots, &mut last_seqno)?);
        }
        let added = edits.iter().flat_map(|edit| &edit.added_files);
        let places = added
            .map(|(level, file)| (*level, file.smallest_seqno))
            .collect();
        versions.raise_last_seqno(last_seqno);
        let dropped: Vec<(u32, Arc<FileMeta>)> = (edits.iter())
            .flat_map(|edit| {
                let version = versions.family(edit.family).map(|family| family.current());
                let files = version.into_iter().flat_map(|version| version.files());
                let is_dropped = |&(level, file): &(usize, &Arc<FileMeta>)| {
                    edit.deleted_files.contains(&(level, file.number))
                };
                let dropped = files.filter(is_dropped);
                dropped.map(|(_, file)| (edit.family, Arc::clone(file)))
            })
            .collect();
        let installed = versions.log_and_apply(edits);
        // After an error of unknown outcome the next open decides whether they are part of the tree.
        self.is_taken = installed.is_ok() || versions.is_uncertain();
        let installed = installed.map_err(|error| pipeline.health.manifest_failed(error))?;
        commit.last_seqno = last_seqno;
        // A replacement is published first: no reader of a state without the old entries may miss
        // the new ones. Otherwise the states come first: a transaction that is committed relies on
        // finding all entries up to the published number.
        if self.families.iter().any(|it| it.replaced.is_some()) {
            pipeline.visibility.publish(last_seqno);
        }
        for (id, version) in installed {
            let family = self.families.iter().find(|family| family.family.id == id);
            if let Some(PreparedFamily { family, .. }) = family {
                family.update_and_install(pipeline.context.stall(), |state| {
                    let before = std::mem::replace(&mut state.version, version);
                    let tree = &pipeline.tree;
                    tree.retire_gone_blob_files(family, &before, &state.version);
                });
            }
        }
        pipeline.visibility.publish(last_seqno);
        drop(snapshots);
        for PreparedFamily { family, .. } in &self.families {
            let dropped = dropped.iter().filter(|(id, _)| *id == family.id);
            pipeline.tree.retire(family, dropped.map(|(_, file)| file));
        }
        Ok(places)
    }

    /// Returns the version edit that adds the tables of a column family at their levels.
    fn edit_of(
        &self,
        prepared: &PreparedFamily,
        versions: &VersionSet,
        has_snapshots: bool,
        last_seqno: &mut SeqNo,
    ) -> Result<VersionEdit> {
        let data = &prepared.family;
        let family = versions.family(data.id);
        let family = family.ok_or_else(|| data.dropped_error())?;
        let options = data.options();
        let version = family.current();
        let rules = PlaceRules {
            style: options.compaction_style,
            base_level: leveled::level_targets(version, &pick_settings(&options)).base_level,
            always_number: has_snapshots,
            replaces: prepared.replaced.is_some(),
        };
        let mut placed: Vec<(TablePlace, TableBounds)> = Vec::new();
        let mut edit = VersionEdit::of(data.id);
        if let Some(range) = &prepared.replaced {
            edit.deleted_files = dropped_tables(version, range)?;
        }
        for file in &prepared.files {
            let place = match self.options.ingest_behind {
                true => behind(version, &placed, &file.bounds).map_err(|text| {
                    Error::invalid_argument(text).in_file(&file.source, None, "ingest")
                })?,
                false => place(version, &placed, &file.bounds, rules),
            };
            self.check_place(file, place, version.levels.len() - 1)?;
            if place.is_above_others
                && prepared.replaced.is_none()
                && data.has_timestamps
                && has_keys(version, &data.tables, &file.bounds)?
            {
                let text = overlaps_history(data, "the tables");
                let error = Error::invalid_argument(text);
                return Err(error.in_file(&file.source, None, "ingest"));
            }
            let seqno = match place.needs_seqno {
                true => {
                    *last_seqno += 1;
                    *last_seqno
                }
                false => 0,
            };
            if *last_seqno > MAX_SEQNO {
                return Err(Error::invalid_argument(
                    "the database has used up its sequence numbers",
                ));
            }
            placed.push((place, file.bounds.clone()));
            let meta = self.meta_of(data, file, seqno);
            edit.added_files.push((place.level, Arc::new(meta)));
        }
        let removed: Vec<_> = (version.files())
            .filter(|(level, file)| edit.deleted_files.contains(&(*level, file.number)))
            .collect();
        learn_references(&data.tables, removed.iter().copied());
        edit.blob_garbage =
            version.garbage_of_replaced(removed.into_iter().map(|(_, file)| file), []);
        Ok(edit)
    }

    /// Fails if the options or the file do not allow the level or sequence number chosen for it.
    fn check_place(&self, file: &PreparedFile, place: TablePlace, last: usize) -> Result<()> {
        let refused =
            |text: &str| Err(Error::invalid_argument(text).in_file(&file.source, None, "ingest"));
        if place.needs_seqno && !self.options.allow_global_seqno {
            return refused("the file needs a sequence number, and allow_global_seqno is off");
        }
        if place.needs_seqno && !file.takes_seqno {
            return refused(
                "the file needs a sequence number, because its keys overlap those of the column \
                 family, because there are snapshots, or because of the compaction style, and its \
                 table cannot take one: only block-based tables of version 2 can",
            );
        }
        if self.options.fail_if_not_bottommost_level && place.level != last {
            return refused(
                "the file does not fit the last level, and fail_if_not_bottommost_level is on",
            );
        }
        Ok(())
    }

    /// Returns the metadata of an ingested table with sequence number `seqno`.
    fn meta_of(&self, family: &ColumnFamilyData, file: &PreparedFile, seqno: SeqNo) -> FileMeta {
        let now = self.commit.context.table_files.unix_secs();
        let mut meta = FileMeta::new(
            file.number,
            file.bytes,
            with_seqno(&file.bounds.smallest, seqno),
            with_seqno(&file.bounds.largest, seqno),
        );
        meta.undated = family.has_undated_tables();
        meta.smallest_seqno = seqno;
        meta.largest_seqno = seqno;
        meta.epoch = match self.options.ingest_behind {
            true => EPOCH_BEHIND,
            false => family.epochs.next(),
        };
        meta.oldest_ancestor_time = now;
        meta.creation_time = now;
        meta.unique_id = file.unique_id;
        if let Some((least, most)) = &file.timestamps {
            meta.set_timestamps(least, most);
        }
        meta.marked_for_compaction = file.is_tombstones_only;
        if let Some(crc32c) = file.crc32c
            && self.commit.context.table_files.file_checksums
        {
            file_checksum::set(&mut meta, crc32c);
        }
        meta
    }

    /// Deletes the original files of the ingested tables.
    fn remove_sources(&self) {
        for file in self.families.iter().flat_map(|family| &family.files) {
            if let Err(error) = self.commit.context.fs.remove_file(&file.source) {
                self.commit
                    .context
                    .info_log
                    .warn(format_args!("removing {}: {error}", file.source.display()));
            }
        }
    }
}

/// Fails if memtables of a column family with user-defined timestamps overlap a file to ingest.
///
/// The timestamps of a key must not fall as its sequence numbers rise, and nobody has compared them.
/// (RocksDB: `ExternalSstFileIngestionJob::NeedsFlush`.)
fn refuse_with_timestamps(overlapped: &[Arc<ColumnFamilyData>]) -> Result<()> {
    match overlapped.iter().find(|family| family.has_timestamps) {
        None => Ok(()),
        Some(family) => Err(Error::invalid_argument(overlaps_history(
            family,
            "the memtables",
        ))),
    }
}

/// The message of the refusal of files whose keys may have versions already.
fn overlaps_history(family: &ColumnFamilyData, place: &str) -> String {
    format!(
        "column family {:?} has user-defined timestamps: the key range of a file to ingest must not \
         overlap keys in {place}",
        family.name
    )
}

/// Whether the tables of a version have entries or range tombstones in the range of a table.
fn has_keys(version: &Version, tables: &TableOpener, table: &TableBounds) -> Result<bool> {
    let order = &version.order;
    let before = |key: &[u8]| encode(key, MAX_SEQNO, ValueType::RangeDeletion);
    let from = before(&order.before_versions(user_key(&table.smallest)));
    for (level, file) in version.files() {
        if !overlaps(order, table, &file.smallest, &file.largest) {
            continue;
        }
        let reader = tables.reader(file, level)?;
        let source = BlockingSource::new(BlockReadOptions::default());
        let mut cursor = reader.cursor(source, &TableCursorOptions::default());
        cursor.seek(&from)?;
        if cursor.valid() && overlaps(order, table, cursor.key(), cursor.key()) {
            return Ok(true);
        }
        let tombstones = reader.tombstones();
        let mut tombstones = tombstones.iter().flat_map(|all| all.tombstones());
        if tombstones.any(|of| overlaps(order, table, &before(&of.start), &before(&of.end))) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The epoch of all files that are ingested behind (RocksDB:
/// `kReservedEpochNumberForFileIngestedBehind`).
const EPOCH_BEHIND: u64 = 1;

/// Returns a key bound with `seqno`, or unchanged if it is the exclusive end of a tombstone.
fn with_seqno(bound: &[u8], seqno: SeqNo) -> Vec<u8> {
    let (key, footer) = footer_of(bound);
    if footer == RANGE_DELETION_SENTINEL {
        return bound.to_vec();
    }
    let footer = seqno << 8 | footer & 0xff;
    [key, &footer.to_le_bytes()].concat()
}

/// Whether a memtable has entries or range tombstones in the range of a table.
fn memtable_overlaps(
    memtable: &Arc<Memtable>,
    order: &KeyOrder,
    table: &TableBounds,
) -> Result<bool> {
    let before = |key: &[u8]| encode(key, MAX_SEQNO, ValueType::RangeDeletion);
    let mut cursor = memtable.cursor();
    cursor.seek(&before(&order.before_versions(user_key(&table.smallest))))?;
    let is_found = cursor.valid() && overlaps(order, table, cursor.key(), cursor.key());
    let tombstones = memtable.tombstones();
    let mut tombstones = tombstones.iter().flat_map(|all| all.tombstones());
    Ok(is_found
        || tombstones.any(|tombstone| {
            overlaps(
                order,
                table,
                &before(&tombstone.start),
                &before(&tombstone.end),
            )
        }))
}
