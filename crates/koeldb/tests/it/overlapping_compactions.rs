//! Concurrent compactions whose outputs would meet in the gap between two input files.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use koeldb::{
    BottommostLevelCompaction, CancelToken, CompactRangeOptions, Db, Decision, Env, ErrorKind,
    Options, Result,
};
use koeldb_testkit::{Floors, Random};

use crate::prelude::{LIMIT, in_memory};
use crate::support::gate::gate;
use crate::wait::until;

fn levels(db: &Db) -> Vec<usize> {
    db.live_files().iter().map(|file| file.level).collect()
}

fn flush_with(db: &Db, keys: &[&str], value: &str) {
    for key in keys {
        db.put(key, value).unwrap();
    }
    db.flush().unwrap();
}

/// Waits until all files are on `level`.
fn wait_for_level(db: &Db, level: usize) {
    until(&format!("the move of all files to level {level}"), || {
        levels(db).iter().all(|&found| found == level)
    });
}

/// A compaction of level 6 that stands still; its inputs are `a..c` and `x..z`.
struct Standing {
    options: Options,
    db: Db,
    rewrite: JoinHandle<Result<()>>,
    open: Sender<()>,
}

impl Standing {
    fn new(how: CompactRangeOptions) -> Self {
        let env = Env::mem_env();
        let (gate, reached, open): (_, Receiver<()>, _) = gate();
        let is_armed = Arc::new(AtomicBool::new(false));
        let armed = Arc::clone(&is_armed);
        let mut options = Options::new();
        options
            .create_if_missing(true)
            .set_env(&env)
            .set_disable_auto_compactions(true)
            .set_level_zero_file_num_compaction_trigger(1)
            .set_compaction_filter("gate", move |_, key, _| {
                if key == b"a" && armed.swap(false, Ordering::SeqCst) {
                    gate.pass();
                }
                Decision::Keep
            });
        let db = Db::open(&options, "/db").unwrap();
        for pair in [["a", "c"], ["x", "z"]] {
            flush_with(&db, &pair, "old");
            let files = db.live_files().into_iter().filter(|file| file.level == 0);
            let paths: Vec<_> = files.map(|file| db.path().join(&file.name)).collect();
            db.default_cf().compact_files(&paths, 6).unwrap();
        }
        assert_eq!(levels(&db), [6, 6]);
        is_armed.store(true, Ordering::SeqCst);
        let other = db.clone();
        let rewrite = std::thread::spawn(move || other.compact_all(&how));
        reached.recv_timeout(LIMIT).unwrap();
        Standing {
            options,
            db,
            rewrite,
            open,
        }
    }

    /// Lets the compaction end, and checks that the database works.
    fn finish(self, level: usize, others: Vec<JoinHandle<Result<()>>>) {
        self.open.send(()).unwrap();
        for thread in std::iter::once(self.rewrite).chain(others) {
            thread.join().unwrap().unwrap();
        }
        wait_for_level(&self.db, level);
        self.db.put("q", "later").unwrap();
        self.db.flush().unwrap();
        let check = |db: &Db| {
            for key in ["a", "c", "x", "z"] {
                assert_eq!(db.get(key).unwrap().as_deref(), Some(&b"old"[..]), "{key}");
            }
            assert_eq!(db.get("m").unwrap().as_deref(), Some(&b"new"[..]));
        };
        check(&self.db);
        drop(self.db);
        check(&Db::open(&self.options, "/db").unwrap());
    }
}

fn forced() -> CompactRangeOptions {
    let mut how = CompactRangeOptions::new();
    how.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
    how
}

#[test]
fn a_manual_compaction_waits_for_another_around_its_keys() {
    let standing = Standing::new(forced());
    flush_with(&standing.db, &["m"], "new");
    let other = standing.db.clone();
    let second = std::thread::spawn(move || {
        let how = CompactRangeOptions::new();
        other.default_cf().compact_range_opt("m"..="m", &how)
    });
    std::thread::sleep(Duration::from_millis(300));
    assert!(!second.is_finished());
    standing.finish(6, vec![second]);
}

#[test]
fn an_automatic_compaction_waits_for_a_manual_one_around_its_keys() {
    let standing = Standing::new(forced());
    let family = standing.db.default_cf();
    family
        .set_options([("disable_auto_compactions", "false")])
        .unwrap();
    flush_with(&standing.db, &["m"], "new");
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(standing.db.live_files()[0].level, 0);
    standing.finish(6, Vec::new());
}

#[test]
fn automatic_compactions_begin_after_an_exclusive_one() {
    let mut how = forced();
    how.set_exclusive_manual_compaction(true);
    let standing = Standing::new(how);
    let family = standing.db.default_cf();
    family
        .set_options([("disable_auto_compactions", "false")])
        .unwrap();
    flush_with(&standing.db, &["m"], "new");
    standing.finish(6, Vec::new());
}

#[test]
fn a_filter_that_panics_after_it_was_cancelled_stops_writes() {
    let token = CancelToken::new();
    let cancels = token.clone();
    let mut options = in_memory();
    options
        .set_disable_auto_compactions(true)
        .set_compaction_filter("panics", move |_, _, _| {
            cancels.cancel();
            panic!("a filter that panics")
        });
    let db = Db::open(&options, "/db").unwrap();
    flush_with(&db, &["a", "b"], "1");
    flush_with(&db, &["a", "b"], "2");
    let mut how = CompactRangeOptions::new();
    how.set_canceled(&token);
    let error = db.compact_all(&how).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Aborted, "{error}");
    assert!(db.put("c", "3").is_err());
}

/// Compacts random ranges and files, until one step fails or all are done.
fn compact_at_random(db: &Db, mut random: Random) {
    let key = |random: &mut Random| format!("{:04}", random.below(10_000));
    for _ in 0..40 {
        let mut bounds = [key(&mut random), key(&mut random)];
        bounds.sort();
        let [from, to] = &bounds;
        match random.below(6) {
            0..3 => {
                let mut how = CompactRangeOptions::new();
                how.set_exclusive_manual_compaction(random.chance(1, 8))
                    .set_bottommost_level_compaction(match random.chance(1, 2) {
                        true => BottommostLevelCompaction::Force,
                        false => BottommostLevelCompaction::Skip,
                    });
                let family = db.default_cf();
                family.compact_range_opt(&**from..=&**to, &how).unwrap();
            }
            3 => {
                let files = db.live_files();
                if !files.is_empty() {
                    let chosen = random.below(files.len() as u64);
                    let file = &files[usize::try_from(chosen).unwrap()];
                    let output = (file.level + usize::from(random.chance(1, 2))).clamp(1, 3);
                    let output = u32::try_from(output).unwrap();
                    let path = db.path().join(&file.name);
                    // Another compaction may have taken the file, or it would go up.
                    let _ = db.default_cf().compact_files(&[path], output);
                }
            }
            _ => {
                // Tables of few keys far apart from others.
                db.put(from, random.below(1000).to_string()).unwrap();
                db.put(format!("{from}+"), "x").unwrap();
                db.flush().unwrap();
            }
        }
    }
}

#[test]
fn compactions_of_sparse_keys_never_overlap() {
    for seed in 1..=Floors::chosen().of(3, 12, 500_u64) {
        let third = usize::try_from(seed % 3).unwrap();
        let mut options = in_memory();
        options
            .set_num_levels(4)
            .set_level_zero_file_num_compaction_trigger([1, 2, 3][third])
            .set_max_background_jobs(6)
            .set_max_compaction_bytes([2_000, 4_000, 1 << 30][third])
            .set_target_file_size_base([400, 1_000, 1 << 20][third])
            .set_level_compaction_dynamic_level_bytes(seed % 2 == 0)
            .set_max_bytes_for_level_base(4_000)
            .set_compaction_filter("yields", |_, _, _| {
                std::thread::yield_now();
                Decision::Keep
            });
        let db = Db::open(&options, "/db").unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let db = &db;
                let random = Random::new(seed * 100 + thread);
                scope.spawn(move || compact_at_random(db, random));
            }
        });
        db.put("after", "all").unwrap();
        db.flush()
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        db.wait_for_compact(None)
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}
