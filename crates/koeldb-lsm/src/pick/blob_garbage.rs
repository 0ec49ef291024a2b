//! Compactions for the garbage in the oldest blob files.
//!
//! Leveled style only. A blob file stays while tables refer to it or to an older one. If the
//! garbage in the oldest files that share their last tables is a large part of them, these tables
//! are rewritten where they are, and the job moves the values that are left to new files.

use super::aged;
use super::leveled;
use super::{CompactionPlan, CompactionReason, PickSettings};
use crate::version::Version;

/// When the garbage in the oldest blob files forces a compaction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlobGarbageRule {
    /// The share of all blob files, the oldest ones, that compactions empty
    /// (`blob_garbage_collection_age_cutoff`).
    pub age_cutoff: f64,
    /// The share of garbage in the oldest of them from which on their tables are rewritten
    /// (`blob_garbage_collection_force_threshold`).
    pub threshold: f64,
}

/// Returns the number of blob files, the oldest of `count`, that compactions empty.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "from 0 to the number of files"
)]
pub fn emptied_files(age_cutoff: f64, count: usize) -> usize {
    let share = count as f64 * age_cutoff.clamp(0.0, 1.0);
    (share as usize).min(count)
}

/// Picks the compaction of a table that refers to the oldest blob files, if they have much garbage.
///
/// Files without any garbage force nothing, also with a threshold of 0 (RocksDB would rewrite them
/// again and again).
#[must_use]
pub fn pick(
    version: &Version,
    settings: &PickSettings,
    rule: BlobGarbageRule,
) -> Option<CompactionPlan> {
    let emptied = emptied_files(rule.age_cutoff, version.blob_files.len());
    let is_linked = |number: u64| {
        let mut tables = version.files();
        tables.any(|(_, table)| table.oldest_blob_file == number)
    };
    let (&oldest, _) = version.blob_files.first_key_value()?;
    // They go with the tables of the first: no table has one of the others as its oldest.
    let batch = 1
        + (version.blob_files.keys().skip(1))
            .take_while(|&&number| !is_linked(number))
            .count();
    if batch > emptied {
        return None;
    }
    let files = version.blob_files.values().take(batch);
    let (garbage, total) = files.fold((0_u64, 0_u64), |(garbage, total), file| {
        (
            garbage.saturating_add(file.garbage_bytes),
            total.saturating_add(file.bytes),
        )
    });
    if garbage == 0 || (garbage as f64) < rule.threshold * total as f64 {
        return None;
    }
    let targets = leveled::level_targets(version, settings);
    let mut tables = version
        .files()
        .filter(|(_, table)| table.oldest_blob_file == oldest && !table.is_being_compacted());
    tables.find_map(|(level, table)| {
        let reason = CompactionReason::ForcedBlobGc;
        aged::plan(version, settings, &targets, reason, (level, table), false)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use koeldb_base::key::encode;
    use koeldb_base::{KeyOrder, ValueType};

    use super::*;
    use crate::version::{BlobFileMeta, FileMeta, Level};

    fn table(number: u64, keys: [&str; 2], oldest_blob_file: u64) -> Arc<FileMeta> {
        let key = |name: &str| encode(name.as_bytes(), number, ValueType::BlobIndex);
        let mut file = FileMeta::new(number, 1 << 20, key(keys[0]), key(keys[1]));
        file.epoch = number;
        file.oldest_blob_file = oldest_blob_file;
        Arc::new(file)
    }

    /// A tree with two tables on level 3, and blob files 10 to 13 with `garbage` of 100 bytes each.
    fn tree(links: [u64; 2], garbage: [u64; 4]) -> Version {
        let mut levels: Vec<Level> = (0..6).map(|_| Level::default()).collect();
        levels[3].files = vec![
            table(1, ["a", "c"], links[0]),
            table(2, ["d", "f"], links[1]),
        ];
        let mut version = Version::new(KeyOrder::Bytewise, levels);
        for (number, garbage) in (10..).zip(garbage) {
            let file = BlobFileMeta::of_equal_records(number, 100, garbage, 1);
            version.blob_files.insert(number, file);
        }
        version
    }

    fn picked(version: &Version, age_cutoff: f64, threshold: f64) -> Option<Vec<u64>> {
        let rule = BlobGarbageRule {
            age_cutoff,
            threshold,
        };
        let plan = pick(version, &PickSettings::default(), rule)?;
        assert_eq!(plan.reason, CompactionReason::ForcedBlobGc);
        assert_eq!((plan.start_level(), plan.output_level), (3, 3));
        assert!(!plan.trivial_move);
        Some(plan.files().map(|(_, file)| file.number).collect())
    }

    #[test]
    fn the_tables_of_the_oldest_files_are_rewritten() {
        let version = tree([10, 12], [60, 40, 0, 0]);
        assert_eq!(picked(&version, 0.5, 0.5), Some(vec![1]));
        // 100 of 200 bytes are garbage.
        assert_eq!(picked(&version, 0.5, 0.51), None);
        // The second file goes with the tables of the first, and the cutoff leaves it.
        assert_eq!(picked(&version, 0.25, 0.1), None);
        assert_eq!(
            picked(&tree([10, 11], [60, 0, 0, 0]), 0.25, 0.6),
            Some(vec![1])
        );
        assert_eq!(
            picked(&tree([11, 10], [60, 0, 0, 0]), 0.25, 0.6),
            Some(vec![2])
        );
    }

    #[test]
    fn files_without_garbage_force_nothing() {
        assert_eq!(picked(&tree([10, 11], [0; 4]), 1.0, 0.0), None);
        assert_eq!(
            picked(&tree([10, 11], [1, 0, 0, 0]), 1.0, 0.0),
            Some(vec![1])
        );
    }

    #[test]
    fn a_table_that_is_being_compacted_is_left_alone() {
        let version = tree([10, 10], [90; 4]);
        let first = &version.levels[3].files[0];
        first
            .being_compacted
            .store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(picked(&version, 1.0, 0.5), Some(vec![2]));
    }
}
