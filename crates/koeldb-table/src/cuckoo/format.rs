//! The on-disk format of a cuckoo table, and the properties that describe it.
//!
//! ```text
//! slot [N + t - 1] | properties block | metaindex block | footer of version 1, no checksums
//! slot:  user key | value                                last level: all sequence numbers are 0
//!        user key | fixed64 footer of the internal key | value             otherwise
//! ```
//!
//! `N` is the range of the hash functions and `t` the number of slots in a window; the last `t - 1`
//! slots let a window near the end run on. Empty slots hold a key that is not in the table. Blocks
//! have no trailers. Numbers in properties are little-endian and of fixed width
//! (`table/cuckoo/cuckoo_table_builder.cc`, RocksDB 11.9; `docs/formats/cuckoo-table.md`).
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::fmt;

use koeldb_base::coding::to_usize;
use koeldb_base::key::FOOTER_BYTES;
use koeldb_base::{Error, Result};

use super::hash::FUNCTIONS_MAX;
use super::versions::PLACE_BYTES;
use crate::properties::TableProperties;

/// Names of the properties that cuckoo tables record.
pub(super) mod names {
    /// The key in empty slots.
    pub(crate) const EMPTY_KEY: &str = "rocksdb.cuckoo.bucket.empty.key";
    /// The number of hash functions in use: fixed32.
    pub(crate) const FUNCTION_COUNT: &str = "rocksdb.cuckoo.hash.num";
    /// The number of slots in the range of the hash functions: fixed64.
    pub(crate) const TABLE_SIZE: &str = "rocksdb.cuckoo.hash.size";
    /// The size of a value: fixed64, of which readers take 32 bits.
    pub(crate) const VALUE_BYTES: &str = "rocksdb.cuckoo.value.length";
    /// One byte: 1 if slots hold user keys.
    pub(crate) const IS_LAST_LEVEL: &str = "rocksdb.cuckoo.file.islastlevel";
    /// The number of slots in a cuckoo block: fixed32.
    pub(crate) const WINDOW_SLOTS: &str = "rocksdb.cuckoo.hash.cuckooblocksize";
    /// One byte: 1 if the first hash is the key itself.
    pub(crate) const IDENTITY_FIRST: &str = "rocksdb.cuckoo.hash.identityfirst";
    /// One byte: 1 if slots are chosen by remainder.
    pub(crate) const USE_MODULE: &str = "rocksdb.cuckoo.hash.usemodule";
    /// The size of a user key: fixed32.
    pub(crate) const USER_KEY_BYTES: &str = "rocksdb.cuckoo.hash.userkeylength";
    /// In a table with versions, the size of the heap after the slots: fixed64.
    pub(crate) const HEAP_BYTES: &str = "koeldb.cuckoo.heap.bytes";
    /// In a table with versions, the number of keys: fixed64.
    pub(crate) const KEY_COUNT: &str = "koeldb.cuckoo.keys";
}

/// The largest number of slots in a cuckoo block.
pub(super) const WINDOW_SLOTS_MAX: u32 = 1 << 16;

/// The largest size of a cuckoo block, which must fit into one segment of the slots in memory.
const WINDOW_BYTES_MAX: u64 = 1 << 30;

/// The layout of a table, validated: all sizes are consistent with each other and the file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CuckooLayout {
    /// The number of hash functions in use.
    pub function_count: u32,
    /// The number of slots in the range of the hash functions.
    pub table_size: u64,
    /// The number of slots in a cuckoo block.
    pub window_slots: u32,
    /// The number of slots; 0 in an empty table.
    pub slot_count: u32,
    /// The size of a user key.
    pub user_key_bytes: u32,
    /// The size of a stored key.
    pub key_bytes: u32,
    /// The size of a value.
    pub value_bytes: u32,
    /// Whether only user keys are stored: all sequence numbers are 0.
    pub is_last_level: bool,
    /// Whether the first hash is the key itself.
    pub identity_first: bool,
    /// Whether slots are chosen by remainder.
    pub use_module: bool,
    /// The user key in empty slots.
    pub empty_user_key: Vec<u8>,
    /// The number of occupied slots: one per entry, or in a table with versions one per key.
    pub entry_count: u64,
    /// In a table with versions, the size of the entries after the slots.
    pub heap_bytes: Option<u64>,
}

impl CuckooLayout {
    /// The size of a slot.
    #[inline]
    #[must_use]
    pub fn slot_bytes(&self) -> usize {
        (self.key_bytes as usize).saturating_add(self.value_bytes as usize)
    }

    /// The size of a cuckoo block in bytes: the slots that one hash function allows.
    #[inline]
    #[must_use]
    pub fn window_bytes(&self) -> usize {
        self.slot_bytes().saturating_mul(self.window_slots as usize)
    }

    /// The size of all slots.
    #[must_use]
    pub fn slots_bytes(&self) -> u64 {
        u64::from(self.slot_count).saturating_mul(self.slot_bytes() as u64)
    }

    /// The size of all slots, and of the area of versions after them, in bytes.
    #[must_use]
    pub fn data_bytes(&self) -> u64 {
        self.slots_bytes()
            .saturating_add(self.heap_bytes.unwrap_or(0))
    }

    /// Decodes the layout from the properties of a table whose slots must end before `data_end`.
    ///
    /// # Errors
    /// `Corruption` if a property is missing or malformed, or two contradict each other or the
    /// file; `NotSupported` for tables beyond this implementation's limits.
    pub(super) fn decode(
        properties: &TableProperties,
        data_end: u64,
        has_versions: bool,
    ) -> Result<Self> {
        let read = Properties(properties);
        let function_count = read.fixed32(names::FUNCTION_COUNT, "Number of hash functions")?;
        let empty_key = read.bytes(names::EMPTY_KEY, "Empty bucket value")?;
        let user_key_bytes = read.fixed32(names::USER_KEY_BYTES, "User key length")?;
        let value_bytes = read.value_bytes()?;
        let table_size = read.fixed64(names::TABLE_SIZE, "Hash table size")?;
        let is_last_level = read.flag(names::IS_LAST_LEVEL, "Is last level")?;
        let identity_first = read.flag(names::IDENTITY_FIRST, "identity as first hash")?;
        let use_module = read.flag(names::USE_MODULE, "hash type")?;
        let window_slots = read.fixed32(names::WINDOW_SLOTS, "Cuckoo block size")?;

        let mut layout = CuckooLayout {
            function_count,
            table_size,
            window_slots,
            slot_count: 0,
            user_key_bytes,
            key_bytes: user_key_bytes,
            value_bytes,
            is_last_level,
            identity_first,
            use_module,
            empty_user_key: Vec::new(),
            entry_count: properties.entry_count,
            heap_bytes: None,
        };
        if has_versions {
            layout.entry_count = read.fixed64(names::KEY_COUNT, "Number of keys")?;
            layout.heap_bytes = Some(read.fixed64(names::HEAP_BYTES, "Size of the entries")?);
            expect(
                layout.entry_count <= properties.entry_count
                    && is_last_level
                    && value_bytes as usize == PLACE_BYTES,
                "invalid slot size for a table with versions",
            )?;
        }
        if properties.entry_count == 0 {
            expect(
                properties.data_bytes == 0,
                "used slots in a table without entries",
            )?;
            return Ok(layout);
        }
        let footer_bytes = if is_last_level { 0 } else { FOOTER_BYTES };
        let key_bytes = u64::from(user_key_bytes).saturating_add(footer_bytes as u64);
        expect(
            properties.fixed_key_bytes == key_bytes && empty_key.len() as u64 == key_bytes,
            "the recorded key lengths contradict each other",
        )?;
        expect(user_key_bytes > 0, "keys without bytes")?;
        layout.key_bytes = u32::try_from(key_bytes).map_err(|_| wrong("keys of 4 GiB"))?;
        layout.empty_user_key = empty_key
            .get(..user_key_bytes as usize)
            .unwrap_or_default()
            .to_vec();
        layout.check_functions()?;
        layout.count_slots(properties, data_end)?;
        Ok(layout)
    }

    /// Checks the hash parameters in the properties: function count, table size and window size.
    fn check_functions(&self) -> Result<()> {
        expect(
            (1..=FUNCTIONS_MAX).contains(&self.function_count),
            "the number of hash functions",
        )?;
        expect(
            (1..=WINDOW_SLOTS_MAX).contains(&self.window_slots),
            "the cuckoo block size",
        )?;
        expect(self.table_size > 0, "the hash table has no slots")?;
        expect(
            self.use_module || self.table_size.is_power_of_two(),
            "the hash table size is not a power of two",
        )?;
        if self.identity_first && self.user_key_bytes < 8 {
            return Err(Error::not_supported(
                "cuckoo table: identity_as_first_hash with keys shorter than 8 bytes",
            ));
        }
        Ok(())
    }

    /// Computes the number of slots, and checks that slots and heap are the data before `data_end`.
    fn count_slots(&mut self, properties: &TableProperties, data_end: u64) -> Result<()> {
        let slots = self
            .table_size
            .checked_add(u64::from(self.window_slots))
            .and_then(|end| end.checked_sub(1))
            .ok_or_else(|| wrong("the hash table size"))?;
        let bytes = slots
            .checked_mul(self.slot_bytes() as u64)
            .and_then(|bytes| bytes.checked_add(self.heap_bytes.unwrap_or(0)))
            .ok_or_else(|| wrong("the hash table size"))?;
        expect(
            bytes == properties.data_bytes && bytes <= data_end,
            "the size of the slots differs from that of the data",
        )?;
        expect(self.entry_count <= slots, "more entries than slots")?;
        self.slot_count = u32::try_from(slots)
            .map_err(|_| Error::not_supported("cuckoo table: too many slots: at least 2^32"))?;
        if self.window_bytes() > to_usize(WINDOW_BYTES_MAX) {
            return Err(Error::not_supported(
                "cuckoo table: window larger than 1 GiB",
            ));
        }
        Ok(())
    }

    /// Writes the layout into the table properties.
    pub(super) fn record(&self, properties: &mut TableProperties) {
        let mut empty_key = self.empty_user_key.clone();
        empty_key.extend_from_slice(self.empty_footer());
        properties.fixed_key_bytes = u64::from(self.key_bytes);
        properties.data_bytes = self.data_bytes();
        properties.set_user(names::EMPTY_KEY, empty_key);
        properties.set_user(names::FUNCTION_COUNT, self.function_count.to_le_bytes());
        properties.set_user(names::TABLE_SIZE, self.table_size.to_le_bytes());
        properties.set_user(
            names::VALUE_BYTES,
            u64::from(self.value_bytes).to_le_bytes(),
        );
        properties.set_user(names::IS_LAST_LEVEL, [u8::from(self.is_last_level)]);
        properties.set_user(names::WINDOW_SLOTS, self.window_slots.to_le_bytes());
        properties.set_user(names::IDENTITY_FIRST, [u8::from(self.identity_first)]);
        properties.set_user(names::USE_MODULE, [u8::from(self.use_module)]);
        properties.set_user(names::USER_KEY_BYTES, self.user_key_bytes.to_le_bytes());
        if let Some(heap_bytes) = self.heap_bytes {
            properties.set_user(names::HEAP_BYTES, heap_bytes.to_le_bytes());
            properties.set_user(names::KEY_COUNT, self.entry_count.to_le_bytes());
        }
    }

    /// The bytes between user key and value of an empty slot: those of sequence number and type.
    pub(super) fn empty_footer(&self) -> &'static [u8] {
        // Sequence number 0, type value.
        const FOOTER: [u8; FOOTER_BYTES] = [1, 0, 0, 0, 0, 0, 0, 0];
        if self.is_last_level || self.slot_count == 0 {
            &[]
        } else {
            &FOOTER
        }
    }
}

/// Formats the layout, one parameter per line.
impl fmt::Display for CuckooLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let empty = u64::from(self.slot_count).saturating_sub(self.entry_count);
        #[expect(clippy::cast_precision_loss, reason = "a share for people")]
        let load = 100.0 * self.entry_count as f64 / f64::from(self.slot_count.max(1));
        let reduction = if self.use_module {
            "remainder"
        } else {
            "power of two"
        };
        let first = if self.identity_first {
            "the key itself"
        } else {
            "Murmur"
        };
        writeln!(
            f,
            "  slots: {} of {} bytes, {empty} of them empty ({} bytes)",
            self.slot_count,
            self.slot_bytes(),
            empty.saturating_mul(self.slot_bytes() as u64)
        )?;
        writeln!(f, "  load: {load:.1} %")?;
        writeln!(
            f,
            "  windows: {} of {} slots a key, by {reduction} of {}, the first hash {first}",
            self.function_count, self.window_slots, self.table_size
        )?;
        if let Some(bytes) = self.heap_bytes {
            return writeln!(
                f,
                "  sequence numbers: stored with all versions of {} keys, {bytes} bytes",
                self.entry_count
            );
        }
        let kept = if self.is_last_level {
            "not stored, all are 0"
        } else {
            "stored"
        };
        writeln!(f, "  sequence numbers: {kept}")
    }
}

/// A reader of cuckoo table properties, with RocksDB's messages for missing ones.
struct Properties<'p>(&'p TableProperties);

impl<'p> Properties<'p> {
    /// Returns the value of a user-collected property; `what` names a missing one in the error.
    fn bytes(&self, name: &str, what: &str) -> Result<&'p [u8]> {
        (self.0.user(name)).ok_or_else(|| Error::corruption(format!("{what} not found")))
    }

    /// Decodes a property of `LEN` bytes.
    fn array<const LEN: usize>(&self, name: &str, what: &str) -> Result<[u8; LEN]> {
        let bytes = self.bytes(name, what)?;
        <[u8; LEN]>::try_from(bytes)
            .map_err(|_| Error::corruption(format!("property {name} of {} bytes", bytes.len())))
    }

    /// Decodes a fixed32 property.
    fn fixed32(&self, name: &str, what: &str) -> Result<u32> {
        self.array(name, what).map(u32::from_le_bytes)
    }

    /// Decodes a fixed64 property.
    fn fixed64(&self, name: &str, what: &str) -> Result<u64> {
        self.array(name, what).map(u64::from_le_bytes)
    }

    /// Decodes a property of one byte, 0 or 1.
    fn flag(&self, name: &str, what: &str) -> Result<bool> {
        match self.array(name, what)? {
            [0] => Ok(false),
            [1] => Ok(true),
            [byte] => Err(Error::corruption(format!(
                "property {name} of value {byte}"
            ))),
        }
    }

    /// Decodes the value length, a fixed64 below 2^32.
    fn value_bytes(&self) -> Result<u32> {
        let bytes = self.fixed64(names::VALUE_BYTES, "Value length")?;
        u32::try_from(bytes).map_err(|_| wrong("values of 4 GiB"))
    }
}

/// Returns the error `otherwise` unless the condition holds.
fn expect(holds: bool, otherwise: &str) -> Result<()> {
    if holds { Ok(()) } else { Err(wrong(otherwise)) }
}

/// Creates a `Corruption` error of a cuckoo table.
#[cold]
fn wrong(what: &str) -> Error {
    Error::corruption(format!("cuckoo table: {what}"))
}
