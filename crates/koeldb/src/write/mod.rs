//! The write path: batch → queue → stall → log → memtables → publication.
//!
//! One writer at a time leads. It writes the records of its group to the log as one record, syncs it if any member
//! asked, inserts into the memtables, and publishes the last sequence number. Whatever else must not run beside a
//! write — sealing a memtable, switching the log, creating a family — takes the same leadership.
//!
//! With pipelined or unordered writes the next writer leads while a group is inserted (`pipeline`); who seals a memtable
//! waits for the groups under way first.

mod apply;
pub(crate) mod batch;
pub(crate) mod commit;
pub(crate) mod owed_logs;
mod pipeline;
pub(crate) mod queue;
pub(crate) mod stall;
pub(crate) mod standby_log;

pub use batch::{BatchEntry, WriteBatch};
