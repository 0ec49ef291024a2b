//! A report of the findings and actions of an open.

use std::fmt;

use koeldb_base::SeqNo;
use koeldb_base::file_name::FileNumber;

/// The findings of the replay of a WAL file.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LogReport {
    /// The number of the log.
    pub number: FileNumber,
    /// The length of the log in bytes.
    pub bytes: u64,
    /// The number of replayed batches.
    pub batches: u64,
    /// The last sequence number replayed; 0 if none.
    pub last_seqno: SeqNo,
    /// Bytes that were dropped.
    pub dropped_bytes: u64,
    /// The first irregularity, with its offset.
    pub problem: Option<String>,
    /// The offset of the first irregularity in bytes.
    pub problem_offset: Option<u64>,
    /// The number of intact records after the first irregularity, which were not replayed.
    ///
    /// It includes the problematic record if that was complete before the damage. A crash leaves
    /// none; if there are some, acknowledged writes may be lost.
    pub intact_records_after: u64,
    /// Whether the log was not read because it does not continue a damaged earlier one.
    pub ignored: bool,
}

impl LogReport {
    /// Records an irregularity of the WAL, unless an earlier one is recorded.
    pub(crate) fn add_problem(&mut self, offset: u64, what: impl FnOnce() -> String) {
        self.problem_offset.get_or_insert(offset);
        self.problem.get_or_insert_with(what);
    }
}

/// The findings and actions of the recovery at an open.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RecoveryReport {
    /// The logs, in the order they were replayed.
    pub logs: Vec<LogReport>,
    /// The incomplete record at the end of the MANIFEST that was dropped, with its offset.
    ///
    /// It is a change that was never acknowledged, or damage.
    pub manifest_tail_dropped: Option<String>,
    /// The number of dropped edits at the end of the MANIFEST, from an incomplete group.
    pub manifest_edits_dropped: usize,
    /// The tables that the newest state names and that are missing or damaged, with
    /// `best_efforts_recovery`.
    ///
    /// If there are any, an older state was recovered.
    pub tables_missing: Vec<FileNumber>,
    /// The last sequence number of the recovered state.
    pub last_seqno: SeqNo,
    /// The tables with recovered data.
    pub tables_written: Vec<FileNumber>,
    /// The blob files with values of these tables.
    pub blob_files_written: Vec<FileNumber>,
    /// Removed obsolete files; damaged logs are now in `archive`.
    pub orphans_removed: Vec<String>,
}

impl RecoveryReport {
    /// Whether the recovery dropped any data of a WAL.
    #[must_use]
    pub fn dropped_anything(&self) -> bool {
        self.logs
            .iter()
            .any(|log| log.dropped_bytes > 0 || log.ignored)
    }
}

impl fmt::Display for RecoveryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "recovered up to sequence number {}", self.last_seqno)?;
        if let Some(problem) = &self.manifest_tail_dropped {
            write!(f, "\nincomplete end of the MANIFEST ignored: {problem}")?;
        }
        if self.manifest_edits_dropped > 0 {
            write!(
                f,
                "\n{} edits of an incomplete group at the end of the MANIFEST ignored",
                self.manifest_edits_dropped
            )?;
        }
        if !self.tables_missing.is_empty() {
            write!(
                f,
                "\nan older state was recovered: tables {:?} of the newest one are missing or damaged",
                self.tables_missing
            )?;
        }
        for log in &self.logs {
            write!(
                f,
                "\nlog {:06}: {} bytes, {} batches",
                log.number, log.bytes, log.batches
            )?;
            if log.ignored {
                f.write_str(", ignored because an earlier log is damaged")?;
            }
            if let Some(problem) = &log.problem {
                write!(f, ", {} bytes dropped: {problem}", log.dropped_bytes)?;
            }
            if log.intact_records_after > 0 {
                write!(
                    f,
                    ", {} intact records after it: acknowledged writes may be lost",
                    log.intact_records_after
                )?;
            }
        }
        Ok(())
    }
}
