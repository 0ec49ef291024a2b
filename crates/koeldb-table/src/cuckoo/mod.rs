//! RocksDB's cuckoo table: one hash table of fixed-size slots, for point reads.
//!
//! A key is in one of a few *windows* of neighbouring slots, each chosen by a hash function. A read
//! searches the windows in order; most keys are in the first, so a hit costs one or two cache lines
//! and no index. There is no order and no compression, and RocksDB's tables have no checksum: a
//! scan sorts the slots first, and the properties of a file are validated when it is opened.
//!
//! The invariant that all readers rely on, including RocksDB's: on the way to a stored key, through
//! its windows in order, every slot is occupied. So a search ends at the first empty slot.
//!
//! - `format`: the on-disk format and the properties. `open`: validation. [`hash`]: maps keys to
//!   slots.
//! - [`residency`]: where a table is held. `slots`: the table in memory, mapped or copied.
//!   [`reader`]: point reads, single and batched. `windows`: window search. `word`: keys of 8
//!   bytes.
//! - `paged`: a table that is read piece by piece. [`level`]: several tables as one. `fences`:
//!   finds the table of a key. `rank`: keys as numbers. [`cursor`]: scans. [`examine`]: measures
//!   costs and checks the invariant.
//! - [`builder`]: builds a table, with a block-based one as fallback. `records`: its entries.
//!   `user_keys`: the common form of their keys. `placement`: assigns entries to slots. `versions`:
//!   entries without a slot, in our own format extension.

pub mod builder;
pub mod cursor;
pub mod examine;
mod fences;
mod format;
pub mod hash;
pub mod level;
mod open;
mod paged;
mod placement;
mod rank;
pub mod reader;
mod records;
pub mod residency;
mod slots;
pub mod table;
mod user_keys;
mod versions;
mod windows;
mod word;

pub use format::CuckooLayout;
pub use placement::Placement;
