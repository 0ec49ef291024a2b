//! The plan of the scan of a cursor: the runs that it merges, and the settings from the options.

use std::sync::Arc;

use koeldb_base::range_del::RunTombstones;
use koeldb_base::timestamp::EntryVersion;
use koeldb_base::{ArcRef, Cursor, Error, Fault, PinnedSlice, Result, SeqNo};
use koeldb_lsm::cursor::{LevelCursor, MergingCursor};
use koeldb_lsm::version::VersionBlobs;
use koeldb_memtable::{Memtable, MemtableCursor};
use koeldb_table::blob::BlobReadahead;
use koeldb_table::block_based::readahead::ahead::ScanLimits;
use koeldb_table::block_based::readahead::scan_reads::{
    SCAN_BYTES, ScanReads, ScanSuspended, TimeLimits,
};
use koeldb_table::block_based::readahead::scan_source::ScanSource;
use koeldb_table::reader::{TableCursor, TableCursorOptions};

use super::blocking_cursor::BlockingCursor;
use super::dated::{Dated, ReadTime};
use super::options::ReadOptions;
use super::prefix_use::PrefixUse;
use super::scan::{Scan, ScanContext};
use super::scan_tombstones::ScanTombstones;
use crate::engine::inner::OpenColumnFamily;
use crate::options::{ReadTier, Switch};
use crate::state::key_bounds::KeyBounds;
use crate::state::super_version::SuperVersion;

/// A cursor over one sorted run of a scan: a memtable, a level 0 table, or a deeper level.
#[expect(
    clippy::large_enum_variant,
    reason = "runs are made once a scan, and stepped often"
)]
pub(super) enum RunCursor<'h> {
    Memtable(MemtableCursor<'h>),
    Table(TableCursor<'h, ScanSource>),
    Level(LevelCursor<'h, ScanSource>),
    /// A run as a read at a user-defined timestamp sees it.
    Dated(Box<Dated<RunCursor<'h>>>),
}

impl<'h> RunCursor<'h> {
    /// Returns the run as a read at a user-defined timestamp sees it.
    fn dated(self, time: &ReadTime) -> RunCursor<'h> {
        RunCursor::Dated(Box::new(Dated::new(self, time.clone())))
    }
}

macro_rules! each_run {
    ($self:expr, $cursor:ident => $call:expr) => {
        match $self {
            RunCursor::Memtable($cursor) => $call,
            RunCursor::Table($cursor) => $call,
            RunCursor::Level($cursor) => $call,
            RunCursor::Dated($cursor) => $call,
        }
    };
}

/// Calls a move of the run's cursor; a memtable never suspends.
macro_rules! each_move {
    ($self:expr, $cursor:ident => $call:expr) => {
        match $self {
            RunCursor::Memtable($cursor) => $call.map_err(Fault::widen),
            RunCursor::Table($cursor) => $call,
            RunCursor::Level($cursor) => $call,
            RunCursor::Dated($cursor) => $call,
        }
    };
}

/// The merged runs of a column family.
pub(super) type Runs<'h> = BlockingCursor<MergingCursor<RunCursor<'h>>>;

impl Cursor for RunCursor<'_> {
    type Suspend = ScanSuspended;

    #[inline]
    fn valid(&self) -> bool {
        each_run!(self, cursor => cursor.valid())
    }

    fn seek_to_first(&mut self) -> Result<(), Fault<ScanSuspended>> {
        each_move!(self, cursor => cursor.seek_to_first())
    }

    fn seek_to_last(&mut self) -> Result<(), Fault<ScanSuspended>> {
        each_move!(self, cursor => cursor.seek_to_last())
    }

    fn seek(&mut self, target: &[u8]) -> Result<(), Fault<ScanSuspended>> {
        each_move!(self, cursor => cursor.seek(target))
    }

    fn seek_for_prev(&mut self, target: &[u8]) -> Result<(), Fault<ScanSuspended>> {
        each_move!(self, cursor => cursor.seek_for_prev(target))
    }

    #[inline]
    fn next(&mut self) -> Result<(), Fault<ScanSuspended>> {
        each_move!(self, cursor => cursor.next())
    }

    #[inline]
    fn prev(&mut self) -> Result<(), Fault<ScanSuspended>> {
        each_move!(self, cursor => cursor.prev())
    }

    #[inline]
    fn key(&self) -> &[u8] {
        each_run!(self, cursor => cursor.key())
    }

    #[inline]
    fn value(&self) -> &[u8] {
        each_run!(self, cursor => cursor.value())
    }

    fn pinned_value(&self) -> PinnedSlice {
        each_run!(self, cursor => cursor.pinned_value())
    }

    fn version(&self) -> Option<EntryVersion> {
        each_run!(self, cursor => cursor.version())
    }
}

/// The parameters from which a cursor's scan over a super version is built.
pub(super) struct ScanPlan<'c> {
    pub(super) family: &'c OpenColumnFamily,
    pub(super) options: &'c ReadOptions,
    pub(super) bounds: &'c KeyBounds,
    pub(super) time_limits: TimeLimits,
    pub(super) prefix_use: PrefixUse,
    /// The timestamps that the scan sees, if keys have them.
    pub(super) time: Option<&'c ReadTime>,
}

impl ScanPlan<'_> {
    /// Builds the scan over the memtables and tables of a super version as of `seqno`.
    pub(super) fn build<'h>(
        &self,
        super_version: &'h SuperVersion,
        seqno: SeqNo,
    ) -> Result<Scan<'h, Runs<'h>>> {
        let options = self.options;
        if options.read_tier == ReadTier::Persisted {
            return Err(Error::not_supported(
                "ReadTier::Persisted is for point reads, not for scans",
            ));
        }
        let limits = Arc::new(ScanLimits::new());
        let reads = self.overlapping_reads();
        let order = &self.family.data().order;
        let mut tombstones = ScanTombstones::new(order, seqno);
        if !matches!(self.prefix_use, PrefixUse::None) {
            tombstones.never_seek();
        }
        // The exact capacity: a cursor is large, and room for one more moves the allocation to a
        // larger size class.
        let mut runs = Vec::with_capacity(runs_of(super_version));
        self.add_memtables(super_version, &mut runs, &mut tombstones);
        if options.read_tier != ReadTier::Memtable {
            let source = ScanSource::new(
                options.block_read_options(&self.family.inner().context.table_files),
                options.readahead_policy(&super_version.options),
                Arc::clone(&limits),
                reads.clone(),
            );
            self.add_tables(super_version, &source, &mut runs, &mut tombstones)?;
        }
        if let Some(time) = self.time {
            return Ok(self.build_dated(time, (super_version, seqno), (runs, tombstones, reads)));
        }
        Ok(Scan::new(
            BlockingCursor::new(MergingCursor::new(order.clone(), runs), reads),
            self.context(super_version, seqno, tombstones),
            self.bounds.clone(),
            limits,
        ))
    }

    /// Builds the scan of the versions that a read at a user-defined timestamp sees.
    #[cold]
    fn build_dated<'h>(
        &self,
        time: &ReadTime,
        (super_version, seqno): (&'h SuperVersion, SeqNo),
        (runs, tombstones, reads): (Vec<RunCursor<'h>>, ScanTombstones, Option<Arc<ScanReads>>),
    ) -> Scan<'h, Runs<'h>> {
        let order = time.scan_order();
        let runs: Vec<_> = runs.into_iter().map(|run| run.dated(time)).collect();
        let mut context = self.context(super_version, seqno, tombstones.at(time));
        context.order = order.clone();
        context.has_versions = true;
        Scan::new(
            BlockingCursor::new(MergingCursor::new(order, runs), reads),
            context,
            time.scan_bounds(self.bounds),
            // Readahead compares bounds with keys that have timestamps: it gets none.
            Arc::new(ScanLimits::new()),
        )
    }

    /// Adds cursors and range tombstones of the memtables to the scan, newest first.
    fn add_memtables<'h>(
        &self,
        super_version: &'h SuperVersion,
        runs: &mut Vec<RunCursor<'h>>,
        tombstones: &mut ScanTombstones,
    ) {
        let extractor = super_version.options.prefix_extractor.as_ref();
        for memtable in memtables_of(super_version) {
            let cursor = match (extractor, self.prefix_use) {
                (None, _) | (_, PrefixUse::None) => memtable.borrowing_cursor(),
                (Some(prefixes), PrefixUse::Bucket) => memtable.prefix_cursor(prefixes),
                (Some(prefixes), PrefixUse::Filter | PrefixUse::OneWay(_)) => {
                    memtable.filtered_prefix_cursor(prefixes)
                }
            };
            runs.push(RunCursor::Memtable(cursor));
            if !self.options.ignore_range_deletions {
                for list in memtable.tombstone_lists() {
                    let own = RunTombstones::new([list]);
                    tombstones.extend(own.map(|own| (own, runs.len())));
                }
            }
        }
    }

    /// Adds cursors and range tombstones of the level 0 tables, newest first, and of deeper levels.
    fn add_tables<'h>(
        &self,
        super_version: &'h SuperVersion,
        source: &ScanSource,
        runs: &mut Vec<RunCursor<'h>>,
        tombstones: &mut ScanTombstones,
    ) -> Result<()> {
        let options = self.options;
        let (version, tables) = (&super_version.version, &super_version.tables);
        let extractor = super_version.options.prefix_extractor.as_ref();
        let table_options = TableCursorOptions {
            prefix_extractor: extractor.filter(|_| self.prefix_use.filters()).cloned(),
        };
        if !options.ignore_range_deletions {
            // The runs that are older than those of each list.
            let of_tables = version.tombstones(tables)?.iter();
            let first = runs.len() + 1;
            tombstones.extend(of_tables.map(|(run, own)| (own.clone(), first + run)));
        }
        for file in &version.levels[0].files {
            let reader = tables.reader(file, 0)?;
            if !options.reads_table(&reader) {
                continue;
            }
            let source = source.clone();
            // Pushed in each arm: a cursor is large, and a common place would cost a copy.
            match reader {
                ArcRef::Borrowed(reader) => runs.push(RunCursor::Table(
                    reader.borrowing_cursor(source, &table_options),
                )),
                ArcRef::Counted(reader) => {
                    runs.push(RunCursor::Table(reader.cursor(source, &table_options)));
                }
            }
        }
        for level in 1..version.levels.len() {
            if !version.levels[level].files.is_empty() {
                let mut cursor = LevelCursor::new(
                    version,
                    level,
                    tables,
                    source.clone(),
                    table_options.clone(),
                );
                if options.table_filter.is_some() {
                    cursor = cursor.restricted(|reader| options.reads_table(reader))?;
                }
                runs.push(RunCursor::Level(cursor));
            }
        }
        Ok(())
    }

    /// Returns the fixed parameters of the scan.
    fn context<'h>(
        &self,
        super_version: &'h SuperVersion,
        seqno: SeqNo,
        tombstones: ScanTombstones,
    ) -> ScanContext<'h> {
        let options = self.options;
        let extractor = super_version.options.prefix_extractor.as_ref();
        ScanContext {
            order: self.family.data().order.clone(),
            seqno,
            has_versions: false,
            merger: super_version.merger(options.fetch_options()),
            blobs: (!super_version.version.blob_files.is_empty()
                && options.read_tier != ReadTier::BlockCache)
                .then(|| Box::new(self.blobs(super_version))),
            // The time at the end of a value is checked at each step.
            leaves_values: (options.allow_unprepared_value || options.keys_only)
                && self.family.data().ttl.is_none(),
            tombstones,
            prefix_extractor: match options.prefix_same_as_start {
                true => extractor.map(|extractor| &**extractor),
                false => None,
            },
            skips_before_seek: super_version.options.max_sequential_skip_in_iterations,
            skippable_max: match options.max_skippable_internal_keys {
                0 => u64::MAX,
                max => max,
            },
            statistics: super_version.tables.context().statistics.as_ref(),
            deleted_ranges: self
                .sees_all_entries()
                .then_some(&*super_version.deleted_ranges),
        }
    }

    /// Returns the values in blob files, which the scan reads ahead.
    #[cold]
    fn blobs<'h>(&self, super_version: &'h SuperVersion) -> VersionBlobs<'h> {
        let blobs = VersionBlobs::new(
            &super_version.version,
            &super_version.tables,
            self.options.verify_checksums,
            BlobReadahead::BYTES_MAX,
        )
        .with_cache(self.options.fetch_options().cache);
        match self.time {
            // The runs show keys without timestamps.
            Some(time) if time.oldest.is_none() => blobs.without_timestamps(),
            _ => blobs,
        }
    }

    /// Whether the scan reads all entries: the options leave out no table or range tombstone.
    fn sees_all_entries(&self) -> bool {
        let options = self.options;
        matches!(self.prefix_use, PrefixUse::None)
            && self.time.is_none()
            && options.read_tier != ReadTier::Memtable
            && options.table_filter.is_none()
            && !options.ignore_range_deletions
    }

    /// Returns the asynchronous reads of a scan, if `async_io` or a time limit requires them.
    ///
    /// This applies if it is requested, or if the choice is left to the engine and the system does
    /// not cache reads; or if the scan has a time limit, since only reads of other threads can be
    /// abandoned.
    fn overlapping_reads(&self) -> Option<Arc<ScanReads>> {
        let reads = &self.family.inner().reads;
        let wanted = match self.options.async_io {
            Switch::On => true,
            Switch::Off => false,
            Switch::Auto => reads.context.db_options.use_direct_reads,
        };
        let engine = &reads.scan_engine;
        let blocks = self.options.block_read_options(&reads.context.table_files);
        let overlaps = wanted && engine.is_parallel() || self.options.is_bounded();
        (overlaps && !blocks.cache_only)
            .then(|| ScanReads::new(engine, blocks, SCAN_BYTES, self.time_limits))
    }
}

/// Returns the non-empty memtables of a super version, newest first.
fn memtables_of(super_version: &SuperVersion) -> impl Iterator<Item = &Arc<Memtable>> {
    let all = std::iter::once(&super_version.memtable).chain(&super_version.sealed);
    all.filter(|memtable| !memtable.is_empty())
}

/// Returns the number of sorted runs that a scan of a super version merges at most.
fn runs_of(super_version: &SuperVersion) -> usize {
    let levels = &super_version.version.levels;
    let deep = levels.iter().skip(1);
    let deep = deep.filter(|level| !level.files.is_empty());
    memtables_of(super_version).count() + levels[0].files.len() + deep.count()
}
