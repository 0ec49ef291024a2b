//! Measures the cost of a hit and of a miss.
//!
//! Run with `cargo test --release -p koeldb-cache measure -- --ignored --nocapture --test-threads
//! 1`.
//!
//! 65,536 entries of 4 KiB, 200,000 keys, Zipf 0.9. A hit clones the `Arc` and reads the block's
//! first word; a miss inserts a block that is in memory already. The floor is 64 mutexes around
//! hash maps without eviction.

use std::hash::{BuildHasherDefault, Hasher};
use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

use super::*;

const ENTRIES: u64 = 65_536;
const KEYS: usize = 200_000;
const BLOCK_BYTES: u64 = 4096;
const OPERATIONS: usize = 4_000_000;

type Block = Arc<[u64]>;

/// Passes the key's own hash through.
#[derive(Default)]
struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

type Floor =
    Vec<Padding<Mutex<HashMap<u64, (CacheKey, Arc<Block>), BuildHasherDefault<Identity>>>>>;

#[repr(align(128))]
struct Padding<T>(T);

trait Subject: Sync {
    fn get(&self, key: &CacheKey) -> Option<Arc<Block>>;
    fn insert(&self, key: CacheKey, block: &Block);
}

impl Subject for Cache<Block> {
    fn get(&self, key: &CacheKey) -> Option<Arc<Block>> {
        Cache::get(self, key)
    }

    fn insert(&self, key: CacheKey, block: &Block) {
        let block = Arc::new(Arc::clone(block));
        let _ = Cache::insert(self, key, block, BLOCK_BYTES, Priority::Low);
    }
}

impl Subject for Floor {
    fn get(&self, key: &CacheKey) -> Option<Arc<Block>> {
        let hash = key.hash();
        let map = self[(hash >> 58) as usize].0.lock().unwrap();
        let (stored, block) = map.get(&hash)?;
        (stored == key).then(|| Arc::clone(block))
    }

    fn insert(&self, key: CacheKey, block: &Block) {
        let hash = key.hash();
        let block = Arc::new(Arc::clone(block));
        let mut map = self[(hash >> 58) as usize].0.lock().unwrap();
        map.insert(hash, (key, block));
    }
}

fn zipf() -> Vec<f64> {
    let mut sum = 0.0;
    let weights: Vec<f64> = (1..=KEYS)
        .map(|rank| {
            sum += 1.0 / (rank as f64).powf(0.9);
            sum
        })
        .collect();
    weights.into_iter().map(|weight| weight / sum).collect()
}

fn random(state: &mut u64) -> f64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*state >> 11) as f64 / (1_u64 << 53) as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a number below `end`"
)]
fn below(end: usize, state: &mut u64) -> usize {
    (random(state) * end as f64) as usize
}

/// Returns nanoseconds per operation and the hit rate.
#[expect(clippy::disallowed_methods, reason = "a measurement")]
fn run(subject: &dyn Subject, blocks: &[Block], traces: &[Vec<u32>]) -> (f64, f64) {
    let start = Barrier::new(traces.len());
    let results: Vec<(f64, usize)> = thread::scope(|scope| {
        let threads: Vec<_> = traces
            .iter()
            .map(|trace| {
                let start = &start;
                scope.spawn(move || {
                    let mut hits = 0;
                    let mut sum = 0_u64;
                    start.wait();
                    let begin = Instant::now();
                    for &k in trace {
                        let key = CacheKey {
                            file: 3,
                            offset: u64::from(k) * 4101,
                        };
                        if let Some(block) = subject.get(&key) {
                            hits += 1;
                            sum = sum.wrapping_add(block[0]);
                        } else {
                            subject.insert(key, &blocks[k as usize]);
                        }
                    }
                    black_box(sum);
                    (
                        begin.elapsed().as_secs_f64() * 1e9 / trace.len() as f64,
                        hits,
                    )
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    let nanos = results.iter().map(|(nanos, _)| nanos).sum::<f64>() / results.len() as f64;
    let hits: usize = results.iter().map(|(_, hits)| hits).sum();
    let operations: usize = traces.iter().map(Vec::len).sum();
    (nanos, hits as f64 / operations as f64)
}

#[test]
#[ignore = "a measurement"]
fn nanoseconds_a_hit_and_a_miss() {
    let zipf = zipf();
    let blocks: Vec<Block> = (0..KEYS as u64).map(|i| vec![i; 512].into()).collect();
    let mut state = 42;
    // Ranks are spread over keys; otherwise hot keys would be neighbours.
    let mut key_of: Vec<u32> = (0..).take(KEYS).collect();
    for i in (1..KEYS).rev() {
        key_of.swap(i, below(i + 1, &mut state));
    }
    let mut trace = |keys: Option<usize>| -> Vec<u32> {
        (0..OPERATIONS)
            .map(|_| {
                loop {
                    let at = random(&mut state);
                    let rank = zipf.partition_point(|&limit| limit < at).min(KEYS - 1);
                    if keys.is_none_or(|keys| rank < keys) {
                        break key_of[rank];
                    }
                }
            })
            .collect()
    };
    // Only keys that fit, with slack for shards of different weight.
    let hits: Vec<_> = (0..2).map(|_| trace(Some(50_000))).collect();
    let mixed: Vec<_> = (0..2).map(|_| trace(None)).collect();
    let options = |policy| CacheOptions {
        capacity_bytes: ENTRIES * (BLOCK_BYTES + OVERHEAD),
        shard_bits: Some(6),
        policy,
        ..CacheOptions::default()
    };
    for round in 1..=3 {
        println!("round {round}");
        for name in ["floor", "clock", "lru"] {
            let make = || -> Box<dyn Subject> {
                match name {
                    "floor" => {
                        let shards = (0..64).map(|_| Padding(Mutex::new(HashMap::default())));
                        Box::new(shards.collect::<Floor>())
                    }
                    "clock" => Box::new(Cache::<Block>::new(&options(CachePolicy::S3Fifo))),
                    _ => Box::new(Cache::<Block>::new(&options(CachePolicy::Lru))),
                }
            };
            let warm = make();
            run(&*warm, &blocks, &hits);
            let (hit1, all1) = run(&*warm, &blocks, &hits[..1]);
            let (hit2, all2) = run(&*warm, &blocks, &hits);
            let (mix1, mix2, rate) = if name == "floor" {
                // Hits of present keys and misses of new keys, at the hit rate of the caches.
                let floor = make();
                let (mix1, _) = run(&*floor, &blocks, &mixed[..1]);
                (mix1, f64::NAN, f64::NAN)
            } else {
                let cache = make();
                run(&*cache, &blocks, &mixed[1..]);
                let (mix1, rate) = run(&*cache, &blocks, &mixed[..1]);
                let (mix2, _) = run(&*cache, &blocks, &mixed);
                (mix1, mix2, rate)
            };
            println!(
                "{name:6} hits: 1 thread {hit1:5.1} ns ({:.3}), 2 threads {hit2:5.1} ns ({:.3}); \
                 zipf: {mix1:5.1} ns, {mix2:5.1} ns, {:.2} % hits",
                all1,
                all2,
                rate * 100.0
            );
        }
    }
}
