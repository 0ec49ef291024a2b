//! Cuckoo and plain tables written by KoelDB: every flipped bit is detected.

use std::path::Path;
use std::sync::Arc;

use koeldb_base::key::{ValueType, encode};
use koeldb_base::prefix::FixedPrefix;
use koeldb_base::{Buffer, Result};
use koeldb_fs::{FileSystem, MemoryFileSystem, Purpose, RandomAccessFile, WriteOptions};
use koeldb_table::TableReader;
use koeldb_table::builder::{TableBuildContext, TableBuilder, WriteFormat};
use koeldb_table::cuckoo::builder::CuckooWriteOptions;
use koeldb_table::plain::builder::PlainWriteOptions;
use koeldb_table::reader::TableReadContext;

use crate::judge::{Entry, FileBytes, scan};

const PATH: &str = "/000007.sst";

/// A mapped file.
#[derive(Debug)]
struct Mapped(Arc<Buffer>);

impl RandomAccessFile for Mapped {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let rest = self.len().saturating_sub(offset);
        let count = buffer.len().min(usize::try_from(rest).unwrap());
        let bytes = self
            .0
            .slice(offset.min(self.len()), count.try_into().unwrap());
        buffer[..count].copy_from_slice(bytes);
        Ok(count)
    }

    fn path(&self) -> &Path {
        Path::new(PATH)
    }

    fn len(&self) -> u64 {
        self.0.as_slice().len() as u64
    }

    fn mapped(&self) -> Option<&Arc<Buffer>> {
        Some(&self.0)
    }
}

fn entries(count: u32, value_bytes: usize) -> Vec<Entry> {
    (0..count)
        .map(|number| {
            let key = format!(
                "{}key{number:05}",
                char::from(b'a' + (number % 251 / 50) as u8)
            );
            (
                encode(key.as_bytes(), 0, ValueType::Value),
                vec![b'v'; value_bytes],
            )
        })
        .collect()
}

fn sorted(mut entries: Vec<Entry>) -> Vec<Entry> {
    entries.sort();
    entries
}

fn build(format: WriteFormat, entries: &[Entry]) -> Vec<u8> {
    let fs = MemoryFileSystem::new();
    let path = Path::new(PATH);
    let file = fs.create(path, &WriteOptions::new(Purpose::Flush)).unwrap();
    let context = TableBuildContext {
        write_as: format,
        prefix_extractor: Some(Arc::new(FixedPrefix::new(1))),
        ..TableBuildContext::default()
    };
    let mut builder = TableBuilder::create(file, &context).unwrap();
    for (key, value) in entries {
        builder.add(key, value).unwrap();
    }
    let finished = builder.finish().unwrap();
    assert_eq!(finished.fallback, None);
    fs.read_all(path, 1 << 30, Purpose::Read).unwrap()
}

fn formats() -> [WriteFormat; 3] {
    let stored = PlainWriteOptions {
        store_index: true,
        ..PlainWriteOptions::default()
    };
    [
        WriteFormat::Cuckoo(CuckooWriteOptions::default()),
        WriteFormat::Plain(PlainWriteOptions::default()),
        WriteFormat::Plain(stored),
    ]
}

fn context() -> TableReadContext {
    TableReadContext {
        prefix_extractor: Some(Arc::new(FixedPrefix::new(1))),
        ..TableReadContext::default()
    }
}

fn open(bytes: Vec<u8>) -> Result<Arc<TableReader>> {
    TableReader::open(FileBytes::new(Path::new(PATH), bytes), &context())
}

fn open_mapped(bytes: Vec<u8>) -> Result<Arc<TableReader>> {
    let file = Arc::new(Mapped(Arc::new(Buffer::from_vec(bytes))));
    TableReader::open(file, &context())
}

#[test]
fn every_flipped_bit_is_an_error() {
    for format in formats() {
        let entries = sorted(entries(20, 3));
        let bytes = build(format.clone(), &entries);
        assert_eq!(scan(&open(bytes.clone()).unwrap()).unwrap(), entries);
        let mapped = open_mapped(bytes.clone()).unwrap();
        mapped.verify_checksums(&mut |_| ()).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(open(damaged.clone()).is_err(), "bit {bit} of {format:?}");
            let verified =
                open_mapped(damaged).and_then(|table| table.verify_checksums(&mut |_| ()));
            assert!(verified.is_err(), "bit {bit} of {format:?}, mapped");
        }
    }
}

#[test]
fn damage_is_found_in_any_span() {
    for format in formats() {
        let entries = sorted(entries(500, 150));
        let bytes = build(format.clone(), &entries);
        assert!(bytes.len() > 80_000);
        let table = open(bytes.clone()).unwrap();
        assert_eq!(scan(&table).unwrap(), entries);
        let mut told = 0;
        table.verify_checksums(&mut |bytes| told += bytes).unwrap();
        assert_eq!(told, bytes.len() as u64);
        for at in (0..bytes.len()).step_by(509) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            let error = open(damaged).unwrap_err();
            assert!(error.is_corruption(), "{error}");
        }
        // Whole sectors: zeroed, or with the bytes of the preceding one.
        for sector in 1..bytes.len() / 512 {
            let here = sector * 512..(sector + 1) * 512;
            let mut zeroed = bytes.clone();
            zeroed[here.clone()].fill(0);
            assert!(open(zeroed).is_err(), "sector {sector} of {format:?}");
            let mut doubled = bytes.clone();
            doubled.copy_within(here.start - 512..here.start, here.start);
            assert!(
                doubled == bytes || open(doubled).is_err(),
                "sector {sector} of {format:?}"
            );
        }
    }
}
