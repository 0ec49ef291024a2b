//! Point reads as futures: the same probes over the same runs, in steps.
//!
//! A poll proceeds as far as possible without waiting. If all blocks of a lookup are cached, it
//! completes at the first poll, which allocates nothing and reads no device. Missing blocks are
//! then read on the shared driver of the database, which wakes the task; from then on the
//! super-version is pinned. When its block has arrived, a lookup resumes in the run where it
//! suspended.
//!
//! Dropping a future drops its session: reads in flight complete by themselves, and nothing stays
//! pinned. A poll does a bounded amount of work, and wakes its task if there is more.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use koeldb_base::{Error, Fault, Lookup, PinnedSlice, Result};
use koeldb_fs::read_driver::ReadSession;
use koeldb_lsm::version::BatchVisitor;
use koeldb_table::gather::Gather;
use koeldb_table::probe::{NeedId, ProbeSource};

use super::get::{cuckoo_alone, search_memtables, search_memtables_batch};
use super::multi_get::PinnedSlices;
use super::overlap::{NEEDS_MAX, WINDOW, deadline_passed};
use crate::column_family_data::ColumnFamilyData;
use crate::inner::DbInner;
use crate::options::{ReadOptions, ReadTier};
use crate::super_version::SuperVersion;

/// The maximum number of lookups resumed per poll.
const RESUMED_MAX: usize = 64;

/// A lookup that waits for a block.
#[derive(Debug)]
struct SuspendedLookup {
    index: usize,
    need: NeedId,
}

/// The missing blocks of lookups in one super-version, and the reads of them.
///
/// It costs nothing until a block is missing.
pub(super) struct PolledLookups {
    source: ProbeSource,
    waits: Vec<SuspendedLookup>,
    gather: Option<Gather<ReadSession>>,
    deadline: Option<Duration>,
    /// The index of the first lookup not yet probed.
    next: usize,
}

/// The context of a poll.
#[derive(Clone, Copy)]
struct PollContext<'p> {
    db: &'p DbInner,
    super_version: &'p SuperVersion,
    options: &'p ReadOptions,
}

impl PollContext<'_> {
    /// The number of runs above those of the version.
    fn runs_above(&self) -> usize {
        1 + self.super_version.sealed.len()
    }

    fn search(&self, lookup: &mut Lookup, source: &mut ProbeSource) -> Result<(), Fault<NeedId>> {
        let runs = self.runs_above()..usize::MAX;
        let tables = &self.super_version.tables;
        let version = &self.super_version.version;
        version.search(tables, lookup, source, runs)
    }
}

/// Collects the suspended lookups of a window.
struct Misses<'w, F> {
    first: usize,
    waits: &'w mut Vec<SuspendedLookup>,
    fail: &'w mut F,
}

impl<F: FnMut(usize, Error)> BatchVisitor<ProbeSource> for Misses<'_, F> {
    fn fault(&mut self, index: usize, fault: Fault<NeedId>) {
        let index = self.first + index;
        match fault {
            Fault::Error(error) => (self.fail)(index, error),
            Fault::Suspend(need) => self.waits.push(SuspendedLookup { index, need }),
        }
    }
}

impl PolledLookups {
    fn new(db: &DbInner, options: &ReadOptions) -> Self {
        PolledLookups {
            source: ProbeSource::new(options.block_read_options()),
            waits: Vec::new(),
            gather: None,
            deadline: options.deadline.map(|at| db.context.clock.time_of(at)),
            next: 0,
        }
    }

    /// Resumes `lookups` until all are done; errors are passed to `fail`, with the index.
    fn poll(
        &mut self,
        place: PollContext<'_>,
        lookups: &mut [Lookup],
        context: &mut Context<'_>,
        fail: &mut impl FnMut(usize, Error),
    ) -> Poll<()> {
        let mut resumed = 0;
        loop {
            let is_late =
                (self.deadline).is_some_and(|deadline| place.db.context.clock.now() >= deadline);
            if is_late {
                self.give_up(lookups.len(), fail);
                return Poll::Ready(());
            }
            resumed += self.resume(place, lookups, fail);
            let needs = self.source.needs().len();
            if self.waits.is_empty() && needs > 0 && self.is_idle() {
                self.source.needs_mut().clear();
            }
            let may_probe = self.waits.is_empty() || needs <= NEEDS_MAX;
            let has_probed = may_probe && self.next < lookups.len();
            if has_probed {
                self.probe(place, lookups, fail);
            }
            self.begin(place);
            if self.next < lookups.len() && has_probed || resumed > RESUMED_MAX {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            if self.waits.is_empty() {
                return Poll::Ready(());
            }
            let Some(gather) = &mut self.gather else {
                continue;
            };
            let now = place.db.async_reads.clock().now();
            let needs = self.source.needs_mut();
            if !ready!(gather.poll_settle_some(needs, context, now)) {
                self.give_up(lookups.len(), fail);
            }
        }
    }

    /// The number of probed lookups, and those of them that wait.
    pub(super) fn progress(&self) -> (usize, impl Iterator<Item = usize>) {
        (self.next, self.waits.iter().map(|wait| wait.index))
    }

    fn is_idle(&self) -> bool {
        self.gather.as_ref().is_none_or(Gather::is_idle)
    }

    /// Probes the next lookups, as a batch.
    fn probe(
        &mut self,
        place: PollContext<'_>,
        lookups: &mut [Lookup],
        fail: &mut impl FnMut(usize, Error),
    ) {
        let first = self.next;
        self.next = lookups.len().min(first + WINDOW);
        let mut misses = Misses {
            first,
            waits: &mut self.waits,
            fail,
        };
        place.super_version.version.search_batch(
            &place.super_version.tables,
            &mut lookups[first..self.next],
            &mut self.source,
            place.runs_above(),
            &mut misses,
        );
    }

    /// Resumes the lookups whose blocks have arrived; returns their number.
    fn resume(
        &mut self,
        place: PollContext<'_>,
        lookups: &mut [Lookup],
        fail: &mut impl FnMut(usize, Error),
    ) -> usize {
        let (mut at, mut resumed) = (0, 0);
        while let Some(wait) = self.waits.get(at) {
            if !self.source.needs().is_settled(wait.need) {
                at += 1;
                continue;
            }
            let SuspendedLookup { index, .. } = self.waits.swap_remove(at);
            let lookup = &mut lookups[index];
            lookup.rewind();
            match place.search(lookup, &mut self.source) {
                Ok(()) => {}
                Err(Fault::Suspend(need)) => self.waits.push(SuspendedLookup { index, need }),
                Err(Fault::Error(error)) => fail(index, error),
            }
            resumed += 1;
        }
        resumed
    }

    /// Starts to read the missing blocks.
    fn begin(&mut self, place: PollContext<'_>) {
        if !self.source.needs().has_wanted() {
            return;
        }
        let reads = &place.db.async_reads;
        let gather = self.gather.get_or_insert_with(|| {
            let options = place.options.gather_options();
            Gather::new(reads.shared(), *self.source.options(), options)
        });
        gather.start(self.source.needs_mut(), reads.clock().now());
    }

    /// Fails all unfinished lookups, after the deadline.
    fn give_up(&mut self, count: usize, fail: &mut impl FnMut(usize, Error)) {
        if let Some(gather) = &mut self.gather {
            gather.abandon();
        }
        for wait in self.waits.drain(..) {
            fail(wait.index, deadline_passed());
        }
        for index in std::mem::replace(&mut self.next, count)..count {
            fail(index, deadline_passed());
        }
    }
}

/// A suspended point read.
struct SuspendedGet {
    super_version: Arc<SuperVersion>,
    lookup: Lookup,
    probing: PolledLookups,
}

/// A suspended batch of point reads.
pub(super) struct SuspendedBatch {
    pub(super) super_version: Arc<SuperVersion>,
    pub(super) probing: PolledLookups,
}

/// The result of a first poll.
pub(super) enum First<T, S> {
    Done(T),
    Suspended(S),
}

impl DbInner {
    /// Reads one key.
    pub(crate) async fn get_async(
        &self,
        family: &ColumnFamilyData,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<Option<PinnedSlice>> {
        self.check_open()?;
        let begun = self.context.measures().then(|| self.context.clock.now());
        let found = match self.begin_get(family, key, options)? {
            First::Done(found) => found,
            First::Suspended(mut get) => {
                poll_fn(|context| self.poll_get(&mut get, options, context)).await?
            }
        };
        if let Some(begun) = begun {
            self.record_get(found.as_ref(), begun);
        }
        Ok(found)
    }

    fn begin_get(
        &self,
        family: &ColumnFamilyData,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<First<Option<PinnedSlice>, Box<SuspendedGet>>> {
        family.super_version.with(|super_version| {
            let seqno = self.read_seqno(options)?;
            if options.read_tier != ReadTier::Memtable
                && let Some(level) = cuckoo_alone(super_version)
            {
                let mut found = Ok(None);
                level.get_to(key, seqno, &mut found);
                return Ok(First::Done(found?));
            }
            let mut lookup = Lookup::new(key, seqno);
            search_memtables(self, super_version, &mut lookup, options)?;
            let mut probing = PolledLookups::new(self, options);
            let place = self.place(super_version, options);
            let searched = if lookup.is_settled() {
                Ok(())
            } else {
                place.search(&mut lookup, &mut probing.source)
            };
            match searched {
                Ok(()) => {
                    let operator = super_version.options.merge_operator.as_deref();
                    Ok(First::Done(lookup.finish(operator)?))
                }
                Err(Fault::Error(error)) => Err(error),
                Err(Fault::Suspend(need)) => {
                    probing.next = 1;
                    probing.waits.push(SuspendedLookup { index: 0, need });
                    Ok(First::Suspended(Box::new(SuspendedGet {
                        super_version: Arc::clone(super_version),
                        lookup,
                        probing,
                    })))
                }
            }
        })
    }

    fn poll_get(
        &self,
        get: &mut SuspendedGet,
        options: &ReadOptions,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<PinnedSlice>>> {
        let SuspendedGet {
            super_version,
            lookup,
            probing,
        } = get;
        let mut failure = None;
        let lookups = std::slice::from_mut(lookup);
        let place = self.place(super_version, options);
        ready!(probing.poll(place, lookups, context, &mut |_, error| {
            failure = Some(error);
        }));
        let operator = super_version.options.merge_operator.as_deref();
        Poll::Ready(match failure {
            Some(error) => Err(error),
            None => lookups[0].take_answer(operator),
        })
    }

    /// Reads `keys` of one column family.
    pub(crate) async fn multi_get_async<K: AsRef<[u8]>>(
        &self,
        family: &ColumnFamilyData,
        keys: &[K],
        options: &ReadOptions,
    ) -> PinnedSlices {
        let begun = self.context.measures().then(|| self.context.clock.now());
        let mut values = PinnedSlices::with_capacity(keys.len());
        values.begin(keys.len());
        match self.begin_multi_get(family, keys, options, &mut values) {
            Err(error) => values.answers.fill(Err(error)),
            Ok(First::Done(())) => {}
            Ok(First::Suspended(mut batch)) => {
                poll_fn(|context| self.poll_multi_get(&mut batch, &mut values, options, context))
                    .await;
            }
        }
        if let Some(begun) = begun {
            self.note_multi_get(values.len(), values.value_bytes(), begun);
        }
        values
    }

    /// Searches for `keys` as far as no device is needed.
    pub(super) fn begin_multi_get<K: AsRef<[u8]>>(
        &self,
        family: &ColumnFamilyData,
        keys: &[K],
        options: &ReadOptions,
        values: &mut PinnedSlices,
    ) -> Result<First<(), SuspendedBatch>> {
        self.check_open()?;
        family.super_version.with(|super_version| {
            let seqno = self.read_seqno(options)?;
            if options.read_tier != ReadTier::Memtable
                && let Some(level) = cuckoo_alone(super_version)
            {
                level.get_batch(keys, seqno, &mut values.answers);
                return Ok(First::Done(()));
            }
            values.begin_lookups(&family.order, keys, seqno)?;
            let mut probing = PolledLookups::new(self, options);
            let PinnedSlices {
                answers,
                order,
                lookups,
            } = values;
            let mut fail = |at: usize, error| answers[order[at] as usize] = Err(error);
            search_memtables_batch(self, super_version, lookups, options, &mut fail);
            if options.read_tier != ReadTier::Memtable {
                let place = self.place(super_version, options);
                probing.probe(place, lookups, &mut fail);
                if !probing.waits.is_empty() || probing.next < lookups.len() {
                    return Ok(First::Suspended(SuspendedBatch {
                        super_version: Arc::clone(super_version),
                        probing,
                    }));
                }
            }
            let operator = super_version.options.merge_operator.as_deref();
            values.finish(operator, options.value_size_soft_limit);
            Ok(First::Done(()))
        })
    }

    fn poll_multi_get(
        &self,
        batch: &mut SuspendedBatch,
        values: &mut PinnedSlices,
        options: &ReadOptions,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        ready!(self.poll_lookups(batch, values, options, context));
        let operator = batch.super_version.options.merge_operator.as_deref();
        values.finish(operator, options.value_size_soft_limit);
        Poll::Ready(())
    }

    /// Polls the lookups of a batch until all are done; answers are then taken, except errors.
    pub(super) fn poll_lookups(
        &self,
        batch: &mut SuspendedBatch,
        values: &mut PinnedSlices,
        options: &ReadOptions,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        let SuspendedBatch {
            super_version,
            probing,
        } = batch;
        let PinnedSlices {
            answers,
            order,
            lookups,
        } = values;
        let place = self.place(super_version, options);
        let mut fail = |at: usize, error| answers[order[at] as usize] = Err(error);
        probing.poll(place, lookups, context, &mut fail)
    }

    fn place<'p>(
        &'p self,
        super_version: &'p SuperVersion,
        options: &'p ReadOptions,
    ) -> PollContext<'p> {
        PollContext {
            db: self,
            super_version,
            options,
        }
    }
}
