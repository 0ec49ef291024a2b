//! Benchmarks the operations of a memtable over orders of keys: inserts, lookups alone and in
//! batches, scans, and inserts by several threads.
//!
//! `cargo bench -p koeldb-memtable --bench operations [-- threads,…]`
//!
//! With numbers of threads it measures only the inserts by so many, into the skip list and the
//! sorted hash memtable.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a benchmark measures with the system's clock, and may panic"
)]

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use koeldb_base::merge_operator::Merger;
use koeldb_base::{Cursor, KeyOrder, Lookup, SeqNo, ValueType};
use koeldb_memtable::{Memtable, MemtableOptions, RepKind};

const ENTRIES: u64 = 480_000;
const VALUE: [u8; 100] = [b'v'; 100];

fn mix(number: u64) -> u64 {
    let mut bits = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// A key of 16 bytes, as in db_bench: a number, most significant byte first, then zeros.
fn numbered(number: u64) -> [u8; 16] {
    let mut key = [b'0'; 16];
    key[..8].copy_from_slice(&number.swap_bytes().to_le_bytes());
    key
}

/// A key of 16 bytes of which the first eight are constant.
fn prefixed(number: u64) -> [u8; 16] {
    let mut key = *b"customer00000000";
    key[8..].copy_from_slice(&number.swap_bytes().to_le_bytes());
    key
}

/// Measures the CPU time of this thread, which other work disturbs less than wall time.
struct Stopwatch {
    started: Instant,
    running: Option<u64>,
}

impl Stopwatch {
    fn start() -> Self {
        Stopwatch {
            started: Instant::now(),
            running: Self::running(),
        }
    }

    fn running() -> Option<u64> {
        let statistics = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        statistics.split_whitespace().next()?.parse().ok()
    }

    fn elapsed(&self) -> Duration {
        match (self.running, Self::running()) {
            (Some(before), Some(after)) => Duration::from_nanos(after - before),
            _ => self.started.elapsed(),
        }
    }
}

fn per_op(elapsed: Duration, count: u64) -> String {
    format!("{:4} ns", elapsed.as_nanos() / u128::from(count))
}

fn measure(name: &str, rep: RepKind, key: impl Fn(u64) -> [u8; 16]) {
    let options = MemtableOptions {
        rep,
        ..MemtableOptions::default()
    };
    let memtable = Memtable::new(KeyOrder::Bytewise, &options);
    let start = Stopwatch::start();
    for seqno in 1..=ENTRIES {
        memtable
            .insert(seqno, ValueType::Value, &key(seqno), &VALUE)
            .unwrap();
    }
    let insert = start.elapsed();
    memtable.seal();

    let mut found = 0;
    let start = Stopwatch::start();
    for seqno in 1..=ENTRIES {
        let mut lookup = Lookup::new(&key(mix(seqno) % ENTRIES), SeqNo::MAX >> 8);
        memtable.search(&mut lookup).unwrap();
        found += u64::from(lookup.finish(Merger::default).unwrap().is_some());
    }
    let get = start.elapsed();

    let start = Stopwatch::start();
    for batch in 0..ENTRIES / 32 {
        let mut lookups: Vec<Lookup> = (batch * 32..batch * 32 + 32)
            .map(|number| Lookup::new(&key(mix(number) % ENTRIES), SeqNo::MAX >> 8))
            .collect();
        memtable.search_batch(&mut lookups, |_, error| panic!("{error}"));
        for lookup in lookups {
            found += u64::from(lookup.finish(Merger::default).unwrap().is_some());
        }
    }
    let get_batch = start.elapsed();

    let mut cursor = memtable.cursor();
    let start = Stopwatch::start();
    let mut bytes = 0;
    cursor.seek_to_first().unwrap();
    while cursor.valid() {
        bytes += cursor.key().len() + cursor.value().len();
        cursor.next().unwrap();
    }
    let scan = start.elapsed();
    println!(
        "{name:24} insert {} get {} by 32 {} ({found} found) scan {} memory {:.1} bytes/entry, {bytes} scanned",
        per_op(insert, ENTRIES),
        per_op(get, ENTRIES),
        per_op(get_batch, ENTRIES),
        per_op(scan, ENTRIES),
        memtable.memory_bytes() as f64 / ENTRIES as f64,
    );
}

fn measure_threads(name: &str, rep: RepKind, threads: u64) {
    let options = MemtableOptions {
        rep,
        fixed_hash_seed: true,
        ..MemtableOptions::default()
    };
    let memtable = Memtable::new(KeyOrder::Bytewise, &options);
    let running = AtomicU64::new(0);
    let start = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (memtable, running) = (Arc::clone(&memtable), &running);
            scope.spawn(move || {
                let own = Stopwatch::start();
                for number in 0..ENTRIES / threads {
                    let seqno = 1 + number * threads + thread;
                    let key = numbered(mix(seqno));
                    memtable
                        .insert(seqno, ValueType::Value, &key, &VALUE)
                        .unwrap();
                }
                let nanos = u64::try_from(own.elapsed().as_nanos()).unwrap();
                running.fetch_add(nanos, Ordering::Relaxed);
            });
        }
    });
    println!(
        "{name:12} {threads:2} threads insert {} wall {} of CPU time, {:.1} bytes/entry",
        per_op(start.elapsed(), ENTRIES),
        per_op(Duration::from_nanos(running.into_inner()), ENTRIES),
        memtable.memory_bytes() as f64 / ENTRIES as f64
    );
}

fn main() {
    let list = RepKind::default();
    let hash = RepKind::SortedHash {
        bucket_count: 0,
        sorted_vector_limit: 10_000,
    };
    // Cargo passes `--bench`.
    let chosen = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    if chosen.is_none() {
        measure("db_bench fillrandom", list, |n| numbered(mix(n) % ENTRIES));
        measure("random", list, |n| numbered(mix(n)));
        measure("common prefix, random", list, |n| prefixed(mix(n)));
        measure("ascending", list, numbered);
        measure("descending", list, |n| numbered(ENTRIES - n));
        let vector = RepKind::Vector { reserved: 0 };
        measure("vector, random", vector, |n| numbered(mix(n)));
    }
    for threads in chosen.as_deref().unwrap_or("1,2,4").split(',') {
        let threads = threads.parse().unwrap();
        measure_threads("skip list", list, threads);
        measure_threads("sorted hash", hash, threads);
    }
}
