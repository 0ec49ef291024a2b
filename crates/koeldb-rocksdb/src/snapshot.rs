//! Snapshots: reads of one moment.

use crate::access::{Family, Pinned, Value, key_forms};
use crate::{
    AsColumnFamilyRef, DB, DBAccess, DBIteratorWithThreadMode, DBRawIteratorWithThreadMode,
    IteratorMode, ReadOptions, access,
};

/// A snapshot of a [`DB`].
pub type Snapshot<'a> = SnapshotWithThreadMode<'a, DB>;

/// A state of a database, kept until this value is dropped.
///
/// That of a transaction reads its writes too, and the latest state if it was begun without a
/// snapshot.
pub struct SnapshotWithThreadMode<'a, D: DBAccess> {
    source: &'a D,
    pub(crate) inner: Option<koeldb::Snapshot>,
}

impl<'a, D: DBAccess> SnapshotWithThreadMode<'a, D> {
    /// Takes a snapshot.
    pub fn new(db: &'a D) -> Self {
        SnapshotWithThreadMode {
            source: db,
            inner: db.take_snapshot(),
        }
    }

    fn narrow(&self, mut options: ReadOptions) -> ReadOptions {
        options.set_snapshot(self);
        options
    }

    /// The sequence number of the latest visible write; 0 for a transaction without a snapshot.
    pub fn sequence_number(&self) -> u64 {
        let snapshot = self.inner.as_ref();
        snapshot.map_or(0, koeldb::Snapshot::sequence_number)
    }

    fn entries<'b>(
        &self,
        family: Family<'_>,
        options: ReadOptions,
        mode: IteratorMode,
    ) -> DBIteratorWithThreadMode<'b, D> {
        DBIteratorWithThreadMode::new(self.source, family, &self.narrow(options), mode)
    }

    fn raw<'b>(
        &self,
        family: Family<'_>,
        options: ReadOptions,
    ) -> DBRawIteratorWithThreadMode<'b, D> {
        DBRawIteratorWithThreadMode::new(self.source, family, &self.narrow(options))
    }

    /// Returns the entries from a start in a direction.
    pub fn iterator(&self, mode: IteratorMode) -> DBIteratorWithThreadMode<'a, D> {
        self.entries(None, ReadOptions::default(), mode)
    }

    /// Like `iterator`, of a column family.
    pub fn iterator_cf(
        &self,
        cf_handle: &impl AsColumnFamilyRef,
        mode: IteratorMode,
    ) -> DBIteratorWithThreadMode<'_, D> {
        self.entries(Some(cf_handle.family()), ReadOptions::default(), mode)
    }

    /// Like `iterator`, with options.
    pub fn iterator_opt(
        &self,
        mode: IteratorMode,
        readopts: ReadOptions,
    ) -> DBIteratorWithThreadMode<'a, D> {
        self.entries(None, readopts, mode)
    }

    /// Like `iterator`, of a column family, with options.
    pub fn iterator_cf_opt(
        &self,
        cf_handle: &impl AsColumnFamilyRef,
        readopts: ReadOptions,
        mode: IteratorMode,
    ) -> DBIteratorWithThreadMode<'_, D> {
        self.entries(Some(cf_handle.family()), readopts, mode)
    }

    /// Creates an iterator without position.
    pub fn raw_iterator(&self) -> DBRawIteratorWithThreadMode<'_, D> {
        self.raw(None, ReadOptions::default())
    }

    /// Like `raw_iterator`, of a column family.
    pub fn raw_iterator_cf(
        &self,
        cf_handle: &impl AsColumnFamilyRef,
    ) -> DBRawIteratorWithThreadMode<'_, D> {
        self.raw(Some(cf_handle.family()), ReadOptions::default())
    }

    /// Like `raw_iterator`, with options.
    pub fn raw_iterator_opt(&self, readopts: ReadOptions) -> DBRawIteratorWithThreadMode<'_, D> {
        self.raw(None, readopts)
    }

    /// Like `raw_iterator`, of a column family, with options.
    pub fn raw_iterator_cf_opt(
        &self,
        cf_handle: &impl AsColumnFamilyRef,
        readopts: ReadOptions,
    ) -> DBRawIteratorWithThreadMode<'_, D> {
        self.raw(Some(cf_handle.family()), readopts)
    }

    key_forms! {
        /// Returns the value of `key`.
        get, get_opt, get_cf, get_cf_opt(
            self, family, key; readopts: ReadOptions = ReadOptions::default()
        ) -> Value {
            access::get(self.source, family, key, &self.narrow(readopts))
        }
    }

    key_forms! {
        /// Returns the value of `key` without a copy.
        get_pinned, get_pinned_opt, get_pinned_cf, get_pinned_cf_opt(
            self, family, key; readopts: ReadOptions = ReadOptions::default()
        ) -> Pinned<'_> {
            access::get_pinned(self.source, family, key, &self.narrow(readopts))
        }
    }

    /// Returns the values of `keys`, in their order, each with its own result.
    pub fn multi_get<K: AsRef<[u8]>, I>(&self, keys: I) -> Vec<Value>
    where
        I: IntoIterator<Item = K>,
    {
        self.multi_get_opt(keys, ReadOptions::default())
    }

    /// Like `multi_get`, in column families.
    pub fn multi_get_cf<'b, K, I, W>(&self, keys_cf: I) -> Vec<Value>
    where
        K: AsRef<[u8]>,
        I: IntoIterator<Item = (&'b W, K)>,
        W: AsColumnFamilyRef + 'b,
    {
        self.multi_get_cf_opt(keys_cf, ReadOptions::default())
    }

    /// Like `multi_get`, with options.
    pub fn multi_get_opt<K, I>(&self, keys: I, readopts: ReadOptions) -> Vec<Value>
    where
        K: AsRef<[u8]>,
        I: IntoIterator<Item = K>,
    {
        access::multi_get(self.source, keys, &self.narrow(readopts))
    }

    /// Like `multi_get`, in column families, with options.
    pub fn multi_get_cf_opt<'b, K, I, W>(&self, keys_cf: I, readopts: ReadOptions) -> Vec<Value>
    where
        K: AsRef<[u8]>,
        I: IntoIterator<Item = (&'b W, K)>,
        W: AsColumnFamilyRef + 'b,
    {
        access::multi_get_cf(self.source, keys_cf, &self.narrow(readopts))
    }
}
