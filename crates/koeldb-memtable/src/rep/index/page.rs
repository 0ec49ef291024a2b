//! A page of the index: ordered slots, with operations to search, fill and lock them.
//!
//! The invariants are the index's (I1 to I5).
#![expect(unsafe_code, reason = "slots lead to nodes by address")]

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crate::rep::prefetch;
use crate::rep::skiplist::{Node, NodeRef};

/// The number of slots, which makes a page eight cache lines, fetched together.
pub(super) const SLOTS: usize = 29;
pub(super) const LINE: usize = 64;

/// A slot of an index page: the hint of a key, and the list node or child page of that key.
pub(super) struct Slot {
    hint: AtomicU64,
    pub(super) item: AtomicPtr<u8>,
}

/// A page of the index tree, leaf or inner, which is linked to its right neighbour.
#[repr(C, align(64))]
pub(in crate::rep) struct Page {
    pub(super) right: AtomicPtr<Page>,
    pub(super) low: *mut Node,
    pub(super) low_hint: u64,
    count: AtomicU32,
    pub(super) level: u32,
    locked: AtomicBool,
    pub(super) slots: [Slot; SLOTS],
}

const _: () = assert!(size_of::<Page>() == 512);

impl Page {
    /// Creates an empty index page of `level` for the nodes from `low` on.
    ///
    /// `low_hint` is the prefix of that node's key by which most comparisons are decided.
    pub(super) fn new(level: u32, low: *mut Node, low_hint: u64) -> Self {
        Page {
            right: AtomicPtr::new(ptr::null_mut()),
            low,
            low_hint,
            count: AtomicU32::new(0),
            level,
            locked: AtomicBool::new(false),
            slots: [const {
                Slot {
                    hint: AtomicU64::new(u64::MAX),
                    item: AtomicPtr::new(ptr::null_mut()),
                }
            }; SLOTS],
        }
    }

    /// Loads the number of slots in use, with acquire.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire) as usize
    }

    /// Stores the number of slots in use, with release.
    pub(super) fn set_count(&self, count: usize) {
        #[expect(clippy::cast_possible_truncation, reason = "at most SLOTS")]
        self.count.store(count as u32, Ordering::Release);
    }

    /// Loads the node or child page of a slot, with acquire.
    #[inline]
    pub(super) fn item(&self, index: usize) -> *mut u8 {
        self.slots[index].item.load(Ordering::Acquire)
    }

    /// Loads the hint of a slot, with acquire.
    #[inline]
    pub(super) fn hint(&self, index: usize) -> u64 {
        self.slots[index].hint.load(Ordering::Acquire)
    }

    /// Returns the list node in slot `index` of a leaf page.
    #[inline]
    pub(super) fn node(&self, index: usize) -> Option<NodeRef<'_>> {
        debug_assert!(self.level == 0);
        let node = self.item(index).cast();
        // SAFETY: slots of leaf pages hold nothing or nodes, loaded with acquire (I1).
        unsafe { NodeRef::new(node) }
    }

    /// Returns the low node: the list node that is the lower bound of the page.
    #[inline]
    pub(super) fn low(&self) -> NodeRef<'_> {
        // SAFETY: the low node was stored in the page before it was published (I1).
        unsafe { NodeRef::new(self.low) }.expect("every page has a low node")
    }

    /// Prefetches all cache lines of an index page.
    #[inline]
    pub(super) fn prefetch(page: *const Page) {
        for line in 0..size_of::<Page>() / LINE {
            prefetch(page.wrapping_byte_add(line * LINE).cast());
        }
    }

    /// Counts the leading slots with a hint below `hint`, or up to `hint` if `through` is set.
    ///
    /// The first slot of an inner page always counts: it covers everything before the second.
    #[inline]
    pub(super) fn hints_below(&self, count: usize, hint: u64, through: bool) -> usize {
        let below = |index: usize| {
            let at = self.hint(index);
            at < hint || (through && at == hint)
        };
        let mut first = usize::from(self.level > 0);
        let mut left = count - first;
        while left > 1 {
            let half = left / 2;
            // Branch-free, because the outcome is unpredictable.
            first += usize::from(below(first + half - 1)) * half;
            left -= half;
        }
        first + usize::from(left == 1 && below(first))
    }

    /// Inserts a slot at `position`, shifting later slots (invariants I2 and I3 of the index).
    pub(super) fn put(&self, position: usize, hint: u64, item: *mut u8) {
        let count = self.count();
        debug_assert!(position <= count && count < SLOTS);
        for index in (position..count).rev() {
            let (from, to) = (&self.slots[index], &self.slots[index + 1]);
            to.item
                .store(from.item.load(Ordering::Relaxed), Ordering::Release);
            to.hint
                .store(from.hint.load(Ordering::Relaxed), Ordering::Release);
        }
        let slot = &self.slots[position];
        slot.item.store(item, Ordering::Release);
        slot.hint.store(hint, Ordering::Release);
        self.set_count(count + 1);
    }

    /// Tries to lock the page for writing; returns false if another writer holds the lock.
    pub(super) fn try_lock(&self) -> bool {
        !self.locked.swap(true, Ordering::Acquire)
    }

    /// Releases the lock, which the caller holds.
    pub(super) fn unlock(&self) {
        self.locked.store(false, Ordering::Release);
    }
}
