//! Random operations against a plain model, under many options: the answers are the model's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use koeldb::fs::{Clock, MemoryFileSystem, SystemClock};
use koeldb::{
    BlockBasedOptions, BottommostLevelCompaction, ColumnFamily, ColumnFamilyOptions,
    CompactRangeOptions, CompactionStyle, Db, DbIterator, Direction, Env, Error, ErrorKind,
    IteratorMode, Options, PinnedSlice, ReadOptions, ReadTier, Snapshot, StringAppend, Timestamp,
    WriteBatch,
};

/// A small generator, so that a printed seed replays a run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }

    fn index(&mut self, count: usize) -> usize {
        usize::try_from(self.below(count as u64)).unwrap()
    }
}

/// The entries of a column family, in the order of its comparator.
#[derive(Clone, Default)]
struct Model {
    /// Whether keys descend.
    is_reverse: bool,
    /// Keys and values, by bytes that ascend as the keys do.
    entries: BTreeMap<Vec<u8>, (Vec<u8>, Vec<u8>)>,
    /// The value of the column `other` of entities, by key. Values are those of the default column.
    others: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Model {
    fn rank(&self, key: &[u8]) -> Vec<u8> {
        match self.is_reverse {
            // A key precedes its prefixes.
            true => key.iter().map(|byte| !byte).chain([0xff]).collect(),
            false => key.to_vec(),
        }
    }

    fn insert(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.others.remove(&key);
        self.entries.insert(self.rank(&key), (key, value));
    }

    fn remove(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        self.others.remove(key);
        let (_, value) = self.entries.remove(&self.rank(key))?;
        Some(value)
    }

    fn get(&self, key: &[u8]) -> Option<&[u8]> {
        let (_, value) = self.entries.get(&self.rank(key))?;
        Some(value)
    }

    fn remove_range(&mut self, from: &[u8], to: &[u8]) {
        let (from, to) = (self.rank(from), self.rank(to));
        self.entries.retain(|key, _| *key < from || *key >= to);
        let kept: BTreeSet<&Vec<u8>> = self.entries.values().map(|(key, _)| key).collect();
        self.others.retain(|key, _| kept.contains(key));
    }

    /// The columns of a key: names and values.
    fn columns(&self, key: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let default = self.get(key).map(|value| (Vec::new(), value.to_vec()));
        let other = self.others.get(key);
        let other = other.map(|value| (b"other".to_vec(), value.clone()));
        default.into_iter().chain(other).collect()
    }

    /// Returns the keys in the order of the comparator.
    fn ordered(&self, one: Vec<u8>, other: Vec<u8>) -> (Vec<u8>, Vec<u8>) {
        match self.rank(&one) <= self.rank(&other) {
            true => (one, other),
            false => (other, one),
        }
    }

    /// The first entry from `key` on.
    fn seek(&self, key: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
        let (_, entry) = self.entries.range(self.rank(key)..).next()?;
        Some(entry.clone())
    }

    /// The last key before `key`.
    fn before(&self, key: &[u8]) -> Option<Vec<u8>> {
        let (_, (found, _)) = self.entries.range(..self.rank(key)).next_back()?;
        Some(found.clone())
    }

    /// The last key up to `key`.
    fn up_to(&self, key: &[u8]) -> Option<Vec<u8>> {
        let (_, (found, _)) = self.entries.range(..=self.rank(key)).next_back()?;
        Some(found.clone())
    }
}

/// The name of the comparator by which keys descend; with timestamps it has another end.
pub(crate) const REVERSE: &str = "rocksdb.ReverseBytewiseComparator";

/// Whether the keys of a family have timestamps.
fn is_dated(family: &ColumnFamily) -> bool {
    family.options().get_comparator().timestamp_bytes() > 0
}

/// Returns options of reads of the newest versions, at a snapshot if there is one.
fn newest(family: &ColumnFamily, snapshot: Option<&Snapshot>) -> ReadOptions {
    let mut read = snapshot.map_or_else(ReadOptions::new, ReadOptions::at);
    if is_dated(family) {
        read.set_timestamp(u64::MAX.to_le_bytes());
    }
    read
}

/// Writes to one family, with the number of the step as timestamp if its keys have one.
struct Writer<'f> {
    family: &'f ColumnFamily,
    time: Option<Timestamp>,
}

impl<'f> Writer<'f> {
    fn new(family: &'f ColumnFamily, step: u64) -> Self {
        let time = is_dated(family).then(|| step.to_le_bytes());
        Writer { family, time }
    }

    fn put(&self, key: &[u8], value: &str) {
        match self.time {
            Some(time) => self.family.put_with_ts(key, time, value),
            None => self.family.put(key, value),
        }
        .unwrap();
    }

    fn merge(&self, key: &[u8], operand: &str) {
        match self.time {
            Some(time) => self.family.merge_with_ts(key, time, operand),
            None => self.family.merge(key, operand),
        }
        .unwrap();
    }

    fn delete(&self, key: &[u8]) {
        match self.time {
            Some(time) => self.family.delete_with_ts(key, time),
            None => self.family.delete(key),
        }
        .unwrap();
    }

    fn single_delete(&self, key: &[u8]) {
        match self.time {
            Some(time) => self.family.single_delete_with_ts(key, time),
            None => self.family.single_delete(key),
        }
        .unwrap();
    }

    fn delete_range(&self, from: &[u8], to: &[u8]) {
        match self.time {
            Some(time) => self.family.delete_range_with_ts(from, to, time),
            None => self.family.delete_range(from, to),
        }
        .unwrap();
    }
}

fn key(random: &mut Random) -> Vec<u8> {
    format!("key{:03}", random.below(60)).into_bytes()
}

/// The number of steps of all runs.
static STEPS: AtomicU64 = AtomicU64::new(0);

/// A clock whose date moves with the steps of runs alone, 10 ms each: tables that grow old within a
/// second would have a slow machine compact without an end.
#[derive(Debug)]
pub(crate) struct DateOfSteps;

impl Clock for DateOfSteps {
    fn now(&self) -> Duration {
        SystemClock.now()
    }

    fn unix_micros(&self) -> u64 {
        1_577_836_800_000_000 + 10_000 * STEPS.load(Ordering::Relaxed)
    }

    fn sleep(&self, duration: Duration) {
        SystemClock.sleep(duration);
    }
}

pub(crate) fn base_options() -> Options {
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_write_buffer_size(64 << 10)
        .set_target_file_size_base(4 << 10)
        .set_max_bytes_for_level_base(16 << 10)
        .set_level_zero_file_num_compaction_trigger(3)
        .set_merge_operator(StringAppend::default());
    let env = Env::new(Arc::new(MemoryFileSystem::new()), Arc::new(SystemClock));
    options.set_env(&env);
    options
}

/// The options of one open: database and default column family, and the other column families.
pub(crate) type Settings = (Options, Vec<(String, ColumnFamilyOptions)>);

/// Opens the database and its column families, the default one first.
fn open((options, families): &Settings) -> (Db, Vec<ColumnFamily>) {
    let mut builder = Db::builder(options);
    builder.column_families(families.iter().cloned());
    let db = builder.open("/model").unwrap();
    let mut handles = vec![db.default_cf().clone()];
    handles.extend(families.iter().map(|(name, _)| db.cf_handle(name).unwrap()));
    (db, handles)
}

fn check_all(families: &[ColumnFamily], models: &[Model], snapshot: Option<&Snapshot>) {
    for (family, model) in families.iter().zip(models) {
        check(family, model, snapshot);
    }
}

fn check(db: &ColumnFamily, model: &Model, snapshot: Option<&Snapshot>) {
    let read = newest(db, snapshot);
    let forward: Vec<(Vec<u8>, Vec<u8>)> = db
        .range_opt(.., &read)
        .map(|entry| {
            entry
                .map(|(key, value)| (key.to_vec(), value.to_vec()))
                .unwrap()
        })
        .collect();
    let expected: Vec<(Vec<u8>, Vec<u8>)> = model.entries.values().cloned().collect();
    assert_eq!(forward, expected, "forward scan");
    let mut backward: Vec<(Vec<u8>, Vec<u8>)> = db
        .range_opt(.., &read)
        .rev()
        .map(|entry| {
            entry
                .map(|(key, value)| (key.to_vec(), value.to_vec()))
                .unwrap()
        })
        .collect();
    backward.reverse();
    assert_eq!(backward, expected, "backward scan");
    if snapshot.is_none() {
        check_ranges(db, model, &expected, &read);
    }
    let mut persisted = read.clone();
    persisted.set_read_tier(ReadTier::Persisted);
    let keys: Vec<Vec<u8>> = (0..60).map(|n| format!("key{n:03}").into_bytes()).collect();
    let mut cursor = db.cursor_opt(&read);
    let mut is_valid = cursor.seek_to_last();
    for (key, _) in expected.iter().rev() {
        assert!(is_valid.unwrap(), "a scan of columns");
        let columns = cursor.columns().unwrap().to_vec();
        assert_eq!(columns, model.columns(key), "columns of a scan");
        is_valid = cursor.prev();
    }
    for (key, found) in keys.iter().zip(db.multi_get_entity_opt(&keys, &read)) {
        let found = found.unwrap();
        let columns = found.as_ref().map(|found| found.to_vec());
        assert_eq!(columns.unwrap_or_default(), model.columns(key), "columns");
        assert_eq!(db.get_entity_opt(key, &read).unwrap(), found);
    }
    let many = db.multi_get_opt(&keys, &read);
    for (key, found) in keys.iter().zip(&many) {
        let expected = model.get(key);
        assert_eq!(found.unwrap(), expected, "multi_get {}", key.escape_ascii());
        assert_eq!(
            db.get_opt(key, &read).unwrap().as_deref(),
            expected,
            "get {}",
            key.escape_ascii()
        );
        // Every write is in the log.
        assert_eq!(
            db.get_opt(key, &persisted).unwrap().as_deref(),
            expected,
            "get of what is persisted, {}",
            key.escape_ascii()
        );
    }
}

/// Checks every iterator mode and a prefix, from the opposite end and from both ends in turn.
fn check_ranges(db: &ColumnFamily, model: &Model, all: &[(Vec<u8>, Vec<u8>)], read: &ReadOptions) {
    let keys = |entries: &[(Vec<u8>, Vec<u8>)]| -> Vec<Vec<u8>> {
        entries.iter().map(|(key, _)| key.clone()).collect()
    };
    let check = |open: &dyn Fn() -> DbIterator, expected: &[Vec<u8>], what: &str| {
        let key = |entry: koeldb::Result<(PinnedSlice, PinnedSlice)>| entry.unwrap().0.to_vec();
        let mut opposite: Vec<_> = open().rev().map(key).collect();
        opposite.reverse();
        assert_eq!(opposite, expected, "{what}, from the other end");
        let mut entries = open();
        let (mut front, mut back) = (Vec::new(), Vec::new());
        while let Some(entry) = entries.next() {
            front.push(key(entry));
            back.extend(entries.next_back().map(key));
        }
        back.reverse();
        front.append(&mut back);
        assert_eq!(front, expected, "{what}, from both ends");
    };
    for from in ["", "key000", "key0301", "key059", "single3", "z"] {
        let rank = model.rank(from.as_bytes());
        let at = all.partition_point(|(key, _)| model.rank(key) < rank);
        let behind = all.partition_point(|(key, _)| model.rank(key) <= rank);
        let mode = IteratorMode::From(from.as_bytes(), Direction::Forward);
        let open = || db.iterator_opt(mode, read);
        check(&open, &keys(&all[at..]), &format!("{mode:?}"));
        let mode = IteratorMode::From(from.as_bytes(), Direction::Reverse);
        let open = || db.iterator_opt(mode, read);
        let expected: Vec<_> = keys(&all[..behind]).into_iter().rev().collect();
        check(&open, &expected, &format!("{mode:?}"));
    }
    // Refused where keys of one prefix are no neighbours.
    let prefixes = ["key01", "single", "none"];
    for prefix in prefixes.iter().filter(|_| !model.is_reverse) {
        let mut expected = keys(all);
        expected.retain(|key| key.starts_with(prefix.as_bytes()));
        check(&|| db.prefix_opt(prefix, read), &expected, prefix);
    }
}

/// Random operations on a database that is always opened with these options.
/// Draws the options of a compaction.
fn compaction(random: &mut Random) -> CompactRangeOptions {
    let mut how = CompactRangeOptions::new();
    how.set_exclusive_manual_compaction(random.below(2) == 0)
        .set_max_subcompactions([0, 1, 2, 5][random.index(4)])
        .set_bottommost_level_compaction(match random.below(3) {
            0 => BottommostLevelCompaction::Skip,
            1 => BottommostLevelCompaction::Force,
            _ => BottommostLevelCompaction::IfHaveCompactionFilter,
        })
        .set_change_level(random.below(6) == 0)
        .set_target_level([None, Some(1), Some(3)][random.index(3)]);
    how
}

pub(crate) fn run(seed: u64, options: &Options, steps: u64) {
    run_under(seed, steps, || (options.clone(), Vec::new()));
}

/// Random operations on a database whose options change with each open.
pub(crate) fn run_under(seed: u64, steps: u64, mut settings: impl FnMut() -> Settings) {
    println!("seed {seed}");
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let first = settings();
    let (mut db, mut families) = open(&first);
    let mut models: Vec<Model> = std::iter::once(first.0.cf_options())
        .chain(first.1.iter().map(|(_, options)| options))
        .map(|options| Model {
            is_reverse: options.get_comparator().name().starts_with(REVERSE),
            ..Model::default()
        })
        .collect();
    let mut snapshots: Vec<(Snapshot, Vec<Model>)> = Vec::new();
    for step in 0..steps {
        STEPS.fetch_add(1, Ordering::Relaxed);
        let chosen = random.index(families.len());
        let family = families[chosen].clone();
        let model = &mut models[chosen];
        let writer = Writer::new(&family, step);
        match random.below(100) {
            0..40 => {
                let (key, value) = (
                    key(&mut random),
                    format!("value{step}-{}", "x".repeat(random.index(200))),
                );
                writer.put(&key, &value);
                model.insert(key, value.into_bytes());
            }
            40..50 => {
                // Alternately put and singly deleted.
                let key = format!("single{}", random.below(8)).into_bytes();
                match model.remove(&key) {
                    Some(_) => writer.single_delete(&key),
                    None => {
                        let value = format!("single{step}");
                        writer.put(&key, &value);
                        model.insert(key, value.into_bytes());
                    }
                }
            }
            50..60 => {
                let key = key(&mut random);
                writer.delete(&key);
                model.remove(&key);
            }
            60..67 => {
                let key = key(&mut random);
                writer.merge(&key, &format!("m{step}"));
                let other = model.others.get(&key).cloned();
                let mut value = model.remove(&key).unwrap_or_default();
                if !value.is_empty() {
                    value.push(b',');
                }
                value.extend_from_slice(format!("m{step}").as_bytes());
                model.insert(key.clone(), value);
                // A merge changes the default column and keeps the others.
                model.others.extend(other.map(|other| (key, other)));
            }
            67..70 => {
                // Plain reads find the column without a name.
                let (key, value) = (key(&mut random), format!("entity{step}").into_bytes());
                let other = vec![b'o'; random.index(100)];
                model.insert(key.clone(), value.clone());
                if writer.time.is_some() {
                    // Entities have no timestamps.
                    writer.put(&key, &format!("entity{step}"));
                } else {
                    let columns = [(&b"other"[..], &other), (b"", &value)];
                    family.put_entity(&key, &columns).unwrap();
                    model.others.insert(key, other);
                }
            }
            70..74 => {
                let (from, to) = model.ordered(key(&mut random), key(&mut random));
                writer.delete_range(&from, &to);
                model.remove_range(&from, &to);
            }
            74..80 => {
                let mut batch = WriteBatch::new();
                for _ in 0..random.below(10) {
                    let key = key(&mut random);
                    let at = random.index(families.len());
                    if random.below(3) == 0 {
                        batch.delete_cf(&families[at], &key);
                        models[at].remove(&key);
                    } else {
                        batch.put_cf(&families[at], &key, format!("batch{step}"));
                        models[at].insert(key, format!("batch{step}").into_bytes());
                    }
                }
                batch.update_timestamps(step.to_le_bytes()).unwrap();
                db.write(&batch).unwrap();
            }
            80..84 => db.flush().unwrap(),
            84..86 => {
                let how = compaction(&mut random);
                let compacted = family.compact_range_opt(.., &how);
                // The target level may be unable to take the result.
                let is_refused = |error: &Error| error.kind() == ErrorKind::InvalidArgument;
                if !compacted.as_ref().is_err_and(is_refused) || !how.get_change_level() {
                    compacted.unwrap();
                }
            }
            86..88 => {
                let (from, to) = model.ordered(key(&mut random), key(&mut random));
                if from != to {
                    if random.below(2) == 0 {
                        family.suggest_compact_range(&*from..&*to).unwrap();
                    }
                    family.compact_range(from..to).unwrap();
                }
            }
            88..91 => snapshots.push((db.snapshot(), models.clone())),
            91..94 => {
                if !snapshots.is_empty() {
                    let index = random.index(snapshots.len());
                    drop(snapshots.swap_remove(index));
                }
            }
            94..95 => {
                snapshots.clear();
                db.close().unwrap();
                drop((db, families, family));
                (db, families) = open(&settings());
            }
            _ => {
                let mut cursor = family.cursor_opt(&newest(&family, None));
                let at = key(&mut random);
                let found = cursor.seek(&at).unwrap();
                assert_eq!(
                    cursor.entry().map(|(k, v)| (k.to_vec(), v.to_vec())),
                    model.seek(&at),
                    "seek"
                );
                if found && random.below(2) == 0 {
                    cursor.prev().unwrap();
                    assert_eq!(
                        cursor.key().map(<[u8]>::to_vec),
                        model.before(&at),
                        "prev after seek"
                    );
                    if cursor.valid() {
                        cursor.next().unwrap();
                        assert_eq!(
                            cursor.key().map(<[u8]>::to_vec),
                            model.seek(&at).map(|(key, _)| key),
                            "next after prev"
                        );
                    }
                }
                cursor.seek_for_prev(&at).unwrap();
                assert_eq!(
                    cursor.key().map(<[u8]>::to_vec),
                    model.up_to(&at),
                    "seek_for_prev"
                );
            }
        }
        if step % 50 == 49 {
            check_all(&families, &models, None);
            for (snapshot, then) in &snapshots {
                check_all(&families, then, Some(snapshot));
            }
        }
    }
    check_all(&families, &models, None);
    db.wait_for_compact(None).unwrap();
    check_all(&families, &models, None);
    for (snapshot, then) in &snapshots {
        check_all(&families, then, Some(snapshot));
    }
    db.verify_checksums().unwrap();
}

#[test]
fn leveled_compaction_answers_as_the_model() {
    for seed in 1..12 {
        run(seed, &base_options(), 1500);
    }
}

#[test]
fn universal_compaction_answers_as_the_model() {
    for seed in 20..28 {
        let mut options = base_options();
        options.set_compaction_style(CompactionStyle::Universal);
        run(seed, &options, 1200);
    }
}

#[test]
fn static_levels_and_small_blocks_answer_as_the_model() {
    for seed in 40..46 {
        let mut options = base_options();
        let mut table = BlockBasedOptions::new();
        table.set_block_size(256).set_bloom_filter(10.0);
        options
            .set_block_based_table_factory(&table)
            .set_level_compaction_dynamic_level_bytes(false);
        run(seed, &options, 1200);
    }
}
