//! The common length and the range of the user keys of a cuckoo table under construction.

use super::records::{FallbackReason, Possible};

/// The common length of a cuckoo table's user keys, with the bytewise smallest and largest.
#[derive(Debug, Default)]
pub(super) struct UserKeys {
    smallest: Vec<u8>,
    largest: Vec<u8>,
}

impl UserKeys {
    /// The length of every key; 0 without keys.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.smallest.len()
    }

    /// The bytewise smallest user key.
    pub(super) fn smallest(&self) -> &[u8] {
        &self.smallest
    }

    /// The bytewise largest user key.
    pub(super) fn largest(&self) -> &[u8] {
        &self.largest
    }

    /// Checks that a key has the length of the others, and is not empty.
    pub(super) fn check(&self, user_key: &[u8]) -> Possible<()> {
        let (expected, found) = (self.bytes(), user_key.len());
        if found == 0 {
            return Err(FallbackReason::EmptyKey);
        }
        if expected != 0 && found != expected {
            return Err(FallbackReason::KeyBytes { expected, found });
        }
        Ok(())
    }

    /// Extends the range by a key that passed [`UserKeys::check`].
    pub(super) fn add(&mut self, user_key: &[u8]) {
        if self.smallest.is_empty() {
            self.smallest = user_key.to_vec();
            self.largest = user_key.to_vec();
        } else if user_key < self.smallest.as_slice() {
            self.smallest.copy_from_slice(user_key);
        } else if user_key > self.largest.as_slice() {
            self.largest.copy_from_slice(user_key);
        }
    }
}
