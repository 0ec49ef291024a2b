//! Filters: what a table remembers of its keys, so that most look-ups of absent keys read no block.
//!
//! A filter is n data bytes and 5 bytes of metadata, the same for full filters and for each partition:
//!
//! ```text
//! data [n] | m0 | m1 m2 m3 m4
//!            0xff new Bloom: m1 = 0, m2 = probes in bits 0-4, m3 = m4 = 0
//!            0xfe Ribbon: m1 = seed, m2 m3 m4 = number of blocks, little-endian
//!            1..=127 legacy Bloom: m0 probes, m1..m4 = fixed32 number of lines
//!            0 and anything else: "yes" for every key
//! ```
//!
//! A filter of 5 bytes or fewer says "no" for every key. Everything that is malformed or unknown says "yes":
//! a filter may cost a read, never an answer (`docs/formats/filters.md`).
//!
//! - [`policy`]: the option, as text and as a choice of algorithm for one table.
//! - [`reader`]: asks a stored filter. `builder`: collects hashes and makes one.
//! - `bloom`, `legacy_bloom`, `ribbon`: the three algorithms. `ribbon_builder`: solves a Ribbon.
//!
//! The new algorithms share one hash of the key, XXPH3, so a look-up computes it once for all tables; the
//! legacy Bloom filter of format versions before 5 has a 32-bit hash of its own.

pub(crate) mod bloom;
pub(crate) mod builder;
pub(crate) mod legacy_bloom;
pub mod policy;
pub mod reader;
pub(crate) mod ribbon;
pub(crate) mod ribbon_builder;

pub use policy::FilterPolicy;
pub use reader::FilterReader;

/// The bytes of metadata behind a filter's data.
pub(crate) const METADATA_BYTES: usize = 5;
