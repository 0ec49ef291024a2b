//! Transactions.
//!
//! A transaction is open, prepared or over; it can be begun again in the same handle.

#![expect(unsafe_code, reason = "snapshots that the caller frees")]

use koeldb::{
    BatchEntry, ColumnFamily, Db, LockMode, PinnedSlice, PreparedTransaction, Snapshot, WriteBatch,
};

use crate::boundary::{Failure, needed};
use crate::data::iterator::Cursor;
use crate::handle::{self, Handle};
use crate::settings::read::ReadOptions;
use crate::settings::write::WriteOptions;
use crate::transactions::indexed_batch::IndexedBatch;
use crate::transactions::options::{OptimisticOptions, TransactionOptions};

/// The state of a transaction.
enum State {
    /// It takes reads and writes, also once it is prepared.
    Open(Box<koeldb::Transaction>),
    /// It wrote to a column family that was dropped since, and can only be decided.
    Undecided(PreparedTransaction),
    /// It has ended, or never began: the error of later calls.
    Over(koeldb::Error),
}

/// A transaction (`rocksdb_transaction_t`).
pub(crate) struct Transaction {
    db: Db,
    state: State,
    name: Option<Vec<u8>>,
    /// The snapshots given to C, which frees its copies without a call of this library.
    lent: Vec<Snapshot>,
}

/// The error of a call that the state does not permit.
fn over(state: &str) -> koeldb::Error {
    koeldb::Error::invalid_argument(format!("Transaction {state}"))
}

impl Transaction {
    fn new(db: &Db, write: &WriteOptions, options: &koeldb::TransactionOptions) -> Self {
        let state = match db.transaction_opt(write, options) {
            Ok(transaction) => State::Open(Box::new(transaction)),
            Err(error) => State::Over(error),
        };
        Transaction {
            db: db.clone(),
            state,
            name: None,
            lent: Vec::new(),
        }
    }

    /// Returns why the transaction is not open.
    fn why_not_open(&self) -> koeldb::Error {
        match &self.state {
            State::Over(error) => error.clone(),
            _ => over("wrote to a dropped column family: it can be committed or rolled back"),
        }
    }

    pub(super) fn open(&self) -> koeldb::Result<&koeldb::Transaction> {
        match &self.state {
            State::Open(transaction) => Ok(transaction),
            _ => Err(self.why_not_open()),
        }
    }

    pub(super) fn open_mut(&mut self) -> koeldb::Result<&mut koeldb::Transaction> {
        match self.state {
            State::Open(ref mut transaction) => Ok(transaction),
            _ => Err(self.why_not_open()),
        }
    }

    pub(super) fn default_family(&self) -> ColumnFamily {
        self.db.default_cf().clone()
    }
}

/// A reference to the operations of a transaction, which outlives it.
pub(super) struct TransactionBatch(*mut Handle<Transaction>);

impl TransactionBatch {
    pub(super) fn new(transaction: *mut Handle<Transaction>) -> Self {
        TransactionBatch(transaction)
    }

    /// Returns the batch; `None` if the transaction is not open.
    pub(super) fn get(&self) -> Option<&koeldb::WriteBatchWithIndex> {
        // SAFETY: the caller destroys the transaction after its batch.
        let transaction = unsafe { handle::shared(self.0, "txn") }.ok()?;
        transaction.open().ok().map(koeldb::Transaction::batch)
    }

    /// Returns the batch, to change it; `None` if the transaction is not open.
    pub(super) fn get_mut(&mut self) -> Option<&mut koeldb::WriteBatchWithIndex> {
        // SAFETY: the caller destroys the transaction after its batch, and uses only one of them.
        let transaction = unsafe { handle::exclusive(self.0, "txn") }.ok()?;
        transaction
            .open_mut()
            .ok()
            .map(koeldb::Transaction::batch_mut)
    }
}

/// Begins a transaction in a new handle or, if there is one, in `old`.
///
/// # Safety
/// `old` is null or a transaction that nobody else uses.
unsafe fn begin_in(old: *mut Handle<Transaction>, new: Transaction) -> *mut Handle<Transaction> {
    // SAFETY: promised by the caller.
    match unsafe { handle::exclusive(old, "old_txn") } {
        Ok(place) => {
            *place = new;
            old
        }
        Err(_) => handle::give(new),
    }
}

/// Begins a pessimistic transaction.
///
/// # Safety
/// The rules of C.
pub(crate) unsafe fn begin(
    db: *mut Handle<Db>,
    write: *const Handle<crate::settings::write::WriteOptions>,
    options: *const Handle<TransactionOptions>,
    old: *mut Handle<Transaction>,
) -> *mut Handle<Transaction> {
    // SAFETY: promised by the caller.
    let db = needed(unsafe { handle::shared(db, "txn_db") });
    // SAFETY: promised by the caller.
    let write = needed(unsafe { handle::shared(write, "write_options") });
    // SAFETY: promised by the caller.
    let options = needed(unsafe { handle::shared(options, "txn_options") });
    // SAFETY: promised by the caller.
    unsafe { begin_in(old, Transaction::new(db, write, &options.inner)) }
}

/// Begins an optimistic transaction.
///
/// # Safety
/// The rules of C.
pub(crate) unsafe fn begin_optimistic(
    db: *mut Handle<Db>,
    write: *const Handle<crate::settings::write::WriteOptions>,
    options: *const Handle<OptimisticOptions>,
    old: *mut Handle<Transaction>,
) -> *mut Handle<Transaction> {
    // SAFETY: promised by the caller.
    let db = needed(unsafe { handle::shared(db, "otxn_db") });
    // SAFETY: promised by the caller.
    let write = needed(unsafe { handle::shared(write, "write_options") });
    // SAFETY: promised by the caller.
    let options = needed(unsafe { handle::shared(options, "otxn_options") });
    // SAFETY: promised by the caller.
    unsafe { begin_in(old, Transaction::new(db, write, &options.inner)) }
}

/// Returns the prepared transactions, in an array from the C heap; null if there are none.
///
/// # Safety
/// The rules of C.
pub(crate) unsafe fn prepared(
    db: *mut Handle<Db>,
    count: *mut usize,
) -> *mut *mut Handle<Transaction> {
    // SAFETY: promised by the caller.
    let db = needed(unsafe { handle::shared(db, "txn_db") });
    let found: Vec<_> = db.prepared_transactions();
    // SAFETY: promised by the caller.
    unsafe { crate::memory::set(count, found.len()) };
    if found.is_empty() {
        return std::ptr::null_mut();
    }
    let handles = found.into_iter().map(|prepared| {
        handle::give(Transaction {
            db: db.clone(),
            name: Some(prepared.name().to_vec()),
            state: match prepared.to_transaction() {
                Ok(transaction) => State::Open(Box::new(transaction)),
                Err(_) => State::Undecided(prepared),
            },
            lent: Vec::new(),
        })
    });
    crate::data::lists::give_array(&handles.collect::<Vec<_>>())
}

/// Names a transaction, which [`prepare`] requires.
pub(crate) fn set_name(transaction: &mut Transaction, name: &[u8]) -> Result<(), Failure> {
    transaction.open()?;
    if transaction.name.is_some() {
        return Err(Failure::argument("Transaction has already been named."));
    }
    if name.is_empty() || name.len() > 512 {
        return Err(Failure::argument(
            "Transaction name length must be between 1 and 512 chars.",
        ));
    }
    if transaction.db.prepared_transaction(name).is_some() {
        return Err(Failure::argument("Transaction name must be unique."));
    }
    transaction.name = Some(name.to_vec());
    Ok(())
}

/// Returns the name, which is empty if there is none.
pub(crate) fn name(transaction: &mut Transaction) -> Option<Vec<u8>> {
    Some(transaction.name.clone().unwrap_or_default())
}

/// Makes the writes durable, but not visible; later ones are written by the commit.
pub(crate) fn prepare(transaction: &mut Transaction) -> Result<(), Failure> {
    let name = transaction.name.clone();
    let open = transaction.open_mut()?;
    if open.prepared().is_some() {
        return Err(Failure::argument("Transaction has already been prepared."));
    }
    let Some(name) = name else {
        return Err(Failure::argument(
            "Cannot prepare a transaction that has not been named.",
        ));
    };
    if let Err(error) = open.prepare_in_place(name) {
        // The log may have its writes.
        if error.kind() != koeldb::ErrorKind::Expired {
            transaction.state = State::Over(over("could not be prepared"));
        }
        return Err(error.into());
    }
    Ok(())
}

/// Makes the writes visible; after an error the transaction is as before.
pub(crate) fn commit(transaction: &mut Transaction) -> koeldb::Result<()> {
    match &mut transaction.state {
        State::Open(open) => open.try_commit()?,
        State::Undecided(prepared) => prepared.commit()?,
        State::Over(error) => return Err(error.clone()),
    };
    transaction.state = State::Over(over("was committed"));
    Ok(())
}

/// Undoes all writes; a transaction that was not prepared can be used again.
pub(crate) fn rollback(transaction: &mut Transaction) -> koeldb::Result<()> {
    let prepared = match &mut transaction.state {
        State::Open(open) => match open.prepared() {
            Some(prepared) => prepared.clone(),
            None => {
                open.clear();
                return Ok(());
            }
        },
        State::Undecided(prepared) => prepared.clone(),
        State::Over(error) => return Err(error.clone()),
    };
    prepared.rollback()?;
    transaction.state = State::Over(over("was rolled back"));
    Ok(())
}

/// Sets a savepoint.
pub(crate) fn set_savepoint(transaction: &mut Transaction) {
    if let Ok(open) = transaction.open_mut() {
        open.set_save_point();
    }
}

/// Undoes the writes since the latest savepoint.
pub(crate) fn rollback_to_savepoint(transaction: &mut Transaction) -> koeldb::Result<()> {
    transaction.open_mut()?.rollback_to_save_point()
}

/// Adds a note to the log.
pub(crate) fn put_log_data(transaction: &mut Transaction, note: &[u8]) {
    if let Ok(open) = transaction.open_mut() {
        open.put_log_data(note);
    }
}

/// Sets the timestamp of the commit. One that is not permitted is ignored, as in RocksDB.
pub(crate) fn set_commit_timestamp(transaction: &mut Transaction, timestamp: u64) {
    // C has no place for the error.
    let _ = match &mut transaction.state {
        State::Open(open) => open.set_commit_timestamp(timestamp),
        State::Undecided(prepared) => prepared.set_commit_timestamp(timestamp),
        State::Over(error) => Err(error.clone()),
    };
}

/// Sets the timestamp of reads for update. One that is not permitted is ignored, as in RocksDB.
pub(crate) fn set_read_timestamp(transaction: &mut Transaction, timestamp: u64) {
    let open = transaction.open_mut();
    // C has no place for the error.
    let _ = open.and_then(|open| open.set_read_timestamp_for_validation(timestamp));
}

/// Returns the snapshot, in a block that C frees with `rocksdb_free`; null if there is none.
///
/// It is good until the transaction is destroyed or begun again.
///
/// # Safety
/// The rules of C.
pub(crate) unsafe fn snapshot(transaction: *mut Handle<Transaction>) -> *const Handle<Snapshot> {
    // SAFETY: promised by the caller.
    let transaction = needed(unsafe { handle::exclusive(transaction, "txn") });
    let snapshot = transaction
        .open()
        .ok()
        .and_then(|open| open.snapshot().cloned());
    let Some(snapshot) = snapshot else {
        return std::ptr::null();
    };
    // SAFETY: a copy of the bits, which is never dropped: the transaction keeps what it refers to.
    let copy = unsafe { std::ptr::read(&raw const snapshot) };
    transaction.lent.push(snapshot);
    // SAFETY: any size may be asked for.
    let block = unsafe { libc::malloc(size_of::<Handle<Snapshot>>()) }.cast::<Handle<Snapshot>>();
    if block.is_null() {
        std::alloc::handle_alloc_error(std::alloc::Layout::new::<Handle<Snapshot>>());
    }
    // SAFETY: the block is new, large enough, and aligned for every type.
    unsafe { block.write(Handle::new(copy)) };
    block
}

/// Declares a write, to the default column family and to another.
macro_rules! writes {
    ($($(#[$doc:meta])* $plain:ident, $cf:ident($($argument:ident),+);)*) => {$(
        $(#[$doc])*
        pub(crate) fn $plain(
            transaction: &mut Transaction,
            $($argument: &[u8]),+
        ) -> koeldb::Result<()> {
            transaction.open_mut()?.$plain($($argument),+)
        }

        $(#[$doc])*
        pub(crate) fn $cf(
            transaction: &mut Transaction,
            family: &ColumnFamily,
            $($argument: &[u8]),+
        ) -> koeldb::Result<()> {
            transaction.open_mut()?.$cf(family, $($argument),+)
        }
    )*};
}

writes! {
    /// Writes a key.
    put, put_cf(key, value);
    /// Adds a merge operand to a key.
    merge, merge_cf(key, value);
    /// Deletes a key.
    delete, delete_cf(key);
}

/// Returns a value as the transaction sees it.
///
/// Reads are of the latest state unless the options have a snapshot.
pub(crate) fn get_cf(
    transaction: &mut Transaction,
    options: &ReadOptions,
    family: &ColumnFamily,
    key: &[u8],
) -> koeldb::Result<Option<PinnedSlice>> {
    let open = transaction.open()?;
    open.batch().get_opt(family, key, &options.inner)
}

/// Returns a value of the default column family as the transaction sees it.
pub(crate) fn get(
    transaction: &mut Transaction,
    options: &ReadOptions,
    key: &[u8],
) -> koeldb::Result<Option<PinnedSlice>> {
    let family = transaction.default_family();
    get_cf(transaction, options, &family, key)
}

/// Locks a key, or has the commit check it, and returns its value.
pub(crate) fn get_for_update_cf(
    transaction: &mut Transaction,
    options: &ReadOptions,
    family: &ColumnFamily,
    key: &[u8],
    exclusive: bool,
) -> koeldb::Result<Option<PinnedSlice>> {
    let mode = match exclusive {
        true => LockMode::Exclusive,
        false => LockMode::Shared,
    };
    let open = transaction.open_mut()?;
    open.lock(family, key, mode)?;
    open.batch().get_opt(family, key, &options.inner)
}

/// Locks a key of the default column family and returns its value.
pub(crate) fn get_for_update(
    transaction: &mut Transaction,
    options: &ReadOptions,
    key: &[u8],
    exclusive: bool,
) -> koeldb::Result<Option<PinnedSlice>> {
    let family = transaction.default_family();
    get_for_update_cf(transaction, options, &family, key, exclusive)
}

/// Creates an iterator over a column family and the writes of the transaction.
pub(crate) fn iterate_cf(
    transaction: &mut Transaction,
    options: &ReadOptions,
    family: &ColumnFamily,
) -> Option<Cursor> {
    let open = transaction.open().ok()?;
    Some(open.batch().cursor_opt(family, &options.inner).into())
}

/// Creates an iterator over the default column family and the writes of the transaction.
pub(crate) fn iterate(transaction: &mut Transaction, options: &ReadOptions) -> Option<Cursor> {
    let family = transaction.default_family();
    iterate_cf(transaction, options, &family)
}

/// Adds the changes of a batch, each like a call of its own.
pub(crate) fn rebuild(transaction: &mut Transaction, batch: &WriteBatch) -> Result<(), Failure> {
    let families = transaction.db.cf_handles();
    let family = |id: u32| {
        let found = families.iter().find(|family| family.id() == id);
        found.ok_or_else(|| Failure::argument(format!("Column family not found: id {id}")))
    };
    let open = transaction.open_mut()?;
    for entry in batch.iter() {
        match entry? {
            BatchEntry::Put { cf, key, value } => open.put_cf(family(cf)?, key, value)?,
            BatchEntry::Delete { cf, key } => open.delete_cf(family(cf)?, key)?,
            BatchEntry::SingleDelete { cf, key } => open.single_delete(family(cf)?, key)?,
            BatchEntry::Merge { cf, key, operand } => open.merge_cf(family(cf)?, key, operand)?,
            BatchEntry::PutEntity { cf, key, entity } => {
                let columns = koeldb::Columns::of_entity(entity)?.to_vec();
                open.put_entity_cf(family(cf)?, key, &columns)?;
            }
            BatchEntry::LogData(note) => open.put_log_data(note),
            other => {
                let text = format!("a transaction cannot hold {other:?}");
                return Err(Failure::unserved(text));
            }
        }
    }
    Ok(())
}

/// Adds the changes of an indexed batch, each like a call of its own.
pub(crate) fn rebuild_indexed(
    transaction: &mut Transaction,
    batch: &mut IndexedBatch,
) -> Result<(), Failure> {
    rebuild(transaction, batch.get().batch())
}
