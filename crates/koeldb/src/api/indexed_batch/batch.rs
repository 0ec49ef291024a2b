//! The indexed batch: its operations, save points and reads.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use koeldb_base::entity::{self, Columns, WideColumns, with_default_column};
use koeldb_base::merge_operator::{MergeCounts, Merger, merge_values};
use koeldb_base::sync::lock_plain as lock;
use koeldb_base::timestamp::{MIN_TIMESTAMP, Timestamp, join};
use koeldb_base::{Error, KeyOrder, PinnedSlice, Result, SeqNo};

use super::cursor::BatchCursor;
use super::delta::Delta;
use super::effect::{Base, Effect, bare_key, effect};
use super::index::{Index, Operation};
use crate::api::column_family::ColumnFamily;
use crate::batch::{BatchEntry, WriteBatch, entry_at};
use crate::read::{DbCursor, ReadOptions};

/// The result of a lookup of a key in an indexed batch alone, without the database.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BatchValue<V = Vec<u8>> {
    /// The batch sets this value.
    Value(V),
    /// The batch deletes the key.
    Deleted,
    /// The batch does not name the key.
    Absent,
    /// The batch adds these operands, newest first, to the value in the database.
    Operands(Vec<Vec<u8>>),
}

/// Returns a number above 0 that it has not returned before.
fn new_mark() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A key without its timestamp, in the order of its column family.
struct SortedKey {
    cf: u32,
    order: KeyOrder,
    key: Vec<u8>,
}

impl Ord for SortedKey {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let in_family = || self.order.compare(&self.key, &other.key);
        self.cf.cmp(&other.cf).then_with(in_family)
    }
}

impl PartialOrd for SortedKey {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for SortedKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for SortedKey {}

/// A write batch with an index, so that its operations can be read before it is written.
///
/// A batch has one of two modes, which differ only in [`WriteBatchWithIndex::entries`]: with
/// `overwrite_key` it shows one operation of each key, otherwise all of them. The serialized batch
/// keeps every operation in both modes. Keys are compared in the order of their column family.
///
/// Range deletions are not supported. The batch is `Send`. A cursor shows later operations, too:
/// see [`BatchCursor`].
///
/// ```
/// # use koeldb::{Db, Env, Options, WriteBatchWithIndex};
/// # fn main() -> koeldb::Result<()> {
/// # let mut options = Options::new();
/// # options.create_if_missing(true).set_env(&Env::mem_env());
/// let db = Db::open(&options, "/indexed")?;
/// db.put("a", "old")?;
/// let mut batch = WriteBatchWithIndex::new(true);
/// batch.put("a", "new").delete("b");
/// assert_eq!(batch.get(db.default_cf(), "a")?.as_deref(), Some(&b"new"[..]));
/// assert_eq!(db.get("a")?.as_deref(), Some(&b"old"[..]));
/// db.write(batch.batch())?;
/// # Ok(())
/// # }
/// ```
pub struct WriteBatchWithIndex {
    batch: WriteBatch,
    overwrite_key: bool,
    index: Index,
    /// The number of each key whose order may equate it with others, in which it is hashed.
    classes: BTreeMap<SortedKey, u64>,
    default_order: KeyOrder,
    /// The key orders of column families other than the default one.
    orders: BTreeMap<u32, KeyOrder>,
    /// The operations in sorted order, by column family, from the first cursor on.
    deltas: Mutex<BTreeMap<u32, Arc<Delta>>>,
    /// The mark of a prepared transaction, until operations are removed; 0 without one.
    mark: u64,
}

/// Returns what the mutex of a batch has, without a lock: nobody else uses the batch.
fn exclusive<T>(mutex: &mut Mutex<T>) -> &mut T {
    mutex.get_mut().unwrap_or_else(PoisonError::into_inner)
}

impl WriteBatchWithIndex {
    /// Creates an empty batch; the default column family has the bytewise order.
    #[must_use]
    pub fn new(overwrite_key: bool) -> Self {
        Self::with_order(overwrite_key, KeyOrder::Bytewise)
    }

    /// Creates an empty batch for a database whose default column family has this order.
    #[must_use]
    pub fn with_order(overwrite_key: bool, default_order: KeyOrder) -> Self {
        WriteBatchWithIndex {
            batch: WriteBatch::new(),
            overwrite_key,
            index: Index::default(),
            classes: BTreeMap::new(),
            default_order,
            orders: BTreeMap::new(),
            deltas: Mutex::default(),
            mark: 0,
        }
    }

    /// Marks the batch, and returns its mark, which no other batch has.
    pub(crate) fn set_mark(&mut self) -> u64 {
        self.mark = new_mark();
        self.mark
    }

    /// The mark, as long as operations are only added behind it; 0 without one.
    pub(crate) fn mark(&self) -> u64 {
        self.mark
    }

    /// The write batch without its index.
    #[must_use]
    pub fn batch(&self) -> &WriteBatch {
        &self.batch
    }

    /// Converts to the write batch without its index.
    #[must_use]
    pub fn into_batch(self) -> WriteBatch {
        self.batch
    }

    /// Whether [`WriteBatchWithIndex::entries`] shows one operation of each key.
    #[must_use]
    pub fn overwrites_keys(&self) -> bool {
        self.overwrite_key
    }

    /// The number of operations.
    #[must_use]
    pub fn len(&self) -> usize {
        self.batch.len()
    }

    /// Whether there are no operations.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// Returns the key order by which the index compares keys of column family `cf`.
    fn order(&self, cf: u32) -> &KeyOrder {
        self.orders.get(&cf).unwrap_or(&self.default_order)
    }

    /// Records the key order of `family` for the index, unless it is the default column family.
    fn keep_order(&mut self, family: &ColumnFamily) {
        if family.id() != 0 {
            let order = || family.data().order.clone();
            self.orders.entry(family.id()).or_insert_with(order);
        }
    }

    /// Returns a key of column family `cf` in its order; `None` if its bytes alone tell it apart.
    fn sorted_key(&self, cf: u32, key: &[u8]) -> Option<SortedKey> {
        let order = self.order(cf);
        let order = match order.has_timestamps() {
            true => order.without_timestamps(),
            false => order.clone(),
        };
        (!order.equal_keys_have_equal_bytes()).then(|| SortedKey {
            cf,
            order,
            key: key.to_vec(),
        })
    }

    /// Returns the index hash of a key; equal keys have the same one.
    fn hash(&self, cf: u32, key: &[u8]) -> u64 {
        let Some(sorted) = self.sorted_key(cf, key) else {
            return self.index.hash(cf, Some(key));
        };
        // Only keys without operations have no number.
        let class = self.classes.get(&sorted).map(|class| class.to_le_bytes());
        self.index.hash(cf, class.as_ref().map(<[u8; 8]>::as_slice))
    }

    /// Lets `write` add an operation on `key` to the batch, and indexes it if it was added.
    fn add(&mut self, cf: u32, key: &[u8], write: impl FnOnce(&mut WriteBatch)) -> &mut Self {
        let (offset, count) = (self.batch.size_in_bytes(), self.batch.len());
        write(&mut self.batch);
        if self.batch.len() > count {
            let hash = match self.sorted_key(cf, key) {
                None => self.index.hash(cf, Some(key)),
                Some(sorted) => {
                    let next = self.classes.len() as u64;
                    let class = self.classes.entry(sorted).or_insert(next);
                    self.index.hash(cf, Some(&class.to_le_bytes()))
                }
            };
            let rep = self.batch.data();
            let order = self.orders.get(&cf).unwrap_or(&self.default_order);
            let is_key = |operation: &Operation| is_key_at(rep, operation, cf, key, order);
            let is_indexed = self.index.push(offset, hash, is_key);
            debug_assert!(is_indexed, "a batch has fewer operations than that");
            if let Some(delta) = exclusive(&mut self.deltas).get(&cf)
                && let Some(entry) = entry_at(rep, offset)
            {
                delta.add(number_of(self.index.operations().len()), &entry);
            }
        }
        self
    }

    /// Lets `write` add an operation on `key` of the default column family, and indexes it.
    ///
    /// If keys have user-defined timestamps, `write` gets the key with room for one.
    fn add_default(&mut self, key: &[u8], write: impl FnOnce(&mut WriteBatch, &[u8])) -> &mut Self {
        if self.default_order.has_timestamps() {
            let dated = join(key, &MIN_TIMESTAMP);
            return self.add(0, key, |batch| {
                batch.dated(true, |batch| write(batch, &dated));
            });
        }
        self.add(0, key, |batch| write(batch, key))
    }

    /// Sets the timestamp of all operations on column families with user-defined timestamps.
    ///
    /// # Errors
    /// See [`WriteBatch::update_timestamps`].
    pub fn update_timestamps(&mut self, timestamp: Timestamp) -> Result<()> {
        self.batch.update_timestamps(timestamp)
    }

    /// Sets the size in bytes above which the write of the batch fails.
    pub fn set_max_bytes(&mut self, bytes: usize) -> &mut Self {
        self.batch.set_max_bytes(bytes);
        self
    }

    /// Sets the value of `key` in the default column family.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> &mut Self {
        let (key, value) = (key.as_ref(), value.as_ref());
        self.add_default(key, |batch, key| {
            batch.put_id(0, key, value);
        })
    }

    /// Sets the value of `key` in `family`.
    pub fn put_cf(
        &mut self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> &mut Self {
        self.keep_order(family);
        let (key, value) = (key.as_ref(), value.as_ref());
        self.add(family.id(), key, |batch| {
            batch.put_cf(family, key, value);
        })
    }

    /// Sets the value of `key` in the default column family to a wide-column entity.
    ///
    /// # Errors
    /// See [`WriteBatch::put_entity`].
    pub fn put_entity<N: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        key: impl AsRef<[u8]>,
        columns: &[(N, V)],
    ) -> Result<&mut Self> {
        let (key, entity) = (key.as_ref(), entity::encode(columns)?);
        Ok(self.add_default(key, |batch, key| {
            batch.put_encoded_entity_id(0, key, &entity);
        }))
    }

    /// Sets the value of `key` in `family` to a wide-column entity.
    ///
    /// # Errors
    /// See [`WriteBatch::put_entity`].
    pub fn put_entity_cf<N: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        columns: &[(N, V)],
    ) -> Result<&mut Self> {
        let entity = entity::encode(columns)?;
        Ok(self.put_encoded_entity_cf(family, key.as_ref(), &entity))
    }

    /// Sets the value of `key` in `family` to an encoded wide-column entity.
    pub(crate) fn put_encoded_entity_cf(
        &mut self,
        family: &ColumnFamily,
        key: &[u8],
        entity: &[u8],
    ) -> &mut Self {
        self.keep_order(family);
        self.add(family.id(), key, |batch| {
            batch.put_encoded_entity_cf(family, key, entity);
        })
    }

    /// Adds a merge operand to `key` in the default column family.
    pub fn merge(&mut self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> &mut Self {
        let (key, operand) = (key.as_ref(), operand.as_ref());
        self.add_default(key, |batch, key| {
            batch.merge_id(0, key, operand);
        })
    }

    /// Adds a merge operand to `key` in `family`.
    pub fn merge_cf(
        &mut self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> &mut Self {
        self.keep_order(family);
        let (key, operand) = (key.as_ref(), operand.as_ref());
        self.add(family.id(), key, |batch| {
            batch.merge_cf(family, key, operand);
        })
    }

    /// Deletes `key` in the default column family.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> &mut Self {
        let key = key.as_ref();
        self.add_default(key, |batch, key| {
            batch.delete_id(0, key);
        })
    }

    /// Deletes `key` in `family`.
    pub fn delete_cf(&mut self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> &mut Self {
        self.keep_order(family);
        let key = key.as_ref();
        self.add(family.id(), key, |batch| {
            batch.delete_cf(family, key);
        })
    }

    /// Deletes `key`, put exactly once, in the default column family.
    ///
    /// See [`ColumnFamily::single_delete`].
    pub fn single_delete(&mut self, key: impl AsRef<[u8]>) -> &mut Self {
        let key = key.as_ref();
        self.add_default(key, |batch, key| {
            batch.single_delete_id(0, key);
        })
    }

    /// Deletes `key`, put exactly once, in `family`.
    ///
    /// See [`ColumnFamily::single_delete`].
    pub fn single_delete_cf(&mut self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> &mut Self {
        self.keep_order(family);
        let key = key.as_ref();
        self.add(family.id(), key, |batch| {
            batch.single_delete_cf(family, key);
        })
    }

    /// Adds an operation of another batch on a column family with the id of `family`.
    ///
    /// # Errors
    /// `NotSupported` for range deletions.
    pub(crate) fn add_entry(
        &mut self,
        family: &ColumnFamily,
        entry: &BatchEntry<'_>,
    ) -> Result<()> {
        let key = bare_key(entry, family.data().has_timestamps);
        match *entry {
            BatchEntry::Put { value, .. } => self.put_cf(family, key, value),
            BatchEntry::PutEntity { entity, .. } => self.put_encoded_entity_cf(family, key, entity),
            BatchEntry::Merge { operand, .. } => self.merge_cf(family, key, operand),
            BatchEntry::Delete { .. } => self.delete_cf(family, key),
            BatchEntry::SingleDelete { .. } => self.single_delete_cf(family, key),
            BatchEntry::LogData(note) => self.put_log_data(note),
            BatchEntry::DeleteRange { .. } => {
                return Err(Error::not_supported(
                    "a batch with an index cannot hold range deletions",
                ));
            }
        };
        Ok(())
    }

    /// Adds log data, which is written only to the log.
    pub fn put_log_data(&mut self, note: impl AsRef<[u8]>) -> &mut Self {
        self.batch.put_log_data(note);
        self
    }

    /// Removes all operations and save points.
    pub fn clear(&mut self) {
        self.batch.clear();
        self.index.clear();
        self.classes.clear();
        self.renew_deltas();
    }

    /// Brings the sorted operations up to date after some were removed.
    ///
    /// Those that no cursor shares are dropped.
    fn renew_deltas(&mut self) {
        self.mark = 0;
        let mut deltas = std::mem::take(exclusive(&mut self.deltas));
        deltas.retain(|_, delta| Arc::strong_count(delta) > 1);
        for (&cf, delta) in &deltas {
            delta.clear();
            self.fill(cf, delta);
        }
        *exclusive(&mut self.deltas) = deltas;
    }

    /// Adds the operations on column family `cf` to `delta`.
    fn fill(&self, cf: u32, delta: &Delta) {
        for (index, operation) in self.index.operations().iter().enumerate() {
            let entry = entry_at(self.batch.data(), operation.offset);
            if let Some(entry) = entry.filter(|entry| entry.family() == Some(cf)) {
                delta.add(number_of(index + 1), &entry);
            }
        }
    }

    /// Sets a save point for [`WriteBatchWithIndex::rollback_to_save_point`].
    pub fn set_save_point(&mut self) -> &mut Self {
        self.batch.set_save_point();
        self
    }

    /// Removes the operations since the last save point, and the save point itself.
    ///
    /// # Errors
    /// `NotFound` if there is none.
    pub fn rollback_to_save_point(&mut self) -> Result<()> {
        self.batch.rollback_to_save_point()?;
        self.index.truncate(self.batch.size_in_bytes());
        self.renew_deltas();
        Ok(())
    }

    /// Removes the last save point and keeps the operations since.
    ///
    /// # Errors
    /// `NotFound` if there is none.
    pub fn pop_save_point(&mut self) -> Result<()> {
        self.batch.pop_save_point()
    }

    /// Calls `read` with the effect of the batch on `key`, or `None` if the batch does not name it.
    fn with_effect<R>(
        &self,
        cf: u32,
        order: &KeyOrder,
        key: &[u8],
        read: impl FnOnce(Option<Effect<'_>>) -> R,
    ) -> R {
        let rep = self.batch.data();
        let hash = self.hash(cf, key);
        let is_key = |operation: &Operation| is_key_at(rep, operation, cf, key, order);
        let operations = self.index.operations();
        let newest = operations.get(self.index.newest(hash, is_key) as usize);
        if newest.is_none() {
            return read(None);
        }
        let chain = std::iter::successors(newest, |operation| {
            operations.get(operation.previous as usize)
        });
        read(Some(effect(
            chain.filter_map(|operation| entry_at(rep, operation.offset)),
        )))
    }

    /// Returns what the batch does to `key` in `family`, without reading the database.
    ///
    /// # Errors
    /// Errors of the merge operator, or `NotSupported` if the batch merges onto its own value and
    /// the column family has none.
    pub fn get_from_batch(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
    ) -> Result<BatchValue> {
        let (data, key) = (family.data(), key.as_ref());
        self.with_effect(family.id(), &data.order, key, |effect| {
            let owned = |operands: &[&[u8]]| operands.iter().map(|o| o.to_vec()).collect();
            Ok(match effect {
                None => BatchValue::Absent,
                Some(Effect::Value(value)) => BatchValue::Value(value.to_vec()),
                Some(Effect::Entity(entity)) => {
                    BatchValue::Value(Columns::of_entity(entity)?.default_value().to_vec())
                }
                Some(Effect::Deleted) => BatchValue::Deleted,
                Some(Effect::Operands(operands, Base::Unknown)) => {
                    BatchValue::Operands(owned(&operands))
                }
                Some(Effect::Operands(operands, base)) => {
                    let merged = merge(family, key, base, None, &operands)?;
                    BatchValue::Value(merged)
                }
            })
        })
    }

    /// Returns what the batch does to `key` in the default column family, in the batch's own order.
    ///
    /// Without a column family there is no merge operator: operands stay operands, whatever they are
    /// merged onto.
    ///
    /// # Errors
    /// `Corruption` if the batch has a malformed entity.
    pub fn get_from_batch_default(&self, key: impl AsRef<[u8]>) -> Result<BatchValue> {
        self.with_effect(0, &self.default_order, key.as_ref(), |effect| {
            Ok(match effect {
                None => BatchValue::Absent,
                Some(Effect::Value(value)) => BatchValue::Value(value.to_vec()),
                Some(Effect::Entity(entity)) => {
                    BatchValue::Value(Columns::of_entity(entity)?.default_value().to_vec())
                }
                Some(Effect::Deleted) => BatchValue::Deleted,
                Some(Effect::Operands(operands, _)) => {
                    BatchValue::Operands(operands.iter().map(|o| o.to_vec()).collect())
                }
            })
        })
    }

    /// Returns the columns that the batch gives to `key` in `family`, without reading the database.
    ///
    /// # Errors
    /// See [`WriteBatchWithIndex::get_from_batch`].
    pub fn get_entity_from_batch(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
    ) -> Result<BatchValue<WideColumns>> {
        let (data, key) = (family.data(), key.as_ref());
        self.with_effect(family.id(), &data.order, key, |effect| match effect {
            None => Ok(BatchValue::Absent),
            Some(Effect::Operands(operands, Base::Unknown)) => {
                let operands = operands.iter().map(|operand| operand.to_vec());
                Ok(BatchValue::Operands(operands.collect()))
            }
            effect => {
                let columns = resolve_columns(family, key, effect, || Ok(None))?;
                Ok(columns.map_or(BatchValue::Deleted, BatchValue::Value))
            }
        })
    }

    /// Returns the value of `key` in `family` as if the batch was written.
    ///
    /// # Errors
    /// See [`ColumnFamily::get`].
    pub fn get(&self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<Option<PinnedSlice>> {
        self.get_opt(family, key, &ReadOptions::new())
    }

    /// Like [`WriteBatchWithIndex::get`], with `options`.
    ///
    /// A snapshot in the options limits what is read from the database, not the batch.
    ///
    /// # Errors
    /// See [`ColumnFamily::get_opt`].
    pub fn get_opt(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
    ) -> Result<Option<PinnedSlice>> {
        check_named(family, options)?;
        let key = key.as_ref();
        self.with_effect(family.id(), &family.data().order, key, |effect| {
            resolve(family, key, effect, || family.get_opt(key, options))
        })
    }

    /// Returns the columns of `key` in `family` as if the batch was written.
    ///
    /// # Errors
    /// See [`ColumnFamily::get_entity`].
    pub fn get_entity(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<WideColumns>> {
        self.get_entity_opt(family, key, &ReadOptions::new())
    }

    /// Like [`WriteBatchWithIndex::get_entity`], with `options`.
    ///
    /// A snapshot in the options limits what is read from the database, not the batch.
    ///
    /// # Errors
    /// See [`ColumnFamily::get_entity_opt`].
    pub fn get_entity_opt(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
    ) -> Result<Option<WideColumns>> {
        check_named(family, options)?;
        let key = key.as_ref();
        self.with_effect(family.id(), &family.data().order, key, |effect| {
            let stored = || family.get_entity_opt(key, options);
            resolve_columns(family, key, effect, stored)
        })
    }

    /// Returns the columns of `keys` in `family` as if the batch was written, in their order.
    ///
    /// The keys that the batch does not decide are read from the database by one multi-get.
    #[must_use]
    pub fn multi_get_entity<K: AsRef<[u8]>>(
        &self,
        family: &ColumnFamily,
        keys: &[K],
        options: &ReadOptions,
    ) -> Vec<Result<Option<WideColumns>>> {
        if let Err(error) = check_named(family, options) {
            return keys.iter().map(|_| Err(error.clone())).collect();
        }
        let needed = self.undecided(family, keys);
        let mut found = family.multi_get_entity_opt(&needed, options).into_iter();
        keys.iter()
            .map(|key| {
                let (key, order) = (key.as_ref(), &family.data().order);
                self.with_effect(family.id(), order, key, |effect| {
                    let stored = || found.next().unwrap_or(Ok(None));
                    resolve_columns(family, key, effect, stored)
                })
            })
            .collect()
    }

    /// Returns those of `keys` whose values depend on the database.
    fn undecided<'k, K: AsRef<[u8]>>(&self, family: &ColumnFamily, keys: &'k [K]) -> Vec<&'k K> {
        let order = &family.data().order;
        let needs_database = |key: &&K| {
            self.with_effect(family.id(), order, key.as_ref(), |effect| {
                matches!(effect, None | Some(Effect::Operands(_, Base::Unknown)))
            })
        };
        keys.iter().filter(needs_database).collect()
    }

    /// Returns the values of `keys` in `family` as if the batch was written, in their order.
    ///
    /// The keys that the batch does not decide are read from the database by one multi-get.
    #[must_use]
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        family: &ColumnFamily,
        keys: &[K],
        options: &ReadOptions,
    ) -> Vec<Result<Option<PinnedSlice>>> {
        if let Err(error) = check_named(family, options) {
            return keys.iter().map(|_| Err(error.clone())).collect();
        }
        let order = &family.data().order;
        let needed = self.undecided(family, keys);
        let found = family.multi_get_opt(&needed, options);
        let mut next = 0;
        keys.iter()
            .map(|key| {
                let key = key.as_ref();
                self.with_effect(family.id(), order, key, |effect| {
                    resolve(family, key, effect, || {
                        next += 1;
                        found.get_pinned(next - 1)
                    })
                })
            })
            .collect()
    }

    /// Creates a cursor over `family` as if the batch was written, without position.
    #[must_use]
    pub fn cursor(&self, family: &ColumnFamily) -> BatchCursor {
        self.cursor_opt(family, &ReadOptions::new())
    }

    /// Like [`WriteBatchWithIndex::cursor`], with `options` and their bounds.
    ///
    /// A snapshot in the options limits what is read from the database, not the batch.
    #[must_use]
    pub fn cursor_opt(&self, family: &ColumnFamily, options: &ReadOptions) -> BatchCursor {
        BatchCursor::new(family, options, self.delta(family))
    }

    /// Creates a cursor over `database`, a cursor over `family`, as if the batch was written.
    ///
    /// `database` keeps its snapshot and its bounds; it must lend values
    /// ([`ReadOptions::set_keys_only`]). The bounds of `options` limit the keys of the batch.
    #[must_use]
    pub fn cursor_over(
        &self,
        family: &ColumnFamily,
        database: DbCursor,
        options: &ReadOptions,
    ) -> BatchCursor {
        BatchCursor::over(family, options, database, self.delta(family))
    }

    /// Returns the operations on `family` in sorted order, which later ones are added to.
    pub(super) fn delta(&self, family: &ColumnFamily) -> Arc<Delta> {
        let cf = family.id();
        let mut deltas = lock(&self.deltas);
        if let Some(delta) = deltas.get(&cf) {
            return Arc::clone(delta);
        }
        let delta = Arc::new(Delta::new(family));
        self.fill(cf, &delta);
        deltas.insert(cf, Arc::clone(&delta));
        delta
    }

    /// Calls `visit` with the operations on `family`, by ascending key and newest first.
    ///
    /// With `overwrite_key`, older operations of a key are left out, except for those beneath merge
    /// operands that contribute to its value.
    pub fn entries(&self, family: &ColumnFamily, mut visit: impl FnMut(BatchEntry<'_>)) {
        let mut is_below_merges = true;
        let visited = self.delta(family).for_each(|entry, is_newest| {
            let is_merge = matches!(entry, BatchEntry::Merge { .. });
            if is_newest || is_below_merges || !self.overwrite_key {
                is_below_merges = is_merge;
                visit(entry);
            }
        });
        debug_assert!(
            visited.is_ok(),
            "entries in memory can be read: {visited:?}"
        );
    }
}

/// Returns the sequence number of the operation that is number `count` of a batch, from one.
fn number_of(count: usize) -> SeqNo {
    count as SeqNo
}

/// Fails with `InvalidArgument` if keys have user-defined timestamps, and the read names none.
///
/// The operations of the batch count as newer than all timestamps.
fn check_named(family: &ColumnFamily, options: &ReadOptions) -> Result<()> {
    match family.data().has_timestamps && options.get_timestamp().is_none() {
        true => Err(Error::invalid_argument(format!(
            "column family {:?} has user-defined timestamps: name one with \
             ReadOptions::set_timestamp",
            family.name()
        ))),
        false => Ok(()),
    }
}

/// Whether the operation is on `key`, without its timestamp, of column family `cf`.
fn is_key_at(rep: &[u8], operation: &Operation, cf: u32, key: &[u8], order: &KeyOrder) -> bool {
    let entry = entry_at(rep, operation.offset);
    entry.is_some_and(|entry| {
        let has_timestamps = order.has_timestamps();
        let own = bare_key(&entry, has_timestamps);
        entry.family() == Some(cf)
            && match has_timestamps {
                true => (order.comparator())
                    .compare_without_timestamps(own, key)
                    .is_eq(),
                false => order.equal(own, key),
            }
    })
}

/// Merges operands onto the batch's base value, or onto the database's `stored` value.
pub(super) fn merge(
    family: &ColumnFamily,
    key: &[u8],
    base: Base<'_>,
    stored: Option<&[u8]>,
    newest_first: &[&[u8]],
) -> Result<Vec<u8>> {
    let options = family.data().options();
    let merger = Merger::new(options.merge_operator.as_deref(), &family.data().name).with_counts(
        MergeCounts::of_reads(family.data().tables.context().statistics.as_ref()),
    );
    let existing = match base {
        Base::Unknown => stored,
        Base::Value(value) => Some(value),
        Base::Entity(entity) => Some(Columns::of_entity(entity)?.default_value()),
        Base::None => None,
    };
    merge_values(merger, key, existing, newest_first)
}

/// Merges operands like [`merge`]; in an entity they change the default column.
pub(super) fn merge_columns(
    family: &ColumnFamily,
    key: &[u8],
    base: Base<'_>,
    stored: Option<&WideColumns>,
    newest_first: &[&[u8]],
) -> Result<WideColumns> {
    let value = stored.map(WideColumns::default_value);
    let merged = merge(family, key, base, value, newest_first)?;
    let entity = match (base, stored) {
        (Base::Unknown, Some(columns)) if columns.is_entity() => columns.stored().as_slice(),
        (Base::Entity(entity), _) => entity,
        _ => return Ok(WideColumns::from_value(PinnedSlice::from(merged))),
    };
    WideColumns::from_entity(PinnedSlice::from(with_default_column(entity, &merged)?))
}

/// Applies the batch's `effect` on a key to its columns in the database, which `stored` reads.
fn resolve_columns(
    family: &ColumnFamily,
    key: &[u8],
    effect: Option<Effect<'_>>,
    stored: impl FnOnce() -> Result<Option<WideColumns>>,
) -> Result<Option<WideColumns>> {
    let columns = match effect {
        None => return stored(),
        Some(Effect::Deleted) => return Ok(None),
        Some(Effect::Value(value)) => WideColumns::from_value(PinnedSlice::copy_of(value)),
        Some(Effect::Entity(entity)) => WideColumns::from_entity(PinnedSlice::copy_of(entity))?,
        Some(Effect::Operands(operands, base)) => {
            let stored = match base {
                Base::Unknown => stored()?,
                _ => None,
            };
            merge_columns(family, key, base, stored.as_ref(), &operands)?
        }
    };
    Ok(Some(columns))
}

/// Applies the batch's `effect` on a key to its value in the database, which `stored` reads.
fn resolve(
    family: &ColumnFamily,
    key: &[u8],
    effect: Option<Effect<'_>>,
    stored: impl FnOnce() -> Result<Option<PinnedSlice>, Error>,
) -> Result<Option<PinnedSlice>> {
    match effect {
        None => stored(),
        Some(Effect::Value(value)) => Ok(Some(PinnedSlice::copy_of(value))),
        Some(Effect::Entity(entity)) => {
            let columns = Columns::of_entity(entity)?;
            Ok(Some(PinnedSlice::copy_of(columns.default_value())))
        }
        Some(Effect::Deleted) => Ok(None),
        Some(Effect::Operands(operands, base)) => {
            let stored = match base {
                Base::Unknown => stored()?,
                _ => None,
            };
            let merged = merge(family, key, base, stored.as_deref(), &operands)?;
            Ok(Some(PinnedSlice::from(merged)))
        }
    }
}

impl fmt::Debug for WriteBatchWithIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteBatchWithIndex")
            .field("len", &self.len())
            .field("overwrite_key", &self.overwrite_key)
            .finish_non_exhaustive()
    }
}
