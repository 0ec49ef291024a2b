//! Batches of operations that are written together.

use koeldb::BatchEntry;

use crate::error::timestamp;
use crate::{AsColumnFamilyRef, Error};

/// A batch for a [`DB`](crate::DB).
pub type WriteBatch = WriteBatchWithTransaction<false>;

/// A write batch: operations that are applied atomically.
///
/// `TRANSACTION` is true for databases with transactions, whose batches delete no ranges.
#[derive(Clone, Default)]
pub struct WriteBatchWithTransaction<const TRANSACTION: bool> {
    inner: koeldb::WriteBatch,
    /// The first request that cannot be served, returned when the batch is written.
    failure: Option<Error>,
}

/// A handler of the puts and deletions of the default column family in a write batch.
#[cfg(not(before_0_24))]
pub trait WriteBatchIterator {
    /// Handles a put.
    fn put(&mut self, key: &[u8], value: &[u8]);
    /// Handles a deletion.
    fn delete(&mut self, key: &[u8]);
}

/// A handler of the puts and deletions of the default column family in a write batch.
#[cfg(before_0_24)]
pub trait WriteBatchIterator {
    /// Handles a put.
    fn put(&mut self, key: Box<[u8]>, value: Box<[u8]>);
    /// Handles a deletion.
    fn delete(&mut self, key: Box<[u8]>);
}

/// A handler of puts, deletions and merge operands in a write batch, with column family ids.
pub trait WriteBatchIteratorCf {
    /// Handles a put.
    fn put_cf(&mut self, cf_id: u32, key: &[u8], value: &[u8]);
    /// Handles a deletion.
    fn delete_cf(&mut self, cf_id: u32, key: &[u8]);
    /// Handles a merge operand.
    fn merge_cf(&mut self, cf_id: u32, key: &[u8], value: &[u8]);
}

/// Declares a verb of a batch, in the default column family and in another.
macro_rules! verbs {
    ($($(#[doc = $doc:literal])+ $plain:ident, $cf:ident($($argument:ident: $kind:ident),+);)*) => {$(
        $(#[doc = $doc])+
        pub fn $plain<$($kind: AsRef<[u8]>),+>(&mut self, $($argument: $kind),+) {
            self.inner.$plain($($argument),+);
        }

        #[doc = concat!("Like `", stringify!($plain), "`, in a column family.")]
        pub fn $cf<$($kind: AsRef<[u8]>),+>(
            &mut self,
            cf: &impl AsColumnFamilyRef,
            $($argument: $kind),+
        ) {
            self.inner.$cf(cf.family(), $($argument),+);
        }
    )*};
}

impl<const TRANSACTION: bool> WriteBatchWithTransaction<TRANSACTION> {
    /// Creates an empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty batch with room for operations of `capacity_bytes` serialized bytes.
    #[must_use]
    pub fn with_capacity_bytes(capacity_bytes: usize) -> Self {
        koeldb::WriteBatch::with_capacity_bytes(capacity_bytes).into()
    }

    /// Creates a batch from its serialized form; if that is invalid, writing the batch fails.
    #[must_use]
    pub fn from_data(data: &[u8]) -> Self {
        match koeldb::WriteBatch::from_data(data) {
            Ok(inner) => inner.into(),
            Err(error) => WriteBatchWithTransaction {
                inner: koeldb::WriteBatch::new(),
                failure: Some(error.into()),
            },
        }
    }

    /// Returns the engine's batch, or the first error of a method call.
    pub(crate) fn checked(&self) -> Result<&koeldb::WriteBatch, Error> {
        match &self.failure {
            None => Ok(&self.inner),
            Some(error) => Err(error.clone()),
        }
    }

    /// Converts a timestamp; if it has another size, writing the batch fails.
    fn timestamp(&mut self, ts: impl AsRef<[u8]>) -> Option<koeldb::Timestamp> {
        timestamp(ts)
            .inspect_err(|error| {
                self.failure.get_or_insert(error.clone());
            })
            .ok()
    }

    /// Returns the number of operations.
    #[must_use]
    pub fn len(&self) -> usize {
        self.inner.len()
    }

    /// Returns the size of the serialized batch in bytes.
    #[must_use]
    pub fn size_in_bytes(&self) -> usize {
        self.inner.size_in_bytes()
    }

    /// Returns the serialized batch.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        self.inner.data()
    }

    /// Returns whether there are no operations.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.inner.is_empty()
    }

    /// Passes puts and deletions on the default column family to `callbacks`, in their order.
    ///
    /// COMPAT: ends at the first operation of another column family, and at a range deletion.
    #[cfg(not(before_0_24))]
    pub fn iterate<T: WriteBatchIterator>(&self, callbacks: &mut T) {
        self.visit(|key, value| match value {
            Some(value) => callbacks.put(key, value),
            None => callbacks.delete(key),
        });
    }

    /// Passes puts and deletions on the default column family to `callbacks`, in their order.
    ///
    /// COMPAT: ends at the first operation of another column family, and at a range deletion.
    #[cfg(before_0_24)]
    pub fn iterate(&self, callbacks: &mut dyn WriteBatchIterator) {
        self.visit(|key, value| match value {
            Some(value) => callbacks.put(key.into(), value.into()),
            None => callbacks.delete(key.into()),
        });
    }

    /// Calls `visit` with each put, and with each deletion without a value.
    fn visit(&self, mut visit: impl FnMut(&[u8], Option<&[u8]>)) {
        for entry in self.inner.iter().map_while(Result::ok) {
            match entry {
                BatchEntry::Put { cf: 0, key, value } => visit(key, Some(value)),
                BatchEntry::Delete { cf: 0, key } => visit(key, None),
                BatchEntry::SingleDelete { cf: 0, .. }
                | BatchEntry::Merge { cf: 0, .. }
                | BatchEntry::LogData(_) => {}
                _ => return,
            }
        }
    }

    /// Passes puts, deletions and merge operands to `callbacks`, in their order.
    ///
    /// COMPAT: ends at a single deletion of another column family, and at a range deletion.
    pub fn iterate_cf<T: WriteBatchIteratorCf>(&self, callbacks: &mut T) {
        for entry in self.inner.iter().map_while(Result::ok) {
            match entry {
                BatchEntry::Put { cf, key, value } => callbacks.put_cf(cf, key, value),
                BatchEntry::Delete { cf, key } => callbacks.delete_cf(cf, key),
                BatchEntry::Merge { cf, key, operand } => callbacks.merge_cf(cf, key, operand),
                BatchEntry::SingleDelete { cf: 0, .. } | BatchEntry::LogData(_) => {}
                _ => return,
            }
        }
    }

    verbs! {
        /// Sets the value of `key`.
        put, put_cf(key: K, value: V);
        /// Adds a merge operand to `key`.
        merge, merge_cf(key: K, value: V);
        /// Deletes `key`.
        delete, delete_cf(key: K);
        /// Deletes `key`, which was put exactly once since its last single deletion.
        single_delete, single_delete_cf(key: K);
    }

    /// Sets the value of `key` at a timestamp.
    pub fn put_cf_with_ts<K, V, S>(&mut self, cf: &impl AsColumnFamilyRef, key: K, ts: S, value: V)
    where
        K: AsRef<[u8]>,
        V: AsRef<[u8]>,
        S: AsRef<[u8]>,
    {
        if let Some(timestamp) = self.timestamp(ts) {
            self.inner
                .put_cf_with_ts(cf.family(), key, timestamp, value);
        }
    }

    /// Deletes `key` at a timestamp.
    pub fn delete_cf_with_ts<K: AsRef<[u8]>, S: AsRef<[u8]>>(
        &mut self,
        cf: &impl AsColumnFamilyRef,
        key: K,
        ts: S,
    ) {
        if let Some(timestamp) = self.timestamp(ts) {
            self.inner.delete_cf_with_ts(cf.family(), key, timestamp);
        }
    }

    /// Adds a blob that is written to the WAL only (`PutLogData`).
    pub fn put_log_data<V: AsRef<[u8]>>(&mut self, log_data: V) {
        self.inner.put_log_data(log_data);
    }

    /// Removes all operations.
    pub fn clear(&mut self) {
        self.inner.clear();
        self.failure = None;
    }
}

impl WriteBatchWithTransaction<false> {
    /// Adds a range deletion of `from..to` in the default column family.
    pub fn delete_range<K: AsRef<[u8]>>(&mut self, from: K, to: K) {
        self.inner.delete_range(from, to);
    }

    /// Adds a range deletion of `from..to` in a column family.
    pub fn delete_range_cf<K: AsRef<[u8]>>(&mut self, cf: &impl AsColumnFamilyRef, from: K, to: K) {
        self.inner.delete_range_cf(cf.family(), from, to);
    }
}

impl<const TRANSACTION: bool> From<koeldb::WriteBatch> for WriteBatchWithTransaction<TRANSACTION> {
    fn from(inner: koeldb::WriteBatch) -> Self {
        WriteBatchWithTransaction {
            inner,
            failure: None,
        }
    }
}
