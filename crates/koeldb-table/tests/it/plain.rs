//! Plain tables: those that RocksDB wrote, and ours.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use koeldb_base::key::{InternalKey, MAX_SEQNO};
use koeldb_base::prefix::{FixedPrefix, PrefixExtractor};
use koeldb_base::{ErrorKind, KeyOrder, Result};
use koeldb_fs::posix::PosixFileSystem;
use koeldb_fs::{FileSystem, OpenOptions, Purpose};
use koeldb_table::TableReader;
use koeldb_table::plain::reader::PlainReadOptions;
use koeldb_table::reader::TableReadContext;

use crate::golden::{bytes_of, expected, tables};
use crate::judge::{FileBytes, find, judge};

fn extractor(len: usize) -> Option<Arc<dyn PrefixExtractor>> {
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

/// Settings that only indexes made at opening depend on.
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
                judge(&table, &KeyOrder::Bytewise, 100);
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
            assert!(crate::judge::scan(&table).unwrap().len() > 1000);
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
        // Only a table whose index is made at opening is read whole there.
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
