//! What a read fills: memory owned by the read, taken from a pool of a few sizes and given back when it is dropped.
//!
//! Invariants: all bytes are initialized from the start, and `skip + bytes` never exceeds the memory. A pooled piece
//! holds bytes of an earlier read, so the first byte wanted is spoilt before each read: a file system that reports
//! success and writes nothing cannot pass a checksum with them.

use std::fmt;
use std::ops::Deref;
use std::sync::Mutex;

use koeldb_base::coding::to_usize;
use koeldb_base::{Error, Result};

use crate::aligned::{AlignedBuffer, DIRECT_ALIGNMENT};
use crate::file::RandomAccessFile;

/// The smallest pooled piece; each further class is twice as large.
const SMALLEST: usize = DIRECT_ALIGNMENT;

/// From 4 KiB to 512 KiB.
const CLASSES: usize = 8;

/// What each class may keep: what a few long scans that end together give back, and the next ones take. New memory has to
/// be zeroed twice, by the system and here.
const KEPT_BYTES: usize = 8 << 20;

static POOL: [Mutex<Vec<AlignedBuffer>>; CLASSES] = [const { Mutex::new(Vec::new()) }; CLASSES];

/// The class whose pieces hold `bytes`; `None` beyond the largest.
fn class_of(bytes: usize) -> Option<usize> {
    (0..CLASSES).find(|class| bytes <= SMALLEST << class)
}

fn take(bytes: usize) -> Result<AlignedBuffer> {
    let Some(class) = class_of(bytes) else {
        return AlignedBuffer::new(bytes, DIRECT_ALIGNMENT);
    };
    // Not worth waiting for; and in a forked child, nobody may ever unlock it.
    let kept = POOL[class].try_lock().ok().and_then(|mut kept| kept.pop());
    match kept {
        Some(memory) => Ok(memory),
        None => AlignedBuffer::new(SMALLEST << class, DIRECT_ALIGNMENT),
    }
}

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

/// The bytes a read found: as many as were asked for, or fewer at the end of the file. Dereferences to them.
#[derive(Default)]
pub struct ReadBuffer {
    /// `None` for no bytes at all.
    memory: Option<AlignedBuffer>,
    skip: usize,
    bytes: usize,
}

impl ReadBuffer {
    /// Memory for `bytes` bytes after `skip` that nobody asked for; empty until [`ReadBuffer::set_bytes`].
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

    /// Reads `length` bytes of `file` at `offset` in place; fewer at the end of the file. Neither need be aligned.
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

    pub(super) fn memory_mut(&mut self) -> &mut [u8] {
        self.memory.as_deref_mut().unwrap_or_default()
    }

    /// # Panics
    /// If there are fewer.
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
