//! The keys that a transaction uses: locked or validated, tracked, and kept in history.

use std::time::Duration;

use koeldb_base::entity::WideColumns;
use koeldb_base::key::MAX_SEQNO;
use koeldb_base::{PinnedSlice, Result, SeqNo};

use super::errors;
use super::transaction::Transaction;
use super::validation::{check_no_version, check_unchanged};
use crate::api::column_family::ColumnFamily;
use crate::commit::key_locks::errors as lock_errors;
use crate::commit::key_locks::table::{LockId, LockMode};
use crate::commit::key_locks::waits::{Acquired, LockTimeouts, Wanted};
use crate::options::ValidationTier;
use crate::read::ReadOptions;
use crate::read::snapshot::Snapshot;

/// The use of a key by an operation of a transaction: a read for update or a write.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    Read(LockMode),
    Write,
}

/// A key that an operation of a transaction uses, and how it uses it.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    pub(super) family: &'a ColumnFamily,
    pub(super) key: &'a [u8],
    pub(super) as_what: Use,
    /// Whether a write since the snapshot, or since the first use, is a conflict.
    pub(super) validates: bool,
}

impl Target<'_> {
    /// Returns the lock mode that the use of the key requires.
    fn mode(&self) -> LockMode {
        match self.as_what {
            Use::Read(mode) => mode,
            Use::Write => LockMode::Exclusive,
        }
    }
}

impl Transaction {
    /// Returns the timeout and the deadlock detection delay of the transaction's lock requests.
    fn patience(&self) -> LockTimeouts {
        let database = self.inner().key_locks.options.as_ref();
        let millis = match self.options.lock_timeout {
            negative if negative < 0 => database.map_or(-1, |o| o.transaction_lock_timeout),
            millis => millis,
        };
        let pause = Duration::from_micros(self.options.deadlock_timeout_us);
        LockTimeouts {
            timeout: u64::try_from(millis).ok().map(Duration::from_millis),
            detect_after: self.options.deadlock_detect.then_some(pause),
        }
    }

    /// Checks that the transaction may use a key and returns the lock id of the key.
    ///
    /// `None` if the transaction has no concurrency control, so that the key is neither locked nor
    /// tracked.
    fn begin_use(&self, target: Target<'_>) -> Result<Option<LockId>> {
        let Target { family, key, .. } = target;
        let inner = self.inner();
        inner.health.check_open()?;
        super::check_supported(&inner.context)?;
        family.check_database(inner.context.id)?;
        if self.options.expiration >= 0 && self.owner.is_expired(inner.context.clock.now()) {
            return Err(lock_errors::expired());
        }
        if family.data().has_timestamps && inner.key_locks.table.is_none() {
            return Err(errors::has_timestamps(&family.data().name));
        }
        if self.options.skip_concurrency_control {
            return Ok(None);
        }
        let order = &family.data().user_order;
        if inner.key_locks.table.is_some() && !order.permits_hashes() {
            return Err(errors::equal_keys_differ(&family.data().name));
        }
        Ok(Some(inner.key_locks.id_of(family.id(), key)))
    }

    /// Whether the tracked key at index `at` is locked in `mode` or exclusively.
    fn is_locked(&mut self, at: Option<usize>, mode: LockMode) -> bool {
        at.is_some_and(|at| {
            let held = self.tracker.at(at).mode;
            held == LockMode::Exclusive || mode == LockMode::Shared
        })
    }

    /// Locks and validates a key (pessimistic), or tracks it for validation at commit (optimistic).
    pub(super) fn use_key(&mut self, target: Target<'_>) -> Result<()> {
        let Some(id) = self.begin_use(target)? else {
            return Ok(());
        };
        let at = self.tracker.find(id, target.family.id(), target.key);
        let is_locked = self.is_locked(at, target.mode());
        let key_locks = &self.inner().key_locks;
        let Some(locks) = &key_locks.table else {
            return self.track(target, id, at);
        };
        let acquired = match is_locked {
            true => Acquired::Held,
            false => key_locks.take_lock(locks, self.wanted(&target, id), self.patience())?,
        };
        self.record_locked(target, id, at, acquired)
    }

    /// Like [`Transaction::use_key`], as a future that blocks no thread while others hold the lock.
    async fn use_key_async(&mut self, target: Target<'_>) -> Result<()> {
        let Some(id) = self.begin_use(target)? else {
            return Ok(());
        };
        let at = self.tracker.find(id, target.family.id(), target.key);
        let is_locked = self.is_locked(at, target.mode());
        let key_locks = &self.inner().key_locks;
        let Some(locks) = &key_locks.table else {
            return self.track(target, id, at);
        };
        let acquired = if is_locked {
            Acquired::Held
        } else {
            let wanted = self.wanted(&target, id);
            key_locks
                .take_lock_async(locks, wanted, self.patience())
                .await?
        };
        self.record_locked(target, id, at, acquired)
    }

    /// Builds the lock request for a key.
    fn wanted<'t>(&'t self, target: &Target<'t>, id: LockId) -> Wanted<'t> {
        Wanted {
            owner: &self.owner,
            cf: target.family.id(),
            key: target.key,
            id,
            mode: target.mode(),
        }
    }

    /// Validates a locked key against the snapshot and tracks it; a conflict undoes the lock.
    fn record_locked(
        &mut self,
        target: Target<'_>,
        id: LockId,
        at: Option<usize>,
        acquired: Acquired,
    ) -> Result<()> {
        // After the writes of earlier holders of the lock.
        self.set_snapshot_if_due();
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
        self.tracker.count_use(at, target.as_what == Use::Write);
        Ok(())
    }

    /// Fails with a conflict if a locked key was written since the transaction's snapshot, or has
    /// a version above its read timestamp.
    fn validate_locked(&mut self, target: Target<'_>, at: usize) -> Result<()> {
        if target.family.data().has_timestamps {
            return self.validate_versions(target, at);
        }
        let Some(snapshot) = self.snapshot.as_ref().filter(|_| target.validates) else {
            return Ok(());
        };
        let since = snapshot.sequence_number();
        // Nobody has written a locked key since an earlier check. A rollback may have brought back
        // a snapshot that is older than the check.
        if self
            .tracker
            .at(at)
            .since
            .is_none_or(|checked| checked > since)
        {
            let data = target.family.data();
            let context = &self.db.inner().context;
            check_unchanged(data, target.key, since, ValidationTier::All, context)?;
            self.tracker.at(at).since = Some(since);
        }
        Ok(())
    }

    /// Validates a locked key with user-defined timestamps.
    fn validate_versions(&mut self, target: Target<'_>, at: usize) -> Result<()> {
        let time = self.validated_time(target.family);
        let snapshot = self.snapshot.as_ref().map(Snapshot::sequence_number);
        if !target.validates || snapshot.is_none() && time.is_none() {
            return Ok(());
        }
        if let (Some(since), Some(checked)) = (snapshot, self.tracker.at(at).since)
            && checked <= since
        {
            return Ok(());
        }
        let context = &self.db.inner().context;
        let since = snapshot.unwrap_or(MAX_SEQNO);
        check_no_version(
            target.family.data(),
            target.key,
            since,
            time.as_ref(),
            context,
        )?;
        if snapshot.is_some() {
            self.tracker.at(at).since = snapshot;
        }
        Ok(())
    }

    /// Adds a key of an optimistic transaction to the keys that its commit validates.
    fn track(&mut self, target: Target<'_>, id: LockId, at: Option<usize>) -> Result<()> {
        if !target.validates {
            return Ok(());
        }
        self.set_snapshot_if_due();
        let at = at.unwrap_or_else(|| {
            let cf = target.family.id();
            self.tracker.add(id, cf, target.key, target.mode())
        });
        // A later use does not forget writes since the first one; a snapshot that a rollback
        // brought back may be older than that.
        let tracked = self.tracker.at(at).since;
        if self.snapshot.is_some() || tracked.is_none() {
            let since = self.hold_history();
            let oldest = tracked.map_or(since, |tracked| tracked.min(since));
            self.tracker.at(at).since = Some(oldest);
        }
        self.tracker.count_use(at, target.as_what == Use::Write);
        Ok(())
    }

    /// Returns the sequence number to track a key from, and holds a snapshot at or before it.
    ///
    /// The snapshot keeps the entries of later writes, by which the commit detects conflicts.
    fn hold_history(&mut self) -> SeqNo {
        let since = match &self.snapshot {
            Some(snapshot) => snapshot.sequence_number(),
            None => self.inner().visibility.seqno(),
        };
        if let Some(oldest) = &self.history
            && oldest.sequence_number() <= since
        {
            return since;
        }
        let snapshot = self.snapshot.clone();
        let held = snapshot.unwrap_or_else(|| self.db.conflict_snapshot());
        let since = held.sequence_number();
        self.history = Some(held);
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
        let options = self.options_for_update(family, options)?;
        self.lock(family, key, mode)?;
        self.get_opt(family, key, &options)
    }

    /// Returns the columns of `key` in the default column family, and locks it exclusively.
    ///
    /// # Errors
    /// See [`Transaction::get_entity_for_update_opt`].
    pub fn get_entity_for_update(&mut self, key: impl AsRef<[u8]>) -> Result<Option<WideColumns>> {
        let family = self.db.default_cf().clone();
        let mode = LockMode::Exclusive;
        self.get_entity_for_update_opt(&family, key, &ReadOptions::new(), mode)
    }

    /// Returns the columns of `key` in `family`, and protects the key until the commit.
    ///
    /// See [`Transaction::get_for_update_opt`].
    ///
    /// # Errors
    /// Those of [`Transaction::put`] and of [`ColumnFamily::get_entity_opt`].
    pub fn get_entity_for_update_opt(
        &mut self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
        mode: LockMode,
    ) -> Result<Option<WideColumns>> {
        let key = key.as_ref();
        let options = self.options_for_update(family, options)?;
        self.lock(family, key, mode)?;
        self.get_entity_opt(family, key, &options)
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
            let options = ReadOptions::new();
            let options = self.options_for_update(family, &options)?;
            self.lock_async(family, key.as_ref(), mode).await?;
            self.get_opt(family, key.as_ref(), &options)
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
        let options = self.options_for_update(family, options)?;
        let mut sorted: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        sorted.sort_unstable();
        sorted.dedup();
        for key in sorted {
            self.lock(family, key, LockMode::Exclusive)?;
        }
        Ok(self.multi_get(family, keys, &options))
    }

    /// Reverts one read for update of `key`, and unlocks the key if that was its only use.
    pub fn undo_get_for_update(&mut self, family: &ColumnFamily, key: impl AsRef<[u8]>) {
        let (cf, key) = (family.id(), key.as_ref());
        let id = self.inner().key_locks.id_of(cf, key);
        if let Some(at) = self.tracker.find(id, cf, key)
            && let Some(released) = self.tracker.undo_read(at)
        {
            self.release(released.id);
        }
    }
}
