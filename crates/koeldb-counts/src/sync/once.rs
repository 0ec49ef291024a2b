//! A counted cell that is set once.

use ::std::ops::{Deref, DerefMut};
use ::std::sync;

use crate::record;

/// A `OnceLock` that records each set, as two read-modify-writes, but no reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnceLock<T>(sync::OnceLock<T>);

/// The methods of the standard library.
#[allow(
    missing_docs,
    clippy::missing_errors_doc,
    reason = "the standard library's"
)]
impl<T> OnceLock<T> {
    #[must_use]
    pub const fn new() -> Self {
        OnceLock(sync::OnceLock::new())
    }

    #[must_use]
    pub fn get(&self) -> Option<&T> {
        self.0.get()
    }

    /// Records the two read-modify-writes of a set, unless the cell is set already.
    #[track_caller]
    fn add_set(&self) {
        if self.0.get().is_none() {
            record::add_rmw(self);
            record::add_rmw(self);
        }
    }

    #[track_caller]
    pub fn get_or_init(&self, value: impl FnOnce() -> T) -> &T {
        self.add_set();
        self.0.get_or_init(value)
    }

    #[track_caller]
    pub fn set(&self, value: T) -> Result<(), T> {
        self.add_set();
        self.0.set(value)
    }

    #[must_use]
    pub fn into_inner(self) -> Option<T> {
        self.0.into_inner()
    }
}

impl<T> Deref for OnceLock<T> {
    type Target = sync::OnceLock<T>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<T> DerefMut for OnceLock<T> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl<T> Default for OnceLock<T> {
    fn default() -> Self {
        OnceLock::new()
    }
}

impl<T> From<T> for OnceLock<T> {
    fn from(value: T) -> Self {
        OnceLock(sync::OnceLock::from(value))
    }
}
