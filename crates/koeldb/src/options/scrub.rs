//! Options of periodic scrubs.

use std::time::Duration;

use super::db::Options;

/// The options of periodic scrubs, which verify the checksums of all tables: interval and rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScrubOptions {
    pub(crate) interval: Duration,
    pub(crate) bytes_per_sec: u64,
}

impl ScrubOptions {
    /// Creates the options of a scrub every `interval`, at 16 MiB per second.
    #[must_use]
    pub fn every(interval: Duration) -> Self {
        ScrubOptions {
            interval,
            bytes_per_sec: 16 << 20,
        }
    }

    /// Limits reads to this many bytes per second; 0 for no limit.
    ///
    /// Default: 16 MiB.
    pub fn set_bytes_per_sec(&mut self, bytes: u64) -> &mut Self {
        self.bytes_per_sec = bytes;
        self
    }
}

impl Options {
    /// Enables periodic scrubs, which use a background thread; `None`, the default, disables them.
    pub fn set_scrub(&mut self, scrub: impl Into<Option<ScrubOptions>>) -> &mut Self {
        self.plugins.scrub = scrub.into();
        self
    }
}
