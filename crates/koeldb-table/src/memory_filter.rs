//! A filter of a table's keys that is kept in memory, where the options write none to the file.
//!
//! A key is searched in every table of level 0 that may hold it; without a filter each of them costs
//! a block. Such a table is read for the time until its compaction, mostly by the process that wrote
//! it, so the filter need not be on disk, and the bytes of the file are what they are without it.

use std::fmt;
use std::sync::Arc;

use koeldb_base::Result;

use crate::block::CachedBlock;
use crate::filter::builder::FilterBuilder;
use crate::filter::policy::FilterAlgorithm;

/// The bits of a key in the filter, in thousandths: one key in a hundred is admitted wrongly.
const MILLIBITS: u32 = 10_000;

/// A whole-key Bloom filter that is kept in memory for a table without filter in its file.
#[derive(Clone)]
pub struct MemoryFilter(Arc<CachedBlock>);

impl MemoryFilter {
    /// Returns the filter as a filter block, for table readers.
    pub(crate) fn block(&self) -> Arc<CachedBlock> {
        Arc::clone(&self.0)
    }
}

impl fmt::Debug for MemoryFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryFilter({} bytes)", self.0.bytes().as_ref().len())
    }
}

impl PartialEq for MemoryFilter {
    fn eq(&self, other: &Self) -> bool {
        self.0.bytes().as_ref() == other.0.bytes().as_ref()
    }
}

/// A builder of the in-memory filter of a table under construction.
#[derive(Debug)]
pub(crate) struct MemoryFilterBuilder(FilterBuilder);

impl MemoryFilterBuilder {
    /// Creates a filter without keys.
    pub(crate) fn new() -> Self {
        MemoryFilterBuilder(FilterBuilder::new(FilterAlgorithm::FastLocalBloom {
            millibits: MILLIBITS,
        }))
    }

    /// Adds a user key; consecutive duplicates are ignored.
    #[inline]
    pub(crate) fn add(&mut self, user_key: &[u8]) {
        self.0.add(user_key);
    }

    /// Enables verification of the finished filter against the keys added to it.
    pub(crate) fn verifying(self, verifies: bool) -> Self {
        MemoryFilterBuilder(self.0.verifying(verifies))
    }

    /// Builds the filter; `None` if it is 4 GiB or larger.
    ///
    /// # Errors
    /// `Corruption` if verification finds that it was changed in memory.
    pub(crate) fn finish(mut self) -> Result<Option<MemoryFilter>> {
        let block = CachedBlock::filter_of(self.0.finish()?);
        Ok(block.map(Arc::new).map(MemoryFilter))
    }
}
