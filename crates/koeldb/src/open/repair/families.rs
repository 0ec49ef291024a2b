//! Determines the column families and their tables.
//!
//! Logs name column families only by id, so a column family keeps the id in its tables or the
//! MANIFESTs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use koeldb_base::file_name::FileNumber;
use koeldb_base::{KeyOrder, Result, SeqNo, Timestamp};
use koeldb_lsm::manifest::{ColumnFamilySnapshot, ManifestSnapshot};
use koeldb_lsm::{FileMeta, Level, Version};

use super::RepairReport;
use super::history::{ColumnFamilyHistory, History};
use super::logs::Logs;
use super::lost::LostFiles;
use super::merge::Merger;
use super::order::{self, Arrangement};
use super::tables::FoundTable;
use crate::options::Options;

const DEFAULT_FAMILY: &str = "default";

/// A column family as the repair rebuilds it: its tables, their levels, and the logs it needs.
struct RebuiltColumnFamily {
    name: String,
    order: KeyOrder,
    tables: Vec<FoundTable>,
    /// The levels and the order of the tables, once determined.
    arrangement: Arrangement,
    /// The first log with data of the column family, according to a reliable MANIFEST.
    log_number: FileNumber,
    /// The first log that the next open has to replay; `None` if there is none.
    replayed_from: Option<FileNumber>,
    /// Whether the tables are those of the MANIFEST, whose log number then gives the needed logs.
    is_as_recorded: bool,
    /// The user-defined timestamp below which history may have been collapsed.
    full_history_ts_low: Option<Timestamp>,
    /// Whether tables have the timestamps of keys (`persist_user_defined_timestamps`).
    persists_timestamps: bool,
}

/// The column families of the database that the repair rebuilds, by id.
pub(super) struct RebuiltColumnFamilies {
    families: BTreeMap<u32, RebuiltColumnFamily>,
    level_count: usize,
}

impl RebuiltColumnFamilies {
    /// Determines the column families, and assigns every table to one or else moves it to `lost`.
    pub(super) fn from_evidence(
        mut tables: Vec<FoundTable>,
        history: &History,
        logs: &Logs,
        merger: &Merger<'_>,
        lost: &mut LostFiles<'_>,
    ) -> Result<Self> {
        let options = merger.options;
        for table in &mut tables {
            history.describe(table);
        }
        let mut families = RebuiltColumnFamilies {
            families: BTreeMap::new(),
            level_count: usize::try_from(options.cf.num_levels).unwrap_or(7).max(1),
        };
        let persists_timestamps = options.cf.persist_user_defined_timestamps;
        let default = DEFAULT_FAMILY.to_owned();
        families.add(0, default, &options.cf.comparator, persists_timestamps);
        for (&id, past) in history.families.iter().filter(|&(&id, _)| id != 0) {
            let (Some(name), Some(order)) = (&past.name, known_order(past, options)) else {
                continue;
            };
            let has_successor = |table: &FoundTable| {
                table.family_name == *name && table.family.is_some_and(|other| other > id)
            };
            if !tables.iter().any(has_successor) {
                families.add(id, name.clone(), &order, !past.lacks_timestamps);
            }
        }
        // Newest column family first: of several with one name, it gets the name.
        tables.sort_by_key(|table| std::cmp::Reverse((table.family, table.file.number)));
        for mut table in tables {
            match families.family_of(&table, history, logs) {
                Ok(id) => {
                    if let Some(family) = families.families.get(&id) {
                        table.adapt_to(&family.order, family.persists_timestamps);
                    }
                    let family =
                        families
                            .families
                            .entry(id)
                            .or_insert_with(|| RebuiltColumnFamily {
                                name: table.family_name.clone(),
                                order: table.order.clone(),
                                tables: Vec::new(),
                                arrangement: Arrangement::default(),
                                log_number: 0,
                                replayed_from: None,
                                is_as_recorded: false,
                                full_history_ts_low: None,
                                persists_timestamps: !table.file.undated,
                            });
                    family.tables.push(table);
                }
                Err(why) => lost.set_aside(&table.path, why)?,
            }
        }
        for (id, family) in &mut families.families {
            if let Some(past) = history.families.get(id) {
                let has_timestamps = family.order.has_timestamps();
                family.full_history_ts_low = past.full_history_ts_low.filter(|_| has_timestamps);
                family.apply_history(*id, past, logs, merger, lost)?;
            }
        }
        Ok(families)
    }

    /// Adds a column family, without tables at first.
    fn add(&mut self, id: u32, name: String, order: &KeyOrder, persists_timestamps: bool) {
        let family = RebuiltColumnFamily {
            name,
            order: order.clone(),
            tables: Vec::new(),
            arrangement: Arrangement::default(),
            log_number: 0,
            replayed_from: None,
            is_as_recorded: false,
            full_history_ts_low: None,
            persists_timestamps,
        };
        self.families.insert(id, family);
    }

    /// Returns the id, possibly new, of the column family of `table`; else why it has none.
    fn family_of(
        &self,
        table: &FoundTable,
        history: &History,
        logs: &Logs,
    ) -> Result<u32, &'static str> {
        let name = match table.family_name.as_str() {
            "" => DEFAULT_FAMILY,
            name => name,
        };
        let by_name = self
            .families
            .iter()
            .find(|(_, family)| family.name == name)
            .map(|(&id, _)| id);
        let is_known = |id: &u32| self.families.contains_key(id);
        let id = match (table.family, by_name) {
            (Some(id), _) if history.dropped.contains(&id) => {
                return Err("its column family was dropped");
            }
            (Some(id), _) if !is_known(&id) && table.family_name.is_empty() => {
                return Err("the name of its column family is unknown");
            }
            (Some(id), Some(_)) if !is_known(&id) => {
                return Err("its column family was dropped and created again");
            }
            (Some(id), _) => id,
            (None, Some(named)) => named,
            (None, None) => {
                let known = self.families.keys().copied().chain(logs.families());
                let last = known.fold(history.max_column_family, u32::max);
                last.checked_add(1)
                    .ok_or("no id is left for its column family")?
            }
        };
        match self.families.get(&id) {
            Some(family) if !table.fits(&family.order, family.persists_timestamps) => {
                Err("its comparator differs from that of its column family")
            }
            _ => Ok(id),
        }
    }

    /// Returns the ids of column families that only logs mention, whose names are thus unknown.
    pub(super) fn unknown_in(&self, logs: &Logs, history: &History) -> Vec<u32> {
        let unknown: BTreeSet<u32> = logs
            .families()
            .filter(|id| !self.families.contains_key(id) && !history.dropped.contains(id))
            .collect();
        unknown.into_iter().collect()
    }

    /// Determines for each column family the logs that the next open has to replay.
    ///
    /// Entries of a log that has others too, which are in tables, are written into new tables.
    pub(super) fn find_needed_logs(&mut self, logs: &Logs, merger: &Merger<'_>) -> Result<()> {
        for (&id, family) in &mut self.families {
            for table in family
                .tables
                .iter_mut()
                .filter(|table| table.flushed.is_none())
            {
                table.flushed = Some(logs.flushed_by(id, table, merger)?);
            }
            if family.is_as_recorded {
                family.replayed_from = logs.first_with(id, family.log_number);
                continue;
            }
            let flushed_of = |log| family.flushed_of(log);
            let needed = logs.needed(id, flushed_of, family.log_number);
            family.replayed_from = needed.whole_from;
            let Some(log) = needed.in_part else { continue };
            let keys = family.keys();
            let flushed = family.flushed_of(log);
            let entries = logs.entries_after(merger.fs, log, (id, keys), flushed)?;
            let tables = merger.write_memtable(keys, (id, family.name.as_str()), &entries)?;
            let low = family.low_after_flush(entries.newest_timestamp());
            family.full_history_ts_low = low;
            family.tables.extend(tables);
        }
        Ok(())
    }

    /// Determines the levels of all tables, and merges tables whose order of age is uncertain.
    ///
    /// The merged originals are moved to `lost`.
    pub(super) fn arrange(
        &mut self,
        history: &History,
        merger: &Merger<'_>,
        lost: &mut LostFiles<'_>,
    ) -> Result<()> {
        for (&id, family) in &mut self.families {
            let mut levels = match history.families.get(&id) {
                Some(past) => past.live.clone(),
                None => BTreeMap::new(),
            };
            if levels.values().any(|&level| level >= self.level_count) {
                // The options have too few levels.
                levels.clear();
            }
            let tables = std::mem::take(&mut family.tables);
            let (keys, name) = (family.keys(), family.name.as_str());
            let arrangement = order::arrange(keys.order, tables, &levels, |tangled| {
                let merged = merger.merge(keys, (id, name), &tangled)?;
                for table in tangled {
                    lost.set_aside(&table.path, "its entries were merged into a new table")?;
                }
                Ok(merged)
            })?;
            family.arrangement = arrangement;
        }
        Ok(())
    }

    /// Adds the rebuilt column families to the snapshot for the new MANIFEST and to `report`.
    pub(super) fn describe(
        self,
        snapshot: &mut ManifestSnapshot,
        logs: &Logs,
        behind_all_logs: FileNumber,
        report: &mut RepairReport,
    ) {
        for id in self.families.keys().copied().chain(logs.families()) {
            snapshot.max_column_family = snapshot.max_column_family.max(id);
        }
        for (id, family) in self.families {
            let mut levels = vec![Level::default(); self.level_count];
            for ((level, table), epoch) in family.arrangement.oldest_first().zip(1..) {
                // A compaction zeroed sequence numbers that no later entry may have again.
                let last_seqno = table.file.largest_seqno.max(table.flushed.unwrap_or(0));
                snapshot.last_seqno = snapshot.last_seqno.max(last_seqno);
                report.tables.push(table.file.number);
                report.entries += table.entries;
                levels[level]
                    .files
                    .push(Arc::new(table.file.with_epoch(epoch)));
            }
            // Level 0 lists the newest first, deeper levels are in key order.
            levels[0].files.reverse();
            for level in &mut levels[1..] {
                let by_key = |file: &Arc<FileMeta>, other: &Arc<FileMeta>| {
                    let order = &family.order;
                    order.compare_internal(&file.smallest, &other.smallest)
                };
                level.files.sort_by(by_key);
            }
            report.families.push(family.name.clone());
            let mut version = Version::new(family.order, levels);
            version.full_history_ts_low = family.full_history_ts_low;
            version.persists_timestamps = family.persists_timestamps;
            snapshot.families.push(ColumnFamilySnapshot {
                id,
                name: family.name,
                log_number: family.replayed_from.unwrap_or(behind_all_logs),
                version: Arc::new(version),
            });
        }
    }
}

/// The keys of a column family that is rebuilt.
#[derive(Clone, Copy)]
pub(super) struct FamilyKeys<'f> {
    pub(super) order: &'f KeyOrder,
    /// Whether tables lack the timestamps of keys.
    pub(super) undated: bool,
}

impl RebuiltColumnFamily {
    /// The keys of the column family.
    fn keys(&self) -> FamilyKeys<'_> {
        FamilyKeys {
            order: &self.order,
            undated: self.order.has_timestamps() && !self.persists_timestamps,
        }
    }

    /// Returns the low mark of history after a table has left out timestamps up to `newest`.
    fn low_after_flush(&self, newest: Option<Timestamp>) -> Option<Timestamp> {
        let mut version = Version::new(self.order.clone(), Vec::new());
        version.full_history_ts_low = self.full_history_ts_low;
        let raised = version.raised_by_flush(newest);
        raised
            .and_then(|low| low.try_into().ok())
            .or(self.full_history_ts_low)
    }

    /// Returns the largest sequence number up to which all entries of `log` are in tables.
    ///
    /// Only tables written after the log have entries of it: a repair that did not know what was
    /// flushed, such as RocksDB's, may have let sequence numbers begin again.
    fn flushed_of(&self, log: FileNumber) -> SeqNo {
        let later = self.tables.iter().filter(|table| table.file.number > log);
        later.filter_map(|table| table.flushed).max().unwrap_or(0)
    }

    /// Moves to `lost` the tables that the column family's last state in a MANIFEST makes obsolete.
    ///
    /// If all its tables exist, tables that had left the tree earlier are obsolete, and so are the
    /// logs before its log number; otherwise they may hold the only copy. If there are no others,
    /// the logs from that number on are needed, although a table that was ingested and compacted
    /// may have later sequence numbers. A table of a flush that was not recorded is obsolete if its
    /// logs exist: tables of older memtables, flushed at the same time, may be missing.
    fn apply_history(
        &mut self,
        id: u32,
        past: &ColumnFamilyHistory,
        logs: &Logs,
        merger: &Merger<'_>,
        lost: &mut LostFiles<'_>,
    ) -> Result<()> {
        let there: BTreeSet<FileNumber> =
            self.tables.iter().map(|table| table.file.number).collect();
        if !past.live.keys().all(|table| there.contains(table)) {
            return Ok(());
        }
        self.log_number = past.log_number;
        for table in std::mem::take(&mut self.tables) {
            if past.has_removed(table.file.number) {
                lost.set_aside(&table.path, "it had left the tree")?;
            } else if !past.live.contains_key(&table.file.number)
                && logs.have_all(id, past.log_number, &table, merger)?
            {
                lost.set_aside(&table.path, "its entries are in logs")?;
            } else {
                self.tables.push(table);
            }
        }
        let is_live = |table: &FoundTable| past.live.contains_key(&table.file.number);
        self.is_as_recorded = self.tables.iter().all(is_live);
        Ok(())
    }
}

/// Returns the comparator that a MANIFEST names, if it is built in or set in the options.
fn known_order(past: &ColumnFamilyHistory, options: &Options) -> Option<KeyOrder> {
    let name = past.comparator.as_deref()?;
    if options.cf.comparator.name() == name {
        return Some(options.cf.comparator.clone());
    }
    KeyOrder::from_name(name)
}
