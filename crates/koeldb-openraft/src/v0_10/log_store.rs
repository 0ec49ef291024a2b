//! The adapter of [`GroupLog`] to the log storage of openraft 0.10.

use std::fmt::Debug;
use std::io;
use std::ops::RangeBounds;

use openraft_0_10::alias::{EntryOf, LogIdOf, VoteOf};
use openraft_0_10::storage::{IOFlushed, RaftLogStorage};
use openraft_0_10::{LogState, OptionalSend, RaftLogReader, RaftTypeConfig};

use super::prerelease::Prerelease;
use crate::durable::DurableIndex;
use crate::encoding::{Encoding, Postcard};
use crate::entry_log::EntryLog;
use crate::logs::GroupLog;

/// The log of a Raft group as openraft's `RaftLogStorage`; clones serve as its log readers.
pub struct LogStore<C, E = Postcard> {
    log: EntryLog<Prerelease<C>, E>,
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
            log: EntryLog::new(log, durable),
        }
    }
}

impl<C: RaftTypeConfig, E: Encoding> RaftLogReader<C> for LogStore<C, E> {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> io::Result<Vec<EntryOf<C>>> {
        self.log.read(range, usize::MAX)
    }

    async fn limited_get_log_entries(
        &mut self,
        start: u64,
        end: u64,
    ) -> io::Result<Vec<EntryOf<C>>> {
        self.log.read_to_replicate(start, end)
    }

    async fn read_vote(&mut self) -> io::Result<Option<VoteOf<C>>> {
        self.log.vote()
    }
}

impl<C: RaftTypeConfig, E: Encoding> RaftLogStorage<C> for LogStore<C, E> {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> io::Result<LogState<C>> {
        let (last_purged_log_id, last_log_id) = self.log.ends().await?;
        Ok(LogState {
            last_purged_log_id,
            last_log_id,
        })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &VoteOf<C>) -> io::Result<()> {
        self.log.save_vote(vote).await
    }

    async fn save_committed(&mut self, committed: Option<LogIdOf<C>>) -> io::Result<()> {
        self.log.save_committed(&committed)
    }

    /// Returns the saved position only if the log has that very entry: a snapshot that was being
    /// installed when the node died may have a position that the log never reached.
    async fn read_committed(&mut self) -> io::Result<Option<LogIdOf<C>>> {
        self.log.committed().await
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<C>) -> io::Result<()>
    where
        I: IntoIterator<Item = EntryOf<C>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        self.log
            .append(entries, |synced| callback.io_completed(synced))
            .await
    }

    async fn truncate_after(&mut self, last: Option<LogIdOf<C>>) -> io::Result<()> {
        match last.map_or(Some(0), |last| last.index().checked_add(1)) {
            Some(first) => self.log.truncate_from(first).await,
            None => Ok(()),
        }
    }

    async fn purge(&mut self, last: LogIdOf<C>) -> io::Result<()> {
        self.log.purge(&last)
    }
}
