//! Reads missing blocks (needs): plans and issues device reads, and splits them into blocks.
//!
//! A [`Gather`] belongs to one operation and one driver. All blocks that the operation's probes
//! have missed are planned and begun together, up to a limit of in-flight reads and bytes; the rest
//! follows as reads complete. Each block of a read is verified, decompressed and inserted into the
//! cache separately. A failure concerns one block alone: a failed read for several blocks is
//! repeated for each, and a damaged block is read once more before it counts as damaged.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use koeldb_base::coding::to_usize;
use koeldb_base::stats::{HistogramKind, Ticker};
use koeldb_base::{Error, ErrorKind, Result};
use koeldb_fs::read_driver::{OpId, Outcome, ReadDriver, ReadOp, ReadSession};

use crate::source::plan::{PlanLimits, PlannedRead, plan};
use crate::source::probe::{Need, Needs};
use crate::source::{BlockReadOptions, CachedBlock};

/// The limits for the asynchronous block reads of one operation.
#[derive(Clone, Copy, Debug)]
pub struct GatherOptions {
    /// The limits for merging the reads of neighbouring blocks.
    pub plan: PlanLimits,
    /// The largest number of in-flight reads.
    pub reads_max: usize,
    /// The largest number of in-flight bytes, unless a single read has more.
    pub bytes_max: u64,
    /// The time limit of each read.
    pub io_timeout: Option<Duration>,
}

impl Default for GatherOptions {
    fn default() -> Self {
        GatherOptions {
            plan: PlanLimits::default(),
            reads_max: 128,
            bytes_max: 8 << 20,
            io_timeout: None,
        }
    }
}

/// Counts of the device reads of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GatherCounts {
    /// Reads begun.
    pub reads: u64,
    /// The bytes of these reads.
    pub bytes: u64,
    /// The number of calls of the driver's `flush`.
    pub flushes: u64,
}

/// The longest wait for half of the in-flight reads: several times the latency of a fast device.
const HALF_WAIT: Duration = Duration::from_millis(2);

/// A read that was issued and has not completed.
#[derive(Debug)]
struct InFlightRead {
    id: OpId,
    read: PlannedRead,
    /// Whether the read repeats one that returned a damaged block.
    is_again: bool,
    /// The time at which the read times out, on the driver's clock.
    expires: Option<Duration>,
}

/// An executor that reads the missing blocks of one operation asynchronously.
#[derive(Debug)]
pub struct Gather<D> {
    driver: D,
    options: GatherOptions,
    blocks: BlockReadOptions,
    /// Planned reads, and whether each repeats a read that returned a damaged block.
    queue: VecDeque<(PlannedRead, bool)>,
    flights: Vec<InFlightRead>,
    flying_bytes: u64,
    counts: GatherCounts,
}

impl<D: ReadDriver> Gather<D> {
    /// Creates an executor that reads through `driver`, with the options `blocks` for the blocks.
    #[must_use]
    pub fn new(driver: D, blocks: BlockReadOptions, options: GatherOptions) -> Self {
        Gather {
            driver,
            options,
            blocks,
            queue: VecDeque::new(),
            flights: Vec::new(),
            flying_bytes: 0,
            counts: GatherCounts::default(),
        }
    }

    /// Whether no read is planned or in flight.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.flights.is_empty()
    }

    /// The number of reads begun so far, with their bytes and flushes.
    #[must_use]
    pub fn counts(&self) -> GatherCounts {
        self.counts
    }

    /// Begins to read all missing blocks in `needs`; returns the number of reads begun.
    ///
    /// `now` is the time on the driver's clock, for reads with a time limit.
    pub fn start(&mut self, needs: &mut Needs, now: Duration) -> u64 {
        let wanted = needs.take_wanted();
        let planned = plan(needs, &wanted, &self.options.plan);
        self.queue
            .extend(planned.into_iter().map(|read| (read, false)));
        self.launch(now)
    }

    /// Issues planned reads as far as the limits allow; returns their number.
    fn launch(&mut self, now: Duration) -> u64 {
        let mut launched = 0_u64;
        while let Some((read, is_again)) = self.queue.pop_front() {
            let bytes = self.flying_bytes.saturating_add(read.bytes);
            let is_full =
                self.flights.len() >= self.options.reads_max || bytes > self.options.bytes_max;
            if is_full && !self.flights.is_empty() {
                self.queue.push_front((read, is_again));
                break;
            }
            if let Some(statistics) = &read.file.statistics {
                statistics.record(HistogramKind::AsyncReadBytes, read.bytes);
            }
            self.blocks.pay(read.bytes);
            let op = ReadOp::new(&read.file.file, read.offset, to_usize(read.bytes));
            self.flying_bytes = bytes;
            self.counts.reads = self.counts.reads.saturating_add(1);
            self.counts.bytes = self.counts.bytes.saturating_add(read.bytes);
            self.flights.push(InFlightRead {
                id: self.driver.push(op),
                read,
                is_again,
                expires: (self.options.io_timeout).map(|limit| now.saturating_add(limit)),
            });
            launched = launched.saturating_add(1);
        }
        if launched > 0 {
            self.counts.flushes = self.counts.flushes.saturating_add(1);
            self.driver.flush();
        }
        launched
    }

    /// Waits until at least one missing block was read or has failed; returns whether one was.
    ///
    /// False if nothing is in flight, or `until` comes first. `now` returns the time on the
    /// driver's clock.
    ///
    /// Waking up for each read costs more than the work that could be done meanwhile: it waits for
    /// half of the in-flight reads, but two milliseconds at most, so that the slowest reads do not
    /// delay the others.
    pub fn settle_some(
        &mut self,
        needs: &mut Needs,
        until: Option<Duration>,
        now: impl Fn() -> Duration,
    ) -> bool {
        loop {
            if self.flights.is_empty() && self.launch(now()) == 0 {
                return false;
            }
            let expires = self
                .flights
                .iter()
                .filter_map(|flight| flight.expires)
                .min();
            let limit = match (until, expires) {
                (Some(until), Some(expires)) => Some(until.min(expires)),
                (until, expires) => until.or(expires),
            };
            let mut arrived = Vec::new();
            let half = self.flights.len().div_ceil(2);
            let soon = now().saturating_add(HALF_WAIT);
            let soon = limit.map_or(soon, |limit| limit.min(soon));
            let mut take = |id, outcome| arrived.push((id, outcome));
            if self.driver.reap(half, Some(soon), &mut take) == 0 {
                self.driver.reap(1, limit, &mut take);
            }
            let mut settled = false;
            for (id, outcome) in arrived {
                settled |= self.land(needs, id, &outcome);
            }
            if let Some(limit) = limit {
                let time = now();
                if time >= limit {
                    settled |= self.give_up_expired(needs, time);
                    if !settled && until.is_some_and(|until| time >= until) {
                        return false;
                    }
                }
                self.launch(time);
            } else if !self.queue.is_empty() {
                self.launch(Duration::ZERO);
            }
            if settled {
                return true;
            }
        }
    }

    /// Processes a completed read: decodes its blocks, or plans separate reads for failed ones.
    fn land(&mut self, needs: &mut Needs, id: OpId, outcome: &Outcome) -> bool {
        let Some(at) = self.flights.iter().position(|flight| flight.id == id) else {
            return false;
        };
        let flight = self.flights.swap_remove(at);
        let InFlightRead { read, is_again, .. } = flight;
        self.flying_bytes = self.flying_bytes.saturating_sub(read.bytes);
        if let Some(statistics) = &read.file.statistics {
            let micros = u64::try_from(outcome.latency.as_micros()).unwrap_or(u64::MAX);
            statistics.add(Ticker::ReadAsyncMicros, micros);
            if outcome.result.is_err() {
                statistics.add(Ticker::AsyncReadErrorCount, 1);
            }
        }
        let is_shared = read.needs.len() > 1;
        let mut settled = false;
        for &id in &read.needs {
            let Some(need) = needs.get(id) else { continue };
            let loaded = match &outcome.result {
                Ok(bytes) => self.block_in(bytes, read.offset, need),
                Err(error) => Err(error.clone()),
            };
            let is_damaged = outcome.result.is_ok();
            match loaded {
                Err(_) if is_shared || (is_damaged && !is_again) => {
                    let again = PlannedRead::of_one(needs, id);
                    self.queue.extend(again.map(|again| (again, is_damaged)));
                }
                loaded => {
                    needs.settle(id, loaded);
                    settled = true;
                }
            }
        }
        settled
    }

    /// Decodes the missing block `need` from `bytes`, which were read at file offset `offset`.
    fn block_in(&self, bytes: &[u8], offset: u64, need: &Need) -> Result<Arc<CachedBlock>> {
        let Need {
            file, handle, kind, ..
        } = need;
        let len = file.stored_bytes(*handle, *kind)?;
        let from = handle.offset.saturating_sub(offset);
        let stored = bytes
            .get(to_usize(from)..to_usize(from.saturating_add(len)))
            .ok_or_else(|| {
                let found = (bytes.len() as u64).saturating_sub(from);
                Error::corruption(format!(
                    "file is truncated: expected {len} bytes, found {found}"
                ))
                .in_file(file.file.path(), Some(handle.offset), "read")
            })?;
        let block = file.decode(*handle, *kind, stored, self.blocks.verify_checksums)?;
        let block = Arc::new(block);
        if self.blocks.fill_cache {
            file.publish(*handle, *kind, &block);
        }
        Ok(block)
    }

    /// Abandons timed-out reads and fails their blocks (`TimedOut`); returns whether any has.
    fn give_up_expired(&mut self, needs: &mut Needs, now: Duration) -> bool {
        let mut settled = false;
        let mut at = 0;
        while let Some(flight) = self.flights.get(at) {
            if flight.expires.is_none_or(|expires| expires > now) {
                at = at.saturating_add(1);
                continue;
            }
            let InFlightRead { id, read, .. } = self.flights.swap_remove(at);
            self.driver.orphan(id, true);
            self.flying_bytes = self.flying_bytes.saturating_sub(read.bytes);
            for &id in &read.needs {
                needs.settle(id, Err(timed_out(&read)));
                settled = true;
            }
        }
        settled
    }

    /// Abandons all planned and in-flight reads, whose blocks stay missing.
    pub fn abandon(&mut self) {
        self.queue.clear();
        self.flying_bytes = 0;
        for flight in self.flights.drain(..) {
            self.driver.orphan(flight.id, true);
        }
    }
}

impl Gather<ReadSession> {
    /// Polls [`Gather::settle_some`]: the next completed read wakes the task of `context`.
    ///
    /// `now` is the time on the driver's clock.
    pub fn poll_settle_some(
        &mut self,
        needs: &mut Needs,
        context: &mut Context<'_>,
        now: Duration,
    ) -> Poll<bool> {
        let mut settled = false;
        loop {
            settled |= self.give_up_expired(needs, now);
            self.launch(now);
            if settled || self.flights.is_empty() {
                return Poll::Ready(settled);
            }
            let mut arrived = Vec::new();
            let reaped = self
                .driver
                .poll_reap(context, &mut |id, outcome| arrived.push((id, outcome)));
            if reaped.is_pending() {
                return Poll::Pending;
            }
            for (id, outcome) in arrived {
                settled |= self.land(needs, id, &outcome);
            }
        }
    }
}

/// Creates the `TimedOut` error of a read whose deadline has passed.
#[cold]
pub(crate) fn too_late() -> Error {
    Error::with_kind(ErrorKind::TimedOut, "the deadline of the read has passed")
}

/// Creates the `TimedOut` error of a device read that took longer than `io_timeout`.
#[cold]
fn timed_out(read: &PlannedRead) -> Error {
    Error::with_kind(
        ErrorKind::TimedOut,
        "the read takes longer than `io_timeout`",
    )
    .in_file(read.file.file.path(), Some(read.offset), "read")
}
