//! Ingestion: places, snapshots, every option, atomicity, damage, and tables of RocksDB.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use koeldb::fs::{Failure, FaultRule, FileSystem, Operation, Purpose, SystemClock, WriteOptions};
use koeldb::{
    ColumnFamily, ColumnFamilyDescriptor, ColumnFamilyOptions, CompactRangeOptions,
    CompactionStyle, CuckooTableOptions, Db, Env, ErrorKind, IngestExternalFileArg,
    IngestExternalFileOptions, Options, ReadOptions, ReverseBytewiseComparator, SstFileReader,
    SstFileWriter, SstFileWriterOptions,
};
use koeldb_testkit::Random;

use crate::rocksdb::{Java, Tool};
use crate::scratch::ScratchDir;
use crate::storage::{HERE, Storage};
use crate::wait::until;

struct Fixture {
    storage: Storage,
    db: Db,
}

impl Fixture {
    fn new() -> Self {
        Self::with(|_| ())
    }

    fn with(choose: impl FnOnce(&mut Options)) -> Self {
        let storage = Storage::new();
        let mut options = storage.options();
        choose(&mut options);
        let db = Db::open(&options, HERE).unwrap();
        storage.memory.create_dir_all("/in".as_ref()).unwrap();
        Fixture { storage, db }
    }

    fn env(&self) -> Env {
        Env::new(Arc::clone(&self.storage.faults) as _, Arc::new(SystemClock))
    }

    fn writer(&self, name: &str) -> SstFileWriter {
        let mut how = SstFileWriterOptions::new();
        how.set_env(&self.env());
        let options = self.db.default_cf().options();
        SstFileWriter::create_opt(&options, Path::new("/in").join(name), &how).unwrap()
    }

    /// A table with keys `from..to`, whose values are its name.
    fn table(&self, name: &str, from: u32, to: u32) -> PathBuf {
        let mut writer = self.writer(name);
        for index in from..to {
            writer.put(key(index), name).unwrap();
        }
        writer.finish().unwrap().path
    }

    fn exists(&self, path: &Path) -> bool {
        self.storage.memory.exists(path).unwrap()
    }

    fn value(&self, index: u32) -> Option<String> {
        let value = self.db.get(key(index)).unwrap();
        value.map(|value| String::from_utf8(value.to_vec()).unwrap())
    }

    /// The level and the sequence number of each table, by number of the file.
    fn places(&self) -> Vec<(usize, u64)> {
        let mut files = self.db.live_files();
        files.sort_by_key(|file| file.number);
        let place = |file: koeldb::LiveFile| (file.level, file.largest_seqno);
        files.into_iter().map(place).collect()
    }

    /// The names in the directory that are tables.
    fn tables(&self) -> usize {
        let entries = self.storage.memory.list(HERE.as_ref()).unwrap();
        let is_table = |name: &str| name.ends_with(".sst");
        entries.iter().filter(|entry| is_table(&entry.name)).count()
    }
}

fn key(index: u32) -> String {
    format!("key{index:05}")
}

#[test]
fn files_go_as_deep_as_nothing_is_below_and_hide_what_is() {
    let fixture = Fixture::new();
    let db = &fixture.db;
    db.ingest_external_file(&[fixture.table("a", 0, 100)])
        .unwrap();
    assert_eq!(fixture.places(), [(6, 0)], "nothing is there");
    db.ingest_external_file(&[fixture.table("b", 200, 300)])
        .unwrap();
    assert_eq!(fixture.places(), [(6, 0), (6, 0)], "beside it");
    db.ingest_external_file(&[fixture.table("c", 50, 250)])
        .unwrap();
    assert_eq!(fixture.places()[2], (0, 1), "levels between are unused");
    assert_eq!(db.latest_sequence_number(), 1);
    db.put(key(60), "put").unwrap();
    db.ingest_external_file(&[fixture.table("d", 60, 70)])
        .unwrap();
    assert_eq!(db.latest_sequence_number(), 3);
    for (index, value) in [
        (0, Some("a")),
        (50, Some("c")),
        (60, Some("d")),
        (69, Some("d")),
        (70, Some("c")),
        (249, Some("c")),
        (250, Some("b")),
        (300, None),
    ] {
        assert_eq!(fixture.value(index).as_deref(), value, "{index}");
    }
    db.put(key(61), "put").unwrap();
    db.compact_all(&CompactRangeOptions::new()).unwrap();
    assert_eq!(fixture.value(61).as_deref(), Some("put"));
    assert_eq!(fixture.value(62).as_deref(), Some("d"));
    let options = fixture.storage.options();
    db.close().unwrap();
    let db = Db::open(&options, HERE).unwrap();
    assert_eq!(db.range(..).count(), 300);
    db.verify_checksums().unwrap();
}

#[test]
fn files_of_one_call_may_overlap_and_later_ones_win() {
    let fixture = Fixture::new();
    let files = [
        fixture.table("a", 0, 100),
        fixture.table("b", 50, 150),
        fixture.table("c", 90, 110),
    ];
    fixture.db.ingest_external_file(&files).unwrap();
    for (index, value) in [(49, "a"), (50, "b"), (89, "b"), (90, "c"), (110, "b")] {
        assert_eq!(fixture.value(index).as_deref(), Some(value), "{index}");
    }
    assert_eq!(fixture.places()[0], (6, 0));
    assert!(fixture.places()[1].1 < fixture.places()[2].1);
}

#[test]
fn snapshots_do_not_see_files_of_later_ingestions() {
    let fixture = Fixture::new();
    let db = &fixture.db;
    db.put(key(1), "put").unwrap();
    let snapshot = db.snapshot();
    let cursor_before = db.range(..);
    db.ingest_external_file(&[fixture.table("a", 5, 10)])
        .unwrap();
    assert_eq!(snapshot.range(..).count(), 1);
    assert_eq!(cursor_before.count(), 1);
    assert_eq!(db.range(..).count(), 6);
    let mut how = IngestExternalFileOptions::new();
    how.set_snapshot_consistency(false);
    let family = db.default_cf();
    let file = fixture.table("b", 20, 30);
    family.ingest_external_file_opt(&[file], &how).unwrap();
    assert_eq!(snapshot.range(..).count(), 11, "as asked for");
    how = IngestExternalFileOptions::new();
    how.set_allow_global_seqno(false);
    let file = fixture.table("c", 40, 50);
    let refused = family.ingest_external_file_opt(&[&file], &how).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert!(
        refused.to_string().contains("allow_global_seqno"),
        "{refused}"
    );
    drop(snapshot);
    family.ingest_external_file_opt(&[&file], &how).unwrap();
}

#[test]
fn range_deletions_of_a_file_hide_older_entries() {
    let fixture = Fixture::new();
    let db = &fixture.db;
    for index in 0..100 {
        db.put(key(index), "put").unwrap();
    }
    let mut writer = fixture.writer("a");
    writer.put(key(50), "kept").unwrap();
    writer.delete_range(key(20), key(80)).unwrap();
    let file = writer.finish().unwrap().path;
    let snapshot = db.snapshot();
    db.ingest_external_file(&[file]).unwrap();
    assert_eq!(fixture.value(19).as_deref(), Some("put"));
    assert_eq!(fixture.value(20), None);
    assert_eq!(fixture.value(50).as_deref(), Some("kept"));
    assert_eq!(fixture.value(80).as_deref(), Some("put"));
    assert_eq!(snapshot.range(..).count(), 100);
    // The end of a deletion is not part of its file.
    let beside = fixture.table("b", 80, 90);
    db.ingest_external_file(&[beside]).unwrap();
    drop(snapshot);
    db.compact_all(&CompactRangeOptions::new()).unwrap();
    assert_eq!(db.range(..).count(), 41);
}

#[test]
fn options_refuse_flushes_and_upper_levels() {
    let fixture = Fixture::new();
    let family = fixture.db.default_cf();
    family.put(key(5), "put").unwrap();
    let file = fixture.table("a", 0, 10);
    let mut how = IngestExternalFileOptions::new();
    how.set_allow_blocking_flush(false);
    let refused = family.ingest_external_file_opt(&[&file], &how).unwrap_err();
    assert!(
        refused.to_string().contains("allow_blocking_flush"),
        "{refused}"
    );
    let mut how = IngestExternalFileOptions::new();
    how.set_fail_if_not_bottommost_level(true);
    let refused = family.ingest_external_file_opt(&[&file], &how).unwrap_err();
    assert!(refused.to_string().contains("bottommost"), "{refused}");
    assert!(refused.to_string().contains("/in/a"), "{refused}");
    assert_eq!(fixture.tables(), 1, "the flushed one");
    assert_eq!(fixture.value(5).as_deref(), Some("put"));
    let free = fixture.table("b", 20, 30);
    family.ingest_external_file_opt(&[free], &how).unwrap();
}

#[test]
fn a_table_that_takes_no_sequence_number_is_refused_where_it_needs_one() {
    let fixture = Fixture::with(|options| {
        options.set_cuckoo_table_factory(&CuckooTableOptions::new());
    });
    let db = &fixture.db;
    db.put(key(3), "older").unwrap();
    db.flush().unwrap();
    let refused = |path: &Path| {
        let error = db.ingest_external_file(&[path]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains("cannot take one"), "{error}");
    };
    let overlapping = fixture.table("overlapping", 0, 5);
    refused(&overlapping);
    assert_eq!(fixture.value(3).as_deref(), Some("older"));
    let apart = fixture.table("apart", 10, 15);
    let snapshot = db.snapshot();
    refused(&apart);
    drop(snapshot);
    db.ingest_external_file(&[&apart]).unwrap();
    assert_eq!(fixture.value(12).as_deref(), Some("apart"));
    db.put(key(12), "newer").unwrap();
    db.flush().unwrap();
    assert_eq!(fixture.value(12).as_deref(), Some("newer"));
    assert_eq!(fixture.tables(), 3);
}

#[test]
fn sources_are_copied_linked_or_moved() {
    let fixture = Fixture::new();
    let family = fixture.db.default_cf();
    let ingest = |name: &str, from: u32, how: &IngestExternalFileOptions| {
        let file = fixture.table(name, from, from + 10);
        family.ingest_external_file_opt(&[&file], how).unwrap();
        fixture.exists(&file)
    };
    let mut how = IngestExternalFileOptions::new();
    assert!(ingest("copied", 0, &how));
    how.set_link_files(true);
    assert!(ingest("linked", 10, &how));
    let mut how = IngestExternalFileOptions::new();
    how.set_move_files(true);
    assert!(!ingest("moved", 20, &how));
    let refuses = FaultRule::fail(Failure::OtherDevice).on(&[Operation::Link]);
    fixture.storage.faults.add_rule(refuses);
    assert!(!ingest("moved by copy", 30, &how));
    how.set_failed_move_fall_back_to_copy(false);
    let file = fixture.table("refused", 40, 50);
    let refused = family.ingest_external_file_opt(&[&file], &how).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(18), "{refused}");
    assert!(fixture.exists(&file));
    how.set_link_files(true);
    let both = family.ingest_external_file_opt(&[&file], &how).unwrap_err();
    assert_eq!(both.kind(), ErrorKind::InvalidArgument);
    assert_eq!(fixture.db.range(..).count(), 40);
}

#[test]
fn tables_that_do_not_fit_are_refused_before_anything_changes() {
    let fixture = Fixture::new();
    let db = &fixture.db;
    let family = db.default_cf();
    let refused = |file: &Path, words: &str| {
        let error = family.ingest_external_file(&[file]).unwrap_err();
        assert!(error.to_string().contains(words), "{words}: {error}");
        assert!(
            error.to_string().contains(file.to_str().unwrap()),
            "{error}"
        );
        assert_eq!((fixture.tables(), db.range(..).count()), (0, 0), "{words}");
    };
    refused(Path::new("/in/nothing"), "not found");
    let mut how = SstFileWriterOptions::new();
    how.set_env(&fixture.env());
    let mut reversed = ColumnFamilyOptions::new();
    reversed.set_comparator(ReverseBytewiseComparator);
    let path = Path::new("/in/reversed");
    let mut writer = SstFileWriter::create_opt(&reversed, path, &how).unwrap();
    writer.put("a", "1").unwrap();
    writer.finish().unwrap();
    refused(path, "omparator");
    let other = db.create_cf("other", &family.options()).unwrap();
    how.set_column_family(&other);
    let path = Path::new("/in/other");
    let mut writer = SstFileWriter::create_opt(&family.options(), path, &how).unwrap();
    writer.put("a", "1").unwrap();
    writer.finish().unwrap();
    refused(path, "column family 1");
    // A table of a database, which has sequence numbers.
    other.put("a", "1").unwrap();
    other.flush().unwrap();
    let own = fixture.storage.only(".sst");
    let error = family.ingest_external_file(&[&own]).unwrap_err();
    assert!(error.to_string().contains("SstFileWriter"), "{error}");
    let error = other.ingest_external_file(&[path, path]);
    error.unwrap();
    let twice = [
        IngestExternalFileArg::new(&other, [path]),
        IngestExternalFileArg::new(&other, [path]),
    ];
    let error = db.ingest_external_files(&twice, &IngestExternalFileOptions::new());
    assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn damage_is_found_where_verification_is_asked_for() {
    let fixture = Fixture::new();
    let family = fixture.db.default_cf();
    let path = fixture.table("a", 0, 5000);
    let memory = &fixture.storage.memory;
    let mut bytes = memory.read_all(&path, u64::MAX, Purpose::Other).unwrap();
    let sum = koeldb_base::checksum::crc32c(&bytes);
    let mut how = IngestExternalFileOptions::new();
    how.set_verify_checksums_before_ingest(true);
    let mut arg = IngestExternalFileArg::new(family, [&path]);
    arg.set_files_crc32c([sum]);
    let prepared = fixture.db.prepare_ingest(&[arg.clone()], &how).unwrap();
    assert_eq!(fixture.tables(), 1);
    drop(prepared);
    assert_eq!(fixture.tables(), 0);
    let middle = bytes.len() / 3;
    bytes[middle] ^= 4;
    memory.remove_file(&path).unwrap();
    let mut file = memory.create(&path, &WriteOptions::default()).unwrap();
    file.append(&bytes).unwrap();
    file.close().unwrap();
    for link in [false, true] {
        how.set_link_files(link);
        let error = family.ingest_external_file_opt(&[&path], &how).unwrap_err();
        assert!(error.is_corruption(), "{error}");
        let plain = IngestExternalFileOptions::new();
        let error = fixture.db.ingest_external_files(&[arg.clone()], &plain);
        assert!(error.unwrap_err().is_corruption());
    }
    assert_eq!(fixture.tables(), 0);
}

#[test]
fn several_families_are_ingested_at_once_or_not_at_all() {
    let fixture = Fixture::new();
    let db = &fixture.db;
    let other = db.create_cf("other", &db.default_cf().options()).unwrap();
    let args = |name: &str| {
        [
            IngestExternalFileArg::new(db.default_cf(), [fixture.table(name, 0, 10)]),
            IngestExternalFileArg::new(&other, [fixture.table(&format!("{name}2"), 0, 20)]),
        ]
    };
    let how = IngestExternalFileOptions::new();
    db.ingest_external_files(&args("a"), &how).unwrap();
    assert_eq!((db.range(..).count(), other.range(..).count()), (10, 20));
    let prepared = db.prepare_ingest(&args("b"), &how).unwrap();
    db.drop_cf(&other).unwrap();
    let error = prepared.commit().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ColumnFamilyDropped);
    assert_eq!(fixture.value(0).as_deref(), Some("a"));
}

#[test]
fn an_error_at_any_operation_leaves_all_files_or_none() {
    let mut at = 1;
    loop {
        let fixture = Fixture::new();
        let db = &fixture.db;
        let files = [fixture.table("a", 0, 50), fixture.table("b", 100, 150)];
        db.put(key(20), "put").unwrap();
        let rule = FaultRule::fail(Failure::NoSpace).on_mutations().nth(at);
        fixture.storage.faults.add_rule(rule);
        let ingested = db.ingest_external_file(&files);
        fixture.storage.faults.clear_rules();
        let options = fixture.storage.options();
        let _ = db.close();
        let db = Db::open(&options, HERE).unwrap();
        let count = db.range(..).count();
        match &ingested {
            Ok(()) => assert_eq!(count, 100),
            Err(error) => assert!(count == 1 || count == 100, "after {at}: {count}, {error}"),
        }
        until(
            &format!("the removal of all other tables after {at}"),
            || fixture.tables() == db.live_files().len(),
        );
        if ingested.is_ok() {
            break;
        }
        at += 1;
    }
    assert!(at > 8, "{at} operations");
}

fn replacing(fixture: &Fixture, file: PathBuf, from: u32, to: u32) -> IngestExternalFileArg {
    let mut arg = IngestExternalFileArg::new(fixture.db.default_cf(), [file]);
    arg.set_atomic_replace_range(key(from)..key(to)).unwrap();
    arg
}

/// Options of an ingestion that replaces a range.
fn inconsistent() -> IngestExternalFileOptions {
    let mut how = IngestExternalFileOptions::new();
    how.set_snapshot_consistency(false);
    how
}

#[test]
fn a_range_is_replaced_with_the_tables_and_memtables_in_it() {
    let fixture = Fixture::new();
    let db = &fixture.db;
    for (name, from) in [("low", 0), ("old", 100), ("high", 200)] {
        let file = fixture.table(name, from, from + 100);
        db.ingest_external_file(&[file]).unwrap();
    }
    let older = fixture.table("older", 120, 140);
    db.ingest_external_file(&[older]).unwrap();
    db.put(key(150), "memtable").unwrap();
    let file = fixture.table("new", 110, 115);
    let arg = replacing(&fixture, file, 100, 200);
    // Snapshots would lose what they see.
    let refused = db.ingest_external_files(
        std::slice::from_ref(&arg),
        &IngestExternalFileOptions::new(),
    );
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
    db.ingest_external_files(&[arg], &inconsistent()).unwrap();
    let found = |index| fixture.value(index);
    assert_eq!(found(99).as_deref(), Some("low"));
    assert_eq!(found(200).as_deref(), Some("high"));
    assert_eq!(found(112).as_deref(), Some("new"));
    for index in [100, 109, 115, 130, 150, 199] {
        assert_eq!(found(index), None, "{index}");
    }
    // Below all that is left, without a sequence number.
    assert_eq!(fixture.places().last(), Some(&(6, 0)));
    assert_eq!(db.live_files().len(), 3);
    until("the removal of the replaced tables", || {
        fixture.tables() == 3
    });
    let options = fixture.storage.options();
    db.close().unwrap();
    let db = Db::open(&options, HERE).unwrap();
    assert_eq!(db.range(..).count(), 205);
    assert_eq!(fixture.tables(), 3);
}

#[test]
fn a_replacement_refuses_what_it_cannot_drop_whole() {
    let fixture = Fixture::new();
    let db = &fixture.db;
    let file = fixture.table("old", 100, 200);
    db.ingest_external_file(&[file]).unwrap();
    let attempt = |name: &str, from, to| {
        let file = fixture.table(name, 120, 130);
        let arg = replacing(&fixture, file, from, to);
        let refused = db.ingest_external_files(&[arg], &inconsistent());
        refused.map_err(|error| error.kind())
    };
    for (at, (from, to)) in [(100, 199), (101, 200), (120, 130)].into_iter().enumerate() {
        assert_eq!(
            attempt(&format!("part{at}"), from, to),
            Err(ErrorKind::Aborted)
        );
        assert_eq!(db.range(..).count(), 100);
        assert_eq!(fixture.tables(), 1);
    }
    // Keys of the file outside of the range.
    assert_eq!(
        attempt("outside", 121, 300),
        Err(ErrorKind::InvalidArgument)
    );
    assert_eq!(attempt("whole", 100, 200), Ok(()));
    assert_eq!(db.range(..).count(), 10);
    let file = fixture.table("all", 500, 510);
    let mut arg = IngestExternalFileArg::new(db.default_cf(), [file]);
    arg.set_atomic_replace_range(..).unwrap();
    db.ingest_external_files(&[arg], &inconsistent()).unwrap();
    assert_eq!(db.range(..).count(), 10);
    assert_eq!(fixture.value(505).as_deref(), Some("all"));
}

#[test]
fn an_error_at_any_operation_leaves_the_range_or_its_replacement() {
    let mut at = 1;
    loop {
        let fixture = Fixture::new();
        let db = &fixture.db;
        let old = fixture.table("old", 0, 50);
        db.ingest_external_file(&[old]).unwrap();
        db.put(key(20), "put").unwrap();
        let file = fixture.table("new", 10, 20);
        let arg = replacing(&fixture, file, 0, 50);
        let rule = FaultRule::fail(Failure::NoSpace).on_mutations().nth(at);
        fixture.storage.faults.add_rule(rule);
        let ingested = db.ingest_external_files(&[arg], &inconsistent());
        fixture.storage.faults.clear_rules();
        let options = fixture.storage.options();
        let _ = db.close();
        let db = Db::open(&options, HERE).unwrap();
        let count = db.range(..).count();
        match &ingested {
            Ok(()) => assert_eq!(count, 10),
            Err(error) => assert!(count == 50 || count == 10, "after {at}: {count}, {error}"),
        }
        until(
            &format!("the removal of all other tables after {at}"),
            || fixture.tables() == db.live_files().len(),
        );
        if ingested.is_ok() {
            break;
        }
        at += 1;
    }
    assert!(at > 6, "{at} operations");
}

#[test]
fn readers_see_a_range_or_its_replacement_and_never_neither() {
    // Tables of this style get sequence numbers, which are published.
    let fixture = Fixture::with(|options| {
        options.set_compaction_style(CompactionStyle::Fifo);
    });
    let db = &fixture.db;
    // Their states are installed one after the other.
    let options = db.default_cf().options();
    let descriptors = (0..60)
        .map(|number| ColumnFamilyDescriptor::new(format!("family {number}"), options.clone()));
    let families = db.create_cfs(descriptors).unwrap();
    let ingest = |round: u32| {
        let args: Vec<_> = (families.iter())
            .map(|family| {
                let name = format!("{} {round}", family.name());
                let mut arg = IngestExternalFileArg::new(family, [fixture.table(&name, 0, 1)]);
                arg.set_atomic_replace_range(key(0)..key(1)).unwrap();
                arg
            })
            .collect();
        db.ingest_external_files(&args, &inconsistent())
    };
    ingest(0).unwrap();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = || {
            while !is_done.load(Ordering::Relaxed) {
                for family in [&families[0], &families[59]] {
                    assert!(family.get(key(0)).unwrap().is_some());
                    assert_eq!(family.range(..).count(), 1);
                }
            }
        };
        scope.spawn(reader);
        let ingested: Result<Vec<_>, _> = (1..=60).map(ingest).collect();
        is_done.store(true, Ordering::Relaxed);
        ingested.unwrap();
    });
}

#[test]
fn what_was_prepared_before_a_close_touches_no_later_database_there() {
    let fixture = Fixture::new();
    let file = fixture.table("file", 0, 10);
    let args = [IngestExternalFileArg::new(fixture.db.default_cf(), [file])];
    let prepared = fixture
        .db
        .prepare_ingest(&args, &IngestExternalFileOptions::new())
        .unwrap();
    let memory = &fixture.storage.memory;
    let entries = memory.list(HERE.as_ref()).unwrap();
    let mut names = entries.into_iter().map(|entry| entry.name);
    let copy = names.find(|name| name.ends_with(".sst")).unwrap();
    fixture.db.close().unwrap();
    Db::destroy(&fixture.storage.options(), HERE).unwrap();
    // The table of a database that was restored there.
    memory.create_dir_all(HERE.as_ref()).unwrap();
    let table = Path::new(HERE).join(copy);
    memory.create(&table, &WriteOptions::default()).unwrap();
    drop(prepared);
    assert!(fixture.exists(&table));
}

/// Ingestions, writes and compactions at random against a map.
#[test]
fn random_ingestions_agree_with_a_map() {
    for style in [CompactionStyle::Level, CompactionStyle::Universal] {
        let mut replacements = 0;
        for seed in 0..6 {
            let fixture = Fixture::with(|options| {
                options
                    .set_compaction_style(style)
                    .set_write_buffer_size(64 << 10)
                    .set_target_file_size_base(8 << 10)
                    .set_level_zero_file_num_compaction_trigger(2);
            });
            replacements += random_history(&fixture, seed);
        }
        // Compactions may refuse them.
        assert!(replacements > 0, "no replacement");
    }
}

/// Returns the number of ingestions that replaced a range.
fn random_history(fixture: &Fixture, seed: u64) -> u32 {
    let mut random = Random::new(seed);
    let db = &fixture.db;
    let mut model = std::collections::BTreeMap::new();
    let mut snapshots = Vec::new();
    let check = |family: &ColumnFamily, read: &ReadOptions, model: &_, what: &str| {
        let found: std::collections::BTreeMap<String, String> = family
            .range_opt(.., read)
            .map(|entry| {
                let (key, value) = entry.unwrap();
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                (text(&key), text(&value))
            })
            .collect();
        assert_eq!(&found, model, "seed {seed}: {what}");
    };
    let mut replacements = 0;
    for step in 0..60 {
        let from = u32::try_from(random.below(500)).unwrap();
        let to = from + 1 + u32::try_from(random.below(80)).unwrap();
        match random.below(9) {
            0..=2 => {
                for index in from..to {
                    db.put(key(index), format!("put {step}")).unwrap();
                    model.insert(key(index), format!("put {step}"));
                }
            }
            3 => {
                db.delete_range(key(from), key(to)).unwrap();
                model.retain(|found, _| *found < key(from) || *found >= key(to));
            }
            4 => db.flush().unwrap(),
            5 => match random.below(2) {
                0 => snapshots.push((db.snapshot(), model.clone())),
                _ => snapshots.clear(),
            },
            6 | 7 => {
                let mut writer = fixture.writer(&format!("{step}"));
                let deletes = random.below(3) == 0;
                if deletes {
                    writer.delete_range(key(from), key(to + 20)).unwrap();
                    model.retain(|found, _| *found < key(from) || *found >= key(to + 20));
                }
                for index in (from..to).step_by(2) {
                    writer.put(key(index), format!("file {step}")).unwrap();
                    model.insert(key(index), format!("file {step}"));
                }
                let file = writer.finish().unwrap().path;
                let mut how = IngestExternalFileOptions::new();
                how.set_move_files(random.below(2) == 0);
                let ingested = db.default_cf().ingest_external_file_opt(&[file], &how);
                ingested.unwrap();
            }
            _ => {
                // Snapshots would lose what they see.
                if !snapshots.is_empty() {
                    continue;
                }
                let name = format!("{step}");
                let file = fixture.table(&name, from, to);
                let (lower, upper) = match random.below(3) {
                    0 => (0, 1000),
                    _ => (from - from % 50, to + 50),
                };
                let arg = replacing(fixture, file, lower, upper);
                match db.ingest_external_files(&[arg], &inconsistent()) {
                    Ok(()) => {
                        let range = key(lower)..key(upper);
                        model.retain(|found, _| !range.contains(found));
                        model.extend((from..to).map(|index| (key(index), name.clone())));
                        replacements += 1;
                    }
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Aborted, "{error}"),
                }
            }
        }
        check(
            db.default_cf(),
            &ReadOptions::new(),
            &model,
            &format!("step {step}"),
        );
    }
    for (snapshot, model) in &snapshots {
        let mut read = ReadOptions::new();
        read.set_snapshot(snapshot);
        check(db.default_cf(), &read, model, "a snapshot");
    }
    drop(snapshots);
    db.compact_all(&CompactRangeOptions::new()).unwrap();
    check(db.default_cf(), &ReadOptions::new(), &model, "compacted");
    let options = fixture.storage.options();
    db.close().unwrap();
    let db = Db::open(&options, HERE).unwrap();
    check(db.default_cf(), &ReadOptions::new(), &model, "reopened");
    db.verify_checksums().unwrap();
    replacements
}

#[test]
fn a_reader_shows_the_entries_of_a_table_file() {
    let fixture = Fixture::new();
    let mut writer = fixture.writer("a");
    writer.put("a", "1").unwrap();
    writer.delete("b").unwrap();
    writer.delete_range("x", "z").unwrap();
    let path = writer.finish().unwrap().path;
    let options = fixture.db.default_cf().options();
    let reader = SstFileReader::open_in(&options, &path, &fixture.env()).unwrap();
    reader.verify_checksums().unwrap();
    let entries: Vec<_> = reader.entries().unwrap().map(Result::unwrap).collect();
    assert_eq!(entries.len(), 2);
    assert_eq!(
        (&*entries[0].key, &*entries[0].value),
        (&b"a"[..], &b"1"[..])
    );
    assert_eq!(entries[1].kind, koeldb::SstEntryKind::Deletion);
    assert_eq!(reader.range_tombstones()[0].end, b"z");
    let properties = reader.properties().unwrap();
    assert_eq!(properties.external_version, Some(2));
    assert_eq!(properties.num_entries, 3);
}

#[test]
fn rocksdb_opens_what_was_ingested_and_its_tables_are_ingested() {
    let (Some(java), Some(ldb)) = (Java::find(), Tool::ldb()) else {
        return;
    };
    let dir = ScratchDir::new();
    let path = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    let mut options = Options::new();
    options.create_if_missing(true);
    let db = Db::open(&options, dir.join("db")).unwrap();
    for index in 0..50 {
        db.put(key(index), "put").unwrap();
    }
    java.files(&["table", "", "20", "60", &path("theirs.sst")]);
    db.ingest_external_file(&[dir.join("theirs.sst")]).unwrap();
    let mut writer =
        SstFileWriter::create(&db.default_cf().options(), dir.join("ours.sst")).unwrap();
    for index in 70..90 {
        writer.put(key(index), "of KoelDB").unwrap();
    }
    writer.delete_range(key(10), key(15)).unwrap();
    writer.finish().unwrap();
    db.ingest_external_file(&[dir.join("ours.sst")]).unwrap();
    db.put(key(200), "last").unwrap();
    let mut expected = crate::expected::Expected::default();
    for entry in db.range(..) {
        let (key, value) = entry.unwrap();
        expected
            .family("default")
            .insert(key.to_vec(), value.to_vec());
    }
    assert_eq!(expected.families["default"].len(), 86);
    db.close().unwrap();
    let shown = ldb.run(&[&format!("--db={}", path("db")), "manifest_dump"]);
    assert!(!shown.is_empty());
    assert_eq!(java.check(dir.join("db").as_ref(), &[]).found, expected);
    // And back: RocksDB ingests ours, and we open it.
    let mut writer =
        SstFileWriter::create(&ColumnFamilyOptions::new(), dir.join("back.sst")).unwrap();
    for index in 80..100 {
        writer.put(key(index), "back").unwrap();
        expected
            .family("default")
            .insert(key(index).into(), b"back".to_vec());
    }
    writer.finish().unwrap();
    java.files(&["ingest", &path("db"), &path("back.sst")]);
    expected.check(
        &Db::open(&options, dir.join("db")).unwrap(),
        "ingested by RocksDB",
    );
}
