//! Rules of recovery from damaged logs (`docs/reliability.md`, W1 to W3), each by what it leaves on disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use koeldb::fs::{
    FileSystem, MemoryFileSystem, Purpose, SurvivalPolicy, SystemClock, WriteOptions,
};
use koeldb::{Db, Env, Options};

fn options(fs: &MemoryFileSystem) -> Options {
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .create_missing_column_families(true)
        .set_env(&Env::new(Arc::new(fs.clone()), Arc::new(SystemClock)));
    options
}

fn open(fs: &MemoryFileSystem) -> koeldb::Result<Db> {
    let options = options(fs);
    let mut builder = Db::builder(&options);
    builder.column_families(["default", "other"]);
    builder.open("/db")
}

fn read(fs: &MemoryFileSystem, path: &Path) -> Vec<u8> {
    fs.read_all(path, u64::MAX, Purpose::Other).unwrap()
}

/// The logs that hold something, oldest first.
fn logs(fs: &MemoryFileSystem) -> Vec<PathBuf> {
    let mut logs: Vec<PathBuf> = fs
        .list(Path::new("/db"))
        .unwrap()
        .into_iter()
        .filter(|entry| entry.name.ends_with(".log"))
        .map(|entry| Path::new("/db").join(entry.name))
        .filter(|path| !read(fs, path).is_empty())
        .collect();
    logs.sort();
    logs
}

/// What a dying process leaves, with a byte changed in the second record of its oldest log; that log, and its bytes.
fn damaged(fs: &MemoryFileSystem) -> (MemoryFileSystem, PathBuf, Vec<u8>) {
    let left = fs.crash_image(SurvivalPolicy::Generous, 0);
    let log = logs(&left).remove(0);
    let mut bytes = read(&left, &log);
    let second = 7 + usize::from(bytes[4]) + 7 + 20;
    bytes[second] ^= 0x10;
    left.remove_file(&log).unwrap();
    let mut file = left.create(&log, &WriteOptions::default()).unwrap();
    file.append(&bytes).unwrap();
    file.close().unwrap();
    (left, log, bytes)
}

#[test]
fn a_damaged_log_is_kept_and_the_next_one_says_that_it_continues() {
    let fs = MemoryFileSystem::new();
    let db = open(&fs).unwrap();
    for key in ["a", "b", "c"] {
        db.put(key, "value").unwrap();
    }
    let (left, log, bytes) = damaged(&fs);
    let db = open(&left).unwrap();
    assert!(db.get("a").unwrap().is_some() && db.get("b").unwrap().is_none());
    assert!(db.recovery_report().dropped_anything());
    // W3
    let kept = Path::new("/db/archive").join(log.file_name().unwrap());
    assert!(read(&left, &kept) == bytes, "the archive has another log");
    // W2: an empty batch with the next sequence number, in a record of its own.
    let newest = logs(&left).pop().unwrap();
    let first = &read(&left, &newest)[7..19];
    let next = db.latest_sequence_number() + 1;
    assert_eq!(first[..8], next.to_le_bytes(), "{}", newest.display());
    assert_eq!(first[8..], [0; 4]);
}

#[test]
fn families_from_before_and_behind_the_damage_are_not_opened_together() {
    let fs = MemoryFileSystem::new();
    let db = open(&fs).unwrap();
    let other = db.cf_handle("other").unwrap();
    for key in ["a", "b", "c"] {
        db.put(key, "value").unwrap();
        other.put(key, "value").unwrap();
    }
    other.flush().unwrap();
    db.put("d", "value").unwrap();
    let (left, _, _) = damaged(&fs);
    let error = open(&left).unwrap_err();
    assert!(error.is_corruption(), "{error}");
    assert!(error.to_string().contains("inconsistency"), "{error}");
}
