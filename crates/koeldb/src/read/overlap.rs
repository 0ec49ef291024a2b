//! A batch of point reads with concurrent device reads.
//!
//! The batch visits the runs like one that waits in place, but with a source that does not wait: a
//! lookup that misses a block leaves the batch, and the others continue. The missing blocks are
//! read together, whatever their files and levels. A lookup whose block has arrived resumes alone,
//! from the run where it left the batch, as soon as half of the reads in flight are complete or a
//! moment has passed ([`Gather::settle_some`]); reads of blocks that it then misses start
//! immediately. So a lookup visits runs strictly from newest to oldest, and cannot find anything
//! older than what it could not read: a failed block ends the lookup that needed it.
//!
//! Without a missing block, nothing of this is used. A point read with a time limit is a batch of
//! one.

use std::ops::Range;
use std::time::Duration;

use koeldb_base::stats::HistogramKind;
use koeldb_base::{Error, ErrorKind, Fault, Lookup, PinnedSlice, Result};
use koeldb_fs::read_driver::ReadDriver;
use koeldb_lsm::version::BatchVisitor;
use koeldb_table::gather::Gather;
use koeldb_table::probe::{NeedId, ProbeSource};

use crate::inner::DbInner;
use crate::options::ReadOptions;
use crate::super_version::SuperVersion;

/// The number of lookups probed before reads of missing blocks start.
pub(super) const WINDOW: usize = 128;

/// The number of missing blocks at which a batch releases them before starting more reads.
pub(super) const NEEDS_MAX: usize = 1024;

/// A lookup that waits for a block.
struct SuspendedLookup {
    index: usize,
    need: NeedId,
    /// The number of dependent reads so far, including this one.
    rounds: u64,
}

/// A batch of lookups in key order, and the destination of errors.
pub(super) struct Overlap<'b> {
    db: &'b DbInner,
    super_version: &'b SuperVersion,
    options: &'b ReadOptions,
    answers: &'b mut [Result<Option<PinnedSlice>>],
    /// For each lookup, the index of its result.
    order: &'b [u32],
    /// The deadline of the batch, on the clock of the database.
    deadline: Option<Duration>,
    runs_above: usize,
    /// The index of the first lookup of the window.
    first: usize,
    waits: Vec<SuspendedLookup>,
    gather: Option<Gather<Box<dyn ReadDriver>>>,
    /// The number of dependent rounds of reads.
    rounds: u64,
    /// The number of reads started in each round.
    begun: Vec<u64>,
    /// A bit for each level on which a block was missing.
    levels: u64,
}

impl<'b> Overlap<'b> {
    pub(super) fn new(
        db: &'b DbInner,
        super_version: &'b SuperVersion,
        options: &'b ReadOptions,
        answers: &'b mut [Result<Option<PinnedSlice>>],
        order: &'b [u32],
        deadline: Option<Duration>,
    ) -> Self {
        Overlap {
            db,
            super_version,
            options,
            answers,
            order,
            deadline,
            runs_above: 1 + super_version.sealed.len(),
            first: 0,
            waits: Vec::new(),
            gather: None,
            rounds: 0,
            begun: Vec::new(),
            levels: 0,
        }
    }

    /// Searches the tables for all lookups.
    pub(super) fn search(&mut self, lookups: &mut [Lookup]) {
        let mut source = ProbeSource::new(self.options.block_read_options());
        for first in (0..lookups.len()).step_by(WINDOW) {
            self.first = first;
            let window = first..lookups.len().min(first + WINDOW);
            self.super_version.version.search_batch(
                &self.super_version.tables,
                &mut lookups[window],
                &mut source,
                self.runs_above,
                self,
            );
            if source.needs().is_empty() {
                continue;
            }
            if source.needs().len() > NEEDS_MAX {
                self.settle(lookups, 0, &mut source, self.runs_above..usize::MAX);
                source.needs_mut().clear();
            } else if window_is_not_last(first, lookups.len()) {
                self.begin(&mut source);
            }
        }
        if !source.needs().is_empty() {
            self.settle(lookups, 0, &mut source, self.runs_above..usize::MAX);
        }
    }

    /// Resumes all waiting lookups until none waits.
    ///
    /// `lookups` are those from index `first`; only `runs` are searched.
    #[cold]
    fn settle(
        &mut self,
        lookups: &mut [Lookup],
        first: usize,
        source: &mut ProbeSource,
        runs: Range<usize>,
    ) {
        self.record_levels(lookups, first);
        // The round of each need: those of the probe are of the first.
        let mut rounds_of = vec![1; source.needs().len()];
        let mut most_rounds = 0;
        while !self.waits.is_empty() {
            if self.is_late() {
                self.give_up();
                break;
            }
            self.read_some(source);
            let mut at = 0;
            while let Some(wait) = self.waits.get(at) {
                if !source.needs().is_settled(wait.need) {
                    at += 1;
                    continue;
                }
                let SuspendedLookup { index, rounds, .. } = self.waits.swap_remove(at);
                most_rounds = most_rounds.max(rounds);
                let lookup = &mut lookups[index - first];
                lookup.rewind();
                let tables = &self.super_version.tables;
                let version = &self.super_version.version;
                let searched = version.search(tables, lookup, source, runs.clone());
                rounds_of.resize(source.needs().len(), rounds + 1);
                match searched {
                    Ok(()) => {}
                    Err(Fault::Suspend(need)) => self.waits.push(SuspendedLookup {
                        index,
                        need,
                        rounds: rounds.max(rounds_of[need.index()]),
                    }),
                    Err(Fault::Error(error)) => self.fail(index, error),
                }
            }
        }
        self.rounds += most_rounds;
    }

    /// Starts to read missing blocks, and returns when some have arrived.
    fn read_some(&mut self, source: &mut ProbeSource) {
        let is_idle = self.gather.as_ref().is_none_or(Gather::is_idle);
        if is_idle && self.deadline.is_none() && self.options.io_timeout.is_none() {
            // There is nothing to overlap with.
            if let Some(only) = source.needs_mut().take_only_wanted() {
                return source.read_in_place(only);
            }
        }
        self.begin(source);
        let clock = self.db.async_reads.clock();
        if let Some(gather) = &mut self.gather {
            gather.settle_some(source.needs_mut(), self.deadline, || clock.now());
        }
    }

    /// Starts to read missing blocks.
    fn begin(&mut self, source: &mut ProbeSource) {
        if !source.needs().has_wanted() {
            return;
        }
        let reads = &self.db.async_reads;
        let io_timeout = self.options.io_timeout;
        let gather = self.gather.get_or_insert_with(|| {
            // Abandoned reads outlive the call.
            let driver: Box<dyn ReadDriver> = if self.deadline.is_some() || io_timeout.is_some() {
                Box::new(reads.shared())
            } else {
                Box::new(reads.inline())
            };
            Gather::new(driver, *source.options(), self.options.gather_options())
        });
        let begun = gather.start(source.needs_mut(), reads.clock().now());
        self.begun.push(begun);
    }

    fn fail(&mut self, index: usize, error: Error) {
        self.answers[self.order[index] as usize] = Err(error);
    }

    /// Whether the deadline has passed.
    fn is_late(&self) -> bool {
        self.deadline
            .is_some_and(|deadline| self.db.async_reads.clock().now() >= deadline)
    }

    /// Fails all waiting lookups, after the deadline.
    fn give_up(&mut self) {
        if let Some(gather) = &mut self.gather {
            gather.abandon();
        }
        for wait in std::mem::take(&mut self.waits) {
            self.fail(wait.index, deadline_passed());
        }
    }

    fn record_levels(&mut self, lookups: &[Lookup], first: usize) {
        if self.db.context.statistics.is_none() {
            return;
        }
        let first_level_runs = self.super_version.version.levels[0].files.len();
        for wait in &self.waits {
            let run = lookups[wait.index - first].runs_searched();
            let below = (run - self.runs_above.min(run) + 1).saturating_sub(first_level_runs);
            self.levels |= 1 << below.min(63);
        }
    }

    /// Records the statistics of the reads of a multi-get.
    pub(super) fn note(&self) {
        if self.rounds == 0 {
            return;
        }
        for &begun in &self.begun {
            self.db
                .context
                .record(HistogramKind::MultigetIoBatchSize, begun);
        }
        self.db
            .context
            .record(HistogramKind::MultigetDeviceRounds, self.rounds);
        let levels = u64::from(self.levels.count_ones());
        self.db
            .context
            .record(HistogramKind::NumLevelReadPerMultiget, levels);
    }
}

fn window_is_not_last(first: usize, count: usize) -> bool {
    first + WINDOW < count
}

#[cold]
pub(super) fn deadline_passed() -> Error {
    Error::with_kind(
        ErrorKind::TimedOut,
        "the key was not found before the deadline of the read",
    )
}

impl BatchVisitor<ProbeSource> for Overlap<'_> {
    fn fault(&mut self, index: usize, fault: Fault<NeedId>) {
        let index = self.first + index;
        match fault {
            Fault::Error(error) => self.fail(index, error),
            Fault::Suspend(need) => self.waits.push(SuspendedLookup {
                index,
                need,
                rounds: 1,
            }),
        }
    }

    /// If only one level is read at a time, all lookups finish it before the next.
    fn run_searched(
        &mut self,
        run: usize,
        lookups: &mut [Lookup],
        done: &mut [bool],
        source: &mut ProbeSource,
    ) {
        if self.options.optimize_multiget_for_io || self.waits.is_empty() {
            return;
        }
        let first = self.first;
        let waited: Vec<usize> = self.waits.iter().map(|wait| wait.index).collect();
        self.settle(lookups, first, source, self.runs_above..run + 1);
        for index in waited {
            let has_failed = self.answers[self.order[index] as usize].is_err();
            done[index - first] = has_failed || lookups[index - first].is_settled();
        }
    }
}
