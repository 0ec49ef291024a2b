//! Adjusts options at open, before [`refuse`](super::refuse) checks them.
//!
//! The adjustment is idempotent and silent; `Db::options` returns the result.

use std::path::Path;

use koeldb_base::Result;
use koeldb_base::codec::Compression;
use koeldb_log::RecoveryMode;
use koeldb_table::block_based::format::IndexType;

use super::block_based::BlockBasedOptions;
use super::cache::Cache;
use super::column_family::{ColumnFamilyOptions, CompactionStyle};
use super::compaction::Temperature;
use super::db::DbOptions;
use super::memtable::{MemtableFactory, VectorOptions};
use super::refuse::Refusals;
use super::table_format::TableFormat;

/// The value of `ttl` and `periodic_compaction_seconds` that leaves the choice to the engine.
pub(crate) const CHOOSE_SECONDS: u64 = u64::MAX - 1;
/// The seconds that the engine chooses for `ttl` and `periodic_compaction_seconds`: 30 days.
const THIRTY_DAYS: u64 = 30 * 24 * 60 * 60;
/// The default capacity of the block cache.
pub(crate) const DEFAULT_CACHE_BYTES: u64 = 32 << 20;

/// The circumstances of an open besides the options: path, open-file limit and mode.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OpenContext<'a> {
    /// The directory of the database.
    pub(crate) path: Option<&'a Path>,
    /// The open-file limit of the process; `None` for no limit.
    pub(crate) open_files_limit: Option<u32>,
    /// Whether the open writes nothing.
    pub(crate) read_only: bool,
    /// Whether transactions lock their keys.
    pub(crate) locks_keys: bool,
}

/// Sanitizes the options of a database and its column families, and rejects invalid ones.
///
/// # Errors
/// One error that names every invalid option, its value, and the legal values.
pub(crate) fn sanitize(
    db: &mut DbOptions,
    families: &mut [(&str, &mut ColumnFamilyOptions)],
    context: &OpenContext<'_>,
) -> Result<()> {
    sanitize_db(db, context);
    for (_, family) in families.iter_mut() {
        sanitize_family(family, db, context.read_only);
    }
    share_default_cache(families);
    let mut refusals = Refusals::default();
    refusals.check_db(db);
    if context.locks_keys {
        refusals.check_transactions(db);
    }
    for (name, family) in families {
        refusals.check_family(name, family, db);
    }
    refusals.into_result()
}

/// Sets one shared cache for all column families that need one and have none.
fn share_default_cache(families: &mut [(&str, &mut ColumnFamilyOptions)]) {
    let mut shared: Option<Cache> = None;
    for (_, family) in families {
        if let TableFormat::BlockBased(table) = &mut family.table_factory
            && table.block_cache.is_none()
            && !table.no_block_cache
        {
            let cache = shared.get_or_insert_with(|| Cache::new_clock_cache(DEFAULT_CACHE_BYTES));
            table.block_cache = Some(cache.clone());
        }
    }
}

/// Checks whether an open would accept the options, and returns its error if not.
///
/// # Errors
/// See [`sanitize`].
pub(crate) fn check<'a>(
    db: &DbOptions,
    families: impl IntoIterator<Item = (&'a str, &'a ColumnFamilyOptions)>,
) -> Result<()> {
    let mut db = db.clone();
    let families: Vec<(&str, ColumnFamilyOptions)> = families
        .into_iter()
        .map(|(name, family)| (name, family.clone()))
        .collect();
    sanitize_db(&mut db, &OpenContext::default());
    let mut refusals = Refusals::default();
    refusals.check_db(&db);
    for (name, mut family) in families {
        sanitize_family(&mut family, &db, false);
        refusals.check_family(name, &family, &db);
    }
    refusals.into_result()
}

/// Sanitizes the options of a database: adjusts values that RocksDB would adjust at open.
pub(crate) fn sanitize_db(db: &mut DbOptions, context: &OpenContext<'_>) {
    if db.max_open_files != -1 {
        let limit = context
            .open_files_limit
            .map_or(4_194_304, |limit| i32::try_from(limit).unwrap_or(i32::MAX));
        db.max_open_files = db.max_open_files.min(limit).max(20);
    }
    sanitize_db_mutable(db);
    if db.WAL_ttl_seconds > 0
        || db.WAL_size_limit_MB > 0
        || matches!(
            db.wal_recovery_mode,
            RecoveryMode::TolerateCorruptedTailRecords | RecoveryMode::AbsoluteConsistency
        )
    {
        db.recycle_log_file_num = 0;
    }
    if db.recycle_log_file_num != 0 {
        db.async_wal_precreate = false;
    }
    while db.wal_dir.len() > 1 && db.wal_dir.ends_with('/') {
        db.wal_dir.pop();
    }
    if context
        .path
        .is_some_and(|path| Path::new(&db.wal_dir) == path)
    {
        db.wal_dir.clear();
    }
    if db.allow_2pc {
        db.avoid_flush_during_recovery = false;
    }
    if db.wal_compression != Compression::Zstd {
        db.wal_compression = Compression::None;
    }
}

/// Sanitizes the database options that can be changed while the database is open.
pub(crate) fn sanitize_db_mutable(db: &mut DbOptions) {
    if db.max_open_files != -1 {
        db.max_open_files = db.max_open_files.max(20);
    }
    if db.rate_limiter_bytes_per_sec.0 > 0 && db.bytes_per_sync == 0 {
        db.bytes_per_sync = 1 << 20;
    }
    if db.delayed_write_rate == 0 {
        db.delayed_write_rate = db.rate_limiter_bytes_per_sec.0;
    }
    if db.delayed_write_rate == 0 {
        db.delayed_write_rate = 16 << 20;
    }
}

/// Sanitizes the options of a column family: adjusts values as RocksDB does at open.
pub(crate) fn sanitize_family(cf: &mut ColumnFamilyOptions, db: &DbOptions, read_only: bool) {
    sanitize_memtables(cf, db);
    sanitize_shape(cf, db);
    sanitize_ages(cf);
    cf.blob_direct_write_partitions = cf.blob_direct_write_partitions.max(1);
    if read_only {
        cf.preserve_internal_time_seconds = 0;
        cf.preclude_last_level_data_seconds = 0;
        cf.memtable_op_scan_flush_trigger = 0;
        cf.memtable_avg_op_scan_flush_trigger = 0;
    }
    if let TableFormat::BlockBased(table) = &mut cf.table_factory {
        sanitize_block_based(table);
    }
}

/// Sanitizes the sizes, numbers and kind of memtables.
fn sanitize_memtables(cf: &mut ColumnFamilyOptions, db: &DbOptions) {
    cf.write_buffer_size = cf.write_buffer_size.clamp(64 << 10, 64 << 30);
    if cf.arena_block_size == 0 {
        cf.arena_block_size = (cf.write_buffer_size / 8)
            .min(1 << 20)
            .next_multiple_of(4096);
    }
    cf.max_write_buffer_number = cf.max_write_buffer_number.max(2);
    cf.min_write_buffer_number_to_merge = cf
        .min_write_buffer_number_to_merge
        .min(cf.max_write_buffer_number - 1)
        .max(1);
    if db.atomic_flush {
        cf.min_write_buffer_number_to_merge = 1;
    }
    if cf.disallow_memtable_writes {
        cf.memtable_factory = MemtableFactory::Vector(VectorOptions::default());
    }
    let hashes_prefixes = matches!(
        cf.memtable_factory,
        MemtableFactory::HashSkipList(_) | MemtableFactory::HashLinkList(_)
    );
    if hashes_prefixes && cf.prefix_extractor.is_none() {
        cf.memtable_factory = MemtableFactory::default();
    }
    if cf.max_write_buffer_size_to_maintain < 0 {
        let size = i64::try_from(cf.write_buffer_size).unwrap_or(i64::MAX);
        cf.max_write_buffer_size_to_maintain =
            size.saturating_mul(i64::from(cf.max_write_buffer_number));
    }
    cf.memtable_prefix_bloom_size_ratio = clamp_share(cf.memtable_prefix_bloom_size_ratio, 0.25);
}

/// Clamps a fraction to the range from 0 to `max`; NaN becomes 0.
fn clamp_share(share: f64, max: f64) -> f64 {
    if share > 0.0 { share.min(max) } else { 0.0 }
}

/// Sanitizes levels, compaction triggers and stall limits, which shape the LSM tree.
fn sanitize_shape(cf: &mut ColumnFamilyOptions, db: &DbOptions) {
    let levels_min = match cf.compaction_style {
        CompactionStyle::Level => 2,
        CompactionStyle::Universal if db.allow_ingest_behind || cf.cf_allow_ingest_behind => 3,
        _ => 1,
    };
    cf.num_levels = cf.num_levels.max(levels_min);
    if cf.compaction_style == CompactionStyle::Fifo {
        cf.level0_slowdown_writes_trigger = i32::MAX;
        cf.level0_stop_writes_trigger = i32::MAX;
        cf.last_level_temperature = Temperature::Unknown;
    }
    if cf.max_bytes_for_level_multiplier.is_nan() || cf.max_bytes_for_level_multiplier <= 0.0 {
        cf.max_bytes_for_level_multiplier = 1.0;
    }
    if cf.level0_file_num_compaction_trigger == 0 {
        cf.level0_file_num_compaction_trigger = 1;
    }
    cf.level0_slowdown_writes_trigger = cf
        .level0_slowdown_writes_trigger
        .max(cf.level0_file_num_compaction_trigger);
    cf.level0_stop_writes_trigger = cf
        .level0_stop_writes_trigger
        .max(cf.level0_slowdown_writes_trigger);
    let hard = cf.hard_pending_compaction_bytes_limit;
    if cf.soft_pending_compaction_bytes_limit == 0
        || (hard > 0 && cf.soft_pending_compaction_bytes_limit > hard)
    {
        cf.soft_pending_compaction_bytes_limit = hard;
    }
    if cf.cf_paths.0.is_empty() {
        cf.cf_paths.clone_from(&db.db_paths);
    }
    // The directory of a level follows from its size, which does not depend on the data then.
    if cf.compaction_style != CompactionStyle::Level || cf.cf_paths.0.len() > 1 {
        cf.level_compaction_dynamic_level_bytes = false;
    }
    let fifo_chooses = cf.compaction_style == CompactionStyle::Fifo
        && cf.compaction_options_fifo.use_kv_ratio_compaction;
    if cf.max_compaction_bytes == 0 && !fifo_chooses {
        cf.max_compaction_bytes = cf.target_file_size_base.saturating_mul(25);
    }
}

/// Chooses `ttl` and `periodic_compaction_seconds` where they have RocksDB's sentinel default.
fn sanitize_ages(cf: &mut ColumnFamilyOptions) {
    let block_based = cf.table_factory.block_based().is_some();
    if cf.ttl == CHOOSE_SECONDS {
        cf.ttl = if block_based { THIRTY_DAYS } else { 0 };
    }
    if cf.periodic_compaction_seconds == CHOOSE_SECONDS {
        let filters = cf.has_compaction_filter();
        let chosen = match cf.compaction_style {
            CompactionStyle::Level => filters,
            CompactionStyle::Universal => true,
            CompactionStyle::Fifo | CompactionStyle::None => false,
        };
        cf.periodic_compaction_seconds = if chosen && block_based {
            THIRTY_DAYS
        } else {
            0
        };
    }
    if cf.compaction_style == CompactionStyle::Universal && cf.ttl != 0 {
        cf.periodic_compaction_seconds = match cf.periodic_compaction_seconds {
            0 => cf.ttl,
            seconds => seconds.min(cf.ttl),
        };
    }
}

/// Sanitizes the options of block-based tables.
pub(super) fn sanitize_block_based(table: &mut BlockBasedOptions) {
    if !(0..=100).contains(&table.block_size_deviation) {
        table.block_size_deviation = 0;
    }
    table.block_restart_interval = table.block_restart_interval.max(1);
    table.index_block_restart_interval = table.index_block_restart_interval.max(1);
    if table.index_type == IndexType::HashSearch {
        table.index_block_restart_interval = 1;
    }
    if table.index_type != IndexType::TwoLevel {
        table.partition_filters = false;
    }
    table.format_version = table.format_version.max(2);
    table.initial_auto_readahead_size = table
        .initial_auto_readahead_size
        .min(table.max_auto_readahead_size);
}
