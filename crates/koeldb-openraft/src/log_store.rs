//! The adapter of [`GroupLog`] to openraft's log storage.

use std::fmt::Debug;
use std::io;
use std::marker::PhantomData;
use std::ops::RangeBounds;

use openraft::storage::{LogFlushed, RaftLogStorage};
use openraft::{
    ErrorSubject, ErrorVerb, LogId, LogState, OptionalSend, RaftLogId, RaftLogReader,
    RaftTypeConfig, StorageError, Vote,
};

use crate::durable::DurableIndex;
use crate::encoding::{Encoding, Postcard};
use crate::logs::{GroupLog, READ_BYTES};
use crate::syncer::Completion;

/// The log of a Raft group as openraft's `RaftLogStorage`; clones serve as its log readers.
pub struct LogStore<C, E = Postcard> {
    log: GroupLog,
    durable: Option<DurableIndex>,
    types: PhantomData<fn() -> (C, E)>,
}

impl<C, E> Clone for LogStore<C, E> {
    fn clone(&self) -> Self {
        LogStore {
            log: self.log.clone(),
            durable: self.durable.clone(),
            types: PhantomData,
        }
    }
}

/// Returns openraft's error for a failed read of the log.
fn read_error<C: RaftTypeConfig>(error: impl Into<io::Error>) -> StorageError<C::NodeId> {
    StorageError::from_io_error(ErrorSubject::Logs, ErrorVerb::Read, error.into())
}

/// Returns openraft's error for a failed write of the log.
fn write_error<C: RaftTypeConfig>(error: impl Into<io::Error>) -> StorageError<C::NodeId> {
    StorageError::from_io_error(ErrorSubject::Logs, ErrorVerb::Write, error.into())
}

impl<C: RaftTypeConfig> LogStore<C> {
    /// Creates a store whose entries are encoded with [`Postcard`].
    ///
    /// With `durable`, the index of the group's state machine, a purge beyond it fails, and entries
    /// that contradict the state are removed at the start: log and state are two databases, and a
    /// crash may leave the log behind a snapshot that was being installed. Log and state machine need
    /// the same encoding.
    #[must_use]
    pub fn new(log: GroupLog, durable: Option<DurableIndex>) -> Self {
        Self::with_encoding(log, durable)
    }
}

impl<C: RaftTypeConfig, E: Encoding> LogStore<C, E>
where
    C::Entry: serde::Serialize + serde::de::DeserializeOwned,
{
    /// Reads and decodes log entries of an index range, up to `bytes` bytes but at least one entry.
    fn read(&self, range: impl RangeBounds<u64>, bytes: usize) -> io::Result<Vec<C::Entry>> {
        let entries = self.log.entries(range, bytes)?;
        let decode = |(_, entry): (u64, Vec<u8>)| Ok(E::decode(&entry)?);
        entries.into_iter().map(decode).collect()
    }

    /// Reads the id of the entry at `index`; `None` if the log lacks it.
    fn id_at(&self, index: u64) -> io::Result<Option<LogId<C::NodeId>>> {
        let entries = self.read(index..=index, usize::MAX)?;
        Ok(entries.first().map(|entry| entry.get_log_id().clone()))
    }

    /// Returns the purged position and the last one.
    fn state(&self) -> io::Result<LogState<C>> {
        let purged = self.log.purged()?;
        let purged: Option<LogId<C::NodeId>> = purged.map(|(_, id)| E::decode(&id)).transpose()?;
        let last = match self.log.last()? {
            Some((_, entry)) => Some(E::decode::<C::Entry>(&entry)?.get_log_id().clone()),
            None => purged.clone(),
        };
        Ok(LogState {
            last_purged_log_id: purged,
            last_log_id: last,
        })
    }

    /// Returns the saved committed position if the log has that very entry.
    fn committed(&self) -> io::Result<Option<LogId<C::NodeId>>> {
        let committed = self.log.committed()?;
        let committed: Option<Option<LogId<C::NodeId>>> =
            committed.map(|id| E::decode(&id)).transpose()?;
        let Some(committed) = committed.flatten() else {
            return Ok(None);
        };
        let found = self.id_at(committed.index)?;
        Ok(found.filter(|found| *found == committed))
    }

    /// Discards the whole log if it lacks the entry at which the state was when it was opened.
    ///
    /// The state names committed entries. What another log has behind that position continues
    /// another entry, so it is not committed.
    async fn reconcile(&self) -> io::Result<()> {
        let Some((index, id)) = self.durable.as_ref().and_then(DurableIndex::opened) else {
            return Ok(());
        };
        if self.log.purged()?.is_some_and(|(last, _)| last >= *index) {
            return Ok(());
        }
        let applied: LogId<C::NodeId> = E::decode(id)?;
        if self.id_at(*index)? == Some(applied) {
            return Ok(());
        }
        self.durably(|log, done| log.restart_behind(*index, id, done))
            .await
    }
}

impl<C: RaftTypeConfig, E: Encoding> LogStore<C, E> {
    /// Creates a store whose entries are encoded with `E`.
    #[must_use]
    pub fn with_encoding(log: GroupLog, durable: Option<DurableIndex>) -> Self {
        LogStore {
            log,
            durable,
            types: PhantomData,
        }
    }

    /// Calls `write` with a completion callback, and waits until the WAL sync has made it durable.
    async fn durably(
        &self,
        write: impl FnOnce(&GroupLog, Completion) -> koeldb::Result<()>,
    ) -> io::Result<()> {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let done = |synced| {
            let _ = sender.send(synced);
        };
        write(&self.log, Box::new(done))?;
        let synced = receiver.await;
        Ok(synced.map_err(|_| io::Error::other("the Raft logs were closed"))??)
    }
}

impl<C: RaftTypeConfig, E: Encoding> RaftLogReader<C> for LogStore<C, E>
where
    C::Entry: serde::Serialize + serde::de::DeserializeOwned,
{
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<C::Entry>, StorageError<C::NodeId>> {
        self.read(range, usize::MAX).map_err(read_error::<C>)
    }

    async fn limited_get_log_entries(
        &mut self,
        start: u64,
        end: u64,
    ) -> Result<Vec<C::Entry>, StorageError<C::NodeId>> {
        self.read(start..end, READ_BYTES).map_err(read_error::<C>)
    }
}

impl<C: RaftTypeConfig, E: Encoding> RaftLogStorage<C> for LogStore<C, E>
where
    C::Entry: serde::Serialize + serde::de::DeserializeOwned,
{
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<C>, StorageError<C::NodeId>> {
        self.reconcile().await.map_err(write_error::<C>)?;
        self.state().map_err(read_error::<C>)
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote<C::NodeId>) -> Result<(), StorageError<C::NodeId>> {
        let vote = E::encode(vote).map_err(write_error::<C>)?;
        let saved = self.durably(|log, done| log.save_vote(&vote, done)).await;
        saved.map_err(|error| {
            StorageError::from_io_error(ErrorSubject::Vote, ErrorVerb::Write, error)
        })
    }

    async fn read_vote(&mut self) -> Result<Option<Vote<C::NodeId>>, StorageError<C::NodeId>> {
        let vote = self.log.vote();
        let vote = vote.and_then(|vote| vote.map(|vote| E::decode(&vote)).transpose());
        vote.map_err(|error| {
            StorageError::from_io_error(ErrorSubject::Vote, ErrorVerb::Read, error.into())
        })
    }

    async fn save_committed(
        &mut self,
        committed: Option<LogId<C::NodeId>>,
    ) -> Result<(), StorageError<C::NodeId>> {
        let saved = E::encode(&committed).and_then(|bytes| self.log.save_committed(&bytes));
        saved.map_err(write_error::<C>)
    }

    /// Returns the saved position only if the log has that very entry: a snapshot that was being
    /// installed when the node died may have a position that the log never reached.
    async fn read_committed(
        &mut self,
    ) -> Result<Option<LogId<C::NodeId>>, StorageError<C::NodeId>> {
        self.reconcile().await.map_err(write_error::<C>)?;
        self.committed().map_err(read_error::<C>)
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
        let encode =
            |entry: C::Entry| E::encode(&entry).map(|bytes| (entry.get_log_id().index, bytes));
        let entries = entries.into_iter().map(encode);
        let entries = entries.collect::<koeldb::Result<Vec<_>>>();
        let done =
            |synced: koeldb::Result<()>| callback.log_io_completed(synced.map_err(Into::into));
        let appended = entries.and_then(|entries| self.log.append(entries, done));
        appended.map_err(write_error::<C>)
    }

    async fn truncate(&mut self, first: LogId<C::NodeId>) -> Result<(), StorageError<C::NodeId>> {
        let truncated = self.durably(|log, done| log.truncate_from(first.index, done));
        truncated.await.map_err(write_error::<C>)
    }

    async fn purge(&mut self, last: LogId<C::NodeId>) -> Result<(), StorageError<C::NodeId>> {
        let is_durable = |durable: &DurableIndex| durable.covers(last.index);
        if !self.durable.as_ref().is_none_or(is_durable) {
            return Err(write_error::<C>(io::Error::other(format!(
                "no durable snapshot has the entries up to {last}, which are to be purged"
            ))));
        }
        let purged = E::encode(&last).and_then(|id| self.log.purge(last.index, &id));
        purged.map_err(write_error::<C>)
    }
}
