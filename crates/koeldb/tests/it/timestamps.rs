//! User-defined timestamps: reads at each of them, what is refused, and random histories against a
//! plain model.

mod files;
mod model;
mod transactions;
mod undated;

use koeldb::{
    BytewiseComparatorWithU64Ts, ColumnFamilyOptions, CompactRangeOptions, Db, Env, ErrorKind,
    Options, ReadOptions, ReverseBytewiseComparatorWithU64Ts, SstFileWriter, SstFileWriterOptions,
    StringAppend, Timestamp, WriteBatch,
};

/// The stored form of a timestamp.
fn at(time: u64) -> Timestamp {
    time.to_le_bytes()
}

/// Options of a read at a timestamp.
fn read_at(time: u64) -> ReadOptions {
    let mut options = ReadOptions::new();
    options.set_timestamp(at(time));
    options
}

fn options(env: &Env) -> Options {
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_env(env)
        .set_comparator(BytewiseComparatorWithU64Ts);
    options.set_merge_operator(StringAppend::default());
    options
}

/// Lets timestamps be in memtables and logs only.
fn undate(options: &mut Options) {
    options
        .set_persist_user_defined_timestamps(false)
        .set_allow_concurrent_memtable_write(false);
}

fn open() -> Db {
    Db::open(&options(&Env::mem_env()), "/db").unwrap()
}

fn get(db: &Db, key: &str, time: u64) -> Option<String> {
    let found = db.get_opt(key, &read_at(time)).unwrap();
    let many = db.default_cf().multi_get_opt(&[key], &read_at(time));
    assert_eq!(many.get(0).unwrap(), found.as_deref());
    found.map(|value| String::from_utf8(value.to_vec()).unwrap())
}

/// The entries that a cursor returns forward and backward, as text.
fn scan(db: &Db, options: &ReadOptions) -> Vec<String> {
    let mut cursor = db.default_cf().cursor_opt(options);
    let shown = |cursor: &koeldb::DbCursor| {
        let (key, value) = cursor.entry().unwrap();
        let time = u64::from_le_bytes(cursor.timestamp().unwrap());
        let key = match options.get_iter_start_ts() {
            Some(_) => &key[..key.len() - 8],
            None => key,
        };
        let mark = if cursor.is_deletion() { "-" } else { "=" };
        format!(
            "{}@{time}{mark}{}",
            key.escape_ascii(),
            value.escape_ascii()
        )
    };
    let mut forward = Vec::new();
    let mut found = cursor.seek_to_first().unwrap();
    while found {
        forward.push(shown(&cursor));
        found = cursor.next().unwrap();
    }
    let mut backward = Vec::new();
    let mut found = cursor.seek_to_last().unwrap();
    while found {
        backward.push(shown(&cursor));
        found = cursor.prev().unwrap();
    }
    backward.reverse();
    assert_eq!(forward, backward);
    forward
}

/// Calls `check` on the memtable, on a table of level 0, and on one of the last level.
fn in_all_places(db: &Db, check: impl Fn(&Db)) {
    check(db);
    db.flush().unwrap();
    check(db);
    db.default_cf().compact_range(..).unwrap();
    check(db);
}

#[test]
fn a_read_sees_the_newest_version_up_to_its_timestamp() {
    let db = open();
    let family = db.default_cf();
    family.put_with_ts("a", at(1), "a1").unwrap();
    family.put_with_ts("b", at(2), "b2").unwrap();
    family.put_with_ts("a", at(300), "a300").unwrap();
    family.delete_with_ts("b", at(5)).unwrap();
    family.put_with_ts("b", at(7), "b7").unwrap();
    family.merge_with_ts("m", at(3), "x").unwrap();
    family.merge_with_ts("m", at(6), "y").unwrap();
    in_all_places(&db, |db| {
        assert_eq!(get(db, "a", 0), None);
        assert_eq!(get(db, "a", 1).as_deref(), Some("a1"));
        assert_eq!(get(db, "a", 299).as_deref(), Some("a1"));
        assert_eq!(get(db, "a", 300).as_deref(), Some("a300"));
        assert_eq!(get(db, "b", 4).as_deref(), Some("b2"));
        assert_eq!(get(db, "b", 6), None);
        assert_eq!(get(db, "b", u64::MAX).as_deref(), Some("b7"));
        assert_eq!(get(db, "m", 4).as_deref(), Some("x"));
        assert_eq!(get(db, "m", 6).as_deref(), Some("x,y"));
        assert_eq!(scan(db, &read_at(2)), ["a@1=a1", "b@2=b2"]);
        assert_eq!(scan(db, &read_at(6)), ["a@1=a1", "m@6=x,y"]);
        assert_eq!(scan(db, &read_at(400)), ["a@300=a300", "b@7=b7", "m@6=x,y"]);
    });
}

#[test]
fn a_scan_from_a_first_timestamp_returns_each_version_and_deletion() {
    let db = open();
    let family = db.default_cf();
    for time in 1..6 {
        family
            .put_with_ts("a", at(time), format!("a{time}"))
            .unwrap();
    }
    family.delete_with_ts("a", at(6)).unwrap();
    family.put_with_ts("b", at(4), "b4").unwrap();
    in_all_places(&db, |db| {
        let mut options = read_at(6);
        options.set_iter_start_ts(at(3));
        let all = ["a@6-", "a@5=a5", "a@4=a4", "a@3=a3", "b@4=b4"];
        assert_eq!(scan(db, &options), all);
        options.set_timestamp(at(4));
        assert_eq!(scan(db, &options), ["a@4=a4", "a@3=a3", "b@4=b4"]);
        let mut cursor = db.default_cf().cursor_opt(&options);
        assert!(cursor.seek("b").unwrap());
        let internal = cursor.internal_key().unwrap();
        assert_eq!(&internal[..9], &[b"b", &at(4)[..]].concat());
        assert_eq!(internal[9], 1);
        assert!(cursor.prev().unwrap());
        assert_eq!(cursor.timestamp(), Some(at(3)));
        assert!(cursor.seek_for_prev("a").unwrap());
        assert_eq!(cursor.timestamp(), Some(at(3)));
        options.set_iterate_upper_bound(b"b".to_vec());
        assert_eq!(scan(db, &options), ["a@4=a4", "a@3=a3"]);
    });
}

#[test]
fn a_range_deletion_hides_what_is_older_from_its_timestamp_on() {
    let db = open();
    let family = db.default_cf();
    for key in ["a", "b", "c"] {
        family.put_with_ts(key, at(1), key).unwrap();
    }
    family.delete_range_with_ts("a", "c", at(5)).unwrap();
    family.put_with_ts("b", at(7), "new").unwrap();
    in_all_places(&db, |db| {
        assert_eq!(get(db, "a", 4).as_deref(), Some("a"));
        assert_eq!(get(db, "a", 5), None);
        assert_eq!(get(db, "b", 6), None);
        assert_eq!(get(db, "b", 7).as_deref(), Some("new"));
        assert_eq!(get(db, "c", 9).as_deref(), Some("c"));
        assert_eq!(scan(db, &read_at(4)), ["a@1=a", "b@1=b", "c@1=c"]);
        assert_eq!(scan(db, &read_at(9)), ["b@7=new", "c@1=c"]);
    });
}

#[test]
fn the_order_can_be_reversed() {
    let mut options = options(&Env::mem_env());
    options.set_comparator(ReverseBytewiseComparatorWithU64Ts);
    let db = Db::open(&options, "/db").unwrap();
    for (key, time) in [("a", 1), ("b", 2), ("a", 3)] {
        db.default_cf().put_with_ts(key, at(time), "v").unwrap();
    }
    in_all_places(&db, |db| {
        assert_eq!(scan(db, &read_at(2)), ["b@2=v", "a@1=v"]);
        assert_eq!(scan(db, &read_at(3)), ["b@2=v", "a@3=v"]);
    });
}

#[test]
fn reads_and_writes_name_a_timestamp_exactly_where_keys_have_them() {
    let env = Env::mem_env();
    let db = Db::open(&options(&env), "/db").unwrap();
    let plain = db.create_cf("plain", &ColumnFamilyOptions::new()).unwrap();
    let dated = db.default_cf();
    let refused = |outcome: Result<(), koeldb::Error>| {
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.message().contains("timestamp"), "{error}");
    };
    refused(dated.get("k").map(|_| ()));
    refused(plain.get_opt("k", &read_at(1)).map(|_| ()));
    refused(dated.cursor().seek_to_first().map(|_| ()));
    refused(plain.cursor_opt(&read_at(1)).seek_to_first().map(|_| ()));
    refused(dated.put("key-without", "v"));
    refused(dated.delete("key-without"));
    refused(plain.put_with_ts("k", at(1), "v"));
    refused(plain.increase_full_history_ts_low(at(1)));
    let mut start_only = ReadOptions::new();
    start_only.set_iter_start_ts(at(1));
    refused(plain.cursor_opt(&start_only).seek_to_first().map(|_| ()));
    let mut batch = WriteBatch::new();
    batch.put("key-without", "v");
    refused(db.write(&batch));

    // An operation of a handle can get its timestamp later.
    let mut batch = WriteBatch::new();
    batch
        .put_cf(dated, "k", "later")
        .put_cf(&plain, "k", "plain");
    batch.delete_range_cf(dated, "x", "y");
    batch.put_cf_with_ts(dated, "z", at(2), "given");
    refused(db.write(&batch));
    batch.update_timestamps(at(9)).unwrap();
    db.write(&batch).unwrap();
    assert_eq!(get(&db, "k", 8), None);
    assert_eq!(get(&db, "k", 9).as_deref(), Some("later"));
    assert_eq!(get(&db, "z", 2).as_deref(), Some("given"));
    assert_eq!(plain.get("k").unwrap().as_deref(), Some(&b"plain"[..]));

    let error = dated.clip("a", "b").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
    let error = db.transaction().put_cf(dated, "k", "v").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
}

#[test]
fn history_before_the_low_mark_is_collapsed_and_reads_of_it_fail() {
    let env = Env::mem_env();
    let open = || Db::open(&options(&env), "/db").unwrap();
    let db = open();
    let family = db.default_cf();
    for time in 1..=10 {
        family
            .put_with_ts("kept", at(time), format!("{time}"))
            .unwrap();
        family
            .put_with_ts("gone", at(time), format!("{time}"))
            .unwrap();
    }
    family.delete_with_ts("gone", at(11)).unwrap();
    assert_eq!(family.full_history_ts_low().unwrap(), None);
    family.increase_full_history_ts_low(at(6)).unwrap();
    let error = family.increase_full_history_ts_low(at(5)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let error = db.get_opt("kept", &read_at(5)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    let entries = |db: &Db| {
        db.default_cf()
            .property_int_value("rocksdb.estimate-num-keys")
    };
    db.flush().unwrap();
    // Of "kept": 10, 9, 8, 7, 6, and 5 for a read at 6; of "gone" the deletion, too.
    assert_eq!(scan(&db, &read_at(6)), ["gone@6=6", "kept@6=6"]);
    let mut all = read_at(u64::MAX);
    all.set_iter_start_ts(at(0));
    assert_eq!(scan(&db, &all).len(), 13);
    drop(db);

    let db = open();
    let family = db.default_cf();
    assert_eq!(family.full_history_ts_low().unwrap(), Some(at(6)));
    let mut compact = CompactRangeOptions::new();
    compact
        .set_full_history_ts_low(at(20))
        .set_bottommost_level_compaction(koeldb::BottommostLevelCompaction::Force);
    family.compact_range_opt(.., &compact).unwrap();
    assert_eq!(scan(&db, &all_of(20)), ["kept@0=10"]);
    assert_eq!(entries(&db).unwrap(), Some(1));
    let error = family.compact_range_opt("a".."b", &compact).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert_eq!(get(&db, "kept", 20).as_deref(), Some("10"));
}

/// Options of a scan of all versions up to a timestamp.
fn all_of(time: u64) -> ReadOptions {
    let mut options = read_at(time);
    options.set_iter_start_ts(at(0));
    options
}

#[test]
fn files_with_timestamps_are_written_and_ingested() {
    let env = Env::mem_env();
    let db = Db::open(&options(&env), "/db").unwrap();
    let mut how = SstFileWriterOptions::new();
    how.set_env(&env);
    let (options, path) = (db.default_cf().options(), "/a.sst");
    let mut writer = SstFileWriter::create_opt(&options, path, &how).unwrap();
    assert!(writer.put("a", "v").is_err());
    writer.put_with_ts("a", at(5), "new").unwrap();
    writer.put_with_ts("a", at(4), "mid").unwrap();
    assert!(writer.put_with_ts("a", at(6), "wrong").is_err());
    writer.delete_with_ts("b", at(3)).unwrap();
    writer.delete_range_with_ts("c", "e", at(2)).unwrap();
    writer.finish().unwrap();
    db.ingest_external_file(&[path]).unwrap();
    for _ in 0..2 {
        assert_eq!(get(&db, "a", 3), None);
        assert_eq!(get(&db, "a", 4).as_deref(), Some("mid"));
        assert_eq!(get(&db, "a", 9).as_deref(), Some("new"));
        db.default_cf().compact_range(..).unwrap();
    }
}
