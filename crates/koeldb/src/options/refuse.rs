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

/// The errors that option checks have collected, to be returned as one.
#[derive(Default)]
pub(crate) struct Refusals {
    messages: Vec<String>,
    has_invalid: bool,
}

impl Refusals {
    /// Joins the collected errors into one: `InvalidArgument` if any is, else `NotSupported`.
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

    /// Adds an error for each rule that the options of a database break.
    pub(crate) fn check_db(&mut self, db: &DbOptions) {
        self.check(database::ALWAYS, db, &(), "");
    }

    /// Adds an error for each rule for pessimistic transactions that the options break.
    pub(crate) fn check_transactions(&mut self, db: &DbOptions) {
        self.check(database::WITH_TRANSACTIONS, db, &(), "");
    }

    /// Adds an error for each rule that the options of a column family or its tables break.
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

    /// Adds a message for each of `rules` that the options break.
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
