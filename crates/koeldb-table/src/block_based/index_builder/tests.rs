//! Tests of the index builder, byte by byte where the format matters.

use super::*;
use koeldb_base::ValueType;
use koeldb_base::key::encode;
use koeldb_base::prefix::FixedPrefix;

/// Blocks as they would follow each other in a file.
#[derive(Default)]
struct Written {
    blocks: Vec<Vec<u8>>,
    offset: u64,
}

impl IndexBlockSink for Written {
    fn write(&mut self, block: &mut Vec<u8>) -> Result<BlockHandle> {
        let handle = BlockHandle {
            offset: self.offset,
            size: block.len() as u64,
        };
        self.offset += handle.size + BLOCK_TRAILER_BYTES as u64;
        self.blocks.push(block.clone());
        Ok(handle)
    }
}

fn options(index_type: IndexType, restart_interval: u32) -> IndexOptions {
    IndexOptions {
        index_type,
        shortening: IndexShortening::Separators,
        delta_values: true,
        user_keys_allowed: true,
        restart_interval,
        partition_bytes: 40,
        uniform_cv_threshold: -1.0,
    }
}

/// Builds an index over blocks given by their first and last user keys.
///
/// Sequence numbers descend; each block is 100 bytes and a few longer than the preceding one.
fn index_of(options: IndexOptions, blocks: &[(&str, &str)]) -> IndexBuilder {
    let mut index = IndexBuilder::new(KeyOrder::Bytewise, options, None);
    let internal = |key: &str, seqno| encode(key.as_bytes(), seqno, ValueType::Value);
    let mut offset = 0;
    for (n, &(first, last)) in blocks.iter().enumerate() {
        let seqno = 1000 - 2 * n as u64;
        let next = blocks.get(n + 1).map(|(next, _)| internal(next, seqno - 2));
        index.add_block(
            &internal(first, seqno),
            &internal(last, seqno - 1),
            next.as_deref(),
        );
        let handle = BlockHandle {
            offset,
            size: 100 + n as u64,
        };
        index.add_handle(handle);
        offset += handle.size + BLOCK_TRAILER_BYTES as u64;
    }
    index
}

#[test]
fn the_index_of_the_worked_example_is_built() {
    let mut index = IndexBuilder::new(
        KeyOrder::Bytewise,
        options(IndexType::BinarySearch, 1),
        None,
    );
    index.add_block(
        &encode(b"k0", 1, ValueType::Value),
        &encode(b"k2", 3, ValueType::Value),
        None,
    );
    index.add_handle(BlockHandle {
        offset: 0,
        size: 51,
    });
    let mut written = Written::default();
    index.finish(&mut written).unwrap();
    assert_eq!(written.blocks, [b"\0\x02k2\0\x33\0\0\0\0\x01\0\0\0"]);
}

#[test]
fn values_are_differences_only_behind_a_shared_prefix() {
    let blocks = [("aa", "ab"), ("ad", "ae"), ("b", "c"), ("ca", "cb")];
    let index = index_of(options(IndexType::BinarySearch, 16), &blocks);
    assert!(index.block_format().user_keys);
    let mut written = Written::default();
    let finished = index.finish(&mut written).unwrap();
    assert_eq!(finished.raw_bytes, written.blocks[0].len() as u64);
    // Between "ab" and "ad" the separator is "ac", between "ae" and "b" it is "af"; "c" is a prefix
    // of "ca", and nothing is shorter than "cb".
    assert_eq!(
        written.blocks[0],
        [
            &b"\0\x02ac\0\x64"[..],
            b"\x01\x01f\x02",
            // Not a restart point, but no byte is shared: the whole handle, at 105 + 106.
            b"\0\x01c\xd3\x01\x66",
            b"\x01\x01b\x02",
            b"\0\0\0\0\x01\0\0\0",
        ]
        .concat()
    );
}

#[test]
fn neighbours_that_share_a_user_key_make_all_keys_internal() {
    let blocks = [("a", "b"), ("b", "c"), ("d", "e")];
    let index = index_of(options(IndexType::BinarySearch, 1), &blocks);
    assert!(!index.block_format().user_keys);
    let mut written = Written::default();
    index.finish(&mut written).unwrap();
    let last_of_first = encode(b"b", 999, ValueType::Value);
    assert_eq!(written.blocks[0][2..11], last_of_first);
}

#[test]
fn partitions_are_cut_by_size_and_the_top_level_names_their_last_separators() {
    let blocks: Vec<(String, String)> = (0..20)
        .map(|n| (format!("k{n:02}a"), format!("k{n:02}b")))
        .collect();
    let blocks: Vec<(&str, &str)> = blocks.iter().map(|(a, b)| (&a[..], &b[..])).collect();
    let index = index_of(options(IndexType::TwoLevel, 1), &blocks);
    let mut written = Written::default();
    let finished = index.finish(&mut written).unwrap();
    assert_eq!(
        finished.partition_count + 1,
        written.blocks.len() as u64,
        "partitions, then the top level"
    );
    assert!((5..20).contains(&finished.partition_count));
    let bytes: usize = written.blocks.iter().map(Vec::len).sum();
    assert_eq!(finished.raw_bytes, bytes as u64);
    let top = written.blocks.last().unwrap();
    assert!(top.windows(4).any(|bytes| bytes == b"k19b"));
    assert_eq!(finished.top_level_raw_bytes, top.len() as u64);
}

#[test]
fn a_hash_index_names_the_entries_of_each_prefix() {
    let extractor: Arc<dyn PrefixExtractor> = Arc::new(FixedPrefix::new(5));
    let mut index = IndexBuilder::new(
        KeyOrder::Bytewise,
        options(IndexType::HashSearch, 16),
        Some(extractor),
    );
    assert_eq!(index.block_format().restart_interval, 1);
    let blocks = [
        ["aaaaa1", "aaaaa2"],
        ["aaaaa3", "aaaaa4"],
        ["aaaaa5", "bbbbb1"],
        ["bbbbb2", "bbbbb3"],
        ["bbbbb4", "bbbbb5"],
    ];
    for keys in blocks {
        for key in keys {
            index.add_key(key.as_bytes());
        }
        let [first, last] = keys.map(|key| encode(key.as_bytes(), 1, ValueType::Value));
        index.add_block(&first, &last, None);
    }
    let (prefixes, metadata) = index.hash_blocks().unwrap();
    assert_eq!(prefixes, b"aaaaabbbbb");
    assert_eq!(metadata, [5, 0, 3, 5, 2, 3]);
}
