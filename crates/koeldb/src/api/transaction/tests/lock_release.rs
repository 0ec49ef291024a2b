//! Locks that are released, and configurations whose locks would not exclude each other.

use std::cmp::Ordering;

use super::*;
use crate::Comparator;

#[test]
fn a_rollback_releases_a_key_that_was_released_and_locked_again() {
    let db = open(true);
    let mut transaction = db.transaction();
    transaction.set_save_point();
    transaction.get_for_update("k").unwrap();
    transaction.undo_get_for_update(db.default_cf(), "k");
    transaction.put("k", "1").unwrap();
    transaction.rollback_to_save_point().unwrap();
    assert!(db.lock_status().is_empty());
    transaction.rollback();
    db.put("k", "2").unwrap();
}

#[test]
fn a_read_for_update_is_taken_back_as_often_as_it_is_made() {
    let db = open(true);
    let mut transaction = db.transaction();
    for _ in 0..3 {
        transaction.get_for_update("k").unwrap();
        assert_eq!(db.lock_status().len(), 1);
        transaction.undo_get_for_update(db.default_cf(), "k");
        assert!(db.lock_status().is_empty());
    }
    db.put("k", "1").unwrap();
}

#[test]
fn unordered_writes_are_refused_with_pessimistic_transactions() {
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_unordered_write(true)
        .set_env(&Env::mem_env());
    let db = Db::open(&options, "/optimistic").unwrap();
    let refused = db.transaction().put("k", "1").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotSupported);
    options.set_transactions(&TransactionDbOptions::new());
    let refused = Db::open(&options, "/pessimistic").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotSupported);
    assert!(refused.message().contains("unordered_write"), "{refused}");
}

/// Bytewise in lower case.
struct IgnoresCase;

impl Comparator for IgnoresCase {
    fn name(&self) -> &'static str {
        "test.IgnoresCase"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase())
    }
}

/// Orders keys bytewise, as a comparator of RocksDB that says nothing about equal keys.
struct OwnBytewise;

impl crate::Comparator for OwnBytewise {
    fn name(&self) -> &str {
        "own-bytewise"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        a.cmp(b)
    }

    fn permits_hashes(&self) -> bool {
        true
    }
}

#[test]
fn the_bytes_of_keys_are_locked_if_the_order_permits_hashes() {
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_comparator(OwnBytewise)
        .set_transactions(&TransactionDbOptions::new())
        .set_env(&Env::mem_env());
    let db = Db::open(&options, "/own-bytewise").unwrap();
    let mut first = db.transaction();
    first.put("k", "1").unwrap();
    let mut second = db.transaction();
    assert!(second.put("k", "2").is_err());
    second.put("K", "3").unwrap();
    first.commit().unwrap();
    second.commit().unwrap();
    assert_eq!(db.get("k").unwrap().as_deref(), Some(&b"1"[..]));
}

#[test]
fn keys_that_are_equal_in_different_bytes_are_refused_where_they_are_locked() {
    for is_pessimistic in [false, true] {
        let mut options = Options::new();
        options
            .create_if_missing(true)
            .set_comparator(IgnoresCase)
            .set_env(&Env::mem_env());
        if is_pessimistic {
            options.set_transactions(&TransactionDbOptions::new());
        }
        let db = Db::open(&options, "/ignores-case").unwrap();
        db.put("k", "0").unwrap();
        let mut transaction = db.transaction();
        let used = transaction.put("k", "1");
        if is_pessimistic {
            assert_eq!(used.unwrap_err().kind(), ErrorKind::NotSupported);
        } else {
            db.put("K", "2").unwrap();
            assert_eq!(transaction.commit().unwrap_err().kind(), ErrorKind::Busy);
        }
    }
}

#[test]
fn a_transaction_that_was_not_committed_is_as_before() {
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_transactions(&TransactionDbOptions::new())
        .set_env(&Env::mem_env());
    let db = Db::open(&options, "/not-committed").unwrap();
    let mut how = crate::TransactionOptions::new();
    how.set_skip_prepare(false);
    let mut transaction = db
        .transaction_opt(&crate::WriteOptions::new(), &how)
        .unwrap();
    transaction.put("k", "1").unwrap();
    for _ in 0..2 {
        let error = transaction.try_commit().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
    // The key is locked still.
    assert!(db.transaction().put("k", "2").is_err());
    transaction.prepare("name").unwrap().commit().unwrap();
    assert_eq!(db.get("k").unwrap().as_deref(), Some(&b"1"[..]));
    let mut transaction = db.transaction();
    transaction.put("k", "3").unwrap();
    transaction.try_commit().unwrap();
    let mut other = db.transaction();
    other.put("k", "4").unwrap();
    other.commit().unwrap();
}
