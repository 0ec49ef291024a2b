//! Known classes of failures of similar engines that no other suite is named after.
//!
//! See `docs/reliability.md`, section 6, for all of them and their tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use koeldb::fs::{
    Clock, Failure, FaultAction, FaultRule, FileSystem, ManualClock, MemoryFileSystem, OpenOptions,
    Operation, Purpose, SurvivalPolicy, SystemClock, WriteOptions,
};
use koeldb::{
    BlockBasedOptions, CompactionStyle, Db, Env, FifoCompactionOptions, FixedPrefix, IteratorMode,
    Options, ReadOptions, Severity, WriteBatch, WriteOutcome,
};
use koeldb_table::TableReader;
use koeldb_table::reader::TableReadContext;

use crate::prelude::LIMIT;
use crate::storage::{HERE, Storage, over};

fn key(number: u64) -> String {
    format!("key{number:06}")
}

/// Bytes that do not compress to nothing.
fn value(number: u64) -> Vec<u8> {
    let mut random = koeldb_testkit::Random::new(number);
    (0..12).flat_map(|_| random.draw().to_le_bytes()).collect()
}

fn fill(db: &Db, count: u64) {
    let mut batch = WriteBatch::new();
    for number in 0..count {
        batch.put(key(number), value(number));
    }
    db.write(&batch).unwrap();
    db.flush().unwrap();
}

/// Class 4: a log counted as synced though it grew while it was.
#[test]
fn a_sync_vouches_for_nothing_that_was_written_while_it_ran() {
    let storage = Storage::new();
    let db = Db::open(&storage.options(), HERE).unwrap();
    db.put("before", "value").unwrap();
    let during = {
        let db = db.clone();
        move || {
            let db = db.clone();
            // It may have to wait for the sync, but not the reverse.
            std::thread::spawn(move || db.put("during", "value"));
            SystemClock.sleep(Duration::from_millis(100));
        }
    };
    let rule = FaultRule::new(FaultAction::Call(Arc::new(move |_| during())))
        .on(&[Operation::SyncData, Operation::SyncAll])
        .purpose(Purpose::Wal)
        .nth(1);
    storage.faults.add_rule(rule);
    db.flush_wal(true).unwrap();
    let begun = SystemClock.now();
    while !db.contains_key("during").unwrap() {
        assert!(SystemClock.now() - begun < LIMIT, "the write does not come");
        SystemClock.sleep(Duration::from_millis(1));
    }
    db.flush_wal(true).unwrap();
    let left = storage.memory.crash_image(SurvivalPolicy::Strict, 0);
    let db = Db::open(&over(Arc::new(left)), HERE).unwrap();
    for key in ["before", "during"] {
        assert!(db.contains_key(key).unwrap(), "{key} was synced");
    }
}

/// Class 9: a flush is not recorded as past a log that was closed during its sync of older logs.
///
/// If that log is cut off, the column family must not seem to be ahead of it.
#[test]
fn a_flush_is_not_past_a_log_that_was_closed_after_it_looked() {
    let storage = Storage::new();
    let mut options = storage.options();
    options
        .create_missing_column_families(true)
        .set_write_buffer_size(64 << 10)
        // A single sealed memtable is not flushed.
        .set_min_write_buffer_number_to_merge(2)
        .set_max_write_buffer_number(4);
    let (db, [other]) = Db::open_cf(&options, HERE, ["other"]).unwrap();
    other.put("flushed", "value").unwrap();
    let during = {
        let db = db.clone();
        move || {
            // Too much for the memtable: the next write begins a new log.
            for key in ["first", "second"] {
                db.put(key, vec![b'x'; 100 << 10]).unwrap();
            }
        }
    };
    let rule = FaultRule::new(FaultAction::Call(Arc::new(move |_| during())))
        .on(&[Operation::SyncData, Operation::SyncAll])
        .purpose(Purpose::Wal)
        .nth(1);
    let rule = storage.faults.add_rule(rule);
    other.flush().unwrap();
    assert_eq!(storage.faults.match_count(rule), 1);
    for (seed, policy) in (0..).zip(SurvivalPolicy::ALL.iter().cycle().take(200)) {
        let left = storage.memory.crash_image(*policy, seed);
        let mut options = over(Arc::new(left));
        options.create_missing_column_families(true);
        let (_db, [other]) = Db::open_cf(&options, HERE, ["other"])
            .unwrap_or_else(|error| panic!("{policy:?}, seed {seed}: {error}"));
        assert!(other.contains_key("flushed").unwrap());
    }
}

/// Class 13: a used-up quota is a full disk, and over when there is room.
#[test]
fn a_used_up_quota_is_got_over_without_a_reopen() {
    let storage = Storage::new();
    let db = Db::open(&storage.options(), HERE).unwrap();
    let rule = FaultRule::fail(Failure::Quota).on(&[Operation::Append]);
    storage.faults.add_rule(rule);
    let error = db.put("key", "value").unwrap_err();
    assert_eq!(
        error.detail(),
        Some(koeldb::ErrorDetail::NoSpace),
        "{error}"
    );
    assert_eq!(
        db.put("key", "value").unwrap_err().severity(),
        Severity::Hard
    );
    storage.faults.clear_rules();
    let begun = SystemClock.now();
    while let Err(error) = db.put("key", "value") {
        assert!(SystemClock.now() - begun < LIMIT, "{error}");
        SystemClock.sleep(Duration::from_millis(1));
    }
    assert!(db.contains_key("key").unwrap());
}

/// Class 14: the followers of a leader get its error.
#[test]
fn every_member_of_a_group_is_told_that_its_log_failed() {
    const FOLLOWERS: u64 = 5;
    // Others join the group while its leader waits. A machine with other work may be late.
    for pipelined in [false, true] {
        let mut joined = (1..=20).map(|attempt| members_told(pipelined, FOLLOWERS, 100 * attempt));
        assert!(joined.any(|members| members >= 2), "no group is formed");
    }
}

/// Makes the log of a group fail; returns how many members were told so.
///
/// The write before it waits for its followers, and for `pause_millis` until they are queued.
fn members_told(pipelined: bool, followers: u64, pause_millis: u64) -> usize {
    let storage = Storage::new();
    let mut options = storage.options();
    options
        .set_enable_pipelined_write(pipelined)
        .set_max_bgerror_resume_count(0);
    let db = Db::open(&options, HERE).unwrap();
    let waiting = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&waiting);
    // The first write waits until the others are queued.
    let gather = move || {
        while seen.load(Ordering::Acquire) < followers {
            SystemClock.sleep(Duration::from_millis(1));
        }
        SystemClock.sleep(Duration::from_millis(pause_millis));
    };
    let appends = |rule: FaultRule| rule.on(&[Operation::Append]).purpose(Purpose::Wal);
    let gathering = FaultRule::new(FaultAction::Call(Arc::new(move |_| gather())));
    storage.faults.add_rule(appends(gathering).nth(1));
    let failing = FaultRule::fail(Failure::Device);
    storage.faults.add_rule(appends(failing).from_nth(2));
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let first = scope.spawn(|| db.put("first", "value"));
        while storage.faults.injection_count() == 0 {
            SystemClock.sleep(Duration::from_millis(1));
        }
        let followers: Vec<_> = (0..followers)
            .map(|number| {
                let (db, waiting) = (&db, &waiting);
                scope.spawn(move || {
                    waiting.fetch_add(1, Ordering::Release);
                    db.put(key(number), "value")
                })
            })
            .collect();
        first.join().unwrap().unwrap();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| thread.join().unwrap();
        followers.into_iter().map(join).collect()
    });
    let mut of_the_group = 0_usize;
    for (number, outcome) in (0..).zip(outcomes) {
        let error: koeldb::Error = outcome.expect_err("its log write failed");
        of_the_group += usize::from(error.write_outcome() == Some(WriteOutcome::Indeterminate));
        assert!(!db.contains_key(key(number)).unwrap(), "it is not seen");
    }
    assert!(db.contains_key("first").unwrap());
    of_the_group
}

/// Class 15: a cursor repeats its error until the next seek.
#[test]
fn a_cursor_repeats_its_error_until_the_next_seek() {
    const ENTRIES: u64 = 5000;
    let storage = Storage::new();
    let options = storage.options();
    let db = Db::open(&options, HERE).unwrap();
    fill(&db, ENTRIES);
    db.close().unwrap();
    drop(db);
    let db = Db::open(&options, HERE).unwrap();
    let mut cursor = db.cursor();
    assert!(cursor.seek_to_first().unwrap());
    let rule = FaultRule::fail(Failure::Device).on(&[Operation::Read]);
    storage.faults.add_rule(rule);
    let mut steps = 0;
    while cursor.next().is_ok_and(|is_valid| is_valid) {
        steps += 1;
    }
    assert!(steps < ENTRIES - 1, "no read failed");
    storage.faults.clear_rules();
    for _ in 0..3 {
        assert!(!cursor.valid());
        assert!(cursor.status().is_err());
        assert!(cursor.next().is_err(), "the error is forgotten");
        assert!(cursor.prev().is_err(), "the error is forgotten");
    }
    assert!(cursor.seek(key(ENTRIES - 2)).unwrap());
    assert!(cursor.next().unwrap());
    assert!(!cursor.next().unwrap(), "an end is no error");
    assert!(cursor.status().is_ok());
}

/// Class 16: a damaged block of range deletions is no empty one.
#[test]
fn damaged_range_deletions_are_an_error_and_undo_no_deletion() {
    let storage = Storage::new();
    let options = storage.options();
    let db = Db::open(&options, HERE).unwrap();
    db.put("a", "deleted").unwrap();
    db.delete_range("a", "b").unwrap();
    db.put("c", "value").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    drop(db);
    let path = storage.only(".sst");
    let file = storage.memory.open(&path, &OpenOptions::default()).unwrap();
    let table = TableReader::open(file, &TableReadContext::default()).unwrap();
    let handle = table.metaindex().get("rocksdb.range_del").unwrap();
    let whole = storage
        .memory
        .read_all(&path, 1 << 20, Purpose::Open)
        .unwrap();
    for at in handle.offset..handle.offset + handle.size + 5 {
        let mut damaged = whole.clone();
        damaged[usize::try_from(at).unwrap()] ^= 0x10;
        storage.memory.remove_file(&path).unwrap();
        let mut file = storage
            .memory
            .create(&path, &WriteOptions::new(Purpose::Open))
            .unwrap();
        file.append(&damaged).unwrap();
        file.sync_all().unwrap();
        for read_only in [true, false] {
            let mut builder = Db::builder(&options);
            if read_only {
                builder.read_only();
            }
            let found = builder.open(HERE).and_then(|db| db.get("a"));
            let error = found.map(|value| value.is_some()).unwrap_err();
            assert!(error.is_corruption(), "byte {at}: {error}");
        }
    }
}

/// Class 27: column families with an empty or duplicate name.
#[test]
fn a_family_has_a_name_and_nobody_else_has_it() {
    let storage = Storage::new();
    let options = storage.options();
    let db = Db::open(&options, HERE).unwrap();
    let family_options = db.default_cf().options();
    let family = db.create_cf("family", &family_options).unwrap();
    family.put("key", "value").unwrap();
    for name in ["", "default", "family"] {
        let refused = db.create_cf(name, &family_options).map(|_| ());
        assert!(refused.is_err(), "{name:?} is taken");
        family.put("after", "value").unwrap();
    }
    db.close().unwrap();
    drop((family, db));
    assert_eq!(Db::list_cf(&options, HERE).unwrap(), ["default", "family"]);
    let (db, [family]) = Db::open_cf(&options, HERE, ["family"]).unwrap();
    assert!(family.contains_key("key").unwrap());
    db.close().unwrap();
}

/// Class 30: a filter of prefixes of another length than the queried ones.
#[test]
fn a_filter_of_other_prefixes_denies_nothing() {
    let storage = Storage::new();
    let options = |length| {
        let mut table = BlockBasedOptions::new();
        table.set_bloom_filter(10.0).set_whole_key_filtering(false);
        let mut options = storage.options();
        options
            .set_prefix_extractor(FixedPrefix::new(length))
            .set_block_based_table_factory(&table);
        options
    };
    let db = Db::open(&options(8), HERE).unwrap();
    fill(&db, 500);
    db.close().unwrap();
    drop(db);
    for length in [2, 7, 9] {
        let db = Db::open(&options(length), HERE).unwrap();
        for number in 0..500 {
            assert!(db.contains_key(key(number)).unwrap(), "{length}, {number}");
            let mut read = ReadOptions::new();
            read.set_prefix_same_as_start(true);
            let mut cursor = db.cursor_opt(&read);
            assert!(cursor.seek(key(number)).unwrap(), "{length}, {number}");
        }
        db.close().unwrap();
    }
}

/// Class 33: data does not age by jumps of the wall clock, beyond its latest time.
#[test]
fn a_clock_that_jumps_deletes_nothing() {
    const HOUR: u64 = 3_600_000_000;
    const NOW: u64 = 1_700_000_000_000_000;
    let clock = ManualClock::new();
    clock.set_unix_micros(NOW);
    let memory = MemoryFileSystem::with_clock(Arc::new(clock.clone()));
    let env = Env::stepped(Arc::new(memory), Arc::new(clock.clone()), 1);
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_compaction_style(CompactionStyle::Fifo)
        .set_fifo_compaction_options(&FifoCompactionOptions::default())
        .set_ttl(Duration::from_secs(2 * 3600))
        .set_env(&env);
    let db = Db::open(&options, HERE).unwrap();
    let jumps = [NOW, NOW - 10_000 * HOUR, 0, NOW + HOUR, NOW / 2, NOW + HOUR];
    for (number, wall) in (0..).zip(jumps) {
        clock.set_unix_micros(wall);
        clock.advance(Duration::from_secs(1));
        db.put(key(number), "value").unwrap();
        db.flush().unwrap();
        while env.step() {}
        let found = db.iterator(IteratorMode::Start).count() as u64;
        assert_eq!(found, number + 1, "the clock is at {wall}");
    }
    db.close().unwrap();
}

/// Class 35: a file that gives nothing any more.
#[test]
fn a_read_that_makes_no_progress_is_an_error_and_no_loop() {
    let storage = Storage::new();
    let options = storage.options();
    let db = Db::open(&options, HERE).unwrap();
    fill(&db, 2000);
    db.close().unwrap();
    drop(db);
    let db = Db::open(&options, HERE).unwrap();
    storage.memory.truncate(&storage.only(".sst"), 0).unwrap();
    assert!(db.get(key(1000)).is_err());
    assert!(db.range(..).any(|entry| entry.is_err()));
    assert!(db.verify_checksums().is_err());
}
