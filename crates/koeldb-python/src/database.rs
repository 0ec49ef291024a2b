//! The class `Db`: a database, which is also its default column family.

use std::convert::Infallible;

use std::collections::BTreeMap;
use std::path::PathBuf;

use koeldb::{
    BatchEntry, ColumnFamilyDescriptor, ColumnFamilyOptions, ConfigOptions, Options,
    TransactionDbOptions, TransactionOptions, UpdateIterator,
};
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::batch::Batch;
use crate::calls::{Guarded, detached, outside};
use crate::failure::Outcome;
use crate::family::{Family, Plugins};
use crate::process::{self, Held};
use crate::settings::{Given, refused, seconds, write_options};
use crate::snapshot::Snapshot;
use crate::transaction::Transaction;

/// A database: a directory with sorted mappings from bytes to bytes.
///
/// It is the mapping of its default column family; `family` returns the others. Options are keyword
/// arguments with RocksDB's names; `koeldb.options()` describes them.
///
/// `create_if_missing` is on, unlike in RocksDB. All column families of the directory are opened;
/// `families` gives some options of their own, and creates those that are missing. With
/// `load_options` the options are those that the directory was last opened with; it fails if they
/// name a merge operator, comparator or other plug-in that is not built in, unless
/// `ignore_unsupported_options` leaves those out. With `locks`, writes and transactions lock their
/// keys. A `with` block closes the database.
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
                        load_options = false, ignore_unsupported_options = false, families = None, create_if_missing = None, **options))]
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
        families: Option<BTreeMap<String, Option<Bound<'_, PyDict>>>>,
        create_if_missing: Option<bool>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> Outcome<PyClassInitializer<Self>> {
        process::check()?;
        if read_only && secondary.is_some() {
            return Err(PyValueError::new_err("a secondary is read-only already").into());
        }
        let create = create_if_missing.unwrap_or(!read_only && secondary.is_none());
        let given = Given::new(options)?;
        let plugins = Plugins::default();
        given.note(&plugins);
        let mut loaded = Vec::new();
        let mut settings = Options::new();
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
        if families.is_some() && create {
            settings.create_missing_column_families(true);
        }
        let others = ColumnFamilyOptions::from(&settings);
        loaded.retain(|(name, _)| name != "default");
        for (name, options) in families.into_iter().flatten() {
            let given = Given::new(options.as_ref())?;
            given.note(&plugins);
            let place = loaded.iter().position(|(other, _)| *other == name);
            let mut own = place.map_or_else(Default::default, |place| loaded.swap_remove(place).1);
            given.change_family(py, &mut own)?;
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
        let family = Family::new(db.default_cf().clone(), plugins);
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

    /// The directory.
    #[getter]
    fn path(&self) -> Outcome<PathBuf> {
        Ok(self.db()?.path().to_owned())
    }

    /// Returns a column family; `KeyError` if there is none of the name.
    fn family(slf: &Bound<'_, Self>, name: &str) -> Outcome<Family> {
        let db = slf.get().db()?;
        let family = detached(slf.py(), || Ok::<_, Infallible>(db.cf_handle(name)))?;
        let family = family.ok_or_else(|| PyKeyError::new_err(name.to_owned()))?;
        Ok(Family::new(family, slf.as_super().get().plugins().clone()))
    }

    /// Returns the names of the column families.
    fn families(&self, py: Python<'_>) -> Outcome<Vec<String>> {
        let db = self.db()?;
        let families = detached(py, || Ok::<_, Infallible>(db.cf_handles()))?;
        Ok(families
            .iter()
            .map(|family| family.name().to_owned())
            .collect())
    }

    /// Creates a column family.
    #[pyo3(signature = (name, **options))]
    fn create_family(
        slf: &Bound<'_, Self>,
        name: &str,
        options: Option<&Bound<'_, PyDict>>,
    ) -> Outcome<Family> {
        let (py, db) = (slf.py(), slf.get().db()?);
        let (given, plugins) = (Given::new(options)?, slf.as_super().get().plugins());
        given.note(plugins);
        let mut options = ColumnFamilyOptions::new();
        given.change_family(py, &mut options)?;
        let family = detached(py, || db.create_cf(name, &options))?;
        Ok(Family::new(family, plugins.clone()))
    }

    /// Removes a column family and its data.
    fn drop_family(&self, py: Python<'_>, name: &str) -> Outcome<()> {
        let db = self.db()?;
        let family = detached(py, || Ok::<_, Infallible>(db.cf_handle(name)))?;
        let family = family.ok_or_else(|| PyKeyError::new_err(name.to_owned()))?;
        detached(py, || db.drop_cf(&family))
    }

    /// Takes a snapshot.
    fn snapshot(slf: &Bound<'_, Self>) -> Outcome<Snapshot> {
        let db = slf.get().db()?;
        let default = Family::new(
            db.default_cf().clone(),
            slf.as_super().get().plugins().clone(),
        );
        let snapshot = detached(slf.py(), || Ok::<_, Infallible>(db.snapshot()))?;
        Ok(Snapshot::new(snapshot, Py::new(slf.py(), default)?))
    }

    /// Begins a batch of writes.
    #[pyo3(signature = (*, sync = false, disable_wal = false))]
    fn batch(slf: &Bound<'_, Self>, sync: bool, disable_wal: bool) -> Outcome<Batch> {
        let plugins = slf.as_super().get().plugins().clone();
        Ok(Batch::new(
            slf.get().db()?.clone(),
            plugins,
            sync,
            disable_wal,
        ))
    }

    /// Begins a transaction.
    ///
    /// `snapshot` makes it fail if a key it uses was written since now, not since its first use.
    /// `lock_timeout` is how many seconds it waits for a lock, `expiration` how many it lives.
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
        let plugins = slf.as_super().get().plugins().clone();
        Ok(Transaction::new(db.clone(), plugins, transaction))
    }

    /// Makes all writes so far survive a crash of the process, or with `sync` a power cut.
    #[pyo3(signature = (*, sync = true))]
    fn flush_wal(&self, py: Python<'_>, sync: bool) -> Outcome<()> {
        let db = self.db()?;
        detached(py, || db.flush_wal(sync))
    }

    /// Makes a copy of the database in a new directory, whose files are links where they can be.
    fn checkpoint(&self, py: Python<'_>, path: PathBuf) -> Outcome<()> {
        let db = self.db()?;
        detached(py, || db.create_checkpoint(path))?;
        Ok(())
    }

    /// Adds tables that were built outside (`ingest_external_file`).
    fn ingest(&self, py: Python<'_>, files: Vec<PathBuf>) -> Outcome<()> {
        let db = self.db()?;
        detached(py, || db.ingest_external_file(&files))
    }

    /// The number of the newest write.
    #[getter]
    fn latest_sequence_number(&self) -> Outcome<u64> {
        Ok(self.db()?.latest_sequence_number())
    }

    /// Iterates over the batches after a sequence number that the logs still have: pairs of the
    /// number of the first write and a list of writes, each a tuple of its kind, the column
    /// family's number and the bytes.
    fn updates_since(&self, py: Python<'_>, sequence_number: u64) -> Outcome<Updates> {
        let db = self.db()?;
        let updates = detached(py, || db.get_updates_since(sequence_number))?;
        Ok(Updates(Guarded::new(Held::new(updates))))
    }

    /// Changes options of the database while it is open.
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

    /// Reads all files and verifies their checksums.
    fn verify_checksums(&self, py: Python<'_>) -> Outcome<()> {
        let db = self.db()?;
        detached(py, || db.verify_checksums())
    }

    /// Reads what a secondary's primary has written since.
    fn catch_up(&self, py: Python<'_>) -> Outcome<()> {
        let db = self.db()?;
        detached(py, || db.try_catch_up_with_primary())?;
        Ok(())
    }

    /// What a notebook shows: the levels of each column family, as a table and a picture.
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

/// Runs a command of `ldb`, which prints its results.
#[pyfunction]
pub(crate) fn ldb(py: Python<'_>, words: Vec<String>) -> Outcome<()> {
    process::check()?;
    detached(py, || {
        koeldb_tools::ldb::run(&words);
        Ok::<_, Infallible>(())
    })
}

/// Removes a database and its files.
#[pyfunction]
pub(crate) fn destroy(py: Python<'_>, path: PathBuf) -> Outcome<()> {
    process::check()?;
    detached(py, || koeldb::Db::destroy(&Options::new(), path))
}

/// Repairs a damaged database: what can be read is kept. Returns a report.
#[pyfunction]
pub(crate) fn repair(py: Python<'_>, path: PathBuf) -> Outcome<String> {
    process::check()?;
    let report = detached(py, || koeldb::Db::repair(&Options::new(), path))?;
    Ok(format!("{report:?}"))
}
