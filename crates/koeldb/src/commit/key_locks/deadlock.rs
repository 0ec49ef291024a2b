//! Reports of deadlocks.

use std::fmt;
use std::sync::Arc;

use super::table::{LockMode, Wait};

/// A transaction of a deadlock, and the lock it waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadlockInfo {
    /// The id of the transaction.
    pub transaction: u64,
    /// The id of the column family of the key.
    pub column_family: u32,
    /// The key for which the transaction waited, which the next one holds or waits for.
    pub key: Vec<u8>,
    /// The lock mode that the transaction requested.
    pub mode: LockMode,
}

/// A detected deadlock: a cycle of waits, beginning with the one that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadlockPath {
    /// The waits; each waits for the next, and the last one for the first.
    pub path: Vec<DeadlockInfo>,
    /// The time of detection, in microseconds since 1970.
    pub unix_micros: u64,
}

impl DeadlockPath {
    pub(super) fn new(waits: &[Arc<Wait>], unix_micros: u64) -> Self {
        let path = waits.iter().map(|wait| DeadlockInfo {
            transaction: wait.owner.id,
            column_family: wait.key.cf,
            key: wait.key.key.to_vec(),
            mode: wait.mode,
        });
        DeadlockPath {
            path: path.collect(),
            unix_micros,
        }
    }
}

impl fmt::Display for DeadlockPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, wait) in self.path.iter().enumerate() {
            if at > 0 {
                f.write_str(", ")?;
            }
            write!(
                f,
                "{} waits for '{}' ({:?}, column family {})",
                wait.transaction,
                wait.key.escape_ascii(),
                wait.mode,
                wait.column_family
            )?;
        }
        Ok(())
    }
}
