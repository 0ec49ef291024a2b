use koeldb_base::ErrorKind;

use super::{family, text_of, texts};
use crate::options::{ColumnFamilyOptions, ConfigOptions, MemtableFactory, Options};

#[test]
fn the_grammar_takes_what_rocksdb_takes() {
    for (text, levels) in [
        ("num_levels=4", "4"),
        ("num_levels=4;", "4"),
        (" \t{ num_levels = 4 ; }\r\n", "4"),
        ("{{num_levels=4}}", "4"),
        ("num_levels=4;num_levels=5", "5"),
        ("num_levels={4}", "4"),
        ("", "7"),
        ("{}", "7"),
    ] {
        let options = family(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(
            text_of(&options, "num_levels").as_deref(),
            Some(levels),
            "{text}"
        );
    }
}

#[test]
fn errors_of_the_grammar_say_what_is_wrong() {
    for (text, message) in [
        ("num_levels", "Mismatched key value pair, '=' expected"),
        ("=3", "Empty key found"),
        (";num_levels=4", "Unexpected char in key"),
        ("num_levels=4;;", "Unexpected char in key"),
        ("a{b=4", "Unexpected char in key"),
        (
            "compression_opts={level=3",
            "Mismatched curly braces for nested options",
        ),
        (
            "compression_opts={level=3;}x;num_levels=3",
            "Unexpected chars after nested options",
        ),
        ("bogus=1", "Extra option not recognized: bogus"),
        (
            "compression_opts={bogus=1;}",
            "Unrecognized option: compression_opts.bogus",
        ),
        (
            "compression_opts.bogus=1",
            "Unrecognized option: compression_opts.bogus",
        ),
        ("block_size=3", "Extra option not recognized: block_size"),
        ("compression=zstd", "Error parsing compression"),
        ("num_levels=4}", "Error parsing num_levels"),
    ] {
        let error = family(text).expect_err(text);
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{text}");
        assert!(error.message().contains(message), "{text}: {error}");
    }
}

#[test]
fn a_misspelt_name_is_answered_with_the_option_that_is_near() {
    let how = ConfigOptions::new();
    for (text, hint) in [
        (
            "write_bufer_size=64M",
            "write_bufer_size (did you mean write_buffer_size?)",
        ),
        ("num_level=4", "num_level (did you mean num_levels?)"),
        (
            "max_open_filse=9",
            "(did you mean max_open_files of DBOptions?)",
        ),
        (
            "block_size=3",
            "(did you mean block_size of TableOptions/BlockBasedTable?)",
        ),
        (
            "compression_opts={levle=1;}",
            "compression_opts.levle (did you mean level?)",
        ),
        (
            "block_based_table_factory={block_sise=4096;}",
            "block_sise (did you mean block_size?)",
        ),
    ] {
        let error = Options::new().apply_str(text, &how).expect_err(text);
        assert!(error.message().contains(hint), "{text}: {error}");
    }
    let error = family("bogus=1").unwrap_err();
    assert_eq!(error.message(), "Extra option not recognized: bogus");
}

#[test]
fn a_text_is_applied_as_a_whole_or_not_at_all() {
    let mut options = Options::new();
    let before = options.to_options_string();
    let text = "num_levels=4;max_open_files=5;compression_opts={level=9;bogus=1;}";
    assert!(options.apply_str(text, &ConfigOptions::new()).is_err());
    assert_eq!(options.to_options_string(), before);
}

#[test]
fn numbers_mean_what_they_say_or_are_refused() {
    for (text, value) in [
        ("64M", 64 << 20),
        ("64MB", 64 << 20),
        ("64m", 64 << 20),
        ("1g", 1 << 30),
        ("2T", 2 << 40),
        (" 42 ", 42),
        ("-1", u64::MAX),
        ("18446744073709551615", u64::MAX),
    ] {
        let options = family(&format!("max_compaction_bytes={text}")).unwrap();
        assert_eq!(options.get_max_compaction_bytes(), value, "{text}");
    }
    for text in [
        "1.5G",
        "64 M",
        "0x10",
        "12abc",
        "18446744073709551615K",
        "",
        "abc",
        "99999999999999999999",
        "-2",
        "+1",
        "M",
        "64MiB",
    ] {
        let error = family(&format!("max_compaction_bytes={text}")).expect_err(text);
        assert!(
            error
                .message()
                .contains("Error parsing max_compaction_bytes"),
            "{error}"
        );
        assert!(
            error.message().contains("a whole number from 0 to"),
            "{error}"
        );
    }
    assert_eq!(family("num_levels=5K").unwrap().get_num_levels(), 5120);
    assert!(family("num_levels=3000000000").is_err());
    assert!(family("num_levels=4G").is_err());
    assert!(family("bloom_locality=-1").is_err());
    assert!(family("bloom_locality=4294967296").is_err());
    assert!(family("block_protection_bytes_per_key=256").is_err());
    assert_eq!(
        family("num_levels=-3").unwrap().num_levels,
        -3,
        "open makes it 2"
    );
}

#[test]
fn truth_values_and_fractions_are_read_as_rocksdb_reads_them() {
    for (text, value) in [("true", true), ("1", true), ("false", false), ("0", false)] {
        let options = family(&format!("disable_auto_compactions={text}")).unwrap();
        assert_eq!(options.get_disable_auto_compactions(), value);
    }
    for text in ["True", "yes", ""] {
        assert!(family(&format!("disable_auto_compactions={text}")).is_err());
    }
    let name = "max_bytes_for_level_multiplier";
    for (text, written) in [
        ("12.3456789", "12.345679"),
        ("8", "8.000000"),
        ("1e3", "1000.000000"),
        ("inf", "inf"),
        ("nan", "nan"),
    ] {
        let options = family(&format!("{name}={text}")).unwrap();
        assert_eq!(text_of(&options, name).as_deref(), Some(written));
    }
}

#[test]
fn lists_are_separated_by_colons() {
    let name = "compression_per_level";
    for text in [
        "kNoCompression:kLZ4Compression",
        "{kNoCompression:kLZ4Compression}",
        "kNoCompression:kLZ4Compression:",
    ] {
        let options = family(&format!("{name}={text}")).unwrap();
        assert_eq!(
            text_of(&options, name).as_deref(),
            Some("kNoCompression:kLZ4Compression")
        );
    }
    assert!(family("compression_per_level=kNoCompression::kZSTD").is_err());
    let fifo = "compaction_options_fifo={file_temperature_age_thresholds={{temperature=kWarm;age=10;}:{temperature=kCold;age=20;}};}";
    let options = family(fifo).unwrap();
    let ages = &options
        .compaction_options_fifo
        .file_temperature_age_thresholds;
    assert_eq!((ages.len(), ages[1].age), (2, 20));
    let again = family(&options.to_options_string()).unwrap();
    assert_eq!(texts(&again), texts(&options));
}

#[test]
fn strings_are_escaped() {
    let mut options = Options::new();
    let how = ConfigOptions::new();
    options.apply_str("db_log_dir={/a;b}", &how).unwrap();
    assert_eq!(options.get_db_log_dir().to_str(), Some("/a;b"));
    let again: Options = options.to_options_string().parse().unwrap();
    assert_eq!(again.get_db_log_dir().to_str(), Some("/a;b"));
    options.set_db_log_dir("/a\\b#c:d\r\ne");
    let text = options.to_options_string();
    assert!(text.contains(r"db_log_dir=/a\\b\#c\:d\r\ne;"), "{text}");
    let again: Options = text.parse().unwrap();
    assert_eq!(again.get_db_log_dir(), options.get_db_log_dir());
}

#[test]
fn compression_options_are_read_by_position_too() {
    let positions = [
        ("4:5:6", "4 5 6 0 0 false 1 0 true"),
        ("4:5:6:7", "4 5 6 7 0 false 1 0 true"),
        ("4:5:6:7:8", "4 5 6 7 8 false 1 0 true"),
        ("4:5:6:7:8:true", "4 5 6 7 8 true 1 0 true"),
        ("4:5:6:7:8:2:true", "4 5 6 7 8 true 2 0 true"),
        ("4:5:6:7:8:2:true:10", "4 5 6 7 8 true 2 10 true"),
        ("4:5:6:7:8:2:true:10:false", "4 5 6 7 8 true 2 10 false"),
    ];
    for (text, expected) in positions {
        let options = family(&format!("bottommost_compression_opts={text}")).unwrap();
        let found = [
            "window_bits",
            "level",
            "strategy",
            "max_dict_bytes",
            "zstd_max_train_bytes",
            "enabled",
            "parallel_threads",
            "max_dict_buffer_bytes",
            "use_zstd_dict_trainer",
        ]
        .map(|member| text_of(&options, &format!("bottommost_compression_opts.{member}")).unwrap())
        .join(" ");
        assert_eq!(found, expected, "{text}");
    }
    for text in ["4:5", "{}", "", "1:2:3:4:5:6:true:8:true:10", "a:b:c"] {
        assert!(
            family(&format!("compression_opts={text}")).is_err(),
            "{text}"
        );
    }
    let fifo = family("compaction_options_fifo=23").unwrap();
    assert_eq!(fifo.compaction_options_fifo.max_table_files_size, 23);
    assert!(family("compaction_options_universal=5").is_err());
}

#[test]
fn names_of_older_releases_take_any_value() {
    let text =
        "soft_rate_limit=garbage;memtable_prefix_bloom_bits=1;compaction_options_fifo={ttl=x;}";
    assert_eq!(
        texts(&family(text).unwrap()),
        texts(&ColumnFamilyOptions::new())
    );
    let mut options = Options::new();
    options
        .apply_str(
            "skip_log_error_on_recovery=perhaps;experimental_mempurge_threshold=0.5;use_spdb_writes=true",
            &ConfigOptions::new(),
        )
        .unwrap();
    assert_eq!(options.get_experimental_mempurge_threshold(), 0.5);
}

#[test]
fn aliases_and_dots_reach_the_option_they_stand_for() {
    let text = "memtable=vector:3;memtable_veirfy_per_key_checksum_on_seek=true;compression_opts.level=9;\
                table_factory.block_size=8192;block_based_table_factory={block_restart_interval=4;};\
                block_based_table_factory.filter_policy=ribbonfilter:10;\
                block_based_table_factory.filter_policy.bloom_before_level=3;\
                compaction_options_universal.size_ratio=5";
    let options = family(text).unwrap();
    for (name, expected) in [
        ("memtable_factory", "{id=VectorRepFactory;count=3;}"),
        ("memtable_verify_per_key_checksum_on_seek", "true"),
        ("compression_opts.level", "9"),
        ("compression_opts.window_bits", "-14"),
        ("table_factory.block_size", "8192"),
        ("table_factory.block_restart_interval", "4"),
        (
            "table_factory.filter_policy",
            "{id=ribbonfilter:10:3;bloom_before_level=3;}",
        ),
        ("compaction_options_universal.size_ratio", "5"),
    ] {
        assert_eq!(text_of(&options, name).as_deref(), Some(expected), "{name}");
    }
    let error = family("plain_table_factory={user_key_len=8;}").unwrap_err();
    assert!(
        error
            .message()
            .contains("Cannot modify BlockBasedTable as plain_table_factory"),
        "{error}"
    );
    assert!(family("block_based_table_factory={id=BlockBasedTable;}").is_err());
}

#[test]
fn memtable_ids_are_written_in_one_form() {
    for (text, written) in [
        ("skip_list", "SkipListFactory"),
        ("SkipListFactory", "SkipListFactory"),
        ("skip_list:16", "SkipListFactory:16"),
        ("{id=skip_list;lookahead=16;}", "SkipListFactory:16"),
        ("vector:5", "{id=VectorRepFactory;count=5;}"),
        (
            "prefix_hash:7",
            "{id=HashSkipListRepFactory;bucket_count=7;skiplist_height=4;branching_factor=4;}",
        ),
        (
            "hash_linkedlist:9",
            "{id=HashLinkListRepFactory;bucket_count=9;threshold=256;huge_page_size=0;logging_threshold=4096;\
             log_when_flash=true;}",
        ),
        ("speedb.HashSpdRepFactory", "speedb.HashSpdRepFactory"),
        (
            "speedb.HashSpdRepFactory:1000",
            "{id=speedb.HashSpdRepFactory;hash_bucket_count=1000;}",
        ),
        ("hash_spdb:0", "speedb.HashSpdRepFactory"),
        ("hash_spdb", "speedb.HashSpdRepFactory"),
        (
            "HashSpdbRepFactory:3",
            "{id=speedb.HashSpdRepFactory;hash_bucket_count=3;}",
        ),
        (
            "{id=speedb.HashSpdRepFactory;hash_bucket_count=0;sorted_vector_limit=500;}",
            "{id=speedb.HashSpdRepFactory;hash_bucket_count=0;sorted_vector_limit=500;}",
        ),
        (
            "{id=HashSpdbRepFactory;bucket_count=5;use_seek_parralel_threshold=true;}",
            "{id=speedb.HashSpdRepFactory;hash_bucket_count=5;use_seek_parallel_threshold=true;}",
        ),
    ] {
        let options = family(&format!("memtable_factory={text}")).unwrap();
        assert_eq!(
            text_of(&options, "memtable_factory").as_deref(),
            Some(written),
            "{text}"
        );
        let again = family(&format!("memtable_factory={written}")).unwrap();
        assert_eq!(
            text_of(&again, "memtable_factory").as_deref(),
            Some(written)
        );
    }
    for text in [
        "skip_list:",
        "skip_list:16:3",
        "vector:x",
        "cuckoo",
        "nope",
        "skip_list:-2",
    ] {
        let error = family(&format!("memtable_factory={text}")).expect_err(text);
        assert!(error.message().contains("memtable_factory"), "{error}");
    }
    let kept = family("memtable_factory=vector:1;memtable_factory=nullptr").unwrap();
    assert!(
        matches!(kept.memtable_factory, MemtableFactory::SkipList(_)),
        "last one wins"
    );
}

#[test]
fn ids_of_the_other_objects_are_written_in_one_form() {
    for (option, text, written) in [
        (
            "comparator",
            "rocksdb.ReverseBytewiseComparator",
            "rocksdb.ReverseBytewiseComparator",
        ),
        (
            "comparator",
            "rocksdb.Uint64Comparator",
            "rocksdb.Uint64Comparator",
        ),
        (
            "merge_operator",
            "stringappend",
            "{id=StringAppendOperator;delimiter=,;}",
        ),
        (
            "merge_operator",
            "{id=stringappend;delimiter=|;}",
            "{id=StringAppendOperator;delimiter=|;}",
        ),
        (
            "merge_operator",
            "{id=stringappend;delimiter=;}",
            "{id=StringAppendOperator;delimiter=;}",
        ),
        (
            "merge_operator",
            "{id=stringappend;delimiter={;};}",
            "{id=StringAppendOperator;delimiter={;};}",
        ),
        ("merge_operator", "uint64add", "UInt64AddOperator"),
        ("merge_operator", "put_v1", "PutOperator"),
        ("merge_operator", "max", "MaxOperator"),
        ("merge_operator", "bytesxor", "BytesXOR"),
        ("merge_operator", "nullptr", "nullptr"),
        ("merge_operator", "", "nullptr"),
        ("prefix_extractor", "fixed:8", "rocksdb.FixedPrefix.8"),
        ("prefix_extractor", "capped:4", "rocksdb.CappedPrefix.4"),
        ("prefix_extractor", "rocksdb.Noop", "rocksdb.Noop"),
        (
            "table_factory.filter_policy",
            "bloomfilter:9.5:true",
            "bloomfilter:9.5:false",
        ),
        ("table_factory.filter_policy", "", "nullptr"),
        (
            "compaction_filter",
            "RemoveEmptyValueCompactionFilter",
            "RemoveEmptyValueCompactionFilter",
        ),
        (
            "sst_partitioner_factory",
            "{id=SstPartitionerFixedPrefixFactory;length=5;}",
            "{id=SstPartitionerFixedPrefixFactory;length=5;}",
        ),
        (
            "table_properties_collectors",
            "CompactForTieringCollector",
            "CompactForTieringCollector",
        ),
        (
            "table_properties_collectors",
            "{{id=CompactOnDeletionCollector;window_size=100;deletion_trigger=10;}:CompactForTieringCollector}",
            "{{id=CompactOnDeletionCollector;window_size=100;deletion_trigger=10;}:CompactForTieringCollector}",
        ),
        ("compression_manager", "BuiltinV2", "nullptr"),
    ] {
        let options =
            family(&format!("{option}={text}")).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(
            text_of(&options, option).as_deref(),
            Some(written),
            "{option}={text}"
        );
        let again = family(&format!("{option}={written}")).unwrap();
        assert_eq!(
            text_of(&again, option).as_deref(),
            Some(written),
            "{option}"
        );
    }
}

#[test]
fn unknown_ids_are_errors_that_list_the_known_ones() {
    for (text, known) in [
        ("merge_operator=nope", "stringappend"),
        ("prefix_extractor=fixed:x", "fixed:N"),
        ("prefix_extractor=fixed:-4", "fixed:N"),
        ("comparator=nope", "leveldb.BytewiseComparator"),
        ("memtable_factory=nope", "skip_list"),
        ("table_factory=Nope", "CuckooTable"),
        (
            "table_factory.filter_policy=bloomfilter",
            "bloomfilter:BITS",
        ),
    ] {
        let error = family(text).expect_err(text);
        assert_eq!(error.kind(), ErrorKind::NotSupported, "{text}");
        assert!(error.message().contains(known), "{error}");
        let mut how = ConfigOptions::new();
        how.set_ignore_unsupported_options(true);
        let kept = super::family_with(text, &how).unwrap();
        assert_eq!(texts(&kept), texts(&ColumnFamilyOptions::new()), "{text}");
    }
    for text in [
        "comparator=",
        "comparator=nullptr",
        "table_factory=nullptr",
        "table_factory={block_size=16K}",
        "merge_operator={id=stringappend;bogus=1;}",
        "merge_operator={id=uint64add;delimiter=,;}",
    ] {
        assert!(family(text).is_err(), "{text}");
    }
}

#[test]
fn options_that_are_declined_take_their_default_only() {
    for (text, accepted) in [
        ("inplace_update_support=false", true),
        ("inplace_update_support=0", true),
        ("inplace_update_support=true", false),
        ("enable_blob_direct_write=true", false),
    ] {
        match family(text) {
            Ok(_) => assert!(accepted, "{text}"),
            Err(error) => {
                assert!(!accepted, "{text}: {error}");
                assert_eq!(error.kind(), ErrorKind::NotSupported);
                assert!(error.message().starts_with(text), "{error}");
            }
        }
    }
    let mut options = Options::new();
    let how = ConfigOptions::new();
    options
        .apply_str("env=Default;wal_filter=nullptr;listeners=", &how)
        .unwrap();
    for text in [
        "compression_manager=mine",
        "env=mem",
        "wal_filter=x",
        "persist_stats_to_disk=1",
    ] {
        assert!(options.apply_str(text, &how).is_err(), "{text}");
    }
}

#[test]
fn caches_are_described_by_size_or_map() {
    let capacity = |text: &str| {
        let options = family(&format!(
            "block_based_table_factory={{block_cache={text};}}"
        ))?;
        let table = options.table_factory.block_based().expect("block-based");
        Ok::<_, koeldb_base::Error>(table.get_block_cache().map(|cache| cache.get_capacity()))
    };
    assert_eq!(capacity("8M").unwrap(), Some(8 << 20));
    assert_eq!(
        capacity("{capacity=512M;num_shard_bits=4;}").unwrap(),
        Some(512 << 20)
    );
    for bits in [-100, -1, 0, 19] {
        let text = format!("{{capacity=1K;num_shard_bits={bits};}}");
        assert_eq!(capacity(&text).unwrap(), Some(1 << 10), "{text}");
    }
    assert_eq!(capacity("nullptr").unwrap(), None);
    for text in [
        "{capacity=8M;bogus=1;}",
        "hyper_clock_cache",
        "compressed_secondary_cache://capacity=8M",
        "{capacity=8M;num_shard_bits=20;}",
        "{capacity=8M;high_pri_pool_ratio=0.7;low_pri_pool_ratio=0.7;}",
    ] {
        assert!(capacity(text).is_err(), "{text}");
    }
}

#[test]
fn what_is_ignored_on_request_is_reported() {
    let mut how = ConfigOptions::new();
    how.set_ignore_unknown_options(true);
    let options = super::family_with("write_buffer_size=1G;bogus=1;num_levels=x", &how).unwrap();
    assert_eq!(options.get_write_buffer_size(), 1 << 30);
    assert_eq!(options.get_num_levels(), 7);
    let pairs = vec![("bogus", "1"), ("compression_opts", "{level=4;bogus=2;}")];
    let mut options = ColumnFamilyOptions::new();
    let ignored = crate::options::apply::apply(&mut options, pairs, &how).unwrap();
    let names: Vec<&str> = ignored.iter().map(|option| option.name.as_str()).collect();
    assert_eq!(names, ["bogus", "bogus"]);
    assert_eq!(ignored[1].section, "CFOptions/compression_opts");
    assert_eq!(options.compression_opts.level, 4);
}

#[test]
fn everything_written_reads_back() {
    let text = Options::new().to_options_string();
    let again: Options = text.parse().unwrap();
    assert_eq!(again.to_options_string(), text);
}

#[test]
fn maps_are_taken_like_strings() {
    let mut options = Options::new();
    options
        .apply_map(
            [("max_open_files", "100"), ("compression", "kZSTD")],
            &ConfigOptions::new(),
        )
        .unwrap();
    assert_eq!(options.get_max_open_files(), Some(100));
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_parser_fail_otherwise(text in "[a-z_=;{}:. \\\\#0-9]{0,60}") {
        let _ = family(&text);
        let mut options = Options::new();
        let _ = options.apply_str(&text, &ConfigOptions::new());
    }

    #[test]
    fn any_directory_survives_a_string(text in "[a-z;=:#\\\\ \r\n]{0,12}") {
        let text = format!("/{text}/");
        let mut options = Options::new();
        options.set_wal_dir(&text);
        let again: Options = options.to_options_string().parse().unwrap();
        let read = again.get_wal_dir().to_str().unwrap_or_default().to_owned();
        proptest::prop_assert_eq!(read, text);
    }
}
