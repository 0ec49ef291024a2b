//! Files for positional reads: buffered, direct, and mapped.
#![expect(unsafe_code, reason = "a mapping is only as stable as its file")]

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use koeldb_base::coding::to_usize;
use koeldb_base::perf::{self, PerfMetric};
use koeldb_base::pinned::Region;
use koeldb_base::{Buffer, Error, Result};

use crate::aligned::{AlignedBuffer, DIRECT_ALIGNMENT};
#[cfg(target_os = "linux")]
use crate::file::MappedPages;
use crate::file::{AccessHint, RandomAccessFile};

/// The flag of `open` that bypasses the page cache.
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
pub(super) const DIRECT_FLAG: i32 = libc::O_DIRECT;
/// No flag of `open`: `set_uncached` bypasses the page cache where possible.
#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
pub(super) const DIRECT_FLAG: i32 = 0;

/// Disables the page cache for a file, for platforms without `O_DIRECT`.
#[cfg(target_vendor = "apple")]
fn set_uncached(file: &File) -> io::Result<()> {
    Ok(rustix::fs::fcntl_nocache(file, true)?)
}

/// Does nothing: the flag [`DIRECT_FLAG`] bypasses the page cache.
#[cfg(not(target_vendor = "apple"))]
#[expect(
    clippy::unnecessary_wraps,
    reason = "the counterpart on other platforms fails"
)]
fn set_uncached(_file: &File) -> io::Result<()> {
    Ok(())
}

/// Advises the system of the access pattern; failures are ignored.
#[cfg(not(target_vendor = "apple"))]
fn advise(file: &File, hint: AccessHint) {
    let advice = match hint {
        AccessHint::Normal => return,
        AccessHint::Random => rustix::fs::Advice::Random,
        AccessHint::Sequential => rustix::fs::Advice::Sequential,
    };
    let _ = rustix::fs::fadvise(file, 0, None, advice);
}

/// Does nothing: the system takes no such advice.
#[cfg(target_vendor = "apple")]
fn advise(_file: &File, _hint: AccessHint) {}

/// Requests readahead of a range; failures are ignored.
#[cfg(not(target_vendor = "apple"))]
fn will_need(file: &File, offset: u64, len: u64) {
    if let Some(len) = std::num::NonZeroU64::new(len) {
        let _ = rustix::fs::fadvise(file, offset, Some(len), rustix::fs::Advice::WillNeed);
    }
}

/// Requests readahead of a range; failures are ignored.
#[cfg(target_vendor = "apple")]
fn will_need(file: &File, offset: u64, len: u64) {
    let _ = rustix::fs::fcntl_rdadvise(file, offset, len);
}

/// Reads once at `offset`, again if interrupted; the read may be short.
fn read_once(file: &File, path: &Path, offset: u64, buffer: &mut [u8]) -> Result<usize> {
    loop {
        let timer = perf::timer(PerfMetric::ReadNanos);
        let read = file.read_at(buffer, offset);
        drop(timer);
        match read {
            Ok(read) => {
                perf::count(PerfMetric::BytesRead, read as u64);
                return Ok(read);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                let bytes = buffer.len();
                return Err(Error::io(error, "read", path)
                    .context(format!("{bytes} bytes at offset {offset}")));
            }
        }
    }
}

/// Reads at `offset` until the buffer is full or the file ends.
///
/// The file ends at an empty read, or at one that is not a multiple of the alignment.
fn read_fully(
    file: &File,
    path: &Path,
    offset: u64,
    buffer: &mut [u8],
    grid: usize,
) -> Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        let read = read_once(file, path, offset + done as u64, &mut buffer[done..])?;
        done += read;
        if read == 0 || !read.is_multiple_of(grid) {
            break;
        }
    }
    Ok(done)
}

/// A file that is read through the page cache.
#[derive(Debug)]
pub(super) struct PlainFile {
    file: File,
    path: PathBuf,
    len: u64,
}

impl PlainFile {
    /// Wraps an open file of `len` bytes, and advises the system of the access pattern.
    pub(super) fn new(file: File, path: &Path, len: u64, hint: AccessHint) -> Self {
        advise(&file, hint);
        PlainFile {
            file,
            path: path.to_owned(),
            len,
        }
    }
}

impl RandomAccessFile for PlainFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        read_fully(&self.file, &self.path, offset, buffer, 1)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn prefetch(&self, offset: u64, len: u64) {
        will_need(&self.file, offset, len);
    }
}

/// The smallest sector of a device, in bytes.
#[cfg(target_os = "linux")]
const SECTOR: usize = 512;

/// Returns the alignment that direct reads of a file require.
///
/// Most devices accept their sector size, often 512 bytes: a block of 4 KiB then costs a read of
/// 4.5 KiB instead of 8 KiB. [`DIRECT_ALIGNMENT`] where the kernel does not say (before Linux 6.1, and
/// for some file systems).
#[cfg(target_os = "linux")]
fn required_alignment(file: &File) -> usize {
    use rustix::fs::{AtFlags, StatxFlags, statx};
    let Ok(found) = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN) else {
        return DIRECT_ALIGNMENT;
    };
    let offset = found.stx_dio_offset_align as usize;
    let required = offset.max(found.stx_dio_mem_align as usize);
    let is_known = found.stx_mask & StatxFlags::DIOALIGN.bits() != 0 && offset > 0;
    match is_known && required.is_power_of_two() && required <= DIRECT_ALIGNMENT {
        true => required.max(SECTOR),
        false => DIRECT_ALIGNMENT,
    }
}

/// Returns the alignment of direct reads, which the system does not say.
#[cfg(not(target_os = "linux"))]
fn required_alignment(_file: &File) -> usize {
    DIRECT_ALIGNMENT
}

/// A file whose reads bypass the page cache.
///
/// Unaligned requests go through an aligned copy: correct for every caller, and fast for aligned
/// ones.
#[derive(Debug)]
pub(super) struct DirectFile {
    file: File,
    path: PathBuf,
    len: u64,
    /// The alignment of offsets, lengths and buffers.
    grid: usize,
}

impl DirectFile {
    /// Wraps `file`, which must be opened with [`DIRECT_FLAG`].
    pub(super) fn new(file: File, path: &Path, len: u64) -> Result<Self> {
        set_uncached(&file).map_err(|error| Error::io(error, "open direct", path))?;
        Ok(DirectFile {
            grid: required_alignment(&file),
            file,
            path: path.to_owned(),
            len,
        })
    }

    /// Reads an aligned range into an aligned buffer; returns the bytes read.
    fn read_aligned(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        read_fully(&self.file, &self.path, offset, buffer, self.grid)
    }
}

impl RandomAccessFile for DirectFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let grid = self.grid as u64;
        if offset.is_multiple_of(grid)
            && buffer.len().is_multiple_of(self.grid)
            && buffer.as_ptr().addr().is_multiple_of(self.grid)
        {
            return self.read_aligned(offset, buffer);
        }
        let skip = to_usize(offset % grid);
        let mut aligned = AlignedBuffer::new(skip + buffer.len(), DIRECT_ALIGNMENT)?;
        let read = self.read_aligned(offset - offset % grid, &mut aligned)?;
        let there = read.saturating_sub(skip).min(buffer.len());
        buffer[..there].copy_from_slice(&aligned[skip..skip + there]);
        Ok(there)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn alignment(&self) -> usize {
        self.grid
    }
}

/// The mapped bytes of a file, shared by the file object and the buffer in which values are pinned.
#[derive(Clone, Debug)]
struct Mapping(Arc<memmap2::Mmap>);

impl Region for Mapping {
    fn bytes(&self, start: u64, len: u32) -> &[u8] {
        let start = to_usize(start);
        &self.0[start..start + len as usize]
    }
}

/// A file that is read from a memory mapping.
#[derive(Debug)]
pub(super) struct MappedFile {
    mapping: Mapping,
    buffer: Arc<Buffer>,
    path: PathBuf,
    len: u64,
}

impl MappedFile {
    /// Maps the first `len` bytes of a file.
    pub(super) fn new(file: &File, path: &Path, len: u64) -> Result<Self> {
        let mut options = memmap2::MmapOptions::new();
        options.len(to_usize(len));
        // SAFETY: the engine maps only files that are complete and never written again, under its
        // lock on the directory. If another process truncates such a file, this process dies of
        // SIGBUS, as with every user of mapped files; `OpenOptions::mmap` is off unless requested.
        let map = unsafe { options.map(file) }.map_err(|error| Error::io(error, "map", path))?;
        // With huge pages a random lookup needs one TLB entry. `Advice::Random` is never given: it
        // makes filling the mapping slower by an order of magnitude, because the system then reads
        // page by page.
        #[cfg(target_os = "linux")]
        let _ = map.advise(memmap2::Advice::HugePage);
        let mapping = Mapping(Arc::new(map));
        Ok(MappedFile {
            buffer: Arc::new(Buffer::from_region(mapping.clone())),
            mapping,
            path: path.to_owned(),
            len,
        })
    }
}

impl RandomAccessFile for MappedFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let bytes = &self.mapping.0[..];
        let rest = usize::try_from(offset)
            .ok()
            .and_then(|offset| bytes.get(offset..))
            .unwrap_or(&[]);
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn mapped(&self) -> Option<&Arc<Buffer>> {
        Some(&self.buffer)
    }

    #[cfg(target_os = "linux")]
    fn arrange_mapping(&self, pages: MappedPages) -> Result<()> {
        let map = &self.mapping.0;
        match pages {
            MappedPages::Small => {
                let _ = map.advise(memmap2::Advice::NoHugePage);
                Ok(())
            }
            MappedPages::Huge => match map.advise(memmap2::Advice::PopulateRead) {
                // Linux before 5.14 returns this.
                Err(error)
                    if error.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error()) =>
                {
                    Ok(())
                }
                result => result.map_err(|error| Error::io(error, "read in", &self.path)),
            },
        }
    }

    fn prefetch(&self, offset: u64, len: u64) {
        let end = offset.saturating_add(len).min(self.len());
        if offset < end {
            let _ = self.mapping.0.advise_range(
                memmap2::Advice::WillNeed,
                to_usize(offset),
                to_usize(end - offset),
            );
        }
    }
}
