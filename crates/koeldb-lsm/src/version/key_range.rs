//! Ranges of user keys that files cover. The timestamps of keys do not matter.

use std::cmp::Ordering;
use std::sync::Arc;

use koeldb_base::KeyOrder;
use koeldb_base::key::{RANGE_DELETION_SENTINEL, footer_of, user_key};

use super::version::Version;
use crate::file_meta::FileMeta;

/// Compares user keys without their timestamps.
fn compare(order: &KeyOrder, a: &[u8], b: &[u8]) -> Ordering {
    order.compare_without_timestamps(a, b)
}

/// A range of user keys, inclusive unless a file's range tombstone ends at the upper bound.
#[derive(Clone, Debug)]
pub(crate) struct KeyRange {
    pub(crate) smallest: Vec<u8>,
    pub(crate) largest: Vec<u8>,
    largest_is_exclusive: bool,
}

impl KeyRange {
    /// Returns the smallest range that contains all `files`; `None` without files.
    pub(crate) fn of<'f>(
        order: &KeyOrder,
        files: impl IntoIterator<Item = &'f Arc<FileMeta>>,
    ) -> Option<Self> {
        let mut range: Option<KeyRange> = None;
        for file in files {
            match &mut range {
                None => range = Some(KeyRange::between(&file.smallest, &file.largest)),
                Some(range) => range.include(order, file),
            }
        }
        range
    }

    /// Returns the user key range of a table, given its smallest and largest internal key.
    pub(super) fn between(smallest: &[u8], largest: &[u8]) -> Self {
        KeyRange {
            smallest: user_key(smallest).to_vec(),
            largest: user_key(largest).to_vec(),
            largest_is_exclusive: footer_of(largest).1 == RANGE_DELETION_SENTINEL,
        }
    }

    /// Whether two key ranges overlap.
    pub(super) fn meets(&self, order: &KeyOrder, other: &KeyRange) -> bool {
        let reaches = |range: &KeyRange, key: &[u8]| match compare(order, &range.largest, key) {
            Ordering::Less => false,
            Ordering::Equal => !range.largest_is_exclusive,
            Ordering::Greater => true,
        };
        reaches(self, &other.smallest) && reaches(other, &self.smallest)
    }

    /// Extends the range to include the bounds of a file.
    fn include(&mut self, order: &KeyOrder, file: &FileMeta) {
        if compare(order, file.smallest_user_key(), &self.smallest).is_lt() {
            self.smallest = file.smallest_user_key().to_vec();
        }
        match compare(order, file.largest_user_key(), &self.largest) {
            Ordering::Less => {}
            Ordering::Equal => self.largest_is_exclusive &= file.largest_is_exclusive(),
            Ordering::Greater => {
                self.largest = file.largest_user_key().to_vec();
                self.largest_is_exclusive = file.largest_is_exclusive();
            }
        }
    }

    /// Whether the key range of `file` overlaps this range.
    pub(crate) fn overlaps(&self, version: &Version, file: &FileMeta) -> bool {
        if !version.overlaps(file, Some(&self.smallest), Some(&self.largest)) {
            return false;
        }
        let touches_end = compare(&version.order, file.smallest_user_key(), &self.largest);
        !(touches_end.is_eq() && self.largest_is_exclusive)
    }

    /// Returns the files of `level` that overlap this range.
    pub(crate) fn overlapping(&self, version: &Version, level: usize) -> Vec<Arc<FileMeta>> {
        version.levels[level]
            .files
            .iter()
            .filter(|file| self.overlaps(version, file))
            .cloned()
            .collect()
    }
}
