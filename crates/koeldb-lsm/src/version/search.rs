//! Point reads through the tables of a version: level 0 newest first, then one table per level.
//!
//! Each table of level 0 and each deeper level is one run. A run that suspends is searched again
//! from its start; fully searched runs are then skipped, by the count in the lookup.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use koeldb_base::key::user_key;
use koeldb_base::range_del::RunTombstones;
use koeldb_base::stats::{HistogramKind, Ticker};
use koeldb_base::{Fault, Lookup, Result};
use koeldb_table::cuckoo::level::CuckooLevel;
use koeldb_table::cuckoo::table::CuckooTable;
use koeldb_table::reader::TableReader;
use koeldb_table::source::BlockSource;

use super::version::Version;
use crate::file_meta::FileMeta;
use crate::table_opener::TableOpener;

/// A callback for the events of a batched point read (`MultiGet`) of a version's sorted runs.
pub trait BatchVisitor<S: BlockSource> {
    /// Handles the failure or suspension of lookup number `index`, which is not searched further.
    fn fault(&mut self, index: usize, fault: Fault<S::Suspend>);

    /// Is called after all lookups that are not `done` were searched for in sorted run `run`.
    ///
    /// Implementations may resume suspended lookups, and mark finished ones in `done`.
    fn run_searched(
        &mut self,
        run: usize,
        lookups: &mut [Lookup],
        done: &mut [bool],
        source: &mut S,
    ) {
        let _ = (run, lookups, done, source);
    }
}

/// Returns the counter of the point reads that a table of `level` answers (`GET_HIT_L0`).
fn hit_of(level: usize) -> Ticker {
    match level {
        0 => Ticker::GetHitL0,
        1 => Ticker::GetHitL1,
        _ => Ticker::GetHitL2AndUp,
    }
}

/// A table that a batched point read searches, with its level and sorted run.
#[derive(Clone, Copy)]
struct Visit<'v> {
    file: &'v FileMeta,
    level: usize,
    /// The number of the table's run.
    run: usize,
}

/// Marks as done the lookups whose keys are covered by range tombstones up to run `run`.
fn end_run(run: usize, lookups: &mut [Lookup], done: &mut [bool]) {
    for (lookup, done) in lookups.iter_mut().zip(done) {
        if lookup.is_covered() && !*done {
            lookup.end_run(run);
            *done = true;
        }
    }
}

impl Version {
    /// Whether the user key is within the bounds of `file`.
    #[inline]
    fn covers(&self, file: &FileMeta, user_key: &[u8]) -> bool {
        if self.order.compare(user_key, file.smallest_user_key()) == Ordering::Less {
            return false;
        }
        match self.order.compare(user_key, file.largest_user_key()) {
            Ordering::Less => true,
            Ordering::Equal => !file.largest_is_exclusive(),
            Ordering::Greater => false,
        }
    }

    /// Returns all tables as one cuckoo level; `None` unless all are cuckoo tables of one level.
    ///
    /// That level is below level 0.
    ///
    /// The first call opens every table with the opener that `tables` returns; without one the
    /// result is `None`.
    #[inline]
    pub fn cuckoo<'t>(
        &self,
        tables: impl FnOnce() -> Option<&'t TableOpener>,
    ) -> Option<&CuckooLevel> {
        match self.cuckoo.get() {
            Some(known) => known.as_ref(),
            None => self.find_cuckoo(tables()),
        }
    }

    /// Opens all tables, and caches whether they form a cuckoo level.
    #[cold]
    fn find_cuckoo(&self, tables: Option<&TableOpener>) -> Option<&CuckooLevel> {
        // The level would keep all tables open.
        let Some(tables) = tables.filter(|tables| !tables.is_limited()) else {
            return self.cuckoo.get_or_init(|| None).as_ref();
        };
        let mut parts = Vec::new();
        let deepest = self.deepest_level();
        for (level, file) in self.files() {
            // The read that needs the table meets the error again and reports it.
            let reader = tables.reader(file, level).ok()?;
            match &**reader {
                TableReader::Cuckoo(CuckooTable::Whole(reader))
                    if level == deepest && level > 0 && reader.layout().heap_bytes.is_none() =>
                {
                    parts.push((file.smallest_user_key().to_vec(), Arc::clone(reader)));
                }
                _ => return self.cuckoo.get_or_init(|| None).as_ref(),
            }
        }
        let level = (!parts.is_empty()).then(|| CuckooLevel::new(self.order.clone(), parts));
        self.cuckoo.get_or_init(|| level).as_ref()
    }

    /// Prefetches the first cache lines that a point lookup of `target` reads on the deepest level.
    ///
    /// `target` is an internal key. Most keys of a tree of hash tables are on that level. Tables of
    /// other formats and unopened tables are skipped.
    #[inline]
    pub fn prefetch(&self, target: &[u8]) {
        let deepest = self
            .levels
            .iter()
            .rev()
            .find(|level| !level.files.is_empty());
        if let Some(level) = deepest
            && let Some(file) = level.files.get(level.find(&self.order, target))
            && let Some(reader) = file.reader.get()
        {
            reader.prefetch(user_key(target));
        }
    }

    /// Searches the sorted runs of this version, newest first, until a point lookup is settled.
    ///
    /// Runs are counted from the newest memtable: `runs.start` of them are above this version's,
    /// and no run from `runs.end` on is searched. `found` receives the counter of the level whose
    /// table has the value.
    ///
    /// # Errors
    /// The error of a table; or the suspension of a block source that does not wait.
    #[inline(always)]
    pub fn search<S: BlockSource>(
        &self,
        tables: &TableOpener,
        lookup: &mut Lookup,
        source: &mut S,
        runs: Range<usize>,
        found: impl Fn(Ticker),
    ) -> Result<(), Fault<S::Suspend>> {
        let mut run = runs.start;
        for (level, files) in self.levels.iter().enumerate() {
            if files.files.is_empty() {
                continue;
            }
            if level == 0 {
                for file in &files.files {
                    if run >= runs.end {
                        return Ok(());
                    }
                    if run >= lookup.runs_searched() {
                        if self.covers(file, lookup.user_key()) {
                            tables.search(file, 0, lookup, source)?;
                            if lookup.has_value() {
                                found(hit_of(level));
                            }
                        }
                        lookup.end_run(run);
                        if lookup.is_settled() {
                            return Ok(());
                        }
                    }
                    run += 1;
                }
                continue;
            }
            if run >= runs.end {
                return Ok(());
            }
            if run >= lookup.runs_searched() {
                let mut index = files.find(&self.order, lookup.seek_key());
                while let Some(file) = files.files.get(index)
                    && self.covers(file, lookup.user_key())
                {
                    tables.search(file, level, lookup, source)?;
                    if lookup.has_value() {
                        found(hit_of(level));
                    }
                    // Old writers split the versions of one key across adjacent tables.
                    let last = file.largest_user_key();
                    if lookup.is_settled() || !self.order.equal(lookup.user_key(), last) {
                        break;
                    }
                    index += 1;
                }
                lookup.end_run(run);
                if lookup.is_settled() {
                    return Ok(());
                }
            }
            run += 1;
        }
        Ok(())
    }

    /// Searches for a batch of point lookups, sorted by user key, one table at a time (`MultiGet`).
    ///
    /// `run` is the number of runs above this version's. A lookup's error goes to `batch`, with its
    /// index, and does not affect the others.
    pub fn search_batch<S: BlockSource>(
        &self,
        tables: &TableOpener,
        lookups: &mut [Lookup],
        source: &mut S,
        mut run: usize,
        batch: &mut impl BatchVisitor<S>,
    ) {
        let mut done: Vec<bool> = lookups.iter().map(Lookup::is_settled).collect();
        for (level, files) in self.levels.iter().enumerate() {
            if level == 0 {
                for file in &files.files {
                    let all = 0..lookups.len();
                    let visit = Visit { file, level, run };
                    self.search_table(tables, visit, all, lookups, source, &mut done, batch);
                    end_run(run, lookups, &mut done);
                    batch.run_searched(run, lookups, &mut done, source);
                    run += 1;
                }
                continue;
            }
            if files.files.is_empty() {
                continue;
            }
            let mut from = 0;
            while let Some(lookup) = lookups.get(from) {
                if done[from] {
                    from += 1;
                    continue;
                }
                let mut index = files.find(&self.order, lookup.seek_key());
                let Some(mut file) = files.files.get(index) else {
                    break;
                };
                let behind = lookups[from..].partition_point(|lookup| {
                    self.order
                        .compare_internal(lookup.seek_key(), &file.largest)
                        != Ordering::Greater
                });
                let mut here = from..from + behind.max(1);
                from = here.end;
                loop {
                    let visit = Visit { file, level, run };
                    let range = here.clone();
                    self.search_table(tables, visit, range, lookups, source, &mut done, batch);
                    // Old writers split the versions of one key across adjacent tables.
                    let last = file.largest_user_key();
                    here.start = here.end
                        - (lookups[here.clone()].iter().rev())
                            .take_while(|lookup| self.order.equal(lookup.user_key(), last))
                            .count();
                    index += 1;
                    let undecided = here.clone().any(|index| !done[index]);
                    match files.files.get(index) {
                        Some(next) if undecided && self.covers(next, last) => file = next,
                        _ => break,
                    }
                }
            }
            end_run(run, lookups, &mut done);
            batch.run_searched(run, lookups, &mut done, source);
            run += 1;
        }
    }

    /// Searches one table for the unfinished lookups in `range` whose keys lie within its bounds.
    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of one batch, borrowed apart"
    )]
    fn search_table<S: BlockSource>(
        &self,
        tables: &TableOpener,
        visit: Visit<'_>,
        range: Range<usize>,
        lookups: &mut [Lookup],
        source: &mut S,
        done: &mut [bool],
        batch: &mut impl BatchVisitor<S>,
    ) {
        let Visit { file, level, run } = visit;
        let mut indices = Vec::with_capacity(range.len());
        let mut visitors = Vec::with_capacity(range.len());
        for (index, lookup) in range.clone().zip(&mut lookups[range]) {
            if !done[index] && self.covers(file, lookup.user_key()) {
                if lookup.runs_searched() != run {
                    lookup.begin_run(run);
                }
                indices.push(index);
                visitors.push(lookup);
            }
        }
        if visitors.is_empty() {
            return;
        }
        let reader = match tables.reader(file, level) {
            Ok(reader) => reader,
            Err(error) => {
                for index in indices {
                    done[index] = true;
                    batch.fault(index, Fault::Error(error.clone()));
                }
                return;
            }
        };
        reader.search_batch(&mut visitors, source, |at, outcome| {
            if let Err(fault) = outcome {
                done[indices[at]] = true;
                batch.fault(indices[at], fault);
            }
        });
        if let Some(statistics) = &tables.context().statistics {
            let found = visitors.iter().filter(|lookup| lookup.has_value()).count();
            statistics.add(hit_of(level), found as u64);
            statistics.record(HistogramKind::SstBatchSize, visitors.len() as u64);
        }
        for (index, lookup) in indices.into_iter().zip(visitors) {
            done[index] |= lookup.is_settled();
        }
    }

    /// Returns the range tombstones of each sorted run that has any, with the index of the run.
    ///
    /// Runs are counted from the newest: the tables of level 0, then the other levels that are not
    /// empty. The first call opens every table.
    ///
    /// # Errors
    /// If a table cannot be opened.
    pub fn tombstones(&self, tables: &TableOpener) -> Result<&[(usize, RunTombstones)]> {
        if let Some(known) = self.tombstones.get() {
            return Ok(known);
        }
        let of_file = |file: &FileMeta, level: usize| {
            Ok(match file.tombstones.get() {
                Some(known) => known.clone(),
                None => tables.reader(file, level)?.tombstones().cloned(),
            })
        };
        let level0 = self.levels.first().map_or(&[][..], |level| &level.files);
        let alone = level0.iter().map(|file| (0, std::slice::from_ref(file)));
        let levels = self.levels.iter().enumerate().skip(1);
        let levels = levels.map(|(number, level)| (number, &level.files[..]));
        let mut found = Vec::new();
        let is_run = |(_, files): &(usize, &[Arc<FileMeta>])| !files.is_empty();
        for (run, (level, files)) in alone.chain(levels).filter(is_run).enumerate() {
            let lists: Vec<_> = files
                .iter()
                .filter_map(|file| of_file(file, level).transpose())
                .collect::<Result<_>>()?;
            found.extend(RunTombstones::new(lists).map(|tombstones| (run, tombstones)));
        }
        Ok(self.tombstones.get_or_init(|| found))
    }
}
