//! Reads at a user-defined timestamp.
//!
//! A read sees the versions of a key up to its timestamp, and of these the one with the newest. A
//! [`Dated`] cursor shows a sorted run as such a read sees it: without newer versions, and without
//! the timestamps that end the keys. A scan over such runs is then a scan without timestamps: the
//! timestamps of a key must not fall, so the newest one has the largest sequence number.
//!
//! With a first timestamp (`iter_start_ts`), each version from that on is an entry of its own, and
//! so is a deletion: keys keep their timestamps, and a deletion is shown as an empty value.

use std::ops::Range;
use std::sync::Arc;

use koeldb_base::key::{InternalKey, MAX_SEQNO, ValueType, encode_into, footer_of, pack};
use koeldb_base::range_del::FragmentedTombstones;
use koeldb_base::timestamp::{
    EntryVersion, MAX_TIMESTAMP, MIN_TIMESTAMP, TIMESTAMP_BYTES, Timestamp, join, split,
};
use koeldb_base::{Cursor, Error, Fault, KeyOrder, Lookup, PinnedSlice, Result, SeqNo};
use koeldb_table::block_based::cursor::CursorSource;
use koeldb_table::reader::{TableCursorOptions, TableReader};
use koeldb_table::source::{BlockReadOptions, BlockingSource};

use super::options::ReadOptions;
use crate::engine::reads::Reads;
use crate::options::ReadTier;
use crate::read::get::{needs_io, skips_memtables};
use crate::state::column_family_data::ColumnFamilyData;
use crate::state::key_bounds::KeyBounds;
use crate::state::super_version::SuperVersion;

/// The timestamps that a read sees.
#[derive(Clone, Debug)]
pub(super) struct ReadTime {
    /// The order of keys with timestamps.
    pub(super) order: KeyOrder,
    /// The newest timestamp.
    pub(super) newest: Timestamp,
    /// The oldest timestamp of a scan of versions; `None` for a read of the newest version.
    pub(super) oldest: Option<Timestamp>,
}

impl ReadTime {
    /// Returns the timestamps that a read with `options` sees; `None` if it names none.
    pub(super) fn of(order: &KeyOrder, options: &ReadOptions) -> Option<Self> {
        options.timestamp.map(|newest| ReadTime {
            order: order.clone(),
            newest,
            oldest: options.iter_start_ts,
        })
    }

    /// The order in which the entries of a scan come.
    pub(super) fn scan_order(&self) -> KeyOrder {
        match self.oldest {
            Some(_) => self.order.clone(),
            None => self.order.without_timestamps(),
        }
    }

    /// Whether the read sees entries of this timestamp.
    fn sees(&self, time: &Timestamp) -> bool {
        let compare = |other| self.order.compare_timestamps(time, other);
        compare(&self.newest).is_le()
            && self
                .oldest
                .as_ref()
                .is_none_or(|from| compare(from).is_ge())
    }

    /// Converts bounds of keys without timestamps to those of the keys that the scan shows.
    pub(super) fn scan_bounds(&self, bounds: &KeyBounds) -> KeyBounds {
        match self.oldest {
            Some(_) => bounds.with_timestamps(),
            None => bounds.clone(),
        }
    }
}

/// A cursor over the entries of a sorted run that a read at a timestamp sees.
pub(super) struct Dated<C> {
    inner: C,
    time: ReadTime,
    is_valid: bool,
    /// The internal key that is shown.
    key: Vec<u8>,
    version: EntryVersion,
    /// The inner position that is sought.
    target: Vec<u8>,
}

impl<C: Cursor> Dated<C> {
    /// Creates an unpositioned cursor over the entries of `inner`, whose keys have timestamps.
    pub(super) fn new(inner: C, time: ReadTime) -> Self {
        Dated {
            inner,
            time,
            is_valid: false,
            key: Vec::new(),
            version: EntryVersion::default(),
            target: Vec::new(),
        }
    }

    /// Shows the entry at the inner cursor, if the read sees it.
    fn show(&mut self) -> Result<bool, Error> {
        let entry = InternalKey::parse(self.inner.key())?;
        let (key, timestamp) = split(entry.user_key);
        if !self.time.sees(&timestamp) {
            return Ok(false);
        }
        let footer = pack(entry.seqno, entry.value_type);
        self.version = EntryVersion { timestamp, footer };
        if self.time.oldest.is_none() {
            encode_into(&mut self.key, key, entry.seqno, entry.value_type);
            return Ok(true);
        }
        let shown = match entry.value_type {
            ValueType::Merge => {
                return Err(Error::not_supported(
                    "a scan with iter_start_ts has met a merge operand, which is not supported",
                ));
            }
            other if other.is_deletion() => ValueType::Value,
            other => other,
        };
        encode_into(&mut self.key, entry.user_key, entry.seqno, shown);
        Ok(true)
    }

    /// Leaves the inner entry, and moves on to one that the read sees.
    fn advance(&mut self) -> Result<(), Fault<C::Suspend>> {
        self.is_valid = false;
        loop {
            self.inner.next()?;
            if !self.inner.valid() {
                return Ok(());
            }
            if self.show()? {
                self.is_valid = true;
                return Ok(());
            }
        }
    }

    /// Leaves the inner entry, and moves back to one that the read sees.
    fn retreat(&mut self) -> Result<(), Fault<C::Suspend>> {
        self.is_valid = false;
        loop {
            self.inner.prev()?;
            if !self.inner.valid() {
                return Ok(());
            }
            if self.show()? {
                self.is_valid = true;
                return Ok(());
            }
        }
    }

    /// Shows the inner entry, or the next one in this direction that the read sees.
    fn settle(&mut self, forward: bool) -> Result<(), Fault<C::Suspend>> {
        self.is_valid = false;
        if !self.inner.valid() {
            return Ok(());
        }
        if self.show()? {
            self.is_valid = true;
            return Ok(());
        }
        match forward {
            true => self.advance(),
            false => self.retreat(),
        }
    }

    /// Sets the inner position that is sought: the key of `target` with `time` and its footer.
    fn aim(&mut self, target: &[u8], time: &Timestamp) {
        let (key, footer) = footer_of(target);
        self.target.clear();
        self.target.extend_from_slice(key);
        if self.time.oldest.is_none() {
            self.target.extend_from_slice(time);
        }
        self.target.extend_from_slice(&footer.to_le_bytes());
    }

    /// Compares the entry shown with a position in the order of the entries shown.
    fn is_before(&self, target: &[u8]) -> bool {
        self.compare(target).is_lt()
    }

    /// Compares the entry shown with a position.
    fn compare(&self, target: &[u8]) -> std::cmp::Ordering {
        let ((key, footer), (other, other_footer)) = (footer_of(&self.key), footer_of(target));
        let keys = match self.time.oldest {
            Some(_) => self.time.order.compare(key, other),
            None => self
                .time
                .order
                .comparator()
                .compare_without_timestamps(key, other),
        };
        keys.then(other_footer.cmp(&footer))
    }
}

impl<C: Cursor> Cursor for Dated<C> {
    type Suspend = C::Suspend;

    fn valid(&self) -> bool {
        self.is_valid
    }

    fn seek_to_first(&mut self) -> Result<(), Fault<C::Suspend>> {
        self.is_valid = false;
        self.inner.seek_to_first()?;
        self.settle(true)
    }

    fn seek_to_last(&mut self) -> Result<(), Fault<C::Suspend>> {
        self.is_valid = false;
        self.inner.seek_to_last()?;
        self.settle(false)
    }

    fn seek(&mut self, target: &[u8]) -> Result<(), Fault<C::Suspend>> {
        self.is_valid = false;
        // The versions of a key are ordered by timestamp first: only those with the newest one that
        // is seen, or all, can be skipped by their numbers.
        let from = match footer_of(target).1 {
            0 => MIN_TIMESTAMP,
            _ => self.time.newest,
        };
        self.aim(target, &from);
        self.inner.seek(&self.target)?;
        self.settle(true)?;
        while self.is_valid && self.is_before(target) {
            self.advance()?;
        }
        Ok(())
    }

    fn seek_for_prev(&mut self, target: &[u8]) -> Result<(), Fault<C::Suspend>> {
        self.is_valid = false;
        let before_all = pack(MAX_SEQNO, ValueType::FOR_SEEK);
        if footer_of(target).1 == before_all || self.time.oldest.is_some() {
            self.aim(target, &MAX_TIMESTAMP);
        } else {
            self.aim(target, &MIN_TIMESTAMP);
            let bytes = self.target.len();
            self.target[bytes - size_of::<u64>()..].fill(0);
        }
        self.inner.seek_for_prev(&self.target)?;
        self.settle(false)?;
        while self.is_valid && self.compare(target).is_gt() {
            self.retreat()?;
        }
        Ok(())
    }

    fn next(&mut self) -> Result<(), Fault<C::Suspend>> {
        self.advance()
    }

    fn prev(&mut self) -> Result<(), Fault<C::Suspend>> {
        self.retreat()
    }

    fn key(&self) -> &[u8] {
        &self.key
    }

    fn value(&self) -> &[u8] {
        self.inner.value()
    }

    fn pinned_value(&self) -> PinnedSlice {
        self.inner.pinned_value()
    }

    fn version(&self) -> Option<EntryVersion> {
        Some(self.version)
    }
}

/// Checks that a read names a timestamp exactly if the keys of the family have them, and that the
/// history at that timestamp is still there.
///
/// # Errors
/// `InvalidArgument`.
#[cold]
pub(super) fn check_time(
    family: &ColumnFamilyData,
    super_version: &SuperVersion,
    options: &ReadOptions,
) -> Result<()> {
    let name = &family.name;
    let Some(time) = &options.timestamp else {
        return Err(Error::invalid_argument(match family.has_timestamps {
            true => format!(
                "column family {name:?} has user-defined timestamps: name one with \
                 ReadOptions::set_timestamp"
            ),
            false => "ReadOptions::set_iter_start_ts needs a timestamp, too".to_owned(),
        }));
    };
    if !family.has_timestamps {
        return Err(Error::invalid_argument(format!(
            "ReadOptions::set_timestamp: column family {name:?} has no user-defined timestamps"
        )));
    }
    match &super_version.version.full_history_ts_low {
        Some(low) if family.order.compare_timestamps(time, low).is_lt() => {
            Err(Error::invalid_argument(format!(
                "read timestamp {} is smaller than full_history_ts_low {}: its history may be gone",
                u64::from_le_bytes(*time),
                u64::from_le_bytes(*low),
            )))
        }
        _ => Ok(()),
    }
}

/// The key of a point look-up at a timestamp, which searches sorted runs by their cursors.
struct DatedKey<'r> {
    time: &'r Timestamp,
    order: &'r KeyOrder,
    /// The user key with the timestamp of the read.
    key: Vec<u8>,
    /// The internal key that sorts before all entries that the read sees.
    from: Vec<u8>,
}

impl<'r> DatedKey<'r> {
    fn new(lookup: &Lookup, order: &'r KeyOrder, time: &'r Timestamp) -> Self {
        let key = join(lookup.user_key(), time);
        let mut from = Vec::with_capacity(key.len() + TIMESTAMP_BYTES);
        encode_into(&mut from, &key, lookup.snapshot(), ValueType::FOR_SEEK);
        DatedKey {
            time,
            order,
            key,
            from,
        }
    }

    /// Offers the entries of the key in one sorted run until the look-up is settled.
    fn search<C: Cursor>(&self, run: &mut C, lookup: &mut Lookup) -> Result<(), Fault<C::Suspend>> {
        run.seek(&self.from)?;
        while run.valid() {
            let entry = InternalKey::parse(run.key())?;
            if !self
                .order
                .equal_without_timestamps(entry.user_key, &self.key)
            {
                return Ok(());
            }
            let (seqno, value_type) = (entry.seqno, entry.value_type);
            if seqno <= lookup.snapshot()
                && lookup.offer(seqno, value_type, || run.pinned_value())?
            {
                return Ok(());
            }
            run.next()?;
        }
        Ok(())
    }

    /// Whether the newest version in a sorted run was written after `since`, or has a timestamp for
    /// which `is_above` holds.
    fn has_version<C: Cursor>(
        &self,
        run: &mut C,
        since: SeqNo,
        is_above: impl Fn(&Timestamp) -> bool,
    ) -> Result<bool, Fault<C::Suspend>> {
        run.seek(&self.from)?;
        if !run.valid() {
            return Ok(false);
        }
        let entry = InternalKey::parse(run.key())?;
        let is_own = self
            .order
            .equal_without_timestamps(entry.user_key, &self.key);
        Ok(is_own && (entry.seqno > since || is_above(&split(entry.user_key).1)))
    }

    /// Searches a table: its range tombstones, its filter, and its entries.
    fn search_table<S: CursorSource>(
        &self,
        reader: &TableReader,
        lookup: &mut Lookup,
        source: &mut S,
    ) -> Result<(), Fault<S::Suspend>> {
        if let Some(tombstones) = reader.tombstones() {
            let snapshot = lookup.snapshot();
            let seqno = tombstones.covering_seqno_at(&self.key, snapshot, self.time);
            if seqno > 0 {
                lookup.cover(seqno);
            }
        }
        if reader.may_contain(lookup.user_key(), source)? {
            let options = TableCursorOptions::default();
            self.search(&mut reader.borrowing_cursor(source, &options), lookup)?;
        }
        Ok(())
    }
}

/// Looks up a key at the timestamp of the options in the memtables, newest first.
#[cold]
pub(super) fn search_memtables_at(
    reads: &Reads,
    super_version: &SuperVersion,
    lookup: &mut Lookup,
    options: &ReadOptions,
) -> Result<()> {
    if skips_memtables(reads, options) {
        return Ok(());
    }
    let time = named(options)?;
    let key = DatedKey::new(lookup, &super_version.version.order, time);
    for memtable in std::iter::once(&super_version.memtable).chain(&super_version.sealed) {
        if lookup.is_settled() {
            return Ok(());
        }
        for list in memtable.tombstone_lists() {
            let seqno = list.covering_seqno_at(&key.key, lookup.snapshot(), time);
            if seqno > 0 {
                lookup.cover(seqno);
            }
        }
        key.search(&mut memtable.borrowing_cursor(), lookup)?;
        lookup.checkpoint();
    }
    match options.read_tier {
        ReadTier::Memtable if !lookup.is_settled() => Err(needs_io()),
        _ => Ok(()),
    }
}

/// Looks up a key at the timestamp of the options in the tables, newest first, before run
/// `runs.end`.
///
/// Like [`Version::search`](koeldb_lsm::Version::search) it begins with the first run that was not
/// searched whole.
#[cold]
pub(super) fn search_tables_at<S: CursorSource>(
    super_version: &SuperVersion,
    lookup: &mut Lookup,
    options: &ReadOptions,
    source: &mut S,
    runs: Range<usize>,
) -> Result<(), Fault<S::Suspend>> {
    let (version, tables) = (&super_version.version, &super_version.tables);
    let key = DatedKey::new(lookup, &version.order, named(options)?);
    let mut run = runs.start;
    for (level, files) in version.levels.iter().enumerate() {
        let all = &files.files[..];
        if all.is_empty() {
            continue;
        }
        // Each table of level 0 is a run.
        let (first, run_count) = match level {
            0 => (0, all.len()),
            _ => (files.find(&version.order, &key.from).min(all.len()), 1),
        };
        for index in 0..run_count {
            let tables_of_run = match level {
                0 => &all[index..=index],
                _ => &all[first..],
            };
            if run >= runs.end {
                return Ok(());
            }
            if run >= lookup.runs_searched() {
                for file in tables_of_run {
                    if !version.overlaps(file, Some(&key.key[..]), Some(&key.key[..])) {
                        break;
                    }
                    let reader = tables.reader(file, level)?;
                    key.search_table(&reader, lookup, source)?;
                    if lookup.is_settled() {
                        break;
                    }
                }
                lookup.end_run(run);
                if lookup.is_settled() {
                    return Ok(());
                }
            }
            run += 1;
        }
    }
    Ok(())
}

/// Whether a key was written after the sequence number `since`, or has a version above `time`.
pub(crate) fn is_written_since(
    super_version: &SuperVersion,
    user_key: &[u8],
    since: SeqNo,
    time: Option<&Timestamp>,
) -> Result<bool> {
    let (version, tables) = (&super_version.version, &super_version.tables);
    let order = &version.order;
    let key = DatedKey::new(&Lookup::new(user_key, MAX_SEQNO), order, &MAX_TIMESTAMP);
    let is_above =
        |own: &Timestamp| time.is_some_and(|time| order.compare_timestamps(own, time).is_gt());
    let is_covered = |list: &FragmentedTombstones| {
        let newest = list.covering_seqno_at(&key.key, MAX_SEQNO, &MAX_TIMESTAMP);
        let seen = time.map(|time| list.covering_seqno_at(&key.key, MAX_SEQNO, time));
        newest > since || seen.is_some_and(|seen| seen < newest)
    };
    for memtable in std::iter::once(&super_version.memtable).chain(&super_version.sealed) {
        let mut lists = memtable.tombstone_lists();
        if lists.any(|list| is_covered(&list))
            || key.has_version(&mut memtable.borrowing_cursor(), since, is_above)?
        {
            return Ok(true);
        }
    }
    let bound = Some(&key.key[..]);
    for (level, file) in version.files() {
        // An unknown timestamp counts as the largest.
        let may_be_above = file
            .newest_timestamp()
            .is_none_or(|newest| is_above(&newest));
        let may_differ = file.largest_seqno > since || time.is_some() && may_be_above;
        if !may_differ || !version.overlaps(file, bound, bound) {
            continue;
        }
        let reader = tables.reader(file, level)?;
        let mut source = BlockingSource::new(BlockReadOptions::default());
        if reader.tombstones().is_some_and(|list| is_covered(list)) {
            return Ok(true);
        }
        if reader.may_contain(user_key, &mut source)? {
            let options = TableCursorOptions::default();
            let mut cursor = reader.borrowing_cursor(source, &options);
            if key.has_version(&mut cursor, since, is_above)? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Returns the timestamp that a read names.
fn named(options: &ReadOptions) -> Result<&Timestamp> {
    let time = options.timestamp.as_ref();
    time.ok_or_else(|| Error::invalid_argument("the read names no timestamp"))
}

impl Reads {
    /// Looks up one key at the timestamp of the options, in memtables and then in tables.
    #[cold]
    pub(super) fn search_at(
        &self,
        super_version: &Arc<SuperVersion>,
        lookup: &mut Lookup,
        options: &ReadOptions,
    ) -> Result<()> {
        if options.is_bounded() {
            return self.settle(super_version, lookup, options);
        }
        search_memtables_at(self, super_version, lookup, options)?;
        if !lookup.is_settled() {
            let options_of_reads = options.block_read_options(&self.context.table_files);
            let mut source = BlockingSource::new(options_of_reads);
            let runs = super_version.runs_above()..usize::MAX;
            search_tables_at(super_version, lookup, options, &mut source, runs)?;
        }
        Ok(())
    }
}
