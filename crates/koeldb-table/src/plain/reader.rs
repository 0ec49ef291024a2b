//! Point reads in a plain table.
//!
//! ```text
//! prefix -> hash -> slot, or Bloom filter and bucket -> (binary search of its rows)
//!        -> rows, one by one
//! key, without prefixes -> Bloom filter -> mark -> rows, one by one
//! ```
//!
//! Rows are compared one by one from a listed row that is not after the wanted key, or the first of
//! its prefix. If a listed row is before the key, the rows after it contain the key if the table
//! does, in any order of prefixes. Keys without a prefix, in a table with prefixes, are found
//! through the `Marks`.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::fmt;
use std::sync::{Arc, OnceLock};

use koeldb_base::key::footer_of;
use koeldb_base::prefix::PrefixExtractor;
use koeldb_base::{Error, KeyOrder, Lookup, Result};
use koeldb_fs::RandomAccessFile;

use super::bloom::{PlainBloom, hash};
use super::format::{Base, Row, RowFormat, Rows};
use super::hash_slots::RowIndex;
use super::index::Listed;
use super::marks::{Mark, Marks};
use crate::block::{BlockBytes, prefetch};
use crate::metaindex::Metaindex;
use crate::properties::TableProperties;
pub use crate::read_context::PlainReadOptions;
use crate::span_checksums::SpanChecksums;
use crate::whole_or_paged::{TableParts, WholeTable};

/// An open plain table in memory, mapped or copied.
pub struct PlainTableReader {
    pub(super) order: KeyOrder,
    /// The prefix extractor of index and filter; `None` if they use whole keys.
    pub(super) prefix_extractor: Option<Arc<dyn PrefixExtractor>>,
    pub(super) format: RowFormat,
    /// The bytes of all rows.
    pub(super) data: BlockBytes,
    /// The index; `None` if the table is opened for scans only.
    pub(super) index: Option<RowIndex>,
    pub(super) bloom: Option<PlainBloom>,
    pub(super) marks: OnceLock<Marks>,
    pub(super) metaindex: Metaindex,
    pub(super) properties: TableProperties,
    pub(super) checksums: Option<SpanChecksums>,
    pub(super) file: Arc<dyn RandomAccessFile>,
}

impl TableParts for PlainTableReader {
    fn properties(&self) -> &TableProperties {
        &self.properties
    }

    fn metaindex(&self) -> &Metaindex {
        &self.metaindex
    }

    fn memory_bytes(&self) -> u64 {
        let parts = [
            self.data.heap_bytes(),
            self.index.as_ref().map_or(0, RowIndex::memory_bytes),
            self.bloom.as_ref().map_or(0, PlainBloom::memory_bytes),
            self.marks.get().map_or(0, Marks::memory_bytes),
        ];
        parts.iter().map(|&bytes| bytes as u64).sum()
    }
}

impl WholeTable for PlainTableReader {
    #[inline]
    fn search(&self, lookup: &mut Lookup) -> Result<()> {
        self.search_rows(lookup)
            .map_err(|error| self.in_file(error))
    }

    fn search_batch(
        &self,
        lookups: &mut [&mut Lookup],
        mut outcome: impl FnMut(usize, Result<()>),
    ) {
        for (group, lookups) in lookups.chunks_mut(GROUP).enumerate() {
            let mut routes = [Some(SearchPath::Marks); GROUP];
            for (route, lookup) in routes.iter_mut().zip(&*lookups) {
                let at = self.route(lookup.user_key());
                if let (Some(bloom), SearchPath::Key(hash) | SearchPath::Prefix(hash)) =
                    (&self.bloom, at)
                {
                    bloom.prefetch(hash);
                }
                *route = Some(at);
            }
            for route in &mut routes {
                *route = route.filter(|&route| self.is_open_to(route));
                if let (Some(index), Some(SearchPath::Prefix(hash))) = (&self.index, *route) {
                    index.prefetch(hash);
                }
            }
            for route in &routes {
                if let (Some(index), Some(SearchPath::Prefix(hash))) = (&self.index, *route)
                    && let Ok(Listed::Row(offset)) = index.find(hash)
                {
                    prefetch(self.data.as_slice(), offset as usize);
                }
            }
            let first = group.saturating_mul(GROUP);
            for (at, (lookup, route)) in lookups.iter_mut().zip(&routes).enumerate() {
                let searched = match *route {
                    Some(route) => self.search_route(lookup, route),
                    None => Ok(()),
                };
                outcome(
                    first.saturating_add(at),
                    searched.map_err(|error| self.in_file(error)),
                );
            }
        }
    }
}

impl fmt::Debug for PlainTableReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlainTableReader")
            .field("file", &self.file)
            .field("format", &self.format)
            .finish_non_exhaustive()
    }
}

/// The number of lookups of a batch in progress together.
const GROUP: usize = 16;

/// How a lookup finds its key's rows: by key, by prefix, or by marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SearchPath {
    /// By filter of whole keys, with the key's hash; the index has one bucket.
    Key(u32),
    /// By filter and index of prefixes, with the prefix's hash.
    Prefix(u32),
    /// By marked rows: the key has no prefix, but the table has prefixes.
    Marks,
}

/// A row found by a search, and the decoding state after it.
pub(super) type Found<'d> = (Row<'d>, Base);

impl PlainTableReader {
    /// Returns the encoded rows of the table.
    #[inline]
    pub(super) fn rows(&self) -> Rows<'_> {
        Rows {
            data: self.data.as_slice(),
            format: self.format,
        }
    }

    /// Adds the path of the table file to an error.
    #[cold]
    pub(super) fn in_file(&self, error: Error) -> Error {
        error.in_file(self.file.path(), None, "read")
    }

    /// Implements [`PlainTableReader::search`]; its errors do not name the file.
    #[inline]
    fn search_rows(&self, lookup: &mut Lookup) -> Result<()> {
        let route = self.route(lookup.user_key());
        if let (Some(_), Some(index), SearchPath::Prefix(hash)) = (&self.bloom, &self.index, route)
        {
            // Filter and index are waited for together.
            index.prefetch(hash);
        }
        if !self.is_open_to(route) {
            return Ok(());
        }
        self.search_route(lookup, route)
    }

    /// Selects how a user key is searched, by the table's prefix extractor.
    #[inline]
    pub(super) fn route(&self, user_key: &[u8]) -> SearchPath {
        match &self.prefix_extractor {
            None => SearchPath::Key(self.bloom.as_ref().map_or(0, |_| hash(user_key))),
            Some(extractor) => match extractor.prefix(user_key) {
                Some(prefix) => SearchPath::Prefix(hash(prefix)),
                None => SearchPath::Marks,
            },
        }
    }

    /// Whether the Bloom filter admits the key or prefix to be searched.
    #[inline]
    pub(super) fn is_open_to(&self, route: SearchPath) -> bool {
        match route {
            SearchPath::Key(hash) | SearchPath::Prefix(hash) => self.bloom_admits(|| hash),
            SearchPath::Marks => true,
        }
    }

    /// Searches index and rows for a lookup that the filter admitted.
    #[inline]
    fn search_route(&self, lookup: &mut Lookup, route: SearchPath) -> Result<()> {
        let Some(index) = &self.index else {
            return Err(Error::invalid_argument(
                "Get() is not allowed in full scan mode.",
            ));
        };
        let target = lookup.seek_key();
        let found = match route {
            SearchPath::Key(_) => self.row_before(index, target)?,
            SearchPath::Prefix(hash) => {
                let wanted = self.prefix_extractor.as_ref().and_then(|extractor| {
                    let prefix = extractor.prefix(lookup.user_key())?;
                    Some((&**extractor, prefix))
                });
                self.listed_row(index, hash, target, wanted)?
            }
            SearchPath::Marks => self.marked_row(target)?,
        };
        match found {
            Some(found) => self.offer_rows(found, lookup),
            None => Ok(()),
        }
    }

    /// Whether the Bloom filter admits the hash; true without a filter.
    #[inline]
    pub(super) fn bloom_admits(&self, hash: impl FnOnce() -> u32) -> bool {
        self.bloom
            .as_ref()
            .is_none_or(|bloom| bloom.may_contain(hash()))
    }

    /// Finds a row listed for `hash` from which a scan reaches `target`; `None` if it is absent.
    ///
    /// With `wanted`, the row has this prefix, or the result is `None`.
    #[inline]
    pub(super) fn listed_row(
        &self,
        index: &RowIndex,
        hash: u32,
        target: &[u8],
        wanted: Option<(&dyn PrefixExtractor, &[u8])>,
    ) -> Result<Option<Found<'_>>> {
        let rows = self.rows();
        let has_prefix = |row: &Row<'_>| match wanted {
            None => true,
            Some((extractor, prefix)) => {
                extractor.prefix(row.user_key(&mut Vec::new())) == Some(prefix)
            }
        };
        match index.find(hash)? {
            Listed::None => Ok(None),
            Listed::Row(offset) => {
                let found = whole_row(rows, offset)?;
                // If the row has the key itself, its prefix need not be checked.
                let (user_key, _) = footer_of(target);
                let is_key = found.0.compare_user(&self.order, user_key).is_eq();
                Ok((is_key || has_prefix(&found.0)).then_some(found))
            }
            Listed::Rows(offsets) => {
                let (user_key, footer) = footer_of(target);
                let (mut low, mut high) = (0_usize, offsets.len());
                let row_at = |index: usize| {
                    let offset = offsets.get(index).copied().unwrap_or([0xff; 4]);
                    whole_row(rows, u32::from_le_bytes(offset))
                };
                // The row at `low` is before the target, or the first; the one at `high` is not
                // before it.
                while high.saturating_sub(low) > 1 {
                    let mid = low.midpoint(high);
                    let (row, _) = row_at(mid)?;
                    if row.compare(&self.order, user_key, footer).is_lt() {
                        low = mid;
                    } else {
                        high = mid;
                    }
                }
                let found = row_at(low)?;
                if has_prefix(&found.0) {
                    return Ok(Some(found));
                }
                // The row at `low` ends the preceding prefix; the target may still be the first of
                // its own.
                let next = low.saturating_add(1);
                if next >= offsets.len() {
                    return Ok(None);
                }
                let found = row_at(next)?;
                Ok(has_prefix(&found.0).then_some(found))
            }
        }
    }

    /// Finds a row from which a scan reaches the key `target`, in a table without prefix extractor.
    ///
    /// If the marks are built they replace the one bucket of the index: most of the search then
    /// compares numbers.
    #[inline]
    pub(super) fn row_before(&self, index: &RowIndex, target: &[u8]) -> Result<Option<Found<'_>>> {
        match self.marks.get() {
            Some(_) => self.marked_row(target),
            None => self.listed_row(index, 0, target, None),
        }
    }

    /// Finds a mark's row from which a scan reaches the key `target`; `None` without rows.
    pub(super) fn marked_row(&self, target: &[u8]) -> Result<Option<Found<'_>>> {
        let rows = self.rows();
        let (user_key, footer) = footer_of(target);
        let marks = self.marks()?;
        match marks.before_key(rows, &self.order, user_key, footer)? {
            Some(mut mark) => {
                let row = rows.row(mark.at, &mut mark.base)?;
                Ok(Some((row, mark.base)))
            }
            None => Ok(None),
        }
    }

    /// Scans from a found row, and offers all rows of the lookup's key to it.
    #[inline]
    fn offer_rows(&self, found: Found<'_>, lookup: &mut Lookup) -> Result<()> {
        let rows = self.rows();
        let (mut row, mut base) = found;
        loop {
            let order = row.compare_user(&self.order, lookup.user_key());
            if order.is_gt() {
                return Ok(());
            }
            if order.is_eq() && row.offer_to(lookup, |value| self.data.pin(value))? {
                return Ok(());
            }
            if row.next >= rows.end() {
                return Ok(());
            }
            row = rows.row(row.next, &mut base)?;
        }
    }

    /// Whether the table may contain a user key, by Bloom filter and hash index.
    ///
    /// # Errors
    /// `Corruption` if the index is damaged.
    pub fn may_contain(&self, user_key: &[u8]) -> Result<bool> {
        let Some(extractor) = &self.prefix_extractor else {
            return Ok(self.bloom_admits(|| hash(user_key)));
        };
        let Some(prefix) = extractor.prefix(user_key) else {
            return Ok(true);
        };
        let hash = hash(prefix);
        if !self.bloom_admits(|| hash) {
            return Ok(false);
        }
        match &self.index {
            Some(index) => Ok(index.find(hash)? != Listed::None),
            None => Ok(true),
        }
    }

    /// Returns every 16th row as starting points for searches; reads all rows on first use.
    pub(super) fn marks(&self) -> Result<&Marks> {
        if let Some(marks) = self.marks.get() {
            return Ok(marks);
        }
        let mut marks = Marks::default();
        self.survey(|mark, _| marks.add(mark))?;
        marks.finish(self.rows(), &self.order)?;
        Ok(self.marks.get_or_init(|| marks))
    }

    /// Decodes all rows and passes them to `visit`; checks their order, number and sizes.
    ///
    /// # Errors
    /// `Corruption` if a row is damaged, or the rows contradict the properties.
    pub(super) fn survey<'d>(&'d self, mut visit: impl FnMut(Mark, &Row<'d>)) -> Result<()> {
        let rows = self.rows();
        let mut place = Mark::FIRST;
        let (mut row_count, mut key_bytes, mut value_bytes) = (0_u64, 0_u64, 0_u64);
        let mut last: Option<Row<'_>> = None;
        let mut last_key = Vec::new();
        while place.at < rows.end() {
            let mark = place;
            let row = rows.row(mark.at, &mut place.base)?;
            if let Some(last) = &last {
                let last_footer = last.footer;
                let last_key = last.user_key(&mut last_key);
                if row.compare(&self.order, last_key, last_footer).is_lt() {
                    return Err(Error::corruption(format!(
                        "rows out of order for comparator {}: the one at {}",
                        self.order.name(),
                        mark.at
                    )));
                }
            }
            visit(mark, &row);
            place.at = row.next;
            row_count = row_count.saturating_add(1);
            key_bytes = key_bytes.saturating_add(row.key_len() as u64);
            value_bytes = value_bytes.saturating_add(row.value.len() as u64);
            last = Some(row);
        }
        let properties = &self.properties;
        let expected = (
            properties.entry_count,
            properties.raw_key_bytes,
            properties.raw_value_bytes,
        );
        if (row_count, key_bytes, value_bytes) != expected {
            return Err(Error::corruption(format!(
                "{row_count} rows with {key_bytes} bytes of keys and {value_bytes} of values, where the properties \
                 say {}, {} and {}",
                expected.0, expected.1, expected.2
            )));
        }
        Ok(())
    }

    /// The layout of the rows.
    #[must_use]
    pub fn format(&self) -> RowFormat {
        self.format
    }

    /// Returns the approximate row offset of the internal key `target`.
    ///
    /// # Errors
    /// `Corruption` if rows are damaged.
    pub fn approximate_offset(&self, target: &[u8]) -> Result<u64> {
        let (user_key, footer) = footer_of(target);
        let mark = self
            .marks()
            .and_then(|marks| marks.before_key(self.rows(), &self.order, user_key, footer));
        match mark {
            Ok(mark) => Ok(mark.map_or(0, |mark| u64::from(mark.at))),
            Err(error) => Err(self.in_file(error)),
        }
    }

    /// Verifies the checksums, if the table has any, and then validates all rows.
    ///
    /// Every row must be well-formed, the keys must ascend, and counts and sizes must be those of
    /// the properties.
    ///
    /// # Errors
    /// `Corruption` if something is inconsistent.
    pub fn verify_checksums(&self, progress: &mut dyn FnMut(u64)) -> Result<()> {
        const STEP: u32 = 1 << 20;
        if let Some(checksums) = &self.checksums {
            checksums
                .verify_file(&*self.file, progress)
                .map_err(|error| self.in_file(error))?;
            return self.survey(|_, _| ()).map_err(|error| self.in_file(error));
        }
        let mut told = 0;
        self.survey(|mark, _| {
            let passed = mark.at.saturating_sub(told);
            if passed >= STEP {
                progress(u64::from(passed));
                told = mark.at;
            }
        })
        .map_err(|error| self.in_file(error))?;
        progress(u64::from(self.rows().end().saturating_sub(told)));
        Ok(())
    }
}

/// Decodes the row at `offset`, whose key must be stored whole.
#[inline]
fn whole_row(rows: Rows<'_>, offset: u32) -> Result<Found<'_>> {
    let mut base = Base::NONE;
    let row = rows.row(offset, &mut base)?;
    Ok((row, base))
}
