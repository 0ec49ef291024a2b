//! Benchmarks reads of a cached block-based table: lookups alone and in batches, seeks, scans.
//!
//! `cargo bench -p koeldb-table --bench reads`
#![expect(clippy::unwrap_used, reason = "a benchmark may panic")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use koeldb_base::codec::Compression;
use koeldb_base::key::{MAX_SEQNO, ValueType, encode};
use koeldb_base::merge_operator::Merger;
use koeldb_base::{Blocking, Cursor, Fault, Lookup, Result};
use koeldb_cache::{Cache, CacheOptions};
use koeldb_fs::{
    Clock, FileSystem, MemoryFileSystem, OpenOptions, Purpose, SystemClock, WriteOptions,
};
use koeldb_table::TableReader;
use koeldb_table::block_based::format::IndexType;
use koeldb_table::builder::{TableBuildContext, TableBuilder};
use koeldb_table::filter::FilterPolicy;
use koeldb_table::reader::{TableCursorOptions, TableReadContext};
use koeldb_table::source::BlockingSource;

const KEYS: u64 = 1_000_000;

const BATCH: usize = 32;

fn user_key(number: u64) -> Vec<u8> {
    format!("{:016}", number * 2).into_bytes()
}

/// A table of a million entries of 16 and 100 bytes, with uncompressed blocks in the cache.
fn table(context: &TableBuildContext) -> Arc<TableReader> {
    let fs = MemoryFileSystem::new();
    let path = Path::new("/table.sst");
    let file = fs.create(path, &WriteOptions::new(Purpose::Flush)).unwrap();
    let mut builder = TableBuilder::create(file, context).unwrap();
    for number in 0..KEYS {
        let key = encode(&user_key(number), 1, ValueType::Value);
        builder.add(&key, &[b'v'; 100]).unwrap();
    }
    builder.finish().unwrap();
    let file = fs.open(path, &OpenOptions::default()).unwrap();
    let context = TableReadContext {
        cache: Some(Cache::new(&CacheOptions {
            capacity_bytes: 1 << 30,
            ..CacheOptions::default()
        })),
        ..TableReadContext::default()
    };
    TableReader::open(file, &context).unwrap()
}

/// Numbers below `KEYS` in an order that no prefetcher predicts.
fn scattered(count: u64) -> impl Iterator<Item = u64> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    (0..count).map(move |_| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (state >> 33) % KEYS
    })
}

fn best(rounds: u32, count: u64, mut round: impl FnMut()) -> u128 {
    let clock = SystemClock;
    let time: Duration = (0..rounds)
        .map(|_| {
            let start = clock.now();
            round();
            clock.now() - start
        })
        .min()
        .unwrap();
    time.as_nanos() / u128::from(count)
}

fn blocking<T>(result: Result<T, Fault<Blocking>>) -> Result<T> {
    result.map_err(Into::into)
}

fn main() {
    let plain = TableBuildContext {
        compression: Compression::None,
        ..TableBuildContext::default()
    };
    let mut bloom = plain.clone();
    bloom.format.filter = FilterPolicy::bloom(10.0);
    let mut hashed = plain.clone();
    hashed.format.data_block_hash_index = true;
    let mut partitioned = bloom.clone();
    partitioned.format.index_type = IndexType::TwoLevel;
    partitioned.format.partition_filters = true;
    for (name, context) in [
        ("plain", plain),
        ("bloom 10", bloom),
        ("data hash", hashed),
        ("partitioned", partitioned),
    ] {
        let table = table(&context);
        let options = TableCursorOptions::default();
        let scan = best(3, KEYS, || {
            let mut cursor = table.cursor(BlockingSource::default(), &options);
            let mut bytes = 0;
            blocking(cursor.seek_to_first()).unwrap();
            while cursor.valid() {
                bytes += cursor.key().len() + cursor.value().len();
                blocking(cursor.next()).unwrap();
            }
            assert_eq!(bytes as u64, KEYS * 124);
        });
        let backward = best(1, KEYS, || {
            let mut cursor = table.cursor(BlockingSource::default(), &options);
            blocking(cursor.seek_to_last()).unwrap();
            while cursor.valid() {
                blocking(cursor.prev()).unwrap();
            }
        });
        let keys: Vec<Vec<u8>> = scattered(300_000).map(user_key).collect();
        let count = keys.len() as u64;
        let mut in_order = keys.clone();
        for batch in in_order.chunks_mut(BATCH) {
            batch.sort();
        }
        let get = best(4, count, || {
            for key in &keys {
                let mut lookup = Lookup::new(key, MAX_SEQNO);
                blocking(table.search(&mut lookup, &mut BlockingSource::default())).unwrap();
                assert!(lookup.finish(Merger::default).unwrap().is_some());
            }
        });
        let batch = best(4, count, || {
            for keys in in_order.chunks(BATCH) {
                let mut lookups: Vec<Lookup> =
                    keys.iter().map(|key| Lookup::new(key, MAX_SEQNO)).collect();
                let mut references: Vec<&mut Lookup> = lookups.iter_mut().collect();
                let mut source = BlockingSource::default();
                table.search_batch(&mut references, &mut source, |_, outcome| {
                    blocking(outcome).unwrap();
                });
                for lookup in lookups {
                    assert!(lookup.finish(Merger::default).unwrap().is_some());
                }
            }
        });
        let missing: Vec<Vec<u8>> = scattered(300_000)
            .map(|number| format!("{:016}", number * 2 + 1).into_bytes())
            .collect();
        let miss = best(4, count, || {
            for key in &missing {
                let mut lookup = Lookup::new(key, MAX_SEQNO);
                blocking(table.search(&mut lookup, &mut BlockingSource::default())).unwrap();
                assert!(lookup.finish(Merger::default).unwrap().is_none());
            }
        });
        let targets: Vec<Vec<u8>> = keys
            .iter()
            .map(|key| encode(key, MAX_SEQNO, ValueType::FOR_SEEK))
            .collect();
        let seek = best(2, count, || {
            let mut cursor = table.cursor(BlockingSource::default(), &options);
            for target in &targets {
                blocking(cursor.seek(target)).unwrap();
                assert!(cursor.valid());
            }
        });
        println!(
            "{name}: get {get} ns, in a batch {batch} ns, absent {miss} ns, seek {seek} ns, next {scan} ns, prev {backward} ns"
        );
    }
}
