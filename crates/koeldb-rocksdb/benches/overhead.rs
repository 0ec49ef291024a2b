//! The cost of the API of the crate `rocksdb` over the engine's: a cached get, and an iterator's step.
//!
//! ```sh
//! cargo bench -p koeldb-rocksdb --bench overhead
//! ```
//!
//! Rounds of both alternate, and the medians of their times are printed.
#![expect(
    clippy::disallowed_methods,
    reason = "a benchmark takes the time of the machine"
)]
#![expect(clippy::unwrap_used, reason = "what fails ends the benchmark")]
#![expect(clippy::cast_precision_loss, reason = "times are printed as numbers")]

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use rocksdb::{DB, Options};

const KEYS: usize = 10_000;
const ROUNDS: usize = 41;

fn key(index: usize) -> [u8; 16] {
    let mut key = *b"key0000000000000";
    key[3..].copy_from_slice(format!("{:013}", index * 7919 % KEYS).as_bytes());
    key
}

/// Nanoseconds for each of `KEYS` operations.
fn nanos(run: impl FnOnce()) -> f64 {
    let begun = Instant::now();
    run();
    begun.elapsed().as_nanos() as f64 / KEYS as f64
}

fn compare(what: &str, mut ours: impl FnMut(), mut engine: impl FnMut()) {
    let mut times: [Vec<f64>; 2] = Default::default();
    for _ in 0..ROUNDS {
        times[0].push(nanos(&mut ours));
        times[1].push(nanos(&mut engine));
    }
    let [ours, engine] = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[ROUNDS / 2]
    });
    println!(
        "{what}: {ours:.1} ns, engine {engine:.1} ns, over it {:.1} ns",
        ours - engine
    );
}

fn main() {
    let dir = std::env::temp_dir().join(format!("koeldb-overhead-{}", std::process::id()));
    run(&dir);
    DB::destroy(&Options::default(), &dir).unwrap();
}

fn run(dir: &Path) {
    let keys: Vec<[u8; 16]> = (0..KEYS).map(key).collect();
    let mut options = Options::default();
    options.create_if_missing(true);
    let fill = DB::open(&options, dir).unwrap();
    for key in &keys {
        fill.put(key, [b'v'; 100]).unwrap();
    }
    fill.flush().unwrap();
    fill.compact_range(None::<&[u8]>, None::<&[u8]>);
    drop(fill);

    let second = dir.join("engine");
    let db = DB::open(&options, dir).unwrap();
    rocksdb::checkpoint::Checkpoint::new(&db)
        .unwrap()
        .create_checkpoint(&second)
        .unwrap();
    let engine = koeldb::Db::open(&koeldb::Options::new(), &second).unwrap();
    compare(
        "get of 100 cached bytes",
        || {
            for key in &keys {
                black_box(db.get(key).unwrap());
            }
        },
        || {
            for key in &keys {
                black_box(engine.get(key).unwrap());
            }
        },
    );
    let mut iterator = db.raw_iterator();
    let mut cursor = engine.cursor();
    compare(
        "step of an iterator",
        || {
            iterator.seek_to_first();
            while iterator.valid() {
                black_box(iterator.item());
                iterator.next();
            }
        },
        || {
            cursor.seek_to_first().unwrap();
            while cursor.valid() {
                black_box(cursor.entry());
                cursor.next().unwrap();
            }
        },
    );
    drop((iterator, cursor));
    engine.close().unwrap();
    koeldb::Db::destroy(&koeldb::Options::new(), &second).unwrap();
}
