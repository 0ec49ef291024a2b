//! RocksDB's plain table: rows in key order, and a hash from key prefixes to rows.
//!
//! See `docs/formats/plain-table.md`.
//!
//! ```text
//! rows | [Bloom filter] | [index] | properties | metaindex | legacy footer
//! ```
//!
//! There is no compression and no checksum. A table is used in place in memory, either mapped or
//! read whole at open; or in pieces, with direct I/O. Without a stored index one is built at open,
//! from all rows.
//!
//! - [`format`](mod@format): rows and names; `index`, `bloom`: the two blocks that find rows.
//!   `hash_slots`: the index built where none is stored.
//! - [`reader`], [`cursor`]: point reads and scans. `marks`: positions in the rows, which allow the
//!   format, decodable only forwards from whole keys, to be read from anywhere and backwards.
//! - `paged`: a table that is read piece by piece.
//! - [`builder`]: builds a table.

mod bloom;
pub mod builder;
pub mod cursor;
pub mod format;
mod hash_slots;
mod index;
mod marks;
mod open;
mod paged;
pub mod reader;
pub mod table;
