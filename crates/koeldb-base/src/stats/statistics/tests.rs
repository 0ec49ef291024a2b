use std::sync::Barrier;
use std::thread;

use super::*;

#[test]
fn totals_are_sums_over_living_and_ended_threads() {
    let statistics = Statistics::new();
    let counted = Barrier::new(5);
    let checked = Barrier::new(5);
    thread::scope(|scope| {
        for thread in 1..=4_u64 {
            let (statistics, counted, checked) = (statistics.clone(), &counted, &checked);
            scope.spawn(move || {
                for i in 0..1000 {
                    statistics.add(Ticker::BlockCacheHit, thread);
                    statistics.record(HistogramKind::DbGet, i);
                }
                counted.wait();
                checked.wait();
            });
        }
        counted.wait();
        assert_eq!(statistics.ticker(Ticker::BlockCacheHit), 10_000);
        checked.wait();
    });
    statistics.add_all(&[(Ticker::BlockCacheHit, 1), (Ticker::BlockCacheMiss, 2)]);
    assert_eq!(statistics.ticker(Ticker::BlockCacheHit), 10_001);
    assert_eq!(statistics.ticker(Ticker::BlockCacheMiss), 2);
    let data = statistics.histogram(HistogramKind::DbGet);
    assert_eq!(
        (data.count, data.min, data.max, data.sum),
        (4000, 0, 999, 4 * 499_500)
    );
}

#[test]
fn ended_threads_leave_no_slot() {
    let statistics = Statistics::new();
    for _ in 0..10 {
        let statistics = statistics.clone();
        thread::spawn(move || statistics.add(Ticker::BytesRead, 1))
            .join()
            .unwrap();
    }
    assert_eq!(statistics.ticker(Ticker::BytesRead), 10);
    assert!(statistics.shared.registry().slots.is_empty());
}

#[test]
fn a_thread_forgets_statistics_that_are_gone() {
    for round in 0..100 {
        let statistics = Statistics::new();
        statistics.add(Ticker::BytesRead, round);
        assert_eq!(statistics.ticker(Ticker::BytesRead), round);
    }
    MEMBERSHIPS.with_borrow(|memberships| assert!(memberships.len() <= 2));
}

#[test]
fn reset_begins_anew() {
    let statistics = Statistics::new();
    statistics.add(Ticker::BytesRead, 7);
    statistics.record(HistogramKind::DbWrite, 7);
    statistics.reset();
    assert_eq!(statistics.ticker(Ticker::BytesRead), 0);
    assert_eq!(
        statistics.histogram(HistogramKind::DbWrite),
        HistogramData::EMPTY
    );
    statistics.add(Ticker::BytesRead, 2);
    statistics.record(HistogramKind::DbWrite, 3);
    assert_eq!(statistics.ticker(Ticker::BytesRead), 2);
    assert_eq!(statistics.histogram(HistogramKind::DbWrite).min, 3);
}

#[test]
fn percentiles_follow_the_buckets() {
    let statistics = Statistics::new();
    for value in 1..=100 {
        statistics.record(HistogramKind::DbGet, value);
    }
    let data = statistics.histogram(HistogramKind::DbGet);
    // 34 values are at most 34 and 51 at most 51: the median lies 16/17 into the bucket (34, 51].
    assert!((data.median() - 50.0).abs() < 1e-9);
    // The last bucket is (76, 110] and holds 24 values.
    assert!(
        (data.percentile(99.0) - 100.0).abs() < 1e-9,
        "clipped to the largest"
    );
    assert!((data.percentile(80.0) - (76.0 + 34.0 * 4.0 / 24.0)).abs() < 1e-9);
    assert!((data.average() - 50.5).abs() < 1e-9);
    assert!((data.standard_deviation() - 28.866).abs() < 1e-3);
    assert_eq!(data.buckets().last(), Some((76, 110, 24)));
}

#[test]
fn a_difference_covers_what_came_between() {
    let statistics = Statistics::new();
    statistics.record(HistogramKind::DbGet, 5);
    statistics.add(Ticker::BytesRead, 5);
    let earlier = statistics.snapshot();
    statistics.record(HistogramKind::DbGet, 200);
    statistics.add(Ticker::BytesRead, 3);
    let delta = statistics.snapshot().since(&earlier);
    assert_eq!(delta.ticker(Ticker::BytesRead), 3);
    let data = delta.histogram(HistogramKind::DbGet);
    assert_eq!((data.count, data.sum, data.max), (1, 200, 200));
    assert!(data.min >= 170);
    assert_eq!(
        earlier
            .since(&earlier)
            .histogram(HistogramKind::DbGet)
            .count,
        0
    );
}

#[test]
fn the_dump_is_rocksdbs() {
    let statistics = Statistics::new();
    statistics.record(HistogramKind::DbWrite, 4);
    let dump = statistics.to_string();
    assert!(
        dump.starts_with("rocksdb.block.cache.miss COUNT : 0\nrocksdb.block.cache.hit COUNT : 0\n")
    );
    assert!(dump.contains(
        "\nrocksdb.db.write.micros P50 : 4.000000 P95 : 4.000000 P99 : 4.000000 P100 : 4.000000 COUNT : 1 SUM : 4\n"
    ));
    assert!(dump.contains("\nrocksdb.db.get.micros P50 : 0.000000 P95 : 0.000000"));
}

#[test]
fn levels_leave_out_times_then_histograms_then_all() {
    let counts_at = |level| {
        let statistics = Statistics::new();
        statistics.set_level(level);
        assert_eq!(statistics.level(), level);
        statistics.add(Ticker::BytesRead, 1);
        statistics.add_all(&[(Ticker::BytesRead, 1)]);
        statistics.record(HistogramKind::DbGet, 1);
        statistics.record(HistogramKind::BytesPerRead, 1);
        (
            statistics.ticker(Ticker::BytesRead),
            statistics.histogram(HistogramKind::BytesPerRead).count,
            statistics.histogram(HistogramKind::DbGet).count,
        )
    };
    assert_eq!(counts_at(StatsLevel::DisableAll), (0, 0, 0));
    assert_eq!(counts_at(StatsLevel::ExceptHistogramOrTimers), (2, 0, 0));
    assert_eq!(counts_at(StatsLevel::ExceptTimers), (2, 1, 0));
    assert_eq!(counts_at(StatsLevel::default()), (2, 1, 1));
    assert_eq!(counts_at(StatsLevel::All), (2, 1, 1));
    assert_eq!(StatsLevel::from_number(6), None);
}
