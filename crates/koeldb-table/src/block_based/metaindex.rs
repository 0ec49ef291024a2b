//! The metaindex: a block of entries from names to the handles of metadata blocks.

/// The properties block. Every block-based table has one.
pub const PROPERTIES: &str = "rocksdb.properties";
/// The index, or the top level of a partitioned one (format versions from 6 on).
pub const INDEX: &str = "rocksdb.index";
/// A filter over the whole table, Bloom and Ribbon alike.
pub const FULL_FILTER: &str = "fullfilter.rocksdb.BuiltinBloomFilter";
/// The index over the partitions of a filter.
pub const PARTITIONED_FILTER: &str = "partitionedfilter.rocksdb.BuiltinBloomFilter";
/// The dictionary data blocks are compressed with.
pub const COMPRESSION_DICTIONARY: &str = "rocksdb.compression_dict";
/// The range tombstones.
pub const RANGE_DELETIONS: &str = "rocksdb.range_del";
/// The key prefixes of a hash index.
pub const HASH_INDEX_PREFIXES: &str = "rocksdb.hashindex.prefixes";
/// Where in the index each prefix of a hash index begins.
pub const HASH_INDEX_METADATA: &str = "rocksdb.hashindex.metadata";
