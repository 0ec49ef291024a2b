//! Comparators that treat different bytes as the same key, in every read and job.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use koeldb::statistics::{Statistics, Ticker};
use koeldb::{
    ColumnFamily, CompactRangeOptions, Comparator, ConfigOptions, Db, Options, ReadOptions,
    Snapshot,
};

use crate::model::base_options;

/// Orders keys bytewise, in lower case.
struct IgnoresCase;

impl Comparator for IgnoresCase {
    fn name(&self) -> &str {
        "IgnoresCase"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase())
    }
}

/// Orders keys bytewise, as a comparator of RocksDB that says nothing about equal keys.
struct OwnBytewise;

impl Comparator for OwnBytewise {
    fn name(&self) -> &str {
        "OwnBytewise"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.cmp(b)
    }

    fn permits_hashes(&self) -> bool {
        true
    }
}

/// The last written key and value, by the key in lower case.
type Model = BTreeMap<Vec<u8>, (Vec<u8>, Vec<u8>)>;

/// Option strings that each add a structure based on the bytes of keys.
const OPTIONS: &[&str] = &[
    "",
    "block_based_table_factory={filter_policy=bloomfilter:10:false;block_size=256};",
    "block_based_table_factory={filter_policy=ribbonfilter:8;partition_filters=true;\
     index_type=kTwoLevelIndexSearch;metadata_block_size=512;block_size=256};",
    "memtable_whole_key_filtering=true;memtable_prefix_bloom_size_ratio=0.1;",
    "prefix_extractor=rocksdb.FixedPrefix.4;memtable_prefix_bloom_size_ratio=0.1;\
     block_based_table_factory={filter_policy=bloomfilter:10:false;whole_key_filtering=false};",
    "memtable_factory=vector;block_based_table_factory={block_size=256;\
     data_block_index_type=kDataBlockBinaryAndHash;index_type=kBinarySearchWithFirstKey};",
    "table_factory={id=PlainTable;bloom_bits_per_key=10};prefix_extractor=rocksdb.FixedPrefix.4;",
    "table_factory={id=CuckooTable;keep_versions=true};",
];

fn check(family: &ColumnFamily, model: &Model, snapshot: Option<&Snapshot>, is_one_case: bool) {
    let read = snapshot.map_or_else(ReadOptions::new, ReadOptions::at);
    let entry = |entry: koeldb::Result<(koeldb::PinnedSlice, koeldb::PinnedSlice)>| {
        let (key, value) = entry.unwrap();
        (key.to_vec(), value.to_vec())
    };
    let expected: Vec<(Vec<u8>, Vec<u8>)> = model.values().cloned().collect();
    let forward: Vec<_> = family.range_opt(.., &read).map(entry).collect();
    assert_eq!(forward, expected, "forward scan");
    let mut backward: Vec<_> = family.range_opt(.., &read).rev().map(entry).collect();
    backward.reverse();
    assert_eq!(backward, expected, "backward scan");
    let keys: Vec<Vec<u8>> = (0..40)
        .flat_map(|n| [format!("key{n:02}"), format!("KEY{n:02}")])
        .filter(|key| !is_one_case || key.starts_with("key"))
        .map(String::into_bytes)
        .collect();
    let many = family.multi_get_opt(&keys, &read);
    for (key, found) in keys.iter().zip(&many) {
        let expected = model.get(&key.to_ascii_lowercase());
        let expected = expected.map(|(_, value)| value.as_slice());
        let shown = key.escape_ascii();
        assert_eq!(found.unwrap(), expected, "multi_get {shown}");
        let got = family.get_opt(key, &read).unwrap();
        assert_eq!(got.as_deref(), expected, "get {shown}");
        let mut cursor = family.cursor_opt(&read);
        cursor.seek(key).unwrap();
        let next = model.range(key.to_ascii_lowercase()..).next();
        assert_eq!(
            cursor.key(),
            next.map(|(_, (key, _))| key.as_slice()),
            "seek {shown}"
        );
    }
}

pub(crate) fn run(seed: u64, text: &str) {
    run_with(IgnoresCase, seed, text);
}

fn run_with(comparator: impl Comparator, seed: u64, text: &str) {
    println!("seed {seed}, {}: {text}", comparator.name());
    // Keys in one case alone have equal bytes if they are equal.
    let is_one_case = comparator.permits_hashes();
    let mut options: Options = base_options();
    options
        .set_comparator(comparator)
        .apply_str(text, &ConfigOptions::new())
        .unwrap();
    let mut random = koeldb_testkit::Random::new(koeldb_testkit::random::mix(seed));
    let mut db = Db::open(&options, "/equal").unwrap();
    let mut model = Model::new();
    let mut snapshots: Vec<(Snapshot, Model)> = Vec::new();
    for step in 0..250 {
        let number = random.below(40);
        let key = match is_one_case || random.chance(1, 2) {
            true => format!("key{number:02}"),
            false => format!("KEY{number:02}"),
        };
        let key = key.into_bytes();
        let canonical = key.to_ascii_lowercase();
        let family = db.default_cf().clone();
        match random.below(20) {
            0..8 => {
                let value = format!("value{step}").into_bytes();
                family.put(&key, &value).unwrap();
                model.insert(canonical, (key, value));
            }
            8..11 => {
                family.delete(&key).unwrap();
                model.remove(&canonical);
            }
            11..13 => {
                family.merge(&key, format!("m{step}")).unwrap();
                let entry = model.entry(canonical).or_default();
                if !entry.1.is_empty() {
                    entry.1.push(b',');
                }
                entry.1.extend_from_slice(format!("m{step}").as_bytes());
                entry.0 = key;
            }
            13 => {
                let mut end = format!("Key{:02}", number + random.below(5));
                if is_one_case {
                    end.make_ascii_lowercase();
                }
                family.delete_range(&key, &end).unwrap();
                let end = end.into_bytes().to_ascii_lowercase();
                model.retain(|key, _| *key < canonical || *key >= end);
            }
            14..16 => family.flush().unwrap(),
            16 => family
                .compact_range_opt(.., &CompactRangeOptions::new())
                .unwrap(),
            17 => snapshots.push((db.snapshot(), model.clone())),
            18 if !snapshots.is_empty() => drop(snapshots.swap_remove(0)),
            _ if random.chance(1, 6) => {
                snapshots.clear();
                db.close().unwrap();
                drop(family);
                db = Db::open(&options, "/equal").unwrap();
            }
            _ => {}
        }
        if step % 20 == 19 {
            check(db.default_cf(), &model, None, is_one_case);
            for (snapshot, then) in &snapshots {
                check(db.default_cf(), then, Some(snapshot), is_one_case);
            }
        }
    }
}

#[test]
fn keys_that_compare_equal_are_one_key_whatever_their_bytes() {
    for (number, text) in OPTIONS.iter().enumerate() {
        for seed in 0..2 {
            run(seed << 8 | number as u64, text);
        }
    }
}

#[test]
fn an_order_that_permits_hashes_keeps_all_keys_apart() {
    let hashed = [
        "memtable_factory=prefix_hash:1024;prefix_extractor=rocksdb.FixedPrefix.4;\
         allow_concurrent_memtable_write=false;",
        "memtable_factory=hash_linkedlist:1024;prefix_extractor=rocksdb.FixedPrefix.4;\
         allow_concurrent_memtable_write=false;",
    ];
    for (number, text) in OPTIONS.iter().chain(&hashed).enumerate() {
        for seed in 0..2 {
            run_with(OwnBytewise, seed << 8 | number as u64, text);
        }
    }
}

#[test]
fn filters_are_used_with_an_order_that_permits_hashes() {
    for (order, is_used) in [("IgnoresCase", false), ("OwnBytewise", true)] {
        let mut options = base_options();
        match is_used {
            true => options.set_comparator(OwnBytewise),
            false => options.set_comparator(IgnoresCase),
        };
        options.set_statistics(Statistics::new());
        let text = "block_based_table_factory={filter_policy=bloomfilter:10:false}";
        options.apply_str(text, &ConfigOptions::new()).unwrap();
        let db = Db::open(&options, "/filters").unwrap();
        for number in (0..1000).step_by(2) {
            db.put(format!("key{number:03}"), "").unwrap();
        }
        db.flush().unwrap();
        for number in (1..999).step_by(2) {
            assert_eq!(db.get(format!("key{number:03}")).unwrap(), None);
        }
        let useful = db.statistics().unwrap().ticker(Ticker::BloomFilterUseful);
        assert_eq!(useful > 400, is_used, "{order}: {useful}");
    }
}
