//! Bounds of scans.

use std::ops;

/// A range of keys that limits an iterator.
///
/// See [`ReadOptions::set_iterate_range`](crate::ReadOptions::set_iterate_range).
pub trait IterateBounds {
    /// Converts to the inclusive lower and the exclusive upper iterate bound; `None` is unbounded.
    fn into_bounds(self) -> (Option<Vec<u8>>, Option<Vec<u8>>);
}

impl IterateBounds for ops::RangeFull {
    fn into_bounds(self) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        (None, None)
    }
}

impl<K: Into<Vec<u8>>> IterateBounds for ops::Range<K> {
    fn into_bounds(self) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        (Some(self.start.into()), Some(self.end.into()))
    }
}

impl<K: Into<Vec<u8>>> IterateBounds for ops::RangeFrom<K> {
    fn into_bounds(self) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        (Some(self.start.into()), None)
    }
}

impl<K: Into<Vec<u8>>> IterateBounds for ops::RangeTo<K> {
    fn into_bounds(self) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        (None, Some(self.end.into()))
    }
}

/// The range of all keys that begin with a prefix, in bytewise order.
#[derive(Clone, Copy)]
pub struct PrefixRange<K>(
    /// The prefix.
    pub K,
);

impl<K: Into<Vec<u8>>> IterateBounds for PrefixRange<K> {
    fn into_bounds(self) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        let start = self.0.into();
        if start.is_empty() {
            return (None, None);
        }
        let end = start.iter().rposition(|&byte| byte != u8::MAX).map(|last| {
            let mut end = start[..=last].to_vec();
            end[last] += 1;
            end
        });
        (Some(start), end)
    }
}
