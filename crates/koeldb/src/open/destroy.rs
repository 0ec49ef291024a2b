//! Removes a database.

use std::path::Path;

use koeldb_base::Result;
use koeldb_base::file_name::{self, FileKind};
use koeldb_fs::directory_lock::lock_directory;

use crate::api::column_family::ColumnFamilyDescriptor;
use crate::options::{DbPath, Options};

/// Destroys the database at `path`: removes its files, and the directories that are then empty.
///
/// Tables are also in the directories `cf_paths` of its column families.
fn destroy<'p>(
    options: &'p Options,
    path: &Path,
    cf_paths: impl IntoIterator<Item = &'p DbPath>,
) -> Result<()> {
    let fs = &*options.plugins.env.fs;
    if !fs.exists(path)? {
        return Ok(());
    }
    let lock = lock_directory(fs, path)?;
    let remove = |directory: &Path, is_ours: fn(FileKind) -> bool| -> Result<()> {
        for entry in fs.list(directory)? {
            let is_ours = match file_name::parse(&entry.name) {
                Some(kind) => is_ours(kind),
                None => file_name::is_trash(&entry.name),
            };
            if is_ours {
                let path = directory.join(&entry.name);
                let removed = fs.remove_file(&path);
                // A manager of tables may have deleted a file of the trash meanwhile.
                if !file_name::is_trash(&entry.name) || fs.exists(&path)? {
                    removed?;
                }
            }
        }
        Ok(())
    };
    // CURRENT is removed first: after a crash, the rest is not a database.
    if fs.exists(&file_name::current(path))? {
        fs.remove_file(&file_name::current(path))?;
    }
    let wal_dir = options.db.wal_directory(path);
    let archive = koeldb_log::wal::archive_directory;
    for directory in [archive(path), archive(&wal_dir), wal_dir] {
        if directory != *path && fs.exists(&directory)? {
            remove(&directory, |kind| matches!(kind, FileKind::Wal(_)))?;
            // Kept if it contains other files.
            let _ = fs.remove_dir(&directory);
        }
    }
    let paths = cf_paths.into_iter().chain(options.get_db_paths());
    for DbPath {
        path: directory, ..
    } in paths
    {
        if directory != path && fs.exists(directory)? {
            let is_ours = |kind| matches!(kind, FileKind::Table(_) | FileKind::Blob(_));
            remove(directory, is_ours)?;
            let _ = fs.remove_dir(directory);
        }
    }
    remove(path, |kind| kind != FileKind::Lock)?;
    // While it is held: nobody else may lock a file that is then removed.
    fs.remove_file(&file_name::lock(path))?;
    drop(lock);
    let _ = fs.remove_dir(path);
    Ok(())
}

impl crate::Db {
    /// Destroys the database at `path`: removes its files, and the directory if it is then empty.
    ///
    /// Tables are also removed from the directories of `db_paths` and `cf_paths` in `options`, which
    /// no file of the database names. [`Db::destroy_with_families`](crate::Db::destroy_with_families)
    /// takes those of other families.
    ///
    /// # Errors
    /// If it is in use, or a file cannot be removed.
    pub fn destroy(options: &Options, path: impl AsRef<Path>) -> Result<()> {
        destroy(options, path.as_ref(), options.get_cf_paths())
    }

    /// Like [`Db::destroy`](crate::Db::destroy), also in the `cf_paths` of `families`.
    ///
    /// # Errors
    /// See [`Db::destroy`](crate::Db::destroy).
    pub fn destroy_with_families(
        options: &Options,
        path: impl AsRef<Path>,
        families: &[ColumnFamilyDescriptor],
    ) -> Result<()> {
        let of_families = families.iter().filter_map(|family| family.options.as_ref());
        let of_families = of_families.flat_map(|options| options.get_cf_paths());
        let cf_paths = options.get_cf_paths().iter().chain(of_families);
        destroy(options, path.as_ref(), cf_paths)
    }
}
