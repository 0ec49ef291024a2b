use std::pin::pin;
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Waker};

use koeldb_fs::{Failure, FaultFileSystem, FaultRule, Purpose};

use super::*;
use crate::options::Options;
use crate::{Db, Result};

const LIMIT: Duration = Duration::from_secs(60);

/// An environment in memory whose system refuses more than `allowed` threads.
fn env_with_threads(allowed: usize) -> Env {
    let env = Env::mem_env();
    env.pool.allow_threads(Some(allowed));
    env
}

fn options(env: &Env) -> Options {
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_write_buffer_size(64 << 10)
        .set_level_zero_file_num_compaction_trigger(2)
        .set_bgerror_resume_retry_interval(Duration::from_millis(5))
        .set_env(env);
    options
}

/// Runs `work` in another thread; fails if it does not end.
fn in_time<R: Send + 'static>(what: &str, work: impl FnOnce() -> R + Send + 'static) -> R {
    let (tell, told) = channel();
    std::thread::spawn(move || tell.send(work()));
    told.recv_timeout(LIMIT)
        .unwrap_or_else(|_| panic!("does not end: {what}"))
}

fn put(db: &Db, index: u32) -> Result<()> {
    db.put(index.to_le_bytes(), [7; 1000])
}

#[test]
fn without_threads_those_who_wait_flush_and_compact() {
    let env = env_with_threads(0);
    let opened = options(&env);
    let db = Db::open(&opened, "/db").unwrap();
    let db = in_time("stopped writes", move || {
        for index in 0..1000 {
            put(&db, index).unwrap();
        }
        db
    });
    let db = in_time("a flush", move || {
        db.flush().unwrap();
        db
    });
    let db = in_time("a compaction", move || {
        db.default_cf().compact_range(..).unwrap();
        db.wait_for_compact(None).unwrap();
        db
    });
    in_time("a close", move || {
        for index in 0..100 {
            put(&db, index).unwrap();
        }
        db.flush_opt(crate::options::FlushOptions::new().set_wait(false))
            .unwrap();
        db.close().unwrap();
    });
    let db = Db::open(&opened, "/db").unwrap();
    assert_eq!(db.range(..).count(), 1000);
}

#[test]
fn a_queued_job_gets_a_thread_as_soon_as_one_can_be_started() {
    let faults = FaultFileSystem::new(Arc::new(MemoryFileSystem::new()), 1);
    let env = Env::new(Arc::new(faults.clone()), Arc::new(SystemClock));
    env.pool.allow_threads(Some(0));
    let db = Db::open(&options(&env), "/db").unwrap();
    put(&db, 0).unwrap();
    faults.add_rule(
        FaultRule::fail(Failure::Device)
            .purpose(Purpose::Wal)
            .nth(1),
    );
    put(&db, 1).unwrap_err();
    let refused = put(&db, 1).unwrap_err();
    assert_eq!(refused.severity(), koeldb_base::error::Severity::Hard);
    env.pool.allow_threads(None);
    let begun = SystemClock.now();
    while put(&db, 1).is_err() {
        assert!(SystemClock.now() - begun < LIMIT, "no resume");
        SystemClock.sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_thread_that_helps_runs_no_job_that_waits_for_others() {
    let env = env_with_threads(0);
    let (tell, told) = channel();
    let job = |name: &'static str| {
        let tell = tell.clone();
        move || tell.send(name).unwrap()
    };
    env.pool.submit_waiting(job("waiting"));
    env.pool.submit(JobPriority::Low, job("low"));
    env.pool.submit(JobPriority::High, job("high"));
    while env.pool.wait(Duration::ZERO) {}
    assert_eq!(told.try_iter().collect::<Vec<_>>(), ["high", "low"]);
    env.pool.allow_threads(Some(1));
    assert!(!env.pool.wait(Duration::ZERO));
    assert_eq!(told.recv_timeout(LIMIT), Ok("waiting"));
}

#[test]
fn a_wait_without_threads_tells_that_a_compaction_fails() {
    let faults = FaultFileSystem::new(Arc::new(MemoryFileSystem::new()), 1);
    let env = Env::new(Arc::new(faults.clone()), Arc::new(SystemClock));
    env.pool.allow_threads(Some(0));
    let db = Db::open(&options(&env), "/db").unwrap();
    faults.add_rule(FaultRule::fail(Failure::TooManyFiles).purpose(Purpose::Compaction));
    in_time("the failure of a compaction", move || {
        for _ in 0..4 {
            // Overlapping tables, which are not only moved.
            put(&db, 0).unwrap();
            put(&db, 9).unwrap();
            db.flush().unwrap();
        }
        // The waiting thread runs the compaction and its pause.
        for _ in 0..2 {
            let error = db.wait_for_compact(None).unwrap_err();
            assert_eq!(error.kind(), koeldb_base::ErrorKind::IoError, "{error}");
        }
        faults.clear_rules();
        db.wait_for_compact(None).unwrap();
    });
}

#[test]
fn a_stream_needs_no_thread() {
    let env = env_with_threads(0);
    let db = Db::open(&options(&env), "/db").unwrap();
    for index in 0..20 {
        put(&db, index).unwrap();
    }
    let mut stream = pin!(db.range(..).into_stream());
    let mut context = Context::from_waker(Waker::noop());
    let mut count = 0;
    while let Poll::Ready(Some(entry)) =
        futures_core::Stream::poll_next(stream.as_mut(), &mut context)
    {
        entry.unwrap();
        count += 1;
    }
    assert_eq!(count, 20);
}
