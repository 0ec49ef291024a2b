//! Findings about options.

use koeldb::{ChecksumKind, ColumnFamilyOptions, FilterPolicy, Options, RecoveryMode, TableFormat};

use super::super::tree::Tree;
use super::Report;

/// The bytes of tables from which caches and filters matter.
const LARGE_BYTES: u64 = 256 << 20;

/// The capacity of the cache of block-based tables that have none of their own.
const DEFAULT_CACHE_BYTES: u64 = 32 << 20;

/// Checks the database options and reports doubtful ones.
pub(super) fn examine_database(options: &Options, report: &mut Report) {
    for setting in options.settings_without_effect() {
        report.note(
            "option",
            format!("{setting} has no effect"),
            "docs/options.md has the reason. Leave it out, unless RocksDB opens the directory too.",
        );
    }
    if options.get_wal_recovery_mode() == RecoveryMode::SkipAnyCorruptedRecords {
        report.warning(
            "option",
            "wal_recovery_mode=kSkipAnyCorruptedRecords: after damage the history may have holes"
                .to_owned(),
            "Use it for one recovery only; kPointInTimeRecovery is the default.",
        );
    }
    if options
        .get_max_open_files()
        .is_some_and(|count| count < 100)
    {
        report.note(
            "option",
            "max_open_files below 100: tables are opened again and again".to_owned(),
            "Raise it to the number of tables, or set -1 and raise `ulimit -n`.",
        );
    }
}

/// Checks the options of a column family against the sizes in its LSM tree.
pub(super) fn examine_family(tree: &Tree, options: &ColumnFamilyOptions, report: &mut Report) {
    let family = &tree.name;
    let bytes = tree.version.bytes();
    if options.get_disable_auto_compactions() {
        report.warning(
            "option",
            format!("column family \"{family}\": disable_auto_compactions=true"),
            "After a bulk load, compact and set it to false; otherwise level 0 grows until writes stop.",
        );
    }
    let TableFormat::BlockBased(table) = options.get_table_format() else {
        return;
    };
    if matches!(table.get_filter_policy(), FilterPolicy::None) && bytes > LARGE_BYTES {
        report.warning(
            "option",
            format!("column family \"{family}\": filter_policy=nullptr, with {bytes} bytes of tables"),
            "A point read of an absent key reads a block of each level. Use optimize_for_point_lookup, or a Bloom filter of 10 bits, and compact.",
        );
    }
    let cache = table.get_block_cache();
    let capacity = cache.map_or(DEFAULT_CACHE_BYTES, koeldb::Cache::get_capacity);
    if !table.get_no_block_cache() && capacity <= DEFAULT_CACHE_BYTES && bytes > LARGE_BYTES {
        report.note(
            "option",
            format!("column family \"{family}\": a block cache of {capacity} bytes for {bytes} bytes of tables"),
            "Caches are not part of OPTIONS files: this is right if the application sets none. A third of the memory is a common choice.",
        );
    }
    if table.get_checksum_type() == ChecksumKind::None {
        report.warning(
            "option",
            format!("column family \"{family}\": checksum=kNoChecksum: damage is not detected"),
            "Set kXXH3, the default, and compact the family.",
        );
    }
}
