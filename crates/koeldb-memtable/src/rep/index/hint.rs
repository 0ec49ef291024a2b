//! Hints: eight bytes of a key as a number, compared in place of the key.

use koeldb_base::KeyOrder;
use koeldb_base::comparator::first_bytes;

/// The longest common prefix that hints skip.
const BASE_BYTES_MAX: usize = 64;

/// A common prefix of keys, which their hints skip.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::rep) struct Base {
    len: usize,
    bytes: [u8; BASE_BYTES_MAX],
}

impl Base {
    /// The base without a common prefix: hints begin with the first byte of a key.
    pub(in crate::rep) const EMPTY: Base = Base {
        len: 0,
        bytes: [0; BASE_BYTES_MAX],
    };

    /// Returns the base for keys between `first` and `last`: their common prefix less two bytes.
    ///
    /// Keys numbered in sequence thus keep their base as they rise.
    pub(in crate::rep) fn between(order: &KeyOrder, first: &[u8], last: &[u8]) -> Self {
        let mut base = Self::EMPTY;
        let bytewise = matches!(order, KeyOrder::Bytewise | KeyOrder::ReverseBytewise);
        // A single key says nothing about others.
        if bytewise && first != last {
            let shared = first.iter().zip(last).take_while(|(a, b)| a == b).count();
            base.len = shared.saturating_sub(2).min(BASE_BYTES_MAX);
            base.bytes[..base.len].copy_from_slice(&first[..base.len]);
        }
        base
    }

    /// Returns the hint of a key, a number in key order; keys with equal hints may still differ.
    #[inline]
    pub(in crate::rep) fn hint(&self, order: &KeyOrder, user_key: &[u8]) -> u64 {
        match order {
            KeyOrder::Bytewise => self.bytewise_hint(user_key),
            KeyOrder::ReverseBytewise => !self.bytewise_hint(user_key),
            KeyOrder::Uint64 | KeyOrder::Custom(_) => order.head(user_key),
        }
    }

    /// Returns the hint in bytewise order: the bytes after the base, or a bound for other keys.
    ///
    /// It is 0 before all keys with the base, and the maximum after them.
    #[inline]
    fn bytewise_hint(&self, user_key: &[u8]) -> u64 {
        let base = &self.bytes[..self.len];
        match user_key.strip_prefix(base) {
            Some(rest) => first_bytes(rest),
            None if user_key < base => 0,
            None => u64::MAX,
        }
    }
}
