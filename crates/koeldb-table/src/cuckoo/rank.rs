//! Ranks: numbers that order keys by their first 8 bytes.

use koeldb_base::KeyOrder;
use koeldb_base::comparator::first_bytes;

/// A monotonic function from user keys of one order to integers, by their first 8 bytes.
///
/// Equal numbers do not decide the order of their keys. The orders differ in masks alone, so that
/// no branch is taken per key: the bytes unchanged or swapped, as selected by one of two masks, and
/// inverted by a third.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ranker {
    as_they_stand: u64,
    swapped: u64,
    turned_over: u64,
    /// Whether keys of other lengths than 8 bytes sort after all others.
    others_last: bool,
}

impl Ranker {
    pub(super) fn new(order: &KeyOrder) -> Self {
        let (as_they_stand, swapped, turned_over) = match order {
            KeyOrder::Bytewise => (0, u64::MAX, 0),
            KeyOrder::ReverseBytewise => (0, u64::MAX, u64::MAX),
            KeyOrder::Uint64 => (u64::MAX, 0, 0),
            KeyOrder::Custom(_) => (0, 0, 0),
        };
        Ranker {
            as_they_stand,
            swapped,
            turned_over,
            others_last: matches!(order, KeyOrder::Uint64),
        }
    }

    /// Returns the rank of a key: an integer that orders keys by their first 8 bytes.
    #[inline]
    pub(super) fn rank(&self, key: &[u8]) -> u64 {
        if key.len() != 8 && self.others_last {
            return u64::MAX;
        }
        self.rank_of_number(first_bytes(key).swap_bytes())
    }

    /// Returns the rank of an 8-byte key, given as little-endian integer.
    #[inline]
    pub(super) fn rank_of_number(&self, little: u64) -> u64 {
        ((little & self.as_they_stand) | (little.swap_bytes() & self.swapped)) ^ self.turned_over
    }

    /// Whether the ranks of 8-byte keys determine their order; false for a custom comparator.
    pub(super) fn decides(&self) -> bool {
        self.as_they_stand | self.swapped == u64::MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_never_contradict_the_order() {
        let keys: Vec<Vec<u8>> = (0..4_u8)
            .flat_map(|a| (0..12).map(move |len| (0..len).map(|at| a ^ (at & 1)).collect()))
            .collect();
        let orders = [
            KeyOrder::Bytewise,
            KeyOrder::ReverseBytewise,
            KeyOrder::Uint64,
        ];
        for order in orders {
            let ranker = Ranker::new(&order);
            for a in &keys {
                assert_eq!(ranker.rank(a), order.head(a), "{a:?}");
                for b in &keys {
                    let by_rank = ranker.rank(a).cmp(&ranker.rank(b));
                    assert!(
                        by_rank.is_eq() || by_rank == order.compare(a, b),
                        "{a:?} {b:?}"
                    );
                }
            }
        }
        let ranker = Ranker::new(&KeyOrder::Uint64);
        assert_eq!(ranker.rank(&77_u64.to_le_bytes()), 77);
    }
}
