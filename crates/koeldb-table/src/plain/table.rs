//! An open plain table: in memory, or read piece by piece.

use std::sync::Arc;

use koeldb_base::Result;
use koeldb_fs::RandomAccessFile;

use super::cursor::PlainCursor;
use super::format::RowFormat;
use super::paged::PagedPlain;
use super::reader::PlainTableReader;
use crate::format::Footer;
use crate::read_context::{TableCursorOptions, TableReadContext};
use crate::whole_or_paged::WholeOrPaged;

/// An open plain table. Shared by threads.
pub type PlainTable = WholeOrPaged<PagedPlain>;

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
            return Ok(WholeOrPaged::Paged(Box::new(paged)));
        }
        let reader = PlainTableReader::open(file, &footer, context)?;
        Ok(WholeOrPaged::Whole(Arc::new(reader)))
    }

    /// The table in memory, or the part of it that is held in memory: all but the rows.
    #[inline]
    fn frame(&self) -> &PlainTableReader {
        match self {
            WholeOrPaged::Whole(reader) => reader,
            WholeOrPaged::Paged(paged) => paged.frame(),
        }
    }

    /// Whether the table may contain the key.
    pub(crate) fn may_contain(&self, user_key: &[u8]) -> Result<bool> {
        self.frame().may_contain(user_key)
    }

    /// Creates a cursor; loads the table into memory if it is not there.
    pub(crate) fn cursor(&self, options: &TableCursorOptions) -> Result<PlainCursor> {
        Ok(PlainCursor::new(Arc::clone(self.whole()?), options))
    }

    /// The layout of the rows.
    #[must_use]
    pub fn format(&self) -> RowFormat {
        self.frame().format()
    }
}
