//! Read buffers: memory owned by a read, from a pool of a few size classes.
//!
//! Dropping a buffer returns its memory to the pool.
//!
//! Invariants: all bytes are initialized from the start, and `skip + bytes` never exceeds the
//! memory. Pooled memory holds bytes of an earlier read, so the first requested byte is inverted
//! before each read: a file system that reports success without writing cannot pass a checksum with
//! stale bytes.

use std::fmt;
use std::ops::Deref;
use std::sync::Mutex;

use koeldb_base::coding::to_usize;
use koeldb_base::{Error, Result};

use crate::aligned::{AlignedBuffer, DIRECT_ALIGNMENT};
use crate::file::RandomAccessFile;

/// The smallest pooled size; each further class doubles it.
const SMALLEST: usize = DIRECT_ALIGNMENT;

/// The number of size classes, from 4 KiB to 512 KiB.
const CLASSES: usize = 8;

/// The bytes that each class may retain.
///
/// A few long scans that end together return about as much, and the next scans reuse it. New memory
/// has to be zeroed twice, by the system and here.
const KEPT_BYTES: usize = 8 << 20;

/// The buffers kept for reuse, by size class.
static POOL: [Mutex<Vec<AlignedBuffer>>; CLASSES] = [const { Mutex::new(Vec::new()) }; CLASSES];

/// The size class for `bytes`; `None` above the largest.
fn class_of(bytes: usize) -> Option<usize> {
    (0..CLASSES).find(|class| bytes <= SMALLEST << class)
}

/// Takes a buffer of at least `bytes` bytes from the pool of free buffers, or allocates one.
fn take(bytes: usize) -> Result<AlignedBuffer> {
    let Some(class) = class_of(bytes) else {
        return AlignedBuffer::new(bytes, DIRECT_ALIGNMENT);
    };
    // Not worth waiting for; and in a forked child the lock may stay held for ever.
    let kept = POOL[class].try_lock().ok().and_then(|mut kept| kept.pop());
    match kept {
        Some(memory) => Ok(memory),
        None => AlignedBuffer::new(SMALLEST << class, DIRECT_ALIGNMENT),
    }
}

/// Returns a buffer to the pool of free buffers, or frees it if the pool is full or locked.
fn give_back(memory: AlignedBuffer) {
    let Some(class) = class_of(memory.len()).filter(|class| SMALLEST << class == memory.len())
    else {
        return;
    };
    if let Ok(mut kept) = POOL[class].try_lock()
        && (kept.len() + 1) * memory.len() <= KEPT_BYTES
    {
        kept.push(memory);
    }
}

/// The bytes that a read returned: those requested, or fewer at the end of the file.
///
/// It dereferences to them.
#[derive(Default)]
pub struct ReadBuffer {
    /// The memory of the read, with bytes for alignment; `None` for an empty read.
    memory: Option<AlignedBuffer>,
    skip: usize,
    bytes: usize,
}

impl ReadBuffer {
    /// Allocates room for `bytes` bytes, behind `skip` bytes that are read only for alignment.
    ///
    /// It is empty until [`ReadBuffer::set_bytes`].
    pub(super) fn new(skip: usize, bytes: usize) -> Result<Self> {
        let mut memory = take(skip.saturating_add(bytes))?;
        if let Some(first) = memory.get_mut(skip) {
            *first = !*first;
        }
        Ok(ReadBuffer {
            memory: Some(memory),
            skip,
            bytes: 0,
        })
    }

    /// Reads `length` bytes of `file` at `offset` synchronously; fewer at the end of the file.
    ///
    /// Offset and length need not be aligned.
    ///
    /// # Errors
    /// If the file cannot be read, or there is no memory.
    pub fn read(file: &dyn RandomAccessFile, offset: u64, length: usize) -> Result<Self> {
        let grid = file.alignment().max(1);
        let skip = to_usize(offset % grid as u64);
        let want = skip
            .checked_add(length)
            .and_then(|bytes| bytes.checked_next_multiple_of(grid))
            .ok_or_else(|| Error::invalid_argument(format!("a read of {length} bytes")))?;
        let mut buffer = ReadBuffer::new(skip, want - skip)?;
        let memory = &mut buffer.memory_mut()[..want];
        let read = file.read_at(offset - skip as u64, memory)?;
        buffer.set_bytes(read.saturating_sub(skip).min(length));
        Ok(buffer)
    }

    /// Returns the memory to read into, including the bytes for alignment.
    pub(super) fn memory_mut(&mut self) -> &mut [u8] {
        self.memory.as_deref_mut().unwrap_or_default()
    }

    /// Sets the number of valid bytes after the skipped ones.
    ///
    /// # Panics
    /// If the memory is smaller.
    pub(super) fn set_bytes(&mut self, bytes: usize) {
        assert!(self.skip + bytes <= self.memory_mut().len());
        self.bytes = bytes;
    }
}

impl Deref for ReadBuffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let memory = self.memory.as_deref().unwrap_or_default();
        &memory[self.skip..self.skip + self.bytes]
    }
}

impl Drop for ReadBuffer {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            give_back(memory);
        }
    }
}

impl fmt::Debug for ReadBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReadBuffer({} bytes)", self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_shows_what_was_read_and_nothing_before_it() {
        let mut buffer = ReadBuffer::new(100, 50).unwrap();
        assert!(buffer.is_empty());
        assert_eq!(buffer.memory_mut().len(), 4096);
        assert_eq!(buffer.memory_mut().as_ptr().addr() % DIRECT_ALIGNMENT, 0);
        buffer.memory_mut()[100..130].fill(7);
        buffer.set_bytes(30);
        assert_eq!(*buffer, [7; 30]);
        assert_eq!(
            ReadBuffer::new(0, 600 << 10).unwrap().memory_mut().len(),
            600 << 10
        );
    }

    #[test]
    fn stale_bytes_of_the_pool_never_look_like_a_read() {
        for _ in 0..3 {
            let mut buffer = ReadBuffer::new(1, 300 << 10).unwrap();
            assert_ne!(buffer.memory_mut()[1], 0x5a, "spoilt before every use");
            buffer.memory_mut().fill(0x5a);
        }
    }
}
