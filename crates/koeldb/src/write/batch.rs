//! Write batches, held as RocksDB serialises them, so that a batch is its own log record.
//!
//! ```text
//! fixed64 sequence number of the first operation | fixed32 count | records …
//! record = tag | [varint family id] | length-prefixed key | [length-prefixed value or end]
//! ```
//!
//! Family 0 always uses the tag without id. The sequence number is 0 until the batch is committed.
//!
//! A log that follows another one begins with a *link*: a batch without operations, with the sequence number that was to
//! come next and a note naming the log before. By it recovery knows that nothing is missing between the two.
//! (`docs/formats/write-batch.md`; RocksDB: `db/write_batch.cc`.)

use koeldb_base::coding::{self, put_length_prefixed, put_varint32};
use koeldb_base::file_name::FileNumber;
use koeldb_base::{Error, Result, SeqNo};

use crate::column_family::ColumnFamily;

/// The bytes before the first record.
pub(crate) const HEADER_BYTES: usize = 12;

mod tag {
    pub(super) const DELETION: u8 = 0x00;
    pub(super) const VALUE: u8 = 0x01;
    pub(super) const MERGE: u8 = 0x02;
    pub(super) const LOG_DATA: u8 = 0x03;
    pub(super) const CF_DELETION: u8 = 0x04;
    pub(super) const CF_VALUE: u8 = 0x05;
    pub(super) const CF_MERGE: u8 = 0x06;
    pub(super) const SINGLE_DELETION: u8 = 0x07;
    pub(super) const CF_SINGLE_DELETION: u8 = 0x08;
    pub(super) const NOOP: u8 = 0x0d;
    pub(super) const CF_RANGE_DELETION: u8 = 0x0e;
    pub(super) const RANGE_DELETION: u8 = 0x0f;
    pub(super) const WIDE_COLUMN_ENTITY: u8 = 0x16;
    pub(super) const CF_WIDE_COLUMN_ENTITY: u8 = 0x17;
}

/// One operation of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BatchEntry<'a> {
    /// A key gets a value.
    Put {
        /// The family's id.
        cf: u32,
        /// The key.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
    },
    /// A key is deleted.
    Delete {
        /// The family's id.
        cf: u32,
        /// The key.
        key: &'a [u8],
    },
    /// A key that was written once is deleted.
    SingleDelete {
        /// The family's id.
        cf: u32,
        /// The key.
        key: &'a [u8],
    },
    /// All keys in `[from, to)` are deleted.
    DeleteRange {
        /// The family's id.
        cf: u32,
        /// The first key.
        from: &'a [u8],
        /// The first key that stays.
        to: &'a [u8],
    },
    /// An operand for the merge operator.
    Merge {
        /// The family's id.
        cf: u32,
        /// The key.
        key: &'a [u8],
        /// The operand.
        operand: &'a [u8],
    },
    /// A set of named columns, written by RocksDB.
    PutEntity {
        /// The family's id.
        cf: u32,
        /// The key.
        key: &'a [u8],
        /// The serialised columns.
        entity: &'a [u8],
    },
    /// A note for readers of the log; it is not stored.
    LogData(
        /// The note.
        &'a [u8],
    ),
}

impl BatchEntry<'_> {
    /// Whether the entry takes a sequence number.
    fn counts(&self) -> bool {
        !matches!(self, BatchEntry::LogData(_))
    }
}

#[derive(Clone, Copy, Debug)]
struct SavePoint {
    bytes: usize,
    count: u32,
}

/// Operations that take effect together or not at all, over any families of one database.
///
/// Verbs chain: `batch.put("a", "1").delete("b")`. Keys and values are under 4 GiB.
#[derive(Clone, Debug)]
pub struct WriteBatch {
    rep: Vec<u8>,
    count: u32,
    database: Option<u64>,
    has_foreign_family: bool,
    save_points: Vec<SavePoint>,
}

impl Default for WriteBatch {
    fn default() -> Self {
        Self::new()
    }
}

impl WriteBatch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::with_capacity_bytes(HEADER_BYTES)
    }

    /// An empty batch with room for `bytes` bytes of records.
    #[must_use]
    pub fn with_capacity_bytes(bytes: usize) -> Self {
        let mut rep = Vec::with_capacity(bytes.max(HEADER_BYTES));
        rep.resize(HEADER_BYTES, 0);
        WriteBatch {
            rep,
            count: 0,
            database: None,
            has_foreign_family: false,
            save_points: Vec::new(),
        }
    }

    /// A batch from its serialised form, checked whole.
    ///
    /// # Errors
    /// `Corruption` if the bytes are no batch or the count in the header is not the number of operations.
    pub fn from_data(rep: impl Into<Vec<u8>>) -> Result<Self> {
        let rep = rep.into();
        let count = check(&rep)?;
        Ok(WriteBatch {
            rep,
            count,
            database: None,
            has_foreign_family: false,
            save_points: Vec::new(),
        })
    }

    fn set_count(&mut self, count: u32) {
        self.count = count;
        self.rep[8..HEADER_BYTES].copy_from_slice(&count.to_le_bytes());
    }

    fn begin(&mut self, cf: u32, plain: u8, with_family: u8) {
        self.set_count(self.count + 1);
        if cf == 0 {
            self.rep.push(plain);
        } else {
            self.rep.push(with_family);
            put_varint32(&mut self.rep, cf);
        }
    }

    fn note_family(&mut self, family: &ColumnFamily) -> u32 {
        let database = family.database_id();
        match self.database {
            None => self.database = Some(database),
            Some(first) => self.has_foreign_family |= first != database,
        }
        family.id()
    }

    /// Whether the families named belong to the database with this id.
    pub(crate) fn belongs_to(&self, database: u64) -> bool {
        !self.has_foreign_family && self.database.is_none_or(|named| named == database)
    }

    pub(crate) fn put_id(&mut self, cf: u32, key: &[u8], value: &[u8]) -> &mut Self {
        self.begin(cf, tag::VALUE, tag::CF_VALUE);
        put_length_prefixed(&mut self.rep, key);
        put_length_prefixed(&mut self.rep, value);
        self
    }

    pub(crate) fn merge_id(&mut self, cf: u32, key: &[u8], operand: &[u8]) -> &mut Self {
        self.begin(cf, tag::MERGE, tag::CF_MERGE);
        put_length_prefixed(&mut self.rep, key);
        put_length_prefixed(&mut self.rep, operand);
        self
    }

    pub(crate) fn delete_id(&mut self, cf: u32, key: &[u8]) -> &mut Self {
        self.begin(cf, tag::DELETION, tag::CF_DELETION);
        put_length_prefixed(&mut self.rep, key);
        self
    }

    pub(crate) fn single_delete_id(&mut self, cf: u32, key: &[u8]) -> &mut Self {
        self.begin(cf, tag::SINGLE_DELETION, tag::CF_SINGLE_DELETION);
        put_length_prefixed(&mut self.rep, key);
        self
    }

    pub(crate) fn delete_range_id(&mut self, cf: u32, from: &[u8], to: &[u8]) -> &mut Self {
        self.begin(cf, tag::RANGE_DELETION, tag::CF_RANGE_DELETION);
        put_length_prefixed(&mut self.rep, from);
        put_length_prefixed(&mut self.rep, to);
        self
    }

    /// Gives `key` a value in the default family.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> &mut Self {
        self.put_id(0, key.as_ref(), value.as_ref())
    }

    /// Gives `key` a value in `family`.
    pub fn put_cf(
        &mut self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> &mut Self {
        let cf = self.note_family(family);
        self.put_id(cf, key.as_ref(), value.as_ref())
    }

    /// Adds a merge operand to `key` in the default family.
    pub fn merge(&mut self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> &mut Self {
        self.merge_id(0, key.as_ref(), operand.as_ref())
    }

    /// Adds a merge operand to `key` in `family`.
    pub fn merge_cf(
        &mut self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> &mut Self {
        let cf = self.note_family(family);
        self.merge_id(cf, key.as_ref(), operand.as_ref())
    }

    /// Deletes `key` in the default family.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> &mut Self {
        self.delete_id(0, key.as_ref())
    }

    /// Deletes `key` in `family`.
    pub fn delete_cf(&mut self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> &mut Self {
        let cf = self.note_family(family);
        self.delete_id(cf, key.as_ref())
    }

    /// Deletes `key`, which was put once since it was deleted last, and neither overwritten nor merged, in the default family.
    pub fn single_delete(&mut self, key: impl AsRef<[u8]>) -> &mut Self {
        self.single_delete_id(0, key.as_ref())
    }

    /// Deletes `key`, which was put once since it was deleted last, and neither overwritten nor merged, in `family`.
    pub fn single_delete_cf(&mut self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> &mut Self {
        let cf = self.note_family(family);
        self.single_delete_id(cf, key.as_ref())
    }

    /// Deletes the keys in `[from, to)` in the default family.
    pub fn delete_range(&mut self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> &mut Self {
        self.delete_range_id(0, from.as_ref(), to.as_ref())
    }

    /// Deletes the keys in `[from, to)` in `family`.
    pub fn delete_range_cf(
        &mut self,
        family: &ColumnFamily,
        from: impl AsRef<[u8]>,
        to: impl AsRef<[u8]>,
    ) -> &mut Self {
        let cf = self.note_family(family);
        self.delete_range_id(cf, from.as_ref(), to.as_ref())
    }

    /// Puts a note into the log that is never stored.
    pub fn put_log_data(&mut self, note: impl AsRef<[u8]>) -> &mut Self {
        self.rep.push(tag::LOG_DATA);
        put_length_prefixed(&mut self.rep, note.as_ref());
        self
    }

    /// Adds all operations of `other` behind those of this batch.
    pub fn append(&mut self, other: &WriteBatch) -> &mut Self {
        self.rep.extend_from_slice(other.records());
        self.set_count(self.count + other.count);
        self.has_foreign_family |= other.has_foreign_family;
        match (self.database, other.database) {
            (Some(a), Some(b)) => self.has_foreign_family |= a != b,
            (None, named) => self.database = named,
            _ => {}
        }
        self
    }

    /// Remembers this state for [`WriteBatch::rollback_to_save_point`].
    pub fn set_save_point(&mut self) -> &mut Self {
        self.save_points.push(SavePoint {
            bytes: self.rep.len(),
            count: self.count,
        });
        self
    }

    /// Takes back what was added since the last save point, which is forgotten.
    ///
    /// # Errors
    /// `NotFound` if there is none.
    pub fn rollback_to_save_point(&mut self) -> Result<()> {
        let point = self.save_points.pop().ok_or_else(|| {
            Error::with_kind(
                koeldb_base::ErrorKind::NotFound,
                "the batch has no save point",
            )
        })?;
        self.rep.truncate(point.bytes);
        self.set_count(point.count);
        Ok(())
    }

    /// RocksDB's serialised form.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        &self.rep
    }

    /// RocksDB's serialised form, owned.
    #[must_use]
    pub fn into_data(self) -> Vec<u8> {
        self.rep
    }

    /// Gives memory beyond `bytes` back; forgets all operations then.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        if self.rep.capacity() > bytes {
            *self = Self::new();
        }
    }

    /// The records without the header.
    pub(crate) fn records(&self) -> &[u8] {
        &self.rep[HEADER_BYTES..]
    }

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

    /// The bytes of the serialised form.
    #[must_use]
    pub fn size_in_bytes(&self) -> usize {
        self.rep.len()
    }

    /// Forgets all operations; keeps the memory.
    pub fn clear(&mut self) {
        self.rep.truncate(HEADER_BYTES);
        self.set_count(0);
        self.database = None;
        self.has_foreign_family = false;
        self.save_points.clear();
    }

    /// The operations in order.
    pub fn iter(&self) -> BatchIter<'_> {
        BatchIter::new(self.records())
    }
}

impl<'a> IntoIterator for &'a WriteBatch {
    type Item = Result<BatchEntry<'a>>;
    type IntoIter = BatchIter<'a>;

    fn into_iter(self) -> BatchIter<'a> {
        self.iter()
    }
}

/// The operations of a batch.
#[derive(Clone, Debug)]
pub struct BatchIter<'a> {
    rest: &'a [u8],
}

impl<'a> BatchIter<'a> {
    pub(crate) fn new(records: &'a [u8]) -> Self {
        BatchIter { rest: records }
    }

    #[inline]
    fn decode(&mut self) -> Result<Option<BatchEntry<'a>>> {
        let input = &mut self.rest;
        let tag = coding::take_u8(input)?;
        let cf = match tag {
            tag::CF_DELETION
            | tag::CF_VALUE
            | tag::CF_MERGE
            | tag::CF_SINGLE_DELETION
            | tag::CF_RANGE_DELETION
            | tag::CF_WIDE_COLUMN_ENTITY => coding::take_varint32(input)?,
            _ => 0,
        };
        let entry = match tag {
            tag::VALUE | tag::CF_VALUE => BatchEntry::Put {
                cf,
                key: coding::take_length_prefixed(input)?,
                value: coding::take_length_prefixed(input)?,
            },
            tag::DELETION | tag::CF_DELETION => BatchEntry::Delete {
                cf,
                key: coding::take_length_prefixed(input)?,
            },
            tag::SINGLE_DELETION | tag::CF_SINGLE_DELETION => BatchEntry::SingleDelete {
                cf,
                key: coding::take_length_prefixed(input)?,
            },
            tag::MERGE | tag::CF_MERGE => BatchEntry::Merge {
                cf,
                key: coding::take_length_prefixed(input)?,
                operand: coding::take_length_prefixed(input)?,
            },
            tag::RANGE_DELETION | tag::CF_RANGE_DELETION => BatchEntry::DeleteRange {
                cf,
                from: coding::take_length_prefixed(input)?,
                to: coding::take_length_prefixed(input)?,
            },
            tag::WIDE_COLUMN_ENTITY | tag::CF_WIDE_COLUMN_ENTITY => BatchEntry::PutEntity {
                cf,
                key: coding::take_length_prefixed(input)?,
                entity: coding::take_length_prefixed(input)?,
            },
            tag::LOG_DATA => BatchEntry::LogData(coding::take_length_prefixed(input)?),
            tag::NOOP => return Ok(None),
            0x09..=0x0c | 0x12 | 0x13 | 0x15 => {
                return Err(Error::not_supported(format!(
                    "the batch belongs to a two-phase transaction (tag {tag:#04x}), which this release does not replay"
                )));
            }
            0x10 | 0x11 | 0x18 | 0x19 => {
                return Err(Error::not_supported(format!(
                    "the batch holds an operation of tag {tag:#04x}, which this release does not know"
                )));
            }
            _ => {
                return Err(Error::corruption(format!(
                    "unknown WriteBatch tag: {tag:#04x}"
                )));
            }
        };
        Ok(Some(entry))
    }
}

impl<'a> Iterator for BatchIter<'a> {
    type Item = Result<BatchEntry<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        while !self.rest.is_empty() {
            match self.decode() {
                Ok(Some(entry)) => return Some(Ok(entry)),
                Ok(None) => {}
                Err(error) => {
                    self.rest = &[];
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

/// The header of a serialised batch: sequence number and count.
pub(crate) fn header(rep: &[u8]) -> Result<(SeqNo, u32)> {
    match (coding::fixed64_at(rep, 0), coding::fixed32_at(rep, 8)) {
        (Some(seqno), Some(count)) => Ok((seqno, count)),
        _ => Err(Error::corruption(format!(
            "a WriteBatch has a header of {HEADER_BYTES} bytes, found {} in all",
            rep.len()
        ))),
    }
}

/// Checks a serialised batch whole and returns its count.
pub(crate) fn check(rep: &[u8]) -> Result<u32> {
    let (_, declared) = header(rep)?;
    let mut count = 0_u32;
    for entry in BatchIter::new(&rep[HEADER_BYTES..]) {
        if entry?.counts() {
            count += 1;
        }
    }
    if count != declared {
        return Err(Error::corruption(format!(
            "WriteBatch has wrong count: {declared} declared, {count} found"
        )));
    }
    Ok(count)
}

/// What the note of a link begins with; the number of the log before follows.
const LINK: &[u8] = b"koeldb.follows:";

/// The first record of a log that follows log `before`, in which the batch numbered `next` was to come next.
pub(crate) fn link(before: FileNumber, next: SeqNo) -> Vec<u8> {
    let mut rep = Vec::with_capacity(HEADER_BYTES + LINK.len() + 10);
    rep.extend_from_slice(&next.to_le_bytes());
    rep.extend_from_slice(&0_u32.to_le_bytes());
    rep.push(tag::LOG_DATA);
    put_length_prefixed(&mut rep, &[LINK, &before.to_le_bytes()].concat());
    rep
}

/// The log that a record says it follows, if it is a link.
pub(crate) fn link_to(rep: &[u8]) -> Option<FileNumber> {
    let mut records = BatchIter::new(rep.get(HEADER_BYTES..)?);
    match (records.next(), records.next()) {
        (Some(Ok(BatchEntry::LogData(note))), None) => {
            let number = note.strip_prefix(LINK)?;
            (number.len() == 8).then(|| coding::fixed64_at(number, 0))?
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_link_is_a_batch_without_operations() {
        let rep = link(7, 300);
        assert_eq!(header(&rep).unwrap(), (300, 0));
        assert_eq!(check(&rep).unwrap(), 0);
        assert_eq!(link_to(&rep), Some(7));
        let mut note = WriteBatch::new();
        note.put_log_data("koeldb.follows:");
        assert_eq!(link_to(note.data()), None);
        assert_eq!(link_to(&[]), None);
    }

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
    fn a_save_point_takes_back_what_followed() {
        let mut batch = WriteBatch::new();
        batch.put("a", "1").set_save_point().put("b", "2");
        batch.rollback_to_save_point().unwrap();
        assert_eq!(batch.len(), 1);
        assert!(batch.rollback_to_save_point().is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_batch_or_an_error(rep: Vec<u8>) {
            let _ = WriteBatch::from_data(rep);
        }
    }
}
