//! Options of scans: limits of skipped entries, seeks in place of steps.

use koeldb::statistics::{Statistics, Ticker};
use koeldb::{Db, ErrorKind, IteratorMode, Options, ReadOptions};

use crate::model::base_options;

fn open(options: &Options) -> Db {
    Db::open(options, "/scans").unwrap()
}

/// A database with keys around one that was overwritten `times`, and the same key deleted above.
fn with_counter(skips: u64, times: u32) -> Db {
    let mut options = base_options();
    options
        .set_write_buffer_size(64 << 20)
        .set_max_sequential_skip_in_iterations(skips)
        .set_statistics(Statistics::new());
    let db = open(&options);
    db.put("a", "first").unwrap();
    db.put("c", "last").unwrap();
    for time in 0..times {
        db.put("b", time.to_string()).unwrap();
    }
    db
}

#[test]
fn seeks_replace_steps_over_versions_in_both_directions() {
    for (skips, reseeks) in [(8, 3), (u64::MAX, 0)] {
        let db = with_counter(skips, 1000);
        let mut cursor = db.cursor();
        assert!(cursor.seek_to_last().unwrap());
        assert!(cursor.prev().unwrap());
        assert_eq!(cursor.entry(), Some((&b"b"[..], &b"999"[..])));
        assert!(cursor.prev().unwrap());
        assert_eq!(cursor.key(), Some(&b"a"[..]));
        assert!(cursor.seek("b").unwrap());
        assert!(cursor.next().unwrap());
        assert_eq!(cursor.key(), Some(&b"c"[..]));
        let counted = db.statistics().ticker(Ticker::NumberOfReseeksInIteration);
        assert_eq!(counted, reseeks, "{skips}");
    }
}

#[test]
fn the_number_of_steps_before_a_seek_changes_while_the_database_is_open() {
    let db = with_counter(u64::MAX, 100);
    let walk = || {
        let mut cursor = db.cursor();
        cursor.seek_to_last().unwrap();
        while cursor.prev().unwrap() {}
        db.statistics().ticker(Ticker::NumberOfReseeksInIteration)
    };
    assert_eq!(walk(), 0);
    db.default_cf()
        .set_options([("max_sequential_skip_in_iterations", "10")])
        .unwrap();
    assert_eq!(walk(), 2);
}

#[test]
fn a_movement_that_skips_too_many_entries_is_incomplete() {
    let db = open(&base_options());
    for key in ["a", "b1", "b2", "b3", "c"] {
        db.put(key, "value").unwrap();
    }
    for key in ["b1", "b2", "b3"] {
        db.delete(key).unwrap();
    }
    let mut read = ReadOptions::new();
    read.set_max_skippable_internal_keys(6);
    let keys = |read: &ReadOptions| -> Vec<_> {
        let entries = db.default_cf().iterator_opt(IteratorMode::Start, read);
        entries
            .map(|entry| entry.map(|(key, _)| key.to_vec()))
            .collect()
    };
    assert_eq!(keys(&read).len(), 2);
    read.set_max_skippable_internal_keys(5);
    let mut cursor = db.cursor_opt(&read);
    assert!(cursor.seek("a").unwrap());
    let error = cursor.next().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incomplete, "{error}");
    assert!(!cursor.valid());
    assert_eq!(cursor.status().unwrap_err().kind(), ErrorKind::Incomplete);
    // As with another failure, a seek begins anew.
    assert!(cursor.seek("c").unwrap());
    let error = cursor.prev().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incomplete, "{error}");
}
