//! Sealing of memtables, each of which gets a successor and a new log.
//!
//! Only the leader of the write queue seals. It waits for the groups that are being inserted first,
//! so that no log is given up whose entries are not in memtables yet. Memtables that are sealed
//! together end at one sequence number: with `atomic_flush` they are also flushed together
//! ([`Cuts`]).

use std::sync::Arc;

use koeldb_base::Result;
use koeldb_base::file_name::FileNumber;

use super::fold::MergeFolding;
use super::protocol::{CommitPipeline, CommitState};
use crate::report::listener::FlushReason;
use crate::state::column_family_data::ColumnFamilyData;
use crate::state::cuts::Cuts;
use crate::state::memtables::{LoggedMemtable, write_buffer_bytes};

impl CommitPipeline {
    /// Returns the number of the oldest log with entries of a memtable that is not flushed.
    pub(super) fn oldest_log_needed(&self, commit: &mut CommitState) -> Result<FileNumber> {
        let current = commit.wal()?.number;
        let families = commit.families.iter();
        let needed = families.map(|active| active.family.oldest_log_needed(current));
        Ok(needed.min().unwrap_or(current))
    }

    /// Switches the memtables that need the log `oldest`, and requests their flush.
    pub(super) fn switch_oldest_logged(
        &self,
        commit: &mut CommitState,
        oldest: FileNumber,
    ) -> Result<()> {
        let current = commit.wal()?.number;
        let mut full = Vec::new();
        let mut requested = Vec::new();
        for (index, active) in commit.families.iter().enumerate() {
            let family = &active.family;
            if family.oldest_log_needed(current) != oldest {
                continue;
            }
            let is_active = family.read(|state| state.active.first_log) == oldest;
            if is_active && !active.memtable.is_empty() {
                full.push(index);
            }
            requested.push(Arc::clone(family));
        }
        self.switch_memtables(commit, full, FlushReason::WalFull)?;
        for family in requested {
            family.request_flush();
        }
        Ok(())
    }

    /// Switches the memtables of the column families at these positions, and starts a new log.
    ///
    /// With `atomic_flush`, all others that are not empty are switched as well.
    pub(crate) fn switch_memtables(
        &self,
        commit: &mut CommitState,
        mut indices: Vec<usize>,
        reason: FlushReason,
    ) -> Result<()> {
        if indices.is_empty() {
            return Ok(());
        }
        if self.families.cuts().is_some() {
            // Entries that are being inserted belong to the cut.
            self.queue.pipeline.drain()?;
            indices = nonempty(commit);
        }
        self.switch_exactly(commit, &indices, reason)
    }

    /// Switches the memtables of exactly the column families at these positions, as one cut.
    ///
    /// The cut is complete or, after an error, not begun.
    fn switch_exactly(
        &self,
        commit: &mut CommitState,
        indices: &[usize],
        reason: FlushReason,
    ) -> Result<()> {
        if indices.is_empty() {
            return Ok(());
        }
        self.switch_wal(commit)?;
        let log = commit.wal()?.number;
        let cut = self.families.cuts().map(Cuts::begin);
        for &index in indices {
            self.switch_memtable(commit, index, log, reason);
        }
        drop(cut);
        Ok(())
    }

    /// Switches the memtable of the column family at `index`; its successor begins with `log`.
    fn switch_memtable(
        &self,
        commit: &mut CommitState,
        index: usize,
        log: FileNumber,
        reason: FlushReason,
    ) {
        let last_seqno = commit.last_seqno;
        let active = &mut Arc::make_mut(&mut commit.families)[index];
        if let Some(charge) = &active.charge {
            charge.set(active.memtable.memory_bytes());
            charge.seal();
        }
        active.memtable.seal();
        self.context.listeners.memtable_sealed(
            &active.family.name,
            &active.memtable,
            active.earliest_seqno,
        );
        let family = Arc::clone(&active.family);
        let options = family.options();
        let next = LoggedMemtable {
            first_log: log,
            ..family.take_successor(&options)
        };
        next.activate();
        active.memtable = Arc::clone(&next.memtable);
        active.earliest_seqno = last_seqno;
        active.charge.clone_from(&next.charge);
        active.write_buffer_bytes = write_buffer_bytes(&options);
        active.range_deletions_max = u64::from(options.memtable_max_range_deletions);
        active.folding = MergeFolding::of(&options);
        family.set_next_switch_check(next.memtable.filled_bytes(), active.write_buffer_bytes);
        family.seal_active(self.context.stall(), next, reason);
    }

    /// Switches all nonempty memtables; the empty ones get the current log as their first.
    pub(crate) fn seal_memtables(&self, commit: &mut CommitState) -> Result<()> {
        self.queue.pipeline.drain()?;
        self.switch_exactly(commit, &nonempty(commit), FlushReason::ErrorRecovery)?;
        let log = commit.wal()?.number;
        for active in commit.families.iter() {
            active.family.update(|state| {
                if state.active.memtable.is_empty() {
                    state.active.first_log = log;
                }
            });
        }
        Ok(())
    }

    /// Waits until all logged entries are in memtables; starts a new log unless this one is empty.
    fn switch_wal(&self, commit: &mut CommitState) -> Result<()> {
        self.queue.pipeline.drain()?;
        let wal = commit.wal()?;
        if !self.wals.switch(wal)? {
            return Ok(());
        }
        let number = wal.number;
        commit.wal_check_bytes = 0;
        // A column family without unflushed data needs no older log.
        for active in commit.families.iter() {
            active.family.update(|state| {
                if state.active.memtable.is_empty() {
                    state.active.first_log = number;
                }
            });
        }
        self.carry_over(commit)
    }

    /// Replaces a log that failed, or that may have a batch of a failed write, by a new log.
    pub(crate) fn abandon_wal(&self, commit: &mut CommitState) -> Result<()> {
        let next_seqno = commit.last_seqno + 1;
        self.wals.abandon(commit.wal()?, next_seqno)?;
        commit.wal_check_bytes = 0;
        self.carry_over(commit)
    }

    /// Writes the prepared sections of undecided transactions to a new log again, and syncs it.
    fn carry_over(&self, commit: &mut CommitState) -> Result<()> {
        let carried = self.carried.carried();
        if carried.is_empty() {
            return Ok(());
        }
        for (records, count) in carried {
            let next = commit.last_seqno + 1;
            self.write_log(commit, next, &[&records], (count, 0), false)?;
        }
        self.wals.sync(commit.wal()?)
    }

    /// Switches the memtables of `families`, as one cut, and requests their flush.
    pub(crate) fn seal_families(&self, families: &[Arc<ColumnFamilyData>]) -> Result<()> {
        let mut leadership = self.queue.lead();
        let commit = &mut *leadership.commit;
        if self.families.cuts().is_some() {
            self.queue.pipeline.drain()?;
        }
        let mut indices: Vec<usize> = families
            .iter()
            .filter(|family| !family.is_dropped())
            .filter_map(|family| commit.position_of(family.id))
            .collect();
        // A family may be named twice.
        indices.sort_unstable();
        indices.dedup();
        let named = indices.clone();
        indices.retain(|index| !commit.families[*index].memtable.is_empty());
        self.switch_exactly(commit, &indices, FlushReason::ManualFlush)?;
        for index in named {
            commit.families[index].family.request_flush();
        }
        Ok(())
    }

    /// Switches all memtables if data was written with `disable_wal`; returns their families.
    pub(crate) fn seal_unlogged(&self) -> Result<Vec<Arc<ColumnFamilyData>>> {
        let mut leadership = self.queue.lead();
        let commit = &mut *leadership.commit;
        if !self.visibility.has_unlogged() {
            return Ok(Vec::new());
        }
        // Earlier writes that are still being inserted must be flushed as well.
        self.queue.pipeline.drain()?;
        self.switch_exactly(commit, &nonempty(commit), FlushReason::ShutDown)?;
        let families = commit.families.iter();
        Ok(families.map(|active| Arc::clone(&active.family)).collect())
    }
}

/// Returns the positions of the column families whose memtables are not empty.
fn nonempty(commit: &CommitState) -> Vec<usize> {
    let families = commit.families.iter().enumerate();
    let nonempty = families.filter(|(_, active)| !active.memtable.is_empty());
    nonempty.map(|(index, _)| index).collect()
}
