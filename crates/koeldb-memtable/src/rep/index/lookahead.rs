//! Fetching what a scan will come to.
#![expect(
    unsafe_code,
    reason = "a cursor keeps its page by address, beside the list that owns it"
)]

use std::ptr;
use std::sync::atomic::Ordering;

use super::Guess;
use super::page::{LINE, Page};
use crate::rep::prefetch;

/// Runs ahead of a scan and asks for the nodes it will come to.
#[derive(Clone, Copy)]
pub(in crate::rep) struct Lookahead {
    page: *const Page,
    index: usize,
}

/// So many nodes a scan's memory is asked for in advance.
const AHEAD: usize = 6;

impl Lookahead {
    /// Nothing is asked for.
    pub(in crate::rep) const NONE: Lookahead = Lookahead {
        page: ptr::null(),
        index: 0,
    };

    /// For a scan from the target of `guess` on.
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

    /// Called for each step of the scan.
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
