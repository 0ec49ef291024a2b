//! Options: what can be set, how it is written as text, and what open makes of it.
//!
//! Each option is declared once, in the table of its struct ([`db`], [`column_family`], [`block_based`],
//! [`cuckoo`], [`plain`], [`compaction`], [`memtable`]); [`registry`] has the macro that makes setters, getters,
//! parsers and [`OptionInfo`] of it.
//!
//! - Texts: [`grammar`] takes strings apart, [`value`] reads and writes values, [`object`], [`table_format`] and
//!   [`cache`] what is made from ids.
//! - [`read_write`]: options of single calls.
//! - [`config`]: how strict reading is, and what a load brings back.

mod block_based;
mod cache;
mod column_family;
mod compaction;
mod config;
mod cuckoo;
mod db;
mod grammar;
mod memtable;
mod object;
mod plain;
mod read_write;
mod registry;
mod table_format;
mod value;

pub use block_based::{
    BlockBasedOptions, DataBlockIndexType, IndexBlockSearchType, IndexShortening,
    MetadataCacheOptions, PinningTier, PrepopulateBlockCache,
};
pub use column_family::{
    ColumnFamilyOptions, CompactionPri, CompactionStyle, PrepopulateBlobCache,
};
pub use compaction::{
    CompactionStopStyle, CompressionOptions, FifoCompactionOptions, FileTemperatureAge,
    Temperature, UniversalCompactionOptions,
};
pub use config::{ConfigOptions, IgnoredOption, LoadedOptions};
pub use cuckoo::CuckooTableOptions;
pub use db::{CacheTier, LogLevel, Options};
pub use memtable::{
    HashLinkListOptions, HashSkipListOptions, MemtableFactory, SkipListOptions, SortedHashOptions,
    VectorOptions,
};
pub use object::{
    BuiltinCompactionFilter, CompactForTiering, CompactOnDeletion, FileChecksumGenerator,
    SstPartitioner, TablePropertiesCollector,
};
pub use plain::{EncodingType, PlainTableOptions};
pub use read_write::{
    BottommostLevelCompaction, CompactRangeOptions, FlushOptions, ReadOptions, ReadTier, Switch,
    WriteOptions,
};
pub use registry::{Effect, OptionInfo};
pub use table_format::TableFormat;
