//! Comparators made of functions.
//!
//! The API takes a `Box<dyn Fn>` that need not be `Send` or `Sync`, and the engine calls it from many
//! threads.
//!
//! Invariant: the caller of [`Options::set_comparator`](crate::Options::set_comparator) passes a
//! function that may be called, moved and dropped by any thread, as its documentation demands.
#![expect(
    unsafe_code,
    reason = "the API takes a comparator without Send, and vouches for it"
)]

use std::cmp::Ordering;

use koeldb::Timestamp;

/// Compares two keys.
pub(crate) type CompareFn = dyn Fn(&[u8], &[u8]) -> Ordering;

/// Compares two timestamps.
pub(crate) type CompareTsFn = dyn Fn(&[u8], &[u8]) -> Ordering;

/// Compares two keys, each with or without its timestamp.
pub(crate) type CompareWithoutTsFn = dyn Fn(&[u8], bool, &[u8], bool) -> Ordering;

/// A user comparator whose order is given by a closure.
pub(crate) struct FunctionComparator {
    pub(crate) name: String,
    pub(crate) compare: Box<CompareFn>,
    /// The functions of keys with timestamps; `None` if keys have none.
    pub(crate) timestamps: Option<TimestampFunctions>,
}

/// The size of timestamps, and the functions that compare them and the keys without them.
pub(crate) struct TimestampFunctions {
    pub(crate) bytes: usize,
    pub(crate) compare: Box<CompareTsFn>,
    pub(crate) compare_without: Box<CompareWithoutTsFn>,
}

// SAFETY: the functions may be moved to and dropped by another thread, by the module's invariant,
// which the caller of `set_comparator` keeps. The name is a string.
unsafe impl Send for FunctionComparator {}
// SAFETY: the functions may be called by many threads, by the module's invariant, which the caller of
// `set_comparator` keeps. The name is a string.
unsafe impl Sync for FunctionComparator {}

impl koeldb::Comparator for FunctionComparator {
    fn name(&self) -> &str {
        &self.name
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        (self.compare)(a, b)
    }

    // The caller sets filters only if equal keys have equal bytes, as in the original.
    fn permits_hashes(&self) -> bool {
        true
    }

    fn timestamp_bytes(&self) -> usize {
        self.timestamps.as_ref().map_or(0, |of| of.bytes)
    }

    fn compare_timestamps(&self, a: &Timestamp, b: &Timestamp) -> Ordering {
        match &self.timestamps {
            Some(of) => (of.compare)(a, b),
            None => a.cmp(b),
        }
    }

    fn compare_without_timestamps(&self, a: &[u8], b: &[u8]) -> Ordering {
        match &self.timestamps {
            Some(of) => (of.compare_without)(a, false, b, false),
            None => (self.compare)(a, b),
        }
    }
}
