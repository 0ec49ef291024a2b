//! Opens a cuckoo table: footer, metaindex, properties, layout, and the hash variant of the file.
//!
//! RocksDB's format has no checksums; tables written by KoelDB have their own. The properties of a
//! table are compared with each other, with the file, and with a sample of the slots, so that an
//! inconsistent table is refused and never read out of bounds.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::sync::{Arc, Mutex, OnceLock};

use koeldb_base::coding::to_usize;
use koeldb_base::{Error, Result};
use koeldb_fs::RandomAccessFile;

use super::format::CuckooLayout;
use super::hash::{HashFamily, SlotHash};
use super::reader::CuckooReader;
use super::slots::Slots;
use super::versions::ENTRIES_BYTES_MAX;
use super::windows::WindowKind;
use super::word::WordSearch;
use crate::block::{Block, BlockBytes};
use crate::file_read::read_bytes;
use crate::format::{BlockHandle, Footer, TableKind};
use crate::metaindex::{self, Metaindex, named_entries};
use crate::properties::TableProperties;
use crate::read_context::TableReadContext;
use crate::span_checksums::SpanChecksums;

/// The largest metaindex or properties block accepted.
const META_BYTES_MAX: u64 = 16 << 20;

/// The number of occupied slots whose position is checked.
const SAMPLES: u64 = 64;

/// The metadata of a cuckoo table: layout, properties, metaindex and span checksums.
pub(super) struct Shape {
    pub(super) layout: CuckooLayout,
    pub(super) properties: TableProperties,
    pub(super) metaindex: Metaindex,
    pub(super) checksums: Option<SpanChecksums>,
}

impl Shape {
    /// Reads metaindex, properties and span checksums of a table with this footer.
    ///
    /// # Errors
    /// See [`CuckooReader::open`].
    pub(super) fn read(
        file: &dyn RandomAccessFile,
        footer: &Footer,
        context: &TableReadContext,
    ) -> Result<Self> {
        let blocks_end = file.len().saturating_sub(footer.bytes() as u64);
        let metaindex = Metaindex::parse(&read_block(file, footer.metaindex, blocks_end)?)?;
        let handle = metaindex
            .get(metaindex::PROPERTIES)
            .ok_or_else(|| Error::corruption("the table has no properties block"))?;
        let entries = named_entries(&read_block(file, handle, blocks_end)?)?;
        let properties = TableProperties::decode(
            entries
                .iter()
                .map(|(name, value)| (name.as_slice(), value.as_slice())),
        )?;
        context.check_unique_id(&properties)?;
        let has_versions = footer.kind == TableKind::CuckooVersions;
        let layout = CuckooLayout::decode(&properties, handle.offset, has_versions)?;
        let checksums = SpanChecksums::read(file, &metaindex, &properties, blocks_end)?;
        if let Some(checksums) = &checksums {
            checksums.verify_rest(file)?;
        }
        Ok(Shape {
            layout,
            properties,
            metaindex,
            checksums,
        })
    }
}

impl CuckooReader {
    /// Opens a table with this footer.
    ///
    /// # Errors
    /// `Corruption` if the file is damaged or not the expected one; `NotSupported` beyond the
    /// limits of this implementation; otherwise the errors of the system.
    pub(crate) fn open(
        file: Arc<dyn RandomAccessFile>,
        footer: &Footer,
        context: &TableReadContext,
    ) -> Result<Self> {
        let path = file.path().to_owned();
        Self::open_unnamed(file, footer, context)
            .map_err(|error| error.in_file(&path, None, "open"))
    }

    /// Implements [`CuckooReader::open`]; its errors do not name the file.
    fn open_unnamed(
        file: Arc<dyn RandomAccessFile>,
        footer: &Footer,
        context: &TableReadContext,
    ) -> Result<Self> {
        let Shape {
            layout,
            properties,
            metaindex,
            checksums,
        } = Shape::read(&*file, footer, context)?;
        let piece_bytes = match layout.heap_bytes {
            Some(_) => layout.window_bytes().max(ENTRIES_BYTES_MAX),
            None => layout.window_bytes(),
        };
        let slots = Slots::load(&*file, layout.data_bytes(), piece_bytes, context.cuckoo)?;
        // A mapped file is not read entirely now: `verify_checksums` does that.
        if let Some(checksums) = &checksums
            && !slots.is_mapped()
        {
            checksums.verify_data(|start, len| slots.bytes(start, len))?;
        }
        let mut reader = CuckooReader {
            hash: SlotHash::new(
                HashFamily::default(),
                layout.identity_first,
                true,
                layout.table_size.max(1),
            ),
            words: None,
            kind: WindowKind::Any,
            order: context.order.clone(),
            slot_bytes: layout.slot_bytes(),
            window_bytes: layout.window_bytes(),
            layout,
            slots,
            sorted: OnceLock::new(),
            sorting: Mutex::new(()),
            properties,
            metaindex,
            checksums,
            path: file.path().to_owned(),
            file,
        };
        if reader.layout.slot_count > 0 {
            reader.recognise_hash()?;
        }
        Ok(reader)
    }

    /// Detects the Murmur hash variant of the file, by which sample keys are in the right slots.
    fn recognise_hash(&mut self) -> Result<()> {
        let samples = self.sample_slots();
        if samples.is_empty() {
            return Err(Error::corruption(
                "cuckoo table: entries are recorded, but all slots are empty",
            ));
        }
        for family in [HashFamily::Murmur64A, HashFamily::Neutral2] {
            let layout = &self.layout;
            self.hash = SlotHash::new(
                family,
                layout.identity_first,
                layout.use_module,
                layout.table_size,
            );
            if samples.iter().all(|&slot| self.function_of(slot).is_some()) {
                self.words = WordSearch::new(&self.layout, family);
                self.kind = WindowKind::of(&self.layout, self.words.as_ref());
                return Ok(());
            }
        }
        Err(Error::corruption(
            "cuckoo table: keys are in slots that no hash function yields",
        ))
    }

    /// Returns up to [`SAMPLES`] occupied slots, spread over the table.
    fn sample_slots(&self) -> Vec<u32> {
        let count = self.layout.slot_count;
        let step = u64::from(count).div_ceil(SAMPLES).max(1);
        (0..count)
            .step_by(to_usize(step))
            .filter_map(|from| {
                let to = u64::from(from).saturating_add(step);
                let to = u32::try_from(to).unwrap_or(count).min(count);
                (from..to).find(|&slot| self.is_occupied(slot))
            })
            .collect()
    }
}

/// Reads a metadata block of a cuckoo table, which has no trailer.
fn read_block(file: &dyn RandomAccessFile, handle: BlockHandle, blocks_end: u64) -> Result<Block> {
    let end = handle.offset.checked_add(handle.size);
    if handle.size > META_BYTES_MAX || end.is_none_or(|end| end > blocks_end) {
        return Err(Error::corruption(format!(
            "cuckoo table: block of {} bytes at {} exceeds the end of the blocks at {blocks_end}",
            handle.size, handle.offset
        )));
    }
    let bytes = read_bytes(file, handle.offset, to_usize(handle.size))?;
    Block::parse(BlockBytes::from(bytes))
}
