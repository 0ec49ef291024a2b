//! Two processes and one directory: one may write, any number may look on.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::time::Duration;

use koeldb::fs::{Clock, SystemClock};
use koeldb::{Db, ErrorDetail, Options};

use crate::ScratchDir;
use crate::kill::start_child;

/// The environment variable with the directory for the child.
const DIRECTORY: &str = "KOELDB_NEIGHBOUR_DIRECTORY";

fn options() -> Options {
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_write_buffer_size(64 << 10)
        .set_level_zero_file_num_compaction_trigger(3);
    options
}

/// The child: writes ascending keys until its end of the pipe is closed.
#[test]
fn writing_neighbour() {
    let Ok(directory) = std::env::var(DIRECTORY) else {
        return;
    };
    let db = Db::open(&options(), directory).unwrap();
    for number in 0_u64.. {
        db.put(
            format!("key {number:08}"),
            format!("value {number} {}", "x".repeat(700)),
        )
        .unwrap();
        if std::io::stderr()
            .write_all(format!("{number}\n").as_bytes())
            .is_err()
        {
            return;
        }
        SystemClock.sleep(Duration::from_micros(300));
    }
}

/// Counts the keys of a reader, which must be contiguous from 0 with the right values.
fn count_prefix(db: &Db) -> u64 {
    let mut count = 0;
    for entry in db.range(..) {
        let (key, value) = entry.unwrap();
        assert_eq!(
            key.to_vec(),
            format!("key {count:08}").into_bytes(),
            "a hole"
        );
        assert!(value.starts_with(format!("value {count} ").as_bytes()));
        count += 1;
    }
    count
}

#[test]
fn a_directory_has_one_writer_and_any_readers() {
    let directory = ScratchDir::new();
    let path: &Path = &directory.path;
    let mut child = start_child("neighbours::writing_neighbour", DIRECTORY, path);
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut acknowledged = |at_least: u64| {
        loop {
            let number: u64 = lines.next().unwrap().unwrap().parse().unwrap();
            if number >= at_least {
                return number;
            }
        }
    };
    let mut last = acknowledged(0);
    let mut seen = 0;
    for round in 0..20 {
        let refused = Db::open(&options(), path).unwrap_err();
        assert_eq!(refused.detail(), Some(ErrorDetail::LockHeld), "{refused}");
        let destroyed = Db::destroy(&options(), path).unwrap_err();
        assert_eq!(
            destroyed.detail(),
            Some(ErrorDetail::LockHeld),
            "{destroyed}"
        );
        last = acknowledged(last + 40);
        let options = options();
        let mut builder = Db::builder(&options);
        builder.read_only();
        let reader = builder
            .open(path)
            .unwrap_or_else(|error| panic!("round {round}: {error}"));
        let count = count_prefix(&reader);
        assert!(
            count > last,
            "round {round}: {count} entries, {last} was acknowledged before"
        );
        assert!(
            count >= seen,
            "round {round}: {count} entries, {seen} before"
        );
        assert!(reader.put("key", "value").is_err());
        // Concurrent flushes and compactions of the writer change nothing for the reader.
        last = acknowledged(last + 40);
        assert_eq!(count_prefix(&reader), count, "round {round}");
        seen = count;
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // Its death has freed the directory.
    let db = Db::open(&options(), path).unwrap();
    assert!(count_prefix(&db) >= seen);
    db.put("key", "value").unwrap();
}
