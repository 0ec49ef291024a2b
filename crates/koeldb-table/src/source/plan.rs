//! Plans the device reads of missing blocks (needs), merging those of neighbouring blocks.
//!
//! Needs are sorted by file and offset. Neighbours are merged into one read where the gap between
//! them costs less than a second request would, and as long as the read is small enough to be one
//! request of the device.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::sync::Arc;

use crate::source::TableFile;
use crate::source::probe::{NeedId, Needs};

/// The limits for merging the reads of nearby blocks into one.
#[derive(Clone, Copy, Debug)]
pub struct PlanLimits {
    /// The largest gap between two blocks that is read, and discarded, to merge their reads.
    pub gap_bytes: u64,
    /// The largest merged read. A larger block is read alone.
    pub merged_bytes: u64,
}

impl Default for PlanLimits {
    fn default() -> Self {
        PlanLimits {
            gap_bytes: 16 << 10,
            merged_bytes: 256 << 10,
        }
    }
}

/// A planned read of a file range that contains one or more missing blocks.
#[derive(Clone, Debug)]
pub struct PlannedRead {
    /// The table file to read.
    pub file: Arc<TableFile>,
    /// The offset of the range in the file, in bytes.
    pub offset: u64,
    /// The length of the range in bytes.
    pub bytes: u64,
    /// The missing blocks in the range, in file order.
    pub needs: Vec<NeedId>,
}

impl PlannedRead {
    /// Plans the read of one missing block; `None` if `id` or the block handle is invalid.
    #[must_use]
    pub fn of_one(needs: &Needs, id: NeedId) -> Option<Self> {
        let need = needs.get(id)?;
        Some(PlannedRead {
            file: Arc::clone(&need.file),
            offset: need.handle.offset,
            bytes: need.file.stored_bytes(need.handle, need.kind).ok()?,
            needs: vec![id],
        })
    }

    /// Returns the file offset after the range.
    fn end(&self) -> u64 {
        self.offset.saturating_add(self.bytes)
    }
}

/// Plans the reads of the missing blocks `wanted`, merging those of nearby blocks.
#[must_use]
pub fn plan(needs: &Needs, wanted: &[NeedId], limits: &PlanLimits) -> Vec<PlannedRead> {
    let mut parts: Vec<PlannedRead> = wanted
        .iter()
        .filter_map(|&id| PlannedRead::of_one(needs, id))
        .collect();
    parts.sort_by_key(|part| (part.file.number, part.file.cache_id, part.offset));
    let mut reads: Vec<PlannedRead> = Vec::with_capacity(parts.len());
    for part in parts {
        if let Some(last) = reads.last_mut() {
            let end = part.end().max(last.end());
            let joined = end.saturating_sub(last.offset);
            let is_near = part.offset <= last.end().saturating_add(limits.gap_bytes);
            if Arc::ptr_eq(&last.file, &part.file) && is_near && joined <= limits.merged_bytes {
                last.bytes = joined;
                last.needs.extend(part.needs);
                continue;
            }
        }
        reads.push(part);
    }
    reads
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use koeldb_base::Result;
    use koeldb_base::checksum::ChecksumKind;
    use koeldb_base::codec::Decompressor;
    use koeldb_cache::Priority;
    use koeldb_fs::RandomAccessFile;

    use super::*;
    use crate::format::{BlockHandle, ChecksumContext};
    use crate::source::BlockKind;

    #[derive(Debug)]
    struct Nothing;

    impl RandomAccessFile for Nothing {
        fn read_at(&self, _offset: u64, _buffer: &mut [u8]) -> Result<usize> {
            Ok(0)
        }

        fn path(&self) -> &Path {
            Path::new("/nothing")
        }

        fn len(&self) -> u64 {
            1 << 40
        }
    }

    fn file(number: u64) -> Arc<TableFile> {
        Arc::new(TableFile {
            file: Arc::new(Nothing),
            number,
            bytes: 1 << 40,
            blocks_end: 1 << 40,
            block_bytes_max: usize::MAX,
            checksum: ChecksumContext {
                kind: ChecksumKind::None,
                base: 0,
            },
            data_decompressor: Decompressor::new(None),
            plain_decompressor: Decompressor::new(None),
            cache_id: number,
            cache: None,
            index_preparation: None,
            metadata_priority: Priority::Low,
            statistics: None,
            is_last_level: false,
            spans: None,
        })
    }

    const TRAILER: u64 = 5;

    fn planned(blocks: &[(&Arc<TableFile>, u64, u64)]) -> Vec<(u64, u64, u64, usize)> {
        let mut needs = Needs::default();
        for &(file, offset, size) in blocks {
            needs.want(file, BlockHandle { offset, size }, BlockKind::Data);
        }
        let wanted = needs.take_wanted();
        assert!(!needs.has_wanted());
        plan(&needs, &wanted, &PlanLimits::default())
            .into_iter()
            .map(|read| (read.file.number, read.offset, read.bytes, read.needs.len()))
            .collect()
    }

    #[test]
    fn neighbours_are_read_together_up_to_a_gap() {
        let (a, b) = (file(1), file(2));
        let far = 4000 + TRAILER + (16 << 10);
        let blocks = [
            (&b, 0, 4000),
            (&a, far, 100),
            (&a, 0, 4000),
            (&a, 2 * far, 100),
        ];
        assert_eq!(
            planned(&blocks),
            [
                (1, 0, far + 100 + TRAILER, 2),
                (1, 2 * far, 100 + TRAILER, 1),
                (2, 0, 4000 + TRAILER, 1)
            ]
        );
    }

    #[test]
    fn a_read_of_several_blocks_stays_small() {
        let a = file(1);
        let blocks: Vec<_> = (0..10)
            .map(|i| (&a, i * 60_000, 60_000 - TRAILER))
            .collect();
        let sizes: Vec<_> = planned(&blocks)
            .iter()
            .map(|read| (read.2, read.3))
            .collect();
        assert_eq!(sizes, [(240_000, 4), (240_000, 4), (120_000, 2)]);
        let large = planned(&[(&a, 0, 10), (&a, 20, 1 << 20), (&a, 30, 10)]);
        assert_eq!(large.len(), 3, "{large:?}");
    }

    #[test]
    fn a_block_is_needed_once() {
        let a = file(1);
        let mut needs = Needs::default();
        let handle = |offset| BlockHandle { offset, size: 10 };
        let ids: Vec<_> = (0..1000)
            .map(|i| needs.want(&a, handle(i * 4096), BlockKind::Data))
            .collect();
        for (i, &id) in ids.iter().enumerate() {
            assert_eq!(needs.want(&a, handle(i as u64 * 4096), BlockKind::Data), id);
            assert_eq!(needs.find(&file(1), handle(i as u64 * 4096)), None);
        }
        assert_eq!(needs.len(), 1000);
        needs.clear();
        assert_eq!(needs.find(&a, handle(0)), None);
    }
}
