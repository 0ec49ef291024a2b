//! Compaction filters: user code that removes or changes values during compaction.

use koeldb_base::entity::Columns;

/// The decision of a compaction filter on a value: keep, remove or change it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// The value stays.
    Keep,
    /// The key is deleted.
    Remove,
    /// The value is replaced, also an entity by a plain value.
    Change(Vec<u8>),
    /// The value is replaced by a wide-column entity with these columns: names and values.
    ChangeEntity(Vec<(Vec<u8>, Vec<u8>)>),
}

/// A user-defined filter that removes or changes values in one compaction.
///
/// One thread uses it, under no lock.
pub trait CompactionFilter: Send {
    /// Decides whether the newest value of `key` is kept, removed or changed.
    ///
    /// `level` is the uppermost input level of the compaction.
    ///
    /// The context of the factory has the output level. Values that a snapshot sees are not passed,
    /// unlike in RocksDB.
    fn filter(&mut self, level: u32, key: &[u8], value: &[u8]) -> Decision;

    /// Decides like [`CompactionFilter::filter`] if the value of `key` is a wide-column entity.
    ///
    /// By default, entities are kept. A malformed entity is not passed, and stays.
    fn filter_entity(&mut self, level: u32, key: &[u8], columns: Columns<'_>) -> Decision {
        let _ = (level, key, columns);
        Decision::Keep
    }
}

/// The description of the compaction for which a filter is created.
///
/// (RocksDB: `CompactionFilter::Context`.)
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CompactionFilterContext {
    /// Whether all data of the family takes part.
    pub is_full_compaction: bool,
    /// Whether a user requested the compaction.
    pub is_manual_compaction: bool,
    /// The family's id.
    pub column_family_id: u32,
    /// The output level.
    pub output_level: u32,
}

impl CompactionFilterContext {
    /// Creates the description of a compaction for a filter factory.
    #[must_use]
    pub fn new(
        is_full_compaction: bool,
        is_manual_compaction: bool,
        column_family_id: u32,
        output_level: u32,
    ) -> Self {
        CompactionFilterContext {
            is_full_compaction,
            is_manual_compaction,
            column_family_id,
            output_level,
        }
    }
}

/// A factory that creates a compaction filter for each compaction.
pub trait CompactionFilterFactory: Send + Sync + 'static {
    /// The name, which a remote worker compares with that in a RocksDB primary's OPTIONS file.
    fn name(&self) -> &str;

    /// Creates the filter for one compaction; `None` to filter nothing in it.
    fn create(&self, context: &CompactionFilterContext) -> Option<Box<dyn CompactionFilter>>;
}
