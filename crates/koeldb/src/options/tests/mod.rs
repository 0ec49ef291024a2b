//! Tests of the options pages, row by row.

mod examples;
mod file;
#[cfg(all(
    feature = "snappy",
    feature = "lz4",
    feature = "zlib",
    feature = "zstd"
))]
mod ldb;
mod registry;
mod sanitize;
mod texts;

use super::column_family::ColumnFamilyOptions;
use super::config::ConfigOptions;
use super::registry::{Section, Style, written};

/// The text of one option; dots reach into structs and the table format.
fn text_of(options: &ColumnFamilyOptions, name: &str) -> Option<String> {
    let of = |pairs: Vec<(&'static str, String)>, name: &str| {
        pairs
            .into_iter()
            .find(|(known, _)| *known == name)
            .map(|(_, text)| text)
    };
    match name.split_once('.') {
        Some(("table_factory", member)) => of(options.table_factory.written(Style::Full), member),
        Some((name, member)) => {
            let text = of(written(options, Style::Full), name)?;
            let pairs = super::grammar::pairs(&text).ok()?;
            let (_, text) = pairs.into_iter().find(|(known, _)| *known == member)?;
            Some(text.to_owned())
        }
        None if name == "table_factory" => Some(options.table_factory.name().to_owned()),
        None => of(written(options, Style::Full), name),
    }
}

/// Defaults with `text` applied.
fn family(text: &str) -> koeldb_base::Result<ColumnFamilyOptions> {
    family_with(text, &ConfigOptions::new())
}

fn family_with(text: &str, how: &ConfigOptions) -> koeldb_base::Result<ColumnFamilyOptions> {
    let mut options = ColumnFamilyOptions::new();
    options.apply_str(text, how)?;
    Ok(options)
}

/// The names and texts of a section.
fn texts<S: Section>(source: &S) -> Vec<(&'static str, String)> {
    written(source, Style::Full)
}
