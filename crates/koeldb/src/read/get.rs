//! Point reads: memtables from newest to oldest, then tables, until the lookup is settled.

use std::sync::Arc;

use koeldb_base::perf::{self, PerfMetric};
use koeldb_base::stats::{HistogramKind, Statistics, Ticker};
use koeldb_base::{Error, ErrorKind, Lookup, PinnedSlice, Result, SeqNo};
use koeldb_table::cuckoo::level::CuckooLevel;
use koeldb_table::source::BlockingSource;

use super::blob_values::{BatchBlobs, read_together};
use super::dated::{check_time, search_memtables_at};
use super::options::ReadOptions;
use super::suspended::{SearchContext, SuspendedLookups};
use crate::engine::reads::Reads;
use crate::options::{ReadTier, TableFormat};
use crate::state::column_family_data::ColumnFamilyData;
use crate::state::super_version::SuperVersion;
use crate::state::ttl;

impl Reads {
    /// Returns the super version and the sequence number at which a read with `options` searches.
    ///
    /// `current` must have been taken before: a newer super-version may lack entries that the number
    /// sees and a later one hides.
    ///
    /// # Errors
    /// `InvalidArgument` if the snapshot is of another database, a timestamp is missing or too much,
    /// or its history may be gone.
    #[inline]
    pub(crate) fn view<'v>(
        &self,
        family: &ColumnFamilyData,
        current: &'v Arc<SuperVersion>,
        options: &'v ReadOptions,
    ) -> Result<(&'v Arc<SuperVersion>, SeqNo)> {
        let view = self.view_at_any_time(family, current, options)?;
        if family.has_timestamps || options.names_timestamps() {
            check_time(family, view.0, options)?;
        }
        Ok(view)
    }

    /// Returns what [`Reads::view`] does, without a look at the timestamp.
    #[inline]
    fn view_at_any_time<'v>(
        &self,
        family: &ColumnFamilyData,
        current: &'v Arc<SuperVersion>,
        options: &'v ReadOptions,
    ) -> Result<(&'v Arc<SuperVersion>, SeqNo)> {
        match options.get_snapshot() {
            None => Ok((current, self.visibility.seqno().min(current.seqno_max))),
            Some(snapshot) if snapshot.database_id() == self.context.id => Ok((
                snapshot.pinned(family.id).unwrap_or(current),
                snapshot.sequence_number(),
            )),
            Some(_) => Err(Error::invalid_argument(
                "the snapshot belongs to another database",
            )),
        }
    }

    /// Reads the value of one key as a pinned slice; `None` if the key does not exist.
    #[inline(never)]
    pub(crate) fn get(
        &self,
        family: &ColumnFamilyData,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<Option<PinnedSlice>> {
        if self.context.measures() {
            return self.get_counted(family, key, options);
        }
        let mut found = Ok(None);
        self.read_to::<_, false>(family, key, options, Pin(&mut found));
        found
    }

    /// Reads the value of one key like [`Reads::get`], and counts the read in the statistics.
    #[cold]
    fn get_counted(
        &self,
        family: &ColumnFamilyData,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<Option<PinnedSlice>> {
        let begun = self.context.clock.now();
        let mut found = Ok(None);
        self.read_to::<_, true>(family, key, options, Pin(&mut found));
        if let Ok(found) = &found {
            self.record_get(found.as_ref(), begun);
        }
        found
    }

    /// Reads the value of one key and passes it to `read`; `None` if the key does not exist.
    #[inline]
    pub(crate) fn get_with<R>(
        &self,
        family: &ColumnFamilyData,
        key: &[u8],
        options: &ReadOptions,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        if self.context.measures() {
            let found = self.get(family, key, options)?;
            return Ok(found.map(|value| read(&value)));
        }
        self.read_to::<_, false>(family, key, options, PassTo(read))
    }

    /// Reads the value of one key and hands it to `destination`, a slot or a callback.
    ///
    /// The code is inlined: there is no call on the path of a key in the first window of a cuckoo
    /// table. `COUNTED` tells whether the level that has the key is counted in the statistics.
    #[inline(always)]
    fn read_to<D: Destination, const COUNTED: bool>(
        &self,
        family: &ColumnFamilyData,
        key: &[u8],
        options: &ReadOptions,
        destination: D,
    ) -> D::Answer {
        if let Err(error) = self.health.check_open() {
            return destination.take(Err(error));
        }
        family.super_version.with(|super_version| {
            match self.view_at_any_time(family, super_version, options) {
                Err(error) => destination.take(Err(error)),
                Ok((super_version, seqno)) => {
                    match super_version.cuckoo_level(options.takes_level()) {
                        Some(level) => destination.read_level(level, key, seqno),
                        None => {
                            let found =
                                self.search::<COUNTED>(family, super_version, key, seqno, options);
                            destination.take(match family.ttl {
                                Some(_) => ttl::strip(found),
                                None => found,
                            })
                        }
                    }
                }
            }
        })
    }

    /// Looks up one key in memtables and tables, by the variant for the options and perf level.
    #[inline(never)]
    fn search<const COUNTED: bool>(
        &self,
        family: &ColumnFamilyData,
        super_version: &Arc<SuperVersion>,
        key: &[u8],
        seqno: SeqNo,
        options: &ReadOptions,
    ) -> Result<Option<PinnedSlice>> {
        if family.has_timestamps || options.names_timestamps() {
            check_time(family, super_version, options)?;
            let mut lookup = Lookup::new(key, seqno);
            self.search_at(super_version, &mut lookup, options)?;
            return lookup.finish(|| super_version.merger(options.fetch_options()));
        }
        if options.is_bounded() {
            return self.search_bounded(super_version, key, seqno, options);
        }
        if perf::is_on() {
            return self.search_measured(super_version, key, seqno, options);
        }
        self.search_with::<false, COUNTED>(super_version, key, seqno, options)
    }

    /// Looks up one key in a thread with an enabled perf context, with timers and counters.
    #[cold]
    fn search_measured(
        &self,
        super_version: &Arc<SuperVersion>,
        key: &[u8],
        seqno: SeqNo,
        options: &ReadOptions,
    ) -> Result<Option<PinnedSlice>> {
        perf::count(PerfMetric::GetFromMemtableCount, 1);
        let found = self.search_with::<true, true>(super_version, key, seqno, options)?;
        let bytes = found.as_ref().map_or(0, |value| value.len());
        perf::count(PerfMetric::GetReadBytes, bytes as u64);
        Ok(found)
    }

    /// Looks up one key with blocking reads.
    ///
    /// `MEASURED` tells whether perf timers run, `COUNTED` whether there may be statistics.
    #[inline(always)]
    fn search_with<const MEASURED: bool, const COUNTED: bool>(
        &self,
        super_version: &Arc<SuperVersion>,
        key: &[u8],
        seqno: SeqNo,
        options: &ReadOptions,
    ) -> Result<Option<PinnedSlice>> {
        let timed = |metric| MEASURED.then(|| perf::timer(metric));
        let mut lookup = Lookup::new(key, seqno);
        if matches!(super_version.options.table_factory, TableFormat::Cuckoo(_)) {
            super_version.version.prefetch(lookup.seek_key());
        }
        let timer = timed(PerfMetric::GetFromMemtableTime);
        search_memtables(self, super_version, &mut lookup, options)?;
        drop(timer);
        if !lookup.is_settled() {
            let _timer = timed(PerfMetric::GetFromOutputFilesTime);
            let mut source =
                BlockingSource::new(options.block_read_options(&self.context.table_files));
            let runs = super_version.runs_above()..usize::MAX;
            let tables = &super_version.tables;
            let version = &super_version.version;
            let found = |hit| {
                if COUNTED {
                    self.context.count(hit, 1);
                }
            };
            version.search(tables, &mut lookup, &mut source, runs, found)?;
        }
        let _timer = timed(PerfMetric::GetPostProcessTime);
        lookup.finish(|| super_version.merger(options.fetch_options()))
    }

    /// Looks up one key under a deadline or I/O timeout, with device reads in other threads.
    #[cold]
    fn search_bounded(
        &self,
        super_version: &Arc<SuperVersion>,
        key: &[u8],
        seqno: SeqNo,
        options: &ReadOptions,
    ) -> Result<Option<PinnedSlice>> {
        let mut lookup = Lookup::new(key, seqno);
        self.settle(super_version, &mut lookup, options)?;
        let context = SearchContext::new(super_version, options, self);
        let parts = read_together(&context, std::slice::from_ref(&lookup), false, true);
        let blobs = BatchBlobs::new(super_version, &parts);
        lookup.finish(|| {
            super_version
                .merger(options.fetch_options())
                .with_blobs(&blobs)
        })
    }

    /// Searches memtables and tables until `lookup` is decided, with device reads in other threads.
    pub(super) fn settle(
        &self,
        super_version: &Arc<SuperVersion>,
        lookup: &mut Lookup,
        options: &ReadOptions,
    ) -> Result<()> {
        search_memtables_of(self, super_version, lookup, options)?;
        let context = SearchContext::new(super_version, options, self);
        let mut suspended = SuspendedLookups::blocking(&context);
        let mut outcome = Ok(());
        if !lookup.is_settled() && !suspended.begin_one(&context, lookup)? {
            let lookups = std::slice::from_mut(lookup);
            suspended.wait(&context, lookups, &mut |_, error| outcome = Err(error));
        }
        outcome
    }

    /// Records a point read in the statistics: keys, bytes and elapsed time.
    #[cold]
    pub(super) fn record_get(&self, found: Option<&PinnedSlice>, begun: std::time::Duration) {
        let bytes = found.map_or(0, |value| value.len()) as u64;
        self.context.count(Ticker::NumberKeysRead, 1);
        self.context.count(Ticker::BytesRead, bytes);
        self.context.record(HistogramKind::BytesPerRead, bytes);
        self.context.record_elapsed(HistogramKind::DbGet, begun);
    }
}

/// The receiver of a point lookup's result: a slot for the value, or a callback.
trait Destination {
    type Answer;

    /// Looks up a key in a level of cuckoo tables and delivers the result.
    fn read_level(self, level: &CuckooLevel, key: &[u8], seqno: SeqNo) -> Self::Answer;

    /// Delivers the result of a lookup in memtables and tables.
    fn take(self, found: Result<Option<PinnedSlice>>) -> Self::Answer;
}

/// A destination that stores the value, as a pinned slice, in a caller's slot.
///
/// Out-parameter: returning the value by move causes store-forwarding stalls.
struct Pin<'o>(&'o mut Result<Option<PinnedSlice>>);

impl Destination for Pin<'_> {
    type Answer = ();

    #[inline(always)]
    fn read_level(self, level: &CuckooLevel, key: &[u8], seqno: SeqNo) {
        level.get_to(key, seqno, self.0);
    }

    #[inline(always)]
    fn take(self, found: Result<Option<PinnedSlice>>) {
        *self.0 = found;
    }
}

/// A destination that passes the value to a callback and returns its result.
struct PassTo<F>(F);

impl<R, F: FnOnce(&[u8]) -> R> Destination for PassTo<F> {
    type Answer = Result<Option<R>>;

    #[inline(always)]
    fn read_level(self, level: &CuckooLevel, key: &[u8], seqno: SeqNo) -> Result<Option<R>> {
        level.get_with(key, seqno, self.0)
    }

    #[inline(always)]
    fn take(self, found: Result<Option<PinnedSlice>>) -> Result<Option<R>> {
        Ok(found?.map(|value| (self.0)(&value)))
    }
}

/// Whether a read with `ReadTier::Persisted` must skip memtables, since they have unlogged writes.
///
/// (RocksDB: `DBImpl::has_unpersisted_data_`.)
#[inline]
pub(super) fn skips_memtables(reads: &Reads, options: &ReadOptions) -> bool {
    options.read_tier == ReadTier::Persisted && reads.visibility.has_unlogged()
}

/// Looks up one key in the memtables, newest first.
#[inline(always)]
pub(crate) fn search_memtables(
    reads: &Reads,
    super_version: &SuperVersion,
    lookup: &mut Lookup,
    options: &ReadOptions,
) -> Result<()> {
    if skips_memtables(reads, options) {
        return Ok(());
    }
    super_version.memtable.search(lookup)?;
    lookup.checkpoint();
    for sealed in &super_version.sealed {
        if lookup.is_settled() {
            break;
        }
        sealed.search(lookup)?;
        lookup.checkpoint();
    }
    if let Some(statistics) = &reads.context.statistics {
        count_memtable_search(statistics, std::slice::from_ref(lookup));
    }
    if options.read_tier == ReadTier::Memtable && !lookup.is_settled() {
        return Err(needs_io());
    }
    Ok(())
}

/// Looks up one key in the memtables, at the timestamp of the options if they name one.
pub(super) fn search_memtables_of(
    reads: &Reads,
    super_version: &SuperVersion,
    lookup: &mut Lookup,
    options: &ReadOptions,
) -> Result<()> {
    match options.timestamp {
        Some(_) => search_memtables_at(reads, super_version, lookup, options),
        None => search_memtables(reads, super_version, lookup, options),
    }
}

/// Counts the memtable hits and misses of lookups in the statistics.
#[cold]
fn count_memtable_search(statistics: &Statistics, lookups: &[Lookup]) {
    let hits = lookups.iter().filter(|lookup| lookup.is_settled()).count();
    statistics.add_all(&[
        (Ticker::MemtableHit, hits as u64),
        (Ticker::MemtableMiss, (lookups.len() - hits) as u64),
    ]);
}

/// Looks up a batch of keys, in key order, in the memtables, newest first.
///
/// Errors are passed to `fail`, with the index of the lookup.
pub(crate) fn search_memtables_batch(
    reads: &Reads,
    super_version: &SuperVersion,
    lookups: &mut [Lookup],
    options: &ReadOptions,
    fail: &mut impl FnMut(usize, Error),
) {
    if skips_memtables(reads, options) {
        return;
    }
    if options.timestamp.is_some() {
        for (index, lookup) in lookups.iter_mut().enumerate() {
            if let Err(error) = search_memtables_at(reads, super_version, lookup, options) {
                fail(index, error);
            }
        }
        return;
    }
    for memtable in std::iter::once(&super_version.memtable).chain(&super_version.sealed) {
        memtable.search_batch(lookups, &mut *fail);
        for lookup in lookups.iter_mut().filter(|lookup| !lookup.is_settled()) {
            lookup.checkpoint();
        }
    }
    if let Some(statistics) = &reads.context.statistics {
        count_memtable_search(statistics, lookups);
    }
    if options.read_tier == ReadTier::Memtable {
        for (index, lookup) in lookups.iter().enumerate() {
            if !lookup.is_settled() {
                fail(index, needs_io());
            }
        }
    }
}

/// Returns the `Incomplete` error of a read that needs tables but excludes I/O.
#[cold]
pub(super) fn needs_io() -> Error {
    Error::with_kind(
        ErrorKind::Incomplete,
        "the memtables do not decide the value of the key, and the read tier excludes I/O",
    )
}
