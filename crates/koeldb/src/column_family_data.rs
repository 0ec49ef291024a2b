//! A column family of an open database: its memtables, its current version, its options.
//!
//! Constant after open: id, name, key order, table opener. The super-version cell synchronizes
//! itself. The mutex protects the list of memtables and the version, which change together with the
//! super-version; only the leader of the write queue seals a memtable, and only the holder of the
//! version set installs a version.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use koeldb_base::KeyOrder;
use koeldb_base::file_name::FileNumber;
use koeldb_base::sync::lock_plain as lock;
use koeldb_lsm::pick::{CompactionPlan, fifo, leveled, universal};
use koeldb_lsm::version::Epochs;
use koeldb_lsm::{TableOpener, Version};

use crate::counters::ColumnFamilyCounters;
use crate::memtables::{LoggedMemtable, MemtableMaker, StandbyMemtable, write_buffer_bytes};
use crate::options::{ColumnFamilyOptions, CompactionStyle};
use crate::super_version::{SuperVersion, SuperVersionCell};
use crate::table_files::pick_settings;
use crate::write_stall::{self, StallCondition, StallInputs};

/// State under the mutex of the column family.
#[derive(Debug)]
pub(crate) struct ColumnFamilyState {
    /// The memtable for writes.
    pub(crate) active: LoggedMemtable,
    /// Sealed memtables, oldest first.
    pub(crate) sealed: Vec<LoggedMemtable>,
    pub(crate) version: Arc<Version>,
    pub(crate) options: Arc<ColumnFamilyOptions>,
    /// The number of the oldest sealed memtables that a running flush has taken.
    pub(crate) flushing: usize,
    /// The number of running ingestions, during which no compaction is picked.
    pub(crate) ingestions: u32,
    /// A flush was requested even if there are fewer sealed memtables than are merged together.
    pub(crate) flush_requested: bool,
    /// Estimated bytes that compactions have to rewrite.
    pub(crate) pending_compaction_bytes: u64,
    pub(crate) stall: StallCondition,
    /// The last condition reported to listeners.
    pub(crate) announced: StallCondition,
}

/// One column family.
pub(crate) struct ColumnFamilyData {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) order: KeyOrder,
    pub(crate) tables: Arc<TableOpener>,
    pub(crate) maker: MemtableMaker,
    pub(crate) standby: StandbyMemtable,
    pub(crate) super_version: SuperVersionCell,
    pub(crate) dropped: AtomicBool,
    /// Allocates the epochs of its tables.
    pub(crate) epochs: Epochs,
    /// The number of running manual compactions, during which automatic ones wait.
    pub(crate) manual_compactions: AtomicU32,
    pub(crate) counters: ColumnFamilyCounters,
    state: Mutex<ColumnFamilyState>,
}

impl ColumnFamilyData {
    pub(crate) fn new(
        family: &koeldb_lsm::version::ColumnFamilyVersions,
        options: ColumnFamilyOptions,
        tables: Arc<TableOpener>,
        maker: MemtableMaker,
        log: FileNumber,
    ) -> Self {
        let version = Arc::clone(family.current());
        let order = version.order.clone();
        let options = Arc::new(options);
        let mut active = maker.make(&order, &options);
        active.first_log = log;
        let state = ColumnFamilyState {
            active,
            sealed: Vec::new(),
            version,
            options,
            flushing: 0,
            ingestions: 0,
            flush_requested: false,
            pending_compaction_bytes: 0,
            stall: StallCondition::Normal,
            announced: StallCondition::Normal,
        };
        state.active.activate();
        let data = ColumnFamilyData {
            id: family.id(),
            name: family.name().to_owned(),
            order,
            maker,
            standby: StandbyMemtable::default(),
            super_version: SuperVersionCell::new(state.super_version(&tables)),
            tables,
            dropped: AtomicBool::new(false),
            epochs: family.epochs().clone(),
            manual_compactions: AtomicU32::new(0),
            counters: ColumnFamilyCounters::default(),
            state: Mutex::new(state),
        };
        data.set_first_check();
        data
    }

    /// Sets the size at which the active memtable is first checked.
    fn set_first_check(&self) {
        let (bytes, limit) = self.read(|state| {
            let bytes = state.active.memtable.filled_bytes();
            (bytes, write_buffer_bytes(&state.options))
        });
        self.set_next_check(bytes, limit);
    }

    /// Replaces the active memtable by an empty one, after log replay has written it to a table.
    pub(crate) fn renew_memtable(&self) {
        self.update_and_install(0, |state| {
            let next = self.maker.make(&self.order, &state.options);
            next.activate();
            state.active = LoggedMemtable {
                first_log: state.active.first_log,
                ..next
            };
        });
    }

    /// Creates the column family with the recovered version and a new log.
    pub(crate) fn restart(&self, version: Arc<Version>, log: FileNumber) {
        self.update_and_install(0, |state| {
            state.version = version;
            state.active.first_log = log;
        });
    }

    pub(crate) fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }

    pub(crate) fn options(&self) -> Arc<ColumnFamilyOptions> {
        Arc::clone(&lock(&self.state).options)
    }

    pub(crate) fn version(&self) -> Arc<Version> {
        Arc::clone(&lock(&self.state).version)
    }

    /// Reads the state.
    pub(crate) fn read<R>(&self, read: impl FnOnce(&ColumnFamilyState) -> R) -> R {
        read(&lock(&self.state))
    }

    /// Changes the state and makes the change visible to readers.
    pub(crate) fn update_and_install<R>(
        &self,
        delayed_write_rate: u64,
        change: impl FnOnce(&mut ColumnFamilyState) -> R,
    ) -> R {
        self.install_after(delayed_write_rate, |state| {
            let result = change(state);
            state.estimate();
            result
        })
    }

    /// Seals the active memtable and makes `next` the active one.
    pub(crate) fn seal_active(&self, delayed_write_rate: u64, next: LoggedMemtable) {
        self.install_after(delayed_write_rate, |state| {
            state
                .sealed
                .push(std::mem::replace(&mut state.active, next));
        });
    }

    fn install_after<R>(
        &self,
        delayed_write_rate: u64,
        change: impl FnOnce(&mut ColumnFamilyState) -> R,
    ) -> R {
        let mut state = lock(&self.state);
        let result = change(&mut state);
        self.update_stall_condition(&mut state, delayed_write_rate);
        let next = state.super_version(&self.tables);
        // Installed under the mutex, so that readers never see an older state after a newer one.
        let replaced = self.super_version.install(next);
        drop(state);
        drop(replaced);
        result
    }

    /// Changes state that readers do not see.
    pub(crate) fn update<R>(&self, change: impl FnOnce(&mut ColumnFamilyState) -> R) -> R {
        change(&mut lock(&self.state))
    }

    /// Updates the stall condition from the state.
    fn update_stall_condition(&self, state: &mut ColumnFamilyState, delayed_write_rate: u64) {
        let options = &state.options;
        let count = |number: i32| usize::try_from(number).unwrap_or(0);
        let level0_files = match options.compaction_style {
            CompactionStyle::Universal => universal::run_count(&state.version),
            _ => state.version.levels[0].files.len(),
        };
        let condition = write_stall::condition(&StallInputs {
            sealed_memtables: state.sealed.len(),
            max_write_buffer_number: count(options.max_write_buffer_number),
            level0_files,
            level0_slowdown: count(options.level0_slowdown_writes_trigger),
            level0_stop: count(options.level0_stop_writes_trigger),
            pending_bytes: state.pending_compaction_bytes,
            soft_pending_bytes: options.soft_pending_compaction_bytes_limit,
            hard_pending_bytes: options.hard_pending_compaction_bytes_limit,
            delayed_write_rate,
            auto_compactions: !options.disable_auto_compactions
                && options.compaction_style != CompactionStyle::Fifo,
        });
        if condition.cause() != state.stall.cause() {
            let mut level0 = state.version.levels[0].files.iter();
            let is_compacting = level0.any(|file| file.is_being_compacted());
            self.counters.stalled(condition, is_compacting);
        }
        state.stall = condition;
    }

    /// The oldest log with data not yet in tables; `current` is the log being written.
    pub(crate) fn oldest_log_needed(&self, current: FileNumber) -> FileNumber {
        let state = lock(&self.state);
        match state.sealed.first() {
            Some(oldest) => oldest.first_log,
            None if state.active.memtable.is_empty() => current,
            None => state.active.first_log,
        }
    }

    /// The first log needed after the flush of the `count` oldest sealed memtables.
    pub(crate) fn first_log_behind(&self, count: usize) -> FileNumber {
        let state = lock(&self.state);
        state.sealed.get(count).unwrap_or(&state.active).first_log
    }

    /// Whether an automatic compaction is due.
    pub(crate) fn is_compaction_due(&self, unix_secs: u64) -> bool {
        // Computed outside the mutex, which the leader takes to seal a memtable.
        let (version, options) =
            self.read(|state| (Arc::clone(&state.version), Arc::clone(&state.options)));
        self.read(|state| state.ingestions == 0)
            && self.pick(&version, &options, unix_secs).is_some()
    }

    /// The next automatic compaction, if one is due at `unix_secs`.
    pub(crate) fn pick_compaction(&self, unix_secs: u64) -> Option<CompactionPlan> {
        let state = lock(&self.state);
        if state.ingestions > 0 {
            return None;
        }
        let plan = self.pick(&state.version, &state.options, unix_secs)?;
        // Marked under the mutex, so that two pickers never take the same file.
        plan.mark(true);
        Some(plan)
    }

    fn pick(
        &self,
        version: &Arc<Version>,
        options: &ColumnFamilyOptions,
        unix_secs: u64,
    ) -> Option<CompactionPlan> {
        let is_held = self.manual_compactions.load(Ordering::Acquire) > 0;
        if self.is_dropped() || is_held || options.disable_auto_compactions {
            return None;
        }
        let settings = pick_settings(options);
        match options.compaction_style {
            CompactionStyle::Level => leveled::pick(version, &settings),
            CompactionStyle::Universal => universal::pick(version, &settings),
            CompactionStyle::Fifo => fifo::pick(version, &settings, unix_secs),
            CompactionStyle::None => None,
        }
    }
}

impl ColumnFamilyState {
    /// Returns the super-version of the state.
    fn super_version(&self, tables: &Arc<TableOpener>) -> SuperVersion {
        let newest_first = self.sealed.iter().rev();
        SuperVersion {
            memtable: Arc::clone(&self.active.memtable),
            sealed: newest_first
                .map(|sealed| Arc::clone(&sealed.memtable))
                .collect(),
            version: Arc::clone(&self.version),
            tables: Arc::clone(tables),
            options: Arc::clone(&self.options),
            newest_in_tables: OnceLock::new(),
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
