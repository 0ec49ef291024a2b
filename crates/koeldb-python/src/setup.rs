//! Options as objects: the classes `Settings`, `Cache` and `WriteBufferManager`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use koeldb::{BlockBasedOptions, ColumnFamilyOptions, ConfigOptions, DbPath, Options};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::calls::{Guard, Guarded, detached, detached_value};
use crate::failure::Outcome;
use crate::process::{self, Held};
use crate::settings::{Given, refused};
use crate::shared::Shared;

/// Options of databases and column families, by RocksDB's names, which several opens can share.
#[pyclass(module = "koeldb", frozen)]
pub(crate) struct Settings {
    options: Guarded<Options>,
    shared: Shared,
}

impl Settings {
    fn of(options: Options) -> Self {
        Settings {
            options: Guarded::new(options),
            shared: Shared::default(),
        }
    }

    /// Returns the options; fails in a forked child.
    fn lock(&self, py: Python<'_>) -> Outcome<Guard<'_, Options>> {
        self.options.lock(py)
    }

    /// Returns a copy of the options, and notes whether there are plug-ins in Python.
    pub(crate) fn options(&self, py: Python<'_>, shared: &Shared) -> Outcome<Options> {
        if self.shared.has_plug_ins() {
            shared.add_plug_in();
        }
        Ok(self.lock(py)?.clone())
    }

    /// Returns the options of an argument that may be left out.
    pub(crate) fn or_default(
        settings: Option<&Bound<'_, Self>>,
        shared: &Shared,
    ) -> Outcome<Options> {
        match settings {
            Some(settings) => settings.get().options(settings.py(), shared),
            None => Ok(Options::new()),
        }
    }
}

#[pymethods]
impl Settings {
    #[new]
    #[pyo3(signature = (**options))]
    fn new(py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> Outcome<Self> {
        let settings = Settings::of(Options::new());
        settings.set(py, options)?;
        Ok(settings)
    }

    /// Returns the options with which a directory was last opened: those of the database and its
    /// default column family, and those of each column family by name.
    ///
    /// With `ignore_unsupported_options` a plug-in that is not built in is left out.
    #[staticmethod]
    #[pyo3(signature = (path, *, ignore_unsupported_options = false, ignore_unknown_options = false))]
    fn load(
        py: Python<'_>,
        path: PathBuf,
        ignore_unsupported_options: bool,
        ignore_unknown_options: bool,
    ) -> Outcome<(Self, BTreeMap<String, Py<Self>>)> {
        process::check()?;
        let mut config = ConfigOptions::new();
        config.set_ignore_unsupported_options(ignore_unsupported_options);
        config.set_ignore_unknown_options(ignore_unknown_options);
        let found = detached(py, || Options::load_latest(&path, &config))?;
        let mut families = BTreeMap::new();
        for (name, options) in found.column_families {
            let mut own = Options::new();
            *own.cf_options_mut() = options;
            families.insert(name, Py::new(py, Settings::of(own))?);
        }
        Ok((Settings::of(found.options), families))
    }

    /// Sets options, all or none.
    #[pyo3(signature = (**options))]
    fn set(&self, py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> Outcome<()> {
        let given = Given::new(options)?;
        let mut own = self.lock(py)?;
        let mut changed = own.clone();
        given.change(py, &mut changed)?;
        given.note(&self.shared);
        let old = std::mem::replace(&mut *own, changed);
        drop(own);
        // A plug-in that is replaced may run Python when it goes.
        drop(old);
        Ok(())
    }

    /// Returns the text of an option, or of a member of one that has options:
    /// `compression_opts.level`.
    fn get(&self, py: Python<'_>, name: &str) -> Outcome<String> {
        self.lock(py)?.get_by_name(name).map_err(refused)
    }

    /// Returns a copy, which can be changed on its own.
    fn copy(&self, py: Python<'_>) -> Outcome<Self> {
        let settings = Settings::of(self.lock(py)?.clone());
        if self.shared.has_plug_ins() {
            settings.shared.add_plug_in();
        }
        Ok(settings)
    }

    /// Makes tables block-based with these options, and uses a cache for their blocks.
    #[pyo3(signature = (*, cache = None, **options))]
    fn set_block_based_tables(
        &self,
        py: Python<'_>,
        cache: Option<&Bound<'_, Cache>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> Outcome<()> {
        let mut tables = BlockBasedOptions::new();
        for (name, text) in Given::new(options)?.named("it is no option of tables")? {
            tables.set_by_name(&name, &text).map_err(refused)?;
        }
        if let Some(cache) = cache {
            tables.set_block_cache(cache.get().0.get()?);
        }
        self.lock(py)?.set_block_based_table_factory(&tables);
        Ok(())
    }

    /// Sets the directories of tables, each with the bytes after which the next is used.
    fn set_db_paths(&self, py: Python<'_>, paths: Vec<(PathBuf, u64)>) -> Outcome<()> {
        let paths = paths
            .into_iter()
            .map(|(path, bytes)| DbPath::new(path, bytes));
        self.lock(py)?.set_db_paths(paths);
        Ok(())
    }

    /// Limits the memory of memtables of all databases that have the same object.
    fn set_write_buffer_manager(
        &self,
        py: Python<'_>,
        manager: &Bound<'_, WriteBufferManager>,
    ) -> Outcome<()> {
        let manager = manager.get().0.get()?;
        self.lock(py)?.set_write_buffer_manager(manager);
        Ok(())
    }

    /// Sets how many flushes and compactions run concurrently.
    fn increase_parallelism(&self, py: Python<'_>, threads: u32) -> Outcome<()> {
        self.lock(py)?.increase_parallelism(threads);
        Ok(())
    }

    /// Optimizes for reads of single keys: hashed blocks, filters, and a cache of so many
    /// megabytes.
    fn optimize_for_point_lookup(&self, py: Python<'_>, cache_megabytes: u64) -> Outcome<()> {
        self.lock(py)?.optimize_for_point_lookup(cache_megabytes);
        Ok(())
    }

    /// Configures leveled compaction for so many bytes of memtables.
    fn optimize_level_style_compaction(
        &self,
        py: Python<'_>,
        memtable_memory_budget: u64,
    ) -> Outcome<()> {
        self.lock(py)?
            .optimize_level_style_compaction(memtable_memory_budget);
        Ok(())
    }

    /// Configures universal compaction for so many bytes of memtables.
    fn optimize_universal_style_compaction(
        &self,
        py: Python<'_>,
        memtable_memory_budget: u64,
    ) -> Outcome<()> {
        self.lock(py)?
            .optimize_universal_style_compaction(memtable_memory_budget);
        Ok(())
    }

    /// Prepares for a bulk load followed by a compaction: no automatic ones, no stalls.
    fn prepare_for_bulk_load(&self, py: Python<'_>) -> Outcome<()> {
        self.lock(py)?.prepare_for_bulk_load();
        Ok(())
    }

    fn __repr__(&self) -> &'static str {
        "<koeldb.Settings>"
    }
}

/// Returns the options of a column family: those of an object or of a dictionary.
pub(crate) fn family_options(
    py: Python<'_>,
    given: Option<&Bound<'_, PyAny>>,
    base: ColumnFamilyOptions,
    shared: &Shared,
) -> Outcome<ColumnFamilyOptions> {
    let Some(given) = given else {
        return Ok(base);
    };
    if let Ok(settings) = given.cast::<Settings>() {
        return Ok(ColumnFamilyOptions::from(
            &settings.get().options(py, shared)?,
        ));
    }
    let given = Given::new(Some(given.cast::<PyDict>().map_err(PyErr::from)?))?;
    given.note(shared);
    let mut own = base;
    given.change_family(py, &mut own)?;
    Ok(own)
}

/// A cache of blocks, which column families and databases can share.
#[pyclass(module = "koeldb", frozen)]
pub(crate) struct Cache(Held<koeldb::Cache>);

impl Cache {
    /// Runs a call without the GIL, which waits for other users of the cache.
    fn run<R: Send>(&self, py: Python<'_>, call: fn(&koeldb::Cache) -> R) -> Outcome<R> {
        let cache = self.0.get()?;
        detached_value(py, || call(cache))
    }
}

#[pymethods]
impl Cache {
    /// Makes a cache of so many bytes; with `clock` one whose hits take no lock.
    #[new]
    #[pyo3(signature = (capacity, *, clock = false))]
    fn new(capacity: u64, clock: bool) -> Self {
        Cache(Held::new(if clock {
            koeldb::Cache::new_clock_cache(capacity)
        } else {
            koeldb::Cache::new_lru_cache(capacity)
        }))
    }

    /// The bytes that it may keep.
    #[getter]
    fn capacity(&self, py: Python<'_>) -> Outcome<u64> {
        self.run(py, koeldb::Cache::get_capacity)
    }

    /// Changes the capacity.
    fn set_capacity(&self, py: Python<'_>, capacity: u64) -> Outcome<()> {
        let cache = self.0.get()?;
        detached_value(py, || {
            cache.set_capacity(capacity);
        })
    }

    /// The bytes that it keeps.
    #[getter]
    fn usage(&self, py: Python<'_>) -> Outcome<u64> {
        self.run(py, koeldb::Cache::get_usage)
    }

    /// The bytes of blocks in use.
    #[getter]
    fn pinned_usage(&self, py: Python<'_>) -> Outcome<u64> {
        self.run(py, koeldb::Cache::get_pinned_usage)
    }
}

/// A limit of the memory of memtables, which databases can share.
#[pyclass(module = "koeldb", frozen)]
pub(crate) struct WriteBufferManager(Held<koeldb::WriteBufferManager>);

#[pymethods]
impl WriteBufferManager {
    /// Makes a limit of so many bytes. With `allow_stall` writes wait above it; with `cache` the
    /// memory counts as the cache's.
    #[new]
    #[pyo3(signature = (buffer_size, allow_stall = false, *, cache = None))]
    fn new(buffer_size: u64, allow_stall: bool, cache: Option<&Bound<'_, Cache>>) -> Outcome<Self> {
        Ok(WriteBufferManager(Held::new(match cache {
            Some(cache) => {
                let cache = cache.get().0.get()?;
                koeldb::WriteBufferManager::with_cache(buffer_size, cache, allow_stall)
            }
            None => koeldb::WriteBufferManager::new(buffer_size, allow_stall),
        })))
    }

    /// The limit in bytes.
    #[getter]
    fn buffer_size(&self) -> Outcome<u64> {
        Ok(self.0.get()?.get_buffer_size())
    }

    /// Changes the limit.
    fn set_buffer_size(&self, py: Python<'_>, bytes: u64) -> Outcome<()> {
        let manager = self.0.get()?;
        detached_value(py, || {
            manager.set_buffer_size(bytes);
        })
    }

    /// Sets whether writes wait above the limit.
    fn set_allow_stall(&self, py: Python<'_>, allow_stall: bool) -> Outcome<()> {
        let manager = self.0.get()?;
        detached_value(py, || {
            manager.set_allow_stall(allow_stall);
        })
    }

    /// The bytes of memtables.
    #[getter]
    fn usage(&self) -> Outcome<u64> {
        Ok(self.0.get()?.get_usage())
    }
}
