//! How values in blob files are read: together, from the cache, and counted.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use koeldb::fs::read_driver::SimAttempt;
use koeldb::perf::{self, PerfLevel, PerfMetric};
use koeldb::statistics::{HistogramKind, Statistics, Ticker};
use koeldb::{
    Cache, Compression, ConfigOptions, Db, ErrorKind, IteratorMode, Options, PrepopulateBlobCache,
    ReadOptions, ReadTier,
};

use crate::device::{Device, PATH, Wrong, key};

/// The files, each with this many values of consecutive keys.
const FILES: u64 = 8;
const VALUES: u64 = 100;

fn value(number: u64) -> Vec<u8> {
    format!("{number} ")
        .repeat(50 + usize::try_from(number % 7).unwrap())
        .into_bytes()
}

fn options() -> Options {
    let mut options = Options::new();
    options
        .set_enable_blob_files(true)
        .set_min_blob_size(100)
        .set_compression_type(Compression::None);
    options
}

/// Writes the files, and opens them again: their blocks are cached, their values are not.
fn filled(device: &Device, options: &Options) -> Db {
    let db = device.open_plainly(options);
    for file in 0..FILES {
        for number in 0..VALUES {
            let number = file * VALUES + number;
            db.put(key(number), value(number)).unwrap();
        }
        db.flush().unwrap();
    }
    db.close().unwrap();
    let db = device.open(options);
    let mut keys_only = ReadOptions::new();
    keys_only.set_async_io(false);
    for number in (0..FILES * VALUES).step_by(10) {
        db.get_opt(key(number), &keys_only).unwrap();
    }
    device.damage.take_reads();
    db
}

/// The keys of one value of each file, twice.
fn one_of_each() -> Vec<Vec<u8>> {
    let numbers = (0..FILES).map(|file| file * VALUES + 31 + file * 3);
    numbers.clone().chain(numbers).map(key).collect()
}

/// Counts the reads of blob files that the device makes from now on.
fn count_blob_reads(device: &Device) -> Arc<AtomicUsize> {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    device.sim.set_script(move |request| {
        let extension = request.file().path().extension();
        if extension.is_some_and(|extension| extension == "blob") {
            counted.fetch_add(1, Ordering::Relaxed);
        }
        SimAttempt::Read
    });
    count
}

fn check(keys: &[Vec<u8>], found: &koeldb::PinnedSlices) {
    for (key, found) in keys.iter().zip(found) {
        let number = std::str::from_utf8(&key[3..]).unwrap().parse().unwrap();
        assert_eq!(found.unwrap(), Some(&*value(number)));
    }
}

fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn the_values_of_a_batch_are_read_in_one_round() {
    let device = Device::new(1);
    let db = filled(&device, &options());
    let cf = db.default_cf();
    let keys = one_of_each();
    let reads = count_blob_reads(&device);
    let mut read = ReadOptions::new();
    read.set_async_io(true);
    check(&keys, &db.multi_get_opt(&keys, &read));
    assert_eq!(
        reads.swap(0, Ordering::Relaxed),
        8,
        "a key named twice is read once"
    );

    let mut batch = pin!(cf.multi_get_async_opt(&keys, &read));
    assert!(poll(batch.as_mut()).is_pending());
    assert_eq!(device.sim.held(), 8, "all are in flight");
    device.sim.run();
    let Poll::Ready(found) = poll(batch.as_mut()) else {
        panic!("it needs a second round");
    };
    check(&keys, &found);

    let mut get = pin!(cf.get_async_opt(&keys[3], &read));
    assert!(poll(get.as_mut()).is_pending());
    assert_eq!(device.sim.held(), 1);
    device.sim.run();
    let Poll::Ready(found) = poll(get.as_mut()) else {
        panic!("it needs a second round");
    };
    assert_eq!(*found.unwrap().unwrap(), *value(3 * VALUES + 40));

    let mut stream = cf.multi_get_stream_opt(&keys, &read);
    let mut count = 0;
    {
        let mut next = pin!(stream.next());
        assert!(poll(next.as_mut()).is_pending());
        assert_eq!(device.sim.held(), 8, "all are in flight");
        device.sim.run();
        assert!(poll(next.as_mut()).is_ready());
        count += 1;
    }
    while let Poll::Ready(Some((_, found))) = poll(pin!(stream.next())) {
        assert!(found.unwrap().is_some());
        count += 1;
    }
    assert_eq!(count, keys.len());
}

#[test]
fn neighbours_are_joined() {
    let device = Device::new(2);
    let db = filled(&device, &options());
    // All values of a file: 20 KB.
    let keys: Vec<_> = (0..VALUES * 2).rev().map(key).collect();
    let reads = count_blob_reads(&device);
    let mut read = ReadOptions::new();
    read.set_async_io(true);
    check(&keys, &db.multi_get_opt(&keys, &read));
    assert_eq!(reads.load(Ordering::Relaxed), 2);
    read.set_async_io(false);
    let statistics = perf::measure(PerfLevel::EnableCount, || {
        check(&keys, &db.multi_get_opt(&keys, &read));
    });
    assert_eq!(statistics.1.get(PerfMetric::BlobReadCount), 2);
}

/// The blob files, in the order of their numbers.
fn blob_files(device: &Device) -> Vec<PathBuf> {
    let names = koeldb::fs::FileSystem::list(&*device.memory, Path::new(PATH)).unwrap();
    let mut paths: Vec<_> = (names
        .into_iter()
        .map(|name| Path::new(PATH).join(name.name)))
    .filter(|path| {
        path.extension()
            .is_some_and(|extension| extension == "blob")
    })
    .collect();
    paths.sort();
    paths
}

#[test]
fn a_failed_value_is_the_error_of_its_key_alone() {
    for wrong in [Wrong::Unreadable, Wrong::Flipped] {
        let device = Device::new(3);
        let db = filled(&device, &options());
        let cf = db.default_cf();
        let keys: Vec<_> = (0..VALUES * 2).map(key).collect();
        let path = blob_files(&device).remove(0);
        // A byte of the sixth value or so.
        device.damage.spoil(&(path, 1000..1001), wrong);
        for is_overlapped in [false, true] {
            let mut read = ReadOptions::new();
            read.set_async_io(is_overlapped).fill_cache(false);
            let mut async_found = pin!(cf.multi_get_async_opt(&keys, &read));
            let async_found = loop {
                match poll(async_found.as_mut()) {
                    Poll::Ready(found) => break found,
                    Poll::Pending => device.sim.run(),
                }
            };
            for found in [db.multi_get_opt(&keys, &read), async_found] {
                let mut failed = 0;
                for (number, found) in (0..).zip(&found) {
                    match found {
                        Ok(found) => assert_eq!(found, Some(&*value(number))),
                        Err(error) => {
                            failed += 1;
                            let expected = match wrong {
                                Wrong::Flipped => ErrorKind::Corruption,
                                _ => ErrorKind::IoError,
                            };
                            assert_eq!(error.kind(), expected, "{error}");
                            assert!(error.to_string().contains(".blob"), "{error}");
                        }
                    }
                }
                assert_eq!(failed, 1);
            }
        }
    }
}

#[test]
fn values_beyond_the_soft_limit_are_not_read() {
    let device = Device::new(4);
    let db = filled(&device, &options());
    let keys: Vec<_> = (0..FILES).map(|file| key(file * VALUES)).collect();
    let reads = count_blob_reads(&device);
    let mut read = ReadOptions::new();
    read.set_async_io(true).set_value_size_soft_limit(300);
    let found = db.multi_get_opt(&keys, &read);
    let kinds: Vec<_> = (found.iter())
        .map(|found| found.map(|_| ()).map_err(|error| error.kind()))
        .collect();
    assert_eq!(kinds.iter().filter(|found| found.is_ok()).count(), 2);
    assert!(
        kinds[2..]
            .iter()
            .all(|found| *found == Err(ErrorKind::Aborted))
    );
    assert_eq!(reads.load(Ordering::Relaxed), 2);
}

#[test]
fn cached_values_are_not_read_again() {
    for codec in [Compression::None, Compression::Lz4] {
        for is_shared in [false, true] {
            let device = Device::new(5);
            let cache = Cache::new_lru_cache(4 << 20);
            let statistics = Statistics::new();
            let mut options = options();
            options
                .set_blob_compression_type(codec)
                .set_blob_cache(&cache)
                .set_statistics(statistics.clone());
            if is_shared {
                let mut table = koeldb::BlockBasedOptions::new();
                table.set_block_cache(&cache);
                options.set_block_based_table_factory(&table);
            }
            let db = filled(&device, &options);
            let cf = db.default_cf();
            let number = |name: &str| {
                cf.property_int_value(&format!("rocksdb.blob-cache-{name}"))
                    .unwrap()
            };
            assert_eq!(number("capacity"), Some(4 << 20));
            let (cached, uncached) = (key(10), key(11));
            let mut only_cache = ReadOptions::new();
            only_cache.set_read_tier(ReadTier::BlockCache);
            let error = db.get_opt(&uncached, &only_cache).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Incomplete, "{error}");
            let usage = number("usage").unwrap();
            statistics.reset();
            let mut no_fill = ReadOptions::new();
            no_fill.fill_cache(false);
            let (found, counts) = perf::measure(PerfLevel::EnableTime, || {
                db.get_opt(&uncached, &no_fill).unwrap().unwrap()
            });
            assert_eq!(*found, *value(11));
            assert_eq!(counts.get(PerfMetric::BlobReadCount), 1);
            assert!(counts.get(PerfMetric::BlobReadByte) > 0);
            assert_eq!(number("usage"), Some(usage), "fill_cache is off");
            assert_eq!(statistics.ticker(Ticker::BlobDbCacheMiss), 1);
            assert_eq!(statistics.ticker(Ticker::BlobDbCacheAdd), 0);
            assert_eq!(
                statistics.ticker(Ticker::BlobDbBlobFileBytesRead),
                counts.get(PerfMetric::BlobReadByte)
            );
            let reads = statistics.histogram(HistogramKind::BlobDbBlobFileReadMicros);
            assert_eq!(reads.count, 1);
            let decompressions = statistics.histogram(HistogramKind::BlobDbDecompressionMicros);
            assert_eq!(decompressions.count, u64::from(codec != Compression::None));

            statistics.reset();
            let ((), counts) = perf::measure(PerfLevel::EnableTime, || {
                assert_eq!(*db.get(&cached).unwrap().unwrap(), *value(10));
                assert_eq!(
                    *db.get_opt(&cached, &only_cache).unwrap().unwrap(),
                    *value(10)
                );
                let many = db.multi_get_opt(&[&cached, &cached], &only_cache);
                assert_eq!(many.get(1).unwrap(), Some(&*value(10)));
                let found = cf.iterator_opt(
                    IteratorMode::From(&cached, koeldb::Direction::Forward),
                    &only_cache,
                );
                let (_, found) = found.map(Result::unwrap).next().unwrap();
                assert_eq!(*found, *value(10));
            });
            assert_eq!(counts.get(PerfMetric::BlobReadCount), 0);
            assert_eq!(counts.get(PerfMetric::BlobCacheHitCount), 5);
            let bytes = 5 * value(10).len() as u64;
            assert_eq!(counts.get(PerfMetric::BlobCacheReadByte), bytes);
            assert_eq!(statistics.ticker(Ticker::BlobDbCacheHit), 5);
            assert_eq!(statistics.ticker(Ticker::BlobDbCacheBytesRead), bytes);
            assert_eq!(statistics.ticker(Ticker::BlobDbCacheMiss), 0);

            // What was not verified is not kept.
            let mut trusting = ReadOptions::new();
            trusting.set_verify_checksums(false);
            db.get_opt(&uncached, &trusting).unwrap().unwrap();
            assert!(db.get_opt(&uncached, &only_cache).is_err());
            // A batch fills it as well.
            for is_overlapped in [true, false] {
                let keys: Vec<_> = (12..15)
                    .map(|one| key(one + u64::from(is_overlapped) * 7))
                    .collect();
                let mut read = ReadOptions::new();
                read.set_async_io(is_overlapped);
                check(&keys, &db.multi_get_opt(&keys, &read));
                check(&keys, &db.multi_get_opt(&keys, &only_cache));
            }
            let before = number("usage").unwrap();
            cache.set_capacity(0);
            assert!(number("usage").unwrap() < before);
            assert_eq!(*db.get(&cached).unwrap().unwrap(), *value(10));
        }
    }
}

#[test]
fn flushed_values_are_cached_if_wished() {
    for is_wished in [false, true] {
        let device = Device::new(6);
        let mut options = options();
        options
            .set_blob_cache(&Cache::new_lru_cache(4 << 20))
            .set_blob_compression_type(Compression::Lz4)
            .set_prepopulate_blob_cache(match is_wished {
                true => PrepopulateBlobCache::FlushOnly,
                false => PrepopulateBlobCache::Disable,
            });
        let db = device.open_plainly(&options);
        for number in 0..VALUES {
            db.put(key(number), value(number)).unwrap();
        }
        db.flush().unwrap();
        let keys: Vec<_> = (0..VALUES).map(key).collect();
        let mut only_cache = ReadOptions::new();
        only_cache.set_read_tier(ReadTier::BlockCache);
        // Its blocks are cached, its values are not.
        db.get("key").unwrap();
        db.get("key00000x").unwrap();
        let ((), counts) = perf::measure(PerfLevel::EnableCount, || {
            check(&keys, &db.multi_get(&keys));
        });
        let hits = if is_wished { VALUES } else { 0 };
        assert_eq!(counts.get(PerfMetric::BlobCacheHitCount), hits);
        assert_eq!(counts.get(PerfMetric::BlobReadCount), u64::from(!is_wished));
        check(&keys, &db.multi_get_opt(&keys, &only_cache));
    }
}

#[test]
fn the_options_are_read_from_text() {
    let mut options = options();
    let text = "blob_cache={capacity=3M;num_shard_bits=0;};prepopulate_blob_cache=kFlushOnly;";
    options.apply_str(text, &ConfigOptions::new()).unwrap();
    let device = Device::new(7);
    let db = filled(&device, &options);
    let capacity = db.property_int_value("rocksdb.blob-cache-capacity");
    assert_eq!(capacity.unwrap(), Some(3 << 20));
}

/// Counts the reads of blob files in `run`.
fn blob_reads(run: impl FnOnce()) -> u64 {
    let ((), counts) = perf::measure(PerfLevel::EnableCount, run);
    counts.get(PerfMetric::BlobReadCount)
}

/// All entries of a cursor, forward or backward, with their values if `prepares`.
fn scanned(db: &Db, read: &ReadOptions, forward: bool, prepares: bool) -> Vec<Option<Vec<u8>>> {
    let mut cursor = db.cursor_opt(read);
    let mut values = Vec::new();
    let mut found = match forward {
        true => cursor.seek_to_first(),
        false => cursor.seek_to_last(),
    };
    while found.unwrap() {
        if prepares {
            assert!(cursor.prepare_value().unwrap());
        }
        assert_eq!(cursor.entry().is_some(), cursor.value().is_some());
        values.push(cursor.value().map(<[u8]>::to_vec));
        found = match forward {
            true => cursor.next(),
            false => cursor.prev(),
        };
    }
    assert!(!cursor.prepare_value().unwrap());
    values
}

#[test]
fn scans_read_the_values_that_are_asked_for() {
    let device = Device::new(8);
    let db = filled(&device, &options());
    let expected: Vec<_> = (0..FILES * VALUES).map(value).collect();
    for forward in [true, false] {
        let expected = || {
            let values = expected.iter().cloned().map(Some);
            match forward {
                true => values.collect::<Vec<_>>(),
                false => values.rev().collect(),
            }
        };
        let reads = blob_reads(|| {
            assert_eq!(
                scanned(&db, &ReadOptions::new(), forward, false),
                expected()
            );
        });
        // Windows of 16 KiB and more over files of 20 KiB.
        assert!((FILES..=FILES * 3).contains(&reads), "{reads} reads");
        let mut keys_only = ReadOptions::new();
        keys_only.set_keys_only(true);
        let reads = blob_reads(|| {
            let values = scanned(&db, &keys_only, forward, true);
            assert_eq!(values, vec![Some(Vec::new()); expected().len()]);
        });
        assert_eq!(reads, 0);
        let mut on_demand = ReadOptions::new();
        on_demand.set_allow_unprepared_value(true);
        let reads = blob_reads(|| {
            let values = scanned(&db, &on_demand, forward, false);
            assert_eq!(values, vec![None; expected().len()]);
        });
        assert_eq!(reads, 0);
        assert_eq!(scanned(&db, &on_demand, forward, true), expected());
        let entries = db.default_cf().range_opt(.., &on_demand);
        let found: Vec<_> = match forward {
            true => entries
                .map(|entry| Some(entry.unwrap().1.to_vec()))
                .collect(),
            false => (entries.rev())
                .map(|entry| Some(entry.unwrap().1.to_vec()))
                .collect(),
        };
        assert_eq!(found, expected());
    }
}

#[test]
fn a_value_that_cannot_be_prepared_leaves_the_cursor_where_it_is() {
    let device = Device::new(9);
    let db = filled(&device, &options());
    let path = blob_files(&device).remove(0);
    device.damage.spoil(&(path, 100..101), Wrong::Flipped);
    let mut on_demand = ReadOptions::new();
    on_demand.set_allow_unprepared_value(true);
    let mut cursor = db.cursor_opt(&on_demand);
    assert!(cursor.seek_to_first().unwrap());
    for _ in 0..2 {
        let error = cursor.prepare_value().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        assert_eq!((cursor.key(), cursor.value()), (Some(&*key(0)), None));
    }
    assert!(cursor.next().unwrap() && cursor.prepare_value().unwrap());
    assert_eq!(cursor.entry(), Some((&*key(1), &*value(1))));
    // Merged values are there.
    let mut options = options();
    options.set_merge_operator(koeldb::StringAppend::default());
    let device = Device::new(10);
    let db = device.open_plainly(&options);
    db.put("a", value(1)).unwrap();
    db.put("b", value(2)).unwrap();
    db.flush().unwrap();
    db.merge("a", "more").unwrap();
    for forward in [true, false] {
        let mut found = scanned(&db, &on_demand, forward, false);
        found.sort();
        let merged = [value(1), b",more".to_vec()].concat();
        assert_eq!(found, [None, Some(merged)]);
    }
}
