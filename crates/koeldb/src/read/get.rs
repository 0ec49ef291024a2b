//! Point reads: memtables from newest to oldest, then tables, until the lookup is settled.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use koeldb_base::stats::{HistogramKind, Ticker};
use koeldb_base::{Error, ErrorKind, Lookup, PinnedSlice, Result, SeqNo};
use koeldb_table::cuckoo::level::CuckooLevel;
use koeldb_table::source::BlockingSource;

use super::overlap::Overlap;
use crate::column_family_data::ColumnFamilyData;
use crate::inner::DbInner;
use crate::options::{ReadOptions, ReadTier, TableFormat};
use crate::super_version::SuperVersion;

impl DbInner {
    /// Returns the latest sequence number visible to a read with `options`.
    ///
    /// # Errors
    /// `InvalidArgument` if the snapshot is of another database.
    #[inline]
    pub(crate) fn read_seqno(&self, options: &ReadOptions) -> Result<SeqNo> {
        match options.get_snapshot() {
            None => Ok(self.visible_seqno()),
            Some(snapshot) if snapshot.database_id() == self.context.id => {
                Ok(snapshot.sequence_number())
            }
            Some(_) => Err(Error::invalid_argument(
                "the snapshot belongs to another database",
            )),
        }
    }

    /// Reads one key.
    #[inline]
    pub(crate) fn get(
        &self,
        family: &ColumnFamilyData,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<Option<PinnedSlice>> {
        // All paths construct the result in the caller's memory: each hand-over, in pieces of other
        // sizes than it was stored in, would wait until all earlier instructions are done.
        let mut found = Ok(None);
        if self.context.measures() {
            self.get_measured(family, key, options, &mut found);
        } else {
            self.get_to(family, key, options, &mut found);
        }
        found
    }

    #[cold]
    fn get_measured(
        &self,
        family: &ColumnFamilyData,
        key: &[u8],
        options: &ReadOptions,
        found: &mut Result<Option<PinnedSlice>>,
    ) {
        let begun = self.context.clock.now();
        self.get_to(family, key, options, found);
        if let Ok(found) = found {
            self.record_get(found.as_ref(), begun);
        }
    }

    /// Reads one key whose result is `Ok(None)` so far.
    ///
    /// The code is inlined: there is no call on the path of a key in the first window of a cuckoo
    /// table.
    #[inline(never)]
    fn get_to(
        &self,
        family: &ColumnFamilyData,
        key: &[u8],
        options: &ReadOptions,
        found: &mut Result<Option<PinnedSlice>>,
    ) {
        if let Err(error) = self.check_open() {
            *found = Err(error);
            return;
        }
        family.super_version.with(|super_version| {
            // Read after taking the super-version: a newer super-version may lack entries that this
            // number sees and a later one hides.
            match self.read_seqno(options) {
                Err(error) => *found = Err(error),
                Ok(seqno) => {
                    if options.read_tier != ReadTier::Memtable
                        && let Some(level) = cuckoo_alone(super_version)
                    {
                        level.get_to(key, seqno, found);
                    } else {
                        *found = self.get_in(super_version, key, seqno, options);
                    }
                }
            }
        });
    }

    /// Reads one key and passes its value to `read`.
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
        self.check_open()?;
        family.super_version.with(|super_version| {
            let seqno = self.read_seqno(options)?;
            if options.read_tier != ReadTier::Memtable
                && let Some(level) = cuckoo_alone(super_version)
            {
                return level.get_with(key, seqno, read);
            }
            let found = self.get_in(super_version, key, seqno, options)?;
            Ok(found.map(|value| read(&value)))
        })
    }

    /// Reads one key in one state of its column family.
    #[inline(never)]
    fn get_in(
        &self,
        super_version: &Arc<SuperVersion>,
        key: &[u8],
        seqno: SeqNo,
        options: &ReadOptions,
    ) -> Result<Option<PinnedSlice>> {
        if options.is_bounded() {
            return self.get_bounded(super_version, key, seqno, options);
        }
        let mut source = BlockingSource::new(options.block_read_options());
        self.get_at(super_version, key, seqno, options, &mut source)
    }

    /// Like [`DbInner::get_in`], with a time limit: reads are made by other threads.
    #[cold]
    fn get_bounded(
        &self,
        super_version: &SuperVersion,
        key: &[u8],
        seqno: SeqNo,
        options: &ReadOptions,
    ) -> Result<Option<PinnedSlice>> {
        let deadline = options.deadline.map(|at| self.context.clock.time_of(at));
        let mut lookup = Lookup::new(key, seqno);
        search_memtables(self, super_version, &mut lookup, options)?;
        if !lookup.is_settled() {
            let mut answer = [Ok(None)];
            Overlap::new(self, super_version, options, &mut answer, &[0], deadline)
                .search(std::slice::from_mut(&mut lookup));
            let [answer] = answer;
            answer?;
        }
        lookup.finish(super_version.options.merge_operator.as_deref())
    }

    fn get_at(
        &self,
        super_version: &Arc<SuperVersion>,
        key: &[u8],
        seqno: SeqNo,
        options: &ReadOptions,
        source: &mut BlockingSource,
    ) -> Result<Option<PinnedSlice>> {
        let mut lookup = Lookup::new(key, seqno);
        if matches!(super_version.options.table_factory, TableFormat::Cuckoo(_)) {
            super_version.version.prefetch(lookup.seek_key());
        }
        search_memtables(self, super_version, &mut lookup, options)?;
        if !lookup.is_settled() {
            let runs_above = 1 + super_version.sealed.len();
            super_version.version.search(
                &super_version.tables,
                &mut lookup,
                source,
                runs_above..usize::MAX,
            )?;
        }
        lookup.finish(super_version.options.merge_operator.as_deref())
    }

    #[cold]
    pub(super) fn record_get(&self, found: Option<&PinnedSlice>, begun: std::time::Duration) {
        self.context.count(Ticker::NumberKeysRead, 1);
        if let Some(value) = found {
            self.context.count(Ticker::BytesRead, value.len() as u64);
            self.context
                .record(HistogramKind::BytesPerRead, value.len() as u64);
        }
        self.context.record_elapsed(HistogramKind::DbGet, begun);
    }
}

/// Returns the cuckoo level that holds all data of a column family, if there is one.
///
/// The tables are then cuckoo tables of one level, and hold everything acknowledged before the
/// super-version was taken, since its memtables are empty.
#[inline]
pub(crate) fn cuckoo_alone(super_version: &SuperVersion) -> Option<&CuckooLevel> {
    let is_cuckoo = || matches!(super_version.options.table_factory, TableFormat::Cuckoo(_));
    if !super_version.sealed.is_empty() || !super_version.memtable.is_empty() {
        return None;
    }
    (super_version.version).cuckoo(|| is_cuckoo().then_some(&*super_version.tables))
}

/// Whether a read must not see memtables: it asks for persisted data, and batches were written with
/// the WAL disabled, as in RocksDB (`DBImpl::has_unpersisted_data_`).
#[inline]
fn skips_memtables(db: &DbInner, options: &ReadOptions) -> bool {
    options.read_tier == ReadTier::Persisted && db.has_unlogged.load(Ordering::Relaxed)
}

/// Searches the memtables, newest first.
#[inline]
pub(crate) fn search_memtables(
    db: &DbInner,
    super_version: &SuperVersion,
    lookup: &mut Lookup,
    options: &ReadOptions,
) -> Result<()> {
    if skips_memtables(db, options) {
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
    if options.read_tier == ReadTier::Memtable && !lookup.is_settled() {
        return Err(needs_io());
    }
    Ok(())
}

/// Searches the memtables, newest first, for a batch of lookups in key order.
///
/// Errors are passed to `fail`, with the index of the lookup.
pub(crate) fn search_memtables_batch(
    db: &DbInner,
    super_version: &SuperVersion,
    lookups: &mut [Lookup],
    options: &ReadOptions,
    fail: &mut impl FnMut(usize, Error),
) {
    if skips_memtables(db, options) {
        return;
    }
    for memtable in std::iter::once(&super_version.memtable).chain(&super_version.sealed) {
        memtable.search_batch(lookups, &mut *fail);
        for lookup in lookups.iter_mut().filter(|lookup| !lookup.is_settled()) {
            lookup.checkpoint();
        }
    }
    if options.read_tier == ReadTier::Memtable {
        for (index, lookup) in lookups.iter().enumerate() {
            if !lookup.is_settled() {
                fail(index, needs_io());
            }
        }
    }
}

#[cold]
fn needs_io() -> Error {
    Error::with_kind(
        ErrorKind::Incomplete,
        "the memtables do not settle the key, and the read tier excludes I/O",
    )
}
