//! Tables that options cut by key or mark for compaction.

use koeldb::{
    BlockBasedOptions, CompactOnDeletion, ConfigOptions, Db, Options, SstPartitioner,
    TablePropertiesCollector,
};

use crate::model::base_options;
use crate::prelude::LIMIT;
use crate::rocksdb::{Java, Tool};
use crate::scratch::ScratchDir;

/// The levels and the ranges of keys of the tables.
fn tables(db: &Db) -> Vec<(usize, String)> {
    let mut tables: Vec<_> = db
        .live_files()
        .into_iter()
        .map(|file| {
            let text = |key: Vec<u8>| String::from_utf8(key).unwrap();
            let range = format!("{}..{}", text(file.smallest_key), text(file.largest_key));
            (file.level, range)
        })
        .collect();
    tables.sort();
    tables
}

fn ranges(db: &Db) -> Vec<String> {
    tables(db).into_iter().map(|(_, range)| range).collect()
}

#[test]
fn a_partitioner_cuts_tables_by_the_first_bytes_of_the_key() {
    for (style, is_cut) in [
        ("kCompactionStyleLevel", true),
        ("kCompactionStyleUniversal", true),
        ("kCompactionStyleLevel", false),
    ] {
        let mut options = base_options();
        options.set_disable_auto_compactions(true);
        options
            .apply_str(&format!("compaction_style={style};"), &ConfigOptions::new())
            .unwrap();
        if is_cut {
            options.set_sst_partitioner_factory(SstPartitioner::fixed_prefix(1));
        }
        let db = Db::open(&options, "/partitioned").unwrap();
        for key in ["a1", "a2", "b1", "c1", "c2"] {
            db.put(key, "value").unwrap();
        }
        db.delete_range("a2", "b2").unwrap();
        db.flush().unwrap();
        // A flush writes one table. Nothing is below it: without the partitioner it is moved.
        assert_eq!(db.live_files().len(), 1);
        db.compact_range(..).unwrap();
        match is_cut {
            true => assert_eq!(ranges(&db), ["a1..a1", "c1..c2"], "{style}"),
            false => assert_eq!(tables(&db).len(), 1),
        }
        let keys: Vec<_> = db
            .range(..)
            .map(|entry| entry.unwrap().0.to_vec())
            .collect();
        assert_eq!(keys, [b"a1", b"c1", b"c2"]);
    }
}

fn collector() -> TablePropertiesCollector {
    let mut collector = CompactOnDeletion::default();
    collector.set_window_size(128).set_deletion_trigger(3);
    TablePropertiesCollector::CompactOnDeletion(collector)
}

fn deletions(db: &Db) -> u64 {
    db.live_files().iter().map(|file| file.deletions).sum()
}

/// Writes ten keys, and deletes `count` of them in a second table.
fn delete(db: &Db, count: usize) {
    for index in 0..10 {
        db.put(format!("key {index}"), "value").unwrap();
    }
    db.flush().unwrap();
    for index in 0..count {
        db.delete(format!("key {index}")).unwrap();
    }
    db.flush().unwrap();
}

#[test]
fn tables_of_many_deletions_are_compacted_without_another_reason() {
    for (count, is_collecting, left) in [(3, true, 0), (2, true, 2), (3, false, 3)] {
        let mut options = base_options();
        options.set_level_zero_file_num_compaction_trigger(100);
        if is_collecting {
            options.set_table_properties_collectors(&[collector()]);
        }
        let db = Db::open(&options, "/marked").unwrap();
        delete(&db, count);
        db.wait_for_compact(Some(LIMIT)).unwrap();
        assert_eq!(deletions(&db), left, "{count} {is_collecting}");
        assert_eq!(db.range(..).count(), 10 - count);
    }
}

#[test]
fn deletions_that_a_snapshot_needs_are_not_compacted_for_ever() {
    let mut options = base_options();
    options
        .set_level_zero_file_num_compaction_trigger(100)
        .set_table_properties_collectors(&[collector()]);
    let db = Db::open(&options, "/marked").unwrap();
    for index in 0..10 {
        db.put(format!("key {index}"), "value").unwrap();
    }
    let snapshot = db.snapshot();
    delete(&db, 5);
    db.wait_for_compact(Some(LIMIT)).unwrap();
    assert_eq!(db.range(..).count(), 5);
    assert_eq!(snapshot.range(..).count(), 10);
}

#[test]
fn deletions_that_stay_for_tables_from_behind_are_not_compacted_for_ever() {
    let mut options = base_options();
    options
        .set_level_zero_file_num_compaction_trigger(100)
        .set_cf_allow_ingest_behind(true)
        .set_table_properties_collectors(&[collector()]);
    let db = Db::open(&options, "/marked").unwrap();
    delete(&db, 5);
    db.wait_for_compact(Some(LIMIT)).unwrap();
    assert_eq!(db.range(..).count(), 5);
    assert_eq!(deletions(&db), 5);
}

#[test]
fn rocksdb_reads_marked_tables_and_the_names_of_collectors() {
    let dir = ScratchDir::new();
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_disable_auto_compactions(true)
        .set_block_based_table_factory(BlockBasedOptions::new().set_format_version(5))
        .set_sst_partitioner_factory(SstPartitioner::fixed_prefix(4))
        .set_table_properties_collectors(&[collector()]);
    let db = Db::open(&options, dir.path()).unwrap();
    delete(&db, 5);
    let files = db.live_files();
    assert_eq!(
        files
            .iter()
            .filter(|file| file.marked_for_compaction)
            .count(),
        1
    );
    drop(db);
    if let Some(sst_dump) = Tool::sst_dump() {
        let file = format!("--file={}{}", dir.path().display(), files[0].name);
        let properties = sst_dump.run(&[&file, "--command=check", "--show_properties"]);
        let has_names = properties.contains("[CompactOnDeletionCollector]");
        assert!(has_names, "{properties}");
    }
    if let Some(java) = Java::find() {
        // It reads the MANIFEST, the OPTIONS file and the tables.
        java.check(dir.path(), &[]);
    }
    let db = Db::open(&options, dir.path()).unwrap();
    assert_eq!(db.range(..).count(), 5);
}
