//! Every memtable representation returns the same results in a database.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use koeldb::{
    ColumnFamilyOptions, ConfigOptions, Db, DbCursor, ErrorKind, FixedPrefix, IteratorMode,
    MemtableFactory, Options, ReadOptions, ReverseBytewiseComparator, WriteBatch,
};

use crate::model::{self, base_options};

/// All representations, with small vectors and few buckets too, to reach all code paths.
pub(crate) const REPRESENTATIONS: [&str; 8] = [
    "skip_list",
    "skip_list:16",
    "vector:10",
    "prefix_hash:50",
    "hash_linkedlist:50",
    "speedb.HashSpdRepFactory",
    "speedb.HashSpdRepFactory:3",
    "{id=hash_spdb;hash_bucket_count=0;sorted_vector_limit=20;}",
];

/// Returns options for a database in memory with this representation and its requirements.
pub(crate) fn with_representation(text: &str) -> Options {
    let mut options = base_options();
    options
        .apply_str(
            &format!("memtable_factory={text};prefix_extractor=fixed:3"),
            &ConfigOptions::new(),
        )
        .unwrap();
    options
}

fn key(number: u64) -> Vec<u8> {
    format!("key{number:05}").into_bytes()
}

/// Returns the entries from the position of a cursor forward.
fn rest(cursor: &mut DbCursor) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut entries = Vec::new();
    while let Some((key, value)) = cursor.entry() {
        entries.push((key.to_vec(), value.to_vec()));
        cursor.next().unwrap();
    }
    entries
}

#[test]
fn each_answers_as_the_model_does() {
    for (seed, text) in (1..).zip(REPRESENTATIONS) {
        println!("{text}");
        model::run(seed, &with_representation(text), 250);
    }
}

/// A cursor is unaffected by later writes, the switch, the flush, and the drop of every handle.
#[test]
fn a_cursor_outlives_the_switch_the_flush_and_the_handle() {
    for text in REPRESENTATIONS {
        let options = with_representation(text);
        let db = Db::open(&options, "/outlives").unwrap();
        let mut expected = Vec::new();
        // Newest first, and twice, so that order and versions are not those of arrival.
        for round in 0..2 {
            for number in (0..200).rev() {
                let value = format!("{round} {number}").into_bytes();
                db.put(key(number), &value).unwrap();
                if round == 1 {
                    expected.push((key(number), value));
                }
            }
        }
        expected.reverse();
        let mut cursor = db.cursor();
        cursor.seek_to_first().unwrap();
        let mut unborn = db.cursor();
        let backwards = db.iterator(IteratorMode::End);
        for number in 0..400 {
            db.put(key(number), "later").unwrap();
        }
        db.delete_range(key(0), key(100)).unwrap();
        db.flush().unwrap();
        db.put(key(7), "after the flush").unwrap();
        unborn.seek(key(0)).unwrap();
        let found: Vec<_> = backwards
            .map(|entry| entry.unwrap())
            .map(|(key, value)| (key.to_vec(), value.to_vec()))
            .collect();
        assert!(
            found.into_iter().rev().eq(expected.iter().cloned()),
            "{text}"
        );
        assert_eq!(rest(&mut unborn), expected, "{text}");
        // Anew, at the state of now.
        unborn.refresh().unwrap();
        unborn.seek_to_first().unwrap();
        let now = rest(&mut unborn);
        assert_eq!(now.len(), 301, "{text}");
        assert_eq!(now[0], (key(7), b"after the flush".to_vec()), "{text}");
        drop((db, unborn));
        assert_eq!(rest(&mut cursor), expected, "{text}");
    }
}

/// Each seek of a tailing cursor sees all previous writes, through switches and flushes.
#[test]
fn h19_a_tailing_cursor_follows_the_writes() {
    for text in REPRESENTATIONS {
        let db = Db::open(&with_representation(text), "/tailing").unwrap();
        let mut tailing = ReadOptions::new();
        tailing.set_tailing(true);
        let mut follower = db.cursor_opt(&tailing);
        let mut other = db.cursor();
        assert!(!other.seek_to_first().unwrap());
        assert!(!follower.seek_to_first().unwrap());
        for number in 0..150 {
            db.put(key(number), number.to_string()).unwrap();
            // An entry at the end, one at the beginning, and a deleted one.
            assert!(follower.seek(key(number)).unwrap(), "{text}");
            assert_eq!(follower.value(), Some(number.to_string().as_bytes()));
            assert!(follower.seek_to_first().unwrap());
            assert_eq!(follower.key(), Some(&*key(number / 2)), "{text}");
            if number % 2 == 1 {
                db.delete(key(number / 2)).unwrap();
                assert!(follower.seek(key(number / 2)).unwrap());
                assert_eq!(follower.key(), Some(&*key(number / 2 + 1)), "{text}");
            }
            if number % 40 == 39 {
                db.flush().unwrap();
            }
        }
        assert!(
            !other.seek_to_first().unwrap(),
            "others stay where they are"
        );
        other.refresh().unwrap();
        assert!(other.seek_to_first().unwrap());
        assert_eq!(rest(&mut other).len(), 75, "{text}");
    }
}

/// The prefix of a seek was that of the state before, and its filter that of the latest.
#[test]
fn a_tailing_cursor_seeks_with_the_extractor_of_the_latest_state() {
    let mut options = with_representation(REPRESENTATIONS[0]);
    options.set_prefix_extractor(FixedPrefix::new(4));
    let table = "table_factory={id=BlockBasedTable;filter_policy=bloomfilter:20;\
                 whole_key_filtering=false}";
    options.apply_str(table, &ConfigOptions::new()).unwrap();
    let db = Db::open(&options, "/tailing").unwrap();
    let mut read = ReadOptions::new();
    read.set_tailing(true);
    read.set_iterate_lower_bound(b"aa00".to_vec());
    read.set_iterate_upper_bound(b"aa99".to_vec());
    let mut cursor = db.cursor_opt(&read);
    for round in 0..4 {
        db.set_options([("prefix_extractor", "fixed:2")]).unwrap();
        assert!(!cursor.seek("aa11").unwrap());
        db.set_options([("prefix_extractor", "fixed:4")]).unwrap();
        db.put("aa55", "1").unwrap();
        db.flush().unwrap();
        let is_found = match round {
            0 => cursor.seek("aa11"),
            1 => cursor.seek_for_prev("aa77"),
            2 => cursor.seek_to_first(),
            _ => cursor.seek_to_last(),
        };
        assert!(is_found.unwrap(), "{round}");
        assert_eq!(cursor.key(), Some(&b"aa55"[..]));
        db.delete("aa55").unwrap();
        db.flush().unwrap();
    }
}

/// Scans within the prefix of their start, inside and outside of their bounds, in both directions.
///
/// A hash table of prefixes needs no sorting for them.
#[test]
fn scans_of_one_prefix_are_the_same_and_need_no_sorted_copy() {
    let path = |text: &str| {
        let db = Db::open(&with_representation(text), "/prefix").unwrap();
        for number in 0..1500_u64 {
            let scattered = number * 7919 % 1000;
            let key = format!("{:03}{:02}", scattered % 40, scattered / 40);
            db.put(&key, number.to_string()).unwrap();
            if number % 3 == 0 {
                db.delete(key).unwrap();
            }
            if number == 500 {
                db.flush().unwrap();
            }
        }
        let memory = || {
            db.property_int_value("rocksdb.cur-size-active-mem-table")
                .unwrap()
        };
        let begun = memory();
        let mut path = Vec::new();
        let mut read = ReadOptions::new();
        read.set_prefix_same_as_start(true);
        for bounds in ["".."~", "005".."030", "01212".."01220"] {
            let mut cursor = db.cursor_opt(&read);
            cursor.set_range(bounds.clone());
            for step in 0..600_u64 {
                let scattered = step * 6607 % 1000;
                let key = format!("{:03}{:02}", scattered % 42, scattered / 40);
                let is_within = bounds.contains(&key.as_str());
                match step * 31 % 11 {
                    0 | 1 if is_within => cursor.seek(key).unwrap(),
                    2 if is_within => cursor.seek_for_prev(key).unwrap(),
                    3..6 => cursor.prev().unwrap(),
                    _ => cursor.next().unwrap(),
                };
                path.push(cursor.key().map(<[u8]>::to_vec));
            }
        }
        assert_eq!(memory(), begun, "{text}");
        for bounds in ["005".."030", "01212".."01220"] {
            let mut cursor = db.cursor_opt(&read);
            cursor.set_range(bounds);
            for step in 0..300_u64 {
                let key = format!("{:03}{:02}", step % 42, step / 12);
                match step % 7 {
                    0 => cursor.seek(key).unwrap(),
                    1 => cursor.seek_for_prev(key).unwrap(),
                    3 => cursor.seek_to_first().unwrap(),
                    5 => cursor.seek_to_last().unwrap(),
                    _ => cursor.next().unwrap(),
                };
                path.push(cursor.key().map(<[u8]>::to_vec));
            }
        }
        path
    };
    let expected = path("skip_list");
    assert!(expected.iter().flatten().count() > expected.len() / 4);
    for text in ["prefix_hash:50", "hash_linkedlist:3"] {
        assert_eq!(path(text), expected, "{text}");
    }
}

/// A seek finds everything acknowledged before, during writes and memtable switches.
#[test]
fn a_seek_sees_every_write_acknowledged_before_it() {
    for text in REPRESENTATIONS {
        let db = Db::open(&with_representation(text), "/seek").unwrap();
        let acknowledged = [AtomicU64::new(0), AtomicU64::new(0)];
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writers: Vec<_> = acknowledged
                .iter()
                .zip(["a", "b"])
                .map(|(acknowledged, name)| {
                    let db = &db;
                    scope.spawn(move || {
                        for number in 1..=800_u64 {
                            // Scattered, so that the newest is anywhere.
                            let key = format!("{name}{:04}", number * 7919 % 10_000);
                            db.put(key, number.to_string()).unwrap();
                            acknowledged.store(number, Ordering::SeqCst);
                        }
                    })
                })
                .collect();
            let seeker = scope.spawn(|| {
                let mut turn = 0;
                while !is_over.load(Ordering::Relaxed) {
                    turn += 1;
                    let (owed, name) = (
                        acknowledged[turn % 2].load(Ordering::SeqCst),
                        ["a", "b"][turn % 2],
                    );
                    if owed == 0 {
                        continue;
                    }
                    let sought = format!("{name}{:04}", owed * 7919 % 10_000);
                    let mut cursor = db.cursor();
                    assert!(cursor.seek(&sought).unwrap(), "{text}");
                    assert_eq!(cursor.key(), Some(sought.as_bytes()), "{text}: {owed}");
                    assert!(cursor.seek_for_prev(&sought).unwrap());
                    assert_eq!(cursor.key(), Some(sought.as_bytes()), "{text}: {owed}");
                    if turn % 16 == 0 {
                        let found = db.prefix(name).count() as u64;
                        assert!(found >= owed, "{text}: {found} of {owed}");
                    }
                }
            });
            for writer in writers {
                writer.join().unwrap();
            }
            is_over.store(true, Ordering::Relaxed);
            seeker.join().unwrap();
        });
    }
}

/// A database with a column family for each representation, with batches, flushes and a reopen.
#[test]
fn families_have_representations_of_their_own() {
    let mut options = base_options();
    options.create_missing_column_families(true);
    let db = Db::open(&options, "/families").unwrap();
    let families: Vec<_> = REPRESENTATIONS
        .iter()
        .map(|text| {
            let options = ColumnFamilyOptions::from(&with_representation(text));
            db.create_cf(text, &options).unwrap()
        })
        .collect();
    for number in 0..300 {
        let mut batch = WriteBatch::new();
        for family in &families {
            batch.put_cf(family, key(number % 150), number.to_string());
            batch.delete_cf(family, key(number * 7 % 150));
        }
        db.write(&batch).unwrap();
        if number % 60 == 59 {
            families[usize::try_from(number / 60).unwrap()]
                .flush()
                .unwrap();
        }
    }
    let content = |db: &Db, name: &str| -> Vec<_> {
        let entries = db.cf_handle(name).unwrap().iterator(IteratorMode::Start);
        entries
            .map(|entry| entry.unwrap())
            .map(|(key, value)| (key.to_vec(), value.to_vec()))
            .collect()
    };
    let expected = content(&db, "skip_list");
    assert!(expected.len() > 50);
    for text in REPRESENTATIONS {
        assert_eq!(content(&db, text), expected, "{text}");
    }
    // A dropped one is read on.
    let dropped = families[5].clone();
    db.drop_cf(&dropped).unwrap();
    assert_eq!(
        dropped.iterator(IteratorMode::Start).count(),
        expected.len()
    );
    db.close().unwrap();
    drop((db, families, dropped));
    let how = ConfigOptions::new();
    let mut builder = Db::builder(&options);
    for (number, text) in REPRESENTATIONS.iter().enumerate() {
        if number != 5 {
            let options = ColumnFamilyOptions::from(&with_representation(text));
            builder.column_family((*text, options));
        }
    }
    let db = builder.open("/families").unwrap();
    for text in REPRESENTATIONS {
        if text != REPRESENTATIONS[5] {
            assert_eq!(content(&db, text), expected, "{text}");
            let mut named = ColumnFamilyOptions::default();
            named
                .apply_str(&format!("memtable_factory={text}"), &how)
                .unwrap();
            let family = db.cf_handle(text).unwrap().options();
            assert_eq!(
                format!("{:?}", family.get_memtable_factory()),
                format!("{:?}", named.get_memtable_factory())
            );
        }
    }
}

#[derive(Debug)]
struct IgnoresCase;

impl koeldb::Comparator for IgnoresCase {
    fn name(&self) -> &str {
        "test.IgnoresCase"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase())
    }
}

#[test]
fn what_a_representation_cannot_do_is_refused_with_the_reason() {
    let refused = |options: &Options, what: &[&str]| {
        let error = Db::open(options, "/refused").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        for what in what {
            assert!(error.message().contains(what), "{what} in {error}");
        }
    };
    for text in ["prefix_hash", "hash_linkedlist:10"] {
        let mut options = base_options();
        options
            .apply_str(&format!("memtable_factory={text}"), &ConfigOptions::new())
            .unwrap();
        // Without prefixes it is a skip list, as in RocksDB.
        let db = Db::open(&options, "/replaced").unwrap();
        let used = db.options();
        assert!(matches!(
            used.get_memtable_factory(),
            MemtableFactory::SkipList(_)
        ));
        options.set_prefix_extractor(FixedPrefix::new(3));
        let db = Db::open(&options, "/taken").unwrap();
        let used = db.options();
        assert!(!matches!(
            used.get_memtable_factory(),
            MemtableFactory::SkipList(_)
        ));
        options.set_comparator(IgnoresCase);
        refused(
            &options,
            &["memtable_factory", "test.IgnoresCase", "skip_list"],
        );
    }
    let mut options = with_representation("speedb.HashSpdRepFactory");
    options.set_comparator(IgnoresCase);
    refused(
        &options,
        &["memtable_factory", "test.IgnoresCase", "equal bytes"],
    );
    let mut options = with_representation("speedb.HashSpdRepFactory");
    options.set_comparator(ReverseBytewiseComparator);
    let db = Db::open(&options, "/reverse").unwrap();
    for number in 0..50 {
        db.put(key(number * 7 % 50), "value").unwrap();
    }
    let keys = db.iterator(IteratorMode::Start);
    let keys: Vec<_> = keys.map(|entry| entry.unwrap().0.to_vec()).collect();
    assert!(keys.into_iter().eq((0..50).rev().map(key)));
    let mut options = base_options();
    let error = options
        .apply_str("inplace_update_support=true", &ConfigOptions::new())
        .unwrap_err();
    assert!(
        error.message().contains("inplace_update_support"),
        "{error}"
    );
    let db = Db::open(&base_options(), "/families").unwrap();
    let mut options = ColumnFamilyOptions::default();
    options
        .apply_str(
            "memtable_factory=speedb.HashSpdRepFactory",
            &ConfigOptions::new(),
        )
        .unwrap();
    options.set_comparator(IgnoresCase);
    let error = db.create_cf("refused", &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(matches!(
        db.options().get_memtable_factory(),
        MemtableFactory::SkipList(_)
    ));
}
