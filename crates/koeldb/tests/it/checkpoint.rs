//! Checkpoints: contents, shared files, refusals, failures of links, and RocksDB as their judge.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak, mpsc};
use std::time::Duration;

use koeldb::fs::{Failure, FaultRule, FileSystem, Operation};
use koeldb::{
    CheckpointOptions, CompactRangeOptions, Db, ErrorKind, Event, FlushPolicy, Options,
    WriteOptions,
};

use crate::expected::Expected;
use crate::rocksdb::{Java, Tool};
use crate::scratch::ScratchDir;
use crate::storage::{HERE, Storage};
use crate::wait::until;

const TARGET: &str = "/copies/one";

fn contents(db: &Db) -> Expected {
    let mut expected = Expected::default();
    for family in db.cf_handles() {
        let entries = expected.family(family.name());
        for entry in family.range(..) {
            let (key, value) = entry.unwrap();
            entries.insert(key.to_vec(), value.to_vec());
        }
    }
    expected
}

fn open_all(options: &Options, path: &Path) -> Db {
    let names = Db::list_cf(options, path).unwrap();
    let mut builder = Db::builder(options);
    builder.column_families(names);
    builder.open(path).unwrap()
}

fn fill(db: &Db, from: u32, count: u32) {
    for family in db.cf_handles() {
        for index in from..from + count {
            let key = format!("key{index:05}");
            family
                .put(&key, format!("{} {index}", family.name()))
                .unwrap();
        }
    }
}

/// A database with tables on two levels and data in the log.
fn mixed(db: &Db) {
    db.create_cf("koel", &db.default_cf().options()).unwrap();
    fill(db, 0, 200);
    db.flush().unwrap();
    db.compact_all(&CompactRangeOptions::new()).unwrap();
    fill(db, 100, 200);
    db.flush().unwrap();
    fill(db, 250, 100);
}

#[test]
fn a_checkpoint_has_the_contents_of_its_moment_and_shares_the_tables() {
    for flush in [
        FlushPolicy::Always,
        FlushPolicy::LogsOver(100),
        FlushPolicy::default(),
        FlushPolicy::Never,
    ] {
        let storage = Storage::new();
        let db = Db::open(&storage.options(), HERE).unwrap();
        mixed(&db);
        let expected = contents(&db);
        let mut options = CheckpointOptions::new();
        options.set_flush(flush);
        let seqno = db.latest_sequence_number();
        let report = db.create_checkpoint_opt(TARGET, &options).unwrap();
        assert_eq!(report.sequence_number, seqno);
        let is_flushed = matches!(flush, FlushPolicy::Always | FlushPolicy::LogsOver(100));
        assert_eq!(report.is_flushed, is_flushed);
        assert!(report.linked_files >= 3, "{report:?}");
        // The source goes on, and its files go, without effect on the checkpoint.
        fill(&db, 0, 400);
        db.compact_all(&CompactRangeOptions::new()).unwrap();
        let copy = open_all(&storage.options(), TARGET.as_ref());
        expected.check(&copy, &format!("{flush:?}"));
        assert!(copy.latest_sequence_number() >= seqno);
        copy.verify_checksums().unwrap();
        fill(&copy, 1000, 10);
        let left = storage.memory.list("/copies".as_ref()).unwrap();
        assert_eq!(left.len(), 1, "{left:?}");
    }
}

#[test]
fn writes_without_the_log_are_flushed_into_a_checkpoint() {
    let storage = Storage::new();
    let db = Db::open(&storage.options(), HERE).unwrap();
    let mut unlogged = WriteOptions::new();
    unlogged.disable_wal(true);
    db.put_opt("a", "1", &unlogged).unwrap();
    let report = db.create_checkpoint(TARGET).unwrap();
    assert!(report.is_flushed);
    let copy = open_all(&storage.options(), TARGET.as_ref());
    assert_eq!(copy.get("a").unwrap().as_deref(), Some(&b"1"[..]));
}

#[test]
fn buffered_records_of_the_log_are_part_of_a_checkpoint() {
    let storage = Storage::new();
    let mut options = storage.options();
    options.set_manual_wal_flush(true);
    let db = Db::open(&options, HERE).unwrap();
    fill(&db, 0, 50);
    let expected = contents(&db);
    db.create_checkpoint(TARGET).unwrap();
    fill(&db, 50, 50);
    db.flush_wal(true).unwrap();
    let copy = open_all(&storage.options(), TARGET.as_ref());
    expected.check(&copy, "manual_wal_flush");
    assert_eq!(copy.recovery_report().last_seqno, 50);
}

#[test]
fn some_families_make_a_checkpoint_whose_next_family_has_a_fresh_id() {
    let storage = Storage::new();
    let db = Db::open(&storage.options(), HERE).unwrap();
    mixed(&db);
    let other = db.create_cf("other", &db.default_cf().options()).unwrap();
    other.put("only", "in the log").unwrap();
    let mut options = CheckpointOptions::new();
    options.set_families(["koel"]).set_flush(FlushPolicy::Never);
    db.create_checkpoint_opt(TARGET, &options).unwrap();
    let mut expected = contents(&db);
    expected.families.remove("other");
    let copy = open_all(&storage.options(), TARGET.as_ref());
    expected.check(&copy, "two of three");
    let next = copy.create_cf("next", &db.default_cf().options()).unwrap();
    assert!(next.id() > other.id(), "{} {}", next.id(), other.id());
    let error = db
        .create_checkpoint_opt("/copies/two", options.set_families(["nobody"]))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(!storage.memory.exists("/copies/two.tmp".as_ref()).unwrap());
}

#[test]
fn a_checkpoint_is_not_made_over_files_or_within_the_database() {
    let storage = Storage::new();
    let db = Db::open(&storage.options(), HERE).unwrap();
    db.put("a", "1").unwrap();
    for inside in ["/db/copy", "/db/below/copy", "/db"] {
        let error = db.create_checkpoint(inside).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{inside}");
    }
    db.create_checkpoint(TARGET).unwrap();
    let error = db.create_checkpoint(TARGET).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(error.to_string().contains(TARGET), "{error}");

    let staging = Path::new("/copies/two.tmp");
    let create = |name: &str| {
        storage.memory.create_dir_all(staging).unwrap();
        let file = storage
            .memory
            .create(&staging.join(name), &Default::default());
        file.unwrap().close().unwrap();
    };
    create("letter.txt");
    let error = db.create_checkpoint("/copies/two").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Aborted, "{error}");
    assert!(error.to_string().contains("letter.txt"), "{error}");
    storage
        .memory
        .remove_file(&staging.join("letter.txt"))
        .unwrap();
    create("000007.sst");
    db.create_checkpoint("/copies/two").unwrap();
    assert!(!storage.memory.exists(staging).unwrap());
}

#[test]
fn a_refused_link_makes_a_copy_of_that_file() {
    for failure in [
        Failure::OtherDevice,
        Failure::TooManyLinks,
        Failure::NotPermitted,
    ] {
        let storage = Storage::new();
        let db = Db::open(&storage.options(), HERE).unwrap();
        mixed(&db);
        let expected = contents(&db);
        storage
            .faults
            .add_rule(FaultRule::fail(failure).on(&[Operation::Link]).limit(1));
        let report = db.create_checkpoint(TARGET).unwrap();
        assert!(report.linked_files > 0, "{report:?}");
        assert_eq!(report.copied_files, 2, "the log and one table: {report:?}");
        expected.check(&open_all(&storage.options(), TARGET.as_ref()), "one copy");

        storage
            .faults
            .add_rule(FaultRule::fail(failure).on(&[Operation::Link]));
        let report = db.create_checkpoint("/copies/two").unwrap();
        assert_eq!(report.linked_files, 0);
        storage.faults.clear_rules();
        let copy = open_all(&storage.options(), "/copies/two".as_ref());
        expected.check(&copy, "all copies");
    }
}

#[test]
fn an_error_at_any_operation_leaves_no_checkpoint_or_a_whole_one() {
    let mut at = 1;
    loop {
        let storage = Storage::new();
        let db = Db::open(&storage.options(), HERE).unwrap();
        mixed(&db);
        let expected = contents(&db);
        storage
            .faults
            .add_rule(FaultRule::fail(Failure::NoSpace).on_mutations().nth(at));
        let made = db.create_checkpoint(TARGET);
        // It may have met a background thread, and not the call.
        let has_failed = storage.faults.injection_count() > 0;
        storage.faults.clear_rules();
        if has_failed {
            at += 1;
            // A failed write of the log stops writes until the database resumes.
            until("a resume", || db.resume().is_ok());
        }
        if made.is_err() && !storage.memory.exists(TARGET.as_ref()).unwrap() {
            let again = db.create_checkpoint(TARGET);
            again.unwrap_or_else(|error| panic!("after {at}: {error}"));
        }
        let copy = open_all(&storage.options(), TARGET.as_ref());
        expected.check(&copy, &format!("after {at}"));
        db.put("b", "goes on").unwrap();
        if !has_failed {
            made.unwrap();
            break;
        }
    }
    assert!(at > 15, "{at} operations");
}

#[test]
fn checkpoints_under_load_are_prefixes_of_the_writes() {
    let storage = Storage::new();
    let mut options = storage.options();
    options.set_write_buffer_size(64 << 10);
    let db = Db::open(&options, HERE).unwrap();
    let is_done = Arc::new(AtomicBool::new(false));
    let writer = {
        let (db, is_done) = (db.clone(), Arc::clone(&is_done));
        std::thread::spawn(move || {
            let mut index = 0_u64;
            while !is_done.load(Ordering::Relaxed) {
                db.put(format!("{index:010}"), [7; 100]).unwrap();
                index += 1;
            }
        })
    };
    for round in 0..12 {
        let path = format!("/copies/{round}");
        let mut how = CheckpointOptions::new();
        how.set_log_size_for_flush([u64::MAX, 0, 20_000][round % 3]);
        let report = db.create_checkpoint_opt(&path, &how).unwrap();
        let copy = Db::open(&storage.options(), &path).unwrap();
        let found = copy.range(..).map(Result::unwrap).count() as u64;
        assert_eq!(found, report.sequence_number, "{report:?}");
        let last = copy.get(format!("{:010}", found.max(1) - 1)).unwrap();
        assert_eq!(last.is_some(), found > 0);
    }
    is_done.store(true, Ordering::Relaxed);
    writer.join().unwrap();
}

#[test]
fn files_stay_while_deletions_are_disabled() {
    let storage = Storage::new();
    let db = Db::open(&storage.options(), HERE).unwrap();
    mixed(&db);
    let tables = || {
        let entries = storage.memory.list(HERE.as_ref()).unwrap();
        let names = entries.into_iter().map(|entry| entry.name);
        names.filter(|name| name.ends_with(".sst")).count()
    };
    let outer = db.disable_file_deletions().unwrap();
    let inner = db.disable_file_deletions().unwrap();
    let enabled = || db.property_int_value("rocksdb.is-file-deletions-enabled");
    assert_eq!(enabled().unwrap(), Some(0));
    let before = tables();
    db.compact_all(&CompactRangeOptions::new()).unwrap();
    assert!(tables() > before);
    drop(inner);
    assert!(tables() > before);
    drop(outer);
    assert_eq!(enabled().unwrap(), Some(1));
    // A job that ends may be the last to hold a version.
    until("the removal of all other tables", || {
        tables() == db.live_files().len()
    });
    let late = db.disable_file_deletions().unwrap();
    db.close().unwrap();
    drop(late);
}

#[test]
fn a_listener_may_disable_deletions_when_a_table_is_removed() {
    let storage = Storage::new();
    let opened: Arc<OnceLock<Weak<Db>>> = Arc::default();
    let (ended, of_test) = mpsc::channel();
    let mut options = storage.options();
    options.add_event_listener({
        let (opened, ended) = (Arc::clone(&opened), Mutex::new(ended));
        move |event: &Event<'_>| {
            if let (Event::TableFileDeleted(_), Some(db)) = (event, opened.get()) {
                let db = db.upgrade();
                drop(db.map(|db| db.disable_file_deletions().unwrap()));
                let _ = ended.lock().unwrap().send(());
            }
        }
    });
    let db = Arc::new(Db::open(&options, HERE).unwrap());
    opened.set(Arc::downgrade(&db)).unwrap();
    for _ in 0..2 {
        db.put("key", "value").unwrap();
        db.flush().unwrap();
    }
    db.compact_all(&CompactRangeOptions::new()).unwrap();
    for _ in 0..2 {
        of_test.recv_timeout(Duration::from_secs(120)).unwrap();
    }
}

#[test]
fn the_lists_of_files_are_those_of_the_directory() {
    let storage = Storage::new();
    let db = Db::open(&storage.options(), HERE).unwrap();
    mixed(&db);
    // Every table is opened by the scans.
    let expected = contents(&db);
    for file in db.live_files() {
        let path = file.directory.join(&file.name[1..]);
        assert_eq!(storage.memory.metadata(&path).unwrap().len, file.bytes);
        assert_eq!(file.entries, 200);
    }
    for log in db.log_files().unwrap() {
        assert!(storage.memory.metadata(&log.path).unwrap().len <= log.bytes);
    }
    let live = db.live_storage(FlushPolicy::Never).unwrap();
    storage.memory.create_dir_all("/copy".as_ref()).unwrap();
    fill(&db, 0, 400);
    db.compact_all(&CompactRangeOptions::new()).unwrap();
    for file in &live.files {
        let bytes = match (&file.path, &file.contents) {
            (Some(path), None) => {
                let purpose = koeldb::fs::Purpose::Other;
                let mut bytes = storage.memory.read_all(path, u64::MAX, purpose).unwrap();
                bytes.truncate(usize::try_from(file.bytes).unwrap());
                bytes
            }
            (None, Some(bytes)) => bytes.clone(),
            _ => panic!("{file:?}"),
        };
        assert_eq!(bytes.len() as u64, file.bytes, "{file:?}");
        let path = Path::new("/copy").join(&file.relative_name);
        let mut copy = storage.memory.create(&path, &Default::default()).unwrap();
        copy.append(&bytes).unwrap();
        copy.close().unwrap();
    }
    expected.check(&open_all(&storage.options(), "/copy".as_ref()), "a copy");
}

#[test]
fn rocksdb_opens_checkpoints() {
    let (Some(java), Some(ldb)) = (Java::find(), Tool::ldb()) else {
        return;
    };
    for (flush, link) in [
        (FlushPolicy::Always, true),
        (FlushPolicy::Never, true),
        (FlushPolicy::Never, false),
    ] {
        let dir = ScratchDir::new();
        let mut options = Options::new();
        options.create_if_missing(true);
        let db = Db::open(&options, dir.join("db")).unwrap();
        mixed(&db);
        db.create_cf("left out", &db.default_cf().options())
            .unwrap()
            .put("a", "1")
            .unwrap();
        let mut how = CheckpointOptions::new();
        how.set_flush(flush).set_link(link).set_families(["koel"]);
        let target = dir.join("copy");
        db.create_checkpoint_opt(&target, &how).unwrap();
        let mut expected = contents(&db);
        expected.families.remove("left out");
        fill(&db, 500, 100);
        let listed = ldb.run(&[&format!("--db={}", target.display()), "manifest_dump"]);
        assert!(listed.contains("koel"), "{listed}");
        assert_eq!(java.check(&target, &[]).found, expected, "{flush:?}");
        java.write(&target, &[]);
        db.verify_checksums().unwrap();
    }
}
