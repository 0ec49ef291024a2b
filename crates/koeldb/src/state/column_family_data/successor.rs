//! The standby memtable, which succeeds the active one: when it is created, and its creation.

use std::sync::Arc;

use super::ColumnFamilyData;
use crate::env::{JobPriority, Pool};
use crate::options::ColumnFamilyOptions;
use crate::state::job_slots::JobSlots;
use crate::state::memtables::LoggedMemtable;

impl ColumnFamilyData {
    /// Whether the write leader must check the active memtable for a switch, at this memory size.
    #[inline]
    pub(crate) fn should_check_switch(&self, memory_bytes: usize) -> bool {
        self.standby.should_check_switch(memory_bytes)
    }

    /// Sets the memtable size of the leader's next check for a switch, after one at `memory_bytes`.
    pub(crate) fn set_next_switch_check(&self, memory_bytes: usize, write_buffer_bytes: usize) {
        let mark = self
            .maker
            .next_check_bytes(memory_bytes, write_buffer_bytes);
        self.standby.set_next_switch_check(mark);
    }

    /// Makes the write leader check the active memtable for a switch after the next insertion.
    pub(crate) fn request_switch_check(&self) {
        self.standby.set_next_switch_check(0);
    }

    /// Returns the next active memtable: the standby one if its options match, else a new one.
    pub(crate) fn take_successor(&self, options: &Arc<ColumnFamilyOptions>) -> LoggedMemtable {
        let next = self.standby.take(options);
        next.unwrap_or_else(|| self.maker.make(&self.order, options))
    }

    /// Submits a background job that creates the standby memtable, unless one was requested.
    pub(crate) fn request_successor(self: &Arc<Self>, pool: &Pool, slots: &Arc<JobSlots>) {
        if !self.standby.begin_request() {
            return;
        }
        let (family, slots) = (Arc::clone(self), Arc::clone(slots));
        pool.submit(JobPriority::High, move || {
            if let Ok(_foreground) = slots.enter() {
                family.prepare_successor();
            }
        });
    }

    /// Creates the standby memtable, which becomes active at the next switch, unless there is one.
    fn prepare_successor(&self) {
        self.standby.prepare(
            self.options(),
            || self.is_dropped(),
            |options| {
                let active = self.read(|state| Arc::clone(&state.active.memtable));
                self.maker.make_successor(&active, options)
            },
        );
    }

    /// Drops the standby memtable of the column family.
    pub(crate) fn forget_successor(&self) {
        self.standby.forget();
    }

    /// Whether there is a standby memtable.
    #[cfg(test)]
    pub(crate) fn has_successor(&self) -> bool {
        self.standby.is_ready()
    }
}
