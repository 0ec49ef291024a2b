//! FIFO compaction: the oldest tables are dropped when there are too many bytes, or when they are too old. For
//! caches and logs whose loss of old data is intended.

use std::sync::Arc;

use super::{CompactionInput, CompactionPlan, CompactionReason, KeyRange, PickSettings};
use crate::version::{FileMeta, Version};

/// When FIFO drops files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FifoSettings {
    /// Bytes of all tables above which the oldest are dropped.
    pub max_table_files_size: u64,
    /// Seconds after which a table is dropped; 0 for never.
    pub ttl_secs: u64,
    /// Join small files of level 0.
    pub allow_compaction: bool,
}

impl Default for FifoSettings {
    fn default() -> Self {
        FifoSettings {
            max_table_files_size: 1 << 30,
            ttl_secs: 0,
            allow_compaction: false,
        }
    }
}

/// The most urgent compaction, if one is due at `unix_secs`.
#[must_use]
pub fn pick(version: &Version, settings: &PickSettings, unix_secs: u64) -> Option<CompactionPlan> {
    let files = &version.levels[0].files;
    if files.iter().any(|file| file.is_being_compacted()) {
        return None;
    }
    by_age(version, files, settings, unix_secs)
        .or_else(|| by_size(version, files, settings))
        .or_else(|| join_small(version, files, settings))
}

fn by_age(
    version: &Version,
    files: &[Arc<FileMeta>],
    settings: &PickSettings,
    unix_secs: u64,
) -> Option<CompactionPlan> {
    let ttl = settings.fifo.ttl_secs;
    if ttl == 0 {
        return None;
    }
    let expired: Vec<Arc<FileMeta>> = files
        .iter()
        .rev()
        .take_while(|file| {
            file.creation_time > 0 && file.creation_time.saturating_add(ttl) < unix_secs
        })
        .cloned()
        .collect();
    drop_plan(version, expired, CompactionReason::FifoTtl)
}

fn by_size(
    version: &Version,
    files: &[Arc<FileMeta>],
    settings: &PickSettings,
) -> Option<CompactionPlan> {
    let mut bytes = version.bytes();
    let mut dropped = Vec::new();
    for file in files.iter().rev() {
        if bytes <= settings.fifo.max_table_files_size {
            break;
        }
        bytes = bytes.saturating_sub(file.bytes);
        dropped.push(Arc::clone(file));
    }
    drop_plan(version, dropped, CompactionReason::FifoMaxSize)
}

fn drop_plan(
    version: &Version,
    mut files: Vec<Arc<FileMeta>>,
    reason: CompactionReason,
) -> Option<CompactionPlan> {
    if files.is_empty() {
        return None;
    }
    files.reverse();
    KeyRange::of(&version.order, &files)?;
    Some(CompactionPlan {
        reason,
        inputs: vec![CompactionInput { level: 0, files }],
        output_level: 0,
        target_file_bytes: 0,
        max_grandparent_bytes: u64::MAX,
        grandparents: Vec::new(),
        bottommost: false,
        trivial_move: false,
        deletion_only: true,
    })
}

/// The newest files, as many as make one of at most a memtable's usual size.
fn join_small(
    version: &Version,
    files: &[Arc<FileMeta>],
    settings: &PickSettings,
) -> Option<CompactionPlan> {
    let trigger = settings.level0_file_num_compaction_trigger.max(2);
    if !settings.fifo.allow_compaction || files.len() < trigger {
        return None;
    }
    let small: Vec<Arc<FileMeta>> = files
        .iter()
        .take_while(|file| file.bytes < settings.max_compaction_bytes / trigger as u64)
        .cloned()
        .collect();
    if small.len() < trigger {
        return None;
    }
    let all = small.len() == files.len();
    KeyRange::of(&version.order, &small)?;
    let reason = CompactionReason::FifoReduceNumFiles;
    Some(CompactionPlan::within_level0(reason, small, all))
}
