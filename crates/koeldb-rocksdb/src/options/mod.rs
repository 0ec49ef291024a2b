//! Options: of databases and column families, of tables, and of single calls.
//!
//! Most setters only carry a value into an option of the engine's registry, as a text. They cannot
//! fail; the first value that the engine rejects is kept, and becomes the error of the open.

/// Declares setters with the engine's names.
macro_rules! same {
    ($($(#[doc = $doc:literal])+ $setter:ident($type:ty);)*) => {$(
        $(#[doc = $doc])+
        pub fn $setter(&mut self, v: $type) {
            self.inner.$setter(v);
        }
    )*};
}
pub(crate) use same;

/// Declares `new`, which returns the defaults.
macro_rules! new_by_default {
    ($(#[doc = $doc:literal])+) => {
        $(#[doc = $doc])+
        #[must_use]
        pub fn new() -> Self {
            Self::default()
        }
    };
}
pub(crate) use new_by_default;

mod cache;
mod compaction;
mod database;
mod logger;
mod read;
mod setters;
mod tables;
mod values;
mod write;

pub use cache::{Cache, LruCacheOptions, WriteBufferManager};
pub use compaction::{
    CompactOptions, FifoCompactOptions, UniversalCompactOptions, WaitForCompactOptions,
};
pub use database::{DBPath, Options};
pub use logger::InfoLogger;
pub use read::ReadOptions;
pub use tables::{
    BlockBasedOptions, CuckooTableOptions, MemtableFactory, PlainTableFactoryOptions,
};
pub use values::{
    BlockBasedIndexType, BlockBasedTablePinningTier, BottommostLevelCompaction, ChecksumType,
    CompactionPri, DBCompactionStyle, DBCompressionType, DBRecoveryMode, DataBlockIndexType,
    KeyEncodingType, LogLevel, ReadTier, UniversalCompactionStopStyle,
};
pub use write::{FlushOptions, IngestExternalFileOptions, WriteOptions};
