//! The components of a database that an open creates from its options.

use std::sync::atomic::Ordering;
use std::sync::{Arc, RwLock};

use koeldb_base::{SeqNo, file_name};
use koeldb_fs::Origin;
use koeldb_fs::rate_limit::RateLimiter;
use koeldb_fs::read_driver::{AsyncReadOptions, AsyncReads};
use koeldb_lsm::OpenTables;
use koeldb_lsm::version::FileNumbers;

use super::{HOST_NAME, Opening};
use crate::engine::inner::NEXT_DATABASE;
use crate::engine::secondary::Links;
use crate::env::write_buffers::WriteBufferManager;
use crate::report::RecoveryReport;
use crate::report::stats_history::PeriodicReports;
use crate::state::context::Context;
use crate::state::info_log::InfoLog;
use crate::state::listeners::Listeners;
use crate::state::memtables::{MemtableMaker, write_buffer_bytes};
use crate::state::table_files::TableFiles;

impl Opening {
    /// Creates the factory that opens and writes table files, with its listeners and limits.
    pub(super) fn table_files(
        &self,
        identity: String,
        session_id: String,
        numbers: FileNumbers,
        info_log: Arc<InfoLog>,
        links: &Option<Arc<Links>>,
    ) -> TableFiles {
        let plugged_in = self.options.plugins.listeners.clone();
        let listeners = Arc::new(Listeners::new(plugged_in, Arc::clone(&info_log)));
        TableFiles {
            fs: Arc::clone(&self.fs),
            clock: Arc::clone(&self.env.clock),
            directory: match (&self.secondary, links) {
                (Some(secondary), Some(_)) => secondary.own.clone(),
                _ => self.path.clone(),
            },
            in_one_directory: self.secondary.is_some() && links.is_some(),
            identity,
            session_id,
            host_id: match self.db.db_host_id.as_str() {
                HOST_NAME => koeldb_fs::host_name(),
                given => given.to_owned(),
            },
            numbers,
            statistics: self.db.statistics.clone(),
            db_options: Arc::new(RwLock::new(self.db.clone())),
            open_options: TableFiles::open_options(&self.db),
            file_checksums: self.db.file_checksum_gen_factory.is_some(),
            memtables: self.memtables(),
            untrusted: self.untrusted,
            ttl: self.ttl.clone(),
            rate_limiter: self.rate_limiter(),
            urgent: Arc::default(),
            info_log,
            listeners,
            open_tables: Arc::new(OpenTables::new(match (&self.secondary, links) {
                // The primary removes tables, which only descriptors then keep readable.
                (Some(_), None) => None,
                _ => self.db.open_tables_max(),
            })),
        }
    }

    /// Creates the immutable [`Context`] of the database: paths, options, clock and plug-ins.
    pub(super) fn context(
        &self,
        table_files: TableFiles,
        recovery_report: RecoveryReport,
        seqno_at_open: SeqNo,
    ) -> Context {
        Context {
            id: NEXT_DATABASE.fetch_add(1, Ordering::Relaxed),
            opened: self.env.clock.now(),
            seqno_at_open,
            recovery_report,
            origin: Origin::here(),
            periodic: PeriodicReports::beginning_at(self.env.clock.now()),
            fs: Arc::clone(&self.fs),
            clock: Arc::clone(&self.env.clock),
            env: self.env.clone(),
            path: self.path.clone(),
            wal_dir: self.wal_dir.clone(),
            identity: table_files.identity.clone(),
            read_only: self.read_only,
            statistics: self.db.statistics.clone(),
            mutable: Arc::clone(&table_files.db_options),
            db_options: self.db.clone(),
            listeners: Arc::clone(&table_files.listeners),
            plugins: self.options.plugins.clone(),
            info_log: Arc::clone(&table_files.info_log),
            table_files,
        }
    }

    /// Chooses the asynchronous I/O engine (io_uring for example) by a trial read of CURRENT.
    pub(super) fn async_reads(&self) -> AsyncReads {
        let options = AsyncReadOptions {
            engine: self.db.async_io_engine,
            clock: Arc::clone(&self.env.clock),
            ..AsyncReadOptions::default()
        };
        AsyncReads::choose(&options, &*self.fs, &file_name::current(&self.path))
    }

    /// Returns the rate limiter: the given one, or one with `rate_limiter_bytes_per_sec`.
    fn rate_limiter(&self) -> Option<RateLimiter> {
        let own = || match self.db.rate_limiter_bytes_per_sec.0 {
            0 => None,
            bytes => {
                let clock = Arc::clone(&self.env.clock);
                Some(RateLimiter::builder(bytes).clock(clock).build())
            }
        };
        self.options.plugins.rate_limiter.clone().or_else(own)
    }

    /// Returns the write buffer manager of the options, or one for `db_write_buffer_size`.
    fn write_buffers(&self) -> Option<WriteBufferManager> {
        let given = self.options.plugins.write_buffers.clone();
        let own = || WriteBufferManager::new(self.db.db_write_buffer_size, false);
        given.or_else(|| (self.db.db_write_buffer_size > 0).then(own))
    }

    /// Creates the memtable factory, with its write buffer manager and limit for recycled memory.
    ///
    /// It retains as much memory of dropped memtables as may wait for a flush in one column family,
    /// since these are dropped together; or an eighth of the limit of all memtables.
    fn memtables(&self) -> MemtableMaker {
        let manager = self.write_buffers();
        let waiting = self.families.iter().map(|(_, options)| {
            let count = options.max_write_buffer_number.saturating_sub(1);
            write_buffer_bytes(options).saturating_mul(usize::try_from(count).unwrap_or(0).max(1))
        });
        let waiting = waiting.max().unwrap_or(0);
        let recycled_bytes_max = match manager
            .as_ref()
            .map_or(0, WriteBufferManager::get_buffer_size)
        {
            0 => waiting,
            limit => waiting.min(koeldb_base::coding::to_usize(limit / 8)),
        };
        MemtableMaker::new(manager, recycled_bytes_max, &self.env.pool)
    }
}
