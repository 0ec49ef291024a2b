//! Options of single writes, flushes and reads.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use koeldb::fs::{
    Clock, FaultAction, FaultFileSystem, FaultRule, ManualClock, MemoryFileSystem, Operation,
    Purpose, SystemClock,
};
use koeldb::{Db, Env, ErrorKind, FlushOptions, Options, ReadOptions, WriteBatch, WriteOptions};

use crate::model::base_options;

/// An environment in which syncs of files of `purpose` end when something is sent, or at the drop
/// of the sender.
fn standing_still(purpose: Purpose, clock: Arc<dyn Clock>) -> (Env, Sender<()>) {
    let (go_on, gone_on) = channel::<()>();
    let gone_on = Mutex::new(gone_on);
    let faults = FaultFileSystem::new(Arc::new(MemoryFileSystem::new()), 1);
    let stand_still = FaultAction::Call(Arc::new(move |_| {
        let _ = gone_on
            .lock()
            .unwrap()
            .recv_timeout(Duration::from_secs(120));
    }));
    let rule = FaultRule::new(stand_still).on(&[Operation::SyncData, Operation::SyncAll]);
    faults.add_rule(rule.purpose(purpose));
    (Env::new(Arc::new(faults), clock), go_on)
}

fn options() -> Options {
    let mut options = base_options();
    options.set_disable_auto_compactions(true);
    options
}

#[test]
fn a_write_skips_dropped_families_if_it_says_so() {
    let mut options = options();
    options.create_missing_column_families(true);
    let (db, [kept, dropped]) = Db::open_cf(&options, "/missing", ["kept", "dropped"]).unwrap();
    db.drop_cf(&dropped).unwrap();
    let mut batch = WriteBatch::new();
    batch.put_cf(&kept, "a", "1");
    batch.put_cf(&dropped, "b", "2");
    batch.put_cf(&kept, "c", "3");
    let error = db.write(&batch).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ColumnFamilyDropped);
    assert_eq!(kept.get("a").unwrap(), None);
    let mut write = WriteOptions::new();
    write.set_ignore_missing_column_families(true);
    db.write_opt(&batch, &write).unwrap();
    assert_eq!(kept.get("c").unwrap().unwrap(), "3");
    drop((db, kept, dropped));
    let (_db, [kept]) = Db::open_cf(&options, "/missing", ["kept"]).unwrap();
    for (key, value) in [("a", "1"), ("c", "3")] {
        assert_eq!(kept.get(key).unwrap().unwrap(), value);
    }
    assert_eq!(kept.get("b").unwrap(), None);
}

#[test]
fn a_write_of_low_priority_waits_while_compactions_lag() {
    let clock = ManualClock::new();
    let (env, go_on) = standing_still(Purpose::Compaction, Arc::new(clock.clone()));
    let mut options = options();
    options
        .set_level_zero_file_num_compaction_trigger(2)
        .set_level_zero_slowdown_writes_trigger(40)
        .set_level_zero_stop_writes_trigger(50)
        .set_env(&env);
    let db = Db::open(&options, "/low").unwrap();
    for index in 0..6 {
        db.put("a", index.to_string()).unwrap();
        db.flush().unwrap();
    }
    let mut low = WriteOptions::new();
    low.set_low_pri(true).set_no_slowdown(true);
    // Without automatic compactions nothing lags.
    db.put_opt("b", "free", &low).unwrap();
    db.set_options([("disable_auto_compactions", "false")])
        .unwrap();
    let error = db.put_opt("b", "refused", &low).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incomplete, "{error}");
    assert!(error.message().contains("compactions lag"), "{error}");
    low.set_no_slowdown(false)
        .set_stall_timeout(Duration::from_millis(20));
    let error = db.put_opt("b", vec![0; 300_000], &low).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    low.set_stall_timeout(None);
    let begun = clock.now();
    db.put_opt("b", vec![0; 100_000], &low).unwrap();
    assert!(clock.now() - begun > Duration::from_millis(90));
    // Others do not wait.
    low.set_low_pri(false).set_no_slowdown(true);
    db.put_opt("c", vec![0; 100_000], &low).unwrap();
    drop(go_on);
}

#[test]
fn a_flush_waits_until_it_stalls_no_write() {
    let (env, open) = standing_still(Purpose::Flush, Arc::new(SystemClock));
    let mut options = Options::new();
    options.create_if_missing(true).set_env(&env);
    let db = Db::open(&options, "/stall").unwrap();
    let flush = |stalls: bool| {
        let mut options = FlushOptions::new();
        options.set_wait(false).set_allow_write_stall(stalls);
        db.flush_opt(&options)
    };
    let is_stopped = || db.property_int_value("rocksdb.is-write-stopped").unwrap() == Some(1);
    db.put("a", "1").unwrap();
    flush(true).unwrap();
    db.put("a", "2").unwrap();
    std::thread::scope(|scope| {
        // One sealed memtable more, and writes stop: it waits for the flush that stands still.
        let waiting = scope.spawn(|| flush(false));
        std::thread::sleep(Duration::from_millis(100));
        assert!(!waiting.is_finished());
        assert!(!is_stopped());
        flush(true).unwrap();
        assert!(is_stopped());
        // Its memtable is sealed, by another.
        waiting.join().unwrap().unwrap();
    });
    drop(open);
    db.put("a", "3").unwrap();
    flush(false).unwrap();
}

#[test]
fn a_scan_skips_the_tables_that_its_filter_rejects() {
    let db = Db::open(&options(), "/filter").unwrap();
    for key in ["a", "b", "c"] {
        db.put(key, "old").unwrap();
        db.flush().unwrap();
    }
    // They are moved.
    db.compact_range(..).unwrap();
    assert_eq!(db.live_files().len(), 3);
    db.put("b", "new").unwrap();
    db.put("d", "new").unwrap();
    db.delete("x").unwrap();
    db.flush().unwrap();
    db.put("e", "memtable").unwrap();
    let scan = |options: &ReadOptions| -> Vec<(Vec<u8>, Vec<u8>)> {
        db.range_opt(.., options)
            .map(|entry| entry.unwrap())
            .map(|(key, value)| (key.to_vec(), value.to_vec()))
            .collect()
    };
    let named = |entries: &[(&str, &str)]| -> Vec<(Vec<u8>, Vec<u8>)> {
        let pairs = entries.iter();
        pairs
            .map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec()))
            .collect()
    };
    let mut read = ReadOptions::new();
    assert_eq!(scan(&read).len(), 5);
    read.set_table_filter(|table| table.num_deletions == 0);
    assert_eq!(
        scan(&read),
        named(&[("a", "old"), ("b", "old"), ("c", "old"), ("e", "memtable")])
    );
    read.set_table_filter(|table| table.num_deletions > 0);
    assert_eq!(
        scan(&read),
        named(&[("b", "new"), ("d", "new"), ("e", "memtable")])
    );
    read.set_table_filter(|_| false);
    assert_eq!(scan(&read), named(&[("e", "memtable")]));
}
