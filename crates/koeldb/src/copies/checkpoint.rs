//! Checkpoints: databases of their own that share the constant files of a running one.
//!
//! Tables and closed logs are linked, or copied where that is refused; the open log is copied up to
//! the captured length; the MANIFEST is written anew from the captured state. Order of syncs:
//! files, staging directory, rename, directory above (see [`crate::open::staging`]).

mod secondary;

use std::path::Path;
use std::time::Duration;

use koeldb_base::stats::Ticker;
use koeldb_base::{Error, Result, SeqNo};
use koeldb_fs::{FileSystem, Purpose};
use koeldb_lsm::manifest::{self, ManifestSnapshot};

use crate::api::db::Db;
use crate::background::transfer::{Pace, Transfer, TransferFile, Transferred};
use crate::commit::protocol::CommitPipeline;
use crate::copies::capture::{Capture, CapturedFile, FlushPolicy};
use crate::engine::secondary::Secondary;
use crate::open::staging::{Staging, refuse_inside};
use crate::state::context::Context;

/// Options of a checkpoint.
#[derive(Clone, Debug)]
pub struct CheckpointOptions {
    pub(crate) flush: FlushPolicy,
    pub(crate) families: Option<Vec<String>>,
    pub(crate) threads: usize,
    pub(crate) link: bool,
    pub(crate) bytes_per_second: u64,
}

impl Default for CheckpointOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl CheckpointOptions {
    /// Creates the defaults: links, all column families, a flush if the logs exceed 64 MiB.
    #[must_use]
    pub fn new() -> Self {
        CheckpointOptions {
            flush: FlushPolicy::default(),
            families: None,
            threads: 4,
            link: true,
            bytes_per_second: 0,
        }
    }

    /// Sets when memtables are flushed before the checkpoint, which then needs no log.
    ///
    /// Default: if the logs have more than 64 MiB.
    pub fn set_flush(&mut self, flush: FlushPolicy) -> &mut Self {
        self.flush = flush;
        self
    }

    /// Sets the log size from which memtables are flushed first (RocksDB: `log_size_for_flush`).
    ///
    /// 0 flushes always, `u64::MAX` never, other values if the logs have more bytes.
    ///
    /// Default: 64 MiB.
    pub fn set_log_size_for_flush(&mut self, bytes: u64) -> &mut Self {
        self.set_flush(match bytes {
            0 => FlushPolicy::Always,
            u64::MAX => FlushPolicy::Never,
            bytes => FlushPolicy::LogsOver(bytes),
        })
    }

    /// Keeps only the named column families, and the default one.
    pub fn set_families<N: Into<String>>(
        &mut self,
        names: impl IntoIterator<Item = N>,
    ) -> &mut Self {
        self.families = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the number of threads that copy; 4 by default, at least 1.
    pub fn set_threads(&mut self, threads: usize) -> &mut Self {
        self.threads = threads.max(1);
        self
    }

    /// Sets whether constant files are linked; on by default. Off makes copies of all files.
    pub fn set_link(&mut self, link: bool) -> &mut Self {
        self.link = link;
        self
    }

    /// Limits copies to this many bytes per second; 0, the default, for no limit.
    pub fn set_bytes_per_second(&mut self, bytes: u64) -> &mut Self {
        self.bytes_per_second = bytes;
        self
    }
}

/// A summary of a created checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckpointReport {
    /// The sequence number of the last write in the checkpoint.
    pub sequence_number: SeqNo,
    /// The number of linked files.
    pub linked_files: u64,
    /// The size of the linked files.
    pub linked_bytes: u64,
    /// The number of copied files.
    pub copied_files: u64,
    /// The bytes copied.
    pub copied_bytes: u64,
    /// Whether memtables were flushed before the checkpoint.
    pub is_flushed: bool,
    /// The time for which writers were blocked.
    pub pause: Duration,
}

impl Db {
    /// Creates a database at `path` with the current contents of this one (RocksDB: `Checkpoint`).
    ///
    /// Files are shared by hard links where the file system permits it, so that a checkpoint on the
    /// same device costs no space until compactions replace them. All tables are in the directory of
    /// the checkpoint, wherever `db_paths` and `cf_paths` have those of the database.
    ///
    /// ```
    /// use koeldb::{Db, Env, Options};
    ///
    /// # fn main() -> koeldb::Result<()> {
    /// let mut options = Options::new();
    /// options.create_if_missing(true).set_env(&Env::mem_env());
    /// let db = Db::open(&options, "/db")?;
    /// db.put("koel", "Eudynamys")?;
    /// db.create_checkpoint("/copy")?;
    /// db.put("koel", "changed")?;
    /// let copy = Db::open(&options, "/copy")?;
    /// assert_eq!(copy.get("koel")?.as_deref(), Some(&b"Eudynamys"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` if `path` exists or lies in the directory of this database; `Aborted` if
    /// `<path>.tmp` exists with files of others; `Busy` if another call or process makes the same
    /// directory; errors of the file system, after which there is nothing at `path`, unless only
    /// the last sync of the directory above failed.
    pub fn create_checkpoint(&self, path: impl AsRef<Path>) -> Result<CheckpointReport> {
        self.create_checkpoint_opt(path, &CheckpointOptions::new())
    }

    /// Like [`Db::create_checkpoint`], with `options`.
    ///
    /// In a secondary, its current view is captured: memtables become tables of the checkpoint,
    /// whatever the flush policy, and the primary is not touched.
    ///
    /// # Errors
    /// See [`Db::create_checkpoint`]; `InvalidArgument` for the name of a column family that does
    /// not exist.
    pub fn create_checkpoint_opt(
        &self,
        path: impl AsRef<Path>,
        options: &CheckpointOptions,
    ) -> Result<CheckpointReport> {
        create(
            &self.inner().commit,
            self.inner().secondary.as_deref(),
            path.as_ref(),
            options,
        )
    }
}

/// Creates a checkpoint of the database, or of the primary of a secondary, in `target`.
fn create(
    commit: &CommitPipeline,
    secondary: Option<&Secondary>,
    target: &Path,
    options: &CheckpointOptions,
) -> Result<CheckpointReport> {
    let context = &*commit.context;
    commit.health.check_open()?;
    refuse_own_directories(commit, target)?;
    if let Some(secondary) = secondary {
        return secondary::create(secondary, commit, target, options);
    }
    let staging = Staging::create(&context.fs, target, &[])?;
    let mut capture = commit.capture(options.flush)?;
    if let Some(names) = &options.families {
        check_names(&capture.state, names)?;
        capture.retain_families(|name| names.iter().any(|kept| kept == name));
    }
    let mut files = capture.tables(context)?;
    files.extend(capture.other_files(context)?);
    let outcomes = transfer_files(context, &files, staging.path(), options)?;
    write_manifest(&*context.fs, staging.path(), &capture)?;
    staging.publish()?;
    let report = report(&capture, &files, &outcomes);
    context.count(Ticker::CheckpointReadBytes, report.copied_bytes);
    context.count(Ticker::CheckpointWriteBytes, report.copied_bytes);
    context
        .info_log
        .info(format_args!("checkpoint {}: {report:?}", target.display()));
    Ok(report)
}

/// Fails if `target` is inside a directory of the database, of its logs or of its tables.
pub(crate) fn refuse_own_directories(commit: &CommitPipeline, target: &Path) -> Result<()> {
    let context = &*commit.context;
    refuse_inside(&*context.fs, target, &context.path)?;
    refuse_inside(&*context.fs, target, &context.wal_dir)?;
    for family in commit.families.all() {
        for directory in family.tables.paths().directories() {
            refuse_inside(&*context.fs, target, directory)?;
        }
    }
    Ok(())
}

/// Links or copies the captured files into the staging directory.
fn transfer_files(
    context: &Context,
    files: &[CapturedFile],
    staging: &Path,
    options: &CheckpointOptions,
) -> Result<Vec<Transferred>> {
    let transfers: Vec<TransferFile> = files
        .iter()
        .map(|file| TransferFile {
            source: file.source.clone(),
            target: staging.join(&file.name),
            bytes: file.bytes,
            may_link: options.link && file.is_constant,
            expected_crc32c: None,
        })
        .collect();
    Transfer {
        from: &*context.fs,
        to: &*context.fs,
        purpose: Purpose::Checkpoint,
        pace: &Pace::new(&context.clock, options.bytes_per_second),
        threads: options.threads,
        must_link: false,
        stop: None,
        progress: &|_| (),
    }
    .run(&transfers)
}

/// Fails with `InvalidArgument` if a column family of `names` does not exist.
fn check_names(state: &ManifestSnapshot, names: &[String]) -> Result<()> {
    for name in names {
        if !state.families.iter().any(|family| &family.name == name) {
            return Err(Error::invalid_argument(format!(
                "there is no column family {name:?}"
            )));
        }
    }
    Ok(())
}

/// Writes MANIFEST and CURRENT of the captured state into `directory`.
pub(crate) fn write_manifest(
    fs: &dyn FileSystem,
    directory: &Path,
    capture: &Capture,
) -> Result<()> {
    manifest::install(
        fs,
        directory,
        capture.manifest_number,
        capture.next_file_number,
        &capture.state,
    )
}

/// Returns the report of a checkpoint of an open database.
fn report(capture: &Capture, files: &[CapturedFile], outcomes: &[Transferred]) -> CheckpointReport {
    CheckpointReport {
        sequence_number: capture.seqno,
        is_flushed: capture.is_flushed,
        pause: capture.pause,
        ..report_transfers(files, outcomes)
    }
}

/// Returns a report that counts the linked and the copied files and bytes.
fn report_transfers(files: &[CapturedFile], outcomes: &[Transferred]) -> CheckpointReport {
    let mut report = CheckpointReport::default();
    for (file, outcome) in files.iter().zip(outcomes) {
        let (count, bytes) = match outcome.is_linked {
            true => (&mut report.linked_files, &mut report.linked_bytes),
            false => (&mut report.copied_files, &mut report.copied_bytes),
        };
        *count += 1;
        *bytes += file.bytes;
    }
    report
}
