//! The options of plain tables.

use super::declare::option_section;
use super::value::option_enum;

option_enum! {
    /// The encoding of keys in plain tables.
    pub enum EncodingType {
        /// Whole keys.
        Plain = "kPlain",
        /// Store a prefix once per run of keys that share it.
        Prefix = "kPrefix",
    }
}

option_section! {
    /// The options of plain tables: unblocked records under a prefix hash index.
    pub struct PlainTableOptions, "TableOptions/PlainTable";
    options {
        /// Fixed user-key length.
        [honoured mutable "<=5.4"] user_key_len: u32 = 0, "Bytes; 0 = variable.",
            set_user_key_len(count: u32), get_user_key_len;
        /// Bits per key (prefix) of the bloom filter.
        [honoured mutable "<=5.4"] bloom_bits_per_key: i32 = 10, "0 = no bloom.",
            set_bloom_bits_per_key(count: u32 as Count), get_bloom_bits_per_key;
        /// Load of the prefix hash index.
        [honoured mutable "<=5.4"] hash_table_ratio: f64 = 0.75, "0 = a single bucket, i.e. binary search.",
            set_hash_ratio(ratio: f64), get_hash_ratio;
        /// Records per index entry inside a prefix.
        [honoured mutable "<=5.4"] index_sparseness: u64 = 16, "Records.",
            set_index_sparseness(value: u64), get_index_sparseness;
        /// Huge pages for index and bloom.
        [accepted mutable "<=5.4"] huge_page_tlb_size: u64 = 0, "Bytes; 0 = off.",
            set_huge_page_tlb_size(bytes: u64), get_huge_page_tlb_size;
        /// Key encoding.
        [honoured mutable "<=5.4"] encoding_type: EncodingType = EncodingType::Plain, "kPrefix writes a shared prefix once.",
            set_encoding_type(value: EncodingType), get_encoding_type;
        /// No index; forward scan only.
        [honoured mutable "<=5.4"] full_scan_mode: bool = false, "",
            set_full_scan_mode(on: bool), get_full_scan_mode;
        /// Write index and bloom into the file.
        [honoured mutable "<=5.4"] store_index_in_file: bool = false, "",
            set_store_index_in_file(on: bool), get_store_index_in_file;
    }
    declined {}
    removed {}
    aliases {}
    accessors {
        PlainTableOptions {};
    }
}

impl PlainTableOptions {
    /// Creates the default options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}
