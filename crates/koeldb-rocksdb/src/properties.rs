//! The names of properties, for [`DBCommon::property_value`](crate::DBCommon::property_value).

#[cfg(before_0_22)]
use crate::prop_name::PropertyName;
#[cfg(not(before_0_22))]
pub use crate::prop_name::{PropName, PropertyName};
#[cfg(before_0_22)]
use std::ffi::{CStr, CString};

macro_rules! level_properties {
    ($($(#[doc = $doc:literal])+ $name:ident = $prefix:literal;)*) => {$(
        $(#[doc = $doc])+
        #[cfg(not(before_0_22))]
        #[must_use]
        pub fn $name(level: usize) -> PropertyName {
            PropertyName::of_level($prefix, level)
        }

        $(#[doc = $doc])+
        #[cfg(before_0_22)]
        #[must_use]
        pub fn $name(level: usize) -> CString {
            PropertyName::of_level($prefix, level).into_c_string()
        }
    )*};
}

level_properties! {
    /// Returns the property name of the number of table files on a level.
    num_files_at_level = "num-files-at-level";
    /// Returns the property name of the compression ratio of the tables on a level.
    compression_ratio_at_level = "compression-ratio-at-level";
    /// Returns the property name of the summed table properties of a level.
    aggregated_table_properties_at_level = "aggregated-table-properties-at-level";
}

macro_rules! properties {
    ($($NAME:ident = $name:literal,)*) => {$(
        #[doc = concat!("`", $name, "`.")]
        #[cfg(before_0_22)]
        pub const $NAME: &CStr = {
            match CStr::from_bytes_with_nul(concat!($name, "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("a name has no NUL bytes"),
            }
        };

        #[doc = concat!("`", $name, "`.")]
        #[cfg(not(before_0_22))]
        pub const $NAME: &PropName = &{
            match std::ffi::CStr::from_bytes_with_nul(concat!($name, "\0").as_bytes()) {
                Ok(name) => PropName::of(name),
                Err(_) => panic!("a name has no NUL bytes"),
            }
        };
    )*};
}

properties! {
    STATS = "rocksdb.stats",
    SSTABLES = "rocksdb.sstables",
    CFSTATS = "rocksdb.CFSTATS",
    CFSTATS_NO_FILE_HISTOGRAM = "rocksdb.cfstats-no-file-histogram",
    CF_FILE_HISTOGRAM = "rocksdb.cf-file-histogram",
    DBSTATS = "rocksdb.dbstats",
    LEVELSTATS = "rocksdb.levelstats",
    NUM_IMMUTABLE_MEM_TABLE = "rocksdb.num-immutable-mem-table",
    NUM_IMMUTABLE_MEM_TABLE_FLUSHED = "rocksdb.num-immutable-mem-table-flushed",
    MEM_TABLE_FLUSH_PENDING = "rocksdb.mem-table-flush-pending",
    NUM_RUNNING_FLUSHES = "rocksdb.num-running-flushes",
    COMPACTION_PENDING = "rocksdb.compaction-pending",
    NUM_RUNNING_COMPACTIONS = "rocksdb.num-running-compactions",
    BACKGROUND_ERRORS = "rocksdb.background-errors",
    CUR_SIZE_ACTIVE_MEM_TABLE = "rocksdb.cur-size-active-mem-table",
    CUR_SIZE_ALL_MEM_TABLES = "rocksdb.cur-size-all-mem-tables",
    SIZE_ALL_MEM_TABLES = "rocksdb.size-all-mem-tables",
    NUM_ENTRIES_ACTIVE_MEM_TABLE = "rocksdb.num-entries-active-mem-table",
    NUM_ENTRIES_IMM_MEM_TABLES = "rocksdb.num-entries-imm-mem-tables",
    NUM_DELETES_ACTIVE_MEM_TABLE = "rocksdb.num-deletes-active-mem-table",
    NUM_DELETES_IMM_MEM_TABLES = "rocksdb.num-deletes-imm-mem-tables",
    ESTIMATE_NUM_KEYS = "rocksdb.estimate-num-keys",
    ESTIMATE_TABLE_READERS_MEM = "rocksdb.estimate-table-readers-mem",
    IS_FILE_DELETIONS_ENABLED = "rocksdb.is-file-deletions-enabled",
    NUM_SNAPSHOTS = "rocksdb.num-snapshots",
    OLDEST_SNAPSHOT_TIME = "rocksdb.oldest-snapshot-time",
    NUM_LIVE_VERSIONS = "rocksdb.num-live-versions",
    CURRENT_SUPER_VERSION_NUMBER = "rocksdb.current-super-version-number",
    ESTIMATE_LIVE_DATA_SIZE = "rocksdb.estimate-live-data-size",
    MIN_LOG_NUMBER_TO_KEEP = "rocksdb.min-log-number-to-keep",
    MIN_OBSOLETE_SST_NUMBER_TO_KEEP = "rocksdb.min-obsolete-sst-number-to-keep",
    TOTAL_SST_FILES_SIZE = "rocksdb.total-sst-files-size",
    LIVE_SST_FILES_SIZE = "rocksdb.live-sst-files-size",
    BASE_LEVEL = "rocksdb.base-level",
    ESTIMATE_PENDING_COMPACTION_BYTES = "rocksdb.estimate-pending-compaction-bytes",
    AGGREGATED_TABLE_PROPERTIES = "rocksdb.aggregated-table-properties",
    ACTUAL_DELAYED_WRITE_RATE = "rocksdb.actual-delayed-write-rate",
    IS_WRITE_STOPPED = "rocksdb.is-write-stopped",
    ESTIMATE_OLDEST_KEY_TIME = "rocksdb.estimate-oldest-key-time",
    BLOCK_CACHE_CAPACITY = "rocksdb.block-cache-capacity",
    BLOCK_CACHE_USAGE = "rocksdb.block-cache-usage",
    BLOCK_CACHE_PINNED_USAGE = "rocksdb.block-cache-pinned-usage",
    OPTIONS_STATISTICS = "rocksdb.options-statistics",
}
