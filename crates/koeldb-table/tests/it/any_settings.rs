//! Round trips of random entries under random settings, compared with a sorted list.

use std::path::Path;
use std::sync::Arc;

use koeldb_base::checksum::ChecksumKind;
use koeldb_base::codec::Compression;
use koeldb_base::key::{InternalKey, MAX_SEQNO, encode, user_key};
use koeldb_base::merge_operator::{Merger, StringAppend};
use koeldb_base::prefix::{CappedPrefix, FixedPrefix, PrefixExtractor};
use koeldb_base::range_del::{FragmentedTombstones, RangeTombstone};
use koeldb_base::{Cursor, KeyOrder, Lookup, PinnedSlice, ValueType};
use koeldb_cache::{Cache, CacheOptions};
use koeldb_fs::{FileSystem, MemoryFileSystem, OpenOptions, Purpose, WriteOptions};
use koeldb_table::TableReader;
use koeldb_table::block_based::builder::BlockBasedWriteOptions;
use koeldb_table::block_based::format::IndexType;
use koeldb_table::block_based::index::{IndexDecoding, IndexSearch};
use koeldb_table::block_based::index_builder::IndexShortening;
use koeldb_table::builder::{FinishedTable, TableBuildContext, TableBuilder};
use koeldb_table::filter::FilterPolicy;
use koeldb_table::reader::{BlockBasedReadOptions, TableCursorOptions, TableReadContext};
use koeldb_table::source::BlockingSource;
use proptest::prelude::*;

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

fn user_keys() -> impl Strategy<Value = Vec<u8>> {
    // A small alphabet produces shared prefixes, keys that are prefixes of others, and adjacent
    // keys.
    let letter = prop::sample::select(vec![0_u8, b'a', b'b', 0xfe, 0xff]);
    (
        prop::bool::weighted(0.8),
        prop::collection::vec(letter, 0..7),
    )
        .prop_map(|(common, tail)| {
            let mut key = if common {
                b"common/".to_vec()
            } else {
                Vec::new()
            };
            key.extend(tail);
            key
        })
}

fn entries() -> impl Strategy<Value = Vec<(Vec<u8>, ValueType, Vec<u8>)>> {
    let kind = prop::sample::select(vec![
        ValueType::Value,
        ValueType::Value,
        ValueType::Merge,
        ValueType::Deletion,
        ValueType::SingleDeletion,
    ]);
    let value = prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..20),
        1 => (any::<u8>(), 100..400_usize).prop_map(|(byte, len)| vec![byte; len]),
    ];
    prop::collection::vec((user_keys(), kind, value), 0..200)
}

fn tombstones() -> impl Strategy<Value = Vec<RangeTombstone>> {
    let tombstone = (user_keys(), user_keys(), 0..200_u64);
    prop::collection::vec(
        tombstone.prop_map(|(start, end, seqno)| RangeTombstone { start, end, seqno }),
        0..4,
    )
}

fn filters() -> impl Strategy<Value = FilterPolicy> {
    prop::sample::select(vec![
        FilterPolicy::None,
        FilterPolicy::bloom(10.0),
        FilterPolicy::bloom(3.0),
        FilterPolicy::ribbon(10.0, -1),
    ])
}

fn formats() -> impl Strategy<Value = BlockBasedWriteOptions> {
    let checksums = prop::sample::select(vec![
        ChecksumKind::None,
        ChecksumKind::Crc32c,
        ChecksumKind::XxHash32,
        ChecksumKind::XxHash64,
        ChecksumKind::Xxh3,
    ]);
    let index_types = prop::sample::select(vec![
        IndexType::BinarySearch,
        IndexType::HashSearch,
        IndexType::TwoLevel,
        IndexType::BinarySearchWithFirstKey,
    ]);
    let shortenings = prop::sample::select(vec![
        IndexShortening::None,
        IndexShortening::Separators,
        IndexShortening::SeparatorsAndSuccessor,
    ]);
    let blocks = (
        16..1000_usize,
        1..20_u32,
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
    );
    let index = (
        index_types,
        shortenings,
        1..10_u32,
        16..300_u64,
        -1.0..3.0_f64,
    );
    let filter = (filters(), any::<bool>(), any::<bool>());
    (2..=7_u32, checksums, blocks, index, filter).prop_map(
        |(format_version, checksum, blocks, index, filter)| BlockBasedWriteOptions {
            format_version,
            checksum,
            block_bytes: blocks.0,
            block_restart_interval: blocks.1,
            share_key_prefixes: blocks.2,
            separate_values: blocks.3,
            data_block_hash_index: blocks.4,
            index_type: index.0,
            index_shortening: index.1,
            index_block_restart_interval: index.2,
            metadata_block_bytes: index.3,
            uniform_cv_threshold: index.4,
            filter: filter.0,
            whole_key_filtering: filter.1,
            partition_filters: filter.2,
            ..BlockBasedWriteOptions::default()
        },
    )
}

fn readings() -> impl Strategy<Value = BlockBasedReadOptions> {
    let searches = prop::sample::select(vec![
        IndexSearch::Binary,
        IndexSearch::Interpolation,
        IndexSearch::Auto,
    ]);
    let decodings = prop::sample::select(vec![
        IndexDecoding::Never,
        IndexDecoding::Pinned,
        IndexDecoding::Always,
    ]);
    (searches, decodings, any::<bool>()).prop_map(|(index_search, index_decoding, cached)| {
        BlockBasedReadOptions {
            index_search,
            index_decoding,
            cache_index_and_filter_blocks: cached,
            ..BlockBasedReadOptions::default()
        }
    })
}

fn contexts() -> impl Strategy<Value = TableBuildContext> {
    let codecs: Vec<Compression> = Compression::ALL
        .into_iter()
        .filter(|codec| codec.is_available())
        .collect();
    let codec = (
        prop::sample::select(codecs),
        0..2_u32,
        0..2_u32,
        0..2000_u64,
    );
    (formats(), codec, any::<[bool; 3]>()).prop_map(
        |(format, (compression, dict, train, held), [reverse, capped, keeps_filter])| {
            let extractor: Arc<dyn PrefixExtractor> = if capped {
                Arc::new(CappedPrefix::new(8))
            } else {
                Arc::new(FixedPrefix::new(8))
            };
            // A hash index requires prefixes; filters may use them.
            let prefixes = format.index_type == IndexType::HashSearch || held % 2 == 0;
            let mut context = TableBuildContext {
                format,
                compression,
                order: if reverse {
                    KeyOrder::ReverseBytewise
                } else {
                    KeyOrder::Bytewise
                },
                prefix_extractor: prefixes.then_some(extractor),
                keeps_filter,
                ..TableBuildContext::default()
            };
            let options = &mut context.compression_options;
            options.max_dict_bytes = dict * 500;
            options.zstd_max_train_bytes = train * 5000;
            options.max_dict_buffer_bytes = held;
            context
        },
    )
}

/// The entries as internal keys in the context's order, with sequence numbers by position.
fn sorted(context: &TableBuildContext, entries: Vec<(Vec<u8>, ValueType, Vec<u8>)>) -> Entries {
    let mut sorted: Entries = entries
        .into_iter()
        .zip(1..)
        .map(|((key, kind, value), seqno)| (encode(&key, seqno, kind), value))
        .collect();
    sorted.sort_by(|a, b| context.order.compare_internal(&a.0, &b.0));
    sorted
}

fn write_and_open(
    context: &TableBuildContext,
    reading: &BlockBasedReadOptions,
    entries: &Entries,
    tombstones: &[RangeTombstone],
) -> (FinishedTable, Arc<TableReader>) {
    let fs = MemoryFileSystem::new();
    let path = Path::new("/table.sst");
    let file = fs.create(path, &WriteOptions::new(Purpose::Flush)).unwrap();
    let mut builder = TableBuilder::create(file, context).unwrap();
    for (key, value) in entries {
        builder.add(key, value).unwrap();
    }
    for tombstone in tombstones {
        builder.add_tombstone(tombstone);
    }
    let table = builder.finish().unwrap();
    let read_context = TableReadContext {
        order: context.order.clone(),
        prefix_extractor: context.prefix_extractor.clone(),
        expected_bytes: table.file_bytes,
        tail_bytes: table.tail_bytes,
        block_based: reading.clone(),
        memory_filter: table.memory_filter.clone(),
        cache: (reading.cache_index_and_filter_blocks)
            .then(|| Cache::new(&CacheOptions::default())),
        ..TableReadContext::default()
    };
    let file = fs.open(path, &OpenOptions::default()).unwrap();
    let reader = TableReader::open(file, &read_context).unwrap();
    (table, reader)
}

/// The expected result of a lookup, from a list of entries.
fn model_answer(
    order: &KeyOrder,
    entries: &Entries,
    tombstones: &FragmentedTombstones,
    key: &[u8],
    snapshot: u64,
) -> Option<PinnedSlice> {
    let mut lookup = Lookup::new(key, snapshot);
    lookup.cover(tombstones.covering_seqno(key, snapshot));
    for (internal, value) in entries {
        let entry = InternalKey::parse(internal).unwrap();
        if order.compare(entry.user_key, key).is_eq() && entry.seqno <= snapshot {
            let pin = || PinnedSlice::copy_of(value);
            if lookup.offer(entry.seqno, entry.value_type, pin).unwrap() {
                break;
            }
        }
    }
    let operator = StringAppend::default();
    lookup
        .finish(|| Merger::new(Some(&operator), "default"))
        .unwrap()
}

fn check_lookups(
    reader: &TableReader,
    order: &KeyOrder,
    entries: &Entries,
    tombstones: &FragmentedTombstones,
    keys: &[Vec<u8>],
) -> Result<(), TestCaseError> {
    let mut source = BlockingSource::default();
    let operator = StringAppend::default();
    for snapshot in [MAX_SEQNO, 100, 7] {
        let expected = |key: &[u8]| model_answer(order, entries, tombstones, key, snapshot);
        for key in keys {
            let mut lookup = Lookup::new(key, snapshot);
            reader.search(&mut lookup, &mut source).unwrap();
            prop_assert_eq!(
                lookup
                    .finish(|| Merger::new(Some(&operator), "default"))
                    .unwrap(),
                expected(key)
            );
        }
        let mut lookups: Vec<Lookup> = keys.iter().map(|k| Lookup::new(k, snapshot)).collect();
        let mut batch: Vec<&mut Lookup> = lookups.iter_mut().collect();
        reader.search_batch(&mut batch, &mut source, |_, outcome| outcome.unwrap());
        for (lookup, key) in lookups.into_iter().zip(keys) {
            prop_assert_eq!(
                lookup
                    .finish(|| Merger::new(Some(&operator), "default"))
                    .unwrap(),
                expected(key)
            );
        }
    }
    Ok(())
}

fn check_cursor(
    reader: &Arc<TableReader>,
    order: &KeyOrder,
    entries: &Entries,
    targets: &[Vec<u8>],
) -> Result<(), TestCaseError> {
    let mut cursor = reader.cursor(BlockingSource::default(), &TableCursorOptions::default());
    cursor.seek_to_first().unwrap();
    for (key, value) in entries {
        prop_assert!(cursor.valid());
        prop_assert_eq!((cursor.key(), cursor.value()), (&key[..], &value[..]));
        cursor.next().unwrap();
    }
    prop_assert!(!cursor.valid());
    cursor.seek_to_last().unwrap();
    for (key, value) in entries.iter().rev() {
        prop_assert!(cursor.valid());
        prop_assert_eq!((cursor.key(), cursor.value()), (&key[..], &value[..]));
        cursor.prev().unwrap();
    }
    prop_assert!(!cursor.valid());
    for target in targets {
        let before = entries.partition_point(|(k, _)| order.compare_internal(k, target).is_lt());
        cursor.seek(target).unwrap();
        prop_assert_eq!(cursor.valid(), before < entries.len());
        if let Some((key, value)) = entries.get(before) {
            prop_assert_eq!((cursor.key(), cursor.value()), (&key[..], &value[..]));
        }
        let upto = entries.partition_point(|(k, _)| order.compare_internal(k, target).is_le());
        cursor.seek_for_prev(target).unwrap();
        prop_assert_eq!(cursor.valid(), upto > 0);
        if let Some((key, _)) = upto.checked_sub(1).and_then(|last| entries.get(last)) {
            prop_assert_eq!(cursor.key(), &key[..]);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn tables_hold_what_was_added_under_any_settings(
        context in contexts(),
        reading in readings(),
        entries in entries(),
        tombstones in tombstones(),
        others in prop::collection::vec((user_keys(), 0..250_u64), 0..40),
    ) {
        let order = context.order.clone();
        let entries = sorted(&context, entries);
        let (table, reader) = write_and_open(&context, &reading, &entries, &tombstones);
        let mut stored = table.properties.clone();
        // It is counted while the table is built, and not stored.
        stored.uncompressed_data_bytes = 0;
        prop_assert_eq!(reader.properties(), &stored);
        prop_assert_eq!(
            table.properties.entry_count - table.properties.range_deletion_count,
            entries.len() as u64
        );
        reader.verify_checksums(&mut |_| ()).unwrap();

        let mut targets: Vec<Vec<u8>> = entries.iter().map(|(key, _)| key.clone()).collect();
        targets.extend(others.iter().map(|(key, seqno)| encode(key, *seqno, ValueType::Value)));
        check_cursor(&reader, &order, &entries, &targets)?;

        let tombstones = FragmentedTombstones::new(&order, &tombstones);
        let mut keys: Vec<Vec<u8>> = targets.iter().map(|key| user_key(key).to_vec()).collect();
        keys.sort_by(|a, b| order.compare(a, b));
        keys.dedup();
        check_lookups(&reader, &order, &entries, &tombstones, &keys)?;
    }
}

#[test]
fn an_empty_table_is_opened_and_holds_nothing() {
    for index_type in [
        IndexType::BinarySearch,
        IndexType::TwoLevel,
        IndexType::BinarySearchWithFirstKey,
    ] {
        let mut context = TableBuildContext::default();
        context.format.index_type = index_type;
        context.format.filter = FilterPolicy::bloom(10.0);
        let (table, reader) = write_and_open(
            &context,
            &BlockBasedReadOptions::default(),
            &Vec::new(),
            &[],
        );
        assert_eq!(table.properties.entry_count, 0);
        assert_eq!(table.properties.smallest_seqno, None);
        let target = encode(b"key", 1, ValueType::Value);
        check_cursor(&reader, &context.order, &Vec::new(), &[target]).unwrap();
    }
}

/// A key that sorts by its number.
fn number_key(number: u32) -> Vec<u8> {
    format!("{number:05}").into_bytes()
}

#[test]
fn a_filter_in_memory_changes_no_byte_and_admits_every_key() {
    let entries: Entries = (0..2000_u32)
        .map(|number| {
            let key = encode(&number_key(number), 1, ValueType::Value);
            (key, number.to_le_bytes().to_vec())
        })
        .collect();
    let reading = BlockBasedReadOptions::default();
    let plain = TableBuildContext::default();
    let (expected, _) = write_and_open(&plain, &reading, &entries, &[]);
    let kept = TableBuildContext {
        keeps_filter: true,
        ..plain.clone()
    };
    let (table, reader) = write_and_open(&kept, &reading, &entries, &[]);
    assert!(expected.memory_filter.is_none() && table.memory_filter.is_some());
    assert_eq!(table.properties, expected.properties);
    assert_eq!(table.file_bytes, expected.file_bytes);
    let mut source = BlockingSource::default();
    let mut admits = |key: u32| reader.may_contain(&number_key(key), &mut source).unwrap();
    assert!((0..2000).all(&mut admits));
    let wrongly = (2000..12_000).filter(|&key| admits(key)).count();
    assert!(
        wrongly < 300,
        "{wrongly} of 10,000 absent keys are admitted"
    );
    // The file has a filter then.
    let mut written = kept.clone();
    written.format.filter = FilterPolicy::bloom(10.0);
    let (table, _) = write_and_open(&written, &reading, &entries, &[]);
    assert!(table.memory_filter.is_none());
    // Without it the reader admits every key.
    let (_, reader) = write_and_open(&plain, &reading, &entries, &[]);
    assert!(reader.may_contain(&number_key(9999), &mut source).unwrap());
}
