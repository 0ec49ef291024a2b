//! The errors of lock requests: a kind and a detail each; none of them has changed the database.

use koeldb_base::error::{ErrorDetail, WriteOutcome};
use koeldb_base::{Error, ErrorKind};

use super::DeadlockPath;

/// An error of a step that has not changed the database.
pub(crate) fn not_applied(
    kind: ErrorKind,
    detail: ErrorDetail,
    message: impl Into<String>,
) -> Error {
    Error::with_kind(kind, message)
        .with_detail(detail)
        .with_outcome(WriteOutcome::NotApplied)
}

/// A lock was not had in time.
pub(crate) fn lock_timeout(key: &[u8]) -> Error {
    let message = format!("no lock on key '{}' in time", key.escape_ascii());
    not_applied(ErrorKind::TimedOut, ErrorDetail::LockTimeout, message)
}

/// Waiting for a lock would close a cycle.
pub(crate) fn deadlock(path: &DeadlockPath) -> Error {
    let message = format!("the wait for a lock would be a deadlock: {path}");
    not_applied(ErrorKind::Busy, ErrorDetail::Deadlock, message)
}

/// The transaction expired, or others took its locks.
pub(crate) fn expired() -> Error {
    Error::with_kind(
        ErrorKind::Expired,
        "the transaction is older than its expiration",
    )
    .with_outcome(WriteOutcome::NotApplied)
}

/// `max_num_locks` is reached.
pub(crate) fn lock_limit() -> Error {
    let message = "the database has max_num_locks locks";
    not_applied(ErrorKind::Aborted, ErrorDetail::LockLimit, message)
}
