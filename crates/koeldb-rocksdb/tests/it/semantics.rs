//! Behavior of the original that programs meet, one test for each.

use rocksdb::{
    Cache, ColumnFamilyDescriptor, CompactionDecision, DB, DBCompactionStyle, DBCompressionType,
    Env, FlushOptions, IngestExternalFileOptions, IteratorMode, MultiThreaded, Options,
    PrefixRange, ReadOptions, SliceTransform, SstFileWriter, TransactionDB, TransactionDBOptions,
    WriteBatch, WriteBatchIterator, WriteOptions, properties,
};

fn opened(names: &[&str]) -> (tempfile::TempDir, DB) {
    let dir = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    let db = DB::open_cf(&options, dir.path(), names).unwrap();
    (dir, db)
}

#[test]
fn flush_is_of_the_default_column_family_only() {
    let (_dir, db) = opened(&["default", "other"]);
    let other = db.cf_handle("other").unwrap();
    db.put("key", "value").unwrap();
    db.put_cf(&other, "key", "value").unwrap();
    db.flush().unwrap();
    let files = db.live_files().unwrap();
    assert_eq!(files.len(), 1);
    assert_eq!(files[0].column_family_name, "default");
    assert_eq!((files[0].num_entries, files[0].level), (1, 0));
    db.flush_cf(&other).unwrap();
    assert_eq!(db.get_column_family_metadata_cf(&other).file_count, 1);
}

#[test]
fn open_cf_gives_default_options_and_descriptors_give_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options.set_merge_operator_associative("last", |_, _, operands| {
        operands.iter().last().map(<[u8]>::to_vec)
    });
    let db = DB::open_cf(&options, dir.path(), ["cf"]).unwrap();
    {
        let cf = db.cf_handle("cf").unwrap();
        assert!(db.merge_cf(&cf, "key", "operand").is_err());
        assert!(db.merge("key", "operand").is_err());
    }
    drop(db);
    let families = [
        ColumnFamilyDescriptor::new("cf", options.clone()),
        ColumnFamilyDescriptor::new("default", Options::default()),
    ];
    let db = DB::open_cf_descriptors(&options, dir.path(), families).unwrap();
    let cf = db.cf_handle("cf").unwrap();
    db.merge_cf(&cf, "key", "operand").unwrap();
    assert_eq!(db.get_cf(&cf, "key").unwrap().unwrap(), b"operand");
}

#[test]
fn objects_of_the_program_go_by_their_own_names() {
    let names = [
        "max",
        "put",
        "uint64add",
        "stringappend",
        "StringAppendOperator",
        "MaxOperator",
        "bytesxor",
        "fixed:2",
        "rocksdb.FixedPrefix.2",
        "RemoveEmptyValueCompactionFilter",
        "a\nb #;{}",
    ];
    for name in names {
        let dir = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_merge_operator_associative(name, |_, old, operands| {
            let operands = operands.iter().flat_map(|operand| [b"+", operand].concat());
            Some([old.unwrap_or(b"0"), &operands.collect::<Vec<u8>>()].concat())
        });
        options.set_prefix_extractor(SliceTransform::create(name, |key| &key[..1], None));
        options.set_comparator(name, Box::new(|a, b| b.cmp(a)));
        options.set_compaction_filter(name, |_, _, _| CompactionDecision::Keep);
        for round in 1..=3 {
            let db = DB::open(&options, dir.path()).unwrap_or_else(|error| panic!("{error}"));
            db.merge("a", "x").unwrap();
            db.merge("b", "x").unwrap();
            db.compact_range::<&[u8], &[u8]>(None, None);
            let merged = format!("0{}", "+x".repeat(round));
            let entries: Vec<_> = db
                .iterator(IteratorMode::Start)
                .map(Result::unwrap)
                .collect();
            let keys: Vec<&[u8]> = entries.iter().map(|(key, _)| &**key).collect();
            assert_eq!(keys, [b"b", b"a"], "{name}");
            assert_eq!(&*entries[0].1, merged.as_bytes(), "{name}");
        }
    }
}

#[test]
fn dropping_a_database_frees_its_directory_although_handles_live_on() {
    let dir = tempfile::tempdir().unwrap();
    let mut updates = {
        let db = DB::open_default(dir.path()).unwrap();
        db.put("key", "value").unwrap();
        db.get_updates_since(0).unwrap()
    };
    let db = DB::open_default(dir.path()).unwrap();
    assert_eq!(db.get("key").unwrap().unwrap(), b"value");
    let first = updates.next().unwrap().unwrap();
    assert_eq!(first.0, 1);
    assert!(updates.next().is_none_or(|update| update.is_err()));
}

#[test]
fn updates_begin_after_the_batch_at_the_number() {
    struct Keys(Vec<Vec<u8>>);
    impl WriteBatchIterator for Keys {
        fn put(&mut self, key: &[u8], _: &[u8]) {
            self.0.push(key.to_vec());
        }

        fn delete(&mut self, key: &[u8]) {
            self.0.push(key.to_vec());
        }
    }
    let (_dir, db) = opened(&[]);
    for key in ["a", "b", "c"] {
        db.put(key, "").unwrap();
    }
    let mut keys = Keys(Vec::new());
    for update in db.get_updates_since(1).unwrap() {
        update.unwrap().1.iterate(&mut keys);
    }
    assert_eq!(keys.0, [b"b", b"c"]);
}

#[test]
fn files_in_a_range_are_dropped_and_those_across_its_ends_stay() {
    let (_dir, db) = opened(&["default"]);
    // On a slow machine the compactions of a database at rest would join the tables.
    db.set_options(&[("disable_auto_compactions", "true")])
        .unwrap();
    for table in [["a", "c"], ["d", "f"], ["g", "i"]] {
        for key in table {
            db.put(key, "value").unwrap();
        }
        db.flush().unwrap();
        db.compact_range(Some(table[0]), Some(table[1]));
    }
    assert!(db.live_files().unwrap().iter().all(|file| file.level > 0));
    db.delete_file_in_range("b", "f").unwrap();
    let keys: Vec<_> = db
        .iterator(IteratorMode::Start)
        .map(|item| item.unwrap().0)
        .collect();
    assert_eq!(
        keys,
        [
            b"a"[..].into(),
            b"c"[..].into(),
            b"g"[..].into(),
            b"i"[..].into()
        ]
    );
    db.delete_file_in_range("a", "z").unwrap();
    assert_eq!(db.live_files().unwrap().len(), 0);
}

#[test]
fn set_options_is_all_or_nothing() {
    let (_dir, db) = opened(&[]);
    let options = [("write_buffer_size", "1234567"), ("no_such_option", "1")];
    assert!(db.set_options(&options).is_err());
    assert!(db.set_options(&[]).is_err());
    let stays = |db: &DB| DB::list_cf(&Options::default(), db.path()).unwrap();
    assert_eq!(stays(&db), ["default"]);
    db.set_options(&options[..1]).unwrap();
}

#[test]
fn a_text_is_no_number_and_an_unknown_property_is_none() {
    let (_dir, db) = opened(&[]);
    assert!(db.property_int_value(properties::STATS).is_err());
    assert_eq!(db.property_value("rocksdb.no-such-property").unwrap(), None);
    let keys = db
        .property_int_value(properties::ESTIMATE_NUM_KEYS)
        .unwrap();
    assert_eq!(keys, Some(0));
    let level = properties::num_files_at_level(0);
    assert_eq!(db.property_value(&level).unwrap().unwrap(), "0");
}

#[test]
fn options_may_be_dropped_before_their_database() {
    let dir = tempfile::tempdir().unwrap();
    let db = {
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_comparator("backwards", Box::new(|a, b| b.cmp(a)));
        options.set_compaction_filter("odd", {
            let mut count = 0;
            move |_, _, _| {
                count += 1;
                match count % 2 {
                    0 => rocksdb::CompactionDecision::Remove,
                    _ => rocksdb::CompactionDecision::Keep,
                }
            }
        });
        DB::open(&options, dir.path()).unwrap()
    };
    for key in ["1", "2", "3", "4"] {
        db.put(key, "value").unwrap();
    }
    let first = db.iterator(IteratorMode::Start).next().unwrap().unwrap();
    assert_eq!(&*first.0, b"4");
    db.compact_range(None::<&str>, None::<&str>);
    assert_eq!(db.iterator(IteratorMode::Start).count(), 2);
}

#[test]
fn ranges_of_prefixes_are_exact_where_prefix_iterators_are_loose() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    options.create_if_missing(true);
    let db = DB::open(&options, dir.path()).unwrap();
    for key in ["a1", "a2", "b1"] {
        db.put(key, "").unwrap();
    }
    assert_eq!(db.prefix_iterator("a").count(), 3, "there is no extractor");
    let mut read = ReadOptions::default();
    read.set_iterate_range(PrefixRange("a"));
    assert_eq!(db.iterator_opt(IteratorMode::Start, read).count(), 2);
    drop(db);
    options.set_prefix_extractor(SliceTransform::create_fixed_prefix(1));
    let db = DB::open(&options, dir.path()).unwrap();
    assert_eq!(db.prefix_iterator("a").count(), 2);
}

#[test]
fn a_tailing_iterator_shows_later_writes() {
    let (_dir, db) = opened(&[]);
    db.put("a", "1").unwrap();
    let mut read = ReadOptions::default();
    read.set_tailing(true);
    let mut iterator = db.raw_iterator_opt(read);
    iterator.seek_to_first();
    db.put("b", "2").unwrap();
    iterator.next();
    assert_eq!(iterator.item(), Some((&b"b"[..], &b"2"[..])));
    iterator.next();
    assert!(!iterator.valid());
    iterator.status().unwrap();
}

#[test]
fn a_refreshed_iterator_leaves_its_snapshot() {
    let (_dir, db) = opened(&[]);
    let snapshot = db.snapshot();
    db.put("a", "1").unwrap();
    let mut iterator = snapshot.raw_iterator();
    iterator.seek_to_first();
    assert!(!iterator.valid());
    iterator.refresh().unwrap();
    iterator.seek_to_first();
    assert_eq!(iterator.key(), Some(&b"a"[..]));
    assert_eq!(iterator.timestamp(), Some(&b""[..]));
}

#[test]
fn batches_keep_their_order_and_reject_foreign_bytes_as_they_are_written() {
    let (_dir, db) = opened(&[]);
    let mut batch = WriteBatch::default();
    batch.put("a", "1");
    batch.delete_range("a", "b");
    batch.put("b", "2");
    let copy = WriteBatch::from_data(batch.data());
    assert_eq!(
        (copy.len(), copy.size_in_bytes()),
        (3, batch.size_in_bytes())
    );
    db.write(copy).unwrap();
    assert_eq!(db.get("a").unwrap(), None);
    assert_eq!(db.get("b").unwrap().unwrap(), b"2");
    assert!(db.write(WriteBatch::from_data(b"no batch")).is_err());
}

#[test]
fn keys_of_several_families_are_read_at_one_moment_in_their_order() {
    let (_dir, db) = opened(&["x", "y"]);
    let (x, y) = (db.cf_handle("x").unwrap(), db.cf_handle("y").unwrap());
    db.put_cf(&x, "1", "x1").unwrap();
    db.put_cf(&y, "2", "y2").unwrap();
    let keys = [(&y, "2"), (&x, "1"), (&y, "1"), (&x, "2")];
    let values: Vec<_> = db
        .multi_get_cf(keys)
        .into_iter()
        .map(Result::unwrap)
        .collect();
    let expected = [Some(b"y2".to_vec()), Some(b"x1".to_vec()), None, None];
    assert_eq!(values, expected);
}

#[test]
fn a_prepared_transaction_waits_for_the_next_open() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    options.create_if_missing(true);
    let locks = TransactionDBOptions::default();
    let open = || TransactionDB::<MultiThreaded>::open(&options, &locks, dir.path()).unwrap();
    {
        let db = open();
        let transaction = db.transaction();
        transaction.put("key", "value").unwrap();
        assert!(transaction.prepare().is_err(), "it has no name");
        transaction.set_name(b"koel").unwrap();
        transaction.prepare().unwrap();
        transaction.put("key", "not prepared").unwrap();
    }
    let db = open();
    assert_eq!(db.get("key").unwrap(), None);
    let mut prepared = db.prepared_transactions();
    assert_eq!(prepared.len(), 1);
    assert_eq!(prepared[0].get_name().unwrap(), b"koel");
    prepared.pop().unwrap().commit().unwrap();
    assert_eq!(db.get("key").unwrap().unwrap(), b"value");
}

#[test]
fn families_come_and_go_through_a_shared_reference() {
    let dir = tempfile::tempdir().unwrap();
    let db = rocksdb::DBWithThreadMode::<MultiThreaded>::open_default(dir.path()).unwrap();
    std::thread::scope(|scope| {
        for name in ["a", "b", "c"] {
            let db = &db;
            scope.spawn(move || {
                db.create_cf(name, &Options::default()).unwrap();
                let cf = db.cf_handle(name).unwrap();
                db.put_cf(&cf, "key", name).unwrap();
                db.drop_cf(name).unwrap();
                assert_eq!(db.get_cf(&cf, "key").unwrap().unwrap(), name.as_bytes());
                assert!(db.cf_handle(name).is_none());
            });
        }
    });
    assert!(db.drop_cf("a").is_err());
}

#[test]
#[should_panic(expected = "Lz4 is not supported for WAL compression")]
fn only_zstd_compresses_the_log() {
    Options::default().set_wal_compression_type(DBCompressionType::Lz4);
}

#[test]
fn log_has_the_options_of_tables_as_rocksdb_writes_them() {
    let (dir, db) = opened(&[]);
    drop(db);
    let text = std::fs::read_to_string(dir.path().join("LOG")).unwrap();
    for line in [
        "cache_index_and_filter_blocks: 0\n",
        "data_block_index_type: 0\n",
        "data_block_hash_table_util_ratio: 0.750000\n",
    ] {
        assert!(text.contains(line), "{line} is not in {text}");
    }
}

#[test]
fn a_secondary_follows_its_primary_on_request() {
    let (dir, db) = opened(&["cf"]);
    let second = tempfile::tempdir().unwrap();
    let cf = db.cf_handle("cf").unwrap();
    db.put_cf(&cf, "key", "1").unwrap();
    let options = Options::default();
    let (own, path) = (second.path(), dir.path());
    let secondary = DB::open_cf_as_secondary(&options, path, own, ["cf"]).unwrap();
    let seen = || {
        secondary
            .get_cf(&secondary.cf_handle("cf").unwrap(), "key")
            .unwrap()
    };
    assert_eq!(seen().unwrap(), b"1");
    db.put_cf(&cf, "key", "2").unwrap();
    assert_eq!(seen().unwrap(), b"1");
    secondary.try_catch_up_with_primary().unwrap();
    assert_eq!(seen().unwrap(), b"2");
    assert!(secondary.put("key", "3").is_err());
    assert!(db.try_catch_up_with_primary().is_err());
}

#[test]
fn updates_after_the_latest_flush_need_no_older_log() {
    let (_dir, db) = opened(&[]);
    db.put("a", "").unwrap();
    db.put("b", "").unwrap();
    db.flush().unwrap();
    let latest = db.latest_sequence_number();
    db.put("c", "").unwrap();
    let mut updates = db.get_updates_since(latest).unwrap();
    assert_eq!(updates.next().unwrap().unwrap().0, latest + 1);
    assert!(updates.next().is_none());
}

#[test]
fn a_cancellation_flushes_what_no_log_has() {
    let (_dir, db) = opened(&[]);
    db.put("key", "logged").unwrap();
    db.cancel_all_background_work(true);
    assert_eq!(db.live_files().unwrap().len(), 0);
    let mut unlogged = rocksdb::WriteOptions::default();
    unlogged.disable_wal(true);
    db.put_opt("key", "unlogged", &unlogged).unwrap();
    db.cancel_all_background_work(false);
    assert_eq!(db.live_files().unwrap().len(), 1);
}

#[test]
fn tables_and_options_are_files_of_the_environment() {
    let env = Env::mem_env().unwrap();
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_env(&env);
    let db = DB::open(&options, "/memory/db").unwrap();
    // The second table replaces the first.
    for key in ["first", "second"] {
        let mut writer = SstFileWriter::create(&options);
        writer.open("/memory/table.sst").unwrap();
        writer.put(key, "value").unwrap();
        writer.finish().unwrap();
    }
    assert!(!std::path::Path::new("/memory").exists());
    db.ingest_external_file(vec!["/memory/table.sst"]).unwrap();
    assert_eq!(db.get("first").unwrap(), None);
    assert_eq!(db.get("second").unwrap().unwrap(), b"value");
    drop(db);
    let cache = Cache::new_lru_cache(1 << 20);
    let (mut options, families) =
        Options::load_latest("/memory/db", env.clone(), false, cache).unwrap();
    options.set_env(&env);
    let db = DB::open_cf_descriptors(&options, "/memory/db", families).unwrap();
    assert_eq!(db.get("second").unwrap().unwrap(), b"value");
}

#[test]
fn families_without_a_log_are_flushed_as_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options.set_atomic_flush(true);
    let mut unlogged = WriteOptions::new();
    unlogged.disable_wal(true);
    {
        let db = DB::open_cf(&options, dir.path(), ["a", "b"]).unwrap();
        let (a, b) = (db.cf_handle("a").unwrap(), db.cf_handle("b").unwrap());
        db.put_cf_opt(&a, "key", "1", &unlogged).unwrap();
        db.put_cf_opt(&b, "key", "2", &unlogged).unwrap();
        let mut flush = FlushOptions::default();
        flush.set_wait(true);
        db.flush_cfs_opt(&[&a, &b], &flush).unwrap();
        assert_eq!(db.live_files().unwrap().len(), 2);
    }
    let db = DB::open_cf(&options, dir.path(), ["a", "b"]).unwrap();
    for (name, value) in [("a", b"1"), ("b", b"2")] {
        let cf = db.cf_handle(name).unwrap();
        assert_eq!(db.get_cf(&cf, "key").unwrap().unwrap(), value);
    }
}

#[test]
fn tables_are_ingested_below_the_data() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_compaction_style(DBCompactionStyle::Universal);
    options.set_allow_ingest_behind(true);
    let db = DB::open(&options, dir.path().join("db")).unwrap();
    db.put("a", "new").unwrap();
    db.delete("b").unwrap();
    let path = dir.path().join("file");
    let mut writer = SstFileWriter::create(&options);
    writer.open(&path).unwrap();
    for key in ["a", "b", "c"] {
        writer.put(key, "old").unwrap();
    }
    writer.finish().unwrap();
    let mut ingestion = IngestExternalFileOptions::default();
    ingestion.set_ingest_behind(true);
    db.ingest_external_file_opts(&ingestion, vec![&path])
        .unwrap();
    db.compact_range(None::<&[u8]>, None::<&[u8]>);
    assert_eq!(db.get("a").unwrap().unwrap(), b"new");
    assert_eq!(db.get("b").unwrap(), None);
    assert_eq!(db.get("c").unwrap().unwrap(), b"old");
}

#[test]
fn tables_lie_in_the_directories_of_the_options() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let path = |name: &str, bytes| rocksdb::DBPath::new(at(name), bytes).unwrap();
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options.set_db_paths(&[path("fast", 1), path("slow", 0)]);
    let mut own = Options::default();
    own.set_cf_paths(&[path("own", 1 << 30)]);
    let open = || {
        let own = ColumnFamilyDescriptor::new("own", own.clone());
        DB::open_cf_descriptors(&options, at("db"), [own]).unwrap()
    };
    let tables = |name: &str| {
        let entries = std::fs::read_dir(at(name)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name());
        names
            .filter(|name| name.to_string_lossy().ends_with(".sst"))
            .count()
    };
    let db = open();
    db.put("key", "value").unwrap();
    db.flush().unwrap();
    let family = db.cf_handle("own").unwrap();
    db.put_cf(&family, "key", "own").unwrap();
    db.flush_cf(&family).unwrap();
    assert_eq!((tables("fast"), tables("own"), tables("db")), (1, 1, 0));
    drop(db);
    let db = open();
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"value"[..]));
    let family = db.cf_handle("own").unwrap();
    assert_eq!(
        db.get_cf(&family, "key").unwrap().as_deref(),
        Some(&b"own"[..])
    );
    drop(db);
    DB::destroy(&options, at("db")).unwrap();
    assert!(!at("fast").exists() && !at("db").exists());
}
