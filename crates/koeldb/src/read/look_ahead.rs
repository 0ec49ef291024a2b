//! Whether to read ahead of a look-up: with the block that may have its key, the next one below that may.
//!
//! A look-up visits runs newest first, and a filter that errs, or none, has it wait for a block of a run that does not
//! have its key before it asks for the next. Read together, the two take one round of the device; but where most keys are
//! in several runs, the second block is read for nothing.
//!
//! So the two are weighed: a round that was saved, or could have been, allows [`WORTH`] reads for nothing. Nothing is
//! counted unless a device is asked.

use std::sync::atomic::{AtomicI32, Ordering};

/// How many reads for nothing a saved round is worth.
const WORTH: i32 = 4;

/// The balance never is further from zero, so that what has changed is noticed soon.
const BALANCE_MAX: i32 = 64;

/// What reading ahead has done for the look-ups of one database.
#[derive(Debug)]
pub(crate) struct LookAhead {
    /// The reads for nothing that are allowed.
    balance: AtomicI32,
}

impl Default for LookAhead {
    fn default() -> Self {
        LookAhead {
            balance: AtomicI32::new(4 * WORTH),
        }
    }
}

impl LookAhead {
    /// Whether to read ahead.
    pub(super) fn pays(&self) -> bool {
        self.balance.load(Ordering::Relaxed) > 0
    }

    /// A look-up came to what was read ahead for it, or would have, had there been something.
    pub(super) fn note_use(&self) {
        self.add(WORTH);
    }

    /// A look-up was settled before it came to what was read ahead for it.
    pub(super) fn note_waste(&self) {
        self.add(-1);
    }

    fn add(&self, change: i32) {
        let changed = |balance: i32| Some((balance + change).clamp(-BALANCE_MAX, BALANCE_MAX));
        let _ = (self.balance).fetch_update(Ordering::Relaxed, Ordering::Relaxed, changed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_ahead_ends_where_it_is_for_nothing_and_begins_again_where_it_saves_rounds() {
        let ahead = LookAhead::default();
        let mut reads = 0;
        while ahead.pays() {
            ahead.note_waste();
            reads += 1;
        }
        assert_eq!(reads, 4 * WORTH);
        ahead.note_use();
        assert!(ahead.pays());
        for _ in 0..1000 {
            ahead.note_waste();
        }
        let rounds = (0..)
            .take_while(|_| !ahead.pays())
            .map(|_| ahead.note_use());
        assert_eq!(rounds.count(), 17);
    }
}
