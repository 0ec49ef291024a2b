//! Transactions that revert their operations and begin again.

use super::*;

#[test]
fn a_cleared_transaction_keeps_its_snapshot_and_loses_no_update() {
    for is_pessimistic in [false, true] {
        let db = open(is_pessimistic);
        db.put("k", "0").unwrap();
        let mut options = impatient();
        options.set_snapshot(true);
        let mut transaction = begin(&db, &options);
        let id = transaction.id();
        transaction.put("other", "1").unwrap();
        transaction.set_save_point();
        transaction.clear();
        // Its lock is released, and so is its check.
        db.put("other", "2").unwrap();
        db.put("k", "1").unwrap();
        assert_eq!(transaction.id(), id);
        assert_eq!(transaction.batch().len(), 0);
        assert!(transaction.rollback_to_save_point().is_err());
        assert_eq!(transaction.get("k").unwrap().as_deref(), Some(&b"0"[..]));
        assert_eq!(transaction.get("other").unwrap(), None);
        // A write by what the snapshot shows would lose the update.
        let written = transaction.put("k", "0+");
        let done = written.and_then(|()| transaction.commit());
        assert_eq!(done.unwrap_err().kind(), ErrorKind::Busy);
        assert_eq!(db.get("k").unwrap().as_deref(), Some(&b"1"[..]));
    }
}

#[test]
fn a_cleared_transaction_writes_only_what_follows() {
    for is_pessimistic in [false, true] {
        let db = open(is_pessimistic);
        let mut transaction = begin(&db, &impatient());
        transaction.put("a", "1").unwrap();
        assert!(transaction.get_for_update("b").unwrap().is_none());
        transaction.clear();
        db.put("b", "2").unwrap();
        transaction.put("c", "3").unwrap();
        transaction.commit().unwrap();
        assert_eq!(db.get("a").unwrap(), None);
        assert_eq!(db.get("c").unwrap().as_deref(), Some(&b"3"[..]));
        db.put("a", "4").unwrap();
        db.put("c", "4").unwrap();
    }
}
