//! Decides which entries survive a rewrite: the core of flush and compaction.
//!
//! Snapshots divide history into stripes; within a stripe only the newest entry of a key can ever
//! be visible. The cursor walks merged internal entries and yields those that must be kept:
//!
//! - An entry hidden by a newer one of its key in the same stripe is dropped, as is one under a
//!   range tombstone of the same stripe.
//! - A deletion visible to every reader, of a key that does not exist below the output, is dropped.
//! - A single deletion annihilates with the value it meets in its stripe, and until then stays,
//!   hidden or not; the pair hides no older deletion. If a transaction checks for conflicts from
//!   before the single deletion, and no newer entry of the key remains, both stay as the trace of
//!   the write, the value without its bytes.
//! - Merge operands of a stripe are combined with their base, or with each other. If that fails,
//!   they stay as they are, with their base: reads of the key fail, and nothing else does (RocksDB:
//!   the scope `kMustMerge`).
//! - The compaction filter is called for the newest value of each key, unless a snapshot still
//!   needs it; with user-defined timestamps for each version that counts as a key of its own.
//! - On the bottommost level a value visible to every reader gets sequence number 0.
//! - With user-defined timestamps, each version of a key counts as a key of its own, as long as its
//!   timestamp is not before the low mark. Of the versions before it the newest one stays, and the
//!   others are treated as if there were no timestamps; a number that becomes 0 takes its timestamp
//!   with it. (RocksDB 11.9: `CompactionIterator`, `cmp_with_history_ts_low_`.)
//!
//! Invariant: for every listed snapshot, and for the latest state, reading the output together with
//! the levels below gives the same result as reading the input, except for changes by the
//! compaction filter, and for keys that were written more than once since their last deletion and
//! then deleted with a single deletion. A key that was written after the oldest snapshot of a
//! transaction keeps an entry, or a range tombstone, with the number of its newest write.

use std::collections::VecDeque;
use std::ops::AddAssign;
use std::sync::atomic::{AtomicBool, Ordering};

use koeldb_base::entity::{self, Columns, has_blob_indexes, refers_to_blobs, with_default_column};
use koeldb_base::key::{InternalKey, encode_into};
use koeldb_base::lookup::without_preferred_seqno;
use koeldb_base::merge_operator::{Merger, merge_operands, merge_values};
use koeldb_base::range_del::FragmentedTombstones;
use koeldb_base::timestamp::{self, TIMESTAMP_BYTES, Timestamp};
use koeldb_base::{
    Blocking, Cursor, Error, ErrorKind, KeyOrder, PinnedSlice, Result, SeqNo, ValueType,
};

use super::figures::SingleDeletionCounts;
use super::filter::{CompactionFilter, Decision};
use super::output::TableOutputs;
use super::snapshots::{LiveSnapshots, stripe_of};

/// A function: whether a user key may exist below the output; called with ascending keys.
pub type ExistsBelow<'a> = Box<dyn FnMut(&[u8]) -> bool + 'a>;

/// The snapshots, tombstones, filter and merge operator that decide which entries are kept.
pub struct CompactionRules<'a> {
    /// The order of user keys.
    pub order: KeyOrder,
    /// The live snapshots.
    pub snapshots: LiveSnapshots,
    /// The range tombstones of all inputs.
    pub tombstones: Option<FragmentedTombstones>,
    /// Whether there is nothing below the output, so that sequence numbers need not be kept.
    pub bottommost: bool,
    /// The timestamp below which only the newest version of a key is kept; `None` keeps all.
    pub history_low: Option<Timestamp>,
    /// The uppermost level of the inputs, for the compaction filter; 0 for a flush.
    pub start_level: u32,
    /// The merge operator.
    pub merger: Merger<'a>,
    /// The compaction filter.
    pub filter: Option<Box<dyn CompactionFilter>>,
    /// Returns whether a user key may exist below the output level.
    pub exists_below: ExistsBelow<'a>,
}

/// The numbers of entries that a compaction dropped, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DropCounts {
    /// Entries hidden by a newer entry of the key, and values dropped with their single deletion.
    pub hidden: u64,
    /// Deletions that are no longer needed.
    pub obsolete: u64,
    /// Entries covered by a range tombstone.
    pub range_deleted: u64,
    /// Entries removed by the compaction filter.
    pub filtered: u64,
}

impl DropCounts {
    /// The sum of all counts.
    #[must_use]
    pub fn total(self) -> u64 {
        self.hidden + self.obsolete + self.range_deleted + self.filtered
    }
}

impl AddAssign for DropCounts {
    fn add_assign(&mut self, other: Self) {
        self.hidden += other.hidden;
        self.obsolete += other.obsolete;
        self.range_deleted += other.range_deleted;
        self.filtered += other.filtered;
    }
}

/// An entry of the current key to be yielded.
struct QueuedEntry {
    /// The bytes of its key, if they are not those of the current one.
    user_key: Option<Vec<u8>>,
    seqno: SeqNo,
    value_type: ValueType,
    value: Vec<u8>,
}

impl QueuedEntry {
    /// Creates an entry whose key has the bytes of the current one.
    fn new(seqno: SeqNo, value_type: ValueType, value: Vec<u8>) -> Self {
        QueuedEntry {
            user_key: None,
            seqno,
            value_type,
            value,
        }
    }
}

/// The value of the current output entry: that of the input, or a computed one.
enum OutputEntry {
    /// The value of the entry at the input cursor.
    Input,
    /// A value computed by a merge or a filter.
    Owned(Vec<u8>),
}

/// The base value of merge operands: the next older entry of the key that is not an operand.
enum MergeBase {
    /// A range tombstone covers all older entries of the key.
    Covered,
    Entry {
        /// The bytes of its key: those of the operands' keys may differ, and a value in a blob file
        /// was written with these.
        user_key: Vec<u8>,
        seqno: SeqNo,
        value_type: ValueType,
        value: PinnedSlice,
    },
}

impl MergeBase {
    /// Wraps the entry below the merge operands as their base value.
    ///
    /// # Errors
    /// `Corruption` for an entry that is no base.
    fn of(entry: &InternalKey<'_>, value: PinnedSlice) -> Result<Self> {
        let (seqno, value_type) = (entry.seqno, entry.value_type);
        match value_type {
            ValueType::Merge | ValueType::RangeDeletion => Err(Error::corruption(format!(
                "entry of type {value_type:?} below merge operands"
            ))),
            _ => Ok(MergeBase::Entry {
                user_key: entry.user_key.to_vec(),
                seqno,
                value_type,
                value,
            }),
        }
    }

    /// Whether the value, or a column of it, is in a blob file.
    fn refers(&self) -> bool {
        match self {
            MergeBase::Covered => false,
            MergeBase::Entry {
                value_type, value, ..
            } => refers_to_blobs(*value_type, value),
        }
    }

    /// Returns the key of the base, with the timestamp of an equal key.
    fn key_at(&self, equal: &[u8], has_timestamps: bool) -> Option<Vec<u8>> {
        let MergeBase::Entry { user_key, .. } = self else {
            return None;
        };
        Some(match has_timestamps {
            true => timestamp::join(timestamp::split(user_key).0, &timestamp::split(equal).1),
            false => user_key.clone(),
        })
    }

    /// Returns the existing value for the merge operator; `None` if the key is deleted.
    ///
    /// # Errors
    /// `Corruption` for a malformed value; those of reading a value in a blob file.
    fn value(&self, merger: Merger<'_>) -> Result<Option<PinnedSlice>> {
        let MergeBase::Entry {
            user_key,
            value_type,
            value,
            ..
        } = self
        else {
            return Ok(None);
        };
        match value_type {
            ValueType::WideColumnEntity => merger.default_column(user_key, value).map(Some),
            ValueType::ValuePreferredSeqno => without_preferred_seqno(value).map(Some),
            ValueType::BlobIndex => merger.fetch(user_key, value).map(Some),
            value_type if value_type.is_deletion() => Ok(None),
            _ => Ok(Some(value.clone())),
        }
    }

    /// Returns the type and value of the merge result; in an entity, it is the default column.
    fn with_value(&self, merged: Vec<u8>) -> Result<(ValueType, Vec<u8>)> {
        match self {
            MergeBase::Entry {
                value_type: ValueType::WideColumnEntity,
                value,
                ..
            } => {
                let entity = with_default_column(value, &merged)?;
                Ok((ValueType::WideColumnEntity, entity))
            }
            _ => Ok((ValueType::Value, merged)),
        }
    }
}

/// A forward cursor over the entries that a flush or compaction keeps.
///
/// (RocksDB: `CompactionIterator`.)
pub struct CompactionCursor<'a, C> {
    input: C,
    rules: CompactionRules<'a>,
    has_timestamps: bool,
    /// The range tombstones before the low mark, which alone remove entries with timestamps.
    settled_tombstones: Option<FragmentedTombstones>,
    /// The internal key of the last entry yielded; its user key is the current one.
    key: Vec<u8>,
    user_len: usize,
    has_key: bool,
    /// The snapshot stripe of the last entry kept or decided: older entries of the key in it are
    /// hidden.
    stripe: Option<SeqNo>,
    /// Whether every entry of the stripe so far was a removed single deletion.
    ///
    /// Such entries, removed with or without their values, do not hide older ones.
    only_single_deletions: bool,
    /// Whether an entry of the current key was yielded, which is a trace of all older writes.
    has_yielded: bool,
    out: OutputEntry,
    queue: VecDeque<QueuedEntry>,
    advance: bool,
    entries_read: u64,
    drops: DropCounts,
    single_deletions: SingleDeletionCounts,
    merge_failures: u64,
}

impl<'a, C: Cursor<Suspend = Blocking>> CompactionCursor<'a, C> {
    /// Creates a cursor over `input`, which it positions on its first entry.
    ///
    /// # Errors
    /// If `input` cannot be positioned.
    pub fn new(mut input: C, rules: CompactionRules<'a>) -> Result<Self> {
        input.seek_to_first()?;
        let has_timestamps = rules.order.has_timestamps();
        let settled_tombstones = match (&rules.tombstones, &rules.history_low) {
            (Some(all), Some(low)) if has_timestamps => Some(all.before_timestamp(low)),
            _ => None,
        };
        Ok(CompactionCursor {
            input,
            has_timestamps,
            settled_tombstones,
            rules,
            key: Vec::new(),
            user_len: 0,
            has_key: false,
            stripe: None,
            only_single_deletions: true,
            has_yielded: false,
            out: OutputEntry::Input,
            queue: VecDeque::new(),
            advance: false,
            entries_read: 0,
            drops: DropCounts::default(),
            single_deletions: SingleDeletionCounts::default(),
            merge_failures: 0,
        })
    }

    /// Ends the walk, and returns the cursor over the input.
    pub(crate) fn into_input(self) -> C {
        self.input
    }

    /// The internal key of the current entry.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// The user key of the current entry.
    #[must_use]
    pub fn user_key(&self) -> &[u8] {
        &self.key[..self.user_len]
    }

    /// The value of the current entry.
    #[must_use]
    pub fn value(&self) -> &[u8] {
        match &self.out {
            OutputEntry::Input => self.input.value(),
            OutputEntry::Owned(value) => value,
        }
    }

    /// The number of entries read from the input so far.
    #[must_use]
    pub fn entries_read(&self) -> u64 {
        self.entries_read
    }

    /// The counts of dropped entries so far.
    #[must_use]
    pub fn drops(&self) -> DropCounts {
        self.drops
    }

    /// The counts of single deletions so far that did not meet one value.
    #[must_use]
    pub fn single_deletions(&self) -> SingleDeletionCounts {
        self.single_deletions
    }

    /// The number of failed merges so far, whose operands were kept.
    #[must_use]
    pub fn merge_failures(&self) -> u64 {
        self.merge_failures
    }

    /// The range tombstones of the inputs.
    #[must_use]
    pub fn tombstones(&self) -> Option<&FragmentedTombstones> {
        self.rules.tombstones.as_ref()
    }

    /// The snapshot stripe of `seqno`: the oldest snapshot that sees it, or the largest number.
    fn stripe_of(&self, seqno: SeqNo) -> SeqNo {
        stripe_of(&self.rules.snapshots.all, seqno)
    }

    /// Whether every snapshot sees an entry of this sequence number.
    fn is_visible_to_all(&self, seqno: SeqNo) -> bool {
        self.rules
            .snapshots
            .oldest()
            .is_none_or(|oldest| seqno <= oldest)
    }

    /// Whether a range tombstone in the same snapshot stripe covers an entry of the current key.
    fn is_range_deleted(&self, seqno: SeqNo, stripe: SeqNo) -> bool {
        let tombstones = match self.has_timestamps {
            true if !self.is_collectable(self.user_key()) => None,
            true => self.settled_tombstones.as_ref(),
            false => self.rules.tombstones.as_ref(),
        };
        tombstones
            .is_some_and(|tombstones| tombstones.covering_seqno(self.user_key(), stripe) > seqno)
    }

    /// Whether a version of a key is before the low mark, so that it may be dropped; always true
    /// without timestamps.
    fn is_collectable(&self, user_key: &[u8]) -> bool {
        let (_, time) = timestamp::split(user_key);
        let order = &self.rules.order;
        let is_before = |low| order.compare_timestamps(&time, low).is_lt();
        !self.has_timestamps || self.rules.history_low.as_ref().is_some_and(is_before)
    }

    /// Whether an entry is one of the current key, or an older version of it before the low mark.
    fn continues_key(&self, user_key: &[u8]) -> bool {
        let (order, current) = (&self.rules.order, self.user_key());
        order.equal(current, user_key)
            || (self.has_timestamps
                && order.equal_without_timestamps(current, user_key)
                && self.is_collectable(current)
                && self.is_collectable(user_key))
    }

    /// Sets the timestamp of the current key to the smallest, as its number becomes 0.
    fn clear_timestamp(&mut self) {
        if self.has_timestamps {
            let from = self.user_len.saturating_sub(TIMESTAMP_BYTES);
            self.key[from..self.user_len].fill(0);
        }
    }

    /// Advances the input cursor past its current entry.
    fn consume(&mut self) -> Result<()> {
        self.input.next()?;
        Ok(())
    }

    /// Sets the sequence number and type in the internal key of the output entry.
    fn set_output(&mut self, seqno: SeqNo, value_type: ValueType) {
        self.key.truncate(self.user_len);
        let footer = koeldb_base::key::pack(seqno, value_type);
        self.key.extend_from_slice(&footer.to_le_bytes());
    }

    /// Makes the next queued entry the current output entry; false if none is queued.
    fn pop_queue(&mut self) -> bool {
        match self.queue.pop_front() {
            Some(entry) => {
                if let Some(user_key) = entry.user_key {
                    self.user_len = user_key.len();
                    self.key.clear();
                    self.key.extend_from_slice(&user_key);
                }
                self.set_output(entry.seqno, entry.value_type);
                self.out = OutputEntry::Owned(entry.value);
                true
            }
            None => false,
        }
    }

    /// Advances to the next entry that must be kept; `false` at the end of the input.
    ///
    /// # Errors
    /// If the input fails or an entry is malformed.
    pub fn advance(&mut self) -> Result<bool> {
        loop {
            if self.pop_queue() {
                return Ok(true);
            }
            if std::mem::take(&mut self.advance) {
                self.consume()?;
            }
            if !self.input.valid() {
                return Ok(false);
            }
            self.entries_read += 1;
            let entry = InternalKey::parse(self.input.key())?;
            let (seqno, value_type) = (entry.seqno, entry.value_type);
            let is_first = !self.has_key || !self.continues_key(entry.user_key);
            // Each version keeps the bytes that its key was written with.
            if is_first || !self.rules.order.equal_keys_have_equal_bytes() {
                let user_key = entry.user_key;
                self.user_len = user_key.len();
                encode_into(&mut self.key, user_key, seqno, value_type);
            }
            if is_first {
                self.has_key = true;
                self.has_yielded = false;
                self.stripe = None;
            }
            if self.keep(is_first, seqno, value_type)? {
                self.has_yielded = true;
                return Ok(true);
            }
        }
    }

    /// Decides whether the current input entry is kept; `true` if there is an entry to output.
    ///
    /// That is the entry itself or one that replaces it.
    fn keep(&mut self, is_first: bool, seqno: SeqNo, value_type: ValueType) -> Result<bool> {
        let stripe = self.stripe_of(seqno);
        self.advance = true;
        let is_hidden = self.stripe == Some(stripe);
        self.only_single_deletions |= !is_hidden;
        let matters_below = match value_type {
            // The newer entry may vanish with a single deletion of its own: this one is for an
            // older value.
            ValueType::SingleDeletion => true,
            ValueType::Deletion | ValueType::DeletionWithTimestamp => self.only_single_deletions,
            _ => false,
        };
        if is_hidden && !matters_below {
            self.drops.hidden += 1;
            return Ok(false);
        }
        self.stripe = Some(stripe);
        if self.is_range_deleted(seqno, stripe) {
            self.drops.range_deleted += 1;
            return Ok(false);
        }
        self.only_single_deletions &= value_type == ValueType::SingleDeletion;
        if self.has_timestamps && !self.is_collectable(&self.key[..self.user_len]) {
            return self.keep_version(seqno, value_type);
        }
        match value_type {
            ValueType::Merge => {
                self.collect_merge(stripe)?;
                Ok(self.pop_queue())
            }
            ValueType::SingleDeletion => self.keep_single_deletion(seqno, stripe),
            ValueType::Deletion | ValueType::DeletionWithTimestamp => {
                if self.is_deletion_obsolete(seqno) {
                    self.drops.obsolete += 1;
                    return Ok(false);
                }
                self.set_output(seqno, value_type);
                self.out = OutputEntry::Input;
                Ok(true)
            }
            _ => self.keep_value(is_first, seqno, value_type),
        }
    }

    /// Outputs a version that is not before the low mark, after the compaction filter.
    ///
    /// The filter is called for each of them, with the timestamp at the end of the key. A version that
    /// it removes becomes a deletion at its timestamp: older versions must not reappear.
    fn keep_version(&mut self, seqno: SeqNo, value_type: ValueType) -> Result<bool> {
        // Older entries with the same timestamp are needed below these.
        if matches!(value_type, ValueType::Merge | ValueType::SingleDeletion) {
            self.stripe = None;
        }
        self.out = OutputEntry::Input;
        let kept_type = match is_value(value_type) && self.is_filterable(seqno) {
            true => self.filtered(value_type)?,
            false => Some(value_type),
        };
        self.set_output(seqno, kept_type.unwrap_or(ValueType::DeletionWithTimestamp));
        Ok(true)
    }

    /// Writes all entries that must be kept to output tables.
    ///
    /// # Errors
    /// The errors of reading or writing; `Aborted` once one of `cancelled` is set.
    pub fn write_to(
        &mut self,
        outputs: &mut TableOutputs<'_>,
        cancelled: &[&AtomicBool],
    ) -> Result<()> {
        let mut last_user_key = Vec::new();
        let mut is_first = true;
        while self.advance()? {
            let order = &self.rules.order;
            let starts_key =
                is_first || !order.equal_without_timestamps(&last_user_key, self.user_key());
            if starts_key {
                if cancelled.iter().any(|flag| flag.load(Ordering::Relaxed)) {
                    return Err(Error::with_kind(
                        ErrorKind::Aborted,
                        "the job was cancelled",
                    ));
                }
                is_first = false;
                last_user_key.clear();
                last_user_key.extend_from_slice(self.user_key());
            }
            outputs.add(self.key(), self.value(), starts_key, self.tombstones())?;
        }
        Ok(())
    }

    /// Whether a deletion can be dropped: all snapshots see it and the key is in no lower level.
    fn is_deletion_obsolete(&mut self, seqno: SeqNo) -> bool {
        self.is_visible_to_all(seqno)
            && (self.rules.bottommost || !(self.rules.exists_below)(&self.key[..self.user_len]))
    }

    /// Drops a single deletion with the value that it deletes, or keeps it; `true` if kept.
    ///
    /// Of several single deletions one remains, with the number of the newest.
    fn keep_single_deletion(&mut self, seqno: SeqNo, stripe: SeqNo) -> Result<bool> {
        self.advance = false;
        let mut next;
        loop {
            self.consume()?;
            next = None;
            if self.input.valid() {
                let entry = InternalKey::parse(self.input.key())?;
                let is_near =
                    self.continues_key(entry.user_key) && self.stripe_of(entry.seqno) == stripe;
                next = is_near.then_some((entry.seqno, entry.value_type));
            }
            if !matches!(next, Some((_, ValueType::SingleDeletion))) {
                break;
            }
            self.entries_read += 1;
            self.drops.obsolete += 1;
            self.single_deletions.mismatched += 1;
        }
        if let Some((value_seqno, value_type)) = next
            && !value_type.is_deletion()
            && value_type != ValueType::Merge
        {
            self.entries_read += 1;
            self.advance = true;
            if self.has_yielded || !self.rules.snapshots.may_conflict(seqno) {
                self.drops.obsolete += 1;
                self.drops.hidden += 1;
                return Ok(false);
            }
            // The single deletion alone would later meet a value that is not its own. Nothing reads
            // the bytes of its value.
            self.set_output(seqno, ValueType::SingleDeletion);
            self.out = OutputEntry::Owned(Vec::new());
            let value = QueuedEntry::new(value_seqno, ValueType::Value, Vec::new());
            self.queue.push_back(value);
            return Ok(true);
        }
        self.single_deletions.mismatched += u64::from(next.is_some());
        if self.is_deletion_obsolete(seqno) {
            self.drops.obsolete += 1;
            self.single_deletions.unmatched += u64::from(next.is_none());
            return Ok(false);
        }
        self.only_single_deletions = false;
        self.set_output(seqno, ValueType::SingleDeletion);
        self.out = OutputEntry::Owned(Vec::new());
        Ok(true)
    }

    /// Outputs a value after the compaction filter; false if the filter removed it entirely.
    fn keep_value(&mut self, is_first: bool, seqno: SeqNo, value_type: ValueType) -> Result<bool> {
        self.out = OutputEntry::Input;
        let kept_type = match is_first && is_value(value_type) && self.is_filterable(seqno) {
            true => self.filtered(value_type)?,
            false => Some(value_type),
        };
        let Some(kept_type) = kept_type else {
            if self.is_deletion_obsolete(seqno) {
                return Ok(false);
            }
            self.set_output(
                seqno,
                match self.has_timestamps {
                    true => ValueType::DeletionWithTimestamp,
                    false => ValueType::Deletion,
                },
            );
            return Ok(true);
        };
        // COMPAT: the record of a value in a blob file has the timestamp, and RocksDB compares it.
        let is_compared = self.has_timestamps && kept_type == ValueType::BlobIndex;
        let zeroed = self.is_zeroed(seqno) && !is_compared;
        if zeroed {
            self.clear_timestamp();
        }
        self.set_output(if zeroed { 0 } else { seqno }, kept_type);
        Ok(true)
    }

    /// Calls the compaction filter for the value at the input, and sets the output to its result.
    ///
    /// Returns the type of the output; `None` if the filter removes the value.
    fn filtered(&mut self, value_type: ValueType) -> Result<Option<ValueType>> {
        let (user_key, merger) = (&self.key[..self.user_len], self.rules.merger);
        let whole = match value_type {
            ValueType::BlobIndex => Some(merger.fetch(user_key, self.input.value())?),
            ValueType::WideColumnEntity if has_blob_indexes(self.input.value()) => {
                Some(merger.whole_entity(user_key, self.input.pinned_value())?)
            }
            _ => None,
        };
        let value = whole.as_deref().unwrap_or(self.input.value());
        let level = self.rules.start_level;
        let Some(filter) = &mut self.rules.filter else {
            return Ok(Some(value_type));
        };
        let decision = match value_type {
            ValueType::WideColumnEntity => match Columns::of_entity(value) {
                Ok(columns) => filter.filter_entity(level, user_key, columns),
                // Reads of the key fail, and nothing else does.
                Err(error) if error.is_corruption() => Decision::Keep,
                Err(error) => return Err(error),
            },
            _ => filter.filter(level, user_key, value),
        };
        Ok(match decision {
            Decision::Keep => Some(value_type),
            Decision::Remove => {
                self.drops.filtered += 1;
                self.out = OutputEntry::Owned(Vec::new());
                None
            }
            Decision::Change(value) => {
                self.out = OutputEntry::Owned(value);
                Some(ValueType::Value)
            }
            Decision::ChangeEntity(columns) => {
                self.out = OutputEntry::Owned(entity::encode(&columns)?);
                Some(ValueType::WideColumnEntity)
            }
        })
    }

    /// Whether the compaction filter applies to a value: no snapshot may see it.
    fn is_filterable(&self, seqno: SeqNo) -> bool {
        self.rules.filter.is_some()
            && self
                .rules
                .snapshots
                .all
                .last()
                .is_none_or(|&newest| seqno > newest)
    }

    /// Merges the operands of the current key and snapshot stripe, and queues the result.
    fn collect_merge(&mut self, stripe: SeqNo) -> Result<()> {
        let newest = InternalKey::parse(self.input.key())?.seqno;
        let run = self.take_operands(newest, stripe)?;
        let is_whole_history = run.reached_end_of_key
            && self.is_visible_to_all(newest)
            && (self.rules.bottommost || !(self.rules.exists_below)(&self.key[..self.user_len]));
        match run.base {
            None if !is_whole_history => self.queue_operands(run.operands),
            base => {
                let base = base.unwrap_or(MergeBase::Covered);
                let existing = match base.value(self.rules.merger) {
                    Err(error) if base.refers() => return Err(error),
                    existing => existing,
                };
                let merged = existing
                    .and_then(|existing| self.merged(&base, existing.as_deref(), &run.operands));
                match merged {
                    Ok(mut merged) => {
                        if self.is_zeroed(newest) {
                            self.clear_timestamp();
                        }
                        if merged.value_type == ValueType::WideColumnEntity && base.refers() {
                            merged.user_key = base.key_at(self.user_key(), self.has_timestamps);
                        }
                        self.queue.push_back(merged);
                    }
                    Err(_) => self.queue_unmerged(base, run.operands),
                }
            }
        }
        Ok(())
    }

    /// Reads the merge operands of the current key in a snapshot stripe, and their base value.
    fn take_operands(&mut self, newest: SeqNo, stripe: SeqNo) -> Result<OperandRun> {
        let mut run = OperandRun {
            operands: vec![(newest, self.input.value().to_vec())],
            base: None,
            reached_end_of_key: false,
        };
        self.advance = false;
        loop {
            self.consume()?;
            if !self.input.valid() {
                run.reached_end_of_key = true;
                return Ok(run);
            }
            let entry = InternalKey::parse(self.input.key())?;
            if !self.continues_key(entry.user_key) {
                run.reached_end_of_key = true;
                return Ok(run);
            }
            if self.stripe_of(entry.seqno) != stripe {
                return Ok(run);
            }
            self.entries_read += 1;
            if self.is_range_deleted(entry.seqno, stripe) {
                self.drops.range_deleted += 1;
                run.base = Some(MergeBase::Covered);
                self.advance = true;
                return Ok(run);
            }
            match entry.value_type {
                ValueType::Merge => {
                    let operand = self.input.value().to_vec();
                    run.operands.push((entry.seqno, operand));
                }
                _ => {
                    let value = self.input.pinned_value();
                    run.base = Some(MergeBase::of(&entry, value)?);
                    self.advance = true;
                    return Ok(run);
                }
            }
        }
    }

    /// Returns the full merge of `base` and all operands, at the newest operand's sequence number.
    fn merged(
        &self,
        base: &MergeBase,
        existing: Option<&[u8]>,
        operands: &[(SeqNo, Vec<u8>)],
    ) -> Result<QueuedEntry> {
        let newest = operands.first().map_or(0, |&(seqno, _)| seqno);
        let (merger, operands) = (self.rules.merger, values(operands));
        let merged = merge_values(merger, self.user_key(), existing, &operands)?;
        let (value_type, merged) = base.with_value(merged)?;
        let seqno = match self.is_zeroed(newest) {
            true => 0,
            false => newest,
        };
        Ok(QueuedEntry::new(seqno, value_type, merged))
    }

    /// Whether a merged value with this number gets number 0: all readers see it, in the last level.
    fn is_zeroed(&self, seqno: SeqNo) -> bool {
        self.rules.bottommost && self.is_visible_to_all(seqno)
    }

    /// Queues operands whose merge failed, and their base value, as separate entries.
    fn queue_unmerged(&mut self, base: MergeBase, operands: Vec<(SeqNo, Vec<u8>)>) {
        self.merge_failures += 1;
        self.queue_one_by_one(operands);
        let MergeBase::Entry {
            user_key,
            seqno,
            value_type,
            value,
        } = base
        else {
            return;
        };
        if value_type.is_deletion() && self.is_deletion_obsolete(seqno) {
            self.drops.obsolete += 1;
            return;
        }
        let value_type = match value_type {
            // It hides all older entries of its stripe, which are dropped here. A single deletion
            // would end at the first value that it meets.
            ValueType::SingleDeletion => ValueType::Deletion,
            value_type => value_type,
        };
        self.queue.push_back(QueuedEntry {
            user_key: Some(user_key),
            seqno,
            value_type,
            value: value.to_vec(),
        });
    }

    /// Queues each operand as a merge entry of its own.
    fn queue_one_by_one(&mut self, operands: Vec<(SeqNo, Vec<u8>)>) {
        let entry = |(seqno, operand)| QueuedEntry::new(seqno, ValueType::Merge, operand);
        self.queue.extend(operands.into_iter().map(entry));
    }

    /// Queues operands without base value: as a partial merge if possible, or else one by one.
    fn queue_operands(&mut self, operands: Vec<(SeqNo, Vec<u8>)>) {
        let combined = match operands.len() {
            0 | 1 => None,
            _ => merge_operands(self.rules.merger, self.user_key(), &values(&operands)),
        };
        let newest = operands.first().map_or(0, |&(seqno, _)| seqno);
        match combined {
            Some(operand) => {
                let operand = QueuedEntry::new(newest, ValueType::Merge, operand);
                self.queue.push_back(operand);
            }
            None => self.queue_one_by_one(operands),
        }
    }
}

/// The merge operands of a key in one snapshot stripe, newest first, and their base value.
struct OperandRun {
    operands: Vec<(SeqNo, Vec<u8>)>,
    /// The entry that the operands apply to; `None` if it is not in the stripe.
    base: Option<MergeBase>,
    reached_end_of_key: bool,
}

/// Whether an entry has a value that the compaction filter may change.
fn is_value(value_type: ValueType) -> bool {
    matches!(
        value_type,
        ValueType::Value | ValueType::WideColumnEntity | ValueType::BlobIndex
    )
}

/// Returns the values of merge operands without their sequence numbers.
fn values(operands: &[(SeqNo, Vec<u8>)]) -> Vec<&[u8]> {
    operands.iter().map(|(_, value)| value.as_slice()).collect()
}
