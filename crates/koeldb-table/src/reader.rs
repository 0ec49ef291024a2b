//! The open table, in any format.
//!
//! [`TableReader::open`] reads the end of a file and creates the reader of its format. A reader is
//! immutable and shared by threads; everything else that a read needs comes from the caller's
//! [`BlockSource`].

use std::sync::Arc;

use koeldb_base::coding::to_usize;
use koeldb_base::error::advice::LOST_FILE;
use koeldb_base::range_del::FragmentedTombstones;
use koeldb_base::{ArcRef, Cursor, Error, Fault, Lookup, PinnedSlice, Result};
use koeldb_fs::{MappedPages, RandomAccessFile};

use crate::block_based::cursor::{BlockBasedCursor, CursorSource};
pub use crate::block_based::reader::Anchor;
use crate::block_based::reader::BlockBasedReader;
use crate::cuckoo::cursor::CuckooCursor;
use crate::cuckoo::residency::Resident;
use crate::cuckoo::table::CuckooTable;
use crate::embedded::{EmbeddedCursor, EmbeddedTable};
use crate::file_read::read_bytes;
use crate::format::{FOOTER_BYTES, Footer, TableKind};
use crate::metaindex::Metaindex;
use crate::plain::cursor::PlainCursor;
use crate::plain::table::PlainTable;
use crate::properties::TableProperties;
use crate::read_context::Residency;
pub use crate::read_context::{
    BlockBasedReadOptions, Pinning, TableCursorOptions, TableReadContext,
};
use crate::source::BlockSource;
use crate::undated::{UndatedCursor, UndatedTable};

/// The bytes read from the end of a file whose metadata size is unknown.
const TAIL_GUESS_BYTES: u64 = 32 << 10;

/// The largest single read of a tail whose size was recorded.
const TAIL_MAX_BYTES: u64 = 8 << 20;

/// An open table of any format (RocksDB: `TableReader`).
#[derive(Debug)]
pub enum TableReader {
    /// A block-based table.
    BlockBased(Arc<BlockBasedReader>),
    /// A cuckoo table.
    Cuckoo(CuckooTable),
    /// A plain table.
    Plain(PlainTable),
    /// A block-based table without the timestamps of its keys.
    Undated(UndatedTable),
    /// A block-based table with values outside of its blocks.
    Embedded(EmbeddedTable),
}

impl TableReader {
    /// Opens a table of any format, detected by its magic number.
    ///
    /// # Errors
    /// `Corruption` if the file is damaged or not the recorded one; `InvalidArgument` if it was
    /// written in another order; `NotSupported` if it needs features not built in; otherwise the
    /// errors of the system.
    pub fn open(file: Arc<dyn RandomAccessFile>, context: &TableReadContext) -> Result<Arc<Self>> {
        if context.cuckoo == Residency::Mapped {
            file.arrange_mapping(MappedPages::Small)?;
        }
        let tail = read_tail(&*file, context)?;
        let footer = Footer::decode(&tail, file.len())
            .map_err(|error| error.in_file(file.path(), None, "open"))?;
        Ok(Arc::new(match footer.kind {
            TableKind::BlockBased => {
                let opened = BlockBasedReader::open(file, footer, tail, context)?;
                let has_blobs = opened.reader.properties().has_embedded_blobs();
                match (opened.is_undated, has_blobs) {
                    (true, true) => {
                        return Err(Error::not_supported(
                            "a table without the timestamps of its keys has embedded blobs",
                        ));
                    }
                    (true, false) => {
                        let (stored, tombstones) = (opened.reader, opened.tombstones);
                        TableReader::Undated(UndatedTable::new(stored, tombstones))
                    }
                    (false, true) => {
                        TableReader::Embedded(EmbeddedTable::new(opened.with_tombstones()))
                    }
                    (false, false) => TableReader::BlockBased(Arc::new(opened.with_tombstones())),
                }
            }
            TableKind::Cuckoo | TableKind::CuckooVersions => {
                TableReader::Cuckoo(CuckooTable::open(file, footer, context)?)
            }
            TableKind::Plain => TableReader::Plain(PlainTable::open(file, footer, context)?),
        }))
    }

    /// Searches the table for a lookup's key, and offers its visible entries to the lookup.
    ///
    /// Covers the lookup with the table's range tombstones and offers it the entries of its key,
    /// newest first, until it is settled.
    ///
    /// # Errors
    /// If a block cannot be read or is damaged, or an entry is refused; or a suspension, after
    /// which the lookup must be rewound and the call repeated.
    #[inline]
    pub fn search<S: BlockSource>(
        &self,
        lookup: &mut Lookup,
        source: &mut S,
    ) -> Result<(), Fault<S::Suspend>> {
        match self {
            TableReader::BlockBased(reader) => reader.search(lookup, source),
            TableReader::Cuckoo(table) => table.search(lookup, source),
            TableReader::Plain(table) => table.search(lookup, source),
            TableReader::Undated(_) => Err(searched_undated().into()),
            TableReader::Embedded(table) => table.search(lookup, source),
        }
    }

    /// Prefetches the first memory that a search for a user key reads, if its address is known.
    #[inline]
    pub fn prefetch(&self, user_key: &[u8]) {
        if let TableReader::Cuckoo(table) = self {
            table.prefetch(user_key);
        }
    }

    /// Searches the table for several lookups (`MultiGet`), sorted by internal key.
    ///
    /// Lookups of one user key must come newest snapshot first.
    ///
    /// `outcome` receives the outcome of each, by its index and in any order.
    pub fn search_batch<S: BlockSource>(
        &self,
        lookups: &mut [&mut Lookup],
        source: &mut S,
        mut outcome: impl FnMut(usize, Result<(), Fault<S::Suspend>>),
    ) {
        match self {
            TableReader::BlockBased(reader) => reader.search_batch(lookups, source, outcome),
            TableReader::Cuckoo(table) => table.search_batch(lookups, source, outcome),
            TableReader::Plain(table) => table.search_batch(lookups, source, outcome),
            TableReader::Undated(_) => {
                (0..lookups.len()).for_each(|index| outcome(index, Err(searched_undated().into())));
            }
            TableReader::Embedded(table) => {
                for (index, lookup) in lookups.iter_mut().enumerate() {
                    outcome(index, table.search(lookup, source));
                }
            }
        }
    }

    /// Whether the table may contain a user key, by its filter; true without a filter.
    ///
    /// # Errors
    /// If the filter cannot be read or is damaged; or a suspension.
    pub fn may_contain<S: BlockSource>(
        &self,
        user_key: &[u8],
        source: &mut S,
    ) -> Result<bool, Fault<S::Suspend>> {
        match self {
            TableReader::BlockBased(reader) => reader.may_contain(user_key, source),
            TableReader::Cuckoo(_) => Ok(true),
            TableReader::Plain(table) => Ok(table.may_contain(user_key)?),
            TableReader::Undated(table) => table.stored().may_contain(user_key, source),
            TableReader::Embedded(table) => table.stored().may_contain(user_key, source),
        }
    }

    /// Creates an unpositioned cursor over the point entries, which keeps the table open.
    #[must_use]
    pub fn cursor<S: CursorSource>(
        &self,
        source: S,
        options: &TableCursorOptions,
    ) -> TableCursor<'static, S> {
        self.cursor_of(
            |reader| ArcRef::Counted(Arc::clone(reader)),
            source,
            options,
        )
    }

    /// Creates an unpositioned cursor over the point entries, which borrows the table.
    ///
    /// In a block-based table it counts no reference to the table or to blocks that the table pins.
    #[must_use]
    pub fn borrowing_cursor<S: CursorSource>(
        &self,
        source: S,
        options: &TableCursorOptions,
    ) -> TableCursor<'_, S> {
        self.cursor_of(ArcRef::Borrowed, source, options)
    }

    /// Creates a cursor over a table of any format; after an error, one that fails all moves.
    fn cursor_of<'s, 't, S: CursorSource>(
        &'s self,
        refer: impl FnOnce(&'s Arc<BlockBasedReader>) -> ArcRef<'t, BlockBasedReader>,
        source: S,
        options: &TableCursorOptions,
    ) -> TableCursor<'t, S> {
        match self {
            TableReader::BlockBased(reader) => {
                TableCursor::BlockBased(BlockBasedCursor::new(refer(reader), source, options))
            }
            TableReader::Cuckoo(table) => match table.cursor() {
                Ok(cursor) => TableCursor::Cuckoo(cursor),
                Err(error) => TableCursor::Failed(error),
            },
            TableReader::Plain(table) => match table.cursor(options) {
                Ok(cursor) => TableCursor::Plain(cursor),
                Err(error) => TableCursor::Failed(error),
            },
            TableReader::Undated(table) => {
                let stored = BlockBasedCursor::new(refer(table.stored()), source, options);
                TableCursor::Undated(Box::new(UndatedCursor::new(stored)))
            }
            TableReader::Embedded(table) => {
                let stored = BlockBasedCursor::new(refer(table.stored()), source, options);
                let file = Arc::clone(table.stored().file());
                TableCursor::Embedded(Box::new(EmbeddedCursor::new(stored, file)))
            }
        }
    }

    /// The fragmented range tombstones of the table, if it has any.
    #[inline]
    #[must_use]
    pub fn tombstones(&self) -> Option<&Arc<FragmentedTombstones>> {
        match self {
            TableReader::BlockBased(reader) => reader.tombstones(),
            TableReader::Undated(table) => table.tombstones(),
            TableReader::Embedded(table) => table.stored().tombstones(),
            TableReader::Cuckoo(_) | TableReader::Plain(_) => None,
        }
    }

    /// Removes the table's blocks from the block cache, without reading the file.
    ///
    /// Reads no block from the file, so blocks under an index block that is not cached stay. Stops
    /// with the data blocks after `misses_max` consecutive ones that are not cached.
    ///
    /// # Errors
    /// If the index is damaged.
    pub fn uncache(&self, misses_max: u32) -> Result<()> {
        match self {
            TableReader::BlockBased(reader) => reader.uncache(misses_max),
            TableReader::Undated(table) => table.stored().uncache(misses_max),
            TableReader::Embedded(table) => table.stored().uncache(misses_max),
            TableReader::Cuckoo(_) | TableReader::Plain(_) => Ok(()),
        }
    }

    /// The table's properties.
    #[must_use]
    pub fn properties(&self) -> &TableProperties {
        match self {
            TableReader::BlockBased(reader) => reader.properties(),
            TableReader::Cuckoo(table) => table.parts().properties(),
            TableReader::Plain(table) => table.parts().properties(),
            TableReader::Undated(table) => table.stored().properties(),
            TableReader::Embedded(table) => table.stored().properties(),
        }
    }

    /// The metadata blocks by name.
    #[must_use]
    pub fn metaindex(&self) -> &Metaindex {
        match self {
            TableReader::BlockBased(reader) => reader.metaindex(),
            TableReader::Cuckoo(table) => table.parts().metaindex(),
            TableReader::Plain(table) => table.parts().metaindex(),
            TableReader::Undated(table) => table.stored().metaindex(),
            TableReader::Embedded(table) => table.stored().metaindex(),
        }
    }

    /// The approximate number of bytes of the file before the internal key `target`.
    ///
    /// # Errors
    /// If the index cannot be read or is damaged.
    pub fn approximate_offset(&self, target: &[u8]) -> Result<u64> {
        match self {
            TableReader::BlockBased(reader) => reader.approximate_offset(target),
            TableReader::Cuckoo(table) => table.whole()?.approximate_offset(target),
            TableReader::Plain(table) => table.whole()?.approximate_offset(target),
            TableReader::Undated(table) => table.approximate_offset(target),
            TableReader::Embedded(table) => table.stored().approximate_offset(target),
        }
    }

    /// Returns about `count_max` keys that divide the table, with the bytes between them.
    ///
    /// There are none for tables of other formats than block-based.
    ///
    /// # Errors
    /// If the index cannot be read or is damaged.
    pub fn anchors(&self, count_max: usize) -> Result<Vec<Anchor>> {
        match self {
            TableReader::BlockBased(reader) => reader.anchors(count_max),
            TableReader::Undated(table) => table.anchors(count_max),
            TableReader::Embedded(table) => table.stored().anchors(count_max),
            TableReader::Cuckoo(_) | TableReader::Plain(_) => Ok(Vec::new()),
        }
    }

    /// Reads all blocks from the file and verifies their checksums (`VerifyChecksum`).
    ///
    /// `progress` receives the size of each. In a table without checksums every key is searched
    /// instead.
    ///
    /// # Errors
    /// If a block cannot be read or is damaged.
    pub fn verify_checksums(&self, progress: &mut dyn FnMut(u64)) -> Result<()> {
        match self {
            TableReader::BlockBased(reader) => reader.verify_checksums(progress),
            TableReader::Cuckoo(table) => table.whole()?.verify_checksums(progress),
            TableReader::Plain(table) => table.whole()?.verify_checksums(progress),
            TableReader::Undated(table) => table.stored().verify_checksums(progress),
            TableReader::Embedded(table) => table.verify_checksums(progress),
        }
    }

    /// Returns whether a cuckoo table is mapped, copied or paged; `None` for other formats.
    #[must_use]
    pub fn cuckoo_resident(&self) -> Option<Resident> {
        match self {
            TableReader::Cuckoo(table) => Some(table.resident()),
            _ => None,
        }
    }

    /// The bytes of memory that the open table holds outside the block cache.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        match self {
            TableReader::BlockBased(reader) => reader.memory_bytes(),
            TableReader::Cuckoo(table) => table.parts().memory_bytes(),
            TableReader::Plain(table) => table.parts().memory_bytes(),
            TableReader::Undated(table) => table.stored().memory_bytes(),
            TableReader::Embedded(table) => table.stored().memory_bytes(),
        }
    }
}

/// Creates the error of a look-up that searches an undated table otherwise than by its cursor.
#[cold]
fn searched_undated() -> Error {
    Error::not_supported("a look-up without a timestamp in a table of keys with timestamps")
}

/// Reads the last bytes of a file: at least the footer, unless the file is shorter.
///
/// # Errors
/// `Corruption` if the file has an unexpected length; otherwise the errors of the system.
fn read_tail(file: &dyn RandomAccessFile, context: &TableReadContext) -> Result<Vec<u8>> {
    let bytes = file.len();
    let expected = context.expected_bytes;
    if expected != 0 && expected != bytes {
        return Err(Error::corruption(format!(
            "the file has {bytes} bytes, but {expected} are recorded"
        ))
        .with_advice(LOST_FILE)
        .in_file(file.path(), None, "open"));
    }
    let guess = match context.tail_bytes {
        0 => TAIL_GUESS_BYTES,
        recorded => recorded
            .saturating_add(FOOTER_BYTES as u64)
            .min(TAIL_MAX_BYTES),
    };
    let len = guess.max(FOOTER_BYTES as u64).min(bytes);
    read_bytes(file, bytes.saturating_sub(len), to_usize(len))
}

/// A cursor over the point entries of a table of any format.
#[expect(
    clippy::large_enum_variant,
    reason = "the large one is the usual one, and a cursor is made once a scan"
)]
pub enum TableCursor<'t, S: CursorSource> {
    /// A cursor in a block-based table.
    BlockBased(BlockBasedCursor<'t, S>),
    /// A cursor in a cuckoo table.
    Cuckoo(CuckooCursor),
    /// A cursor in a plain table.
    Plain(PlainCursor),
    /// A cursor in a table without the timestamps of its keys.
    Undated(Box<UndatedCursor<'t, S>>),
    /// A cursor in a table with values outside of its blocks.
    Embedded(Box<EmbeddedCursor<'t, S>>),
    /// A cursor in a table that could not be read: all positioning fails.
    Failed(Error),
}

impl<S: CursorSource> TableCursor<'_, S> {
    /// Returns the block source, so that a cursor over the next table can use it.
    ///
    /// Returns `None` if the table format needs none.
    pub fn into_source(self) -> Option<S> {
        match self {
            TableCursor::BlockBased(cursor) => Some(cursor.into_source()),
            TableCursor::Undated(cursor) => Some(cursor.into_source()),
            TableCursor::Embedded(cursor) => Some(cursor.into_source()),
            TableCursor::Cuckoo(_) | TableCursor::Plain(_) | TableCursor::Failed(_) => None,
        }
    }

    /// Returns key and value of the current entry in a table that is not block-based.
    ///
    /// Separate from the block-based path, whose keys are read several times per step.
    #[inline(never)]
    fn entry_of_others(&self) -> (&[u8], &[u8]) {
        match self {
            TableCursor::Cuckoo(cursor) => (cursor.key(), cursor.value()),
            TableCursor::Plain(cursor) => (cursor.key(), cursor.value()),
            TableCursor::Undated(cursor) => (cursor.key(), cursor.value()),
            TableCursor::Embedded(cursor) => (cursor.key(), cursor.value()),
            TableCursor::BlockBased(_) | TableCursor::Failed(_) => (&[], &[]),
        }
    }
}

impl<S: CursorSource> Cursor for TableCursor<'_, S> {
    type Suspend = S::Suspend;

    #[inline]
    fn valid(&self) -> bool {
        match self {
            TableCursor::BlockBased(cursor) => cursor.valid(),
            TableCursor::Cuckoo(cursor) => cursor.valid(),
            TableCursor::Plain(cursor) => cursor.valid(),
            TableCursor::Undated(cursor) => cursor.valid(),
            TableCursor::Embedded(cursor) => cursor.valid(),
            TableCursor::Failed(_) => false,
        }
    }

    fn seek_to_first(&mut self) -> Result<(), Fault<S::Suspend>> {
        match self {
            TableCursor::BlockBased(cursor) => cursor.seek_to_first(),
            TableCursor::Cuckoo(cursor) => Ok(cursor.seek_to_first()?),
            TableCursor::Plain(cursor) => Ok(cursor.seek_to_first()?),
            TableCursor::Undated(cursor) => cursor.seek_to_first(),
            TableCursor::Embedded(cursor) => cursor.seek_to_first(),
            TableCursor::Failed(error) => Err(Fault::Error(error.clone())),
        }
    }

    fn seek_to_last(&mut self) -> Result<(), Fault<S::Suspend>> {
        match self {
            TableCursor::BlockBased(cursor) => cursor.seek_to_last(),
            TableCursor::Cuckoo(cursor) => Ok(cursor.seek_to_last()?),
            TableCursor::Plain(cursor) => Ok(cursor.seek_to_last()?),
            TableCursor::Undated(cursor) => cursor.seek_to_last(),
            TableCursor::Embedded(cursor) => cursor.seek_to_last(),
            TableCursor::Failed(error) => Err(Fault::Error(error.clone())),
        }
    }

    fn seek(&mut self, target: &[u8]) -> Result<(), Fault<S::Suspend>> {
        match self {
            TableCursor::BlockBased(cursor) => cursor.seek(target),
            TableCursor::Cuckoo(cursor) => Ok(cursor.seek(target)?),
            TableCursor::Plain(cursor) => Ok(cursor.seek(target)?),
            TableCursor::Undated(cursor) => cursor.seek(target),
            TableCursor::Embedded(cursor) => cursor.seek(target),
            TableCursor::Failed(error) => Err(Fault::Error(error.clone())),
        }
    }

    fn seek_for_prev(&mut self, target: &[u8]) -> Result<(), Fault<S::Suspend>> {
        match self {
            TableCursor::BlockBased(cursor) => cursor.seek_for_prev(target),
            TableCursor::Cuckoo(cursor) => Ok(cursor.seek_for_prev(target)?),
            TableCursor::Plain(cursor) => Ok(cursor.seek_for_prev(target)?),
            TableCursor::Undated(cursor) => cursor.seek_for_prev(target),
            TableCursor::Embedded(cursor) => cursor.seek_for_prev(target),
            TableCursor::Failed(error) => Err(Fault::Error(error.clone())),
        }
    }

    #[inline]
    fn next(&mut self) -> Result<(), Fault<S::Suspend>> {
        match self {
            TableCursor::BlockBased(cursor) => cursor.next(),
            TableCursor::Cuckoo(cursor) => Ok(cursor.next()?),
            TableCursor::Plain(cursor) => Ok(cursor.next()?),
            TableCursor::Undated(cursor) => cursor.next(),
            TableCursor::Embedded(cursor) => cursor.next(),
            TableCursor::Failed(error) => Err(Fault::Error(error.clone())),
        }
    }

    #[inline]
    fn prev(&mut self) -> Result<(), Fault<S::Suspend>> {
        match self {
            TableCursor::BlockBased(cursor) => cursor.prev(),
            TableCursor::Cuckoo(cursor) => Ok(cursor.prev()?),
            TableCursor::Plain(cursor) => Ok(cursor.prev()?),
            TableCursor::Undated(cursor) => cursor.prev(),
            TableCursor::Embedded(cursor) => cursor.prev(),
            TableCursor::Failed(error) => Err(Fault::Error(error.clone())),
        }
    }

    #[inline]
    fn key(&self) -> &[u8] {
        match self {
            TableCursor::BlockBased(cursor) => cursor.key(),
            other => other.entry_of_others().0,
        }
    }

    #[inline]
    fn value(&self) -> &[u8] {
        match self {
            TableCursor::BlockBased(cursor) => cursor.value(),
            other => other.entry_of_others().1,
        }
    }

    fn pinned_value(&self) -> PinnedSlice {
        match self {
            TableCursor::BlockBased(cursor) => cursor.pinned_value(),
            TableCursor::Cuckoo(cursor) => cursor.pinned_value(),
            TableCursor::Plain(cursor) => cursor.pinned_value(),
            TableCursor::Undated(cursor) => cursor.pinned_value(),
            TableCursor::Embedded(cursor) => cursor.pinned_value(),
            TableCursor::Failed(_) => PinnedSlice::default(),
        }
    }
}
