//! Tables without timestamps (`persist_user_defined_timestamps=false`): flushes, switching, refusals.

use std::path::Path;

use koeldb::{
    BytewiseComparator, BytewiseComparatorWithU64Ts, ColumnFamilyOptions, Db, Env, ErrorKind,
    ImportColumnFamilyOptions, Options, Result, SstFileWriter, TransactionDbOptions, WriteBatch,
};

use super::{at, get, options, read_at, scan, undate};
use crate::rocksdb::Java;
use crate::scratch::ScratchDir;

/// Options of a database whose tables have no timestamps.
fn undated(env: &Env) -> Options {
    let mut options = options(env);
    undate(&mut options);
    options
}

/// Options of a database without timestamps.
fn plain(env: &Env) -> Options {
    let mut options = options(env);
    options.set_comparator(BytewiseComparator);
    options
}

/// What a database without timestamps has, as text.
fn plain_content(db: &Db) -> Vec<String> {
    let mut cursor = db.cursor();
    let mut content = Vec::new();
    let mut valid = cursor.seek_to_first().unwrap();
    while valid {
        let (key, value) = cursor.entry().unwrap();
        content.push(format!("{}={}", key.escape_ascii(), value.escape_ascii()));
        let found = db.get(key).unwrap();
        assert_eq!(found.as_deref(), Some(value));
        valid = cursor.next().unwrap();
    }
    content
}

fn low(db: &Db) -> Option<u64> {
    let low = db.default_cf().full_history_ts_low().unwrap();
    low.map(u64::from_le_bytes)
}

#[test]
fn a_flush_leaves_timestamps_out_and_refuses_reads_of_what_it_left_out() {
    let db = Db::open(&undated(&Env::mem_env()), "/db").unwrap();
    let family = db.default_cf();
    family.put_with_ts("a", at(1), "a1").unwrap();
    family.put_with_ts("a", at(4), "a4").unwrap();
    family.put_with_ts("b", at(5), "b5").unwrap();
    assert_eq!(get(&db, "a", 3).as_deref(), Some("a1"));
    assert_eq!(low(&db), None);
    db.flush().unwrap();
    assert_eq!(low(&db), Some(6));
    let refused = db.get_opt("a", &read_at(5)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
    assert_eq!(scan(&db, &read_at(6)), ["a@0=a4", "b@0=b5"]);
    family.delete_with_ts("a", at(7)).unwrap();
    family.put_with_ts("c", at(9), "c9").unwrap();
    assert_eq!(scan(&db, &read_at(6)), ["a@0=a4", "b@0=b5"]);
    assert_eq!(scan(&db, &read_at(8)), ["b@0=b5"]);
    family.compact_range(..).unwrap();
    assert_eq!(low(&db), Some(10));
    assert_eq!(scan(&db, &read_at(10)), ["b@0=b5", "c@0=c9"]);
    // Every entry of the flush goes, and with them their timestamps.
    family.put_with_ts("d", at(20), "d").unwrap();
    family.single_delete_with_ts("d", at(21)).unwrap();
    db.flush().unwrap();
    assert_eq!(low(&db), Some(22));
}

#[test]
fn flushes_are_put_off_while_there_is_room_for_timestamps_above_the_low_mark() {
    let mut options = undated(&Env::mem_env());
    options
        .set_write_buffer_size(64 << 10)
        .set_max_write_buffer_number(4);
    let db = Db::open(&options, "/db").unwrap();
    let family = db.default_cf();
    family.increase_full_history_ts_low(at(5)).unwrap();
    let fill = |time: u64| {
        let sealed = || {
            family
                .property_int_value("rocksdb.num-immutable-mem-table")
                .unwrap()
        };
        let before = sealed();
        while sealed() == before && low(&db) < Some(time) {
            family.put_with_ts("k", at(time), [b'v'; 4096]).unwrap();
        }
    };
    fill(10);
    db.wait_for_compact(None).unwrap();
    assert_eq!(low(&db), Some(5), "the flush was not put off");
    family.increase_full_history_ts_low(at(11)).unwrap();
    db.wait_for_compact(None).unwrap();
    let sealed = family.property_int_value("rocksdb.num-immutable-mem-table");
    assert_eq!(sealed.unwrap(), Some(0), "the flush was put off too long");
    // Without room they are flushed whatever their timestamps.
    for time in 20..30 {
        fill(time);
    }
    assert!(low(&db) > Some(20));
}

#[test]
fn options_that_rocksdb_refuses_with_it_are_refused() {
    let mut options = undated(&Env::mem_env());
    let refused = |options: &Options, what: &str| {
        let error = Db::open(options, "/db").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
        assert!(
            error.message().contains("persist_user_defined_timestamps"),
            "{error}"
        );
        assert!(error.message().contains(what), "{error}");
    };
    options.set_atomic_flush(true);
    refused(&options, "atomic_flush");
    options
        .set_atomic_flush(false)
        .set_allow_concurrent_memtable_write(true);
    refused(&options, "allow_concurrent_memtable_write");
}

/// Opens the database, and closes it.
fn reopen(options: &Options, path: &Path) -> Result<()> {
    Db::open(options, path)?.close()
}

#[test]
fn timestamps_are_switched_on_and_off_only_where_tables_have_none() {
    let env = Env::mem_env();
    let path = Path::new("/db");
    let refused = |options: &Options| {
        let error = reopen(options, path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    };
    let db = Db::open(&plain(&env), path).unwrap();
    db.put("a", "1").unwrap();
    db.put("c", "1").unwrap();
    db.flush().unwrap();
    db.put("b", "2").unwrap();
    db.delete("c").unwrap();
    db.close().unwrap();
    refused(&options(&env));
    // The log has keys without timestamps.
    let db = Db::open(&undated(&env), path).unwrap();
    assert_eq!(scan(&db, &read_at(9)), ["a@0=1", "b@0=2"]);
    let family = db.default_cf();
    family.put_with_ts("a", at(10), "3").unwrap();
    family.delete_with_ts("b", at(11)).unwrap();
    assert_eq!(scan(&db, &read_at(10)), ["a@10=3", "b@0=2"]);
    db.close().unwrap();
    refused(&options(&env));
    reopen(&undated(&env), path).unwrap();
    // The log that is not flushed has keys with timestamps.
    let db = Db::open(&undated(&env), path).unwrap();
    let family = db.default_cf();
    family.put_with_ts("d", at(20), "4").unwrap();
    family.delete_range_with_ts("a", "b", at(21)).unwrap();
    db.close().unwrap();
    let db = Db::open(&plain(&env), path).unwrap();
    assert_eq!(plain_content(&db), ["d=4"]);
    db.put("e", "5").unwrap();
    db.default_cf().compact_range(..).unwrap();
    assert_eq!(plain_content(&db), ["d=4", "e=5"]);
    db.close().unwrap();
    let db = Db::open(&undated(&env), path).unwrap();
    assert_eq!(scan(&db, &read_at(30)), ["d@0=4", "e@0=5"]);
    db.close().unwrap();

    // Tables with timestamps keep them.
    let path = Path::new("/other");
    reopen(&options(&env), path).unwrap();
    for options in [undated(&env), plain(&env)] {
        let error = reopen(&options, path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
}

#[test]
fn logs_that_stay_in_use_are_read_after_a_switch() {
    let env = Env::mem_env();
    let keeping = |mut options: Options| {
        options.set_avoid_flush_during_recovery(true);
        options
    };
    let (plain, undated) = (keeping(plain(&env)), keeping(undated(&env)));
    let db = Db::open(&undated, "/db").unwrap();
    db.default_cf().put_with_ts("a", at(1), "1").unwrap();
    db.close().unwrap();
    for round in 0..3 {
        let db = Db::open(&plain, "/db").unwrap();
        assert!(plain_content(&db).starts_with(&["a=1".to_owned()]));
        db.put(format!("plain{round}"), "x").unwrap();
        db.close().unwrap();
        let db = Db::open(&undated, "/db").unwrap();
        assert_eq!(get(&db, "a", 100).as_deref(), Some("1"));
        assert_eq!(
            get(&db, &format!("plain{round}"), 100).as_deref(),
            Some("x")
        );
        let family = db.default_cf();
        family
            .put_with_ts(format!("dated{round}"), at(10 + round), "y")
            .unwrap();
        db.close().unwrap();
    }
    let db = Db::open(&plain, "/db").unwrap();
    assert_eq!(plain_content(&db).len(), 7);
}

#[test]
fn another_column_family_of_the_name_may_have_other_tables() {
    let env = Env::mem_env();
    let mut all = plain(&env);
    all.set_allow_concurrent_memtable_write(false);
    let db = Db::open(&all, "/db").unwrap();
    let mut of_family = ColumnFamilyOptions::new();
    of_family.set_comparator(BytewiseComparatorWithU64Ts);
    let mut without = of_family.clone();
    without.set_persist_user_defined_timestamps(false);
    for options in [&of_family, &without, &of_family, &without] {
        let family = db.create_cf("dated", options).unwrap();
        family.put_with_ts("k", at(3), "v").unwrap();
        family.flush().unwrap();
        let found = family.get_opt("k", &read_at(4)).unwrap();
        assert_eq!(found.as_deref(), Some(&b"v"[..]));
        db.drop_cf(&family).unwrap();
    }
    let family = db.create_cf("dated", &without).unwrap();
    family.put_with_ts("k", at(3), "v").unwrap();
    family.flush().unwrap();
    drop(family);
    db.close().unwrap();
    let open = Db::builder(&all)
        .column_family(("dated", without))
        .open("/db");
    let db = open.unwrap();
    let family = db.cf_handle("dated").unwrap();
    let found = family.get_opt("k", &read_at(4)).unwrap();
    assert_eq!(found.as_deref(), Some(&b"v"[..]));
}

/// A script of `Timestamps.java`: batches in hexadecimal, and flushes.
#[derive(Default)]
struct Script(String);

impl Script {
    fn batch(&mut self, batch: &WriteBatch) {
        let bytes = batch.data().iter();
        self.0.extend(bytes.map(|byte| format!("{byte:02x}")));
        self.0 += "\n";
    }

    /// Has RocksDB run it.
    fn run(&self, java: &Java, path: &Path, comparator: &str) {
        let script = path.with_extension("script");
        std::fs::write(&script, &self.0).unwrap();
        java.timestamps("write", path, &[comparator, script.to_str().unwrap()]);
    }
}

const PLAIN: &str = "leveldb.BytewiseComparator";
const UNDATED: &str = "leveldb.BytewiseComparator.u64ts/undated";

#[test]
fn rocksdb_and_koeldb_switch_timestamps_on_and_off_in_turns() {
    let Some(java) = Java::find() else { return };
    let dir = ScratchDir::new();
    let path = dir.path().join("db");
    let env = Env::default();
    let lender = Db::open(&options(&Env::mem_env()), "/db").unwrap();
    let family = lender.default_cf();

    let mut script = Script::default();
    script.batch(WriteBatch::new().put("a", "1").put("b", "1"));
    script.0 += "flush\n";
    script.batch(WriteBatch::new().put("c", "2").delete("b"));
    script.run(java, &path, PLAIN);

    // On by KoelDB, also for the log that RocksDB left.
    let db = Db::open(&undated(&env), &path).unwrap();
    assert_eq!(scan(&db, &read_at(5)), ["a@0=1", "c@0=2"]);
    db.default_cf().put_with_ts("a", at(6), "3").unwrap();
    db.default_cf().delete_with_ts("c", at(7)).unwrap();
    db.close().unwrap();
    let read = java.timestamps("read", &path, &[UNDATED, "7", "8"]);
    assert_eq!(read, "refused\t7\nentry\t8\ta\t3\n");

    // More by RocksDB; off by KoelDB, also for the log with timestamps.
    let mut script = Script::default();
    script.batch(WriteBatch::new().put_cf_with_ts(family, "d", at(10), "4"));
    script.0 += "flush\n";
    script.batch(WriteBatch::new().put_cf_with_ts(family, "e", at(11), "5"));
    script.batch(WriteBatch::new().delete_cf_with_ts(family, "a", at(12)));
    script.run(java, &path, UNDATED);
    let db = Db::open(&plain(&env), &path).unwrap();
    assert_eq!(plain_content(&db), ["d=4", "e=5"]);
    db.put("f", "6").unwrap();
    db.close().unwrap();
    let read = java.timestamps("read", &path, &[PLAIN, "0"]);
    assert_eq!(read, "entry\t0\td\t4\nentry\t0\te\t5\nentry\t0\tf\t6\n");

    // On by RocksDB, off by RocksDB.
    let read = java.timestamps("read", &path, &[UNDATED, "20"]);
    assert_eq!(read, "entry\t20\td\t4\nentry\t20\te\t5\nentry\t20\tf\t6\n");
    let db = Db::open(&undated(&env), &path).unwrap();
    db.default_cf().put_with_ts("g", at(30), "7").unwrap();
    db.flush().unwrap();
    db.default_cf().put_with_ts("h", at(31), "8").unwrap();
    db.close().unwrap();
    let read = java.timestamps("read", &path, &[PLAIN, "0"]);
    let expected = [("d", 4), ("e", 5), ("f", 6), ("g", 7), ("h", 8)];
    let expected = expected.map(|(key, value)| format!("entry\t0\t{key}\t{value}\n"));
    assert_eq!(read, expected.concat());
    let db = Db::open(&plain(&env), &path).unwrap();
    assert_eq!(plain_content(&db).len(), 5);
}

/// Fills a database whose tables have no timestamps; some of it is in the log only.
fn fill(db: &Db) {
    let family = db.default_cf();
    family.put_with_ts("a", at(1), "1").unwrap();
    family.put_with_ts("b", at(2), "2").unwrap();
    family.delete_range_with_ts("x", "z", at(3)).unwrap();
    db.flush().unwrap();
    family.put_with_ts("a", at(5), "5").unwrap();
    family.delete_with_ts("b", at(6)).unwrap();
}

#[test]
fn copies_and_other_readers_have_the_same_versions() {
    let dir = ScratchDir::new();
    let env = Env::default();
    let all = undated(&env);
    let db = Db::open(&all, dir.join("db")).unwrap();
    fill(&db);
    let is_same = |db: &Db| {
        assert_eq!(low(db), Some(4));
        assert_eq!(scan(db, &read_at(4)), ["a@0=1", "b@0=2"]);
        assert_eq!(scan(db, &read_at(5)), ["a@5=5", "b@0=2"]);
        assert_eq!(scan(db, &read_at(6)), ["a@5=5"]);
        assert_eq!(get(db, "a", 4).as_deref(), Some("1"));
    };
    is_same(&db);
    is_same(&Db::builder(&all).read_only().open(dir.join("db")).unwrap());
    let secondary = Db::open_as_secondary(&all, dir.join("db"), dir.join("second")).unwrap();
    is_same(&secondary);
    // A checkpoint of a secondary flushes what it has in memory.
    secondary
        .create_checkpoint(dir.join("of-secondary"))
        .unwrap();
    let copy = Db::open(&all, dir.join("of-secondary")).unwrap();
    assert_eq!(low(&copy), Some(7));
    assert_eq!(scan(&copy, &read_at(7)), ["a@0=5"]);
    db.create_checkpoint(dir.join("copy")).unwrap();
    let mut keeping = all.clone();
    keeping.set_avoid_flush_during_recovery(true);
    is_same(&Db::open(&keeping, dir.join("copy")).unwrap());

    db.flush().unwrap();
    secondary.try_catch_up_with_primary().unwrap();
    assert_eq!(scan(&secondary, &read_at(7)), ["a@0=5"]);
    assert_eq!(low(&secondary), Some(7));
}

#[test]
fn a_repair_keeps_tables_without_timestamps() {
    for is_lost in [false, true] {
        let dir = ScratchDir::new();
        let env = Env::default();
        let path = dir.join("db");
        let db = Db::open(&undated(&env), &path).unwrap();
        fill(&db);
        drop(db);
        if is_lost {
            for entry in std::fs::read_dir(&path).unwrap() {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap().to_str().unwrap();
                if name == "CURRENT" || name.starts_with("MANIFEST") {
                    std::fs::remove_file(&path).unwrap();
                }
            }
        }
        Db::repair(&undated(&env), &path).unwrap();
        let db = Db::open(&undated(&env), &path).unwrap();
        assert_eq!(scan(&db, &read_at(10)), ["a@0=5"]);
        assert_eq!(low(&db), Some(7));
        db.put_opt("a", "x", &koeldb::WriteOptions::new())
            .unwrap_err();
        db.close().unwrap();
        // Switched off by a repair.
        Db::repair(&plain(&env), &path).unwrap();
        let db = Db::open(&plain(&env), &path).unwrap();
        assert_eq!(plain_content(&db), ["a=5"]);
        db.close().unwrap();
        // And on.
        Db::repair(&undated(&env), &path).unwrap();
        let db = Db::open(&undated(&env), &path).unwrap();
        assert_eq!(scan(&db, &read_at(10)), ["a@0=5"]);
    }
}

#[test]
fn only_tables_without_timestamps_are_ingested_and_imported() {
    let dir = ScratchDir::new();
    let env = Env::default();
    let without = undated(&env);
    let db = Db::open(&without, dir.join("db")).unwrap();
    let write = |name: &str, options: &Options, time: u64| -> Result<std::path::PathBuf> {
        let path = dir.join(name);
        let mut writer = SstFileWriter::create(options.cf_options(), &path)?;
        match options.get_comparator().timestamp_bytes() > 0 {
            true => writer.put_with_ts(name, at(time), "v")?,
            false => writer.put(name, "v")?,
        }
        writer.delete_range_with_ts("x", "y", at(0)).ok();
        writer.finish()?;
        Ok(path)
    };
    let error = write("1.sst", &without, 3).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    let own = write("1.sst", &without, 0).unwrap();
    let older = write("2.sst", &plain(&env), 0).unwrap();
    let dated = write("3.sst", &options(&env), 0).unwrap();
    db.ingest_external_file(&[&own]).unwrap();
    db.ingest_external_file(&[&older]).unwrap();
    let error = db.ingest_external_file(&[&dated]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    let expected = ["1.sst@0=v", "2.sst@0=v"];
    assert_eq!(scan(&db, &read_at(9)), expected);
    let export = db.default_cf().export(dir.join("export")).unwrap();
    let mut of_family = ColumnFamilyOptions::new();
    of_family.set_comparator(BytewiseComparatorWithU64Ts);
    let how = ImportColumnFamilyOptions::new();
    let import = |name: &str, options: &ColumnFamilyOptions| {
        let exports = std::slice::from_ref(&export);
        db.create_column_family_with_import(name, options, exports, &how)
    };
    let error = import("dated", &of_family).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    of_family.set_persist_user_defined_timestamps(false);
    let family = import("imported", &of_family).unwrap();
    let found = family.get_opt("2.sst", &read_at(1)).unwrap();
    assert_eq!(found.as_deref(), Some(&b"v"[..]));
    drop(family);
    db.default_cf().compact_range(..).unwrap();
    assert_eq!(scan(&db, &read_at(9)), expected);
    db.close().unwrap();

    // Tables without timestamps are those of a database without timestamps, too.
    let other = Db::open(&plain(&env), dir.join("plain")).unwrap();
    other.ingest_external_file(&[&own]).unwrap();
    assert_eq!(plain_content(&other), ["1.sst=v"]);
    let other = Db::open(&options(&env), dir.join("dated")).unwrap();
    let error = other.ingest_external_file(&[&own]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
}

#[test]
fn prepared_transactions_are_decided_after_a_switch() {
    let dir = ScratchDir::new();
    let env = Env::default();
    let with_transactions = |mut options: Options| {
        options.set_transactions(&TransactionDbOptions::new());
        options
    };
    let (plain, undated) = (
        with_transactions(plain(&env)),
        with_transactions(undated(&env)),
    );
    let prepare = |db: &Db, name: &str| {
        let mut transaction = db.transaction();
        transaction.put(name, name).unwrap();
        transaction.prepare(name).unwrap()
    };
    let open = |options: &Options| Db::open(options, dir.join("db")).unwrap();
    let db = open(&plain);
    prepare(&db, "a").commit().unwrap();
    drop(prepare(&db, "b"));
    drop(prepare(&db, "c"));
    drop(db);

    let db = open(&undated);
    assert_eq!(scan(&db, &read_at(1)), ["a@0=a"]);
    let b = db.prepared_transaction("b").unwrap();
    b.set_commit_timestamp(5).unwrap();
    b.commit().unwrap();
    assert_eq!(scan(&db, &read_at(4)), ["a@0=a"]);
    assert_eq!(scan(&db, &read_at(5)), ["a@0=a", "b@5=b"]);
    let d = prepare(&db, "d");
    d.set_commit_timestamp(6).unwrap();
    d.commit().unwrap();
    drop(prepare(&db, "e"));
    drop((b, d, db));

    let db = open(&plain);
    assert_eq!(plain_content(&db), ["a=a", "b=b", "d=d"]);
    for name in ["c", "e"] {
        db.prepared_transaction(name).unwrap().commit().unwrap();
    }
    assert_eq!(plain_content(&db), ["a=a", "b=b", "c=c", "d=d", "e=e"]);
}

#[test]
fn timestamps_are_not_switched_while_values_are_in_blob_files() {
    let env = Env::mem_env();
    let with_blobs = |mut options: Options| {
        options.set_enable_blob_files(true).set_min_blob_size(4);
        options
    };
    let (plain, undated) = (with_blobs(plain(&env)), with_blobs(undated(&env)));
    for (path, first, then) in [("/1", &plain, &undated), ("/2", &undated, &plain)] {
        let db = Db::open(first, path).unwrap();
        let family = db.default_cf();
        match family.full_history_ts_low() {
            Ok(_) => family.put_with_ts("key", at(1), "long value").unwrap(),
            Err(_) => family.put("key", "long value").unwrap(),
        }
        db.flush().unwrap();
        db.close().unwrap();
        let error = reopen(then, Path::new(path)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
        assert!(error.message().contains("blob files"), "{error}");
    }
}
