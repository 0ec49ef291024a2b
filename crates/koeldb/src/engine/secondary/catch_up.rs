//! Catch-up of a secondary with its primary: see the steps in [`crate::engine::secondary`].

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use koeldb_base::file_name::FileNumber;
use koeldb_base::sync::lock_plain as lock;
use koeldb_base::{Error, ErrorKind, Result, SeqNo};
use koeldb_lsm::FileMeta;
use koeldb_lsm::current::read_identity;
use koeldb_lsm::version::{ColumnFamilyVersions, TailedState};

use super::logs::{OpenedLog, Target, are_removed, oldest_needed, open_logs};
use super::{CatchUpReport, Secondary, State};
use crate::commit::prepared::PreparedTransactions;
use crate::commit::protocol::CommitPipeline;
use crate::state::column_family_data::ColumnFamilyData;
use crate::tree::{TableToOpen, new_family, open_tables};

/// A state of the primary whose tables and logs are open, but whose logs are not yet replayed.
struct Staged {
    state: TailedState,
    families: BTreeMap<u32, Target>,
    logs: Vec<OpenedLog>,
}

impl Secondary {
    /// Catches up with the primary: applies new version edits, then replays new log records.
    pub(super) fn follow(
        &self,
        owners: &CommitPipeline,
        prepared: &PreparedTransactions,
    ) -> Result<CatchUpReport> {
        let mut state = lock(&self.state);
        if let Some(error) = &state.replaced {
            return Err(error.clone());
        }
        if let Some(id) = read_identity(&*owners.context.fs, &owners.context.path)?
            && id != owners.context.identity
        {
            return Err(state.replaced(owners, &format!("the id is {id}")));
        }
        state.tail.read()?;
        let mut attempt = 0;
        let (staged, seqno) = loop {
            let staged = self.stage(owners, &mut state);
            let is_retried = |error: &Error| error.is_path_not_found() || is_try_again(error);
            // The primary may have removed files of this state; no later state names them.
            let changed = state.tail.read()? > 0;
            let failure = match staged {
                Ok(_) if changed => None,
                Ok(staged) => {
                    let applied = apply(owners, &mut state, &staged);
                    match applied {
                        // A removed log may be written anew for another number while it is read.
                        _ if are_removed(&*owners.context.fs, &staged.logs)? => None,
                        Err(error) if state.logs.is_worth_rereading(&error) => Some(error),
                        applied => break (staged, applied?),
                    }
                }
                Err(error) if is_retried(&error) => Some(error),
                Err(error) => return Err(error),
            };
            if attempt >= self.options.retries {
                if let Some(error) = failure
                    && !changed
                {
                    return Err(error);
                }
                return Err(Error::with_kind(
                    ErrorKind::TryAgain,
                    format!(
                        "{}: the primary removed files repeatedly while they were opened: try again",
                        owners.context.path.display()
                    ),
                ));
            }
            attempt += 1;
            owners.context.clock.sleep(self.options.retry_wait);
        };
        let (before, now) = (state.installed, state.position());
        if before != Some(now) {
            self.install(owners, &mut state, &staged, seqno)?;
            prepared.follow(state.logs.undecided());
        }
        let same_manifest = before.filter(|before| before.manifest == now.manifest);
        Ok(CatchUpReport {
            sequence_number: seqno,
            edits: (now.edits).saturating_sub(same_manifest.map_or(0, |before| before.edits)),
            batches: now.batches - before.map_or(0, |before| before.batches),
        })
    }

    /// Opens the tables and logs that the state last read from the primary's MANIFEST needs.
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
                    format!("log {current:06} is needed, but was removed"),
                ));
            }
        }
        Ok(Staged {
            state: recorded,
            families,
            logs,
        })
    }

    /// Returns or creates the column family of a MANIFEST entry; `None` if it is not to be opened.
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

    /// Hard-links and opens those files of a MANIFEST state that are not open yet.
    fn open_tables(
        &self,
        owners: &CommitPipeline,
        state: &mut State,
        recorded: &TailedState,
        families: &BTreeMap<u32, Target>,
    ) -> Result<()> {
        let mut tables: Vec<TableToOpen> = Vec::new();
        let mut blob_files = Vec::new();
        let mut sources = Vec::new();
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
            // The files of the secondary are its links.
            let context = &owners.context;
            let options = target.data.options();
            let paths = options.data_paths(&*context.fs, &context.path);
            for file in version.blob_files.values() {
                blob_files.push((&target.data.tables, file, paths.clone()));
            }
            sources.resize(tables.len(), paths);
        }
        if let Some(number) = reused_number(state, &tables) {
            let found = format!("table {number:06} is another one");
            return Err(state.replaced(owners, &found));
        }
        if let Some(links) = &self.links {
            for ((_, _, file), paths) in tables.iter().zip(&sources) {
                let source = paths.of_table(file);
                links.link(file.number, &source, &file.drop_hook)?;
            }
            for (_, file, paths) in &blob_files {
                let source = paths.blob(file.number);
                links.link(file.number, &source, file.reader.drop_hook())?;
            }
        } else {
            for (opener, file, _) in &blob_files {
                opener.keep_blob_file(file)?;
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

    /// Installs the staged versions and memtables in all column families, and publishes `seqno`.
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
        state.installed = Some(state.position());
        Ok(())
    }
}

/// Returns a file number of `tables` that the current view has for another table, if any.
///
/// That reveals a replaced primary, since a primary uses no number twice.
fn reused_number(state: &State, tables: &[TableToOpen]) -> Option<FileNumber> {
    if tables.is_empty() {
        return None;
    }
    let files = state.opened.values().flat_map(|version| version.files());
    let opened: HashMap<FileNumber, _> = files.map(|(_, file)| (file.number, file)).collect();
    let is_other = |file: &&Arc<FileMeta>| {
        let opened = opened.get(&file.number);
        opened
            .is_some_and(|opened| (opened.bytes, opened.unique_id) != (file.bytes, file.unique_id))
    };
    let mut files = tables.iter().map(|(_, _, file)| file);
    files.find(is_other).map(|file| file.number)
}

/// Replays the staged logs into memtables, and returns the last sequence number of the new view.
///
/// Fails with `Aborted` if the logs do not continue the current view.
fn apply(owners: &CommitPipeline, state: &mut State, staged: &Staged) -> Result<SeqNo> {
    let published = owners.visibility.seqno();
    let recorded = staged.state.last_seqno;
    let manifest = state.tail.manifest_number();
    let is_new_manifest = (state.installed).is_some_and(|installed| installed.manifest != manifest);
    // Else the logs may lag behind the MANIFEST, which has the number of unwritten batches.
    let is_behind = is_new_manifest && recorded < published;
    let view = (state.installed).map(|_| if is_behind { published } else { 0 });
    if let Err(error) = state.logs.apply(&staged.logs, &staged.families, view) {
        return Err(match error.kind() {
            ErrorKind::Aborted => state.replaced(owners, &error.to_string()),
            _ => error,
        });
    }
    let newest = recorded.max(state.logs.last_in_current);
    if is_new_manifest && newest < published {
        let found = format!("the sequence number is {newest}, and was {published}");
        return Err(state.replaced(owners, &found));
    }
    Ok(recorded.max(state.logs.last_seqno).max(published))
}

/// Installs the primary's current version, and drops memtables that it covers, in one step.
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

impl State {
    /// Records that the primary was replaced by another database, which fails all later catch-ups.
    ///
    /// Returns the error for this one.
    fn replaced(&mut self, owners: &CommitPipeline, found: &str) -> Error {
        let message = format!(
            "{}: another database, or an earlier state of it, is there now: {found}; open the \
             secondary again",
            owners.context.path.display(),
        );
        let error = Error::with_kind(ErrorKind::Aborted, message);
        self.replaced.insert(error).clone()
    }
}

fn is_try_again(error: &Error) -> bool {
    error.kind() == ErrorKind::TryAgain
}
