//! The adapter of [`GroupLog`] to the log storage of openraft 0.10.

use std::fmt::Debug;
use std::io;
use std::marker::PhantomData;
use std::ops::RangeBounds;

use openraft_0_10::alias::{EntryOf, LogIdOf, VoteOf};
use openraft_0_10::async_runtime::OneshotSender;
use openraft_0_10::entry::RaftEntry;
use openraft_0_10::storage::{IOFlushed, RaftLogStorage};
use openraft_0_10::type_config::TypeConfigExt;
use openraft_0_10::{LogState, OptionalSend, RaftLogReader, RaftTypeConfig};

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

impl<C: RaftTypeConfig> LogStore<C> {
    /// Creates a store whose entries are encoded with [`Postcard`].
    ///
    /// `durable` is the index of the group's state machine; see [`crate::LogStore::new`].
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
            log,
            durable,
            types: PhantomData,
        }
    }

    /// Reads and decodes log entries of an index range, up to `bytes` bytes but at least one entry.
    fn read(&self, range: impl RangeBounds<u64>, bytes: usize) -> io::Result<Vec<EntryOf<C>>> {
        let entries = self.log.entries(range, bytes)?;
        let decode = |(_, entry): (u64, Vec<u8>)| Ok(E::decode(&entry)?);
        entries.into_iter().map(decode).collect()
    }

    /// Calls `write` with a completion callback, and waits until the WAL sync has made it durable.
    async fn durably(
        &self,
        write: impl FnOnce(&GroupLog, Completion) -> koeldb::Result<()>,
    ) -> io::Result<()> {
        let (sender, receiver) = C::oneshot();
        let done = |synced| {
            let _ = sender.send(synced);
        };
        write(&self.log, Box::new(done))?;
        let synced = receiver.await;
        Ok(synced.map_err(|_| io::Error::other("the Raft logs were closed"))??)
    }

    /// Discards the whole log if it lacks the entry at which the state was when it was opened.
    ///
    /// The state names committed entries. A log with another entry there, or none, was not purged
    /// yet when a snapshot was installed, or lost entries that the state has from a flush. What it
    /// has behind that position continues the other entry, so it is not committed.
    async fn reconcile(&self) -> io::Result<()> {
        let opened = self.durable.as_ref().and_then(DurableIndex::opened);
        let Some((index, id)) = opened else {
            return Ok(());
        };
        if self.log.purged()?.is_some_and(|(last, _)| last >= *index) {
            return Ok(());
        }
        let applied: LogIdOf<C> = E::decode(id)?;
        let found = self.read(*index..=*index, usize::MAX)?;
        if found.iter().any(|entry| entry.log_id() == applied) {
            return Ok(());
        }
        self.durably(|log, done| log.restart_behind(*index, id, done))
            .await
    }
}

impl<C: RaftTypeConfig, E: Encoding> RaftLogReader<C> for LogStore<C, E> {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> io::Result<Vec<EntryOf<C>>> {
        self.read(range, usize::MAX)
    }

    async fn limited_get_log_entries(
        &mut self,
        start: u64,
        end: u64,
    ) -> io::Result<Vec<EntryOf<C>>> {
        self.read(start..end, READ_BYTES)
    }

    async fn read_vote(&mut self) -> io::Result<Option<VoteOf<C>>> {
        let vote = self.log.vote()?;
        Ok(vote.map(|vote| E::decode(&vote)).transpose()?)
    }
}

impl<C: RaftTypeConfig, E: Encoding> RaftLogStorage<C> for LogStore<C, E> {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> io::Result<LogState<C>> {
        self.reconcile().await?;
        let purged = self.log.purged()?;
        let purged: Option<LogIdOf<C>> = purged.map(|(_, id)| E::decode(&id)).transpose()?;
        let last = match self.log.last()? {
            Some((_, entry)) => Some(E::decode::<EntryOf<C>>(&entry)?.log_id()),
            None => purged.clone(),
        };
        Ok(LogState {
            last_purged_log_id: purged,
            last_log_id: last,
        })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &VoteOf<C>) -> io::Result<()> {
        let vote = E::encode(vote)?;
        self.durably(|log, done| log.save_vote(&vote, done)).await
    }

    async fn save_committed(&mut self, committed: Option<LogIdOf<C>>) -> io::Result<()> {
        Ok(self.log.save_committed(&E::encode(&committed)?)?)
    }

    /// Returns the saved position only if the log has that very entry: a snapshot that was being
    /// installed when the node died may have a position that the log never reached, or reached with
    /// entries of another leader, which must not be applied.
    async fn read_committed(&mut self) -> io::Result<Option<LogIdOf<C>>> {
        // openraft asks for this first, and would look for the entries up to it.
        self.reconcile().await?;
        let committed = self.log.committed()?;
        let committed: Option<Option<LogIdOf<C>>> =
            committed.map(|id| E::decode(&id)).transpose()?;
        let Some(committed) = committed.flatten() else {
            return Ok(None);
        };
        let entries = self.read(committed.index()..=committed.index(), usize::MAX)?;
        let is_there = entries.iter().any(|entry| entry.log_id() == committed);
        Ok(is_there.then_some(committed))
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<C>) -> io::Result<()>
    where
        I: IntoIterator<Item = EntryOf<C>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let encode = |entry: EntryOf<C>| E::encode(&entry).map(|bytes| (entry.index(), bytes));
        let entries = entries.into_iter().map(encode);
        let entries = entries.collect::<koeldb::Result<Vec<_>>>()?;
        let done = |synced: koeldb::Result<()>| callback.io_completed(synced.map_err(Into::into));
        Ok(self.log.append(entries, done)?)
    }

    async fn truncate_after(&mut self, last: Option<LogIdOf<C>>) -> io::Result<()> {
        match last.map_or(Some(0), |last| last.index().checked_add(1)) {
            Some(first) => {
                self.durably(|log, done| log.truncate_from(first, done))
                    .await
            }
            None => Ok(()),
        }
    }

    async fn purge(&mut self, last: LogIdOf<C>) -> io::Result<()> {
        let is_durable = |durable: &DurableIndex| durable.covers(last.index());
        if !self.durable.as_ref().is_none_or(is_durable) {
            return Err(io::Error::other(format!(
                "no durable snapshot has the entries up to {last}, which are to be purged"
            )));
        }
        Ok(self.log.purge(last.index(), &E::encode(&last)?)?)
    }
}
