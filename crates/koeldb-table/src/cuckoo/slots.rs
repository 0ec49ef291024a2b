//! The slots of a table in memory: the mapped file, or a copy of it.
//!
//! A read is a slice of one segment. Segments begin 2 GiB apart and each extends by a window's
//! length, so that a window that begins in a segment is contained in it. All but the largest tables
//! have one segment.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::sync::Arc;

use koeldb_base::coding::to_usize;
use koeldb_base::{Buffer, Error, PinnedSlice, Result};
use koeldb_fs::resident::resident_copy;
use koeldb_fs::{MappedPages, RandomAccessFile};

use super::residency::{EffectiveResidency, Residency, Resident};
use crate::block::{BlockBytes, prefetch};

/// The distance between the starts of the segments in which slots are addressed.
const SEGMENT_BYTES: u64 = 1 << 31;

/// The bytes of a cuckoo table's slots and versions, in a mapped file or a copy in memory.
#[derive(Debug)]
pub(super) struct Slots {
    first: BlockBytes,
    rest: Vec<BlockBytes>,
    buffer: Arc<Buffer>,
    data_bytes: u64,
    is_mapped: bool,
}

impl Slots {
    /// Maps the first `data_bytes` bytes of a file, or copies them into memory.
    ///
    /// They are read in pieces of up to `window_bytes`, at most 1 GiB. They are mapped if the file
    /// is and `residency` does not require a copy.
    ///
    /// # Errors
    /// If the system fails, or there is no memory for the copy.
    pub(super) fn load(
        file: &dyn RandomAccessFile,
        data_bytes: u64,
        window_bytes: usize,
        residency: Residency,
    ) -> Result<Self> {
        let mapped = file.mapped().filter(|_| residency != Residency::Copied);
        let (buffer, is_mapped) = match mapped {
            Some(mapped) => {
                if residency == Residency::MappedHuge {
                    file.arrange_mapping(MappedPages::Huge)?;
                }
                (Arc::clone(mapped), true)
            }
            None => (Arc::new(resident_copy(file, data_bytes)?), false),
        };
        let segment = |start: u64| {
            let len = data_bytes
                .saturating_sub(start)
                .min(SEGMENT_BYTES.saturating_add(window_bytes as u64));
            let len = u32::try_from(len)
                .map_err(|_| Error::not_supported("cuckoo table: window larger than 1 GiB"))?;
            Ok::<_, Error>(if is_mapped {
                BlockBytes::mapped(Arc::clone(&buffer), start, len)
            } else {
                BlockBytes::new(Arc::clone(&buffer), start, len)
            })
        };
        let mut rest = Vec::new();
        let mut start = SEGMENT_BYTES;
        while start < data_bytes {
            rest.push(segment(start)?);
            start = start.saturating_add(SEGMENT_BYTES);
        }
        Ok(Slots {
            first: segment(0)?,
            rest,
            buffer,
            data_bytes,
            is_mapped,
        })
    }

    /// Returns the segment that contains file offset `start`, and the position within it.
    #[inline(always)]
    fn segment(&self, start: u64) -> (&[u8], usize) {
        if start < SEGMENT_BYTES {
            return (self.first.as_slice(), to_usize(start));
        }
        let index = to_usize(start >> 31).saturating_sub(1);
        let bytes = self.rest.get(index).map_or(&[][..], BlockBytes::as_slice);
        (bytes, to_usize(start & (SEGMENT_BYTES - 1)))
    }

    /// Returns the `len` bytes at `start`, at most a window; empty if not all are in the table.
    #[inline]
    pub(super) fn bytes(&self, start: u64, len: usize) -> &[u8] {
        let (bytes, at) = self.segment(start);
        let behind = bytes.get(at..).unwrap_or_default();
        behind.get(..len).unwrap_or_default()
    }

    /// Returns the `LEN` bytes at `start`, at most a window; `None` if not all are in the table.
    #[inline(always)]
    pub(super) fn window<const LEN: usize>(&self, start: u64) -> Option<&[u8; LEN]> {
        let (bytes, at) = self.segment(start);
        bytes.get(at..)?.first_chunk()
    }

    /// Prefetches the first and the last cache line of the `len` bytes at `start`.
    #[inline]
    pub(super) fn prefetch(&self, start: u64, len: usize) {
        let (bytes, at) = self.segment(start);
        prefetch(bytes, at);
        prefetch(bytes, at.saturating_add(len).saturating_sub(1));
    }

    /// Returns `value`, at offset `start`, as a pinned slice, which outlives the table.
    #[inline]
    pub(super) fn pin(&self, start: u64, value: &[u8]) -> PinnedSlice {
        PinnedSlice::pin_bytes(&self.buffer, start, value)
    }

    /// Whether the slots are in the mapped file instead of a copy.
    pub(super) fn is_mapped(&self) -> bool {
        self.is_mapped
    }

    /// Returns where the slots are held, with address and size.
    pub(super) fn resident(&self) -> Resident {
        Resident {
            place: if self.is_mapped {
                EffectiveResidency::Mapped
            } else {
                EffectiveResidency::Copied
            },
            address: Some(self.first.as_slice().as_ptr().addr()),
            bytes: self.data_bytes,
        }
    }

    /// The memory of the copy; 0 for a mapped file.
    pub(super) fn copied_bytes(&self) -> u64 {
        if self.is_mapped { 0 } else { self.data_bytes }
    }
}
