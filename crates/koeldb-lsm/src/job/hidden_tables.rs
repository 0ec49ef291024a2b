//! An estimate of the data that a range tombstone hides in older tables.
//!
//! The estimate is the weight of the tombstone's table in compaction scores (RocksDB:
//! `compensated_range_deletion_size`, from `VersionSet::ApproximateSize`; 11.9).

use koeldb_base::KeyOrder;
use koeldb_base::key::{MAX_SEQNO, ValueType, encode};

use crate::table_opener::TableOpener;
use crate::version::{FileMeta, Version};

/// The older tables whose data the range tombstones of a job's output may delete.
#[derive(Clone, Copy)]
pub struct HiddenTables<'a> {
    /// The tree that the job began with.
    pub version: &'a Version,
    /// The opener of its tables.
    pub tables: &'a TableOpener,
    /// The first level of older tables.
    pub first_level: usize,
}

impl HiddenTables<'_> {
    /// Estimates the bytes of older tables that range tombstones delete, given their ranges.
    ///
    /// The ranges are in the order of their starts; of several with one start the first counts.
    pub fn freed_by<'k>(&self, ranges: impl IntoIterator<Item = (&'k [u8], &'k [u8])>) -> u64 {
        let mut last_start = None;
        let mut bytes = 0_u64;
        for (start, end) in ranges {
            if last_start.replace(start) != Some(start) {
                bytes = bytes.saturating_add(self.bytes_between(start, end));
            }
        }
        bytes
    }

    /// Estimates the bytes that the older tables have between two user keys.
    ///
    /// Tables that cannot be read count as empty: an estimate does not fail a job.
    fn bytes_between(&self, from: &[u8], to: &[u8]) -> u64 {
        let order = &self.version.order;
        let from = encode(from, MAX_SEQNO, ValueType::FOR_SEEK);
        let to = encode(to, MAX_SEQNO, ValueType::FOR_SEEK);
        let (mut whole_bytes, mut cut_bytes) = (0_u64, 0_u64);
        let mut cut = Vec::new();
        for (level, tables) in self
            .version
            .levels
            .iter()
            .enumerate()
            .skip(self.first_level)
        {
            let first = match level {
                0 => 0,
                _ => tables.find(order, &from),
            };
            for file in &tables.files[first..] {
                let begins_before_end = order.compare_internal(&file.smallest, &to).is_lt();
                if level > 0 && !begins_before_end {
                    break;
                }
                if !begins_before_end || order.compare_internal(&file.largest, &from).is_lt() {
                    continue;
                }
                if is_within(order, file, &from, &to) {
                    whole_bytes = whole_bytes.saturating_add(file.bytes);
                } else {
                    cut_bytes = cut_bytes.saturating_add(file.bytes);
                    cut.push((level, file));
                }
            }
        }
        // Within a tenth, half of the partly covered tables is precise enough, and no index is
        // read.
        if cut_bytes <= whole_bytes / 10 {
            return whole_bytes.saturating_add(cut_bytes / 2);
        }
        let of_cut = cut.into_iter().map(|(level, file)| {
            let offset = |key: &[u8]| {
                let before = self.tables.bytes_before(order, file, level, key);
                before.unwrap_or(0)
            };
            offset(&to).saturating_sub(offset(&from))
        });
        of_cut.fold(whole_bytes, u64::saturating_add)
    }
}

/// Whether a file lies wholly between the internal keys `from` (inclusive) and `to` (exclusive).
fn is_within(order: &KeyOrder, file: &FileMeta, from: &[u8], to: &[u8]) -> bool {
    order.compare_internal(&file.smallest, from).is_ge()
        && order.compare_internal(&file.largest, to).is_lt()
}
