//! Undated tables: block-based tables that store the keys of timestamps without them.
//!
//! ```text
//! outside  user key ‖ timestamp 0 ‖ footer          in the file  user key ‖ footer
//! ```
//!
//! Column families with `persist_user_defined_timestamps=false` have such tables. In the file they
//! are tables in the order without timestamps, and they are built and read as such. What is here
//! translates at their border: keys that go in lose their timestamps, and keys that come out have
//! the smallest one. (RocksDB 11.9: `table/block_based/block_builder.cc`, `block.cc`.)
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::sync::Arc;

use koeldb_base::key::{MAX_SEQNO, footer_of, pack};
use koeldb_base::range_del::{FragmentedTombstones, RangeTombstone};
use koeldb_base::timestamp::{
    MIN_TIMESTAMP, TIMESTAMP_BYTES, join, split, strip_internal_into, with_timestamp_into,
};
use koeldb_base::{Cursor, Error, Fault, PinnedSlice, Result, ValueType};
use koeldb_fs::WritableFile;

use crate::block_based::builder::BlockBasedTableBuilder;
use crate::block_based::cursor::{BlockBasedCursor, CursorSource};
use crate::block_based::reader::{Anchor, BlockBasedReader};
use crate::build_context::{FinishedTable, TableBuildContext, WriteFormat};
use crate::format::IndexType;

/// An open undated table.
#[derive(Debug)]
pub struct UndatedTable {
    /// The table as it is in the file, in the order without timestamps and without tombstones.
    reader: Arc<BlockBasedReader>,
    /// The range tombstones, whose keys have timestamps.
    tombstones: Option<Arc<FragmentedTombstones>>,
}

impl UndatedTable {
    /// Wraps a table that was opened in the order without timestamps.
    pub(crate) fn new(
        reader: BlockBasedReader,
        tombstones: Option<Arc<FragmentedTombstones>>,
    ) -> Self {
        UndatedTable {
            reader: Arc::new(reader),
            tombstones,
        }
    }

    /// The table as it is in the file, without its range tombstones.
    #[must_use]
    pub fn stored(&self) -> &Arc<BlockBasedReader> {
        &self.reader
    }

    /// The range tombstones, if there are any.
    pub(crate) fn tombstones(&self) -> Option<&Arc<FragmentedTombstones>> {
        self.tombstones.as_ref()
    }

    /// Estimates the file offset of an internal key.
    pub(crate) fn approximate_offset(&self, target: &[u8]) -> Result<u64> {
        let mut stored = Vec::new();
        position_into(&mut stored, target);
        self.reader.approximate_offset(&stored)
    }

    /// Returns keys that divide the table.
    pub(crate) fn anchors(&self, count_max: usize) -> Result<Vec<Anchor>> {
        let anchors = self.reader.anchors(count_max)?.into_iter();
        let dated = |anchor: Anchor| Anchor {
            user_key: join(&anchor.user_key, &MIN_TIMESTAMP),
            ..anchor
        };
        Ok(anchors.map(dated).collect())
    }
}

/// Replaces `out` by the position among stored keys that `target` has among keys with timestamps.
///
/// All stored keys count as of the smallest timestamp, which sorts last: those of a later one sort
/// before all entries of their key.
fn position_into(out: &mut Vec<u8>, target: &[u8]) {
    let (user_key, footer) = footer_of(target);
    let (key, timestamp) = split(user_key);
    let footer = match timestamp == MIN_TIMESTAMP {
        true => footer,
        false => pack(MAX_SEQNO, ValueType::FOR_SEEK),
    };
    out.clear();
    out.extend_from_slice(key);
    out.extend_from_slice(&footer.to_le_bytes());
}

/// A cursor over the point entries of an undated table, whose keys have timestamps.
pub struct UndatedCursor<'t, S: CursorSource> {
    stored: BlockBasedCursor<'t, S>,
    /// The internal key of the entry.
    key: Vec<u8>,
    target: Vec<u8>,
}

impl<'t, S: CursorSource> UndatedCursor<'t, S> {
    /// Creates an unpositioned cursor over the entries of `stored`.
    pub(crate) fn new(stored: BlockBasedCursor<'t, S>) -> Self {
        UndatedCursor {
            stored,
            key: Vec::new(),
            target: Vec::new(),
        }
    }

    /// Returns the block source, so that a cursor over the next table can use it.
    pub(crate) fn into_source(self) -> S {
        self.stored.into_source()
    }

    /// Takes the key of the entry to which the cursor has moved.
    fn show(&mut self) {
        if self.stored.valid() {
            with_timestamp_into(&mut self.key, self.stored.key(), &MIN_TIMESTAMP);
        }
    }
}

impl<S: CursorSource> Cursor for UndatedCursor<'_, S> {
    type Suspend = S::Suspend;

    fn valid(&self) -> bool {
        self.stored.valid()
    }

    fn seek_to_first(&mut self) -> Result<(), Fault<S::Suspend>> {
        self.stored.seek_to_first()?;
        self.show();
        Ok(())
    }

    fn seek_to_last(&mut self) -> Result<(), Fault<S::Suspend>> {
        self.stored.seek_to_last()?;
        self.show();
        Ok(())
    }

    fn seek(&mut self, target: &[u8]) -> Result<(), Fault<S::Suspend>> {
        position_into(&mut self.target, target);
        self.stored.seek(&self.target)?;
        self.show();
        Ok(())
    }

    fn seek_for_prev(&mut self, target: &[u8]) -> Result<(), Fault<S::Suspend>> {
        position_into(&mut self.target, target);
        self.stored.seek_for_prev(&self.target)?;
        self.show();
        Ok(())
    }

    fn next(&mut self) -> Result<(), Fault<S::Suspend>> {
        self.stored.next()?;
        self.show();
        Ok(())
    }

    fn prev(&mut self) -> Result<(), Fault<S::Suspend>> {
        self.stored.prev()?;
        self.show();
        Ok(())
    }

    fn key(&self) -> &[u8] {
        &self.key
    }

    fn value(&self) -> &[u8] {
        self.stored.value()
    }

    fn pinned_value(&self) -> PinnedSlice {
        self.stored.pinned_value()
    }
}

/// A builder of undated tables, which takes keys with timestamps.
#[derive(Debug)]
pub struct UndatedTableBuilder {
    stored: BlockBasedTableBuilder,
    /// The key to be stored.
    key: Vec<u8>,
}

impl UndatedTableBuilder {
    /// Begins an undated table in an empty file.
    ///
    /// # Errors
    /// See [`BlockBasedTableBuilder::create`]; `NotSupported` for another format than block-based.
    pub(crate) fn create(file: Box<dyn WritableFile>, context: &TableBuildContext) -> Result<Self> {
        if context.write_as != WriteFormat::BlockBased
            || context.format.index_type == IndexType::HashSearch
        {
            return Err(Error::not_supported(
                "persist_user_defined_timestamps=false needs block-based tables without a hash index",
            ));
        }
        let mut stored = TableBuildContext {
            order: context.order.without_timestamps(),
            ..context.clone()
        };
        // RocksDB looks a key up with its timestamp in the hash index of a block.
        stored.format.data_block_hash_index = false;
        let mut stored = BlockBasedTableBuilder::create(file, &stored)?;
        stored.set_undated(context.order.name());
        Ok(UndatedTableBuilder {
            stored,
            key: Vec::new(),
        })
    }

    /// The builder of the table as it is in the file.
    pub(crate) fn stored(&self) -> &BlockBasedTableBuilder {
        &self.stored
    }

    /// The builder of the table as it is in the file.
    pub(crate) fn stored_mut(&mut self) -> &mut BlockBasedTableBuilder {
        &mut self.stored
    }

    /// Appends an entry, whose timestamp must be the smallest.
    ///
    /// # Errors
    /// See [`crate::builder::TableBuilder::add`].
    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let (user_key, _) = footer_of(key);
        if user_key.len() < TIMESTAMP_BYTES || split(user_key).1 != MIN_TIMESTAMP {
            return Err(Error::corruption(format!(
                "table builder: internal key {key:02x?} without timestamp 0 in an undated table"
            )));
        }
        strip_internal_into(&mut self.key, key);
        self.stored.add(&self.key, value)
    }

    /// Adds a range tombstone, in any order.
    pub(crate) fn add_tombstone(&mut self, tombstone: &RangeTombstone) {
        self.stored.add_tombstone(&RangeTombstone {
            start: split(&tombstone.start).0.to_vec(),
            end: split(&tombstone.end).0.to_vec(),
            seqno: tombstone.seqno,
        });
    }

    /// Writes what remains of the table, syncs and closes the file.
    ///
    /// # Errors
    /// The errors of the file system.
    pub(crate) fn finish(self) -> Result<FinishedTable> {
        self.stored.finish()
    }
}
