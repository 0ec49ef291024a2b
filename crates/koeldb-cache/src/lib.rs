//! KoelDB's cache of charged, reference-counted entries.
//!
//! Its job is to keep what was dear to get, within a number of bytes, and to choose what goes. What the entries
//! are — blocks, rows, blobs — and how they are got is left to others: an entry is an [`Arc`](std::sync::Arc)
//! with a charge.
//!
//! - [`cache`](Cache): the handle; shards and their locks.
//! - `shard`: entries, the index that finds them, what they weigh.
//! - `policy`: which entry goes next: `clock`, which resists scans, or `lru`, with pools by [`Priority`].
//!   Both are lists through the entries (`list`); a clock also remembers what it sent away (`ghost`).
//!
//! Any number of threads may use a cache. A hit takes the lock of one shard for a few nanoseconds, clones an
//! `Arc`, allocates nothing and writes to no other memory that threads share. Values are dropped outside of
//! locks. An entry that somebody holds is *pinned*: it is not evicted, and its bytes keep counting.

mod cache;
mod clock;
mod entry;
mod ghost;
mod index;
mod list;
mod lru;
mod policy;
mod shard;
mod sync;

pub use cache::{Cache, CacheCounts, CacheKey, CacheOptions, CachePolicy, Priority};
