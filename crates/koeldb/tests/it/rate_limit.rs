//! Rate limiters: flushes, compactions, reads and log writes take their tokens.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use koeldb::fs::{Clock, ManualClock, MemoryFileSystem};
use koeldb::statistics::{Statistics, Ticker};
use koeldb::{
    Db, Env, ErrorKind, IoPriority, Options, RateLimiter, RateLimiterMode, ReadOptions,
    WriteOptions, WriteOutcome,
};

const RATE: u64 = 1 << 20;

fn limiter(clock: &ManualClock, mode: RateLimiterMode) -> RateLimiter {
    let clock = Arc::new(clock.clone());
    RateLimiter::builder(RATE).mode(mode).clock(clock).build()
}

/// Options of databases on one clock, which only waits for the limiter move.
fn options(clock: &ManualClock) -> Options {
    let env = Env::new(Arc::new(MemoryFileSystem::new()), Arc::new(clock.clone()));
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_compression_type(koeldb::Compression::None)
        .set_disable_auto_compactions(true)
        .set_env(&env);
    options
}

fn fill(db: &Db, round: u32) {
    for key in 0..2000 {
        let value = [round.to_le_bytes()[0]; 500];
        db.put(format!("{key:06}"), value).unwrap();
    }
    db.flush().unwrap();
}

fn table_bytes(db: &Db) -> u64 {
    db.live_files().iter().map(|file| file.bytes).sum()
}

/// Asserts that the bytes above one period's have passed at the rate.
fn assert_rate(clock: &ManualClock, begun: Duration, bytes: u64) {
    let elapsed = (clock.now() - begun).as_secs_f64();
    let expected = (bytes as f64 - RATE as f64 / 10.0) / RATE as f64;
    let ratio = elapsed / expected;
    assert!(
        (0.98..1.02).contains(&ratio),
        "{elapsed} s, expected {expected}"
    );
}

#[test]
fn flushes_and_compactions_of_all_databases_share_the_rate() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, RateLimiterMode::Writes);
    let statistics = Statistics::new();
    let mut options = options(&clock);
    options
        .set_rate_limiter(&limiter)
        .set_statistics(statistics.clone());
    let begun = clock.now();
    let databases = ["/one", "/two"].map(|path| Db::open(&options, path).unwrap());
    let mut flushed = 0;
    for db in &databases {
        fill(db, 1);
        fill(db, 2);
        flushed += table_bytes(db);
    }
    assert_eq!(limiter.total_bytes_through(IoPriority::High), flushed);
    assert_eq!(limiter.total_bytes_through(IoPriority::Low), 0);
    let mut compacted = 0;
    for db in &databases {
        db.compact_range(..).unwrap();
        compacted += table_bytes(db);
    }
    assert_eq!(limiter.total_bytes_through(IoPriority::Low), compacted);
    assert_rate(&clock, begun, flushed + compacted);
    let of = |ticker| statistics.ticker(ticker);
    assert_eq!(of(Ticker::RateLimiterBytesWrite), flushed + compacted);
    assert!(of(Ticker::RateLimiterDelayedRequestsWrite) > 0);
    assert!(of(Ticker::RateLimiterTotalWaitMicrosWrite) > 3_000_000);
    assert!(of(Ticker::NumberRateLimiterDrains) > 10);
}

#[test]
fn the_option_creates_a_limiter_on_the_clock_of_the_database() {
    let clock = ManualClock::new();
    let mut options = options(&clock);
    options.set_rate_limiter_bytes_per_sec(RATE);
    let db = Db::open(&options, "/db").unwrap();
    let begun = clock.now();
    fill(&db, 1);
    assert_rate(&clock, begun, table_bytes(&db));
    assert!(db.settings_without_effect().is_empty());
}

#[test]
fn reads_are_charged_if_they_and_the_limiter_say_so() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, RateLimiterMode::Reads);
    let mut options = options(&clock);
    options.set_rate_limiter(&limiter);
    let db = Db::open(&options, "/db").unwrap();
    fill(&db, 1);
    let of_users = || limiter.total_bytes_through(IoPriority::User);
    let mut read = ReadOptions::new();
    read.fill_cache(false);
    db.get_opt("000007", &read).unwrap().unwrap();
    assert_eq!(limiter.total_bytes_through(None), 0);
    read.set_rate_limiter_priority(IoPriority::User);
    db.get_opt("000007", &read).unwrap().unwrap();
    let of_get = of_users();
    assert!((3000..9000).contains(&of_get), "{of_get}");
    for (overlapping, keys) in [(false, ["000100", "001000"]), (true, ["000300", "001300"])] {
        read.set_async_io(overlapping);
        let before = of_users();
        for value in db.multi_get_opt(&keys, &read).iter() {
            value.unwrap().unwrap();
        }
        assert!(of_users() >= before + 6000, "{overlapping}");
        let before = of_users();
        let mut cursor = db.cursor_opt(&read);
        let mut count = 0;
        let mut is_there = cursor.seek_to_first().unwrap();
        while is_there {
            count += 1;
            is_there = cursor.next().unwrap();
        }
        assert_eq!(count, 2000);
        let scanned = of_users() - before;
        let bytes = table_bytes(&db);
        assert!(scanned > bytes * 9 / 10 && scanned < bytes * 3, "{scanned}");
    }
    let begun = clock.now();
    fill(&db, 2);
    assert_eq!(clock.now(), begun, "writes are not limited");
    db.compact_range(..).unwrap();
    let of_compactions = limiter.total_bytes_through(IoPriority::Low);
    assert!(of_compactions > 1_800_000, "{of_compactions}");
    let waiting = std::pin::pin!(db.get_async_opt("000007", &read));
    let mut task = std::task::Context::from_waker(std::task::Waker::noop());
    match waiting.poll(&mut task) {
        std::task::Poll::Ready(Err(error)) => assert_eq!(error.kind(), ErrorKind::NotSupported),
        other => panic!("{other:?}"),
    }
}

#[test]
fn log_writes_are_charged_on_request_and_only_as_users() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, RateLimiterMode::Writes);
    let mut options = options(&clock);
    options.set_rate_limiter(&limiter);
    let db = Db::open(&options, "/db").unwrap();
    let begun = clock.now();
    let mut write = WriteOptions::new();
    write.set_rate_limiter_priority(IoPriority::User);
    for key in 0..1000 {
        db.put_opt(format!("{key:06}"), [7; 1000], &write).unwrap();
        db.put(format!("free {key}"), [7; 1000]).unwrap();
    }
    let charged = limiter.total_bytes_through(IoPriority::User);
    assert!((1_000_000..1_030_000).contains(&charged), "{charged}");
    assert_rate(&clock, begun, charged);
    let mut unlogged = write;
    unlogged.disable_wal(true);
    let mut low = write;
    low.set_rate_limiter_priority(IoPriority::Low);
    for refused in [unlogged, low] {
        let error = db.put_opt("key", "value", &refused).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert_eq!(error.write_outcome(), Some(WriteOutcome::NotApplied));
    }
}

#[test]
fn a_lower_rate_than_the_flushes_need_delays_them_and_loses_nothing() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, RateLimiterMode::All);
    let mut options = options(&clock);
    options
        .set_disable_auto_compactions(false)
        .set_write_buffer_size(64 << 10)
        .set_rate_limiter(&limiter);
    let db = Db::open(&options, "/db").unwrap();
    for key in 0..5000 {
        db.put(format!("{:06}", key % 1500), format!("{key:0200}"))
            .unwrap();
        if key == 2500 {
            limiter.set_bytes_per_second(RATE / 4);
        }
    }
    db.close().unwrap();
    let db = Db::open(&options, "/db").unwrap();
    for key in 3500..5000 {
        let value = db.get(format!("{:06}", key % 1500)).unwrap().unwrap();
        assert_eq!(value, format!("{key:0200}").as_bytes());
    }
}
