//! The properties of RocksDB's `DB::Properties`, release 11.9.

use std::collections::BTreeMap;

use koeldb::statistics::Statistics;
use koeldb::{
    BlockBasedOptions, Cache, ColumnFamilyOptions, CompactRangeOptions, CompactionStyle, Db,
    ErrorKind, IndexType, Options, WriteBufferManager,
};

use crate::scratch::ScratchDir;
use crate::wait::until;

/// How a property answers.
#[derive(Clone, Copy, PartialEq)]
enum Answer {
    Number,
    Text,
    /// A text and a map.
    TextAndMap,
    /// No value in a database without the feature, as in RocksDB.
    Nothing,
    /// An error that names it.
    Refused,
}

use Answer::{Nothing, Number, Refused, Text, TextAndMap};

/// All names; a number is appended to those of levels and temperatures.
const PROPERTIES: &[(&str, Answer)] = &[
    ("num-files-at-level0", Number),
    ("compression-ratio-at-level0", Text),
    ("stats", Text),
    ("sstables", Text),
    ("cfstats", TextAndMap),
    ("cfstats-no-file-histogram", Text),
    ("cf-file-histogram", Refused),
    ("cf-write-stall-stats", TextAndMap),
    ("db-write-stall-stats", TextAndMap),
    ("dbstats", TextAndMap),
    ("levelstats", Text),
    ("block-cache-entry-stats", TextAndMap),
    ("fast-block-cache-entry-stats", TextAndMap),
    ("num-immutable-mem-table", Number),
    ("num-immutable-mem-table-flushed", Number),
    ("mem-table-flush-pending", Number),
    ("num-running-flushes", Number),
    ("compaction-pending", Number),
    ("num-running-compactions", Number),
    ("num-running-compaction-sorted-runs", Number),
    ("compaction-abort-count", Number),
    ("num-unscheduled-compactions", Number),
    ("background-errors", Number),
    ("cur-size-active-mem-table", Number),
    ("cur-size-all-mem-tables", Number),
    ("size-all-mem-tables", Number),
    ("num-entries-active-mem-table", Number),
    ("num-entries-imm-mem-tables", Number),
    ("num-deletes-active-mem-table", Number),
    ("num-deletes-imm-mem-tables", Number),
    ("estimate-num-keys", Number),
    ("estimate-table-readers-mem", Number),
    ("is-file-deletions-enabled", Number),
    ("num-snapshots", Number),
    ("oldest-snapshot-time", Number),
    ("oldest-snapshot-sequence", Number),
    ("num-live-versions", Number),
    ("current-super-version-number", Number),
    ("estimate-live-data-size", Number),
    ("min-log-number-to-keep", Number),
    ("min-obsolete-sst-number-to-keep", Number),
    ("total-sst-files-size", Number),
    ("live-sst-files-size", Number),
    ("obsolete-sst-files-size", Number),
    ("live-sst-files-size-at-temperature0", Number),
    ("base-level", Number),
    ("estimate-pending-compaction-bytes", Number),
    ("aggregated-table-properties", TextAndMap),
    ("aggregated-table-properties-at-level0", TextAndMap),
    ("actual-delayed-write-rate", Number),
    ("is-write-stopped", Number),
    ("estimate-oldest-key-time", Nothing),
    ("block-cache-capacity", Number),
    ("block-cache-usage", Number),
    ("block-cache-pinned-usage", Number),
    ("options-statistics", Text),
    ("num-blob-files", Number),
    ("blob-stats", Text),
    ("total-blob-file-size", Number),
    ("live-blob-file-size", Number),
    ("live-blob-file-garbage-size", Number),
    ("blob-cache-capacity", Nothing),
    ("blob-cache-usage", Nothing),
    ("blob-cache-pinned-usage", Nothing),
];

fn options() -> Options {
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_disable_auto_compactions(true)
        .set_statistics(Statistics::new());
    options
}

fn number(db: &Db, name: &str) -> u64 {
    let value = db.property_int_value(&format!("rocksdb.{name}")).unwrap();
    value.unwrap_or_else(|| panic!("no {name}"))
}

fn map(db: &Db, name: &str) -> BTreeMap<String, String> {
    let map = db.property_map(&format!("rocksdb.{name}")).unwrap();
    map.unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn every_property_of_rocksdb_answers_or_is_refused() {
    let dir = ScratchDir::new();
    let db = Db::open(&options(), dir.path()).unwrap();
    db.put("key", "value").unwrap();
    db.flush().unwrap();
    assert_eq!(PROPERTIES.len(), 64);
    for &(short, answer) in PROPERTIES {
        let name = format!("rocksdb.{short}");
        let value = db.property_value(&name);
        let has_map = db.property_map(&name).unwrap().is_some();
        assert_eq!(has_map, answer == TextAndMap, "{name}");
        match answer {
            Number => {
                let text = value.unwrap().unwrap_or_else(|| panic!("no {name}"));
                text.parse::<u64>()
                    .unwrap_or_else(|_| panic!("{name}: {text}"));
            }
            Text | TextAndMap => {
                let text = value.unwrap().unwrap_or_else(|| panic!("no {name}"));
                assert!(!text.is_empty() && text.parse::<u64>().is_err(), "{name}");
            }
            Nothing => assert_eq!(value.unwrap(), None, "{name}"),
            Refused => {
                let error = value.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::NotSupported);
                assert!(error.message().contains(&name), "{error}");
            }
        }
    }
    for unknown in [
        "rocksdb.unknown",
        "num-snapshots",
        "rocksdb.num-files-at-level99",
    ] {
        assert_eq!(db.property_value(unknown).unwrap(), None);
        assert_eq!(db.property_map(unknown).unwrap(), None);
    }
}

#[test]
fn versions_and_obsolete_tables_count_while_they_are_read() {
    let dir = ScratchDir::new();
    let db = Db::open(&options(), dir.path()).unwrap();
    for round in 0..2 {
        db.put("key", format!("value {round}")).unwrap();
        db.flush().unwrap();
    }
    let before = number(&db, "live-sst-files-size");
    let mut cursor = db.cursor();
    cursor.seek_to_first().unwrap();
    db.compact_all(&CompactRangeOptions::new()).unwrap();
    let live = number(&db, "live-sst-files-size");
    assert!(live < before, "{live} of {before}");
    assert_eq!(number(&db, "total-sst-files-size"), live + before);
    assert_eq!(number(&db, "obsolete-sst-files-size"), before);
    assert_eq!(number(&db, "num-live-versions"), 2);
    drop(cursor);
    until("the removal of the obsolete tables", || {
        number(&db, "obsolete-sst-files-size") == 0 && number(&db, "num-live-versions") == 1
    });
    assert_eq!(number(&db, "total-sst-files-size"), live);
}

#[test]
fn overlapping_files_above_are_no_live_data() {
    let dir = ScratchDir::new();
    let db = Db::open(&options(), dir.path()).unwrap();
    for key in 0..1000 {
        db.put(format!("{key:04}"), [7; 100]).unwrap();
    }
    db.flush().unwrap();
    db.compact_all(&CompactRangeOptions::new()).unwrap();
    let below = number(&db, "live-sst-files-size");
    db.put("0500", "newer").unwrap();
    db.flush().unwrap();
    assert!(number(&db, "live-sst-files-size") > below);
    assert_eq!(number(&db, "estimate-live-data-size"), below);
}

#[test]
fn snapshots_have_times() {
    let dir = ScratchDir::new();
    let db = Db::open(&options(), dir.path()).unwrap();
    assert_eq!(number(&db, "oldest-snapshot-time"), 0);
    db.put("key", "value").unwrap();
    let snapshot = db.snapshot();
    assert!(number(&db, "oldest-snapshot-time") > 1_600_000_000);
    assert_eq!(number(&db, "oldest-snapshot-sequence"), 1);
    drop(snapshot);
    assert_eq!(number(&db, "oldest-snapshot-time"), 0);
}

#[test]
fn properties_of_tables_are_added() {
    let dir = ScratchDir::new();
    let db = Db::open(&options(), dir.path()).unwrap();
    for round in 0..3 {
        db.put(format!("key {round}"), "value").unwrap();
        db.delete("none").unwrap();
        db.flush().unwrap();
    }
    let all = map(&db, "aggregated-table-properties");
    assert_eq!((&*all["num_entries"], &*all["num_deletions"]), ("6", "3"));
    assert_eq!(map(&db, "aggregated-table-properties-at-level0"), all);
    assert_eq!(
        map(&db, "aggregated-table-properties-at-level1")["num_entries"],
        "0"
    );
    let text = db.property_value("rocksdb.aggregated-table-properties");
    let text = text.unwrap().unwrap();
    assert!(text.starts_with("# data blocks=3; "), "{text}");
    assert!(text.contains("; # entries=6; # deletions=3; "), "{text}");
}

#[test]
fn maps_have_the_keys_of_rocksdb() {
    let dir = ScratchDir::new();
    let mut options = options();
    let mut tables = BlockBasedOptions::default();
    tables.set_block_cache(&Cache::new_lru_cache(1 << 20));
    options.set_block_based_table_factory(&tables);
    let db = Db::open(&options, dir.path()).unwrap();
    for key in 0..1000 {
        db.put(format!("{key:04}"), [7; 100]).unwrap();
    }
    db.flush().unwrap();
    assert!(db.get("0500").unwrap().is_some());
    let stats = map(&db, "cfstats");
    assert_eq!(stats["compaction.L0.NumFiles"], "1.000000");
    assert_eq!(stats["compaction.Sum.KeyIn"], "1000.000000");
    assert_eq!(stats["total-stops"], "0");
    let stats = map(&db, "dbstats");
    assert_eq!(stats["db.user_keys_written"], "1000");
    assert_eq!(stats["db.user_writes_by_self"], "1000");
    let stats = map(&db, "block-cache-entry-stats");
    assert_eq!(stats["count.data-block"], "1");
    assert_eq!(stats["capacity"], (1 << 20).to_string());
    let stalls = db.property_value("rocksdb.cf-write-stall-stats");
    assert!(stalls.unwrap().unwrap().starts_with(
        "Write Stall (count): cf-l0-file-count-limit-delays-with-ongoing-compaction: 0, "
    ));
}

#[test]
fn blocks_in_the_cache_are_counted_by_kind_whatever_their_priority() {
    for high_priority in [true, false] {
        let dir = ScratchDir::new();
        let cache = Cache::new_lru_cache(8 << 20);
        let mut tables = BlockBasedOptions::default();
        tables
            .set_block_cache(&cache)
            .set_bloom_filter(10.0)
            .set_index_type(IndexType::TwoLevel)
            .set_partition_filters(true)
            .set_cache_index_and_filter_blocks(true)
            .set_cache_index_and_filter_blocks_with_high_priority(high_priority)
            .set_pin_top_level_index_and_filter(false);
        let mut options = options();
        options
            .set_block_based_table_factory(&tables)
            .set_write_buffer_manager(&WriteBufferManager::with_cache(1 << 30, &cache, false));
        let db = Db::open(&options, dir.path()).unwrap();
        for key in 0..1000 {
            db.put(format!("{key:04}"), [7; 100]).unwrap();
        }
        db.flush().unwrap();
        assert!(db.get("0500").unwrap().is_some());
        let stats = map(&db, "block-cache-entry-stats");
        // A top level and a partition of the index.
        assert_eq!(stats["count.index-block"], "2");
        for kind in ["data-block", "filter-block", "filter-meta-block"] {
            assert_eq!(stats[&format!("count.{kind}")], "1", "{kind}");
        }
        assert_eq!(stats["count.other-block"], "0");
        assert_ne!(stats["count.write-buffer"], "0");
    }
}

#[test]
fn fifo_knows_its_oldest_key() {
    let dir = ScratchDir::new();
    let mut options = options();
    options.set_compaction_style(CompactionStyle::Fifo);
    let db = Db::open(&options, dir.path()).unwrap();
    db.put("key", "value").unwrap();
    db.flush().unwrap();
    assert!(db.get("key").unwrap().is_some());
    assert!(number(&db, "estimate-oldest-key-time") > 1_600_000_000);
}

/// A line of the text format: name, labels, value.
fn parse(line: &str) -> (&str, Vec<(String, String)>, f64) {
    let (series, value) = line.rsplit_once(' ').unwrap();
    let (name, labels) = match series.split_once('{') {
        Some((name, labels)) => (name, labels.strip_suffix('}').unwrap()),
        None => (series, ""),
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    assert!(name.chars().all(is_name) && !name.starts_with(|c: char| c.is_ascii_digit()));
    let labels = labels.split(',').filter(|label| !label.is_empty());
    let labels = labels.map(|label| {
        let (name, value) = label.split_once('=').unwrap();
        let value = value.strip_prefix('"').unwrap().strip_suffix('"').unwrap();
        (name.to_owned(), value.to_owned())
    });
    (name, labels.collect(), value.parse().unwrap())
}

#[test]
fn figures_are_exported_to_prometheus() {
    let dir = ScratchDir::new();
    let db = Db::open(&options(), dir.path()).unwrap();
    db.create_cf("second", &ColumnFamilyOptions::default())
        .unwrap();
    db.put("key", "value").unwrap();
    db.flush().unwrap();
    let text = db.prometheus_text().unwrap();
    let mut types = BTreeMap::new();
    let mut series = BTreeMap::new();
    for line in text.lines() {
        if let Some(declared) = line.strip_prefix("# TYPE ") {
            let (name, kind) = declared.split_once(' ').unwrap();
            assert!(["gauge", "counter", "summary"].contains(&kind), "{line}");
            assert_eq!(types.insert(name, kind), None, "{name} is declared twice");
            continue;
        }
        let (name, labels, value) = parse(line);
        let base = [
            name.strip_suffix("_sum"),
            name.strip_suffix("_count"),
            Some(name),
        ];
        assert!(
            base.iter().flatten().any(|name| types.contains_key(name)),
            "{line} has no type"
        );
        let is_new = series.insert((name.to_owned(), labels), value).is_none();
        assert!(is_new, "{line} is there twice");
    }
    let plain = |name: &str| series[&(name.to_owned(), vec![])];
    assert!((plain("koeldb_number_keys_written_total") - 1.0).abs() < 0.1);
    assert!((plain("koeldb_db_write_micros_count") - 1.0).abs() < 0.1);
    assert!(plain("koeldb_num_snapshots").abs() < 0.1);
    let of = |cf: &str| vec![("cf".to_owned(), cf.to_owned())];
    let keys = |cf| series[&("koeldb_estimate_num_keys".to_owned(), of(cf))];
    assert!((keys("default") - 1.0).abs() < 0.1 && keys("second").abs() < 0.1);
    let documented = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
    let documented = std::fs::read_to_string(documented).unwrap();
    for (name, kind) in types {
        let is_statistic = kind != "gauge";
        assert!(
            is_statistic || documented.contains(&format!("`{name}`")),
            "{name}"
        );
    }
}
