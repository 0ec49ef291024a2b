//! Moves the view of a secondary forward: see the steps in [`crate::secondary`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use koeldb_base::sync::lock_plain as lock;
use koeldb_base::{Error, ErrorKind, Result, SeqNo};
use koeldb_lsm::current::read_identity;
use koeldb_lsm::version::{ColumnFamilyVersions, TailedState};

use super::logs::{OpenedLog, Target, oldest_needed, open_logs};
use super::{CatchUpReport, Secondary, State};
use crate::column_family_data::ColumnFamilyData;
use crate::tree::{TableToOpen, new_family, open_tables};
use crate::write::commit::CommitPipeline;

/// A state of the primary whose files are open, before its batches are applied.
struct Staged {
    state: TailedState,
    families: BTreeMap<u32, Target>,
    logs: Vec<OpenedLog>,
}

impl Secondary {
    pub(super) fn follow(&self, owners: &CommitPipeline) -> Result<CatchUpReport> {
        let mut state = lock(&self.state);
        if let Some(id) = read_identity(&*owners.context.fs, &owners.context.path)?
            && id != owners.context.identity
        {
            return Err(replaced(owners, &format!("the id is {id}")));
        }
        let manifest = state.tail.manifest_number();
        let batches = state.logs.batches;
        let mut edits = state.tail.read()?;
        let mut attempt = 0;
        let staged = loop {
            let staged = self.stage(owners, &mut state);
            let is_retried = |error: &Error| error.is_path_not_found() || is_try_again(error);
            if let Err(error) = &staged
                && !is_retried(error)
            {
                break staged?;
            }
            // What the primary removed since is in no later state.
            let more = state.tail.read()?;
            edits += more;
            let changed = more > 0;
            if staged.is_ok() && !changed {
                break staged?;
            }
            if attempt >= self.options.retries {
                if !changed {
                    break staged?;
                }
                return Err(Error::with_kind(
                    ErrorKind::TryAgain,
                    format!(
                        "{}: the primary removes files faster than they can be opened",
                        owners.context.path.display()
                    ),
                ));
            }
            attempt += 1;
            owners.context.clock.sleep(self.options.retry_wait);
        };
        state.logs.apply(&staged.logs, &staged.families)?;
        let is_new_manifest = manifest != state.tail.manifest_number();
        let seqno = self.check_progress(owners, &state, &staged.state, is_new_manifest)?;
        let applied = state.logs.batches - batches;
        if edits > 0 || applied > 0 || seqno > owners.visibility.seqno() || !state.is_installed {
            self.install(owners, &mut state, &staged, seqno)?;
        }
        Ok(CatchUpReport {
            sequence_number: seqno,
            edits,
            batches: applied,
        })
    }

    /// Opens the tables and logs of the state that was read from the MANIFEST.
    fn stage(&self, owners: &CommitPipeline, state: &mut State) -> Result<Staged> {
        let recorded = state.tail.state()?;
        let mut families = BTreeMap::new();
        for (&id, family) in &recorded.families {
            if let Some(data) = self.family(owners, state, family) {
                let log_number = family.log_number();
                families.insert(id, Target { data, log_number });
            }
        }
        self.open_tables(owners, state, &recorded, &families)?;
        let mut logs = Vec::new();
        if self.options.logs {
            let recorded_families = recorded.families.values();
            let log_numbers = recorded_families.map(ColumnFamilyVersions::log_number);
            let oldest = oldest_needed(recorded.min_log_number_to_keep, log_numbers);
            let from = state.logs.read_from(oldest);
            logs = open_logs(&*owners.context.fs, &owners.context.wal_dir, from)?;
            if let Some(current) = state.logs.current()
                && current >= oldest
                && logs.first().is_none_or(|log| log.number != current)
            {
                return Err(Error::with_kind(
                    ErrorKind::TryAgain,
                    format!("log {current:06} is needed and gone"),
                ));
            }
        }
        Ok(Staged {
            state: recorded,
            families,
            logs,
        })
    }

    /// Returns the column family, created if it is new; `None` if it is not opened.
    fn family(
        &self,
        owners: &CommitPipeline,
        state: &mut State,
        family: &ColumnFamilyVersions,
    ) -> Option<Arc<ColumnFamilyData>> {
        let id = family.id();
        if let Some(data) = owners.families.by_id().get(&id) {
            return Some(Arc::clone(data));
        }
        if let Some(data) = state.fresh.get(&id) {
            return Some(Arc::clone(data));
        }
        let options = self.named.get(family.name()).or(self.others.as_ref())?;
        let (files, log) = (&owners.context.table_files, family.log_number());
        let data = Arc::new(new_family(family, options.clone(), files, log));
        state.fresh.insert(id, Arc::clone(&data));
        Some(data)
    }

    /// Links and opens the tables of a state that are not open yet.
    fn open_tables(
        &self,
        owners: &CommitPipeline,
        state: &mut State,
        recorded: &TailedState,
        families: &BTreeMap<u32, Target>,
    ) -> Result<()> {
        let mut tables: Vec<TableToOpen> = Vec::new();
        for (id, target) in families {
            let Some(version) = recorded.families.get(id).map(ColumnFamilyVersions::current) else {
                continue;
            };
            if state
                .opened
                .get(id)
                .is_some_and(|opened| Arc::ptr_eq(opened, version))
            {
                continue;
            }
            for (level, file) in version.files() {
                tables.push((Arc::clone(&target.data.tables), level, Arc::clone(file)));
            }
        }
        if let Some(links) = &self.links {
            for (_, _, file) in &tables {
                links.link(file)?;
            }
        }
        tables.retain(|(_, _, file)| !file.was_opened());
        let threads = owners.context.db_options.max_file_opening_threads;
        open_tables(&tables, usize::try_from(threads).unwrap_or(1))?;
        state.opened = (recorded.families.iter())
            .map(|(&id, family)| (id, Arc::clone(family.current())))
            .collect();
        Ok(())
    }

    /// Returns the sequence number of the staged state, if it continues the view.
    fn check_progress(
        &self,
        owners: &CommitPipeline,
        state: &State,
        recorded: &TailedState,
        is_new_manifest: bool,
    ) -> Result<SeqNo> {
        let published = owners.visibility.seqno();
        let seqno = recorded.last_seqno.max(state.logs.last_seqno);
        let newest = recorded.last_seqno.max(state.logs.last_in_current);
        if is_new_manifest && newest < published {
            let found = format!("the sequence number is {newest}, and was {published}");
            return Err(replaced(owners, &found));
        }
        Ok(seqno.max(published))
    }

    fn install(
        &self,
        owners: &CommitPipeline,
        state: &mut State,
        staged: &Staged,
        seqno: SeqNo,
    ) -> Result<()> {
        let _view = lock(&self.view);
        owners.tree.versions().follow(&state.tail)?;
        owners.visibility.publish(seqno);
        for (id, target) in &staged.families {
            if let Some(family) = staged.state.families.get(id) {
                install_family(&target.data, family, seqno);
            }
            if state.fresh.remove(id).is_some() {
                owners.families.insert(&target.data);
            }
        }
        for family in owners.families.all() {
            if !staged.families.contains_key(&family.id) {
                family.dropped.store(true, Ordering::Release);
                owners.families.remove(family.id);
            }
        }
        state.fresh.clear();
        state.is_installed = true;
        Ok(())
    }
}

/// Installs a version with the memtables that it does not cover, as one state.
fn install_family(data: &ColumnFamilyData, family: &ColumnFamilyVersions, seqno: SeqNo) {
    let log = family.log_number();
    data.install_view(|state| {
        state.version = Arc::clone(family.current());
        state.seqno_max = seqno;
        state.sealed.retain(|sealed| sealed.first_log >= log);
        if state.active.first_log < log {
            let mut next = data.maker.make(&data.order, &state.options);
            next.first_log = log;
            next.activate();
            state.active = next;
        }
    });
}

fn replaced(owners: &CommitPipeline, found: &str) -> Error {
    Error::with_kind(
        ErrorKind::Aborted,
        format!(
            "{}: another database, or an earlier state of it, is there now: {found}; open the \
             secondary again",
            owners.context.path.display(),
        ),
    )
}

fn is_try_again(error: &Error) -> bool {
    error.kind() == ErrorKind::TryAgain
}
