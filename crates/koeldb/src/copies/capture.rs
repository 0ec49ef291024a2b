//! Captures: the exact state of a database at one instant, as files and the lengths that belong to
//! it.
//!
//! A capture leads the write queue and holds the version set for a moment, without I/O other than
//! handing buffered log records to the operating system. All column families are therefore of one
//! instant, and the sequence number is exactly that of the captured state. A hold keeps the files
//! in place while the capture lives.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use koeldb_base::error::Severity;
use koeldb_base::file_name::{self, FileKind, FileNumber};
use koeldb_base::{Error, ErrorKind, Result, SeqNo};
use koeldb_lsm::manifest::ManifestSnapshot;
use koeldb_lsm::version::BlobFileMeta;
use koeldb_lsm::{DataPaths, FileMeta};

use crate::commit::protocol::CommitPipeline;
use crate::copies::deletions::DeletionGuard;
use crate::options::FlushOptions;
use crate::state::column_family_data::ColumnFamilyData;
use crate::state::context::Context;

/// Whether memtables are flushed before the files of a database are captured.
///
/// Writes with the log disabled are in no log: if there were any, memtables are flushed unless the
/// policy is [`FlushPolicy::Never`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushPolicy {
    /// Flushes always.
    Always,
    /// Flushes if the logs have more bytes than this.
    LogsOver(u64),
    /// Never flushes. Writes with the log disabled may be missing.
    Never,
}

impl Default for FlushPolicy {
    fn default() -> Self {
        FlushPolicy::LogsOver(64 << 20)
    }
}

/// A write-ahead log in a capture, with the length of the prefix that belongs to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CapturedLog {
    pub(crate) number: FileNumber,
    /// The length of the prefix of the log that belongs to the capture.
    pub(crate) bytes: u64,
    /// Whether the log is still being written.
    pub(crate) is_open: bool,
}

/// The state of a database at one sequence number, and the files for a copy of it.
pub(crate) struct Capture {
    pub(crate) seqno: SeqNo,
    /// The state of all column families, as a MANIFEST would record it.
    pub(crate) state: ManifestSnapshot,
    pub(crate) manifest_number: FileNumber,
    pub(crate) next_file_number: FileNumber,
    /// The logs, oldest first.
    pub(crate) logs: Vec<CapturedLog>,
    /// The newest OPTIONS file of the captured state.
    pub(crate) options_number: Option<FileNumber>,
    pub(crate) is_flushed: bool,
    /// The directories of the tables of each column family.
    paths: PathsById,
    /// The time for which writers were blocked.
    pub(crate) pause: Duration,
    _hold: DeletionGuard,
}

/// A file to copy for a capture: its name in the copy, its path and its length.
#[derive(Clone, Debug)]
pub(crate) struct CapturedFile {
    pub(crate) name: String,
    pub(crate) source: PathBuf,
    pub(crate) bytes: u64,
    /// Whether the bytes of the file never change.
    pub(crate) is_constant: bool,
    /// The table's level and metadata, if the file is a table.
    pub(crate) table: Option<CapturedTable>,
    /// The metadata of the blob file, if the file is one.
    pub(crate) blob: Option<BlobFileMeta>,
}

/// A table in a capture: its column family, its level and its MANIFEST record.
#[derive(Clone, Debug)]
pub(crate) struct CapturedTable {
    pub(crate) family: u32,
    pub(crate) level: usize,
    /// The table's record in the MANIFEST.
    pub(crate) meta: Arc<FileMeta>,
}

impl CommitPipeline {
    /// Captures the state of the database, after the flush that `policy` requires.
    pub(crate) fn capture(&self, policy: FlushPolicy) -> Result<Capture> {
        self.health.check_writable()?;
        let _foreground = self.slots.enter()?;
        let hold = DeletionGuard::new(&self.tree);
        let is_flushed = self.flush_before_capture(policy)?;
        let failures = self.health.failure_count();
        let captured = self.capture_now(hold, is_flushed);
        if captured.is_err() {
            self.health.report_failures();
        }
        let mut capture = captured?;
        self.sync_captured_logs(failures)?;
        capture.options_number = self.newest_options_below(capture.next_file_number)?;
        Ok(capture)
    }

    /// Syncs the closed logs of a capture; fails if writes failed since the capture.
    ///
    /// `failures` is the number of failures before the capture. After another one, a resume may have
    /// discarded logs of the capture that were not durable.
    ///
    /// # Errors
    /// `Aborted` if writes failed in the meantime; errors of the file system, which stop writes.
    fn sync_captured_logs(&self, failures: u64) -> Result<()> {
        if let Err(error) = self.wals.sync_closed() {
            let error = error
                .context("syncing closed logs")
                .with_severity(Severity::Hard);
            let error = self.health.fail_writes(error);
            self.health.report_failures();
            return Err(error);
        }
        if self.health.failure_count() != failures {
            return Err(Error::with_kind(
                ErrorKind::Aborted,
                "writes failed while the logs were captured, and a log may not be durable: try again",
            ));
        }
        Ok(())
    }

    /// Flushes all memtables if the policy asks for it; returns whether it did.
    fn flush_before_capture(&self, policy: FlushPolicy) -> Result<bool> {
        let limit = match policy {
            FlushPolicy::Never => return Ok(false),
            FlushPolicy::Always => None,
            FlushPolicy::LogsOver(_) if self.visibility.has_unlogged() => None,
            FlushPolicy::LogsOver(bytes) => Some(bytes),
        };
        if let Some(limit) = limit
            && self.log_bytes() <= limit
        {
            return Ok(false);
        }
        self.flush_families(&self.families.all(), &FlushOptions::new())?;
        Ok(true)
    }

    /// Captures the MANIFEST state and the logs at one sequence number, with leadership of writes.
    fn capture_now(&self, hold: DeletionGuard, is_flushed: bool) -> Result<Capture> {
        let begun = self.context.clock.now();
        let mut leadership = self.queue.lead();
        self.health.check_writable()?;
        self.queue.pipeline.drain()?;
        let seqno = leadership.commit.last_seqno;
        let wal = leadership.commit.wal()?;
        wal.writer
            .flush()
            .map_err(|error| self.health.fail_writes(error.with_severity(Severity::Hard)))?;
        let open_log = CapturedLog {
            number: wal.number,
            bytes: wal.writer.len(),
            is_open: true,
        };
        let (mut state, manifest_number, next_file_number) = {
            let versions = self.tree.versions();
            let numbers = versions.file_numbers().peek();
            (versions.snapshot(), versions.manifest_number(), numbers)
        };
        let closed = self.wals.closed();
        let paths = paths_by_id(&self.families.all());
        drop(leadership);
        let pause = self.context.clock.now().saturating_sub(begun);
        state.last_seqno = seqno.max(state.last_seqno);
        state.in_one_directory = true;
        // The sizes of tracked logs may exceed the captured ones; untracked logs are not checked.
        state.wals.clear();
        let min_needed = state.min_log_number_to_keep;
        let mut logs: Vec<CapturedLog> = closed
            .into_iter()
            .filter(|(number, _)| *number >= min_needed)
            .map(|(number, bytes)| CapturedLog {
                number,
                bytes,
                is_open: false,
            })
            .collect();
        logs.push(open_log);
        logs.sort_by_key(|log| log.number);
        Ok(Capture {
            seqno,
            state,
            manifest_number,
            next_file_number,
            logs,
            options_number: None,
            is_flushed,
            paths,
            pause,
            _hold: hold,
        })
    }

    /// Returns the number of the newest OPTIONS file below `limit`; `None` if there is none.
    pub(crate) fn newest_options_below(&self, limit: FileNumber) -> Result<Option<FileNumber>> {
        let numbers = self
            .context
            .fs
            .list(&self.context.path)?
            .into_iter()
            .filter_map(|entry| match file_name::parse(&entry.name) {
                Some(FileKind::Options(number)) if number < limit => Some(number),
                _ => None,
            });
        Ok(numbers.max())
    }
}

impl Capture {
    /// Removes the column families for which `keeps` is false, except the default one.
    pub(crate) fn retain_families(&mut self, keeps: impl Fn(&str) -> bool) {
        self.state
            .families
            .retain(|family| family.id == 0 || keeps(&family.name));
    }

    /// Returns the table files of all captured column families.
    pub(crate) fn tables(&self, context: &Context) -> Result<Vec<CapturedFile>> {
        captured_tables(context, &self.state, &self.paths)
    }

    /// Returns the blob files, the logs and the OPTIONS file of the captured state.
    pub(crate) fn other_files(&self, context: &Context) -> Result<Vec<CapturedFile>> {
        let mut files = captured_blob_files(context, &self.state, &self.paths);
        for log in &self.logs {
            files.push(CapturedFile {
                name: format!("{:06}.log", log.number),
                source: file_name::wal(&context.wal_dir, log.number),
                bytes: log.bytes,
                is_constant: !log.is_open && log.bytes > 0,
                table: None,
                blob: None,
            });
        }
        if let Some(number) = self.options_number {
            let source = file_name::options(&context.path, number);
            files.push(CapturedFile {
                name: format!("OPTIONS-{number:06}"),
                bytes: context.fs.metadata(&source)?.len,
                source,
                is_constant: true,
                table: None,
                blob: None,
            });
        }
        Ok(files)
    }
}

/// The directories of the tables of column families, by the ids of the families.
pub(crate) type PathsById = BTreeMap<u32, DataPaths>;

/// Returns the directories of the tables of open column families.
pub(crate) fn paths_by_id(families: &[Arc<ColumnFamilyData>]) -> PathsById {
    let families = families.iter();
    families
        .map(|family| (family.id, family.tables.paths().clone()))
        .collect()
}

/// Returns the table files of all column families in a MANIFEST state.
pub(crate) fn captured_tables(
    context: &Context,
    state: &ManifestSnapshot,
    paths: &PathsById,
) -> Result<Vec<CapturedFile>> {
    let mut files = Vec::new();
    let others = DataPaths::single(&context.table_files.directory);
    for family in &state.families {
        let paths = paths.get(&family.id).unwrap_or(&others);
        for (level, meta) in family.version.files() {
            let table = CapturedTable {
                family: family.id,
                level,
                meta: Arc::clone(meta),
            };
            files.push(captured_table(context, paths, table)?);
        }
    }
    Ok(files)
}

/// Returns the blob files of all column families in a MANIFEST state.
pub(crate) fn captured_blob_files(
    context: &Context,
    state: &ManifestSnapshot,
    paths: &PathsById,
) -> Vec<CapturedFile> {
    let mut files = Vec::new();
    let others = DataPaths::single(&context.table_files.directory);
    for family in &state.families {
        let paths = paths.get(&family.id).unwrap_or(&others);
        for file in family.version.blob_files.values() {
            files.push(CapturedFile {
                name: format!("{:06}.blob", file.number),
                source: paths.blob(file.number),
                bytes: file.file_bytes(),
                is_constant: true,
                table: None,
                blob: Some(file.clone()),
            });
        }
    }
    files
}

/// Returns the name and path of a captured table; the extension is `ldb` for a LevelDB table.
fn captured_table(
    context: &Context,
    paths: &DataPaths,
    table: CapturedTable,
) -> Result<CapturedFile> {
    let file = &table.meta;
    let mut source = paths.of_table(file);
    let mut name = format!("{:06}.sst", file.number);
    // LevelDB named its tables so.
    if !context.fs.exists(&source)? {
        source.set_extension("ldb");
        name = format!("{:06}.ldb", file.number);
    }
    Ok(CapturedFile {
        name,
        source,
        bytes: file.bytes,
        is_constant: true,
        table: Some(table),
        blob: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Db, Env, Options};

    #[test]
    fn a_failure_that_a_resume_repaired_still_fails_a_capture_from_before() {
        let mut options = Options::new();
        options.create_if_missing(true).set_env(&Env::mem_env());
        let db = Db::open(&options, "/captured").unwrap();
        db.put("a", "1").unwrap();
        let inner = db.inner();
        let before = inner.health.failure_count();
        inner.commit.sync_captured_logs(before).unwrap();
        let failure = Error::with_kind(ErrorKind::IoError, "a sync failed");
        inner
            .health
            .fail_writes(failure.with_severity(Severity::Hard));
        inner.resume.run().unwrap();
        let error = inner.commit.sync_captured_logs(before).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Aborted, "{error}");
        inner.commit.capture(FlushPolicy::Never).map(drop).unwrap();
    }
}
