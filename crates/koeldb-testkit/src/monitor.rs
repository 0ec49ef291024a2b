//! A file system that checks the rules of durability during a run.
//!
//! The rules are those of `docs/reliability.md`, section 3. It needs no crash: it tracks which
//! bytes and names are durable, reads the MANIFEST, and checks every call that makes one file
//! depend on another. It thus finds a missing sync in any run in which it is missing, while a crash
//! test would have to crash at the right moment.
//!
//! | rule | check |
//! |---|---|
//! | O1, O2 | MANIFEST synced: the tables and blob files it newly names; CURRENT replaced: the MANIFEST |
//! | O3, O5, O21 | table, blob file, log or MANIFEST removed: no state that may be in force needs it |
//! | O4 | CURRENT replaced: its own bytes and the MANIFEST it names |
//! | O6, O9, O10 | write acknowledged: the logs |
//! | O7 | flush recorded: the later logs that another family needs |
//! | O13 | log, table, blob file or MANIFEST created: its number |
//! | 4.1 | failed sync or append: the file is not touched again |
//!
//! It sees the calls that pass it: below a layer that fakes syncs it detects them, above it, it
//! believes them. Files that existed before it started, or before `OrderingMonitor::forget`, count
//! as durable.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use koeldb_base::file_name::{self, FileKind, FileNumber};
use koeldb_base::{Error, Result};
use koeldb_fs::layer::{Call, Layer, Layered};
use koeldb_fs::{FileSystem, MemoryFileSystem, Operation, Purpose, WritableFile, WriteOptions};
use koeldb_log::{RecordReader, RecoveryMode};
use koeldb_lsm::manifest::ManifestReader;
use koeldb_lsm::version::VersionEdit;
use koeldb_lsm::version::edit::ColumnFamilyChange;

/// Checks the order in which things become durable; clones are handles to the same monitor.
pub type OrderingMonitor = Layered<Monitor>;

/// The number of violations kept.
const VIOLATIONS_MAX: usize = 20;

/// The durability that an acknowledged write requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledged {
    /// Synced to the device.
    Synced,
    /// Passed to the operating system.
    Handed,
}

/// A file created while the monitor was watching.
#[derive(Debug, Default)]
struct Watched {
    written: u64,
    handed: u64,
    synced: u64,
    is_name_durable: bool,
    has_failed: bool,
    has_failed_sync: bool,
    /// Kept for logs, MANIFESTs and temporary files.
    bytes: Vec<u8>,
}

impl Watched {
    fn is_durable(&self) -> bool {
        self.is_name_durable && self.synced >= self.written
    }
}

/// The state of a column family in a MANIFEST.
#[derive(Debug, Default)]
struct FamilyTree {
    log: FileNumber,
    /// The tables, each with the oldest blob file that it refers to.
    tables: BTreeMap<FileNumber, FileNumber>,
    /// The numbers of values of the blob files that are not garbage.
    blob_files: BTreeMap<FileNumber, u64>,
}

impl FamilyTree {
    /// Whether a table may refer to the blob file.
    fn has_blob_file(&self, number: FileNumber) -> bool {
        let linked = self.tables.values().filter(|oldest| **oldest != 0);
        let is_linked = linked.min().is_some_and(|&oldest| oldest <= number);
        is_linked && self.blob_files.get(&number).is_some_and(|&live| live > 0)
    }
}

/// The state described by a MANIFEST up to some point.
#[derive(Debug, Default)]
struct Tree {
    /// By id.
    families: BTreeMap<u32, FamilyTree>,
    /// Logs below this are not needed, independent of the families.
    oldest_log: FileNumber,
    edits: usize,
}

impl Tree {
    fn apply(&mut self, edit: &VersionEdit) {
        self.edits += 1;
        self.oldest_log = self
            .oldest_log
            .max(edit.min_log_number_to_keep.unwrap_or(0));
        match edit.family_change {
            Some(ColumnFamilyChange::Drop) => {
                self.families.remove(&edit.family);
                return;
            }
            Some(ColumnFamilyChange::Add(_)) => {
                self.families.insert(edit.family, Default::default());
            }
            None => {}
        }
        let family = self.families.entry(edit.family).or_default();
        family.log = family.log.max(edit.log_number.unwrap_or(0));
        for (_, number) in &edit.deleted_files {
            family.tables.remove(number);
        }
        let added = edit.added_files.iter();
        let added = added.map(|(_, file)| (file.number, file.oldest_blob_file));
        family.tables.extend(added);
        for file in &edit.added_blob_files {
            let live = file.count.saturating_sub(file.garbage_count);
            family.blob_files.insert(file.number, live);
        }
        for garbage in &edit.blob_garbage {
            if let Some(live) = family.blob_files.get_mut(&garbage.number) {
                *live = live.saturating_sub(garbage.count);
            }
        }
    }

    fn has_table(&self, number: FileNumber) -> bool {
        let mut families = self.families.values();
        families.any(|family| family.tables.contains_key(&number))
    }

    fn has_blob_file(&self, number: FileNumber) -> bool {
        let mut families = self.families.values();
        families.any(|family| family.has_blob_file(number))
    }

    /// The number below which no other family than this one needs logs; `None` without other
    /// families.
    fn oldest_log_of_others(&self, family: u32) -> Option<FileNumber> {
        let others = self.families.iter().filter(|(id, _)| **id != family);
        others.map(|(_, family)| family.log).min()
    }

    /// The number below which logs are not needed.
    fn oldest_log(&self) -> FileNumber {
        let logs = self.families.values().map(|family| family.log);
        logs.min().unwrap_or(0).max(self.oldest_log)
    }
}

#[derive(Debug, Default)]
struct MonitorState {
    files: BTreeMap<PathBuf, Watched>,
    /// MANIFESTs that CURRENT may name, the certain one first.
    in_force: Vec<FileNumber>,
    /// The number of edits of each MANIFEST found durable.
    checked_edits: BTreeMap<PathBuf, usize>,
    /// The numbers of logs, tables, blob files and MANIFESTs used since the database was opened.
    ///
    /// Those that existed then are included.
    numbers: BTreeSet<FileNumber>,
    directory: PathBuf,
    violations: Vec<String>,
}

/// The layer of an [`OrderingMonitor`].
pub struct Monitor {
    below: Arc<dyn FileSystem>,
    state: Mutex<MonitorState>,
}

impl fmt::Debug for Monitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Monitor({:?})", self.state().violations)
    }
}

/// Watches the database in `directory` of `below`.
#[must_use]
pub fn watch(below: Arc<dyn FileSystem>, directory: &Path) -> OrderingMonitor {
    let layer = Monitor {
        below: Arc::clone(&below),
        state: Mutex::new(MonitorState {
            directory: directory.to_owned(),
            ..MonitorState::default()
        }),
    };
    Layered::with_layer(below, layer)
}

impl Monitor {
    fn state(&self) -> MutexGuard<'_, MonitorState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The violations so far.
    #[must_use]
    pub fn violations(&self) -> Vec<String> {
        self.state().violations.clone()
    }

    /// Resets the state, after the files were changed from outside.
    pub fn forget(&self) {
        let mut state = self.state();
        *state = MonitorState {
            directory: std::mem::take(&mut state.directory),
            violations: std::mem::take(&mut state.violations),
            ..MonitorState::default()
        };
    }

    /// Records that a write was acknowledged. No other write may be in progress.
    pub fn acknowledged(&self, what: Acknowledged) {
        let mut state = self.state();
        let needed = state.trees(&*self.below);
        let needed = needed.iter().map(Tree::oldest_log).min().unwrap_or(0);
        let mut found = Vec::new();
        for (path, file) in &state.files {
            let Some(FileKind::Wal(number)) = kind(path) else {
                continue;
            };
            if number < needed || file.written == 0 || file.has_failed {
                continue;
            }
            if what == Acknowledged::Synced && !file.is_durable() {
                found.push(format!(
                    "O6, O9: a synced write is acknowledged while {} has {} of {} bytes synced, its name {}",
                    path.display(),
                    file.synced,
                    file.written,
                    if file.is_name_durable { "too" } else { "not" }
                ));
            }
            if file.handed < file.written {
                found.push(format!(
                    "O10: a write is acknowledged while {} has {} of {} bytes handed over",
                    path.display(),
                    file.handed,
                    file.written
                ));
            }
        }
        found.into_iter().for_each(|text| state.report(text));
    }
}

fn kind(path: &Path) -> Option<FileKind> {
    file_name::parse(path.file_name()?.to_str()?)
}

/// Decodes the edits in the bytes of a MANIFEST, except a truncated or damaged end.
fn edits(bytes: &[u8]) -> Vec<VersionEdit> {
    let read = || -> Result<Vec<VersionEdit>> {
        let fs = MemoryFileSystem::new();
        let directory = Path::new("/");
        let path = file_name::manifest(directory, 1);
        let mut file = fs.create(&path, &WriteOptions::default())?;
        file.append(bytes)?;
        file.close()?;
        let mut reader = ManifestReader::open(&fs, directory, 1)?;
        let mut edits = Vec::new();
        while let Ok(Some(group)) = reader.next_edits() {
            edits.extend(group);
        }
        Ok(edits)
    };
    read().unwrap_or_default()
}

fn tree(bytes: &[u8]) -> Tree {
    let mut tree = Tree::default();
    for edit in edits(bytes) {
        tree.apply(&edit);
    }
    tree
}

/// Whether a record of a log has operations. One that announces compression, or links the log to the
/// previous one, has none.
fn has_operations(log: &[u8], number: FileNumber) -> bool {
    let read = || -> Result<bool> {
        let fs = MemoryFileSystem::new();
        let directory = Path::new("/");
        let mut file = fs.create(&file_name::wal(directory, number), &WriteOptions::default())?;
        file.append(log)?;
        file.close()?;
        let file = koeldb_log::wal::open_file(&fs, directory, number)?;
        let mode = RecoveryMode::TolerateCorruptedTailRecords;
        let mut records = RecordReader::new(file, number, mode);
        while let Some(batch) = records.next_record()? {
            // The count follows the sequence number.
            if batch.get(8..12) != Some(&[0; 4]) {
                return Ok(true);
            }
        }
        Ok(false)
    };
    read().unwrap_or(true)
}

impl MonitorState {
    fn report(&mut self, text: String) {
        if self.violations.len() < VIOLATIONS_MAX {
            self.violations.push(text);
        }
    }

    /// The states that may be in force: for each MANIFEST, its durable part and all of it.
    fn trees(&mut self, below: &dyn FileSystem) -> Vec<Tree> {
        if self.in_force.is_empty() {
            let named = koeldb_lsm::current::read_current(below, &self.directory);
            self.in_force.extend(named.ok());
        }
        let mut trees = Vec::new();
        for &number in &self.in_force {
            let path = file_name::manifest(&self.directory, number);
            match self.files.get(&path) {
                Some(file) => {
                    let synced = usize::try_from(file.synced).unwrap_or(usize::MAX);
                    let durable = file.bytes.get(..synced).unwrap_or(&file.bytes);
                    trees.push(tree(durable));
                    if durable.len() < file.bytes.len() {
                        trees.push(tree(&file.bytes));
                    }
                }
                None => {
                    let bytes = below.read_all(&path, u64::MAX, Purpose::Other);
                    trees.extend(bytes.ok().map(|bytes| tree(&bytes)));
                }
            }
        }
        trees
    }

    /// O5: a state that may be in force must not need the removed file.
    fn check_removal(&mut self, below: &dyn FileSystem, path: &Path) {
        let trees = self.trees(below);
        let is_here = path.parent() == Some(&self.directory);
        let is_archived = path.to_string_lossy().contains("archive");
        let is_needed = match kind(path) {
            Some(FileKind::Table(number)) => {
                is_here && trees.iter().any(|tree| tree.has_table(number))
            }
            Some(FileKind::Blob(number)) => {
                is_here && trees.iter().any(|tree| tree.has_blob_file(number))
            }
            Some(FileKind::Wal(number)) => {
                let needs = |tree: &Tree| number >= tree.oldest_log() && !tree.families.is_empty();
                let file = self.files.get(path);
                let is_empty = || file.is_some_and(|file| !has_operations(&file.bytes, number));
                !is_archived && trees.iter().any(needs) && !is_empty()
            }
            // Without CURRENT no MANIFEST is in force, even if one was about to be named.
            Some(FileKind::Manifest(number)) => {
                let current = file_name::current(&self.directory);
                is_here && self.in_force.contains(&number) && below.exists(&current).unwrap_or(true)
            }
            _ => false,
        };
        if is_needed {
            self.report(format!("O5: {} is removed and needed", path.display()));
        }
    }

    /// O1, O2, O7: everything that newly durable edits depend on must be durable.
    fn check_edits(&mut self, path: &Path) {
        let Some(bytes) = self.files.get(path).map(|file| file.bytes.clone()) else {
            return;
        };
        let checked = self.checked_edits.get(path).copied().unwrap_or(0);
        let mut tree = Tree::default();
        let mut found = Vec::new();
        for edit in edits(&bytes) {
            let is_new = tree.edits >= checked;
            // A family cannot lose data logged before it was created, or data that is all in its
            // tables.
            let needed_from = tree.oldest_log_of_others(edit.family);
            tree.apply(&edit);
            if !is_new {
                continue;
            }
            let tables = edit.added_files.iter();
            let tables = tables.map(|(_, file)| file_name::table(&self.directory, file.number));
            let blob_files = edit.added_blob_files.iter();
            let blob_files = blob_files.map(|file| file_name::blob(&self.directory, file.number));
            for named in tables.chain(blob_files) {
                if let Some(file) = self.files.get(&named)
                    && !file.is_durable()
                {
                    found.push(format!(
                        "O1, O2: {} names {}, of which {} of {} bytes are synced, its name {}",
                        path.display(),
                        named.display(),
                        file.synced,
                        file.written,
                        if file.is_name_durable { "too" } else { "not" }
                    ));
                }
            }
            let is_flush = edit.log_number.is_some() && !edit.added_files.is_empty();
            if is_flush
                && let Some(needed_from) = needed_from
                && checked > 0
                && edit.remaining_in_group.is_none()
            {
                let behind = edit.log_number.unwrap_or(0);
                for (log, file) in &self.files {
                    let is_behind = matches!(kind(log), Some(FileKind::Wal(number)) if number < behind && number >= needed_from);
                    if is_behind && file.written > 0 && !file.has_failed && !file.is_durable() {
                        found.push(format!(
                            "O7: a flush up to log {behind} is recorded while {} is not durable",
                            log.display()
                        ));
                    }
                }
            }
        }
        self.checked_edits.insert(path.to_owned(), tree.edits);
        found.into_iter().for_each(|text| self.report(text));
    }

    /// O4: the file that CURRENT will name must exist.
    fn check_current(&mut self, from: &Path) {
        let Some(file) = self.files.get(from) else {
            return;
        };
        if file.synced < file.written {
            self.report(format!("O4: {} is not synced", from.display()));
        }
        let bytes = self.files.get(from).map(|file| file.bytes.clone());
        let Some(number) = bytes.as_deref().and_then(named_manifest) else {
            return;
        };
        let path = file_name::manifest(&self.directory, number);
        if let Some(file) = self.files.get(&path)
            && !file.is_durable()
        {
            self.report(format!(
                "O4: CURRENT names {}, which is not durable",
                path.display()
            ));
        }
        if !self.files.contains_key(&path) {
            self.report(format!(
                "O4: CURRENT names {}, which is not there",
                path.display()
            ));
        }
        self.in_force.push(number);
    }

    /// Handles the lock of the directory: an open begins.
    ///
    /// While there is no database, every attempt to create one starts over.
    fn opened(&mut self, below: &dyn FileSystem) {
        self.numbers.clear();
        if !below
            .exists(&file_name::current(&self.directory))
            .unwrap_or(false)
        {
            return;
        }
        let entries = below.list(&self.directory).unwrap_or_default();
        let kinds = entries
            .iter()
            .filter_map(|entry| file_name::parse(&entry.name));
        self.numbers = kinds.filter_map(FileKind::number).collect();
    }

    fn check_number(&mut self, path: &Path) {
        if let Some(
            FileKind::Wal(number)
            | FileKind::Table(number)
            | FileKind::Blob(number)
            | FileKind::Manifest(number),
        ) = kind(path)
            && !path.to_string_lossy().contains("archive")
            && !self.numbers.insert(number)
        {
            self.report(format!(
                "O13: {} has a number that was used before",
                path.display()
            ));
        }
    }

    /// Handles a rename or link that has happened, or may have.
    fn named(&mut self, from: &Path, to: &Path, moves: bool) {
        if !moves {
            return;
        }
        let is_archived = to.to_string_lossy().contains("archive");
        if let Some(mut file) = self.files.remove(from)
            && !is_archived
        {
            file.is_name_durable = false;
            self.files.insert(to.to_owned(), file);
        }
    }

    fn synced_directory(&mut self, directory: &Path) {
        for (path, file) in &mut self.files {
            if path.parent() == Some(directory) {
                file.is_name_durable = true;
            }
        }
        if directory == self.directory
            && let Some(last) = self.in_force.pop()
        {
            self.in_force = vec![last];
        }
    }
}

fn named_manifest(bytes: &[u8]) -> Option<FileNumber> {
    let name = str::from_utf8(bytes).ok()?.strip_suffix('\n')?;
    match file_name::parse(name) {
        Some(FileKind::Manifest(number)) => Some(number),
        _ => None,
    }
}

impl Layer for Monitor {
    fn around<T>(&self, call: &Call<'_>, proceed: impl FnOnce() -> Result<T>) -> Result<T> {
        match call.operation {
            Operation::RemoveFile => self.state().check_removal(&*self.below, call.path),
            Operation::Rename if call.to.and_then(kind) == Some(FileKind::Current) => {
                let mut state = self.state();
                state.trees(&*self.below);
                state.check_current(call.path);
            }
            // To the archive, or to the trash.
            Operation::Rename
                if matches!(
                    kind(call.path),
                    Some(FileKind::Wal(_) | FileKind::Table(_) | FileKind::Blob(_))
                ) =>
            {
                self.state().check_removal(&*self.below, call.path);
            }
            Operation::Create => self.state().check_number(call.path),
            Operation::Reuse => self.state().check_number(call.to.unwrap_or(call.path)),
            _ => {}
        }
        let result = proceed();
        let is_done = result.is_ok();
        let mut state = self.state();
        match (call.operation, call.to) {
            (Operation::Lock, _) if is_done => state.opened(&*self.below),
            (Operation::Create, _) if is_done => {
                state.files.insert(call.path.to_owned(), Watched::default());
            }
            // The former content is no content of the new file.
            (Operation::Reuse, Some(to)) if is_done => {
                state.files.remove(call.path);
                state.files.insert(to.to_owned(), Watched::default());
            }
            (Operation::RemoveFile, _) if is_done => {
                state.files.remove(call.path);
                state.checked_edits.remove(call.path);
            }
            (Operation::Rename, Some(to)) if is_done => state.named(call.path, to, true),
            (Operation::Link, Some(to)) if is_done => state.named(call.path, to, false),
            (Operation::SyncDir, _) if is_done => state.synced_directory(call.path),
            (Operation::Flush | Operation::Close, _) => {
                if let Some(file) = state.files.get_mut(call.path) {
                    match is_done {
                        true => file.handed = file.written,
                        false => file.has_failed = true,
                    }
                }
            }
            _ => {}
        }
        result
    }

    fn append(&self, call: &Call<'_>, bytes: &[u8], below: &mut dyn WritableFile) -> Result<()> {
        let result = below.append(bytes);
        let mut state = self.state();
        let state = &mut *state;
        if let Some(file) = state.files.get_mut(call.path) {
            if file.has_failed {
                let text = format!("4.1: {} is written after it failed", call.path.display());
                state.violations.push(text);
            }
            file.written = call.offset + bytes.len() as u64;
            if matches!(
                kind(call.path),
                Some(FileKind::Manifest(_) | FileKind::Wal(_) | FileKind::Temporary(_))
            ) {
                let offset = usize::try_from(call.offset).unwrap_or(usize::MAX);
                file.bytes.truncate(offset);
                file.bytes.extend_from_slice(bytes);
            }
            file.has_failed |= result.is_err();
        }
        result
    }

    fn sync_file(&self, call: &Call<'_>, below: &mut dyn WritableFile) -> Result<()> {
        let covered = below.len();
        // A sync beside the writer vouches for bytes from before a write that fails meanwhile.
        let is_beside = call.len > 0;
        if let Some(file) = self.state().files.get(call.path)
            && (file.has_failed_sync || file.has_failed && !is_beside)
        {
            let text = format!("4.1: {} is synced after it failed", call.path.display());
            self.state().report(text);
        }
        let result = match call.operation {
            Operation::SyncAll => below.sync_all(),
            _ => below.sync_data(),
        };
        let mut state = self.state();
        let Some(file) = state.files.get_mut(call.path) else {
            return result;
        };
        match &result {
            Ok(()) => {
                file.handed = file.handed.max(covered);
                file.synced = file.synced.max(covered);
                if matches!(kind(call.path), Some(FileKind::Manifest(_))) {
                    state.check_edits(call.path);
                }
            }
            Err(_) => {
                file.has_failed = true;
                file.has_failed_sync = true;
            }
        }
        result
    }
}

/// Returns the first violation as an error.
///
/// # Errors
/// If there was one.
pub fn verdict(monitor: &OrderingMonitor) -> Result<(), Error> {
    match monitor.layer().violations().first() {
        Some(text) => Err(Error::corruption(text.clone())),
        None => Ok(()),
    }
}
