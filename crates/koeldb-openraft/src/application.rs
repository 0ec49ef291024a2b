//! The trait that applies requests to the replicated state.

use std::io;

use koeldb::{Db, PinnedSlice, Result, WriteBatchWithIndex};

/// The meaning of requests: a deterministic function of the state.
///
/// Every replica applies the same requests in the same order and must reach the same state, so
/// clocks, random numbers and anything outside of `state` are out of bounds.
pub trait Application: Send + Sync + 'static {
    /// A request of a client, as the Raft log stores it.
    type Request;
    /// The answer to a request. Entries of Raft itself are answered with the default.
    type Response: Default;

    /// Applies a request to the state.
    ///
    /// # Errors
    /// Only if the state cannot be read: an error stops the node. A request that is refused has a
    /// response that says so.
    fn apply(&self, state: &mut StateBatch, request: &Self::Request) -> io::Result<Self::Response>;
}

/// The state with the effects of the requests that are being applied.
pub struct StateBatch {
    pub(crate) db: Db,
    pub(crate) batch: WriteBatchWithIndex,
}

impl StateBatch {
    /// Reads the value of `key`.
    ///
    /// # Errors
    /// Errors of the read.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<PinnedSlice>> {
        self.batch.get(self.db.default_cf(), key)
    }

    /// Sets the value of `key`.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.batch.put(key, value);
    }

    /// Deletes `key`.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) {
        self.batch.delete(key);
    }

    /// Adds a merge operand to `key`.
    pub fn merge(&mut self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) {
        self.batch.merge(key, operand);
    }
}
