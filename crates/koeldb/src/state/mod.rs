//! The state that the parts of an open database share.
//!
//! The parts fixed at open ([`context`]), the life cycle ([`health`]), the column families with
//! their memtables, versions and queues of work, the published sequence number ([`visibility`]), and
//! the log of events. A module here knows its own state and rules, and no job that changes it. It
//! may use the values below: `options`, `env`, `report` and `batch`.

pub(crate) mod blob_collection;
pub(crate) mod column_family_data;
pub(crate) mod column_family_set;
pub(crate) mod context;
pub(crate) mod counters;
pub(crate) mod cuts;
pub(crate) mod deleted_ranges;
pub(crate) mod health;
pub(crate) mod hex;
pub(crate) mod info_log;
pub(crate) mod job_slots;
pub(crate) mod key_bounds;
pub(crate) mod listeners;
pub(crate) mod memtables;
pub(crate) mod prepopulate;
pub(crate) mod spans;
pub(crate) mod super_version;
pub(crate) mod table_files;
pub(crate) mod ttl;
pub(crate) mod visibility;
pub(crate) mod work_queue;
pub(crate) mod write_stall;
