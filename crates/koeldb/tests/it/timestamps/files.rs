//! Tables with user-defined timestamps that come from elsewhere, compaction filters, and repair.

use std::path::Path;

use koeldb::{
    BottommostLevelCompaction, ColumnFamilyOptions, CompactRangeOptions, Db, Decision, Env,
    ErrorKind, ImportColumnFamilyOptions, IngestExternalFileArg, IngestExternalFileOptions,
    SstFileWriter, SstFileWriterOptions,
};
use koeldb_fs::FileSystem;
use koeldb_lsm::manifest::ManifestReader;

use super::{all_of, at, get, options, read_at, scan};
use crate::scratch::ScratchDir;

/// Writes a table with the value `value` at each of the keys and timestamps.
fn write_table(db: &Db, env: &Env, path: &str, entries: &[(&str, u64)]) {
    let mut how = SstFileWriterOptions::new();
    how.set_env(env);
    let mut writer = SstFileWriter::create_opt(&db.default_cf().options(), path, &how).unwrap();
    for (key, time) in entries {
        writer
            .put_with_ts(key, at(*time), format!("{key}{time}"))
            .unwrap();
    }
    writer.finish().unwrap();
}

/// The newest timestamp of each table that the MANIFEST adds.
fn recorded_in(fs: &dyn FileSystem, directory: &Path) -> Vec<Option<u64>> {
    let files = fs.list(directory).unwrap();
    let numbers = files
        .iter()
        .filter_map(|file| file.name.strip_prefix("MANIFEST-")?.parse().ok());
    let mut reader = ManifestReader::open(fs, directory, numbers.max().unwrap()).unwrap();
    let mut found = Vec::new();
    while let Some(edits) = reader.next_edits().unwrap() {
        let added = edits.iter().flat_map(|edit| &edit.added_files);
        found.extend(added.map(|(_, file)| file.newest_timestamp().map(u64::from_le_bytes)));
    }
    found
}

#[test]
fn files_are_ingested_only_where_no_version_of_their_keys_can_be() {
    let env = Env::mem_env();
    let db = Db::open(&options(&env), "/db").unwrap();
    let refused = |files: &[&str], kind: ErrorKind| {
        let error = db.ingest_external_file(files).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.message().contains("timestamps"), "{error}");
    };
    write_table(&db, &env, "/1.sst", &[("b", 5), ("d", 4)]);
    write_table(&db, &env, "/2.sst", &[("c", 9)]);
    write_table(&db, &env, "/3.sst", &[("x", 9)]);
    refused(&["/1.sst", "/2.sst"], ErrorKind::NotSupported);
    db.default_cf().put_with_ts("c", at(1), "c").unwrap();
    refused(&["/1.sst"], ErrorKind::InvalidArgument);
    db.flush().unwrap();
    refused(&["/1.sst"], ErrorKind::InvalidArgument);
    let mut behind = IngestExternalFileOptions::new();
    behind.set_ingest_behind(true);
    let arg = IngestExternalFileArg::new(db.default_cf(), ["/3.sst"]);
    let error = db.ingest_external_files(&[arg], &behind).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");

    // The range of a table has it, but none of its keys.
    db.default_cf().put_with_ts("a", at(2), "a").unwrap();
    db.default_cf().put_with_ts("z", at(2), "z").unwrap();
    db.flush().unwrap();
    db.default_cf().compact_range(..).unwrap();
    db.ingest_external_file(&["/3.sst"]).unwrap();
    for _ in 0..2 {
        assert_eq!(get(&db, "x", 8), None);
        assert_eq!(get(&db, "x", 9).as_deref(), Some("x9"));
        assert_eq!(scan(&db, &read_at(2)), ["a@2=a", "c@1=c", "z@2=z"]);
        db.default_cf().compact_range(..).unwrap();
    }
    // All of the range is replaced.
    let mut arg = IngestExternalFileArg::new(db.default_cf(), ["/1.sst"]);
    arg.set_atomic_replace_range(..).unwrap();
    let mut how = IngestExternalFileOptions::new();
    how.set_snapshot_consistency(false);
    db.ingest_external_files(&[arg], &how).unwrap();
    assert_eq!(scan(&db, &read_at(9)), ["b@5=b5", "d@4=d4"]);
}

#[test]
fn the_manifest_has_the_timestamps_of_ingested_and_imported_tables() {
    let dir = ScratchDir::new();
    let env = Env::default();
    let db = Db::open(&options(&env), dir.join("db")).unwrap();
    let file = dir.join("1.sst");
    write_table(&db, &env, file.to_str().unwrap(), &[("b", 5), ("d", 4)]);
    db.ingest_external_file(&[&file]).unwrap();
    let export = db.default_cf().export(dir.join("export")).unwrap();
    let mut family = ColumnFamilyOptions::new();
    family.set_comparator(koeldb::BytewiseComparatorWithU64Ts);
    let how = ImportColumnFamilyOptions::new();
    let imported = db
        .create_column_family_with_import("imported", &family, &[export], &how)
        .unwrap();
    assert_eq!(
        imported.get_opt("b", &read_at(5)).unwrap().as_deref(),
        Some(&b"b5"[..])
    );
    db.close().unwrap();
    let fs = koeldb_fs::PosixFileSystem::new();
    assert_eq!(recorded_in(&fs, &dir.join("db")), [Some(5), Some(5)]);
}

#[test]
fn a_compaction_filter_sees_each_version_with_its_timestamp() {
    let env = Env::mem_env();
    let mut options = options(&env);
    options.set_compaction_filter("drops 3 and changes 5", |_, key, _| {
        match key.last_chunk().map(|time| u64::from_le_bytes(*time)) {
            Some(3) => Decision::Remove,
            Some(5) => Decision::Change(b"changed".to_vec()),
            _ => Decision::Keep,
        }
    });
    let db = Db::open(&options, "/db").unwrap();
    let family = db.default_cf();
    for time in 1..=5 {
        family
            .put_with_ts("k", at(time), format!("{time}"))
            .unwrap();
    }
    let mut compact = CompactRangeOptions::new();
    compact.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
    family.compact_range_opt(.., &compact).unwrap();
    // What the filter removes is deleted at its timestamp: older versions do not reappear.
    let all = ["k@5=changed", "k@4=4", "k@3-", "k@2=2", "k@1=1"];
    assert_eq!(scan(&db, &all_of(9)), all);
    assert_eq!(get(&db, "k", 3), None);
    compact.set_full_history_ts_low(at(4));
    family.compact_range_opt(.., &compact).unwrap();
    assert_eq!(scan(&db, &all_of(9)), ["k@5=changed", "k@4=4"]);
}

#[test]
fn a_repair_keeps_all_versions_and_the_low_mark() {
    for is_lost in [false, true] {
        let dir = ScratchDir::new();
        let env = Env::default();
        let db = Db::open(&options(&env), dir.join("db")).unwrap();
        let family = db.default_cf();
        for time in 1..=6 {
            family
                .put_with_ts("a", at(time), format!("{time}"))
                .unwrap();
        }
        family.delete_range_with_ts("b", "d", at(6)).unwrap();
        family.increase_full_history_ts_low(at(3)).unwrap();
        db.flush().unwrap();
        family.put_with_ts("a", at(7), "7").unwrap();
        family.put_with_ts("c", at(7), "c").unwrap();
        drop(db);
        if is_lost {
            for entry in std::fs::read_dir(dir.join("db")).unwrap() {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap().to_str().unwrap();
                if name == "CURRENT" || name.starts_with("MANIFEST") {
                    std::fs::remove_file(&path).unwrap();
                }
            }
        }
        Db::repair(&options(&env), dir.join("db")).unwrap();
        let db = Db::open(&options(&env), dir.join("db")).unwrap();
        let low = db.default_cf().full_history_ts_low().unwrap();
        assert_eq!(low, (!is_lost).then_some(at(3)));
        assert_eq!(get(&db, "a", 5).as_deref(), Some("5"));
        assert_eq!(get(&db, "c", 6), None);
        assert_eq!(scan(&db, &read_at(7)), ["a@7=7", "c@7=c"]);
    }
}
