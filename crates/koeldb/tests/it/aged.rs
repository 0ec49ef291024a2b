//! Compactions of old files, and of files that only a snapshot held back.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use koeldb::fs::{ManualClock, MemoryFileSystem, OpenOptions};
use koeldb::{
    BottommostLevelCompaction, CompactRangeOptions, CompactionStyle, Db, Env,
    FifoCompactionOptions, FileTemperatureAge, Options, Temperature,
};

use koeldb_lsm::version::{ColumnFamilySpec, VersionSet, VersionSetOptions};
use koeldb_lsm::{DataPaths, TableOpener};
use koeldb_table::reader::TableReadContext;

use crate::prelude::creating;

const LIMIT: Duration = Duration::from_secs(3600);
const NOW: u64 = 1_700_000_000;

struct Aging {
    clock: ManualClock,
    options: Options,
}

impl Aging {
    fn new() -> Self {
        let clock = ManualClock::new();
        clock.set_unix_micros(NOW * 1_000_000);
        let memory = MemoryFileSystem::with_clock(Arc::new(clock.clone()));
        let env = Env::stepped(Arc::new(memory), Arc::new(clock.clone()), 1);
        let mut options = Options::new();
        options
            .create_if_missing(true)
            .set_level_compaction_dynamic_level_bytes(false)
            .set_num_levels(4)
            .set_ttl(Duration::ZERO)
            .set_env(&env);
        Aging { clock, options }
    }

    /// A database with files on level 1.
    fn filled(&self) -> Db {
        let db = Db::open(&self.options, "/db").unwrap();
        for round in 0..2_u32 {
            for key in 0..50_u32 {
                db.put(format!("key {key:02}"), format!("{round}")).unwrap();
            }
            db.flush().unwrap();
        }
        db.compact_all(&CompactRangeOptions::new()).unwrap();
        assert_eq!(levels(&db), [1]);
        db
    }

    fn pass(&self, db: &Db, seconds: u64) {
        let micros = koeldb::fs::Clock::unix_micros(&self.clock) + seconds * 1_000_000;
        self.clock.set_unix_micros(micros);
        db.wait_for_compact(Some(LIMIT)).unwrap();
    }
}

fn levels(db: &Db) -> Vec<usize> {
    db.live_files().iter().map(|file| file.level).collect()
}

fn numbers(db: &Db) -> Vec<u64> {
    db.live_files().iter().map(|file| file.number).collect()
}

fn values(db: &Db) -> usize {
    db.range(..).filter(|entry| entry.is_ok()).count()
}

#[test]
fn data_older_than_the_ttl_goes_down_to_the_last_level() {
    let mut aging = Aging::new();
    aging.options.set_ttl(Duration::from_secs(3600));
    let db = aging.filled();
    aging.pass(&db, 3600);
    assert_eq!(levels(&db), [1]);
    aging.pass(&db, 10);
    assert_eq!(levels(&db), [3]);
    let before = numbers(&db);
    aging.pass(&db, 1_000_000);
    assert_eq!((levels(&db), numbers(&db)), (vec![3], before));
    assert_eq!(values(&db), 50);
}

#[test]
fn files_older_than_the_period_are_rewritten_where_they_are() {
    let mut aging = Aging::new();
    aging
        .options
        .set_periodic_compaction_seconds(Duration::from_secs(3600));
    let db = aging.filled();
    let mut last = numbers(&db);
    aging.pass(&db, 1800);
    assert_eq!(numbers(&db), last);
    for _ in 0..3 {
        aging.pass(&db, 3700);
        assert_eq!(levels(&db), [1]);
        assert_ne!(numbers(&db), last);
        last = numbers(&db);
        // A rewritten file is not due again, however the wall clock jumps.
        aging.pass(&db, 100);
        assert_eq!(numbers(&db), last);
    }
    aging.clock.set_unix_micros(NOW * 1_000_000);
    db.wait_for_compact(Some(LIMIT)).unwrap();
    assert_eq!(numbers(&db), last);
    assert_eq!(values(&db), 50);
}

#[test]
fn files_that_expire_before_the_next_window_are_rewritten_in_the_window() {
    // At 22:13 UTC.
    for (window, is_rewritten) in [("23:00-01:00", true), ("", false), ("02:00-03:00", false)] {
        let mut aging = Aging::new();
        aging
            .options
            .set_periodic_compaction_seconds(Duration::from_secs(24 * 3600));
        let db = aging.filled();
        db.set_db_options([("daily_offpeak_time_utc", window)])
            .unwrap();
        let first = numbers(&db);
        aging.pass(&db, 2000);
        assert_eq!(numbers(&db), first);
        aging.pass(&db, 1000);
        let second = numbers(&db);
        assert_eq!(second != first, is_rewritten, "{window}");
        aging.pass(&db, 3600);
        assert_eq!(numbers(&db), second);
        assert_eq!(values(&db), 50);
    }
}

#[test]
fn the_release_of_a_snapshot_frees_what_it_held_on_the_last_level() {
    let mut aging = Aging::new();
    aging.options.set_num_levels(2);
    for delay in [0, 3600] {
        aging
            .options
            .set_bottommost_file_compaction_delay(Duration::from_secs(delay));
        let db = aging.filled();
        let (first, second) = (db.snapshot(), db.snapshot());
        for key in 0..40_u32 {
            db.delete(format!("key {key:02}")).unwrap();
        }
        db.flush().unwrap();
        db.compact_all(&CompactRangeOptions::new()).unwrap();
        let held = numbers(&db);
        drop(first);
        db.wait_for_compact(Some(LIMIT)).unwrap();
        assert_eq!(numbers(&db), held, "a snapshot still needs the values");
        drop(second);
        db.wait_for_compact(Some(LIMIT)).unwrap();
        assert_eq!(numbers(&db) == held, delay > 0);
        aging.pass(&db, delay + 10);
        assert_ne!(numbers(&db), held);
        let settled = numbers(&db);
        aging.pass(&db, 100_000);
        assert_eq!(numbers(&db), settled);
        assert_eq!(values(&db), 10);
        let files = db.live_files();
        assert!(files.iter().all(|file| file.deletions == 0));
        drop(db);
        Db::destroy(&aging.options, "/db").unwrap();
    }
}

#[test]
fn tables_of_a_queue_get_the_temperatures_of_their_ages() {
    let mut aging = Aging::new();
    let age = |seconds, temperature| {
        let mut age = FileTemperatureAge::default();
        age.set_age(Duration::from_secs(seconds))
            .set_temperature(temperature);
        age
    };
    let mut fifo = FifoCompactionOptions::default();
    fifo.set_file_temperature_age_thresholds(vec![
        age(100, Temperature::Warm),
        age(1000, Temperature::Cold),
    ]);
    aging
        .options
        .set_compaction_style(CompactionStyle::Fifo)
        .set_num_levels(1)
        .set_fifo_compaction_options(&fifo);
    let db = Db::open(&aging.options, "/db").unwrap();
    let temperatures = || {
        let files = db.live_files();
        files
            .iter()
            .map(|file| file.temperature)
            .collect::<Vec<_>>()
    };
    for round in 0..3_u32 {
        for key in 0..50_u32 {
            db.put(format!("key {key:02}"), format!("{round}")).unwrap();
        }
        db.flush().unwrap();
        aging.pass(&db, 10);
    }
    assert_eq!(temperatures(), [0, 0, 0]);
    aging.pass(&db, 85);
    assert_eq!(temperatures(), [0, 8, 8]);
    aging.pass(&db, 100);
    assert_eq!(temperatures(), [8, 8, 8]);
    aging.pass(&db, 10_000);
    assert_eq!(temperatures(), [12, 12, 12]);
    let settled = numbers(&db);
    aging.pass(&db, 1_000_000);
    assert_eq!(numbers(&db), settled);
    assert_eq!(values(&db), 50);
    assert_eq!(*db.get("key 00").unwrap().unwrap(), *b"2");
}

/// Returns `(ancestor, creation, oldest key, newest key)` of the tables, in seconds.
///
/// The times are from the MANIFEST and the table properties.
fn ages(fs: &Arc<MemoryFileSystem>) -> Vec<[u64; 4]> {
    let options = VersionSetOptions {
        read_only: true,
        ..VersionSetOptions::default()
    };
    let directory = Path::new("/db");
    let families = [ColumnFamilySpec::new("default")];
    let (set, _) = VersionSet::recover(fs.clone(), directory, &families, options).unwrap();
    let version = set.family(0).unwrap().current();
    let tables = TableOpener::new(
        fs.clone(),
        DataPaths::single(directory),
        OpenOptions::default(),
        TableReadContext::default(),
    );
    let ages = version.files().map(|(level, file)| {
        let reader = tables.reader(file, level).unwrap();
        let properties = reader.properties();
        assert_eq!(properties.creation_time, file.oldest_ancestor_time);
        assert_eq!(properties.file_creation_time, file.creation_time);
        [
            file.oldest_ancestor_time,
            file.creation_time,
            properties.oldest_key_time,
            properties.newest_key_time,
        ]
    });
    ages.collect()
}

/// Every compaction reset the age of its entries, so that frequently compacted ones never expired.
///
/// RocksDB inherited the wrong ages; with a bound on open tables they were unknown.
#[test]
fn compactions_keep_the_ages_of_entries() {
    for max_open_files in [None, Some(20)] {
        check_ages(max_open_files);
    }
}

fn check_ages(max_open_files: Option<u32>) {
    const DAY: u64 = 86_400;
    let clock = ManualClock::new();
    let start = 1_700_000_000;
    clock.set_unix_micros(start * 1_000_000);
    let fs = Arc::new(MemoryFileSystem::with_clock(Arc::new(clock.clone())));
    let env = Env::new(fs.clone(), Arc::new(clock.clone()));
    let mut options = creating();
    options
        .set_env(&env)
        .set_max_open_files(max_open_files)
        .set_disable_auto_compactions(true);
    let db = Db::open(&options, "/db").unwrap();
    let day = || clock.advance(Duration::from_secs(DAY));
    let (first, second) = (start, start + DAY);
    for _ in 0..2 {
        db.put("a", "value").unwrap();
        db.put("m", "value").unwrap();
        db.flush().unwrap();
        day();
    }
    assert_eq!(ages(&fs), [[second; 4], [first; 4]]);
    let merged = start + 2 * DAY;
    db.compact_all(&CompactRangeOptions::new()).unwrap();
    assert_eq!(ages(&fs), [[first, merged, first, second]]);

    // A merge with what is younger, and one of nothing else.
    day();
    let third = start + 3 * DAY;
    db.put("b", "value").unwrap();
    db.flush().unwrap();
    assert_eq!(ages(&fs), [[third; 4], [first, merged, first, second]]);
    let mut forced = CompactRangeOptions::new();
    forced.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
    for days in 4..6 {
        day();
        db.compact_all(&forced).unwrap();
        assert_eq!(ages(&fs), [[first, start + days * DAY, first, third]]);
    }

    // A moved table is unchanged.
    day();
    db.delete_range("a", "z").unwrap();
    db.compact_all(&forced).unwrap();
    assert_eq!(ages(&fs), [[0; 4]; 0]);
    db.put("a", "value").unwrap();
    db.flush().unwrap();
    let written = ages(&fs);
    day();
    db.compact_all(&CompactRangeOptions::new()).unwrap();
    assert!(db.live_files()[0].level > 0);
    assert_eq!(ages(&fs), written);
}
