//! The output ranges of the running compactions of a column family.
//!
//! The marks of input files do not cover the gaps between them, but an output table may: its range
//! ends where the last key that was written to it does. A compaction therefore also claims the range
//! of all of its inputs on the levels that it writes to, and no other may write there meanwhile
//! (RocksDB: `db/compaction/compaction_picker.cc`, `FilesRangeOverlapWithCompaction`; 11.9).
//!
//! All versions of a column family share one list, as they share the marks of files.

use std::ops::RangeInclusive;
use std::sync::Mutex;

use koeldb_base::KeyOrder;
use koeldb_base::file_name::FileNumber;
use koeldb_base::sync::lock_plain as lock;

use super::key_range::KeyRange;

/// The output levels and key range of a running compaction, to which no other may write.
#[derive(Debug)]
pub(crate) struct Claim {
    /// The number of the first input file, which no other running compaction has.
    pub(crate) input: FileNumber,
    pub(crate) levels: RangeInclusive<usize>,
    pub(crate) range: KeyRange,
}

/// The output ranges of the running compactions of a column family.
#[derive(Debug, Default)]
pub struct RunningCompactions {
    claims: Mutex<Vec<Claim>>,
}

impl RunningCompactions {
    /// Registers the output range of a compaction that begins, which must overlap no other.
    pub(crate) fn enter(&self, order: &KeyOrder, claim: Claim) {
        debug_assert!(
            claim
                .levels
                .clone()
                .all(|level| !self.claims(order, level, &claim.range)),
            "two running compactions write to one range: {claim:?}, {self:?}"
        );
        lock(&self.claims).push(claim);
    }

    /// Unregisters the output range of the compaction whose first input file is `input`, if any.
    pub(crate) fn leave(&self, input: FileNumber) {
        lock(&self.claims).retain(|claim| claim.input != input);
    }

    /// Whether no output range of a running compaction is registered.
    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.claims).is_empty()
    }

    /// Whether `range` on `level` overlaps the output range of a running compaction.
    ///
    /// Files of level 0 may overlap, so nothing is claimed there.
    pub(crate) fn claims(&self, order: &KeyOrder, level: usize, range: &KeyRange) -> bool {
        lock(&self.claims)
            .iter()
            .any(|claim| claim.levels.contains(&level) && claim.range.meets(order, range))
    }

    /// Whether a table's bounds on `level` overlap the output range of a running compaction.
    ///
    /// The bounds are internal keys.
    #[must_use]
    pub fn claims_between(
        &self,
        order: &KeyOrder,
        level: usize,
        smallest: &[u8],
        largest: &[u8],
    ) -> bool {
        self.claims(order, level, &KeyRange::between(smallest, largest))
    }
}
