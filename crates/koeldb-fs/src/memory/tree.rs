//! Directories of the in-memory file system: visible entries, synced entries, and the unsynced
//! changes.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use koeldb_base::{Error, Result};

use super::content::{Change, Content, MemoryFile};
use super::system::MemoryFileSystem;
use crate::clock::Clock;

/// The identity of the root directory, which always exists.
pub(super) const ROOT: u64 = 1;

/// The free space reported without a budget.
const UNLIMITED_BYTES: u64 = 1 << 50;

/// A function called with the file system and the number of the upcoming mutating operation.
pub(super) type Observer = Arc<dyn Fn(&MemoryFileSystem, u64) + Send + Sync>;

/// The state of the file system except the bytes of files.
pub(super) struct TreeState {
    pub(super) directories: BTreeMap<u64, Directory>,
    /// Entry changes that no directory sync has covered, oldest first.
    pub(super) pending: Vec<PendingEntries>,
    pub(super) next_id: u64,
    /// The sequence number of the next pending change of a file or a directory.
    next_sequence: u64,
    /// The number of mutating operations begun.
    pub(super) operations: u64,
    pub(super) crash_at: Option<u64>,
    pub(super) observer: Option<Observer>,
    pub(super) locks: BTreeSet<u64>,
    pub(super) byte_budget: Option<u64>,
    pub(super) bytes_used: u64,
    pub(super) file_budget: Option<u64>,
    pub(super) files_used: u64,
}

/// The target of a directory entry: a file, or a directory by its id.
#[derive(Clone, Debug)]
pub(super) enum Node {
    File(Arc<MemoryFile>),
    Directory(u64),
}

impl Node {
    /// Returns the id of the file or directory.
    pub(super) fn id(&self) -> u64 {
        match self {
            Node::File(file) => file.id,
            Node::Directory(id) => *id,
        }
    }
}

/// The visible and the durable entries of a directory.
#[derive(Debug, Default)]
pub(super) struct Directory {
    /// The visible entries.
    pub(super) entries: BTreeMap<OsString, Node>,
    /// The entries that survive every power cut.
    pub(super) synced: BTreeMap<OsString, Node>,
}

/// An unsynced change of entries in one or two directories, of which a crash keeps all or nothing.
#[derive(Debug)]
pub(super) struct PendingEntries {
    pub(super) sequence: u64,
    pub(super) changes: Vec<EntryChange>,
}

/// A change of the target of one name in one directory; `None` removes the name.
#[derive(Clone, Debug)]
pub(super) struct EntryChange {
    pub(super) directory: u64,
    pub(super) name: OsString,
    pub(super) target: Option<Node>,
}

impl EntryChange {
    /// Applies the change to the entries of its directory.
    pub(super) fn apply(&self, entries: &mut BTreeMap<OsString, Node>) {
        match &self.target {
            Some(node) => entries.insert(self.name.clone(), node.clone()),
            None => entries.remove(&self.name),
        };
    }
}

/// The location of a name: its directory and last component.
pub(super) struct EntryName {
    directory: u64,
    name: OsString,
}

impl EntryName {
    /// Creates the change that makes the entry lead to `target`; `None` removes it.
    pub(super) fn to(&self, target: Option<Node>) -> EntryChange {
        EntryChange {
            directory: self.directory,
            name: self.name.clone(),
            target,
        }
    }
}

/// Returns an I/O error of a kind for an operation on a path.
pub(super) fn failed(kind: io::ErrorKind, operation: &'static str, path: &Path) -> Error {
    Error::io(io::Error::from(kind), operation, path)
}

/// Splits a path into names, resolving `.` and `..` without the tree.
pub(super) fn components(path: &Path) -> Vec<&OsStr> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(name),
            Component::ParentDir => {
                names.pop();
            }
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    names
}

impl TreeState {
    /// Creates the state with only an empty root directory.
    pub(super) fn new() -> Self {
        TreeState {
            directories: BTreeMap::from([(ROOT, Directory::default())]),
            pending: Vec::new(),
            next_id: ROOT + 1,
            next_sequence: 0,
            operations: 0,
            crash_at: None,
            observer: None,
            locks: BTreeSet::new(),
            byte_budget: None,
            bytes_used: 0,
            file_budget: None,
            files_used: 0,
        }
    }

    /// Returns the sequence number for the next change.
    pub(super) fn sequence(&mut self) -> u64 {
        self.next_sequence += 1;
        self.next_sequence
    }

    /// Returns an unused id for a file or directory.
    pub(super) fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    /// Returns the visible directory entry of a name.
    pub(super) fn entry(&self, place: &EntryName) -> Option<&Node> {
        self.directories
            .get(&place.directory)?
            .entries
            .get(&place.name)
    }

    /// Follows names from the root directory; returns the file or directory that they lead to.
    pub(super) fn walk(&self, names: &[&OsStr]) -> Result<Node, io::ErrorKind> {
        let mut node = Node::Directory(ROOT);
        for &name in names {
            let Node::Directory(id) = node else {
                return Err(io::ErrorKind::NotADirectory);
            };
            node = self
                .directories
                .get(&id)
                .and_then(|directory| directory.entries.get(name))
                .cloned()
                .ok_or(io::ErrorKind::NotFound)?;
        }
        Ok(node)
    }

    /// Returns the file or directory at a path; `operation` is named in the error.
    pub(super) fn find(&self, path: &Path, operation: &'static str) -> Result<Node> {
        self.walk(&components(path))
            .map_err(|kind| failed(kind, operation, path))
    }

    /// Returns the file at a path; fails with `IsADirectory` for a directory.
    pub(super) fn find_file(
        &self,
        path: &Path,
        operation: &'static str,
    ) -> Result<Arc<MemoryFile>> {
        match self.find(path, operation)? {
            Node::File(file) => Ok(file),
            Node::Directory(_) => Err(failed(io::ErrorKind::IsADirectory, operation, path)),
        }
    }

    /// Returns the id of the directory at a path; fails with `NotADirectory` for a file.
    pub(super) fn find_directory(&self, path: &Path, operation: &'static str) -> Result<u64> {
        match self.find(path, operation)? {
            Node::Directory(id) => Ok(id),
            Node::File(_) => Err(failed(io::ErrorKind::NotADirectory, operation, path)),
        }
    }

    /// Returns the directory and last component of a path, which need not exist.
    pub(super) fn place(&self, path: &Path, operation: &'static str) -> Result<EntryName> {
        let names = components(path);
        let Some((&name, above)) = names.split_last() else {
            return Err(failed(io::ErrorKind::InvalidInput, operation, path));
        };
        match self.walk(above) {
            Ok(Node::Directory(directory)) => Ok(EntryName {
                directory,
                name: name.to_owned(),
            }),
            Ok(Node::File(_)) => Err(failed(io::ErrorKind::NotADirectory, operation, path)),
            Err(kind) => Err(failed(kind, operation, path)),
        }
    }

    /// Applies entry changes atomically and maintains the link counts of files.
    pub(super) fn change_entries(&mut self, changes: Vec<EntryChange>) {
        for change in &changes {
            if let Some(Node::File(file)) = &change.target {
                file.links.fetch_add(1, Ordering::Relaxed);
            }
            let directory = self.directories.entry(change.directory).or_default();
            let before = directory.entries.get(&change.name).cloned();
            change.apply(&mut directory.entries);
            if let Some(Node::File(file)) = before {
                file.links.fetch_sub(1, Ordering::Relaxed);
                self.release_if_gone(&file);
            }
        }
        let sequence = self.sequence();
        self.pending.push(PendingEntries { sequence, changes });
    }

    /// Releases the space of a file if it has no names and no handles.
    pub(super) fn release_if_gone(&mut self, file: &MemoryFile) {
        if file.links.load(Ordering::Relaxed) == 0 && file.handles.load(Ordering::Relaxed) == 0 {
            self.bytes_used = self.bytes_used.saturating_sub(file.read().len());
            self.files_used = self.files_used.saturating_sub(1);
        }
    }

    /// Creates an empty file under a name, within the limit on the number of files.
    pub(super) fn create_file(
        &mut self,
        place: &EntryName,
        path: &Path,
        clock: &dyn Clock,
    ) -> Result<Arc<MemoryFile>> {
        if self
            .file_budget
            .is_some_and(|budget| self.files_used >= budget)
        {
            return Err(failed(io::ErrorKind::StorageFull, "create", path));
        }
        let content = Content {
            modified_unix_secs: clock.unix_micros() / 1_000_000,
            ..Content::default()
        };
        let file = Arc::new(MemoryFile::new(self.id(), content));
        self.files_used += 1;
        self.change_entries(vec![place.to(Some(Node::File(Arc::clone(&file))))]);
        Ok(file)
    }

    /// Makes the entries of the directory `id` durable.
    ///
    /// Older operations on which they depend through a move between directories become durable too.
    pub(super) fn sync_directory(&mut self, id: u64) {
        let mut covered = BTreeSet::from([id]);
        let mut committed = vec![false; self.pending.len()];
        for (index, pending) in self.pending.iter().enumerate().rev() {
            if pending
                .changes
                .iter()
                .any(|change| covered.contains(&change.directory))
            {
                committed[index] = true;
                covered.extend(pending.changes.iter().map(|change| change.directory));
            }
        }
        let pending = std::mem::take(&mut self.pending);
        for (pending, committed) in pending.into_iter().zip(committed) {
            if !committed {
                self.pending.push(pending);
                continue;
            }
            for change in &pending.changes {
                let directory = self.directories.entry(change.directory).or_default();
                change.apply(&mut directory.synced);
            }
        }
    }

    /// Truncates or extends a file to `len` bytes.
    pub(super) fn set_len(
        &mut self,
        file: &MemoryFile,
        path: &Path,
        len: u64,
        now_secs: u64,
    ) -> Result<()> {
        let mut content = file.write();
        let before = content.len();
        if len.saturating_sub(before) > self.free_bytes() {
            return Err(failed(io::ErrorKind::StorageFull, "truncate", path));
        }
        self.bytes_used = self.bytes_used.saturating_sub(before) + len;
        content.change(self.sequence(), Change::SetLen(len));
        content.modified_unix_secs = now_secs;
        Ok(())
    }

    /// Returns the number of bytes that may still be written.
    pub(super) fn free_bytes(&self) -> u64 {
        self.byte_budget
            .unwrap_or(UNLIMITED_BYTES)
            .saturating_sub(self.bytes_used)
    }
}
