//! The optional Bloom filter of a memtable, which identifies keys that were certainly not inserted.
//!
//! Bits are set while readers probe. All probes of a key fall into one cache line, which is chosen
//! and filled by parts of one 64-bit hash, as in RocksDB's `util/dynamic_bloom.h`. The filter is
//! never written to a file.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use koeldb_base::checksum::xxph3_64;
use koeldb_base::prefix::PrefixExtractor;

/// The number of bits set for each key.
const PROBES: u32 = 6;
const LINE_WORDS: usize = 8;

/// The settings of a memtable's Bloom filter.
#[derive(Clone)]
pub struct BloomOptions {
    /// The size of the filter: the write buffer size times `memtable_prefix_bloom_size_ratio`.
    pub bytes: usize,
    /// Whether whole keys are added (`memtable_whole_key_filtering`).
    pub whole_keys: bool,
    /// The extractor whose prefixes are added.
    pub prefixes: Option<Arc<dyn PrefixExtractor>>,
}

/// A cache line of the bits of a Bloom filter.
#[repr(align(64))]
#[derive(Default)]
struct Line([AtomicU64; LINE_WORDS]);

/// The concurrent Bloom filter of a memtable (RocksDB: `DynamicBloom`).
pub(crate) struct MemtableBloom {
    lines: Box<[Line]>,
}

impl MemtableBloom {
    /// Creates an empty filter of `bytes` bytes, rounded up to a cache line.
    pub(crate) fn new(bytes: usize) -> Self {
        let lines = bytes.div_ceil(size_of::<Line>()).max(1);
        MemtableBloom {
            lines: (0..lines).map(|_| Line::default()).collect(),
        }
    }

    /// Returns the hash of a key or prefix, the same as for the filters of tables.
    pub(crate) fn hash(key: &[u8]) -> u64 {
        xxph3_64(key)
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.lines)
    }

    /// Adds a key or prefix by its hash.
    ///
    /// It is visible to every reader that learns of the key by an acquire after this call.
    pub(crate) fn insert(&self, hash: u64) {
        let line = self.line(hash);
        for (word, bit) in probes(hash) {
            // Most bits of a hot key are set already: reading keeps the line shared.
            if line.0[word].load(Ordering::Relaxed) & bit == 0 {
                line.0[word].fetch_or(bit, Ordering::Relaxed);
            }
        }
    }

    /// Whether a key or prefix with this hash may have been added.
    pub(crate) fn may_contain(&self, hash: u64) -> bool {
        let line = self.line(hash);
        probes(hash).all(|(word, bit)| line.0[word].load(Ordering::Relaxed) & bit != 0)
    }

    /// Returns the cache line of the filter that holds all bits of a key hash.
    fn line(&self, hash: u64) -> &Line {
        // The high half of the product is below the count: a uniform choice without a division.
        let product = u128::from(hash) * self.lines.len() as u128;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "below the count, which is a usize"
        )]
        let index = (product >> 64) as usize;
        &self.lines[index]
    }
}

/// Returns the bits of a key hash within its cache line, as word indexes and bit masks.
fn probes(hash: u64) -> impl Iterator<Item = (usize, u64)> {
    // The high bits already chose the line.
    let mut bits = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..PROBES).map(move |_| {
        let word = usize::from((bits >> 61) as u8);
        let bit = 1 << ((bits >> 55) & 63);
        bits = bits.rotate_left(9);
        (word, bit)
    })
}
