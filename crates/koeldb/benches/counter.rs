//! Increments of one counter by transactions of several threads, each repeated until it commits.
//!
//! ```sh
//! cargo bench -p koeldb --bench counter -- DIRECTORY t 2 300000
//! ```
//!
//! `t`: pessimistic transactions, `o`: optimistic ones; then the number of threads and the
//! increments of each. `benchmarks/randomtransaction.cc` does the same through RocksDB (modes `T`, `O`).
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what fails ends the benchmark"
)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use koeldb::{Db, ErrorKind, Options, Result, TransactionDbOptions};

fn increment(db: &Db) -> Result<()> {
    let mut transaction = db.transaction();
    let value = transaction.get_for_update("counter")?;
    let old = value.map_or(0, |value| {
        std::str::from_utf8(&value).unwrap().parse::<u64>().unwrap()
    });
    transaction.put("counter", (old + 1).to_string())?;
    transaction.commit().map(drop)
}

#[expect(clippy::disallowed_methods, reason = "a measurement")]
fn main() {
    let arguments: Vec<String> = std::env::args().filter(|text| text != "--bench").collect();
    let [_, directory, mode, threads, count] = &arguments[..] else {
        return;
    };
    let (threads, count): (u64, u64) = (threads.parse().unwrap(), count.parse().unwrap());
    let mut options = Options::new();
    options.create_if_missing(true);
    if mode == "t" {
        options.set_transactions(&TransactionDbOptions::new());
    }
    let db = Db::open(&options, directory).unwrap();
    let aborts = AtomicU64::new(0);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                for _ in 0..count {
                    while let Err(error) = increment(&db) {
                        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
                        aborts.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let seconds = begun.elapsed().as_secs_f64();
    let value = db.get("counter").unwrap().unwrap();
    assert_eq!(&*value, (threads * count).to_string().as_bytes());
    println!(
        "{} increments/sec, aborts:{}",
        threads as f64 / seconds * count as f64,
        aborts.into_inner()
    );
}
