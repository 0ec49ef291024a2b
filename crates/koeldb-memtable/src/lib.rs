//! KoelDB's ordered in-memory tables: where writes live until they are flushed.
//!
//! A [`Memtable`] stores internal entries, finds the newest visible one of a key, lends them in order to a
//! [`MemtableCursor`], and says how much memory it holds. It decides nothing: when to seal, flush or drop a
//! memtable, and which sequence numbers are visible, is the database's business.
//!
//! - `memtable`: the table as the engine sees it: entries, range tombstones, filter, counters.
//! - `rep`: the representations that order the entries: sorted list with an index, vector.
//! - `tombstones`: range tombstones and their cached fragments. `bloom`: the optional filter.
//! - `arena`: the memory that entries lie in.
//!
//! # Threading
//! Everything takes `&self`. Any number of threads may insert and read at once; with the skip list none of
//! them ever waits for another. An entry whose `insert` returned before its sequence number was published is
//! found by every reader that saw the published number.

mod arena;
mod bloom;
mod memtable;
mod rep;
mod tombstones;

pub use memtable::{BloomOptions, Memtable, MemtableOptions};
pub use rep::{MemtableCursor, RepKind};
