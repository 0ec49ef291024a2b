//! Directories of KoelDB are opened by RocksDB, and written by both.
//!
//! RocksDB is Debian's release 7.8 and the Java library of release 11.8. Each engine rejects a
//! directory that the other has open.

use std::path::Path;
use std::time::{Duration, Instant};

use koeldb::{
    BlockBasedOptions, ColumnFamily, ColumnFamilyDescriptor, ColumnFamilyOptions,
    CompactRangeOptions, Compression, Db, DbBuilder, EncodingType, ErrorDetail, ErrorKind,
    FilterPolicy, FixedPrefix, IteratorMode, Options, PlainTableOptions, ReadOptions, ReadTier,
    ReverseBytewiseComparator, Uint64Add,
};

use crate::expected::Expected;
use crate::golden;
use crate::prelude::creating;
use crate::rocksdb::{Java, Tool, Verdict};
use crate::scratch::{ScratchDir, data_files};

/// A column family for each codec of this build.
fn codecs() -> impl Iterator<Item = (&'static str, Compression)> {
    let all = [
        ("default", Compression::Lz4),
        ("none", Compression::None),
        ("snappy", Compression::Snappy),
        ("zlib", Compression::Zlib),
        ("lz4hc", Compression::Lz4hc),
        ("zstd", Compression::Zstd),
    ];
    all.into_iter().filter(|(_, codec)| codec.is_available())
}

/// The column family with reversed order, as an argument for RocksDB.
const REVERSED: &str = "comparator:reversed=reverse";
/// The merge operator of all column families, as an argument for RocksDB.
const MERGE: &str = "merge=uint64add";

/// The location of the data when the directory is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// All in the log.
    Log,
    /// Some in tables of several levels, some in the log.
    Mixed,
    /// All in tables of the last level.
    Compacted,
}

struct Written {
    dir: ScratchDir,
    expected: Expected,
}

fn family_options(
    codec: Compression,
    format_version: u32,
    filter: FilterPolicy,
) -> ColumnFamilyOptions {
    let mut table = BlockBasedOptions::new();
    table
        .set_format_version(format_version)
        .set_filter_policy(filter);
    let mut options = ColumnFamilyOptions::new();
    options
        .set_compression_type(codec)
        .set_block_based_table_factory(&table)
        .set_merge_operator(Uint64Add);
    options
}

fn open(dir: &Path, format_version: u32, filter: FilterPolicy) -> Db {
    let options = creating();
    let mut builder = Db::builder(&options);
    for (name, codec) in codecs() {
        let family = family_options(codec, format_version, filter);
        builder.column_family(ColumnFamilyDescriptor::new(name, family));
    }
    let mut reversed = family_options(Compression::Snappy, format_version, filter);
    reversed.set_comparator(ReverseBytewiseComparator);
    builder.column_family(ColumnFamilyDescriptor::new("reversed", reversed));
    builder.open(dir).unwrap()
}

/// Writes entries of every kind to one column family, in the given round.
fn fill(family: &ColumnFamily, round: u32, expected: &mut Expected) {
    let is_reversed = family.name() == "reversed";
    let entries = expected.family(family.name());
    for index in 0..900 {
        let key = format!("key{:06}", index * 3 + round).into_bytes();
        let value = format!("value {round} of {index}, ")
            .repeat((index % 7) as usize)
            .into_bytes();
        family.put(&key, &value).unwrap();
        entries.insert(key, value);
    }
    for index in (0..900).step_by(11) {
        let key = format!("key{:06}", index * 3).into_bytes();
        family.delete(&key).unwrap();
        entries.remove(&key);
    }
    // The same keys in either order.
    let (from, to) = (
        format!("key{:06}", 500 + round),
        format!("key{:06}", 560 + round),
    );
    if is_reversed {
        family.delete_range(&to, &from).unwrap();
    } else {
        family.delete_range(&from, &to).unwrap();
    }
    entries.retain(|key, _| {
        let (from, to) = (from.as_bytes(), to.as_bytes());
        if is_reversed {
            key.as_slice() <= from || key.as_slice() > to
        } else {
            key.as_slice() < from || key.as_slice() >= to
        }
    });
    for index in 0..40_u32 {
        let key = format!("once{round}{index:03}").into_bytes();
        family.put(&key, "single").unwrap();
        if index % 2 == 0 {
            family.single_delete(&key).unwrap();
        } else {
            entries.insert(key, b"single".to_vec());
        }
        let key = format!("sum{:03}", index / 2).into_bytes();
        family.merge(&key, u64::from(index).to_le_bytes()).unwrap();
        let sum = entries
            .entry(key)
            .or_insert_with(|| 0_u64.to_le_bytes().to_vec());
        let old = u64::from_le_bytes(sum.as_slice().try_into().unwrap());
        *sum = (old + u64::from(index)).to_le_bytes().to_vec();
    }
}

fn write(stage: Stage, format_version: u32, filter: FilterPolicy) -> Written {
    let dir = ScratchDir::new();
    let mut expected = Expected::default().with_reversed(&["reversed"]);
    let db = open(dir.path(), format_version, filter);
    for round in 0..3 {
        for family in db.cf_handles() {
            fill(&family, round, &mut expected);
            let is_last = round == 2;
            match stage {
                Stage::Log => {}
                Stage::Mixed if is_last => {}
                Stage::Mixed if round == 0 => family.compact_range(..).unwrap(),
                Stage::Mixed | Stage::Compacted => family.flush().unwrap(),
            }
        }
    }
    if stage == Stage::Compacted {
        db.compact_all(&CompactRangeOptions::new()).unwrap();
    }
    expected.check(&db, &format!("{stage:?} as it was written"));
    db.close().unwrap();
    Written { dir, expected }
}

fn filters() -> [FilterPolicy; 2] {
    [FilterPolicy::bloom(10.0), FilterPolicy::ribbon(10.0, 0)]
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

/// Checks a directory with the command-line tools; they leave it as it is.
fn check_with_tools(written: &Written, ldb: &Tool, sst_dump: &Tool) {
    let dir = written.dir.path();
    let before = data_files(dir);
    for family in written.expected.families.keys() {
        let found = ldb.scan(dir, family);
        let wanted: Vec<(String, String)> = written
            .expected
            .in_order(family)
            .iter()
            .map(|(key, value)| (hex(key), hex(value)))
            .collect();
        assert_eq!(found.len(), wanted.len(), "family {family}");
        for (found, wanted) in found.iter().zip(&wanted) {
            assert_eq!(found, wanted, "family {family}");
        }
    }
    ldb.run(&[&format!("--db={}", dir.display()), "checkconsistency"]);
    let manifest = written.dir.only("MANIFEST");
    ldb.run(&[
        "manifest_dump",
        "--verbose",
        &format!("--path={}", manifest.display()),
    ]);
    for table in written.dir.all("sst") {
        let file = format!("--file={}", table.display());
        sst_dump.run(&[&file, "--command=check", "--verify_checksum"]);
        sst_dump.run(&[&file, "--command=verify"]);
        let properties = sst_dump.run(&[&file, "--command=check", "--show_properties"]);
        assert!(properties.contains("comparator name"), "{properties}");
    }
    assert!(data_files(dir) == before, "the tools changed the directory");
}

#[test]
fn rocksdb_7_8_reads_what_we_write() {
    let (Some(ldb), Some(sst_dump)) = (Tool::ldb(), Tool::sst_dump()) else {
        return;
    };
    for filter in filters() {
        for stage in [Stage::Log, Stage::Mixed, Stage::Compacted] {
            check_with_tools(&write(stage, 5, filter), &ldb, &sst_dump);
        }
    }
}

#[test]
fn rocksdb_7_8_writes_into_our_directory() {
    let Some(ldb) = Tool::ldb() else {
        return;
    };
    let filter = FilterPolicy::bloom(10.0);
    let mut written = write(Stage::Mixed, 5, filter);
    let db_flag = format!("--db={}", written.dir.path().display());
    for (name, _) in codecs() {
        let family_flag = format!("--column_family={name}");
        ldb.run(&[
            &db_flag,
            &family_flag,
            "--try_load_options",
            "put",
            "from ldb",
            "a value",
        ]);
        ldb.run(&[
            &db_flag,
            &family_flag,
            "--try_load_options",
            "delete",
            "once0001",
        ]);
        let entries = written.expected.family(name);
        entries.insert(b"from ldb".to_vec(), b"a value".to_vec());
        entries.remove(&b"once0001"[..]);
    }
    ldb.run(&[
        &db_flag,
        "--column_family=zlib",
        "--try_load_options",
        "compact",
    ]);
    let db = open(written.dir.path(), 5, filter);
    written.expected.check(&db, "after ldb");
    db.compact_all(&CompactRangeOptions::new()).unwrap();
    written.expected.check(&db, "after ldb, compacted");
}

/// A standby log at the death of a process is empty, with the largest number.
///
/// RocksDB replays the previous one, and neither engine reuses a number.
#[test]
fn rocksdb_7_8_passes_over_a_log_that_stood_by() {
    let Some(ldb) = Tool::ldb() else {
        return;
    };
    let dir = ScratchDir::new();
    let mut table = BlockBasedOptions::new();
    table.set_format_version(5);
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_write_buffer_size(128 << 10)
        .set_block_based_table_factory(&table);
    let db = Db::open(&options, dir.path()).unwrap();
    let logs = |dir: &ScratchDir| -> Vec<u64> {
        let paths = dir.all("log").into_iter();
        paths.map(|path| path.metadata().unwrap().len()).collect()
    };
    let mut expected = Expected::default();
    let entries = expected.family("default");
    for number in 0..80 {
        let (key, value) = (format!("key{number:06}"), [b'v'; 1000]);
        db.put(&key, value).unwrap();
        entries.insert(key.into_bytes(), value.to_vec());
    }
    let begun = Instant::now();
    while logs(&dir).len() < 2 {
        assert!(begun.elapsed() < Duration::from_secs(120), "no log ahead");
        std::thread::sleep(Duration::from_millis(1));
    }
    let left = ScratchDir::copy_of(dir.path());
    assert!(matches!(logs(&left)[..], [1..=u64::MAX, 0]));
    assert_eq!(ldb.scan(left.path(), "default").len(), 80);
    ldb.run(&[
        &format!("--db={}", left.path().display()),
        "--try_load_options",
        "put",
        "from ldb",
        "a value",
    ]);
    let entries = expected.family("default");
    entries.insert(b"from ldb".to_vec(), b"a value".to_vec());
    let db = Db::open(&options, left.path()).unwrap();
    expected.check(&db, "after ldb");
}

fn assert_found(verdict: &Verdict, expected: &Expected, what: &str) {
    let families = |expected: &Expected| expected.families.keys().cloned().collect::<Vec<_>>();
    assert_eq!(families(&verdict.found), families(expected), "{what}");
    for (name, entries) in &expected.families {
        assert!(
            verdict.found.families[name] == *entries,
            "{what}: family {name} differs"
        );
    }
}

#[test]
fn rocksdb_11_8_reads_what_we_write() {
    let Some(java) = Java::find() else {
        return;
    };
    for format_version in [5, 6, 7] {
        for filter in filters() {
            let stage = if format_version == 6 {
                Stage::Log
            } else {
                Stage::Mixed
            };
            let what = format!("{stage:?}, format {format_version}, {filter:?}");
            let written = write(stage, format_version, filter);
            let verdict = java.check(written.dir.path(), &[REVERSED, MERGE]);
            assert_found(&verdict, &written.expected, &what);
            // KoelDB opens what RocksDB has written.
            let db = open(written.dir.path(), format_version, filter);
            written.expected.check(&db, &what);
        }
    }
}

/// A directory with the families "default" and "other", made by this engine.
fn two_families(dir: &Path) -> Options {
    let options = creating();
    drop(Db::open_cf(&options, dir, ["other"]).unwrap());
    options
}

/// Recovery deleted tracked logs in the edit that added a table, which RocksDB then did not see and
/// removed as nobody's.
#[test]
fn rocksdb_keeps_every_table_recovered_from_logs_that_it_tracks() {
    let Some(java) = Java::find() else {
        return;
    };
    let dir = ScratchDir::new();
    let options = two_families(dir.path());
    // The first edit of a recovery belongs to the first family: the log has data of the other one,
    // then of the first.
    for round in 0..2 {
        java.track(dir.path(), round);
        let (db, [other]) = Db::open_cf(&options, dir.path(), ["other"]).unwrap();
        let key = format!("koel{round}");
        db.put(&key, "3").unwrap();
        assert_eq!(
            other.get("tracked").unwrap().as_deref(),
            Some(&b"other"[..])
        );
        drop((db, other));
        let found = java.check(dir.path(), &[]).found;
        for (name, family) in &found.families {
            let value = family.get(&b"tracked"[..]).map(Vec::as_slice);
            assert_eq!(value, Some(name.as_bytes()), "round {round}");
        }
        assert_eq!(found.families.len(), 2);
        assert!(found.families["default"].contains_key(key.as_bytes()));
    }
    java.track(dir.path(), 0);
}

/// The log of a prepared section, which every family is past, was passed over and removed.
#[test]
fn a_transaction_that_rocksdb_prepared_is_refused_by_name() {
    let Some(java) = Java::find() else {
        return;
    };
    for is_settled in [false, true] {
        let dir = ScratchDir::new();
        let options = two_families(dir.path());
        java.prepare(dir.path(), is_settled);
        let before = data_files(dir.path());
        let opened = Db::open_cf(&options, dir.path(), ["other"]);
        if is_settled {
            let (db, [other]) = opened.unwrap();
            assert!(db.get("prepared").unwrap().is_none());
            assert!(db.get("key2").unwrap().is_some() && other.get("key2").unwrap().is_some());
            continue;
        }
        let error = opened.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
        assert!(error.to_string().contains("'koel' is prepared"), "{error}");
        assert_eq!(data_files(dir.path()), before);
    }
}

#[test]
fn rocksdb_11_8_is_helped_by_our_filters() {
    let Some(java) = Java::find() else {
        return;
    };
    for format_version in [5, 6, 7] {
        for filter in filters() {
            let what = format!("format {format_version}, {filter:?}");
            let written = write(Stage::Compacted, format_version, filter);
            let verdict = java.check(written.dir.path(), &[REVERSED, MERGE]);
            assert_found(&verdict, &written.expected, &what);
            // One table per column family: each present key passes its filter and is found, and
            // about one in a hundred absent keys passes. The last absent key of a column family is
            // after the end of its table.
            let families = u64::try_from(written.expected.families.len()).unwrap();
            assert_eq!(verdict.true_positive, verdict.gets, "{what}");
            assert!(verdict.useful <= verdict.gets, "{what}");
            let passed = verdict.gets - verdict.useful - families;
            assert!(
                passed * 40 < verdict.gets,
                "{what}: {passed} of {} absent keys pass",
                verdict.gets
            );
        }
    }
}

/// Applies the writes of `Check.java`'s `write` to a column family.
fn written_by_java(expected: &mut Expected, family: &str) {
    let entries = expected.family(family);
    for index in (0..100).chain(200..300) {
        entries.insert(
            format!("java{index:05}").into_bytes(),
            format!("value {index}").into_bytes(),
        );
    }
    for index in 250..400 {
        entries.insert(format!("java{index:05}").into_bytes(), b"again".to_vec());
    }
    entries.remove(&b"java00000"[..]);
}

#[test]
fn rocksdb_11_8_writes_into_our_directory_and_we_into_its() {
    let Some(java) = Java::find() else {
        return;
    };
    for (stage, format_version) in [(Stage::Log, 6), (Stage::Mixed, 7), (Stage::Compacted, 5)] {
        let filter = FilterPolicy::bloom(10.0);
        let mut written = write(stage, format_version, filter);
        let names: Vec<String> = written.expected.families.keys().cloned().collect();
        for round in 0..2 {
            java.write(written.dir.path(), &[REVERSED, MERGE]);
            for name in &names {
                written_by_java(&mut written.expected, name);
            }
            let what = format!("{stage:?}, round {round}");
            let db = open(written.dir.path(), format_version, filter);
            written.expected.check(&db, &what);
            for family in db.cf_handles() {
                fill(&family, 3 + round, &mut written.expected);
            }
            written.expected.check(&db, &what);
            if round == 0 {
                db.compact_all(&CompactRangeOptions::new()).unwrap();
                written.expected.check(&db, &what);
            }
        }
        let verdict = java.check(written.dir.path(), &[REVERSED, MERGE]);
        assert_found(
            &verdict,
            &written.expected,
            &format!("{stage:?} at the end"),
        );
    }
}

/// A table written without a link to its blob files makes RocksDB remove them.
#[test]
fn a_directory_with_blob_files_is_read_and_written_by_both() {
    let Some(java) = Java::find() else {
        return;
    };
    let options = creating();
    let mut builder = Db::builder(&options);
    builder.column_family("large");
    let dir = ScratchDir::new();
    let open = |builder: &DbBuilder| builder.open(dir.path());
    let db = open(&builder).unwrap();
    db.put("small", "value").unwrap();
    db.close().unwrap();
    drop(db);
    let settings = ["blobs=large"];
    java.write(dir.path(), &settings);
    let blobs = dir.all("blob");
    assert!(!blobs.is_empty());
    let repaired = Db::repair(&options, dir.path()).unwrap();
    assert_eq!(repaired.families, ["default", "large"]);
    assert_eq!(dir.all("blob"), blobs);

    let db = open(builder.clone().read_only()).unwrap();
    assert_eq!(db.get("small").unwrap().as_deref(), Some(&b"value"[..]));
    assert_eq!(
        db.get("java00001").unwrap().as_deref(),
        Some(&b"value 1"[..])
    );
    let large = db.cf_handle("large").unwrap();
    let mut written = Expected::default();
    written_by_java(&mut written, "large");
    let written = written.family("large").clone();
    for (key, value) in &written {
        let found = large.get(key).unwrap();
        assert_eq!(found.as_deref(), Some(&value[..]), "{}", key.escape_ascii());
    }
    let keys: Vec<&Vec<u8>> = written.keys().collect();
    let answers = large.multi_get(&keys);
    assert!(
        answers
            .iter()
            .zip(written.values())
            .all(|(found, value)| { found.unwrap() == Some(&value[..]) })
    );
    let entries = |mode| {
        let entries = large.iterator(mode).map(Result::unwrap);
        entries.map(|(key, value)| (key.to_vec(), value.to_vec()))
    };
    assert!(entries(IteratorMode::Start).eq(written.clone()));
    assert!(entries(IteratorMode::End).eq(written.clone().into_iter().rev()));
    let mut cached = ReadOptions::new();
    cached.set_read_tier(ReadTier::BlockCache);
    let error = large.get_opt("java00001", &cached).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incomplete, "{error}");
    drop((large, db));

    let (own, copies) = (ScratchDir::new(), ScratchDir::new());
    let mut following = Db::builder(&options);
    following.column_family("large").secondary(own.path());
    let secondary = open(&following).unwrap();
    let copy = copies.join("checkpoint");
    secondary.create_checkpoint(&copy).unwrap();
    drop(secondary);

    for directory in [&copy, &dir.path().to_owned()] {
        let db = builder.open(directory).unwrap();
        let large = db.cf_handle("large").unwrap();
        large.compact_range(..).unwrap();
        let files = large.property_value("koeldb.blob.files").unwrap().unwrap();
        assert!(files.lines().all(|line| line.ends_with("exact")), "{files}");
        let found = large.iterator(IteratorMode::Start).map(Result::unwrap);
        let found = found.map(|(key, value)| (key.to_vec(), value.to_vec()));
        assert!(found.eq(written.clone()));
        drop(large);
        db.close().unwrap();
    }

    let mut expected = Expected::default();
    expected
        .family("default")
        .insert(b"small".to_vec(), b"value".to_vec());
    for family in ["default", "large"] {
        written_by_java(&mut expected, family);
    }
    assert_found(&java.check(dir.path(), &settings), &expected, "after us");
}

/// A column family name reused with another comparator.
///
/// RocksDB checks comparators for every column family of that name in a MANIFEST, and rejects its
/// own MANIFEST in this case; a MANIFEST of KoelDB has only one of them.
#[test]
fn a_family_name_used_again_with_another_comparator_opens_in_both() {
    let Some(java) = Java::find() else {
        return;
    };
    let settings = ["comparator:again=reverse"];
    let mut reversed = ColumnFamilyOptions::new();
    reversed.set_comparator(ReverseBytewiseComparator);
    let mut options = Options::new();
    options.create_if_missing(true);
    let dir = ScratchDir::new();
    let db = Db::open(&options, dir.path()).unwrap();
    for order in [ColumnFamilyOptions::new(), reversed.clone()] {
        if let Some(family) = db.cf_handle("again") {
            db.drop_cf(&family).unwrap();
        }
        let family = db.create_cf("again", &order).unwrap();
        family.put("a", "value").unwrap();
        family.put("b", "value").unwrap();
        family.flush().unwrap();
    }
    db.close().unwrap();
    drop(db);
    let mut expected = Expected::default().with_reversed(&["again"]);
    let entries = expected.family("again");
    entries.insert(b"a".to_vec(), b"value".to_vec());
    entries.insert(b"b".to_vec(), b"value".to_vec());
    assert_found(&java.check(dir.path(), &settings), &expected, "ours");

    java.reuse(dir.path(), &settings);
    let refused = java.attempt("check", dir.path(), &settings);
    assert!(
        refused.text.contains("does not match existing comparator"),
        "{}",
        refused.text
    );
    let mut builder = Db::builder(&options);
    builder.column_family(ColumnFamilyDescriptor::new("again", reversed));
    let db = builder.open(dir.path()).unwrap();
    let entries = expected.family("again");
    entries.clear();
    entries.insert(b"java".to_vec(), b"second".to_vec());
    entries.insert(b"javb".to_vec(), b"second".to_vec());
    expected.check(&db, "RocksDB's");
    db.close().unwrap();
    drop(db);
    assert_found(&java.check(dir.path(), &settings), &expected, "RocksDB's");
}

#[test]
fn rocksdb_11_8_reads_its_own_directories_after_us() {
    let Some(java) = Java::find() else {
        return;
    };
    let cases: [(&str, &[&str]); 7] = [
        ("leveled-many-files", &[]),
        ("range-deletion-split", &["comparator:beta=reverse"]),
        ("universal", &[]),
        ("deletes-ranges-single", &[]),
        ("merge-uint64add-wal", &["merge=uint64add"]),
        ("reverse-comparator", &["comparator:default=reverse"]),
        ("column-families", &["comparator:beta=reverse"]),
    ];
    for (name, settings) in cases {
        let dir = ScratchDir::copy_of(&golden::golden(name));
        let mut expected = golden::expected(name);
        let db = golden::open_as_written(dir.path());
        for family in db.cf_handles() {
            family.put("from koeldb", "12345678").unwrap();
            expected
                .family(family.name())
                .insert(b"from koeldb".to_vec(), b"12345678".to_vec());
        }
        db.default_cf().flush().unwrap();
        drop(db);
        let verdict = java.check(dir.path(), settings);
        assert_found(&verdict, &expected, name);
    }
}

#[test]
fn rocksdb_11_8_reads_our_plain_tables() {
    let Some(java) = Java::find() else {
        return;
    };
    let plain = EncodingType::Plain;
    for (encoding, stores_index) in [(plain, false), (plain, true), (EncodingType::Prefix, true)] {
        let dir = ScratchDir::new();
        let mut table = PlainTableOptions::new();
        table
            .set_encoding_type(encoding)
            .set_store_index_in_file(stores_index);
        let mut options = Options::new();
        options
            .create_if_missing(true)
            .set_prefix_extractor(FixedPrefix::new(6))
            .set_plain_table_factory(&table);
        let db = Db::open(&options, dir.path()).unwrap();
        let mut expected = Expected::default();
        let entries = expected.family("default");
        for round in 0..3 {
            for index in (0..3000).step_by(round + 1) {
                let key = format!("key{:06}", index * 7).into_bytes();
                let value = format!("{round}").repeat(index % 30).into_bytes();
                db.put(&key, &value).unwrap();
                entries.insert(key, value);
            }
            for index in (round..3000).step_by(101) {
                let key = format!("key{:06}", index * 7).into_bytes();
                db.delete(&key).unwrap();
                entries.remove(&key);
            }
            db.flush().unwrap();
            if round == 1 {
                db.compact_all(&CompactRangeOptions::new()).unwrap();
            }
        }
        db.close().unwrap();
        let settings = ["table={id=PlainTable;}", "prefix=rocksdb.FixedPrefix.6"];
        let verdict = java.check(dir.path(), &settings);
        let what = format!("{encoding:?}, index stored: {stores_index}");
        assert_found(&verdict, &expected, &what);
    }
}

#[test]
fn rocksdb_7_8_is_refused_while_we_hold_the_directory() {
    let Some(ldb) = Tool::ldb() else {
        return;
    };
    let dir = ScratchDir::new();
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_block_based_table_factory(BlockBasedOptions::new().set_format_version(5));
    let db = Db::open(&options, dir.path()).unwrap();
    db.put("key", "value").unwrap();
    let db_flag = format!("--db={}", dir.path().display());
    let refused = ldb.attempt(&[&db_flag, "put", "other", "value"]);
    assert!(refused.text.contains("lock"), "{refused:?}");
    assert!(db.get("other").unwrap().is_none());
    db.close().unwrap();
    ldb.run(&[&db_flag, "put", "other", "value"]);
    let db = Db::open(&Options::new(), dir.path()).unwrap();
    assert_eq!(db.get("other").unwrap().as_deref(), Some(&b"value"[..]));
}

#[test]
fn rocksdb_11_8_and_we_exclude_each_other() {
    let Some(java) = Java::find() else {
        return;
    };
    let dir = ScratchDir::new();
    let db = Db::open(Options::new().create_if_missing(true), dir.path()).unwrap();
    db.put("key", "value").unwrap();
    let refused = java.attempt("check", dir.path(), &[]);
    assert!(
        !refused.succeeded && refused.text.contains("lock"),
        "{refused:?}"
    );
    db.close().unwrap();
    drop(db);

    let holder = java.hold(dir.path());
    let before = data_files(dir.path());
    let error = Db::open(&Options::new(), dir.path()).unwrap_err();
    assert_eq!(error.detail(), Some(ErrorDetail::LockHeld), "{error}");
    assert!(error.to_string().contains("LOCK"), "{error}");
    assert!(data_files(dir.path()) == before);
    holder.release();
    let db = Db::open(&Options::new(), dir.path()).unwrap();
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"value"[..]));
}
