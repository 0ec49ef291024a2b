//! Directories that tests may fill and that go away with them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) struct ScratchDir {
    path: PathBuf,
}

impl ScratchDir {
    /// A new directory.
    pub(crate) fn new() -> Self {
        let dir = Self::absent();
        std::fs::create_dir_all(&dir.path).unwrap();
        dir
    }

    /// A path at which there is nothing.
    pub(crate) fn absent() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("koeldb-it-{}-{number}", std::process::id());
        ScratchDir {
            path: std::env::temp_dir().join(name),
        }
    }

    /// A copy of the files of a directory.
    pub(crate) fn copy_of(source: &Path) -> Self {
        let dir = Self::new();
        for (name, bytes) in files(source) {
            std::fs::write(dir.path.join(name), bytes).unwrap();
        }
        dir
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path.join(name)
    }

    /// The only file with this extension or of this name.
    pub(crate) fn only(&self, what: &str) -> PathBuf {
        let found = self.all(what);
        assert_eq!(
            found.len(),
            1,
            "{what} in {}: {found:?}",
            self.path.display()
        );
        found.into_iter().next().unwrap()
    }

    /// Returns all files with this extension or name prefix, sorted by name.
    pub(crate) fn all(&self, what: &str) -> Vec<PathBuf> {
        // Files may go while they are listed: nothing is read.
        let entries = std::fs::read_dir(&self.path).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort_unstable();
        names
            .into_iter()
            .filter(|name| {
                name.starts_with(what) || name.rsplit_once('.').is_some_and(|(_, ext)| ext == what)
            })
            .map(|name| self.join(name))
            .collect()
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Every file in a directory by name, with its bytes.
pub(crate) fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries =
        std::fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    entries
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_type().unwrap().is_file())
        .map(|entry| {
            let bytes = std::fs::read(entry.path()).unwrap();
            (entry.file_name().into_string().unwrap(), bytes)
        })
        .collect()
}

/// The files that hold data: all but the lock and the text logs.
pub(crate) fn data_files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut all = files(dir);
    all.retain(|name, _| name != "LOCK" && !name.starts_with("LOG"));
    all
}
