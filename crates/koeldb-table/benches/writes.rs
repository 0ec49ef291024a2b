//! Benchmarks the builder of block-based tables: the time of an entry, by filter, index and codec.
//!
//! `cargo bench -p koeldb-table --bench writes`
#![expect(clippy::unwrap_used, reason = "a benchmark may panic")]

use std::sync::Arc;

use koeldb_base::codec::Compression;
use koeldb_base::prefix::FixedPrefix;
use koeldb_base::{Result, ValueType, key};
use koeldb_fs::{Clock, SystemClock, WritableFile};
use koeldb_table::block_based::format::IndexType;
use koeldb_table::builder::{TableBuildContext, TableBuilder};
use koeldb_table::filter::FilterPolicy;

/// A file that discards its content, so that only the builder is measured.
#[derive(Debug, Default)]
struct Discarded(u64);

impl WritableFile for Discarded {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.0 += bytes.len() as u64;
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    fn sync_data(&mut self) -> Result<()> {
        Ok(())
    }

    fn sync_all(&mut self) -> Result<()> {
        Ok(())
    }

    fn len(&self) -> u64 {
        self.0
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// Entries of 16-byte keys and 100-byte values, half of each value incompressible.
fn entries(count: u64) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    (0..count)
        .map(|n| {
            let mut value = vec![b'v'; 100];
            for word in value[..48].as_chunks_mut::<8>().0 {
                random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                *word = (random ^ (random >> 29)).to_le_bytes();
            }
            let user_key = format!("{:016}", n * 7);
            (
                key::encode(user_key.as_bytes(), n + 1, ValueType::Value),
                value,
            )
        })
        .collect()
}

fn main() {
    let plain = TableBuildContext::default();
    let mut bloom = plain.clone();
    bloom.format.filter = FilterPolicy::bloom(10.0);
    let mut ribbon = plain.clone();
    ribbon.format.filter = FilterPolicy::ribbon(10.0, -1);
    let mut hashed = bloom.clone();
    hashed.format.data_block_hash_index = true;
    let mut partitioned = bloom.clone();
    partitioned.format.partition_filters = true;
    partitioned.format.index_type = IndexType::TwoLevel;
    partitioned.prefix_extractor = Some(Arc::new(FixedPrefix::new(13)));
    let mut snappy = bloom.clone();
    snappy.compression = Compression::Snappy;
    let entries = entries(500_000);
    let clock = SystemClock;
    for (name, context) in [
        ("plain", plain),
        ("bloom 10", bloom),
        ("ribbon 10", ribbon),
        ("bloom 10, data block hash index", hashed),
        ("bloom 10 with prefixes, partitioned", partitioned),
        ("bloom 10, snappy", snappy),
    ] {
        let best = (0..5)
            .map(|_| {
                let start = clock.now();
                let file = Box::new(Discarded::default());
                let mut builder = TableBuilder::create(file, &context).unwrap();
                for (key, value) in &entries {
                    builder.add(key, value).unwrap();
                }
                let adding = clock.now() - start;
                let table = builder.finish().unwrap();
                assert_eq!(table.properties.entry_count, entries.len() as u64);
                (clock.now() - start, adding)
            })
            .min()
            .unwrap();
        let per_entry = |time: std::time::Duration| time.as_nanos() / entries.len() as u128;
        println!(
            "{name}: {} ns per entry, {} of them while adding",
            per_entry(best.0),
            per_entry(best.1)
        );
    }
}
