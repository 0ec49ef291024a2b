//! Batches of point reads, with the results in one reusable object.
//!
//! Keys are visited in key order, whatever their given order: neighbours then find their index and
//! data blocks in the processor's cache. Each key has its own result; an error of the whole call is
//! the result of each key.

use std::convert::Infallible;
use std::time::Duration;

use koeldb_base::coding::to_u32;
use koeldb_base::entity::WideColumns;
use koeldb_base::merge_operator::Merger;
use koeldb_base::perf::{self, PerfMetric};
use koeldb_base::stats::{HistogramKind, Ticker};
use koeldb_base::{
    Blocking, Error, ErrorKind, Fault, KeyOrder, Lookup, PinnedSlice, Result, SeqNo,
};
use koeldb_fs::read_driver::ActiveEngine;
use koeldb_lsm::version::BatchVisitor;
use koeldb_table::source::BlockingSource;

use super::blob_values::{BatchBlobs, read_together};
use super::dated::search_tables_at;
use super::get::search_memtables_batch;
use super::options::ReadOptions;
use super::suspended::{SearchContext, SuspendedLookups, deadline_passed};
use crate::engine::reads::Reads;
use crate::options::ReadTier;
use crate::state::column_family_data::ColumnFamilyData;
use crate::state::ttl;

/// The results of a multi-get, one for each key in the given order, with pinned values.
///
/// A later multi-get reuses the memory.
#[derive(Debug, Default)]
pub struct PinnedSlices {
    pub(super) answers: Vec<Result<Option<PinnedSlice>>>,
    /// The indexes of the keys in key order: scratch memory, empty between multi-gets.
    pub(super) order: Vec<u32>,
    /// The lookups of the keys: scratch memory, empty between multi-gets.
    pub(super) lookups: Vec<Lookup>,
}

impl PinnedSlices {
    /// Creates an empty list of results, to be filled by a multi-get.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty list of results with capacity for `count` keys.
    #[must_use]
    pub fn with_capacity(count: usize) -> Self {
        PinnedSlices {
            answers: Vec::with_capacity(count),
            order: Vec::with_capacity(count),
            lookups: Vec::with_capacity(count),
        }
    }

    /// Returns the value of key `index`, borrowed; `None` if the key does not exist.
    ///
    /// # Errors
    /// The error of reading this key.
    ///
    /// # Panics
    /// If `index` is not below [`PinnedSlices::len`].
    pub fn get(&self, index: usize) -> Result<Option<&[u8]>> {
        borrow(&self.answers[index])
    }

    /// Returns the value of key `index` as a pinned slice; `None` if the key does not exist.
    ///
    /// # Errors
    /// The error of reading this key.
    ///
    /// # Panics
    /// If `index` is not below [`PinnedSlices::len`].
    pub fn get_pinned(&self, index: usize) -> Result<Option<PinnedSlice>> {
        self.answers[index].clone()
    }

    /// Returns an iterator over the results in the order of the keys.
    #[must_use]
    pub fn iter(&self) -> Answers<'_> {
        Answers {
            inner: self.answers.iter(),
        }
    }

    /// Returns the number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.answers.len()
    }

    /// Whether there are no results.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }

    /// Removes all results and thus releases pinned values; keeps the memory for reuse.
    pub fn clear(&mut self) {
        self.answers.clear();
    }

    /// Returns the total size of all found values in bytes.
    fn value_bytes(&self) -> u64 {
        self.found().bytes
    }

    /// Returns the number and the total size of all found values.
    pub(super) fn found(&self) -> FoundValues {
        FoundValues::of(self.answers.iter().flatten().flatten())
    }

    /// Sets the result of every key to `error`.
    pub(super) fn fail(&mut self, error: &Error) {
        self.answers.fill(Err(error.clone()));
    }

    /// Returns the lookups, and a function that stores a lookup's error as the result of its key.
    pub(super) fn split(&mut self) -> (&mut [Lookup], impl FnMut(usize, Error)) {
        let PinnedSlices {
            answers,
            order,
            lookups,
        } = self;
        let fail = |at: usize, error| answers[order[at] as usize] = Err(error);
        (lookups, fail)
    }

    /// Resets the results to `count` times `Ok(None)`.
    fn begin(&mut self, count: usize) {
        self.answers.clear();
        self.answers.resize_with(count, || Ok(None));
    }

    /// Prepares a point lookup at `seqno` for each key, sorted in key order.
    fn begin_lookups<K: AsRef<[u8]>>(
        &mut self,
        key_order: &KeyOrder,
        keys: &[K],
        seqno: SeqNo,
    ) -> Result<()> {
        let count = to_u32(keys.len(), "multi-get")?;
        let key_at = |index: u32| keys[index as usize].as_ref();
        let PinnedSlices { order, lookups, .. } = self;
        order.clear();
        order.extend(0..count);
        order.sort_unstable_by(|&a, &b| key_order.compare(key_at(a), key_at(b)));
        lookups.truncate(order.len());
        for (lookup, &index) in lookups.iter_mut().zip(order.iter()) {
            lookup.restart(key_at(index), seqno);
        }
        let more = &order[lookups.len()..];
        lookups.extend(more.iter().map(|&index| Lookup::new(key_at(index), seqno)));
        Ok(())
    }

    /// Takes the values out of the finished lookups, up to the size limit `bytes_limit`.
    pub(super) fn finish(&mut self, merger: Merger<'_>, bytes_limit: u64) {
        let mut value_bytes = 0;
        for (&index, lookup) in self.order.iter().zip(self.lookups.iter_mut()) {
            let found = lookup.take_answer(merger);
            let answer = &mut self.answers[index as usize];
            if answer.is_err() {
                continue;
            }
            if value_bytes > bytes_limit {
                *answer = Err(too_much(bytes_limit));
                continue;
            }
            if let Ok(Some(value)) = &found {
                value_bytes += value.len() as u64;
            }
            *answer = found;
        }
    }
}

impl PinnedSlices {
    /// Takes the columns out of the finished lookups, in the order of the keys.
    ///
    /// Failed keys keep their errors. (RocksDB: `value_size_soft_limit` also counts all columns.)
    pub(super) fn take_columns(
        &mut self,
        merger: Merger<'_>,
        bytes_limit: u64,
    ) -> Vec<Result<Option<WideColumns>>> {
        let mut bytes = 0;
        let mut all: Vec<Result<Option<WideColumns>>> = Vec::new();
        all.resize_with(self.answers.len(), || Ok(None));
        for (&index, lookup) in self.order.iter().zip(self.lookups.iter_mut()) {
            let found = lookup.take_columns(merger);
            let answer = &mut all[index as usize];
            *answer = match &self.answers[index as usize] {
                Err(error) => Err(error.clone()),
                Ok(_) if bytes > bytes_limit => Err(too_much(bytes_limit)),
                Ok(_) => found,
            };
            if let Ok(Some(columns)) = answer {
                bytes += columns.stored().len() as u64;
            }
        }
        all
    }

    /// Removes the appended timestamps from the values of a TTL database.
    pub(super) fn strip_times(&mut self) {
        for answer in &mut self.answers {
            let found = std::mem::replace(answer, Ok(None));
            *answer = ttl::strip(found);
        }
    }
}

/// Converts an owned result to one that borrows the value.
#[inline]
fn borrow(answer: &Result<Option<PinnedSlice>>) -> Result<Option<&[u8]>> {
    match answer {
        Ok(found) => Ok(found.as_deref()),
        Err(error) => Err(error.clone()),
    }
}

/// An iterator over the results of a multi-get.
#[derive(Clone, Debug)]
pub struct Answers<'a> {
    inner: std::slice::Iter<'a, Result<Option<PinnedSlice>>>,
}

impl<'a> Iterator for Answers<'a> {
    type Item = Result<Option<&'a [u8]>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.inner.next().map(borrow)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.inner.size_hint()
    }
}

impl ExactSizeIterator for Answers<'_> {}

impl<'a> IntoIterator for &'a PinnedSlices {
    type Item = Result<Option<&'a [u8]>>;
    type IntoIter = Answers<'a>;

    fn into_iter(self) -> Answers<'a> {
        self.iter()
    }
}

impl IntoIterator for PinnedSlices {
    type Item = Result<Option<PinnedSlice>>;
    type IntoIter = std::vec::IntoIter<Result<Option<PinnedSlice>>>;

    fn into_iter(self) -> Self::IntoIter {
        self.answers.into_iter()
    }
}

/// The number and the total size of the values that a multi-get found.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FoundValues {
    count: u64,
    pub(super) bytes: u64,
}

impl FoundValues {
    /// Counts values.
    pub(super) fn of<'v>(values: impl Iterator<Item = &'v PinnedSlice>) -> Self {
        let mut found = FoundValues::default();
        values.for_each(|value| found.add(value));
        found
    }

    /// Counts one more value.
    pub(super) fn add(&mut self, value: &PinnedSlice) {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(value.len() as u64);
    }
}

/// The callback of a blocking batch search, which passes the error of each failed key on.
struct InPlace<F>(F);

impl<F: FnMut(usize, Error)> BatchVisitor<BlockingSource> for InPlace<F> {
    fn fault(&mut self, index: usize, fault: Fault<Blocking>) {
        (self.0)(index, fault.into());
    }
}

/// Returns the `Aborted` error of the keys of a multi-get beyond `value_size_soft_limit`.
#[cold]
pub(super) fn too_much(limit: u64) -> Error {
    Error::with_kind(
        ErrorKind::Aborted,
        format!("the values of earlier keys exceed `value_size_soft_limit`, {limit} bytes"),
    )
}

impl Reads {
    /// Reads `keys` of one column family, blocking, and stores each key's result in `values`.
    pub(crate) fn multi_get<K: AsRef<[u8]>>(
        &self,
        family: &ColumnFamilyData,
        keys: &[K],
        options: &ReadOptions,
        values: &mut PinnedSlices,
    ) {
        let begun = self.context.measures().then(|| self.context.clock.now());
        let deadline = options.deadline.map(|at| self.context.clock.time_of(at));
        let searched = match deadline {
            Some(deadline) if self.context.clock.now() >= deadline => {
                values.begin(keys.len());
                Err(deadline_passed())
            }
            _ => self
                .search_batch(family, keys, options, values, |context, values| {
                    self.search_tables(context, values);
                    None::<Infallible>
                })
                .map(|_| ()),
        };
        if let Err(error) = searched {
            values.fail(&error);
        }
        if perf::is_on() {
            perf::count(PerfMetric::MultigetReadBytes, values.value_bytes());
        }
        if let Some(begun) = begun {
            self.record_multi_get(values.len(), values.found(), begun);
        }
    }

    /// Performs a multi-get: looks up `keys` in memtables, and then in tables by `search_tables`.
    ///
    /// The values are complete unless `search_tables` returns a suspended batch. If the search
    /// fails, there is a value for each key nevertheless.
    pub(super) fn search_batch<K: AsRef<[u8]>, S>(
        &self,
        family: &ColumnFamilyData,
        keys: &[K],
        options: &ReadOptions,
        values: &mut PinnedSlices,
        search_tables: impl FnOnce(&SearchContext<'_>, &mut PinnedSlices) -> Option<S>,
    ) -> Result<Option<S>> {
        let finish = |values: &mut PinnedSlices, merger: Merger<'_>| {
            values.finish(merger, options.value_size_soft_limit);
            if family.ttl.is_some() {
                values.strip_times();
            }
        };
        self.search_batch_to(
            family,
            keys,
            (options, false),
            values,
            search_tables,
            finish,
        )
    }

    /// Performs a multi-get like [`Reads::search_batch`]; `finish` takes the results out of lookups.
    ///
    /// If a level of cuckoo tables has the results, they are in `values`, and `finish` is not called.
    /// The options tell whether it takes all columns of entities.
    #[inline]
    pub(super) fn search_batch_to<K: AsRef<[u8]>, S>(
        &self,
        family: &ColumnFamilyData,
        keys: &[K],
        (options, all_columns): (&ReadOptions, bool),
        values: &mut PinnedSlices,
        search_tables: impl FnOnce(&SearchContext<'_>, &mut PinnedSlices) -> Option<S>,
        finish: impl FnOnce(&mut PinnedSlices, Merger<'_>),
    ) -> Result<Option<S>> {
        values.begin(keys.len());
        self.health.check_open()?;
        family.super_version.with(|super_version| {
            let (super_version, seqno) = self.view(family, super_version, options)?;
            if let Some(level) = super_version.cuckoo_level(options.takes_level()) {
                level.get_batch(keys, seqno, &mut values.answers);
                return Ok(None);
            }
            values.begin_lookups(&family.user_order, keys, seqno)?;
            {
                let (lookups, mut fail) = values.split();
                search_memtables_batch(self, super_version, lookups, options, &mut fail);
            }
            let context = SearchContext::new(super_version, options, self);
            if options.read_tier != ReadTier::Memtable
                && let Some(suspended) = search_tables(&context, values)
            {
                return Ok(Some(suspended));
            }
            let merger = super_version.merger(options.fetch_options());
            if super_version.version.blob_files.is_empty() {
                finish(values, merger);
                return Ok(None);
            }
            let overlaps = self.overlaps(&context, values.lookups.len());
            let parts = read_together(&context, &values.lookups, all_columns, overlaps);
            let blobs = BatchBlobs::new(super_version, &parts);
            finish(values, merger.with_blobs(&blobs));
            Ok(None)
        })
    }

    /// Whether the device reads of a batch of `count` keys overlap.
    fn overlaps(&self, context: &SearchContext<'_>, count: usize) -> bool {
        // Threads would slow down reads that the system has in its cache.
        let engine = &self.async_reads;
        let by_itself = engine.engine() == ActiveEngine::Uring
            || engine.is_parallel() && self.context.db_options.use_direct_reads;
        context.options.overlaps(count, by_itself)
    }

    /// Searches the tables for all lookups, blocking, with overlapping device reads if worthwhile.
    pub(super) fn search_tables(&self, context: &SearchContext<'_>, values: &mut PinnedSlices) {
        let (lookups, mut fail) = values.split();
        if self.overlaps(context, lookups.len()) {
            let mut suspended = SuspendedLookups::blocking(context);
            suspended.wait(context, lookups, &mut fail);
            if let Some(statistics) = &self.context.statistics {
                suspended.record(statistics);
            }
        } else if context.options.timestamp.is_some() {
            let blocks = (context.options).block_read_options(&self.context.table_files);
            let mut source = BlockingSource::new(blocks);
            let runs = context.super_version.runs_above()..usize::MAX;
            for (index, lookup) in lookups.iter_mut().enumerate() {
                let options = context.options;
                let version = context.super_version;
                if !lookup.is_settled()
                    && let Err(error) =
                        search_tables_at(version, lookup, options, &mut source, runs.clone())
                {
                    fail(index, error.into());
                }
            }
        } else {
            let super_version = context.super_version;
            super_version.version.search_batch(
                &super_version.tables,
                lookups,
                &mut BlockingSource::new(
                    context
                        .options
                        .block_read_options(&self.context.table_files),
                ),
                super_version.runs_above(),
                &mut InPlace(fail),
            );
        }
    }

    /// Records a multi-get in the statistics: keys, bytes and elapsed time.
    #[cold]
    pub(super) fn record_multi_get(&self, key_count: usize, found: FoundValues, begun: Duration) {
        for (ticker, count) in [
            (Ticker::NumberMultigetCalls, 1),
            (Ticker::NumberMultigetKeysRead, key_count as u64),
            (Ticker::NumberMultigetKeysFound, found.count),
            (Ticker::NumberMultigetBytesRead, found.bytes),
        ] {
            self.context.count(ticker, count);
        }
        self.context
            .record(HistogramKind::BytesPerMultiget, found.bytes);
        self.context
            .record_elapsed(HistogramKind::DbMultiget, begun);
    }
}
