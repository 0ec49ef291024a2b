//! Blob files in what goes around the engine: verification, backups, exports, recovery without
//! CURRENT, lists of files, and damage.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use koeldb::fs::{FileSystem, PosixFileSystem, SystemClock, TraceDetail, TraceFileSystem};
use koeldb::{
    BackupEngine, BackupEngineOptions, BottommostLevelCompaction, CompactRangeOptions,
    ConfigOptions, Db, DbPath, Env, ErrorKind, ExportOptions, FlushPolicy,
    ImportColumnFamilyOptions, IteratorMode, Options, StorageFileKind, StringAppend, WriteBatch,
};

use crate::expected::Expected;
use crate::golden;
use crate::prelude::creating;
use crate::rocksdb::Java;
use crate::scratch::ScratchDir;
use crate::wait::until;

pub(crate) fn options(settings: &str) -> Options {
    let mut options = creating();
    options
        .set_disable_auto_compactions(true)
        .set_merge_operator(StringAppend::default());
    let text = format!("enable_blob_files=true;min_blob_size=50;{settings}");
    options.apply_str(&text, &ConfigOptions::new()).unwrap();
    options
}

pub(crate) fn value(key: u32, round: u32) -> Vec<u8> {
    format!("{key} of {round} ")
        .repeat(usize::try_from(1 + key % 20).unwrap())
        .into_bytes()
}

/// Puts every `step`th of a hundred keys, and flushes.
pub(crate) fn fill(db: &Db, round: u32, step: usize) {
    for key in (0..100).step_by(step) {
        db.put(format!("{key:03}"), value(key, round)).unwrap();
    }
    db.flush().unwrap();
}

pub(crate) fn content(db: &Db) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let entries = db.iterator(IteratorMode::Start).map(Result::unwrap);
    entries
        .map(|(key, value)| (key.to_vec(), value.to_vec()))
        .collect()
}

fn expected(db: &Db) -> Expected {
    let mut expected = Expected::default();
    *expected.family("default") = content(db);
    expected
}

/// Tables on two levels that refer to several blob files, which have some garbage.
fn with_garbage(options: &Options, dir: &Path) -> Db {
    let db = Db::open(options, dir).unwrap();
    fill(&db, 0, 1);
    fill(&db, 1, 3);
    db.compact_all(&CompactRangeOptions::new()).unwrap();
    fill(&db, 2, 7);
    db
}

#[test]
fn a_flipped_byte_is_found_by_scrubs_reads_and_compactions() {
    for codec in ["kNoCompression", "kSnappyCompression"] {
        let dir = ScratchDir::new();
        let options = options(&format!("blob_compression_type={codec};"));
        let db = Db::open(&options, dir.path()).unwrap();
        let value = b"a value of a few bytes, ".repeat(5);
        db.put("key", &value).unwrap();
        db.put("other key", &value).unwrap();
        db.flush().unwrap();
        db.close().unwrap();
        drop(db);
        let path = dir.only("blob");
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let bytes = std::fs::read(&path).unwrap();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            std::fs::write(&path, &damaged).unwrap();
            let what = format!("{codec}, byte {at}");
            let db = Db::builder(&options).read_only().open(dir.path());
            let db = match db {
                Ok(db) => db,
                Err(error) => {
                    assert!(error.to_string().contains(&name), "{what}: {error}");
                    continue;
                }
            };
            // The codec of a file is in each reference, too: only reads compare them. The id of the
            // column family is of no use to a read.
            let is_codec = at == 13;
            let is_family = (8..12).contains(&at);
            let report = db.scrub(0).unwrap();
            assert_eq!((report.tables, report.blob_files), (1, 1), "{what}");
            if !is_codec {
                let [(_, error)] = &report.damaged[..] else {
                    panic!("{what}: {report:?}");
                };
                assert!(error.to_string().contains(&name), "{what}: {error}");
                assert!(db.verify_checksums().is_err(), "{what}");
            }
            let read = |key: &str| db.get(key);
            let found = [read("key"), read("other key")];
            for found in &found {
                match found {
                    Ok(found) => assert_eq!(found.as_deref(), Some(&value[..]), "{what}"),
                    Err(error) => assert!(error.to_string().contains(&name), "{what}: {error}"),
                }
            }
            assert!(is_family || found.iter().any(Result::is_err), "{what}");
        }
    }
}

#[test]
fn a_compaction_that_moves_a_damaged_value_installs_nothing() {
    let dir = ScratchDir::new();
    let options =
        options("enable_blob_garbage_collection=true;blob_garbage_collection_age_cutoff=1.0;");
    let db = Db::open(&options, dir.path()).unwrap();
    fill(&db, 0, 1);
    db.close().unwrap();
    drop(db);
    let path = dir.only("blob");
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let db = Db::open(&options, dir.path()).unwrap();
    let tables = dir.all("sst");
    let mut all = CompactRangeOptions::new();
    all.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
    let error = db.compact_all(&all).unwrap_err();
    assert!(error.is_corruption(), "{error}");
    assert_eq!(dir.all("sst"), tables);
    assert_eq!(dir.all("blob"), [path]);
}

#[test]
fn whole_files_have_checksums_that_are_compared() {
    let dir = ScratchDir::new();
    let mut options = options("");
    options.set_file_checksum_gen_factory(koeldb::FileChecksumGenerator::Crc32c);
    let db = Db::open(&options, dir.path()).unwrap();
    fill(&db, 0, 1);
    assert_eq!(db.verify_file_checksums().unwrap(), 2);
    assert_eq!(db.scrub(0).unwrap().file_checksums, 2);
    let [file] = &db.live_blob_files()[..] else {
        panic!("one blob file");
    };
    assert_eq!(file.file_checksum_func_name, "FileChecksumCrc32c");
    let large = (0..100).filter(|&key| value(key, 0).len() >= 50).count();
    assert_eq!(file.total_count, large as u64);
    let path = dir.only("blob");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[13] = 1;
    std::fs::write(&path, &bytes).unwrap();
    let error = db.verify_file_checksums().unwrap_err();
    assert!(error.to_string().contains(".blob"), "{error}");
}

#[test]
fn an_export_has_values_inline_and_is_imported() {
    let (dir, copies) = (ScratchDir::new(), ScratchDir::new());
    let options = options("");
    let db = with_garbage(&options, dir.path());
    db.merge("001", "operand").unwrap();
    db.delete_range("040", "050").unwrap();
    db.put_entity("entity", &[("", "default"), ("name", "value")])
        .unwrap();
    let wanted = content(&db);
    let family = db.default_cf();
    let error = family.export(copies.join("refused")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
    assert!(error.message().contains("set_inline_blobs"), "{error}");
    let mut how = ExportOptions::new();
    how.set_inline_blobs(true);
    let export = family.export_opt(copies.join("export"), &how).unwrap();
    assert!(export.files.len() >= 3, "{export:?}");
    assert_eq!(
        std::fs::read_dir(copies.join("export")).unwrap().count(),
        export.files.len() + 1
    );
    let import = ImportColumnFamilyOptions::new();
    let read = koeldb::ExportedColumnFamily::read(&db, copies.join("export")).unwrap();
    assert_eq!(read, export);
    let other = Db::open(&options, copies.join("db")).unwrap();
    for target in [&db, &other] {
        let imported = target
            .create_column_family_with_import(
                "imported",
                options.cf_options(),
                std::slice::from_ref(&read),
                &import,
            )
            .unwrap();
        let found = || -> BTreeMap<Vec<u8>, Vec<u8>> {
            let entries = imported.iterator(IteratorMode::Start).map(Result::unwrap);
            entries
                .map(|(key, value)| (key.to_vec(), value.to_vec()))
                .collect()
        };
        assert!(imported.live_blob_files().is_empty());
        assert_eq!(found(), wanted);
        imported.compact_range(..).unwrap();
        assert!(!imported.live_blob_files().is_empty(), "separated again");
        assert_eq!(found(), wanted);
        target.verify_checksums().unwrap();
    }
    assert_eq!(content(&db), wanted);
    // A damaged value is not exported.
    drop((db, other));
    for path in dir.all("blob") {
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
    }
    let db = Db::builder(&options)
        .other_column_families(options.cf_options())
        .open(dir.path())
        .unwrap();
    let error = db
        .default_cf()
        .export_opt(copies.join("damaged"), &how)
        .unwrap_err();
    assert!(error.is_corruption(), "{error}");
    assert!(!copies.join("damaged").exists());
}

#[test]
fn best_efforts_recovery_goes_back_to_a_state_with_its_blob_files() {
    let dir = ScratchDir::new();
    let options = options("");
    let mut states = Vec::new();
    let db = Db::open(&options, dir.path()).unwrap();
    for round in 0..3 {
        fill(&db, round, 2);
        states.push(content(&db));
    }
    let files = dir.all("blob");
    assert_eq!(files.len(), 3);
    db.close().unwrap();
    drop(db);
    let mut best_efforts = options.clone();
    best_efforts.set_best_efforts_recovery(true);
    // Whole, a missing file, a file cut short.
    for (damage, left) in [(0, 2), (1, 1), (2, 1), (3, 0)] {
        let copy = ScratchDir::copy_of(dir.path());
        let victim = |index: usize| copy.join(files[index].file_name().unwrap());
        match damage {
            0 => {}
            1 => std::fs::remove_file(victim(2)).unwrap(),
            2 => {
                let bytes = std::fs::read(victim(2)).unwrap();
                std::fs::write(victim(2), &bytes[..bytes.len() - 1]).unwrap();
            }
            _ => std::fs::remove_file(victim(1)).unwrap(),
        }
        let db = Db::open(&best_efforts, copy.path()).unwrap();
        assert!(content(&db) == states[left], "damage {damage}");
        fill(&db, 9, 3);
        db.compact_all(&CompactRangeOptions::new()).unwrap();
        db.verify_checksums().unwrap();
        let wanted = content(&db);
        db.close().unwrap();
        drop(db);
        let db = Db::open(&options, copy.path()).unwrap();
        assert!(content(&db) == wanted, "damage {damage}");
    }
}

#[test]
fn best_efforts_recovery_needs_no_file_that_was_removed_as_garbage() {
    let dir = ScratchDir::new();
    let options = options("");
    let db = Db::open(&options, dir.path()).unwrap();
    fill(&db, 0, 1);
    for key in 0..100 {
        if key % 2 == 0 {
            db.put(format!("{key:03}"), value(key, 1)).unwrap();
        }
    }
    db.flush().unwrap();
    fill(&db, 2, 2);
    db.compact_all(&CompactRangeOptions::new()).unwrap();
    until("the second is all garbage, and goes", || {
        dir.all("blob").len() == 2
    });
    let wanted = content(&db);
    db.close().unwrap();
    drop(db);
    let mut best_efforts = options.clone();
    best_efforts.set_best_efforts_recovery(true);
    let db = Db::open(&best_efforts, dir.path()).unwrap();
    assert_eq!(content(&db), wanted);
    assert_eq!(db.live_blob_files().len(), 2);
}

/// An environment that counts the bytes that are read from blob files.
fn counting() -> (Arc<TraceFileSystem>, Env) {
    let fs = Arc::new(TraceFileSystem::new(
        Arc::new(PosixFileSystem),
        TraceDetail::Events,
    ));
    let env = Env::new(
        Arc::clone(&fs) as Arc<dyn FileSystem>,
        Arc::new(SystemClock),
    );
    (fs, env)
}

fn blob_bytes_read(fs: &TraceFileSystem) -> u64 {
    let reads = fs.events().into_iter().filter(|event| {
        event.operation == koeldb::fs::Operation::Read
            && event.path.extension().is_some_and(|it| it == "blob")
    });
    reads.map(|event| event.len).sum()
}

#[test]
fn a_second_backup_reads_no_unchanged_blob_file() {
    let dir = ScratchDir::new();
    let (fs, env) = counting();
    let mut options = options("");
    options.set_env(&env);
    let db = Db::open(&options, dir.join("db")).unwrap();
    for key in 0..100 {
        db.put(format!("{key:03}"), vec![7; 10_000]).unwrap();
    }
    db.flush().unwrap();
    let mut how = BackupEngineOptions::new();
    how.set_env(&env);
    let engine = BackupEngine::open(dir.join("backups"), &how).unwrap();
    let mut read = Vec::new();
    for _ in 0..2 {
        let before = blob_bytes_read(&fs);
        engine.create_new_backup(&db).unwrap();
        read.push(blob_bytes_read(&fs) - before);
        db.put("small", "value").unwrap();
        db.flush().unwrap();
    }
    assert!(read[0] >= 1_000_000 && read[1] == 0, "{read:?}");
    let shared = || -> Vec<String> {
        let entries = std::fs::read_dir(dir.join("backups/shared_checksum")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.ends_with(".blob")).collect()
    };
    assert_eq!(shared().len(), 1);
    // Without the notes it is read, and found again.
    std::fs::remove_file(dir.join("backups/meta/.koeldb-notes")).unwrap();
    engine.create_new_backup(&db).unwrap();
    assert_eq!(shared().len(), 1);
    // An engine of a later process knows the notes.
    drop(engine);
    let engine = BackupEngine::open(dir.join("backups"), &how).unwrap();
    let before = blob_bytes_read(&fs);
    engine.create_new_backup(&db).unwrap();
    assert_eq!(blob_bytes_read(&fs), before);
    engine.garbage_collect().unwrap();
    engine.verify_backup(4, true).unwrap();
    engine.purge_old_backups(1).unwrap();
    engine.restore_latest(dir.join("restored")).unwrap();
    assert_eq!(
        content(&Db::open(&options, dir.join("restored")).unwrap()),
        content(&db)
    );
}

#[test]
fn rocksdb_and_koeldb_back_up_blob_files_in_turn() {
    let Some(java) = Java::find() else { return };
    let dir = ScratchDir::new();
    let path = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    let (db_path, backups, restored) = (path("db"), path("backups"), path("restored"));
    let options = options("blob_file_size=2000;");
    let engine = || BackupEngine::open(&backups, &BackupEngineOptions::new()).unwrap();
    let db = with_garbage(&options, db_path.as_ref());
    engine().create_new_backup(&db).unwrap();
    let wanted = expected(&db);
    db.close().unwrap();
    drop(db);
    let shared = || {
        std::fs::read_dir(dir.join("backups/shared_checksum"))
            .unwrap()
            .count()
    };
    let files = shared();
    java.files(&["backup", &db_path, &backups]);
    assert_eq!(shared(), files, "RocksDB finds the files of ours");
    java.files(&["verify", &backups]);
    java.files(&["restore", &backups, &restored]);
    assert_eq!(
        java.check(restored.as_ref(), &["merge=stringappend"]).found,
        wanted
    );
    let db = Db::open(&options, &db_path).unwrap();
    assert_eq!(expected(&db), wanted);
    engine().create_new_backup(&db).unwrap();
    assert_eq!(shared(), files, "and KoelDB those of RocksDB");
    fill(&db, 5, 4);
    engine().create_new_backup(&db).unwrap();
    let wanted = expected(&db);
    db.close().unwrap();
    drop(db);
    java.files(&["collect", &backups]);
    java.files(&["backup", &db_path, &backups, "flush"]);
    java.files(&["purge", &backups, "1"]);
    let engine = engine();
    assert!(engine.corrupted_backups().is_empty());
    let last = engine.backups().pop().unwrap();
    engine.verify_backup(last.backup_id, true).unwrap();
    engine.restore_latest(&restored).unwrap();
    wanted.check(&Db::open(&options, &restored).unwrap(), "of RocksDB");
}

#[test]
fn lists_of_files_have_the_blob_files() {
    let dir = ScratchDir::new();
    let db = with_garbage(&options(""), dir.path());
    let listed: Vec<_> = db
        .live_blob_files()
        .iter()
        .map(|file| dir.join(file.name.trim_start_matches('/')))
        .collect();
    until("others are removed", || dir.all("blob") == listed);
    let on_disk = listed;
    let files = db.live_blob_files();
    assert!(files.iter().any(|file| file.garbage_count > 0), "{files:?}");
    for (file, path) in files.iter().zip(&on_disk) {
        assert_eq!(file.bytes, path.metadata().unwrap().len());
        assert_eq!(file.directory, dir.path());
        assert_eq!(file.bytes, file.total_bytes + 62);
    }
    let storage = db.live_storage(FlushPolicy::Always).unwrap();
    let blobs = storage
        .files
        .iter()
        .filter(|file| file.kind == StorageFileKind::Blob);
    assert_eq!(blobs.count(), on_disk.len());
    let tables = storage
        .files
        .iter()
        .filter(|file| file.kind == StorageFileKind::Table);
    let tables = tables.count();
    until("others are removed", || dir.all("sst").len() == tables);
}

#[test]
fn families_with_blob_files_are_flushed_together() {
    let dir = ScratchDir::new();
    let mut options = options("");
    options.set_atomic_flush(true);
    let (db, [other]) = Db::open_cf(&options, dir.path(), ["other"]).unwrap();
    for round in 0..3 {
        for key in 0..50 {
            let mut batch = WriteBatch::new();
            batch.put(format!("{key:03}"), value(key, round));
            batch.put_cf(&other, format!("{key:03}"), value(key, round));
            let mut unlogged = koeldb::WriteOptions::new();
            unlogged.disable_wal(true);
            db.write_opt(&batch, &unlogged).unwrap();
        }
        db.flush().unwrap();
    }
    assert_eq!(db.live_blob_files().len(), 6);
    drop((db, other));
    let (db, [other]) = Db::open_cf(&options, dir.path(), ["other"]).unwrap();
    for key in 0..50 {
        let key_text = format!("{key:03}");
        assert_eq!(db.get(&key_text).unwrap().unwrap(), *value(key, 2));
        assert_eq!(other.get(&key_text).unwrap().unwrap(), *value(key, 2));
    }
    db.verify_checksums().unwrap();
}

#[test]
fn files_of_nobody_are_removed_from_all_directories() {
    let dir = ScratchDir::new();
    let mut options = options("");
    options.set_db_paths([
        DbPath::new(dir.join("first"), 1 << 30),
        DbPath::new(dir.join("second"), 1 << 30),
    ]);
    let db = with_garbage(&options, &dir.join("db"));
    let wanted = content(&db);
    let live = db.live_blob_files().len();
    db.close().unwrap();
    drop(db);
    let orphans = ["first/000901.blob", "second/000902.blob", "db/000903.blob"];
    for orphan in orphans {
        std::fs::write(dir.join(orphan), "of a job that was cut").unwrap();
    }
    let db = Db::open(&options, dir.join("db")).unwrap();
    for orphan in orphans {
        assert!(!dir.join(orphan).exists(), "{orphan}");
    }
    assert_eq!(db.live_blob_files().len(), live);
    assert_eq!(content(&db), wanted);
}

#[test]
fn a_table_that_refers_to_blob_files_is_not_imported() {
    let (dir, other) = (ScratchDir::new(), ScratchDir::new());
    let options = options("");
    let db = Db::open(&options, dir.path()).unwrap();
    fill(&db, 0, 1);
    let [file] = &db.live_files()[..] else {
        panic!("one table");
    };
    let seqnos = file.smallest_seqno..=file.largest_seqno;
    let described = koeldb::ExportedFile::new(dir.path(), file.name.clone(), 6, seqnos);
    let export = koeldb::ExportedColumnFamily::new("leveldb.BytewiseComparator", [described]);
    let target = Db::open(&options, other.path()).unwrap();
    let error = target
        .create_column_family_with_import(
            "imported",
            options.cf_options(),
            &[export],
            &ImportColumnFamilyOptions::new(),
        )
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
    assert!(error.to_string().contains("blob files"), "{error}");
    assert!(target.cf_handle("imported").is_none());
    let table = dir.only("sst");
    let error = target.ingest_external_file(&[table]).unwrap_err();
    assert!(target.live_files().is_empty(), "{error}");
}

#[test]
fn best_efforts_recovery_keeps_the_bound_of_collected_versions() {
    let dir = golden::copy_of("timestamps-collected");
    let mut options = creating();
    options
        .set_comparator(koeldb::BytewiseComparatorWithU64Ts)
        .set_disable_auto_compactions(true);
    let db = Db::open(&options, dir.path()).unwrap();
    let before = dir.all("sst");
    for time in [20_u64, 21] {
        let family = db.default_cf();
        family.put_with_ts("key", time.to_le_bytes(), "v").unwrap();
        family.flush().unwrap();
    }
    db.close().unwrap();
    drop(db);
    let newest = dir.all("sst").pop().unwrap();
    assert!(!before.contains(&newest));
    std::fs::remove_file(newest).unwrap();
    options.set_best_efforts_recovery(true);
    let db = Db::open(&options, dir.path()).unwrap();
    let low = db.default_cf().full_history_ts_low().unwrap();
    assert_eq!(low, Some(6_u64.to_le_bytes()));
    let mut read = koeldb::ReadOptions::new();
    read.set_timestamp(5_u64.to_le_bytes());
    assert!(db.get_opt("key0001", &read).is_err());
    read.set_timestamp(30_u64.to_le_bytes());
    assert!(db.get_opt("key", &read).unwrap().is_some());
}
