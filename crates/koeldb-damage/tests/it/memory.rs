//! An allocator that tracks the memory of each thread and its maximum.
//!
//! A single request above [`REQUEST_BYTES_MAX`] ends the process, on any thread: no file here is a
//! thousandth of that size.
//!
//! Invariant: every call is forwarded unchanged to the system's allocator; otherwise only counters
//! of the calling thread change, which have no destructors and allocate nothing.
#![expect(unsafe_code, reason = "an allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The largest acceptable request.
const REQUEST_BYTES_MAX: usize = 512 << 20;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn note(more: usize, less: usize) {
    if more > REQUEST_BYTES_MAX {
        eprintln!("a request for {more} bytes of memory");
        std::process::abort();
    }
    let bytes = |bytes: usize| isize::try_from(bytes).unwrap_or(isize::MAX);
    // A thread that ends frees memory that it does not count any more.
    let _ = HELD.try_with(|held| {
        held.set(
            held.get()
                .saturating_add(bytes(more))
                .saturating_sub(bytes(less)),
        );
        MOST.with(|most| most.set(most.get().max(held.get())));
    });
}

// SAFETY: the system's allocator does everything; counting does not allocate and does not unwind.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size(), 0);
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size(), 0);
        // SAFETY: as for `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        note(0, layout.size());
        // SAFETY: as for `alloc`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        note(bytes, layout.size());
        // SAFETY: as for `alloc`.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}

/// Runs `work`; returns the largest increase of this thread's memory meanwhile.
pub(crate) fn most_bytes_of(work: impl FnOnce()) -> u64 {
    let before = HELD.get();
    MOST.set(before);
    work();
    u64::try_from(MOST.get().saturating_sub(before)).unwrap_or(0)
}
