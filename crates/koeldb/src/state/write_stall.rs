//! Write stalls: slow writers down smoothly before the tree is overwhelmed.
//!
//! Writes are stopped only where memory or the tree would otherwise grow without bound. Each column
//! family has a [`StallCondition`], which applies to the batches that write to it: a write waits
//! before it is queued, and never for a column family that it does not touch.
//!
//! Between the slowdown and the stop trigger, the permitted rate falls linearly from
//! `delayed_write_rate` to a sixteenth of it, instead of abruptly (RocksDB: `db/column_family.cc`,
//! `RecalculateWriteStallConditions`). Before the slowdown trigger of level 0, writers keep the pace
//! of compactions ([`Pacer`]), which is no stall: no condition changes, and no write is refused.

mod pace;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use koeldb_base::sync::lock_plain as lock;
use koeldb_fs::Clock;

use crate::report::{StallCause, StallCondition};

pub(crate) use pace::{Level0, Pacer};

/// The state and the limits of a column family that determine its stall condition.
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

/// Returns the delayed write rate at `at`, linear from slowdown trigger `from` to the stop at `to`.
fn slowed(rate: u64, at: u64, from: u64, to: u64) -> u64 {
    let span = to.saturating_sub(from).max(1);
    let left = to.saturating_sub(at).min(span);
    // The rate of a column family that is being opened is not set yet: 0.
    let floor = (rate / 16).max(1);
    let scaled = u128::from(rate.saturating_sub(floor)) * u128::from(left) / u128::from(span);
    floor + u64::try_from(scaled).unwrap_or(rate)
}

/// Computes the stall condition of one column family: normal, delayed or stopped.
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

/// Whether compactions of one column family lag behind its writes.
///
/// That is so in a stall, and on the way to one: with twice as many files on level 0 as trigger a
/// compaction, or a quarter of the way from that trigger to a slowdown, whichever are fewer; or with
/// a quarter of the soft limit of bytes to compact. Source: RocksDB's write controller.
pub(crate) fn compactions_lag(inputs: &StallInputs, level0_trigger: usize) -> bool {
    if condition(inputs) != StallCondition::Normal {
        return true;
    }
    let level0_lag = level0_lag(level0_trigger, inputs.level0_slowdown);
    let soft = inputs.soft_pending_bytes;
    inputs.auto_compactions
        && (inputs.level0_files >= level0_lag.max(1)
            || soft > 0 && inputs.pending_bytes >= soft / 4)
}

/// Returns the number of level-0 files from which compactions are considered to lag.
fn level0_lag(trigger: usize, slowdown: usize) -> usize {
    let quarter = slowdown.saturating_sub(trigger) / 4;
    trigger.saturating_mul(2).min(trigger + quarter)
}

/// The rate of a column family whose writes are not limited.
const NORMAL: u64 = u64::MAX;
/// The rate of a column family whose writes are stopped.
const STOPPED: u64 = 0;

/// The database-wide inputs of stall conditions and paces: the time and `delayed_write_rate`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StallContext {
    /// The time on the clock of the database.
    pub(crate) now: Duration,
    /// The option of this name, in bytes per second.
    pub(crate) delayed_write_rate: u64,
}

/// The stall state that a write checks before it is queued.
#[derive(Debug)]
pub(crate) struct WriteStall {
    /// The least permitted bytes per second of all column families, by a stall or a pace: `NORMAL`,
    /// `STOPPED`, or a rate between the two.
    rate: AtomicU64,
    limits: Mutex<Limits>,
    wake: Condvar,
    /// Whether writes are delayed or stopped: raises the priority of background I/O.
    urgent: Arc<AtomicBool>,
}

/// The write rate limits of the column families that are stalled or paced.
#[derive(Debug, Default)]
struct Limits {
    by_family: BTreeMap<u32, Limit>,
}

/// The write rate limit of one column family, by a stall or a pace.
#[derive(Debug)]
struct Limit {
    rate: u64,
    /// Whether the rate is a pace, before any stall.
    is_pace: bool,
    account: Account,
}

/// Returns the lowest rate of some limits; `NORMAL` if there are none.
fn least<'l>(limits: impl Iterator<Item = &'l Limit>) -> u64 {
    limits.map(|limit| limit.rate).min().unwrap_or(NORMAL)
}

impl Limits {
    /// Returns the write rate limits of those of `families` that have one.
    fn of(&self, families: &[u32]) -> impl Iterator<Item = &Limit> {
        families.iter().filter_map(|id| self.by_family.get(id))
    }

    /// Returns the lowest stall rate of `families`: `NORMAL` if none of them is stalled.
    fn rate_of(&self, families: &[u32]) -> u64 {
        least(self.of(families).filter(|limit| !limit.is_pace))
    }

    /// Returns the lowest stall rate of all column families: `NORMAL` if none is stalled.
    fn stalled_rate(&self) -> u64 {
        least(self.by_family.values().filter(|limit| !limit.is_pace))
    }
}

/// Returns the time that writing `bytes` takes at this rate.
pub(crate) fn cost(bytes: usize, bytes_per_second: u64) -> Duration {
    Duration::from_nanos((bytes as u64).saturating_mul(1_000_000_000) / bytes_per_second)
}

/// The maximum time by which writes may be ahead of the pace, and for which a write sleeps.
const AHEAD_MAX: Duration = Duration::from_millis(100);

/// The schedule of the delayed or paced writes to one column family.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    /// The time at which the writes so far have used up their share of the rate.
    next_free: Duration,
    /// The time waited by writes that then gave up, credited to the next write.
    credit: Duration,
}

/// The time slot that a delayed write has reserved at one column family.
#[derive(Clone, Copy, Debug)]
struct Booking {
    family: u32,
    begin: Duration,
    end: Duration,
    /// The time that the bytes take at the permitted rate.
    cost: Duration,
}

impl Account {
    /// Reserves the next time slot for a delayed write, whose bytes take `cost` at its rate.
    fn book(&mut self, family: u32, now: Duration, cost: Duration) -> Booking {
        let begin = self.next_free.max(now);
        let end = begin + cost.saturating_sub(self.credit);
        self.next_free = end;
        self.credit = self.credit.saturating_sub(cost);
        Booking {
            family,
            begin,
            end,
            cost,
        }
    }

    /// Reserves time for a paced write; returns the time at which the next one may begin.
    ///
    /// Sleeps last longer than they should: writes may be behind the pace by 2 ms without losing that
    /// time. They may be ahead of it by [`AHEAD_MAX`].
    fn keep_pace(&mut self, now: Duration, cost: Duration) -> Duration {
        const BEHIND_MAX: Duration = Duration::from_millis(2);
        let begin = self.next_free.max(now.saturating_sub(BEHIND_MAX));
        self.next_free = (begin + cost).min(now + AHEAD_MAX);
        self.next_free
    }

    /// Cancels the reservation of a write that gave up at `now`, and credits the time it waited.
    ///
    /// Its wait is credited to the next write: otherwise a write that costs more than the time
    /// limit of its writer would never succeed.
    fn give_up(&mut self, booking: Booking, now: Duration) {
        let booked = booking.end - booking.begin;
        let waited = now.saturating_sub(booking.begin);
        self.next_free = self.next_free.saturating_sub(booked);
        let used = booking.cost - booked.min(booking.cost);
        self.credit = (self.credit + used + waited).min(booking.cost);
    }
}

impl Default for WriteStall {
    fn default() -> Self {
        WriteStall {
            rate: AtomicU64::new(NORMAL),
            limits: Mutex::default(),
            wake: Condvar::new(),
            urgent: Arc::default(),
        }
    }
}

impl WriteStall {
    /// Creates the state without a stall; `urgent` is set while writes are delayed or stopped.
    pub(crate) fn new(urgent: &Arc<AtomicBool>) -> Self {
        WriteStall {
            urgent: Arc::clone(urgent),
            ..WriteStall::default()
        }
    }

    /// Sets the stall condition of a column family, and the pace of its writers without a stall.
    ///
    /// Computing and setting it is one step, so that an older result never replaces a newer one.
    pub(crate) fn set(&self, family: u32, condition: StallCondition, pace: Option<u64>) {
        let is_pace = condition == StallCondition::Normal;
        let rate = match condition {
            StallCondition::Normal => pace.map_or(NORMAL, |pace| pace.max(1)),
            StallCondition::Delayed {
                bytes_per_second, ..
            } => bytes_per_second.max(1),
            StallCondition::Stopped(_) => STOPPED,
        };
        let mut limits = lock(&self.limits);
        let before = limits.by_family.get(&family);
        let before = before.map_or((NORMAL, true), |limit| (limit.rate, limit.is_pace));
        if before == (rate, is_pace) {
            return;
        }
        match limits.by_family.get_mut(&family) {
            // The next slowdown does not claim what is booked.
            _ if rate == NORMAL => drop(limits.by_family.remove(&family)),
            Some(limit) if limit.is_pace == is_pace => limit.rate = rate,
            // Nor does a stall claim what is booked for the pace.
            _ => {
                let account = Account::default();
                let limit = Limit {
                    rate,
                    is_pace,
                    account,
                };
                limits.by_family.insert(family, limit);
            }
        }
        let rate = least(limits.by_family.values());
        self.rate.store(rate, Ordering::Release);
        let is_stalled = limits.stalled_rate() != NORMAL;
        self.urgent.store(is_stalled, Ordering::Relaxed);
        self.wake.notify_all();
    }

    /// Wakes waiting writers to check again.
    pub(crate) fn notify(&self) {
        drop(lock(&self.limits));
        self.wake.notify_all();
    }

    /// Whether no column family limits writes, by a stall or a pace.
    #[inline]
    pub(crate) fn is_normal(&self) -> bool {
        self.rate.load(Ordering::Acquire) == NORMAL
    }

    /// Whether the writes to at least one column family are stopped.
    pub(crate) fn is_stopped(&self) -> bool {
        self.rate.load(Ordering::Acquire) == STOPPED
    }

    /// Whether the writes to any of `families` are delayed or stopped.
    pub(crate) fn limits(&self, families: &[u32]) -> bool {
        !self.is_normal() && lock(&self.limits).rate_of(families) != NORMAL
    }

    /// Whether the writes to any of `families` are stopped.
    pub(crate) fn stops(&self, families: &[u32]) -> bool {
        self.is_stopped() && lock(&self.limits).rate_of(families) == STOPPED
    }

    /// Returns the lowest delayed write rate of all column families; `None` if none or stopped.
    pub(crate) fn delayed_rate(&self) -> Option<u64> {
        match lock(&self.limits).stalled_rate() {
            NORMAL | STOPPED => None,
            rate => Some(rate),
        }
    }

    /// Waits for one change, at most `limit`, if writes to any of `families` are stopped.
    pub(crate) fn wait(&self, families: &[u32], limit: Duration) {
        let seen = lock(&self.limits);
        if seen.rate_of(families) == STOPPED {
            drop(self.wake.wait_timeout(seen, limit));
        }
    }

    /// Delays a write by the time that its `bytes` take at the stall rates of `families`.
    ///
    /// `go_on` is called between slices. A write that gives up returns the time that it booked.
    pub(crate) fn delay(
        &self,
        clock: &dyn Clock,
        families: &[u32],
        bytes: usize,
        go_on: impl Fn() -> koeldb_base::Result<()>,
    ) -> koeldb_base::Result<()> {
        let begun = clock.now();
        let bookings = self.book(families, bytes, begun);
        let ends = bookings.iter().map(|booking| booking.end);
        let end = ends.max().unwrap_or_default();
        // Short debts are carried over: a sleep takes at least 50 us, however short.
        if end.saturating_sub(begun) < Duration::from_millis(1) {
            return Ok(());
        }
        loop {
            let now = clock.now();
            if now >= end || !self.limits(families) {
                return Ok(());
            }
            clock.sleep((end - now).min(Duration::from_millis(50)));
            if let Err(error) = go_on() {
                let mut limits = lock(&self.limits);
                for booking in bookings {
                    if let Some(limit) = limits.by_family.get_mut(&booking.family) {
                        limit.account.give_up(booking, clock.now());
                    }
                }
                return Err(error);
            }
        }
    }

    /// Sleeps to keep a write of `bytes` within the pace of `families`, for at most `limit`.
    ///
    /// Returns the time slept.
    pub(crate) fn keep_pace(
        &self,
        clock: &dyn Clock,
        families: &[u32],
        bytes: usize,
        limit: Duration,
    ) -> Duration {
        // Shorter debts are carried over: a sleep takes at least 50 us, however short.
        const DEBT_MIN: Duration = Duration::from_micros(100);
        let begun = clock.now();
        let mut end = begun;
        let mut limits = lock(&self.limits);
        for family in families {
            if let Some(limit) = limits.by_family.get_mut(family)
                && limit.is_pace
            {
                let cost = cost(bytes, limit.rate);
                end = end.max(limit.account.keep_pace(begun, cost));
            }
        }
        drop(limits);
        let debt = end - begun;
        if debt < DEBT_MIN {
            return Duration::ZERO;
        }
        clock.sleep(debt.min(limit));
        clock.now().saturating_sub(begun)
    }

    /// Reserves time slots for a delayed write of `bytes` at each of `families` that is delayed.
    fn book(&self, families: &[u32], bytes: usize, now: Duration) -> Vec<Booking> {
        let mut bookings = Vec::new();
        let mut limits = lock(&self.limits);
        for &family in families {
            if let Some(limit) = limits.by_family.get_mut(&family)
                && !limit.is_pace
                && limit.rate != STOPPED
            {
                let cost = cost(bytes, limit.rate);
                bookings.push(limit.account.book(family, now, cost));
            }
        }
        bookings
    }
}

#[cfg(test)]
mod tests {
    use koeldb_base::{Error, ErrorKind, Result};
    use koeldb_fs::ManualClock;

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

    /// Writes at most 1,000 bytes a second.
    fn slowed_writes() -> WriteStall {
        let stall = WriteStall::default();
        slow_down(&stall);
        stall
    }

    fn slow_down(stall: &WriteStall) {
        let condition = StallCondition::Delayed {
            cause: StallCause::Level0FileLimit,
            bytes_per_second: 1000,
        };
        stall.set(0, condition, None);
    }

    fn patient() -> Result<()> {
        Ok(())
    }

    /// A write that waits for `patience`.
    fn write_within(
        stall: &WriteStall,
        clock: &ManualClock,
        bytes: usize,
        patience: Duration,
    ) -> Result<()> {
        let until = clock.now() + patience;
        stall.delay(clock, &[0], bytes, || match clock.now() < until {
            true => Ok(()),
            false => Err(Error::with_kind(ErrorKind::TimedOut, "no patience")),
        })
    }

    #[test]
    fn a_write_that_gives_up_leaves_no_debt() {
        let (stall, clock) = (slowed_writes(), ManualClock::new());
        for _ in 0..100 {
            write_within(&stall, &clock, 60_000, Duration::from_millis(100)).unwrap_err();
        }
        let begun = clock.now();
        stall.delay(&clock, &[0], 500, patient).unwrap();
        assert!(clock.now() - begun <= Duration::from_millis(500));
    }

    #[test]
    fn a_write_that_costs_more_than_its_patience_succeeds_at_the_permitted_rate() {
        let (stall, clock) = (slowed_writes(), ManualClock::new());
        for _ in 0..3 {
            let begun = clock.now();
            while write_within(&stall, &clock, 2000, Duration::from_millis(300)).is_err() {
                assert!(clock.now() - begun < Duration::from_secs(5));
            }
            let elapsed = clock.now() - begun;
            assert!(elapsed >= Duration::from_millis(1900), "{elapsed:?}");
        }
    }

    #[test]
    fn a_slowdown_begins_without_the_debt_of_the_one_before() {
        let (stall, clock) = (slowed_writes(), ManualClock::new());
        let rounds = std::cell::Cell::new(0);
        let ends_early = || {
            rounds.set(rounds.get() + 1);
            if rounds.get() == 2 {
                stall.set(0, StallCondition::Normal, None);
            }
            Ok(())
        };
        stall.delay(&clock, &[0], 1_000_000, ends_early).unwrap();
        assert!(clock.now() < Duration::from_secs(1));
        slow_down(&stall);
        stall.delay(&clock, &[0], 500, patient).unwrap();
        assert!(clock.now() < Duration::from_secs(2), "{:?}", clock.now());
    }

    #[test]
    fn a_family_limits_only_the_writes_to_it() {
        let (stall, clock) = (slowed_writes(), ManualClock::new());
        stall.set(7, StallCondition::Stopped(StallCause::MemtableLimit), None);
        assert!(stall.is_stopped() && stall.stops(&[1, 7]) && stall.limits(&[0]));
        assert!(!stall.stops(&[0, 1]) && !stall.limits(&[1]));
        stall.delay(&clock, &[1], 1_000_000, patient).unwrap();
        assert_eq!(clock.now(), Duration::ZERO);
        stall.delay(&clock, &[0, 1], 500, patient).unwrap();
        assert_eq!(clock.now(), Duration::from_millis(500));
        stall.set(7, StallCondition::Normal, None);
        assert!(!stall.is_stopped() && !stall.stops(&[7]) && stall.limits(&[0]));
    }

    #[test]
    fn a_pace_delays_writes_and_is_no_stall() {
        let (stall, clock) = (WriteStall::default(), ManualClock::new());
        clock.advance(Duration::from_secs(1));
        stall.set(0, StallCondition::Normal, Some(1_000_000));
        assert!(!stall.is_normal() && !stall.limits(&[0]) && !stall.is_stopped());
        assert_eq!(stall.delayed_rate(), None);
        let begun = clock.now();
        for _ in 0..10_000 {
            stall.keep_pace(&clock, &[0], 100, Duration::from_secs(1));
        }
        let elapsed = clock.now() - begun;
        let expected = Duration::from_millis(990)..Duration::from_millis(1010);
        assert!(expected.contains(&elapsed), "{elapsed:?}");
        // Another family has no pace.
        let free = stall.keep_pace(&clock, &[1], 1_000_000, Duration::MAX);
        assert_eq!(free, Duration::ZERO);
        // A large write owes a bounded time, which a stall does not claim.
        for _ in 0..3 {
            let slept = stall.keep_pace(&clock, &[0, 1], 500_000, Duration::from_millis(10));
            assert_eq!(slept, Duration::from_millis(10));
        }
        slow_down(&stall);
        let begun = clock.now();
        stall.delay(&clock, &[0], 50, patient).unwrap();
        assert_eq!(clock.now() - begun, Duration::from_millis(50));
        stall.set(1, StallCondition::Normal, Some(1));
        stall.delay(&clock, &[0, 1], 50, patient).unwrap();
        assert_eq!(clock.now() - begun, Duration::from_millis(100));
        for family in [0, 1] {
            stall.set(family, StallCondition::Normal, None);
        }
        assert!(stall.is_normal());
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
