//! Slowing writers down before the tree is overwhelmed, smoothly, and stopping them only where memory or the tree
//! would otherwise grow without bound.
//!
//! Each family's state maps to a [`StallCondition`]; the worst of all families holds. Between the trigger that slows
//! and the one that stops, the permitted rate falls from `delayed_write_rate` to a sixteenth of it in proportion to
//! the distance covered, instead of jumping (RocksDB: `db/column_family.cc`, `RecalculateWriteStallConditions`).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use koeldb_base::sync::lock_plain as lock;
use koeldb_fs::Clock;

/// Why writes are slowed or stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StallCause {
    /// Too many memtables wait for their flush.
    MemtableLimit,
    /// Too many files on level 0.
    Level0FileLimit,
    /// Too many bytes wait for compaction.
    PendingCompactionBytes,
}

/// What writers have to observe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StallCondition {
    /// Nothing.
    Normal,
    /// At most so many bytes a second.
    Delayed {
        /// Why.
        cause: StallCause,
        /// The rate.
        bytes_per_second: u64,
    },
    /// No write at all for the time being.
    Stopped(
        /// Why.
        StallCause,
    ),
}

impl StallCondition {
    /// Why writes wait, and whether they are stopped; nothing if they do not wait.
    pub(crate) fn cause(self) -> Option<(StallCause, bool)> {
        match self {
            StallCondition::Normal => None,
            StallCondition::Delayed { cause, .. } => Some((cause, false)),
            StallCondition::Stopped(cause) => Some((cause, true)),
        }
    }
}

/// The state of one family that stalls depend on, and the limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StallInputs {
    pub(crate) sealed_memtables: usize,
    pub(crate) max_write_buffer_number: usize,
    pub(crate) level0_files: usize,
    pub(crate) level0_slowdown: usize,
    pub(crate) level0_stop: usize,
    pub(crate) pending_bytes: u64,
    pub(crate) soft_pending_bytes: u64,
    pub(crate) hard_pending_bytes: u64,
    pub(crate) delayed_write_rate: u64,
    pub(crate) auto_compactions: bool,
}

/// The rate when `at` of the way from `from` to `to` is covered.
fn slowed(rate: u64, at: u64, from: u64, to: u64) -> u64 {
    let span = to.saturating_sub(from).max(1);
    let left = to.saturating_sub(at).min(span);
    // A family that is being opened does not know its rate yet: it is 0.
    let floor = (rate / 16).max(1);
    let scaled = u128::from(rate.saturating_sub(floor)) * u128::from(left) / u128::from(span);
    floor + u64::try_from(scaled).unwrap_or(rate)
}

/// What the state of one family asks of writers.
pub(crate) fn condition(inputs: &StallInputs) -> StallCondition {
    let StallInputs {
        sealed_memtables,
        max_write_buffer_number,
        level0_files,
        level0_slowdown,
        level0_stop,
        pending_bytes,
        soft_pending_bytes,
        hard_pending_bytes,
        delayed_write_rate,
        auto_compactions,
    } = *inputs;
    if sealed_memtables >= max_write_buffer_number {
        return StallCondition::Stopped(StallCause::MemtableLimit);
    }
    if auto_compactions && level0_files >= level0_stop {
        return StallCondition::Stopped(StallCause::Level0FileLimit);
    }
    if auto_compactions && hard_pending_bytes > 0 && pending_bytes >= hard_pending_bytes {
        return StallCondition::Stopped(StallCause::PendingCompactionBytes);
    }
    let mut delays = Vec::new();
    if max_write_buffer_number > 3 && sealed_memtables + 1 >= max_write_buffer_number {
        delays.push((StallCause::MemtableLimit, delayed_write_rate));
    }
    if auto_compactions && level0_files >= level0_slowdown {
        let rate = slowed(
            delayed_write_rate,
            level0_files as u64,
            level0_slowdown as u64,
            level0_stop as u64,
        );
        delays.push((StallCause::Level0FileLimit, rate));
    }
    if auto_compactions && soft_pending_bytes > 0 && pending_bytes >= soft_pending_bytes {
        let hard = if hard_pending_bytes > 0 {
            hard_pending_bytes
        } else {
            soft_pending_bytes.saturating_mul(4)
        };
        let rate = slowed(delayed_write_rate, pending_bytes, soft_pending_bytes, hard);
        delays.push((StallCause::PendingCompactionBytes, rate));
    }
    delays.into_iter().min_by_key(|&(_, rate)| rate).map_or(
        StallCondition::Normal,
        |(cause, bytes_per_second)| StallCondition::Delayed {
            cause,
            bytes_per_second,
        },
    )
}

const NORMAL: u64 = u64::MAX;
const STOPPED: u64 = 0;

/// What a leader asks before it writes.
#[derive(Debug)]
pub(crate) struct WriteStall {
    /// The permitted bytes a second: `NORMAL`, `STOPPED`, or a rate between.
    rate: AtomicU64,
    changed: Mutex<u64>,
    wake: Condvar,
    next_free: Mutex<Duration>,
}

impl Default for WriteStall {
    fn default() -> Self {
        WriteStall {
            rate: AtomicU64::new(NORMAL),
            changed: Mutex::new(0),
            wake: Condvar::new(),
            next_free: Mutex::new(Duration::ZERO),
        }
    }
}

impl WriteStall {
    /// Sets what holds from now on: the worst of what `conditions` finds. Found and set in one step, so that an older
    /// finding never replaces a newer one.
    pub(crate) fn set<I: IntoIterator<Item = StallCondition>>(
        &self,
        conditions: impl FnOnce() -> I,
    ) {
        let mut changed = lock(&self.changed);
        let rate = conditions()
            .into_iter()
            .map(|condition| match condition {
                StallCondition::Normal => NORMAL,
                StallCondition::Delayed {
                    bytes_per_second, ..
                } => bytes_per_second.max(1),
                StallCondition::Stopped(_) => STOPPED,
            })
            .min()
            .unwrap_or(NORMAL);
        self.rate.store(rate, Ordering::Release);
        *changed += 1;
        self.wake.notify_all();
    }

    /// Wakes writers that wait, to look again.
    pub(crate) fn notify(&self) {
        *lock(&self.changed) += 1;
        self.wake.notify_all();
    }

    /// Whether writes go on undelayed.
    #[inline]
    pub(crate) fn is_normal(&self) -> bool {
        self.rate.load(Ordering::Acquire) == NORMAL
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.rate.load(Ordering::Acquire) == STOPPED
    }

    /// The permitted rate, if there is one.
    pub(crate) fn delayed_rate(&self) -> Option<u64> {
        match self.rate.load(Ordering::Acquire) {
            NORMAL | STOPPED => None,
            rate => Some(rate),
        }
    }

    /// Waits for a change, at most `limit`.
    pub(crate) fn wait(&self, limit: Duration) {
        let seen = lock(&self.changed);
        if self.is_stopped() {
            drop(self.wake.wait_timeout(seen, limit));
        }
    }

    /// Sleeps as long as writing `bytes` bytes at the permitted rate takes, in slices, asking `go_on` between them.
    pub(crate) fn delay(
        &self,
        clock: &dyn Clock,
        bytes: usize,
        go_on: impl Fn() -> koeldb_base::Result<()>,
    ) -> koeldb_base::Result<()> {
        let Some(rate) = self.delayed_rate() else {
            return Ok(());
        };
        let now = clock.now();
        let nanos = (bytes as u64).saturating_mul(1_000_000_000) / rate;
        let until = {
            let mut next_free = lock(&self.next_free);
            *next_free = (*next_free).max(now) + Duration::from_nanos(nanos);
            *next_free
        };
        // Short debts are carried over: a sleep takes at least 50 us whatever it is asked for.
        if until.saturating_sub(now) < Duration::from_millis(1) {
            return Ok(());
        }
        loop {
            let left = until.saturating_sub(clock.now());
            if left.is_zero() || self.is_normal() {
                return Ok(());
            }
            clock.sleep(left.min(Duration::from_millis(50)));
            go_on()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quiet() -> StallInputs {
        StallInputs {
            sealed_memtables: 0,
            max_write_buffer_number: 2,
            level0_files: 0,
            level0_slowdown: 20,
            level0_stop: 36,
            pending_bytes: 0,
            soft_pending_bytes: 64 << 30,
            hard_pending_bytes: 256 << 30,
            delayed_write_rate: 16 << 20,
            auto_compactions: true,
        }
    }

    #[test]
    fn the_rate_falls_steadily_between_slowdown_and_stop() {
        let mut last = u64::MAX;
        for level0_files in 20..36 {
            match condition(&StallInputs {
                level0_files,
                ..quiet()
            }) {
                StallCondition::Delayed {
                    bytes_per_second, ..
                } => {
                    assert!(bytes_per_second < last);
                    last = bytes_per_second;
                }
                other => panic!("{other:?}"),
            }
        }
        let stopped = condition(&StallInputs {
            level0_files: 36,
            ..quiet()
        });
        assert_eq!(
            stopped,
            StallCondition::Stopped(StallCause::Level0FileLimit)
        );
        let off = StallInputs {
            level0_files: 99,
            auto_compactions: false,
            ..quiet()
        };
        assert_eq!(condition(&off), StallCondition::Normal);
    }

    #[test]
    fn full_memtables_stop_writes() {
        let full = StallInputs {
            sealed_memtables: 2,
            ..quiet()
        };
        assert_eq!(
            condition(&full),
            StallCondition::Stopped(StallCause::MemtableLimit)
        );
    }
}
