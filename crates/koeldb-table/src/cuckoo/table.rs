//! An open cuckoo table: in memory, or read piece by piece.

use std::sync::Arc;

use koeldb_base::{Error, Fault, Lookup, Result};
use koeldb_fs::RandomAccessFile;

use super::cursor::CuckooCursor;
use super::format::CuckooLayout;
use super::paged::PagedCuckoo;
use super::reader::CuckooReader;
use super::residency::Resident;
use crate::format::{Footer, TableKind};
use crate::metaindex::Metaindex;
use crate::properties::TableProperties;
use crate::read_context::TableReadContext;
use crate::source::{BlockSource, search_each};

/// An open cuckoo table. Shared by threads.
#[derive(Debug)]
pub enum CuckooTable {
    /// Mapped, or copied into memory.
    Resident(Arc<CuckooReader>),
    /// Read piece by piece until a scan loads it.
    Paged(Box<PagedCuckoo>),
}

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
            return Ok(CuckooTable::Paged(Box::new(paged)));
        }
        let reader = CuckooReader::open(file, &footer, context)?;
        Ok(CuckooTable::Resident(Arc::new(reader)))
    }

    /// The table in memory; loads it if it is not.
    ///
    /// # Errors
    /// If it cannot be read, or is damaged.
    pub fn whole(&self) -> Result<&Arc<CuckooReader>> {
        match self {
            CuckooTable::Resident(reader) => Ok(reader),
            CuckooTable::Paged(paged) => paged.whole(),
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
            CuckooTable::Resident(reader) => Ok(reader.search(lookup)?),
            CuckooTable::Paged(paged) => match paged.loaded() {
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
            CuckooTable::Resident(reader) => reader.search_batch(lookups, of_whole),
            CuckooTable::Paged(paged) => match paged.loaded() {
                Some(whole) => whole.search_batch(lookups, of_whole),
                None => search_each(lookups, outcome, |lookup| paged.search(lookup, source)),
            },
        }
    }

    /// Prefetches the first memory that a search for a user key reads, if its address is known.
    #[inline]
    pub(crate) fn prefetch(&self, user_key: &[u8]) {
        if let CuckooTable::Resident(reader) = self {
            reader.prefetch(user_key);
        }
    }

    /// Creates a cursor; loads the table into memory if it is not there.
    pub(crate) fn cursor(&self) -> Result<CuckooCursor, Error> {
        Ok(CuckooCursor::new(Arc::clone(self.whole()?)))
    }

    /// The layout of the slots.
    #[must_use]
    pub fn layout(&self) -> &CuckooLayout {
        match self {
            CuckooTable::Resident(reader) => reader.layout(),
            CuckooTable::Paged(paged) => paged.layout(),
        }
    }

    pub(crate) fn properties(&self) -> &TableProperties {
        match self {
            CuckooTable::Resident(reader) => reader.properties(),
            CuckooTable::Paged(paged) => paged.properties(),
        }
    }

    pub(crate) fn metaindex(&self) -> &Metaindex {
        match self {
            CuckooTable::Resident(reader) => reader.metaindex(),
            CuckooTable::Paged(paged) => paged.metaindex(),
        }
    }

    pub(crate) fn resident(&self) -> Resident {
        match self {
            CuckooTable::Resident(reader) => reader.resident(),
            CuckooTable::Paged(paged) => paged.resident(),
        }
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        match self {
            CuckooTable::Resident(reader) => reader.memory_bytes(),
            CuckooTable::Paged(paged) => paged.memory_bytes(),
        }
    }
}
