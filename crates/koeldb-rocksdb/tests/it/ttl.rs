//! TTL databases: the times of writes on disk, and what compactions remove.
//!
//! A database that is opened without a time to live shows values with their times, and writes values
//! of any age. Nothing sleeps.

use std::path::Path;
use std::time::Duration;

use koeldb::fs::{Clock, SystemClock};
use rocksdb::{
    Cache, ColumnFamilyDescriptor, ColumnFamilyTtl, DB, Env, ErrorKind, IteratorMode, Options,
    ReadOptions, WriteBatch,
};

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

fn created() -> (tempfile::TempDir, Options) {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    (tempfile::tempdir().unwrap(), options)
}

fn now() -> u64 {
    SystemClock.unix_micros() / 1_000_000
}

/// `value` as a TTL database that wrote it `age` ago has it.
fn aged(value: &str, age: Duration) -> Vec<u8> {
    let time = u32::try_from(now() - age.as_secs()).unwrap();
    [value.as_bytes(), &time.to_le_bytes()].concat()
}

/// Writes "old", two hours old, and "new" to each column family.
fn write_of_two_ages(options: &Options, path: &Path, names: &[&str]) {
    let db = DB::open_cf(options, path, names).unwrap();
    for name in names {
        let family = db.cf_handle(name).unwrap();
        db.put_cf(&family, "old", aged("value", 2 * HOUR)).unwrap();
        db.put_cf(&family, "new", aged("value", Duration::ZERO))
            .unwrap();
    }
}

/// The keys that remain after a compaction.
fn remaining(db: &DB, name: &str) -> String {
    let family = db.cf_handle(name).unwrap();
    db.compact_range_cf(&family, None::<&[u8]>, None::<&[u8]>);
    let entries = db.iterator_cf(&family, IteratorMode::Start);
    let keys = entries.map(|entry| {
        let (key, value) = entry.unwrap();
        assert_eq!(&*value, b"value");
        String::from_utf8(key.into_vec()).unwrap()
    });
    keys.collect::<Vec<_>>().join(" ")
}

#[test]
fn compactions_remove_expired_values() {
    let (dir, options) = created();
    {
        let db = DB::open(&options, dir.path()).unwrap();
        db.put("old", aged("value", 2 * HOUR)).unwrap();
        db.put("new", aged("value", Duration::ZERO)).unwrap();
    }
    let db = DB::open_with_ttl(&options, dir.path(), HOUR).unwrap();
    assert_eq!(db.get("old").unwrap().unwrap(), b"value");
    db.compact_range(None::<&[u8]>, None::<&[u8]>);
    assert_eq!(db.get("old").unwrap(), None);
    assert_eq!(db.get("new").unwrap().unwrap(), b"value");
}

#[test]
fn named_column_families_and_the_default_one_have_the_time_of_the_database() {
    let (dir, options) = created();
    write_of_two_ages(&options, dir.path(), &["default", "other"]);
    let db = DB::open_cf_with_ttl(&options, dir.path(), ["other"], HOUR).unwrap();
    assert_eq!(remaining(&db, "default"), "new");
    assert_eq!(remaining(&db, "other"), "new");
}

#[test]
fn descriptors_have_their_own_times() {
    let (dir, options) = created();
    let names = ["default", "disabled", "same", "short", "long", "zero"];
    write_of_two_ages(&options, dir.path(), &names);
    let families = [
        ("default", ColumnFamilyTtl::Duration(DAY)),
        ("disabled", ColumnFamilyTtl::Disabled),
        ("same", ColumnFamilyTtl::SameAsDb),
        ("short", ColumnFamilyTtl::Duration(HOUR)),
        ("long", ColumnFamilyTtl::Duration(Duration::MAX)),
        (
            "zero",
            ColumnFamilyTtl::Duration(Duration::from_millis(999)),
        ),
    ];
    let descriptors = families
        .map(|(name, ttl)| ColumnFamilyDescriptor::new_with_ttl(name, Options::default(), ttl));
    let db = DB::open_cf_descriptors_with_ttl(&options, dir.path(), descriptors, HOUR).unwrap();
    let left = names.map(|name| remaining(&db, name));
    let both = "new old";
    assert_eq!(left, [both, both, "new", "new", both, both]);
}

/// A descriptor's time to live is for TTL databases only.
#[test]
fn other_databases_ignore_the_times_of_descriptors() {
    let (dir, options) = created();
    let ttl = ColumnFamilyTtl::Duration(HOUR);
    let family = ColumnFamilyDescriptor::new_with_ttl("default", Options::default(), ttl);
    let db = DB::open_cf_descriptors(&options, dir.path(), [family]).unwrap();
    let value = aged("value", 2 * HOUR);
    db.put("old", &value).unwrap();
    db.compact_range(None::<&[u8]>, None::<&[u8]>);
    assert_eq!(db.get("old").unwrap().unwrap(), value);
}

#[test]
fn column_families_created_later_keep_all_values() {
    let (dir, options) = created();
    {
        #[cfg_attr(
            feature = "multi-threaded-cf",
            expect(unused_mut, reason = "of SingleThreaded")
        )]
        let mut db = DB::open_with_ttl(&options, dir.path(), HOUR).unwrap();
        db.create_cf("later", &Options::default()).unwrap();
        let later = db.cf_handle("later").unwrap();
        db.put_cf(&later, "new", "value").unwrap();
        assert_eq!(remaining(&db, "later"), "new");
    }
    let families = ["default", "later"];
    let db = DB::open_cf_for_read_only(&options, dir.path(), families, false).unwrap();
    let later = db.cf_handle("later").unwrap();
    let stored = db.get_cf(&later, "new").unwrap().unwrap();
    assert_eq!(stored.len(), "value".len() + 4);
}

#[test]
fn writes_append_their_times_and_reads_cut_them_off() {
    let (dir, mut options) = created();
    options.set_merge_operator_associative("concatenate", |_, existing, operands| {
        let mut result = existing.unwrap_or_default().to_vec();
        operands.iter().for_each(|operand| result.extend(operand));
        Some(result)
    });
    let before = now();
    {
        let family = ColumnFamilyDescriptor::new("default", options.clone());
        let db = DB::open_cf_descriptors_with_ttl(&options, dir.path(), [family], HOUR).unwrap();
        let mut batch = WriteBatch::default();
        batch.put("a", "1");
        batch.merge("a", "2");
        db.write(batch).unwrap();
        db.merge("b", "3").unwrap();
        db.put("empty", "").unwrap();
        let snapshot = db.snapshot();
        for key in ["a", "b", "empty"] {
            let value: &[u8] = match key {
                "a" => b"12",
                "b" => b"3",
                _ => b"",
            };
            assert_eq!(db.get(key).unwrap().unwrap(), value);
            assert_eq!(&*db.get_pinned(key).unwrap().unwrap(), value);
            assert_eq!(
                db.multi_get([key])[0].as_ref().unwrap().as_deref(),
                Some(value)
            );
            assert_eq!(snapshot.get(key).unwrap().unwrap(), value);
            let mut raw = db.raw_iterator();
            raw.seek(key);
            assert_eq!(raw.item(), Some((key.as_bytes(), value)));
            let (may_exist, found) = db.key_may_exist_cf_opt_value(
                &db.cf_handle("default").unwrap(),
                key,
                &ReadOptions::default(),
            );
            assert!(may_exist);
            assert!(found.is_none_or(|found| found.as_ref() == value));
        }
        db.compact_range(None::<&[u8]>, None::<&[u8]>);
    }
    let db = DB::open(&options, dir.path()).unwrap();
    let stored = db.get("a").unwrap().unwrap();
    let (value, time) = stored.split_last_chunk::<4>().unwrap();
    let time = u64::from(u32::from_le_bytes(*time));
    assert_eq!(value, b"12");
    assert!((before..=now()).contains(&time), "{time}");
}

#[test]
fn a_value_too_short_for_a_time_is_an_error() {
    let (dir, options) = created();
    {
        let db = DB::open(&options, dir.path()).unwrap();
        db.put("key", "v").unwrap();
    }
    let db = DB::open_with_ttl(&options, dir.path(), HOUR).unwrap();
    let error = db.get("key").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
}

#[test]
fn an_options_file_disables_the_times_of_its_column_families() {
    let (dir, options) = created();
    write_of_two_ages(&options, dir.path(), &["default", "other"]);
    let (env, cache) = (Env::new().unwrap(), Cache::new_lru_cache(1 << 20));
    let (options, families) = Options::load_latest(dir.path(), env, false, cache).unwrap();
    let db = DB::open_cf_descriptors_with_ttl(&options, dir.path(), families, HOUR).unwrap();
    assert_eq!(remaining(&db, "default"), "new old");
    assert_eq!(remaining(&db, "other"), "new old");
}
