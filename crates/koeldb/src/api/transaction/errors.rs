//! The errors of transactions: a kind and a detail each; none of them has changed the database.

use crate::commit::key_locks::errors::not_applied;
use crate::state::context::Context;
use koeldb_base::error::{ErrorDetail, WriteOutcome};
use koeldb_base::{Error, ErrorKind};

/// Creates the error of a key that was written since the snapshot, or since it was tracked.
pub(super) fn conflict(key: &[u8], context: &Context) -> Error {
    let message = format!(
        "{} was written since the transaction's snapshot, or since it was tracked",
        context.shown_key(key)
    );
    not_applied(ErrorKind::Busy, ErrorDetail::WriteConflict, message)
}

/// Creates the error for key locks if the comparator may equate keys of different bytes.
pub(super) fn equal_keys_differ(family: &str) -> Error {
    Error::not_supported(format!(
        "locks are on the bytes of keys, and the comparator of column family {family:?} may have \
         equal keys of different bytes; if it has none, let its permits_hashes return true"
    ))
    .with_outcome(WriteOutcome::NotApplied)
}

/// Creates the error for a key with a user-defined timestamp in an optimistic transaction.
pub(super) fn has_timestamps(family: &str) -> Error {
    Error::not_supported(format!(
        "column family {family:?} has user-defined timestamps, which optimistic transactions do not \
         support: open the database with Options::set_transactions, or write without a transaction"
    ))
    .with_outcome(WriteOutcome::NotApplied)
}

/// Creates the `TryAgain` error of a validation from before the oldest entries in memtables.
pub(super) fn history_too_short() -> Error {
    Error::with_kind(
        ErrorKind::TryAgain,
        "the memtables do not reach back to the transaction's snapshot; repeat the transaction, or validate with \
         ValidationTier::All",
    )
    .with_outcome(WriteOutcome::NotApplied)
}

/// Creates the error of a batch that exceeds `max_write_batch_size`.
pub(super) fn batch_too_large(bytes: usize, bytes_max: usize) -> Error {
    Error::with_kind(
        ErrorKind::MemoryLimit,
        format!("the transaction's batch has {bytes} bytes, at most {bytes_max}"),
    )
    .with_outcome(WriteOutcome::NotApplied)
}

/// Creates the error of a call that a prepared transaction does not permit.
pub(super) fn is_prepared() -> Error {
    Error::invalid_argument("the transaction is prepared").with_outcome(WriteOutcome::NotApplied)
}

/// Creates the error of a commit of a transaction that must be prepared first.
pub(super) fn not_prepared() -> Error {
    let message = "the transaction is not prepared, and skip_prepare is off";
    not_applied(
        ErrorKind::InvalidArgument,
        ErrorDetail::NotPrepared,
        message,
    )
}

/// Whether `error` is a conflict, deadlock, expiry or lock timeout: a repetition may succeed.
pub(super) fn is_worth_repeating(error: &Error) -> bool {
    let is_conflict = match error.kind() {
        ErrorKind::Busy | ErrorKind::TryAgain | ErrorKind::Expired => true,
        ErrorKind::TimedOut => error.detail() == Some(ErrorDetail::LockTimeout),
        _ => false,
    };
    is_conflict && error.write_outcome() == Some(WriteOutcome::NotApplied)
}

/// Creates the error of a commit after operations were removed from a prepared transaction's batch.
pub(super) fn is_not_as_prepared() -> Error {
    Error::invalid_argument(
        "operations were removed from the batch of a prepared transaction: clear the transaction, \
         and decide on the prepared one by its own handle",
    )
    .with_outcome(WriteOutcome::NotApplied)
}
