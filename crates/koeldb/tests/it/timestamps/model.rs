//! Random histories at rising timestamps, read at each of them, against a plain model.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use koeldb::{
    BottommostLevelCompaction, CompactRangeOptions, CompactionStyle, ConfigOptions, Db, DbCursor,
    Env, ErrorKind, Options, ReadOptions, ReverseBytewiseComparatorWithU64Ts, Snapshot,
    TransactionDbOptions, WriteBatch,
};
use koeldb_testkit::{Floors, Random, random::mix};

use super::{at, options, read_at, undate};
use crate::async_reads::block_on;
use crate::rocksdb::Java;
use crate::scratch::ScratchDir;

const KEYS: u64 = 12;

/// What is at a key from a timestamp on.
type Versions = BTreeMap<(String, u64), Option<String>>;

/// The model: the newest state of each key at each timestamp.
#[derive(Clone, Default)]
struct Model {
    versions: Versions,
    low: u64,
}

impl Model {
    fn get(&self, key: &str, time: u64) -> Option<&String> {
        let from = (key.to_owned(), 0);
        let to = (key.to_owned(), time);
        let (_, newest) = self.versions.range(from..=to).next_back()?;
        newest.as_ref()
    }

    fn set(&mut self, key: &str, time: u64, value: Option<String>) {
        self.versions.insert((key.to_owned(), time), value);
    }

    /// The keys with values at a timestamp, in order.
    fn all(&self, time: u64) -> Vec<(String, String)> {
        let keys = (0..KEYS).map(key);
        let found = keys.filter_map(|key| Some((key.clone(), self.get(&key, time)?.clone())));
        found.collect()
    }
}

fn key(number: u64) -> String {
    format!("key{number:02}")
}

/// A database, its model, and snapshots with the models of their moments.
pub(super) struct History {
    db: Db,
    options: Options,
    path: PathBuf,
    /// The batches in hexadecimal, if another engine is to write them, with `flush` and `compact`.
    script: Option<Vec<String>>,
    model: Model,
    snapshots: Vec<(Snapshot, Model)>,
    time: u64,
    is_reversed: bool,
    /// Whether keys are written by transactions.
    is_transactional: bool,
    /// Whether there are neither merges nor range deletions: then scans of versions are compared.
    is_plain: bool,
    has_blobs: bool,
    /// Whether tables have no timestamps (`persist_user_defined_timestamps=false`).
    is_undated: bool,
    /// The newest timestamp that is in no table, if tables have none.
    newest_unflushed: Option<u64>,
    seed: u64,
}

/// A change of a key.
#[derive(Clone, Copy)]
enum Change<'a> {
    Put(&'a str),
    Merge(&'a str),
    Delete,
}

impl History {
    fn new(seed: u64, env: &Env, path: &Path) -> Self {
        Self::with(seed, env, path, false)
    }

    /// A history of a database whose tables have no timestamps.
    fn undated(seed: u64, env: &Env, path: &Path) -> Self {
        Self::with(seed, env, path, true)
    }

    fn with(seed: u64, env: &Env, path: &Path, is_undated: bool) -> Self {
        let mut rng = Random::new(mix(seed));
        let mut options = options(env);
        options.set_write_buffer_size(64 << 10);
        options.set_target_file_size_base(if rng.chance(1, 2) { 1 } else { 64 << 10 });
        options
            .set_level_zero_file_num_compaction_trigger(1 + u32::try_from(rng.below(3)).unwrap());
        options.set_max_subcompactions(1 + u32::try_from(rng.below(2)).unwrap());
        if rng.chance(1, 2) {
            let mut table = koeldb::BlockBasedOptions::new();
            table.set_block_size(1);
            table.set_bloom_filter(10.0);
            options.set_block_based_table_factory(&table);
        }
        let is_reversed = rng.chance(1, 3);
        if is_reversed {
            options.set_comparator(ReverseBytewiseComparatorWithU64Ts);
        }
        if rng.chance(1, 4) {
            options.set_compaction_style(CompactionStyle::Universal);
        }
        let has_blobs = rng.chance(1, 4);
        if has_blobs {
            let text = "enable_blob_files=true;min_blob_size=12;enable_blob_garbage_collection=true;\
                        blob_garbage_collection_age_cutoff=0.5";
            options.apply_str(text, &ConfigOptions::new()).unwrap();
        }
        let is_transactional = rng.chance(1, 3);
        if is_transactional {
            options.set_transactions(&TransactionDbOptions::new());
        }
        if is_undated {
            undate(&mut options);
            // They are built and read in the order without timestamps.
            let tables = [
                "index_type=kTwoLevelIndexSearch;partition_filters=true;metadata_block_size=64",
                "index_type=kBinarySearchWithFirstKey;format_version=5",
                "data_block_index_type=kDataBlockBinaryAndHash;format_version=4",
                "format_version=2;index_shortening=kShortenSeparatorsAndSuccessor",
                "format_version=7;index_block_restart_interval=4",
            ];
            let table = tables[usize::try_from(rng.below(5)).unwrap()];
            let text = format!(
                "block_based_table_factory={{block_size=64;filter_policy=bloomfilter:10;{table}}}"
            );
            options.apply_str(&text, &ConfigOptions::new()).unwrap();
            options.set_avoid_flush_during_recovery(rng.chance(1, 2));
        }
        History {
            db: Db::open(&options, path).unwrap(),
            options,
            path: path.to_owned(),
            script: None,
            model: Model::default(),
            snapshots: Vec::new(),
            time: 1,
            is_reversed,
            is_transactional,
            is_plain: rng.chance(1, 2),
            has_blobs,
            is_undated,
            newest_unflushed: None,
            seed,
        }
    }

    /// The newest timestamp at which reads differ.
    fn newest(&self) -> u64 {
        self.time.max(self.model.low)
    }

    /// Notes a write, whose timestamp the next flush leaves out if tables have none.
    fn note_write(&mut self, time: u64) {
        self.newest_unflushed = Some(time).filter(|_| self.is_undated);
    }

    /// Notes that everything was flushed, which raises the low mark above it if tables have no
    /// timestamps.
    fn note_flush(&mut self) {
        if let Some(newest) = self.newest_unflushed.take() {
            self.model.low = self.model.low.max(newest + 1);
        }
    }

    /// Leaves out what RocksDB reads wrongly.
    ///
    /// A backward scan of RocksDB compares the key in the record of a blob file, with its timestamp,
    /// with the key of the newest operand that is merged into that value: "Key mismatch when reading blob".
    ///
    /// RocksDB 11.8.1 ends the process when it reads a range tombstone in a table without timestamps
    /// whose end is shorter than a timestamp.
    fn without_faults_of_rocksdb(mut self) -> Self {
        self.is_plain |= self.has_blobs || self.is_undated;
        self
    }

    /// Notes an open, which flushes what is in logs unless they stay in use; checks the low mark.
    fn note_open(&mut self) {
        let low = self.db.default_cf().full_history_ts_low().unwrap();
        let low = low.map_or(0, u64::from_le_bytes);
        // Some logs cannot stay in use.
        if !self.options.get_avoid_flush_during_recovery() || low > self.model.low {
            self.note_flush();
        }
        assert_eq!(low, self.model.low, "seed {}", self.seed);
    }

    /// Changes a key at a timestamp, by a batch or by a transaction.
    fn change(&mut self, rng: &mut Random, name: &str, time: u64, change: Change<'_>) {
        self.note_write(time);
        let family = self.db.default_cf().clone();
        if !self.is_transactional || self.script.is_some() {
            return self.write(|batch| match change {
                Change::Put(value) => batch.put_cf_with_ts(&family, name, at(time), value),
                Change::Merge(operand) => batch.merge_cf_with_ts(&family, name, at(time), operand),
                Change::Delete => batch.delete_cf_with_ts(&family, name, at(time)),
            });
        }
        let mut transaction = self.db.transaction();
        if rng.chance(1, 2) && time > 0 {
            let before = time - 1;
            // Reads for update are at that time: it must not be below the low mark.
            if before >= self.model.low {
                transaction
                    .set_read_timestamp_for_validation(before)
                    .unwrap();
                match transaction.get_for_update(name) {
                    Ok(found) => {
                        let found = found.map(|value| String::from_utf8(value.to_vec()).unwrap());
                        assert_eq!(found.as_ref(), self.model.get(name, before), "{name}");
                    }
                    Err(error) => {
                        // Another version is at this very timestamp.
                        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
                        transaction = self.db.transaction();
                    }
                }
            }
        }
        match change {
            Change::Put(value) => transaction.put(name, value).unwrap(),
            Change::Merge(operand) => transaction.merge(name, operand).unwrap(),
            Change::Delete => transaction.delete(name).unwrap(),
        }
        transaction.set_commit_timestamp(time).unwrap();
        match rng.below(3) {
            0 => {
                let prepared = transaction.prepare("prepared").unwrap();
                prepared.commit().unwrap();
            }
            _ => drop(transaction.commit().unwrap()),
        }
    }

    /// Writes the batch that `fill` fills, or adds it to the script.
    fn write(&mut self, fill: impl FnOnce(&mut WriteBatch) -> &mut WriteBatch) {
        let mut batch = WriteBatch::new();
        fill(&mut batch);
        match &mut self.script {
            Some(script) => {
                let bytes = batch.data().iter();
                script.push(bytes.map(|byte| format!("{byte:02x}")).collect());
            }
            None => self.db.write(&batch).unwrap(),
        }
    }

    /// Makes one random step.
    fn step(&mut self, rng: &mut Random) {
        let family = self.db.default_cf().clone();
        self.time += u64::from(rng.chance(2, 3)) * (1 + rng.below(200));
        let time = self.time;
        let name = key(rng.below(KEYS));
        match rng.below(100) {
            0..45 => {
                let value = format!("{name}-{time}-{}", rng.below(1000));
                println!("put {name}@{time} {value}");
                self.change(rng, &name, time, Change::Put(&value));
                self.model.set(&name, time, Some(value));
            }
            // COMPAT: a compaction of RocksDB 11.8 drops merge operands under a range deletion of a
            // later timestamp, also for reads at earlier ones.
            45..55 if self.script.is_none() && !self.is_plain => {
                println!("merge {name}@{time}");
                let old = self.model.get(&name, time).cloned();
                self.change(rng, &name, time, Change::Merge("m"));
                let value = old.map_or("m".to_owned(), |old| format!("{old},m"));
                self.model.set(&name, time, Some(value));
            }
            55..68 => {
                println!("delete {name}@{time}");
                self.change(rng, &name, time, Change::Delete);
                self.model.set(&name, time, None);
            }
            68..75 if self.is_plain || self.is_transactional && self.script.is_none() => {}
            68..75 => {
                let (a, b) = (rng.below(KEYS), rng.below(KEYS));
                let (first, end) = (a.min(b), a.max(b));
                let (from, to) = match self.is_reversed {
                    true => (key(end), key(first)),
                    false => (key(first), key(end)),
                };
                println!("delete_range {from}..{to}@{time}");
                self.note_write(time);
                self.write(|batch| batch.delete_range_cf_with_ts(&family, from, to, at(time)));
                let deleted = match self.is_reversed {
                    true => first + 1..end + 1,
                    false => first..end,
                };
                for number in deleted {
                    self.model.set(&key(number), time, None);
                }
            }
            75..82 => {
                println!("flush");
                match &mut self.script {
                    Some(script) => script.push("flush".to_owned()),
                    None => self.db.flush().unwrap(),
                }
                self.note_flush();
            }
            82..86 => {
                println!("compact");
                match &mut self.script {
                    Some(script) => script.push("compact".to_owned()),
                    None => family.compact_range(..).unwrap(),
                }
                self.note_flush();
            }
            _ if self.script.is_some() => {}
            86..88 => {
                println!("compact all");
                let mut compact = CompactRangeOptions::new();
                compact.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
                family.compact_range_opt(.., &compact).unwrap();
                self.note_flush();
            }
            88..92 => {
                let low = self.model.low + rng.below(self.newest() - self.model.low + 1);
                println!("low {low}");
                family.increase_full_history_ts_low(at(low)).unwrap();
                self.model.low = low;
            }
            92..95 => {
                println!("snapshot");
                self.snapshots
                    .push((self.db.snapshot(), self.model.clone()));
            }
            95..97 => {
                println!("release");
                self.snapshots.pop();
            }
            _ => {
                println!("reopen");
                self.snapshots.clear();
                self.db.close().unwrap();
                self.db = Db::open(&self.options, &self.path).unwrap();
                self.note_open();
            }
        }
    }

    /// Reads everything at some timestamps, also through the snapshots.
    fn check(&self, rng: &mut Random) {
        let low = self.model.low;
        if let Some(below) = low.checked_sub(1) {
            let refused = self.db.get_opt(key(0), &read_at(below)).unwrap_err();
            assert_eq!(
                refused.kind(),
                ErrorKind::InvalidArgument,
                "seed {}",
                self.seed
            );
        }
        for time in [
            low,
            low + rng.below(self.newest() - low + 1),
            self.newest(),
            u64::MAX,
        ] {
            let mut options = read_at(time);
            options.set_async_io(rng.chance(1, 2));
            self.check_at(&self.model, &options, time);
            self.check_versions(rng, time);
            for (snapshot, model) in &self.snapshots {
                let mut options = read_at(time);
                options.set_snapshot(snapshot);
                self.check_at(model, &options, time);
            }
        }
    }

    /// Scans the versions from a timestamp on, and compares them with those that were written.
    fn check_versions(&self, rng: &mut Random, time: u64) {
        if !self.is_plain || self.script.is_some() {
            return;
        }
        let low = self.model.low;
        let start = low + rng.below(time.min(self.newest()) - low + 1);
        let mut options = read_at(time);
        options.set_iter_start_ts(at(start));
        let place = format!("seed {}, versions {start} to {time}", self.seed);
        let written = self.model.versions.iter();
        let seen = written.filter(|((_, at), _)| (start..=time).contains(at));
        let mut expected: Vec<_> = seen
            .map(|((key, at), value)| (key.clone(), *at, value.clone()))
            .collect();
        expected.sort_by(|(a, a_time, _), (b, b_time, _)| {
            let keys = match self.is_reversed {
                true => b.cmp(a),
                false => a.cmp(b),
            };
            keys.then(b_time.cmp(a_time))
        });
        let shown = |cursor: &DbCursor| {
            let (key, value) = cursor.entry().unwrap();
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            let time = u64::from_le_bytes(cursor.timestamp().unwrap());
            let value = (!cursor.is_deletion()).then(|| text(value));
            (text(&key[..key.len() - 8]), time, value)
        };
        let mut cursor = self.db.default_cf().cursor_opt(&options);
        let mut found = Vec::new();
        let mut valid = cursor.seek_to_first().unwrap();
        while valid {
            found.push(shown(&cursor));
            valid = cursor.next().unwrap();
        }
        assert_eq!(found, expected, "{place}: forward");
        found.clear();
        valid = cursor.seek_to_last().unwrap();
        while valid {
            found.push(shown(&cursor));
            valid = cursor.prev().unwrap();
        }
        found.reverse();
        assert_eq!(found, expected, "{place}: backward");
    }

    fn check_at(&self, model: &Model, options: &ReadOptions, time: u64) {
        let family = self.db.default_cf();
        let of_snapshot = options.get_snapshot().map(Snapshot::sequence_number);
        let place = format!("seed {}, {of_snapshot:?}, timestamp {time}", self.seed);
        for name in (0..KEYS).map(key) {
            let found = family.get_opt(&name, options).unwrap();
            let found = found.map(|value| String::from_utf8(value.to_vec()).unwrap());
            assert_eq!(found.as_ref(), model.get(&name, time), "{place}: {name}");
        }
        self.check_point_reads(model, options, time, &place);
        let mut expected = model.all(time);
        if self.is_reversed {
            expected.reverse();
        }
        let mut cursor = family.cursor_opt(options);
        let mut found = Vec::new();
        let mut valid = cursor.seek_to_first().unwrap();
        while valid {
            found.push(entry(&cursor));
            valid = cursor.next().unwrap();
        }
        assert_eq!(found, expected, "{place}: forward");
        found.clear();
        valid = cursor.seek_to_last().unwrap();
        while valid {
            found.push(entry(&cursor));
            valid = cursor.prev().unwrap();
        }
        found.reverse();
        assert_eq!(found, expected, "{place}: backward");
        for (index, (name, _)) in expected.iter().enumerate() {
            assert!(cursor.seek(name).unwrap(), "{place}: {name}");
            assert_eq!(entry(&cursor), expected[index], "{place}");
            let follows = cursor.next().unwrap();
            assert_eq!(
                follows.then(|| entry(&cursor)),
                expected.get(index + 1).cloned()
            );
            assert!(cursor.seek_for_prev(name).unwrap(), "{place}: {name}");
            assert_eq!(entry(&cursor), expected[index], "{place}");
            let precedes = cursor.prev().unwrap();
            let before = index.checked_sub(1).map(|before| expected[before].clone());
            assert_eq!(precedes.then(|| entry(&cursor)), before, "{place}");
        }
    }
}

impl History {
    /// Reads all keys at once, as futures, before a deadline, and as operands and entities.
    fn check_point_reads(&self, model: &Model, options: &ReadOptions, time: u64, place: &str) {
        let family = self.db.default_cf();
        let names: Vec<String> = (0..KEYS).rev().map(key).collect();
        let expected: Vec<Option<&String>> =
            names.iter().map(|name| model.get(name, time)).collect();
        let mut limited = options.clone();
        limited.set_deadline(Instant::now() + Duration::from_secs(600));
        let text = |value: &[u8]| String::from_utf8(value.to_vec()).unwrap();
        let all_of = |values: koeldb::PinnedSlices| -> Vec<Option<String>> {
            let values = values.iter();
            values.map(|value| value.unwrap().map(text)).collect()
        };
        let is_equal = |found: &[Option<String>], how: &str| {
            let found: Vec<Option<&String>> = found.iter().map(Option::as_ref).collect();
            assert_eq!(found, expected, "{place}: {how}");
        };
        is_equal(&all_of(family.multi_get_opt(&names, options)), "multi_get");
        is_equal(
            &all_of(family.multi_get_opt(&names, &limited)),
            "multi_get before a deadline",
        );
        let future = family.multi_get_async_opt(&names, options);
        is_equal(&all_of(block_on(future)), "multi_get_async");
        let entities = family.multi_get_entity_opt(&names, options);
        let default_of = |columns: koeldb::WideColumns| text(columns.get("").unwrap());
        let entities: Vec<_> = entities
            .into_iter()
            .map(|columns| columns.unwrap().map(default_of))
            .collect();
        is_equal(&entities, "multi_get_entity");
        for (name, value) in names.iter().zip(&expected) {
            let found = family.get_opt(name, &limited).unwrap();
            assert_eq!(
                found.as_deref().map(text).as_ref(),
                *value,
                "{place}: {name}"
            );
            let found = block_on(family.get_async_opt(name, options)).unwrap();
            assert_eq!(
                found.as_deref().map(text).as_ref(),
                *value,
                "{place}: {name}"
            );
            let operands = family.get_merge_operands_opt(name, options).unwrap();
            let operands: Vec<String> = operands.iter().map(|one| text(one)).collect();
            let joined = (!operands.is_empty()).then(|| operands.join(","));
            assert_eq!(joined.as_ref(), *value, "{place}: operands of {name}");
        }
    }
}

fn entry(cursor: &DbCursor) -> (String, String) {
    let (key, value) = cursor.entry().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(key), text(value))
}

#[test]
fn histories_at_rising_timestamps_read_as_in_a_plain_model() {
    read_as_in_a_plain_model(History::new);
}

#[test]
fn histories_with_timestamps_in_memory_alone_read_as_in_a_plain_model() {
    read_as_in_a_plain_model(History::undated);
}

/// Makes the database of a history, with its seed.
type MakeHistory = fn(u64, &Env, &Path) -> History;

fn read_as_in_a_plain_model(make: MakeHistory) {
    let (seeds, steps) = Floors::chosen().of((15, 120), (200, 200), (5000, 400));
    for seed in 0..seeds {
        let mut rng = Random::new(mix(seed));
        let mut history = make(seed, &Env::mem_env(), Path::new("/db"));
        for step in 0..steps {
            history.step(&mut rng);
            if step % 8 == 0 {
                history.check(&mut rng);
            }
        }
        history.check(&mut rng);
        history.db.verify_checksums().unwrap();
    }
}

impl History {
    /// The comparator as `Timestamps.java` takes it.
    fn comparator(&self) -> &'static str {
        match (self.is_reversed, self.is_undated) {
            (true, false) => "rocksdb.ReverseBytewiseComparator.u64ts",
            (true, true) => "rocksdb.ReverseBytewiseComparator.u64ts/undated",
            (false, false) => "leveldb.BytewiseComparator.u64ts",
            (false, true) => "leveldb.BytewiseComparator.u64ts/undated",
        }
    }

    /// Has RocksDB read the closed database at some timestamps, and compares with the model.
    fn check_by_rocksdb(&mut self, java: &Java, rng: &mut Random) {
        // An open of RocksDB flushes what is in logs.
        self.note_flush();
        let low = self.model.low;
        let mut times = vec![
            low,
            low + rng.below(self.newest() - low + 1),
            self.newest(),
            u64::MAX,
        ];
        times.extend(low.checked_sub(1));
        let names: Vec<String> = times.iter().map(u64::to_string).collect();
        let mut arguments = vec![self.comparator()];
        arguments.extend(names.iter().map(String::as_str));
        let how = match self.is_transactional {
            true => "read-transactions",
            false => "read",
        };
        let found = java.timestamps(how, &self.path, &arguments);
        let mut expected = String::new();
        for time in times {
            if time < low {
                expected += &format!("refused\t{time}\n");
                continue;
            }
            let mut entries = self.model.all(time);
            if self.is_reversed {
                entries.reverse();
            }
            for (key, value) in entries {
                expected += &format!("entry\t{time}\t{key}\t{value}\n");
            }
        }
        assert_eq!(found, expected, "seed {}", self.seed);
    }
}

#[test]
fn rocksdb_reads_the_same_at_each_timestamp() {
    is_read_by_rocksdb(History::new);
}

#[test]
fn rocksdb_reads_the_same_of_tables_without_timestamps() {
    is_read_by_rocksdb(History::undated);
}

fn is_read_by_rocksdb(make: MakeHistory) {
    let Some(java) = Java::find() else { return };
    let (seeds, steps) = Floors::chosen().of((3, 120), (20, 200), (200, 400));
    for seed in 0..seeds {
        let dir = ScratchDir::new();
        let mut rng = Random::new(mix(1000 + seed));
        let mut history =
            make(seed, &Env::default(), &dir.path().join("db")).without_faults_of_rocksdb();
        for _ in 0..steps {
            history.step(&mut rng);
        }
        history.snapshots.clear();
        history.db.close().unwrap();
        history.check_by_rocksdb(java, &mut rng);
        history.db = Db::open(&history.options, &history.path).unwrap();
        history.check(&mut rng);
    }
}

#[test]
fn what_rocksdb_wrote_reads_the_same_at_each_timestamp() {
    what_rocksdb_wrote_reads_the_same(History::new);
}

#[test]
fn what_rocksdb_wrote_without_timestamps_in_tables_reads_the_same() {
    what_rocksdb_wrote_reads_the_same(History::undated);
}

fn what_rocksdb_wrote_reads_the_same(make: MakeHistory) {
    let Some(java) = Java::find() else { return };
    let (seeds, steps) = Floors::chosen().of((3, 120), (20, 200), (200, 400));
    for seed in 0..seeds {
        let dir = ScratchDir::new();
        let mut rng = Random::new(mix(2000 + seed));
        // Its own database only lends a handle while another engine is to write.
        let mut history = make(seed, &Env::mem_env(), Path::new("/db")).without_faults_of_rocksdb();
        history.script = Some(Vec::new());
        for _ in 0..steps {
            history.step(&mut rng);
        }
        let script = dir.path().join("script");
        let lines = history.script.take().unwrap_or_default().join("\n");
        std::fs::write(&script, lines + "\n").unwrap();
        history.path = dir.path().join("db");
        let script = script.to_str().unwrap();
        java.timestamps("write", &history.path, &[history.comparator(), script]);
        history.options.set_env(&Env::default());
        history.db = Db::open(&history.options, &history.path).unwrap();
        history.note_open();
        history.check(&mut rng);
        for _ in 0..steps {
            history.step(&mut rng);
        }
        history.check(&mut rng);
        history.snapshots.clear();
        history.db.close().unwrap();
        history.check_by_rocksdb(java, &mut rng);
    }
}
