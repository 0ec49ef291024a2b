//! Options: their declaration, their text form, and their validation at open.
//!
//! Each option is declared once, in the table of its struct ([`db`], [`column_family`],
//! [`block_based`], [`cuckoo`], [`plain`], [`compaction`], [`memtable`]); the macro in [`declare`]
//! creates setters, getters and rows from it, and [`registry`] reads and writes texts through the
//! rows.
//!
//! - Texts: [`grammar`] splits strings, [`value`] reads and writes values, [`object`],
//!   [`table_format`] and [`cache`] create objects from ids.
//! - [`apply`]: whole option strings; [`options_file`]: OPTIONS files.
//! - [`sanitize`]: adjusts options at open; [`rules`]: the combinations and ranges that are legal;
//!   [`refuse`] rejects others and [`mend`] replaces them in OPTIONS files; [`mutable`]: changes of
//!   an open database; [`conversion`]: settings of the crates below.
//! - [`log_lines`]: options of tables in LOG.
//! - [`db_path`]: directories of tables, which have no text.
//! - [`presets`]: several settings for a purpose.
//! - [`read_write`]: options of single calls; [`accessors`]: their setters and getters.
//! - [`config`]: strictness of reading, and results of loading.
//!
//! Options may use `env` and `report`, whose types are values of some of them.

pub(crate) mod accessors;
mod apply;
mod block_based;
mod cache;
mod column_family;
mod compaction;
mod compaction_filter;
mod config;
mod conversion;
mod cuckoo;
mod db;
mod db_path;
mod declare;
pub(crate) mod file_options;
pub(crate) mod grammar;
pub(crate) mod log_lines;
mod manual_compaction;
mod memtable;
mod mend;
pub(crate) mod mutable;
mod named;
pub(crate) mod object;
pub(crate) mod options_file;
mod per_call;
mod plain;
mod plugins;
mod presets;
mod read_write;
mod refuse;
mod registry;
mod rules;
pub(crate) mod sanitize;
mod scrub;
mod table_format;
mod transaction;
mod value;
pub(crate) mod wal_dir;

pub use koeldb_base::checksum::ChecksumKind;
pub use koeldb_base::codec::Compression;
pub use koeldb_fs::read_driver::ReadEngine;
pub use koeldb_log::RecoveryMode;
pub use koeldb_table::block_based::format::IndexType;
pub use koeldb_table::block_based::index::IndexDecoding;
pub use koeldb_table::block_based::index::IndexSearch as IndexBlockSearchType;
pub use koeldb_table::block_based::index_builder::IndexShortening;
pub use koeldb_table::cuckoo::residency::Residency as CuckooResidency;
pub use koeldb_table::filter::FilterPolicy;

pub(crate) use accessors::accessors;
pub use block_based::{
    BlockBasedOptions, DataBlockIndexType, MetadataCacheOptions, PinningTier, PrepopulateBlockCache,
};
pub use cache::Cache;
pub use column_family::{
    BlobCollection, ColumnFamilyOptions, CompactionPri, CompactionStyle, PrepopulateBlobCache,
};
pub use compaction::{
    CompactionStopStyle, CompressionOptions, FifoCompactionOptions, FileTemperatureAge,
    Temperature, UniversalCompactionOptions,
};
pub use config::{ConfigOptions, IgnoredOption, LoadedOptions, MendedOption};
pub(crate) use conversion::{
    BlobRule, age_limits, blob_rule, dead_bytes_rule, limits, pick_settings,
};
pub use cuckoo::CuckooTableOptions;
pub(crate) use db::DbOptions;
pub use db::{CacheTier, LogLevel, Options};
pub use db_path::DbPath;
pub use manual_compaction::{CancelToken, CompactRangeOptions, CompactionOptions};
pub use memtable::{
    HashLinkListOptions, HashSkipListOptions, MemtableFactory, SkipListOptions, SortedHashOptions,
    VectorOptions,
};
pub use object::{
    BuiltinCompactionFilter, CompactForTiering, CompactOnDeletion, FileChecksumGenerator,
    SstPartitioner, TablePropertiesCollector,
};
pub use plain::{EncodingType, PlainTableOptions};
pub use plugins::Logger;
pub(crate) use plugins::Plugins;
pub use read_write::{
    BlobGarbageCollectionPolicy, BottommostLevelCompaction, FlushOptions, ReadTier, Switch,
    WriteOptions,
};
pub use registry::{Effect, OptionInfo};
pub use scrub::ScrubOptions;
pub use table_format::TableFormat;
pub use transaction::{TransactionDbOptions, TransactionOptions, ValidationTier};

#[cfg(test)]
mod tests;
