//! The plan of a compaction from one level to another, or the reason why there is none.

use std::fmt;
use std::sync::Arc;

use koeldb_base::file_name::FileNumber;

use super::leveled::LevelTargets;
use super::{
    CompactionInput, CompactionPlan, CompactionReason, PickSettings, any_being_compacted,
    expand_to_clean_cut, is_bottommost,
};
use crate::version::{FileMeta, KeyRange, Version};

/// A request of a picker to compact files of a level into another level, or in place.
#[derive(Debug)]
pub(crate) struct LevelRequest {
    pub(crate) reason: CompactionReason,
    pub(crate) level: usize,
    pub(crate) output_level: usize,
    /// The files, extended to a clean cut: no other file of the level shares a key with them.
    pub(crate) files: Vec<Arc<FileMeta>>,
}

/// The reason why a requested compaction cannot be planned now.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// There are no files.
    NoFiles,
    /// An input is being compacted.
    Busy {
        /// The level of the input.
        level: usize,
        /// Its number.
        file: FileNumber,
    },
    /// A running compaction writes to the same keys of the output level.
    Claimed {
        /// The output level.
        level: usize,
    },
    /// A file between the two levels has some of the keys.
    Between {
        /// The level of the file.
        level: usize,
        /// Its number.
        file: FileNumber,
    },
    /// Level 0 is due first, and compacts into this level, which must become idle for that.
    Level0First,
    /// The compaction is exclusive, and another one runs.
    Running,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NoFiles => f.write_str("no files"),
            Refusal::Busy { level, file } => {
                write!(f, "{file:06} of L{level} is being compacted")
            }
            Refusal::Claimed { level } => {
                write!(f, "a compaction writes to these keys of L{level}")
            }
            Refusal::Between { level, file } => {
                write!(f, "{file:06} of L{level} has some of the keys")
            }
            Refusal::Level0First => f.write_str("L0 is more urgent and waits for it"),
            Refusal::Running => f.write_str("another compaction runs"),
        }
    }
}

impl Refusal {
    /// Returns `Refusal::Busy` if one of the files is being compacted.
    pub(crate) fn if_busy(level: usize, files: &[Arc<FileMeta>]) -> Result<(), Refusal> {
        match files.iter().find(|file| file.is_being_compacted()) {
            Some(busy) => Err(Refusal::Busy {
                level,
                file: busy.number,
            }),
            None => Ok(()),
        }
    }
}

impl LevelRequest {
    /// Plans the requested compaction, adding the overlapping files of the output level.
    ///
    /// # Errors
    /// The reason why it cannot run now.
    pub(crate) fn plan(
        self,
        version: &Version,
        settings: &PickSettings,
        targets: &LevelTargets,
    ) -> Result<CompactionPlan, Refusal> {
        let (level, output_level) = (self.level, self.output_level);
        let mut inputs = self.files;
        Refusal::if_busy(level, &inputs)?;
        let range = KeyRange::of(&version.order, &inputs).ok_or(Refusal::NoFiles)?;
        let below = match output_level > level {
            true => expand_to_clean_cut(
                version,
                output_level,
                range.overlapping(version, output_level),
            ),
            false => Vec::new(),
        };
        Refusal::if_busy(output_level, &below)?;
        if level > 0 && !below.is_empty() {
            grow_inputs(version, settings, level, &mut inputs, &below);
        }
        let all = inputs.iter().chain(&below);
        let range = KeyRange::of(&version.order, all).ok_or(Refusal::NoFiles)?;
        check_way(version, level, output_level, &range)?;
        let grandparents = grandparents(version, output_level, &range);
        let grandparent_bytes: u64 = grandparents.iter().map(|file| file.bytes).sum();
        let output_path = settings.path_of_level(output_level);
        let trivial_move = below.is_empty()
            && output_level > level
            && (level > 0 || inputs.len() == 1 || !overlap_each_other(version, &inputs))
            && grandparent_bytes <= settings.max_compaction_bytes
            && inputs.iter().all(|file| file.path_id == output_path)
            && settings.fit_partitions(&inputs);
        let upper = CompactionInput {
            level,
            files: inputs,
        };
        let lower = (!below.is_empty()).then_some(CompactionInput {
            level: output_level,
            files: below,
        });
        Ok(CompactionPlan {
            reason: self.reason,
            inputs: std::iter::once(upper).chain(lower).collect(),
            output_level,
            output_path,
            target_file_bytes: settings.target_file_bytes(output_level, targets.base_level),
            max_grandparent_bytes: settings.max_compaction_bytes,
            grandparents,
            bottommost: is_bottommost(version, output_level, &range),
            trivial_move,
            deletion_only: false,
            next_cursor: None,
            temperature: None,
        })
    }
}

/// Returns the grandparents of a compaction: the files below the output that overlap `range`.
///
/// They are empty for an output on level 0, whose files are not cut.
pub(super) fn grandparents(
    version: &Version,
    output_level: usize,
    range: &KeyRange,
) -> Vec<Arc<FileMeta>> {
    match version.levels.get(output_level + 1) {
        Some(_) if output_level > 0 => range.overlapping(version, output_level + 1),
        _ => Vec::new(),
    }
}

/// Refuses a compaction whose range a running one writes to or a file in between overlaps.
fn check_way(
    version: &Version,
    level: usize,
    output_level: usize,
    range: &KeyRange,
) -> Result<(), Refusal> {
    if version.running.claims(&version.order, output_level, range) {
        return Err(Refusal::Claimed {
            level: output_level,
        });
    }
    // No file between the levels may overlap the moved data; levels above the base level are empty
    // or being drained.
    for between in level + 1..output_level {
        let files = &version.levels[between].files;
        if let Some(file) = files.iter().find(|file| range.overlaps(version, file)) {
            return Err(Refusal::Between {
                level: between,
                file: file.number,
            });
        }
    }
    Ok(())
}

/// Adds inputs of the upper level that overlap no further lower-level files (`SetupOtherInputs`).
fn grow_inputs(
    version: &Version,
    settings: &PickSettings,
    level: usize,
    inputs: &mut Vec<Arc<FileMeta>>,
    below: &[Arc<FileMeta>],
) {
    let Some(range) = KeyRange::of(&version.order, inputs.iter().chain(below)) else {
        return;
    };
    let grown = expand_to_clean_cut(version, level, range.overlapping(version, level));
    if grown.len() <= inputs.len() || any_being_compacted(&grown) {
        return;
    }
    let bytes: u64 = grown.iter().chain(below).map(|file| file.bytes).sum();
    let Some(grown_range) = KeyRange::of(&version.order, &grown) else {
        return;
    };
    let output_level = level + 1;
    let drags = grown_range.overlapping(version, output_level.min(version.levels.len() - 1));
    if bytes < settings.max_compaction_bytes && drags.len() == below.len() {
        *inputs = grown;
    }
}

/// Whether the user key ranges of any two files overlap.
fn overlap_each_other(version: &Version, files: &[Arc<FileMeta>]) -> bool {
    let mut sorted: Vec<_> = files.iter().collect();
    sorted.sort_by(|a, b| version.order.compare_internal(&a.smallest, &b.smallest));
    sorted.windows(2).any(|pair| {
        version
            .order
            .compare_without_timestamps(pair[0].largest_user_key(), pair[1].smallest_user_key())
            .is_ge()
    })
}
