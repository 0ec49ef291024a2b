//! Converts internal entries to user entries: the newest visible version of each key, merged.
//!
//! Forward, the inner cursor is positioned on the yielded entry, unless that was merged; otherwise,
//! and always backward, the scan owns key and value, and the inner cursor is next to the entries of
//! the key, on the far side in the direction of travel. A change of direction repositions the inner
//! cursor by the key.

mod deleted_run;

use std::ops::Bound;
use std::sync::Arc;

use koeldb_base::entity::{Columns, WideColumns, with_default_column};
use koeldb_base::key::{MAX_SEQNO, encode_into, user_key};
use koeldb_base::lookup::without_preferred_seqno;
use koeldb_base::merge_operator::{Merger, merge_values};
use koeldb_base::prefix::PrefixExtractor;
use koeldb_base::stats::{Statistics, Ticker};
use koeldb_base::timestamp::EntryVersion;
use koeldb_base::{
    Cursor, Error, ErrorKind, Fault, InternalKey, KeyOrder, PinnedSlice, SeqNo, ValueType,
};
use koeldb_lsm::cursor::RunsCursor;
use koeldb_lsm::version::VersionBlobs;
use koeldb_table::block_based::readahead::ahead::ScanLimits;

use self::deleted_run::{DELETED_RUN, DELETED_STEPS};
use super::scan_tombstones::ScanTombstones;
use crate::state::deleted_ranges::{DeletedRanges, DeletedRun};
use crate::state::key_bounds::{IterateBounds, KeyBounds, PrefixRange};

/// Where a scan is positioned, relative to its inner cursor over internal entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    /// The scan is at no entry.
    Nowhere,
    /// The scan is at the entry of the inner cursor.
    Inner,
    /// The scan is at an entry that it owns; the inner cursor is after its key.
    OwnedForward,
    /// The scan is at an entry that it owns; the inner cursor is before its key.
    OwnedBackward,
}

/// The fixed parameters of a scan: sequence number, merge operator, tombstones and limits.
///
/// It borrows from the super-version for `'h`: a scan counts no references to what all scans share.
pub(crate) struct ScanContext<'h> {
    pub(crate) order: KeyOrder,
    pub(crate) seqno: SeqNo,
    /// Whether entries have versions, which the scan remembers for those that it owns.
    pub(crate) has_versions: bool,
    /// The merge operator, and the source of values in blob files if they are not read ahead.
    pub(crate) merger: Merger<'h>,
    /// The values in blob files, which are read ahead; `None` if there are none, or none may be read.
    pub(crate) blobs: Option<Box<VersionBlobs<'h>>>,
    /// Whether values stay in blob files until they are asked for.
    pub(crate) leaves_values: bool,
    pub(crate) tombstones: ScanTombstones,
    /// The prefix extractor of a scan that ends when the prefix changes.
    pub(crate) prefix_extractor: Option<&'h dyn PrefixExtractor>,
    /// The number of versions of one key stepped over before a seek skips the rest.
    pub(crate) skips_before_seek: u64,
    /// The number of entries that one movement may skip.
    pub(crate) skippable_max: u64,
    pub(crate) statistics: Option<&'h Statistics>,
    /// The known ranges of deleted keys; `None` if the scan does not see all entries.
    pub(crate) deleted_ranges: Option<&'h DeletedRanges>,
}

impl ScanContext<'_> {
    /// Returns the merge operator, and the source of values in blob files.
    fn merger(&self) -> Merger<'_> {
        match &self.blobs {
            Some(blobs) => self.merger.with_blobs(&**blobs),
            None => self.merger,
        }
    }

    /// Counts a seek that replaces steps over hidden entries (`NUMBER_OF_RESEEKS_IN_ITERATION`).
    #[cold]
    fn count_reseek(&self) {
        if let Some(statistics) = &self.statistics {
            statistics.add(Ticker::NumberOfReseeksInIteration, 1);
        }
    }
}

/// An iterator over visible user entries, from merged internal entries (RocksDB: `DBIter`).
pub(crate) struct Scan<'h, C> {
    inner: C,
    view: ScanContext<'h>,
    bounds: KeyBounds,
    at: Position,
    /// The current user key.
    key: Vec<u8>,
    /// The value of the entry, if the scan owns it.
    value: Vec<u8>,
    /// The reference to the value of the entry, if the scan owns it and has not read the value.
    reference: Option<PinnedSlice>,
    /// The columns of the entry, if the scan owns it and it is a wide-column entity.
    entity: Option<Box<WideColumns>>,
    /// The version of the entry, if the scan owns it and entries have versions.
    version: EntryVersion,
    target: Vec<u8>,
    /// The entries hidden by range tombstones since the last attempt to seek past one.
    hidden_steps: u32,
    /// The deleted keys of this movement.
    deleted_run: DeletedRun,
    has_proposed: bool,
    skipped: Skipped<'h>,
    prefix: Option<Vec<u8>>,
    /// The visible range, for readahead: the bounds and the prefix.
    limits: Arc<ScanLimits>,
}

/// The internal entries that a scan has passed without showing them (`NUMBER_ITER_SKIP`).
///
/// The drop adds them to the statistics. Unlike in RocksDB, the value under merged operands counts.
struct Skipped<'h> {
    count: u64,
    statistics: Option<&'h Statistics>,
}

impl Drop for Skipped<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(statistics) = self.statistics {
            statistics.add(Ticker::NumberIterSkip, self.count);
        }
    }
}

/// The hidden entries that a scan steps over before it seeks past the tombstone.
const HIDDEN_STEPS: u32 = 4;

/// The result of a movement of a scan, which may suspend for device reads.
type Step<C> = Result<(), Fault<<C as Cursor>::Suspend>>;

impl<'h, C: RunsCursor> Scan<'h, C> {
    pub(crate) fn new(
        inner: C,
        view: ScanContext<'h>,
        bounds: KeyBounds,
        limits: Arc<ScanLimits>,
    ) -> Self {
        let scan = Scan {
            skipped: Skipped {
                count: 0,
                statistics: view.statistics,
            },
            limits,
            inner,
            view,
            bounds,
            at: Position::Nowhere,
            key: Vec::new(),
            value: Vec::new(),
            reference: None,
            entity: None,
            version: EntryVersion::default(),
            target: Vec::new(),
            hidden_steps: 0,
            deleted_run: DeletedRun::default(),
            has_proposed: false,
            prefix: None,
        };
        scan.limit();
        scan
    }

    /// Sets the key range of the scan, which loses its position.
    pub(crate) fn set_bounds(&mut self, bounds: KeyBounds) {
        self.bounds = bounds;
        self.at = Position::Nowhere;
        self.limit();
    }

    /// Informs readahead of the range that the scan may show: the bounds and the prefix.
    fn limit(&self) {
        let order = &self.view.order;
        let extractor = self.view.prefix_extractor;
        let is_leading = |prefix: &&Vec<u8>| extractor.is_some_and(|e| e.is_leading(prefix));
        let prefix = self.prefix.as_ref().filter(is_leading);
        let within = prefix.and_then(|prefix| PrefixRange(prefix).into_bounds(order));
        let bounds = match within {
            Some(within) => self.bounds.clone().narrowed(order, within),
            None => self.bounds.clone(),
        };
        self.limits.set(bounds.lower, bounds.upper);
    }

    #[inline]
    pub(crate) fn valid(&self) -> bool {
        self.at != Position::Nowhere
    }

    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    #[inline]
    pub(crate) fn value(&self) -> &[u8] {
        match self.at {
            Position::Inner => self.inner.value(),
            _ => &self.value,
        }
    }

    /// Returns the value, pinned in its block or memtable if possible, else copied.
    pub(crate) fn pinned_value(&self) -> PinnedSlice {
        match self.at {
            Position::Inner => self.inner.pinned_value(),
            _ => PinnedSlice::copy_of(&self.value),
        }
    }

    /// Returns the columns of the entry; those of a plain value are the default column.
    pub(crate) fn columns(&self) -> Columns<'_> {
        match (self.at, &self.entity) {
            (Position::OwnedForward | Position::OwnedBackward, Some(entity)) => entity.columns(),
            _ => Columns::of_value(self.value()),
        }
    }

    /// Returns the columns of the entry, pinned in their block or memtable if possible, else copied.
    pub(crate) fn pinned_columns(&self) -> WideColumns {
        match (self.at, &self.entity) {
            (Position::OwnedForward | Position::OwnedBackward, Some(entity)) => {
                WideColumns::clone(entity)
            }
            _ => WideColumns::from_value(self.pinned_value()),
        }
    }

    /// Makes the entry of the inner cursor, which is a value or an entity, that of the scan.
    fn own_value(&mut self, value_type: ValueType) -> Result<(), Error> {
        self.own(value_type, self.inner.pinned_value())
    }

    /// Makes `value` that of the scan like [`Scan::own`], or leaves it in its blob file for now.
    fn own_or_leave(&mut self, value_type: ValueType, value: PinnedSlice) -> Result<(), Error> {
        if value_type != ValueType::BlobIndex || !self.view.leaves_values {
            return self.own(value_type, value);
        }
        self.value.clear();
        self.entity = None;
        self.reference = Some(value);
        Ok(())
    }

    /// Whether the value of the current entry was left in its blob file.
    #[inline]
    pub(crate) fn has_left_value(&self) -> bool {
        self.reference.is_some() && self.at != Position::Inner
    }

    /// Reads the value of the current entry, if it was left in its blob file.
    pub(crate) fn fetch_left_value(&mut self) -> Result<(), Error> {
        if self.has_left_value()
            && let Some(reference) = &self.reference
        {
            let value = self.view.merger().fetch(&self.key, reference)?;
            self.value.clear();
            self.value.extend_from_slice(&value);
            self.reference = None;
        }
        Ok(())
    }

    /// Makes `value`, a value or an entity of the current key, that of the scan.
    fn own(&mut self, value_type: ValueType, value: PinnedSlice) -> Result<(), Error> {
        self.reference = None;
        let merger = self.view.merger();
        let (value, entity) = owned_value(merger, &self.key, value_type, value)?;
        self.value = value;
        self.entity = entity.map(Box::new);
        Ok(())
    }

    /// Merges operands onto the owned value if `has_base`; in an entity, it is the default column.
    fn own_merged(&mut self, has_base: bool, newest_first: &[&[u8]]) -> Result<(), Error> {
        self.reference = None;
        let base = has_base.then_some(self.value.as_slice());
        self.value = merge_values(self.view.merger(), &self.key, base, newest_first)?;
        self.entity = match self.entity.take().filter(|_| has_base) {
            Some(entity) => {
                let merged = with_default_column(entity.stored(), &self.value)?;
                Some(Box::new(WideColumns::from_entity(merged.into())?))
            }
            None => None,
        };
        Ok(())
    }

    /// Returns the timestamp and footer of the entry, if entries have them.
    pub(crate) fn version(&self) -> Option<EntryVersion> {
        match self.at {
            Position::Inner => self.inner.version(),
            _ => self.view.has_versions.then_some(self.version),
        }
    }

    /// Remembers the version of the entry at the inner cursor, if entries have versions.
    #[inline]
    fn keep_version(&mut self) {
        if self.view.has_versions {
            self.version = self.inner.version().unwrap_or_default();
        }
    }

    /// Sets the prefix that limits a `prefix_same_as_start` scan to that of `key`; `None` for none.
    fn start_prefix(&mut self, key: Option<&[u8]>) {
        let Some(extractor) = &self.view.prefix_extractor else {
            return;
        };
        self.prefix = key.and_then(|key| extractor.prefix(key).map(<[u8]>::to_vec));
        self.limit();
    }

    /// Whether `key` is outside the prefix that limits the scan.
    #[inline]
    fn leaves_prefix(&self, key: &[u8]) -> bool {
        match (&self.prefix, &self.view.prefix_extractor) {
            (Some(prefix), Some(extractor)) => extractor.prefix(key) != Some(prefix),
            _ => false,
        }
    }

    /// Returns the prefix that limits the scan; `None` if none does.
    pub(crate) fn prefix(&self) -> Option<&[u8]> {
        self.prefix.as_deref()
    }

    /// Moves the inner cursor to the first internal entry at or after the lower bound.
    fn move_to_first(&mut self) -> Step<C> {
        match &self.bounds.lower {
            Bound::Unbounded => self.inner.seek_to_first(),
            Bound::Included(lower) | Bound::Excluded(lower) => {
                encode_into(&mut self.target, lower, MAX_SEQNO, ValueType::FOR_SEEK);
                self.inner.seek(&self.target)
            }
        }
    }

    /// Moves the inner cursor to the last internal entry within the upper bound.
    fn move_to_last(&mut self) -> Step<C> {
        match &self.bounds.upper {
            Bound::Unbounded => self.inner.seek_to_last(),
            Bound::Included(upper) => {
                encode_into(&mut self.target, upper, 0, ValueType::Deletion);
                self.inner.seek_for_prev(&self.target)
            }
            Bound::Excluded(upper) => {
                encode_into(&mut self.target, upper, MAX_SEQNO, ValueType::FOR_SEEK);
                self.inner.seek_for_prev(&self.target)
            }
        }
    }

    /// Limits a `prefix_same_as_start` scan to the current key's prefix, if not limited yet.
    fn keep_prefix(&mut self) {
        if self.prefix.is_none() && self.view.prefix_extractor.is_some() && self.valid() {
            let key = std::mem::take(&mut self.key);
            self.start_prefix(Some(&key));
            self.key = key;
        }
    }

    /// Moves to the first visible entry; as in RocksDB, a lower bound counts as the key sought.
    ///
    /// An excluded bound does not: in the order of the comparator, it may be the last key before
    /// those of a prefix.
    pub(crate) fn seek_to_first(&mut self) -> Step<C> {
        self.at = Position::Nowhere;
        match self.bounds.lower.clone() {
            Bound::Excluded(_) | Bound::Unbounded => self.start_prefix(None),
            Bound::Included(lower) => self.start_prefix(Some(&lower)),
        }
        self.move_to_first()?;
        self.find_visible_forward(false)?;
        self.keep_prefix();
        Ok(())
    }

    /// Moves to the first visible entry at or after `key`.
    pub(crate) fn seek(&mut self, key: &[u8]) -> Step<C> {
        self.at = Position::Nowhere;
        self.start_prefix(Some(key));
        if self.bounds.is_before(&self.view.order, key) {
            self.move_to_first()?;
        } else {
            encode_into(&mut self.target, key, self.view.seqno, ValueType::FOR_SEEK);
            self.inner.seek(&self.target)?;
        }
        self.find_visible_forward(false)
    }

    /// Moves to the last visible entry.
    pub(crate) fn seek_to_last(&mut self) -> Step<C> {
        self.at = Position::Nowhere;
        self.start_prefix(None);
        self.move_to_last()?;
        self.find_visible_backward()?;
        self.keep_prefix();
        Ok(())
    }

    /// Moves to the last visible entry at or before `key`.
    pub(crate) fn seek_for_prev(&mut self, key: &[u8]) -> Step<C> {
        self.at = Position::Nowhere;
        self.start_prefix(Some(key));
        if self.bounds.is_behind(&self.view.order, key) {
            self.move_to_last()?;
        } else {
            encode_into(&mut self.target, key, 0, ValueType::Deletion);
            self.inner.seek_for_prev(&self.target)?;
        }
        self.find_visible_backward()
    }

    /// Moves to the next visible entry.
    #[inline]
    pub(crate) fn next(&mut self) -> Step<C> {
        match self.at {
            Position::Nowhere => return Ok(()),
            Position::Inner => {
                self.at = Position::Nowhere;
                self.inner.next()?;
            }
            Position::OwnedForward => self.at = Position::Nowhere,
            Position::OwnedBackward => {
                self.at = Position::Nowhere;
                encode_into(&mut self.target, &self.key, MAX_SEQNO, ValueType::FOR_SEEK);
                self.inner.seek(&self.target)?;
            }
        }
        self.find_visible_forward(true)
    }

    /// Moves to the previous visible entry.
    pub(crate) fn prev(&mut self) -> Step<C> {
        match self.at {
            Position::Nowhere => return Ok(()),
            Position::OwnedBackward => self.at = Position::Nowhere,
            Position::Inner | Position::OwnedForward => {
                self.at = Position::Nowhere;
                self.seek_before_key()?;
            }
        }
        self.find_visible_backward()
    }

    /// Advances to the first visible entry from the inner cursor on; records a run of deleted keys.
    ///
    /// With `skipping`, its key must differ from the current one.
    #[inline(always)]
    fn find_visible_forward(&mut self, skipping: bool) -> Step<C> {
        let mut deleted = 0;
        self.walk_forward(skipping, &mut deleted)?;
        if deleted >= DELETED_RUN {
            self.end_deleted_run(deleted, true);
        }
        Ok(())
    }

    /// Advances to the first visible entry from the inner cursor on; counts deleted keys before.
    #[inline(always)]
    fn walk_forward(&mut self, mut skipping: bool, deleted: &mut u32) -> Step<C> {
        let mut skips = 0;
        let mut skipped = 0;
        while self.inner.valid() {
            let order = &self.view.order;
            let entry = InternalKey::parse(self.inner.key())?;
            if self.bounds.is_behind(order, entry.user_key) {
                return Ok(());
            }
            if skipping && order.equal(entry.user_key, &self.key) {
                skips += 1;
                if skips > self.view.skips_before_seek {
                    // The position after every version of the key.
                    encode_into(&mut self.target, &self.key, 0, ValueType::Deletion);
                    self.inner.seek(&self.target)?;
                    self.view.count_reseek();
                    skips = 0;
                    if self.inner.valid() && order.equal(user_key(self.inner.key()), &self.key) {
                        self.inner.next()?;
                    }
                } else {
                    self.inner.next()?;
                }
                self.count_skipped(&mut skipped)?;
                continue;
            }
            if entry.seqno > self.view.seqno {
                let is_same_key = skips > 0 && !skipping && order.equal(entry.user_key, &self.key);
                if is_same_key && skips > self.view.skips_before_seek {
                    encode_into(
                        &mut self.target,
                        entry.user_key,
                        self.view.seqno,
                        ValueType::FOR_SEEK,
                    );
                    self.inner.seek(&self.target)?;
                    self.view.count_reseek();
                    self.count_skipped(&mut skipped)?;
                    skips = 0;
                    continue;
                }
                if !is_same_key {
                    skips = 0;
                    skipping = false;
                    self.key.clear();
                    self.key.extend_from_slice(entry.user_key);
                }
                skips += 1;
                self.inner.next()?;
                self.count_skipped(&mut skipped)?;
                continue;
            }
            if self.leaves_prefix(entry.user_key) {
                return Ok(());
            }
            skips = 0;
            self.key.clear();
            self.key.extend_from_slice(entry.user_key);
            let is_deleted = entry.value_type.is_deletion()
                || self.view.tombstones.hides(entry.user_key, entry.seqno)
                || self.bounds.is_before(&self.view.order, entry.user_key);
            if is_deleted {
                skipping = true;
                *deleted += 1;
                if deleted.is_multiple_of(DELETED_STEPS) && self.skip_deleted(*deleted, true)? {
                    self.count_skipped(&mut skipped)?;
                    continue;
                }
                if self.view.tombstones.is_empty() {
                    self.inner.next()?;
                } else {
                    self.pass_hidden()?;
                }
                self.count_skipped(&mut skipped)?;
                continue;
            }
            return match entry.value_type {
                ValueType::Value => {
                    self.at = Position::Inner;
                    Ok(())
                }
                value_type => self.own_forward(value_type),
            };
        }
        Ok(())
    }

    /// Makes the visible entry of the inner cursor, which is not a plain value, that of the scan.
    #[inline(never)]
    fn own_forward(&mut self, value_type: ValueType) -> Step<C> {
        self.keep_version();
        match value_type {
            ValueType::Merge => self.merge_forward()?,
            _ => self.own_or_leave(value_type, self.inner.pinned_value())?,
        }
        self.at = Position::OwnedForward;
        Ok(())
    }

    /// Steps past a deleted entry, or seeks past the range tombstone that hides it.
    #[cold]
    #[inline(never)]
    fn pass_hidden(&mut self) -> Step<C> {
        let entry = InternalKey::parse(self.inner.key())?;
        if self.view.tombstones.hides(entry.user_key, entry.seqno) && self.skip_hidden(true)? {
            return Ok(());
        }
        self.inner.next()
    }

    /// Seeks past range tombstones over the current entry, in the sorted run of that entry only.
    ///
    /// Returns `false` if it has not moved: a few hidden entries are cheaper to step over, and only
    /// the tombstones of newer runs hide all entries of their ranges.
    #[inline(never)]
    fn skip_hidden(&mut self, forward: bool) -> Result<bool, Fault<C::Suspend>> {
        self.hidden_steps += 1;
        if self.hidden_steps <= HIDDEN_STEPS {
            return Ok(false);
        }
        self.hidden_steps = 0;
        let (run, key) = (self.inner.run(), user_key(self.inner.key()));
        let tombstones = &self.view.tombstones;
        let is_found = tombstones.skip_target(run, key, forward, &mut self.target);
        if is_found {
            self.cut_target(forward);
            self.inner.skip_in_run(&self.target)?;
        }
        Ok(is_found)
    }

    /// Clamps the seek target past a range tombstone to the bounds of the scan.
    ///
    /// The scan then reads no block outside its bounds.
    fn cut_target(&mut self, forward: bool) {
        let (order, to) = (&self.view.order, user_key(&self.target));
        let passed = match forward {
            true if self.bounds.is_behind(order, to) => &self.bounds.upper,
            false if self.bounds.is_before(order, to) => &self.bounds.lower,
            _ => return,
        };
        let (key, is_behind) = match passed {
            Bound::Included(key) => (key, forward),
            Bound::Excluded(key) => (key, !forward),
            Bound::Unbounded => return,
        };
        match is_behind {
            true => encode_into(&mut self.target, key, 0, ValueType::Deletion),
            false => encode_into(&mut self.target, key, MAX_SEQNO, ValueType::FOR_SEEK),
        }
    }

    /// Counts a skipped internal entry; an error if there were too many and another one follows.
    #[inline]
    fn count_skipped(&mut self, skipped: &mut u64) -> Result<(), Error> {
        self.skipped.count += 1;
        *skipped += 1;
        if *skipped > self.view.skippable_max && self.is_within() {
            return Err(too_many_skipped());
        }
        Ok(())
    }

    /// Whether the inner cursor is at an entry that is within the upper bound and the prefix.
    #[cold]
    fn is_within(&self) -> bool {
        self.inner.valid() && {
            let key = user_key(self.inner.key());
            !self.bounds.is_behind(&self.view.order, key) && !self.leaves_prefix(key)
        }
    }

    /// Merges the operands of the current key from the inner cursor on with their base value.
    fn merge_forward(&mut self) -> Step<C> {
        let mut operands: Vec<Vec<u8>> = Vec::new();
        let mut has_base = false;
        while self.inner.valid() {
            let order = &self.view.order;
            let entry = InternalKey::parse(self.inner.key())?;
            if !order.equal(entry.user_key, &self.key) {
                break;
            }
            if entry.value_type.is_deletion()
                || self.view.tombstones.hides(entry.user_key, entry.seqno)
            {
                break;
            }
            if entry.value_type == ValueType::Merge {
                operands.push(self.inner.value().to_vec());
                self.inner.next()?;
                continue;
            }
            self.own_value(entry.value_type)?;
            has_base = true;
            break;
        }
        let newest_first: Vec<&[u8]> = operands.iter().map(Vec::as_slice).collect();
        self.own_merged(has_base, &newest_first)?;
        Ok(())
    }

    /// Moves back to the last visible entry up to the inner cursor; records a run of deleted keys.
    fn find_visible_backward(&mut self) -> Step<C> {
        let (mut deleted, mut skipped) = (0, 0);
        let walked = self.walk_backward(&mut deleted, &mut skipped);
        self.skipped.count += skipped - skipped.min(u64::from(self.valid()));
        walked?;
        if deleted >= DELETED_RUN {
            self.end_deleted_run(deleted, false);
        }
        Ok(())
    }

    /// Moves back to the last visible entry up to the inner cursor; counts the deleted keys passed.
    ///
    /// `skipped` counts the internal entries passed, with those of the key found.
    fn walk_backward(&mut self, deleted: &mut u32, skipped: &mut u64) -> Step<C> {
        while self.inner.valid() {
            self.key.clear();
            self.key.extend_from_slice(user_key(self.inner.key()));
            if self.bounds.is_before(&self.view.order, &self.key) || self.leaves_prefix(&self.key) {
                return Ok(());
            }
            if !self.view.tombstones.is_empty() && self.skip_hidden_backward()? {
                *skipped += 1;
                continue;
            }
            if self.collect_backward(skipped)? {
                if !self.bounds.is_behind(&self.view.order, &self.key) {
                    self.at = Position::OwnedBackward;
                    return Ok(());
                }
                *deleted = 0;
            } else {
                *deleted += 1;
                if *deleted >= DELETED_STEPS {
                    self.pass_deleted_backward(*deleted)?;
                }
            }
        }
        Ok(())
    }

    /// Seeks before the range tombstone that hides the current entry, if any, in its sorted run.
    #[cold]
    #[inline(never)]
    fn skip_hidden_backward(&mut self) -> Result<bool, Fault<C::Suspend>> {
        let entry = InternalKey::parse(self.inner.key())?;
        match self.view.tombstones.hides(entry.user_key, entry.seqno) {
            true => self.skip_hidden(false),
            false => Ok(false),
        }
    }

    /// Computes the newest visible value of the current key while stepping back over its versions.
    ///
    /// Returns `false` if the key has no visible value.
    ///
    /// After too many steps, or at versions that the scan does not see, seeks replace the rest.
    fn collect_backward(&mut self, skipped: &mut u64) -> Result<bool, Fault<C::Suspend>> {
        let mut has_base = false;
        // Of the newest version, if that is not a plain value. The values of others are not decoded
        // or read from their blob files: their errors do not matter.
        let mut newest: Option<(ValueType, PinnedSlice)> = None;
        let mut oldest_first: Vec<Vec<u8>> = Vec::new();
        let mut skips = 0;
        let skippable = self.view.skippable_max.saturating_add(1);
        let steps_max = (self.view.skips_before_seek).min(skippable.saturating_sub(*skipped));
        while self.inner.valid() {
            let order = &self.view.order;
            let entry = InternalKey::parse(self.inner.key())?;
            if !order.equal(entry.user_key, &self.key) {
                break;
            }
            let is_visible = entry.seqno <= self.view.seqno;
            if skips >= steps_max {
                if skips.saturating_add(*skipped) >= skippable {
                    return Err(too_many_skipped().into());
                }
                skips += 1;
                if is_visible {
                    *skipped += skips;
                    return self.collect_by_seek();
                }
                // All versions from here on are newer than the snapshot.
                self.skip_to_key_before()?;
                break;
            }
            skips += 1;
            if is_visible {
                if self.view.has_versions {
                    self.version = self.inner.version().unwrap_or_default();
                }
                if !order.equal_keys_have_equal_bytes() {
                    // The key as it was written last.
                    self.key.clear();
                    self.key.extend_from_slice(entry.user_key);
                }
                if entry.value_type == ValueType::Merge
                    && !self.view.tombstones.hides(entry.user_key, entry.seqno)
                {
                    oldest_first.push(self.inner.value().to_vec());
                    self.inner.prev()?;
                    continue;
                }
                oldest_first.clear();
                newest = None;
                has_base = !entry.value_type.is_deletion()
                    && !self.view.tombstones.hides(entry.user_key, entry.seqno);
                if has_base {
                    self.value.clear();
                    self.reference = None;
                    self.entity = None;
                    if entry.value_type == ValueType::Value {
                        self.value.extend_from_slice(self.inner.value());
                    } else {
                        newest = Some((entry.value_type, self.inner.pinned_value()));
                    }
                }
            }
            self.inner.prev()?;
        }
        *skipped += skips;
        if let Some((value_type, value)) = newest {
            match oldest_first.is_empty() {
                true => self.own_or_leave(value_type, value)?,
                false => self.own(value_type, value)?,
            }
        }
        if oldest_first.is_empty() {
            return Ok(has_base);
        }
        let newest_first: Vec<&[u8]> = oldest_first.iter().rev().map(Vec::as_slice).collect();
        self.own_merged(has_base, &newest_first)?;
        Ok(true)
    }

    /// Computes the newest visible value of the current key by a seek, then moves before the key.
    #[cold]
    #[inline(never)]
    fn collect_by_seek(&mut self) -> Result<bool, Fault<C::Suspend>> {
        let seqno = self.view.seqno;
        encode_into(&mut self.target, &self.key, seqno, ValueType::FOR_SEEK);
        self.inner.seek(&self.target)?;
        self.view.count_reseek();
        let mut is_found = false;
        if self.inner.valid() {
            let entry = InternalKey::parse(self.inner.key())?;
            if self.view.order.equal(entry.user_key, &self.key) {
                self.key.clear();
                self.key.extend_from_slice(entry.user_key);
                if self.view.has_versions {
                    self.version = self.inner.version().unwrap_or_default();
                }
                is_found = !entry.value_type.is_deletion()
                    && !self.view.tombstones.hides(entry.user_key, entry.seqno);
                if is_found && entry.value_type == ValueType::Merge {
                    self.merge_forward()?;
                } else if is_found {
                    self.own_or_leave(entry.value_type, self.inner.pinned_value())?;
                }
            }
        }
        self.skip_to_key_before()?;
        Ok(is_found)
    }

    /// Moves the inner cursor before all versions of the current key, and counts the reseek.
    #[cold]
    #[inline(never)]
    fn skip_to_key_before(&mut self) -> Step<C> {
        self.view.count_reseek();
        self.seek_before_key()
    }

    /// Moves the inner cursor before all versions of the current key.
    fn seek_before_key(&mut self) -> Step<C> {
        encode_into(&mut self.target, &self.key, MAX_SEQNO, ValueType::FOR_SEEK);
        self.inner.seek_for_prev(&self.target)
    }
}

/// Returns the `Incomplete` error of a scan that exceeds `max_skippable_internal_keys`.
#[cold]
fn too_many_skipped() -> Error {
    Error::with_kind(
        ErrorKind::Incomplete,
        "Too many internal keys skipped: more than max_skippable_internal_keys",
    )
}

/// Decodes the user value, and the columns of an entity, of an entry; an error for other types.
///
/// Values in blob files are read.
fn owned_value(
    merger: Merger<'_>,
    user_key: &[u8],
    value_type: ValueType,
    value: PinnedSlice,
) -> Result<(Vec<u8>, Option<WideColumns>), Error> {
    match value_type {
        ValueType::Value => Ok((value.to_vec(), None)),
        ValueType::WideColumnEntity => {
            let entity = WideColumns::from_entity(merger.whole_entity(user_key, value)?)?;
            Ok((entity.default_value().to_vec(), Some(entity)))
        }
        ValueType::ValuePreferredSeqno => Ok((without_preferred_seqno(&value)?.to_vec(), None)),
        ValueType::BlobIndex => Ok((merger.fetch(user_key, &value)?.to_vec(), None)),
        _ => Err(Error::corruption(format!(
            "entry of type {value_type:?} in a scan"
        ))),
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
