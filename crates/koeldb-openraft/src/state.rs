//! The replicated state of a group: a database without a log of its own.
//!
//! ```text
//! STATE               the name of the directory of the current state
//! state-NNNNNN/       a database; others than the current one are left over from a crash
//! snapshots/NNNNNN/   checkpoints; the newest one counts
//! ```
//!
//! The applied position is a reserved key of the only column family, written in the batch of the
//! entries. Memtables are flushed in order, so whatever a crash or a checkpoint keeps is the effect
//! of a prefix of the log, and names its own end.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use koeldb::fs::FileSystem;
use koeldb::fs::file::Purpose;
use koeldb::fs::small_file::{create_dir_durably, remove_dir_all, write_atomically};
use koeldb::{
    CheckpointOptions, CompactionStyle, Db, Env, Error, ErrorKind, FlushPolicy, Options, Result,
    WriteBatchWithIndex, WriteOptions,
};

use crate::application::StateBatch;
use crate::logs::refuse_wal_dir;
use crate::snapshot::{SnapshotDir, discard};

/// The reserved key of the applied position. Writes of applications to it have no effect.
pub const APPLIED_KEY: &[u8] = b"\0koeldb.raft.applied";

/// The file with the name of the current state's directory, like `CURRENT` of a database.
const POINTER: &str = "STATE";

/// The replicated state of a Raft group: a database written without WAL, and its newest snapshot.
///
/// Clones are handles to the same one.
#[derive(Clone)]
pub struct StateStore {
    shared: Arc<Shared>,
}

/// The parts that all clones of a [`StateStore`] share.
struct Shared {
    options: Options,
    fs: Arc<dyn FileSystem>,
    directory: PathBuf,
    has_threads: bool,
    current: Mutex<Current>,
    /// Whether the state is closed. Snapshots are built and installed under a shared lock.
    is_closed: RwLock<bool>,
}

/// The mutable part of a [`StateStore`]: the open database, the newest snapshot and counters.
struct Current {
    db: Db,
    snapshot: Option<SnapshotDir>,
    /// The number of the next state or snapshot.
    next: u64,
    /// The number of installed snapshots.
    installs: u64,
    /// The first failed write: what came after it is missing.
    failure: Option<Error>,
}

impl StateStore {
    /// Opens the state store in `directory`, which is created if it does not exist.
    ///
    /// The environment of `options` is replaced by `env`; databases of many groups share files,
    /// threads, cache and memory by sharing it.
    ///
    /// # Errors
    /// `InvalidArgument` if `options` has a setting with which the state would lose its applied
    /// position or entries that were applied: `wal_dir`, a compaction filter, FIFO compaction.
    /// `Corruption` if
    /// `STATE` is missing or names no directory, beside states that it could name; errors of
    /// [`Db::open`].
    pub fn open(env: &Env, options: &Options, directory: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(env, options, directory.as_ref(), true)
    }

    /// Opens the state for a simulation: state machines build and install snapshots in the calling
    /// thread.
    ///
    /// # Errors
    /// See [`StateStore::open`].
    pub fn open_without_threads(
        env: &Env,
        options: &Options,
        directory: impl AsRef<Path>,
    ) -> Result<Self> {
        Self::open_with(env, options, directory.as_ref(), false)
    }

    /// Opens the state store; with `has_threads`, state machines leave long work to other threads.
    fn open_with(
        env: &Env,
        options: &Options,
        directory: &Path,
        has_threads: bool,
    ) -> Result<Self> {
        refuse_wal_dir(options)?;
        let lossy = match () {
            () if options.get_compaction_filter_factory().is_some() => "compaction_filter_factory",
            () if options.get_compaction_style() == CompactionStyle::Fifo => "FIFO compaction",
            () => "",
        };
        if !lossy.is_empty() {
            return Err(Error::invalid_argument(format!(
                "{lossy} would remove the applied position from a replicated state"
            )));
        }
        let fs = Arc::clone(env.file_system());
        let directory = fs.absolute(directory)?;
        let mut options = options.clone();
        options.set_env(env).create_if_missing(false);
        create_dir_durably(&*fs, &directory.join("snapshots"))?;

        let path = match read_pointer(&*fs, &directory)? {
            Some(name) => directory.join(name),
            None => create(&fs, &options, &directory)?,
        };
        let db = Db::open(&options, &path)?;
        // A process that died may have left renames that are not durable. What they replaced is
        // removed now, and the log relies on what they made.
        fs.sync_dir(&directory)?;
        fs.sync_dir(&directory.join("snapshots"))?;
        let (newest, mut last) = remove_leftovers(&*fs, &directory, &path)?;
        last = last.max(number_in(&path));
        let snapshot = match newest {
            None => None,
            Some(path) => {
                let applied = read_applied(&options, &path)?;
                Some(SnapshotDir::new(&fs, &path, applied))
            }
        };
        let current = Mutex::new(Current {
            db,
            snapshot,
            next: last + 1,
            installs: 0,
            failure: None,
        });
        Ok(StateStore {
            shared: Arc::new(Shared {
                options,
                fs,
                directory,
                has_threads,
                current,
                is_closed: RwLock::new(false),
            }),
        })
    }

    /// Returns whether state machines leave long work to other threads.
    pub(crate) fn has_threads(&self) -> bool {
        self.shared.has_threads
    }

    /// Locks the mutex of the open database and the newest snapshot.
    fn current(&self) -> MutexGuard<'_, Current> {
        let current = self.shared.current.lock();
        current.unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the state, after snapshots that are being built or installed; both fail from then on.
    ///
    /// Only then may the directory be opened again.
    ///
    /// # Errors
    /// Errors of [`Db::close`].
    pub fn close(&self) -> Result<()> {
        let is_closed = self.shared.is_closed.write();
        *is_closed.unwrap_or_else(PoisonError::into_inner) = true;
        self.db().close()
    }

    /// Keeps the state open as long as the guard lives; fails if it is closed.
    fn stay_open(&self) -> Result<RwLockReadGuard<'_, bool>> {
        let is_closed = self.shared.is_closed.read();
        let is_closed = is_closed.unwrap_or_else(PoisonError::into_inner);
        match *is_closed {
            false => Ok(is_closed),
            true => Err(Error::with_kind(
                ErrorKind::Aborted,
                "the replicated state is closed",
            )),
        }
    }

    /// Returns the database with the current state, for reads.
    ///
    /// It is closed when a snapshot is installed, so it is to be asked for anew by each read.
    #[must_use]
    pub fn db(&self) -> Db {
        self.current().db.clone()
    }

    /// Returns the directory of the state, its snapshots, and snapshots being received.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.shared.directory
    }

    /// Returns the file system of the state.
    #[cfg_attr(not(feature = "grpc"), expect(dead_code, reason = "for transports"))]
    pub(crate) fn file_system(&self) -> &Arc<dyn FileSystem> {
        &self.shared.fs
    }

    /// Creates an empty [`StateBatch`] over the current state.
    #[must_use]
    pub fn batch(&self) -> StateBatch {
        StateBatch {
            db: self.db(),
            batch: WriteBatchWithIndex::new(true),
        }
    }

    /// Writes a batch without WAL, together with `applied`, the encoded position of its last entry.
    ///
    /// # Errors
    /// If the write or an earlier one failed.
    pub fn write(&self, mut batch: StateBatch, applied: &[u8]) -> Result<()> {
        if let Some(failure) = &self.current().failure {
            return Err(failure.clone());
        }
        batch.put(APPLIED_KEY, applied);
        let mut options = WriteOptions::new();
        options.disable_wal(true);
        let written = batch.db.write_opt(&batch.batch.into_batch(), &options);
        written.inspect_err(|error| self.current().failure = Some(error.clone()))
    }

    /// Reads the encoded applied position, of the last applied entry; `None` if none was applied.
    ///
    /// # Errors
    /// Errors of the read.
    pub fn applied(&self) -> Result<Option<Vec<u8>>> {
        let applied = self.db().get(APPLIED_KEY)?;
        Ok(applied.map(|applied| applied.to_vec()))
    }

    /// Returns the newest snapshot; `None` if none has been built or installed.
    #[must_use]
    pub fn current_snapshot(&self) -> Option<SnapshotDir> {
        self.current().snapshot.clone()
    }

    /// Builds a snapshot: flushes the state and makes a checkpoint, while writes go on.
    ///
    /// `None` if nothing has been applied yet. If a snapshot is installed meanwhile, that one, which
    /// is newer, is returned.
    ///
    /// # Errors
    /// If a write has failed, or the flush or the checkpoint fails.
    pub fn build_snapshot(&self) -> Result<Option<SnapshotDir>> {
        let _open = self.stay_open()?;
        let (db, path, installs) = {
            let mut current = self.current();
            if let Some(failure) = &current.failure {
                return Err(failure.clone());
            }
            let path = self.snapshot_path(&mut current);
            (current.db.clone(), path, current.installs)
        };
        let built = self.checkpoint(&db, &path);
        let mut current = self.current();
        if current.installs != installs {
            // The database that was read is superseded, and closed: its errors mean nothing.
            let newest = current.snapshot.clone();
            drop(current);
            drop(built);
            let _ = discard(&*self.shared.fs, &path);
            return Ok(newest);
        }
        let old = match &built {
            Ok(Some(built)) => replace_snapshot(&mut current, built),
            _ => None,
        };
        // The last handle removes files.
        drop(current);
        drop(old);
        built
    }

    /// Creates a checkpoint of `db` at `path`; `None` if no entry has been applied to `db`.
    fn checkpoint(&self, db: &Db, path: &Path) -> Result<Option<SnapshotDir>> {
        if db.get(APPLIED_KEY)?.is_none() {
            return Ok(None);
        }
        let mut options = CheckpointOptions::new();
        // Tables are linked; the rest is too small for threads.
        options.set_flush(FlushPolicy::Always).set_threads(1);
        db.create_checkpoint_opt(path, &options)?;
        let applied = read_applied(&self.shared.options, path)?;
        Ok(Some(SnapshotDir::new(&self.shared.fs, path, applied)))
    }

    /// Replaces the state by a received snapshot, which also becomes the newest snapshot.
    ///
    /// `expected` is the applied position that it must have.
    ///
    /// A crash leaves the old state or the new one.
    ///
    /// # Errors
    /// `Corruption` if a file differs from the snapshot's list or the position from `expected`;
    /// errors of the file system. The old state remains then. If the pointer to the new state cannot
    /// be written, a crash leaves either, and later writes fail.
    pub fn install_snapshot(&self, snapshot: &SnapshotDir, expected: &[u8]) -> Result<()> {
        let _open = self.stay_open()?;
        let fs = &self.shared.fs;
        let (own, state) = {
            let mut current = self.current();
            let own = self.snapshot_path(&mut current);
            (own, state_path(&self.shared.directory, current.next - 1))
        };
        let prepared = self.prepare(snapshot, &own, &state, expected);
        let (own, db) = prepared.inspect_err(|_| {
            let _ = discard(&**fs, &own);
            for path in [&own.with_extension("tmp"), &state] {
                let _ = remove_dir_all(&**fs, path);
            }
        })?;
        let pointed = point_to(&**fs, &self.shared.directory, &state);
        pointed.inspect_err(|error| self.current().failure = Some(error.clone()))?;

        let (old, old_snapshot) = {
            let mut current = self.current();
            current.installs += 1;
            current.failure = None;
            let old_snapshot = replace_snapshot(&mut current, &own);
            (std::mem::replace(&mut current.db, db), old_snapshot)
        };
        drop(old_snapshot);
        // Its content is superseded, so neither its close nor its removal can lose anything.
        let _ = old.close();
        let _ = remove_dir_all(&**fs, old.path());
        Ok(())
    }

    /// Copies a received snapshot, durably, to `own` and to `state`, and opens `state` as database.
    fn prepare(
        &self,
        snapshot: &SnapshotDir,
        own: &Path,
        state: &Path,
        expected: &[u8],
    ) -> Result<(SnapshotDir, Db)> {
        let fs = &self.shared.fs;
        let staging = own.with_extension("tmp");
        snapshot.copy_to(fs, &staging)?;
        fs.rename(&staging, own)?;
        fs.sync_dir(&self.shared.directory.join("snapshots"))?;
        let own = SnapshotDir::new(fs, own, expected.to_vec());

        own.copy_to(fs, state)?;
        let db = Db::open(&self.shared.options, state)?;
        if db.get(APPLIED_KEY)?.as_deref() != Some(expected) {
            return Err(Error::corruption(
                "the applied position in a snapshot is not the announced one",
            )
            .in_file(snapshot.path(), None, "install"));
        }
        fs.sync_dir(&self.shared.directory)?;
        Ok((own, db))
    }

    /// Creates an empty directory for a snapshot to be received; it is removed with its last handle.
    pub(crate) fn receive_snapshot(&self) -> Result<SnapshotDir> {
        let own = self.snapshot_path(&mut self.current());
        // Not a number: the next open removes what a crash leaves.
        let path = own.with_extension("received");
        self.shared.fs.create_dir_all(&path)?;
        let snapshot = SnapshotDir::new(&self.shared.fs, &path, Vec::new());
        snapshot.supersede();
        Ok(snapshot)
    }

    /// Reserves the next directory number and returns the path of a new snapshot with it.
    fn snapshot_path(&self, current: &mut Current) -> PathBuf {
        let number = current.next;
        current.next += 1;
        let snapshots = self.shared.directory.join("snapshots");
        snapshots.join(format!("{number:06}"))
    }
}

/// Makes `newest` the newest snapshot; returns the previous one, marked as superseded.
///
/// The last handle of the old one removes its files: drop it after the lock is released.
#[must_use]
fn replace_snapshot(current: &mut Current, newest: &SnapshotDir) -> Option<SnapshotDir> {
    let old = current.snapshot.replace(newest.clone());
    old.inspect(SnapshotDir::supersede)
}

/// Returns the path of the state database numbered `number`: `state-` and six digits.
fn state_path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("state-{number:06}"))
}

/// Parses the number of a state or snapshot directory from its path; 0 if there is none.
fn number_in(path: &Path) -> u64 {
    let name = path.file_name().and_then(|name| name.to_str());
    let digits = name.map(|name| name.trim_start_matches("state-"));
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// Reads the name of the current state from `STATE`; `None` if the file does not exist.
fn read_pointer(fs: &dyn FileSystem, directory: &Path) -> Result<Option<String>> {
    let path = directory.join(POINTER);
    let bytes = match fs.read_all(&path, 64, Purpose::Open) {
        Err(error) if error.is_path_not_found() => return Ok(None),
        bytes => bytes?,
    };
    match std::str::from_utf8(&bytes).map(str::trim_end) {
        Ok(name) if name.starts_with("state-") && !name.contains(['/', '\\']) => {
            Ok(Some(name.to_owned()))
        }
        _ => Err(Error::corruption("not the name of a state").in_file(&path, None, "read")),
    }
}

/// Makes `state` the current state: writes its directory name to `STATE`, atomically and durably.
fn point_to(fs: &dyn FileSystem, directory: &Path, state: &Path) -> Result<()> {
    let name = state.file_name().unwrap_or_default().to_string_lossy();
    write_atomically(
        fs,
        &directory.join("STATE.tmp"),
        &directory.join(POINTER),
        format!("{name}\n").as_bytes(),
        Purpose::Other,
    )
}

/// Creates the first state database and `STATE`; `Corruption` if another state database exists.
fn create(fs: &Arc<dyn FileSystem>, options: &Options, directory: &Path) -> Result<PathBuf> {
    let first = state_path(directory, 1);
    for entry in fs.list(directory)? {
        let is_other = entry.name.starts_with("state-") && directory.join(&entry.name) != first;
        if is_other {
            return Err(Error::corruption(format!(
                "{POINTER} is missing, but {} exists",
                entry.name
            ))
            .in_file(directory, None, "open"));
        }
    }
    let mut options = options.clone();
    options.create_if_missing(true);
    Db::open(&options, &first)?.close()?;
    fs.sync_dir(directory)?;
    point_to(&**fs, directory, &first)?;
    Ok(first)
}

/// Removes directories left by crashes; returns the newest snapshot and its number (0 without one).
fn remove_leftovers(
    fs: &dyn FileSystem,
    directory: &Path,
    state: &Path,
) -> Result<(Option<PathBuf>, u64)> {
    for entry in fs.list(directory)? {
        let path = directory.join(&entry.name);
        if entry.name.starts_with("state-") && path != state {
            remove_dir_all(fs, &path)?;
        }
    }
    let mut snapshots = Vec::new();
    for entry in fs.list(&directory.join("snapshots"))? {
        let path = directory.join("snapshots").join(&entry.name);
        match entry.name.parse::<u64>() {
            Ok(number) => snapshots.push((number, path)),
            Err(_) => remove_dir_all(fs, &path)?,
        }
    }
    snapshots.sort_unstable();
    let newest = snapshots.pop();
    for (_, path) in snapshots {
        remove_dir_all(fs, &path)?;
    }
    let number = newest.as_ref().map_or(0, |(number, _)| *number);
    Ok((newest.map(|(_, path)| path), number))
}

/// Opens a checkpoint read-only and reads its applied position; `Corruption` if it has none.
fn read_applied(options: &Options, path: &Path) -> Result<Vec<u8>> {
    let db = Db::builder(options).read_only().open(path)?;
    let applied = db.get(APPLIED_KEY)?.ok_or_else(|| {
        Error::corruption("a snapshot has no applied position").in_file(path, None, "open")
    })?;
    Ok(applied.to_vec())
}
