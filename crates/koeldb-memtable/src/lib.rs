//! KoelDB's memtables: ordered in-memory tables that hold writes until they are flushed.
//!
//! A [`Memtable`] stores internal entries, finds the newest visible entry of a key, lends entries
//! in order through a [`MemtableCursor`], and reports its memory. It makes no decisions: the
//! database decides when to seal, flush or drop a memtable, and which sequence numbers are visible.
//!
//! - `memtable`: the table as the engine sees it: entries, range tombstones, filter, counters.
//! - `cursor`: the cursor over its point entries.
//! - `rep`: the representations that order the entries: indexed sorted list, vector, lists by
//!   prefix, hash and runs.
//! - `tombstones`: range tombstones and their cached fragments. `bloom`: the optional filter.
//! - `protection`: checksums of entries.
//! - `arena`: the memory of the entries. `recycler`: reuses the memory of dropped memtables.
//! - `sync`: synchronization primitives that models replace.
//!
//! # Threading
//! All methods take `&self`. Any number of threads may insert and read concurrently; with the skip
//! list and the sorted hash no thread ever waits for another for longer than the update of a few
//! words. If an insert returned before its sequence number was published, every reader that saw the
//! published number finds the entry.

#![cfg_attr(koeldb_counts, feature(arbitrary_self_types))]

#[cfg(koeldb_counts)]
extern crate koeldb_counts as std;

mod arena;
mod bloom;
mod cursor;
mod memtable;
mod protection;
mod recycler;
mod rep;
mod sync;
mod tombstones;

pub use bloom::BloomOptions;
pub use cursor::MemtableCursor;
pub use memtable::{BatchEntry, MemoryReport, Memtable};
pub use recycler::Recycler;
pub use rep::{MemtableOptions, RepKind, SortTask, Sorter};
