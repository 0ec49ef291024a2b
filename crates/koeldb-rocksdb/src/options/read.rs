//! Options of reads.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::ReadTier;
use crate::error::timestamp;
use crate::{Error, IterateBounds};

/// Options of reads and iterators.
pub struct ReadOptions {
    pub(crate) inner: koeldb::ReadOptions,
    /// The error of a timestamp that has not the size of timestamps.
    refused: Option<Error>,
}

impl Default for ReadOptions {
    fn default() -> Self {
        ReadOptions::DEFAULT
    }
}

impl ReadOptions {
    pub(crate) const DEFAULT: ReadOptions = ReadOptions {
        inner: koeldb::ReadOptions::new(),
        refused: None,
    };

    /// Returns options with `total_order_seek`, for iterators that cross prefixes.
    pub(crate) fn total_order() -> Self {
        let mut options = ReadOptions::default();
        options.set_total_order_seek(true);
        options
    }

    /// Returns options with `prefix_same_as_start`, for iterators within one prefix.
    pub(crate) fn one_prefix() -> Self {
        let mut options = ReadOptions::default();
        options.set_prefix_same_as_start(true);
        options
    }

    /// Returns the engine's options, or the error of a setting that it does not support.
    pub(crate) fn checked(&self) -> Result<&koeldb::ReadOptions, Error> {
        match &self.refused {
            None => Ok(&self.inner),
            Some(error) => Err(error.clone()),
        }
    }

    same! {
        /// Whether blocks that were read enter the cache; true by default.
        fill_cache(bool);
        /// Ends a scan after the last key with the prefix of the key it was positioned at.
        set_prefix_same_as_start(bool);
        /// Whether prefix filters are ignored, so that scans cross prefixes.
        set_total_order_seek(bool);
        /// A scan fails with `Incomplete` after skipping this many entries; 0: never.
        set_max_skippable_internal_keys(u64);
        /// Skips range deletions: only for column families that never had one.
        set_ignore_range_deletions(bool);
        /// Whether checksums of blocks read from files are verified; true by default.
        set_verify_checksums(bool);
        /// Trims the readahead of scans to their bounds; true by default.
        set_auto_readahead_size(bool);
        /// Makes a tailing iterator: each seek sees the latest state.
        set_tailing(bool);
        /// Keeps blocks in memory as long as the iterator lives.
        set_pin_data(bool);
        /// Overlaps the file reads of a multi-get or scan (`async_io`).
        set_async_io(bool);
    }

    /// Sets the inclusive lower bound of iterators (`iterate_lower_bound`).
    pub fn set_iterate_lower_bound<K: Into<Vec<u8>>>(&mut self, key: K) {
        self.inner.set_iterate_lower_bound(key.into());
    }

    /// Sets the exclusive upper bound of iterators (`iterate_upper_bound`).
    pub fn set_iterate_upper_bound<K: Into<Vec<u8>>>(&mut self, key: K) {
        self.inner.set_iterate_upper_bound(key.into());
    }

    /// Sets both bounds of iterators, from a range or a [`PrefixRange`](crate::PrefixRange).
    pub fn set_iterate_range(&mut self, range: impl IterateBounds) {
        let (lower, upper) = range.into_bounds();
        self.inner.set_iterate_lower_bound(lower);
        self.inner.set_iterate_upper_bound(upper);
    }

    /// Sets the read tier, the data that reads may use: all, cached, persisted or memtables only.
    pub fn set_read_tier(&mut self, tier: ReadTier) {
        self.inner.set_read_tier(tier.engine());
    }

    /// Has no effect: obsolete files are always deleted in the background.
    pub fn set_background_purge_on_iterator_cleanup(&mut self, v: bool) {
        let _ = v;
    }

    /// Sets the readahead of iterators in bytes; 0 is adaptive readahead.
    pub fn set_readahead_size(&mut self, v: usize) {
        self.inner.set_readahead_size(v as u64);
    }

    /// Sets the time, in microseconds since 1970, after which reads time out; 0 is no limit.
    #[expect(
        clippy::disallowed_methods,
        reason = "the API counts from 1970, the engine from the clock of instants"
    )]
    pub fn set_deadline(&mut self, microseconds: u64) {
        if microseconds == 0 {
            self.inner.set_deadline(None);
            return;
        }
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
        let left =
            Duration::from_micros(microseconds).saturating_sub(since_1970.unwrap_or_default());
        self.inner.set_deadline(Instant::now().checked_add(left));
    }

    /// Sets the microseconds after which a file read fails with `TimedOut`; 0 is no limit.
    pub fn set_io_timeout(&mut self, microseconds: u64) {
        let limit = (microseconds > 0).then(|| Duration::from_micros(microseconds));
        self.inner.set_io_timeout(limit);
    }

    /// Reads the versions of keys up to this timestamp.
    pub fn set_timestamp<S: Into<Vec<u8>>>(&mut self, ts: S) {
        let timestamp = self.timestamp(ts);
        self.inner.set_timestamp(timestamp);
    }

    /// Makes iterators return all versions from this timestamp on, with internal keys.
    pub fn set_iter_start_ts<S: Into<Vec<u8>>>(&mut self, ts: S) {
        let timestamp = self.timestamp(ts);
        self.inner.set_iter_start_ts(timestamp);
    }

    /// Returns the timestamp; an empty one is none, and one of another size makes reads fail.
    fn timestamp(&mut self, ts: impl Into<Vec<u8>>) -> Option<koeldb::Timestamp> {
        let ts = ts.into();
        if ts.is_empty() {
            return None;
        }
        timestamp(&ts)
            .inspect_err(|error| {
                self.refused.get_or_insert(error.clone());
            })
            .ok()
    }
}
