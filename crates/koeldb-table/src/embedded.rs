//! Tables with embedded blobs: large values lie in the file of the table, before its blocks.
//!
//! ```text
//! payload ‖ compression: u8 ‖ checksum: fixed32      (a raw block, checked like any other)
//! ```
//!
//! RocksDB's writer of external files makes such tables on request (since 11.6). An entry whose value
//! is embedded has the type `BlobIndex` and a reference to file 0, and so have columns of entities.
//! Outside of the table nobody can follow such a reference, so what is here resolves them at its
//! border: look-ups and cursors see plain values and entities.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::collections::HashMap;
use std::sync::Arc;

use koeldb_base::entity::{ColumnValue, Entity, with_values};
use koeldb_base::key::{InternalKey, encode_into};
use koeldb_base::{Cursor, Error, Fault, Lookup, PinnedSlice, Result, ValueType};

use crate::blob::BlobReference;
use crate::block::ValueRange;
use crate::block_based::cursor::{BlockBasedCursor, CursorSource};
use crate::block_based::reader::BlockBasedReader;
use crate::format::BlockHandle;
use crate::read_context::TableCursorOptions;
use crate::source::{
    BlockKind, BlockReadOptions, BlockSource, BlockingSource, CachedBlock, TableFile,
};

/// An open table with embedded blobs.
#[derive(Debug)]
pub struct EmbeddedTable {
    reader: Arc<BlockBasedReader>,
}

/// A value or an entity, with its type.
type Stored = (ValueType, PinnedSlice);

impl EmbeddedTable {
    /// Wraps the reader of a table that has such blobs.
    pub(crate) fn new(reader: BlockBasedReader) -> Self {
        EmbeddedTable {
            reader: Arc::new(reader),
        }
    }

    /// The table as it is in the file.
    #[must_use]
    pub fn stored(&self) -> &Arc<BlockBasedReader> {
        &self.reader
    }

    /// Searches the table for a key like [`crate::reader::TableReader::search`].
    pub(crate) fn search<S: BlockSource>(
        &self,
        lookup: &mut Lookup,
        source: &mut S,
    ) -> Result<(), Fault<S::Suspend>> {
        self.reader.search(lookup, source)?;
        let file = self.reader.file();
        lookup.replace_stored(|value_type, value| {
            resolved(value_type, value, |handle| {
                payload(&*source.block(file, handle, BlockKind::Dictionary)?).map_err(Fault::from)
            })
        })
    }

    /// Reads and verifies all blocks and all embedded blobs.
    pub(crate) fn verify_checksums(&self, progress: &mut dyn FnMut(u64)) -> Result<()> {
        self.reader.verify_checksums(progress)?;
        let source = BlockingSource::new(BlockReadOptions::default());
        let stored = BlockBasedCursor::new(
            koeldb_base::ArcRef::Counted(Arc::clone(&self.reader)),
            source,
            &TableCursorOptions::default(),
        );
        let mut cursor = EmbeddedCursor::new(stored, Arc::clone(self.reader.file()));
        cursor.seek_to_first()?;
        while cursor.valid() {
            progress(cursor.value().len() as u64);
            cursor.next()?;
        }
        Ok(())
    }
}

/// Returns the bytes of an embedded blob.
fn payload(block: &CachedBlock) -> Result<PinnedSlice> {
    let CachedBlock::Raw(bytes) = block else {
        return Err(Error::corruption("an embedded blob is a block of entries"));
    };
    let len = u32::try_from(bytes.as_slice().len())
        .map_err(|_| Error::corruption("an embedded blob has 4 GiB or more"))?;
    Ok(bytes.pin(ValueRange { start: 0, len }))
}

/// Returns the block to which a reference within the table refers.
fn handle_of(reference: &[u8]) -> Result<BlockHandle> {
    let reference = BlobReference::decode(reference)?;
    if reference.file != 0 {
        return Err(Error::corruption(format!(
            "an entry of a table with embedded blobs refers to blob file {:06}",
            reference.file
        )));
    }
    Ok(BlockHandle {
        offset: reference.offset,
        size: reference.bytes,
    })
}

/// Returns a stored value or entity with what is embedded, by `read`; `None` if nothing is.
fn resolved<F: From<Error>>(
    value_type: ValueType,
    value: &PinnedSlice,
    mut read: impl FnMut(BlockHandle) -> Result<PinnedSlice, F>,
) -> Result<Option<Stored>, F> {
    match value_type {
        ValueType::BlobIndex => Ok(Some((ValueType::Value, read(handle_of(value)?)?))),
        ValueType::WideColumnEntity => {
            let entity = Entity::decode(value)?;
            if !entity.has_blob_indexes() {
                return Ok(None);
            }
            let mut values = HashMap::new();
            for (_, column) in entity.stored_columns() {
                if let ColumnValue::BlobIndex(reference) = column {
                    values.insert(reference.to_vec(), read(handle_of(reference)?)?);
                }
            }
            let whole = with_values(value, &mut |reference| {
                let found = values.get(reference).cloned();
                found.ok_or_else(|| Error::corruption("a column of an entity has no value"))
            })?;
            Ok(Some((
                ValueType::WideColumnEntity,
                PinnedSlice::from(whole),
            )))
        }
        _ => Ok(None),
    }
}

/// A cursor over the entries of a table with embedded blobs, which shows whole values.
///
/// It reads the blob of each entry to which it moves, in the calling thread.
pub struct EmbeddedCursor<'t, S: CursorSource> {
    stored: BlockBasedCursor<'t, S>,
    file: Arc<TableFile>,
    /// The key and the value of the entry, if something in it is embedded.
    key: Vec<u8>,
    whole: Option<PinnedSlice>,
    target: Vec<u8>,
}

impl<'t, S: CursorSource> EmbeddedCursor<'t, S> {
    /// Creates an unpositioned cursor over the entries of `stored`, whose file is `file`.
    pub(crate) fn new(stored: BlockBasedCursor<'t, S>, file: Arc<TableFile>) -> Self {
        EmbeddedCursor {
            stored,
            file,
            key: Vec::new(),
            whole: None,
            target: Vec::new(),
        }
    }

    /// Returns the block source, so that a cursor over the next table can use it.
    pub(crate) fn into_source(self) -> S {
        self.stored.into_source()
    }

    /// Takes the entry to which the cursor has moved.
    fn show(&mut self) -> Result<(), Fault<S::Suspend>> {
        self.whole = None;
        if !self.stored.valid() {
            return Ok(());
        }
        let entry = InternalKey::parse(self.stored.key())?;
        if !matches!(
            entry.value_type,
            ValueType::BlobIndex | ValueType::WideColumnEntity
        ) {
            return Ok(());
        }
        let value = self.stored.pinned_value();
        let found = resolved(entry.value_type, &value, |handle| {
            payload(&self.file.read(handle, BlockKind::Dictionary, true)?)
        })?;
        if let Some((value_type, whole)) = found {
            encode_into(&mut self.key, entry.user_key, entry.seqno, value_type);
            self.whole = Some(whole);
        }
        Ok(())
    }
}

impl<S: CursorSource> Cursor for EmbeddedCursor<'_, S> {
    type Suspend = S::Suspend;

    fn valid(&self) -> bool {
        self.stored.valid()
    }

    fn seek_to_first(&mut self) -> Result<(), Fault<S::Suspend>> {
        self.stored.seek_to_first()?;
        self.show()
    }

    fn seek_to_last(&mut self) -> Result<(), Fault<S::Suspend>> {
        self.stored.seek_to_last()?;
        self.show()
    }

    // An entry is stored as a reference, which sorts before a value with the same number.
    fn seek(&mut self, target: &[u8]) -> Result<(), Fault<S::Suspend>> {
        let wanted = InternalKey::parse(target)?;
        match wanted.value_type {
            ValueType::Value => {
                let (key, seqno) = (wanted.user_key, wanted.seqno);
                encode_into(&mut self.target, key, seqno, ValueType::BlobIndex);
                self.stored.seek(&self.target)?;
            }
            _ => self.stored.seek(target)?,
        }
        self.show()
    }

    fn seek_for_prev(&mut self, target: &[u8]) -> Result<(), Fault<S::Suspend>> {
        self.stored.seek_for_prev(target)?;
        self.show()
    }

    fn next(&mut self) -> Result<(), Fault<S::Suspend>> {
        self.stored.next()?;
        self.show()
    }

    fn prev(&mut self) -> Result<(), Fault<S::Suspend>> {
        self.stored.prev()?;
        self.show()
    }

    fn key(&self) -> &[u8] {
        match self.whole {
            Some(_) => &self.key,
            None => self.stored.key(),
        }
    }

    fn value(&self) -> &[u8] {
        match &self.whole {
            Some(whole) => whole,
            None => self.stored.value(),
        }
    }

    fn pinned_value(&self) -> PinnedSlice {
        match &self.whole {
            Some(whole) => whole.clone(),
            None => self.stored.pinned_value(),
        }
    }
}
