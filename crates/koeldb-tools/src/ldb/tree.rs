//! The tree of a column family, read from the files of a database that is not opened.
//!
//! Nothing is written and no lock is taken, so the database may be damaged, in use, or RocksDB's.

use std::path::Path;
use std::sync::Arc;

use koeldb::ColumnFamilyOptions;
use koeldb_base::KeyOrder;
use koeldb_fs::OpenOptions;
use koeldb_fs::posix::PosixFileSystem;
use koeldb_lsm::version::Version;
use koeldb_lsm::{DataPaths, TableOpener};
use koeldb_table::reader::TableReadContext;

use super::manifest::{ColumnFamilyState, current_state};
use super::{Failure, Outcome};

/// The LSM tree of a column family: its version from the MANIFEST, and a table opener.
pub(super) struct Tree {
    pub(super) id: u32,
    pub(super) name: String,
    pub(super) order: KeyOrder,
    /// The `log_number` of the MANIFEST: the oldest log with unflushed entries.
    pub(super) log_number: u64,
    pub(super) version: Version,
    pub(super) tables: TableOpener,
}

impl Tree {
    /// Reads the MANIFEST and returns the LSM tree of the column family called `name`.
    ///
    /// `options` provide the prefix extractor of filters; without them prefix filters are not used.
    pub(super) fn of(
        directory: &Path,
        name: &str,
        options: Option<&ColumnFamilyOptions>,
    ) -> Outcome<Self> {
        let state = current_state(directory)?;
        let mut families = state.families.iter();
        let Some((&id, family)) = families.find(|(_, family)| family.name == name) else {
            return Err(Failure::Message(format!("Unknown column family {name}")));
        };
        Self::open(directory, id, family, options)
    }

    /// Creates the LSM tree of column family `id` from its state in the MANIFEST.
    pub(super) fn open(
        directory: &Path,
        id: u32,
        family: &ColumnFamilyState,
        options: Option<&ColumnFamilyOptions>,
    ) -> Outcome<Self> {
        Self::open_in(DataPaths::single(directory), id, family, options)
    }

    /// Creates the LSM tree of a column family whose tables are in the directories `paths`.
    pub(super) fn open_in(
        paths: DataPaths,
        id: u32,
        family: &ColumnFamilyState,
        options: Option<&ColumnFamilyOptions>,
    ) -> Outcome<Self> {
        let order = family.order()?;
        let context = TableReadContext {
            order: order.clone(),
            prefix_extractor: options.and_then(|options| options.get_prefix_extractor().cloned()),
            ..TableReadContext::default()
        };
        let fs = Arc::new(PosixFileSystem::new());
        Ok(Tree {
            id,
            name: family.name.clone(),
            order,
            log_number: family.log_number,
            version: family.version()?,
            tables: TableOpener::new(fs, paths, OpenOptions::default(), context),
        })
    }
}
