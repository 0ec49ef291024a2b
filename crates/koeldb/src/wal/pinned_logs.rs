//! Obsolete logs that stay in place because update iterators need them.

use std::collections::BTreeMap;
use std::sync::Mutex;

use koeldb_base::SeqNo;
use koeldb_base::file_name::FileNumber;
use koeldb_base::sync::lock_plain as lock;

/// The obsolete logs that stay in place because update iterators (`GetUpdatesSince`) need them.
#[derive(Debug, Default)]
pub(crate) struct PinnedLogs {
    state: Mutex<PinnedState>,
}

/// The state of [`PinnedLogs`], guarded by its mutex.
#[derive(Debug, Default)]
struct PinnedState {
    /// The number of update iterators, by the oldest log that each needs.
    pins: BTreeMap<FileNumber, usize>,
    /// Obsolete logs that were not removed yet, with their sizes.
    logs: Vec<(FileNumber, u64)>,
    /// For each abandoned log, the first of its sequence numbers that later logs reuse.
    abandoned: BTreeMap<FileNumber, SeqNo>,
}

impl PinnedLogs {
    /// Adds obsolete logs; takes out and returns those that no iterator needs, to be removed.
    pub(crate) fn retire(&self, obsolete: Vec<(FileNumber, u64)>) -> Vec<(FileNumber, u64)> {
        let mut state = lock(&self.state);
        state.logs.extend(obsolete);
        let oldest = state.pins.keys().next().copied().unwrap_or(FileNumber::MAX);
        let logs = std::mem::take(&mut state.logs);
        let (unused, kept) = logs.into_iter().partition(|(number, _)| *number < oldest);
        state.logs = kept;
        unused
    }

    /// Returns the obsolete logs that are still in place, with their sizes.
    pub(crate) fn logs(&self) -> Vec<(FileNumber, u64)> {
        lock(&self.state).logs.clone()
    }

    /// Records that the batches of abandoned log `number` from `seqno` on never took effect.
    pub(crate) fn record_abandoned(&self, number: FileNumber, seqno: SeqNo) {
        lock(&self.state).abandoned.insert(number, seqno);
    }

    /// Whether the batch at `seqno` of log `number` never took effect.
    pub(crate) fn is_abandoned(&self, number: FileNumber, seqno: SeqNo) -> bool {
        let state = lock(&self.state);
        let first = state.abandoned.get(&number);
        first.is_some_and(|&first| seqno >= first)
    }

    /// Whether some batches of log `number` may never have taken effect.
    pub(crate) fn was_abandoned(&self, number: FileNumber) -> bool {
        lock(&self.state).abandoned.contains_key(&number)
    }

    /// Returns the oldest log that an iterator needs; `FileNumber::MAX` if there is none.
    pub(crate) fn oldest_pin(&self) -> FileNumber {
        let state = lock(&self.state);
        state.pins.keys().next().copied().unwrap_or(FileNumber::MAX)
    }

    /// Pins log `number` and all later ones, so that they are not removed.
    pub(crate) fn pin(&self, number: FileNumber) {
        *lock(&self.state).pins.entry(number).or_insert(0) += 1;
    }

    /// Releases one pin of log `number` ([`PinnedLogs::pin`]).
    pub(crate) fn unpin(&self, number: FileNumber) {
        let mut state = lock(&self.state);
        if let Some(count) = state.pins.get_mut(&number) {
            *count -= 1;
            if *count == 0 {
                state.pins.remove(&number);
            }
        }
    }

    /// Locks the pinned logs against changes until the guard is dropped, for tests.
    #[cfg(test)]
    pub(crate) fn hold(&self) -> impl Sized + '_ {
        lock(&self.state)
    }
}
