//! `max_open_files`: tables are closed and opened again, and reads do not notice.

use std::path::Path;
use std::sync::Arc;

use koeldb::fs::{
    Failure, FaultAction, FaultFileSystem, FaultRule, FileSystem, MemoryFileSystem, Operation,
    SystemClock,
};
use koeldb::statistics::{Statistics, Ticker};
use koeldb::{
    BlockBasedOptions, BottommostLevelCompaction, CompactRangeOptions, Db, Env, ErrorKind,
    IteratorMode, Options, WriteOptions,
};
use koeldb_testkit::Random;

use crate::scratch::ScratchDir;

const KEYS: u64 = 300;

fn key(number: u64) -> String {
    format!("key{number:06}")
}

fn value(number: u64) -> Vec<u8> {
    format!("{number}:").repeat(200).into_bytes()
}

/// Tables of few keys.
fn options(max_open_files: Option<u32>) -> Options {
    let mut table = BlockBasedOptions::default();
    table.set_block_size(64);
    let mut options = Options::new();
    options
        .set_block_based_table_factory(&table)
        .create_if_missing(true)
        .set_disable_auto_compactions(true)
        .set_target_file_size_base(1)
        .set_statistics(Statistics::new())
        .set_max_open_files(max_open_files);
    options
}

fn fill(db: &Db) {
    let mut unlogged = WriteOptions::new();
    unlogged.disable_wal(true);
    for number in 0..KEYS {
        db.put_opt(key(number), value(number), &unlogged).unwrap();
    }
    db.delete_range(key(KEYS - 2), key(KEYS - 1)).unwrap();
    let mut rewrite = CompactRangeOptions::new();
    rewrite.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
    db.compact_all(&rewrite).unwrap();
    assert!(tables(db) > 100, "{}", tables(db));
}

fn tables(db: &Db) -> usize {
    db.live_files().len()
}

/// The descriptors of tables in `directory` that this process has.
fn open_tables(directory: &Path) -> usize {
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap();
    descriptors
        .filter_map(|descriptor| std::fs::read_link(descriptor.ok()?.path()).ok())
        .filter(|path| path.starts_with(directory))
        .filter(|path| path.to_string_lossy().contains(".sst"))
        .count()
}

fn check_key(db: &Db, number: u64) {
    let expected = (number != KEYS - 2).then(|| value(number));
    assert_eq!(db.get(key(number)).unwrap().as_deref(), expected.as_deref());
}

#[test]
fn reads_are_right_while_few_tables_are_open() {
    let dir = ScratchDir::new();
    let directory = dir.path().canonicalize().unwrap();
    let options = options(Some(30));
    for is_new in [true, false] {
        let db = Db::open(&options, dir.path()).unwrap();
        if is_new {
            fill(&db);
        }
        assert!(open_tables(&directory) <= 20, "{}", open_tables(&directory));
        let mut random = Random::new(7);
        for _ in 0..500 {
            check_key(&db, random.below(KEYS));
            assert!(open_tables(&directory) <= 20, "{}", open_tables(&directory));
        }
        for entry in db.iterator(IteratorMode::Start).enumerate() {
            entry.1.unwrap();
            // Beside the others, the table at the position and its neighbour.
            assert!(open_tables(&directory) <= 22, "{}", open_tables(&directory));
        }
        let keys: Vec<String> = (0..KEYS).map(key).collect();
        let found = db.multi_get(&keys);
        let found = found.iter().filter(|value| matches!(value, Ok(Some(_))));
        assert_eq!(found.count() as u64, KEYS - 1);
        assert_eq!(db.iterator(IteratorMode::End).count() as u64, KEYS - 1);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let db = &db;
                scope.spawn(move || {
                    let mut random = Random::new(thread);
                    (0..300).for_each(|_| check_key(db, random.below(KEYS)));
                });
            }
        });
        assert!(open_tables(&directory) <= 20, "{}", open_tables(&directory));
    }
}

#[test]
fn the_limit_changes_while_the_database_is_open() {
    let dir = ScratchDir::new();
    let directory = dir.path().canonicalize().unwrap();
    let db = Db::open(&options(Some(30)), dir.path()).unwrap();
    fill(&db);
    let read_all = || {
        (0..KEYS).for_each(|number| check_key(&db, number));
        open_tables(&directory)
    };
    assert_eq!(read_all(), 20);
    db.set_db_options([("max_open_files", "60")]).unwrap();
    assert_eq!(read_all(), 50);
    db.set_db_options([("max_open_files", "40")]).unwrap();
    assert_eq!(open_tables(&directory), 30);
    db.set_db_options([("max_open_files", "-1")]).unwrap();
    assert_eq!(read_all(), tables(&db));
}

/// A table that is opened again finds its blocks in the cache.
#[test]
fn cached_blocks_survive_the_closing_of_their_table() {
    let dir = ScratchDir::new();
    let db = Db::open(&options(Some(30)), dir.path()).unwrap();
    fill(&db);
    let read_all = || (0..KEYS).for_each(|number| check_key(&db, number));
    read_all();
    let before = db.statistics().unwrap();
    read_all();
    let since = db.statistics().unwrap().since(&before);
    assert_eq!(since.ticker(Ticker::BlockCacheDataMiss), 0);
    assert!(since.ticker(Ticker::BlockCacheDataHit) >= KEYS - 1);
}

#[test]
fn too_few_descriptors_are_an_error_that_names_the_option() {
    let memory = Arc::new(MemoryFileSystem::new());
    let faults = FaultFileSystem::new(memory, 1);
    let mut options = options(None);
    options.set_env(&Env::new(Arc::new(faults.clone()), Arc::new(SystemClock)));
    let db = Db::open(&options, "/few").unwrap();
    fill(&db);
    drop(db);
    let rule = FaultRule::new(FaultAction::Fail(Failure::TooManyFiles));
    let rule = rule.on(&[Operation::Open]).suffix(".sst").from_nth(100);
    faults.add_rule(rule);
    let error = Db::open(&options, "/few").unwrap_err();
    assert!(error.to_string().contains("max_open_files"), "{error}");
    assert!(error.to_string().contains("ulimit -n"), "{error}");
}

#[test]
fn a_read_whose_table_is_removed_after_a_close_finds_a_closed_database() {
    let memory = Arc::new(MemoryFileSystem::new());
    let faults = Arc::new(FaultFileSystem::new(Arc::clone(&memory) as _, 1));
    let mut options = options(Some(20));
    options.set_env(&Env::new(Arc::clone(&faults) as _, Arc::new(SystemClock)));
    fill(&Db::open(&options, "/db").unwrap());
    let db = Db::open(&options, "/db").unwrap();
    let closing = db.clone();
    let remove = FaultAction::Call(Arc::new(move |injection| {
        closing.close().unwrap();
        memory.remove_file(&injection.path).unwrap();
    }));
    faults.add_rule(
        FaultRule::new(remove)
            .on(&[Operation::Open])
            .suffix(".sst")
            .limit(1),
    );
    // Some are open since the database is.
    let mut errors = (0..KEYS).filter_map(|number| db.get(key(number)).err());
    let error = errors.next().unwrap();
    assert_eq!(error.kind(), ErrorKind::ShutdownInProgress, "{error}");
}
