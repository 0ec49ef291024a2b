use std::cmp::Ordering;
use std::path::Path;

use koeldb_base::codec::{Compression, CompressionOptions};
use koeldb_base::coding::to_usize;
use koeldb_base::comparator::Comparator;
use koeldb_base::timestamp::BytewiseComparatorWithU64Ts;
use koeldb_base::{ErrorKind, KeyOrder, Limits};
use koeldb_fs::{FileSystem, MemoryFileSystem, OpenOptions, Purpose, WriteOptions};

use super::format::{BlobFooter, BlobHeader, RecordHeader};
use super::*;

const PATH: &str = "/000009.blob";

/// The key of a record in bytewise order.
fn of(key: &[u8]) -> BlobKey<'_> {
    BlobKey::of_entry(&KeyOrder::Bytewise, key)
}

/// A file with the given values, and their references.
fn written(
    fs: &MemoryFileSystem,
    compression: Compression,
    values: &[(&[u8], Vec<u8>)],
) -> (FinishedBlobFile, Vec<BlobReference>) {
    let file = fs
        .create(Path::new(PATH), &WriteOptions::new(Purpose::Flush))
        .unwrap();
    let mut builder =
        BlobFileBuilder::new(file, 9, 3, compression, &CompressionOptions::default()).unwrap();
    let references = values
        .iter()
        .map(|(key, value)| builder.add(key, value).unwrap());
    let references = references.collect();
    let finished = builder.finish().unwrap();
    (finished, references)
}

/// Replaces the bytes of the file.
fn rewrite(fs: &MemoryFileSystem, bytes: &[u8]) {
    fs.remove_file(Path::new(PATH)).unwrap();
    let mut file = fs
        .create(Path::new(PATH), &WriteOptions::new(Purpose::Flush))
        .unwrap();
    file.append(bytes).unwrap();
    file.close().unwrap();
}

fn open(fs: &MemoryFileSystem, finished: &FinishedBlobFile) -> koeldb_base::Result<BlobFile> {
    let file = fs.open(Path::new(PATH), &OpenOptions::default())?;
    let context = BlobFileContext {
        number: 9,
        count: finished.count,
        record_bytes: finished.record_bytes,
        limits: Limits::NORMAL,
    };
    BlobFile::open(file, &context)
}

fn values() -> Vec<(&'static [u8], Vec<u8>)> {
    vec![
        (b"a", vec![b'x'; 1000]),
        (b"", b"a value of the empty key".to_vec()),
        (b"key", vec![7]),
    ]
}

#[test]
fn values_are_read_as_they_were_written() {
    let codecs = [
        Compression::None,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zlib,
        Compression::Zstd,
    ];
    for compression in codecs.into_iter().filter(|codec| codec.is_available()) {
        let fs = MemoryFileSystem::new();
        let values = values();
        let (finished, references) = written(&fs, compression, &values);
        let bytes = fs
            .read_all(Path::new(PATH), u64::MAX, Purpose::Read)
            .unwrap();
        assert_eq!(bytes.len() as u64, finished.file_bytes());
        let file = open(&fs, &finished).unwrap();
        assert_eq!(file.header().column_family_id, 3);
        for ((key, value), reference) in values.iter().zip(&references) {
            let encoded = reference.encode();
            assert_eq!(BlobReference::decode(&encoded).unwrap(), *reference);
            for verifies in [true, false] {
                assert_eq!(*file.value(reference, &of(key), verifies).unwrap(), **value);
            }
        }
    }
}

/// The bytes that RocksDB 11.8 writes for a value without compression.
#[test]
fn the_format_is_rocksdbs() {
    let fs = MemoryFileSystem::new();
    let (_, references) = written(&fs, Compression::None, &[(b"key", b"value".to_vec())]);
    let bytes = fs
        .read_all(Path::new(PATH), u64::MAX, Purpose::Read)
        .unwrap();
    assert_eq!(
        bytes[..14],
        [0x37, 0x8f, 0x24, 0, 1, 0, 0, 0, 3, 0, 0, 0, 0, 0]
    );
    assert_eq!(bytes[14..30], [0; 16]);
    assert_eq!(
        bytes[30..54],
        [
            3, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
        ]
    );
    assert_eq!(&bytes[62..70], b"keyvalue");
    assert_eq!(bytes[70..82], [0x37, 0x8f, 0x24, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes.len(), 102);
    assert_eq!(references[0].encode(), [1, 9, 65, 5, 0]);
}

#[test]
fn a_changed_byte_is_an_error_of_the_value_that_it_belongs_to() {
    let fs = MemoryFileSystem::new();
    let values = values();
    let (finished, references) = written(&fs, Compression::None, &values);
    let bytes = fs
        .read_all(Path::new(PATH), u64::MAX, Purpose::Read)
        .unwrap();
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 0x10;
        rewrite(&fs, &changed);
        let Ok(file) = open(&fs, &finished) else {
            let in_ends = at < 30 || at >= bytes.len() - 32;
            assert!(in_ends, "byte {at}");
            continue;
        };
        for ((key, value), reference) in values.iter().zip(&references) {
            let begin = to_usize(reference.offset - 32 - key.len() as u64);
            let end = to_usize(reference.offset + reference.bytes);
            match file.value(reference, &of(key), true) {
                Ok(found) => assert!(*found == **value && !(begin..end).contains(&at)),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Corruption, "{error}"),
            }
        }
    }
}

#[test]
fn references_that_do_not_fit_are_errors() {
    let fs = MemoryFileSystem::new();
    let values = values();
    let (finished, references) = written(&fs, Compression::None, &values);
    let file = open(&fs, &finished).unwrap();
    let good = references[0];
    let wrong = [
        BlobReference { file: 10, ..good },
        BlobReference { offset: 0, ..good },
        BlobReference {
            offset: good.offset + 1,
            ..good
        },
        BlobReference {
            offset: u64::MAX,
            ..good
        },
        BlobReference {
            bytes: good.bytes + 1,
            ..good
        },
        BlobReference {
            bytes: u64::MAX,
            ..good
        },
        BlobReference {
            bytes: finished.file_bytes(),
            ..good
        },
        BlobReference {
            compression: Compression::Zlib,
            ..good
        },
    ];
    for reference in wrong {
        let error = file.value(&reference, &of(b"a"), true).unwrap_err();
        assert_eq!(
            error.kind(),
            ErrorKind::Corruption,
            "{reference:?}: {error}"
        );
    }
    for key in [&b"b"[..], b"", b"aa"] {
        let error = file.value(&good, &of(key), true).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    }
    for (count, record_bytes) in [(2, finished.record_bytes), (3, finished.record_bytes + 1)] {
        let other = FinishedBlobFile {
            count,
            record_bytes,
            ..finished
        };
        assert_eq!(open(&fs, &other).unwrap_err().kind(), ErrorKind::Corruption);
    }
}

proptest::proptest! {
    #[test]
    fn any_bytes_decode_or_are_an_error(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..64)) {
        if let Ok(reference) = BlobReference::decode(&bytes) {
            proptest::prop_assert_eq!(BlobReference::decode(&reference.encode()).unwrap(), reference);
        }
        let _ = BlobHeader::decode(&bytes);
        let _ = BlobFooter::decode(&bytes);
        let _ = RecordHeader::decode(&bytes);
    }
}

#[test]
fn values_read_ahead_are_those_read_alone() {
    let values: Vec<(&[u8], Vec<u8>)> = (0..3000_u32)
        .map(|number| {
            (
                &b"key"[..],
                vec![number.to_le_bytes()[0]; number as usize * 37 % 1500],
            )
        })
        .collect();
    for compression in [Compression::None, Compression::Lz4] {
        let fs = MemoryFileSystem::new();
        let (finished, references) = written(&fs, compression, &values);
        let file = open(&fs, &finished).unwrap();
        let ahead = BlobReadahead::new(64 << 10);
        let read = |at: usize, verifies| {
            let (key, value) = &values[at];
            let found = ahead.value(&file, &references[at], &of(key), verifies);
            assert_eq!(*found.unwrap(), **value, "{at}");
        };
        // Forward, forward with steps, two streams at a time, backward.
        (0..3000).for_each(|at| read(at, at % 7 > 0));
        (0..3000).step_by(3).for_each(|at| read(at, true));
        for at in 0..1000 {
            read(at, true);
            read(2000 + at, true);
        }
        (0..3000).rev().for_each(|at| read(at, true));
        let other = ahead.value(&file, &references[5], &of(b"other"), true);
        assert!(other.is_err());
        let mut beyond = references[2999];
        beyond.offset += 1;
        assert!(ahead.value(&file, &beyond, &of(b"key"), false).is_err());
    }
}

/// Keys are equal if they have the same letters in any case, apart from spaces at their ends.
struct Loose;

impl Comparator for Loose {
    fn name(&self) -> &str {
        "Loose"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let shown = |key: &[u8]| key.trim_ascii_end().to_ascii_lowercase();
        shown(a).cmp(&shown(b))
    }
}

#[test]
fn keys_with_timestamps_and_equal_keys_of_other_lengths_are_verified() {
    let long = [&b"key"[..], &[b' '; 100_000]].concat();
    let stamped: (Vec<u8>, Vec<u8>) = (b"key-stamp-1".to_vec(), b"key-stamp-2".to_vec());
    let loose = KeyOrder::new(Loose);
    let dated = KeyOrder::new(BytewiseComparatorWithU64Ts);
    let value = b"a value to be verified".to_vec();
    let written_keys = [&b"KEY "[..], &long, &stamped.0];
    let readers = [
        vec![
            (
                BlobKey::of_read(&loose, b"key"),
                BlobKey::of_read(&loose, b"kez"),
            ),
            (
                BlobKey::of_entry(&loose, &long),
                BlobKey::of_entry(&loose, b"ke"),
            ),
        ],
        vec![
            (
                BlobKey::of_entry(&loose, b"KEY"),
                BlobKey::of_entry(&loose, b""),
            ),
            (
                BlobKey::of_read(&loose, &long),
                BlobKey::of_read(&loose, b"keyy"),
            ),
        ],
        vec![
            (
                BlobKey::of_read(&dated, b"key"),
                BlobKey::of_read(&dated, b"kez"),
            ),
            (
                BlobKey::of_entry(&dated, &stamped.1),
                BlobKey::of_entry(&dated, b"key"),
            ),
        ],
    ];
    for (key, readers) in written_keys.into_iter().zip(readers) {
        let fs = MemoryFileSystem::new();
        let records = [
            (&b"first"[..], vec![1; 90]),
            (key, value.clone()),
            (b"last", vec![2; 9]),
        ];
        let (finished, references) = written(&fs, Compression::None, &records);
        let reference = references[1];
        let bytes = fs
            .read_all(Path::new(PATH), u64::MAX, Purpose::Read)
            .unwrap();
        let file = open(&fs, &finished).unwrap();
        let ahead = BlobReadahead::new(1 << 20);
        for (right, wrong) in &readers {
            for verifies in [true, false] {
                assert_eq!(*file.value(&reference, right, verifies).unwrap(), *value);
                let found = ahead.value(&file, &reference, right, verifies);
                assert_eq!(*found.unwrap(), *value);
            }
            let error = file.value(&reference, wrong, true).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        }
        let begin = to_usize(reference.offset) - key.len() - 32;
        let end = to_usize(reference.offset) + value.len();
        for at in [
            begin,
            begin + 9,
            begin + 25,
            begin + 29,
            begin + 32,
            end - 1,
        ] {
            let mut changed = bytes.clone();
            changed[at] ^= 0x20;
            rewrite(&fs, &changed);
            let file = open(&fs, &finished).unwrap();
            for (key, _) in &readers {
                let error = file.value(&reference, key, true).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Corruption, "byte {at}: {error}");
            }
        }
    }
}
