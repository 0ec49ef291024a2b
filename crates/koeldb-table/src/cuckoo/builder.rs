//! Builds a cuckoo table, or a block-based table as fallback.
//!
//! All entries are buffered until the end (`crate::fallback`), because only then is the size of the
//! table known. If versions are to be kept, the first entry that cannot have a slot because of its
//! length, type or age makes it a table with versions (`versions`).

use std::collections::BTreeMap;

use koeldb_base::checksum::ChecksumKind;
use koeldb_base::coding::to_u32;
use koeldb_base::range_del::RangeTombstone;
use koeldb_base::{Error, KeyOrder, Result};
use koeldb_fs::WritableFile;

use super::format::{CuckooLayout, WINDOW_SLOTS_MAX};
use super::hash::{HashFamily, SlotHash};
use super::placement::{EMPTY, Placed, place};
use super::records::{FILLER, FallbackReason, Possible, Records, SlotEntries};
use super::versions::VersionedRecords;
use crate::block_builder::BlockBuilder;
pub use crate::build_context::CuckooWriteOptions;
use crate::build_context::{FinishedTable, TableBuildContext};
use crate::fallback::{BufferedEntries, BuildState, failed};
use crate::format::{BlockHandle, ChecksumContext, Footer, TableKind};
use crate::metaindex;
use crate::properties::TableProperties;
use crate::span_checksums::{self, SpanSums};

/// The limit of the bytes of all slots: RocksDB's scans count them in 32 bits.
const DATA_BYTES_MAX: u64 = (1 << 32) - 1;

/// The number of bytes of slots written to the file together: a huge page, for mapped files.
const PIECE_BYTES: usize = 2 << 20;

/// The number of entries prefetched ahead of writing.
const FETCH_AHEAD: usize = 16;

impl CuckooWriteOptions {
    /// Checks that the options are in range; otherwise returns `InvalidArgument`.
    fn check(&self) -> Result<()> {
        let ratio = self.hash_table_ratio;
        if !(ratio > 0.0 && ratio <= 1.0) {
            return Err(Error::invalid_argument(format!(
                "hash_table_ratio={ratio}: must be above 0 and at most 1"
            )));
        }
        if !(1..=WINDOW_SLOTS_MAX).contains(&self.window_slots) {
            return Err(Error::invalid_argument(format!(
                "cuckoo_block_size={}: must be 1 to {WINDOW_SLOTS_MAX}",
                self.window_slots
            )));
        }
        Ok(())
    }

    /// The number of slots needed for this many entries at the target load factor.
    fn wanted_slots(&self, entries: u64) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "fewer than 2^32 entries")]
        let entries = entries as f64;
        entries / self.hash_table_ratio
    }
}

/// The size of a cuckoo hash table in slots, which grows with the number of entries.
#[derive(Clone, Copy, Debug)]
struct TableSize {
    /// The size, if the size must be a power of two.
    power: u64,
}

impl TableSize {
    /// The range before the first entry.
    const SMALLEST: Self = TableSize { power: 2 };

    /// Doubles a power-of-two size if `entries` need more slots.
    #[inline]
    fn grow(&mut self, options: &CuckooWriteOptions, entries: u64) {
        if self.is_exceeded(options, entries) {
            self.power *= 2;
        }
    }

    /// Whether `entries` need more slots than a power-of-two size has; false with `use_module`.
    #[inline]
    fn is_exceeded(self, options: &CuckooWriteOptions, entries: u64) -> bool {
        #[expect(clippy::cast_precision_loss, reason = "a power of two")]
        let power = self.power as f64;
        !options.use_module && power < options.wanted_slots(entries)
    }

    /// Returns the size of the hash table in slots, without the extra slots of the last window.
    fn get(self, options: &CuckooWriteOptions, entries: u64) -> u64 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "as RocksDB computes it: a positive number, cut off"
        )]
        if options.use_module {
            options.wanted_slots(entries) as u64
        } else {
            self.power
        }
    }
}

/// A builder of cuckoo tables, which buffers all entries until it is finished.
#[derive(Debug)]
pub struct CuckooTableBuilder {
    context: Box<TableBuildContext>,
    options: CuckooWriteOptions,
    state: BuildState<Collected>,
    tombstones: Vec<RangeTombstone>,
}

/// The buffered entries, and the size of the hash table for them.
#[derive(Debug)]
struct Collected {
    entries: EntryBuffer,
    table_size: TableSize,
}

impl BufferedEntries for Collected {
    type FallbackReason = FallbackReason;

    fn replay(&self, order: &KeyOrder, take: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
        match &self.entries {
            EntryBuffer::Fixed(records) => records.replay(order, take),
            EntryBuffer::Versioned(records) => records.replay(take),
        }
    }

    fn entry_count(&self) -> u64 {
        self.entries.slots().totals().entries
    }
}

/// The buffered entries of a cuckoo table: one slot per entry, or one per key with its versions.
#[derive(Debug)]
enum EntryBuffer {
    /// One slot per entry.
    Fixed(Records),
    /// One slot per key, whose entries are stored after the slots.
    Versioned(VersionedRecords),
}

impl EntryBuffer {
    /// Returns the buffered entries by the slots they will occupy.
    fn slots(&self) -> &dyn SlotEntries {
        match self {
            EntryBuffer::Fixed(records) => records,
            EntryBuffer::Versioned(records) => records,
        }
    }

    /// The number of occupied slots.
    fn count(&self) -> u64 {
        u64::from(self.slots().count())
    }

    /// Returns the size of the area after the slots that stores versions; 0 if there is none.
    fn heap_bytes(&self) -> u64 {
        self.slots().heap().map_or(0, |heap| heap.len() as u64)
    }

    /// Adds an entry; returns the reason for falling back if it does not fit the format.
    fn add(&mut self, order: &KeyOrder, key: &[u8], value: &[u8]) -> Result<Possible<()>> {
        match self {
            EntryBuffer::Fixed(records) => records.add(order, key, value),
            EntryBuffer::Versioned(records) => records.add(order, key, value),
        }
    }

    /// Assigns the entries to slots; returns the reason for falling back if that fails.
    fn prepare(&self, table_size: u64, options: &CuckooWriteOptions) -> Possible<Prepared> {
        match self {
            EntryBuffer::Fixed(records) => prepare(records, table_size, options),
            EntryBuffer::Versioned(records) => prepare(records, table_size, options),
        }
    }
}

impl CuckooTableBuilder {
    /// Begins a table in an empty file.
    ///
    /// # Errors
    /// `InvalidArgument` if an option is out of range.
    pub fn create(
        file: Box<dyn WritableFile>,
        options: &CuckooWriteOptions,
        context: &TableBuildContext,
    ) -> Result<Self> {
        options.check()?;
        let mut builder = CuckooTableBuilder {
            context: Box::new(context.clone()),
            options: options.clone(),
            state: BuildState::Collecting {
                file,
                buffered: Box::new(Collected {
                    entries: EntryBuffer::Fixed(Records::default()),
                    table_size: TableSize::SMALLEST,
                }),
            },
            tombstones: Vec::new(),
        };
        if let KeyOrder::Custom(comparator) = &context.order {
            let name = comparator.name().to_owned();
            builder.fall_back(FallbackReason::Order(name))?;
        }
        Ok(builder)
    }

    /// Appends an entry in key order; falls back to a block-based table if it does not fit.
    ///
    /// # Errors
    /// `Corruption` if the key is malformed or not after the last one; the errors of the file
    /// system.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        match &mut self.state {
            BuildState::FellBack { builder, .. } => builder.add(key, value),
            BuildState::Failed => Err(failed()),
            BuildState::Collecting { buffered, .. } => {
                let Collected {
                    entries,
                    table_size,
                } = &mut **buffered;
                if let Err(reason) = entries.add(&self.context.order, key, value)? {
                    if !self.keep_versions(&reason)? {
                        self.fall_back(reason)?;
                    }
                    return self.add(key, value);
                }
                let count = entries.count();
                table_size.grow(&self.options, count);
                let bytes = table_size.get(&self.options, count) * slot_bytes(entries.slots())
                    + entries.heap_bytes();
                let user_key_bytes = entries.slots().user_keys().bytes();
                if self.options.identity_first && user_key_bytes < 8 {
                    return self.fall_back(FallbackReason::ShortKey(user_key_bytes));
                }
                if bytes >= DATA_BYTES_MAX {
                    return self.fall_back(FallbackReason::TooLarge);
                }
                Ok(())
            }
        }
    }

    /// Converts to one slot per key with all versions, if allowed; returns whether it did.
    fn keep_versions(&mut self, why: &FallbackReason) -> Result<bool> {
        let BuildState::Collecting { buffered, .. } = &mut self.state else {
            return Ok(false);
        };
        let EntryBuffer::Fixed(records) = &buffered.entries else {
            return Ok(false);
        };
        if !self.options.keep_versions || !why.is_lifted_by_versions() {
            return Ok(false);
        }
        let order = &self.context.order;
        let mut versioned = VersionedRecords::default();
        let mut has_place = true;
        records.replay(order, |key, value| {
            has_place &= versioned.add(order, key, value)?.is_ok();
            Ok(())
        })?;
        if has_place {
            buffered.entries = EntryBuffer::Versioned(versioned);
        }
        Ok(has_place)
    }

    /// Falls back to a block-based table, which first gets the buffered entries.
    fn fall_back(&mut self, why: FallbackReason) -> Result<()> {
        self.state.fall_back(why, &self.context)
    }

    /// Records a property that is known only after some or all entries.
    pub fn set_property(&mut self, name: &str, value: Vec<u8>) {
        match &mut self.state {
            BuildState::FellBack { builder, .. } => builder.set_property(name, value),
            BuildState::Collecting { .. } => {
                self.context.user_properties.insert(name.into(), value);
            }
            BuildState::Failed => {}
        }
    }

    /// Adds a range tombstone, which makes the table block-based when it is finished.
    pub fn add_tombstone(&mut self, tombstone: &RangeTombstone) {
        self.tombstones.push(tombstone.clone());
    }

    /// The file size so far, or after one more entry if that would double the hash table.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        match &self.state {
            BuildState::FellBack { builder, .. } => builder.file_bytes(),
            BuildState::Failed => 0,
            BuildState::Collecting { buffered, .. } if buffered.entries.count() == 0 => 0,
            BuildState::Collecting { buffered, .. } => {
                let Collected {
                    entries,
                    table_size,
                } = &**buffered;
                let options = &self.options;
                let count = entries.count();
                // A table of a power of two doubles in one step: a job that waits until it is full
                // must not go on for as long again.
                let bytes = table_size.get(options, count) * slot_bytes(entries.slots());
                let slots_bytes = match (
                    options.use_module,
                    table_size.is_exceeded(options, count + 1),
                ) {
                    (true, _) => bytes,
                    (false, false) => bytes - 1,
                    (false, true) => 2 * bytes - 1,
                };
                slots_bytes + entries.heap_bytes()
            }
        }
    }

    /// The number of entries so far, including tombstones.
    #[must_use]
    pub fn entry_count(&self) -> u64 {
        self.state.entry_count() + self.tombstones.len() as u64
    }

    /// Assigns entries to slots and writes the file, or falls back to a block-based table.
    ///
    /// # Errors
    /// The errors of the file system.
    pub fn finish(mut self) -> Result<FinishedTable> {
        if !self.tombstones.is_empty() {
            self.fall_back(FallbackReason::RangeDeletion)?;
        }
        if let BuildState::Collecting { buffered, .. } = &self.state {
            let Collected {
                entries,
                table_size,
            } = &**buffered;
            let table_size = table_size.get(&self.options, entries.count());
            match entries.prepare(table_size, &self.options) {
                Ok(prepared) => return self.write(&prepared),
                Err(reason) => self.fall_back(reason)?,
            }
        }
        self.state.finish_instead("cuckoo", &self.tombstones)
    }

    /// Writes slots, versions area and metadata; syncs and closes the file.
    fn write(self, prepared: &Prepared) -> Result<FinishedTable> {
        let BuildState::Collecting { mut file, buffered } = self.state else {
            return Err(failed());
        };
        let entries = buffered.entries;
        let mut sums = self.options.checksums.then(SpanSums::default);
        match &entries {
            EntryBuffer::Fixed(records) => {
                write_data(&mut *file, records, prepared, sums.as_mut())?
            }
            EntryBuffer::Versioned(records) => {
                write_data(&mut *file, records, prepared, sums.as_mut())?
            }
        }
        let mut properties = properties(&self.context, entries.slots(), &prepared.layout);
        if sums.is_some() {
            properties.set_user(span_checksums::NAME, span_checksums::VERSION);
        }
        let tail_start = prepared.layout.data_bytes();
        let kind = match entries {
            EntryBuffer::Fixed(_) => TableKind::Cuckoo,
            EntryBuffer::Versioned(_) => TableKind::CuckooVersions,
        };
        let tail = encode_tail(kind, &properties, tail_start, sums)?;
        file.append(&tail)?;
        file.sync_data()?;
        file.close()?;
        let tail_bytes = tail.len() as u64;
        Ok(FinishedTable {
            file_bytes: tail_start + tail_bytes,
            tail_bytes,
            unique_id: properties.unique_id().unwrap_or_default(),
            properties,
            fallback: None,
            memory_filter: None,
        })
    }
}

/// Returns the number of bytes of a slot: key, footer unless on the last level, and value.
fn slot_bytes(records: &dyn SlotEntries) -> u64 {
    let footer = if records.is_last_level() { 0 } else { 8 };
    (records.user_keys().bytes() + footer + records.value_bytes()) as u64
}

/// A cuckoo table ready to be written: its layout, and the entry in each slot.
struct Prepared {
    layout: CuckooLayout,
    slots: Vec<u32>,
}

/// Computes the layout of the hash table, and assigns the entries to its slots.
fn prepare<E: SlotEntries>(
    records: &E,
    table_size: u64,
    options: &CuckooWriteOptions,
) -> Possible<Prepared> {
    let user_key_bytes = records.user_keys().bytes();
    let key_bytes = user_key_bytes + if records.is_last_level() { 0 } else { 8 };
    let number = |bytes: usize| to_u32(bytes, "entry").map_err(|_| FallbackReason::TooLarge);
    let mut layout = CuckooLayout {
        function_count: 2,
        table_size,
        window_slots: options.window_slots,
        slot_count: 0,
        user_key_bytes: number(user_key_bytes)?,
        key_bytes: if records.count() == 0 {
            0
        } else {
            number(key_bytes)?
        },
        value_bytes: number(records.value_bytes())?,
        is_last_level: records.count() > 0 && records.is_last_level(),
        identity_first: options.identity_first,
        use_module: options.use_module,
        empty_user_key: Vec::new(),
        entry_count: u64::from(records.count()),
        heap_bytes: records.heap().map(|heap| heap.len() as u64),
    };
    if records.count() == 0 {
        return Ok(Prepared {
            layout,
            slots: Vec::new(),
        });
    }
    let slot_count = table_size + u64::from(options.window_slots) - 1;
    let heap_bytes = layout.heap_bytes.unwrap_or(0);
    if slot_count * slot_bytes(records) + heap_bytes >= DATA_BYTES_MAX {
        return Err(FallbackReason::TooLarge);
    }
    layout.slot_count = u32::try_from(slot_count).map_err(|_| FallbackReason::TooLarge)?;
    let hash = SlotHash::new(
        HashFamily::Murmur64A,
        options.identity_first,
        options.use_module,
        table_size,
    );
    let Placed {
        slots,
        function_count,
    } = place(
        records,
        options.placement,
        hash,
        layout.slot_count - (options.window_slots - 1),
        options.window_slots,
        options.depth_max,
    )?;
    layout.function_count = function_count;
    layout.empty_user_key = unused_key(records, |key| {
        (0..function_count).any(|function| {
            let first = koeldb_base::coding::to_usize(hash.slot(function, key));
            slots[first..first + options.window_slots as usize]
                .iter()
                .any(|&entry| entry != EMPTY && records.user_key(entry) == key)
        })
    })?;
    Ok(Prepared { layout, slots })
}

/// Finds a user key that is not in the table, to mark empty slots.
///
/// The first two are RocksDB's choice.
fn unused_key(records: &impl SlotEntries, is_used: impl Fn(&[u8]) -> bool) -> Possible<Vec<u8>> {
    let step = |from: &[u8], by: u8, wraps_to: u8| {
        let mut key = from.to_vec();
        for byte in key.iter_mut().rev() {
            *byte = byte.wrapping_add(by);
            if *byte != wraps_to {
                return Some(key);
            }
        }
        None
    };
    if let Some(key) = step(records.user_keys().smallest(), u8::MAX, u8::MAX) {
        return Ok(key);
    }
    if let Some(key) = step(records.user_keys().largest(), 1, 0) {
        return Ok(key);
    }
    // It tries one more key than there are entries, so one of them is unused if so many keys exist.
    for number in 1..=u64::from(records.count()) {
        let mut key = vec![0; records.user_keys().bytes()];
        for (byte, of_number) in key.iter_mut().zip(number.to_le_bytes()) {
            *byte = of_number;
        }
        if !is_used(&key) {
            return Ok(key);
        }
    }
    Err(FallbackReason::NoUnusedKey)
}

/// Writes the slots, and after them the area of versions.
fn write_data(
    file: &mut dyn WritableFile,
    records: &impl SlotEntries,
    prepared: &Prepared,
    mut sums: Option<&mut SpanSums>,
) -> Result<()> {
    let layout = &prepared.layout;
    let with_footer = !layout.is_last_level;
    let heap_at = layout.slots_bytes();
    let mut empty = layout.empty_user_key.clone();
    empty.extend_from_slice(layout.empty_footer());
    empty.resize(layout.slot_bytes(), FILLER);
    let mut append = |piece: &[u8]| {
        if let Some(sums) = &mut sums {
            sums.add(piece);
        }
        file.append(piece)
    };
    let mut piece = Vec::with_capacity(PIECE_BYTES + layout.slot_bytes());
    for (at, &entry) in prepared.slots.iter().enumerate() {
        if let Some(&ahead) = prepared.slots.get(at + FETCH_AHEAD)
            && ahead != EMPTY
        {
            records.prefetch(ahead);
        }
        if entry == EMPTY {
            piece.extend_from_slice(&empty);
        } else {
            records.append_slot(entry, with_footer, heap_at, &mut piece);
        }
        while let Some((whole, _)) = piece.split_at_checked(PIECE_BYTES) {
            append(whole)?;
            piece.drain(..PIECE_BYTES);
        }
    }
    append(&piece)?;
    records.heap().map_or(Ok(()), append)
}

/// Creates the table properties: those of RocksDB's cuckoo table builder, and any of the versions.
fn properties(
    context: &TableBuildContext,
    records: &dyn SlotEntries,
    layout: &CuckooLayout,
) -> TableProperties {
    let totals = records.totals();
    let mut properties = TableProperties {
        original_file_number: context.file_number,
        entry_count: totals.entries,
        deletion_count: totals.deletions,
        merge_operand_count: totals.operands,
        raw_key_bytes: totals.key_bytes,
        raw_value_bytes: totals.value_bytes,
        data_block_count: 1,
        column_family_id: context.column_family_id,
        column_family_name: context.column_family_name.clone().into_bytes(),
        db_id: context.db_id.clone().into_bytes(),
        session_id: context.session_id.clone().into_bytes(),
        user_collected: context.user_properties.clone(),
        ..TableProperties::default()
    };
    layout.record(&mut properties);
    properties
}

/// Encodes the sections after the slots: properties, checksums, metaindex, footer.
fn encode_tail(
    kind: TableKind,
    properties: &TableProperties,
    start: u64,
    sums: Option<SpanSums>,
) -> Result<Vec<u8>> {
    let mut block = BlockBuilder::new(u32::MAX, true);
    let mut previous = Vec::new();
    for (name, value) in properties.encode() {
        block.add(&previous, &name, &value)?;
        previous = name;
    }
    let mut tail = block.finish(false)?;
    let handle = BlockHandle {
        offset: start,
        size: tail.len() as u64,
    };
    span_checksums::complete_tail(&mut tail, start, sums, |checksums, offset| {
        let mut meta = BTreeMap::from([(metaindex::PROPERTIES, handle)]);
        meta.extend(checksums.map(|handle| (span_checksums::NAME, handle)));
        let mut block = BlockBuilder::new(1, true);
        let mut previous: &[u8] = &[];
        for (name, handle) in &meta {
            block.add(previous, name.as_bytes(), &handle.to_vec())?;
            previous = name.as_bytes();
        }
        let mut end = block.finish(false)?;
        let size = end.len() as u64;
        let footer = Footer {
            kind,
            format_version: 1,
            checksum: ChecksumContext {
                kind: ChecksumKind::None,
                base: 0,
            },
            metaindex: BlockHandle { offset, size },
            index: BlockHandle::NULL,
        };
        end.extend_from_slice(&footer.encode(offset + size)?);
        Ok(end)
    })?;
    Ok(tail)
}
