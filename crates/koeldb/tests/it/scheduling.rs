//! The order in which column families get the background threads.

use std::sync::{Arc, Mutex};

use koeldb::fs::{ManualClock, MemoryFileSystem};
use koeldb::{
    ColumnFamily, ColumnFamilyOptions, CompactionStyle, Db, Env, Event, FlushOptions, Options,
};

/// A database without threads, and the families of its compactions in their order.
struct Scheduled {
    env: Env,
    db: Db,
    compacted: Arc<Mutex<Vec<String>>>,
}

impl Scheduled {
    fn new(seed: u64) -> Self {
        let memory = MemoryFileSystem::new();
        let env = Env::stepped(Arc::new(memory), Arc::new(ManualClock::new()), seed);
        let compacted = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&compacted);
        let mut options = Options::new();
        options
            .create_if_missing(true)
            .set_env(&env)
            .set_max_background_jobs(2)
            .add_event_listener(move |event: &Event<'_>| {
                if let Event::CompactionCompleted(info) = event {
                    seen.lock().unwrap().push(info.column_family.clone());
                }
            });
        let db = Db::open(&options, "/db").unwrap();
        Scheduled { env, db, compacted }
    }

    /// Creates a family that compacts from the first file on, and stops writes at `stop`.
    fn family(&self, name: &str, stop: u32) -> ColumnFamily {
        let mut options = ColumnFamilyOptions::new();
        options
            .set_disable_auto_compactions(true)
            .set_level_zero_file_num_compaction_trigger(1)
            .set_level_zero_slowdown_writes_trigger(stop)
            .set_level_zero_stop_writes_trigger(stop);
        self.db.create_cf(name, &options).unwrap()
    }
}

fn flush(family: &ColumnFamily, count: u32) {
    for index in 0..count {
        family.put("key", index.to_le_bytes()).unwrap();
        family.flush().unwrap();
    }
}

fn compact_from_now_on(family: &ColumnFamily) {
    family
        .set_options([("disable_auto_compactions", "false")])
        .unwrap();
}

#[test]
fn the_family_nearest_to_a_stop_is_compacted_first() {
    for seed in 1..=8 {
        let scheduled = Scheduled::new(seed);
        let first = scheduled.family("first", 1000);
        let near = scheduled.family("near", 20);
        let stopped = scheduled.family("stopped", 10);
        flush(&first, 15);
        flush(&near, 15);
        flush(&stopped, 15);
        for family in [&first, &near, &stopped] {
            compact_from_now_on(family);
        }
        while scheduled.env.step() {}
        let compacted = scheduled.compacted.lock().unwrap();
        assert_eq!(*compacted, ["stopped", "near", "first"], "seed {seed}");
    }
}

#[test]
fn no_job_starts_while_background_work_is_paused() {
    let scheduled = Scheduled::new(1);
    let family = scheduled.family("family", 1000);
    flush(&family, 3);
    scheduled.db.pause_background_work().unwrap();
    scheduled.db.pause_background_work().unwrap();
    compact_from_now_on(&family);
    while scheduled.env.step() {}
    scheduled.db.continue_background_work().unwrap();
    while scheduled.env.step() {}
    family.put("key", "sealed").unwrap();
    let mut without_wait = FlushOptions::new();
    without_wait.set_wait(false);
    family.flush_opt(&without_wait).unwrap();
    while scheduled.env.step() {}
    assert_eq!(
        family
            .property_int_value("rocksdb.num-immutable-mem-table")
            .unwrap(),
        Some(1)
    );
    assert!(scheduled.compacted.lock().unwrap().is_empty());
    scheduled.db.continue_background_work().unwrap();
    while scheduled.env.step() {}
    assert!(!scheduled.compacted.lock().unwrap().is_empty());
    assert_eq!(
        family
            .property_int_value("rocksdb.num-immutable-mem-table")
            .unwrap(),
        Some(0)
    );
    let error = scheduled.db.continue_background_work().unwrap_err();
    assert_eq!(error.kind(), koeldb::ErrorKind::InvalidArgument);
    // A close does not wait for the end of a pause.
    scheduled.db.pause_background_work().unwrap();
    scheduled.db.put("key", "value").unwrap();
    scheduled.db.close().unwrap();
}

#[test]
fn the_runs_of_all_levels_bring_a_universal_family_nearer_to_a_stop() {
    for seed in 1..=8 {
        let scheduled = Scheduled::new(seed);
        let mut options = ColumnFamilyOptions::new();
        options
            .set_compaction_style(CompactionStyle::Universal)
            .set_disable_auto_compactions(true)
            .set_level_zero_slowdown_writes_trigger(10)
            .set_level_zero_stop_writes_trigger(10);
        let near = scheduled.db.create_cf("near", &options).unwrap();
        flush(&near, 1);
        near.compact_range(..).unwrap();
        scheduled.compacted.lock().unwrap().clear();
        // 8 of 10, of which one is in the last level, beside 15 of 20.
        flush(&near, 7);
        let far = scheduled.family("far", 20);
        flush(&far, 15);
        for family in [&far, &near] {
            compact_from_now_on(family);
        }
        while scheduled.env.step() {}
        let compacted = scheduled.compacted.lock().unwrap();
        assert_eq!(compacted[0], "near", "seed {seed}");
    }
}

#[test]
fn a_family_with_little_to_compact_gets_its_turn_beside_an_urgent_one() {
    for seed in 1..=8 {
        let scheduled = Scheduled::new(seed);
        let urgent = scheduled.family("urgent", 2);
        let patient = scheduled.family("patient", 1000);
        flush(&patient, 1);
        flush(&urgent, 1);
        compact_from_now_on(&urgent);
        compact_from_now_on(&patient);
        for _ in 0..40 {
            flush(&urgent, 1);
        }
        while scheduled.env.step() {}
        let compacted = scheduled.compacted.lock().unwrap();
        let before = compacted.iter().position(|name| name == "patient");
        assert!(before.is_some_and(|before| before < 25), "{compacted:?}");
    }
}
