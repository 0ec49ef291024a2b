//! Panics of what users plug in: they stop writes, and nothing half done is seen.

use std::cmp::Ordering;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering as Memory};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use koeldb::{CompactRangeOptions, Comparator, Db, ErrorDetail, Event, Severity, WriteBatch};

use crate::prelude::{LIMIT, creating, in_time, value};
use crate::scratch::ScratchDir;

/// A background compaction that panicked ran again, and again, and writes went on.
#[test]
fn a_panic_in_a_background_compaction_stops_writes_and_is_not_repeated() {
    let dir = ScratchDir::new();
    let calls = Arc::new(AtomicU64::new(0));
    let (failed, failures) = channel();
    let failed = Mutex::new(failed);
    let mut options = creating();
    options.set_disable_auto_compactions(true);
    let counted = Arc::clone(&calls);
    options.set_compaction_filter("panics", move |_, _, _| {
        counted.fetch_add(1, Memory::SeqCst);
        panic!("the filter panics, as the test wants it")
    });
    options.add_event_listener(move |event: &Event<'_>| {
        if let Event::BackgroundError(error) = event {
            let _ = failed.lock().unwrap().send(error.severity());
        }
    });
    let db = Db::open(&options, dir.path()).unwrap();
    for _ in 0..5 {
        db.put("a", "value").unwrap();
        db.put("b", "value").unwrap();
        db.flush().unwrap();
    }
    db.default_cf()
        .set_options([("disable_auto_compactions", "false")])
        .unwrap();
    assert_eq!(failures.recv_timeout(LIMIT).unwrap(), Severity::Fatal);
    let refusals = in_time("what follows a panic", {
        let db = db.clone();
        move || {
            [
                db.put("c", "value"),
                db.flush(),
                db.compact_all(&CompactRangeOptions::new()),
                db.wait_for_compact(None),
                db.resume(),
            ]
        }
    });
    for refusal in refusals {
        let error = refusal.unwrap_err();
        assert_eq!(error.detail(), Some(ErrorDetail::PluginPanicked), "{error}");
    }
    let errors = db.property_int_value("rocksdb.background-errors");
    assert_eq!(errors.unwrap(), Some(1));
    assert_eq!(value(&db, "a").as_deref(), Some("value"), "reads go on");
    assert!(db.close().is_err());
    assert_eq!(calls.load(Memory::SeqCst), 1);
}

/// Bytewise, but for the key `boom` while it is armed.
#[derive(Debug)]
struct Panics {
    is_armed: Arc<AtomicBool>,
}

impl Comparator for Panics {
    fn name(&self) -> &'static str {
        "panics.Comparator"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let is_armed = self.is_armed.load(Memory::SeqCst);
        assert!(
            !(is_armed && (a == b"boom" || b == b"boom")),
            "the comparator panics, as the test wants it"
        );
        a.cmp(b)
    }
}

/// After a panic of a comparator in a batch, the next write made its first part visible.
#[test]
fn a_batch_torn_by_a_panic_is_never_seen() {
    let dir = ScratchDir::new();
    let is_armed = Arc::new(AtomicBool::new(false));
    let mut options = creating();
    options.set_comparator(Panics {
        is_armed: Arc::clone(&is_armed),
    });
    let db = Db::open(&options, dir.path()).unwrap();
    db.put("a", "value").unwrap();
    db.put("b", "value").unwrap();
    is_armed.store(true, Memory::SeqCst);
    let mut batch = WriteBatch::new();
    batch.put("part", "").put("boom", "").put("rest", "");
    let error = db.write(&batch).unwrap_err();
    assert_eq!(error.detail(), Some(ErrorDetail::PluginPanicked), "{error}");
    is_armed.store(false, Memory::SeqCst);
    assert_eq!(db.put("c", "").unwrap_err().severity(), Severity::Fatal);
    assert_eq!(value(&db, "part"), None);
    assert_eq!(value(&db, "rest"), None);
    assert!(db.close().is_err());
    drop(db);
    // The log has the whole batch.
    let db = Db::open(&options, dir.path()).unwrap();
    assert!(value(&db, "part").is_some() && value(&db, "rest").is_some());
}
