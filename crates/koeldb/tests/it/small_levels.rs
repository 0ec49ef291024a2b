//! Trees of many small levels: what compactions choose and cut there changes no answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use koeldb::fs::{Clock, MemoryFileSystem, SystemClock};
use koeldb::{
    BottommostLevelCompaction, ColumnFamily, CompactRangeOptions, CompactionStyle, ConfigOptions,
    Db, Env, Options, ReadOptions, Snapshot, StringAppend,
};
use koeldb_testkit::Floors;
use koeldb_testkit::random::{Random, mix};

use crate::model::{self, base_options};
use crate::prelude::creating;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

const KEYS: u64 = 300;

/// A clock that runs ten times as fast: a database comes to rest in half a second.
#[derive(Debug)]
struct Fast;

impl Clock for Fast {
    fn now(&self) -> Duration {
        SystemClock.now() * 10
    }

    fn unix_micros(&self) -> u64 {
        SystemClock.unix_micros()
    }

    fn sleep(&self, duration: Duration) {
        SystemClock.sleep(duration / 10);
    }
}

fn key(number: u64) -> Vec<u8> {
    format!("key{number:04}").into_bytes()
}

fn pick<T: Copy>(random: &mut Random, values: &[T]) -> T {
    values[random.index(values.len())]
}

/// Options of tables and levels of a few hundred bytes.
fn tiny(seed: u64) -> String {
    let random = &mut Random::new(mix(seed));
    format!(
        "target_file_size_base={};max_bytes_for_level_base={};max_bytes_for_level_multiplier={};\
         level0_file_num_compaction_trigger={};level0_slowdown_writes_trigger={};\
         level_compaction_dynamic_level_bytes={};max_compaction_bytes={};\
         target_file_size_is_upper_bound={};compaction_pri={};max_sequential_skip_in_iterations=2;\
         target_file_size_multiplier={};",
        pick(random, &[200, 500, 1000]),
        pick(random, &[300, 700, 1500]),
        pick(random, &["1.2", "2", "3"]),
        pick(random, &[2, 3, 4]),
        pick(random, &[4, 8, 20]),
        random.chance(1, 2),
        pick(random, &[1, 800, 3000, 1_000_000_000]),
        random.chance(1, 3),
        pick(
            random,
            &[
                "kMinOverlappingRatio",
                "kByCompensatedSize",
                "kRoundRobin",
                "kOldestLargestSeqFirst"
            ]
        ),
        pick(random, &[1, 2]),
    )
}

#[test]
fn tiny_levels_answer_as_the_model() {
    for seed in 0..Floors::chosen().of(6, 12, 100) {
        let mut text = tiny(seed);
        if seed % 3 == 0 {
            text += "comparator=rocksdb.ReverseBytewiseComparator;";
        }
        let mut options = base_options();
        options.apply_str(&text, &ConfigOptions::new()).unwrap();
        model::run(seed, &options, 1000);
    }
}

#[test]
fn tiny_levels_of_equal_keys_answer_as_the_model() {
    for seed in 0..Floors::chosen().of(6, 12, 100) {
        crate::equal_keys::run(seed, &tiny(seed));
    }
}

/// A flush beside other tables in every form of memtable: its filter in memory denies no key.
#[test]
fn the_filter_in_memory_of_every_memtable_admits_its_keys() {
    let memtables = [
        "skip_list",
        "vector",
        "prefix_hash",
        "hash_linkedlist",
        "hash_spdb",
    ];
    for (number, memtable) in (0..).zip(memtables) {
        let mut text = format!(
            "memtable_factory={memtable};prefix_extractor=rocksdb.FixedPrefix.4;\
             allow_concurrent_memtable_write=false;level0_file_num_compaction_trigger=30;\
             level0_slowdown_writes_trigger=60;level0_stop_writes_trigger=90;max_open_files=20;"
        );
        if number % 2 == 0 {
            text += "block_based_table_factory={index_type=kTwoLevelIndexSearch;block_size=100;\
                     cache_index_and_filter_blocks=true};";
        }
        let mut options = base_options();
        options.apply_str(&text, &ConfigOptions::new()).unwrap();
        model::run(number, &options, 600);
    }
}

/// Compares everything that a database, or a snapshot of it, returns with a model.
fn check(db: &Db, model: &Model, snapshot: Option<&Snapshot>) {
    let read = snapshot.map_or_else(ReadOptions::new, ReadOptions::at);
    let family = db.default_cf();
    let entries = family.range_opt(.., &read);
    let entries: Vec<_> = entries.map(Result::unwrap).collect();
    let found = entries.iter().map(|(key, value)| (&**key, &**value));
    let expected = model.iter().map(|(key, value)| (&**key, &**value));
    assert!(found.eq(expected), "a scan");
    let keys: Vec<Vec<u8>> = (0..KEYS).map(key).collect();
    let many = family.multi_get_opt(&keys, &read);
    for (key, many) in keys.iter().zip(&many) {
        let expected = model.get(key).map(|value| &**value);
        let one = db.get_opt(key, &read).unwrap();
        assert_eq!(one.as_deref(), expected, "get {}", key.escape_ascii());
        assert_eq!(many.unwrap(), expected, "one of {}", key.escape_ascii());
    }
}

/// Compacts random ranges in every way until told to stop.
fn compact(family: &ColumnFamily, stop: &AtomicBool, mut random: Random) {
    while !stop.load(Ordering::Relaxed) {
        SystemClock.sleep(Duration::from_millis(random.below(20)));
        let (one, other) = (random.below(KEYS), random.below(KEYS));
        let (from, to) = (key(one.min(other)), key(one.max(other)));
        let mut how = CompactRangeOptions::new();
        how.set_exclusive_manual_compaction(random.chance(1, 4))
            .set_max_subcompactions(pick(&mut random, &[0, 1, 2, 3]))
            .set_bottommost_level_compaction(pick(
                &mut random,
                &[
                    BottommostLevelCompaction::Skip,
                    BottommostLevelCompaction::Force,
                    BottommostLevelCompaction::IfHaveCompactionFilter,
                ],
            ));
        match random.below(6) {
            0 => family.compact_range_opt(.., &how).unwrap(),
            1 => family.compact_range_opt(from.., &how).unwrap(),
            2 => family.compact_range_opt(..to, &how).unwrap(),
            3 => family.suggest_compact_range(&*from..&*to).unwrap(),
            _ => family.compact_range_opt(from..to, &how).unwrap(),
        }
    }
}

/// Changes a database and its model by one random step.
fn step(db: &Db, model: &mut Model, random: &mut Random, number: u64) {
    let at = random.below(KEYS);
    let key = key(at);
    match random.below(20) {
        0..12 => {
            let fill = "x".repeat(random.index(60));
            let value = format!("{number}-{fill}").into_bytes();
            db.put(&key, &value).unwrap();
            model.insert(key, value);
        }
        12..15 => {
            db.delete(&key).unwrap();
            model.remove(&key);
        }
        15..17 => {
            let operand = format!("m{number}");
            db.merge(&key, &operand).unwrap();
            let value = model.entry(key).or_default();
            if !value.is_empty() {
                value.push(b',');
            }
            value.extend_from_slice(operand.as_bytes());
        }
        17..19 => {
            let end = self::key(at + 1 + random.below(30));
            db.delete_range(&key, &end).unwrap();
            model.retain(|other, _| *other < key || *other >= end);
        }
        _ => db.flush().unwrap(),
    }
}

/// Options of small levels, in memory, on the fast clock.
fn small(random: &mut Random) -> Options {
    let mut options = creating();
    options
        .set_write_buffer_size(64 << 10)
        .set_target_file_size_base(pick(random, &[500, 1500, 4000]))
        .set_max_bytes_for_level_base(pick(random, &[1000, 3000, 8000]))
        .set_max_bytes_for_level_multiplier(pick(random, &[1.5, 2.0, 4.0]))
        .set_level_zero_file_num_compaction_trigger(pick(random, &[2, 3, 4]))
        .set_level_zero_slowdown_writes_trigger(pick(random, &[6, 10, 15]))
        .set_level_zero_stop_writes_trigger(40)
        .set_level_compaction_dynamic_level_bytes(random.chance(1, 2))
        .set_max_compaction_bytes(pick(random, &[3000, 20_000, 1 << 40]))
        .set_max_background_jobs(4)
        .set_max_open_files(pick(random, &[None, Some(20)]))
        .set_merge_operator(StringAppend::new(","))
        .set_env(&Env::new(Arc::new(MemoryFileSystem::new()), Arc::new(Fast)));
    if random.chance(1, 6) {
        options.set_compaction_style(CompactionStyle::Universal);
    }
    options
}

/// One writer with a model beside three threads that compact random ranges.
#[test]
fn compactions_of_random_ranges_beside_one_another_change_no_answer() {
    let (seeds, steps) = Floors::chosen().of((3, 2000), (8, 3000), (60, 6000));
    for seed in 0..seeds {
        let mut random = Random::new(mix(seed));
        let options = small(&mut random);
        let mut model = Model::new();
        for _ in 0..2 {
            let db = Db::open(&options, "/levels").unwrap();
            check(&db, &model, None);
            let stop = &AtomicBool::new(false);
            std::thread::scope(|scope| {
                for thread in 0..3 {
                    let (family, random) = (db.default_cf(), Random::new(mix(seed * 10 + thread)));
                    scope.spawn(move || compact(family, stop, random));
                }
                let _stops = StopsWhenDropped(stop);
                let mut then = None;
                for number in 0..steps {
                    step(&db, &mut model, &mut random, number);
                    match random.below(100) {
                        0 => check(&db, &model, None),
                        1 => then = Some((db.snapshot(), model.clone())),
                        2 => {
                            if let Some((snapshot, model)) = then.take() {
                                check(&db, &model, Some(&snapshot));
                            }
                        }
                        _ => {}
                    }
                }
            });
            check(&db, &model, None);
            db.verify_checksums().unwrap();
            db.close().unwrap();
        }
    }
}

/// Stops the threads beside the writer, also if it fails.
struct StopsWhenDropped<'s>(&'s AtomicBool);

impl Drop for StopsWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
