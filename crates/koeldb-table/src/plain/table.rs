//! An open plain table: in memory, or read piece by piece.

use std::sync::Arc;

use koeldb_base::{Error, Fault, Lookup, Result};
use koeldb_fs::RandomAccessFile;

use super::cursor::PlainCursor;
use super::format::RowFormat;
use super::paged::PagedPlain;
use super::reader::PlainTableReader;
use crate::format::Footer;
use crate::metaindex::Metaindex;
use crate::properties::TableProperties;
use crate::read_context::{TableCursorOptions, TableReadContext};
use crate::source::{BlockSource, search_each};

/// An open plain table. Shared by threads.
#[derive(Debug)]
pub enum PlainTable {
    /// Mapped, or read into memory.
    Resident(Arc<PlainTableReader>),
    /// Read piece by piece until a scan loads it.
    Paged(Box<PagedPlain>),
}

impl PlainTable {
    /// Opens a table with this footer.
    ///
    /// # Errors
    /// `Corruption` if the file is damaged or not the expected one; otherwise the errors of the
    /// system.
    pub(crate) fn open(
        file: Arc<dyn RandomAccessFile>,
        footer: Footer,
        context: &TableReadContext,
    ) -> Result<Self> {
        if PagedPlain::is_for(&*file, context) {
            let paged = PagedPlain::open(file, footer, context)?;
            return Ok(PlainTable::Paged(Box::new(paged)));
        }
        let reader = PlainTableReader::open(file, &footer, context)?;
        Ok(PlainTable::Resident(Arc::new(reader)))
    }

    /// The table in memory; loads it if it is not.
    ///
    /// # Errors
    /// If it cannot be read, or is damaged.
    pub fn whole(&self) -> Result<&Arc<PlainTableReader>> {
        match self {
            PlainTable::Resident(reader) => Ok(reader),
            PlainTable::Paged(paged) => paged.whole(),
        }
    }

    /// Searches for the key of a lookup; a table not in memory reads blocks through `source`.
    #[inline]
    pub(crate) fn search<S: BlockSource>(
        &self,
        lookup: &mut Lookup,
        source: &mut S,
    ) -> Result<(), Fault<S::Suspend>> {
        match self {
            PlainTable::Resident(reader) => Ok(reader.search(lookup)?),
            PlainTable::Paged(paged) => match paged.loaded() {
                Some(whole) => Ok(whole.search(lookup)?),
                None => paged.search(lookup, source),
            },
        }
    }

    /// Searches for the keys of many lookups; calls `outcome` for each, in any order.
    pub(crate) fn search_batch<S: BlockSource>(
        &self,
        lookups: &mut [&mut Lookup],
        source: &mut S,
        mut outcome: impl FnMut(usize, Result<(), Fault<S::Suspend>>),
    ) {
        let of_whole = |index, result: Result<()>| outcome(index, result.map_err(Fault::Error));
        match self {
            PlainTable::Resident(reader) => reader.search_batch(lookups, of_whole),
            PlainTable::Paged(paged) => match paged.loaded() {
                Some(whole) => whole.search_batch(lookups, of_whole),
                None => search_each(lookups, outcome, |lookup| paged.search(lookup, source)),
            },
        }
    }

    /// The table in memory, or the part of it that is held in memory: all but the rows.
    #[inline]
    fn frame(&self) -> &PlainTableReader {
        match self {
            PlainTable::Resident(reader) => reader,
            PlainTable::Paged(paged) => paged.frame(),
        }
    }

    /// Whether the table may contain the key.
    pub(crate) fn may_contain(&self, user_key: &[u8]) -> Result<bool> {
        self.frame().may_contain(user_key)
    }

    /// Creates a cursor; loads the table into memory if it is not there.
    pub(crate) fn cursor(&self, options: &TableCursorOptions) -> Result<PlainCursor, Error> {
        Ok(PlainCursor::new(Arc::clone(self.whole()?), options))
    }

    /// The layout of the rows.
    #[must_use]
    pub fn format(&self) -> RowFormat {
        self.frame().format()
    }

    pub(crate) fn properties(&self) -> &TableProperties {
        self.frame().properties()
    }

    pub(crate) fn metaindex(&self) -> &Metaindex {
        self.frame().metaindex()
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        match self {
            PlainTable::Resident(reader) => reader.memory_bytes(),
            PlainTable::Paged(paged) => paged.memory_bytes(),
        }
    }
}
