//! A column family of an open database: its memtables, its current version, its options.
//!
//! Constant after open: id, name, key order, table opener. The super-version cell synchronizes
//! itself. The mutex protects the list of memtables and the version, which change together with the
//! super-version; only the leader of the write queue seals a memtable, and only the holder of the
//! version set installs a version.

mod successor;

use std::cmp::Reverse;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use koeldb_base::file_name::FileNumber;
use koeldb_base::sync::lock_plain as lock;
use koeldb_base::{Error, ErrorKind, KeyOrder, SeqNo, Timestamp};
use koeldb_lsm::pick::aged::{self, PickMoment, Upcoming};
use koeldb_lsm::pick::blob_garbage;
use koeldb_lsm::pick::{CompactionPlan, PickSettings, fifo, leveled, universal};
use koeldb_lsm::version::Epochs;
use koeldb_lsm::{TableOpener, Version};

use crate::options::{
    BlobRule, ColumnFamilyOptions, CompactionStyle, age_limits, blob_rule, dead_bytes_rule,
    pick_settings,
};
use crate::report::listener::FlushReason;
use crate::report::{StallCause, StallCondition};
use crate::state::blob_collection::BlobCollectionState;
use crate::state::counters::ColumnFamilyCounters;
use crate::state::memtables::{
    HeldMemtables, LoggedMemtable, MemtableMaker, StandbyMemtable, write_buffer_bytes,
};
use crate::state::super_version::{SuperVersion, SuperVersionCell};
use crate::state::ttl::Ttl;
use crate::state::work_queue::{WorkKind, WorkQueue};
use crate::state::write_stall::{self, Level0, Pacer, StallContext, StallInputs};

/// The mutable state of a column family, guarded by its mutex: memtables, version, options.
#[derive(Debug)]
pub(crate) struct ColumnFamilyState {
    /// The memtable for writes.
    pub(crate) active: LoggedMemtable,
    /// Sealed memtables, oldest first.
    pub(crate) sealed: Vec<LoggedMemtable>,
    /// Flushed memtables that readers still hold.
    pub(crate) held: HeldMemtables,
    pub(crate) version: Arc<Version>,
    /// The value of [`SuperVersion::seqno_max`] in the next super-version.
    pub(crate) seqno_max: SeqNo,
    pub(crate) options: Arc<ColumnFamilyOptions>,
    /// The number of oldest sealed memtables that a running flush has taken.
    pub(crate) flushing: usize,
    /// The number of running ingestions, during which no compaction is picked.
    pub(crate) ingestions: u32,
    /// Whether a flush was requested even of fewer sealed memtables than a flush merges.
    pub(crate) flush_requested: bool,
    /// Why the newest sealed memtable was sealed.
    pub(crate) flush_reason: FlushReason,
    /// Estimated bytes that compactions have to rewrite.
    pub(crate) pending_compaction_bytes: u64,
    pub(crate) stall: StallCondition,
    /// The bytes of all memtables sealed so far.
    sealed_bytes: u64,
    pacer: Pacer,
    /// The last stall condition that was reported to listeners.
    pub(crate) announced: StallCondition,
}

/// An open column family (RocksDB: `ColumnFamilyData`).
pub(crate) struct ColumnFamilyData {
    pub(crate) id: u32,
    pub(crate) name: Arc<str>,
    pub(crate) order: KeyOrder,
    /// The order of keys as users see them: without timestamps, if `order` has them.
    pub(crate) user_order: KeyOrder,
    /// Whether keys end with user-defined timestamps.
    pub(crate) has_timestamps: bool,
    pub(crate) tables: Arc<TableOpener>,
    pub(crate) maker: MemtableMaker,
    pub(crate) standby: StandbyMemtable,
    pub(crate) super_version: SuperVersionCell,
    pub(crate) dropped: AtomicBool,
    /// The allocator of the epochs of its tables.
    pub(crate) epochs: Epochs,
    /// The number of manual compactions for which automatic ones wait.
    pub(crate) manual_compactions: AtomicU32,
    pub(crate) counters: ColumnFamilyCounters,
    pub(crate) blob_collection: BlobCollectionState,
    /// Whether writes are refused, so that only ingestion fills the family.
    pub(crate) disallows_writes: bool,
    /// The time to live of values, if values carry their times.
    pub(crate) ttl: Option<Ttl>,
    /// The number of times that another family was chosen for a flush while this one had work.
    pub(crate) passed_flushes: AtomicU32,
    /// The number of times that another family was chosen for a compaction while this one had work.
    pub(crate) passed_compactions: AtomicU32,
    /// The queue to which changes are announced; empty until the database is open.
    work: OnceLock<Arc<WorkQueue>>,
    /// The lock held while a compaction is picked: two pickers must never take the same file.
    picking: Mutex<()>,
    state: Mutex<ColumnFamilyState>,
}

/// A guard that blocks the automatic compactions of a column family while it lives.
pub(crate) struct CompactionHold<'f>(&'f ColumnFamilyData);

impl Drop for CompactionHold<'_> {
    fn drop(&mut self) {
        self.0.manual_compactions.fetch_sub(1, Ordering::AcqRel);
        self.0.queue(WorkKind::Compaction);
    }
}

/// The priority of a flush or compaction: stopped writes, nearness to a stop, then the oldest log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Urgency {
    stopped: bool,
    /// How near writes are to a stop, in thousandths, with [`PASSED_OVER`] for each time passed
    /// over.
    nearness: u64,
    /// The oldest log that the work would free; older is more urgent.
    oldest_log: Reverse<FileNumber>,
}

/// The nearness that a column family gains each time it is passed over.
const PASSED_OVER: u64 = 50;

/// Returns the number of level-0 files (universal: sorted runs) that triggers a compaction.
fn level0_trigger(options: &ColumnFamilyOptions) -> usize {
    let trigger = options.level0_file_num_compaction_trigger;
    usize::try_from(trigger).unwrap_or(0).max(1)
}

/// Returns the ratio of `part` to `whole` in thousandths.
fn per_mille(part: u64, whole: u64) -> u64 {
    part.saturating_mul(1000) / whole.max(1)
}

impl ColumnFamilyData {
    pub(crate) fn new(
        family: &koeldb_lsm::version::ColumnFamilyVersions,
        options: ColumnFamilyOptions,
        tables: Arc<TableOpener>,
        maker: MemtableMaker,
        log: FileNumber,
        ttl: Option<Ttl>,
    ) -> Self {
        let version = Arc::clone(family.current());
        let order = version.order.clone();
        let options = Arc::new(options);
        let mut active = maker.make(&order, &options);
        active.first_log = log;
        let state = ColumnFamilyState {
            active,
            sealed: Vec::new(),
            held: HeldMemtables::default(),
            version,
            seqno_max: SeqNo::MAX,
            options,
            flushing: 0,
            ingestions: 0,
            flush_requested: false,
            flush_reason: FlushReason::default(),
            pending_compaction_bytes: 0,
            stall: StallCondition::Normal,
            sealed_bytes: 0,
            pacer: Pacer::default(),
            announced: StallCondition::Normal,
        };
        state.active.activate();
        let name: Arc<str> = family.name().into();
        let disallows_writes = state.options.disallow_memtable_writes;
        let data = ColumnFamilyData {
            id: family.id(),
            user_order: order.without_timestamps(),
            has_timestamps: order.has_timestamps(),
            order,
            maker,
            standby: StandbyMemtable::default(),
            super_version: SuperVersionCell::new(state.super_version(&tables, &name)),
            name,
            tables,
            dropped: AtomicBool::new(false),
            epochs: family.epochs().clone(),
            manual_compactions: AtomicU32::new(0),
            counters: ColumnFamilyCounters::default(),
            blob_collection: BlobCollectionState::default(),
            disallows_writes,
            ttl,
            passed_flushes: AtomicU32::new(0),
            passed_compactions: AtomicU32::new(0),
            work: OnceLock::new(),
            picking: Mutex::new(()),
            state: Mutex::new(state),
        };
        data.set_first_check();
        data
    }

    /// Sets the memtable size at which the write leader first considers a memtable switch.
    fn set_first_check(&self) {
        let (bytes, limit) = self.read(|state| {
            let bytes = state.active.memtable.filled_bytes();
            (bytes, write_buffer_bytes(&state.options))
        });
        self.set_next_switch_check(bytes, limit);
    }

    /// Replaces the active memtable by an empty one, after log replay has written it to a table.
    pub(crate) fn renew_memtable(&self) {
        self.update_and_install(StallContext::default(), |state| {
            let next = self.maker.make(&self.order, &state.options);
            next.activate();
            state.active = LoggedMemtable {
                first_log: state.active.first_log,
                ..next
            };
        });
    }

    /// Sets the recovered version and the first WAL of the active memtable, while opening.
    pub(crate) fn restart(&self, version: Arc<Version>, log: FileNumber) {
        self.update_and_install(StallContext::default(), |state| {
            state.version = version;
            state.active.first_log = log;
        });
    }

    /// Whether the column family was dropped.
    pub(crate) fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }

    /// Returns the error of a job or call that needs this dropped column family.
    pub(crate) fn dropped_error(&self) -> Error {
        Error::with_kind(
            ErrorKind::ColumnFamilyDropped,
            format!("column family {:?} was dropped", self.name),
        )
    }

    pub(crate) fn options(&self) -> Arc<ColumnFamilyOptions> {
        Arc::clone(&lock(&self.state).options)
    }

    pub(crate) fn version(&self) -> Arc<Version> {
        Arc::clone(&lock(&self.state).version)
    }

    /// Calls `read` with the state, under its lock.
    pub(crate) fn read<R>(&self, read: impl FnOnce(&ColumnFamilyState) -> R) -> R {
        read(&lock(&self.state))
    }

    /// Changes the state under its lock and installs a new super version for readers.
    pub(crate) fn update_and_install<R>(
        &self,
        stall: StallContext,
        change: impl FnOnce(&mut ColumnFamilyState) -> R,
    ) -> R {
        self.install_after(stall, |state| {
            let result = change(state);
            state.estimate();
            result
        })
    }

    /// Seals the active memtable and makes `next` the active one.
    pub(crate) fn seal_active(
        &self,
        stall: StallContext,
        next: LoggedMemtable,
        reason: FlushReason,
    ) {
        self.install_after(stall, |state| {
            state.flush_reason = reason;
            state.sealed_bytes += state.active.memtable.data_bytes();
            state
                .sealed
                .push(std::mem::replace(&mut state.active, next));
        });
    }

    /// Installs a state of the primary in a secondary database, as a new super version.
    pub(crate) fn install_view(&self, change: impl FnOnce(&mut ColumnFamilyState)) {
        self.install_after(StallContext::default(), change);
    }

    /// Changes the state, updates its stall condition, queues due work, installs a super version.
    fn install_after<R>(
        &self,
        stall: StallContext,
        change: impl FnOnce(&mut ColumnFamilyState) -> R,
    ) -> R {
        let mut state = lock(&self.state);
        let result = change(&mut state);
        self.update_stall_condition(&mut state, stall);
        self.queue(WorkKind::Flush);
        self.queue(WorkKind::Compaction);
        let next = state.super_version(&self.tables, &self.name);
        // Installed under the mutex, so that readers never see an older state after a newer one.
        let replaced = self.super_version.install(next);
        drop(state);
        drop(replaced);
        result
    }

    /// Changes the state under its lock without installing a new super version.
    pub(crate) fn update<R>(&self, change: impl FnOnce(&mut ColumnFamilyState) -> R) -> R {
        change(&mut lock(&self.state))
    }

    /// Returns the figures of the state and the options that determine stalls.
    fn stall_inputs(state: &ColumnFamilyState, delayed_write_rate: u64) -> StallInputs {
        let options = &state.options;
        let count = |number: i32| usize::try_from(number).unwrap_or(0);
        let (level0_files, level0_least) = match options.compaction_style {
            // No compaction leaves less than one run.
            CompactionStyle::Universal => (universal::run_count(&state.version), 2),
            _ => (state.version.levels[0].files.len(), 0),
        };
        StallInputs {
            sealed_memtables: state.sealed.len(),
            max_write_buffer_number: count(options.max_write_buffer_number),
            level0_files,
            level0_slowdown: count(options.level0_slowdown_writes_trigger).max(level0_least),
            level0_stop: count(options.level0_stop_writes_trigger).max(level0_least),
            pending_bytes: state.pending_compaction_bytes,
            soft_pending_bytes: options.soft_pending_compaction_bytes_limit,
            hard_pending_bytes: options.hard_pending_compaction_bytes_limit,
            delayed_write_rate,
            auto_compactions: !options.disable_auto_compactions
                && options.compaction_style != CompactionStyle::Fifo,
        }
    }

    /// Whether writes would be stalled with one sealed memtable and one table of level 0 more.
    pub(crate) fn would_stall_after_flush(&self, delayed_write_rate: u64) -> bool {
        self.read(|state| {
            let mut inputs = Self::stall_inputs(state, delayed_write_rate);
            inputs.sealed_memtables += 1;
            inputs.level0_files += 1;
            write_stall::condition(&inputs) != StallCondition::Normal
        })
    }

    /// Whether compactions lag, so that writes of low priority wait.
    pub(crate) fn compactions_lag(&self) -> bool {
        self.read(|state| {
            let trigger = level0_trigger(&state.options);
            write_stall::compactions_lag(&Self::stall_inputs(state, 0), trigger)
        })
    }

    /// Recomputes the stall condition and the pace of writers from the state.
    fn update_stall_condition(&self, state: &mut ColumnFamilyState, stall: StallContext) {
        let inputs = Self::stall_inputs(state, stall.delayed_write_rate);
        let condition = write_stall::condition(&inputs);
        let level0 = Level0 {
            runs: inputs.level0_files,
            trigger: level0_trigger(&state.options),
            slowdown: inputs.level0_slowdown,
            sealed_bytes: state.sealed_bytes,
        };
        let mut pace = None;
        if inputs.auto_compactions && self.work.get().is_some() {
            state.pacer.observe(stall.now, level0);
            pace = state.pacer.pace(level0, stall.delayed_write_rate);
        } else {
            state.pacer.pause();
        }
        let is_new = condition.cause() != state.stall.cause();
        if is_new {
            let mut level0 = state.version.levels[0].files.iter();
            let is_compacting = level0.any(|file| file.is_being_compacted());
            self.counters.stalled(condition, is_compacting);
        }
        state.stall = condition;
        if let Some(work) = self.work.get()
            && !self.is_dropped()
        {
            work.stalled(self.id, condition, pace, is_new);
        }
    }

    /// Connects the column family to its work queue, and queues it for a first check.
    pub(crate) fn attach(&self, work: &Arc<WorkQueue>) {
        let _ = self.work.set(Arc::clone(work));
        self.queue(WorkKind::Flush);
        self.queue(WorkKind::Compaction);
    }

    /// Queues the column family to be checked for a due flush or compaction, after a change.
    pub(crate) fn queue(&self, kind: WorkKind) {
        if let Some(work) = self.work.get() {
            work.push(kind, self.id);
        }
    }

    /// Requests a flush of all sealed memtables, whatever their number; `false` if there are none.
    pub(crate) fn request_flush(&self) -> bool {
        let is_any = self.update(|state| {
            state.flush_requested = !state.sealed.is_empty();
            state.flush_requested
        });
        if is_any {
            self.queue(WorkKind::Flush);
        }
        is_any
    }

    /// Makes the memtables of a failed flush eligible for another flush.
    pub(crate) fn give_up_flush(&self) {
        self.update(|state| state.flushing = 0);
        self.queue(WorkKind::Flush);
    }

    /// Blocks automatic compactions of the column family until the guard is dropped.
    pub(crate) fn hold_compactions(&self) -> CompactionHold<'_> {
        self.manual_compactions.fetch_add(1, Ordering::AcqRel);
        CompactionHold(self)
    }

    /// The urgency of a flush of the sealed memtables; `None` if no flush is due.
    pub(crate) fn flush_urgency(&self) -> Option<Urgency> {
        if self.is_dropped() {
            return None;
        }
        let passed = u64::from(self.passed_flushes.load(Ordering::Relaxed));
        self.read(|state| {
            let waiting = state.sealed.len() - state.flushing;
            let count = |number: i32| usize::try_from(number).unwrap_or(1);
            let merged = count(state.options.min_write_buffer_number_to_merge);
            let is_full = waiting >= merged && !Self::keeps_timestamps(state);
            let is_due = state.flushing == 0 && waiting > 0 && (is_full || state.flush_requested);
            let buffers = count(state.options.max_write_buffer_number);
            is_due.then(|| Urgency {
                stopped: waiting >= buffers,
                nearness: per_mille(waiting as u64, buffers as u64) + passed * PASSED_OVER,
                oldest_log: Reverse(state.sealed[0].first_log),
            })
        })
    }

    /// Whether new tables have no timestamps, although keys have.
    pub(crate) fn has_undated_tables(&self) -> bool {
        self.has_timestamps && !self.version().persists_timestamps
    }

    /// Whether sealed memtables stay in memory for their timestamps, which their tables would not have.
    ///
    /// They do while timestamps are at or above the low mark of history, and while one more memtable
    /// would not stall writes. (RocksDB: `ShouldPostponeFlushToRetainUDT`.)
    fn keeps_timestamps(state: &ColumnFamilyState) -> bool {
        let Some(low) = state.version.full_history_ts_low.map(u64::from_le_bytes) else {
            return false;
        };
        let newest = |sealed: &LoggedMemtable| sealed.memtable.newest_timestamp();
        let is_above = |time: Timestamp| u64::from_le_bytes(time) >= low;
        if !state.sealed.iter().filter_map(newest).any(is_above) {
            return false;
        }
        let inputs = StallInputs {
            sealed_memtables: state.sealed.len() + 1,
            // A flush does not relieve compactions.
            auto_compactions: false,
            ..Self::stall_inputs(state, 0)
        };
        write_stall::condition(&inputs) == StallCondition::Normal
    }

    /// Returns the urgency that a compaction of this column family has if one is due.
    pub(crate) fn compaction_urgency(&self) -> Urgency {
        let passed = u64::from(self.passed_compactions.load(Ordering::Relaxed));
        self.read(|state| {
            let inputs = Self::stall_inputs(state, 0);
            let by_files = per_mille(inputs.level0_files as u64, inputs.level0_stop as u64);
            let by_bytes = match inputs.hard_pending_bytes {
                0 => 0,
                hard => per_mille(inputs.pending_bytes, hard),
            };
            Urgency {
                stopped: match state.stall.cause() {
                    Some((cause, stopped)) => stopped && cause != StallCause::MemtableLimit,
                    None => false,
                },
                nearness: by_files.max(by_bytes) + passed * PASSED_OVER,
                oldest_log: Reverse(0),
            }
        })
    }

    /// Returns the oldest WAL with unflushed data; `current`, the WAL being written, if none.
    pub(crate) fn oldest_log_needed(&self, current: FileNumber) -> FileNumber {
        let state = lock(&self.state);
        match state.sealed.first() {
            Some(oldest) => oldest.first_log,
            None if state.active.memtable.is_empty() => current,
            None => state.active.first_log,
        }
    }

    /// Returns the first WAL still needed after a flush of the `count` oldest sealed memtables.
    pub(crate) fn first_log_behind(&self, count: usize) -> FileNumber {
        let state = lock(&self.state);
        state.sealed.get(count).unwrap_or(&state.active).first_log
    }

    /// Whether an automatic compaction is due.
    pub(crate) fn is_compaction_due(&self, moment: PickMoment) -> bool {
        // Computed outside the mutex, which the leader takes to seal a memtable.
        let (version, options) =
            self.read(|state| (Arc::clone(&state.version), Arc::clone(&state.options)));
        self.read(|state| state.ingestions == 0) && self.pick(&version, &options, moment).is_some()
    }

    /// Picks the next automatic compaction and marks its inputs; `None` if none is due or allowed.
    pub(crate) fn pick_compaction(&self, moment: PickMoment) -> Option<CompactionPlan> {
        let plan = self.pick_marked(|version, options| {
            if let Some(rule) = dead_bytes_rule(options) {
                self.blob_collection.decide(version, rule);
            }
            self.pick(version, options, moment)
        });
        if let Some(plan) = &plan {
            self.blob_collection.picked(plan);
        }
        if plan.is_none()
            && let Some(work) = self.work.get()
        {
            let upcoming = self.upcoming(moment);
            if let Some(time) = upcoming.unix_secs {
                work.expires_at(time);
            }
            if let Some(seqno) = upcoming.released_below {
                work.waits_for_release(seqno);
            }
        }
        plan
    }

    /// Picks a compaction by `pick` and marks its inputs; `None` without one or during ingestion.
    ///
    /// The leader of the write queue takes the lock of the state to seal a memtable, so that lock is
    /// free during the pick. If the version changed meanwhile, the pick is repeated.
    pub(crate) fn pick_marked(
        &self,
        pick: impl Fn(&Arc<Version>, &ColumnFamilyOptions) -> Option<CompactionPlan>,
    ) -> Option<CompactionPlan> {
        let _turn = lock(&self.picking);
        loop {
            let (version, options) = self.read(|state| {
                let parts = || (Arc::clone(&state.version), Arc::clone(&state.options));
                (state.ingestions == 0).then(parts)
            })?;
            let plan = pick(&version, &options)?;
            let is_marked = self.read(|state| {
                let is_current = state.ingestions == 0 && Arc::ptr_eq(&state.version, &version);
                if is_current {
                    plan.begin(&version);
                }
                is_current
            });
            if is_marked {
                return Some(plan);
            }
        }
    }

    /// Marks level 0 for compaction in a database at rest, unless that is useless or too costly.
    pub(crate) fn suggest_level0(&self) -> bool {
        let (version, options) =
            self.read(|state| (Arc::clone(&state.version), Arc::clone(&state.options)));
        options.compaction_style == CompactionStyle::Level
            && !options.disable_auto_compactions
            && leveled::suggest_level0(&version, &pick_settings(&options))
    }

    /// Returns the time and the snapshot release at which further files become due.
    fn upcoming(&self, moment: PickMoment) -> Upcoming {
        let (version, options) =
            self.read(|state| (Arc::clone(&state.version), Arc::clone(&state.options)));
        match options.compaction_style {
            CompactionStyle::Fifo => Upcoming {
                unix_secs: fifo::next_expiry(&version, &pick_settings(&options), moment.unix_secs),
                released_below: None,
            },
            CompactionStyle::Level => aged::upcoming(&version, &age_limits(&options), moment),
            CompactionStyle::Universal | CompactionStyle::None => Upcoming::default(),
        }
    }

    /// Picks a compaction of tables that refer to the oldest blob files, by RocksDB's rule.
    fn pick_by_blob_age(
        &self,
        version: &Arc<Version>,
        options: &ColumnFamilyOptions,
        settings: &PickSettings,
    ) -> Option<CompactionPlan> {
        match blob_rule(options) {
            BlobRule::Age(rule)
                if options.enable_blob_garbage_collection && rule.threshold < 1.0 =>
            {
                blob_garbage::pick(version, settings, rule)
            }
            BlobRule::Age(_) | BlobRule::DeadBytes(_) => None,
        }
    }

    /// Ends a compaction that [`ColumnFamilyData::pick_marked`] has picked.
    pub(crate) fn end_compaction(&self, plan: &CompactionPlan) {
        plan.end(&self.version());
        self.blob_collection.ended(plan);
    }

    /// Picks a compaction of `version`; `None` if none is due or automatic ones are off.
    fn pick(
        &self,
        version: &Arc<Version>,
        options: &ColumnFamilyOptions,
        moment: PickMoment,
    ) -> Option<CompactionPlan> {
        let is_held = self.manual_compactions.load(Ordering::Acquire) > 0;
        if self.is_dropped() || is_held || options.disable_auto_compactions {
            return None;
        }
        let settings = pick_settings(options);
        match options.compaction_style {
            CompactionStyle::Level => {
                let level0_stop = options.level0_stop_writes_trigger;
                let collection = &self.blob_collection;
                let dead = dead_bytes_rule(options);
                let first = dead.filter(|rule| collection.goes_first(version, *rule, level0_stop));
                first
                    .and_then(|rule| collection.pick(version, &settings, rule))
                    .or_else(|| leveled::pick(version, &settings))
                    .or_else(|| aged::pick(version, &settings, &age_limits(options), moment))
                    .or_else(|| match dead {
                        Some(rule) => collection.pick(version, &settings, rule),
                        None => self.pick_by_blob_age(version, options, &settings),
                    })
            }
            CompactionStyle::Universal => universal::pick(version, &settings),
            CompactionStyle::Fifo => fifo::pick(version, &settings, moment.unix_secs),
            CompactionStyle::None => None,
        }
    }
}

impl ColumnFamilyState {
    /// Moves the `count` oldest sealed memtables, which are flushed, to those held by readers.
    pub(crate) fn take_flushed(&mut self, count: usize) {
        self.held.add(self.sealed.drain(..count));
    }

    /// The memory of the memtables that are not flushed.
    pub(crate) fn unflushed_bytes(&self) -> usize {
        let sealed = self.sealed.iter().map(|sealed| &sealed.memtable);
        let all = sealed.chain([&self.active.memtable]);
        all.map(|memtable| memtable.memory_bytes()).sum()
    }

    /// Whether entries are in memtables only.
    pub(crate) fn has_unflushed(&self) -> bool {
        !self.sealed.is_empty() || !self.active.memtable.is_empty()
    }

    /// Creates the super version of the state, which reads will use.
    fn super_version(&self, tables: &Arc<TableOpener>, name: &Arc<str>) -> SuperVersion {
        let newest_first = self.sealed.iter().rev();
        SuperVersion {
            memtable: Arc::clone(&self.active.memtable),
            sealed: newest_first
                .map(|sealed| Arc::clone(&sealed.memtable))
                .collect(),
            version: Arc::clone(&self.version),
            seqno_max: self.seqno_max,
            tables: Arc::clone(tables),
            family_name: Arc::clone(name),
            options: Arc::clone(&self.options),
            newest_in_tables: OnceLock::new(),
            deleted_ranges: Arc::default(),
        }
    }

    /// Updates the estimate of pending compaction bytes.
    fn estimate(&mut self) {
        self.pending_compaction_bytes = match self.options.compaction_style {
            CompactionStyle::Level => {
                let settings = pick_settings(&self.options);
                let targets = leveled::level_targets(&self.version, &settings);
                leveled::pending_compaction_bytes(&self.version, &settings, &targets)
            }
            _ => 0,
        };
    }
}

impl std::fmt::Debug for ColumnFamilyData {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ColumnFamilyData({} {:?})", self.id, self.name)
    }
}
