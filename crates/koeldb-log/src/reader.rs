//! Records from a log file, whatever it holds.
//!
//! The reader walks the blocks of the file once. Damage becomes a [`Problem`]; whether it ends the log or is
//! stepped over follows from the [`RecoveryMode`], as in RocksDB (`db/log_reader.cc`), with these differences:
//!
//! - In every mode but the last the first problem ends the log: no record behind it is returned.
//! - Zeros with records behind them are a hole and reported; zeros up to the end of the file are unused space.
//! - Where an incomplete end is tolerated, so is an end that a crash tore: unsynced pages of a file may reach the
//!   disk in any order, and those that did not are zeros. Damage counts as torn if it shows such zeros and no
//!   record begins behind it.
//! - A record that says it is of another log's life is believed only if it is whole, unless the file was seen to
//!   be recycled before.
//! - A legacy record followed by a recyclable one ends the log with a problem.
//! - A compressed record that does not decode is reported.
//!
//! Every step consumes bytes, so any file is read in time proportional to its length, and memory is bounded by
//! the longest record.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use koeldb_base::codec::StreamDecompressor;
use koeldb_base::coding::to_usize;
use koeldb_base::file_name::FileNumber;
use koeldb_base::{Error, Limits, Result};
use koeldb_fs::RandomAccessFile;

use crate::format::{
    self, BLOCK_BYTES, HEADER_BYTES, Header, Part, PredecessorInfo, RECYCLABLE_HEADER_BYTES,
    RecordType, ZSTD,
};

/// What damage in a log means for those who read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum RecoveryMode {
    /// An incomplete record at the end is dropped; other damage is an error.
    TolerateCorruptedTailRecords,
    /// Any irregularity is an error.
    AbsoluteConsistency,
    /// What stands before the first damage is used.
    #[default]
    PointInTime,
    /// What can be read is used.
    SkipAnyCorruptedRecords,
}

/// What is wrong with a place in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProblemKind {
    /// The file ends within a header.
    TruncatedHeader,
    /// The file ends within a payload.
    TruncatedBody,
    /// The log ends within a fragmented record.
    TruncatedRecord,
    /// A length points behind the end of its block.
    BadLength,
    /// A stored checksum differs from the computed one.
    ChecksumMismatch,
    /// A record begins within another.
    MissingEnd,
    /// A record continues that never began.
    MissingStart,
    /// A record is interrupted by damage.
    Interrupted,
    /// Zeros with records behind them.
    ZerosBeforeRecords,
    /// A record of an earlier life of the file.
    OldRecord,
    /// A recyclable header in a log that began with legacy ones.
    MixedHeaders,
    /// A type that must be understood and is not.
    UnknownType(u8),
    /// A compressed record does not decode.
    BadCompression,
    /// A record longer than [`RecordReader::set_record_bytes_max`] allows.
    TooLarge,
    /// A record about the log itself is malformed or in the wrong place.
    BadMetadata(&'static str),
    /// The system could not read it, with its words.
    Unreadable(String),
}

impl fmt::Display for ProblemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ProblemKind::TruncatedHeader => "truncated header",
            ProblemKind::TruncatedBody => "truncated record body",
            ProblemKind::TruncatedRecord => "error reading trailing data: the log ends in a record",
            ProblemKind::BadLength => "bad record length",
            ProblemKind::ChecksumMismatch => "checksum mismatch",
            ProblemKind::MissingEnd => "partial record without end",
            ProblemKind::MissingStart => "missing start of fragmented record",
            ProblemKind::Interrupted => "error in middle of record",
            ProblemKind::ZerosBeforeRecords => "zeros in the middle of the log",
            ProblemKind::OldRecord => "record of an earlier life of the log file",
            ProblemKind::MixedHeaders => "recyclable record in a log that is not recycled",
            ProblemKind::UnknownType(byte) => return write!(f, "unknown record type {byte}"),
            ProblemKind::BadCompression => "compressed record does not decode",
            ProblemKind::TooLarge => "record is too large",
            ProblemKind::BadMetadata(what) => what,
            ProblemKind::Unreadable(error) => error,
        })
    }
}

/// Damage in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where it was met, in bytes from the beginning of the file.
    pub offset: u64,
    /// At least so many bytes are lost by it.
    pub dropped_bytes: u64,
    /// What it is.
    pub kind: ProblemKind,
}

impl Problem {
    /// The problem as an error about `file`.
    #[must_use]
    pub fn to_error(&self, file: &dyn RandomAccessFile) -> Error {
        let Problem {
            kind,
            dropped_bytes,
            offset,
        } = self;
        Error::corruption(format!("{kind}; {dropped_bytes} bytes dropped")).in_file(
            file.path(),
            Some(*offset),
            "read",
        )
    }
}

/// Bytes asked from the file at once.
const CHUNK_BYTES: usize = 8 * BLOCK_BYTES;

/// Problems kept in detail; later ones are counted.
const PROBLEMS_MAX: usize = 1000;

/// Reads the records of a log in order.
pub struct RecordReader {
    file: Arc<dyn RandomAccessFile>,
    /// The low half of the file's number.
    log_number: u32,
    mode: RecoveryMode,
    record_bytes_max: u64,

    /// Bytes of the file, from `chunk_offset` on.
    chunk: Vec<u8>,
    chunk_offset: u64,
    /// What of `chunk` is left of the current block.
    block: Range<usize>,
    /// Whether the current block has its whole length, so that another may follow.
    block_is_whole: bool,

    /// The record being put together.
    record: Vec<u8>,
    /// What was collected of it: where it began and how many payload bytes; `None` outside of one.
    open: Option<OpenRecord>,
    last_record: Range<u64>,

    data_seen: bool,
    /// The file was seen to have recyclable headers.
    recycled: bool,
    /// A whole record with this file's number in a recyclable header was seen.
    number_confirmed: bool,
    /// What is wrong only if a record begins behind it.
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

#[derive(Clone, Copy, Debug)]
struct OpenRecord {
    offset: u64,
    payload_bytes: u64,
}

/// The end of the log, unless a record begins behind it.
#[derive(Debug)]
struct Suspect {
    problem: Problem,
    /// Nothing but zeros: space that was never written.
    unused: bool,
}

/// Where a returned record lies.
enum Found {
    InChunk(Range<usize>),
    InRecord,
}

/// What the next physical record turned out to be.
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
            .field("file", &self.file)
            .field("mode", &self.mode)
            .field("offset", &self.offset())
            .finish_non_exhaustive()
    }
}

impl RecordReader {
    /// A reader from the beginning of `file`, which is log `log_number`.
    #[must_use]
    pub fn new(
        file: Arc<dyn RandomAccessFile>,
        log_number: FileNumber,
        mode: RecoveryMode,
    ) -> Self {
        let [a, b, c, d, ..] = log_number.to_le_bytes();
        RecordReader {
            file,
            log_number: u32::from_le_bytes([a, b, c, d]),
            mode,
            record_bytes_max: Limits::NORMAL.record_bytes,
            chunk: Vec::new(),
            chunk_offset: 0,
            block: 0..0,
            block_is_whole: true,
            record: Vec::new(),
            open: None,
            last_record: 0..0,
            data_seen: false,
            recycled: false,
            number_confirmed: false,
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

    /// Sets the longest record that is put together; a longer one is a problem.
    pub fn set_record_bytes_max(&mut self, bytes: u64) {
        self.record_bytes_max = bytes;
    }

    /// The next record; `None` at the end of what the mode lets be read. Then, and in
    /// [`RecoveryMode::SkipAnyCorruptedRecords`] before each record, [`RecordReader::take_problem`] tells what
    /// was met. Records of any content are returned; whether one is too short for its meaning is the caller's.
    ///
    /// # Errors
    /// If the file cannot be read (not in `SkipAnyCorruptedRecords`), or needs a codec that is not there.
    pub fn next_record(&mut self) -> Result<Option<&[u8]>> {
        self.open = None;
        Ok(match self.advance()? {
            Some(Found::InChunk(range)) => Some(self.chunk.get(range).unwrap_or_default()),
            Some(Found::InRecord) => Some(&self.record),
            None => None,
        })
    }

    /// Takes the first problem that was not taken yet and that the mode does not tolerate. Beyond a thousand
    /// untaken ones, problems are only counted.
    pub fn take_problem(&mut self) -> Option<Problem> {
        self.problems.pop_front()
    }

    /// All problems met so far that the mode does not tolerate.
    #[must_use]
    pub fn problem_count(&self) -> u64 {
        self.problem_count
    }

    /// The bytes lost by all problems so far.
    #[must_use]
    pub fn dropped_bytes(&self) -> u64 {
        self.dropped_bytes
    }

    /// The incomplete end of the log that the mode let pass, once the end was reached.
    #[must_use]
    pub fn tolerated_tail(&self) -> Option<&Problem> {
        self.tolerated.as_ref()
    }

    /// Where the record returned last begins and where its last fragment ends, in bytes from the beginning of the
    /// file.
    #[must_use]
    pub fn last_record(&self) -> Range<u64> {
        self.last_record.clone()
    }

    /// What the log says of the one before it, if that was read yet.
    #[must_use]
    pub fn predecessor(&self) -> Option<PredecessorInfo> {
        self.predecessor
    }

    /// The families whose keys end with a timestamp of so many bytes, as far as read.
    #[must_use]
    pub fn timestamp_sizes(&self) -> &[(u32, u16)] {
        &self.timestamp_sizes
    }

    /// The file being read.
    #[must_use]
    pub fn file(&self) -> &Arc<dyn RandomAccessFile> {
        &self.file
    }

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
                Event::BadLength if !self.block_is_whole => {
                    let problem = self.here(ProblemKind::TruncatedBody);
                    self.end(Some(problem));
                }
                Event::BadLength => self.damaged(ProblemKind::BadLength, self.block.len()),
                Event::ChecksumMismatch { record_bytes } => {
                    self.damaged(ProblemKind::ChecksumMismatch, record_bytes);
                }
            }
        }
        Ok(None)
    }

    /// Parses the next physical record. What it covers is consumed; for an event that condemns the rest of the
    /// block, that is left to the handler, which knows the bytes dropped from `block`.
    fn next_event(&mut self) -> Result<Event> {
        loop {
            let left = self.block.len();
            if left < HEADER_BYTES
                || (self.recycled && self.block_is_whole && left < RECYCLABLE_HEADER_BYTES)
            {
                let unused = self.open.is_none() && self.rest_is_zero();
                if !self.block_is_whole && left > 0 && !unused {
                    return Ok(Event::TruncatedHeader);
                }
                if self.block_is_whole && self.load_block()? {
                    continue;
                }
                return Ok(Event::End);
            }
            let offset = self.offset();
            let bytes = self.chunk.get(self.block.clone()).unwrap_or_default();
            let type_byte = bytes
                .get(format::CHECKSUMMED_FROM)
                .copied()
                .unwrap_or_default();
            if format::is_recyclable(type_byte) && self.data_seen && !self.recycled {
                return Ok(Event::MixedHeaders);
            }
            let Some(header) = Header::decode(bytes) else {
                if !self.block_is_whole {
                    return Ok(Event::TruncatedHeader);
                }
                self.skip_block();
                continue;
            };
            let Some(record) = bytes.get(..header.record_bytes()) else {
                return Ok(Event::BadLength);
            };
            if let Some(number) = header.log_number {
                let foreign = number != self.log_number;
                if foreign && (self.number_confirmed || header.verifies(record)) {
                    self.recycled = true;
                    self.skip(header.record_bytes());
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
            self.number_confirmed |= header.log_number.is_some();
            let payload =
                self.block.start.saturating_add(header.bytes())..self.skip(header.record_bytes());
            return Ok(Event::Record {
                record_type: RecordType::from_byte(header.type_byte),
                offset,
                payload,
            });
        }
    }

    /// Consumes `bytes` of the block; the position behind them.
    fn skip(&mut self, bytes: usize) -> usize {
        self.block.start = self.block.start.saturating_add(bytes).min(self.block.end);
        self.block.start
    }

    /// Whether the block holds nothing but zeros from here on.
    fn rest_is_zero(&self) -> bool {
        let rest = self.chunk.get(self.block.clone()).unwrap_or_default();
        rest.iter().all(|&byte| byte == 0)
    }

    fn skip_block(&mut self) {
        self.block.start = self.block.end;
    }

    /// The offset in the file of what is left of the block.
    fn offset(&self) -> u64 {
        self.chunk_offset.saturating_add(self.block.start as u64)
    }

    /// Makes the next block the current one; `false` at the end of the file.
    fn load_block(&mut self) -> Result<bool> {
        loop {
            let start = self.block.end;
            if start >= self.chunk.len() {
                let offset = self.chunk_offset.saturating_add(start as u64);
                let left = self.file.len().saturating_sub(offset);
                if left == 0 {
                    return Ok(false);
                }
                self.chunk_offset = offset;
                self.block = 0..0;
                if !self.read_chunk(left.min(CHUNK_BYTES as u64))? {
                    continue;
                }
            }
            let start = self.block.end;
            let end = start.saturating_add(BLOCK_BYTES).min(self.chunk.len());
            self.block = start..end;
            self.block_is_whole = end.saturating_sub(start) == BLOCK_BYTES;
            return Ok(true);
        }
    }

    /// Reads `bytes` at `chunk_offset`. Where the mode allows it, a block that cannot be read is stepped over:
    /// `false`, with the block consumed.
    fn read_chunk(&mut self, bytes: u64) -> Result<bool> {
        self.chunk.resize(to_usize(bytes), 0);
        let Err(error) = self.file.read_exact_at(self.chunk_offset, &mut self.chunk) else {
            return Ok(true);
        };
        if self.mode != RecoveryMode::SkipAnyCorruptedRecords {
            return Err(error);
        }
        self.chunk.truncate(BLOCK_BYTES);
        let Err(error) = self.file.read_exact_at(self.chunk_offset, &mut self.chunk) else {
            return Ok(true);
        };
        self.block = 0..self.chunk.len();
        let problem = self.here(ProblemKind::Unreadable(error.to_string()));
        self.report(problem);
        self.interrupt();
        self.skip_block();
        Ok(false)
    }

    /// Handles a verified physical record.
    fn take(
        &mut self,
        record_type: RecordType,
        offset: u64,
        payload: Range<usize>,
    ) -> Result<Option<Found>> {
        if !self.clear_suspect(record_type, offset) || self.finished {
            return Ok(None);
        }
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
                match PredecessorInfo::decode(self.chunk.get(payload.clone()).unwrap_or_default()) {
                    Ok(info) => self.predecessor = Some(info),
                    Err(_) => self.bad_metadata("malformed predecessor record", offset, &payload),
                }
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
        self.last_record = begin..self.offset();
        Ok(Some(if plain_full {
            Found::InChunk(payload)
        } else {
            Found::InRecord
        }))
    }

    /// Appends a fragment to the open record; `false` if it had to be given up.
    fn append(&mut self, payload: &Range<usize>, ends: bool) -> bool {
        let fragment = self.chunk.get(payload.clone()).unwrap_or_default();
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

    /// Gives up the record being put together, if there is one, with a problem if it had content.
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

    /// Gives up the record being put together because damage interrupts it.
    fn interrupt(&mut self) {
        if let Some(open) = self.open.take() {
            self.report(Problem {
                offset: open.offset,
                dropped_bytes: open.payload_bytes,
                kind: ProblemKind::Interrupted,
            });
        }
    }

    /// A header of zeros. A block's rest of zeros is unused space unless records follow; other bytes behind such a
    /// header are damage, except in a recycled file, where they are remains of its earlier life.
    fn zeros(&mut self) {
        let unused = self.rest_is_zero();
        match &self.open {
            None if unused => {
                let problem = self.here(ProblemKind::ZerosBeforeRecords);
                self.suspect.get_or_insert(Suspect { problem, unused });
            }
            None if self.recycled => {}
            Some(_) if self.mode == RecoveryMode::TolerateCorruptedTailRecords => {
                self.suspect_torn(ProblemKind::Interrupted);
            }
            None if self.mode == RecoveryMode::TolerateCorruptedTailRecords => {
                self.suspect_torn(ProblemKind::ZerosBeforeRecords);
            }
            None => {
                let problem = self.here(ProblemKind::ZerosBeforeRecords);
                self.report(problem);
            }
            Some(_) => self.interrupt(),
        }
        self.skip_block();
    }

    /// A block's rest condemned by a wrong length or checksum of a record of so many bytes.
    fn damaged(&mut self, kind: ProblemKind, record_bytes: usize) {
        if self.mode == RecoveryMode::TolerateCorruptedTailRecords {
            if self.recycled {
                self.tolerated = Some(self.here(kind));
                self.finished = true;
                return;
            }
            if self.is_torn(record_bytes) {
                self.suspect_torn(kind);
                self.skip_block();
                return;
            }
        }
        let problem = self.here(kind);
        self.skip_block();
        self.report(problem);
        self.interrupt();
    }

    /// Whether a sector that the next `bytes` touch is all zeros, as far as it lies in the rest of the block.
    fn is_torn(&self, bytes: usize) -> bool {
        const SECTOR_BYTES: usize = 512;
        let end = self.block.start.saturating_add(bytes);
        let mut at = self.block.start;
        while at < end.min(self.block.end) {
            // Chunks begin at blocks, so that sectors in them lie as in the file.
            let sector = (at / SECTOR_BYTES).saturating_add(1);
            let next = sector.saturating_mul(SECTOR_BYTES).min(self.block.end);
            let bytes = self.chunk.get(at..next).unwrap_or_default();
            if bytes.iter().all(|&byte| byte == 0) {
                return true;
            }
            at = next;
        }
        false
    }

    /// Takes the rest of the block, and the record being put together, for an end that a crash tore.
    fn suspect_torn(&mut self, kind: ProblemKind) {
        let mut problem = self.here(kind);
        if let Some(open) = self.open.take() {
            problem.offset = open.offset;
            problem.dropped_bytes = problem.dropped_bytes.saturating_add(open.payload_bytes);
        }
        match &mut self.suspect {
            Some(suspect) => suspect.unused = false,
            None => {
                self.suspect = Some(Suspect {
                    problem,
                    unused: false,
                });
            }
        }
    }

    /// Decides what a whole physical record says of what was taken for the end; whether the record counts. Behind a
    /// torn end, only the beginning of a record does. Behind unused space, records are a problem, but a writer
    /// leaves zeros itself at the end of a block before a record that must not be fragmented.
    fn clear_suspect(&mut self, record_type: RecordType, offset: u64) -> bool {
        let Some(mut suspect) = self.suspect.take() else {
            return true;
        };
        let gap = offset.saturating_sub(suspect.problem.offset);
        let harmless = match record_type {
            RecordType::Data(Part::Full | Part::First) => false,
            RecordType::Data(Part::Middle | Part::Last) => !suspect.unused,
            _ => !suspect.unused || gap < BLOCK_BYTES as u64,
        };
        if !harmless {
            suspect.problem.dropped_bytes = gap;
            self.report(suspect.problem);
            return true;
        }
        let counts = suspect.unused;
        if !counts {
            self.suspect = Some(suspect);
        }
        counts
    }

    fn old_record(&mut self) {
        if self.mode == RecoveryMode::SkipAnyCorruptedRecords {
            self.interrupt();
            return;
        }
        if self.open.is_some() {
            self.end(None);
        } else if self.mode == RecoveryMode::PointInTime {
            let problem = Problem {
                dropped_bytes: 0,
                ..self.here(ProblemKind::OldRecord)
            };
            self.report(problem);
        }
        self.finished = true;
    }

    /// The log ends, with an incomplete physical record or within a logical one.
    fn end(&mut self, cut: Option<Problem>) {
        let open = self.open.take().map(|open| Problem {
            offset: open.offset,
            dropped_bytes: open.payload_bytes,
            kind: ProblemKind::TruncatedRecord,
        });
        let reports = matches!(
            self.mode,
            RecoveryMode::AbsoluteConsistency | RecoveryMode::PointInTime
        );
        if let Some(suspect) = self.suspect.take()
            && !suspect.unused
        {
            self.tolerated.get_or_insert(suspect.problem);
        }
        for problem in [cut, open].into_iter().flatten() {
            if reports {
                self.report(problem);
            } else {
                self.tolerated.get_or_insert(problem);
            }
        }
        self.skip_block();
        self.finished = true;
    }

    fn set_compression(&mut self, offset: u64, payload: Range<usize>) -> Result<()> {
        if self.compression_seen {
            self.bad_metadata("second compression record", offset, &payload);
            return Ok(());
        }
        if self.data_seen {
            self.bad_metadata("compression record behind data", offset, &payload);
            return Ok(());
        }
        match format::decode_compression(self.chunk.get(payload.clone()).unwrap_or_default()) {
            Ok(0) => self.compression_seen = true,
            Ok(ZSTD) => {
                self.decompressor = Some(StreamDecompressor::new()?);
                self.compression_seen = true;
            }
            Ok(other) => {
                return Err(Error::not_supported(format!(
                    "log compressed with method {other}; only zstd ({ZSTD}) is known"
                ))
                .in_file(self.file.path(), Some(offset), "read"));
            }
            Err(_) => self.bad_metadata("malformed compression record", offset, &payload),
        }
        Ok(())
    }

    fn set_timestamp_sizes(&mut self, offset: u64, payload: Range<usize>) {
        let bytes = self.chunk.get(payload.clone()).unwrap_or_default();
        let Ok(sizes) = format::decode_timestamp_sizes(bytes) else {
            self.bad_metadata("malformed timestamp size record", offset, &payload);
            return;
        };
        for (family, size) in sizes {
            let at = self
                .timestamp_sizes
                .binary_search_by_key(&family, |&(family, _)| family);
            match at {
                Err(at) if size > 0 => self.timestamp_sizes.insert(at, (family, size)),
                Err(_) => self.bad_metadata("timestamp size of zero", offset, &payload),
                Ok(_) => self.bad_metadata("second timestamp size of a family", offset, &payload),
            }
        }
    }

    fn bad_metadata(&mut self, what: &'static str, offset: u64, payload: &Range<usize>) {
        self.report(Problem {
            offset,
            dropped_bytes: payload.len() as u64,
            kind: ProblemKind::BadMetadata(what),
        });
    }

    /// A problem that loses the rest of the block.
    fn here(&self, kind: ProblemKind) -> Problem {
        Problem {
            offset: self.offset(),
            dropped_bytes: self.block.len() as u64,
            kind,
        }
    }

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
