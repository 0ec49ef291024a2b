//! The public API: handles, batches, snapshots, cursors and iterators, as documented in `Db`.

use std::ops::Bound;

use koeldb::{
    ColumnFamily, ColumnFamilyOptions, CompactRangeOptions, ConfigOptions, Db, DbCursor,
    DbIterator, Decision, Direction, Error, ErrorKind, IteratorMode, Options, PinnedSlice,
    PinnedSlices, PrefixRange, ReadOptions, ReverseBytewiseComparator, Snapshot, StringAppend,
    WriteBatch, WriteOptions, WriteOutcome,
};

use crate::expected::{Entries, Expected};
use crate::prelude::creating;
use crate::scratch::ScratchDir;

fn create(dir: &ScratchDir) -> Db {
    Db::open(Options::new().create_if_missing(true), dir.path()).unwrap()
}

fn text(entry: koeldb::Result<(PinnedSlice, PinnedSlice)>) -> String {
    let (key, value) = entry.unwrap();
    format!("{}={}", key.escape_ascii(), value.escape_ascii())
}

fn texts(entries: impl Iterator<Item = koeldb::Result<(PinnedSlice, PinnedSlice)>>) -> String {
    entries.map(text).collect::<Vec<_>>().join(" ")
}

#[test]
fn handles_are_owned_and_may_go_to_any_thread() {
    fn shared<T: Clone + Send + Sync + 'static>() {}
    fn movable<T: Send + 'static>() {}
    shared::<Db>();
    shared::<ColumnFamily>();
    shared::<Snapshot>();
    shared::<PinnedSlice>();
    shared::<Error>();
    shared::<Options>();
    shared::<ColumnFamilyOptions>();
    shared::<WriteBatch>();
    movable::<DbCursor>();
    movable::<DbIterator>();
    movable::<PinnedSlices>();
    assert_eq!(size_of::<PinnedSlice>(), 24);
    assert_eq!(size_of::<koeldb::Result<Option<PinnedSlice>>>(), 24);
    assert_eq!(size_of::<Error>(), 8);
}

#[test]
fn what_was_put_is_found_in_every_way_of_asking() {
    let dir = ScratchDir::new();
    let db = create(&dir);
    let long = "long value ".repeat(1000);
    db.put("short", "value").unwrap();
    db.put("long", &long).unwrap();
    db.put("empty", "").unwrap();
    db.put("", "the empty key").unwrap();
    for _ in 0..2 {
        let read = ReadOptions::new();
        assert_eq!(db.get("short").unwrap().as_deref(), Some(&b"value"[..]));
        assert_eq!(db.get("long").unwrap().as_deref(), Some(long.as_bytes()));
        assert_eq!(db.get("empty").unwrap().as_deref(), Some(&b""[..]));
        assert_eq!(db.get("").unwrap().as_deref(), Some(&b"the empty key"[..]));
        assert!(db.get("absent").unwrap().is_none());
        assert_eq!(
            db.get_with("long", &read, <[u8]>::len).unwrap(),
            Some(long.len())
        );
        assert_eq!(db.get_with("absent", &read, <[u8]>::len).unwrap(), None);
        let mut buffer = b"old content".to_vec();
        assert!(db.get_into("short", &read, &mut buffer).unwrap());
        assert_eq!(buffer, b"value");
        assert!(!db.get_into("absent", &read, &mut buffer).unwrap());
        assert_eq!(buffer, b"");
        assert!(db.contains_key("empty").unwrap() && !db.contains_key("absent").unwrap());
        assert!(db.key_may_exist("short"));
        // Any order, and twice the same key.
        let keys = ["short", "absent", "long", "short", ""];
        let mut values = db.multi_get(&keys);
        for _ in 0..2 {
            assert_eq!(values.len(), 5);
            assert_eq!(values.get(0).unwrap(), Some(&b"value"[..]));
            assert_eq!(values.get(1).unwrap(), None);
            assert_eq!(
                values.get_pinned(2).unwrap().as_deref(),
                Some(long.as_bytes())
            );
            assert_eq!(values.get(3).unwrap(), Some(&b"value"[..]));
            assert_eq!(values.get(4).unwrap(), Some(&b"the empty key"[..]));
            db.multi_get_into(&keys, &read, &mut values);
        }
        db.multi_get_into(&keys[..0], &read, &mut values);
        assert!(values.is_empty());
        db.flush().unwrap();
    }
}

#[test]
fn a_value_outlives_the_database_it_came_from() {
    let dir = ScratchDir::new();
    let db = create(&dir);
    let long = "pinned ".repeat(500);
    db.put("in a table", &long).unwrap();
    db.flush().unwrap();
    db.put("in the memtable", &long).unwrap();
    let values = [
        db.get("in a table").unwrap().unwrap(),
        db.get("in the memtable").unwrap().unwrap(),
    ];
    db.close().unwrap();
    drop(db);
    Db::destroy(&Options::new(), dir.path()).unwrap();
    assert!(values.iter().all(|value| **value == *long.as_bytes()));
}

#[test]
fn a_batch_takes_effect_wholly_over_all_its_families() {
    let dir = ScratchDir::new();
    let options = creating();
    let (db, [other]) = Db::open_cf(&options, dir.path(), ["other"]).unwrap();
    db.put("old", "value").unwrap();
    let mut batch = WriteBatch::new();
    batch
        .put("a", "1")
        .put_cf(&other, "a", "2")
        .delete("old")
        .put("b", "1")
        .put("b", "2");
    batch.set_save_point();
    batch.put("c", "rolled back");
    batch.rollback_to_save_point().unwrap();
    assert!(batch.rollback_to_save_point().is_err());
    assert_eq!(batch.len(), 5);
    db.write_opt(&batch, WriteOptions::new().set_sync(true))
        .unwrap();
    assert_eq!(texts(db.range(..)), "a=1 b=2");
    assert_eq!(texts(other.range(..)), "a=2");
    // The serialised form is the batch.
    let same = WriteBatch::from_data(batch.data()).unwrap();
    assert_eq!(same.data(), batch.data());
    assert!(WriteBatch::from_data(&batch.data()[..batch.size_in_bytes() - 1]).is_err());
    // An empty one changes nothing.
    let before = db.latest_sequence_number();
    db.write(&WriteBatch::new()).unwrap();
    assert_eq!(db.latest_sequence_number(), before);
    drop((db, other));
    let (db, [other]) = Db::open_cf(&Options::new(), dir.path(), ["other"]).unwrap();
    assert_eq!(texts(db.range(..)), "a=1 b=2");
    assert_eq!(texts(other.range(..)), "a=2");
}

#[test]
fn a_family_of_another_database_is_refused_and_nothing_is_written() {
    let (first, second) = (ScratchDir::new(), ScratchDir::new());
    let (db, foreign) = (create(&first), create(&second));
    let family = foreign
        .create_cf("family", &ColumnFamilyOptions::new())
        .unwrap();
    let mut batch = WriteBatch::new();
    batch.put("key", "value").put_cf(&family, "key", "value");
    let error = db.write(&batch).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert_eq!(error.write_outcome(), Some(WriteOutcome::NotApplied));
    assert!(db.get("key").unwrap().is_none());
    let snapshot = foreign.snapshot();
    let error = db.get_opt("key", &ReadOptions::at(&snapshot)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let mut cursor = db.cursor_opt(&ReadOptions::at(&snapshot));
    assert_eq!(
        cursor.seek_to_first().unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
}

#[test]
fn a_dropped_family_stays_readable_through_its_handles() {
    let dir = ScratchDir::new();
    let db = create(&dir);
    let family = db
        .create_cf("short-lived", &ColumnFamilyOptions::new())
        .unwrap();
    assert_eq!(
        db.create_cf("short-lived", &ColumnFamilyOptions::new())
            .unwrap_err()
            .kind(),
        ErrorKind::InvalidArgument
    );
    family.put("flushed", "1").unwrap();
    family.flush().unwrap();
    family.put("in memory", "2").unwrap();
    let scan = family.range(..);
    db.drop_cf(&family).unwrap();
    assert!(family.is_dropped() && db.cf_handle("short-lived").is_none());
    assert_eq!(texts(scan), "flushed=1 in memory=2");
    assert_eq!(family.get("flushed").unwrap().as_deref(), Some(&b"1"[..]));
    let error = family.put("more", "3").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ColumnFamilyDropped);
    assert_eq!(
        db.drop_cf(db.default_cf()).unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
    // The name can be reused for a new column family.
    let again = db
        .create_cf("short-lived", &ColumnFamilyOptions::new())
        .unwrap();
    assert!(again.id() > family.id() && again.get("flushed").unwrap().is_none());
    drop((family, again, db));
    assert_eq!(
        Db::list_cf(&Options::new(), dir.path()).unwrap(),
        ["default", "short-lived"]
    );
}

#[test]
fn a_snapshot_sees_nothing_of_what_comes_later() {
    let dir = ScratchDir::new();
    let db = create(&dir);
    for index in 0..200 {
        db.put(format!("key{index:03}"), "before").unwrap();
    }
    let snapshot = db.snapshot();
    let before = texts(snapshot.range(..));
    for round in 0..3 {
        for index in 0..200 {
            match (index + round) % 4 {
                0 => db.put(format!("key{index:03}"), "after").unwrap(),
                1 => db.delete(format!("key{index:03}")).unwrap(),
                2 => db.put(format!("new{index:03}"), "after").unwrap(),
                _ => {}
            }
        }
        db.delete_range("key050", "key100").unwrap();
        db.flush().unwrap();
        db.compact_all(&CompactRangeOptions::new()).unwrap();
        assert_eq!(texts(snapshot.range(..)), before);
        assert_eq!(
            snapshot.get("key060").unwrap().as_deref(),
            Some(&b"before"[..])
        );
        assert!(snapshot.get("new002").unwrap().is_none());
        assert_eq!(
            snapshot.multi_get(&["key061", "new002"]).get(0).unwrap(),
            Some(&b"before"[..])
        );
    }
    assert!(snapshot.sequence_number() < db.latest_sequence_number());
    assert!(db.get("key060").unwrap().is_none());
}

#[test]
fn a_cursor_walks_both_ways_and_stays_out_past_the_ends() {
    let dir = ScratchDir::new();
    let db = create(&dir);
    for (key, value) in [("a", "1"), ("c", "3"), ("e", "5")] {
        db.put(key, value).unwrap();
        db.flush().unwrap();
    }
    db.put("d", "4").unwrap();
    let mut cursor = db.cursor();
    assert!(cursor.entry().is_none());
    assert!(cursor.seek("b").unwrap());
    assert_eq!(cursor.entry(), Some((&b"c"[..], &b"3"[..])));
    assert!(cursor.next().unwrap());
    assert_eq!(cursor.key(), Some(&b"d"[..]));
    assert!(cursor.prev().unwrap() && cursor.prev().unwrap());
    assert_eq!(cursor.key(), Some(&b"a"[..]));
    assert!(cursor.next().unwrap());
    assert_eq!(cursor.key(), Some(&b"c"[..]));
    assert!(cursor.seek_for_prev("bb").unwrap());
    assert_eq!(cursor.key(), Some(&b"a"[..]));
    assert!(!cursor.prev().unwrap() && !cursor.next().unwrap());
    assert!(cursor.entry().is_none());
    assert!(cursor.seek_to_last().unwrap());
    assert_eq!(cursor.key(), Some(&b"e"[..]));
    assert!(!cursor.next().unwrap() && cursor.value().is_none());
    cursor.status().unwrap();
    // It sees the state of its creation until a refresh.
    db.put("b", "2").unwrap();
    assert!(cursor.seek("b").unwrap());
    assert_eq!(cursor.key(), Some(&b"c"[..]));
    cursor.refresh().unwrap();
    assert!(cursor.entry().is_none());
    assert!(cursor.seek("b").unwrap());
    assert_eq!(cursor.key(), Some(&b"b"[..]));
    // Bounds apply to every positioning call.
    cursor.set_range("b".."e");
    assert!(cursor.seek_to_last().unwrap());
    assert_eq!(cursor.key(), Some(&b"d"[..]));
    assert!(!cursor.next().unwrap());
    assert!(cursor.seek("a").unwrap());
    assert_eq!(cursor.key(), Some(&b"b"[..]));
    assert!(!cursor.prev().unwrap());
    assert!(!cursor.seek("e").unwrap() && !cursor.seek_for_prev("a").unwrap());
}

#[test]
fn ranges_are_whatever_a_caller_has() {
    let dir = ScratchDir::new();
    let db = create(&dir);
    for key in ["a", "aa", "ab", "b", "ba", "c"] {
        db.put(key, key.to_uppercase()).unwrap();
    }
    let keys = |scan: DbIterator| {
        scan.map(|entry| entry.unwrap().0.escape_ascii().to_string())
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(keys(db.range(..)), "a aa ab b ba c");
    assert_eq!(keys(db.range("aa".."ba")), "aa ab b");
    assert_eq!(keys(db.range("aa"..="ba")), "aa ab b ba");
    assert_eq!(keys(db.range("b"..)), "b ba c");
    assert_eq!(keys(db.range(.."ab")), "a aa");
    assert_eq!(keys(db.range(..=b"ab")), "a aa ab");
    assert_eq!(
        keys(db.range((Bound::Excluded("a"), Bound::Included("b")))),
        "aa ab b"
    );
    assert_eq!(keys(db.range(PrefixRange("a"))), "a aa ab");
    assert_eq!(keys(db.prefix("b")), "b ba");
    assert_eq!(keys(db.prefix("")), "a aa ab b ba c");
    assert_eq!(keys(db.range("c".."a")), "");
    assert_eq!(keys(db.iterator(IteratorMode::End)), "c ba b ab aa a");
    assert_eq!(
        keys(db.iterator(IteratorMode::From(b"ac", Direction::Forward))),
        "b ba c"
    );
    assert_eq!(
        keys(db.iterator(IteratorMode::From(b"ac", Direction::Reverse))),
        "ab aa a"
    );
    // Both ends meet without giving an entry twice.
    let mut scan = db.range(..);
    let mut ends = Vec::new();
    while let Some(front) = scan.next() {
        ends.push(text(front));
        ends.extend(scan.next_back().map(text));
    }
    assert_eq!(ends.join(" "), "a=A c=C aa=AA ba=BA ab=AB b=B");
    assert!(scan.next().is_none() && scan.next_back().is_none());
    // Options narrow the range.
    let mut options = ReadOptions::new();
    options
        .set_iterate_lower_bound(b"ab".to_vec())
        .set_iterate_upper_bound(b"c".to_vec());
    assert_eq!(keys(db.range_opt("a".."bz", &options)), "ab b ba");
}

#[test]
fn a_reverse_family_ends_where_others_begin() {
    let dir = ScratchDir::new();
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_comparator(ReverseBytewiseComparator);
    let db = Db::open(&options, dir.path()).unwrap();
    for key in ["a", "b", "c", "d"] {
        db.put(key, "").unwrap();
    }
    db.delete_range("c", "b").unwrap();
    assert_eq!(texts(db.range(..)), "d= b= a=");
    assert_eq!(texts(db.range("c".."a")), "b=");
    db.compact_all(&CompactRangeOptions::new()).unwrap();
    assert_eq!(texts(db.range(..).rev()), "a= b= d=");
    assert!(db.delete_range("b", "c").is_err());
}

#[test]
fn operands_are_joined_wherever_they_lie() {
    let dir = ScratchDir::new();
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_merge_operator(StringAppend::new(","));
    let db = Db::open(&options, dir.path()).unwrap();
    let check = |wanted: &str| {
        assert_eq!(db.get("list").unwrap().as_deref(), Some(wanted.as_bytes()));
        assert_eq!(
            db.multi_get(&["list"]).get(0).unwrap(),
            Some(wanted.as_bytes())
        );
        assert_eq!(texts(db.range(..)), format!("list={wanted}"));
        assert_eq!(texts(db.range(..).rev()), format!("list={wanted}"));
    };
    db.merge("list", "a").unwrap();
    check("a");
    db.flush().unwrap();
    db.merge("list", "b").unwrap();
    let snapshot = db.snapshot();
    check("a,b");
    db.flush().unwrap();
    db.merge("list", "c").unwrap();
    check("a,b,c");
    db.compact_all(&CompactRangeOptions::new()).unwrap();
    check("a,b,c");
    assert_eq!(snapshot.get("list").unwrap().as_deref(), Some(&b"a,b"[..]));
    db.delete("list").unwrap();
    db.merge("list", "d").unwrap();
    check("d");
    drop(snapshot);
    db.put("list", "e").unwrap();
    db.merge("list", "f").unwrap();
    db.compact_all(&CompactRangeOptions::new()).unwrap();
    check("e,f");
}

#[test]
fn without_an_operator_merges_are_refused() {
    let dir = ScratchDir::new();
    let db = create(&dir);
    let error = db.merge("key", "operand").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
    assert!(error.to_string().contains("merge_operator"), "{error}");
}

#[test]
fn after_a_close_every_handle_says_so() {
    let dir = ScratchDir::new();
    let db = create(&dir);
    db.put("key", "value").unwrap();
    let (twin, family) = (db.clone(), db.default_cf().clone());
    let (mut cursor, snapshot, mut scan) = (db.cursor(), db.snapshot(), db.range(..));
    assert!(cursor.seek_to_first().unwrap());
    db.close().unwrap();
    let closed = ErrorKind::ShutdownInProgress;
    assert_eq!(twin.put("key", "value").unwrap_err().kind(), closed);
    assert_eq!(family.get("key").unwrap_err().kind(), closed);
    assert_eq!(
        family.multi_get(&["key"]).get(0).unwrap_err().kind(),
        closed
    );
    assert_eq!(cursor.next().unwrap_err().kind(), closed);
    assert_eq!(snapshot.get("key").unwrap_err().kind(), closed);
    assert_eq!(scan.next().unwrap().unwrap_err().kind(), closed);
    assert!(scan.next().is_none());
    twin.close().unwrap();
    // The directory is free, although handles are still there.
    let again = Db::open(&Options::new(), dir.path()).unwrap();
    assert_eq!(again.get("key").unwrap().as_deref(), Some(&b"value"[..]));
}

#[test]
fn options_change_while_the_database_is_open_and_are_found_again() {
    let dir = ScratchDir::new();
    let db = create(&dir);
    let family = db.default_cf();
    family
        .set_options([
            ("write_buffer_size", "1048576"),
            ("disable_auto_compactions", "true"),
        ])
        .unwrap();
    assert_eq!(family.options().get_write_buffer_size(), 1 << 20);
    let error = family
        .set_options([("write_buffer_size", "2097152"), ("num_levels", "3")])
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(error.to_string().contains("num_levels"), "{error}");
    assert_eq!(family.options().get_write_buffer_size(), 1 << 20);
    db.set_db_options([("max_background_jobs", "3")]).unwrap();
    drop(db);
    let loaded = Options::load_latest(dir.path(), &koeldb::ConfigOptions::new()).unwrap();
    assert_eq!(loaded.options.get_write_buffer_size(), 1 << 20);
    assert_eq!(loaded.options.get_max_background_jobs(), 3);
}

#[test]
fn destroying_leaves_what_is_not_ours() {
    let dir = ScratchDir::new();
    let db = create(&dir);
    db.put("key", "value").unwrap();
    db.flush().unwrap();
    assert!(
        Db::destroy(&Options::new(), dir.path()).is_err(),
        "it is open"
    );
    drop(db);
    std::fs::write(dir.join("notes.txt"), "mine").unwrap();
    Db::destroy(&Options::new(), dir.path()).unwrap();
    assert_eq!(
        crate::scratch::files(dir.path())
            .into_keys()
            .collect::<Vec<_>>(),
        ["notes.txt"]
    );
}

#[test]
fn many_threads_write_and_each_write_is_there() {
    let dir = ScratchDir::new();
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_write_buffer_size(128 << 10);
    let db = Db::open(&options, dir.path()).unwrap();
    let (threads, writes) = (4, 1500);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let db = db.clone();
            scope.spawn(move || {
                for index in 0..writes {
                    let key = format!("{index:06}-{thread}");
                    db.put(&key, key.repeat(10)).unwrap();
                    assert_eq!(
                        db.get(&key).unwrap().map(|value| value.len()),
                        Some(key.len() * 10)
                    );
                }
            });
        }
        let db = db.clone();
        scope.spawn(move || {
            for _ in 0..20 {
                // Sorted, without repetition, whatever is flushed and compacted meanwhile.
                let keys: Vec<_> = db.range(..).map(|entry| entry.unwrap().0).collect();
                assert!(keys.is_sorted_by(|a, b| a < b));
            }
        });
    });
    let mut entries = Entries::new();
    for thread in 0..threads {
        for index in 0..writes {
            let key = format!("{index:06}-{thread}");
            entries.insert(key.clone().into_bytes(), key.repeat(10).into_bytes());
        }
    }
    let mut expected = Expected::default();
    *expected.family("default") = entries;
    expected.check(&db, "after the threads");
    drop(db);
    expected.check(&Db::open(&options, dir.path()).unwrap(), "opened again");
}

/// Uses a database when its thread ends.
struct UsesAtEnd(std::cell::RefCell<Option<Db>>);

impl Drop for UsesAtEnd {
    fn drop(&mut self) {
        let Some(db) = self.0.take() else { return };
        for family in ["zlib", "zstd"] {
            let family = db.cf_handle(family).unwrap();
            // Each of them decompresses.
            let mut options = ReadOptions::new();
            options.fill_cache(false);
            let found = family.get_opt("in a table", &options).unwrap();
            assert_eq!(found.as_deref(), Some(&[7; 5000][..]));
            assert_eq!(family.range_opt(.., &options).count(), 1);
            let mut found = family.multi_get_opt(&["in a table"], &options).into_iter();
            assert!(found.all(|value| value.unwrap().is_some()));
            let snapshot = db.snapshot();
            family.put("at the end", "value").unwrap();
            assert!(family.get("at the end").unwrap().is_some());
            assert!(snapshot.get_cf(&family, "at the end").unwrap().is_none());
            family.delete("at the end").unwrap();
        }
        ENDED.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

static ENDED: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

thread_local! {
    static AT_END: UsesAtEnd = const { UsesAtEnd(std::cell::RefCell::new(None)) };
}

#[test]
fn destructors_of_thread_local_values_may_read_and_write() {
    if !koeldb::Compression::Zstd.is_available() {
        println!("not tested: no ZSTD in this build");
        return;
    }
    let dir = ScratchDir::new();
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_statistics(koeldb::statistics::Statistics::new());
    let db = Db::open(&options, dir.path()).unwrap();
    for (name, codec) in [
        ("zlib", koeldb::Compression::Zlib),
        ("zstd", koeldb::Compression::Zstd),
    ] {
        let mut options = db.default_cf().options();
        options.set_compression_type(codec);
        let family = db.create_cf(name, &options).unwrap();
        family.put("in a table", [7; 5000]).unwrap();
        family.flush().unwrap();
    }
    for is_used_before in [true, false] {
        let db = db.clone();
        let user = std::thread::spawn(move || {
            // Values are destroyed in the reverse order of their first use.
            if is_used_before {
                AT_END.with(|at_end| at_end.0.replace(Some(db.clone())));
            }
            let family = db.cf_handle("zstd").unwrap();
            assert!(family.get("absent").unwrap().is_none());
            family.put("other", "value").unwrap();
            family.delete("other").unwrap();
            AT_END.with(|at_end| at_end.0.replace(Some(db.clone())));
        });
        user.join().unwrap();
    }
    assert_eq!(ENDED.load(std::sync::atomic::Ordering::Relaxed), 2);
}

#[test]
fn a_compaction_filter_gets_the_uppermost_level_of_the_inputs() {
    let dir = ScratchDir::new();
    let (sender, levels) = std::sync::mpsc::channel();
    let sender = std::sync::Mutex::new(sender);
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_compaction_filter("notes levels", move |level, _, _| {
            sender.lock().unwrap().send(level).unwrap();
            Decision::Keep
        });
    let db = Db::open(&options, dir.path()).unwrap();
    db.put("key", "value").unwrap();
    db.flush().unwrap();
    db.compact_all(&CompactRangeOptions::new()).unwrap();
    db.compact_all(&CompactRangeOptions::new()).unwrap();
    assert_eq!(levels.try_iter().collect::<Vec<_>>(), [0, 6]);
}

#[test]
fn a_compaction_filter_belongs_to_its_family() {
    let dir = ScratchDir::new();
    let mut options = creating();
    options.set_compaction_filter("drops everything", |_, _, _| Decision::Remove);
    let mut empties = ColumnFamilyOptions::new();
    empties
        .apply_str(
            "compaction_filter=RemoveEmptyValueCompactionFilter",
            &ConfigOptions::new(),
        )
        .unwrap();
    let mut shouts = ColumnFamilyOptions::new();
    shouts.set_compaction_filter("shouts", |_, _, value| {
        Decision::Change(value.to_ascii_uppercase())
    });
    let mut builder = Db::builder(&options);
    builder
        .column_family("as the database")
        .column_family(("own options", ColumnFamilyOptions::new()))
        .column_family(("empties", empties))
        .column_family(("shouts", shouts));
    let db = builder.open(dir.path()).unwrap();
    for family in db.cf_handles() {
        family.put("empty", "").unwrap();
        family.put("full", "value").unwrap();
        family.flush().unwrap();
    }
    let mut force = CompactRangeOptions::new();
    force.set_bottommost_level_compaction(koeldb::BottommostLevelCompaction::Force);
    db.compact_all(&force).unwrap();
    let value = |name: &str, key: &str| {
        let found = db.cf_handle(name).unwrap().get(key).unwrap();
        found.map(|value| String::from_utf8(value.to_vec()).unwrap())
    };
    let shown = |text: &str| Some(text.to_owned());
    for name in ["default", "as the database"] {
        assert_eq!(
            (value(name, "empty"), value(name, "full")),
            (None, None),
            "{name}"
        );
    }
    assert_eq!(value("own options", "empty"), shown(""));
    assert_eq!(value("own options", "full"), shown("value"));
    assert_eq!(value("empties", "empty"), None);
    assert_eq!(value("empties", "full"), shown("value"));
    assert_eq!(value("shouts", "full"), shown("VALUE"));
}

#[test]
fn options_may_be_set_by_many_at_once() {
    let dir = ScratchDir::new();
    let db = Db::open(&creating(), dir.path()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let db = &db;
            scope.spawn(move || {
                for round in 0..20 {
                    let bytes = (100_000 + thread * 100 + round).to_string();
                    db.default_cf()
                        .set_options([("write_buffer_size", &bytes)])
                        .unwrap();
                }
            });
        }
    });
}
