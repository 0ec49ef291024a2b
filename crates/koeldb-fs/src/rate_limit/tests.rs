use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::*;
use crate::{FileSystem, ManualClock, MemoryFileSystem, Purpose, WritableFile, WriteOptions};

const MIB: u64 = 1 << 20;

fn limiter(rate: u64, clock: &ManualClock) -> RateLimiter {
    let clock = Arc::new(clock.clone());
    RateLimiter::builder(rate).clock(clock).build()
}

#[test]
fn bytes_pass_at_the_set_rate_after_one_period_of_burst() {
    let clock = ManualClock::new();
    let limiter = limiter(20 * MIB, &clock);
    for _ in 0..1000 {
        limiter.request(100_000, IoPriority::Low, IoKind::Write);
    }
    let passed = limiter.total_bytes_through(None) - limiter.single_burst_bytes();
    let expected = Duration::from_secs_f64(passed as f64 / (20 * MIB) as f64);
    let error = clock.now().as_secs_f64() / expected.as_secs_f64();
    assert!((0.999..1.01).contains(&error), "{error}");
    assert_eq!(limiter.total_requests(IoPriority::Low), 1000);
    assert_eq!(limiter.total_bytes_through(IoPriority::High), 0);
}

#[test]
fn idle_time_gives_no_more_than_the_tokens_of_one_period() {
    let clock = ManualClock::new();
    let limiter = limiter(10 * MIB, &clock);
    clock.advance(Duration::from_secs(60));
    let waited = limiter.request(MIB, IoPriority::Low, IoKind::Write);
    assert!(waited.is_zero());
    let waited = limiter.request(MIB, IoPriority::Low, IoKind::Write);
    assert_eq!(waited, Duration::from_millis(100));
}

#[test]
fn a_changed_rate_applies_from_then_on() {
    let clock = ManualClock::new();
    let limiter = limiter(MIB, &clock);
    limiter.request(MIB, IoPriority::Low, IoKind::Write);
    limiter.set_bytes_per_second(10 * MIB);
    let begun = clock.now();
    limiter.request(10 * MIB, IoPriority::Low, IoKind::Write);
    let elapsed = (clock.now() - begun).as_secs_f64();
    assert!((0.89..1.01).contains(&elapsed), "{elapsed}");
}

#[test]
fn requests_of_other_kinds_pass_freely() {
    let clock = Arc::new(ManualClock::new());
    for (mode, limited) in [
        (RateLimiterMode::Reads, [true, false]),
        (RateLimiterMode::Writes, [false, true]),
        (RateLimiterMode::All, [true, true]),
    ] {
        let builder = RateLimiter::builder(1000).mode(mode);
        let limiter = builder.clock(Arc::clone(&clock) as _).build();
        for (kind, is_limited) in [IoKind::Read, IoKind::Write].into_iter().zip(limited) {
            let waited = limiter.request(5000, IoPriority::High, kind);
            assert_eq!(!waited.is_zero(), is_limited, "{mode:?} {kind:?}");
        }
    }
}

/// The shares of low and high requests while both always wait.
fn low_share(fairness: u32) -> f64 {
    let clock = ManualClock::new();
    let settings = RateLimiter::builder(1000).fairness(fairness);
    let mut bucket = Bucket::new(&settings, clock.now());
    bucket.request(100, IoPriority::Low, clock.now());
    for _ in 0..20_000 {
        for priority in [IoPriority::Low, IoPriority::High] {
            while bucket.pending(Some(priority)) < 2 {
                bucket.request(10, priority, clock.now());
            }
        }
        clock.advance(Duration::from_millis(10));
        bucket.grant(clock.now());
    }
    let low = bucket.total(Some(IoPriority::Low), |of| of.bytes);
    low as f64 / bucket.total(None, |of| of.bytes) as f64
}

#[test]
fn lower_priorities_get_their_share_and_no_more() {
    for fairness in [2, 10, 50] {
        let (share, wanted) = (low_share(fairness), 1.0 / f64::from(fairness));
        assert!((share - wanted).abs() < wanted / 5.0, "{fairness}: {share}");
    }
}

#[test]
fn a_user_is_served_before_requests_that_waited_longer() {
    let clock = ManualClock::new();
    let mut bucket = Bucket::new(&RateLimiter::builder(1000), clock.now());
    assert_eq!(bucket.request(100, IoPriority::High, clock.now()), None);
    let high = bucket.request(100, IoPriority::High, clock.now()).unwrap();
    clock.advance(Duration::from_millis(50));
    bucket.grant(clock.now());
    let user = bucket.request(100, IoPriority::User, clock.now()).unwrap();
    clock.advance(Duration::from_millis(100));
    assert!(bucket.grant(clock.now()));
    assert!(bucket.is_queued(IoPriority::High, high));
    assert!(!bucket.is_queued(IoPriority::User, user));
}

#[test]
fn an_auto_tuned_rate_follows_the_demand_as_in_rocksdb() {
    let clock = ManualClock::new();
    let shared = Arc::new(clock.clone());
    let builder = RateLimiter::builder(1_000_000).auto_tuned(true);
    let limiter = builder.clock(shared).build();
    assert_eq!(limiter.bytes_per_second(), 500_000);
    let mut rates = vec![500_000];
    // Full demand: 5 % more after every hundred periods.
    while clock.now() < Duration::from_secs(35) {
        limiter.request(20_000, IoPriority::Low, IoKind::Write);
        if limiter.bytes_per_second() != rates[rates.len() - 1] {
            rates.push(limiter.bytes_per_second());
        }
    }
    assert_eq!(rates, [500_000, 525_000, 551_250, 578_812]);
    // No demand: the smallest rate.
    clock.advance(Duration::from_secs(20));
    limiter.request(1, IoPriority::Low, IoKind::Write);
    clock.advance(Duration::from_secs(20));
    limiter.request(1, IoPriority::Low, IoKind::Write);
    assert_eq!(limiter.bytes_per_second(), 50_000);
    // Some demand: 5 % less, but never below the smallest rate.
    limiter.set_bytes_per_second(1_000_000);
    limiter.request(400_000, IoPriority::Low, IoKind::Write);
    clock.advance(Duration::from_secs(20));
    limiter.request(1, IoPriority::Low, IoKind::Write);
    assert_eq!(limiter.bytes_per_second(), 952_380);
}

#[test]
fn threads_share_the_rate_of_a_limiter_on_the_clock_of_the_machine() {
    let limiter = RateLimiter::builder(8 * MIB)
        .refill_period(Duration::from_millis(20))
        .build();
    let left = AtomicU64::new(64);
    let begun = SystemClock.now();
    thread::scope(|scope| {
        for priority in IoPriority::ALL {
            let (limiter, left) = (&limiter, &left);
            scope.spawn(move || {
                while left
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1))
                    .is_ok()
                {
                    limiter.request(64 << 10, priority, IoKind::Write);
                }
            });
        }
    });
    let elapsed = (SystemClock.now() - begun).as_secs_f64();
    // 4 MiB, of which one period is free. A machine with other work may take longer.
    assert!(elapsed > 0.47, "{elapsed}");
    assert_eq!(limiter.total_bytes_through(None), 4 * MIB);
    assert_eq!(limiter.pending_requests(None), 0);
}

#[test]
fn every_byte_of_a_limited_file_is_charged_once() {
    let clock = ManualClock::new();
    let limiter = limiter(MIB, &clock);
    let fs = MemoryFileSystem::new();
    let path = std::path::Path::new("/file");
    let file = fs.create(path, &WriteOptions::new(Purpose::Flush)).unwrap();
    let charge = IoCharge::new(&limiter, IoPriority::High, IoKind::Write, None).unwrap();
    let mut file: Box<dyn WritableFile> = Box::new(LimitedFile::new(file, Arc::new(charge)));
    for _ in 0..100 {
        file.append(&[7; 5000]).unwrap();
    }
    file.sync_data().unwrap();
    assert_eq!(limiter.total_bytes_through(IoPriority::High), 500_000);
    file.append(&[7; 11]).unwrap();
    file.close().unwrap();
    assert_eq!(limiter.total_bytes_through(IoPriority::High), 500_011);
    assert!(
        clock.now() > Duration::from_millis(370),
        "{:?}",
        clock.now()
    );
}
