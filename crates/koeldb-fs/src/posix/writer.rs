//! Append-only files.
#![expect(unsafe_code, reason = "sync_file_range has no safe wrapper")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use koeldb_base::perf::{self, PerfMetric};
use koeldb_base::{Error, Result};

use crate::file::{FileSync, WritableFile, WriteOptions};
use crate::write_buffer::{BufferedFile, Sink, zeros_behind};

/// The size of the largest write to a reused file that is copied, to be one write with its zeros.
const SCRATCH_BYTES_MAX: usize = 64 << 10;

/// Creates the buffered writer that appends to a file of length `len`.
pub(super) fn writer(
    file: File,
    path: &Path,
    len: u64,
    options: &WriteOptions,
) -> Box<dyn WritableFile> {
    let sink = PosixSink::new(file, path, len, 0, options);
    Box::new(BufferedFile::new(sink, options.buffer_bytes))
}

/// Creates the buffered writer that overwrites a file of length `former_len` from its beginning.
pub(super) fn rewriter(
    file: File,
    path: &Path,
    former_len: u64,
    options: &WriteOptions,
) -> Box<dyn WritableFile> {
    let sink = PosixSink::new(file, path, 0, former_len, options);
    Box::new(BufferedFile::new(sink, options.buffer_bytes))
}

/// The [`Sink`] of a file written through the page cache.
#[derive(Debug)]
pub(super) struct PosixSink {
    pub(super) file: File,
    pub(super) path: PathBuf,
    /// The number of bytes already passed to the operating system.
    pub(super) written: u64,
    /// The offset up to which write-back was requested.
    hinted: u64,
    /// The offset up to which space was preallocated, or was allocated by the former content.
    preallocated: u64,
    /// The length of the former content of a reused file; 0 in other files.
    former_len: u64,
    /// The bytes of one write to a reused file; empty between calls.
    scratch: Vec<u8>,
    options: WriteOptions,
}

impl Sink for PosixSink {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let end = self.written + bytes.len() as u64;
        self.preallocate(end);
        let timer = perf::timer(PerfMetric::WriteNanos);
        let written = match zeros_behind(end, self.former_len) {
            0 => self.file.write_all_at(bytes, self.written),
            zeros => self.write_before_zeros(bytes, zeros),
        };
        written.map_err(|error| Error::io(error, "write", &self.path))?;
        drop(timer);
        perf::count(PerfMetric::BytesWritten, bytes.len() as u64);
        self.written = end;
        self.start_write_back()
            .map_err(|error| Error::io(error, "write back", &self.path))
    }

    fn sync(&mut self, all: bool) -> Result<()> {
        sync(&self.file, all || self.options.full_sync, &self.path)
    }

    fn sync_handle(&self) -> Result<Option<Box<dyn FileSync>>> {
        // The duplicate shares the open file description, and so the report of failed write-back.
        let file = self.file.try_clone();
        Ok(Some(Box::new(PosixSync {
            file: file.map_err(|error| Error::io(error, "duplicate", &self.path))?,
            path: self.path.clone(),
            full_sync: self.options.full_sync,
        })))
    }

    fn len(&self) -> u64 {
        self.written
    }

    fn has_remains(&self) -> bool {
        self.former_len > self.written
    }

    fn finish(&mut self) -> Result<()> {
        self.trim()
            .map_err(|error| Error::io(error, "close", &self.path))?;
        self.former_len = 0;
        self.preallocated = self.written;
        Ok(())
    }
}

/// A [`FileSync`] handle for a file that another handle writes.
#[derive(Debug)]
struct PosixSync {
    file: File,
    path: PathBuf,
    full_sync: bool,
}

impl FileSync for PosixSync {
    fn sync_data(&self, _len: u64) -> Result<()> {
        sync(&self.file, self.full_sync, &self.path)
    }
}

/// Syncs a file: `all` metadata, or only what reading the data needs.
fn sync(file: &File, all: bool, path: &Path) -> Result<()> {
    let _timer = perf::timer(PerfMetric::FsyncNanos);
    let result = match all {
        true => file.sync_all(),
        false => file.sync_data(),
    };
    result.map_err(|error| Error::io(error, "sync", path))
}

impl PosixSink {
    /// Creates the sink of a file written up to `len`, and preallocates the first space.
    pub(super) fn new(
        file: File,
        path: &Path,
        len: u64,
        former_len: u64,
        options: &WriteOptions,
    ) -> Self {
        let mut sink = PosixSink {
            file,
            path: path.to_owned(),
            written: len,
            hinted: len,
            preallocated: len.max(former_len),
            former_len,
            scratch: Vec::new(),
            options: *options,
        };
        sink.preallocate(len.saturating_add(1));
        sink
    }

    /// Writes `bytes` and, behind them, zeros over the former content.
    fn write_before_zeros(&mut self, bytes: &[u8], zeros: usize) -> io::Result<()> {
        if bytes.len() > SCRATCH_BYTES_MAX {
            // The zeros first: without them the bytes would seem to continue.
            let end = self.written + bytes.len() as u64;
            self.file.write_all_at(&vec![0; zeros], end)?;
            return self.file.write_all_at(bytes, self.written);
        }
        self.scratch.clear();
        self.scratch.extend_from_slice(bytes);
        self.scratch.resize(bytes.len() + zeros, 0);
        self.file.write_all_at(&self.scratch, self.written)
    }

    /// Preallocates space up to `end`, in whole steps.
    ///
    /// A failure is ignored: the write will report the cause.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(super) fn preallocate(&mut self, end: u64) {
        let step = self.options.preallocate_bytes;
        if step == 0 || end <= self.preallocated {
            return;
        }
        let Some(until) = end.checked_next_multiple_of(step) else {
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

    /// Records `end` as preallocated: this system does not support preallocation.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub(super) fn preallocate(&mut self, end: u64) {
        self.preallocated = end;
    }

    /// Releases unused space, preallocated or of the former content.
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

    /// Starts write-back if `bytes_per_sync` bytes were written since the last one.
    ///
    /// It is not a sync. With `strict_bytes_per_sync` it first waits for the earlier write-back; a
    /// failure of that is returned, as the system does not report it a second time.
    fn start_write_back(&mut self) -> io::Result<()> {
        let WriteOptions {
            bytes_per_sync,
            strict_bytes_per_sync,
            ..
        } = self.options;
        if bytes_per_sync == 0 || self.written - self.hinted < bytes_per_sync {
            return Ok(());
        }
        let begin = if strict_bytes_per_sync {
            0
        } else {
            self.hinted
        };
        self.hinted = self.written;
        self.sync_range(begin, strict_bytes_per_sync)
    }

    /// Starts writing dirty pages back from `begin` on; `waits` waits for earlier ones first.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn sync_range(&self, begin: u64, waits: bool) -> io::Result<()> {
        let (Ok(offset), Ok(len)) = (
            libc::off64_t::try_from(begin),
            libc::off64_t::try_from(self.written - begin),
        ) else {
            return Ok(());
        };
        let waiting = if waits {
            libc::SYNC_FILE_RANGE_WAIT_BEFORE
        } else {
            0
        };
        // SAFETY: a system call on a descriptor that `self` owns; it touches no memory.
        let result = unsafe {
            libc::sync_file_range(
                self.file.as_raw_fd(),
                offset,
                len,
                waiting | libc::SYNC_FILE_RANGE_WRITE,
            )
        };
        let error = io::Error::last_os_error();
        // Without a wait it is a hint. Some systems lack the call.
        if result == 0 || !waits || error.raw_os_error() == Some(libc::ENOSYS) {
            Ok(())
        } else {
            Err(error)
        }
    }

    /// Does nothing: the system has no `sync_file_range`.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn sync_range(&self, _begin: u64, _waits: bool) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

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
        for strict_bytes_per_sync in [false, true] {
            let mut sink = sink(WriteOptions {
                bytes_per_sync: 100,
                strict_bytes_per_sync,
                ..WriteOptions::default()
            });
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

    #[test]
    fn only_a_strict_write_back_reports_failures() {
        for (strict_bytes_per_sync, fails) in [(false, false), (true, true)] {
            let mut sink = sink(WriteOptions {
                bytes_per_sync: 100,
                strict_bytes_per_sync,
                ..WriteOptions::default()
            });
            PosixFileSystem::new().remove_file(&sink.path).unwrap();
            // A device without pages that could be written back.
            sink.file = File::options().write(true).open("/dev/null").unwrap();
            assert_eq!(sink.write(&[1; 100]).is_err(), fails);
        }
    }

    #[test]
    fn space_is_preallocated_from_the_start_and_released_at_the_end() {
        let mut sink = sink(WriteOptions {
            preallocate_bytes: 1 << 20,
            ..WriteOptions::default()
        });
        let blocks = |sink: &PosixSink| sink.file.metadata().unwrap().blocks();
        sink.preallocate(1);
        let reserved = blocks(&sink);
        sink.write(b"content").unwrap();
        assert_eq!(sink.file.metadata().unwrap().len(), 7);
        assert_eq!(blocks(&sink), reserved);
        sink.write(&vec![1; 1 << 20]).unwrap();
        assert_eq!(sink.preallocated, 2 << 20);
        sink.finish().unwrap();
        let bytes = blocks(&sink) * 512;
        assert!(bytes < (1 << 20) + (64 << 10), "{bytes} bytes are left");
        PosixFileSystem::new().remove_file(&sink.path).unwrap();
    }

    #[test]
    fn a_reused_file_preallocates_from_the_end_of_its_former_content_on() {
        let mut sink = sink(WriteOptions {
            preallocate_bytes: 1 << 20,
            ..WriteOptions::default()
        });
        sink.file.write_all_at(&[9; 1 << 20], 0).unwrap();
        sink.preallocated = 1 << 20;
        sink.former_len = 1 << 20;
        sink.write(&vec![1; SCRATCH_BYTES_MAX]).unwrap();
        sink.write(&vec![2; SCRATCH_BYTES_MAX + 1]).unwrap();
        assert_eq!(sink.preallocated, 1 << 20);
        let mut tail = [3; 1 + 64];
        sink.file
            .read_exact_at(&mut tail, sink.written - 1)
            .unwrap();
        assert_eq!(tail[0], 2);
        // 63 zeros end at a multiple of 64.
        assert_eq!(tail[1..64], [0; 63]);
        assert_eq!(tail[64], 9);
        sink.write(&vec![4; 1 << 20]).unwrap();
        assert_eq!(sink.preallocated, 2 << 20);
        sink.finish().unwrap();
        assert_eq!(sink.file.metadata().unwrap().len(), sink.written);
        PosixFileSystem::new().remove_file(&sink.path).unwrap();
    }

    fn sink(options: WriteOptions) -> PosixSink {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("koeldb-writer-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut file = File::options();
        file.read(true).write(true).create(true).truncate(true);
        PosixSink {
            file: file.open(&path).expect("a scratch file is created"),
            path,
            written: 0,
            hinted: 0,
            preallocated: 0,
            former_len: 0,
            scratch: Vec::new(),
            options,
        }
    }
}
