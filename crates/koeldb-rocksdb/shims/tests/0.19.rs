//! A program in the style of release 0.19: comparators by function, batches of boxes, properties by
//! C string, backups by directory.

use std::cmp::Ordering;
use std::ffi::CStr;

use rocksdb::backup::{BackupEngine, BackupEngineOptions, RestoreOptions};
use rocksdb::{BlockBasedOptions, Cache, DB, Env, Options, WriteBatch, WriteBatchIterator};

fn reversed(a: &[u8], b: &[u8]) -> Ordering {
    b.cmp(a)
}

/// Collects the puts of a batch, which are handed over as boxes.
#[derive(Default)]
struct Puts(Vec<(Box<[u8]>, Box<[u8]>)>);

impl WriteBatchIterator for Puts {
    fn put(&mut self, key: Box<[u8]>, value: Box<[u8]>) {
        self.0.push((key, value));
    }

    fn delete(&mut self, _key: Box<[u8]>) {}
}

#[test]
fn a_program_for_0_19_compiles_and_works() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let env: Env = Env::default()?;
    let cache: Cache = Cache::new_lru_cache(1 << 20)?;
    let mut tables = BlockBasedOptions::default();
    tables.set_block_cache(&cache);
    tables.set_lru_cache(1 << 20);
    tables.set_lru_cache_compressed(1 << 20);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_env(&env);
    options.set_comparator("reversed", reversed);
    options.add_comparator("reversed", reversed);
    options.set_block_based_table_factory(&tables);
    options.set_skip_checking_sst_file_sizes_on_db_open(true);
    let path = dir.path().join("db");
    let db = DB::open(&options, &path)?;
    let mut batch = WriteBatch::default();
    batch.put("a", "1");
    batch.put("b", "2");
    let mut puts = Puts::default();
    let handler: &mut dyn WriteBatchIterator = &mut puts;
    batch.iterate(handler);
    assert_eq!(puts.0.len(), 2);
    db.write(batch)?;
    let keys: Vec<Vec<u8>> = vec![b"a".to_vec(), b"b".to_vec()];
    let name: &CStr = rocksdb::properties::ESTIMATE_NUM_KEYS;
    assert_eq!(db.property_int_value(name)?, Some(2));
    let level: std::ffi::CString = rocksdb::properties::num_files_at_level(0);
    assert!(db.property_value(&*level)?.is_some());
    assert_eq!(db.multi_get(keys).len(), 2);
    let backups = dir.path().join("backups");
    let mut engine = BackupEngine::open(&BackupEngineOptions::default(), &backups)?;
    engine.create_new_backup(&db)?;
    let restored = dir.path().join("restored");
    engine.restore_from_latest_backup(&restored, &restored, &RestoreOptions::default())?;
    drop(db);
    let first = DB::open(&options, &restored)?
        .iterator(rocksdb::IteratorMode::Start)
        .next();
    assert_eq!(&*first.ok_or("no entry")??.0, b"b");
    Ok(())
}
