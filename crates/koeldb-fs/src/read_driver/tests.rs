use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use koeldb_base::ErrorKind;

use super::*;
use crate::clock::Clock;
use crate::fault::{Failure, FaultAction, FaultFileSystem, FaultRule};
use crate::file::{FileSystem, OpenOptions, RandomAccessFile, WriteOptions};
use crate::layer::Operation;
use crate::memory::MemoryFileSystem;

const FILE_BYTES: usize = 40_000;

fn byte_at(offset: usize) -> u8 {
    u8::try_from(offset * 31 % 251).unwrap()
}

fn write(fs: &dyn FileSystem) {
    let mut file = fs
        .create(Path::new("/table"), &WriteOptions::default())
        .unwrap();
    let bytes: Vec<u8> = (0..FILE_BYTES).map(byte_at).collect();
    file.append(&bytes).unwrap();
    file.close().unwrap();
}

fn open(fs: &dyn FileSystem, direct: bool) -> Arc<dyn RandomAccessFile> {
    let options = OpenOptions {
        direct,
        ..OpenOptions::default()
    };
    fs.open(Path::new("/table"), &options).unwrap()
}

fn file() -> Arc<dyn RandomAccessFile> {
    let fs = MemoryFileSystem::new();
    write(&fs);
    open(&fs, false)
}

fn expected(offset: usize, length: usize) -> Vec<u8> {
    (offset..(offset + length).min(FILE_BYTES).max(offset))
        .map(byte_at)
        .collect()
}

fn error_of(code: i32) -> koeldb_base::Error {
    let error = std::io::Error::from_raw_os_error(code);
    koeldb_base::Error::io(error, "read", Path::new("/table"))
}

/// Every way to carry out reads that runs anywhere.
fn everywhere() -> Vec<AsyncReads> {
    vec![
        AsyncReads::off(),
        AsyncReads::pool(1),
        AsyncReads::pool(4),
        SimReads::new(7).reads(),
    ]
}

/// Reads ranges and checks each against the file.
fn check_ranges(driver: &mut dyn ReadDriver, file: &Arc<dyn RandomAccessFile>) {
    let ranges = [
        (0, 1),
        (0, FILE_BYTES),
        (4095, 2),
        (12_288, 4096),
        (39_000, 1000),
        (39_999, 500),
        (40_000, 1),
        (90_000, 10),
        (17, 0),
    ];
    let ids: Vec<OpId> = ranges
        .iter()
        .map(|&(offset, length)| driver.push(ReadOp::new(file, offset as u64, length)))
        .collect();
    driver.flush();
    let mut seen = 0;
    while driver.outstanding() > 0 {
        let reaped = driver.reap(1, None, &mut |id, outcome| {
            let (offset, length) = ranges[ids.iter().position(|&known| known == id).unwrap()];
            assert_eq!(*outcome.result.unwrap(), expected(offset, length));
            seen += 1;
        });
        assert!(reaped >= 1);
    }
    assert_eq!(seen, ranges.len());
    assert_eq!(driver.reap(1, None, &mut |_, _| unreachable!()), 0);
}

#[test]
fn every_driver_reads_what_the_file_has_and_less_only_at_its_end() {
    for reads in everywhere() {
        for direct in [false, true] {
            let fs = MemoryFileSystem::new();
            write(&fs);
            let file = open(&fs, direct);
            check_ranges(&mut reads.inline(), &file);
            check_ranges(&mut reads.shared(), &file);
        }
        let counts = reads.counts();
        assert_eq!(counts.under_way, 0);
        assert_eq!((counts.rounds, counts.reads), (4, 36), "{reads:?}");
    }
}

#[test]
fn an_error_is_that_of_one_read_and_says_where() {
    let fs = MemoryFileSystem::new();
    write(&fs);
    for reads in everywhere() {
        let faults = FaultFileSystem::new(Arc::new(fs.clone()), 1);
        faults.add_rule(
            FaultRule::fail(Failure::Device)
                .on(&[Operation::Read])
                .nth(2),
        );
        let file = open(&faults, false);
        let mut driver = reads.shared();
        for block in 0..3 {
            driver.push(ReadOp::new(&file, block * 4096, 4096));
        }
        driver.flush();
        let (mut good, mut bad) = (0, 0);
        driver.reap(3, None, &mut |_, outcome| match outcome.result {
            Ok(bytes) => good += bytes.len(),
            Err(error) => {
                bad += 1;
                assert_eq!(error.kind(), ErrorKind::IoError);
                assert_eq!(error.file().unwrap().path, Path::new("/table"));
            }
        });
        assert_eq!((good, bad), (8192, 1), "{reads:?}");
    }
}

#[test]
fn f11_partial_reads_are_continued_where_they_stopped() {
    let file = file();
    let sim = SimReads::new(3);
    let reads = sim.reads();
    for step in [1, 7, 4095, 30_000] {
        sim.set_script(move |_| SimAttempt::Short(step));
        let mut driver = reads.inline();
        driver.push(ReadOp::new(&file, 123, 9000));
        driver.push(ReadOp::new(&file, 39_990, 9000));
        driver.flush();
        let mut lengths = Vec::new();
        driver.reap(2, None, &mut |_, outcome| {
            let bytes = outcome.result.unwrap();
            let offset = if bytes.len() == 10 { 39_990 } else { 123 };
            assert_eq!(*bytes, expected(offset, 9000));
            lengths.push(bytes.len());
        });
        lengths.sort_unstable();
        assert_eq!(lengths, [10, 9000]);
    }
}

#[cfg(unix)]
#[test]
fn interrupted_and_refused_reads_are_repaired_and_others_reported() {
    let file = file();
    let sim = SimReads::new(5);
    let reads = sim.reads();
    // Errors, how often in a row, and whether the read succeeds in the end.
    let cases = [
        (libc::EINTR, 5, true),
        (libc::EAGAIN, 100, true),
        (libc::EINVAL, 1, true),
        (libc::EOPNOTSUPP, 1, true),
        (libc::EFAULT, 1, true),
        (libc::ECANCELED, 1, true),
        (libc::EIO, 1, false),
        (libc::ENODATA, 1, false),
    ];
    for (code, times, repaired) in cases {
        let mut left = times;
        sim.set_script(move |_| {
            if left == 0 {
                return SimAttempt::Read;
            }
            left -= 1;
            SimAttempt::Fail(error_of(code))
        });
        let mut driver = reads.inline();
        driver.push(ReadOp::new(&file, 5000, 100));
        driver.flush();
        driver.reap(1, None, &mut |_, outcome| match outcome.result {
            Ok(bytes) => {
                assert!(repaired, "{code}");
                assert_eq!(*bytes, expected(5000, 100));
            }
            Err(error) => {
                assert!(!repaired, "{code}");
                assert_eq!(error.raw_os_error(), Some(code));
            }
        });
    }
    assert_eq!(reads.counts().elsewhere, 5);
}

#[test]
fn a_success_that_wrote_nothing_does_not_return_what_was_read_before() {
    let file = file();
    let sim = SimReads::new(5);
    let reads = sim.reads();
    let mut contents = Vec::new();
    for attempt in [SimAttempt::Read, SimAttempt::Unwritten] {
        sim.set_script(move |_| attempt.clone());
        let mut driver = reads.inline();
        driver.push(ReadOp::new(&file, 0, 300_000));
        driver.flush();
        driver.reap(1, None, &mut |_, outcome| {
            contents.push(outcome.result.unwrap()[..100].to_vec());
        });
    }
    assert_eq!(contents[0], expected(0, 100));
    assert_ne!(contents[1], contents[0]);
}

#[test]
fn f3_dropped_and_forgotten_sessions_leave_reads_that_end_by_themselves() {
    let file = file();
    let sim = SimReads::new(11);
    let reads = sim.reads();
    let mut dropped = reads.shared();
    let mut forgotten = reads.shared();
    for session in [&mut dropped, &mut forgotten] {
        for block in 0..3 {
            session.push(ReadOp::new(&file, block * 4096, 4096));
        }
        session.flush();
    }
    drop(dropped);
    std::mem::forget(forgotten);
    drop(file);
    assert_eq!((sim.held(), reads.counts().under_way), (6, 6));
    sim.run();
    assert_eq!((sim.held(), reads.counts().under_way), (0, 0));
}

#[test]
fn f2_orphaning_one_of_three_reads_leaves_its_siblings_alone() {
    let file = file();
    for seed in 0..20 {
        for cancel in [false, true] {
            let sim = SimReads::new(seed);
            let reads = sim.reads();
            let mut driver = reads.shared();
            let ids: Vec<OpId> = (0..3)
                .map(|block| driver.push(ReadOp::new(&file, block * 4096, 4096)))
                .collect();
            driver.flush();
            // Some complete before the orphan is made, some after; the orphan itself may be among the former.
            for _ in 0..seed % 3 {
                sim.step();
            }
            driver.orphan(ids[1], cancel);
            driver.orphan(ids[1], cancel);
            assert_eq!(driver.outstanding(), 2);
            let mut seen = Vec::new();
            driver.reap(3, None, &mut |id, outcome| {
                outcome.result.unwrap();
                seen.push(id);
            });
            seen.sort_unstable();
            assert_eq!(seen, [ids[0], ids[2]]);
            sim.run();
            assert_eq!(reads.counts().under_way, 0);
        }
    }
}

#[test]
fn a_wait_ends_at_its_deadline_whatever_the_device_does() {
    let file = file();
    let sim = SimReads::new(1);
    let reads = sim.reads();
    sim.set_stopped(true);
    let mut driver = reads.shared();
    driver.push(ReadOp::new(&file, 0, 10));
    driver.flush();
    let until = Duration::from_millis(3);
    assert_eq!(driver.reap(1, Some(until), &mut |_, _| unreachable!()), 0);
    assert_eq!(sim.clock().now(), until);
    drop(driver);
    sim.run();
    assert_eq!(reads.counts().under_way, 0);
}

#[test]
fn completion_order_is_the_seeds_and_every_order_occurs() {
    let file = file();
    let mut orders = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let sim = SimReads::new(seed);
        let mut driver = sim.reads().shared();
        let ids: Vec<OpId> = (0..4)
            .map(|block| driver.push(ReadOp::new(&file, block * 4096, 4096)))
            .collect();
        driver.flush();
        let mut order = Vec::new();
        driver.reap(4, None, &mut |id, outcome| {
            let at = ids.iter().position(|&known| known == id).unwrap();
            assert_eq!(*outcome.result.unwrap(), expected(at * 4096, 4096));
            order.push(at);
        });
        orders.insert(order);
    }
    assert_eq!(orders.len(), 24);
}

#[derive(Default)]
struct CountingWaker(AtomicUsize);

impl Wake for CountingWaker {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_polled_session_wakes_its_task_once_there_is_something() {
    let file = file();
    let sim = SimReads::new(1);
    let mut session = sim.reads().shared();
    let count = Arc::new(CountingWaker::default());
    let waker = Waker::from(Arc::clone(&count));
    let mut context = Context::from_waker(&waker);
    session.push(ReadOp::new(&file, 0, 10));
    session.push(ReadOp::new(&file, 10, 10));
    session.flush();
    let none = &mut |_, _| unreachable!();
    assert_eq!(session.poll_reap(&mut context, none), Poll::Pending);
    sim.run();
    assert_eq!(count.0.load(Ordering::SeqCst), 1);
    let mut seen = 0;
    let polled = session.poll_reap(&mut context, &mut |_, _| seen += 1);
    assert_eq!((polled, seen), (Poll::Ready(2), 2));
    assert_eq!(session.poll_reap(&mut context, none), Poll::Ready(0));
}

#[test]
fn an_outcome_may_go_to_a_function_and_outlive_its_session() {
    let file = file();
    for reads in everywhere() {
        let (sender, receiver) = mpsc::channel();
        let mut session = reads.shared();
        session.push_then(ReadOp::new(&file, 100, 50), move |outcome| {
            sender.send(outcome.result.unwrap().to_vec()).unwrap();
        });
        session.flush();
        assert_eq!(session.outstanding(), 0);
        let other = reads.shared();
        drop(session);
        while reads.engine() == ActiveEngine::FileSystem && reads.counts().under_way > 0 {
            other.wait(None);
        }
        assert_eq!(receiver.recv().unwrap(), expected(100, 50));
    }
}

#[test]
fn f10_a_session_goes_on_in_another_thread_after_the_first_has_ended() {
    let file = file();
    let reads = AsyncReads::pool(2);
    let session = std::thread::scope(|scope| {
        let started = scope.spawn(|| {
            let mut session = reads.shared();
            session.push(ReadOp::new(&file, 7, 100));
            session.flush();
            session
        });
        started.join().unwrap()
    });
    let mut session = session;
    let mut seen = 0;
    session.reap(1, None, &mut |_, outcome| {
        assert_eq!(*outcome.result.unwrap(), expected(7, 100));
        seen += 1;
    });
    assert_eq!(seen, 1);
}

#[test]
fn f15_bytes_outlive_all_that_read_them() {
    let file = file();
    for reads in everywhere() {
        let mut session = reads.shared();
        session.push(ReadOp::new(&file, 1000, 3000));
        session.flush();
        let mut kept = None;
        session.reap(1, None, &mut |_, outcome| kept = outcome.result.ok());
        // What is given back to the pool is used by the next read; what is kept is not.
        let mut other = reads.inline();
        other.push(ReadOp::new(&file, 20_000, 3000));
        other.flush();
        drop((session, other, reads));
        assert_eq!(*kept.unwrap(), expected(1000, 3000));
    }
}

#[test]
fn a_panic_in_a_file_system_is_the_error_of_its_read() {
    let fs = MemoryFileSystem::new();
    write(&fs);
    let faults = FaultFileSystem::new(Arc::new(fs), 1);
    let file = open(&faults, false);
    faults.add_rule(
        FaultRule::new(FaultAction::Panic)
            .on(&[Operation::Read])
            .nth(1),
    );
    let reads = AsyncReads::pool(1);
    let mut session = reads.shared();
    session.push(ReadOp::new(&file, 0, 10));
    session.push(ReadOp::new(&file, 0, 10));
    session.flush();
    let mut failed = Vec::new();
    session.reap(2, None, &mut |_, outcome| {
        failed.push(outcome.result.is_err())
    });
    assert_eq!(failed, [true, false]);
}
