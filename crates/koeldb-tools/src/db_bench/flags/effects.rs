//! Checks that every flag has its effect, is announced, or is refused.

use std::path::Path;

use koeldb::{ConfigOptions, Options};

use super::*;
use crate::db_bench::options::option_text;

/// Texts that flags of other types than numbers and booleans may have, beside the default; and
/// numbers where not every other one is valid.
const TEXTS: &[(&str, &str)] = &[
    ("backup_dir", "/b"),
    ("benchmarks", "fillseq"),
    ("blob_compression_type", "zstd"),
    ("cache_type", "lru_cache"),
    ("cache_uri", "lru"),
    ("checksum_type", "1"),
    ("compare", "/c"),
    ("compare_chart", "/c"),
    ("compression_manager", "mixed"),
    ("compression_type", "zstd"),
    ("db", "/d"),
    ("env_uri", "Default"),
    ("expire_style", "delete"),
    ("format_version", "5"),
    ("fs_uri", "posix://"),
    ("index_block_search_type", "auto_search"),
    ("index_decoding", "always"),
    ("index_shortening_mode", "1"),
    ("json", "/j"),
    ("max_bytes_for_level_multiplier_additional", "1,2,3,4,5,6,7"),
    ("memtablerep", "vector"),
    ("merge_operator", "put"),
    ("options_file", "/o"),
    ("report", "/r"),
    ("report_file", "/r"),
    ("restore_dir", "/r"),
    ("secondary_path", "/s"),
    ("statistics_string", "/s"),
    ("truth_db", "/t"),
    ("universal_stop_style", "0"),
    ("value_size_distribution_type", "uniform"),
    ("wal_compression", "zstd"),
    ("wal_dir", "/w"),
];

/// Flags that set an option only together with others.
const TOGETHER: &[(&str, &[&str])] = &[
    (
        "blob_cache_numshardbits",
        &["--use_blob_cache", "--use_shared_block_and_blob_cache=0"],
    ),
    (
        "blob_cache_size",
        &["--use_blob_cache", "--use_shared_block_and_blob_cache=0"],
    ),
    ("cache_high_pri_pool_ratio", &["--cache_type=lru_cache"]),
    ("cache_low_pri_pool_ratio", &["--cache_type=lru_cache"]),
    ("cache_numshardbits", &["--cache_type=lru_cache"]),
    ("cuckoo_hash_ratio", &["--use_cuckoo_table", "--mmap_read"]),
    (
        "hash_bucket_count",
        &["--memtablerep=prefix_hash", "--prefix_size=8"],
    ),
    (
        "identity_as_first_hash",
        &["--use_cuckoo_table", "--mmap_read"],
    ),
    ("use_cuckoo_table", &["--mmap_read"]),
    ("use_hash_search", &["--prefix_size=8"]),
    ("use_ribbon_filter", &["--bloom_bits=10"]),
    ("use_shared_block_and_blob_cache", &["--use_blob_cache"]),
    ("use_uint64_comparator", &["--key_size=8"]),
];

/// Returns a valid text of a flag other than its default.
fn another_value(info: &FlagInfo) -> String {
    if let Some((_, text)) = TEXTS.iter().find(|(name, _)| *name == info.name) {
        return (*text).to_owned();
    }
    let default = Flags::default().show(info.name);
    match info.flag_type {
        FlagType::Bool => (default != "true").to_string(),
        FlagType::F64 => (default.parse::<f64>().expect("a number") / 2.0 + 0.25).to_string(),
        FlagType::Text => panic!("no other text of {} is known", info.name),
        _ if default.starts_with(&u64::MAX.to_string()[..10]) => "5".to_owned(),
        _ => (default.parse::<i64>().expect("a number") + 1).to_string(),
    }
}

/// Parses a command line.
fn parsed(words: &[&str]) -> Result<CommandLine, Vec<String>> {
    let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
    parse(&words, &|_| Err(std::io::ErrorKind::NotFound.into()))
}

/// The engine's options that flags make.
fn options(flags: &Flags) -> Result<Options, String> {
    let mut options = Options::new();
    let text = option_text(flags)?.text;
    let applied = options.apply_str(&text, &ConfigOptions::new());
    applied.map_err(|error| error.to_string())?;
    Ok(options)
}

/// The effect of a flag whose value is not its default.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    /// It changes options that the engine reads, or is read by this program itself.
    Honoured,
    /// Standard error has a line about it.
    Announced,
    /// The run ends before it begins.
    Refused,
    /// Nothing happens.
    Lost,
}

/// Returns the fate of a flag with this value; `text` has the sources that read flags.
fn fate(name: &str, value: &str, text: &str) -> Fate {
    let word = format!("--{name}={value}");
    let together = TOGETHER.iter().find(|(flag, _)| *flag == name);
    let others = together.map_or(&[][..], |(_, others)| others);
    let base = parsed(others).expect("valid flags").flags;
    let line = match parsed(&[others, &[&word]].concat()) {
        Ok(line) => line,
        Err(_) => return Fate::Refused,
    };
    if line
        .notices
        .iter()
        .any(|notice| notice.contains(&format!("--{name} ")))
    {
        return Fate::Announced;
    }
    let before = options(&base).expect("valid options");
    let Ok(after) = options(&line.flags) else {
        return Fate::Refused;
    };
    let is_changed = before.to_options_string() != after.to_options_string();
    match is_changed {
        true if before.settings_without_effect() != after.settings_without_effect() => {
            Fate::Announced
        }
        true => Fate::Honoured,
        false if is_read(name, text) => Fate::Honoured,
        false => Fate::Lost,
    }
}

/// Whether the sources read a flag.
fn is_read(name: &str, text: &str) -> bool {
    let field = format!(".{name}");
    let mut places = text.match_indices(&field);
    places.any(|(at, _)| {
        let rest = &text[at + field.len()..];
        !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_')
    })
}

/// Appends the sources of this program, without the table of flags and its parser.
fn sources(directory: &Path, out: &mut String) {
    for entry in std::fs::read_dir(directory).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() && !path.ends_with("flags") {
            sources(&path, out);
        } else if path.extension().is_some_and(|end| end == "rs")
            && !path.ends_with("db_bench/flags.rs")
        {
            out.push_str(&std::fs::read_to_string(&path).expect("a source"));
        }
    }
}

/// The sources that read flags.
fn all_sources() -> String {
    let mut text = String::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    sources(&root.join("src/db_bench"), &mut text);
    text
}

#[test]
fn every_flag_of_rocksdb_is_in_one_list() {
    let flags = include_str!("../rocksdb_flags.txt");
    assert!(flags.lines().count() >= 418);
    for name in flags.lines() {
        let in_table = TABLE.iter().any(|info| info.name == name);
        let is_removed = REMOVED.iter().any(|removed| removed.0 == name);
        let is_refused = unplanned().any(|unplanned| unplanned == name);
        let places = [in_table, is_removed, is_refused];
        assert_eq!(places.iter().filter(|&&place| place).count(), 1, "{name}");
    }
}

#[test]
fn every_flag_of_rocksdb_is_honoured_announced_or_refused() {
    let text = all_sources();
    let mut bad = Vec::new();
    for name in include_str!("../rocksdb_flags.txt").lines() {
        let Some(info) = TABLE.iter().find(|info| info.name == name) else {
            let fate = fate(name, "1", &text);
            let expected = match REMOVED.iter().any(|removed| removed.0 == name) {
                true => Fate::Announced,
                false => Fate::Refused,
            };
            assert_eq!(fate, expected, "{name}");
            continue;
        };
        let value = another_value(info);
        let fate = fate(name, &value, &text);
        let is_right = match info.effect {
            Effect::Ignored(_) => fate == Fate::Announced,
            Effect::Refused(_) => fate == Fate::Refused,
            Effect::Bench | Effect::Custom => fate == Fate::Honoured,
            Effect::Sets(..) if info.without_effect().is_some() => fate == Fate::Announced,
            Effect::Sets(..) if info.effect_of_option() == Some(koeldb::Effect::Refused) => {
                fate == Fate::Refused
            }
            Effect::Sets(..) => fate == Fate::Honoured,
        };
        if !is_right {
            bad.push(format!("--{name}={value}: {fate:?}, {:?}", info.effect));
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

#[test]
fn flags_without_effect_are_announced_at_their_default_and_at_that_of_the_engine() {
    for info in TABLE {
        let Some(why) = info.without_effect() else {
            continue;
        };
        let mut values = vec![Flags::default().show(info.name)];
        if let Effect::Sets(scope, option) = info.effect {
            let (section, _) = scope.section();
            let mut options = Options::registry().iter();
            let engine = options.find(|of| of.section == section && of.name == option);
            values.push(engine.expect("an option").default.clone());
        }
        for value in values {
            let line = parsed(&[&format!("--{}={value}", info.name)]).expect("a valid flag");
            let notice = format!("Note: --{} does nothing: {why}", info.name);
            assert_eq!(line.notices, [notice], "{value}");
        }
    }
}

#[test]
fn flags_that_count_as_honoured_are_read() {
    let text = all_sources();
    let honoured = TABLE
        .iter()
        .filter(|info| matches!(info.effect, Effect::Bench | Effect::Custom));
    let unread: Vec<_> = honoured.filter(|info| !is_read(info.name, &text)).collect();
    assert!(unread.is_empty(), "nothing reads {unread:?}");
}
