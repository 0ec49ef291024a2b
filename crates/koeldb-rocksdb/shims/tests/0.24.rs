//! A program in the style of release 0.24: batches by reference, with ids of column families.

use rocksdb::statistics::Ticker;
use rocksdb::{DB, Options, Range, WriteBatch, WriteBatchIterator, WriteBatchIteratorCf};

#[derive(Default)]
struct Puts(Vec<Vec<u8>>);

impl WriteBatchIterator for Puts {
    fn put(&mut self, key: &[u8], _value: &[u8]) {
        self.0.push(key.to_vec());
    }

    fn delete(&mut self, _key: &[u8]) {}
}

impl WriteBatchIteratorCf for Puts {
    fn put_cf(&mut self, cf_id: u32, key: &[u8], _value: &[u8]) {
        assert_eq!(cf_id, 0);
        self.0.push(key.to_vec());
    }

    fn delete_cf(&mut self, _cf_id: u32, _key: &[u8]) {}

    fn merge_cf(&mut self, _cf_id: u32, _key: &[u8], _value: &[u8]) {}
}

#[test]
fn a_program_for_0_24_compiles_and_works() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_skip_checking_sst_file_sizes_on_db_open(true);
    let db = DB::open(&options, dir.path())?;
    let mut batch = WriteBatch::default();
    batch.put("key", "value");
    let mut puts = Puts::default();
    batch.iterate(&mut puts);
    batch.iterate_cf(&mut puts);
    assert_eq!(puts.0.len(), 2);
    db.write(batch)?;
    let range = Range::new(b"a", b"z");
    assert_eq!(db.get_approximate_sizes(&[range]).len(), 1);
    let _ticker = Ticker::BlobDbWriteInlined;
    Ok(())
}
