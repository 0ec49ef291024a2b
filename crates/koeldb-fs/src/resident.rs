//! Files held in memory: read once, then accessed at random.
//!
//! Random access to a mapped file pays for every page-table page on the way: with 4 KiB pages a
//! lookup misses the TLB too. The copy is therefore in separate memory, for which huge pages are
//! requested.

use std::fmt;

use koeldb_base::coding::to_usize;
use koeldb_base::pinned::Region;
use koeldb_base::{Buffer, Error, ErrorKind, Result};

use crate::file::RandomAccessFile;

/// The size of one read while a file is copied.
const READ_BYTES: usize = 1 << 20;

/// The copy size below which huge pages gain nothing.
const HUGE_BYTES: usize = 4 << 20;

/// An anonymous memory mapping, as a region for pinned values.
struct Anonymous(memmap2::Mmap);

impl Region for Anonymous {
    fn bytes(&self, start: u64, len: u32) -> &[u8] {
        let start = to_usize(start);
        &self.0[start..start + len as usize]
    }
}

impl fmt::Debug for Anonymous {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of anonymous memory", self.0.len())
    }
}

/// Copies the first `len` bytes of a file into memory, for pinned values.
///
/// Position 0 of the buffer is offset 0.
///
/// # Errors
/// `MemoryLimit` if there is not enough memory; `Corruption` if the file is shorter; otherwise the
/// errors of the system.
pub fn resident_copy(file: &dyn RandomAccessFile, len: u64) -> Result<Buffer> {
    let len = to_usize(len);
    let no_memory = || {
        let message = format!("cannot allocate {len} bytes for a copy");
        Error::with_kind(ErrorKind::MemoryLimit, message).in_file(file.path(), None, "read")
    };
    if len < HUGE_BYTES {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).map_err(|_| no_memory())?;
        bytes.resize(len, 0);
        fill(file, &mut bytes)?;
        return Ok(Buffer::from_vec(bytes));
    }
    let mut map = memmap2::MmapMut::map_anon(len).map_err(|_| no_memory())?;
    // Advised before the first byte is written; without huge pages the copy has small ones.
    #[cfg(target_os = "linux")]
    let _ = map.advise(memmap2::Advice::HugePage);
    fill(file, &mut map)?;
    let map = map
        .make_read_only()
        .map_err(|error| Error::io(error, "protect a copy of", file.path()))?;
    Ok(Buffer::from_region(Anonymous(map)))
}

/// Fills `memory` from the start of the file, in pieces.
fn fill(file: &dyn RandomAccessFile, memory: &mut [u8]) -> Result<()> {
    let mut offset = 0;
    for piece in memory.chunks_mut(READ_BYTES) {
        file.read_exact_at(offset, piece)?;
        offset += piece.len() as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::file::{FileSystem, OpenOptions, WriteOptions};
    use crate::memory::MemoryFileSystem;

    #[test]
    fn copies_of_any_size_hold_the_file() {
        let fs = MemoryFileSystem::new();
        for len in [0, 1, READ_BYTES - 1, HUGE_BYTES, HUGE_BYTES + 4097] {
            let path = format!("/{len}");
            let path = Path::new(&path);
            let bytes: Vec<u8> = (0..len).map(|at| u8::try_from(at % 251).unwrap()).collect();
            let mut file = fs.create(path, &WriteOptions::default()).unwrap();
            file.append(&bytes).unwrap();
            file.close().unwrap();
            let file = fs.open(path, &OpenOptions::default()).unwrap();
            let copy = resident_copy(&*file, len as u64).unwrap();
            assert!(copy.slice(0, u32::try_from(len).unwrap()) == bytes);
            let error = resident_copy(&*file, len as u64 + 1).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption);
        }
    }
}
