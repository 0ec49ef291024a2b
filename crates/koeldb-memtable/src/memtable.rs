//! The memtable as the engine sees it: point entries, range tombstones, filter and counters.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use koeldb_base::coding::to_usize;
use koeldb_base::key::{FOOTER_BYTES, pack};
use koeldb_base::prefix::PrefixExtractor;
use koeldb_base::range_del::{FragmentedTombstones, RangeTombstone};
use koeldb_base::timestamp::{self, TIMESTAMP_BYTES, Timestamp};
use koeldb_base::{Error, ErrorKind, KeyOrder, Lookup, Result, SeqNo, ValueType};

use crate::arena::SharedArena;
use crate::bloom::{BloomOptions, MemtableBloom};
use crate::cursor::MemtableCursor;
use crate::protection::protect;
use crate::rep::{BATCH, EntryParts, Learned, MemtableOptions, MemtableRep, RepCursor};
use crate::tombstones::Tombstones;

/// An entry for [`Memtable::insert_batch`]: a point entry or a range tombstone.
///
/// For [`ValueType::RangeDeletion`] the key is the range's start, the value its end.
#[derive(Clone, Copy, Debug)]
pub struct BatchEntry<'a> {
    /// The sequence number of the write.
    pub seqno: SeqNo,
    /// The kind of write.
    pub value_type: ValueType,
    /// The user key.
    pub key: &'a [u8],
    /// The value of the entry.
    pub value: &'a [u8],
}

/// The memory of a memtable in bytes, by use: entries, hash table, order, tombstones, filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryReport {
    /// The bytes of entries and their links, with the free ends of blocks.
    pub arena_bytes: usize,
    /// The bytes of hash tables.
    pub bucket_bytes: usize,
    /// The bytes of logs, sorted runs and sorted copies, including those that only cursors hold.
    pub order_bytes: usize,
    /// The bytes of range tombstones.
    pub tombstone_bytes: usize,
    /// The bytes of the Bloom filter.
    pub filter_bytes: usize,
}

impl MemoryReport {
    /// The sum of all parts, in bytes.
    #[must_use]
    #[inline]
    pub fn total(&self) -> usize {
        self.arena_bytes
            + self.bucket_bytes
            + self.order_bytes
            + self.tombstone_bytes
            + self.filter_bytes
    }
}

/// A memtable: an in-memory table of internal entries in key order, and range tombstones.
///
/// Any number of threads may call all methods concurrently, except that [`Memtable::seal`] must
/// follow the last insert.
#[repr(align(128))]
pub struct Memtable {
    order: KeyOrder,
    rep: MemtableRep,
    /// The arena of the entries of `rep`, for access without dispatch on the representation.
    arena: SharedArena,
    tombstones: Tombstones,
    bloom: Option<Filter>,
    checks_order: bool,
    /// Whether keys end with user-defined timestamps.
    has_timestamps: bool,
    /// The newest user-defined timestamp so far, as a number, if it is tracked.
    newest_timestamp: Option<AtomicU64>,
    sealed: AtomicBool,
    /// The sequence numbers of range tombstones; the arena counts those of point entries.
    tombstone_seqno_first: AtomicU64,
    tombstone_seqno_largest: AtomicU64,
    tombstone_data_bytes: AtomicU64,
}

/// The Bloom filter of a memtable over whole keys, prefixes, or both.
struct Filter {
    bloom: MemtableBloom,
    options: BloomOptions,
}

impl Filter {
    /// Adds a user key, its prefix, or both, as the options request.
    fn note(&self, user_key: &[u8]) {
        if self.options.whole_keys {
            self.bloom.insert(MemtableBloom::hash(user_key));
        }
        if let Some(prefix) = self.prefix(user_key) {
            self.bloom.insert(MemtableBloom::hash(prefix));
        }
    }

    /// Whether the filter admits the key of a lookup, so that the memtable must be searched.
    fn may_contain(&self, lookup: &Lookup) -> bool {
        if self.options.whole_keys {
            return self.bloom.may_contain(lookup.filter_hash());
        }
        match self.prefix(lookup.user_key()) {
            Some(prefix) => self.bloom.may_contain(MemtableBloom::hash(prefix)),
            None => true,
        }
    }

    /// Returns the prefix of a user key; `None` without extractor or outside its domain.
    fn prefix<'k>(&self, user_key: &'k [u8]) -> Option<&'k [u8]> {
        self.options.prefixes.as_ref()?.prefix(user_key)
    }
}

impl Memtable {
    /// Creates an empty memtable.
    #[must_use]
    pub fn new(order: KeyOrder, options: &MemtableOptions) -> Arc<Self> {
        Self::with(order, options, Learned::NOTHING)
    }

    /// Creates the empty next memtable for a memtable switch, with sizes learned from this one.
    ///
    /// This memtable may still be written, so that the successor can be prepared before the switch.
    #[must_use]
    pub fn successor(&self, options: &MemtableOptions) -> Arc<Self> {
        let totals = self.arena.arena().totals();
        let mut learned = self.rep.learned();
        learned.entry_bytes = totals.data_bytes.checked_div(totals.entries).map(to_usize);
        Self::with(self.order.clone(), options, learned)
    }

    /// Creates an empty memtable, with sizes learned from a predecessor.
    fn with(order: KeyOrder, options: &MemtableOptions, learned: Learned) -> Arc<Self> {
        let hashes = order.permits_hashes();
        let bloom = options.bloom.clone().filter(|_| hashes);
        let bloom = bloom.map(|options| Filter {
            bloom: MemtableBloom::new(options.bytes),
            options,
        });
        let rep = MemtableRep::new(options, order.clone(), learned);
        Arc::new(Memtable {
            arena: rep.arena().clone(),
            rep,
            has_timestamps: order.has_timestamps(),
            newest_timestamp: options.tracks_timestamps.then(|| AtomicU64::new(0)),
            order,
            tombstones: Tombstones::default(),
            bloom,
            checks_order: options.checks_order,
            sealed: AtomicBool::new(false),
            tombstone_seqno_first: AtomicU64::new(SeqNo::MAX),
            tombstone_seqno_largest: AtomicU64::new(0),
            tombstone_data_bytes: AtomicU64::new(0),
        })
    }

    /// Inserts a point entry or a range tombstone.
    ///
    /// If keys have timestamps, a deletion becomes one of type
    /// [`ValueType::DeletionWithTimestamp`].
    ///
    /// For [`ValueType::RangeDeletion`] the key is the range's start, the value its end.
    ///
    /// # Errors
    /// `TryAgain` if there is an entry with this key and sequence number (the vector does not
    /// check); `InvalidArgument` if key or value has 4 GiB or more, or a key lacks its timestamp.
    #[inline]
    pub fn insert(
        &self,
        seqno: SeqNo,
        value_type: ValueType,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        debug_assert!(
            !self.sealed.load(Ordering::Relaxed),
            "nothing is inserted into a sealed memtable"
        );
        let value_type = match self.has_timestamps {
            true => {
                self.note_timestamp(key);
                type_with_timestamp(value_type, key, value)?
            }
            false => value_type,
        };
        if value_type == ValueType::RangeDeletion {
            self.insert_tombstone(seqno, key, value);
            return Ok(());
        }
        let protected;
        let value = match self.arena.protection_bytes() {
            0 => value,
            bytes => {
                protected = protect(key, pack(seqno, value_type), value, bytes);
                &protected
            }
        };
        let parts = EntryParts::new(seqno, value_type, key, value)?;
        if let Some(filter) = &self.bloom {
            filter.note(key);
        }
        self.rep.insert(&parts).map_err(|_| duplicate(seqno))
    }

    /// Raises the newest timestamp to that of a user key, if it is tracked.
    #[cold]
    fn note_timestamp(&self, user_key: &[u8]) {
        if let Some(newest) = &self.newest_timestamp {
            let (_, own) = timestamp::split(user_key);
            newest.fetch_max(u64::from_le_bytes(own), Ordering::Relaxed);
        }
    }

    /// The newest user-defined timestamp of all entries, as a number; `None` without entries, and
    /// unless it is tracked ([`MemtableOptions::tracks_timestamps`]).
    #[must_use]
    pub fn newest_timestamp(&self) -> Option<Timestamp> {
        let newest = self
            .newest_timestamp
            .as_ref()
            .filter(|_| !self.is_empty())?;
        Some(newest.load(Ordering::Relaxed).to_le_bytes())
    }

    /// Inserts several entries in their order; faster than one by one, as cache misses overlap.
    ///
    /// # Errors
    /// See [`insert`](Self::insert); the entries before the refused one are inserted.
    pub fn insert_batch(&self, entries: &[BatchEntry<'_>]) -> Result<()> {
        debug_assert!(
            !self.sealed.load(Ordering::Relaxed),
            "nothing is inserted into a sealed memtable"
        );
        if self.arena.protection_bytes() != 0 || self.has_timestamps {
            return entries.iter().try_for_each(|entry| {
                self.insert(entry.seqno, entry.value_type, entry.key, entry.value)
            });
        }
        for some in entries.chunks(BATCH) {
            let mut batch = [EntryParts::EMPTY; BATCH];
            let mut count = 0;
            for entry in some {
                let BatchEntry {
                    seqno,
                    value_type,
                    key,
                    value,
                } = *entry;
                if value_type == ValueType::RangeDeletion {
                    self.insert_tombstone(seqno, key, value);
                    continue;
                }
                batch[count] = EntryParts::new(seqno, value_type, key, value)?;
                count += 1;
                if let Some(filter) = &self.bloom {
                    filter.note(key);
                }
            }
            let batch = &batch[..count];
            let (inserted, outcome) = self.rep.insert_batch(batch);
            if outcome.is_err() {
                return Err(duplicate(batch[inserted].seqno));
            }
        }
        Ok(())
    }

    /// Adds a range tombstone to the list and to the totals.
    fn insert_tombstone(&self, seqno: SeqNo, start: &[u8], end: &[u8]) {
        self.tombstone_seqno_first
            .fetch_min(seqno, Ordering::Relaxed);
        self.tombstone_seqno_largest
            .fetch_max(seqno, Ordering::Relaxed);
        let data_bytes = start.len() + FOOTER_BYTES + end.len();
        self.tombstone_data_bytes
            .fetch_add(data_bytes as u64, Ordering::Relaxed);
        self.tombstones.insert(RangeTombstone {
            start: start.to_vec(),
            end: end.to_vec(),
            seqno,
        });
    }

    /// Searches for the key of a point lookup, which collects the result.
    ///
    /// Raises the covering range tombstone, then offers the visible entries newest first until the
    /// lookup is settled.
    ///
    /// # Errors
    /// The error of the lookup for an entry.
    #[inline]
    pub fn search(&self, lookup: &mut Lookup) -> Result<()> {
        if self.cover(lookup) {
            self.rep.search(&self.order, lookup)?;
        }
        Ok(())
    }

    /// Searches for the keys of a batch of point lookups (`MultiGet`); skips settled ones.
    ///
    /// The cache misses of a batch overlap. `fail` receives the index and error of each failed
    /// lookup.
    pub fn search_batch(&self, lookups: &mut [Lookup], mut fail: impl FnMut(usize, Error)) {
        let mut waiting = [0; BATCH];
        let mut count = 0;
        for at in 0..lookups.len() {
            if !lookups[at].is_settled() && self.cover(&mut lookups[at]) {
                waiting[count] = at;
                count += 1;
            }
            if count == BATCH || at + 1 == lookups.len() {
                self.rep
                    .search_batch(&self.order, lookups, &waiting[..count], &mut fail);
                count = 0;
            }
        }
    }

    /// Records the range tombstone that covers the key; returns whether the filter admits the key.
    #[inline]
    fn cover(&self, lookup: &mut Lookup) -> bool {
        let covering =
            self.tombstones
                .covering_seqno(&self.order, lookup.user_key(), lookup.snapshot());
        if covering > 0 {
            lookup.cover(covering);
        }
        let filter = self.bloom.as_ref();
        filter.is_none_or(|filter| filter.may_contain(lookup))
    }

    /// Creates an unpositioned cursor over the point entries, which keeps their memory alive.
    #[must_use]
    pub fn cursor(self: &Arc<Self>) -> MemtableCursor<'static> {
        self.checked(self.rep.cursor())
    }

    /// Creates an unpositioned cursor over the point entries, which borrows the memtable.
    ///
    /// It counts no reference to a skip list, the usual representation.
    #[must_use]
    pub fn borrowing_cursor(&self) -> MemtableCursor<'_> {
        self.checked(self.rep.borrowing_cursor())
    }

    /// Wraps the cursor of the representation, with the checks that the options enable.
    ///
    /// These verify checksums and the order of keys.
    fn checked<'m>(&self, cursor: RepCursor<'m>) -> MemtableCursor<'m> {
        let cursor = MemtableCursor::new(cursor, self.arena.protection_bytes() != 0);
        match self.checks_order {
            true => cursor.checking_order(&self.order),
            false => cursor,
        }
    }

    /// Creates a cursor for prefix seeks: it may omit keys without the prefix of the key sought.
    ///
    /// That key must have a prefix. With [`RepKind::HashSkipList`](crate::RepKind::HashSkipList) and
    /// [`RepKind::HashLinkList`](crate::RepKind::HashLinkList) the cursor makes no sorted copy, and
    /// `seek_to_first` and `seek_to_last` find nothing, unless the memtable hashes with another
    /// extractor than `prefixes`.
    #[must_use]
    pub fn prefix_cursor(
        self: &Arc<Self>,
        prefixes: &Arc<dyn PrefixExtractor>,
    ) -> MemtableCursor<'static> {
        self.checked(self.rep.prefix_cursor(prefixes))
    }

    /// Creates a prefix cursor that finds nothing if the Bloom filter excludes the prefix sought.
    ///
    /// The order must keep the keys of a prefix together, so that those of others do not matter.
    #[must_use]
    pub fn filtered_prefix_cursor(
        self: &Arc<Self>,
        prefixes: &Arc<dyn PrefixExtractor>,
    ) -> MemtableCursor<'static> {
        let cursor = self.prefix_cursor(prefixes);
        let filter = self.bloom.as_ref();
        let filtered = filter.and_then(|filter| filter.options.prefixes.as_ref());
        if filtered.is_some_and(|filtered| filtered.name() == prefixes.name()) {
            cursor.filtered(self)
        } else {
            cursor
        }
    }

    /// Whether the memtable may have keys with the prefix of `user_key`, by its Bloom filter.
    pub(crate) fn may_contain_prefix(&self, user_key: &[u8]) -> bool {
        self.bloom.as_ref().is_none_or(|filter| {
            let prefix = filter.prefix(user_key);
            prefix.is_none_or(|prefix| filter.bloom.may_contain(MemtableBloom::hash(prefix)))
        })
    }

    /// Returns all range tombstones inserted so far, fragmented in one list; `None` without any.
    #[must_use]
    pub fn tombstones(&self) -> Option<Arc<FragmentedTombstones>> {
        self.tombstones.fragments(&self.order)
    }

    /// Returns the range tombstones inserted so far, in a few fragmented lists that may overlap.
    ///
    /// These are the lists that readers have built; [`Memtable::tombstones`] builds a single one.
    pub fn tombstone_lists(&self) -> impl Iterator<Item = Arc<FragmentedTombstones>> {
        self.tombstones.lists(&self.order).cloned()
    }

    /// The bytes of memory that the memtable took from the allocator.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.memory().total()
    }

    /// The memory in use without hash tables and reserved space: how full the memtable is.
    ///
    /// Hash tables exist from the start.
    #[must_use]
    #[inline]
    pub fn filled_bytes(&self) -> usize {
        let memory = self.memory();
        // A thread may be adding memory: the reserved space may then exceed the earlier total.
        let ready = self.arena.arena().uncut_bytes();
        (memory.total() - memory.bucket_bytes).saturating_sub(ready)
    }

    /// Returns the memory of the memtable in bytes, by use.
    #[must_use]
    #[inline]
    pub fn memory(&self) -> MemoryReport {
        let filter = self.bloom.as_ref();
        MemoryReport {
            arena_bytes: self.arena.arena().memory_bytes() + size_of::<Self>(),
            bucket_bytes: self.rep.bucket_bytes(),
            order_bytes: self.rep.order_bytes(),
            tombstone_bytes: self.tombstones.memory_bytes(),
            filter_bytes: filter.map_or(0, |filter| filter.bloom.memory_bytes()),
        }
    }

    /// The number of inserted entries, including range tombstones.
    #[must_use]
    pub fn entry_count(&self) -> u64 {
        self.arena.arena().totals().entries + self.range_deletion_count()
    }

    /// The number of entries without range deletions.
    #[must_use]
    pub fn point_count(&self) -> u64 {
        self.arena.arena().totals().entries
    }

    /// The number of point deletions, including single deletions, without range tombstones.
    #[must_use]
    pub fn deletion_count(&self) -> u64 {
        self.arena.arena().totals().deletions
    }

    /// The number of range tombstones.
    #[must_use]
    pub fn range_deletion_count(&self) -> u64 {
        self.tombstones.count() as u64
    }

    /// The encoded bytes of all entries, without memory overhead.
    #[must_use]
    pub fn data_bytes(&self) -> u64 {
        self.arena.arena().totals().data_bytes + self.tombstone_data_bytes.load(Ordering::Relaxed)
    }

    /// Whether nothing was inserted.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tombstones.count() == 0 && self.arena.arena().is_empty()
    }

    /// The smallest inserted sequence number; `None` if there is no entry.
    #[must_use]
    pub fn first_seqno(&self) -> Option<SeqNo> {
        let points = self.arena.arena().totals().first_seqno;
        let tombstones = self.tombstone_seqno_first.load(Ordering::Relaxed);
        let first = points.unwrap_or(SeqNo::MAX).min(tombstones);
        (first != SeqNo::MAX).then_some(first)
    }

    /// The largest inserted sequence number, or 0.
    #[must_use]
    pub fn largest_seqno(&self) -> SeqNo {
        let points = self.arena.arena().totals().largest_seqno;
        points.max(self.tombstone_seqno_largest.load(Ordering::Relaxed))
    }

    /// Marks the memtable as immutable: no insert may follow. Takes constant time, never waits.
    pub fn seal(&self) {
        self.sealed.store(true, Ordering::Release);
        self.rep.seal();
    }

    /// The number of entries in each used bucket, if the representation hashes prefixes.
    #[must_use]
    pub fn bucket_sizes(&self) -> Option<Vec<usize>> {
        self.rep.bucket_sizes()
    }

    /// Sorts the entries of a sealed memtable, if it does not keep them in order, for its flush.
    ///
    /// To be called in the background: it may take milliseconds.
    ///
    /// # Panics
    /// If the memtable is not sealed.
    pub fn finalise(&self) {
        assert!(
            self.sealed.load(Ordering::Acquire),
            "a memtable is sealed before it is finalised"
        );
        self.rep.finalise();
    }
}

impl fmt::Debug for Memtable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memtable")
            .field("entries", &self.entry_count())
            .field("memory_bytes", &self.memory_bytes())
            .finish_non_exhaustive()
    }
}

/// Returns the type under which an entry with a timestamp is stored.
///
/// # Errors
/// `InvalidArgument` if a key is too short for a timestamp; `NotSupported` for an entity.
#[cold]
fn type_with_timestamp(value_type: ValueType, key: &[u8], value: &[u8]) -> Result<ValueType> {
    let is_range = value_type == ValueType::RangeDeletion;
    if key.len() < TIMESTAMP_BYTES || is_range && value.len() < TIMESTAMP_BYTES {
        return Err(Error::invalid_argument(format!(
            "a key of {} bytes has no room for the timestamp of {TIMESTAMP_BYTES} bytes that ends \
             every key of this column family",
            key.len()
        )));
    }
    match value_type {
        ValueType::Deletion => Ok(ValueType::DeletionWithTimestamp),
        ValueType::WideColumnEntity => Err(Error::not_supported(
            "wide columns are not supported in a column family with user-defined timestamps",
        )),
        other => Ok(other),
    }
}

/// Returns the `TryAgain` error for an internal key that is already present.
#[cold]
fn duplicate(seqno: SeqNo) -> Error {
    Error::with_kind(
        ErrorKind::TryAgain,
        format!("the memtable has an entry of this key and sequence number {seqno} already"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rep::RepKind;
    use koeldb_base::Cursor;

    #[test]
    fn what_was_inserted_is_found_and_listed() {
        for rep in [RepKind::default(), RepKind::Vector { reserved: 0 }] {
            let options = MemtableOptions {
                rep,
                ..MemtableOptions::default()
            };
            let memtable = Memtable::new(KeyOrder::Bytewise, &options);
            for (seqno, key) in [(1, b"b"), (2, b"a"), (3, b"b")] {
                memtable
                    .insert(seqno, ValueType::Value, key, &seqno.to_le_bytes().repeat(9))
                    .unwrap();
            }
            let mut lookup = Lookup::new(b"b", 2);
            memtable.search(&mut lookup).unwrap();
            let value = lookup
                .finish(koeldb_base::merge_operator::Merger::default)
                .unwrap()
                .unwrap();
            let mut cursor = memtable.cursor();
            drop(memtable);
            assert_eq!(value[..8], 1_u64.to_le_bytes());
            cursor.seek_to_first().unwrap();
            let mut seqnos = Vec::new();
            while cursor.valid() {
                seqnos.push(footer(cursor.key()) >> 8);
                cursor.next().unwrap();
            }
            assert_eq!(seqnos, [2, 3, 1]);
        }
    }

    fn footer(key: &[u8]) -> u64 {
        koeldb_base::key::footer_of(key).1
    }
}
