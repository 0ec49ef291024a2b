//! RocksDB's plain table: rows in the order of their keys, and a hash from key prefixes to rows
//! (`docs/formats/plain-table.md`).
//!
//! ```text
//! rows | [Bloom filter] | [index] | properties | metaindex | legacy footer
//! ```
//!
//! Nothing is compressed and nothing has a checksum; a table is used where it lies in memory, mapped or read
//! whole when it is opened; or in pieces, if files are read around the page cache. Without a stored index one is made
//! when it is opened, from all rows.
//!
//! - [`format`](mod@format): rows and names; `index`, `bloom`: the two blocks that find rows. `hash_slots`: the index that
//!   is made where none is stored.
//! - [`reader`], [`cursor`]: point reads and scans. `marks`: places in the rows, which make the format, that can
//!   be read forwards from whole keys only, one that can be read from anywhere and backwards.
//! - [`paged`]: a table that is read piece by piece.
//! - [`builder`]: writing a table.

mod bloom;
pub mod builder;
pub mod cursor;
pub mod format;
mod hash_slots;
mod index;
mod marks;
mod open;
pub mod paged;
pub mod reader;
