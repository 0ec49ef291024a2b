//! How far ahead of a scan to read: far enough that what it comes to next has arrived, and no farther.
//!
//! A device takes some time for a read, and the scan takes some time for the bytes of one. What the scan uses up while
//! the device works has to be under way before it is wanted. Both times are measured once a piece, and smoothed.

use std::time::Duration;

/// The most pieces read ahead of the one in use.
const DEPTH_MAX: u64 = 8;

/// The smallest piece that a slow scan gets.
const PIECE_BYTES_MIN: u64 = 32 << 10;

/// After so many pieces that were ahead for nothing there is one less.
const CALM_PIECES: u64 = 8;

/// A piece holds so many times what is used up while the device works.
const PIECE_WORTH: u64 = 4;

/// The speed of a device and of a scan.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    /// Of a read; 0 until one was measured.
    latency_nanos: u64,
    /// Of the scan, for 1024 bytes; 0 until it was measured.
    nanos_per_kib: u64,
    /// Pieces ahead, beyond what the measures ask for, because the scan had to wait.
    extra: u64,
    /// How many pieces in a row were used up while all those ahead had arrived.
    calm: u64,
}

impl Pace {
    /// A read took so long.
    pub(super) fn arrived(&mut self, latency: Duration) {
        let now = nanos(latency);
        self.latency_nanos = if now > self.latency_nanos {
            now
        } else {
            smoothed(self.latency_nanos, now, 16)
        };
    }

    /// The scan used up a piece of `bytes` bytes in `elapsed`, and had to wait for it or had not. `is_ahead` says whether
    /// all that is ahead of it has arrived.
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

    /// What the scan uses up while the device works, in bytes; `None` until both were measured.
    fn needed_bytes(&self) -> Option<u64> {
        let kib = self.latency_nanos.checked_div(self.nanos_per_kib)?;
        (self.latency_nanos != 0).then(|| kib.saturating_add(1).saturating_mul(1024))
    }

    /// The bytes of the next piece, of at most `bytes`.
    pub(super) fn piece_bytes(&self, bytes: u64) -> u64 {
        match self.needed_bytes() {
            Some(needed) => bytes.min(needed.saturating_mul(PIECE_WORTH).max(PIECE_BYTES_MIN)),
            None => bytes,
        }
    }

    /// How many pieces of `bytes` bytes are to be ahead of the one in use; at least one.
    pub(super) fn depth(&self, bytes: u64) -> usize {
        let needed = self.needed_bytes().unwrap_or(0);
        let depth = needed.div_ceil(bytes.max(1)).max(1) + self.extra;
        usize::try_from(depth.min(DEPTH_MAX)).unwrap_or(1)
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The new measure counts for one in `weight`.
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
        // 2 ms, in which a scan of 256 MiB/s uses 512 KiB up.
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
        // One that is infinitely fast gets the most there is.
        for _ in 0..60 {
            pace.used(256 << 10, Duration::ZERO, true, false);
        }
        assert_eq!(pace.depth(256 << 10), 8);
    }
}
