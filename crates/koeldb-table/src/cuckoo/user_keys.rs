//! What the user keys of a cuckoo table under construction have to have in common, and how far they reach.

use super::records::{Obstacle, Possible};

/// The bytewise ends of keys of one length, which is not zero.
#[derive(Debug, Default)]
pub(super) struct UserKeys {
    smallest: Vec<u8>,
    largest: Vec<u8>,
}

impl UserKeys {
    /// The bytes of every key; 0 as long as there is none.
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

    /// Whether a key can stand beside those that are there.
    pub(super) fn check(&self, user_key: &[u8]) -> Possible<()> {
        let (expected, found) = (self.bytes(), user_key.len());
        if found == 0 {
            return Err(Obstacle::EmptyKey);
        }
        if expected != 0 && found != expected {
            return Err(Obstacle::KeyBytes { expected, found });
        }
        Ok(())
    }

    /// Takes a key that was checked.
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
