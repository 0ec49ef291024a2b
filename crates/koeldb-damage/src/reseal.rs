//! Recomputes the checksums of changed files.
//!
//! The positions of a valid table's blocks are found by watching its verification. Changes that
//! leave the length of the file unchanged can then be sealed: each block's trailer gets the
//! checksum of the changed block, and likewise the records of logs, by writing them again.

use std::sync::Arc;

use koeldb_base::Result;
use koeldb_fs::RandomAccessFile;
use koeldb_table::TableReader;
use koeldb_table::block_based::format::{BlockHandle, ChecksumContext, Footer, TableKind};
use koeldb_table::reader::TableReadContext;

use crate::bytes_file::BytesFile;

/// The size of a block trailer: codec and checksum.
const TRAILER_BYTES: usize = 5;

/// A valid table file and the positions of its blocks, whose checksums can be recomputed.
#[derive(Clone, Debug)]
pub struct SealedTable {
    bytes: Vec<u8>,
    footer: Footer,
    blocks: Vec<BlockHandle>,
}

impl SealedTable {
    /// Finds the blocks of a table file that is opened with `context`.
    ///
    /// # Errors
    /// If the table is not valid.
    pub fn new(bytes: Vec<u8>, context: &TableReadContext) -> Result<Self> {
        let file = BytesFile::new("/000007.sst", bytes.clone());
        // With a tail of one byte only the footer is read ahead.
        let context = TableReadContext {
            tail_bytes: 1,
            ..context.clone()
        };
        let table = TableReader::open(Arc::clone(&file) as Arc<dyn RandomAccessFile>, &context)?;
        table.verify_checksums(&mut |_| ())?;
        let tail = bytes
            .get(bytes.len().saturating_sub(64)..)
            .unwrap_or(&bytes);
        let footer = Footer::decode(tail, bytes.len() as u64)?;
        let mut blocks = Vec::new();
        if footer.kind == TableKind::BlockBased {
            for (offset, len) in file.reads() {
                let size = len.saturating_sub(TRAILER_BYTES) as u64;
                let handle = BlockHandle { offset, size };
                let sealed = trailer(&bytes, footer.checksum, handle);
                if sealed.is_some_and(|(at, sum)| bytes[at..at + 4] == sum) {
                    blocks.push(handle);
                }
            }
        }
        blocks.sort_by_key(|handle| handle.offset);
        blocks.dedup();
        Ok(SealedTable {
            bytes,
            footer,
            blocks,
        })
    }

    /// The original file.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The blocks that have a trailer.
    #[must_use]
    pub fn blocks(&self) -> &[BlockHandle] {
        &self.blocks
    }

    /// The original footer.
    #[must_use]
    pub fn footer(&self) -> &Footer {
        &self.footer
    }

    /// Recomputes the block checksums of `bytes`, a changed copy of the file of the same length.
    pub fn seal(&self, bytes: &mut [u8]) {
        for &handle in &self.blocks {
            if let Some((at, sum)) = trailer(bytes, self.footer.checksum, handle) {
                bytes[at..at + 4].copy_from_slice(&sum);
            }
        }
    }

    /// Replaces the footer of `bytes`, a changed copy of the file of the same length.
    pub fn put_footer(&self, bytes: &mut [u8], footer: &Footer) {
        let at = bytes.len() - self.footer.bytes();
        if let Ok(encoded) = footer.encode(at as u64) {
            for (byte, new) in bytes[at..].iter_mut().zip(encoded) {
                *byte = new;
            }
        }
    }
}

/// Returns the position of a block's checksum and its correct value; `None` if out of bounds.
fn trailer(
    bytes: &[u8],
    checksum: ChecksumContext,
    handle: BlockHandle,
) -> Option<(usize, [u8; 4])> {
    let start = usize::try_from(handle.offset).ok()?;
    let end = start.checked_add(usize::try_from(handle.size).ok()?)?;
    let stored = bytes.get(start..end)?;
    let codec = *bytes.get(end)?;
    bytes.get(end..end + TRAILER_BYTES)?;
    let sum = checksum.block(handle.offset, stored, codec);
    Some((end + 1, sum.to_le_bytes()))
}
