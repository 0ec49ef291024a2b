//! Prepared transactions that others decide, and logs that repeat them after a failure.

use super::*;
use crate::RecoveryMode;

#[test]
fn another_thread_that_decides_immediately_leaves_no_locks() {
    const ROUNDS: u32 = 3000;
    let (db, _) = open(&MemoryFileSystem::new());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..ROUNDS {
                loop {
                    if let Some(prepared) = db.prepared_transaction(round.to_string()) {
                        prepared.commit().unwrap();
                        break;
                    }
                    std::hint::spin_loop();
                }
            }
        });
        for round in 0..ROUNDS {
            prepare(&db, &round.to_string(), &format!("k{round}"), "v");
            while db.prepared_transaction(round.to_string()).is_some() {
                std::hint::spin_loop();
            }
        }
    });
    assert!(db.lock_status().is_empty());
}

#[test]
fn a_crash_before_a_resumed_flush_is_recorded_leaves_a_database_that_opens() {
    for mode in [
        RecoveryMode::PointInTime,
        RecoveryMode::TolerateCorruptedTailRecords,
        RecoveryMode::AbsoluteConsistency,
    ] {
        let fs = MemoryFileSystem::new();
        let faults = Arc::new(FaultFileSystem::new(Arc::new(fs.clone()), 1));
        let mut options = options(&fs);
        options
            .set_wal_recovery_mode(mode)
            .set_max_bgerror_resume_count(0)
            .set_env(&Env::new(faults.clone(), Arc::new(SystemClock)));
        let (db, _) = open_as(&options).unwrap();
        // Unflushed data keep the failed log needed.
        db.put_opt("s", "1", &synced()).unwrap();
        prepare(&db, "t", "u", "1");
        faults.add_rule(
            FaultRule::fail(Failure::Device)
                .on_syncs()
                .purpose(Purpose::Wal),
        );
        db.put_opt("x", "1", &synced()).unwrap_err();
        faults.clear_rules();
        faults.add_rule(
            FaultRule::fail(Failure::Device)
                .on_mutations()
                .purpose(Purpose::Flush),
        );
        let _ = db.resume();
        let image = fs.crash_image(SurvivalPolicy::Generous, 0);
        options.set_env(&Env::new(Arc::new(image), Arc::new(SystemClock)));
        let (db, _) = open_as(&options).unwrap_or_else(|error| panic!("{mode:?}: {error}"));
        assert_eq!(db.prepared_transactions().len(), 1, "{mode:?}");
        db.put("y", "1").unwrap();
        db.prepared_transaction("t").unwrap().commit().unwrap();
        assert!(db.get("u").unwrap().is_some());
        db.close().unwrap();
        drop(db);
        let (db, _) = open_as(&options).unwrap();
        assert!(db.get("u").unwrap().is_some() && db.get("y").unwrap().is_some());
    }
}
