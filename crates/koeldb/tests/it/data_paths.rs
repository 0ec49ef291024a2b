//! Tables in several directories: `db_paths` and `cf_paths`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use koeldb::fs::{FileSystem, SurvivalPolicy};
use koeldb::{
    BackupEngine, BackupEngineOptions, ColumnFamily, ColumnFamilyDescriptor, ColumnFamilyOptions,
    CompactRangeOptions, CompactionOptions, CompactionStyle, ConfigOptions, Db, DbPath, Env,
    ErrorKind, IngestExternalFileOptions, KeepTables, Options, SecondaryOptions, SstFileManager,
    SstFileWriter, SstFileWriterOptions,
};

use crate::expected::Expected;
use crate::rocksdb::Java;
use crate::scratch::ScratchDir;
use crate::storage::{HERE, Storage, over};
use crate::wait::until;

const FAST: &str = "/fast";
const SLOW: &str = "/slow";
const OWN: &str = "/own";

/// Two directories, of which the second takes all levels below 0.
fn two() -> [DbPath; 2] {
    [DbPath::new(FAST, 300 << 20), DbPath::new(SLOW, 0)]
}

fn options(storage: &Storage) -> Options {
    let mut options = storage.options();
    options
        .set_db_paths(two())
        .set_level_zero_file_num_compaction_trigger(4);
    options
}

fn fill(family: &ColumnFamily, round: u32) {
    for index in 0..100 {
        let key = format!("key{:05}", index * 7 % 100 + round);
        family.put(key, format!("value {round}")).unwrap();
    }
}

fn contents(family: &ColumnFamily) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let entries = family.range(..).map(Result::unwrap);
    entries
        .map(|(key, value)| (key.to_vec(), value.to_vec()))
        .collect()
}

/// The number of tables on each level and in each directory, as the database has them.
fn places(family: &ColumnFamily) -> BTreeMap<(usize, String), usize> {
    let mut places = BTreeMap::new();
    for file in family.live_files() {
        let directory = file.directory.display().to_string();
        *places.entry((file.level, directory)).or_insert(0) += 1;
    }
    places
}

fn tables(fs: &dyn FileSystem, directory: &str) -> BTreeSet<String> {
    let entries = fs.list(Path::new(directory)).unwrap().into_iter();
    let names = entries.map(|entry| entry.name);
    names.filter(|name| name.ends_with(".sst")).collect()
}

/// Compacts four flushed tables from level 0 down, and leaves two others there.
fn layered(family: &ColumnFamily) {
    for round in 0..4 {
        fill(family, round);
        family.flush().unwrap();
    }
    until("level 0 is compacted", || {
        places(family).keys().all(|(level, _)| *level > 0)
    });
    for round in 4..6 {
        fill(family, round);
        family.flush().unwrap();
    }
}

fn place(level: usize, directory: &str, count: usize) -> ((usize, String), usize) {
    ((level, directory.to_owned()), count)
}

#[test]
fn flushes_and_compactions_write_where_their_levels_belong() {
    let storage = Storage::new();
    let db = Db::open(&options(&storage), HERE).unwrap();
    let family = db.default_cf();
    layered(family);
    assert_eq!(
        places(family),
        [place(0, FAST, 2), place(1, SLOW, 1)].into()
    );
    let expected = contents(family);
    drop(db);
    let db = Db::open(&options(&storage), HERE).unwrap();
    let family = db.default_cf();
    assert_eq!(contents(family), expected);
    let fs: &dyn FileSystem = &storage.memory;
    assert_eq!(tables(fs, FAST).len(), 2);
    assert_eq!(tables(fs, SLOW).len(), 1);
    assert_eq!(tables(fs, HERE).len(), 0);
    // A manual compaction writes to the directory that the caller names, the first by default.
    let mut how = CompactRangeOptions::new();
    how.set_target_path_id(1);
    family.compact_range_opt(.., &how).unwrap();
    assert!(places(family).keys().all(|(_, place)| place == SLOW));
    assert_eq!(tables(fs, FAST).len(), 0);
    fill(family, 7);
    family.flush().unwrap();
    family.compact_range(..).unwrap();
    assert!(places(family).contains_key(&(1, FAST.to_owned())));
    how.set_target_path_id(2);
    let error = family.compact_range_opt(.., &how).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    let mut later = expected;
    for index in 0..100 {
        let key = format!("key{:05}", index * 7 % 100 + 7);
        later.insert(key.into_bytes(), b"value 7".to_vec());
    }
    assert_eq!(contents(family), later);
    db.verify_checksums().unwrap();
}

#[test]
fn named_tables_are_compacted_into_a_named_directory() {
    let storage = Storage::new();
    let db = Db::open(&options(&storage), HERE).unwrap();
    let family = db.default_cf();
    layered(family);
    let files = family.live_files();
    let named = |level: usize| -> Vec<PathBuf> {
        let files = files.iter().filter(|file| file.level == level);
        files
            .map(|file| file.directory.join(file.name.trim_start_matches('/')))
            .collect()
    };
    let error = family.compact_files(&named(0), 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
    let mut how = CompactionOptions::new();
    how.set_output_path_id(9);
    let error = family.compact_files_opt(&named(0), 1, &how).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    how.set_output_path_id(0);
    let made = family.compact_files_opt(&named(0), 1, &how).unwrap();
    assert!(!made.is_empty() && made.iter().all(|path| path.starts_with(FAST)));
    let fs: &dyn FileSystem = &storage.memory;
    assert!(made.iter().all(|path| fs.exists(path).unwrap()));
    assert!(places(family).keys().all(|(_, place)| place == FAST));
}

#[test]
fn universal_runs_go_where_they_and_their_successors_fit() {
    let storage = Storage::new();
    let mut options = options(&storage);
    options
        .set_compaction_style(CompactionStyle::Universal)
        .set_db_paths([DbPath::new(FAST, 9_000), DbPath::new(SLOW, 1 << 30)])
        .set_level_zero_file_num_compaction_trigger(2);
    let db = Db::open(&options, HERE).unwrap();
    let family = db.default_cf();
    let mut seen = BTreeSet::new();
    for round in 0..40 {
        for index in 0..50 {
            let key = format!("key{:05}", round * 50 + index);
            family
                .put(key, format!("value {:x}", index * 7_919))
                .unwrap();
        }
        family.flush().unwrap();
        db.wait_for_compact(None).unwrap();
        for file in family.live_files() {
            seen.insert(file.directory.clone());
            // Half of the room stays for the runs that follow.
            if file.directory == Path::new(FAST) {
                assert!(file.bytes < 5_000, "{file:?}");
            }
        }
    }
    assert_eq!(seen, [FAST.into(), SLOW.into()].into());
    assert_eq!(contents(family).len(), 2000);
}

#[test]
fn families_have_directories_of_their_own() {
    let storage = Storage::new();
    let options = options(&storage);
    let db = Db::open(&options, HERE).unwrap();
    let mut own = ColumnFamilyOptions::from(&options);
    own.set_cf_paths([DbPath::new(OWN, 1 << 30)]);
    let family = db.create_cf("own", &own).unwrap();
    layered(&family);
    assert!(places(&family).keys().all(|(_, place)| place == OWN));
    let expected = contents(&family);
    drop((family, db));
    // Without them its tables are not found.
    let error = Db::builder(&options)
        .other_column_families(&ColumnFamilyOptions::from(&options))
        .open(HERE)
        .unwrap_err();
    assert!(error.is_corruption(), "{error}");
    let db = Db::builder(&options)
        .column_family(ColumnFamilyDescriptor::new("own", own.clone()))
        .open(HERE)
        .unwrap();
    let family = db.cf_handle("own").unwrap();
    assert_eq!(contents(&family), expected);
    db.drop_cf(&family).unwrap();
    drop(family);
    let fs: &dyn FileSystem = &storage.memory;
    until("the tables are removed", || tables(fs, OWN).is_empty());
}

#[test]
fn a_table_of_a_missing_directory_is_named() {
    let storage = Storage::new();
    let db = Db::open(&options(&storage), HERE).unwrap();
    layered(db.default_cf());
    drop(db);
    let mut single = storage.options();
    single.set_db_paths([DbPath::new(FAST, 0)]);
    let error = Db::open(&single, HERE).unwrap_err().to_string();
    assert!(
        error.contains("number 1 of db_paths or cf_paths"),
        "{error}"
    );
    // Nothing was removed: the first directory has the live tables, as the others.
    let db = Db::open(&options(&storage), HERE).unwrap();
    let expected = contents(db.default_cf());
    drop(db);
    // The last directory stands for those that are not set.
    let fs: &dyn FileSystem = &storage.memory;
    for name in tables(fs, SLOW) {
        fs.rename(&Path::new(SLOW).join(&name), &Path::new(FAST).join(&name))
            .unwrap();
    }
    let db = Db::open(&single, HERE).unwrap();
    assert_eq!(contents(db.default_cf()), expected);
}

#[test]
fn an_open_removes_orphans_from_every_directory() {
    let storage = Storage::new();
    let mut all = options(&storage);
    all.set_cf_paths([DbPath::new(OWN, 0)]);
    let db = Db::open(&all, HERE).unwrap();
    let family = db.default_cf();
    layered(family);
    let expected = contents(family);
    drop(db);
    let fs: &dyn FileSystem = &storage.memory;
    for directory in [HERE, FAST, SLOW, OWN] {
        for name in [
            "900001.sst",
            "900002.sst.trash",
            "900003.log",
            "foreign.txt",
        ] {
            if name.ends_with("log") && directory == HERE {
                continue;
            }
            let path = Path::new(directory).join(name);
            let file = fs.create(
                &path,
                &koeldb::fs::WriteOptions::new(koeldb::fs::Purpose::Other),
            );
            file.unwrap().close().unwrap();
        }
    }
    let db = Db::open(&all, HERE).unwrap();
    for directory in [HERE, FAST, SLOW, OWN] {
        let left = |name: &str| fs.exists(&Path::new(directory).join(name)).unwrap();
        assert!(
            !left("900001.sst") && !left("900002.sst.trash"),
            "{directory}"
        );
        assert!(left("foreign.txt"), "{directory}");
        assert_eq!(left("900003.log"), directory != HERE, "{directory}");
    }
    assert_eq!(contents(db.default_cf()), expected);
    db.put("a", "1").unwrap();
    db.flush().unwrap();
    let newest = db.live_files().iter().map(|file| file.number).max();
    assert!(newest > Some(900_001), "{newest:?}");
}

#[test]
fn a_new_database_takes_no_directory_with_tables() {
    let storage = Storage::new();
    let db = Db::open(&options(&storage), HERE).unwrap();
    layered(db.default_cf());
    let expected = contents(db.default_cf());
    drop(db);
    let error = Db::open(&options(&storage), "/other").unwrap_err();
    assert!(error.is_corruption(), "{error}");
    let db = Db::open(&options(&storage), HERE).unwrap();
    assert_eq!(contents(db.default_cf()), expected);
}

#[test]
fn directories_may_be_inside_that_of_the_database() {
    let storage = Storage::new();
    let fs: &dyn FileSystem = &storage.memory;
    fs.create_dir_all(Path::new("/db/slow")).unwrap();
    let mut options = options(&storage);
    options.set_db_paths([DbPath::new(HERE, 300 << 20), DbPath::new("/db/slow", 0)]);
    let db = Db::open(&options, HERE).unwrap();
    layered(db.default_cf());
    let expected = contents(db.default_cf());
    assert_eq!(
        places(db.default_cf()),
        [place(0, HERE, 2), place(1, "/db/slow", 1)].into()
    );
    drop(db);
    let db = Db::open(&options, HERE).unwrap();
    assert_eq!(contents(db.default_cf()), expected);
    drop(db);
    Db::destroy(&options, HERE).unwrap();
    assert!(!fs.exists(Path::new(HERE)).unwrap());
}

#[test]
fn copies_have_all_tables_in_one_directory() {
    let storage = Storage::new();
    let db = Db::open(&options(&storage), HERE).unwrap();
    let family = db.default_cf();
    layered(family);
    let expected = contents(family);
    db.create_checkpoint("/checkpoint").unwrap();
    for inside in ["/fast/copy", "/slow/copy", "/db/copy"] {
        let error = db.create_checkpoint(inside).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
    let mut how = BackupEngineOptions::new();
    how.set_env(&Env::new(
        std::sync::Arc::new(storage.memory.clone()),
        std::sync::Arc::new(koeldb::fs::SystemClock),
    ));
    let engine = BackupEngine::open("/backups", &how).unwrap();
    engine.create_new_backup(&db).unwrap();
    engine.restore_latest("/restored").unwrap();
    let export = family.export("/export").unwrap();
    let names: BTreeSet<String> = export.files.iter().map(|file| file.name.clone()).collect();
    let fs: &dyn FileSystem = &storage.memory;
    assert_eq!(tables(fs, "/export"), names);
    drop(db);
    for copy in ["/checkpoint", "/restored"] {
        let copied = Db::open(&storage.options(), copy).unwrap();
        assert_eq!(contents(copied.default_cf()), expected, "{copy}");
        assert!(places(copied.default_cf()).keys().all(|(_, at)| at == copy));
    }
    let other = Db::open(&storage.options(), "/other").unwrap();
    let mut own = ColumnFamilyOptions::from(&storage.options());
    own.set_cf_paths([DbPath::new(OWN, 0), DbPath::new("/more", 0)]);
    let imported = other
        .create_column_family_with_import("imported", &own, &[export], &Default::default())
        .unwrap();
    assert_eq!(contents(&imported), expected);
    assert!(places(&imported).keys().all(|(_, place)| place == OWN));
}

#[test]
fn tables_from_outside_go_to_the_first_directory() {
    let storage = Storage::new();
    let mut all = options(&storage);
    all.set_cf_paths([DbPath::new(OWN, 0), DbPath::new(SLOW, 0)]);
    let db = Db::open(&all, HERE).unwrap();
    let mut how = SstFileWriterOptions::new();
    how.set_env(all.get_env());
    let mut writer =
        SstFileWriter::create_opt(&db.default_cf().options(), "/new.sst", &how).unwrap();
    writer.put("a", "1").unwrap();
    writer.finish().unwrap();
    let family = db.default_cf();
    family
        .ingest_external_file_opt(&["/new.sst"], &IngestExternalFileOptions::new())
        .unwrap();
    assert!(places(family).keys().all(|(_, place)| place == OWN));
    assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"1"[..]));
}

#[test]
fn readers_and_secondaries_find_every_directory() {
    let storage = Storage::new();
    let options = options(&storage);
    let primary = Db::open(&options, HERE).unwrap();
    layered(primary.default_cf());
    let expected = contents(primary.default_cf());
    for keep in [KeepTables::Links, KeepTables::Descriptors] {
        let mut how = SecondaryOptions::new();
        how.set_keep(keep);
        let mut builder = Db::builder(&options);
        let secondary = builder.secondary_opt("/second", &how).open(HERE).unwrap();
        assert_eq!(contents(secondary.default_cf()), expected);
        secondary
            .create_checkpoint(format!("/of secondary {keep:?}"))
            .unwrap();
        let copy = Db::open(&storage.options(), format!("/of secondary {keep:?}")).unwrap();
        assert_eq!(contents(copy.default_cf()), expected);
        let error = Db::open_as_secondary(&options, HERE, "/slow/second").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
    drop(primary);
    let reader = Db::builder(&options).read_only().open(HERE).unwrap();
    assert_eq!(contents(reader.default_cf()), expected);
    assert!(places(reader.default_cf()).contains_key(&(1, SLOW.to_owned())));
    let reader = Db::builder(&options)
        .read_only()
        .untrusted()
        .open(HERE)
        .unwrap();
    assert_eq!(contents(reader.default_cf()), expected);
}

#[test]
fn a_repair_finds_the_tables_of_every_directory() {
    let storage = Storage::new();
    let options = options(&storage);
    let db = Db::open(&options, HERE).unwrap();
    layered(db.default_cf());
    let expected = contents(db.default_cf());
    drop(db);
    let fs: &dyn FileSystem = &storage.memory;
    let before = (tables(fs, FAST), tables(fs, SLOW));
    fs.remove_file(&Path::new(HERE).join("CURRENT")).unwrap();
    // One that cannot be read stays beside the others.
    let damaged = Path::new(SLOW).join("900001.sst");
    let file = fs.create(
        &damaged,
        &koeldb::fs::WriteOptions::new(koeldb::fs::Purpose::Other),
    );
    file.unwrap().close().unwrap();
    let mut with_families = options.clone();
    with_families.set_cf_paths(two());
    let error = Db::repair(&with_families, HERE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
    let error = Db::repair(&storage.options(), HERE)
        .unwrap_err()
        .to_string();
    assert!(error.contains("directory number 1 of db_paths"), "{error}");
    let report = Db::repair(&options, HERE).unwrap();
    assert_eq!(report.tables.len(), 3);
    assert!(fs.exists(Path::new("/slow/lost/900001.sst")).unwrap());
    assert_eq!((tables(fs, FAST), tables(fs, SLOW)), before);
    let db = Db::open(&options, HERE).unwrap();
    assert_eq!(contents(db.default_cf()), expected);
}

#[test]
fn a_destroyed_database_leaves_no_directory() {
    let storage = Storage::new();
    let mut options = options(&storage);
    let manager = SstFileManager::builder().build();
    options.set_sst_file_manager(&manager);
    let db = Db::open(&options, HERE).unwrap();
    let mut own = ColumnFamilyOptions::from(&options);
    own.set_cf_paths([DbPath::new(OWN, 1 << 30)]);
    let family = db.create_cf("own", &own).unwrap();
    layered(&family);
    layered(db.default_cf());
    let tracked = manager.get_tracked_files();
    for directory in [FAST, SLOW, OWN] {
        assert!(
            tracked.keys().any(|path| path.starts_with(directory)),
            "{directory}"
        );
    }
    drop((family, db));
    let families = [ColumnFamilyDescriptor::new("own", own)];
    Db::destroy_with_families(&options, HERE, &families).unwrap();
    let fs: &dyn FileSystem = &storage.memory;
    for directory in [HERE, FAST, SLOW, OWN] {
        assert!(!fs.exists(Path::new(directory)).unwrap(), "{directory}");
    }
}

#[test]
fn a_crash_loses_nothing_of_any_directory() {
    for seed in 0..20 {
        let storage = Storage::new();
        let db = Db::open(&options(&storage), HERE).unwrap();
        let family = db.default_cf();
        for round in 0..3 + u32::try_from(seed % 5).unwrap() {
            fill(family, round);
            family.flush().unwrap();
        }
        let expected = contents(family);
        let policy = SurvivalPolicy::Pages {
            unit_bytes: 512,
            percent: 50,
        };
        let image = storage.memory.crash_image(policy, seed);
        drop(db);
        let mut options = over(std::sync::Arc::new(image));
        options.set_db_paths(two());
        let db = Db::open(&options, HERE).unwrap();
        assert_eq!(contents(db.default_cf()), expected, "seed {seed}");
    }
}

#[test]
fn what_rocksdb_refuses_is_refused() {
    let storage = Storage::new();
    let path = |index: u32| DbPath::new(format!("/path{index}"), 0);
    let mut five = storage.options();
    five.set_db_paths((0..5).map(path));
    let error = Db::open(&five, HERE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
    let mut fifo = storage.options();
    fifo.set_compaction_style(CompactionStyle::Fifo)
        .set_db_paths((0..2).map(path));
    let error = Db::open(&fifo, HERE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
    let mut empty = storage.options();
    empty.set_db_paths([DbPath::new("", 0)]);
    let error = Db::open(&empty, HERE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    fifo.set_db_paths([path(0)]);
    Db::open(&fifo, HERE).unwrap();
    let error = Options::new()
        .apply_str("db_paths=/a:1", &ConfigOptions::new())
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
}

/// Three directories: level 0 fits into the first, level 1 into the second.
fn three(dir: &ScratchDir) -> Vec<DbPath> {
    vec![
        DbPath::new(dir.join("p0"), 300 << 20),
        DbPath::new(dir.join("p1"), 300 << 20),
        DbPath::new(dir.join("p2"), 0),
    ]
}

/// The setting of a list of directories for `Check.java`.
fn setting(name: &str, paths: &[DbPath]) -> String {
    let paths = paths
        .iter()
        .map(|path| format!("{}:{}", path.path.display(), path.target_size));
    format!("{name}={}", paths.collect::<Vec<_>>().join(","))
}

fn open_shared(dir: &ScratchDir, own: &[DbPath]) -> Db {
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .create_missing_column_families(true)
        .set_db_paths(three(dir))
        .set_level_zero_file_num_compaction_trigger(2);
    let mut family = ColumnFamilyOptions::from(&options);
    family.set_cf_paths(own.to_vec());
    Db::builder(&options)
        .column_family(ColumnFamilyDescriptor::new("own", family))
        .open(dir.join("db"))
        .unwrap()
}

/// The contents as `Check.java` prints them.
fn found(db: &Db) -> Expected {
    let mut found = Expected::default();
    for name in ["default", "own"] {
        let family = db.cf_handle(name).unwrap();
        *found.family(name) = contents(&family);
    }
    found
}

#[test]
fn rocksdb_and_koeldb_read_and_write_the_same_directories() {
    let Some(java) = Java::find() else { return };
    let dir = ScratchDir::new();
    let own = [
        DbPath::new(dir.join("o0"), 1),
        DbPath::new(dir.join("o1"), 0),
    ];
    let settings = [
        setting("db_paths", &three(&dir)),
        setting("cf_paths:own", &own),
    ];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let path = dir.join("db");
    // By KoelDB, with compactions into deeper levels.
    let db = open_shared(&dir, &own);
    for name in ["default", "own"] {
        let family = db.cf_handle(name).unwrap();
        for round in 0..5 {
            fill(&family, round);
            family.flush().unwrap();
        }
    }
    db.wait_for_compact(None).unwrap();
    let expected = found(&db);
    let ours: BTreeSet<String> = (db.live_files().iter())
        .map(|file| format!("{} {}", file.column_family, file.directory.display()))
        .collect();
    db.close().unwrap();
    drop(db);
    assert_eq!(java.check(&path, &settings).found, expected);
    let theirs = java.live(&path, &settings);
    let of = |line: &String| {
        let words: Vec<&str> = line.split('\t').collect();
        (
            words[1].to_owned(),
            words[2].to_owned(),
            words[3].to_owned(),
        )
    };
    let placed: BTreeSet<String> = theirs
        .iter()
        .map(of)
        .map(|(family, _, directory)| format!("{family} {directory}"))
        .collect();
    assert_eq!(placed, ours);
    assert!(ours.contains(&format!("default {}", dir.join("p1").display())));
    assert!(ours.contains(&format!("own {}", dir.join("o1").display())));
    // By RocksDB, which puts, deletes, flushes and compacts, and by KoelDB again.
    for round in 0..3 {
        java.write(&path, &settings);
        let expected = java.check(&path, &settings).found;
        let db = open_shared(&dir, &own);
        assert_eq!(found(&db), expected, "round {round}");
        db.verify_checksums().unwrap();
        for name in ["default", "own"] {
            let family = db.cf_handle(name).unwrap();
            let mut how = CompactRangeOptions::new();
            how.set_target_path_id(round % 2);
            family.compact_range_opt(.., &how).unwrap();
            fill(&family, 10 + round);
            family.flush().unwrap();
        }
        let expected = found(&db);
        db.close().unwrap();
        drop(db);
        assert_eq!(
            java.check(&path, &settings).found,
            expected,
            "round {round}"
        );
    }
}
