//! The log of a group with its entries, votes and positions as values of openraft.

use std::io;
use std::marker::PhantomData;
use std::ops::RangeBounds;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::durable::DurableIndex;
use crate::encoding::Encoding;
use crate::logs::GroupLog;
use crate::release::Release;
use crate::syncer::Completion;

/// The byte limit of the entries that one read for replication returns.
const READ_BYTES: usize = 1 << 20;

/// A [`GroupLog`] of entries of release `R`, encoded with `E`, beside the state of its group.
pub(crate) struct EntryLog<R, E> {
    log: GroupLog,
    durable: Option<DurableIndex>,
    /// The purge that waits until its position is durable.
    deferred: Arc<Mutex<Option<Purge>>>,
    types: PhantomData<fn() -> (R, E)>,
}

/// A position up to which the log is to be purged: the index and the encoded id of the entry.
#[derive(Clone)]
struct Purge {
    index: u64,
    id: Vec<u8>,
}

impl<R, E> Clone for EntryLog<R, E> {
    fn clone(&self) -> Self {
        EntryLog {
            log: self.log.clone(),
            durable: self.durable.clone(),
            deferred: Arc::clone(&self.deferred),
            types: PhantomData,
        }
    }
}

impl<R, E> EntryLog<R, E> {
    /// Creates the log; it is not purged beyond `durable`, the index of the group's state machine.
    pub(crate) fn new(log: GroupLog, durable: Option<DurableIndex>) -> Self {
        EntryLog {
            log,
            durable,
            deferred: Arc::default(),
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

    /// Deletes the entries from index `first` on, durably.
    pub(crate) async fn truncate_from(&self, first: u64) -> io::Result<()> {
        self.durably(|log, done| log.truncate_from(first, done))
            .await
    }
}

impl<R: Release, E: Encoding> EntryLog<R, E> {
    /// Reads and decodes log entries of an index range, up to `bytes` bytes but at least one entry.
    pub(crate) fn read(
        &self,
        range: impl RangeBounds<u64>,
        bytes: usize,
    ) -> io::Result<Vec<R::Entry>> {
        let entries = self.log.entries(range, bytes)?;
        let decode = |(_, entry): (u64, Vec<u8>)| Ok(E::decode(&entry)?);
        entries.into_iter().map(decode).collect()
    }

    /// Reads the first entries of `start..end` to replicate them; none if `start` is purged.
    ///
    /// openraft may replicate a range that it has let the log purge meanwhile. Sent behind the entry
    /// before `start`, the rest of the range would leave a hole in the follower's log.
    pub(crate) fn read_to_replicate(&self, start: u64, end: u64) -> io::Result<Vec<R::Entry>> {
        let mut entries = self.read(start..end, READ_BYTES)?;
        let is_whole = |first: &R::Entry| R::index(&R::log_id(first)) == start;
        if !entries.first().is_some_and(is_whole) {
            entries.clear();
        }
        Ok(entries)
    }

    /// Returns whether the log has the very entry `id`.
    fn has(&self, id: &R::LogId) -> io::Result<bool> {
        let index = R::index(id);
        let entries = self.read(index..=index, usize::MAX)?;
        Ok(entries.iter().any(|entry| R::log_id(entry) == *id))
    }

    /// Reads the purged position and the last one.
    pub(crate) async fn ends(&self) -> io::Result<(Option<R::LogId>, Option<R::LogId>)> {
        self.reconcile().await?;
        let purged = self.log.purged()?;
        let purged: Option<R::LogId> = purged.map(|(_, id)| E::decode(&id)).transpose()?;
        let last = match self.log.last()? {
            Some((_, entry)) => Some(R::log_id(&E::decode(&entry)?)),
            None => purged.clone(),
        };
        Ok((purged, last))
    }

    /// Discards the whole log if it lacks the entry at which the state was when it was opened.
    ///
    /// The state names committed entries. A log with another entry there, or none, was not purged
    /// yet when a snapshot was installed, or lost entries that the state has from a flush. What it
    /// has behind that position continues the other entry, so it is not committed.
    async fn reconcile(&self) -> io::Result<()> {
        let Some((index, id)) = self.durable.as_ref().and_then(DurableIndex::opened) else {
            return Ok(());
        };
        if self.log.purged()?.is_some_and(|(last, _)| last >= *index) {
            return Ok(());
        }
        if self.has(&E::decode(id)?)? {
            return Ok(());
        }
        self.durably(|log, done| log.restart_behind(*index, id, done))
            .await
    }

    /// Saves the vote, durably.
    pub(crate) async fn save_vote<V: Serialize>(&self, vote: &V) -> io::Result<()> {
        let vote = E::encode(vote)?;
        self.durably(|log, done| log.save_vote(&vote, done)).await
    }

    /// Reads the saved vote; `None` if none was ever saved.
    pub(crate) fn vote<V: DeserializeOwned>(&self) -> io::Result<Option<V>> {
        let vote = self.log.vote()?;
        Ok(vote.map(|vote| E::decode(&vote)).transpose()?)
    }

    /// Saves the committed position, which is durable with the next sync.
    pub(crate) fn save_committed(&self, committed: &Option<R::LogId>) -> io::Result<()> {
        Ok(self.log.save_committed(&E::encode(committed)?)?)
    }

    /// Reads the saved committed position if the log has that very entry.
    ///
    /// A snapshot that was being installed when the node died may have a position that the log never
    /// reached, or reached with entries of another leader, which must not be applied.
    pub(crate) async fn committed(&self) -> io::Result<Option<R::LogId>> {
        // openraft asks for this first, and would look for the entries up to it.
        self.reconcile().await?;
        let committed = self.log.committed()?;
        let committed: Option<Option<R::LogId>> = committed.map(|id| E::decode(&id)).transpose()?;
        match committed.flatten() {
            Some(committed) if self.has(&committed)? => Ok(Some(committed)),
            _ => Ok(None),
        }
    }

    /// Appends entries; `done` is called when they are durable.
    ///
    /// Entries behind a snapshot that is being installed wait for it: confirmed, they would stand for
    /// those of the snapshot, too.
    pub(crate) async fn append(
        &self,
        entries: impl IntoIterator<Item = R::Entry>,
        done: impl FnOnce(io::Result<()>) + Send + 'static,
    ) -> io::Result<()> {
        self.purge_deferred().await?;
        let encode = |entry: R::Entry| {
            let index = R::index(&R::log_id(&entry));
            E::encode(&entry).map(|bytes| (index, bytes))
        };
        let entries = entries.into_iter().map(encode);
        let entries = entries.collect::<koeldb::Result<Vec<_>>>()?;
        let done = |synced: koeldb::Result<()>| done(synced.map_err(Into::into));
        Ok(self.log.append(entries, done)?)
    }

    /// Deletes the entries up to `last`, inclusive, as soon as they are durable in the state or a
    /// snapshot.
    ///
    /// openraft purges the log of a node while the snapshot that replaces it is being installed. Until
    /// that is durable, the entries are all that the node has; a crash leaves them.
    pub(crate) fn purge(&self, last: &R::LogId) -> io::Result<()> {
        let (index, id) = (R::index(last), E::encode(last)?);
        self.carry_out(Purge { index, id })
    }

    /// Carries a purge out, or defers it.
    fn carry_out(&self, purge: Purge) -> io::Result<()> {
        let is_durable = |durable: &DurableIndex| durable.covers(purge.index);
        let mut deferred = self.deferred();
        let is_newer = |waiting: &Purge| waiting.index < purge.index;
        if self.durable.as_ref().is_none_or(is_durable) {
            self.log.purge(purge.index, &purge.id)?;
            deferred.take_if(|waiting| waiting.index <= purge.index);
        } else if deferred.as_ref().is_none_or(is_newer) {
            *deferred = Some(purge);
        }
        Ok(())
    }

    /// Waits until a purge that was deferred can be carried out, and does it.
    async fn purge_deferred(&self) -> io::Result<()> {
        let waiting = self.deferred().clone();
        let (Some(purge), Some(durable)) = (waiting, &self.durable) else {
            return Ok(());
        };
        durable.wait_for(purge.index).await?;
        self.carry_out(purge)
    }

    fn deferred(&self) -> MutexGuard<'_, Option<Purge>> {
        let deferred = self.deferred.lock();
        deferred.unwrap_or_else(PoisonError::into_inner)
    }
}
