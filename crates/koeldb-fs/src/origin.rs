//! The process that an object belongs to.
//!
//! A forked child has a copy of all objects of its parent and none of its threads; open files are
//! shared. Objects with threads or written files compare their origin with the process.

#[cfg(unix)]
mod fork;

#[cfg(unix)]
use fork::{count_forks, forks};

/// Does nothing: processes do not fork on this platform.
#[cfg(not(unix))]
fn count_forks() {}

/// Returns 0: processes do not fork on this platform.
#[cfg(not(unix))]
fn forks() -> u32 {
    0
}

/// The process that created an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    forks: u32,
}

impl Origin {
    /// Returns the origin of an object that this process creates.
    #[must_use]
    pub fn here() -> Self {
        count_forks();
        Origin { forks: forks() }
    }

    /// Whether this process created the object; false in a forked child of it. Costs one load.
    #[inline]
    #[must_use]
    pub fn is_here(self) -> bool {
        self.forks == forks()
    }
}
