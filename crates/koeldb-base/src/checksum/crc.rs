//! CRC-32C and the masking of stored CRCs.
//!
//! Masking keeps the CRC of data that contains CRCs a good checksum (`docs/formats/README.md`).

/// The constant that masking adds after the rotation.
const MASK_DELTA: u32 = 0xa282_ead8;

/// CRC-32C (Castagnoli) of `bytes`.
#[inline]
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    ::crc32c::crc32c(bytes)
}

/// Extends `crc`, the CRC-32C of some data, by `bytes` appended to that data.
#[inline]
#[must_use]
pub fn crc32c_extend(crc: u32, bytes: &[u8]) -> u32 {
    ::crc32c::crc32c_append(crc, bytes)
}

/// Masks a CRC-32C for storage (RocksDB: `crc32c::Mask`).
#[inline]
#[must_use]
pub const fn mask(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(MASK_DELTA)
}

/// Unmasks a stored CRC-32C: the inverse of [`mask`].
#[inline]
#[must_use]
pub const fn unmask(masked: u32) -> u32 {
    masked.wrapping_sub(MASK_DELTA).rotate_left(15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_of_the_format() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(mask(0xe306_9283), 0xc78a_b0e5);
        assert_eq!(mask(crc32c(b"")), 0xa282_ead8);
        assert_eq!(unmask(0xc78a_b0e5), 0xe306_9283);
        assert_eq!(crc32c_extend(crc32c(b"1234"), b"56789"), 0xe306_9283);
    }
}
