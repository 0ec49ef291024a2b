//! The parts of a block-based table: footer, metadata, blocks of entries, indexes, codecs, filters.

use std::sync::Arc;

use koeldb_base::KeyOrder;
use koeldb_base::codec::{Compression, CompressionOptions, Compressor, Decompressor};
use koeldb_base::key::{ValueType, encode};
use koeldb_table::TableProperties;
use koeldb_table::block::{Block, BlockBytes, BlockCursor, EntryLayout, KeyFormat};
use koeldb_table::block_based::format::{BlockHandle, Footer, TableKind};
use koeldb_table::block_based::index::{IndexCursor, IndexFormat, IndexScan, IndexSearch};
use koeldb_table::filter::FilterReader;
use koeldb_table::metaindex::{Metaindex, named_entries};

use super::{Target, judge};
use crate::reseal::SealedTable;
use crate::seeds;

/// The largest decompressed block.
const RAW_BYTES_MAX: usize = 1 << 20;

/// Returns the valid small tables of [`seeds::tables`], with the positions of their blocks.
fn sealed_tables() -> Vec<SealedTable> {
    let tables = seeds::tables().into_iter();
    tables
        .filter_map(|table| SealedTable::new(table.bytes, &seeds::read_context()).ok())
        .collect()
}

/// Returns the uncompressed blocks of small tables, each after a byte that selects its reader.
fn blocks(kinds: &[u8]) -> Vec<Vec<u8>> {
    let mut blocks = Vec::new();
    for table in sealed_tables() {
        for handle in table.blocks() {
            let start = usize::try_from(handle.offset).unwrap_or(0);
            let end = start + usize::try_from(handle.size).unwrap_or(0);
            if table.bytes()[end] == 0 {
                let stored = &table.bytes()[start..end];
                blocks.extend(kinds.iter().map(|&kind| [&[kind], stored].concat()));
            }
        }
    }
    blocks.sort();
    blocks.dedup();
    blocks
}

pub(super) const FOOTER: Target = Target {
    name: "footer",
    run: |data| {
        for file_bytes in [data.len() as u64, u64::MAX, 1 << 20] {
            match Footer::decode(data, file_bytes) {
                Ok(footer) => {
                    let at = file_bytes - footer.bytes() as u64;
                    // The other kinds have no canonical form of this length.
                    let canonical =
                        footer.kind == TableKind::BlockBased && footer.format_version > 0;
                    if let Ok(again) = footer.encode(at)
                        && canonical
                    {
                        let decoded = Footer::decode(&again, file_bytes);
                        assert_eq!(decoded.ok(), Some(footer));
                    }
                }
                Err(error) => judge(&error),
            }
        }
        let mut rest = data;
        while let Ok(handle) = BlockHandle::take(&mut rest) {
            assert_eq!(
                BlockHandle::take(&mut &handle.to_vec()[..]).ok(),
                Some(handle)
            );
        }
    },
    seeds: || {
        let tables = seeds::tables().into_iter();
        let tail = |bytes: Vec<u8>| bytes[bytes.len() - 53..].to_vec();
        tables.map(|table| tail(table.bytes)).collect()
    },
};

pub(super) const METADATA: Target = Target {
    name: "metadata",
    run: |data| {
        let block = match Block::parse(BlockBytes::from(data.to_vec())) {
            Ok(block) => block,
            Err(error) => return judge(&error),
        };
        if let Err(error) = Metaindex::parse(&block) {
            judge(&error);
        }
        let entries = match named_entries(&block) {
            Ok(entries) => entries,
            Err(error) => return judge(&error),
        };
        let pairs = entries.iter().map(|(name, value)| (&name[..], &value[..]));
        match TableProperties::decode(pairs) {
            Ok(properties) => {
                let encoded = properties.encode();
                let pairs = encoded.iter().map(|(name, value)| (&name[..], &value[..]));
                let again = TableProperties::decode(pairs);
                let again = again.expect("what was encoded is decoded");
                assert_eq!(again.encode(), encoded);
            }
            Err(error) => judge(&error),
        }
    },
    seeds: || {
        blocks(&[0])
            .into_iter()
            .map(|block| block[1..].to_vec())
            .collect()
    },
};

/// Returns keys to search for: some of `keys`, others near them, and two extremes.
fn targets(keys: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut targets = vec![
        encode(b"", 0, ValueType::Value),
        encode(&[0xff; 9], 0, ValueType::Value),
    ];
    for key in keys.iter().step_by(keys.len() / 6 + 1) {
        targets.push(key.clone());
        targets.push(encode(key, 3, ValueType::Value));
    }
    targets.retain(|target| target.len() >= 8);
    targets
}

pub(super) const BLOCK: Target = Target {
    name: "block",
    run: block_run,
    seeds: || blocks(&[0, 1, 2, 5, 16]),
};

/// Runs the fuzz target `block`: parses a block, iterates in both directions, and seeks.
fn block_run(data: &[u8]) {
    let Some((&kind, data)) = data.split_first() else {
        return;
    };
    let block = match Block::parse(BlockBytes::from(data.to_vec())) {
        Ok(block) => block,
        Err(error) => return judge(&error),
    };
    let format = KeyFormat {
        order: KeyOrder::Bytewise,
        user_keys: kind & 1 == 1,
        global_seqno: (kind & 2 == 2).then_some(9),
        guess_in_data: kind & 16 == 16,
    };
    let layout = match kind & 12 {
        4 => EntryLayout::Handles { first_keys: false },
        8 => EntryLayout::Handles { first_keys: true },
        _ => block.layout(),
    };
    let mut cursor = BlockCursor::new(block, layout, format);
    let mut keys = Vec::new();
    let mut moved = cursor.seek_to_first();
    while moved.is_ok() && cursor.valid() {
        keys.push(cursor.key().to_vec());
        let _ = (cursor.value().len(), cursor.handle());
        assert!(keys.len() <= data.len(), "more entries than bytes");
        moved = cursor.advance();
    }
    let forward = moved.map_err(|error| judge(&error)).is_ok();
    let mut count = 0;
    let mut moved = cursor.seek_to_last();
    while moved.is_ok() && cursor.valid() {
        count += 1;
        let _ = cursor.key().len() + cursor.value().len();
        // Hostile restart points may refer to an entry twice, so going back may take more steps,
        // but a bounded number.
        assert!(count <= 2 * data.len() * data.len() + 8, "no end");
        if count > 20_000 {
            break;
        }
        moved = cursor.retreat();
    }
    if let Err(error) = moved {
        judge(&error);
    }
    for target in targets(&keys) {
        if let Err(error) = cursor.seek(&target) {
            judge(&error);
        } else if forward && cursor.valid() {
            let _ = cursor.pinned_value().len();
        }
    }
}

pub(super) const INDEX: Target = Target {
    name: "index",
    run: index_run,
    seeds: || blocks(&[0, 1, 2, 3, 7, 9, 16]),
};

/// Runs the fuzz target `index`: parses an index block, iterates, and searches it in all ways.
fn index_run(data: &[u8]) {
    let Some((&kind, data)) = data.split_first() else {
        return;
    };
    let block = match Block::parse(BlockBytes::from(data.to_vec())) {
        Ok(block) => block,
        Err(error) => return judge(&error),
    };
    for search in [
        IndexSearch::Binary,
        IndexSearch::Interpolation,
        IndexSearch::Auto,
    ] {
        let format = IndexFormat {
            keys: KeyFormat {
                order: KeyOrder::Bytewise,
                user_keys: kind & 1 == 1,
                global_seqno: None,
                guess_in_data: kind & 8 == 8,
            },
            delta_values: kind & 2 == 2,
            first_keys: kind & 4 == 4,
            search,
        };
        let mut keys = Vec::new();
        let mut cursor = IndexCursor::new(block.clone(), format.clone());
        let mut moved = cursor.seek_to_first();
        while moved.is_ok() && cursor.valid() {
            keys.push(cursor.key().to_vec());
            if let Err(error) = cursor.handle() {
                judge(&error);
            }
            let _ = cursor.first_key().map(<[u8]>::len);
            assert!(keys.len() <= data.len(), "more entries than bytes");
            moved = cursor.advance();
        }
        for target in targets(&keys) {
            match IndexScan::seek(&block, &format, &target) {
                Ok(Some(mut scan)) => {
                    let mut steps = 0;
                    while let Ok(true) = scan.advance() {
                        let _ = (scan.key().len(), scan.handle(), scan.first_key().len());
                        steps += 1;
                        assert!(steps <= data.len(), "more entries than bytes");
                    }
                }
                Ok(None) => {}
                Err(error) => judge(&error),
            }
            if let Err(error) = cursor.seek(&target) {
                judge(&error);
            }
        }
        if let Err(error) = IndexScan::last(&block, &format) {
            judge(&error);
        }
    }
}

pub(super) const CODEC: Target = Target {
    name: "codec",
    run: codec_run,
    seeds: || {
        let raw = b"a block of a table, a block of a table, and some more of it ".repeat(5);
        let mut seeds = Vec::new();
        for (index, codec) in (0..).zip(Compression::ALL) {
            for dictionary in [0_u8, 20] {
                let given = Some(&raw[..usize::from(dictionary)]);
                let Ok(mut compressor) =
                    Compressor::new(codec, &CompressionOptions::default(), given)
                else {
                    continue;
                };
                let mut stored = vec![index, dictionary];
                stored.extend_from_slice(&raw[..usize::from(dictionary)]);
                if compressor.compress(&raw, 1 << 20, &mut stored).is_ok() {
                    seeds.push(stored);
                }
            }
        }
        seeds
    },
};

/// Runs the fuzz target `codec`: decompresses `data`, and compresses it and back.
fn codec_run(data: &[u8]) {
    let [index, dictionary, data @ ..] = data else {
        return;
    };
    let codec = Compression::ALL[usize::from(*index) % Compression::ALL.len()];
    let (dictionary, data) = data.split_at(usize::from(*dictionary).min(data.len()));
    let decompressor = Decompressor::new(Some(Arc::from(dictionary)));
    match decompressor.decompress(codec, data, RAW_BYTES_MAX) {
        Ok(raw) => assert!(raw.len() <= RAW_BYTES_MAX),
        Err(error) => judge(&error),
    }
    let options = CompressionOptions::default();
    if let Ok(mut compressor) = Compressor::new(codec, &options, Some(dictionary)) {
        let mut stored = Vec::new();
        if let Ok(true) = compressor.compress(data, RAW_BYTES_MAX, &mut stored) {
            let raw = decompressor.decompress(codec, &stored, RAW_BYTES_MAX);
            assert_eq!(raw.expect("what was compressed is decompressed"), data);
        }
    }
}

pub(super) const FILTER: Target = Target {
    name: "filter",
    run: |data| {
        let filter = FilterReader::new(data);
        let hashes: Vec<u64> = (0..64_u64)
            .map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15))
            .collect();
        let mut found = vec![true; hashes.len()];
        filter.may_contain_hashes(&hashes, &mut found);
        for (&hash, &found) in hashes.iter().zip(&found) {
            assert_eq!(filter.may_contain_hash(hash), found);
        }
        for key in [&b""[..], b"key", data] {
            let _ = filter.may_contain(key);
        }
    },
    seeds: || {
        blocks(&[0])
            .into_iter()
            .map(|block| block[1..].to_vec())
            .collect()
    },
};
