//! The transaction: a batch in the making, the keys it uses, and its snapshot.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use koeldb_base::{Error, PinnedSlice, Result, SeqNo};

use super::commit::commit_validated;
use super::errors;
use super::prepared::{self, PreparedTransaction};
use super::tracker::{Released, Tracker};
use super::validation::check_unchanged;
use crate::column_family::ColumnFamily;
use crate::db::Db;
use crate::indexed_batch::{BatchCursor, WriteBatchWithIndex};
use crate::inner::DbInner;
use crate::key_locks::errors as lock_errors;
use crate::key_locks::table::{LockId, LockMode, LockTable, Owner};
use crate::key_locks::waits::{Acquired, Patience, Wanted};
use crate::options::WriteOptions;
use crate::options::{TransactionOptions, ValidationTier};
use crate::read::ReadOptions;
use crate::snapshot::Snapshot;

/// The kind of use of a key by an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Read(LockMode),
    Write,
}

/// An operation on a key of a column family.
#[derive(Clone, Copy)]
struct Target<'a> {
    family: &'a ColumnFamily,
    key: &'a [u8],
    as_what: Use,
    /// Whether a write since the snapshot, or since the first use, is a conflict.
    validates: bool,
}

impl Target<'_> {
    fn mode(&self) -> LockMode {
        match self.as_what {
            Use::Read(mode) => mode,
            Use::Write => LockMode::Exclusive,
        }
    }
}

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
pub struct Transaction {
    db: Db,
    write: WriteOptions,
    options: TransactionOptions,
    batch: WriteBatchWithIndex,
    tracker: Tracker,
    snapshot: Option<Snapshot>,
    /// Whether the next operation that uses a key must set a snapshot.
    is_snapshot_due: bool,
    /// Snapshots at the numbers since which keys are tracked, ascending: compactions then keep the
    /// newest entry above each of them, with its number.
    history: Vec<Snapshot>,
    owner: Arc<Owner>,
}

impl Transaction {
    pub(super) fn new(db: &Db, write: &WriteOptions, options: &TransactionOptions) -> Self {
        let inner = db.inner();
        let expires = u64::try_from(options.expiration)
            .ok()
            .map(|millis| inner.context.clock.now() + Duration::from_millis(millis));
        let order = db.default_cf().data().order.clone();
        Transaction {
            write: *write,
            options: options.clone(),
            batch: WriteBatchWithIndex::with_order(true, order),
            tracker: Tracker::default(),
            snapshot: options.set_snapshot.then(|| db.snapshot()),
            is_snapshot_due: false,
            history: Vec::new(),
            owner: Owner::new(inner.key_locks.new_id(), expires),
            db: db.clone(),
        }
    }

    fn inner(&self) -> &Arc<DbInner> {
        self.db.inner()
    }

    fn locks(&self) -> Option<&LockTable> {
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

    /// The operations so far.
    #[must_use]
    pub fn batch(&self) -> &WriteBatchWithIndex {
        &self.batch
    }

    // Snapshots.

    /// Sets a snapshot of the present state, which reads see and later writes conflict with.
    pub fn set_snapshot(&mut self) {
        self.snapshot = Some(self.db.snapshot());
        self.is_snapshot_due = false;
    }

    /// Lets the next operation that locks or tracks a key set a snapshot.
    pub fn set_snapshot_on_next_operation(&mut self) {
        self.is_snapshot_due = true;
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

    /// Calls `read` with options that name the snapshot, unless they name one already.
    fn with_options<R>(&self, options: &ReadOptions, read: impl FnOnce(&ReadOptions) -> R) -> R {
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

    /// Creates a cursor over the default column family, without position.
    ///
    /// It shows the writes of the transaction that precede it; see [`BatchCursor::refresh`].
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

    /// The time limits of lock requests.
    fn patience(&self) -> Patience {
        let database = self.inner().key_locks.options.as_ref();
        let millis = match self.options.lock_timeout {
            negative if negative < 0 => database.map_or(-1, |o| o.transaction_lock_timeout),
            millis => millis,
        };
        let pause = Duration::from_micros(self.options.deadlock_timeout_us);
        Patience {
            timeout: u64::try_from(millis).ok().map(Duration::from_millis),
            detect_after: self.options.deadlock_detect.then_some(pause),
        }
    }

    /// Begins the use of a key: returns its hash, and whether it must be locked.
    fn begin_use(&mut self, target: Target<'_>) -> Result<Option<LockId>> {
        let Target { family, key, .. } = target;
        let inner = Arc::clone(self.inner());
        inner.health.check_open()?;
        super::check_supported(&inner.context)?;
        if family.database_id() != inner.context.id {
            return Err(Error::invalid_argument(
                "the column family belongs to another database",
            ));
        }
        if self.options.expiration >= 0 && self.owner.is_expired(inner.context.clock.now()) {
            return Err(lock_errors::expired());
        }
        if self.is_snapshot_due {
            self.set_snapshot();
        }
        if self.options.skip_concurrency_control {
            return Ok(None);
        }
        if inner.key_locks.table.is_some() && !family.data().order.equal_keys_have_equal_bytes() {
            return Err(errors::equal_keys_differ(&family.data().name));
        }
        Ok(Some(inner.key_locks.id_of(family.id(), key)))
    }

    /// Whether the tracked key has the lock that an operation needs.
    fn is_locked(&mut self, at: Option<usize>, mode: LockMode) -> bool {
        at.is_some_and(|at| {
            let held = self.tracker.at(at).mode;
            held == LockMode::Exclusive || mode == LockMode::Shared
        })
    }

    /// Prepares the use of a key: locks and validates it, or tracks it for the commit.
    fn use_key(&mut self, target: Target<'_>) -> Result<()> {
        let Some(id) = self.begin_use(target)? else {
            return Ok(());
        };
        let at = self.tracker.find(id, target.family.id(), target.key);
        let inner = Arc::clone(self.inner());
        let Some(locks) = &inner.key_locks.table else {
            return self.track(target, id, at);
        };
        let acquired = match self.is_locked(at, target.mode()) {
            true => Acquired::Held,
            false => inner
                .key_locks
                .take_lock(locks, self.wanted(&target, id), self.patience())?,
        };
        self.note_lock(target, id, at, acquired)
    }

    /// [`Transaction::use_key`] as a future.
    async fn use_key_async(&mut self, target: Target<'_>) -> Result<()> {
        let Some(id) = self.begin_use(target)? else {
            return Ok(());
        };
        let at = self.tracker.find(id, target.family.id(), target.key);
        let inner = Arc::clone(self.inner());
        let Some(locks) = &inner.key_locks.table else {
            return self.track(target, id, at);
        };
        let acquired = if self.is_locked(at, target.mode()) {
            Acquired::Held
        } else {
            let wanted = self.wanted(&target, id);
            inner
                .key_locks
                .take_lock_async(locks, wanted, self.patience())
                .await?
        };
        self.note_lock(target, id, at, acquired)
    }

    fn wanted<'t>(&'t self, target: &Target<'t>, id: LockId) -> Wanted<'t> {
        Wanted {
            owner: &self.owner,
            cf: target.family.id(),
            key: target.key,
            id,
            mode: target.mode(),
        }
    }

    /// Validates a key after its lock was acquired, and records the key.
    fn note_lock(
        &mut self,
        target: Target<'_>,
        id: LockId,
        at: Option<usize>,
        acquired: Acquired,
    ) -> Result<()> {
        let at = at.unwrap_or_else(|| {
            let cf = target.family.id();
            self.tracker.add(id, cf, target.key, target.mode())
        });
        if let Err(error) = self.validate_locked(target, at) {
            let locks = self.inner().key_locks.table.as_ref();
            match (acquired, locks) {
                (Acquired::New, Some(locks)) => {
                    locks.release(&self.owner, id);
                    self.tracker.forget(at);
                }
                (Acquired::Upgraded, Some(locks)) => locks.downgrade(&self.owner, id),
                _ => {}
            }
            return Err(error);
        }
        if acquired == Acquired::Upgraded {
            self.tracker.upgrade(at);
        }
        self.tracker.note_use(at, target.as_what == Use::Write);
        Ok(())
    }

    /// Checks that a locked key was not written since the snapshot.
    fn validate_locked(&mut self, target: Target<'_>, at: usize) -> Result<()> {
        let Some(snapshot) = self.snapshot.as_ref().filter(|_| target.validates) else {
            return Ok(());
        };
        let since = snapshot.sequence_number();
        // Nobody has written a locked key since an earlier check.
        if self.tracker.at(at).since.is_none() {
            let data = target.family.data();
            let context = &self.db.inner().context;
            check_unchanged(data, target.key, since, ValidationTier::All, context)?;
            self.tracker.at(at).since = Some(since);
        }
        Ok(())
    }

    /// Tracks a key, to be validated by the commit.
    fn track(&mut self, target: Target<'_>, id: LockId, at: Option<usize>) -> Result<()> {
        if !target.validates {
            return Ok(());
        }
        let at = at.unwrap_or_else(|| {
            let cf = target.family.id();
            self.tracker.add(id, cf, target.key, target.mode())
        });
        // A later use does not forget writes since the first one.
        if self.tracker.at(at).since.is_none() {
            let since = self.hold_history();
            self.tracker.at(at).since = Some(since);
        }
        self.tracker.note_use(at, target.as_what == Use::Write);
        Ok(())
    }

    /// Creates a snapshot at the number since which a key is tracked; returns the number.
    ///
    /// One at the first key alone would not do: a put and a single deletion above it annihilate each
    /// other, although a later key may be tracked since the put.
    fn hold_history(&mut self) -> SeqNo {
        let since = match &self.snapshot {
            Some(snapshot) => snapshot.sequence_number(),
            None => self.inner().visibility.seqno(),
        };
        if let Some(newest) = self.history.last()
            && newest.sequence_number() == since
        {
            return since;
        }
        let held = self.snapshot.clone().unwrap_or_else(|| self.db.snapshot());
        let since = held.sequence_number();
        self.history.push(held);
        since
    }

    /// Locks `key` in `family` without reading or writing it.
    ///
    /// An optimistic transaction tracks it for the check at its commit.
    ///
    /// # Errors
    /// See [`Transaction::put`].
    pub fn lock(
        &mut self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        mode: LockMode,
    ) -> Result<()> {
        self.use_key(Target {
            family,
            key: key.as_ref(),
            as_what: Use::Read(mode),
            validates: true,
        })
    }

    /// Like [`Transaction::lock`], as a future: it blocks no thread while others hold the lock.
    ///
    /// A later operation on the key then does not wait. Dropping the future gives the request up.
    ///
    /// # Errors
    /// See [`Transaction::put`].
    #[expect(
        clippy::manual_async_fn,
        reason = "that the future is Send is part of the interface"
    )]
    pub fn lock_async<'t, K: AsRef<[u8]> + Send + 't>(
        &'t mut self,
        family: &'t ColumnFamily,
        key: K,
        mode: LockMode,
    ) -> impl Future<Output = Result<()>> + Send + 't {
        async move {
            let target = Target {
                family,
                key: key.as_ref(),
                as_what: Use::Read(mode),
                validates: true,
            };
            self.use_key_async(target).await
        }
    }

    /// Returns the value of `key` in the default column family, and locks it exclusively.
    ///
    /// # Errors
    /// See [`Transaction::get_for_update_opt`].
    pub fn get_for_update(&mut self, key: impl AsRef<[u8]>) -> Result<Option<PinnedSlice>> {
        let family = self.db.default_cf().clone();
        self.get_for_update_cf(&family, key)
    }

    /// Returns the value of `key` in `family`, and locks it exclusively.
    ///
    /// # Errors
    /// See [`Transaction::get_for_update_opt`].
    pub fn get_for_update_cf(
        &mut self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<PinnedSlice>> {
        let mode = LockMode::Exclusive;
        self.get_for_update_opt(family, key, &ReadOptions::new(), mode)
    }

    /// Returns the value of `key` in `family`, and protects the key until the commit.
    ///
    /// A pessimistic transaction locks the key; the commit of an optimistic one fails if the key
    /// has changed.
    ///
    /// # Errors
    /// Those of [`Transaction::put`] and of [`ColumnFamily::get_opt`].
    pub fn get_for_update_opt(
        &mut self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
        mode: LockMode,
    ) -> Result<Option<PinnedSlice>> {
        let key = key.as_ref();
        self.lock(family, key, mode)?;
        self.get_opt(family, key, options)
    }

    /// Like [`Transaction::get_for_update_opt`]; waits for the lock as a future.
    ///
    /// # Errors
    /// See [`Transaction::get_for_update_opt`].
    #[expect(
        clippy::manual_async_fn,
        reason = "that the future is Send is part of the interface"
    )]
    pub fn get_for_update_async<'t, K: AsRef<[u8]> + Send + Sync + 't>(
        &'t mut self,
        family: &'t ColumnFamily,
        key: K,
        mode: LockMode,
    ) -> impl Future<Output = Result<Option<PinnedSlice>>> + Send + 't {
        async move {
            self.lock_async(family, key.as_ref(), mode).await?;
            self.get_cf(family, key.as_ref())
        }
    }

    /// Returns the values of `keys` in `family`, and locks them in the order of their bytes.
    ///
    /// # Errors
    /// Those of [`Transaction::put`] for the whole call; errors of a read are with its key.
    pub fn multi_get_for_update<K: AsRef<[u8]>>(
        &mut self,
        family: &ColumnFamily,
        keys: &[K],
        options: &ReadOptions,
    ) -> Result<Vec<Result<Option<PinnedSlice>>>> {
        let mut sorted: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        sorted.sort_unstable();
        sorted.dedup();
        for key in sorted {
            self.lock(family, key, LockMode::Exclusive)?;
        }
        Ok(self.multi_get(family, keys, options))
    }

    /// Reverts one read for update of `key`, which is unlocked unless it is used otherwise.
    pub fn undo_get_for_update(&mut self, family: &ColumnFamily, key: impl AsRef<[u8]>) {
        let (cf, key) = (family.id(), key.as_ref());
        let id = self.inner().key_locks.id_of(cf, key);
        if let Some(at) = self.tracker.find(id, cf, key)
            && let Some(released) = self.tracker.undo_read(at)
            && let Some(locks) = self.locks()
        {
            locks.release(&self.owner, released.id);
        }
    }

    // Writes.

    fn write(
        &mut self,
        family: &ColumnFamily,
        key: &[u8],
        validates: bool,
        write: impl FnOnce(&mut WriteBatchWithIndex),
    ) -> Result<()> {
        let bytes_max = self.options.max_write_batch_size;
        let bytes = self.batch.batch().size_in_bytes();
        if bytes_max > 0 && bytes >= bytes_max {
            return Err(errors::batch_too_large(bytes, bytes_max));
        }
        self.use_key(Target {
            family,
            key,
            as_what: Use::Write,
            validates,
        })?;
        if bytes_max == 0 {
            write(&mut self.batch);
            return Ok(());
        }
        self.batch.set_save_point();
        write(&mut self.batch);
        let bytes = self.batch.batch().size_in_bytes();
        if bytes > bytes_max {
            self.batch.rollback_to_save_point()?;
            return Err(errors::batch_too_large(bytes, bytes_max));
        }
        self.batch.pop_save_point()
    }

    /// Sets the value of `key` in the default column family.
    ///
    /// # Errors
    /// `Busy` if the key was written since the snapshot, or if waiting for its lock would be a
    /// deadlock; `TimedOut` if its lock was not had in time; `Expired`; `Aborted` if there are
    /// `max_num_locks` locks; `MemoryLimit` if the batch exceeds `max_write_batch_size`. The
    /// transaction is then as before.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let family = self.db.default_cf().clone();
        self.put_cf(&family, key, value)
    }

    /// Sets the value of `key` in `family`.
    ///
    /// # Errors
    /// See [`Transaction::put`].
    pub fn put_cf(
        &mut self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        let key = key.as_ref();
        self.write(family, key, true, |batch| {
            batch.put_cf(family, key, value);
        })
    }

    /// Like [`Transaction::put_cf`], without a check for conflicting writes.
    ///
    /// A pessimistic transaction still locks the key.
    ///
    /// # Errors
    /// See [`Transaction::put`].
    pub fn put_untracked(
        &mut self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        let key = key.as_ref();
        self.write(family, key, false, |batch| {
            batch.put_cf(family, key, value);
        })
    }

    /// Deletes `key` in the default column family.
    ///
    /// # Errors
    /// See [`Transaction::put`].
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        let family = self.db.default_cf().clone();
        self.delete_cf(&family, key)
    }

    /// Deletes `key` in `family`.
    ///
    /// # Errors
    /// See [`Transaction::put`].
    pub fn delete_cf(&mut self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        self.write(family, key, true, |batch| {
            batch.delete_cf(family, key);
        })
    }

    /// Like [`Transaction::delete_cf`], without a check for conflicting writes.
    ///
    /// # Errors
    /// See [`Transaction::put`].
    pub fn delete_untracked(&mut self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        self.write(family, key, false, |batch| {
            batch.delete_cf(family, key);
        })
    }

    /// Deletes `key` in `family`, put exactly once: see [`ColumnFamily::single_delete`].
    ///
    /// # Errors
    /// See [`Transaction::put`].
    pub fn single_delete(&mut self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        self.write(family, key, true, |batch| {
            batch.single_delete_cf(family, key);
        })
    }

    /// Adds a merge operand to `key` in the default column family.
    ///
    /// # Errors
    /// See [`Transaction::put`]; `NotSupported` without a merge operator.
    pub fn merge(&mut self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        let family = self.db.default_cf().clone();
        self.merge_cf(&family, key, operand)
    }

    /// Adds a merge operand to `key` in `family`.
    ///
    /// # Errors
    /// See [`Transaction::put`]; `NotSupported` without a merge operator.
    pub fn merge_cf(
        &mut self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        if family.data().options().merge_operator.is_none() {
            return Err(Error::not_supported(format!(
                "column family {:?} has no merge_operator: set one before merging",
                family.name()
            )));
        }
        let key = key.as_ref();
        self.write(family, key, true, |batch| {
            batch.merge_cf(family, key, operand);
        })
    }

    /// Adds log data, which is written only to the log.
    pub fn put_log_data(&mut self, note: impl AsRef<[u8]>) {
        self.batch.put_log_data(note);
    }

    // Save points.

    /// Sets a save point for [`Transaction::rollback_to_save_point`].
    pub fn set_save_point(&mut self) {
        self.batch.set_save_point();
        self.tracker.set_save_point();
    }

    /// Reverts all operations since the last save point, with their locks, and removes the save
    /// point.
    ///
    /// # Errors
    /// `NotFound` if there is none.
    pub fn rollback_to_save_point(&mut self) -> Result<()> {
        self.batch.rollback_to_save_point()?;
        for released in self.tracker.rollback_to_save_point() {
            if let Some(locks) = self.locks() {
                match released {
                    Released::Lock(tracked) => locks.release(&self.owner, tracked.id),
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
        Ok(())
    }

    // The end.

    /// Commits the transaction; returns a sequence number at which its writes are visible.
    ///
    /// # Errors
    /// The transaction is over in any case. `Busy` if an optimistic transaction conflicts,
    /// `TryAgain` if that cannot be told any more, `Expired`, and those of [`Db::write_opt`]:
    /// [`Error::write_outcome`] says whether the writes may still take effect.
    pub fn commit(mut self) -> Result<SeqNo> {
        let inner = Arc::clone(self.inner());
        super::refuse_ttl(&inner.context)?;
        if self.locks().is_none() {
            let tier = self.options.validation_tier;
            let batch = self.batch.batch();
            return commit_validated(&inner.commit, batch, &self.write, &self.tracker, tier);
        }
        if !self.options.skip_prepare {
            return Err(errors::not_prepared());
        }
        if !self.owner.decide(inner.context.clock.now()) {
            return Err(lock_errors::expired());
        }
        let written = inner.commit.write(self.batch.batch(), &self.write);
        let seqno = inner.visibility.seqno();
        self.release_all();
        written.map(|()| seqno)
    }

    /// Prepares the transaction: makes its writes durable, to be committed or rolled back under
    /// `name`.
    ///
    /// The name has 1 to 512 bytes and is unique among the undecided transactions. The log is written
    /// regardless of `disable_wal`, and synced if the options of the transaction say so.
    ///
    /// # Errors
    /// The transaction is rolled back then. `InvalidArgument` for an optimistic transaction or a
    /// name in use; `Expired`; those of [`Db::write_opt`]. If [`Error::write_outcome`] is
    /// `Indeterminate`, the transaction may be prepared after a crash.
    pub fn prepare(mut self, name: impl AsRef<[u8]>) -> Result<PreparedTransaction> {
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
            name: name.as_ref(),
            batch: self.batch.batch(),
            write: &self.write,
            owner: &self.owner,
            locked,
        })?;
        // The locks are those of the prepared transaction now.
        self.tracker.take();
        Ok(prepared)
    }

    /// Drops all writes and releases all locks.
    pub fn rollback(self) {
        drop(self);
    }

    fn release_all(&mut self) {
        let tracked = self.tracker.take();
        if let Some(locks) = &self.db.inner().key_locks.table {
            for tracked in tracked {
                locks.release(&self.owner, tracked.id);
            }
        }
    }
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
