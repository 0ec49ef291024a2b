//! The examples of the options page: texts, and the texts written from the result.

use super::{family, family_with, text_of};
use crate::options::{ConfigOptions, Options};

fn check(text: &str, expected: &[(&str, &str)]) {
    let options = family(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    for (name, expected) in expected {
        assert_eq!(
            text_of(&options, name).as_deref(),
            Some(*expected),
            "{name} of {text}"
        );
    }
    let written = options.to_options_string();
    assert_eq!(family(&written).unwrap().to_options_string(), written);
}

#[test]
fn a_block_based_family() {
    check(
        "write_buffer_size=64M;max_write_buffer_number=4;compression=kZSTD;compression_opts={level=3;max_dict_bytes=16K;};\
         compression_per_level=kNoCompression:kNoCompression:kLZ4Compression;memtable_factory=vector:1024;\
         prefix_extractor=fixed:8;merge_operator={id=stringappend;delimiter=|;};block_based_table_factory={block_size=16K;\
         filter_policy=ribbonfilter:10:2;index_type=kTwoLevelIndexSearch;partition_filters=true;checksum=kXXH3;\
         cache_index_and_filter_blocks=1;block_cache={capacity=512M;num_shard_bits=4;};}",
        &[
            ("write_buffer_size", "67108864"),
            ("max_write_buffer_number", "4"),
            ("compression", "kZSTD"),
            ("compression_opts.max_dict_bytes", "16384"),
            ("compression_opts.level", "3"),
            ("compression_opts.window_bits", "-14"),
            (
                "compression_per_level",
                "kNoCompression:kNoCompression:kLZ4Compression",
            ),
            ("memtable_factory", "{id=VectorRepFactory;count=1024;}"),
            ("prefix_extractor", "rocksdb.FixedPrefix.8"),
            ("merge_operator", "{id=StringAppendOperator;delimiter=|;}"),
            ("table_factory", "BlockBasedTable"),
            ("table_factory.block_size", "16384"),
            (
                "table_factory.filter_policy",
                "{id=ribbonfilter:10:2;bloom_before_level=2;}",
            ),
            ("table_factory.index_type", "kTwoLevelIndexSearch"),
            ("table_factory.partition_filters", "true"),
            ("table_factory.checksum", "kXXH3"),
            ("table_factory.cache_index_and_filter_blocks", "true"),
        ],
    );
    let options = family("compression_opts={level=3;}").unwrap();
    let text = text_of(&options, "compression_opts").unwrap();
    assert_eq!(text.matches(';').count(), 11, "all eleven members: {text}");
}

#[test]
fn cuckoo_and_plain_families() {
    check(
        "table_factory={id=CuckooTable;hash_table_ratio=0.8;max_search_depth=200;};memtable_factory=skip_list:16",
        &[
            ("table_factory", "CuckooTable"),
            ("table_factory.hash_table_ratio", "0.800000"),
            ("table_factory.max_search_depth", "200"),
            ("memtable_factory", "SkipListFactory:16"),
        ],
    );
    check(
        "table_factory={id=PlainTable;user_key_len=16;};prefix_extractor=capped:4;\
         memtable_factory={id=prefix_hash;bucket_count=5000;}",
        &[
            ("table_factory", "PlainTable"),
            ("table_factory.user_key_len", "16"),
            ("prefix_extractor", "rocksdb.CappedPrefix.4"),
            (
                "memtable_factory",
                "{id=HashSkipListRepFactory;bucket_count=5000;skiplist_height=4;branching_factor=4;}",
            ),
        ],
    );
}

#[test]
fn interpolation_search() {
    check(
        "block_based_table_factory={index_block_search_type=kAuto;uniform_cv_threshold=0.2;};table_factory.block_size=32K",
        &[
            ("table_factory.index_block_search_type", "kAuto"),
            ("table_factory.uniform_cv_threshold", "0.200000"),
            ("table_factory.block_size", "32768"),
        ],
    );
}

#[test]
fn universal_and_fifo_compaction() {
    check(
        "compaction_style=kCompactionStyleUniversal;compaction_options_universal={size_ratio=10;\
         max_size_amplification_percent=50;stop_style=kCompactionStopStyleSimilarSize;}",
        &[
            ("compaction_style", "kCompactionStyleUniversal"),
            (
                "compaction_options_universal",
                "{size_ratio=10;min_merge_width=2;max_merge_width=4294967295;max_size_amplification_percent=50;\
                 compression_size_percent=-1;max_read_amp=-1;stop_style=kCompactionStopStyleSimilarSize;\
                 incremental=false;allow_trivial_move=false;reduce_file_locking=true;}",
            ),
        ],
    );
    check(
        "compaction_style=kCompactionStyleFIFO;compaction_options_fifo=10G;ttl=3600",
        &[
            (
                "compaction_options_fifo.max_table_files_size",
                "10737418240",
            ),
            (
                "compaction_options_fifo.file_temperature_age_thresholds",
                "",
            ),
            ("ttl", "3600"),
        ],
    );
}

#[test]
fn codecs_of_the_last_level() {
    check(
        "bottommost_compression_opts={level=19;enabled=true;};bottommost_compression=kZSTD",
        &[
            ("bottommost_compression", "kZSTD"),
            ("bottommost_compression_opts.enabled", "true"),
            ("bottommost_compression_opts.level", "19"),
        ],
    );
    check(
        "compression_opts=4:5:6:7:8:2:true:10:false",
        &[
            ("compression_opts.window_bits", "4"),
            ("compression_opts.parallel_threads", "2"),
            ("compression_opts.max_dict_buffer_bytes", "10"),
            ("compression_opts.use_zstd_dict_trainer", "false"),
        ],
    );
}

#[test]
fn blanks_are_dropped() {
    check(
        " { write_buffer_size = 1M ; num_levels = 4 ; } ",
        &[("write_buffer_size", "1048576"), ("num_levels", "4")],
    );
}

#[test]
fn speedbs_memtable_is_known() {
    check(
        "memtable_factory=speedb.HashSpdRepFactory:1000",
        &[(
            "memtable_factory",
            "{id=speedb.HashSpdRepFactory;hash_bucket_count=1000;}",
        )],
    );
}

#[test]
fn unknown_names_are_errors_unless_they_may_be_ignored() {
    let text = "write_buffer_size=1G;bogus=1";
    let error = family(text).unwrap_err();
    assert_eq!(error.message(), "Extra option not recognized: bogus");
    let mut how = ConfigOptions::new();
    how.set_ignore_unknown_options(true);
    let options = family_with(text, &how).unwrap();
    assert_eq!(options.get_write_buffer_size(), 1 << 30);
    assert!(family("compression=zstd").is_err());
}

#[test]
fn database_options() {
    let mut options = Options::new();
    let how = ConfigOptions::new();
    options
        .apply_str(
            r"max_open_files=500;wal_recovery_mode=kAbsoluteConsistency;db_log_dir=/logs/a\#b;rate_limiter_bytes_per_sec=10M;daily_offpeak_time_utc=23\:30-04\:00",
            &how,
        )
        .unwrap();
    assert_eq!(options.get_max_open_files(), Some(500));
    assert_eq!(options.get_db_log_dir().to_str(), Some("/logs/a#b"));
    assert_eq!(options.get_rate_limiter_bytes_per_sec(), 10 << 20);
    assert_eq!(options.get_daily_offpeak_time_utc(), "23:30-04:00");
    options
        .apply_str("daily_offpeak_time_utc=22:30-03:00;db_log_dir={/a;b}", &how)
        .unwrap();
    assert_eq!(options.get_daily_offpeak_time_utc(), "22:30-03:00");
    assert_eq!(options.get_db_log_dir().to_str(), Some("/a;b"));
    let error = options.apply_str("row_cache=8M", &how).unwrap_err();
    assert_eq!(error.message(), "Extra option not recognized: row_cache");
}
