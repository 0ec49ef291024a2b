//! Relative paths: objects that keep one find their files after a change of the directory.

use std::path::Path;
use std::process::Command;

use koeldb::{
    BackupEngine, BackupEngineOptions, CheckpointOptions, Db, ExportedColumnFamily,
    ImportColumnFamilyOptions, IngestExternalFileArg, IngestExternalFileOptions, Options,
    RestoreOptions, SstFileReader, SstFileSorter, SstFileSorterOptions, SstFileWriter,
};

use crate::scratch::{ScratchDir, files};

/// The environment variable with the second directory for `change_the_working_directory`.
const ELSEWHERE: &str = "KOELDB_TEST_ELSEWHERE";

/// Writes enough to roll LOG, to begin new logs and to add tables.
fn work(db: &Db, round: u32) {
    for key in 0..20 {
        db.put(format!("{round} {key}"), [1; 100]).unwrap();
    }
    db.flush().unwrap();
}

fn count(db: &Db) -> usize {
    db.range(..).map(Result::unwrap).count()
}

/// The other process of `objects_opened_by_relative_paths_survive_a_change_of_directory`.
#[test]
#[ignore = "run by another test in a process of its own"]
fn change_the_working_directory() {
    let elsewhere = std::env::var_os(ELSEWHERE).unwrap();
    let home = std::env::current_dir().unwrap();
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_wal_dir("logs")
        .set_db_log_dir("info")
        .set_max_log_file_size(2000);
    let db = Db::open(&options, "db").unwrap();
    work(&db, 0);
    let read_only = Db::builder(&options).read_only().open("./db").unwrap();
    let secondary = Db::open_as_secondary(&options, "db", "own").unwrap();
    let cf_options = options.cf_options();
    let mut writer = SstFileWriter::create(cf_options, "written.sst").unwrap();
    let mut how = SstFileSorterOptions::new();
    how.set_memory_bytes(100);
    let mut sorter = SstFileSorter::create_opt(cf_options, "sorted", &how).unwrap();
    sorter.put("y", [1; 100]).unwrap();
    let mut ingested = SstFileWriter::create(cf_options, "ingested.sst").unwrap();
    ingested.put("ingested", "value").unwrap();
    ingested.finish().unwrap();
    let mut moved = IngestExternalFileOptions::new();
    moved.set_move_files(true);
    let arg = IngestExternalFileArg::new(db.default_cf(), ["ingested.sst"]);
    let prepared = db.prepare_ingest(&[arg], &moved).unwrap();
    let engine = BackupEngine::open("backups", &BackupEngineOptions::new()).unwrap();
    db.default_cf().export("export").unwrap();
    let export = ExportedColumnFamily::read(&db, "export").unwrap();

    std::env::set_current_dir(&elsewhere).unwrap();
    assert_eq!(db.path(), home.join("db"));
    prepared.commit().unwrap();
    writer.put("written", "value").unwrap();
    let written = writer.finish().unwrap();
    SstFileReader::open(cf_options, &written.path)
        .unwrap()
        .verify_checksums()
        .unwrap();
    sorter.put("x", [1; 100]).unwrap();
    let sorted = sorter.finish().unwrap();
    for info in sorted.iter().chain([&written]) {
        assert!(info.path.starts_with(&home), "{info:?}");
        db.ingest_external_file(&[&info.path]).unwrap();
    }
    db.create_column_family_with_import(
        "imported",
        cf_options,
        &[export],
        &ImportColumnFamilyOptions::new(),
    )
    .unwrap();
    for round in 1..4 {
        work(&db, round);
    }
    db.compact_all(&koeldb::CompactRangeOptions::new()).unwrap();
    secondary.try_catch_up_with_primary().unwrap();
    assert_eq!(count(&read_only), 20);
    assert_eq!(count(&secondary), count(&db));
    assert_eq!(count(&db), 84);
    engine.create_new_backup(&db).unwrap();
    engine
        .restore(1, "restored", "restored", &RestoreOptions::new())
        .unwrap();
    db.create_checkpoint_opt("checkpoint", &CheckpointOptions::new())
        .unwrap();
    db.put("last", "value").unwrap();
    db.close().unwrap();
    drop((db, read_only, secondary, engine));

    std::env::set_current_dir(&home).unwrap();
    let db = Db::builder(&options)
        .other_column_families(cf_options)
        .open("db")
        .unwrap();
    assert_eq!(count(&db), 85);
}

#[test]
fn objects_opened_by_relative_paths_survive_a_change_of_directory() {
    let (home, elsewhere) = (ScratchDir::new(), ScratchDir::new());
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "working_directory::change_the_working_directory"])
        .args(["--ignored", "--nocapture"])
        .env(ELSEWHERE, elsewhere.path())
        .current_dir(home.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    // The calls after the change took their arguments from there, and nothing else is there.
    let mut names: Vec<String> = std::fs::read_dir(elsewhere.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["checkpoint", "restored"]);
    assert!(!home.join("ingested.sst").exists());
    let info_logs = files(&home.join("info"));
    assert!(info_logs.len() > 1, "LOG rolls in its own directory");
    assert!(Path::new(&home.join("logs")).exists());
}
