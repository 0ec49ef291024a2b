//! Writes with the marks of two-phase commit, whose log records differ from their entries.
//!
//! Each takes the leadership for itself: what is logged is not what is inserted, and the section of a
//! transaction enters or leaves the undecided ones under the leadership that logs the mark.

use std::sync::Arc;

use koeldb_base::error::WriteOutcome;
use koeldb_base::{Result, SeqNo};

use super::protocol::{CommitPipeline, CommitState};
use super::queue::CommitEnv;
use crate::batch::WriteBatch;
use crate::options::WriteOptions;

/// The steps of the commit or rollback of a prepared transaction, as reported to its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DecisionStep {
    /// From here on the record may be in the log.
    Logging,
    /// The record is in the log, and the entries are visible at this sequence number.
    Applied(SeqNo),
}

/// A commit or rollback of a prepared transaction: the records to log and those to insert.
pub(crate) struct MarkedWrite<'a> {
    /// The operations that are committed together with the prepared section, before it.
    pub(crate) batch: &'a WriteBatch,
    /// The operations that are committed together with the prepared section, after it.
    pub(crate) later: &'a WriteBatch,
    /// The records for the log: the operations and the mark.
    pub(crate) logged: &'a [u8],
    /// The records for the memtables.
    pub(crate) applied: &'a [u8],
    /// The number of sequence numbers that the write takes.
    pub(crate) taken: u32,
}

impl CommitPipeline {
    /// Logs the commit or rollback of a prepared transaction, and inserts the committed entries.
    pub(crate) fn write_marked(
        self: &Arc<Self>,
        options: &WriteOptions,
        write: &MarkedWrite<'_>,
        note: impl Fn(DecisionStep),
    ) -> Result<SeqNo> {
        write.batch.check_timestamps()?;
        write.later.check_timestamps()?;
        self.check_write(write.later, &logged(options))?;
        let mode = self.check_write(write.batch, &logged(options))?;
        // The batch, which comes first, lacks the operations of the prepared section.
        let section = write.applied.get(write.batch.records().len()..);
        self.wait_out_stall(section.unwrap_or_default(), mode)?;
        let mut leadership = self.queue.lead();
        self.queue.pipeline.drain()?;
        let commit = &mut *leadership.commit;
        self.make_room(commit, mode)
            .map_err(|error| error.with_outcome(WriteOutcome::NotApplied))?;
        self.wals.check_log(commit.wal()?)?;
        let first = commit.last_seqno + 1;
        note(DecisionStep::Logging);
        let present = write.batch.count() + write.later.count();
        self.write_log(
            commit,
            first,
            &[write.logged],
            (present, write.taken),
            mode.sync,
        )
        // The decision stands from here on, even if nothing was logged.
        .map_err(|error| error.with_outcome(WriteOutcome::Indeterminate))?;
        let seqno = self.apply_unlogged(commit, write.applied, write.taken)?;
        note(DecisionStep::Applied(seqno));
        Ok(seqno)
    }

    /// Logs a prepared section of `count` operations; `note` is called by the leader.
    pub(crate) fn write_section(
        self: &Arc<Self>,
        batch: &WriteBatch,
        options: &WriteOptions,
        section: &[u8],
        note: impl FnOnce(),
    ) -> Result<()> {
        // The commit gives the operations their timestamps.
        let mode = self.check_write(batch, &logged(options))?;
        let mut leadership = self.queue.lead();
        let commit = &mut *leadership.commit;
        self.make_room(commit, mode)
            .map_err(|error| error.with_outcome(WriteOutcome::NotApplied))?;
        let next = commit.last_seqno + 1;
        self.write_log(commit, next, &[section], (batch.count(), 0), mode.sync)?;
        note();
        Ok(())
    }

    /// Inserts entries whose record is in the log already, or in no log, and makes them visible.
    ///
    /// The pipeline must be empty, since the number is published immediately.
    pub(crate) fn apply_unlogged(
        &self,
        commit: &mut CommitState,
        records: &[u8],
        count: u32,
    ) -> Result<SeqNo> {
        let first = commit.last_seqno + 1;
        commit.last_seqno += SeqNo::from(count);
        let inserted = self.insert(&commit.families, records, first);
        self.handle_insertion(inserted)?;
        self.visibility.publish(commit.last_seqno);
        Ok(commit.last_seqno)
    }
}

/// Returns the options without `disable_wal`: two-phase commit marks are always logged.
fn logged(options: &WriteOptions) -> WriteOptions {
    let mut options = *options;
    options.disable_wal(false);
    options
}
