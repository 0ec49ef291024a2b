//! Filters, which answer most lookups of absent keys without reading a block.
//!
//! A filter is n data bytes and 5 bytes of metadata, for full filters and for each partition:
//!
//! ```text
//! data [n] | m0 | m1 m2 m3 m4
//!            0xff new Bloom: m1 = 0, m2 = probes in bits 0-4, m3 = m4 = 0
//!            0xfe Ribbon: m1 = seed, m2 m3 m4 = number of blocks, little-endian
//!            1..=127 legacy Bloom: m0 probes, m1..m4 = fixed32 number of lines
//!            0 and anything else: "yes" for every key
//! ```
//!
//! A filter of 5 bytes or fewer denies every key. A malformed or unknown filter admits every key:
//! it may cost a read, but never gives a wrong answer (`docs/formats/filters.md`).
//!
//! - [`policy`]: the option, as text and as the algorithm for one table.
//! - [`reader`]: queries a stored filter. `builder`: collects hashes and builds a filter.
//! - `bloom`, `legacy_bloom`, `ribbon`: the three algorithms. `ribbon_builder`: solves a Ribbon.
//!
//! The new algorithms share one hash of the key, XXPH3, so a lookup computes it once for all
//! tables; the legacy Bloom filter of format versions before 5 has a separate 32-bit hash.

pub(crate) mod bloom;
pub(crate) mod builder;
pub(crate) mod legacy_bloom;
pub mod policy;
pub mod reader;
pub(crate) mod ribbon;
pub(crate) mod ribbon_builder;

pub use policy::FilterPolicy;
pub use reader::FilterReader;

/// The size of the metadata after a filter's data.
pub(crate) const METADATA_BYTES: usize = 5;
