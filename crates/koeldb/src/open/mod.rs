//! Opening a database: lock, MANIFEST, logs, and the first edit.
//!
//! The order of a writable open is that of `docs/reliability.md`, O12: replay → recovered data into
//! tables → a new log → an edit that records the new state in a new MANIFEST → removal of obsolete
//! files. A failure before the edit leaves the data of the directory unchanged. A read-only open
//! takes no lock and writes nothing.
//!
//! This module has the sequence; the steps are in submodules: the parameters (`builder`), the
//! directory (`directory`), the components (`parts`), the column families and their tables
//! (`families`), recovery to an older state (`best_efforts`), the logs (`replay`), the edit (`commit`),
//! secondaries (`secondary`), the header of LOG (`summary`), and other engines' directories
//! (`foreign`). Beside the open are [`repair`], [`destroy`], new directories ([`staging`]), and
//! the worker of remote compactions ([`remote_worker`]).
//!
//! An open may use all storeys below: it makes the parts of a database, and returns a handle of `api`.

mod best_efforts;
mod builder;
mod commit;
pub(crate) mod destroy;
mod directory;
mod families;
mod foreign;
mod parts;
pub(crate) mod remote_worker;
pub(crate) mod repair;
mod replay;
mod secondary;
pub(crate) mod staging;
mod summary;

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use koeldb_base::{Error, Result, SeqNo, file_name};
use koeldb_fs::{FileLock, FileSystem};
use koeldb_lsm::version::{ManifestReport, ManifestTail, VersionSet, VersionSetOptions};

use crate::api::db::Db;
use crate::commit::group_wait::GroupWait;
use crate::commit::protocol::{ColumnFamilyMemtable, CommitState};
use crate::commit::recent_writes::RecentWrites;
use crate::engine::inner::{DbInner, Parts};
use crate::env::Env;
use crate::options::sanitize::{self, OpenContext};
use crate::options::{ColumnFamilyOptions, DbOptions, Options};
use crate::report::listener::Event;
use crate::state::column_family_data::ColumnFamilyData;
use crate::state::info_log::{InfoLog, LogFileLimits};
use crate::state::spans;
use crate::state::table_files::TableFiles;
use crate::state::ttl::{self, TtlOptions};
use crate::wal::Wal;

use crate::tree::{NewFamily, add_families};
use families::{ColumnFamilyToOpen, family_list};
use replay::{Recovered, left_out};
use secondary::SecondaryToOpen;

pub use builder::DbBuilder;
pub(crate) use families::{DEFAULT_FAMILY, list_families};

/// The parameters of an open in progress: sanitized options, directories and column families.
struct Opening {
    env: Env,
    fs: Arc<dyn FileSystem>,
    path: PathBuf,
    wal_dir: PathBuf,
    db: DbOptions,
    options: Options,
    families: Vec<ColumnFamilyToOpen>,
    others: Option<ColumnFamilyOptions>,
    read_only: bool,
    untrusted: bool,
    secondary: Option<SecondaryToOpen>,
    ttl: Option<TtlOptions>,
}

impl Opening {
    fn new(builder: &DbBuilder, path: &Path) -> Result<Self> {
        let env = builder.options.plugins.env.of_this_process();
        let mut options = builder.options.clone();
        options.plugins.env = env.clone();
        let mut db = builder.options.db.clone();
        let mut families = family_list(builder);
        let mut others = builder.others.clone();
        let context = OpenContext {
            path: Some(path),
            open_files_limit: None,
            read_only: builder.is_read_only(),
            locks_keys: builder.options.plugins.transactions.is_some(),
        };
        {
            let mut all: Vec<(&str, &mut ColumnFamilyOptions)> = families
                .iter_mut()
                .map(|(name, options)| (name.as_str(), options))
                .collect();
            if let Some(others) = &mut others {
                all.push(("*", others));
            }
            db.allow_2pc |= builder.options.plugins.transactions.is_some();
            sanitize::sanitize(&mut db, &mut all, &context)?;
            if builder.ttl.is_some() {
                ttl::check_options(&builder.options)?;
                all.iter()
                    .try_for_each(|(name, options)| ttl::check_family(name, options))?;
            }
        }
        let path = env.fs.absolute(path)?;
        let wal_dir = env.fs.absolute(&db.wal_directory(&path))?;
        let mut secondary = builder.secondary.clone();
        if let Some(secondary) = &mut secondary {
            secondary.own = env.fs.absolute(&secondary.own)?;
        }
        Ok(Opening {
            fs: Arc::clone(&env.fs),
            env,
            path,
            wal_dir,
            db,
            options,
            families,
            others,
            read_only: builder.is_read_only(),
            untrusted: builder.untrusted,
            secondary,
            ttl: builder.ttl.clone(),
        })
    }

    /// Opens the database: locks the directory, recovers the MANIFEST, and replays the logs.
    fn run(mut self) -> Result<Db> {
        if self.untrusted {
            self.check_kinds()?;
        }
        let file_lock = self.lock_directory()?;
        self.check_direct_writes()?;
        let info_log = Arc::new(self.info_log());
        let identity = self.create_or_check()?;
        let to_create = self.resolve_families()?;
        let secondary = self.secondary.as_ref();
        let tail = secondary.map(|_| self.tail()).transpose()?;
        let (mut versions, manifest_report) = self.recover_versions(tail.as_ref())?;
        let links = secondary.map_or(Ok(None), |secondary| self.links(secondary))?;
        if !self.is_best_effort() {
            self.check_logs(&versions)?;
        }
        let identity = self.resolve_identity(&mut versions, identity.as_deref())?;
        let session_id = new_session_id();
        info_log.header(|| self.summary(&session_id, &versions));
        let numbers = versions.file_numbers().clone();
        let table_files =
            self.table_files(identity, session_id, numbers, Arc::clone(&info_log), &links);
        let mut families = self.open_families(&versions, &table_files);
        let recovered = match &tail {
            // The first catch-up opens the tables and reads the logs.
            Some(_) => Recovered::before_logs(&versions),
            None if self.is_best_effort() => self.recover_without_logs(&versions, &families)?,
            None => self.recover_data_and_log(&versions, &families, &table_files)?,
        };
        let mut report = recovered.report_with(&manifest_report);
        let mut wal = None;
        if !self.read_only {
            let begun = self
                .commit_recovery(&mut versions, &families, &recovered, &table_files)
                .inspect_err(|_| {
                    // CURRENT may name the MANIFEST of a failed edit, and that the files.
                    if !versions.is_uncertain() {
                        recovered.discard(&families, &table_files);
                    }
                })?;
            let missing = self.with_ttl(to_create);
            let created = add_families(&mut versions, &table_files, begun.number, missing)?;
            families.extend(created.into_iter().map(|family| (family.id, family)));
            report.orphans_removed = self.remove_orphans(&mut versions, &report);
            wal = Some(begun);
        }
        let first_log = wal.as_ref().map(|wal| wal.number);
        let last_seqno = match &tail {
            Some(_) => 0,
            None => recovered.last_seqno.max(versions.last_seqno()),
        };
        let default = families.get(&0).cloned();
        let default = default
            .ok_or_else(|| Error::corruption("the MANIFEST has no default column family"))?;
        let tailing = secondary.zip(tail);
        let inner = Arc::new(DbInner::new(Parts {
            context: self.context(table_files, report, last_seqno),
            async_reads: self.async_reads(),
            default,
            commit: commit_state(wal, last_seqno, &families),
            families,
            versions,
            file_lock,
            secondary: tailing.map(|(secondary, tail)| self.secondary(secondary, links, tail)),
        }));
        if let Some(number) = first_log {
            inner.commit.wals.begin_with(number);
        }
        adopt(&inner, recovered);
        if let Some(secondary) = &inner.secondary {
            secondary.catch_up(&inner.commit, &inner.prepared)?;
        }
        self.finish(&inner)
    }

    /// Opens the tables and replays the WAL files (`recover_data`), and reports the end in LOG.
    fn recover_data_and_log(
        &self,
        versions: &VersionSet,
        families: &BTreeMap<u32, Arc<ColumnFamilyData>>,
        table_files: &TableFiles,
    ) -> Result<Recovered> {
        let recovered = self.recover_data(versions, families, table_files);
        let outcome = recovered.as_ref().map(|_| ());
        summary::log_recovery_end(&table_files.info_log, outcome);
        recovered
    }

    /// Creates if needed and locks the directory that this open writes to; `None` if read-only.
    fn lock_directory(&self) -> Result<Option<Box<dyn FileLock>>> {
        match &self.secondary {
            Some(secondary) => self.prepare_own_directory(&secondary.own).map(Some),
            None if self.read_only => Ok(None),
            None => self.prepare_directory().map(Some),
        }
    }

    /// Adds the TTL of a TTL database to each column family that is to be created.
    fn with_ttl(&self, missing: Vec<ColumnFamilyToOpen>) -> Vec<NewFamily> {
        let missing = missing.into_iter().map(|(name, options)| {
            let ttl = self.ttl.as_ref().map(|ttl| ttl.of(&name));
            NewFamily { name, options, ttl }
        });
        missing.collect()
    }

    /// Recovers the version set from the MANIFEST; also reports what was dropped at damage.
    fn recover_versions(
        &self,
        tail: Option<&ManifestTail>,
    ) -> Result<(VersionSet, ManifestReport)> {
        let version_options = VersionSetOptions {
            read_only: self.read_only,
            manifest_bytes_max: self.db.max_manifest_file_size,
            manifest_space_amp_percent: self.db.manifest_space_amp_percent(),
            manifest_file: self.db.manifest_file(),
            write_db_id: self.db.write_dbid_to_manifest,
            readahead_bytes: koeldb_base::coding::to_usize(self.db.log_readahead_size),
            statistics: self.db.statistics.clone(),
            other_directories: self.other_directories(),
        };
        let fs = Arc::clone(&self.fs);
        match tail {
            Some(tail) => {
                let versions = VersionSet::following(fs, &self.path, version_options, tail)?;
                Ok((versions, ManifestReport::default()))
            }
            None if self.is_best_effort() => self.recover_point_in_time(version_options),
            None => VersionSet::recover(fs, &self.path, &self.descriptors(), version_options),
        }
    }

    /// Opens all tables, and replays the WAL files into memtables or level 0 tables.
    fn recover_data(
        &self,
        versions: &VersionSet,
        families: &BTreeMap<u32, Arc<ColumnFamilyData>>,
        table_files: &TableFiles,
    ) -> Result<Recovered> {
        let _span = spans::recovery();
        self.open_tables_of(families)?;
        let mut recovered = replay::replay_logs(
            &*self.fs,
            &self.wal_dir,
            &self.db,
            versions,
            families,
            table_files,
            self.read_only,
            self.options.plugins.transactions.is_some(),
        )?;
        let rewritten = left_out::rewrite(families, table_files, &recovered.left_out);
        // An open that fails leaves the directory as it was.
        recovered.rewritten =
            rewritten.inspect_err(|_| recovered.discard(families, table_files))?;
        Ok(recovered)
    }

    /// Completes an open: writes OPTIONS if writable, starts background work, returns the `Db`.
    fn finish(&self, inner: &Arc<DbInner>) -> Result<Db> {
        for mended in &self.options.mended {
            inner
                .context
                .info_log
                .warn(format_args!("OPTIONS file: {mended}"));
        }
        for line in inner.context.recovery_report.to_string().lines() {
            inner.context.info_log.info(format_args!("{line}"));
        }
        let engine = inner.reads.async_io_engine();
        inner
            .context
            .info_log
            .info(format_args!("async_io_engine: {engine}"));
        inner.reads.log_fallbacks();
        let resume = Arc::downgrade(&inner.resume);
        inner.health.on_failure(move || {
            if let Some(resume) = resume.upgrade() {
                resume.begin();
            }
        });
        let settings = inner.families.settings_without_effect();
        for setting in &settings {
            inner
                .context
                .info_log
                .warn(format_args!("setting without effect: {setting}"));
        }
        inner
            .context
            .notify(&Event::Recovered(&inner.context.recovery_report));
        if !settings.is_empty() {
            inner
                .context
                .notify(&Event::SettingsWithoutEffect(&settings));
        }
        let families = inner.families.all();
        if !self.read_only {
            inner.tree.write_options_file()?;
            for family in &families {
                family.update_and_install(inner.context.stall(), |_| ());
            }
            inner.background.schedule();
            inner.commit.watch();
            if let Some(write_buffers) = &inner.commit.write_buffers {
                write_buffers.register(&inner.commit);
            }
            if let Some(manager) = &inner.context.plugins.sst_file_manager {
                manager.register(&inner.background);
            }
        }
        inner.tree.begin_purging();
        inner.background.begin_scrubbing();
        if let Some(secondary) = &inner.secondary {
            secondary.begin_following(&inner.commit, &inner.prepared);
        }
        Ok(Db::from_inner(inner))
    }

    /// Returns the path of the info log (`LOG`) of the database in `directory`, or in `db_log_dir`.
    fn info_log_path(&self, directory: &Path) -> PathBuf {
        if self.db.db_log_dir.is_empty() {
            return file_name::info_log(directory);
        }
        let given = Path::new(&self.db.db_log_dir);
        let log_dir = self.fs.absolute(given).unwrap_or_else(|_| given.to_owned());
        // The name of LOG has the whole path of the database, in every file system.
        let absolute = std::path::absolute(directory);
        file_name::info_log_in(&log_dir, absolute.as_deref().unwrap_or(directory))
    }

    /// Creates the info log: the file `LOG` or the user's logger.
    ///
    /// A read-only open has none, except that of a secondary.
    fn info_log(&self) -> InfoLog {
        let clock = Arc::clone(&self.env.clock);
        if self.read_only && self.secondary.is_none() {
            return InfoLog::nowhere(clock);
        }
        let secondary = self.secondary.as_ref();
        let directory = secondary.map_or(&self.path, |secondary| &secondary.own);
        let path = self.info_log_path(directory);
        if !self.db.db_log_dir.is_empty() {
            // Without the directory there is no LOG, as after other failures.
            let _ = path.parent().map(|log_dir| self.fs.create_dir_all(log_dir));
        }
        match &self.options.plugins.logger {
            Some(logger) => InfoLog::to_logger(Arc::clone(logger), clock, self.db.info_log_level),
            None => InfoLog::create(
                &self.fs,
                &path,
                clock,
                LogFileLimits {
                    level: self.db.info_log_level,
                    bytes_max: self.db.max_log_file_size,
                    seconds_max: self.db.log_file_time_to_roll,
                    files_max: koeldb_base::coding::to_usize(self.db.keep_log_file_num),
                },
            ),
        }
    }
}

/// Creates the initial state of the write queue: the WAL and the memtables filled by recovery.
fn commit_state(
    wal: Option<Wal>,
    last_seqno: SeqNo,
    families: &BTreeMap<u32, Arc<ColumnFamilyData>>,
) -> CommitState {
    let families = families.values();
    let families = families.map(|family| ColumnFamilyMemtable::of(family, last_seqno));
    CommitState {
        wal,
        last_seqno,
        wal_check_bytes: 0,
        families: Arc::new(families.collect()),
        recent: RecentWrites::default(),
        group_wait: GroupWait::default(),
    }
}

/// Hands the recovered prepared transactions and the WAL files that memtables need to `inner`.
fn adopt(inner: &DbInner, recovered: Recovered) {
    let families = &inner.commit.families;
    inner.prepared.adopt(recovered.undecided, families);
    if !recovered.kept.is_empty() {
        inner.commit.wals.adopt(recovered.kept);
        // Recovered memtables may be charged, or nearly full.
        inner.commit.check_memtables_soon();
    }
}

/// The value of `db_host_id` that stands for the name of the host.
const HOST_NAME: &str = "__hostname__";

/// Returns a random number for database and session ids.
fn random() -> u128 {
    let half = || std::hash::RandomState::new().build_hasher().finish();
    u128::from(half()) << 64 | u128::from(half())
}

/// Creates a DB session id, unique to this open of the database (RocksDB: `db_session_id`).
pub(crate) fn new_session_id() -> String {
    session_id_from(random())
}

/// Formats a random number as a DB session id: 20 characters of base 36.
fn session_id_from(random: u128) -> String {
    const DIGITS: &[u8; 36] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let mut text = String::with_capacity(20);
    let mut rest = random;
    for _ in 0..20 {
        let digit = koeldb_base::coding::to_usize(u64::try_from(rest % 36).unwrap_or(0));
        text.push(char::from(DIGITS[digit]));
        rest /= 36;
    }
    text
}
