//! Properties of the database, with RocksDB's names and formats.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Bound;
use std::sync::atomic::Ordering;

use koeldb_base::Result;
use koeldb_base::key::{MAX_SEQNO, ValueType, encode};
use koeldb_fs::huge_pages::HugePages;
use koeldb_lsm::Version;
use koeldb_lsm::pick::leveled;
use koeldb_table::cuckoo::residency::EffectiveResidency;

use crate::column_family_data::{ColumnFamilyData, ColumnFamilyState};
use crate::key_bounds::KeyBounds;
use crate::options::pick_settings;
use crate::reads::Reads;
use crate::stats_text::{database_stats, family_stats};
use crate::write::commit::CommitPipeline;

const MIB: u64 = 1 << 20;

/// Returns the value of property `name` of `family`.
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
    let text = match short {
        "stats" => Some(family_stats(&commit.context, family) + &database_stats(commit)),
        "cfstats" | "cfstats-no-file-histogram" => Some(family_stats(&commit.context, family)),
        "dbstats" => Some(database_stats(commit)),
        "levelstats" => Some(level_stats(&family.version())),
        "sstables" => Some(tables(&family.version())),
        "options-statistics" => commit.context.statistics.as_ref().map(ToString::to_string),
        "compression-ratio-at-level0" => None,
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

fn numeric_property(
    commit: &CommitPipeline,
    family: &ColumnFamilyData,
    short: &str,
) -> Option<u64> {
    let (flushes, compactions) = commit.slots.counts();
    let cache = family.tables.context().cache.as_ref();
    let state = |read: fn(&ColumnFamilyState) -> u64| family.read(read);
    Some(match short {
        "num-immutable-mem-table" => state(|state| state.sealed.len() as u64),
        "num-immutable-mem-table-flushed" => 0,
        "mem-table-flush-pending" => state(|state| u64::from(!state.sealed.is_empty())),
        "num-running-flushes" => u64::from(flushes),
        "compaction-pending" => {
            u64::from(family.is_compaction_due(commit.background.pick_moment()))
        }
        "num-running-compactions" => u64::from(compactions),
        "background-errors" => u64::from(commit.health.failure().is_some()),
        "cur-size-active-mem-table" => state(|state| state.active.memtable.memory_bytes() as u64),
        "cur-size-all-mem-tables" | "size-all-mem-tables" => state(|state| {
            let sealed: usize = state
                .sealed
                .iter()
                .map(|sealed| sealed.memtable.memory_bytes())
                .sum();
            (state.active.memtable.memory_bytes() + sealed) as u64
        }),
        "num-entries-active-mem-table" => state(|state| state.active.memtable.entry_count()),
        "num-entries-imm-mem-tables" => state(|state| {
            state
                .sealed
                .iter()
                .map(|sealed| sealed.memtable.entry_count())
                .sum()
        }),
        "num-deletes-active-mem-table" => state(|state| state.active.memtable.deletion_count()),
        "num-deletes-imm-mem-tables" => state(|state| {
            state
                .sealed
                .iter()
                .map(|sealed| sealed.memtable.deletion_count())
                .sum()
        }),
        "is-file-deletions-enabled" => u64::from(commit.tree.holds().count() == 0),
        "num-snapshots" => commit.visibility.snapshots.count() as u64,
        "oldest-snapshot-sequence" => commit
            .visibility
            .snapshots
            .all()
            .first()
            .copied()
            .unwrap_or(0),
        "num-live-versions" => 1,
        "estimate-live-data-size" | "live-sst-files-size" | "total-sst-files-size" => {
            family.version().bytes()
        }
        "estimate-pending-compaction-bytes" => state(|state| state.pending_compaction_bytes),
        "base-level" => {
            let options = family.options();
            leveled::level_targets(&family.version(), &pick_settings(&options)).base_level as u64
        }
        "actual-delayed-write-rate" => commit.stall.delayed_rate().unwrap_or(0),
        "is-write-stopped" => u64::from(commit.stall.is_stopped()),
        "block-cache-capacity" => cache?.capacity(),
        "block-cache-usage" => cache?.usage(),
        "block-cache-pinned-usage" => cache?.pinned_usage(),
        "min-log-number-to-keep" => commit.tree.versions().min_log_number_to_keep(),
        "current-super-version-number" => family.super_version.install_number(),
        _ => return None,
    })
}

/// Properties that require open tables.
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

/// Estimates the bytes of tables between two keys.
pub(crate) fn approximate_size(family: &ColumnFamilyData, bounds: &KeyBounds) -> Result<u64> {
    let version = family.version();
    let offset = |key: &[u8]| -> Result<u64> {
        let target = encode(key, MAX_SEQNO, ValueType::FOR_SEEK);
        let mut bytes = 0;
        for (level, file) in version.files() {
            if version
                .order
                .compare_internal(&file.largest, &target)
                .is_lt()
            {
                bytes += file.bytes;
            } else if version
                .order
                .compare_internal(&file.smallest, &target)
                .is_lt()
            {
                bytes += family
                    .tables
                    .reader(file, level)?
                    .approximate_offset(&target)?;
            }
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

/// Describes the residency of the open cuckoo tables of a version: a line for each kind.
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
