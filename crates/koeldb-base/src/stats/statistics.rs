//! The statistics handle, through which threads find their slots and readers sum over them.

use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::histogram::HistogramData;
use super::level::StatsLevel;
use super::names::{HistogramKind, Ticker};
use super::slot::Slot;
use crate::sync::Padded;

/// Tickers and histograms of one or more databases. Clones share the same counters.
#[derive(Clone, Default)]
pub struct Statistics {
    shared: Arc<Shared>,
}

/// The state shared by the clones of a statistics object.
struct Shared {
    /// The [`StatsLevel`].
    level: AtomicU8,
    /// The slots and totals, on cache lines apart from the level, which each count reads.
    registry: Padded<Mutex<Registry>>,
}

impl Default for Shared {
    fn default() -> Self {
        Shared {
            level: AtomicU8::new(StatsLevel::default() as u8),
            registry: Padded::default(),
        }
    }
}

/// The slots of all living threads, and the totals of the threads that have ended.
#[derive(Default)]
struct Registry {
    /// The slots of living threads.
    slots: Vec<Arc<Slot>>,
    /// The totals of threads that ended.
    ended: Totals,
}

impl Shared {
    /// Locks the registry of slots and totals.
    fn registry(&self) -> MutexGuard<'_, Registry> {
        // No code that panics runs under the lock, and the sums are valid at any point.
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The registration of this thread's slot with one [`Statistics`].
///
/// The weak reference prevents reuse of the address.
struct Membership {
    shared: Weak<Shared>,
    slot: Arc<Slot>,
}

impl Drop for Membership {
    /// Adds the counts of the ending thread to the totals.
    fn drop(&mut self) {
        let Some(shared) = self.shared.upgrade() else {
            return;
        };
        let mut registry = shared.registry();
        let before = registry.slots.len();
        registry.slots.retain(|slot| !Arc::ptr_eq(slot, &self.slot));
        if registry.slots.len() < before {
            registry.ended.add(&self.slot);
        }
    }
}

thread_local! {
    /// The slots of this thread, one for each [`Statistics`] that it counts in.
    static MEMBERSHIPS: RefCell<Vec<Membership>> = const { RefCell::new(Vec::new()) };
}

impl Statistics {
    /// Creates statistics with all counts at zero.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the [`StatsLevel`], which selects the statistics that are kept.
    pub fn set_level(&self, level: StatsLevel) {
        self.shared.level.store(level as u8, Ordering::Relaxed);
    }

    /// The [`StatsLevel`], which selects the statistics that are kept.
    #[must_use]
    pub fn level(&self) -> StatsLevel {
        StatsLevel::from_number(self.shared.level.load(Ordering::Relaxed)).unwrap_or_default()
    }

    /// Whether the level is above `level`.
    #[inline]
    fn is_above(&self, level: StatsLevel) -> bool {
        self.shared.level.load(Ordering::Relaxed) > level as u8
    }

    /// Adds `count` to a ticker.
    #[inline]
    pub fn add(&self, ticker: Ticker, count: u64) {
        if self.is_above(StatsLevel::DisableAll) {
            self.with_slot(|slot| slot.add(ticker, count));
        }
    }

    /// Adds to several tickers, for little more than the cost of one [`Statistics::add`].
    #[inline]
    pub fn add_all(&self, counts: &[(Ticker, u64)]) {
        if !self.is_above(StatsLevel::DisableAll) {
            return;
        }
        self.with_slot(|slot| {
            for &(ticker, count) in counts {
                slot.add(ticker, count);
            }
        });
    }

    /// Records a value in a histogram.
    #[inline]
    pub fn record(&self, kind: HistogramKind, value: u64) {
        let is_kept = self.is_above(StatsLevel::ExceptTimers)
            || (self.is_above(StatsLevel::ExceptHistogramOrTimers) && !kind.is_time());
        if is_kept {
            self.with_slot(|slot| slot.record(kind, value));
        }
    }

    /// Records a time, in microseconds, in a histogram.
    pub fn record_micros(&self, kind: HistogramKind, time: Duration) {
        self.record(kind, u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }

    /// The total of a ticker.
    #[must_use]
    pub fn ticker(&self, ticker: Ticker) -> u64 {
        let registry = self.shared.registry();
        let living = registry.slots.iter().map(|slot| slot.ticker(ticker));
        living.fold(registry.ended.tickers[ticker.index()], u64::wrapping_add)
    }

    /// The histogram `kind`, merged over all threads.
    #[must_use]
    pub fn histogram(&self, kind: HistogramKind) -> HistogramData {
        let registry = self.shared.registry();
        let mut total = registry.ended.histograms[kind.index()].clone();
        for slot in &registry.slots {
            slot.merge_into(kind, &mut total);
        }
        total
    }

    /// Returns a snapshot of all tickers and histograms.
    #[must_use]
    pub fn snapshot(&self) -> StatisticsSnapshot {
        let registry = self.shared.registry();
        let mut totals = registry.ended.clone();
        for slot in &registry.slots {
            totals.add(slot);
        }
        StatisticsSnapshot { totals }
    }

    /// Resets all counts. Counts that other threads add concurrently may be lost.
    pub fn reset(&self) {
        let mut registry = self.shared.registry();
        for slot in registry.slots.drain(..) {
            slot.retire();
        }
        registry.ended = Totals::default();
    }

    /// Calls `count` with this thread's slot, which is created and registered on first use.
    #[inline]
    fn with_slot(&self, count: impl FnOnce(&Slot)) {
        let address = Arc::as_ptr(&self.shared);
        // Thread-local storage may be gone when destructors count; only the count is lost then.
        let _ = MEMBERSHIPS.try_with(|memberships| {
            if let Ok(memberships) = memberships.try_borrow()
                && let Some(found) = memberships
                    .iter()
                    .find(|membership| membership.shared.as_ptr() == address)
                && !found.slot.is_retired()
            {
                count(&found.slot);
            } else {
                count(&self.join(memberships));
            }
        });
    }

    /// Creates this thread's slot and registers it with the statistics.
    #[cold]
    fn join(&self, memberships: &RefCell<Vec<Membership>>) -> Arc<Slot> {
        let slot = Arc::new(Slot::new());
        let mut stale = Vec::new();
        if let Ok(mut memberships) = memberships.try_borrow_mut() {
            stale = memberships
                .extract_if(.., |membership| {
                    membership.shared.strong_count() == 0 || membership.slot.is_retired()
                })
                .collect();
            memberships.push(Membership {
                shared: Arc::downgrade(&self.shared),
                slot: Arc::clone(&slot),
            });
        }
        drop(stale);
        self.shared.registry().slots.push(Arc::clone(&slot));
        slot
    }
}

impl fmt::Debug for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let threads = self.shared.registry().slots.len();
        write!(f, "Statistics({threads} threads)")
    }
}

impl fmt::Display for Statistics {
    /// Formats the statistics like RocksDB: one line for each ticker and each histogram.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.snapshot().fmt(f)
    }
}

/// The sums of tickers and histograms over slots.
#[derive(Clone, Debug)]
struct Totals {
    tickers: [u64; Ticker::COUNT],
    histograms: Vec<HistogramData>,
}

impl Default for Totals {
    fn default() -> Self {
        Totals {
            tickers: [0; Ticker::COUNT],
            histograms: vec![HistogramData::EMPTY; HistogramKind::COUNT],
        }
    }
}

impl Totals {
    /// Adds the counts of a slot.
    fn add(&mut self, slot: &Slot) {
        for ticker in Ticker::all() {
            let total = &mut self.tickers[ticker.index()];
            *total = total.wrapping_add(slot.ticker(ticker));
        }
        for kind in HistogramKind::all() {
            slot.merge_into(kind, &mut self.histograms[kind.index()]);
        }
    }
}

/// A snapshot of all tickers and histograms of a [`Statistics`].
#[derive(Clone, Debug)]
pub struct StatisticsSnapshot {
    totals: Totals,
}

impl StatisticsSnapshot {
    /// The total of a ticker.
    #[must_use]
    pub fn ticker(&self, ticker: Ticker) -> u64 {
        self.totals.tickers[ticker.index()]
    }

    /// The histogram `kind`.
    #[must_use]
    pub fn histogram(&self, kind: HistogramKind) -> &HistogramData {
        &self.totals.histograms[kind.index()]
    }

    /// The counts added between `earlier` and this snapshot.
    ///
    /// Minimum and maximum are only as precise as the buckets of the histograms.
    #[must_use]
    pub fn since(&self, earlier: &StatisticsSnapshot) -> StatisticsSnapshot {
        let mut totals = self.totals.clone();
        for (total, before) in totals.tickers.iter_mut().zip(&earlier.totals.tickers) {
            *total = total.wrapping_sub(*before);
        }
        let before = &earlier.totals.histograms;
        for (total, before) in totals.histograms.iter_mut().zip(before) {
            *total = total.since(before);
        }
        StatisticsSnapshot { totals }
    }
}

impl fmt::Display for StatisticsSnapshot {
    /// Formats the snapshot like RocksDB: one line for each ticker and each histogram.
    #[expect(clippy::cast_precision_loss, reason = "a number to read")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ticker in Ticker::all() {
            writeln!(f, "{} COUNT : {}", ticker.name(), self.ticker(ticker))?;
        }
        for kind in HistogramKind::all() {
            let data = self.histogram(kind);
            writeln!(
                f,
                "{} P50 : {:.6} P95 : {:.6} P99 : {:.6} P100 : {:.6} COUNT : {} SUM : {}",
                kind.name(),
                data.median(),
                data.percentile(95.0),
                data.percentile(99.0),
                data.max as f64,
                data.count,
                data.sum
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
