//! Compares decoded blocks with their stored form.
#![expect(
    clippy::arithmetic_side_effects,
    reason = "the tests' own numbers are small"
)]

use koeldb_base::coding;
use koeldb_base::key::{ValueType, encode};
use proptest::prelude::*;

use super::*;
use crate::block::BlockBytes;
use crate::block::index::{IndexCursor, IndexPreparation, IndexSearch};
use crate::block::interpolation::tests::{any_keys, number_key, versions_of};
use crate::block_builder::BlockBuilder;

pub(crate) fn format(
    order: KeyOrder,
    user_keys: bool,
    delta_values: bool,
    first_keys: bool,
) -> IndexFormat {
    IndexFormat {
        keys: KeyFormat {
            order,
            user_keys,
            global_seqno: None,
            guess_in_data: false,
        },
        delta_values,
        first_keys,
        search: IndexSearch::Binary,
    }
}

/// The stored bytes of an index block of `keys`, with handles of blocks that begin at `start`.
pub(crate) fn index_contents(
    keys: &[Vec<u8>],
    format: &IndexFormat,
    interval: u32,
    start: u64,
    uniform: bool,
) -> Vec<u8> {
    let mut builder = BlockBuilder::new(interval, true);
    let mut before: (&[u8], BlockHandle) = (&[], BlockHandle::NULL);
    let mut offset = start;
    for (key, n) in keys.iter().zip(0..) {
        let handle = BlockHandle {
            offset,
            size: 100 + n * 7 % 50,
        };
        offset += handle.size + 5;
        let mut value = handle.to_vec();
        let mut difference = Vec::new();
        let change = handle.size.wrapping_sub(before.1.size).cast_signed();
        coding::put_varint64(&mut difference, coding::zigzag(change));
        if format.first_keys {
            coding::put_length_prefixed(&mut value, key);
            coding::put_length_prefixed(&mut difference, key);
        }
        let added = if format.delta_values {
            builder.add_unsized(before.0, key, false, |shared, out| {
                out.extend_from_slice(if shared { &difference } else { &value });
            })
        } else {
            builder.add(before.0, key, &value)
        };
        added.unwrap();
        before = (key, handle);
    }
    builder.finish(uniform).unwrap()
}

pub(crate) fn index_block(
    keys: &[Vec<u8>],
    format: &IndexFormat,
    interval: u32,
    start: u64,
) -> Block {
    let contents = index_contents(keys, format, interval, start, false);
    Block::parse(BlockBytes::from(contents)).unwrap()
}

fn decoded(block: &Block, format: &IndexFormat) -> Block {
    let mut decoded = block.clone();
    let format = format.clone();
    decoded.prepare(&IndexPreparation {
        format,
        decode: true,
    });
    decoded
}

/// Searches a stored and a decoded block for a target, and compares the results.
fn compare(block: &Block, decoded: &Block, format: &IndexFormat, target: &[u8]) {
    let shown = |block: &Block| {
        let scan = IndexScan::seek(block, format, target).unwrap();
        let found = scan.map(|mut scan| {
            let entry = (scan.key().to_vec(), scan.handle(), scan.first_key().len());
            let next = scan.advance().unwrap().then(|| scan.handle());
            (entry, next)
        });
        let mut cursor = IndexCursor::new(block.clone(), format.clone());
        cursor.seek(target).unwrap();
        let at_cursor = cursor.valid().then(|| {
            let entry = (cursor.key().to_vec(), cursor.handle().unwrap());
            cursor.advance().unwrap();
            (entry, cursor.valid().then(|| cursor.handle().unwrap()))
        });
        (found, at_cursor)
    };
    let wanted = shown(block);
    assert_eq!(shown(decoded), wanted, "{target:?}");
    let Some(index) = decoded.decoded() else {
        return;
    };
    let order = &format.keys.order;
    let (user_key, _) = footer_of(target);
    let separator = wanted.0.map(|((key, handle, _), _)| (key, handle));
    match index.find_block(order, user_key) {
        IndexSearchResult::Unknown => {}
        IndexSearchResult::Behind => assert_eq!(separator, None),
        IndexSearchResult::Block(handle) => {
            let (key, wanted) = separator.unwrap();
            assert_eq!(handle, wanted);
            assert!(order.compare(format.keys.user_part(&key), user_key).is_gt());
        }
    }
}

fn orders() -> impl Strategy<Value = KeyOrder> {
    prop::sample::select(vec![
        KeyOrder::Bytewise,
        KeyOrder::ReverseBytewise,
        KeyOrder::Uint64,
    ])
}

proptest! {
    #[test]
    fn a_decoded_block_says_what_the_stored_one_says(
        (keys, other) in (any_keys(150), any_keys(150)),
        prefix in prop::sample::select(vec!["", "a", "a long common prefix"]),
        order in orders(),
        (user_keys, delta_values, first_keys) in any::<(bool, bool, bool)>(),
        interval in prop::sample::select(vec![1_u32, 1, 2, 5]),
        start in prop::sample::select(vec![0_u64, 1 << 30, (1 << 40) - 1000]),
        seqnos: [u8; 4],
    ) {
        let format = format(order.clone(), user_keys, delta_values, first_keys);
        let stored = versions_of(&keys, prefix, &order, !user_keys, &seqnos);
        let block = index_block(&stored, &format, interval, start);
        let decoded = decoded(&block, &format);
        let restarts = stored.len().div_ceil(interval as usize);
        prop_assert_eq!(decoded.decoded().is_some(), restarts >= FEW_KEYS);
        let targets = keys
            .iter()
            .flat_map(|key| [key.clone(), [&key[..], b"\0"].concat(), key[..key.len() / 2].to_vec()])
            .chain(other)
            .flat_map(|key| [[prefix.as_bytes(), &key].concat(), key]);
        for target in targets {
            let seqno = u64::from(seqnos[target.len() % 4]);
            compare(&block, &decoded, &format, &encode(&target, seqno, ValueType::FOR_SEEK));
        }
    }
}

#[test]
fn even_keys_are_found_in_a_narrow_window_though_the_last_is_far_away() {
    let count = if cfg!(miri) { 1024 } else { 16_384 };
    let mut keys: Vec<Vec<u8>> = (0..count).map(|n| number_key(n * 35)).collect();
    keys.push(number_key(u64::MAX));
    let format = format(KeyOrder::Bytewise, true, true, false);
    let block = decoded(&index_block(&keys, &format, 1, 0), &format);
    let index = block.decoded().unwrap();
    assert!(index.model.width <= 3, "{:?}", index.model);
    let bytes_per_entry = index.heap_bytes() / keys.len();
    assert_eq!(bytes_per_entry, 17);
    for n in [0, 1, 7, 8, 9, count / 2, count - 1] {
        let between = index.find_block(&KeyOrder::Bytewise, &number_key(n * 35 + 1));
        let at = IndexScan::seek(
            &block,
            &format,
            &encode(&number_key(n * 35 + 1), 0, ValueType::Value),
        );
        let wanted = at.unwrap().unwrap().handle();
        assert_eq!(between, IndexSearchResult::Block(wanted));
    }
}

#[test]
fn a_block_out_of_order_is_not_decoded() {
    let mut keys: Vec<Vec<u8>> = (0..20).map(number_key).collect();
    keys.swap(4, 9);
    let format = format(KeyOrder::Bytewise, true, true, false);
    let block = index_block(&keys, &format, 1, 0);
    assert!(decoded(&block, &format).decoded().is_none());
}
