//! Reads that several want: a range that is under way is not read again.
//!
//! A request that is about to be given to a device is listed under its file and range. Another one for a part of that range
//! is not given to the device. It waits in the list, and is answered with a copy of the bytes when the first one is. Only
//! bytes are shared: what fails or is given up concerns its owner alone, and those that waited for it are read by themselves.
//!
//! Nobody waits in vain, since a listed read makes progress whoever waits for it:
//! - One that others carry out always does, even if its owner is gone.
//! - One in the ring of a call does because that call cannot end before it, and waits for the reads of others only while its
//!   own ring is empty. What the same thread calls meanwhile, a call inside a call, does not wait for it.
//! - A request that waits is not listed, so that nobody waits for one that waits.
//!
//! A device may lose a read, or take very long over one: nobody joins what was begun a while ago.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, ThreadId};
use std::time::Duration;

use koeldb_base::sync::lock_plain;

use super::request::Request;
use crate::file::RandomAccessFile;

/// Files are spread over so many lists, each with a lock of its own.
const SHARDS: usize = 16;

/// A read that has not arrived so long after it was begun is not waited for by more.
pub const JOINED_WITHIN: Duration = Duration::from_secs(1);

/// A file, which its request keeps open as long as it is listed, and an offset.
type Place = (usize, u64);

/// A read under way.
#[derive(Debug)]
struct Listed {
    /// The offset behind it.
    end: u64,
    /// When it was begun.
    begun: Duration,
    /// The thread that has it in a ring of its own; `None` if others carry it out.
    thread: Option<ThreadId>,
    /// Those who want a part of it.
    waiting: Vec<Request>,
}

impl Listed {
    /// Whether a request that begins behind it and ends at `end` may wait for it.
    fn can_be_joined(&self, request: &Request, end: u64) -> bool {
        let elapsed = request.begun().saturating_sub(self.begun);
        let is_own = |owner: ThreadId| owner == thread::current().id();
        end <= self.end && elapsed <= JOINED_WITHIN && !self.thread.is_some_and(is_own)
    }
}

/// The reads under way of one database.
#[derive(Debug, Default)]
pub(super) struct Joins {
    shards: [Mutex<BTreeMap<Place, Listed>>; SHARDS],
}

impl Joins {
    fn shard(&self, file: usize) -> MutexGuard<'_, BTreeMap<Place, Listed>> {
        // Files lie at multiples of some power of two.
        let shard = &self.shards[((file >> 4) ^ (file >> 10)) % SHARDS];
        lock_plain(shard)
    }

    /// Takes a request that is about to be begun, by `thread` in a ring of its own or by others. Gives it back to be begun,
    /// unless it can wait for one that was.
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
            Listed {
                end,
                begun: request.begun(),
                thread,
                waiting: Vec::new(),
            }
        });
        Some(request)
    }

    /// Takes a listed read off, and gives back those that wait for it.
    pub(super) fn close(&self, file: &Arc<dyn RandomAccessFile>, start: u64) -> Vec<Request> {
        let file = identity(file);
        let closed = self.shard(file).remove(&(file, start));
        closed.map_or_else(Vec::new, |listed| listed.waiting)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        (0..SHARDS).all(|shard| self.shard(shard << 4).is_empty())
    }

    /// Whether anybody waits for a listed read.
    pub(super) fn is_joined(&self, file: &Arc<dyn RandomAccessFile>, start: u64) -> bool {
        let file = identity(file);
        let shard = self.shard(file);
        let listed = shard.get(&(file, start));
        listed.is_some_and(|listed| !listed.waiting.is_empty())
    }
}

fn identity(file: &Arc<dyn RandomAccessFile>) -> usize {
    Arc::as_ptr(file).cast::<()>().addr()
}
