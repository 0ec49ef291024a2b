//! Append-only files.
#![expect(unsafe_code, reason = "sync_file_range has no safe wrapper")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use koeldb_base::{Error, Result};

use crate::file::{WritableFile, WriteOptions};
use crate::write_buffer::{BufferedFile, Sink};

/// Wraps a file of length `len` that is open for writing.
pub(super) fn writer(
    file: File,
    path: &Path,
    len: u64,
    options: &WriteOptions,
) -> Box<dyn WritableFile> {
    let sink = PosixSink {
        file,
        path: path.to_owned(),
        written: len,
        hinted: len,
        bytes_per_sync: options.bytes_per_sync,
        preallocated: len,
        preallocate_bytes: options.preallocate_bytes,
    };
    Box::new(BufferedFile::new(sink, options.buffer_bytes))
}

#[derive(Debug)]
struct PosixSink {
    file: File,
    path: PathBuf,
    /// The number of bytes already passed to the operating system.
    written: u64,
    /// The offset up to which write-back was requested.
    hinted: u64,
    bytes_per_sync: u64,
    /// The offset up to which space was preallocated.
    preallocated: u64,
    /// The step size of preallocation; 0 disables it.
    preallocate_bytes: u64,
}

impl Sink for PosixSink {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let end = self.written + bytes.len() as u64;
        self.preallocate(end);
        self.file
            .write_all_at(bytes, self.written)
            .map_err(|error| Error::io(error, "write", &self.path))?;
        self.written = end;
        self.hint_write_back();
        Ok(())
    }

    fn sync(&mut self, all: bool) -> Result<()> {
        let result = if all {
            self.file.sync_all()
        } else {
            self.file.sync_data()
        };
        result.map_err(|error| Error::io(error, "sync", &self.path))
    }

    fn len(&self) -> u64 {
        self.written
    }

    fn finish(&mut self) -> Result<()> {
        self.trim()
            .map_err(|error| Error::io(error, "close", &self.path))
    }
}

impl PosixSink {
    /// Preallocates space in whole steps. A failure is ignored: the write will report the cause.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn preallocate(&mut self, end: u64) {
        if self.preallocate_bytes == 0 || end <= self.preallocated {
            return;
        }
        let Some(until) = end.checked_next_multiple_of(self.preallocate_bytes) else {
            return;
        };
        let _ = rustix::fs::fallocate(
            &self.file,
            rustix::fs::FallocateFlags::KEEP_SIZE,
            self.preallocated,
            until - self.preallocated,
        );
        self.preallocated = until;
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn preallocate(&mut self, end: u64) {
        self.preallocated = end;
    }

    /// Releases unused preallocated space.
    fn trim(&self) -> io::Result<()> {
        if self.preallocated <= self.written {
            return Ok(());
        }
        self.file.set_len(self.written)?;
        // Some file systems keep the space if the length does not change.
        #[cfg(any(target_os = "linux", target_os = "android"))]
        {
            let metadata = self.file.metadata()?;
            let allocated = metadata.blocks().saturating_mul(512);
            let needed = self
                .written
                .checked_next_multiple_of(metadata.blksize().max(1));
            if needed.is_some_and(|needed| allocated > needed) {
                let _ = rustix::fs::fallocate(
                    &self.file,
                    rustix::fs::FallocateFlags::KEEP_SIZE | rustix::fs::FallocateFlags::PUNCH_HOLE,
                    self.written,
                    self.preallocated - self.written,
                );
            }
        }
        Ok(())
    }

    /// Starts write-back of bytes written since the last request. Never waits, never counts as a
    /// sync.
    fn hint_write_back(&mut self) {
        if self.bytes_per_sync == 0 || self.written - self.hinted < self.bytes_per_sync {
            return;
        }
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if let (Ok(offset), Ok(len)) = (
            libc::off64_t::try_from(self.hinted),
            libc::off64_t::try_from(self.written - self.hinted),
        ) {
            // SAFETY: a system call on a descriptor that `self` owns; it touches no memory.
            let _ = unsafe {
                libc::sync_file_range(
                    self.file.as_raw_fd(),
                    offset,
                    len,
                    libc::SYNC_FILE_RANGE_WRITE,
                )
            };
        }
        self.hinted = self.written;
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::file::FileSystem;
    use crate::posix::PosixFileSystem;
    use koeldb_base::error::ErrorDetail;

    #[test]
    fn a_file_that_failed_stays_failed() {
        let path = Path::new("/dev/full");
        let device = File::options().write(true).open(path).unwrap();
        let mut file = writer(device, path, 0, &WriteOptions::default());
        file.append(b"buffered").unwrap();
        let error = file.flush().unwrap_err();
        assert_eq!(error.detail(), Some(ErrorDetail::NoSpace));
        assert!(file.append(b"more").is_err());
        assert!(file.sync_data().is_err());
        assert!(file.close().is_err());
    }

    #[test]
    fn write_back_is_asked_for_in_steps_and_changes_no_byte() {
        let name = format!("koeldb-write-back-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(true);
        let mut sink = PosixSink {
            file: options.open(&path).unwrap(),
            path,
            written: 0,
            hinted: 0,
            bytes_per_sync: 100,
            preallocated: 0,
            preallocate_bytes: 0,
        };
        for (bytes, hinted) in [(60, 0), (60, 120), (99, 120), (1, 220)] {
            sink.write(&vec![bytes; usize::from(bytes)]).unwrap();
            assert_eq!(sink.hinted, hinted);
        }
        sink.finish().unwrap();
        let mut content = [0; 220];
        sink.file.read_exact_at(&mut content, 0).unwrap();
        let expected = [&[60; 120][..], &[99; 99], &[1]].concat();
        assert_eq!(content[..], expected);
        PosixFileSystem::new().remove_file(&sink.path).unwrap();
    }
}
