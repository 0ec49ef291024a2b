//! The live column families of a database, by id, and the stall conditions they impose together.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use koeldb_base::file_name::FileNumber;

use crate::column_family_data::ColumnFamilyData;
use crate::context::Context;
use crate::listener::Event;
use crate::write_stall::WriteStall;

type ById = BTreeMap<u32, Arc<ColumnFamilyData>>;

/// The live column families.
pub(crate) struct ColumnFamilySet {
    by_id: RwLock<ById>,
    context: Arc<Context>,
    /// The worst stall condition of all column families.
    stall: Arc<WriteStall>,
}

impl ColumnFamilySet {
    pub(crate) fn new(by_id: ById, context: &Arc<Context>, stall: &Arc<WriteStall>) -> Self {
        ColumnFamilySet {
            by_id: RwLock::new(by_id),
            context: Arc::clone(context),
            stall: Arc::clone(stall),
        }
    }

    /// Locks the set for reading, for several lookups.
    pub(crate) fn by_id(&self) -> RwLockReadGuard<'_, ById> {
        self.by_id.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns all live column families, by id.
    pub(crate) fn all(&self) -> Vec<Arc<ColumnFamilyData>> {
        self.by_id().values().cloned().collect()
    }

    pub(crate) fn insert(&self, family: &Arc<ColumnFamilyData>) {
        let mut by_id = self.by_id.write().unwrap_or_else(PoisonError::into_inner);
        by_id.insert(family.id, Arc::clone(family));
    }

    pub(crate) fn remove(&self, id: u32) {
        let mut by_id = self.by_id.write().unwrap_or_else(PoisonError::into_inner);
        by_id.remove(&id);
    }

    /// Returns a column family whose sealed memtables are due for a flush.
    pub(crate) fn family_to_flush(&self) -> Option<Arc<ColumnFamilyData>> {
        self.all().into_iter().find(|family| {
            !family.is_dropped()
                && family.read(|state| {
                    let waiting = state.sealed.len() - state.flushing;
                    let merged = usize::try_from(state.options.min_write_buffer_number_to_merge)
                        .unwrap_or(1);
                    state.flushing == 0
                        && waiting > 0
                        && (waiting >= merged || state.flush_requested)
                })
        })
    }

    /// Whether a column family has something to compact; marks nothing.
    pub(crate) fn is_compaction_due(&self) -> bool {
        let now = self.context.table_files.unix_secs();
        let families = self.all();
        families.iter().any(|family| family.is_compaction_due(now))
    }

    /// Column families without unflushed data, and the log before which they need none.
    pub(crate) fn without_data(&self) -> Vec<(u32, FileNumber)> {
        let families = self.all();
        let empty = families.iter().filter_map(|family| {
            let first = family.read(|state| {
                (state.sealed.is_empty() && state.active.memtable.is_empty())
                    .then_some(state.active.first_log)
            });
            Some((family.id, first?))
        });
        empty.collect()
    }

    /// The maximum memory that sealing one memtable frees.
    pub(crate) fn freeable_bytes_max(&self) -> u64 {
        let families = self.all();
        let gains = families
            .iter()
            .map(|family| family.read(|state| state.active.freeable_bytes()));
        gains.max().unwrap_or(0)
    }

    /// Requests a flush of all sealed memtables, however few; returns whether there are any.
    pub(crate) fn request_flush_of_sealed(&self) -> bool {
        let mut is_any = false;
        for family in self.all() {
            family.update(|state| {
                state.flush_requested |= !state.sealed.is_empty();
                is_any |= !state.sealed.is_empty();
            });
        }
        is_any
    }

    /// Applies the stall conditions of all column families to writers.
    pub(crate) fn update_stall(&self) {
        self.stall.set(|| {
            let families = self.all();
            families
                .into_iter()
                .map(|family| family.read(|state| state.stall))
        });
    }

    /// Reports changed stall conditions to listeners; must be called without locks.
    pub(crate) fn announce_stall(&self) {
        for family in self.all() {
            let changed = family.update(|state| {
                let is_same = std::mem::discriminant(&state.stall)
                    == std::mem::discriminant(&state.announced);
                state.announced = state.stall;
                (!is_same).then_some(state.stall)
            });
            if let Some(condition) = changed {
                self.context.info_log.info(format_args!(
                    "[{}] stall condition: {condition:?}",
                    family.name
                ));
                self.context.notify(&Event::StallConditionsChanged {
                    column_family: &family.name,
                    condition,
                });
            }
        }
    }
}
