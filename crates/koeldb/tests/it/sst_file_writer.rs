//! Table files written outside of a database, and RocksDB's tools as their judge.

use koeldb::fs::{FaultFileSystem, FaultRule, MemoryFileSystem, Operation, SystemClock};
use koeldb::{
    BlockBasedOptions, ColumnFamilyOptions, Compression, Env, ErrorKind, Options, SstFileWriter,
    SstFileWriterOptions, StringAppend,
};
use std::sync::Arc;

use crate::rocksdb::Tool;
use crate::scratch::ScratchDir;

/// A column family whose tables RocksDB 7.8 can read.
fn family() -> ColumnFamilyOptions {
    let mut table = BlockBasedOptions::new();
    table.set_format_version(5);
    let mut family = ColumnFamilyOptions::new();
    family.set_block_based_table_factory(&table);
    family
}

#[test]
fn rocksdb_7_8_ingests_external_files() {
    let (Some(ldb), Some(sst_dump)) = (Tool::ldb(), Tool::sst_dump()) else {
        return;
    };
    let codecs = [Compression::None, Compression::Lz4, Compression::Zstd];
    for codec in codecs.into_iter().filter(|codec| codec.is_available()) {
        let dir = ScratchDir::new();
        let path = dir.path().join("external.sst");
        let mut options = family();
        options.set_compression_type(codec);
        let mut writer = SstFileWriter::create(&options, &path).unwrap();
        for index in 0..5000 {
            let key = format!("key{index:05}");
            match index % 100 {
                7 => writer.delete(&key).unwrap(),
                _ => writer.put(&key, format!("value{index}")).unwrap(),
            }
        }
        writer.delete_range("key09000", "key09990").unwrap();
        let info = writer.finish().unwrap();
        assert_eq!((info.num_entries, info.num_range_del_entries), (5000, 1));
        assert_eq!(info.smallest_key.as_deref(), Some(&b"key00000"[..]));
        assert_eq!(info.largest_key.as_deref(), Some(&b"key04999"[..]));
        assert_eq!(
            info.largest_range_del_key.as_deref(),
            Some(&b"key09990"[..])
        );
        assert_eq!(info.file_size, std::fs::metadata(&path).unwrap().len());

        let file = format!("--file={}", path.display());
        sst_dump.run(&[&file, "--command=verify"]);
        let properties = sst_dump.run(&[&file, "--show_properties"]);
        assert!(
            properties.contains("# entries: 5001"),
            "{codec:?}: {properties}"
        );
        let db = dir.path().join("db");
        let db = format!("--db={}", db.display());
        ldb.run(&[&db, "--create_if_missing", "put", "key00007", "older"]);
        ldb.run(&[&db, "put", "key09500", "older"]);
        ldb.run(&[&db, "put", "key09990", "older"]);
        ldb.run(&[&db, "ingest_extern_sst", path.to_str().unwrap()]);
        let scanned = ldb.run(&[&db, "scan"]);
        let mut expected: Vec<String> = (0..5000)
            .filter(|index| index % 100 != 7)
            .map(|index| format!("key{index:05} : value{index}"))
            .collect();
        expected.push("key09990 : older".to_owned());
        let found: Vec<&str> = scanned
            .lines()
            .filter(|line| line.starts_with("key"))
            .collect();
        assert_eq!(found, expected, "{codec:?}");
    }
}

#[test]
fn keys_ascend_and_a_refused_key_leaves_the_writer_usable() {
    let dir = ScratchDir::new();
    let path = dir.path().join("external.sst");
    let mut options = family();
    options.set_merge_operator(StringAppend::default());
    let mut writer = SstFileWriter::create(&options, &path).unwrap();
    writer.put("b", "1").unwrap();
    for key in ["a", "b"] {
        let error = writer.put(key, "2").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.message().contains("external.sst"), "{error}");
    }
    let error = writer.delete_range("z", "y").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    writer.delete_range("y", "y").unwrap();
    writer.merge("c", "3").unwrap();
    let info = writer.finish().unwrap();
    assert_eq!((info.num_entries, info.num_range_del_entries), (2, 0));
    assert_eq!(info.smallest_range_del_key, None);
}

#[test]
fn what_is_not_finished_leaves_no_file() {
    let dir = ScratchDir::new();
    let path = dir.path().join("external.sst");
    let mut writer = SstFileWriter::create(&family(), &path).unwrap();
    let error = SstFileWriter::create(&family(), &path).unwrap_err();
    assert!(error.to_string().contains("external.sst"), "{error}");
    writer.put("a", "1").unwrap();
    drop(writer);
    assert!(!path.exists());
    let writer = SstFileWriter::create(&family(), &path).unwrap();
    let error = writer.finish().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(!path.exists());
}

#[test]
fn a_failed_write_or_sync_leaves_no_file() {
    for operation in [Operation::Append, Operation::SyncData, Operation::SyncDir] {
        let memory = Arc::new(MemoryFileSystem::new());
        let faults = FaultFileSystem::new(memory.clone(), 1);
        let env = Env::new(Arc::new(faults.clone()), Arc::new(SystemClock));
        let mut how = SstFileWriterOptions::new();
        how.set_env(&env).set_sync_dir(true);
        koeldb::fs::FileSystem::create_dir_all(&*memory, "/d".as_ref()).unwrap();
        faults.add_rule(FaultRule::fail(koeldb::fs::Failure::Device).on(&[operation]));
        let mut writer = SstFileWriter::create_opt(&family(), "/d/a.sst", &how).unwrap();
        let written = writer.put("a", vec![1; 100_000]);
        let finished = written.and_then(|()| writer.finish().map(|_| ()));
        assert!(finished.is_err(), "{operation:?}");
        let left = koeldb::fs::FileSystem::list(&*memory, "/d".as_ref()).unwrap();
        assert!(left.is_empty(), "{operation:?}: {left:?}");
    }
}

/// Repair takes external files into a database of ours.
#[test]
fn repair_takes_external_files_in() {
    let dir = ScratchDir::new();
    let mut options = Options::new();
    options.create_if_missing(true);
    let mut writer =
        SstFileWriter::create(&ColumnFamilyOptions::new(), dir.path().join("000077.sst")).unwrap();
    writer.put("a", "1").unwrap();
    writer.finish().unwrap();
    koeldb::Db::repair(&options, dir.path()).unwrap();
    let db = koeldb::Db::open(&options, dir.path()).unwrap();
    assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"1"[..]));
}
