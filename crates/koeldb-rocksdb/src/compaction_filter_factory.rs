//! Factories of compaction filters.

use std::ffi::CStr;
use std::sync::{Mutex, PoisonError};

use crate::compaction_filter::CompactionFilter;

/// A factory that creates a compaction filter for each compaction.
///
/// It is called under a lock, by any thread.
pub trait CompactionFilterFactory: Send {
    /// The type of the filters.
    type Filter: CompactionFilter;

    /// Creates the filter of one compaction.
    fn create(&mut self, context: CompactionFilterContext) -> Self::Filter;

    /// Returns the factory's name, for log messages.
    fn name(&self) -> &CStr;
}

/// The facts about a compaction that a filter factory gets (`CompactionFilter::Context`).
pub struct CompactionFilterContext {
    /// Whether all data of the column family takes part.
    pub is_full_compaction: bool,
    /// Whether it was requested by a call.
    pub is_manual_compaction: bool,
}

/// An adapter from a [`CompactionFilterFactory`] to the engine's trait; calls it under a lock.
pub(crate) struct Factory<F> {
    name: String,
    factory: Mutex<F>,
}

impl<F: CompactionFilterFactory> Factory<F> {
    pub(crate) fn new(factory: F) -> Self {
        Factory {
            name: factory.name().to_string_lossy().into_owned(),
            factory: Mutex::new(factory),
        }
    }
}

/// An adapter from a [`CompactionFilter`] to the engine's trait.
struct Filter<F>(F);

impl<F: CompactionFilterFactory + 'static> koeldb::CompactionFilterFactory for Factory<F> {
    fn name(&self) -> &str {
        &self.name
    }

    fn create(
        &self,
        context: &koeldb::CompactionFilterContext,
    ) -> Option<Box<dyn koeldb::CompactionFilter>> {
        let mut factory = self.factory.lock().unwrap_or_else(PoisonError::into_inner);
        Some(Box::new(Filter(factory.create(CompactionFilterContext {
            is_full_compaction: context.is_full_compaction,
            is_manual_compaction: context.is_manual_compaction,
        }))))
    }
}

impl<F: CompactionFilter> koeldb::CompactionFilter for Filter<F> {
    fn filter(&mut self, level: u32, key: &[u8], value: &[u8]) -> koeldb::Decision {
        self.0.filter(level, key, value).into()
    }
}
