//! Blob files: their fixed parts, references to them, and whole files.

use koeldb_base::codec::Compression;
use koeldb_base::{KeyOrder, Limits};
use koeldb_fs::RandomAccessFile;
use koeldb_table::blob::format::{
    BlobFooter, BlobHeader, FOOTER_BYTES, HEADER_BYTES, RecordHeader,
};
use koeldb_table::blob::{
    BlobFile, BlobFileContext, BlobKey, BlobRecords, BlobReference, read_ends,
};

use super::{Target, judge};
use crate::BytesFile;
use crate::seeds::golden_files;

pub(super) const BLOB_PARTS: Target = Target {
    name: "blob_parts",
    run: parts_run,
    seeds: || {
        let header = BlobHeader {
            column_family_id: 7,
            compression: Compression::Lz4,
        };
        let mut record = Vec::new();
        RecordHeader::of(b"key", b"value").encode_into(&mut record);
        let reference = BlobReference {
            file: 300,
            offset: 70_000,
            bytes: 1 << 33,
            compression: Compression::Zstd,
        };
        vec![
            header.encode(),
            BlobFooter { count: 9 }.encode(),
            record,
            reference.encode(),
        ]
    },
};

/// Decodes each part of a blob file, and encodes it again.
fn parts_run(data: &[u8]) {
    match BlobHeader::decode(data) {
        Err(error) => judge(&error),
        Ok(header) => assert!(data.starts_with(&header.encode())),
    }
    match BlobFooter::decode(data) {
        Err(error) => judge(&error),
        Ok(footer) => assert!(data.starts_with(&footer.encode())),
    }
    match RecordHeader::decode(data) {
        Err(error) => judge(&error),
        Ok(record) => {
            let mut encoded = Vec::new();
            record.encode_into(&mut encoded);
            assert!(data.starts_with(&encoded));
            let _ = record.record_bytes();
        }
    }
    match BlobReference::decode(data) {
        Err(error) => judge(&error),
        // A varint may be longer than it needs to be.
        Ok(reference) => {
            let again = BlobReference::decode(&reference.encode());
            assert_eq!(again.expect("a reference that was encoded"), reference);
            let _ = reference.record_bytes(data.len());
        }
    }
}

pub(super) const BLOB_FILE: Target = Target {
    name: "blob_file",
    run: file_run,
    seeds: || {
        let files = golden_files(4096, |name| name.ends_with(".blob"));
        files.into_iter().map(|(_, bytes)| bytes).collect()
    },
};

/// Reads a blob file in order, opens it, and reads every value by a reference, and some that do not fit.
fn file_run(data: &[u8]) {
    let file = BytesFile::new("/000007.blob", data);
    let (header, footer) = match read_ends(&*file) {
        Ok(ends) => ends,
        Err(error) => return judge(&error),
    };
    let values_end = match &footer {
        Ok(_) => file.len().saturating_sub(FOOTER_BYTES),
        Err(error) => {
            judge(error);
            file.len()
        }
    };
    let mut records = BlobRecords::new(file.clone(), values_end, Limits::UNTRUSTED);
    let mut found = Vec::new();
    loop {
        match records.next_record() {
            Ok(Some(record)) => {
                let reference = BlobReference {
                    file: 7,
                    offset: record.offset,
                    bytes: record.stored.len() as u64,
                    compression: header.compression,
                };
                found.push((record.key.to_vec(), reference, record.is_intact));
            }
            Ok(None) => break,
            Err(error) => {
                judge(&error);
                break;
            }
        }
    }
    assert!(records.offset() <= file.len().max(HEADER_BYTES));
    let context = BlobFileContext {
        number: 7,
        count: footer.map_or(0, |footer| footer.count),
        record_bytes: file.len().saturating_sub(HEADER_BYTES + FOOTER_BYTES),
        limits: Limits::UNTRUSTED,
    };
    let opened = match BlobFile::open(file, &context) {
        Ok(opened) => opened,
        Err(error) => return judge(&error),
    };
    if let Err(error) = opened.verify_checksums(&mut |_| ()) {
        judge(&error);
    }
    for (key, reference, is_intact) in found {
        let key = BlobKey::of_entry(&KeyOrder::Bytewise, &key);
        let value = opened.value(&reference, &key, true);
        match &value {
            Ok(_) => assert!(is_intact),
            Err(error) => judge(error),
        }
        let elsewhere = [
            BlobReference {
                offset: reference.offset ^ 1,
                ..reference
            },
            BlobReference {
                bytes: reference.bytes + 1,
                ..reference
            },
            BlobReference {
                offset: u64::MAX,
                ..reference
            },
            BlobReference {
                bytes: u64::MAX,
                ..reference
            },
            BlobReference {
                file: 8,
                ..reference
            },
        ];
        for reference in elsewhere {
            let wrong = opened.value(&reference, &key, true);
            judge(&wrong.expect_err("a reference to no record"));
        }
        if let (Ok(value), Ok(unverified)) = (value, opened.value(&reference, &key, false)) {
            assert_eq!(value, unverified);
        }
    }
}
