//! The buffer that combines small appends into large writes, and the file that uses it.

use koeldb_base::coding::to_usize;
use koeldb_base::{Error, ErrorKind, Result};

use crate::file::{FileSync, REUSED_ZEROS, REUSED_ZEROS_UNIT, WritableFile};
use crate::origin::Origin;

/// The file below a write buffer, which receives the bytes that leave the buffer.
pub(crate) trait Sink: Send + std::fmt::Debug {
    /// Appends all of `bytes`.
    fn write(&mut self, bytes: &[u8]) -> Result<()>;

    /// Makes the written bytes durable, with `all` metadata or only what is needed to read them.
    fn sync(&mut self, all: bool) -> Result<()>;

    /// Returns a handle that syncs the written bytes; `None` if a sync must write some.
    fn sync_handle(&self) -> Result<Option<Box<dyn FileSync>>> {
        Ok(None)
    }

    /// The length written so far.
    fn len(&self) -> u64;

    /// Whether the former content of a reused file follows the bytes written.
    fn has_remains(&self) -> bool {
        false
    }

    /// Cuts the file to the bytes written and releases unused space; no write may follow.
    fn finish(&mut self) -> Result<()>;
}

/// Returns how many zeros must follow a write to `end` in a reused file of `former_len` bytes.
///
/// They mark the end of the bytes written.
pub(crate) fn zeros_behind(end: u64, former_len: u64) -> usize {
    let until = end.saturating_add(REUSED_ZEROS);
    let until = until.saturating_add(REUSED_ZEROS_UNIT - 1) / REUSED_ZEROS_UNIT * REUSED_ZEROS_UNIT;
    to_usize(until.min(former_len).saturating_sub(end))
}

/// A [`WritableFile`] with a buffer over a [`Sink`], which stays failed after its first failure.
///
/// Every later call returns the first error, so that no caller takes a second sync for a success.
#[derive(Debug)]
pub(crate) struct BufferedFile<S: Sink> {
    buffer: WriteBuffer,
    sink: S,
    failure: Option<Error>,
    closed: bool,
    /// A forked child must not write: it shares the position with its parent, and has a copy of
    /// the buffer.
    origin: Origin,
}

impl<S: Sink> BufferedFile<S> {
    /// Creates a file over `sink` that buffers up to `buffer_bytes` bytes; 0 buffers nothing.
    pub(crate) fn new(sink: S, buffer_bytes: usize) -> Self {
        BufferedFile {
            buffer: WriteBuffer::new(buffer_bytes),
            sink,
            failure: None,
            closed: false,
            origin: Origin::here(),
        }
    }

    /// Runs `step` on buffer and sink, unless an earlier one failed or this is a forked child.
    fn attempt(&mut self, step: impl FnOnce(&mut WriteBuffer, &mut S) -> Result<()>) -> Result<()> {
        if let Some(error) = &self.failure {
            return Err(error.clone());
        }
        if !self.origin.is_here() {
            let error = "a forked child cannot write a file that its parent opened";
            return Err(Error::with_kind(ErrorKind::Aborted, error));
        }
        let result = step(&mut self.buffer, &mut self.sink);
        if let Err(error) = &result {
            self.failure = Some(error.clone());
        }
        result
    }

    /// Flushes the buffer and syncs the file.
    fn sync(&mut self, all: bool) -> Result<()> {
        self.attempt(|buffer, sink| {
            buffer.flush(|bytes| sink.write(bytes))?;
            sink.sync(all)
        })
    }

    /// Writes the buffered bytes, then finishes the sink, even if the write failed.
    fn end(&mut self) -> Result<()> {
        self.closed = true;
        let flushed = self.flush();
        let finished = self.sink.finish();
        flushed.and(finished)
    }
}

impl<S: Sink> WritableFile for BufferedFile<S> {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.attempt(|buffer, sink| buffer.append(bytes, |bytes| sink.write(bytes)))
    }

    fn flush(&mut self) -> Result<()> {
        self.attempt(|buffer, sink| buffer.flush(|bytes| sink.write(bytes)))
    }

    fn sync_data(&mut self) -> Result<()> {
        self.sync(false)
    }

    fn sync_all(&mut self) -> Result<()> {
        self.sync(true)
    }

    fn sync_handle(&self) -> Result<Option<Box<dyn FileSync>>> {
        self.sink.sync_handle()
    }

    fn len(&self) -> u64 {
        self.sink.len() + self.buffer.len()
    }

    fn has_remains(&self) -> bool {
        self.sink.has_remains()
    }

    fn cut(&mut self) -> Result<()> {
        self.attempt(|buffer, sink| {
            buffer.flush(|bytes| sink.write(bytes))?;
            match sink.has_remains() {
                true => sink.finish(),
                false => Ok(()),
            }
        })
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        self.end()
    }
}

impl<S: Sink> Drop for BufferedFile<S> {
    fn drop(&mut self) {
        if !self.closed && self.origin.is_here() {
            let _ = self.end();
        }
    }
}

/// A buffer that combines appended bytes into pieces of its size.
///
/// Writes stay aligned to that size as long as there is no flush in between.
#[derive(Debug)]
struct WriteBuffer {
    bytes: Vec<u8>,
    limit: usize,
}

impl WriteBuffer {
    /// Creates a buffer of `limit` bytes; with 0 it buffers nothing.
    fn new(limit: usize) -> Self {
        WriteBuffer {
            bytes: Vec::new(),
            limit,
        }
    }

    /// The number of buffered bytes.
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Buffers bytes, and writes whole multiples of the limit as they fill up.
    fn append(
        &mut self,
        mut bytes: &[u8],
        mut write: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        if self.limit == 0 {
            return write(bytes);
        }
        if !self.bytes.is_empty() && self.bytes.len() + bytes.len() >= self.limit {
            let (fits, rest) = bytes.split_at(self.limit - self.bytes.len());
            self.bytes.extend_from_slice(fits);
            self.flush(&mut write)?;
            bytes = rest;
        }
        if bytes.len() >= self.limit {
            let (whole, rest) = bytes.split_at(bytes.len() - bytes.len() % self.limit);
            write(whole)?;
            bytes = rest;
        }
        if self.bytes.capacity() == 0 && !bytes.is_empty() {
            self.bytes.reserve_exact(self.limit);
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// Passes on the buffered bytes, which are discarded even after an error.
    fn flush(&mut self, mut write: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        let result = write(&self.bytes);
        self.bytes.clear();
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_come_in_multiples_of_the_buffer_and_nothing_is_lost() {
        let mut random = crate::random::Random::new(7);
        let mut buffer = WriteBuffer::new(64);
        let mut expected = Vec::new();
        let mut written: Vec<u8> = Vec::new();
        for _ in 0..500 {
            let len = koeldb_base::coding::to_usize(random.below(200));
            let bytes: Vec<u8> = (0..len).map(|_| random.next().to_le_bytes()[0]).collect();
            expected.extend_from_slice(&bytes);
            buffer
                .append(&bytes, |piece| {
                    assert_eq!(piece.len() % 64, 0);
                    written.extend_from_slice(piece);
                    Ok(())
                })
                .unwrap();
        }
        assert_eq!(written.len() as u64 + buffer.len(), expected.len() as u64);
        buffer
            .flush(|piece| {
                written.extend_from_slice(piece);
                Ok(())
            })
            .unwrap();
        assert_eq!(written, expected);
    }
}
