//! The key that the record of a value must have.
//!
//! A reader knows the key that it looks up, and the record has the one that the value was written
//! with: with a timestamp, and with other bytes if the comparator takes them for the same key.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use koeldb_base::KeyOrder;
use koeldb_base::timestamp::TIMESTAMP_BYTES;

/// The key of a value, as far as its reader knows it.
#[derive(Clone, Copy, Debug)]
pub struct BlobKey<'a> {
    order: &'a KeyOrder,
    user_key: &'a [u8],
    /// Whether `user_key` has a timestamp, which the record's key may have in another form.
    has_timestamp: bool,
}

impl<'a> BlobKey<'a> {
    /// Wraps a key of a read or of an entry, if that has a timestamp.
    #[must_use]
    pub fn new(order: &'a KeyOrder, user_key: &'a [u8], lacks_timestamp: bool) -> Self {
        match lacks_timestamp {
            true => Self::of_read(order, user_key),
            false => Self::of_entry(order, user_key),
        }
    }

    /// Wraps a key as entries have it, with a timestamp if `order` has them.
    ///
    /// The record may have another timestamp: compactions clear those of old versions.
    #[must_use]
    pub fn of_entry(order: &'a KeyOrder, user_key: &'a [u8]) -> Self {
        BlobKey {
            order,
            user_key,
            has_timestamp: order.has_timestamps(),
        }
    }

    /// Wraps a key as reads name it, without a timestamp.
    #[must_use]
    pub fn of_read(order: &'a KeyOrder, user_key: &'a [u8]) -> Self {
        BlobKey {
            order,
            user_key,
            has_timestamp: false,
        }
    }

    /// The length of the record's key, unless [`BlobKey::may_differ_in_length`].
    #[must_use]
    pub fn record_key_bytes(&self) -> u64 {
        let timestamp = match self.order.has_timestamps() && !self.has_timestamp {
            true => TIMESTAMP_BYTES,
            false => 0,
        };
        self.user_key.len().saturating_add(timestamp) as u64
    }

    /// Whether the record's key may have another length: equal keys may differ in their bytes.
    #[must_use]
    pub fn may_differ_in_length(&self) -> bool {
        let order = match self.order.has_timestamps() {
            true => self.order.comparator().builtin_without_timestamps(),
            false => None,
        };
        let order = order.as_ref().unwrap_or(self.order);
        !order.equal_keys_have_equal_bytes()
    }

    /// Whether `record_key` is the key, with any timestamp.
    #[must_use]
    pub fn is(&self, record_key: &[u8]) -> bool {
        let (mut own, mut other) = (self.user_key, record_key);
        if self.order.has_timestamps() {
            let Some((key, _)) = other.split_last_chunk::<TIMESTAMP_BYTES>() else {
                return false;
            };
            other = key;
        }
        if self.has_timestamp {
            own = self.order.strip(own);
        }
        own == other
            || (self.may_differ_in_length()
                && (self.order.comparator())
                    .compare_without_timestamps(own, other)
                    .is_eq())
    }
}
