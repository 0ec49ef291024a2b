//! Tests against the running kernel. Without io_uring they print that and pass.
#![cfg(not(miri))]
#![expect(
    clippy::disallowed_methods,
    reason = "the directory is made without the code under test"
)]

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

use super::ring::{Ring, Wait};
use super::*;
use crate::clock::SystemClock;
use crate::file::{FileSystem, OpenOptions};
use crate::memory::MemoryFileSystem;
use crate::posix::PosixFileSystem;
use crate::read_driver::request::{Reply, Shared};
use crate::read_driver::{
    ActiveEngine, AsyncReadOptions, AsyncReads, Outcome, ReadDriver, ReadEngine, ReadOp,
};

const FILE_BYTES: usize = 1_000_003;

fn content() -> &'static [u8] {
    static CONTENT: OnceLock<Vec<u8>> = OnceLock::new();
    CONTENT.get_or_init(|| {
        (0..FILE_BYTES)
            .map(|offset| u8::try_from(offset * 31 % 251).unwrap())
            .collect()
    })
}

struct Scratch {
    path: PathBuf,
}

impl Scratch {
    fn new(name: &str) -> Self {
        let name = format!("koeldb-uring-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, content()).unwrap();
        Scratch { path }
    }

    fn open(&self, direct: bool) -> Arc<dyn RandomAccessFile> {
        let options = OpenOptions {
            direct,
            ..OpenOptions::default()
        };
        PosixFileSystem::new().open(&self.path, &options).unwrap()
    }

    /// Creates a ring engine; prints a note and returns `None` where io_uring is not available.
    fn reads(&self) -> Option<AsyncReads> {
        let reads = self.choose(ReadEngine::Uring);
        if reads.engine() == ActiveEngine::Uring {
            return Some(reads);
        }
        println!("not tested: {}", reads.reason());
        None
    }

    fn choose(&self, engine: ReadEngine) -> AsyncReads {
        let options = AsyncReadOptions {
            engine,
            ..AsyncReadOptions::default()
        };
        AsyncReads::choose(&options, &PosixFileSystem::new(), &self.path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Creates a ring request whose outcome arrives over a channel.
fn request(
    file: &Arc<dyn RandomAccessFile>,
    offset: u64,
    length: usize,
) -> (Request, mpsc::Receiver<Outcome>) {
    let (sender, receiver) = mpsc::channel();
    let reply = Reply::Call(Box::new(move |outcome| {
        let _ = sender.send(outcome);
    }));
    let shared = Arc::new(Shared::alone(Arc::new(SystemClock)));
    let op = ReadOp::new(file, offset, length);
    (
        Request::new(op, OpId(offset), reply, &shared).unwrap(),
        receiver,
    )
}

fn check_many(driver: &mut dyn ReadDriver, file: &Arc<dyn RandomAccessFile>, count: usize) {
    let content = content();
    let ranges: Vec<(usize, usize)> = (0..count)
        .map(|at| (at * 7919 % (FILE_BYTES + 100), 1 + at * 977 % 20_000))
        .collect();
    let ids: Vec<OpId> = ranges
        .iter()
        .map(|&(offset, length)| driver.push(ReadOp::new(file, offset as u64, length)))
        .collect();
    driver.flush();
    let mut seen = 0;
    while driver.outstanding() > 0 {
        driver.reap(1, None, &mut |id, outcome| {
            let (offset, length) = ranges[ids.iter().position(|&known| known == id).unwrap()];
            let end = (offset + length).min(FILE_BYTES);
            assert!(*outcome.result.unwrap() == content[offset.min(end)..end]);
            seen += 1;
        });
    }
    assert_eq!(seen, count);
}

#[test]
fn f4_more_reads_than_a_ring_has_entries_wait_for_room() {
    let scratch = Scratch::new("room");
    let Some(reads) = scratch.reads() else { return };
    for direct in [false, true] {
        let file = scratch.open(direct);
        for count in [1, 2, 100, 700] {
            check_many(&mut reads.inline(), &file, count);
            check_many(&mut reads.shared(), &file, count);
        }
    }
    let counts = reads.counts();
    assert_eq!((counts.under_way, counts.elsewhere), (0, 0));
    assert_eq!(counts.lost_rings, 0);
}

#[test]
fn f5_direct_reads_need_no_aligned_memory_of_the_caller() {
    let scratch = Scratch::new("direct");
    let Some(reads) = scratch.reads() else { return };
    let file = scratch.open(true);
    let mut driver = reads.inline();
    driver.push(ReadOp::new(&file, 5, 1));
    driver.push(ReadOp::new(&file, 4095, 2));
    driver.push(ReadOp::new(&file, 1_000_000, 4096));
    driver.flush();
    let mut lengths = Vec::new();
    driver.reap(3, None, &mut |_, outcome| {
        lengths.push(outcome.result.unwrap().len());
    });
    lengths.sort_unstable();
    assert_eq!(lengths, [1, 2, 3]);
    assert_eq!(reads.counts().elsewhere, 0);
}

#[test]
fn f1_calls_and_sessions_on_one_thread_never_see_each_others_completions() {
    let scratch = Scratch::new("mixed");
    let Some(reads) = scratch.reads() else { return };
    let file = scratch.open(false);
    let mut session = reads.shared();
    let ids: Vec<OpId> = (0..10)
        .map(|at| session.push(ReadOp::new(&file, at * 4096, 100)))
        .collect();
    session.flush();
    let mut outer = reads.inline();
    outer.push(ReadOp::new(&file, 0, 100));
    outer.flush();
    // A nested call has its own ring.
    check_many(&mut reads.inline(), &file, 50);
    drop(outer);
    let mut seen = Vec::new();
    session.reap(10, None, &mut |id, _| seen.push(id));
    seen.sort_unstable();
    assert_eq!(seen, ids);
}

#[test]
fn f3_a_call_that_is_left_early_leaves_an_idle_ring() {
    let scratch = Scratch::new("early");
    let Some(reads) = scratch.reads() else { return };
    for direct in [false, true] {
        let file = scratch.open(direct);
        for count in [1, 5, 300] {
            let mut driver = reads.inline();
            for at in 0..count {
                driver.push(ReadOp::new(&file, at * 1000, 4096));
            }
            driver.flush();
            drop(driver);
            assert_eq!(reads.counts().under_way, 0);
            let mut driver = reads.inline();
            driver.push(ReadOp::new(&file, 0, 4096));
            drop(driver);
            check_many(&mut reads.inline(), &file, 20);
        }
    }
}

#[test]
fn f3_orphans_of_the_reactor_end_by_themselves_and_before_it_does() {
    let scratch = Scratch::new("orphans");
    let Some(reads) = scratch.reads() else { return };
    let file = scratch.open(true);
    let finished = Arc::new(AtomicU64::new(0));
    for round in 0..20 {
        let mut session = reads.shared();
        for at in 0..40 {
            let id = session.push(ReadOp::new(&file, at * 20_000, 65_536));
            if at % 3 == 0 {
                session.orphan(id, round % 2 == 0);
            }
        }
        let counter = Arc::clone(&finished);
        session.push_then(ReadOp::new(&file, 0, 100_000), move |outcome| {
            assert_eq!(outcome.result.unwrap().len(), 100_000);
            counter.fetch_add(1, Ordering::SeqCst);
        });
        session.flush();
        if round % 5 == 0 {
            std::mem::forget(session);
        }
    }
    let mut last = reads.shared();
    check_many(&mut last, &file, 30);
    drop((last, reads));
    // The forgotten sessions keep the reactor alive, so this waits for its reads, not for its end.
    let clock = SystemClock;
    let begun = clock.now();
    while finished.load(Ordering::SeqCst) < 20 && clock.now() < begun + Duration::from_secs(20) {
        clock.sleep(Duration::from_millis(1));
    }
    assert_eq!(finished.load(Ordering::SeqCst), 20);
}

#[test]
fn dropping_the_last_handle_waits_for_what_the_kernel_has() {
    let scratch = Scratch::new("close");
    for _ in 0..10 {
        let Some(reads) = scratch.reads() else { return };
        let file = scratch.open(true);
        let (sender, receiver) = mpsc::channel();
        let mut session = reads.shared();
        for at in 0..50 {
            let sender = sender.clone();
            session.push_then(ReadOp::new(&file, at * 1000, 50_000), move |outcome| {
                let _ = sender.send(outcome.result.is_ok());
            });
        }
        session.flush();
        drop((session, reads, sender));
        let outcomes: Vec<bool> = receiver.iter().collect();
        assert_eq!(outcomes.len(), 50, "all were answered before the end");
        assert!(
            Arc::strong_count(&file) == 1,
            "nobody holds the file any more"
        );
    }
}

#[test]
fn the_last_handle_may_go_in_the_reactors_own_thread() {
    let scratch = Scratch::new("own");
    let Some(reads) = scratch.reads() else { return };
    let file = scratch.open(false);
    let (sender, receiver) = mpsc::channel();
    let mut session = reads.shared();
    let handle = reads.clone();
    let go = Arc::new(AtomicBool::new(false));
    let gone = Arc::clone(&go);
    session.push_then(ReadOp::new(&file, 0, 10), move |_| {
        while !gone.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        drop(handle);
        sender.send(()).unwrap();
    });
    session.flush();
    drop((session, reads));
    go.store(true, Ordering::SeqCst);
    receiver.recv_timeout(Duration::from_secs(20)).unwrap();
}

#[test]
fn f10_f14_reads_survive_the_thread_that_asked_for_them() {
    let scratch = Scratch::new("threads");
    let Some(reads) = scratch.reads() else { return };
    let file = scratch.open(true);
    for _ in 0..20 {
        let mut session = std::thread::scope(|scope| {
            let asking = scope.spawn(|| {
                // The scoped thread also uses its own ring, which ends with it.
                check_many(&mut reads.inline(), &file, 3);
                let mut session = reads.shared();
                session.push(ReadOp::new(&file, 0, 200_000));
                session.push(ReadOp::new(&file, 300_000, 200_000));
                session.flush();
                session
            });
            asking.join().unwrap()
        });
        let mut lengths = Vec::new();
        session.reap(2, None, &mut |_, outcome| {
            lengths.push(outcome.result.unwrap().len());
        });
        assert_eq!(lengths, [200_000, 200_000]);
    }
    assert_eq!(reads.counts().elsewhere, 0);
}

#[test]
fn files_without_descriptors_are_read_by_threads_beside_the_ring() {
    let scratch = Scratch::new("mixed-files");
    let Some(reads) = scratch.reads() else { return };
    let memory = MemoryFileSystem::new();
    let mut file = memory
        .create(Path::new("/m"), &crate::file::WriteOptions::default())
        .unwrap();
    file.append(b"memory").unwrap();
    file.close().unwrap();
    let files = [
        scratch.open(false),
        memory
            .open(Path::new("/m"), &OpenOptions::default())
            .unwrap(),
    ];
    let mut drivers: [Box<dyn ReadDriver>; 2] =
        [Box::new(reads.inline()), Box::new(reads.shared())];
    for driver in &mut drivers {
        for at in 0..20 {
            driver.push(ReadOp::new(&files[at % 2], 0, 6));
        }
        driver.flush();
        let mut seen = [0, 0];
        driver.reap(20, None, &mut |_, outcome| {
            seen[usize::from(*outcome.result.unwrap() == *b"memory")] += 1;
        });
        assert_eq!(seen, [10, 10]);
    }
    assert_eq!(reads.counts().rounds, 2);
}

/// Cancels a read that cannot complete by itself: one of an empty pipe.
#[test]
fn f12_a_cancellation_finds_its_read_and_only_it() {
    let scratch = Scratch::new("cancel");
    if scratch.reads().is_none() {
        return;
    }
    let pipe = Pipe::new();
    let stuck: Arc<dyn RandomAccessFile> = Arc::new(pipe);
    let file = scratch.open(false);
    let mut ring = Ring::new(RingFlags::Plain).unwrap();
    let (mut ids, mut outcomes) = (Vec::new(), Vec::new());
    for offset in 0..3 {
        let (read, outcome) = request(&stuck, offset, 10);
        ids.push(read.id());
        outcomes.push(outcome);
        ring.push(read);
    }
    let refused = Cell::new(0);
    let elsewhere = |read: Request| {
        refused.set(refused.get() + 1);
        drop(read);
    };
    ring.turn(Wait::No, None, &elsewhere);
    assert_eq!(ring.in_use(), 3);
    ring.cancel(ids[1]);
    while ring.in_use() == 3 {
        ring.turn(Wait::ForReads(1), Some(Duration::from_secs(20)), &elsewhere);
    }
    // Its owner still wanted it, so it fell back instead of failing.
    assert_eq!(refused.get(), 1);
    assert!(outcomes[1].try_recv().unwrap().result.is_err());
    assert!(outcomes[0].try_recv().is_err() && outcomes[2].try_recv().is_err());
    // Other reads proceed meanwhile.
    let (read, outcome) = request(&file, 0, 10);
    ring.push(read);
    ring.turn(Wait::ForReads(1), None, &elsewhere);
    assert_eq!(outcome.try_recv().unwrap().result.unwrap().len(), 10);
    ring.cancel_all();
    while ring.in_use() > 0 {
        ring.turn(Wait::ForReads(1), Some(Duration::from_secs(20)), &elsewhere);
    }
    assert_eq!(refused.get(), 3);
}

/// One entry into the kernel waits for the given number of reads, but not for one that hangs.
#[test]
fn several_reads_are_waited_for_at_once_and_those_that_hang_hold_up_no_other() {
    let scratch = Scratch::new("several");
    let Some(reads) = scratch.reads() else {
        return;
    };
    let stuck: Arc<dyn RandomAccessFile> = Arc::new(Pipe::new());
    let file = scratch.open(false);
    let mut ring = Ring::new(RingFlags::Plain).unwrap();
    let (hanging, outcome) = request(&stuck, 0, 10);
    ring.push(hanging);
    let mut outcomes = Vec::new();
    for offset in 0..3 {
        let (read, outcome) = request(&file, offset, 10);
        outcomes.push(outcome);
        ring.push(read);
    }
    ring.turn(Wait::ForReads(3), None, &drop);
    assert!(outcomes.iter().all(|outcome| outcome.try_recv().is_ok()));
    assert!(outcome.try_recv().is_err());
    // It waits neither for more reads than are in flight nor longer than the limit.
    ring.turn(Wait::ForReads(7), Some(Duration::from_millis(5)), &drop);
    assert_eq!(ring.in_use(), 1);
    ring.cancel_all();
    while ring.in_use() > 0 {
        ring.turn(Wait::ForReads(1), Some(Duration::from_secs(20)), &drop);
    }

    // If all but one read of a driver hang, that one can be reaped.
    let mut driver = reads.inline();
    let mut hanging = Vec::new();
    for offset in 0..3 {
        hanging.push(driver.push(ReadOp::new(&stuck, offset, 10)));
    }
    driver.push(ReadOp::new(&file, 0, 10));
    driver.flush();
    let limit = reads.clock().now() + Duration::from_millis(20);
    let mut arrived = 0;
    driver.reap(2, Some(limit), &mut |_, _| arrived += 1);
    assert_eq!(arrived, 1);
    for id in hanging {
        driver.orphan(id, true);
    }
}

/// A file whose reads hang.
#[derive(Debug)]
struct Pipe {
    reader: std::os::fd::OwnedFd,
    _writer: std::os::fd::OwnedFd,
}

impl Pipe {
    fn new() -> Self {
        let (reader, writer) = std::io::pipe().unwrap();
        Pipe {
            reader: reader.into(),
            _writer: writer.into(),
        }
    }
}

impl RandomAccessFile for Pipe {
    fn read_at(&self, _offset: u64, _buffer: &mut [u8]) -> Result<usize> {
        unreachable!("it would hang")
    }

    fn path(&self) -> &Path {
        Path::new("pipe")
    }

    fn len(&self) -> u64 {
        0
    }

    fn descriptor(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        use std::os::fd::AsFd;
        Some(self.reader.as_fd())
    }
}

#[test]
fn a_wait_in_a_ring_ends_at_its_deadline() {
    let scratch = Scratch::new("deadline");
    let Some(reads) = scratch.reads() else { return };
    let stuck: Arc<dyn RandomAccessFile> = Arc::new(Pipe::new());
    let mut session = reads.shared();
    session.push(ReadOp::new(&stuck, 0, 10));
    session.flush();
    let begun = reads.clock().now();
    let until = begun + Duration::from_millis(20);
    assert_eq!(session.reap(1, Some(until), &mut |_, _| unreachable!()), 0);
    assert!(reads.clock().now() >= until);
    // The reactor is told to end with that read in flight, and cancels it.
    drop((session, reads));
    let mut ring = Ring::new(RingFlags::Deferred).unwrap();
    let (read, outcome) = request(&stuck, 0, 10);
    ring.push(read);
    ring.turn(Wait::ForReads(1), Some(Duration::from_millis(20)), &drop);
    assert_eq!(ring.in_use(), 1);
    ring.cancel_all();
    while ring.in_use() > 0 {
        ring.turn(Wait::ForReads(1), None, &drop);
    }
    assert!(outcome.try_recv().unwrap().result.is_err());
}

#[test]
fn f6_f8_whatever_refuses_a_ring_is_named_and_threads_read() {
    let scratch = Scratch::new("refused");
    let file = scratch.open(false);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let cases = [
        (libc::ENOSYS, "no io_uring"),
        (libc::EPERM, "seccomp"),
        (libc::EACCES, "io_uring_disabled"),
        (libc::ENOMEM, "RLIMIT_MEMLOCK"),
        (libc::EMFILE, "RLIMIT_NOFILE"),
        (libc::ENFILE, "fs.file-max"),
        (libc::EINVAL, "older than Linux 5.19"),
        (libc::EIO, "cannot be made"),
    ];
    for (code, word) in cases {
        let refuse = |_| Err(io::Error::from_raw_os_error(code));
        for old in [false, true] {
            let reason = probe::probe(&file, old, &clock, &refuse).unwrap_err();
            assert!(reason.contains(word), "{reason}");
        }
    }
    let memory = MemoryFileSystem::new();
    let path = Path::new("/CURRENT");
    let created = memory.create(path, &crate::file::WriteOptions::default());
    created.unwrap().close().unwrap();
    let reads = AsyncReads::choose(&AsyncReadOptions::default(), &memory, path);
    assert_eq!(reads.engine(), ActiveEngine::Pool);
    assert!(reads.reason().contains("no descriptors"), "{reads:?}");
    let missing = AsyncReads::choose(&AsyncReadOptions::default(), &memory, Path::new("/none"));
    assert_eq!(missing.engine(), ActiveEngine::Pool);
    assert!(missing.reason().contains("cannot be opened"), "{missing:?}");
}

#[test]
fn f6_f13_flags_are_dropped_step_by_step_and_old_kernels_are_not_trusted() {
    let scratch = Scratch::new("flags");
    if scratch.reads().is_none() {
        return;
    }
    let file = scratch.open(false);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let known_from = |first: RingFlags| {
        move |flags: RingFlags| {
            if flags == first || flags == RingFlags::Plain {
                ring::Ring::new(flags)
            } else {
                Err(io::Error::from_raw_os_error(libc::EINVAL))
            }
        }
    };
    for (first, old, found) in [
        (RingFlags::Deferred, false, Ok(RingFlags::Deferred)),
        (RingFlags::Cooperative, false, Ok(RingFlags::Cooperative)),
        (RingFlags::Plain, false, Err(())),
        (RingFlags::Plain, true, Ok(RingFlags::Plain)),
    ] {
        let probed = probe::probe(&file, old, &clock, &known_from(first)).map_err(drop);
        assert_eq!(probed, found);
    }
}

#[test]
fn the_engine_that_is_asked_for_is_taken_and_says_so() {
    let scratch = Scratch::new("choice");
    for (asked, found) in [
        (ReadEngine::Pool, ActiveEngine::Pool),
        (ReadEngine::Off, ActiveEngine::Off),
    ] {
        let reads = scratch.choose(asked);
        assert_eq!((reads.engine(), reads.reason()), (found, "as configured"));
        check_many(&mut reads.inline(), &scratch.open(true), 30);
        check_many(&mut reads.shared(), &scratch.open(false), 30);
    }
}

#[test]
fn a_ring_that_breaks_hands_its_reads_over_and_is_not_used_again() {
    let scratch = Scratch::new("broken");
    if scratch.reads().is_none() {
        return;
    }
    let file = scratch.open(false);
    let mut ring = Ring::new(RingFlags::Deferred).unwrap();
    let in_kernel: Vec<_> = (0..3)
        .map(|at| {
            let (read, outcome) = request(&file, at * 4096, 4096);
            ring.push(read);
            outcome
        })
        .collect();
    // Only the creating thread may enter a ring of this kind.
    let broken = std::thread::scope(|scope| {
        scope
            .spawn(|| {
                let read = Cell::new(0);
                ring.turn(Wait::ForReads(1), None, &|request| {
                    read.set(read.get() + 1);
                    request.read_in_place();
                });
                (ring.is_broken(), read.get())
            })
            .join()
            .unwrap()
    });
    assert_eq!(broken, (true, 3));
    for outcome in in_kernel {
        assert_eq!(outcome.try_recv().unwrap().result.unwrap().len(), 4096);
    }
    let (read, outcome) = request(&file, 0, 10);
    ring.push(read);
    ring.turn(Wait::ForReads(1), None, &Request::read_in_place);
    assert_eq!(outcome.try_recv().unwrap().result.unwrap().len(), 10);
}

#[test]
fn f3_memory_of_reads_that_cannot_be_waited_for_is_never_freed() {
    let scratch = Scratch::new("leak");
    if scratch.reads().is_none() {
        return;
    }
    let stuck: Arc<dyn RandomAccessFile> = Arc::new(Pipe::new());
    let mut ring = Ring::new(RingFlags::Deferred).unwrap();
    let (read, outcome) = request(&stuck, 0, 10);
    ring.push(read);
    ring.turn(Wait::No, None, &drop);
    let (more, _never) = request(&stuck, 1, 10);
    ring.push(more);
    // Another thread may neither submit to the ring nor wait in it, as after a sandbox was
    // tightened.
    std::thread::scope(|scope| {
        scope
            .spawn(|| ring.turn(Wait::ForReads(1), None, &drop))
            .join()
            .unwrap();
    });
    assert!(ring.is_broken());
    assert_eq!(ring.in_use(), 0);
    assert!(outcome.try_recv().unwrap().result.is_err());
}

/// Threads wait for each other's reads in rings and sessions: each read is right and all threads
/// end.
#[test]
fn calls_that_wait_for_each_others_reads_all_end() {
    let scratch = Scratch::new("joins");
    let Some(reads) = scratch.reads() else { return };
    let content = content();
    for direct in [false, true] {
        let file = scratch.open(direct);
        std::thread::scope(|scope| {
            for thread in 0..4_usize {
                let (reads, file, content) = (&reads, &file, &content);
                scope.spawn(move || {
                    for round in 0..150 {
                        let mut driver: Box<dyn ReadDriver> = if (thread + round) % 4 == 0 {
                            Box::new(reads.shared())
                        } else {
                            Box::new(reads.inline())
                        };
                        // Half of the threads start from the other end.
                        let mut blocks: Vec<usize> = (0..12).collect();
                        if thread % 2 == 0 {
                            blocks.reverse();
                        }
                        let offset_of = |block: usize| (round % 7 + block) * 8192;
                        let ids: Vec<(OpId, usize)> = (blocks.into_iter())
                            .map(|block| {
                                let offset = offset_of(block);
                                let op = ReadOp::new(file, offset as u64, 8192);
                                let id = driver.push(op);
                                if block % 3 == 0 {
                                    driver.flush();
                                }
                                (id, offset)
                            })
                            .collect();
                        driver.flush();
                        let mut seen = 0;
                        while driver.outstanding() > 0 {
                            driver.reap(1, None, &mut |id, outcome| {
                                let (_, offset) = ids.iter().find(|one| one.0 == id).unwrap();
                                let bytes = outcome.result.unwrap();
                                assert!(*bytes == content[*offset..offset + 8192]);
                                seen += 1;
                            });
                        }
                        assert_eq!(seen, 12);
                    }
                });
            }
        });
    }
    let counts = reads.counts();
    assert_eq!((counts.under_way, counts.elsewhere), (0, 0));
    println!("{} read, {} joined", counts.reads, counts.joined);
}
