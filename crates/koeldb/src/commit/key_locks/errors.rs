//! The errors of lock requests: a kind and a detail each; none of them has changed the database.

use koeldb_base::error::{ErrorDetail, WriteOutcome};
use koeldb_base::{Error, ErrorKind};

use super::DeadlockPath;
use crate::state::context::Context;

/// Creates an error of an operation that has not changed the database.
pub(crate) fn not_applied(
    kind: ErrorKind,
    detail: ErrorDetail,
    message: impl Into<String>,
) -> Error {
    Error::with_kind(kind, message)
        .with_detail(detail)
        .with_outcome(WriteOutcome::NotApplied)
}

/// Creates the error of a lock that was not acquired before the timeout.
pub(crate) fn lock_timeout(key: &[u8], context: &Context) -> Error {
    let message = format!("no lock on {} in time", context.shown_key(key));
    not_applied(ErrorKind::TimedOut, ErrorDetail::LockTimeout, message)
}

/// Creates the error of a wait that would close a cycle.
pub(crate) fn deadlock(path: &DeadlockPath, context: &Context) -> Error {
    let message = if context.db_options.allow_data_in_errors {
        format!("waiting for a lock would be a deadlock: {path}")
    } else {
        "waiting for a lock would be a deadlock".to_owned()
    };
    not_applied(ErrorKind::Busy, ErrorDetail::Deadlock, message)
}

/// Creates the error of a transaction that has expired, so that others may have its locks.
pub(crate) fn expired() -> Error {
    Error::with_kind(
        ErrorKind::Expired,
        "the transaction is older than its expiration",
    )
    .with_outcome(WriteOutcome::NotApplied)
}

/// Creates the error for a lock beyond `max_num_locks`.
pub(crate) fn lock_limit() -> Error {
    let message = "the database has max_num_locks locks";
    not_applied(ErrorKind::Aborted, ErrorDetail::LockLimit, message)
}
