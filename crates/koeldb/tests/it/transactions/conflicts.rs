//! Write conflicts of every sequence of writes, with every job between them, from every snapshot.
//!
//! The keys of one database have all sequences of three kinds of writes. Every transaction writes
//! one key at the end: it conflicts if and only if the key was written after the transaction's
//! snapshot, regardless of the entries that flushes and compactions removed meanwhile.

use koeldb::{
    BottommostLevelCompaction, CompactRangeOptions, Db, ErrorKind, Snapshot, StringAppend,
    Transaction, TransactionDbOptions, TransactionOptions, WriteOptions,
};
use koeldb_testkit::{Floors, Random};

use crate::prelude::in_memory;

/// A write of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Nothing,
    Put,
    Delete,
    SingleDelete,
    Merge,
    DeleteRange,
}

const KINDS: [Kind; 6] = [
    Kind::Nothing,
    Kind::Put,
    Kind::Delete,
    Kind::SingleDelete,
    Kind::Merge,
    Kind::DeleteRange,
];

/// The work in the background between two writes.
#[derive(Clone, Copy, Debug)]
enum Job {
    Nothing,
    Flush,
    /// A flush, and a compaction of level 0 into a level above the last.
    Compact,
    /// A compaction of all into the last level.
    CompactToBottom,
}

const JOBS: [Job; 4] = [Job::Nothing, Job::Flush, Job::Compact, Job::CompactToBottom];

/// How the keys of a transaction are protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protection {
    /// Optimistic, by a snapshot.
    Snapshot,
    /// Optimistic, by a read for update.
    ReadForUpdate,
    /// Pessimistic, by a snapshot and locks.
    Locks,
}

/// The schedule of one database.
#[derive(Clone, Debug)]
struct Schedule {
    protection: Protection,
    jobs: Vec<Job>,
    /// The write of each key before which the transactions begin.
    begin_at: usize,
    /// The write before which an unrelated snapshot is taken, if there is one.
    snapshot_at: Option<usize>,
    /// Whether that snapshot ends before the last job.
    is_released: bool,
}

/// A key with its writes, and the value that they give it.
#[derive(Clone, Debug)]
struct Key {
    name: Vec<u8>,
    writes: Vec<Kind>,
    value: Option<Vec<u8>>,
    /// The number of puts since the last deletion by range, or single deletion.
    puts: usize,
    is_merged: bool,
    /// Whether a single deletion met anything but one put, so that the value is unspecified.
    is_unspecified: bool,
}

impl Key {
    fn write(&mut self, db: &Db, at: usize) {
        let (name, text) = (&self.name, vec![b'0' + u8::try_from(at).unwrap()]);
        let mut end = name.clone();
        end.push(0);
        match self.writes[at] {
            Kind::Nothing => {}
            Kind::Put => {
                db.put(name, &text).unwrap();
                self.value = Some(text);
                self.puts += 1;
            }
            Kind::Delete => {
                // A put that hides it takes its place: the puts before it count still.
                db.delete(name).unwrap();
                self.value = None;
            }
            Kind::DeleteRange => {
                db.delete_range(name, &end).unwrap();
                (self.value, self.puts, self.is_merged) = (None, 0, false);
            }
            Kind::SingleDelete => {
                db.default_cf().single_delete(name).unwrap();
                self.is_unspecified |= self.puts > 1 || self.is_merged;
                (self.value, self.puts) = (None, 0);
            }
            Kind::Merge => {
                db.merge(name, &text).unwrap();
                self.is_merged = true;
                let old = self.value.take().map(|old| [&old[..], b","].concat());
                self.value = Some([old.unwrap_or_default(), text].concat());
            }
        }
    }

    fn check(&self, db: &Db) {
        if !self.is_unspecified {
            let found = db.get(&self.name).unwrap();
            assert_eq!(found.as_deref(), self.value.as_deref(), "{self:?}");
        }
    }
}

/// Returns keys with all sequences of three writes, each with and without an old value.
fn keys() -> Vec<Key> {
    let mut all = Vec::new();
    for old in [Kind::Nothing, Kind::Put] {
        for first in KINDS {
            for second in KINDS {
                for third in KINDS {
                    all.push(Key {
                        name: format!("{:04}", all.len()).into_bytes(),
                        writes: vec![old, first, second, third],
                        value: None,
                        puts: 0,
                        is_merged: false,
                        is_unspecified: false,
                    });
                }
            }
        }
    }
    all
}

fn open(protection: Protection) -> Db {
    let mut options = in_memory();
    options
        .set_num_levels(3)
        .set_disable_auto_compactions(true)
        .set_level_compaction_dynamic_level_bytes(false)
        .set_merge_operator(StringAppend::default());
    if protection == Protection::Locks {
        // Range deletions cannot lock their keys.
        let mut locks = TransactionDbOptions::new();
        locks.set_skip_concurrency_control(true);
        options.set_transactions(&locks);
    }
    Db::open(&options, "/conflicts").unwrap()
}

fn run_job(db: &Db, job: Job) {
    match job {
        Job::Nothing => {}
        Job::Flush => db.flush().unwrap(),
        Job::Compact => {
            db.flush().unwrap();
            let live = db.default_cf().live_files();
            let paths = live.iter().filter(|file| file.level < 2);
            let paths: Vec<_> = paths.map(|file| db.path().join(&file.name)).collect();
            if !paths.is_empty() {
                db.default_cf().compact_files(&paths, 1).unwrap();
            }
        }
        Job::CompactToBottom => {
            let mut options = CompactRangeOptions::new();
            options
                .set_change_level(true)
                .set_target_level(2)
                .set_bottommost_level_compaction(BottommostLevelCompaction::Force);
            db.compact_all(&options).unwrap();
        }
    }
}

fn begin(db: &Db, key: &Key, protection: Protection) -> Transaction {
    let mut options = TransactionOptions::new();
    options.set_snapshot(protection != Protection::ReadForUpdate);
    let mut transaction = db.transaction_opt(&WriteOptions::new(), &options).unwrap();
    if protection == Protection::ReadForUpdate {
        transaction.get_for_update(&key.name).unwrap();
    }
    transaction
}

/// Whether the transaction conflicts when it writes the key.
fn conflicts(mut transaction: Transaction, key: &Key, protection: Protection) -> bool {
    let put = transaction.put(&key.name, "of the transaction");
    if protection != Protection::Locks {
        put.as_ref().unwrap();
    }
    match put.and_then(|()| transaction.commit()) {
        Ok(_) => false,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
            true
        }
    }
}

fn run(schedule: &Schedule) {
    let protection = schedule.protection;
    let db = open(protection);
    let mut keys = keys();
    let mut transactions = Vec::new();
    let mut snapshot: Option<(Snapshot, Vec<Key>)> = None;
    for at in 0..=4 {
        if at == schedule.begin_at {
            transactions = keys.iter().map(|key| begin(&db, key, protection)).collect();
        }
        if Some(at) == schedule.snapshot_at {
            snapshot = Some((db.snapshot(), keys.clone()));
        }
        if at == 4 {
            break;
        }
        for key in &mut keys {
            key.write(&db, at);
        }
        if at == 3 && schedule.is_released {
            snapshot = None;
        }
        let job = if at == 0 {
            Job::CompactToBottom
        } else {
            schedule.jobs[at - 1]
        };
        run_job(&db, job);
    }
    if let Some((snapshot, keys)) = &snapshot {
        let mut options = koeldb::ReadOptions::new();
        options.set_snapshot(snapshot);
        for key in keys.iter().filter(|key| !key.is_unspecified) {
            let found = db.default_cf().get_opt(&key.name, &options).unwrap();
            assert_eq!(
                found.as_deref(),
                key.value.as_deref(),
                "{key:?} in {schedule:?}"
            );
        }
    }
    for key in &keys {
        key.check(&db);
    }
    let mut committed = Vec::new();
    for (at, (transaction, key)) in transactions.into_iter().zip(&keys).enumerate() {
        let since = &key.writes[schedule.begin_at..];
        let is_written = since.iter().any(|&kind| kind != Kind::Nothing);
        let is_busy = conflicts(transaction, key, protection);
        assert_eq!(is_busy, is_written, "{key:?} in {schedule:?}");
        if !is_busy {
            committed.push(at);
        }
    }
    for &at in &committed {
        let key = &mut keys[at];
        (key.value, key.is_unspecified) = (Some(b"of the transaction".to_vec()), false);
    }
    drop(snapshot);
    // The traces of writes go with the transactions, and hide nothing then.
    run_job(&db, Job::CompactToBottom);
    for key in &keys {
        key.check(&db);
    }
}

#[test]
fn a_transaction_conflicts_with_every_write_since_its_snapshot_whatever_jobs_ran() {
    let count = Floors::chosen().of(48, 300, 5_000);
    let seed = std::env::var("KOELDB_SEED").ok();
    let seed = seed.and_then(|seed| seed.parse().ok()).unwrap_or(0);
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let below = |random: &mut Random, bound: usize| -> usize {
        usize::try_from(random.below(bound as u64)).unwrap()
    };
    let protections = [
        Protection::Snapshot,
        Protection::ReadForUpdate,
        Protection::Locks,
    ];
    for number in 0..count {
        let schedule = Schedule {
            protection: protections[number % 3],
            jobs: (0..3).map(|_| JOBS[below(&mut random, 4)]).collect(),
            begin_at: 1 + below(&mut random, 4),
            snapshot_at: random.chance(1, 2).then(|| 1 + below(&mut random, 3)),
            is_released: random.chance(1, 3),
        };
        run(&schedule);
    }
}

/// Two keys that are read and written crosswise, one of which is written and deleted.
#[test]
fn a_write_skew_over_a_put_and_its_single_deletion_is_a_conflict() {
    for protection in [Protection::Snapshot, Protection::Locks] {
        for job in JOBS {
            let db = open(protection);
            db.put("y", "0").unwrap();
            run_job(&db, Job::CompactToBottom);
            let mut options = TransactionOptions::new();
            options.set_snapshot(true);
            let mut second = db.transaction_opt(&WriteOptions::new(), &options).unwrap();
            let mut first = db.transaction();
            first.put("lock", "held").unwrap();
            first.put("x", "1").unwrap();
            first.commit().unwrap();
            let mut first = db.transaction();
            first.single_delete(db.default_cf(), "lock").unwrap();
            first.commit().unwrap();
            run_job(&db, job);
            let done = second
                .put("lock", "held")
                .and_then(|()| second.put("y", "1"))
                .and_then(|()| second.commit());
            let error = done.unwrap_err();
            assert_eq!(
                error.kind(),
                ErrorKind::Busy,
                "{protection:?}, {job:?}: {error}"
            );
        }
    }
}

#[test]
fn a_pair_of_put_and_single_deletion_vanishes_if_no_transaction_checks_for_it() {
    let db = open(Protection::Snapshot);
    let snapshot = db.snapshot();
    db.put("k", "v").unwrap();
    db.default_cf().single_delete("k").unwrap();
    db.flush().unwrap();
    assert!(db.default_cf().live_files().is_empty());
    drop(snapshot);
}
