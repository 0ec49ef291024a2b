//! Finds the table of a level that may contain a key, by fence keys.
//!
//! The smallest keys of the tables are numbers in an array. A second array maps the leading bits of
//! a number to the range of tables it falls into. For most keys that suffices; if a table begins
//! among the numbers with the same leading bits, a few elements remain to be searched.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use koeldb_base::KeyOrder;
use koeldb_base::coding::to_usize;

use super::rank::Ranker;

/// The number of leading bits that select a bucket: 256 buckets fit in the L1 cache.
const PLACE_BITS: u32 = 8;
/// The number of buckets of ranks.
const PLACES: usize = 1 << PLACE_BITS;
const LAST_PLACE: u64 = (1 << PLACE_BITS) - 1;

/// The smallest keys of a level's tables, to find the table that may contain a key.
#[derive(Debug)]
pub(super) struct Fences {
    order: KeyOrder,
    ranker: Ranker,
    /// The rank of each table's smallest key: a number that orders keys by their first bytes.
    ranks: Box<[u64]>,
    smallest: Box<[Vec<u8>]>,
    /// The rank of the first table's smallest key, subtracted before the leading bits are taken.
    base: u64,
    shift: u32,
    /// The number of tables that begin before each bucket of ranks, and at the end their total.
    begun: Box<[u32; PLACES + 1]>,
}

impl Fences {
    /// Creates the search over tables with these smallest user keys, which must ascend.
    pub(super) fn new(order: KeyOrder, smallest: Box<[Vec<u8>]>) -> Self {
        let ranker = Ranker::new(&order);
        let ranks: Box<[u64]> = smallest.iter().map(|key| ranker.rank(key)).collect();
        let base = ranks.first().copied().unwrap_or(0);
        let span = (ranks.last().copied().unwrap_or(0)).saturating_sub(base);
        let span_bits = u64::BITS.saturating_sub(span.leading_zeros());
        let shift = span_bits.saturating_sub(PLACE_BITS);
        let mut begun = Box::new([0; PLACES + 1]);
        for (place, begun) in (0_u64..).zip(begun.iter_mut()) {
            let before = |rank: &u64| (rank.saturating_sub(base) >> shift) < place;
            *begun = u32::try_from(ranks.partition_point(before)).unwrap_or(u32::MAX);
        }
        Fences {
            order,
            ranker,
            ranks,
            smallest,
            base,
            shift,
            begun,
        }
    }

    /// Whether keys of 8 bytes can be compared as integers in this order.
    pub(super) fn are_numbers(&self) -> bool {
        self.ranker.decides()
    }

    /// Returns the index of the only table that may contain a key; out of range if none may.
    ///
    /// There is no table with this index if the key is smaller than all, unless there is one table.
    #[inline]
    pub(super) fn table_of(&self, key: &[u8]) -> u32 {
        if self.ranks.len() == 1 {
            return 0;
        }
        let own = self.ranker.rank(key);
        let table = self.begun_up_to(own).wrapping_sub(1);
        if self.ranks.get(table as usize) == Some(&own) {
            self.table_of_tied(key, table)
        } else {
            table
        }
    }

    /// Returns the index of the only table that may contain an 8-byte key (little-endian integer).
    ///
    /// All keys of the tables must have 8 bytes.
    #[inline]
    pub(super) fn table_of_number(&self, key: u64) -> u32 {
        if self.ranks.len() == 1 {
            return 0;
        }
        let own = self.ranker.rank_of_number(key);
        self.begun_up_to(own).wrapping_sub(1)
    }

    /// Returns the number of tables whose smallest key has a rank up to `own`.
    #[inline]
    fn begun_up_to(&self, own: u64) -> u32 {
        let leading = own.saturating_sub(self.base) >> self.shift;
        let place = to_usize(leading.min(LAST_PLACE));
        match self.begun.get(place..) {
            Some([begun, end, ..]) if begun == end => *begun,
            Some([begun, end, ..]) => self.begun_before(*begun, *end, own),
            _ => 0,
        }
    }

    /// Implements [`Fences::begun_up_to`] by binary search among tables `from..to`.
    #[inline(never)]
    fn begun_before(&self, from: u32, to: u32, own: u64) -> u32 {
        let places = self.ranks.get(from as usize..to as usize);
        let more = places.map_or(0, |places| places.partition_point(|&rank| rank <= own));
        from.saturating_add(u32::try_from(more).unwrap_or(u32::MAX))
    }

    /// Resolves [`Fences::table_of`] for a key with the same rank as a table's smallest key.
    ///
    /// Equal numbers do not determine the order of longer keys.
    #[cold]
    fn table_of_tied(&self, key: &[u8], table: u32) -> u32 {
        let smallest = self.smallest.get(..=table as usize);
        let begun = smallest
            .unwrap_or_default()
            .partition_point(|smallest| self.order.compare(smallest, key).is_le());
        u32::try_from(begun).unwrap_or(u32::MAX).wrapping_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(order: &KeyOrder, mut smallest: Vec<Vec<u8>>, keys: &[Vec<u8>]) {
        smallest.sort_by(|a, b| order.compare(a, b));
        smallest.dedup();
        let fences = Fences::new(order.clone(), smallest.clone().into());
        for key in keys.iter().chain(&smallest) {
            let begun = smallest.partition_point(|first| order.compare(first, key).is_le());
            let expected = if smallest.len() == 1 { 1 } else { begun };
            let table = fences.table_of(key);
            assert_eq!(
                table,
                u32::try_from(expected).unwrap().wrapping_sub(1),
                "{key:?} in {smallest:?}"
            );
            if let Ok(number) = key.as_slice().try_into().map(u64::from_le_bytes)
                && smallest.iter().all(|key| key.len() == 8)
            {
                assert!(fences.are_numbers());
                assert_eq!(fences.table_of_number(number), table, "{key:?}");
            }
        }
    }

    #[test]
    fn every_key_finds_the_last_table_that_begins_before_it() {
        let mut state = 7_u64;
        let mut draw = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let orders = [
            KeyOrder::Bytewise,
            KeyOrder::ReverseBytewise,
            KeyOrder::Uint64,
        ];
        for round in (0..200_u32).step_by(if cfg!(miri) { 27 } else { 1 }) {
            for order in &orders {
                let mask = u64::MAX >> (draw() % 64);
                let top = draw() & !mask;
                let mut key = || (top | draw() & mask).to_le_bytes().to_vec();
                let smallest = (0..round % 40).map(|_| key()).collect();
                let keys: Vec<_> = (0..50).map(|_| key()).collect();
                check(order, smallest, &keys);
            }
        }
    }

    #[test]
    fn keys_of_equal_numbers_are_told_apart() {
        let key = |tail: &str| format!("the same 8 bytes {tail}").into_bytes();
        let smallest: Vec<_> = ["b", "d", "f", "fa"].map(key).into();
        let keys: Vec<_> = ["", "a", "b", "c", "e", "f", "f0", "fa", "fb", "z"]
            .map(key)
            .into();
        check(&KeyOrder::Bytewise, smallest, &keys);
    }
}
