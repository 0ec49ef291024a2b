//! Compares blocks with a sorted list, and reads malformed blocks.
#![expect(
    clippy::arithmetic_side_effects,
    reason = "the tests' own numbers are small"
)]

use koeldb_base::key::{ValueType, encode, footer_of};
use koeldb_base::{Error, KeyOrder};
use proptest::prelude::*;

use super::*;
use crate::block::index::{IndexCursor, IndexFormat, IndexPreparation, IndexScan, IndexSearch};
use crate::block_builder::BlockBuilder;
use crate::format::BlockHandle;

type Entries = Vec<(Vec<u8>, Vec<u8>)>;
/// Footers and values.
type Versions = Vec<(u64, Vec<u8>)>;

/// User keys in which the bytes after a key may resemble the footer of the preceding key.
fn user_key() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop::sample::select(vec![0_u8, 1, 2, 7, b'k', 0xff]);
    prop::collection::vec(byte, 0..12)
}

fn internal_entries(order: KeyOrder) -> impl Strategy<Value = Entries> {
    let types = prop::sample::select(vec![
        ValueType::Value,
        ValueType::Deletion,
        ValueType::Merge,
    ]);
    let entry = (user_key(), 0..4_u64, types, 0..200_usize);
    prop::collection::vec(entry, 0..120).prop_map(move |entries| {
        let mut entries: Entries = entries
            .into_iter()
            .enumerate()
            .map(|(n, (key, seqno, value_type, len))| {
                let byte = u8::try_from(n % 256).unwrap();
                (encode(&key, seqno, value_type), vec![byte; len])
            })
            .collect();
        entries.sort_by(|a, b| order.compare_internal(&a.0, &b.0));
        entries.dedup_by(|a, b| a.0 == b.0);
        entries
    })
}

fn build(entries: &Entries, mut builder: BlockBuilder) -> Vec<u8> {
    let mut previous: &[u8] = &[];
    for (key, value) in entries {
        builder.add(previous, key, value).unwrap();
        previous = key;
    }
    builder.finish(false).unwrap()
}

fn builder(interval: u32, separated: bool, hashed: bool) -> BlockBuilder {
    let mut builder = BlockBuilder::new(interval, true);
    if separated {
        builder = builder.with_separate_values();
    }
    if hashed {
        builder = builder.with_hash_index(0.75);
    }
    builder
}

fn internal(order: &KeyOrder) -> KeyFormat {
    KeyFormat {
        order: order.clone(),
        user_keys: false,
        global_seqno: None,
        guess_in_data: false,
    }
}

fn block(bytes: Vec<u8>) -> Result<Block> {
    Block::parse(BlockBytes::from(bytes))
}

/// Collects the results of a point search.
struct Seen<'b> {
    target: Vec<u8>,
    bytes: &'b [u8],
    entries: Versions,
    enough: usize,
}

impl PointVisitor for Seen<'_> {
    fn seek_key(&self) -> &[u8] {
        &self.target
    }

    fn visit(&mut self, footer: u64, value: ValueRange) -> Result<bool> {
        self.entries.push((footer, value.of(self.bytes).to_vec()));
        Ok(self.entries.len() >= self.enough)
    }
}

/// The results and the end of a point search.
fn point(
    block: &Block,
    keys: &KeyFormat,
    target: &[u8],
    enough: usize,
) -> Result<(Versions, PointEnd)> {
    let mut seen = Seen {
        target: target.to_vec(),
        bytes: block.bytes().as_slice(),
        entries: Vec::new(),
        enough,
    };
    let end = block.search_point(keys, &mut seen)?;
    Ok((seen.entries, end))
}

fn orders() -> impl Strategy<Value = KeyOrder> {
    prop::sample::select(vec![KeyOrder::Bytewise, KeyOrder::ReverseBytewise])
}

fn blocks() -> impl Strategy<Value = (KeyOrder, Entries, u32, bool, bool)> {
    orders().prop_flat_map(|order| {
        let entries = internal_entries(order.clone());
        (
            Just(order),
            entries,
            1..20_u32,
            any::<bool>(),
            any::<bool>(),
        )
    })
}

proptest! {
    #[test]
    fn a_point_search_shows_the_visible_entries_of_its_key(
        (order, entries, interval, separated, hashed) in blocks(),
        key in user_key(),
        picked: prop::sample::Index,
        snapshot in 0..5_u64,
        guess_in_data: bool,
    ) {
        let keys = KeyFormat { guess_in_data, ..internal(&order) };
        let block = block(build(&entries, builder(interval, separated, hashed))).unwrap();
        let present = entries.get(picked.index(entries.len().max(1)));
        let present = present.map_or(key.clone(), |(key, _)| footer_of(key).0.to_vec());
        for user in [key, present] {
            let target = encode(&user, snapshot, ValueType::FOR_SEEK);
            let (shown, end) = point(&block, &keys, &target, usize::MAX).unwrap();
            let wanted: Versions = entries
                .iter()
                .filter(|(key, _)| footer_of(key).0 == user && footer_of(key).1 <= footer_of(&target).1)
                .map(|(key, value)| (footer_of(key).1, value.clone()))
                .collect();
            prop_assert_eq!(&shown, &wanted);
            let larger = entries.iter().any(|(key, _)| order.compare(footer_of(key).0, &user).is_gt());
            prop_assert_eq!(end == PointEnd::Settled, larger);
            if !wanted.is_empty() {
                let (first, end) = point(&block, &keys, &target, 1).unwrap();
                prop_assert_eq!(&first[..], &wanted[..1]);
                prop_assert_eq!(end, PointEnd::Settled);
            }
        }
    }

    #[test]
    fn a_cursor_goes_everywhere_a_list_does(
        (order, entries, interval, separated, hashed) in blocks(),
        target in user_key(),
        seqno in 0..5_u64,
        guess_in_data: bool,
        steps: Vec<bool>,
    ) {
        let keys = KeyFormat { guess_in_data, ..internal(&order) };
        let block = block(build(&entries, builder(interval, separated, hashed))).unwrap();
        let layout = block.layout();
        let mut cursor = BlockCursor::new(block, layout, keys);
        let target = encode(&target, seqno, ValueType::Value);
        cursor.seek(&target).unwrap();
        let mut at = entries.iter().position(|(key, _)| order.compare_internal(key, &target).is_ge());
        for forward in steps {
            let wanted = at.and_then(|at| entries.get(at));
            prop_assert_eq!(cursor.valid(), wanted.is_some());
            let Some((key, value)) = wanted else { break };
            prop_assert_eq!(cursor.key(), &key[..]);
            prop_assert_eq!(cursor.value(), &value[..]);
            if forward {
                cursor.advance().unwrap();
                at = at.map(|at| at + 1);
            } else {
                cursor.retreat().unwrap();
                at = at.and_then(|at| at.checked_sub(1));
            }
        }
        cursor.seek_to_last().unwrap();
        prop_assert_eq!(cursor.valid().then(|| cursor.key()), entries.last().map(|(key, _)| &key[..]));
    }

    #[test]
    fn a_global_sequence_number_stands_for_all(
        entries in internal_entries(KeyOrder::Bytewise),
        interval in 1..5_u32,
        target in user_key(),
    ) {
        let mut entries = entries;
        for (key, _) in &mut entries {
            *key = encode(footer_of(key).0, 0, ValueType::Value);
        }
        entries.dedup_by(|a, b| a.0 == b.0);
        let block = block(build(&entries, builder(interval, false, false))).unwrap();
        let format = KeyFormat { global_seqno: Some(1 << 40), ..internal(&KeyOrder::Bytewise) };
        let mut cursor = BlockCursor::new(block, EntryLayout::Interleaved, format);
        for (seqno, same_key) in [(1 << 41, true), (1 << 40, true), (1 << 39, false)] {
            cursor.seek(&encode(&target, seqno, ValueType::FOR_SEEK)).unwrap();
            let wanted = entries.iter().map(|(key, _)| footer_of(key).0).find(|&key| {
                key > &target[..] || (same_key && key == &target[..])
            });
            let found = cursor.valid().then(|| cursor.key().to_vec());
            prop_assert_eq!(found, wanted.map(|key| encode(key, 1 << 40, ValueType::Value)));
        }
        cursor.seek_to_first().unwrap();
        let mut count = 0;
        while cursor.valid() {
            prop_assert_eq!(cursor.key(), &encode(footer_of(&entries[count].0).0, 1 << 40, ValueType::Value)[..]);
            cursor.advance().unwrap();
            count += 1;
        }
        prop_assert_eq!(count, entries.len());
    }

    #[test]
    fn any_bytes_are_a_block_or_an_error(bytes: Vec<u8>, restarts in 0..4_u32, flags in 0..16_u32) {
        let mut bytes = bytes;
        bytes.extend_from_slice(&(restarts | flags << 28).to_le_bytes());
        use_up(bytes);
    }

    #[test]
    fn a_damaged_block_gives_errors_or_entries(
        (order, entries, interval, separated, hashed) in blocks(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let _ = order;
        let mut bytes = build(&entries, builder(interval, separated, hashed));
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        use_up(bytes);
    }
}

/// Calls every operation of a block; none may loop or panic.
fn use_up(bytes: Vec<u8>) {
    let most = bytes.len() + 1;
    let Ok(block) = block(bytes) else { return };
    let target = encode(b"k\x01", 3, ValueType::FOR_SEEK);
    let layouts = [
        block.layout(),
        EntryLayout::Handles { first_keys: false },
        EntryLayout::Handles { first_keys: true },
    ];
    for layout in layouts {
        for order in [KeyOrder::Bytewise, KeyOrder::ReverseBytewise] {
            for (user_keys, global_seqno) in [(false, None), (true, None), (false, Some(9))] {
                let format = KeyFormat {
                    order: order.clone(),
                    user_keys,
                    global_seqno,
                    guess_in_data: true,
                };
                let mut cursor = BlockCursor::new(block.clone(), layout, format);
                let _ = walk(&mut cursor, &target, most);
            }
        }
    }
    for order in [KeyOrder::Bytewise, KeyOrder::ReverseBytewise] {
        for guess_in_data in [false, true] {
            let keys = KeyFormat {
                guess_in_data,
                ..internal(&order)
            };
            let _ = point(&block, &keys, &target, most);
        }
        for (delta_values, first_keys) in [(false, false), (true, false), (true, true)] {
            for search in [IndexSearch::Binary, IndexSearch::Interpolation] {
                let format = IndexFormat {
                    keys: internal(&order),
                    delta_values,
                    first_keys,
                    search,
                };
                let _ = walk_index(&block, &format, &target, most);
                for decode in [false, true] {
                    let mut block = block.clone();
                    let format = format.clone();
                    let preparation = IndexPreparation { format, decode };
                    block.prepare(&preparation);
                    let _ = walk_index(&block, &preparation.format, &target, most);
                }
            }
        }
    }
}

fn walk(cursor: &mut BlockCursor, target: &[u8], most: usize) -> Result<()> {
    let mut steps = 0;
    let mut count = |cursor: &BlockCursor| {
        steps += 1;
        assert!(steps < 20 * most, "a walk without end");
        let _ = (
            cursor.key().len(),
            cursor.value().len(),
            cursor.pinned_value(),
        );
    };
    let forward: Result<()> = (|| {
        cursor.seek_to_first()?;
        while cursor.valid() {
            count(cursor);
            cursor.advance()?;
        }
        Ok(())
    })();
    cursor.seek_to_last()?;
    while cursor.valid() {
        count(cursor);
        cursor.retreat()?;
    }
    cursor.seek(target)?;
    forward
}

fn walk_index(block: &Block, format: &IndexFormat, target: &[u8], most: usize) -> Result<()> {
    let mut scan = IndexScan::seek(block, format, target)?;
    let mut steps = 0;
    while let Some(some) = &mut scan {
        let _ = (some.key().len(), some.first_key().len(), some.handle());
        steps += 1;
        assert!(steps <= most, "a scan without end");
        if !some.advance()? {
            break;
        }
    }
    IndexScan::last(block, format)?;
    let mut cursor = IndexCursor::new(block.clone(), format.clone());
    cursor.seek(target)?;
    if cursor.valid() {
        cursor.handle()?;
        cursor.first_key()?;
    }
    Ok(())
}

#[test]
fn an_index_gives_the_handles_that_were_put_in() {
    let handles: Vec<BlockHandle> = (0..40)
        .scan(0, |offset, n| {
            let handle = BlockHandle {
                offset: *offset,
                size: 900 + n * 37 % 200,
            };
            *offset = handle.offset + handle.size + 5;
            Some(handle)
        })
        .collect();
    for interval in [1, 3, 16] {
        for (delta_values, first_keys) in [(false, true), (true, true), (true, false)] {
            let key = |n: usize| format!("separator{n:03}").into_bytes();
            let first_key = |n: usize| encode(&key(n), 1, ValueType::Value);
            let mut builder = BlockBuilder::new(interval, true);
            let mut previous = Vec::new();
            for (n, handle) in handles.iter().enumerate() {
                let append_first_key = |out: &mut Vec<u8>| {
                    if first_keys {
                        coding::put_length_prefixed(out, &first_key(n));
                    }
                };
                if delta_values {
                    builder
                        .add_unsized(&previous, &key(n), false, |shared, out| {
                            if shared {
                                let size = handle.size.cast_signed();
                                let before = handles[n - 1].size.cast_signed();
                                coding::put_varint64(out, coding::zigzag(size - before));
                            } else {
                                handle.encode_into(out);
                            }
                            append_first_key(out);
                        })
                        .unwrap();
                } else {
                    let mut value = handle.to_vec();
                    append_first_key(&mut value);
                    builder.add(&previous, &key(n), &value).unwrap();
                }
                previous = key(n);
            }
            let block = block(builder.finish(false).unwrap()).unwrap();
            let format = IndexFormat {
                keys: KeyFormat {
                    user_keys: true,
                    ..internal(&KeyOrder::Bytewise)
                },
                delta_values,
                first_keys,
                search: IndexSearch::Binary,
            };
            for (n, handle) in handles.iter().enumerate() {
                let target = encode(&[&key(n)[..8], b"r"].concat(), 1, ValueType::Value);
                let exact = encode(&key(n), 1, ValueType::Value);
                let first = IndexScan::seek(&block, &format, &target).unwrap().unwrap();
                assert_eq!(first.handle(), handles[0]);
                let mut scan = IndexScan::seek(&block, &format, &exact).unwrap().unwrap();
                assert_eq!((scan.handle(), scan.key()), (*handle, &key(n)[..]));
                let wanted = if first_keys { first_key(n) } else { Vec::new() };
                assert_eq!(scan.first_key(), wanted);
                assert_eq!(scan.advance().unwrap(), n + 1 < handles.len());
                let mut cursor = IndexCursor::new(block.clone(), format.clone());
                cursor.seek(&exact).unwrap();
                assert_eq!(cursor.handle().unwrap(), *handle);
                assert_eq!(cursor.first_key().unwrap(), wanted);
                if n > 0 {
                    cursor.retreat().unwrap();
                    assert_eq!(cursor.handle().unwrap(), handles[n - 1]);
                }
            }
            let behind = encode(b"t", 1, ValueType::Value);
            assert!(IndexScan::seek(&block, &format, &behind).unwrap().is_none());
            let last = IndexScan::last(&block, &format).unwrap().unwrap();
            assert_eq!(last.handle(), handles[39]);
        }
    }
}

#[test]
fn sections_that_do_not_fit_are_refused() {
    let refused = |bytes: &[u8]| block(bytes.to_vec()).unwrap_err();
    let kind = |error: Error| assert!(error.is_corruption(), "{error}");
    kind(refused(b""));
    kind(refused(b"\x00\x00\x00"));
    // A restart array larger than the block; one that does not start at 0; one that does not
    // ascend.
    kind(refused(b"\x00\x00\x00\x00\x02\x00\x00\x00"));
    kind(refused(b"\x00\x01\x01kv\x01\x00\x00\x00\x01\x00\x00\x00"));
    kind(refused(
        b"\x00\x01\x01kv\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00",
    ));
    // Entries without a restart point; a hash index without buckets; values after the restarts.
    kind(refused(b"\x00\x01\x01kv\x00\x00\x00\x00"));
    kind(refused(
        b"\x00\x01\x01kv\x00\x00\x00\x00\x00\x00\x01\x00\x00\x80",
    ));
    kind(refused(
        b"\x00\x01\x01kv\x00\x00\x00\x00\x99\x00\x00\x00\x01\x00\x00\x10",
    ));
    // Empty blocks of both kinds are valid.
    assert!(
        block(b"\x00\x00\x00\x00\x01\x00\x00\x00".to_vec())
            .unwrap()
            .is_empty()
    );
    assert!(block(b"\x00\x00\x00\x00".to_vec()).unwrap().is_empty());
}
