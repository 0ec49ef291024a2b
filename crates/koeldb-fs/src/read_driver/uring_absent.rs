//! Uninhabited stand-ins for io_uring, for other systems and for builds without it.

use std::sync::Arc;
use std::time::Duration;

use super::request::Request;
use super::{Caps, OpId, ReadBackend};
use crate::clock::Clock;
use crate::file::RandomAccessFile;

/// The stand-in for the io_uring rings of a database, which cannot exist in this build.
#[derive(Debug)]
pub(super) enum Uring {}

/// The stand-in for a leased ring, which cannot exist in this build.
#[derive(Debug)]
pub(super) enum Lease {}

impl Uring {
    /// Returns the reason: io_uring is not in this build.
    pub(super) fn new(
        _probe: &Arc<dyn RandomAccessFile>,
        _old: bool,
        _pool: Arc<dyn ReadBackend>,
        _clock: &Arc<dyn Clock>,
    ) -> Result<Self, String> {
        Err("io_uring is not in this build".to_owned())
    }

    /// Would return the name of the rings' setup flags; is never called, as no ring exists.
    pub(super) fn flags_text(&self) -> &'static str {
        match *self {}
    }

    /// Would lease a ring to the calling thread; is never called, as no ring exists.
    pub(super) fn lease(&self) -> Option<Lease> {
        match *self {}
    }

    /// Would return the number of lost rings; is never called, as no ring exists.
    pub(super) fn failures(&self) -> u64 {
        match *self {}
    }
}

impl ReadBackend for Uring {
    fn caps(&self) -> Caps {
        match *self {}
    }

    fn submit(&self, _requests: &mut Vec<Request>) {
        match *self {}
    }
}

impl Lease {
    /// Would queue a read; is never called, as no ring exists.
    pub(super) fn push(&mut self, _request: Request) {
        match *self {}
    }

    /// Would return the number of reads in the ring; is never called, as no ring exists.
    pub(super) fn in_use(&self) -> usize {
        match *self {}
    }

    /// Would submit reads and wait for completions; is never called, as no ring exists.
    pub(super) fn turn(
        &mut self,
        _wait: usize,
        _limit: Option<Duration>,
        _elsewhere: &dyn Fn(Request),
    ) {
        match *self {}
    }

    /// Would cancel a read; is never called, as no ring exists.
    pub(super) fn cancel(&mut self, _id: OpId) {
        match *self {}
    }
}
