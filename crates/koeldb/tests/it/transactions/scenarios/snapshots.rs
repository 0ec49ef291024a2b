//! Snapshots of transactions, and their save points.

use super::*;

fn snapshot_number(transaction: &Transaction) -> Option<u64> {
    let snapshot = transaction.snapshot();
    snapshot.map(koeldb::Snapshot::sequence_number)
}

#[test]
fn without_a_snapshot_only_writes_since_the_first_use_conflict() {
    for is_pessimistic in [false, true] {
        let db = open(is_pessimistic);
        db.put("AAA", "bar").unwrap();
        let mut transaction = begin(&db, false);
        db.put("AAA", "bar1").unwrap();
        let read = transaction.get_for_update("AAA").unwrap();
        assert_eq!(read.as_deref(), Some(&b"bar1"[..]));
        transaction.put("AAA", "bar2").unwrap();
        transaction.commit().unwrap();
        assert_eq!(value(&db, "AAA").as_deref(), Some("bar2"));
    }
}

#[test]
fn each_key_is_checked_from_the_snapshot_of_its_first_use() {
    for is_pessimistic in [false, true] {
        let db = open(is_pessimistic);
        for key in ["A", "B", "C"] {
            db.put(key, "0").unwrap();
        }
        let mut transaction = begin(&db, false);
        for (at, key) in ["A", "B", "C"].into_iter().enumerate() {
            db.put(key, "1").unwrap();
            if at > 0 {
                transaction.set_snapshot();
            }
            let read = transaction.get_for_update(key).unwrap();
            assert_eq!(read.as_deref(), Some(&b"1"[..]));
            transaction.put(key, "2").unwrap();
        }
        for key in ["A", "B", "C"] {
            assert_eq!(seen(&transaction, key).as_deref(), Some("2"));
            assert_eq!(value(&db, key).as_deref(), Some("1"));
        }
        transaction.commit().unwrap();
        // Of two transactions with one snapshot, the later one loses.
        let (mut first, mut second) = (begin(&db, true), begin(&db, true));
        first.put("Z", "1").unwrap();
        first.commit().unwrap();
        let done = second.put("Z", "2").and_then(|()| second.commit());
        assert!(is_busy(done));
        assert_eq!(value(&db, "Z").as_deref(), Some("1"));
    }
}

#[test]
fn a_deferred_snapshot_is_set_by_the_next_use_of_a_key() {
    for is_pessimistic in [false, true] {
        let db = open(is_pessimistic);
        db.put("A", "a0").unwrap();
        let mut transaction = begin(&db, false);
        transaction.set_snapshot_on_next_operation();
        assert!(transaction.snapshot().is_none());
        db.put("A", "a2").unwrap();
        // A plain read sets none.
        assert_eq!(seen(&transaction, "A").as_deref(), Some("a2"));
        assert!(transaction.snapshot().is_none());
        let read = transaction.get_for_update("A").unwrap();
        assert_eq!(read.as_deref(), Some(&b"a2"[..]));
        assert!(transaction.snapshot().is_some());
        transaction.put("A", "a1").unwrap();
        db.put("B", "b0").unwrap();
        let late = transaction.put("B", "b1");
        if is_pessimistic {
            assert!(is_busy(late));
            transaction.commit().unwrap();
            assert_eq!(value(&db, "A").as_deref(), Some("a1"));
        } else {
            late.unwrap();
            assert!(is_busy(transaction.commit()));
        }
        assert_eq!(value(&db, "B").as_deref(), Some("b0"));
    }
}

#[test]
fn a_deferred_snapshot_replaces_the_older_one_at_the_next_use_of_a_key() {
    for is_pessimistic in [false, true] {
        let db = open(is_pessimistic);
        let mut transaction = begin(&db, true);
        transaction.put("A", "a1").unwrap();
        for key in ["C", "D"] {
            db.put(key, "0").unwrap();
        }
        transaction.set_snapshot_on_next_operation();
        assert_eq!(seen(&transaction, "C"), None);
        let read = transaction.get_for_update("C").unwrap();
        assert_eq!(read.as_deref(), Some(&b"0"[..]));
        db.put("D", "00").unwrap();
        assert_eq!(seen(&transaction, "D").as_deref(), Some("0"));
        transaction.commit().unwrap();
    }
}

#[test]
fn deferred_snapshots_come_back_with_their_save_points() {
    for is_pessimistic in [false, true] {
        let db = open(is_pessimistic);
        let at = |number: &str| {
            db.put("T", number).unwrap();
            db.latest_sequence_number()
        };
        let mut transaction = begin(&db, false);
        transaction.set_save_point();
        at("1");
        transaction.set_snapshot_on_next_operation();
        at("2");
        transaction.set_save_point();
        let third = at("3");
        transaction.put("A", "a").unwrap();
        transaction.set_save_point();
        let fourth = at("4");
        transaction.set_snapshot();
        transaction.set_snapshot_on_next_operation();
        transaction.set_save_point();
        let fifth = at("5");
        assert_eq!(snapshot_number(&transaction), Some(fourth));
        transaction.put("A", "a1").unwrap();
        assert_eq!(snapshot_number(&transaction), Some(fifth));
        for expected in [Some(fourth), Some(third), None] {
            transaction.rollback_to_save_point().unwrap();
            assert_eq!(snapshot_number(&transaction), expected);
        }
        // It is due again, behind the second save point.
        transaction.delete("A").unwrap();
        assert_eq!(snapshot_number(&transaction), Some(fifth));
        transaction.rollback_to_save_point().unwrap();
        // Before the first one, it was not due.
        transaction.delete("A").unwrap();
        assert_eq!(snapshot_number(&transaction), None);
        transaction.commit().unwrap();
    }
}

#[test]
fn a_cleared_snapshot_shows_the_latest_state() {
    for is_pessimistic in [false, true] {
        let db = open(is_pessimistic);
        let mut transaction = begin(&db, false);
        db.put("foo", "1").unwrap();
        assert_eq!(seen(&transaction, "foo").as_deref(), Some("1"));
        transaction.set_snapshot();
        db.put("foo", "2").unwrap();
        assert_eq!(seen(&transaction, "foo").as_deref(), Some("1"));
        let options = koeldb::ReadOptions::new();
        let many = transaction.multi_get(db.default_cf(), &["foo", "none"], &options);
        let many: Vec<_> = many
            .iter()
            .map(|one| text(one.as_ref().unwrap().as_deref()))
            .collect();
        assert_eq!(many, [Some("1".to_owned()), None]);
        transaction.clear_snapshot();
        assert!(transaction.snapshot().is_none());
        assert_eq!(seen(&transaction, "foo").as_deref(), Some("2"));
        transaction.commit().unwrap();
    }
}

#[test]
fn a_rollback_restores_the_writes_before_the_save_point() {
    for is_pessimistic in [false, true] {
        let db = open(is_pessimistic);
        let mut transaction = begin(&db, false);
        let read = |transaction: &Transaction| {
            ["A", "B", "C", "D", "F", "G"].map(|key| seen(transaction, key).unwrap_or_default())
        };
        assert_eq!(
            kind(transaction.rollback_to_save_point()),
            ErrorKind::NotFound
        );
        transaction.set_save_point();
        transaction.rollback_to_save_point().unwrap();
        assert_eq!(
            kind(transaction.rollback_to_save_point()),
            ErrorKind::NotFound
        );
        for (key, text) in [("A", "a"), ("B", "bb"), ("C", "c")] {
            transaction.put(key, text).unwrap();
        }
        transaction.set_save_point();
        transaction.delete("B").unwrap();
        transaction.put("C", "cc").unwrap();
        transaction.put("D", "d").unwrap();
        assert_eq!(transaction.batch().len(), 6);
        transaction.rollback_to_save_point().unwrap();
        assert_eq!(transaction.batch().len(), 3);
        assert_eq!(read(&transaction), ["a", "bb", "c", "", "", ""]);
        transaction.clear();
        assert_eq!(read(&transaction), ["", "", "", "", "", ""]);
        transaction.put("A", "aa").unwrap();
        transaction.put("F", "f").unwrap();
        transaction.set_save_point();
        transaction.set_save_point();
        transaction.put("G", "g").unwrap();
        transaction.single_delete(db.default_cf(), "F").unwrap();
        transaction.rollback_to_save_point().unwrap();
        assert_eq!(read(&transaction), ["aa", "", "", "", "f", ""]);
        transaction.commit().unwrap();
        assert_eq!(value(&db, "F").as_deref(), Some("f"));
        assert_eq!(value(&db, "G"), None);
    }
}

#[test]
fn a_rollback_unlocks_the_keys_first_used_since_the_save_point() {
    let db = open(true);
    let mut transaction = begin(&db, false);
    transaction.put("A", "").unwrap();
    transaction.set_save_point();
    transaction.put("A", "a").unwrap();
    transaction.put("C", "c").unwrap();
    transaction.set_save_point();
    transaction.put("A", "a").unwrap();
    transaction.put("B", "b").unwrap();
    transaction.rollback_to_save_point().unwrap();
    assert_eq!(locked(&db, "ABC"), "AC");
    transaction.put("B", "bbb").unwrap();
    transaction.set_save_point();
    transaction.rollback_to_save_point().unwrap();
    assert_eq!(locked(&db, "ABC"), "ABC");
    transaction.rollback_to_save_point().unwrap();
    assert_eq!(locked(&db, "ABC"), "A");
    transaction.commit().unwrap();
    assert_eq!(locked(&db, "ABC"), "");
}

#[test]
fn the_uses_since_a_removed_save_point_belong_to_the_one_before() {
    let db = open(true);
    let mut transaction = begin(&db, false);
    assert_eq!(kind(transaction.pop_save_point()), ErrorKind::NotFound);
    transaction.put("Z", "").unwrap();
    transaction.set_save_point();
    transaction.put("Z", "z").unwrap();
    transaction.pop_save_point().unwrap();
    assert_eq!(
        kind(transaction.rollback_to_save_point()),
        ErrorKind::NotFound
    );
    assert_eq!(locked(&db, "ABZ"), "Z");
    transaction.set_save_point();
    transaction.put("A", "a").unwrap();
    transaction.set_save_point();
    transaction.put("B", "b").unwrap();
    transaction.pop_save_point().unwrap();
    assert_eq!(seen(&transaction, "B").as_deref(), Some("b"));
    transaction.rollback_to_save_point().unwrap();
    assert_eq!(seen(&transaction, "A"), None);
    assert_eq!(locked(&db, "ABZ"), "Z");
    transaction.commit().unwrap();
    assert_eq!(value(&db, "Z").as_deref(), Some("z"));
}

#[test]
fn a_read_for_update_is_undone_unless_the_key_is_used_otherwise() {
    let db = open(true);
    let mut transaction = begin(&db, false);
    undo(&mut transaction, "A");
    transaction.get_for_update("A").unwrap();
    assert_eq!(locked(&db, "A"), "A");
    undo(&mut transaction, "A");
    assert_eq!(locked(&db, "A"), "");
    transaction.delete("A").unwrap();
    transaction.get_for_update("A").unwrap();
    transaction.put("B", "b").unwrap();
    transaction.get_for_update("B").unwrap();
    undo(&mut transaction, "AB");
    assert_eq!(locked(&db, "AB"), "AB");
    transaction.clear();
    assert_eq!(locked(&db, "AB"), "");
    for key in ["A", "A", "C", "A", "C", "B"] {
        transaction.get_for_update(key).unwrap();
    }
    transaction.put("B", "b5").unwrap();
    transaction.get_for_update("B").unwrap();
    for expected in ["ABC", "AB", "B", "B"] {
        undo(&mut transaction, "ABCX");
        assert_eq!(locked(&db, "ABCX"), expected);
    }
    transaction.commit().unwrap();
}

#[test]
fn a_read_for_update_before_a_save_point_is_undone_only_after_its_rollback() {
    let db = open(true);
    let all = "ABCDEFGH";
    let mut transaction = begin(&db, false);
    for key in ["A", "B"] {
        transaction.get_for_update(key).unwrap();
    }
    transaction.put("F", "f").unwrap();
    transaction.set_save_point();
    undo(&mut transaction, "A");
    for key in ["C", "D"] {
        transaction.get_for_update(key).unwrap();
    }
    transaction.put("E", "e").unwrap();
    for key in ["E", "F"] {
        transaction.get_for_update(key).unwrap();
    }
    assert_eq!(locked(&db, all), "ABCDEF");
    undo(&mut transaction, "CE");
    assert_eq!(locked(&db, all), "ABDEF");
    transaction.set_save_point();
    transaction.put("H", "h").unwrap();
    undo(&mut transaction, all);
    assert_eq!(locked(&db, all), "ABDEFH");
    transaction.rollback_to_save_point().unwrap();
    assert_eq!(locked(&db, all), "ABDEF");
    undo(&mut transaction, all);
    assert_eq!(locked(&db, all), "ABEF");
    transaction.rollback_to_save_point().unwrap();
    assert_eq!(locked(&db, all), "ABF");
    undo(&mut transaction, all);
    assert_eq!(locked(&db, all), "F");
    transaction.commit().unwrap();
}

#[test]
fn an_optimistic_commit_does_not_check_reads_that_were_undone() {
    let db = open(false);
    let check = |change: &dyn Fn(&mut Transaction), written: &str, expected: bool| {
        let mut transaction = begin(&db, false);
        change(&mut transaction);
        for key in written.chars() {
            db.put(key.to_string(), "theirs").unwrap();
        }
        assert_eq!(is_busy(transaction.commit()), expected, "{written}");
    };
    let read = |transaction: &mut Transaction, keys: &str| {
        for key in keys.chars() {
            transaction.get_for_update(key.to_string()).unwrap();
        }
    };
    check(&|t| read(t, "A"), "A", true);
    let undone = |t: &mut Transaction| {
        read(t, "AA");
        undo(t, "AA");
        t.put("other", "1").unwrap();
    };
    check(&undone, "A", false);
    let once = |t: &mut Transaction| {
        read(t, "AA");
        undo(t, "A");
    };
    check(&once, "A", true);
    let in_save_point = |t: &mut Transaction| {
        read(t, "A");
        t.set_save_point();
        read(t, "AB");
        undo(t, "AAB");
    };
    check(&in_save_point, "A", true);
    check(&in_save_point, "B", false);
    let rolled_back = |t: &mut Transaction| {
        read(t, "A");
        t.set_save_point();
        read(t, "AB");
        t.put("C", "c").unwrap();
        t.rollback_to_save_point().unwrap();
        undo(t, "A");
    };
    check(&rolled_back, "ABC", false);
}
