//! Compactions on request: their size, their end, and what they leave.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use koeldb::{
    BottommostLevelCompaction, CancelToken, CompactRangeOptions, CompactionOptions, Compression,
    Db, Decision, Env, ErrorKind, Event, IteratorMode, Options,
};

use crate::prelude::LIMIT;
use crate::wait::until;

const MAX_BYTES: u64 = 20_000;

type Jobs = Arc<Mutex<Vec<(u64, usize)>>>;

/// Small tables, compactions of at most `MAX_BYTES`, and the input bytes and output level of each.
fn options(env: &Env) -> (Options, Jobs) {
    let jobs = Jobs::default();
    let seen = Arc::clone(&jobs);
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_env(env)
        .set_disable_auto_compactions(true)
        .set_level_compaction_dynamic_level_bytes(false)
        .set_compression_type(Compression::None)
        .set_target_file_size_base(4000)
        .set_max_compaction_bytes(MAX_BYTES)
        .add_event_listener(move |event: &Event<'_>| {
            if let Event::CompactionCompleted(info) = event
                && info.error.is_none()
            {
                let job = (info.input_bytes, info.output_level);
                seen.lock().unwrap().push(job);
            }
        });
    (options, jobs)
}

fn key(number: u32) -> String {
    format!("key {number:05}")
}

/// Writes every `step`-th of 1,000 keys.
fn fill(db: &Db, step: usize, text: &str) {
    for number in (0..1000).step_by(step) {
        db.put(key(number), format!("{text} {number} {}", "x".repeat(60)))
            .unwrap();
    }
    db.flush().unwrap();
}

fn content(db: &Db) -> Vec<(Vec<u8>, Vec<u8>)> {
    db.iterator(IteratorMode::Start)
        .map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())))
        .collect::<Result<_, _>>()
        .unwrap()
}

fn files_at(db: &Db, level: u32) -> u64 {
    let name = format!("rocksdb.num-files-at-level{level}");
    db.property_int_value(&name).unwrap().unwrap()
}

fn compact_level0_to(db: &Db, level: u32) {
    let files = db.live_files().into_iter();
    let level0 = files.filter(|file| file.level == 0);
    let paths: Vec<_> = level0.map(|file| db.path().join(&file.name)).collect();
    db.default_cf().compact_files(&paths, level).unwrap();
}

/// Two levels of many tables, level 1 above level 2.
fn two_levels(db: &Db) {
    fill(db, 1, "old");
    compact_level0_to(db, 2);
    fill(db, 2, "new");
    compact_level0_to(db, 1);
    assert!(files_at(db, 1) > 5 && files_at(db, 2) > 10);
}

#[test]
fn a_range_is_compacted_in_parts_of_the_permitted_size() {
    let env = Env::mem_env();
    let (options, jobs) = options(&env);
    let db = Db::open(&options, "/db").unwrap();
    two_levels(&db);
    let expected = content(&db);
    jobs.lock().unwrap().clear();
    let mut how = CompactRangeOptions::new();
    how.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
    db.compact_all(&how).unwrap();
    let jobs = jobs.lock().unwrap().clone();
    assert!(jobs.len() > 5, "{jobs:?}");
    for (bytes, _) in &jobs {
        // A part has at least one table of the upper level and what it overlaps.
        assert!(*bytes <= MAX_BYTES + 5000, "{jobs:?}");
    }
    assert_eq!(files_at(&db, 1), 0);
    assert_eq!(content(&db), expected);
    assert_eq!(expected.len(), 1000);
}

#[test]
fn three_levels_are_merged_at_once_if_that_is_permitted() {
    let env = Env::mem_env();
    let (options, jobs) = options(&env);
    let db = Db::open(&options, "/db").unwrap();
    for is_permitted in [true, false] {
        let max = if is_permitted { 1 << 20 } else { MAX_BYTES };
        db.set_options([("max_compaction_bytes", max.to_string())])
            .unwrap();
        two_levels(&db);
        fill(&db, 3, "newest");
        db.delete_range(key(500), key(600)).unwrap();
        db.flush().unwrap();
        let expected = content(&db);
        jobs.lock().unwrap().clear();
        db.compact_range(..).unwrap();
        let outputs: Vec<usize> = jobs.lock().unwrap().iter().map(|job| job.1).collect();
        match is_permitted {
            true => assert_eq!(outputs, [2]),
            false => assert!(outputs.len() > 2 && outputs.contains(&1), "{outputs:?}"),
        }
        assert_eq!((files_at(&db, 0), files_at(&db, 1)), (0, 0));
        assert_eq!(content(&db), expected);
        db.delete_range(key(0), key(2000)).unwrap();
        db.compact_range(..).unwrap();
        assert_eq!(content(&db), []);
    }
}

#[test]
fn a_level_moves_to_an_empty_level_or_is_refused() {
    let env = Env::mem_env();
    let (options, jobs) = options(&env);
    let db = Db::open(&options, "/db").unwrap();
    two_levels(&db);
    let expected = content(&db);
    jobs.lock().unwrap().clear();
    let mut how = CompactRangeOptions::new();
    how.set_change_level(true);
    for (target, level) in [(Some(5), 5), (Some(3), 3), (None, 1)] {
        how.set_target_level(target);
        db.compact_all(&how).unwrap();
        assert!(files_at(&db, level) > 10, "{target:?}");
    }
    for target in [0, 7] {
        let error = db.compact_all(how.set_target_level(target)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
    // A range of level 3 below a level that is in use.
    db.compact_all(how.set_target_level(3)).unwrap();
    fill(&db, 50, "newest");
    let newest = content(&db);
    compact_level0_to(&db, 2);
    let range = "a".."b";
    db.default_cf().compact_range_opt(range, &how).unwrap();
    assert_eq!(content(&db), newest);
    drop(db);
    let db = Db::open(&options, "/db").unwrap();
    assert_eq!(content(&db), newest);
    assert_eq!(expected.len(), newest.len());
}

#[test]
fn a_cancelled_compaction_ends_with_what_it_has_completed() {
    let env = Env::mem_env();
    let (mut options, jobs) = options(&env);
    let token = CancelToken::new();
    let (cancels, count) = (token.clone(), Arc::clone(&jobs));
    options.set_compaction_filter("cancels in the third job", move |_, _, _| {
        if count.lock().unwrap().len() == 2 {
            cancels.cancel();
        }
        Decision::Keep
    });
    let db = Db::open(&options, "/db").unwrap();
    for text in ["1", "2"] {
        fill(&db, 1, text);
    }
    let expected = content(&db);
    let mut how = CompactRangeOptions::new();
    how.set_bottommost_level_compaction(BottommostLevelCompaction::Force)
        .set_canceled(&token);
    let error = db.compact_all(&how).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incomplete, "{error}");
    assert_eq!(jobs.lock().unwrap().len(), 2);
    assert_eq!(content(&db), expected);
    until("the removal of all other tables", || {
        let names = env.file_system().list("/db".as_ref()).unwrap();
        let tables = names.iter().filter(|entry| entry.name.ends_with(".sst"));
        tables.count() == db.live_files().len()
    });
    // Nothing has failed, and others run.
    assert!(db.compact_all(&how).is_err());
    db.compact_all(&CompactRangeOptions::new()).unwrap();
    db.put("written", "after").unwrap();
}

#[test]
fn disabled_manual_compactions_end_and_are_refused_until_they_are_enabled() {
    let env = Env::mem_env();
    let (mut options, _) = options(&env);
    let (begun, is_begun) = channel::<()>();
    let begun = Mutex::new(Some(begun));
    options.set_compaction_filter("says that it began", move |_, _, _| {
        if let Some(begun) = begun.lock().unwrap().take() {
            begun.send(()).unwrap();
        }
        std::thread::sleep(Duration::from_millis(1));
        Decision::Keep
    });
    let db = Db::open(&options, "/db").unwrap();
    fill(&db, 1, "1");
    fill(&db, 1, "2");
    let other = db.clone();
    let compaction = std::thread::spawn(move || other.compact_all(&CompactRangeOptions::new()));
    is_begun.recv_timeout(LIMIT).unwrap();
    db.disable_manual_compaction();
    db.disable_manual_compaction();
    let error = compaction.join().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incomplete, "{error}");
    db.enable_manual_compaction();
    let refused = db.default_cf().compact_range(..).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Incomplete, "{refused}");
    db.enable_manual_compaction();
    db.default_cf().compact_range(..).unwrap();
    assert_eq!(files_at(&db, 0), 0);
}

#[test]
fn named_files_are_compacted_with_the_given_codec_and_table_size() {
    let env = Env::mem_env();
    let (options, _) = options(&env);
    let db = Db::open(&options, "/db").unwrap();
    fill(&db, 1, "1");
    fill(&db, 1, "2");
    let expected = content(&db);
    let files: Vec<_> = db
        .live_files()
        .iter()
        .map(|file| db.path().join(&file.name))
        .collect();
    let mut how = CompactionOptions::new();
    how.set_output_file_size_limit(20_000)
        .set_max_subcompactions(2);
    let made = db.default_cf().compact_files_opt(&files, 3, &how).unwrap();
    assert!((3..10).contains(&made.len()), "{made:?}");
    let token = CancelToken::new();
    token.cancel();
    how.set_canceled(&token);
    let error = db
        .default_cf()
        .compact_files_opt(&made, 3, &how)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incomplete, "{error}");
    assert_eq!(content(&db), expected);
}

#[test]
fn files_inside_a_range_are_dropped_and_others_stay() {
    let env = Env::mem_env();
    let (options, _) = options(&env);
    let db = Db::open(&options, "/db").unwrap();
    two_levels(&db);
    db.put(key(500), "in memory").unwrap();
    let before = content(&db);
    let files = db.live_files().len();
    let family = db.default_cf();
    family.delete_files_in_range(key(200)..key(800)).unwrap();
    assert!(db.live_files().len() < files - 10);
    let after = content(&db);
    let outside = |key: &[u8]| key < self::key(200).as_bytes() || key >= self::key(800).as_bytes();
    for (key, value) in &before {
        if outside(key) {
            assert!(after.contains(&(key.clone(), value.clone())));
        }
    }
    assert_eq!(&*db.get(key(500)).unwrap().unwrap(), b"in memory");
    assert!(after.len() < 500);
    // An exclusive end keeps the table that ends there, an inclusive one drops it.
    let last = db.live_files().into_iter().filter(|file| file.level == 2);
    let last = last.max_by_key(|file| file.largest_key.clone()).unwrap();
    let (from, to) = (last.smallest_key.clone(), last.largest_key.clone());
    family.delete_files_in_range(&*from..&*to).unwrap();
    assert!(db.live_files().iter().any(|file| file.name == last.name));
    family.delete_files_in_ranges([&*from..=&*to]).unwrap();
    assert!(db.live_files().iter().all(|file| file.name != last.name));
    let expected = content(&db);
    drop(db);
    let db = Db::open(&options, "/db").unwrap();
    assert_eq!(content(&db), expected);
}

#[test]
fn a_suggested_range_is_compacted_although_no_level_is_full() {
    let env = Env::mem_env();
    let (options, _) = options(&env);
    let db = Db::open(&options, "/db").unwrap();
    two_levels(&db);
    let expected = content(&db);
    let before = files_at(&db, 1);
    db.default_cf()
        .set_options([("disable_auto_compactions", "false")])
        .unwrap();
    db.wait_for_compact(Some(LIMIT)).unwrap();
    assert_eq!(files_at(&db, 1), before);
    db.default_cf()
        .suggest_compact_range(key(0)..key(300))
        .unwrap();
    db.wait_for_compact(Some(LIMIT)).unwrap();
    let after = files_at(&db, 1);
    assert!(after < before && after > 0, "{before} and {after}");
    assert_eq!(content(&db), expected);
}

#[test]
fn compactions_of_ranges_run_beside_automatic_ones_and_writes() {
    let env = Env::mem_env();
    let (mut options, _) = options(&env);
    options
        .set_disable_auto_compactions(false)
        .set_write_buffer_size(64 << 10)
        .set_max_bytes_for_level_base(30_000)
        .set_max_background_jobs(4)
        .set_max_subcompactions(3);
    let db = Db::open(&options, "/db").unwrap();
    std::thread::scope(|scope| {
        for thread in 0..2_u32 {
            let db = db.clone();
            scope.spawn(move || {
                for round in 0..8_u32 {
                    for number in (thread..1000).step_by(2) {
                        db.put(key(number), format!("{round} {}", "x".repeat(50)))
                            .unwrap();
                    }
                }
            });
        }
        for thread in 0..2_u32 {
            let db = db.clone();
            scope.spawn(move || {
                let mut how = CompactRangeOptions::new();
                how.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
                for round in 0..10_u32 {
                    how.set_exclusive_manual_compaction((round + thread) % 3 == 0);
                    let from = round * 70;
                    let range = key(from)..key(from + 400);
                    db.default_cf().compact_range_opt(range, &how).unwrap();
                }
            });
        }
    });
    db.wait_for_compact(Some(LIMIT)).unwrap();
    let content = content(&db);
    assert_eq!(content.len(), 1000);
    assert!(content.iter().all(|(_, value)| value.starts_with(b"7 ")));
    db.verify_checksums().unwrap();
}

/// The output had keys on both sides of a table of its level, and the edit was refused.
#[test]
fn named_tables_of_two_levels_take_the_table_between_them_along() {
    let env = Env::mem_env();
    let (mut options, _) = options(&env);
    options.set_disable_auto_compactions(true);
    let db = Db::open(&options, "/db").unwrap();
    let path_of = |first: &str| {
        let mut files = db.live_files().into_iter();
        let file = files.find(|file| file.smallest_key.as_slice() == first.as_bytes());
        db.path().join(file.unwrap().name)
    };
    let family = db.default_cf();
    for (keys, level) in [(["a", "b"], 2), (["f", "h"], 2), (["x", "y"], 1)] {
        for key in keys {
            db.put(key, "value").unwrap();
        }
        db.flush().unwrap();
        family.compact_files(&[path_of(keys[0])], level).unwrap();
    }
    let named = [path_of("a"), path_of("x")];
    family.compact_files(&named, 2).unwrap();
    db.put("g", "value").unwrap();
    db.flush().unwrap();
    db.compact_range(..).unwrap();
    let keys: Vec<_> = db.range(..).map(|entry| entry.unwrap().0).collect();
    assert_eq!(keys, ["a", "b", "f", "g", "h", "x", "y"].map(str::as_bytes));
}

#[test]
fn paused_work_goes_on_when_each_pause_was_reverted() {
    let env = Env::mem_env();
    let (options, _) = options(&env);
    let db = Db::open(&options, "/db").unwrap();
    let error = db.continue_background_work().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    fill(&db, 1, "1");
    db.pause_background_work().unwrap();
    db.pause_background_work().unwrap();
    let other = db.clone();
    let compaction = std::thread::spawn(move || other.compact_all(&CompactRangeOptions::new()));
    let aborted = db.wait_for_compact_unless_paused(None).unwrap_err();
    assert_eq!(aborted.kind(), ErrorKind::Aborted, "{aborted}");
    db.continue_background_work().unwrap();
    std::thread::sleep(Duration::from_millis(100));
    assert!(!compaction.is_finished());
    db.continue_background_work().unwrap();
    compaction.join().unwrap().unwrap();
    assert_eq!(files_at(&db, 0), 0);
    db.wait_for_compact_unless_paused(Some(LIMIT)).unwrap();
    // A close ends a pause.
    db.put("a", "value").unwrap();
    db.pause_background_work().unwrap();
    db.close().unwrap();
}

#[test]
fn an_enabling_that_comes_first_reverts_the_next_disabling() {
    let env = Env::mem_env();
    let (options, _) = options(&env);
    let db = Db::open(&options, "/db").unwrap();
    fill(&db, 1, "1");
    db.enable_manual_compaction();
    db.disable_manual_compaction();
    db.compact_range(..).unwrap();
    assert_eq!(files_at(&db, 0), 0);
    db.disable_manual_compaction();
    db.compact_range(..).unwrap_err();
}
