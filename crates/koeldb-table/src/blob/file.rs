//! Reads values of blob files.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::sync::Arc;
use std::time::Duration;

use koeldb_base::checksum::{crc32c, mask};
use koeldb_base::codec::{Compression, Decompressor};
use koeldb_base::coding::to_usize;
use koeldb_base::file_name::FileNumber;
use koeldb_base::merge_operator::{BlobCacheUse, FetchOptions};
use koeldb_base::perf::{self, PerfMetric};
use koeldb_base::stats::{HistogramKind, Statistics, Stopwatch, Ticker};
use koeldb_base::{Error, ErrorKind, KeyOrder, Limits, PinnedSlice, Result};
use koeldb_cache::Cache;
use koeldb_fs::RandomAccessFile;

use super::batch::BlobParts;
use super::cache::CachedValues;
use super::format::{
    BlobFooter, BlobHeader, FOOTER_BYTES, HEADER_BYTES, RECORD_HEADER_BYTES, RecordHeader,
};
use super::key::BlobKey;
use super::readahead::BlobReadahead;
use super::records::BlobRecords;
use super::reference::BlobReference;
use crate::block::CachedBlock;
use crate::file_read::read_bytes;

/// The size of the parts in which a file is searched for the header of a record.
const SEARCH_BYTES: u64 = 64 << 10;

/// The size of the reads of all values of a file.
const FILL_BYTES: u64 = 256 << 10;

/// The description of a blob file in the MANIFEST, which the file is compared with.
#[derive(Clone, Copy, Debug)]
pub struct BlobFileContext {
    /// The number in the file's name.
    pub number: FileNumber,
    /// The number of records.
    pub count: u64,
    /// The size of all records, without header and footer.
    pub record_bytes: u64,
    /// The limits on sizes that a value declares.
    pub limits: Limits,
}

/// Where the bytes of a value come from.
#[derive(Clone, Copy, Debug)]
pub enum BlobBytes<'a> {
    /// From a read of the value alone.
    Alone,
    /// From the windows of a scan or a job.
    Ahead(&'a BlobReadahead),
    /// From a batch, if that has read them, and otherwise from a read of the value alone.
    Batch(&'a BlobParts),
}

/// The statistics and perf counters of the reads of blob files.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadCounter(Option<Statistics>);

impl ReadCounter {
    /// Counts a read of `bytes` bytes that another thread made, if it took `elapsed`.
    pub(super) fn count(&self, bytes: u64, elapsed: Duration) {
        perf::count(PerfMetric::BlobReadCount, 1);
        perf::count(PerfMetric::BlobReadByte, bytes);
        if let Some(statistics) = &self.0 {
            statistics.add(Ticker::BlobDbBlobFileBytesRead, bytes);
            statistics.record_micros(HistogramKind::BlobDbBlobFileReadMicros, elapsed);
        }
    }

    /// Makes a read of `bytes` bytes, and counts it.
    pub(super) fn measured<T>(&self, bytes: u64, read: impl FnOnce() -> T) -> T {
        let timer = perf::timer(PerfMetric::BlobReadTime);
        let stopwatch = Stopwatch::start_for(self.0.as_ref());
        let result = read();
        drop(timer);
        let elapsed = stopwatch.map_or(Duration::ZERO, Stopwatch::elapsed);
        self.count(bytes, elapsed);
        result
    }

    /// Makes a decompression, and counts its time.
    fn decompressed<T>(&self, decompress: impl FnOnce() -> T) -> T {
        let _timer = perf::timer(PerfMetric::BlobDecompressTime);
        let stopwatch = Stopwatch::start_for(self.0.as_ref());
        let result = decompress();
        if let (Some(statistics), Some(stopwatch)) = (&self.0, stopwatch) {
            stopwatch.record(statistics, HistogramKind::BlobDbDecompressionMicros);
        }
        result
    }
}

/// An open blob file. Immutable and shared by threads.
#[derive(Debug)]
pub struct BlobFile {
    file: Arc<dyn RandomAccessFile>,
    number: FileNumber,
    header: BlobHeader,
    context: BlobFileContext,
    limits: Limits,
    counter: ReadCounter,
    cached: Option<CachedValues>,
}

impl BlobFile {
    /// Opens a blob file, and compares it with its record in the MANIFEST.
    ///
    /// # Errors
    /// `Corruption` if header or footer are damaged, or the length or the number of records is not
    /// the recorded one; `NotSupported` for files of the older `BlobDB`.
    pub fn open(file: Arc<dyn RandomAccessFile>, context: &BlobFileContext) -> Result<Self> {
        let header = Self::read_header(&*file, context)
            .map_err(|error| error.in_file(file.path(), None, "open"))?;
        Ok(BlobFile {
            file,
            number: context.number,
            header,
            context: *context,
            limits: context.limits,
            counter: ReadCounter::default(),
            cached: None,
        })
    }

    /// Reads the whole file, and verifies header, footer and each record.
    ///
    /// `progress` receives the size of each record.
    ///
    /// # Errors
    /// `Corruption` with the file and the offset of the first damage; otherwise if the system fails.
    pub fn verify_checksums(&self, progress: &mut dyn FnMut(u64)) -> Result<()> {
        let path = self.file.path();
        let header = Self::read_header(&*self.file, &self.context)
            .map_err(|error| error.in_file(path, None, "verify"))?;
        if header != self.header {
            let changed = Error::corruption("the header of the blob file has changed");
            return Err(changed.in_file(path, Some(0), "verify"));
        }
        let end = self.file.len().saturating_sub(FOOTER_BYTES);
        let mut records = BlobRecords::new(Arc::clone(&self.file), end, self.limits);
        let (mut at, mut count) = (records.offset(), 0_u64);
        while let Some(record) = records.next_record()? {
            if !record.is_intact {
                let damaged = Error::corruption("the checksum of the value does not match");
                return Err(damaged.in_file(path, Some(record.offset), "verify"));
            }
            count = count.saturating_add(1);
            progress(records.offset().saturating_sub(at));
            at = records.offset();
        }
        if count != self.context.count {
            let counted = Error::corruption(format!(
                "the blob file has {count} records, and {} are recorded",
                self.context.count
            ));
            return Err(counted.in_file(path, None, "verify"));
        }
        Ok(())
    }

    /// Sets the statistics of reads, and the blob cache; none by default.
    #[must_use]
    pub fn with(
        mut self,
        statistics: Option<Statistics>,
        cache: Option<Cache<CachedBlock>>,
    ) -> Self {
        self.cached = cache.map(|cache| CachedValues::new(cache, statistics.clone()));
        self.counter = ReadCounter(statistics);
        self
    }

    fn read_header(file: &dyn RandomAccessFile, context: &BlobFileContext) -> Result<BlobHeader> {
        let expected = context
            .record_bytes
            .saturating_add(HEADER_BYTES)
            .saturating_add(FOOTER_BYTES);
        if file.len() != expected {
            return Err(Error::corruption(format!(
                "the blob file has {} bytes, and {expected} are recorded",
                file.len()
            )));
        }
        let header = BlobHeader::decode(&read_bytes(file, 0, to_usize(HEADER_BYTES))?)?;
        let at = expected.saturating_sub(FOOTER_BYTES);
        let footer = BlobFooter::decode(&read_bytes(file, at, to_usize(FOOTER_BYTES))?)?;
        if footer.count != context.count {
            return Err(Error::corruption(format!(
                "the blob file has {} records, and {} are recorded",
                footer.count, context.count
            )));
        }
        Ok(header)
    }

    /// The header of the file.
    #[must_use]
    pub fn header(&self) -> &BlobHeader {
        &self.header
    }

    /// The open file, for reads of parts of it.
    pub(super) fn file(&self) -> &Arc<dyn RandomAccessFile> {
        &self.file
    }

    /// The statistics of reads of the file.
    pub(super) fn read_counter(&self) -> ReadCounter {
        self.counter.clone()
    }

    /// Returns the part of the file that a value needs, whose key has `key_bytes` bytes.
    ///
    /// `None` if the value is cached, or the reference does not fit the file.
    pub(super) fn wanted_range(
        &self,
        reference: &BlobReference,
        key_bytes: u64,
        verifies: bool,
    ) -> Option<(u64, u64)> {
        let is_cached = |cached: &CachedValues| cached.contains(reference.offset);
        if self.cached.as_ref().is_some_and(is_cached) {
            return None;
        }
        self.check(reference).ok()?;
        self.range(reference, key_bytes, verifies).ok()
    }

    /// Returns the value of a key, from the blob cache or from the file.
    ///
    /// # Errors
    /// `Corruption` if the reference does not fit the file, or the record is damaged or of another
    /// key; `Incomplete` if the value is not cached and nothing may be read; otherwise if the system
    /// fails.
    pub fn get(
        &self,
        reference: &BlobReference,
        key: &BlobKey<'_>,
        options: FetchOptions,
        bytes: BlobBytes<'_>,
    ) -> Result<PinnedSlice> {
        let cached = (self.cached.as_ref()).filter(|_| options.cache != BlobCacheUse::Bypass);
        if let Some(cached) = cached
            && let Some(value) = cached.get(reference.offset)
            && (reference.compression != Compression::None || value.len() as u64 == reference.bytes)
        {
            return Ok(value);
        }
        if options.cache == BlobCacheUse::Only {
            return Err(not_cached());
        }
        let verifies = options.verifies;
        let value = match bytes {
            BlobBytes::Alone => self.value(reference, key, verifies)?,
            BlobBytes::Ahead(ahead) => ahead.value(self, reference, key, verifies)?,
            BlobBytes::Batch(parts) => match parts.get(reference) {
                Some(part) => {
                    let part = part.map_err(|error| self.at(error, reference))?;
                    self.value_in(part, reference, key, verifies)?
                }
                None => self.value(reference, key, verifies)?,
            },
        };
        match cached {
            Some(cached) if options.cache == BlobCacheUse::Fill && verifies => {
                Ok(cached.insert(reference.offset, value))
            }
            _ => Ok(value),
        }
    }

    /// Inserts all values of the file into the blob cache, if there is one.
    ///
    /// # Errors
    /// `Corruption` if a record is damaged; otherwise if the system fails.
    pub fn fill_cache(&self) -> Result<()> {
        let Some(cached) = &self.cached else {
            return Ok(());
        };
        let values_end = self.file.len().saturating_sub(FOOTER_BYTES);
        let mut at = HEADER_BYTES;
        let mut part = PinnedSlice::default();
        let mut part_begin = at;
        // Returns the bytes from `begin` on, from the part that was read last if that has them.
        let mut bytes_at = |begin: u64, bytes: u64| -> Result<PinnedSlice> {
            let end = begin.saturating_add(bytes);
            if begin < part_begin || end > part_begin.saturating_add(part.len() as u64) {
                let read = bytes.max(FILL_BYTES);
                part = PinnedSlice::from(self.read_part(begin, read)?);
                part_begin = begin;
            }
            let from = to_usize(begin.saturating_sub(part_begin));
            let to = to_usize(end.saturating_sub(part_begin));
            match part.get(from..to) {
                Some(_) => Ok(part.subslice(from..to)),
                None => Err(Error::corruption("the last record is cut short")),
            }
        };
        while at < values_end {
            let header = RecordHeader::decode(&bytes_at(at, RECORD_HEADER_BYTES)?)?;
            let bytes = header
                .record_bytes()
                .filter(|bytes| *bytes <= values_end.saturating_sub(at))
                .ok_or_else(|| Error::corruption("a record ends behind the last one"))?;
            let record = bytes_at(at, bytes)?;
            let key_begin = to_usize(RECORD_HEADER_BYTES);
            let value_begin = key_begin.saturating_add(to_usize(header.key_bytes));
            let user_key = record.get(key_begin..value_begin).unwrap_or_default();
            let reference = BlobReference {
                file: self.number,
                offset: at.saturating_add(value_begin as u64),
                bytes: header.value_bytes,
                compression: self.header.compression,
            };
            let key = BlobKey::of_entry(&KeyOrder::Bytewise, user_key);
            let value = self.value_in(&record, &reference, &key, true)?;
            cached.insert(reference.offset, value);
            at = at.saturating_add(bytes);
        }
        Ok(())
    }

    /// Reads the value of a key.
    ///
    /// # Errors
    /// `Corruption` if the reference does not fit the file, or the record is damaged or of another
    /// key; otherwise if the system fails.
    pub fn value(
        &self,
        reference: &BlobReference,
        key: &BlobKey<'_>,
        verifies: bool,
    ) -> Result<PinnedSlice> {
        let read = || {
            self.check(reference)?;
            let (begin, end) = self.range(reference, key.record_key_bytes(), verifies)?;
            self.read_value(begin, end, reference, key, verifies)
        };
        self.or_search(read(), reference, key, verifies)
    }

    /// Returns the value of a key from the bytes of the file in [`BlobFile::checked_range`].
    ///
    /// The value pins them if it is stored uncompressed.
    ///
    /// # Errors
    /// `Corruption` if the record is damaged or of another key.
    pub fn value_in(
        &self,
        record: &PinnedSlice,
        reference: &BlobReference,
        key: &BlobKey<'_>,
        verifies: bool,
    ) -> Result<PinnedSlice> {
        let value = self.decode(record, reference, key, verifies);
        self.or_search(value, reference, key, verifies)
    }

    /// Returns the first and the last offset, exclusive, of what a read of the value needs.
    ///
    /// That is the whole record if it is verified.
    ///
    /// # Errors
    /// `Corruption` if the reference does not fit the file.
    pub fn checked_range(
        &self,
        reference: &BlobReference,
        key: &BlobKey<'_>,
        verifies: bool,
    ) -> Result<(u64, u64)> {
        self.check(reference)
            .and_then(|()| self.range(reference, key.record_key_bytes(), verifies))
            .map_err(|error| self.at(error, reference))
    }

    /// Compares a reference with the file.
    fn check(&self, reference: &BlobReference) -> Result<()> {
        if reference.compression != self.header.compression {
            return Err(Error::corruption(format!(
                "the reference says {:?}, and the file has {:?}",
                reference.compression, self.header.compression
            )));
        }
        if reference.bytes > self.limits.block_bytes as u64 {
            return Err(Error::corruption(format!(
                "a value of {} bytes is over the limit of {}",
                reference.bytes, self.limits.block_bytes
            )));
        }
        // The value itself, without header and key.
        self.range(reference, 0, false).map(drop)
    }

    /// Returns the part of the file with a value, and with its header and key if it is verified.
    fn range(
        &self,
        reference: &BlobReference,
        key_bytes: u64,
        verifies: bool,
    ) -> Result<(u64, u64)> {
        let key_bytes = if verifies { key_bytes } else { 0 };
        let head_bytes = RECORD_HEADER_BYTES.saturating_add(key_bytes);
        let end = reference.offset.checked_add(reference.bytes);
        let values_end = self.file.len().saturating_sub(FOOTER_BYTES);
        let end = end.filter(|&end| end <= values_end);
        let is_behind_header = reference.offset >= HEADER_BYTES.saturating_add(head_bytes);
        match end {
            Some(end) if reference.file == self.number && is_behind_header => {
                let skipped = if verifies { head_bytes } else { 0 };
                Ok((reference.offset.saturating_sub(skipped), end))
            }
            _ => Err(Error::corruption(format!(
                "the reference to {} bytes at {} does not fit the file",
                reference.bytes, reference.offset
            ))),
        }
    }

    /// Reads a value from its record, which is the part of the file from `begin` to `end`.
    fn read_value(
        &self,
        begin: u64,
        end: u64,
        reference: &BlobReference,
        key: &BlobKey<'_>,
        verifies: bool,
    ) -> Result<PinnedSlice> {
        let bytes = self.read(begin, end.saturating_sub(begin))?;
        self.decode(&PinnedSlice::from(bytes), reference, key, verifies)
    }

    /// Returns the value that was found, or searches for the record if its key may be longer or
    /// shorter than the reader knows.
    ///
    /// Errors get the place of the value.
    fn or_search(
        &self,
        value: Result<PinnedSlice>,
        reference: &BlobReference,
        key: &BlobKey<'_>,
        verifies: bool,
    ) -> Result<PinnedSlice> {
        let value = match value {
            Err(error) if verifies && error.is_corruption() && key.may_differ_in_length() => self
                .check(reference)
                .and_then(|()| match self.record_before(reference)? {
                    Some(begin) => {
                        let end = reference.offset.saturating_add(reference.bytes);
                        self.read_value(begin, end, reference, key, verifies)
                    }
                    None => Err(error),
                }),
            value => value,
        };
        value.map_err(|error| self.at(error, reference))
    }

    /// Searches for the header of the record whose key ends where a value begins.
    ///
    /// The header has the length of the key, and a checksum.
    #[cold]
    fn record_before(&self, reference: &BlobReference) -> Result<Option<u64>> {
        let header_bytes = to_usize(RECORD_HEADER_BYTES);
        // The first offset that was not searched yet.
        let mut to = reference
            .offset
            .saturating_sub(RECORD_HEADER_BYTES)
            .saturating_add(1);
        while to > HEADER_BYTES {
            let from = to.saturating_sub(SEARCH_BYTES).max(HEADER_BYTES);
            let bytes = to.saturating_sub(from).saturating_add(RECORD_HEADER_BYTES);
            let part = self.read_part(from, bytes.saturating_sub(1))?;
            for (at, head) in part.windows(header_bytes).enumerate().rev() {
                let begin = from.saturating_add(at as u64);
                let key_bytes = head.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
                let key_begin = begin.saturating_add(RECORD_HEADER_BYTES);
                let ends_here = key_bytes.and_then(|bytes| key_begin.checked_add(bytes))
                    == Some(reference.offset);
                if ends_here
                    && let Ok(header) = RecordHeader::decode(head)
                    && header.value_bytes == reference.bytes
                {
                    return Ok(Some(begin));
                }
            }
            to = from;
        }
        Ok(None)
    }

    /// Reads up to `bytes` bytes from the offset `begin` on, but not the footer.
    ///
    /// # Errors
    /// If the system fails.
    pub(super) fn read_part(&self, begin: u64, bytes: u64) -> Result<Vec<u8>> {
        let values_end = self.file.len().saturating_sub(FOOTER_BYTES);
        let bytes = bytes.min(values_end.saturating_sub(begin));
        self.read(begin, bytes)
            .map_err(|error| error.in_file(self.file.path(), Some(begin), "read values"))
    }

    /// Reads `bytes` bytes from the offset `begin` on, and counts the read.
    fn read(&self, begin: u64, bytes: u64) -> Result<Vec<u8>> {
        let read = || read_bytes(&*self.file, begin, to_usize(bytes));
        self.counter.measured(bytes, read)
    }

    /// Advises the system that `bytes` bytes from the offset `begin` on will be read soon.
    pub(super) fn prefetch(&self, begin: u64, bytes: u64) {
        if begin < self.file.len() {
            self.file.prefetch(begin, bytes);
        }
    }

    /// Returns the value in a record, which it pins if it is stored uncompressed.
    fn decode(
        &self,
        record: &PinnedSlice,
        reference: &BlobReference,
        key: &BlobKey<'_>,
        verifies: bool,
    ) -> Result<PinnedSlice> {
        let skipped = record.len().saturating_sub(to_usize(reference.bytes));
        if verifies {
            let _timer = perf::timer(PerfMetric::BlobChecksumTime);
            verify_record(record, skipped, reference, key)?;
        }
        if reference.compression == Compression::None {
            return Ok(record.subslice(skipped..record.len()));
        }
        let stored = record.get(skipped..).unwrap_or_default();
        let raw = self.counter.decompressed(|| {
            Decompressor::new(None).decompress(
                reference.compression,
                stored,
                self.limits.block_bytes,
            )
        })?;
        Ok(PinnedSlice::from(raw))
    }

    /// Adds the file and the offset of a value to an error.
    fn at(&self, error: Error, reference: &BlobReference) -> Error {
        error.in_file(self.file.path(), Some(reference.offset), "read a value")
    }
}

/// Returns the error of a value that is not cached if nothing may be read.
#[cold]
fn not_cached() -> Error {
    Error::with_kind(
        ErrorKind::Incomplete,
        "the value is in a blob file, and the read tier excludes I/O",
    )
}

/// Compares a record with its checksums, its key and the reference to it.
///
/// The value begins at `value_at`.
fn verify_record(
    record: &[u8],
    value_at: usize,
    reference: &BlobReference,
    key: &BlobKey<'_>,
) -> Result<()> {
    let (head, content) = record
        .split_at_checked(to_usize(RECORD_HEADER_BYTES))
        .ok_or_else(|| Error::corruption("a record without a header"))?;
    let header = RecordHeader::decode(head)?;
    let key_bytes = value_at.saturating_sub(to_usize(RECORD_HEADER_BYTES));
    let record_key = content.get(..key_bytes).unwrap_or_default();
    let is_of_reference =
        header.value_bytes == reference.bytes && header.key_bytes == key_bytes as u64;
    if !is_of_reference || !key.is(record_key) {
        return Err(Error::corruption("the record is of another key"));
    }
    if mask(crc32c(content)) != header.checksum {
        return Err(Error::corruption(
            "the checksum of the value does not match",
        ));
    }
    Ok(())
}
