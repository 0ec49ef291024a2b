//! The records that describe a log: compression, sizes of timestamps, the preceding log.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::ops::Range;

use koeldb_base::codec::StreamDecompressor;
use koeldb_base::{Error, Result};

use super::{Problem, ProblemKind, RecordReader};
use crate::format::{self, PredecessorInfo, ZSTD};

/// The first bytes of each compressed record: the magic number of a zstd frame.
const ZSTD_FRAME: [u8; 4] = 0xfd2f_b528_u32.to_le_bytes();

impl RecordReader {
    /// Enables zstd if damage may have hit the compression record and the payload is a zstd frame.
    ///
    /// The compressed bytes would pass for a record with a matching checksum otherwise.
    pub(super) fn restore_compression(&mut self, payload: &Range<usize>) -> Result<()> {
        let may_be_lost = self.problem_count > 0 && !self.data_seen && !self.compression_seen;
        if may_be_lost && self.blocks.get(payload.clone()).starts_with(&ZSTD_FRAME) {
            self.decompressor = Some(StreamDecompressor::new()?);
            self.compression_seen = true;
        }
        Ok(())
    }

    /// Applies a compression record, which must precede all data; only zstd is supported.
    pub(super) fn set_compression(&mut self, offset: u64, payload: Range<usize>) -> Result<()> {
        if self.compression_seen {
            self.bad_metadata("second compression record", offset, &payload);
            return Ok(());
        }
        if self.data_seen {
            self.bad_metadata("compression record after data", offset, &payload);
            return Ok(());
        }
        match format::decode_compression(self.blocks.get(payload.clone())) {
            Ok(0) => self.compression_seen = true,
            Ok(ZSTD) => {
                self.decompressor = Some(StreamDecompressor::new()?);
                self.compression_seen = true;
            }
            Ok(other) => {
                return Err(Error::not_supported(format!(
                    "log compressed with method {other}; only zstd ({ZSTD}) is known"
                ))
                .in_file(self.blocks.file().path(), Some(offset), "read"));
            }
            Err(_) => self.bad_metadata("malformed compression record", offset, &payload),
        }
        Ok(())
    }

    /// Applies a record of user-defined timestamp sizes; a second size for a family is a problem.
    pub(super) fn set_timestamp_sizes(&mut self, offset: u64, payload: Range<usize>) {
        let bytes = self.blocks.get(payload.clone());
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

    /// Reports a metadata record as malformed or misplaced.
    fn bad_metadata(&mut self, what: &'static str, offset: u64, payload: &Range<usize>) {
        self.report(Problem {
            offset,
            dropped_bytes: payload.len() as u64,
            kind: ProblemKind::BadMetadata(what),
        });
    }

    /// Stores the description of the preceding log, unless it is malformed.
    pub(super) fn set_predecessor(&mut self, offset: u64, payload: &Range<usize>) {
        match PredecessorInfo::decode(self.blocks.get(payload.clone())) {
            Ok(info) => self.predecessor = Some(info),
            Err(_) => self.bad_metadata("malformed predecessor record", offset, payload),
        }
    }
}
