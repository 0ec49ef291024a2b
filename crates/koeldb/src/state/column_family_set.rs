//! The live column families of a database, by id, and the choice of the next one to work for.
//!
//! Each write looks its families up, so lookups of different threads must not write to a common
//! cache line: the default family needs no lock, and the others are in several copies of the map.
//!
//! Work goes to the most urgent family: one whose writes are stopped, then the one that is nearest
//! to that. Each time another is chosen, a family with work becomes more urgent, so that none waits
//! forever.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use koeldb_base::SeqNo;
use koeldb_base::file_name::FileNumber;
use koeldb_base::sync::{Padded, stripe_count, thread_number};
use koeldb_lsm::pick::CompactionPlan;
use koeldb_lsm::pick::aged::PickMoment;

use koeldb_base::Result;
use koeldb_lsm::version::BlobFileMeta;
use koeldb_lsm::{FileMeta, TableOpener};

use crate::env::JobPriority;
use crate::report::SettingWithoutEffect;
use crate::report::listener::Event;
use crate::state::column_family_data::ColumnFamilyData;
use crate::state::context::Context;
use crate::state::cuts::Cuts;
use crate::state::work_queue::{Stamp, WorkKind, WorkQueue};
use crate::state::write_stall::WriteStall;

/// The live column families by id.
type ById = BTreeMap<u32, Arc<ColumnFamilyData>>;

/// A lock of the map by id for some of the threads, on cache lines of its own.
type Stripe = Padded<RwLock<Arc<ById>>>;

/// Locks one stripe of the map of column families for writing.
fn lock_for_change(stripe: &Stripe) -> RwLockWriteGuard<'_, Arc<ById>> {
    stripe.write().unwrap_or_else(PoisonError::into_inner)
}

/// The live column families of a database (RocksDB: `ColumnFamilySet`).
pub(crate) struct ColumnFamilySet {
    /// The family with id 0, which exists as long as the database.
    default: Arc<ColumnFamilyData>,
    /// Locks of one map: a thread reads under one of them, a change locks all of them in order.
    stripes: Box<[Stripe]>,
    context: Arc<Context>,
    queue: Arc<WorkQueue>,
    /// The cuts of `atomic_flush`; `None` without it.
    cuts: Option<Cuts>,
    /// Whether there was ever a column family with user-defined timestamps.
    have_timestamps: AtomicBool,
}

impl ColumnFamilySet {
    pub(crate) fn new(
        default: &Arc<ColumnFamilyData>,
        by_id: ById,
        context: &Arc<Context>,
        stall: &Arc<WriteStall>,
    ) -> Self {
        let queue = Arc::new(WorkQueue::new(stall));
        for family in by_id.values() {
            family.attach(&queue);
        }
        let have_timestamps = by_id.values().any(|family| family.has_timestamps);
        let by_id = Arc::new(by_id);
        let stripes = (0..stripe_count()).map(|_| Padded(RwLock::new(Arc::clone(&by_id))));
        ColumnFamilySet {
            default: Arc::clone(default),
            stripes: stripes.collect(),
            context: Arc::clone(context),
            queue,
            cuts: context.db_options.atomic_flush.then(Cuts::default),
            have_timestamps: AtomicBool::new(have_timestamps),
        }
    }

    /// Whether there may be a column family with user-defined timestamps, which logs declare.
    #[inline]
    pub(crate) fn have_timestamps(&self) -> bool {
        self.have_timestamps.load(Ordering::Relaxed)
    }

    /// Whether the keys of a column family have user-defined timestamps; false for unknown ones.
    pub(crate) fn has_timestamps(&self, cf: u32) -> bool {
        let has_own = |family: &Arc<ColumnFamilyData>| family.has_timestamps;
        self.have_timestamps() && self.by_id().get(&cf).is_some_and(has_own)
    }

    /// Returns the queues of the column families that may have a flush or compaction due.
    pub(crate) fn queue(&self) -> &WorkQueue {
        &self.queue
    }

    /// The cuts at which the column families are flushed together; `None` without `atomic_flush`.
    pub(crate) fn cuts(&self) -> Option<&Cuts> {
        self.cuts.as_ref()
    }

    /// The default column family, which is never dropped.
    #[inline]
    pub(crate) fn default_family(&self) -> &Arc<ColumnFamilyData> {
        &self.default
    }

    /// Locks the map of column families by id for reading, through the stripe of this thread.
    pub(crate) fn by_id(&self) -> RwLockReadGuard<'_, Arc<ById>> {
        let stripe = &self.stripes[thread_number() % self.stripes.len()];
        stripe.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns all live column families, by id.
    pub(crate) fn all(&self) -> Vec<Arc<ColumnFamilyData>> {
        self.by_id().values().cloned().collect()
    }

    /// Replaces the map of column families by a changed copy, under the locks of all stripes.
    fn change<R>(&self, change: impl FnOnce(&mut ById) -> R) -> R {
        let mut stripes: Vec<_> = self.stripes.iter().map(lock_for_change).collect();
        let mut by_id = ById::clone(&stripes[0]);
        let result = change(&mut by_id);
        let by_id = Arc::new(by_id);
        for stripe in &mut stripes {
            **stripe = Arc::clone(&by_id);
        }
        result
    }

    /// Adds a column family.
    pub(crate) fn insert(&self, family: &Arc<ColumnFamilyData>) {
        if family.has_timestamps {
            self.have_timestamps.store(true, Ordering::Relaxed);
        }
        self.change(|by_id| {
            family.attach(&self.queue);
            by_id.insert(family.id, Arc::clone(family));
        });
    }

    /// Removes a dropped column family and its queued work.
    pub(crate) fn remove(&self, id: u32) {
        let removed = self.change(|by_id| by_id.remove(&id));
        if let Some(family) = removed {
            // Under its lock: a change of before must not be announced afterwards.
            family.update(|state| {
                state.active.retire();
                self.queue.forget(id);
            });
        }
    }

    /// Returns the column families queued for this kind of work, with their change stamps.
    fn queued(&self, kind: WorkKind) -> Vec<(Arc<ColumnFamilyData>, Stamp)> {
        let queued = self.queue.queued(kind);
        let by_id = self.by_id();
        let mut found = Vec::with_capacity(queued.len());
        for (id, stamp) in queued {
            match by_id.get(&id) {
                Some(family) => found.push((Arc::clone(family), stamp)),
                // It was dropped while one of its jobs was running.
                None => self.queue.remove(kind, id, stamp),
            }
        }
        found
    }

    /// Returns the column family whose sealed memtables are most urgently due for a flush.
    pub(crate) fn family_to_flush(&self) -> Option<Arc<ColumnFamilyData>> {
        let mut due = Vec::new();
        let queued = self.queued(WorkKind::Flush);
        // Looked up behind the stamps: the end of the flush queues all families again.
        let is_busy = self.cuts().is_some_and(Cuts::is_flushing);
        for (family, stamp) in queued {
            match family.flush_urgency().filter(|_| !is_busy) {
                Some(urgency) => due.push((urgency, family)),
                None => self.queue.remove(WorkKind::Flush, family.id, stamp),
            }
        }
        // Of equally urgent ones, that with the oldest log.
        due.sort_by_key(|(urgency, _)| *urgency);
        let (_, chosen) = due.pop()?;
        for (_, passed) in due {
            passed.passed_flushes.fetch_add(1, Ordering::Relaxed);
        }
        chosen.passed_flushes.store(0, Ordering::Relaxed);
        Some(chosen)
    }

    /// Returns the column families to be checked for a due compaction.
    pub(crate) fn with_compaction_work(&self) -> Vec<Arc<ColumnFamilyData>> {
        let queued = self.queued(WorkKind::Compaction).into_iter();
        queued.map(|(family, _)| family).collect()
    }

    /// Picks the most urgent compaction of all column families and marks its input files.
    pub(crate) fn pick_compaction(
        &self,
        moment: PickMoment,
    ) -> Option<(Arc<ColumnFamilyData>, CompactionPlan)> {
        let mut queued: Vec<_> = self.queued(WorkKind::Compaction);
        queued.sort_by_cached_key(|(family, _)| Reverse(family.compaction_urgency()));
        let mut chosen: Option<(Arc<ColumnFamilyData>, CompactionPlan)> = None;
        for (family, stamp) in queued {
            if chosen.is_some() {
                family.passed_compactions.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            family.passed_compactions.store(0, Ordering::Relaxed);
            match family.pick_compaction(moment) {
                Some(plan) => chosen = Some((family, plan)),
                None => self.queue.remove(WorkKind::Compaction, family.id, stamp),
            }
        }
        chosen
    }

    /// Queues all column families for compaction if a file has reached the age at which it is due.
    pub(crate) fn queue_expired(&self) {
        if self.queue.take_expiry(self.context.table_files.unix_secs()) {
            self.queue_all();
        }
    }

    /// Queues all column families for compaction if files waited for this snapshot release.
    ///
    /// Returns whether that is so.
    pub(crate) fn queue_released(&self, oldest_snapshot: SeqNo) -> bool {
        let is_any = self.queue.take_release(oldest_snapshot);
        if is_any {
            self.queue_all();
        }
        is_any
    }

    /// Queues all column families for compaction.
    pub(crate) fn queue_all(&self) {
        self.queue_all_for(WorkKind::Compaction);
    }

    /// Queues all column families to be checked for this kind of work.
    pub(crate) fn queue_all_for(&self, kind: WorkKind) {
        for family in self.by_id().values() {
            family.queue(kind);
        }
    }

    /// Returns the column families without unflushed data, each with the first WAL it may need.
    pub(crate) fn without_data(&self) -> Vec<(u32, FileNumber)> {
        let families = self.all();
        let empty = families.iter().filter_map(|family| {
            let first =
                family.read(|state| (!state.has_unflushed()).then_some(state.active.first_log));
            Some((family.id, first?))
        });
        empty.collect()
    }

    /// Returns the largest memory that sealing one active memtable can free.
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
            is_any |= family.request_flush();
        }
        is_any
    }

    /// The time, in seconds since 1970.
    pub(crate) fn unix_secs(&self) -> u64 {
        self.context.table_files.unix_secs()
    }

    /// Reports changed stall conditions in a background thread, for callers that hold locks.
    pub(crate) fn announce_stall_soon(self: &Arc<Self>) {
        let pool = &self.context.env.pool;
        if self.queue.has_stalls() && !pool.is_stepped() {
            let families = Arc::clone(self);
            pool.submit(JobPriority::High, move || families.announce_stall());
        }
    }

    /// Reports changed stall conditions to LOG and to listeners; must be called without locks.
    pub(crate) fn announce_stall(&self) {
        for id in self.queue.take_stalls() {
            let family = self.by_id().get(&id).cloned();
            let Some(family) = family else { continue };
            let changed = family.update(|state| {
                let is_same = std::mem::discriminant(&state.stall)
                    == std::mem::discriminant(&state.announced);
                let previous = std::mem::replace(&mut state.announced, state.stall);
                (!is_same).then_some((state.stall, previous))
            });
            if let Some((condition, previous)) = changed {
                self.context.info_log.stall_changed(&family, condition);
                self.context.notify(&Event::StallConditionsChanged {
                    column_family: &family.name,
                    condition,
                    previous,
                });
            }
        }
        self.context.listeners.report_sealed();
    }

    /// The settings other than the default that have no effect.
    pub(crate) fn settings_without_effect(&self) -> Vec<SettingWithoutEffect> {
        let mut settings = self.context.mutable_options().settings_without_effect();
        if self.context.plugins.transactions.is_some() {
            // The open sets it, so that OPTIONS files tell RocksDB.
            settings.retain(|setting| setting.name != "allow_2pc");
        }
        for family in self.all() {
            settings.extend(family.options().settings_without_effect(&family.name));
        }
        settings
    }

    /// Calls `work` for every table of every column family.
    pub(crate) fn for_each_table(
        &self,
        mut work: impl FnMut(&TableOpener, &FileMeta, usize) -> Result<()>,
    ) -> Result<()> {
        for family in self.all() {
            let super_version = family.super_version.load();
            for (level, file) in super_version.version.files() {
                work(&super_version.tables, file, level)?;
            }
        }
        Ok(())
    }

    /// Calls `work` with each blob file of every column family and the id of the family.
    pub(crate) fn for_each_blob_file(
        &self,
        mut work: impl FnMut(&TableOpener, &BlobFileMeta, u32) -> Result<()>,
    ) -> Result<()> {
        for family in self.all() {
            let super_version = family.super_version.load();
            for file in super_version.version.blob_files.values() {
                work(&super_version.tables, file, family.id)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use koeldb_base::ErrorKind;
    use koeldb_base::sync::STRIPES_MAX;

    use crate::{ColumnFamilyOptions, Db, Env, Options, WriteBatch};

    #[test]
    fn the_threads_of_every_stripe_find_a_new_family_and_miss_a_dropped_one() {
        let mut options = Options::new();
        options.create_if_missing(true).set_env(&Env::mem_env());
        let db = Db::open(&options, "/stripes").unwrap();
        let family = db.create_cf("new", &ColumnFamilyOptions::new()).unwrap();
        let mut batch = WriteBatch::new();
        batch.put("key", "value").put_cf(&family, "key", "value");
        let write_by_new_threads = || -> Vec<_> {
            let write = |_| {
                let (db, batch) = (db.clone(), batch.clone());
                std::thread::spawn(move || db.write(&batch)).join().unwrap()
            };
            (0..2 * STRIPES_MAX).map(write).collect()
        };
        assert!(write_by_new_threads().iter().all(Result::is_ok));
        db.drop_cf(&family).unwrap();
        for written in write_by_new_threads() {
            let error = written.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ColumnFamilyDropped);
        }
        db.put("key", "of the default family").unwrap();
    }
}
