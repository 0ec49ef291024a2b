//! RocksDB's cuckoo table: one hash table of slots of one size, for point reads.
//!
//! A key lies in one of a few *windows* of neighbouring slots, each chosen by a hash function. A read looks
//! through the windows in order; most keys lie in the first, so a hit costs one or two cache lines and no index.
//! There is no order and no compression, and RocksDB's tables have no checksum: a scan sorts the slots first, and what
//! a file says of its shape is checked when it is opened.
//!
//! The invariant all readers, RocksDB's too, rely on: on the way to a stored key, through its windows in order,
//! every slot is occupied. So a search ends at the first empty slot.
//!
//! - `format`: the bytes and the properties. `open`: what is checked of a file. [`hash`]: from keys to slots.
//! - [`residency`]: where a table lies. `slots`: the table in memory, mapped or copied. [`reader`]: point reads, alone and in
//!   batches. `windows`: how windows are looked through. `word`: keys of 8 bytes.
//! - [`paged`]: a table that is read piece by piece. [`level`]: several tables as one. `routes`: which of them
//!   has a key. `rank`: keys as numbers. [`cursor`]: scans. [`examine`]: what a table costs, and whether the invariant holds.
//! - [`builder`]: a table being written, which may become a block-based one. `records`: its entries. `user_keys`: what their keys have in
//!   common. `placement`: which
//!   of them goes into which slot. `versions`: entries that have no slot, in a format of our own.

pub mod builder;
pub mod cursor;
pub mod examine;
mod format;
pub mod hash;
pub mod level;
mod open;
pub mod paged;
mod placement;
mod rank;
pub mod reader;
mod records;
pub mod residency;
mod routes;
mod slots;
mod user_keys;
mod versions;
mod windows;
mod word;

pub use format::CuckooLayout;
pub use placement::Placement;
