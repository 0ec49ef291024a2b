use koeldb_base::ErrorKind;

use super::{family, text_of, texts};
use crate::options::mutable::{changed_db, changed_family};
use crate::options::sanitize::{OpenContext, sanitize, sanitize_db, sanitize_family};
use crate::options::{ColumnFamilyOptions, ConfigOptions, DbOptions, Options};

fn sanitized_family(text: &str) -> ColumnFamilyOptions {
    let mut options = family(text).unwrap();
    sanitize_family(&mut options, &DbOptions::default(), false);
    options
}

fn database(text: &str) -> Options {
    let mut options = Options::new();
    options.apply_str(text, &ConfigOptions::new()).unwrap();
    options
}

#[test]
fn memtables_hash_prefixes_only_with_a_prefix_extractor() {
    for kind in ["prefix_hash", "hash_linkedlist"] {
        let without = sanitized_family(&format!("memtable_factory={kind}"));
        assert_eq!(without.memtable_factory.name(), "SkipListFactory");
        let text = format!("memtable_factory={kind};prefix_extractor=rocksdb.FixedPrefix.4");
        assert_ne!(
            sanitized_family(&text).memtable_factory.name(),
            "SkipListFactory"
        );
    }
}

#[test]
fn open_fills_in_what_was_left_to_it() {
    let options = sanitized_family("");
    for (name, expected) in [
        ("arena_block_size", "1048576"),
        ("max_compaction_bytes", "1677721600"),
        ("ttl", "2592000"),
        ("periodic_compaction_seconds", "0"),
    ] {
        assert_eq!(text_of(&options, name).as_deref(), Some(expected), "{name}");
    }
    let mut db = DbOptions::default();
    sanitize_db(&mut db, &OpenContext::default());
    assert_eq!(db.delayed_write_rate, 16 << 20);
}

#[test]
fn open_adjusts_family_options() {
    for (text, name, expected) in [
        ("write_buffer_size=1", "write_buffer_size", "65536"),
        ("write_buffer_size=1T", "write_buffer_size", "68719476736"),
        ("write_buffer_size=100K", "arena_block_size", "16384"),
        ("max_write_buffer_number=1", "max_write_buffer_number", "2"),
        (
            "min_write_buffer_number_to_merge=9;max_write_buffer_number=4",
            "min_write_buffer_number_to_merge",
            "3",
        ),
        (
            "disallow_memtable_writes=1",
            "memtable_factory",
            "{id=VectorRepFactory;count=0;}",
        ),
        ("num_levels=-3", "num_levels", "2"),
        (
            "num_levels=0;compaction_style=kCompactionStyleUniversal",
            "num_levels",
            "1",
        ),
        (
            "num_levels=1;compaction_style=kCompactionStyleUniversal;cf_allow_ingest_behind=1",
            "num_levels",
            "3",
        ),
        (
            "max_write_buffer_size_to_maintain=-1",
            "max_write_buffer_size_to_maintain",
            "134217728",
        ),
        (
            "memtable_prefix_bloom_size_ratio=0.5",
            "memtable_prefix_bloom_size_ratio",
            "0.250000",
        ),
        (
            "memtable_prefix_bloom_size_ratio=-1",
            "memtable_prefix_bloom_size_ratio",
            "0.000000",
        ),
        (
            "compaction_style=kCompactionStyleFIFO",
            "level0_stop_writes_trigger",
            "2147483647",
        ),
        (
            "max_bytes_for_level_multiplier=0",
            "max_bytes_for_level_multiplier",
            "1.000000",
        ),
        (
            "level0_file_num_compaction_trigger=0",
            "level0_file_num_compaction_trigger",
            "1",
        ),
        (
            "level0_file_num_compaction_trigger=30",
            "level0_slowdown_writes_trigger",
            "30",
        ),
        (
            "level0_slowdown_writes_trigger=50",
            "level0_stop_writes_trigger",
            "50",
        ),
        (
            "soft_pending_compaction_bytes_limit=0",
            "soft_pending_compaction_bytes_limit",
            "274877906944",
        ),
        (
            "soft_pending_compaction_bytes_limit=9;hard_pending_compaction_bytes_limit=5",
            "soft_pending_compaction_bytes_limit",
            "5",
        ),
        (
            "compaction_style=kCompactionStyleUniversal",
            "level_compaction_dynamic_level_bytes",
            "false",
        ),
        ("table_factory=PlainTable", "ttl", "0"),
        (
            "compaction_filter=RemoveEmptyValueCompactionFilter",
            "periodic_compaction_seconds",
            "2592000",
        ),
        (
            "compaction_style=kCompactionStyleUniversal;ttl=500",
            "periodic_compaction_seconds",
            "500",
        ),
        (
            "blob_direct_write_partitions=0",
            "blob_direct_write_partitions",
            "1",
        ),
        (
            "table_factory.block_size_deviation=101",
            "table_factory.block_size_deviation",
            "0",
        ),
        (
            "table_factory.block_restart_interval=-5",
            "table_factory.block_restart_interval",
            "1",
        ),
        (
            "block_based_table_factory={index_type=kHashSearch;index_block_restart_interval=8;}",
            "table_factory.index_block_restart_interval",
            "1",
        ),
        (
            "table_factory.partition_filters=true",
            "table_factory.partition_filters",
            "false",
        ),
        (
            "table_factory.format_version=0",
            "table_factory.format_version",
            "2",
        ),
    ] {
        let options = sanitized_family(text);
        assert_eq!(text_of(&options, name).as_deref(), Some(expected), "{text}");
    }
}

#[test]
fn adjusting_twice_changes_nothing_more() {
    let once = sanitized_family("write_buffer_size=1;compaction_style=kCompactionStyleUniversal");
    let mut twice = once.clone();
    sanitize_family(&mut twice, &DbOptions::default(), false);
    assert_eq!(texts(&once), texts(&twice));
}

#[test]
fn open_adjusts_database_options() {
    let adjusted = |text: &str, context: &OpenContext<'_>| {
        let mut db = database(text).db;
        sanitize_db(&mut db, context);
        db
    };
    let context = OpenContext {
        path: Some(std::path::Path::new("/db")),
        open_files_limit: Some(1024),
        ..OpenContext::default()
    };
    assert_eq!(
        adjusted("max_open_files=5000", &context).max_open_files,
        1024
    );
    assert_eq!(adjusted("max_open_files=5", &context).max_open_files, 20);
    assert_eq!(adjusted("max_open_files=-1", &context).max_open_files, -1);
    assert_eq!(adjusted("wal_dir=/db/", &context).wal_dir, "");
    assert_eq!(adjusted("wal_dir=/wal/", &context).wal_dir, "/wal");
    let limited = adjusted("rate_limiter_bytes_per_sec=5M", &context);
    assert_eq!(
        (limited.bytes_per_sync, limited.delayed_write_rate),
        (1 << 20, 5 << 20)
    );
    let text = "recycle_log_file_num=4;wal_recovery_mode=kAbsoluteConsistency";
    assert_eq!(adjusted(text, &context).recycle_log_file_num, 0);
    let text = "recycle_log_file_num=4;async_wal_precreate=1";
    assert!(!adjusted(text, &context).async_wal_precreate);
    let slots = |text: &str| database(text).db.background_slots();
    assert_eq!(slots("max_background_jobs=8"), (2, 6));
    assert_eq!(slots("max_background_jobs=0"), (1, 1));
    assert_eq!(slots("max_background_flushes=3"), (3, 1));
}

#[test]
fn families_without_a_cache_share_one() {
    let mut db = DbOptions::default();
    let mut first = ColumnFamilyOptions::new();
    let mut second = ColumnFamilyOptions::new();
    let mut third = family("table_factory.no_block_cache=true").unwrap();
    let mut families = [
        ("default", &mut first),
        ("b", &mut second),
        ("c", &mut third),
    ];
    sanitize(&mut db, &mut families, &OpenContext::default()).unwrap();
    let cache = |options: &ColumnFamilyOptions| {
        let table = options.table_factory.block_based().expect("block-based");
        table.get_block_cache().cloned()
    };
    let shared = cache(&first).expect("a default cache");
    assert_eq!(shared.get_capacity(), 32 << 20);
    shared.set_capacity(1 << 20);
    assert_eq!(cache(&second).expect("the same").get_capacity(), 1 << 20);
    assert!(cache(&third).is_none());
}

#[test]
fn what_cannot_be_is_refused_by_name_and_value() {
    for (text, refused) in [
        ("keep_log_file_num=0", "keep_log_file_num=0"),
        (
            "allow_mmap_reads=1;use_direct_reads=1",
            "allow_mmap_reads=true",
        ),
        (
            "allow_mmap_writes=1;use_direct_io_for_flush_and_compaction=1",
            "allow_mmap_writes=true",
        ),
        (
            "unordered_write=1;allow_concurrent_memtable_write=0",
            "unordered_write=true",
        ),
        (
            "unordered_write=1;max_successive_merges=2",
            "max_successive_merges=2",
        ),
        (
            "daily_offpeak_time_utc=25:00-03:00",
            "daily_offpeak_time_utc=25:00-03:00",
        ),
        (
            "daily_offpeak_time_utc=03:00-03:00",
            "daily_offpeak_time_utc=03:00-03:00",
        ),
        (
            "write_dbid_to_manifest=0;write_identity_file=0",
            "write_identity_file=false",
        ),
        ("read_io_executor_threads=0", "read_io_executor_threads=0"),
        (
            "atomic_flush=1;enable_pipelined_write=1",
            "atomic_flush=true",
        ),
        (
            "use_direct_io_for_flush_and_compaction=1;writable_file_max_buffer_size=0",
            "writable_file_max_buffer_size=0",
        ),
        (
            "memtable_factory=prefix_hash;prefix_extractor=rocksdb.FixedPrefix.4;\
             comparator=leveldb.BytewiseComparator.u64ts",
            "memtable_factory=HashSkipListRepFactory",
        ),
        (
            "memtable_factory={id=hash_spdb;sorted_vector_limit=0;}",
            "sorted_vector_limit=0",
        ),
        (
            "memtable_protection_bytes_per_key=3",
            "memtable_protection_bytes_per_key=3",
        ),
        ("num_levels=1G", "num_levels=1073741824"),
        (
            "compression=kXpressCompression",
            "compression=kXpressCompression",
        ),
        (
            "compression_opts={zstd_max_train_bytes=5;}",
            "compression_opts.zstd_max_train_bytes=5",
        ),
        (
            "table_factory={id=CuckooTable;hash_table_ratio=1.1;}",
            "hash_table_ratio=1.1",
        ),
        (
            "table_factory={id=CuckooTable;cuckoo_block_size=70000;}",
            "cuckoo_block_size=70000",
        ),
        ("table_factory=CuckooTable;ttl=5", "ttl=5"),
        ("table_factory=PlainTable;ttl=5", "ttl=5"),
        (
            "compaction_style=kCompactionStyleFIFO;max_open_files=100",
            "ttl=2592000",
        ),
        (
            "table_factory.index_type=kHashSearch",
            "index_type=kHashSearch",
        ),
        (
            "table_factory.index_block_search_type=kInterpolation;comparator=rocksdb.Uint64Comparator",
            "index_block_search_type=kInterpolation",
        ),
        (
            "block_based_table_factory={no_block_cache=1;cache_index_and_filter_blocks=1;}",
            "cache_index_and_filter_blocks=true",
        ),
        ("table_factory.block_align=1", "block_align=true"),
        (
            "block_based_table_factory={block_align=1;block_size=5000;};compression=kNoCompression",
            "block_size=5000",
        ),
        ("table_factory.block_size=5G", "block_size=5368709120"),
        ("table_factory.format_version=8", "format_version=8"),
        (
            "table_factory.super_block_alignment_size=3",
            "super_block_alignment_size=3",
        ),
        (
            "table_factory.data_block_hash_table_util_ratio=0",
            "data_block_hash_table_util_ratio=0",
        ),
        (
            "compaction_options_universal={max_read_amp=2;}",
            "max_read_amp=2",
        ),
        (
            "enable_blob_garbage_collection=1;blob_garbage_collection_age_cutoff=1.5",
            "blob_garbage_collection_age_cutoff=1.5",
        ),
    ] {
        let error = database(text).validate().expect_err(text);
        assert!(error.message().contains(refused), "{text}: {error}");
    }
    Options::new().validate().unwrap();
}

#[test]
fn refusals_are_collected_into_one_error() {
    let error = database("keep_log_file_num=0;table_factory.block_size=5G;num_levels=1G")
        .validate()
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    for part in [
        "keep_log_file_num",
        "block_size",
        "num_levels",
        "column family \"default\"",
    ] {
        assert!(error.message().contains(part), "{error}");
    }
    let error = database("table_factory=CuckooTable;ttl=5")
        .validate()
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported);
}

#[test]
fn changes_at_run_time_are_mutable_atomic_and_sanitised() {
    let db = DbOptions::default();
    let current = sanitized_family("");
    let change =
        |name: &str, value: &str| changed_family("default", &current, &db, [(name, value)]);
    let changed = change("write_buffer_size", "1").unwrap();
    assert_eq!(changed.get_write_buffer_size(), 64 << 10);
    let changed = change("table_factory.block_size", "9000").unwrap();
    assert_eq!(
        text_of(&changed, "table_factory.block_size").as_deref(),
        Some("9000")
    );
    let changed = change("block_based_table_factory", "{block_size=8000;}").unwrap();
    assert_eq!(
        text_of(&changed, "table_factory.block_size").as_deref(),
        Some("8000")
    );
    assert_eq!(
        text_of(
            &change("compression_opts.level", "5").unwrap(),
            "compression_opts.level"
        )
        .as_deref(),
        Some("5")
    );
    for (name, value) in [
        ("num_levels", "5"),
        ("comparator", "leveldb.BytewiseComparator"),
        ("table_factory", "PlainTable"),
        ("table_factory", "BlockBasedTable"),
        (
            "block_based_table_factory",
            "{id=BlockBasedTable;block_size=3;}",
        ),
        ("table_factory.format_version", "99"),
        ("bogus", "1"),
        ("max_open_files", "5"),
        ("write_buffer_size", "x"),
        ("purge_redundant_kvs_while_flush", "true"),
    ] {
        let error = change(name, value).expect_err(name);
        let bare = name.rsplit('.').next().unwrap_or(name);
        assert!(error.message().contains(bare), "{error}");
    }
    assert!(change("soft_rate_limit", "x").is_ok(), "a name of the past");
    assert!(
        changed_family(
            "default",
            &current,
            &db,
            [("ttl", "5"), ("num_levels", "4")]
        )
        .is_err()
    );
    let nothing: [(&str, &str); 0] = [];
    assert!(changed_family("default", &current, &db, nothing).is_err());
    let changed = changed_db(
        &db,
        [("max_background_jobs", "8"), ("delayed_write_rate", "0")],
    )
    .unwrap();
    assert_eq!(
        (changed.max_background_jobs, changed.delayed_write_rate),
        (8, 16 << 20)
    );
    let error = changed_db(&db, [("wal_dir", "/x")]).unwrap_err();
    assert!(
        error.message().contains("Option not changeable: wal_dir"),
        "{error}"
    );
}

#[test]
fn settings_without_effect_are_named() {
    let options = database(
        "use_adaptive_mutex=true;ttl=5;\
         compression_opts={parallel_threads=4;level=3};\
         block_based_table_factory={optimize_filters_for_memory=false;metadata_cache_options={partition_pinning=kAll};\
         block_cache={capacity=1M;low_pri_pool_ratio=0.25}};\
         memtable_factory={id=hash_linkedlist;huge_page_size=4096}",
    );
    let found: Vec<String> = options
        .settings_without_effect()
        .iter()
        .map(ToString::to_string)
        .collect();
    let of_family = |setting| format!("{setting} of column family \"default\"");
    assert_eq!(
        found,
        [
            "use_adaptive_mutex=true".to_owned(),
            of_family("table_factory.optimize_filters_for_memory=false"),
            of_family("table_factory.block_cache.low_pri_pool_ratio=0.250000"),
            of_family("compression_opts.parallel_threads=4"),
            of_family("memtable_factory.huge_page_size=4096"),
        ]
    );
    assert_eq!(Options::new().settings_without_effect(), []);
}

#[cfg(feature = "lz4")]
#[test]
fn presets_set_what_they_say() {
    let mut options = Options::new();
    options
        .increase_parallelism(16)
        .optimize_for_point_lookup(64)
        .optimize_level_style_compaction(512 << 20);
    assert_eq!(options.get_max_background_jobs(), 16);
    assert_eq!(options.get_write_buffer_size(), 128 << 20);
    assert_eq!(
        text_of(&options.cf, "table_factory.filter_policy").as_deref(),
        Some("bloomfilter:10:false")
    );
    assert_eq!(
        text_of(&options.cf, "compression_per_level").as_deref(),
        Some(
            "kNoCompression:kNoCompression:kLZ4Compression:kLZ4Compression:kLZ4Compression:kLZ4Compression:kLZ4Compression"
        )
    );
    options.validate().unwrap();
    let mut options = Options::new();
    options.optimize_for_small_db().validate().unwrap();
    options.prepare_for_bulk_load().validate().unwrap();
    options
        .optimize_universal_style_compaction(64 << 20)
        .validate()
        .unwrap();
}

#[test]
fn the_codec_of_a_level_is_chosen_as_rocksdb_chooses() {
    use koeldb_base::codec::Compression;
    let options = family(
        "compression=kZlibCompression;compression_per_level=kNoCompression:kSnappyCompression:kLZ4Compression;\
         bottommost_compression=kZSTD;bottommost_compression_opts={level=7;enabled=true;}",
    )
    .unwrap();
    let codec = |level, base, bottommost| options.compression_at(level, base, bottommost).0;
    assert_eq!(codec(0, 4, false), Compression::None);
    assert_eq!(codec(4, 4, false), Compression::Snappy);
    assert_eq!(codec(5, 4, false), Compression::Lz4);
    assert_eq!(codec(6, 4, false), Compression::Lz4);
    let (codec, settings) = options.compression_at(6, 4, true);
    assert_eq!((codec, settings.level), (Compression::Zstd, 7));
    let plain = ColumnFamilyOptions::new();
    assert_eq!(plain.compression_at(6, 1, true).0, plain.compression);
}
