//! A plain table neither mapped nor held in memory: point reads fetch pieces of it through the
//! block cache.
//!
//! This is a table read with direct I/O. It is read once at open; index, filter and marks stay in
//! memory, the rows do not. A piece is a block like others: the block cache keeps it, and its
//! checksum is verified when it is read, if the table has any. A lookup reads rows, from one that
//! index or marks find, in a window of adjacent pieces, which grows up to the declared end of a
//! row; a row longer than all were at open is corrupt. Scans, and checks of the whole table, load
//! the table first; so do lookups that would read rows backwards: of keys without a prefix, in a
//! table with prefixes. Point reads then use the loaded table.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use koeldb_base::key::footer_of;
use koeldb_base::prefix::PrefixExtractor;
use koeldb_base::{Error, Fault, Lookup, PinnedSlice, Result};
use koeldb_fs::RandomAccessFile;

use super::format::{Base, Encoding, Row, Rows, bad};
use super::hash_slots::RowIndex;
use super::index::Listed;
use super::reader::{PlainTableReader, SearchPath};
use crate::block::{BlockBytes, ValueRange};
use crate::format::{BlockHandle, Footer};
use crate::load_once::LoadOnce;
use crate::metaindex::Metaindex;
use crate::properties::TableProperties;
use crate::read_context::TableReadContext;
use crate::source::{BlockKind, BlockSource, CachedBlock, TableFile};
use crate::span_checksums::SpanChecksums;
use crate::whole_or_paged::{PagedTable, TableParts, WholeTable};

/// The size of a piece of a table without checksums.
const PIECE_BYTES: u64 = 4 << 10;

/// An open plain table that reads its rows through the block cache until a scan loads all of it.
pub struct PagedPlain {
    /// The open table without its rows.
    frame: PlainTableReader,
    piece_bytes: u64,
    /// The length of the longest row, or of all rows together if some are damaged.
    row_bytes_max: u64,
    /// The table file. Its blocks are pieces of the rows and end with them.
    file: Arc<TableFile>,
    footer: Footer,
    context: TableReadContext,
    /// The table in memory, once a scan has loaded it.
    whole: LoadOnce<Arc<PlainTableReader>>,
}

/// Adjacent cached pages of the rows, in which rows are decoded.
struct Window {
    /// The offset of the first piece.
    start: u64,
    pieces: Vec<Arc<CachedBlock>>,
    /// The concatenated bytes of the pieces, if there are several.
    joined: Vec<u8>,
}

impl Window {
    /// Returns the bytes of all pages of the window.
    fn bytes(&self) -> &[u8] {
        match self.pieces.as_slice() {
            [only] => only.bytes().as_slice(),
            _ => &self.joined,
        }
    }

    /// Returns the row offset after the last page of the window.
    fn end(&self) -> u64 {
        self.start.saturating_add(self.bytes().len() as u64)
    }

    /// Returns a range of the window as a pinned slice, which outlives the window.
    fn pin(&self, range: ValueRange) -> PinnedSlice {
        if let [only] = self.pieces.as_slice() {
            return only.bytes().pin(range);
        }
        let start = range.start as usize;
        let bytes = self
            .joined
            .get(start..start.saturating_add(range.len as usize));
        PinnedSlice::copy_of(bytes.unwrap_or_default())
    }
}

/// A row at which a search begins, with the cached pages that contain it.
struct WindowStart {
    window: Window,
    at: u64,
}

impl PagedPlain {
    /// Whether a plain table in this file is read through the block cache instead of loaded.
    pub(crate) fn is_for(file: &dyn RandomAccessFile, context: &TableReadContext) -> bool {
        file.mapped().is_none() && file.alignment() > 1 && !context.plain.full_scan
    }

    /// Opens a table with this footer.
    ///
    /// # Errors
    /// See `PlainTableReader::open`.
    pub(crate) fn open(
        file: Arc<dyn RandomAccessFile>,
        footer: Footer,
        context: &TableReadContext,
    ) -> Result<Self> {
        let mut frame = PlainTableReader::open(Arc::clone(&file), &footer, context)?;
        let row_bytes_max = longest_row(frame.rows());
        let rows = std::mem::replace(&mut frame.data, BlockBytes::from(Vec::new()));
        let spans = frame.checksums.clone();
        let piece_bytes = (spans.as_ref()).map_or(PIECE_BYTES, SpanChecksums::span_bytes);
        let table_file = TableFile {
            spans,
            ..TableFile::new(file, rows.len() as u64, footer.checksum, context)
        };
        Ok(PagedPlain {
            frame,
            piece_bytes: piece_bytes.max(1),
            row_bytes_max,
            file: Arc::new(table_file),
            footer,
            context: context.clone(),
            whole: LoadOnce::new(),
        })
    }

    /// The parts of the table that are always in memory: all but the rows.
    #[inline]
    pub(super) fn frame(&self) -> &PlainTableReader {
        &self.frame
    }

    /// Implements [`PagedPlain::search`]; its errors do not name the file.
    fn search_rows<S: BlockSource>(
        &self,
        lookup: &mut Lookup,
        source: &mut S,
    ) -> Result<(), Fault<S::Suspend>> {
        let frame = &self.frame;
        let route = frame.route(lookup.user_key());
        if !frame.is_open_to(route) {
            return Ok(());
        }
        let start = match (route, &frame.index, &frame.prefix_extractor) {
            (SearchPath::Key(_), Some(RowIndex::Marks), _)
                if frame.format.encoding == Encoding::Plain =>
            {
                self.marked(lookup.seek_key(), source)?
            }
            (SearchPath::Key(_), Some(index @ RowIndex::Stored(_)), _) => {
                self.listed(index, 0, lookup.seek_key(), None, source)?
            }
            (SearchPath::Prefix(hash), Some(index), Some(extractor)) => {
                let wanted = extractor.prefix(lookup.user_key());
                let wanted = wanted.map(|prefix| (&**extractor, prefix));
                self.listed(index, hash, lookup.seek_key(), wanted, source)?
            }
            _ => return Ok(self.whole()?.search(lookup)?),
        };
        match start {
            Some(start) => self.offer_rows(start, lookup, source),
            None => Ok(()),
        }
    }

    /// Returns the last mark's row at or before the internal key `target`; `None` without rows.
    fn marked<S: BlockSource>(
        &self,
        target: &[u8],
        source: &mut S,
    ) -> Result<Option<WindowStart>, Fault<S::Suspend>> {
        let (user_key, footer) = footer_of(target);
        let mark = self.frame.marks()?.before_key_by(user_key, |mark| {
            let at = u64::from(mark.at);
            let start = self.start(at, source)?;
            self.compare(start, user_key, footer, source)
        })?;
        match mark {
            Some(mark) => Ok(Some(self.start(u64::from(mark.at), source)?)),
            None => Ok(None),
        }
    }

    /// Finds a row listed for `hash` from which a scan reaches `target`; `None` if it is absent.
    ///
    /// With `wanted`, the row has this prefix, or the result is `None`.
    fn listed<S: BlockSource>(
        &self,
        index: &RowIndex,
        hash: u32,
        target: &[u8],
        wanted: Option<(&dyn PrefixExtractor, &[u8])>,
        source: &mut S,
    ) -> Result<Option<WindowStart>, Fault<S::Suspend>> {
        let offsets = match index.find(hash)? {
            Listed::None => return Ok(None),
            Listed::Row(offset) => return self.with_prefix(offset, wanted, source),
            Listed::Rows(offsets) => offsets,
        };
        let offset_at = |index: usize| {
            let offset = offsets.get(index).copied().unwrap_or([0xff; 4]);
            u32::from_le_bytes(offset)
        };
        let (user_key, footer) = footer_of(target);
        let (mut low, mut high) = (0_usize, offsets.len());
        // The row at `low` is before the target, or the first; the one at `high` is not before it.
        while high.saturating_sub(low) > 1 {
            let mid = low.midpoint(high);
            let start = self.start(u64::from(offset_at(mid)), source)?;
            if self.compare(start, user_key, footer, source)?.is_lt() {
                low = mid;
            } else {
                high = mid;
            }
        }
        let found = self.with_prefix(offset_at(low), wanted, source)?;
        let next = low.saturating_add(1);
        if found.is_some() || next >= offsets.len() {
            return Ok(found);
        }
        // The row at `low` ends the preceding prefix; the target may still be the first of its own.
        self.with_prefix(offset_at(next), wanted, source)
    }

    /// Returns the row at `offset`; `None` if it lacks the prefix in `wanted`, if given.
    fn with_prefix<S: BlockSource>(
        &self,
        offset: u32,
        wanted: Option<(&dyn PrefixExtractor, &[u8])>,
        source: &mut S,
    ) -> Result<Option<WindowStart>, Fault<S::Suspend>> {
        let mut start = self.start(u64::from(offset), source)?;
        let Some((extractor, prefix)) = wanted else {
            return Ok(Some(start));
        };
        let mut base = Base::NONE;
        let has_prefix = self.row(&mut start, &mut base, source, |_, row| {
            extractor.prefix(row.user_key(&mut Vec::new())) == Some(prefix)
        })?;
        Ok(has_prefix.then_some(start))
    }

    /// Compares the row at `start`, whose key is stored whole, with an internal key.
    fn compare<S: BlockSource>(
        &self,
        mut start: WindowStart,
        user_key: &[u8],
        footer: u64,
        source: &mut S,
    ) -> Result<Ordering, Fault<S::Suspend>> {
        let order = &self.frame.order;
        let mut base = Base::NONE;
        self.row(&mut start, &mut base, source, |_, row| {
            row.compare(order, user_key, footer)
        })
    }

    /// Scans from `start`, and offers all rows of the lookup's key to it.
    fn offer_rows<S: BlockSource>(
        &self,
        mut start: WindowStart,
        lookup: &mut Lookup,
        source: &mut S,
    ) -> Result<(), Fault<S::Suspend>> {
        let frame = &self.frame;
        let mut base = Base::NONE;
        loop {
            let next = self.row(&mut start, &mut base, source, |window, row| {
                let order = row.compare_user(&frame.order, lookup.user_key());
                let is_done = match order {
                    Ordering::Less => false,
                    Ordering::Equal => row.offer_to(lookup, |value| window.pin(value))?,
                    Ordering::Greater => true,
                };
                Ok::<_, Error>((!is_done).then_some(row.next))
            })??;
            let Some(next) = next else {
                return Ok(());
            };
            start.at = start.window.start.saturating_add(u64::from(next));
            if start.at >= self.file.blocks_end {
                return Ok(());
            }
            // If keys are stored whole, earlier pieces are not needed any more.
            if start.at >= start.window.end() && frame.format.encoding == Encoding::Plain {
                start = self.start(start.at, source)?;
            }
        }
    }

    /// Decodes the row at `start` and passes it to `read`; reads more pages if the row needs them.
    ///
    /// `base` is the state before the row, and is updated to the state after it.
    fn row<S: BlockSource, T>(
        &self,
        start: &mut WindowStart,
        base: &mut Base,
        source: &mut S,
        read: impl FnOnce(&Window, &Row<'_>) -> T,
    ) -> Result<T, Fault<S::Suspend>> {
        loop {
            let WindowStart { window, at } = &mut *start;
            let rows = Rows {
                data: window.bytes(),
                format: self.frame.format,
            };
            let within = u32::try_from(at.saturating_sub(window.start)).unwrap_or(u32::MAX);
            let left = self.file.blocks_end.saturating_sub(window.start);
            let end_max = left.min(u64::from(within).saturating_add(self.row_bytes_max));
            let mut behind = *base;
            let bad = match rows.row(within, &mut behind) {
                Ok(row) if u64::from(row.next) <= end_max => {
                    *base = behind;
                    return Ok(read(window, &row));
                }
                Ok(_) => bad("row exceeds the longest row recorded", within),
                Err(bad) => bad,
            };
            match bad.cut_off_before {
                Some(end) if end <= end_max => {
                    let wished = match self.frame.format.encoding {
                        Encoding::Plain => end,
                        // The window also serves later rows, so that not each waits for a separate
                        // read.
                        Encoding::Prefix => {
                            let twice = window.end().saturating_sub(window.start).saturating_mul(2);
                            end.max(twice).min(left)
                        }
                    };
                    match self.grow(window, wished, source) {
                        // Damage after the row does not concern it.
                        Err(Fault::Error(_)) if wished > end => self.grow(window, end, source)?,
                        grown => grown?,
                    }
                }
                _ => return Err(bad.behind(window.start).into()),
            }
        }
    }

    /// Reads the page that contains row offset `at`, as start of a window.
    fn start<S: BlockSource>(
        &self,
        at: u64,
        source: &mut S,
    ) -> Result<WindowStart, Fault<S::Suspend>> {
        let start = at.saturating_sub(at.checked_rem(self.piece_bytes).unwrap_or(0));
        let window = Window {
            start,
            pieces: vec![self.piece(start, source)?],
            joined: Vec::new(),
        };
        Ok(WindowStart { window, at })
    }

    /// Extends a window to offset `end` from its start; requests all missing pages together.
    fn grow<S: BlockSource>(
        &self,
        window: &mut Window,
        end: u64,
        source: &mut S,
    ) -> Result<(), Fault<S::Suspend>> {
        let end = window.start.saturating_add(end);
        let mut offset = window.end();
        let mut more = Vec::new();
        let mut wait = None;
        while offset < end {
            match self.piece(offset, source) {
                Ok(piece) => more.push(Some(piece)),
                Err(Fault::Suspend(for_this)) => {
                    wait = wait.or(Some(for_this));
                    more.push(None);
                }
                Err(error) => return Err(error),
            }
            offset = offset.saturating_add(self.piece_bytes);
        }
        if let Some(wait) = wait {
            return Err(Fault::Suspend(wait));
        }
        if let [only] = window.pieces.as_slice() {
            window.joined.extend_from_slice(only.bytes().as_slice());
        }
        for piece in more.into_iter().flatten() {
            window.joined.extend_from_slice(piece.bytes().as_slice());
            window.pieces.push(piece);
        }
        Ok(())
    }

    /// Returns the page of rows at offset `offset`, through the block cache.
    fn piece<S: BlockSource>(
        &self,
        offset: u64,
        source: &mut S,
    ) -> Result<Arc<CachedBlock>, Fault<S::Suspend>> {
        let left = self.file.blocks_end.saturating_sub(offset);
        if left == 0 {
            return Err(Error::corruption("row after the last one").into());
        }
        let size = self.piece_bytes.min(left);
        source.block(&self.file, BlockHandle { offset, size }, BlockKind::Span)
    }
}

/// Returns the length of the longest row; that of all rows if some are damaged.
fn longest_row(rows: Rows<'_>) -> u64 {
    let (mut at, mut base, mut longest) = (0, Base::NONE, 0);
    while at < rows.end() {
        match rows.row(at, &mut base) {
            Ok(row) => {
                longest = longest.max(row.next.saturating_sub(at));
                at = row.next;
            }
            Err(_) => return u64::from(rows.end()),
        }
    }
    u64::from(longest)
}

impl TableParts for PagedPlain {
    fn properties(&self) -> &TableProperties {
        self.frame.properties()
    }

    fn metaindex(&self) -> &Metaindex {
        self.frame.metaindex()
    }

    fn memory_bytes(&self) -> u64 {
        let whole = self.loaded().map_or(0, PlainTableReader::memory_bytes);
        self.frame.memory_bytes().saturating_add(whole)
    }
}

impl PagedTable for PagedPlain {
    type Whole = PlainTableReader;

    fn loaded(&self) -> Option<&PlainTableReader> {
        self.whole.get().map(|whole| &**whole)
    }

    fn whole(&self) -> Result<&Arc<PlainTableReader>> {
        self.whole.get_or_load(|| {
            let file = Arc::clone(&self.file.file);
            PlainTableReader::open(file, &self.footer, &self.context).map(Arc::new)
        })
    }

    fn search<S: BlockSource>(
        &self,
        lookup: &mut Lookup,
        source: &mut S,
    ) -> Result<(), Fault<S::Suspend>> {
        self.search_rows(lookup, source)
            .map_err(|fault| match fault {
                Fault::Error(error) => Fault::Error(self.frame.in_file(error)),
                Fault::Suspend(wait) => Fault::Suspend(wait),
            })
    }
}

impl fmt::Debug for PagedPlain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PagedPlain")
            .field("frame", &self.frame)
            .finish_non_exhaustive()
    }
}
