//! KoelDB with directories of RocksDB, RocksDB with directories of KoelDB, and both with damage.
//!
//! If another engine (Debian's `rocksdb-tools`, RocksDB's Java library) is missing, the test prints
//! a notice, and fails with `CI=true` (`CONTRIBUTING.md`).
#![expect(
    clippy::disallowed_methods,
    reason = "directories are prepared, damaged and compared without the code under test"
)]
#![expect(clippy::unwrap_used, reason = "what fails in a test fails the test")]

mod aged;
mod api;
mod archive;
mod async_engine;
mod async_multi_get;
mod async_reads;
mod async_scan;
mod async_writes;
mod backup;
mod call_options;
mod change_feed;
mod checked_outputs;
mod checkpoint;
mod checks;
mod clip;
mod close;
mod cuckoo;
mod defaults;
mod deleted_ranges;
mod deleted_space;
mod disallowed_writes;
mod dropped_families;
mod equal_keys;
mod errors;
mod examples;
mod export;
mod failover;
mod failure_classes;
mod family_costs;
mod file_options;
mod files;
mod golden;
mod held_memtables;
mod hidden_entries;
mod history;
mod info_log;
mod ingest;
mod interop;
mod joined_reads;
mod level0;
mod listener_events;
mod loaded_options;
mod log_syncs;
mod logs;
mod manual_compactions;
mod map_calls;
mod marked_tables;
mod merge_failures;
mod merge_folding;
mod metamorphic;
mod model;
mod open_tables;
mod options_drawn;
mod overlapping_compactions;
mod panics;
mod perf;
mod plain;
mod prepared_transactions;
mod prepopulated_cache;
mod properties;
mod protected_entries;
mod range_tombstones;
mod rate_limit;
mod reads;
mod recovery_flush;
mod recovery_rules;
mod recycled_logs;
mod reference;
mod remote_compaction;
mod repair;
mod repaired_histories;
mod representations;
mod resume;
mod scan_options;
mod scheduling;
mod scrub;
mod secondary;
mod settings;
mod small_levels;
mod sst_file_manager;
mod sst_file_sorter;
mod sst_file_writer;
mod stalls;
mod statistics;
mod stats;
mod storeys;
mod stress;
mod subcompactions;
mod support;
mod table_settings;
mod thread_list;
mod time_limits;
mod timestamps;
mod transactions;
mod ttl;
mod universal_settings;
mod untrusted;
mod wal_directory;
mod working_directory;
mod write_buffers;
mod write_groups;
mod writes;

use support::{device, expected, gate, prelude, rocksdb, scratch, storage, wait};
