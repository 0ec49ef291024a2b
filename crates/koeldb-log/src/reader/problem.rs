//! Damage in a log, and the modes of treating it.

use std::fmt;

use koeldb_base::Error;
use koeldb_fs::RandomAccessFile;

/// The treatment of damage in a log (RocksDB: `WALRecoveryMode`).
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
    /// A record longer than [`RecordReader::set_record_bytes_max`](super::RecordReader::set_record_bytes_max) allows.
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

/// A damaged or unreadable place in a log, with a lower bound of the bytes lost.
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
    /// Whether the record at fault has a valid checksum, so that it was written that way.
    #[must_use]
    pub fn is_of_intact_record(&self) -> bool {
        match self.kind {
            ProblemKind::UnknownType(_)
            | ProblemKind::BadCompression
            | ProblemKind::TooLarge
            | ProblemKind::BadMetadata(_) => true,
            ProblemKind::TruncatedHeader
            | ProblemKind::TruncatedBody
            | ProblemKind::TruncatedRecord
            | ProblemKind::BadLength
            | ProblemKind::ChecksumMismatch
            | ProblemKind::MissingEnd
            | ProblemKind::MissingStart
            | ProblemKind::Interrupted
            | ProblemKind::ZerosBeforeRecords
            | ProblemKind::OldRecord
            | ProblemKind::MixedHeaders
            | ProblemKind::Unreadable(_) => false,
        }
    }

    /// Converts the problem to an error about `file`: `NotSupported` for an intact record.
    #[must_use]
    pub fn to_error(&self, file: &dyn RandomAccessFile) -> Error {
        let Problem {
            kind,
            dropped_bytes,
            offset,
        } = self;
        let error = match self.is_of_intact_record() {
            true => Error::not_supported(format!(
                "{kind}, of {dropped_bytes} bytes whose checksum matches: the release that wrote the \
                 record may read it"
            )),
            false => Error::corruption(format!("{kind}; {dropped_bytes} bytes dropped")),
        };
        error.in_file(file.path(), Some(*offset), "read")
    }
}
