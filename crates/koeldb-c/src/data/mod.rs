//! Databases, column families, reads, writes, batches and iterators.

pub(crate) mod batch;
pub(crate) mod batch_lists;
pub(crate) mod batch_visit;
pub(crate) mod batched_get;
pub(crate) mod call_options;
pub(crate) mod cancel_flag;
pub(crate) mod compact_files;
pub(crate) mod compaction;
pub(crate) mod db;
pub(crate) mod families;
pub(crate) mod iterator;
pub(crate) mod lists;
pub(crate) mod maintenance;
pub(crate) mod multi_get;
pub(crate) mod open;
pub(crate) mod property;
pub(crate) mod read;
pub(crate) mod sizes;
pub(crate) mod snapshot;
pub(crate) mod timestamps;
pub(crate) mod wal;
pub(crate) mod write;
