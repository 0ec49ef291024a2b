//! Types and stores that the tests share.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use koeldb::fs::{FileSystem, MemoryFileSystem, SurvivalPolicy, SystemClock};
use koeldb::{Env, Options};
use koeldb_openraft::{Application, SnapshotDir, StateBatch};

openraft::declare_raft_types!(
    /// Strings as requests and answers.
    pub(crate) Types:
        D = String,
        R = Option<String>,
        Node = openraft::EmptyNode,
        SnapshotData = SnapshotDir,
);

/// Appends each request to the value of a key, and answers with the former value.
pub(crate) struct Appending;

pub(crate) const KEY: &str = "all requests";

impl Application for Appending {
    type Request = String;
    type Response = Option<String>;

    fn apply(&self, state: &mut StateBatch, request: &String) -> io::Result<Option<String>> {
        let value = state.get(KEY)?.unwrap_or_default();
        let value = String::from_utf8(value.to_vec()).unwrap();
        state.put(KEY, format!("{value}{request};"));
        Ok(Some(value))
    }
}

/// A disk that loses what is not synced.
#[derive(Clone)]
pub(crate) struct Disk {
    pub(crate) fs: MemoryFileSystem,
}

impl Disk {
    pub(crate) fn new() -> Self {
        Disk {
            fs: MemoryFileSystem::new(),
        }
    }

    pub(crate) fn env(&self) -> Env {
        Env::new(Arc::new(self.fs.clone()), Arc::new(SystemClock))
    }

    pub(crate) fn options(&self) -> Options {
        let mut options = Options::new();
        options.set_env(&self.env());
        options
    }

    /// The disk after a power cut at this moment.
    pub(crate) fn cut(&self, policy: SurvivalPolicy, seed: u64) -> Disk {
        Disk {
            fs: self.fs.crash_image(policy, seed),
        }
    }

    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        let entries = self.fs.list(path.as_ref()).unwrap();
        let mut names: Vec<String> = entries.into_iter().map(|entry| entry.name).collect();
        names.sort();
        names
    }
}

/// A directory that is removed with it.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("koeldb-openraft-{name}-{}-{number}", std::process::id());
        Scratch(std::env::temp_dir().join(name))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
