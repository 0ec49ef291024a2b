//! The range tombstones of the runs that a scan merges.
//!
//! A tombstone hides older entries of any run, and all entries of older runs in its range. The scan
//! asks for each entry; the answer for its key is kept for as long as no tombstone begins or ends.

use koeldb_base::range_del::{Coverage, CoveredRange, RunTombstones};
use koeldb_base::{KeyOrder, SeqNo};

use super::dated::ReadTime;

/// The range tombstones of one sorted run, and the index of the next older run.
struct OfRun {
    tombstones: RunTombstones,
    /// The index of the first run that is older.
    older: usize,
}

/// The cached newest range tombstone at a key, and the key range for which it is the newest.
struct Known {
    seqno: SeqNo,
    range: CoveredRange,
}

/// The range tombstones of all sorted runs of a scan (RocksDB: `ReadRangeDelAggregator`).
pub(crate) struct ScanTombstones {
    order: KeyOrder,
    snapshot: SeqNo,
    /// The tombstones of each run that has any, newest run first.
    runs: Vec<OfRun>,
    /// The newest sequence number of all tombstones; 0 if there are none.
    seqno_max: SeqNo,
    /// The last answer; boxed, because scans are moved while they are created.
    known: Option<Box<Known>>,
    /// Whether the scan may seek single runs past range tombstones.
    may_seek: bool,
}

impl ScanTombstones {
    /// Creates an empty set of range tombstones for a scan at sequence number `snapshot`.
    pub(crate) fn new(order: &KeyOrder, snapshot: SeqNo) -> Self {
        ScanTombstones {
            order: order.clone(),
            snapshot,
            runs: Vec::new(),
            seqno_max: 0,
            known: None,
            may_seek: true,
        }
    }

    /// Adds the range tombstones of sorted runs, newest first, with the index of the next run.
    pub(crate) fn extend(&mut self, runs: impl IntoIterator<Item = (RunTombstones, usize)>) {
        for (tombstones, older) in runs {
            self.seqno_max = self.seqno_max.max(tombstones.seqno_max());
            self.runs.push(OfRun { tombstones, older });
        }
    }

    /// Returns the tombstones that a read at a user-defined timestamp sees.
    ///
    /// The scan does not seek past them.
    pub(super) fn at(self, time: &ReadTime) -> Self {
        let mut seen = ScanTombstones::new(&time.scan_order(), self.snapshot);
        seen.never_seek();
        seen.extend(self.runs.into_iter().filter_map(|of| {
            let tombstones = match time.oldest {
                Some(_) => of.tombstones.up_to(&time.newest),
                None => of.tombstones.as_of(&time.newest),
            };
            Some((tombstones?, of.older))
        }));
        seen
    }

    /// Disables seeks past range tombstones, for cursors that filter by prefix.
    pub(crate) fn never_seek(&mut self) {
        self.may_seek = false;
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Whether a range tombstone hides the entry (RocksDB: `ShouldDelete`).
    ///
    /// Entries that are newer than all tombstones cost one comparison.
    #[inline]
    pub(crate) fn hides(&mut self, user_key: &[u8], seqno: SeqNo) -> bool {
        seqno < self.seqno_max && self.newest_over(user_key) > seqno
    }

    /// Returns the sequence number of the newest visible range tombstone over a key; 0 if none.
    #[inline(never)]
    fn newest_over(&mut self, user_key: &[u8]) -> SeqNo {
        if let Some(known) = &self.known
            && known.range.contains(&self.order, user_key)
        {
            return known.seqno;
        }
        let coverages = self.runs.iter();
        let coverage = coverages
            .map(|run| run.tombstones.coverage(user_key, self.snapshot))
            .fold(Coverage::none(), |all, one| all.and(&self.order, one));
        let known = self.known.insert(Box::new(Known {
            seqno: coverage.seqno,
            range: coverage.range(),
        }));
        known.seqno
    }

    /// Computes into `target` where a run can be sought past range tombstones of newer runs.
    ///
    /// All entries of `run` up to there are hidden. Going backward the position is the one before
    /// them. Returns `false` if no tombstone of a newer run covers the key.
    pub(crate) fn skip_target(
        &self,
        run: usize,
        user_key: &[u8],
        forward: bool,
        target: &mut Vec<u8>,
    ) -> bool {
        let newer = self
            .runs
            .iter()
            .take_while(|of| self.may_seek && of.older <= run);
        let mut tombstones = newer.map(|of| &of.tombstones);
        tombstones.any(|tombstones| match forward {
            true => tombstones.seek_behind(user_key, self.snapshot, target),
            false => tombstones.seek_before(user_key, self.snapshot, target),
        })
    }
}
