//! Point reads: memtables newest first, then the tables, until the look-up is settled.

use std::sync::Arc;

use koeldb_base::stats::{HistogramKind, Ticker};
use koeldb_base::{Error, ErrorKind, Lookup, PinnedSlice, Result, SeqNo};
use koeldb_table::cuckoo::level::CuckooLevel;
use koeldb_table::source::BlockingSource;

use super::overlap::Overlap;
use crate::family::FamilyData;
use crate::inner::DbInner;
use crate::options::{ReadOptions, ReadTier, TableFormat};
use crate::super_version::SuperVersion;

impl DbInner {
    /// The newest write that a read with `options` sees.
    ///
    /// # Errors
    /// `InvalidArgument` if the snapshot is another database's.
    #[inline]
    pub(crate) fn read_seqno(&self, options: &ReadOptions) -> Result<SeqNo> {
        match options.get_snapshot() {
            None => Ok(self.visible_seqno()),
            Some(snapshot) if snapshot.database_id() == self.id => Ok(snapshot.sequence_number()),
            Some(_) => Err(Error::invalid_argument(
                "the snapshot belongs to another database",
            )),
        }
    }

    /// Reads one key.
    #[inline]
    pub(crate) fn get(
        &self,
        family: &FamilyData,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<Option<PinnedSlice>> {
        // Made where the caller has it, by all ways the same: each time it is handed on, in pieces of other sizes than it
        // was stored in, waits until all before it is done.
        let mut found = Ok(None);
        if self.measures() {
            self.get_measured(family, key, options, &mut found);
        } else {
            self.get_to(family, key, options, &mut found);
        }
        found
    }

    #[cold]
    fn get_measured(
        &self,
        family: &FamilyData,
        key: &[u8],
        options: &ReadOptions,
        found: &mut Result<Option<PinnedSlice>>,
    ) {
        let begun = self.clock.now();
        self.get_to(family, key, options, found);
        if let Ok(found) = found {
            self.note_get(found.as_ref(), begun);
        }
    }

    /// Reads one key whose answer is `Ok(None)` so far, in one piece: there is no call on the way of a key that is in the
    /// first window of a cuckoo table.
    #[inline(never)]
    fn get_to(
        &self,
        family: &FamilyData,
        key: &[u8],
        options: &ReadOptions,
        found: &mut Result<Option<PinnedSlice>>,
    ) {
        if let Err(error) = self.check_open() {
            *found = Err(error);
            return;
        }
        family.super_version.with(|super_version| {
            // Read after the super-version was taken: one that is newer may lack what this number sees and a later one hides.
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

    /// Reads one key and shows its value to `read`.
    #[inline]
    pub(crate) fn get_with<R>(
        &self,
        family: &FamilyData,
        key: &[u8],
        options: &ReadOptions,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        if self.measures() {
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

    /// Reads one key in a state of its family.
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

    /// The same for a read that is given up when it takes too long: others make its reads.
    #[cold]
    fn get_bounded(
        &self,
        super_version: &SuperVersion,
        key: &[u8],
        seqno: SeqNo,
        options: &ReadOptions,
    ) -> Result<Option<PinnedSlice>> {
        let deadline = options.deadline.map(|at| self.clock.time_of(at));
        let mut lookup = Lookup::new(key, seqno);
        search_memtables(super_version, &mut lookup, options)?;
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
        search_memtables(super_version, &mut lookup, options)?;
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

    /// Whether clocks and per-read counters are wanted.
    #[inline]
    pub(crate) fn measures(&self) -> bool {
        self.statistics.is_some()
    }

    #[cold]
    pub(super) fn note_get(&self, found: Option<&PinnedSlice>, begun: std::time::Duration) {
        self.count(Ticker::NumberKeysRead, 1);
        if let Some(value) = found {
            self.count(Ticker::BytesRead, value.len() as u64);
            self.record(HistogramKind::BytesPerRead, value.len() as u64);
        }
        self.record_elapsed(HistogramKind::DbGet, begun);
    }
}

/// All there is of a family, if that is cuckoo tables of one level: what was acknowledged before the super-version was taken is
/// in them, for its memtables are empty.
#[inline]
pub(crate) fn cuckoo_alone(super_version: &SuperVersion) -> Option<&CuckooLevel> {
    let is_cuckoo = || matches!(super_version.options.table_factory, TableFormat::Cuckoo(_));
    if !super_version.sealed.is_empty() || !super_version.memtable.is_empty() {
        return None;
    }
    (super_version.version).cuckoo(|| is_cuckoo().then_some(&*super_version.tables))
}

/// Searches the memtables, newest first.
#[inline]
pub(crate) fn search_memtables(
    super_version: &SuperVersion,
    lookup: &mut Lookup,
    options: &ReadOptions,
) -> Result<()> {
    if options.read_tier == ReadTier::Persisted {
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
        return Err(undecided());
    }
    Ok(())
}

/// Searches the memtables, newest first, for a batch of look-ups in key order; what one of them failed with goes to
/// `fail`, with its index.
pub(crate) fn search_memtables_batch(
    super_version: &SuperVersion,
    lookups: &mut [Lookup],
    options: &ReadOptions,
    fail: &mut impl FnMut(usize, Error),
) {
    if options.read_tier == ReadTier::Persisted {
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
                fail(index, undecided());
            }
        }
    }
}

#[cold]
fn undecided() -> Error {
    Error::with_kind(
        ErrorKind::Incomplete,
        "the key is not decided by memtables alone",
    )
}
