//! Reads where io_uring is refused, exhausted, or lost.
//!
//! Each case runs in its own process, because the refusal cannot be undone.
#![cfg(all(target_os = "linux", target_arch = "x86_64", feature = "io_uring"))]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use koeldb_fs::read_driver::{
    ActiveEngine, AsyncReadOptions, AsyncReads, ReadDriver, ReadEngine, ReadOp,
};
use koeldb_fs::{FileSystem, OpenOptions, PosixFileSystem, RandomAccessFile, WriteOptions};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};

use crate::scratch::ScratchDir;

const CASE: &str = "KOELDB_ENVIRONMENT_CASE";
const FILE_BYTES: usize = 300_000;

const SETUP: i64 = 425;
const ENTER: i64 = 426;

/// Runs `case` in a child process and returns its output.
fn child(case: &str) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "environment::child_process",
            "--ignored",
            "--nocapture",
        ])
        .env(CASE, case)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{case}: {text}{errors}");
    text
}

/// Makes the system call fail on this thread and the threads it starts, from here on.
fn refuse(call: i64, error: i32) {
    let action = SeccompAction::Errno(u32::try_from(error).unwrap());
    let filter = SeccompFilter::new(
        BTreeMap::from([(call, Vec::new())]),
        SeccompAction::Allow,
        action,
        seccompiler::TargetArch::x86_64,
    )
    .unwrap();
    let program: BpfProgram = filter.try_into().unwrap();
    apply_filter(&program).unwrap();
}

fn limit(resource: Resource, current: u64) {
    let maximum = getrlimit(resource).maximum;
    let limit = Rlimit {
        current: Some(current),
        maximum,
    };
    setrlimit(resource, limit).unwrap();
}

fn byte_at(offset: usize) -> u8 {
    u8::try_from(offset * 31 % 251).unwrap()
}

fn write(path: &Path) {
    let fs = PosixFileSystem::new();
    let mut file = fs.create(path, &WriteOptions::default()).unwrap();
    let bytes: Vec<u8> = (0..FILE_BYTES).map(byte_at).collect();
    file.append(&bytes).unwrap();
    file.close().unwrap();
}

fn choose(path: &Path) -> AsyncReads {
    let options = AsyncReadOptions {
        engine: ReadEngine::Uring,
        ..AsyncReadOptions::default()
    };
    AsyncReads::choose(&options, &PosixFileSystem::new(), path)
}

/// Checks that reads return the right bytes.
fn check(reads: &AsyncReads, file: &Arc<dyn RandomAccessFile>) {
    let mut drivers: [Box<dyn ReadDriver>; 2] =
        [Box::new(reads.inline()), Box::new(reads.shared())];
    for driver in &mut drivers {
        let offsets: Vec<usize> = (0..200).map(|at| at * 1499).collect();
        let ids: Vec<_> = offsets
            .iter()
            .map(|&offset| driver.push(ReadOp::new(file, offset as u64, 5000)))
            .collect();
        driver.flush();
        let mut seen = 0;
        driver.reap(200, None, &mut |id, outcome| {
            let offset = offsets[ids.iter().position(|&known| known == id).unwrap()];
            let bytes = outcome.result.unwrap();
            assert_eq!(bytes.len(), 5000.min(FILE_BYTES - offset));
            assert!(
                bytes
                    .iter()
                    .enumerate()
                    .all(|(at, &byte)| byte == byte_at(offset + at))
            );
            seen += 1;
        });
        assert_eq!(seen, 200);
    }
}

#[test]
#[ignore = "run by other tests in a process of its own"]
fn child_process() {
    let Ok(case) = std::env::var(CASE) else {
        return;
    };
    let dir = ScratchDir::new();
    let path = dir.path().join("table");
    write(&path);
    let fs = PosixFileSystem::new();
    let file = fs.open(&path, &OpenOptions::default()).unwrap();
    match case.as_str() {
        "setup-eperm" => refuse(SETUP, libc::EPERM),
        "setup-enosys" => refuse(SETUP, libc::ENOSYS),
        "setup-enomem" => refuse(SETUP, libc::ENOMEM),
        "enter-eperm" => refuse(ENTER, libc::EPERM),
        _ => {}
    }
    let reads = choose(&path);
    println!("[{} ({})]", reads.engine().name(), reads.reason());
    let told = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&told);
    reads.on_fallback(move || {
        counter.fetch_add(1, Ordering::Relaxed);
    });
    let has_ring = reads.engine() == ActiveEngine::Uring;
    match case.as_str() {
        "later-setup" => refuse(SETUP, libc::ENOMEM),
        "later-enter" => refuse(ENTER, libc::EPERM),
        "later-descriptors" => limit(Resource::Nofile, 3),
        "memory" => limit(Resource::Memlock, 0),
        "fork" => return check_fork(&reads, &file),
        "fork-exit" => return check_exit_of_fork(&reads, &file),
        "used-then-enter" => {
            check(&reads, &file);
            refuse(ENTER, libc::EPERM);
        }
        _ => {}
    }
    check(&reads, &file);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| check(&reads, &file));
        }
    });
    let counts = reads.counts();
    assert_eq!(counts.under_way, 0);
    if has_ring {
        let (lost, elsewhere) = (counts.lost_rings > 0, counts.elsewhere > 0);
        println!("lost {lost} elsewhere {elsewhere}");
        // At most one report per minute.
        let told = told.load(Ordering::Relaxed);
        assert_eq!(told, u64::from(lost || elsewhere), "{counts:?}");
    }
}

/// A forked child, which has no threads and must not use its parent's rings, reads synchronously.
#[expect(unsafe_code, reason = "neither the standard library nor rustix forks")]
fn check_fork(reads: &AsyncReads, file: &Arc<dyn RandomAccessFile>) {
    check(reads, file);
    let mut session = reads.shared();
    for at in 0..20 {
        session.push(ReadOp::new(file, at * 10_000, 5000));
    }
    session.flush();
    // SAFETY: the child continues with this thread alone. The C library makes the heap usable for
    // it, and it takes no lock of the test harness.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut lost = 0;
            session.reap(20, None, &mut |_, outcome| {
                lost += usize::from(outcome.result.is_err());
            });
            assert_eq!((lost, session.outstanding()), (20, 0));
            let mut driver = reads.inline();
            for at in 0..20 {
                driver.push(ReadOp::new(file, at * 10_000, 5000));
            }
            driver.flush();
            let mut found = 0;
            driver.reap(20, None, &mut |_, outcome| {
                found += outcome.result.unwrap().len();
            });
            assert_eq!(found, 100_000);
        }));
        // SAFETY: ends the child without running anything of the parent's.
        unsafe { libc::_exit(i32::from(checked.is_err())) };
    }
    let mut found = 0;
    session.reap(20, None, &mut |_, outcome| {
        found += outcome.result.unwrap().len();
    });
    assert_eq!(found, 100_000);
    let child = rustix::process::Pid::from_raw(child);
    let (_, status) = rustix::process::waitpid(child, rustix::process::WaitOptions::empty())
        .unwrap()
        .unwrap();
    assert_eq!(status.exit_status(), Some(0));
    check(reads, file);
}

/// Checks that the exit of a forked child unmaps no memory at the address of the parent's ring.
#[expect(unsafe_code, reason = "neither the standard library nor rustix forks")]
fn check_exit_of_fork(reads: &AsyncReads, file: &Arc<dyn RandomAccessFile>) {
    use std::sync::Mutex;

    static MAPPED: Mutex<Vec<usize>> = Mutex::new(Vec::new());

    extern "C" fn read_mapped() {
        for &address in MAPPED.lock().unwrap().iter() {
            let first = std::ptr::with_exposed_provenance::<u8>(address);
            // SAFETY: the child mapped a page here. If it was unmapped the child dies, which is
            // what this checks.
            let zero = unsafe { first.read_volatile() };
            assert_eq!(zero, 0);
        }
    }

    check(reads, file);
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let rings: Vec<(usize, usize)> = maps
        .lines()
        .filter(|line| line.contains("[io_uring]"))
        .map(|line| {
            let (first, last) = line.split(' ').next().unwrap().split_once('-').unwrap();
            let address = |text| usize::from_str_radix(text, 16).unwrap();
            (address(first), address(last))
        })
        .collect();
    println!("{} mappings of rings", rings.len());
    // SAFETY: as in `check_fork`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        for &(first, last) in &rings {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
            let address = std::ptr::with_exposed_provenance_mut(first);
            // SAFETY: new memory, where nothing is mapped.
            let mapped =
                unsafe { libc::mmap(address, last - first, libc::PROT_READ, flags, -1, 0) };
            assert_eq!(mapped.addr(), first);
            MAPPED.lock().unwrap().push(first);
        }
        // SAFETY: the function may be called at any time. It is called after the destructors of
        // this thread.
        unsafe { libc::atexit(read_mapped) };
        std::process::exit(0);
    }
    let child = rustix::process::Pid::from_raw(child);
    let (_, status) = rustix::process::waitpid(child, rustix::process::WaitOptions::empty())
        .unwrap()
        .unwrap();
    assert_eq!(status.exit_status(), Some(0), "{status:?}");
    check(reads, file);
}

#[test]
fn a_forked_child_that_ends_unmaps_nothing_where_the_rings_of_its_parent_were() {
    let told = child("fork-exit");
    if told.contains("[uring (") {
        assert!(!told.contains(" 0 mappings"), "{told}");
    }
}

#[test]
fn a_forked_child_touches_no_ring_and_reads_in_place() {
    child("fork");
}

#[test]
fn f6_f8_refused_rings_are_told_and_threads_read() {
    for (case, word) in [
        ("setup-eperm", "seccomp"),
        ("setup-enosys", "no io_uring"),
        ("setup-enomem", "RLIMIT_MEMLOCK"),
        ("enter-eperm", "completes no reads"),
    ] {
        let told = child(case);
        assert!(told.contains("[pool ("), "{case}: {told}");
        // On a system without io_uring, the reason says so instead.
        assert!(
            told.contains(word) || told.contains("io_uring"),
            "{case}: {told}"
        );
    }
}

#[test]
fn f7_f9_rings_that_are_refused_later_are_replaced_by_threads() {
    for (case, expected) in [
        ("later-setup", "lost true"),
        ("later-descriptors", "lost true"),
        ("later-enter", "elsewhere true"),
        ("used-then-enter", "elsewhere true"),
        ("memory", "lost"),
    ] {
        let told = child(case);
        if told.contains("[uring (") {
            assert!(told.contains(expected), "{case}: {told}");
        } else {
            println!("not tested: {told}");
        }
    }
}
