//! The keys of entries.

/// The key of an entry: a file, numbered by [`Cache::new_id`], and an offset in it.
///
/// [`Cache::new_id`]: crate::Cache::new_id
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CacheKey {
    /// The file number, from [`Cache::new_id`](crate::Cache::new_id).
    pub file: u64,
    /// The offset of the entry in its file.
    pub offset: u64,
}

impl CacheKey {
    /// Returns a well-mixed 64-bit hash of the file number and the offset.
    ///
    /// It is the XOR of the halves of a 128-bit product of both.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "takes the product apart")]
    pub(crate) fn hash(self) -> u64 {
        let file = self.file ^ 0x9e37_79b9_7f4a_7c15;
        let offset = self.offset.wrapping_mul(0xd6e8_feb8_6659_fd93) ^ 0xa076_1d64_78bd_642f;
        let product = u128::from(file.wrapping_mul(0xe703_7ed1_a0b4_28db)) * u128::from(offset);
        product as u64 ^ (product >> 64) as u64
    }
}
