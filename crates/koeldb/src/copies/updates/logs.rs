//! The logs that a change feed reads: those of the database, and before them those of the archive.
//!
//! An archived log may end in batches that a recovery gave up, and it may be a part of another
//! history of this directory. So the feed reads one only if the next log says where it ends: by its
//! link, or, for the first log of this open, by the replay, if that dropped nothing. The feed
//! compares the end with what it read.

use std::collections::VecDeque;
use std::sync::Arc;

use koeldb_base::file_name::{self, FileNumber};
use koeldb_base::{Error, ErrorKind, Result, SeqNo};
use koeldb_fs::{AccessHint, OpenOptions, Purpose, RandomAccessFile};
use koeldb_log::wal::archive_directory;
use koeldb_log::{RecordReader, RecoveryMode};

use crate::batch::Link;
use crate::batch::header;
use crate::commit::protocol::CommitPipeline;
use crate::commit::two_phase;
use crate::state::context::Context;

/// An archived log, and the sequence number after its last operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct ArchivedLog {
    pub(super) number: FileNumber,
    /// The sequence number after its last operation.
    pub(super) end: SeqNo,
}

/// The log at which an update iterator starts, and the archived logs after it.
pub(super) struct Start {
    pub(super) number: FileNumber,
    pub(super) reader: RecordReader,
    /// The sequence number after its last operation, if the log is archived.
    pub(super) end: Option<SeqNo>,
    /// The archived logs after it, oldest first.
    pub(super) archived: VecDeque<ArchivedLog>,
}

/// Returns the logs that are not archived, oldest first, with the open one last.
pub(super) fn live_logs(commit: &CommitPipeline) -> Vec<FileNumber> {
    let (open, closed) = {
        let leadership = commit.queue.lead();
        let open = leadership.commit.wal.as_ref().map(|wal| wal.number);
        (open, commit.wals.closed())
    };
    let kept = commit.wals.pinned.logs();
    let closed = kept.iter().chain(&closed).map(|(number, _)| *number);
    let mut numbers: Vec<FileNumber> = closed.chain(open).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// Opens a log in the WAL directory or, if it has been archived, in the archive.
pub(super) fn open_log(context: &Context, number: FileNumber) -> Result<Arc<dyn RandomAccessFile>> {
    let options = OpenOptions {
        purpose: Purpose::Wal,
        hint: AccessHint::Sequential,
        ..OpenOptions::default()
    };
    let path = file_name::wal(&context.wal_dir, number);
    match context.fs.open(&path, &options) {
        Err(error) if error.is_path_not_found() => {
            let archived = file_name::wal(&archive_directory(&context.wal_dir), number);
            let opened = context.fs.open(&archived, &options);
            opened.map_err(|other| {
                if other.is_path_not_found() {
                    error
                } else {
                    other
                }
            })
        }
        opened => opened,
    }
}

/// Opens a log for reading; a corrupted tail counts as its end.
pub(super) fn log_reader(context: &Context, number: FileNumber) -> Result<RecordReader> {
    let mode = RecoveryMode::TolerateCorruptedTailRecords;
    Ok(RecordReader::new(open_log(context, number)?, number, mode))
}

/// Opens a log that was found earlier; `NotFound` if it was purged from the archive since.
pub(super) fn next_log_reader(context: &Context, number: FileNumber) -> Result<RecordReader> {
    log_reader(context, number).map_err(|error| match error.is_path_not_found() {
        true => gone(format!("the log {number:06} was removed")),
        false => error,
    })
}

/// Finds and opens the log that contains sequence number `wanted`.
///
/// Returns the oldest log if that one was removed and `or_oldest` is set.
pub(super) fn log_with(commit: &CommitPipeline, wanted: SeqNo, or_oldest: bool) -> Result<Start> {
    let start = |number, reader| Start {
        number,
        reader,
        end: None,
        archived: VecDeque::new(),
    };
    let mut oldest = None;
    let mut oldest_live = None;
    let mut empty: Option<Start> = None;
    let live = live_logs(commit);
    for &number in live.iter().rev() {
        let first = match first_seqno(&commit.context, number) {
            // An empty log may be removed at any time.
            Err(error) if error.is_path_not_found() => continue,
            first => first?,
        };
        let reader = log_reader(&commit.context, number)?;
        match first {
            Some(first) if first <= wanted => return Ok(start(number, reader)),
            Some(first) => {
                oldest = Some(first);
                oldest_live = Some(start(number, reader));
            }
            None if empty.is_none() => empty = Some(start(number, reader)),
            None => {}
        }
    }
    if wanted > commit.visibility.seqno()
        && let Some(found) = empty.take()
    {
        return Ok(found);
    }
    let mut archived = VecDeque::new();
    let mut later = live.first().copied();
    while let Some(log) = archived_before(commit, later)? {
        let first = match first_seqno(&commit.context, log.number) {
            Err(error) if error.is_path_not_found() => break,
            first => first?,
        };
        if first.is_some_and(|first| first <= wanted) {
            return Ok(Start {
                number: log.number,
                reader: next_log_reader(&commit.context, log.number)?,
                end: Some(log.end),
                archived,
            });
        }
        oldest = first.or(oldest);
        later = Some(log.number);
        archived.push_front(log);
    }
    if or_oldest {
        if let Some(log) = archived.pop_front() {
            return Ok(Start {
                number: log.number,
                reader: next_log_reader(&commit.context, log.number)?,
                end: Some(log.end),
                archived,
            });
        }
        if let Some(found) = oldest_live.or(empty) {
            return Ok(found);
        }
    }
    let oldest = match oldest {
        Some(oldest) => format!("the oldest is {oldest}"),
        None => "the logs are empty".to_owned(),
    };
    Err(gone(format!(
        "the log with sequence number {wanted} was removed ({oldest})"
    )))
}

/// Returns the `NotFound` error for updates that are in no log any more.
pub(super) fn gone(what: impl std::fmt::Display) -> Error {
    Error::with_kind(
        ErrorKind::NotFound,
        format!("{what}: start over from a checkpoint"),
    )
}

/// The sequence number of the first batch of a log; `None` if it has none.
pub(crate) fn first_seqno(context: &Context, number: FileNumber) -> Result<Option<SeqNo>> {
    let mut reader = log_reader(context, number)?;
    while let Some(record) = reader.next_record()? {
        let (seqno, count) = header(record)?;
        // A commit has the count 0 if there is nothing else in its batch.
        if count > 0 || !two_phase::pieces(record)?.list.is_empty() {
            return Ok(Some(seqno));
        }
    }
    Ok(None)
}

/// Returns the archived log before log `later`; `None` if the end of it is not known.
fn archived_before(
    commit: &CommitPipeline,
    later: Option<FileNumber>,
) -> Result<Option<ArchivedLog>> {
    let Some(later) = later else {
        return Ok(None);
    };
    let pending = {
        let leadership = commit.queue.lead();
        let open = leadership.commit.wal.as_ref();
        let open = open.filter(|wal| wal.number == later);
        open.and_then(|wal| Some((wal.follows?, wal.next_seqno)))
    };
    if let Some((number, end)) = pending {
        return Ok(Some(ArchivedLog { number, end }));
    }
    let linked = match log_reader(&commit.context, later) {
        Err(error) if error.is_path_not_found() => None,
        reader => match reader?.next_record()? {
            Some(record) => Link::decode(record).map(|link| (link.before, header(record))),
            None => None,
        },
    };
    match linked {
        Some((number, header)) => Ok(Some(ArchivedLog {
            number,
            end: header?.0,
        })),
        None if commit.wals.first_log() == Some(later) => Ok(replayed_last(commit)),
        None => Ok(None),
    }
}

/// Returns the last log that recovery replayed; `None` if it dropped records of any log.
fn replayed_last(commit: &CommitPipeline) -> Option<ArchivedLog> {
    let report = &commit.context.recovery_report;
    let is_whole = |log: &crate::LogReport| log.problem.is_none() && !log.ignored;
    let mut logs = report.logs.iter();
    let last = logs.clone().rev().find(|log| log.last_seqno > 0)?;
    logs.all(is_whole).then_some(ArchivedLog {
        number: last.number,
        end: last.last_seqno + 1,
    })
}
