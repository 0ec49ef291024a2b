//! Lines of LOG in which RocksDB writes options, for programs that read them.
//!
//! Those of block-based tables are the lines of one message, which `  name: value` continue, with
//! numbers for booleans and enums.

use koeldb_base::codec::Compression;

use super::block_based::BlockBasedOptions;
use super::registry::{self, Style};
use super::{ColumnFamilyOptions, TablePropertiesCollector, grammar};

/// The width in which names of options are aligned.
pub(crate) const NAME_WIDTH: usize = 46;

/// The number of column families whose options are written, as in RocksDB.
pub(crate) const FAMILIES_MAX: usize = 10;

/// Returns the LOG lines that show the options of the first column families.
pub(crate) fn of_families<'a>(
    families: impl ExactSizeIterator<Item = (&'a str, &'a ColumnFamilyOptions)>,
) -> Vec<String> {
    let left_out = families.len().saturating_sub(FAMILIES_MAX);
    let first = families.take(FAMILIES_MAX);
    let mut lines: Vec<String> = first
        .flat_map(|(name, options)| of_family(name, options))
        .collect();
    if left_out > 0 {
        lines.push(format!(
            "the options of {left_out} more column families are in the OPTIONS file only"
        ));
    }
    lines
}

/// Returns the LOG lines that show the options of the column family `name`.
pub(crate) fn of_family(name: &str, options: &ColumnFamilyOptions) -> Vec<String> {
    let mut lines = vec![format!(
        "--------------- Options for column family [{name}]:"
    )];
    for (name, text) in options.texts() {
        match options.table_factory.block_based() {
            Some(tables) if name == "table_factory" => lines.push(of_tables(tables)),
            _ if name == "table_properties_collectors" => {
                let collectors = options.table_properties_collectors.iter().map(of_collector);
                push_option(&mut lines, name, &collectors.collect::<String>());
            }
            _ => push_option(&mut lines, name, &text),
        }
    }
    lines
}

/// Returns the LOG lines that show the codecs and the allocator of this build.
pub(crate) fn of_build() -> Vec<String> {
    let mut lines = vec!["Compression algorithms supported:".to_owned()];
    for codec in Compression::ALL {
        if codec != Compression::None {
            let available = u8::from(codec.is_available());
            lines.push(format!("  {} supported: {available}", codec.option_name()));
        }
    }
    lines.push("Jemalloc supported: 0".to_owned());
    lines
}

/// Returns the text of a table properties collector factory, as RocksDB prints it in LOG.
fn of_collector(collector: &TablePropertiesCollector) -> String {
    match collector {
        TablePropertiesCollector::CompactOnDeletion(collector) => format!(
            "CompactOnDeletionCollector (Sliding window size = {} Deletion trigger = {} Deletion ratio = {});",
            collector.window_size, collector.deletion_trigger, collector.deletion_ratio
        ),
        TablePropertiesCollector::CompactForTiering(_) => "CompactForTieringCollector;".to_owned(),
    }
}

/// Appends the LOG lines of an option; a struct has one line per member.
pub(crate) fn push_option(lines: &mut Vec<String>, name: &str, text: &str) {
    let members = match text.starts_with('{') {
        true => grammar::pairs(text).unwrap_or_default(),
        false => Vec::new(),
    };
    for (member, value) in &members {
        push_option(lines, &format!("{name}.{member}"), value);
    }
    if members.is_empty() {
        let value = match text {
            "false" => "0",
            "true" => "1",
            "kDisableCompressionOption" => "Disabled",
            text => match Compression::from_option_name(text) {
                Some(codec) => codec.name(),
                None => text,
            },
        };
        let blanks = NAME_WIDTH.saturating_sub("Options.".len() + name.len());
        lines.push([&" ".repeat(blanks), "Options.", name, ": ", value].concat());
    }
}

/// Enum options, and their texts in the order of RocksDB's numbers.
const NUMBERED: [(&str, &[&str]); 4] = [
    (
        "index_type",
        &[
            "kBinarySearch",
            "kHashSearch",
            "kTwoLevelIndexSearch",
            "kBinarySearchWithFirstKey",
        ],
    ),
    (
        "data_block_index_type",
        &["kDataBlockBinarySearch", "kDataBlockBinaryAndHash"],
    ),
    (
        "index_shortening",
        &[
            "kNoShortening",
            "kShortenSeparators",
            "kShortenSeparatorsAndSuccessor",
        ],
    ),
    (
        "checksum",
        &["kNoChecksum", "kCRC32c", "kxxHash", "kxxHash64", "kXXH3"],
    ),
];

/// Returns the LOG message that shows the block-based table options of a column family.
fn of_tables(options: &BlockBasedOptions) -> String {
    let name = "Options.table_factory";
    let mut lines = vec![format!(
        "{name:>NAME_WIDTH$}: BlockBasedTable, table_factory options:"
    )];
    for (name, text) in registry::written(options, Style::Full) {
        let value = match text.as_str() {
            "false" => "0".to_owned(),
            "true" => "1".to_owned(),
            text => number(name, text).unwrap_or_else(|| text.to_owned()),
        };
        lines.push(format!("  {name}: {value}"));
    }
    if let Some(cache) = &options.block_cache {
        lines.push("  block_cache_options:".to_owned());
        lines.push(format!("    capacity : {}", cache.get_capacity()));
    }
    lines.join("\n")
}

/// Returns the number by which RocksDB's LOG shows an enum or fraction; `None` for other options.
fn number(name: &str, text: &str) -> Option<String> {
    if let Some((_, texts)) = NUMBERED.iter().find(|(known, _)| *known == name) {
        let at = texts.iter().position(|known| *known == text)?;
        return Some(at.to_string());
    }
    if text.contains('.') {
        return Some(format!("{:.6}", text.parse::<f64>().ok()?));
    }
    None
}
