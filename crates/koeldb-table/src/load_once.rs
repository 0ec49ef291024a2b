//! A value that is created on first use.

use std::sync::{Mutex, OnceLock};

use koeldb_base::Result;
use koeldb_base::sync::lock_plain;

/// A value that is created on first use, by one thread while others wait.
///
/// If that fails, the next caller retries.
pub(crate) struct LoadOnce<T> {
    value: OnceLock<T>,
    /// The lock held by the thread that creates the value.
    loading: Mutex<()>,
}

impl<T> LoadOnce<T> {
    pub(crate) fn new() -> Self {
        LoadOnce {
            value: OnceLock::new(),
            loading: Mutex::new(()),
        }
    }

    /// Returns the value, if it was created.
    pub(crate) fn get(&self) -> Option<&T> {
        self.value.get()
    }

    /// Returns the value; if there is none, creates it with `load` while other threads wait.
    ///
    /// # Errors
    /// Those of `load`.
    pub(crate) fn get_or_load(&self, load: impl FnOnce() -> Result<T>) -> Result<&T> {
        if let Some(value) = self.value.get() {
            return Ok(value);
        }
        let _one_at_a_time = lock_plain(&self.loading);
        if let Some(value) = self.value.get() {
            return Ok(value);
        }
        let value = load()?;
        Ok(self.value.get_or_init(|| value))
    }
}
