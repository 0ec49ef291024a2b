//! The perf context tells what the operations of a thread did.

use crate::scratch::ScratchDir;
use koeldb::perf::{self, PerfContext, PerfLevel, PerfMetric};
use koeldb::{BlockBasedOptions, Db, IteratorMode, Options, TransactionOptions, WriteOptions};

fn options() -> Options {
    let mut table = BlockBasedOptions::new();
    table
        .set_bloom_filter(10.0)
        .set_cache_index_and_filter_blocks(true)
        .set_block_size(500);
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_block_based_table_factory(&table);
    options
}

/// Opens a database of files with keys `k000` to `k199` in one table.
fn filled(path: &std::path::Path) -> Db {
    let db = Db::open(&options(), path).unwrap();
    for at in 0..200 {
        db.put(format!("k{at:03}"), [b'v'; 100]).unwrap();
    }
    db.flush().unwrap();
    drop(db);
    Db::open(&options(), path).unwrap()
}

fn counted<R>(run: impl FnOnce() -> R) -> PerfContext {
    perf::measure(PerfLevel::EnableCount, run).1
}

#[test]
fn a_point_read_counts_its_blocks_filters_and_bytes() {
    let directory = ScratchDir::new();
    let db = filled(directory.path());
    let read = || db.get("k100").unwrap().unwrap().len();
    let first = counted(read);
    let get = |done: &PerfContext, metric| done.get(metric);
    assert_eq!(get(&first, PerfMetric::GetReadBytes), 100, "{first}");
    assert_eq!(get(&first, PerfMetric::GetFromMemtableCount), 1);
    assert_eq!(get(&first, PerfMetric::BloomSstHitCount), 1);
    let blocks = get(&first, PerfMetric::BlockReadCount);
    assert!(blocks >= 1, "{first}");
    assert!(get(&first, PerfMetric::BlockReadByte) > 30, "{first}");
    assert!(get(&first, PerfMetric::BytesRead) >= get(&first, PerfMetric::BlockReadByte));
    assert_eq!(get(&first, PerfMetric::BlockReadTime), 0);
    let again = counted(read);
    assert_eq!(get(&again, PerfMetric::BlockReadCount), 0, "{again}");
    assert_eq!(get(&again, PerfMetric::BytesRead), 0);
    assert_eq!(get(&again, PerfMetric::BlockCacheHitCount), 3, "{again}");
    assert_eq!(get(&again, PerfMetric::BlockCacheIndexHitCount), 1);
    assert_eq!(get(&again, PerfMetric::BlockCacheFilterHitCount), 1);
    let absent = counted(|| (0..100).all(|at| db.get(format!("k1{at:02}x")).unwrap().is_none()));
    assert!(get(&absent, PerfMetric::BloomSstMissCount) > 90, "{absent}");
    let many = counted(|| db.multi_get(&["k001", "k002", "none"]).len());
    assert_eq!(get(&many, PerfMetric::MultigetReadBytes), 200);
    // Nothing is counted otherwise.
    perf::reset();
    read();
    assert_eq!(perf::context().to_string(), "");
}

#[test]
fn times_are_measured_from_the_level_that_includes_them() {
    let directory = ScratchDir::new();
    let db = filled(directory.path());
    let work = || {
        // Together they take longer than a step of the clock of any machine.
        for at in 0..200 {
            db.get(format!("k{at:03}")).unwrap();
        }
        db.iterator(IteratorMode::Start).count();
        let mut synced = WriteOptions::new();
        synced.set_sync(true);
        db.put_opt("key", "value", &synced).unwrap();
        db.get("key").unwrap();
    };
    let ((), done) = perf::measure(PerfLevel::EnableTime, work);
    for metric in [
        PerfMetric::BlockReadTime,
        PerfMetric::BlockChecksumTime,
        PerfMetric::GetFromMemtableTime,
        PerfMetric::GetFromOutputFilesTime,
        PerfMetric::GetPostProcessTime,
        PerfMetric::IterSeekCount,
        PerfMetric::SeekInternalSeekTime,
        PerfMetric::WriteWalTime,
        PerfMetric::WriteMemtableTime,
        PerfMetric::ReadNanos,
        PerfMetric::WriteNanos,
        PerfMetric::FsyncNanos,
        PerfMetric::BytesWritten,
    ] {
        assert!(done.get(metric) > 0, "{metric:?}: {done}");
    }
    assert!(done.to_string().contains("write_wal_time = "), "{done}");
}

#[test]
fn a_wait_for_the_lock_of_a_key_is_counted_and_timed() {
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_env(&koeldb::Env::mem_env())
        .set_transactions(&koeldb::TransactionDbOptions::new());
    let db = Db::open(&options, "/db").unwrap();
    let mut holder = db.transaction();
    holder.put("key", "1").unwrap();
    let mut waits = TransactionOptions::new();
    waits.set_lock_timeout(20);
    let (blocked, done) = perf::measure(PerfLevel::EnableWait, || {
        db.transaction_opt(&WriteOptions::new(), &waits)
            .unwrap()
            .put("key", "2")
    });
    assert!(blocked.is_err());
    assert_eq!(done.get(PerfMetric::KeyLockWaitCount), 1, "{done}");
    assert!(
        done.get(PerfMetric::KeyLockWaitTime) >= 15_000_000,
        "{done}"
    );
}
