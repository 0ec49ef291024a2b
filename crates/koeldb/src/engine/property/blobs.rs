//! The properties of blob files that RocksDB does not have.

use std::fmt::Write as _;

use koeldb_lsm::Version;
use koeldb_lsm::pick::dead_bytes;

use crate::options::dead_bytes_rule;
use crate::state::column_family_data::ColumnFamilyData;

/// Returns the value of the property `koeldb.blob.<short>`; `None` if there is none.
pub(super) fn text(family: &ColumnFamilyData, short: &str) -> Option<String> {
    match short {
        "files" => Some(files(family, &family.version())),
        "space.amplification" => {
            let amplification = family.version().blob_space().amplification();
            Some(format!("{amplification:.6}"))
        }
        "hidden.bytes" => Some(dead_bytes::hidden_bytes(&family.version()).to_string()),
        _ => None,
    }
}

/// Returns a line for each blob file: its number, and its records, bytes, garbage and references.
///
/// The references are those that tables list. They are all there are if the line ends with `exact`;
/// with `in doubt`, some tables list none.
fn files(family: &ColumnFamilyData, version: &Version) -> String {
    let space = version.blob_space();
    let state = match space.is_exact() {
        true => "exact",
        false => "in doubt",
    };
    let options = family.options();
    let has_begun = family.blob_collection.has_begun();
    let rule = dead_bytes_rule(&options).filter(|rule| rule.is_due(version, has_begun));
    let emptied = rule.map(|rule| rule.emptied(&space)).unwrap_or_default();
    let mut text = String::new();
    for (number, file) in &version.blob_files {
        let listed = space.files.get(number).copied().unwrap_or_default();
        let emptied = match emptied.contains(number) {
            true => ", emptied",
            false => "",
        };
        let _ = writeln!(
            text,
            "{number:06}: records {} bytes {} garbage {} bytes {} references {} bytes {} tables {}{emptied}, {state}",
            file.count,
            file.bytes,
            file.garbage_count,
            file.garbage_bytes,
            listed.listed,
            listed.listed_bytes,
            listed.tables,
        );
    }
    text
}
