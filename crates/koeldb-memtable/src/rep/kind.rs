//! The kinds of representations, their requirements, and their bucket counts.

use koeldb_base::{Error, KeyOrder, Result};

use super::options::MemtableOptions;
use super::prefix_hash::BUCKET_BYTES;
use super::sorted_hash::PLACE_BYTES;

/// The number of entries per bucket of eight keys when the number of buckets is chosen
/// automatically.
///
/// Few buckets then have more keys than slots.
const ENTRIES_PER_PLACES: usize = 5;
/// The divisor of the write buffer size that limits buckets: an empty memtable must not be full.
const BUCKETS_SHARE_MAX: usize = 8;
/// The assumed entry size without a predecessor: a quarter of a kilobyte, between small and large
/// values.
const ENTRY_BYTES: usize = 256;

/// The kind of memtable representation, with its parameters (RocksDB: `MemTableRepFactory`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RepKind {
    /// A concurrent indexed sorted list, the general-purpose choice; `SkipListFactory` maps to it.
    SkipList {
        /// Steps forward that a seek tries before it searches from the index.
        lookahead: usize,
    },
    /// An append-only vector, sorted when it is read (`VectorRepFactory`): for bulk loads.
    Vector {
        /// The number of entries to reserve space for.
        reserved: usize,
    },
    /// A hash table of prefixes with an indexed sorted list for each (`HashSkipListRepFactory`).
    ///
    /// Scans beyond one prefix make a sorted copy.
    HashSkipList {
        /// The number of buckets; reduced if they would take more than an eighth of the write
        /// buffer.
        bucket_count: usize,
    },
    /// A hash table of prefixes with a sorted list for each (`HashLinkListRepFactory`).
    ///
    /// Scans beyond one prefix make a sorted copy.
    HashLinkList {
        /// The number of buckets; reduced if they would take more than an eighth of the write
        /// buffer.
        bucket_count: usize,
        /// The number of entries that a search walks past before a list gets an index.
        skip_list_threshold: usize,
    },
    /// A hash table of keys whose entries are sorted on demand (`speedb.HashSpdRepFactory`).
    ///
    /// It has the fastest inserts and lookups.
    SortedHash {
        /// The capacity in keys of the buckets, eight keys in each; 0 chooses it automatically.
        ///
        /// It is rounded up to a power of two, and reduced if the buckets would take more than an
        /// eighth of the write buffer. The automatic choice depends on the write buffer and the
        /// entries.
        bucket_count: usize,
        /// The number of entries in a vector of the write list, which is sorted when it is full.
        sorted_vector_limit: usize,
    },
}

impl Default for RepKind {
    fn default() -> Self {
        RepKind::SkipList { lookahead: 0 }
    }
}

impl RepKind {
    /// The default number of buckets of [`RepKind::HashSkipList`].
    pub const HASH_SKIP_LIST_BUCKETS: usize = 1_000_000;
    /// The default number of buckets of [`RepKind::HashLinkList`].
    pub const HASH_LINK_LIST_BUCKETS: usize = 50_000;
    /// The default threshold of [`RepKind::HashLinkList`].
    pub const SKIP_LIST_THRESHOLD: usize = 256;
    /// The default number of buckets of [`RepKind::SortedHash`] under its published name.
    pub const SORTED_HASH_BUCKETS: usize = 1_000_000;
    /// The default vector limit of [`RepKind::SortedHash`].
    pub const SORTED_VECTOR_LIMIT: usize = 10_000;

    /// Fails if the kind does not support this key order or lacks the prefix extractor it needs.
    ///
    /// A memtable falls back to a skip list if it does not.
    ///
    /// # Errors
    /// `InvalidArgument` if it hashes keys and the order may find different bytes equal, or if it
    /// needs a prefix extractor and has none.
    pub fn check(&self, order: &KeyOrder, has_prefixes: bool) -> Result<()> {
        let (is_served, needs_prefixes) = match self {
            RepKind::SkipList { .. } | RepKind::Vector { .. } => (true, false),
            RepKind::HashSkipList { .. } | RepKind::HashLinkList { .. } => {
                (order.permits_hashes(), true)
            }
            RepKind::SortedHash { .. } => (order.equal_keys_have_equal_bytes(), false),
        };
        if !is_served {
            return Err(Error::invalid_argument(format!(
                "a memtable that hashes keys needs a comparator whose equal keys have equal bytes; {} does not say that of \
                 itself",
                order.name()
            )));
        }
        if needs_prefixes && !has_prefixes {
            return Err(Error::invalid_argument(
                "a memtable that hashes prefixes needs a prefix extractor",
            ));
        }
        Ok(())
    }
}

/// Returns the key capacity of a sorted hash memtable; `None` for other representations.
///
/// It depends on the options and the expected entry size.
pub(crate) fn bucket_count(options: &MemtableOptions, entry_bytes: Option<usize>) -> Option<usize> {
    matches!(options.rep, RepKind::SortedHash { .. })
        .then(|| sorted_hash_bucket_count(options, entry_bytes))
}

/// Returns how many keys all buckets of a sorted hash memtable hold together, a power of two.
pub(super) fn sorted_hash_bucket_count(
    options: &MemtableOptions,
    entry_bytes: Option<usize>,
) -> usize {
    let max = (options.write_buffer_bytes / BUCKETS_SHARE_MAX / PLACE_BYTES).max(1);
    let wanted = match options.rep {
        RepKind::SortedHash { bucket_count, .. } if bucket_count > 0 => bucket_count,
        _ => {
            let entry_bytes = entry_bytes.unwrap_or(ENTRY_BYTES).max(1);
            let entries = options.write_buffer_bytes / entry_bytes;
            entries / ENTRIES_PER_PLACES * 8
        }
    };
    // The largest power of two that is not above the maximum.
    let max = (max / 2 + 1).next_power_of_two();
    wanted.max(1).next_power_of_two().min(max)
}

/// Returns the number of buckets of a prefix hash memtable, limited by the write buffer size.
pub(super) fn prefix_bucket_count(options: &MemtableOptions) -> usize {
    let wanted = match options.rep {
        RepKind::HashSkipList { bucket_count } | RepKind::HashLinkList { bucket_count, .. } => {
            bucket_count
        }
        _ => 1,
    };
    let max = options.write_buffer_bytes / BUCKETS_SHARE_MAX / BUCKET_BYTES;
    wanted.min(max).max(1)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::rep::sorted_hash::BucketArray;

    #[test]
    fn buckets_take_a_share_of_the_write_buffer_whatever_an_address_takes() {
        for write_buffer_bytes in [1 << 20, 3 << 20, 64 << 20, 100_000_000] {
            for bucket_count in [0, 1_000_000, 1 << 30] {
                let options = MemtableOptions {
                    rep: RepKind::SortedHash {
                        bucket_count,
                        sorted_vector_limit: 1,
                    },
                    write_buffer_bytes,
                    ..MemtableOptions::default()
                };
                let count = sorted_hash_bucket_count(&options, Some(1));
                let bytes = BucketArray::bytes_of(count);
                assert!(
                    bytes <= write_buffer_bytes / BUCKETS_SHARE_MAX,
                    "{bytes} bytes of {write_buffer_bytes}"
                );
            }
        }
    }
}
