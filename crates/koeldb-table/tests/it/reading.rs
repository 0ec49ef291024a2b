//! Read settings: caches, readahead, prefixes, external files.

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use koeldb_base::codec::Compression;
use koeldb_base::key::{MAX_SEQNO, ValueType, encode};
use koeldb_base::merge_operator::Merger;
use koeldb_base::prefix::FixedPrefix;
use koeldb_base::range_del::RangeTombstone;
use koeldb_base::stats::{HistogramKind, Statistics, Ticker};
use koeldb_base::{Cursor, ErrorKind, Fault, KeyOrder, Lookup, Result};
use koeldb_cache::{Cache, CacheKey, CacheOptions, Priority};
use koeldb_fs::{
    Failure, FaultAction, FaultFileSystem, FaultRule, FileSystem, MemoryFileSystem, OpenOptions,
    Operation, Purpose, TraceDetail, TraceFileSystem, WriteOptions,
};
use koeldb_table::TableReader;
use koeldb_table::block_based::cursor::CursorSource;
use koeldb_table::block_based::format::IndexType;
use koeldb_table::block_based::readahead::ahead::ScanLimits;
use koeldb_table::block_based::readahead::scan_source::{ReadaheadPolicy, ScanSource};
use koeldb_table::builder::{TableBuildContext, TableBuilder};
use koeldb_table::filter::FilterPolicy;
use koeldb_table::properties::names;
use koeldb_table::reader::{BlockBasedReadOptions, Pinning, TableCursorOptions, TableReadContext};
use koeldb_table::source::{BlockReadOptions, BlockingSource, CachedBlock};

use crate::judge::{self, FileBytes, blocking};

const PATH: &str = "/table.sst";

/// The bytes of a table of `count` keys `key000000`, …, of sequence number `seqno`.
fn written(context: &TableBuildContext, count: usize, seqno: u64) -> Vec<u8> {
    let fs = MemoryFileSystem::new();
    let path = Path::new(PATH);
    let file = fs.create(path, &WriteOptions::new(Purpose::Flush)).unwrap();
    let mut builder = TableBuilder::create(file, context).unwrap();
    for number in 0..count {
        let key = encode(&user_key(number), seqno, ValueType::Value);
        builder.add(&key, &value(number)).unwrap();
    }
    builder.finish().unwrap();
    fs.read_all(path, 1 << 30, Purpose::Read).unwrap()
}

fn user_key(number: usize) -> Vec<u8> {
    format!("key{number:06}").into_bytes()
}

fn value(number: usize) -> Vec<u8> {
    format!("value{number}-{}", "x".repeat(number % 90)).into_bytes()
}

fn open(bytes: &[u8], context: &TableReadContext) -> Result<Arc<TableReader>> {
    TableReader::open(FileBytes::new(Path::new(PATH), bytes.to_vec()), context)
}

fn cached() -> TableReadContext {
    TableReadContext {
        cache: Some(Cache::<CachedBlock>::new(&CacheOptions::default())),
        statistics: Some(Statistics::new()),
        ..TableReadContext::default()
    }
}

fn get(table: &TableReader, key: &[u8], source: &mut BlockingSource) -> Result<Option<Vec<u8>>> {
    let mut lookup = Lookup::new(key, MAX_SEQNO);
    blocking(table.search(&mut lookup, source))?;
    Ok(lookup.finish(Merger::default)?.map(|value| value.to_vec()))
}

#[test]
fn a_read_confined_to_the_cache_reads_nothing() {
    let bytes = written(&TableBuildContext::default(), 1000, 1);
    let context = cached();
    let table = open(&bytes, &context).unwrap();
    let mut confined = BlockingSource::new(BlockReadOptions {
        cache_only: true,
        ..BlockReadOptions::default()
    });
    let error = get(&table, &user_key(7), &mut confined).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incomplete);
    let without_filling = BlockReadOptions {
        fill_cache: false,
        ..BlockReadOptions::default()
    };
    let mut source = BlockingSource::new(without_filling);
    assert_eq!(
        get(&table, &user_key(7), &mut source).unwrap(),
        Some(value(7))
    );
    assert!(get(&table, &user_key(7), &mut confined).is_err());
    let mut filling = BlockingSource::default();
    assert_eq!(
        get(&table, &user_key(7), &mut filling).unwrap(),
        Some(value(7))
    );
    assert_eq!(
        get(&table, &user_key(7), &mut confined).unwrap(),
        Some(value(7))
    );
    let statistics = context.statistics.unwrap();
    assert_eq!(statistics.ticker(Ticker::BlockCacheDataAdd), 1);
    assert_eq!(statistics.ticker(Ticker::BlockCacheDataHit), 1);
    assert_eq!(statistics.ticker(Ticker::BlockCacheDataMiss), 4);
    let cache = context.cache.unwrap();
    assert!(cache.usage() > 4096, "{}", cache.usage());
}

#[test]
fn uncaching_a_table_removes_all_its_blocks_and_reads_nothing() {
    for (index_type, partition_filters, pinning) in [
        (IndexType::BinarySearch, false, Pinning::None),
        (IndexType::BinarySearch, false, Pinning::All),
        (IndexType::TwoLevel, true, Pinning::None),
        (IndexType::TwoLevel, true, Pinning::All),
    ] {
        let mut build = TableBuildContext::default();
        build.format.index_type = index_type;
        build.format.filter = FilterPolicy::bloom(10.0);
        build.format.partition_filters = partition_filters;
        build.format.metadata_block_bytes = 512;
        build.format.block_bytes = 500;
        let bytes = written(&build, 1000, 1);
        let mut context = cached();
        context.block_based = BlockBasedReadOptions {
            cache_index_and_filter_blocks: true,
            pin_unpartitioned: pinning,
            pin_top_level: pinning,
            pin_partitions: pinning,
            ..BlockBasedReadOptions::default()
        };
        let (fs, table) = counted(&bytes, &context);
        let mut source = BlockingSource::default();
        for number in 0..1000 {
            assert!(
                get(&table, &user_key(number), &mut source)
                    .unwrap()
                    .is_some()
            );
        }
        let cache = context.cache.unwrap();
        let case = format!("{index_type:?}, {pinning:?}");
        assert!(cache.len() > 20, "{case}");
        let uncache = || table.uncache(1).unwrap();
        assert_eq!(bytes_read(&fs, uncache), 0, "{case}");
        assert_eq!((cache.len(), cache.usage()), (0, 0), "{case}");
        // The index is not in memory any more, if it was not pinned.
        assert_eq!(bytes_read(&fs, uncache), 0, "{case}");
    }
}

#[test]
fn a_damaged_block_is_read_when_nobody_verifies() {
    let mut context = TableBuildContext {
        compression: Compression::None,
        ..TableBuildContext::default()
    };
    context.format.block_restart_interval = 1;
    let mut bytes = written(&context, 1000, 1);
    // The last letter of the first entry's value: `value0-` and nothing else.
    let at = bytes
        .windows(7)
        .position(|seven| seven == b"value0-")
        .unwrap();
    bytes[at + 6] = b'!';
    let table = open(&bytes, &TableReadContext::default()).unwrap();
    let error = get(&table, &user_key(0), &mut BlockingSource::default()).unwrap_err();
    assert!(error.is_corruption());
    assert_eq!(
        error.detail(),
        Some(koeldb_base::error::ErrorDetail::ChecksumMismatch)
    );
    assert_eq!(error.file().unwrap().path, Path::new(PATH));
    let mut trusting = BlockingSource::new(BlockReadOptions {
        verify_checksums: false,
        ..BlockReadOptions::default()
    });
    let found = get(&table, &user_key(0), &mut trusting).unwrap();
    assert_eq!(found.as_deref(), Some(&b"value0!"[..]));
    assert!(table.verify_checksums(&mut |_| ()).is_err());
    assert!(
        get(&table, &user_key(999), &mut BlockingSource::default())
            .unwrap()
            .is_some()
    );
}

/// Unwraps the result of a call that must not suspend.
fn done<S>(moved: Result<(), Fault<S>>) -> Result<()> {
    match moved {
        Ok(()) => Ok(()),
        Err(Fault::Error(error)) => Err(error),
        Err(Fault::Suspend(_)) => panic!("the call waits for something"),
    }
}

/// A table of `bytes` whose reads are counted.
fn counted(bytes: &[u8], context: &TableReadContext) -> (TraceFileSystem, Arc<TableReader>) {
    let memory = MemoryFileSystem::new();
    let path = Path::new(PATH);
    let mut file = memory
        .create(path, &WriteOptions::new(Purpose::Flush))
        .unwrap();
    file.append(bytes).unwrap();
    file.close().unwrap();
    let fs = TraceFileSystem::new(Arc::new(memory), TraceDetail::Counts);
    let file = fs.open(path, &OpenOptions::default()).unwrap();
    let table = TableReader::open(file, context).unwrap();
    (fs, table)
}

/// The number of reads of a whole scan in both directions, and of its entries.
fn scan_reads<S: CursorSource + Clone>(bytes: &[u8], source: &S) -> (u64, u64, usize) {
    let (fs, table) = counted(bytes, &TableReadContext::default());
    let reads = || fs.total_counts().reads;
    let before = reads();
    let mut cursor = table.cursor(source.clone(), &TableCursorOptions::default());
    let mut entries = 0;
    done(cursor.seek_to_first()).unwrap();
    while cursor.valid() {
        assert_eq!(cursor.value(), value(entries));
        entries += 1;
        done(cursor.next()).unwrap();
    }
    let forward = reads() - before;
    let mut cursor = table.cursor(source.clone(), &TableCursorOptions::default());
    let mut left = entries;
    done(cursor.seek_to_last()).unwrap();
    while cursor.valid() {
        left -= 1;
        assert_eq!(cursor.value(), value(left));
        done(cursor.prev()).unwrap();
    }
    assert_eq!(left, 0);
    (forward, reads() - before - forward, entries)
}

fn scan_source(policy: ReadaheadPolicy) -> ScanSource {
    let limits = Arc::new(ScanLimits::new());
    ScanSource::new(BlockReadOptions::default(), policy, limits, None)
}

#[test]
fn reading_ahead_reads_less_often_and_the_same() {
    let context = TableBuildContext {
        compression: Compression::None,
        ..TableBuildContext::default()
    };
    let bytes = written(&context, 20_000, 1);
    let (each, each_back, entries) = scan_reads(&bytes, &BlockingSource::default());
    assert_eq!(entries, 20_000);
    assert!(
        each > 200 && each_back >= each,
        "{each} and {each_back} blocks"
    );
    let pieces = bytes.len() as u64 / (256 << 10) + 1;
    let (few, _, _) = scan_reads(
        &bytes,
        &BlockingSource::new(BlockReadOptions {
            readahead_bytes: 256 << 10,
            ..BlockReadOptions::default()
        }),
    );
    assert!(few <= pieces, "{few} reads");
    let fixed = scan_source(ReadaheadPolicy {
        fixed_bytes: 256 << 10,
        ..ReadaheadPolicy::default()
    });
    let (few, few_back, _) = scan_reads(&bytes, &fixed);
    assert!(
        few <= pieces && few_back <= pieces,
        "{few} and {few_back} reads"
    );
    let (some, some_back, _) = scan_reads(&bytes, &scan_source(ReadaheadPolicy::default()));
    // Two blocks alone, 8 to 128 KiB in five pieces, and the rest in pieces of 256 KiB.
    assert!(some <= 2 + 5 + pieces, "{some} reads");
    assert!(some_back <= 2 + 5 + pieces, "{some_back} reads");
    let never = scan_source(ReadaheadPolicy {
        max_bytes: 0,
        ..ReadaheadPolicy::default()
    });
    assert_eq!(scan_reads(&bytes, &never).0, each);
    let patient = scan_source(ReadaheadPolicy {
        blocks_before: 100,
        ..ReadaheadPolicy::default()
    });
    let (late, _, _) = scan_reads(&bytes, &patient);
    assert!((100..110 + pieces).contains(&late), "{late} reads");
}

/// The bytes read during `scan`.
fn bytes_read(fs: &TraceFileSystem, scan: impl FnOnce()) -> u64 {
    let before = fs.total_counts().read_bytes;
    scan();
    fs.total_counts().read_bytes - before
}

#[test]
fn reading_ahead_ends_where_the_scan_ends() {
    let context = TableBuildContext {
        compression: Compression::None,
        ..TableBuildContext::default()
    };
    let bytes = written(&context, 20_000, 1);
    let fixed = ReadaheadPolicy {
        fixed_bytes: 256 << 10,
        ..ReadaheadPolicy::default()
    };
    let limits = Arc::new(ScanLimits::new());
    let source = |policy| {
        ScanSource::new(
            BlockReadOptions::default(),
            policy,
            Arc::clone(&limits),
            None,
        )
    };
    let options = TableCursorOptions::default();
    let target = |number| encode(&user_key(number), MAX_SEQNO, ValueType::FOR_SEEK);
    let read = |policy, from, back: bool| {
        let (fs, table) = counted(&bytes, &TableReadContext::default());
        let mut cursor = table.cursor(source(policy), &options);
        bytes_read(&fs, || {
            let target = target(from);
            let placed = if back {
                cursor.seek_for_prev(&target)
            } else {
                cursor.seek(&target)
            };
            done(placed).unwrap();
            assert!(cursor.valid());
        })
    };
    let untrimmed = ReadaheadPolicy {
        trimmed: false,
        ..fixed
    };
    limits.set(Bound::Unbounded, Bound::Excluded(user_key(10_050)));
    let short = read(fixed, 10_000, false);
    assert!(short < 16 << 10, "{short} bytes");
    assert!(read(untrimmed, 10_000, false) >= 256 << 10);
    // Changed limits apply from the next piece on: those of an earlier seek cut nothing off.
    limits.set(Bound::Unbounded, Bound::Unbounded);
    assert!(read(fixed, 10_000, false) >= 256 << 10);
}

#[test]
fn what_is_cached_is_not_read_again() {
    let context = TableBuildContext {
        compression: Compression::None,
        ..TableBuildContext::default()
    };
    let bytes = written(&context, 20_000, 1);
    let known = cached();
    let (fs, table) = counted(&bytes, &known);
    let options = TableCursorOptions::default();
    let target = |number| encode(&user_key(number), MAX_SEQNO, ValueType::FOR_SEEK);
    // The middle of the table is cached, and after the scan every block is.
    for number in 8_000..12_000 {
        get(&table, &user_key(number), &mut BlockingSource::default()).unwrap();
    }
    let whole = |source: ScanSource| {
        let mut cursor = table.cursor(source, &options);
        let mut entries = 0;
        done(cursor.seek(&target(0))).unwrap();
        while cursor.valid() {
            assert_eq!(cursor.value(), value(entries));
            entries += 1;
            done(cursor.next()).unwrap();
        }
        assert_eq!(entries, 20_000);
    };
    let policy = ReadaheadPolicy::default();
    let statistics = known.statistics.as_ref().unwrap();
    let misses = || statistics.ticker(Ticker::BlockCacheDataMiss);
    let before = misses();
    let first = bytes_read(&fs, || whole(scan_source(policy)));
    let data = table.properties().data_bytes;
    assert!(first < data * 9 / 10, "{first} of {data} bytes");
    // The cache is not queried for every block, but each block that was read counts as a miss.
    let missed = (misses() - before) * (4 << 10);
    assert!(missed > first * 9 / 10, "{missed} of {first} bytes");
    assert_eq!(bytes_read(&fs, || whole(scan_source(policy))), 0);
    let hits = statistics.ticker(Ticker::PrefetchHits);
    assert!(hits > 100, "{hits}");
    // Without a cache there are no cache misses.
    let uncached = TableReadContext {
        cache: None,
        ..known.clone()
    };
    let (_, table) = counted(&bytes, &uncached);
    let before = misses();
    let mut cursor = table.cursor(scan_source(policy), &options);
    done(cursor.seek_to_first()).unwrap();
    while cursor.valid() {
        done(cursor.next()).unwrap();
    }
    assert_eq!(misses(), before);
}

#[test]
fn a_long_scan_passes_through_a_full_cache_and_leaves_a_part_of_itself() {
    let context = TableBuildContext {
        compression: Compression::None,
        ..TableBuildContext::default()
    };
    let bytes = written(&context, 20_000, 1);
    let (blocks, _, _) = scan_reads(&bytes, &BlockingSource::default());
    let cache = Cache::<CachedBlock>::new(&CacheOptions {
        capacity_bytes: 128 << 10,
        shard_bits: Some(0),
        ..CacheOptions::default()
    });
    let known = TableReadContext {
        cache: Some(cache.clone()),
        ..TableReadContext::default()
    };
    let table = open(&bytes, &known).unwrap();
    let options = TableCursorOptions::default();
    let policy = ReadaheadPolicy {
        max_bytes: 32 << 10,
        ..ReadaheadPolicy::default()
    };
    let mut pinned = Vec::new();
    let mut inserts = Vec::new();
    for pass in 0..20 {
        let before = cache.counts().inserts;
        let mut cursor = table.cursor(scan_source(policy), &options);
        done(cursor.seek_to_first()).unwrap();
        let mut entries = 0;
        while cursor.valid() {
            assert_eq!(cursor.value(), value(entries));
            if pass == 1 && entries % 50 == 0 {
                pinned.push((entries, cursor.pinned_value()));
            }
            entries += 1;
            done(cursor.next()).unwrap();
        }
        inserts.push(cache.counts().inserts - before);
    }
    assert!(inserts[0] > 20, "there was room: {inserts:?}");
    let later: u64 = inserts[1..].iter().sum();
    assert!(
        later < 19 * blocks / 4,
        "{inserts:?} of {blocks} blocks a pass"
    );
    assert!(later > blocks / 16, "{inserts:?} of {blocks} blocks a pass");
    // Pinned values do not depend on the memory they were read into.
    drop(table);
    for (number, pinned) in pinned {
        assert_eq!(&pinned[..], value(number));
    }
}

#[test]
fn a_scan_is_as_long_as_all_its_tables_together() {
    let context = TableBuildContext {
        compression: Compression::None,
        ..TableBuildContext::default()
    };
    let bytes = written(&context, 20_000, 1);
    // A scan is long after a quarter of the table.
    let capacity_bytes = 128 * (bytes.len() as u64 / 4);
    let cache = Cache::<CachedBlock>::new(&CacheOptions {
        capacity_bytes,
        shard_bits: Some(0),
        ..CacheOptions::default()
    });
    let file = cache.new_id();
    for offset in 0..200 {
        let others = Arc::new(CachedBlock::reservation());
        let key = CacheKey { file, offset };
        let charge = capacity_bytes / 128;
        cache.insert(key, others, charge, Priority::Low).unwrap();
    }
    let known = TableReadContext {
        cache: Some(cache.clone()),
        ..TableReadContext::default()
    };
    let limits = Arc::new(ScanLimits::new());
    let policy = ReadaheadPolicy {
        max_bytes: 16 << 10,
        ..ReadaheadPolicy::default()
    };
    let mut cursors: Vec<_> = (0..2)
        .map(|_| {
            let blocks = BlockReadOptions::default();
            let source = ScanSource::new(blocks, policy, Arc::clone(&limits), None);
            let table = open(&bytes, &known).unwrap();
            let mut cursor = table.cursor(source, &TableCursorOptions::default());
            done(cursor.seek_to_first()).unwrap();
            cursor
        })
        .collect();
    let mut inserts = Vec::new();
    for cursor in &mut cursors {
        let before = cache.counts().inserts;
        while cursor.valid() {
            done(cursor.next()).unwrap();
        }
        inserts.push(cache.counts().inserts - before);
    }
    assert!(inserts[0] > 2 * inserts[1], "{inserts:?}");
    // After a new seek it is short again.
    let before = cache.counts().inserts;
    done(cursors[1].seek_to_first()).unwrap();
    while cursors[1].valid() {
        done(cursors[1].next()).unwrap();
    }
    assert!(cache.counts().inserts - before > 2 * inserts[1]);
}

#[test]
fn what_was_read_ahead_is_used_or_counted_as_discarded() {
    let context = TableBuildContext {
        compression: Compression::None,
        ..TableBuildContext::default()
    };
    let bytes = written(&context, 20_000, 1);
    let statistics = Statistics::new();
    let known = TableReadContext {
        statistics: Some(statistics.clone()),
        ..TableReadContext::default()
    };
    let table = open(&bytes, &known).unwrap();
    let policy = ReadaheadPolicy {
        fixed_bytes: 64 << 10,
        ..ReadaheadPolicy::default()
    };
    let mut cursor = table.cursor(scan_source(policy), &TableCursorOptions::default());
    done(cursor.seek_to_first()).unwrap();
    for _ in 0..500 {
        done(cursor.next()).unwrap();
    }
    drop(cursor);
    let discarded = statistics.histogram(HistogramKind::PrefetchedBytesDiscarded);
    let used = statistics.ticker(Ticker::PrefetchBytesUseful);
    assert!(used > 0 && discarded.sum > 0);
    let read = statistics.ticker(Ticker::PrefetchBytes);
    assert_eq!(read, used + discarded.sum);
}

#[test]
fn a_failed_large_read_fails_no_block_that_can_be_read() {
    let context = TableBuildContext {
        compression: Compression::None,
        ..TableBuildContext::default()
    };
    let bytes = written(&context, 20_000, 1);
    let memory = Arc::new(MemoryFileSystem::new());
    let path = Path::new(PATH);
    let mut file = memory
        .create(path, &WriteOptions::new(Purpose::Flush))
        .unwrap();
    file.append(&bytes).unwrap();
    file.close().unwrap();
    let fs = FaultFileSystem::new(memory, 7);
    let file = fs.open(path, &OpenOptions::default()).unwrap();
    let table = TableReader::open(file, &TableReadContext::default()).unwrap();
    let options = TableCursorOptions::default();
    for action in [
        FaultAction::Fail(Failure::Device),
        FaultAction::ShortRead,
        FaultAction::FlipReadBits(40),
    ] {
        let mut cursor = table.cursor(scan_source(ReadaheadPolicy::default()), &options);
        done(cursor.seek_to_first()).unwrap();
        // The first read of several blocks follows the first two blocks, which are read alone.
        let rule = FaultRule::new(action.clone()).on(&[Operation::Read]);
        fs.add_rule(rule.nth(2).limit(1));
        let injected = fs.injection_count();
        let mut entries = 0;
        while cursor.valid() {
            assert_eq!(cursor.value(), value(entries));
            entries += 1;
            done(cursor.next()).unwrap();
        }
        assert_eq!(entries, 20_000, "{action:?}");
        assert_eq!(fs.injection_count(), injected + 1);
        fs.clear_rules();
    }
}

#[test]
fn a_seek_within_one_prefix_asks_the_filter() {
    for (partitioned, index_type) in [
        (false, IndexType::BinarySearch),
        (true, IndexType::TwoLevel),
    ] {
        let mut context = TableBuildContext {
            prefix_extractor: Some(Arc::new(FixedPrefix::new(8))),
            ..TableBuildContext::default()
        };
        context.format.filter = FilterPolicy::bloom(10.0);
        context.format.whole_key_filtering = false;
        context.format.partition_filters = partitioned;
        context.format.index_type = index_type;
        let bytes = written(&context, 5000, 1);
        let options = TableCursorOptions {
            prefix_extractor: context.prefix_extractor.clone(),
        };
        let known = TableReadContext {
            prefix_extractor: context.prefix_extractor.clone(),
            ..cached()
        };
        let table = open(&bytes, &known).unwrap();
        let mut cursor = table.cursor(BlockingSource::default(), &options);
        for number in (0..5000).step_by(97) {
            blocking(cursor.seek(&encode(&user_key(number), 5, ValueType::FOR_SEEK))).unwrap();
            assert!(cursor.valid());
            assert_eq!(cursor.value(), value(number));
            let found = get(&table, &user_key(number), &mut BlockingSource::default()).unwrap();
            assert_eq!(found, Some(value(number)));
        }
        let mut hidden = 0;
        for number in 0..100 {
            let absent = format!("kez{number:06}");
            blocking(cursor.seek(&encode(absent.as_bytes(), 5, ValueType::FOR_SEEK))).unwrap();
            assert!(!cursor.valid(), "behind all keys");
            let absent = format!("kea{number:06}");
            blocking(cursor.seek(&encode(absent.as_bytes(), 5, ValueType::FOR_SEEK))).unwrap();
            hidden += usize::from(!cursor.valid());
        }
        assert!(hidden > 90, "{hidden} of 100");
        let useful = known
            .statistics
            .unwrap()
            .ticker(Ticker::BloomFilterPrefixUseful);
        assert!(useful > 90, "{useful}");
        // Another extractor makes other prefixes: the filter is not queried.
        let other = TableReadContext {
            prefix_extractor: Some(Arc::new(FixedPrefix::new(3))),
            ..TableReadContext::default()
        };
        let table = open(&bytes, &other).unwrap();
        let mut cursor = table.cursor(BlockingSource::default(), &options);
        blocking(cursor.seek(&encode(b"kea", 5, ValueType::FOR_SEEK))).unwrap();
        assert!(cursor.valid());
    }
}

/// A table as written outside a database, with `recorded` as its sequence number.
fn external(version: u32, recorded: Option<u64>) -> Vec<u8> {
    let mut context = TableBuildContext::default();
    let properties = &mut context.user_properties;
    properties.insert(
        names::EXTERNAL_VERSION.into(),
        version.to_le_bytes().to_vec(),
    );
    if let Some(recorded) = recorded {
        let seqno = recorded.to_le_bytes().to_vec();
        properties.insert(names::GLOBAL_SEQNO.into(), seqno);
    }
    let fs = MemoryFileSystem::new();
    let path = Path::new(PATH);
    let file = fs.create(path, &WriteOptions::new(Purpose::Flush)).unwrap();
    let mut builder = TableBuilder::create(file, &context).unwrap();
    for number in 0..500 {
        let key = encode(&user_key(number), 0, ValueType::Value);
        builder.add(&key, &value(number)).unwrap();
    }
    builder.add_tombstone(&RangeTombstone {
        start: b"a".to_vec(),
        end: b"b".to_vec(),
        seqno: 0,
    });
    builder.finish().unwrap();
    fs.read_all(path, 1 << 30, Purpose::Read).unwrap()
}

#[test]
fn entries_of_an_ingested_file_have_its_sequence_number() {
    let bytes = external(2, Some(0));
    let ingested = TableReadContext {
        largest_seqno: Some(77),
        ..TableReadContext::default()
    };
    let table = open(&bytes, &ingested).unwrap();
    let entries = judge::judge(&table, &KeyOrder::Bytewise, 20);
    for (number, (key, _)) in entries.iter().enumerate() {
        assert_eq!(*key, encode(&user_key(number), 77, ValueType::Value));
    }
    assert_eq!(judge::find(&table, &user_key(3), 76).unwrap().1, None);
    assert!(judge::find(&table, &user_key(3), 77).unwrap().1.is_some());
    assert_eq!(table.tombstones().unwrap().seqno_max(), 77);
    // Before ingestion its entries have sequence number 0.
    let table = open(&bytes, &TableReadContext::default()).unwrap();
    assert!(judge::find(&table, &user_key(3), 0).unwrap().1.is_some());
}

#[test]
fn a_sequence_number_written_over_is_accepted_and_nothing_else() {
    let bytes = external(2, Some(0));
    let name = bytes
        .windows(names::GLOBAL_SEQNO.len())
        .position(|window| window == names::GLOBAL_SEQNO.as_bytes());
    let Some(at) = name.map(|at| at + names::GLOBAL_SEQNO.len()) else {
        // The name shares a prefix with the preceding one.
        let suffix = b"global_seqno";
        let at = bytes
            .windows(suffix.len())
            .position(|w| w == suffix)
            .unwrap();
        return overwritten(bytes, at + suffix.len());
    };
    overwritten(bytes, at);
}

fn overwritten(mut bytes: Vec<u8>, at: usize) {
    assert_eq!(bytes[at..at + 8], [0; 8]);
    bytes[at..at + 8].copy_from_slice(&55_u64.to_le_bytes());
    let expecting = |largest_seqno| TableReadContext {
        largest_seqno,
        ..TableReadContext::default()
    };
    for largest_seqno in [None, Some(55)] {
        let table = open(&bytes, &expecting(largest_seqno)).unwrap();
        assert!(judge::find(&table, &user_key(3), 55).unwrap().1.is_some());
        assert!(judge::find(&table, &user_key(3), 54).unwrap().1.is_none());
    }
    assert!(
        open(&bytes, &expecting(Some(56)))
            .unwrap_err()
            .is_corruption()
    );
    bytes[at + 8] ^= 1;
    assert!(open(&bytes, &expecting(None)).unwrap_err().is_corruption());
}

#[test]
fn contradictory_external_properties_are_refused() {
    for (version, recorded) in [(1, Some(0)), (3, None), (2, Some(u64::MAX))] {
        let error = open(&external(version, recorded), &TableReadContext::default());
        assert!(error.unwrap_err().is_corruption(), "{version} {recorded:?}");
    }
    open(&external(1, None), &TableReadContext::default()).unwrap();
}

#[test]
fn what_the_cache_does_not_hold_is_accounted_for() {
    let mut context = TableBuildContext::default();
    context.format.filter = FilterPolicy::bloom(10.0);
    let bytes = written(&context, 20_000, 1);
    let held = open(&bytes, &cached()).unwrap().memory_bytes();
    let left = TableReadContext {
        block_based: BlockBasedReadOptions {
            cache_index_and_filter_blocks: true,
            ..BlockBasedReadOptions::default()
        },
        ..cached()
    };
    let table = open(&bytes, &left).unwrap();
    let properties = table.properties();
    let metadata = properties.filter_bytes + properties.index_bytes;
    assert!(held >= table.memory_bytes() + metadata, "{held}");
    assert!(left.cache.unwrap().usage() >= metadata);
    let pinned = TableReadContext {
        block_based: BlockBasedReadOptions {
            cache_index_and_filter_blocks: true,
            pin_unpartitioned: Pinning::Level0,
            ..BlockBasedReadOptions::default()
        },
        level: Some(0),
        ..cached()
    };
    assert_eq!(open(&bytes, &pinned).unwrap().memory_bytes(), held);
}

#[test]
fn partitions_of_pinned_tables_stay_in_the_cache() {
    let mut context = TableBuildContext::default();
    context.format.index_type = IndexType::TwoLevel;
    context.format.partition_filters = true;
    context.format.filter = FilterPolicy::bloom(10.0);
    let bytes = written(&context, 20_000, 1);
    let usage = |pinning, level| {
        let context = TableReadContext {
            block_based: BlockBasedReadOptions {
                cache_index_and_filter_blocks: true,
                pin_partitions: pinning,
                ..BlockBasedReadOptions::default()
            },
            level: Some(level),
            ..cached()
        };
        let table = open(&bytes, &context).unwrap();
        let cache = context.cache.unwrap();
        (cache.pinned_usage(), table.properties().filter_bytes)
    };
    for (pinning, level, pins) in [
        (Pinning::None, 0, false),
        (Pinning::Level0, 1, false),
        (Pinning::Level0, 0, true),
        (Pinning::All, 1, true),
    ] {
        let (pinned, filter) = usage(pinning, level);
        assert_eq!(pinned > filter, pins, "{pinning:?} {level} {pinned}");
    }
}
