//! Ranges of user keys, in several forms.

use std::ops::{
    Bound, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive,
};

use koeldb_base::KeyOrder;
use koeldb_base::timestamp::{MAX_TIMESTAMP, MIN_TIMESTAMP, join};

/// A range of user keys with owned bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyBounds {
    /// The lower bound.
    pub lower: Bound<Vec<u8>>,
    /// The upper bound.
    pub upper: Bound<Vec<u8>>,
}

impl Default for KeyBounds {
    fn default() -> Self {
        KeyBounds {
            lower: Bound::Unbounded,
            upper: Bound::Unbounded,
        }
    }
}

impl KeyBounds {
    /// Whether `key` is before the range.
    #[inline]
    pub(crate) fn is_before(&self, order: &KeyOrder, key: &[u8]) -> bool {
        match &self.lower {
            Bound::Included(lower) => order.compare(key, lower).is_lt(),
            Bound::Excluded(lower) => order.compare(key, lower).is_le(),
            Bound::Unbounded => false,
        }
    }

    /// Whether `key` is after the range.
    #[inline]
    pub(crate) fn is_behind(&self, order: &KeyOrder, key: &[u8]) -> bool {
        match &self.upper {
            Bound::Included(upper) => order.compare(key, upper).is_gt(),
            Bound::Excluded(upper) => order.compare(key, upper).is_ge(),
            Bound::Unbounded => false,
        }
    }

    /// Returns the range of all versions of these keys, in which keys end with their timestamps.
    pub(crate) fn with_timestamps(&self) -> KeyBounds {
        let before = |key: &Vec<u8>| join(key, &MAX_TIMESTAMP);
        let after = |key: &Vec<u8>| join(key, &MIN_TIMESTAMP);
        KeyBounds {
            lower: match &self.lower {
                Bound::Included(key) => Bound::Included(before(key)),
                Bound::Excluded(key) => Bound::Excluded(after(key)),
                Bound::Unbounded => Bound::Unbounded,
            },
            upper: match &self.upper {
                Bound::Included(key) => Bound::Included(after(key)),
                Bound::Excluded(key) => Bound::Excluded(before(key)),
                Bound::Unbounded => Bound::Unbounded,
            },
        }
    }

    /// The intersection of the two ranges.
    #[must_use]
    pub(crate) fn narrowed(self, order: &KeyOrder, other: KeyBounds) -> KeyBounds {
        let lower = match (self.lower, other.lower) {
            (Bound::Unbounded, bound) | (bound, Bound::Unbounded) => bound,
            (a, b) => {
                let ordering = order.compare(key_of(&a), key_of(&b));
                let a_is_tighter =
                    ordering.is_gt() || (ordering.is_eq() && matches!(a, Bound::Excluded(_)));
                if a_is_tighter { a } else { b }
            }
        };
        let upper = match (self.upper, other.upper) {
            (Bound::Unbounded, bound) | (bound, Bound::Unbounded) => bound,
            (a, b) => {
                let ordering = order.compare(key_of(&a), key_of(&b));
                let a_is_tighter =
                    ordering.is_lt() || (ordering.is_eq() && matches!(a, Bound::Excluded(_)));
                if a_is_tighter { a } else { b }
            }
        };
        KeyBounds { lower, upper }
    }
}

/// Returns the key of a bound; empty if it is unbounded.
fn key_of(bound: &Bound<Vec<u8>>) -> &[u8] {
    match bound {
        Bound::Included(key) | Bound::Excluded(key) => key,
        Bound::Unbounded => &[],
    }
}

/// The keys with a prefix, for comparators that sort such keys together.
///
/// All keys have the empty prefix.
#[derive(Clone, Copy, Debug)]
pub struct PrefixRange<P>(
    /// The prefix of the keys.
    pub P,
);

/// A range to scan: `..`, `"a".."b"`, `..=key`, a pair of [`Bound`]s, a [`PrefixRange`].
pub trait IterateBounds {
    /// Converts to key bounds; `None` if the keys with a prefix are not contiguous in `order`.
    fn into_bounds(self, order: &KeyOrder) -> Option<KeyBounds>;
}

/// Copies the bounds of a range.
fn owned(bounds: &impl RangeBounds<Vec<u8>>) -> KeyBounds {
    KeyBounds {
        lower: bounds.start_bound().cloned(),
        upper: bounds.end_bound().cloned(),
    }
}

impl IterateBounds for KeyBounds {
    fn into_bounds(self, _order: &KeyOrder) -> Option<KeyBounds> {
        Some(self)
    }
}

impl IterateBounds for RangeFull {
    fn into_bounds(self, _order: &KeyOrder) -> Option<KeyBounds> {
        Some(KeyBounds::default())
    }
}

impl<K: AsRef<[u8]>> IterateBounds for Range<K> {
    fn into_bounds(self, _order: &KeyOrder) -> Option<KeyBounds> {
        Some(owned(
            &(self.start.as_ref().to_vec()..self.end.as_ref().to_vec()),
        ))
    }
}

impl<K: AsRef<[u8]>> IterateBounds for RangeInclusive<K> {
    fn into_bounds(self, _order: &KeyOrder) -> Option<KeyBounds> {
        let (start, end) = self.into_inner();
        Some(owned(&(start.as_ref().to_vec()..=end.as_ref().to_vec())))
    }
}

impl<K: AsRef<[u8]>> IterateBounds for RangeFrom<K> {
    fn into_bounds(self, _order: &KeyOrder) -> Option<KeyBounds> {
        Some(owned(&(self.start.as_ref().to_vec()..)))
    }
}

impl<K: AsRef<[u8]>> IterateBounds for RangeTo<K> {
    fn into_bounds(self, _order: &KeyOrder) -> Option<KeyBounds> {
        Some(owned(&(..self.end.as_ref().to_vec())))
    }
}

impl<K: AsRef<[u8]>> IterateBounds for RangeToInclusive<K> {
    fn into_bounds(self, _order: &KeyOrder) -> Option<KeyBounds> {
        Some(owned(&(..=self.end.as_ref().to_vec())))
    }
}

impl<A: AsRef<[u8]>, B: AsRef<[u8]>> IterateBounds for (Bound<A>, Bound<B>) {
    fn into_bounds(self, _order: &KeyOrder) -> Option<KeyBounds> {
        Some(KeyBounds {
            lower: self.0.map(|key| key.as_ref().to_vec()),
            upper: self.1.map(|key| key.as_ref().to_vec()),
        })
    }
}

impl<P: AsRef<[u8]>> IterateBounds for PrefixRange<P> {
    fn into_bounds(self, order: &KeyOrder) -> Option<KeyBounds> {
        let prefix = self.0.as_ref();
        if prefix.is_empty() {
            return Some(KeyBounds::default());
        }
        let (lower, upper) = order.comparator().prefix_bounds(prefix)?;
        Some(KeyBounds { lower, upper })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_narrow_to_what_they_share() {
        let order = KeyOrder::Bytewise;
        let a = ("b".."m").into_bounds(&order).unwrap();
        let b = (Bound::Excluded("b"), Bound::<&str>::Unbounded)
            .into_bounds(&order)
            .unwrap();
        let both = a.narrowed(&order, b);
        assert_eq!(both.lower, Bound::Excluded(b"b".to_vec()));
        assert!(both.is_before(&order, b"b") && !both.is_before(&order, b"ba"));
        assert!(both.is_behind(&order, b"m") && !both.is_behind(&order, b"l"));
        let prefix = PrefixRange("a\u{7f}").into_bounds(&order).unwrap();
        assert_eq!(prefix.upper, Bound::Excluded(b"a\x80".to_vec()));
        let reverse = PrefixRange("ab")
            .into_bounds(&KeyOrder::ReverseBytewise)
            .unwrap();
        assert_eq!(reverse.lower, Bound::Excluded(b"ac".to_vec()));
        assert_eq!(reverse.upper, Bound::Included(b"ab".to_vec()));
        let all = PrefixRange("").into_bounds(&KeyOrder::Uint64);
        assert_eq!(all, Some(KeyBounds::default()));
        assert_eq!(PrefixRange("a").into_bounds(&KeyOrder::Uint64), None);
    }
}
