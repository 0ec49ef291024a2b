//! A value that is made when somebody first needs it.

use std::sync::{Mutex, OnceLock};

use koeldb_base::Result;
use koeldb_base::sync::lock_plain;

/// Made by one thread while others wait. What fails is tried again by the next.
pub(crate) struct LoadOnce<T> {
    value: OnceLock<T>,
    /// Held by the thread that makes it.
    loading: Mutex<()>,
}

impl<T> LoadOnce<T> {
    pub(crate) fn new() -> Self {
        LoadOnce {
            value: OnceLock::new(),
            loading: Mutex::new(()),
        }
    }

    /// The value, if it was made.
    pub(crate) fn get(&self) -> Option<&T> {
        self.value.get()
    }

    /// The value, made by `load` if nobody needed it before.
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
