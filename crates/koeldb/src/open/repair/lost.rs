//! The directories `lost`, for files that a repair cannot use; each is beside the former place.
//!
//! Until the repaired MANIFEST is current such a file has both names, afterwards only that in
//! `lost`.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::{Path, PathBuf};

use koeldb_base::Result;
use koeldb_fs::small_file::{copy as copy_file, create_dir_durably, parent, second_name};
use koeldb_fs::{FileSystem, Purpose};

/// Returns the path of the directory `lost`, to which a repair moves files that it cannot use.
pub(super) fn directory(path: &Path) -> PathBuf {
    path.join("lost")
}

/// A file that is being moved to the directory `lost`, and its new path.
struct MovedFile {
    file: PathBuf,
    target: PathBuf,
    /// Whether the file has a second name in `lost`; some file systems do not support hard links.
    is_linked: bool,
}

/// The files that a repair cannot use and moves to the directory `lost`.
pub(super) struct LostFiles<'a> {
    fs: &'a dyn FileSystem,
    /// The directories of the files.
    directories: BTreeSet<PathBuf>,
    files: Vec<MovedFile>,
    /// Files that take the names of others: their present names, and those.
    replacements: Vec<(PathBuf, PathBuf)>,
    report: Vec<(String, String)>,
}

impl<'a> LostFiles<'a> {
    pub(super) fn new(fs: &'a dyn FileSystem) -> Self {
        LostFiles {
            fs,
            directories: BTreeSet::new(),
            files: Vec::new(),
            replacements: Vec::new(),
            report: Vec::new(),
        }
    }

    /// Hard-links `file` into `lost` if possible; [`LostFiles::finish`] removes the original name.
    pub(super) fn set_aside(&mut self, file: &Path, why: impl Display) -> Result<()> {
        let own = parent(file);
        let lost = directory(own);
        create_dir_durably(self.fs, &lost)?;
        let (target, exists) = second_name(self.fs, file, &lost)?;
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        self.files.push(MovedFile {
            file: file.to_owned(),
            is_linked: exists || self.fs.link(file, &target).is_ok(),
            target,
        });
        self.directories.insert(own.to_owned());
        self.report.push((name.into_owned(), why.to_string()));
        Ok(())
    }

    /// Lets `copy` take the name of `file`, which keeps a name in `lost` if it exists.
    ///
    /// [`LostFiles::make_durable`] does the first.
    pub(super) fn replace(
        &mut self,
        file: &Path,
        copy: PathBuf,
        why: impl Display,
        exists: bool,
    ) -> Result<()> {
        let own = parent(file);
        if let Some(at) = self.files.iter().position(|aside| aside.file == file) {
            // It was set aside: its name is not to be removed at the end.
            let aside = self.files.swap_remove(at);
            if !aside.is_linked {
                copy_file(self.fs, file, &aside.target, Purpose::Other)?;
            }
        } else if exists {
            let lost = directory(own);
            create_dir_durably(self.fs, &lost)?;
            let (target, is_there) = second_name(self.fs, file, &lost)?;
            if !is_there && self.fs.link(file, &target).is_err() {
                copy_file(self.fs, file, &target, Purpose::Other)?;
            }
            self.directories.insert(own.to_owned());
        }
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        self.report.push((name.into_owned(), why.to_string()));
        self.replacements.push((copy, file.to_owned()));
        Ok(())
    }

    /// Makes the names of all files so far durable, those in `lost` first.
    pub(super) fn make_durable(&self) -> Result<()> {
        self.sync_lost()?;
        for (copy, file) in &self.replacements {
            self.fs.rename(copy, file)?;
        }
        for (_, file) in &self.replacements {
            self.fs.sync_dir(parent(file))?;
        }
        Ok(())
    }

    /// Syncs the directories `lost`, so that their new links are durable.
    fn sync_lost(&self) -> Result<()> {
        let mut directories = self.directories.iter();
        directories.try_for_each(|own| self.fs.sync_dir(&directory(own)))
    }

    /// Removes the original names of the files, and returns the moved files with the reasons.
    pub(super) fn finish(self) -> Result<Vec<(String, String)>> {
        for aside in &self.files {
            if aside.is_linked {
                self.fs.remove_file(&aside.file)?;
            } else {
                self.fs.rename(&aside.file, &aside.target)?;
            }
        }
        if self.files.iter().any(|aside| !aside.is_linked) {
            self.sync_lost()?;
        }
        for own in &self.directories {
            self.fs.sync_dir(own)?;
        }
        Ok(self.report)
    }
}
