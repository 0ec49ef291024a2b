//! Level 0 while it waits for the level below.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use koeldb::{
    CompactionFilter, CompactionFilterContext, CompactionFilterFactory, CompactionStyle, Db,
    Decision, Event, IteratorMode, Options, ReadOptions, Snapshot, StringAppend,
};

use koeldb::statistics::{Statistics, Ticker};

use crate::prelude::LIMIT;
use crate::scratch::ScratchDir;
use crate::wait::until;

const KEYS: u32 = 40;

type Content = BTreeMap<Vec<u8>, Vec<u8>>;

/// Filters that stand still if the output is below level 0, until the sender is dropped.
struct StandsStill(Arc<Mutex<Receiver<()>>>);

struct Waits(Arc<Mutex<Receiver<()>>>);

impl CompactionFilter for Waits {
    fn filter(&mut self, _level: u32, _key: &[u8], _value: &[u8]) -> Decision {
        let _ = self.0.lock().unwrap().recv_timeout(LIMIT);
        Decision::Keep
    }
}

impl CompactionFilterFactory for StandsStill {
    fn name(&self) -> &str {
        "stands still below level 0"
    }

    fn create(&self, context: &CompactionFilterContext) -> Option<Box<dyn CompactionFilter>> {
        let waits = Waits(Arc::clone(&self.0));
        (context.output_level > 0).then(|| Box::new(waits) as Box<dyn CompactionFilter>)
    }
}

fn content(db: &Db, snapshot: Option<&Snapshot>) -> Content {
    let mut options = ReadOptions::new();
    if let Some(snapshot) = snapshot {
        options.set_snapshot(snapshot);
    }
    db.default_cf()
        .iterator_opt(IteratorMode::Start, &options)
        .map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())))
        .collect::<Result<_, _>>()
        .unwrap()
}

fn key(number: u32) -> Vec<u8> {
    format!("key {number:02}").into_bytes()
}

/// Writes a file of level 0 that hides, deletes and adds to parts of the previous ones.
fn flush_round(db: &Db, round: u32, expected: &mut Content) {
    let from = round % KEYS;
    db.delete_range(key(from), key(from + 3)).unwrap();
    expected.retain(|other, _| *other < key(from) || *other >= key(from + 3));
    for number in 0..KEYS {
        let key = key(number);
        let value = format!("{round}").into_bytes();
        match (number + round) % 7 {
            0 => {
                db.delete(&key).unwrap();
                expected.remove(&key);
            }
            1 | 3 => {
                db.put(&key, &value).unwrap();
                expected.insert(key, value);
            }
            5 => {
                db.merge(&key, &value).unwrap();
                let sum = expected.entry(key).or_default();
                if !sum.is_empty() {
                    sum.push(b',');
                }
                sum.extend(value);
            }
            _ => {}
        }
    }
    db.flush().unwrap();
}

#[test]
fn level_0_is_merged_within_itself_while_a_compaction_into_the_base_level_stands_still() {
    let dir = ScratchDir::new();
    let within = Arc::new(AtomicU64::new(0));
    let mixed = Arc::new(AtomicU64::new(0));
    let (open, opened) = channel::<()>();
    let opened = Arc::new(Mutex::new(opened));
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_max_background_jobs(4)
        .set_level_zero_file_num_compaction_trigger(4)
        .set_level_zero_slowdown_writes_trigger(1000)
        .set_level_zero_stop_writes_trigger(1000)
        .set_merge_operator(StringAppend::new(","))
        .set_compaction_filter_factory(StandsStill(opened))
        .add_event_listener({
            let (within, mixed) = (Arc::clone(&within), Arc::clone(&mixed));
            move |event: &Event<'_>| {
                if let Event::CompactionCompleted(info) = event
                    && info.output_level == 0
                {
                    if info.inputs.iter().any(|input| input.level > 0) {
                        mixed.fetch_add(1, Ordering::SeqCst);
                    }
                    within.fetch_add(1, Ordering::SeqCst);
                }
            }
        });
    let db = Db::open(&options, dir.path()).unwrap();
    // Dropped before the database, which waits for its compactions.
    let open = open;
    let mut expected = Content::new();
    let mut old = None;
    let mut round = 0;
    while within.load(Ordering::SeqCst) == 0 {
        if round == 200 {
            let is_merged = || within.load(Ordering::SeqCst) > 0;
            until("a merge of level 0 within itself", is_merged);
            break;
        }
        flush_round(&db, round, &mut expected);
        assert_eq!(content(&db, None), expected);
        if round == 5 {
            old = Some((db.snapshot(), expected.clone()));
        }
        round += 1;
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(mixed.load(Ordering::SeqCst), 0);
    let check = |db: &Db, expected: &Content| {
        assert_eq!(content(db, None), *expected);
        let (snapshot, expected) = old.as_ref().expect("more rounds than that");
        assert_eq!(content(db, Some(snapshot)), *expected);
    };
    check(&db, &expected);
    drop(open);
    db.wait_for_compact(Some(LIMIT)).unwrap();
    check(&db, &expected);
    drop(old);
    db.close().unwrap();
    let mut options = Options::new();
    options.set_merge_operator(StringAppend::new(","));
    let db = Db::open(&options, dir.path()).unwrap();
    assert_eq!(content(&db, None), expected);
    db.verify_checksums().unwrap();
}

/// The number of searches of a table that a filter has saved.
fn denied(db: &Db) -> u64 {
    let statistics = db.statistics().unwrap();
    statistics.ticker(Ticker::BloomFilterUseful)
}

#[test]
fn lookups_skip_the_flushed_tables_without_their_keys_until_these_are_compacted() {
    for style in [CompactionStyle::Level, CompactionStyle::Universal] {
        let dir = ScratchDir::new();
        let mut options = Options::new();
        options
            .create_if_missing(true)
            .set_compaction_style(style)
            .set_level_zero_file_num_compaction_trigger(100)
            .set_statistics(Statistics::new());
        let db = Db::open(&options, dir.path()).unwrap();
        let fill = |table: u32| {
            for number in 0..100 {
                db.put(format!("{number} {table}"), "value").unwrap();
            }
            db.flush().unwrap();
        };
        let read = |table: u32| {
            let before = denied(&db);
            for number in 0..100 {
                let key = format!("{number} {table}");
                assert_eq!(db.get(&key).unwrap().as_deref(), Some(&b"value"[..]));
            }
            denied(&db) - before
        };
        (0..4).for_each(fill);
        // The first table overlapped none when it was written, and is the last that is searched.
        assert!(read(0) > 280, "{} of 300", read(0));
        assert_eq!(read(3), 0);
        let absent = format!("50 {}", 77);
        let before = denied(&db);
        assert_eq!(db.get(&absent).unwrap(), None);
        assert!(denied(&db) <= before + 3);
        db.compact_range(..).unwrap();
        assert_eq!(read(0), 0);
        // A reopened database has none.
        fill(9);
        db.close().unwrap();
        let db = Db::open(&options, dir.path()).unwrap();
        let before = denied(&db);
        assert_eq!(db.get("50 3").unwrap().as_deref(), Some(&b"value"[..]));
        assert_eq!(denied(&db), before);
    }
}

#[test]
fn tables_that_overlap_none_or_stay_get_no_filter() {
    let cases: [fn(&mut Options); 3] = [
        |_| (),
        |options| {
            options.set_compaction_style(CompactionStyle::Fifo);
        },
        |options| {
            options.set_disable_auto_compactions(true);
        },
    ];
    for (case, change) in cases.into_iter().enumerate() {
        let dir = ScratchDir::new();
        let mut options = Options::new();
        options
            .create_if_missing(true)
            .set_statistics(Statistics::new());
        change(&mut options);
        let db = Db::open(&options, dir.path()).unwrap();
        for table in 0..3 {
            for number in 0..100 {
                // Without a change, the tables are beside one another.
                let key = match case {
                    0 => format!("{table} {number}"),
                    _ => format!("{number} {table}"),
                };
                db.put(key, "value").unwrap();
            }
            db.flush().unwrap();
        }
        for number in 0..100 {
            db.get(format!("0 {number}x")).unwrap();
            db.get(format!("{number} 0x")).unwrap();
        }
        assert_eq!(denied(&db), 0, "case {case}");
    }
}
