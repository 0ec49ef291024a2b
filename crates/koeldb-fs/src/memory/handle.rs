//! Open readers, writers and locks of the in-memory file system.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use koeldb_base::coding::to_usize;
use koeldb_base::{Buffer, Result};

use super::content::{Change, MemoryFile};
use super::system::MemoryFileSystem;
use super::tree::failed;
use crate::file::{FileLock, FileSync, RandomAccessFile};
use crate::write_buffer::{Sink, zeros_behind};

/// An open file; it keeps the space of an unlinked file in use.
#[derive(Debug)]
pub(super) struct Handle {
    pub(super) system: MemoryFileSystem,
    pub(super) file: Arc<MemoryFile>,
}

impl Handle {
    /// Makes the content of the file durable.
    fn sync(&self, path: &Path) -> Result<()> {
        let _state = self.system.mutate("sync", path)?;
        self.file.write().sync();
        Ok(())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut state = self.system.state();
        self.file.handles.fetch_sub(1, Ordering::Relaxed);
        state.release_if_gone(&self.file);
    }
}

/// A file in memory that is open for random reads.
#[derive(Debug)]
pub(super) struct MemoryRandomAccessFile {
    pub(super) handle: Handle,
    pub(super) path: PathBuf,
    pub(super) len: u64,
    pub(super) mapped: Option<Arc<Buffer>>,
    pub(super) alignment: usize,
}

impl RandomAccessFile for MemoryRandomAccessFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.handle.system.check("read", &self.path)?;
        let content = self.handle.file.read();
        let rest = content.bytes.get(to_usize(offset)..).unwrap_or(&[]);
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn mapped(&self) -> Option<&Arc<Buffer>> {
        self.mapped.as_ref()
    }

    fn alignment(&self) -> usize {
        self.alignment
    }
}

/// The [`Sink`] of a writer: appends bytes to a file in memory, at the writer's own offset.
#[derive(Debug)]
pub(super) struct MemorySink {
    pub(super) handle: Handle,
    pub(super) path: PathBuf,
    pub(super) written: u64,
    /// The length of the former content of a reused file; 0 in other files.
    pub(super) former_len: u64,
}

impl Sink for MemorySink {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let system = &self.handle.system;
        let mut state = system.mutate("write", &self.path)?;
        let mut content = self.handle.file.write();
        let before = content.len();
        let beyond = (self.written + bytes.len() as u64)
            .saturating_sub(before)
            .saturating_sub(state.free_bytes());
        let (fits, rest) = bytes.split_at(to_usize((bytes.len() as u64).saturating_sub(beyond)));
        let end = self.written + fits.len() as u64;
        let mut written = fits.to_vec();
        written.resize(fits.len() + zeros_behind(end, self.former_len), 0);
        let change = Change::Write {
            offset: self.written,
            bytes: written,
        };
        content.change(state.sequence(), change);
        content.modified_unix_secs = system.now_secs();
        self.written = end;
        state.bytes_used += content.len() - before;
        if rest.is_empty() {
            Ok(())
        } else {
            Err(failed(io::ErrorKind::StorageFull, "write", &self.path))
        }
    }

    fn sync(&mut self, _all: bool) -> Result<()> {
        self.handle.sync(&self.path)
    }

    fn sync_handle(&self) -> Result<Option<Box<dyn FileSync>>> {
        let Handle { system, file } = &self.handle;
        Ok(Some(Box::new(MemorySync {
            handle: system.handle(Arc::clone(file)),
            path: self.path.clone(),
        })))
    }

    fn len(&self) -> u64 {
        self.written
    }

    fn has_remains(&self) -> bool {
        self.former_len > self.written
    }

    fn finish(&mut self) -> Result<()> {
        if !self.has_remains() {
            return Ok(());
        }
        let Handle { system, file } = &self.handle;
        system.set_len(file, &self.path, self.written)?;
        self.former_len = 0;
        Ok(())
    }
}

/// A [`FileSync`] handle for a file in memory that another handle writes.
#[derive(Debug)]
struct MemorySync {
    handle: Handle,
    path: PathBuf,
}

impl FileSync for MemorySync {
    fn sync_data(&self, _len: u64) -> Result<()> {
        self.handle.sync(&self.path)
    }
}

/// A lock on a path in memory, held until it is dropped.
#[derive(Debug)]
pub(super) struct MemoryLock {
    pub(super) system: MemoryFileSystem,
    pub(super) id: u64,
}

impl FileLock for MemoryLock {}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        self.system.state().locks.remove(&self.id);
    }
}
