//! The log database of a node, shared by its Raft groups.

use std::ops::{Bound, RangeBounds};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use koeldb::{
    ColumnFamily, ColumnFamilyDescriptor, ColumnFamilyOptions, Db, Error, Options, ReadOptions,
    RecoveryMode, Result, WriteBatch,
};

use crate::key::{self, Meta};
use crate::syncer::RunningSyncer;

/// The column family of votes and log positions; small, so its flushes are cheap.
const META_FAMILY: &str = "meta";

/// The Raft logs of all groups of a node, in one database; clones are handles to it.
///
/// Entries, votes and positions are bytes here. A thread syncs the write-ahead log whenever
/// callbacks wait, once for all of them.
#[derive(Clone)]
pub struct RaftLogs {
    shared: Arc<Shared>,
}

/// The parts that all clones share: the database with its syncer, and the `meta` column family.
struct Shared {
    running: RunningSyncer,
    meta: ColumnFamily,
}

impl RaftLogs {
    /// Opens the Raft logs in the directory `path`, which is created if it does not exist.
    ///
    /// Of the settings of column families in `options` only `write_buffer_size` and `compression` are
    /// used: comparators, filters and the like are for the data of applications.
    ///
    /// # Errors
    /// `InvalidArgument` if `options` has a recovery mode that skips damaged records (a log with a
    /// hole is no Raft log), or a `wal_dir`, which states would share. Errors of [`Db::open`].
    pub fn open(options: &Options, path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(options, path.as_ref(), true)
    }

    /// Opens the logs without a sync thread, for simulations: the caller calls `sync_waiting`.
    ///
    /// Until [`RaftLogs::sync_waiting`] is called, callbacks wait.
    ///
    /// # Errors
    /// See [`RaftLogs::open`].
    pub fn open_without_thread(options: &Options, path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(options, path.as_ref(), false)
    }

    /// Opens the log database; with `has_thread`, a thread syncs the WAL for waiting callbacks.
    fn open_with(options: &Options, path: &Path, has_thread: bool) -> Result<Self> {
        if options.get_wal_recovery_mode() == RecoveryMode::SkipAnyCorruptedRecords {
            return Err(Error::invalid_argument(
                "a Raft log must not be recovered by skipping damaged records",
            ));
        }
        refuse_wal_dir(options)?;
        let mut entries = ColumnFamilyOptions::new();
        entries
            .set_write_buffer_size(options.get_write_buffer_size())
            .set_compression_type(options.get_compression_type());
        let entries = ColumnFamilyDescriptor::new("default", entries);
        let meta = ColumnFamilyDescriptor::new(META_FAMILY, ColumnFamilyOptions::new());
        let mut options = options.clone();
        options
            .create_if_missing(true)
            .create_missing_column_families(true);
        let (db, [_, meta]) = Db::open_cf(&options, path, [entries, meta])?;
        let running = RunningSyncer::start(db, has_thread)?;
        let shared = Arc::new(Shared { running, meta });
        Ok(RaftLogs { shared })
    }

    /// Records that the logs belong to the node with the number `node`.
    ///
    /// The first call is durable with the next sync. Another node with these logs would claim what this
    /// one has voted and confirmed.
    ///
    /// # Errors
    /// `InvalidArgument` if they belong to another node. Errors of reads, and of earlier writes.
    pub fn claim(&self, node: u64) -> Result<()> {
        let syncer = &self.shared.running.syncer;
        syncer.check()?;
        match self.shared.meta.get(key::NODE)? {
            None => {
                let mut batch = WriteBatch::new();
                batch.put_cf(&self.shared.meta, key::NODE, node.to_le_bytes());
                syncer.write(&batch)
            }
            Some(owner) if owner[..] == node.to_le_bytes() => Ok(()),
            Some(owner) => {
                let owner = owner.split_first_chunk().map(|(owner, _)| *owner);
                let owner = owner.map_or(0, u64::from_le_bytes);
                Err(Error::invalid_argument(format!(
                    "the Raft log in {} is that of node {owner}, not of node {node}",
                    self.db().path().display()
                )))
            }
        }
    }

    /// Returns the log of `group`, which is empty if it has never been written.
    ///
    /// At most one handle and its clones may write a group.
    ///
    /// # Errors
    /// Errors of reads.
    pub fn group(&self, group: u64) -> Result<GroupLog> {
        let log = GroupLog {
            logs: self.clone(),
            group,
            first: Arc::new(AtomicU64::new(0)),
        };
        if let Some(purged) = log.meta(Meta::Purged)? {
            let (index, _) = split_index(&purged)?;
            log.first.store(index.saturating_add(1), Ordering::Release);
        }
        Ok(log)
    }

    /// Syncs the WAL once if callbacks wait for it, and calls them; returns their number.
    ///
    /// Needed only for logs without a thread.
    #[allow(clippy::must_use_candidate, reason = "called for its effect")]
    pub fn sync_waiting(&self) -> usize {
        self.shared.running.syncer.sync_waiting()
    }

    /// Returns the number of WAL syncs since the logs were opened.
    #[must_use]
    pub fn sync_count(&self) -> u64 {
        self.shared.running.syncer.sync_count()
    }

    /// Returns the database that stores the logs, for its properties and statistics.
    #[must_use]
    pub fn db(&self) -> &Db {
        &self.shared.running.syncer.db
    }
}

/// The log of one Raft group; clones are handles to the same log.
#[derive(Clone)]
pub struct GroupLog {
    logs: RaftLogs,
    group: u64,
    /// The first index that is not purged.
    first: Arc<AtomicU64>,
}

impl GroupLog {
    /// Appends log entries without waiting for a sync; `done` is called when they are durable.
    ///
    /// The entries are readable when this returns. All earlier writes are durable too when `done`
    /// is called.
    ///
    /// # Errors
    /// If the write or an earlier one failed; `done` is not called then.
    pub fn append<E: AsRef<[u8]>>(
        &self,
        entries: impl IntoIterator<Item = (u64, E)>,
        done: impl FnOnce(Result<()>) + Send + 'static,
    ) -> Result<()> {
        let mut batch = WriteBatch::new();
        for (index, entry) in entries {
            batch.put(key::entry(self.group, index), entry);
        }
        self.syncer().write_durably(&batch, Box::new(done))
    }

    /// Writes the Raft vote without waiting for a sync; `done` is called when it is durable.
    ///
    /// # Errors
    /// If the write or an earlier one failed; `done` is not called then.
    pub fn save_vote(
        &self,
        vote: &[u8],
        done: impl FnOnce(Result<()>) + Send + 'static,
    ) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.put_cf(self.family(), key::meta(self.group, Meta::Vote), vote);
        self.syncer().write_durably(&batch, Box::new(done))
    }

    /// Deletes the log entries from index `first` on; `done` is called when that is durable.
    ///
    /// The state is a database of its own. Were it to advance over entries of another leader first,
    /// a power cut could bring the removed ones back below the applied position.
    ///
    /// # Errors
    /// If the write or an earlier one failed; `done` is not called then.
    pub fn truncate_from(
        &self,
        first: u64,
        done: impl FnOnce(Result<()>) + Send + 'static,
    ) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete_range(
            key::entry(self.group, first),
            key::behind(self.group, u64::MAX),
        );
        self.syncer().write_durably(&batch, Box::new(done))
    }

    /// Deletes the log entries up to `last`, inclusive, and records `last` as the purged position.
    ///
    /// `position` describes the last deleted entry and is stored with it.
    ///
    /// A purge that a crash undoes has to be repeated; nothing is lost by it.
    ///
    /// # Errors
    /// If the write or an earlier one failed.
    pub fn purge(&self, last: u64, position: &[u8]) -> Result<()> {
        self.syncer().write(&self.purging(last, last, position))?;
        self.first.store(last.saturating_add(1), Ordering::Release);
        Ok(())
    }

    /// Deletes all log entries, so that the log starts after `last`, the new purged position.
    ///
    /// `position` is stored as in [`GroupLog::purge`]; `done` is called when that is durable.
    ///
    /// # Errors
    /// If the write or an earlier one failed; `done` is not called then.
    pub fn restart_behind(
        &self,
        last: u64,
        position: &[u8],
        done: impl FnOnce(Result<()>) + Send + 'static,
    ) -> Result<()> {
        let batch = self.purging(u64::MAX, last, position);
        self.syncer().write_durably(&batch, Box::new(done))?;
        self.first.store(last.saturating_add(1), Ordering::Release);
        Ok(())
    }

    /// Builds the batch that removes the entries up to `removed` and records `last` as purged.
    fn purging(&self, removed: u64, last: u64, position: &[u8]) -> WriteBatch {
        let mut value = last.to_le_bytes().to_vec();
        value.extend_from_slice(position);
        let mut batch = WriteBatch::new();
        batch
            .put_cf(self.family(), key::meta(self.group, Meta::Purged), value)
            .delete_range(key::entry(self.group, 0), key::behind(self.group, removed));
        batch
    }

    /// Writes the committed position without a sync of its own; it is durable with the next sync.
    ///
    /// # Errors
    /// If the write or an earlier one failed.
    pub fn save_committed(&self, committed: &[u8]) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.put_cf(
            self.family(),
            key::meta(self.group, Meta::Committed),
            committed,
        );
        self.syncer().write(&batch)
    }

    /// Reads log entries of an index range, up to `bytes_max` bytes but at least one entry.
    ///
    /// # Errors
    /// `Corruption` if an entry between two others is missing. If a write has failed, or the read
    /// fails.
    pub fn entries(
        &self,
        range: impl RangeBounds<u64>,
        bytes_max: usize,
    ) -> Result<Vec<(u64, Vec<u8>)>> {
        self.syncer().check()?;
        let from = match range.start_bound() {
            Bound::Included(from) => Some(*from),
            Bound::Excluded(before) => before.checked_add(1),
            Bound::Unbounded => Some(0),
        };
        let to = match range.end_bound() {
            Bound::Included(last) => Some(*last),
            Bound::Excluded(behind) => behind.checked_sub(1),
            Bound::Unbounded => Some(u64::MAX),
        };
        // Entries below `first` may still be covered by a tombstone each.
        let first = self.first.load(Ordering::Acquire);
        let (Some(from), Some(to)) = (from.map(|from| from.max(first)), to) else {
            return Ok(Vec::new());
        };
        if from > to {
            return Ok(Vec::new());
        }
        let range = self.range(from, to);
        let mut found: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut bytes = 0;
        for entry in self.logs.db().range_opt(range, &ReadOptions::new()) {
            let (key, value) = entry?;
            let index = key::index(&key)?;
            if let Some((before, _)) = found.last()
                && before.checked_add(1) != Some(index)
            {
                return Err(Error::corruption(format!(
                    "entry {index} of a Raft log follows entry {before}"
                )));
            }
            bytes += value.len();
            if bytes > bytes_max && !found.is_empty() {
                break;
            }
            found.push((index, value.to_vec()));
        }
        Ok(found)
    }

    /// Reads the last log entry with its index; `None` if the log has no entries.
    ///
    /// # Errors
    /// If a write has failed, or the read fails.
    pub fn last(&self) -> Result<Option<(u64, Vec<u8>)>> {
        self.syncer().check()?;
        let first = self.first.load(Ordering::Acquire);
        let range = self.range(first, u64::MAX);
        let mut cursor = self.logs.db().cursor();
        cursor.set_range(range);
        if !cursor.seek_to_last()? {
            return Ok(None);
        }
        match cursor.entry() {
            Some((key, value)) => Ok(Some((key::index(key)?, value.to_vec()))),
            None => Ok(None),
        }
    }

    /// Reads the purged position (index and description of the last purged entry), if there is one.
    ///
    /// # Errors
    /// If a write has failed, or the read fails.
    pub fn purged(&self) -> Result<Option<(u64, Vec<u8>)>> {
        match self.meta(Meta::Purged)? {
            Some(value) => split_index(&value).map(|(index, rest)| Some((index, rest.to_vec()))),
            None => Ok(None),
        }
    }

    /// Reads the saved vote; `None` if none was ever saved.
    ///
    /// # Errors
    /// If a write has failed, or the read fails.
    pub fn vote(&self) -> Result<Option<Vec<u8>>> {
        self.meta(Meta::Vote)
    }

    /// Reads the saved committed position, which a crash may have set back; `None` if none exists.
    ///
    /// # Errors
    /// If a write has failed, or the read fails.
    pub fn committed(&self) -> Result<Option<Vec<u8>>> {
        self.meta(Meta::Committed)
    }

    /// Reads a metadata value of this group (vote, purged or committed position), if there is one.
    fn meta(&self, meta: Meta) -> Result<Option<Vec<u8>>> {
        self.syncer().check()?;
        let value = self.family().get(key::meta(self.group, meta))?;
        Ok(value.map(|value| value.to_vec()))
    }

    /// Returns the key range of the log entries from index `from` to `to`, both inclusive.
    fn range(&self, from: u64, to: u64) -> std::ops::Range<Vec<u8>> {
        key::entry(self.group, from).to_vec()..key::behind(self.group, to).to_vec()
    }

    /// Returns the syncer of the log database, through which all writes go.
    fn syncer(&self) -> &crate::syncer::Syncer {
        &self.logs.shared.running.syncer
    }

    /// Returns the `meta` column family: votes, purged positions and committed positions.
    fn family(&self) -> &ColumnFamily {
        &self.logs.shared.meta
    }
}

/// Fails if `wal_dir` is set, which all databases of a node would share.
pub(crate) fn refuse_wal_dir(options: &Options) -> Result<()> {
    if options.get_wal_dir().as_os_str().is_empty() {
        return Ok(());
    }
    Err(Error::invalid_argument(
        "wal_dir must not be set: the databases of a Raft node would share it",
    ))
}

/// Splits a stored purged position into the index (8 bytes, little-endian) and the description.
fn split_index(value: &[u8]) -> Result<(u64, &[u8])> {
    match value.split_first_chunk::<8>() {
        Some((index, description)) => Ok((u64::from_le_bytes(*index), description)),
        None => Err(Error::corruption(format!(
            "a purged position of {} bytes in a Raft log",
            value.len()
        ))),
    }
}
