//! Indexed batches, which are read before they are written.

use koeldb::{ColumnFamily, Db, KeyOrder, PinnedSlice, WriteBatchWithIndex};

use crate::boundary::Failure;
use crate::data::iterator::Cursor;
use crate::handle::{self, Handle};
use crate::plugins::comparator::Comparator;
use crate::settings::options::Options;
use crate::settings::read::ReadOptions;
use crate::transactions::transaction::{Transaction, TransactionBatch};

/// An indexed batch (`rocksdb_writebatch_wi_t`).
pub(crate) struct IndexedBatch {
    own: WriteBatchWithIndex,
    /// The transaction that owns the operations; `None` for a batch of its own.
    of: Option<TransactionBatch>,
}

impl IndexedBatch {
    fn new(own: WriteBatchWithIndex) -> Self {
        IndexedBatch { own, of: None }
    }

    /// Returns the batch; that of a transaction that has ended is empty.
    pub(crate) fn get(&self) -> &WriteBatchWithIndex {
        let of = self.of.as_ref().and_then(TransactionBatch::get);
        of.unwrap_or(&self.own)
    }

    /// Returns the batch, to change it.
    pub(crate) fn get_mut(&mut self) -> &mut WriteBatchWithIndex {
        let of = self.of.as_mut().and_then(TransactionBatch::get_mut);
        of.unwrap_or(&mut self.own)
    }
}

/// Creates an indexed batch. The reserved size has no effect.
pub(crate) fn create(_: usize, overwrite_keys: bool) -> IndexedBatch {
    IndexedBatch::new(WriteBatchWithIndex::new(overwrite_keys))
}

/// Creates an indexed batch whose keys without a column family have the order of `comparator`.
///
/// The write of a batch of more than `bytes_max` fails; 0 is no limit. The checksums of keys would
/// guard the memory of the batch alone.
pub(crate) fn create_with_params(
    comparator: Option<&Comparator>,
    _: usize,
    overwrite_keys: bool,
    bytes_max: usize,
    _: usize,
) -> IndexedBatch {
    let order = comparator.map_or(KeyOrder::Bytewise, |of| KeyOrder::new(of.clone()));
    let mut batch = WriteBatchWithIndex::with_order(overwrite_keys, order);
    if bytes_max > 0 {
        batch.set_max_bytes(bytes_max);
    }
    IndexedBatch::new(batch)
}

/// Returns the operations of a transaction as a batch; its changes are those of the transaction.
pub(crate) fn of_transaction(transaction: *mut Handle<Transaction>) -> *mut Handle<IndexedBatch> {
    handle::give(IndexedBatch {
        own: WriteBatchWithIndex::new(true),
        of: Some(TransactionBatch::new(transaction)),
    })
}

/// Removes all changes.
pub(crate) fn clear(batch: &mut IndexedBatch) {
    batch.get_mut().clear();
}

/// Returns the number of changes.
pub(crate) fn count(batch: &mut IndexedBatch) -> usize {
    batch.get().len()
}

/// Returns the bytes of the batch.
pub(crate) fn data(batch: &mut IndexedBatch) -> &[u8] {
    batch.get().batch().data()
}

/// Adds a note to the log.
pub(crate) fn put_log_data(batch: &mut IndexedBatch, note: &[u8]) {
    batch.get_mut().put_log_data(note);
}

/// Sets a savepoint.
pub(crate) fn set_save_point(batch: &mut IndexedBatch) {
    batch.get_mut().set_save_point();
}

/// Removes the changes since the latest savepoint.
pub(crate) fn rollback_to_save_point(batch: &mut IndexedBatch) -> koeldb::Result<()> {
    batch.get_mut().rollback_to_save_point()
}

/// Declares a change, of the default column family and of another.
macro_rules! changes {
    ($($(#[$doc:meta])* $plain:ident, $cf:ident($($argument:ident),+);)*) => {$(
        $(#[$doc])*
        pub(crate) fn $plain(batch: &mut IndexedBatch, $($argument: &[u8]),+) {
            batch.get_mut().$plain($($argument),+);
        }

        $(#[$doc])*
        pub(crate) fn $cf(batch: &mut IndexedBatch, family: &ColumnFamily, $($argument: &[u8]),+) {
            batch.get_mut().$cf(family, $($argument),+);
        }
    )*};
}

changes! {
    /// Adds a put.
    put, put_cf(key, value);
    /// Adds a merge operand.
    merge, merge_cf(key, value);
    /// Adds a deletion.
    delete, delete_cf(key);
    /// Adds the deletion of a key that was put once.
    single_delete, single_delete_cf(key);
}

/// Returns the value that a batch alone gives a key of the default column family.
///
/// Merge operands without a base value in the batch are an error, as in RocksDB: there is no
/// database.
pub(crate) fn get_from_batch(
    batch: &mut IndexedBatch,
    _: &Options,
    key: &[u8],
) -> Result<Option<Vec<u8>>, Failure> {
    alone(batch.get().get_from_batch_default(key)?)
}

/// Returns the value that a batch alone gives a key; an error if that needs the database.
fn alone(value: koeldb::BatchValue) -> Result<Option<Vec<u8>>, Failure> {
    match value {
        koeldb::BatchValue::Value(value) => Ok(Some(value)),
        koeldb::BatchValue::Operands(_) => Err(Failure::Text("Merge in progress: ".to_owned())),
        _ => Ok(None),
    }
}

/// Returns the value that a batch alone gives a key of a column family.
pub(crate) fn get_from_batch_cf(
    batch: &mut IndexedBatch,
    _: &Options,
    family: &ColumnFamily,
    key: &[u8],
) -> Result<Option<Vec<u8>>, Failure> {
    alone(batch.get().get_from_batch(family, key)?)
}

/// Returns a value as it will be after the write of the batch.
pub(crate) fn get(
    batch: &mut IndexedBatch,
    db: &Db,
    options: &ReadOptions,
    key: &[u8],
) -> koeldb::Result<Option<PinnedSlice>> {
    batch.get().get_opt(db.default_cf(), key, &options.inner)
}

/// Returns a value of a column family as it will be after the write of the batch.
pub(crate) fn get_cf(
    batch: &mut IndexedBatch,
    _: &Db,
    options: &ReadOptions,
    family: &ColumnFamily,
    key: &[u8],
) -> koeldb::Result<Option<PinnedSlice>> {
    batch.get().get_opt(family, key, &options.inner)
}

/// Writes a batch.
pub(crate) fn write(
    db: &Db,
    options: &koeldb::WriteOptions,
    batch: &mut IndexedBatch,
) -> koeldb::Result<()> {
    db.write_opt(batch.get().batch(), options).map(drop)
}

/// Adds the changes of a batch to an iterator, which is given away.
pub(crate) fn over(batch: &mut IndexedBatch, base: Cursor) -> Cursor {
    base.with_batch(batch.get(), &koeldb::ReadOptions::new())
}

/// Adds the changes of a batch to an iterator; the options bound the keys of the batch.
pub(crate) fn over_with(
    batch: &mut IndexedBatch,
    base: Cursor,
    options: &crate::settings::read::ReadOptions,
) -> Cursor {
    base.with_batch(batch.get(), &options.inner)
}

/// Adds the changes of a batch to an iterator over a column family, which is that of the iterator.
pub(crate) fn over_family(
    batch: &mut IndexedBatch,
    base: Cursor,
    _: &koeldb::ColumnFamily,
) -> Cursor {
    over(batch, base)
}

/// Adds the changes of a batch to an iterator over a column family; the options bound its keys.
pub(crate) fn over_family_with(
    batch: &mut IndexedBatch,
    base: Cursor,
    _: &koeldb::ColumnFamily,
    options: &crate::settings::read::ReadOptions,
) -> Cursor {
    over_with(batch, base, options)
}
