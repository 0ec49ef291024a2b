//! Writers without a leader beside readers, flushes, full memtables and writes with a log.

use std::cmp;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use koeldb_base::Comparator;
use koeldb_fs::{MemoryFileSystem, SystemClock};
use koeldb_testkit::Turns;
use koeldb_testkit::turns::Body;

use crate::{Db, Env, Options, ReadOptions, WriteBatch, WriteOptions};

const WRITERS: [u64; 4] = [0, 1, 2, 3];
const ROUNDS: u64 = 1_500;

fn options() -> Options {
    let memory = Arc::new(MemoryFileSystem::new());
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_enable_pipelined_write(true)
        // Some thirty memtables become full.
        .set_write_buffer_size(64 << 10)
        .set_env(&Env::new(memory, Arc::new(SystemClock)));
    options
}

fn open() -> Db {
    Db::open(&options(), "/db").unwrap()
}

fn open_gate(db: &Db) {
    db.inner().commit.queue.lead().opens_gate = true;
}

fn is_open(db: &Db) -> bool {
    db.inner().commit.queue.direct.is_open()
}

fn unlogged() -> WriteOptions {
    let mut options = WriteOptions::new();
    options.disable_wal(true);
    options
}

fn key(writer: u64, part: u64) -> Vec<u8> {
    format!("writer {writer:02} part {part}").into_bytes()
}

fn number(value: &[u8]) -> u64 {
    u64::from_le_bytes(value[..8].try_into().unwrap())
}

/// Writes the same number to both parts, with a value that fills memtables.
fn write_both(db: &Db, writer: u64, round: u64, options: &WriteOptions) {
    let mut value = round.to_le_bytes().to_vec();
    value.resize(200, b'v');
    let mut batch = WriteBatch::new();
    for part in 0..2 {
        batch.put(key(writer, part), &value);
    }
    db.write_opt(&batch, options).unwrap();
}

fn read(db: &Db, options: &ReadOptions, writer: u64, part: u64) -> u64 {
    let value = db.get_opt(key(writer, part), options).unwrap();
    value.map_or(0, |value| number(&value))
}

/// Checks that a snapshot has whole batches, and none older than those `seen` before.
fn check_snapshot(db: &Db, seen: &mut [u64; 4]) {
    let at = ReadOptions::at(&db.snapshot());
    for (writer, seen) in WRITERS.into_iter().zip(seen) {
        let parts = [0, 1].map(|part| read(db, &at, writer, part));
        assert_eq!(parts[0], parts[1], "a part of a batch of writer {writer}");
        assert!(parts[0] >= *seen, "writer {writer} goes back");
        *seen = parts[0];
    }
}

#[test]
fn writers_without_a_leader_lose_nothing_beside_flushes_and_logged_writes() {
    let db = open();
    write_both(&db, 0, 0, &unlogged());
    open_gate(&db);
    assert!(is_open(&db));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = WRITERS
            .into_iter()
            .map(|writer| {
                let db = &db;
                scope.spawn(move || {
                    for round in 1..=ROUNDS {
                        // Some have a log, and close the gate.
                        let is_logged = writer == 0 && round % 100 == 0;
                        match is_logged {
                            true => write_both(db, writer, round, &WriteOptions::new()),
                            false => write_both(db, writer, round, &unlogged()),
                        }
                        assert_eq!(read(db, &ReadOptions::new(), writer, 1), round);
                        if is_logged {
                            db.flush().unwrap();
                            open_gate(db);
                        }
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            let mut seen = [0; 4];
            while !is_over.load(Ordering::Relaxed) {
                check_snapshot(&db, &mut seen);
            }
        });
        let ended: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        is_over.store(true, Ordering::Relaxed);
        ended.into_iter().for_each(|writer| writer.unwrap());
    });
    let batches = 1 + 4 * ROUNDS;
    assert_eq!(db.latest_sequence_number(), 2 * batches);
    let totals = db.inner().commit.counters.totals(0, 0);
    assert_eq!(
        (totals.writes, totals.logged_writes),
        (batches, ROUNDS / 100)
    );
    for writer in WRITERS {
        assert_eq!(read(&db, &ReadOptions::new(), writer, 0), ROUNDS);
    }
}

/// The order of bytes; another actor may continue before each comparison.
struct Switching(Turns);

impl Comparator for Switching {
    fn name(&self) -> &'static str {
        "Switching"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> cmp::Ordering {
        self.0.point();
        a.cmp(b)
    }
}

#[test]
fn a_leader_publishes_nothing_that_is_being_inserted() {
    for seed in 0..10 {
        let turns = Turns::new(seed, WRITERS.len() + 1, 4, 0, 100_000);
        let mut options = options();
        options.set_comparator(Switching(turns.clone()));
        let db = Db::open(&options, "/db").unwrap();
        let writer = |writer| -> Body {
            let (db, turns) = (db.clone(), turns.clone());
            Box::new(move || {
                for round in 1..=20 {
                    if writer > 0 {
                        write_both(&db, writer, round, &unlogged());
                        continue;
                    }
                    // One opens the gate, lets others pass it, and closes it by a write with a log.
                    open_gate(&db);
                    (0..100).for_each(|_| turns.point());
                    write_both(&db, writer, round, &WriteOptions::new());
                }
            })
        };
        let mut bodies: Vec<_> = WRITERS.into_iter().map(writer).collect();
        let reader = db.clone();
        bodies.push(Box::new(move || {
            let mut seen = [0; 4];
            (0..60).for_each(|_| check_snapshot(&reader, &mut seen));
        }));
        turns.run(bodies).unwrap();
    }
}

#[test]
fn a_full_memtable_is_sealed_between_writes_without_a_leader() {
    let db = open();
    write_both(&db, 0, 0, &unlogged());
    open_gate(&db);
    for round in 1..=1_000 {
        write_both(&db, 0, round, &unlogged());
    }
    assert!(is_open(&db), "a turn opens it again");
    db.flush().unwrap();
    assert_eq!(read(&db, &ReadOptions::new(), 0, 1), 1_000);
}

#[test]
fn writes_with_a_log_keep_the_gate_closed() {
    let db = open();
    write_both(&db, 0, 0, &unlogged());
    open_gate(&db);
    write_both(&db, 0, 1, &WriteOptions::new());
    assert!(!is_open(&db));
    write_both(&db, 0, 2, &unlogged());
    assert!(!is_open(&db));
}

#[test]
fn a_closed_database_accepts_no_write_behind_the_gate() {
    let db = open();
    write_both(&db, 0, 0, &unlogged());
    open_gate(&db);
    db.close().unwrap();
    let mut batch = WriteBatch::new();
    batch.put("key", "value");
    db.write_opt(&batch, &unlogged()).unwrap_err();
}

#[test]
fn empty_batches_neither_open_the_gate_nor_go_round_at_it() {
    let options = options();
    let db = Db::open(&options, "/db").unwrap();
    let together = |threads: u64, write: &(dyn Fn(u64) + Sync)| {
        std::thread::scope(|scope| {
            for thread in 0..threads {
                scope.spawn(move || write(thread));
            }
        });
    };
    let write_nothing = || db.write_opt(&WriteBatch::new(), &unlogged()).unwrap();
    together(4, &|_| (0..500).for_each(|_| write_nothing()));
    assert!(!is_open(&db));
    write_both(&db, 0, 0, &unlogged());
    open_gate(&db);
    together(8, &|thread| {
        for round in 0..500 {
            match thread % 2 {
                0 => write_nothing(),
                _ => write_both(&db, thread, round, &unlogged()),
            }
        }
    });
    db.close().unwrap();
    drop(db);
    let db = Db::open(&options, "/db").unwrap();
    for writer in [1, 3, 5, 7] {
        assert_eq!(read(&db, &ReadOptions::new(), writer, 1), 499);
    }
}
