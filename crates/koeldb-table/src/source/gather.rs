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

use crate::source::flights::{FlightLimits, Flights};
use crate::source::plan::{PlanLimits, PlannedRead, plan};
use crate::source::probe::{Need, Needs};
use crate::source::{BlockReadOptions, CachedBlock};

/// The limits for the asynchronous block reads of one operation.
#[derive(Clone, Copy, Debug, Default)]
pub struct GatherOptions {
    /// The limits for merging the reads of neighbouring blocks.
    pub plan: PlanLimits,
    /// The limits of the reads in flight.
    pub flights: FlightLimits,
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
    read: PlannedRead,
    /// Whether the read repeats one that returned a damaged block.
    is_again: bool,
}

/// An executor that reads the missing blocks of one operation asynchronously.
#[derive(Debug)]
pub struct Gather<D> {
    plan: PlanLimits,
    blocks: BlockReadOptions,
    /// Planned reads, and whether each repeats a read that returned a damaged block.
    queue: VecDeque<(PlannedRead, bool)>,
    flights: Flights<D, InFlightRead>,
    counts: GatherCounts,
}

impl<D: ReadDriver> Gather<D> {
    /// Creates an executor that reads through `driver`, with the options `blocks` for the blocks.
    #[must_use]
    pub fn new(driver: D, blocks: BlockReadOptions, options: GatherOptions) -> Self {
        Gather {
            plan: options.plan,
            blocks,
            queue: VecDeque::new(),
            flights: Flights::new(driver, options.flights),
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
        let planned = plan(needs, &wanted, &self.plan);
        self.queue
            .extend(planned.into_iter().map(|read| (read, false)));
        self.launch(now)
    }

    /// Issues planned reads as far as the limits allow; returns their number.
    fn launch(&mut self, now: Duration) -> u64 {
        let mut launched = 0_u64;
        while let Some((read, is_again)) = self.queue.pop_front() {
            if !self.flights.has_room(read.bytes) {
                self.queue.push_front((read, is_again));
                break;
            }
            if let Some(statistics) = &read.file.statistics {
                statistics.record(HistogramKind::AsyncReadBytes, read.bytes);
            }
            self.blocks.pay(read.bytes);
            let op = ReadOp::new(&read.file.file, read.offset, to_usize(read.bytes));
            self.counts.reads = self.counts.reads.saturating_add(1);
            self.counts.bytes = self.counts.bytes.saturating_add(read.bytes);
            let bytes = read.bytes;
            let read = InFlightRead { read, is_again };
            self.flights.push(op, bytes, read, now);
            launched = launched.saturating_add(1);
        }
        if launched > 0 {
            self.counts.flushes = self.counts.flushes.saturating_add(1);
            self.flights.flush();
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
            let limit = self.flights.wait_limit(until);
            let mut arrived = Vec::new();
            let half = self.flights.len().div_ceil(2);
            let soon = now().saturating_add(HALF_WAIT);
            let soon = limit.map_or(soon, |limit| limit.min(soon));
            let mut take = |id, outcome| arrived.push((id, outcome));
            if self.flights.reap(half, Some(soon), &mut take) == 0 {
                self.flights.reap(1, limit, &mut take);
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
        let Some(InFlightRead { read, is_again }) = self.flights.land(id) else {
            return false;
        };
        if let Some(statistics) = &read.file.statistics {
            let micros = u64::try_from(outcome.latency.as_micros()).unwrap_or(u64::MAX);
            statistics.add(Ticker::ReadAsyncMicros, micros);
            if outcome.result.is_err() {
                statistics.add(Ticker::AsyncReadErrorCount, 1);
            }
            read.file.count_read(read.bytes, outcome.latency);
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
        while let Some(InFlightRead { read, .. }) = self.flights.abandon_expired(now) {
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
        self.flights.abandon();
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
                .flights
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
