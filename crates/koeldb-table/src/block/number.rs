//! Maps keys to numbers.
//!
//! A number is 8 bytes of a key, so unequal keys may have equal numbers. But the mapping is
//! monotonic: different numbers order keys as comparing the keys would.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::cmp::Ordering;

use koeldb_base::KeyOrder;
use koeldb_base::comparator::first_bytes;

/// The number of key bytes that form a number.
const NUMBER_BYTES: usize = 8;

/// An order-preserving mapping of a block's user keys to 64-bit integers, for interpolation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbering {
    /// The bytes after the common prefix, as a big-endian number, padded with zeros.
    Ascending(usize),
    /// The complement of `Ascending`, for the reverse order.
    ///
    /// There a key sorts after all keys that it is a prefix of.
    Descending(usize),
    /// Keys of 8 bytes, as little-endian numbers. All others sort after them.
    Integers,
}

impl Numbering {
    /// Chooses the mapping for user keys from `first` to `last`; `None` for a custom comparator.
    pub(crate) fn new(order: &KeyOrder, first: &[u8], last: &[u8]) -> Option<Self> {
        let prefix = || first.iter().zip(last).take_while(|(a, b)| a == b).count();
        match order {
            KeyOrder::Bytewise => Some(Numbering::Ascending(prefix())),
            KeyOrder::ReverseBytewise => Some(Numbering::Descending(prefix())),
            KeyOrder::Uint64 => Some(Numbering::Integers),
            KeyOrder::Custom(_) => None,
        }
    }

    /// The length of the keys' common prefix, without which a key's number is meaningless.
    pub(crate) fn prefix_len(self) -> usize {
        match self {
            Numbering::Ascending(prefix) | Numbering::Descending(prefix) => prefix,
            Numbering::Integers => 0,
        }
    }

    /// Maps a key that has the common prefix to its number.
    #[inline]
    pub(crate) fn number(self, user_key: &[u8]) -> u64 {
        match self {
            Numbering::Ascending(prefix) => leading_number(user_key, prefix),
            Numbering::Descending(prefix) => !leading_number(user_key, prefix),
            Numbering::Integers => KeyOrder::Uint64.head(user_key),
        }
    }
}

/// The key range of a block for interpolation: common prefix, mapping to numbers, largest number.
#[derive(Debug)]
pub(crate) struct KeySpan {
    numbering: Numbering,
    /// The common prefix of all user keys.
    prefix: Box<[u8]>,
    /// The first bytes of the prefix as a number.
    prefix_number: u64,
    /// The number of the last key.
    largest: u64,
}

impl KeySpan {
    /// Creates the range from user key `first` to `last`; `None` for a custom comparator.
    pub(crate) fn new(order: &KeyOrder, first: &[u8], last: &[u8]) -> Option<Self> {
        let numbering = Numbering::new(order, first, last)?;
        let prefix = first.get(..numbering.prefix_len())?;
        Some(KeySpan {
            numbering,
            prefix: prefix.into(),
            prefix_number: leading_number(prefix, 0),
            largest: numbering.number(last),
        })
    }

    /// The mapping of the range's keys to numbers.
    pub(crate) fn numbering(&self) -> Numbering {
        self.numbering
    }

    /// The heap memory of the range.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.prefix.len()
    }

    /// Whether a user key begins with the common prefix of the block's keys.
    ///
    /// A prefix of up to 8 bytes is compared as a number. A call of `memcmp` costs more, and 60 ns
    /// for the empty prefix: glibc's masked load then reads at an empty box's dangling pointer.
    #[inline]
    fn has_prefix(&self, user_key: &[u8]) -> bool {
        let behind = (NUMBER_BYTES.checked_sub(self.prefix.len()))
            .and_then(|behind| u32::try_from(behind).ok())
            .map(|behind| behind.saturating_mul(8));
        match behind {
            Some(behind) if user_key.len() >= NUMBER_BYTES => {
                let difference = leading_number(user_key, 0) ^ self.prefix_number;
                difference.unbounded_shr(behind) == 0
            }
            _ => user_key.starts_with(&self.prefix),
        }
    }

    /// Returns the number of a searched key, or `Err` with its order if outside the block's range.
    ///
    /// A key before the first one may get a number: it is not above the number of the first key.
    #[inline]
    pub(crate) fn wanted(&self, order: &KeyOrder, user_key: &[u8]) -> Result<u64, Ordering> {
        if !self.has_prefix(user_key) {
            return Err(order.compare(user_key, &self.prefix));
        }
        let wanted = self.numbering.number(user_key);
        if wanted > self.largest {
            return Err(Ordering::Greater);
        }
        Ok(wanted)
    }
}

/// Returns the 8 bytes of `key` from offset `at` as a big-endian number, padded with zeros.
#[inline]
fn leading_number(key: &[u8], at: usize) -> u64 {
    first_bytes(key.get(at..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use koeldb_base::KeyOrder;
    use proptest::prelude::*;

    fn keys() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let byte = prop::sample::select(vec![0_u8, 1, b'a', 0x80, 0xff]);
        prop::collection::vec(prop::collection::vec(byte, 0..14), 2..20)
    }

    proptest! {
        #[test]
        fn numbers_never_contradict_the_order(mut keys in keys(), prefix: [u8; 3]) {
            for order in [KeyOrder::Bytewise, KeyOrder::ReverseBytewise, KeyOrder::Uint64] {
                if order.name() != KeyOrder::Uint64.name() {
                    for key in &mut keys {
                        key.splice(0..0, prefix);
                    }
                }
                keys.sort_by(|a, b| order.comparator().compare(a, b));
                let numbering = Numbering::new(&order, &keys[0], keys.last().unwrap()).unwrap();
                prop_assert!(keys.is_sorted_by_key(|key| numbering.number(key)));
            }
        }
    }
}
