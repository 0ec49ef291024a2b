//! Readahead depth: as many reads ahead of a scan as its speed requires.
//!
//! A device takes some time for a read, and the scan takes some time to consume its bytes. The
//! bytes that the scan consumes during a read must be in flight before they are needed. Both times
//! are measured once per piece, and smoothed.

use std::time::Duration;

/// The largest number of pieces read ahead of the current one.
const DEPTH_MAX: u64 = 8;

/// The smallest piece for a slow scan.
const PIECE_BYTES_MIN: u64 = 32 << 10;

/// The number of pieces consumed without waiting after which the depth decreases by one.
const CALM_PIECES: u64 = 8;

/// The size of a piece, as a multiple of the bytes consumed during a read.
const PIECE_WORTH: u64 = 4;

/// Measurements of read latency and scan speed, from which readahead size and depth follow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    /// The latency of a read; 0 until measured.
    latency_nanos: u64,
    /// The scan's time per 1024 bytes; 0 until measured.
    nanos_per_kib: u64,
    /// Extra pieces beyond the measured need, added because the scan had to wait.
    extra: u64,
    /// The number of pieces consumed in a row while all pieces ahead had arrived.
    calm: u64,
}

impl Pace {
    /// Records the latency of a completed read.
    pub(super) fn arrived(&mut self, latency: Duration) {
        let now = nanos(latency);
        self.latency_nanos = if now > self.latency_nanos {
            now
        } else {
            smoothed(self.latency_nanos, now, 16)
        };
    }

    /// Records that the scan consumed a piece of `bytes` bytes in `elapsed`.
    ///
    /// `waited` tells whether the scan had to wait for it, and `is_ahead` whether all pieces ahead
    /// have arrived.
    pub(super) fn used(&mut self, bytes: u64, elapsed: Duration, waited: bool, is_ahead: bool) {
        let per_kib = nanos(elapsed).saturating_mul(1024) / bytes.max(1);
        self.nanos_per_kib = smoothed(self.nanos_per_kib, per_kib.max(1), 4);
        self.calm = if is_ahead && !waited {
            self.calm + 1
        } else {
            0
        };
        if waited {
            self.extra = (self.extra + 1).min(DEPTH_MAX);
        } else if self.calm >= CALM_PIECES {
            self.calm = 0;
            self.extra = self.extra.saturating_sub(1);
        }
    }

    /// Returns the bytes that the scan consumes during one read latency; `None` until measured.
    fn needed_bytes(&self) -> Option<u64> {
        let kib = self.latency_nanos.checked_div(self.nanos_per_kib)?;
        (self.latency_nanos != 0).then(|| kib.saturating_add(1).saturating_mul(1024))
    }

    /// Returns the size of the next readahead piece, at most `bytes`.
    pub(super) fn piece_bytes(&self, bytes: u64) -> u64 {
        match self.needed_bytes() {
            Some(needed) => bytes.min(needed.saturating_mul(PIECE_WORTH).max(PIECE_BYTES_MIN)),
            None => bytes,
        }
    }

    /// The number of pieces of `bytes` bytes to keep ahead of the current one; at least one.
    pub(super) fn depth(&self, bytes: u64) -> usize {
        let needed = self.needed_bytes().unwrap_or(0);
        let depth = needed.div_ceil(bytes.max(1)).max(1) + self.extra;
        usize::try_from(depth.min(DEPTH_MAX)).unwrap_or(1)
    }
}

/// Returns a duration in nanoseconds, at most `u64::MAX`.
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the moving average after the value `now`, whose weight is 1/`weight`.
fn smoothed(before: u64, now: u64, weight: u64) -> u64 {
    match before {
        0 => now,
        before => (before - before / weight)
            .saturating_add(now / weight)
            .max(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_depth_covers_what_is_used_while_the_device_works() {
        let mut pace = Pace::default();
        assert_eq!(pace.depth(256 << 10), 1, "nothing is known");
        assert_eq!(pace.piece_bytes(256 << 10), 256 << 10);
        // 2 ms, in which a scan of 256 MiB/s consumes 512 KiB.
        for _ in 0..20 {
            pace.arrived(Duration::from_millis(2));
            pace.used(256 << 10, Duration::from_millis(1), false, true);
        }
        assert_eq!(pace.piece_bytes(256 << 10), 256 << 10);
        assert_eq!(pace.depth(256 << 10), 3);
        pace.used(256 << 10, Duration::from_millis(1), true, false);
        assert_eq!(pace.depth(256 << 10), 4, "one more where it had to wait");
        for _ in 0..100 {
            pace.used(256 << 10, Duration::from_millis(1), false, false);
        }
        assert_eq!(pace.depth(256 << 10), 4, "as long as it is needed");
        for _ in 0..CALM_PIECES {
            pace.used(256 << 10, Duration::from_millis(1), false, true);
        }
        assert_eq!(pace.depth(256 << 10), 3);
        // A scan a thousand times slower needs little ahead, in small pieces.
        for _ in 0..60 {
            pace.used(32 << 10, Duration::from_millis(125), false, true);
        }
        assert_eq!(pace.piece_bytes(256 << 10), PIECE_BYTES_MIN);
        assert_eq!(pace.depth(PIECE_BYTES_MIN), 1);
        // An infinitely fast scan gets the maximum.
        for _ in 0..60 {
            pace.used(256 << 10, Duration::ZERO, true, false);
        }
        assert_eq!(pace.depth(256 << 10), 8);
    }
}
