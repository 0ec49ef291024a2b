//! Synced writes: a leader waits for the writers that may share its sync.

use std::sync::Arc;

use koeldb_base::Result;
use koeldb_base::sync::yield_now;

use super::group::CommitEnv;
use super::{WriteQueue, spins_for};
use crate::commit::protocol::CommitState;
use crate::commit::writer::{CommitMode, Phase};
use crate::wal::BATCHES_MAX;

/// The maximum number of times that a leader yields while it waits for more members.
const YIELDS_MAX: u32 = if cfg!(loom) { 1 } else { 10_000 };

impl WriteQueue {
    /// Whether a synced batch is small enough for a group, so that others may share its sync.
    pub(super) fn may_share_sync(&self, records: &[u8], mode: CommitMode) -> bool {
        mode.sync && records.len() < self.group_bytes_max
    }

    /// Commits a synced batch as the newly elected leader, with the writers that queue meanwhile.
    #[inline(never)]
    pub(super) fn lead_synced(
        &self,
        inner: &Arc<impl CommitEnv>,
        records: &[u8],
        count: u32,
        mode: CommitMode,
    ) -> Result<()> {
        let mut leadership = self.leadership(false);
        self.await_others(&**inner, &mut leadership.commit);
        let claimed = self
            .waiting
            .is_awaited()
            .then(|| self.waiting.places.claim())
            .flatten();
        let Some((id, writer)) = claimed else {
            let alone = self.commit_alone(inner, leadership, records, count, mode);
            return alone.map(drop);
        };
        writer.fill_request(records, count, mode, None);
        writer.begin(Phase::Leading);
        // It returns leadership only if the leader's check is unsure; there is none.
        let _ = self.lead_group(inner, leadership, (id, writer));
        self.wait_for_end(writer, spins_for(records, mode));
        writer.take_outcome(records.len())
    }

    /// Waits before a sync for writers to queue, as many as there were at the end of the last sync.
    pub(super) fn await_others(&self, inner: &impl CommitEnv, commit: &mut CommitState) {
        // Not if writers must not spin, and not on one processor, which the others need.
        let may_wait = self.spinners_max > 0;
        let Some(limits) = may_wait.then(|| commit.group_wait.begin()).flatten() else {
            return;
        };
        let expected = limits.others.min(BATCHES_MAX - 1);
        let before = self.waiting.unlinked_count();
        let mut waiting = before;
        let begun = inner.now();
        let (mut now, mut last_came) = (begun, begun);
        for _ in 0..YIELDS_MAX {
            if waiting >= expected
                || now.saturating_sub(begun) >= limits.total
                || now.saturating_sub(last_came) >= limits.gap
            {
                break;
            }
            yield_now();
            let count = self.waiting.unlinked_count();
            now = inner.now();
            if count > waiting {
                (waiting, last_came) = (count, now);
            }
        }
        let awaited = expected.saturating_sub(before);
        let waited = now.saturating_sub(begun);
        commit
            .group_wait
            .end(waiting - before, awaited, limits, waited);
    }
}
