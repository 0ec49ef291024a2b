//! Bugs that were found by reading and by use: each leaves the test that would have found it.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering as Memory};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use koeldb::fs::{
    FaultAction, FaultFileSystem, FaultRule, ManualClock, MemoryFileSystem, OpenOptions, Operation,
    PosixFileSystem, Purpose, SystemClock,
};
use koeldb::{
    BottommostLevelCompaction, ColumnFamilyDescriptor, ColumnFamilyOptions, CompactRangeOptions,
    CompactionStyle, Comparator, Compression, Db, Decision, Env, ErrorDetail, ErrorKind, Event,
    FifoCompactionOptions, FlushOptions, IteratorMode, Options, ReverseBytewiseComparator,
    Severity, WriteBatch,
};
use koeldb_lsm::TableOpener;
use koeldb_lsm::version::{ColumnFamilySpec, VersionSet, VersionSetOptions};
use koeldb_table::reader::TableReadContext;

use crate::gate::gate;
use crate::scratch::ScratchDir;
use crate::wait::until;

/// Anything that takes longer counts as hanging.
const LIMIT: Duration = Duration::from_secs(120);

fn creating() -> Options {
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .create_missing_column_families(true);
    options
}

/// Runs `work` in a thread, and returns its result if it finishes in time.
fn in_time<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = channel();
    std::thread::spawn(move || done.send(work()));
    result
        .recv_timeout(LIMIT)
        .unwrap_or_else(|error| panic!("{what}: {error}"))
}

fn without_waiting() -> FlushOptions {
    let mut options = FlushOptions::new();
    options.set_wait(false);
    options
}

fn value(db: &Db, key: &str) -> Option<String> {
    let value = db.get(key).unwrap()?;
    Some(String::from_utf8(value.to_vec()).unwrap())
}

fn table_path(dir: &Path, name: &str) -> PathBuf {
    dir.join(name.trim_start_matches('/'))
}

/// A flush synced closed logs under the leadership of a stalled writer that waited for the flush.
#[test]
fn a_stalled_writer_never_waits_for_a_flush_that_waits_for_it() {
    let dir = ScratchDir::new();
    let mut options = creating();
    options.set_write_buffer_size(64 << 10);
    let (db, [other]) = Db::open_cf(&options, dir.path(), ["other"]).unwrap();
    other.put("key", "value").unwrap();
    in_time("writing", move || {
        for index in 0..3_000_u32 {
            db.put(index.to_le_bytes(), [7; 1000]).unwrap();
        }
    });
}

/// A log was replayed after one with a damaged first record, since no sequence number was expected.
#[test]
fn a_log_damaged_from_its_first_record_on_leaves_no_hole() {
    for is_dropped in [false, true] {
        let dir = ScratchDir::new();
        let mut options = creating();
        options.set_avoid_flush_during_shutdown(true);
        let (db, [kept, flushed]) = Db::open_cf(&options, dir.path(), ["kept", "flushed"]).unwrap();
        kept.put("first", "").unwrap();
        flushed.put("key", "").unwrap();
        flushed.flush().unwrap();
        kept.put("second", "").unwrap();
        if is_dropped {
            db.drop_cf(&flushed).unwrap();
        }
        drop((db, kept, flushed));
        let logs = dir.all("log");
        assert_eq!(logs.len(), 2, "{logs:?}");
        let mut bytes = std::fs::read(&logs[0]).unwrap();
        bytes[9] ^= 1;
        std::fs::write(&logs[0], bytes).unwrap();
        if is_dropped {
            let (db, [kept]) = Db::open_cf(&options, dir.path(), ["kept"]).unwrap();
            assert!(kept.get("second").unwrap().is_none());
            assert!(db.recovery_report().logs[1].ignored);
        } else {
            // A table has data from after the damage: there is no state without a gap.
            let error = Db::open_cf(&options, dir.path(), ["kept", "flushed"]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        }
    }
}

/// `compact_files` moved the newest table of level 0 below older ones, which then hid it.
#[test]
fn compacting_the_newest_table_alone_hides_nothing_of_it() {
    let dir = ScratchDir::new();
    let mut options = creating();
    options.set_disable_auto_compactions(true);
    let db = Db::open(&options, dir.path()).unwrap();
    for value in ["1", "2", "3"] {
        db.put("key", value).unwrap();
        db.flush().unwrap();
    }
    let files = db.live_files();
    let newest = files.iter().max_by_key(|file| file.largest_seqno).unwrap();
    db.default_cf()
        .compact_files(&[PathBuf::from(&newest.name)], 1)
        .unwrap();
    assert_eq!(value(&db, "key").as_deref(), Some("3"));
}

/// A deletion hidden by a cancelled pair was dropped, which exposed an older value.
#[test]
fn a_deletion_behind_a_pair_that_is_gone_stays() {
    for single_deletions in [1, 3] {
        let dir = ScratchDir::new();
        let mut options = creating();
        options.set_disable_auto_compactions(true);
        let db = Db::open(&options, dir.path()).unwrap();
        db.put("key", "1").unwrap();
        db.flush().unwrap();
        let files: Vec<PathBuf> = (db.live_files().into_iter())
            .map(|file| PathBuf::from(file.name))
            .collect();
        db.default_cf().compact_files(&files, 3).unwrap();
        db.delete("key").unwrap();
        db.put("key", "2").unwrap();
        for _ in 0..single_deletions {
            db.single_delete("key").unwrap();
        }
        db.flush().unwrap();
        assert_eq!(value(&db, "key"), None);
        db.compact_all(&CompactRangeOptions::new()).unwrap();
        assert_eq!(value(&db, "key"), None);
        assert_eq!(db.live_files().len(), 0);
    }
}

/// A single deletion hidden by a newer value was dropped, which exposed an older value.
///
/// The newer value was removed together with the next single deletion.
#[test]
fn a_single_deletion_stays_until_it_meets_its_own_value() {
    for is_flushed_between in [false, true] {
        let dir = ScratchDir::new();
        let mut options = creating();
        options.set_disable_auto_compactions(true);
        let db = Db::open(&options, dir.path()).unwrap();
        let compact = |output_level| {
            let files = db.live_files().into_iter();
            let newest = files.filter(|file| file.level == 0);
            let names: Vec<PathBuf> = newest.map(|file| PathBuf::from(file.name)).collect();
            db.default_cf().compact_files(&names, output_level).unwrap();
        };
        db.put("key", "1").unwrap();
        db.flush().unwrap();
        compact(3);
        db.single_delete("key").unwrap();
        db.put("key", "2").unwrap();
        if is_flushed_between {
            db.flush().unwrap();
        }
        db.single_delete("key").unwrap();
        db.flush().unwrap();
        assert_eq!(value(&db, "key"), None);
        compact(1);
        assert_eq!(value(&db, "key"), None);
        assert_eq!(db.iterator(IteratorMode::Start).count(), 0);
        // It is removed together with the value.
        db.compact_all(&CompactRangeOptions::new()).unwrap();
        assert_eq!(db.live_files().len(), 0);
    }
}

/// A background compaction that panicked ran again, and again, and writes went on.
#[test]
fn a_panic_in_a_background_compaction_stops_writes_and_is_not_repeated() {
    let dir = ScratchDir::new();
    let calls = Arc::new(AtomicU64::new(0));
    let (failed, failures) = channel();
    let failed = Mutex::new(failed);
    let mut options = creating();
    options.set_disable_auto_compactions(true);
    let counted = Arc::clone(&calls);
    options.set_compaction_filter("panics", move |_, _, _| {
        counted.fetch_add(1, Memory::SeqCst);
        panic!("the filter panics, as the test wants it")
    });
    options.add_event_listener(move |event: &Event<'_>| {
        if let Event::BackgroundError(error) = event {
            let _ = failed.lock().unwrap().send(error.severity());
        }
    });
    let db = Db::open(&options, dir.path()).unwrap();
    for _ in 0..5 {
        db.put("a", "value").unwrap();
        db.put("b", "value").unwrap();
        db.flush().unwrap();
    }
    db.default_cf()
        .set_options([("disable_auto_compactions", "false")])
        .unwrap();
    assert_eq!(failures.recv_timeout(LIMIT).unwrap(), Severity::Fatal);
    let refusals = in_time("what follows a panic", {
        let db = db.clone();
        move || {
            [
                db.put("c", "value"),
                db.flush(),
                db.compact_all(&CompactRangeOptions::new()),
                db.wait_for_compact(None),
                db.resume(),
            ]
        }
    });
    for refusal in refusals {
        let error = refusal.unwrap_err();
        assert_eq!(error.detail(), Some(ErrorDetail::PluginPanicked), "{error}");
    }
    let errors = db.property_int_value("rocksdb.background-errors");
    assert_eq!(errors.unwrap(), Some(1));
    assert_eq!(value(&db, "a").as_deref(), Some("value"), "reads go on");
    assert!(db.close().is_err());
    assert_eq!(calls.load(Memory::SeqCst), 1);
}

/// The flush of a column family that was dropped meanwhile stopped all writes.
///
/// It counted as a failed change of the MANIFEST.
#[test]
fn a_family_dropped_during_its_flush_concerns_that_flush_alone() {
    let dir = ScratchDir::new();
    let (gate, stands_there, open) = gate();
    let faults = FaultFileSystem::new(Arc::new(PosixFileSystem::new()), 1);
    let rule = FaultRule::new(FaultAction::Call(Arc::new(move |_| gate.pass())));
    faults.add_rule(
        rule.on(&[Operation::SyncData, Operation::SyncAll])
            .purpose(Purpose::Wal)
            .nth(1),
    );
    let env = Env::new(Arc::new(faults), Arc::new(SystemClock));
    let (db, [family]) =
        Db::open_cf(creating().set_env(&env), dir.path(), ["short-lived"]).unwrap();
    family.put("key", "value").unwrap();
    family.flush_opt(&without_waiting()).unwrap();
    // The table is written; the flush syncs the log before it is recorded.
    stands_there.recv_timeout(LIMIT).unwrap();
    db.drop_cf(&family).unwrap();
    open.send(()).unwrap();
    db.wait_for_compact(Some(LIMIT)).unwrap();
    db.put("key", "value").unwrap();
    db.flush().unwrap();
    assert_eq!(value(&db, "key").as_deref(), Some("value"));
    drop(family);
    // The table of the flush is not part of the tree.
    until("the only table is the other family's", || {
        dir.all("sst").len() == 1
    });
}

/// A flush of a dropped column family dropped its memtables too, and its handles read less.
#[test]
fn a_family_dropped_during_its_flush_stays_readable_through_its_handles() {
    let dir = ScratchDir::new();
    let (gate, stands_there, open) = gate();
    let faults = FaultFileSystem::new(Arc::new(PosixFileSystem::new()), 1);
    let rule = FaultRule::new(FaultAction::Call(Arc::new(move |_| gate.pass())));
    faults.add_rule(
        rule.on(&[Operation::SyncData, Operation::SyncAll])
            .purpose(Purpose::Wal)
            .nth(1),
    );
    let env = Env::new(Arc::new(faults), Arc::new(SystemClock));
    let (db, [family]) =
        Db::open_cf(creating().set_env(&env), dir.path(), ["short-lived"]).unwrap();
    family.put("key", "value").unwrap();
    let snapshot = db.snapshot();
    family.flush_opt(&without_waiting()).unwrap();
    // The table is written; the flush syncs the log before it is recorded.
    stands_there.recv_timeout(LIMIT).unwrap();
    db.drop_cf(&family).unwrap();
    assert_eq!(family.get("key").unwrap().as_deref(), Some(&b"value"[..]));
    open.send(()).unwrap();
    db.wait_for_compact(Some(LIMIT)).unwrap();
    assert_eq!(family.get("key").unwrap().as_deref(), Some(&b"value"[..]));
    let seen = snapshot.get_cf(&family, "key").unwrap();
    assert_eq!(seen.as_deref(), Some(&b"value"[..]));
}

/// A close did not wait for a manual compaction, which wrote to a directory reopened by others.
#[test]
fn a_close_waits_for_calls_that_change_the_directory() {
    let dir = ScratchDir::new();
    let (gate, stands_there, open) = gate();
    let mut options = creating();
    options.set_disable_auto_compactions(true);
    let mut filtering = options.clone();
    filtering.set_compaction_filter("stands still", move |_, key, _| {
        if key == b"b" {
            gate.pass();
        }
        Decision::Keep
    });
    let db = Db::open(&filtering, dir.path()).unwrap();
    for value in ["1", "2", "3"] {
        db.put("a", value).unwrap();
        db.put("b", value).unwrap();
        db.flush().unwrap();
    }
    let compaction = std::thread::spawn({
        let db = db.clone();
        move || db.compact_all(&CompactRangeOptions::new())
    });
    stands_there.recv_timeout(LIMIT).unwrap();
    let (closed, closing) = channel();
    std::thread::spawn({
        let db = db.clone();
        move || closed.send(db.close())
    });
    until("the database is closing", || {
        db.get("a")
            .is_err_and(|error| error.kind() == ErrorKind::ShutdownInProgress)
    });
    assert!(closing.recv_timeout(Duration::from_millis(50)).is_err());
    drop(open);
    closing.recv_timeout(LIMIT).unwrap().unwrap();
    let _ = compaction.join().unwrap();
    let db = Db::open(&options, dir.path()).unwrap();
    assert_eq!(value(&db, "a").as_deref(), Some("3"));
    for file in db.live_files() {
        assert!(table_path(dir.path(), &file.name).exists(), "{}", file.name);
    }
}

/// The inputs of a compaction remained until the next one, since its plan still referred to them.
#[test]
fn the_inputs_of_a_compaction_go_when_it_ends() {
    let dir = ScratchDir::new();
    let mut options = creating();
    options.set_disable_auto_compactions(true);
    let db = Db::open(&options, dir.path()).unwrap();
    for value in ["1", "2", "3"] {
        db.put("key", value).unwrap();
        db.flush().unwrap();
    }
    db.compact_all(&CompactRangeOptions::new()).unwrap();
    assert_eq!(db.live_files().len(), 1);
    // A flush that has answered may still hold a version.
    until("the inputs are removed", || dir.all("sst").len() == 1);
}

/// Bytewise, but for the key `boom` while it is armed.
#[derive(Debug)]
struct Panics {
    is_armed: Arc<AtomicBool>,
}

impl Comparator for Panics {
    fn name(&self) -> &'static str {
        "panics.Comparator"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let is_armed = self.is_armed.load(Memory::SeqCst);
        assert!(
            !(is_armed && (a == b"boom" || b == b"boom")),
            "the comparator panics, as the test wants it"
        );
        a.cmp(b)
    }
}

/// After a panic of a comparator in a batch, the next write made its first part visible.
#[test]
fn a_batch_torn_by_a_panic_is_never_seen() {
    let dir = ScratchDir::new();
    let is_armed = Arc::new(AtomicBool::new(false));
    let mut options = creating();
    options.set_comparator(Panics {
        is_armed: Arc::clone(&is_armed),
    });
    let db = Db::open(&options, dir.path()).unwrap();
    db.put("a", "value").unwrap();
    db.put("b", "value").unwrap();
    is_armed.store(true, Memory::SeqCst);
    let mut batch = WriteBatch::new();
    batch.put("part", "").put("boom", "").put("rest", "");
    let error = db.write(&batch).unwrap_err();
    assert_eq!(error.detail(), Some(ErrorDetail::PluginPanicked), "{error}");
    is_armed.store(false, Memory::SeqCst);
    assert_eq!(db.put("c", "").unwrap_err().severity(), Severity::Fatal);
    assert_eq!(value(&db, "part"), None);
    assert_eq!(value(&db, "rest"), None);
    assert!(db.close().is_err());
    drop(db);
    // The log has the whole batch.
    let db = Db::open(&options, dir.path()).unwrap();
    assert!(value(&db, "part").is_some() && value(&db, "rest").is_some());
}

/// A close after a failure did not make the log durable, although the log was healthy.
#[test]
fn a_close_after_a_failed_compaction_still_keeps_what_is_in_the_log() {
    let dir = ScratchDir::new();
    let mut options = creating();
    options
        .set_manual_wal_flush(true)
        .set_disable_auto_compactions(true);
    let db = Db::open(&options, dir.path()).unwrap();
    for value in ["1", "2"] {
        db.put("key", value).unwrap();
        db.flush().unwrap();
    }
    let tables: Vec<PathBuf> = db
        .live_files()
        .iter()
        .map(|file| table_path(dir.path(), &file.name))
        .collect();
    drop(db);
    let db = Db::open(&options, dir.path()).unwrap();
    db.put("only in the log", "value").unwrap();
    let mut bytes = std::fs::read(&tables[0]).unwrap();
    for byte in &mut bytes[..20] {
        *byte ^= 0x55;
    }
    std::fs::write(&tables[0], bytes).unwrap();
    let error = db.default_cf().compact_files(&tables, 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert_eq!(
        db.put("key", "3").unwrap_err().severity(),
        Severity::Unrecoverable
    );
    let error = db.close().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    drop(db);
    let db = Db::open(&options, dir.path()).unwrap();
    assert_eq!(value(&db, "only in the log").as_deref(), Some("value"));
}

#[test]
fn a_database_that_has_to_slow_writes_down_opens() {
    let dir = ScratchDir::new();
    let mut options = creating();
    options.set_disable_auto_compactions(true);
    let db = Db::open(&options, dir.path()).unwrap();
    for value in ["1", "2", "3"] {
        db.put("key", value).unwrap();
        db.flush().unwrap();
    }
    drop(db);
    options
        .set_disable_auto_compactions(false)
        .set_level_zero_file_num_compaction_trigger(2)
        .set_level_zero_slowdown_writes_trigger(2);
    let db = Db::open(&options, dir.path()).unwrap();
    db.put("key", "4").unwrap();
    assert_eq!(value(&db, "key").as_deref(), Some("4"));
}

#[test]
fn options_may_be_set_by_many_at_once() {
    let dir = ScratchDir::new();
    let db = Db::open(&creating(), dir.path()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let db = &db;
            scope.spawn(move || {
                for round in 0..20 {
                    let bytes = (100_000 + thread * 100 + round).to_string();
                    db.default_cf()
                        .set_options([("write_buffer_size", &bytes)])
                        .unwrap();
                }
            });
        }
    });
}

#[test]
fn a_sync_of_the_log_does_not_vouch_for_logs_that_were_given_up() {
    let memory = koeldb::fs::MemoryFileSystem::new();
    let faults = Arc::new(FaultFileSystem::new(Arc::new(memory.clone()), 1));
    let mut options = creating();
    options
        .set_max_bgerror_resume_count(0)
        .set_env(&Env::new(Arc::clone(&faults) as _, Arc::new(SystemClock)));
    let db = Db::open(&options, "/db").unwrap();
    db.put("key", "acknowledged").unwrap();
    let failing = FaultRule::fail(koeldb::fs::Failure::NoSpace).on(&[Operation::Append]);
    faults.add_rule(failing.purpose(Purpose::Wal).nth(1));
    let table = FaultRule::fail(koeldb::fs::Failure::NoSpace).on(&[Operation::Append]);
    faults.add_rule(table.purpose(Purpose::Flush));
    assert!(db.put("key", "failed").is_err());
    assert!(db.resume().is_err(), "its tables cannot be written");
    assert!(db.flush_wal(true).is_err());
    faults.clear_rules();
    db.resume().unwrap();
    db.flush_wal(true).unwrap();
    let left = memory.crash_image(koeldb::fs::SurvivalPolicy::Strict, 0);
    options.set_env(&Env::new(Arc::new(left), Arc::new(SystemClock)));
    let db = Db::open(&options, "/db").unwrap();
    assert_eq!(value(&db, "key").as_deref(), Some("acknowledged"));
}

/// Comparators were checked during the replay of edits, also for dropped column families.
#[test]
fn the_name_of_a_dropped_family_may_be_used_with_another_comparator() {
    let dir = ScratchDir::new();
    let mut reversed = ColumnFamilyOptions::new();
    reversed.set_comparator(ReverseBytewiseComparator);
    let db = Db::open(&creating(), dir.path()).unwrap();
    let first = db.create_cf("again", &ColumnFamilyOptions::new()).unwrap();
    first.put("a", "first").unwrap();
    first.put("b", "first").unwrap();
    first.flush().unwrap();
    db.drop_cf(&first).unwrap();
    let second = db.create_cf("again", &reversed).unwrap();
    second.put("a", "second").unwrap();
    second.put("b", "second").unwrap();
    second.flush().unwrap();
    db.close().unwrap();
    drop((first, second, db));
    let mut builder = Db::builder(&creating());
    builder.column_family(ColumnFamilyDescriptor::new("again", reversed));
    let db = builder.open(dir.path()).unwrap();
    let family = db.cf_handle("again").unwrap();
    let keys = family.iterator(IteratorMode::Start);
    let keys: Vec<_> = keys.map(|entry| entry.unwrap().0.to_vec()).collect();
    assert_eq!(keys, [b"b", b"a"]);
}

/// Returns `(ancestor, creation, oldest key, newest key)` of the tables, in seconds.
///
/// The times are from the MANIFEST and the table properties.
fn ages(fs: &Arc<MemoryFileSystem>) -> Vec<[u64; 4]> {
    let options = VersionSetOptions {
        read_only: true,
        ..VersionSetOptions::default()
    };
    let directory = Path::new("/db");
    let families = [ColumnFamilySpec::new("default")];
    let (set, _) = VersionSet::recover(fs.clone(), directory, &families, options).unwrap();
    let version = set.family(0).unwrap().current();
    let tables = TableOpener::new(
        fs.clone(),
        directory,
        OpenOptions::default(),
        TableReadContext::default(),
    );
    let ages = version.files().map(|(level, file)| {
        let reader = tables.reader(file, level).unwrap();
        let properties = reader.properties();
        assert_eq!(properties.creation_time, file.oldest_ancestor_time);
        assert_eq!(properties.file_creation_time, file.creation_time);
        [
            file.oldest_ancestor_time,
            file.creation_time,
            properties.oldest_key_time,
            properties.newest_key_time,
        ]
    });
    ages.collect()
}

/// Every compaction reset the age of its entries, so that frequently compacted ones never expired.
///
/// RocksDB inherited the wrong ages; with a bound on open tables they were unknown.
#[test]
fn compactions_keep_the_ages_of_entries() {
    for max_open_files in [None, Some(20)] {
        check_ages(max_open_files);
    }
}

fn check_ages(max_open_files: Option<u32>) {
    const DAY: u64 = 86_400;
    let clock = ManualClock::new();
    let start = 1_700_000_000;
    clock.set_unix_micros(start * 1_000_000);
    let fs = Arc::new(MemoryFileSystem::with_clock(Arc::new(clock.clone())));
    let env = Env::new(fs.clone(), Arc::new(clock.clone()));
    let mut options = creating();
    options
        .set_env(&env)
        .set_max_open_files(max_open_files)
        .set_disable_auto_compactions(true);
    let db = Db::open(&options, "/db").unwrap();
    let day = || clock.advance(Duration::from_secs(DAY));
    let (first, second) = (start, start + DAY);
    for _ in 0..2 {
        db.put("a", "value").unwrap();
        db.put("m", "value").unwrap();
        db.flush().unwrap();
        day();
    }
    assert_eq!(ages(&fs), [[second; 4], [first; 4]]);
    let merged = start + 2 * DAY;
    db.compact_all(&CompactRangeOptions::new()).unwrap();
    assert_eq!(ages(&fs), [[first, merged, first, second]]);

    // A merge with what is younger, and one of nothing else.
    day();
    let third = start + 3 * DAY;
    db.put("b", "value").unwrap();
    db.flush().unwrap();
    assert_eq!(ages(&fs), [[third; 4], [first, merged, first, second]]);
    let mut forced = CompactRangeOptions::new();
    forced.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
    for days in 4..6 {
        day();
        db.compact_all(&forced).unwrap();
        assert_eq!(ages(&fs), [[first, start + days * DAY, first, third]]);
    }

    // A moved table is unchanged.
    day();
    db.delete_range("a", "z").unwrap();
    db.compact_all(&forced).unwrap();
    assert_eq!(ages(&fs), [[0; 4]; 0]);
    db.put("a", "value").unwrap();
    db.flush().unwrap();
    let written = ages(&fs);
    day();
    db.compact_all(&CompactRangeOptions::new()).unwrap();
    assert!(db.live_files()[0].level > 0);
    assert_eq!(ages(&fs), written);
}

/// FIFO compaction considered only level 0.
///
/// A merge of its tables dropped deletions of deeper entries, and tables were dropped newest data
/// first.
#[test]
fn fifo_compaction_of_a_tree_with_deeper_levels_drops_the_oldest_and_no_deletion() {
    let dir = ScratchDir::new();
    let mut options = creating();
    options
        .set_disable_auto_compactions(true)
        .set_compression_type(Compression::None);
    let db = Db::open(&options, dir.path()).unwrap();
    for key in ["deleted", "kept", "ranged"] {
        db.put(key, vec![b'o'; 100_000]).unwrap();
    }
    db.compact_all(&CompactRangeOptions::new()).unwrap();
    assert!(db.live_files()[0].level > 0);
    db.close().unwrap();
    drop(db);

    let mut fifo = FifoCompactionOptions::default();
    fifo.set_allow_compaction(true);
    options
        .set_compaction_style(CompactionStyle::Fifo)
        .set_fifo_compaction_options(&fifo);
    let db = Db::open(&options, dir.path()).unwrap();
    db.delete("deleted").unwrap();
    db.flush().unwrap();
    db.delete_range("r", "s").unwrap();
    db.flush().unwrap();
    for key in ["new", "newer"] {
        db.put(key, vec![b'n'; 1000]).unwrap();
        db.flush().unwrap();
    }
    assert_eq!(db.live_files().len(), 5);
    db.compact_all(&CompactRangeOptions::new()).unwrap();
    assert_eq!(db.live_files().len(), 2, "four were joined");
    assert_eq!(value(&db, "deleted"), None);
    assert_eq!(value(&db, "ranged"), None);
    assert!(value(&db, "kept").is_some());
    db.close().unwrap();
    drop(db);

    fifo.set_max_table_files_size(50_000);
    options.set_fifo_compaction_options(&fifo);
    let db = Db::open(&options, dir.path()).unwrap();
    db.compact_all(&CompactRangeOptions::new()).unwrap();
    let levels: Vec<usize> = db.live_files().iter().map(|file| file.level).collect();
    assert_eq!(levels, [0]);
    assert!(value(&db, "new").is_some() && value(&db, "newer").is_some());
    assert_eq!(value(&db, "kept"), None);
}

#[test]
fn a_new_database_takes_no_logs_of_another() {
    let dir = ScratchDir::new();
    let (path, logs) = (dir.join("db"), dir.join("logs"));
    let mut options = Options::new();
    options.create_if_missing(true).set_wal_dir(&logs);
    let db = Db::open(&options, &path).unwrap();
    db.put("key", "old").unwrap();
    drop(db);
    std::fs::remove_dir_all(&path).unwrap();
    let refused = Db::open(&options, &path).unwrap_err();
    assert!(refused.to_string().contains(".log"), "{refused}");
    Db::destroy(&options, &path).unwrap();
    let db = Db::open(&options, &path).unwrap();
    assert_eq!(db.get("key").unwrap(), None);
}

#[test]
fn a_directory_for_logs_is_not_named_while_the_logs_are_in_that_of_the_database() {
    let dir = ScratchDir::new();
    let (path, logs) = (dir.join("db"), dir.join("logs"));
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_avoid_flush_during_shutdown(true);
    let db = Db::open(&options, &path).unwrap();
    db.put("key", "value").unwrap();
    db.close().unwrap();
    drop(db);
    options.set_wal_dir(&logs);
    let refused = Db::open(&options, &path).unwrap_err();
    assert!(
        refused.to_string().contains("open the database without"),
        "{refused}"
    );
    std::fs::create_dir_all(&logs).unwrap();
    for entry in std::fs::read_dir(&path).unwrap() {
        let file = entry.unwrap().path();
        if file.extension().is_some_and(|extension| extension == "log") {
            std::fs::rename(&file, logs.join(file.file_name().unwrap())).unwrap();
        }
    }
    let db = Db::open(&options, &path).unwrap();
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"value"[..]));
}
