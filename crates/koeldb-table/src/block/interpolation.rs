//! Interpolation search among the restart keys of a block.
//!
//! The position of a key between two known ones is guessed from their numbers, as if keys were
//! uniformly distributed. A guess that leaves more than half of the window is followed by one
//! bisection, so any two probes at least halve it: no more than `2 * ceil(log2 n) + 2` keys are
//! decoded for any keys, and some six of 16384 for uniform ones. RocksDB
//! (`table/block_based/block.cc`, 11.9) bisects once after eight poor guesses in a row and then
//! guesses again, which costs up to nine probes for every bisection; the blocks and the results are
//! the same.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::cmp::Ordering;

use koeldb_base::Result;
use koeldb_base::key::footer_of;

use super::number::Numbering;
use super::{KeyFormat, Start, halve};

/// The number of keys below which binary search is as good, because it does not read the two ends.
const FEW_KEYS: usize = 8;

/// The largest window of keys that is only bisected.
const NARROW: usize = 4;

/// Finds the position of the internal key `target` among `count` ascending keys.
#[inline]
pub(crate) fn search<'k>(
    count: usize,
    key_at: impl Fn(usize) -> Result<&'k [u8]>,
    keys: &KeyFormat,
    target: &[u8],
) -> Result<Start> {
    let last = count.saturating_sub(1);
    if count <= FEW_KEYS {
        return halve(0..count, key_at, |key| keys.compare(key, target));
    }
    let (first_key, last_key) = (key_at(0)?, key_at(last)?);
    if keys.compare(first_key, target) != Ordering::Less {
        return Ok(Start::Found(0));
    }
    match keys.compare(last_key, target) {
        Ordering::Less => return Ok(Start::Scan(last)),
        Ordering::Equal => return Ok(Start::Found(last)),
        Ordering::Greater => {}
    }
    let (first_user, last_user) = (keys.user_part(first_key), keys.user_part(last_key));
    let Some(numbering) = Numbering::new(&keys.order, first_user, last_user) else {
        return halve(0..count, key_at, |key| keys.compare(key, target));
    };
    let window = Window {
        low: 0,
        high: last,
        low_number: numbering.number(first_user),
        high_number: numbering.number(last_user),
    };
    window.search(key_at, numbering, keys, target)
}

/// The range of an interpolation search: indexes before and after the target, with key numbers.
pub(crate) struct Window {
    pub(crate) low: usize,
    pub(crate) high: usize,
    pub(crate) low_number: u64,
    pub(crate) high_number: u64,
}

impl Window {
    /// Finds the position of the internal key `target` within the window.
    #[inline]
    pub(crate) fn search<'k>(
        mut self,
        key_at: impl Fn(usize) -> Result<&'k [u8]>,
        numbering: Numbering,
        keys: &KeyFormat,
        target: &[u8],
    ) -> Result<Start> {
        let wanted = numbering.number(footer_of(target).0);
        let mut poor = false;
        loop {
            let width = self.width();
            if width <= 1 {
                return Ok(Start::Scan(self.low));
            }
            let guess = if poor { None } else { self.guess(wanted) };
            let probe = guess.unwrap_or_else(|| self.low.midpoint(self.high));
            let key = key_at(probe)?;
            let number = numbering.number(keys.user_part(key));
            // Equal numbers do not determine the order.
            match number.cmp(&wanted).then_with(|| keys.compare(key, target)) {
                Ordering::Less => (self.low, self.low_number) = (probe, number),
                Ordering::Greater => (self.high, self.high_number) = (probe, number),
                Ordering::Equal => return Ok(Start::Found(probe)),
            }
            poor = guess.is_some() && self.width() > width / 2;
        }
    }

    /// Returns the distance between the two ends of the window.
    fn width(&self) -> usize {
        self.high.saturating_sub(self.low)
    }

    /// Interpolates the index of a number; `None` if the window is narrow or both ends are equal.
    #[inline]
    fn guess(&self, wanted: u64) -> Option<usize> {
        let width = self.width();
        let range = self.high_number.checked_sub(self.low_number)?;
        if width <= NARROW || range == 0 {
            return None;
        }
        // There are fewer than 2^28 restart points, so 36 bits of both differences fit into a
        // product.
        let shift = 28_u32.saturating_sub(range.leading_zeros());
        let part = wanted.saturating_sub(self.low_number).checked_shr(shift)?;
        let steps = part
            .saturating_mul(width as u64)
            .checked_div(range.checked_shr(shift)?)?;
        let steps = usize::try_from(steps).unwrap_or(width);
        Some(
            self.low
                .saturating_add(steps.clamp(1, width.saturating_sub(1))),
        )
    }
}

#[cfg(test)]
pub(crate) mod tests;
