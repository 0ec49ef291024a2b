//! Keys as numbers.
//!
//! A number is 8 bytes of a key, so unequal keys may have equal numbers. But never does a key with a smaller
//! number come behind one with a larger: where numbers differ, they say what comparing the keys would say.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::cmp::Ordering;

use koeldb_base::KeyOrder;
use koeldb_base::comparator::first_bytes;

const NUMBER_BYTES: usize = 8;

/// How the user keys of one block become numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::block_based) enum Numbering {
    /// The bytes behind a prefix that all keys have, the first one highest, missing ones zero.
    Ascending(usize),
    /// The complement of that, for the opposite order: there a key comes behind all that it is a prefix of.
    Descending(usize),
    /// Keys of 8 bytes are little-endian numbers. All others come behind them.
    Integers,
}

impl Numbering {
    /// The numbering of keys from `first` to `last` in `order`; `None` if the order is not known.
    pub(in crate::block_based) fn new(order: &KeyOrder, first: &[u8], last: &[u8]) -> Option<Self> {
        let prefix = || first.iter().zip(last).take_while(|(a, b)| a == b).count();
        match order {
            KeyOrder::Bytewise => Some(Numbering::Ascending(prefix())),
            KeyOrder::ReverseBytewise => Some(Numbering::Descending(prefix())),
            KeyOrder::Uint64 => Some(Numbering::Integers),
            KeyOrder::Custom(_) => None,
        }
    }

    /// How many first bytes all keys have in common. The numbers of keys without them mean nothing.
    pub(in crate::block_based) fn prefix_len(self) -> usize {
        match self {
            Numbering::Ascending(prefix) | Numbering::Descending(prefix) => prefix,
            Numbering::Integers => 0,
        }
    }

    /// The number of a key that has the prefix.
    #[inline]
    pub(in crate::block_based) fn number(self, user_key: &[u8]) -> u64 {
        match self {
            Numbering::Ascending(prefix) => leading_number(user_key, prefix),
            Numbering::Descending(prefix) => !leading_number(user_key, prefix),
            Numbering::Integers => KeyOrder::Uint64.head(user_key),
        }
    }
}

/// From the first to the last key of a block: what is common to all of them, and what tells them apart.
#[derive(Debug)]
pub(in crate::block_based) struct KeySpan {
    numbering: Numbering,
    /// What all user keys begin with.
    prefix: Box<[u8]>,
    /// Its first bytes.
    prefix_number: u64,
    /// The number of the last key.
    largest: u64,
}

impl KeySpan {
    /// The span from one user key to another; `None` if the order is not known.
    pub(in crate::block_based) fn new(order: &KeyOrder, first: &[u8], last: &[u8]) -> Option<Self> {
        let numbering = Numbering::new(order, first, last)?;
        let prefix = first.get(..numbering.prefix_len())?;
        Some(KeySpan {
            numbering,
            prefix: prefix.into(),
            prefix_number: leading_number(prefix, 0),
            largest: numbering.number(last),
        })
    }

    /// How keys that have the prefix become numbers.
    pub(in crate::block_based) fn numbering(&self) -> Numbering {
        self.numbering
    }

    /// The memory this takes beside itself.
    pub(in crate::block_based) fn heap_bytes(&self) -> usize {
        self.prefix.len()
    }

    /// Whether a key begins as all of the block do. A prefix of up to 8 bytes is compared as a number: a call would
    /// cost more, and 60 ns for the empty one, as glibc loads by mask from where an empty box points.
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

    /// The number of a key that is in between; otherwise on which side of all keys it is. A number that is not above
    /// the first key's says that itself.
    #[inline]
    pub(in crate::block_based) fn wanted(
        &self,
        order: &KeyOrder,
        user_key: &[u8],
    ) -> Result<u64, Ordering> {
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

/// The 8 bytes from `at` on, the first one highest, missing ones zero.
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
