//! Writes of low priority (`WriteOptions::set_low_pri`), which wait while compactions lag.

use std::sync::Mutex;
use std::time::Duration;

use koeldb_base::sync::lock_plain as lock;
use koeldb_base::{Error, ErrorKind, Result};

use super::protocol::{CommitPipeline, not_applied};
use super::writer::CommitMode;
use crate::state::write_stall::cost;

/// The rate of low-priority writes while compactions lag. Source: RocksDB's write controller.
const BYTES_PER_SECOND: u64 = 1 << 20;

/// The time between two checks of the compactions.
const SLICE: Duration = Duration::from_millis(50);

/// The rate limiter of low-priority writes (`low_pri`) while compactions lag.
#[derive(Debug, Default)]
pub(crate) struct LowPriorityWrites {
    next_free: Mutex<Duration>,
}

impl LowPriorityWrites {
    /// Reserves a write of `bytes` at the permitted rate; returns the time at which it ends.
    fn book(&self, now: Duration, bytes: usize) -> Duration {
        let mut next_free = lock(&self.next_free);
        *next_free = now.max(*next_free) + cost(bytes, BYTES_PER_SECOND);
        *next_free
    }

    /// Cancels the reservation of a write of `bytes` that gave up.
    fn give_back(&self, bytes: usize) {
        let mut next_free = lock(&self.next_free);
        *next_free = next_free.saturating_sub(cost(bytes, BYTES_PER_SECOND));
    }

    /// Cancels all reservations when compactions have caught up.
    fn clear(&self) {
        *lock(&self.next_free) = Duration::ZERO;
    }
}

impl CommitPipeline {
    /// Delays a write of low priority while compactions lag, to a rate of 1 MiB per second.
    #[cold]
    pub(super) fn yield_to_compactions(&self, bytes: usize, mode: CommitMode) -> Result<()> {
        if !self.compactions_lag() {
            return Ok(());
        }
        self.health.check_writable()?;
        if mode.no_slowdown {
            return Err(not_applied(Error::with_kind(
                ErrorKind::Incomplete,
                "compactions lag, and no_slowdown is set for a low-priority write",
            )));
        }
        let clock = &*self.context.clock;
        let until = self.low_priority.book(clock.now(), bytes);
        loop {
            let left = until.saturating_sub(clock.now());
            if left.is_zero() {
                return Ok(());
            }
            let timeout = mode.stall_timeout.map(|timeout| timeout.left(clock));
            if timeout.is_some_and(|timeout| timeout.is_zero()) {
                self.low_priority.give_back(bytes);
                return Err(not_applied(Error::with_kind(
                    ErrorKind::TimedOut,
                    "a low-priority write waited for compactions longer than stall_timeout",
                )));
            }
            clock.sleep(left.min(SLICE).min(timeout.unwrap_or(SLICE)));
            self.health.check_writable()?;
            if !self.compactions_lag() {
                self.low_priority.clear();
                return Ok(());
            }
        }
    }

    /// Whether a column family stalls writes or has too much compaction debt.
    fn compactions_lag(&self) -> bool {
        !self.stall.is_normal() || self.families.by_id().values().any(|f| f.compactions_lag())
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_gives_up_leaves_no_debt() {
        let (writes, now) = (LowPriorityWrites::default(), Duration::from_secs(5));
        let second = 1 << 20;
        let first = writes.book(now, second);
        assert_eq!(first, Duration::from_secs(6));
        for _ in 0..10 {
            assert_eq!(writes.book(now, second), Duration::from_secs(7));
            writes.give_back(second);
        }
    }
}
