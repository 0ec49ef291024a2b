//! Flushes, compactions, files, properties and options of open databases.

use std::fmt::Display;
use std::ops::Bound;
use std::path::Path;

use super::{DBCommon, DBInner, Range};
use crate::methods::{family_forms, flush_methods};
use crate::{
    CStrLike, CompactOptions, Error, IngestExternalFileOptions, ThreadMode, WaitForCompactOptions,
};

/// The total size and the number of the table files of a column family.
#[derive(Clone, Debug)]
pub struct ColumnFamilyMetaData {
    /// The bytes of all tables.
    pub size: u64,
    /// The name of the column family.
    pub name: String,
    /// The number of tables.
    pub file_count: usize,
}

/// A live table file with its level, key range and entry counts (`LiveFileMetaData`).
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

/// Returns a property of a column family as text; `None` if it is unknown or has no value.
pub(crate) fn property(
    family: &koeldb::ColumnFamily,
    name: impl CStrLike,
) -> Result<Option<String>, Error> {
    let unusable = |form: &str, error: &dyn Display| {
        Error::new(format!(
            "Failed to convert property name to {form}: {error}"
        ))
    };
    let name = name.bake().map_err(|error| unusable("CString", &error))?;
    let name = name.to_str().map_err(|error| unusable("string", &error))?;
    Ok(family.property_value(name)?)
}

/// Returns an integer property of a column family; a text property is an error.
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

/// Converts start and end key to the inclusive bounds of a manual compaction (`CompactRange`).
fn closed<S: AsRef<[u8]>, E: AsRef<[u8]>>(
    start: Option<S>,
    end: Option<E>,
) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    /// Converts an optional key to an inclusive bound; `None` is unbounded.
    fn bound<K: AsRef<[u8]>>(key: Option<K>) -> Bound<Vec<u8>> {
        key.map_or(Bound::Unbounded, |key| {
            Bound::Included(key.as_ref().to_vec())
        })
    }
    (bound(start), bound(end))
}

/// Returns the total size and the number of the table files of a column family.
fn metadata(family: &koeldb::ColumnFamily) -> ColumnFamilyMetaData {
    let files = family.live_files();
    ColumnFamilyMetaData {
        size: files.iter().map(|file| file.bytes).sum(),
        name: family.name().to_owned(),
        file_count: files.len(),
    }
}

/// Estimates the bytes of each key range in table files (`GetApproximateSizes`); 0 on an error.
fn sizes(family: &koeldb::ColumnFamily, ranges: &[Range]) -> Vec<u64> {
    let ranges: Vec<_> = ranges
        .iter()
        .map(|range| range.start_key..range.end_key)
        .collect();
    let sizes = family.approximate_sizes(&ranges);
    sizes.unwrap_or_else(|_| vec![0; ranges.len()])
}

/// Changes mutable options of a column family (`SetOptions`).
///
/// NUL bytes and an empty list are errors.
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
    flush_methods!();

    family_forms! { self, family;
        /// Compacts the keys from `start` to `end`. Errors are only in LOG.
        compact_range, compact_range_cf<S: AsRef<[u8]>, E: AsRef<[u8]>>(
            start: Option<S>, end: Option<E>
        ) {{
            let _ = family.compact_range(closed(start, end));
        }}

        /// Compacts the keys from `start` to `end`, with options. Errors are only in LOG.
        compact_range_opt, compact_range_cf_opt<S: AsRef<[u8]>, E: AsRef<[u8]>>(
            start: Option<S>, end: Option<E>, opts: &CompactOptions
        ) {{
            let _ = family.compact_range_opt(closed(start, end), &opts.inner);
        }}

        /// Changes options of the default column family, all or none.
        set_options, set_options_cf(opts: &[(&str, &str)]) -> Result<(), Error> {
            set(family, opts)
        }

        /// Returns a property of the default column family; `None` for unknown names.
        property_value, property_value_cf(name: impl CStrLike) -> Result<Option<String>, Error> {
            property(family, name)
        }

        /// Returns a numeric property of the default column family; a text is an error.
        property_int_value, property_int_value_cf(
            name: impl CStrLike
        ) -> Result<Option<u64>, Error> {
            property_int(family, name)
        }

        /// Estimates the bytes of ranges in tables; 0 if a table cannot be opened.
        get_approximate_sizes, get_approximate_sizes_cf(ranges: &[Range]) -> Vec<u64> {
            sizes(family, ranges)
        }

        /// Adds tables made by a [`SstFileWriter`](crate::SstFileWriter).
        ingest_external_file, ingest_external_file_cf<P: AsRef<Path>>(
            paths: Vec<P>
        ) -> Result<(), Error> {
            Ok(family.ingest_external_file(&paths)?)
        }

        /// Adds tables made by a [`SstFileWriter`](crate::SstFileWriter), with options.
        ingest_external_file_opts, ingest_external_file_cf_opts<P: AsRef<Path>>(
            opts: &IngestExternalFileOptions, paths: Vec<P>
        ) -> Result<(), Error> {
            Ok(family.ingest_external_file_opt(&paths, &opts.inner)?)
        }

        /// Returns the size and number of the tables of the default column family.
        get_column_family_metadata, get_column_family_metadata_cf() -> ColumnFamilyMetaData {
            metadata(family)
        }

        /// Drops the tables of the default column family whose keys are all in `from..=to`.
        ///
        /// Tables on level 0, and those that reach beyond the range, stay; snapshots lose the data
        /// too.
        delete_file_in_range, delete_file_in_range_cf<K: AsRef<[u8]>>(
            from: K, to: K
        ) -> Result<(), Error> {
            Ok(family.delete_files_in_range(closed(Some(from), Some(to)))?)
        }
    }

    /// Waits until no flush or compaction is due or running (`WaitForCompact`).
    pub fn wait_for_compact(&self, opts: &WaitForCompactOptions) -> Result<(), Error> {
        if opts.flush {
            self.db().flush()?;
        }
        Ok(self.db().wait_for_compact(opts.timeout)?)
    }

    /// Makes a secondary instance catch up with its primary (`TryCatchUpWithPrimary`).
    pub fn try_catch_up_with_primary(&self) -> Result<(), Error> {
        self.db().try_catch_up_with_primary()?;
        Ok(())
    }

    /// Returns the live table files of all column families (`GetLiveFilesMetaData`).
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

    /// Flushes entries written without WAL; does not stop background work, which ends at the close.
    ///
    /// LOG has the error of a failed flush.
    pub fn cancel_all_background_work(&self, wait: bool) {
        let _ = (wait, self.db().flush_unlogged());
    }

    /// Returns the database id (`GetDbIdentity`).
    pub fn get_db_identity(&self) -> Result<Vec<u8>, Error> {
        Ok(self.db().identity().as_bytes().to_vec())
    }
}
