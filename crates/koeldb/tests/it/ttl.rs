//! TTL databases: values with their times, expiry, merges, filters, and RocksDB's `TtlDB`.

use std::sync::Arc;
use std::time::Duration;

use koeldb::fs::{ManualClock, MemoryFileSystem};
use koeldb::{
    ColumnFamily, ColumnFamilyOptions, CompactRangeOptions, Db, Decision, Env, ErrorKind,
    IteratorMode, Options, ReadOptions, StringAppend, TransactionDbOptions, WriteBatch,
};

use crate::prelude::creating;
use crate::rocksdb::Java;
use crate::scratch::ScratchDir;
use crate::storage::{HERE, Storage};

fn compact(family: &ColumnFamily) {
    family.flush().unwrap();
    let options = CompactRangeOptions::new();
    family.compact_range_opt(.., &options).unwrap();
}

fn get(family: &ColumnFamily, key: &str) -> Option<Vec<u8>> {
    family.get(key).unwrap().map(|value| value.to_vec())
}

/// Options whose clock stands until it is moved.
fn timed() -> (Options, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new());
    let mut options = creating();
    options.set_env(&Env::new(
        Arc::new(MemoryFileSystem::new()),
        Arc::clone(&clock) as _,
    ));
    (options, clock)
}

#[test]
fn every_read_returns_the_value_without_its_time() {
    let storage = Storage::new();
    let db = Db::open_with_ttl(&storage.options(), HERE, Duration::from_secs(60)).unwrap();
    let mut batch = WriteBatch::new();
    batch.put("a", "one").put("b", "");
    batch.delete("absent");
    db.write(&batch).unwrap();
    for is_flushed in [false, true] {
        if is_flushed {
            db.flush().unwrap();
        }
        let family = db.default_cf();
        assert_eq!(get(family, "a").as_deref(), Some(&b"one"[..]));
        assert_eq!(get(family, "b").as_deref(), Some(&b""[..]));
        assert_eq!(
            db.get_with("a", &ReadOptions::new(), <[u8]>::len).unwrap(),
            Some(3)
        );
        let mut value = Vec::new();
        assert!(db.get_into("a", &ReadOptions::new(), &mut value).unwrap());
        assert_eq!(value, b"one");
        let found = db.multi_get(&["a", "b", "c"]);
        assert_eq!(found.get(0).unwrap(), Some(&b"one"[..]));
        let entries: Vec<_> = db
            .iterator(IteratorMode::Start)
            .map(Result::unwrap)
            .collect();
        assert_eq!(entries.len(), 2);
        assert_eq!(&*entries[0].1, b"one");
        let mut cursor = db.cursor();
        assert!(cursor.seek_to_last().unwrap());
        assert_eq!(cursor.entry(), Some((&b"b"[..], &b""[..])));
        assert!(cursor.prev().unwrap());
        assert_eq!(cursor.value(), Some(&b"one"[..]));
        let found = futures_lite(db.get_async("a"));
        assert_eq!(found.unwrap().as_deref(), Some(&b"one"[..]));
    }
    db.close().unwrap();
    let plain = Db::open(&storage.options(), HERE).unwrap();
    assert_eq!(plain.get("a").unwrap().unwrap().len(), 3 + 4);
    plain.put("c", [0; 9]).unwrap();
    plain.close().unwrap();
    let db = Db::open_with_ttl(&storage.options(), HERE, Duration::ZERO).unwrap();
    let error = db.get("c").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
}

/// Runs a future that waits for no device.
fn futures_lite<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    loop {
        if let std::task::Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn compactions_remove_what_has_outlived_its_family() {
    let (options, clock) = timed();
    let mut builder = Db::builder(&options);
    builder.column_family("short").column_family("for ever");
    builder
        .ttl(Duration::from_secs(100))
        .column_family_ttl("short", Duration::from_secs(10))
        .column_family_ttl("for ever", Duration::ZERO);
    let db = builder.open(HERE).unwrap();
    let created = db
        .create_cf("created", &ColumnFamilyOptions::new())
        .unwrap();
    assert_eq!(created.ttl(), Some(Duration::ZERO));
    let families = db.cf_handles();
    for family in &families {
        family.put("old", "1").unwrap();
    }
    clock.advance(Duration::from_secs(20));
    for family in &families {
        family.put("young", "2").unwrap();
        compact(family);
        let is_short = family.name() == "short";
        assert_eq!(get(family, "old").is_none(), is_short, "{}", family.name());
        assert!(get(family, "young").is_some());
    }
    clock.advance(Duration::from_secs(200));
    for family in &families {
        compact(family);
        let is_kept = ["for ever", "created"].contains(&family.name());
        assert_eq!(get(family, "young").is_some(), is_kept, "{}", family.name());
    }
    created.set_ttl(Duration::from_secs(1)).unwrap();
    assert_eq!(created.ttl(), Some(Duration::from_secs(1)));
    compact(&created);
    assert_eq!(get(&created, "young"), None);
}

#[test]
fn values_without_times_are_corrupt_to_all_reads_and_stay() {
    let (mut options, _clock) = timed();
    options.set_merge_operator(StringAppend::new(","));
    let db = Db::open(&options, HERE).unwrap();
    db.put("a", "value-2000").unwrap();
    db.put("b", "").unwrap();
    db.flush().unwrap();
    drop(db);
    let plain = options.clone();
    options.set_compaction_filter("remove", |_, _, _| Decision::Remove);
    let db = Db::open_with_ttl(&options, HERE, Duration::from_secs(3600)).unwrap();
    for round in 0..2 {
        for key in ["a", "b"] {
            let error = db.get(key).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
            let mut cursor = db.cursor();
            for error in [cursor.seek(key), cursor.seek_for_prev(key)] {
                assert_eq!(error.unwrap_err().kind(), ErrorKind::Corruption);
                assert!(!cursor.valid());
            }
        }
        let error = db.range(..).next().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{round}: {error}");
        compact(db.default_cf());
    }
    drop(db);
    let db = Db::open(&plain, HERE).unwrap();
    let family = db.default_cf();
    assert_eq!(get(family, "a").as_deref(), Some(&b"value-2000"[..]));
    assert_eq!(get(family, "b").as_deref(), Some(&b""[..]));
}

#[test]
fn merge_operators_and_filters_of_the_user_see_values_without_times() {
    let (mut options, clock) = timed();
    options
        .set_merge_operator(StringAppend::new(","))
        .set_compaction_filter("shorten", |_, _, value| match value {
            b"keep" => Decision::Keep,
            b"drop" => Decision::Remove,
            value if value.len() > 3 => Decision::Change(value[..3].to_vec()),
            _ => Decision::Keep,
        });
    let db = Db::open_with_ttl(&options, HERE, Duration::from_secs(100)).unwrap();
    let family = db.default_cf();
    family.put("merged", "1").unwrap();
    family.merge("merged", "2").unwrap();
    family.flush().unwrap();
    family.merge("merged", "3").unwrap();
    assert_eq!(get(family, "merged").as_deref(), Some(&b"1,2,3"[..]));
    family.merge("alone", "x").unwrap();
    family.put("keep", "keep").unwrap();
    family.put("drop", "drop").unwrap();
    family.put("long", "lengthy").unwrap();
    compact(family);
    assert_eq!(get(family, "alone").as_deref(), Some(&b"x"[..]));
    assert_eq!(get(family, "keep").as_deref(), Some(&b"keep"[..]));
    assert_eq!(get(family, "drop"), None);
    assert_eq!(get(family, "long").as_deref(), Some(&b"len"[..]));
    clock.advance(Duration::from_secs(200));
    compact(family);
    assert_eq!(db.range(..).count(), 0);
}

#[test]
fn transactions_are_refused() {
    let (mut options, _clock) = timed();
    let db = Db::open_with_ttl(&options, HERE, Duration::ZERO).unwrap();
    let mut transaction = db.transaction();
    transaction.put("a", "1").unwrap();
    let error = transaction.commit().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
    let plain = Db::open(&options, "/plain").unwrap();
    let error = plain.set_ttl(Duration::ZERO).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert_eq!(plain.default_cf().ttl(), None);
    options.set_transactions(&TransactionDbOptions::new());
    let error = Db::open_with_ttl(&options, "/other", Duration::ZERO).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
}

#[test]
fn rocksdb_and_we_read_the_ttl_databases_of_each_other() {
    let Some(java) = Java::find() else { return };
    let dir = ScratchDir::new();
    let path = dir.path().display().to_string();
    java.files(&["ttl", &path, "put", "theirs", "from RocksDB"]);
    let mut options = Options::new();
    options.create_if_missing(true);
    let db = Db::open_with_ttl(&options, dir.path(), Duration::from_secs(3600)).unwrap();
    assert_eq!(
        get(db.default_cf(), "theirs").as_deref(),
        Some(&b"from RocksDB"[..])
    );
    db.put("ours", "from KoelDB").unwrap();
    compact(db.default_cf());
    db.close().unwrap();
    let found = java.files(&["ttl", &path, "get", "theirs", "ours"]);
    assert_eq!(found, "from RocksDB\nfrom KoelDB\n");
    // Old values go in both engines.
    std::thread::sleep(Duration::from_millis(2100));
    java.files(&["ttl", &path, "expire"]);
    let db = Db::open_with_ttl(&options, dir.path(), Duration::ZERO).unwrap();
    assert_eq!(db.range(..).count(), 0);
}
