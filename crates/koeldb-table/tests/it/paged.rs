//! Tables that are read piece by piece.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use koeldb_base::Result;
use koeldb_base::key::{MAX_SEQNO, ValueType, encode, footer_of};
use koeldb_fs::RandomAccessFile;
use koeldb_table::TableReader;
use koeldb_table::builder::TableBuildContext;
use koeldb_table::plain::builder::PlainWriteOptions;
use koeldb_table::plain::format::Encoding;
use koeldb_table::reader::TableReadContext;

use crate::cuckoo::find_all;
use crate::golden::{bytes_of, tables};
use crate::judge::{Entry, find, scan};
use crate::plain::{build, extractor};

const PATH: &str = "/table.sst";

/// A file with direct I/O whose bytes may be changed while it is open.
struct DirectFile {
    bytes: Mutex<Vec<u8>>,
    read_bytes: AtomicU64,
}

impl DirectFile {
    fn new(bytes: Vec<u8>) -> Arc<Self> {
        Arc::new(DirectFile {
            bytes: Mutex::new(bytes),
            read_bytes: AtomicU64::new(0),
        })
    }

    fn write(&self, at: usize, bytes: &[u8]) {
        self.bytes.lock().unwrap()[at..][..bytes.len()].copy_from_slice(bytes);
    }

    /// The bytes read since the last call.
    fn take_read_bytes(&self) -> u64 {
        self.read_bytes.swap(0, Ordering::Relaxed)
    }
}

impl fmt::Debug for DirectFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PATH)
    }
}

impl RandomAccessFile for DirectFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let bytes = self.bytes.lock().unwrap();
        let rest = bytes.get(usize::try_from(offset).unwrap()..).unwrap_or(&[]);
        let count = buffer.len().min(rest.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.read_bytes.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }

    fn path(&self) -> &Path {
        Path::new(PATH)
    }

    fn len(&self) -> u64 {
        self.bytes.lock().unwrap().len() as u64
    }

    fn alignment(&self) -> usize {
        512
    }
}

fn entries() -> Vec<Entry> {
    let entry = |number: u32| {
        let key = encode(format!("key{number:05}").as_bytes(), 0, ValueType::Value);
        (key, format!("{number:05}.").repeat(15).into_bytes())
    };
    (0..2000).map(entry).collect()
}

/// Plain tables without checksums, in which only the rows reveal damage.
fn plain_tables() -> Vec<Vec<u8>> {
    let mut tables = Vec::new();
    for encoding in [Encoding::Plain, Encoding::Prefix] {
        for store_index in [false, true] {
            let options = PlainWriteOptions {
                encoding,
                store_index,
                checksums: false,
                ..PlainWriteOptions::default()
            };
            let context = TableBuildContext {
                prefix_extractor: extractor(6),
                ..TableBuildContext::default()
            };
            tables.push(build(&entries(), &options, &context));
        }
    }
    tables
}

fn open(file: &Arc<DirectFile>) -> Arc<TableReader> {
    let context = TableReadContext {
        prefix_extractor: extractor(6),
        ..TableReadContext::default()
    };
    TableReader::open(Arc::clone(file) as _, &context).unwrap()
}

#[test]
fn a_row_that_is_too_long_is_an_error_and_the_rest_is_not_read() {
    let entries = entries();
    let (key, value) = &entries[777];
    // A value that extends over the rows after it, nearly all there are, and beyond the last one.
    for length in [
        &[0xff, 0x10][..],
        &[0xff, 0xff, 0x05],
        &[0xff, 0xff, 0xff, 0xff, 0x07],
    ] {
        for bytes in plain_tables() {
            let len = bytes.len();
            let value_at = bytes.windows(value.len()).position(|part| part == value);
            let file = DirectFile::new(bytes);
            let table = open(&file);
            file.take_read_bytes();
            let (_, found) = find(&table, footer_of(key).0, MAX_SEQNO).unwrap();
            assert_eq!(found.unwrap().as_slice(), value.as_slice());
            let for_a_row = file.take_read_bytes();
            assert!(for_a_row < len as u64 / 8, "{for_a_row} of {len} bytes");
            file.write(value_at.unwrap() - 1, length);
            let error = find(&table, footer_of(key).0, MAX_SEQNO).unwrap_err();
            assert!(error.is_corruption(), "{error}");
            assert_eq!(error.file().unwrap().path, Path::new(PATH));
            let row_at = error.message().split("row at ").nth(1).unwrap();
            let row_at: usize = row_at.trim_end_matches(')').parse().unwrap();
            assert!(
                (row_at..row_at + 24).contains(&value_at.unwrap()),
                "{error}"
            );
            let until_the_error = file.take_read_bytes();
            assert!(until_the_error <= for_a_row, "{until_the_error} bytes");
        }
    }
}

#[test]
fn a_row_that_lies_in_many_pieces_is_found() {
    let mut entries = entries();
    let (key, value) = &mut entries[777];
    *value = b"long ".repeat(20_000);
    let (key, value) = (key.clone(), value.clone());
    let bytes = build(
        &entries,
        &PlainWriteOptions::default(),
        &TableBuildContext::default(),
    );
    let file = DirectFile::new(bytes);
    let table = open(&file);
    let (_, found) = find(&table, footer_of(&key).0, MAX_SEQNO).unwrap();
    assert_eq!(found.unwrap().as_slice(), value.as_slice());
}

#[test]
fn a_table_that_a_scan_has_loaded_is_not_read_for_keys() {
    let cuckoo = tables("cuckoo-l0")
        .iter()
        .map(|path| bytes_of(path))
        .collect();
    for bytes in [plain_tables(), cuckoo].concat() {
        let file = DirectFile::new(bytes);
        let table = open(&file);
        let entries = scan(&open(&DirectFile::new(file.bytes.lock().unwrap().clone()))).unwrap();
        let keys: Vec<Vec<u8>> = (entries.iter().step_by(100))
            .map(|(key, _)| footer_of(key).0.to_vec())
            .collect();
        file.take_read_bytes();
        let found = find_all(&table, &keys);
        assert!(file.take_read_bytes() > 0);
        assert_eq!(scan(&table).unwrap(), entries);
        file.take_read_bytes();
        assert_eq!(find_all(&table, &keys), found);
        for (key, found) in keys.iter().zip(found) {
            let (_, again) = find(&table, key, MAX_SEQNO).unwrap();
            assert_eq!(again.map(|value| value.to_vec()), found);
        }
        assert_eq!(file.take_read_bytes(), 0);
    }
}
