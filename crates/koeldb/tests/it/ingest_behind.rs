//! Files that are ingested below all data of a column family (`ingest_behind`).

use std::collections::BTreeMap;
use std::path::PathBuf;

use koeldb::{
    ColumnFamilyOptions, CompactionStyle, Db, ErrorKind, IngestExternalFileArg,
    IngestExternalFileOptions, Options, ReadOptions, SstFileWriter, StringAppend,
};
use koeldb_testkit::random::mix;
use koeldb_testkit::{Floors, Random};

use crate::expected::{Entries, Expected};
use crate::prelude::creating;
use crate::rocksdb::Java;
use crate::scratch::ScratchDir;

fn reserving() -> Options {
    let mut options = creating();
    options
        .set_compaction_style(CompactionStyle::Universal)
        .set_num_levels(4)
        .set_cf_allow_ingest_behind(true);
    options
}

fn behind() -> IngestExternalFileOptions {
    let mut options = IngestExternalFileOptions::new();
    options.set_ingest_behind(true);
    options
}

/// Writes a file with these entries.
fn file(dir: &ScratchDir, name: &str, entries: &[(&str, &str)]) -> PathBuf {
    let path = dir.join(name);
    let mut writer = SstFileWriter::create(&ColumnFamilyOptions::new(), &path).unwrap();
    for (key, value) in entries {
        writer.put(key, value).unwrap();
    }
    writer.finish().unwrap();
    path
}

fn content(db: &Db) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let entries = db.default_cf().range(..);
    entries
        .map(|entry| {
            let (key, value) = entry.unwrap();
            (text(&key), text(&value))
        })
        .collect()
}

fn pairs(entries: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = entries.iter();
    owned
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

/// The numbers of tables on each level.
fn levels(db: &Db) -> Vec<u64> {
    let count = |level| {
        let name = format!("rocksdb.num-files-at-level{level}");
        let count = db.default_cf().property_value(&name).unwrap().unwrap();
        count.parse().unwrap()
    };
    (0..4).map(count).collect()
}

#[test]
fn older_entries_fill_gaps_and_deletions_still_hold() {
    for style in [CompactionStyle::Universal, CompactionStyle::Level] {
        let dir = ScratchDir::new();
        let mut options = reserving();
        options
            .set_compaction_style(style)
            .set_merge_operator(StringAppend::default());
        let db = Db::open(&options, dir.join("db")).unwrap();
        db.put("b", "new").unwrap();
        db.put("c", "new").unwrap();
        db.flush().unwrap();
        db.delete("c").unwrap();
        db.delete("d").unwrap();
        db.single_delete("e").unwrap();
        db.delete_range("k", "m").unwrap();
        db.merge("x", "operand").unwrap();
        db.flush().unwrap();
        let snapshot = db.snapshot();
        // Nothing older is known, and yet the deletions stay.
        db.compact_range(..).unwrap();
        if style == CompactionStyle::Universal {
            assert_eq!(levels(&db), [0, 0, 1, 0]);
        }
        let all = ["a", "b", "c", "d", "e", "k", "l", "m", "x", "y"];
        let entries = all.map(|key| (key, "old"));
        let path = file(&dir, "old", &entries);
        if style == CompactionStyle::Level {
            // Its compactions use the last level.
            let error = db
                .default_cf()
                .ingest_external_file_opt(&[&path], &behind())
                .unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
            continue;
        }
        db.default_cf()
            .ingest_external_file_opt(&[&path], &behind())
            .unwrap();
        assert_eq!(levels(&db), [0, 0, 1, 1]);
        let mut read = ReadOptions::new();
        read.set_snapshot(&snapshot);
        let expected = pairs(&[
            ("a", "old"),
            ("b", "new"),
            ("m", "old"),
            ("x", "old,operand"),
            ("y", "old"),
        ]);
        assert_eq!(content(&db), expected);
        assert_eq!(
            db.get_opt("a", &read).unwrap().as_deref(),
            Some(&b"old"[..]),
            "snapshots see it"
        );
        drop((read, snapshot));
        db.compact_range(..).unwrap();
        db.put("z", "newest").unwrap();
        db.flush().unwrap();
        db.compact_range(..).unwrap();
        assert_eq!(levels(&db), [0, 0, 1, 1], "the last level is left alone");
        db.close().unwrap();
        drop(db);
        // Without the option everything is compacted into the last level.
        options.set_cf_allow_ingest_behind(false);
        let db = Db::open(&options, dir.join("db")).unwrap();
        db.compact_range(..).unwrap();
        assert_eq!(levels(&db), [0, 0, 0, 1]);
        let mut expected = expected;
        expected.push(("z".to_owned(), "newest".to_owned()));
        assert_eq!(content(&db), expected);
    }
}

#[test]
fn files_that_do_not_fit_and_families_without_the_option_are_refused() {
    let dir = ScratchDir::new();
    let plain = Db::open(&creating(), dir.join("plain")).unwrap();
    let first = file(&dir, "1", &[("a", "1"), ("c", "1")]);
    let second = file(&dir, "2", &[("b", "2")]);
    let refused = |done: koeldb::Result<()>, part: &str| {
        let error = done.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains(part), "{error}");
    };
    let family = plain.default_cf();
    refused(
        family.ingest_external_file_opt(&[&first], &behind()),
        "cf_allow_ingest_behind",
    );

    let db = Db::open(&reserving(), dir.join("db")).unwrap();
    let family = db.default_cf();
    refused(
        family.ingest_external_file_opt(&[&first, &second], &behind()),
        "overlap",
    );
    let mut replacing = IngestExternalFileArg::new(family, [&first]);
    replacing.set_atomic_replace_range(..).unwrap();
    let mut options = behind();
    options.set_snapshot_consistency(false);
    refused(
        db.ingest_external_files(&[replacing], &options),
        "exclude each other",
    );
    family
        .ingest_external_file_opt(&[&first], &behind())
        .unwrap();
    refused(
        family.ingest_external_file_opt(&[&second], &behind()),
        "overlaps the tables of the last level",
    );
    assert_eq!(content(&db), pairs(&[("a", "1"), ("c", "1")]));

    db.put("x", "1").unwrap();
    db.flush().unwrap();
    let tables = db.live_files();
    let table = tables.iter().find(|table| table.level == 0).unwrap();
    let name = PathBuf::from(table.name.trim_start_matches('/'));
    refused(
        db.default_cf().compact_files(&[name], 3).map(drop),
        "output level 3",
    );
}

#[test]
fn the_option_of_the_database_is_that_of_all_families() {
    let dir = ScratchDir::new();
    let mut options = reserving();
    options
        .set_cf_allow_ingest_behind(false)
        .set_allow_ingest_behind(true)
        .set_num_levels(1);
    let db = Db::open(&options, dir.join("db")).unwrap();
    let later = db.create_cf("later", options.cf_options()).unwrap();
    for family in [db.default_cf(), &later] {
        let path = file(&dir, family.name(), &[("a", "old")]);
        family.put("a", "new").unwrap();
        family
            .ingest_external_file_opt(&[&path], &behind())
            .unwrap();
        assert_eq!(family.get("a").unwrap().as_deref(), Some(&b"new"[..]));
    }
}

/// Random histories, against a model of two layers; RocksDB reads what comes of it.
#[test]
fn random_histories_agree_with_two_layers() {
    let java = Java::find();
    for seed in 0..Floors::chosen().of(10, 100, 1_000) {
        let mut random = Random::new(mix(seed));
        let dir = ScratchDir::new();
        let mut options = reserving();
        options.set_level_zero_file_num_compaction_trigger(2);
        let path = dir.join("db");
        let mut db = Db::open(&options, &path).unwrap();
        // What was ingested behind, and above it values and deletions.
        let mut old: Entries = BTreeMap::new();
        let mut new: BTreeMap<Vec<u8>, Option<Vec<u8>>> = BTreeMap::new();
        let mut next_old = 0_u64;
        let key = |number: u64| format!("{number:03}").into_bytes();
        for at in 0..60_u64 {
            let number = random.below(60);
            match random.below(12) {
                0..4 => {
                    let value = format!("new {at}").into_bytes();
                    db.put(key(number), &value).unwrap();
                    new.insert(key(number), Some(value));
                }
                4..6 => {
                    db.delete(key(number)).unwrap();
                    new.insert(key(number), None);
                }
                6 => {
                    let end = number + random.below(10);
                    db.delete_range(key(number), key(end)).unwrap();
                    new.extend((number..end).map(|number| (key(number), None)));
                }
                7 => db.flush().unwrap(),
                8 => db.compact_range(..).unwrap(),
                9 => {
                    db.close().unwrap();
                    drop(db);
                    db = Db::open(&options, &path).unwrap();
                }
                _ if next_old < 60 => {
                    let end = (next_old + 1 + random.below(15)).min(60);
                    let name = dir.join(format!("file{at}"));
                    let mut writer =
                        SstFileWriter::create(&ColumnFamilyOptions::new(), &name).unwrap();
                    for number in next_old..end {
                        let value = format!("old {at}").into_bytes();
                        writer.put(key(number), &value).unwrap();
                        old.insert(key(number), value);
                    }
                    writer.finish().unwrap();
                    db.default_cf()
                        .ingest_external_file_opt(&[&name], &behind())
                        .unwrap_or_else(|error| panic!("seed {seed}, step {at}: {error}"));
                    next_old = end;
                }
                _ => {}
            }
            let mut expected = old.clone();
            for (key, value) in &new {
                match value {
                    Some(value) => expected.insert(key.clone(), value.clone()),
                    None => expected.remove(key),
                };
            }
            let found: Entries = db
                .default_cf()
                .range(..)
                .map(|entry| {
                    let (key, value) = entry.unwrap();
                    (key.to_vec(), value.to_vec())
                })
                .collect();
            assert_eq!(found, expected, "seed {seed}, step {at}");
        }
        db.close().unwrap();
        if let Some(java) = java.filter(|_| seed % 5 == 0) {
            let mut expected = Expected::default();
            *expected.family("default") = old;
            for (key, value) in new {
                match value {
                    Some(value) => expected.family("default").insert(key, value),
                    None => expected.family("default").remove(&key),
                };
            }
            assert_eq!(java.check(&path, &[]).found, expected, "seed {seed}");
        }
    }
}
