//! Prints OPTIONS files, and reads back what was printed.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use koeldb_base::{Error, Result};

use super::ROCKSDB_VERSION;
use super::parse::{DEFAULT_FAMILY, Parser};
use crate::options::apply::Target as _;
use crate::options::column_family::ColumnFamilyOptions;
use crate::options::config::{ConfigOptions, IgnoredOption};
use crate::options::db::DbOptions;
use crate::options::grammar;
use crate::options::object::OwnObjects;
use crate::options::registry::{self, Style};

/// Options that are names, and are not written when empty.
const NAMES: [&str; 4] = [
    "db_host_id",
    "comparator",
    "merge_operator",
    "prefix_extractor",
];

/// Returns the sections of an OPTIONS file that precede those of column families.
fn print_database(db: &DbOptions) -> String {
    let [major, minor, patch] = ROCKSDB_VERSION;
    let mut out = format!(
        "# This is a RocksDB option file.\n\
         #\n\
         # Written by KoelDB. Of options that RocksDB 7.8 does not know, those with their default are left out.\n\
         #\n\
         \n\
         [Version]\n  \
           rocksdb_version={major}.{minor}.{patch}\n  \
           options_file_version=1.1\n  \
           koeldb_version={}\n\
         \n\
         [DBOptions]\n",
        env!("CARGO_PKG_VERSION")
    );
    print_statements(&mut out, registry::written(db, Style::Portable));
    out
}

/// The text of a column family's sections in an OPTIONS file, without its name. Clones share it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct FamilyText {
    statements: Arc<str>,
    table_section: &'static str,
    table_statements: Arc<str>,
}

impl FamilyText {
    /// Prints the options of a column family and of its table format, as OPTIONS files have them.
    fn of(family: &ColumnFamilyOptions) -> Self {
        let statements = |written| {
            let mut out = String::new();
            print_statements(&mut out, written);
            out.into()
        };
        let table = &family.table_factory;
        FamilyText {
            statements: statements(registry::written(family, Style::Portable)),
            table_section: table.section(),
            table_statements: statements(table.written(Style::Portable)),
        }
    }

    /// Appends the sections of the column family `name`.
    pub(crate) fn append_to(&self, out: &mut String, name: &str) {
        let name = grammar::escape(name);
        header(out, ColumnFamilyOptions::SECTION, &name);
        out.push_str(&self.statements);
        header(out, self.table_section, &name);
        out.push_str(&self.table_statements);
    }
}

/// Returns the text of a file with these sanitized options; the default column family comes first.
#[cfg(test)]
pub(crate) fn print<'a>(
    db: &DbOptions,
    families: impl IntoIterator<Item = (&'a str, &'a ColumnFamilyOptions)>,
) -> String {
    let mut out = print_database(db);
    for (name, family) in families {
        FamilyText::of(family).append_to(&mut out, name);
    }
    out
}

/// Appends the header of a section with a column family's name.
fn header(out: &mut String, section: &str, name: &str) {
    for part in ["\n[", section, " \"", name, "\"]\n"] {
        out.push_str(part);
    }
}

/// Appends `name=value` lines; an option without a text is left out.
fn print_statements(out: &mut String, statements: Vec<(&'static str, String)>) {
    for (name, text) in statements {
        if !text.is_empty() {
            out.push_str("  ");
            out.push_str(name);
            out.push('=');
            out.push_str(&text);
            out.push('\n');
        }
    }
}

/// Returns the settings to read back a file just written: unsupported options pass, paths apply.
fn settings_of_checks() -> ConfigOptions {
    let mut how = ConfigOptions::new();
    how.set_ignore_unsupported_options(true)
        .set_apply_paths(true);
    how
}

/// Adds to an error that it concerns the OPTIONS file just written.
fn just_written(error: Error) -> Error {
    error.context("the OPTIONS file just written")
}

/// The texts that this process has most recently read back and verified, the newest first.
///
/// Reading back takes longer than the rest of the open of a small database, and most databases of a
/// process have the same options. A text leaves out only defaults, so it has one meaning.
static CHECKED: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

/// The maximum number of texts in [`CHECKED`].
const CHECKED_MAX: usize = 32;

/// Runs `check`, unless this process has checked the same text.
fn check_once(text: &str, check: impl FnOnce() -> Result<()>) -> Result<()> {
    let list = || CHECKED.lock().unwrap_or_else(PoisonError::into_inner);
    if list().iter().any(|known| known == text) {
        return Ok(());
    }
    check()?;
    let mut list = list();
    list.truncate(CHECKED_MAX.saturating_sub(1));
    list.push_front(text.to_owned());
    Ok(())
}

/// Prints the options of the database, reads the text back, and compares the results.
///
/// Objects without a text form are not compared.
///
/// # Errors
/// `Corruption` with the first option whose value differs.
pub(crate) fn checked_database(db: &DbOptions) -> Result<String> {
    let text = print_database(db);
    check_once(&text, || {
        let how = settings_of_checks();
        let mut parser = Parser::new(&how);
        parser.lines(&text).map_err(just_written)?;
        compare(
            DbOptions::SECTION,
            &registry::written(db, Style::Full),
            &registry::written(&parser.file.db, Style::Full),
            &parser.reading.ignored,
        )
    })?;
    Ok(text)
}

/// Prints the sections of a column family, reads the text back, and compares the results.
///
/// Objects are compared by their texts: those of the user by their names.
///
/// # Errors
/// `Corruption` with the first option whose value differs.
pub(crate) fn checked_family(name: &str, family: &ColumnFamilyOptions) -> Result<FamilyText> {
    let sections = FamilyText::of(family);
    let mut text = String::new();
    sections.append_to(&mut text, name);
    check_once(&text, || check_family(name, family, &text))?;
    Ok(sections)
}

/// Parses the sections of a column family, and compares its options with those printed.
fn check_family(name: &str, family: &ColumnFamilyOptions, text: &str) -> Result<()> {
    let how = settings_of_checks();
    let mut parser = Parser::new(&how);
    parser.reading.own = OwnObjects::of(family);
    if name != DEFAULT_FAMILY {
        // The first family of a file is the default one.
        parser.family_header(DEFAULT_FAMILY.to_owned())?;
    }
    parser.lines(text).map_err(just_written)?;
    let Some((read_name, read)) = parser.file.families.last() else {
        return Err(Error::corruption(
            "the OPTIONS file just written lacks a column family",
        ));
    };
    if read_name != name {
        return Err(Error::corruption(format!(
            "the OPTIONS file just written calls a column family \"{read_name}\" instead of \"{name}\""
        )));
    }
    compare(
        &format!("{} \"{name}\"", ColumnFamilyOptions::SECTION),
        &registry::written(family, Style::Full),
        &registry::written(read, Style::Full),
        &parser.reading.ignored,
    )
}

/// Prints the options, each part with its check.
///
/// # Errors
/// See [`checked_database`] and [`checked_family`].
#[cfg(test)]
pub(crate) fn print_checked(
    db: &DbOptions,
    families: &[(&str, &ColumnFamilyOptions)],
) -> Result<String> {
    let mut text = checked_database(db)?;
    for (name, family) in families {
        checked_family(name, family)?.append_to(&mut text, name);
    }
    Ok(text)
}

/// Compares printed texts with those read back; skips ignored options and empty object names.
fn compare(
    section: &str,
    meant: &[(&'static str, String)],
    said: &[(&'static str, String)],
    ignored: &[IgnoredOption],
) -> Result<()> {
    for ((name, meant), (_, said)) in meant.iter().zip(said) {
        let is_ignored = ignored
            .iter()
            .any(|option| option.section == section && option.name == *name);
        let is_empty_name = meant.is_empty() && NAMES.contains(name);
        if meant != said && !is_ignored && !is_empty_name {
            return Err(Error::corruption(format!(
                "[{section}] {name}={meant} reads back as {said}: the value has no text in OPTIONS files"
            )));
        }
    }
    Ok(())
}
