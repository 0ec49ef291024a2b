//! The adapter of [`GroupLog`] to openraft's log storage.

use std::fmt::Debug;
use std::io;
use std::ops::RangeBounds;

use openraft::storage::{LogFlushed, RaftLogStorage};
use openraft::{
    ErrorSubject, ErrorVerb, LogId, LogState, OptionalSend, RaftLogReader, RaftTypeConfig,
    StorageError, Vote,
};

use crate::durable::DurableIndex;
use crate::encoding::{Encoding, Postcard};
use crate::entry_log::EntryLog;
use crate::logs::GroupLog;
use crate::stable::Stable;

/// The log of a Raft group as openraft's `RaftLogStorage`; clones serve as its log readers.
pub struct LogStore<C, E = Postcard> {
    log: EntryLog<Stable<C>, E>,
}

impl<C, E> Clone for LogStore<C, E> {
    fn clone(&self) -> Self {
        LogStore {
            log: self.log.clone(),
        }
    }
}

impl<C: RaftTypeConfig> LogStore<C> {
    /// Creates a store whose entries are encoded with [`Postcard`].
    ///
    /// With `durable`, the index of the group's state machine, a purge beyond it waits for it, and entries
    /// that contradict the state are removed at the start: log and state are two databases, and a
    /// crash may leave the log behind a snapshot that was being installed. Log and state machine need
    /// the same encoding.
    #[must_use]
    pub fn new(log: GroupLog, durable: Option<DurableIndex>) -> Self {
        Self::with_encoding(log, durable)
    }
}

impl<C: RaftTypeConfig, E: Encoding> LogStore<C, E> {
    /// Creates a store whose entries are encoded with `E`.
    #[must_use]
    pub fn with_encoding(log: GroupLog, durable: Option<DurableIndex>) -> Self {
        LogStore {
            log: EntryLog::new(log, durable),
        }
    }
}

/// Returns openraft's error for a failed read.
fn read_error<N: openraft::NodeId>(
    subject: ErrorSubject<N>,
) -> impl FnOnce(io::Error) -> StorageError<N> {
    move |error| StorageError::from_io_error(subject, ErrorVerb::Read, error)
}

/// Returns openraft's error for a failed write.
fn write_error<N: openraft::NodeId>(
    subject: ErrorSubject<N>,
) -> impl FnOnce(io::Error) -> StorageError<N> {
    move |error| StorageError::from_io_error(subject, ErrorVerb::Write, error)
}

impl<C: RaftTypeConfig, E: Encoding> RaftLogReader<C> for LogStore<C, E> {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<C::Entry>, StorageError<C::NodeId>> {
        let entries = self.log.read(range, usize::MAX);
        entries.map_err(read_error(ErrorSubject::Logs))
    }

    async fn limited_get_log_entries(
        &mut self,
        start: u64,
        end: u64,
    ) -> Result<Vec<C::Entry>, StorageError<C::NodeId>> {
        let entries = self.log.read_to_replicate(start, end);
        entries.map_err(read_error(ErrorSubject::Logs))
    }
}

impl<C: RaftTypeConfig, E: Encoding> RaftLogStorage<C> for LogStore<C, E> {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<C>, StorageError<C::NodeId>> {
        let ends = self.log.ends().await;
        let (last_purged_log_id, last_log_id) = ends.map_err(read_error(ErrorSubject::Logs))?;
        Ok(LogState {
            last_purged_log_id,
            last_log_id,
        })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote<C::NodeId>) -> Result<(), StorageError<C::NodeId>> {
        let saved = self.log.save_vote(vote).await;
        saved.map_err(write_error(ErrorSubject::Vote))
    }

    /// Returns the saved vote as one that no quorum has granted.
    ///
    /// openraft would let a leader that restarts go on in its term, and answer linearizable reads from
    /// the position that it finds committed. That is an old one: the committed position is saved
    /// without a sync. So a started node waits for a leader or an election.
    async fn read_vote(&mut self) -> Result<Option<Vote<C::NodeId>>, StorageError<C::NodeId>> {
        let vote = self.log.vote().map_err(read_error(ErrorSubject::Vote))?;
        Ok(vote.map(|vote: Vote<C::NodeId>| Vote {
            committed: false,
            ..vote
        }))
    }

    async fn save_committed(
        &mut self,
        committed: Option<LogId<C::NodeId>>,
    ) -> Result<(), StorageError<C::NodeId>> {
        let saved = self.log.save_committed(&committed);
        saved.map_err(write_error(ErrorSubject::Logs))
    }

    /// Returns the saved position only if the log has that very entry: a snapshot that was being
    /// installed when the node died may have a position that the log never reached.
    async fn read_committed(
        &mut self,
    ) -> Result<Option<LogId<C::NodeId>>, StorageError<C::NodeId>> {
        let committed = self.log.committed().await;
        committed.map_err(read_error(ErrorSubject::Logs))
    }

    async fn append<I>(
        &mut self,
        entries: I,
        callback: LogFlushed<C>,
    ) -> Result<(), StorageError<C::NodeId>>
    where
        I: IntoIterator<Item = C::Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let done = |synced| callback.log_io_completed(synced);
        let appended = self.log.append(entries, done).await;
        appended.map_err(write_error(ErrorSubject::Logs))
    }

    async fn truncate(&mut self, first: LogId<C::NodeId>) -> Result<(), StorageError<C::NodeId>> {
        let truncated = self.log.truncate_from(first.index).await;
        truncated.map_err(write_error(ErrorSubject::Logs))
    }

    async fn purge(&mut self, last: LogId<C::NodeId>) -> Result<(), StorageError<C::NodeId>> {
        let purged = self.log.purge(&last);
        purged.map_err(write_error(ErrorSubject::Logs))
    }
}
