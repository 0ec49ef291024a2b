//! The content of one in-memory file: its bytes, the synced image, and the unsynced changes.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use koeldb_base::coding::to_usize;

/// An in-memory file, shared by its names and handles.
#[derive(Debug)]
pub(super) struct MemoryFile {
    pub(super) id: u64,
    content: RwLock<Content>,
    /// The number of names of the file. Changed under the file system's lock, like `handles`.
    pub(super) links: AtomicU64,
    /// The number of open handles.
    pub(super) handles: AtomicU64,
}

impl MemoryFile {
    pub(super) fn new(id: u64, content: Content) -> Self {
        MemoryFile {
            id,
            content: RwLock::new(content),
            links: AtomicU64::new(0),
            handles: AtomicU64::new(0),
        }
    }

    /// Locks the content of the file for reading.
    pub(super) fn read(&self) -> RwLockReadGuard<'_, Content> {
        self.content.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the content of the file for writing.
    pub(super) fn write(&self) -> RwLockWriteGuard<'_, Content> {
        self.content.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An unsynced change, with its sequence number among all changes of the file system.
#[derive(Clone, Debug)]
pub(super) struct PendingChange {
    pub(super) sequence: u64,
    pub(super) change: Change,
}

/// A change of a file's content.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Write { offset: u64, bytes: Vec<u8> },
    SetLen(u64),
}

/// The visible and the durable content of a file.
#[derive(Debug, Default)]
pub(super) struct Content {
    /// The content that readers see. Crash images share it until either side changes it.
    pub(super) bytes: Arc<Vec<u8>>,
    /// The content that survives every power cut.
    pub(super) synced: Arc<Vec<u8>>,
    /// The changes from `synced` to `bytes`.
    pub(super) pending: Vec<PendingChange>,
    /// The former bytes at truncated or overwritten positions; undefined at other positions.
    pub(super) stale: Vec<u8>,
    pub(super) modified_unix_secs: u64,
}

impl Content {
    /// Creates the content of a file whose bytes are all durable.
    pub(super) fn durable(bytes: Arc<Vec<u8>>, modified_unix_secs: u64) -> Self {
        Content {
            synced: Arc::clone(&bytes),
            bytes,
            modified_unix_secs,
            ..Content::default()
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Applies a change and adds it to the unsynced ones; keeps the replaced bytes as stale.
    pub(super) fn change(&mut self, sequence: u64, change: Change) {
        let (from, until) = match &change {
            Change::Write { offset, bytes } => (to_usize(*offset), to_usize(*offset) + bytes.len()),
            Change::SetLen(len) => (to_usize(*len), self.bytes.len()),
        };
        if let Some(lost) = self.bytes.get(from..until.min(self.bytes.len())) {
            put(&mut self.stale, from, lost);
        }
        change.apply(Arc::make_mut(&mut self.bytes));
        self.pending.push(PendingChange { sequence, change });
    }

    /// Makes all pending changes durable.
    pub(super) fn sync(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let synced = Arc::make_mut(&mut self.synced);
        for pending in self.pending.drain(..) {
            pending.change.apply(synced);
        }
    }
}

impl Change {
    /// Applies the change to an image of the file.
    pub(super) fn apply(&self, image: &mut Vec<u8>) {
        match self {
            Change::Write { offset, bytes } => put(image, to_usize(*offset), bytes),
            Change::SetLen(len) => image.resize(to_usize(*len), 0),
        }
    }
}

/// Writes `bytes` at `offset`; a gap after the end of the image is filled with zeros.
pub(super) fn put(image: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    if offset == image.len() {
        image.extend_from_slice(bytes);
        return;
    }
    let end = offset + bytes.len();
    if image.len() < end {
        image.resize(end, 0);
    }
    image[offset..end].copy_from_slice(bytes);
}
