//! The blob cache: uncompressed values of blob files (RocksDB: `BlobSource`).
//!
//! Entries have the type of those of the block cache, so that one cache can serve both. A value that
//! was found is pinned by its memory, not by the cache: the cache may evict it meanwhile.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::sync::Arc;

use koeldb_base::perf::{self, PerfMetric};
use koeldb_base::stats::{Statistics, Ticker};
use koeldb_base::{Buffer, PinnedSlice};
use koeldb_cache::{Cache, CacheKey, Priority};

use crate::block::{BlockBytes, CachedBlock, ValueRange};

/// The memory beyond the value that a cached value may keep, for the header and key of its record.
const SLACK_BYTES: usize = 1 << 10;

/// The values of one blob file in a blob cache.
#[derive(Debug)]
pub(super) struct CachedValues {
    cache: Cache<CachedBlock>,
    /// The file's part of the cache keys.
    id: u64,
    statistics: Option<Statistics>,
}

impl CachedValues {
    /// Creates an empty share of `cache` for a file.
    pub(super) fn new(cache: Cache<CachedBlock>, statistics: Option<Statistics>) -> Self {
        CachedValues {
            id: cache.new_id(),
            cache,
            statistics,
        }
    }

    fn key(&self, offset: u64) -> CacheKey {
        CacheKey {
            file: self.id,
            offset,
        }
    }

    /// Whether the value at `offset` is cached. This counts no hit or miss.
    pub(super) fn contains(&self, offset: u64) -> bool {
        self.cache.get(&self.key(offset)).is_some()
    }

    /// Returns the value at `offset`, if it is cached.
    pub(super) fn get(&self, offset: u64) -> Option<PinnedSlice> {
        let found = self.cache.get(&self.key(offset));
        let bytes = found.as_ref().map(|block| block.bytes());
        let Some(bytes) = bytes else {
            self.count(&[(Ticker::BlobDbCacheMiss, 1)]);
            return None;
        };
        let len = u32::try_from(bytes.len()).ok()?;
        self.count(&[
            (Ticker::BlobDbCacheHit, 1),
            (Ticker::BlobDbCacheBytesRead, u64::from(len)),
        ]);
        perf::count(PerfMetric::BlobCacheHitCount, 1);
        perf::count(PerfMetric::BlobCacheReadByte, u64::from(len));
        Some(bytes.pin(ValueRange { start: 0, len }))
    }

    /// Inserts the value at `offset`, and returns it; it is copied if it pins much more memory.
    ///
    /// A full cache is no error: the value is used and dropped.
    pub(super) fn insert(&self, offset: u64, value: PinnedSlice) -> PinnedSlice {
        let Ok(len) = u32::try_from(value.len()) else {
            return value;
        };
        let fits = |bytes: usize| bytes <= value.len().saturating_add(SLACK_BYTES);
        let (buffer, start) = match value.pinned_in() {
            Some((buffer, start)) if fits(buffer.as_slice().len()) => (Arc::clone(buffer), start),
            _ => (Arc::new(Buffer::from_vec(value.to_vec())), 0),
        };
        let kept = PinnedSlice::pin(&buffer, start, len);
        let block = CachedBlock::Raw(BlockBytes::new(buffer, start, len));
        let charge = block.charge();
        let key = self.key(offset);
        match (self.cache).insert(key, Arc::new(block), charge, Priority::Bottom) {
            Ok(()) => self.count(&[
                (Ticker::BlobDbCacheAdd, 1),
                (Ticker::BlobDbCacheBytesWrite, u64::from(len)),
            ]),
            Err(_) => self.count(&[(Ticker::BlobDbCacheAddFailures, 1)]),
        }
        kept
    }

    fn count(&self, counts: &[(Ticker, u64)]) {
        if let Some(statistics) = &self.statistics {
            statistics.add_all(counts);
        }
    }
}
