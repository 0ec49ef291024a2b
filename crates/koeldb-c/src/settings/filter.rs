//! Filters of tables.

#![expect(unsafe_code, reason = "takes a filter of C")]

use koeldb::{BlockBasedOptions, FilterPolicy};

use crate::handle::{self, Handle};
use crate::settings::part::Part;

/// Creates a Bloom filter.
pub(crate) fn bloom(bits_per_key: f64) -> FilterPolicy {
    FilterPolicy::bloom(bits_per_key)
}

/// Creates a Ribbon filter for all levels.
pub(crate) fn ribbon(bits_per_key: f64) -> FilterPolicy {
    FilterPolicy::ribbon(bits_per_key, -1)
}

/// Creates a Ribbon filter, with a Bloom filter above a level.
pub(crate) fn ribbon_hybrid(bits_per_key: f64, bloom_before_level: i32) -> FilterPolicy {
    FilterPolicy::ribbon(bits_per_key, bloom_before_level)
}

/// Gives tables a filter; without one they have none.
///
/// # Safety
/// The pointers are those of C, and the filter is not used again.
pub(crate) unsafe fn set(
    tables: *mut Handle<Part<BlockBasedOptions>>,
    policy: *mut Handle<FilterPolicy>,
) {
    // SAFETY: promised by the caller.
    let policy = unsafe { handle::take_optional(policy) };
    // SAFETY: promised by the caller.
    if let Ok(tables) = unsafe { handle::exclusive(tables, "options") } {
        tables.inner.set_filter_policy(policy.unwrap_or_default());
    }
}
