//! Switches for deliberate bugs, which check whether the tests catch them.
//!
//! `.ci/sabotage` adds this module to a copy of the sources, where the patches beside it insert the
//! bugs. One build has all of them; the environment variable `KOELDB_SABOTAGE` enables one.

use std::sync::OnceLock;

/// Whether the bug `switch` is enabled.
#[must_use]
pub fn is_on(switch: &str) -> bool {
    static ENABLED: OnceLock<String> = OnceLock::new();
    ENABLED.get_or_init(|| std::env::var("KOELDB_SABOTAGE").unwrap_or_default()) == switch
}
