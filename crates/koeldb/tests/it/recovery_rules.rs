//! Rules of recovery from damaged logs (`docs/reliability.md`, W1 to W3), checked on disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use koeldb::fs::{
    FileSystem, MemoryFileSystem, Purpose, SurvivalPolicy, SystemClock, WriteOptions,
};
use koeldb::{Db, Env, ErrorKind, Options};

use crate::prelude::creating;
use crate::scratch::ScratchDir;

fn options(fs: &MemoryFileSystem) -> Options {
    let mut options = creating();
    options.set_env(&Env::new(Arc::new(fs.clone()), Arc::new(SystemClock)));
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

/// Returns what a killed process left, with a damaged byte in the second record of its oldest log.
///
/// Also returns the path of that log and its contents.
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
    // W2: an empty batch with the next sequence number, in a separate record.
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

/// Two logs, of which the older one ends early by so many records, or is not there.
fn with_a_gap(records_left: Option<usize>) -> (MemoryFileSystem, [PathBuf; 2]) {
    let fs = MemoryFileSystem::new();
    let db = open(&fs).unwrap();
    let other = db.cf_handle("other").unwrap();
    for key in ["a", "b", "c"] {
        other.put(key, "value").unwrap();
    }
    db.put("d", "value").unwrap();
    db.default_cf().flush().unwrap();
    db.put("e", "value").unwrap();
    db.flush_wal(true).unwrap();
    let left = fs.crash_image(SurvivalPolicy::Generous, 0);
    let logs: [PathBuf; 2] = logs(&left).try_into().unwrap();
    let bytes = read(&left, &logs[0]);
    left.remove_file(&logs[0]).unwrap();
    if let Some(count) = records_left {
        let mut end = 0;
        for _ in 0..count {
            end += 7 + usize::from(bytes[end + 4]);
        }
        let mut file = left.create(&logs[0], &WriteOptions::default()).unwrap();
        file.append(&bytes[..end]).unwrap();
        file.close().unwrap();
    }
    (left, logs)
}

#[test]
fn synced_batches_behind_a_gap_without_damage_are_never_left_out() {
    for records_left in [None, Some(0), Some(1), Some(2)] {
        let (left, logs) = with_a_gap(records_left);
        let before = logs.each_ref().map(|log| left.exists(log).unwrap());
        let error = open(&left).unwrap_err();
        assert!(error.is_corruption(), "{records_left:?}: {error}");
        for log in &logs {
            let name = log.display().to_string();
            assert!(error.to_string().contains(&name), "{name}: {error}");
        }
        assert_eq!(logs.each_ref().map(|log| left.exists(log).unwrap()), before);
    }
    let (left, _) = with_a_gap(Some(4));
    let db = open(&left).unwrap();
    assert!(db.get("e").unwrap().is_some());
}

#[test]
fn the_report_tells_a_damaged_last_record_from_a_torn_one() {
    let fs = MemoryFileSystem::new();
    let db = open(&fs).unwrap();
    for key in ["a", "b", "c"] {
        db.put(key, "value").unwrap();
    }
    let left = fs.crash_image(SurvivalPolicy::Generous, 0);
    let log = logs(&left).remove(0);
    let whole = read(&left, &log);
    let last = whole.len() - 7 - usize::from(whole[4]);
    let mut flipped = whole.clone();
    flipped[last + 4] ^= 0x80;
    let torn = whole[..whole.len() - 1].to_vec();
    for (bytes, lost) in [(flipped, 1), (torn, 0)] {
        let left = left.crash_image(SurvivalPolicy::Generous, 0);
        left.remove_file(&log).unwrap();
        let mut file = left.create(&log, &WriteOptions::default()).unwrap();
        file.append(&bytes).unwrap();
        file.close().unwrap();
        let db = open(&left).unwrap();
        assert!(db.get("b").unwrap().is_some() && db.get("c").unwrap().is_none());
        let report = db.recovery_report();
        assert_eq!(report.logs[0].intact_records_after, lost, "{report}");
    }
}

/// A log was replayed after one with a damaged first record, since no sequence number was expected.
#[test]
fn a_log_damaged_from_its_first_record_on_leaves_no_hole() {
    for is_dropped in [false, true] {
        let dir = ScratchDir::new();
        let mut options = creating();
        options.set_avoid_flush_during_shutdown(true);
        let (db, [kept, flushed]) = Db::open_cf(&options, dir.path(), ["kept", "flushed"]).unwrap();
        kept.put("first", "").unwrap();
        flushed.put("key", "").unwrap();
        flushed.flush().unwrap();
        kept.put("second", "").unwrap();
        if is_dropped {
            db.drop_cf(&flushed).unwrap();
        }
        drop((db, kept, flushed));
        let logs = dir.all("log");
        assert_eq!(logs.len(), 2, "{logs:?}");
        let mut bytes = std::fs::read(&logs[0]).unwrap();
        bytes[9] ^= 1;
        std::fs::write(&logs[0], bytes).unwrap();
        if is_dropped {
            let (db, [kept]) = Db::open_cf(&options, dir.path(), ["kept"]).unwrap();
            assert!(kept.get("second").unwrap().is_none());
            assert!(db.recovery_report().logs[1].ignored);
        } else {
            // A table has data from after the damage: there is no state without a gap.
            let error = Db::open_cf(&options, dir.path(), ["kept", "flushed"]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        }
    }
}
