//! The buffer between small appends and large writes.

use koeldb_base::Result;

/// Collects appended bytes and hands them on in pieces of its size, so that writes stay on a grid of that size as
/// long as nobody flushes in between.
#[derive(Debug)]
pub(crate) struct WriteBuffer {
    bytes: Vec<u8>,
    limit: usize,
}

impl WriteBuffer {
    /// A buffer of `limit` bytes; with 0 it holds nothing back.
    pub(crate) fn new(limit: usize) -> Self {
        WriteBuffer {
            bytes: Vec::new(),
            limit,
        }
    }

    /// What is held back.
    pub(crate) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub(crate) fn append(
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

    /// Hands on what is held back; after an error it is gone.
    pub(crate) fn flush(&mut self, mut write: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
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
