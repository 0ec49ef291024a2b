//! Verification of stored data, on demand and periodically.

use std::sync::mpsc::channel;
use std::time::Duration;

use koeldb::{BlockBasedOptions, Db, Event, FileChecksumGenerator, Options, ScrubOptions};

use crate::rocksdb::Tool;
use crate::scratch::ScratchDir;

/// A database of three tables, the second of which gets a damaged byte.
fn with_damage(options: &Options, dir: &ScratchDir) -> std::path::PathBuf {
    let db = Db::open(options, dir.path()).unwrap();
    for round in 0..3 {
        for number in 0..50 {
            db.put(format!("{round} {number:04}"), "value".repeat(10))
                .unwrap();
        }
        db.flush().unwrap();
    }
    db.close().unwrap();
    let tables = dir.all("sst");
    assert_eq!(tables.len(), 3);
    let mut bytes = std::fs::read(&tables[1]).unwrap();
    bytes[100] ^= 4;
    std::fs::write(&tables[1], bytes).unwrap();
    tables[1].clone()
}

fn options() -> Options {
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_disable_auto_compactions(true);
    options.set_file_checksum_gen_factory(FileChecksumGenerator::Crc32c);
    options
}

#[test]
fn a_scrub_names_every_damaged_table_and_goes_on() {
    let dir = ScratchDir::new();
    let damaged = with_damage(&options(), &dir);
    let db = Db::open(&options(), dir.path()).unwrap();
    let report = db.scrub(0).unwrap();
    assert_eq!((report.tables, report.file_checksums), (3, 2));
    let [(_, error)] = &report.damaged[..] else {
        panic!("{report:?}");
    };
    let name = damaged.file_name().unwrap().to_string_lossy().into_owned();
    assert!(
        error.is_corruption() && error.to_string().contains(&name),
        "{error}"
    );
    assert!(db.verify_checksums().unwrap_err().is_corruption());
    assert!(db.verify_file_checksums().unwrap_err().is_corruption());
    // Detected damage does not affect other data.
    assert!(db.get("0 0001").unwrap().is_some());
    db.put("key", "value").unwrap();
    db.close().unwrap();
}

#[test]
fn whole_files_have_checksums_where_that_is_asked_for() {
    let dir = ScratchDir::new();
    let mut how = Options::new();
    how.create_if_missing(true);
    let db = Db::open(&how, dir.path()).unwrap();
    db.put("a", "1").unwrap();
    db.flush().unwrap();
    assert_eq!(db.verify_file_checksums().unwrap(), 0);
    db.close().unwrap();
    let db = Db::open(&options(), dir.path()).unwrap();
    // Over the first one, so that a compaction has to write.
    db.put("a", "2").unwrap();
    db.flush().unwrap();
    assert_eq!(db.verify_file_checksums().unwrap(), 1);
    db.compact_all(&koeldb::CompactRangeOptions::new()).unwrap();
    let tables = db.live_files().len() as u64;
    assert_eq!(db.verify_file_checksums().unwrap(), tables);
    // The MANIFEST records the checksums.
    db.close().unwrap();
    let db = Db::open(&how, dir.path()).unwrap();
    assert_eq!(db.verify_file_checksums().unwrap(), tables);
}

#[test]
fn rocksdb_reads_the_checksums_of_whole_files() {
    let Some(ldb) = Tool::ldb() else { return };
    let dir = ScratchDir::new();
    let mut how = options();
    how.set_block_based_table_factory(BlockBasedOptions::new().set_format_version(5));
    let db = Db::open(&how, dir.path()).unwrap();
    db.put("key", "value").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let sum = koeldb_base::checksum::crc32c(&std::fs::read(dir.only("sst")).unwrap());
    let database = format!("--db={}", dir.path().display());
    let text = ldb.run(&[&database, "file_checksum_dump", "--hex"]);
    assert!(text.contains("FileChecksumCrc32c"), "{text}");
    assert!(
        text.to_lowercase().contains(&format!("{sum:08x}")),
        "{sum:08x}: {text}"
    );
}

#[test]
fn damage_in_the_middle_of_a_log_is_told_from_a_torn_end() {
    let dir = ScratchDir::new();
    let db = Db::open(&options(), dir.path()).unwrap();
    for number in 0..20 {
        db.put(format!("{number:04}"), "value").unwrap();
    }
    db.flush_wal(true).unwrap();
    let copy = ScratchDir::copy_of(dir.path());
    let torn = ScratchDir::copy_of(dir.path());
    db.close().unwrap();
    let log = copy.all("log").pop().unwrap();
    let mut bytes = std::fs::read(&log).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&log, &bytes).unwrap();
    let db = Db::open(&options(), copy.path()).unwrap();
    let report = &db.recovery_report().logs[0];
    assert!(
        report.intact_records_after > 5 && report.problem_offset.is_some(),
        "{report:?}"
    );
    assert!(db.get("0019").unwrap().is_none() && db.get("0001").unwrap().is_some());
    let log = torn.all("log").pop().unwrap();
    let bytes = std::fs::read(&log).unwrap();
    std::fs::write(&log, &bytes[..bytes.len() - 3]).unwrap();
    let db = Db::open(&options(), torn.path()).unwrap();
    let report = &db.recovery_report().logs[0];
    assert!(
        report.dropped_bytes > 0 && report.intact_records_after == 0,
        "{report:?}"
    );
}

#[test]
fn a_scrub_comes_by_itself_and_ends_with_the_database() {
    let dir = ScratchDir::new();
    with_damage(&options(), &dir);
    let (found, finds) = channel();
    let mut how = options();
    let mut scrub = ScrubOptions::every(Duration::from_millis(20));
    scrub.set_bytes_per_sec(100 << 20);
    how.set_scrub(scrub);
    how.add_event_listener(move |event: &Event<'_>| match event {
        Event::DamageFound(error) => drop(found.send(format!("damage: {error}"))),
        Event::ScrubCompleted(report) => drop(found.send(format!("{} tables", report.tables))),
        _ => {}
    });
    let db = Db::open(&how, dir.path()).unwrap();
    for _ in 0..2 {
        let limit = Duration::from_secs(120);
        assert!(
            finds
                .recv_timeout(limit)
                .unwrap()
                .contains("damage: Corruption")
        );
        assert_eq!(finds.recv_timeout(limit).unwrap(), "3 tables");
    }
    db.close().unwrap();
    drop(db);
    let log = std::fs::read_to_string(dir.join("LOG")).unwrap();
    assert!(
        log.contains("scrub: 3 tables") && log.contains("1 damaged"),
        "{log}"
    );
}

#[test]
fn a_slow_scrub_does_not_hold_up_a_close() {
    let dir = ScratchDir::new();
    let db = Db::open(&options(), dir.path()).unwrap();
    db.put("key", vec![7; 100_000]).unwrap();
    db.flush().unwrap();
    let scrubbing = db.clone();
    let (begun, begins) = channel();
    let thread = std::thread::spawn(move || {
        begun.send(()).unwrap();
        // Days, at this rate.
        scrubbing.scrub(1)
    });
    begins.recv().unwrap();
    std::thread::sleep(Duration::from_millis(50));
    let before = std::time::Instant::now();
    db.close().unwrap();
    assert!(before.elapsed() < Duration::from_secs(120));
    let _ = thread.join().unwrap();
}
