//! The options of cuckoo tables.

use koeldb_table::cuckoo::residency::Residency;

use super::declare::option_section;
use super::value::enum_texts;

enum_texts!(Residency {
    Residency::Auto = "kAuto",
    Residency::Mapped = "kMapped",
    Residency::MappedHuge = "kMappedHuge",
    Residency::Copied = "kCopied",
    Residency::Paged = "kPaged",
});

option_section! {
    /// The options of cuckoo tables: hash tables of fixed-size entries for point reads.
    pub struct CuckooTableOptions, "TableOptions/CuckooTable";
    options {
        /// Target share of used buckets.
        [honoured mutable "6.14"] hash_table_ratio: f64 = 0.9, "0..1.",
            set_hash_ratio(ratio: f64), get_hash_ratio;
        /// Depth of the displacement search while building.
        [honoured mutable "6.14"] max_search_depth: u32 = 100, "",
            set_max_search_depth(count: u32), get_max_search_depth;
        /// Adjacent buckets probed per hash function.
        [honoured mutable "6.14"] cuckoo_block_size: u32 = 5, "At least 1.",
            set_cuckoo_block_size(count: u32), get_cuckoo_block_size;
        /// First hash is the key's first 8 bytes as an integer.
        [honoured mutable "6.14"] identity_as_first_hash: bool = false, "",
            set_identity_as_first_hash(on: bool), get_identity_as_first_hash;
        /// Bucket by modulo instead of by a power-of-two mask.
        [honoured mutable "6.14"] use_module_hash: bool = true, "",
            set_use_module_hash(on: bool), get_use_module_hash;
        /// Keep entries without a bucket, older versions for snapshots, merge operands and values
        /// of any length, in a format that RocksDB rejects. Without it a table that needs these is
        /// block-based.
        [honoured mutable "KoelDB 0.1"] keep_versions: bool = false, "",
            set_keep_versions(on: bool), get_keep_versions;
        /// Residency of an open table: `kAuto` (mapped with allow_mmap_reads, read in pieces with
        /// use_direct_reads, otherwise copied), `kMapped` (pages of 4 KiB), `kMappedHuge` (read in
        /// at open), `kCopied` (memory of huge pages), `kPaged` (pieces, through a cache of 32
        /// MiB). The property `koeldb.cuckoo-residency` has the actual one.
        [honoured fixed "KoelDB 0.1"] residency: Residency = Residency::Auto, "kMapped and kMappedHuge need allow_mmap_reads; kPaged is not for keep_versions.",
            set_residency(residency: Residency), get_residency;
    }
    declined {}
    removed {}
    aliases {}
    accessors {
        CuckooTableOptions {};
    }
}

impl CuckooTableOptions {
    /// Creates the default options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}
