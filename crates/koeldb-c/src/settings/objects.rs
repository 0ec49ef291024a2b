//! Objects that databases share: environments, rate limiters, buffers, the manager of files.

use std::ffi::CStr;
use std::time::Duration;

pub(crate) use koeldb::SstFileManager;
use koeldb::{Cache, DbPath, Env, RateLimiter, RateLimiterMode, WriteBufferManager};

use crate::memory::path;
use crate::settings::options::Options;

/// Returns the environment of the operating system.
pub(crate) fn default_env() -> Env {
    Env::default()
}

/// Creates an environment in memory.
pub(crate) fn mem_env() -> Env {
    Env::mem_env()
}

/// Sets the environment; without one, that of the operating system.
pub(crate) fn set_env(options: &mut Options, env: Option<&Env>) {
    options.inner.set_env(&env.cloned().unwrap_or_default());
}

/// Creates a rate limiter of writes.
pub(crate) fn rate_limiter(
    bytes_per_second: i64,
    refill_micros: i64,
    fairness: i32,
) -> RateLimiter {
    rate_limiter_of(bytes_per_second, refill_micros, fairness, 1, false)
}

/// Creates a rate limiter of writes that adapts to the demand.
pub(crate) fn auto_tuned(bytes_per_second: i64, refill_micros: i64, fairness: i32) -> RateLimiter {
    rate_limiter_of(bytes_per_second, refill_micros, fairness, 1, true)
}

/// Creates a rate limiter.
pub(crate) fn rate_limiter_of(
    bytes_per_second: i64,
    refill_micros: i64,
    fairness: i32,
    mode: i32,
    auto_tuned: bool,
) -> RateLimiter {
    let micros = u64::try_from(refill_micros).unwrap_or_default();
    RateLimiter::builder(u64::try_from(bytes_per_second).unwrap_or_default())
        .refill_period(Duration::from_micros(micros))
        .fairness(u32::try_from(fairness).unwrap_or_default())
        .mode(match mode {
            0 => RateLimiterMode::Reads,
            2 => RateLimiterMode::All,
            _ => RateLimiterMode::Writes,
        })
        .auto_tuned(auto_tuned)
        .build()
}

/// Sets the rate limiter.
pub(crate) fn set_rate_limiter(options: &mut Options, limiter: Option<&RateLimiter>) {
    if let Some(limiter) = limiter {
        options.inner.set_rate_limiter(limiter);
    }
}

/// Sets the cache of values in blob files.
pub(crate) fn set_blob_cache(options: &mut Options, cache: &Cache) {
    options.inner.set_blob_cache(cache);
}

/// The memory of memtables of several databases (`rocksdb_write_buffer_manager_t`).
pub(crate) struct Buffers {
    inner: WriteBufferManager,
    in_cache: bool,
}

/// Limits the memory of memtables.
pub(crate) fn buffers(bytes: usize, allow_stall: bool) -> Buffers {
    Buffers {
        inner: WriteBufferManager::new(bytes as u64, allow_stall),
        in_cache: false,
    }
}

/// Limits the memory of memtables, which takes its place in a cache.
pub(crate) fn buffers_in_cache(bytes: usize, cache: &Cache, allow_stall: bool) -> Buffers {
    Buffers {
        inner: WriteBufferManager::with_cache(bytes as u64, cache, allow_stall),
        in_cache: true,
    }
}

impl Buffers {
    pub(crate) fn is_enabled(&self) -> bool {
        self.inner.get_buffer_size() > 0
    }

    pub(crate) fn is_in_cache(&self) -> bool {
        self.in_cache
    }

    pub(crate) fn usage(&self) -> u64 {
        self.inner.get_usage()
    }

    pub(crate) fn mutable_usage(&self) -> u64 {
        self.inner.get_mutable_usage()
    }

    pub(crate) fn reserved_in_cache(&self) -> u64 {
        self.inner.get_reserved_in_cache()
    }

    pub(crate) fn size(&self) -> u64 {
        self.inner.get_buffer_size()
    }

    pub(crate) fn set_size(&self, bytes: usize) {
        self.inner.set_buffer_size(bytes as u64);
    }

    pub(crate) fn set_allow_stall(&self, on: bool) {
        self.inner.set_allow_stall(on);
    }
}

/// Sets the limit of the memory of memtables.
pub(crate) fn set_buffers(options: &mut Options, buffers: &Buffers) {
    options.inner.set_write_buffer_manager(&buffers.inner);
}

/// Creates a manager of table files. Each database deletes files in its own environment.
pub(crate) fn files(_: &Env) -> SstFileManager {
    SstFileManager::default()
}

/// Sets the manager of table files.
pub(crate) fn set_files(options: &mut Options, files: &SstFileManager) {
    options.inner.set_sst_file_manager(files);
}

/// Returns the bytes per second that are deleted.
pub(crate) fn delete_rate(files: &SstFileManager) -> i64 {
    i64::try_from(files.get_delete_rate_bytes_per_second()).unwrap_or(i64::MAX)
}

/// Sets the bytes per second that are deleted; none or fewer for no limit.
pub(crate) fn set_delete_rate(files: &SstFileManager, rate: i64) {
    files.set_delete_rate_bytes_per_second(u64::try_from(rate).unwrap_or_default());
}

/// Creates a path of table files with its target size.
pub(crate) fn db_path(directory: &CStr, bytes: u64) -> DbPath {
    DbPath::new(path(directory), bytes)
}

/// Creates a directory and its parents in an environment; an existing one is no error.
pub(crate) fn create_directory(env: &Env, directory: &CStr) -> koeldb::Result<()> {
    env.file_system().create_dir_all(path(directory))
}
