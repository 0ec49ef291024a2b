//! A program in the style of release 0.22: statistics, keys by reference, batches of boxes.

use rocksdb::properties::{PropName, PropertyName};
use rocksdb::statistics::{Histogram, StatsLevel, Ticker};
use rocksdb::{DB, Options, ReadTier, WaitForCompactOptions, WriteBatch, WriteBatchIterator};

struct Keys(Vec<Box<[u8]>>);

impl WriteBatchIterator for Keys {
    fn put(&mut self, key: Box<[u8]>, _value: Box<[u8]>) {
        self.0.push(key);
    }

    fn delete(&mut self, key: Box<[u8]>) {
        self.0.push(key);
    }
}

#[test]
fn a_program_for_0_22_compiles_and_works() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options.enable_statistics();
    options.set_statistics_level(StatsLevel::All);
    let db = DB::open_cf(&options, dir.path(), ["a"])?;
    let cf = db.cf_handle("a").ok_or("no column family")?;
    let mut batch = WriteBatch::default();
    batch.put("key", "value");
    let mut keys = Keys(Vec::new());
    batch.iterate(&mut keys);
    db.write(batch)?;
    db.put_cf(cf, &keys.0[0], "value")?;
    let found = db.batched_multi_get_cf(cf, keys.0.iter(), false);
    assert!(found[0].as_ref().is_ok_and(Option::is_some));
    let mut read = rocksdb::ReadOptions::default();
    read.set_read_tier(ReadTier::All);
    db.wait_for_compact(&WaitForCompactOptions::default())?;
    let _tickers = [
        Ticker::ReadAheadTrimmed,
        Ticker::NumberBlockNotCompressed,
        Ticker::ErrorHandlerAutoResumeCount,
        Ticker::BlobDbWriteInlined,
    ];
    assert!(options.get_ticker_count(Ticker::NumberKeysWritten) > 0);
    assert!(options.get_histogram_data(Histogram::DbWrite).count() > 0);
    let name: &PropName = rocksdb::properties::STATS;
    let owned: PropertyName = rocksdb::properties::num_files_at_level(0);
    assert!(db.property_value(name)?.is_some() && db.property_value(owned)?.is_some());
    Ok(())
}
