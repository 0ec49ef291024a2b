//! KoelDB's cache of charged, reference-counted entries.
//!
//! It keeps expensive values within a number of bytes, and chooses which to evict. It does not
//! interpret entries (blocks, rows, blobs) or load them: an entry is an [`Arc`](std::sync::Arc)
//! with a charge.
//!
//! - [`cache`](Cache): the handle; shards and their locks.
//! - `shard`: entries, the index that finds them, their total charge.
//! - `policy`: the eviction policy: `s3_fifo` is S3-FIFO, which resists scans; `lru` has pools by
//!   [`Priority`]. Both are lists through the entries (`list`); S3-FIFO also remembers evicted tags
//!   (`ghost`).
//!
//! Any number of threads may use a cache concurrently. A hit takes the lock of one shard for a few
//! nanoseconds, clones an `Arc`, allocates nothing and writes to no other shared memory. Values are
//! dropped outside the locks. An entry with outside references is *pinned*: it is not evicted, and
//! its bytes keep counting.

#[cfg(koeldb_counts)]
extern crate koeldb_counts as std;

mod cache;
mod entry;
mod ghost;
mod index;
mod list;
mod lru;
mod policy;
mod s3_fifo;
mod shard;
mod sync;

pub use cache::{Cache, CacheCounts, CacheKey, CacheOptions, CachePolicy, Priority};
