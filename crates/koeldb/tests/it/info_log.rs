//! LOG as operators read it: options, events, statistics, errors.

use std::time::Duration;

use koeldb::{
    ColumnFamilyOptions, CompactRangeOptions, Compression, ConfigOptions, Db, Options,
    SstFileWriter,
};

use crate::scratch::ScratchDir;

fn log_of(dir: &ScratchDir) -> String {
    std::fs::read_to_string(dir.join("LOG")).unwrap()
}

/// The events of this name, as the texts of their JSON.
fn events<'l>(log: &'l str, name: &str) -> Vec<&'l str> {
    let is_named = format!("\"event\": \"{name}\"");
    log.lines()
        .filter_map(|line| line.split_once(" EVENT_LOG_v1 "))
        .map(|(_, json)| json)
        .filter(|json| json.contains(&is_named))
        .collect()
}

/// The text of a field of an event: up to the comma or brace behind it.
fn field<'j>(json: &'j str, name: &str) -> &'j str {
    let begin = format!("\"{name}\": ");
    let (_, rest) = json
        .split_once(&begin)
        .unwrap_or_else(|| panic!("no {name} in {json}"));
    let end = match rest.as_bytes()[0] {
        b'[' => rest.find(']').unwrap() + 1,
        b'"' => rest[1..].find('"').unwrap() + 2,
        _ => rest.find([',', '}']).unwrap(),
    };
    &rest[..end]
}

fn options() -> Options {
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_disable_auto_compactions(true)
        .set_compression_type(Compression::None);
    options
}

#[test]
fn flushes_and_compactions_are_events() {
    let dir = ScratchDir::new();
    let db = Db::open(&options(), dir.path()).unwrap();
    for round in 0..2 {
        for key in 0..100 {
            db.put(format!("{key:04}"), format!("value {round}"))
                .unwrap();
        }
        db.delete("0000").unwrap();
        db.flush().unwrap();
    }
    db.compact_all(&CompactRangeOptions::new()).unwrap();
    drop(db);
    let log = log_of(&dir);
    let [started, _] = events(&log, "flush_started")[..] else {
        panic!("{log}")
    };
    assert_eq!(field(started, "num_memtables"), "1");
    assert_eq!(field(started, "total_num_input_entries"), "101");
    assert_eq!(field(started, "num_deletes"), "1");
    assert_eq!(field(started, "flush_reason"), "\"Manual Flush\"");
    let [finished, second] = events(&log, "flush_finished")[..] else {
        panic!("{log}")
    };
    assert_eq!(field(finished, "job"), field(started, "job"));
    assert_eq!(field(finished, "lsm_state"), "[1, 0, 0, 0, 0, 0, 0]");
    assert_eq!(field(second, "lsm_state"), "[2, 0, 0, 0, 0, 0, 0]");
    let [started] = events(&log, "compaction_started")[..] else {
        panic!("{log}")
    };
    assert_eq!(field(started, "compaction_reason"), "\"ManualCompaction\"");
    assert_eq!(field(started, "files_L0").split(", ").count(), 2);
    let [finished] = events(&log, "compaction_finished")[..] else {
        panic!("{log}")
    };
    assert_eq!(field(finished, "num_input_records"), "200");
    assert_eq!(field(finished, "num_output_files"), "1");
    assert_eq!(field(finished, "output_compression"), "\"NoCompression\"");
    let created = events(&log, "table_file_creation");
    assert_eq!(created.len(), 3, "{log}");
    assert_eq!(field(created[2], "num_entries"), "99");
    assert_eq!(field(created[2], "job"), field(started, "job"));
    assert_eq!(events(&log, "table_file_deletion").len(), 2, "{log}");
    assert!(log.contains("[default] [JOB "), "{log}");
    assert!(!log.contains("Some("), "{log}");
}

#[test]
fn a_move_is_not_called_a_compaction() {
    let dir = ScratchDir::new();
    let db = Db::open(&options(), dir.path()).unwrap();
    db.put("key", "value").unwrap();
    db.flush().unwrap();
    db.compact_range(..).unwrap();
    drop(db);
    let log = log_of(&dir);
    let [moved] = events(&log, "trivial_move")[..] else {
        panic!("{log}")
    };
    assert_eq!(field(moved, "files"), "1");
    assert!(log.contains("[default] Moved #1 files to level-"), "{log}");
    assert!(events(&log, "compaction_finished").is_empty(), "{log}");
}

#[test]
fn an_open_logs_options_files_and_recovery() {
    let dir = ScratchDir::new();
    {
        let db = Db::open(&options(), dir.path()).unwrap();
        db.put("key", "value").unwrap();
        db.flush().unwrap();
        db.put("key", "later").unwrap();
    }
    let db = Db::open(options().set_use_adaptive_mutex(true), dir.path()).unwrap();
    let log = log_of(&dir);
    for line in [
        " DB SUMMARY",
        " CURRENT file:  CURRENT",
        &format!(
            " SST files in {} dir, Total Num: 1, files: 0",
            dir.path().display()
        ),
        " Options.max_open_files: -1",
        " Options.create_if_missing: 1",
        " Options.compression_opts.level: ",
        "--------------- Options for column family [default]:",
        " Compression algorithms supported:",
        "  kXpressCompression supported: 0",
        " Jemalloc supported: 0",
        "setting without effect: use_adaptive_mutex=true",
    ] {
        assert!(log.contains(line), "no {line:?} in {log}");
    }
    let mut family = ColumnFamilyOptions::new();
    family.set_compression_type(Compression::Snappy);
    let collectors = "table_properties_collectors={{id=CompactOnDeletionCollector;window_size=5;\
                      deletion_trigger=10;deletion_ratio=0.5;}}";
    family.apply_str(collectors, &ConfigOptions::new()).unwrap();
    db.create_cf("later", &family).unwrap();
    let log = log_of(&dir);
    let later = log.split("Options for column family [later]:").nth(1);
    assert!(
        later.is_some_and(|lines| lines.contains("Options.compression: Snappy\n")
            && lines.contains("Options.bottommost_compression: Disabled\n")
            && lines.contains(
                "Options.table_properties_collectors: CompactOnDeletionCollector (Sliding window \
                 size = 5 Deletion trigger = 10 Deletion ratio = 0.5);\n"
            )
            && lines.contains("table_factory options:\n  ")
            && lines.contains("\n  block_size: 4096\n")),
        "{log}"
    );
    let [started] = events(&log, "recovery_started")[..] else {
        panic!("{log}")
    };
    assert_eq!(field(started, "job"), "1");
    assert_ne!(field(started, "wal_files"), "[]");
    let created = events(&log, "table_file_creation");
    assert_eq!((created.len(), field(created[0], "job")), (1, "1"), "{log}");
    assert_eq!(
        field(events(&log, "recovery_finished")[0], "status"),
        "\"OK\""
    );
    drop(db);
}

#[test]
fn ingested_files_are_an_event() {
    let dir = ScratchDir::new();
    let db = Db::open(&options(), dir.join("db")).unwrap();
    let file = dir.join("table.sst");
    let mut writer = SstFileWriter::create(&ColumnFamilyOptions::default(), &file).unwrap();
    writer.put("key", "value").unwrap();
    writer.finish().unwrap();
    db.ingest_external_file(&[&file]).unwrap();
    let log = std::fs::read_to_string(dir.join("db/LOG")).unwrap();
    let [event] = events(&log, "ingest_finished")[..] else {
        panic!("{log}")
    };
    assert_eq!(field(event, "level"), "6");
    assert!(log.contains("[AddFile] External SST file"), "{log}");
}

#[test]
fn statistics_are_dumped_and_kept_periodically() {
    let dir = ScratchDir::new();
    let mut options = options();
    options
        .set_statistics(koeldb::statistics::Statistics::new())
        .set_stats_dump_period_sec(Duration::from_secs(1))
        .set_stats_persist_period_sec(Duration::from_secs(1))
        .set_dump_malloc_stats(true);
    let db = Db::open(&options, dir.path()).unwrap();
    db.put("key", "value").unwrap();
    for _ in 0..6000 {
        std::thread::sleep(Duration::from_millis(20));
        let log = log_of(&dir);
        let history = db.stats_history(..);
        // The first period may have ended before the write.
        let mut changes = history.iter().flat_map(|entry| &entry.changes);
        let written = koeldb::statistics::Ticker::NumberKeysWritten;
        if changes.any(|change| *change == (written, 1))
            && log.contains("rocksdb.number.keys.written COUNT : 1")
            // The next line is of another kind: the report is complete.
            && log.contains("ALLOCATOR:") == cfg!(all(target_os = "linux", target_env = "gnu"))
        {
            assert!(log.contains("------- DUMPING STATS -------\n"), "{log}");
            assert!(log.contains("** DB Stats **\n"), "{log}");
            let has_figures = cfg!(all(target_os = "linux", target_env = "gnu"));
            assert_eq!(log.contains("allocated bytes: "), has_figures, "{log}");
            assert!(log.contains("** Compaction Stats [default] **\n"), "{log}");
            assert!(db.stats_history(history[0].unix_secs + 1000..).is_empty());
            return;
        }
    }
    panic!("{}", log_of(&dir));
}

#[test]
fn flushes_log_the_buckets_of_linked_lists() {
    for (settings, logs, warns) in [
        ("log_when_flash=true;logging_threshold=4", true, true),
        ("log_when_flash=true;logging_threshold=5", true, false),
        ("log_when_flash=false;logging_threshold=0", false, false),
    ] {
        let dir = ScratchDir::new();
        let mut options = options();
        let text = format!(
            "prefix_extractor=fixed:1;allow_concurrent_memtable_write=false;\
             memtable_factory={{id=hash_linkedlist;{settings}}}"
        );
        options.apply_str(&text, &ConfigOptions::new()).unwrap();
        let db = Db::open(&options, dir.path()).unwrap();
        for key in ["a1", "a2", "a3", "a4", "a5"] {
            db.put(key, "value").unwrap();
        }
        db.flush().unwrap();
        let log = log_of(&dir);
        let buckets = "[default] hash_linkedlist: 5 entries in 1 buckets, 5 in the largest";
        assert_eq!(log.contains(buckets), logs, "{log}");
        let warning = "a bucket has 5 entries, more than logging_threshold=4";
        assert_eq!(log.contains(warning), warns, "{log}");
    }
}
