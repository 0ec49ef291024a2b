//! The standby memtable, which succeeds the active one: when it is created, and its creation.

use std::sync::Arc;

use super::ColumnFamilyData;
use crate::env::{JobPriority, Pool};
use crate::options::ColumnFamilyOptions;
use crate::state::job_slots::JobSlots;
use crate::state::memtables::LoggedMemtable;

impl ColumnFamilyData {
    /// Whether the leader should check the active memtable, whose size is `memory_bytes`.
    #[inline]
    pub(crate) fn should_check(&self, memory_bytes: usize) -> bool {
        self.standby.should_check(memory_bytes)
    }

    /// Sets the size at which the active memtable is checked after `memory_bytes`.
    pub(crate) fn set_next_check(&self, memory_bytes: usize, write_buffer_bytes: usize) {
        let mark = self
            .maker
            .next_check_bytes(memory_bytes, write_buffer_bytes);
        self.standby.set_next_check(mark);
    }

    /// Makes the leader check the active memtable after the next insertion.
    pub(crate) fn request_check(&self) {
        self.standby.set_next_check(0);
    }

    /// Returns the successor of the active memtable: the standby if its options match, or a new
    /// one.
    pub(crate) fn take_successor(&self, options: &Arc<ColumnFamilyOptions>) -> LoggedMemtable {
        let next = self.standby.take(options);
        next.unwrap_or_else(|| self.maker.make(&self.order, options))
    }

    /// Requests the creation of the standby memtable in the background.
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

    /// Creates the standby memtable, unless there is one.
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
