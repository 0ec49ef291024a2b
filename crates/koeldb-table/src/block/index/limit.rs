//! `index-limit` measures the cost of an index block search by method, size and key distribution.
//!
//! `cargo test --release -p koeldb-table index_limit -- --ignored --nocapture`. A search ends with
//! the handle of the data block. *Independent* searches overlap in the processor; each *dependent*
//! search chooses the next, like those of a reader that waits for its data. With many blocks of
//! many keys nearly every block misses all CPU caches. The target key is cached, as a caller's is.
#![expect(
    clippy::arithmetic_side_effects,
    reason = "the program's own numbers are small"
)]

use std::cell::Cell;
use std::time::Duration;

use koeldb_base::KeyOrder;
use koeldb_base::coding::{put_varint64, zigzag};
use koeldb_base::key::{MAX_SEQNO, ValueType, encode, user_key};
use koeldb_fs::{Clock, SystemClock};

use super::*;
use crate::block::BlockBytes;
use crate::block::interpolation;
use crate::block::interpolation::tests::{Random, number_key, rounded, separators};
use crate::block::prefetch_item;
use crate::block_builder::BlockBuilder;

const SEARCHES: usize = 20_000;
const ROUNDS: usize = 7;
const TARGETS: usize = 4096;

/// A search target: a key of 16 bytes and its footer.
type Target = [u8; 24];

/// Generates separators of data blocks of 35 keys with a `distribution`, and search targets.
fn keys(distribution: &str, count: usize) -> (Vec<Vec<u8>>, Vec<Target>) {
    let mut random = Random(301);
    let per_block = 35;
    let total = (count + 2) * per_block;
    let padded = |number: u64| [&number_key(number)[..], b"00000000"].concat();
    let keys: Vec<Vec<u8>> = (0..total as u64)
        .map(|n| match distribution {
            "uniform" => padded(random.next()),
            "counter" => padded(n),
            "decimal text" => format!("{:016}", n * 7).into_bytes(),
            "lognormal" => padded(rounded((random.normal() * 2.0).exp() * 1e12)),
            "two clusters" => {
                padded(((n % 2 * 0xf0_0000_0000 + 1) << 20) + random.next() % (1 << 40))
            }
            other => panic!("{other} is no distribution"),
        })
        .collect();
    let mut targets = Vec::with_capacity(TARGETS);
    while targets.len() < TARGETS {
        let at = usize::try_from(random.next() % keys.len() as u64).unwrap();
        let target = encode(&keys[at], MAX_SEQNO, ValueType::FOR_SEEK);
        targets.push(target.try_into().unwrap());
    }
    let mut separators = separators(keys, per_block);
    separators.truncate(count);
    (separators, targets)
}

/// Builds an index block with these separators.
fn index_block(keys: &[Vec<u8>]) -> Vec<u8> {
    let mut builder = BlockBuilder::new(1, true);
    let mut before: &[u8] = &[];
    for (key, n) in keys.iter().zip(0..) {
        let handle = BlockHandle {
            offset: n * 4060,
            size: 4055,
        };
        let added = builder.add_unsized(before, key, false, |shared, out| {
            if shared {
                put_varint64(out, zigzag(0));
            } else {
                handle.encode_into(out);
            }
        });
        added.unwrap();
        before = key;
    }
    builder.finish(false).unwrap()
}

/// Searches an index block for `target`; returns the file offset of its data block.
fn locate(block: &Block, format: &IndexFormat, target: &[u8]) -> u64 {
    if let Some(decoded) = block.decoded()
        && let IndexSearchResult::Block(handle) =
            decoded.find_block(&format.keys.order, user_key(target))
    {
        return handle.offset;
    }
    let scan = IndexScan::seek(block, format, target).unwrap();
    scan.map_or(0, |scan| scan.handle().offset)
}

/// Measures the mean nanoseconds per index search: of independent and of dependent searches.
fn measure(blocks: &[Block], format: &IndexFormat, targets: &[Target]) -> (f64, f64) {
    let mut random = Random(17);
    let mut below = |count: usize| usize::try_from(random.next() % count as u64).unwrap();
    let places: Vec<(usize, usize)> = (0..=SEARCHES)
        .map(|_| (below(blocks.len()), below(targets.len())))
        .collect();
    let mut best = (Duration::MAX, Duration::MAX);
    for _ in 0..ROUNDS {
        best.0 = best.0.min(pass::<false>(blocks, format, targets, &places));
        best.1 = best.1.min(pass::<true>(blocks, format, targets, &places));
    }
    let nanos = |time: Duration| time.as_secs_f64() * 1e9 / 20_000.0;
    (nanos(best.0), nanos(best.1))
}

/// Measures the total time of one pass of searches over the pairs of block and target.
fn pass<const DEPENDENT: bool>(
    blocks: &[Block],
    format: &IndexFormat,
    targets: &[Target],
    places: &[(usize, usize)],
) -> Duration {
    let clock = SystemClock;
    let begun = clock.now();
    let mut found = 0;
    for at in 0..SEARCHES {
        prefetch_item(&targets[places[at + 1].1]);
        // Offsets are small, so the next position is always the next one, but depends on the
        // search.
        let step = if DEPENDENT {
            usize::from(found >> 63 == 1)
        } else {
            0
        };
        let (block, target) = places[at + step];
        found = std::hint::black_box(locate(&blocks[block], format, &targets[target]));
    }
    clock.now().saturating_sub(begun)
}

/// Returns the mean number of keys that interpolation decodes: without and with samples.
fn decodes(block: &Block, format: &IndexFormat, targets: &[Target]) -> (f64, f64) {
    let view = BlockSlices::new(block, format.layout());
    let decodes = Cell::new(0_u32);
    let key_at = |index| {
        decodes.set(decodes.get() + 1);
        view.restart_key(index)
    };
    let samples = SampledIndex::new(block, format).unwrap();
    let mean = |search: &dyn Fn(&[u8]) -> Result<Start>| {
        decodes.set(0);
        for target in targets {
            search(target).unwrap();
        }
        f64::from(decodes.get()) / f64::from(u32::try_from(targets.len()).unwrap())
    };
    let keys = &format.keys;
    let count = view.restart_key_count();
    (
        mean(&|target| interpolation::search(count, key_at, keys, target)),
        mean(&|target| samples.search(key_at, keys, target)),
    )
}

#[test]
#[ignore = "a measurement"]
fn index_limit() {
    let format = |search| IndexFormat {
        keys: KeyFormat {
            order: KeyOrder::Bytewise,
            user_keys: true,
            global_seqno: None,
            guess_in_data: false,
        },
        delta_values: true,
        first_keys: false,
        search,
    };
    let (halving, guessing) = (
        format(IndexSearch::Binary),
        format(IndexSearch::Interpolation),
    );
    println!("ns a search, independent/dependent");
    println!(
        "keys           n      blocks  binary     interpolation  decoded   decodes, with samples"
    );
    for distribution in [
        "uniform",
        "counter",
        "decimal text",
        "lognormal",
        "two clusters",
    ] {
        for count in [64, 256, 1024, 4096, 16_384] {
            let (keys, targets) = keys(distribution, count);
            let contents = index_block(&keys);
            let block = Block::parse(BlockBytes::from(contents.clone())).unwrap();
            let (alone, sampled) = decodes(&block, &guessing, &targets);
            for block_count in [1, 64, 200, 1024] {
                let mut blocks: Vec<Block> = (0..block_count)
                    .map(|_| Block::parse(BlockBytes::from(contents.clone())).unwrap())
                    .collect();
                let binary = measure(&blocks, &halving, &targets);
                let mut prepared = |format: &IndexFormat, decode| {
                    let format = format.clone();
                    let preparation = IndexPreparation { format, decode };
                    for block in &mut blocks {
                        block.prepare(&preparation);
                    }
                    measure(&blocks, &preparation.format, &targets)
                };
                let interpolation = prepared(&guessing, false);
                let decoded = prepared(&halving, true);
                println!(
                    "{distribution:12} {count:6} {block_count:6}  {:4.0}/{:<4.0}  {:4.0}/{:<4.0}      {:4.0}/{:<4.0} {alone:5.1} {sampled:5.1}",
                    binary.0, binary.1, interpolation.0, interpolation.1, decoded.0, decoded.1
                );
            }
        }
    }
}
