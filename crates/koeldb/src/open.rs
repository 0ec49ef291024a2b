//! Opening: lock, MANIFEST, logs, first edit, and only then a database.
//!
//! The order of a writable open is that of `docs/reliability.md`, O12: replay → recovered data into tables → a new log
//! → an edit that records the new state in a new MANIFEST → files nobody needs are removed. A failure before the edit
//! leaves the directory's data as it was. A read-only open takes no lock and writes nothing.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasher, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use koeldb_base::file_name::{self, FileKind, FileNumber};
use koeldb_base::sabotage::{Sabotage, is_on};
use koeldb_base::sync::lock_plain as lock;
use koeldb_base::{Error, ErrorKind, Result};
use koeldb_fs::read_driver::{AsyncReadOptions, AsyncReads};
use koeldb_fs::small_file::{create_dir_durably, parent};
use koeldb_fs::{EntryKind, FileSystem, Purpose, WriteOptions};
use koeldb_log::{RecordWriter, RecordWriterOptions, WalCompression};
use koeldb_lsm::current::{db_id_from, read_current, read_identity, write_identity};
use koeldb_lsm::version::{FamilyDescriptor, VersionEdit, VersionSet, VersionSetOptions};

use crate::column_family::ColumnFamilyDescriptor;
use crate::db::{Db, Handle};
use crate::env::Env;
use crate::family::FamilyData;
use crate::info_log::InfoLog;
use crate::inner::{DbInner, NEXT_DATABASE, Parts};
use crate::listener::Event;
use crate::memtables::{MemtableMaker, write_buffer_bytes};
use crate::options::sanitize::{self, OpenContext};
use crate::options::{ColumnFamilyOptions, Compression, DbOptions, Options, options_file};
use crate::recovery::{self, Recovered};
use crate::tables::{TableFactory, limits};
use crate::write::commit::{ActiveFamily, CommitState, Wal};
use crate::write_buffers::WriteBufferManager;

pub use crate::recovery::{LogReport, RecoveryReport};

const DEFAULT_FAMILY: &str = "default";

/// Opens a database with more choices than [`Db::open`] has.
#[derive(Clone, Debug)]
pub struct DbBuilder {
    options: Options,
    families: Vec<ColumnFamilyDescriptor>,
    others: Option<ColumnFamilyOptions>,
    read_only: bool,
    untrusted: bool,
    writable: bool,
}

impl DbBuilder {
    pub(crate) fn new(options: &Options) -> Self {
        DbBuilder {
            options: options.clone(),
            families: Vec::new(),
            others: None,
            read_only: false,
            untrusted: false,
            writable: false,
        }
    }

    /// Opens this family too; one named twice keeps its last options. The default family may be named to give it
    /// options of its own.
    pub fn column_family(&mut self, family: impl Into<ColumnFamilyDescriptor>) -> &mut Self {
        let family = family.into();
        self.families.retain(|other| other.name != family.name);
        self.families.push(family);
        self
    }

    /// Opens these families too.
    pub fn column_families(
        &mut self,
        families: impl IntoIterator<Item = impl Into<ColumnFamilyDescriptor>>,
    ) -> &mut Self {
        for family in families {
            self.column_family(family);
        }
        self
    }

    /// Opens every family that exists and is not named, with these options.
    pub fn other_column_families(&mut self, options: &ColumnFamilyOptions) -> &mut Self {
        self.others = Some(options.clone());
        self
    }

    /// Takes no lock and writes nothing; writes return `NotSupported`. Families may be left out.
    pub fn read_only(&mut self) -> &mut Self {
        self.read_only = true;
        self
    }

    /// Opens a directory that anybody may have made: read-only, unless [`DbBuilder::writable`] is asked for too.
    ///
    /// Every table is read as a whole before anything is answered, and refused if its keys do not ascend, if its index
    /// does not lead to its blocks in order, or if its properties do not say what is in it. Blocks, dictionaries, records
    /// and families are bounded more tightly (`docs/reliability.md`, section 7), and a file of the database that is a link
    /// or a device is refused. An open takes as long as reading all tables.
    pub fn untrusted(&mut self) -> &mut Self {
        self.untrusted = true;
        self
    }

    /// Opens for writing what is not trusted.
    pub fn writable(&mut self) -> &mut Self {
        self.writable = true;
        self
    }

    /// Whether nothing may be written.
    fn is_read_only(&self) -> bool {
        self.read_only || (self.untrusted && !self.writable)
    }

    /// Opens the database at `path`.
    ///
    /// # Errors
    /// As [`Db::open`].
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Db> {
        let path = path.as_ref();
        if self.is_read_only() {
            self.open_beside_a_writer(path)
        } else {
            Opening::new(self, path)?.run()
        }
    }

    /// Whoever writes to the directory meanwhile may remove what the MANIFEST named when it was read. Only if the MANIFEST
    /// is the same afterwards was everything there that it named.
    fn open_beside_a_writer(&self, path: &Path) -> Result<Db> {
        for attempt in 0..READ_ONLY_ATTEMPTS {
            let opening = Opening::new(self, path)?;
            let (fs, clock) = (Arc::clone(&opening.fs), Arc::clone(&opening.env.clock));
            let before = manifest_state(&*fs, path);
            let opened = opening.run().inspect(open_tables);
            if before.is_err() || manifest_state(&*fs, path).ok() == before.ok() {
                return opened;
            }
            drop(opened);
            clock.sleep(Duration::from_millis(attempt.min(10)));
        }
        Err(Error::with_kind(
            ErrorKind::TryAgain,
            format!(
                "{}: the database changes faster than it can be opened",
                path.display()
            ),
        ))
    }
}

const READ_ONLY_ATTEMPTS: u64 = 100;

/// The MANIFEST in force and its length: every change of the tree changes one of them.
fn manifest_state(fs: &dyn FileSystem, path: &Path) -> Result<(FileNumber, u64)> {
    let number = read_current(fs, path)?;
    let metadata = fs.metadata(&file_name::manifest(path, number))?;
    Ok((number, metadata.len))
}

/// Opens every table, so that it stays readable when a writer removes it. One that cannot be opened says so when it is
/// read.
fn open_tables(db: &Db) {
    for family in db.inner().all_families() {
        for (level, file) in family.version().files() {
            let _ = family.tables.reader(file, level);
        }
    }
}

/// A family to open, with its options.
type OpenFamily = (String, ColumnFamilyOptions);

/// One open under way.
struct Opening {
    env: Env,
    fs: Arc<dyn FileSystem>,
    path: PathBuf,
    wal_dir: PathBuf,
    db: DbOptions,
    options: Options,
    families: Vec<OpenFamily>,
    others: Option<ColumnFamilyOptions>,
    read_only: bool,
    untrusted: bool,
}

fn family_list(builder: &DbBuilder) -> Vec<OpenFamily> {
    let own = |descriptor: &ColumnFamilyDescriptor| {
        let options = descriptor
            .options
            .clone()
            .unwrap_or_else(|| builder.options.cf.clone());
        (descriptor.name.clone(), options)
    };
    let mut families: Vec<OpenFamily> = builder.families.iter().map(own).collect();
    if !families.iter().any(|(name, _)| name == DEFAULT_FAMILY) {
        families.insert(0, (DEFAULT_FAMILY.to_owned(), builder.options.cf.clone()));
    }
    families
}

impl Opening {
    fn new(builder: &DbBuilder, path: &Path) -> Result<Self> {
        let env = builder.options.plugins.env.clone();
        let mut db = builder.options.db.clone();
        let mut families = family_list(builder);
        let mut others = builder.others.clone();
        let context = OpenContext {
            path: Some(path),
            open_files_limit: None,
            read_only: builder.is_read_only(),
        };
        {
            let mut all: Vec<(&str, &mut ColumnFamilyOptions)> = families
                .iter_mut()
                .map(|(name, options)| (name.as_str(), options))
                .collect();
            if let Some(others) = &mut others {
                all.push(("*", others));
            }
            sanitize::sanitize(&mut db, &mut all, &context)?;
        }
        let wal_dir = db.wal_directory(path);
        Ok(Opening {
            fs: Arc::clone(&env.fs),
            env,
            path: path.to_owned(),
            wal_dir,
            db,
            options: builder.options.clone(),
            families,
            others,
            read_only: builder.is_read_only(),
            untrusted: builder.untrusted,
        })
    }

    fn run(mut self) -> Result<Db> {
        if self.untrusted {
            self.check_kinds()?;
        }
        let file_lock = if self.read_only {
            None
        } else {
            Some(self.prepare_directory()?)
        };
        let info_log = self.info_log();
        let identity = self.create_or_check()?;
        let mut to_create = self.settle_families()?;
        let (mut versions, manifest_report) = VersionSet::recover(
            Arc::clone(&self.fs),
            &self.path,
            &self.descriptors(&to_create),
            VersionSetOptions {
                read_only: self.read_only,
                manifest_bytes_max: self.db.max_manifest_file_size,
                write_db_id: self.db.write_dbid_to_manifest,
                other_directories: self.other_directories(),
            },
        )?;
        let identity = self.settle_identity(&mut versions, identity.as_deref())?;
        let session_id = session_id_from(random());
        let factory = TableFactory {
            fs: Arc::clone(&self.fs),
            clock: Arc::clone(&self.env.clock),
            directory: self.path.clone(),
            identity: identity.clone(),
            session_id: session_id.clone(),
            numbers: versions.file_numbers().clone(),
            statistics: self.db.statistics.clone(),
            writable_file_buffer_bytes: table_buffer_bytes(&self.db),
            bytes_per_sync: self.db.bytes_per_sync,
            open_options: TableFactory::open_options(&self.db),
            file_checksums: self.db.file_checksum_gen_factory.is_some(),
            memtables: self.memtables(),
            untrusted: self.untrusted,
        };
        let mut families = self.open_families(&versions, &factory);
        self.open_tables(&families)?;
        let recovered = recovery::replay_logs(
            &*self.fs,
            &self.wal_dir,
            &self.db,
            &versions,
            &families,
            &factory,
            self.read_only,
        )?;
        let mut report = recovered.report.clone();
        report.manifest_tail_dropped = manifest_report
            .dropped_tail
            .map(|tail| format!("{} at offset {}", tail.kind, tail.offset));
        report.manifest_edits_dropped = manifest_report.dropped_group_edits;
        let wal = if self.read_only {
            None
        } else {
            Some(self.commit_recovery(&mut versions, &families, &recovered, &factory)?)
        };
        if !self.read_only {
            for (name, options) in std::mem::take(&mut to_create) {
                let log = wal.as_ref().map_or(0, |wal| wal.number);
                let family = add_family(&mut versions, &factory, &name, options, log)?;
                families.insert(family.id, family);
            }
        }
        let reused = u64::from(is_on(Sabotage::SeqnoReused));
        let last_seqno = recovered
            .last_seqno
            .max(versions.last_seqno())
            .saturating_sub(reused);
        let commit = CommitState {
            wal,
            last_seqno,
            families: Arc::new(families.values().map(ActiveFamily::of).collect()),
            has_unlogged: false,
        };
        report.orphans_removed = if self.read_only && !is_on(Sabotage::ReadOnlyRemoves) {
            Vec::new()
        } else {
            self.remove_orphans(&mut versions)
        };
        let parts = Parts {
            env: self.env.clone(),
            path: self.path.clone(),
            wal_dir: self.wal_dir.clone(),
            identity,
            read_only: self.read_only,
            db_options: self.db.clone(),
            plugins: self.options.plugins.clone(),
            info_log,
            recovery_report: report,
            factory,
            async_reads: self.async_reads(),
            families,
            commit,
            versions,
            file_lock,
        };
        let id = NEXT_DATABASE.fetch_add(1, Ordering::Relaxed);
        let inner = Arc::new(DbInner::new(id, parts));
        self.finish(&inner)
    }

    /// How many reads are carried out at once; tried on a file that every database has.
    fn async_reads(&self) -> AsyncReads {
        let options = AsyncReadOptions {
            engine: self.db.async_io_engine,
            clock: Arc::clone(&self.env.clock),
            ..AsyncReadOptions::default()
        };
        AsyncReads::choose(&options, &*self.fs, &file_name::current(&self.path))
    }

    /// What bounds the memory of memtables: what was given, or what `db_write_buffer_size` asks for.
    fn write_buffers(&self) -> Option<WriteBufferManager> {
        let given = self.options.plugins.write_buffers.clone();
        let own = || WriteBufferManager::new(self.db.db_write_buffer_size, false);
        given.or_else(|| (self.db.db_write_buffer_size > 0).then(own))
    }

    /// How memtables are made. Of those that are dropped, as much memory is kept as may wait to be flushed in one family,
    /// since they are dropped together; or an eighth of what all may take.
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

    /// What a database does once it is there.
    fn finish(&self, inner: &Arc<DbInner>) -> Result<Db> {
        inner.info_log.info(format_args!(
            "KoelDB {} opened {} (session {})",
            env!("CARGO_PKG_VERSION"),
            inner.path.display(),
            inner.factory.session_id
        ));
        for line in inner.recovery_report.to_string().lines() {
            inner.info_log.info(format_args!("{line}"));
        }
        let engine = inner.async_io_engine();
        inner
            .info_log
            .info(format_args!("async_io_engine: {engine}"));
        let database = Arc::downgrade(inner);
        inner.async_reads.on_fallback(move || {
            if let Some(inner) = database.upgrade() {
                let engine = inner.async_io_engine();
                inner
                    .info_log
                    .warn(format_args!("async_io_engine: {engine}"));
            }
        });
        inner.notify(&Event::Recovered(&inner.recovery_report));
        let families = inner.all_families();
        let default = families
            .iter()
            .find(|family| family.id == 0)
            .cloned()
            .ok_or_else(|| Error::corruption("the MANIFEST has no default column family"))?;
        if !self.read_only {
            inner.write_options_file()?;
            for family in &families {
                family.change(inner.delayed_write_rate(), |_| ());
            }
            inner.update_stall();
            inner.schedule();
            if let Some(write_buffers) = &inner.write_buffers {
                write_buffers.register(inner);
            }
        }
        inner.begin_scrubbing();
        Ok(Db::from_handle(&Handle::new(Arc::clone(inner), default)))
    }

    fn info_log(&self) -> InfoLog {
        let clock = Arc::clone(&self.env.clock);
        if self.read_only {
            return InfoLog::nowhere(clock);
        }
        match &self.options.plugins.logger {
            Some(logger) => InfoLog::to_logger(Arc::clone(logger), clock, self.db.info_log_level),
            None => InfoLog::create(
                &self.fs,
                &self.path,
                clock,
                self.db.info_log_level,
                koeldb_base::coding::to_usize(self.db.keep_log_file_num),
            ),
        }
    }

    /// Makes and locks the directory.
    fn prepare_directory(&self) -> Result<Box<dyn koeldb_fs::FileLock>> {
        let exists = self.fs.exists(&file_name::current(&self.path))?;
        if !exists && !self.db.create_if_missing {
            return Err(Error::invalid_argument(format!(
                "{}: does not exist (create_if_missing is false)",
                self.path.display()
            )));
        }
        for directory in [&self.path, &self.wal_dir] {
            create_dir_durably(&*self.fs, directory)?;
            if !exists {
                // It may be there because an earlier attempt made it and failed before its name was durable.
                sync_where_permitted(&*self.fs, parent(directory))?;
            }
        }
        self.fs.lock(&file_name::lock(&self.path))
    }

    /// Makes a new database, or checks that there is one; the identity recorded in the directory.
    fn create_or_check(&self) -> Result<Option<String>> {
        let exists = self.fs.exists(&file_name::current(&self.path))?;
        if exists && self.db.error_if_exists {
            return Err(Error::invalid_argument(format!(
                "{}: exists (error_if_exists is true)",
                self.path.display()
            )));
        }
        if exists {
            return read_identity(&*self.fs, &self.path);
        }
        if self.read_only {
            return Err(Error::invalid_argument(format!(
                "{}: there is no database to open read-only (CURRENT is missing)",
                self.path.display()
            )));
        }
        let identity = db_id_from(random());
        VersionSet::create(&*self.fs, &self.path, Some(&identity))?;
        write_identity(&*self.fs, &self.path, &identity)?;
        Ok(Some(identity))
    }

    /// The identity in force: the MANIFEST's, else the directory's, else a new one.
    fn settle_identity(&self, versions: &mut VersionSet, recorded: Option<&str>) -> Result<String> {
        let identity = versions
            .db_id()
            .map(str::to_owned)
            .or_else(|| recorded.map(str::to_owned))
            .unwrap_or_else(|| db_id_from(random()));
        if versions.db_id() != Some(&identity) {
            versions.set_db_id(identity.clone());
        }
        if !self.read_only && recorded != Some(&identity) {
            write_identity(&*self.fs, &self.path, &identity)?;
        }
        Ok(identity)
    }

    /// Adds the families that exist and were not named, and takes out those that are still to be made.
    fn settle_families(&mut self) -> Result<Vec<OpenFamily>> {
        let existing = VersionSet::list_families(&*self.fs, &self.path)?;
        let most = limits(self.untrusted).family_count;
        if existing.len() > most {
            return Err(Error::corruption(format!(
                "{}: {} column families, and at most {most} are opened",
                self.path.display(),
                existing.len()
            )));
        }
        if let Some(others) = &self.others {
            let named = self.families.iter().map(|(name, _)| name.clone());
            let named: HashSet<String> = named.collect();
            let unnamed = existing.iter().filter(|name| !named.contains(*name));
            let unnamed = unnamed.map(|name| (name.clone(), others.clone()));
            self.families.extend(unnamed);
        }
        let known: HashSet<&String> = existing.iter().collect();
        let (present, missing): (Vec<OpenFamily>, Vec<OpenFamily>) =
            std::mem::take(&mut self.families)
                .into_iter()
                .partition(|(name, _)| known.contains(name));
        self.families = present;
        if let Some((name, _)) = missing.first()
            && (self.read_only || !self.db.create_missing_column_families)
        {
            return Err(Error::invalid_argument(format!(
                "Column family not found: {name} (existing: {}; create_missing_column_families is false)",
                existing.join(", ")
            )));
        }
        Ok(missing)
    }

    fn descriptors(&self, _to_create: &[OpenFamily]) -> Vec<FamilyDescriptor> {
        self.families
            .iter()
            .map(|(name, options)| descriptor(name, options))
            .collect()
    }

    fn other_directories(&self) -> Vec<PathBuf> {
        if self.wal_dir == self.path {
            Vec::new()
        } else {
            vec![self.wal_dir.clone()]
        }
    }

    /// Of a database that is not trusted, every file is one: no link leads out of it, and no device is read.
    fn check_kinds(&self) -> Result<()> {
        for directory in [&self.path, &self.wal_dir] {
            for entry in self.fs.list(directory)? {
                let is_ours = file_name::parse(&entry.name).is_some();
                if is_ours && entry.kind != EntryKind::File {
                    let error = Error::corruption("not a regular file");
                    return Err(error.in_file(&directory.join(&entry.name), None, "open"));
                }
            }
        }
        Ok(())
    }

    fn open_families(
        &self,
        versions: &VersionSet,
        factory: &TableFactory,
    ) -> BTreeMap<u32, Arc<FamilyData>> {
        let named = self
            .families
            .iter()
            .map(|(name, options)| (&**name, options));
        let named: HashMap<&str, &ColumnFamilyOptions> = named.collect();
        let mut families = BTreeMap::new();
        for family in versions.families() {
            let Some(&options) = named.get(family.name()) else {
                continue;
            };
            let data = new_family(family, options.clone(), factory, family.log_number());
            families.insert(family.id(), Arc::new(data));
        }
        families
    }

    /// Opens every table, so that a missing or damaged one is an error before anything is written, and no read has to
    /// open one later.
    fn open_tables(&self, families: &BTreeMap<u32, Arc<FamilyData>>) -> Result<()> {
        let mut tables = Vec::new();
        for family in families.values() {
            let version = family.version();
            let files = version
                .files()
                .map(|(level, file)| (Arc::clone(&family.tables), level, Arc::clone(file)));
            tables.extend(files);
        }
        let threads = usize::try_from(self.db.max_file_opening_threads)
            .unwrap_or(1)
            .max(1);
        let share = tables.len().div_ceil(threads).max(16);
        std::thread::scope(|scope| {
            let opening: Vec<_> = tables
                .chunks(share)
                .map(|share| {
                    scope.spawn(move || {
                        share.iter().try_for_each(|(tables, level, file)| {
                            tables.reader(file, *level).map(|_| ())
                        })
                    })
                })
                .collect();
            opening.into_iter().try_for_each(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|_| Err(Error::corruption("opening a table panicked")))
            })
        })
    }

    /// Records the recovered state, with a new log, in a new MANIFEST.
    fn commit_recovery(
        &self,
        versions: &mut VersionSet,
        families: &BTreeMap<u32, Arc<FamilyData>>,
        recovered: &Recovered,
        factory: &TableFactory,
    ) -> Result<Wal> {
        let number = factory.numbers.next();
        let mut writer = new_wal(&*self.fs, &self.wal_dir, number, &self.db)?;
        versions.raise_last_seqno(recovered.last_seqno);
        if recovered.stopped_early && !is_on(Sabotage::NoMarkAfterDamage) {
            // The next recovery, ours or RocksDB's, recognises by this empty batch that nothing is missing (W2).
            let mut empty = [0; crate::write::batch::HEADER_BYTES];
            empty[..8].copy_from_slice(&recovered.next_seqno.to_le_bytes());
            writer.add_record(&empty)?;
            writer.sync()?;
            self.fs.sync_dir(&self.wal_dir)?;
        }
        // The originals go with the other obsolete logs, once this edit is durable (W3).
        for &damaged in recovered
            .archive
            .iter()
            .filter(|_| !is_on(Sabotage::DamagedLogNotArchived))
        {
            koeldb_log::wal::keep_in_archive(&*self.fs, &self.wal_dir, damaged)?;
        }
        if is_on(Sabotage::LogsRemovedBeforeRecoveryEdit) {
            for log in &recovered.report.logs {
                let _ = self
                    .fs
                    .remove_file(&file_name::wal(&self.wal_dir, log.number));
            }
        }
        let edits = families
            .keys()
            .map(|&id| {
                let mut edit = VersionEdit::of(id);
                edit.log_number = Some(number);
                let files = recovered.flushed.iter().filter(|(family, _)| *family == id);
                edit.added_files = files.map(|(_, file)| (0, Arc::clone(file))).collect();
                edit
            })
            .collect();
        for (id, version) in versions.log_and_apply(edits)? {
            if let Some(family) = families.get(&id) {
                family.restart(version, number);
            }
        }
        Ok(Wal {
            writer,
            number,
            is_entry_synced: recovered.stopped_early,
            has_unsynced: false,
            follows: None,
            next_seqno: recovered.next_seqno,
        })
    }

    /// Removes the files of our grammar that the recovered state does not need. A directory of its own for logs may hold
    /// somebody else's files: of those there only logs are ours.
    fn remove_orphans(&self, versions: &mut VersionSet) -> Vec<String> {
        let live = versions.live_files();
        let manifest = versions.manifest_number();
        let min_log = versions
            .families()
            .map(koeldb_lsm::version::Family::log_number)
            .min()
            .unwrap_or(0);
        let entries = self.fs.list(&self.path).unwrap_or_default();
        let mut options: Vec<FileNumber> = entries
            .iter()
            .filter_map(|entry| match file_name::parse(&entry.name) {
                Some(FileKind::Options(number)) => Some(number),
                _ => None,
            })
            .collect();
        options.sort_unstable();
        let oldest_options = options.iter().rev().nth(1).copied().unwrap_or(0);
        let is_orphan = |kind: FileKind| match kind {
            FileKind::Table(number) => !live.tables.contains(&number),
            FileKind::Manifest(number) => number < manifest,
            FileKind::Temporary(_) => true,
            FileKind::Options(number) => number < oldest_options,
            _ => false,
        };
        let is_obsolete = |kind: FileKind| matches!(kind, FileKind::Wal(log) if log < min_log);
        let mut removed = Vec::new();
        let mut remove = |directory: &Path, name: String| {
            if self.fs.remove_file(&directory.join(&name)).is_ok() {
                removed.push(name);
            }
        };
        for entry in entries {
            if file_name::parse(&entry.name).is_some_and(is_orphan) {
                remove(&self.path, entry.name);
            }
        }
        for entry in self.fs.list(&self.wal_dir).unwrap_or_default() {
            if file_name::parse(&entry.name).is_some_and(is_obsolete) {
                remove(&self.wal_dir, entry.name);
            }
        }
        removed
    }
}

pub(crate) fn descriptor(name: &str, options: &ColumnFamilyOptions) -> FamilyDescriptor {
    FamilyDescriptor {
        name: name.to_owned(),
        order: options.comparator.clone(),
        level_count: usize::try_from(options.num_levels).unwrap_or(7),
    }
}

fn new_family(
    family: &koeldb_lsm::version::Family,
    options: ColumnFamilyOptions,
    factory: &TableFactory,
    log: FileNumber,
) -> FamilyData {
    let tables = factory.table_cache(&family.current().order, &options);
    FamilyData::new(family, options, tables, factory.memtables.clone(), log)
}

/// Records a new family and makes what the database keeps of it.
pub(crate) fn add_family(
    versions: &mut VersionSet,
    factory: &TableFactory,
    name: &str,
    options: ColumnFamilyOptions,
    log: FileNumber,
) -> Result<Arc<FamilyData>> {
    let id = versions.add_family(&descriptor(name, &options), log)?;
    let family = versions.family(id).ok_or_else(|| {
        Error::corruption(format!("column family {id} vanished while it was made"))
    })?;
    Ok(Arc::new(new_family(family, options, factory, log)))
}

/// How many bytes of a table are written at once. Those of tables that will be mapped are huge pages: a system whose
/// page cache is made of what is written at once then maps them as such, and a look-up misses neither in the TLB nor in
/// the page table.
fn table_buffer_bytes(db: &DbOptions) -> usize {
    const HUGE_PAGE_BYTES: usize = 2 << 20;
    let asked = koeldb_base::coding::to_usize(db.writable_file_max_buffer_size);
    if db.allow_mmap_reads {
        asked.max(1).next_multiple_of(HUGE_PAGE_BYTES)
    } else {
        asked
    }
}

/// A new, empty log.
pub(crate) fn new_wal(
    fs: &dyn FileSystem,
    directory: &Path,
    number: FileNumber,
    db: &DbOptions,
) -> Result<RecordWriter> {
    let options = WriteOptions {
        buffer_bytes: koeldb_base::coding::to_usize(db.writable_file_max_buffer_size).max(64 << 10),
        bytes_per_sync: db.wal_bytes_per_sync,
        ..WriteOptions::new(Purpose::Wal)
    };
    let file = fs.create(&file_name::wal(directory, number), &options)?;
    let compression = match db.wal_compression {
        Compression::Zstd => WalCompression::Zstd,
        _ => WalCompression::None,
    };
    RecordWriter::new(file, RecordWriterOptions { compression })
}

/// Makes the entries of a directory durable; one that may not be read is somebody else's to keep.
fn sync_where_permitted(fs: &dyn FileSystem, directory: &Path) -> Result<()> {
    fs.sync_dir(directory).or_else(|error| {
        let code = error.raw_os_error().unwrap_or(0);
        match std::io::Error::from_raw_os_error(code).kind() {
            std::io::ErrorKind::PermissionDenied => Ok(()),
            _ => Err(error),
        }
    })
}

/// A number nobody can guess, for identities.
pub(crate) fn random() -> u128 {
    let half = || std::hash::RandomState::new().build_hasher().finish();
    u128::from(half()) << 64 | u128::from(half())
}

/// A session id: 20 characters of base 36 (`docs/formats/block-based-table.md`).
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

/// The names of the families of the database at `path`.
pub(crate) fn list_families(options: &Options, path: &Path) -> Result<Vec<String>> {
    VersionSet::list_families(&*options.plugins.env.fs, path)
}

/// Removes the files of the database at `path`, and the directory if nothing else is in it.
pub(crate) fn destroy(options: &Options, path: &Path) -> Result<()> {
    let fs = &*options.plugins.env.fs;
    if !fs.exists(path)? {
        return Ok(());
    }
    let lock = fs.lock(&file_name::lock(path))?;
    let remove = |directory: &Path, is_ours: fn(FileKind) -> bool| -> Result<()> {
        for entry in fs.list(directory)? {
            if file_name::parse(&entry.name).is_some_and(is_ours) {
                fs.remove_file(&directory.join(&entry.name))?;
            }
        }
        Ok(())
    };
    let wal_dir = options.db.wal_directory(path);
    let archive = koeldb_log::wal::archive_directory;
    for directory in [archive(path), archive(&wal_dir), wal_dir] {
        if directory != *path && fs.exists(&directory)? {
            remove(&directory, |kind| matches!(kind, FileKind::Wal(_)))?;
            // Left if somebody else keeps something in it.
            let _ = fs.remove_dir(&directory);
        }
    }
    // CURRENT goes first: what a crash leaves behind is then no database.
    if fs.exists(&file_name::current(path))? {
        fs.remove_file(&file_name::current(path))?;
    }
    remove(path, |kind| kind != FileKind::Lock)?;
    drop(lock);
    fs.remove_file(&file_name::lock(path))?;
    let _ = fs.remove_dir(path);
    Ok(())
}

impl DbInner {
    /// Writes the options in force to a new OPTIONS file, and removes all but the two newest.
    pub(crate) fn write_options_file(&self) -> Result<()> {
        // One after the other: the newest file has the newest options, and nobody removes what another one removes.
        let _only_one = lock(&self.options_file);
        let families: Vec<(String, Arc<ColumnFamilyOptions>)> = self
            .all_families()
            .into_iter()
            .filter(|family| !family.is_dropped())
            .map(|family| (family.name.clone(), family.options()))
            .collect();
        let borrowed: Vec<(&str, &ColumnFamilyOptions)> = families
            .iter()
            .map(|(name, options)| (name.as_str(), &**options))
            .collect();
        let db = self
            .mutable
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .clone();
        options_file::write(
            &*self.fs,
            &self.path,
            self.new_file_number(),
            &db,
            &borrowed,
        )?;
        let mut numbers: Vec<(FileNumber, String)> = self
            .fs
            .list(&self.path)?
            .into_iter()
            .filter_map(|entry| match file_name::parse(&entry.name) {
                Some(FileKind::Options(number)) => Some((number, entry.name)),
                _ => None,
            })
            .collect();
        numbers.sort();
        let surplus = numbers.len().saturating_sub(2);
        for (_, name) in numbers.into_iter().take(surplus) {
            self.fs.remove_file(&self.path.join(name))?;
        }
        Ok(())
    }
}
