//! Compaction pickers: pure functions from a [`Version`] to an optional [`CompactionPlan`].
//!
//! A picker changes nothing. The database begins a plan before it requests the next one: it marks
//! the inputs as being compacted and claims the output range. Concurrent compactions therefore never
//! share a file, and never write overlapping tables to one level
//! ([`RunningCompactions`](crate::version::running::RunningCompactions)).

pub mod aged;
pub mod blob_garbage;
pub mod dead_bytes;
pub mod fifo;
mod level_plan;
pub mod leveled;
pub mod manual;
pub mod offpeak;
pub mod paths;
pub mod universal;

use std::sync::Arc;
use std::sync::atomic::Ordering as Memory;

use koeldb_base::KeyOrder;

use crate::version::running::Claim;
use crate::version::{FileMeta, KeyRange, Version};

pub use level_plan::Refusal;

/// The reason for a compaction, with RocksDB's names (`CompactionReason`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CompactionReason {
    /// Level 0 has too many files.
    LevelL0FilesNum,
    /// A level exceeds its target size.
    LevelMaxLevelSize,
    /// Universal: too much space relative to live data.
    UniversalSizeAmplification,
    /// Universal: neighbouring runs of similar size.
    UniversalSizeRatio,
    /// Universal: too many runs.
    UniversalSortedRunNum,
    /// FIFO: the total size is exceeded; files are dropped.
    FifoMaxSize,
    /// FIFO: files have expired; they are dropped.
    FifoTtl,
    /// FIFO: small files of level 0 are merged.
    FifoReduceNumFiles,
    /// A table of FIFO compaction reached the age of another temperature.
    ChangeTemperature,
    /// A manual compaction.
    ManualCompaction,
    /// Files marked for compaction.
    FilesMarkedForCompaction,
    /// Bottommost files whose deletions or old versions no snapshot needs.
    BottommostFiles,
    /// Files with data older than `ttl`.
    Ttl,
    /// Files older than `periodic_compaction_seconds`.
    PeriodicCompaction,
    /// Tables that refer to the oldest blob files, which have much garbage.
    ForcedBlobGc,
}

/// The input files of a compaction on one level (RocksDB: `CompactionInputFiles`).
#[derive(Clone, Debug)]
pub struct CompactionInput {
    /// The level of the files.
    pub level: usize,
    /// The files, in the order of the level.
    pub files: Vec<Arc<FileMeta>>,
}

/// A planned compaction: its inputs, output level and reason (RocksDB: `Compaction`).
#[derive(Clone, Debug)]
pub struct CompactionPlan {
    /// The reason for the compaction.
    pub reason: CompactionReason,
    /// The inputs, upper levels first.
    pub inputs: Vec<CompactionInput>,
    /// The output level.
    pub output_level: usize,
    /// The index of the directory of the output among those of the column family.
    pub output_path: u8,
    /// The size at which an output file is cut if no file below shares keys with the output.
    pub target_file_bytes: u64,
    /// The limit of the bytes of an output file and the grandparents that it overlaps.
    pub max_grandparent_bytes: u64,
    /// The files of the level below the output that overlap its range.
    pub grandparents: Vec<Arc<FileMeta>>,
    /// Whether no lower level has data in the output's range.
    pub bottommost: bool,
    /// Whether the inputs can be moved to another level without being read.
    pub trivial_move: bool,
    /// Whether the inputs are dropped without being read.
    pub deletion_only: bool,
    /// The level, and the key at which its next round-robin compaction begins.
    pub next_cursor: Option<(usize, Vec<u8>)>,
    /// The temperature byte of the output; `None` for that of its level.
    pub temperature: Option<u8>,
}

impl CompactionPlan {
    /// Plans an intra-L0 compaction of adjacent files into one file.
    ///
    /// `bottommost` states that no older data is left in the tree.
    pub(crate) fn within_level0(
        reason: CompactionReason,
        files: Vec<Arc<FileMeta>>,
        bottommost: bool,
    ) -> Self {
        CompactionPlan {
            reason,
            inputs: vec![CompactionInput { level: 0, files }],
            output_level: 0,
            output_path: 0,
            target_file_bytes: u64::MAX,
            max_grandparent_bytes: u64::MAX,
            grandparents: Vec::new(),
            bottommost,
            trivial_move: false,
            deletion_only: false,
            next_cursor: None,
            temperature: None,
        }
    }

    /// All input files with their levels.
    pub fn files(&self) -> impl Iterator<Item = (usize, &Arc<FileMeta>)> {
        self.inputs
            .iter()
            .flat_map(|input| input.files.iter().map(move |file| (input.level, file)))
    }

    /// The uppermost level of the inputs.
    #[must_use]
    pub fn start_level(&self) -> usize {
        self.inputs.first().map_or(0, |input| input.level)
    }

    /// The bytes of all inputs.
    #[must_use]
    pub fn input_bytes(&self) -> u64 {
        self.files().map(|(_, file)| file.bytes).sum()
    }

    /// The bytes of the input files that are on the output level.
    #[must_use]
    pub fn bytes_at_output_level(&self) -> u64 {
        let there = self
            .files()
            .filter(|(level, _)| *level == self.output_level);
        there.map(|(_, file)| file.bytes).sum()
    }

    /// Whether the inputs are all files of `version`.
    #[must_use]
    pub fn is_full(&self, version: &Version) -> bool {
        let all: usize = version.levels.iter().map(|level| level.files.len()).sum();
        self.files().count() == all
    }

    /// The epoch number of the outputs: the smallest known one of the inputs, or 0.
    #[must_use]
    pub fn output_epoch(&self) -> u64 {
        let epochs = self.files().map(|(_, file)| file.epoch);
        epochs.filter(|&epoch| epoch > 0).min().unwrap_or(0)
    }

    /// Marks the inputs as being compacted and registers the output range with `version`.
    pub fn begin(&self, version: &Version) {
        self.mark(true);
        if let Some(claim) = self.claim(&version.order) {
            version.running.enter(&version.order, claim);
        }
    }

    /// Unmarks the inputs and releases the output range that [`CompactionPlan::begin`] registered.
    pub fn end(&self, version: &Version) {
        if let Some((_, first)) = self.files().next() {
            version.running.leave(first.number);
        }
        self.mark(false);
    }

    /// Returns the levels and key range to which no other compaction may write meanwhile.
    ///
    /// The levels are the output level and, if files move up, all levels from there to the inputs.
    ///
    /// Newer data written to a level between the two would end up below the moved, older data.
    fn claim(&self, order: &KeyOrder) -> Option<Claim> {
        if self.deletion_only || self.output_level == 0 {
            return None;
        }
        let deepest = self.files().map(|(level, _)| level).max()?;
        Some(Claim {
            input: self.files().next()?.1.number,
            levels: self.output_level..=deepest.max(self.output_level),
            range: KeyRange::of(order, self.files().map(|(_, file)| file))?,
        })
    }

    /// Sets the `being_compacted` flag of all input files to the given value.
    fn mark(&self, being_compacted: bool) {
        for (_, file) in self.files() {
            file.being_compacted.store(being_compacted, Memory::Relaxed);
        }
    }
}

/// Whether any compaction of the column family is running.
///
/// It runs until [`CompactionPlan::end`], which comes after its result has become part of
/// `version`: its inputs are gone from there by then, but it still claims its output range.
#[must_use]
pub fn is_compacting(version: &Version) -> bool {
    version.files().any(|(_, file)| file.is_being_compacted()) || !version.running.is_empty()
}

/// The order in which leveled compaction picks the files of a level (`compaction_pri`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileOrder {
    /// First the file with the smallest overlap with the level below, relative to its size.
    #[default]
    MinOverlappingRatio,
    /// First the largest file, with extra weight for deletions.
    CompensatedSize,
    /// First the file whose newest entry is older than those of all other files.
    OldestLargestSeqno,
    /// First the file that contains the oldest entry.
    OldestSmallestSeqno,
    /// First the file at or after the level's cursor ([`Version::compact_cursors`]).
    RoundRobin,
}

/// The column family options that the compaction pickers of all styles use.
#[derive(Clone, Debug)]
pub struct PickSettings {
    /// The number of level-0 files, or runs, that triggers a compaction.
    pub level0_file_num_compaction_trigger: usize,
    /// The number of level-0 files at which writes are slowed down.
    pub level0_slowdown: usize,
    /// The target size of the first level below 0.
    pub max_bytes_for_level_base: u64,
    /// The growth factor from each level to the next.
    pub max_bytes_for_level_multiplier: f64,
    /// Additional factors by level; a missing one is 1.
    pub max_bytes_for_level_multiplier_additional: Vec<i32>,
    /// Whether levels are filled from the last level up.
    pub level_compaction_dynamic_level_bytes: bool,
    /// The table size of the first level below 0.
    pub target_file_size_base: u64,
    /// The growth factor of table sizes with each level.
    pub target_file_size_multiplier: u64,
    /// The approximate limit of the bytes one compaction may read.
    pub max_compaction_bytes: u64,
    /// The largest size of a table, in bytes.
    pub table_bytes_max: u64,
    /// The number of leading key bytes that are constant in a table (`sst_partitioner_factory`).
    ///
    /// Tables below level 0 only; `None` without a limit.
    pub partition_bytes: Option<usize>,
    /// The order in which leveled compaction picks the files of a level.
    pub file_order: FileOrder,
    /// The target sizes of the directories of the column family.
    pub paths: paths::PathTargets,
    /// The settings of universal compaction.
    pub universal: universal::UniversalSettings,
    /// The settings of FIFO compaction.
    pub fifo: fifo::FifoSettings,
}

impl Default for PickSettings {
    fn default() -> Self {
        PickSettings {
            level0_file_num_compaction_trigger: 4,
            level0_slowdown: 20,
            max_bytes_for_level_base: 256 << 20,
            max_bytes_for_level_multiplier: 10.0,
            max_bytes_for_level_multiplier_additional: Vec::new(),
            level_compaction_dynamic_level_bytes: true,
            target_file_size_base: 64 << 20,
            target_file_size_multiplier: 1,
            max_compaction_bytes: 25 * (64 << 20),
            table_bytes_max: u64::MAX,
            partition_bytes: None,
            file_order: FileOrder::default(),
            paths: paths::PathTargets::default(),
            universal: universal::UniversalSettings::default(),
            fifo: fifo::FifoSettings::default(),
        }
    }
}

impl PickSettings {
    /// Whether each file lies in one SST partition, so that a trivial move of it is allowed.
    pub(crate) fn fit_partitions(&self, files: &[Arc<FileMeta>]) -> bool {
        let Some(bytes) = self.partition_bytes else {
            return true;
        };
        files.iter().all(|file| {
            let (first, last) = (file.smallest_user_key(), file.largest_user_key());
            first.get(..bytes).unwrap_or(first) == last.get(..bytes).unwrap_or(last)
        })
    }

    /// The target table size of `level`, given the base level (RocksDB: `MaxFileSizeForLevel`).
    #[must_use]
    pub fn target_file_bytes(&self, level: usize, base_level: usize) -> u64 {
        (base_level..level).fold(self.target_file_size_base, |bytes, _| {
            bytes.saturating_mul(self.target_file_size_multiplier.max(1))
        })
    }
}

/// Expands `files` to a clean cut: adds the files of `level` that must be compacted with them.
///
/// (RocksDB: `ExpandInputsToCleanCut`.)
///
/// On level 0 these are all overlapping files, transitively; below, neighbours that share a
/// boundary user key.
pub(crate) fn expand_to_clean_cut(
    version: &Version,
    level: usize,
    files: Vec<Arc<FileMeta>>,
) -> Vec<Arc<FileMeta>> {
    let mut chosen = files;
    loop {
        let Some(range) = KeyRange::of(&version.order, &chosen) else {
            return chosen;
        };
        let grown = range.overlapping(version, level);
        if grown.len() <= chosen.len() {
            return grown;
        }
        chosen = grown;
    }
}

/// Whether no file of a level below `output_level` overlaps the key range, and none can.
pub(crate) fn is_bottommost(version: &Version, output_level: usize, range: &KeyRange) -> bool {
    !version.ingests_behind
        && (output_level + 1..version.levels.len()).all(|level| {
            !version.levels[level]
                .files
                .iter()
                .any(|file| range.overlaps(version, file))
        })
}

/// Whether any of the files is an input of a running compaction.
pub(crate) fn any_being_compacted(files: &[Arc<FileMeta>]) -> bool {
    files.iter().any(|file| file.is_being_compacted())
}
