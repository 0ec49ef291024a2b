//! User-defined timestamps: the last eight bytes of the keys of some column families.
//!
//! ```text
//! user key = the key of the user ‖ timestamp of 8 bytes
//! ```
//!
//! A comparator with timestamps orders the keys of the user first and, among the versions of one
//! key, the newest timestamp first. Filters, prefixes, bounds and the arguments of reads have no
//! timestamps. (RocksDB 11.9: `util/comparator.cc`, `ComparatorWithU64TsImpl`.)

use std::cmp::Ordering;

use crate::comparator::{Comparator, KeyOrder};
use crate::key::footer_of;

/// The number of bytes of a timestamp.
pub const TIMESTAMP_BYTES: usize = 8;

/// A user-defined timestamp as stored. The built-in orders compare little-endian numbers.
pub type Timestamp = [u8; TIMESTAMP_BYTES];

/// The smallest timestamp: the last version of a key, and that of collapsed history.
pub const MIN_TIMESTAMP: Timestamp = [0; TIMESTAMP_BYTES];

/// The largest timestamp: with it, a key sorts before all its versions.
pub const MAX_TIMESTAMP: Timestamp = [0xff; TIMESTAMP_BYTES];

/// The timestamp and the footer of an entry as stored, for cursors that show it without.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EntryVersion {
    /// The timestamp.
    pub timestamp: Timestamp,
    /// The sequence number and the type, as [`crate::key::pack`] packs them.
    pub footer: u64,
}

/// The end of the name of a comparator with timestamps; before it is that of the one without.
const NAME_SUFFIX: &str = ".u64ts";

/// Whether the comparator `dated` is the comparator `plain` with timestamps, by their names.
#[must_use]
pub fn is_name_with_timestamps(dated: &str, plain: &str) -> bool {
    dated.strip_suffix(NAME_SUFFIX) == Some(plain)
}

/// Whether a comparator says by its name that its timestamps are numbers of 64 bits.
#[must_use]
pub fn names_numbers(name: &str) -> bool {
    name.strip_suffix(NAME_SUFFIX)
        .is_some_and(|plain| !plain.is_empty())
}

/// Splits a user key into the key without timestamp and its timestamp.
///
/// A key that is shorter than a timestamp, which no write accepts, counts as one without a version:
/// its timestamp is the smallest.
#[inline]
#[must_use]
pub fn split(key: &[u8]) -> (&[u8], Timestamp) {
    match key.split_last_chunk() {
        Some((key, timestamp)) => (key, *timestamp),
        None => (key, MIN_TIMESTAMP),
    }
}

/// Replaces the content of `out` by `key` with `timestamp`.
pub fn join_into(out: &mut Vec<u8>, key: &[u8], timestamp: &Timestamp) {
    out.clear();
    out.reserve(key.len() + TIMESTAMP_BYTES);
    out.extend_from_slice(key);
    out.extend_from_slice(timestamp);
}

/// Returns `key` with `timestamp`.
#[must_use]
pub fn join(key: &[u8], timestamp: &Timestamp) -> Vec<u8> {
    let mut out = Vec::new();
    join_into(&mut out, key, timestamp);
    out
}

/// Replaces `out` by the internal key `key`, whose user key lacks a timestamp, with `timestamp`.
pub fn with_timestamp_into(out: &mut Vec<u8>, key: &[u8], timestamp: &Timestamp) {
    let (user_key, footer) = footer_of(key);
    join_into(out, user_key, timestamp);
    out.extend_from_slice(&footer.to_le_bytes());
}

/// Replaces `out` by the internal key `key` without the timestamp of its user key.
pub fn strip_internal_into(out: &mut Vec<u8>, key: &[u8]) {
    let (user_key, footer) = footer_of(key);
    out.clear();
    out.extend_from_slice(split(user_key).0);
    out.extend_from_slice(&footer.to_le_bytes());
}

/// Compares timestamps as little-endian numbers.
fn compare_numbers(a: &Timestamp, b: &Timestamp) -> Ordering {
    u64::from_le_bytes(*a).cmp(&u64::from_le_bytes(*b))
}

/// `leveldb.BytewiseComparator.u64ts`: keys in bytewise order, each with a 64-bit timestamp.
///
/// Versions of a key are ordered by timestamp, newest first. Separators are not shortened.
#[derive(Clone, Copy, Debug, Default)]
pub struct BytewiseComparatorWithU64Ts;

/// `rocksdb.ReverseBytewiseComparator.u64ts`: keys in reverse order, with 64-bit timestamps.
///
/// Versions of a key are ordered by timestamp, newest first. Separators are not shortened.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReverseBytewiseComparatorWithU64Ts;

impl Comparator for BytewiseComparatorWithU64Ts {
    fn name(&self) -> &str {
        "leveldb.BytewiseComparator.u64ts"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let ((a, a_time), (b, b_time)) = (split(a), split(b));
        a.cmp(b).then_with(|| compare_numbers(&b_time, &a_time))
    }

    fn timestamp_bytes(&self) -> usize {
        TIMESTAMP_BYTES
    }

    fn compare_without_timestamps(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.cmp(b)
    }

    fn builtin_without_timestamps(&self) -> Option<KeyOrder> {
        Some(KeyOrder::Bytewise)
    }
}

impl Comparator for ReverseBytewiseComparatorWithU64Ts {
    fn name(&self) -> &str {
        "rocksdb.ReverseBytewiseComparator.u64ts"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let ((a, a_time), (b, b_time)) = (split(a), split(b));
        b.cmp(a).then_with(|| compare_numbers(&b_time, &a_time))
    }

    fn timestamp_bytes(&self) -> usize {
        TIMESTAMP_BYTES
    }

    fn compare_without_timestamps(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }

    fn builtin_without_timestamps(&self) -> Option<KeyOrder> {
        Some(KeyOrder::ReverseBytewise)
    }
}

/// The order of the keys of a user's comparator with timestamps, without the timestamps.
pub(crate) struct WithoutTimestamps(pub(crate) std::sync::Arc<dyn Comparator>);

impl Comparator for WithoutTimestamps {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.0.compare_without_timestamps(a, b)
    }

    fn permits_hashes(&self) -> bool {
        self.0.permits_hashes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{ValueType, encode};

    fn order(name: &str) -> KeyOrder {
        KeyOrder::from_name(name).unwrap()
    }

    fn at(key: &str, timestamp: u64) -> Vec<u8> {
        join(key.as_bytes(), &timestamp.to_le_bytes())
    }

    #[test]
    fn versions_of_a_key_are_ordered_by_number_newest_first() {
        for name in [
            "leveldb.BytewiseComparator.u64ts",
            "rocksdb.ReverseBytewiseComparator.u64ts",
        ] {
            let order = order(name);
            assert!(order.has_timestamps());
            // As bytes, 256 is less than 1.
            assert!(order.compare(&at("k", 256), &at("k", 1)).is_lt());
            assert!(order.equal_without_timestamps(&at("k", 256), &at("k", 1)));
            assert!(!order.equal(&at("k", 256), &at("k", 1)));
            let newer = encode(&at("k", 5), 1, ValueType::Value);
            let older = encode(&at("k", 4), 9, ValueType::Value);
            assert!(order.compare_internal(&newer, &older).is_lt());
        }
        let forward = order("leveldb.BytewiseComparator.u64ts");
        assert!(forward.compare(&at("a", 1), &at("ab", 9)).is_lt());
        assert_eq!(forward.without_timestamps(), KeyOrder::Bytewise);
        let reverse = order("rocksdb.ReverseBytewiseComparator.u64ts");
        assert!(reverse.compare(&at("a", 1), &at("ab", 9)).is_gt());
        assert_eq!(reverse.without_timestamps(), KeyOrder::ReverseBytewise);
    }

    #[test]
    fn separators_are_not_shortened() {
        let order = order("leveldb.BytewiseComparator.u64ts");
        let last = encode(&at("abcdef", 5), 1, ValueType::Value);
        let next = encode(&at("z", 5), 2, ValueType::Value);
        assert_eq!(order.internal_separator(&last, &next), last);
        assert_eq!(order.internal_successor(&last), last);
    }

    #[test]
    fn a_key_shorter_than_a_timestamp_is_ordered_too() {
        let order = order("leveldb.BytewiseComparator.u64ts");
        assert!(order.compare(b"a", &at("b", 1)).is_lt());
        assert!(order.compare(b"", b"").is_eq());
    }
}
