//! The options of single calls, described like those of an open.
//!
//! They have setters but no texts. The effects obey the rule of the registry: an honoured option is
//! read by the engine, an accepted one is not, and a refused one has no setter. `tests/it/settings.rs`
//! compares the table with the structs and their readers.

use std::sync::LazyLock;

use super::db::Options;
use super::registry::{Effect, OptionInfo};

/// Name, type, default, documentation.
type Row = (&'static str, &'static str, &'static str, &'static str);

/// The options of one kind of call, such as a read or write, by their effect.
struct Call {
    section: &'static str,
    honoured: &'static [Row],
    accepted: &'static [Row],
    /// Options of RocksDB without a setter here: every call has the default.
    refused: &'static [Row],
}

const CALLS: &[Call] = &[
    Call {
        section: "ReadOptions",
        honoured: &[
            ("snapshot", "snapshot", "none", "The state that is read."),
            ("deadline", "time", "none", "Ends the read with TimedOut."),
            ("io_timeout", "time", "none", "Limits each read of a file."),
            (
                "read_tier",
                "enum",
                "kReadAllTier",
                "The sources that a read may use.",
            ),
            (
                "value_size_soft_limit",
                "u64",
                "18446744073709551615",
                "Limits the values of a multi-get.",
            ),
            (
                "verify_checksums",
                "bool",
                "true",
                "Verifies blocks that are read from files.",
            ),
            (
                "fill_cache",
                "bool",
                "true",
                "Blocks that were read enter the block cache.",
            ),
            (
                "ignore_range_deletions",
                "bool",
                "false",
                "Skips range tombstones.",
            ),
            (
                "async_io",
                "switch",
                "auto",
                "Overlaps the reads of a multi-get or scan.",
            ),
            (
                "optimize_multiget_for_io",
                "bool",
                "true",
                "A multi-get reads several levels together.",
            ),
            (
                "readahead_size",
                "u64",
                "0",
                "Readahead of scans in bytes; 0: adaptive.",
            ),
            (
                "max_skippable_internal_keys",
                "u64",
                "0",
                "Incomplete after skipping more entries; 0: no limit.",
            ),
            ("iterate_lower_bound", "bytes", "none", "Scans begin here."),
            (
                "iterate_upper_bound",
                "bytes",
                "none",
                "Scans end before this key.",
            ),
            ("tailing", "bool", "false", "The cursor follows new writes."),
            (
                "total_order_seek",
                "bool",
                "false",
                "Scans ignore prefix filters.",
            ),
            (
                "auto_prefix_mode",
                "bool",
                "false",
                "Scans use prefix filters where no result changes.",
            ),
            (
                "prefix_same_as_start",
                "bool",
                "false",
                "Ends a scan after the prefix it began with.",
            ),
            (
                "adaptive_readahead",
                "bool",
                "false",
                "Keeps the readahead size across files.",
            ),
            (
                "auto_readahead_size",
                "bool",
                "true",
                "Trims the readahead to the bounds.",
            ),
            ("keys_only", "bool", "false", "Scans return empty values."),
            (
                "allow_unprepared_value",
                "bool",
                "false",
                "Leaves values in blob files until they are asked for.",
            ),
            (
                "timestamp",
                "bytes",
                "none",
                "User-defined timestamp of the newest visible version.",
            ),
            (
                "iter_start_ts",
                "bytes",
                "none",
                "User-defined timestamp of the oldest version that scans return.",
            ),
            (
                "table_filter",
                "function",
                "none",
                "Chooses by properties the tables that a scan reads.",
            ),
            (
                "rate_limiter_priority",
                "enum",
                "none",
                "Charges reads to the rate limiter.",
            ),
        ],
        accepted: &[(
            "pin_data",
            "bool",
            "false",
            "Pins blocks; values pin theirs without it.",
        )],
        refused: &[
            (
                "merge_operand_count_threshold",
                "u64",
                "none",
                "Marks reads of many merge operands.",
            ),
            (
                "background_purge_on_iterator_cleanup",
                "bool",
                "false",
                "Files are removed by jobs in any case.",
            ),
            (
                "auto_refresh_iterator_with_snapshot",
                "bool",
                "false",
                "Releases old files during long scans.",
            ),
            (
                "table_index_factory",
                "object",
                "none",
                "A user-defined index.",
            ),
            (
                "read_scoped_block_buffer_provider",
                "object",
                "none",
                "Memory of the caller for blocks.",
            ),
            ("io_activity", "enum", "kUnknown", "A tag for statistics."),
            (
                "request_id",
                "string",
                "none",
                "An identifier for the file system.",
            ),
        ],
    },
    Call {
        section: "WriteOptions",
        honoured: &[
            (
                "sync",
                "bool",
                "false",
                "Syncs the log before the write returns.",
            ),
            ("disable_wal", "bool", "false", "Skips the log."),
            (
                "ignore_missing_column_families",
                "bool",
                "false",
                "Skips records of dropped families.",
            ),
            (
                "no_slowdown",
                "bool",
                "false",
                "Incomplete instead of waiting in a stall.",
            ),
            ("low_pri", "bool", "false", "Waits while compactions lag."),
            (
                "stall_timeout",
                "time",
                "none",
                "Limits the wait in a stall.",
            ),
            (
                "rate_limiter_priority",
                "enum",
                "none",
                "Charges the log record to the rate limiter.",
            ),
            (
                "protection_bytes_per_key",
                "u64",
                "0",
                "Checksums of entries on their way to the memtable.",
            ),
        ],
        accepted: &[(
            "memtable_insert_hint_per_batch",
            "bool",
            "false",
            "Keeps insert positions within a batch.",
        )],
        refused: &[("io_activity", "enum", "kUnknown", "A tag for statistics.")],
    },
    Call {
        section: "FlushOptions",
        honoured: &[
            ("wait", "bool", "true", "Returns when the flush is done."),
            (
                "allow_write_stall",
                "bool",
                "false",
                "Flushes even if that stalls writers.",
            ),
        ],
        accepted: &[],
        refused: &[
            (
                "force_atomic_flush",
                "bool",
                "false",
                "Flushes all families as one change.",
            ),
            (
                "listener_wait",
                "bool",
                "false",
                "Also waits for listeners.",
            ),
        ],
    },
    Call {
        section: "CompactRangeOptions",
        honoured: &[
            (
                "exclusive_manual_compaction",
                "bool",
                "false",
                "Automatic compactions of the family wait.",
            ),
            (
                "change_level",
                "bool",
                "false",
                "Moves the result to target_level.",
            ),
            (
                "target_level",
                "u32",
                "none",
                "The level for change_level; none: the lowest possible.",
            ),
            (
                "bottommost_level_compaction",
                "enum",
                "kIfHaveCompactionFilter",
                "Rewrites the last level.",
            ),
            (
                "allow_write_stall",
                "bool",
                "false",
                "Flushes first even if that stalls writers.",
            ),
            (
                "max_subcompactions",
                "u32",
                "0",
                "Threads; 0: the option of the database.",
            ),
            (
                "target_path_id",
                "u32",
                "0",
                "The directory of the output: an index into cf_paths or db_paths.",
            ),
            (
                "full_history_ts_low",
                "bytes",
                "none",
                "Collapses history with older user-defined timestamps.",
            ),
            ("canceled", "token", "none", "Cancels the compaction."),
            (
                "blob_garbage_collection_policy",
                "enum",
                "kUseDefault",
                "Overrides enable_blob_garbage_collection.",
            ),
            (
                "blob_garbage_collection_age_cutoff",
                "f64",
                "-1",
                "Overrides the age cutoff.",
            ),
        ],
        accepted: &[],
        refused: &[],
    },
    Call {
        section: "CompactionOptions",
        honoured: &[
            (
                "compression",
                "enum",
                "kDisableCompressionOption",
                "The codec; none: that of the level.",
            ),
            (
                "output_file_size_limit",
                "u64",
                "none",
                "The size of tables; none: that of the level.",
            ),
            (
                "max_subcompactions",
                "u32",
                "0",
                "Threads; 0: the option of the database.",
            ),
            (
                "output_path_id",
                "u32",
                "none",
                "The directory of the output: an index into cf_paths or db_paths; needed if there are several.",
            ),
            ("canceled", "token", "none", "Cancels the compaction."),
        ],
        accepted: &[],
        refused: &[
            (
                "output_temperature_override",
                "enum",
                "kUnknown",
                "The temperature of the output.",
            ),
            (
                "allow_trivial_move",
                "bool",
                "false",
                "Moves tables that nothing overlaps.",
            ),
        ],
    },
    Call {
        section: "IngestExternalFileOptions",
        honoured: &[
            (
                "move_files",
                "bool",
                "false",
                "Links the files, then removes the originals.",
            ),
            (
                "link_files",
                "bool",
                "false",
                "Links the files and keeps the originals.",
            ),
            (
                "failed_move_fall_back_to_copy",
                "bool",
                "true",
                "Copies files that cannot be linked.",
            ),
            (
                "snapshot_consistency",
                "bool",
                "true",
                "Hides the files from existing snapshots.",
            ),
            (
                "allow_global_seqno",
                "bool",
                "true",
                "Gives files a sequence number if they need one.",
            ),
            (
                "allow_blocking_flush",
                "bool",
                "true",
                "Flushes memtables that overlap a file.",
            ),
            (
                "verify_checksums_before_ingest",
                "bool",
                "false",
                "Verifies every block first.",
            ),
            (
                "fail_if_not_bottommost_level",
                "bool",
                "false",
                "Fails if a file gets a level above the last.",
            ),
            (
                "ingest_behind",
                "bool",
                "false",
                "Puts the files below all data.",
            ),
            (
                "file_opening_threads",
                "u32",
                "4",
                "Threads that copy files.",
            ),
        ],
        accepted: &[],
        refused: &[
            (
                "write_global_seqno",
                "bool",
                "false",
                "Writes the sequence number into the file.",
            ),
            (
                "verify_checksums_readahead_size",
                "u64",
                "0",
                "Readahead of the verification.",
            ),
            (
                "verify_file_checksum",
                "bool",
                "true",
                "Verifies checksums of whole files of the MANIFEST.",
            ),
            (
                "allow_db_generated_files",
                "bool",
                "false",
                "Accepts files that a database wrote.",
            ),
            (
                "fill_cache",
                "bool",
                "true",
                "Blocks read by the ingestion enter the block cache.",
            ),
            (
                "prefetch_lmax_index_and_filter_blocks",
                "bool",
                "true",
                "Reads index and filter at the end.",
            ),
        ],
    },
    Call {
        section: "TransactionDbOptions",
        honoured: &[
            (
                "transaction_lock_timeout",
                "i64",
                "1000",
                "Milliseconds that a transaction waits for a lock.",
            ),
            (
                "default_lock_timeout",
                "i64",
                "1000",
                "Milliseconds that a write outside of transactions waits for a lock.",
            ),
            (
                "max_num_locks",
                "i64",
                "-1",
                "The most locks held; negative: no limit.",
            ),
            (
                "max_num_deadlocks",
                "u32",
                "5",
                "Deadlocks that are remembered.",
            ),
            ("num_stripes", "usize", "128", "Shards of the lock table."),
            (
                "skip_concurrency_control",
                "bool",
                "false",
                "Writes outside of transactions take no locks.",
            ),
            (
                "enable_udt_validation",
                "bool",
                "true",
                "Validates keys with timestamps by the read timestamp.",
            ),
        ],
        accepted: &[],
        refused: &[
            (
                "write_policy",
                "enum",
                "WRITE_COMMITTED",
                "What of a transaction is written before its commit.",
            ),
            (
                "default_write_batch_flush_threshold",
                "i64",
                "0",
                "Writes parts of large unprepared transactions.",
            ),
            (
                "wp_snapshot_cache_bits",
                "usize",
                "7",
                "For other write policies.",
            ),
            (
                "wp_commit_cache_bits",
                "usize",
                "23",
                "For other write policies.",
            ),
            (
                "rollback_merge_operands",
                "bool",
                "false",
                "For other write policies.",
            ),
            (
                "rollback_deletion_type_callback",
                "function",
                "none",
                "For other write policies.",
            ),
            (
                "custom_mutex_factory",
                "object",
                "none",
                "The mutexes of the lock table.",
            ),
            (
                "lock_mgr_handle",
                "object",
                "none",
                "Another lock manager, as for locks of ranges.",
            ),
            (
                "use_per_key_point_lock_mgr",
                "bool",
                "false",
                "Waiters queue per key; here they do always.",
            ),
            (
                "deadlock_timeout_us",
                "u64",
                "0",
                "A default for transactions, which have the option themselves.",
            ),
            ("autogenerate_name", "bool", "false", "Names transactions."),
            (
                "secondary_indices",
                "objects",
                "none",
                "Indexes that transactions maintain.",
            ),
            (
                "txn_commit_bypass_memtable_threshold",
                "u32",
                "4294967295",
                "A default for transactions that become memtables.",
            ),
        ],
    },
    Call {
        section: "TransactionOptions",
        honoured: &[
            (
                "set_snapshot",
                "bool",
                "false",
                "Sets a snapshot as the transaction begins.",
            ),
            (
                "lock_timeout",
                "i64",
                "-1",
                "Milliseconds of waiting for a lock; negative: transaction_lock_timeout.",
            ),
            (
                "expiration",
                "i64",
                "-1",
                "Milliseconds after which others may take the locks.",
            ),
            (
                "deadlock_detect",
                "bool",
                "true",
                "Looks for deadlocks; off in RocksDB.",
            ),
            (
                "deadlock_timeout_us",
                "u64",
                "500",
                "Microseconds before it looks for a deadlock.",
            ),
            (
                "max_write_batch_size",
                "usize",
                "0",
                "Limits the size of the batch in bytes.",
            ),
            (
                "skip_concurrency_control",
                "bool",
                "false",
                "Takes no locks and checks nothing.",
            ),
            (
                "skip_prepare",
                "bool",
                "true",
                "Permits a commit without prepare.",
            ),
            (
                "validation_tier",
                "enum",
                "All",
                "Where an optimistic commit looks for conflicts.",
            ),
        ],
        accepted: &[],
        refused: &[
            (
                "deadlock_detect_depth",
                "i64",
                "50",
                "Longest chain of waiting that is searched; here all are.",
            ),
            (
                "use_only_the_last_commit_time_batch_for_recovery",
                "bool",
                "false",
                "For other write policies.",
            ),
            (
                "write_batch_flush_threshold",
                "i64",
                "-1",
                "Writes parts of large unprepared transactions.",
            ),
            (
                "commit_bypass_memtable",
                "bool",
                "false",
                "Makes the batch of the transaction a memtable.",
            ),
            (
                "large_txn_commit_optimize_threshold",
                "u32",
                "0",
                "Makes large batches memtables.",
            ),
            (
                "large_txn_commit_optimize_byte_threshold",
                "u64",
                "0",
                "Makes large batches memtables.",
            ),
            (
                "write_batch_track_timestamp_size",
                "bool",
                "false",
                "For batches whose timestamps are set later.",
            ),
        ],
    },
    Call {
        section: "BackupEngineOptions",
        honoured: &[
            (
                "env",
                "object",
                "the default one",
                "The file system with the backups (RocksDB: backup_env).",
            ),
            ("share_table_files", "bool", "true", "Backups share tables."),
            (
                "share_files_with_checksum",
                "bool",
                "true",
                "Shared tables have unique names.",
            ),
            (
                "share_files_with_checksum_naming",
                "enum",
                "kUseDbSessionId \\| kFlagIncludeFileSize",
                "The names of shared tables.",
            ),
            ("backup_log_files", "bool", "true", "Backs up logs."),
            (
                "schema_version",
                "u32",
                "1",
                "The version of meta files, 1 or 2.",
            ),
            (
                "max_background_operations",
                "usize",
                "up to 4",
                "Threads that copy.",
            ),
            (
                "backup_rate_limit",
                "u64",
                "0",
                "Bytes a second that backups read.",
            ),
            (
                "restore_rate_limit",
                "u64",
                "0",
                "Bytes a second that restorations read.",
            ),
            (
                "allow_database_directory",
                "bool",
                "false",
                "Permits new backups in the directory of a database; KoelDB's own.",
            ),
        ],
        accepted: &[],
        refused: &[
            ("sync", "bool", "true", "Syncs the files of a backup."),
            (
                "destroy_old_data",
                "bool",
                "false",
                "Removes all backups at the open.",
            ),
            (
                "max_valid_backups_to_open",
                "i32",
                "2147483647",
                "Opens the newest backups only.",
            ),
            (
                "backup_rate_limiter",
                "object",
                "none",
                "A limiter shared with others.",
            ),
            (
                "restore_rate_limiter",
                "object",
                "none",
                "A limiter shared with others.",
            ),
            (
                "callback_trigger_interval_size",
                "u64",
                "4194304",
                "Bytes between two calls of progress.",
            ),
            (
                "current_temperatures_override_manifest",
                "bool",
                "false",
                "Temperatures of files.",
            ),
            ("io_buffer_size", "u64", "0", "The buffer of copies."),
            ("info_log", "object", "none", "A log of its own."),
        ],
    },
    Call {
        section: "CreateBackupOptions",
        honoured: &[
            (
                "flush_before_backup",
                "bool",
                "false",
                "Flushes memtables first.",
            ),
            (
                "app_metadata",
                "bytes",
                "none",
                "Bytes of the caller, stored with the backup.",
            ),
            (
                "exclude_files",
                "function",
                "none",
                "Chooses tables that are left out (RocksDB: exclude_files_callback).",
            ),
            (
                "progress",
                "function",
                "none",
                "Receives the progress (RocksDB: progress_callback).",
            ),
        ],
        accepted: &[],
        refused: &[
            (
                "decrease_background_thread_cpu_priority",
                "bool",
                "false",
                "Lowers the priority of threads.",
            ),
            (
                "background_thread_cpu_priority",
                "enum",
                "kNormal",
                "The priority of threads.",
            ),
        ],
    },
    Call {
        section: "RestoreOptions",
        honoured: &[
            (
                "mode",
                "enum",
                "kPurgeAllFiles",
                "The files of the target that are kept.",
            ),
            (
                "keep_log_files",
                "bool",
                "false",
                "Keeps the logs of the target.",
            ),
            (
                "alternate_dirs",
                "paths",
                "none",
                "Directories of backups that have excluded files (`add_alternate_dir`).",
            ),
            ("progress", "function", "none", "Receives the progress."),
        ],
        accepted: &[],
        refused: &[],
    },
];

/// Appends descriptions of the options of a call, all with the same effect.
fn describe(call: &Call, rows: &'static [Row], effect: Effect, out: &mut Vec<OptionInfo>) {
    out.extend(
        rows.iter()
            .map(|&(name, kind, default, documentation)| OptionInfo {
                name,
                section: call.section,
                kind: kind.to_owned(),
                default: default.to_owned(),
                range: "",
                rules: Vec::new(),
                setter: None,
                mutable: true,
                effect,
                since: "",
                documentation: documentation.to_owned(),
            }),
    );
}

impl Options {
    /// Returns descriptions of the options of single calls, as reads: these have no texts.
    ///
    /// [`Effect::Refused`] marks options of RocksDB without a setter: each call has the default.
    #[must_use]
    pub fn call_registry() -> &'static [OptionInfo] {
        static REGISTRY: LazyLock<Vec<OptionInfo>> = LazyLock::new(|| {
            let mut out = Vec::new();
            for call in CALLS {
                describe(call, call.honoured, Effect::Honoured, &mut out);
                describe(call, call.accepted, Effect::Accepted, &mut out);
                describe(call, call.refused, Effect::Refused, &mut out);
            }
            out
        });
        &REGISTRY
    }
}
