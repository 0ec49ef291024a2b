//! The parameters of an open, and read-only opens concurrent with a writer.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use koeldb_base::file_name::{self, FileNumber};
use koeldb_base::{Error, ErrorKind, Result};
use koeldb_fs::FileSystem;
use koeldb_lsm::current::read_current;

use super::Opening;
use super::secondary::SecondaryToOpen;
use crate::api::column_family::{ColumnFamily, ColumnFamilyDescriptor};
use crate::api::db::Db;
use crate::engine::secondary::{KeepTables, SecondaryOptions};
use crate::options::{ColumnFamilyOptions, Options};
use crate::state::ttl::TtlOptions;

/// A builder for opening a database: column families, read-only, secondary, TTL and other modes.
#[derive(Clone, Debug)]
pub struct DbBuilder {
    pub(super) options: Options,
    pub(super) families: Vec<ColumnFamilyDescriptor>,
    pub(super) others: Option<ColumnFamilyOptions>,
    read_only: bool,
    pub(super) untrusted: bool,
    writable: bool,
    pub(super) secondary: Option<SecondaryToOpen>,
    pub(super) ttl: Option<TtlOptions>,
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
            secondary: None,
            ttl: None,
        }
    }

    /// Adds a column family to open; if it is named twice, the last options win.
    ///
    /// The default column family may be named to give it its own options.
    pub fn column_family(&mut self, family: impl Into<ColumnFamilyDescriptor>) -> &mut Self {
        let family = family.into();
        self.families.retain(|other| other.name != family.name);
        self.families.push(family);
        self
    }

    /// Adds column families to open.
    pub fn column_families(
        &mut self,
        families: impl IntoIterator<Item = impl Into<ColumnFamilyDescriptor>>,
    ) -> &mut Self {
        for family in families {
            self.column_family(family);
        }
        self
    }

    /// Requests to open existing column families that are not named, with these options.
    pub fn other_column_families(&mut self, options: &ColumnFamilyOptions) -> &mut Self {
        self.others = Some(options.clone());
        self
    }

    /// Requests a read-only open without a lock or any file write (RocksDB: `OpenForReadOnly`).
    ///
    /// Writes return `NotSupported`. Column families may be omitted.
    pub fn read_only(&mut self) -> &mut Self {
        self.read_only = true;
        self
    }

    /// Requests strict checks of files from an untrusted source; read-only without `writable`.
    ///
    /// Every table is read completely before the open returns, and rejected if its keys do not
    /// ascend, if its index does not refer to its blocks in order, or if its properties contradict
    /// its contents. Blocks, dictionaries, records and column families have tighter limits
    /// (`docs/reliability.md`, section 7), and a database file that is a link or a device is
    /// rejected. An open takes as long as reading all tables.
    pub fn untrusted(&mut self) -> &mut Self {
        self.untrusted = true;
        self
    }

    /// Permits writes to a database that is opened with [`DbBuilder::untrusted`].
    pub fn writable(&mut self) -> &mut Self {
        self.writable = true;
        self
    }

    /// Requests a TTL database with this default time to live: see [`Db::open_with_ttl`].
    ///
    /// `ttl` is that of the column families whose own is not given, except those created later.
    pub fn ttl(&mut self, ttl: Duration) -> &mut Self {
        self.ttl.get_or_insert_default().default = ttl;
        self
    }

    /// Requests a TTL database, and sets the time to live of the column family `name`.
    pub fn column_family_ttl(&mut self, name: impl Into<String>, ttl: Duration) -> &mut Self {
        let options = self.ttl.get_or_insert_default();
        options.by_name.insert(name.into(), ttl);
        self
    }

    /// Requests a secondary instance with its own directory: see [`Db::open_as_secondary`].
    ///
    /// [`DbBuilder::other_column_families`] also gives the options of column families that the
    /// primary creates later; without them, these are not opened.
    pub fn secondary(&mut self, secondary_path: impl Into<PathBuf>) -> &mut Self {
        self.secondary_opt(secondary_path, &SecondaryOptions::new())
    }

    /// Requests a secondary instance, like [`DbBuilder::secondary`], with `options`.
    pub fn secondary_opt(
        &mut self,
        secondary_path: impl Into<PathBuf>,
        options: &SecondaryOptions,
    ) -> &mut Self {
        self.secondary = Some(SecondaryToOpen {
            own: secondary_path.into(),
            options: options.clone(),
        });
        self
    }

    /// Requests a follower with its own directory: see [`Db::open_as_follower`].
    pub fn follower(&mut self, path: impl Into<PathBuf>) -> &mut Self {
        let db = &self.options.db;
        let mut options = SecondaryOptions::new();
        let period = Duration::from_millis(db.follower_refresh_catchup_period_ms);
        options
            .set_keep(KeepTables::Links)
            .set_logs(false)
            .set_refresh(Some(period).filter(|period| !period.is_zero()))
            .set_retries(db.follower_catchup_retry_count)
            .set_retry_wait(Duration::from_millis(db.follower_catchup_retry_wait_ms));
        self.secondary_opt(path, &options)
    }

    /// Whether the open is read-only: also as a secondary, or untrusted without `writable`.
    pub(super) fn is_read_only(&self) -> bool {
        self.secondary.is_some() || self.read_only || (self.untrusted && !self.writable)
    }

    /// Opens the database at `path` in the requested mode.
    ///
    /// # Errors
    /// See [`Db::open`].
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Db> {
        let path = path.as_ref();
        if self.secondary.is_some() {
            Opening::new(self, path)?.run()
        } else if self.is_read_only() {
            let path = self.options.plugins.env.fs.absolute(path)?;
            self.open_beside_a_writer(&path)
        } else {
            Opening::new(self, path)?.run()
        }
    }

    /// Opens the database read-only; retries if a concurrent writer changed the MANIFEST meanwhile.
    ///
    /// A writer may remove files that the MANIFEST named when it was read. Only if the MANIFEST is
    /// unchanged afterwards did all named files exist.
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
                "{}: the database changed repeatedly while it was opened read-only: try again",
                path.display()
            ),
        ))
    }
}

/// The number of attempts to open a database read-only while a writer changes the MANIFEST.
const READ_ONLY_ATTEMPTS: u64 = 100;

/// Returns the number and length of the current MANIFEST, to detect concurrent version edits.
fn manifest_state(fs: &dyn FileSystem, path: &Path) -> Result<(FileNumber, u64)> {
    let number = read_current(fs, path)?;
    let metadata = fs.metadata(&file_name::manifest(path, number))?;
    Ok((number, metadata.len))
}

/// Opens every table of a read-only database, so that it stays readable if a writer deletes it.
///
/// If a table cannot be opened, reads of it report the error.
fn open_tables(db: &Db) {
    for family in db.inner().families.all() {
        for (level, file) in family.version().files() {
            let _ = family.tables.reader(file, level);
        }
    }
}

impl Db {
    /// Opens the database at `path` with only the default column family.
    ///
    /// # Errors
    /// If it does not exist and `create_if_missing` is off; if it is in use; if it has other column
    /// families; if it was written with another comparator; if it is damaged. Each error names the
    /// file and the reason; the directory is left unchanged.
    pub fn open(options: &Options, path: impl AsRef<Path>) -> Result<Db> {
        Self::builder(options).open(path)
    }

    /// Opens the database at `path` with these column families, and returns their handles.
    ///
    /// The handles are in the given order. The default column family is always opened.
    ///
    /// # Errors
    /// See [`Db::open`].
    pub fn open_cf<const N: usize>(
        options: &Options,
        path: impl AsRef<Path>,
        families: [impl Into<ColumnFamilyDescriptor>; N],
    ) -> Result<(Db, [ColumnFamily; N])> {
        let descriptors = families.map(Into::into);
        let names = descriptors
            .each_ref()
            .map(|descriptor| descriptor.name.clone());
        let mut builder = Self::builder(options);
        builder.column_families(descriptors);
        let db = builder.open(path)?;
        let mut handles = Vec::with_capacity(N);
        for name in &names {
            let handle = db.cf_handle(name).ok_or_else(|| {
                Error::with_kind(
                    ErrorKind::NotFound,
                    format!("column family {name:?} was not opened"),
                )
            })?;
            handles.push(handle);
        }
        let handles = <[ColumnFamily; N]>::try_from(handles)
            .map_err(|_| Error::with_kind(ErrorKind::NotFound, "a column family was not opened"))?;
        Ok((db, handles))
    }

    /// Returns a builder for opening a database in other ways than [`Db::open`].
    #[must_use]
    pub fn builder(options: &Options) -> DbBuilder {
        DbBuilder::new(options)
    }

    /// Returns the names of the column families of the database at `path`.
    ///
    /// # Errors
    /// If there is no database or its MANIFEST is damaged.
    pub fn list_cf(options: &Options, path: impl AsRef<Path>) -> Result<Vec<String>> {
        super::list_families(options, path.as_ref())
    }
}
