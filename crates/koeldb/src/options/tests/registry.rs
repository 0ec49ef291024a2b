use std::collections::{BTreeMap, BTreeSet};

use crate::options::registry::Effect;
use crate::options::{Options, TableFormat};

/// Section, name, default as written by RocksDB 11.9 (KoelDB's own if it differs), and mutability.
const DEFAULTS: &str = include_str!("defaults.tsv");

#[test]
fn every_option_of_rocksdb_is_known_with_its_default() {
    let registry: BTreeMap<(&str, &str), _> = Options::registry()
        .iter()
        .map(|info| ((info.section, info.name), info))
        .collect();
    let mut listed = BTreeSet::new();
    for line in DEFAULTS.lines().skip(1) {
        let columns: Vec<&str> = line.split('\t').collect();
        let [section, name, default, mutability] = columns[..] else {
            panic!("{line}");
        };
        listed.insert((section, name));
        let is_lz4 = default == "kLZ4Compression";
        if default == "alias" || (is_lz4 && !cfg!(feature = "lz4")) {
            continue;
        }
        let info = registry
            .get(&(section, name))
            .unwrap_or_else(|| panic!("{section} {name} is missing"));
        assert_eq!(info.mutable, mutability == "mutable", "{section} {name}");
        match default {
            "removed" => assert_eq!(info.effect, Effect::Removed, "{section} {name}"),
            "unwritten" => assert_eq!(info.default, "", "{section} {name}"),
            "struct" => assert!(info.default.starts_with('{'), "{section} {name}"),
            _ => assert_eq!(info.default, default, "{section} {name}"),
        }
        assert!(!info.documentation.is_empty(), "{section} {name}");
    }
    for (key, info) in &registry {
        let ours = info.since.starts_with("KoelDB");
        assert_ne!(listed.contains(key), ours, "{key:?} is not RocksDB's");
    }
}

#[test]
fn names_are_unique_within_their_section() {
    let mut names = BTreeSet::new();
    for info in Options::registry() {
        assert!(names.insert((info.section, info.name)), "{info:?}");
    }
}

#[test]
fn setters_and_getters_speak_of_the_same_field() {
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_max_open_files(300)
        .set_write_buffer_size(1 << 20)
        .set_num_levels(5)
        .set_ttl(std::time::Duration::from_secs(90))
        .set_wal_dir("/wal");
    assert!(options.get_create_if_missing());
    assert_eq!(options.get_max_open_files(), Some(300));
    assert_eq!(options.cf_options().get_write_buffer_size(), 1 << 20);
    assert_eq!(options.get_num_levels(), 5);
    assert_eq!(options.get_ttl().as_secs(), 90);
    assert_eq!(options.get_wal_dir().to_str(), Some("/wal"));
    assert_eq!(options.set_max_open_files(None).get_max_open_files(), None);
    assert!(matches!(
        options.get_table_format(),
        TableFormat::BlockBased(_)
    ));
}

#[test]
fn debug_output_names_options_by_their_texts() {
    let text = format!("{:?}", Options::new());
    assert!(text.contains("write_buffer_size: 67108864"), "{text}");
    assert!(
        text.contains("comparator: leveldb.BytewiseComparator"),
        "{text}"
    );
}
