//! The directories of tables: `db_paths` and `cf_paths`, which are set in code and have no text.

use std::path::{Path, PathBuf};

use koeldb_fs::FileSystem;
use koeldb_lsm::DataPaths;

use super::column_family::ColumnFamilyOptions;
use super::db::Options;
use super::registry::{OptionValue, Reading, Refusal, Style};

/// A directory for tables, with a target size (RocksDB: `DbPath`).
///
/// Flushes write to the first directory of a list, and compactions to the first one in which the
/// level or sorted run is expected to fit, or to the last. No size is a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DbPath {
    /// The directory. It is created if it is missing.
    pub path: PathBuf,
    /// The target size of the tables in it, in bytes.
    pub target_size: u64,
}

impl DbPath {
    /// Creates a directory for tables with a target size in bytes.
    pub fn new(path: impl Into<PathBuf>, target_size: u64) -> Self {
        DbPath {
            path: path.into(),
            target_size,
        }
    }
}

/// The value of `db_paths` and `cf_paths`, which no text has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PathList(pub(crate) Vec<DbPath>);

impl PathList {
    /// Returns the directories as absolute paths, in the order of their ids; `None` for none.
    fn data_paths(&self, fs: &dyn FileSystem) -> Option<DataPaths> {
        let absolute = |path: &Path| fs.absolute(path).unwrap_or_else(|_| path.to_owned());
        let directories = self.0.iter().map(|it| absolute(&it.path));
        DataPaths::of(&directories.collect::<Vec<_>>())
    }

    /// The target size in bytes of each directory; empty if there is no choice.
    pub(crate) fn target_sizes(&self) -> Vec<u64> {
        match &*self.0 {
            [] | [_] => Vec::new(),
            several => several.iter().map(|it| it.target_size).collect(),
        }
    }
}

impl OptionValue for PathList {
    fn kind() -> String {
        "list of (path, u64)".to_owned()
    }

    fn read(&mut self, name: &str, _: &str, _: &mut Reading) -> Result<(), Refusal> {
        Err(Refusal::unsupported(format!(
            "{name} has no text: set it in code, with set_{name}"
        )))
    }

    fn write(&self, _: Style) -> Option<String> {
        None
    }
}

impl ColumnFamilyOptions {
    /// Returns the directories of the family's tables in the database in the directory `database`.
    ///
    /// The options are sanitized: `cf_paths` are `db_paths` if the family has none.
    pub(crate) fn data_paths(&self, fs: &dyn FileSystem, database: &Path) -> DataPaths {
        let own = self.cf_paths.data_paths(fs);
        own.unwrap_or_else(|| DataPaths::single(database))
    }
}

impl Options {
    /// Sets the directories of the tables of column families that have no
    /// [own ones](ColumnFamilyOptions::set_cf_paths); at most four.
    ///
    /// Without any, which is the default, tables are in the directory of the database. All other
    /// files are there in any case. The MANIFEST records the index of a table's directory: open the
    /// database with the same directories in the same order, of which the last may be new ones. No
    /// OPTIONS file has the list, so it is set for each open, also for a read-only one.
    ///
    /// Table files that the database does not know are removed from these directories when it is
    /// opened, so no other database may use them.
    pub fn set_db_paths(&mut self, paths: impl IntoIterator<Item = DbPath>) -> &mut Self {
        self.db.db_paths = PathList(paths.into_iter().collect());
        self
    }

    /// The option `db_paths`.
    #[must_use]
    pub fn get_db_paths(&self) -> &[DbPath] {
        &self.db.db_paths.0
    }
}
