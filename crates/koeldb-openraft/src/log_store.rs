//! The adapter of [`GroupLog`] to openraft's log storage.

use std::fmt::Debug;
use std::io;
use std::marker::PhantomData;
use std::ops::RangeBounds;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use openraft::alias::{EntryOf, LogIdOf, VoteOf};
use openraft::async_runtime::OneshotSender;
use openraft::entry::RaftEntry;
use openraft::storage::{IOFlushed, RaftLogStorage};
use openraft::type_config::TypeConfigExt;
use openraft::{LogState, OptionalSend, RaftLogReader, RaftTypeConfig};

use crate::encoding::{Encoding, Postcard};
use crate::logs::GroupLog;
use crate::syncer::Completion;

/// The byte limit of the entries that one read for replication returns.
pub(crate) const READ_BYTES: usize = 1 << 20;

/// The shared index of the last log entry that is durable in the state or a snapshot.
///
/// A state machine raises it, and the log refuses to purge beyond it: the Raft log is the
/// write-ahead log of the state. A log that is opened is compared with the position that the state
/// machine found.
#[derive(Clone, Debug, Default)]
pub struct DurableIndex {
    /// The number of durable entries: one more than the index of the last one.
    count: Arc<AtomicU64>,
    /// The position of the state, or of its newest snapshot if that is ahead, when they were opened:
    /// the index and the encoded id of the last entry.
    opened: Arc<OnceLock<(u64, Vec<u8>)>>,
}

impl DurableIndex {
    /// Marks the entries up to `index`, inclusive, as durable; never lowers the index.
    pub(crate) fn raise(&self, index: u64) {
        let count = index.saturating_add(1);
        self.count.fetch_max(count, Ordering::AcqRel);
    }

    /// Stores the applied position found when the state was opened: entry index and encoded log id.
    pub(crate) fn set_opened(&self, index: u64, id: Vec<u8>) {
        let _ = self.opened.set((index, id));
        self.raise(index);
    }

    /// Returns the position set by [`DurableIndex::set_opened`].
    pub(crate) fn opened(&self) -> Option<&(u64, Vec<u8>)> {
        self.opened.get()
    }

    /// Returns whether the entry at `index` is durable in the state or a snapshot.
    pub(crate) fn covers(&self, index: u64) -> bool {
        index < self.count.load(Ordering::Acquire)
    }
}

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
    /// With `durable`, the index of the group's state machine, a purge beyond it fails, and entries
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
