//! Benchmarks counting: adding to a ticker, and recording in a histogram.
//!
//! `cargo bench -p koeldb-base --bench statistics`
#![expect(
    clippy::disallowed_methods,
    reason = "a benchmark measures with the system's clock"
)]

use koeldb_base::stats::{HistogramKind, Statistics, Ticker};

fn main() {
    let statistics = Statistics::new();
    let rounds = 50_000_000_u32;
    let start = std::time::Instant::now();
    for _ in 0..rounds {
        std::hint::black_box(&statistics).add(Ticker::BytesRead, 1);
    }
    println!(
        "add: {:.2} ns",
        start.elapsed().as_secs_f64() * 1e9 / f64::from(rounds)
    );
    let start = std::time::Instant::now();
    for i in 0..rounds {
        std::hint::black_box(&statistics).record(HistogramKind::DbGet, u64::from(i & 0xfff));
    }
    println!(
        "record: {:.2} ns",
        start.elapsed().as_secs_f64() * 1e9 / f64::from(rounds)
    );
}
