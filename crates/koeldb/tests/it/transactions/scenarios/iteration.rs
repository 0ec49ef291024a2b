//! Cursors of transactions.

use koeldb::ReadOptions;

use super::*;

fn keys(transaction: &Transaction, options: &ReadOptions) -> String {
    let mut cursor = transaction.cursor_opt(transaction.db().default_cf(), options);
    let mut found = String::new();
    let mut valid = cursor.seek_to_first().unwrap();
    while valid {
        found += std::str::from_utf8(cursor.key().unwrap()).unwrap();
        valid = cursor.next().unwrap();
    }
    let mut backwards = String::new();
    let mut valid = cursor.seek_to_last().unwrap();
    while valid {
        backwards += std::str::from_utf8(cursor.key().unwrap()).unwrap();
        valid = cursor.prev().unwrap();
    }
    assert_eq!(backwards.chars().rev().collect::<String>(), found);
    found
}

#[test]
fn a_cursor_shows_own_and_committed_writes_within_its_bounds() {
    for is_pessimistic in [false, true] {
        let db = open(is_pessimistic);
        for key in ["a", "c", "e", "f"] {
            db.put(key, "committed").unwrap();
        }
        let mut transaction = begin(&db, false);
        for key in ["b", "c", "f"] {
            transaction.put(key, "own").unwrap();
        }
        let mut options = ReadOptions::new();
        assert_eq!(keys(&transaction, &options), "abcef");
        options
            .set_iterate_lower_bound(b"c".to_vec())
            .set_iterate_upper_bound(b"f".to_vec());
        assert_eq!(keys(&transaction, &options), "ce");
        let mut cursor = transaction.cursor_opt(db.default_cf(), &options);
        assert!(cursor.seek("b").unwrap());
        assert_eq!(cursor.key(), Some(&b"c"[..]));
        assert_eq!(cursor.value(), Some(&b"own"[..]));
        assert!(!cursor.seek("f").unwrap());
        assert!(cursor.seek_for_prev("f").unwrap());
        assert_eq!(cursor.key(), Some(&b"e"[..]));
        assert!(!cursor.seek_for_prev("b").unwrap());
    }
}

#[test]
fn a_deleted_key_at_the_upper_bound_ends_the_scan() {
    for is_pessimistic in [false, true] {
        let db = open(is_pessimistic);
        let mut transaction = begin(&db, false);
        transaction.put("2", "2").unwrap();
        transaction.put("1", "1").unwrap();
        transaction.delete("2").unwrap();
        let mut options = ReadOptions::new();
        options.set_iterate_upper_bound(b"2".to_vec());
        assert_eq!(keys(&transaction, &options), "1");
    }
}

#[test]
fn a_cursor_of_a_transaction_with_a_snapshot_shows_the_snapshot_and_own_writes() {
    for is_pessimistic in [false, true] {
        let db = open(is_pessimistic);
        for key in ["A", "B", "D"] {
            db.put(key, "old").unwrap();
        }
        let mut transaction = begin(&db, true);
        transaction.put("C", "own").unwrap();
        transaction.delete("B").unwrap();
        db.put("E", "later").unwrap();
        db.delete("D").unwrap();
        let options = ReadOptions::new();
        assert_eq!(keys(&transaction, &options), "ACD");
        transaction.clear_snapshot();
        assert_eq!(keys(&transaction, &options), "ACE");
        transaction.commit().unwrap();
        assert_eq!(keys(&begin(&db, false), &options), "ACE");
    }
}
