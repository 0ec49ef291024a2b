//! Reads in flight: those that were issued through one driver and have not completed.
//!
//! Their number and bytes are limited, and each may have a time limit. What a read is for is up to
//! its owner, who gets it back when the read has completed, timed out or was abandoned.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::task::{Context, Poll};
use std::time::Duration;

use koeldb_fs::read_driver::{OpId, Outcome, ReadDriver, ReadOp, ReadSession};

/// The limits of the reads of one operation that are in flight.
#[derive(Clone, Copy, Debug)]
pub struct FlightLimits {
    /// The largest number of reads.
    pub reads_max: usize,
    /// The largest number of bytes, unless a single read has more.
    pub bytes_max: u64,
    /// The time limit of each read.
    pub io_timeout: Option<Duration>,
}

impl Default for FlightLimits {
    fn default() -> Self {
        FlightLimits {
            reads_max: 128,
            bytes_max: 8 << 20,
            io_timeout: None,
        }
    }
}

/// A read that was issued and has not completed.
#[derive(Debug)]
struct Flight<R> {
    id: OpId,
    bytes: u64,
    read: R,
    /// The time at which the read times out, on the driver's clock.
    expires: Option<Duration>,
}

/// The reads of one operation that are in flight through one driver.
#[derive(Debug)]
pub(crate) struct Flights<D, R> {
    driver: D,
    limits: FlightLimits,
    reads: Vec<Flight<R>>,
    bytes: u64,
}

impl<D: ReadDriver, R> Flights<D, R> {
    pub(crate) fn new(driver: D, limits: FlightLimits) -> Self {
        Flights {
            driver,
            limits,
            reads: Vec::new(),
            bytes: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.reads.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.reads.len()
    }

    /// Whether a read of `bytes` bytes may be added; one alone always may.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        let all = self.bytes.saturating_add(bytes);
        self.is_empty() || self.reads.len() < self.limits.reads_max && all <= self.limits.bytes_max
    }

    /// Adds a read of `bytes` bytes, which the next [`Flights::flush`] issues.
    ///
    /// `now` is the time on the driver's clock.
    pub(crate) fn push(&mut self, op: ReadOp, bytes: u64, read: R, now: Duration) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.reads.push(Flight {
            id: self.driver.push(op),
            bytes,
            read,
            expires: (self.limits.io_timeout).map(|limit| now.saturating_add(limit)),
        });
    }

    /// Issues the reads that were added.
    pub(crate) fn flush(&mut self) {
        self.driver.flush();
    }

    /// Returns the time until which to wait: `until`, or that of the first read that times out.
    pub(crate) fn wait_limit(&self, until: Option<Duration>) -> Option<Duration> {
        let expires = self.reads.iter().filter_map(|flight| flight.expires).min();
        match (until, expires) {
            (Some(until), Some(expires)) => Some(until.min(expires)),
            (until, expires) => until.or(expires),
        }
    }

    /// Waits for outcomes like [`ReadDriver::reap`].
    pub(crate) fn reap(
        &mut self,
        min: usize,
        until: Option<Duration>,
        each: &mut dyn FnMut(OpId, Outcome),
    ) -> usize {
        self.driver.reap(min, until, each)
    }

    /// Takes the read with an outcome; `None` if it was given up.
    pub(crate) fn land(&mut self, id: OpId) -> Option<R> {
        let at = self.reads.iter().position(|flight| flight.id == id)?;
        Some(self.take(at).read)
    }

    /// Abandons a read that has timed out, and returns it; `None` if there is none.
    pub(crate) fn abandon_expired(&mut self, now: Duration) -> Option<R> {
        let is_late = |flight: &Flight<R>| flight.expires.is_some_and(|expires| expires <= now);
        let at = self.reads.iter().position(is_late)?;
        let Flight { id, read, .. } = self.take(at);
        self.driver.orphan(id, true);
        Some(read)
    }

    /// Abandons all reads, and returns them.
    pub(crate) fn abandon(&mut self) -> Vec<R> {
        self.bytes = 0;
        let mut abandoned = Vec::with_capacity(self.reads.len());
        for Flight { id, read, .. } in self.reads.drain(..) {
            self.driver.orphan(id, true);
            abandoned.push(read);
        }
        abandoned
    }

    fn take(&mut self, at: usize) -> Flight<R> {
        let flight = self.reads.swap_remove(at);
        self.bytes = self.bytes.saturating_sub(flight.bytes);
        flight
    }
}

impl<R> Flights<ReadSession, R> {
    /// Takes outcomes that are there; otherwise the next one wakes the task of `context`.
    pub(crate) fn poll_reap(
        &mut self,
        context: &mut Context<'_>,
        each: &mut dyn FnMut(OpId, Outcome),
    ) -> Poll<usize> {
        self.driver.poll_reap(context, each)
    }
}
