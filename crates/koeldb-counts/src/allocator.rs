//! The global allocator: the system's, counted.
//!
//! Each call is passed on with its arguments, except that memory is not freed while it is kept
//! ([`record::keep_memory`]).
#![expect(unsafe_code, reason = "an allocator")]

use ::std::alloc::{GlobalAlloc, Layout, System};

use crate::record::{self, Event, Site};

/// The system's allocator with counted allocations.
struct Counted;

#[global_allocator]
static ALLOCATOR: Counted = Counted;

// SAFETY: memory comes from the system's allocator, and returns to it at most once.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        record::add(Event::Allocation, Site::Allocator);
        // SAFETY: the caller's obligations are those of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        record::add(Event::Allocation, Site::Allocator);
        // SAFETY: the caller's obligations are those of the system's allocator.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        record::add(Event::Allocation, Site::Allocator);
        // SAFETY: the caller's obligations are those of the system's allocator.
        unsafe { System.realloc(old, layout, new_size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if !record::keeps_memory() {
            // SAFETY: the caller's obligations are those of the system's allocator.
            unsafe { System.dealloc(memory, layout) }
        }
    }
}
