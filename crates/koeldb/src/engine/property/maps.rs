//! Map properties: names and values, with RocksDB's keys (`db/internal_stats.cc`, release 11.9).

use std::collections::BTreeMap;
use std::fmt::Write as _;

use koeldb_base::Result;
use koeldb_table::TableProperties;

use super::blocks_by_role;
use super::stats_text::{LEVEL_COLUMNS, level_figures};
use crate::batch;
use crate::commit::protocol::CommitPipeline;
use crate::state::column_family_data::ColumnFamilyData;
use crate::state::counters::{ColumnFamilyTotals, StallTotals};

/// The names and texts of a map property.
pub(crate) type PropertyMap = BTreeMap<String, String>;

/// Returns the map property `short`, a name without the prefix `rocksdb.`; `None` without a map.
pub(super) fn property_map(
    commit: &CommitPipeline,
    family: &ColumnFamilyData,
    short: &str,
) -> Result<Option<PropertyMap>> {
    if let Some(level) = short.strip_prefix("aggregated-table-properties-at-level") {
        let Ok(level) = level.parse() else {
            return Ok(None);
        };
        let aggregate = aggregate(family, Some(level))?;
        return Ok(aggregate.map(|aggregate| table_map(&aggregate)));
    }
    Ok(Some(match short {
        "cfstats" => family_map(family),
        "cf-write-stall-stats" => stall_map(&family.counters.totals()),
        "db-write-stall-stats" => database_stall_map(commit),
        "dbstats" => database_map(commit),
        "block-cache-entry-stats" | "fast-block-cache-entry-stats" => {
            return Ok(cache_map(commit, family));
        }
        "aggregated-table-properties" => {
            return Ok(aggregate(family, None)?.map(|aggregate| table_map(&aggregate)));
        }
        _ => return Ok(None),
    }))
}

/// Formats a map of write stall counts as one line: `Write Stall (count): name: count, …`.
pub(crate) fn stall_text(map: &PropertyMap) -> String {
    let pairs: Vec<String> = map
        .iter()
        .map(|(name, count)| format!("{name}: {count}"))
        .collect();
    format!("Write Stall (count): {}\n", pairs.join(", "))
}

/// Returns the write stalls of a column family by cause (`rocksdb.cf-write-stall-stats`).
pub(crate) fn stall_map(totals: &ColumnFamilyTotals) -> PropertyMap {
    let causes = [
        ("memtable-limit", totals.memtable_limit),
        ("l0-file-count-limit", totals.level0_limit),
        ("pending-compaction-bytes", totals.pending_bytes),
    ];
    let mut map = PropertyMap::new();
    let mut put = |name: String, count: u64| map.insert(name, count.to_string());
    let mut sum = StallTotals::default();
    for (cause, stalls) in causes {
        put(format!("{cause}-delays"), stalls.delays);
        put(format!("{cause}-stops"), stalls.stops);
        sum.delays += stalls.delays;
        sum.stops += stalls.stops;
    }
    let compacting = totals.level0_limit_compacting;
    let name = |what: &str| format!("cf-l0-file-count-limit-{what}-with-ongoing-compaction");
    put(name("delays"), compacting.delays);
    put(name("stops"), compacting.stops);
    put("total-delays".to_owned(), sum.delays);
    put("total-stops".to_owned(), sum.stops);
    map
}

/// Returns the write stalls of the database by cause (`rocksdb.db-write-stall-stats`).
pub(crate) fn database_stall_map(commit: &CommitPipeline) -> PropertyMap {
    let stops = commit.counters.totals(0, 0).memory_stops;
    PropertyMap::from([(
        "write-buffer-manager-limit-stops".to_owned(),
        stops.to_string(),
    )])
}

/// Returns the statistics of a column family (`rocksdb.cfstats`).
fn family_map(family: &ColumnFamilyData) -> PropertyMap {
    let totals = family.counters.totals();
    let mut map = stall_map(&totals);
    for (row, figures) in level_figures(family, &totals) {
        for (column, figure) in LEVEL_COLUMNS.iter().zip(figures) {
            map.insert(format!("compaction.{row}.{column}"), format!("{figure:.6}"));
        }
    }
    map
}

/// Returns the statistics of the database (`rocksdb.dbstats`).
fn database_map(commit: &CommitPipeline) -> PropertyMap {
    let keys = commit
        .visibility
        .seqno()
        .saturating_sub(commit.context.seqno_at_open);
    let totals = commit.counters.totals(keys, batch::HEADER_BYTES as u64);
    let uptime = (commit.context.clock.now()).saturating_sub(commit.context.opened);
    let mut map = database_stall_map(commit);
    let counts = [
        ("db.wal_bytes_written", totals.logged_bytes),
        ("db.wal_syncs", totals.log_syncs),
        ("db.user_bytes_written", totals.bytes),
        ("db.user_keys_written", totals.keys),
        (
            "db.user_writes_by_other",
            totals.writes.saturating_sub(totals.groups),
        ),
        ("db.user_writes_by_self", totals.groups),
        ("db.user_writes_with_wal", totals.logged_writes),
        (
            "db.user_write_stall_micros",
            u64::try_from(totals.stalled.as_micros()).unwrap_or(u64::MAX),
        ),
    ];
    map.extend(counts.map(|(name, count)| (name.to_owned(), count.to_string())));
    map.insert(
        "db.uptime".to_owned(),
        format!("{:.6}", uptime.as_secs_f64()),
    );
    map
}

/// Returns the block cache statistics by entry role (`rocksdb.block-cache-entry-stats`).
///
/// `None` without a block cache.
fn cache_map(commit: &CommitPipeline, family: &ColumnFamilyData) -> Option<PropertyMap> {
    let cache = family.tables.context().cache.as_ref()?;
    let begun = commit.context.clock.now();
    let roles = blocks_by_role(cache);
    let elapsed = commit.context.clock.now().saturating_sub(begun);
    let capacity = cache.capacity();
    let mut map = PropertyMap::from([
        ("id".to_owned(), super::cache_id(cache)),
        ("capacity".to_owned(), capacity.to_string()),
        (
            "secs_for_last_collection".to_owned(),
            format!("{:.6}", elapsed.as_secs_f64()),
        ),
        ("secs_since_last_collection".to_owned(), "0".to_owned()),
    ]);
    for (role, count, bytes) in roles {
        let name = role.hyphened;
        map.insert(format!("count.{name}"), count.to_string());
        map.insert(format!("bytes.{name}"), bytes.to_string());
        map.insert(
            format!("percent.{name}"),
            format!("{:.6}", super::percent(bytes, capacity)),
        );
    }
    Some(map)
}

/// The figures of tables that can be added, with their names in maps.
#[expect(clippy::type_complexity, reason = "a table of names and fields")]
const AGGREGATED: &[(
    &str,
    fn(&TableProperties) -> u64,
    fn(&mut TableProperties) -> &mut u64,
)] = {
    macro_rules! figures {
        ($($name:literal $field:ident,)*) => {
            &[$((
                $name,
                |properties| properties.$field,
                |properties| &mut properties.$field,
            ),)*]
        };
    }
    figures! {
        "data_size" data_bytes,
        "index_size" index_bytes,
        "index_partitions" index_partitions,
        "top_level_index_size" top_level_index_bytes,
        "filter_size" filter_bytes,
        "raw_key_size" raw_key_bytes,
        "raw_value_size" raw_value_bytes,
        "num_data_blocks" data_block_count,
        "num_data_blocks_compression_rejected" compression_rejected_count,
        "num_data_blocks_compression_bypassed" compression_bypassed_count,
        "num_uniform_blocks" uniform_block_count,
        "num_entries" entry_count,
        "num_filter_entries" filter_entry_count,
        "num_deletions" deletion_count,
        "num_merge_operands" merge_operand_count,
        "num_range_deletions" range_deletion_count,
        "slow_compression_estimated_data_size" slow_compression_data_bytes,
        "fast_compression_estimated_data_size" fast_compression_data_bytes,
    }
};

/// Sums the table properties of all tables, or of those on `level`; `None` without such a level.
pub(super) fn aggregate(
    family: &ColumnFamilyData,
    level: Option<usize>,
) -> Result<Option<TableProperties>> {
    let version = family.version();
    if level.is_some_and(|level| level >= version.levels.len()) {
        return Ok(None);
    }
    let mut sum = TableProperties::default();
    for (at, file) in version.files() {
        if level.is_none_or(|level| level == at) {
            let reader = family.tables.reader(file, at)?;
            for (_, get, get_mut) in AGGREGATED {
                *get_mut(&mut sum) += get(reader.properties());
            }
        }
    }
    Ok(Some(sum))
}

/// Converts aggregated table properties to a map from property name to value.
fn table_map(sum: &TableProperties) -> PropertyMap {
    let figures = AGGREGATED.iter();
    figures
        .map(|(name, get, _)| ((*name).to_owned(), get(sum).to_string()))
        .collect()
}

/// Formats aggregated table properties as text, without the properties that cannot be summed.
///
/// (RocksDB: `TableProperties::ToString`.)
pub(super) fn table_text(sum: &TableProperties) -> String {
    let average = |bytes: u64| bytes as f64 / sum.entry_count.max(1) as f64;
    let mut text = String::new();
    let mut put = |name: &str, value: String| {
        let _ = write!(text, "{name}={value}; ");
    };
    put("# data blocks", sum.data_block_count.to_string());
    put(
        "# data blocks compression rejected",
        sum.compression_rejected_count.to_string(),
    );
    put(
        "# data blocks compression bypassed",
        sum.compression_bypassed_count.to_string(),
    );
    put("# uniform blocks", sum.uniform_block_count.to_string());
    put("# entries", sum.entry_count.to_string());
    put("# deletions", sum.deletion_count.to_string());
    put("# merge operands", sum.merge_operand_count.to_string());
    put("# range deletions", sum.range_deletion_count.to_string());
    put("raw key size", sum.raw_key_bytes.to_string());
    put(
        "raw average key size",
        format!("{:.6}", average(sum.raw_key_bytes)),
    );
    put("raw value size", sum.raw_value_bytes.to_string());
    put(
        "raw average value size",
        format!("{:.6}", average(sum.raw_value_bytes)),
    );
    put("data block size", sum.data_bytes.to_string());
    put(
        "index block size (user-key? 0, delta-value? 0)",
        sum.index_bytes.to_string(),
    );
    if sum.index_partitions != 0 {
        put("# index partitions", sum.index_partitions.to_string());
        put(
            "top-level index size",
            sum.top_level_index_bytes.to_string(),
        );
    }
    put("filter block size", sum.filter_bytes.to_string());
    put("# entries for filter", sum.filter_entry_count.to_string());
    put(
        "(estimated) table size",
        (sum.data_bytes + sum.index_bytes + sum.filter_bytes).to_string(),
    );
    text
}
