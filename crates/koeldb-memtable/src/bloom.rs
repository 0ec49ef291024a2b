//! The optional filter of a memtable: it says which keys were certainly not inserted.
//!
//! A Bloom filter whose bits are set while it is read. All probes of a key lie in one cache line, chosen and
//! filled by parts of one 64-bit hash, as in RocksDB's `util/dynamic_bloom.h`; nothing of it reaches a file.

use std::sync::atomic::{AtomicU64, Ordering};

use koeldb_base::checksum::xxph3_64;

/// Bits set for each key.
const PROBES: u32 = 6;
const LINE_WORDS: usize = 8;

#[repr(align(64))]
#[derive(Default)]
struct Line([AtomicU64; LINE_WORDS]);

/// The filter. Inserts and probes go on at once.
pub(crate) struct MemtableBloom {
    lines: Box<[Line]>,
}

impl MemtableBloom {
    /// An empty filter of `bytes` bytes, rounded up to a cache line.
    pub(crate) fn new(bytes: usize) -> Self {
        let lines = bytes.div_ceil(size_of::<Line>()).max(1);
        MemtableBloom {
            lines: (0..lines).map(|_| Line::default()).collect(),
        }
    }

    /// The hash of a key or prefix: the one that look-ups compute for files.
    pub(crate) fn hash(key: &[u8]) -> u64 {
        xxph3_64(key)
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.lines)
    }

    /// Notes a key. Visible to every reader that an acquire after this call tells of the key.
    pub(crate) fn insert(&self, hash: u64) {
        let line = self.line(hash);
        for (word, bit) in probes(hash) {
            // Most bits of a hot key are set already: reading keeps the line shared.
            if line.0[word].load(Ordering::Relaxed) & bit == 0 {
                line.0[word].fetch_or(bit, Ordering::Relaxed);
            }
        }
    }

    /// Whether the key may have been noted.
    pub(crate) fn may_contain(&self, hash: u64) -> bool {
        let line = self.line(hash);
        probes(hash).all(|(word, bit)| line.0[word].load(Ordering::Relaxed) & bit != 0)
    }

    fn line(&self, hash: u64) -> &Line {
        // The high half of the product is below the count: a fair choice without a division.
        let product = u128::from(hash) * self.lines.len() as u128;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "below the count, which is a usize"
        )]
        let index = (product >> 64) as usize;
        &self.lines[index]
    }
}

/// The bits of a key within its line: a word and a mask each.
fn probes(hash: u64) -> impl Iterator<Item = (usize, u64)> {
    // The line was chosen by the high bits.
    let mut bits = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..PROBES).map(move |_| {
        let word = usize::from((bits >> 61) as u8);
        let bit = 1 << ((bits >> 55) & 63);
        bits = bits.rotate_left(9);
        (word, bit)
    })
}
