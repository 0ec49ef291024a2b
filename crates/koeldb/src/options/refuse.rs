//! Rejects settings that break a [rule](super::rules).
//!
//! The errors of all column families are collected into one, so that a configuration can be
//! corrected in one step. The options must be sanitized.

use koeldb_base::{Error, ErrorKind, Result};

use super::column_family::ColumnFamilyOptions;
use super::db::DbOptions;
use super::memtable::MemtableFactory;
use super::rules::tables::TableSurroundings;
use super::rules::{Rule, Verdict, database, family, tables};
use super::table_format::TableFormat;

/// The errors found so far, which become one error.
#[derive(Default)]
pub(crate) struct Refusals {
    messages: Vec<String>,
    has_invalid: bool,
}

impl Refusals {
    /// Joins the messages into one error: `InvalidArgument` if any is, else `NotSupported`.
    pub(crate) fn into_result(self) -> Result<()> {
        if self.messages.is_empty() {
            return Ok(());
        }
        let kind = if self.has_invalid {
            ErrorKind::InvalidArgument
        } else {
            ErrorKind::NotSupported
        };
        Err(Error::with_kind(kind, self.messages.join("; ")))
    }

    /// Checks the options of a database.
    pub(crate) fn check_db(&mut self, db: &DbOptions) {
        self.check(database::ALWAYS, db, &(), "");
    }

    /// Checks the options that only matter to a database that is written.
    pub(crate) fn check_db_writes(&mut self, db: &DbOptions) {
        self.check(database::WRITTEN, db, &(), "");
    }

    /// Checks the options of a database with pessimistic transactions.
    pub(crate) fn check_transactions(&mut self, db: &DbOptions) {
        self.check(database::WITH_TRANSACTIONS, db, &(), "");
    }

    /// Checks the options of a column family and of its tables.
    pub(crate) fn check_family(&mut self, name: &str, cf: &ColumnFamilyOptions, db: &DbOptions) {
        let place = format!(" (column family \"{name}\")");
        self.check(database::WITH_FAMILY, db, cf, &place);
        self.check(family::RULES, cf, db, &place);
        if let MemtableFactory::SortedHash(options) = &cf.memtable_factory {
            self.check(tables::SORTED_HASH, options, &(), &place);
        }
        let around = TableSurroundings::new(cf, db);
        match &cf.table_factory {
            TableFormat::BlockBased(table) => {
                self.check(tables::BLOCK_BASED, table, &around, &place);
            }
            TableFormat::Cuckoo(table) => self.check(tables::CUCKOO, table, &around, &place),
            TableFormat::Plain(table) => self.check(tables::PLAIN, table, &around, &place),
        }
    }

    /// Checks options against rules, and adds a message for each broken rule.
    fn check<S, Around>(
        &mut self,
        rules: &[Rule<S, Around>],
        options: &S,
        around: &Around,
        place: &str,
    ) {
        for rule in rules
            .iter()
            .filter(|rule| (rule.is_broken)(options, around))
        {
            self.has_invalid |= rule.verdict == Verdict::Invalid;
            let (option, value) = (rule.option, rule.shown(options));
            let reason = rule.reason(options, around);
            self.messages
                .push(format!("{option}={value}{place}: {reason}"));
        }
    }
}
