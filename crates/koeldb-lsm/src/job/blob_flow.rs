//! The references to blob files that pass through a compaction: what it reads and does not write
//! again is garbage (RocksDB: `BlobGarbageMeter`).

use std::collections::BTreeMap;

use koeldb_base::entity::{ColumnValue, Entity};
use koeldb_base::file_name::FileNumber;
use koeldb_base::key::footer_of;
use koeldb_base::{Blocking, Cursor, Error, Fault, PinnedSlice, Result, ValueType};
use koeldb_table::blob::BlobReference;
use koeldb_table::blob::references::FileReferences;

use super::figures::InputFigures;
use crate::version::{BlobGarbage, Version};

/// The references to each blob file among some entries: their number and the size of the records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlobFlow(BTreeMap<FileNumber, (u64, u64)>);

/// Whether an internal key is of an entry that may refer to blob files.
#[inline]
pub(crate) fn may_refer(key: &[u8]) -> bool {
    let value_type = footer_of(key).1.to_le_bytes()[0];
    value_type == ValueType::BlobIndex as u8 || value_type == ValueType::WideColumnEntity as u8
}

impl BlobFlow {
    /// Counts the references of an entry.
    ///
    /// The entry is a reference, or an entity, some of whose columns may be.
    ///
    /// # Errors
    /// `Corruption` if a reference is malformed.
    #[cold]
    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let (user_key, footer) = footer_of(key);
        if footer.to_le_bytes()[0] == ValueType::BlobIndex as u8 {
            return self.add_reference(user_key, value);
        }
        // Reads of the key of a malformed entity fail, and nothing else does.
        let Ok(entity) = Entity::decode(value) else {
            return Ok(());
        };
        if entity.has_blob_indexes() {
            for (_, column) in entity.stored_columns() {
                if let ColumnValue::BlobIndex(reference) = column {
                    self.add_reference(user_key, reference)?;
                }
            }
        }
        Ok(())
    }

    /// Counts a reference of a user key.
    fn add_reference(&mut self, user_key: &[u8], reference: &[u8]) -> Result<()> {
        let reference = BlobReference::decode(reference)?;
        let (count, bytes) = self.0.entry(reference.file).or_default();
        *count += 1;
        *bytes += reference.record_bytes(user_key.len());
        Ok(())
    }

    /// The number of the oldest blob file; 0 without references.
    pub(crate) fn oldest(&self) -> FileNumber {
        let mut numbers = self.0.keys().copied();
        numbers.find(|&number| number != 0).unwrap_or(0)
    }

    /// Returns the references to each blob file, by ascending number.
    pub(crate) fn list(&self) -> Vec<FileReferences> {
        let all = self.0.iter();
        all.map(|(&file, &(count, bytes))| FileReferences { file, count, bytes })
            .collect()
    }

    /// Adds the references of other entries.
    pub(crate) fn extend(&mut self, other: BlobFlow) {
        for (file, (more, more_bytes)) in other.0 {
            let (count, bytes) = self.0.entry(file).or_default();
            *count += more;
            *bytes += more_bytes;
        }
    }

    /// Returns what a job turns into garbage that read these references and wrote those of
    /// `written`.
    ///
    /// # Errors
    /// `Corruption` if the version does not have a file, or more was written than read.
    pub(crate) fn garbage(self, written: &BlobFlow, version: &Version) -> Result<Vec<BlobGarbage>> {
        let mut garbage = Vec::new();
        for (file, (count, bytes)) in self.0 {
            let (kept, kept_bytes) = written.0.get(&file).copied().unwrap_or_default();
            let left = count.checked_sub(kept).zip(bytes.checked_sub(kept_bytes));
            match left {
                Some(_) if !version.blob_files.contains_key(&file) => {
                    return Err(Error::corruption(format!(
                        "entries refer to blob file {file:06}, which the database does not have"
                    )));
                }
                Some((0, _)) => {}
                Some((count, bytes)) => garbage.push(BlobGarbage {
                    number: file,
                    count,
                    bytes,
                }),
                None => {
                    return Err(Error::corruption(format!(
                        "a compaction read {count} references to blob file {file:06} and wrote {kept}"
                    )));
                }
            }
        }
        Ok(garbage)
    }
}

/// A cursor that counts the references among the entries that it passes.
pub(crate) struct CountingCursor<C> {
    inner: C,
    /// The references of all entries so far.
    pub(crate) read: BlobFlow,
    /// The figures of all entries so far; `None` if they are not counted.
    pub(crate) figures: Option<InputFigures>,
}

impl<C: Cursor<Suspend = Blocking>> CountingCursor<C> {
    /// Wraps a cursor that will move forward only.
    ///
    /// `counts_all` requests the figures of all entries, not of references alone.
    pub(crate) fn new(inner: C, counts_all: bool) -> Self {
        CountingCursor {
            inner,
            read: BlobFlow::default(),
            figures: counts_all.then(InputFigures::default),
        }
    }

    /// Counts the current entry.
    #[inline]
    fn count(&mut self) -> Result<(), Fault<Blocking>> {
        if !self.inner.valid() {
            return Ok(());
        }
        let key = self.inner.key();
        if may_refer(key) {
            self.read.add(key, self.inner.value())?;
        }
        if let Some(figures) = &mut self.figures {
            figures.key_bytes += key.len() as u64;
            figures.value_bytes += self.inner.value().len() as u64;
            let value_type = ValueType::from_byte(footer_of(key).1.to_le_bytes()[0]);
            figures.deletions += u64::from(value_type.is_some_and(ValueType::is_deletion));
        }
        Ok(())
    }
}

impl<C: Cursor<Suspend = Blocking>> Cursor for CountingCursor<C> {
    type Suspend = Blocking;

    fn valid(&self) -> bool {
        self.inner.valid()
    }

    fn seek_to_first(&mut self) -> Result<(), Fault<Blocking>> {
        self.inner.seek_to_first()?;
        self.count()
    }

    fn seek_to_last(&mut self) -> Result<(), Fault<Blocking>> {
        self.inner.seek_to_last()
    }

    fn seek(&mut self, target: &[u8]) -> Result<(), Fault<Blocking>> {
        self.inner.seek(target)
    }

    fn seek_for_prev(&mut self, target: &[u8]) -> Result<(), Fault<Blocking>> {
        self.inner.seek_for_prev(target)
    }

    fn next(&mut self) -> Result<(), Fault<Blocking>> {
        self.inner.next()?;
        self.count()
    }

    fn prev(&mut self) -> Result<(), Fault<Blocking>> {
        self.inner.prev()
    }

    fn key(&self) -> &[u8] {
        self.inner.key()
    }

    fn value(&self) -> &[u8] {
        self.inner.value()
    }

    fn pinned_value(&self) -> PinnedSlice {
        self.inner.pinned_value()
    }
}
