//! Decodes entries of a block.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use koeldb_base::Error;
use koeldb_base::coding;

use super::{BlockSlices, EntryLayout, ValueRange};
use crate::format::{BLOCK_TRAILER_BYTES, BlockHandle};

/// A decoded block entry, whose key is still split into shared prefix length and unshared bytes.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    /// The number of key bytes shared with the preceding key.
    pub(crate) shared: usize,
    /// The start of the key bytes that are not shared.
    pub(crate) key_start: usize,
    /// The end of the key bytes that are not shared.
    pub(crate) key_end: usize,
    /// The value; in an index block, the first key of the data block (`kBinarySearchWithFirstKey`).
    pub(crate) value: ValueRange,
    /// The start of the next entry.
    pub(crate) next: usize,
}

impl Entry {
    /// Returns the length of the whole key, shared and unshared bytes.
    pub(super) fn key_len(&self) -> usize {
        self.shared
            .saturating_add(self.key_end.saturating_sub(self.key_start))
    }
}

impl BlockSlices<'_> {
    /// Decodes the interleaved or separated entry at offset `at`.
    ///
    /// In the separated layout, `value_start` is the start of the value, unless `at_restart` says
    /// that the entry is at a restart point.
    #[inline(always)]
    pub(crate) fn entry(&self, at: usize, at_restart: bool, value_start: usize) -> Option<Entry> {
        let lengths = Lengths::decode(self.entries, at)?;
        if self.layout == EntryLayout::Interleaved {
            let key_end = lengths.key_start.saturating_add(lengths.unshared);
            let next = key_end.saturating_add(lengths.value);
            if next > self.entries.len() {
                return None;
            }
            Some(Entry {
                shared: lengths.shared,
                key_start: lengths.key_start,
                key_end,
                value: value_range(key_end, lengths.value)?,
                next,
            })
        } else {
            self.separated_entry(lengths, at_restart, value_start)
        }
    }

    /// Completes an entry of the separated layout, with its value range; `None` if it is malformed.
    fn separated_entry(
        &self,
        mut lengths: Lengths,
        at_restart: bool,
        mut value_start: usize,
    ) -> Option<Entry> {
        if at_restart {
            let (offset, taken) = coding::decode_varint32(self.entries.get(lengths.key_start..)?)?;
            lengths.key_start = lengths.key_start.saturating_add(taken);
            value_start = self.entries.len().saturating_add(offset as usize);
        }
        let key_end = lengths.key_start.saturating_add(lengths.unshared);
        let value_end = value_start.saturating_add(lengths.value);
        if key_end > self.entries.len() || value_end > self.values_end {
            return None;
        }
        Some(Entry {
            shared: lengths.shared,
            key_start: lengths.key_start,
            key_end,
            value: value_range(value_start, lengths.value)?,
            next: key_end,
        })
    }

    /// Decodes the delta-encoded index entry at offset `at`, and its handle.
    pub(crate) fn handle_entry(
        &self,
        at: usize,
        first_keys: bool,
        previous: BlockHandle,
    ) -> Option<(Entry, BlockHandle)> {
        let lengths = Lengths::decode_without_value(self.entries, at)?;
        let key_end = lengths.key_start.saturating_add(lengths.unshared);
        let mut input = self.entries.get(key_end..)?;
        let before = input.len();
        let handle = if lengths.shared == 0 {
            BlockHandle::take(&mut input).ok()?
        } else {
            let difference = coding::unzigzag(coding::take_varint64(&mut input).ok()?);
            BlockHandle {
                offset: previous
                    .offset
                    .checked_add(previous.size)?
                    .checked_add(BLOCK_TRAILER_BYTES as u64)?,
                size: previous.size.checked_add_signed(difference)?,
            }
        };
        let first_key_at = key_end.saturating_add(before.saturating_sub(input.len()));
        let mut value = value_range(first_key_at, 0)?;
        if first_keys {
            let first_key = coding::take_length_prefixed(&mut input).ok()?;
            let end = self.entries.len().saturating_sub(input.len());
            value = value_range(end.saturating_sub(first_key.len()), first_key.len())?;
        }
        let entry = Entry {
            shared: lengths.shared,
            key_start: lengths.key_start,
            key_end,
            value,
            next: self.entries.len().saturating_sub(input.len()),
        };
        Some((entry, handle))
    }
}

/// Returns the range of a value; `None` beyond 4 GiB.
#[inline]
fn value_range(start: usize, len: usize) -> Option<ValueRange> {
    Some(ValueRange {
        start: u32::try_from(start).ok()?,
        len: u32::try_from(len).ok()?,
    })
}

/// Creates the `Corruption` error of a malformed entry at offset `at`.
#[cold]
pub(crate) fn bad_entry(at: usize) -> Error {
    Error::corruption(format!("bad entry in block at offset {at}"))
}

/// The lengths in an entry's header: shared and unshared key bytes, and value bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Lengths {
    pub(super) shared: usize,
    pub(super) unshared: usize,
    value: usize,
    pub(super) key_start: usize,
}

impl Lengths {
    /// Decodes the three lengths of the entry header at offset `at`; `None` if malformed.
    ///
    /// Fast path: one byte each for the key's, one or two for the value's.
    #[inline(always)]
    pub(super) fn decode(entries: &[u8], at: usize) -> Option<Self> {
        let rest = entries.get(at..)?;
        if let Some(&[shared, unshared, value, behind]) = rest.first_chunk()
            && (shared | unshared) < 0x80
            && (value < 0x80 || behind < 0x80)
        {
            let (value, taken) = if value < 0x80 {
                (usize::from(value), 3)
            } else {
                (usize::from(value & 0x7f) | usize::from(behind) << 7, 4)
            };
            return Some(Lengths {
                shared: usize::from(shared),
                unshared: usize::from(unshared),
                value,
                key_start: at.saturating_add(taken),
            });
        }
        Self::decode_long(rest, at)
    }

    /// Decodes the three varint32 lengths of an entry header; `None` if malformed.
    #[cold]
    fn decode_long(rest: &[u8], at: usize) -> Option<Self> {
        let mut input = rest;
        let mut take = || {
            let (length, taken) = coding::decode_varint32(input)?;
            input = input.get(taken..)?;
            Some(length as usize)
        };
        let (shared, unshared, value) = (take()?, take()?, take()?);
        let taken = rest.len().saturating_sub(input.len());
        Some(Lengths {
            shared,
            unshared,
            value,
            key_start: at.saturating_add(taken),
        })
    }

    /// Decodes an entry header without value length (delta-encoded index); `None` if malformed.
    #[inline(always)]
    pub(super) fn decode_without_value(entries: &[u8], at: usize) -> Option<Self> {
        let rest = entries.get(at..)?;
        if let Some(&[shared, unshared]) = rest.first_chunk()
            && (shared | unshared) < 0x80
        {
            return Some(Lengths {
                shared: usize::from(shared),
                unshared: usize::from(unshared),
                value: 0,
                key_start: at.saturating_add(2),
            });
        }
        let (shared, first) = coding::decode_varint32(rest)?;
        let (unshared, second) = coding::decode_varint32(rest.get(first..)?)?;
        Some(Lengths {
            shared: shared as usize,
            unshared: unshared as usize,
            value: 0,
            key_start: at.saturating_add(first).saturating_add(second),
        })
    }

    /// Skips the varint32 value offset that entries of the separated layout have at restart points.
    pub(super) fn skip_offset(mut self, entries: &[u8]) -> Option<Self> {
        let (_, taken) = coding::decode_varint32(entries.get(self.key_start..)?)?;
        self.key_start = self.key_start.saturating_add(taken);
        Some(self)
    }
}

const INLINE_KEY_BYTES: usize = 128;

/// A buffer that assembles prefix-compressed keys, on the stack while they are short.
pub(crate) struct KeyBuffer {
    inline: [u8; INLINE_KEY_BYTES],
    heap: Vec<u8>,
    len: usize,
}

impl KeyBuffer {
    pub(crate) fn new() -> Self {
        KeyBuffer {
            inline: [0; INLINE_KEY_BYTES],
            heap: Vec::new(),
            len: 0,
        }
    }

    /// Keeps `shared` bytes of the key and appends `own`; `None` if the key is shorter.
    pub(crate) fn replace(&mut self, shared: usize, own: &[u8]) -> Option<&[u8]> {
        if shared > self.len {
            return None;
        }
        self.len = shared.saturating_add(own.len());
        if self.heap.is_empty() && self.len <= INLINE_KEY_BYTES {
            self.inline.get_mut(shared..self.len)?.copy_from_slice(own);
        } else {
            if self.heap.is_empty() {
                self.heap.extend_from_slice(self.inline.get(..shared)?);
            }
            self.heap.truncate(shared);
            self.heap.extend_from_slice(own);
        }
        Some(self.as_slice())
    }

    /// The assembled key.
    pub(crate) fn as_slice(&self) -> &[u8] {
        if self.heap.is_empty() {
            self.inline.get(..self.len).unwrap_or_default()
        } else {
            &self.heap
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn short_lengths_are_decoded_as_long_ones(
            bytes in prop::collection::vec(prop_oneof![0..4_u8, 0x7e..0x82_u8, any::<u8>()], 0..7),
        ) {
            prop_assert_eq!(Lengths::decode(&bytes, 0), Lengths::decode_long(&bytes, 0));
        }
    }
}
