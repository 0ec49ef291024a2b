//! Long runs of deleted keys: a scan proposes their ranges, and passes known ones by one seek.

use koeldb_base::key::{MAX_SEQNO, encode_into};
use koeldb_base::{Fault, ValueType};
use koeldb_lsm::cursor::RunsCursor;

use super::{Scan, Step};
use crate::state::deleted_ranges::DeletedRun;

/// The number of deleted keys that a scan steps over between searches of the deleted ranges.
pub(super) const DELETED_STEPS: u32 = 16;
/// The number of successive deleted keys from which a scan proposes them as a deleted range.
pub(super) const DELETED_RUN: u32 = 128;

impl<C: RunsCursor> Scan<'_, C> {
    /// Seeks past a range around the current key in which all keys are known to be deleted.
    ///
    /// Returns `false` if no such range is known.
    #[cold]
    #[inline(never)]
    pub(super) fn skip_deleted(
        &mut self,
        deleted: u32,
        forward: bool,
    ) -> Result<bool, Fault<C::Suspend>> {
        let Some(ranges) = &self.view.deleted_ranges else {
            return Ok(false);
        };
        let order = &self.view.order;
        let run = &mut self.deleted_run;
        if deleted == DELETED_STEPS {
            run.keys = 0;
            let end = if forward {
                &mut run.lower
            } else {
                &mut run.upper
            };
            end.clone_from(&self.key);
        }
        let Some(found) = ranges.find(order, &self.key, self.view.seqno, forward) else {
            return Ok(false);
        };
        let DeletedRun { lower, upper, keys } = found;
        run.keys += keys;
        let end = if forward { &upper } else { &lower };
        encode_into(&mut self.target, end, MAX_SEQNO, ValueType::FOR_SEEK);
        if forward && order.compare(&lower, &run.lower).is_lt() {
            run.lower = lower;
        } else if !forward && order.compare(&upper, &run.upper).is_gt() {
            run.upper = upper;
        }
        self.cut_target(forward);
        match forward {
            true => self.inner.seek(&self.target)?,
            false => self.inner.seek_for_prev(&self.target)?,
        }
        Ok(true)
    }

    /// Proposes a long run of deleted keys as a deleted range, which later scans can skip.
    #[cold]
    #[inline(never)]
    pub(super) fn end_deleted_run(&mut self, deleted: u32, forward: bool) {
        let Some(ranges) = &self.view.deleted_ranges else {
            return;
        };
        let mut run = std::mem::take(&mut self.deleted_run);
        run.keys += u64::from(deleted);
        if forward {
            // All keys before this one were deleted.
            run.upper.clone_from(&self.key);
        }
        self.has_proposed |= ranges.record_run(&self.view.order, run, self.view.seqno);
    }

    /// Returns whether the scan has proposed a deleted range since the last call.
    #[inline]
    pub(crate) fn take_proposed(&mut self) -> bool {
        self.has_proposed && std::mem::take(&mut self.has_proposed)
    }

    /// Adds the current deleted key to the run of a backward scan, and skips known deleted ranges.
    #[cold]
    #[inline(never)]
    pub(super) fn pass_deleted_backward(&mut self, deleted: u32) -> Step<C> {
        if deleted.is_multiple_of(DELETED_STEPS) {
            self.skip_deleted(deleted, false)?;
        }
        // After the first look, which begins the run.
        self.deleted_run.lower.clone_from(&self.key);
        Ok(())
    }
}
