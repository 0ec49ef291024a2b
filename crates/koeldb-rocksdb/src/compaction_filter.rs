//! Compaction filters, which remove or change values as compactions meet them.

use std::ffi::CStr;
use std::sync::{Arc, Mutex, PoisonError};

/// A compaction filter's decision on an entry: keep, remove or change it.
pub enum Decision {
    /// The value stays.
    Keep,
    /// The key is deleted.
    Remove,
    /// The value is replaced.
    Change(&'static [u8]),
}

impl From<Decision> for koeldb::Decision {
    fn from(decision: Decision) -> Self {
        match decision {
            Decision::Keep => koeldb::Decision::Keep,
            Decision::Remove => koeldb::Decision::Remove,
            Decision::Change(value) => koeldb::Decision::Change(value.to_vec()),
        }
    }
}

/// A compaction filter that a compaction filter factory created for one compaction.
///
/// See [`CompactionFilterFactory`](crate::compaction_filter_factory::CompactionFilterFactory).
pub trait CompactionFilter: Send {
    /// Decides whether to keep, remove or change the newest value of `key`, which no snapshot sees.
    ///
    /// The uppermost input of the compaction is on `level`.
    fn filter(&mut self, level: u32, key: &[u8], value: &[u8]) -> Decision;

    /// Returns the filter's name, which the engine does not use.
    fn name(&self) -> &CStr;
}

/// A closure used as a compaction filter; its arguments are level, key and value.
pub trait CompactionFilterFn: FnMut(u32, &[u8], &[u8]) -> Decision {}

impl<F> CompactionFilterFn for F where F: FnMut(u32, &[u8], &[u8]) -> Decision + Send + 'static {}

/// A compaction filter factory whose filters all call one closure, under a mutex.
pub(crate) struct FunctionFactory<F> {
    pub(crate) name: String,
    pub(crate) function: Arc<Mutex<F>>,
}

/// The compaction filter of one compaction, which calls the shared closure under its mutex.
struct FunctionFilter<F>(Arc<Mutex<F>>);

impl<F> koeldb::CompactionFilterFactory for FunctionFactory<F>
where
    F: CompactionFilterFn + Send + 'static,
{
    fn name(&self) -> &str {
        &self.name
    }

    fn create(
        &self,
        _: &koeldb::CompactionFilterContext,
    ) -> Option<Box<dyn koeldb::CompactionFilter>> {
        Some(Box::new(FunctionFilter(Arc::clone(&self.function))))
    }
}

impl<F: CompactionFilterFn + Send> koeldb::CompactionFilter for FunctionFilter<F> {
    fn filter(&mut self, level: u32, key: &[u8], value: &[u8]) -> koeldb::Decision {
        let mut function = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        function(level, key, value).into()
    }
}
