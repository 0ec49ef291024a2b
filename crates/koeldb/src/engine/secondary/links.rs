//! Hard links of the primary's tables and blob files in the directory of a secondary.
//!
//! A link is removed when no version of the secondary has the file any more: its metadata has a
//! hook for that. Links that a crash left are removed when the directory is opened: the
//! file `PRIMARY` marks a directory whose files are links, and has the path of the primary.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use koeldb_base::file_name::{self, FileKind, FileNumber};
use koeldb_base::sync::lock_plain as lock;
use koeldb_base::{Error, Result};
use koeldb_fs::small_file::write_atomically;
use koeldb_fs::{FileSystem, Purpose};
use koeldb_lsm::file_meta::DropHook;

use crate::env::{JobPriority, Pool};

/// The name of the file that marks the directory of a secondary.
const MARK: &str = "PRIMARY";

/// Whether a file of this name is a table or a blob file.
fn is_linked(name: &str) -> bool {
    let kind = file_name::parse(name);
    matches!(kind, Some(FileKind::Table(_) | FileKind::Blob(_)))
}

/// The extensions of files that are not named as RocksDB's tables: LevelDB's tables, and blob files.
const OTHER_EXTENSIONS: [&str; 2] = ["ldb", "blob"];

/// Checks that the secondary's directory `own` has no tables, unless a secondary marked it before.
///
/// # Errors
/// `InvalidArgument` if it has tables or blob files and no secondary marked it.
pub(crate) fn check_own(fs: &dyn FileSystem, own: &Path) -> Result<()> {
    let entries = fs.list(own)?;
    let is_marked = entries.iter().any(|entry| entry.name == MARK);
    match entries.iter().find(|entry| is_linked(&entry.name)) {
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

/// The reference-counted hard links to the primary's files in the directory of a secondary.
pub(crate) struct Links {
    fs: Arc<dyn FileSystem>,
    own: PathBuf,
    pool: Pool,
    /// The number of metadata in use for each link; tables and blob files share their numbers.
    counts: Mutex<HashMap<FileNumber, usize>>,
}

impl Links {
    /// Creates an empty set of hard links in the marked directory `own`, and removes leftover ones.
    pub(crate) fn new(fs: &Arc<dyn FileSystem>, own: &Path, pool: &Pool) -> Result<Arc<Self>> {
        for entry in fs.list(own)? {
            if is_linked(&entry.name) {
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

    /// Hard-links file `number`; the link stays at least until the metadata of `drop_hook` is dropped.
    ///
    /// `source` is the file of the primary.
    ///
    /// # Errors
    /// With detail `PathNotFound` if the primary has removed it; otherwise errors of the file system.
    pub(crate) fn link(
        self: &Arc<Self>,
        number: FileNumber,
        source: &Path,
        drop_hook: &DropHook,
    ) -> Result<()> {
        if drop_hook.is_set() {
            return Ok(());
        }
        let mut counts = lock(&self.counts);
        if !counts.contains_key(&number) {
            self.make(number, source)?;
        }
        *counts.entry(number).or_insert(0) += 1;
        drop(counts);
        let links = Arc::clone(self);
        // The hook may run under locks and must not wait.
        drop_hook.set(Arc::new(move || {
            let on_drop = Arc::clone(&links);
            links
                .pool
                .submit(JobPriority::High, move || on_drop.release(number));
        }));
        Ok(())
    }

    /// Creates the hard link to the file `source` of the primary in the secondary's directory.
    fn make(&self, number: FileNumber, source: &Path) -> Result<()> {
        let extension = source.extension().unwrap_or_default();
        let target = file_name::table(&self.own, number).with_extension(extension);
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

    /// Removes the hard link to file `number` from the secondary's directory.
    fn remove(&self, number: FileNumber) {
        let path = file_name::table(&self.own, number);
        if self.fs.remove_file(&path).is_err() {
            for extension in OTHER_EXTENSIONS {
                let _ = self.fs.remove_file(&path.with_extension(extension));
            }
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
