//! Removes a database.

use std::path::Path;

use koeldb_base::Result;
use koeldb_base::file_name::{self, FileKind};
use koeldb_fs::directory_lock::lock_directory;

use crate::options::Options;

/// Destroys the database at `path`: removes its files, and the directory if it is then empty.
pub(crate) fn destroy(options: &Options, path: &Path) -> Result<()> {
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
    let wal_dir = options.db.wal_directory(path);
    let archive = koeldb_log::wal::archive_directory;
    for directory in [archive(path), archive(&wal_dir), wal_dir] {
        if directory != *path && fs.exists(&directory)? {
            remove(&directory, |kind| matches!(kind, FileKind::Wal(_)))?;
            // Kept if it contains other files.
            let _ = fs.remove_dir(&directory);
        }
    }
    // CURRENT is removed first: after a crash, the rest is not a database.
    if fs.exists(&file_name::current(path))? {
        fs.remove_file(&file_name::current(path))?;
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
    /// # Errors
    /// If it is in use, or a file cannot be removed.
    pub fn destroy(options: &Options, path: impl AsRef<Path>) -> Result<()> {
        destroy(options, path.as_ref())
    }
}
