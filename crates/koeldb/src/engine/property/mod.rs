//! Properties of the database, with RocksDB's names and formats.
//!
//! All names of `DB::Properties`, release 11.9, are known: each has its true value, no value where
//! RocksDB has none either (a cache that is not configured), or an error that names it.

mod blobs;
mod maps;
mod stats_text;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use koeldb_base::key::{MAX_SEQNO, ValueType, encode};
use koeldb_base::{Error, ErrorKind, Result};
use koeldb_cache::Cache;
use koeldb_fs::huge_pages::HugePages;
use koeldb_lsm::pick::leveled;
use koeldb_lsm::{Level, Version};
use koeldb_table::cuckoo::residency::EffectiveResidency;
use koeldb_table::source::{BlockKind, CachedBlock};

use crate::commit::protocol::CommitPipeline;
use crate::engine::reads::Reads;
use crate::options::{CompactionStyle, pick_settings};
use crate::state::column_family_data::{ColumnFamilyData, ColumnFamilyState};
use crate::state::key_bounds::KeyBounds;
use crate::state::work_queue::WorkKind;

const MIB: u64 = 1 << 20;

pub(crate) use maps::PropertyMap;
use maps::{stall_map, stall_text};
use stats_text::size;
pub(crate) use stats_text::{database_stats, family_stats};

/// Returns the map property `name` of `family` (RocksDB: `GetMapProperty`); `None` without a map.
pub(crate) fn property_map(
    commit: &CommitPipeline,
    family: &ColumnFamilyData,
    name: &str,
) -> Result<Option<PropertyMap>> {
    match name.strip_prefix("rocksdb.") {
        Some(short) => maps::property_map(commit, family, short),
        None => Ok(None),
    }
}

/// Returns property `name` of `family` as text (RocksDB: `GetProperty`); `None` without a value.
pub(crate) fn property_value(
    commit: &CommitPipeline,
    reads: &Reads,
    family: &ColumnFamilyData,
    name: &str,
) -> Result<Option<String>> {
    if name == "koeldb.async-io-engine" {
        return Ok(Some(reads.async_io_engine()));
    }
    if name == "koeldb.cuckoo-residency" {
        return Ok(Some(cuckoo_residency(&family.version())));
    }
    if let Some(short) = name.strip_prefix("koeldb.blob.") {
        return Ok(blobs::text(family, short));
    }
    let Some(short) = name.strip_prefix("rocksdb.") else {
        return Ok(None);
    };
    if let Some(level) = short.strip_prefix("num-files-at-level") {
        let version = family.version();
        let files = level
            .parse::<usize>()
            .ok()
            .and_then(|level| version.levels.get(level));
        return Ok(files.map(|level| level.files.len().to_string()));
    }
    if let Some(level) = short.strip_prefix("compression-ratio-at-level") {
        return Ok(compression_ratio(&family.version(), level));
    }
    if let Some(temperature) = short.strip_prefix("live-sst-files-size-at-temperature") {
        return Ok(bytes_at_temperature(&family.version(), temperature));
    }
    if let Some(level) = short.strip_prefix("aggregated-table-properties-at-level") {
        let Ok(level) = level.parse() else {
            return Ok(None);
        };
        let aggregate = maps::aggregate(family, Some(level))?;
        return Ok(aggregate.map(|sum| maps::table_text(&sum)));
    }
    let text = match short {
        "cf-file-histogram" => {
            return Err(Error::with_kind(
                ErrorKind::NotSupported,
                "rocksdb.cf-file-histogram: read latencies are not measured by level; \
                 the histograms of statistics have them by activity",
            ));
        }
        "cf-write-stall-stats" => Some(stall_text(&stall_map(&family.counters.totals()))),
        "db-write-stall-stats" => Some(stall_text(&maps::database_stall_map(commit))),
        "block-cache-entry-stats" | "fast-block-cache-entry-stats" => cache_text(commit, family),
        "aggregated-table-properties" => {
            maps::aggregate(family, None)?.map(|sum| maps::table_text(&sum))
        }
        "blob-stats" => Some(blob_text(&family.version())),
        "stats" => Some(family_stats(&commit.context, family) + &database_stats(commit)),
        "cfstats" | "cfstats-no-file-histogram" => Some(family_stats(&commit.context, family)),
        "dbstats" => Some(database_stats(commit)),
        "levelstats" => Some(level_stats(&family.version())),
        "sstables" => Some(tables(&family.version())),
        "options-statistics" => commit.context.statistics.as_ref().map(ToString::to_string),
        _ => None,
    };
    if text.is_some() {
        return Ok(text);
    }
    let number = match numeric_property(commit, family, short) {
        Some(number) => Some(number),
        None => table_property(family, short)?,
    };
    Ok(number.map(|number| number.to_string()))
}

/// Returns an integer property that needs no table reader, by its name without `rocksdb.`.
///
/// `None` for other names, and if the property has no value.
fn numeric_property(
    commit: &CommitPipeline,
    family: &ColumnFamilyData,
    short: &str,
) -> Option<u64> {
    memtable_property(family, short)
        .or_else(|| version_property(commit, family, short))
        .or_else(|| database_property(commit, family, short))
}

/// Returns an integer property that memtables answer; `None` if `short` names no such property.
fn memtable_property(family: &ColumnFamilyData, short: &str) -> Option<u64> {
    let read = |read: fn(&ColumnFamilyState) -> u64| family.read(read);
    Some(match short {
        "num-immutable-mem-table" => read(|state| state.sealed.len() as u64),
        "num-immutable-mem-table-flushed" => 0,
        "mem-table-flush-pending" => read(|state| u64::from(!state.sealed.is_empty())),
        "cur-size-active-mem-table" => read(|state| state.active.memtable.memory_bytes() as u64),
        "cur-size-all-mem-tables" => read(|state| state.unflushed_bytes() as u64),
        "size-all-mem-tables" => {
            read(|state| (state.unflushed_bytes() + state.held.bytes()) as u64)
        }
        "num-entries-active-mem-table" => read(|state| state.active.memtable.entry_count()),
        "num-entries-imm-mem-tables" => read(|state| {
            let sealed = state.sealed.iter();
            sealed.map(|sealed| sealed.memtable.entry_count()).sum()
        }),
        "num-deletes-active-mem-table" => read(|state| state.active.memtable.deletion_count()),
        "num-deletes-imm-mem-tables" => read(|state| {
            let sealed = state.sealed.iter();
            sealed.map(|sealed| sealed.memtable.deletion_count()).sum()
        }),
        _ => return None,
    })
}

/// Returns an integer property that versions answer; `None` for other names or without a value.
fn version_property(
    commit: &CommitPipeline,
    family: &ColumnFamilyData,
    short: &str,
) -> Option<u64> {
    Some(match short {
        "compaction-pending" => {
            u64::from(family.is_compaction_due(commit.background.pick_moment()))
        }
        "num-live-versions" => live_versions(commit, family).len() as u64,
        "estimate-live-data-size" => live_bytes(&family.version()),
        "live-sst-files-size" => family.version().bytes(),
        "total-sst-files-size" => {
            let versions = live_versions(commit, family);
            let files = versions.iter().flat_map(|version| version.files());
            let bytes: BTreeMap<_, _> = files.map(|(_, file)| (file.number, file.bytes)).collect();
            bytes.values().sum()
        }
        "estimate-oldest-key-time" => oldest_key_time(family)?,
        "num-blob-files" => family.version().blob_files.len() as u64,
        "live-blob-file-size" => blob_bytes(&[family.version()]),
        "total-blob-file-size" => blob_bytes(&live_versions(commit, family)),
        "live-blob-file-garbage-size" => {
            let version = family.version();
            let files = version.blob_files.values();
            files.map(|file| file.garbage_bytes).sum()
        }
        "estimate-pending-compaction-bytes" => family.read(|state| state.pending_compaction_bytes),
        "base-level" => {
            let options = family.options();
            leveled::level_targets(&family.version(), &pick_settings(&options)).base_level as u64
        }
        "current-super-version-number" => family.super_version.install_number(),
        _ => return None,
    })
}

/// Returns an integer property of the whole database, the block cache or the blob cache.
///
/// `None` for other names, and for properties of a cache without one.
fn database_property(
    commit: &CommitPipeline,
    family: &ColumnFamilyData,
    short: &str,
) -> Option<u64> {
    let (flushes, compactions) = commit.slots.counts();
    let cache = family.tables.context().cache.as_ref();
    let blob_cache = family.tables.context().blob_cache.as_ref();
    Some(match short {
        "num-running-flushes" => u64::from(flushes),
        "num-running-compactions" => u64::from(compactions),
        "num-running-compaction-sorted-runs" => commit
            .families
            .all()
            .iter()
            .map(|family| runs_being_compacted(&family.version()))
            .sum(),
        // No call aborts the compactions of a database as a whole.
        "compaction-abort-count" => 0,
        "num-unscheduled-compactions" => commit.families.queue().count(WorkKind::Compaction),
        "background-errors" => commit.health.error_count(),
        "is-file-deletions-enabled" => u64::from(commit.tree.holds().count() == 0),
        "num-snapshots" => commit.visibility.snapshots.count() as u64,
        "oldest-snapshot-sequence" => commit.visibility.snapshots.oldest().unwrap_or(0),
        "oldest-snapshot-time" => commit.visibility.snapshots.oldest_unix_secs(),
        "obsolete-sst-files-size" => commit.tree.retired_bytes(),
        // Files being written have numbers of their own and keep no obsolete file.
        "min-obsolete-sst-number-to-keep" => u64::MAX,
        "actual-delayed-write-rate" => commit.stall.delayed_rate().unwrap_or(0),
        "is-write-stopped" => u64::from(commit.stall.is_stopped()),
        "block-cache-capacity" => cache?.capacity(),
        "block-cache-usage" => cache?.usage(),
        "block-cache-pinned-usage" => cache?.pinned_usage(),
        "blob-cache-capacity" => blob_cache?.capacity(),
        "blob-cache-usage" => blob_cache?.usage(),
        "blob-cache-pinned-usage" => blob_cache?.pinned_usage(),
        "min-log-number-to-keep" => commit.tree.versions().min_log_number_to_keep(),
        _ => return None,
    })
}

/// Returns the live versions of a column family: the current one and those that are still read.
fn live_versions(commit: &CommitPipeline, family: &ColumnFamilyData) -> Vec<Arc<Version>> {
    let current = family.version();
    let versions = commit.tree.versions();
    versions
        .live_versions()
        .filter(|version| Arc::ptr_eq(&version.running, &current.running))
        .collect()
}

/// Returns the number of sorted runs in compaction (`rocksdb.num-running-compaction-sorted-runs`).
///
/// Each level 0 file counts as a run, each other level as one.
fn runs_being_compacted(version: &Version) -> u64 {
    let count = |(number, level): (usize, &Level)| {
        let files = level.files.iter();
        let busy = files.filter(|file| file.is_being_compacted()).count();
        if number == 0 { busy } else { busy.min(1) }
    };
    version.levels.iter().enumerate().map(count).sum::<usize>() as u64
}

/// Estimates the bytes of live data (RocksDB: `VersionStorageInfo::EstimateLiveDataSize`).
///
/// Counts the files, from the last level up, that overlap no file counted before, and the live
/// bytes of blob files.
fn live_bytes(version: &Version) -> u64 {
    let order = &version.order;
    // Taken files as smallest and largest key, in key order.
    let mut taken: Vec<(&[u8], &[u8])> = Vec::new();
    let mut bytes = 0;
    for level in version.levels.iter().rev() {
        for file in &level.files {
            let at = taken.partition_point(|(_, largest)| {
                order.compare_internal(largest, &file.smallest).is_lt()
            });
            let is_apart = taken.get(at).is_none_or(|(smallest, _)| {
                order.compare_internal(&file.largest, smallest).is_lt()
            });
            if is_apart {
                taken.insert(at, (&file.smallest, &file.largest));
                bytes += file.bytes;
            }
        }
    }
    let blobs = version.blob_files.values();
    bytes
        + blobs
            .map(|file| file.bytes - file.garbage_bytes.min(file.bytes))
            .sum::<u64>()
}

/// Returns the oldest key's write time (`rocksdb.estimate-oldest-key-time`).
///
/// `None` if unknown, and except for FIFO compaction without `allow_compaction`, as in RocksDB.
fn oldest_key_time(family: &ColumnFamilyData) -> Option<u64> {
    let options = family.options();
    if options.compaction_style != CompactionStyle::Fifo
        || options.compaction_options_fifo.allow_compaction
    {
        return None;
    }
    let version = family.version();
    let times = version.files().map(|(_, file)| {
        let stats = &file.entry_stats;
        stats.oldest_key_time.load(Ordering::Relaxed)
    });
    times.min().filter(|time| *time > 0)
}

/// Returns the compression ratio of a level (`rocksdb.compression-ratio-at-levelN`).
///
/// It is the bytes of raw keys and values divided by the bytes of the files; -1 if no file of the
/// level has known sizes. `None` if there is no such level.
fn compression_ratio(version: &Version, level: &str) -> Option<String> {
    let level = version.levels.get(level.parse::<usize>().ok()?)?;
    let (mut raw, mut stored) = (0, 0);
    for file in &level.files {
        let stats = &file.entry_stats;
        let bytes =
            stats.key_bytes.load(Ordering::Relaxed) + stats.value_bytes.load(Ordering::Relaxed);
        if bytes > 0 {
            raw += bytes;
            stored += file.bytes;
        }
    }
    Some(match stored {
        0 => "-1.000000".to_owned(),
        stored => format!("{:.6}", raw as f64 / stored as f64),
    })
}

/// Returns the bytes of the tables at a temperature (`rocksdb.live-sst-files-size-at-temperature`).
fn bytes_at_temperature(version: &Version, temperature: &str) -> Option<String> {
    let temperature: u64 = temperature.parse().ok()?;
    let files = version.files();
    let at = files.filter(|(_, file)| u64::from(file.temperature) == temperature);
    Some(at.map(|(_, file)| file.bytes).sum::<u64>().to_string())
}

/// Returns the total bytes of the blob files of `versions`, each file counted once.
fn blob_bytes(versions: &[Arc<Version>]) -> u64 {
    let files = versions.iter().flat_map(|version| &version.blob_files);
    let bytes: BTreeMap<_, _> = files.map(|(number, file)| (number, file.bytes)).collect();
    bytes.values().sum()
}

/// Returns the value of the property `rocksdb.blob-stats`: number, sizes and garbage of blob files.
fn blob_text(version: &Version) -> String {
    let files = version.blob_files.values();
    let bytes: u64 = files.clone().map(|file| file.bytes).sum();
    let garbage: u64 = files.map(|file| file.garbage_bytes).sum();
    let amplification = match bytes.saturating_sub(garbage) {
        0 => 0.0,
        live => bytes as f64 / live as f64,
    };
    format!(
        "Number of blob files: {}\nTotal size of blob files: {bytes}\n\
         Total size of garbage in blob files: {garbage}\nBlob file space amplification: {amplification}\n",
        version.blob_files.len()
    )
}

/// The spellings of one RocksDB `CacheEntryRole`: `DataBlock` and `data-block`.
#[derive(Clone, Copy)]
struct CacheRole {
    joined: &'static str,
    hyphened: &'static str,
}

const CACHE_ROLES: [CacheRole; 6] = [
    CacheRole {
        joined: "DataBlock",
        hyphened: "data-block",
    },
    CacheRole {
        joined: "FilterBlock",
        hyphened: "filter-block",
    },
    CacheRole {
        joined: "FilterMetaBlock",
        hyphened: "filter-meta-block",
    },
    CacheRole {
        joined: "IndexBlock",
        hyphened: "index-block",
    },
    CacheRole {
        joined: "OtherBlock",
        hyphened: "other-block",
    },
    CacheRole {
        joined: "WriteBuffer",
        hyphened: "write-buffer",
    },
];

/// Returns the number and the bytes of the cached blocks by role; scans the whole block cache.
fn blocks_by_role(cache: &Cache<CachedBlock>) -> [(CacheRole, u64, u64); CACHE_ROLES.len()] {
    let mut roles = CACHE_ROLES.map(|role| (role, 0, 0));
    cache.for_each(|block, charge| {
        let role = match block {
            CachedBlock::Entries(block) => match block.kind() {
                BlockKind::Data => 0,
                BlockKind::FilterIndex => 2,
                BlockKind::Index => 3,
                _ => 4,
            },
            CachedBlock::Filter(_) => 1,
            block if block.is_reservation() => 5,
            CachedBlock::Raw(_) => 4,
        };
        roles[role].1 += 1;
        roles[role].2 += charge;
    });
    roles
}

/// Returns a name for a block cache that is unique on this host.
///
/// (RocksDB: `Customizable::GenerateIndividualId`.)
fn cache_id(cache: &Cache<CachedBlock>) -> String {
    format!("BlockCache@{:#x}#{}", cache.address(), std::process::id())
}

/// Returns `part` of `whole` in percent.
fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

/// Returns the property `rocksdb.block-cache-entry-stats` as text; `None` without a block cache.
fn cache_text(commit: &CommitPipeline, family: &ColumnFamilyData) -> Option<String> {
    let cache = family.tables.context().cache.as_ref()?;
    let begun = commit.context.clock.now();
    let roles = blocks_by_role(cache);
    let elapsed = commit.context.clock.now().saturating_sub(begun);
    let mut text = format!(
        "Block cache {} capacity: {} usage: {} occupancy: {} last_secs: {:.6} secs_since: 0\n\
         Block cache entry stats(count,size,portion):",
        cache_id(cache),
        size(cache.capacity()),
        size(cache.usage()),
        cache.len(),
        elapsed.as_secs_f64()
    );
    for (role, count, bytes) in roles.iter().filter(|(_, count, _)| *count > 0) {
        let share = percent(*bytes, cache.capacity());
        let _ = write!(
            text,
            " {}({count},{},{share:.6}%)",
            role.joined,
            size(*bytes)
        );
    }
    text.push('\n');
    Some(text)
}

/// Returns an integer property that needs table readers; `Ok(None)` for names of other properties.
fn table_property(family: &ColumnFamilyData, short: &str) -> Result<Option<u64>> {
    let version = family.version();
    match short {
        "estimate-num-keys" => {
            let (mut entries, mut deletions) = family.read(|state| {
                let all = || {
                    std::iter::once(&state.active)
                        .chain(&state.sealed)
                        .map(|logged| &logged.memtable)
                };
                (
                    all().map(|memtable| memtable.entry_count()).sum::<u64>(),
                    all().map(|memtable| memtable.deletion_count()).sum::<u64>(),
                )
            });
            for (level, file) in version.files() {
                family.tables.reader(file, level)?;
                entries += file.entry_stats.entries.load(Ordering::Relaxed);
                deletions += file.entry_stats.deletions.load(Ordering::Relaxed);
            }
            Ok(Some(entries.saturating_sub(deletions.saturating_mul(2))))
        }
        "estimate-table-readers-mem" => {
            let readers = version.files().filter_map(|(_, file)| file.open_reader());
            Ok(Some(readers.map(|reader| reader.memory_bytes()).sum()))
        }
        _ => Ok(None),
    }
}

/// Estimates the bytes of the tables' data within a key range (RocksDB: `GetApproximateSizes`).
pub(crate) fn approximate_size(
    family: &ColumnFamilyData,
    version: &Version,
    bounds: &KeyBounds,
) -> Result<u64> {
    let offset = |key: &[u8]| -> Result<u64> {
        let target = encode(key, MAX_SEQNO, ValueType::FOR_SEEK);
        let mut bytes = 0;
        for (level, file) in version.files() {
            bytes += (family.tables).bytes_before(&version.order, file, level, &target)?;
        }
        Ok(bytes)
    };
    let from = match &bounds.lower {
        Bound::Included(key) | Bound::Excluded(key) => offset(key)?,
        Bound::Unbounded => 0,
    };
    let to = match &bounds.upper {
        Bound::Included(key) | Bound::Excluded(key) => offset(key)?,
        Bound::Unbounded => version.bytes(),
    };
    Ok(to.saturating_sub(from))
}

/// Describes how the open cuckoo tables are held in memory, mapped or copied for example, as text.
fn cuckoo_residency(version: &Version) -> String {
    let pages = HugePages::of_this_process();
    let mut places: BTreeMap<EffectiveResidency, (u64, u64, u64)> = BTreeMap::new();
    let tables = version.files().filter_map(|(_, file)| file.open_reader());
    for resident in tables.filter_map(|table| table.cuckoo_resident()) {
        let (tables, bytes, huge_bytes) = places.entry(resident.place).or_default();
        *tables += 1;
        *bytes += resident.bytes;
        if let (Some(pages), Some(address)) = (&pages, resident.address) {
            *huge_bytes += pages.at_most(address, resident.bytes);
        }
    }
    let mut text = String::new();
    for (place, (tables, bytes, huge_bytes)) in places {
        let _ = write!(text, "{}: {tables} tables, {bytes} bytes", place.name());
        let _ = match (place, &pages) {
            (EffectiveResidency::Mapped | EffectiveResidency::Copied, Some(_)) => {
                writeln!(text, ", at most {huge_bytes} of them in huge pages")
            }
            _ => writeln!(text),
        };
    }
    text
}

/// Returns the value of the property `rocksdb.levelstats`: the files and megabytes of each level.
fn level_stats(version: &Version) -> String {
    let mut text = String::from("Level Files Size(MB)\n--------------------\n");
    for (number, level) in version.levels.iter().enumerate() {
        let _ = writeln!(
            text,
            "{number:>3} {:>8} {:>8}",
            level.files.len(),
            (level.bytes() + MIB / 2) / MIB
        );
    }
    text
}

/// Returns the value of the property `rocksdb.sstables`: all tables by level with their bounds.
fn tables(version: &Version) -> String {
    let mut text = String::new();
    for (number, level) in version.levels.iter().enumerate() {
        let _ = writeln!(text, "--- level {number} --- version# 1 ---");
        for file in &level.files {
            let _ = writeln!(
                text,
                " {}:{}[{} .. {}]['{}' seq:{} .. '{}']",
                file.number,
                file.bytes,
                file.smallest_seqno,
                file.largest_seqno,
                file.smallest_user_key().escape_ascii(),
                file.smallest_seqno,
                file.largest_user_key().escape_ascii(),
            );
        }
    }
    text
}
