//! Layers over file systems.
//!
//! A [`Layer`] sees every call on its way to the file system below and may observe, delay, corrupt
//! or answer it itself; [`Layered`] implements the forwarding for all layers. Layers stack in any
//! order, because each one is a file system to the layer above.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use koeldb_base::{Buffer, Error, Result};

use crate::file::{
    DirEntry, FileLock, FileSync, FileSystem, MappedPages, Metadata, OpenOptions, Purpose,
    RandomAccessFile, WritableFile, WriteOptions,
};
use crate::read_driver::ReadBackend;

/// The kind of a call to a file system or to one of its open files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Operation {
    /// [`FileSystem::create`]
    Create,
    /// [`FileSystem::append`]
    OpenAppend,
    /// [`FileSystem::reuse`]
    Reuse,
    /// [`FileSystem::open`]
    Open,
    /// [`FileSystem::rename`]
    Rename,
    /// [`FileSystem::link`]
    Link,
    /// [`FileSystem::remove_file`]
    RemoveFile,
    /// [`FileSystem::create_dir_all`]
    CreateDir,
    /// [`FileSystem::remove_dir`]
    RemoveDir,
    /// [`FileSystem::list`]
    List,
    /// [`FileSystem::sync_dir`]
    SyncDir,
    /// [`FileSystem::lock`]
    Lock,
    /// [`FileSystem::metadata`]
    Metadata,
    /// [`FileSystem::truncate`]
    Truncate,
    /// [`FileSystem::free_space`]
    FreeSpace,
    /// [`RandomAccessFile::read_at`]
    Read,
    /// [`RandomAccessFile::prefetch`]
    Prefetch,
    /// [`WritableFile::append`]
    Append,
    /// [`WritableFile::flush`]
    Flush,
    /// [`WritableFile::sync_data`]
    SyncData,
    /// [`WritableFile::sync_all`]
    SyncAll,
    /// [`WritableFile::close`]
    Close,
}

impl Operation {
    /// Whether the call changes files or directories, or makes changes durable.
    #[must_use]
    pub fn is_mutating(self) -> bool {
        !matches!(
            self,
            Operation::Open
                | Operation::List
                | Operation::Metadata
                | Operation::FreeSpace
                | Operation::Read
                | Operation::Prefetch
        )
    }
}

/// The description of a call to the file system below, as a [`Layer`] receives it.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The kind of call.
    pub operation: Operation,
    /// The path, or the path under which the file was opened.
    pub path: &'a Path,
    /// The new name of a rename, link or reuse.
    pub to: Option<&'a Path>,
    /// The purpose; `None` for calls on paths.
    pub purpose: Option<Purpose>,
    /// The open file, numbered by the layer; for an opening call, the number the file will have.
    pub handle: Option<u64>,
    /// The offset of a read, prefetch or append.
    pub offset: u64,
    /// The number of bytes requested or appended, the new length, or the bytes that a
    /// [`FileSync`] handle makes durable; 0 for other syncs.
    pub len: u64,
    /// The options of [`Operation::Create`], [`Operation::OpenAppend`] and [`Operation::Reuse`].
    pub write_options: Option<&'a WriteOptions>,
    /// The options of [`Operation::Open`].
    pub open_options: Option<&'a OpenOptions>,
}

impl<'a> Call<'a> {
    /// Creates the description of an operation on a path, without an open file.
    fn on_path(operation: Operation, path: &'a Path) -> Self {
        Call {
            operation,
            path,
            to: None,
            purpose: None,
            handle: None,
            offset: 0,
            len: 0,
            write_options: None,
            open_options: None,
        }
    }
}

/// A hook on all calls to a file system, which may observe, delay, change or answer them.
///
/// Any number of threads may call it concurrently.
///
/// Only [`Layer::around`] must be implemented; the others are for layers that change bytes or
/// handle syncs.
pub trait Layer: Send + Sync + fmt::Debug + 'static {
    /// Performs a call, or answers it itself; `proceed` passes it to the file system below.
    ///
    /// # Errors
    /// Those of the call, or the layer's own.
    fn around<T>(&self, call: &Call<'_>, proceed: impl FnOnce() -> Result<T>) -> Result<T>;

    /// Performs a read of the file `below` at `call.offset`.
    ///
    /// # Errors
    /// See [`RandomAccessFile::read_at`].
    fn read(
        &self,
        call: &Call<'_>,
        buffer: &mut [u8],
        below: &dyn RandomAccessFile,
    ) -> Result<usize> {
        self.around(call, || below.read_at(call.offset, buffer))
    }

    /// Performs an append of `bytes` to the file `below`.
    ///
    /// # Errors
    /// See [`WritableFile::append`].
    fn append(&self, call: &Call<'_>, bytes: &[u8], below: &mut dyn WritableFile) -> Result<()> {
        self.around(call, || below.append(bytes))
    }

    /// Syncs a file: its data only or all metadata too, depending on the call.
    ///
    /// # Errors
    /// See [`WritableFile::sync_data`].
    fn sync_file(&self, call: &Call<'_>, below: &mut dyn WritableFile) -> Result<()> {
        self.around(call, || match call.operation {
            Operation::SyncAll => below.sync_all(),
            _ => below.sync_data(),
        })
    }

    /// Returns the backend for parallel reads of the file system below, as the layer modifies it.
    fn read_backend(&self, below: &dyn FileSystem) -> Option<Arc<dyn ReadBackend>> {
        below.read_backend()
    }

    /// Syncs the directory `call.path`.
    ///
    /// # Errors
    /// See [`FileSystem::sync_dir`].
    fn sync_dir(&self, call: &Call<'_>, below: &dyn FileSystem) -> Result<()> {
        self.around(call, || below.sync_dir(call.path))
    }
}

/// A file system that passes every call through a layer; clones are handles to the same one.
///
/// Mapped memory is passed through unchanged: reads of it are not calls.
#[derive(Debug)]
pub struct Layered<L> {
    below: Arc<dyn FileSystem>,
    shared: Arc<Shared<L>>,
}

/// The layer and the counter of handles, shared by the layered files.
#[derive(Debug)]
struct Shared<L> {
    layer: L,
    handles: AtomicU64,
}

impl<L> Clone for Layered<L> {
    fn clone(&self) -> Self {
        Layered {
            below: Arc::clone(&self.below),
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<L: Layer> Layered<L> {
    /// Creates a file system with `layer` over `below`.
    pub fn with_layer(below: Arc<dyn FileSystem>, layer: L) -> Self {
        Layered {
            below,
            shared: Arc::new(Shared {
                layer,
                handles: AtomicU64::new(0),
            }),
        }
    }

    /// The layer that every call passes through.
    #[must_use]
    pub fn layer(&self) -> &L {
        &self.shared.layer
    }

    /// Passes an operation on a path through the layer.
    fn on_path<T>(
        &self,
        operation: Operation,
        path: &Path,
        proceed: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        self.layer()
            .around(&Call::on_path(operation, path), proceed)
    }

    /// Creates the description of a call that opens a file, with a new handle number.
    fn opening<'a>(&self, operation: Operation, path: &'a Path, purpose: Purpose) -> Call<'a> {
        Call {
            purpose: Some(purpose),
            handle: Some(self.shared.handles.fetch_add(1, Ordering::Relaxed)),
            ..Call::on_path(operation, path)
        }
    }

    /// Wraps a file open for writing, so that its calls pass through the layer.
    fn writer(&self, call: &Call<'_>, below: Box<dyn WritableFile>) -> Box<dyn WritableFile> {
        Box::new(LayeredWritableFile {
            below,
            shared: Arc::clone(&self.shared),
            path: call.path.to_owned(),
            purpose: call.purpose,
            handle: call.handle,
        })
    }
}

impl<L: Layer> FileSystem for Layered<L> {
    fn create(&self, path: &Path, options: &WriteOptions) -> Result<Box<dyn WritableFile>> {
        let call = Call {
            write_options: Some(options),
            ..self.opening(Operation::Create, path, options.purpose)
        };
        let below = self
            .layer()
            .around(&call, || self.below.create(path, options))?;
        Ok(self.writer(&call, below))
    }

    fn append(&self, path: &Path, options: &WriteOptions) -> Result<Box<dyn WritableFile>> {
        let call = Call {
            write_options: Some(options),
            ..self.opening(Operation::OpenAppend, path, options.purpose)
        };
        let below = self
            .layer()
            .around(&call, || self.below.append(path, options))?;
        Ok(self.writer(&call, below))
    }

    fn reuse(
        &self,
        from: &Path,
        to: &Path,
        options: &WriteOptions,
    ) -> Result<Box<dyn WritableFile>> {
        let call = Call {
            to: Some(to),
            write_options: Some(options),
            ..self.opening(Operation::Reuse, from, options.purpose)
        };
        let below = self
            .layer()
            .around(&call, || self.below.reuse(from, to, options))?;
        Ok(self.writer(&Call { path: to, ..call }, below))
    }

    fn open(&self, path: &Path, options: &OpenOptions) -> Result<Arc<dyn RandomAccessFile>> {
        let call = Call {
            open_options: Some(options),
            ..self.opening(Operation::Open, path, options.purpose)
        };
        let below = self
            .layer()
            .around(&call, || self.below.open(path, options))?;
        Ok(Arc::new(LayeredRandomAccessFile {
            below,
            shared: Arc::clone(&self.shared),
            purpose: call.purpose,
            handle: call.handle,
        }))
    }

    fn read_backend(&self) -> Option<Arc<dyn ReadBackend>> {
        self.layer().read_backend(&*self.below)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let call = Call {
            to: Some(to),
            ..Call::on_path(Operation::Rename, from)
        };
        self.layer().around(&call, || self.below.rename(from, to))
    }

    fn rename_new(&self, from: &Path, to: &Path) -> Result<()> {
        let call = Call {
            to: Some(to),
            ..Call::on_path(Operation::Rename, from)
        };
        self.layer()
            .around(&call, || self.below.rename_new(from, to))
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        let call = Call {
            to: Some(to),
            ..Call::on_path(Operation::Link, from)
        };
        self.layer().around(&call, || self.below.link(from, to))
    }

    fn remove_file(&self, path: &Path) -> Result<()> {
        self.on_path(Operation::RemoveFile, path, || self.below.remove_file(path))
    }

    fn create_dir_all(&self, path: &Path) -> Result<()> {
        self.on_path(Operation::CreateDir, path, || {
            self.below.create_dir_all(path)
        })
    }

    fn remove_dir(&self, path: &Path) -> Result<()> {
        self.on_path(Operation::RemoveDir, path, || self.below.remove_dir(path))
    }

    fn list(&self, path: &Path) -> Result<Vec<DirEntry>> {
        self.on_path(Operation::List, path, || self.below.list(path))
    }

    fn sync_dir(&self, path: &Path) -> Result<()> {
        let call = Call::on_path(Operation::SyncDir, path);
        self.layer().sync_dir(&call, &*self.below)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        self.on_path(Operation::Lock, path, || self.below.lock(path))
    }

    fn absolute(&self, path: &Path) -> Result<PathBuf> {
        self.below.absolute(path)
    }

    fn metadata(&self, path: &Path) -> Result<Metadata> {
        self.on_path(Operation::Metadata, path, || self.below.metadata(path))
    }

    fn truncate(&self, path: &Path, len: u64) -> Result<()> {
        let call = Call {
            len,
            ..Call::on_path(Operation::Truncate, path)
        };
        self.layer()
            .around(&call, || self.below.truncate(path, len))
    }

    fn free_space(&self, path: &Path) -> Result<u64> {
        self.on_path(Operation::FreeSpace, path, || self.below.free_space(path))
    }
}

/// A file open for random reads whose calls pass through the layer.
#[derive(Debug)]
struct LayeredRandomAccessFile<L> {
    below: Arc<dyn RandomAccessFile>,
    shared: Arc<Shared<L>>,
    purpose: Option<Purpose>,
    handle: Option<u64>,
}

impl<L: Layer> LayeredRandomAccessFile<L> {
    /// Creates the description of a call on this file.
    fn call(&self, operation: Operation, offset: u64, len: u64) -> Call<'_> {
        Call {
            purpose: self.purpose,
            handle: self.handle,
            offset,
            len,
            ..Call::on_path(operation, self.below.path())
        }
    }
}

impl<L: Layer> RandomAccessFile for LayeredRandomAccessFile<L> {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let call = self.call(Operation::Read, offset, buffer.len() as u64);
        self.shared.layer.read(&call, buffer, &*self.below)
    }

    fn path(&self) -> &Path {
        self.below.path()
    }

    fn len(&self) -> u64 {
        self.below.len()
    }

    fn mapped(&self) -> Option<&Arc<Buffer>> {
        self.below.mapped()
    }

    fn arrange_mapping(&self, pages: MappedPages) -> Result<()> {
        self.below.arrange_mapping(pages)
    }

    fn alignment(&self) -> usize {
        self.below.alignment()
    }

    fn prefetch(&self, offset: u64, len: u64) {
        let call = self.call(Operation::Prefetch, offset, len);
        // Advice that a layer refuses is skipped.
        let _ = self.shared.layer.around(&call, || {
            self.below.prefetch(offset, len);
            Ok(())
        });
    }
}

/// A file open for writing whose calls pass through the layer.
#[derive(Debug)]
struct LayeredWritableFile<L> {
    below: Box<dyn WritableFile>,
    shared: Arc<Shared<L>>,
    path: PathBuf,
    purpose: Option<Purpose>,
    handle: Option<u64>,
}

impl<L: Layer> LayeredWritableFile<L> {
    /// Returns the description of a call, the layer, and the file of the file system below.
    fn call(
        &mut self,
        operation: Operation,
        len: u64,
    ) -> (Call<'_>, &L, &mut (dyn WritableFile + 'static)) {
        let call = Call {
            purpose: self.purpose,
            handle: self.handle,
            offset: self.below.len(),
            len,
            ..Call::on_path(operation, &self.path)
        };
        (call, &self.shared.layer, &mut *self.below)
    }
}

impl<L: Layer> WritableFile for LayeredWritableFile<L> {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let (call, layer, below) = self.call(Operation::Append, bytes.len() as u64);
        layer.append(&call, bytes, below)
    }

    fn flush(&mut self) -> Result<()> {
        let (call, layer, below) = self.call(Operation::Flush, 0);
        layer.around(&call, || below.flush())
    }

    fn sync_data(&mut self) -> Result<()> {
        let (call, layer, below) = self.call(Operation::SyncData, 0);
        layer.sync_file(&call, below)
    }

    fn sync_all(&mut self) -> Result<()> {
        let (call, layer, below) = self.call(Operation::SyncAll, 0);
        layer.sync_file(&call, below)
    }

    fn sync_handle(&self) -> Result<Option<Box<dyn FileSync>>> {
        let below = self.below.sync_handle()?;
        Ok(below.map(|below| {
            let sync = LayeredSync {
                below,
                shared: Arc::clone(&self.shared),
                path: self.path.clone(),
                purpose: self.purpose,
                handle: self.handle,
            };
            Box::new(sync) as Box<dyn FileSync>
        }))
    }

    fn len(&self) -> u64 {
        self.below.len()
    }

    fn has_remains(&self) -> bool {
        self.below.has_remains()
    }

    fn cut(&mut self) -> Result<()> {
        let len = self.below.len();
        let (call, layer, below) = self.call(Operation::Truncate, len);
        layer.around(&call, || below.cut())
    }

    fn close(self: Box<Self>) -> Result<()> {
        let this = *self;
        let call = Call {
            purpose: this.purpose,
            handle: this.handle,
            offset: this.below.len(),
            ..Call::on_path(Operation::Close, &this.path)
        };
        let below = this.below;
        this.shared.layer.around(&call, || below.close())
    }
}

/// A sync handle whose calls pass through the layer.
#[derive(Debug)]
struct LayeredSync<L> {
    below: Box<dyn FileSync>,
    shared: Arc<Shared<L>>,
    path: PathBuf,
    purpose: Option<Purpose>,
    handle: Option<u64>,
}

impl<L: Layer> FileSync for LayeredSync<L> {
    fn sync_data(&self, len: u64) -> Result<()> {
        let call = Call {
            purpose: self.purpose,
            handle: self.handle,
            offset: len,
            len,
            ..Call::on_path(Operation::SyncData, &self.path)
        };
        let below = &*self.below;
        let mut below = SyncedPart { below, len };
        self.shared.layer.sync_file(&call, &mut below)
    }
}

/// The flushed part of a file behind a [`FileSync`] handle: layers can only sync it.
#[derive(Debug)]
struct SyncedPart<'f> {
    below: &'f dyn FileSync,
    len: u64,
}

impl WritableFile for SyncedPart<'_> {
    fn append(&mut self, _bytes: &[u8]) -> Result<()> {
        Err(Error::not_supported("a handle for syncs appends nothing"))
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    fn sync_data(&mut self) -> Result<()> {
        self.below.sync_data(self.len)
    }

    fn sync_all(&mut self) -> Result<()> {
        self.below.sync_data(self.len)
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
