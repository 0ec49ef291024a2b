//! The write batch, which is serialized as its own log record.

use koeldb_base::coding::{put_length_prefixed, put_varint32, to_usize};
use koeldb_base::entity;
use koeldb_base::error::WriteOutcome;
use koeldb_base::limits::{ENTRY_BYTES_MAX, Limits};
use koeldb_base::timestamp::{TIMESTAMP_BYTES, Timestamp};
use koeldb_base::{Error, Result, ValueType};

use super::format::{BatchEntry, BatchIter, HEADER_BYTES, check, tag};
use super::protection::{checksum, sum_of};

/// A save point: the state to which a rollback returns the batch.
#[derive(Clone, Copy, Debug)]
struct SavePoint {
    bytes: usize,
    count: u32,
    is_too_large: bool,
    protection: Option<u64>,
}

/// A batch of operations, applied atomically, on any column families of one database.
///
/// Calls can be chained: `batch.put("a", "1").delete("b")`. A batch may have at most 4 GiB, and so
/// may a key and its value. Operations beyond that are dropped, and a write of the batch is
/// rejected.
#[derive(Clone, Debug)]
pub struct WriteBatch {
    rep: Vec<u8>,
    count: u32,
    database: Option<u64>,
    has_foreign_family: bool,
    /// Whether an operation was dropped because the batch would exceed a log record.
    is_too_large: bool,
    bytes_max: usize,
    save_points: Vec<SavePoint>,
    /// The sum of the checksums of the operations, if the batch is protected.
    protection: Option<u64>,
    /// The operations whose keys end with timestamps.
    dated: DatedOperations,
}

/// The operations of a batch whose keys end with user-defined timestamps, by offsets in the batch.
#[derive(Clone, Debug, Default)]
struct DatedOperations {
    /// The offsets at which all of them end, ascending.
    all: Vec<usize>,
    /// The offsets at which those begin whose timestamp [`WriteBatch::update_timestamps`] must set, ascending.
    pending: Vec<usize>,
    /// Whether any key may end with a timestamp, since the batch was given in serialized form.
    is_unknown: bool,
}

impl DatedOperations {
    /// Forgets the operations from the offset `bytes` on.
    fn truncate(&mut self, bytes: usize) {
        self.all.retain(|&end| end <= bytes);
        self.pending.retain(|&at| at < bytes);
    }

    /// Adds those of a batch whose records are appended at an offset larger by `shift`.
    fn append(&mut self, other: &DatedOperations, shift: usize) {
        self.all.extend(other.all.iter().map(|at| at + shift));
        self.pending
            .extend(other.pending.iter().map(|at| at + shift));
        self.is_unknown |= other.is_unknown;
    }
}

/// The maximum size of a batch, which is one log record.
///
/// Its count fits into 32 bits, since an operation has at least 2 bytes.
const BATCH_BYTES_MAX: usize = to_usize(Limits::NORMAL.record_bytes);

/// Returns the size of a length as varint.
fn varint_bytes(length: usize) -> usize {
    let bits = usize::BITS - length.leading_zeros();
    bits.div_ceil(7).max(1) as usize
}

/// The maximum size of an operation besides its key and value: a tag, a column family id, two
/// lengths.
const FRAME_BYTES_MAX: usize = 1 + 3 * 5;

impl Default for WriteBatch {
    fn default() -> Self {
        Self::new()
    }
}

impl WriteBatch {
    /// Creates an empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::with_capacity_bytes(HEADER_BYTES)
    }

    /// Creates an empty batch with capacity for `bytes` bytes of records.
    #[must_use]
    pub fn with_capacity_bytes(bytes: usize) -> Self {
        let mut rep = Vec::with_capacity(bytes.max(HEADER_BYTES));
        rep.resize(HEADER_BYTES, 0);
        WriteBatch {
            rep,
            count: 0,
            database: None,
            has_foreign_family: false,
            is_too_large: false,
            bytes_max: BATCH_BYTES_MAX,
            save_points: Vec::new(),
            protection: None,
            dated: DatedOperations::default(),
        }
    }

    /// Creates an empty batch that keeps checksums of its operations.
    ///
    /// They are computed from the arguments of each call. The write verifies them before it logs
    /// the batch, and again before it inserts the batch into the memtables; it fails with
    /// `Corruption` if the batch was changed in memory. See
    /// [`WriteOptions::set_protection_bytes_per_key`](crate::WriteOptions::set_protection_bytes_per_key).
    #[must_use]
    pub fn with_protection() -> Self {
        WriteBatch {
            protection: Some(0),
            ..Self::new()
        }
    }

    /// Creates a batch from its serialized form, which is validated completely.
    ///
    /// # Errors
    /// `Corruption` if the bytes are not a batch or the count in the header is wrong;
    /// `InvalidArgument` if the batch is too large.
    pub fn from_data(rep: impl Into<Vec<u8>>) -> Result<Self> {
        let rep = rep.into();
        if rep.len() > BATCH_BYTES_MAX {
            return Err(Error::invalid_argument(format!(
                "batch of {} bytes exceeds the limit of {BATCH_BYTES_MAX}",
                rep.len()
            )));
        }
        let count = check(&rep)?;
        Ok(WriteBatch {
            rep,
            count,
            database: None,
            has_foreign_family: false,
            is_too_large: false,
            bytes_max: BATCH_BYTES_MAX,
            save_points: Vec::new(),
            protection: None,
            dated: DatedOperations {
                is_unknown: true,
                ..DatedOperations::default()
            },
        })
    }

    /// Creates a batch from `count` operations that are serialized in `records`.
    pub(crate) fn from_records(records: &[u8], count: u32) -> Self {
        let mut batch = Self::with_capacity_bytes(HEADER_BYTES + records.len());
        batch.rep.extend_from_slice(records);
        batch.set_count(count);
        batch
    }

    /// Returns a copy of the operations behind the first `count`, which end at offset `bytes`.
    pub(crate) fn behind(&self, bytes: usize, count: u32) -> Self {
        let records = self.rep.get(bytes..).unwrap_or_default();
        let mut behind = Self::from_records(records, self.count.saturating_sub(count));
        behind.database = self.database;
        behind.has_foreign_family = self.has_foreign_family;
        let shift = bytes.saturating_sub(HEADER_BYTES);
        let ends = self.dated.all.iter().filter(|&&end| end > bytes);
        behind.dated.all = ends.map(|end| end - shift).collect();
        let begins = self.dated.pending.iter().filter(|&&at| at >= bytes);
        behind.dated.pending = begins.map(|at| at - shift).collect();
        behind.dated.is_unknown = self.dated.is_unknown;
        behind
    }

    /// Sets the number of operations, also in the header (a fixed32 at offset 8).
    fn set_count(&mut self, count: u32) {
        self.count = count;
        self.rep[8..HEADER_BYTES].copy_from_slice(&count.to_le_bytes());
    }

    /// Whether there is room for an operation; if not, the batch is marked as too large.
    #[inline]
    fn has_room(&mut self, key: &[u8], value: &[u8]) -> bool {
        let bytes = key.len().saturating_add(value.len());
        let total = bytes.saturating_add(self.rep.len() + FRAME_BYTES_MAX);
        self.is_too_large |= bytes > ENTRY_BYTES_MAX || total > self.bytes_max;
        !self.is_too_large
    }

    /// Sets the size in bytes above which operations are left out, and the write of the batch fails.
    ///
    /// Default: the largest size that a log can have.
    pub fn set_max_bytes(&mut self, bytes: usize) -> &mut Self {
        self.bytes_max = bytes.min(BATCH_BYTES_MAX);
        self
    }

    /// Fails with `InvalidArgument` if an operation was left out because the batch was too large.
    pub(crate) fn check_size(&self) -> Result<()> {
        if !self.is_too_large {
            return Ok(());
        }
        Err(Error::invalid_argument(format!(
            "the batch is too large: at most {} bytes, and {ENTRY_BYTES_MAX} for a key and its value",
            self.bytes_max
        ))
        .with_outcome(WriteOutcome::NotApplied))
    }

    /// The sum of the checksums of the operations; `None` if the batch is not protected.
    pub(crate) fn protection(&self) -> Option<u64> {
        self.protection
    }

    /// Adds the checksum of an appended operation to the sum of a protected batch.
    #[inline]
    fn protect(&mut self, cf: u32, value_type: ValueType, key: &[u8], value: &[u8]) -> &mut Self {
        if let Some(sum) = &mut self.protection {
            *sum = sum.wrapping_add(checksum(cf, value_type, key, value));
        }
        self
    }

    /// Begins a record: counts it, and writes its tag and, unless `cf` is 0, the column family id.
    fn begin(&mut self, cf: u32, plain: u8, with_family: u8) {
        self.set_count(self.count + 1);
        if cf == 0 {
            self.rep.push(plain);
        } else {
            self.rep.push(with_family);
            put_varint32(&mut self.rep, cf);
        }
    }

    /// Records that an operation names a column family of the database with id `database`.
    pub(crate) fn bind_database(&mut self, database: u64) {
        match self.database {
            None => self.database = Some(database),
            Some(first) => self.has_foreign_family |= first != database,
        }
    }

    /// Whether the named column families belong to the database with this id.
    pub(crate) fn belongs_to(&self, database: u64) -> bool {
        !self.has_foreign_family && self.database.is_none_or(|named| named == database)
    }

    /// Appends a put (tag `kTypeValue`, or `kTypeColumnFamilyValue` if `cf` is not 0).
    pub(crate) fn put_id(&mut self, cf: u32, key: &[u8], value: &[u8]) -> &mut Self {
        if !self.has_room(key, value) {
            return self;
        }
        self.begin(cf, tag::VALUE, tag::CF_VALUE);
        put_length_prefixed(&mut self.rep, key);
        put_length_prefixed(&mut self.rep, value);
        self.protect(cf, ValueType::Value, key, value)
    }

    /// Appends a merge operand (tag `kTypeMerge` or `kTypeColumnFamilyMerge`).
    pub(crate) fn merge_id(&mut self, cf: u32, key: &[u8], operand: &[u8]) -> &mut Self {
        if !self.has_room(key, operand) {
            return self;
        }
        self.begin(cf, tag::MERGE, tag::CF_MERGE);
        put_length_prefixed(&mut self.rep, key);
        put_length_prefixed(&mut self.rep, operand);
        self.protect(cf, ValueType::Merge, key, operand)
    }

    /// Appends a deletion (tag `kTypeDeletion` or `kTypeColumnFamilyDeletion`).
    pub(crate) fn delete_id(&mut self, cf: u32, key: &[u8]) -> &mut Self {
        if !self.has_room(key, &[]) {
            return self;
        }
        self.begin(cf, tag::DELETION, tag::CF_DELETION);
        put_length_prefixed(&mut self.rep, key);
        self.protect(cf, ValueType::Deletion, key, &[])
    }

    /// Appends a single deletion (`kTypeSingleDeletion` or `kTypeColumnFamilySingleDeletion`).
    pub(crate) fn single_delete_id(&mut self, cf: u32, key: &[u8]) -> &mut Self {
        if !self.has_room(key, &[]) {
            return self;
        }
        self.begin(cf, tag::SINGLE_DELETION, tag::CF_SINGLE_DELETION);
        put_length_prefixed(&mut self.rep, key);
        self.protect(cf, ValueType::SingleDeletion, key, &[])
    }

    /// Appends a range deletion (`kTypeRangeDeletion` or `kTypeColumnFamilyRangeDeletion`).
    ///
    /// The range is `[from, to)`; `to` is stored in place of a value.
    pub(crate) fn delete_range_id(&mut self, cf: u32, from: &[u8], to: &[u8]) -> &mut Self {
        if !self.has_room(from, to) {
            return self;
        }
        self.begin(cf, tag::RANGE_DELETION, tag::CF_RANGE_DELETION);
        put_length_prefixed(&mut self.rep, from);
        put_length_prefixed(&mut self.rep, to);
        self.protect(cf, ValueType::RangeDeletion, from, to)
    }

    /// Appends a put of a whole entity (`kTypeWideColumnEntity`, `kTypeColumnFamilyWideColumnEntity`).
    pub(crate) fn put_encoded_entity_id(
        &mut self,
        cf: u32,
        key: &[u8],
        entity: &[u8],
    ) -> &mut Self {
        if !self.has_room(key, entity) {
            return self;
        }
        self.begin(cf, tag::WIDE_COLUMN_ENTITY, tag::CF_WIDE_COLUMN_ENTITY);
        put_length_prefixed(&mut self.rep, key);
        put_length_prefixed(&mut self.rep, entity);
        self.protect(cf, ValueType::WideColumnEntity, key, entity)
    }

    /// Sets the value of `key` in the default column family to a wide-column entity.
    ///
    /// `columns` are names and values, in any order. Plain reads show the column of the empty name.
    ///
    /// # Errors
    /// `InvalidArgument` if two columns have the same name; the batch is then as before.
    pub fn put_entity<N: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        key: impl AsRef<[u8]>,
        columns: &[(N, V)],
    ) -> Result<&mut Self> {
        let entity = entity::encode(columns)?;
        Ok(self.put_encoded_entity_id(0, key.as_ref(), &entity))
    }

    /// Appends the operation that `append` appends for keys with a timestamp.
    ///
    /// The keys are given with it. `is_pending` is whether [`WriteBatch::update_timestamps`] must
    /// set it.
    pub(crate) fn dated(
        &mut self,
        is_pending: bool,
        append: impl FnOnce(&mut WriteBatch),
    ) -> &mut Self {
        let at = self.rep.len();
        append(self);
        if self.rep.len() > at {
            self.dated.all.push(self.rep.len());
            if is_pending {
                self.dated.pending.push(at);
            }
        }
        self
    }

    /// Whether the key of an operation ends with a timestamp; `None` if the batch does not know.
    ///
    /// `rest` is the number of bytes of the batch after the operation.
    pub(crate) fn is_dated(&self, rest: usize) -> Option<bool> {
        match self.dated.all.binary_search(&(self.rep.len() - rest)) {
            Ok(_) => Some(true),
            Err(_) if self.dated.is_unknown => None,
            Err(_) => Some(false),
        }
    }

    /// Whether an operation has a timestamp.
    pub(crate) fn has_dated(&self) -> bool {
        !self.dated.all.is_empty()
    }

    /// Whether an operation waits for its timestamp.
    pub(crate) fn lacks_timestamps(&self) -> bool {
        !self.dated.pending.is_empty()
    }

    /// Fails with `InvalidArgument` if an operation waits for its timestamp.
    #[inline]
    pub(crate) fn check_timestamps(&self) -> Result<()> {
        match self.dated.pending.len() {
            0 => Ok(()),
            count => Err(lack_of_timestamps(count)),
        }
    }

    /// Sets the timestamp of all operations that were added without one to a column family with
    /// user-defined timestamps.
    ///
    /// Operations that were added with a timestamp keep it.
    ///
    /// # Errors
    /// `Corruption` if the batch was changed in memory.
    pub fn update_timestamps(&mut self, timestamp: Timestamp) -> Result<()> {
        for at in std::mem::take(&mut self.dated.pending) {
            let mut rest = BatchIter::new(self.rep.get(at..).unwrap_or_default());
            let before = rest.records().len();
            let Some(operation) = rest.next_operation()? else {
                return Err(Error::corruption("the batch lacks an operation"));
            };
            // The record ends with the value, and before the value's length with the key.
            let end = at + before - rest.records().len();
            let value_bytes = operation.value.len();
            let key_end = match operation.value_type {
                ValueType::Deletion | ValueType::SingleDeletion => end,
                _ => end - value_bytes - varint_bytes(value_bytes),
            };
            let mut ends = vec![key_end];
            if operation.value_type == ValueType::RangeDeletion {
                ends.push(end);
            }
            for end in ends {
                let from = end.saturating_sub(TIMESTAMP_BYTES);
                if let Some(place) = self.rep.get_mut(from..end) {
                    place.copy_from_slice(&timestamp);
                }
            }
        }
        if self.protection.is_some() {
            self.protection = Some(sum_of(self.records()));
        }
        Ok(())
    }

    /// Sets the value of `key` in the default column family.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> &mut Self {
        self.put_id(0, key.as_ref(), value.as_ref())
    }

    /// Adds a merge operand to `key` in the default column family.
    pub fn merge(&mut self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> &mut Self {
        self.merge_id(0, key.as_ref(), operand.as_ref())
    }

    /// Deletes `key` in the default column family.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> &mut Self {
        self.delete_id(0, key.as_ref())
    }

    /// Deletes `key` in the default column family: see [`crate::ColumnFamily::single_delete`].
    ///
    /// It must have been put exactly once since its last single deletion.
    pub fn single_delete(&mut self, key: impl AsRef<[u8]>) -> &mut Self {
        self.single_delete_id(0, key.as_ref())
    }

    /// Deletes the keys in `[from, to)` in the default column family.
    pub fn delete_range(&mut self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> &mut Self {
        self.delete_range_id(0, from.as_ref(), to.as_ref())
    }

    /// Adds log data, which is written only to the log.
    pub fn put_log_data(&mut self, note: impl AsRef<[u8]>) -> &mut Self {
        if self.has_room(note.as_ref(), &[]) {
            self.rep.push(tag::LOG_DATA);
            put_length_prefixed(&mut self.rep, note.as_ref());
        }
        self
    }

    /// Appends all operations of `other`.
    pub fn append(&mut self, other: &WriteBatch) -> &mut Self {
        let total = self.rep.len().saturating_add(other.records().len());
        self.is_too_large |= other.is_too_large || total > self.bytes_max;
        if !self.is_too_large {
            self.dated
                .append(&other.dated, self.rep.len() - HEADER_BYTES);
            self.rep.extend_from_slice(other.records());
            self.set_count(self.count + other.count);
            if let Some(sum) = &mut self.protection {
                let added = other.protection.unwrap_or_else(|| sum_of(other.records()));
                *sum = sum.wrapping_add(added);
            }
        }
        self.has_foreign_family |= other.has_foreign_family;
        match (self.database, other.database) {
            (Some(a), Some(b)) => self.has_foreign_family |= a != b,
            (None, named) => self.database = named,
            _ => {}
        }
        self
    }

    /// Sets a save point for [`WriteBatch::rollback_to_save_point`].
    pub fn set_save_point(&mut self) -> &mut Self {
        self.save_points.push(SavePoint {
            bytes: self.rep.len(),
            count: self.count,
            is_too_large: self.is_too_large,
            protection: self.protection,
        });
        self
    }

    /// Removes the operations since the last save point, and the save point itself.
    ///
    /// # Errors
    /// `NotFound` if there is none.
    pub fn rollback_to_save_point(&mut self) -> Result<()> {
        let point = self.save_points.pop().ok_or_else(no_save_point)?;
        self.rep.truncate(point.bytes);
        self.dated.truncate(point.bytes);
        self.set_count(point.count);
        self.is_too_large = point.is_too_large;
        self.protection = point.protection;
        Ok(())
    }

    /// Removes the last save point and keeps the operations since.
    ///
    /// # Errors
    /// `NotFound` if there is none.
    pub fn pop_save_point(&mut self) -> Result<()> {
        match self.save_points.pop() {
            Some(_) => Ok(()),
            None => Err(no_save_point()),
        }
    }

    /// The batch in RocksDB's serialised form.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        &self.rep
    }

    /// Converts the batch to RocksDB's serialised form.
    #[must_use]
    pub fn into_data(self) -> Vec<u8> {
        self.rep
    }

    /// Frees the buffer, and so removes all operations, if it has more than `bytes` of capacity.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        if self.rep.capacity() > bytes {
            let protection = self.protection.map(|_| 0);
            *self = WriteBatch {
                protection,
                ..Self::new()
            };
        }
    }

    /// The serialized records of the batch, without its header.
    #[inline]
    pub(crate) fn records(&self) -> &[u8] {
        &self.rep[HEADER_BYTES..]
    }

    #[inline]
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// The number of operations.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there are no operations.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The size of the serialised form in bytes.
    #[must_use]
    pub fn size_in_bytes(&self) -> usize {
        self.rep.len()
    }

    /// Removes all operations; keeps the memory.
    pub fn clear(&mut self) {
        self.rep.truncate(HEADER_BYTES);
        self.set_count(0);
        self.database = None;
        self.has_foreign_family = false;
        self.is_too_large = false;
        self.dated.all.clear();
        self.dated.pending.clear();
        self.dated.is_unknown = false;
        self.protection = self.protection.map(|_| 0);
        self.save_points.clear();
    }

    /// The operations in order.
    pub fn iter(&self) -> BatchIter<'_> {
        BatchIter::new(self.records())
    }
}

/// Returns the `NotFound` error of a batch without a save point.
fn no_save_point() -> Error {
    Error::with_kind(
        koeldb_base::ErrorKind::NotFound,
        "the batch has no save point",
    )
}

impl<'a> IntoIterator for &'a WriteBatch {
    type Item = Result<BatchEntry<'a>>;
    type IntoIter = BatchIter<'a>;

    fn into_iter(self) -> BatchIter<'a> {
        self.iter()
    }
}

/// The error of a batch in which `count` operations wait for their timestamps.
#[cold]
fn lack_of_timestamps(count: usize) -> Error {
    Error::invalid_argument(format!(
        "{count} operations of the batch lack their user-defined timestamps: set them with \
         WriteBatch::update_timestamps"
    ))
    .with_outcome(WriteOutcome::NotApplied)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_serialised_form_is_rocksdbs() {
        let mut batch = WriteBatch::new();
        batch
            .put("k1", "v1")
            .delete_id(3, b"k2")
            .delete_range("a", "c");
        let mut rep = batch.clone().into_data();
        rep[0] = 5;
        let expected = b"\x05\0\0\0\0\0\0\0\x03\0\0\0\x01\x02k1\x02v1\x04\x03\x02k2\x0f\x01a\x01c";
        assert_eq!(rep, expected);
        let again = WriteBatch::from_data(rep).unwrap();
        assert_eq!(again.iter().map(Result::unwrap).count(), 3);
    }

    #[test]
    fn a_wrong_count_is_corruption() {
        let mut rep = WriteBatch::new().put("k", "v").clone().into_data();
        rep[8] = 2;
        assert!(WriteBatch::from_data(rep).unwrap_err().is_corruption());
    }

    #[test]
    fn a_protected_batch_that_was_changed_in_memory_is_not_written() {
        use crate::{Db, Env, Options, WriteOptions};

        let mut options = Options::new();
        options.create_if_missing(true).set_env(&Env::mem_env());
        let db = Db::open(&options, "/db").unwrap();
        let mut batch = WriteBatch::with_protection();
        batch.put("a", "1").merge("b", "2").delete("c");
        batch.set_save_point().single_delete("d");
        batch.rollback_to_save_point().unwrap();
        batch
            .delete_range("e", "f")
            .append(WriteBatch::new().put("g", "3"));
        let good = batch.clone();
        db.write(&good).unwrap();
        let before = db.latest_sequence_number();
        let mut refused = 0;
        for at in HEADER_BYTES..batch.rep.len() {
            batch.rep[at] ^= 1;
            if let Err(error) = db.write(&batch) {
                assert_eq!(
                    error.write_outcome(),
                    Some(WriteOutcome::NotApplied),
                    "{error}"
                );
                refused += 1;
            }
            batch.rep[at] ^= 1;
        }
        assert_eq!(refused, batch.rep.len() - HEADER_BYTES);
        assert_eq!(db.latest_sequence_number(), before);
        // Without protection a change of a value is written.
        let mut plain = WriteBatch::new();
        plain.put("a", "1");
        *plain.rep.last_mut().unwrap() = b'2';
        db.write(&plain).unwrap();
        assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"2"[..]));
        let mut options = WriteOptions::new();
        options.set_protection_bytes_per_key(8);
        db.write_opt(&plain, &options).unwrap();
        let error = db.write_opt(&plain, options.set_protection_bytes_per_key(3));
        assert_eq!(
            error.unwrap_err().kind(),
            koeldb_base::ErrorKind::InvalidArgument
        );
    }

    #[test]
    fn a_save_point_takes_back_what_followed() {
        let mut batch = WriteBatch::new();
        batch.put("a", "1").set_save_point().put("b", "2");
        batch.rollback_to_save_point().unwrap();
        assert_eq!(batch.len(), 1);
        assert!(batch.rollback_to_save_point().is_err());
    }

    #[test]
    fn a_batch_that_is_too_large_is_refused_whole_and_nothing_is_logged() {
        use crate::{Db, Env, Options};

        let mut options = Options::new();
        options.create_if_missing(true).set_env(&Env::mem_env());
        let db = Db::open(&options, "/db").unwrap();
        let before = db.latest_sequence_number();
        let mut batch = WriteBatch::new();
        batch.bytes_max = 100;
        batch.put("a", [1; 40]).set_save_point();
        let whole = batch.clone();
        for _ in 0..10 {
            batch.put("b", [2; 40]).delete("c");
        }
        assert_eq!(batch.data(), whole.data());
        let error = db.write(&batch).unwrap_err();
        assert_eq!(error.kind(), koeldb_base::ErrorKind::InvalidArgument);
        assert_eq!(error.write_outcome(), Some(WriteOutcome::NotApplied));
        assert_eq!(db.latest_sequence_number(), before);
        // By every operation, and by appending.
        let fill = |batch: &mut WriteBatch, verb: u8| {
            let long = [3; 90];
            match verb {
                0 => batch.merge("k", long),
                1 => batch.delete(long),
                2 => batch.single_delete(long),
                3 => batch.delete_range("a", long),
                4 => batch.put_log_data(long),
                5 => batch.append(WriteBatch::new().put("k", long)),
                _ => batch.put(long, ""),
            };
        };
        for verb in 0..7 {
            let mut batch = whole.clone();
            fill(&mut batch, verb);
            assert_eq!(batch.data(), whole.data(), "{verb}");
            assert!(batch.check_size().is_err(), "{verb}");
            let mut other = WriteBatch::new();
            assert!(other.append(&batch).check_size().is_err(), "{verb}");
        }
        batch.rollback_to_save_point().unwrap();
        db.write(&batch).unwrap();
        assert_eq!(db.latest_sequence_number(), before + 1);
        batch.clear();
        batch.put("c", "3").check_size().unwrap();
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_batch_or_an_error(rep: Vec<u8>) {
            let _ = WriteBatch::from_data(rep);
        }
    }
}
