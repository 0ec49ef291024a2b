//! The versions of all families, the shared counters, and the MANIFEST that records them.
//!
//! # Threading
//!
//! A [`VersionSet`] is guarded by its own mutex, which is held while an edit is written and synced.
//! Reads and writes of the database do not need it: they continue with the `Arc<Version>` they
//! have. Counters needed at any time without the mutex are shared: [`FileNumbers`] and
//! [`Epochs`](super::Epochs). A committing thread takes the mutex, calls
//! [`VersionSet::log_and_apply`], and before releasing it installs the returned versions under the
//! database's lock: versions are thus installed in the order they were recorded. The mutex is taken
//! before the database's lock, never after.
//!
//! # Failure
//!
//! If a record cannot be written or synced, it is unknown whether it is on disk. The set stays
//! unchanged, the files that the failed edit names stay live ([`VersionSet::live_files`]), and the
//! next edit begins a new MANIFEST. If CURRENT cannot be replaced, both MANIFESTs are kept
//! ([`VersionSet::oldest_manifest`]) until a later one is in force.

mod access;
mod counters;
mod manifest_writes;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use koeldb_base::file_name::{self, FileKind, FileNumber};
use koeldb_base::stats::Statistics;
use koeldb_base::{Error, ErrorKind, Result, SeqNo};
use koeldb_fs::{FileSystem, Purpose, WriteOptions};
use koeldb_log::RecordWriter;

use super::builder::{MissingEpochs, VersionBuilder};
use super::column_family::{ColumnFamilySpec, ColumnFamilyVersions, FileNumbers};
use super::edit::{ColumnFamilyChange, FAMILY_NAME_BYTES_MAX, FILE_NUMBER_MAX, VersionEdit};
use super::recovery::point_in_time::{self, FileChecks};
use super::recovery::{self, Recovered};
use super::tail::ManifestTail;
use super::version::Version;
use crate::current::read_current;
use crate::manifest;

pub use access::LiveFiles;

/// The settings of a version set.
#[derive(Clone, Debug)]
pub struct VersionSetOptions {
    /// Whether nothing may be written.
    pub read_only: bool,
    /// The size at which the MANIFEST is replaced, if `manifest_space_amp_percent` permits no more.
    pub manifest_bytes_max: u64,
    /// The permitted growth of a MANIFEST over its first size, in percent.
    pub manifest_space_amp_percent: u32,
    /// The settings of MANIFEST files.
    pub manifest_file: WriteOptions,
    /// Whether to record the id of the database in the MANIFEST.
    pub write_db_id: bool,
    /// The size of one read of the MANIFEST; 0 for the default.
    pub readahead_bytes: usize,
    /// The statistics that record the times of syncs; `None` for none.
    pub statistics: Option<Statistics>,
    /// Other directories whose file numbers are in use: those of logs and of tables.
    pub other_directories: Vec<PathBuf>,
}

impl Default for VersionSetOptions {
    fn default() -> Self {
        VersionSetOptions {
            read_only: false,
            manifest_bytes_max: 1 << 30,
            manifest_space_amp_percent: 500,
            manifest_file: WriteOptions::new(Purpose::Manifest),
            write_db_id: true,
            readahead_bytes: 0,
            statistics: None,
            other_directories: Vec::new(),
        }
    }
}

/// A report on the recovery of a MANIFEST: edits applied, data dropped, families not opened.
#[derive(Clone, Debug, Default)]
pub struct ManifestReport {
    /// The number of the MANIFEST that was read.
    pub manifest_number: FileNumber,
    /// The number of edits applied.
    pub edit_count: u64,
    /// The incomplete record at the end of the MANIFEST that was dropped.
    pub dropped_tail: Option<koeldb_log::Problem>,
    /// The number of edits of an incomplete atomic group at the end of the MANIFEST that were
    /// dropped.
    pub dropped_group_edits: usize,
    /// Existing families that were not requested; only when opened read-only.
    pub families_not_opened: Vec<String>,
    /// The number of times the last sequence number decreased.
    pub seqno_decreases: u64,
    /// The tables of the newest state that are missing or damaged, if they were looked for.
    pub missing_tables: Vec<FileNumber>,
}

/// The column families, versions and counters of a database, which the MANIFEST records.
#[derive(Debug)]
pub struct VersionSet {
    fs: Arc<dyn FileSystem>,
    directory: PathBuf,
    options: VersionSetOptions,
    numbers: FileNumbers,

    db_id: Option<String>,
    families: BTreeMap<u32, ColumnFamilyVersions>,
    last_seqno: SeqNo,
    min_log_number_to_keep: FileNumber,
    max_column_family: u32,
    wals: BTreeMap<FileNumber, Option<u64>>,

    /// The live MANIFEST; `None` if the next edit begins a new one.
    manifest: Option<RecordWriter>,
    manifest_number: FileNumber,
    /// The length of the MANIFEST after its initial snapshot.
    snapshot_bytes: u64,
    /// The comparators of dropped families by name, and whether their tables have timestamps, since
    /// the live MANIFEST was begun.
    dropped_comparators: HashMap<String, (String, bool)>,
    /// Versions that may be current on disk, because writing their edit failed.
    uncertain: Vec<Arc<Version>>,
    /// Every version that was current and may still be read.
    versions: Vec<Weak<Version>>,
    record: Vec<u8>,
}

impl VersionSet {
    /// Writes the MANIFEST and CURRENT of a new, empty database.
    ///
    /// [`VersionSet::recover`] then opens it.
    ///
    /// # Errors
    /// `Corruption` if the directory holds files of a database that lost its CURRENT; otherwise if
    /// the system fails.
    pub fn create(fs: &dyn FileSystem, directory: &Path, db_id: Option<&str>) -> Result<()> {
        manifest::create(fs, directory, db_id)
    }

    /// Recovers the version set from CURRENT and the MANIFEST that it names.
    ///
    /// Nothing is written: the first edit begins a new MANIFEST.
    ///
    /// # Errors
    /// With detail `PathNotFound` if there is no CURRENT; `Corruption` for damage;
    /// `InvalidArgument` if a comparator differs, a family has fewer levels than its files need, or
    /// families exist that were not requested (unless read-only).
    pub fn recover(
        fs: Arc<dyn FileSystem>,
        directory: &Path,
        families: &[ColumnFamilySpec],
        options: VersionSetOptions,
    ) -> Result<(Self, ManifestReport)> {
        let number = read_current(&*fs, directory)?;
        let (recovered, report) = recovery::read(&*fs, directory, number, families, &options)?;
        let set = Self::with_state(fs, directory, options, number, recovered)?;
        Ok((set, report))
    }

    /// Recovers the newest state whose files exist, without CURRENT (`best_efforts_recovery`).
    ///
    /// See the module `point_in_time`.
    ///
    /// # Errors
    /// See [`VersionSet::recover`], and those of `checks`.
    pub fn recover_point_in_time(
        fs: Arc<dyn FileSystem>,
        directory: &Path,
        families: &[ColumnFamilySpec],
        options: VersionSetOptions,
        checks: FileChecks<'_>,
    ) -> Result<(Self, ManifestReport)> {
        let (recovered, report) = point_in_time::read(&*fs, directory, families, &options, checks)?;
        let number = report.manifest_number;
        let set = Self::with_state(fs, directory, options, number, recovered)?;
        Ok((set, report))
    }

    /// Returns the names of all column families in the newest MANIFEST that can be replayed.
    ///
    /// # Errors
    /// See [`VersionSet::list_families`].
    pub fn list_families_without_current(
        fs: &dyn FileSystem,
        directory: &Path,
    ) -> Result<Vec<String>> {
        point_in_time::names(fs, directory)
    }

    /// Creates a read-only version set from the state that a MANIFEST follower has read.
    ///
    /// # Errors
    /// If the system fails.
    pub fn following(
        fs: Arc<dyn FileSystem>,
        directory: &Path,
        options: VersionSetOptions,
        tail: &ManifestTail,
    ) -> Result<Self> {
        let number = tail.manifest_number();
        Self::with_state(fs, directory, options, number, tail.recovered()?)
    }

    /// Updates a read-only version set to the state that a MANIFEST follower has read.
    ///
    /// # Errors
    /// `Corruption` if counters are missing or exhausted; nothing has changed then.
    pub fn follow(&mut self, tail: &ManifestTail) -> Result<()> {
        let recovered = tail.recovered()?;
        self.numbers.skip(recovered.next_file_number);
        let versions = recovered.families.values();
        self.versions
            .extend(versions.map(|family| Arc::downgrade(&family.current)));
        self.versions.retain(|version| version.strong_count() > 0);
        self.manifest_number = tail.manifest_number();
        self.db_id = recovered.db_id.or(self.db_id.take());
        self.families = recovered.families;
        self.last_seqno = self.last_seqno.max(recovered.last_seqno);
        self.min_log_number_to_keep = recovered.min_log_number_to_keep;
        self.max_column_family = recovered.max_column_family;
        self.wals = recovered.wals;
        Ok(())
    }

    /// Creates a version set with MANIFEST number `number` from the recovered state.
    fn with_state(
        fs: Arc<dyn FileSystem>,
        directory: &Path,
        options: VersionSetOptions,
        number: FileNumber,
        recovered: Recovered,
    ) -> Result<Self> {
        let Recovered {
            db_id,
            families,
            next_file_number,
            last_seqno,
            min_log_number_to_keep,
            max_column_family,
            wals,
        } = recovered;
        let numbers = FileNumbers::starting_at(next_file_number);
        let versions = families
            .values()
            .map(|family| Arc::downgrade(&family.current))
            .collect();
        let set = VersionSet {
            fs,
            directory: directory.to_owned(),
            options,
            numbers,
            db_id,
            families,
            last_seqno,
            min_log_number_to_keep,
            max_column_family,
            wals,
            manifest: None,
            manifest_number: number,
            snapshot_bytes: 0,
            dropped_comparators: HashMap::new(),
            uncertain: Vec::new(),
            versions,
            record: Vec::new(),
        };
        set.skip_numbers_in_use()?;
        Ok(set)
    }

    /// Returns the names of all column families of a database, in the order of their ids.
    ///
    /// # Errors
    /// See [`VersionSet::recover`], except for comparators and levels.
    pub fn list_families(fs: &dyn FileSystem, directory: &Path) -> Result<Vec<String>> {
        recovery::family_names(fs, directory, read_current(fs, directory)?)
    }

    /// Raises the next file number above those of the MANIFEST and of all existing files.
    fn skip_numbers_in_use(&self) -> Result<()> {
        self.numbers.skip(self.manifest_number);
        for directory in std::iter::once(&self.directory).chain(&self.options.other_directories) {
            for entry in self.fs.list(directory)? {
                if let Some(number) = file_name::parse(&entry.name).and_then(FileKind::number) {
                    self.numbers.skip(number);
                }
            }
        }
        let next = self.numbers.peek();
        if next > FILE_NUMBER_MAX {
            return Err(Error::corruption(format!(
                "file numbers are exhausted: found {}",
                next - 1
            ))
            .in_file(&self.directory, None, "list"));
        }
        Ok(())
    }

    /// Records in memory that a column family needs no WAL with a number below `log`.
    ///
    /// This is the case if its memtables are empty at the beginning of a log. The next edit that
    /// advances log numbers includes it in [`VersionSet::min_log_number_to_keep`].
    pub fn set_needed_from(&mut self, family: u32, log: FileNumber) {
        if let Some(family) = self.families.get_mut(&family) {
            family.needed_from = family.needed_from.max(log);
        }
    }

    /// Creates column families with one MANIFEST sync, and returns their ids.
    ///
    /// After a crash, the first of them may exist.
    ///
    /// # Errors
    /// `InvalidArgument` for a name that is taken, empty or too long; otherwise see
    /// [`VersionSet::log_and_apply`].
    pub fn add_families(
        &mut self,
        specs: &[ColumnFamilySpec],
        log_number: FileNumber,
    ) -> Result<Vec<u32>> {
        let mut names = BTreeSet::new();
        for ColumnFamilySpec { name, .. } in specs {
            if self.family_named(name).is_some() || !names.insert(name) {
                return Err(Error::invalid_argument(format!(
                    "Column family already exists: {name}"
                )));
            }
            if name.is_empty() || name.len() > FAMILY_NAME_BYTES_MAX {
                return Err(Error::invalid_argument(format!(
                    "the name of a column family has 1 to {FAMILY_NAME_BYTES_MAX} bytes, not {}",
                    name.len()
                )));
            }
        }
        if specs.is_empty() {
            return Ok(Vec::new());
        }
        let count = u32::try_from(specs.len()).ok();
        let Some(last) = count.and_then(|count| self.max_column_family.checked_add(count)) else {
            return Err(Error::invalid_argument("all column family ids are used up"));
        };
        let ids = self.max_column_family.saturating_add(1)..=last;
        // Even if the edits fail, the ids may have reached the disk.
        self.max_column_family = last;
        let edits = ids.clone().zip(specs).map(|(id, spec)| VersionEdit {
            family_change: Some(ColumnFamilyChange::Add(spec.name.clone())),
            comparator: Some(spec.order.name().to_owned()),
            persist_timestamps: Some(spec.persists_timestamps),
            log_number: Some(log_number),
            ..VersionEdit::of(id)
        });
        let edits = edits.collect();
        let has_other_comparator = |spec: &ColumnFamilySpec| {
            let dropped = self.dropped_comparators.get(&spec.name);
            dropped.is_some_and(|(comparator, persists_timestamps)| {
                comparator != spec.order.name() || *persists_timestamps != spec.persists_timestamps
            })
        };
        if specs.iter().any(has_other_comparator) {
            // COMPAT: RocksDB compares the comparators of all families with that name in a
            // MANIFEST, including dropped ones, so this one must not be in the same MANIFEST.
            self.manifest = None;
        }
        self.write(edits, &[])?;
        for (id, spec) in ids.clone().zip(specs) {
            let version = Arc::new(spec.empty_version());
            let family = ColumnFamilyVersions::new(id, spec.name.clone(), log_number, version);
            self.versions.push(Arc::downgrade(&family.current));
            self.families.insert(id, family);
        }
        Ok(ids.collect())
    }

    /// Drops column families with one MANIFEST sync; versions in use keep their files.
    ///
    /// After a crash, the first of them may be dropped.
    ///
    /// # Errors
    /// `InvalidArgument` for the default family; `ColumnFamilyDropped` if there is no such family;
    /// otherwise see [`VersionSet::log_and_apply`].
    pub fn drop_families(&mut self, ids: &[u32]) -> Result<()> {
        let mut edits: Vec<VersionEdit> = Vec::new();
        let mut versions = Vec::new();
        for &id in ids {
            if edits.iter().any(|edit| edit.family == id) {
                return Err(Error::invalid_argument(format!(
                    "column family {id} is to be dropped twice"
                )));
            }
            if id == 0 {
                return Err(Error::invalid_argument("Can't drop default column family"));
            }
            versions.push(Arc::clone(&self.existing(id)?.current));
            edits.push(VersionEdit {
                family_change: Some(ColumnFamilyChange::Drop),
                max_column_family: Some(self.max_column_family),
                ..VersionEdit::of(id)
            });
        }
        if edits.is_empty() {
            return Ok(());
        }
        self.write(edits, &versions)?;
        for id in ids {
            if let Some(dropped) = self.families.remove(id) {
                let version = &dropped.current;
                let comparator = version.order.name().to_owned();
                let record = (comparator, version.persists_timestamps);
                self.dropped_comparators.insert(dropped.name, record);
            }
        }
        Ok(())
    }

    /// Writes edits atomically and durably to the MANIFEST, and installs the resulting versions.
    ///
    /// Returns the versions by family. Counters are filled in: next file number, last sequence
    /// number (at least that of the files), and, when log numbers advance, the smallest log to
    /// keep.
    ///
    /// # Errors
    /// `Corruption` if an edit contradicts the tree, `ColumnFamilyDropped` if its family is gone:
    /// nothing was written then. Otherwise if the system fails: nothing is installed, and whether
    /// the edits are on disk is unknown until a later call succeeds.
    ///
    /// # Panics
    /// If an edit adds or drops a family: use [`VersionSet::add_families`] and
    /// [`VersionSet::drop_families`].
    pub fn log_and_apply(&mut self, edits: Vec<VersionEdit>) -> Result<Vec<(u32, Arc<Version>)>> {
        assert!(
            edits.iter().all(|edit| edit.family_change.is_none()),
            "families are changed by edits of their own"
        );
        let versions = self.build(&edits)?;
        let all: Vec<_> = versions
            .iter()
            .map(|(_, version)| Arc::clone(version))
            .collect();
        let log_numbers: Vec<_> = edits
            .iter()
            .filter_map(|edit| Some((edit.family, edit.log_number?)))
            .collect();
        self.write(edits, &all)?;
        for (family, log_number) in log_numbers {
            if let Some(family) = self.families.get_mut(&family) {
                family.log_number = family.log_number.max(log_number);
                family.needed_from = family.needed_from.max(log_number);
            }
        }
        for (id, version) in &versions {
            if let Some(family) = self.families.get_mut(id) {
                family.current = Arc::clone(version);
                self.versions.push(Arc::downgrade(version));
            }
        }
        self.versions.retain(|version| version.strong_count() > 0);
        Ok(versions)
    }

    /// Returns a column family; `ColumnFamilyDropped` if none has this id.
    fn existing(&self, id: u32) -> Result<&ColumnFamilyVersions> {
        self.families.get(&id).ok_or_else(|| {
            Error::with_kind(
                ErrorKind::ColumnFamilyDropped,
                format!("column family {id} was dropped"),
            )
        })
    }

    /// Builds the new versions of the families whose files `edits` change.
    fn build(&self, edits: &[VersionEdit]) -> Result<Vec<(u32, Arc<Version>)>> {
        let mut builders = BTreeMap::new();
        for edit in edits {
            let family = self.existing(edit.family)?;
            if edit.changes_version() {
                builders
                    .entry(edit.family)
                    .or_insert_with(|| VersionBuilder::new(Arc::clone(&family.current)))
                    .apply(edit)?;
            }
        }
        builders
            .into_iter()
            .map(|(id, builder)| Ok((id, Arc::new(builder.finish(MissingEpochs::Refuse)?))))
            .collect()
    }
}

#[cfg(test)]
mod tests;
