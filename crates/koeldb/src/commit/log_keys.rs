//! The keys in a log, and how they differ from those that its column families have now.

use std::borrow::Cow;
use std::collections::BTreeMap;

use koeldb_base::timestamp::TIMESTAMP_BYTES;
use koeldb_base::{Error, Result};

use crate::batch::{KeyChange, with_changed_keys};
use crate::state::column_family_data::ColumnFamilyData;

/// How the keys of a column family end, for the replay of logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyEnd {
    /// Keys have no timestamps; those of older logs may have.
    Plain,
    /// Keys have timestamps, also in every log.
    Dated,
    /// Keys have timestamps, but were without them until these were switched on.
    DatedSince,
}

impl KeyEnd {
    /// Returns how the keys of an open column family end.
    pub(crate) fn of(family: &ColumnFamilyData) -> Self {
        match (family.has_timestamps, family.has_undated_tables()) {
            (false, _) => KeyEnd::Plain,
            (true, false) => KeyEnd::Dated,
            (true, true) => KeyEnd::DatedSince,
        }
    }
}

/// The changes of the keys in the logs that are replayed.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogKeys {
    families: BTreeMap<u32, KeyEnd>,
    /// The changes while the log declares `declared` column families with timestamps.
    changes: BTreeMap<u32, KeyChange>,
    declared: Option<usize>,
}

impl LogKeys {
    /// Creates the changes for logs of these column families.
    pub(crate) fn new(families: impl Iterator<Item = (u32, KeyEnd)>) -> Self {
        LogKeys {
            families: families.collect(),
            ..LogKeys::default()
        }
    }

    /// Whether the keys of a column family have timestamps in every log.
    pub(crate) fn are_always_dated(&self, cf: u32) -> bool {
        self.families.get(&cf) == Some(&KeyEnd::Dated)
    }

    /// Begins a log, which has declared nothing yet.
    pub(crate) fn begin_log(&mut self) {
        self.declared = None;
    }

    /// Returns a record of the log with the keys that its column families have now.
    ///
    /// `sizes` are the column families with timestamps that the log has declared, with the sizes of
    /// these. `is_needed` says whether a column family needs the log.
    ///
    /// # Errors
    /// `NotSupported` if keys have timestamps of another size; `Corruption` for a malformed record.
    pub(crate) fn of_now<'r>(
        &mut self,
        record: &'r [u8],
        sizes: &[(u32, u16)],
        is_needed: impl Fn(u32) -> bool,
    ) -> Result<Cow<'r, [u8]>> {
        if self.declared != Some(sizes.len()) {
            self.changes = self.changes_of(sizes, is_needed)?;
            self.declared = Some(sizes.len());
        }
        with_changed_keys(record, &self.changes)
    }

    /// Returns the changes of the keys in a log with these declarations.
    fn changes_of(
        &self,
        sizes: &[(u32, u16)],
        is_needed: impl Fn(u32) -> bool,
    ) -> Result<BTreeMap<u32, KeyChange>> {
        let mut changes = BTreeMap::new();
        for (&cf, end) in self.families.iter().filter(|(cf, _)| is_needed(**cf)) {
            let declared = sizes.iter().find(|(known, _)| *known == cf);
            match declared {
                Some((_, size)) if usize::from(*size) != TIMESTAMP_BYTES => {
                    return Err(Error::not_supported(format!(
                        "keys of column family {cf} in the log end with timestamps of {size} bytes, \
                         which its comparator does not have"
                    )));
                }
                Some(_) if *end == KeyEnd::Plain => {
                    changes.insert(cf, KeyChange::Strip);
                }
                None if *end == KeyEnd::DatedSince => {
                    changes.insert(cf, KeyChange::Pad);
                }
                _ => {}
            }
        }
        Ok(changes)
    }
}
