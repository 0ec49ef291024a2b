//! Waits for what background threads do at a time of their own.
//!
//! A flush or compaction returns when its result is visible; obsolete files, events, log lines and
//! figures may follow later.

use std::time::Duration;

use koeldb::fs::{Clock, SystemClock};

use super::prelude::LIMIT;

/// Waits until `condition` holds.
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = SystemClock.now();
    while !condition() {
        assert!(SystemClock.now() - begun < LIMIT, "{what} does not happen");
        SystemClock.sleep(Duration::from_millis(1));
    }
}
