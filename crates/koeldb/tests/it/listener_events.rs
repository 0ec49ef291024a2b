//! The events that listeners receive, in their order.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use koeldb::fs::{Failure, FaultRule, Operation, Purpose};
use koeldb::{ColumnFamilyOptions, Db, Event, FlushReason, Options, SstFileWriter};

use crate::model::base_options;
use crate::scratch::ScratchDir;
use crate::storage::{HERE, Storage};

type Told = Arc<Mutex<Vec<String>>>;

/// A line about an event, or none about those of no interest here.
fn line(event: &Event<'_>) -> Option<String> {
    Some(match event {
        Event::MemtableSealed(info) => {
            let (first, entries) = (info.first_seqno, info.num_entries);
            format!("sealed {first} {entries}-{}", info.num_deletes)
        }
        Event::ManualFlushScheduled(names) => format!("manual flush {names:?}"),
        Event::FlushBegin(info) => {
            assert_eq!((info.file, info.bytes), (None, 0));
            assert_eq!(info.reason, FlushReason::ManualFlush);
            assert!(!info.triggered_writes_stop);
            format!("flush {} begins", info.column_family)
        }
        Event::FlushCompleted(info) => {
            assert!(info.file.is_some() && info.bytes > 0 && info.job_id > 0);
            format!("flushed {}..{}", info.smallest_seqno, info.largest_seqno)
        }
        Event::CompactionBegin(info) => {
            assert!(info.outputs.is_empty() && info.error.is_none());
            let inputs = info.inputs.len();
            format!("compaction of {inputs} to {} begins", info.output_level)
        }
        Event::CompactionCompleted(info) => {
            let outcome = match info.error {
                Some(_) => "failed",
                None => "done",
            };
            format!("compaction {outcome}: {} tables", info.outputs.len())
        }
        Event::SubcompactionBegin(info) => {
            format!("part {} begins", info.subcompaction_job_id)
        }
        Event::SubcompactionCompleted(info) => {
            let outcome = match info.error {
                Some(_) => "fails",
                None => "ends",
            };
            format!("part {} {outcome}", info.subcompaction_job_id)
        }
        Event::TableFileCreationStarted(info) => {
            assert!(info.properties.is_none());
            format!("table begun: {:?}", info.reason)
        }
        Event::TableFileCreated(info) => match (&info.properties, &info.error) {
            (Some(properties), None) => format!("table of {}", properties.num_entries),
            (None, Some(_)) => "no table".to_owned(),
            _ => panic!("{info:?}"),
        },
        Event::TableFileDeleted(_) => "table removed".to_owned(),
        Event::ExternalFileIngested(info) => {
            let name = info.external_file_path.file_name().unwrap();
            format!("ingested {name:?} to {}", info.level)
        }
        Event::ColumnFamilyDropped(name) => format!("dropped {name}"),
        Event::ErrorRecoveryBegin(_) => "recovery begins".to_owned(),
        Event::ErrorRecoveryEnd { new, .. } => format!("recovery ends: {}", new.is_none()),
        Event::ShutdownBegin => "shutdown".to_owned(),
        _ => return None,
    })
}

fn listening(options: &mut Options) -> Told {
    let told = Told::default();
    let tell = Arc::clone(&told);
    options.add_event_listener(move |event: &Event<'_>| {
        if let Some(line) = line(event) {
            tell.lock().unwrap().push(line);
        }
    });
    told
}

/// Waits until as many lines as expected were told, takes all lines and compares them.
fn assert_told(told: &Told, expected: &[&str]) {
    for _ in 0..12_000 {
        let mut lines = told.lock().unwrap();
        if lines.len() >= expected.len() {
            assert_eq!(std::mem::take(&mut *lines), expected);
            return;
        }
        drop(lines);
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{:?} is not {expected:?}", told.lock().unwrap());
}

/// Waits until the last line is `last`, which must be told once, and takes all lines.
fn take_until(told: &Told, last: &str) -> Vec<String> {
    for _ in 0..12_000 {
        let mut lines = told.lock().unwrap();
        if lines.last().is_some_and(|line| line == last) {
            return std::mem::take(&mut *lines);
        }
        drop(lines);
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{last:?} is not the end of {:?}", told.lock().unwrap());
}

#[test]
fn listeners_hear_of_each_step_of_flushes_and_compactions() {
    let mut options = base_options();
    options.set_disable_auto_compactions(true);
    let told = listening(&mut options);
    let db = Db::open(&options, "/events").unwrap();
    for round in 0..2 {
        db.put("a", "value").unwrap();
        db.delete("b").unwrap();
        db.flush().unwrap();
        let first = 1 + 2 * round;
        let flushed = format!("flushed {first}..{}", first + 1);
        let expected = [
            &*format!("sealed {first} 2-1"),
            "manual flush [\"default\"]",
            "flush default begins",
            "table begun: Flush",
            "table of 2",
            &*flushed,
        ];
        assert_told(&told, &expected);
    }
    db.compact_range(..).unwrap();
    let expected = [
        "manual flush [\"default\"]",
        "compaction of 2 to 6 begins",
        "part 0 begins",
        "table begun: Compaction",
        "part 0 ends",
        "table of 1",
        "compaction done: 1 tables",
        "table removed",
        "table removed",
    ];
    assert_told(&told, &expected);
    let family = db.create_cf("other", &ColumnFamilyOptions::new()).unwrap();
    db.drop_cf(&family).unwrap();
    drop(family);
    db.close().unwrap();
    assert_told(&told, &["dropped other", "shutdown"]);
}

#[test]
fn listeners_hear_of_ingested_files() {
    let dir = ScratchDir::new();
    let path = dir.path().join("one.sst");
    let mut options = Options::new();
    options.create_if_missing(true);
    let mut writer = SstFileWriter::create(options.cf_options(), &path).unwrap();
    writer.put("a", "value").unwrap();
    writer.finish().unwrap();
    let told = listening(&mut options);
    let db = Db::open(&options, dir.path().join("db")).unwrap();
    db.ingest_external_file(&[path]).unwrap();
    let expected = ["ingested \"one.sst\" to 6"];
    assert_told(&told, &expected);
}

#[test]
fn listeners_hear_of_failed_jobs_and_of_the_recovery() {
    let storage = Storage::new();
    let mut options = storage.options();
    options.set_disable_auto_compactions(true);
    let told = listening(&mut options);
    let db = Db::open(&options, HERE).unwrap();
    for _ in 0..2 {
        db.put("a", "value").unwrap();
        db.flush().unwrap();
    }
    take_until(&told, "flushed 2..2");
    let sync = [Operation::SyncData, Operation::SyncAll];
    let fails = |purpose| FaultRule::fail(Failure::Device).on(&sync).purpose(purpose);
    storage.faults.add_rule(fails(Purpose::Compaction));
    db.compact_range(..).unwrap_err();
    let expected = [
        "manual flush [\"default\"]",
        "compaction of 2 to 6 begins",
        "part 0 begins",
        "table begun: Compaction",
        "part 0 fails",
        "no table",
        "compaction failed: 0 tables",
    ];
    assert_told(&told, &expected);
    storage.faults.clear_rules();
    storage.faults.add_rule(fails(Purpose::Flush));
    db.put("a", "value").unwrap();
    db.flush().unwrap_err();
    storage.faults.clear_rules();
    let lines = take_until(&told, "recovery ends: true");
    let begins = lines.iter().position(|line| line == "recovery begins");
    let fails = lines.iter().position(|line| line == "no table");
    assert!(fails.is_some() && fails < begins, "{lines:?}");
}

#[test]
fn a_compaction_tells_what_it_read_dropped_and_wrote() {
    let mut options = base_options();
    options.set_disable_auto_compactions(true);
    let found = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&found);
    options.add_event_listener(move |event: &Event<'_>| {
        if let Event::CompactionCompleted(info) = event {
            seen.lock().unwrap().push((*info).clone());
        }
    });
    let db = Db::open(&options, "/figures").unwrap();
    for key in ["a", "b", "c"] {
        db.put(key, "old").unwrap();
    }
    db.single_delete("nowhere").unwrap();
    db.flush().unwrap();
    db.put("a", "new").unwrap();
    db.delete("b").unwrap();
    db.single_delete("c").unwrap();
    db.flush().unwrap();
    db.compact_range(..).unwrap();
    let found = found.lock().unwrap();
    let [info] = &found[..] else {
        panic!("{found:?}");
    };
    let stats = &info.stats;
    assert_eq!(
        (stats.num_input_records, stats.num_input_deletion_records),
        (7, 3)
    );
    // The keys, with 8 bytes each for number and type.
    assert_eq!(stats.input_raw_key_bytes, 7 * 8 + 6 + 7);
    assert_eq!(stats.input_raw_value_bytes, 4 * 3);
    // Hidden: the old values. Without anything left to delete: all deletions.
    assert_eq!(
        (
            stats.num_records_replaced,
            stats.num_expired_deletion_records
        ),
        (3, 3)
    );
    assert_eq!(
        (
            stats.num_single_deletions_unmatched,
            stats.num_single_deletions_mismatched
        ),
        (1, 0)
    );
    assert_eq!((stats.num_output_records, stats.num_output_files), (1, 1));
    assert_eq!(stats.smallest_output_key.as_deref(), Some(&b"a"[..]));
    assert_eq!(stats.largest_output_key, stats.smallest_output_key);
    assert!(stats.is_full_compaction && stats.is_manual_compaction && !stats.is_remote_compaction);
    assert_eq!((info.inputs.len(), info.num_level0_files), (2, 0));
    let [output] = &info.outputs[..] else {
        panic!("{info:?}");
    };
    assert_eq!(output.level, 6);
    assert_eq!(output.properties.as_ref().unwrap().num_entries, 1);
    assert!(info.inputs.iter().all(|input| input.properties.is_some()));
    assert_eq!(
        output.path.file_name().unwrap(),
        &*format!("{:06}.sst", output.file)
    );
}
