//! Databases whose logs are in a directory of their own.

use koeldb::{Db, Options};

use crate::scratch::ScratchDir;

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
fn an_interrupted_destruction_leaves_no_database_that_lacks_its_logs() {
    let dir = ScratchDir::new();
    let (path, logs) = (dir.join("db"), dir.join("logs"));
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_avoid_flush_during_shutdown(true)
        .set_wal_dir(&logs);
    let db = Db::open(&options, &path).unwrap();
    db.put("key", "value").unwrap();
    db.close().unwrap();
    drop(db);
    // No file, so its removal fails.
    let obstacle = logs.join("900000.log");
    std::fs::create_dir(&obstacle).unwrap();
    Db::destroy(&options, &path).unwrap_err();
    assert!(!path.join("CURRENT").exists());
    std::fs::remove_dir(&obstacle).unwrap();
    Db::destroy(&options, &path).unwrap();
    assert!(!path.exists() && !logs.exists());
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
