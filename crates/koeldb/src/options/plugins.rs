//! User-supplied components without a text form: an environment, listeners, a logger.

use std::fmt;
use std::sync::Arc;

use koeldb_fs::rate_limit::RateLimiter;

use crate::env::Env;
use crate::env::compaction_service::CompactionService;
use crate::env::sst_file_manager::SstFileManager;
use crate::env::write_buffers::WriteBufferManager;
use crate::report::listener::EventListener;

use super::cache::Cache;
use super::db::{LogLevel, Options};
use super::scrub::ScrubOptions;
use super::transaction::TransactionDbOptions;

/// A receiver of the lines of the information log, in place of the file `LOG`.
pub trait Logger: Send + Sync + 'static {
    /// Handles a message of the information log, which may have several lines.
    fn log(&self, level: LogLevel, message: fmt::Arguments<'_>);

    /// Whether the logger handles lines of this level; others may be passed to it all the same.
    fn is_enabled(&self, level: LogLevel) -> bool {
        let _ = level;
        true
    }
}

/// The objects and features that code, not option text, sets for a database, such as listeners.
#[derive(Clone, Default)]
pub(crate) struct Plugins {
    pub(crate) env: Env,
    pub(crate) listeners: Vec<Arc<dyn EventListener>>,
    pub(crate) logger: Option<Arc<dyn Logger>>,
    pub(crate) scrub: Option<ScrubOptions>,
    pub(crate) write_buffers: Option<WriteBufferManager>,
    pub(crate) rate_limiter: Option<RateLimiter>,
    pub(crate) sst_file_manager: Option<SstFileManager>,
    pub(crate) transactions: Option<TransactionDbOptions>,
    pub(crate) compaction_service: Option<Arc<dyn CompactionService>>,
    pub(crate) creates_beside_files: bool,
}

impl fmt::Debug for Plugins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plugins")
            .field("env", &self.env)
            .field("listeners", &self.listeners.len())
            .finish_non_exhaustive()
    }
}

impl Options {
    /// Uses the files, clock and background threads of this environment.
    ///
    /// Default: the operating system.
    pub fn set_env(&mut self, env: &Env) -> &mut Self {
        self.plugins.env = env.clone();
        self
    }

    /// The environment.
    #[must_use]
    pub fn get_env(&self) -> &Env {
        &self.plugins.env
    }

    /// Sets whether a database may be created in a directory that has other files or backups.
    ///
    /// RocksDB does so. The files are left alone. Remains of a lost database and databases of other
    /// engines are refused in any case.
    ///
    /// Default: false.
    pub fn set_creates_beside_files(&mut self, creates: bool) -> &mut Self {
        self.plugins.creates_beside_files = creates;
        self
    }

    /// Adds a listener for events; several may be added.
    ///
    /// Default: none.
    pub fn add_event_listener(&mut self, listener: impl EventListener) -> &mut Self {
        self.plugins.listeners.push(Arc::new(listener));
        self
    }

    /// Sends the lines of the information log to `logger` instead of the file `LOG`.
    ///
    /// Default: none.
    pub fn set_logger(&mut self, logger: impl Logger) -> &mut Self {
        self.plugins.logger = Some(Arc::new(logger));
        self
    }

    /// Offers compactions to this service, which may have another process run them.
    ///
    /// Moves and drops of whole tables stay here, as do compactions with a codec or file size of
    /// their own and those of a TTL database.
    ///
    /// Default: none.
    pub fn set_compaction_service(&mut self, service: impl CompactionService) -> &mut Self {
        self.plugins.compaction_service = Some(Arc::new(service));
        self
    }

    /// Limits the memory of memtables of all databases with this manager.
    ///
    /// It replaces `db_write_buffer_size`.
    ///
    /// Default: none.
    pub fn set_write_buffer_manager(&mut self, manager: &WriteBufferManager) -> &mut Self {
        self.plugins.write_buffers = Some(manager.clone());
        self
    }

    /// Limits the bytes that flushes and compactions of all databases with this limiter move.
    ///
    /// Flushes ask with priority `High`, compactions with `Low`, and both with `User` while writes
    /// are delayed or stopped. Reads and log writes are charged with the `rate_limiter_priority` of
    /// their options. It also sets `rate_limiter_bytes_per_sec`, and takes precedence over it. As in
    /// RocksDB, it makes `bytes_per_sync` 1 MiB if that is 0, and is the `delayed_write_rate` if
    /// that is 0.
    ///
    /// Default: none.
    pub fn set_rate_limiter(&mut self, limiter: &RateLimiter) -> &mut Self {
        self.set_rate_limiter_bytes_per_sec(limiter.bytes_per_second());
        self.plugins.rate_limiter = Some(limiter.clone());
        self
    }

    /// Limits the table space and deletion rate of all databases that share this manager.
    ///
    /// Default: none.
    pub fn set_sst_file_manager(&mut self, manager: &SstFileManager) -> &mut Self {
        self.plugins.sst_file_manager = Some(manager.clone());
        self
    }

    /// The manager of files, if set.
    #[must_use]
    pub fn get_sst_file_manager(&self) -> Option<&SstFileManager> {
        self.plugins.sst_file_manager.as_ref()
    }

    /// The rate limiter, if set.
    #[must_use]
    pub fn get_rate_limiter(&self) -> Option<&RateLimiter> {
        self.plugins.rate_limiter.as_ref()
    }

    /// The write buffer manager, if set.
    #[must_use]
    pub fn get_write_buffer_manager(&self) -> Option<&WriteBufferManager> {
        self.plugins.write_buffers.as_ref()
    }
}

impl WriteBufferManager {
    /// Creates a manager that also charges its memory to `cache`, so that both share one budget.
    #[must_use]
    pub fn with_cache(bytes: u64, cache: &Cache, allow_stall: bool) -> Self {
        Self::charged_to(bytes, allow_stall, Some(cache.blocks()))
    }
}
