//! The blocks of a log file, read in chunks of several blocks.
//!
//! The file ends where it ended when it was opened, or earlier: the writer of a recycled log cuts the
//! file to its records while others read it.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::ops::Range;
use std::sync::Arc;

use koeldb_base::coding::to_usize;
use koeldb_base::{Error, Result};
use koeldb_fs::RandomAccessFile;

use crate::format::BLOCK_BYTES;
use crate::tear::Tail;

/// The size of one read from the file, unless another is set.
const CHUNK_BYTES: usize = 8 * BLOCK_BYTES;

/// The outcome of loading the next block of a log file.
pub(super) enum Loaded {
    Block,
    EndOfFile,
    /// The operating system could not read the block, which is the current one now.
    Unreadable(Error),
}

/// A sequential reader of the 32 KiB blocks of a log file; the current one is consumed in order.
pub(super) struct Blocks {
    file: Arc<dyn RandomAccessFile>,
    /// The size of one read, a multiple of the size of a block.
    chunk_bytes: usize,
    /// The bytes of the file from `chunk_offset` on.
    chunk: Vec<u8>,
    chunk_offset: u64,
    /// The unread rest of the current block, as a range of `chunk`.
    rest: Range<usize>,
    /// Whether the current block has its full length, so that another block may follow.
    is_whole: bool,
}

impl Blocks {
    /// Creates a block reader at the start of `file`, with no block loaded yet.
    pub(super) fn new(file: Arc<dyn RandomAccessFile>) -> Self {
        Blocks {
            file,
            chunk_bytes: CHUNK_BYTES,
            chunk: Vec::new(),
            chunk_offset: 0,
            rest: 0..0,
            is_whole: true,
        }
    }

    /// Sets the size of one read, rounded up to whole blocks; 0 for the default.
    pub(super) fn set_chunk_bytes(&mut self, bytes: usize) {
        self.chunk_bytes = match bytes.checked_next_multiple_of(BLOCK_BYTES) {
            None | Some(0) => CHUNK_BYTES,
            Some(bytes) => bytes,
        };
    }

    /// Creates a block reader at the block with the offset `at`; also returns `at`'s place in it.
    pub(super) fn from_offset(file: Arc<dyn RandomAccessFile>, at: u64) -> (Self, usize) {
        let in_block = at.checked_rem(BLOCK_BYTES as u64).unwrap_or(0);
        let blocks = Blocks {
            chunk_offset: at.saturating_sub(in_block),
            ..Blocks::new(file)
        };
        (blocks, to_usize(in_block))
    }

    pub(super) fn file(&self) -> &Arc<dyn RandomAccessFile> {
        &self.file
    }

    /// Returns bytes of the current chunk, at positions that [`Blocks::skip`] returned.
    pub(super) fn get(&self, range: Range<usize>) -> &[u8] {
        self.chunk.get(range).unwrap_or_default()
    }

    /// The unread rest of the block.
    pub(super) fn rest(&self) -> &[u8] {
        self.get(self.rest.clone())
    }

    /// The number of unread bytes of the block.
    pub(super) fn len(&self) -> usize {
        self.rest.len()
    }

    /// The position of the unread rest in the chunk.
    pub(super) fn position(&self) -> usize {
        self.rest.start
    }

    /// The file offset of the unread rest, where the next physical record begins.
    pub(super) fn offset(&self) -> u64 {
        self.chunk_offset.saturating_add(self.rest.start as u64)
    }

    /// Whether the block has its full length.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Whether the rest of the block contains only zeros.
    pub(super) fn rest_is_zero(&self) -> bool {
        self.rest().iter().all(|&byte| byte == 0)
    }

    /// Consumes `bytes` of the block; returns the position after them.
    pub(super) fn skip(&mut self, bytes: usize) -> usize {
        self.rest.start = self.rest.start.saturating_add(bytes).min(self.rest.end);
        self.rest.start
    }

    /// Consumes the rest of the block.
    pub(super) fn skip_rest(&mut self) {
        self.rest.start = self.rest.end;
    }

    /// The unread rest of the block as a [`Tail`], to judge the damaged record at its front.
    pub(super) fn tail(&self) -> Tail<'_> {
        // Chunks begin at blocks, so that sectors are aligned in them as in the file.
        Tail {
            bytes: self.get(0..self.rest.end),
            start: self.rest.start,
        }
    }

    /// Loads the next block and makes it the current one.
    ///
    /// # Errors
    /// If the file cannot be read. With `isolates_errors`, the blocks are then read one by one, and
    /// those that cannot be read are [`Loaded::Unreadable`].
    pub(super) fn load(&mut self, isolates_errors: bool) -> Result<Loaded> {
        let start = self.rest.end;
        if start >= self.chunk.len() {
            let offset = self.chunk_offset.saturating_add(start as u64);
            let left = self.file.len().saturating_sub(offset);
            if left == 0 {
                return Ok(Loaded::EndOfFile);
            }
            self.chunk_offset = offset;
            self.rest = 0..0;
            if let Err(error) = self.read_chunk(left.min(self.chunk_bytes as u64), isolates_errors)
            {
                if !isolates_errors {
                    return Err(error);
                }
                self.rest = 0..self.chunk.len();
                return Ok(Loaded::Unreadable(error));
            }
            if self.chunk.is_empty() {
                return Ok(Loaded::EndOfFile);
            }
        }
        let start = self.rest.end;
        let end = start.saturating_add(BLOCK_BYTES).min(self.chunk.len());
        self.rest = start..end;
        self.is_whole = end.saturating_sub(start) == BLOCK_BYTES;
        Ok(Loaded::Block)
    }

    /// Reads the chunk at `chunk_offset`; with `isolates_errors` retries an error with one block.
    fn read_chunk(&mut self, bytes: u64, isolates_errors: bool) -> Result<()> {
        self.chunk.resize(to_usize(bytes), 0);
        let mut read = read_up_to(&*self.file, self.chunk_offset, &mut self.chunk);
        if read.is_err() && isolates_errors {
            self.chunk.truncate(BLOCK_BYTES);
            read = read_up_to(&*self.file, self.chunk_offset, &mut self.chunk);
        }
        self.chunk.truncate(read?);
        Ok(())
    }
}

/// Reads until `buffer` is full or a read returns no bytes; returns the number of bytes read.
fn read_up_to(file: &dyn RandomAccessFile, offset: u64, buffer: &mut [u8]) -> Result<usize> {
    let mut filled = 0_usize;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(offset.saturating_add(filled as u64), rest)? {
            0 => break,
            read => filled = filled.saturating_add(read),
        }
    }
    Ok(filled)
}
