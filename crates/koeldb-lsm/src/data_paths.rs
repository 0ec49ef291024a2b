//! The directories in which the tables of a column family lie (`db_paths`, `cf_paths`).
//!
//! The MANIFEST records an index into their list, the *path id*, for each table. Blob files lie in
//! the first directory. File numbers are unique over all directories of a database.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use koeldb_base::file_name::{self, FileNumber};

use crate::file_meta::FileMeta;

/// The largest number of directories of a column family: a path id has two bits in RocksDB.
pub const DATA_PATHS_MAX: usize = 4;

/// The directories of a column family's tables, at least one; cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataPaths {
    first: Arc<PathBuf>,
    others: Arc<Vec<PathBuf>>,
}

impl DataPaths {
    /// All tables are in one directory.
    #[must_use]
    pub fn single(directory: &Path) -> Self {
        DataPaths {
            first: Arc::new(directory.to_owned()),
            others: Arc::new(Vec::new()),
        }
    }

    /// Returns the paths with these directories, in the order of their ids; `None` if there are none.
    #[must_use]
    pub fn of(directories: &[PathBuf]) -> Option<Self> {
        let (first, others) = directories.split_first()?;
        Some(DataPaths {
            first: Arc::new(first.clone()),
            others: Arc::new(others.to_vec()),
        })
    }

    /// The number of directories.
    #[must_use]
    pub fn count(&self) -> usize {
        1 + self.others.len()
    }

    /// All directories, in the order of their ids.
    pub fn directories(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(self.first.as_path()).chain(self.others.iter().map(PathBuf::as_path))
    }

    /// The directory with this id, or the last one if there are fewer.
    ///
    /// (RocksDB: `TableFileName`.)
    #[must_use]
    pub fn directory(&self, path_id: u8) -> &Path {
        let last = self.others.last();
        match usize::from(path_id).checked_sub(1) {
            None => &self.first,
            Some(index) => self
                .others
                .get(index)
                .or(last)
                .map_or(self.first.as_path(), |it| it),
        }
    }

    /// The path of table `number` in the directory with this id.
    #[must_use]
    pub fn table(&self, path_id: u8, number: FileNumber) -> PathBuf {
        file_name::table(self.directory(path_id), number)
    }

    /// The path of blob file `number`.
    #[must_use]
    pub fn blob(&self, number: FileNumber) -> PathBuf {
        file_name::blob(&self.first, number)
    }

    /// The path of a table.
    #[must_use]
    pub fn of_table(&self, file: &FileMeta) -> PathBuf {
        self.table(file.path_id, file.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_beyond_the_last_directory_stands_for_the_last() {
        assert_eq!(DataPaths::of(&[]), None);
        let paths = DataPaths::of(&["/a".into(), "/b".into()]).unwrap();
        assert_eq!(paths.count(), 2);
        assert!(paths.directories().eq([Path::new("/a"), Path::new("/b")]));
        let table = |id| paths.table(id, 7);
        assert_eq!(table(0), Path::new("/a/000007.sst"));
        assert_eq!(table(1), Path::new("/b/000007.sst"));
        assert_eq!(table(3), Path::new("/b/000007.sst"));
        let single = DataPaths::single(Path::new("/c"));
        assert_eq!(single.table(2, 7), Path::new("/c/000007.sst"));
    }
}
