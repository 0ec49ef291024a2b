//! Changes of mutable options of an open database: atomic, with the adjustments and checks of an
//! open.

use koeldb_base::{Error, Result};

use super::apply::{Target, borrowed};
use super::column_family::ColumnFamilyOptions;
use super::config::ConfigOptions;
use super::db::DbOptions;
use super::refuse::Refusals;
use super::registry::{Reading, Section};
use super::sanitize::{sanitize_db_mutable, sanitize_family};
use super::table_format::TableFormat;

/// Returns column family options with mutable options changed by `pairs` (RocksDB: `SetOptions`).
///
/// Table options are changed by `block_based_table_factory={…}` or `table_factory.name`; they apply
/// to files created or opened afterwards.
///
/// # Errors
/// If a name is unknown or immutable, a value is invalid for its option, or open would reject the
/// result.
pub(crate) fn changed_family(
    name: &str,
    current: &ColumnFamilyOptions,
    db: &DbOptions,
    pairs: impl IntoIterator<Item = (impl AsRef<str>, impl AsRef<str>)>,
) -> Result<ColumnFamilyOptions> {
    let mut options = changed(current, pairs)?;
    check_prefix_extractor(current, &options)?;
    sanitize_family(&mut options, db, false);
    let mut refusals = Refusals::default();
    refusals.check_family(name, &options, db);
    refusals.into_result()?;
    Ok(options)
}

/// Returns an error if the prefix extractor of a column family with plain tables changes.
fn check_prefix_extractor(
    current: &ColumnFamilyOptions,
    changed: &ColumnFamilyOptions,
) -> Result<()> {
    let name = |options: &ColumnFamilyOptions| {
        let extractor = options.prefix_extractor.as_ref();
        extractor
            .map_or("nullptr", |extractor| extractor.name())
            .to_owned()
    };
    let (old, new) = (name(current), name(changed));
    if matches!(current.table_factory, TableFormat::Plain(_)) && old != new {
        return Err(Error::invalid_argument(format!(
            "Option not changeable: prefix_extractor={new}: the plain tables of the family were written with {old}"
        )));
    }
    Ok(())
}

/// Returns database options with mutable options changed by `pairs` (RocksDB: `SetDBOptions`).
///
/// # Errors
/// See [`changed_family`].
pub(crate) fn changed_db(
    current: &DbOptions,
    pairs: impl IntoIterator<Item = (impl AsRef<str>, impl AsRef<str>)>,
) -> Result<DbOptions> {
    let mut options = changed(current, pairs)?;
    sanitize_db_mutable(&mut options);
    let mut refusals = Refusals::default();
    refusals.check_db(&options);
    refusals.into_result()?;
    Ok(options)
}

/// Returns a copy of options with the mutable options in `pairs` changed.
fn changed<T: Target + Section>(
    current: &T,
    pairs: impl IntoIterator<Item = (impl AsRef<str>, impl AsRef<str>)>,
) -> Result<T> {
    let pairs: Vec<_> = pairs.into_iter().collect();
    if pairs.is_empty() {
        return Err(Error::invalid_argument(
            "no option given to change; give at least one name and value",
        ));
    }
    let config = ConfigOptions::new();
    let mut reading = Reading::new(&config);
    reading.mutable_only = true;
    let mut options = current.clone();
    for (name, value) in borrowed(&pairs) {
        options.set(name, value, &mut reading)?;
    }
    Ok(options)
}
