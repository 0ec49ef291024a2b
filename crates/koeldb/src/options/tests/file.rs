use std::cmp::Ordering;
use std::path::{Path, PathBuf};

use koeldb_base::error::BoxError;
use koeldb_base::merge_operator::{MergeOperands, MergeOperator};
use koeldb_base::prefix::PrefixExtractor;
use koeldb_base::{Comparator, ErrorKind};
use koeldb_fs::posix::PosixFileSystem;
use koeldb_fs::{FileSystem, Purpose};

use super::{family, text_of, texts};
use crate::options::options_file::{ParsedFile, parse, print, print_checked};
use crate::options::{ColumnFamilyOptions, ConfigOptions, DbOptions, MendedOption, Options};

const CF: &str = "[CFOptions \"default\"]\n";

fn read(text: &str) -> koeldb_base::Result<ParsedFile> {
    parse(text, &ConfigOptions::new())
}

#[test]
fn what_rocksdb_accepts_is_accepted() {
    for text in [
        format!("[DBOptions]\n{CF}"),
        format!("[DBOptions]\n{CF}[Version]\nrocksdb_version=11.9.0\noptions_file_version=1.1\n"),
        format!("{CF}[DBOptions]\n"),
        format!("[DBOptions]\r\n{CF}\r\n  # a comment\n  num_levels = 4 # another\n"),
        format!("stray=1\n[DBOptions]\n{CF}"),
        format!("[Version]\nanything=goes\noptions_file_version=2.0\n[DBOptions]\n{CF}"),
        format!(
            "[DBOptions]\n{CF}[CFOptions \"\"]\n[CFOptions \"a\"b\"]\n[CFOptions \"a\\#b\\:c\"]\n"
        ),
        format!(
            "[DBOptions]\n{CF}  table_factory=PlainTable\n[TableOptions/BlockBasedTable \"default\"]\n"
        ),
        format!("[DBOptions]\n{CF}num_levels=4"),
    ] {
        read(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
    let text =
        format!("[DBOptions]\n{CF}[CFOptions \"a\\#b\\:c\"]\n num_levels=3\n num_levels=5\n");
    let file = read(&text).unwrap();
    assert_eq!(file.families[1].0, "a#b:c");
    assert_eq!(
        file.families[1].1.get_num_levels(),
        3,
        "the first of a name stands"
    );
    let text = format!(
        "[DBOptions]\n{CF}  table_factory=PlainTable\n[TableOptions/CuckooTable \"default\"]\n"
    );
    let file = read(&text).unwrap();
    assert_eq!(
        text_of(&file.families[0].1, "table_factory").as_deref(),
        Some("CuckooTable")
    );
}

#[test]
fn what_rocksdb_refuses_is_refused() {
    let minimal = format!("[DBOptions]\n{CF}");
    for (text, kind, message) in [
        (
            "[Version]\n[Version]\n".to_owned(),
            ErrorKind::InvalidArgument,
            "More than one Version",
        ),
        (
            "[DBOptions]\n[DBOptions]\n".to_owned(),
            ErrorKind::InvalidArgument,
            "More than one DBOptions",
        ),
        (
            CF.to_owned(),
            ErrorKind::Corruption,
            "must have a single DBOptions section",
        ),
        (
            "[DBOptions]\n".to_owned(),
            ErrorKind::Corruption,
            "must have a single CFOptions:default section",
        ),
        (
            "[DBOptions]\n[CFOptions \"a\"]\n".to_owned(),
            ErrorKind::InvalidArgument,
            "Default column family must be the first CFOptions section",
        ),
        (
            format!("{minimal}{CF}"),
            ErrorKind::InvalidArgument,
            "Default column family must be the first CFOptions section",
        ),
        (
            format!("{minimal}[CFOptions \"a\"]\n[CFOptions \"a\"]\n"),
            ErrorKind::InvalidArgument,
            "Two identical column families",
        ),
        (
            format!("[DBOptions]\n[TableOptions/BlockBasedTable \"default\"]\n{CF}"),
            ErrorKind::InvalidArgument,
            "Does not find a matched column family name",
        ),
        (
            format!("{minimal}[X]\n"),
            ErrorKind::InvalidArgument,
            "Unknown section [X]",
        ),
        (
            format!("{minimal}bogus=1\n"),
            ErrorKind::InvalidArgument,
            "Extra option not recognized: bogus",
        ),
        (
            format!("{minimal}num_levls=4\n"),
            ErrorKind::InvalidArgument,
            "(did you mean num_levels?)",
        ),
        (
            format!("{minimal}num_levels\n"),
            ErrorKind::InvalidArgument,
            "no '='",
        ),
        (
            format!("{minimal}=3\n"),
            ErrorKind::InvalidArgument,
            "no name",
        ),
        (
            format!("[Version]\nrocksdb_version=11.x\n{minimal}"),
            ErrorKind::InvalidArgument,
            "rocksdb_version=11.x",
        ),
        (
            format!("[Version]\nrocksdb_version=1.2.3.4\n{minimal}"),
            ErrorKind::InvalidArgument,
            "rocksdb_version=1.2.3.4",
        ),
        (
            format!("[Version]\noptions_file_version=0.9\n{minimal}"),
            ErrorKind::InvalidArgument,
            "options_file_version=0.9",
        ),
        (
            format!("{minimal}[TableOptions/Nope \"default\"]\n"),
            ErrorKind::NotSupported,
            "Could not load TableFactory: Nope",
        ),
    ] {
        let error = read(&text).expect_err(&text);
        assert_eq!(error.kind(), kind, "{text}: {error}");
        assert!(error.message().contains(message), "{text}: {error}");
    }
}

#[test]
fn unknown_names_are_ignored_only_on_request_and_from_newer_releases() {
    let mut how = ConfigOptions::new();
    how.set_ignore_unknown_options(true);
    let file = |version: &str| format!("{version}[DBOptions]\nbogus=1\n{CF}num_levels=x\n");
    for (version, accepted) in [
        ("", true),
        ("[Version]\nrocksdb_version=11.9.0\n", false),
        ("[Version]\nrocksdb_version=8.1.1\n", false),
        ("[Version]\nrocksdb_version=11.10.0\n", true),
        ("[Version]\nrocksdb_version=12\n", true),
        (
            "[Version]\nrocksdb_version=11.9.0\nkoeldb_version=999.0.0\n",
            true,
        ),
    ] {
        match parse(&file(version), &how) {
            Ok(parsed) => {
                assert!(accepted, "{version}");
                assert_eq!(parsed.ignored.len(), 2);
                assert_eq!(parsed.ignored[1].section, "CFOptions \"default\"");
            }
            Err(error) => assert!(!accepted, "{version}: {error}"),
        }
    }
    let mut how = ConfigOptions::new();
    how.set_ignore_unsupported_options(true);
    let text =
        format!("[DBOptions]\n{CF}merge_operator=mine\n[TableOptions/Nope \"default\"]\nx=1\n");
    let parsed = parse(&text, &how).unwrap();
    assert_eq!(parsed.ignored.len(), 2);
    let parsed = parse(&format!("[DBOptions]\nlisteners={{a:b}}\n{CF}"), &how).unwrap();
    assert_eq!(
        parsed.ignored[0].to_string(),
        "listeners={a:b} is not applied: only the default () is accepted"
    );
}

#[test]
fn directories_are_applied_on_request_only() {
    let text = format!("[DBOptions]\n  wal_dir=/elsewhere\n{CF}");
    let file = read(&text).unwrap();
    assert_eq!(file.db.wal_dir, "");
    assert_eq!(file.ignored[0].name, "wal_dir");
    let mut how = ConfigOptions::new();
    how.set_apply_paths(true);
    assert_eq!(parse(&text, &how).unwrap().db.wal_dir, "/elsewhere");
}

#[test]
fn defaults_are_written_without_what_old_readers_do_not_know() {
    let text = print(
        &DbOptions::default(),
        [("default", &ColumnFamilyOptions::default())],
    );
    for line in text.lines().map(str::trim) {
        let name = line.split('=').next().unwrap_or_default();
        if let Some(info) = Options::registry()
            .iter()
            .find(|info| info.name == name && !info.section.contains("opts"))
        {
            assert!(
                info.since.starts_with("<=") || super::super::registry::is_known_to_7_8(info.since),
                "{name} since {}",
                info.since
            );
        }
    }
    for newer in [
        "async_wal_precreate",
        "max_read_amp",
        "index_block_search_type",
        "index_decoding",
        "async_io_engine",
        "checksum=false",
    ] {
        assert!(!text.contains(newer), "{newer}");
    }
    assert!(text.ends_with('\n'));
    assert!(text.contains("\n  koeldb_version="));
    let options =
        family("block_based_table_factory={index_block_search_type=kAuto;index_decoding=kNever;};compression_opts.checksum=true")
            .unwrap();
    let text = print(&DbOptions::default(), [("default", &options)]);
    assert!(
        text.contains("\n  index_block_search_type=kAuto\n  index_decoding=kNever\n"),
        "{text}"
    );
    assert!(text.contains("checksum=true;"), "{text}");
}

#[test]
fn what_is_written_reads_back() {
    let mut options = Options::new();
    let how = ConfigOptions::new();
    options
        .apply_str(
            "wal_dir=/a\\:b;max_open_files=77;compression_per_level=kNoCompression:kZSTD;\
             table_factory={id=PlainTable;encoding_type=kPrefix;};merge_operator={id=stringappend;delimiter={;};};\
             memtable_factory=hash_spdb:7;compaction_options_fifo={file_temperature_age_thresholds={{temperature=kWarm;age=10;}};}",
            &how,
        )
        .unwrap();
    let second = family("comparator=rocksdb.ReverseBytewiseComparator;num_levels=3").unwrap();
    let families = [("default", &options.cf), ("a\"#:\\\n b", &second)];
    let text = print_checked(&options.db, &families).unwrap();
    let mut how = ConfigOptions::new();
    how.set_apply_paths(true);
    let parsed = parse(&text, &how).unwrap();
    assert_eq!(texts(&parsed.db), texts(&options.db));
    assert_eq!(parsed.families[1].0, "a\"#:\\\n b");
    for ((_, written), (_, read)) in families.iter().zip(&parsed.families) {
        assert_eq!(texts(*written), texts(read));
    }
}

#[test]
fn a_value_that_does_not_survive_is_an_error() {
    let mut options = Options::new();
    options.set_wal_dir("/ends with a blank ");
    let error = print_checked(&options.db, &[("default", &options.cf)]).unwrap_err();
    assert!(error.message().contains("wal_dir"), "{error}");
    options.set_wal_dir("");
    options.set_db_host_id("");
    print_checked(&options.db, &[("default", &options.cf)]).unwrap();
}

/// An object of the user, of every class that has a name in the file.
#[derive(Clone, Debug)]
struct Mine(String);

impl MergeOperator for Mine {
    fn name(&self) -> &str {
        &self.0
    }

    fn full_merge(
        &self,
        _: &[u8],
        _: Option<&[u8]>,
        _: MergeOperands<'_>,
        _: &mut Vec<u8>,
    ) -> Result<(), BoxError> {
        Ok(())
    }
}

impl PrefixExtractor for Mine {
    fn name(&self) -> &str {
        &self.0
    }

    fn prefix<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        Some(key)
    }
}

impl Comparator for Mine {
    fn name(&self) -> &str {
        &self.0
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }
}

#[test]
fn plug_ins_of_the_user_are_named() {
    let mut options = Options::new();
    options.set_merge_operator(Mine("Mine".to_owned()));
    let text = print_checked(&options.db, &[("default", &options.cf)]).unwrap();
    assert!(text.contains("\n  merge_operator=Mine\n"));
    assert!(read(&text).is_err());
}

#[test]
fn a_plug_in_of_the_user_may_have_any_name() {
    // Names and nicknames of built-in objects.
    let builtin = [
        "StringAppendOperator",
        "StringAppendTESTOperator",
        "stringappend",
        "stringappendtest",
        "UInt64AddOperator",
        "uint64add",
        "PutOperator",
        "put",
        "put_v1",
        "MaxOperator",
        "max",
        "BytesXOR",
        "bytesxor",
        "fixed:3",
        "fixed:03",
        "capped:3",
        "rocksdb.FixedPrefix.3",
        "rocksdb.FixedPrefix.03",
        "rocksdb.CappedPrefix.3",
        "rocksdb.Noop",
        "leveldb.BytewiseComparator",
        "rocksdb.ReverseBytewiseComparator",
        "rocksdb.Uint64Comparator",
        "leveldb.BytewiseComparator.u64ts",
        "nullptr",
        "Default",
    ];
    // Names with a meaning in the grammar.
    let odd = [
        "",
        " ",
        " a",
        "a ",
        "\t",
        "a\nb=c",
        "a\r",
        "a#b",
        "a\\",
        "\\#",
        "{",
        "{a",
        "{id=max;}",
        "{id=a;delimiter=b}",
        "}",
        "a;b=c",
        "a=b",
        "[DBOptions]",
        "a:b",
        "ä",
    ];
    for name in builtin.into_iter().chain(odd) {
        let mine = Mine(name.to_owned());
        for objects in [1, 2, 4, 7] {
            let mut options = Options::new();
            if objects & 1 != 0 {
                options.set_merge_operator(mine.clone());
            }
            if objects & 2 != 0 {
                options.set_prefix_extractor(mine.clone());
            }
            if objects & 4 != 0 {
                options.set_comparator(mine.clone());
            }
            let families = [("default", &options.cf), ("other", &options.cf)];
            let text = print_checked(&options.db, &families)
                .unwrap_or_else(|error| panic!("{name:?}: {error}"));
            let mut how = ConfigOptions::new();
            how.set_ignore_unsupported_options(true);
            parse(&text, &how).unwrap_or_else(|error| panic!("{name:?}: {error}"));
        }
    }
}

#[test]
fn a_nickname_in_an_options_file_means_no_built_in_object() {
    for name in [
        "max",
        "put",
        "put_v1",
        "uint64add",
        "stringappend",
        "bytesxor",
    ] {
        let mut options = Options::new();
        options.set_merge_operator(Mine(name.to_owned()));
        let text = print(&options.db, [("default", &options.cf)]);
        assert!(read(&text).is_err(), "{name}");
        // RocksDB takes it for its own.
        let text = text.replace("koeldb_version", "other_version");
        read(&text).unwrap();
    }
    let mut options = Options::new();
    options.set_prefix_extractor(Mine("fixed:3".to_owned()));
    assert!(read(&print(&options.db, [("default", &options.cf)])).is_err());
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden")
}

/// The golden directories that have an OPTIONS file.
fn golden_files() -> Vec<PathBuf> {
    let fs = PosixFileSystem::new();
    let mut files = Vec::new();
    for entry in fs.list(&golden()).expect("golden directories") {
        let directory = golden().join(entry.name);
        if let Ok(entries) = fs.list(&directory) {
            files.extend(
                entries
                    .into_iter()
                    .filter(|entry| entry.name.starts_with("OPTIONS-"))
                    .map(|entry| directory.join(entry.name)),
            );
        }
    }
    files
}

#[test]
fn files_of_rocksdb_load_and_are_written_back_with_the_same_values() {
    let files = golden_files();
    assert!(files.len() > 20, "{files:?}");
    let fs = PosixFileSystem::new();
    for path in files {
        let loaded = Options::load_file(&path, &ConfigOptions::new())
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let families: Vec<(&str, &ColumnFamilyOptions)> = loaded
            .column_families
            .iter()
            .map(|(name, options)| (name.as_str(), options))
            .collect();
        let text = print_checked(&loaded.options.db, &families).unwrap();
        // Both files agree on common names, except for the order of members.
        let theirs =
            String::from_utf8(fs.read_all(&path, 1 << 20, Purpose::Other).unwrap()).unwrap();
        let ours = statements(&text);
        for (key, value) in statements(&theirs) {
            if let Some((_, our_value)) = ours.iter().find(|(our_key, _)| *our_key == key) {
                // A build without a codec replaces it.
                let is_mended =
                    |mended: &MendedOption| key.ends_with(&format!("] {}", mended.name));
                if value.starts_with('{') || loaded.mended.iter().any(is_mended) {
                    continue;
                }
                assert_eq!(*our_value, value, "{key} of {}", path.display());
            }
        }
    }
}

#[test]
fn the_newest_file_of_a_directory_is_loaded() {
    let loaded =
        Options::load_latest(golden().join("column-families"), &ConfigOptions::new()).unwrap();
    let newest = golden_files()
        .into_iter()
        .filter(|file| file.to_string_lossy().contains("/column-families/"))
        .max();
    assert_eq!(Some(loaded.file()), newest.as_deref());
    let beta = loaded.column_family("beta").expect("a family");
    assert_eq!(
        beta.get_comparator().name(),
        "rocksdb.ReverseBytewiseComparator"
    );
    let error = Options::load_latest(golden(), &ConfigOptions::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

/// Returns all statements with their section.
fn statements(text: &str) -> Vec<(String, String)> {
    let mut section = String::new();
    let mut out = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            section = line.to_owned();
        } else if let Some((name, value)) = line.split_once('=')
            && section != "[Version]"
        {
            out.push((format!("{section} {name}"), value.to_owned()));
        }
    }
    out
}

#[test]
fn a_value_that_an_open_refuses_is_mended_in_a_file() {
    for (db, cf, table, mended) in [
        ("", "", "block_align=true\nblock_size=5000", "block_align"),
        ("", "", "block_align=true", "block_align"),
        ("", "", "block_size=5000000000", "block_size"),
        ("", "", "index_type=kHashSearch", "index_type"),
        ("", "", "format_version=8", "format_version"),
        (
            "",
            "",
            "no_block_cache=true\npin_l0_filter_and_index_blocks_in_cache=true",
            "pin_l0_filter_and_index_blocks_in_cache",
        ),
        (
            "",
            "comparator=rocksdb.Uint64Comparator",
            "index_block_search_type=kInterpolation",
            "index_block_search_type",
        ),
        (
            "",
            "comparator=leveldb.BytewiseComparator.u64ts\nprefix_extractor=rocksdb.FixedPrefix.4\n\
             memtable_factory=prefix_hash:9",
            "",
            "memtable_factory",
        ),
        ("", "compression=kXpressCompression", "", "compression"),
        (
            "",
            "compression_per_level=kXpressCompression",
            "",
            "compression_per_level",
        ),
        (
            "",
            "compression_opts={zstd_max_train_bytes=9;}",
            "",
            "compression_opts.zstd_max_train_bytes",
        ),
        (
            "",
            "compaction_style=kCompactionStyleUniversal\ncompaction_options_universal={max_read_amp=2;}",
            "",
            "compaction_options_universal.max_read_amp",
        ),
        (
            "",
            "level0_file_num_compaction_trigger=-3",
            "",
            "level0_file_num_compaction_trigger",
        ),
        ("", "num_levels=1000", "", "num_levels"),
        (
            "max_open_files=100",
            "compaction_style=kCompactionStyleFIFO\nttl=50",
            "",
            "max_open_files",
        ),
        (
            "",
            "inplace_update_support=true",
            "",
            "inplace_update_support",
        ),
        (
            "persist_stats_to_disk=true",
            "",
            "",
            "persist_stats_to_disk",
        ),
        (
            "",
            "memtable_protection_bytes_per_key=3",
            "",
            "memtable_protection_bytes_per_key",
        ),
        (
            "daily_offpeak_time_utc=never",
            "",
            "",
            "daily_offpeak_time_utc",
        ),
    ] {
        let text = format!(
            "[DBOptions]\n{db}\n[CFOptions \"default\"]\n{cf}\n[TableOptions/BlockBasedTable \"default\"]\n{table}\n"
        );
        let mut parsed = read(&text).unwrap();
        super::super::mend::mend(&mut parsed);
        let names: Vec<&str> = parsed.mended.iter().map(|option| &*option.name).collect();
        assert_eq!(names, [mended], "{text}");
        let families = parsed.families.iter();
        let families = families.map(|(name, options)| (&**name, options));
        super::super::sanitize::check(&parsed.db, families)
            .unwrap_or_else(|error| panic!("{text}: {error}"));
    }
}

/// The text of an OPTIONS file of RocksDB with one more statement.
fn file_with(info: &crate::options::OptionInfo, value: &str) -> Option<String> {
    let statement = format!("  {}={value}\n", info.name);
    let place = |section: &str| match info.section == section {
        true => statement.as_str(),
        false => "",
    };
    let table = ["BlockBasedTable", "PlainTable", "CuckooTable"]
        .into_iter()
        .find(|table| info.section == format!("TableOptions/{table}"));
    let is_there = table.is_some() || ["DBOptions", "CFOptions"].contains(&info.section);
    is_there.then(|| {
        format!(
            "[Version]\n  rocksdb_version=7.8.3\n  options_file_version=1.1\n[DBOptions]\n{}[CFOptions \
             \"default\"]\n{}[TableOptions/{} \"default\"]\n{}",
            place("DBOptions"),
            place("CFOptions"),
            table.unwrap_or("BlockBasedTable"),
            if table.is_some() { statement.as_str() } else { "" },
        )
    })
}

#[test]
fn an_unknown_object_of_any_kind_is_skipped_with_its_parts_or_refused_by_its_id() {
    let mut skips = ConfigOptions::new();
    skips.set_ignore_unsupported_options(true);
    let mut refuses = ConfigOptions::new();
    refuses.set_ignore_unsupported_options(false);
    let mut tried = 0;
    for info in crate::Options::registry() {
        if !info.kind.contains("object id") && !info.kind.contains("cache string") {
            continue;
        }
        for value in [
            "Unheard",
            "{id=Unheard;size=3;}",
            "{id=Unheard;inner={id=Other;delimiter=\\:;};ttl=0;}",
        ] {
            let Some(text) = file_with(info, value) else {
                continue;
            };
            if info.kind.contains("cache string") && value == "Unheard" {
                continue;
            }
            tried += 1;
            let file = parse(&text, &skips)
                .unwrap_or_else(|error| panic!("{} = {value}: {error}", info.name));
            let ignored: Vec<&str> = file.ignored.iter().map(|option| &*option.name).collect();
            assert_eq!(ignored, [info.name], "{value}");
            let error = parse(&text, &refuses).map(|_| ()).unwrap_err();
            assert_eq!(
                error.kind(),
                ErrorKind::NotSupported,
                "{}: {error}",
                info.name
            );
            assert!(error.message().contains("Unheard"), "{error}");
        }
    }
    assert!(tried > 30, "{tried}");
}

#[test]
fn a_known_object_stays_where_a_part_of_it_is_unknown_to_this_release() {
    let mut skips = ConfigOptions::new();
    skips.set_ignore_unknown_options(true);
    let text = "[Version]\n  rocksdb_version=99.0.0\n[DBOptions]\n[CFOptions \"default\"]\n  \
                merge_operator={id=StringAppendOperator;fresh=1;delimiter=;;}\n  \
                prefix_extractor={id=rocksdb.FixedPrefix.4;fresh=1;}\n  \
                comparator={id=rocksdb.ReverseBytewiseComparator;fresh=1;}\n"
        .replace("delimiter=;;", "delimiter=+;");
    let file = parse(&text, &skips).unwrap();
    let family = &file.families[0].1;
    assert_eq!(
        family.get_comparator().name(),
        "rocksdb.ReverseBytewiseComparator"
    );
    let names: Vec<String> = [
        family
            .get_merge_operator()
            .map(|found| found.name().to_owned()),
        family
            .get_prefix_extractor()
            .map(|found| found.name().to_owned()),
    ]
    .into_iter()
    .flatten()
    .collect();
    assert_eq!(names, ["StringAppendOperator", "rocksdb.FixedPrefix.4"]);
    assert_eq!(file.ignored.len(), 3);
}

#[test]
fn an_older_name_whose_value_asks_for_something_is_refused_by_its_new_one_and_noted_in_files() {
    for (name, value, default, successor) in [
        (
            "bottommost_temperature",
            "kCold",
            "kUnknown",
            "last_level_temperature",
        ),
        ("concurrent_prepare", "true", "false", "two_write_queues"),
        (
            "use_direct_writes",
            "true",
            "false",
            "use_direct_io_for_flush_and_compaction",
        ),
    ] {
        let apply = |value: &str| {
            Options::new()
                .apply_str(&format!("{name}={value}"), &ConfigOptions::new())
                .map(|_| ())
        };
        apply(default).unwrap();
        let error = apply(value).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.message().contains(name), "{error}");
        assert!(error.message().contains(successor), "{error}");
        let of_family = name == "bottommost_temperature";
        for (value, noted) in [(default, 0), (value, 1)] {
            let statement = format!("{name}={value}\n");
            let (db, family) = match of_family {
                true => ("", statement.as_str()),
                false => (statement.as_str(), ""),
            };
            let file = read(&format!("[DBOptions]\n{db}{CF}{family}")).unwrap();
            assert_eq!(file.ignored.len(), noted, "{name}={value}");
            if let Some(option) = file.ignored.first() {
                assert!(option.reason.contains(successor), "{option}");
            }
        }
    }
}
