//! Transactions.

use std::cell::{Ref, RefCell, RefMut};
use std::marker::PhantomData;
use std::sync::{Mutex, PoisonError};

use koeldb::{BatchEntry, LockMode, PinnedSlice, PreparedTransaction};

use crate::access::{Family, Pinned, Source, Value, key_forms};
use crate::cursor::Cursor;
use crate::methods::{iterator_methods, read_methods};
use crate::{
    AsColumnFamilyRef, DBAccess, DBPinnableSlice, Error, ReadOptions, SnapshotWithThreadMode,
    WriteBatchWithTransaction,
};

/// The state of a transaction handle: open, prepared, or ended with the error of later calls.
enum State {
    Open(Box<koeldb::Transaction>),
    Prepared(PreparedTransaction),
    /// Committed, rolled back after `prepare`, or never begun.
    Over(koeldb::Error),
}

/// Prepared, not yet committed or rolled back transactions without a [`Transaction`] handle.
pub(super) type Undecided = Mutex<Vec<PreparedTransaction>>;

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
    state: RefCell<State>,
    name: RefCell<Option<Vec<u8>>>,
    db: koeldb::Db,
    undecided: Option<&'db Undecided>,
    label: PhantomData<fn() -> &'db DB>,
}

/// Creates the error of a call that the transaction's state does not permit.
fn over(state: &str) -> koeldb::Error {
    koeldb::Error::invalid_argument(format!("Transaction {state}"))
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
        undecided: Option<&'db Undecided>,
        write: &koeldb::WriteOptions,
        options: &koeldb::TransactionOptions,
    ) -> Self {
        let state = match db.transaction_opt(write, options) {
            Ok(transaction) => State::Open(Box::new(transaction)),
            Err(error) => State::Over(error),
        };
        Transaction {
            state: RefCell::new(state),
            name: RefCell::default(),
            db: db.clone(),
            undecided,
            label: PhantomData,
        }
    }

    /// Creates a handle for a prepared transaction without one, as after recovery.
    pub(super) fn recovered(
        db: &koeldb::Db,
        undecided: &'db Undecided,
        prepared: PreparedTransaction,
    ) -> Self {
        Transaction {
            name: RefCell::new(Some(prepared.name().to_vec())),
            state: RefCell::new(State::Prepared(prepared)),
            db: db.clone(),
            undecided: Some(undecided),
            label: PhantomData,
        }
    }

    /// Borrows the engine's open transaction; an error if it is prepared or has ended.
    fn open(&self) -> koeldb::Result<Ref<'_, koeldb::Transaction>> {
        let found = Ref::filter_map(self.state.borrow(), |state| match state {
            State::Open(transaction) => Some(&**transaction),
            _ => None,
        });
        found.map_err(|state| why_not_open(&state))
    }

    /// Borrows the engine's open transaction mutably; an error if it is prepared or has ended.
    fn open_mut(&self) -> koeldb::Result<RefMut<'_, koeldb::Transaction>> {
        let found = RefMut::filter_map(self.state.borrow_mut(), |state| match state {
            State::Open(transaction) => Some(&mut **transaction),
            _ => None,
        });
        found.map_err(|state| why_not_open(&state))
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
        if let State::Prepared(prepared) = &*self.state.borrow() {
            prepared.commit()?;
        }
        match self.state.replace(State::Over(over("was committed"))) {
            State::Open(transaction) => {
                transaction.commit()?;
            }
            State::Prepared(_) => {}
            State::Over(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Sets the name of the transaction, which `prepare` requires.
    pub fn set_name(&self, name: &[u8]) -> Result<(), Error> {
        if self.db.prepared_transaction(name).is_some() {
            return Err(Error::invalid("Transaction name must be unique."));
        }
        if name.is_empty() || name.len() > 512 {
            return Err(Error::invalid(
                "Transaction name length must be between 1 and 512 chars.",
            ));
        }
        if self.name.borrow().is_some() {
            return Err(Error::invalid("Transaction has already been named."));
        }
        *self.name.borrow_mut() = Some(name.to_vec());
        Ok(())
    }

    /// Returns the name of the transaction; `None` if it has none.
    pub fn get_name(&self) -> Option<Vec<u8>> {
        self.name.borrow().clone()
    }

    /// Prepares the transaction (two-phase commit): its writes are durable, but not yet visible.
    ///
    /// After that, reads and writes of the transaction fail.
    pub fn prepare(&self) -> Result<(), Error> {
        let Some(name) = self.get_name() else {
            return Err(Error::invalid(
                "Cannot prepare a transaction that has not been named.",
            ));
        };
        drop(self.open()?);
        let before = State::Over(over("could not be prepared"));
        if let State::Open(transaction) = self.state.replace(before) {
            let prepared = transaction.prepare(name)?;
            self.state.replace(State::Prepared(prepared));
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
        let mut state = self.state.borrow_mut();
        match &mut *state {
            State::Open(transaction) => transaction.clear(),
            State::Prepared(prepared) => {
                prepared.rollback()?;
                *state = State::Over(over("was rolled back"));
            }
            State::Over(error) => return Err(error.clone().into()),
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
        let batch = match &*self.state.borrow() {
            State::Open(transaction) => transaction.batch().batch().clone(),
            State::Prepared(prepared) => prepared.batch(),
            State::Over(_) => koeldb::WriteBatch::new(),
        };
        batch.into()
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

/// Returns the error of a call on a transaction that is prepared or has ended.
fn why_not_open(state: &State) -> koeldb::Error {
    match state {
        State::Over(error) => error.clone(),
        _ => over("is prepared: it can be committed or rolled back"),
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
        let state = self.state.replace(State::Over(over("was dropped")));
        if let (State::Prepared(prepared), Some(undecided)) = (state, self.undecided) {
            let mut undecided = undecided.lock().unwrap_or_else(PoisonError::into_inner);
            undecided.push(prepared);
        }
    }
}

impl<DB> DBAccess for Transaction<'_, DB> {}
