//! Writes are accepted again after storage failed and works again, without a reopen.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use koeldb::fs::{
    Failure, FaultAction, FaultFileSystem, FaultRule, FileSystem, MemoryFileSystem, Operation,
    Purpose, SurvivalPolicy, SystemClock,
};
use koeldb::{
    Db, Env, ErrorDetail, ErrorKind, Event, FlushOptions, Options, Severity, WriteOptions,
};
use koeldb_testkit::proc_stat::is_asleep;

use crate::gate::gate;
use crate::prelude::{LIMIT, creating, value};
use crate::storage::{HERE, Storage};
use crate::wait::until;

#[derive(Debug, PartialEq, Eq)]
enum Told {
    Failed(Severity),
    NotResumed,
    Resumed,
}

/// Returns options with a resume interval of milliseconds, and the events of a listener.
fn listening(storage: &Storage) -> (Options, Receiver<Told>) {
    let (tell, told) = channel();
    let tell = Mutex::new(tell);
    let mut options = storage.options();
    options
        .create_missing_column_families(true)
        .add_event_listener(move |event: &Event<'_>| {
            let told = match event {
                Event::BackgroundError(error) => Told::Failed(error.severity()),
                Event::ResumeFailed(_) => Told::NotResumed,
                Event::Resumed => Told::Resumed,
                _ => return,
            };
            let _ = tell.lock().unwrap().send(told);
        });
    (options, told)
}

fn wait_for(told: &Receiver<Told>, wanted: &Told) {
    while told.recv_timeout(LIMIT).expect("it is told in time") != *wanted {}
}

fn synced() -> WriteOptions {
    let mut options = WriteOptions::new();
    options.set_sync(true);
    options
}

fn log_count(fs: &MemoryFileSystem) -> usize {
    let entries = fs.list(HERE.as_ref()).unwrap();
    let logs = entries.iter().filter(|entry| entry.name.ends_with(".log"));
    logs.count()
}

/// Injects a failure, waits for some attempts, and removes it.
fn fails_and_comes_back(what: &str, rules: &[FaultRule], write: fn(&Db) -> koeldb::Result<()>) {
    let storage = Storage::new();
    let (options, told) = listening(&storage);
    let (db, [other]) = Db::open_cf(&options, HERE, ["other"]).unwrap();
    db.put_opt("before", "value", &synced()).unwrap();
    other.put("before", "value").unwrap();
    for rule in rules {
        storage.faults.add_rule(rule.clone());
    }
    let error = write(&db).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::IoError, "{what}: {error}");
    wait_for(&told, &Told::Failed(Severity::Hard));
    let error = db.put("refused", "value").unwrap_err();
    assert_eq!(error.severity(), Severity::Hard, "{what}: {error}");
    for _ in 0..5 {
        wait_for(&told, &Told::NotResumed);
    }
    // Remainders of failed attempts do not accumulate.
    let sealed = db.property_int_value("rocksdb.num-immutable-mem-table");
    let sealed = sealed.unwrap();
    assert!(sealed <= Some(1), "{what}: {sealed:?}");
    assert!(log_count(&storage.memory) <= 3, "{what}");
    assert_eq!(
        db.get("before").unwrap().as_deref(),
        Some(&b"value"[..]),
        "reads go on"
    );
    storage.faults.clear_rules();
    wait_for(&told, &Told::Resumed);
    db.put_opt("after", "value", &synced()).unwrap();
    other.put("after", "value").unwrap();
    let errors = db.property_int_value("rocksdb.background-errors").unwrap();
    assert!(errors >= Some(1), "all are counted, {what}: {errors:?}");
    db.close().unwrap_or_else(|error| panic!("{what}: {error}"));
    drop((db, other));
    let (db, [other]) = Db::open_cf(&options, HERE, ["other"]).unwrap();
    for key in ["before", "after"] {
        assert!(db.contains_key(key).unwrap(), "{what}: {key}");
        assert!(other.contains_key(key).unwrap(), "{what}: {key}");
    }
    assert!(!db.contains_key("refused").unwrap(), "{what}");
}

fn fail(operations: &[Operation], purpose: Purpose, failure: Failure) -> FaultRule {
    FaultRule::fail(failure).on(operations).purpose(purpose)
}

#[test]
fn a_log_that_cannot_be_written_is_given_up_when_another_can() {
    let writes = [Operation::Append, Operation::Flush, Operation::Create];
    fails_and_comes_back(
        "log writes",
        &[fail(&writes, Purpose::Wal, Failure::Device)],
        |db| db.put("failing", "value"),
    );
}

#[test]
fn a_log_that_cannot_be_created_stops_writes_until_one_can() {
    fails_and_comes_back(
        "log creation",
        &[fail(&[Operation::Create], Purpose::Wal, Failure::Device)],
        Db::flush,
    );
    fails_and_comes_back(
        "log creation in a full directory",
        &[fail(&[Operation::Create], Purpose::Wal, Failure::NoSpace)],
        Db::flush,
    );
}

#[test]
fn no_write_succeeds_and_no_memtable_grows_while_the_next_log_cannot_be_created() {
    const BUFFER_BYTES: u64 = 256 << 10;
    let storage = Storage::new();
    let (mut options, told) = listening(&storage);
    options.set_write_buffer_size(BUFFER_BYTES);
    let db = Db::open(&options, HERE).unwrap();
    storage
        .faults
        .add_rule(fail(&[Operation::Create], Purpose::Wal, Failure::Device));
    let put = |index: u64| db.put(index.to_le_bytes(), [7; 1000]);
    let written = (0..).take_while(|&index| put(index).is_ok()).count() as u64;
    for index in written..written + 1000 {
        let error = put(index).expect_err("a full memtable accepts no write");
        assert_eq!(error.severity(), Severity::Hard, "{error}");
    }
    let memtables = db.property_int_value("rocksdb.cur-size-all-mem-tables");
    assert!(memtables.unwrap() < Some(2 * BUFFER_BYTES));
    storage.faults.clear_rules();
    wait_for(&told, &Told::Resumed);
    put(written).unwrap();
    db.close().unwrap();
    let db = Db::open(&options, HERE).unwrap();
    assert_eq!(db.range(..).count() as u64, written + 1);
}

#[test]
fn a_log_that_cannot_be_synced_is_given_up_when_another_can() {
    let syncs = [Operation::SyncData, Operation::SyncAll, Operation::Create];
    fails_and_comes_back(
        "log syncs",
        &[fail(&syncs, Purpose::Wal, Failure::Device)],
        |db| db.put_opt("failing", "value", &synced()),
    );
}

#[test]
fn a_manifest_that_cannot_be_written_is_followed_by_another() {
    let writes = [Operation::Append, Operation::SyncData, Operation::SyncAll];
    fails_and_comes_back(
        "the MANIFEST",
        &[fail(&writes, Purpose::Manifest, Failure::Device)],
        Db::flush,
    );
}

#[test]
fn a_full_disk_is_over_when_there_is_space_again() {
    let writes = [Operation::Append, Operation::Flush, Operation::Create];
    fails_and_comes_back(
        "a flush without space",
        &[fail(&writes, Purpose::Flush, Failure::NoSpace)],
        Db::flush,
    );
    // The disk itself would return this error.
    let storage = Storage::new();
    let (options, told) = listening(&storage);
    let db = Db::open(&options, HERE).unwrap();
    let used = storage.memory.bytes_used();
    storage.memory.set_byte_budget(Some(used + (256 << 10)));
    let mut written = 0;
    let error = loop {
        match db.put(format!("{written}"), [7; 10_000]) {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.detail(), Some(ErrorDetail::NoSpace), "{error}");
    assert!(written > 10);
    wait_for(&told, &Told::Failed(Severity::Hard));
    storage.memory.set_byte_budget(None);
    wait_for(&told, &Told::Resumed);
    db.put("after", "value").unwrap();
    for index in 0..written {
        assert!(db.contains_key(format!("{index}")).unwrap());
    }
}

#[test]
fn a_close_ends_the_attempts_at_once() {
    for interval in [Duration::from_millis(5), Duration::from_secs(3600)] {
        let storage = Storage::new();
        let (mut options, told) = listening(&storage);
        options.set_bgerror_resume_retry_interval(interval);
        let db = Db::open(&options, HERE).unwrap();
        storage
            .faults
            .add_rule(FaultRule::fail(Failure::Device).purpose(Purpose::Wal));
        assert!(db.put("key", "value").is_err());
        wait_for(&told, &Told::Failed(Severity::Hard));
        let (closed, closing) = channel();
        std::thread::spawn(move || closed.send(db.close()));
        let error = closing.recv_timeout(LIMIT).unwrap().unwrap_err();
        assert_eq!(error.severity(), Severity::Hard, "{error}");
        storage.faults.clear_rules();
        drop(Db::open(&options, HERE).unwrap());
    }
}

#[test]
fn attempts_are_as_many_as_the_options_say() {
    let storage = Storage::new();
    let (mut options, told) = listening(&storage);
    options.set_max_bgerror_resume_count(2);
    let db = Db::open(&options, HERE).unwrap();
    storage
        .faults
        .add_rule(FaultRule::fail(Failure::Device).purpose(Purpose::Wal));
    assert!(db.put("key", "value").is_err());
    wait_for(&told, &Told::NotResumed);
    wait_for(&told, &Told::NotResumed);
    assert!(told.recv_timeout(Duration::from_millis(100)).is_err());
    storage.faults.clear_rules();
    assert!(db.put("key", "value").is_err());
    db.resume().unwrap();
    db.put("key", "value").unwrap();
    // A later failure has its own attempts.
    wait_for(&told, &Told::Resumed);
    storage.faults.add_rule(
        FaultRule::fail(Failure::Device)
            .purpose(Purpose::Wal)
            .nth(1),
    );
    assert!(db.put("key", "value").is_err());
    wait_for(&told, &Told::Resumed);
    db.put("key", "value").unwrap();
}

#[test]
fn a_flush_that_storage_failed_is_done_again() {
    let operations = [Operation::Append, Operation::SyncData, Operation::SyncAll];
    fails_and_comes_back(
        "a flush",
        &[fail(&operations, Purpose::Flush, Failure::Device)],
        Db::flush,
    );
}

#[test]
fn a_compaction_that_storage_failed_is_done_again_and_writes_go_on() {
    let storage = Storage::new();
    let (mut options, told) = listening(&storage);
    options.set_level_zero_file_num_compaction_trigger(3);
    let db = Db::open(&options, HERE).unwrap();
    let writes = [Operation::Append, Operation::SyncData, Operation::SyncAll];
    storage
        .faults
        .add_rule(fail(&writes, Purpose::Compaction, Failure::Device));
    for round in 0..4 {
        db.put("overwritten", format!("{round}")).unwrap();
        db.put(format!("{round}"), "value").unwrap();
        db.flush().unwrap();
    }
    // Repeatedly, and no write is rejected.
    for _ in 0..3 {
        wait_for(&told, &Told::Failed(Severity::None));
        db.put("meanwhile", "value").unwrap();
    }
    assert!(db.live_files().len() >= 3, "inputs stay");
    storage.faults.clear_rules();
    // An attempt that failed before may report it later.
    until("a compaction", || {
        db.resume().is_ok() && db.wait_for_compact(Some(LIMIT)).is_ok()
    });
    assert!(db.live_files().len() < 3);
    assert_eq!(db.get("overwritten").unwrap().as_deref(), Some(&b"3"[..]));
    db.close().unwrap();
}

/// A compressed log has a record before the first batch, so a switch considered it in use.
///
/// The link to it had the sequence number after the failed batch, and recovery dropped what
/// followed.
#[cfg(feature = "zstd")]
#[test]
fn a_log_that_followed_a_failed_batch_is_recovered_whole() {
    use std::sync::Arc;

    use koeldb::Env;
    use koeldb::fs::SystemClock;

    let storage = Storage::new();
    let (mut options, told) = listening(&storage);
    options.set_wal_compression(koeldb::Compression::Zstd);
    let (db, [_other]) = Db::open_cf(&options, HERE, ["other"]).unwrap();
    db.put("before", "value").unwrap();
    storage.faults.add_rule(
        FaultRule::new(koeldb::fs::FaultAction::FailAfter(Failure::Device))
            .on_syncs()
            .purpose(Purpose::Wal)
            .nth(1),
    );
    assert!(db.put_opt("failing", "value", &synced()).is_err());
    wait_for(&told, &Told::Resumed);
    db.put_opt("after", "value", &synced()).unwrap();
    let image = storage.memory.crash_image(SurvivalPolicy::Strict, 1);
    options.set_env(&Env::new(Arc::new(image), Arc::new(SystemClock)));
    let (db, [_other]) = Db::open_cf(&options, HERE, ["other"]).unwrap();
    assert!(db.contains_key("before").unwrap() && db.contains_key("after").unwrap());
}

/// Whether the thread of an operation has this name.
fn is_thread(name: &str) -> bool {
    std::thread::current().name() == Some(name)
}

/// Starts a thread with a name, and returns its file `stat` in `/proc`.
fn named<R: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> R + Send + 'static,
) -> (JoinHandle<R>, PathBuf) {
    let (tell, told) = channel();
    let run = move || {
        let thread = std::fs::read_link("/proc/thread-self").unwrap();
        tell.send(Path::new("/proc").join(thread).join("stat"))
            .unwrap();
        work()
    };
    let thread = std::thread::Builder::new().name(name.to_owned());
    let thread = thread.spawn(run).unwrap();
    (thread, told.recv().unwrap())
}

/// The job that reports the failure is a flush, for which a resume waits.
#[test]
fn a_listener_that_is_told_of_a_failed_flush_resumes() {
    let storage = Storage::new();
    let shared: Arc<Mutex<Option<Db>>> = Arc::default();
    let (tell, told) = channel();
    let (listening, tell) = (Arc::clone(&shared), Mutex::new(tell));
    let mut options = storage.options();
    options
        .set_max_bgerror_resume_count(0)
        .add_event_listener(move |event: &Event<'_>| {
            if matches!(event, Event::BackgroundError(_)) {
                let db = listening.lock().unwrap().take().unwrap();
                tell.lock().unwrap().send(db.resume()).unwrap();
            }
        });
    let db = Db::open(&options, HERE).unwrap();
    *shared.lock().unwrap() = Some(db.clone());
    db.put("key", "value").unwrap();
    let failure = FaultRule::fail(Failure::Device).on(&[Operation::SyncData, Operation::SyncAll]);
    storage
        .faults
        .add_rule(failure.purpose(Purpose::Flush).limit(1));
    // It fails, unless the database is resumed before it looks.
    let _ = db.flush();
    told.recv_timeout(LIMIT).unwrap().unwrap();
    db.put("other key", "value").unwrap();
    db.close().unwrap();
}

/// The flush of a close begins between the steps of a resume.
#[test]
fn a_resume_and_a_close_do_not_flush_the_same_memtables() {
    let storage = Storage::new();
    let (mut options, told) = listening(&storage);
    options.set_max_bgerror_resume_count(0);
    let (db, [failing]) = Db::open_cf(&options, HERE, ["failing"]).unwrap();
    let mut unlogged = WriteOptions::new();
    unlogged.disable_wal(true);
    db.put_opt("key", "unlogged", &unlogged).unwrap();
    // A job flushes the other family, and will fail.
    let (at_job, job_stands_there, let_job_fail) = gate();
    let (at_close, _close_stands_there, let_close_flush) = gate();
    storage.faults.add_rule(
        FaultRule::new(FaultAction::Call(Arc::new(move |_| {
            match is_thread("closes") {
                true => at_close.pass(),
                false if is_thread("resumes") => {}
                false => at_job.pass(),
            }
        })))
        .on(&[Operation::Append])
        .purpose(Purpose::Flush),
    );
    let failure = FaultRule::fail(Failure::Device).on(&[Operation::SyncData, Operation::SyncAll]);
    storage
        .faults
        .add_rule(failure.purpose(Purpose::Flush).limit(1));
    failing.put("key", "logged").unwrap();
    let mut without_waiting = FlushOptions::new();
    without_waiting.set_wait(false);
    failing.flush_opt(&without_waiting).unwrap();
    job_stands_there.recv_timeout(LIMIT).unwrap();
    // The close leaves a log that has this.
    db.put("other key", "logged").unwrap();
    // It fails while the close, which found no failure, seals the memtables; a resume begins then.
    let resumes = Arc::new(Mutex::new(None));
    let closes: Arc<OnceLock<PathBuf>> = Arc::default();
    let (let_job_fail, told) = (Mutex::new(Some(let_job_fail)), Mutex::new(told));
    storage.faults.add_rule({
        let (db, resumes, closes) = (db.clone(), Arc::clone(&resumes), Arc::clone(&closes));
        FaultRule::new(FaultAction::Call(Arc::new(move |_| {
            if is_thread("closes") {
                drop(let_job_fail.lock().unwrap().take());
                let failed = told.lock().unwrap().recv_timeout(LIMIT).unwrap();
                assert!(matches!(failed, Told::Failed(_)), "{failed:?}");
                let resuming = db.clone();
                let (thread, stat) = named("resumes", move || resuming.resume());
                until("the resume waits", || is_asleep(&stat));
                *resumes.lock().unwrap() = Some(thread);
            } else if is_thread("resumes") {
                until("the close waits", || is_asleep(closes.get().unwrap()));
            }
        })))
        .on(&[Operation::Create])
        .purpose(Purpose::Wal)
    });
    let closing = db.clone();
    let (close, stat) = named("closes", move || closing.close());
    closes.set(stat).unwrap();
    until("a resume", || resumes.lock().unwrap().is_some());
    let resume = resumes.lock().unwrap().take().unwrap();
    resume.join().unwrap().unwrap();
    drop(let_close_flush);
    // The resume flushed what the close could not.
    close.join().unwrap().unwrap();
    drop((db, failing));
    storage.faults.clear_rules();
    let (db, [failing]) = Db::open_cf(&options, HERE, ["failing"]).unwrap();
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"unlogged"[..]));
    assert_eq!(failing.get("key").unwrap().as_deref(), Some(&b"logged"[..]));
}

#[test]
fn a_sync_of_the_log_does_not_vouch_for_logs_that_were_given_up() {
    let memory = MemoryFileSystem::new();
    let faults = Arc::new(FaultFileSystem::new(Arc::new(memory.clone()), 1));
    let mut options = creating();
    options
        .set_max_bgerror_resume_count(0)
        .set_env(&Env::new(Arc::clone(&faults) as _, Arc::new(SystemClock)));
    let db = Db::open(&options, "/db").unwrap();
    db.put("key", "acknowledged").unwrap();
    let failing = FaultRule::fail(Failure::NoSpace).on(&[Operation::Append]);
    faults.add_rule(failing.purpose(Purpose::Wal).nth(1));
    let table = FaultRule::fail(Failure::NoSpace).on(&[Operation::Append]);
    faults.add_rule(table.purpose(Purpose::Flush));
    assert!(db.put("key", "failed").is_err());
    assert!(db.resume().is_err(), "its tables cannot be written");
    assert!(db.flush_wal(true).is_err());
    faults.clear_rules();
    db.resume().unwrap();
    db.flush_wal(true).unwrap();
    let left = memory.crash_image(SurvivalPolicy::Strict, 0);
    options.set_env(&Env::new(Arc::new(left), Arc::new(SystemClock)));
    let db = Db::open(&options, "/db").unwrap();
    assert_eq!(value(&db, "key").as_deref(), Some("acknowledged"));
}
