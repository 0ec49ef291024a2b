//! The threads of a compaction that is divided by key range (`max_subcompactions`).
//!
//! They are neither of the pool nor counted as jobs: a compaction that waited for free threads of
//! the pool while holding one could wait forever. The thread of the compaction runs parts as well,
//! so that the others are never necessary.

use std::sync::atomic::{AtomicUsize, Ordering};

use koeldb_lsm::pick::{CompactionPlan, CompactionReason};

use super::Background;
use crate::options::{ColumnFamilyOptions, CompactionStyle};

/// The maximum number of parts of a compaction.
const PARTS_MAX: usize = 128;

impl Background {
    /// Returns the maximum number of subcompactions; `requested` 0 means that of the options.
    pub(super) fn parts_max(
        &self,
        options: &ColumnFamilyOptions,
        plan: &CompactionPlan,
        requested: u32,
    ) -> usize {
        let wanted = match requested {
            0 => self.context.mutable_options().max_subcompactions,
            requested => requested,
        };
        let is_manual = plan.reason == CompactionReason::ManualCompaction;
        let starts_at = plan.inputs.first().map_or(0, |input| input.level);
        let is_divisible = plan.output_level > 0
            && options.table_factory.block_based().is_some()
            && match options.compaction_style {
                CompactionStyle::Level | CompactionStyle::None => starts_at == 0 || is_manual,
                CompactionStyle::Universal => true,
                CompactionStyle::Fifo => false,
            };
        match is_divisible {
            true => usize::try_from(wanted).unwrap_or(1).clamp(1, PARTS_MAX),
            false => 1,
        }
    }

    /// Runs the `count` subcompactions in parallel: calls `part` with each number below `count`.
    pub(super) fn run_parts(&self, count: usize, part: &(dyn Fn(usize) + Sync)) {
        let next = AtomicUsize::new(0);
        let work = || {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    break;
                }
                part(number);
            }
        };
        if count == 1 || self.context.env.pool.is_stepped() {
            return work();
        }
        std::thread::scope(|scope| {
            for _ in 1..count {
                let thread = std::thread::Builder::new().name("koeldb-subcompaction".to_owned());
                if thread.spawn_scoped(scope, work).is_err() {
                    break;
                }
            }
            work();
        });
    }
}
