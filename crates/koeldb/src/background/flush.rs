//! Flushes: sealed memtables become tables of level 0.

use std::sync::Arc;
use std::time::Duration;

use koeldb_base::error::Severity;
use koeldb_base::stats::{HistogramKind, Ticker};
use koeldb_base::{Error, ErrorKind, Result};
use koeldb_lsm::FileMeta;
use koeldb_lsm::version::{VersionEdit, VersionSet};
use koeldb_table::builder::TableReason;

use crate::family::{FamilyData, FamilyState};
use crate::inner::DbInner;
use crate::listener::{Event, FlushJobInfo};
use crate::options::FlushOptions;
use crate::super_version::lock;

impl DbInner {
    /// A family whose sealed memtables should be flushed now.
    pub(super) fn flush_due(&self) -> Option<Arc<FamilyData>> {
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
        let flush = self.factory.flush(
            family,
            taken,
            &self.snapshots.all(),
            epoch,
            TableReason::Flush,
        )?;
        let file = flush.file.map(Arc::new);
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
        self.tell_fallbacks(family, flush.fallback);
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
    pub(super) fn discard<'f>(&self, files: impl IntoIterator<Item = &'f Arc<FileMeta>>) {
        for file in files {
            // What cannot be removed now is an orphan that the next open removes.
            let path = koeldb_base::file_name::table(self.factory.directory(), file.number);
            let _ = self.fs.remove_file(&path);
        }
    }

    /// Logs an edit of one family and makes its version the current one, together with what `change` does; `false` if the
    /// family was dropped meanwhile, and nothing was done.
    pub(super) fn log_edit(
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
}

fn dropped(family: &FamilyData) -> Error {
    Error::with_kind(
        ErrorKind::ColumnFamilyDropped,
        format!("column family {:?} was dropped", family.name),
    )
}
