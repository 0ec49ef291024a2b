//! Transactions.

use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use koeldb::{BatchEntry, LockMode, PinnedSlice, PreparedTransaction};

use crate::access::{Family, Pinned, Source, Value, key_forms};
use crate::cursor::Cursor;
use crate::methods::{iterator_methods, read_methods};
use crate::{
    AsColumnFamilyRef, DBAccess, DBPinnableSlice, Error, ReadOptions, SnapshotWithThreadMode,
    WriteBatchWithTransaction,
};

/// The state of a transaction handle.
enum State {
    /// Not decided, and possibly prepared.
    Open(Box<koeldb::Transaction>),
    /// Readable and writable, but neither committed nor rolled back any more, for this reason.
    Stuck(Box<koeldb::Transaction>, &'static str),
    /// Committed or never begun: the error of later calls.
    Over(koeldb::Error),
}

impl State {
    /// Returns the engine's transaction; the error of further calls if it has ended.
    fn transaction(&self) -> Result<&koeldb::Transaction, &koeldb::Error> {
        match self {
            State::Open(transaction) | State::Stuck(transaction, _) => Ok(transaction),
            State::Over(error) => Err(error),
        }
    }

    /// Returns the engine's transaction for changes; the error of further calls if it has ended.
    fn transaction_mut(&mut self) -> Result<&mut koeldb::Transaction, &koeldb::Error> {
        match self {
            State::Open(transaction) | State::Stuck(transaction, _) => Ok(transaction),
            State::Over(error) => Err(error),
        }
    }
}

/// A state whose transaction has not ended.
struct Begun<Guard>(Guard);

/// Why the transaction of a [`Begun`] exists.
const BEGUN: &str = "the state was checked under the same lock";

impl<Guard: Deref<Target = State>> Deref for Begun<Guard> {
    type Target = koeldb::Transaction;

    fn deref(&self) -> &koeldb::Transaction {
        self.0.transaction().expect(BEGUN)
    }
}

impl<Guard: DerefMut<Target = State>> DerefMut for Begun<Guard> {
    fn deref_mut(&mut self) -> &mut koeldb::Transaction {
        self.0.transaction_mut().expect(BEGUN)
    }
}

/// The state that the pessimistic transactions of a database share.
pub(super) struct Shared {
    /// Prepared, not yet committed or rolled back transactions without a [`Transaction`] handle.
    undecided: Mutex<Vec<PreparedTransaction>>,
    /// The names of the transactions with handles.
    names: Mutex<BTreeSet<Vec<u8>>>,
}

impl Shared {
    /// Creates the state of a database whose recovery has found prepared transactions.
    pub(super) fn new(found: Vec<PreparedTransaction>) -> Self {
        Shared {
            undecided: Mutex::new(found),
            names: Mutex::default(),
        }
    }

    /// Takes the prepared transactions without handles.
    pub(super) fn take_undecided(&self) -> Vec<PreparedTransaction> {
        std::mem::take(&mut *lock(&self.undecided))
    }
}

/// A pessimistic or optimistic transaction.
///
/// It belongs to a [`TransactionDB`](crate::TransactionDB) or an
/// [`OptimisticTransactionDB`](crate::OptimisticTransactionDB).
///
/// Its writes become visible together when it commits; dropping it reverts them, unless it is
/// prepared: [`prepared_transactions`](crate::TransactionDB::prepared_transactions) then returns
/// it.
/// Reads see its own writes, and otherwise the latest state unless their options have a snapshot.
pub struct Transaction<'db, DB> {
    state: RwLock<State>,
    name: Mutex<Option<Vec<u8>>>,
    db: koeldb::Db,
    /// `None` for optimistic transactions.
    shared: Option<&'db Shared>,
    label: PhantomData<fn() -> &'db DB>,
}

/// Creates the error of a call that the transaction's state does not permit.
fn over(state: &str) -> koeldb::Error {
    koeldb::Error::invalid_argument(format!("Transaction {state}"))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Declares a verb that writes, in the default column family and in another.
macro_rules! writes {
    ($($(#[doc = $doc:literal])+ $plain:ident, $cf:ident($($argument:ident: $kind:ident),+);)*) => {$(
        $(#[doc = $doc])+
        pub fn $plain<$($kind: AsRef<[u8]>),+>(&self, $($argument: $kind),+) -> Result<(), Error> {
            Ok(self.open_mut()?.$plain($($argument),+)?)
        }

        #[doc = concat!("Like `", stringify!($plain), "`, in a column family.")]
        pub fn $cf<$($kind: AsRef<[u8]>),+>(
            &self,
            cf: &impl AsColumnFamilyRef,
            $($argument: $kind),+
        ) -> Result<(), Error> {
            Ok(self.open_mut()?.$cf(cf.family(), $($argument),+)?)
        }
    )*};
}

impl<'db, DB> Transaction<'db, DB> {
    /// Begins a transaction; if that fails, each later call returns the error.
    pub(super) fn new(
        db: &koeldb::Db,
        shared: Option<&'db Shared>,
        write: &koeldb::WriteOptions,
        options: &koeldb::TransactionOptions,
    ) -> Self {
        let begun = db.transaction_opt(write, options);
        Self::of(db, shared, begun)
    }

    fn of(
        db: &koeldb::Db,
        shared: Option<&'db Shared>,
        transaction: koeldb::Result<koeldb::Transaction>,
    ) -> Self {
        let state = match transaction {
            Ok(transaction) => State::Open(Box::new(transaction)),
            Err(error) => State::Over(error),
        };
        Transaction {
            state: RwLock::new(state),
            name: Mutex::default(),
            db: db.clone(),
            shared,
            label: PhantomData,
        }
    }

    /// Creates a handle for a prepared transaction without one, as after recovery.
    pub(super) fn recovered(
        db: &koeldb::Db,
        shared: &'db Shared,
        prepared: &PreparedTransaction,
    ) -> Self {
        let name = prepared.name().to_vec();
        lock(&shared.names).insert(name.clone());
        let handle = Self::of(db, Some(shared), prepared.to_transaction());
        *lock(&handle.name) = Some(name);
        handle
    }

    /// Borrows the state.
    fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Borrows the state for changes.
    fn state_mut(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Borrows the engine's transaction; an error if it has ended.
    fn open(&self) -> koeldb::Result<Begun<RwLockReadGuard<'_, State>>> {
        let state = self.state();
        state.transaction().map_err(Clone::clone)?;
        Ok(Begun(state))
    }

    /// Borrows the engine's transaction for changes; an error if it has ended.
    fn open_mut(&self) -> koeldb::Result<Begun<RwLockWriteGuard<'_, State>>> {
        let state = self.state_mut();
        state.transaction().map_err(Clone::clone)?;
        Ok(Begun(state))
    }

    /// Whether the transaction can still be prepared or rolled back to a savepoint.
    fn is_started(&self) -> bool {
        match &*self.state() {
            State::Open(transaction) => transaction.prepared().is_none(),
            State::Stuck(..) => false,
            State::Over(_) => true,
        }
    }

    /// Ends the handle; returns its last state.
    fn end(&self, why: &str) -> State {
        std::mem::replace(&mut *self.state_mut(), State::Over(over(why)))
    }

    /// Keeps the prepared transaction of a handle that ends, unless it is decided.
    fn give_up(&self, prepared: Option<PreparedTransaction>) {
        if let (Some(prepared), Some(shared)) = (prepared, self.shared)
            && self.db.prepared_transaction(prepared.name()).is_some()
        {
            lock(&shared.undecided).push(prepared);
        }
    }

    /// Locks a key, exclusively or shared, and reads it with the transaction's own writes.
    fn read_for_update(
        &self,
        family: Family<'_>,
        key: &[u8],
        exclusive: bool,
        options: &ReadOptions,
    ) -> Result<Option<PinnedSlice>, Error> {
        let options = options.checked()?;
        let family = self.family(family);
        let mode = match exclusive {
            true => LockMode::Exclusive,
            false => LockMode::Shared,
        };
        let mut transaction = self.open_mut()?;
        transaction.lock(family, key, mode)?;
        Ok(transaction.batch().get_opt(family, key, options)?)
    }

    /// Commits the transaction: its writes become visible together.
    ///
    /// After an error only a prepared transaction remains.
    pub fn commit(self) -> Result<(), Error> {
        match self.end("was committed") {
            State::Open(transaction) => {
                let prepared = transaction.prepared().cloned();
                if let Err(error) = transaction.commit() {
                    self.give_up(prepared);
                    return Err(error.into());
                }
                Ok(())
            }
            State::Stuck(_, reason) => Err(Error::invalid(reason)),
            State::Over(error) => Err(error.into()),
        }
    }

    /// Sets the name of the transaction, which `prepare` requires.
    pub fn set_name(&self, name: &[u8]) -> Result<(), Error> {
        let Some(shared) = self.shared else {
            return Err(Error::invalid("Optimistic transactions cannot be named."));
        };
        if !self.is_started() {
            return Err(Error::invalid("Transaction is beyond state for naming."));
        }
        if self.get_name().is_some() {
            return Err(Error::invalid("Transaction has already been named."));
        }
        if name.is_empty() || name.len() > 512 {
            return Err(Error::invalid(
                "Transaction name length must be between 1 and 512 chars.",
            ));
        }
        if self.db.prepared_transaction(name).is_some()
            || !lock(&shared.names).insert(name.to_vec())
        {
            let name = String::from_utf8_lossy(name);
            return Err(Error::invalid(format_args!("Duplicate txn name {name}")));
        }
        *lock(&self.name) = Some(name.to_vec());
        Ok(())
    }

    /// Returns the name of the transaction; `None` if it has none.
    pub fn get_name(&self) -> Option<Vec<u8>> {
        lock(&self.name).clone()
    }

    /// Prepares the transaction (two-phase commit): its writes are durable, but not yet visible.
    ///
    /// Later writes of the transaction are not prepared: a crash before the commit loses them.
    pub fn prepare(&self) -> Result<(), Error> {
        if self.shared.is_none() {
            return Err(Error::invalid(
                "Two phase commit not supported for optimistic transactions.",
            ));
        }
        let Some(name) = self.get_name() else {
            return Err(Error::invalid(
                "Cannot prepare a transaction that has not been named.",
            ));
        };
        let mut state = self.state_mut();
        let transaction = match &mut *state {
            State::Open(transaction) if transaction.prepared().is_some() => {
                return Err(Error::invalid("Transaction has already been prepared."));
            }
            State::Open(transaction) => transaction,
            State::Stuck(_, reason) => return Err(Error::invalid(*reason)),
            State::Over(error) => return Err(error.clone().into()),
        };
        if let Err(error) = transaction.prepare_in_place(name) {
            // Its locks do not expire any more, and the log may have its writes.
            if error.kind() != koeldb::ErrorKind::Expired {
                let failed = State::Over(over("could not be prepared"));
                if let State::Open(transaction) = std::mem::replace(&mut *state, failed) {
                    *state = State::Stuck(transaction, "Transaction is not in state for commit.");
                }
            }
            return Err(error.into());
        }
        Ok(())
    }

    /// Returns the snapshot of the transaction; without one, its reads see the latest state.
    pub fn snapshot(&self) -> SnapshotWithThreadMode<'_, Self> {
        SnapshotWithThreadMode::new(self)
    }

    /// Rolls all writes back; a transaction that was not prepared can be used again.
    ///
    /// It keeps its snapshot.
    pub fn rollback(&self) -> Result<(), Error> {
        let mut state = self.state_mut();
        let transaction = match &mut *state {
            State::Open(transaction) => transaction,
            State::Stuck(..) => {
                return Err(Error::invalid(
                    "Two phase transaction is not in state for rollback.",
                ));
            }
            State::Over(error) => return Err(error.clone().into()),
        };
        let Some(prepared) = transaction.prepared().cloned() else {
            transaction.clear();
            return Ok(());
        };
        prepared.rollback()?;
        transaction.clear();
        if let State::Open(transaction) =
            std::mem::replace(&mut *state, State::Over(over("was rolled back")))
        {
            *state = State::Stuck(transaction, "Transaction has already been rolledback.");
        }
        Ok(())
    }

    /// Sets a savepoint, to which `rollback_to_savepoint` returns.
    pub fn set_savepoint(&self) {
        if let Ok(mut transaction) = self.open_mut() {
            transaction.set_save_point();
        }
    }

    /// Undoes the writes since the latest savepoint (`set_savepoint`).
    pub fn rollback_to_savepoint(&self) -> Result<(), Error> {
        if !self.is_started() {
            return Err(Error::invalid("Transaction is beyond state for rollback."));
        }
        Ok(self.open_mut()?.rollback_to_save_point()?)
    }

    read_methods!();
    iterator_methods!();

    writes! {
        /// Sets the value of `key`.
        put, put_cf(key: K, value: V);
        /// Adds a merge operand to `key`.
        merge, merge_cf(key: K, value: V);
        /// Deletes `key`.
        delete, delete_cf(key: K);
    }

    /// Returns the transaction's writes as a new write batch.
    pub fn get_writebatch(&self) -> WriteBatchWithTransaction<true> {
        match self.open() {
            Ok(transaction) => transaction.batch().batch().clone().into(),
            Err(_) => koeldb::WriteBatch::new().into(),
        }
    }

    /// Applies the operations of a write batch to the transaction, each like a call of its own.
    pub fn rebuild_from_writebatch(
        &self,
        writebatch: &WriteBatchWithTransaction<true>,
    ) -> Result<(), Error> {
        let batch = writebatch.checked()?;
        let families = self.db.cf_handles();
        let family = |id: u32| {
            let found = families.iter().find(|family| family.id() == id);
            found.ok_or_else(|| Error::invalid(format_args!("Column family not found: id {id}")))
        };
        let mut transaction = self.open_mut()?;
        for entry in batch.iter() {
            match entry? {
                BatchEntry::Put { cf, key, value } => {
                    transaction.put_cf(family(cf)?, key, value)?;
                }
                BatchEntry::Delete { cf, key } => transaction.delete_cf(family(cf)?, key)?,
                BatchEntry::SingleDelete { cf, key } => {
                    transaction.single_delete(family(cf)?, key)?;
                }
                BatchEntry::Merge { cf, key, operand } => {
                    transaction.merge_cf(family(cf)?, key, operand)?;
                }
                BatchEntry::PutEntity { cf, key, entity } => {
                    let columns = koeldb::Columns::of_entity(entity)?.to_vec();
                    transaction.put_entity_cf(family(cf)?, key, &columns)?;
                }
                BatchEntry::LogData(note) => transaction.put_log_data(note),
                other => {
                    return Err(Error::refused(
                        "rebuild_from_writebatch",
                        &format!("a transaction cannot hold {other:?}"),
                    ));
                }
            }
        }
        Ok(())
    }
}

impl<DB> Transaction<'_, DB> {
    key_forms! {
        /// Returns the value of `key` and protects it until the commit: by a lock, which others may
        /// share unless `exclusive`, or by a check.
        get_for_update, get_for_update_opt, get_for_update_cf, get_for_update_cf_opt(
            self, family, key, exclusive: bool; opts: &ReadOptions = &ReadOptions::DEFAULT
        ) -> Value {
            Ok(self.read_for_update(family, key, exclusive, opts)?.map(Vec::from))
        }
    }

    key_forms! {
        /// Like `get_for_update`, without a copy.
        get_pinned_for_update, get_pinned_for_update_opt, get_pinned_for_update_cf,
        get_pinned_for_update_cf_opt(
            self, family, key, exclusive: bool; opts: &ReadOptions = &ReadOptions::DEFAULT
        ) -> Pinned<'_> {
            Ok(self.read_for_update(family, key, exclusive, opts)?.map(DBPinnableSlice::new))
        }
    }
}

impl<DB> Source for Transaction<'_, DB> {
    fn database(&self) -> &koeldb::Db {
        &self.db
    }

    fn read_copy(
        &self,
        family: Family<'_>,
        key: &[u8],
        options: &koeldb::ReadOptions,
    ) -> koeldb::Result<Option<Vec<u8>>> {
        Ok(self.read(family, key, options)?.map(Vec::from))
    }

    fn read(
        &self,
        family: Family<'_>,
        key: &[u8],
        options: &koeldb::ReadOptions,
    ) -> koeldb::Result<Option<PinnedSlice>> {
        self.open()?
            .batch()
            .get_opt(self.family(family), key, options)
    }

    fn read_many<K: AsRef<[u8]>>(
        &self,
        family: Family<'_>,
        keys: &[K],
        options: &koeldb::ReadOptions,
    ) -> Vec<koeldb::Result<Option<PinnedSlice>>> {
        match self.open() {
            Ok(open) => open.batch().multi_get(self.family(family), keys, options),
            Err(error) => keys.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    fn cursor(&self, family: Family<'_>, options: &koeldb::ReadOptions) -> Cursor {
        match self.open() {
            Ok(open) => {
                let cursor = open.batch().cursor_opt(self.family(family), options);
                Cursor::Transaction(Box::new(cursor))
            }
            Err(error) => Cursor::Refused(error.into()),
        }
    }

    fn take_snapshot(&self) -> Option<koeldb::Snapshot> {
        self.open().ok()?.snapshot().cloned()
    }
}

impl<DB> Drop for Transaction<'_, DB> {
    fn drop(&mut self) {
        let state = self.end("was dropped");
        if let State::Open(transaction) = state {
            self.give_up(transaction.prepared().cloned());
        }
        if let (Some(name), Some(shared)) = (self.get_name(), self.shared) {
            lock(&shared.names).remove(&name);
        }
    }
}

impl<DB> DBAccess for Transaction<'_, DB> {}
