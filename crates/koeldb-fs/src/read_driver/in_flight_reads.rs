//! Joins reads of the same range, so that an in-flight range is not read again.
//!
//! A request that is about to be issued to a device is listed under its file and range. A second
//! request for a part of that range is not issued. It waits in the list and is answered with a copy
//! of the bytes when the first one completes. Only bytes are shared: a failure or cancellation
//! concerns only its owner, and the requests that waited for it are then read by themselves.
//!
//! No request waits forever, since a listed read makes progress independently of its waiters:
//! - A read that others execute always makes progress, even if its owner is gone.
//! - A read in the ring of a call makes progress because that call cannot end before it, and waits
//!   for the reads of others only while its own ring is empty. A nested call on the same thread
//!   does not join it.
//! - A waiting request is not listed, so no request waits for a waiting one.
//!
//! A device may lose a read, or take very long over one: a read that began a while ago is not
//! joined.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, ThreadId};
use std::time::Duration;

use koeldb_base::sync::lock_plain;

use super::request::Request;
use crate::file::RandomAccessFile;

/// The number of lists over which files are spread, each with its own lock.
const SHARDS: usize = 16;

/// The age from which new requests no longer join an in-flight read.
pub const JOINED_WITHIN: Duration = Duration::from_secs(1);

/// The key of an in-flight read: the address of its open file, and its start offset.
type ReadStart = (usize, u64);

/// An in-flight read and the requests that wait for a part of it.
#[derive(Debug)]
struct InFlightRead {
    /// The end offset of the read, exclusive.
    end: u64,
    /// The time at which the read began.
    begun: Duration,
    /// The thread whose own ring has the read; `None` if another thread executes it.
    thread: Option<ThreadId>,
    /// The requests that wait for a part of the read.
    waiting: Vec<Request>,
}

impl InFlightRead {
    /// Whether a request that starts within the read and ends at `end` may wait for it.
    fn can_be_joined(&self, request: &Request, end: u64) -> bool {
        let elapsed = request.begun().saturating_sub(self.begun);
        let is_own = |owner: ThreadId| owner == thread::current().id();
        end <= self.end && elapsed <= JOINED_WITHIN && !self.thread.is_some_and(is_own)
    }
}

/// The in-flight reads of one database, which requests for the same bytes may join.
#[derive(Debug, Default)]
pub(super) struct InFlightReads {
    shards: [Mutex<BTreeMap<ReadStart, InFlightRead>>; SHARDS],
}

impl InFlightReads {
    /// Locks the shard of a file, which is given by its address.
    fn shard(&self, file: usize) -> MutexGuard<'_, BTreeMap<ReadStart, InFlightRead>> {
        // Addresses of files are multiples of some power of two.
        let shard = &self.shards[((file >> 4) ^ (file >> 10)) % SHARDS];
        lock_plain(shard)
    }

    /// Lists a request as an in-flight read, or makes it wait for a listed read that covers it.
    ///
    /// `thread` is the owner of the ring it will enter, if any. Returns the request if the caller
    /// must begin it.
    pub(super) fn admit(&self, mut request: Request, thread: Option<ThreadId>) -> Option<Request> {
        let file = identity(request.file());
        let (start, end) = request.range();
        let mut shard = self.shard(file);
        let before = shard.range_mut((file, 0)..=(file, start)).next_back();
        if let Some((_, listed)) = before
            && listed.can_be_joined(&request, end)
        {
            request.count_join();
            listed.waiting.push(request);
            return None;
        }
        shard.entry((file, start)).or_insert_with(|| {
            request.set_listed();
            InFlightRead {
                end,
                begun: request.begun(),
                thread,
                waiting: Vec::new(),
            }
        });
        Some(request)
    }

    /// Removes a listed read and returns the requests that wait for it.
    pub(super) fn close(&self, file: &Arc<dyn RandomAccessFile>, start: u64) -> Vec<Request> {
        let file = identity(file);
        let closed = self.shard(file).remove(&(file, start));
        closed.map_or_else(Vec::new, |listed| listed.waiting)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        (0..SHARDS).all(|shard| self.shard(shard << 4).is_empty())
    }

    /// Whether any request waits for a listed read.
    pub(super) fn is_joined(&self, file: &Arc<dyn RandomAccessFile>, start: u64) -> bool {
        let file = identity(file);
        let shard = self.shard(file);
        let listed = shard.get(&(file, start));
        listed.is_some_and(|listed| !listed.waiting.is_empty())
    }
}

/// Returns the address of an open file, as its key.
fn identity(file: &Arc<dyn RandomAccessFile>) -> usize {
    Arc::as_ptr(file).cast::<()>().addr()
}
