//! Tables of RocksDB with embedded blobs: values that lie in the table's file, before its blocks.

use std::path::{Path, PathBuf};

use koeldb::{
    CheckpointOptions, CompactRangeOptions, Db, IteratorMode, Options, ReadOptions, StringAppend,
};

use crate::async_reads::block_on;
use crate::golden;
use crate::scratch::ScratchDir;

/// The table with the blobs.
const TABLE: &str = "000010.sst";

fn options() -> Options {
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_merge_operator(StringAppend::default());
    options
}

fn key(number: usize) -> String {
    format!("key{number:02}")
}

/// The value that the table has for a key; `None` for a deletion.
fn value(number: usize) -> Option<Vec<u8>> {
    let letter = b'a' + u8::try_from(number % 26).unwrap();
    match number % 10 {
        3 => Some(vec![b'd'; number * 10 + 1]),
        7 => None,
        _ if number % 2 == 1 => Some(vec![letter; 10 + number]),
        _ => Some(vec![letter; 150 + number * 20]),
    }
}

/// Checks every kind of read of the table's entries, with `operand` behind keys 4 and 13.
fn check(db: &Db, operand: &str) {
    let expected = |number: usize| {
        let mut value = value(number)?;
        match number {
            4 | 13 if !operand.is_empty() => value.extend_from_slice(operand.as_bytes()),
            6 if !operand.is_empty() => return None,
            _ => {}
        }
        Some(value)
    };
    let names: Vec<String> = (0..40).map(key).collect();
    let batch = db.multi_get(&names);
    let ahead = block_on(
        db.default_cf()
            .multi_get_async_opt(&names, &ReadOptions::new()),
    );
    let columns = db
        .default_cf()
        .multi_get_entity_opt(&names, &ReadOptions::new());
    for (number, name) in names.iter().enumerate() {
        let wanted = expected(number);
        assert_eq!(
            db.get(name).unwrap().as_deref(),
            wanted.as_deref(),
            "{name}"
        );
        let found = block_on(db.default_cf().get_async_opt(name, &ReadOptions::new()));
        assert_eq!(found.unwrap().as_deref(), wanted.as_deref(), "{name}");
        assert_eq!(batch.get(number).unwrap(), wanted.as_deref(), "{name}");
        assert_eq!(ahead.get(number).unwrap(), wanted.as_deref(), "{name}");
        let found = columns[number].as_ref().unwrap().as_ref();
        let columns: Vec<_> = found
            .map(|found| found.columns().to_vec())
            .unwrap_or_default();
        let mut wanted_columns = Vec::new();
        if let Some(wanted) = &wanted {
            wanted_columns.push((Vec::new(), wanted.clone()));
            if number % 10 == 3 {
                wanted_columns.push((b"color".to_vec(), vec![b'e'; 200 + number]));
                wanted_columns.push((b"song".to_vec(), b"short".to_vec()));
            }
        }
        assert_eq!(columns, wanted_columns, "{name}");
    }
    let wanted: Vec<_> = (0..40)
        .filter_map(|number| Some((key(number).into_bytes(), expected(number)?)))
        .collect();
    for mode in [IteratorMode::Start, IteratorMode::End] {
        let entries = db.iterator(mode).map(Result::unwrap);
        let mut entries: Vec<_> = entries
            .map(|(key, value)| (key.to_vec(), value.to_vec()))
            .filter(|(key, _)| key != b"key99")
            .collect();
        if mode == IteratorMode::End {
            entries.reverse();
        }
        assert_eq!(entries, wanted);
    }
}

#[test]
fn embedded_values_and_columns_are_read_verified_and_moved_out() {
    let dir = golden::copy_of("embedded-blobs");
    for separates in [false, true] {
        let mut options = options();
        options
            .set_enable_blob_files(separates)
            .set_min_blob_size(50);
        let db = Db::open(&options, dir.path()).unwrap();
        check(&db, ",m");
        db.verify_checksums().unwrap();
        let copy = ScratchDir::new();
        let copy = copy.path().join("checkpoint");
        db.create_checkpoint_opt(&copy, &CheckpointOptions::new())
            .unwrap();
        check(
            &Db::builder(&options).read_only().open(&copy).unwrap(),
            ",m",
        );
        db.compact_all(&CompactRangeOptions::new()).unwrap();
        check(&db, ",m");
        assert!(!dir.path().join(TABLE).exists());
        db.close().unwrap();
    }
}

#[test]
fn a_damaged_embedded_blob_is_an_error_of_its_entry_only() {
    let dir = golden::copy_of("embedded-blobs");
    let path = dir.path().join(TABLE);
    let mut bytes = std::fs::read(&path).unwrap();
    // The first blob is that of key00.
    bytes[20] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let db = Db::open(&options(), dir.path()).unwrap();
    assert!(db.get("key00").unwrap_err().is_corruption());
    assert!(db.multi_get(&["key00"]).get(0).unwrap_err().is_corruption());
    assert_eq!(db.get("key02").unwrap().as_deref(), value(2).as_deref());
    assert!(db.verify_checksums().unwrap_err().is_corruption());
    assert!(db.iterator(IteratorMode::Start).any(|entry| entry.is_err()));
    assert!(db.compact_all(&CompactRangeOptions::new()).is_err());
}

/// Ingests the table into a new database.
fn ingested(dir: &Path) -> (Db, PathBuf) {
    let path = dir.join("db");
    let db = Db::open(&options(), &path).unwrap();
    let table = golden::golden("embedded-blobs").join(TABLE);
    db.ingest_external_file(&[table]).unwrap();
    (db, path)
}

#[test]
fn tables_with_embedded_blobs_are_ingested_and_repaired() {
    let dir = ScratchDir::new();
    let (db, path) = ingested(dir.path());
    check(&db, "");
    db.close().unwrap();
    drop(db);
    std::fs::remove_file(path.join("CURRENT")).unwrap();
    Db::repair(&options(), &path).unwrap();
    check(&Db::open(&options(), &path).unwrap(), "");
}
