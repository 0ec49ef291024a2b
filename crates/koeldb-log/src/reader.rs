//! The log reader: returns the records of a log file, whatever its content.
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
//! - A record with another log's number is accepted as such only if it is intact, unless the file
//!   is known to be recycled.
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
use crate::tear::Tail;

/// The treatment of damage in a log, as in RocksDB's `WALRecoveryMode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum RecoveryMode {
    /// An incomplete record at the end is dropped; other damage is an error.
    TolerateCorruptedTailRecords,
    /// Any irregularity is an error.
    AbsoluteConsistency,
    /// The records before the first damage are used.
    #[default]
    PointInTime,
    /// All readable records are used.
    SkipAnyCorruptedRecords,
}

/// The kind of damage in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProblemKind {
    /// The file ends within a header.
    TruncatedHeader,
    /// The file ends within a payload.
    TruncatedBody,
    /// The log ends within a fragmented record.
    TruncatedRecord,
    /// A length exceeds the end of its block.
    BadLength,
    /// A stored checksum differs from the computed one.
    ChecksumMismatch,
    /// A record begins inside another.
    MissingEnd,
    /// A fragment continues a record that never began.
    MissingStart,
    /// A record is interrupted by damage.
    Interrupted,
    /// Zeros followed by records.
    ZerosBeforeRecords,
    /// A record from an earlier use of a recycled file.
    OldRecord,
    /// A recyclable header in a log that began with legacy ones.
    MixedHeaders,
    /// An unknown type that must not be skipped.
    UnknownType(u8),
    /// A compressed record cannot be decompressed.
    BadCompression,
    /// A record longer than [`RecordReader::set_record_bytes_max`] allows.
    TooLarge,
    /// A metadata record is malformed or misplaced.
    BadMetadata(&'static str),
    /// The operating system could not read the block; has its message.
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
            ProblemKind::OldRecord => "record of an earlier use of the log file",
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
    /// The file offset at which the damage was found.
    pub offset: u64,
    /// A lower bound of the bytes lost.
    pub dropped_bytes: u64,
    /// The kind of damage.
    pub kind: ProblemKind,
}

impl Problem {
    /// Converts the problem to an error about `file`.
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

/// The size of one read from the file.
const CHUNK_BYTES: usize = 8 * BLOCK_BYTES;

/// The number of problems kept in detail; later ones are only counted.
const PROBLEMS_MAX: usize = 1000;

/// A reader of the records of a log, in order.
pub struct RecordReader {
    file: Arc<dyn RandomAccessFile>,
    /// The low half of the log's file number.
    log_number: u32,
    mode: RecoveryMode,
    record_bytes_max: u64,

    /// The bytes of the file from `chunk_offset` on.
    chunk: Vec<u8>,
    chunk_offset: u64,
    /// The unread rest of the current block, as a range of `chunk`.
    block: Range<usize>,
    /// Whether the current block has its full length, so that another block may follow.
    block_is_whole: bool,

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
    /// Whether an intact record with this file's number in a recyclable header was read.
    number_confirmed: bool,
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

#[derive(Clone, Copy, Debug)]
struct OpenRecord {
    offset: u64,
    payload_bytes: u64,
}

/// The presumed end of the log, unless a record begins after it.
#[derive(Debug)]
struct Suspect {
    problem: Problem,
    /// Whether the presumed end consists of zeros: space that was never written.
    unused: bool,
}

/// The location of a returned record.
enum Found {
    InChunk(Range<usize>),
    InRecord,
}

/// The outcome of parsing the next physical record.
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
    /// Creates a reader from the beginning of `file`, which is log `log_number`.
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
            whole_until: 0,
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

    /// Sets the limit of the length of a record; a longer one is a problem.
    pub fn set_record_bytes_max(&mut self, bytes: u64) {
        self.record_bytes_max = bytes;
    }

    /// Reads the next record; `None` at the end of the readable part.
    ///
    /// [`RecordReader::take_problem`] returns the problems found up to then, and in
    /// [`RecoveryMode::SkipAnyCorruptedRecords`] those before each record. Records of any content
    /// are returned; the caller checks their length.
    ///
    /// # Errors
    /// If the file cannot be read (not in `SkipAnyCorruptedRecords`), or needs a codec that is not
    /// available.
    pub fn next_record(&mut self) -> Result<Option<&[u8]>> {
        self.open = None;
        Ok(match self.advance()? {
            Some(Found::InChunk(range)) => Some(self.chunk.get(range).unwrap_or_default()),
            Some(Found::InRecord) => Some(&self.record),
            None => None,
        })
    }

    /// Continues after the last complete record, in `file`, which is the same log with more
    /// records.
    ///
    /// An incomplete end that was tolerated and damage are read again.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn resume(&mut self, file: Arc<dyn RandomAccessFile>) -> Result<()> {
        let at = self.whole_until;
        let in_block = at.checked_rem(BLOCK_BYTES as u64).unwrap_or(0);
        self.file = file;
        self.chunk.clear();
        self.chunk_offset = at.saturating_sub(in_block);
        self.block = 0..0;
        self.block_is_whole = true;
        self.open = None;
        self.suspect = None;
        self.tolerated = None;
        self.problems.clear();
        self.finished = false;
        if self.load_block()? {
            self.skip(to_usize(in_block));
        }
        Ok(())
    }

    /// Takes the oldest problem, among those not yet taken that the mode does not tolerate.
    ///
    /// Beyond a thousand untaken problems, further ones are only counted.
    pub fn take_problem(&mut self) -> Option<Problem> {
        self.problems.pop_front()
    }

    /// The number of problems so far that the mode does not tolerate.
    #[must_use]
    pub fn problem_count(&self) -> u64 {
        self.problem_count
    }

    /// The bytes lost by all problems so far.
    #[must_use]
    pub fn dropped_bytes(&self) -> u64 {
        self.dropped_bytes
    }

    /// The incomplete end of the log that the mode tolerated, once the end was reached.
    #[must_use]
    pub fn tolerated_tail(&self) -> Option<&Problem> {
        self.tolerated.as_ref()
    }

    /// The file range of the last returned record, up to the end of its last fragment.
    #[must_use]
    pub fn last_record(&self) -> Range<u64> {
        self.last_record.clone()
    }

    /// The log's description of the preceding log, once its record was read.
    #[must_use]
    pub fn predecessor(&self) -> Option<PredecessorInfo> {
        self.predecessor
    }

    /// The column families whose keys end with a timestamp, with its size, as far as read.
    #[must_use]
    pub fn timestamp_sizes(&self) -> &[(u32, u16)] {
        &self.timestamp_sizes
    }

    /// Whether a record declared the compression of the log, as far as read.
    #[must_use]
    pub fn is_compression_announced(&self) -> bool {
        self.compression_seen
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
                Event::BadLength if !self.block_is_whole && !self.was_whole() => {
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

    /// Parses the next physical record and consumes it.
    ///
    /// For an event that invalidates the rest of the block, the handler consumes it, as it computes
    /// the dropped bytes from `block`.
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

    /// Consumes `bytes` of the block; returns the position after them.
    fn skip(&mut self, bytes: usize) -> usize {
        self.block.start = self.block.start.saturating_add(bytes).min(self.block.end);
        self.block.start
    }

    /// Whether the rest of the block contains only zeros.
    fn rest_is_zero(&self) -> bool {
        let rest = self.chunk.get(self.block.clone()).unwrap_or_default();
        rest.iter().all(|&byte| byte == 0)
    }

    fn skip_block(&mut self) {
        self.block.start = self.block.end;
    }

    /// The file offset of the next physical record: the unread rest of the block.
    fn offset(&self) -> u64 {
        self.chunk_offset.saturating_add(self.block.start as u64)
    }

    /// Moves to the next block; `false` at the end of the file.
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

    /// Reads `bytes` at `chunk_offset`.
    ///
    /// Where the mode allows it, an unreadable block is skipped: returns `false`, with the block
    /// consumed.
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

    /// Handles a verified physical record. If the log seemed to end before the record, decides first
    /// whether it did.
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
            self.whole_until = self.offset();
        }
        found
    }

    /// Handles a verified physical record according to its type.
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

    /// Appends a fragment to the open record; `false` if the record had to be discarded.
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

    /// Discards the open record, if any, reporting a problem if it had content.
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

    /// Discards the open record because damage interrupts it.
    fn interrupt(&mut self) {
        if let Some(open) = self.open.take() {
            self.report(Problem {
                offset: open.offset,
                dropped_bytes: open.payload_bytes,
                kind: ProblemKind::Interrupted,
            });
        }
    }

    /// Handles a header of zeros: no length and no type.
    ///
    /// A zero rest of a block is unused space unless records follow. Other bytes after such a
    /// header are damage, except in a recycled file, where they are remains of its earlier use, and
    /// after a lost sector.
    fn zeros(&mut self) {
        let unused = self.rest_is_zero();
        let tolerates_tear = self.mode == RecoveryMode::TolerateCorruptedTailRecords
            && self.tail().has_lost_sector(HEADER_BYTES);
        match &self.open {
            None if unused => {
                let problem = self.here(ProblemKind::ZerosBeforeRecords);
                self.suspect.get_or_insert(Suspect { problem, unused });
            }
            None if self.recycled => {}
            Some(_) if tolerates_tear => self.suspect_torn(ProblemKind::Interrupted),
            None if tolerates_tear => self.suspect_torn(ProblemKind::ZerosBeforeRecords),
            None => {
                let problem = self.here(ProblemKind::ZerosBeforeRecords);
                self.report(problem);
            }
            Some(_) => self.interrupt(),
        }
        self.skip_block();
    }

    /// Handles the rest of a block, which a wrong length or checksum of a record invalidates.
    fn damaged(&mut self, kind: ProblemKind, record_bytes: usize) {
        if self.mode == RecoveryMode::TolerateCorruptedTailRecords {
            let was_whole = self.was_whole();
            if self.recycled && !was_whole {
                self.tolerated = Some(self.here(kind));
                self.finished = true;
                return;
            }
            if !was_whole && self.tail().has_lost_sector(record_bytes) {
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

    fn tail(&self) -> Tail<'_> {
        // Chunks begin at blocks, so that sectors are aligned in them as in the file.
        Tail {
            bytes: self.chunk.get(..self.block.end).unwrap_or_default(),
            start: self.block.start,
        }
    }

    /// Whether the next record, which is damaged, was once complete.
    fn was_whole(&self) -> bool {
        self.tail().was_whole()
    }

    /// Marks the rest of the block, and the open record, as the presumed, torn end of the log.
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

    /// Re-evaluates the presumed end after an intact record; returns whether the record is used.
    ///
    /// After a torn end, only the beginning of a record disproves it. After unused space, records
    /// are a problem, with two exceptions: a writer itself leaves zeros at the end of a block before
    /// a record that must not be fragmented, and a torn record may have lost its first fragments.
    fn clear_suspect(&mut self, record_type: RecordType, offset: u64) -> bool {
        let Some(mut suspect) = self.suspect.take() else {
            return true;
        };
        let gap = offset.saturating_sub(suspect.problem.offset);
        if self.mode == RecoveryMode::TolerateCorruptedTailRecords
            && matches!(record_type, RecordType::Data(Part::Middle | Part::Last))
        {
            suspect.unused = false;
        }
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

    /// Ends reading: at an incomplete physical record, inside a logical one, or between records.
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
            self.bad_metadata("compression record after data", offset, &payload);
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
                Ok(_) => {
                    self.bad_metadata("second timestamp size of a column family", offset, &payload)
                }
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

    /// Creates a problem at this position that loses the rest of the block.
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
