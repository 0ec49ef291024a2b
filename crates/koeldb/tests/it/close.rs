//! Closes wait for calls that change the directory, and make the log durable.

use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::Duration;

use koeldb::{CompactRangeOptions, Db, Decision, ErrorKind, Severity};

use crate::gate::gate;
use crate::prelude::{LIMIT, creating, value};
use crate::scratch::ScratchDir;
use crate::wait::until;

fn table_path(dir: &Path, name: &str) -> PathBuf {
    dir.join(name.trim_start_matches('/'))
}

/// A close did not wait for a manual compaction, which wrote to a directory reopened by others.
#[test]
fn a_close_waits_for_calls_that_change_the_directory() {
    let dir = ScratchDir::new();
    let (gate, stands_there, open) = gate();
    let mut options = creating();
    options.set_disable_auto_compactions(true);
    let mut filtering = options.clone();
    filtering.set_compaction_filter("stands still", move |_, key, _| {
        if key == b"b" {
            gate.pass();
        }
        Decision::Keep
    });
    let db = Db::open(&filtering, dir.path()).unwrap();
    for value in ["1", "2", "3"] {
        db.put("a", value).unwrap();
        db.put("b", value).unwrap();
        db.flush().unwrap();
    }
    let compaction = std::thread::spawn({
        let db = db.clone();
        move || db.compact_all(&CompactRangeOptions::new())
    });
    stands_there.recv_timeout(LIMIT).unwrap();
    let (closed, closing) = channel();
    std::thread::spawn({
        let db = db.clone();
        move || closed.send(db.close())
    });
    until("the database is closing", || {
        db.get("a")
            .is_err_and(|error| error.kind() == ErrorKind::ShutdownInProgress)
    });
    assert!(closing.recv_timeout(Duration::from_millis(50)).is_err());
    drop(open);
    closing.recv_timeout(LIMIT).unwrap().unwrap();
    let _ = compaction.join().unwrap();
    let db = Db::open(&options, dir.path()).unwrap();
    assert_eq!(value(&db, "a").as_deref(), Some("3"));
    for file in db.live_files() {
        assert!(table_path(dir.path(), &file.name).exists(), "{}", file.name);
    }
}

/// A close after a failure did not make the log durable, although the log was healthy.
#[test]
fn a_close_after_a_failed_compaction_still_keeps_what_is_in_the_log() {
    let dir = ScratchDir::new();
    let mut options = creating();
    options
        .set_manual_wal_flush(true)
        .set_disable_auto_compactions(true);
    let db = Db::open(&options, dir.path()).unwrap();
    for value in ["1", "2"] {
        db.put("key", value).unwrap();
        db.flush().unwrap();
    }
    let tables: Vec<PathBuf> = db
        .live_files()
        .iter()
        .map(|file| table_path(dir.path(), &file.name))
        .collect();
    drop(db);
    let db = Db::open(&options, dir.path()).unwrap();
    db.put("only in the log", "value").unwrap();
    let mut bytes = std::fs::read(&tables[0]).unwrap();
    for byte in &mut bytes[..20] {
        *byte ^= 0x55;
    }
    std::fs::write(&tables[0], bytes).unwrap();
    let error = db.default_cf().compact_files(&tables, 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert_eq!(
        db.put("key", "3").unwrap_err().severity(),
        Severity::Unrecoverable
    );
    let error = db.close().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    drop(db);
    let db = Db::open(&options, dir.path()).unwrap();
    assert_eq!(value(&db, "only in the log").as_deref(), Some("value"));
}
