//! Tables written by RocksDB, from the golden directories.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use koeldb_base::key::{InternalKey, RANGE_DELETION_SENTINEL, ValueType, encode};
use koeldb_base::stats::{Statistics, Ticker};
use koeldb_base::{ErrorKind, KeyOrder, prefix};
use koeldb_cache::{Cache, CacheOptions};
use koeldb_fs::posix::PosixFileSystem;
use koeldb_fs::{FileSystem, OpenOptions, Purpose};
use koeldb_table::TableReader;
use koeldb_table::block_based::format::IndexType;
use koeldb_table::block_based::index::{IndexDecoding, IndexSearch};
use koeldb_table::reader::{BlockBasedReadOptions, TableReadContext};
use koeldb_table::source::BlockKind;

use crate::judge::{self, FileBytes};

pub(crate) fn golden_directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden")
}

/// The tables in the directories whose name begins with `prefix`.
pub(crate) fn tables(prefix: &str) -> Vec<PathBuf> {
    let fs = PosixFileSystem::new();
    let golden = golden_directory();
    let mut paths = Vec::new();
    for directory in fs.list(&golden).unwrap() {
        if !directory.name.starts_with(prefix) || directory.name.ends_with(".tsv") {
            continue;
        }
        let directory = golden.join(&directory.name);
        for entry in fs.list(&directory).unwrap_or_default() {
            if entry.name.ends_with(".sst") {
                paths.push(directory.join(entry.name));
            }
        }
    }
    paths.sort();
    paths
}

pub(crate) fn bytes_of(path: &Path) -> Vec<u8> {
    PosixFileSystem::new()
        .read_all(path, 1 << 30, Purpose::Read)
        .unwrap()
}

/// Opens a table with the order and the prefix extractor recorded in it.
pub(crate) fn open(path: &Path, context: &TableReadContext) -> (Arc<TableReader>, KeyOrder) {
    let file = FileBytes::new(path, bytes_of(path));
    let mut context = TableReadContext {
        expected_bytes: koeldb_fs::RandomAccessFile::len(&*file),
        ..context.clone()
    };
    let table = match TableReader::open(file.clone(), &context) {
        Ok(table) => table,
        Err(error) if error.kind() == ErrorKind::InvalidArgument => {
            context.order = KeyOrder::ReverseBytewise;
            TableReader::open(file.clone(), &context).unwrap()
        }
        Err(error) => panic!("{error}"),
    };
    let extractor = String::from_utf8_lossy(&table.properties().prefix_extractor_name).into_owned();
    context.prefix_extractor = prefix::by_id(&extractor);
    let table = TableReader::open(file, &context).unwrap();
    (table, context.order)
}

/// Whether lookups and seeks of a block-based table need no timestamp.
fn is_judged(path: &Path) -> bool {
    let path = path.to_string_lossy();
    !["/cuckoo-", "/plain-", "/timestamps-"]
        .iter()
        .any(|others| path.contains(others))
}

#[test]
fn every_table_of_rocksdb_is_read_whole() {
    let mut count = 0;
    for path in tables("").into_iter().filter(|path| is_judged(path)) {
        let (table, order) = open(&path, &TableReadContext::default());
        judge::judge(&table, &order, 40);
        count += 1;
    }
    assert!(count > 30, "{count} tables");
}

/// Keys and values of a directory's default column family, as RocksDB read them.
pub(crate) fn expected(directory: &str) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let hex = |text: &str| -> Vec<u8> {
        (0..text.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
            .collect()
    };
    let path = golden_directory().join(format!("{directory}.expected.tsv"));
    String::from_utf8(bytes_of(&path))
        .unwrap()
        .lines()
        .map(|line| {
            let mut fields = line.split('\t').skip(1);
            let key = fields.next().unwrap();
            (hex(key), hex(fields.next().unwrap_or_default()))
        })
        .collect()
}

#[test]
fn the_entries_are_those_rocksdb_reads() {
    let mut directories: Vec<String> = tables("block-")
        .iter()
        .filter_map(|path| path.parent()?.file_name()?.to_str().map(str::to_owned))
        .collect();
    directories.dedup();
    assert!(directories.len() > 10);
    for directory in directories {
        let mut newest: BTreeMap<Vec<u8>, (u64, Option<Vec<u8>>)> = BTreeMap::new();
        for path in tables(&directory) {
            let (table, _) = open(&path, &TableReadContext::default());
            for (key, value) in judge::scan(&table).unwrap() {
                let key = InternalKey::parse(&key).unwrap();
                let value = (key.value_type == ValueType::Value).then_some(value);
                let slot = newest.entry(key.user_key.to_vec()).or_default();
                if key.seqno >= slot.0 {
                    *slot = (key.seqno, value);
                }
            }
        }
        let found: BTreeMap<Vec<u8>, Vec<u8>> = newest
            .into_iter()
            .filter_map(|(key, (_, value))| Some((key, value?)))
            .collect();
        assert!(found == expected(&directory), "{directory}");
    }
}

#[test]
fn blocks_in_a_cache_give_the_same_answers() {
    for path in tables("block-") {
        let statistics = Statistics::new();
        let context = TableReadContext {
            cache: Some(Cache::new(&CacheOptions::default())),
            statistics: Some(statistics.clone()),
            block_based: BlockBasedReadOptions {
                cache_index_and_filter_blocks: true,
                ..BlockBasedReadOptions::default()
            },
            ..TableReadContext::default()
        };
        let (table, order) = open(&path, &context);
        judge::judge(&table, &order, 10);
        for ticker in [
            Ticker::BlockCacheDataHit,
            Ticker::BlockCacheDataMiss,
            Ticker::BlockCacheIndexHit,
            Ticker::BlockCacheDataAdd,
        ] {
            assert!(statistics.ticker(ticker) > 0, "{ticker:?} of {path:?}");
        }
    }
}

#[test]
fn a_uniform_index_is_read_in_every_mode() {
    let paths = tables("block-uniform-index");
    assert!(!paths.is_empty());
    for path in &paths {
        for index_search in [
            IndexSearch::Binary,
            IndexSearch::Interpolation,
            IndexSearch::Auto,
        ] {
            for index_decoding in [
                IndexDecoding::Never,
                IndexDecoding::Pinned,
                IndexDecoding::Always,
            ] {
                let context = TableReadContext {
                    block_based: BlockBasedReadOptions {
                        index_search,
                        index_decoding,
                        ..BlockBasedReadOptions::default()
                    },
                    ..TableReadContext::default()
                };
                let (table, order) = open(path, &context);
                judge::judge(&table, &order, 200);
            }
        }
        let (table, _) = open(path, &TableReadContext::default());
        assert_eq!(table.properties().uniform_block_count, 1, "{path:?}");
        let TableReader::BlockBased(reader) = &*table else {
            panic!("{path:?} is no block-based table");
        };
        let (handle, kind) = (reader.index_handle(), BlockKind::Index);
        let index = reader.file().read(handle, kind, true).unwrap();
        assert!(index.entries().unwrap().is_uniform(), "{path:?}");
    }
}

#[test]
fn mapped_and_direct_files_give_the_same_answers() {
    for path in tables("block-") {
        for direct in [false, true] {
            let options = OpenOptions {
                mmap: !direct,
                direct,
                ..OpenOptions::default()
            };
            let Ok(file) = PosixFileSystem::new().open(&path, &options) else {
                // Not every file system supports direct reads.
                assert!(direct);
                continue;
            };
            let table = TableReader::open(file, &TableReadContext::default()).unwrap();
            judge::judge(&table, &KeyOrder::Bytewise, 5);
        }
    }
}

#[test]
fn the_features_named_in_the_folders_are_met() {
    let features = |directory: &str| {
        let path = tables(directory).remove(0);
        open(&path, &TableReadContext::default()).0
    };
    let index_type = |table: &TableReader| table.properties().index_type().unwrap();
    let partitioned = features("block-partitioned");
    assert_eq!(index_type(&partitioned), IndexType::TwoLevel);
    assert!(partitioned.properties().index_partitions > 1);
    let first_key = features("block-first-key");
    assert_eq!(index_type(&first_key), IndexType::BinarySearchWithFirstKey);
    let hash = features("block-hash-index");
    assert_eq!(index_type(&hash), IndexType::HashSearch);
    let separated = features("block-separated-kv").properties().clone();
    assert_eq!(separated.separate_key_value_in_data_block, 1);
    assert!(features("deletes-ranges").tombstones().is_some());
    let uniform = features("block-uniform-index");
    assert!(uniform.properties().uniform_block_count > 0);
}

#[test]
fn a_filter_keeps_most_absent_keys_out() {
    for directory in ["block-v2", "block-v5", "block-v6", "block-partitioned"] {
        for path in tables(directory) {
            let (table, _) = open(&path, &TableReadContext::default());
            let mut source = koeldb_table::source::BlockingSource::default();
            let passed = (0..1000)
                .filter(|n| {
                    let key = format!("absent-{n}");
                    judge::blocking(table.may_contain(key.as_bytes(), &mut source)).unwrap()
                })
                .count();
            assert!(passed < 50, "{passed} of 1000 absent keys pass in {path:?}");
        }
    }
}

#[test]
fn a_wrong_expectation_is_refused() {
    let path = &tables("block-v6")[0];
    let open = |context: &TableReadContext| {
        let file = FileBytes::new(path, bytes_of(path));
        TableReader::open(file, context).map(|table| table.properties().unique_id())
    };
    let id = open(&TableReadContext::default()).unwrap();
    assert!(id.is_some());
    let expecting = |unique_id| TableReadContext {
        unique_id,
        ..TableReadContext::default()
    };
    open(&expecting(id)).unwrap();
    open(&expecting(Some([0, 0]))).unwrap();
    let error = open(&expecting(Some([1, 2]))).unwrap_err();
    assert!(error.is_corruption(), "{error}");
    let error = open(&TableReadContext {
        expected_bytes: 5,
        ..TableReadContext::default()
    });
    assert!(error.unwrap_err().is_corruption());
    let error = open(&TableReadContext {
        order: KeyOrder::Uint64,
        ..TableReadContext::default()
    });
    assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidArgument);
    let file = FileBytes::new(Path::new("short"), vec![0; 20]);
    let error = TableReader::open(file, &TableReadContext::default()).unwrap_err();
    assert_eq!(
        error.message(),
        "file is too short (20 bytes) to be an sstable"
    );
}

#[test]
fn tombstones_are_cut_to_the_bounds_of_the_file() {
    let path = tables("deletes-ranges")
        .into_iter()
        .find(|path| {
            open(path, &TableReadContext::default())
                .0
                .tombstones()
                .is_some()
        })
        .unwrap();
    let (whole, _) = open(&path, &TableReadContext::default());
    let fragment = whole.tombstones().unwrap().fragments()[0].clone();
    let smallest = encode(&fragment.start, 9, ValueType::Value);
    let mut largest = [&fragment.start[..], b"\0"].concat();
    largest.extend_from_slice(&RANGE_DELETION_SENTINEL.to_le_bytes());
    let (clipped, _) = open(
        &path,
        &TableReadContext {
            tombstone_bounds: Some((smallest, largest)),
            ..TableReadContext::default()
        },
    );
    let fragments = clipped.tombstones().unwrap().fragments();
    assert_eq!(fragments.len(), 1);
    assert_eq!(fragments[0].end, [&fragment.start[..], b"\0"].concat());
}
