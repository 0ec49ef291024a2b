//! Plug-ins of options that the engine's options do not return.

use super::compaction_filter::Filters;
use super::logger::Logger;

/// The plug-ins of `rocksdb_options_t` that later setters and getters need.
#[derive(Clone, Default)]
pub(crate) struct Attached {
    pub(crate) filters: Filters,
    pub(crate) logger: Option<Logger>,
}
