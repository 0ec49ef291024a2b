//! The change feed: order, pins, gaps, rotation, and a replica built from it.

use std::cmp::Ordering;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering as Memory};
use std::sync::mpsc::channel;
use std::time::Duration;

use koeldb::fs::{
    Clock, Failure, FaultAction, FaultRule, FileSystem, Operation, Purpose, SystemClock,
};
use koeldb::{
    BatchEntry, Comparator, Db, ErrorKind, Options, SstFileWriter, SstFileWriterOptions,
    TailOptions, TransactionDbOptions, UpdateIterator, WriteBatch, WriteOptions,
};

use crate::gate::{Gate, gate};
use crate::scratch::ScratchDir;
use crate::storage::{HERE, Storage, over};

/// The keys of the next updates, as far as they are there.
fn keys(updates: &mut UpdateIterator) -> Vec<String> {
    let mut keys = Vec::new();
    for update in updates {
        for entry in &update.unwrap().batch {
            if let BatchEntry::Put { key, .. } = entry.unwrap() {
                keys.push(String::from_utf8(key.to_vec()).unwrap());
            }
        }
    }
    keys
}

fn logs(storage: &Storage) -> usize {
    let entries = storage.memory.list(HERE.as_ref()).unwrap();
    let is_log = |name: &str| name.ends_with(".log");
    entries.iter().filter(|entry| is_log(&entry.name)).count()
}

#[test]
fn updates_come_in_order_and_go_on_where_they_ended() {
    let storage = Storage::new();
    let db = Db::open(&storage.options(), HERE).unwrap();
    let mut updates = db.get_updates_since(0).unwrap();
    assert!(updates.next().is_none());
    db.put("a", "1").unwrap();
    let mut batch = WriteBatch::new();
    batch.put("b", "2");
    batch.put("c", "3");
    db.write(&batch).unwrap();
    let first = updates.next().unwrap().unwrap();
    assert_eq!((first.sequence_number, first.batch.len()), (1, 1));
    assert_eq!(keys(&mut updates), ["b", "c"]);
    assert!(updates.next().is_none());
    // From within a batch, and across logs.
    let mut from_within = db.get_updates_since(3).unwrap();
    db.flush().unwrap();
    db.put("d", "4").unwrap();
    assert_eq!(keys(&mut from_within), ["b", "c", "d"]);
    assert_eq!(keys(&mut updates), ["d"]);
    assert_eq!(updates.next_sequence_number(), 5);
    let error = db.get_updates_since(6).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    db.get_updates_since(5).unwrap();
}

/// Flips bits of the last byte of value `value` in the file.
fn flip(log: &Path, value: &[u8]) {
    let mut bytes = std::fs::read(log).unwrap();
    let mut places = bytes.windows(value.len());
    let at = places.position(|place| place == value).unwrap();
    bytes[at + value.len() - 1] ^= 0xff;
    // In place: the database writes to the file.
    let mut file = File::options().write(true).open(log).unwrap();
    file.write_all(&bytes).unwrap();
}

#[test]
fn damage_is_reported_of_a_log_that_is_no_longer_written() {
    for recycled in [0, 2] {
        let scratch = ScratchDir::new();
        let mut options = Options::new();
        options
            .create_if_missing(true)
            .set_recycle_log_file_num(recycled);
        let db = Db::open(&options, scratch.path()).unwrap();
        for key in ["a", "b", "c"] {
            db.put(key, [1; 90_000]).unwrap();
            db.flush().unwrap();
        }
        let from = db.latest_sequence_number() + 1;
        let mut updates = db.get_updates_since(from).unwrap();
        db.put("d", "seen").unwrap();
        assert_eq!(keys(&mut updates), ["d"]);
        let log = db.log_files().unwrap().pop().unwrap().path;
        // Like a record that the database writes during the reading.
        db.put("e", "half-written").unwrap();
        let [whole, torn] = [b"half-written", b"half-writte\x91"];
        flip(&log, whole);
        assert!(updates.next().is_none(), "{recycled}");
        assert!(updates.next().is_none(), "{recycled}");
        flip(&log, torn);
        assert_eq!(keys(&mut updates), ["e"]);
        db.put("f", "damaged").unwrap();
        flip(&log, b"damaged");
        db.flush().unwrap();
        let error = updates.next().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{recycled}: {error}");
    }
}

#[test]
fn logs_stay_as_long_as_an_iterator_needs_them() {
    let storage = Storage::new();
    let db = Db::open(&storage.options(), HERE).unwrap();
    db.put("key0", "1").unwrap();
    let mut updates = db.get_updates_since(1).unwrap();
    for index in 1..6 {
        db.flush().unwrap();
        db.put(format!("key{index}"), "1").unwrap();
    }
    assert!(logs(&storage) >= 6);
    assert_eq!(keys(&mut updates).len(), 6);
    db.flush().unwrap();
    let begun = SystemClock.now();
    while logs(&storage) > 2 {
        assert!(SystemClock.now() - begun < Duration::from_secs(120));
        assert!(updates.next().is_none());
        db.flush().unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    let error = db.get_updates_since(1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("checkpoint"), "{error}");
    // RocksDB begins with what is left. A later gap is an error.
    let mut options = TailOptions::new();
    options.set_begins_later(true);
    let mut rest = db.get_updates_since_opt(1, &options).unwrap();
    db.put("later", "1").unwrap();
    let first = rest.next().unwrap().unwrap();
    assert!(first.sequence_number > 1);
    while rest.next_sequence_number() <= db.latest_sequence_number() {
        rest.next().unwrap().unwrap();
    }
    let mut unlogged = WriteOptions::new();
    unlogged.disable_wal(true);
    db.put_opt("unlogged", "1", &unlogged).unwrap();
    db.put("last", "1").unwrap();
    let gap = rest.next().unwrap().unwrap_err();
    assert_eq!(gap.kind(), ErrorKind::Incomplete);
    assert_eq!(keys(&mut rest), ["last"]);
}

#[test]
fn numbers_in_no_log_are_reported_once() {
    let storage = Storage::new();
    let db = Db::open(&storage.options(), HERE).unwrap();
    db.put("a", "1").unwrap();
    let mut strict = db.get_updates_since(1).unwrap();
    let mut options = TailOptions::new();
    options.set_strict(false);
    let mut lenient = db.get_updates_since_opt(1, &options).unwrap();
    let mut unlogged = WriteOptions::new();
    unlogged.disable_wal(true);
    db.put_opt("b", "1", &unlogged).unwrap();
    db.put("c", "1").unwrap();
    assert_eq!(keys(&mut lenient), ["a", "c"]);
    strict.next().unwrap().unwrap();
    let gap = strict.next().unwrap().unwrap_err();
    assert_eq!(gap.kind(), ErrorKind::Incomplete);
    assert!(gap.to_string().contains("2 to 2"), "{gap}");
    assert_eq!(keys(&mut strict), ["c"]);

    let mut how = SstFileWriterOptions::new();
    let env = koeldb::Env::new(Arc::clone(&storage.faults) as _, Arc::new(SystemClock));
    how.set_env(&env);
    let options = db.default_cf().options();
    let mut writer = SstFileWriter::create_opt(&options, "/table", &how).unwrap();
    writer.put("a", "2").unwrap();
    writer.finish().unwrap();
    db.ingest_external_file(&["/table"]).unwrap();
    db.put("d", "1").unwrap();
    let gap = strict.next().unwrap().unwrap_err();
    assert_eq!(gap.kind(), ErrorKind::Incomplete, "{gap}");
    assert_eq!(keys(&mut strict), ["d"]);
}

#[test]
fn a_prepared_transaction_is_shown_where_it_is_committed() {
    let storage = Storage::new();
    let mut options = storage.options();
    options.set_transactions(&TransactionDbOptions::new());
    let db = Db::open(&options, HERE).unwrap();
    let prepare = |name: &str, keys: &[&str]| {
        let mut transaction = db.transaction();
        for key in keys {
            transaction.put(key, "1").unwrap();
        }
        transaction.prepare(name).unwrap()
    };
    let mut from_start = db.get_updates_since(1).unwrap();
    db.put("a", "1").unwrap();
    let early = prepare("early", &["k1", "k2"]);
    let dropped = prepare("dropped", &["lost"]);
    let _undecided = prepare("undecided", &["open"]);
    db.put("b", "1").unwrap();
    early.commit().unwrap();
    dropped.rollback().unwrap();
    let late = prepare("late", &["k3"]);
    // The sections of undecided transactions are repeated in a new log.
    db.flush().unwrap();
    let mut with = WriteBatch::new();
    with.put("c", "1");
    late.commit_with(&with, &WriteOptions::new()).unwrap();
    let only = prepare("only", &["k4"]);
    db.flush().unwrap();
    only.commit().unwrap();
    db.flush().unwrap();
    db.put("d", "1").unwrap();
    let expected = ["a", "b", "k1", "k2", "c", "k3", "k4", "d"];
    // Of each batch, the first sequence number and the number of operations.
    let batches = [(1, 1), (2, 1), (3, 2), (5, 2), (7, 1), (8, 1)];
    for first in 1..=8 {
        let updates = db.get_updates_since(first).unwrap();
        let found: Vec<(u64, usize)> = updates
            .map(|update| update.unwrap())
            .map(|update| (update.sequence_number, update.batch.len()))
            .collect();
        let skipped = batches.iter().rposition(|(begin, _)| *begin <= first);
        assert_eq!(found, batches[skipped.unwrap()..], "from {first}");
    }
    assert_eq!(keys(&mut from_start), expected);
    assert_eq!(from_start.next_sequence_number(), 9);
}

#[test]
fn a_write_that_failed_is_never_shown() {
    let storage = Storage::new();
    let db = Db::open(&storage.options(), HERE).unwrap();
    db.put("a", "1").unwrap();
    let mut updates = db.get_updates_since(1).unwrap();
    assert_eq!(keys(&mut updates), ["a"]);
    let mut sync = WriteOptions::new();
    sync.set_sync(true);
    let fails = FaultRule::fail(Failure::Device).on(&[Operation::SyncData]);
    storage
        .faults
        .add_rule(fails.purpose(Purpose::Wal).limit(1));
    db.put_opt("lost", "1", &sync).unwrap_err();
    assert!(updates.next().is_none());
    while db.resume().is_err() {
        std::thread::sleep(Duration::from_millis(1));
    }
    db.put("b", "1").unwrap();
    assert_eq!(keys(&mut updates), ["b"]);
}

#[test]
fn an_abandoned_batch_does_not_hold_up_later_ones() {
    let storage = Storage::new();
    let db = Db::open(&storage.options(), HERE).unwrap();
    db.put("a", "1").unwrap();
    let mut updates = db.get_updates_since(1).unwrap();
    assert_eq!(keys(&mut updates), ["a"]);
    let mut sync = WriteOptions::new();
    sync.set_sync(true);
    let fails = FaultRule::fail(Failure::Device).on(&[Operation::SyncData]);
    storage
        .faults
        .add_rule(fails.purpose(Purpose::Wal).limit(1));
    let mut lost = WriteBatch::new();
    for index in 0..10 {
        lost.put(format!("lost {index}"), "1");
    }
    db.write_opt(&lost, &sync).unwrap_err();
    assert!(updates.next().is_none());
    while db.resume().is_err() {
        std::thread::sleep(Duration::from_millis(1));
    }
    // The numbers of the lost batch are used only in part.
    db.put("b", "1").unwrap();
    assert_eq!(keys(&mut updates), ["b"]);
}

/// Orders by bytes; the first comparison with `held` waits at the gate, and panics if `fails`.
struct Holds {
    gate: Arc<Gate>,
    was_held: AtomicBool,
    fails: bool,
}

impl Comparator for Holds {
    fn name(&self) -> &str {
        "Holds"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        if [a, b].contains(&&b"held"[..]) && !self.was_held.swap(true, Memory::SeqCst) {
            self.gate.pass();
            assert!(!self.fails, "planted");
        }
        a.cmp(b)
    }
}

#[test]
fn a_batch_in_the_log_is_shown_only_once_readers_see_it() {
    let limit = Duration::from_secs(120);
    let storage = Storage::new();
    let (at_sync, is_logged, log) = gate();
    let (at_insertion, is_inserting, insert) = gate();
    let mut options = storage.options();
    options
        .set_enable_pipelined_write(true)
        .set_comparator(Holds {
            gate: at_insertion,
            was_held: AtomicBool::new(false),
            fails: false,
        });
    let db = Db::open(&options, HERE).unwrap();
    db.put("before", "value").unwrap();
    let mut updates = db.get_updates_since(0).unwrap();
    assert_eq!(keys(&mut updates), ["before"]);
    let hold = FaultRule::new(FaultAction::Call(Arc::new(move |_| at_sync.pass())));
    let hold = hold.on(&[Operation::SyncData]).purpose(Purpose::Wal);
    storage.faults.add_rule(hold.limit(1));
    let writer = std::thread::spawn({
        let db = db.clone();
        move || {
            let mut sync = WriteOptions::new();
            sync.set_sync(true);
            let mut batch = WriteBatch::new();
            batch.put("held", "value");
            db.write_opt(&batch, &sync)
        }
    });
    is_logged.recv_timeout(limit).unwrap();
    let (shows, shown) = channel();
    let feed = std::thread::spawn(move || {
        shows.send(keys(&mut updates)).unwrap();
        updates
    });
    // The feed waits behind the write, which then leaves the log to it and inserts.
    std::thread::sleep(Duration::from_millis(100));
    log.send(()).unwrap();
    is_inserting.recv_timeout(limit).unwrap();
    // A feed that came too late waits until the write has ended.
    if let Ok(shown) = shown.recv_timeout(Duration::from_secs(5)) {
        assert!(shown.is_empty(), "{shown:?}");
    }
    insert.send(()).unwrap();
    writer.join().unwrap().unwrap();
    let mut updates = feed.join().unwrap();
    assert!(updates.next_sequence_number() == 3 || keys(&mut updates) == ["held"]);
}

#[test]
fn a_replica_of_the_feed_equals_the_source() {
    let storage = Storage::new();
    let mut options = over(Arc::clone(&storage.faults) as _);
    options.set_write_buffer_size(64 << 10);
    let db = Db::open(&options, HERE).unwrap();
    let replica = Db::open(&options, "/replica").unwrap();
    let mut updates = db.get_updates_since(0).unwrap();
    let writers: Vec<_> = (0..3)
        .map(|writer| {
            let db = db.clone();
            std::thread::spawn(move || {
                for index in 0..1000 {
                    let mut batch = WriteBatch::new();
                    let value = format!("{index:0200}");
                    batch.put(format!("{writer} {:04}", index % 500), value);
                    batch.delete(format!("{writer} {:04}", (index + 77) % 500));
                    db.write(&batch).unwrap();
                }
            })
        })
        .collect();
    let apply = |updates: &mut UpdateIterator| {
        for update in updates {
            let update = update.unwrap();
            assert_eq!(update.sequence_number, replica.latest_sequence_number() + 1);
            replica.write(&update.batch).unwrap();
        }
    };
    // A record of the log has the batches of a write group.
    while replica.latest_sequence_number() < 6000 {
        apply(&mut updates);
    }
    for writer in writers {
        writer.join().unwrap();
    }
    assert_eq!(
        replica.latest_sequence_number(),
        db.latest_sequence_number()
    );
    let all = |db: &Db| db.range(..).map(Result::unwrap).collect::<Vec<_>>();
    assert!(all(&db) == all(&replica));
    assert!(db.log_files().unwrap().len() < 20);
}

#[test]
fn an_ingestion_behind_a_group_that_fails_shows_nothing_of_it() {
    let limit = Duration::from_secs(60);
    let storage = Storage::new();
    let (at_sync, is_logged, log) = gate();
    let (at_insertion, is_inserting, insert) = gate();
    let mut options = storage.options();
    options
        .set_enable_pipelined_write(true)
        .set_comparator(Holds {
            gate: at_insertion,
            was_held: AtomicBool::new(false),
            fails: true,
        });
    let db = Db::open(&options, HERE).unwrap();
    db.put("before", "value").unwrap();
    storage.memory.create_dir_all("/in".as_ref()).unwrap();
    let mut how = SstFileWriterOptions::new();
    how.set_env(&koeldb::Env::new(
        Arc::clone(&storage.faults) as _,
        Arc::new(SystemClock),
    ));
    let mut table = SstFileWriter::create_opt(&db.default_cf().options(), "/in/x", &how).unwrap();
    table.put("x", "1").unwrap();
    table.put("y", "1").unwrap();
    let path = table.finish().unwrap().path;
    let hold = FaultRule::new(FaultAction::Call(Arc::new(move |_| at_sync.pass())));
    let hold = hold.on(&[Operation::SyncData]).purpose(Purpose::Wal);
    storage.faults.add_rule(hold.limit(1));
    let writer = std::thread::spawn({
        let db = db.clone();
        move || {
            let mut sync = WriteOptions::new();
            sync.set_sync(true);
            let mut batch = WriteBatch::new();
            for at in 0..16 {
                batch.put(format!("a{at:02}"), "value");
            }
            batch.put("held", "value");
            db.write_opt(&batch, &sync)
        }
    });
    is_logged.recv_timeout(limit).unwrap();
    let ingesting = std::thread::spawn({
        let db = db.clone();
        move || db.ingest_external_file(&[path])
    });
    // Mostly the ingestion waits by then for its turn; the outcome is the same otherwise.
    std::thread::sleep(Duration::from_millis(100));
    log.send(()).unwrap();
    is_inserting.recv_timeout(limit).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    insert.send(()).unwrap();
    let written = writer.join().unwrap();
    let ingested = ingesting.join().unwrap();
    assert!(written.is_err() && ingested.is_err());
    assert!(!db.contains_key("a00").unwrap(), "a failed write is seen");
}
