//! Concurrent writers, readers, snapshots, flushes, compactions and memory pressure.
//!
//! The column families have different memtables, and each write mode is tested. Each writer owns
//! its keys and publishes the versions that it begins and that were acknowledged, so that any
//! reader can check its results. At the end, and after a reopen, all column families contain
//! exactly what was written.
//!
//! `KOELDB_SECONDS=3600 KOELDB_SEED=1` runs it for an hour; without them it takes seconds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use koeldb::fs::{Clock, MemoryFileSystem, SystemClock};
use koeldb::{
    BottommostLevelCompaction, ColumnFamily, ColumnFamilyOptions, CompactRangeOptions,
    ConfigOptions, Db, Env, IteratorMode, WriteBatch, WriteBufferManager, WriteOptions,
};
use koeldb_testkit::random::mix;
use koeldb_testkit::{Floors, Random, Summary};

use crate::prelude::creating;
use crate::representations::REPRESENTATIONS;

const WRITERS: usize = 3;
const KEYS: u64 = 300;
const HERE: &str = "/stress";

const MODES: [&str; 3] = [
    "enable_pipelined_write=false",
    "enable_pipelined_write=true",
    "unordered_write=true",
];

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect("a number"))
}

/// The state of one writer. Version `n` of a key is the result of its batch `n`.
struct Writer {
    /// By key: the last version begun, and the last one acknowledged.
    keys: Vec<(AtomicU64, AtomicU64)>,
}

/// The value of a version of a key; `None` is a deletion.
fn value(writer: usize, key: u64, version: u64) -> Option<Vec<u8>> {
    let drawn = mix(version ^ mix(key ^ mix(writer as u64)));
    if version == 0 || drawn.is_multiple_of(5) {
        return None;
    }
    let length = if drawn.is_multiple_of(64) {
        3000
    } else {
        drawn % 150
    };
    let mut value = version.to_le_bytes().to_vec();
    value.extend((0..length).map(|at| drawn.to_le_bytes()[usize::try_from(at % 8).unwrap()]));
    Some(value)
}

fn key_name(writer: usize, key: u64) -> Vec<u8> {
    // Keys of one writer are not adjacent; those of all writers interleave.
    format!("{:03}w{writer}", key * 7 % KEYS).into_bytes()
}

struct Run {
    writers: Vec<Writer>,
    is_over: AtomicBool,
    seed: u64,
    what: String,
    reads: AtomicU64,
    writes: AtomicU64,
}

impl Run {
    /// Checks the result of a read.
    ///
    /// When the read began, `acknowledged` was the last acknowledged version.
    fn judge(&self, writer: usize, key: u64, acknowledged: u64, found: Option<&[u8]>) -> u64 {
        let begun = self.writers[writer].keys[usize::try_from(key).unwrap()]
            .0
            .load(Ordering::SeqCst);
        let legal =
            (acknowledged..=begun).find(|&version| value(writer, key, version).as_deref() == found);
        let found = found.map(|bytes| u64::from_le_bytes(bytes[..8].try_into().unwrap()));
        legal.unwrap_or_else(|| {
            panic!(
                "{} key {key} of writer {writer}: version {found:?}, of {acknowledged}..={begun}",
                self.what
            )
        })
    }

    fn acknowledged(&self, writer: usize, key: u64) -> u64 {
        self.writers[writer].keys[usize::try_from(key).unwrap()]
            .1
            .load(Ordering::SeqCst)
    }

    fn write(&self, db: &Db, families: &[ColumnFamily], writer: usize) {
        let mut random = Random::new(mix(self.seed ^ writer as u64));
        let mut options = WriteOptions::new();
        while !self.is_over.load(Ordering::Relaxed) {
            let count = 1 + random.below(4);
            let mut batch = WriteBatch::new();
            let mut written = Vec::new();
            for _ in 0..count {
                let key = random.below(KEYS);
                if written.contains(&key) {
                    continue;
                }
                written.push(key);
                let (begun, _) = &self.writers[writer].keys[usize::try_from(key).unwrap()];
                let version = begun.fetch_add(1, Ordering::SeqCst) + 1;
                for family in families {
                    match value(writer, key, version) {
                        Some(value) => batch.put_cf(family, key_name(writer, key), value),
                        None => batch.delete_cf(family, key_name(writer, key)),
                    };
                }
            }
            let is_unlogged = random.chance(1, 50);
            options
                .disable_wal(is_unlogged)
                .set_sync(!is_unlogged && random.chance(1, 20));
            db.write_opt(&batch, &options).unwrap();
            for key in written {
                let (begun, acknowledged) =
                    &self.writers[writer].keys[usize::try_from(key).unwrap()];
                acknowledged.store(begun.load(Ordering::SeqCst), Ordering::SeqCst);
            }
            self.writes.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn read(&self, db: &Db, families: &[ColumnFamily], reader: u64) {
        let mut random = Random::new(mix(self.seed ^ reader << 32));
        let is_unordered = self.what.contains("unordered");
        while !self.is_over.load(Ordering::Relaxed) {
            let family = &families[usize::try_from(random.below(families.len() as u64)).unwrap()];
            let writer = usize::try_from(random.below(WRITERS as u64)).unwrap();
            let key = random.below(KEYS);
            let name = key_name(writer, key);
            let acknowledged = self.acknowledged(writer, key);
            match random.below(5) {
                0 => {
                    let found = family.get(&name).unwrap();
                    self.judge(writer, key, acknowledged, found.as_deref());
                }
                1 => {
                    let found = family.multi_get(&[&name]);
                    let found = found.get(0).unwrap();
                    self.judge(writer, key, acknowledged, found);
                }
                2 => {
                    let mut cursor = family.cursor();
                    let is_there = match random.chance(1, 2) {
                        true => cursor.seek(&name).unwrap(),
                        false => cursor.seek_for_prev(&name).unwrap(),
                    };
                    let at = is_there && cursor.key() == Some(&name[..]);
                    let found = cursor.value().filter(|_| at);
                    self.judge(writer, key, acknowledged, found);
                    // The neighbours come in order.
                    let mut before = cursor.key().map(<[u8]>::to_vec);
                    for _ in 0..random.below(20) {
                        if !cursor.valid() || !cursor.next().unwrap() {
                            break;
                        }
                        assert!(before.as_deref() < cursor.key(), "{}", self.what);
                        before = cursor.key().map(<[u8]>::to_vec);
                    }
                }
                3 => {
                    let snapshot = db.snapshot();
                    let first = snapshot.get_cf(family, &name).unwrap();
                    let version = self.judge(writer, key, acknowledged, first.as_deref());
                    std::thread::yield_now();
                    // All column families are equal in a snapshot; unordered writes do not
                    // guarantee that.
                    if !is_unordered {
                        for family in families {
                            let found = snapshot.get_cf(family, &name).unwrap();
                            assert_eq!(
                                found.as_deref(),
                                value(writer, key, version).as_deref(),
                                "{} {:?} {}",
                                self.what,
                                family.name(),
                                name.escape_ascii()
                            );
                        }
                    }
                }
                _ => {
                    let owed: Vec<u64> = (0..KEYS)
                        .map(|key| self.acknowledged(writer, key))
                        .collect();
                    let mut entries = BTreeMap::new();
                    let mode = match random.chance(1, 2) {
                        true => IteratorMode::Start,
                        false => IteratorMode::End,
                    };
                    for entry in family.iterator(mode) {
                        let (key, value) = entry.unwrap();
                        let twice = entries.insert(key.to_vec(), value.to_vec());
                        assert!(twice.is_none(), "{}", self.what);
                    }
                    for (key, owed) in (0..KEYS).zip(owed) {
                        let found = entries.get(&key_name(writer, key));
                        self.judge(writer, key, owed, found.map(Vec::as_slice));
                    }
                }
            }
            self.reads.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Causes switches and flushes of memtables.
    fn disturb(&self, db: &Db, families: &[ColumnFamily]) {
        let mut random = Random::new(self.seed);
        while !self.is_over.load(Ordering::Relaxed) {
            let family = &families[usize::try_from(random.below(families.len() as u64)).unwrap()];
            match random.below(6) {
                0 | 1 => family.flush().unwrap(),
                2 => {
                    let size = [65_536, 131_072][usize::from(random.chance(1, 2))];
                    let size = format!("{size}");
                    family.set_options([("write_buffer_size", &size)]).unwrap();
                }
                3 => family.compact_range(..).unwrap(),
                4 => db.flush_wal(random.chance(1, 2)).unwrap(),
                _ => {
                    let other = db.create_cf("passing", &family.options()).unwrap();
                    for number in 0..random.below(50) {
                        other.put(format!("{number:03}"), [1; 300]).unwrap();
                    }
                    db.drop_cf(&other).unwrap();
                }
            }
            SystemClock.sleep(Duration::from_millis(random.below(5)));
        }
    }

    /// Compacts ranges of keys, beside the compactions of [`Run::disturb`].
    fn compact(&self, families: &[ColumnFamily]) {
        let mut random = Random::new(mix(self.seed ^ 7));
        while !self.is_over.load(Ordering::Relaxed) {
            let family = &families[usize::try_from(random.below(families.len() as u64)).unwrap()];
            let mut how = CompactRangeOptions::new();
            how.set_bottommost_level_compaction(match random.chance(1, 2) {
                true => BottommostLevelCompaction::Force,
                false => BottommostLevelCompaction::Skip,
            });
            let from = random.below(KEYS);
            let to = format!("{:03}", from + random.below(20));
            let from = format!("{from:03}");
            family.compact_range_opt(&*from..&*to, &how).unwrap();
            SystemClock.sleep(Duration::from_millis(random.below(5)));
        }
    }

    /// Checks that all written entries, and no others, are there.
    fn check_all(&self, families: &[ColumnFamily]) {
        for family in families {
            let mut expected = BTreeMap::new();
            for writer in 0..WRITERS {
                for key in 0..KEYS {
                    let version = self.acknowledged(writer, key);
                    if let Some(value) = value(writer, key, version) {
                        expected.insert(key_name(writer, key), value);
                    }
                }
            }
            let found: BTreeMap<_, _> = family
                .iterator(IteratorMode::Start)
                .map(|entry| entry.unwrap())
                .map(|(key, value)| (key.to_vec(), value.to_vec()))
                .collect();
            assert!(found == expected, "{} {:?}", self.what, family.name());
        }
    }
}

fn round(seed: u64, seconds: f64) -> (u64, u64) {
    let mut random = Random::new(seed);
    let mode = MODES[usize::try_from(random.below(MODES.len() as u64)).unwrap()];
    let count = REPRESENTATIONS.len() as u64;
    let first = usize::try_from(random.below(count)).unwrap();
    let representations =
        [0, 3, 5].map(|step| REPRESENTATIONS[(first + step) % REPRESENTATIONS.len()]);
    let what = format!("seed {seed}, {mode}, {representations:?}:");
    let manager = WriteBufferManager::new(400 << 10, random.chance(1, 2));
    let mut options = creating();
    options
        .set_env(&Env::new(
            Arc::new(MemoryFileSystem::new()),
            Arc::new(SystemClock),
        ))
        .set_write_buffer_size(64 << 10)
        .set_max_write_buffer_number(3)
        .set_min_write_buffer_number_to_merge(1 + u32::from(random.chance(1, 2)))
        .set_target_file_size_base(32 << 10)
        .set_max_bytes_for_level_base(128 << 10);
    if random.chance(1, 2) {
        options.set_write_buffer_manager(&manager);
    }
    let bloom = if random.chance(1, 2) { "0.1" } else { "0" };
    options.apply_str(mode, &ConfigOptions::new()).unwrap();
    options
        .apply_str(
            &format!(
                "prefix_extractor=fixed:3;memtable_prefix_bloom_size_ratio={bloom};memtable_whole_key_filtering=true"
            ),
            &ConfigOptions::new(),
        )
        .unwrap();
    let run = Run {
        writers: (0..WRITERS)
            .map(|_| Writer {
                keys: (0..KEYS).map(|_| Default::default()).collect(),
            })
            .collect(),
        is_over: AtomicBool::new(false),
        seed,
        what,
        reads: AtomicU64::new(0),
        writes: AtomicU64::new(0),
    };
    let family_options = representations.map(|text| {
        let mut family = ColumnFamilyOptions::from(&options);
        family
            .apply_str(&format!("memtable_factory={text}"), &ConfigOptions::new())
            .unwrap();
        family
    });
    let open = || {
        let mut builder = Db::builder(&options);
        for (number, family) in family_options.iter().enumerate() {
            builder.column_family((format!("family {number}"), family.clone()));
        }
        let db = builder.open(HERE).unwrap();
        let families: Vec<_> = (0..family_options.len())
            .map(|number| db.cf_handle(&format!("family {number}")).unwrap())
            .collect();
        (db, families)
    };
    let (db, families) = open();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (run, db, families) = (&run, &db, &families);
                scope.spawn(move || run.write(db, families, writer))
            })
            .chain((1..3).map(|reader| {
                let (run, db, families) = (&run, &db, &families);
                scope.spawn(move || run.read(db, families, reader))
            }))
            .collect();
        scope.spawn(|| run.disturb(&db, &families));
        scope.spawn(|| run.compact(&families));
        let begun = SystemClock.now();
        while (SystemClock.now() - begun).as_secs_f64() < seconds
            && !threads
                .iter()
                .any(std::thread::ScopedJoinHandle::is_finished)
        {
            SystemClock.sleep(Duration::from_millis(5));
        }
        run.is_over.store(true, Ordering::Relaxed);
        for thread in threads {
            thread.join().unwrap();
        }
    });
    run.check_all(&families);
    db.close().unwrap();
    drop((db, families));
    let (db, families) = open();
    run.check_all(&families);
    db.verify_checksums().unwrap();
    (
        run.reads.load(Ordering::Relaxed),
        run.writes.load(Ordering::Relaxed),
    )
}

#[test]
fn everything_at_once() {
    let seed = variable("KOELDB_SEED").unwrap_or(1);
    let (total, each) = match variable("KOELDB_SECONDS") {
        Some(seconds) => (seconds as f64, 10.0),
        None => Floors::chosen().of((4.0, 0.45), (20.0, 1.0), (600.0, 10.0)),
    };
    let begun = SystemClock.now();
    let elapsed = || (SystemClock.now() - begun).as_secs_f64();
    let (mut rounds, mut reads, mut writes) = (0, 0, 0);
    while elapsed() < total {
        let (read, written) = round(mix(seed ^ rounds), each);
        rounds += 1;
        reads += read;
        writes += written;
    }
    Summary {
        suite: "stress",
        seed,
        figures: vec![("rounds", rounds), ("reads", reads), ("writes", writes)],
        seconds: elapsed(),
        failures: 0,
    }
    .finish("rounds", 1);
}
