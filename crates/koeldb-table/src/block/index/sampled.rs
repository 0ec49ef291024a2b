//! Samples of an index block for interpolation search: the numbers of a few keys.
//!
//! ```text
//! samples    number of every 16th key, and of the last one       half a byte for each key
//! ```
//!
//! Without samples a search has to decode the first and last key of the block to interpolate
//! between them, and its first guess is some ten keys off where there are thousands. Between two
//! samples it is usually off by one at most; for non-uniform keys the samples save all but the last
//! few steps. Numbers are those of [`Numbering`], and the sample before a target is found like a
//! group in a decoded block. Only a target whose number equals a sample at either end of the block
//! is searched without samples.
//!
//! [`Numbering`]: crate::block::number::Numbering
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::cmp::Ordering;

use koeldb_base::Result;
use koeldb_base::key::user_key;

use super::IndexFormat;
use super::linear_model::LinearModel;
use crate::block::interpolation::{self, Window};
use crate::block::number::KeySpan;
use crate::block::{Block, BlockSlices, KeyFormat, Start};

/// The sampling interval in keys.
const SPACING: usize = 16;

/// The number of restart points up to which blocks are not sampled: a search takes a step or two.
const FEW_KEYS: usize = 8;

/// A sample of an index block's keys as integers, which narrows interpolation search.
#[derive(Debug)]
pub struct SampledIndex {
    span: KeySpan,
    model: LinearModel,
    samples: Vec<u64>,
    last: usize,
}

impl SampledIndex {
    /// Samples the keys of an index block; `None` if they are few or cannot be mapped to integers.
    pub(super) fn new(block: &Block, format: &IndexFormat) -> Option<Self> {
        let view = BlockSlices::new(block, format.layout());
        let count = view.restart_key_count();
        if count <= FEW_KEYS {
            return None;
        }
        let last = count.checked_sub(1)?;
        let user_key_at = |at| Some(format.keys.user_part(view.restart_key(at).ok()?));
        let span = KeySpan::new(&format.keys.order, user_key_at(0)?, user_key_at(last)?)?;
        let numbering = span.numbering();
        let places = (0..last).step_by(SPACING).chain([last]);
        let samples: Option<Vec<u64>> = places
            .map(|at| Some(numbering.number(user_key_at(at)?)))
            .collect();
        let samples = samples.filter(|samples| samples.is_sorted())?;
        Some(SampledIndex {
            span,
            model: LinearModel::through(&samples),
            samples,
            last,
        })
    }

    /// The heap memory of the samples.
    pub(super) fn heap_bytes(&self) -> usize {
        size_of_val(self.samples.as_slice()).saturating_add(self.span.heap_bytes())
    }

    /// Finds the position of an internal key among the restart points of the sampled block.
    #[inline]
    pub(super) fn search<'k>(
        &self,
        key_at: impl Fn(usize) -> Result<&'k [u8]>,
        keys: &KeyFormat,
        target: &[u8],
    ) -> Result<Start> {
        let wanted = match self.span.wanted(&keys.order, user_key(target)) {
            Ok(wanted) => wanted,
            Err(Ordering::Greater) => return Ok(Start::Scan(self.last)),
            Err(_) => return Ok(Start::Found(0)),
        };
        match self.window(wanted) {
            Some(window) => window.search(key_at, self.span.numbering(), keys, target),
            None => interpolation::search(self.last.saturating_add(1), key_at, keys, target),
        }
    }

    /// Returns the range between the samples before and after a key number; `None` without both.
    #[inline]
    fn window(&self, wanted: u64) -> Option<Window> {
        let mut behind = self.model.first_not_below(&self.samples, wanted);
        let before = behind.checked_sub(1)?;
        if *self.samples.get(behind)? == wanted {
            let rest = self.samples.get(behind..)?;
            behind = behind.checked_add(rest.partition_point(|sample| *sample == wanted))?;
        }
        Some(Window {
            low: before.saturating_mul(SPACING),
            high: behind.saturating_mul(SPACING).min(self.last),
            low_number: *self.samples.get(before)?,
            high_number: *self.samples.get(behind)?,
        })
    }
}

#[cfg(test)]
mod tests;
