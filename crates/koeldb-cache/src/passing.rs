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

/// Per-thread slots in which lock-free lookups announce their key hash, like hazard pointers.
#[derive(Clone)]
pub(crate) struct Stripes {
    /// A power of two of stripes; the number of a thread selects one.
    stripes: std::sync::Arc<[Padded<Stripe>]>,
}

/// The slot in which one thread at a time announces its lock-free lookup, with a hit counter.
struct Stripe {
    /// The fingerprint of the hash of the announced lookup; 0 if there is none.
    word: AtomicU64,
    /// The number of hits of lock-free lookups; only the announced lookup changes it.
    hits: AtomicU64,
}

/// A guard for an announced lock-free lookup; dropping it ends the announcement.
pub(crate) struct Passage<'s> {
    stripe: &'s Stripe,
    word: u64,
}

/// Returns the fingerprint of a key hash: the hash with one bit set, so that it is never 0.
#[inline]
pub(crate) fn fingerprint_of(hash: u64) -> u64 {
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

    /// Announces a lock-free lookup of a key hash; `None` if another lookup uses the same stripe.
    #[inline]
    pub(crate) fn enter(&self, hash: u64) -> Option<Passage<'_>> {
        let stripe = &self.stripes[thread_number() & (self.stripes.len() - 1)];
        let word = fingerprint_of(hash);
        // Acquires the hits that the last lookup counted.
        let entered = stripe
            .word
            .compare_exchange(0, word, Ordering::SeqCst, Ordering::Relaxed);
        fence_in_models();
        entered.is_ok().then_some(Passage { stripe, word })
    }

    /// Whether any thread has announced a lock-free lookup with the hash fingerprint `word`.
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

    /// Counts a cache hit of this lookup.
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
