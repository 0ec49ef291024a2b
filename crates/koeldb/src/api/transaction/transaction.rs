//! The transaction: a batch in the making, the keys it uses, and its snapshot.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use koeldb_base::entity::WideColumns;
use koeldb_base::stats::HistogramKind;
use koeldb_base::{Error, ErrorKind, PinnedSlice, Result, SeqNo};

use super::commit::commit_validated;
use super::errors;
use super::prepared::{self, PreparedTransaction};
use super::tracker::{Released, Tracker};
use crate::api::column_family::ColumnFamily;
use crate::api::db::Db;
use crate::api::indexed_batch::{BatchCursor, WriteBatchWithIndex};
use crate::commit::key_locks::errors as lock_errors;
use crate::commit::key_locks::table::{LockId, LockTable, Owner};
use crate::engine::inner::DbInner;
use crate::options::{TransactionOptions, WriteOptions};
use crate::read::ReadOptions;
use crate::read::snapshot::Snapshot;

/// A transaction: reads and writes that take effect together or not at all.
///
/// It sees its own writes; others see them when [`Transaction::commit`] returns. A transaction that
/// is dropped is rolled back. It is owned and `Send`, and keeps its database open.
///
/// *Optimistic* transactions lock nothing: a commit fails with `Busy` if a key that was written or
/// read for update has changed since its first use, or since the snapshot. *Pessimistic* ones (with
/// [`Options::set_transactions`](crate::Options::set_transactions)) lock such keys first; an
/// operation then fails with `TimedOut` or `Busy`, after which the transaction is still usable. No
/// mode prevents phantoms: a range that a cursor showed is not protected.
///
/// With a snapshot ([`Transaction::set_snapshot`]), reads show the database as of the snapshot.
///
/// # Isolation
/// The anomalies that each mode prevents. The last column is of transactions, optimistic or
/// pessimistic, that read every key on which a write depends by [`Transaction::get_for_update`].
///
/// | anomaly | no snapshot | snapshot | reads for update |
/// |---|---|---|---|
/// | dirty writes, dirty reads, circular reads | prevented | prevented | prevented |
/// | read skew, unrepeatable reads, long forks | possible | prevented | prevented (or the commit fails) |
/// | lost updates | possible | prevented | prevented |
/// | write skew | possible | possible | prevented |
/// | phantoms | possible | possible | possible |
pub struct Transaction {
    pub(super) db: Db,
    write: WriteOptions,
    pub(super) options: TransactionOptions,
    pub(super) batch: WriteBatchWithIndex,
    pub(super) tracker: Tracker,
    pub(super) snapshot: Option<Snapshot>,
    /// Whether the next operation that uses a key must set a snapshot.
    is_snapshot_due: bool,
    /// The snapshot as of each save point, and whether one was due.
    saved_snapshots: Vec<(Option<Snapshot>, bool)>,
    /// A snapshot not above the numbers since which keys are tracked: flushes and compactions then
    /// keep a trace of each write since.
    pub(super) history: Option<Snapshot>,
    /// The user-defined timestamp of reads for update, above which versions are conflicts.
    pub(super) read_timestamp: Option<u64>,
    /// The user-defined timestamp of the keys that are written.
    pub(super) commit_timestamp: Option<u64>,
    pub(super) owner: Arc<Owner>,
    /// The prepared part of the transaction, if it was prepared in place.
    prepared: Option<PreparedPart>,
}

/// The part of a transaction's batch that is prepared; the operations behind it are not.
#[derive(Debug)]
struct PreparedPart {
    transaction: PreparedTransaction,
    /// The size of the batch and the number of its operations when it was prepared.
    bytes: usize,
    count: u32,
    /// The mark of the batch, which goes if operations are removed.
    mark: u64,
    /// Its locks, which its decision releases.
    locked: HashSet<LockId>,
}

impl Transaction {
    pub(super) fn new(db: &Db, write: &WriteOptions, options: &TransactionOptions) -> Self {
        let order = db.default_cf().data().order.clone();
        Transaction {
            write: *write,
            options: options.clone(),
            batch: WriteBatchWithIndex::with_order(true, order),
            tracker: Tracker::default(),
            snapshot: options.set_snapshot.then(|| db.conflict_snapshot()),
            is_snapshot_due: false,
            saved_snapshots: Vec::new(),
            history: None,
            read_timestamp: None,
            commit_timestamp: None,
            owner: new_owner(db, options),
            db: db.clone(),
            prepared: None,
        }
    }

    /// Creates a transaction with the operations of a prepared one.
    pub(super) fn of_prepared(prepared: &PreparedTransaction) -> Result<Self> {
        let (owner, write, db) = prepared.parts();
        let mut transaction = Transaction::new(db, write, &TransactionOptions::new());
        transaction.owner = Arc::clone(owner);
        let families = db.cf_handles();
        for entry in prepared.batch().iter() {
            let entry = entry?;
            let family = families.iter().find(|f| Some(f.id()) == entry.family());
            let family = family.ok_or_else(|| {
                Error::with_kind(
                    ErrorKind::ColumnFamilyDropped,
                    "a prepared transaction wrote to a column family that does not exist any more",
                )
            })?;
            transaction.batch.add_entry(family, &entry)?;
        }
        transaction.end_prepared_part(prepared.clone());
        Ok(transaction)
    }

    /// Makes the batch so far the prepared part of the transaction.
    fn end_prepared_part(&mut self, transaction: PreparedTransaction) {
        self.prepared = Some(PreparedPart {
            bytes: self.batch.batch().size_in_bytes(),
            count: self.batch.batch().count(),
            mark: self.batch.set_mark(),
            locked: transaction.locked(),
            transaction,
        });
    }

    /// The prepared part of a transaction that was prepared in place.
    #[must_use]
    pub fn prepared(&self) -> Option<&PreparedTransaction> {
        self.prepared.as_ref().map(|part| &part.transaction)
    }

    /// Releases a lock, unless the prepared part of the transaction needs it.
    pub(super) fn release(&self, id: LockId) {
        let prepared = self.prepared.as_ref();
        if let Some(locks) = self.locks()
            && prepared.is_none_or(|part| !part.locked.contains(&id))
        {
            locks.release(&self.owner, id);
        }
    }

    pub(super) fn inner(&self) -> &Arc<DbInner> {
        self.db.inner()
    }

    pub(super) fn locks(&self) -> Option<&LockTable> {
        self.inner().key_locks.table.as_ref()
    }

    /// The id of the transaction, unique while the database is open.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.owner.id
    }

    /// The database of the transaction.
    #[must_use]
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// The operations of the transaction so far, as an indexed write batch.
    #[must_use]
    pub fn batch(&self) -> &WriteBatchWithIndex {
        &self.batch
    }

    /// The operations of the transaction so far, to add others (RocksDB: `GetWriteBatch`).
    ///
    /// An operation that is added here locks and tracks no key: it conflicts with nothing. Once the
    /// transaction is prepared, no operation may be removed: it could not be committed then.
    pub fn batch_mut(&mut self) -> &mut WriteBatchWithIndex {
        &mut self.batch
    }

    // Snapshots.

    /// Sets a snapshot of the present state, which reads see and later writes conflict with.
    pub fn set_snapshot(&mut self) {
        self.snapshot = Some(self.db.conflict_snapshot());
        self.is_snapshot_due = false;
    }

    /// Lets the next operation that locks or tracks a key set a snapshot.
    pub fn set_snapshot_on_next_operation(&mut self) {
        self.is_snapshot_due = true;
    }

    /// Sets a snapshot if [`Transaction::set_snapshot_on_next_operation`] requested one.
    pub(super) fn set_snapshot_if_due(&mut self) {
        if self.is_snapshot_due {
            self.set_snapshot();
        }
    }

    /// Drops the snapshot: reads then see the latest state.
    pub fn clear_snapshot(&mut self) {
        self.snapshot = None;
        self.is_snapshot_due = false;
    }

    /// The snapshot, if one is set.
    #[must_use]
    pub fn snapshot(&self) -> Option<&Snapshot> {
        self.snapshot.as_ref()
    }

    // Reads.

    /// Calls `read` with `options`, plus the transaction's snapshot unless they have a snapshot.
    pub(crate) fn with_options<R>(
        &self,
        options: &ReadOptions,
        read: impl FnOnce(&ReadOptions) -> R,
    ) -> R {
        match &self.snapshot {
            Some(snapshot) if options.get_snapshot().is_none() => {
                let mut options = options.clone();
                options.set_snapshot(snapshot);
                read(&options)
            }
            _ => read(options),
        }
    }

    /// Returns the value of `key` in the default column family.
    ///
    /// # Errors
    /// See [`ColumnFamily::get`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<PinnedSlice>> {
        self.get_opt(self.db.default_cf(), key, &ReadOptions::new())
    }

    /// Returns the value of `key` in `family`.
    ///
    /// # Errors
    /// See [`ColumnFamily::get`].
    pub fn get_cf(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<PinnedSlice>> {
        self.get_opt(family, key, &ReadOptions::new())
    }

    /// Returns the value of `key` in `family`, with `options`.
    ///
    /// # Errors
    /// See [`ColumnFamily::get_opt`].
    pub fn get_opt(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
    ) -> Result<Option<PinnedSlice>> {
        self.with_options(options, |options| self.batch.get_opt(family, key, options))
    }

    /// Returns the values of `keys` in `family`, in their order.
    #[must_use]
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        family: &ColumnFamily,
        keys: &[K],
        options: &ReadOptions,
    ) -> Vec<Result<Option<PinnedSlice>>> {
        self.with_options(options, |options| {
            self.batch.multi_get(family, keys, options)
        })
    }

    /// Returns the columns of `key` in the default column family.
    ///
    /// # Errors
    /// See [`ColumnFamily::get_entity`].
    pub fn get_entity(&self, key: impl AsRef<[u8]>) -> Result<Option<WideColumns>> {
        self.get_entity_opt(self.db.default_cf(), key, &ReadOptions::new())
    }

    /// Returns the columns of `key` in `family`, with `options`.
    ///
    /// # Errors
    /// See [`ColumnFamily::get_entity_opt`].
    pub fn get_entity_opt(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
    ) -> Result<Option<WideColumns>> {
        self.with_options(options, |options| {
            self.batch.get_entity_opt(family, key, options)
        })
    }

    /// Returns the columns of `keys` in `family`, in their order.
    #[must_use]
    pub fn multi_get_entity<K: AsRef<[u8]>>(
        &self,
        family: &ColumnFamily,
        keys: &[K],
        options: &ReadOptions,
    ) -> Vec<Result<Option<WideColumns>>> {
        self.with_options(options, |options| {
            self.batch.multi_get_entity(family, keys, options)
        })
    }

    /// Creates a cursor over the default column family, without position.
    ///
    /// It shows the writes of the transaction, also later ones that are ahead of it: see
    /// [`BatchCursor`].
    #[must_use]
    pub fn cursor(&self) -> BatchCursor {
        self.cursor_opt(self.db.default_cf(), &ReadOptions::new())
    }

    /// Creates a cursor over `family`, with `options` and their bounds.
    #[must_use]
    pub fn cursor_opt(&self, family: &ColumnFamily, options: &ReadOptions) -> BatchCursor {
        self.with_options(options, |options| self.batch.cursor_opt(family, options))
    }

    // Keys.

    // Writes.

    // Save points.

    /// Sets a save point for [`Transaction::rollback_to_save_point`].
    pub fn set_save_point(&mut self) {
        self.batch.set_save_point();
        self.tracker.set_save_point();
        let snapshot = (self.snapshot.clone(), self.is_snapshot_due);
        self.saved_snapshots.push(snapshot);
    }

    /// Reverts the operations since the last save point, and removes the save point.
    ///
    /// Locks that were acquired since then are released.
    ///
    /// The snapshot becomes that of the save point, too, or none, or one that is due.
    ///
    /// # Errors
    /// `NotFound` if there is none; `InvalidArgument` if the transaction is prepared.
    pub fn rollback_to_save_point(&mut self) -> Result<()> {
        if self.prepared.is_some() {
            return Err(errors::is_prepared());
        }
        self.batch.rollback_to_save_point()?;
        if let Some((snapshot, is_due)) = self.saved_snapshots.pop() {
            (self.snapshot, self.is_snapshot_due) = (snapshot, is_due);
        }
        for released in self.tracker.rollback_to_save_point() {
            if let Some(locks) = self.locks() {
                match released {
                    Released::Lock(tracked) => self.release(tracked.id),
                    Released::Upgrade(id) => locks.downgrade(&self.owner, id),
                }
            }
        }
        Ok(())
    }

    /// Removes the last save point and keeps the operations since.
    ///
    /// # Errors
    /// `NotFound` if there is none.
    pub fn pop_save_point(&mut self) -> Result<()> {
        self.batch.pop_save_point()?;
        self.tracker.pop_save_point();
        self.saved_snapshots.pop();
        Ok(())
    }

    // The end.

    /// Commits the transaction; returns a sequence number at which its writes are visible.
    ///
    /// # Errors
    /// The transaction is over in any case. `InvalidArgument` if keys with user-defined timestamps
    /// lack that of [`Transaction::set_commit_timestamp`]; `Busy` if an optimistic transaction conflicts,
    /// `TryAgain` if that cannot be told any more, `Expired`, and those of [`Db::write_opt`]:
    /// [`Error::write_outcome`] says whether the writes may still take effect.
    pub fn commit(mut self) -> Result<SeqNo> {
        self.try_commit()
    }

    /// Commits like [`Transaction::commit`], but keeps operations and locks after an error.
    ///
    /// The transaction can then be committed again, or emptied by [`Transaction::clear`]. After a
    /// commit it is empty.
    ///
    /// # Errors
    /// See [`Transaction::commit`].
    pub fn try_commit(&mut self) -> Result<SeqNo> {
        let inner = self.inner();
        super::refuse_ttl(&inner.context)?;
        self.date_writes()?;
        if let Some(part) = &self.prepared {
            if part.mark != self.batch.mark() {
                return Err(errors::is_not_as_prepared());
            }
            if let Some(time) = self.commit_timestamp {
                part.transaction.set_commit_timestamp(time)?;
            }
            let later = self.batch.batch().behind(part.bytes, part.count);
            let locks: Vec<LockId> = self.tracker.iter().map(|tracked| tracked.id).collect();
            let committed = part.transaction.commit_then(&later, &locks);
            if let Some(part) = &mut self.prepared {
                // A decision that stands has taken the other locks.
                part.locked = part.transaction.locked();
            }
            let seqno = committed?;
            self.clear();
            return Ok(seqno);
        }
        let inner = self.inner();
        let batch = self.batch.batch();
        if self.locks().is_none() {
            let tier = self.options.validation_tier;
            let seqno = commit_validated(&inner.commit, batch, &self.write, &self.tracker, tier)?;
            self.clear();
            return Ok(seqno);
        }
        if !self.options.skip_prepare {
            return Err(errors::not_prepared());
        }
        if !self.owner.decide(inner.context.clock.now()) {
            return Err(lock_errors::expired());
        }
        let operations = u64::from(batch.count());
        (inner.context).record(HistogramKind::NumOpPerTransaction, operations);
        let written = inner.commit.write(batch, &self.write);
        let seqno = inner.visibility.seqno();
        written?;
        self.clear();
        Ok(seqno)
    }

    /// Prepares the transaction under `name`: logs its writes for a later commit or rollback.
    ///
    /// See also [`Transaction::prepare_in_place`].
    ///
    /// The name has 1 to 512 bytes and is unique among the undecided transactions. The log is written
    /// regardless of `disable_wal`, and synced if the options of the transaction say so.
    ///
    /// # Errors
    /// The transaction is rolled back then. `InvalidArgument` for an optimistic transaction or a
    /// name in use; `Expired`; those of [`Db::write_opt`]. If [`Error::write_outcome`] is
    /// `Indeterminate`, the transaction may be prepared after a crash.
    pub fn prepare(mut self, name: impl AsRef<[u8]>) -> Result<PreparedTransaction> {
        self.prepare_part(name.as_ref())
    }

    /// Prepares the transaction like [`Transaction::prepare`], and keeps it for reads and writes.
    ///
    /// Further writes are not prepared: a crash before the commit loses them. [`Transaction::commit`]
    /// logs them with the commit, and they take effect after the prepared ones. (RocksDB applies
    /// such writes without logging them.) Without a commit the transaction stays prepared:
    /// dropping or clearing this handle decides nothing. No rollback to a save point is possible.
    ///
    /// # Errors
    /// See [`Transaction::prepare`]; `InvalidArgument` if it is prepared already.
    pub fn prepare_in_place(&mut self, name: impl AsRef<[u8]>) -> Result<PreparedTransaction> {
        if self.prepared.is_some() {
            return Err(errors::is_prepared());
        }
        let prepared = self.prepare_part(name.as_ref())?;
        self.end_prepared_part(prepared.clone());
        Ok(prepared)
    }

    /// Prepares the operations so far. The result takes over their locks.
    fn prepare_part(&mut self, name: &[u8]) -> Result<PreparedTransaction> {
        super::refuse_ttl(&self.inner().context)?;
        if self.locks().is_none() {
            return Err(Error::invalid_argument(
                "an optimistic transaction cannot be prepared: open the database with \
                 Options::set_transactions",
            ));
        }
        let locked = self.tracker.iter().map(|tracked| tracked.id).collect();
        let prepared = prepared::prepare(&prepared::ToPrepare {
            db: &self.db,
            name,
            batch: self.batch.batch(),
            write: &self.write,
            owner: &self.owner,
            locked,
            commit_time: self.commit_timestamp.map(u64::to_le_bytes),
        })?;
        // The locks are those of the prepared transaction now.
        self.tracker.take();
        Ok(prepared)
    }

    /// Reverts all operations, locks and save points, for reuse (RocksDB: `Transaction::Rollback`).
    ///
    /// It keeps its snapshot, id and expiration. What was prepared in place stays prepared, and keeps
    /// its locks: the transaction has another id then.
    pub fn clear(&mut self) {
        self.batch.clear();
        self.saved_snapshots.clear();
        self.history = None;
        self.release_all();
        if self.prepared.take().is_some() {
            self.owner = new_owner(&self.db, &self.options);
        }
    }

    /// Ends the transaction: drops all of its writes and releases all of its locks.
    pub fn rollback(self) {
        drop(self);
    }

    /// Releases the locks of all tracked keys.
    fn release_all(&mut self) {
        for tracked in self.tracker.take() {
            self.release(tracked.id);
        }
    }
}

/// Creates the owner of the locks of a transaction that begins now.
fn new_owner(db: &Db, options: &TransactionOptions) -> Arc<Owner> {
    let inner = db.inner();
    let expires = u64::try_from(options.expiration)
        .ok()
        .map(|millis| inner.context.clock.now() + Duration::from_millis(millis));
    Owner::new(inner.key_locks.new_id(), expires)
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.release_all();
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction")
            .field("id", &self.id())
            .field("operations", &self.batch.len())
            .finish_non_exhaustive()
    }
}
