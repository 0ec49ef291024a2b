//! Repair of databases with values in blob files: what is whole is kept, what is lost is listed.

use std::collections::{BTreeMap, BTreeSet};

use koeldb::{
    BottommostLevelCompaction, CompactRangeOptions, Db, IteratorMode, Options, RepairReport,
};

use crate::blob_copies::{content, fill, options, value};
use crate::expected::Expected;
use crate::golden;
use crate::rocksdb::Java;
use crate::scratch::ScratchDir;

const COLLECTION: &str =
    "enable_blob_garbage_collection=true;blob_garbage_collection_age_cutoff=0.5;";

/// Removes CURRENT and all MANIFESTs.
fn lose_manifest(dir: &ScratchDir) {
    for name in ["CURRENT", "MANIFEST"] {
        for path in dir.all(name) {
            std::fs::remove_file(path).unwrap();
        }
    }
}

fn repair(options: &Options, dir: &ScratchDir) -> RepairReport {
    let report = Db::repair(options, dir.path()).unwrap();
    assert!(
        report.families.contains(&"default".to_owned()),
        "{report:?}"
    );
    report
}

/// Several blob files, some with garbage, and data in the log.
fn written(options: &Options) -> (ScratchDir, BTreeMap<Vec<u8>, Vec<u8>>) {
    let dir = ScratchDir::new();
    let db = Db::open(options, dir.path()).unwrap();
    fill(&db, 0, 1);
    fill(&db, 1, 3);
    db.compact_all(&CompactRangeOptions::new()).unwrap();
    fill(&db, 2, 7);
    db.put("in the log", value(19, 0)).unwrap();
    let wanted = content(&db);
    db.close().unwrap();
    (dir, wanted)
}

/// Goes on with a repaired database: writes, compacts with collection, opens it again.
fn goes_on(options: &Options, dir: &ScratchDir, what: &str) {
    let db = Db::open(options, dir.path()).unwrap();
    let mut all = CompactRangeOptions::new();
    all.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
    for round in 5..8 {
        fill(&db, round, 1);
        db.compact_all(&all).unwrap();
    }
    db.verify_checksums().unwrap();
    let wanted = content(&db);
    assert_eq!(wanted.get(&b"099"[..]), Some(&value(99, 7)), "{what}");
    db.close().unwrap();
    drop(db);
    assert!(
        content(&Db::open(options, dir.path()).unwrap()) == wanted,
        "{what}"
    );
    if let Some(java) = Java::find() {
        let mut expected = Expected::default();
        *expected.family("default") = wanted;
        let found = java.check(dir.path(), &["merge=stringappend"]).found;
        assert!(found == expected, "{what}: RocksDB differs");
    }
}

#[test]
fn all_values_come_back_without_a_manifest() {
    for settings in [
        "",
        "blob_file_size=1000;blob_compression_type=kSnappyCompression;",
    ] {
        let options = options(&format!("{settings}{COLLECTION}"));
        let (dir, wanted) = written(&options);
        let blobs = dir.all("blob");
        let totals = |db: &Db| -> Vec<[u64; 5]> {
            let mut files = db.live_blob_files();
            let of_log = &db.recovery_report().blob_files_written;
            files.retain(|file| !of_log.contains(&file.number));
            let totals = files.iter().map(|file| {
                let garbage = (file.garbage_count, file.garbage_bytes);
                let total = (file.total_count, file.total_bytes);
                [file.number, total.0, total.1, garbage.0, garbage.1]
            });
            totals.collect()
        };
        let read_only = Db::builder(&options).read_only().open(dir.path()).unwrap();
        let before = totals(&read_only);
        drop(read_only);
        lose_manifest(&dir);
        let report = repair(&options, &dir);
        assert!(report.lost_values.is_empty(), "{report:?}");
        assert_eq!(report.blob_files.len(), blobs.len(), "{report:?}");
        let db = Db::open(&options, dir.path()).unwrap();
        assert_eq!(totals(&db), before, "{settings}");
        assert!(content(&db) == wanted, "{settings}");
        db.verify_checksums().unwrap();
        db.close().unwrap();
        drop(db);
        goes_on(&options, &dir, settings);
    }
}

/// The keys whose reads fail, and the check that all others have their values.
fn unreadable(
    options: &Options,
    dir: &ScratchDir,
    wanted: &BTreeMap<Vec<u8>, Vec<u8>>,
) -> BTreeSet<Vec<u8>> {
    let db = Db::builder(options).read_only().open(dir.path()).unwrap();
    let mut failed = BTreeSet::new();
    for (key, value) in wanted {
        match db.get(key) {
            Ok(found) => assert_eq!(found.as_deref(), Some(&value[..])),
            Err(error) => {
                assert!(error.is_corruption(), "{error}");
                failed.insert(key.clone());
            }
        }
    }
    db.close().unwrap();
    failed
}

#[test]
fn a_lost_value_is_listed_and_hurts_no_other() {
    let options = options("");
    for damage in [
        "cut",
        "cut in the header",
        "missing",
        "flipped",
        "no footer",
    ] {
        let (dir, wanted) = written(&options);
        let victim = dir.all("blob").swap_remove(0);
        let bytes = std::fs::read(&victim).unwrap();
        let mut changed = bytes.clone();
        match damage {
            "cut" => changed.truncate(bytes.len() / 2),
            "cut in the header" => changed.truncate(20),
            "flipped" => changed[bytes.len() / 2] ^= 1,
            _ => changed.truncate(bytes.len() - 32),
        }
        std::fs::write(&victim, &changed).unwrap();
        if damage == "missing" {
            std::fs::remove_file(&victim).unwrap();
        }
        lose_manifest(&dir);
        let report = repair(&options, &dir);
        let listed: BTreeSet<Vec<u8>> = (report.lost_values.iter())
            .map(|lost| lost.key.clone())
            .collect();
        // A value under a newer one is lost as well.
        let failed = unreadable(&options, &dir, &wanted);
        assert!(failed.is_subset(&listed), "{damage}: {failed:?} {report:?}");
        // The flipped bit may be in garbage.
        if damage != "flipped" {
            assert_eq!(failed.is_empty(), damage == "no footer", "{damage}");
            assert_eq!(listed.is_empty(), damage == "no footer", "{damage}");
        }
        let name = victim.file_name().unwrap();
        let is_kept = dir.join("lost").join(name);
        match damage {
            "cut" | "cut in the header" | "no footer" => {
                assert_eq!(std::fs::read(is_kept).unwrap(), changed, "{damage}");
            }
            _ => assert!(!is_kept.exists(), "{damage}"),
        }
        // A second repair finds the same.
        lose_manifest(&dir);
        let again = repair(&options, &dir);
        assert_eq!(again.blob_files, report.blob_files, "{damage}");
        let again: BTreeSet<Vec<u8>> = (again.lost_values.iter())
            .map(|lost| lost.key.clone())
            .collect();
        assert_eq!(again, listed, "{damage}");
        goes_on(&options, &dir, damage);
    }
}

/// Tables before and after a compaction that moved values: both are there, no MANIFEST tells which.
#[test]
fn tables_from_before_and_after_a_collection_are_merged() {
    let collecting = options(COLLECTION);
    for (before, after) in [
        (&collecting, &collecting),
        (
            &collecting,
            &options(
                "min_blob_size=100000;enable_blob_garbage_collection=true;blob_garbage_collection_age_cutoff=1;",
            ),
        ),
    ] {
        let dir = ScratchDir::new();
        let db = Db::open(before, dir.path()).unwrap();
        fill(&db, 0, 1);
        fill(&db, 1, 3);
        db.close().unwrap();
        drop(db);
        let old = ScratchDir::copy_of(dir.path());
        let db = Db::open(after, dir.path()).unwrap();
        let mut all = CompactRangeOptions::new();
        all.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
        db.compact_all(&all).unwrap();
        let wanted = content(&db);
        db.close().unwrap();
        drop(db);
        for kind in ["sst", "blob"] {
            for path in old.all(kind) {
                let target = dir.join(path.file_name().unwrap());
                if !target.exists() {
                    std::fs::copy(path, target).unwrap();
                }
            }
        }
        lose_manifest(&dir);
        let report = repair(before, &dir);
        assert!(report.lost_values.is_empty(), "{report:?}");
        let db = Db::open(before, dir.path()).unwrap();
        assert!(content(&db) == wanted);
        db.close().unwrap();
        drop(db);
        goes_on(before, &dir, "merged");
    }
}

#[test]
fn columns_of_entities_in_blob_files_come_back() {
    let dir = golden::copy_of("entities-blobs");
    let mut options = options("");
    options.create_if_missing(false);
    lose_manifest(&dir);
    let report = repair(&options, &dir);
    assert!(
        report.lost_values.is_empty() && report.blob_files.len() > 3,
        "{report:?}"
    );
    let db = Db::open(&options, dir.path()).unwrap();
    for place in ["repaired", "compacted"] {
        let wanted = golden::rows();
        for (key, row) in &wanted {
            let found = db.get_entity(key).unwrap().unwrap();
            let found: golden::Row = found.columns().to_vec().into_iter().collect();
            assert_eq!(found, *row, "{place}: {}", key.escape_ascii());
        }
        assert_eq!(db.iterator(IteratorMode::Start).count(), wanted.len());
        db.compact_all(&CompactRangeOptions::new()).unwrap();
    }
}
