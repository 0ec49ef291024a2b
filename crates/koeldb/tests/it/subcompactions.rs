//! Compactions that several threads share by key range give what one thread gives.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use koeldb::fs::{
    Failure, FaultAction, FaultFileSystem, FaultRule, MemoryFileSystem, Operation, Purpose,
    SystemClock,
};
use koeldb::{
    BlockBasedOptions, BottommostLevelCompaction, CompactRangeOptions, CompactionFilter,
    CompactionFilterContext, CompactionFilterFactory, CompactionStyle, Db, Decision, Env,
    IteratorMode, Options, ReadOptions, Snapshot, StringAppend,
};
use koeldb_testkit::Random;
use koeldb_testkit::random::mix;

type Content = BTreeMap<Vec<u8>, Vec<u8>>;

/// Counts its filters: every part has its own.
#[derive(Clone, Default)]
struct CountsFilters {
    made: Arc<AtomicU64>,
    panics_at: Option<&'static [u8]>,
}

struct Keeps(Option<&'static [u8]>);

impl CompactionFilter for Keeps {
    fn filter(&mut self, _level: u32, key: &[u8], _value: &[u8]) -> Decision {
        assert_ne!(self.0, Some(key), "the filter panics");
        Decision::Keep
    }
}

impl CompactionFilterFactory for CountsFilters {
    fn name(&self) -> &str {
        "CountsFilters"
    }

    fn create(&self, _context: &CompactionFilterContext) -> Option<Box<dyn CompactionFilter>> {
        self.made.fetch_add(1, Ordering::Relaxed);
        Some(Box::new(Keeps(self.panics_at)))
    }
}

/// Tables of a few blocks, blocks of a few entries, compactions on request only.
fn options(env: &Env, parts: u32, filters: &CountsFilters) -> Options {
    let mut table = BlockBasedOptions::new();
    table.set_block_size(128);
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_env(env)
        .set_disable_auto_compactions(true)
        .set_max_subcompactions(parts)
        .set_target_file_size_base(1000)
        .set_merge_operator(StringAppend::new(","))
        .set_compaction_filter_factory(filters.clone())
        .set_block_based_table_factory(&table);
    options
}

fn content(db: &Db, snapshot: Option<&Snapshot>) -> Content {
    let mut options = ReadOptions::new();
    if let Some(snapshot) = snapshot {
        options.set_snapshot(snapshot);
    }
    db.default_cf()
        .iterator_opt(IteratorMode::Start, &options)
        .map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())))
        .collect::<Result<_, _>>()
        .unwrap()
}

fn check(db: &Db, snapshot: Option<&Snapshot>, expected: &Content, when: &str) {
    assert_eq!(&content(db, snapshot), expected, "{when}");
    let mut options = ReadOptions::new();
    if let Some(snapshot) = snapshot {
        options.set_snapshot(snapshot);
    }
    for number in 0..KEYS {
        let found = db.get_opt(key(number), &options).unwrap();
        let found = found.map(|value| value.to_vec());
        assert_eq!(
            found.as_ref(),
            expected.get(&key(number)),
            "{when}, key {number}"
        );
    }
}

const KEYS: u64 = 120;

fn key(number: u64) -> Vec<u8> {
    format!("key {number:03}").into_bytes()
}

/// A key that is only put and single-deleted, in turns.
fn is_single(number: u64) -> bool {
    number.is_multiple_of(5)
}

fn change(db: &Db, random: &mut Random, expected: &mut Content, step: u64) {
    let number = random.below(KEYS);
    let key = key(number);
    let value = format!(
        "{step:06} {}",
        "x".repeat(usize::try_from(random.below(40)).unwrap())
    );
    match random.below(20) {
        0 | 1 => {
            let (mut from, mut to) = (self::key(random.below(KEYS)), self::key(random.below(KEYS)));
            if from > to {
                std::mem::swap(&mut from, &mut to);
            }
            // A range deletion between a put and its single deletion is permitted.
            db.delete_range(&from, &to).unwrap();
            expected.retain(|key, _| *key < from || *key >= to);
        }
        _ if is_single(number) => match expected.remove(&key) {
            Some(_) => db.single_delete(&key).unwrap(),
            None => {
                db.put(&key, &value).unwrap();
                expected.insert(key, value.into_bytes());
            }
        },
        2..6 => {
            db.delete(&key).unwrap();
            expected.remove(&key);
        }
        6..11 => {
            db.merge(&key, &value).unwrap();
            let merged = expected.entry(key).or_default();
            if !merged.is_empty() {
                merged.push(b',');
            }
            merged.extend(value.into_bytes());
        }
        _ => {
            db.put(&key, &value).unwrap();
            expected.insert(key, value.into_bytes());
        }
    }
}

#[test]
fn borders_between_parts_lose_and_revive_nothing() {
    let mut divided = 0;
    for seed in 0..60 {
        let mut random = Random::new(mix(seed));
        let filters = CountsFilters::default();
        let env = Env::mem_env();
        let parts = [2, 3, 7, 20][usize::try_from(random.below(4)).unwrap()];
        let mut options = options(&env, parts, &filters);
        if random.chance(1, 3) {
            options.set_compaction_style(CompactionStyle::Universal);
        }
        let db = Db::open(&options, "/db").unwrap();
        let mut expected = Content::new();
        let mut snapshots: Vec<(Snapshot, Content)> = Vec::new();
        for step in 0..900 {
            change(&db, &mut random, &mut expected, step);
            if random.chance(1, 60) {
                db.flush().unwrap();
            }
            if random.chance(1, 80) {
                snapshots.push((db.snapshot(), expected.clone()));
            }
            if random.chance(1, 150) && !snapshots.is_empty() {
                let at = random.below(snapshots.len() as u64);
                drop(snapshots.remove(usize::try_from(at).unwrap()));
            }
            if random.chance(1, 120) {
                let mut how = CompactRangeOptions::new();
                if random.chance(1, 2) {
                    how.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
                }
                let before = filters.made.load(Ordering::Relaxed);
                let compacted = match random.chance(1, 3) {
                    true => {
                        let from = random.below(KEYS);
                        db.default_cf()
                            .compact_range_opt(key(from)..key(from + 40), &how)
                    }
                    false => db.compact_all(&how),
                };
                compacted.unwrap();
                divided += u32::from(filters.made.load(Ordering::Relaxed) > before + 2);
                let when = format!("seed {seed}, step {step}, {parts} parts");
                check(&db, None, &expected, &when);
                for (snapshot, expected) in &snapshots {
                    check(&db, Some(snapshot), expected, &when);
                }
            }
        }
        drop((snapshots, db));
        let db = Db::open(&options, "/db").unwrap();
        check(
            &db,
            None,
            &expected,
            &format!("seed {seed}, after a reopen"),
        );
        db.verify_checksums().unwrap();
    }
    assert!(divided > 100, "only {divided} compactions were divided");
}

fn filled(db: &Db) {
    for round in 0..4_u32 {
        for number in 0..400 {
            db.put(format!("key {number:04}"), format!("{round} {number}"))
                .unwrap();
        }
        db.flush().unwrap();
    }
}

fn tables(env: &Env) -> usize {
    let names = env.file_system().list("/db".as_ref()).unwrap();
    names
        .iter()
        .filter(|entry| entry.name.ends_with(".sst"))
        .count()
}

#[test]
fn a_failure_in_one_part_removes_the_tables_of_all() {
    for nth in [1, 2, 4, 7] {
        let faults = FaultFileSystem::new(Arc::new(MemoryFileSystem::new()), 1);
        let env = Env::new(Arc::new(faults.clone()), Arc::new(SystemClock));
        let filters = CountsFilters::default();
        let db = Db::open(&options(&env, 4, &filters), "/db").unwrap();
        filled(&db);
        let expected = content(&db, None);
        faults.add_rule(
            FaultRule::new(FaultAction::Fail(Failure::Device))
                .on(&[Operation::SyncData, Operation::SyncAll])
                .purpose(Purpose::Compaction)
                .nth(nth),
        );
        assert!(
            db.compact_all(&CompactRangeOptions::new()).is_err(),
            "{nth}"
        );
        assert!(filters.made.load(Ordering::Relaxed) > 1);
        assert_eq!(tables(&env), 4, "after failure {nth}");
        assert_eq!(content(&db, None), expected);
        db.compact_all(&CompactRangeOptions::new()).unwrap();
        assert_eq!(content(&db, None), expected);
    }
}

#[test]
fn a_panic_in_one_part_removes_the_tables_of_all() {
    let env = Env::mem_env();
    let filters = CountsFilters {
        panics_at: Some(b"key 0200"),
        ..CountsFilters::default()
    };
    let db = Db::open(&options(&env, 4, &filters), "/db").unwrap();
    filled(&db);
    let error = db.compact_all(&CompactRangeOptions::new()).unwrap_err();
    assert!(error.to_string().contains("panicked"), "{error}");
    assert_eq!(tables(&env), 4);
}
