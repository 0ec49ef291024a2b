//! Settings: options, caches, environments and other objects that options refer to.

pub(crate) mod cache;
pub(crate) mod compression;
pub(crate) mod filter;
pub(crate) mod index_factory;
pub(crate) mod lists;
pub(crate) mod load;
pub(crate) mod memory_usage;
pub(crate) mod objects;
pub(crate) mod option_text;
pub(crate) mod options;
pub(crate) mod part;
pub(crate) mod perf;
pub(crate) mod read;
pub(crate) mod sets;
pub(crate) mod statistic_names;
pub(crate) mod statistics;
pub(crate) mod structures;
pub(crate) mod threads;
pub(crate) mod write;
