//! The entries of a cuckoo table under construction, and violations of the format's rules.
//!
//! All sizes are fixed, and there are no versions. Entries come in order and are kept in it, values
//! separately from deletions. If the entries do not fit a cuckoo table, a [`FallbackReason`] says
//! why, and the records are still available, in order, for another format.

use std::cmp::Ordering;
use std::fmt;

use koeldb_base::key::{FOOTER_BYTES, InternalKey, pack};
use koeldb_base::{Error, KeyOrder, Result, ValueType};

use super::user_keys::UserKeys;
use super::versions::Totals;

/// The largest number of entries of a table, as in RocksDB.
pub(super) const ENTRIES_MAX: u32 = (1 << 31) - 2;

/// The byte that fills the value of a deletion and of an empty slot.
pub(super) const FILLER: u8 = b'a';

/// The reason that entries do not fit a cuckoo table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FallbackReason {
    KeyBytes { expected: usize, found: usize },
    ValueBytes { expected: usize, found: usize },
    EmptyKey,
    ShortKey(usize),
    Kind(ValueType),
    SecondVersion,
    RangeDeletion,
    TooMany,
    TooLarge,
    Collisions,
    NoUnusedKey,
    TooManyVersions,
    Order(String),
}

impl fmt::Display for FallbackReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FallbackReason::KeyBytes { expected, found } => write!(
                f,
                "all keys must have the same length, but there are keys of {expected} and {found} bytes"
            ),
            FallbackReason::ValueBytes { expected, found } => write!(
                f,
                "all values must have the same length, but there are values of {expected} and {found} bytes"
            ),
            FallbackReason::EmptyKey => write!(f, "the empty key cannot be stored"),
            FallbackReason::ShortKey(bytes) => write!(
                f,
                "identity_as_first_hash needs keys of at least 8 bytes, but there are keys of {bytes}"
            ),
            FallbackReason::Kind(kind) => write!(f, "entries of type {kind:?} cannot be stored"),
            FallbackReason::SecondVersion => {
                write!(f, "a snapshot needs an older version of a key")
            }
            FallbackReason::RangeDeletion => write!(f, "range deletions cannot be stored"),
            FallbackReason::TooMany => write!(f, "there are 2^31 - 2 entries"),
            FallbackReason::TooLarge => write!(f, "the table would have 4 GiB"),
            FallbackReason::Collisions => write!(f, "too many keys have the same hashes"),
            FallbackReason::NoUnusedKey => write!(f, "every possible key is used"),
            FallbackReason::TooManyVersions => write!(f, "the entries of a key have 16 MiB"),
            FallbackReason::Order(name) => {
                write!(f, "the comparator {name} may treat different keys as equal")
            }
        }
    }
}

impl FallbackReason {
    /// Whether the reason does not hold for a table with versions (one slot per key, any values).
    pub(super) fn is_lifted_by_versions(&self) -> bool {
        matches!(
            self,
            FallbackReason::ValueBytes { .. }
                | FallbackReason::SecondVersion
                | FallbackReason::Kind(_)
        )
    }
}

/// A result, or the reason that the entries do not fit the format.
pub(super) type Possible<T> = std::result::Result<T, FallbackReason>;

/// The contents of a cuckoo table's slots: one entry each, or one key each with its versions.
pub(super) trait SlotEntries {
    /// The number of occupied slots.
    fn count(&self) -> u32;

    /// The common length of the user keys, with the smallest and the largest.
    fn user_keys(&self) -> &UserKeys;

    /// The number of bytes in a slot after the key.
    fn value_bytes(&self) -> usize;

    /// Whether slots contain only user keys.
    fn is_last_level(&self) -> bool;

    /// The user key for slot contents number `index`.
    fn user_key(&self, index: u32) -> &[u8];

    /// The entry counts and sizes for the table properties.
    fn totals(&self) -> Totals;

    /// The area of versions after the slots; `None` in the format without versions.
    fn heap(&self) -> Option<&[u8]>;

    /// Prefetches the memory of slot contents number `index`.
    fn prefetch(&self, index: u32);

    /// Appends the encoded slot with contents number `index` to `out`; versions begin at `heap_at`.
    fn append_slot(&self, index: u32, with_footer: bool, heap_at: u64, out: &mut Vec<u8>);
}

/// The buffered entries of a cuckoo table without versions: puts in order, then deletions.
#[derive(Debug, Default)]
pub(super) struct Records {
    user_keys: UserKeys,
    value_bytes: Option<usize>,
    /// User key and value of each put.
    puts: Vec<u8>,
    put_count: u32,
    /// The footers of the puts, unless all have sequence number 0.
    put_footers: Option<Vec<u64>>,
    /// The user keys of deletions.
    deletions: Vec<u8>,
    deletion_footers: Vec<u64>,
    last_key: Vec<u8>,
    last_footer: u64,
}

/// The footer of puts on the last level, where slots store only user keys: sequence number 0.
const LAST_LEVEL_FOOTER: u64 = pack(0, ValueType::Value);

impl Records {
    /// Returns the number of deletions.
    #[expect(clippy::cast_possible_truncation, reason = "fewer than 2^31 entries")]
    fn deletion_count(&self) -> u32 {
        self.deletion_footers.len() as u32
    }

    /// Appends an entry; returns the reason for falling back if it does not fit.
    ///
    /// # Errors
    /// `Corruption` if the key is malformed or not after the last one.
    pub(super) fn add(
        &mut self,
        order: &KeyOrder,
        key: &[u8],
        value: &[u8],
    ) -> Result<Possible<()>> {
        let parsed = InternalKey::parse(key)?;
        let footer = pack(parsed.seqno, parsed.value_type);
        if self.count() > 0 {
            let found = order.compare(&self.last_key, parsed.user_key);
            if found == Ordering::Greater
                || (found == Ordering::Equal && self.last_footer <= footer)
            {
                return Err(out_of_order(&self.last_key, key));
            }
            if found == Ordering::Equal {
                return Ok(Err(FallbackReason::SecondVersion));
            }
        }
        if let Err(reason) = self.check(&parsed, value) {
            return Ok(Err(reason));
        }
        self.append(&parsed, footer, value);
        Ok(Ok(()))
    }

    /// Checks that an entry fits: key and value length, type, and number of entries.
    fn check(&self, key: &InternalKey<'_>, value: &[u8]) -> Possible<()> {
        self.user_keys.check(key.user_key)?;
        match key.value_type {
            ValueType::Deletion => {}
            ValueType::Value => {
                let found = value.len();
                let expected = self.value_bytes.unwrap_or(found);
                if found != expected {
                    return Err(FallbackReason::ValueBytes { expected, found });
                }
            }
            other => return Err(FallbackReason::Kind(other)),
        }
        if self.count() >= ENTRIES_MAX {
            return Err(FallbackReason::TooMany);
        }
        Ok(())
    }

    /// Appends an entry that passed [`Records::check`].
    fn append(&mut self, key: &InternalKey<'_>, footer: u64, value: &[u8]) {
        let user_key = key.user_key;
        self.user_keys.add(user_key);
        self.last_key.clear();
        self.last_key.extend_from_slice(user_key);
        self.last_footer = footer;
        if key.value_type == ValueType::Deletion {
            self.deletions.extend_from_slice(user_key);
            self.deletion_footers.push(footer);
            return;
        }
        self.value_bytes = Some(value.len());
        self.puts.extend_from_slice(user_key);
        self.puts.extend_from_slice(value);
        match &mut self.put_footers {
            Some(footers) => footers.push(footer),
            None if footer == LAST_LEVEL_FOOTER => {}
            None => {
                let mut footers = vec![LAST_LEVEL_FOOTER; self.put_count as usize];
                footers.push(footer);
                self.put_footers = Some(footers);
            }
        }
        self.put_count += 1;
    }

    /// Returns the size of a put in bytes: user key and value.
    fn stride(&self) -> usize {
        self.user_keys.bytes() + self.value_bytes()
    }

    /// Returns the user key and value of put number `index`.
    fn put(&self, index: u32) -> &[u8] {
        let start = index as usize * self.stride();
        &self.puts[start..start + self.stride()]
    }

    /// Returns the user key of deletion number `index`.
    fn deleted_key(&self, index: u32) -> &[u8] {
        let start = index as usize * self.user_keys.bytes();
        &self.deletions[start..start + self.user_keys.bytes()]
    }

    /// Returns the packed sequence number and type, and the value, of put number `index`.
    fn rest_of_put(&self, index: u32) -> (u64, &[u8]) {
        let footer = match &self.put_footers {
            Some(footers) => footers[index as usize],
            None => LAST_LEVEL_FOOTER,
        };
        (footer, &self.put(index)[self.user_keys.bytes()..])
    }

    /// Passes all entries to `take` in key order, as internal keys and values.
    pub(super) fn replay(
        &self,
        order: &KeyOrder,
        mut take: impl FnMut(&[u8], &[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut key = Vec::with_capacity(self.user_keys.bytes() + FOOTER_BYTES);
        let (mut put, mut deletion) = (0, 0);
        while put < self.put_count || deletion < self.deletion_count() {
            let is_put = deletion == self.deletion_count()
                || (put < self.put_count
                    && order
                        .compare(self.user_key(put), self.deleted_key(deletion))
                        .is_lt());
            key.clear();
            let (footer, value) = if is_put {
                key.extend_from_slice(self.user_key(put));
                put += 1;
                self.rest_of_put(put - 1)
            } else {
                key.extend_from_slice(self.deleted_key(deletion));
                deletion += 1;
                (self.deletion_footers[deletion as usize - 1], &[][..])
            };
            key.extend_from_slice(&footer.to_le_bytes());
            take(&key, value)?;
        }
        Ok(())
    }
}

impl SlotEntries for Records {
    #[inline]
    fn count(&self) -> u32 {
        self.put_count + self.deletion_count()
    }

    fn user_keys(&self) -> &UserKeys {
        &self.user_keys
    }

    fn value_bytes(&self) -> usize {
        self.value_bytes.unwrap_or(0)
    }

    fn is_last_level(&self) -> bool {
        self.put_footers.is_none() && self.deletion_footers.is_empty()
    }

    #[inline]
    fn user_key(&self, index: u32) -> &[u8] {
        match index.checked_sub(self.put_count) {
            None => &self.put(index)[..self.user_keys.bytes()],
            Some(index) => self.deleted_key(index),
        }
    }

    fn totals(&self) -> Totals {
        let entries = u64::from(self.count());
        let footer_bytes = if self.is_last_level() {
            0
        } else {
            FOOTER_BYTES
        };
        Totals {
            entries,
            deletions: u64::from(self.deletion_count()),
            operands: 0,
            key_bytes: entries * (self.user_keys.bytes() + footer_bytes) as u64,
            value_bytes: entries * self.value_bytes() as u64,
        }
    }

    fn heap(&self) -> Option<&[u8]> {
        None
    }

    fn prefetch(&self, index: u32) {
        crate::block::prefetch(&self.puts, index as usize * self.stride());
    }

    fn append_slot(&self, index: u32, with_footer: bool, _heap_at: u64, out: &mut Vec<u8>) {
        if !with_footer {
            out.extend_from_slice(self.put(index));
            return;
        }
        out.extend_from_slice(self.user_key(index));
        match index.checked_sub(self.put_count) {
            None => {
                let (footer, value) = self.rest_of_put(index);
                out.extend_from_slice(&footer.to_le_bytes());
                out.extend_from_slice(value);
            }
            Some(index) => {
                out.extend_from_slice(&self.deletion_footers[index as usize].to_le_bytes());
                out.resize(out.len() + self.value_bytes(), FILLER);
            }
        }
    }
}

/// Creates the `Corruption` error of an entry whose key is not after the last one.
#[cold]
pub(super) fn out_of_order(last: &[u8], key: &[u8]) -> Error {
    Error::corruption(format!(
        "table builder: keys out of order: internal key {key:02x?} added after the user key {last:02x?}"
    ))
}
