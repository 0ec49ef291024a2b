//! Values in blob files: they change no answer, and a file goes when nothing refers to it.

use std::cmp::Ordering;

use koeldb::{
    BlobGarbageCollectionPolicy, BottommostLevelCompaction, BoxError, BytewiseComparatorWithU64Ts,
    CompactRangeOptions, Comparator, ConfigOptions, Db, ErrorKind, IteratorMode, MergeOperands,
    MergeOperator, Options, ReadOptions, StringAppend,
};
use koeldb_testkit::Floors;

use crate::model::{self, base_options};
use crate::prelude::creating;
use crate::scratch::ScratchDir;
use crate::wait::until;

/// Settings under which all, large or few values are separated, and old files are emptied or not.
const SETTINGS: [&str; 7] = [
    "min_blob_size=10;blob_file_size=2000;enable_blob_garbage_collection=true;blob_cache=100K;prepopulate_blob_cache=kFlushOnly;",
    "min_blob_size=0;blob_file_size=1000;enable_blob_garbage_collection=true;",
    "min_blob_size=20;blob_file_size=3000;enable_blob_garbage_collection=true;blob_garbage_collection_age_cutoff=1.0;",
    "min_blob_size=10;blob_file_size=100000;",
    "min_blob_size=5;blob_file_size=500;blob_compression_type=kSnappyCompression;blob_file_starting_level=1;enable_blob_garbage_collection=true;blob_garbage_collection_age_cutoff=0.5;",
    "min_blob_size=1;compaction_style=kCompactionStyleUniversal;enable_blob_garbage_collection=true;",
    "min_blob_size=0;blob_file_size=2000;enable_blob_garbage_collection=true;blob_garbage_collection_age_cutoff=0.8;blob_garbage_collection_force_threshold=0;",
];

#[test]
fn blob_files_change_no_answer() {
    for seed in 0..Floors::chosen().of(2, 4, 40) {
        for (number, settings) in (0..).zip(SETTINGS) {
            let mut options = base_options();
            let text = format!("enable_blob_files=true;{settings}");
            options.apply_str(&text, &ConfigOptions::new()).unwrap();
            model::run(seed * 10 + number, &options, 1200);
        }
    }
}

fn options(settings: &str) -> Options {
    let mut options = creating();
    options
        .set_disable_auto_compactions(true)
        .set_merge_operator(StringAppend::default());
    let text = format!("enable_blob_files=true;min_blob_size=100;{settings}");
    options.apply_str(&text, &ConfigOptions::new()).unwrap();
    options
}

fn value(key: u32, round: u32) -> Vec<u8> {
    format!("{key} of {round} ").repeat(40).into_bytes()
}

fn fill(db: &Db, round: u32) {
    for key in 0..100 {
        db.put(format!("{key:03}"), value(key, round)).unwrap();
    }
    db.flush().unwrap();
}

fn check(db: &Db, round: u32) {
    let found = db.iterator(IteratorMode::Start).map(Result::unwrap);
    let found: Vec<_> = found
        .map(|(key, value)| (key.to_vec(), value.to_vec()))
        .collect();
    let expected = (0..100).map(|key| (format!("{key:03}").into_bytes(), value(key, round)));
    assert!(found.into_iter().eq(expected), "round {round}");
}

#[test]
fn a_file_of_garbage_alone_goes() {
    let dir = ScratchDir::new();
    let options = options("");
    let db = Db::open(&options, dir.path()).unwrap();
    for round in 0..4 {
        fill(&db, round);
        assert_eq!(dir.all("blob").len(), round as usize + 1);
    }
    db.compact_all(&CompactRangeOptions::new()).unwrap();
    check(&db, 3);
    until("three have only what was overwritten, and go", || {
        dir.all("blob").len() == 1
    });
    drop(db);
    let db = Db::open(&options, dir.path()).unwrap();
    check(&db, 3);
    for key in 0..100 {
        db.delete(format!("{key:03}")).unwrap();
    }
    db.compact_all(&CompactRangeOptions::new()).unwrap();
    assert_eq!(db.iterator(IteratorMode::Start).count(), 0);
    until("the last file goes", || dir.all("blob").is_empty());
}

#[test]
fn old_files_are_emptied_by_compactions() {
    let dir = ScratchDir::new();
    let options =
        options("enable_blob_garbage_collection=true;blob_garbage_collection_age_cutoff=1.0;");
    let db = Db::open(&options, dir.path()).unwrap();
    fill(&db, 0);
    let first = dir.all("blob");
    db.put("000", value(0, 1)).unwrap();
    db.flush().unwrap();
    db.compact_all(&CompactRangeOptions::new()).unwrap();
    until("the first file goes", || {
        !dir.all("blob").contains(&first[0])
    });
    assert_eq!(db.get("000").unwrap().unwrap(), *value(0, 1));
    assert_eq!(db.get("099").unwrap().unwrap(), *value(99, 0));
}

#[test]
fn copies_have_the_blob_files() {
    let (dir, copies) = (ScratchDir::new(), ScratchDir::new());
    let options = options("");
    let db = Db::open(&options, dir.path()).unwrap();
    fill(&db, 0);
    let copy = copies.join("checkpoint");
    db.create_checkpoint(&copy).unwrap();
    fill(&db, 1);
    db.compact_all(&CompactRangeOptions::new()).unwrap();
    check(&Db::open(&options, &copy).unwrap(), 0);
    check(&db, 1);
    let refused = db.default_cf().export(copies.join("export")).unwrap_err();
    assert!(refused.message().contains("checkpoint"), "{refused}");
}

#[test]
fn garbage_in_the_oldest_files_forces_a_compaction() {
    let dir = ScratchDir::new();
    let mut options = options("blob_garbage_collection_age_cutoff=1;");
    options.set_disable_auto_compactions(false);
    let db = Db::open(&options, dir.path()).unwrap();
    fill(&db, 0);
    let first = dir.all("blob");
    for key in 0..90 {
        db.put(format!("{key:03}"), value(key, 1)).unwrap();
    }
    db.compact_all(&CompactRangeOptions::new()).unwrap();
    assert_eq!(dir.all("blob").len(), 2);
    let cf = db.default_cf();
    let set = |threshold: &str| {
        cf.set_options([
            ("enable_blob_garbage_collection", "true"),
            ("blob_garbage_collection_force_threshold", threshold),
        ])
        .unwrap();
        db.wait_for_compact(None).unwrap();
    };
    // Of 190 values in two files, 90 are garbage; one table refers to both.
    set("0.5");
    assert!(dir.all("blob").contains(&first[0]));
    set("0.4");
    until("the first file goes", || {
        !dir.all("blob").contains(&first[0])
    });
    assert_eq!(db.get("099").unwrap().unwrap(), *value(99, 0));
    assert_eq!(db.get("000").unwrap().unwrap(), *value(0, 1));
}

#[test]
fn a_manual_compaction_has_a_policy_of_its_own() {
    let dir = ScratchDir::new();
    let options = options("blob_compression_type=kZSTD;blob_compression_opts={level=9;};");
    let db = Db::open(&options, dir.path()).unwrap();
    fill(&db, 0);
    let first = dir.all("blob");
    let mut compaction = CompactRangeOptions::new();
    compaction.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
    db.compact_all(&compaction).unwrap();
    assert_eq!(dir.all("blob"), first, "it is off");
    compaction
        .set_blob_garbage_collection_policy(BlobGarbageCollectionPolicy::Force)
        .set_blob_garbage_collection_age_cutoff(1.0);
    db.compact_all(&compaction).unwrap();
    until("another file takes the values", || {
        let second = dir.all("blob");
        second != first && second.len() == 1
    });
    check(&db, 0);
}

/// Changes a byte of each blob file in the directory, in the middle.
fn damage_blob_files(dir: &ScratchDir) {
    for path in dir.all("blob") {
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x10;
        std::fs::write(&path, bytes).unwrap();
    }
}

#[test]
fn a_changed_byte_of_a_value_with_a_timestamp_is_corruption() {
    let dir = ScratchDir::new();
    let mut options =
        options("enable_blob_garbage_collection=true;blob_garbage_collection_age_cutoff=1.0;");
    options.set_comparator(BytewiseComparatorWithU64Ts);
    let open = || Db::open(&options, dir.path()).unwrap();
    let db = open();
    let cf = db.default_cf();
    let at = |time: u64| {
        let mut read = ReadOptions::new();
        read.set_timestamp(time.to_le_bytes());
        read
    };
    for time in 1..4_u64 {
        let value = value(7, u32::try_from(time).unwrap());
        cf.put_with_ts("key", time.to_le_bytes(), value).unwrap();
    }
    db.flush().unwrap();
    for time in 1..4 {
        let expected = value(7, u32::try_from(time).unwrap());
        assert_eq!(*db.get_opt("key", &at(time)).unwrap().unwrap(), *expected);
        let many = cf.multi_get_opt(&["key"], &at(time));
        assert_eq!(many.get(0).unwrap(), Some(&*expected));
        let found: Vec<_> = cf.range_opt(.., &at(time)).map(Result::unwrap).collect();
        assert_eq!(*found[0].1, *expected);
    }
    drop(db);
    damage_blob_files(&dir);
    let db = open();
    let cf = db.default_cf();
    // The middle is in the second value.
    assert!(db.get_opt("key", &at(1)).is_ok() && db.get_opt("key", &at(3)).is_ok());
    let mut all = at(3);
    all.set_iter_start_ts(0_u64.to_le_bytes());
    let errors = [
        db.get_opt("key", &at(2)).map(drop),
        cf.multi_get_opt(&["key"], &at(2)).get(0).map(drop),
        cf.range_opt(.., &at(2))
            .try_for_each(|entry| entry.map(drop)),
        cf.range_opt(.., &at(2))
            .rev()
            .try_for_each(|entry| entry.map(drop)),
        cf.range_opt(.., &all).try_for_each(|entry| entry.map(drop)),
        db.compact_all(
            CompactRangeOptions::new()
                .set_bottommost_level_compaction(BottommostLevelCompaction::Force),
        ),
    ];
    for (number, result) in errors.into_iter().enumerate() {
        let error = result.expect_err(&format!("way {number}"));
        assert_eq!(error.kind(), ErrorKind::Corruption, "way {number}: {error}");
        let text = error.to_string();
        assert!(
            text.contains(".blob") && text.contains("offset"),
            "way {number}: {text}"
        );
    }
    let mut trusting = at(2);
    trusting.set_verify_checksums(false);
    assert!(cf.range_opt(.., &trusting).all(|entry| entry.is_ok()));
}

/// Keys are equal apart from spaces at their ends.
struct IgnoresSpaces;

impl Comparator for IgnoresSpaces {
    fn name(&self) -> &str {
        "IgnoresSpaces"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.trim_ascii_end().cmp(b.trim_ascii_end())
    }
}

/// Fails whenever there is a base value.
struct FailsOnABase;

impl MergeOperator for FailsOnABase {
    fn name(&self) -> &str {
        "FailsOnABase"
    }

    fn full_merge(
        &self,
        _: &[u8],
        existing: Option<&[u8]>,
        _: MergeOperands<'_>,
        _: &mut Vec<u8>,
    ) -> Result<(), BoxError> {
        match existing {
            Some(_) => Err("there is a base value".into()),
            None => Ok(()),
        }
    }
}

#[test]
fn a_failed_merge_leaves_the_base_under_the_key_that_its_value_was_written_with() {
    for settings in [
        "",
        "enable_blob_garbage_collection=true;blob_garbage_collection_age_cutoff=1.0;",
    ] {
        let dir = ScratchDir::new();
        let mut options = options(settings);
        options
            .set_comparator(IgnoresSpaces)
            .set_merge_operator(FailsOnABase);
        let db = Db::open(&options, dir.path()).unwrap();
        db.put("key     ", value(1, 1)).unwrap();
        db.put("other", value(2, 1)).unwrap();
        db.flush().unwrap();
        for key in ["other", "other ", "key", "ke"] {
            let found = db.get(key).map(|found| found.map(|value| value.to_vec()));
            let expected = match key.trim_end() {
                "other" => Some(value(2, 1)),
                "key" => Some(value(1, 1)),
                _ => None,
            };
            assert_eq!(found.unwrap(), expected, "{key:?}");
        }
        db.merge("key", "operand").unwrap();
        db.flush().unwrap();
        for _ in 0..2 {
            let mut compaction = CompactRangeOptions::new();
            compaction.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
            db.compact_all(&compaction).unwrap();
        }
        let error = db.get("key").unwrap_err();
        assert!(error.to_string().contains("FailsOnABase"), "{error}");
        db.delete("key").unwrap();
        db.delete("other").unwrap();
        db.compact_all(&CompactRangeOptions::new()).unwrap();
        until("the last file goes", || dir.all("blob").is_empty());
    }
}
