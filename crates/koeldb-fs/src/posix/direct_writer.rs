//! Append-only files that bypass the page cache.
//!
//! Bytes collect in an aligned buffer and leave it in whole pages. A sync and the end of the file
//! write the incomplete last page, with zeros behind it, and then cut the file to its length; more
//! bytes write that page again.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use koeldb_base::perf::{self, PerfMetric};
use koeldb_base::{Error, Result};

use super::writer::PosixSink;
use crate::aligned::{AlignedBuffer, DIRECT_ALIGNMENT};
use crate::file::{WritableFile, WriteOptions};
use crate::write_buffer::{BufferedFile, Sink};

/// The size of the writes to the device, except the last one of a file.
const PIECE_BYTES: usize = 256 << 10;

/// Creates the writer of a new file that is open for direct I/O.
pub(super) fn direct_writer(
    file: File,
    path: &Path,
    options: &WriteOptions,
) -> Result<Box<dyn WritableFile>> {
    let options = WriteOptions {
        // There is nothing to write back.
        bytes_per_sync: 0,
        ..*options
    };
    let sink = DirectSink {
        file: PosixSink::new(file, path, 0, 0, &options),
        buffer: AlignedBuffer::new(PIECE_BYTES, DIRECT_ALIGNMENT)?,
        buffered: 0,
        is_dirty: false,
    };
    // This buffer would only add a copy.
    Ok(Box::new(BufferedFile::new(sink, 0)))
}

/// The [`Sink`] of a file written with direct I/O, through an aligned buffer of its end.
#[derive(Debug)]
struct DirectSink {
    file: PosixSink,
    buffer: AlignedBuffer,
    /// The bytes in the buffer, the last ones of the file.
    buffered: usize,
    /// Whether the file lacks bytes of the buffer.
    is_dirty: bool,
}

impl DirectSink {
    /// Writes the buffered pages, the last one with zeros at its end.
    ///
    /// An incomplete page stays in the buffer.
    fn write_pages(&mut self) -> Result<()> {
        let end = self.buffered.next_multiple_of(DIRECT_ALIGNMENT);
        self.buffer[self.buffered..end].fill(0);
        let begin = self.file.written - self.buffered as u64;
        self.file.preallocate(begin + end as u64);
        let timer = perf::timer(PerfMetric::WriteNanos);
        self.file
            .file
            .write_all_at(&self.buffer[..end], begin)
            .map_err(|error| Error::io(error, "write", &self.file.path))?;
        drop(timer);
        perf::count(PerfMetric::BytesWritten, end as u64);
        let whole = self.buffered - self.buffered % DIRECT_ALIGNMENT;
        self.buffer.copy_within(whole..self.buffered, 0);
        self.buffered -= whole;
        Ok(())
    }

    /// Writes all buffered bytes, and cuts the file to its length.
    fn write_rest(&mut self) -> Result<()> {
        if self.buffered == 0 || !self.is_dirty {
            return Ok(());
        }
        self.write_pages()?;
        self.file
            .file
            .set_len(self.file.written)
            .map_err(|error| Error::io(error, "truncate", &self.file.path))?;
        self.is_dirty = false;
        Ok(())
    }
}

impl Sink for DirectSink {
    fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let free = &mut self.buffer[self.buffered..];
            let (fits, rest) = bytes.split_at(free.len().min(bytes.len()));
            free[..fits.len()].copy_from_slice(fits);
            self.buffered += fits.len();
            self.is_dirty = true;
            self.file.written += fits.len() as u64;
            if self.buffered == self.buffer.len() {
                self.write_pages()?;
            }
            bytes = rest;
        }
        Ok(())
    }

    fn sync(&mut self, all: bool) -> Result<()> {
        self.write_rest()?;
        self.file.sync(all)
    }

    fn len(&self) -> u64 {
        self.file.written
    }

    fn finish(&mut self) -> Result<()> {
        self.write_rest()?;
        self.file.finish()
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use crate::file::{FileSystem, Purpose, WriteOptions};
    use crate::posix::PosixFileSystem;
    use crate::random::Random;

    #[test]
    fn direct_files_have_what_was_appended_after_each_sync_and_at_the_end() {
        let name = format!("koeldb-direct-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let fs = PosixFileSystem::new();
        let options = WriteOptions {
            direct: true,
            preallocate_bytes: 100_000,
            ..WriteOptions::new(Purpose::Flush)
        };
        let mut file = match fs.create(&path, &options) {
            Ok(file) => file,
            Err(error) => {
                // Some file systems know no direct writes.
                assert!(error.to_string().contains("Invalid argument"), "{error}");
                return;
            }
        };
        let mut random = Random::new(3);
        let mut expected = Vec::new();
        let read = || fs.read_all(&path, 1 << 30, Purpose::Read).unwrap();
        for round in 0..60 {
            let bytes = match round % 3 {
                0 => random.below(10_000),
                1 => 4096 * random.below(5),
                _ => random.below(600_000),
            };
            let piece = vec![u8::try_from(round).unwrap(); usize::try_from(bytes).unwrap()];
            file.append(&piece).unwrap();
            expected.extend_from_slice(&piece);
            assert_eq!(file.len(), expected.len() as u64);
            if random.chance(1, 3) {
                file.sync_data().unwrap();
                assert!(read() == expected, "after {round} appends");
            }
        }
        file.append(b"end").unwrap();
        expected.extend_from_slice(b"end");
        file.close().unwrap();
        assert!(read() == expected);
        fs.remove_file(&path).unwrap();
    }
}
