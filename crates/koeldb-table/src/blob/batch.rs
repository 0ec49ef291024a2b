//! Reads of many values at a time: sorted by file and offset, neighbours joined, and overlapped.
//!
//! A batch collects the parts of blob files that its values need. It reads them all in one round,
//! whatever their files, and hands out the bytes of each; the one who takes a value verifies them.
//! A failed read of several values is repeated for each, so that a failure concerns one value.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use koeldb_base::coding::to_usize;
use koeldb_base::file_name::FileNumber;
use koeldb_base::{Error, ErrorKind, PinnedSlice, Result};
use koeldb_fs::RandomAccessFile;
use koeldb_fs::read_driver::{OpId, Outcome, ReadDriver, ReadOp, ReadSession};

use super::file::{BlobFile, ReadCounter};
use super::reference::BlobReference;
use crate::file_read::read_bytes;
use crate::source::flights::{FlightLimits, Flights};
use crate::source::plan::PlanLimits;

/// The limits for joining the reads of values.
const JOINED: PlanLimits = PlanLimits {
    gap_bytes: 16 << 10,
    merged_bytes: 1 << 20,
};

/// The part of a blob file that a value needs.
#[derive(Clone, Debug)]
struct Part {
    file: Arc<dyn RandomAccessFile>,
    counter: ReadCounter,
    number: FileNumber,
    /// The offset of the value, by which it is found again.
    value_at: u64,
    begin: u64,
    end: u64,
}

/// A read of neighbouring parts of one file, in ascending order.
#[derive(Debug)]
struct JoinedRead {
    begin: u64,
    end: u64,
    parts: Vec<Part>,
}

impl JoinedRead {
    fn of(part: Part) -> Self {
        JoinedRead {
            begin: part.begin,
            end: part.end,
            parts: vec![part],
        }
    }

    fn bytes(&self) -> u64 {
        self.end.saturating_sub(self.begin)
    }
}

/// The parts of blob files that a batch of values needs.
#[derive(Debug, Default)]
pub struct WantedBlobs {
    parts: Vec<Part>,
}

impl WantedBlobs {
    /// Adds a value of `file`, unless it is cached.
    ///
    /// `key_bytes` is the length of the key in its record. A reference that does not fit the file
    /// is left out: the one who takes the value reports it.
    pub fn add(
        &mut self,
        file: &BlobFile,
        reference: &BlobReference,
        key_bytes: u64,
        verifies: bool,
    ) {
        if let Some((begin, end)) = file.wanted_range(reference, key_bytes, verifies) {
            self.parts.push(Part {
                file: Arc::clone(file.file()),
                counter: file.read_counter(),
                number: reference.file,
                value_at: reference.offset,
                begin,
                end,
            });
        }
    }

    /// Whether nothing has to be read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Returns the reads: each value once, neighbours joined.
    fn planned(mut self) -> VecDeque<JoinedRead> {
        self.parts
            .sort_by_key(|part| (part.number, part.begin, part.end));
        let mut reads: VecDeque<JoinedRead> = VecDeque::with_capacity(self.parts.len());
        for part in self.parts {
            if let Some(read) = reads.back_mut()
                && read
                    .parts
                    .first()
                    .is_some_and(|first| first.number == part.number)
            {
                let end = part.end.max(read.end);
                let is_near = part.begin <= read.end.saturating_add(JOINED.gap_bytes);
                let is_same = part.end <= read.end;
                if is_same || is_near && end.saturating_sub(read.begin) <= JOINED.merged_bytes {
                    read.end = end;
                    read.parts.push(part);
                    continue;
                }
            }
            reads.push_back(JoinedRead::of(part));
        }
        reads
    }
}

/// The bytes that a batch has read, by the file and the offset of each value.
#[derive(Debug, Default)]
pub struct BlobParts {
    parts: HashMap<(FileNumber, u64), Result<PinnedSlice>>,
}

impl BlobParts {
    /// Returns the bytes for a value, or the error of reading them; `None` if they were not wanted.
    #[must_use]
    pub fn get(&self, reference: &BlobReference) -> Option<Result<&PinnedSlice>> {
        let part = self.parts.get(&(reference.file, reference.offset))?;
        Some(part.as_ref().map_err(Error::clone))
    }

    fn put(&mut self, part: &Part, bytes: Result<PinnedSlice>) {
        self.parts.insert((part.number, part.value_at), bytes);
    }
}

/// The reads of a batch of values through one driver.
#[derive(Debug)]
pub struct BlobBatch<D> {
    queue: VecDeque<JoinedRead>,
    flights: Flights<D, JoinedRead>,
    parts: BlobParts,
}

impl WantedBlobs {
    /// Reads all parts one after the other, in the calling thread.
    #[must_use]
    pub fn read_in_place(self) -> BlobParts {
        let mut parts = BlobParts::default();
        let mut queue = self.planned();
        while let Some(read) = queue.pop_front() {
            let Some(first) = read.parts.first() else {
                continue;
            };
            let bytes = first.counter.measured(read.bytes(), || {
                read_bytes(&*first.file, read.begin, to_usize(read.bytes()))
            });
            let bytes = bytes.as_deref().map_err(Error::clone);
            hand_out(read, &bytes, &mut parts, &mut queue);
        }
        parts
    }
}

impl<D: ReadDriver> BlobBatch<D> {
    /// Begins to read the wanted parts through `driver`.
    ///
    /// `now` is the time on the driver's clock.
    #[must_use]
    pub fn start(driver: D, wanted: WantedBlobs, limits: FlightLimits, now: Duration) -> Self {
        let mut batch = BlobBatch {
            queue: wanted.planned(),
            flights: Flights::new(driver, limits),
            parts: BlobParts::default(),
        };
        batch.launch(now);
        batch
    }

    /// Issues planned reads as far as the limits allow.
    fn launch(&mut self, now: Duration) {
        let mut launched = false;
        while let Some(read) = self.queue.pop_front() {
            if !self.flights.has_room(read.bytes()) {
                self.queue.push_front(read);
                break;
            }
            let Some(first) = read.parts.first() else {
                continue;
            };
            let op = ReadOp::new(&first.file, read.begin, to_usize(read.bytes()));
            self.flights.push(op, read.bytes(), read, now);
            launched = true;
        }
        if launched {
            self.flights.flush();
        }
    }

    /// Blocks until all parts were read or have failed, or until the time `until`.
    ///
    /// `now` returns the time on the driver's clock. What was not read then has failed with
    /// `TimedOut`.
    #[must_use]
    pub fn wait(mut self, until: Option<Duration>, now: impl Fn() -> Duration) -> BlobParts {
        while !self.flights.is_empty() || !self.queue.is_empty() {
            let time = now();
            if until.is_some_and(|until| time >= until) {
                self.abandon();
                break;
            }
            self.give_up_expired(time);
            self.launch(time);
            let limit = self.flights.wait_limit(until);
            let mut arrived = Vec::new();
            let count = self.flights.len();
            (self.flights).reap(count, limit, &mut |id, outcome| arrived.push((id, outcome)));
            for (id, outcome) in arrived {
                self.land(id, &outcome);
            }
        }
        self.parts
    }

    /// Takes the bytes of a completed read.
    fn land(&mut self, id: OpId, outcome: &Outcome) {
        let Some(read) = self.flights.land(id) else {
            return;
        };
        if let Some(first) = read.parts.first() {
            first.counter.count(read.bytes(), outcome.latency);
        }
        let bytes = outcome.result.as_deref().map_err(Error::clone);
        hand_out(read, &bytes, &mut self.parts, &mut self.queue);
    }

    /// Abandons timed-out reads, and fails their values.
    fn give_up_expired(&mut self, now: Duration) {
        while let Some(read) = self.flights.abandon_expired(now) {
            for part in &read.parts {
                self.parts.put(part, Err(too_slow(part)));
            }
        }
    }

    /// Abandons all reads, and fails their values, because the deadline has passed.
    pub fn abandon(&mut self) {
        let late = || {
            Error::with_kind(
                ErrorKind::TimedOut,
                "the value was not read before the deadline of the read",
            )
        };
        for read in self
            .flights
            .abandon()
            .into_iter()
            .chain(self.queue.drain(..))
        {
            for part in &read.parts {
                self.parts.put(part, Err(late()));
            }
        }
    }
}

impl BlobBatch<ReadSession> {
    /// Takes completed reads; ready when all parts were read or have failed.
    ///
    /// The next completed read wakes the task of `context`. `now` is the time on the driver's clock.
    pub fn poll(&mut self, context: &mut Context<'_>, now: Duration) -> Poll<()> {
        loop {
            self.give_up_expired(now);
            self.launch(now);
            if self.flights.is_empty() {
                return Poll::Ready(());
            }
            let mut arrived = Vec::new();
            let reaped = self
                .flights
                .poll_reap(context, &mut |id, outcome| arrived.push((id, outcome)));
            if reaped.is_pending() {
                return Poll::Pending;
            }
            for (id, outcome) in arrived {
                self.land(id, &outcome);
            }
        }
    }

    /// Returns the bytes that were read.
    #[must_use]
    pub fn into_parts(self) -> BlobParts {
        self.parts
    }
}

/// Gives each value its bytes of a completed read; a failed read of several is repeated for each.
fn hand_out(
    read: JoinedRead,
    bytes: &Result<&[u8]>,
    parts: &mut BlobParts,
    queue: &mut VecDeque<JoinedRead>,
) {
    let is_joined = read.parts.len() > 1;
    for part in read.parts {
        let from = to_usize(part.begin.saturating_sub(read.begin));
        let to = to_usize(part.end.saturating_sub(read.begin));
        let own = match bytes {
            Ok(bytes) => bytes
                .get(from..to)
                .map(PinnedSlice::copy_of)
                .ok_or_else(|| cut_short(&part)),
            Err(error) => Err(error.clone()),
        };
        match own {
            Err(_) if is_joined => queue.push_back(JoinedRead::of(part)),
            own => parts.put(&part, own),
        }
    }
}

/// Returns the error of a file that ends before a value does.
#[cold]
fn cut_short(part: &Part) -> Error {
    Error::corruption("the file ends before the value does").in_file(
        part.file.path(),
        Some(part.value_at),
        "read a value",
    )
}

/// Returns the error of a read that takes longer than `io_timeout`.
#[cold]
fn too_slow(part: &Part) -> Error {
    Error::with_kind(
        ErrorKind::TimedOut,
        "the read takes longer than `io_timeout`",
    )
    .in_file(part.file.path(), Some(part.value_at), "read a value")
}
