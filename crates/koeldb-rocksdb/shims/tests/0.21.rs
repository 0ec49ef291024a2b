//! A program in the style of release 0.21: comparators by closure, keys by value.

use std::ffi::{CStr, CString};

use rocksdb::{Cache, ChecksumType, DB, Options, WriteBatch, WriteBatchIterator};

struct Count(usize);

impl WriteBatchIterator for Count {
    fn put(&mut self, _key: Box<[u8]>, _value: Box<[u8]>) {
        self.0 += 1;
    }

    fn delete(&mut self, _key: Box<[u8]>) {
        self.0 += 1;
    }
}

#[test]
fn a_program_for_0_21_compiles_and_works() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let _cache: Cache = Cache::new_lru_cache(1 << 20);
    let _sum = ChecksumType::XXH3;
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options.set_comparator("reversed", Box::new(|a, b| b.cmp(a)));
    let db = DB::open_cf(&options, dir.path(), ["a"])?;
    let cf = db.cf_handle("a").ok_or("no column family")?;
    let mut batch = WriteBatch::default();
    batch.put("key", "value");
    batch.delete("other");
    let mut count = Count(0);
    batch.iterate(&mut count);
    assert_eq!(count.0, 2);
    db.put_cf(cf, "key", "value")?;
    let keys: Vec<Vec<u8>> = vec![b"key".to_vec()];
    let found = db.batched_multi_get_cf(cf, keys, false);
    assert!(found[0].as_ref().is_ok_and(Option::is_some));
    let found = db.batched_multi_get_cf(cf, ["key", "none"], true);
    assert!(found[1].as_ref().is_ok_and(Option::is_none));
    let names: [&CStr; 1] = [rocksdb::properties::STATS];
    assert!(db.property_value(names[0])?.is_some());
    let _level: CString = rocksdb::properties::compression_ratio_at_level(1);
    Ok(())
}
