//! Memory accounting of segments and runs, including those that only cursors hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A shared counter of the bytes that log segments and runs use.
#[derive(Clone, Default)]
pub(super) struct Gauge(Arc<AtomicUsize>);

impl Gauge {
    /// Adds allocated bytes to the count.
    pub(super) fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Subtracts freed bytes from the count.
    pub(super) fn sub(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}
