//! Conflicts with entries that compactions and ingestions move or remove.

use super::*;

#[test]
fn a_key_that_is_tracked_later_conflicts_with_its_single_deletion() {
    let db = open(false);
    db.put("z", "z").unwrap();
    let mut transaction = db.transaction();
    transaction.put("a", "1").unwrap();
    db.put("k", "v").unwrap();
    assert!(transaction.get_for_update("k").unwrap().is_some());
    db.default_cf().single_delete("k").unwrap();
    db.flush().unwrap();
    transaction.put("copy", "v").unwrap();
    assert_eq!(transaction.commit().unwrap_err().kind(), ErrorKind::Busy);
}

#[test]
fn a_compaction_to_the_bottom_hides_no_conflict_from_either_tier() {
    let tiers = [
        (ValidationTier::All, ErrorKind::Busy),
        (ValidationTier::Memtable, ErrorKind::TryAgain),
    ];
    for (tier, expected) in tiers {
        let db = open(false);
        db.put("k", "0").unwrap();
        db.flush().unwrap();
        let mut options = TransactionOptions::new();
        options.set_validation_tier(tier);
        let mut transaction = begin(&db, &options);
        transaction.get_for_update("k").unwrap();
        db.put("k", "1").unwrap();
        db.flush().unwrap();
        db.compact_all(&CompactRangeOptions::new()).unwrap();
        transaction.put("k", "0+").unwrap();
        assert_eq!(transaction.commit().unwrap_err().kind(), expected);
    }
}

#[test]
fn a_commit_of_log_data_alone_is_logged() {
    for is_pessimistic in [false, true] {
        let db = open(is_pessimistic);
        let logged = || db.log_files().unwrap().last().unwrap().bytes;
        let before = logged();
        let mut transaction = db.transaction();
        transaction.put_log_data("note");
        transaction.commit().unwrap();
        assert!(logged() > before);
    }
}
