//! The class `Db`: a database, which is also its default column family.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use koeldb::{
    BatchEntry, ColumnFamily, ColumnFamilyDescriptor, ColumnFamilyOptions, ConfigOptions, Options,
    TransactionDbOptions, TransactionOptions, UpdateIterator,
};
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::batch::Batch;
use crate::calls::{Guarded, detached, detached_value, outside};
use crate::failure::Outcome;
use crate::family::Family;
use crate::process::{self, Held};
use crate::settings::{Given, refused, seconds, write_options};
use crate::setup::{Settings, family_options};
use crate::shared::Shared;
use crate::snapshot::Snapshot;
use crate::transaction::Transaction;

/// A database: a directory with sorted mappings from bytes to bytes.
///
/// It is the mapping of its default column family; `family` returns the others. Options are keyword
/// arguments with RocksDB's names; `koeldb.options()` describes them.
///
/// - `create_if_missing` is on by default, unlike in RocksDB.
/// - `settings` are options as an object, which the keyword arguments change.
/// - `families` maps names of column families to their own options, dictionaries or objects of
///   `Settings`, or to `None`, and creates those that are missing. All other column families are
///   opened with `options`.
/// - `read_only` changes nothing in the directory, which another process may have open.
/// - `secondary` is a directory for the LOG of a secondary instance: a read-only database that
///   follows a primary in another process by `catch_up`.
/// - `ttl` is a number of seconds after which compactions remove an entry.
/// - `locks` makes writes and transactions lock their keys; without it, a commit detects conflicts.
/// - `load_options` starts from the options of the newest OPTIONS file. It raises `NotSupported` if
///   they name a merge operator, comparator or other plug-in that is not built in, unless
///   `ignore_unsupported_options` leaves those out.
///
/// A `with` block closes the database. An unknown option raises `TypeError`; a directory that
/// another process has open for writing raises `IoError`.
#[pyclass(module = "koeldb", extends = Family, frozen)]
pub(crate) struct Db {
    db: Held<koeldb::Db>,
    number: u64,
}

/// How a database is opened.
struct Opening {
    options: Options,
    families: Vec<(String, ColumnFamilyOptions)>,
    others: ColumnFamilyOptions,
    read_only: bool,
    secondary: Option<PathBuf>,
    ttl: Option<std::time::Duration>,
}

impl Opening {
    fn open(self, path: &std::path::Path) -> koeldb::Result<koeldb::Db> {
        let mut builder = koeldb::Db::builder(&self.options);
        let descriptor = |(name, options)| ColumnFamilyDescriptor::new(name, options);
        builder.column_families(self.families.into_iter().map(descriptor));
        builder.other_column_families(&self.others);
        if self.read_only {
            builder.read_only();
        }
        if let Some(own) = self.secondary {
            builder.secondary(own);
        }
        if let Some(ttl) = self.ttl {
            builder.ttl(ttl);
        }
        builder.open(path)
    }
}

impl Db {
    pub(crate) fn db(&self) -> Outcome<&koeldb::Db> {
        self.db.get()
    }

    /// Returns the engine's column family of a name.
    fn existing(&self, py: Python<'_>, name: &str) -> Outcome<ColumnFamily> {
        let db = self.db()?;
        let family = detached_value(py, || db.cf_handle(name))?;
        family.ok_or_else(|| {
            let text = format!("there is no column family {name:?}: families() lists them");
            PyKeyError::new_err(text).into()
        })
    }
}

impl Drop for Db {
    fn drop(&mut self) {
        // Column families, iterators and the like may still use it.
        drop(process::closed(self.number).map(Held::new));
    }
}

#[pymethods]
impl Db {
    #[new]
    #[pyo3(signature = (path, *, read_only = false, secondary = None, ttl = None, locks = false,
                        load_options = false, ignore_unsupported_options = false, settings = None, families = None,
                        create_if_missing = None, **options))]
    #[expect(clippy::too_many_arguments, reason = "they are keyword arguments")]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        read_only: bool,
        secondary: Option<PathBuf>,
        ttl: Option<f64>,
        locks: bool,
        load_options: bool,
        ignore_unsupported_options: bool,
        settings: Option<&Bound<'_, Settings>>,
        families: Option<BTreeMap<String, Option<Bound<'_, PyAny>>>>,
        create_if_missing: Option<bool>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> Outcome<PyClassInitializer<Self>> {
        process::check()?;
        if read_only && secondary.is_some() {
            return Err(PyValueError::new_err(
                "read_only and secondary exclude each other: a secondary is read-only",
            )
            .into());
        }
        if load_options && settings.is_some() {
            return Err(
                PyValueError::new_err("load_options and settings exclude each other").into(),
            );
        }
        let (given, shared) = (Given::new(options)?, Shared::default());
        given.note(&shared);
        let (has_own, mut loaded) = (settings.is_some(), Vec::new());
        let mut settings = Settings::or_default(settings, &shared)?;
        let create = create_if_missing.unwrap_or(match has_own {
            true => settings.get_create_if_missing(),
            false => !read_only && secondary.is_none(),
        });
        if load_options {
            let mut config = ConfigOptions::new();
            config.set_ignore_unsupported_options(ignore_unsupported_options);
            let found = detached(py, || Options::load_latest(&path, &config))?;
            (settings, loaded) = (found.options, found.column_families);
        }
        settings.create_if_missing(create);
        given.change(py, &mut settings)?;
        if locks {
            settings.set_transactions(&TransactionDbOptions::new());
        }
        if families.is_some() && create && !has_own {
            settings.create_missing_column_families(true);
        }
        let others = ColumnFamilyOptions::from(&settings);
        loaded.retain(|(name, _)| name != "default");
        for (name, options) in families.into_iter().flatten() {
            let place = loaded.iter().position(|(other, _)| *other == name);
            let base = place.map_or_else(Default::default, |place| loaded.swap_remove(place).1);
            let own = family_options(py, options.as_ref(), base, &shared)?;
            loaded.push((name, own));
        }
        let opening = Opening {
            options: settings,
            families: loaded,
            others,
            read_only,
            secondary,
            ttl: ttl.map(|ttl| seconds("ttl", ttl)).transpose()?,
        };
        let db = detached(py, || opening.open(&path))?;
        let number = process::opened(&db);
        let family = Family::new(db.default_cf().clone(), shared);
        let db = Db {
            db: Held::new(db),
            number,
        };
        Ok(PyClassInitializer::from(family).add_subclass(db))
    }

    /// Closes the database: later calls raise `Closed`. It may be called again.
    fn close(&self, py: Python<'_>) -> Outcome<()> {
        outside("close")?;
        drop(process::closed(self.number).map(Held::new));
        let db = self.db()?;
        detached(py, || db.close())
    }

    /// The directory of the database.
    #[getter]
    fn path(&self) -> Outcome<PathBuf> {
        Ok(self.db()?.path().to_owned())
    }

    /// Returns a column family; raises `KeyError` if there is none of the name.
    fn family(slf: &Bound<'_, Self>, name: &str) -> Outcome<Family> {
        let family = slf.get().existing(slf.py(), name)?;
        Ok(Family::new(family, slf.as_super().get().shared().clone()))
    }

    /// Returns the names of the column families.
    fn families(&self, py: Python<'_>) -> Outcome<Vec<String>> {
        let db = self.db()?;
        let families = detached_value(py, || db.cf_handles())?;
        Ok(families
            .iter()
            .map(|family| family.name().to_owned())
            .collect())
    }

    /// Creates a column family; raises `InvalidArgument` if there is one of the name.
    ///
    /// `settings` and `options` are those of a column family, as in `Db`.
    #[pyo3(signature = (name, settings = None, **options))]
    fn create_family(
        slf: &Bound<'_, Self>,
        name: &str,
        settings: Option<&Bound<'_, Settings>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> Outcome<Family> {
        let (py, db) = (slf.py(), slf.get().db()?);
        let (given, shared) = (Given::new(options)?, slf.as_super().get().shared());
        given.note(shared);
        let mut options = ColumnFamilyOptions::from(&Settings::or_default(settings, shared)?);
        given.change_family(py, &mut options)?;
        let family = detached(py, || db.create_cf(name, &options))?;
        Ok(Family::new(family, shared.clone()))
    }

    /// Removes a column family and its data; raises `KeyError` if there is none of the name.
    fn drop_family(&self, py: Python<'_>, name: &str) -> Outcome<()> {
        let (db, family) = (self.db()?, self.existing(py, name)?);
        detached(py, || db.drop_cf(&family))
    }

    /// Takes a snapshot of all column families.
    fn snapshot(slf: &Bound<'_, Self>) -> Outcome<Snapshot> {
        let db = slf.get().db()?;
        let default = Family::new(
            db.default_cf().clone(),
            slf.as_super().get().shared().clone(),
        );
        let snapshot = detached_value(slf.py(), || db.snapshot())?;
        Ok(Snapshot::new(snapshot, Py::new(slf.py(), default)?))
    }

    /// Begins a batch of writes; `sync` and `disable_wal` are those of `put`, for all of them.
    #[pyo3(signature = (*, sync = false, disable_wal = false))]
    fn batch(slf: &Bound<'_, Self>, sync: bool, disable_wal: bool) -> Outcome<Batch> {
        let shared = slf.as_super().get().shared().clone();
        Ok(Batch::new(
            slf.get().db()?.clone(),
            shared,
            sync,
            disable_wal,
        ))
    }

    /// Does the writes of a batch, all or none; the batch is empty then.
    #[pyo3(signature = (batch, *, sync = false, disable_wal = false))]
    fn write(
        slf: &Bound<'_, Self>,
        batch: &Bound<'_, Batch>,
        sync: bool,
        disable_wal: bool,
    ) -> Outcome<()> {
        let (db, shared) = (slf.get().db()?, slf.as_super().get().shared());
        let options = write_options(sync, disable_wal);
        batch.get().write_to(slf.py(), db, shared, &options)
    }

    /// Keeps flushes and compactions from starting, and waits for those that run. Flushes and
    /// stalled writes then wait for `resume_background_work`, or the close.
    fn pause_background_work(&self, py: Python<'_>) -> Outcome<()> {
        let db = self.db()?;
        outside("pause_background_work")?;
        detached(py, || db.pause_background_work())
    }

    /// Ends a pause.
    fn resume_background_work(&self, py: Python<'_>) -> Outcome<()> {
        let db = self.db()?;
        detached(py, || db.continue_background_work())
    }

    /// Begins a transaction.
    ///
    /// With `snapshot`, a key conflicts if it was written after this call; without, after the
    /// transaction first used it. In a database with `locks`, `lock_timeout` is the time in seconds
    /// that a call waits for a lock before it raises `TimedOut`, and `expiration` the time after
    /// which the transaction loses its locks and raises `Expired`.
    #[pyo3(signature = (*, sync = false, snapshot = false, lock_timeout = None, expiration = None))]
    fn transaction(
        slf: &Bound<'_, Self>,
        py: Python<'_>,
        sync: bool,
        snapshot: bool,
        lock_timeout: Option<f64>,
        expiration: Option<f64>,
    ) -> Outcome<Transaction> {
        let millis = |name: &str, value: f64| -> Outcome<i64> {
            Ok(i64::try_from(seconds(name, value)?.as_millis()).unwrap_or(i64::MAX))
        };
        let mut options = TransactionOptions::new();
        options.set_snapshot(snapshot);
        if let Some(limit) = lock_timeout {
            options.set_lock_timeout(millis("lock_timeout", limit)?);
        }
        if let Some(limit) = expiration {
            options.set_expiration(millis("expiration", limit)?);
        }
        let db = slf.get().db()?;
        let write = write_options(sync, false);
        let transaction = detached(py, || db.transaction_opt(&write, &options))?;
        let shared = slf.as_super().get().shared().clone();
        Ok(Transaction::new(db.clone(), shared, transaction))
    }

    /// Writes the buffered write-ahead log to the operating system, and with `sync` to the device:
    /// all writes so far survive a crash of the process, or a power cut.
    #[pyo3(signature = (*, sync = true))]
    fn flush_wal(&self, py: Python<'_>, sync: bool) -> Outcome<()> {
        let db = self.db()?;
        detached(py, || db.flush_wal(sync))
    }

    /// Makes a copy of the database in the directory `path`, which must not exist; table files are
    /// hard links if it is on the same file system.
    fn checkpoint(&self, py: Python<'_>, path: PathBuf) -> Outcome<()> {
        let db = self.db()?;
        detached(py, || db.create_checkpoint(path))?;
        Ok(())
    }

    /// The sequence number of the newest write.
    #[getter]
    fn latest_sequence_number(&self) -> Outcome<u64> {
        Ok(self.db()?.latest_sequence_number())
    }

    /// Iterates over the batches in the logs from the one that contains a sequence number.
    ///
    /// Each is a pair of the sequence number of its first write and a list of writes. A write is a
    /// tuple of its kind (`put`, `delete`, `single_delete`, `delete_range`, `merge`, `put_entity`),
    /// the number of the column family, the key, and the value, operand or end if it has one.
    fn updates_since(&self, py: Python<'_>, sequence_number: u64) -> Outcome<Updates> {
        let db = self.db()?;
        let updates = detached(py, || db.get_updates_since(sequence_number))?;
        Ok(Updates(Guarded::new(Held::new(updates))))
    }

    /// Changes options of the database while it is open, all or none; see `set_options`.
    #[pyo3(signature = (**options))]
    fn set_db_options(&self, py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> Outcome<()> {
        let (db, texts) = (self.db()?, Given::new(options)?.changes()?);
        detached(py, || db.set_db_options(texts)).map_err(refused)
    }

    /// Returns RocksDB's text of statistics.
    fn stats(&self, py: Python<'_>) -> Outcome<String> {
        let db = self.db()?;
        let stats = detached(py, || db.default_cf().property_value("rocksdb.stats"))?;
        Ok(stats.unwrap_or_default())
    }

    /// Reads all table files and verifies their checksums; raises `Corruption`.
    fn verify_checksums(&self, py: Python<'_>) -> Outcome<()> {
        let db = self.db()?;
        detached(py, || db.verify_checksums())
    }

    /// Makes what the primary has written since visible in a secondary.
    ///
    /// Raises `NotSupported` in a database that is not a secondary.
    fn catch_up(&self, py: Python<'_>) -> Outcome<()> {
        let db = self.db()?;
        detached(py, || db.try_catch_up_with_primary())?;
        Ok(())
    }

    /// Returns the HTML that a notebook shows: the levels of each family, as a table and a picture.
    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py()
            .import("koeldb.levels")?
            .call_method1("html", (slf,))
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_arguments))]
    fn __exit__(&self, py: Python<'_>, _arguments: &Bound<'_, PyAny>) -> Outcome<()> {
        self.close(py)
    }

    fn __repr__(&self) -> Outcome<String> {
        Ok(format!("<koeldb.Db {:?}>", self.db()?.path()))
    }
}

/// An iterator over the batches of the logs.
#[pyclass(module = "koeldb", frozen)]
pub(crate) struct Updates(Guarded<Held<UpdateIterator>>);

#[pymethods]
impl Updates {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> Outcome<Option<(u64, Bound<'py, PyList>)>> {
        let mut updates = self.0.lock(py)?;
        let updates = updates.get_mut()?;
        let Some(update) = detached(py, || updates.next().transpose())? else {
            return Ok(None);
        };
        let writes = PyList::empty(py);
        for entry in update.batch.iter() {
            let bytes = |bytes| PyBytes::new(py, bytes);
            match entry? {
                BatchEntry::Put { cf, key, value } => {
                    writes.append(("put", cf, bytes(key), bytes(value)))?
                }
                BatchEntry::Delete { cf, key } => writes.append(("delete", cf, bytes(key)))?,
                BatchEntry::SingleDelete { cf, key } => {
                    writes.append(("single_delete", cf, bytes(key)))?
                }
                BatchEntry::DeleteRange { cf, from, to } => {
                    writes.append(("delete_range", cf, bytes(from), bytes(to)))?;
                }
                BatchEntry::Merge { cf, key, operand } => {
                    writes.append(("merge", cf, bytes(key), bytes(operand)))?;
                }
                BatchEntry::PutEntity { cf, key, entity } => {
                    writes.append(("put_entity", cf, bytes(key), bytes(entity)))?;
                }
                _ => {}
            }
        }
        Ok(Some((update.sequence_number, writes)))
    }
}

/// Returns the names of the column families of a directory.
#[pyfunction]
pub(crate) fn list_families(py: Python<'_>, path: PathBuf) -> Outcome<Vec<String>> {
    process::check()?;
    detached(py, || koeldb::Db::list_cf(&Options::new(), path))
}

/// Runs a command of `ldb`, which prints its results and errors; returns whether it succeeded.
#[pyfunction]
pub(crate) fn ldb(py: Python<'_>, words: Vec<String>) -> Outcome<bool> {
    process::check()?;
    let status = detached_value(py, || koeldb_tools::ldb::run(&words))?;
    Ok(status == ExitCode::SUCCESS)
}

/// Removes a database and its files, also those in other directories of `settings`; raises
/// `IoError` if it is open.
#[pyfunction]
#[pyo3(signature = (path, settings = None))]
pub(crate) fn destroy(
    py: Python<'_>,
    path: PathBuf,
    settings: Option<&Bound<'_, Settings>>,
) -> Outcome<()> {
    process::check()?;
    let options = Settings::or_default(settings, &Shared::default())?;
    detached(py, || koeldb::Db::destroy(&options, path))
}

/// Repairs a damaged database: rebuilds its MANIFEST from the tables and logs that can be read.
/// Returns a report for a person. The database must not be open. `settings` have its comparator.
#[pyfunction]
#[pyo3(signature = (path, settings = None))]
pub(crate) fn repair(
    py: Python<'_>,
    path: PathBuf,
    settings: Option<&Bound<'_, Settings>>,
) -> Outcome<String> {
    process::check()?;
    let options = Settings::or_default(settings, &Shared::default())?;
    let report = detached(py, || koeldb::Db::repair(&options, path))?;
    Ok(format!("{report:?}"))
}
