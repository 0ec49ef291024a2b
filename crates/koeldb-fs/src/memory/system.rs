//! The file system: its tree, its handles, its budget and its crash point.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use koeldb_base::coding::to_usize;
use koeldb_base::error::ErrorDetail;
use koeldb_base::{Buffer, Error, ErrorKind, Result};

use super::content::{Change, Content, MemoryFile};
use super::crash::{self, SurvivalPolicy};
use crate::aligned::DIRECT_ALIGNMENT;
use crate::clock::{Clock, SystemClock};
use crate::file::{
    DirEntry, EntryKind, FileLock, FileSystem, Metadata, OpenOptions, RandomAccessFile,
    WritableFile, WriteOptions,
};
use crate::write_buffer::WriteBuffer;

/// The identity of the root directory, which always exists.
pub(super) const ROOT: u64 = 1;

/// The device in [`Metadata::identity`].
const DEVICE: u64 = 0x6b6f_656c;

/// What is said to be free where there is no budget.
const UNLIMITED_BYTES: u64 = 1 << 50;

/// Called with the file system and the number of the mutating operation that is about to happen.
type Observer = Arc<dyn Fn(&MemoryFileSystem, u64) + Send + Sync>;

/// A file system in memory; clones are handles of one.
///
/// Relative paths start at the root, which exists; `.` and `..` are resolved in the text. Opened direct, files ask
/// for the alignment that real ones do but serve any request.
#[derive(Clone)]
pub struct MemoryFileSystem {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Arc<dyn Clock>,
    /// Read without the lock by readers; set under it.
    crashed: AtomicBool,
    state: Mutex<State>,
}

/// Everything but the bytes of files.
pub(super) struct State {
    pub(super) directories: BTreeMap<u64, Directory>,
    /// Entry changes that no directory sync has covered, oldest first.
    pub(super) pending: Vec<PendingEntries>,
    pub(super) next_id: u64,
    /// Numbers pending changes of files and directories in one order.
    next_sequence: u64,
    /// Mutating operations begun.
    operations: u64,
    crash_at: Option<u64>,
    observer: Option<Observer>,
    locks: BTreeSet<u64>,
    pub(super) byte_budget: Option<u64>,
    pub(super) bytes_used: u64,
    pub(super) file_budget: Option<u64>,
    pub(super) files_used: u64,
}

#[derive(Clone, Debug)]
pub(super) enum Node {
    File(Arc<MemoryFile>),
    Directory(u64),
}

impl Node {
    fn id(&self) -> u64 {
        match self {
            Node::File(file) => file.id,
            Node::Directory(id) => *id,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Directory {
    /// What is seen.
    pub(super) entries: BTreeMap<OsString, Node>,
    /// What a power cut leaves for certain.
    pub(super) synced: BTreeMap<OsString, Node>,
}

/// One operation on entries: it survives a crash as a whole or not at all, even over two directories.
#[derive(Debug)]
pub(super) struct PendingEntries {
    pub(super) sequence: u64,
    pub(super) changes: Vec<EntryChange>,
}

/// One name in one directory refers to something else, or to nothing.
#[derive(Clone, Debug)]
pub(super) struct EntryChange {
    pub(super) directory: u64,
    pub(super) name: OsString,
    pub(super) target: Option<Node>,
}

impl EntryChange {
    pub(super) fn apply(&self, entries: &mut BTreeMap<OsString, Node>) {
        match &self.target {
            Some(node) => entries.insert(self.name.clone(), node.clone()),
            None => entries.remove(&self.name),
        };
    }
}

/// A name's place: its directory and the last component.
struct Place {
    directory: u64,
    name: OsString,
}

impl Place {
    fn to(&self, target: Option<Node>) -> EntryChange {
        EntryChange {
            directory: self.directory,
            name: self.name.clone(),
            target,
        }
    }
}

fn failed(kind: io::ErrorKind, operation: &'static str, path: &Path) -> Error {
    Error::io(io::Error::from(kind), operation, path)
}

fn crashed(operation: &'static str, path: &Path) -> Error {
    Error::io(
        io::Error::other("the simulated machine has crashed"),
        operation,
        path,
    )
}

fn components(path: &Path) -> Vec<&OsStr> {
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

impl State {
    pub(super) fn new() -> Self {
        State {
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

    fn sequence(&mut self) -> u64 {
        self.next_sequence += 1;
        self.next_sequence
    }

    fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    fn entry(&self, place: &Place) -> Option<&Node> {
        self.directories
            .get(&place.directory)?
            .entries
            .get(&place.name)
    }

    fn walk(&self, names: &[&OsStr]) -> Result<Node, io::ErrorKind> {
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

    fn find(&self, path: &Path, operation: &'static str) -> Result<Node> {
        self.walk(&components(path))
            .map_err(|kind| failed(kind, operation, path))
    }

    fn find_file(&self, path: &Path, operation: &'static str) -> Result<Arc<MemoryFile>> {
        match self.find(path, operation)? {
            Node::File(file) => Ok(file),
            Node::Directory(_) => Err(failed(io::ErrorKind::IsADirectory, operation, path)),
        }
    }

    fn find_directory(&self, path: &Path, operation: &'static str) -> Result<u64> {
        match self.find(path, operation)? {
            Node::Directory(id) => Ok(id),
            Node::File(_) => Err(failed(io::ErrorKind::NotADirectory, operation, path)),
        }
    }

    /// Where a path's last component is or would be.
    fn place(&self, path: &Path, operation: &'static str) -> Result<Place> {
        let names = components(path);
        let Some((&name, above)) = names.split_last() else {
            return Err(failed(io::ErrorKind::InvalidInput, operation, path));
        };
        match self.walk(above) {
            Ok(Node::Directory(directory)) => Ok(Place {
                directory,
                name: name.to_owned(),
            }),
            Ok(Node::File(_)) => Err(failed(io::ErrorKind::NotADirectory, operation, path)),
            Err(kind) => Err(failed(kind, operation, path)),
        }
    }

    /// Changes entries in one step and keeps count of the names of files.
    fn change_entries(&mut self, changes: Vec<EntryChange>) {
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

    /// Gives back the space of a file that has neither names nor handles.
    fn release_if_gone(&mut self, file: &MemoryFile) {
        if file.links.load(Ordering::Relaxed) == 0 && file.handles.load(Ordering::Relaxed) == 0 {
            self.bytes_used = self.bytes_used.saturating_sub(file.read().len());
            self.files_used = self.files_used.saturating_sub(1);
        }
    }

    fn create_file(
        &mut self,
        place: &Place,
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

    /// Makes the entries of `id` durable, and with them every older operation that those depend on through a
    /// move from or to another directory.
    fn sync_directory(&mut self, id: u64) {
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
}

impl MemoryFileSystem {
    /// An empty file system with the machine's clock for its time stamps.
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(Arc::new(SystemClock))
    }

    /// An empty file system that takes its time stamps from `clock`.
    #[must_use]
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self::with_state(clock, State::new())
    }

    fn with_state(clock: Arc<dyn Clock>, state: State) -> Self {
        MemoryFileSystem {
            shared: Arc::new(Shared {
                clock,
                crashed: AtomicBool::new(false),
                state: Mutex::new(state),
            }),
        }
    }

    /// What a power cut at this moment would leave, as a file system of its own: nothing open, nothing locked,
    /// everything on disk. The image of an image is a second crash during recovery.
    ///
    /// With [`SurvivalPolicy::Generous`] this is what the death of the process alone leaves.
    #[must_use]
    pub fn crash_image(&self, policy: SurvivalPolicy, seed: u64) -> MemoryFileSystem {
        let image = crash::image(&self.state(), policy, seed);
        Self::with_state(Arc::clone(&self.shared.clock), image)
    }

    /// The number of mutating operations begun so far, those that failed included: creations, writes that leave a
    /// file's buffer, syncs, changes of names, truncations.
    #[must_use]
    pub fn operation_count(&self) -> u64 {
        self.state().operations
    }

    /// Crashes the machine when mutating operation number `operation` (the first ever is 1) is about to happen: it
    /// and everything after it fails, reads too. What was there before it is kept for
    /// [`MemoryFileSystem::crash_image`].
    pub fn arm_crash(&self, operation: u64) {
        self.state().crash_at = Some(operation);
    }

    /// Whether the crash that was armed has happened.
    #[must_use]
    pub fn has_crashed(&self) -> bool {
        self.shared.crashed.load(Ordering::Acquire)
    }

    /// Has `observer` called before every mutating operation, with its number, by the thread that makes it; images
    /// taken inside show the moment before. Replaces the one set before.
    pub fn observe_mutations(
        &self,
        observer: impl Fn(&MemoryFileSystem, u64) + Send + Sync + 'static,
    ) {
        self.state().observer = Some(Arc::new(observer));
    }

    /// Limits the bytes of all files together; writes beyond fail for want of space after what fits was written.
    pub fn set_byte_budget(&self, bytes: Option<u64>) {
        self.state().byte_budget = bytes;
    }

    /// Limits the number of files; creations beyond fail for want of space.
    pub fn set_file_budget(&self, files: Option<u64>) {
        self.state().file_budget = files;
    }

    /// The bytes of all files that have a name or are open.
    #[must_use]
    pub fn bytes_used(&self) -> u64 {
        self.state().bytes_used
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self, operation: &'static str, path: &Path) -> Result<()> {
        if self.has_crashed() {
            return Err(crashed(operation, path));
        }
        Ok(())
    }

    fn inspect(&self, operation: &'static str, path: &Path) -> Result<MutexGuard<'_, State>> {
        let state = self.state();
        self.check(operation, path)?;
        Ok(state)
    }

    /// Counts a mutating operation, unless the machine crashes at it.
    fn mutate(&self, operation: &'static str, path: &Path) -> Result<MutexGuard<'_, State>> {
        let mut state = self.inspect(operation, path)?;
        if state
            .crash_at
            .is_some_and(|crash_at| state.operations + 1 >= crash_at)
        {
            self.shared.crashed.store(true, Ordering::Release);
            return Err(crashed(operation, path));
        }
        state.operations += 1;
        let number = state.operations;
        let Some(observer) = state.observer.clone() else {
            return Ok(state);
        };
        drop(state);
        observer(self, number);
        self.inspect(operation, path)
    }

    fn handle(&self, file: Arc<MemoryFile>) -> Handle {
        file.handles.fetch_add(1, Ordering::Relaxed);
        Handle {
            system: self.clone(),
            file,
        }
    }

    fn writer(
        &self,
        file: Arc<MemoryFile>,
        path: &Path,
        options: &WriteOptions,
    ) -> Box<dyn WritableFile> {
        let written = file.read().len();
        Box::new(MemoryWritableFile {
            buffer: WriteBuffer::new(options.buffer_bytes),
            sink: Sink {
                handle: self.handle(file),
                path: path.to_owned(),
                written,
                failure: None,
            },
            closed: false,
        })
    }

    fn now_secs(&self) -> u64 {
        self.shared.clock.unix_micros() / 1_000_000
    }
}

impl Default for MemoryFileSystem {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryFileSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("MemoryFileSystem")
            .field("files", &state.files_used)
            .field("bytes", &state.bytes_used)
            .field("operations", &state.operations)
            .finish_non_exhaustive()
    }
}

impl FileSystem for MemoryFileSystem {
    fn create(&self, path: &Path, options: &WriteOptions) -> Result<Box<dyn WritableFile>> {
        let mut state = self.mutate("create", path)?;
        let place = state.place(path, "create")?;
        if state.entry(&place).is_some() {
            return Err(failed(io::ErrorKind::AlreadyExists, "create", path));
        }
        let file = state.create_file(&place, path, &*self.shared.clock)?;
        Ok(self.writer(file, path, options))
    }

    fn append(&self, path: &Path, options: &WriteOptions) -> Result<Box<dyn WritableFile>> {
        let state = self.inspect("open", path)?;
        let file = state.find_file(path, "open")?;
        Ok(self.writer(file, path, options))
    }

    fn open(&self, path: &Path, options: &OpenOptions) -> Result<Arc<dyn RandomAccessFile>> {
        if options.direct && options.mmap {
            return Err(Error::invalid_argument(
                "a file is opened direct or mapped, not both",
            ));
        }
        let state = self.inspect("open", path)?;
        let file = state.find_file(path, "open")?;
        let content = file.read();
        let mapped = options
            .mmap
            .then(|| Arc::new(Buffer::from_vec(content.bytes.clone())));
        let len = content.len();
        drop(content);
        Ok(Arc::new(MemoryRandomAccessFile {
            handle: self.handle(file),
            path: path.to_owned(),
            len,
            mapped,
            alignment: if options.direct { DIRECT_ALIGNMENT } else { 1 },
        }))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let mut state = self.mutate("rename", from)?;
        let source = state.place(from, "rename")?;
        let target = state.place(to, "rename")?;
        let Some(node) = state.entry(&source).cloned() else {
            return Err(failed(io::ErrorKind::NotFound, "rename", from));
        };
        match (&node, state.entry(&target)) {
            (_, Some(existing)) if existing.id() == node.id() => return Ok(()),
            (Node::File(_), Some(Node::Directory(_))) => {
                return Err(failed(io::ErrorKind::IsADirectory, "rename", to));
            }
            (Node::Directory(_), Some(Node::File(_))) => {
                return Err(failed(io::ErrorKind::NotADirectory, "rename", to));
            }
            (Node::Directory(_), Some(Node::Directory(existing)))
                if state
                    .directories
                    .get(existing)
                    .is_some_and(|existing| !existing.entries.is_empty()) =>
            {
                return Err(failed(io::ErrorKind::DirectoryNotEmpty, "rename", to));
            }
            (Node::Directory(_), _) if components(to).starts_with(&components(from)) => {
                return Err(failed(io::ErrorKind::InvalidInput, "rename", to));
            }
            _ => {}
        }
        // The new name first: a file that has no name for a moment would count as gone.
        let changes = vec![target.to(Some(node)), source.to(None)];
        state.change_entries(changes);
        Ok(())
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        let mut state = self.mutate("link", from)?;
        let file = state.find_file(from, "link")?;
        let target = state.place(to, "link")?;
        if state.entry(&target).is_some() {
            return Err(failed(io::ErrorKind::AlreadyExists, "link", to));
        }
        let change = target.to(Some(Node::File(file)));
        state.change_entries(vec![change]);
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> Result<()> {
        let mut state = self.mutate("remove", path)?;
        state.find_file(path, "remove")?;
        let place = state.place(path, "remove")?;
        state.change_entries(vec![place.to(None)]);
        Ok(())
    }

    fn create_dir_all(&self, path: &Path) -> Result<()> {
        let names = components(path);
        for depth in 1..=names.len() {
            let names = &names[..depth];
            let at: PathBuf = names.iter().collect();
            let found = self.inspect("create directory", path)?.walk(names);
            match found {
                Ok(Node::Directory(_)) => continue,
                Ok(Node::File(_)) => {
                    return Err(failed(
                        io::ErrorKind::AlreadyExists,
                        "create directory",
                        path,
                    ));
                }
                Err(io::ErrorKind::NotFound) => {}
                Err(kind) => return Err(failed(kind, "create directory", path)),
            }
            let mut state = self.mutate("create directory", path)?;
            let place = state.place(&at, "create directory")?;
            if state.entry(&place).is_some() {
                continue;
            }
            let id = state.id();
            state.directories.insert(id, Directory::default());
            state.change_entries(vec![place.to(Some(Node::Directory(id)))]);
        }
        Ok(())
    }

    fn remove_dir(&self, path: &Path) -> Result<()> {
        let mut state = self.mutate("remove directory", path)?;
        let place = state.place(path, "remove directory")?;
        let id = state.find_directory(path, "remove directory")?;
        if state
            .directories
            .get(&id)
            .is_some_and(|directory| !directory.entries.is_empty())
        {
            return Err(failed(
                io::ErrorKind::DirectoryNotEmpty,
                "remove directory",
                path,
            ));
        }
        state.change_entries(vec![place.to(None)]);
        Ok(())
    }

    fn list(&self, path: &Path) -> Result<Vec<DirEntry>> {
        let state = self.inspect("list", path)?;
        let id = state.find_directory(path, "list")?;
        let entries = state.directories.get(&id).map(|found| &found.entries);
        Ok(entries
            .into_iter()
            .flatten()
            .filter_map(|(name, node)| {
                Some(DirEntry {
                    name: name.to_str()?.to_owned(),
                    kind: match node {
                        Node::File(_) => EntryKind::File,
                        Node::Directory(_) => EntryKind::Directory,
                    },
                })
            })
            .collect())
    }

    fn sync_dir(&self, path: &Path) -> Result<()> {
        let mut state = self.mutate("sync directory", path)?;
        let id = state.find_directory(path, "sync directory")?;
        state.sync_directory(id);
        Ok(())
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        let found = self
            .inspect("lock", path)?
            .walk(&components(path))
            .map(|node| node.id());
        let (mut state, id) = match found {
            Ok(id) => (self.inspect("lock", path)?, id),
            Err(io::ErrorKind::NotFound) => {
                let mut state = self.mutate("lock", path)?;
                let place = state.place(path, "lock")?;
                let id = match state.entry(&place) {
                    Some(node) => node.id(),
                    None => state.create_file(&place, path, &*self.shared.clock)?.id,
                };
                (state, id)
            }
            Err(kind) => return Err(failed(kind, "lock", path)),
        };
        if !state.locks.insert(id) {
            return Err(
                Error::with_kind(ErrorKind::IoError, "the lock is held by this process")
                    .with_detail(ErrorDetail::LockHeld)
                    .in_file(path, None, "lock"),
            );
        }
        drop(state);
        Ok(Box::new(MemoryLock {
            system: self.clone(),
            id,
        }))
    }

    fn metadata(&self, path: &Path) -> Result<Metadata> {
        let state = self.inspect("stat", path)?;
        Ok(match state.find(path, "stat")? {
            Node::File(file) => {
                let content = file.read();
                Metadata {
                    kind: EntryKind::File,
                    len: content.len(),
                    identity: (DEVICE, file.id),
                    modified_unix_secs: content.modified_unix_secs,
                }
            }
            Node::Directory(id) => Metadata {
                kind: EntryKind::Directory,
                len: 0,
                identity: (DEVICE, id),
                modified_unix_secs: 0,
            },
        })
    }

    fn truncate(&self, path: &Path, len: u64) -> Result<()> {
        let mut state = self.mutate("truncate", path)?;
        let file = state.find_file(path, "truncate")?;
        let mut content = file.write();
        let before = content.len();
        let growth = len.saturating_sub(before);
        if growth > state.free_bytes() {
            return Err(failed(io::ErrorKind::StorageFull, "truncate", path));
        }
        state.bytes_used = state.bytes_used.saturating_sub(before) + len;
        let sequence = state.sequence();
        content.change(sequence, Change::SetLen(len));
        content.modified_unix_secs = self.now_secs();
        Ok(())
    }

    fn free_space(&self, path: &Path) -> Result<u64> {
        Ok(self.inspect("free space", path)?.free_bytes())
    }
}

impl State {
    fn free_bytes(&self) -> u64 {
        self.byte_budget
            .unwrap_or(UNLIMITED_BYTES)
            .saturating_sub(self.bytes_used)
    }
}

/// An open file: keeps the space of an unlinked one from being given back.
#[derive(Debug)]
struct Handle {
    system: MemoryFileSystem,
    file: Arc<MemoryFile>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut state = self.system.state();
        self.file.handles.fetch_sub(1, Ordering::Relaxed);
        state.release_if_gone(&self.file);
    }
}

#[derive(Debug)]
struct MemoryRandomAccessFile {
    handle: Handle,
    path: PathBuf,
    len: u64,
    mapped: Option<Arc<Buffer>>,
    alignment: usize,
}

impl RandomAccessFile for MemoryRandomAccessFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.handle.system.check("read", &self.path)?;
        let content = self.handle.file.read();
        let rest = content.bytes.get(to_usize(offset)..).unwrap_or(&[]);
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn mapped(&self) -> Option<&Arc<Buffer>> {
        self.mapped.as_ref()
    }

    fn alignment(&self) -> usize {
        self.alignment
    }
}

#[derive(Debug)]
struct MemoryWritableFile {
    buffer: WriteBuffer,
    sink: Sink,
    closed: bool,
}

/// The far side of the buffer.
#[derive(Debug)]
struct Sink {
    handle: Handle,
    path: PathBuf,
    written: u64,
    /// The first failure, which is the answer to everything after it.
    failure: Option<Error>,
}

impl Sink {
    fn check(&self) -> Result<()> {
        match &self.failure {
            None => Ok(()),
            Some(error) => Err(error.clone()),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let result = self.try_write(bytes);
        if let Err(error) = &result {
            self.failure = Some(error.clone());
        }
        result
    }

    fn try_write(&mut self, bytes: &[u8]) -> Result<()> {
        let system = &self.handle.system;
        let mut state = system.mutate("write", &self.path)?;
        let mut content = self.handle.file.write();
        let end = self.written + bytes.len() as u64;
        let beyond = end
            .saturating_sub(content.len())
            .saturating_sub(state.free_bytes());
        let (fits, rest) = bytes.split_at(to_usize((bytes.len() as u64).saturating_sub(beyond)));
        let before = content.len();
        let sequence = state.sequence();
        content.change(
            sequence,
            Change::Write {
                offset: self.written,
                bytes: fits.to_vec(),
            },
        );
        content.modified_unix_secs = system.now_secs();
        self.written += fits.len() as u64;
        state.bytes_used += content.len() - before;
        if rest.is_empty() {
            Ok(())
        } else {
            Err(failed(io::ErrorKind::StorageFull, "write", &self.path))
        }
    }

    fn sync(&mut self) -> Result<()> {
        match self.handle.system.mutate("sync", &self.path) {
            Ok(_state) => {
                self.handle.file.write().sync();
                Ok(())
            }
            Err(error) => {
                self.failure = Some(error.clone());
                Err(error)
            }
        }
    }
}

impl WritableFile for MemoryWritableFile {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.sink.check()?;
        self.buffer.append(bytes, |bytes| self.sink.write(bytes))
    }

    fn flush(&mut self) -> Result<()> {
        self.sink.check()?;
        self.buffer.flush(|bytes| self.sink.write(bytes))
    }

    fn sync_data(&mut self) -> Result<()> {
        self.flush()?;
        self.sink.sync()
    }

    fn sync_all(&mut self) -> Result<()> {
        self.sync_data()
    }

    fn len(&self) -> u64 {
        self.sink.written + self.buffer.len()
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        self.closed = true;
        self.flush()
    }
}

impl Drop for MemoryWritableFile {
    fn drop(&mut self) {
        if !self.closed {
            let _ = self.flush();
        }
    }
}

#[derive(Debug)]
struct MemoryLock {
    system: MemoryFileSystem,
    id: u64,
}

impl FileLock for MemoryLock {}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        self.system.state().locks.remove(&self.id);
    }
}
