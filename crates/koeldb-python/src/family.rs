//! The class `Family`: a column family as a mapping of bytes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;

use koeldb::{ColumnFamily, ErrorKind, PinnedSlices, ReadOptions, WriteBatch};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pyclass::CompareOp;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};

use crate::arguments::{Range, bytes, owned, stable};
use crate::awaitable::Awaitable;
use crate::calls::{detached, detached_value, outside};
use crate::cursor::{Cursor, pairs};
use crate::entries::{Items, Keys, Scan, Values, compare_mappings};
use crate::failure::{Failure, Outcome, missing};
use crate::process::Held;
use crate::reads::{NEWEST, Reads};
use crate::settings::{
    Given, compact_options, ingest_options, optional, refused, scan_options, write_options,
};
use crate::shared::Shared;
use crate::tables::columns_of;
use crate::view::Memory;

/// A column family: a sorted mapping from bytes to bytes, on disk.
///
/// Keys and values are `bytes` or other contiguous buffers; results are `bytes`.
#[pyclass(module = "koeldb", subclass, frozen)]
pub(crate) struct Family {
    family: Held<ColumnFamily>,
    shared: Shared,
}

impl Family {
    pub(crate) fn new(family: ColumnFamily, shared: Shared) -> Self {
        Family {
            family: Held::new(family),
            shared,
        }
    }

    /// Returns the engine's column family.
    pub(crate) fn handle(&self) -> Outcome<&ColumnFamily> {
        self.family.get()
    }

    /// Returns the engine's column family, if it belongs to the database with this shared state.
    pub(crate) fn handle_of(&self, shared: &Shared) -> Outcome<&ColumnFamily> {
        if !self.shared.is(shared) {
            let text = "the column family belongs to another database";
            return Err(koeldb::Error::invalid_argument(text).into());
        }
        self.handle()
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Reads memory alone, with the GIL. Returns `None` if the answer needs I/O, or a plug-in in
    /// Python.
    fn in_memory<R>(
        &self,
        reads: &Reads,
        read: impl FnOnce(&ColumnFamily, &ReadOptions) -> koeldb::Result<R>,
    ) -> Outcome<Option<R>> {
        if self.shared.has_plug_ins() {
            return Ok(None);
        }
        match read(self.handle()?, &reads.in_memory) {
            Err(error) if error.kind() == ErrorKind::Incomplete => Ok(None),
            found => Ok(Some(found?)),
        }
    }

    /// Returns the value of a key.
    pub(crate) fn value<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        reads: &Reads,
    ) -> Outcome<Option<Bound<'py, PyBytes>>> {
        let (family, key) = (self.handle()?, stable(key)?);
        let found = self.in_memory(reads, |family, options| {
            family.get_with(&key, options, |value| PyBytes::new(py, value))
        })?;
        if let Some(found) = found {
            return Ok(found);
        }
        let found = detached(py, || family.get_opt(&key, &reads.anywhere))?;
        Ok(optional(py, found.as_deref()))
    }

    /// Whether a key exists.
    pub(crate) fn contains(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        reads: &Reads,
    ) -> Outcome<bool> {
        let (family, key) = (self.handle()?, stable(key)?);
        match self.in_memory(reads, |family, options| {
            family.contains_key_opt(&key, options)
        })? {
            Some(found) => Ok(found),
            None => detached(py, || family.contains_key_opt(&key, &reads.anywhere)),
        }
    }

    pub(crate) fn scan(
        &self,
        snapshot: Option<&koeldb::Snapshot>,
        range: Outcome<Range>,
        reverse: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> Outcome<Scan> {
        let options = scan_options(snapshot, options)?;
        Ok(Scan::new(self.handle()?, options, range?, reverse))
    }

    /// Returns a position of the range, or of the snapshot.
    pub(crate) fn position(
        &self,
        py: Python<'_>,
        snapshot: Option<&koeldb::Snapshot>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> Outcome<Cursor> {
        let options = Held::new(scan_options(snapshot, options)?);
        let (family, range) = (self.handle()?, Range::new(start, stop, None)?);
        let options = options.get()?;
        let cursor = detached_value(py, || {
            let mut cursor = family.cursor_opt(options);
            cursor.set_range(range);
            Held::new(cursor)
        })?;
        Ok(Cursor::new(cursor))
    }

    fn everything(&self, reverse: bool) -> Outcome<Scan> {
        self.scan(None, Range::new(None, None, None), reverse, None)
    }

    /// Removes a key and returns its value.
    fn take<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> Outcome<Option<Bound<'py, PyBytes>>> {
        let (family, key) = (self.handle()?, stable(key)?);
        let with = || family.fetch_update(&key, |_| None);
        let without = || {
            let old = family.get(&key)?;
            if old.is_some() {
                family.delete(&key)?;
            }
            Ok(old)
        };
        let old = detached(py, || self.shared.update(with, without))?;
        Ok(optional(py, old.as_deref()))
    }

    /// Commits a batch without the GIL.
    fn commit(
        &self,
        py: Python<'_>,
        batch: &WriteBatch,
        sync: bool,
        disable_wal: bool,
    ) -> Outcome<()> {
        let db = self.handle()?.db();
        let options = write_options(sync, disable_wal);
        detached(py, || db.write_opt(batch, &options))
    }
}

/// Returns the two items of a pair, which is any iterable of two, as for `dict.update`.
fn both<'py>(pair: &Bound<'py, PyAny>) -> Outcome<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    if let Ok(pair) = pair.extract() {
        return Ok(pair);
    }
    let items = pair.try_iter()?.collect::<PyResult<Vec<_>>>()?;
    let count = items.len();
    let [key, value] = <[_; 2]>::try_from(items).map_err(|_| {
        PyValueError::new_err(format!("a pair is a key and a value, not {count} items"))
    })?;
    Ok((key, value))
}

/// Reads the values of the keys of an iterable.
pub(crate) fn multi_get(
    py: Python<'_>,
    family: &Family,
    keys: &Bound<'_, PyAny>,
    options: &ReadOptions,
) -> Outcome<PinnedSlices> {
    let keys: Vec<Bound<'_, PyAny>> = keys.try_iter()?.collect::<PyResult<_>>()?;
    let keys: Vec<Cow<'_, [u8]>> = keys.iter().map(stable).collect::<Outcome<_>>()?;
    let family = family.handle()?;
    detached_value(py, || family.multi_get_opt(&keys, options))
}

/// Returns the values of the keys of an iterable as a list.
pub(crate) fn answers<'py>(
    py: Python<'py>,
    family: &Family,
    keys: &Bound<'py, PyAny>,
    options: &ReadOptions,
) -> Outcome<Bound<'py, PyList>> {
    let found = multi_get(py, family, keys, options)?;
    listed(py, &found)
}

/// Returns the answers of a batch of reads as a list.
pub(crate) fn listed<'py>(py: Python<'py>, found: &PinnedSlices) -> Outcome<Bound<'py, PyList>> {
    let values: Vec<Option<Bound<'py, PyBytes>>> = found
        .iter()
        .map(|value| value.map(|value| optional(py, value)))
        .collect::<koeldb::Result<_>>()?;
    Ok(PyList::new(py, values)?)
}

#[pymethods]
impl Family {
    /// The name of the column family.
    #[getter]
    fn name(&self) -> Outcome<String> {
        Ok(self.handle()?.name().to_owned())
    }

    /// Returns the value of a key, or `default` if the key does not exist. `options` are those of
    /// `items`.
    #[pyo3(signature = (key, default = None, **options))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> Outcome<Option<Bound<'py, PyAny>>> {
        let found = match options {
            None => self.value(py, key, &NEWEST)?,
            Some(_) => {
                let reads = Reads::new(scan_options(None, options)?);
                self.value(py, key, &reads)?
            }
        };
        Ok(found.map(Bound::into_any).or(default))
    }

    /// Returns the columns of a key as pairs of name and value, or `None`. Those of a plain value
    /// are one of the empty name.
    #[pyo3(signature = (key, **options))]
    fn get_entity<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> Outcome<Option<Bound<'py, PyList>>> {
        let (family, key) = (self.handle()?, stable(key)?);
        let options = scan_options(None, options)?;
        let found = detached(py, || family.get_entity_opt(&key, &options))?;
        found.map(|columns| pairs(py, &columns)).transpose()
    }

    /// Whether a key may have a value, without reading files: `False` is certain.
    fn key_may_exist(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> Outcome<bool> {
        let (family, key) = (self.handle()?, stable(key)?);
        detached(py, || match family.get_opt(&key, &NEWEST.in_memory) {
            Ok(found) => Ok(found.is_some()),
            Err(error) if error.kind() == ErrorKind::ShutdownInProgress => Err(error),
            // Its value is in a file, or cannot be read.
            Err(_) => Ok(true),
        })
    }

    /// Returns a position, which moves in both directions between `start` and `stop`.
    #[pyo3(signature = (start = None, stop = None, **options))]
    fn cursor(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> Outcome<Cursor> {
        self.position(py, None, start, stop, options)
    }

    /// Returns the value of a key without a copy, as a read-only `memoryview`; `None` if the key
    /// does not exist.
    ///
    /// The view pins a block of the cache until it is released.
    fn get_view<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> Outcome<Option<Bound<'py, PyAny>>> {
        let (family, key) = (self.handle()?, stable(key)?);
        let found =
            match self.in_memory(&NEWEST, |family, options| family.get_opt(&key, options))? {
                Some(found) => found,
                None => detached(py, || family.get(&key))?,
            };
        let Some(value) = found else {
            return Ok(None);
        };
        let pinned = Bound::new(py, Memory::pinned(value))?;
        Ok(Some(
            pyo3::types::PyMemoryView::from(pinned.as_any())?.into_any(),
        ))
    }

    /// Returns the values of keys, in the order of the keys; `None` for those that do not exist.
    ///
    /// Blocks that are not in memory are read concurrently. `options` are those of `items`.
    #[pyo3(signature = (keys, **options))]
    fn multi_get<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> Outcome<Bound<'py, PyList>> {
        answers(py, self, keys, &scan_options(None, options)?)
    }

    /// Returns an awaitable of asyncio for the value of a key, or `None`; see `get`.
    fn aget(&self, key: &Bound<'_, PyAny>) -> Outcome<Awaitable> {
        let (family, key) = (self.handle()?.clone(), owned(key)?);
        Ok(Awaitable::new(async move {
            let value = family.get_async(&key).await?;
            Ok(Box::new(move |py: Python<'_>| {
                Ok(optional(py, value.as_deref())
                    .map_or_else(|| py.None(), |value| value.into_any().unbind()))
            }) as _)
        }))
    }

    /// Returns an awaitable of asyncio for the values of keys; see `multi_get`.
    fn amulti_get(&self, keys: &Bound<'_, PyAny>) -> Outcome<Awaitable> {
        let family = self.handle()?.clone();
        let keys = keys
            .try_iter()?
            .map(|key| owned(&key?))
            .collect::<Outcome<Vec<Vec<u8>>>>()?;
        Ok(Awaitable::new(async move {
            let found = family.multi_get_async(&keys).await;
            Ok(Box::new(move |py: Python<'_>| Ok(listed(py, &found)?.into_any().unbind())) as _)
        }))
    }

    /// Sets the columns of a key, pairs of name and value or a mapping; see `put`.
    ///
    /// `get` returns the value of the column whose name is empty, or `b""`.
    #[pyo3(signature = (key, columns, *, sync = false, disable_wal = false))]
    fn put_entity(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        columns: &Bound<'_, PyAny>,
        sync: bool,
        disable_wal: bool,
    ) -> Outcome<()> {
        let (key, columns) = (stable(key)?, columns_of(columns)?);
        let (family, options) = (self.handle()?, write_options(sync, disable_wal));
        detached(py, || family.put_entity_opt(&key, &columns, &options))
    }

    /// Sets the value of a key.
    ///
    /// With `sync` the write survives a power cut. With `disable_wal` it is not logged: a crash of
    /// the process loses it until the next flush. Both have this meaning in all writes.
    #[pyo3(signature = (key, value, *, sync = false, disable_wal = false))]
    fn put(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        sync: bool,
        disable_wal: bool,
    ) -> Outcome<()> {
        let mut batch = WriteBatch::new();
        let (key, value) = (bytes(key)?, bytes(value)?);
        batch.put_cf(self.handle()?, key.as_ref(), value.as_ref());
        self.commit(py, &batch, sync, disable_wal)
    }

    /// Removes a key, which need not exist.
    #[pyo3(signature = (key, *, sync = false, disable_wal = false))]
    fn delete(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        sync: bool,
        disable_wal: bool,
    ) -> Outcome<()> {
        let mut batch = WriteBatch::new();
        batch.delete_cf(self.handle()?, bytes(key)?);
        self.commit(py, &batch, sync, disable_wal)
    }

    /// Records an operand of the merge operator for a key; reads apply it.
    ///
    /// Reads of the key raise `NotSupported` if the column family has no `merge_operator`.
    #[pyo3(signature = (key, operand, *, sync = false, disable_wal = false))]
    fn merge(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        operand: &Bound<'_, PyAny>,
        sync: bool,
        disable_wal: bool,
    ) -> Outcome<()> {
        let mut batch = WriteBatch::new();
        batch.merge_cf(self.handle()?, bytes(key)?, bytes(operand)?);
        self.commit(py, &batch, sync, disable_wal)
    }

    /// Removes all keys from `start` to `stop`, which is excluded.
    #[pyo3(signature = (start, stop, *, sync = false, disable_wal = false))]
    fn delete_range(
        &self,
        py: Python<'_>,
        start: &Bound<'_, PyAny>,
        stop: &Bound<'_, PyAny>,
        sync: bool,
        disable_wal: bool,
    ) -> Outcome<()> {
        let mut batch = WriteBatch::new();
        batch.delete_range_cf(self.handle()?, bytes(start)?, bytes(stop)?);
        self.commit(py, &batch, sync, disable_wal)
    }

    /// Sets the values of a mapping, or of an iterable of pairs of key and value, in one batch: all
    /// or none.
    #[pyo3(signature = (pairs, *, sync = false, disable_wal = false))]
    fn update(
        &self,
        py: Python<'_>,
        pairs: &Bound<'_, PyAny>,
        sync: bool,
        disable_wal: bool,
    ) -> Outcome<()> {
        let family = self.handle()?;
        let mut batch = WriteBatch::new();
        let mut put = |key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>| -> Outcome<()> {
            let (key, value) = (bytes(key)?, bytes(value)?);
            batch.put_cf(family, key.as_ref(), value.as_ref());
            Ok(())
        };
        if let Some(items) = pairs.getattr_opt("items")? {
            for pair in items.call0()?.try_iter()? {
                let (key, value) = both(&pair?)?;
                put(&key, &value)?;
            }
        } else if let Some(keys) = pairs.getattr_opt("keys")? {
            for key in keys.call0()?.try_iter()? {
                let key = key?;
                put(&key, &pairs.get_item(&key)?)?;
            }
        } else {
            for pair in pairs.try_iter()? {
                let (key, value) = both(&pair?)?;
                put(&key, &value)?;
            }
        }
        self.commit(py, &batch, sync, disable_wal)
    }

    /// Returns the value of a key; sets it to `default` if the key does not exist. No other write
    /// of the key takes effect in between.
    fn setdefault<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: &Bound<'py, PyAny>,
    ) -> Outcome<Bound<'py, PyAny>> {
        if let Some(value) = self.value(py, key, &NEWEST)? {
            return Ok(value.into_any());
        }
        let (family, key, new) = (self.handle()?, stable(key)?, stable(default)?);
        let kept = |old: Option<&[u8]>| Some(old.unwrap_or(&new).to_vec());
        let with = || family.fetch_update(&key, kept);
        let without = || {
            let old = family.get(&key)?;
            if old.is_none() {
                family.put(&key, &new)?;
            }
            Ok(old)
        };
        let old = detached(py, || self.shared.update(with, without))?;
        Ok(match optional(py, old.as_deref()) {
            Some(old) => old.into_any(),
            None => default.clone(),
        })
    }

    /// Removes a key and returns its value. No other call gets the same value.
    ///
    /// If the key does not exist, returns `default`, or raises `KeyError` without one.
    #[pyo3(signature = (key, *default))]
    fn pop<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: &Bound<'py, PyTuple>,
    ) -> Outcome<Bound<'py, PyAny>> {
        if default.len() > 1 {
            let text = "pop takes a key and at most one default";
            return Err(PyTypeError::new_err(text).into());
        }
        match self.take(py, key)? {
            Some(value) => Ok(value.into_any()),
            None => default.get_item(0).map_err(|_| missing(key)),
        }
    }

    /// Removes the first key, and returns it and its value. No other call gets the same entry.
    ///
    /// Raises `KeyError` if there are no keys.
    fn popitem<'py>(&self, py: Python<'py>) -> Outcome<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        let family = self.handle()?;
        let without = || {
            let first = family.first_key_value()?;
            if let Some((key, _)) = &first {
                family.delete(key)?;
            }
            Ok(first)
        };
        let first = detached(py, || self.shared.update(|| family.pop_first(), without))?;
        let Some((key, value)) = first else {
            return Err(pyo3::exceptions::PyKeyError::new_err("the column family is empty").into());
        };
        Ok((PyBytes::new(py, &key), PyBytes::new(py, &value)))
    }

    /// Removes all keys: as one range, or with `locks` of the database, which refuses ranges, a
    /// thousand keys at a time.
    fn clear(&self, py: Python<'_>) -> Outcome<()> {
        let everything = self.everything(false)?;
        let mut ends = Vec::new();
        for reverse in [false, true] {
            let mut reader = everything.reader(py, reverse, false)?;
            let reader = reader.get_mut()?;
            detached(py, || reader.visit(1, |key, _| ends.push(key.to_vec())))?;
        }
        if let [first, last] = &ends[..] {
            let mut batch = WriteBatch::new();
            let family = self.handle()?;
            batch
                .delete_range_cf(family, first, last)
                .delete_cf(family, last);
            match self.commit(py, &batch, false, false) {
                Err(Failure::Engine(error)) if error.kind() == ErrorKind::NotSupported => {}
                done => return done,
            }
            let mut reader = everything.reader(py, false, false)?;
            let reader = reader.get_mut()?;
            let mut has_more = true;
            while has_more {
                batch.clear();
                has_more = detached(py, || {
                    reader.visit(1000, |key, _| {
                        batch.delete_cf(family, key);
                    })
                })?;
                self.commit(py, &batch, false, false)?;
            }
        }
        Ok(())
    }

    /// Returns a view of the pairs of key and value in a range.
    ///
    /// The range is that from `start` to `stop`, which is excluded, or that of the keys with
    /// `prefix`; without these it has all keys. `reverse` iterates from the last key to the first.
    /// Each iteration reads a snapshot of the moment at which it begins.
    ///
    /// `options` are those of RocksDB's reads: `fill_cache`, `async_io`, `verify_checksums`,
    /// `total_order_seek` and `prefix_same_as_start` are bools, `readahead_size` is in bytes.
    #[pyo3(signature = (start = None, stop = None, *, prefix = None, reverse = false, **options))]
    fn items(
        &self,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
        reverse: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> Outcome<Items> {
        self.scan(None, Range::new(start, stop, prefix), reverse, options)
            .map(Items)
    }

    /// Returns a view of the keys in a range; see `items`.
    #[pyo3(signature = (start = None, stop = None, *, prefix = None, reverse = false, **options))]
    fn keys(
        &self,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
        reverse: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> Outcome<Keys> {
        self.scan(None, Range::new(start, stop, prefix), reverse, options)
            .map(Keys)
    }

    /// Returns a view of the values in a range; see `items`.
    #[pyo3(signature = (start = None, stop = None, *, prefix = None, reverse = false, **options))]
    fn values(
        &self,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
        reverse: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> Outcome<Values> {
        self.scan(None, Range::new(start, stop, prefix), reverse, options)
            .map(Values)
    }

    /// Returns the text of a property, such as `rocksdb.stats`; `None` if no property has the name.
    fn property(&self, py: Python<'_>, name: &str) -> Outcome<Option<String>> {
        let family = self.handle()?;
        detached(py, || family.property_value(name))
    }

    /// Returns the number of a property, such as `rocksdb.estimate-num-keys`; `None` if no property
    /// that is a number has the name.
    fn int_property(&self, py: Python<'_>, name: &str) -> Outcome<Option<u64>> {
        let family = self.handle()?;
        detached(py, || family.property_int_value(name))
    }

    /// Returns the map of a property, such as `rocksdb.cfstats`; `None` if no property that is a
    /// map has the name.
    fn property_map(
        &self,
        py: Python<'_>,
        name: &str,
    ) -> Outcome<Option<BTreeMap<String, String>>> {
        let family = self.handle()?;
        detached(py, || family.property_map(name))
    }

    /// Changes options of the column family while the database is open, all or none.
    ///
    /// `koeldb.options()` says which are mutable; others raise `InvalidArgument`.
    #[pyo3(signature = (**options))]
    fn set_options(&self, py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> Outcome<()> {
        let given = Given::new(options)?;
        let (family, texts) = (self.handle()?, given.changes()?);
        detached(py, || family.set_options(texts)).map_err(refused)
    }

    /// Writes the memtables to table files, and waits for it.
    fn flush(&self, py: Python<'_>) -> Outcome<()> {
        let family = self.handle()?;
        outside("flush")?;
        detached(py, || family.flush())
    }

    /// Compacts the keys from `start` to `stop`, which is excluded, or all, and waits for it.
    ///
    /// `options` are RocksDB's: `change_level`, `target_level`, `exclusive_manual_compaction` and
    /// `bottommost_level_compaction`.
    #[pyo3(signature = (start = None, stop = None, **options))]
    fn compact(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> Outcome<()> {
        outside("compact")?;
        let (family, range) = (self.handle()?, Range::new(start, stop, None)?);
        let options = compact_options(options)?;
        detached(py, || family.compact_range_opt(range, &options))
    }

    /// Adds tables that were built outside, all or none (`ingest_external_file`).
    ///
    /// `options` are RocksDB's, such as `move_files` and `allow_global_seqno`.
    #[pyo3(signature = (files, **options))]
    fn ingest(
        &self,
        py: Python<'_>,
        files: Vec<PathBuf>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> Outcome<()> {
        let (family, options) = (self.handle()?, ingest_options(options)?);
        outside("ingest")?;
        detached(py, || family.ingest_external_file_opt(&files, &options))
    }

    /// Returns the tables: dictionaries of `name`, `family`, `level`, `size` in bytes, the first
    /// and last key (`start_key`, `end_key`), and `num_entries` and `num_deletions`.
    fn live_files<'py>(&self, py: Python<'py>) -> Outcome<Bound<'py, PyList>> {
        let family = self.handle()?;
        let list = PyList::empty(py);
        for file in detached_value(py, || family.live_files())? {
            let entry = PyDict::new(py);
            entry.set_item("name", file.name)?;
            entry.set_item("family", file.column_family)?;
            entry.set_item("level", file.level)?;
            entry.set_item("size", file.bytes)?;
            entry.set_item("start_key", PyBytes::new(py, &file.smallest_key))?;
            entry.set_item("end_key", PyBytes::new(py, &file.largest_key))?;
            entry.set_item("num_entries", file.entries)?;
            entry.set_item("num_deletions", file.deletions)?;
            list.append(entry)?;
        }
        Ok(list)
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> Outcome<Bound<'py, PyBytes>> {
        let found = self.value(py, key, &NEWEST)?;
        found.ok_or_else(|| missing(key))
    }

    fn __setitem__(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> Outcome<()> {
        self.put(py, key, value, false, false)
    }

    fn __delitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> Outcome<()> {
        self.take(py, key)?.map(drop).ok_or_else(|| missing(key))
    }

    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> Outcome<bool> {
        self.contains(py, key, &NEWEST)
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> Outcome<Bound<'py, PyAny>> {
        let keys = Bound::new(py, Keys(self.everything(false)?))?;
        Ok(keys.try_iter()?.into_any())
    }

    fn __reversed__<'py>(&self, py: Python<'py>) -> Outcome<Bound<'py, PyAny>> {
        let keys = Bound::new(py, Keys(self.everything(true)?))?;
        Ok(keys.try_iter()?.into_any())
    }

    /// Compares the entries with those of another mapping, by a scan of all.
    fn __richcmp__(
        slf: &Bound<'_, Self>,
        other: &Bound<'_, PyAny>,
        operation: CompareOp,
    ) -> Outcome<Py<PyAny>> {
        compare_mappings(slf, || slf.get().everything(false), other, operation)
    }

    /// The number of keys, by a scan of all; `int_property("rocksdb.estimate-num-keys")` is an
    /// estimate.
    fn __len__(&self, py: Python<'_>) -> Outcome<usize> {
        self.everything(false)?.count(py)
    }

    /// Whether there is a key, without a scan of all.
    fn __bool__(&self, py: Python<'_>) -> Outcome<bool> {
        let mut reader = self.everything(false)?.reader(py, false, false)?;
        let reader = reader.get_mut()?;
        detached(py, || reader.visit(1, |_, _| {}))
    }

    fn __repr__(&self) -> Outcome<String> {
        Ok(format!("<koeldb.Family {:?}>", self.handle()?.name()))
    }
}
