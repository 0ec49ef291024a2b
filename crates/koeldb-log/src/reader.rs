//! The log reader: returns the records of a log file, which may be damaged.
//!
//! The reader walks the blocks of the file once. Damage becomes a [`Problem`]; the [`RecoveryMode`]
//! determines whether it ends the log or is skipped, as in RocksDB (`db/log_reader.cc`), with these
//! differences:
//!
//! - In every mode but the last the first problem ends the log: no later record is returned.
//! - Zeros followed by records are a hole and are reported; zeros up to the end of the file are
//!   unused space.
//! - A mode that tolerates an incomplete end also tolerates a torn end: unsynced pages of a file
//!   may reach the disk in any order, and missing ones are zeros. Damage counts as torn if it shows
//!   such zeros and no record begins after it. Damage of a record that was once complete is never
//!   torn: its checksum matches another length, or matches when one bit is flipped back.
//! - A record with another log's number is accepted as such only if it is intact.
//! - A legacy record followed by a recyclable one ends the log with a problem.
//! - A compressed record that cannot be decompressed is reported.
//!
//! Every step consumes bytes, so any file is read in time proportional to its length, and memory is
//! bounded by the longest record.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

mod blocks;
mod damage;
mod metadata;
mod problem;

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use koeldb_base::codec::StreamDecompressor;
use koeldb_base::coding::to_usize;
use koeldb_base::file_name::FileNumber;
use koeldb_base::{Limits, Result};
use koeldb_fs::RandomAccessFile;

use crate::format::{
    self, HEADER_BYTES, Header, Part, PredecessorInfo, RECYCLABLE_HEADER_BYTES, RecordType,
};
use blocks::{Blocks, Loaded};
use damage::Suspect;
pub use problem::{Problem, ProblemKind, RecoveryMode};

/// The number of problems kept in detail; later ones are only counted.
const PROBLEMS_MAX: usize = 1000;

/// A record, and the column families whose keys end with timestamps, with the sizes of these.
pub type RecordAndSizes<'r> = (&'r [u8], &'r [(u32, u16)]);

/// A sequential reader of the logical records of a WAL or MANIFEST (RocksDB: `log::Reader`).
pub struct RecordReader {
    blocks: Blocks,
    /// The low half of the log's file number.
    log_number: u32,
    mode: RecoveryMode,
    record_bytes_max: u64,

    /// The record being assembled.
    record: Vec<u8>,
    /// The start and payload size of the record being assembled; `None` outside a record.
    open: Option<OpenRecord>,
    last_record: Range<u64>,
    /// The end of the last complete record, of any type.
    whole_until: u64,

    data_seen: bool,
    /// Whether the file is known to contain recyclable headers.
    recycled: bool,
    /// The presumed end of the log: a problem only if a record begins after it.
    suspect: Option<Suspect>,
    compression_seen: bool,
    decompressor: Option<StreamDecompressor>,
    timestamp_sizes: Vec<(u32, u16)>,
    predecessor: Option<PredecessorInfo>,

    finished: bool,
    problems: VecDeque<Problem>,
    problem_count: u64,
    dropped_bytes: u64,
    tolerated: Option<Problem>,
}

/// The file offset and the payload size so far of an incomplete logical record.
#[derive(Clone, Copy, Debug)]
struct OpenRecord {
    offset: u64,
    payload_bytes: u64,
}

/// The buffer that holds a complete logical record: the read chunk or the assembly buffer.
enum Found {
    InChunk(Range<usize>),
    InRecord,
}

/// The outcome of parsing: a physical record, the end of the log, or the damage found.
enum Event {
    Record {
        record_type: RecordType,
        offset: u64,
        payload: Range<usize>,
    },
    End,
    TruncatedHeader,
    OldRecord,
    Zeros,
    MixedHeaders,
    BadLength,
    ChecksumMismatch {
        record_bytes: usize,
    },
}

impl fmt::Debug for RecordReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordReader")
            .field("file", self.blocks.file())
            .field("mode", &self.mode)
            .field("offset", &self.blocks.offset())
            .finish_non_exhaustive()
    }
}

impl RecordReader {
    /// Creates a reader from the beginning of `file`, which is log `log_number`.
    #[must_use]
    pub fn new(
        file: Arc<dyn RandomAccessFile>,
        log_number: FileNumber,
        mode: RecoveryMode,
    ) -> Self {
        RecordReader {
            blocks: Blocks::new(file),
            log_number: format::low_half(log_number),
            mode,
            record_bytes_max: Limits::NORMAL.record_bytes,
            record: Vec::new(),
            open: None,
            last_record: 0..0,
            whole_until: 0,
            data_seen: false,
            recycled: false,
            suspect: None,
            compression_seen: false,
            decompressor: None,
            timestamp_sizes: Vec::new(),
            predecessor: None,
            finished: false,
            problems: VecDeque::new(),
            problem_count: 0,
            dropped_bytes: 0,
            tolerated: None,
        }
    }

    /// Sets the readahead size, rounded up to whole blocks of 32 KiB; 0 means 256 KiB.
    pub fn set_readahead_bytes(&mut self, bytes: usize) {
        self.blocks.set_chunk_bytes(bytes);
    }

    /// Sets the maximum length of a logical record; a longer one is reported as a problem.
    pub fn set_record_bytes_max(&mut self, bytes: u64) {
        self.record_bytes_max = bytes;
    }

    /// Reads the next logical record; `None` at the end of the log or at damage that ends it.
    ///
    /// [`RecordReader::take_problem`] returns the problems found up to then, and in
    /// [`RecoveryMode::SkipAnyCorruptedRecords`] those before each record. Records of any content
    /// are returned; the caller checks their length.
    ///
    /// # Errors
    /// If the file cannot be read (not in `SkipAnyCorruptedRecords`), or needs a codec that is not
    /// available.
    pub fn next_record(&mut self) -> Result<Option<&[u8]>> {
        Ok(self.next_record_and_sizes()?.map(|(record, _)| record))
    }

    /// Reads the next record like [`RecordReader::next_record`], and returns it with the column
    /// families that have user-defined timestamps and their timestamp sizes, as read so far.
    ///
    /// # Errors
    /// See [`RecordReader::next_record`].
    pub fn next_record_and_sizes(&mut self) -> Result<Option<RecordAndSizes<'_>>> {
        self.open = None;
        let found = self.advance()?;
        let sizes = &self.timestamp_sizes[..];
        Ok(match found {
            Some(Found::InChunk(range)) => Some((self.blocks.get(range), sizes)),
            Some(Found::InRecord) => Some((&self.record, sizes)),
            None => None,
        })
    }

    /// Resumes reading after the last complete record, in `file`: the same log, grown since.
    ///
    /// An incomplete end that was tolerated and damage are read again.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn resume(&mut self, file: Arc<dyn RandomAccessFile>) -> Result<()> {
        let (blocks, in_block) = Blocks::from_offset(file, self.whole_until);
        self.blocks = blocks;
        self.open = None;
        self.suspect = None;
        self.tolerated = None;
        self.problems.clear();
        self.finished = false;
        if self.load_block()? {
            self.blocks.skip(in_block);
        }
        Ok(())
    }

    /// Removes and returns the oldest reported problem that the recovery mode does not tolerate.
    ///
    /// Beyond a thousand untaken problems, further ones are only counted.
    pub fn take_problem(&mut self) -> Option<Problem> {
        self.problems.pop_front()
    }

    /// The number of problems found so far that the recovery mode does not tolerate.
    #[must_use]
    pub fn problem_count(&self) -> u64 {
        self.problem_count
    }

    /// The bytes lost by all problems so far.
    #[must_use]
    pub fn dropped_bytes(&self) -> u64 {
        self.dropped_bytes
    }

    /// The incomplete or torn end of the log that the recovery mode tolerated, if it had one.
    #[must_use]
    pub fn tolerated_tail(&self) -> Option<&Problem> {
        self.tolerated.as_ref()
    }

    /// The file range of the last returned record, up to the end of its last fragment.
    #[must_use]
    pub fn last_record(&self) -> Range<u64> {
        self.last_record.clone()
    }

    /// The description of the preceding WAL, once the record with it was read.
    #[must_use]
    pub fn predecessor(&self) -> Option<PredecessorInfo> {
        self.predecessor
    }

    /// The column families with user-defined timestamps and their timestamp sizes, as read so far.
    #[must_use]
    pub fn timestamp_sizes(&self) -> &[(u32, u16)] {
        &self.timestamp_sizes
    }

    /// Whether the compression of the log is known from a record read so far.
    #[must_use]
    pub fn is_compression_announced(&self) -> bool {
        self.compression_seen
    }

    /// The file being read.
    #[must_use]
    pub fn file(&self) -> &Arc<dyn RandomAccessFile> {
        self.blocks.file()
    }

    /// Parses physical records until a logical record is complete; `None` at the end.
    fn advance(&mut self) -> Result<Option<Found>> {
        while !self.finished {
            match self.next_event()? {
                Event::Record {
                    record_type,
                    offset,
                    payload,
                } => {
                    if let Some(found) = self.take(record_type, offset, payload)? {
                        return Ok(Some(found));
                    }
                }
                Event::End => self.end(None),
                Event::TruncatedHeader => {
                    let problem = self.here(ProblemKind::TruncatedHeader);
                    self.end(Some(problem));
                }
                Event::OldRecord => self.old_record(),
                Event::Zeros => self.zeros(),
                Event::MixedHeaders => {
                    let problem = self.here(ProblemKind::MixedHeaders);
                    self.report(problem);
                    self.interrupt();
                    self.finished = true;
                }
                Event::BadLength if !self.blocks.is_whole() && !self.was_whole() => {
                    let problem = self.here(ProblemKind::TruncatedBody);
                    self.end(Some(problem));
                }
                Event::BadLength => self.damaged(ProblemKind::BadLength, self.blocks.len()),
                Event::ChecksumMismatch { record_bytes } => {
                    self.damaged(ProblemKind::ChecksumMismatch, record_bytes);
                }
            }
        }
        Ok(None)
    }

    /// Parses the next physical record, and classifies it or the damage found in its place.
    ///
    /// For an event that invalidates the rest of the block, the handler consumes it, as it computes
    /// the dropped bytes from `block`.
    fn next_event(&mut self) -> Result<Event> {
        loop {
            let left = self.blocks.len();
            if left < HEADER_BYTES
                || (self.recycled && self.blocks.is_whole() && left < RECYCLABLE_HEADER_BYTES)
            {
                let unused = self.open.is_none() && self.blocks.rest_is_zero();
                if !self.blocks.is_whole() && left > 0 && !unused {
                    return Ok(Event::TruncatedHeader);
                }
                if self.blocks.is_whole() && self.load_block()? {
                    continue;
                }
                return Ok(Event::End);
            }
            let offset = self.blocks.offset();
            let bytes = self.blocks.rest();
            let type_byte = bytes
                .get(format::CHECKSUMMED_FROM)
                .copied()
                .unwrap_or_default();
            if format::is_recyclable(type_byte) && self.data_seen && !self.recycled {
                return Ok(Event::MixedHeaders);
            }
            let Some(header) = Header::decode(bytes) else {
                if !self.blocks.is_whole() {
                    return Ok(Event::TruncatedHeader);
                }
                self.blocks.skip_rest();
                continue;
            };
            let Some(record) = bytes.get(..header.record_bytes()) else {
                return Ok(Event::BadLength);
            };
            if let Some(number) = header.log_number {
                let foreign = number != self.log_number;
                if foreign && header.verifies(record) {
                    self.recycled = true;
                    self.blocks.skip(header.record_bytes());
                    return Ok(Event::OldRecord);
                }
                self.recycled |= !foreign;
            }
            if header.type_byte == 0 && header.length == 0 {
                return Ok(Event::Zeros);
            }
            if !header.verifies(record) {
                return Ok(Event::ChecksumMismatch {
                    record_bytes: record.len(),
                });
            }
            let payload = self.blocks.position().saturating_add(header.bytes())
                ..self.blocks.skip(header.record_bytes());
            return Ok(Event::Record {
                record_type: RecordType::from_byte(header.type_byte),
                offset,
                payload,
            });
        }
    }

    /// Loads the next block of the log; `false` at the end of the file.
    ///
    /// Where the mode allows it, an unreadable block is a problem, and skipped.
    fn load_block(&mut self) -> Result<bool> {
        let skips = self.mode == RecoveryMode::SkipAnyCorruptedRecords;
        loop {
            match self.blocks.load(skips)? {
                Loaded::Block => return Ok(true),
                Loaded::EndOfFile => return Ok(false),
                Loaded::Unreadable(error) => {
                    let problem = self.here(ProblemKind::Unreadable(error.to_string()));
                    self.report(problem);
                    self.interrupt();
                    self.blocks.skip_rest();
                }
            }
        }
    }

    /// Processes a physical record with a valid checksum; returns the logical record it completes.
    ///
    /// It first decides whether a presumed end of the log before the record is damage.
    fn take(
        &mut self,
        record_type: RecordType,
        offset: u64,
        payload: Range<usize>,
    ) -> Result<Option<Found>> {
        if !self.clear_suspect(record_type, offset) || self.finished {
            return Ok(None);
        }
        let found = self.take_counted(record_type, offset, payload);
        if self.open.is_none() && !self.finished {
            self.whole_until = self.blocks.offset();
        }
        found
    }

    /// Dispatches a physical record with a valid checksum by its type.
    fn take_counted(
        &mut self,
        record_type: RecordType,
        offset: u64,
        payload: Range<usize>,
    ) -> Result<Option<Found>> {
        match record_type {
            RecordType::Data(part) => self.take_data(part, offset, payload),
            RecordType::SetCompression => {
                self.close_open(ProblemKind::MissingEnd);
                self.set_compression(offset, payload).map(|()| None)
            }
            RecordType::TimestampSizes => {
                self.close_open(ProblemKind::MissingEnd);
                self.set_timestamp_sizes(offset, payload);
                Ok(None)
            }
            RecordType::PredecessorInfo => {
                self.close_open(ProblemKind::MissingEnd);
                self.set_predecessor(offset, &payload);
                Ok(None)
            }
            RecordType::Ignorable(_) => {
                self.open = None;
                Ok(None)
            }
            RecordType::Zero | RecordType::Unknown(_) => {
                let type_byte = match record_type {
                    RecordType::Unknown(byte) => byte,
                    _ => 0,
                };
                let dropped = self.open.take().map_or(0, |open| open.payload_bytes);
                self.report(Problem {
                    offset,
                    dropped_bytes: dropped.saturating_add(payload.len() as u64),
                    kind: ProblemKind::UnknownType(type_byte),
                });
                Ok(None)
            }
        }
    }

    /// Processes a data fragment; returns the logical record that it completes, if any.
    fn take_data(
        &mut self,
        part: Part,
        offset: u64,
        payload: Range<usize>,
    ) -> Result<Option<Found>> {
        match part {
            Part::Full | Part::First => {
                self.close_open(ProblemKind::MissingEnd);
                self.record.clear();
                self.restore_compression(&payload)?;
                if let Some(decompressor) = &mut self.decompressor {
                    decompressor.reset()?;
                }
                self.open = Some(OpenRecord {
                    offset,
                    payload_bytes: 0,
                });
            }
            Part::Middle | Part::Last => {}
        }
        if self.finished {
            return Ok(None);
        }
        let Some(open) = &mut self.open else {
            self.report(Problem {
                offset,
                dropped_bytes: payload.len() as u64,
                kind: ProblemKind::MissingStart,
            });
            return Ok(None);
        };
        let begin = open.offset;
        open.payload_bytes = open.payload_bytes.saturating_add(payload.len() as u64);
        let ends = matches!(part, Part::Full | Part::Last);
        let plain_full = part == Part::Full && self.decompressor.is_none();
        if !plain_full && !self.append(&payload, ends) {
            return Ok(None);
        }
        if !ends {
            return Ok(None);
        }
        self.open = None;
        self.data_seen = true;
        self.last_record = begin..self.blocks.offset();
        Ok(Some(if plain_full {
            Found::InChunk(payload)
        } else {
            Found::InRecord
        }))
    }

    /// Appends a fragment to the record being assembled; `false` if the record was discarded.
    ///
    /// That happens if it is too long or cannot be decompressed.
    fn append(&mut self, payload: &Range<usize>, ends: bool) -> bool {
        let fragment = self.blocks.get(payload.clone());
        let room = self
            .record_bytes_max
            .saturating_sub(self.record.len() as u64);
        let kind = match &mut self.decompressor {
            None if fragment.len() as u64 > room => ProblemKind::TooLarge,
            None => {
                self.record.extend_from_slice(fragment);
                return true;
            }
            Some(decompressor) => {
                let max = to_usize(self.record_bytes_max);
                match decompressor.decompress(fragment, max, &mut self.record) {
                    Ok(()) if !ends || decompressor.is_complete() => return true,
                    Ok(()) | Err(_) => ProblemKind::BadCompression,
                }
            }
        };
        self.close_open(kind);
        false
    }

    /// Discards the incomplete record, if any, and reports a problem if it had content.
    fn close_open(&mut self, kind: ProblemKind) {
        if let Some(open) = self.open.take()
            && open.payload_bytes > 0
        {
            self.report(Problem {
                offset: open.offset,
                dropped_bytes: open.payload_bytes,
                kind,
            });
        }
    }

    /// Creates a problem at the current offset, which drops the rest of the block.
    fn here(&self, kind: ProblemKind) -> Problem {
        Problem {
            offset: self.blocks.offset(),
            dropped_bytes: self.blocks.len() as u64,
            kind,
        }
    }

    /// Records a problem for the caller, and ends reading unless the recovery mode skips damage.
    fn report(&mut self, problem: Problem) {
        self.problem_count = self.problem_count.saturating_add(1);
        self.dropped_bytes = self.dropped_bytes.saturating_add(problem.dropped_bytes);
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push_back(problem);
        }
        if self.mode != RecoveryMode::SkipAnyCorruptedRecords {
            self.finished = true;
        }
    }
}

#[cfg(test)]
mod tests;
