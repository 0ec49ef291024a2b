use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use koeldb_base::ErrorKind;

use super::*;
use crate::clock::{Clock, ManualClock};
use crate::fault::{Failure, FaultAction, FaultFileSystem, FaultRule};
use crate::file::{FileSystem, OpenOptions, RandomAccessFile, WriteOptions};
use crate::layer::Operation;
use crate::memory::MemoryFileSystem;

const FILE_BYTES: usize = 40_000;

/// The content of the file: any 251 consecutive bytes are distinct.
static CONTENT: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut content: Vec<u8> = (0..251)
        .map(|at| u8::try_from(at * 31 % 251).unwrap())
        .collect();
    content = content.repeat(FILE_BYTES / 251 + 1);
    content.truncate(FILE_BYTES);
    content
});

fn write(fs: &dyn FileSystem) {
    let mut file = fs
        .create(Path::new("/table"), &WriteOptions::default())
        .unwrap();
    file.append(&CONTENT).unwrap();
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
    let rest = CONTENT.get(offset..).unwrap_or_default();
    rest[..length.min(rest.len())].to_vec()
}

fn error_of(code: i32) -> koeldb_base::Error {
    let error = std::io::Error::from_raw_os_error(code);
    koeldb_base::Error::io(error, "read", Path::new("/table"))
}

/// All engines that run on every system.
fn everywhere() -> Vec<AsyncReads> {
    vec![
        AsyncReads::off(),
        AsyncReads::pool(1),
        AsyncReads::pool(4),
        SimReads::new(7).reads(),
    ]
}

/// Reads ranges and compares each with the file.
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
        let reads_wanted = counts.reads + counts.joined;
        assert_eq!((counts.rounds, reads_wanted), (4, 36), "{reads:?}");
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
    // Ninety attempts still split a read into many pieces.
    let least = if cfg!(miri) { 100 } else { 1 };
    for step in [1, 7, 4095, 30_000].map(|step| least.max(step)) {
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
    // Errors, the number of consecutive failures, and whether the read succeeds in the end.
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
    for (session, blocks) in [(&mut dropped, 0..3), (&mut forgotten, 3..6)] {
        for block in blocks {
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
    // Six seeds still complete the orphan before, between and after its siblings.
    for seed in 0..if cfg!(miri) { 6 } else { 20 } {
        for cancel in [false, true] {
            let sim = SimReads::new(seed);
            let reads = sim.reads();
            let mut driver = reads.shared();
            let ids: Vec<OpId> = (0..3)
                .map(|block| driver.push(ReadOp::new(&file, block * 4096, 4096)))
                .collect();
            driver.flush();
            // Some reads complete before the orphan is made, some after; the orphan may be among
            // the former.
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
    let seeds = if cfg!(miri) { 5 } else { 200 };
    for seed in 0..seeds {
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
    // A few seeds still complete out of order.
    assert!(orders.len() >= if cfg!(miri) { 2 } else { 24 });
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
        // The next read reuses memory that was returned to the pool, but not memory still in use.
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

/// Returns the only outcome of a session.
fn only(session: &mut dyn ReadDriver) -> koeldb_base::Result<ReadBuffer> {
    let mut only = None;
    session.reap(1, None, &mut |_, outcome| only = Some(outcome.result));
    assert_eq!(session.outstanding(), 0);
    only.unwrap()
}

fn begun(reads: &AsyncReads, file: &Arc<dyn RandomAccessFile>, range: (u64, usize)) -> ReadSession {
    let mut session = reads.shared();
    session.push(ReadOp::new(file, range.0, range.1));
    session.flush();
    session
}

#[test]
fn a_range_under_way_is_read_once_for_all_who_want_a_part_of_it() {
    let fs = MemoryFileSystem::new();
    write(&fs);
    for direct in [false, true] {
        let file = open(&fs, direct);
        let sim = SimReads::new(1);
        let reads = sim.reads();
        let mut first = begun(&reads, &file, (8192, 8192));
        let parts = [(8192, 8192), (8192, 1), (10_000, 500), (12_288, 4096)];
        // Several sessions read each part, and several read the whole range.
        let sharers = if cfg!(miri) { 8 } else { 64 };
        let mut sessions: Vec<_> = (0..sharers)
            .map(|at| (parts[at % 4], begun(&reads, &file, parts[at % 4])))
            .collect();
        // Ranges that extend beyond it on either side.
        let mut beside = [(8000, 1000), (16_000, 1000)].map(|range| begun(&reads, &file, range));
        assert_eq!(sim.held(), 3);
        let counts = reads.counts();
        assert_eq!((counts.reads, counts.joined), (3, sharers as u64));
        assert_eq!(*only(&mut first).unwrap(), expected(8192, 8192));
        for ((offset, length), session) in &mut sessions {
            let offset = usize::try_from(*offset).unwrap();
            assert_eq!(*only(session).unwrap(), expected(offset, *length));
        }
        assert_eq!(*only(&mut beside[0]).unwrap(), expected(8000, 1000));
        assert_eq!(*only(&mut beside[1]).unwrap(), expected(16_000, 1000));
        // A range that has completed is read again.
        let mut later = begun(&reads, &file, (8192, 8192));
        assert_eq!(sim.held(), 1);
        only(&mut later).unwrap();
        assert_eq!(reads.counts().under_way, 0);
    }
}

#[test]
fn whoever_waits_for_the_read_of_another_sees_the_end_of_the_file_too() {
    let fs = MemoryFileSystem::new();
    write(&fs);
    for direct in [false, true] {
        let file = open(&fs, direct);
        let reads = SimReads::new(1).reads();
        let first = begun(&reads, &file, (36_864, 20_000));
        let ranges = [(39_000, 500), (39_900, 500), (40_000, 10), (50_000, 100)];
        let mut sessions = ranges.map(|range| begun(&reads, &file, range));
        assert_eq!(reads.counts().joined, 4);
        for ((offset, length), session) in ranges.into_iter().zip(&mut sessions) {
            let offset = usize::try_from(offset).unwrap();
            assert_eq!(*only(session).unwrap(), expected(offset, length));
        }
        drop(first);
    }
}

#[test]
fn the_failure_of_a_read_is_not_that_of_those_who_waited_for_it() {
    let file = file();
    let sim = SimReads::new(1);
    let reads = sim.reads();
    for failures in [1, 2] {
        let mut left = failures;
        sim.set_script(move |_| {
            if left == 0 {
                return SimAttempt::Read;
            }
            left -= 1;
            SimAttempt::Fail(error_of(5))
        });
        let before = reads.counts();
        let mut first = begun(&reads, &file, (100, 1000));
        let mut sessions: Vec<_> = (0..5)
            .map(|at| begun(&reads, &file, (100 + at, 10)))
            .collect();
        assert_eq!(only(&mut first).unwrap_err().raw_os_error(), Some(5));
        let outcomes: Vec<_> = sessions.iter_mut().map(|one| only(one)).collect();
        let failed = outcomes.iter().filter(|outcome| outcome.is_err()).count();
        assert_eq!(failed, failures - 1, "each fails by itself");
        for (at, bytes) in outcomes.into_iter().enumerate() {
            assert!(bytes.is_err() || *bytes.unwrap() == expected(100 + at, 10));
        }
        let counts = reads.counts();
        assert_eq!(counts.reads - before.reads, 6);
        assert_eq!(counts.joined - before.joined, 5);
    }
}

#[test]
fn nobody_waits_in_vain_for_a_read_whose_owner_is_gone() {
    let file = file();
    type Leave = fn(ReadSession, OpId);
    let leave: [Leave; 4] = [
        |session, _| drop(session),
        |session, _| std::mem::forget(session),
        |mut session, id| session.orphan(id, false),
        |mut session, id| session.orphan(id, true),
    ];
    for leave in leave {
        for reads in [SimReads::new(1).reads(), AsyncReads::pool(1)] {
            let mut first = reads.shared();
            let id = first.push(ReadOp::new(&file, 100, 1000));
            first.flush();
            let mut second = begun(&reads, &file, (300, 50));
            let mut third = begun(&reads, &file, (100, 1000));
            leave(first, id);
            // The third session is left too.
            assert_eq!(*only(&mut second).unwrap(), expected(300, 50));
            drop(second);
            assert_eq!(*only(&mut third).unwrap(), expected(100, 1000));
        }
    }
}

#[test]
fn those_who_wait_may_leave_and_the_read_goes_on() {
    let file = file();
    let sim = SimReads::new(1);
    let reads = sim.reads();
    let mut first = begun(&reads, &file, (100, 1000));
    drop(begun(&reads, &file, (100, 1000)));
    std::mem::forget(begun(&reads, &file, (100, 1000)));
    let mut third = reads.shared();
    let id = third.push(ReadOp::new(&file, 200, 10));
    third.push(ReadOp::new(&file, 300, 10));
    third.flush();
    third.orphan(id, true);
    assert_eq!(sim.held(), 1);
    assert_eq!(*only(&mut first).unwrap(), expected(100, 1000));
    assert_eq!(*only(&mut third).unwrap(), expected(300, 10));
    assert_eq!(reads.counts().under_way, 0);
}

#[cfg(unix)]
#[test]
fn a_read_that_its_owner_calls_off_and_others_wait_for_is_no_failure_of_the_engine() {
    let file = file();
    let sim = SimReads::new(1);
    let reads = sim.reads();
    sim.set_script(|_| SimAttempt::Fail(error_of(libc::ECANCELED)));
    let first = begun(&reads, &file, (100, 1000));
    let mut second = begun(&reads, &file, (300, 50));
    drop(first);
    assert_eq!(*only(&mut second).unwrap(), expected(300, 50));
    let counts = reads.counts();
    assert_eq!((counts.reads, counts.joined, counts.elsewhere), (1, 1, 0));
    // A read that is not cancelled falls back.
    let mut third = begun(&reads, &file, (300, 50));
    assert_eq!(*only(&mut third).unwrap(), expected(300, 50));
    assert_eq!(reads.counts().elsewhere, 1);
}

/// A read that the device loses does not block later reads of its range.
#[test]
fn nobody_joins_a_read_that_hangs() {
    let file = file();
    let sim = SimReads::new(1);
    let reads = sim.reads();
    let _lost = begun(&reads, &file, (100, 1000));
    let _soon = begun(&reads, &file, (100, 1000));
    assert_eq!(sim.held(), 1);
    sim.clock().advance(Duration::from_secs(2));
    let _later = begun(&reads, &file, (100, 1000));
    assert_eq!(sim.held(), 2);
}

/// A read, its offset and its length.
type Wanted = (OpId, usize, usize);

/// Begins, abandons and completes reads in random order: every outcome is right and nothing
/// remains.
#[test]
fn reads_joined_and_left_at_random_are_right_and_leave_nothing() {
    let fs = MemoryFileSystem::new();
    write(&fs);
    // A few seeds still begin, join, orphan, drop, fail and complete some 400 reads.
    for seed in 0..if cfg!(miri) { 3 } else { 300 } {
        let mut random = crate::random::Random::new(seed);
        let mut below = |bound: u64| random.below(bound);
        let sim = SimReads::new(seed);
        let reads = sim.reads();
        let file = open(&fs, below(2) == 0);
        if below(2) == 0 {
            let mut failing = crate::random::Random::new(seed);
            sim.set_script(move |_| match failing.below(8) {
                0 => SimAttempt::Fail(error_of(5)),
                1 => SimAttempt::Short(4096),
                _ => SimAttempt::Read,
            });
        }
        let mut sessions: Vec<(ReadSession, Vec<Wanted>)> = Vec::new();
        for _ in 0..60 {
            match below(8) {
                0..4 => {
                    let mut session = reads.shared();
                    let wanted = (0..=below(3))
                        .map(|_| {
                            let offset = below(8) * 1000 + below(2) * 33_000;
                            let length = usize::try_from(1 + below(4) * 1500).unwrap();
                            let id = session.push(ReadOp::new(&file, offset, length));
                            (id, usize::try_from(offset).unwrap(), length)
                        })
                        .collect();
                    session.flush();
                    sessions.push((session, wanted));
                }
                4 => drop(sessions.pop()),
                5 => {
                    if let Some((session, wanted)) = sessions.last_mut() {
                        session.orphan(wanted[0].0, below(2) == 0);
                    }
                }
                _ => {
                    sim.step();
                }
            }
        }
        for (mut session, wanted) in sessions {
            let outstanding = session.outstanding();
            let reaped = session.reap(usize::MAX, None, &mut |id, outcome| {
                let (_, offset, length) = wanted.iter().find(|one| one.0 == id).unwrap();
                match outcome.result {
                    Ok(bytes) => assert_eq!(*bytes, expected(*offset, *length)),
                    Err(error) => assert_eq!(error.raw_os_error(), Some(5)),
                }
            });
            assert_eq!(reaped, outstanding);
        }
        sim.run();
        assert_eq!((sim.held(), reads.counts().under_way), (0, 0));
        assert!(reads.shared_state().in_flight_reads.is_empty());
    }
}

/// A file whose reads block until the gate opens.
#[derive(Debug)]
struct Gate {
    file: Arc<dyn RandomAccessFile>,
    open: Mutex<bool>,
    opened: Condvar,
    reads: AtomicUsize,
}

impl RandomAccessFile for Gate {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> koeldb_base::Result<usize> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        let shut = self.open.lock().unwrap();
        drop(self.opened.wait_while(shut, |open| !*open).unwrap());
        self.file.read_at(offset, buffer)
    }

    fn path(&self) -> &Path {
        self.file.path()
    }

    fn len(&self) -> u64 {
        self.file.len()
    }
}

#[test]
fn sixty_four_threads_that_want_one_block_have_it_read_once() {
    let gate = Arc::new(Gate {
        file: file(),
        open: Mutex::new(false),
        opened: Condvar::new(),
        reads: AtomicUsize::new(0),
    });
    let file: Arc<dyn RandomAccessFile> = gate.clone();
    // Time stands still, so they join however long they take.
    let options = AsyncReadOptions {
        engine: ReadEngine::Pool,
        clock: Arc::new(ManualClock::new()),
        ..AsyncReadOptions::default()
    };
    let reads = AsyncReads::choose(&options, &MemoryFileSystem::new(), Path::new("/table"));
    // Half of them use an inline driver, half a session that may outlive them.
    let threads = if cfg!(miri) { 6 } else { 64 };
    std::thread::scope(|scope| {
        for at in 0..threads {
            let (reads, file) = (&reads, &file);
            scope.spawn(move || {
                let mut drivers: [Box<dyn ReadDriver>; 2] =
                    [Box::new(reads.inline()), Box::new(reads.shared())];
                let driver = &mut drivers[at % 2];
                driver.push(ReadOp::new(file, 4096, 4096));
                driver.flush();
                assert_eq!(*only(driver).unwrap(), expected(4096, 4096));
            });
        }
        while reads.counts().joined < threads as u64 - 1 {
            std::thread::yield_now();
        }
        *gate.open.lock().unwrap() = true;
        gate.opened.notify_all();
    });
    assert_eq!(gate.reads.load(Ordering::SeqCst), 1);
    let counts = reads.counts();
    let joined = threads as u64 - 1;
    assert_eq!(
        (counts.reads, counts.joined, counts.under_way),
        (1, joined, 0)
    );
}
