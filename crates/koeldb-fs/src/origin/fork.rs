//! A count of the forks between this process and the first that counted.
#![expect(unsafe_code, reason = "the standard library has no fork handlers")]

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// Only a forked child changes it, before its thread returns from `fork`.
static FORKS: AtomicU32 = AtomicU32::new(0);

extern "C" fn count_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Installs a handler that counts forks from now on, in each forked child.
pub(super) fn count_forks() {
    static REGISTERED: Once = Once::new();
    if cfg!(miri) {
        return;
    }
    // If the system has no memory for the handler, forks are not noticed.
    REGISTERED.call_once(|| {
        // SAFETY: the handler only changes an atomic number, which any thread of a child may do.
        let _ = unsafe { libc::pthread_atfork(None, None, Some(count_fork)) };
    });
}

/// Returns the number of forks counted.
#[inline]
pub(super) fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}
