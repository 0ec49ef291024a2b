//! Writes with marks of two-phase transactions, whose records and entries differ.
//!
//! Each takes the leadership for itself: what is logged is not what is inserted, and the section of a
//! transaction enters or leaves the undecided ones under the leadership that logs the mark.

use std::sync::Arc;

use koeldb_base::error::WriteOutcome;
use koeldb_base::{Result, SeqNo};

use crate::inner::DbInner;
use crate::options::WriteOptions;
use crate::write::batch::WriteBatch;
use crate::write::commit::CommitState;
use crate::write::queue::CommitEnv;

/// The steps of a decision, reported under the leadership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DecisionStep {
    /// The record may reach the log from here on.
    Logging,
    /// The decision is logged, and its entries are visible at this sequence number.
    Applied(SeqNo),
}

/// A decision on a prepared transaction.
pub(super) struct MarkedWrite<'a> {
    /// The operations that are committed with a section.
    pub(super) batch: &'a WriteBatch,
    /// The records for the log: these operations and the mark.
    pub(super) logged: &'a [u8],
    /// The records for memtables, and their number.
    pub(super) applied: &'a [u8],
    pub(super) taken: u32,
}

impl DbInner {
    /// Logs a decision and applies its entries.
    pub(super) fn write_marked(
        self: &Arc<Self>,
        options: &WriteOptions,
        write: &MarkedWrite<'_>,
        note: impl Fn(DecisionStep),
    ) -> Result<SeqNo> {
        let mode = self.commit.check_write(write.batch, &logged(options))?;
        let mut leadership = self.commit.queue.lead();
        self.commit.queue.pipeline.drain();
        let commit = &mut *leadership.commit;
        self.commit
            .make_room(commit, write.applied.len(), mode)
            .map_err(|error| error.with_outcome(WriteOutcome::NotApplied))?;
        let first = commit.last_seqno + 1;
        note(DecisionStep::Logging);
        let present = write.batch.count();
        self.commit.write_log(
            commit,
            first,
            write.logged,
            (present, write.taken),
            mode.sync,
        )?;
        let seqno = self.apply_unlogged(commit, write.applied, write.taken)?;
        note(DecisionStep::Applied(seqno));
        Ok(seqno)
    }

    /// Logs a section of `count` operations; `note` is called under the leadership.
    pub(super) fn write_section(
        self: &Arc<Self>,
        batch: &WriteBatch,
        options: &WriteOptions,
        section: &[u8],
        note: impl FnOnce(),
    ) -> Result<()> {
        let mode = self.commit.check_write(batch, &logged(options))?;
        let mut leadership = self.commit.queue.lead();
        let commit = &mut *leadership.commit;
        self.commit
            .make_room(commit, section.len(), mode)
            .map_err(|error| error.with_outcome(WriteOutcome::NotApplied))?;
        let next = commit.last_seqno + 1;
        self.commit
            .write_log(commit, next, section, (batch.count(), 0), mode.sync)?;
        note();
        Ok(())
    }

    /// Inserts entries whose record is in the log already, or never will be, and makes them visible.
    pub(super) fn apply_unlogged(
        &self,
        commit: &mut CommitState,
        records: &[u8],
        count: u32,
    ) -> Result<SeqNo> {
        let first = commit.last_seqno + 1;
        commit.last_seqno += SeqNo::from(count);
        let inserted = self.commit.insert(&commit.families, records, first);
        self.commit.handle_insertion(inserted)?;
        self.visibility.publish(commit.last_seqno);
        Ok(commit.last_seqno)
    }
}

/// The options without `disable_wal`: marks are always logged.
fn logged(options: &WriteOptions) -> WriteOptions {
    let mut options = *options;
    options.disable_wal(false);
    options
}
