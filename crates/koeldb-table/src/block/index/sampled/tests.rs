//! Compares sampled searches with a linear scan, and counts decoded keys.
#![expect(
    clippy::arithmetic_side_effects,
    reason = "the tests' own numbers are small"
)]

use std::cell::Cell;

use koeldb_base::KeyOrder;
use koeldb_base::key::{MAX_SEQNO, ValueType, encode};
use proptest::prelude::*;

use super::*;
use crate::block::index::decoded::tests::{format, index_block};
use crate::block::index::{IndexPreparation, IndexSearch, PreparedIndex};
use crate::block::interpolation::tests::{
    Random, any_keys, bound, distributions, first_at_or_behind, number_key, versions_of,
};

fn interpolating(order: &KeyOrder, user_keys: bool) -> IndexFormat {
    IndexFormat {
        search: IndexSearch::Interpolation,
        ..format(order.clone(), user_keys, true, false)
    }
}

/// A block with its samples, if it has any.
fn sampled(keys: &[Vec<u8>], format: &IndexFormat) -> Block {
    let mut block = index_block(keys, format, 1, 0);
    block.prepare(&IndexPreparation {
        format: format.clone(),
        decode: false,
    });
    block
}

/// The result of a search, and the number of keys it decodes.
fn probe(block: &Block, format: &IndexFormat, target: &[u8]) -> (Start, usize) {
    let Some(PreparedIndex::Sampled(samples)) = block.prepared() else {
        panic!("no samples");
    };
    let view = BlockSlices::new(block, format.layout());
    let decodes = Cell::new(0);
    let key_at = |index| {
        decodes.set(decodes.get() + 1);
        view.restart_key(index)
    };
    let start = samples.search(key_at, &format.keys, target).unwrap();
    (start, decodes.get())
}

#[test]
#[cfg_attr(miri, ignore = "hundreds of thousands of keys, and no unsafe code")]
fn fewer_keys_are_decoded_whatever_their_distribution() {
    for (name, keys, alone) in distributions() {
        let format = interpolating(&KeyOrder::Bytewise, true);
        let block = sampled(&keys, &format);
        let mut random = Random(301);
        let (mut sum, mut largest, searches) = (0_usize, 0, 3000);
        for _ in 0..searches {
            let at = usize::try_from(random.next() % keys.len() as u64).unwrap();
            let mut user_key = keys[at].clone();
            user_key.push(1);
            let target = encode(&user_key, MAX_SEQNO, ValueType::FOR_SEEK);
            let (start, decodes) = probe(&block, &format, &target);
            let wanted = keys.partition_point(|key| *key < user_key);
            assert_eq!(first_at_or_behind(start), wanted);
            sum += decodes;
            largest = largest.max(decodes);
        }
        println!(
            "{name}: {} keys, {sum} decodes of {searches} searches, at most {largest}",
            keys.len()
        );
        let sum = u32::try_from(sum).unwrap();
        assert!(f64::from(sum) / 3000.0 < alone.start, "{name}: {sum}");
        assert!(largest <= bound(SPACING), "{name}: {largest}");
    }
}

#[test]
fn samples_are_charged_and_few() {
    let sampled_keys = if cfg!(miri) { 65 } else { 1025 };
    let keys: Vec<Vec<u8>> = (0..=(sampled_keys - 1) * 16_u64)
        .map(|n| number_key(n * 35))
        .collect();
    let format = interpolating(&KeyOrder::Bytewise, true);
    let block = sampled(&keys, &format);
    let Some(PreparedIndex::Sampled(samples)) = block.prepared() else {
        panic!("no samples");
    };
    let sampled_keys = usize::try_from(sampled_keys).unwrap();
    assert_eq!(samples.samples.len(), sampled_keys);
    let prepared = block.prepared().unwrap();
    assert!((sampled_keys * 8..sampled_keys * 9).contains(&prepared.heap_bytes()));
    let halving = IndexFormat {
        search: IndexSearch::Binary,
        ..format
    };
    assert!(sampled(&keys, &halving).prepared().is_none());
}

#[test]
fn a_block_out_of_order_is_not_sampled() {
    let mut keys: Vec<Vec<u8>> = (0..200).map(number_key).collect();
    keys.swap(64, 80);
    let format = interpolating(&KeyOrder::Bytewise, true);
    assert!(sampled(&keys, &format).prepared().is_none());
}

proptest! {
    #[test]
    fn samples_lead_to_what_a_linear_scan_finds_within_the_bound(
        (keys, other) in (any_keys(400), any_keys(20)),
        prefix in prop::sample::select(vec!["", "p", "a long common prefix"]),
        order in prop::sample::select(vec![KeyOrder::Bytewise, KeyOrder::ReverseBytewise]),
        internal: bool,
        seqnos: [u8; 3],
    ) {
        let format = interpolating(&order, !internal);
        let stored = versions_of(&keys, prefix, &order, internal, &seqnos);
        let block = sampled(&stored, &format);
        prop_assert_eq!(block.prepared().is_some(), stored.len() > FEW_KEYS);
        prop_assume!(block.prepared().is_some());
        let targets = keys
            .iter()
            .flat_map(|key| [key.clone(), [&key[..], b"\0"].concat(), key[..key.len() / 2].to_vec()])
            .chain(other)
            .flat_map(|key| [[prefix.as_bytes(), &key].concat(), key])
            .map(|key| encode(&key, u64::from(seqnos[0]), ValueType::FOR_SEEK));
        for target in targets {
            let wanted = stored.partition_point(|key| format.keys.compare(key, &target) == Ordering::Less);
            let (start, decodes) = probe(&block, &format, &target);
            prop_assert_eq!(first_at_or_behind(start), wanted);
            prop_assert!(decodes <= bound(stored.len()));
        }
    }
}
