//! Counts the instructions that one wide range tombstone adds to scans and point reads, by callgrind.
//!
//! ```sh
//! cargo bench -p koeldb --bench wide_tombstone
//! ```
//!
//! needs `valgrind`. The program runs itself under callgrind, on a database of 1,000 tables. In
//! one case a range tombstone over all keys was cut at every table; the entries are newer. In
//! another it is in the memtable, and hides all keys but 200. It fails if a scan of the first case
//! costs more than 1.1 times a scan without tombstones.
#![expect(clippy::unwrap_used, reason = "a failure ends the benchmark")]

use std::hint::black_box;
use std::process::Command;

use koeldb::{BlockBasedOptions, Cache, Db, Env, Options};

const KEYS: u64 = 72_000;
const GETS: u64 = 2_000;
const MORE_MAX: f64 = 1.1;

fn key(number: u64) -> Vec<u8> {
    format!("{number:016}").into_bytes()
}

/// A database with about 1,000 tables on one level.
fn database(case: &str) -> Db {
    let mut table = BlockBasedOptions::new();
    table.set_block_cache(&Cache::new_clock_cache(64 << 20));
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_disable_auto_compactions(true)
        .set_compression_type(koeldb::Compression::None)
        .set_target_file_size_base(5 << 10)
        .set_block_based_table_factory(&table)
        .set_env(&Env::mem_env());
    let db = Db::open(&options, "/wide").unwrap();
    // A snapshot between tombstone and entries keeps the tombstone.
    db.put(key(0), b"old").unwrap();
    let old = db.snapshot();
    if case == "cut" {
        db.delete_range(key(0), key(KEYS)).unwrap();
    }
    let snapshot = db.snapshot();
    for half in 0..2 {
        for number in (half..KEYS).step_by(2) {
            db.put(key(number), [b'v'; 100]).unwrap();
        }
        db.flush().unwrap();
    }
    db.compact_range(..).unwrap();
    drop((old, snapshot));
    let tables = db.live_files().len();
    assert!(tables > 900, "{tables} tables");
    if case == "memtable" {
        db.delete_range(key(100), key(KEYS - 100)).unwrap();
    }
    db
}

/// Scans and reads; callgrind counts the instructions within the function named by `part`.
fn read(case: &str, part: &str) {
    let db = database(case);
    let is_hidden = case == "memtable";
    let expected = if is_hidden { 200 } else { KEYS };
    // The first one fills the cache.
    for _ in 0..2 {
        assert_eq!(scan(&db), expected);
    }
    match part {
        "scan" => assert_eq!(counted_part(|| scan(&db)), expected),
        _ => {
            let found = counted_part(|| {
                let keys = (0..GETS).map(|step| key(200 + step * 7919 % (KEYS - 400)));
                keys.filter(|key| black_box(db.get(key).unwrap()).is_some())
                    .count()
            });
            assert_eq!(found > 0, !is_hidden);
        }
    }
}

#[inline(never)]
fn counted_part<T>(part: impl FnOnce() -> T) -> T {
    black_box(part())
}

fn scan(db: &Db) -> u64 {
    let mut cursor = db.cursor();
    let (mut count, mut is_there) = (0, cursor.seek_to_first().unwrap());
    while is_there {
        count += 1;
        is_there = cursor.next().unwrap();
    }
    count
}

/// Returns the instruction count of one run of this program.
fn counted(case: &str, part: &str) -> u64 {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg("--toggle-collect=*counted_part*")
        .arg(std::env::current_exe().unwrap())
        .arg(format!("--read={case},{part}"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}");
    let line = text.lines().find(|line| line.contains("Collected"));
    let count = line.and_then(|line| line.rsplit(' ').next());
    count.unwrap().parse().unwrap()
}

#[expect(clippy::cast_precision_loss, reason = "a ratio of counts")]
fn main() {
    let mut words = std::env::args();
    if let Some(run) = words.find_map(|word| word.strip_prefix("--read=").map(str::to_owned)) {
        let (case, part) = run.split_once(',').unwrap();
        return read(case, part);
    }
    let mut of_scans = Vec::new();
    for (part, operations) in [("scan", KEYS), ("gets", GETS)] {
        for case in ["none", "cut", "memtable"] {
            let count = counted(case, part) as f64;
            println!(
                "{part}, tombstone {case:8}: {:7.1} instructions an operation",
                count / operations as f64
            );
            if part == "scan" {
                of_scans.push(count);
            }
        }
    }
    let more = of_scans[1] / of_scans[0];
    println!("a scan over a tombstone that is cut at every table: {more:.3} times one without");
    assert!(more <= MORE_MAX, "{more:.3} times");
}
