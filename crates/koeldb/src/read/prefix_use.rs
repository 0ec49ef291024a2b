//! The use that a scan makes of the prefix of the key it is positioned at.
//!
//! A run whose filter denies the prefix is left out of the scan. That changes no answer if all keys
//! that the scan may show have the prefix: because it ends with the prefix, or because its bounds
//! do. RocksDB's default, in which a scan without such an end may or may not show other keys, does
//! not exist here.

use std::ops::Bound;
use std::sync::Arc;

use koeldb_base::KeyOrder;
use koeldb_base::prefix::PrefixExtractor;
use koeldb_table::source::Direction;

use super::options::ReadOptions;
use crate::state::key_bounds::{IterateBounds, KeyBounds, PrefixRange};

/// How a scan uses prefix filters and prefix hashes to leave out runs or entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum PrefixUse {
    /// No use: the scan may leave the prefix.
    #[default]
    None,
    /// Memtables that hash prefixes are searched in one bucket only.
    Bucket,
    /// Runs whose filters deny the prefix are left out, too.
    Filter,
    /// Like [`PrefixUse::Filter`], until the scan steps in the other direction.
    OneWay(Direction),
}

impl PrefixUse {
    /// Returns which prefix filtering a seek to `key` permits without losing keys within `bounds`.
    pub(super) fn of(
        key: &[u8],
        direction: Direction,
        extractor: Option<&Arc<dyn PrefixExtractor>>,
        options: &ReadOptions,
        bounds: &KeyBounds,
        order: &KeyOrder,
        opt_in_only: bool,
    ) -> Self {
        let is_total = options.total_order_seek || opt_in_only;
        if is_total && !options.auto_prefix_mode && !options.prefix_same_as_start {
            return PrefixUse::None;
        }
        let Some(extractor) = extractor else {
            return PrefixUse::None;
        };
        let Some(prefix) = extractor.prefix(key) else {
            return PrefixUse::None;
        };
        let ends = |direction| ends_in(bounds, order, prefix, direction);
        let is_in_prefix = options.prefix_same_as_start;
        if !is_in_prefix && !ends(direction) {
            return PrefixUse::None;
        }
        match extractor.is_leading(prefix) && keeps_together(order, prefix) {
            true if is_in_prefix || ends(opposite(direction)) => PrefixUse::Filter,
            true => PrefixUse::OneWay(direction),
            false if is_in_prefix => PrefixUse::Bucket,
            false => PrefixUse::None,
        }
    }

    /// Whether runs are left out whose prefix filters deny the prefix.
    pub(super) fn filters(self) -> bool {
        matches!(self, PrefixUse::Filter | PrefixUse::OneWay(_))
    }

    /// Whether prefix filtering must end before a step in this direction.
    #[inline]
    pub(super) fn ends_with(self, direction: Direction) -> bool {
        matches!(self, PrefixUse::OneWay(way) if way != direction)
    }
}

/// Returns the opposite scan direction.
const fn opposite(direction: Direction) -> Direction {
    match direction {
        Direction::Forward => Direction::Backward,
        Direction::Backward => Direction::Forward,
    }
}

/// Whether the comparator keeps keys with `prefix` adjacent, and equal keys have equal bytes.
fn keeps_together(order: &KeyOrder, prefix: &[u8]) -> bool {
    match order {
        KeyOrder::Bytewise | KeyOrder::ReverseBytewise => true,
        KeyOrder::Uint64 => false,
        KeyOrder::Custom(comparator) => {
            comparator.equal_keys_have_equal_bytes() && comparator.prefix_bounds(prefix).is_some()
        }
    }
}

/// Whether the bound in this direction limits a scan to keys with `prefix`.
fn ends_in(bounds: &KeyBounds, order: &KeyOrder, prefix: &[u8], direction: Direction) -> bool {
    let bound = match direction {
        Direction::Forward => &bounds.upper,
        Direction::Backward => &bounds.lower,
    };
    match bound {
        Bound::Unbounded => false,
        Bound::Included(key) | Bound::Excluded(key) if key.starts_with(prefix) => true,
        Bound::Included(_) | Bound::Excluded(_) => {
            let range = PrefixRange(prefix).into_bounds(order);
            range.is_some_and(|range| match direction {
                Direction::Forward => range.upper == *bound,
                Direction::Backward => range.lower == *bound,
            })
        }
    }
}
