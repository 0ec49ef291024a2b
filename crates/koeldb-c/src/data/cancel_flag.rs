//! Flags that cancel compactions, which C shares with options.

#![expect(unsafe_code, reason = "pointers of the caller")]

use std::sync::{Arc, Mutex, PoisonError};

use koeldb::CancelToken;

/// A flag that cancels compactions. C has a pointer to it, of the type of a byte.
#[derive(Default)]
pub(crate) struct CancelFlag(Mutex<CancelToken>);

impl CancelFlag {
    /// Cancels the compactions that have the flag, or permits later ones.
    fn set(&self, is_canceled: bool) {
        let mut token = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match is_canceled {
            true => token.cancel(),
            false if token.is_canceled() => *token = CancelToken::new(),
            false => {}
        }
    }

    /// Returns the token for a compaction that begins.
    pub(crate) fn token(&self) -> CancelToken {
        let token = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        token.clone()
    }
}

/// Creates a flag.
pub(crate) fn create() -> *mut u8 {
    let flag = Arc::<CancelFlag>::default();
    Arc::into_raw(flag).cast_mut().cast()
}

/// Destroys a flag; null is permitted. Options that have the flag keep it.
///
/// # Safety
/// The flag is null or from [`create`], and is not used again.
pub(crate) unsafe fn destroy(flag: *mut u8) {
    if !flag.is_null() {
        // SAFETY: it is from `create`, and the caller gives up its reference.
        drop(unsafe { Arc::from_raw(flag.cast::<CancelFlag>().cast_const()) });
    }
}

/// Sets a flag; null is permitted.
///
/// # Safety
/// The flag is null or from [`create`].
pub(crate) unsafe fn set(flag: *mut u8, value: u8) {
    // SAFETY: it is null or from `create`.
    if let Some(flag) = unsafe { flag.cast::<CancelFlag>().as_ref() } {
        flag.set(value != 0);
    }
}

/// Returns a reference to a flag, for options; `None` if it is null.
///
/// # Safety
/// The flag is null or from [`create`].
pub(crate) unsafe fn share(flag: *mut u8) -> Option<Arc<CancelFlag>> {
    let flag = flag.cast::<CancelFlag>().cast_const();
    if flag.is_null() {
        return None;
    }
    // SAFETY: it is from `create`, and the caller keeps its reference.
    unsafe { Arc::increment_strong_count(flag) };
    // SAFETY: it is from `create`, and this reference has just been counted.
    Some(unsafe { Arc::from_raw(flag) })
}
