//! Counts the instructions that `async_io` adds to a fully cached multi-get, by callgrind.
//!
//! ```sh
//! cargo bench -p koeldb --bench cached_multi_get
//! ```
//!
//! needs `valgrind`. The program runs itself under callgrind, for batches of 1, 8 and 32 adjacent
//! or distant keys, with and without `async_io`. It fails if overlapping reads cost more than 2 %
//! when there is nothing to overlap.
#![expect(clippy::unwrap_used, reason = "what fails ends the benchmark")]

use std::hint::black_box;
use std::process::Command;

use koeldb::{BlockBasedOptions, Cache, Db, Env, Options, PinnedSlices, ReadOptions};

const KEYS: u64 = 8_000;
const BATCHES: u64 = 300;
const MORE_PERCENT_MAX: f64 = 2.0;

fn key(number: u64) -> [u8; 16] {
    let mut key = *b"key-000000000000";
    let mut rest = number;
    for digit in key[4..].iter_mut().rev() {
        *digit = b'0' + u8::try_from(rest % 10).unwrap();
        rest /= 10;
    }
    key
}

/// Four runs, each with half the keys of the next older one, all cached.
fn database() -> Db {
    let mut table = BlockBasedOptions::new();
    table
        .set_bloom_filter(10.0)
        .set_block_cache(&Cache::new_clock_cache(64 << 20));
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_disable_auto_compactions(true)
        .set_block_based_table_factory(&table)
        .set_env(&Env::mem_env());
    let db = Db::open(&options, "/cached").unwrap();
    for run in 0..4 {
        for number in (0..KEYS).step_by(1 << run) {
            db.put(key(number), [b'v'; 100]).unwrap();
        }
        db.flush().unwrap();
    }
    for number in 0..KEYS {
        black_box(db.get(key(number)).unwrap());
    }
    db
}

/// Reads batches; callgrind counts the instructions within [`counted_multi_get`].
fn read(batch: u64, stride: u64, async_io: bool) {
    let db = database();
    let mut options = ReadOptions::new();
    options.set_async_io(async_io);
    let mut values = PinnedSlices::new();
    let mut start = 1;
    for _ in 0..BATCHES {
        start = (start * 7919 + 13) % KEYS;
        let keys: Vec<_> = (0..batch)
            .map(|i| key((start + i * stride) % KEYS))
            .collect();
        counted_multi_get(&db, &keys, &options, &mut values);
        assert!(values.iter().all(|value| value.unwrap().is_some()));
    }
}

#[inline(never)]
fn counted_multi_get(db: &Db, keys: &[[u8; 16]], options: &ReadOptions, values: &mut PinnedSlices) {
    db.multi_get_into(keys, options, values);
}

/// Returns the instruction count of one run of this program.
fn counted(batch: u64, stride: u64, async_io: bool) -> u64 {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg("--toggle-collect=*counted_multi_get*")
        .arg(std::env::current_exe().unwrap())
        .arg(format!("--read={batch},{stride},{async_io}"))
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
        let parts: Vec<&str> = run.split(',').collect();
        let number = |at: usize| parts[at].parse().unwrap();
        return read(number(0), number(1), parts[2] == "true");
    }
    let mut most = 0_f64;
    for (stride, place) in [(1, "neighbours"), (211, "far apart")] {
        for batch in [1, 8, 32] {
            let per_key =
                |async_io| counted(batch, stride, async_io) as f64 / (BATCHES * batch) as f64;
            let (waiting, overlapped) = (per_key(false), per_key(true));
            let percent = (overlapped / waiting - 1.0) * 100.0;
            most = most.max(percent);
            println!(
                "batch {batch:2}, {place:10}: {waiting:7.1} instructions a key, \
                 {overlapped:7.1} with async_io, {percent:+.2} %"
            );
        }
    }
    assert!(most <= MORE_PERCENT_MAX, "{most:.2} % more with async_io");
}
