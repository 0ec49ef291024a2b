//! Figures of the memory allocator.
//!
//! # Invariants
//! - **M1** `mallinfo2` takes no arguments, locks what it reads, and returns a value.
#![expect(unsafe_code, reason = "only the C library knows its allocator")]

/// Returns the figures of glibc's allocator as lines of text; `None` with other C libraries.
///
/// Memory that another allocator manages is not included.
#[must_use]
pub fn allocator_figures() -> Option<String> {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: M1.
        let info = unsafe { libc::mallinfo2() };
        Some(format!(
            "arena bytes: {}\nmapped bytes: {} in {} regions\nallocated bytes: {}\nfree bytes: {}\nreleasable bytes: {}\n",
            info.arena, info.hblkhd, info.hblks, info.uordblks, info.fordblks, info.keepcost
        ))
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    None
}
