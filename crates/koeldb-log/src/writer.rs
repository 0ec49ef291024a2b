//! Writes records to a log file.
//!
//! A record is assembled in a reusable buffer and passed to the file in one append or, if it is
//! large, in a few. After the first failure the file's content is unknown: the writer returns the
//! error again and never touches the file.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use koeldb_base::checksum::{crc32c, mask};
use koeldb_base::codec::StreamCompressor;
use koeldb_base::file_name::FileNumber;
use koeldb_base::{Error, Result};
use koeldb_fs::WritableFile;

use crate::beside::LogSync;
use crate::format::{
    BLOCK_BYTES, CHECKSUMMED_FROM, HEADER_BYTES, Part, RECYCLABLE_HEADER_BYTES,
    RECYCLABLE_TIMESTAMP_SIZES_BYTE, SET_COMPRESSION_BYTE, TIMESTAMP_SIZES_BYTE, ZSTD,
    data_type_byte, encode_timestamp_sizes, low_half, recyclable_type_byte,
};

/// The compression of the records of a WAL (RocksDB: `wal_compression`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum WalCompression {
    /// No compression.
    #[default]
    None,
    /// Each record is one zstd frame with checksum.
    Zstd,
}

/// The settings of a log to be written.
#[derive(Clone, Copy, Debug, Default)]
pub struct RecordWriterOptions {
    /// Compression of the records.
    pub compression: WalCompression,
    /// The number of the log, if its file may be one that had another number before: records then
    /// have recyclable headers.
    pub recyclable: Option<FileNumber>,
}

/// The assembled size at which a part of a long record is appended to the file.
const APPEND_BYTES: usize = 1 << 20;

/// The number of column families in one declaration of timestamps, which must fit into a block.
const DECLARED_MAX: usize = 4096;

/// A writer of records to a WAL or MANIFEST (RocksDB: `log::Writer`).
pub struct RecordWriter {
    file: Box<dyn WritableFile>,
    /// The offset in its block at which the next physical record begins.
    block_offset: usize,
    /// The record being assembled; empty between calls.
    assembled: Vec<u8>,
    compressor: Option<StreamCompressor>,
    /// The low half of the log's number, in a log with recyclable headers.
    log_number: Option<u32>,
    /// The compressed frame of the current record; empty between calls, with reusable capacity.
    frame: Vec<u8>,
    has_records: bool,
    /// The column families that were declared to have timestamps.
    declared: BTreeSet<u32>,
    failure: Option<Error>,
    /// The handle that syncs the log concurrently with its writer, once one was requested.
    beside: Option<Arc<LogSync>>,
}

impl fmt::Debug for RecordWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordWriter")
            .field("file", &self.file)
            .field("failure", &self.failure)
            .finish_non_exhaustive()
    }
}

impl RecordWriter {
    /// Creates a writer for an empty file.
    ///
    /// With compression, it appends the declaration immediately; in a recyclable log with the first
    /// record, so that the former content of the file begins at its beginning or behind a record.
    ///
    /// # Errors
    /// If the file fails, or the codec is missing from this build.
    ///
    /// # Panics
    /// If the file is not empty: logs are never continued.
    pub fn new(file: Box<dyn WritableFile>, options: RecordWriterOptions) -> Result<Self> {
        assert!(file.is_empty(), "a log is begun in an empty file");
        let mut writer = RecordWriter {
            file,
            block_offset: 0,
            assembled: Vec::new(),
            compressor: None,
            log_number: options.recyclable.map(low_half),
            frame: Vec::new(),
            has_records: false,
            declared: BTreeSet::new(),
            failure: None,
            beside: None,
        };
        if options.compression == WalCompression::Zstd {
            writer.compressor = Some(StreamCompressor::new()?);
            writer.emit_declaration();
            if writer.log_number.is_none() {
                writer.append_assembled()?;
            }
        }
        Ok(writer)
    }

    /// Appends one record. It may stay in the file's buffer until [`RecordWriter::flush`].
    ///
    /// # Errors
    /// If the file fails, now or in an earlier call: whether the record was written is then
    /// unknown.
    pub fn add_record(&mut self, payload: &[u8]) -> Result<()> {
        self.add_record_of(&[payload])
    }

    /// Appends a record that does not count as content: an empty log remains empty.
    ///
    /// # Errors
    /// See [`RecordWriter::add_record`].
    pub fn add_preface(&mut self, payload: &[u8]) -> Result<()> {
        let has_records = self.has_records;
        self.add_record(payload)?;
        self.has_records = has_records;
        Ok(())
    }

    /// Declares which column families have keys that end with timestamps, and of how many bytes.
    ///
    /// A family is declared once in a log; those that were declared before are left out. The
    /// declaration must precede the first record with keys of its families.
    ///
    /// # Errors
    /// See [`RecordWriter::add_record`].
    pub fn declare_timestamps(&mut self, sizes: &[(u32, u16)]) -> Result<()> {
        self.check()?;
        let is_new = |(family, _): &&(u32, u16)| !self.declared.contains(family);
        let new: Vec<(u32, u16)> = sizes.iter().filter(is_new).copied().collect();
        for some in new.chunks(DECLARED_MAX) {
            let payload = encode_timestamp_sizes(some);
            let header_bytes = self.header_bytes();
            let left = BLOCK_BYTES - self.block_offset;
            if left < header_bytes + payload.len() {
                self.assembled.resize(self.assembled.len() + left, 0);
                self.block_offset = 0;
            }
            let type_byte = match self.log_number {
                Some(_) => RECYCLABLE_TIMESTAMP_SIZES_BYTE,
                None => TIMESTAMP_SIZES_BYTE,
            };
            let parts: &[&[u8]] = &[&payload];
            let mut parts = Parts::new(parts);
            self.emit(type_byte, self.log_number, &mut parts, payload.len());
            self.append_assembled()?;
        }
        self.declared.extend(new.iter().map(|(family, _)| family));
        Ok(())
    }

    /// Appends one record whose payload is the concatenation of `parts`, without joining them.
    ///
    /// # Errors
    /// See [`RecordWriter::add_record`].
    pub fn add_record_of(&mut self, parts: &[&[u8]]) -> Result<()> {
        self.check()?;
        self.has_records = true;
        let Some(compressor) = &mut self.compressor else {
            return self.add_fragments(parts);
        };
        let mut frame = std::mem::take(&mut self.frame);
        frame.clear();
        let compressed = match parts {
            [whole] => compressor.compress(whole, &mut frame),
            _ => compressor.compress(&parts.concat(), &mut frame),
        };
        let result = compressed.and_then(|()| self.add_fragments(&[&frame]));
        frame.shrink_to(2 * APPEND_BYTES);
        self.frame = frame;
        result
    }

    /// Appends a record as fragments, one per block, with zero padding at the ends of blocks.
    fn add_fragments(&mut self, parts: &[&[u8]]) -> Result<()> {
        let mut rest = Parts::new(parts);
        let header_bytes = self.header_bytes();
        let mut begin = true;
        loop {
            let mut left = BLOCK_BYTES - self.block_offset;
            if left < header_bytes {
                self.assembled.resize(self.assembled.len() + left, 0);
                self.block_offset = 0;
                left = BLOCK_BYTES;
            }
            let fragment_bytes = rest.len.min(left - header_bytes);
            let end = fragment_bytes == rest.len;
            let part = match (begin, end) {
                (true, true) => Part::Full,
                (true, false) => Part::First,
                (false, true) => Part::Last,
                (false, false) => Part::Middle,
            };
            self.emit_data(part, &mut rest, fragment_bytes);
            if end {
                return self.append_assembled();
            }
            if self.assembled.len() >= APPEND_BYTES {
                self.append_assembled()?;
            }
            begin = false;
        }
    }

    /// The size of the header of a data record.
    fn header_bytes(&self) -> usize {
        match self.log_number {
            Some(_) => RECYCLABLE_HEADER_BYTES,
            None => HEADER_BYTES,
        }
    }

    /// Assembles the `SetCompression` record, which has a legacy header in every log.
    fn emit_declaration(&mut self) {
        let payload = ZSTD.to_le_bytes();
        let payload: &[&[u8]] = &[&payload];
        let mut payload = Parts::new(payload);
        let bytes = payload.len;
        self.emit(SET_COMPRESSION_BYTE, None, &mut payload, bytes);
    }

    /// Assembles a physical data record from the next `bytes` of `payload`, which fit in the block.
    fn emit_data(&mut self, part: Part, payload: &mut Parts<'_>, bytes: usize) {
        match self.log_number {
            Some(number) => self.emit(recyclable_type_byte(part), Some(number), payload, bytes),
            None => self.emit(data_type_byte(part), None, payload, bytes),
        }
    }

    /// Assembles one physical record with its header; `log_number` makes the header recyclable.
    #[inline]
    fn emit(
        &mut self,
        type_byte: u8,
        log_number: Option<u32>,
        payload: &mut Parts<'_>,
        bytes: usize,
    ) {
        let start = self.assembled.len();
        let [length_low, length_high, ..] = (bytes as u64).to_le_bytes();
        self.assembled
            .extend_from_slice(&[0, 0, 0, 0, length_low, length_high, type_byte]);
        self.block_offset += HEADER_BYTES + bytes;
        if let Some(number) = log_number {
            self.assembled.extend_from_slice(&number.to_le_bytes());
            self.block_offset += RECYCLABLE_HEADER_BYTES - HEADER_BYTES;
        }
        payload.take_into(bytes, &mut self.assembled);
        let checksum = mask(crc32c(&self.assembled[start + CHECKSUMMED_FROM..]));
        self.assembled[start..start + 4].copy_from_slice(&checksum.to_le_bytes());
    }

    /// Appends the assembled bytes to the file.
    fn append_assembled(&mut self) -> Result<()> {
        let result = self.file.append(&self.assembled);
        self.assembled.clear();
        self.assembled.shrink_to(2 * APPEND_BYTES);
        self.remember(result)
    }

    /// Flushes all appended records from the file buffer to the operating system.
    ///
    /// # Errors
    /// If the file fails, now or earlier.
    pub fn flush(&mut self) -> Result<()> {
        self.check()?;
        let result = self.file.flush();
        self.remember(result)?;
        if let Some(beside) = &self.beside {
            beside.note_flushed(self.file.len());
        }
        Ok(())
    }

    /// Makes all records durable.
    ///
    /// # Errors
    /// If the file fails, now or earlier; it must then be abandoned.
    pub fn sync(&mut self) -> Result<()> {
        self.check()?;
        let result = self.file.sync_data();
        self.remember(result)?;
        if let Some(beside) = &self.beside {
            beside.note_synced(self.file.len());
        }
        Ok(())
    }

    /// Whether bytes of an older log follow the records in a recycled log file.
    #[must_use]
    pub fn has_remains(&self) -> bool {
        self.file.has_remains()
    }

    /// Truncates the file after its last record and syncs it; no record may follow.
    ///
    /// # Errors
    /// See [`RecordWriter::sync`].
    pub fn sync_at_end(&mut self) -> Result<()> {
        self.check()?;
        let result = self.file.cut();
        self.remember(result)?;
        self.sync()
    }

    /// Flushes the log, and returns a handle that syncs it concurrently with this writer.
    ///
    /// `None` if the file has no such handle; nothing is flushed then.
    ///
    /// # Errors
    /// If the file fails, now or earlier.
    pub fn flush_for_sync(&mut self) -> Result<Option<Arc<LogSync>>> {
        if self.beside.is_none() {
            self.check()?;
            let Some(file) = self.file.sync_handle()? else {
                return Ok(None);
            };
            self.beside = Some(Arc::new(LogSync::new(file)));
        }
        self.flush()?;
        Ok(self.beside.clone())
    }

    /// Whether syncs through the [`LogSync`] handle have made all records durable.
    #[must_use]
    pub fn is_synced_concurrently(&self) -> bool {
        let beside = self.beside.as_ref();
        beside.is_some_and(|beside| beside.synced_bytes() == self.len())
    }

    /// The length of the log so far.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.file.len()
    }

    /// The index of the block in which the next record begins.
    #[must_use]
    pub fn next_block(&self) -> u64 {
        let block_bytes = BLOCK_BYTES as u64;
        (self.len() + self.header_bytes() as u64 - 1) / block_bytes
    }

    /// Whether the log has no records besides the compression record and prefaces.
    ///
    /// An empty log may thus have bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.has_records
    }

    /// The failure that made the writer unusable, if any.
    #[inline]
    #[must_use]
    pub fn failure(&self) -> Option<&Error> {
        let beside = self.beside.as_ref();
        self.failure
            .as_ref()
            .or_else(|| beside.and_then(|beside| beside.failure()))
    }

    /// Flushes and closes the file.
    ///
    /// # Errors
    /// If the file fails, now or earlier.
    pub fn close(self) -> Result<()> {
        self.check()?;
        self.file.close()
    }

    /// Returns the error that made the writer unusable, if any.
    fn check(&self) -> Result<()> {
        match self.failure() {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// Stores an error of `result` as the permanent failure of the log, and returns `result`.
    fn remember(&mut self, result: Result<()>) -> Result<()> {
        if let Err(error) = &result {
            self.failure = Some(error.clone());
            if let Some(beside) = &self.beside {
                beside.fail(error);
            }
        }
        result
    }
}

/// A read position in a record payload that consists of several byte slices.
struct Parts<'a> {
    parts: &'a [&'a [u8]],
    /// The number of bytes consumed of the first part.
    consumed: usize,
    /// The bytes left in all parts.
    len: usize,
}

impl<'a> Parts<'a> {
    fn new(parts: &'a [&'a [u8]]) -> Self {
        Parts {
            parts,
            consumed: 0,
            len: parts.iter().map(|part| part.len()).sum(),
        }
    }

    /// Appends the next `bytes` bytes of the payload to `out`, and advances past them.
    fn take_into(&mut self, mut bytes: usize, out: &mut Vec<u8>) {
        self.len -= bytes;
        while bytes > 0 {
            let part = &self.parts[0][self.consumed..];
            let taken = part.len().min(bytes);
            out.extend_from_slice(&part[..taken]);
            bytes -= taken;
            self.consumed += taken;
            if taken == part.len() {
                self.parts = &self.parts[1..];
                self.consumed = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Sink, log_of};

    fn payload_bytes(bytes: usize) -> Vec<u8> {
        vec![b'x'; bytes]
    }

    #[test]
    fn a_full_record_has_the_bytes_of_the_format() {
        let bytes = log_of([b"abc"], RecordWriterOptions::default());
        assert_eq!(bytes, b"\xf2\x70\xe8\x9d\x03\x00\x01abc");
        let empty = log_of([b""], RecordWriterOptions::default());
        assert_eq!(empty.len(), HEADER_BYTES);
        assert_eq!(empty[4..], [0, 0, 1]);
    }

    #[test]
    fn a_recyclable_record_has_the_number_of_its_log() {
        let options = RecordWriterOptions {
            recyclable: Some(0x77_0000_0009),
            ..RecordWriterOptions::default()
        };
        let bytes = log_of([b"abc"], options);
        assert_eq!(bytes, b"\xe8\x12\xb0\xa3\x03\x00\x05\x09\x00\x00\x00abc");
        let bytes = log_of([vec![1; 2 * BLOCK_BYTES]], options);
        let types = [0, 1, 2].map(|block| bytes[block * BLOCK_BYTES + CHECKSUMMED_FROM]);
        assert_eq!(types, [6, 7, 8]);
    }

    #[test]
    fn timestamps_are_declared_once_with_the_bytes_of_the_format() {
        let sink = Sink::default();
        let options = RecordWriterOptions::default();
        let mut writer = RecordWriter::new(Box::new(sink.clone()), options).unwrap();
        writer.declare_timestamps(&[(3, 8)]).unwrap();
        writer.declare_timestamps(&[(3, 8)]).unwrap();
        let golden = b"\x53\x04\x1c\x30\x06\x00\x0a\x03\x00\x00\x00\x08\x00";
        assert_eq!(*sink.bytes.lock().unwrap(), golden);
        writer.declare_timestamps(&[(3, 8), (4, 8)]).unwrap();
        assert_eq!(sink.bytes.lock().unwrap().len(), 2 * golden.len());
        assert!(writer.is_empty());
        // A declaration is in one block.
        let left = BLOCK_BYTES - 3 * golden.len() - HEADER_BYTES + 1;
        writer.add_record(&payload_bytes(left)).unwrap();
        writer.declare_timestamps(&[(5, 8)]).unwrap();
        let bytes = sink.bytes.lock().unwrap();
        assert_eq!(bytes.len(), BLOCK_BYTES + golden.len());
        assert_eq!(bytes[BLOCK_BYTES + 6], TIMESTAMP_SIZES_BYTE);
    }

    #[test]
    fn where_no_header_fits_zeros_fill_the_block() {
        for left in 0..=HEADER_BYTES + 1 {
            let first = payload_bytes(BLOCK_BYTES - HEADER_BYTES - left);
            let bytes = log_of([&first, &b"next".to_vec()], RecordWriterOptions::default());
            let types: Vec<u8> = match left.checked_sub(HEADER_BYTES) {
                None => vec![bytes[BLOCK_BYTES + 6]],
                Some(_) => vec![bytes[BLOCK_BYTES - left + 6], bytes[BLOCK_BYTES + 6]],
            };
            let expected: &[u8] = if left < HEADER_BYTES { &[1] } else { &[2, 4] };
            assert_eq!(types, expected, "{left} bytes left");
        }
    }

    #[test]
    fn a_record_is_one_append_and_parts_are_joined() {
        let sink = Sink::default();
        let mut writer =
            RecordWriter::new(Box::new(sink.clone()), RecordWriterOptions::default()).unwrap();
        let large = payload_bytes(3 * BLOCK_BYTES);
        writer.add_record_of(&[b"a", b"", &large, b"z"]).unwrap();
        assert_eq!(*sink.appends.lock().unwrap(), 1);
        let joined = log_of(
            [[b"a", large.as_slice(), b"z"].concat()],
            RecordWriterOptions::default(),
        );
        assert_eq!(*sink.bytes.lock().unwrap(), joined);
        writer.add_record(&payload_bytes(5 * APPEND_BYTES)).unwrap();
        assert!(writer.assembled.capacity() <= 2 * APPEND_BYTES);
    }

    #[test]
    fn a_log_without_records_is_empty_even_if_it_announces_compression() {
        for compression in [WalCompression::None, WalCompression::Zstd] {
            let options = RecordWriterOptions {
                compression,
                ..RecordWriterOptions::default()
            };
            let mut writer = RecordWriter::new(Box::new(Sink::default()), options).unwrap();
            let announced = if compression == WalCompression::Zstd {
                11
            } else {
                0
            };
            assert_eq!(writer.len(), announced);
            assert!(writer.is_empty());
            writer.flush().unwrap();
            writer.sync().unwrap();
            assert!(writer.is_empty());
            writer.add_record(b"").unwrap();
            assert!(!writer.is_empty());
        }
    }

    #[test]
    fn after_a_failure_the_file_is_left_alone() {
        let sink = Sink {
            appends_max: Some(1),
            ..Sink::default()
        };
        let mut writer =
            RecordWriter::new(Box::new(sink.clone()), RecordWriterOptions::default()).unwrap();
        writer.add_record(b"kept").unwrap();
        assert!(writer.add_record(b"lost").is_err());
        assert!(writer.add_record(b"refused").is_err());
        assert!(writer.sync().is_err());
        assert!(writer.failure().is_some());
        assert_eq!(*sink.appends.lock().unwrap(), 2);
        assert!(writer.close().is_err());
    }
}
