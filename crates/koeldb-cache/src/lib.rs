//! KoelDB's cache of charged, reference-counted entries.
//!
//! It keeps expensive values within a number of bytes, and chooses which to evict. It does not
//! interpret entries (blocks, rows, blobs) or load them: an entry is an [`Arc`](std::sync::Arc)
//! with a charge.
//!
//! - [`cache`](Cache): the handle; shards and their locks.
//! - `key`, `options`: the keys of entries; the settings of a cache and the priorities of entries.
//! - `shard`: entries (`entry`) and their total charge, behind the lock.
//! - `table`: the slots with keys and values, and the `index` that finds them; lookups use both
//!   without the lock, announced in `passing`.
//! - `policy`: the eviction policy: `s3_fifo` is S3-FIFO, which resists scans; `lru` has pools by
//!   [`Priority`]. Both are lists through the entries (`list`); S3-FIFO also remembers evicted tags
//!   (`ghost`). An `eviction` limits the pinned entries that it skips.
//!
//! Any number of threads may use a cache concurrently. A hit takes no lock and allocates nothing.
//! It clones an `Arc`, and otherwise writes only lines of its own thread, and the heat of an entry
//! that is not hot yet. A miss, and a change, takes the lock of one shard. Values are dropped
//! outside the locks. An entry with outside references is *pinned*: it is not evicted, and its bytes
//! keep counting.

#[cfg(koeldb_counts)]
extern crate koeldb_counts as std;

mod cache;
mod entry;
mod eviction;
mod ghost;
mod index;
mod key;
mod list;
mod lru;
mod options;
mod passing;
mod policy;
mod s3_fifo;
mod shard;
mod sync;
mod table;

pub use cache::Cache;
pub use key::CacheKey;
pub use options::{CacheOptions, CachePolicy, Priority};
pub use shard::CacheCounts;
