//! Point reads with concurrent device reads: lookups that suspend on missing blocks.
//!
//! A batch of lookups is probed in windows. It visits the runs like a batch that waits in place, but
//! with a source that does not wait: a lookup that misses a block leaves the batch, and the others
//! continue. The missing blocks are read together, whatever their files and levels. A lookup whose
//! block has arrived resumes alone, from the run where it left the batch, and reads of blocks that
//! it then misses start immediately. So a lookup visits runs strictly from newest to oldest, and
//! cannot find anything older than what it could not read: a failed block ends the lookup that
//! needed it.
//!
//! [`SuspendedLookups`] has this state, and costs nothing until a block is missing. It has two
//! drivers: [`SuspendedLookups::wait`] resumes lookups in the calling thread as soon as half of the
//! reads in flight are complete or a moment has passed ([`Gather::settle_some`]), and
//! [`SuspendedLookups::poll`] resumes those whose blocks have arrived, without waiting.

use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use koeldb_base::stats::{HistogramKind, Statistics};
use koeldb_base::{Error, ErrorKind, Fault, Lookup, Result};
use koeldb_fs::read_driver::{AsyncReads, ReadDriver, ReadSession};
use koeldb_lsm::version::BatchVisitor;
use koeldb_table::source::gather::Gather;
use koeldb_table::source::probe::{NeedId, ProbeSource};

use super::dated::search_tables_at;
use super::options::ReadOptions;
use crate::engine::reads::Reads;
use crate::state::super_version::SuperVersion;

/// The number of lookups probed before reads of missing blocks start.
const WINDOW: usize = 128;

/// The number of recorded needs at which a batch releases their blocks before more reads.
const NEEDS_MAX: usize = 1024;

/// The maximum number of lookups resumed per poll.
const RESUMED_MAX: usize = 64;

/// The parameters of a batch of point lookups: super version, read options and I/O engine.
#[derive(Clone, Copy)]
pub(super) struct SearchContext<'c> {
    pub(super) super_version: &'c Arc<SuperVersion>,
    pub(super) options: &'c ReadOptions,
    pub(super) reads: &'c Reads,
    /// The run before which the search ends.
    runs_end: usize,
}

impl<'c> SearchContext<'c> {
    pub(super) fn new(
        super_version: &'c Arc<SuperVersion>,
        options: &'c ReadOptions,
        reads: &'c Reads,
    ) -> Self {
        SearchContext {
            super_version,
            options,
            reads,
            runs_end: usize::MAX,
        }
    }

    /// Returns the current time of the clock that measures deadlines.
    pub(super) fn now(&self) -> Duration {
        self.reads.async_reads.clock().now()
    }

    /// Searches the tables for one lookup, before run `runs_end`; suspends at a missing block.
    fn search(&self, lookup: &mut Lookup, source: &mut ProbeSource) -> Result<(), Fault<NeedId>> {
        let runs = self.super_version.runs_above()..self.runs_end;
        if self.options.timestamp.is_some() {
            return search_tables_at(self.super_version, lookup, self.options, source, runs);
        }
        let (version, tables) = (&self.super_version.version, &self.super_version.tables);
        let found = |hit| self.reads.context.count(hit, 1);
        version.search(tables, lookup, source, runs, found)
    }
}

/// A point lookup that waits for a missing block.
#[derive(Debug)]
struct SuspendedLookup {
    index: usize,
    need: NeedId,
    /// The number of dependent device reads of the lookup so far, including this one.
    rounds: u64,
}

/// The statistics of a batch's device reads: rounds of dependent reads, and levels.
#[derive(Debug, Default)]
struct ReadRounds {
    /// The number of dependent rounds of reads.
    count: u64,
    /// The largest number of rounds among the lookups resumed since rounds were last counted.
    deepest: u64,
    /// The round of each need: 1, or one more than that of the need that led to it.
    of_needs: Vec<u64>,
    /// The number of reads started in each round.
    started: Vec<u64>,
    /// A bit mask of the levels on which a block was missing.
    levels: u64,
}

/// The suspended lookups of a batch, and their device reads in flight.
struct Pending<D> {
    waiting: Vec<SuspendedLookup>,
    gather: Option<Gather<D>>,
    new_driver: fn(&AsyncReads) -> D,
    deadline: Option<Duration>,
    rounds: ReadRounds,
}

/// A batch of point lookups on one super version that suspend at blocks missing in the cache.
pub(super) struct SuspendedLookups<D> {
    source: ProbeSource,
    /// The number of lookups that were probed, from the first on.
    probed: usize,
    pending: Pending<D>,
}

impl SuspendedLookups<Box<dyn ReadDriver>> {
    /// Creates an empty batch whose lookups [`SuspendedLookups::wait`] completes by blocking.
    pub(super) fn blocking(context: &SearchContext<'_>) -> Self {
        // Reads abandoned at a time limit outlive the call.
        Self::new(
            context,
            match context.options.is_bounded() {
                true => |reads| Box::new(reads.shared()),
                false => |reads| Box::new(reads.inline()),
            },
        )
    }

    /// Completes all lookups of the batch: searches the tables, and blocks until blocks are read.
    ///
    /// Errors are passed to `fail`, with the index of the lookup.
    pub(super) fn wait(
        &mut self,
        context: &SearchContext<'_>,
        lookups: &mut [Lookup],
        fail: &mut impl FnMut(usize, Error),
    ) {
        let is_by_level = !context.options.optimize_multiget_for_io;
        while self.probed < lookups.len() {
            self.probe(context, lookups, is_by_level, fail);
            if self.source.needs().len() > NEEDS_MAX {
                self.settle(context, lookups, fail);
            } else if self.probed < lookups.len() {
                self.pending.start(context, &mut self.source);
            }
        }
        self.settle(context, lookups, fail);
    }

    /// Blocks until all probed lookups are complete, and releases the blocks they needed.
    fn settle(
        &mut self,
        context: &SearchContext<'_>,
        lookups: &mut [Lookup],
        fail: &mut impl FnMut(usize, Error),
    ) {
        if !self.source.needs().is_empty() {
            self.pending
                .settle(context, lookups, 0, &mut self.source, fail);
            self.release();
        }
    }

    /// Records the statistics of a multi-get's device reads: batch sizes, rounds and levels.
    pub(super) fn record(&self, statistics: &Statistics) {
        let rounds = &self.pending.rounds;
        if rounds.count == 0 {
            return;
        }
        for &started in &rounds.started {
            statistics.record(HistogramKind::MultigetIoBatchSize, started);
        }
        statistics.record(HistogramKind::MultigetDeviceRounds, rounds.count);
        let levels = u64::from(rounds.levels.count_ones());
        statistics.record(HistogramKind::NumLevelReadPerMultiget, levels);
    }
}

impl SuspendedLookups<ReadSession> {
    /// Creates an empty batch whose lookups [`SuspendedLookups::poll`] resumes without blocking.
    pub(super) fn polled(context: &SearchContext<'_>) -> Self {
        Self::new(context, AsyncReads::shared)
    }

    /// Searches the tables for the first lookups; returns whether the whole batch is complete.
    pub(super) fn begin(
        &mut self,
        context: &SearchContext<'_>,
        lookups: &mut [Lookup],
        fail: &mut impl FnMut(usize, Error),
    ) -> bool {
        self.probe(context, lookups, false, fail);
        self.pending.waiting.is_empty() && self.probed == lookups.len()
    }

    /// Continues all lookups as far as blocks have arrived; ready when the batch is complete.
    ///
    /// Errors are passed to `fail`, with the index of the lookup. The work of a poll is bounded: it
    /// wakes its task if there is more.
    pub(super) fn poll(
        &mut self,
        context: &SearchContext<'_>,
        lookups: &mut [Lookup],
        task: &mut Context<'_>,
        fail: &mut impl FnMut(usize, Error),
    ) -> Poll<()> {
        let mut resumed = 0;
        loop {
            if self.pending.is_late(context) {
                self.give_up(lookups.len(), fail);
                return Poll::Ready(());
            }
            let source = &mut self.source;
            resumed += self.pending.resume(context, lookups, 0, source, fail);
            if self.pending.waiting.is_empty() && self.pending.is_idle() {
                self.release();
            }
            let may_probe =
                self.pending.waiting.is_empty() || self.source.needs().len() <= NEEDS_MAX;
            let has_probed = may_probe && self.probed < lookups.len();
            if has_probed {
                self.probe(context, lookups, false, fail);
            }
            self.pending.start(context, &mut self.source);
            if self.probed < lookups.len() && has_probed || resumed > RESUMED_MAX {
                task.waker().wake_by_ref();
                return Poll::Pending;
            }
            if self.pending.waiting.is_empty() {
                return Poll::Ready(());
            }
            let Some(gather) = &mut self.pending.gather else {
                continue;
            };
            let needs = self.source.needs_mut();
            if !ready!(gather.poll_settle_some(needs, task, context.now())) {
                self.give_up(lookups.len(), fail);
            }
        }
    }

    /// Returns the number of lookups started so far, and the indexes of those that wait.
    pub(super) fn progress(&self) -> (usize, impl Iterator<Item = usize>) {
        let waiting = self.pending.waiting.iter();
        (self.probed, waiting.map(|suspended| suspended.index))
    }

    /// Fails all unfinished lookups of a batch of `count`, because its deadline has passed.
    fn give_up(&mut self, count: usize, fail: &mut impl FnMut(usize, Error)) {
        self.pending.give_up(fail);
        for index in std::mem::replace(&mut self.probed, count)..count {
            fail(index, deadline_passed());
        }
    }
}

impl<D: ReadDriver> SuspendedLookups<D> {
    fn new(context: &SearchContext<'_>, new_driver: fn(&AsyncReads) -> D) -> Self {
        let deadline = context.options.deadline;
        SuspendedLookups {
            source: ProbeSource::new(
                context
                    .options
                    .block_read_options(&context.reads.context.table_files),
            ),
            probed: 0,
            pending: Pending {
                waiting: Vec::new(),
                gather: None,
                new_driver,
                deadline: deadline.map(|at| context.reads.async_reads.clock().time_of(at)),
                rounds: ReadRounds::default(),
            },
        }
    }

    /// Starts a batch of one lookup; returns whether it completed without missing a block.
    ///
    /// # Errors
    /// The error of the lookup.
    pub(super) fn begin_one(
        &mut self,
        context: &SearchContext<'_>,
        lookup: &mut Lookup,
    ) -> Result<bool> {
        self.probed = 1;
        match context.search(lookup, &mut self.source) {
            Ok(()) => Ok(true),
            Err(Fault::Error(error)) => Err(error),
            Err(Fault::Suspend(need)) => {
                self.pending.suspend(0, need, 1);
                Ok(false)
            }
        }
    }

    /// Starts the next lookups (at most `WINDOW`): searches the tables until blocks are missing.
    ///
    /// With `is_by_level` it waits for missing blocks after each run, so that all lookups finish a
    /// level before the next.
    fn probe(
        &mut self,
        context: &SearchContext<'_>,
        lookups: &mut [Lookup],
        is_by_level: bool,
        fail: &mut impl FnMut(usize, Error),
    ) {
        let first = self.probed;
        self.probed = lookups.len().min(first + WINDOW);
        if context.options.timestamp.is_some() {
            for (index, lookup) in lookups[first..self.probed].iter_mut().enumerate() {
                let index = first + index;
                let searched = match lookup.is_settled() {
                    true => Ok(()),
                    false => context.search(lookup, &mut self.source),
                };
                match searched {
                    Ok(()) => {}
                    Err(Fault::Error(error)) => fail(index, error),
                    Err(Fault::Suspend(need)) => self.pending.suspend(index, need, 1),
                }
            }
            return;
        }
        context.super_version.version.search_batch(
            &context.super_version.tables,
            &mut lookups[first..self.probed],
            &mut self.source,
            context.super_version.runs_above(),
            &mut Window {
                context: *context,
                first,
                is_by_level,
                pending: &mut self.pending,
                fail,
            },
        );
    }

    /// Releases the blocks that lookups needed, once no lookup waits.
    fn release(&mut self) {
        self.source.needs_mut().clear();
        self.pending.rounds.of_needs.clear();
    }
}

impl<D: ReadDriver> Pending<D> {
    /// Records that lookup `index` waits for the block `need`.
    fn suspend(&mut self, index: usize, need: NeedId, rounds: u64) {
        self.waiting.push(SuspendedLookup {
            index,
            need,
            rounds,
        });
    }

    /// Whether the batch has no device read planned or in flight.
    fn is_idle(&self) -> bool {
        self.gather.as_ref().is_none_or(Gather::is_idle)
    }

    /// Whether the deadline of the read has passed.
    fn is_late(&self, context: &SearchContext<'_>) -> bool {
        self.deadline
            .is_some_and(|deadline| context.now() >= deadline)
    }

    /// Abandons the device reads and fails all waiting lookups, because the deadline has passed.
    fn give_up(&mut self, fail: &mut impl FnMut(usize, Error)) {
        if let Some(gather) = &mut self.gather {
            gather.abandon();
        }
        for suspended in self.waiting.drain(..) {
            fail(suspended.index, deadline_passed());
        }
    }

    /// Submits the device reads of all missing blocks.
    fn start(&mut self, context: &SearchContext<'_>, source: &mut ProbeSource) {
        if !source.needs().has_wanted() {
            return;
        }
        let new_driver = self.new_driver;
        let gather = self.gather.get_or_insert_with(|| {
            let options = context.options.gather_options();
            Gather::new(
                new_driver(&context.reads.async_reads),
                source.options().clone(),
                options,
            )
        });
        let started = gather.start(source.needs_mut(), context.now());
        self.rounds.started.push(started);
    }

    /// Continues the waiting lookups whose blocks have arrived; returns their number.
    ///
    /// `lookups` are those from index `first`.
    fn resume(
        &mut self,
        context: &SearchContext<'_>,
        lookups: &mut [Lookup],
        first: usize,
        source: &mut ProbeSource,
        fail: &mut impl FnMut(usize, Error),
    ) -> usize {
        // Blocks missed by probes are of the first round.
        self.rounds.of_needs.resize(source.needs().len(), 1);
        let (mut at, mut resumed) = (0, 0);
        while let Some(suspended) = self.waiting.get(at) {
            if !source.needs().is_settled(suspended.need) {
                at += 1;
                continue;
            }
            let SuspendedLookup { index, rounds, .. } = self.waiting.swap_remove(at);
            self.rounds.deepest = self.rounds.deepest.max(rounds);
            let lookup = &mut lookups[index - first];
            lookup.rewind();
            let searched = context.search(lookup, source);
            self.rounds
                .of_needs
                .resize(source.needs().len(), rounds + 1);
            match searched {
                Ok(()) => {}
                Err(Fault::Error(error)) => fail(index, error),
                Err(Fault::Suspend(need)) => {
                    let round = self.rounds.of_needs[need.index()];
                    self.suspend(index, need, rounds.max(round));
                }
            }
            resumed += 1;
        }
        resumed
    }

    /// Blocks until all waiting lookups are complete or the deadline has passed.
    ///
    /// `lookups` are those from index `first`.
    #[cold]
    fn settle(
        &mut self,
        context: &SearchContext<'_>,
        lookups: &mut [Lookup],
        first: usize,
        source: &mut ProbeSource,
        fail: &mut impl FnMut(usize, Error),
    ) {
        self.count_levels(context, lookups, first);
        while !self.waiting.is_empty() {
            if self.is_late(context) {
                self.give_up(fail);
                break;
            }
            self.read_some(context, source);
            self.resume(context, lookups, first, source, fail);
        }
        self.rounds.count += std::mem::take(&mut self.rounds.deepest);
    }

    /// Submits the device reads of missing blocks, and blocks until some have arrived.
    fn read_some(&mut self, context: &SearchContext<'_>, source: &mut ProbeSource) {
        if self.is_idle() && !context.options.is_bounded() {
            // There is nothing to overlap with.
            if let Some(only) = source.needs_mut().take_only_wanted() {
                return source.read_in_place(only);
            }
        }
        self.start(context, source);
        if let Some(gather) = &mut self.gather {
            gather.settle_some(source.needs_mut(), self.deadline, || context.now());
        }
    }

    /// Records for statistics the levels on which lookups wait for a block.
    fn count_levels(&mut self, context: &SearchContext<'_>, lookups: &[Lookup], first: usize) {
        let above = context.super_version.runs_above();
        let level0_runs = context.super_version.version.levels[0].files.len();
        for suspended in &self.waiting {
            let run = lookups[suspended.index - first].runs_searched();
            let below = (run - above.min(run) + 1).saturating_sub(level0_runs);
            self.rounds.levels |= 1 << below.min(63);
        }
    }
}

/// The callback of a batch search that suspends the lookups with missing blocks.
struct Window<'w, D, F> {
    context: SearchContext<'w>,
    /// The index in the batch of the window's first lookup.
    first: usize,
    is_by_level: bool,
    pending: &'w mut Pending<D>,
    fail: &'w mut F,
}

impl<D: ReadDriver, F: FnMut(usize, Error)> BatchVisitor<ProbeSource> for Window<'_, D, F> {
    fn fault(&mut self, index: usize, fault: Fault<NeedId>) {
        let index = self.first + index;
        match fault {
            Fault::Error(error) => (self.fail)(index, error),
            Fault::Suspend(need) => self.pending.suspend(index, need, 1),
        }
    }

    fn run_searched(
        &mut self,
        run: usize,
        lookups: &mut [Lookup],
        done: &mut [bool],
        source: &mut ProbeSource,
    ) {
        if !self.is_by_level || self.pending.waiting.is_empty() {
            return;
        }
        let first = self.first;
        let waiting = self.pending.waiting.iter();
        let waited: Vec<usize> = waiting.map(|suspended| suspended.index).collect();
        for &index in &waited {
            done[index - first] = false;
        }
        let context = SearchContext {
            runs_end: run + 1,
            ..self.context
        };
        let pending = &mut *self.pending;
        pending.settle(&context, lookups, first, source, &mut |index, error| {
            done[index - first] = true;
            (self.fail)(index, error);
        });
        for index in waited {
            done[index - first] |= lookups[index - first].is_settled();
        }
    }
}

/// Returns the `TimedOut` error of a read past its deadline.
#[cold]
pub(super) fn deadline_passed() -> Error {
    Error::with_kind(
        ErrorKind::TimedOut,
        "the key was not found before the deadline of the read",
    )
}
