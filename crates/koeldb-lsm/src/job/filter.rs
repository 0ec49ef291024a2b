//! Compaction filters: user code that removes or changes values as they are compacted.

/// What is to become of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// It stays.
    Keep,
    /// It is deleted.
    Remove,
    /// It is replaced.
    Change(Vec<u8>),
}

/// Decides about values met by one compaction; used by one thread, under no lock.
pub trait CompactionFilter: Send {
    /// Decides about the newest value of `key`, on its way to `level`. Values that a snapshot sees are not
    /// shown.
    fn filter(&mut self, level: u32, key: &[u8], value: &[u8]) -> Decision;
}

/// What a compaction filter is made for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CompactionFilterContext {
    /// Whether all data of the family takes part.
    pub is_full_compaction: bool,
    /// Whether a user asked for the compaction.
    pub is_manual_compaction: bool,
    /// The family's id.
    pub column_family_id: u32,
    /// The level the output goes to.
    pub output_level: u32,
}

impl CompactionFilterContext {
    /// A context.
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

/// Makes one filter for each compaction.
pub trait CompactionFilterFactory: Send + Sync + 'static {
    /// A name for the log and the OPTIONS file.
    fn name(&self) -> &str;

    /// The filter for one compaction; `None` to filter nothing in it.
    fn create(&self, context: &CompactionFilterContext) -> Option<Box<dyn CompactionFilter>>;
}
