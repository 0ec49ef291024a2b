//! The write path: check → join → room → log → insert → publish.
//!
//! A write crosses these files in this order: `protocol` checks it, in `queue` it leads or waits in a
//! place of `writer`, `queue::group` commits the group. For that it calls `room`, the log
//! ([`crate::wal`]), `apply` for the memtables, and `pipeline` for the publication.
//!
//! One writer at a time is the leader. It writes the records of its group to the log as one record,
//! and syncs it if any member requires it. The members insert their entries into the memtables, or
//! the leader does it for them; the thread that inserts last publishes the sequence number. Other
//! operations that exclude writes (sealing a memtable, switching the log, creating a column family)
//! take the same leadership.
//!
//! With spare processors, and with pipelined or unordered writes, the next leader starts while a group is
//! being inserted (`pipeline`); sealing a memtable waits for the groups in flight first.
//!
//! The locks of keys ([`key_locks`]) and the prepared transactions ([`prepared`]) are here as well, for
//! every write takes part in them. The write path may use all storeys below, `background` and downwards.

mod apply;

mod direct;
mod flush;
pub(crate) mod fold;
pub(crate) mod group_wait;
pub(crate) mod key_locks;
pub(crate) mod log_keys;
pub(crate) mod logged;
mod low_priority;
pub(crate) mod marked_write;
mod pipeline;
pub(crate) mod prepared;
pub(crate) mod protocol;
pub(crate) mod queue;
pub(crate) mod recent_writes;
mod room;
mod seal;
pub(crate) mod sections;
pub(crate) mod two_phase;
mod writer;
