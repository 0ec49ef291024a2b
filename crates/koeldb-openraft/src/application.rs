//! The trait that applies requests to the replicated state.

use std::io;

use koeldb::{Db, PinnedSlice, Result, WriteBatchWithIndex};

/// The replicated application: applies each Raft request to the state deterministically.
///
/// Every replica applies the same requests in the same order and must reach the same state, so
/// clocks, random numbers and anything outside of `state` are out of bounds.
pub trait Application: Send + Sync + 'static {
    /// A request of a client, as the Raft log stores it.
    type Request;
    /// The answer to a request. Entries of Raft itself are answered with the default.
    type Response: Default;

    /// Applies a request to the state and returns the response for the client.
    ///
    /// # Errors
    /// Only if the state cannot be read: an error stops the node. A request that is refused has a
    /// response that says so.
    fn apply(&self, state: &mut StateBatch, request: &Self::Request) -> io::Result<Self::Response>;
}

/// A write batch over the state; its reads see the state and the batch's own pending writes.
pub struct StateBatch {
    pub(crate) db: Db,
    pub(crate) batch: WriteBatchWithIndex,
}

impl StateBatch {
    /// Reads the value of `key`, with the batch's own pending writes applied.
    ///
    /// # Errors
    /// Errors of the read.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<PinnedSlice>> {
        self.batch.get(self.db.default_cf(), key)
    }

    /// Adds a put of `key` to the batch.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.batch.put(key, value);
    }

    /// Adds a deletion of `key` to the batch.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) {
        self.batch.delete(key);
    }

    /// Adds a merge operand for `key` to the batch.
    pub fn merge(&mut self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) {
        self.batch.merge(key, operand);
    }
}
