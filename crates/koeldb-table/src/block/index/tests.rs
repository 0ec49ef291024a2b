//! Compares every search method of index blocks with a linear scan.

use koeldb_base::KeyOrder;
use koeldb_base::key::{ValueType, encode};
use proptest::prelude::*;

use super::decoded::tests::{format, index_contents};
use super::*;
use crate::block::BlockBytes;
use crate::block::interpolation::tests::{any_keys, number_key, versions_of};

const SEARCHES: [IndexSearch; 3] = [
    IndexSearch::Binary,
    IndexSearch::Interpolation,
    IndexSearch::Auto,
];

/// The block of `contents`, prepared in each way, with its search method.
fn prepared(contents: &[u8], format: &IndexFormat) -> Vec<(Block, IndexFormat)> {
    let mut blocks = Vec::new();
    for search in SEARCHES {
        for decode in [None, Some(false), Some(true)] {
            let mut block = Block::parse(BlockBytes::from(contents.to_vec())).unwrap();
            let format = IndexFormat {
                search,
                ..format.clone()
            };
            if let Some(decode) = decode {
                let format = format.clone();
                block.prepare(&IndexPreparation { format, decode });
            }
            blocks.push((block, format));
        }
    }
    blocks
}

/// Searches for one target in a block with a scan and with a cursor.
fn find(block: &Block, format: &IndexFormat, target: &[u8]) -> Option<Vec<u8>> {
    let scan = IndexScan::seek(block, format, target).unwrap();
    let found = scan.map(|scan| scan.key().to_vec());
    let mut cursor = IndexCursor::new(block.clone(), format.clone());
    cursor.seek(target).unwrap();
    assert_eq!(found.as_deref(), cursor.valid().then(|| cursor.key()));
    found
}

/// Searches for ascending targets together, and compares with a search for each.
fn compare_together(block: &Block, format: &IndexFormat, targets: &[Vec<u8>]) {
    for batch in targets.chunks(INDEX_BATCH) {
        let batch: Vec<&[u8]> = batch.iter().map(|target| &target[..]).collect();
        let mut places = [IndexSearchResult::Unknown; INDEX_BATCH];
        format.find_blocks(block, &batch, &mut places).unwrap();
        for (target, place) in batch.iter().zip(places) {
            let scan = IndexScan::seek(block, format, target).unwrap();
            match place {
                IndexSearchResult::Unknown => {}
                IndexSearchResult::Behind => assert!(scan.is_none()),
                IndexSearchResult::Block(handle) => assert_eq!(scan.unwrap().handle(), handle),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 48 }))]

    #[test]
    fn every_mode_finds_what_a_linear_scan_finds(
        (keys, other) in (any_keys(200), any_keys(20)),
        prefix in prop::sample::select(vec!["", "p", "a long common prefix"]),
        suffix in prop::sample::select(vec![&b""[..], b"\0\0\0\0\0\0\0\x07", b"\xff\xff\xff\xff"]),
        order in prop::sample::select(vec![KeyOrder::Bytewise, KeyOrder::ReverseBytewise]),
        (internal, marked) in any::<(bool, bool)>(),
        interval in prop::sample::select(vec![1_u32, 1, 4, 16]),
        seqnos: [u8; 3],
    ) {
        let keys: Vec<Vec<u8>> = keys.iter().map(|key| [&key[..], suffix].concat()).collect();
        let format = format(order.clone(), !internal, true, false);
        let stored = versions_of(&keys, prefix, &order, internal, &seqnos);
        let contents = index_contents(&stored, &format, interval, 0, marked);
        let mut targets: Vec<Vec<u8>> = keys
            .iter()
            .step_by(3)
            .flat_map(|key| [key.clone(), [&key[..], b"\0"].concat(), key[..key.len() / 2].to_vec()])
            .chain(other)
            .flat_map(|key| [[prefix.as_bytes(), &key].concat(), key])
            .map(|key| encode(&key, u64::from(seqnos[0]), ValueType::FOR_SEEK))
            .collect();
        targets.sort_by(|a, b| order.compare_internal(a, b));
        let first = |target: &Vec<u8>| stored.iter().find(|key| format.keys.compare(key, target).is_ge());
        let wanted: Vec<Option<&Vec<u8>>> = targets.iter().map(first).collect();
        for (block, format) in prepared(&contents, &format) {
            prop_assert_eq!(block.is_uniform(), marked);
            for (target, wanted) in targets.iter().zip(wanted.iter().copied()) {
                let found = find(&block, &format, target);
                prop_assert_eq!(found.as_ref(), wanted);
            }
            compare_together(&block, &format, &targets);
        }
    }
}

#[test]
fn blocks_of_every_size_are_searched() {
    let counts = [0, 1, 2, 7, 8, 9, 10, 63, 64, 65, 66, 128, 129, 130, 20_000];
    // Up to the first size above the limit for few keys.
    for count in counts.into_iter().take(if cfg!(miri) { 6 } else { 15 }) {
        let keys: Vec<Vec<u8>> = (0..count).map(|n| number_key(n * n + 2)).collect();
        let format = format(KeyOrder::Bytewise, true, true, false);
        let contents = index_contents(&keys, &format, 1, 0, true);
        let places = (0..=count).filter(|n| n % (count / 500 + 1) < 2 || n + 3 > count);
        let targets: Vec<Vec<u8>> = places
            .flat_map(|n| [n * n, n * n + 2, n * n + 3])
            .map(|number| encode(&number_key(number), 0, ValueType::Value))
            .collect();
        for (block, format) in prepared(&contents, &format) {
            for target in &targets {
                let wanted = keys.partition_point(|key| format.keys.compare(key, target).is_lt());
                assert_eq!(find(&block, &format, target).as_ref(), keys.get(wanted));
            }
        }
    }
}
