//! Directories written by RocksDB (`golden/README.md`): opened, read in every way, written and
//! reread.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use koeldb::{
    ColumnFamily, ColumnFamilyDescriptor, CompactRangeOptions, Compression, ConfigOptions, Db,
    DbBuilder, DbPath, ErrorKind, IteratorMode, Options, ReadOptions,
};

use crate::expected::Expected;
use crate::prepared_transactions;
use crate::scratch::{ScratchDir, data_files, files};

pub(crate) fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../golden")
        .join(name)
}

/// Returns the expected contents of a directory, with reversed column families.
pub(crate) fn expected(name: &str) -> Expected {
    let reversed: &[&str] = match name {
        "reverse-comparator" => &["default"],
        "column-families" | "range-deletion-split" => &["beta"],
        _ => &[],
    };
    Expected::read(&golden(&format!("{name}.expected.tsv"))).with_reversed(reversed)
}

/// The directories of the tables of `paths`, within it.
const FAST: &str = "fast";
const SLOW: &str = "slow";

/// A copy of a golden directory, with its directories of tables.
pub(crate) fn copy_of(name: &str) -> ScratchDir {
    let dir = ScratchDir::copy_of(&golden(name));
    for inner in [FAST, SLOW].map(|inner| golden(name).join(inner)) {
        if inner.is_dir() {
            let copy = dir.join(inner.file_name().unwrap());
            std::fs::create_dir(&copy).unwrap();
            for (name, bytes) in files(&inner) {
                std::fs::write(copy.join(name), bytes).unwrap();
            }
        }
    }
    dir
}

/// Opens a directory with its OPTIONS file.
pub(crate) fn open_as_written(dir: &Path) -> Db {
    builder_as_written(dir)
        .open(dir)
        .unwrap_or_else(|error| panic!("{}: {error}", dir.display()))
}

/// Checks that an untrusted open validates every table and changes nothing.
fn is_read_untrusted(dir: &Path, expected: &Expected, when: &str) {
    let before = files(dir);
    let mut builder = builder_as_written(dir);
    let db = builder
        .untrusted()
        .open(dir)
        .unwrap_or_else(|error| panic!("{when}: {error}"));
    expected.check(&db, &format!("{when}, untrusted"));
    let refused = db.put("key", "value").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotSupported, "{refused}");
    db.close().unwrap();
    drop(db);
    assert!(files(dir) == before, "{when}: something was written");
}

fn builder_as_written(dir: &Path) -> DbBuilder {
    let loaded = Options::load_latest(dir, &ConfigOptions::new()).unwrap();
    assert!(loaded.ignored.is_empty(), "{:?}", loaded.ignored);
    let mut options = loaded.options.clone();
    // The files are as old as they are: nothing may go because of that.
    options.set_ttl(Duration::ZERO);
    // No OPTIONS file has the directories of the tables.
    if dir.join(FAST).is_dir() {
        options.set_db_paths([
            DbPath::new(dir.join(FAST), 20_000),
            DbPath::new(dir.join(SLOW), 1 << 30),
        ]);
    }
    let mut builder = Db::builder(&options);
    for (name, family) in &loaded.column_families {
        if name != "default" {
            builder.column_family(ColumnFamilyDescriptor::new(name, family.clone()));
        }
    }
    builder
}

/// Puts new keys between the old ones, overwrites some, deletes some, one by one and in ranges.
fn change(family: &ColumnFamily, expected: &mut Expected) {
    let reversed = expected.reversed.iter().any(|name| name == family.name());
    let entries = expected.family(family.name());
    let keys: Vec<Vec<u8>> = entries.keys().cloned().collect();
    for (index, key) in keys.iter().enumerate() {
        match index % 9 {
            2 => {
                let value = format!("overwritten {index}").into_bytes();
                family.put(key, &value).unwrap();
                entries.insert(key.clone(), value);
            }
            4 => {
                family.delete(key).unwrap();
                entries.remove(key);
            }
            6 => {
                let new_key = [key, &b"/new"[..]].concat();
                let value = format!("new {index} ").repeat(index % 40).into_bytes();
                family.put(&new_key, &value).unwrap();
                entries.insert(new_key, value);
            }
            _ => {}
        }
    }
    for pair in keys.chunks_exact(300) {
        // Both ends excluded or included according to the order of the column family.
        let (from, to) = if reversed {
            (&pair[140], &pair[120])
        } else {
            (&pair[120], &pair[140])
        };
        family.delete_range(from, to).unwrap();
        entries.retain(|key, _| {
            let inside = if reversed {
                key > to && key <= from
            } else {
                key >= from && key < to
            };
            !inside
        });
    }
}

/// Whether this build has the codec of a directory; the other codecs are in every tested build.
pub(crate) fn is_readable(name: &str) -> bool {
    let has_zstd = [
        "blob-zstd",
        "block-v5",
        "block-v7",
        "block-zstd-dictionary",
        "wal-zstd",
    ]
    .contains(&name);
    !has_zstd || Compression::Zstd.is_available()
}

/// Checks the failure to open a directory without its codec.
fn is_refused_for_its_codec(name: &str) {
    let dir = ScratchDir::copy_of(&golden(name));
    let before = data_files(dir.path());
    let error = match Db::open(&Options::new(), dir.path()) {
        Err(error) => error,
        Ok(db) => db.range(..).find_map(Result::err).expect("the scan fails"),
    };
    assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
    assert!(error.to_string().contains("feature `zstd`"), "{error}");
    if name.starts_with("wal") {
        assert!(data_files(dir.path()) == before, "{name} was changed");
    }
}

/// The whole life of one directory.
fn reads_and_goes_on(name: &str) {
    if !is_readable(name) {
        is_refused_for_its_codec(name);
        return;
    }
    let dir = copy_of(name);
    let mut expected = expected(name);
    is_read_untrusted(dir.path(), &expected, name);

    let db = open_as_written(dir.path());
    expected.check(&db, name);
    db.close().unwrap();
    drop(db);

    let db = open_as_written(dir.path());
    expected.check(&db, &format!("{name} opened again"));
    for family in db.cf_handles() {
        change(&family, &mut expected);
    }
    expected.check(&db, &format!("{name} changed"));
    db.flush().unwrap();
    expected.check(&db, &format!("{name} flushed"));
    db.compact_all(&CompactRangeOptions::new()).unwrap();
    expected.check(&db, &format!("{name} compacted"));
    db.verify_checksums().unwrap();
    for family in db.cf_handles() {
        change(&family, &mut expected);
    }
    drop(db);

    let db = open_as_written(dir.path());
    expected.check(&db, &format!("{name} changed and reopened"));
    db.close().unwrap();
    drop(db);
    is_read_untrusted(dir.path(), &expected, &format!("{name} changed"));
}

macro_rules! golden_tests {
    ($($test:ident = $name:literal;)*) => {
        $(
            #[test]
            fn $test() {
                reads_and_goes_on($name);
            }
        )*

        /// The directories that are read and written.
        const READ: &[&str] = &[$($name),*];
    };
}

golden_tests! {
    atomic_flush_killed = "atomic-flush-killed";
    blob_lz4 = "blob-lz4";
    blob_none = "blob-none";
    blob_snappy = "blob-snappy";
    blob_zstd = "blob-zstd";
    embedded_blobs = "embedded-blobs";
    entities_blobs = "entities-blobs";
    entities_merged = "entities-merged";
    paths = "paths";
    block_v2 = "block-v2";
    block_v3 = "block-v3";
    block_v4 = "block-v4";
    block_v5 = "block-v5";
    block_v6 = "block-v6";
    block_v7 = "block-v7";
    block_partitioned = "block-partitioned";
    block_first_key_and_data_hash = "block-first-key-and-data-hash";
    block_uniform_index = "block-uniform-index";
    block_separated_kv = "block-separated-kv";
    block_zstd_dictionary = "block-zstd-dictionary";
    block_hash_index_prefix_filter = "block-hash-index-prefix-filter";
    deletes_ranges_single = "deletes-ranges-single";
    merge_stringappend = "merge-stringappend";
    merge_uint64add_wal = "merge-uint64add-wal";
    wal_only = "wal-only";
    wal_zstd = "wal-zstd";
    wal_recycled = "wal-recycled";
    leveled_many_files = "leveled-many-files";
    range_deletion_split = "range-deletion-split";
    universal = "universal";
    fifo = "fifo";
    reverse_comparator = "reverse-comparator";
    column_families = "column-families";
    cuckoo_identity = "cuckoo-identity";
    cuckoo_l0 = "cuckoo-l0";
    cuckoo_last_level = "cuckoo-last-level";
    cuckoo_module_hash = "cuckoo-module-hash";
    cuckoo_power_of_two_hash = "cuckoo-power-of-two-hash";
    plain_fixed_stored_index = "plain-fixed-stored-index";
    plain_plain = "plain-plain";
    plain_prefix = "plain-prefix";
}

#[test]
fn every_golden_directory_is_read() {
    let mut named = READ.to_vec();
    named.extend(prepared_transactions::GOLDEN);
    named.push("timestamps-collected");
    named.sort_unstable();
    let mut there: Vec<String> = std::fs::read_dir(golden(""))
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_type().unwrap().is_dir())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    there.sort_unstable();
    assert_eq!(named, there);
}

#[test]
fn format_and_filter_are_read_from_the_files_not_the_options() {
    for name in [
        "block-v2",
        "block-v4",
        "block-v6",
        "block-v7",
        "block-partitioned",
        "wal-only",
        "wal-zstd",
    ]
    .into_iter()
    .filter(|name| is_readable(name))
    {
        let dir = ScratchDir::copy_of(&golden(name));
        let db = Db::open(&Options::new(), dir.path()).unwrap();
        expected(name).check(&db, name);
    }
}

#[test]
fn a_read_only_open_leaves_the_directory_alone() {
    for name in ["block-v6", "wal-only", "wal-recycled", "leveled-many-files"] {
        let dir = ScratchDir::copy_of(&golden(name));
        let before = data_files(dir.path());
        let db = Db::builder(&Options::new())
            .read_only()
            .open(dir.path())
            .unwrap();
        expected(name).check(&db, name);
        assert!(db.put("key", "value").is_err());
        db.close().unwrap();
        assert!(data_files(dir.path()) == before, "{name} changed");
    }
}

#[test]
fn options_of_the_writer_come_back_from_its_file() {
    let loaded = Options::load_latest(golden("merge-stringappend"), &ConfigOptions::new()).unwrap();
    let operator = loaded
        .options
        .get_merge_operator()
        .map(|operator| operator.name().to_owned());
    assert_eq!(operator.as_deref(), Some("StringAppendOperator"));
    let loaded = Options::load_latest(golden("column-families"), &ConfigOptions::new()).unwrap();
    let names: Vec<&str> = loaded
        .column_families
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(names, ["default", "alpha", "beta"]);
    let beta = loaded.column_family("beta").unwrap();
    assert_eq!(
        beta.get_comparator().name(),
        "rocksdb.ReverseBytewiseComparator"
    );
}

/// A value as `Golden.java` writes it.
fn value(index: usize, round: usize) -> Vec<u8> {
    format!("value {index} of {round}, ")
        .repeat(1 + index % 12)
        .into_bytes()
}

pub(crate) type Row = BTreeMap<Vec<u8>, Vec<u8>>;

/// The entities that `Golden.java` writes.
pub(crate) fn rows() -> BTreeMap<Vec<u8>, Row> {
    let key = |index: usize| format!("key{index:04}").into_bytes();
    let mut rows: BTreeMap<Vec<u8>, Row> = BTreeMap::new();
    for round in 0..3 {
        for index in (round..120).step_by(1 + round) {
            let mut row = Row::new();
            if index % 5 == 4 || index % 3 != 0 {
                row.insert(Vec::new(), value(index, round));
            }
            if index % 5 != 4 {
                row.insert(b"large".to_vec(), value(index + 7, round));
                row.insert(b"round".to_vec(), round.to_string().into_bytes());
            }
            rows.insert(key(index), row);
        }
        for index in (3..120).step_by(4) {
            let row = rows.entry(key(index)).or_default();
            let operand = format!("operand {round}").into_bytes();
            // The operator appends to the default column of an entity, empty if it has none.
            if row.is_empty() {
                row.insert(Vec::new(), operand);
            } else {
                let value = row.entry(Vec::new()).or_default();
                value.extend([&b","[..], &operand].concat());
            }
        }
        for index in (5..120).step_by(40) {
            rows.remove(&key(index));
        }
    }
    rows
}

#[test]
fn columns_of_entities_are_read() {
    for name in ["entities-merged", "entities-blobs"] {
        let dir = copy_of(name);
        let db = open_as_written(dir.path());
        for place in ["as written", "compacted"] {
            let wanted = rows();
            for (key, row) in &wanted {
                let found = db.get_entity(key).unwrap().unwrap();
                let found: Row = found.columns().to_vec().into_iter().collect();
                assert_eq!(found, *row, "{name} {place}: {}", key.escape_ascii());
            }
            assert_eq!(db.iterator(IteratorMode::Start).count(), wanted.len());
            db.compact_all(&CompactRangeOptions::new()).unwrap();
        }
    }
}

/// The entries at each time as `Timestamps.java` prints them.
pub(crate) fn at_times(db: &Db, times: &[u64]) -> String {
    let mut found = String::new();
    for time in times {
        let mut options = ReadOptions::new();
        options.set_timestamp(time.to_le_bytes());
        let mut cursor = db.default_cf().cursor_opt(&options);
        let mut step = match cursor.seek_to_first() {
            Ok(step) => step,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
                writeln!(found, "refused\t{time}").unwrap();
                continue;
            }
        };
        while step {
            let (key, value) = cursor.entry().unwrap();
            assert_eq!(db.get_opt(key, &options).unwrap().as_deref(), Some(value));
            let (key, value) = (String::from_utf8_lossy(key), String::from_utf8_lossy(value));
            writeln!(found, "entry\t{time}\t{key}\t{value}").unwrap();
            step = cursor.next().unwrap();
        }
    }
    found
}

#[test]
fn versions_collected_to_a_time_are_read_at_every_later_time() {
    let text = std::fs::read_to_string(golden("timestamps-collected.expected.tsv")).unwrap();
    let dir = copy_of("timestamps-collected");
    for place in ["as written", "compacted"] {
        let db = open_as_written(dir.path());
        let family = db.default_cf();
        let low = family.full_history_ts_low().unwrap();
        assert_eq!(low, Some(6_u64.to_le_bytes()), "{place}");
        let found = at_times(&db, &[0, 5, 6, 7, 8, 9, 10, 11, 12]);
        assert_eq!(found, text, "{place}");
        family.compact_range(..).unwrap();
    }
}
