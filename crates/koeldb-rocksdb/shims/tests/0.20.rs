//! A program in the style of release 0.20: caches that may fail, comparators by function.

use std::cmp::Ordering;
use std::ffi::CStr;

use rocksdb::backup::{BackupEngine, BackupEngineOptions};
use rocksdb::{BlockBasedOptions, Cache, DB, Env, Options};

fn by_length(a: &[u8], b: &[u8]) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

#[test]
fn a_program_for_0_20_compiles_and_works() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let cache: Cache = Cache::new_lru_cache(1 << 20)?;
    let mut tables = BlockBasedOptions::default();
    tables.set_block_cache(&cache);
    tables.set_block_cache_compressed(&cache);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_comparator("by length", by_length);
    options.set_block_based_table_factory(&tables);
    let db = DB::open(&options, dir.path().join("db"))?;
    db.put("aaa", "3")?;
    db.put("bb", "2")?;
    let backup = BackupEngineOptions::new(dir.path().join("backups"))?;
    BackupEngine::open(&backup, &Env::new()?)?.create_new_backup_flush(&db, true)?;
    let stats: &CStr = rocksdb::properties::STATS;
    assert!(db.property_value(stats)?.is_some());
    let mut entries = db.iterator(rocksdb::IteratorMode::Start);
    assert_eq!(&*entries.next().ok_or("no entry")??.0, b"bb");
    Ok(())
}
