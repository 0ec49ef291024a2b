//! The directories `lost`, for files that a repair cannot use; each is beside the former place.
//!
//! Until the repaired MANIFEST is current such a file has both names, afterwards only that in
//! `lost`.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::{Path, PathBuf};

use koeldb_base::Result;
use koeldb_fs::FileSystem;
use koeldb_fs::small_file::{create_dir_durably, parent, second_name};

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
    report: Vec<(String, String)>,
}

impl<'a> LostFiles<'a> {
    pub(super) fn new(fs: &'a dyn FileSystem) -> Self {
        LostFiles {
            fs,
            directories: BTreeSet::new(),
            files: Vec::new(),
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

    /// Syncs the directories `lost`, so that their new links are durable.
    pub(super) fn make_durable(&self) -> Result<()> {
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
            self.make_durable()?;
        }
        for own in &self.directories {
            self.fs.sync_dir(own)?;
        }
        Ok(self.report)
    }
}
