//! Flushes, compactions, files, properties and options of open databases.

use std::ops::Bound;
use std::path::Path;

use super::{DBCommon, DBInner, Range, ThreadMode};
use crate::{
    AsColumnFamilyRef, CStrLike, CompactOptions, Error, FlushOptions, IngestExternalFileOptions,
    Options, WaitForCompactOptions,
};

/// A summary of the tables of a column family.
#[derive(Clone, Debug)]
pub struct ColumnFamilyMetaData {
    /// The bytes of all tables.
    pub size: u64,
    /// The name of the column family.
    pub name: String,
    /// The number of tables.
    pub file_count: usize,
}

/// A table of a database.
#[derive(Clone, Debug)]
pub struct LiveFile {
    /// The name of its column family.
    pub column_family_name: String,
    /// The name of the file, with a leading slash.
    pub name: String,
    /// The size in bytes.
    pub size: usize,
    /// The level.
    pub level: i32,
    /// The first key.
    pub start_key: Option<Vec<u8>>,
    /// The last key.
    pub end_key: Option<Vec<u8>>,
    /// The number of entries.
    pub num_entries: u64,
    /// The number of deletions among them.
    pub num_deletions: u64,
}

/// Returns a property as text.
pub(crate) fn property(
    family: &koeldb::ColumnFamily,
    name: impl CStrLike,
) -> Result<Option<String>, Error> {
    let name = name.bake().map_err(|error| {
        Error::new(format!(
            "Failed to convert property name to CString: {error}"
        ))
    })?;
    let name = name.to_str().map_err(|error| {
        Error::new(format!(
            "Failed to convert property name to string: {error}"
        ))
    })?;
    Ok(family.property_value(name)?)
}

/// Returns a property as a number; a property of text is an error.
pub(crate) fn property_int(
    family: &koeldb::ColumnFamily,
    name: impl CStrLike,
) -> Result<Option<u64>, Error> {
    let Some(text) = property(family, name)? else {
        return Ok(None);
    };
    let number = text.parse().map_err(|error| {
        Error::new(format!(
            "Failed to convert property value {text} to int: {error}"
        ))
    })?;
    Ok(Some(number))
}

/// A range of keys, both ends included, as `CompactRange` takes it.
fn closed<S: AsRef<[u8]>, E: AsRef<[u8]>>(
    start: Option<S>,
    end: Option<E>,
) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    fn bound<K: AsRef<[u8]>>(key: Option<K>) -> Bound<Vec<u8>> {
        key.map_or(Bound::Unbounded, |key| {
            Bound::Included(key.as_ref().to_vec())
        })
    }
    (bound(start), bound(end))
}

fn metadata(family: &koeldb::ColumnFamily) -> ColumnFamilyMetaData {
    let files = family.live_files();
    ColumnFamilyMetaData {
        size: files.iter().map(|file| file.bytes).sum(),
        name: family.name().to_owned(),
        file_count: files.len(),
    }
}

fn sizes(family: &koeldb::ColumnFamily, ranges: &[Range]) -> Vec<u64> {
    let ranges: Vec<_> = ranges
        .iter()
        .map(|range| range.start_key..range.end_key)
        .collect();
    let sizes = family.approximate_sizes(&ranges);
    sizes.unwrap_or_else(|_| vec![0; ranges.len()])
}

fn set(family: &koeldb::ColumnFamily, options: &[(&str, &str)]) -> Result<(), Error> {
    for (name, value) in options {
        if name.contains('\0') || value.contains('\0') {
            return Err(Error::new("Invalid option name or value: NUL byte"));
        }
    }
    if options.is_empty() {
        return Err(Error::invalid("empty input"));
    }
    Ok(family.set_options(options.iter().copied())?)
}

impl<T: ThreadMode, D: DBInner> DBCommon<T, D> {
    /// Returns the names of the column families of the database at `path`, which may be open.
    pub fn list_cf<P: AsRef<Path>>(opts: &Options, path: P) -> Result<Vec<String>, Error> {
        Ok(koeldb::Db::list_cf(opts.checked()?, path)?)
    }

    /// Removes the files of the database at `path`, which must not be open.
    pub fn destroy<P: AsRef<Path>>(opts: &Options, path: P) -> Result<(), Error> {
        Ok(koeldb::Db::destroy(opts.checked()?, path)?)
    }

    /// Rebuilds the MANIFEST of the database at `path` from its tables and logs.
    pub fn repair<P: AsRef<Path>>(opts: &Options, path: P) -> Result<(), Error> {
        koeldb::Db::repair(opts.checked()?, path)?;
        Ok(())
    }

    /// Passes the log to the operating system, and to the device if `sync`.
    pub fn flush_wal(&self, sync: bool) -> Result<(), Error> {
        Ok(self.db().flush_wal(sync)?)
    }

    /// Flushes the **default** column family.
    pub fn flush(&self) -> Result<(), Error> {
        self.flush_opt(&FlushOptions::default())
    }

    /// Like `flush`, with options.
    pub fn flush_opt(&self, flushopts: &FlushOptions) -> Result<(), Error> {
        Ok(self.db().default_cf().flush_opt(&flushopts.inner)?)
    }

    /// Flushes a column family.
    pub fn flush_cf(&self, cf: &impl AsColumnFamilyRef) -> Result<(), Error> {
        self.flush_cf_opt(cf, &FlushOptions::default())
    }

    /// Like `flush_cf`, with options.
    pub fn flush_cf_opt(
        &self,
        cf: &impl AsColumnFamilyRef,
        flushopts: &FlushOptions,
    ) -> Result<(), Error> {
        Ok(cf.family().flush_opt(&flushopts.inner)?)
    }

    /// Flushes several column families.
    pub fn flush_cfs_opt(
        &self,
        cfs: &[&impl AsColumnFamilyRef],
        opts: &FlushOptions,
    ) -> Result<(), Error> {
        let families = cfs.iter().map(|cf| cf.family());
        Ok(self.db().flush_cfs(families, &opts.inner)?)
    }

    /// Compacts the keys from `start` to `end`. Errors are only in LOG.
    pub fn compact_range<S: AsRef<[u8]>, E: AsRef<[u8]>>(&self, start: Option<S>, end: Option<E>) {
        self.compact_range_opt(start, end, &CompactOptions::default());
    }

    /// Like `compact_range`, with options.
    pub fn compact_range_opt<S: AsRef<[u8]>, E: AsRef<[u8]>>(
        &self,
        start: Option<S>,
        end: Option<E>,
        opts: &CompactOptions,
    ) {
        let family = self.db().default_cf();
        let _ = family.compact_range_opt(closed(start, end), &opts.inner);
    }

    /// Like `compact_range`, in a column family.
    pub fn compact_range_cf<S: AsRef<[u8]>, E: AsRef<[u8]>>(
        &self,
        cf: &impl AsColumnFamilyRef,
        start: Option<S>,
        end: Option<E>,
    ) {
        self.compact_range_cf_opt(cf, start, end, &CompactOptions::default());
    }

    /// Like `compact_range`, in a column family, with options.
    pub fn compact_range_cf_opt<S: AsRef<[u8]>, E: AsRef<[u8]>>(
        &self,
        cf: &impl AsColumnFamilyRef,
        start: Option<S>,
        end: Option<E>,
        opts: &CompactOptions,
    ) {
        let _ = cf
            .family()
            .compact_range_opt(closed(start, end), &opts.inner);
    }

    /// Waits until no flush or compaction is due or running.
    pub fn wait_for_compact(&self, opts: &WaitForCompactOptions) -> Result<(), Error> {
        if opts.flush {
            self.db().flush()?;
        }
        Ok(self.db().wait_for_compact(opts.timeout)?)
    }

    /// Changes options of the default column family, all or none.
    pub fn set_options(&self, opts: &[(&str, &str)]) -> Result<(), Error> {
        set(self.db().default_cf(), opts)
    }

    /// Changes options of a column family, all or none.
    pub fn set_options_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
        opts: &[(&str, &str)],
    ) -> Result<(), Error> {
        set(cf.family(), opts)
    }

    /// Returns a property of the default column family; `None` for unknown names.
    pub fn property_value(&self, name: impl CStrLike) -> Result<Option<String>, Error> {
        property(self.db().default_cf(), name)
    }

    /// Returns a property of a column family; `None` for unknown names.
    pub fn property_value_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
        name: impl CStrLike,
    ) -> Result<Option<String>, Error> {
        property(cf.family(), name)
    }

    /// Returns a numeric property of the default column family; a text is an error.
    pub fn property_int_value(&self, name: impl CStrLike) -> Result<Option<u64>, Error> {
        property_int(self.db().default_cf(), name)
    }

    /// Returns a numeric property of a column family; a text is an error.
    pub fn property_int_value_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
        name: impl CStrLike,
    ) -> Result<Option<u64>, Error> {
        property_int(cf.family(), name)
    }

    /// Estimates the bytes of ranges in tables; 0 if a table cannot be opened.
    pub fn get_approximate_sizes(&self, ranges: &[Range]) -> Vec<u64> {
        sizes(self.db().default_cf(), ranges)
    }

    /// Like `get_approximate_sizes`, in a column family.
    pub fn get_approximate_sizes_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
        ranges: &[Range],
    ) -> Vec<u64> {
        sizes(cf.family(), ranges)
    }

    /// Moves the view of a secondary to the present state of its primary.
    pub fn try_catch_up_with_primary(&self) -> Result<(), Error> {
        self.db().try_catch_up_with_primary()?;
        Ok(())
    }

    /// Adds tables made by a [`SstFileWriter`](crate::SstFileWriter).
    pub fn ingest_external_file<P: AsRef<Path>>(&self, paths: Vec<P>) -> Result<(), Error> {
        self.ingest_external_file_opts(&IngestExternalFileOptions::default(), paths)
    }

    /// Like `ingest_external_file`, with options.
    pub fn ingest_external_file_opts<P: AsRef<Path>>(
        &self,
        opts: &IngestExternalFileOptions,
        paths: Vec<P>,
    ) -> Result<(), Error> {
        let family = self.db().default_cf();
        Ok(family.ingest_external_file_opt(&paths, opts.checked()?)?)
    }

    /// Like `ingest_external_file`, into a column family.
    pub fn ingest_external_file_cf<P: AsRef<Path>>(
        &self,
        cf: &impl AsColumnFamilyRef,
        paths: Vec<P>,
    ) -> Result<(), Error> {
        self.ingest_external_file_cf_opts(cf, &IngestExternalFileOptions::default(), paths)
    }

    /// Like `ingest_external_file`, into a column family, with options.
    pub fn ingest_external_file_cf_opts<P: AsRef<Path>>(
        &self,
        cf: &impl AsColumnFamilyRef,
        opts: &IngestExternalFileOptions,
        paths: Vec<P>,
    ) -> Result<(), Error> {
        Ok(cf
            .family()
            .ingest_external_file_opt(&paths, opts.checked()?)?)
    }

    /// Returns the size and number of the tables of the default column family.
    pub fn get_column_family_metadata(&self) -> ColumnFamilyMetaData {
        metadata(self.db().default_cf())
    }

    /// Returns the size and number of the tables of a column family.
    pub fn get_column_family_metadata_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
    ) -> ColumnFamilyMetaData {
        metadata(cf.family())
    }

    /// Returns the tables of all column families.
    pub fn live_files(&self) -> Result<Vec<LiveFile>, Error> {
        let convert = |file: koeldb::LiveFile| LiveFile {
            column_family_name: file.column_family,
            name: file.name,
            size: usize::try_from(file.bytes).unwrap_or(usize::MAX),
            level: i32::try_from(file.level).unwrap_or(i32::MAX),
            start_key: Some(file.smallest_key),
            end_key: Some(file.largest_key),
            num_entries: file.entries,
            num_deletions: file.deletions,
        };
        Ok(self.db().live_files().into_iter().map(convert).collect())
    }

    /// Drops the tables of the default column family whose keys are all in `from..=to`.
    ///
    /// Tables on level 0, and those that reach beyond the range, stay; snapshots lose the data too.
    pub fn delete_file_in_range<K: AsRef<[u8]>>(&self, from: K, to: K) -> Result<(), Error> {
        let family = self.db().default_cf();
        Ok(family.delete_files_in_range(closed(Some(from), Some(to)))?)
    }

    /// Like `delete_file_in_range`, in a column family.
    pub fn delete_file_in_range_cf<K: AsRef<[u8]>>(
        &self,
        cf: &impl AsColumnFamilyRef,
        from: K,
        to: K,
    ) -> Result<(), Error> {
        Ok(cf
            .family()
            .delete_files_in_range(closed(Some(from), Some(to)))?)
    }

    /// Flushes what was written without the log; background work ends when the database is closed.
    ///
    /// LOG has the error of a failed flush.
    pub fn cancel_all_background_work(&self, wait: bool) {
        let _ = (wait, self.db().flush_unlogged());
    }

    /// Returns the identity of the database.
    pub fn get_db_identity(&self) -> Result<Vec<u8>, Error> {
        Ok(self.db().identity().as_bytes().to_vec())
    }
}
