//! An open cuckoo table: in memory, or read piece by piece.

use std::sync::Arc;

use koeldb_base::Result;
use koeldb_fs::RandomAccessFile;

use super::cursor::CuckooCursor;
use super::format::CuckooLayout;
use super::paged::PagedCuckoo;
use super::reader::CuckooReader;
use super::residency::Resident;
use crate::format::{Footer, TableKind};
use crate::read_context::TableReadContext;
use crate::whole_or_paged::WholeOrPaged;

/// An open cuckoo table. Shared by threads.
pub type CuckooTable = WholeOrPaged<PagedCuckoo>;

impl CuckooTable {
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
        if footer.kind == TableKind::Cuckoo && context.cuckoo.is_paged(&*file) {
            let paged = PagedCuckoo::open(file, footer, context)?;
            return Ok(WholeOrPaged::Paged(Box::new(paged)));
        }
        let reader = CuckooReader::open(file, &footer, context)?;
        Ok(WholeOrPaged::Whole(Arc::new(reader)))
    }

    /// Prefetches the first memory that a search for a user key reads, if its address is known.
    #[inline]
    pub(crate) fn prefetch(&self, user_key: &[u8]) {
        if let WholeOrPaged::Whole(reader) = self {
            reader.prefetch(user_key);
        }
    }

    /// Creates a cursor; loads the table into memory if it is not there.
    pub(crate) fn cursor(&self) -> Result<CuckooCursor> {
        Ok(CuckooCursor::new(Arc::clone(self.whole()?)))
    }

    /// The layout of the slots.
    #[must_use]
    pub fn layout(&self) -> &CuckooLayout {
        match self {
            WholeOrPaged::Whole(reader) => reader.layout(),
            WholeOrPaged::Paged(paged) => paged.layout(),
        }
    }

    /// Reports where the table is held.
    pub(crate) fn resident(&self) -> Resident {
        match self {
            WholeOrPaged::Whole(reader) => reader.resident(),
            WholeOrPaged::Paged(paged) => paged.resident(),
        }
    }
}
