//! The state of the collection of a column family's blob files by dead bytes.
//!
//! What is to be collected is a function of the version. The state only decides when: compactions
//! for that reason take turns with those that the shape of the tree requires.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use koeldb_lsm::pick::dead_bytes::{self, DeadBytesRule};
use koeldb_lsm::pick::{CompactionPlan, CompactionReason, PickSettings};
use koeldb_lsm::version::Version;

/// The number of other compactions after which one may run to empty blob files.
const OTHERS_BETWEEN: u32 = 4;

/// The state of the collection of a column family's blob files.
#[derive(Debug, Default)]
pub(crate) struct BlobCollectionState {
    /// Whether files are being emptied, until the space is a little below the target.
    has_begun: AtomicBool,
    /// Whether a compaction runs for that reason.
    is_running: AtomicBool,
    /// The number of compactions for other reasons since the last one for this.
    others: AtomicU32,
    /// Whether damaged lists of references were reported.
    pub(crate) has_reported: AtomicBool,
}

impl BlobCollectionState {
    /// Whether files are being emptied.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Relaxed)
    }

    /// Whether compactions that empty blob files go before others: now and then, or because the
    /// files have far more bytes than they should; never while writes wait for level 0.
    pub(crate) fn goes_first(
        &self,
        version: &Version,
        rule: DeadBytesRule,
        level0_stop: i32,
    ) -> bool {
        let level0 = version.levels.first().map_or(0, |level| level.files.len());
        let is_stopped = usize::try_from(level0_stop).is_ok_and(|stop| level0 >= stop);
        let is_turn = || self.others.load(Ordering::Relaxed) >= OTHERS_BETWEEN;
        !is_stopped && (is_turn() || rule.is_urgent(version))
    }

    /// Picks a compaction that empties blob files, unless one runs.
    pub(crate) fn pick(
        &self,
        version: &Version,
        settings: &PickSettings,
        rule: DeadBytesRule,
    ) -> Option<CompactionPlan> {
        if self.is_running.load(Ordering::Relaxed) {
            return None;
        }
        dead_bytes::pick(version, settings, rule, self.has_begun())
    }

    /// Notes whether files are to be emptied in `version`.
    pub(crate) fn decide(&self, version: &Version, rule: DeadBytesRule) {
        let is_due = rule.is_due(version, self.has_begun());
        self.has_begun.store(is_due, Ordering::Relaxed);
    }

    /// Notes that a compaction was picked.
    pub(crate) fn picked(&self, plan: &CompactionPlan) {
        if plan.reason == CompactionReason::ForcedBlobGc {
            self.is_running.store(true, Ordering::Relaxed);
            self.others.store(0, Ordering::Relaxed);
        } else {
            // More than enough is as good.
            let others = self.others.load(Ordering::Relaxed);
            self.others
                .store(others.saturating_add(1), Ordering::Relaxed);
        }
    }

    /// Notes that a compaction has ended.
    pub(crate) fn ended(&self, plan: &CompactionPlan) {
        if plan.reason == CompactionReason::ForcedBlobGc {
            self.is_running.store(false, Ordering::Relaxed);
        }
    }
}
