//! Announcements of lock-free lookups ("in passing"), which writers check before freeing a slot.
//!
//! A lookup enters the stripe of its thread with the *word* of its hash, and leaves it a few dozen
//! instructions later. It never waits inside. So a writer that must not disturb a lookup searches
//! the stripes for its word: nearly always there is none. A hazard pointer is similar, but names an
//! object; the word is known before the lookup has found anything, so nothing is validated again
//! afterwards.
//!
//! A thread writes a line of its own with that. Threads that share a stripe by chance do not wait
//! for each other: a lookup that finds its stripe taken is a lookup with the lock.
//!
//! Source of hazard pointers: Michael, "Hazard pointers: safe memory reclamation for lock-free
//! objects", IEEE TPDS 2004.

use std::sync::atomic::Ordering;

use koeldb_base::sync::{Padded, SPINS, stripe_count};

use crate::sync::{AtomicU64, fence_in_models, spin_loop, thread_number, yield_now};

/// The stripes of a cache, in which threads announce their lock-free lookups.
#[derive(Clone)]
pub(crate) struct Stripes {
    /// A power of two of stripes; the number of a thread selects one.
    stripes: std::sync::Arc<[Padded<Stripe>]>,
}

/// A stripe: the place where a thread announces its lock-free lookup.
struct Stripe {
    /// The fingerprint of the hash of the announced lookup; 0 if there is none.
    word: AtomicU64,
    /// The number of hits of lock-free lookups; only the announced lookup changes it.
    hits: AtomicU64,
}

/// An announced lock-free lookup; dropping it ends the announcement.
pub(crate) struct Passage<'s> {
    stripe: &'s Stripe,
    word: u64,
}

/// Returns the fingerprint of a hash in an atomic word, where 0 means none; it keeps the tag bits.
#[inline]
pub(crate) fn word_of(hash: u64) -> u64 {
    hash | 1 << 32
}

impl Stripes {
    pub(crate) fn new() -> Self {
        let stripe = |_| {
            Padded(Stripe {
                word: AtomicU64::new(0),
                hits: AtomicU64::new(0),
            })
        };
        Stripes {
            stripes: (0..stripe_count()).map(stripe).collect(),
        }
    }

    /// Announces a lookup by the hash of its key; `None` if this thread's stripe is taken.
    #[inline]
    pub(crate) fn enter(&self, hash: u64) -> Option<Passage<'_>> {
        let stripe = &self.stripes[thread_number() & (self.stripes.len() - 1)];
        let word = word_of(hash);
        // Acquires the hits that the last lookup counted.
        let entered = stripe
            .word
            .compare_exchange(0, word, Ordering::SeqCst, Ordering::Relaxed);
        fence_in_models();
        entered.is_ok().then_some(Passage { stripe, word })
    }

    /// Whether a lock-free lookup with the fingerprint `word` is announced.
    ///
    /// If not, all that such lookups did happens before the return.
    pub(crate) fn has(&self, word: u64) -> bool {
        let is_here = |stripe: &Padded<Stripe>| stripe.word.load(Ordering::SeqCst) == word;
        self.stripes.iter().any(is_here)
    }

    /// Waits until the announced lookups with the fingerprint `word` have ended.
    pub(crate) fn wait_for(&self, word: u64) {
        let mut spins = 0;
        while self.has(word) {
            if spins < SPINS {
                spins += 1;
                spin_loop();
            } else {
                // The thread of the lookup is not running.
                yield_now();
            }
        }
    }

    /// The number of hits of all lock-free lookups so far.
    pub(crate) fn hits(&self) -> u64 {
        let hits = |stripe: &Padded<Stripe>| stripe.hits.load(Ordering::Relaxed);
        self.stripes.iter().map(hits).fold(0, u64::wrapping_add)
    }
}

impl Passage<'_> {
    /// Returns the fingerprint of the lookup's hash.
    #[inline]
    pub(crate) fn word(&self) -> u64 {
        self.word
    }

    /// Counts a hit.
    #[inline]
    pub(crate) fn count_hit(&self) {
        // Not a read-modify-write: this lookup has the stripe.
        let hits = self.stripe.hits.load(Ordering::Relaxed);
        self.stripe
            .hits
            .store(hits.wrapping_add(1), Ordering::Relaxed);
    }
}

impl Drop for Passage<'_> {
    #[inline]
    fn drop(&mut self) {
        // Releases what the lookup read and counted to writers and to the next lookup.
        self.stripe.word.store(0, Ordering::Release);
    }
}
