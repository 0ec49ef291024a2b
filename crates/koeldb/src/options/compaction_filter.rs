//! Compaction filters: built-in ones, functions, and those of the user's factory.
//!
//! A filter belongs to a column family. OPTIONS files name only built-in filters: the program that
//! opens a database must set its own filters again.

use std::sync::Arc;

use koeldb_lsm::job::{
    CompactionFilter, CompactionFilterContext, CompactionFilterFactory, Decision,
};

use super::column_family::ColumnFamilyOptions;
use super::object::{BuiltinCompactionFilter, NoObject};
use super::registry::{OptionValue, Reading, Refusal, Style};

type FilterFunction = dyn Fn(u32, &[u8], &[u8]) -> Decision + Send + Sync;

/// A compaction filter factory for one filter function, which all compactions share.
pub(crate) struct FunctionFilter {
    name: String,
    filter: Arc<FilterFunction>,
}

impl FunctionFilter {
    pub(crate) fn new(
        name: String,
        filter: impl Fn(u32, &[u8], &[u8]) -> Decision + Send + Sync + 'static,
    ) -> Self {
        FunctionFilter {
            name,
            filter: Arc::new(filter),
        }
    }
}

/// A compaction filter that calls the filter function of its factory.
struct Calls(Arc<FilterFunction>);

impl CompactionFilter for Calls {
    fn filter(&mut self, level: u32, key: &[u8], value: &[u8]) -> Decision {
        (self.0)(level, key, value)
    }
}

impl CompactionFilterFactory for FunctionFilter {
    fn name(&self) -> &str {
        &self.name
    }

    fn create(&self, _context: &CompactionFilterContext) -> Option<Box<dyn CompactionFilter>> {
        Some(Box::new(Calls(Arc::clone(&self.filter))))
    }
}

/// The built-in compaction filter that removes entries with an empty value.
struct RemoveEmptyValue;

impl CompactionFilter for RemoveEmptyValue {
    fn filter(&mut self, _level: u32, _key: &[u8], value: &[u8]) -> Decision {
        match value {
            [] => Decision::Remove,
            _ => Decision::Keep,
        }
    }
}

impl ColumnFamilyOptions {
    /// Whether compactions of the family filter values.
    pub(crate) fn has_compaction_filter(&self) -> bool {
        self.compaction_filter.is_some() || self.compaction_filter_factory.is_some()
    }

    /// Returns the filter for one compaction: the built-in one if set, else one of the factory.
    pub(crate) fn new_compaction_filter(
        &self,
        context: &CompactionFilterContext,
    ) -> Option<Box<dyn CompactionFilter>> {
        if let Some(BuiltinCompactionFilter::RemoveEmptyValue) = self.compaction_filter {
            return Some(Box::new(RemoveEmptyValue));
        }
        self.compaction_filter_factory.as_ref()?.create(context)
    }
}

/// A compaction filter factory, which has no text form: none is built in.
impl OptionValue for Option<Arc<dyn CompactionFilterFactory>> {
    fn kind() -> String {
        NoObject::kind()
    }

    fn read(&mut self, name: &str, text: &str, reading: &mut Reading) -> Result<(), Refusal> {
        NoObject.read(name, text, reading)?;
        *self = None;
        Ok(())
    }

    fn write(&self, style: Style) -> Option<String> {
        NoObject.write(style)
    }
}
