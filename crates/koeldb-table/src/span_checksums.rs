//! Checksums of tables whose format has none.
//!
//! Cuckoo and plain tables written by KoelDB have an additional metadata block, which RocksDB does
//! not know and so ignores, and a property that declares it. The data is divided into spans with a
//! CRC-32C each; another CRC covers everything else, including the metaindex and the footer, and
//! the last one is the block's own.
//!
//! ```text
//! data | other blocks | properties | checksums | metaindex | footer
//!
//! checksums:  fixed32 bytes of a span | fixed64 bytes of the data
//!             fixed32 of each span | fixed32 of all before and after the block except data
//!             fixed32 of the block up to here
//! ```
//!
//! Stored checksums are masked. A table without block and property was written by another engine.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use koeldb_base::checksum::{crc32c, crc32c_extend, mask};
use koeldb_base::coding::{self, to_usize};
use koeldb_base::{Error, Result};
use koeldb_fs::RandomAccessFile;

use crate::file_read::read_bytes;
use crate::format::BlockHandle;
use crate::metaindex::Metaindex;
use crate::properties::TableProperties;

/// The name of the checksum block, and of the property that declares it.
pub(crate) const NAME: &str = "koeldb.checksums";

/// The value of the property that declares the checksum block.
pub(crate) const VERSION: [u8; 1] = *b"1";

/// The size of a span in tables written by KoelDB.
const SPAN_BYTES: usize = 16 << 10;

/// The size of the checksum block without the checksums of spans: two sizes, two checksums.
const FIXED_BYTES: usize = 20;

/// The size of one read of a file, or a span, if that is larger.
const PIECE_BYTES: u64 = 1 << 20;

/// Returns the size of the block of span checksums for a table with `data_bytes` bytes of data.
pub(crate) fn block_bytes(data_bytes: u64) -> u64 {
    let spans = data_bytes.div_ceil(SPAN_BYTES as u64);
    spans.saturating_mul(4).saturating_add(FIXED_BYTES as u64)
}

/// A builder of the checksums of a table's data, one per span of 16 KiB.
#[derive(Clone, Debug, Default)]
pub(crate) struct SpanSums {
    full: Vec<u8>,
    data_bytes: u64,
    /// The CRC of the current span so far.
    crc: u32,
    /// The number of bytes in the current span so far.
    filled: usize,
}

impl SpanSums {
    /// Adds the next bytes of the table's data.
    pub(crate) fn add(&mut self, mut bytes: &[u8]) {
        self.data_bytes = self.data_bytes.saturating_add(bytes.len() as u64);
        while !bytes.is_empty() {
            let room = SPAN_BYTES.saturating_sub(self.filled).min(bytes.len());
            let (now, later) = bytes.split_at(room);
            self.crc = crc32c_extend(self.crc, now);
            self.filled = self.filled.saturating_add(room);
            bytes = later;
            if self.filled == SPAN_BYTES {
                self.end_span();
            }
        }
    }

    /// Ends the current span, and appends its masked CRC-32C to the checksums.
    fn end_span(&mut self) {
        coding::put_fixed32(&mut self.full, mask(self.crc));
        (self.crc, self.filled) = (0, 0);
    }

    /// Encodes the block of span checksums, and one checksum of the sections `tail` and `end`.
    fn block(mut self, tail: &[u8], end: &[u8]) -> Result<Vec<u8>> {
        if self.filled > 0 {
            self.end_span();
        }
        let mut block = Vec::new();
        coding::put_fixed32(&mut block, coding::to_u32(SPAN_BYTES, "span")?);
        coding::put_fixed64(&mut block, self.data_bytes);
        block.extend_from_slice(&self.full);
        coding::put_fixed32(&mut block, mask(crc32c_extend(crc32c(tail), end)));
        let own = mask(crc32c(&block));
        coding::put_fixed32(&mut block, own);
        Ok(block)
    }
}

/// Completes the sections after the data, in `tail`, with span checksums, metaindex and footer.
///
/// It appends the block of `sums`, if given, and the result of `end`, which encodes metaindex and
/// footer from the block's handle and the offset after it.
///
/// # Errors
/// Those of `end`.
pub(crate) fn complete_tail(
    tail: &mut Vec<u8>,
    start: u64,
    sums: Option<SpanSums>,
    end: impl FnOnce(Option<BlockHandle>, u64) -> Result<Vec<u8>>,
) -> Result<()> {
    let offset = start.saturating_add(tail.len() as u64);
    let Some(sums) = sums else {
        tail.extend_from_slice(&end(None, offset)?);
        return Ok(());
    };
    let size = block_bytes(sums.data_bytes);
    let handle = BlockHandle { offset, size };
    let end = end(Some(handle), offset.saturating_add(size))?;
    let block = sums.block(tail, &end)?;
    tail.extend_from_slice(&block);
    tail.extend_from_slice(&end);
    Ok(())
}

/// The span checksums of an open table, for verifying what is read.
#[derive(Clone, Debug)]
pub(crate) struct SpanChecksums {
    handle: BlockHandle,
    span_bytes: u64,
    data_bytes: u64,
    /// The stored checksums of the spans.
    spans: Vec<u8>,
    rest: u32,
}

impl SpanChecksums {
    /// Reads and verifies the block of span checksums; `None` if the table has none.
    ///
    /// # Errors
    /// `Corruption` if it is damaged, or missing although declared; otherwise the errors of the
    /// system.
    pub(crate) fn read(
        file: &dyn RandomAccessFile,
        metaindex: &Metaindex,
        properties: &TableProperties,
        blocks_end: u64,
    ) -> Result<Option<Self>> {
        let (handle, promise) = (metaindex.get(NAME), properties.user(NAME));
        if handle.is_none() && promise.is_none() {
            return Ok(None);
        }
        let (Some(handle), Some(&VERSION)) = (handle, promise.and_then(<[u8]>::first_chunk)) else {
            return Err(Error::corruption(format!(
                "the block {NAME} and its property contradict each other"
            )));
        };
        let wanted = block_bytes_in(handle, blocks_end)?;
        let block = read_bytes(file, handle.offset, wanted)?;
        let decoded = Self::decode(handle, &block, properties.data_bytes);
        decoded
            .map(Some)
            .ok_or_else(|| Error::corruption("block checksum mismatch: the checksums themselves"))
    }

    /// Decodes a block of span checksums; `None` if it is damaged or of other data.
    fn decode(handle: BlockHandle, block: &[u8], data_bytes: u64) -> Option<Self> {
        let (content, own) = block.split_at_checked(block.len().checked_sub(4)?)?;
        if coding::fixed32_at(own, 0)? != mask(crc32c(content)) {
            return None;
        }
        let span_bytes = u64::from(coding::fixed32_at(content, 0)?);
        let (spans, rest) = content.get(12..)?.split_last_chunk::<4>()?;
        let count = match span_bytes {
            0 => return None,
            bytes => data_bytes.div_ceil(bytes),
        };
        let fits = coding::fixed64_at(content, 4)? == data_bytes
            && count.checked_mul(4)? == spans.len() as u64;
        fits.then(|| SpanChecksums {
            handle,
            span_bytes,
            data_bytes,
            spans: spans.to_vec(),
            rest: u32::from_le_bytes(*rest),
        })
    }

    /// The number of data bytes that one checksum covers.
    pub(crate) fn span_bytes(&self) -> u64 {
        self.span_bytes
    }

    /// Verifies the checksum of the span that begins at offset `start`.
    ///
    /// # Errors
    /// `Corruption` if its checksum differs.
    pub(crate) fn verify_span_at(&self, start: u64, bytes: &[u8]) -> Result<()> {
        let span = start.checked_div(self.span_bytes).unwrap_or(0);
        self.verify_span(to_usize(span), start, bytes)
    }

    /// Verifies the checksums of all spans; `bytes` returns the data at an offset and length.
    ///
    /// # Errors
    /// `Corruption`, naming the first span that differs.
    pub(crate) fn verify_data<'b>(&self, bytes: impl Fn(u64, usize) -> &'b [u8]) -> Result<()> {
        for (span, start) in (0..self.data_bytes)
            .step_by(to_usize(self.span_bytes))
            .enumerate()
        {
            let len = self.span_bytes.min(self.data_bytes.saturating_sub(start));
            self.verify_span(span, start, bytes(start, to_usize(len)))?;
        }
        Ok(())
    }

    /// Verifies the checksum of span number `span`, at offset `start`.
    fn verify_span(&self, span: usize, start: u64, bytes: &[u8]) -> Result<()> {
        let stored = coding::fixed32_at(&self.spans, span.saturating_mul(4));
        let found = mask(crc32c(bytes));
        if stored == Some(found) {
            return Ok(());
        }
        let what = format!("{} bytes at {start}", bytes.len());
        Err(mismatch(&what, stored.unwrap_or_default(), found))
    }

    /// Reads and verifies the part of the file that is not data.
    ///
    /// # Errors
    /// `Corruption` if it differs; otherwise the errors of the system.
    pub(crate) fn verify_rest(&self, file: &dyn RandomAccessFile) -> Result<()> {
        let before = self.data_bytes..self.handle.offset;
        let behind = self.handle.offset.saturating_add(self.handle.size)..file.len();
        let mut crc = 0;
        for range in [before, behind] {
            let mut at = range.start;
            while at < range.end {
                let len = PIECE_BYTES.min(range.end.saturating_sub(at));
                crc = crc32c_extend(crc, &read_bytes(file, at, to_usize(len))?);
                at = at.saturating_add(len);
            }
        }
        match mask(crc) {
            found if found == self.rest => Ok(()),
            found => Err(mismatch("what is not data", self.rest, found)),
        }
    }

    /// Reads the whole file and verifies its checksums; `progress` receives the size of each piece.
    ///
    /// # Errors
    /// `Corruption` if something differs; otherwise the errors of the system.
    pub(crate) fn verify_file(
        &self,
        file: &dyn RandomAccessFile,
        progress: &mut dyn FnMut(u64),
    ) -> Result<()> {
        let spans = PIECE_BYTES.checked_div(self.span_bytes).unwrap_or(0);
        let piece = spans.max(1).saturating_mul(self.span_bytes);
        let (mut at, mut span) = (0_u64, 0_usize);
        while at < self.data_bytes {
            let len = piece.min(self.data_bytes.saturating_sub(at));
            let bytes = read_bytes(file, at, to_usize(len))?;
            for part in bytes.chunks(to_usize(self.span_bytes)) {
                self.verify_span(span, at, part)?;
                at = at.saturating_add(part.len() as u64);
                span = span.saturating_add(1);
            }
            progress(len);
        }
        self.verify_rest(file)?;
        progress(file.len().saturating_sub(self.data_bytes));
        Ok(())
    }
}

/// Returns the size of the block of span checksums; `Corruption` if it ends after `blocks_end`.
fn block_bytes_in(handle: BlockHandle, blocks_end: u64) -> Result<usize> {
    let end = handle.offset.checked_add(handle.size);
    match end.filter(|&end| end <= blocks_end) {
        Some(_) => Ok(to_usize(handle.size)),
        None => Err(Error::corruption(format!(
            "checksum block of {} bytes at {} exceeds the end of the blocks at {blocks_end}",
            handle.size, handle.offset
        ))),
    }
}

/// Creates the `Corruption` error of a checksum mismatch; `what` names the bytes.
#[cold]
fn mismatch(what: &str, stored: u32, found: u32) -> Error {
    Error::corruption(format!(
        "block checksum mismatch: stored = {stored}, computed = {found}, of {what}"
    ))
}
