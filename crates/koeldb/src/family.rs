//! One column family inside the database: its memtables, its current version, its options.
//!
//! Fixed after open: id, name, key order, table cache. Synchronizing itself: the super-version cell. Inside the
//! mutex: the list of memtables and the version, which change together with the super-version; only the leader of
//! the write queue seals a memtable, only the holder of the version set installs a version.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use koeldb_base::KeyOrder;
use koeldb_base::file_name::FileNumber;
use koeldb_lsm::pick::{CompactionPlan, fifo, leveled, universal};
use koeldb_lsm::version::Epochs;
use koeldb_lsm::{TableCache, Version};
use koeldb_memtable::Memtable;

use crate::counters::FamilyCounters;
use crate::options::{ColumnFamilyOptions, CompactionStyle};
use crate::super_version::{SuperVersion, SuperVersionCell, lock};
use crate::tables::pick_settings;
use crate::write::stall::{self, StallCondition, StallInputs};

/// A memtable and the first log that holds a part of it.
#[derive(Clone, Debug)]
pub(crate) struct LoggedMemtable {
    pub(crate) memtable: Arc<Memtable>,
    pub(crate) first_log: FileNumber,
}

/// What changes under the family's mutex.
#[derive(Debug)]
pub(crate) struct FamilyState {
    /// Takes the writes.
    pub(crate) active: LoggedMemtable,
    /// Full ones, oldest first.
    pub(crate) sealed: Vec<LoggedMemtable>,
    pub(crate) version: Arc<Version>,
    pub(crate) options: Arc<ColumnFamilyOptions>,
    /// How many of the oldest sealed memtables a running flush has taken.
    pub(crate) flushing: usize,
    /// Somebody waits for a flush even if fewer memtables are sealed than are merged at once.
    pub(crate) flush_requested: bool,
    /// Bytes that compactions will have to rewrite.
    pub(crate) pending_compaction_bytes: u64,
    pub(crate) stall: StallCondition,
    /// What listeners were told last.
    pub(crate) announced: StallCondition,
}

/// One column family.
pub(crate) struct FamilyData {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) order: KeyOrder,
    pub(crate) tables: Arc<TableCache>,
    pub(crate) super_version: SuperVersionCell,
    pub(crate) dropped: AtomicBool,
    /// The epochs of its tables to come.
    pub(crate) epochs: Epochs,
    /// Manual compactions under way: automatic ones wait.
    pub(crate) manual_compactions: AtomicU32,
    pub(crate) counters: FamilyCounters,
    state: Mutex<FamilyState>,
}

impl FamilyData {
    pub(crate) fn new(
        id: u32,
        name: String,
        options: ColumnFamilyOptions,
        tables: Arc<TableCache>,
        version: Arc<Version>,
        epochs: Epochs,
        log: FileNumber,
    ) -> Self {
        let order = version.order.clone();
        let options = Arc::new(options);
        let memtable = Memtable::new(order.clone(), &options.memtable_options());
        let super_version = SuperVersion {
            memtable: Arc::clone(&memtable),
            sealed: Vec::new(),
            version: Arc::clone(&version),
            tables: Arc::clone(&tables),
            options: Arc::clone(&options),
        };
        FamilyData {
            id,
            name,
            order,
            tables,
            super_version: SuperVersionCell::new(super_version),
            dropped: AtomicBool::new(false),
            epochs,
            manual_compactions: AtomicU32::new(0),
            counters: FamilyCounters::default(),
            state: Mutex::new(FamilyState {
                active: LoggedMemtable {
                    memtable,
                    first_log: log,
                },
                sealed: Vec::new(),
                version,
                options,
                flushing: 0,
                flush_requested: false,
                pending_compaction_bytes: 0,
                stall: StallCondition::Normal,
                announced: StallCondition::Normal,
            }),
        }
    }

    /// An empty memtable in place of the active one, which was written to a table while logs were replayed.
    pub(crate) fn renew_memtable(&self) {
        self.change(0, |state| {
            state.active.memtable =
                Memtable::new(self.order.clone(), &state.options.memtable_options());
        });
    }

    /// Begins with the recovered version and a new log.
    pub(crate) fn restart(&self, version: Arc<Version>, log: FileNumber) {
        self.change(0, |state| {
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
    pub(crate) fn read<R>(&self, read: impl FnOnce(&FamilyState) -> R) -> R {
        read(&lock(&self.state))
    }

    /// Changes the state and makes the change visible to readers.
    pub(crate) fn change<R>(
        &self,
        delayed_write_rate: u64,
        change: impl FnOnce(&mut FamilyState) -> R,
    ) -> R {
        let mut state = lock(&self.state);
        let result = change(&mut state);
        self.estimate(&mut state, delayed_write_rate);
        let next = SuperVersion {
            memtable: Arc::clone(&state.active.memtable),
            sealed: state
                .sealed
                .iter()
                .rev()
                .map(|sealed| Arc::clone(&sealed.memtable))
                .collect(),
            version: Arc::clone(&state.version),
            tables: Arc::clone(&self.tables),
            options: Arc::clone(&state.options),
        };
        // Installed under the mutex, so that readers never see an older state after a newer one.
        let replaced = self.super_version.install(next);
        drop(state);
        drop(replaced);
        result
    }

    /// Changes what readers do not see.
    pub(crate) fn note<R>(&self, change: impl FnOnce(&mut FamilyState) -> R) -> R {
        change(&mut lock(&self.state))
    }

    fn estimate(&self, state: &mut FamilyState, delayed_write_rate: u64) {
        let options = &state.options;
        let settings = pick_settings(options);
        state.pending_compaction_bytes = match options.compaction_style {
            CompactionStyle::Level => {
                let targets = leveled::level_targets(&state.version, &settings);
                leveled::pending_compaction_bytes(&state.version, &settings, &targets)
            }
            _ => 0,
        };
        let count = |number: i32| usize::try_from(number).unwrap_or(0);
        let level0_files = match options.compaction_style {
            CompactionStyle::Universal => universal::run_count(&state.version),
            _ => state.version.levels[0].files.len(),
        };
        let condition = stall::condition(&StallInputs {
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

    /// The oldest log that holds something not yet in tables; `current` is the log being written.
    pub(crate) fn oldest_log_needed(&self, current: FileNumber) -> FileNumber {
        let state = lock(&self.state);
        match state.sealed.first() {
            Some(oldest) => oldest.first_log,
            None if state.active.memtable.is_empty() => current,
            None => state.active.first_log,
        }
    }

    /// The first log needed once the `count` oldest sealed memtables are tables.
    pub(crate) fn first_log_behind(&self, count: usize) -> FileNumber {
        let state = lock(&self.state);
        state.sealed.get(count).unwrap_or(&state.active).first_log
    }

    /// Whether an automatic compaction is due.
    pub(crate) fn is_compaction_due(&self, unix_secs: u64) -> bool {
        self.pick(&lock(&self.state), unix_secs).is_some()
    }

    /// The next automatic compaction, if one is due at `unix_secs`.
    pub(crate) fn pick_compaction(&self, unix_secs: u64) -> Option<CompactionPlan> {
        let state = lock(&self.state);
        let plan = self.pick(&state, unix_secs)?;
        // Marked under the mutex, so that two pickers never take the same file.
        plan.mark(true);
        Some(plan)
    }

    fn pick(&self, state: &FamilyState, unix_secs: u64) -> Option<CompactionPlan> {
        let is_held = self.manual_compactions.load(Ordering::Acquire) > 0;
        if self.is_dropped() || is_held || state.options.disable_auto_compactions {
            return None;
        }
        let settings = pick_settings(&state.options);
        match state.options.compaction_style {
            CompactionStyle::Level => leveled::pick(&state.version, &settings),
            CompactionStyle::Universal => universal::pick(&state.version, &settings),
            CompactionStyle::Fifo => fifo::pick(&state.version, &settings, unix_secs),
            CompactionStyle::None => None,
        }
    }
}

impl std::fmt::Debug for FamilyData {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FamilyData({} {:?})", self.id, self.name)
    }
}
