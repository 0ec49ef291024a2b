//! Replaces values of OPTIONS files that an open would reject although RocksDB wrote them.
//!
//! RocksDB checks the options of an open, but not all changes by `SetOptions` while the database
//! runs; it then writes the values to the OPTIONS file. Such a directory must open, so each of
//! these values is replaced by the nearest legal one of its [rule](super::rules) when the file is
//! loaded. The replaced values are in `LoadedOptions::mended`, and the open writes them to LOG. The
//! same value set in code is rejected ([`refuse`](super::refuse)).

use super::column_family::ColumnFamilyOptions;
use super::config::MendedOption;
use super::db::DbOptions;
use super::options_file::ParsedFile;
use super::registry::Section;
use super::rules::tables::TableSurroundings;
use super::rules::{Rule, database, family, tables};
use super::sanitize::{OpenContext, sanitize_block_based, sanitize_db, sanitize_family};
use super::table_format::TableFormat;

/// Replaces values of a parsed OPTIONS file that an open would reject, and records them.
///
/// A value whose rule has no replacement is kept.
pub(crate) fn mend(file: &mut ParsedFile) {
    let ParsedFile {
        db,
        families,
        mended,
        ..
    } = file;
    let mut mender = Mender { mended };
    mender.mend(DbOptions::NAME, database::ALWAYS, db, &(), sanitized_db);
    for (name, cf) in families {
        let adjusted = sanitized_family(cf, db);
        let rules = database::WITH_FAMILY;
        mender.mend(DbOptions::NAME, rules, db, &adjusted, sanitized_db);
        let section = format!("{} \"{name}\"", ColumnFamilyOptions::NAME);
        let around = sanitized_db(db);
        mender.mend(&section, family::RULES, cf, &around, |cf| {
            sanitized_family(cf, &around)
        });
        let section = format!("{} \"{name}\"", cf.table_factory.section());
        let around = TableSurroundings::new(cf, &around);
        match &mut cf.table_factory {
            TableFormat::BlockBased(table) => {
                mender.mend(&section, tables::BLOCK_BASED, table, &around, |table| {
                    let mut table = table.clone();
                    sanitize_block_based(&mut table);
                    table
                });
            }
            TableFormat::Cuckoo(table) => {
                mender.mend(&section, tables::CUCKOO, table, &around, Clone::clone);
            }
            TableFormat::Plain(table) => {
                mender.mend(&section, tables::PLAIN, table, &around, Clone::clone);
            }
        }
    }
}

/// Returns a copy of the database options as an open would sanitize them.
fn sanitized_db(db: &DbOptions) -> DbOptions {
    let mut db = db.clone();
    sanitize_db(&mut db, &OpenContext::default());
    db
}

/// Returns a copy of the column family options as an open would sanitize them.
fn sanitized_family(cf: &ColumnFamilyOptions, db: &DbOptions) -> ColumnFamilyOptions {
    let mut cf = cf.clone();
    sanitize_family(&mut cf, db, false);
    cf
}

/// The replacer of values that break rules, which records each replacement.
struct Mender<'m> {
    mended: &'m mut Vec<MendedOption>,
}

impl Mender<'_> {
    /// Replaces values in a section's `options` that break `rules` even when sanitized.
    fn mend<S, Around>(
        &mut self,
        section: &str,
        rules: &[Rule<S, Around>],
        options: &mut S,
        around: &Around,
        sanitized: impl Fn(&S) -> S,
    ) {
        for rule in rules {
            let adjusted = sanitized(options);
            let Some(mend) = rule.mend.filter(|_| (rule.is_broken)(&adjusted, around)) else {
                continue;
            };
            let value = (rule.value)(options).unwrap_or_default();
            mend(options);
            self.mended.push(MendedOption {
                section: section.to_owned(),
                name: rule.option.to_owned(),
                value,
                used: (rule.value)(options).unwrap_or_default(),
                reason: rule.reason(&adjusted, around),
            });
        }
    }
}
