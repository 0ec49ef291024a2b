//! Column families in the tree: their records in the MANIFEST, and their state in memory.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use koeldb_base::file_name::FileNumber;
use koeldb_base::{Error, Result};
use koeldb_lsm::version::{ColumnFamilySpec, ColumnFamilyVersions, VersionSet};
use koeldb_lsm::{FileMeta, TableOpener};

use crate::options::{ColumnFamilyOptions, DbOptions};
use crate::state::column_family_data::ColumnFamilyData;
use crate::state::table_files::TableFiles;
use crate::state::ttl::Ttl;

/// Returns the specification of a column family for the version set: name, comparator and levels.
pub(crate) fn descriptor(
    name: &str,
    options: &ColumnFamilyOptions,
    db: &DbOptions,
) -> ColumnFamilySpec {
    ColumnFamilySpec {
        name: name.to_owned(),
        order: options.comparator.clone(),
        level_count: usize::try_from(options.num_levels).unwrap_or(7),
        ingests_behind: options.cf_allow_ingest_behind || db.allow_ingest_behind,
        persists_timestamps: options.persist_user_defined_timestamps,
    }
}

/// Creates the in-memory state (`ColumnFamilyData`) of a column family from its versions.
pub(crate) fn new_family(
    family: &ColumnFamilyVersions,
    options: ColumnFamilyOptions,
    table_files: &TableFiles,
    log: FileNumber,
) -> ColumnFamilyData {
    let ttl = table_files.ttl.as_ref().map(|ttl| ttl.of(family.name()));
    family_with_ttl(family, options, table_files, log, ttl)
}

/// Creates the in-memory state of a column family, with this time to live in a TTL database.
fn family_with_ttl(
    family: &ColumnFamilyVersions,
    mut options: ColumnFamilyOptions,
    table_files: &TableFiles,
    log: FileNumber,
    ttl: Option<Duration>,
) -> ColumnFamilyData {
    let tables = table_files.table_opener(&family.current().order, &options);
    let ttl = ttl.map(|ttl| Ttl::new(ttl, &table_files.clock, &mut options));
    let memtables = table_files.memtables.clone();
    ColumnFamilyData::new(family, options, tables, memtables, log, ttl)
}

/// The name, options and time to live of a column family to create.
pub(crate) struct NewFamily {
    pub(crate) name: String,
    pub(crate) options: ColumnFamilyOptions,
    pub(crate) ttl: Option<Duration>,
}

/// Logs new column families to the MANIFEST, and creates their in-memory state.
pub(crate) fn add_families(
    versions: &mut VersionSet,
    table_files: &TableFiles,
    log: FileNumber,
    new: Vec<NewFamily>,
) -> Result<Vec<Arc<ColumnFamilyData>>> {
    let specs: Vec<ColumnFamilySpec> = new
        .iter()
        .map(|new| descriptor(&new.name, &new.options, &table_files.options()))
        .collect();
    let ids = versions.add_families(&specs, log)?;
    let added = ids.into_iter().zip(new).map(|(id, new)| {
        let family = versions.family(id).ok_or_else(|| {
            Error::corruption(format!(
                "column family {id} was dropped during its creation"
            ))
        })?;
        let family = family_with_ttl(family, new.options, table_files, log, new.ttl);
        Ok(Arc::new(family))
    });
    added.collect()
}

/// A table to open, with the opener of its column family and its level.
pub(crate) type TableToOpen = (Arc<TableOpener>, usize, Arc<FileMeta>);

/// Opens tables in parallel, in at most `threads` threads (`max_file_opening_threads`).
pub(crate) fn open_tables(tables: &[TableToOpen], threads: usize) -> Result<()> {
    let share = tables.len().div_ceil(threads.max(1)).max(16);
    let open = |share: &[TableToOpen]| -> Result<()> {
        share
            .iter()
            .try_for_each(|(tables, level, file)| tables.reader(file, *level).map(|_| ()))
    };
    // The calling thread opens a share too: few tables need no other thread.
    let (own, others) = tables.split_at(share.min(tables.len()));
    std::thread::scope(|scope| {
        let opening: Vec<_> = others
            .chunks(share)
            .map(|share| {
                let open = move || open(share);
                let started = std::thread::Builder::new().spawn_scoped(scope, open);
                // Without a new thread, this thread opens them.
                started.map_err(|_| open())
            })
            .collect();
        let panicked = |_| Err(Error::corruption("opening a table panicked"));
        catch_unwind(AssertUnwindSafe(|| open(own))).unwrap_or_else(panicked)?;
        opening.into_iter().try_for_each(|opening| match opening {
            Ok(thread) => thread.join().unwrap_or_else(panicked),
            Err(opened) => opened,
        })
    })
}
