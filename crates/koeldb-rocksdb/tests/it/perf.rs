//! Measurements of the operations of a thread.

use rocksdb::perf::set_perf_stats;
use rocksdb::{
    DB, Options, PerfContext, PerfMetric, PerfStatsLevel, TransactionDB, TransactionDBOptions,
};

#[test]
fn perf_context_has_the_reads_and_writes_of_its_thread() {
    let dir = tempfile::tempdir().unwrap();
    let db = DB::open_default(dir.path()).unwrap();
    let mut context = PerfContext::default();
    db.put("key", "value").unwrap();
    assert_eq!(db.get("key").unwrap().unwrap(), b"value");
    assert_eq!(context.report(true), "");

    set_perf_stats(PerfStatsLevel::EnableCount);
    db.get("key").unwrap();
    assert_eq!(context.metric(PerfMetric::GetReadBytes), 5);
    assert_eq!(context.metric(PerfMetric::GetFromMemtableCount), 1);
    assert_eq!(context.metric(PerfMetric::GetFromMemtableTime), 0);
    db.flush().unwrap();
    db.get("key").unwrap();
    assert_eq!(context.metric(PerfMetric::GetReadBytes), 10);
    assert!(context.metric(PerfMetric::BlockReadCount) > 0);
    let elsewhere = std::thread::spawn(|| PerfContext::default().report(true));
    assert_eq!(elsewhere.join().unwrap(), "");

    let report = context.report(true);
    assert!(report.contains("get_read_bytes = 10"), "{report}");
    assert!(!report.contains("= 0"), "{report}");
    assert!(context.report(false).contains("key_lock_wait_time = 0"));
    assert!(!context.report(false).contains("bytes_written"));

    context.reset();
    assert_eq!(context.report(true), "");
    set_perf_stats(PerfStatsLevel::EnableTimeExceptForMutex);
    // A coarse clock sees no time in a single one.
    for _ in 0..200 {
        db.put("key", "value").unwrap();
    }
    assert!(context.metric(PerfMetric::WriteWalTime) > 0);
    assert!(context.metric(PerfMetric::WriteMemtableTime) > 0);

    context.reset();
    set_perf_stats(PerfStatsLevel::Disable);
    db.get("key").unwrap();
    assert_eq!(context.report(true), "");
}

#[test]
fn perf_context_counts_waits_for_locks_of_keys() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    options.create_if_missing(true);
    let mut locks = TransactionDBOptions::default();
    locks.set_txn_lock_timeout(1);
    let db: TransactionDB = TransactionDB::open(&options, &locks, dir.path()).unwrap();
    let holder = db.transaction();
    holder.put("key", "1").unwrap();

    set_perf_stats(PerfStatsLevel::EnableTime);
    let context = PerfContext::default();
    db.transaction().put("key", "2").unwrap_err();
    assert_eq!(context.metric(PerfMetric::KeyLockWaitCount), 1);
    assert!(context.metric(PerfMetric::KeyLockWaitTime) > 0);
}

#[test]
fn metrics_have_the_numbers_of_rocksdb() {
    let numbered = [
        (PerfMetric::UserKeyComparisonCount, 0),
        (PerfMetric::BlockReadCount, 2),
        (PerfMetric::GetFromMemtableCount, 16),
        (PerfMetric::WriteWalTime, 29),
        (PerfMetric::BloomSstMissCount, 45),
        (PerfMetric::EnvNewLoggerNanos, 67),
        (PerfMetric::TotalMetricCount, 68),
    ];
    for (metric, number) in numbered {
        assert_eq!(metric as i32, number, "{metric:?}");
    }
}
