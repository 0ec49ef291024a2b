//! A file system that records its calls.
//!
//! The record shows the order in which things became durable, so that ordering rules can be checked
//! without a crash. A record with bytes can be [`replay`]ed into a file system that simulates
//! crashes. Counts by purpose cost two atomic additions per call and are always kept.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use koeldb_base::{Error, Result};

use crate::file::{FileSystem, Purpose, RandomAccessFile, WritableFile, WriteOptions};
use crate::layer::{Call, Layer, Layered, Operation};

/// A file system that records and counts every call.
pub type TraceFileSystem = Layered<Trace>;

/// The level of detail of a [`TraceFileSystem`]'s record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceDetail {
    /// Counts of operations, without events.
    Counts,
    /// Events without the appended bytes.
    Events,
    /// Events with the appended bytes.
    Bytes,
}

/// A recorded call to the file system that has returned, with its error if it failed.
#[derive(Clone, Debug)]
pub struct Event {
    /// The order in which calls began; the record itself is in order of return.
    pub began: u64,
    /// The kind of call.
    pub operation: Operation,
    /// The path, or the path under which the file was opened.
    pub path: PathBuf,
    /// The new name of a rename, link or reuse.
    pub to: Option<PathBuf>,
    /// The purpose, if the call has one.
    pub purpose: Option<Purpose>,
    /// The handle of the open file.
    pub handle: Option<u64>,
    /// The offset of a read, prefetch, append or sync.
    pub offset: u64,
    /// The number of bytes requested or appended, or the new length.
    pub len: u64,
    /// The appended bytes, if they are recorded.
    pub bytes: Option<Arc<[u8]>>,
    /// The error, if the call failed.
    pub error: Option<Error>,
}

/// Counts of reads, appends and syncs with one purpose, failed ones included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoCounts {
    /// The number of reads.
    pub reads: u64,
    /// Bytes requested by reads.
    pub read_bytes: u64,
    /// The number of appends.
    pub appends: u64,
    /// Bytes appended.
    pub append_bytes: u64,
    /// File syncs; syncs of directories have no purpose.
    pub syncs: u64,
}

/// The counts of calls and bytes for one purpose.
#[derive(Debug, Default)]
struct Counters {
    reads: AtomicU64,
    read_bytes: AtomicU64,
    appends: AtomicU64,
    append_bytes: AtomicU64,
    syncs: AtomicU64,
}

/// All purposes; the index of one is that of its counters.
const PURPOSES: [Purpose; 11] = [
    Purpose::Read,
    Purpose::Wal,
    Purpose::Flush,
    Purpose::Compaction,
    Purpose::Manifest,
    Purpose::Open,
    Purpose::Purge,
    Purpose::Checkpoint,
    Purpose::Backup,
    Purpose::Ingest,
    Purpose::Other,
];

/// The [`Layer`] that records and counts the calls to a [`TraceFileSystem`].
#[derive(Debug)]
pub struct Trace {
    detail: TraceDetail,
    began: AtomicU64,
    counters: [Counters; PURPOSES.len()],
    events: Mutex<Vec<Event>>,
}

impl TraceFileSystem {
    /// Creates a file system that records the calls to `below`.
    pub fn new(below: Arc<dyn FileSystem>, detail: TraceDetail) -> Self {
        Layered::with_layer(
            below,
            Trace {
                detail,
                began: AtomicU64::new(0),
                counters: Default::default(),
                events: Mutex::new(Vec::new()),
            },
        )
    }

    /// Returns a copy of the recorded events.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        self.layer().events().clone()
    }

    /// Takes the recorded events, and starts a new record.
    #[must_use]
    pub fn take_events(&self) -> Vec<Event> {
        std::mem::take(&mut *self.layer().events())
    }

    /// Returns the I/O counts of one purpose.
    #[must_use]
    pub fn counts(&self, purpose: Purpose) -> IoCounts {
        self.layer().counters(purpose).load()
    }

    /// Returns the I/O counts of all purposes together.
    #[must_use]
    pub fn total_counts(&self) -> IoCounts {
        PURPOSES.iter().map(|&purpose| self.counts(purpose)).fold(
            IoCounts::default(),
            |sum, counts| IoCounts {
                reads: sum.reads + counts.reads,
                read_bytes: sum.read_bytes + counts.read_bytes,
                appends: sum.appends + counts.appends,
                append_bytes: sum.append_bytes + counts.append_bytes,
                syncs: sum.syncs + counts.syncs,
            },
        )
    }
}

impl Counters {
    /// Loads the current counts.
    fn load(&self) -> IoCounts {
        IoCounts {
            reads: self.reads.load(Ordering::Relaxed),
            read_bytes: self.read_bytes.load(Ordering::Relaxed),
            appends: self.appends.load(Ordering::Relaxed),
            append_bytes: self.append_bytes.load(Ordering::Relaxed),
            syncs: self.syncs.load(Ordering::Relaxed),
        }
    }
}

impl Trace {
    /// Locks the list of recorded events.
    fn events(&self) -> MutexGuard<'_, Vec<Event>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the counters of a purpose; an unknown purpose shares those of [`Purpose::Other`].
    fn counters(&self, purpose: Purpose) -> &Counters {
        let index = PURPOSES.iter().position(|&known| known == purpose);
        &self.counters[index.unwrap_or(PURPOSES.len() - 1)]
    }

    /// Counts a call by its purpose, if it is a read, an append or a sync.
    fn count(&self, call: &Call<'_>) {
        let Some(purpose) = call.purpose else { return };
        let counters = self.counters(purpose);
        match call.operation {
            Operation::Read => {
                counters.reads.fetch_add(1, Ordering::Relaxed);
                counters.read_bytes.fetch_add(call.len, Ordering::Relaxed);
            }
            Operation::Append => {
                counters.appends.fetch_add(1, Ordering::Relaxed);
                counters.append_bytes.fetch_add(call.len, Ordering::Relaxed);
            }
            Operation::SyncData | Operation::SyncAll => {
                counters.syncs.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
    }

    /// Counts a call, executes it, and records it as an event if events are requested.
    fn record<T>(
        &self,
        call: &Call<'_>,
        bytes: Option<&[u8]>,
        proceed: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        self.count(call);
        if self.detail == TraceDetail::Counts {
            return proceed();
        }
        let began = self.began.fetch_add(1, Ordering::Relaxed);
        let result = proceed();
        self.events().push(Event {
            began,
            operation: call.operation,
            path: call.path.to_owned(),
            to: call.to.map(ToOwned::to_owned),
            purpose: call.purpose,
            handle: call.handle,
            offset: call.offset,
            len: call.len,
            bytes: bytes
                .filter(|_| self.detail == TraceDetail::Bytes)
                .map(Arc::from),
            error: result.as_ref().err().cloned(),
        });
        result
    }
}

impl Layer for Trace {
    fn around<T>(&self, call: &Call<'_>, proceed: impl FnOnce() -> Result<T>) -> Result<T> {
        self.record(call, None, proceed)
    }

    fn read(
        &self,
        call: &Call<'_>,
        buffer: &mut [u8],
        below: &dyn RandomAccessFile,
    ) -> Result<usize> {
        self.record(call, None, || below.read_at(call.offset, buffer))
    }

    fn append(&self, call: &Call<'_>, bytes: &[u8], below: &mut dyn WritableFile) -> Result<()> {
        self.record(call, Some(bytes), || below.append(bytes))
    }
}

/// Repeats on another file system the recorded changes that succeeded.
///
/// The record must have the appended bytes ([`TraceDetail::Bytes`]).
///
/// That file system must be in the state in which the recorded one was at the beginning. Every
/// append is passed on immediately, as if the files had no buffers.
///
/// # Errors
/// `InvalidArgument` if the record has no bytes; otherwise those of the file system.
pub fn replay(events: &[Event], fs: &dyn FileSystem) -> Result<()> {
    let mut files: HashMap<u64, Box<dyn WritableFile>> = HashMap::new();
    for event in events.iter().filter(|event| event.error.is_none()) {
        let options = WriteOptions {
            buffer_bytes: 0,
            ..WriteOptions::new(event.purpose.unwrap_or(Purpose::Other))
        };
        let path = event.path.as_path();
        match event.operation {
            Operation::Create => {
                files.extend(event.handle.zip(Some(fs.create(path, &options)?)));
            }
            Operation::OpenAppend => {
                files.extend(event.handle.zip(Some(fs.append(path, &options)?)));
            }
            Operation::Reuse => {
                let to = event.to.as_deref().unwrap_or(path);
                files.extend(event.handle.zip(Some(fs.reuse(path, to, &options)?)));
            }
            Operation::Rename => fs.rename(path, event.to.as_deref().unwrap_or(path))?,
            Operation::Link => fs.link(path, event.to.as_deref().unwrap_or(path))?,
            Operation::RemoveFile => fs.remove_file(path)?,
            Operation::CreateDir => fs.create_dir_all(path)?,
            Operation::RemoveDir => fs.remove_dir(path)?,
            Operation::SyncDir => fs.sync_dir(path)?,
            Operation::Truncate => fs.truncate(path, event.len)?,
            // Taking the lock may have created the file.
            Operation::Lock => drop(fs.lock(path)?),
            Operation::Append | Operation::SyncData | Operation::SyncAll | Operation::Close => {
                replay_on_file(event, &mut files)?;
            }
            Operation::Open
            | Operation::List
            | Operation::Metadata
            | Operation::FreeSpace
            | Operation::Read
            | Operation::Prefetch
            | Operation::Flush => {}
        }
    }
    Ok(())
}

/// Repeats a recorded append, sync or close on the file that the replay opened for its handle.
fn replay_on_file(event: &Event, files: &mut HashMap<u64, Box<dyn WritableFile>>) -> Result<()> {
    let Some(handle) = event.handle else {
        return Ok(());
    };
    // Files opened before the record began are not replayed.
    let Some(file) = files.get_mut(&handle) else {
        return Ok(());
    };
    match event.operation {
        Operation::Append => match &event.bytes {
            Some(bytes) => file.append(bytes),
            None => Err(Error::invalid_argument(
                "a trace without bytes cannot be replayed",
            )),
        },
        Operation::SyncData => file.sync_data(),
        Operation::SyncAll => file.sync_all(),
        _ => files.remove(&handle).map_or(Ok(()), WritableFile::close),
    }
}
