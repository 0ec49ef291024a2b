//! Uninhabited stand-ins for io_uring, for other systems and for builds without it.

use std::sync::Arc;
use std::time::Duration;

use super::request::Request;
use super::{Caps, OpId, ReadBackend};
use crate::clock::Clock;
use crate::file::RandomAccessFile;

/// The rings of one database; none can exist in this build.
#[derive(Debug)]
pub(super) enum Uring {}

/// A leased ring; none can exist in this build.
#[derive(Debug)]
pub(super) enum Lease {}

impl Uring {
    pub(super) fn new(
        _probe: &Arc<dyn RandomAccessFile>,
        _old: bool,
        _pool: Arc<dyn ReadBackend>,
        _clock: &Arc<dyn Clock>,
    ) -> Result<Self, String> {
        Err("io_uring is not in this build".to_owned())
    }

    pub(super) fn flags_text(&self) -> &'static str {
        match *self {}
    }

    pub(super) fn lease(&self) -> Option<Lease> {
        match *self {}
    }

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
    pub(super) fn push(&mut self, _request: Request) {
        match *self {}
    }

    pub(super) fn in_use(&self) -> usize {
        match *self {}
    }

    pub(super) fn turn(
        &mut self,
        _wait: usize,
        _limit: Option<Duration>,
        _elsewhere: &dyn Fn(Request),
    ) {
        match *self {}
    }

    pub(super) fn cancel(&mut self, _id: OpId) {
        match *self {}
    }
}
