//! Cursors over internal entries, and the fault that a read returns when a block is not available.
//!
//! A reader requests blocks from a block source. A source that would have to wait returns
//! [`Fault::Suspend`], which propagates through `?` like an error. In blocking builds of a reader
//! the suspension type is [`Blocking`], which has no values, so the compiler removes every such
//! branch.
//!
//! Invariants of every [`Cursor`]: entries come in internal-key order. After an error the cursor is
//! invalid, and the next positioning call starts over. An invalid cursor without an error is at
//! the end. A step that suspended leaves the cursor in a state where repeating the same call
//! completes it.

use std::convert::Infallible;

use crate::error::Error;
use crate::pinned::PinnedSlice;
use crate::timestamp::EntryVersion;

/// The suspension type of sources that block.
pub type Blocking = Infallible;

/// The reason that a read stopped: an error, or a block that has to be fetched first.
#[derive(Debug)]
pub enum Fault<S> {
    /// The read failed.
    Error(Error),
    /// The read can resume once the blocks that it needs have arrived.
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
    /// Converts the error of a blocking cursor to the error type of a cursor that can suspend.
    pub fn widen<S>(self) -> Fault<S> {
        Fault::Error(self.into())
    }
}

/// A cursor over sorted entries of internal key and value (RocksDB: `InternalIterator`).
///
/// # Errors
/// Every positioning call returns the error of its source and leaves the cursor invalid.
pub trait Cursor {
    /// [`Blocking`], or a description of the data that a suspended read waits for.
    type Suspend;

    /// Whether the cursor is positioned on an entry.
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

    /// The value of the entry, owned; not copied if the source can be pinned.
    fn pinned_value(&self) -> PinnedSlice {
        PinnedSlice::copy_of(self.value())
    }

    /// The timestamp and footer of the entry as stored; `None` if the key shows them.
    fn version(&self) -> Option<EntryVersion> {
        None
    }
}
