//! Values of options, and their texts.

use crate::mirrors::mirrors;

/// A value of an option that has a text form in option strings.
pub(crate) trait OptionText {
    /// Returns the value as it is written in option strings.
    fn text(&self) -> String;
}

macro_rules! displayed {
    ($($type:ty),*) => {$(
        impl OptionText for $type {
            fn text(&self) -> String {
                self.to_string()
            }
        }
    )*};
}

displayed!(bool, u32, u64, usize, i32, i64, f64);

/// Declares an enum whose variants have texts.
macro_rules! texts {
    ($($(#[$meta:meta])* pub enum $Type:ident {
        $($(#[$note:meta])+ $Variant:ident $(= $number:literal)? => $text:literal,)*
    })*) => {$(
        $(#[$meta])*
        pub enum $Type {
            $($(#[$note])+ $Variant $(= $number)?,)*
        }

        impl OptionText for $Type {
            fn text(&self) -> String {
                match self {
                    $($Type::$Variant => $text,)*
                }
                .to_owned()
            }
        }
    )*};
}

texts! {
    /// The severity of a line in the LOG file (`InfoLogLevel`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[repr(i32)]
    pub enum LogLevel {
        /// For debugging the engine.
        Debug = 0 => "DEBUG_LEVEL",
        /// Information.
        Info => "INFO_LEVEL",
        /// A warning.
        Warn => "WARN_LEVEL",
        /// An error.
        Error => "ERROR_LEVEL",
        /// The engine cannot continue.
        Fatal => "FATAL_LEVEL",
        /// The first lines of each LOG.
        Header => "HEADER_LEVEL",
    }

    /// The order in which leveled compaction picks files of a level (`CompactionPri`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[cfg_attr(feature = "serde1", derive(serde::Serialize, serde::Deserialize))]
    #[repr(i32)]
    pub enum CompactionPri {
        /// Large tables first; deletions count extra (`kByCompensatedSize`).
        ByCompensatedSize = 0 => "kByCompensatedSize",
        /// Tables whose newest entry is oldest first (`kOldestLargestSeqFirst`).
        OldestLargestSeqFirst = 1 => "kOldestLargestSeqFirst",
        /// Tables whose oldest entry is oldest first (`kOldestSmallestSeqFirst`).
        OldestSmallestSeqFirst = 2 => "kOldestSmallestSeqFirst",
        /// Tables that overlap least of the next level first (`kMinOverlappingRatio`).
        MinOverlappingRatio = 3 => "kMinOverlappingRatio",
        /// Tables in the order of keys, in turn (`kRoundRobin`).
        RoundRobin = 4 => "kRoundRobin",
    }

    /// The index type of block-based tables.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum BlockBasedIndexType {
        /// `kBinarySearch`: one index block with binary search.
        BinarySearch => "kBinarySearch",
        /// `kHashSearch`: binary search, with a hash table of prefixes.
        HashSearch => "kHashSearch",
        /// `kTwoLevelIndexSearch`: index partitions under a top-level index.
        TwoLevelIndexSearch => "kTwoLevelIndexSearch",
    }

    /// The lookup method within data blocks (`data_block_index_type`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum DataBlockIndexType {
        /// Binary search.
        BinarySearch = 0 => "kDataBlockBinarySearch",
        /// Binary search, after a hash table of keys for point lookups.
        BinaryAndHash = 1 => "kDataBlockBinaryAndHash",
    }

    /// The tables whose metadata blocks are pinned in the block cache (`PinningTier`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum BlockBasedTablePinningTier {
        /// As the older pinning options say (`kFallback`).
        Fallback = 0 => "kFallback",
        /// None.
        None = 1 => "kNone",
        /// Of flushed tables and those of similar size (`kFlushedAndSimilar`).
        FlushAndSimilar = 2 => "kFlushedAndSimilar",
        /// Of all tables.
        All = 3 => "kAll",
    }

    /// The checksum type of table blocks.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ChecksumType {
        /// None.
        NoChecksum = 0 => "kNoChecksum",
        /// CRC-32C.
        CRC32c = 1 => "kCRC32c",
        /// XXH32.
        XXHash = 2 => "kxxHash",
        /// XXH64.
        XXHash64 = 3 => "kxxHash64",
        /// XXH3.
        XXH3 = 4 => "kXXH3",
    }

    /// The key encoding of plain tables.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum KeyEncodingType {
        /// Whole keys.
        #[default]
        Plain = 0 => "kPlain",
        /// Keys of one prefix share its bytes.
        Prefix = 1 => "kPrefix",
    }

    /// A compression algorithm (`CompressionType`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[cfg_attr(feature = "serde1", derive(serde::Serialize, serde::Deserialize))]
    pub enum DBCompressionType {
        /// None.
        None = 0 => "kNoCompression",
        /// Snappy.
        Snappy = 1 => "kSnappyCompression",
        /// zlib.
        Zlib = 2 => "kZlibCompression",
        /// bzip2.
        Bz2 = 3 => "kBZip2Compression",
        /// LZ4.
        Lz4 = 4 => "kLZ4Compression",
        /// LZ4HC: LZ4 with a slower and stronger search.
        Lz4hc = 5 => "kLZ4HCCompression",
        /// Zstandard.
        Zstd = 7 => "kZSTD",
    }

    /// The compaction style.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[cfg_attr(feature = "serde1", derive(serde::Serialize, serde::Deserialize))]
    pub enum DBCompactionStyle {
        /// Leveled compaction: each level is larger than the one before.
        Level = 0 => "kCompactionStyleLevel",
        /// Universal (tiered) compaction: merges adjacent sorted runs.
        Universal = 1 => "kCompactionStyleUniversal",
        /// FIFO compaction: the oldest tables are dropped.
        Fifo = 2 => "kCompactionStyleFIFO",
    }

    /// The treatment of a damaged WAL by recovery (`WALRecoveryMode`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[cfg_attr(feature = "serde1", derive(serde::Serialize, serde::Deserialize))]
    pub enum DBRecoveryMode {
        /// An incomplete last record is ignored, other damage is an error.
        TolerateCorruptedTailRecords = 0 => "kTolerateCorruptedTailRecords",
        /// Any damage is an error.
        AbsoluteConsistency = 1 => "kAbsoluteConsistency",
        /// Reading ends at the first damage.
        PointInTime = 2 => "kPointInTimeRecovery",
        /// Damaged records are left out.
        SkipAnyCorruptedRecord = 3 => "kSkipAnyCorruptedRecords",
    }

    /// The rule by which universal compaction stops adding sorted runs.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[cfg_attr(feature = "serde1", derive(serde::Serialize, serde::Deserialize))]
    pub enum UniversalCompactionStopStyle {
        /// At a sorted run of another size.
        Similar = 0 => "kCompactionStopStyleSimilarSize",
        /// At a sorted run larger than the chosen ones together.
        Total = 1 => "kCompactionStopStyleTotalSize",
    }
}

impl LogLevel {
    /// Converts from the engine's log level.
    pub(crate) fn of_engine(level: koeldb::LogLevel) -> Self {
        match level {
            koeldb::LogLevel::Debug => LogLevel::Debug,
            koeldb::LogLevel::Info => LogLevel::Info,
            koeldb::LogLevel::Warn => LogLevel::Warn,
            koeldb::LogLevel::Error => LogLevel::Error,
            koeldb::LogLevel::Fatal => LogLevel::Fatal,
            _ => LogLevel::Header,
        }
    }
}

mirrors! {
    /// The data that a read may use: all, cached, persisted or memtables only (`ReadTier`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[cfg_attr(feature = "serde1", derive(serde::Serialize, serde::Deserialize))]
    #[repr(i32)]
    pub enum ReadTier = koeldb::ReadTier {
        /// Memory and files.
        All = 0,
        /// Memory: memtables and the block cache.
        BlockCache,
        /// Data that survives a crash: without entries that were written with the WAL disabled.
        Persisted,
        /// Memtables.
        Memtable,
    }

    /// The rule whether a manual compaction rewrites the bottommost level.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[cfg_attr(feature = "serde1", derive(serde::Serialize, serde::Deserialize))]
    #[repr(i32)]
    pub enum BottommostLevelCompaction = koeldb::BottommostLevelCompaction {
        /// No.
        Skip = 0,
        /// If there is a compaction filter.
        IfHaveCompactionFilter,
        /// Yes.
        Force,
        /// Yes, except for tables that the same compaction wrote.
        ForceOptimized,
    }
}
