//! What users plug in that has no text form: an environment, listeners, a logger.

use std::fmt;
use std::sync::Arc;

use koeldb_lsm::job::{
    CompactionFilter, CompactionFilterContext, CompactionFilterFactory, Decision,
};

use crate::env::Env;
use crate::info_log::Logger;
use crate::listener::EventListener;
use crate::options::Options;
use crate::scrub::ScrubOptions;
use crate::write_buffers::WriteBufferManager;

type FilterFunction = dyn Fn(u32, &[u8], &[u8]) -> Decision + Send + Sync;

/// A function as compaction filter and as its factory: it has no state of one compaction.
struct FunctionFilter {
    name: String,
    filter: Arc<FilterFunction>,
}

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

/// The plug-ins of a database.
#[derive(Clone, Default)]
pub(crate) struct Plugins {
    pub(crate) env: Env,
    pub(crate) listeners: Vec<Arc<dyn EventListener>>,
    pub(crate) logger: Option<Arc<dyn Logger>>,
    pub(crate) scrub: Option<ScrubOptions>,
    pub(crate) compaction_filter_factory: Option<Arc<dyn CompactionFilterFactory>>,
    pub(crate) write_buffers: Option<WriteBufferManager>,
}

impl fmt::Debug for Plugins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plugins")
            .field("env", &self.env)
            .field("listeners", &self.listeners.len())
            .finish_non_exhaustive()
    }
}

impl Options {
    /// Keeps files, clock and background threads of this environment.
    pub fn set_env(&mut self, env: &Env) -> &mut Self {
        self.plugins.env = env.clone();
        self
    }

    /// Tells `listener` of events; more than one may be added.
    pub fn add_event_listener(&mut self, listener: impl EventListener) -> &mut Self {
        self.plugins.listeners.push(Arc::new(listener));
        self
    }

    /// Gives the lines of the information log to `logger` instead of the file `LOG`.
    pub fn set_logger(&mut self, logger: impl Logger) -> &mut Self {
        self.plugins.logger = Some(Arc::new(logger));
        self
    }

    /// Bounds the memory of memtables together with that of other databases that have the same manager; in place of
    /// `db_write_buffer_size`.
    pub fn set_write_buffer_manager(&mut self, manager: &WriteBufferManager) -> &mut Self {
        self.plugins.write_buffers = Some(manager.clone());
        self
    }

    /// The bound on the memory of memtables that was set.
    #[must_use]
    pub fn get_write_buffer_manager(&self) -> Option<&WriteBufferManager> {
        self.plugins.write_buffers.as_ref()
    }

    /// Asks `filter` about the values that compactions meet, in every family: level, key, value.
    pub fn set_compaction_filter(
        &mut self,
        name: impl Into<String>,
        filter: impl Fn(u32, &[u8], &[u8]) -> Decision + Send + Sync + 'static,
    ) -> &mut Self {
        self.set_compaction_filter_factory(FunctionFilter {
            name: name.into(),
            filter: Arc::new(filter),
        })
    }

    /// Asks filters made by `factory` about the values that compactions meet, in every family.
    pub fn set_compaction_filter_factory(
        &mut self,
        factory: impl CompactionFilterFactory,
    ) -> &mut Self {
        self.plugins.compaction_filter_factory = Some(Arc::new(factory));
        self
    }
}
