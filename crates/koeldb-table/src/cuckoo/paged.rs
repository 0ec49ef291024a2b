//! A cuckoo table neither mapped nor held in memory: point reads fetch pieces of it through the
//! block cache.
//!
//! This is a table read with direct I/O. A piece is a block like others: the block cache keeps it,
//! and its checksum is verified when it is read, if the table has any. A lookup whose first window
//! is missing requests the pieces of all its windows, so that it waits for the device once. Scans,
//! and checks of the whole table, load the table first; point reads then use it too.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use koeldb_base::coding::to_usize;
use koeldb_base::key::{FOOTER_BYTES, ValueType};
use koeldb_base::{Error, Fault, Lookup, PinnedSlice, Result};
use koeldb_fs::RandomAccessFile;

use super::format::CuckooLayout;
use super::hash::{HashFamily, SlotHash};
use super::open::Shape;
use super::reader::CuckooReader;
use super::residency::{EffectiveResidency, Resident};
use super::windows::Found;
use crate::block::ValueRange;
use crate::file_read::read_bytes;
use crate::format::{BlockHandle, Footer};
use crate::load_once::LoadOnce;
use crate::metaindex::Metaindex;
use crate::properties::TableProperties;
use crate::read_context::TableReadContext;
use crate::source::{BlockKind, BlockSource, CachedBlock, TableFile};
use crate::whole_or_paged::{PagedTable, TableParts};

/// The size of a piece of a table without checksums.
const PIECE_BYTES: u64 = 4 << 10;

/// The number of positions sampled to detect the hash variant, and of bytes read at each.
const SAMPLES: u32 = 16;
const SAMPLE_BYTES: u64 = 4 << 10;

/// An open cuckoo table that reads its file through the block cache until a scan loads all of it.
pub struct PagedCuckoo {
    layout: CuckooLayout,
    hash: SlotHash,
    slot_bytes: u64,
    piece_bytes: u64,
    properties: TableProperties,
    metaindex: Metaindex,
    file: Arc<TableFile>,
    footer: Footer,
    context: TableReadContext,
    /// The table in memory, once a scan has loaded it.
    whole: LoadOnce<Arc<CuckooReader>>,
}

/// The footer, type and value of an entry.
type FoundEntry = (u64, ValueType, PinnedSlice);

impl PagedCuckoo {
    /// Opens a table with this footer.
    ///
    /// # Errors
    /// `Corruption` if the file is damaged or not the expected one; `NotSupported` beyond the
    /// limits of this implementation; otherwise the errors of the system.
    pub(crate) fn open(
        file: Arc<dyn RandomAccessFile>,
        footer: Footer,
        context: &TableReadContext,
    ) -> Result<Self> {
        let path = file.path().to_owned();
        Self::open_unnamed(file, footer, context)
            .map_err(|error| error.in_file(&path, None, "open"))
    }

    /// Implements [`PagedCuckoo::open`]; its errors do not name the file.
    fn open_unnamed(
        file: Arc<dyn RandomAccessFile>,
        footer: Footer,
        context: &TableReadContext,
    ) -> Result<Self> {
        let Shape {
            layout,
            properties,
            metaindex,
            checksums,
        } = Shape::read(&*file, &footer, context)?;
        let table_file = TableFile {
            spans: checksums,
            ..TableFile::new(file, layout.data_bytes(), footer.checksum, context)
        };
        let spans = table_file.spans.as_ref();
        let mut table = PagedCuckoo {
            hash: SlotHash::new(HashFamily::default(), layout.identity_first, true, 1),
            slot_bytes: layout.slot_bytes() as u64,
            piece_bytes: spans.map_or(PIECE_BYTES, |spans| spans.span_bytes()),
            layout,
            properties,
            metaindex,
            file: Arc::new(table_file),
            footer,
            context: context.clone(),
            whole: LoadOnce::new(),
        };
        if table.layout.slot_count > 0 {
            table.hash = table.recognise_hash()?;
        }
        Ok(table)
    }

    /// Detects the Murmur hash variant of the file, by which sample keys are in the right slots.
    fn recognise_hash(&self) -> Result<SlotHash> {
        let samples = self.samples()?;
        let layout = &self.layout;
        let families = [HashFamily::Murmur64A, HashFamily::Neutral2].map(|family| {
            SlotHash::new(
                family,
                layout.identity_first,
                layout.use_module,
                layout.table_size,
            )
        });
        let fits = |hash: &SlotHash| {
            samples.iter().all(|(slot, key)| {
                (0..layout.function_count).any(|function| {
                    let behind = slot.checked_sub(hash.slot(function, key));
                    behind.is_some_and(|behind| behind < u64::from(layout.window_slots))
                })
            })
        };
        match families.into_iter().find(fits) {
            Some(hash) if !samples.is_empty() => Ok(hash),
            // If keys are few, or none is in the right slot, the whole table decides.
            _ => Ok(self.whole()?.hash),
        }
    }

    /// Reads some occupied slots, spread over the table; returns slot numbers and user keys.
    fn samples(&self) -> Result<Vec<(u64, Vec<u8>)>> {
        let slots = u64::from(self.layout.slot_count);
        let step = slots.div_ceil(u64::from(SAMPLES)).max(1);
        let together = SAMPLE_BYTES
            .checked_div(self.slot_bytes)
            .unwrap_or(1)
            .max(1);
        let mut samples = Vec::new();
        for first in (0..slots).step_by(to_usize(step)) {
            let count = together.min(slots.saturating_sub(first));
            let bytes = count.saturating_mul(self.slot_bytes);
            let offset = first.saturating_mul(self.slot_bytes);
            let read = read_bytes(&*self.file.file, offset, to_usize(bytes))?;
            let keys = read
                .chunks_exact(to_usize(self.slot_bytes).max(1))
                .map(|slot| self.user_key_in(slot));
            samples.extend(
                (first..)
                    .zip(keys)
                    .find(|(_, key)| *key != self.layout.empty_user_key)
                    .map(|(slot, key)| (slot, key.to_vec())),
            );
        }
        Ok(samples)
    }

    /// Returns the user key of a slot.
    fn user_key_in<'s>(&self, slot: &'s [u8]) -> &'s [u8] {
        slot.get(..self.layout.user_key_bytes as usize)
            .unwrap_or_default()
    }

    /// The layout of the slots.
    #[must_use]
    pub fn layout(&self) -> &CuckooLayout {
        &self.layout
    }

    /// Searches the key's cuckoo block of hash function number `function` for the key.
    fn look<S: BlockSource>(
        &self,
        function: u32,
        key: &[u8],
        source: &mut S,
    ) -> Result<Found<FoundEntry>, Fault<S::Suspend>> {
        let start = self
            .hash
            .slot(function, key)
            .saturating_mul(self.slot_bytes);
        let end = start.saturating_add(self.layout.window_bytes() as u64);
        let pieces = self.pieces(start, end, source)?;
        let mut at = start;
        while at < end {
            let slot = pieces.bytes(at, self.slot_bytes);
            let found = self.user_key_in(&slot);
            if found == key {
                let (footer, value_type) = self.footer_of(&slot)?;
                let from = u64::from(self.layout.key_bytes);
                let value = pieces.pin(at.saturating_add(from), u64::from(self.layout.value_bytes));
                return Ok(Found::Here((footer, value_type, value)));
            }
            if found == self.layout.empty_user_key {
                return Ok(Found::Absent);
            }
            at = at.saturating_add(self.slot_bytes.max(1));
        }
        Ok(Found::NotYet)
    }

    /// Returns the cached pages of the file that contain the bytes from `start` to `end`.
    ///
    /// If some are not cached, all are requested together.
    fn pieces<S: BlockSource>(
        &self,
        start: u64,
        end: u64,
        source: &mut S,
    ) -> Result<Pieces, Fault<S::Suspend>> {
        let first = start.saturating_sub(start.checked_rem(self.piece_bytes).unwrap_or(0));
        let mut blocks = Vec::with_capacity(1);
        let mut wait = None;
        let mut offset = first;
        while offset < end {
            let left = self.file.blocks_end.saturating_sub(offset);
            let size = self.piece_bytes.min(left);
            match source.block(&self.file, BlockHandle { offset, size }, BlockKind::Span) {
                Ok(block) => blocks.push(block),
                Err(Fault::Suspend(for_this)) => wait = wait.or(Some(for_this)),
                Err(error) => return Err(error),
            }
            offset = offset.saturating_add(self.piece_bytes.max(1));
        }
        match wait {
            Some(wait) => Err(Fault::Suspend(wait)),
            None => Ok(Pieces {
                blocks,
                first,
                piece_bytes: self.piece_bytes,
            }),
        }
    }

    /// Returns the packed sequence number and type, and the type, of the entry in a slot.
    fn footer_of(&self, slot: &[u8]) -> Result<(u64, ValueType)> {
        if self.layout.is_last_level {
            return Ok((ValueType::Value as u64, ValueType::Value));
        }
        let footer = slot
            .get(self.layout.user_key_bytes as usize..)
            .and_then(|rest| rest.first_chunk::<FOOTER_BYTES>())
            .copied()
            .unwrap_or_default();
        let [type_byte, ..] = footer;
        let value_type = ValueType::from_byte(type_byte).ok_or_else(|| {
            Error::corruption(format!(
                "corrupted key: entry of unknown type {type_byte:#04x}"
            ))
            .in_file(self.file.file.path(), None, "read")
        })?;
        Ok((u64::from_le_bytes(footer), value_type))
    }

    /// Returns where the table is held: in its file, or in memory once it is loaded.
    pub(crate) fn resident(&self) -> Resident {
        match self.loaded() {
            Some(whole) => whole.resident(),
            None => Resident {
                place: EffectiveResidency::Paged,
                address: None,
                bytes: self.layout.data_bytes(),
            },
        }
    }
}

/// Adjacent cached pages of a table file.
struct Pieces {
    blocks: Vec<Arc<CachedBlock>>,
    /// The offset of the first piece.
    first: u64,
    piece_bytes: u64,
}

impl Pieces {
    /// Returns the page that contains file offset `at`, and the position within it.
    fn place(&self, at: u64) -> Option<(&CachedBlock, usize)> {
        let behind = at.saturating_sub(self.first);
        let index = to_usize(behind.checked_div(self.piece_bytes)?);
        let within = to_usize(behind.checked_rem(self.piece_bytes)?);
        Some((self.blocks.get(index)?, within))
    }

    /// Returns the `len` bytes at file offset `at`, copied if they span pages; fewer past the end.
    fn bytes(&self, at: u64, len: u64) -> Cow<'_, [u8]> {
        let len = to_usize(len);
        let Some((block, within)) = self.place(at) else {
            return Cow::Borrowed(&[]);
        };
        let rest = block.bytes().as_slice().get(within..).unwrap_or_default();
        if let Some(whole) = rest.get(..len) {
            return Cow::Borrowed(whole);
        }
        let mut joined = rest.to_vec();
        while joined.len() < len {
            let next = at.saturating_add(joined.len() as u64);
            let Some((block, within)) = self.place(next) else {
                break;
            };
            let more = block.bytes().as_slice().get(within..).unwrap_or_default();
            let more = more.get(..len.saturating_sub(joined.len())).unwrap_or(more);
            if more.is_empty() {
                break;
            }
            joined.extend_from_slice(more);
        }
        Cow::Owned(joined)
    }

    /// Returns the `len` bytes at file offset `at` as a pinned slice, which outlives the pages.
    fn pin(&self, at: u64, len: u64) -> PinnedSlice {
        if let Some((block, within)) = self.place(at)
            && let (Ok(start), Ok(len)) = (u32::try_from(within), u32::try_from(len))
            && within.saturating_add(len as usize) <= block.bytes().len()
        {
            return block.bytes().pin(ValueRange { start, len });
        }
        PinnedSlice::copy_of(&self.bytes(at, len))
    }
}

impl TableParts for PagedCuckoo {
    fn properties(&self) -> &TableProperties {
        &self.properties
    }

    fn metaindex(&self) -> &Metaindex {
        &self.metaindex
    }

    fn memory_bytes(&self) -> u64 {
        self.loaded().map_or(0, CuckooReader::memory_bytes)
    }
}

impl PagedTable for PagedCuckoo {
    type Whole = CuckooReader;

    fn loaded(&self) -> Option<&CuckooReader> {
        self.whole.get().map(|whole| &**whole)
    }

    fn whole(&self) -> Result<&Arc<CuckooReader>> {
        self.whole.get_or_load(|| {
            let file = Arc::clone(&self.file.file);
            CuckooReader::open(file, &self.footer, &self.context).map(Arc::new)
        })
    }

    fn search<S: BlockSource>(
        &self,
        lookup: &mut Lookup,
        source: &mut S,
    ) -> Result<(), Fault<S::Suspend>> {
        let key = lookup.user_key();
        let is_admitted = key.len() == self.layout.user_key_bytes as usize
            && self.layout.slot_count != 0
            && key != self.layout.empty_user_key;
        if !is_admitted {
            return Ok(());
        }
        for function in 0..self.layout.function_count {
            match self.look(function, key, source) {
                Ok(Found::Here((footer, value_type, value))) => {
                    if footer >> 8 <= lookup.snapshot() {
                        lookup.offer(footer >> 8, value_type, || value)?;
                    }
                    return Ok(());
                }
                Ok(Found::Absent) => return Ok(()),
                Ok(Found::NotYet) => {}
                Err(Fault::Suspend(wait)) => {
                    // The search may have to continue in the other windows: all are read together.
                    for later in function.saturating_add(1)..self.layout.function_count {
                        let _ = self.look(later, key, source);
                    }
                    return Err(Fault::Suspend(wait));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl fmt::Debug for PagedCuckoo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PagedCuckoo")
            .field("file", &self.file.file.path())
            .field("layout", &self.layout)
            .finish_non_exhaustive()
    }
}
