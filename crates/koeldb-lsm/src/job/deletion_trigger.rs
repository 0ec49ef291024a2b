//! The marking of tables with many deletions for compaction, which drops the deletions soon.
//!
//! A table is marked if enough of the last entries of some moment were deletions, or a share of all.
//! The window slides by buckets of entries. Range tombstones do not count.
//! Source: RocksDB's `CompactOnDeletionCollector`.

/// The number of buckets of a window.
const BUCKETS: usize = 128;

/// The number or ratio of deletions at which a table is marked for compaction.
///
/// (RocksDB: `CompactOnDeletionCollector`.)
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeletionTrigger {
    /// The number of entries in the window; 0 for no window.
    pub window_entries: u64,
    /// The number of deletions in the window that mark the table.
    pub deletions: u64,
    /// The share of deletions in the table that marks it; off unless above 0 and at most 1.
    pub ratio: f64,
    /// The least size of a table that is marked.
    pub min_file_bytes: u64,
}

/// A counter of the deletions of one table, in a sliding window and in total.
#[derive(Debug)]
pub(super) struct DeletionCounter {
    trigger: DeletionTrigger,
    /// The entries of a full bucket; 0 without a window.
    bucket_entries: u64,
    /// The deletions by bucket.
    buckets: [u64; BUCKETS],
    current: usize,
    entries_in_bucket: u64,
    deletions_in_window: u64,
    deletions_in_window_max: u64,
    entries: u64,
    deletions: u64,
    file_bytes: u64,
    is_marked: bool,
}

impl DeletionCounter {
    pub(super) fn new(trigger: &DeletionTrigger) -> Self {
        DeletionCounter {
            trigger: trigger.clone(),
            bucket_entries: trigger.window_entries.div_ceil(BUCKETS as u64),
            buckets: [0; BUCKETS],
            current: 0,
            entries_in_bucket: 0,
            deletions_in_window: 0,
            deletions_in_window_max: 0,
            entries: 0,
            deletions: 0,
            file_bytes: 0,
            is_marked: false,
        }
    }

    /// Counts an entry of a table that has been written up to `file_bytes`.
    pub(super) fn add(&mut self, is_deletion: bool, file_bytes: u64) {
        if self.is_marked {
            return;
        }
        self.entries += 1;
        self.deletions += u64::from(is_deletion);
        self.file_bytes = file_bytes;
        if self.bucket_entries == 0 {
            return;
        }
        if self.entries_in_bucket == self.bucket_entries {
            self.current = (self.current + 1) % BUCKETS;
            self.deletions_in_window -= std::mem::take(&mut self.buckets[self.current]);
            self.entries_in_bucket = 0;
        }
        self.entries_in_bucket += 1;
        self.deletions_in_window += u64::from(is_deletion);
        self.buckets[self.current] += u64::from(is_deletion);
        self.deletions_in_window_max = self.deletions_in_window_max.max(self.deletions_in_window);
        self.is_marked = self.deletions_in_window_max >= self.trigger.deletions
            && file_bytes >= self.trigger.min_file_bytes;
    }

    /// Whether the finished table has enough deletions to be marked for compaction.
    pub(super) fn marks(&self) -> bool {
        let ratio = self.trigger.ratio;
        let has_ratio = ratio > 0.0 && ratio <= 1.0;
        #[expect(clippy::cast_precision_loss, reason = "a share need not be exact")]
        let share = || self.deletions as f64 / self.entries as f64;
        let is_over = || {
            has_ratio
                && self.entries > 0
                && self.file_bytes >= self.trigger.min_file_bytes
                && share() >= ratio
        };
        self.is_marked || is_over()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a table of these entries is marked; `d` is a deletion.
    fn marks(trigger: &DeletionTrigger, entries: &str) -> bool {
        let mut counter = DeletionCounter::new(trigger);
        for (index, entry) in entries.chars().enumerate() {
            counter.add(entry == 'd', 10 * index as u64);
        }
        counter.marks()
    }

    #[test]
    fn deletions_count_within_the_window_only() {
        let trigger = DeletionTrigger {
            window_entries: 128,
            deletions: 3,
            ..DeletionTrigger::default()
        };
        assert!(marks(&trigger, "ddd"));
        assert!(marks(&trigger, &format!("d{}dd", "p".repeat(125))));
        assert!(!marks(&trigger, &format!("d{}dd", "p".repeat(126))));
        assert!(!marks(&trigger, "dpd"));
    }

    #[test]
    fn a_share_of_deletions_marks_a_table_of_the_least_size() {
        let mut trigger = DeletionTrigger {
            ratio: 0.5,
            ..DeletionTrigger::default()
        };
        assert!(marks(&trigger, "dp"));
        assert!(!marks(&trigger, "dpp"));
        assert!(!marks(&trigger, ""));
        trigger.min_file_bytes = 50;
        assert!(!marks(&trigger, "dp"));
        assert!(marks(&trigger, "dpdpdp"));
        for off in [0.0, 1.5, f64::NAN] {
            trigger.ratio = off;
            assert!(!marks(&trigger, "dddddddd"));
        }
    }
}
