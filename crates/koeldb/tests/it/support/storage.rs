//! Storage in memory that fails on demand.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use koeldb::fs::{FaultFileSystem, FileSystem, MemoryFileSystem, SystemClock};
use koeldb::{Env, Options};

/// The path of the database.
pub(crate) const HERE: &str = "/db";

pub(crate) struct Storage {
    pub(crate) memory: MemoryFileSystem,
    pub(crate) faults: Arc<FaultFileSystem>,
}

impl Storage {
    pub(crate) fn new() -> Self {
        let memory = MemoryFileSystem::new();
        Storage {
            faults: Arc::new(FaultFileSystem::new(Arc::new(memory.clone()), 1)),
            memory,
        }
    }

    /// Options that try to resume every few milliseconds.
    pub(crate) fn options(&self) -> Options {
        let fs: Arc<dyn FileSystem> = Arc::clone(&self.faults) as _;
        over(fs)
    }

    /// The only file whose name ends so.
    pub(crate) fn only(&self, suffix: &str) -> PathBuf {
        let mut entries = self.memory.list(HERE.as_ref()).unwrap();
        entries.retain(|entry| entry.name.ends_with(suffix));
        assert_eq!(entries.len(), 1, "{entries:?}");
        Path::new(HERE).join(&entries[0].name)
    }
}

/// Returns the options for any file system.
pub(crate) fn over(fs: Arc<dyn FileSystem>) -> Options {
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_bgerror_resume_retry_interval(Duration::from_millis(5))
        .set_env(&Env::new(fs, Arc::new(SystemClock)));
    options
}
