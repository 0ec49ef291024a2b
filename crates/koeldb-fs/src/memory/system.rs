//! The in-memory file system: its calls, budgets and crash point.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use koeldb_base::{Buffer, Error, Result};

use super::content::MemoryFile;
use super::crash::{self, SurvivalPolicy};
use super::handle::{Handle, MemoryLock, MemoryRandomAccessFile, MemorySink};
use super::tree::{Directory, Node, TreeState, components, failed};
use crate::aligned::DIRECT_ALIGNMENT;
use crate::clock::{Clock, SystemClock};
use crate::file::{
    DirEntry, EntryKind, FileLock, FileSystem, Metadata, OpenOptions, RandomAccessFile,
    WritableFile, WriteOptions, held_here,
};
use crate::write_buffer::BufferedFile;

/// The device number in [`Metadata::identity`].
const DEVICE: u64 = 0x6b6f_656c;

/// A file system in memory; clones are handles to the same one.
///
/// Relative paths start at the root, which exists; `.` and `..` are resolved textually. Files
/// opened direct report the alignment of real ones but serve any request.
#[derive(Clone)]
pub struct MemoryFileSystem {
    shared: Arc<Shared>,
}

/// The state shared by the clones of a file system.
struct Shared {
    clock: Arc<dyn Clock>,
    /// Whether the simulated machine has crashed; set under the lock, loaded without it.
    crashed: AtomicBool,
    state: Mutex<TreeState>,
}

/// Returns the error of an operation after the crash.
fn crashed(operation: &'static str, path: &Path) -> Error {
    Error::io(
        io::Error::other("the simulated machine has crashed"),
        operation,
        path,
    )
}

impl MemoryFileSystem {
    /// Creates an empty file system with time stamps from the machine's clock.
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(Arc::new(SystemClock))
    }

    /// Creates an empty file system with time stamps from `clock`.
    #[must_use]
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self::with_state(clock, TreeState::new())
    }

    /// Creates a file system with this state of its tree, not crashed.
    fn with_state(clock: Arc<dyn Clock>, state: TreeState) -> Self {
        MemoryFileSystem {
            shared: Arc::new(Shared {
                clock,
                crashed: AtomicBool::new(false),
                state: Mutex::new(state),
            }),
        }
    }

    /// Builds the state that a power cut at this moment would leave, as a separate file system.
    ///
    /// Nothing in it is open or locked, and everything is on disk. The image of an image is a
    /// second crash during recovery.
    ///
    /// With [`SurvivalPolicy::Generous`] this is the state after the death of the process alone.
    #[must_use]
    pub fn crash_image(&self, policy: SurvivalPolicy, seed: u64) -> MemoryFileSystem {
        let image = crash::image(&self.state(), policy, seed);
        Self::with_state(Arc::clone(&self.shared.clock), image)
    }

    /// The number of mutating operations begun so far, including failed ones.
    ///
    /// These are creations, writes that leave a file's buffer, syncs, changes of names, and
    /// truncations.
    #[must_use]
    pub fn operation_count(&self) -> u64 {
        self.state().operations
    }

    /// Arms a crash immediately before mutating operation number `operation`, counted from 1.
    ///
    /// That operation and all later calls fail, including reads. The state before it is kept for
    /// [`MemoryFileSystem::crash_image`].
    pub fn arm_crash(&self, operation: u64) {
        self.state().crash_at = Some(operation);
    }

    /// Whether the armed crash has happened.
    #[must_use]
    pub fn has_crashed(&self) -> bool {
        self.shared.crashed.load(Ordering::Acquire)
    }

    /// Sets a function that is called before every mutating operation, with its number.
    ///
    /// The thread that performs the operation calls it; images taken inside show the state before
    /// the operation. Replaces the previous observer.
    pub fn observe_mutations(
        &self,
        observer: impl Fn(&MemoryFileSystem, u64) + Send + Sync + 'static,
    ) {
        self.state().observer = Some(Arc::new(observer));
    }

    /// Limits the total bytes of all files; a write beyond it writes what fits, and fails.
    ///
    /// It fails with no space.
    pub fn set_byte_budget(&self, bytes: Option<u64>) {
        self.state().byte_budget = bytes;
    }

    /// Limits the number of files; further creations fail with no space.
    pub fn set_file_budget(&self, files: Option<u64>) {
        self.state().file_budget = files;
    }

    /// The total bytes of all files that have a name or are open.
    #[must_use]
    pub fn bytes_used(&self) -> u64 {
        self.state().bytes_used
    }

    /// Locks the state of the file system.
    pub(super) fn state(&self) -> MutexGuard<'_, TreeState> {
        self.shared
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails if the simulated machine has crashed.
    pub(super) fn check(&self, operation: &'static str, path: &Path) -> Result<()> {
        if self.has_crashed() {
            return Err(crashed(operation, path));
        }
        Ok(())
    }

    /// Locks the state for an operation that changes nothing; fails after the crash.
    fn inspect(&self, operation: &'static str, path: &Path) -> Result<MutexGuard<'_, TreeState>> {
        let state = self.state();
        self.check(operation, path)?;
        Ok(state)
    }

    /// Locks the state and counts a mutating operation; fails if the machine crashes at it.
    pub(super) fn mutate(
        &self,
        operation: &'static str,
        path: &Path,
    ) -> Result<MutexGuard<'_, TreeState>> {
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

    /// Creates a handle of an open file, which is counted as open until the handle is dropped.
    pub(super) fn handle(&self, file: Arc<MemoryFile>) -> Handle {
        file.handles.fetch_add(1, Ordering::Relaxed);
        Handle {
            system: self.clone(),
            file,
        }
    }

    /// Creates a buffered writer that appends to a file.
    fn writer(
        &self,
        file: Arc<MemoryFile>,
        path: &Path,
        options: &WriteOptions,
    ) -> Box<dyn WritableFile> {
        let written = file.read().len();
        let sink = MemorySink {
            written,
            handle: self.handle(file),
            path: path.to_owned(),
            former_len: 0,
        };
        Box::new(BufferedFile::new(sink, options.buffer_bytes))
    }

    /// Truncates or extends a file to `len` bytes.
    pub(super) fn set_len(&self, file: &MemoryFile, path: &Path, len: u64) -> Result<()> {
        self.mutate("truncate", path)?
            .set_len(file, path, len, self.now_secs())
    }

    /// Returns the Unix time in seconds, by the file system's clock.
    pub(super) fn now_secs(&self) -> u64 {
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

    fn reuse(
        &self,
        from: &Path,
        to: &Path,
        options: &WriteOptions,
    ) -> Result<Box<dyn WritableFile>> {
        let file = self.inspect("open", from)?.find_file(from, "open")?;
        self.rename_new(from, to)?;
        let former_len = file.read().len();
        let sink = MemorySink {
            former_len,
            handle: self.handle(file),
            path: to.to_owned(),
            written: 0,
        };
        Ok(Box::new(BufferedFile::new(sink, options.buffer_bytes)))
    }

    fn open(&self, path: &Path, options: &OpenOptions) -> Result<Arc<dyn RandomAccessFile>> {
        if options.direct && options.mmap {
            return Err(Error::invalid_argument(
                "direct and mapped reads of one file exclude each other",
            ));
        }
        let state = self.inspect("open", path)?;
        let file = state.find_file(path, "open")?;
        let content = file.read();
        let mapped = options
            .mmap
            .then(|| Arc::new(Buffer::from_vec(content.bytes.to_vec())));
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
        // The new name comes first: a file without a name would count as gone.
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
            return Err(held_here(path));
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
                    links: file.links.load(Ordering::Relaxed),
                }
            }
            Node::Directory(id) => Metadata {
                kind: EntryKind::Directory,
                len: 0,
                identity: (DEVICE, id),
                modified_unix_secs: 0,
                links: 1,
            },
        })
    }

    fn truncate(&self, path: &Path, len: u64) -> Result<()> {
        let mut state = self.mutate("truncate", path)?;
        let file = state.find_file(path, "truncate")?;
        state.set_len(&file, path, len, self.now_secs())
    }

    fn free_space(&self, path: &Path) -> Result<u64> {
        Ok(self.inspect("free space", path)?.free_bytes())
    }
}
