//! KoelDB's ordered in-memory tables: where writes live until they are flushed.
//!
//! A [`Memtable`] stores internal entries, finds the newest visible one of a key, lends them in order to a
//! [`MemtableCursor`], and says how much memory it holds. It decides nothing: when to seal, flush or drop a
//! memtable, and which sequence numbers are visible, is the database's business.
//!
//! - `memtable`: the table as the engine sees it: entries, range tombstones, filter, counters.
//! - `rep`: the representations that order the entries: sorted list with an index, vector, lists by prefix, hash and runs.
//! - `tombstones`: range tombstones and their cached fragments. `bloom`: the optional filter.
//! - `arena`: the memory that entries lie in. `recycler`: the memory of dropped memtables, for the next ones.
//! - `sync`: the atomics that models replace.
//!
//! # Threading
//! Everything takes `&self`. Any number of threads may insert and read at once; with the skip list and the sorted hash none
//! of them ever waits for another that is at work on more than a few words. An entry whose `insert` returned before its sequence number was published is
//! found by every reader that saw the published number.

mod arena;
mod bloom;
mod memtable;
mod recycler;
mod rep;
mod sync;
mod tombstones;

pub use memtable::{BatchEntry, BloomOptions, MemoryReport, Memtable, MemtableOptions};
pub use recycler::Recycler;
pub use rep::{MemtableCursor, RepKind, SortTask, Sorter};
