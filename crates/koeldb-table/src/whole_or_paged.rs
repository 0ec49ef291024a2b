//! An open table of a format without blocks: whole in memory, or read piece by piece.

use std::sync::Arc;

use koeldb_base::{Fault, Lookup, Result};

use crate::metaindex::Metaindex;
use crate::properties::TableProperties;
use crate::source::{BlockSource, search_each};

/// The properties and metadata of an open table, which are in memory in any case.
pub trait TableParts {
    /// The table's properties.
    fn properties(&self) -> &TableProperties;

    /// The metadata blocks by name.
    fn metaindex(&self) -> &Metaindex;

    /// The memory held while the table is open.
    fn memory_bytes(&self) -> u64;
}

/// A table in memory.
pub trait WholeTable: TableParts {
    /// Searches for the key of a lookup.
    ///
    /// # Errors
    /// `Corruption` if the table is damaged.
    fn search(&self, lookup: &mut Lookup) -> Result<()>;

    /// Searches for the keys of many lookups; calls `outcome` for each, in any order.
    fn search_batch(&self, lookups: &mut [&mut Lookup], outcome: impl FnMut(usize, Result<()>));
}

/// A table whose pieces are read through the block cache, until a scan loads all of it.
pub trait PagedTable: TableParts {
    /// The table in memory.
    type Whole: WholeTable;

    /// The table in memory, if it was loaded: point reads then need no pieces.
    fn loaded(&self) -> Option<&Self::Whole>;

    /// The table in memory; loads it on first use.
    ///
    /// # Errors
    /// If it cannot be read, or is damaged.
    fn whole(&self) -> Result<&Arc<Self::Whole>>;

    /// Searches for the key of a lookup while the table is not loaded.
    ///
    /// # Errors
    /// If a piece cannot be read or is damaged; or a suspension.
    fn search<S: BlockSource>(
        &self,
        lookup: &mut Lookup,
        source: &mut S,
    ) -> Result<(), Fault<S::Suspend>>;
}

/// An open table of a format without blocks. Shared by threads.
#[derive(Debug)]
pub enum WholeOrPaged<P: PagedTable> {
    /// Mapped, or copied into memory.
    Whole(Arc<P::Whole>),
    /// Read piece by piece until a scan loads it.
    Paged(Box<P>),
}

impl<P: PagedTable> WholeOrPaged<P> {
    /// The table in memory; loads it if it is not.
    ///
    /// # Errors
    /// If it cannot be read, or is damaged.
    pub fn whole(&self) -> Result<&Arc<P::Whole>> {
        match self {
            WholeOrPaged::Whole(table) => Ok(table),
            WholeOrPaged::Paged(table) => table.whole(),
        }
    }

    /// Searches for the key of a lookup; a table not in memory reads pieces through `source`.
    #[inline]
    pub(crate) fn search<S: BlockSource>(
        &self,
        lookup: &mut Lookup,
        source: &mut S,
    ) -> Result<(), Fault<S::Suspend>> {
        match self {
            WholeOrPaged::Whole(table) => Ok(table.search(lookup)?),
            WholeOrPaged::Paged(table) => match table.loaded() {
                Some(whole) => Ok(whole.search(lookup)?),
                None => table.search(lookup, source),
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
            WholeOrPaged::Whole(table) => table.search_batch(lookups, of_whole),
            WholeOrPaged::Paged(table) => match table.loaded() {
                Some(whole) => whole.search_batch(lookups, of_whole),
                None => search_each(lookups, outcome, |lookup| table.search(lookup, source)),
            },
        }
    }

    /// The parts of the table that are in memory in any case.
    #[inline]
    pub(crate) fn parts(&self) -> &dyn TableParts
    where
        P: 'static,
    {
        match self {
            WholeOrPaged::Whole(table) => &**table,
            WholeOrPaged::Paged(table) => &**table,
        }
    }
}
