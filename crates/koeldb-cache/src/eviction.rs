//! The steps of an eviction: pinned entries that it skips, and the victim.

use crate::index::SlotIndex;
use crate::sync::Arc;

/// The number of pinned entries that one insertion skips before it gives up.
///
/// They move to the head of their list on the way, so the next insertion continues after them.
const PATIENCE: u32 = 1024;

/// The remaining number of pinned entries that one insertion may skip in its search for victims.
pub(crate) struct PinnedSkips(u32);

impl PinnedSkips {
    /// Creates the full budget of skips for one insertion.
    pub(crate) fn new() -> Self {
        PinnedSkips(PATIENCE)
    }

    /// Counts a skipped pinned entry; `None` once the budget is exhausted.
    pub(crate) fn skip(&mut self) -> Option<()> {
        self.0 = self.0.checked_sub(1)?;
        Some(())
    }
}

/// An evicted entry: its slot, which is in no list any more, and its value.
pub(crate) struct Victim<T> {
    pub(crate) slot: SlotIndex,
    pub(crate) value: Arc<T>,
}
