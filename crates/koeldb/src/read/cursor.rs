//! The public cursor, which lends its current entry.
//!
//! Creating one does no I/O. The first positioning call builds the merged cursor over memtables and
//! tables and reports errors: a closed database, a foreign snapshot, a missing table. After an
//! error the cursor has no entry and repeats the error until the next seek.

use std::ops::Bound;
use std::sync::Arc;

use koeldb_base::cursor::Blocking;
use koeldb_base::entity::{Columns, WideColumns};
use koeldb_base::perf::{self, PerfMetric};
use koeldb_base::stats::{HistogramKind, Ticker};
use koeldb_base::tied::{Borrowing, Tied};
use koeldb_base::timestamp::{self, MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp};
use koeldb_base::{Error, Fault, PinnedSlice, Result, SeqNo, ValueType};
use koeldb_table::block_based::readahead::scan_reads::TimeLimits;
use koeldb_table::source::Direction;

use super::cursor_counts::CursorCounts;
use super::dated::ReadTime;
use super::options::ReadOptions;
use super::prefix_use::PrefixUse;
use super::scan::Scan;
use super::scan_plan::{Runs, ScanPlan};
use crate::engine::inner::OpenColumnFamily;
use crate::env::Pool;
use crate::read::snapshot::Snapshot;
use crate::state::key_bounds::{IterateBounds, KeyBounds};
use crate::state::super_version::{Hand, SuperVersion};
use crate::state::ttl;

/// The type tag of a [`DbCursor`]'s scan, which borrows from the pinned super version.
///
/// The scan is `None` before the first seek.
struct CursorScan;

impl Borrowing for CursorScan {
    type Of<'h> = Option<Scan<'h, Runs<'h>>>;
}

/// The point-in-time state that a cursor reads: super version, scan over it, and sequence number.
struct Pinned {
    state: Tied<Hand, CursorScan>,
    seqno: SeqNo,
}

impl Pinned {
    fn new(hand: Arc<Hand>, seqno: SeqNo) -> Self {
        Pinned {
            state: Tied::new(hand, |_| None),
            seqno,
        }
    }

    fn super_version(&self) -> &SuperVersion {
        self.state.owner().super_version()
    }
}

/// An iterator over a column family with seeks, as of one point in time (RocksDB: `Iterator`).
///
/// A cursor is owned and `Send`; it keeps the database open.
pub struct DbCursor {
    family: OpenColumnFamily,
    options: ReadOptions,
    bounds: KeyBounds,
    time_limits: TimeLimits,
    pinned: Result<Pinned>,
    /// The number of bytes at the end of stored values that are not shown, such as times to live.
    hidden_bytes: usize,
    /// Whether values are shown as they are stored, and at once: no option changes that.
    shows_stored: bool,
    /// The use that the scan makes of the prefix of the last key sought.
    prefix_use: PrefixUse,
    /// The user-defined timestamps that the cursor sees; `None` if keys have none.
    time: Option<ReadTime>,
    /// The counts of the steps; `None` without statistics.
    counts: Option<Box<CursorCounts>>,
    /// Whether a step forward does more than move the scan: it counts, or looks for later writes.
    steps_watched: bool,
    /// The error of a range that is invalid under this comparator.
    range_failure: Option<Error>,
    failure: Option<Error>,
}

impl DbCursor {
    pub(crate) fn new(
        family: &OpenColumnFamily,
        options: &ReadOptions,
        bounds: Option<KeyBounds>,
    ) -> Self {
        let order = &family.data().user_order;
        let time = ReadTime::of(&family.data().order, options);
        let pinned = pin(family, options);
        let range_failure = bounds.is_none().then(|| no_prefix_range(order.name()));
        let of_options = options.bounds();
        let counts = CursorCounts::of(&family.inner().reads.context);
        DbCursor {
            steps_watched: options.tailing || counts.is_some(),
            counts,
            family: family.clone(),
            bounds: of_options.narrowed(order, bounds.unwrap_or_default()),
            time_limits: TimeLimits {
                deadline: options
                    .deadline
                    .map(|at| family.inner().reads.context.clock.time_of(at)),
                io_timeout: options.io_timeout,
            },
            options: options.clone(),
            // The small result of `pin` is mapped in place: the space of a scan is large.
            pinned: pinned.map(|(hand, seqno)| Pinned::new(hand, seqno)),
            hidden_bytes: match family.data().ttl {
                Some(_) => ttl::TIME_BYTES,
                None => 0,
            },
            shows_stored: family.data().ttl.is_none()
                && !options.keys_only
                && !options.allow_unprepared_value,
            prefix_use: PrefixUse::None,
            time,
            range_failure,
            failure: None,
        }
    }

    /// Runs one seek or step of the scan; its error is stored, for later steps until the next seek.
    #[inline]
    fn step(
        &mut self,
        is_seek: bool,
        run: impl for<'h> FnOnce(&mut Scan<'h, Runs<'h>>) -> Result<(), Fault<Blocking>>,
    ) -> Result<bool> {
        if let Some(failure) = &self.failure
            && !is_seek
        {
            return Err(failure.clone());
        }
        let outcome = self.try_step(is_seek, run);
        match outcome {
            Ok(valid) => Ok(valid),
            Err(error) => {
                self.end_scan();
                self.failure = Some(error.clone());
                Err(error)
            }
        }
    }

    /// Runs one seek or step of the scan; `true` if the cursor is at an entry afterwards.
    #[inline]
    fn try_step(
        &mut self,
        is_seek: bool,
        run: impl for<'h> FnOnce(&mut Scan<'h, Runs<'h>>) -> Result<(), Fault<Blocking>>,
    ) -> Result<bool> {
        self.family.inner().reads.health.check_open()?;
        if let Some(failure) = &self.range_failure {
            return Err(failure.clone());
        }
        if is_seek {
            self.failure = None;
            self.begin_scan()?;
        }
        let Ok(pinned) = &mut self.pinned else {
            return Ok(false);
        };
        let (family, hidden_bytes) = (&self.family, self.hidden_bytes);
        pinned.state.with_mut(|_, scan| {
            let Some(scan) = scan else {
                return Ok(false);
            };
            run(scan)?;
            if scan.take_proposed() {
                family.data().request_switch_check();
            }
            let is_valid = scan.valid();
            if hidden_bytes > 0 && is_valid {
                ttl::shown(scan.value())?;
            }
            Ok(is_valid)
        })
    }

    /// Builds the scan over memtables and tables, if it was not built or was dropped.
    fn begin_scan(&mut self) -> Result<()> {
        let pinned = match &mut self.pinned {
            Ok(pinned) => pinned,
            Err(error) => return Err(error.clone()),
        };
        let plan = ScanPlan {
            family: &self.family,
            options: &self.options,
            bounds: &self.bounds,
            time_limits: self.time_limits,
            prefix_use: self.prefix_use,
            time: self.time.as_ref(),
        };
        let seqno = pinned.seqno;
        pinned.state.with_mut(|hand, scan| {
            if scan.is_none() {
                *scan = Some(plan.build(hand.super_version(), seqno)?);
            }
            Ok(())
        })
    }

    /// Calls `change` with the scan and returns its result; `None` if there is no scan.
    fn change_scan<R>(
        &mut self,
        change: impl for<'h> FnOnce(&mut Scan<'h, Runs<'h>>) -> R,
    ) -> Option<R> {
        let pinned = self.pinned.as_mut().ok()?;
        pinned.state.with_mut(|_, scan| scan.as_mut().map(change))
    }

    /// Calls `read` with the scan and returns its result; `None` unless the scan is at an entry.
    #[inline]
    fn at_entry<'s, R>(
        &'s self,
        read: impl for<'h> FnOnce(&'s Scan<'h, Runs<'h>>) -> R,
    ) -> Option<R> {
        let pinned = self.pinned.as_ref().ok()?;
        pinned.state.with(|scan| match scan {
            Some(scan) if scan.valid() => Some(read(scan)),
            _ => None,
        })
    }

    /// Drops the scan, so that the next seek builds a new one.
    fn end_scan(&mut self) {
        if let Ok(pinned) = &mut self.pinned {
            pinned.state.with_mut(|_, scan| *scan = None);
        }
    }

    /// Returns which prefix filtering is permitted for a scan from `key`, a key within the bounds.
    fn prefix_use_from(&self, key: &[u8], direction: Direction) -> PrefixUse {
        let Ok(pinned) = &self.pinned else {
            return PrefixUse::None;
        };
        // Tables and memtables find prefixes by keys with timestamps.
        if self.time.is_some() {
            return PrefixUse::None;
        }
        PrefixUse::of(
            key,
            direction,
            pinned.super_version().options.prefix_extractor.as_ref(),
            &self.options,
            &self.bounds,
            &self.family.data().user_order,
            self.family
                .inner()
                .context
                .db_options
                .prefix_seek_opt_in_only,
        )
    }

    /// Returns which prefix filtering is permitted for a seek to `key`; none outside the bounds.
    fn prefix_use_at(&self, key: &[u8], direction: Direction) -> PrefixUse {
        let order = &self.family.data().user_order;
        // From outside of the bounds it moves to the first or last key within, regardless of its
        // prefix.
        if self.bounds.is_before(order, key) || self.bounds.is_behind(order, key) {
            return PrefixUse::None;
        }
        self.prefix_use_from(key, direction)
    }

    /// Ends prefix filtering before a step in a direction in which the scan may leave the prefix.
    #[inline]
    fn prepare_step(&mut self, direction: Direction) -> Result<()> {
        if self.prefix_use.ends_with(direction) {
            return self.leave_prefix();
        }
        Ok(())
    }

    /// Rebuilds the scan without prefix filtering, and positions it at the current key.
    #[cold]
    fn leave_prefix(&mut self) -> Result<()> {
        let Some(key) = self.key().map(<[u8]>::to_vec) else {
            return Ok(());
        };
        self.prefix_use = PrefixUse::None;
        self.end_scan();
        let rebuilt = self.begin_scan().and_then(|()| {
            let sought = self.change_scan(|scan| scan.seek(&key));
            Ok(sought.unwrap_or(Ok(()))?)
        });
        rebuilt.inspect_err(|error| {
            self.end_scan();
            self.failure = Some(error.clone());
        })
    }

    /// Runs a seek on a scan with this prefix filtering, and counts it in the statistics.
    fn seek_step(
        &mut self,
        prefix_use: PrefixUse,
        run: impl for<'h> FnOnce(&mut Scan<'h, Runs<'h>>) -> Result<(), Fault<Blocking>>,
    ) -> Result<bool> {
        if self.prefix_use != prefix_use {
            self.end_scan();
            self.prefix_use = prefix_use;
        }
        let context = &self.family.inner().reads.context;
        let begun = context.measures().then(|| context.clock.now());
        perf::count(PerfMetric::IterSeekCount, 1);
        let timer = perf::timer(PerfMetric::SeekInternalSeekTime);
        let found = self.step(true, run)?;
        drop(timer);
        if let Some(begun) = begun {
            let reads = &self.family.inner().reads;
            reads.context.count(Ticker::NumberDbSeek, 1);
            reads
                .context
                .count(Ticker::NumberDbSeekFound, u64::from(found));
            reads.context.record_elapsed(HistogramKind::DbSeek, begun);
            self.count_seek();
        }
        Ok(found)
    }

    /// Counts the entry that a seek found, and adds the counts of the steps before it.
    #[cold]
    fn count_seek(&mut self) {
        let entry_bytes = self.entry_bytes();
        if let Some(counts) = &mut self.counts {
            counts.seek(entry_bytes);
        }
    }

    /// Counts a step, if there are statistics.
    #[cold]
    fn count_step(&mut self, direction: Direction) {
        let entry_bytes = self.entry_bytes();
        if let Some(counts) = &mut self.counts {
            counts.step(direction, entry_bytes);
        }
    }

    /// Returns the size of key and value of the current entry; `None` without one.
    ///
    /// A value that is still in a blob file has no size.
    fn entry_bytes(&self) -> Option<u64> {
        self.at_entry(|scan| (scan.key().len() + scan.value().len()) as u64)
    }

    /// Moves to the first entry at or after `key`; `true` if there is one.
    ///
    /// # Errors
    /// If a table cannot be read, a merge operator fails, or the database is closed.
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref();
        self.begin_seek()?;
        let prefix_use = self.prefix_use_at(key, Direction::Forward);
        match self.versioned(key, &MAX_TIMESTAMP) {
            Some(key) => self.seek_step(prefix_use, |scan| scan.seek(&key)),
            None => self.seek_step(prefix_use, |scan| scan.seek(key)),
        }
    }

    /// Moves to the last entry at or before `key`; `true` if there is one.
    ///
    /// # Errors
    /// See [`DbCursor::seek`].
    pub fn seek_for_prev(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref();
        self.begin_seek()?;
        let prefix_use = self.prefix_use_at(key, Direction::Backward);
        match self.versioned(key, &MIN_TIMESTAMP) {
            Some(key) => self.seek_step(prefix_use, |scan| scan.seek_for_prev(&key)),
            None => self.seek_step(prefix_use, |scan| scan.seek_for_prev(key)),
        }
    }

    /// Moves to the first entry within the bounds; `true` if there is one.
    ///
    /// # Errors
    /// See [`DbCursor::seek`].
    pub fn seek_to_first(&mut self) -> Result<bool> {
        self.begin_seek()?;
        let prefix_use = match &self.bounds.lower {
            Bound::Included(key) => self.prefix_use_from(key, Direction::Forward),
            // Such a scan stays in the prefix of the key it finds, if it stays in one.
            Bound::Excluded(_) | Bound::Unbounded => PrefixUse::None,
        };
        self.seek_step(prefix_use, |scan| scan.seek_to_first())
    }

    /// Moves to the last entry within the bounds; `true` if there is one.
    ///
    /// # Errors
    /// See [`DbCursor::seek`].
    pub fn seek_to_last(&mut self) -> Result<bool> {
        self.begin_seek()?;
        let prefix_use = match &self.bounds.upper {
            // Such a scan stays in the prefix of the key it finds.
            _ if self.options.prefix_same_as_start => PrefixUse::None,
            Bound::Included(key) | Bound::Excluded(key) => {
                self.prefix_use_from(key, Direction::Backward)
            }
            Bound::Unbounded => PrefixUse::None,
        };
        self.seek_step(prefix_use, |scan| scan.seek_to_last())
    }

    /// Moves to the next entry; `true` if there is one.
    ///
    /// After the end there is no entry until the next seek.
    ///
    /// # Errors
    /// See [`DbCursor::seek`].
    #[inline]
    #[expect(
        clippy::should_implement_trait,
        reason = "a cursor lends, an iterator gives"
    )]
    pub fn next(&mut self) -> Result<bool> {
        if self.steps_watched {
            return self.next_watched();
        }
        self.prepare_step(Direction::Forward)?;
        self.step(false, |scan| scan.next())
    }

    /// Moves the scan of a watched cursor to the next entry.
    ///
    /// [`DbCursor::next`] has these steps inlined, which the compiler does for a single place only.
    #[inline(never)]
    fn step_forward(&mut self) -> Result<bool> {
        self.prepare_step(Direction::Forward)?;
        self.step(false, |scan| scan.next())
    }

    /// Moves to the next entry of a tailing cursor, or of one with statistics.
    #[inline(never)]
    fn next_watched(&mut self) -> Result<bool> {
        let found = match self.options.tailing {
            true => self.next_of_latest()?,
            false => self.step_forward()?,
        };
        self.count_step(Direction::Forward);
        Ok(found)
    }

    /// Moves a tailing cursor to the next entry, in the latest state of the database.
    fn next_of_latest(&mut self) -> Result<bool> {
        let latest = self.family.inner().visibility.seqno();
        let is_latest = matches!(&self.pinned, Ok(pinned) if pinned.seqno == latest);
        if !is_latest && let Some(key) = self.key().map(<[u8]>::to_vec) {
            let found = self.seek(&key)?;
            if !found || self.key() != Some(&key[..]) {
                return Ok(found);
            }
        }
        self.step_forward()
    }

    /// Moves to the previous entry; `true` if there is one.
    ///
    /// # Errors
    /// See [`DbCursor::seek`].
    #[inline]
    pub fn prev(&mut self) -> Result<bool> {
        self.prepare_step(Direction::Backward)?;
        let found = self.step(false, |scan| scan.prev())?;
        if self.counts.is_some() {
            self.count_step(Direction::Backward);
        }
        Ok(found)
    }

    /// Whether the cursor is positioned on an entry.
    #[inline]
    #[must_use]
    pub fn valid(&self) -> bool {
        self.at_entry(|_| ()).is_some()
    }

    /// Reads the value of the current entry, if [`ReadOptions::set_allow_unprepared_value`] has left
    /// it in a blob file; `true` if there is an entry (RocksDB: `Iterator::PrepareValue`).
    ///
    /// Before, [`DbCursor::value`] and all that return the value are `None`. With
    /// [`ReadOptions::set_keys_only`] nothing is read.
    ///
    /// # Errors
    /// If the value is damaged or cannot be read. The cursor stays where it is.
    pub fn prepare_value(&mut self) -> Result<bool> {
        if !self.options.keys_only
            && let Some(read) = self.change_scan(|scan| match scan.valid() {
                true => scan.fetch_left_value(),
                false => Ok(()),
            })
        {
            read?;
        }
        Ok(self.valid())
    }

    /// Whether the value of the current entry is there: not one that is still in a blob file.
    #[inline]
    fn has_value(&self) -> bool {
        self.options.keys_only
            || !self.options.allow_unprepared_value
            || self.at_entry(|scan| !scan.has_left_value()) == Some(true)
    }

    /// Returns the key and value of the current entry; `None` without one, or without its value
    /// (see [`DbCursor::prepare_value`]).
    #[inline]
    #[must_use]
    pub fn entry(&self) -> Option<(&[u8], &[u8])> {
        if self.shows_stored {
            return self.at_entry(|scan| (scan.key(), scan.value()));
        }
        Some((self.key()?, self.chosen_value()?))
    }

    /// Returns the key of the current entry; `None` without one.
    #[inline]
    #[must_use]
    pub fn key(&self) -> Option<&[u8]> {
        self.at_entry(|scan| scan.key())
    }

    /// Returns the value of the current entry; `None` without one, or before
    /// [`DbCursor::prepare_value`].
    #[inline]
    #[must_use]
    pub fn value(&self) -> Option<&[u8]> {
        if self.shows_stored {
            return self.at_entry(|scan| scan.value());
        }
        self.chosen_value()
    }

    /// Returns the value of the current entry as far as the options show it.
    #[inline(never)]
    fn chosen_value(&self) -> Option<&[u8]> {
        if !self.has_value() {
            return None;
        }
        self.at_entry(|scan| match self.options.keys_only {
            true => &[],
            false => self.shown(scan.value()),
        })
    }

    /// Returns the columns of the current entry; `None` without one.
    ///
    /// Those of a plain value are the default column, which has the empty name.
    #[must_use]
    pub fn columns(&self) -> Option<Columns<'_>> {
        if self.options.keys_only || self.hidden_bytes > 0 {
            return self.value().map(Columns::of_value);
        }
        if !self.has_value() {
            return None;
        }
        self.at_entry(|scan| scan.columns())
    }

    /// Returns the columns of the current entry as an owned value, pinned in memory if possible.
    #[must_use]
    pub fn pinned_columns(&self) -> Option<WideColumns> {
        if self.options.keys_only || self.hidden_bytes > 0 {
            let (_, value) = self.pinned_entry()?;
            return Some(WideColumns::from_value(value));
        }
        if !self.has_value() {
            return None;
        }
        self.at_entry(|scan| scan.pinned_columns())
    }

    /// Returns the current key and value as owned slices, the value pinned in memory if possible.
    #[must_use]
    pub fn pinned_entry(&self) -> Option<(PinnedSlice, PinnedSlice)> {
        if !self.has_value() {
            return None;
        }
        self.at_entry(|scan| {
            let key = PinnedSlice::copy_of(scan.key());
            if self.options.keys_only {
                return (key, PinnedSlice::default());
            }
            let value = scan.pinned_value();
            let value = match self.hidden_bytes {
                0 => value,
                _ => value.subslice(0..self.shown(&value).len()),
            };
            (key, value)
        })
    }

    /// Returns a stored value as users see it: in a TTL database, without the appended timestamp.
    #[inline]
    fn shown<'v>(&self, stored: &'v [u8]) -> &'v [u8] {
        let bytes = stored.len().saturating_sub(self.hidden_bytes);
        stored.get(..bytes).unwrap_or_default()
    }

    /// Returns the background thread pool of the database's environment.
    pub(super) fn pool(&self) -> Pool {
        self.family.inner().reads.context.env.pool.clone()
    }

    /// Returns the error of the last seek or step, if it failed (RocksDB: `Iterator::status`).
    ///
    /// # Errors
    /// The error of the last step.
    pub fn status(&self) -> Result<()> {
        self.failure.clone().map_or(Ok(()), Err)
    }

    /// Sets the key range, within the bounds of the read options, and drops the position.
    pub fn set_range(&mut self, range: impl IterateBounds) {
        let order = self.family.data().user_order.clone();
        match range.into_bounds(&order) {
            Some(bounds) => {
                self.range_failure = None;
                self.bounds = self.options.bounds().narrowed(&order, bounds);
                let bounds = match &self.time {
                    Some(time) => time.scan_bounds(&self.bounds),
                    None => self.bounds.clone(),
                };
                self.change_scan(|scan| scan.set_bounds(bounds));
            }
            None => self.range_failure = Some(no_prefix_range(order.name())),
        }
    }

    /// Creates a cursor on the same super version, sequence number and bounds, without a position.
    pub(super) fn unpositioned_copy(&self) -> DbCursor {
        DbCursor {
            family: self.family.clone(),
            options: self.options.clone(),
            bounds: self.bounds.clone(),
            time_limits: self.time_limits,
            pinned: match &self.pinned {
                Ok(pinned) => Ok(Pinned::new(Arc::clone(pinned.state.owner()), pinned.seqno)),
                Err(error) => Err(error.clone()),
            },
            hidden_bytes: self.hidden_bytes,
            shows_stored: self.shows_stored,
            time: self.time.clone(),
            prefix_use: PrefixUse::None,
            counts: CursorCounts::of(&self.family.inner().reads.context),
            steps_watched: self.steps_watched,
            range_failure: self.range_failure.clone(),
            failure: None,
        }
    }

    /// Intersects the key range of a cursor that was not positioned yet with `range`.
    pub(super) fn narrow(&mut self, range: impl IterateBounds) {
        debug_assert!(self.change_scan(|_| ()).is_none());
        let order = &self.family.data().user_order;
        match range.into_bounds(order) {
            Some(bounds) => self.bounds = std::mem::take(&mut self.bounds).narrowed(order, bounds),
            None => self.range_failure = Some(no_prefix_range(order.name())),
        }
    }

    /// Returns the prefix to which `prefix_same_as_start` limits the scan since the last seek.
    pub(super) fn prefix(&self) -> Option<&[u8]> {
        let pinned = self.pinned.as_ref().ok()?;
        let scan = pinned
            .state
            .with(|scan| scan.as_ref().map(|scan| scan.prefix()));
        scan.flatten()
    }

    /// Whether iteration stays within the prefix of the seek key (`prefix_same_as_start`).
    pub(super) fn stays_in_prefixes(&self) -> bool {
        self.options.prefix_same_as_start
    }

    /// Compares keys in the order in which the cursor returns them.
    pub(super) fn compare_keys(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        let family = self.family.data();
        match self.shows_versions() {
            true => family.order.compare(a, b),
            false => family.user_order.compare(a, b),
        }
    }

    /// Whether each version of a key is an entry (`iter_start_ts`).
    fn shows_versions(&self) -> bool {
        self.time.as_ref().is_some_and(|time| time.oldest.is_some())
    }

    /// Returns the key with a timestamp, if the cursor returns each version of a key.
    #[inline]
    fn versioned(&self, key: &[u8], time: &Timestamp) -> Option<Vec<u8>> {
        self.shows_versions().then(|| timestamp::join(key, time))
    }

    /// Returns the user-defined timestamp of the entry; `None` without entry or timestamps.
    ///
    /// Compactions set timestamps before the low mark to 0.
    #[must_use]
    pub fn timestamp(&self) -> Option<Timestamp> {
        let version = self.at_entry(|scan| scan.version()).flatten();
        version.map(|version| version.timestamp)
    }

    /// Whether the entry is a deletion, which only a cursor with
    /// [`ReadOptions::set_iter_start_ts`] returns.
    #[must_use]
    pub fn is_deletion(&self) -> bool {
        let version = self.at_entry(|scan| scan.version()).flatten();
        let value_type =
            version.map(|version| ValueType::from_byte(version.footer.to_le_bytes()[0]));
        value_type.flatten().is_some_and(ValueType::is_deletion)
    }

    /// Returns the internal key of the entry, as RocksDB's iterators with `iter_start_ts` return
    /// it: key, timestamp, and eight bytes with sequence number and type.
    ///
    /// `None` without entry or without [`ReadOptions::set_iter_start_ts`].
    #[must_use]
    pub fn internal_key(&self) -> Option<Vec<u8>> {
        let version = self.at_entry(|scan| scan.version()).flatten();
        let version = version.filter(|_| self.shows_versions())?;
        let mut key = self.key()?.to_vec();
        key.extend_from_slice(&version.footer.to_le_bytes());
        Some(key)
    }

    /// Refreshes a tailing cursor to the latest state before a seek; does nothing for others.
    #[inline]
    fn begin_seek(&mut self) -> Result<()> {
        if self.options.tailing {
            return self
                .repin()
                .inspect_err(|error| self.failure = Some(error.clone()));
        }
        Ok(())
    }

    /// Pins the latest super version and sequence number, or the snapshot's; drops the position.
    fn repin(&mut self) -> Result<()> {
        self.end_scan();
        self.failure = None;
        self.pinned =
            pin(&self.family, &self.options).map(|(hand, seqno)| Pinned::new(hand, seqno));
        match &self.pinned {
            Ok(_) => Ok(()),
            Err(error) => Err(error.clone()),
        }
    }

    /// Refreshes the cursor to the latest state, or to that of the snapshot in the options.
    ///
    /// The cursor then has no position.
    ///
    /// # Errors
    /// If the database is closed.
    pub fn refresh(&mut self) -> Result<()> {
        self.repin()
    }

    /// Refreshes the cursor to the latest state, and drops a snapshot in the options.
    ///
    /// The cursor then has no position.
    ///
    /// # Errors
    /// If the database is closed.
    pub fn refresh_to_latest(&mut self) -> Result<()> {
        self.options.snapshot = None;
        self.repin()
    }

    /// Drops the snapshot in the options, and keeps the state that the cursor pinned by it.
    pub(crate) fn forget_snapshot(&mut self) {
        self.options.snapshot = None;
    }

    /// Refreshes the cursor to the state of `snapshot` (RocksDB: `Iterator::Refresh(snapshot)`).
    ///
    /// The cursor then has no position.
    ///
    /// # Errors
    /// If the database is closed or the snapshot is of another one.
    pub fn refresh_at(&mut self, snapshot: &Snapshot) -> Result<()> {
        self.options.set_snapshot(snapshot);
        self.repin()
    }
}

/// Pins the super version and sequence number that a cursor with `options` reads.
///
/// The sequence number is read after the super-version. An older number could be one whose entries
/// a flush or compaction into that super-version has dropped.
fn pin(family: &OpenColumnFamily, options: &ReadOptions) -> Result<(Arc<Hand>, SeqNo)> {
    let reads = &family.inner().reads;
    reads.health.check_open()?;
    family.data().super_version.with_hand(|current| {
        let newest = current.super_version();
        let (super_version, seqno) = reads.view(family.data(), newest, options)?;
        check_versions(options)?;
        let hand = match Arc::ptr_eq(super_version, newest) {
            true => Arc::clone(current),
            false => Hand::new(Arc::clone(super_version)),
        };
        Ok((hand, seqno))
    })
}

/// Refuses options that do not go with a scan of versions.
fn check_versions(options: &ReadOptions) -> Result<()> {
    let refused = match options {
        ReadOptions {
            iter_start_ts: None,
            ..
        } => return Ok(()),
        ReadOptions { tailing: true, .. } => "tailing",
        ReadOptions {
            prefix_same_as_start: true,
            ..
        } => "prefix_same_as_start",
        _ => return Ok(()),
    };
    Err(Error::not_supported(format!(
        "{refused} is not supported with iter_start_ts"
    )))
}

/// Returns the error of a prefix range under a comparator that does not keep prefixes adjacent.
fn no_prefix_range(comparator: &str) -> Error {
    Error::not_supported(format!(
        "comparator {comparator} does not keep keys with one prefix together"
    ))
}

impl std::fmt::Debug for DbCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DbCursor")
            .field("key", &self.key())
            .finish_non_exhaustive()
    }
}
