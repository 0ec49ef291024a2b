//! Recovers the state that a MANIFEST records, by applying its edits in order.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

pub(super) mod point_in_time;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use koeldb_base::file_name::FileNumber;
use koeldb_base::timestamp::is_name_with_timestamps;
use koeldb_base::{Error, Limits, Result, SeqNo};
use koeldb_fs::FileSystem;

use super::builder::{MissingEpochs, VersionBuilder};
use super::column_family::{ColumnFamilySpec, ColumnFamilyVersions, DEFAULT_FAMILY};
use super::edit::{ColumnFamilyChange, FILE_NUMBER_MAX, VersionEdit, WalAddition};
use super::set::{ManifestReport, VersionSetOptions};
use super::version::Version;
use crate::manifest::ManifestReader;

/// The database state recovered from a MANIFEST: column families, counters and tracked WALs.
#[derive(Debug)]
pub(super) struct Recovered {
    pub(super) db_id: Option<String>,
    pub(super) families: BTreeMap<u32, ColumnFamilyVersions>,
    pub(super) next_file_number: FileNumber,
    pub(super) last_seqno: SeqNo,
    pub(super) min_log_number_to_keep: FileNumber,
    pub(super) max_column_family: u32,
    pub(super) wals: BTreeMap<FileNumber, Option<u64>>,
}

/// Recovers the database state and the versions of `families` from MANIFEST `number`.
pub(super) fn read(
    fs: &dyn FileSystem,
    directory: &Path,
    number: FileNumber,
    families: &[ColumnFamilySpec],
    options: &VersionSetOptions,
) -> Result<(Recovered, ManifestReport)> {
    let run = |replay: &mut Replay, reader: &mut ManifestReader| replay.run(reader);
    read_with(fs, directory, number, families, options, run)
}

/// Recovers the database state from MANIFEST `number`, whose edits `run` applies.
fn read_with(
    fs: &dyn FileSystem,
    directory: &Path,
    number: FileNumber,
    families: &[ColumnFamilySpec],
    options: &VersionSetOptions,
    run: impl FnOnce(&mut Replay, &mut ManifestReader) -> Result<()>,
) -> Result<(Recovered, ManifestReport)> {
    if !families.iter().any(|family| family.name == DEFAULT_FAMILY) {
        return Err(Error::invalid_argument(
            "Default column family not specified",
        ));
    }
    let mut reader = ManifestReader::open(fs, directory, number)?;
    reader.set_readahead_bytes(options.readahead_bytes);
    let mut replay = Replay::new(Some(ColumnFamilySpecs::new(families)));
    run(&mut replay, &mut reader)?;
    replay.check_comparators()?;
    let mut report = ManifestReport {
        manifest_number: number,
        edit_count: replay.edit_count,
        dropped_tail: reader.dropped_tail().cloned(),
        dropped_group_edits: reader.dropped_group().len(),
        families_not_opened: Vec::new(),
        seqno_decreases: replay.seqno_decreases,
        missing_tables: std::mem::take(&mut replay.missing_tables),
    };
    for family in replay.families.values() {
        if family.current.is_none() {
            report.families_not_opened.push(family.name.clone());
        }
    }
    if !options.read_only && !report.families_not_opened.is_empty() {
        return Err(Error::invalid_argument(format!(
            "Column families not opened: {}",
            report.families_not_opened.join(", ")
        ))
        .with_advice(
            "name all column families to open for writing, take them from Options::load_latest, or \
             set DbBuilder::other_column_families",
        ));
    }
    let settled = replay.settle().and_then(|()| replay.recovered());
    let recovered = settled.map_err(|error| reader.located(error))?;
    Ok((recovered, report))
}

/// Returns the names of the column families in MANIFEST `number`, in the order of their ids.
pub(super) fn family_names(
    fs: &dyn FileSystem,
    directory: &Path,
    number: FileNumber,
) -> Result<Vec<String>> {
    let mut reader = ManifestReader::open(fs, directory, number)?;
    let mut replay = Replay::new(None);
    replay.run(&mut reader)?;
    replay
        .counters
        .complete()
        .map_err(|error| reader.located(error))?;
    Ok(replay
        .families
        .into_values()
        .map(|family| family.name)
        .collect())
}

/// Adds a WAL to the tracked ones, or raises its synced size.
pub(super) fn track(wals: &mut BTreeMap<FileNumber, Option<u64>>, wal: WalAddition) {
    let synced = wals.entry(wal.number).or_default();
    *synced = (*synced).max(wal.synced_bytes);
}

/// The log and file numbers and last sequence number that the edits read so far have set.
#[derive(Debug, Default)]
struct Counters {
    log_number: Option<FileNumber>,
    prev_log_number: Option<FileNumber>,
    next_file_number: Option<FileNumber>,
    last_seqno: Option<SeqNo>,
}

impl Counters {
    /// Returns the next file number and last sequence number; `Corruption` if a counter is missing.
    fn complete(&self) -> Result<(FileNumber, SeqNo)> {
        let missing: Vec<&str> = [
            (self.log_number.is_none(), "log_file_number"),
            (self.next_file_number.is_none(), "next_file_number"),
            (self.last_seqno.is_none(), "last_sequence"),
        ]
        .into_iter()
        .filter_map(|(missing, name)| missing.then_some(name))
        .collect();
        match (self.next_file_number, self.last_seqno) {
            (Some(next), Some(last)) if missing.is_empty() => Ok((next, last)),
            _ => Err(Error::corruption(format!(
                "no {} entry in MANIFEST",
                missing.join(", ")
            ))),
        }
    }
}

/// The specs of the column families to open, and an optional spec for all others.
#[derive(Clone, Debug, Default)]
pub struct ColumnFamilySpecs {
    named: HashMap<String, ColumnFamilySpec>,
    others: Option<ColumnFamilySpec>,
}

impl ColumnFamilySpecs {
    /// Creates the specs of the named families, without a spec for others.
    #[must_use]
    pub fn new(families: &[ColumnFamilySpec]) -> Self {
        let named = families.iter().cloned();
        ColumnFamilySpecs {
            named: named.map(|spec| (spec.name.clone(), spec)).collect(),
            others: None,
        }
    }

    /// Sets the spec for families that are not named, which open if their comparator matches.
    #[must_use]
    pub fn with_others(mut self, spec: Option<ColumnFamilySpec>) -> Self {
        self.others = spec;
        self
    }

    /// Returns the spec of a column family: the one with its name, or the one for all others.
    fn get(&self, name: &str) -> Option<&ColumnFamilySpec> {
        self.named.get(name).or(self.others.as_ref())
    }
}

/// The state of a column family during the replay of a MANIFEST.
#[derive(Debug)]
struct Replayed {
    name: String,
    log_number: FileNumber,
    /// The version built from the edits so far; `None` for a family that is not opened: its files
    /// are ignored.
    current: Option<Arc<Version>>,
    /// The edits since `current` was built.
    builder: Option<VersionBuilder>,
    /// The reason that the family cannot be opened with the given comparator.
    ///
    /// Its files are ignored too, since a family of the same name, dropped later, may have had
    /// another comparator.
    mismatch: Option<Error>,
    /// What this open changes of the timestamps: once they are switched on, older tables have none.
    change: TimestampChange,
}

/// What an open changes of the timestamps of a column family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TimestampChange {
    /// Nothing: the comparator is the recorded one.
    None,
    /// Keys have timestamps from now on.
    On,
    /// Keys have no timestamps any more.
    Off,
}

impl TimestampChange {
    /// Compares a column family with its record: a comparator and `persist_user_defined_timestamps`.
    ///
    /// Else returns why it cannot be opened so. (RocksDB 11.9: `util/udt_util.cc`,
    /// `ValidateUserDefinedTimestampsOptions`.)
    fn between(
        family: &str,
        (recorded, recorded_persists): (&str, bool),
        spec: &ColumnFamilySpec,
    ) -> Result<Self> {
        let name = spec.order.name();
        if name == recorded {
            let is_same = recorded_persists == spec.persists_timestamps;
            return match is_same || !spec.order.has_timestamps() {
                true => Ok(TimestampChange::None),
                false => Err(Error::invalid_argument(format!(
                    "persist_user_defined_timestamps is {recorded_persists}, which cannot be changed \
                     while keys have timestamps"
                ))
                .with_advice(format!("set it to {recorded_persists}"))
                .context(format_args!("column family '{family}'"))),
            };
        }
        if is_name_with_timestamps(name, recorded) {
            return match spec.persists_timestamps {
                false => Ok(TimestampChange::On),
                true => Err(Error::invalid_argument(format!(
                    "{name}: does not match existing comparator {recorded}: timestamps are switched \
                     on with persist_user_defined_timestamps=false only"
                ))
                .context(format_args!("column family '{family}'"))),
            };
        }
        if is_name_with_timestamps(recorded, name) && !recorded_persists {
            return Ok(TimestampChange::Off);
        }
        Err(Error::invalid_argument(format!(
            "{name}: does not match existing comparator {recorded}"
        ))
        .with_advice(format!(
            "set the comparator of column family '{family}' to {recorded}"
        )))
    }
}

/// The replay of a MANIFEST: the database state that results from the edits so far.
///
/// Edits are applied in steps: [`Replay::settle`] ends each one.
#[derive(Debug)]
pub(super) struct Replay {
    /// The families to open; `None` for their names only.
    specs: Option<ColumnFamilySpecs>,
    families: BTreeMap<u32, Replayed>,
    names: HashSet<String>,
    counters: Counters,
    db_id: Option<String>,
    min_log_number_to_keep: FileNumber,
    max_column_family: u32,
    wals: BTreeMap<FileNumber, Option<u64>>,
    pub(super) edit_count: u64,
    seqno_decreases: u64,
    /// The tables of the final state that do not exist, where they were looked for.
    missing_tables: Vec<FileNumber>,
}

impl Replay {
    /// Creates a replay of the families in `specs`; `None` collects family names only.
    pub(super) fn new(specs: Option<ColumnFamilySpecs>) -> Self {
        let mut replay = Replay {
            specs,
            families: BTreeMap::new(),
            names: HashSet::from([DEFAULT_FAMILY.to_owned()]),
            counters: Counters::default(),
            db_id: None,
            min_log_number_to_keep: 0,
            max_column_family: 0,
            wals: BTreeMap::new(),
            edit_count: 0,
            seqno_decreases: 0,
            missing_tables: Vec::new(),
        };
        let default = replay.replayed(DEFAULT_FAMILY);
        replay.families.insert(0, default);
        replay
    }

    /// Returns the initial replay state of a column family: an empty version if it is opened.
    fn replayed(&self, name: &str) -> Replayed {
        Replayed {
            name: name.to_owned(),
            log_number: 0,
            current: self.spec(name).map(|spec| Arc::new(spec.empty_version())),
            builder: None,
            mismatch: None,
            change: TimestampChange::None,
        }
    }

    /// Returns the spec with which a family is opened; `None` if it is not opened.
    fn spec(&self, name: &str) -> Option<&ColumnFamilySpec> {
        self.specs.as_ref()?.get(name)
    }

    /// Applies all edits up to the end of the MANIFEST.
    pub(super) fn run(&mut self, reader: &mut ManifestReader) -> Result<()> {
        while let Some(edits) = reader.next_edits()? {
            for mut edit in edits {
                self.apply(&mut edit)
                    .map_err(|error| reader.located(error))?;
            }
        }
        Ok(())
    }

    /// Applies an edit to the database's counters and to its column family.
    ///
    /// The files in the edit become those of the column family as it is opened: the bounds of
    /// undated tables have timestamps then.
    fn apply(&mut self, edit: &mut VersionEdit) -> Result<()> {
        self.edit_count = self.edit_count.saturating_add(1);
        self.apply_to_database(edit)?;
        let id = edit.family;
        match &edit.family_change {
            Some(ColumnFamilyChange::Add(name)) => self.add_family(id, name)?,
            Some(ColumnFamilyChange::Drop) => {
                let dropped = match id {
                    0 => None,
                    _ => self.families.remove(&id),
                };
                let Some(dropped) = dropped else {
                    return Err(Error::corruption(format!(
                        "MANIFEST drops column family {id}, which does not exist"
                    )));
                };
                self.names.remove(&dropped.name);
                return Ok(());
            }
            None => {}
        }
        let Some(family) = self.families.get_mut(&id) else {
            return Err(Error::corruption(format!(
                "MANIFEST record referencing unknown column family {id}"
            )));
        };
        if let Some(log_number) = edit.log_number {
            family.log_number = family.log_number.max(log_number);
        }
        if let Some(stored) = &edit.comparator
            && let Some(specs) = &self.specs
            && let Some(spec) = specs.get(&family.name)
        {
            // Without a record of their own, tables have timestamps.
            let recorded = (&stored[..], edit.persist_timestamps != Some(false));
            let is_named = specs.named.contains_key(&family.name);
            match TimestampChange::between(&family.name, recorded, spec) {
                Ok(TimestampChange::None) => {}
                _ if !is_named => {
                    family.current = None;
                    return Ok(());
                }
                Ok(change) => family.change = change,
                Err(why) => family.mismatch = Some(why),
            }
        }
        if let Some(current) = &family.current
            && current.order.has_timestamps()
        {
            edit.date_bounds(family.change == TimestampChange::On);
        }
        if let Some(current) = &family.current
            && family.mismatch.is_none()
            && (edit.changes_version() || !edit.compact_cursors.is_empty())
        {
            let builder = family.builder.take();
            let builder = builder.unwrap_or_else(|| VersionBuilder::new(Arc::clone(current)));
            family
                .builder
                .insert(builder)
                .apply(edit)
                .map_err(|error| error.context(format!("column family '{}'", family.name)))?;
        }
        Ok(())
    }

    /// Adds a column family; `Corruption` if its id or name is in use.
    fn add_family(&mut self, id: u32, name: &str) -> Result<()> {
        if self.families.contains_key(&id) || !self.names.insert(name.to_owned()) {
            return Err(Error::corruption(format!(
                "MANIFEST adds column family {id}, '{name}', a second time"
            )));
        }
        let most = Limits::NORMAL.family_count;
        if self.families.len() >= most {
            return Err(Error::corruption(format!(
                "more than {most} column families"
            )));
        }
        let family = self.replayed(name);
        self.families.insert(id, family);
        self.max_column_family = self.max_column_family.max(id);
        Ok(())
    }

    /// Fails if an existing column family has another comparator than its spec.
    ///
    /// A dropped family's name may have been reused with another comparator.
    pub(super) fn check_comparators(&self) -> Result<()> {
        let mut mismatches = self
            .families
            .values()
            .filter_map(|family| family.mismatch.as_ref());
        match mismatches.next() {
            Some(mismatch) => Err(mismatch.clone()),
            None => Ok(()),
        }
    }

    /// Applies the fields of an edit that belong to no column family; counters only grow.
    fn apply_to_database(&mut self, edit: &VersionEdit) -> Result<()> {
        let counters = &mut self.counters;
        counters.log_number = counters.log_number.max(edit.log_number);
        counters.prev_log_number = counters.prev_log_number.max(edit.prev_log_number);
        counters.next_file_number = counters.next_file_number.max(edit.next_file_number);
        if edit.last_seqno.is_some() && edit.last_seqno < counters.last_seqno {
            self.seqno_decreases = self.seqno_decreases.saturating_add(1);
        }
        counters.last_seqno = counters.last_seqno.max(edit.last_seqno);
        self.min_log_number_to_keep = self
            .min_log_number_to_keep
            .max(edit.min_log_number_to_keep.unwrap_or(0));
        self.max_column_family = self
            .max_column_family
            .max(edit.max_column_family.unwrap_or(0));
        if let Some(db_id) = &edit.db_id {
            let text = str::from_utf8(db_id)
                .map_err(|_| Error::corruption("the id of the database is not UTF-8"))?;
            self.db_id = (!text.is_empty()).then(|| text.to_owned());
        }
        for wal in &edit.wal_additions {
            track(&mut self.wals, *wal);
        }
        if let Some(below) = edit.wal_deletion {
            self.wals = self.wals.split_off(&below);
        }
        Ok(())
    }

    /// Builds the versions that result from the pending file edits of all opened families.
    pub(super) fn settle(&mut self) -> Result<()> {
        let (recorded_next, _) = self.counters.complete()?;
        for family in self.families.values_mut() {
            if let Some(builder) = family.builder.take() {
                let version = builder
                    .finish(MissingEpochs::Assign)
                    .and_then(|version| check_numbers(version, recorded_next))
                    .map_err(|error| error.context(format!("column family '{}'", family.name)))?;
                family.current = Some(Arc::new(version));
            }
        }
        Ok(())
    }

    /// Returns the recovered database state; call it after [`Replay::settle`].
    pub(super) fn recovered(&self) -> Result<Recovered> {
        let (recorded_next, mut last_seqno) = self.counters.complete()?;
        let counters = &self.counters;
        let logs = [counters.log_number, counters.prev_log_number];
        let largest = logs
            .into_iter()
            .flatten()
            .fold(recorded_next, FileNumber::max);
        let next_file_number = largest.saturating_add(1);
        if next_file_number > FILE_NUMBER_MAX {
            return Err(Error::corruption(format!(
                "next file number {next_file_number}, at most {FILE_NUMBER_MAX}"
            )));
        }
        let mut families = BTreeMap::new();
        for (&id, family) in &self.families {
            let Some(version) = &family.current else {
                continue;
            };
            if family.change != TimestampChange::None && !version.blob_files.is_empty() {
                return Err(Error::not_supported(format!(
                    "column family '{}': timestamps cannot be switched on or off while values are in \
                     blob files",
                    family.name
                )));
            }
            let seqnos = version.files().map(|(_, file)| file.largest_seqno);
            last_seqno = seqnos.fold(last_seqno, SeqNo::max);
            let (name, version) = (family.name.clone(), Arc::clone(version));
            let family = ColumnFamilyVersions::new(id, name, family.log_number, version);
            families.insert(id, family);
        }
        Ok(Recovered {
            db_id: self.db_id.clone(),
            families,
            next_file_number,
            last_seqno,
            min_log_number_to_keep: self.min_log_number_to_keep,
            max_column_family: self.max_column_family,
            wals: self.wals.clone(),
        })
    }

    /// The versions of the opened families, as built by [`Replay::settle`].
    pub(super) fn versions(&self) -> impl Iterator<Item = &Arc<Version>> {
        let families = self.families.values();
        families.filter_map(|family| family.current.as_ref())
    }
}

/// Returns `version`; `Corruption` if a table's number is not below the next file number.
fn check_numbers(version: Version, next_file_number: FileNumber) -> Result<Version> {
    let mut tables = version.files().map(|(_, file)| file.number);
    if let Some(number) = tables.find(|&number| number >= next_file_number) {
        return Err(Error::corruption(format!(
            "table file #{number}, but the next file number is {next_file_number}"
        )));
    }
    drop(tables);
    Ok(version)
}
