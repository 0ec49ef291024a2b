//! Plain tables written by RocksDB and by KoelDB.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use koeldb_base::key::{InternalKey, MAX_SEQNO, ValueType, encode, footer_of};
use koeldb_base::prefix::{FixedPrefix, PrefixExtractor, by_id};
use koeldb_base::range_del::RangeTombstone;
use koeldb_base::{Cursor, ErrorKind, KeyOrder, Result};
use koeldb_fs::posix::PosixFileSystem;
use koeldb_fs::{FileSystem, MemoryFileSystem, OpenOptions, Purpose, WriteOptions};
use koeldb_table::builder::{FinishedTable, TableBuildContext};
use koeldb_table::plain::builder::{PlainTableBuilder, PlainWriteOptions};
use koeldb_table::plain::format::Encoding;
use koeldb_table::plain::reader::PlainReadOptions;
use koeldb_table::reader::{TableCursorOptions, TableReadContext};
use koeldb_table::source::BlockingSource;
use koeldb_table::{TableProperties, TableReader};
use proptest::prelude::*;

use crate::golden::{bytes_of, expected, tables};
use crate::judge::{Entry, FileBytes, blocking, current, find, judge, scan, scan_backward};

pub(crate) fn extractor(len: usize) -> Option<Arc<dyn PrefixExtractor>> {
    Some(Arc::new(FixedPrefix::new(len)))
}

fn context(plain: PlainReadOptions) -> TableReadContext {
    TableReadContext {
        prefix_extractor: extractor(6),
        plain,
        ..TableReadContext::default()
    }
}

fn open(path: &Path, context: &TableReadContext) -> Result<Arc<TableReader>> {
    TableReader::open(FileBytes::new(path, bytes_of(path)), context)
}

fn open_mapped(path: &Path, context: &TableReadContext) -> Result<Arc<TableReader>> {
    let options = OpenOptions {
        purpose: Purpose::Read,
        mmap: true,
        ..OpenOptions::default()
    };
    TableReader::open(PosixFileSystem::new().open(path, &options)?, context)
}

fn golden_tables() -> Vec<PathBuf> {
    let paths = tables("plain-");
    assert_eq!(paths.len(), 3);
    paths
}

/// Settings that affect only indexes built at open.
fn settings() -> Vec<PlainReadOptions> {
    let mut all = Vec::new();
    for (bloom_bits_per_key, hash_table_ratio, index_sparseness) in [
        (10, 0.75, 16),
        (0, 0.0, 1),
        (3, 1e-9, 0),
        (10, 100.0, 5),
        (1, 0.75, u64::MAX),
    ] {
        all.push(PlainReadOptions {
            bloom_bits_per_key,
            hash_table_ratio,
            index_sparseness,
            full_scan: false,
        });
    }
    all
}

#[test]
fn tables_of_rocksdb_are_read_whole_under_all_settings() {
    for path in golden_tables() {
        for settings in settings() {
            let context = context(settings);
            for table in [
                open(&path, &context).unwrap(),
                open_mapped(&path, &context).unwrap(),
            ] {
                judge(&table, &KeyOrder::Bytewise, 25);
            }
        }
    }
}

#[test]
fn the_entries_are_those_rocksdb_reads() {
    for path in golden_tables() {
        let table = open(&path, &context(PlainReadOptions::default())).unwrap();
        let directory = path.parent().unwrap().file_name().unwrap();
        let expected = expected(directory.to_str().unwrap());
        let entries = judge(&table, &KeyOrder::Bytewise, 10);
        assert_eq!(entries.len(), expected.len());
        for ((key, value), (wanted_key, wanted_value)) in entries.iter().zip(&expected) {
            let key = InternalKey::parse(key).unwrap();
            assert_eq!((key.user_key, value), (&wanted_key[..], wanted_value));
            let (_, found) = find(&table, key.user_key, MAX_SEQNO).unwrap();
            assert_eq!(found.as_deref(), Some(&wanted_value[..]));
            for wrong in [
                [key.user_key, b"0"].concat(),
                [b"l", &key.user_key[1..]].concat(),
                [&key.user_key[..11], b"/"].concat(),
            ] {
                let (_, found) = find(&table, &wrong, MAX_SEQNO).unwrap();
                assert_eq!(found.as_deref(), expected.get(&wrong).map(Vec::as_slice));
            }
        }
    }
}

#[test]
fn the_extractor_must_be_the_one_of_the_table() {
    for path in golden_tables() {
        for (given, message) in [
            (
                None,
                "Prefix extractor is missing when opening a PlainTable built using a prefix extractor",
            ),
            (
                extractor(5),
                "Prefix extractor given doesn't match the one used to build PlainTable: \
                 rocksdb.FixedPrefix.5, and rocksdb.FixedPrefix.6",
            ),
        ] {
            let mut context = context(PlainReadOptions::default());
            context.prefix_extractor = given;
            let error = open(&path, &context).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert_eq!(error.message(), message);
            context.plain.full_scan = true;
            let table = open(&path, &context).unwrap();
            assert!(scan(&table).unwrap().len() > 1000);
            let error = find(&table, b"key", MAX_SEQNO).unwrap_err();
            assert_eq!(error.message(), "Get() is not allowed in full scan mode.");
        }
    }
}

#[test]
fn rows_in_another_order_are_noticed() {
    for path in golden_tables() {
        let mut context = context(PlainReadOptions::default());
        context.order = KeyOrder::ReverseBytewise;
        // Only a table whose index is built at open is read whole there.
        let stored = path.to_string_lossy().contains("stored-index");
        match open(&path, &context) {
            Ok(table) => {
                assert!(stored);
                assert!(table.verify_checksums(&mut |_| ()).is_err());
            }
            Err(error) => assert!(error.is_corruption() && !stored, "{error}"),
        }
    }
}

/// The write settings recorded in a table.
fn written_with(properties: &TableProperties) -> (PlainWriteOptions, TableBuildContext) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let options = PlainWriteOptions {
        encoding: Encoding::from_number(u32::try_from(properties.format_version).unwrap()).unwrap(),
        user_key_bytes: u32::try_from(properties.fixed_key_bytes).unwrap(),
        store_index: properties.index_bytes > 0,
        checksums: false,
        ..PlainWriteOptions::default()
    };
    let context = TableBuildContext {
        prefix_extractor: by_id(&text(&properties.prefix_extractor_name)),
        column_family_id: properties.column_family_id,
        column_family_name: text(&properties.column_family_name),
        db_id: text(&properties.db_id),
        session_id: text(&properties.session_id),
        host_id: text(&properties.host_id),
        file_number: properties.original_file_number,
        ..TableBuildContext::default()
    };
    (options, context)
}

/// Writes a table and returns its bytes.
pub(crate) fn build(
    entries: &[Entry],
    options: &PlainWriteOptions,
    context: &TableBuildContext,
) -> Vec<u8> {
    let (bytes, finished) = try_build(entries, &[], options, context);
    assert_eq!(finished.fallback, None);
    bytes
}

fn try_build(
    entries: &[Entry],
    tombstones: &[RangeTombstone],
    options: &PlainWriteOptions,
    context: &TableBuildContext,
) -> (Vec<u8>, FinishedTable) {
    let fs = MemoryFileSystem::new();
    let path = Path::new("/table.sst");
    let file = fs.create(path, &WriteOptions::new(Purpose::Flush)).unwrap();
    let mut builder = PlainTableBuilder::create(file, options, context);
    for (key, value) in entries {
        builder.add(key, value).unwrap();
    }
    for tombstone in tombstones {
        builder.add_tombstone(tombstone);
    }
    let count = (entries.len() + tombstones.len()) as u64;
    assert_eq!(builder.entry_count(), count);
    let finished = builder.finish().unwrap();
    let bytes = fs.read_all(path, 1 << 30, Purpose::Read).unwrap();
    assert_eq!(finished.file_bytes, bytes.len() as u64);
    assert_eq!(finished.properties.entry_count, count);
    (bytes, finished)
}

#[test]
fn tables_of_rocksdb_are_written_again_byte_by_byte() {
    for path in golden_tables() {
        let table = open(&path, &context(PlainReadOptions::default())).unwrap();
        let (options, context) = written_with(table.properties());
        let entries = scan(&table).unwrap();
        assert!(
            build(&entries, &options, &context) == bytes_of(&path),
            "{path:?}"
        );
    }
}

/// The bytes of a table of a few entries, and its entries.
fn small_table(encoding: Encoding, store_index: bool) -> (Vec<u8>, Vec<Entry>) {
    let mut entries = Vec::new();
    for number in 0..24_u8 {
        let key = format!("{}key{number:03}", char::from(b'a' + number / 5));
        let seqno = u64::from(number);
        let (seqno, kind) = match number % 4 {
            0 => (0, ValueType::Value),
            1 => (seqno, ValueType::Merge),
            2 => (seqno, ValueType::Deletion),
            _ => (seqno, ValueType::Value),
        };
        let value = "v".repeat(usize::from(number) % 7);
        entries.push((encode(key.as_bytes(), seqno, kind), value.into_bytes()));
    }
    let options = PlainWriteOptions {
        encoding,
        store_index,
        index_sparseness: 3,
        checksums: false,
        ..PlainWriteOptions::default()
    };
    let context = TableBuildContext {
        prefix_extractor: extractor(1),
        db_id: "database".to_owned(),
        ..TableBuildContext::default()
    };
    (build(&entries, &options, &context), entries)
}

/// The results of reading a damaged table.
#[derive(Debug, PartialEq)]
struct Sight {
    entries: Result<Vec<Entry>, String>,
    backward: Result<Vec<Entry>, String>,
    found: Vec<Result<Option<Vec<u8>>, String>>,
}

fn look(bytes: Vec<u8>, keys: &[Vec<u8>]) -> Result<Sight> {
    let mut context = context(PlainReadOptions::default());
    context.prefix_extractor = extractor(1);
    let table = TableReader::open(FileBytes::new(Path::new("/table.sst"), bytes), &context)?;
    let text = |error: koeldb_base::Error| error.to_string();
    let found = keys.iter().map(|key| {
        let (_, value) = find(&table, key, MAX_SEQNO).map_err(text)?;
        Ok(value.map(|value| value.to_vec()))
    });
    Ok(Sight {
        found: found.collect(),
        entries: scan(&table).map_err(text),
        backward: scan_backward(&table).map_err(text),
    })
}

#[test]
fn every_flipped_byte_is_noticed_or_changes_what_it_is_a_byte_of() {
    for encoding in [Encoding::Plain, Encoding::Prefix] {
        for store_index in [false, true] {
            let (bytes, entries) = small_table(encoding, store_index);
            let keys: Vec<Vec<u8>> = entries
                .iter()
                .map(|(key, _)| footer_of(key).0.to_vec())
                .collect();
            let whole = look(bytes.clone(), &keys).unwrap();
            assert_eq!(whole.entries.as_ref(), Ok(&entries));
            let rows_end =
                usize::try_from(open_bytes(bytes.clone()).properties().data_bytes).unwrap();
            let mut errors = 0;
            for at in 0..bytes.len() {
                for flip in [0x01, 0x40, 0x80, 0xff] {
                    let mut damaged = bytes.clone();
                    damaged[at] ^= flip;
                    let Ok(sight) = look(damaged, &keys) else {
                        errors += 1;
                        continue;
                    };
                    if at < rows_end {
                        // Keys and values have no checksum; their number and lengths are checked.
                        let lens = |entries: &[Entry]| -> (usize, usize, usize) {
                            let keys = entries.iter().map(|(key, _)| key.len()).sum();
                            let values = entries.iter().map(|(_, value)| value.len()).sum();
                            (entries.len(), keys, values)
                        };
                        if let Ok(seen) = &sight.backward {
                            assert_eq!(lens(seen), lens(&entries), "byte {at} ^ {flip:#x}");
                        }
                        continue;
                    }
                    for (seen, right) in sight.found.iter().zip(&whole.found) {
                        let is_lost = store_index && seen == &Ok(None);
                        assert!(
                            seen == right || is_lost || seen.is_err(),
                            "byte {at} ^ {flip:#x}: {seen:?}"
                        );
                    }
                    if let Ok(seen) = &sight.backward {
                        assert_eq!(seen, &entries, "byte {at} ^ {flip:#x}");
                    }
                }
            }
            assert!(errors > bytes.len() / 2, "{errors} errors");
            for len in 0..bytes.len() {
                assert!(look(bytes[..len].to_vec(), &keys).is_err(), "cut to {len}");
            }
        }
    }
}

fn open_bytes(bytes: Vec<u8>) -> Arc<TableReader> {
    let mut context = context(PlainReadOptions::default());
    context.prefix_extractor = extractor(1);
    TableReader::open(FileBytes::new(Path::new("/table.sst"), bytes), &context).unwrap()
}

#[test]
fn the_footer_of_either_layout_is_read() {
    let (bytes, entries) = small_table(Encoding::Prefix, true);
    let blocks_end = bytes.len() - 48;
    for version in [0_u32, 1] {
        let mut current = bytes[..blocks_end].to_vec();
        current.push(1);
        current.extend_from_slice(&bytes[blocks_end..blocks_end + 40]);
        current.extend_from_slice(&version.to_le_bytes());
        current.extend_from_slice(&0x8242_2296_63bf_9564_u64.to_le_bytes());
        assert_eq!(scan(&open_bytes(current)).unwrap(), entries);
    }
}

/// Entries that do not all fit a plain table with keys of 4 bytes and prefixes of 3.
#[test]
fn what_a_plain_table_cannot_hold_goes_to_a_block_based_one() {
    let tombstone = RangeTombstone {
        start: b"key4".to_vec(),
        end: b"key6".to_vec(),
        seqno: 9,
    };
    for (user_key_bytes, odd_key, tombstones, why) in [
        (
            4,
            &b"key22"[..],
            &[][..],
            "all keys must have 4 bytes (user_key_len), but there is one of 5",
        ),
        (
            0,
            b"kf",
            &[],
            "prefix extractor rocksdb.FixedPrefix.3 has no prefix for a key of 2 bytes",
        ),
        (4, b"key2", &[tombstone], "range deletions cannot be stored"),
    ] {
        for encoding in [Encoding::Plain, Encoding::Prefix] {
            let options = PlainWriteOptions {
                user_key_bytes,
                encoding,
                ..PlainWriteOptions::default()
            };
            let context = TableBuildContext {
                prefix_extractor: extractor(3),
                ..TableBuildContext::default()
            };
            let mut entries: Vec<Entry> = [b"key0", b"key1", odd_key, b"key7", b"key8"]
                .map(|key| (encode(key, 5, ValueType::Value), key.repeat(7)))
                .to_vec();
            entries.sort();
            let (bytes, finished) = try_build(&entries, tombstones, &options, &context);
            assert_eq!(finished.fallback, Some(format!("no plain table: {why}")));
            let file = FileBytes::new(Path::new("/table.sst"), bytes);
            let table = TableReader::open(file, &TableReadContext::default()).unwrap();
            assert!(matches!(*table, TableReader::BlockBased(_)));
            assert_eq!(scan(&table).unwrap(), entries);
            assert_eq!(table.tombstones().is_some(), !tombstones.is_empty());
        }
    }
}

#[test]
fn keys_must_ascend() {
    let fs = MemoryFileSystem::new();
    let path = Path::new("/table.sst");
    let file = fs.create(path, &WriteOptions::new(Purpose::Flush)).unwrap();
    let context = TableBuildContext::default();
    let mut builder = PlainTableBuilder::create(file, &PlainWriteOptions::default(), &context);
    let key = |key: &[u8], kind| encode(key, 5, kind);
    builder.add(&key(b"b", ValueType::Value), b"").unwrap();
    for bad in [
        key(b"b", ValueType::Value),
        key(b"a", ValueType::Value),
        b"short".to_vec(),
    ] {
        assert!(builder.add(&bad, b"").unwrap_err().is_corruption());
    }
    let error = builder
        .add(&key(b"c", ValueType::RangeDeletion), b"d")
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert_eq!(builder.entry_count(), 1);
}

fn any_entries(fixed: bool) -> impl Strategy<Value = Vec<Entry>> {
    let key_bytes = if fixed { 5..6 } else { 3..80 };
    let key = prop::collection::vec(b'a'..=b'c', key_bytes);
    let kind = prop::sample::select(vec![
        ValueType::Value,
        ValueType::Value,
        ValueType::Deletion,
        ValueType::Merge,
        ValueType::SingleDeletion,
    ]);
    let value = prop::collection::vec(any::<u8>(), 0..40);
    prop::collection::btree_map((key, 0_u64..6), (kind, value), 0..120).prop_map(|entries| {
        let entry =
            |((key, seqno), (kind, value)): ((Vec<u8>, u64), _)| (encode(&key, seqno, kind), value);
        let mut entries: Vec<Entry> = entries.into_iter().map(entry).collect();
        entries.sort_by(|a, b| KeyOrder::Bytewise.compare_internal(&a.0, &b.0));
        entries
    })
}

fn any_write_options(fixed: bool) -> impl Strategy<Value = PlainWriteOptions> {
    (
        any::<[bool; 3]>(),
        0_u32..12,
        0_u64..5,
        prop::sample::select(vec![0.0, 0.75, 2.0]),
    )
        .prop_map(
            move |([is_prefix, bloom_lines, store_index], bits, index_sparseness, ratio)| {
                PlainWriteOptions {
                    encoding: if is_prefix {
                        Encoding::Prefix
                    } else {
                        Encoding::Plain
                    },
                    user_key_bytes: if fixed { 5 } else { 0 },
                    bloom_bits_per_key: bits,
                    bloom_lines,
                    hash_table_ratio: ratio,
                    index_sparseness,
                    store_index,
                    checksums: true,
                }
            },
        )
}

fn any_table() -> impl Strategy<Value = (Vec<Entry>, PlainWriteOptions)> {
    any::<bool>().prop_flat_map(|fixed| (any_entries(fixed), any_write_options(fixed)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn any_table_is_read_as_it_was_written(
        (mut entries, options) in any_table(),
        reverse: bool,
        extractor in prop::sample::select(vec!["", "fixed:0", "fixed:3", "capped:4", "rocksdb.Noop"]),
        (bits, sparseness) in (0_u32..12, 0_u64..6),
    ) {
        let order = if reverse { KeyOrder::ReverseBytewise } else { KeyOrder::Bytewise };
        entries.sort_by(|a, b| order.compare_internal(&a.0, &b.0));
        let build_context = TableBuildContext {
            order: order.clone(),
            prefix_extractor: by_id(extractor),
            ..TableBuildContext::default()
        };
        let bytes = build(&entries, &options, &build_context);
        let read_context = TableReadContext {
            order: order.clone(),
            prefix_extractor: by_id(extractor),
            plain: PlainReadOptions {
                bloom_bits_per_key: bits,
                index_sparseness: sparseness,
                ..PlainReadOptions::default()
            },
            ..TableReadContext::default()
        };
        let file = FileBytes::new(Path::new("/table.sst"), bytes);
        let table = TableReader::open(file, &read_context).unwrap();
        if entries.is_empty() {
            prop_assert!(scan(&table).unwrap().is_empty());
            prop_assert!(scan_backward(&table).unwrap().is_empty());
            prop_assert_eq!(find(&table, b"abc", MAX_SEQNO).unwrap(), (false, None));
        } else {
            prop_assert_eq!(judge(&table, &order, 25), entries);
        }
    }

    #[test]
    fn a_scan_within_a_prefix_finds_the_keys_of_the_prefix(
        entries in any_entries(false),
        store_index: bool,
        targets in prop::collection::vec(prop::collection::vec(b'a'..=b'd', 0..6), 1..20),
    ) {
        let options = PlainWriteOptions { store_index, ..PlainWriteOptions::default() };
        let context = TableBuildContext {
            prefix_extractor: extractor(2),
            ..TableBuildContext::default()
        };
        let bytes = build(&entries, &options, &context);
        let mut context = self::context(PlainReadOptions::default());
        context.prefix_extractor = extractor(2);
        let file = FileBytes::new(Path::new("/table.sst"), bytes);
        let table = TableReader::open(file, &context).unwrap();
        let mut cursor = table.cursor(
            BlockingSource::default(),
            &TableCursorOptions { prefix_extractor: extractor(2) },
        );
        for target in targets {
            let seek_key = encode(&target, MAX_SEQNO, ValueType::FOR_SEEK);
            blocking(cursor.seek(&seek_key)).unwrap();
            let mut wanted = entries
                .iter()
                .filter(|(key, _)| KeyOrder::Bytewise.compare_internal(key, &seek_key).is_ge());
            if target.len() < 2 {
                prop_assert_eq!(current(&cursor), wanted.next().cloned());
                continue;
            }
            let same_prefix = |(key, _): &&Entry| key.starts_with(&target[..2]);
            for entry in wanted.take_while(same_prefix) {
                prop_assert_eq!(current(&cursor), Some(entry.clone()));
                blocking(cursor.next()).unwrap();
            }
        }
    }
}
