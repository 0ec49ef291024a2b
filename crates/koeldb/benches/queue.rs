//! Measures a queue: entries are put at one end and deleted at the other, found by a seek.
//!
//! ```sh
//! cargo bench -p koeldb --bench queue [-- OPERATIONS [delete_range]]
//! ```
//!
//! Each operation is a seek to the first entry, its deletion, and a put behind the last entry of
//! 1,000. The program prints the mean time of a seek and of an operation for each tenth of the
//! operations, with point deletions or, if asked, with `delete_range`. It fails if seeks of a later
//! tenth took more than five times as long as those of the first one.
#![expect(clippy::unwrap_used, reason = "a failure ends the benchmark")]
#![expect(clippy::disallowed_methods, reason = "it measures time")]

use std::time::{Duration, Instant};

use koeldb::{Db, Env, Options};

const LENGTH: u64 = 1000;
const SLOWER_MAX: f64 = 5.0;

fn key(number: u64) -> Vec<u8> {
    format!("{number:016}").into_bytes()
}

/// Runs the operations; returns the mean microseconds of a seek in each tenth.
#[expect(clippy::cast_precision_loss, reason = "means of times")]
fn run(operations: u64, deletes_ranges: bool) -> Vec<f64> {
    let mut options = Options::new();
    options.create_if_missing(true).set_env(&Env::mem_env());
    let db = Db::open(&options, "/queue").unwrap();
    for number in 0..LENGTH {
        db.put(key(number), [b'v'; 100]).unwrap();
    }
    let tenth = operations / 10;
    let mut means = Vec::new();
    for part in 0..10 {
        let begun = Instant::now();
        let (mut seeks, mut longest) = (Duration::ZERO, Duration::ZERO);
        for number in part * tenth..(part + 1) * tenth {
            let seek = Instant::now();
            let mut cursor = db.cursor();
            assert!(cursor.seek_to_first().unwrap());
            assert_eq!(cursor.key(), Some(&key(number)[..]));
            drop(cursor);
            seeks += seek.elapsed();
            longest = longest.max(seek.elapsed());
            match deletes_ranges {
                true => db.delete_range(key(number), key(number + 1)).unwrap(),
                false => db.delete(key(number)).unwrap(),
            }
            db.put(key(number + LENGTH), [b'v'; 100]).unwrap();
        }
        let micros = |time: Duration| time.as_secs_f64() * 1e6 / tenth as f64;
        println!(
            "{} {:3} %: {:7.2} us a seek, {:7.2} us an operation, longest seek {:?}",
            if deletes_ranges {
                "delete_range"
            } else {
                "delete"
            },
            (part + 1) * 10,
            micros(seeks),
            micros(begun.elapsed()),
            longest,
        );
        means.push(micros(seeks));
    }
    means
}

fn main() {
    let given = std::env::args().find_map(|word| word.parse().ok());
    let deletes_ranges = std::env::args().any(|word| word == "delete_range");
    let means = run(given.unwrap_or(10_000_000), deletes_ranges);
    let slowest = means.iter().fold(0.0_f64, |a, b| a.max(*b));
    assert!(
        slowest <= SLOWER_MAX * means[0],
        "{slowest} us after {} us",
        means[0]
    );
}
