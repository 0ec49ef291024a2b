//! Behaviour of the real file system only: other processes, links, modes.
#![expect(
    clippy::disallowed_methods,
    reason = "the surroundings are made without the code under test"
)]

use std::io::{BufRead, BufReader, Lines};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use koeldb_base::error::ErrorDetail;
use koeldb_fs::{FileSystem, OpenOptions, PosixFileSystem, WriteOptions};

use crate::scratch::ScratchDir;

const LOCK_PATH: &str = "KOELDB_FS_TEST_LOCK_PATH";
const LOCK_HOW: &str = "KOELDB_FS_TEST_LOCK_HOW";

/// Not a test, but the child process of the tests below: holds a lock until its input ends.
#[test]
#[ignore = "run by other tests in a process of its own"]
fn hold_a_lock() {
    let Some(path) = std::env::var_os(LOCK_PATH).map(PathBuf::from) else {
        return;
    };
    let how = std::env::var(LOCK_HOW).unwrap();
    let _held: Box<dyn std::any::Any> = if how == "rocksdb" {
        let file = std::fs::File::create(&path).unwrap();
        let operation = rustix::fs::FlockOperation::NonBlockingLockExclusive;
        rustix::fs::fcntl_lock(&file, operation).unwrap();
        Box::new(file)
    } else {
        Box::new(PosixFileSystem::new().lock(&path).unwrap())
    };
    println!("\nheld");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
}

struct Holder {
    child: Child,
    output: Lines<BufReader<ChildStdout>>,
}

impl Holder {
    fn start(path: &Path, how: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", "posix::hold_a_lock"])
            .env(LOCK_PATH, path)
            .env(LOCK_HOW, how)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(
            output.any(|line| line.unwrap() == "held"),
            "the other process did not get the lock"
        );
        Holder { child, output }
    }

    fn end(mut self) {
        drop(self.child.stdin.take());
        self.output.for_each(drop);
        self.child.wait().unwrap();
    }
}

#[test]
fn locks_exclude_other_processes_until_they_end() {
    let scratch = ScratchDir::new();
    let fs = PosixFileSystem::new();
    for path in [scratch.path().join("LOCK"), scratch.path().to_owned()] {
        let holder = Holder::start(&path, "koeldb");
        let error = fs.lock(&path).unwrap_err();
        assert_eq!(error.detail(), Some(ErrorDetail::LockHeld));
        let process = format!("by another process: {} has", holder.child.id());
        assert!(error.to_string().contains(&process), "{error}");
        holder.end();
        drop(fs.lock(&path).unwrap());
    }
}

#[test]
fn the_record_locks_of_rocksdb_exclude_ours_and_name_their_process() {
    let scratch = ScratchDir::new();
    let path = scratch.path().join("LOCK");
    let fs = PosixFileSystem::new();
    let holder = Holder::start(&path, "rocksdb");
    let error = fs.lock(&path).unwrap_err();
    assert_eq!(error.detail(), Some(ErrorDetail::LockHeld));
    let process = format!("by process {}", holder.child.id());
    assert!(error.to_string().contains(&process), "{error}");
    holder.end();

    let _lock = fs.lock(&path).unwrap();
    // Closing another descriptor of the file in this process must not release the lock.
    drop(std::fs::File::open(&path).unwrap());
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "posix::hold_a_lock"])
        .env(LOCK_PATH, &path)
        .env(LOCK_HOW, "rocksdb")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(!output.status.success(), "RocksDB would get our lock");
}

#[test]
fn what_is_no_regular_file_is_refused_without_waiting() {
    let scratch = ScratchDir::new();
    let fs = PosixFileSystem::new();
    let pipe = scratch.path().join("pipe");
    let status = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(status.success());
    let error = fs.open(&pipe, &OpenOptions::default()).unwrap_err();
    assert!(error.to_string().contains("regular"), "{error}");
    assert!(fs.append(&pipe, &WriteOptions::default()).is_err());
    assert!(fs.truncate(&pipe, 0).is_err());
    assert!(fs.lock(&pipe).is_err());
}

#[test]
fn links_are_not_followed_by_what_writes() {
    let scratch = ScratchDir::new();
    let fs = PosixFileSystem::new();
    let (target, link) = (scratch.path().join("target"), scratch.path().join("link"));
    let dangling = scratch.path().join("dangling");
    std::fs::write(&target, b"precious").unwrap();
    symlink(&target, &link).unwrap();
    symlink(scratch.path().join("nowhere"), &dangling).unwrap();
    let options = WriteOptions::default();
    assert!(fs.create(&link, &options).is_err());
    assert!(fs.create(&dangling, &options).is_err());
    assert!(fs.append(&link, &options).is_err());
    assert!(fs.truncate(&link, 0).is_err());
    assert!(fs.lock(&dangling).is_err());
    assert_eq!(std::fs::read(&target).unwrap(), b"precious");
    assert!(!fs.exists(&dangling).unwrap());
    let file = fs.open(&link, &OpenOptions::default()).unwrap();
    assert_eq!(file.len(), 8);
}

#[test]
fn directories_are_private() {
    let scratch = ScratchDir::new();
    let fs = PosixFileSystem::new();
    let directory = scratch.path().join("a/b");
    fs.create_dir_all(&directory).unwrap();
    for path in [scratch.path().join("a"), directory] {
        let mode = std::fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0);
    }
}

#[test]
fn preallocated_space_is_given_back_at_close() {
    let scratch = ScratchDir::new();
    let fs = PosixFileSystem::new();
    let path = scratch.path().join("000001.log");
    let options = WriteOptions {
        preallocate_bytes: 4 << 20,
        ..WriteOptions::default()
    };
    let mut file = fs.create(&path, &options).unwrap();
    file.append(b"short").unwrap();
    file.sync_data().unwrap();
    assert_eq!(fs.metadata(&path).unwrap().len, 5);
    file.close().unwrap();
    let metadata = std::fs::metadata(&path).unwrap();
    assert_eq!(metadata.len(), 5);
    assert!(
        metadata.blocks() * 512 <= 64 << 10,
        "{} blocks are left",
        metadata.blocks()
    );
}
