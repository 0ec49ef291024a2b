//! Filters of the metadata of a column family: a range of keys and a level.

use std::cmp::Ordering;

use koeldb::{Comparator, LiveFile};

/// A filter of tables (`rocksdb_column_family_metadata_options_t`).
#[derive(Clone)]
pub(crate) struct MetadataFilter {
    start: Option<Vec<u8>>,
    end: Option<Vec<u8>>,
    /// The only level; below 0 for all.
    level: i32,
}

impl Default for MetadataFilter {
    fn default() -> Self {
        MetadataFilter {
            start: None,
            end: None,
            level: -1,
        }
    }
}

impl MetadataFilter {
    pub(crate) fn set_start_key(&mut self, key: Option<&[u8]>) {
        self.start = key.map(<[u8]>::to_vec);
    }

    pub(crate) fn start_key(&self) -> Option<&[u8]> {
        self.start.as_deref()
    }

    pub(crate) fn set_end_key(&mut self, key: Option<&[u8]>) {
        self.end = key.map(<[u8]>::to_vec);
    }

    pub(crate) fn end_key(&self) -> Option<&[u8]> {
        self.end.as_deref()
    }

    pub(crate) fn set_level(&mut self, level: i32) {
        self.level = level;
    }

    pub(crate) fn level(&self) -> i32 {
        self.level
    }

    /// Returns the tables of `level` that overlap the range, its end included.
    ///
    /// As RocksDB does, the range grows by the tables of level 0 that overlap it.
    pub(crate) fn select(
        &self,
        level: usize,
        mut files: Vec<LiveFile>,
        comparator: &dyn Comparator,
    ) -> Vec<LiveFile> {
        if self.level >= 0 && usize::try_from(self.level) != Ok(level) {
            return Vec::new();
        }
        let order = Order(comparator);
        let mut range = Range {
            start: self.start.clone(),
            end: self.end.clone(),
        };
        let mut selected = Vec::new();
        loop {
            let (inside, outside) = split(files, &mut range, level == 0, &order);
            let is_done = inside.is_empty() || level > 0;
            selected.extend(inside);
            files = outside;
            if is_done {
                return selected;
            }
        }
    }
}

/// A range of user keys without timestamps, both ends included.
struct Range {
    start: Option<Vec<u8>>,
    end: Option<Vec<u8>>,
}

/// The order of keys without timestamps.
struct Order<'c>(&'c dyn Comparator);

impl Order<'_> {
    fn strip<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        &key[..key.len().saturating_sub(self.0.timestamp_bytes())]
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.0.compare_without_timestamps(a, b)
    }
}

/// Splits files into those that overlap the range and the others; the former may extend it.
fn split(
    files: Vec<LiveFile>,
    range: &mut Range,
    extends: bool,
    order: &Order<'_>,
) -> (Vec<LiveFile>, Vec<LiveFile>) {
    files.into_iter().partition(|file| {
        let smallest = order.strip(&file.smallest_key);
        let largest = order.strip(&file.largest_key);
        let starts_before = |start: &Vec<u8>| order.compare(smallest, start).is_lt();
        let ends_before = |start: &Vec<u8>| order.compare(largest, start).is_lt();
        let starts_behind = |end: &Vec<u8>| order.compare(smallest, end).is_gt();
        let ends_behind = |end: &Vec<u8>| order.compare(largest, end).is_gt();
        if range.start.as_ref().is_some_and(ends_before)
            || range.end.as_ref().is_some_and(starts_behind)
        {
            return false;
        }
        if extends && range.start.as_ref().is_some_and(starts_before) {
            range.start = Some(smallest.to_vec());
        }
        if extends && range.end.as_ref().is_some_and(ends_behind) {
            range.end = Some(largest.to_vec());
        }
        true
    })
}
