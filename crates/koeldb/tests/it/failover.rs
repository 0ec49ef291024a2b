//! Two engines alternate in one directory, and each is killed while writing.
//!
//! Each engine opens what the other left, finds a prefix of the batches that includes at least the
//! last acknowledged one, and continues. Occasionally the end of the newest log is cut off, as by a
//! power cut, and both read copies with the same result.
//!
//! Batch `n` puts `counter` and key `n` in every column family, and deletes key `n - 50`;
//! `Check.java` does the same.

mod ldb;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use koeldb::{ColumnFamily, Db, IteratorMode, WriteBatch};
use koeldb_testkit::{Floors, Random};

use crate::prelude::{LIMIT, creating};
use crate::rocksdb::Java;
use crate::scratch::ScratchDir;

const FAMILIES: [&str; 2] = ["default", "other"];
const WINDOW: u64 = 50;

/// The environment variable with the directory for the child.
const DIRECTORY: &str = "KOELDB_FAILOVER_DIRECTORY";

fn open(path: &Path) -> koeldb::Result<(Db, Vec<ColumnFamily>)> {
    let mut options = creating();
    options
        .set_write_buffer_size(64 << 10)
        .set_target_file_size_base(64 << 10)
        .set_level_zero_file_num_compaction_trigger(3);
    let mut builder = Db::builder(&options);
    builder.column_families(FAMILIES);
    let db = builder.open(path)?;
    let families = db.cf_handles();
    Ok((db, families))
}

fn key(number: u64) -> String {
    format!("batch{number:08}")
}

fn value(number: u64) -> String {
    let length = usize::try_from(number * 37 % 900).unwrap();
    format!("value {number} {}", "x".repeat(length))
}

/// Returns the number of batches, the same prefix in all column families.
fn count(families: &[ColumnFamily]) -> u64 {
    let mut counts = families.iter().map(|family| {
        let counter = family.get("counter").unwrap();
        let count = counter.map_or(0, |text| {
            std::str::from_utf8(&text).unwrap().parse::<u64>().unwrap()
        });
        let first = (count + 1).saturating_sub(WINDOW).max(1);
        for number in first..=count {
            let found = family.get(key(number)).unwrap();
            assert_eq!(
                found.as_deref(),
                Some(value(number).as_bytes()),
                "batch {number} of {count}"
            );
        }
        let entries = family.iterator(IteratorMode::Start).count() as u64;
        assert_eq!(entries, count.min(WINDOW) + u64::from(count > 0));
        count
    });
    let first = counts.next().unwrap();
    assert!(counts.all(|count| count == first), "families differ");
    first
}

/// The child: writes batches until it is killed.
#[test]
fn loading_child() {
    let Some(directory) = std::env::var_os(DIRECTORY) else {
        return;
    };
    let (db, families) = open(Path::new(&directory)).unwrap();
    // Not captured, and one write for each line.
    let say = |what: &str, number: u64| {
        std::io::stderr()
            .write_all(format!("{what} {number}\n").as_bytes())
            .is_ok()
    };
    let mut number = count(&families);
    say("opened", number);
    loop {
        number += 1;
        let mut batch = WriteBatch::new();
        for family in &families {
            batch.put_cf(family, "counter", number.to_string());
            batch.put_cf(family, key(number), value(number));
            if number > WINDOW {
                batch.delete_cf(family, key(number - WINDOW));
            }
        }
        db.write(&batch).unwrap();
        if !say("written", number) {
            return;
        }
        if number.is_multiple_of(89) {
            families[0].flush().unwrap();
        }
    }
}

/// Returns the number of batches that a process found, and the last one that it acknowledged.
fn take_turn(mut child: Child, lines: &Receiver<String>, life: Duration) -> (u64, u64) {
    let begun = Instant::now();
    let (mut opened, mut written) = (None, 0);
    let mut said = Vec::new();
    let mut kill_at = None;
    loop {
        let left = match kill_at {
            Some(at) => at - begun.elapsed().min(at),
            None => LIMIT.saturating_sub(begun.elapsed()),
        };
        if left.is_zero() {
            break;
        }
        match lines.recv_timeout(left) {
            Ok(line) => match line.split_once(' ') {
                Some(("opened", number)) => {
                    opened = number.parse().ok();
                    kill_at = Some(begun.elapsed() + life);
                }
                Some(("written", number)) => written = number.parse().unwrap_or(written),
                _ => said.push(line),
            },
            Err(RecvTimeoutError::Timeout) => break,
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // Output before its death counts.
    for line in lines {
        if let Some(("written", number)) = line.split_once(' ') {
            written = number.parse().unwrap_or(written);
        }
    }
    let opened = opened.unwrap_or_else(|| panic!("it did not open: {}", said.join("\n")));
    (opened, written.max(opened))
}

fn lines_of(output: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Runs the test `child` as a process of KoelDB and kills it.
fn our_turn(child: &str, directory: &Path, life: Duration) -> (u64, u64) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([child, "--exact", "--nocapture"])
        .env(DIRECTORY, directory)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = lines_of(child.stderr.take().unwrap());
    take_turn(child, &lines, life)
}

fn their_turn(java: &Java, directory: &Path, life: Duration) -> (u64, u64) {
    let mut child = java.load(directory).stdout(Stdio::piped()).spawn().unwrap();
    let lines = lines_of(child.stdout.take().unwrap());
    take_turn(child, &lines, life)
}

fn copy(directory: &Path) -> ScratchDir {
    let copy = ScratchDir::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() && entry.file_name() != "LOCK" {
            std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
        }
    }
    copy
}

/// Cuts off the end of the newest log.
///
/// The contents of older logs may be in tables too, and were synced before that: a power cut cannot
/// remove them.
fn tear_newest_log(directory: &Path, random: &mut Random) {
    let entries = std::fs::read_dir(directory).unwrap();
    let logs = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "log"));
    if let Some(log) = logs.max() {
        let bytes = log.metadata().unwrap().len();
        let cut = random.below(bytes.clamp(1, 3000));
        let file = std::fs::File::options().write(true).open(log).unwrap();
        file.set_len(bytes - cut).unwrap();
    }
}

/// Both engines find the same in copies of a directory.
fn both_count(java: &Java, directory: &Path) -> u64 {
    let ours = {
        let copy = copy(directory);
        let (_db, families) = open(copy.path()).unwrap();
        count(&families)
    };
    let copy = copy(directory);
    let theirs = java.attempt("count", copy.path(), &[]);
    assert!(
        theirs.succeeded && theirs.text.contains(&format!("opened {ours}\n")),
        "we find {ours} batches, and RocksDB: {}",
        theirs.text
    );
    ours
}

#[test]
fn each_engine_goes_on_from_what_the_death_of_the_other_left() {
    let Some(java) = Java::find() else {
        return;
    };
    let rounds = Floors::chosen().of(5, 10, 200);
    let mut random = Random::new(1);
    let dir = ScratchDir::new();
    drop(open(dir.path()).unwrap());
    let mut acknowledged = 0;
    for round in 0..rounds {
        for theirs in [false, true] {
            let life = Duration::from_millis(random.below(400));
            let (opened, written) = match theirs {
                false => our_turn("failover::loading_child", dir.path(), life),
                true => their_turn(java, dir.path(), life),
            };
            // A write may be in the log and its acknowledgement not in the pipe.
            assert!(
                (acknowledged..=acknowledged + 1).contains(&opened),
                "round {round}: {opened} batches are there, {acknowledged} were acknowledged"
            );
            acknowledged = written;
            if (round + u64::from(theirs)).is_multiple_of(2) {
                tear_newest_log(dir.path(), &mut random);
                let count = both_count(java, dir.path());
                assert!(count <= acknowledged + 1);
                acknowledged = count;
            }
        }
    }
    println!("summary suite=failover seed=1 rounds={rounds} batches={acknowledged} failures=0");
}
