//! Lines of LOG in which RocksDB writes the options of block-based tables, for programs that read
//! them: `  name: value`, with numbers for booleans and enums.

use super::block_based::BlockBasedOptions;
use super::registry::{self, Style};

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

/// Returns the lines for the block-based table options of one column family.
pub(crate) fn of_tables(options: &BlockBasedOptions) -> Vec<String> {
    let mut lines = vec!["table_factory options:".to_owned()];
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
    lines
}

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
