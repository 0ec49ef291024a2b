//! Options that change the bytes of tables, or where they end.

use std::path::PathBuf;
use std::sync::Arc;

use koeldb::fs::{FileSystem, MemoryFileSystem, OpenOptions, SystemClock};
use koeldb::{BlockBasedOptions, Compression, Db, Env, IteratorMode, Options};
use koeldb_table::properties::TableProperties;
use koeldb_table::reader::{TableReadContext, TableReader};

struct Tables {
    fs: Arc<dyn FileSystem>,
    options: Options,
}

impl Tables {
    fn new() -> Self {
        let fs: Arc<dyn FileSystem> = Arc::new(MemoryFileSystem::new());
        let mut options = Options::new();
        options
            .create_if_missing(true)
            .set_compression_type(Compression::None)
            .set_env(&Env::new(Arc::clone(&fs), Arc::new(SystemClock)));
        Tables { fs, options }
    }

    /// Writes and compacts `count` entries, reads them back, and returns the properties and sizes
    /// of the tables.
    fn write(&self, count: u32, value_bytes: u32) -> Vec<(TableProperties, u64)> {
        let db = Db::open(&self.options, "/db").unwrap();
        let value = |key: u32| vec![b'a' + (key % 26) as u8; (key % value_bytes) as usize + 10];
        // Two tables that overlap, so that the compaction moves none.
        for part in 0..2 {
            for key in (part..count).step_by(2) {
                db.put(format!("key{key:08}"), value(key)).unwrap();
            }
            db.flush().unwrap();
        }
        db.compact_range(..).unwrap();
        db.verify_checksums().unwrap();
        for key in 0..count {
            let found = db.get(format!("key{key:08}")).unwrap().unwrap();
            assert_eq!(*found, *value(key));
        }
        assert_eq!(db.get("key0000000x").unwrap(), None);
        assert_eq!(db.iterator(IteratorMode::Start).count(), count as usize);
        let tables = db.live_files();
        let path = |name: &str| PathBuf::from(format!("/db{name}"));
        let tables = tables.iter().map(|live| {
            let file = self.fs.open(&path(&live.name), &OpenOptions::default());
            let reader = TableReader::open(file.unwrap(), &TableReadContext::default()).unwrap();
            (reader.properties().clone(), live.bytes)
        });
        tables.collect()
    }
}

#[test]
fn data_blocks_are_padded_to_super_blocks() {
    let data_bytes = |size: u64, ratio: u64| {
        let mut tables = Tables::new();
        let mut format = BlockBasedOptions::new();
        format
            .set_super_block_alignment_size(size)
            .set_super_block_alignment_space_overhead_ratio(ratio);
        tables.options.set_block_based_table_factory(&format);
        let written = tables.write(5000, 100);
        written[0].0.data_bytes
    };
    let packed = data_bytes(0, 128);
    assert_eq!(data_bytes(16_384, 0), packed);
    assert!(data_bytes(16_384, 4) > packed + 3000);
}

#[test]
fn samples_estimate_the_size_under_other_codecs() {
    let sizes = |period: u64| {
        let mut tables = Tables::new();
        tables.options.set_sample_for_compression(period);
        let properties = &tables.write(2000, 200)[0].0;
        assert_eq!(&properties.compression_name, b"NoCompression");
        (
            properties.fast_compression_data_bytes,
            properties.slow_compression_data_bytes,
            properties.data_bytes,
        )
    };
    assert!(matches!(sizes(0), (0, 0, _)));
    let (fast, slow, data) = sizes(3);
    let is_compressed = |codecs: [Compression; 2]| codecs.iter().any(|codec| codec.is_available());
    if is_compressed([Compression::Lz4, Compression::Snappy]) {
        assert!(fast > 0 && fast < data / 2, "{fast} of {data}");
    }
    if is_compressed([Compression::Zstd, Compression::Zlib]) {
        assert!(slow > 0 && slow < data / 2, "{slow} of {data}");
    }
}

#[test]
fn a_target_that_is_an_upper_bound_includes_filter_and_index() {
    let target = 40_000;
    let largest = |bounded: bool| {
        let mut tables = Tables::new();
        let mut format = BlockBasedOptions::new();
        format.set_bloom_filter(20.0);
        tables
            .options
            .set_block_based_table_factory(&format)
            .set_target_file_size_base(target)
            .set_target_file_size_is_upper_bound(bounded);
        let written = tables.write(20_000, 10);
        assert!(written.len() > 5);
        written.iter().map(|(_, bytes)| *bytes).max().unwrap()
    };
    assert!(largest(false) > target);
    let bounded = largest(true);
    assert!(bounded <= target && bounded > target / 2, "{bounded}");
}

#[test]
fn filters_are_partitioned_with_the_index_or_apart_from_it() {
    let flag = |decoupled: bool| {
        let mut tables = Tables::new();
        let mut format = BlockBasedOptions::new();
        format
            .set_bloom_filter(10.0)
            .set_index_type(koeldb::IndexType::TwoLevel)
            .set_partition_filters(true)
            .set_metadata_block_size(512)
            .set_decouple_partitioned_filters(decoupled);
        tables.options.set_block_based_table_factory(&format);
        let properties = tables.write(5000, 50).remove(0).0;
        let name = koeldb_table::properties::names::DECOUPLED_PARTITIONED_FILTERS;
        assert!(properties.index_partitions > 2);
        properties.user_collected[name.as_bytes()].clone()
    };
    assert_eq!(flag(true), b"1");
    assert_eq!(flag(false), b"0");
}
