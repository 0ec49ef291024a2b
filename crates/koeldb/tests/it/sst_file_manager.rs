//! The space of tables and the rate of their deletion (`SstFileManager`).

use std::sync::Arc;
use std::time::Duration;

use koeldb::fs::{Clock, FileSystem, ManualClock, MemoryFileSystem, Purpose, WriteOptions};
use koeldb::statistics::{Statistics, Ticker};
use koeldb::{Db, Env, Options, SstFileManager, SstFileManagerBuilder};

use crate::storage::HERE;

/// A database whose background jobs run one by one, on a clock of its own.
struct Site {
    memory: MemoryFileSystem,
    clock: ManualClock,
    env: Env,
    options: Options,
    manager: SstFileManager,
    statistics: Statistics,
}

impl Site {
    fn new(manager: SstFileManagerBuilder) -> Self {
        let clock = ManualClock::new();
        let memory = MemoryFileSystem::with_clock(Arc::new(clock.clone()));
        let env = Env::stepped(Arc::new(memory.clone()), Arc::new(clock.clone()), 1);
        let (manager, statistics) = (manager.build(), Statistics::new());
        let mut options = Options::new();
        options
            .create_if_missing(true)
            .set_statistics(statistics.clone())
            .set_sst_file_manager(&manager)
            .set_env(&env);
        Site {
            memory,
            clock,
            env,
            options,
            manager,
            statistics,
        }
    }

    fn open(&self) -> Db {
        Db::open(&self.options, HERE).unwrap()
    }

    fn count(&self, extension: &str) -> usize {
        let entries = self.memory.list(HERE.as_ref()).unwrap();
        let found = entries
            .iter()
            .filter(|entry| entry.name.ends_with(extension));
        found.count()
    }

    /// An automatic resume that waits for space is queued again and again.
    fn run_jobs(&self) {
        for _ in 0..50 {
            if !self.env.step() {
                return;
            }
        }
    }
}

/// A KiB that does not compress.
fn noise(seed: u64) -> Vec<u8> {
    let mut random = koeldb_testkit::Random::new(seed);
    (0..128).flat_map(|_| random.draw().to_le_bytes()).collect()
}

/// Writes a table of some `kib` KiB.
fn write_table(db: &Db, kib: u64) {
    for key in 0..kib {
        db.put(format!("key {key:06}"), noise(key)).unwrap();
    }
    db.flush().unwrap();
}

#[test]
fn tables_are_deleted_at_the_rate_and_readers_never_notice() {
    let rate = 100 << 10;
    let site = Site::new(
        SstFileManager::builder()
            .delete_rate_bytes_per_second(rate)
            .max_trash_db_ratio(1.0)
            .bytes_max_delete_chunk(64 << 10),
    );
    let db = site.open();
    write_table(&db, 200);
    write_table(&db, 200);
    db.compact_range(..).unwrap();
    assert_eq!((site.count(".sst"), site.count(".trash")), (1, 2));
    let trash = site.manager.get_total_trash_size();
    assert!(trash > 400 << 10, "{trash}");
    let live: u64 = site.manager.get_tracked_files().values().sum();
    assert_eq!(site.manager.get_total_size(), live + trash);
    let begun = site.clock.now();
    site.run_jobs();
    let elapsed = site.clock.now() - begun;
    let due = Duration::from_secs_f64(trash as f64 / rate as f64);
    assert!(elapsed.abs_diff(due) < due / 50, "{elapsed:?} of {due:?}");
    assert_eq!((site.count(".sst"), site.count(".trash")), (1, 0));
    assert_eq!(site.manager.get_total_trash_size(), 0);
    assert_eq!(site.statistics.ticker(Ticker::FilesMarkedTrash), 2);
    assert_eq!(
        site.statistics.ticker(Ticker::FilesDeletedFromTrashQueue),
        2
    );
    assert!(db.contains_key("key 000123").unwrap());
}

#[test]
fn much_trash_is_deleted_immediately() {
    let site = Site::new(
        SstFileManager::builder()
            .delete_rate_bytes_per_second(1)
            .max_trash_db_ratio(0.1),
    );
    let db = site.open();
    write_table(&db, 50);
    write_table(&db, 50);
    db.compact_range(..).unwrap();
    // The first one is more than the tenth part.
    assert_eq!(site.count(".trash"), 1);
    assert_eq!(site.statistics.ticker(Ticker::FilesDeletedImmediately), 1);
}

#[test]
fn a_checkpoint_keeps_its_files_while_the_originals_are_shortened() {
    let site = Site::new(
        SstFileManager::builder()
            .delete_rate_bytes_per_second(1 << 20)
            .max_trash_db_ratio(1.0)
            .bytes_max_delete_chunk(1024),
    );
    let db = site.open();
    write_table(&db, 100);
    db.create_checkpoint("/copy").unwrap();
    write_table(&db, 101);
    db.compact_range(..).unwrap();
    site.run_jobs();
    assert_eq!(site.count(".trash"), 0);
    let mut options = Options::new();
    options.set_env(&site.env);
    let copy = Db::open(&options, "/copy").unwrap();
    copy.verify_checksums().unwrap();
    assert!(copy.contains_key("key 000099").unwrap());
}

#[test]
fn an_open_deletes_what_was_left_in_the_trash() {
    let site = Site::new(SstFileManager::builder().delete_rate_bytes_per_second(1 << 10));
    drop(site.open());
    let leave = || {
        for name in ["000900.sst.trash", "000901.blob1.trash", "notes.trash"] {
            let path = std::path::Path::new(HERE).join(name);
            let options = WriteOptions::new(Purpose::Other);
            let Ok(mut file) = site.memory.create(&path, &options) else {
                continue;
            };
            file.append(&[0; 10 << 10]).unwrap();
            file.close().unwrap();
        }
    };
    leave();
    let db = site.open();
    assert_eq!(site.count(".trash"), 3);
    assert_eq!(site.manager.get_total_trash_size(), 20 << 10);
    let begun = site.clock.now();
    site.run_jobs();
    assert!(site.clock.now() - begun >= Duration::from_secs(20));
    // It is no file of a database.
    assert_eq!(site.count(".trash"), 1);
    drop(db);
    leave();
    let mut plain = Options::new();
    plain.set_env(&site.env);
    let db = Db::open(&plain, HERE).unwrap();
    assert_eq!(site.count(".trash"), 1);
    drop(db);
    leave();
    Db::destroy(&plain, HERE).unwrap();
    assert_eq!(site.count(".trash"), 1);
}

#[test]
fn a_compaction_that_could_pass_the_limit_waits_for_space() {
    let mut site = Site::new(SstFileManager::builder());
    site.options
        .set_level_zero_file_num_compaction_trigger(2)
        .set_level_compaction_dynamic_level_bytes(false);
    let db = site.open();
    write_table(&db, 100);
    site.manager.set_max_allowed_space_usage(300 << 10);
    write_table(&db, 100);
    db.wait_for_compact(None).unwrap();
    site.run_jobs();
    assert_eq!(site.count(".sst"), 2, "400 KiB would be in use meanwhile");
    assert!(!site.manager.is_max_allowed_space_reached());
    assert!(db.compact_range(..).is_err());
    site.manager.set_max_allowed_space_usage(450 << 10);
    db.wait_for_compact(None).unwrap();
    assert_eq!(site.count(".sst"), 1);
    site.manager.set_compaction_buffer_size(200 << 10);
    assert!(db.compact_range(..).is_ok(), "one table is moved or left");
}

#[test]
fn writes_stop_at_the_limit_and_resume_when_it_is_raised() {
    let site = Site::new(SstFileManager::builder().max_allowed_space_usage(150 << 10));
    let db = site.open();
    write_table(&db, 100);
    db.put("key", "value").unwrap();
    for key in 0..100 {
        db.put(format!("other {key}"), noise(key)).unwrap();
    }
    let _ = db.flush();
    assert!(site.manager.is_max_allowed_space_reached());
    let error = db.put("refused", "value").unwrap_err();
    assert!(error.is_retryable(), "{error}");
    db.resume().unwrap_err();
    site.run_jobs();
    assert!(db.put("refused", "value").is_err());
    site.manager.set_max_allowed_space_usage(1 << 20);
    site.run_jobs();
    db.put("accepted", "value").unwrap();
    assert!(db.contains_key("other 99").unwrap());
}

#[test]
fn databases_share_the_limit() {
    let site = Site::new(SstFileManager::builder());
    let (one, two) = (site.open(), Db::open(&site.options, "/two").unwrap());
    write_table(&one, 100);
    let alone = site.manager.get_total_size();
    write_table(&two, 100);
    assert!(site.manager.get_total_size() > alone + (90 << 10));
    assert_eq!(site.manager.get_tracked_files().len(), 2);
    drop(two);
    assert_eq!(site.manager.get_total_size(), alone);
    site.manager.set_max_allowed_space_usage(alone);
    assert!(site.manager.is_max_allowed_space_reached());
}

#[test]
fn a_closed_database_counts_no_more() {
    let site = Site::new(SstFileManager::builder());
    let closed = site.open();
    write_table(&closed, 100);
    let size = site.manager.get_total_size();
    closed.close().unwrap();
    assert_eq!(site.manager.get_total_size(), 0);
    let _opened = site.open();
    assert_eq!(site.manager.get_total_size(), size);
    assert_eq!(site.manager.get_tracked_files().len(), 1);
}
