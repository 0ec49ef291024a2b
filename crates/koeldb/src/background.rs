//! Flushes and compactions: when they are due, in which thread, and how their result is installed.
//!
//! Work is scheduled after whatever may have made some due, by [`DbInner::schedule`]; it is cheap and may be called
//! from anywhere. At most as many jobs run as the options allow; a job that ends schedules again. Jobs hold no lock
//! while they read and write tables. Their edits are logged under the version set's mutex and installed before it is
//! let go, so families see versions in the order the MANIFEST does.

use std::ops::Bound;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use koeldb_base::error::{ErrorDetail, Severity};
use koeldb_base::file_name::FileNumber;
use koeldb_base::stats::{HistogramKind, Ticker};
use koeldb_base::{Error, ErrorKind, Result};
use koeldb_fs::Purpose;
use koeldb_lsm::job::{CompactionFilterContext, CompactionJob, OutputSpec};
use koeldb_lsm::pick::{self, CompactionPlan, CompactionReason, leveled, universal};
use koeldb_lsm::version::{VersionEdit, VersionSet};
use koeldb_lsm::{FileMeta, Version};
use koeldb_table::builder::TableReason;
use koeldb_table::source::{BlockReadOptions, BlockingSource};

use crate::db::DbInner;
use crate::env::JobPriority;
use crate::family::{FamilyData, FamilyState};
use crate::listener::{CompactionJobInfo, Event, FlushJobInfo};
use crate::options::{
    BottommostLevelCompaction, ColumnFamilyOptions, CompactRangeOptions, CompactionStyle,
    FlushOptions, sanitize,
};
use crate::read::KeyBounds;
use crate::super_version::lock;
use crate::tables::{Place, pick_settings};

#[derive(Debug, Default)]
struct Running {
    flushes: u32,
    compactions: u32,
    /// Calls of users that change the directory.
    foreground: u32,
    shut_down: bool,
}

#[derive(Clone, Copy, Debug)]
enum SlotKind {
    Flush,
    Compaction,
    Foreground,
}

/// A piece of work that is counted while it runs, however it ends.
#[derive(Debug)]
pub(crate) struct Slot<'b> {
    background: &'b Background,
    kind: SlotKind,
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let mut running = lock(&self.background.running);
        match self.kind {
            SlotKind::Flush => running.flushes -= 1,
            SlotKind::Compaction => running.compactions -= 1,
            SlotKind::Foreground => running.foreground -= 1,
        }
        drop(running);
        self.background.changed.notify_all();
    }
}

/// What is running in the background.
#[derive(Debug, Default)]
pub(crate) struct Background {
    running: Mutex<Running>,
    changed: Condvar,
    pub(crate) cancelled: AtomicBool,
}

impl Background {
    /// Wakes everybody who waits for background work.
    pub(crate) fn notify(&self) {
        drop(lock(&self.running));
        self.changed.notify_all();
    }

    fn wait<'a>(
        &self,
        running: MutexGuard<'a, Running>,
        limit: Duration,
    ) -> MutexGuard<'a, Running> {
        let waited = self.changed.wait_timeout(running, limit);
        waited.unwrap_or_else(std::sync::PoisonError::into_inner).0
    }

    /// Starts nothing any more, gives running compactions up, and waits for what runs.
    pub(crate) fn shut_down(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
        let mut running = lock(&self.running);
        running.shut_down = true;
        while running.flushes + running.compactions + running.foreground > 0 {
            running = self.wait(running, Duration::from_millis(100));
        }
    }

    /// Registers a call that changes the directory; a close waits for it.
    pub(crate) fn enter(&self) -> Result<Slot<'_>> {
        let mut running = lock(&self.running);
        if running.shut_down {
            return Err(Error::with_kind(
                ErrorKind::ShutdownInProgress,
                "the database is closed",
            ));
        }
        running.foreground += 1;
        Ok(Slot {
            background: self,
            kind: SlotKind::Foreground,
        })
    }

    pub(crate) fn counts(&self) -> (u32, u32) {
        let running = lock(&self.running);
        (running.flushes, running.compactions)
    }
}

impl DbInner {
    fn slots(&self) -> (u32, u32) {
        sanitize::background_slots(&self.mutable_options())
    }

    /// Starts what background work is due and has a slot.
    pub(crate) fn schedule(self: &Arc<Self>) {
        if self.is_closing() || self.read_only || self.failure().is_some() {
            return;
        }
        let (flush_slots, compaction_slots) = self.slots();
        let mut running = lock(&self.background.running);
        if running.shut_down {
            return;
        }
        if running.flushes < flush_slots && self.flush_due().is_some() {
            running.flushes += 1;
            let inner = Arc::clone(self);
            self.env
                .pool
                .submit(JobPriority::High, move || inner.run_flush());
        }
        if running.compactions < compaction_slots && self.compaction_may_be_due() {
            running.compactions += 1;
            let inner = Arc::clone(self);
            self.env
                .pool
                .submit(JobPriority::Low, move || inner.run_compaction());
        }
    }

    /// Whether some family has something to compact; looked at without marking anything.
    fn compaction_may_be_due(&self) -> bool {
        self.all_families()
            .iter()
            .any(|family| family.is_compaction_due(self.factory.unix_secs()))
    }

    fn run_flush(self: &Arc<Self>) {
        let slot = Slot {
            background: &self.background,
            kind: SlotKind::Flush,
        };
        let mut progress = false;
        while !self.background.cancelled.load(Ordering::Relaxed) {
            let Some(family) = self.flush_due() else {
                break;
            };
            match self.flush_sealed(&family) {
                Ok(done) => progress |= done,
                Err(error) => {
                    self.background_error("flush", error);
                    break;
                }
            }
        }
        self.report_failures();
        self.announce_stall();
        drop(slot);
        if progress {
            self.schedule();
        }
    }

    fn run_compaction(self: &Arc<Self>) {
        let slot = Slot {
            background: &self.background,
            kind: SlotKind::Compaction,
        };
        let mut picked = false;
        if !self.background.cancelled.load(Ordering::Relaxed) && self.failure().is_none() {
            let now = self.factory.unix_secs();
            for family in self.all_families() {
                let Some(plan) = family.pick_compaction(now) else {
                    continue;
                };
                picked = true;
                // More may be due beside this one.
                self.schedule();
                if let Err(error) = self.compact(&family, plan) {
                    self.compaction_failed(error);
                }
                break;
            }
        }
        self.report_failures();
        self.announce_stall();
        drop(slot);
        if picked {
            self.schedule();
        }
    }

    /// A compaction that was given up is nothing; any other failure stops writes.
    fn compaction_failed(&self, error: Error) {
        let is_given_up = error.kind() == ErrorKind::Aborted && error.severity() == Severity::None;
        if !is_given_up {
            self.background_error("compaction", error);
        }
    }

    /// Runs a job; a panic in it becomes a fatal error.
    fn guarded<R>(&self, job: impl FnOnce() -> Result<R>) -> Result<R> {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)).unwrap_or_else(|panic| {
            let what = panic
                .downcast_ref::<&str>()
                .map(|text| (*text).to_owned())
                .or_else(|| panic.downcast_ref::<String>().cloned())
                .unwrap_or_else(|| "no message".to_owned());
            Err(Error::with_kind(
                ErrorKind::Aborted,
                format!("a background job panicked: {what}"),
            )
            .with_detail(ErrorDetail::PluginPanicked)
            .with_severity(Severity::Fatal))
        })
    }

    /// What a failed background job means for writes (`docs/reliability.md`, background-error states).
    fn background_error(&self, what: &str, error: Error) {
        let severity = match error.kind() {
            _ if error.severity() > Severity::None => error.severity(),
            ErrorKind::Corruption => Severity::Unrecoverable,
            _ if error.detail() == Some(ErrorDetail::NoSpace) => Severity::Hard,
            _ => Severity::Fatal,
        };
        self.fail_writes(error.context(what).with_severity(severity));
    }

    // Flushes.

    /// A family whose sealed memtables should be flushed now.
    fn flush_due(&self) -> Option<Arc<FamilyData>> {
        self.all_families().into_iter().find(|family| {
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

    /// Flushes all sealed memtables of `family`; `false` if there are none, or a flush of it runs.
    pub(crate) fn flush_sealed(self: &Arc<Self>, family: &Arc<FamilyData>) -> Result<bool> {
        let taken = family.note(|state| {
            if state.flushing > 0 || state.sealed.is_empty() {
                return Vec::new();
            }
            state.flushing = state.sealed.len();
            state.flush_requested = false;
            state
                .sealed
                .iter()
                .map(|sealed| Arc::clone(&sealed.memtable))
                .collect()
        });
        if taken.is_empty() {
            return Ok(false);
        }
        let outcome = self.guarded(|| self.flush_memtables(family, &taken));
        if outcome.is_err() {
            family.note(|state| state.flushing = 0);
        }
        self.background.notify();
        outcome.map(|()| true)
    }

    /// Flushes everything sealed of `family`, also what somebody else has begun to flush.
    pub(crate) fn flush_to_the_end(self: &Arc<Self>, family: &Arc<FamilyData>) -> Result<()> {
        while family.read(|state| !state.sealed.is_empty()) {
            if family.is_dropped() {
                return Ok(());
            }
            if !self.flush_sealed(family)? {
                let running = lock(&self.background.running);
                drop(self.background.wait(running, Duration::from_millis(10)));
            }
        }
        Ok(())
    }

    fn flush_memtables(
        self: &Arc<Self>,
        family: &Arc<FamilyData>,
        taken: &[Arc<koeldb_memtable::Memtable>],
    ) -> Result<()> {
        let begun = self.clock.now();
        let epoch = family.epochs.next();
        let (file, _) = self.factory.flush(
            family,
            taken,
            &self.snapshots.all(),
            epoch,
            TableReason::Flush,
        )?;
        let file = file.map(Arc::new);
        // Before a flush is recorded while several families share logs, the logs behind it are made durable: otherwise
        // a power cut could leave one family ahead of the others (O7).
        if self.all_families().len() > 1 {
            self.sync_closed_logs().map_err(|error| {
                self.fail_writes(
                    error
                        .context("syncing closed logs")
                        .with_severity(Severity::Hard),
                )
            })?;
        }
        let is_installed = {
            let mut versions = lock(&self.versions);
            let mut edit = VersionEdit::of(family.id);
            edit.log_number = Some(family.first_log_behind(taken.len()));
            edit.added_files
                .extend(file.iter().map(|file| (0, Arc::clone(file))));
            self.note_empty_families(&mut versions);
            self.log_edit(&mut versions, family, edit, |state| {
                state.sealed.drain(..taken.len());
                state.flushing = 0;
            })?
        };
        if !is_installed {
            family.change(self.delayed_write_rate(), |state| {
                state.sealed.drain(..taken.len());
                state.flushing = 0;
            });
            self.discard(file.iter());
            return Ok(());
        }
        self.update_stall();
        let bytes = file.as_ref().map_or(0, |file| file.bytes);
        self.count(Ticker::FlushWriteBytes, bytes);
        self.record_elapsed(HistogramKind::FlushTime, begun);
        let info = FlushJobInfo {
            column_family: family.name.clone(),
            file: file.as_ref().map(|file| file.number),
            bytes,
            elapsed: self.clock.now().saturating_sub(begun),
        };
        self.info_log.info(format_args!(
            "[{}] flushed {} memtables to table {:?}: {bytes} bytes in {:?}",
            family.name,
            taken.len(),
            info.file,
            info.elapsed
        ));
        self.notify(&Event::FlushCompleted(&info));
        self.remove_obsolete_files();
        self.schedule();
        Ok(())
    }

    /// Removes tables that did not become part of any version.
    fn discard<'f>(&self, files: impl IntoIterator<Item = &'f Arc<FileMeta>>) {
        for file in files {
            // What cannot be removed now is an orphan that the next open removes.
            let path = koeldb_base::file_name::table(self.factory.directory(), file.number);
            let _ = self.fs.remove_file(&path);
        }
    }

    /// Logs an edit of one family and makes its version the current one, together with what `change` does; `false` if the
    /// family was dropped meanwhile, and nothing was done.
    fn log_edit(
        &self,
        versions: &mut VersionSet,
        family: &FamilyData,
        edit: VersionEdit,
        change: impl FnOnce(&mut FamilyState),
    ) -> Result<bool> {
        if versions.family(family.id).is_none() {
            return Ok(false);
        }
        versions.raise_last_seqno(self.visible_seqno());
        let installed = versions
            .log_and_apply(vec![edit])
            .map_err(|error| self.manifest_failed(error))?;
        if let Some((_, version)) = installed.into_iter().next() {
            family.change(self.delayed_write_rate(), |state| {
                state.version = version;
                change(state);
            });
        }
        Ok(true)
    }

    /// Families without unflushed data need no log before the current one.
    fn note_empty_families(&self, versions: &mut koeldb_lsm::version::VersionSet) {
        for family in self.all_families() {
            let first = family.read(|state| {
                (state.sealed.is_empty() && state.active.memtable.is_empty())
                    .then_some(state.active.first_log)
            });
            if let Some(first) = first {
                versions.advance_log_number(family.id, first);
            }
        }
    }

    /// Seals the memtables of `families` and, if asked, waits until they are tables.
    pub(crate) fn flush_families(
        self: &Arc<Self>,
        families: &[Arc<FamilyData>],
        options: &FlushOptions,
    ) -> Result<()> {
        self.check_writable()?;
        let _foreground = self.background.enter()?;
        {
            let mut leadership = self.queue.lead();
            for family in families {
                if family.is_dropped() {
                    continue;
                }
                let Some(index) = leadership.commit.position_of(family.id) else {
                    continue;
                };
                if !leadership.commit.families[index].memtable.is_empty() {
                    self.switch_memtable(&mut leadership.commit, index)?;
                }
                family.note(|state| state.flush_requested = !state.sealed.is_empty());
            }
        }
        self.schedule();
        if !options.wait {
            return Ok(());
        }
        for family in families {
            let target = family.read(|state| {
                state
                    .sealed
                    .last()
                    .map(|sealed| Arc::clone(&sealed.memtable))
            });
            let Some(target) = target else { continue };
            self.wait_while(|| {
                if family.is_dropped() {
                    return Err(dropped(family));
                }
                Ok(family.read(|state| {
                    let mut sealed = state.sealed.iter();
                    sealed.any(|sealed| Arc::ptr_eq(&sealed.memtable, &target))
                }))
            })?;
        }
        Ok(())
    }

    /// At close: what no log has must become tables.
    pub(crate) fn flush_unlogged(self: &Arc<Self>) -> Result<()> {
        if self.mutable_options().avoid_flush_during_shutdown {
            return Ok(());
        }
        let unlogged: Vec<Arc<FamilyData>> = {
            let mut leadership = self.queue.lead();
            let commit = &mut *leadership.commit;
            if !commit.has_unlogged {
                return Ok(());
            }
            let mut unlogged = Vec::new();
            for index in 0..commit.families.len() {
                if !commit.families[index].memtable.is_empty() {
                    self.switch_memtable(commit, index)?;
                }
                unlogged.push(Arc::clone(&commit.families[index].family));
            }
            unlogged
        };
        for family in unlogged {
            self.flush_to_the_end(&family)?;
        }
        Ok(())
    }

    /// Waits while `condition` holds, or until writes are refused or the database closes.
    fn wait_while(self: &Arc<Self>, condition: impl Fn() -> Result<bool>) -> Result<()> {
        while condition()? {
            if let Some(failure) = self.failure() {
                return Err(failure);
            }
            self.check_open()?;
            self.schedule();
            let running = lock(&self.background.running);
            if condition()? {
                drop(self.background.wait(running, Duration::from_millis(50)));
            }
        }
        Ok(())
    }

    /// Waits until nothing is running and nothing is due.
    pub(crate) fn wait_for_compact(self: &Arc<Self>, timeout: Option<Duration>) -> Result<()> {
        let deadline = timeout.map(|timeout| self.clock.now() + timeout);
        loop {
            self.check_open()?;
            if let Some(failure) = self.failure() {
                return Err(failure);
            }
            self.schedule();
            let running = lock(&self.background.running);
            if running.flushes + running.compactions == 0
                && self.flush_due().is_none()
                && !self.compaction_may_be_due()
            {
                return Ok(());
            }
            if deadline.is_some_and(|deadline| self.clock.now() >= deadline) {
                return Err(Error::with_kind(
                    ErrorKind::TimedOut,
                    "background work goes on",
                ));
            }
            drop(self.background.wait(running, Duration::from_millis(20)));
        }
    }

    // Compactions.

    /// Runs a plan whose inputs are marked, unmarks them, and removes those that nobody reads any more.
    fn compact(
        self: &Arc<Self>,
        family: &Arc<FamilyData>,
        plan: CompactionPlan,
    ) -> Result<Vec<Arc<FileMeta>>> {
        let outcome = self.guarded(|| self.try_compact(family, &plan));
        plan.mark(false);
        drop(plan);
        self.background.notify();
        let files = outcome?;
        self.update_stall();
        self.remove_obsolete_files();
        Ok(files)
    }

    fn try_compact(
        self: &Arc<Self>,
        family: &Arc<FamilyData>,
        plan: &CompactionPlan,
    ) -> Result<Vec<Arc<FileMeta>>> {
        let begun = self.clock.now();
        let mut edit = VersionEdit::of(family.id);
        edit.deleted_files = plan
            .files()
            .map(|(level, file)| (level, file.number))
            .collect();
        let mut output_bytes = 0;
        if plan.trivial_move {
            edit.added_files = plan
                .files()
                .map(|(_, file)| (plan.output_level, Arc::clone(file)))
                .collect();
        } else if !plan.deletion_only {
            let files = self.merge_tables(family, plan)?;
            output_bytes = files.iter().map(|file| file.bytes).sum();
            edit.added_files = files
                .into_iter()
                .map(|file| (plan.output_level, Arc::new(file)))
                .collect();
        }
        let outputs: Vec<Arc<FileMeta>> = edit
            .added_files
            .iter()
            .map(|(_, file)| Arc::clone(file))
            .collect();
        let is_installed = {
            let mut versions = lock(&self.versions);
            self.log_edit(&mut versions, family, edit, |_| ())?
        };
        if !is_installed {
            if !plan.trivial_move {
                self.discard(&outputs);
            }
            return Err(Error::with_kind(
                ErrorKind::Aborted,
                "the column family was dropped",
            ));
        }
        if !plan.trivial_move {
            self.purge.retire(plan.files().map(|(_, file)| file));
        }
        self.count(
            Ticker::CompactReadBytes,
            if plan.trivial_move {
                0
            } else {
                plan.input_bytes()
            },
        );
        self.count(Ticker::CompactWriteBytes, output_bytes);
        self.record_elapsed(HistogramKind::CompactionTime, begun);
        let info = CompactionJobInfo {
            column_family: family.name.clone(),
            reason: plan.reason,
            inputs: plan
                .files()
                .map(|(level, file)| (level, file.number))
                .collect(),
            outputs: outputs.iter().map(|file| file.number).collect(),
            output_level: plan.output_level,
            input_bytes: plan.input_bytes(),
            output_bytes,
            elapsed: self.clock.now().saturating_sub(begun),
        };
        self.info_log.info(format_args!(
            "[{}] compacted {} files, {} bytes, to {} files, {} bytes, on level {} in {:?} ({:?})",
            family.name,
            info.inputs.len(),
            info.input_bytes,
            info.outputs.len(),
            output_bytes,
            info.output_level,
            info.elapsed,
            info.reason
        ));
        self.notify(&Event::CompactionCompleted(&info));
        // What was moved was not made by this compaction.
        Ok(if plan.trivial_move {
            Vec::new()
        } else {
            outputs
        })
    }

    fn merge_tables(
        &self,
        family: &Arc<FamilyData>,
        plan: &CompactionPlan,
    ) -> Result<Vec<FileMeta>> {
        let options = family.options();
        let version = family.version();
        let settings = pick_settings(&options);
        let base_level = leveled::level_targets(&version, &settings).base_level;
        let level = |level: usize| u32::try_from(level).unwrap_or(u32::MAX);
        // After the plan was made, so that every snapshot that could see an input is in the list.
        let snapshots = self.snapshots.all();
        let context = self.factory.build_context(
            family,
            &options,
            Place {
                level: level(plan.output_level),
                base_level: level(base_level),
                bottommost: plan.bottommost,
                reason: TableReason::Compaction,
                target_file_bytes: plan.target_file_bytes,
            },
        );
        let readahead = self.mutable_options().compaction_readahead_size;
        let source = BlockingSource::new(BlockReadOptions {
            fill_cache: false,
            readahead_bytes: readahead,
            ..BlockReadOptions::default()
        });
        let filter_context = CompactionFilterContext::new(
            plan.bottommost,
            plan.reason == CompactionReason::ManualCompaction,
            family.id,
            level(plan.output_level),
        );
        let next_file_number = || -> FileNumber { self.factory.numbers.next() };
        let epoch = plan
            .files()
            .map(|(_, file)| file.epoch)
            .filter(|&epoch| epoch > 0)
            .min()
            .unwrap_or(0);
        let job = CompactionJob {
            plan,
            version: &version,
            tables: &family.tables,
            source,
            snapshots: snapshots.clone(),
            merge_operator: options.merge_operator.as_deref(),
            filter: self
                .plugins
                .compaction_filter_factory
                .as_ref()
                .and_then(|factory| factory.create(&filter_context)),
            output: OutputSpec {
                fs: &*self.fs,
                directory: self.factory.directory(),
                write_options: self.factory.write_options(Purpose::Compaction),
                context,
                next_file_number: &next_file_number,
                target_file_bytes: plan.target_file_bytes,
                grandparents: &plan.grandparents,
                max_grandparent_bytes: plan.max_grandparent_bytes,
                snapshots: &snapshots,
                bottommost: plan.bottommost,
                epoch,
            },
            cancelled: &self.background.cancelled,
            verify_record_count: self.db_options.compaction_verify_record_count,
        };
        let result = job.run()?;
        self.count(Ticker::CompactionKeyDropNewerEntry, result.drops.hidden);
        self.count(Ticker::CompactionKeyDropObsolete, result.drops.obsolete);
        self.count(
            Ticker::CompactionKeyDropRangeDel,
            result.drops.range_deleted,
        );
        self.count(Ticker::CompactionKeyDropUser, result.drops.filtered);
        Ok(result.files)
    }

    /// Compacts `bounds` of `family`, level by level, down to the last level in use.
    pub(crate) fn compact_range(
        self: &Arc<Self>,
        family: &Arc<FamilyData>,
        bounds: &KeyBounds,
        options: &CompactRangeOptions,
    ) -> Result<()> {
        self.flush_families(std::slice::from_ref(family), &FlushOptions::new())?;
        let _foreground = self.background.enter()?;
        family.manual_compactions.fetch_add(1, Ordering::AcqRel);
        let outcome = self.compact_range_exclusively(family, bounds, options);
        family.manual_compactions.fetch_sub(1, Ordering::AcqRel);
        self.schedule();
        outcome
    }

    fn compact_range_exclusively(
        self: &Arc<Self>,
        family: &Arc<FamilyData>,
        bounds: &KeyBounds,
        options: &CompactRangeOptions,
    ) -> Result<()> {
        let (from, to) = (key_of(&bounds.lower), key_of(&bounds.upper));
        let family_options = family.options();
        match family_options.compaction_style {
            CompactionStyle::Level | CompactionStyle::None => {
                self.compact_levels(family, &family_options, from, to, options)
            }
            CompactionStyle::Universal => {
                let is_bottommost_forced =
                    options.bottommost_level_compaction != BottommostLevelCompaction::Skip;
                self.compact_planned(family, |version, settings| {
                    let is_done = universal::run_count(version) == 1
                        && version.levels[0].files.is_empty()
                        && !is_bottommost_forced;
                    if is_done {
                        None
                    } else {
                        universal::pick_all(version, settings, CompactionReason::ManualCompaction)
                    }
                })?;
                Ok(())
            }
            CompactionStyle::Fifo => {
                self.compact_planned(family, |version, settings| {
                    pick::fifo::pick(version, settings, self.factory.unix_secs())
                })?;
                Ok(())
            }
        }
    }

    fn compact_levels(
        self: &Arc<Self>,
        family: &Arc<FamilyData>,
        family_options: &ColumnFamilyOptions,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
        options: &CompactRangeOptions,
    ) -> Result<()> {
        let (level_count, deepest) = {
            let version = family.version();
            let overlapped = |level: usize| !version.overlapping(level, from, to).is_empty();
            let count = version.levels.len();
            (count, (0..count).rev().find(|&level| overlapped(level)))
        };
        let Some(deepest) = deepest else {
            return Ok(());
        };
        let mut made: Vec<FileNumber> = Vec::new();
        let mut level = 0;
        let settings = pick_settings(family_options);
        while level < deepest.max(1) && level + 1 < level_count {
            let base_level = leveled::level_targets(&family.version(), &settings).base_level;
            let output_level = if level == 0 { base_level } else { level + 1 };
            let files = self.compact_planned(family, |version, settings| {
                let targets = leveled::level_targets(version, settings);
                pick::manual::pick(version, settings, &targets, level, output_level, from, to)
            })?;
            made = files.iter().map(|file| file.number).collect();
            level = output_level;
        }
        let last = family.version().deepest_level();
        let force = match options.bottommost_level_compaction {
            BottommostLevelCompaction::Skip => false,
            BottommostLevelCompaction::IfHaveCompactionFilter => {
                self.plugins.compaction_filter_factory.is_some()
            }
            BottommostLevelCompaction::Force | BottommostLevelCompaction::ForceOptimized => true,
        };
        // The last level is rewritten too, unless this compaction has just written all of it.
        let is_fresh = family
            .version()
            .overlapping(last, from, to)
            .iter()
            .all(|file| made.contains(&file.number));
        let spares_fresh = options.bottommost_level_compaction != BottommostLevelCompaction::Force;
        if force && last > 0 && !(is_fresh && spares_fresh) {
            self.compact_planned(family, |version, settings| {
                let targets = leveled::level_targets(version, settings);
                pick::manual::pick(version, settings, &targets, last, last, from, to)
            })?;
        }
        Ok(())
    }

    /// Waits for the family's running compactions, then runs what `pick` decides on.
    fn compact_planned(
        self: &Arc<Self>,
        family: &Arc<FamilyData>,
        pick: impl Fn(&Version, &pick::PickSettings) -> Option<CompactionPlan>,
    ) -> Result<Vec<Arc<FileMeta>>> {
        let settings = pick_settings(&family.options());
        let plan = loop {
            // Looked at and picked in one step: what another compaction has taken would be missing from the plan.
            let picked = family.read(|state| {
                let is_busy = state
                    .version
                    .files()
                    .any(|(_, file)| file.is_being_compacted());
                (!is_busy).then(|| {
                    let plan = pick(&state.version, &settings);
                    if let Some(plan) = &plan {
                        plan.mark(true);
                    }
                    plan
                })
            });
            if let Some(picked) = picked {
                break picked;
            }
            self.wait_while(|| {
                let version = family.version();
                Ok(version.files().any(|(_, file)| file.is_being_compacted()))
            })?;
        };
        let Some(plan) = plan else {
            return Ok(Vec::new());
        };
        let compacted = self.compact(family, plan);
        if let Err(error) = &compacted {
            self.compaction_failed(error.clone());
            self.report_failures();
        }
        compacted
    }

    /// Compacts the named tables, and what lies between them, into `output_level`.
    pub(crate) fn compact_files(
        self: &Arc<Self>,
        family: &Arc<FamilyData>,
        files: &[PathBuf],
        output_level: usize,
    ) -> Result<Vec<PathBuf>> {
        self.check_writable()?;
        let _foreground = self.background.enter()?;
        let numbers = table_numbers(files)?;
        family.manual_compactions.fetch_add(1, Ordering::AcqRel);
        let made = self.compact_numbers(family, &numbers, output_level);
        family.manual_compactions.fetch_sub(1, Ordering::AcqRel);
        self.schedule();
        let path = |file: &Arc<FileMeta>| {
            koeldb_base::file_name::table(self.factory.directory(), file.number)
        };
        Ok(made?.iter().map(path).collect())
    }

    fn compact_numbers(
        self: &Arc<Self>,
        family: &Arc<FamilyData>,
        numbers: &[FileNumber],
        output_level: usize,
    ) -> Result<Vec<Arc<FileMeta>>> {
        let version = family.version();
        if output_level >= version.levels.len() {
            return Err(Error::invalid_argument(format!(
                "output level {output_level} of column family '{}', which has {} levels",
                family.name,
                version.levels.len()
            )));
        }
        for &number in numbers {
            if !version.files().any(|(_, file)| file.number == number) {
                return Err(Error::invalid_argument(format!(
                    "table {number:06}.sst is not part of column family '{}'",
                    family.name
                )));
            }
        }
        self.compact_planned(family, |version, settings| {
            pick::manual::pick_files(version, settings, numbers, output_level)
        })
    }
}

fn dropped(family: &FamilyData) -> Error {
    Error::with_kind(
        ErrorKind::ColumnFamilyDropped,
        format!("column family {:?} was dropped", family.name),
    )
}

fn key_of(bound: &Bound<Vec<u8>>) -> Option<&[u8]> {
    match bound {
        Bound::Included(key) | Bound::Excluded(key) => Some(key),
        Bound::Unbounded => None,
    }
}

fn table_numbers(files: &[PathBuf]) -> Result<Vec<FileNumber>> {
    files
        .iter()
        .map(|path| {
            let name = path
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            match koeldb_base::file_name::parse(name) {
                Some(koeldb_base::file_name::FileKind::Table(number)) => Ok(number),
                _ => Err(Error::invalid_argument(format!(
                    "{} is not the name of a table",
                    path.display()
                ))),
            }
        })
        .collect()
}
