//! Options by RocksDB's names, from keyword arguments.

use koeldb::{
    BottommostLevelCompaction, ColumnFamilyOptions, CompactRangeOptions, ConfigOptions,
    IngestExternalFileOptions, Options, ReadOptions, ReadTier, Snapshot, WriteOptions,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

use crate::failure::{Failure, Outcome};
use crate::order::{MaxLenPrefix, TypedOrder};
use crate::plugins::{Comparator, MergeOperator};
use crate::shared::Shared;

/// Options that are given as objects of this module.
#[derive(Default)]
pub(crate) struct Given {
    /// Names and texts of options.
    pub(crate) texts: Vec<(String, String)>,
    merge_operator: Option<Py<MergeOperator>>,
    comparator: Option<Py<Comparator>>,
    /// Whether keys have RocksDict's order.
    is_typed: bool,
    prefix: Option<usize>,
}

/// The limit of nested options: a dictionary may contain itself.
const DEPTH_MAX: usize = 16;

/// Returns an option in a dictionary as text: a value with a separator is in braces.
fn nested(name: &str, value: &str) -> PyResult<String> {
    let mut depth = 0_usize;
    let is_balanced = value.chars().all(|letter| match letter {
        '{' => {
            depth += 1;
            true
        }
        '}' => depth.checked_sub(1).map(|less| depth = less).is_some(),
        _ => true,
    }) && depth == 0;
    if !is_balanced || name.contains(['{', '}', ';', '=']) {
        let text = format!("{name}={value:?}: an option in a dict has no such name or text");
        return Err(PyValueError::new_err(text));
    }
    let is_plain = !value.contains(';') || (value.starts_with('{') && value.ends_with('}'));
    Ok(if is_plain {
        format!("{name}={value};")
    } else {
        format!("{name}={{{value}}};")
    })
}

/// Returns the text of a value: numbers, flags, texts, paths, and dictionaries for options that
/// have options.
fn text(name: &str, value: &Bound<'_, PyAny>, depth: usize) -> PyResult<String> {
    if depth > DEPTH_MAX {
        return Err(PyValueError::new_err(format!(
            "{name}: options in options, more than {DEPTH_MAX} deep"
        )));
    }
    if let Ok(flag) = value.cast::<PyBool>() {
        return Ok(flag.is_true().to_string());
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(text.to_str()?.to_owned());
    }
    if value.is_instance_of::<PyInt>() || value.is_instance_of::<PyFloat>() {
        return Ok(value.str()?.to_str()?.to_owned());
    }
    if let Ok(options) = value.cast::<PyDict>() {
        let mut out = String::from("{");
        for option in options.items() {
            let (name, value): (String, Bound<'_, PyAny>) = option.extract()?;
            out.push_str(&nested(&name, &text(&name, &value, depth + 1)?)?);
        }
        out.push('}');
        return Ok(out);
    }
    if let Some(path) = value.getattr_opt("__fspath__")? {
        return Ok(path.call0()?.cast::<PyString>()?.to_str()?.to_owned());
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let items = value.try_iter()?;
        let items: PyResult<Vec<String>> =
            items.map(|item| text(name, &item?, depth + 1)).collect();
        return Ok(items?.join(":"));
    }
    Err(PyTypeError::new_err(format!(
        "{name}: an option is a number, a bool, a str, a path, a dict of options or a list of these, not {}",
        value.get_type().name()?
    )))
}

impl Given {
    /// Reads keyword arguments.
    pub(crate) fn new(options: Option<&Bound<'_, PyDict>>) -> Outcome<Self> {
        let mut given = Given::default();
        for (name, value) in options.into_iter().flatten() {
            let name: String = name.extract()?;
            if value.is_none() {
                continue;
            }
            if let Ok(operator) = value.cast::<MergeOperator>() {
                expect(&name, "merge_operator")?;
                given.merge_operator = Some(operator.clone().unbind());
            } else if let Ok(comparator) = value.cast::<Comparator>() {
                expect(&name, "comparator")?;
                given.comparator = Some(comparator.clone().unbind());
            } else {
                let text = text(&name, &value, 0)?;
                given.add(name, text);
            }
        }
        Ok(given)
    }

    /// Adds an option by its text, which may be the name of an object of this module.
    fn add(&mut self, name: String, text: String) {
        match (&*name, MaxLenPrefix::parse(&text)) {
            ("comparator", _) if text == TypedOrder::NAME => self.is_typed = true,
            ("prefix_extractor", Some(prefix)) => self.prefix = Some(prefix.0),
            _ => self.texts.push((name, text)),
        }
    }

    /// Notes whether there are plug-ins in Python.
    pub(crate) fn note(&self, shared: &Shared) {
        if self.merge_operator.is_some() || self.comparator.is_some() {
            shared.add_plug_in();
        }
    }

    /// Changes options of a database.
    pub(crate) fn change(&self, py: Python<'_>, options: &mut Options) -> Outcome<()> {
        options
            .apply_map(self.pairs(), &ConfigOptions::new())
            .map_err(refused)?;
        self.plug_in(py, options.cf_options_mut());
        Ok(())
    }

    /// Changes options of a column family.
    pub(crate) fn change_family(
        &self,
        py: Python<'_>,
        options: &mut ColumnFamilyOptions,
    ) -> Outcome<()> {
        options
            .apply_map(self.pairs(), &ConfigOptions::new())
            .map_err(refused)?;
        self.plug_in(py, options);
        Ok(())
    }

    fn plug_in(&self, py: Python<'_>, options: &mut ColumnFamilyOptions) {
        if let Some(operator) = &self.merge_operator {
            options.set_merge_operator(operator.get().operator(py));
        }
        if let Some(comparator) = &self.comparator {
            options.set_comparator(comparator.get().comparator(py));
        }
        if self.is_typed {
            options.set_comparator(TypedOrder);
        }
        if let Some(length) = self.prefix {
            options.set_prefix_extractor(MaxLenPrefix(length));
        }
    }

    /// Returns the names and texts for an open database, in which plug-ins cannot be changed.
    pub(crate) fn changes(self) -> Outcome<Vec<(String, String)>> {
        self.named(
            "it is fixed while the database is open: close it and open it with the other one",
        )
    }

    /// Returns the names and texts of options; fails with `reason` if there are objects.
    pub(crate) fn named(self, reason: &str) -> Outcome<Vec<(String, String)>> {
        let objects = [
            ("merge_operator", self.merge_operator.is_some()),
            ("comparator", self.comparator.is_some() || self.is_typed),
            ("prefix_extractor", self.prefix.is_some()),
        ];
        if let Some((name, _)) = objects.iter().find(|(_, is_given)| *is_given) {
            let text = format!("{name}: {reason}");
            return Err(koeldb::Error::invalid_argument(text).into());
        }
        Ok(self.texts)
    }

    fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts.iter().map(|(name, text)| (&**name, &**text))
    }
}

/// Fails if the object of the option `option` is given to another one, `name`.
fn expect(name: &str, option: &str) -> Outcome<()> {
    if name == option {
        return Ok(());
    }
    let text = format!("{name}: such an object is for the option {option} alone");
    Err(PyTypeError::new_err(text).into())
}

/// Returns the failure of options that the engine refuses: a `TypeError` for an unknown name, as
/// for other arguments of functions. The engine's text names the nearest one.
pub(crate) fn refused(failure: impl Into<Failure>) -> Failure {
    let error = match failure.into() {
        Failure::Engine(error) => error,
        failure @ Failure::Python(_) => return failure,
    };
    let text = error.to_string();
    if text.contains("ption not recognized") || text.contains("Unrecognized option") {
        let text = text.replace("`Options::registry`", "`koeldb.options()`");
        return PyTypeError::new_err(text).into();
    }
    error.into()
}

/// Returns the description of all options: name, section, type, default, range, whether it can be
/// changed while the database is open, and documentation.
#[pyfunction]
pub(crate) fn option_table() -> Vec<(
    &'static str,
    &'static str,
    String,
    String,
    &'static str,
    bool,
    String,
)> {
    Options::registry()
        .iter()
        .map(|option| {
            (
                option.name,
                option.section,
                option.kind.clone(),
                option.default.clone(),
                option.range,
                option.mutable,
                option.documentation.clone(),
            )
        })
        .collect()
}

/// Returns the options of a write.
pub(crate) fn write_options(sync: bool, disable_wal: bool) -> WriteOptions {
    let mut options = WriteOptions::new();
    options.set_sync(sync).disable_wal(disable_wal);
    options
}

/// Returns the value of an option; `kind` is what it must be.
fn typed<'a, 'py, T: FromPyObject<'a, 'py>>(
    name: &str,
    value: &'a Bound<'py, PyAny>,
    kind: &str,
) -> PyResult<T> {
    let wrong = |_| PyTypeError::new_err(format!("{name}={value}: it must be {kind}"));
    value.extract().map_err(wrong)
}

/// Returns the options of a read.
pub(crate) fn scan_options(
    snapshot: Option<&Snapshot>,
    options: Option<&Bound<'_, PyDict>>,
) -> Outcome<ReadOptions> {
    let mut out = ReadOptions::new();
    if let Some(snapshot) = snapshot {
        out.set_snapshot(snapshot);
    }
    for (name, value) in options.into_iter().flatten() {
        let name: String = name.extract()?;
        let flag = || typed::<bool>(&name, &value, "a bool");
        match name.as_str() {
            "fill_cache" => out.fill_cache(flag()?),
            "ignore_range_deletions" => out.set_ignore_range_deletions(flag()?),
            "max_skippable_internal_keys" => {
                out.set_max_skippable_internal_keys(typed(&name, &value, "a number, 0 or more")?)
            }
            "pin_data" => out.set_pin_data(flag()?),
            "tailing" => out.set_tailing(flag()?),
            "read_tier" => out.set_read_tier(tier(&typed::<String>(&name, &value, "a str")?)?),
            "verify_checksums" => out.set_verify_checksums(flag()?),
            "async_io" => out.set_async_io(flag()?),
            "readahead_size" => {
                out.set_readahead_size(typed(&name, &value, "a number of bytes, 0 or more")?)
            }
            "total_order_seek" => out.set_total_order_seek(flag()?),
            "prefix_same_as_start" => out.set_prefix_same_as_start(flag()?),
            _ => {
                return Err(PyTypeError::new_err(format!(
                    "unknown option {name} of a read: the options are fill_cache, verify_checksums, async_io, \
                     readahead_size, total_order_seek, prefix_same_as_start, ignore_range_deletions, \
                     max_skippable_internal_keys, pin_data, tailing and read_tier"
                ))
                .into());
            }
        };
    }
    Ok(out)
}

/// Returns the sources of a read by their name in RocksDB.
fn tier(name: &str) -> Outcome<ReadTier> {
    match name {
        "kReadAllTier" => Ok(ReadTier::All),
        "kBlockCacheTier" => Ok(ReadTier::BlockCache),
        "kPersistedTier" => Ok(ReadTier::Persisted),
        "kMemtableTier" => Ok(ReadTier::Memtable),
        _ => Err(PyValueError::new_err(format!(
            "read_tier={name}: there are kReadAllTier, kBlockCacheTier, kPersistedTier and kMemtableTier"
        ))
        .into()),
    }
}

/// Returns the options of a manual compaction.
pub(crate) fn compact_options(options: Option<&Bound<'_, PyDict>>) -> Outcome<CompactRangeOptions> {
    let mut out = CompactRangeOptions::new();
    for (name, value) in options.into_iter().flatten() {
        let name: String = name.extract()?;
        let flag = || typed(&name, &value, "a bool");
        match name.as_str() {
            "exclusive_manual_compaction" => out.set_exclusive_manual_compaction(flag()?),
            "change_level" => out.set_change_level(flag()?),
            "target_level" => {
                out.set_target_level(typed::<Option<u32>>(&name, &value, "a level or None")?)
            }
            "bottommost_level_compaction" => out.set_bottommost_level_compaction(bottommost(
                &typed::<String>(&name, &value, "a str")?,
            )?),
            _ => {
                return Err(PyTypeError::new_err(format!(
                    "unknown option {name} of a compaction: the options are exclusive_manual_compaction, \
                     change_level, target_level and bottommost_level_compaction"
                ))
                .into());
            }
        };
    }
    Ok(out)
}

/// Returns what a compaction does with the last level, by its name in RocksDB.
fn bottommost(name: &str) -> Outcome<BottommostLevelCompaction> {
    match name {
        "kSkip" => Ok(BottommostLevelCompaction::Skip),
        "kIfHaveCompactionFilter" => Ok(BottommostLevelCompaction::IfHaveCompactionFilter),
        "kForce" => Ok(BottommostLevelCompaction::Force),
        "kForceOptimized" => Ok(BottommostLevelCompaction::ForceOptimized),
        _ => Err(PyValueError::new_err(format!(
            "bottommost_level_compaction={name}: there are kSkip, kIfHaveCompactionFilter, kForce and \
             kForceOptimized"
        ))
        .into()),
    }
}

/// Returns the options of an ingestion of tables.
pub(crate) fn ingest_options(
    options: Option<&Bound<'_, PyDict>>,
) -> Outcome<IngestExternalFileOptions> {
    let mut out = IngestExternalFileOptions::new();
    for (name, value) in options.into_iter().flatten() {
        let name: String = name.extract()?;
        let on = typed(&name, &value, "a bool")?;
        match name.as_str() {
            "move_files" => out.set_move_files(on),
            "snapshot_consistency" => out.set_snapshot_consistency(on),
            "allow_global_seqno" => out.set_allow_global_seqno(on),
            "allow_blocking_flush" => out.set_allow_blocking_flush(on),
            "ingest_behind" => out.set_ingest_behind(on),
            "verify_checksums_before_ingest" => out.set_verify_checksums_before_ingest(on),
            _ => {
                return Err(PyTypeError::new_err(format!(
                    "unknown option {name} of an ingestion: the options are move_files, snapshot_consistency, \
                     allow_global_seqno, allow_blocking_flush, ingest_behind and \
                     verify_checksums_before_ingest"
                ))
                .into());
            }
        };
    }
    Ok(out)
}

/// Returns a duration of seconds.
pub(crate) fn seconds(name: &str, seconds: f64) -> Outcome<std::time::Duration> {
    std::time::Duration::try_from_secs_f64(seconds).map_err(|_| {
        let text = format!("{name}={seconds}: it is a number of seconds, 0 or more");
        Failure::Python(PyValueError::new_err(text))
    })
}

/// Returns the bytes or `None`.
pub(crate) fn optional<'py>(py: Python<'py>, value: Option<&[u8]>) -> Option<Bound<'py, PyBytes>> {
    value.map(|value| PyBytes::new(py, value))
}
