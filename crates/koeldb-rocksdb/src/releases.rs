//! Methods that earlier releases of the original had.
//!
//! The crates in `shims` compile the sources of this crate with `before_0_N` set for each later
//! release N: they get these methods, the signatures of their release, and none of the names that
//! were added since. In this crate none is set.

#[cfg(before_0_20)]
use crate::Env;
#[cfg(before_0_25)]
use crate::Options;
#[cfg(before_0_23)]
use crate::statistics::Ticker;
#[cfg(before_0_21)]
use crate::{BlockBasedOptions, CStrLike, Cache, Error};

#[cfg(before_0_25)]
impl Options {
    /// Has no effect: an open reads no table whose size it does not know.
    pub fn set_skip_checking_sst_file_sizes_on_db_open(&mut self, value: bool) {
        let _ = value;
    }
}

#[cfg(all(before_0_25, not(before_0_22)))]
#[allow(
    non_upper_case_globals,
    reason = "the original has variants of these names"
)]
impl crate::statistics::Ticker {
    /// The inlined writes of the old BlobDB; stays 0.
    pub const BlobDbWriteInlined: Self = Self::BlobDbWriteInlinedDeprecated;
    /// The inlined writes with a time to live of the old BlobDB; stays 0.
    pub const BlobDbWriteInlinedTtl: Self = Self::BlobDbWriteInlinedTtlDeprecated;
}

#[cfg(before_0_23)]
#[allow(
    non_upper_case_globals,
    reason = "the original has variants of these names"
)]
impl Ticker {
    /// The blocks that were stored as they are, because compression gained too little.
    pub const NumberBlockNotCompressed: Self = Self::NumberBlockCompressionRejected;
    /// Errors of background work.
    pub const ErrorHandlerBgErrorCountMisspelled: Self = Self::ErrorHandlerBgErrorCount;
    /// Errors of input and output in background work.
    pub const ErrorHandlerBgIoErrorCountMisspelled: Self = Self::ErrorHandlerBgIoErrorCount;
    /// Retryable errors of input and output in background work.
    pub const ErrorHandlerBgRetryableIoErrorCountMisspelled: Self =
        Self::ErrorHandlerBgRetryableIoErrorCount;
    /// Recoveries from errors of background work.
    pub const ErrorHandlerAutoResumeCount: Self = Self::ErrorHandlerAutoresumeCount;
    /// Attempts of recoveries.
    pub const ErrorHandlerAutoResumeRetryTotalCount: Self =
        Self::ErrorHandlerAutoresumeRetryTotalCount;
    /// Recoveries that succeeded.
    pub const ErrorHandlerAutoResumeSuccessCount: Self = Self::ErrorHandlerAutoresumeSuccessCount;
    /// Read-ahead that was cut at an upper bound.
    pub const ReadAheadTrimmed: Self = Self::ReadaheadTrimmed;
}

#[cfg(before_0_21)]
impl BlockBasedOptions {
    /// Sets a new block cache of `size` bytes.
    pub fn set_lru_cache(&mut self, size: usize) {
        self.set_block_cache(&Cache::lru(size));
    }

    /// Has no effect: there is no cache of compressed blocks.
    pub fn set_lru_cache_compressed(&mut self, size: usize) {
        let _ = size;
    }

    /// Has no effect: there is no cache of compressed blocks.
    pub fn set_block_cache_compressed(&mut self, cache: &Cache) {
        let _ = cache;
    }
}

#[cfg(before_0_21)]
impl Cache {
    /// Creates an LRU cache of `capacity` bytes.
    pub fn new_lru_cache(capacity: usize) -> Result<Cache, Error> {
        Ok(Cache::lru(capacity))
    }
}

/// A function that compares two keys.
#[cfg(before_0_21)]
type Compare = fn(&[u8], &[u8]) -> std::cmp::Ordering;

#[cfg(before_0_21)]
impl Options {
    /// Sets a user comparator: a name and a function that compares two keys.
    pub fn set_comparator(&mut self, name: impl CStrLike, compare_fn: Compare) {
        self.compare_by(name, Box::new(compare_fn));
    }

    /// Sets a user comparator: a name and a function that compares two keys.
    pub fn add_comparator(&mut self, name: &str, compare_fn: Compare) {
        self.set_comparator(name, compare_fn);
    }
}

#[cfg(before_0_20)]
impl Env {
    /// Returns the default environment: the operating system's files and the shared thread pool.
    #[expect(
        clippy::should_implement_trait,
        reason = "the signature is that of the crate rocksdb"
    )]
    pub fn default() -> Result<Self, Error> {
        Env::new()
    }
}
