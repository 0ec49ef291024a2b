//! Cursors over internal entries, and the value that climbs out of a reader whose block is not there.
//!
//! A reader asks a block source; when the source would have to wait, it returns [`Fault::Suspend`], which
//! climbs through `?` as an error does. In the blocking build the suspension type is [`Blocking`], which has
//! no values, so the compiler removes every such branch.
//!
//! Invariants of every [`Cursor`]: entries come in internal-key order; after an error the cursor is not valid
//! and the next positioning call starts afresh; "not valid" without an error means the end. A step that
//! suspended left the cursor where the same call, made again, completes it.

use std::convert::Infallible;

use crate::error::Error;
use crate::pinned::PinnedSlice;

/// The suspension type of sources that wait in place.
pub type Blocking = Infallible;

/// Why a read could not go on: an error, or a block that has to be fetched first.
#[derive(Debug)]
pub enum Fault<S> {
    /// The read failed.
    Error(Error),
    /// The read goes on when what it needs has arrived.
    Suspend(S),
}

impl<S> From<Error> for Fault<S> {
    fn from(error: Error) -> Self {
        Fault::Error(error)
    }
}

impl From<Fault<Blocking>> for Error {
    fn from(fault: Fault<Blocking>) -> Self {
        match fault {
            Fault::Error(error) => error,
            Fault::Suspend(never) => match never {},
        }
    }
}

impl Fault<Blocking> {
    /// The same error for a reader that can suspend; lets blocking cursors stand beside suspending ones.
    pub fn widen<S>(self) -> Fault<S> {
        Fault::Error(self.into())
    }
}

/// A position in a sorted sequence of (internal key, value); lends the entry it stands on.
///
/// # Errors
/// Every positioning call fails with what its source failed with, and leaves the cursor invalid.
pub trait Cursor {
    /// [`Blocking`], or what a suspended read waits for.
    type Suspend;

    /// Whether the cursor stands on an entry.
    fn valid(&self) -> bool;

    /// Moves to the first entry.
    #[expect(
        clippy::missing_errors_doc,
        reason = "said once for all positioning calls"
    )]
    fn seek_to_first(&mut self) -> Result<(), Fault<Self::Suspend>>;

    /// Moves to the last entry.
    #[expect(
        clippy::missing_errors_doc,
        reason = "said once for all positioning calls"
    )]
    fn seek_to_last(&mut self) -> Result<(), Fault<Self::Suspend>>;

    /// Moves to the first entry at or after the internal key `target`.
    #[expect(
        clippy::missing_errors_doc,
        reason = "said once for all positioning calls"
    )]
    fn seek(&mut self, target: &[u8]) -> Result<(), Fault<Self::Suspend>>;

    /// Moves to the last entry at or before the internal key `target`.
    #[expect(
        clippy::missing_errors_doc,
        reason = "said once for all positioning calls"
    )]
    fn seek_for_prev(&mut self, target: &[u8]) -> Result<(), Fault<Self::Suspend>>;

    /// Moves to the next entry. The cursor must be valid.
    #[expect(
        clippy::missing_errors_doc,
        reason = "said once for all positioning calls"
    )]
    fn next(&mut self) -> Result<(), Fault<Self::Suspend>>;

    /// Moves to the previous entry. The cursor must be valid.
    #[expect(
        clippy::missing_errors_doc,
        reason = "said once for all positioning calls"
    )]
    fn prev(&mut self) -> Result<(), Fault<Self::Suspend>>;

    /// The internal key of the entry. The cursor must be valid.
    fn key(&self) -> &[u8];

    /// The value of the entry. The cursor must be valid.
    fn value(&self) -> &[u8];

    /// The value of the entry, owned: without a copy where the source can be pinned.
    fn pinned_value(&self) -> PinnedSlice {
        PinnedSlice::copy_of(self.value())
    }
}
