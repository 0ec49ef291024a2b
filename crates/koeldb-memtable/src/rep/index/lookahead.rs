//! Prefetching for scans of the sorted list.
#![expect(
    unsafe_code,
    reason = "a cursor keeps its page by address, beside the list that owns it"
)]

use std::ptr;
use std::sync::atomic::Ordering;

use super::Guess;
use super::page::{LINE, Page};
use crate::rep::prefetch;

/// A prefetcher for list scans: an index position some nodes ahead of the scan.
#[derive(Clone, Copy)]
pub(in crate::rep) struct Lookahead {
    page: *const Page,
    index: usize,
}

/// The number of nodes prefetched in advance.
const AHEAD: usize = 6;

impl Lookahead {
    /// The lookahead that does nothing.
    pub(in crate::rep) const NONE: Lookahead = Lookahead {
        page: ptr::null(),
        index: 0,
    };

    /// Creates the prefetcher for a scan that starts at a guessed position; prefetches its nodes.
    pub(in crate::rep) fn new(guess: Option<Guess<'_>>) -> Self {
        let Some(Guess { page, position, .. }) = guess else {
            return Self::NONE;
        };
        let mut ahead = Lookahead {
            page,
            index: position,
        };
        for _ in 0..AHEAD {
            // SAFETY: the guess borrows the list.
            unsafe { ahead.step() };
        }
        ahead
    }

    /// Prefetches one more node; called for each step of the scan.
    ///
    /// # Safety
    /// The list that the guess came from must still live.
    #[inline]
    pub(in crate::rep) unsafe fn step(&mut self) {
        // SAFETY: the page was reached under I1 and lives as long as the list.
        while let Some(page) = unsafe { self.page.as_ref() } {
            if self.index < page.count() {
                let node = page.item(self.index);
                prefetch(node.cast());
                prefetch(node.wrapping_add(LINE).cast());
                self.index += 1;
                return;
            }
            self.page = page.right.load(Ordering::Acquire);
            self.index = 0;
            // SAFETY: as above.
            if let Some(page) = unsafe { self.page.as_ref() } {
                Page::prefetch(page.right.load(Ordering::Relaxed));
            }
        }
    }
}
