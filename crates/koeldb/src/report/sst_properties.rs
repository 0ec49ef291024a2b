//! The properties of a table file.

use koeldb_base::Result;
use koeldb_table::properties::TableProperties;

/// Properties of a table file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SstFileProperties {
    /// The number of entries, including range tombstones.
    pub num_entries: u64,
    /// The number of deletions, including range tombstones.
    pub num_deletions: u64,
    /// The name of the column family for which the table was written; empty if it is not recorded.
    pub column_family_name: String,
    /// The name of the comparator; empty if it is not recorded.
    pub comparator: String,
    /// The id of the database that wrote the table; empty if it is not recorded.
    pub db_id: String,
    /// The session id of the database that wrote the table; empty if it is not recorded.
    pub db_session_id: String,
    /// The version of external files; `None` for a table that a database wrote.
    pub external_version: Option<u32>,
}

impl SstFileProperties {
    /// Parses table properties; returns an error if one is malformed.
    pub(crate) fn of(properties: &TableProperties) -> Result<Self> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(SstFileProperties {
            num_entries: properties.entry_count,
            num_deletions: properties.deletion_count,
            column_family_name: text(&properties.column_family_name),
            comparator: text(&properties.comparator_name),
            db_id: text(&properties.db_id),
            db_session_id: text(&properties.session_id),
            external_version: properties.external_version()?,
        })
    }
}
