//! Staging directories: a new directory appears under its name completely or not at all.
//!
//! The files are made in `<path>.tmp`, which is synced, renamed to `<path>`, and made durable in
//! the directory above (rule CK1 of checkpoints). What an interrupted attempt left is removed if
//! every name in it is one that the engine makes; otherwise nothing is touched (CK2).
//!
//! The directory is locked while it is used, so that no other call or process, with whatever
//! spelling of the path, takes its files for remains.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use koeldb_base::error::ErrorDetail;
use koeldb_base::file_name;
use koeldb_base::{Error, ErrorKind, Result};
use koeldb_fs::small_file::{create_dir_durably, parent};
use koeldb_fs::{EntryKind, FileLock, FileSystem};

/// A directory that is filled under a temporary name; dropping it unpublished removes it.
pub(crate) struct Staging {
    fs: Arc<dyn FileSystem>,
    target: PathBuf,
    path: PathBuf,
    is_made: bool,
    /// Names of files in the directory that are not names of database files.
    extra_names: &'static [&'static str],
    /// The lock of the directory, until it has its final name.
    lock: Option<Box<dyn FileLock>>,
}

impl Staging {
    /// Creates and locks the temporary directory `<target>.tmp`; `target` must not exist.
    pub(crate) fn create(
        fs: &Arc<dyn FileSystem>,
        target: &Path,
        extra_names: &'static [&'static str],
    ) -> Result<Self> {
        // Without a trailing slash.
        let target: PathBuf = fs.absolute(target)?.components().collect();
        let Some(name) = target.file_name() else {
            return Err(Error::invalid_argument(format!(
                "{} has no last component to name the new directory",
                target.display()
            )));
        };
        if fs.exists(&target)? {
            return Err(
                Error::invalid_argument("the directory exists").in_file(&target, None, "create")
            );
        }
        let mut temporary = name.to_owned();
        temporary.push(".tmp");
        let path = target.with_file_name(temporary);
        create_dir_durably(&**fs, parent(&target))?;
        fs.create_dir_all(&path)?;
        let mut staging = Staging {
            lock: lock(&**fs, &path, &target)?,
            fs: Arc::clone(fs),
            target,
            path,
            is_made: false,
            extra_names,
        };
        staging.remove_files()?;
        staging.is_made = true;
        Ok(staging)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Renames the filled temporary directory to its final name and syncs it.
    ///
    /// After an error of the last step the directory has its name, and a crash may take it away.
    pub(crate) fn publish(mut self) -> Result<()> {
        self.fs.sync_dir(&self.path)?;
        self.fs.rename_new(&self.path, &self.target)?;
        self.is_made = false;
        // The database in it may be opened from now on.
        self.lock = None;
        self.fs.sync_dir(parent(&self.target))
    }

    /// Removes all files of the temporary directory; fails without removing any if one is foreign.
    fn remove_files(&self) -> Result<()> {
        let entries = self.fs.list(&self.path)?;
        let is_ours =
            |name: &str| file_name::parse(name).is_some() || self.extra_names.contains(&name);
        let stranger = entries
            .iter()
            .find(|entry| entry.kind != EntryKind::File || !is_ours(&entry.name));
        if let Some(stranger) = stranger {
            return Err(Error::with_kind(
                ErrorKind::Aborted,
                format!(
                    "the staging directory exists and has {}, which does not belong to it: move it away",
                    stranger.name
                ),
            )
            .in_file(&self.path, None, "remove"));
        }
        for entry in entries {
            self.fs.remove_file(&self.path.join(entry.name))?;
        }
        Ok(())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if self.is_made {
            // The next attempt removes a directory that cannot be removed now.
            let removed = self.remove_files();
            let _ = removed.and_then(|()| self.fs.remove_dir(&self.path));
        }
    }
}

/// Locks the temporary directory `path`, in which `target` is being created.
///
/// # Errors
/// `Busy` if another call or process uses it.
fn lock(fs: &dyn FileSystem, path: &Path, target: &Path) -> Result<Option<Box<dyn FileLock>>> {
    let busy = || {
        Error::with_kind(
            ErrorKind::Busy,
            format!(
                "another call or process is creating {}, in {}",
                target.display(),
                path.display()
            ),
        )
    };
    // Another user may rename or remove the directory before it is locked here. Then the lock is
    // on a directory without this name, or on a file that the lock created.
    let identity = fs.metadata(path)?.identity;
    let lock = match fs.lock(path) {
        Err(error) if error.detail() == Some(ErrorDetail::LockHeld) => return Err(busy()),
        locked => locked?,
    };
    match fs.metadata(path) {
        Ok(found) if found.identity == identity => Ok(Some(lock)),
        Ok(found) if found.kind == EntryKind::File => {
            fs.remove_file(path)?;
            Err(busy())
        }
        Ok(_) => Err(busy()),
        Err(error) if error.is_path_not_found() => Err(busy()),
        Err(error) => Err(error),
    }
}

/// Fails if the new directory `target` would lie in `directory` or below it.
pub(crate) fn refuse_inside(fs: &dyn FileSystem, target: &Path, directory: &Path) -> Result<()> {
    let identity = fs.metadata(directory)?.identity;
    let mut at = Some(parent(target));
    while let Some(above) = at {
        match fs.metadata(above) {
            Ok(found) if found.identity == identity => {
                return Err(Error::invalid_argument(format!(
                    "{} is inside the directory of the database",
                    target.display()
                )));
            }
            Err(error) if !error.is_path_not_found() => return Err(error),
            _ => {}
        }
        at = above.parent().filter(|path| !path.as_os_str().is_empty());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use koeldb_fs::MemoryFileSystem;

    #[test]
    fn a_second_user_is_refused_whatever_its_file_system_and_removes_nothing() {
        let memory = MemoryFileSystem::new();
        let one: Arc<dyn FileSystem> = Arc::new(memory.clone());
        let other: Arc<dyn FileSystem> = Arc::new(memory);
        let target = Path::new("/copies/one");
        let first = Staging::create(&one, target, &[]).unwrap();
        let table = first.path().join("000007.sst");
        one.create(&table, &Default::default()).unwrap();
        let error = Staging::create(&other, target, &[]).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
        assert!(one.exists(&table).unwrap());
        first.publish().unwrap();
        assert!(one.exists(&target.join("000007.sst")).unwrap());
        // An attempt that ends leaves nothing, and the name is free.
        let target = Path::new("/copies/two");
        drop(Staging::create(&one, target, &[]).unwrap());
        assert_eq!(one.list("/copies".as_ref()).unwrap().len(), 1);
        Staging::create(&other, target, &[]).unwrap();
    }
}
