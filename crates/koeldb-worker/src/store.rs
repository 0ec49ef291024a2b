//! The files of jobs, in a directory that primaries and workers share.
//!
//! ```text
//! <store>/<database id>/<job>/database       path of the database
//!                            /directory      path of this directory, as the primary knows it
//!                            /input          message for the worker
//!                            /<n>/claim      name of the worker of attempt n, and a byte a beat
//!                            /<n>/tables/    output directory of the attempt
//!                            /<n>/result     message for the primary
//! ```
//!
//! - `input` is written last and removed first: a job without it does not exist.
//! - `claim` is created exclusively, so an attempt has one worker. It grows while the worker lives.
//! - Attempts write apart: a worker that was given up cannot spoil the next attempt.
//! - `result` is written last, by replacement: it names complete and durable tables.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use koeldb::fs::file::{EntryKind, Purpose, WriteOptions};
use koeldb::fs::small_file::{create_dir_durably, remove_dir_all, write_atomically};
use koeldb::fs::{FileSystem, WritableFile};
use koeldb::{Error, Result};

/// The longest message that is read.
const MESSAGE_BYTES_MAX: u64 = 256 << 20;
/// The longest path that is read.
const PATH_BYTES_MAX: u64 = 64 << 10;
/// The maximum number of attempts: a job may be the cause of the loss of its workers.
const ATTEMPTS_MAX: u32 = 3;

/// The directory of compaction jobs that primaries and workers share.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    fs: Arc<dyn FileSystem>,
    root: PathBuf,
}

/// A compaction job, represented by its directory in a [`Store`].
#[derive(Clone, Debug)]
pub(crate) struct Job {
    fs: Arc<dyn FileSystem>,
    pub(crate) path: PathBuf,
    /// The database id and the name of the job.
    pub(crate) id: String,
}

/// The progress of a job, read from its files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// The number of attempts that a worker has claimed.
    pub(crate) attempts: u32,
    /// The length of the last claim, which grows with every beat.
    claim_bytes: u64,
    /// The attempt that has a result.
    pub(crate) result: Option<u32>,
}

/// The last seen progress of a job and its time, from which a lost worker is detected.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watch {
    progress: Progress,
    since: Duration,
}

impl Watch {
    /// Creates a watch that has seen this progress at `now`.
    pub(crate) fn begin(progress: Progress, now: Duration) -> Self {
        let since = now;
        Watch { progress, since }
    }

    /// Takes note of the progress at `now`; returns for how long it has not changed.
    pub(crate) fn observe(&mut self, progress: Progress, now: Duration) -> Duration {
        if progress != self.progress {
            *self = Watch::begin(progress, now);
        }
        now.saturating_sub(self.since)
    }
}

impl Progress {
    /// Whether a worker may claim the next attempt, of a job that has not changed for `idle`.
    pub(crate) fn may_claim(&self, idle: Duration, lost_after: Duration) -> bool {
        let is_free = self.attempts == 0 || idle >= lost_after;
        self.result.is_none() && is_free && self.attempts < ATTEMPTS_MAX
    }
}

/// Whether `name` is 1 to 200 ASCII letters, digits and `-`, so safe as a directory name.
fn is_plain(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    !name.is_empty() && name.len() <= 200 && name.bytes().all(is_plain)
}

impl Store {
    /// Opens a directory of jobs, which must exist if `create` is not set.
    pub(crate) fn open(fs: &Arc<dyn FileSystem>, root: &Path, create: bool) -> Result<Self> {
        let root = std::path::absolute(root).map_err(|error| Error::io(error, "resolve", root))?;
        if create {
            create_dir_durably(&**fs, &root)?;
        }
        let is_directory = fs.metadata(&root)?.kind == EntryKind::Directory;
        if !is_directory {
            let error = Error::invalid_argument("the store of compaction jobs is not a directory");
            return Err(error.in_file(&root, None, "open"));
        }
        let fs = Arc::clone(fs);
        Ok(Store { fs, root })
    }

    /// Returns the job `name` of a database, whether or not its files exist.
    ///
    /// # Errors
    /// `InvalidArgument` if a name cannot be that of a directory.
    pub(crate) fn job(&self, database: &str, name: &str) -> Result<Job> {
        if !is_plain(database) || !is_plain(name) {
            return Err(Error::invalid_argument(format!(
                "{database:?} and {name:?} cannot be the names of directories"
            )));
        }
        Ok(Job {
            fs: Arc::clone(&self.fs),
            path: self.root.join(database).join(name),
            id: format!("{database}/{name}"),
        })
    }

    /// Returns the sorted names of the directories in `path`; none if `path` is missing.
    fn directories(&self, path: &Path) -> Result<Vec<String>> {
        let entries = match self.fs.list(path) {
            Err(error) if error.is_path_not_found() => return Ok(Vec::new()),
            entries => entries?,
        };
        let is_directory = entries
            .into_iter()
            .filter(|entry| entry.kind == EntryKind::Directory);
        let mut names: Vec<String> = is_directory.map(|entry| entry.name).collect();
        names.sort();
        Ok(names)
    }

    /// Returns the jobs of a database, in the order of their names.
    pub(crate) fn jobs_of(&self, database: &str) -> Result<Vec<Job>> {
        let names = self.directories(&self.root.join(database))?;
        let jobs = names.iter().map(|name| self.job(database, name));
        // Other directories are not ours.
        Ok(jobs.filter_map(Result::ok).collect())
    }

    /// Returns all jobs of all databases.
    pub(crate) fn jobs(&self) -> Result<Vec<Job>> {
        let mut jobs = Vec::new();
        for database in self.directories(&self.root)? {
            jobs.extend(self.jobs_of(&database)?);
        }
        Ok(jobs)
    }
}

impl Job {
    /// Reads a file of the job, which may have at most `bytes_max` bytes.
    fn read(&self, name: &str, bytes_max: u64) -> Result<Vec<u8>> {
        let path = self.path.join(name);
        self.fs.read_all(&path, bytes_max, Purpose::Other)
    }

    /// Writes a file atomically and durably: a temporary file, renamed.
    fn write(&self, directory: &Path, name: &str, bytes: &[u8]) -> Result<()> {
        let temporary = directory.join(format!("{name}.tmp"));
        write_atomically(
            &*self.fs,
            &temporary,
            &directory.join(name),
            bytes,
            Purpose::Other,
        )
    }

    /// The directory of an attempt.
    fn attempt(&self, number: u32) -> PathBuf {
        self.path.join(number.to_string())
    }

    /// Returns the directory for the tables that an attempt writes.
    pub(crate) fn tables(&self, attempt: u32) -> PathBuf {
        self.attempt(attempt).join("tables")
    }

    /// Writes the files of a new job.
    pub(crate) fn create(&self, database: &str, input: &[u8]) -> Result<()> {
        let directory = self.path.to_str().ok_or_else(|| {
            Error::invalid_argument("the path of the store of compaction jobs is not UTF-8")
        })?;
        create_dir_durably(&*self.fs, &self.path)?;
        self.write(&self.path, "database", database.as_bytes())?;
        self.write(&self.path, "directory", directory.as_bytes())?;
        self.write(&self.path, "input", input)
    }

    /// Whether the primary still waits for the job.
    pub(crate) fn exists(&self) -> Result<bool> {
        self.fs.exists(&self.path.join("input"))
    }

    /// Reads the path of the database, and the message for the worker.
    ///
    /// # Errors
    /// `InvalidArgument` if the primary knows this directory under another path.
    pub(crate) fn input(&self) -> Result<(PathBuf, Vec<u8>)> {
        let path = |name: &str| {
            let text = String::from_utf8(self.read(name, PATH_BYTES_MAX)?);
            text.map_err(|_| Error::corruption(format!("{name} of a compaction job is not UTF-8")))
        };
        let (database, directory) = (path("database")?, path("directory")?);
        if Path::new(&directory) != self.path {
            return Err(Error::invalid_argument(format!(
                "the primary knows the directory {} as {directory}: they must have the same paths",
                self.path.display()
            )));
        }
        Ok((database.into(), self.read("input", MESSAGE_BYTES_MAX)?))
    }

    /// Reads the progress of the job; `None` if the job was withdrawn.
    pub(crate) fn progress(&self) -> Result<Option<Progress>> {
        if !self.exists()? {
            return Ok(None);
        }
        let mut progress = Progress::default();
        for number in 1..=ATTEMPTS_MAX {
            let attempt = self.attempt(number);
            match self.fs.metadata(&attempt.join("claim")) {
                Err(error) if error.is_path_not_found() => break,
                claim => progress.claim_bytes = claim?.len,
            }
            progress.attempts = number;
            if self.fs.exists(&attempt.join("result"))? {
                progress.result = Some(number);
                break;
            }
        }
        Ok(Some(progress))
    }

    /// Claims an attempt for the worker `name`; `None` if another worker was first.
    pub(crate) fn claim(&self, attempt: u32, name: &str) -> Result<Option<Claim>> {
        let directory = self.attempt(attempt);
        self.fs.create_dir_all(&directory)?;
        let path = directory.join("claim");
        let mut options = WriteOptions::new(Purpose::Other);
        // Each beat must be visible.
        options.buffer_bytes = 0;
        match self.fs.create(&path, &options) {
            Ok(mut file) => {
                file.append(format!("{name}\n").as_bytes())?;
                Ok(Some(Claim(file)))
            }
            Err(_) if self.fs.exists(&path)? => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes the result of an attempt.
    pub(crate) fn write_result(&self, attempt: u32, result: &[u8]) -> Result<()> {
        self.write(&self.attempt(attempt), "result", result)
    }

    /// Reads the result of an attempt.
    pub(crate) fn result(&self, attempt: u32) -> Result<Vec<u8>> {
        self.read(&format!("{attempt}/result"), MESSAGE_BYTES_MAX)
    }

    /// Returns the number of tables that an attempt has written, and their bytes.
    pub(crate) fn output(&self, attempt: u32) -> Result<(u64, u64)> {
        let directory = self.tables(attempt);
        let (mut count, mut bytes) = (0, 0);
        for entry in self.fs.list(&directory)? {
            if entry.name.ends_with(".sst") {
                count += 1;
                bytes += self.fs.metadata(&directory.join(&entry.name))?.len;
            }
        }
        Ok((count, bytes))
    }

    /// Withdraws the job, and removes its files.
    ///
    /// # Errors
    /// If the system fails, or a worker that was given up still writes into the directory.
    pub(crate) fn remove(&self) -> Result<()> {
        match self.fs.remove_file(&self.path.join("input")) {
            Err(error) if !error.is_path_not_found() => Err(error),
            _ => remove_dir_all(&*self.fs, &self.path),
        }
    }
}

/// The claim of a worker to one attempt: the file that its heartbeats extend.
pub(crate) struct Claim(Box<dyn WritableFile>);

impl Claim {
    /// Appends a heartbeat byte, which shows that the worker is alive.
    pub(crate) fn beat(&mut self) -> Result<()> {
        self.0.append(b".")
    }
}

#[cfg(test)]
mod tests;
