//! Torn writes: distinguishes damage that a crash can leave at the end of a log from other damage.
//!
//! Unsynced sectors of a file reach the disk in any order, and missing ones are zeros. A torn
//! record therefore misses its end or shows a sector of zeros. A record whose checksum matches with
//! another length or with one bit flipped back was once complete: it was damaged later, regardless
//! of zeros.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use koeldb_base::checksum::{crc32c, crc32c_extend, mask, unmask};

use crate::format::{CHECKSUMMED_FROM, HEADER_BYTES, Header, RECYCLABLE_HEADER_BYTES};

/// The unit that a device writes atomically.
const SECTOR_BYTES: usize = 512;

/// The number of lengths with a matching checksum that are examined: a bound against crafted bytes.
const FITS_MAX: usize = 16;

/// The CRC-32C polynomial, bit-reversed: the change of the checksum when the last bit flips.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// A log block and the position in it of a record that fails verification, to judge its damage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tail<'a> {
    /// The bytes of the file from the beginning of a block, up to the end of the record's block.
    pub(crate) bytes: &'a [u8],
    /// The position in `bytes` of the record that fails verification.
    pub(crate) start: usize,
}

impl<'a> Tail<'a> {
    /// The bytes from the record's header to the end of its block or the file.
    fn rest(self) -> &'a [u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }

    /// Whether a 512-byte sector of the next `bytes` bytes is all zeros: probably never written.
    pub(crate) fn has_lost_sector(self, bytes: usize) -> bool {
        let end = self.start.saturating_add(bytes).min(self.bytes.len());
        let mut at = self.start;
        while at < end {
            if self.is_lost(at) {
                return true;
            }
            at = sector_end(at);
        }
        false
    }

    /// Whether the 512-byte sector with the byte at `at`, as far as in the tail, is all zeros.
    fn is_lost(self, at: usize) -> bool {
        let sector = sector_end(at).saturating_sub(SECTOR_BYTES);
        let range = sector.max(self.start)..sector_end(at).min(self.bytes.len());
        let bytes = self.bytes.get(range).unwrap_or_default();
        bytes.iter().all(|&byte| byte == 0)
    }

    /// Whether the record was once complete: the checksum fits another length or one flipped bit.
    pub(crate) fn was_whole(self) -> bool {
        let Some(header) = Header::decode(self.rest()) else {
            return false;
        };
        self.fits_another_length(&header) || self.fits_without_a_bit(&header)
    }

    /// Whether the stored checksum matches the record if its length field is corrected.
    fn fits_another_length(self, header: &Header) -> bool {
        let covered = self.rest().get(CHECKSUMMED_FROM..).unwrap_or_default();
        let least = header.bytes().saturating_sub(CHECKSUMMED_FROM);
        let Some((front, payload)) = covered.split_at_checked(least) else {
            return false;
        };
        let mut crc = crc32c(front);
        let lengths = std::iter::once(crc).chain(payload.iter().map(|byte| {
            crc = crc32c_extend(crc, &[*byte]);
            crc
        }));
        let fits = lengths
            .enumerate()
            .filter(|&(_, crc)| mask(crc) == header.checksum)
            .map(|(length, _)| length);
        fits.take(FITS_MAX).any(|length| {
            let is_one_bit_off = (length ^ usize::from(header.length)).is_power_of_two();
            is_one_bit_off || begins_a_record(payload.get(length..).unwrap_or_default())
        })
    }

    /// Whether one flipped bit outside of zeroed sectors explains the checksum mismatch.
    ///
    /// A sector of zeros may be one that was never written.
    fn fits_without_a_bit(self, header: &Header) -> bool {
        // The flipped bit may be the one that distinguishes the two kinds of headers.
        [HEADER_BYTES, RECYCLABLE_HEADER_BYTES]
            .into_iter()
            .filter_map(|bytes| {
                self.rest()
                    .get(..bytes.saturating_add(header.length.into()))
            })
            .filter_map(|record| flipped_byte(record, header.checksum))
            .any(|at| !self.is_lost(self.start.saturating_add(at)))
    }
}

/// Returns the end position of the 512-byte sector with the byte at `at`.
fn sector_end(at: usize) -> usize {
    at.saturating_add(1).next_multiple_of(SECTOR_BYTES)
}

/// Returns the position of the byte of `record` whose one flipped bit explains the mismatch.
fn flipped_byte(record: &[u8], checksum: u32) -> Option<usize> {
    let covered = record.get(CHECKSUMMED_FROM..)?;
    let computed = crc32c(covered);
    let stored_change = mask(computed) ^ checksum;
    if stored_change.is_power_of_two() {
        return usize::try_from(stored_change.trailing_zeros() / u8::BITS).ok();
    }
    let change = computed ^ unmask(checksum);
    // The change of the checksum by flipping a bit, from the last bit to the first.
    let mut changed_by = POLYNOMIAL;
    for at in (CHECKSUMMED_FROM..record.len()).rev() {
        for _ in 0..u8::BITS {
            if changed_by == change {
                return Some(at);
            }
            let carry = if changed_by & 1 == 1 { POLYNOMIAL } else { 0 };
            changed_by = changed_by >> 1 ^ carry;
        }
    }
    None
}

/// Whether the rest `bytes` of a block are all zeros or begin with a record with a valid checksum.
fn begins_a_record(bytes: &[u8]) -> bool {
    let is_unused = bytes.iter().all(|&byte| byte == 0);
    let record = || {
        let header = Header::decode(bytes)?;
        let record = bytes.get(..header.record_bytes())?;
        (header.type_byte != 0 && header.verifies(record)).then_some(())
    };
    is_unused || record().is_some()
}
