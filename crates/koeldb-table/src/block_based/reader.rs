//! The open block-based table: point reads, and queries of the table as a whole.
//!
//! A read queries the filter, finds the data block in the index, and searches it. The versions of
//! one user key may continue in the next blocks; that happens only where separators are internal
//! keys, and only if the separator has the wanted user key.

use std::fmt;
use std::sync::Arc;

use koeldb_base::checksum::xxph3_64;
use koeldb_base::key::{MAX_SEQNO, user_key};
use koeldb_base::perf::{self, PerfMetric};
use koeldb_base::prefix::PrefixExtractor;
use koeldb_base::range_del::FragmentedTombstones;
use koeldb_base::stats::Ticker;
use koeldb_base::{ArcRef, Error, ErrorKind, Fault, KeyOrder, Lookup, Result, ValueType};

use super::cursor::IndexPath;
use crate::block::index::{
    IndexCursor, IndexFormat, IndexPreparation, IndexScan, IndexSearchResult,
};
use crate::block::{Block, BlockBytes, KeyFormat, PointEnd, PointVisitor, ValueRange};
use crate::filter::FilterReader;
use crate::format::{BlockHandle, Footer};
use crate::memory_filter::MemoryFilter;
use crate::metaindex::{self, Metaindex};
use crate::properties::TableProperties;
use crate::source::{
    BlockKind, BlockReadOptions, BlockSource, BlockingSource, CachedBlock, Direction, TableFile,
};

/// A key that divides a table into parts of known size (RocksDB: `TableReader::Anchor`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// The user key.
    pub user_key: Vec<u8>,
    /// The bytes of the table between the previous anchor and this one.
    pub bytes: u64,
}

/// An open block-based table, shared by threads.
pub struct BlockBasedReader {
    pub(super) order: KeyOrder,
    pub(super) data_keys: KeyFormat,
    pub(super) partitioned_index: bool,
    pub(super) index_format: IndexFormat,
    pub(super) index: MetaBlock,
    pub(super) filter: Option<FilterPart>,
    pub(super) tombstones: Option<Arc<FragmentedTombstones>>,
    pub(super) metaindex: Metaindex,
    pub(super) footer: Footer,
    pub(super) properties: TableProperties,
    pub(super) file: Arc<TableFile>,
    /// Partitions of index and filter that stay in the cache as long as this refers to them.
    pub(super) pinned_partitions: Vec<Arc<CachedBlock>>,
}

/// An index or filter block: pinned by the reader, or looked up in the block cache.
#[derive(Debug)]
pub(super) struct MetaBlock {
    pub(super) handle: BlockHandle,
    pub(super) kind: BlockKind,
    pub(super) pinned: Option<Arc<CachedBlock>>,
}

impl MetaBlock {
    /// Returns the block: the pinned one, or through `source` from the block cache or the file.
    #[inline]
    pub(super) fn get<S: BlockSource>(
        &self,
        file: &Arc<TableFile>,
        source: &mut S,
    ) -> Result<ArcRef<'_, CachedBlock>, Fault<S::Suspend>> {
        match &self.pinned {
            Some(block) => Ok(ArcRef::Borrowed(block)),
            None => Ok(ArcRef::Counted(source.block(
                file,
                self.handle,
                self.kind,
            )?)),
        }
    }

    /// Builds the search structure of a pinned index block, unless its keys are decoded already.
    pub(super) fn prepare(&mut self, preparation: &IndexPreparation) {
        let pinned = self.pinned.as_mut().and_then(Arc::get_mut);
        if let Some(CachedBlock::Entries(block)) = pinned
            && block.decoded().is_none()
        {
            block.prepare(preparation);
        }
    }

    /// Returns the memory of the pinned block in bytes; 0 if it is left to the cache.
    fn memory_bytes(&self) -> u64 {
        self.pinned.as_ref().map_or(0, |block| block.charge())
    }
}

/// The filter of an open table: its block, and whether it has partitions, whole keys or prefixes.
pub(super) struct FilterPart {
    /// The filter, or the index over its partitions.
    pub(super) block: MetaBlock,
    /// The entry format of the index over filter partitions, if the filter has partitions.
    pub(super) partitions: Option<IndexFormat>,
    /// Whether the filter contains whole keys.
    pub(super) whole_keys: bool,
    /// The prefix extractor of the filter, if the table was opened with the same.
    pub(super) prefix_extractor: Option<Arc<dyn PrefixExtractor>>,
}

impl FilterPart {
    /// Wraps a whole-key filter that was built in memory instead of stored in the file.
    pub(super) fn in_memory(filter: &MemoryFilter) -> Self {
        FilterPart {
            block: MetaBlock {
                handle: BlockHandle::NULL,
                kind: BlockKind::Filter,
                pinned: Some(filter.block()),
            },
            partitions: None,
            whole_keys: true,
            prefix_extractor: None,
        }
    }

    /// Returns the prefix of a key in the filter; `None` if the filter has no prefix for it.
    fn prefix_of<'k>(&self, user_key: &'k [u8]) -> Option<&'k [u8]> {
        self.prefix_extractor.as_ref()?.prefix(user_key)
    }
}

/// A point search visitor that offers each visible entry to a lookup.
struct LookupVisitor<'l> {
    lookup: &'l mut Lookup,
    bytes: &'l BlockBytes,
    keys: &'l KeyFormat,
    found: &'l mut bool,
}

impl PointVisitor for LookupVisitor<'_> {
    #[inline]
    fn seek_key(&self) -> &[u8] {
        self.lookup.seek_key()
    }

    #[inline]
    fn visit(&mut self, footer: u64, value: ValueRange) -> Result<bool> {
        let [type_byte, ..] = footer.to_le_bytes();
        let seqno = self.keys.global_seqno.unwrap_or(footer >> 8);
        if seqno > self.lookup.snapshot() {
            return Ok(false);
        }
        let value_type = ValueType::from_byte(type_byte).ok_or_else(|| unknown_type(type_byte))?;
        *self.found = true;
        self.lookup
            .offer(seqno, value_type, || self.bytes.pin(value))
    }
}

/// Creates the error of an entry whose type byte is unknown.
#[cold]
fn unknown_type(type_byte: u8) -> Error {
    Error::corruption(format!(
        "corrupted key: entry of unknown type {type_byte:#04x}"
    ))
}

impl BlockBasedReader {
    /// Searches the table for the lookup's key, after its range tombstones and its filter.
    #[inline]
    pub(crate) fn search<S: BlockSource>(
        &self,
        lookup: &mut Lookup,
        source: &mut S,
    ) -> Result<(), Fault<S::Suspend>> {
        self.cover(lookup);
        if !self.admits(lookup, source)? {
            self.count_denied();
            return Ok(());
        }
        self.search_entries(lookup, source, self.knows_whole_keys())
    }

    /// Whether the filter admits the lookup's key or prefix; true without a filter.
    #[inline]
    pub(super) fn admits<S: BlockSource>(
        &self,
        lookup: &Lookup,
        source: &mut S,
    ) -> Result<bool, Fault<S::Suspend>> {
        let Some(filter) = &self.filter else {
            return Ok(true);
        };
        let admitted = self.filter_admits(filter, lookup, source);
        if let Err(Fault::Suspend(_)) = &admitted {
            self.want_index(lookup, source);
        }
        admitted
    }

    /// Whether the table has a filter of whole keys.
    #[inline]
    pub(super) fn knows_whole_keys(&self) -> bool {
        self.filter.as_ref().is_some_and(|filter| filter.whole_keys)
    }

    /// Requests the index block for a lookup whose filter block is missing, to load both together.
    ///
    /// Filter and index are then read together.
    #[cold]
    fn want_index<S: BlockSource>(&self, lookup: &Lookup, source: &mut S) {
        let Ok(root) = self.index.get(&self.file, source) else {
            return;
        };
        if self.partitioned_index
            && let Ok(top) = root.entries()
            && let Ok(Some(scan)) = IndexScan::seek(top, &self.index_format, lookup.seek_key())
        {
            // The block will be requested again, which reports any error.
            let _ = source.block(&self.file, scan.handle(), BlockKind::Index);
        }
    }

    /// Passes the newest visible range tombstone's sequence number over its key to the lookup.
    #[inline]
    pub(super) fn cover(&self, lookup: &mut Lookup) {
        if let Some(tombstones) = &self.tombstones {
            let seqno = tombstones.covering_seqno(lookup.user_key(), lookup.snapshot());
            lookup.cover(seqno);
        }
    }

    /// Queries the filter for the lookup's whole key if it has whole keys, else for its prefix.
    #[inline]
    fn filter_admits<S: BlockSource>(
        &self,
        part: &FilterPart,
        lookup: &Lookup,
        source: &mut S,
    ) -> Result<bool, Fault<S::Suspend>> {
        if part.whole_keys {
            let (key, hash) = (lookup.user_key(), || lookup.filter_hash());
            return self.ask_filter(part, lookup.seek_key(), key, hash, source);
        }
        match part.prefix_of(lookup.user_key()) {
            Some(prefix) => {
                let hash = || xxph3_64(prefix);
                self.ask_filter(part, lookup.seek_key(), prefix, hash, source)
            }
            None => Ok(true),
        }
    }

    /// Queries the full filter, or the partition of `target`, for the key or prefix `wanted`.
    #[inline]
    fn ask_filter<S: BlockSource>(
        &self,
        part: &FilterPart,
        target: &[u8],
        wanted: &[u8],
        hash: impl Fn() -> u64,
        source: &mut S,
    ) -> Result<bool, Fault<S::Suspend>> {
        let ask = |filter: &FilterReader<BlockBytes>| {
            if filter.is_legacy() {
                filter.may_contain(wanted)
            } else {
                filter.may_contain_hash(hash())
            }
        };
        let block = part.block.get(&self.file, source)?;
        let Some(format) = &part.partitions else {
            return Ok(ask(block.filter()?));
        };
        let top = block.entries()?;
        let partition = match IndexScan::seek(top, format, target)? {
            Some(scan) => Some(scan.handle()),
            None => IndexScan::last(top, format)?.map(|scan| scan.handle()),
        };
        match partition {
            Some(handle) => {
                let block = source.block(&self.file, handle, BlockKind::Filter)?;
                Ok(ask(block.filter()?))
            }
            None => Ok(true),
        }
    }

    /// Searches index and data blocks for the lookup's entries, after the filter.
    #[inline]
    pub(super) fn search_entries<S: BlockSource>(
        &self,
        lookup: &mut Lookup,
        source: &mut S,
        filtered: bool,
    ) -> Result<(), Fault<S::Suspend>> {
        let mut found = false;
        let root = self.index.get(&self.file, source)?;
        let root = root.entries()?;
        if self.partitioned_index {
            self.search_partitions(root, lookup, source, &mut found)?;
        } else {
            self.search_index(root, lookup, source, &mut found)?;
        }
        self.count_admitted(filtered, found);
        Ok(())
    }

    /// Counts a filter's negative result (`BLOOM_FILTER_USEFUL`).
    #[inline]
    pub(super) fn count_denied(&self) {
        perf::count(PerfMetric::BloomSstMissCount, 1);
        self.count(Ticker::BloomFilterUseful);
    }

    /// Counts a filter's positive result, and a true positive if the key was `found`.
    #[inline]
    pub(super) fn count_admitted(&self, filtered: bool, found: bool) {
        if !filtered {
            return;
        }
        perf::count(PerfMetric::BloomSstHitCount, 1);
        if self.file.statistics.is_some() {
            self.count(Ticker::BloomFilterFullPositive);
            if found {
                self.count(Ticker::BloomFilterFullTruePositive);
            }
        }
    }

    /// Searches those partitions of a two-level index that may contain the lookup's key.
    fn search_partitions<S: BlockSource>(
        &self,
        top: &Block,
        lookup: &mut Lookup,
        source: &mut S,
        found: &mut bool,
    ) -> Result<(), Fault<S::Suspend>> {
        let Some(mut scan) = IndexScan::seek(top, &self.index_format, lookup.seek_key())? else {
            return Ok(());
        };
        loop {
            let partition = source.block(&self.file, scan.handle(), BlockKind::Index)?;
            let end = self.search_index(partition.entries()?, lookup, source, found)?;
            let settled = end == PointEnd::Settled || !self.runs_on(scan.key(), lookup);
            if settled || !scan.advance()? {
                return Ok(());
            }
        }
    }

    /// Searches the data blocks of one index block for the lookup's entries.
    #[inline]
    fn search_index<S: BlockSource>(
        &self,
        index: &Block,
        lookup: &mut Lookup,
        source: &mut S,
        found: &mut bool,
    ) -> Result<PointEnd, Fault<S::Suspend>> {
        if let Some(decoded) = index.decoded() {
            match decoded.find_block(&self.order, lookup.user_key()) {
                IndexSearchResult::Block(handle) => {
                    self.search_block(handle, lookup, source, found)?;
                    return Ok(PointEnd::Settled);
                }
                IndexSearchResult::Behind => return Ok(PointEnd::EndOfBlock),
                IndexSearchResult::Unknown => {}
            }
        }
        let Some(mut scan) = IndexScan::seek(index, &self.index_format, lookup.seek_key())? else {
            return Ok(PointEnd::EndOfBlock);
        };
        loop {
            if self.begins_behind(scan.first_key(), lookup) {
                return Ok(PointEnd::Settled);
            }
            let end = self.search_block(scan.handle(), lookup, source, found)?;
            if end == PointEnd::Settled || !self.runs_on(scan.key(), lookup) {
                return Ok(PointEnd::Settled);
            }
            if !scan.advance()? {
                return Ok(PointEnd::EndOfBlock);
            }
        }
    }

    /// Searches one data block for the lookup's entries.
    #[inline]
    fn search_block<S: BlockSource>(
        &self,
        handle: BlockHandle,
        lookup: &mut Lookup,
        source: &mut S,
        found: &mut bool,
    ) -> Result<PointEnd, Fault<S::Suspend>> {
        let block = source.block(&self.file, handle, BlockKind::Data)?;
        Ok(self.search_data(block.entries()?, lookup, found)?)
    }

    /// Searches a loaded data block for the lookup's entries.
    #[inline]
    pub(super) fn search_data(
        &self,
        block: &Block,
        lookup: &mut Lookup,
        found: &mut bool,
    ) -> Result<PointEnd> {
        let mut offer = LookupVisitor {
            lookup,
            bytes: block.bytes(),
            keys: &self.data_keys,
            found,
        };
        block.search_point(&self.data_keys, &mut offer)
    }

    /// Whether a data block begins after the lookup's user key, by its first key in the index.
    #[inline]
    fn begins_behind(&self, first_key: &[u8], lookup: &Lookup) -> bool {
        !first_key.is_empty()
            && self
                .order
                .compare(user_key(first_key), lookup.user_key())
                .is_gt()
    }

    /// Whether versions of the lookup's user key may continue in the block after this separator.
    #[inline]
    fn runs_on(&self, separator: &[u8], lookup: &Lookup) -> bool {
        !self.index_format.keys.user_keys
            && self
                .order
                .compare(user_key(separator), lookup.user_key())
                .is_eq()
    }

    /// Whether the table may contain a user key, by its filter (`KeyMayMatch`); true without one.
    pub(crate) fn may_contain<S: BlockSource>(
        &self,
        user_key: &[u8],
        source: &mut S,
    ) -> Result<bool, Fault<S::Suspend>> {
        match &self.filter {
            Some(part) => self.filter_admits(part, &Lookup::new(user_key, MAX_SEQNO), source),
            None => Ok(true),
        }
    }

    /// The prefix extractor of the filter, if it has prefixes.
    pub(super) fn prefix_extractor(&self) -> Option<&Arc<dyn PrefixExtractor>> {
        self.filter.as_ref()?.prefix_extractor.as_ref()
    }

    /// Whether the table may hold keys with the prefix of the internal key `target`, by its filter.
    ///
    /// Only keys on the side of `target` in this direction matter.
    pub(super) fn may_contain_prefix<S: BlockSource>(
        &self,
        target: &[u8],
        direction: Direction,
        source: &mut S,
    ) -> Result<bool, Fault<S::Suspend>> {
        let Some(part) = &self.filter else {
            return Ok(true);
        };
        if direction == Direction::Backward && part.partitions.is_some() {
            // COMPAT: partitions of RocksDB before 6.19 lack the last prefix of the one before.
            return Ok(true);
        }
        let Some(prefix) = part.prefix_of(user_key(target)) else {
            return Ok(true);
        };
        let admitted = self.ask_filter(part, target, prefix, || xxph3_64(prefix), source)?;
        if let Some(statistics) = &self.file.statistics {
            statistics.add(Ticker::BloomFilterPrefixChecked, 1);
            if !admitted {
                statistics.add(Ticker::BloomFilterPrefixUseful, 1);
            }
        }
        Ok(admitted)
    }

    /// Adds 1 to a ticker, if there are statistics.
    #[inline]
    pub(super) fn count(&self, ticker: Ticker) {
        if let Some(statistics) = &self.file.statistics {
            statistics.add(ticker, 1);
        }
    }

    /// The range tombstones, if there are any.
    #[must_use]
    pub fn tombstones(&self) -> Option<&Arc<FragmentedTombstones>> {
        self.tombstones.as_ref()
    }

    /// The table's properties.
    #[must_use]
    pub fn properties(&self) -> &TableProperties {
        &self.properties
    }

    /// The footer of the table.
    #[must_use]
    pub fn footer(&self) -> &Footer {
        &self.footer
    }

    /// The handle of the index block, or of a partitioned index's top level.
    #[must_use]
    pub fn index_handle(&self) -> BlockHandle {
        self.index.handle
    }

    /// The metadata blocks by name.
    #[must_use]
    pub fn metaindex(&self) -> &Metaindex {
        &self.metaindex
    }

    /// The file of the table.
    #[must_use]
    pub fn file(&self) -> &Arc<TableFile> {
        &self.file
    }

    /// The format of the index entries.
    #[must_use]
    pub fn index_format(&self) -> &IndexFormat {
        &self.index_format
    }

    /// Returns the approximate file offset of the internal key `target`, by the index.
    pub(crate) fn approximate_offset(&self, target: &[u8]) -> Result<u64> {
        let mut source = BlockingSource::default();
        let mut path = IndexPath::borrowing(self);
        path.seek(target, self, &mut source)?;
        if path.valid() {
            return Ok(path.handle()?.offset);
        }
        path.enter(Direction::Backward, self, &mut source)?;
        if path.valid() {
            return path.handle()?.end_within(self.file.blocks_end);
        }
        Ok(0)
    }

    /// Calls `visit` with separator and handle of each data block in key order, until it fails.
    ///
    /// # Errors
    /// If the index cannot be read or is damaged, or the error of `visit`.
    pub fn for_each_data_block(
        &self,
        mut visit: impl FnMut(&[u8], BlockHandle) -> Result<()>,
    ) -> Result<()> {
        let mut source = BlockingSource::new(BlockReadOptions {
            fill_cache: false,
            ..BlockReadOptions::default()
        });
        self.visit_data_blocks(&mut source, |separator, handle| {
            visit(separator, handle).map(|()| true)
        })
    }

    /// Calls `visit` with separator and handle of each data block in order, until it returns false.
    fn visit_data_blocks(
        &self,
        source: &mut BlockingSource,
        mut visit: impl FnMut(&[u8], BlockHandle) -> Result<bool>,
    ) -> Result<()> {
        let mut path = IndexPath::default();
        path.enter(Direction::Forward, self, source)?;
        while path.valid() && visit(path.key(), path.handle()?)? {
            path.next(self, source)?;
        }
        Ok(())
    }

    /// Returns up to about `count_max` keys that divide the table into parts of similar size.
    pub(crate) fn anchors(&self, count_max: usize) -> Result<Vec<Anchor>> {
        let blocks = self.properties.data_block_count;
        let every = blocks.div_ceil(count_max.max(1) as u64).max(1);
        let (mut anchors, mut number, mut from) = (Vec::new(), 0_u64, 0);
        self.for_each_data_block(|separator, handle| {
            number = number.saturating_add(1);
            if number.is_multiple_of(every) || number == blocks {
                let key = match self.index_format.keys.user_keys {
                    true => separator,
                    false => user_key(separator),
                };
                let end = handle.end_within(self.file.blocks_end)?;
                anchors.push(Anchor {
                    user_key: key.to_vec(),
                    bytes: end.saturating_sub(from),
                });
                from = end;
            }
            Ok(())
        })?;
        Ok(anchors)
    }

    /// Loads all index and filter partitions into the block cache and pins them.
    pub(super) fn pin_partitions(&mut self) -> Result<()> {
        if self.file.cache.is_none() {
            return Ok(());
        }
        for (kind, handle) in self.partitions()? {
            let block = match self.file.cached(handle, kind) {
                Some(block) => block,
                None => {
                    let block = Arc::new(self.file.read(handle, kind, true)?);
                    self.file.publish(handle, kind, &block);
                    block
                }
            };
            self.pinned_partitions.push(block);
        }
        Ok(())
    }

    /// Removes the table's blocks from the block cache.
    ///
    /// It stops with the data blocks at `misses_max` consecutive misses.
    pub(crate) fn uncache(&self, misses_max: u32) -> Result<()> {
        let Some(cache) = &self.file.cache else {
            return Ok(());
        };
        let mut source = BlockingSource::new(BlockReadOptions {
            fill_cache: false,
            cache_only: true,
            ..BlockReadOptions::default()
        });
        let remove = |handle: BlockHandle| cache.remove(&self.file.cache_key(handle.offset));
        let mut misses = 0_u32;
        let visited = self.visit_data_blocks(&mut source, |_, handle| {
            misses = match remove(handle) {
                Some(_) => 0,
                None => misses.saturating_add(1),
            };
            Ok(misses < misses_max)
        });
        in_memory(visited)?;
        // Index and filter follow, because the index led to the data blocks.
        let partitions = self
            .partitions_of(|top| in_memory(top.get(&self.file, &mut source).map_err(Error::from)));
        for (_, handle) in partitions? {
            remove(handle);
        }
        remove(self.index.handle);
        if let Some(filter) = &self.filter
            && filter.block.handle != BlockHandle::NULL
        {
            remove(filter.block.handle);
        }
        Ok(())
    }

    /// The kinds and handles of all index and filter partitions.
    ///
    /// # Errors
    /// If a top-level index cannot be read or is damaged.
    pub fn partitions(&self) -> Result<Vec<(BlockKind, BlockHandle)>> {
        self.partitions_of(|top| {
            let block = self.file.read(top.handle, top.kind, true)?;
            Ok(Some(ArcRef::Counted(Arc::new(block))))
        })
    }

    /// Returns the handles of the index and filter partitions in the top-level blocks from `load`.
    fn partitions_of<'t>(
        &'t self,
        mut load: impl FnMut(&'t MetaBlock) -> Result<Option<ArcRef<'t, CachedBlock>>>,
    ) -> Result<Vec<(BlockKind, BlockHandle)>> {
        let mut partitions = Vec::new();
        let mut collect = |block: &'t MetaBlock, kind, format: &IndexFormat| -> Result<()> {
            let Some(top) = load(block)? else {
                return Ok(());
            };
            let mut cursor = IndexCursor::new(top.entries()?.clone(), format.clone());
            cursor.seek_to_first()?;
            while cursor.valid() {
                partitions.push((kind, cursor.handle()?));
                cursor.advance()?;
            }
            Ok(())
        };
        if self.partitioned_index {
            collect(&self.index, BlockKind::Index, &self.index_format)?;
        }
        if let Some(part) = &self.filter
            && let Some(format) = &part.partitions
        {
            collect(&part.block, BlockKind::Filter, format)?;
        }
        Ok(partitions)
    }

    /// Verifies the checksums of all blocks but the properties; `progress` receives their sizes.
    pub(crate) fn verify_checksums(&self, progress: &mut dyn FnMut(u64)) -> Result<()> {
        let mut verify = |handle: BlockHandle, kind| -> Result<()> {
            self.file.read(handle, kind, true)?;
            progress(handle.size);
            Ok(())
        };
        for (name, handle) in self.metaindex.iter() {
            // The properties of an ingested file may differ from their checksum; opening it
            // accepted them.
            if name != metaindex::PROPERTIES.as_bytes() {
                verify(handle, BlockKind::Dictionary)?;
            }
        }
        verify(self.footer.metaindex, BlockKind::Metaindex)?;
        verify(self.index.handle, self.index.kind)?;
        for (kind, handle) in self.partitions()? {
            verify(handle, kind)?;
        }
        self.for_each_data_block(|_, handle| verify(handle, BlockKind::Data))
    }

    /// Returns the memory that the open table holds outside the block cache, in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let filter = self.filter.as_ref();
        let dictionary = self.file.data_decompressor.dictionary();
        let tombstones = self.tombstones.iter().flat_map(|t| t.fragments());
        let tombstone_bytes: usize = tombstones
            .map(|t| {
                size_of_val(t) + t.start.len() + t.end.len() + size_of_val(t.seqnos.as_slice())
            })
            .sum();
        size_of::<Self>() as u64
            + self.index.memory_bytes()
            + filter.map_or(0, |part| part.block.memory_bytes())
            + dictionary.map_or(0, |bytes| bytes.len() as u64)
            + tombstone_bytes as u64
    }
}

/// Converts `Incomplete`, the error of a read confined to the cache, to `None`.
fn in_memory<R>(result: Result<R>) -> Result<Option<R>> {
    match result {
        Err(error) if error.kind() == ErrorKind::Incomplete => Ok(None),
        result => result.map(Some),
    }
}

impl fmt::Debug for BlockBasedReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockBasedReader")
            .field("file", &self.file.file.path())
            .field("footer", &self.footer)
            .finish_non_exhaustive()
    }
}
