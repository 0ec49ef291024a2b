//! Hard links of the primary's tables in the directory of a secondary.
//!
//! A link is removed when no version of the secondary has the table any more: the metadata of the
//! table has a hook for that. Links that a crash left are removed when the directory is opened: the
//! file `PRIMARY` marks a directory whose tables are links, and has the path of the primary.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use koeldb_base::file_name::{self, FileKind, FileNumber};
use koeldb_base::sync::lock_plain as lock;
use koeldb_base::{Error, Result};
use koeldb_fs::small_file::write_atomically;
use koeldb_fs::{FileSystem, Purpose};
use koeldb_lsm::{DataPaths, FileMeta};

use crate::env::{JobPriority, Pool};

/// The name of the file that marks the directory of a secondary.
const MARK: &str = "PRIMARY";

/// Checks that the secondary's directory `own` has no tables, unless a secondary marked it before.
///
/// # Errors
/// `InvalidArgument` if it has tables and no secondary marked it.
pub(crate) fn check_own(fs: &dyn FileSystem, own: &Path) -> Result<()> {
    let entries = fs.list(own)?;
    let is_marked = entries.iter().any(|entry| entry.name == MARK);
    let is_table = |name: &str| matches!(file_name::parse(name), Some(FileKind::Table(_)));
    match entries.iter().find(|entry| is_table(&entry.name)) {
        Some(table) if !is_marked => {
            let message = "a secondary needs a directory of its own, without tables of others";
            Err(Error::invalid_argument(message).in_file(&own.join(&table.name), None, "open"))
        }
        _ => Ok(()),
    }
}

/// Writes the file `PRIMARY`, which marks `own` as a secondary's directory of hard links.
pub(crate) fn mark_own(fs: &dyn FileSystem, primary: &Path, own: &Path) -> Result<()> {
    let mut path = primary.display().to_string();
    path.push('\n');
    let temporary = file_name::temporary(own, 0);
    write_atomically(
        fs,
        &temporary,
        &own.join(MARK),
        path.as_bytes(),
        Purpose::Open,
    )
}

/// The reference-counted hard links to the primary's tables in the directory of a secondary.
pub(crate) struct Links {
    fs: Arc<dyn FileSystem>,
    own: PathBuf,
    pool: Pool,
    /// The number of table metadata in use for each link.
    counts: Mutex<HashMap<FileNumber, usize>>,
}

impl Links {
    /// Creates an empty set of hard links in the marked directory `own`, and removes leftover ones.
    pub(crate) fn new(fs: &Arc<dyn FileSystem>, own: &Path, pool: &Pool) -> Result<Arc<Self>> {
        for entry in fs.list(own)? {
            if let Some(FileKind::Table(_)) = file_name::parse(&entry.name) {
                fs.remove_file(&own.join(&entry.name))?;
            }
        }
        Ok(Arc::new(Links {
            fs: Arc::clone(fs),
            own: own.to_owned(),
            pool: pool.clone(),
            counts: Mutex::default(),
        }))
    }

    /// Hard-links the table of `file`; the link stays at least until the `FileMeta` is dropped.
    ///
    /// `paths` are the directories of the tables of its column family in the primary.
    ///
    /// # Errors
    /// With detail `PathNotFound` if the primary has removed it; otherwise errors of the file system.
    pub(crate) fn link(self: &Arc<Self>, file: &FileMeta, paths: &DataPaths) -> Result<()> {
        if file.drop_hook.is_set() {
            return Ok(());
        }
        let number = file.number;
        let mut counts = lock(&self.counts);
        if !counts.contains_key(&number) {
            self.make(number, &paths.of_table(file))?;
        }
        *counts.entry(number).or_insert(0) += 1;
        drop(counts);
        let links = Arc::clone(self);
        // The hook may run under locks and must not wait.
        file.drop_hook.set(Arc::new(move || {
            let on_drop = Arc::clone(&links);
            links
                .pool
                .submit(JobPriority::High, move || on_drop.release(number));
        }));
        Ok(())
    }

    /// Creates the hard link to table `number` of the primary in the secondary's directory.
    fn make(&self, number: FileNumber, source: &Path) -> Result<()> {
        let target = file_name::table(&self.own, number);
        match self.fs.link(source, &target) {
            // LevelDB named its tables so.
            Err(error) if error.is_path_not_found() => {
                let (source, target) = (source.with_extension("ldb"), target.with_extension("ldb"));
                self.fs.link(&source, &target).map_err(|_| error)
            }
            made => made,
        }
    }

    /// Decrements the reference count of a hard link, and removes the link at zero.
    fn release(&self, number: FileNumber) {
        let mut counts = lock(&self.counts);
        let Some(count) = counts.get_mut(&number) else {
            return;
        };
        *count -= 1;
        if *count == 0 {
            counts.remove(&number);
            // Under the lock, so that nobody links it meanwhile. What stays is removed by the next
            // open.
            self.remove(number);
        }
    }

    /// Removes the hard link to table `number` from the secondary's directory.
    fn remove(&self, number: FileNumber) {
        let path = file_name::table(&self.own, number);
        if self.fs.remove_file(&path).is_err() {
            let _ = self.fs.remove_file(&path.with_extension("ldb"));
        }
    }

    /// Removes all hard links, when the secondary is closed.
    pub(crate) fn remove_all(&self) {
        for (number, _) in lock(&self.counts).drain() {
            self.remove(number);
        }
    }
}

/// Checks that `file` of the primary can be hard-linked into `own`; returns the error if not.
pub(crate) fn can_link(fs: &dyn FileSystem, file: &Path, own: &Path) -> Result<()> {
    let probe = file_name::temporary(own, 0);
    let _ = fs.remove_file(&probe);
    fs.link(file, &probe)?;
    fs.remove_file(&probe)
}
