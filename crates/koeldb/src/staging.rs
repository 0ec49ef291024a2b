//! Staging directories: a new directory appears under its name whole or not at all.
//!
//! The files are made in `<path>.tmp`, which is synced, renamed to `<path>`, and made durable in
//! the directory above (rule CK1 of checkpoints). What an interrupted attempt left is removed if
//! every name in it is one that the engine makes; otherwise nothing is touched (CK2).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use koeldb_base::file_name;
use koeldb_base::sabotage::{Sabotage, is_on};
use koeldb_base::sync::lock_plain as lock;
use koeldb_base::{Error, ErrorKind, Result};
use koeldb_fs::small_file::{create_dir_durably, parent};
use koeldb_fs::{EntryKind, FileSystem};

/// The staging directories in use by this process, by file system.
static IN_USE: Mutex<BTreeSet<(usize, PathBuf)>> = Mutex::new(BTreeSet::new());

/// A directory that does not have its final name yet; dropping it removes it.
pub(crate) struct Staging {
    fs: Arc<dyn FileSystem>,
    target: PathBuf,
    path: PathBuf,
    is_made: bool,
    /// Files with other names than those of a database.
    extra_names: &'static [&'static str],
}

impl Staging {
    /// Creates the staging directory of `target`, which must not exist.
    pub(crate) fn create(
        fs: &Arc<dyn FileSystem>,
        target: &Path,
        extra_names: &'static [&'static str],
    ) -> Result<Self> {
        // Without a trailing slash.
        let target: PathBuf = target.components().collect();
        let Some(name) = target.file_name() else {
            return Err(Error::invalid_argument(format!(
                "{} has no name of its own",
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
        if !lock(&IN_USE).insert((Arc::as_ptr(fs).addr(), path.clone())) {
            return Err(Error::with_kind(
                ErrorKind::Busy,
                format!("another call makes {}", target.display()),
            ));
        }
        let mut staging = Staging {
            fs: Arc::clone(fs),
            target,
            path,
            is_made: false,
            extra_names,
        };
        create_dir_durably(&**fs, parent(&staging.target))?;
        if fs.exists(&staging.path)? {
            staging.remove_remains()?;
        }
        fs.create_dir_all(&staging.path)?;
        staging.is_made = true;
        Ok(staging)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the directory its name and makes it durable.
    ///
    /// After an error of the last step the directory has its name, and a crash may take it away.
    pub(crate) fn publish(mut self) -> Result<()> {
        if !is_on(Sabotage::CheckpointUnsynced) {
            self.fs.sync_dir(&self.path)?;
        }
        self.fs.rename_new(&self.path, &self.target)?;
        self.is_made = false;
        if is_on(Sabotage::CheckpointNameUnsynced) {
            return Ok(());
        }
        self.fs.sync_dir(parent(&self.target))
    }

    /// Removes what an interrupted attempt left.
    fn remove_remains(&self) -> Result<()> {
        let entries = self.fs.list(&self.path)?;
        let is_ours =
            |name: &str| file_name::parse(name).is_some() || self.extra_names.contains(&name);
        let stranger = entries
            .iter()
            .find(|entry| entry.kind != EntryKind::File || !is_ours(&entry.name));
        if let Some(stranger) = stranger
            && !is_on(Sabotage::StagingRemovedUnread)
        {
            return Err(Error::with_kind(
                ErrorKind::Aborted,
                format!(
                    "the staging directory exists and has {}, which no checkpoint makes: move it away",
                    stranger.name
                ),
            )
            .in_file(&self.path, None, "remove"));
        }
        for entry in entries {
            self.fs.remove_file(&self.path.join(entry.name))?;
        }
        self.fs.remove_dir(&self.path)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if self.is_made {
            // What cannot be removed now is removed by the next attempt.
            let _ = self.remove_remains();
        }
        let key = (Arc::as_ptr(&self.fs).addr(), std::mem::take(&mut self.path));
        lock(&IN_USE).remove(&key);
    }
}

/// Fails if `target` would lie in `directory` or below it.
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
