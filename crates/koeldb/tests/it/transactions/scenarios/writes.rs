//! Conflicts between the writes of transactions and others.

use koeldb::{CompactRangeOptions, ReadOptions, ValidationTier, WriteBatch};

use super::*;

#[test]
fn a_transaction_writes_what_it_read_for_update() {
    for is_pessimistic in [false, true] {
        let db = open(is_pessimistic);
        db.put("foo", "bar").unwrap();
        let mut transaction = begin(&db, false);
        let read = transaction.get_for_update("foo").unwrap();
        assert_eq!(read.as_deref(), Some(&b"bar"[..]));
        transaction.put("foo", "bar2").unwrap();
        let read = transaction.get_for_update("foo").unwrap();
        assert_eq!(read.as_deref(), Some(&b"bar2"[..]));
        assert_eq!(value(&db, "foo").as_deref(), Some("bar"));
        transaction.commit().unwrap();
        assert_eq!(value(&db, "foo").as_deref(), Some("bar2"));
    }
}

#[test]
fn a_transaction_without_writes_commits() {
    for is_pessimistic in [false, true] {
        let db = open(is_pessimistic);
        db.put("aaa", "aaa").unwrap();
        begin(&db, false).commit().unwrap();
        let mut transaction = begin(&db, false);
        transaction.get_for_update("aaa").unwrap();
        transaction.commit().unwrap();
        let mut transaction = begin(&db, true);
        transaction.get_for_update("aaa").unwrap();
        let other = db.put("aaa", "xxx");
        let done = transaction.commit();
        if is_pessimistic {
            assert_eq!(kind(other), ErrorKind::TimedOut);
            done.unwrap();
        } else {
            other.unwrap();
            assert!(is_busy(done));
        }
    }
}

#[test]
fn the_first_write_of_a_database_conflicts_with_an_older_snapshot_only() {
    for is_pessimistic in [false, true] {
        for is_snapshot_first in [false, true] {
            let db = open(is_pessimistic);
            let mut transaction = begin(&db, is_snapshot_first);
            db.put("A", "a").unwrap();
            if !is_snapshot_first {
                transaction.set_snapshot();
            }
            let done = transaction.put("A", "b");
            let done = done.and_then(|()| transaction.commit());
            assert_eq!(is_busy(done), is_snapshot_first);
        }
    }
}

#[test]
fn a_write_outside_conflicts_with_the_write_of_a_transaction() {
    for is_pessimistic in [false, true] {
        let db = open(is_pessimistic);
        for key in ["foo", "foo2"] {
            db.put(key, "old").unwrap();
        }
        let mut transaction = begin(&db, false);
        transaction.put("foo", "A2").unwrap();
        transaction.put("foo2", "B2").unwrap();
        let other = db.put("foo", "xxx");
        let done = transaction.commit();
        let found = (value(&db, "foo").unwrap(), value(&db, "foo2").unwrap());
        if is_pessimistic {
            assert_eq!(kind(other), ErrorKind::TimedOut);
            done.unwrap();
            assert_eq!(found, ("A2".into(), "B2".into()));
        } else {
            other.unwrap();
            assert!(is_busy(done));
            assert_eq!(found, ("xxx".into(), "old".into()));
        }
    }
}

#[test]
fn a_pessimistic_transaction_is_usable_after_a_conflict() {
    let db = open(true);
    db.put("foo", "bar").unwrap();
    let mut transaction = begin(&db, true);
    db.put("foo", "barz").unwrap();
    transaction.put("foo2", "X").unwrap();
    assert!(is_busy(transaction.put("foo", "bar2")));
    assert!(is_busy(transaction.get_for_update("foo")));
    transaction.put("foo3", "Y").unwrap();
    // The key of the conflict is not locked.
    assert_eq!(db.lock_status().len(), 2);
    transaction.commit().unwrap();
    let found: Vec<_> = ["foo", "foo2", "foo3"]
        .map(|key| value(&db, key).unwrap())
        .into();
    assert_eq!(found, ["barz", "X", "Y"]);
}

#[test]
fn merges_and_range_deletions_outside_conflict_with_a_merge() {
    for is_range in [false, true] {
        let db = open(false);
        db.put("foo", "bar").unwrap();
        let mut transaction = begin(&db, false);
        transaction.get_for_update("foo").unwrap();
        transaction.merge("foo", "bar3").unwrap();
        match is_range {
            true => db.delete_range("foo", "foo1").unwrap(),
            false => db.merge("foo", "bar2").unwrap(),
        }
        assert!(is_busy(transaction.commit()));
        let expected = (!is_range).then_some("bar,bar2");
        assert_eq!(value(&db, "foo").as_deref(), expected);
    }
}

#[test]
fn conflicts_are_found_in_tables_as_in_memtables() {
    for compacts in [false, true] {
        let db = open(true);
        for key in ["foo", "foo2", "foo3"] {
            db.put(key, "bar").unwrap();
        }
        let mut transaction = begin(&db, true);
        transaction.put("foo", "bar2").unwrap();
        db.put("Z", "z").unwrap();
        db.put("S", "s").unwrap();
        db.default_cf().single_delete("S").unwrap();
        assert!(is_busy(transaction.delete("S")));
        for round in 0..3 {
            db.put("dummy", format!("{round}")).unwrap();
            db.flush().unwrap();
            if compacts {
                db.compact_all(&CompactRangeOptions::new()).unwrap();
            }
            transaction.put("X", "y").unwrap();
            assert!(is_busy(transaction.put("Z", "zz")));
            assert!(is_busy(transaction.delete("S")));
        }
        transaction.get_for_update("foo2").unwrap();
        assert_eq!(kind(db.delete("foo2")), ErrorKind::TimedOut);
        transaction.commit().unwrap();
        assert_eq!(value(&db, "foo").as_deref(), Some("bar2"));
        assert_eq!(value(&db, "X").as_deref(), Some("y"));
        assert_eq!(value(&db, "Z").as_deref(), Some("z"));
    }
}

#[test]
fn an_optimistic_commit_asks_tables_where_memtables_are_flushed() {
    for (tier, expected) in [
        (ValidationTier::All, None),
        (ValidationTier::Memtable, Some(ErrorKind::TryAgain)),
    ] {
        let db = open(false);
        db.put("foo", "bar").unwrap();
        let mut options = TransactionOptions::new();
        options.set_validation_tier(tier);
        let mut transaction = db.transaction_opt(&WriteOptions::new(), &options).unwrap();
        transaction.get_for_update("foo").unwrap();
        transaction.put("foo", "bar2").unwrap();
        for round in 0..3 {
            db.put("dummy", format!("{round}")).unwrap();
            db.flush().unwrap();
        }
        let done = transaction.commit();
        assert_eq!(done.err().map(|error| error.kind()), expected);
        // Repeating the whole transaction helps.
        let mut transaction = db.transaction_opt(&WriteOptions::new(), &options).unwrap();
        transaction.get_for_update("foo").unwrap();
        transaction.put("foo", "bar3").unwrap();
        transaction.commit().unwrap();
    }
}

#[test]
fn keys_of_different_column_families_do_not_conflict() {
    for is_pessimistic in [false, true] {
        let mut options = options(is_pessimistic);
        options.create_missing_column_families(true);
        let (db, [one, two]) = Db::open_cf(&options, "/families", ["one", "two"]).unwrap();
        let mut first = begin(&db, true);
        let mut second = begin(&db, true);
        first.put_cf(&one, "k", "1").unwrap();
        second.put_cf(&two, "k", "2").unwrap();
        db.put("k", "0").unwrap();
        let read = second.multi_get_for_update(&one, &["l"], &ReadOptions::new());
        assert_eq!(read.unwrap()[0].as_ref().unwrap().as_deref(), None);
        first.commit().unwrap();
        second.commit().unwrap();
        assert_eq!(one.get("k").unwrap().as_deref(), Some(&b"1"[..]));
        assert_eq!(two.get("k").unwrap().as_deref(), Some(&b"2"[..]));
        // A write of the same key in the same column family conflicts.
        let (mut first, mut second) = (begin(&db, true), begin(&db, true));
        first.put_cf(&one, "k", "3").unwrap();
        let refused = second.put_cf(&one, "k", "4");
        first.commit().unwrap();
        let done = refused.and_then(|()| second.commit());
        assert!(matches!(kind(done), ErrorKind::Busy | ErrorKind::TimedOut));
    }
}

#[test]
fn untracked_writes_are_locked_and_not_checked() {
    for is_pessimistic in [false, true] {
        let db = open(is_pessimistic);
        let family = db.default_cf();
        let mut transaction = begin(&db, true);
        db.put("k", "outside").unwrap();
        transaction.put_untracked(family, "k", "0").unwrap();
        transaction.delete_untracked(family, "k").unwrap();
        transaction.put_untracked(family, "k", "1").unwrap();
        if is_pessimistic {
            assert!(is_locked(&db, "k"));
            assert!(is_busy(transaction.put("k", "2")));
        }
        transaction.commit().unwrap();
        assert_eq!(value(&db, "k").as_deref(), Some("1"));
        let mut transaction = begin(&db, false);
        transaction.put_untracked(family, "k", "2").unwrap();
        transaction.rollback();
        assert_eq!(value(&db, "k").as_deref(), Some("1"));
        assert!(db.lock_status().is_empty());
    }
}

#[test]
fn a_transaction_sees_its_single_deletions_and_merges() {
    for is_pessimistic in [false, true] {
        let db = open(is_pessimistic);
        let family = db.default_cf();
        let mut transaction = begin(&db, false);
        transaction.single_delete(family, "A").unwrap();
        assert_eq!(seen(&transaction, "A"), None);
        transaction.put("A", "a").unwrap();
        assert_eq!(seen(&transaction, "A").as_deref(), Some("a"));
        transaction.commit().unwrap();
        let mut transaction = begin(&db, false);
        transaction.single_delete(family, "A").unwrap();
        assert_eq!(seen(&transaction, "A"), None);
        transaction.commit().unwrap();
        assert_eq!(value(&db, "A"), None);
        db.put("M", "a0").unwrap();
        let mut transaction = begin(&db, false);
        transaction.merge("M", "1").unwrap();
        assert_eq!(seen(&transaction, "M").as_deref(), Some("a0,1"));
        transaction.put("M", "a").unwrap();
        transaction.merge("M", "2").unwrap();
        transaction.merge("M", "3").unwrap();
        assert_eq!(seen(&transaction, "M").as_deref(), Some("a,2,3"));
        transaction.delete("M").unwrap();
        transaction.merge("M", "4").unwrap();
        transaction.commit().unwrap();
        assert_eq!(value(&db, "M").as_deref(), Some("4"));
    }
}

#[test]
fn range_deletions_are_refused_where_keys_are_locked() {
    for skips in [false, true] {
        let mut options = options(true);
        let mut locks = TransactionDbOptions::new();
        locks.set_skip_concurrency_control(skips);
        options.set_transactions(&locks);
        let db = Db::open(&options, "/ranges").unwrap();
        db.put("a", "val").unwrap();
        let mut batch = WriteBatch::new();
        batch.delete_range("a", "b");
        let done = db.write(&batch);
        assert_eq!(done.is_ok(), skips);
        assert_eq!(value(&db, "a").is_none(), skips);
    }
    let db = open(false);
    db.put("a", "val").unwrap();
    db.delete_range("a", "b").unwrap();
    assert_eq!(value(&db, "a"), None);
}

#[test]
fn the_last_of_equal_keys_in_a_batch_counts() {
    for is_prepared in [false, true] {
        let mut options = options(true);
        options.create_missing_column_families(true);
        let (db, [two]) = Db::open_cf(&options, "/equal", ["two"]).unwrap();
        let mut batch = WriteBatch::new();
        batch
            .put("key", "value")
            .put("key2", "value2")
            .put("key", "value3")
            .put("key2", "value4")
            .put_cf(&two, "key", "value5");
        db.write(&batch).unwrap();
        assert_eq!(value(&db, "key").as_deref(), Some("value3"));
        assert_eq!(value(&db, "key2").as_deref(), Some("value4"));
        assert_eq!(two.get("key").unwrap().as_deref(), Some(&b"value5"[..]));
        let mut transaction = begin(&db, false);
        for text in ["a", "b"] {
            transaction.put("key", text).unwrap();
            transaction.delete("key").unwrap();
            transaction.merge("key", text).unwrap();
        }
        match is_prepared {
            true => transaction.prepare("t").unwrap().commit().unwrap(),
            false => transaction.commit().unwrap(),
        };
        assert_eq!(value(&db, "key").as_deref(), Some("b"));
    }
}
