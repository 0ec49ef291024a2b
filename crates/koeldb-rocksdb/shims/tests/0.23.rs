//! A program in the style of release 0.23: times to live of column families, batches of boxes.

use std::time::Duration;

use rocksdb::statistics::Ticker;
use rocksdb::{
    Cache, ColumnFamilyDescriptor, ColumnFamilyTtl, CompactionPri, DB, LruCacheOptions, Options,
    WriteBatch, WriteBatchIterator,
};

struct Count(usize);

impl WriteBatchIterator for Count {
    fn put(&mut self, _key: Box<[u8]>, _value: Box<[u8]>) {
        self.0 += 1;
    }

    fn delete(&mut self, _key: Box<[u8]>) {}
}

#[test]
fn a_program_for_0_23_compiles_and_works() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let mut cache = LruCacheOptions::default();
    cache.set_capacity(1 << 20);
    let _cache = Cache::new_lru_cache_opts(&cache);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options.set_compaction_pri(CompactionPri::OldestLargestSeqFirst);
    let ttl = ColumnFamilyTtl::Duration(Duration::from_secs(60));
    let family = ColumnFamilyDescriptor::new_with_ttl("a", Options::default(), ttl);
    let hour = Duration::from_secs(3600);
    let db = DB::open_cf_descriptors_with_ttl(&options, dir.path(), [family], hour)?;
    let mut batch = WriteBatch::default();
    batch.put("key", "value");
    let mut count = Count(0);
    batch.iterate(&mut count);
    db.write(batch)?;
    assert_eq!(count.0, 1);
    assert_eq!(db.get("key")?.as_deref(), Some(&b"value"[..]));
    let _tickers = [Ticker::ReadaheadTrimmed, Ticker::BlobDbWriteInlinedTtl];
    Ok(())
}
