//! Tests of the table builder; `tests/it` checks that its files can be read.

use std::path::Path;
use std::sync::Arc;

use koeldb_base::codec::Compression;
use koeldb_base::key::{ValueType, encode};
use koeldb_base::range_del::RangeTombstone;
use koeldb_base::{ErrorKind, KeyOrder};
use koeldb_fs::fault::{Failure, FaultFileSystem, FaultRule};
use koeldb_fs::{FileSystem, MemoryFileSystem, OpenOptions, Purpose, WriteOptions};

use super::*;
use crate::builder::TableBuilder;
use crate::filter::FilterPolicy;
use crate::format::IndexType;
use crate::read_context::TableReadContext;
use crate::reader::TableReader;
use crate::source::BlockKind;

fn create(fs: &dyn FileSystem, context: &TableBuildContext) -> Result<TableBuilder> {
    let file = fs.create(Path::new("/table"), &WriteOptions::new(Purpose::Flush))?;
    TableBuilder::create(file, context)
}

fn value_key(user_key: &str, seqno: u64) -> Vec<u8> {
    encode(user_key.as_bytes(), seqno, ValueType::Value)
}

#[test]
fn keys_out_of_order_are_refused() {
    for order in [KeyOrder::Bytewise, KeyOrder::ReverseBytewise] {
        let context = TableBuildContext {
            order: order.clone(),
            ..TableBuildContext::default()
        };
        let refuses = |first: &[u8], second: &[u8]| {
            let mut builder = create(&MemoryFileSystem::new(), &context).unwrap();
            builder.add(first, b"").unwrap();
            builder
                .add(second, b"")
                .is_err_and(|error| error.kind() == ErrorKind::Corruption)
        };
        let (a, b) = (value_key("a", 5), value_key("b", 5));
        assert_eq!(refuses(&a, &b), order == KeyOrder::ReverseBytewise);
        assert_eq!(refuses(&b, &a), order == KeyOrder::Bytewise);
        assert!(refuses(&a, &a), "the same entry twice");
        assert!(refuses(&a, &value_key("a", 6)), "older before newer");
        assert!(!refuses(&a, &value_key("a", 4)));
    }
}

#[test]
fn keys_that_are_no_point_entries_are_refused() {
    let mut builder = create(&MemoryFileSystem::new(), &TableBuildContext::default()).unwrap();
    assert!(builder.add(b"short", b"").is_err());
    assert!(builder.add(b"key\x7f0000000", b"").is_err());
    let tombstone = encode(b"a", 1, ValueType::RangeDeletion);
    assert!(builder.add(&tombstone, b"b").is_err());
    assert!(builder.is_empty());
}

#[test]
fn settings_that_contradict_each_other_are_refused() {
    let refused = |change: fn(&mut TableBuildContext)| {
        let mut context = TableBuildContext::default();
        change(&mut context);
        create(&MemoryFileSystem::new(), &context)
            .is_err_and(|error| error.kind() == ErrorKind::InvalidArgument)
    };
    assert!(refused(|c| c.format.format_version = 1));
    assert!(refused(|c| c.format.format_version = 8));
    assert!(refused(|c| c.format.index_type = IndexType::HashSearch));
    assert!(refused(|c| {
        c.format.block_align = true;
        c.format.block_bytes = 1000;
    }));
    assert!(!refused(|c| c.format.block_align = true));
    #[cfg(feature = "snappy")]
    assert!(refused(|c| {
        c.format.block_align = true;
        c.compression = Compression::Snappy;
    }));
}

#[test]
fn a_failed_write_or_sync_fails_the_table() {
    let keys: Vec<Vec<u8>> = (0..2000)
        .map(|n| value_key(&format!("{n:08}"), 1))
        .collect();
    for rule in [
        FaultRule::fail(Failure::NoSpace).on_mutations().nth(2),
        FaultRule::fail(Failure::Device).on_syncs(),
    ] {
        let fs = FaultFileSystem::new(Arc::new(MemoryFileSystem::new()), 1);
        fs.add_rule(rule);
        let mut builder = create(&fs, &TableBuildContext::default()).unwrap();
        for key in &keys {
            // A caller that ignores this error meets it again.
            let _ = builder.add(key, &[7; 100]);
        }
        assert!(builder.finish().is_err());
    }
}

#[test]
fn properties_count_what_was_added() {
    let context = TableBuildContext {
        db_id: "8d0ef167-164f-475f-8e4c-69b5580f67d1".into(),
        session_id: "PY3E2YGLL457991GRLKW".into(),
        file_number: 11,
        ..TableBuildContext::default()
    };
    let mut builder = create(&MemoryFileSystem::new(), &context).unwrap();
    builder.add_tombstone(&RangeTombstone {
        start: b"d".to_vec(),
        end: b"e".to_vec(),
        seqno: 3,
    });
    assert!(!builder.is_empty());
    for (key, seqno, kind) in [
        ("a", 9, ValueType::Value),
        ("b", 8, ValueType::Deletion),
        ("c", 7, ValueType::Merge),
        ("f", 6, ValueType::SingleDeletion),
    ] {
        builder
            .add(&encode(key.as_bytes(), seqno, kind), b"val")
            .unwrap();
    }
    assert_eq!(builder.entry_count(), 5);
    let table = builder.finish().unwrap();
    let properties = &table.properties;
    assert_eq!(properties.entry_count, 5);
    assert_eq!(properties.deletion_count, 3);
    assert_eq!(properties.merge_operand_count, 1);
    assert_eq!(properties.range_deletion_count, 1);
    assert_eq!(properties.raw_key_bytes, 45);
    assert_eq!(properties.raw_value_bytes, 13);
    assert_eq!(properties.data_block_count, 1);
    assert_eq!(
        (properties.smallest_seqno, properties.largest_seqno),
        (Some(3), Some(9))
    );
    assert_eq!(
        table.tail_bytes,
        table.file_bytes - properties.tail_start_offset
    );
    assert_eq!(Some(table.unique_id), properties.unique_id());
}

#[test]
fn the_codec_property_follows_the_format_version() {
    assert_eq!(compression_property(6, Compression::Zstd, false), "ZSTD");
    assert_eq!(
        compression_property(5, Compression::None, false),
        "NoCompression"
    );
    assert_eq!(
        compression_property(7, Compression::Zstd, true),
        "BuiltinV2;07;"
    );
    assert_eq!(
        compression_property(7, Compression::Snappy, false),
        "BuiltinV2;;"
    );
    assert_eq!(compression_property(7, Compression::None, false), ";;");
}

#[test]
fn checksums_of_different_files_have_different_bases() {
    let base = |file_number, format_version| {
        let mut context = TableBuildContext {
            file_number,
            ..TableBuildContext::default()
        };
        context.format.format_version = format_version;
        base_checksum(&context)
    };
    assert_ne!(base(1, 6), base(2, 6));
    assert_ne!(base(0, 7), 0);
    assert_eq!(base(1, 5), 0);
}

#[test]
fn coupled_partitions_of_index_and_filter_end_together() {
    let tail_of = |couples: bool| {
        let mut context = TableBuildContext::default();
        context.format.index_type = IndexType::TwoLevel;
        context.format.filter = FilterPolicy::bloom(10.0);
        context.format.partition_filters = true;
        context.format.couple_filter_partitions = couples;
        context.format.metadata_block_bytes = 512;
        context.format.block_bytes = 200;
        let fs = MemoryFileSystem::new();
        let mut builder = create(&fs, &context).unwrap();
        for n in 0..5000 {
            builder
                .add(&value_key(&format!("{n:08}"), 1), &[7; 20])
                .unwrap();
        }
        let table = builder.finish().unwrap();
        let file = fs
            .open(Path::new("/table"), &OpenOptions::default())
            .unwrap();
        let reader = TableReader::open(file, &TableReadContext::default()).unwrap();
        reader.verify_checksums(&mut |_| ()).unwrap();
        let TableReader::BlockBased(reader) = &*reader else {
            panic!("another format");
        };
        let partitions = reader.partitions().unwrap().into_iter();
        let filters = partitions.filter(|(kind, _)| *kind == BlockKind::Filter);
        (table.properties.index_partitions, filters.count() as u64)
    };
    let (index, filter) = tail_of(true);
    assert!(index > 10);
    assert_eq!(index, filter);
    let (index, filter) = tail_of(false);
    assert_ne!(index, filter);
}
