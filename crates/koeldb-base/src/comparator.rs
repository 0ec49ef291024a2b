//! The order of user keys: the trait users implement and the enum the engine compares with.
//!
//! The engine never calls a comparator through `dyn` for the built-in orders: [`KeyOrder`]
//! recognises them when the option is set, and matches on every comparison.

use std::cmp::Ordering;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use crate::key::{FOOTER_BYTES, footer_of};
use crate::timestamp::{
    self, BytewiseComparatorWithU64Ts, ReverseBytewiseComparatorWithU64Ts, TIMESTAMP_BYTES,
    Timestamp, WithoutTimestamps,
};

/// The lower and upper bound of the keys with a prefix, in the order of a comparator.
pub type PrefixBounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// A total order of user keys. Its name is stored with the data: opening under another name fails.
pub trait Comparator: Send + Sync + 'static {
    /// The name of the order, recorded in the MANIFEST.
    fn name(&self) -> &str;

    /// Compares two user keys.
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering;

    /// May replace `start` by a short `s`, `start <= s < limit` (`FindShortestSeparator`).
    fn shorten_separator(&self, start: &mut Vec<u8>, limit: &[u8]) {
        let _ = (start, limit);
    }

    /// May replace `key` by a short `s`, `key <= s` (`FindShortSuccessor`).
    fn shorten_successor(&self, key: &mut Vec<u8>) {
        let _ = key;
    }

    /// Returns bounds of the keys with `prefix`; `None` if this order does not keep them adjacent.
    ///
    /// The bounds are in this order: all keys with the prefix, and no others, are between them. All
    /// keys begin with the empty prefix; no comparator is asked for it.
    fn prefix_bounds(&self, prefix: &[u8]) -> Option<PrefixBounds> {
        let _ = prefix;
        None
    }

    /// Whether keys that compare as equal have the same bytes.
    ///
    /// False is correct for every order: a lookup then also finds an equal key with other bytes. The
    /// default is false.
    fn equal_keys_have_equal_bytes(&self) -> bool {
        false
    }

    /// Whether filters, memtables that hash prefixes, and key locks may use the bytes of keys.
    ///
    /// Such structures treat keys of different bytes as different keys. RocksDB uses them with every
    /// comparator: its users must not configure them for one that equates different bytes. The
    /// default is [`Comparator::equal_keys_have_equal_bytes`].
    fn permits_hashes(&self) -> bool {
        self.equal_keys_have_equal_bytes()
    }

    /// The number of bytes of the user-defined timestamp at the end of each key: 0 or 8.
    ///
    /// With timestamps, [`Comparator::compare`] orders keys without timestamps first, and then the
    /// newest timestamp first. The default is 0, no timestamps.
    fn timestamp_bytes(&self) -> usize {
        0
    }

    /// Compares two timestamps; the default compares little-endian numbers.
    ///
    /// Eight bytes 0 must be the smallest timestamp, and eight bytes 255 the largest.
    fn compare_timestamps(&self, a: &Timestamp, b: &Timestamp) -> Ordering {
        u64::from_le_bytes(*a).cmp(&u64::from_le_bytes(*b))
    }

    /// Compares two keys from which the timestamps were removed.
    fn compare_without_timestamps(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.compare(a, b)
    }

    /// Returns the built-in order of the keys without timestamps; `None` if it is a user's.
    #[doc(hidden)]
    fn builtin_without_timestamps(&self) -> Option<KeyOrder> {
        None
    }

    /// Returns the `KeyOrder` variant of a built-in comparator; `None` for a user's.
    #[doc(hidden)]
    fn builtin(&self) -> Option<KeyOrder> {
        None
    }
}

/// `leveldb.BytewiseComparator`: lexicographic by unsigned bytes. The default.
#[derive(Clone, Copy, Debug, Default)]
pub struct BytewiseComparator;

/// `rocksdb.ReverseBytewiseComparator`: the opposite of [`BytewiseComparator`].
#[derive(Clone, Copy, Debug, Default)]
pub struct ReverseBytewiseComparator;

/// `rocksdb.Uint64Comparator`: keys of exactly 8 bytes, compared as little-endian integers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Uint64Comparator;

/// The smallest key after all keys that begin with `prefix`, in bytewise order.
fn bytewise_prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

impl Comparator for BytewiseComparator {
    fn name(&self) -> &str {
        "leveldb.BytewiseComparator"
    }

    fn equal_keys_have_equal_bytes(&self) -> bool {
        true
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.cmp(b)
    }

    fn shorten_separator(&self, start: &mut Vec<u8>, limit: &[u8]) {
        let min = start.len().min(limit.len());
        let common = start.iter().zip(limit).take_while(|(a, b)| a == b).count();
        if common >= min || start[common] >= limit[common] {
            return;
        }
        if common + 1 < limit.len() || start[common] + 1 < limit[common] {
            start[common] += 1;
            start.truncate(common + 1);
            return;
        }
        let after = common + 1;
        if let Some(at) = start[after..].iter().position(|&byte| byte != 0xff) {
            start[after + at] += 1;
            start.truncate(after + at + 1);
        }
    }

    fn shorten_successor(&self, key: &mut Vec<u8>) {
        if let Some(at) = key.iter().position(|&byte| byte != 0xff) {
            key[at] += 1;
            key.truncate(at + 1);
        }
    }

    fn prefix_bounds(&self, prefix: &[u8]) -> Option<PrefixBounds> {
        let end = bytewise_prefix_end(prefix).map_or(Bound::Unbounded, Bound::Excluded);
        Some((Bound::Included(prefix.to_vec()), end))
    }

    fn builtin(&self) -> Option<KeyOrder> {
        Some(KeyOrder::Bytewise)
    }
}

impl Comparator for ReverseBytewiseComparator {
    fn name(&self) -> &str {
        "rocksdb.ReverseBytewiseComparator"
    }

    fn equal_keys_have_equal_bytes(&self) -> bool {
        true
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }

    fn shorten_separator(&self, start: &mut Vec<u8>, limit: &[u8]) {
        let common = start.iter().zip(limit).take_while(|(a, b)| a == b).count();
        if common >= start.len().min(limit.len()) {
            return;
        }
        if start[common] > limit[common] && common + 1 < start.len() {
            start.truncate(common + 1);
        }
    }

    // The prefix itself is the last of its keys, and none is the first: it can be continued by any
    // number of 0xff.
    fn prefix_bounds(&self, prefix: &[u8]) -> Option<PrefixBounds> {
        let end = bytewise_prefix_end(prefix).map_or(Bound::Unbounded, Bound::Excluded);
        Some((end, Bound::Included(prefix.to_vec())))
    }

    fn builtin(&self) -> Option<KeyOrder> {
        Some(KeyOrder::ReverseBytewise)
    }
}

impl Comparator for Uint64Comparator {
    fn name(&self) -> &str {
        "rocksdb.Uint64Comparator"
    }

    fn equal_keys_have_equal_bytes(&self) -> bool {
        true
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        uint64_compare(a, b)
    }

    fn builtin(&self) -> Option<KeyOrder> {
        Some(KeyOrder::Uint64)
    }
}

/// Compares keys of 8 bytes as little-endian integers.
///
/// Keys of any other length, which the write path refuses, sort after them in bytewise order, so
/// that the order is total for any file content.
fn uint64_compare(a: &[u8], b: &[u8]) -> Ordering {
    match (<[u8; 8]>::try_from(a), <[u8; 8]>::try_from(b)) {
        (Ok(a), Ok(b)) => u64::from_le_bytes(a).cmp(&u64::from_le_bytes(b)),
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => a.cmp(b),
    }
}

/// Returns the first eight bytes of a key as a big-endian number, a shorter key padded with zeros.
///
/// The number sorts like the bytes.
#[inline]
#[must_use]
pub fn first_bytes(key: &[u8]) -> u64 {
    match key.first_chunk() {
        Some(first) => u64::from_le_bytes(*first).swap_bytes(),
        None => short_number(key),
    }
}

/// Returns [`first_bytes`] of a key shorter than eight bytes.
///
/// Combines overlapping loads of its first and last bytes, each a power of two long.
#[inline]
fn short_number(key: &[u8]) -> u64 {
    let bits = u32::try_from(key.len()).map_or(u64::BITS, |bytes| bytes.saturating_mul(8));
    let unused = u64::BITS.saturating_sub(bits);
    if let (Some(first), Some(last)) = (key.first_chunk(), key.last_chunk()) {
        let first = u64::from(u32::from_le_bytes(*first).swap_bytes()) << 32;
        let last = u64::from(u32::from_le_bytes(*last).swap_bytes());
        first | last.unbounded_shl(unused)
    } else if let (Some(first), Some(last)) = (key.first_chunk(), key.last_chunk()) {
        let first = u64::from(u16::from_le_bytes(*first).swap_bytes()) << 48;
        let last = u64::from(u16::from_le_bytes(*last).swap_bytes());
        first | last.unbounded_shl(unused)
    } else {
        key.first().map_or(0, |byte| u64::from(*byte) << 56)
    }
}

/// The comparator in use: a built-in one, called without indirection, or a user's.
#[derive(Clone, Default)]
pub enum KeyOrder {
    /// [`BytewiseComparator`].
    #[default]
    Bytewise,
    /// [`ReverseBytewiseComparator`].
    ReverseBytewise,
    /// [`Uint64Comparator`].
    Uint64,
    /// A user-defined comparator.
    Custom(Arc<dyn Comparator>),
}

impl KeyOrder {
    /// Creates the order of `comparator`; recognises the built-in ones.
    pub fn new(comparator: impl Comparator) -> Self {
        comparator
            .builtin()
            .unwrap_or_else(|| KeyOrder::Custom(Arc::new(comparator)))
    }

    /// Returns the built-in order of the comparator that RocksDB records under `name`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [
            KeyOrder::Bytewise,
            KeyOrder::ReverseBytewise,
            KeyOrder::Uint64,
            KeyOrder::new(BytewiseComparatorWithU64Ts),
            KeyOrder::new(ReverseBytewiseComparatorWithU64Ts),
        ]
        .into_iter()
        .find(|order| order.name() == name)
    }

    /// Whether keys end with a user-defined timestamp.
    #[inline]
    #[must_use]
    pub fn has_timestamps(&self) -> bool {
        match self {
            KeyOrder::Custom(comparator) => comparator.timestamp_bytes() == TIMESTAMP_BYTES,
            _ => false,
        }
    }

    /// Returns a user key without its timestamp, if this order has timestamps.
    #[inline]
    #[must_use]
    pub fn strip<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        match self.has_timestamps() {
            true => timestamp::split(key).0,
            false => key,
        }
    }

    /// Returns the order of the keys without timestamps: this order, if it has none.
    #[must_use]
    pub fn without_timestamps(&self) -> KeyOrder {
        match self {
            KeyOrder::Custom(comparator) if self.has_timestamps() => comparator
                .builtin_without_timestamps()
                .unwrap_or_else(|| KeyOrder::new(WithoutTimestamps(Arc::clone(comparator)))),
            order => order.clone(),
        }
    }

    /// Compares two timestamps.
    #[must_use]
    pub fn compare_timestamps(&self, a: &Timestamp, b: &Timestamp) -> Ordering {
        self.comparator().compare_timestamps(a, b)
    }

    /// Compares two user keys regardless of their timestamps, if this order has timestamps.
    #[inline]
    #[must_use]
    pub fn compare_without_timestamps(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            KeyOrder::Custom(comparator) if self.has_timestamps() => {
                let (a, b) = (timestamp::split(a).0, timestamp::split(b).0);
                comparator.compare_without_timestamps(a, b)
            }
            order => order.compare(a, b),
        }
    }

    /// Whether two user keys are equal regardless of their timestamps.
    #[inline]
    #[must_use]
    pub fn equal_without_timestamps(&self, a: &[u8], b: &[u8]) -> bool {
        match self {
            KeyOrder::Custom(_) => self.compare_without_timestamps(a, b).is_eq(),
            _ => a == b,
        }
    }

    /// Returns the user key that sorts before all versions of `key`: with the largest timestamp.
    ///
    /// Without timestamps, that is the key itself.
    #[must_use]
    pub fn before_versions(&self, key: &[u8]) -> Vec<u8> {
        match self.has_timestamps() {
            true => timestamp::join(timestamp::split(key).0, &timestamp::MAX_TIMESTAMP),
            false => key.to_vec(),
        }
    }

    /// The comparator of this order.
    #[must_use]
    pub fn comparator(&self) -> &dyn Comparator {
        match self {
            KeyOrder::Bytewise => &BytewiseComparator,
            KeyOrder::ReverseBytewise => &ReverseBytewiseComparator,
            KeyOrder::Uint64 => &Uint64Comparator,
            KeyOrder::Custom(comparator) => &**comparator,
        }
    }

    /// The comparator's name, which the MANIFEST and the tables record.
    #[must_use]
    pub fn name(&self) -> &str {
        self.comparator().name()
    }

    /// Whether this is the built-in bytewise order.
    #[must_use]
    pub fn is_bytewise(&self) -> bool {
        matches!(self, KeyOrder::Bytewise)
    }

    /// Compares two user keys.
    #[inline]
    #[must_use]
    pub fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            KeyOrder::Bytewise => a.cmp(b),
            KeyOrder::ReverseBytewise => b.cmp(a),
            KeyOrder::Uint64 => uint64_compare(a, b),
            KeyOrder::Custom(comparator) => comparator.compare(a, b),
        }
    }

    /// Returns a number for a user key: if the numbers of two keys differ, they sort like the keys.
    #[inline]
    #[must_use]
    pub fn head(&self, key: &[u8]) -> u64 {
        match self {
            KeyOrder::Bytewise => first_bytes(key),
            KeyOrder::ReverseBytewise => !first_bytes(key),
            KeyOrder::Uint64 => key.try_into().map_or(u64::MAX, u64::from_le_bytes),
            KeyOrder::Custom(_) => 0,
        }
    }

    /// Whether two user keys compare as equal.
    #[inline]
    #[must_use]
    pub fn equal(&self, a: &[u8], b: &[u8]) -> bool {
        match self {
            KeyOrder::Custom(comparator) => comparator.compare(a, b).is_eq(),
            _ => a == b,
        }
    }

    /// Whether keys that compare as equal have the same bytes; hashes of keys are used only then.
    #[inline]
    #[must_use]
    pub fn equal_keys_have_equal_bytes(&self) -> bool {
        match self {
            KeyOrder::Custom(comparator) => comparator.equal_keys_have_equal_bytes(),
            _ => true,
        }
    }

    /// Whether filters, memtables that hash prefixes, and key locks may use the bytes of whole keys.
    #[inline]
    #[must_use]
    pub fn permits_hashes(&self) -> bool {
        match self {
            // A timestamp is not hashed.
            KeyOrder::Custom(comparator) => comparator.permits_hashes() && !self.has_timestamps(),
            _ => true,
        }
    }

    /// Compares two internal keys: by user key ascending, then newest first.
    ///
    /// A slice shorter than a footer counts as a user key with footer 0; decoders refuse such keys
    /// earlier.
    #[inline]
    #[must_use]
    pub fn compare_internal(&self, a: &[u8], b: &[u8]) -> Ordering {
        let (a_user, a_footer) = footer_of(a);
        let (b_user, b_footer) = footer_of(b);
        self.compare(a_user, b_user).then(b_footer.cmp(&a_footer))
    }

    /// A short internal key `s` with `last <= s < next`, for an index entry between two blocks.
    #[must_use]
    pub fn internal_separator(&self, last: &[u8], next: &[u8]) -> Vec<u8> {
        let (last_user, _) = footer_of(last);
        let (next_user, _) = footer_of(next);
        let mut short = last_user.to_vec();
        self.comparator().shorten_separator(&mut short, next_user);
        self.shortened(last, last_user, short)
    }

    /// A short internal key `s` with `last <= s`, for the last index entry of a table.
    #[must_use]
    pub fn internal_successor(&self, last: &[u8]) -> Vec<u8> {
        let (last_user, _) = footer_of(last);
        let mut short = last_user.to_vec();
        self.comparator().shorten_successor(&mut short);
        self.shortened(last, last_user, short)
    }

    /// Returns `short` as internal key if it sorts after `last` and is not longer, or else `last`.
    fn shortened(&self, last: &[u8], last_user: &[u8], mut short: Vec<u8>) -> Vec<u8> {
        if short.len() <= last_user.len() && self.compare(last_user, &short) == Ordering::Less {
            let footer = crate::key::pack(crate::key::MAX_SEQNO, crate::key::ValueType::FOR_SEEK);
            short.reserve_exact(FOOTER_BYTES);
            short.extend_from_slice(&footer.to_le_bytes());
            short
        } else {
            last.to_vec()
        }
    }
}

impl fmt::Debug for KeyOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl PartialEq for KeyOrder {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{ValueType, encode};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn separators_lie_between_their_keys(mut a: Vec<u8>, mut b: Vec<u8>, reverse: bool) {
            let order = if reverse { KeyOrder::ReverseBytewise } else { KeyOrder::Bytewise };
            if order.compare(&a, &b) == Ordering::Greater {
                std::mem::swap(&mut a, &mut b);
            }
            let last = encode(&a, 9, ValueType::Value);
            let next = encode(&b, 7, ValueType::Value);
            let separator = order.internal_separator(&last, &next);
            prop_assert!(order.compare_internal(&last, &separator).is_le());
            prop_assert!(order.compare_internal(&separator, &next).is_lt());
            let successor = order.internal_successor(&last);
            prop_assert!(order.compare_internal(&last, &successor).is_le());
        }
    }

    proptest! {
        #[test]
        fn heads_say_nothing_else_than_their_keys(
            a in proptest::collection::vec(0..3_u8, 0..12),
            b in proptest::collection::vec(0..3_u8, 0..12),
        ) {
            for order in [KeyOrder::Bytewise, KeyOrder::ReverseBytewise, KeyOrder::Uint64] {
                let by_heads = order.head(&a).cmp(&order.head(&b));
                prop_assert!(by_heads.is_eq() || by_heads == order.compare(&a, &b));
            }
        }
    }

    #[test]
    fn heads_tell_most_keys_apart() {
        let ascending: [&[u8]; 5] = [b"", b"a", b"aa", b"abcdefgh", b"ab\xff"];
        for (a, b) in ascending.iter().zip(&ascending[1..]) {
            assert!(KeyOrder::Bytewise.head(a) < KeyOrder::Bytewise.head(b));
            assert!(KeyOrder::ReverseBytewise.head(a) > KeyOrder::ReverseBytewise.head(b));
        }
        let number = |number: u64| KeyOrder::Uint64.head(&number.to_le_bytes());
        assert!(number(255) < number(256));
    }

    #[test]
    fn newer_entries_of_a_key_come_first() {
        let newer = encode(b"k", 2, ValueType::Value);
        let older = encode(b"k", 1, ValueType::Deletion);
        assert_eq!(
            KeyOrder::Bytewise.compare_internal(&newer, &older),
            Ordering::Less
        );
        assert_eq!(bytewise_prefix_end(&[1, 0xff]), Some(vec![2]));
        assert_eq!(bytewise_prefix_end(&[0xff]), None);
    }
}
