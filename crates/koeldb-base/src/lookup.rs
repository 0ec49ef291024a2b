//! The state of one point read, which visits sorted runs newest first and collects the answer.
//!
//! A [`Lookup`] travels down through memtables and tables. Each run first raises the sequence
//! number of the newest range tombstone over the key, then offers its entries of the key, newest
//! first, until the lookup is settled. Merge operands are collected as pinned slices and combined
//! once, in [`Lookup::finish`].
//!
//! [`Lookup::checkpoint`] marks the end of a run. A run that suspended midway is searched again
//! from its start after [`Lookup::rewind`], so that no operand is counted twice.

use std::cell::Cell;

use crate::entity::{ColumnValue, Entity, WideColumns, stored_default, with_default_column};
use crate::error::{Error, Result};
use crate::key::{FOOTER_BYTES, MAX_SEQNO, SeqNo, ValueType, pack};
use crate::merge_operator::{Merger, merge_values};
use crate::pinned::PinnedSlice;

/// The maximum length of an internal key that a [`SeekKey`] stores without an allocation.
const INLINE_KEY_BYTES: usize = 64;

/// The bit of `tombstone_seqno` that marks a search for the newest entry: it hides every entry.
const NEWEST: SeqNo = 1 << 63;

/// An internal key to seek to, inline up to 56 bytes of user key (RocksDB: `LookupKey`).
#[derive(Clone, Debug)]
pub struct SeekKey {
    user_len: usize,
    storage: KeyStorage,
}

/// The bytes of a key: inline if they are short.
#[derive(Clone, Debug)]
enum KeyStorage {
    Inline([u8; INLINE_KEY_BYTES]),
    Heap(Vec<u8>),
}

impl SeekKey {
    /// Creates the internal key that sorts before all entries of `user_key` visible at `seqno`.
    #[inline]
    #[must_use]
    pub fn new(user_key: &[u8], seqno: SeqNo) -> Self {
        let user_len = user_key.len();
        let footer = pack(seqno, ValueType::FOR_SEEK).to_le_bytes();
        let total = user_len + FOOTER_BYTES;
        let storage = if total <= INLINE_KEY_BYTES {
            let mut inline = [0; INLINE_KEY_BYTES];
            inline[..user_len].copy_from_slice(user_key);
            inline[user_len..total].copy_from_slice(&footer);
            KeyStorage::Inline(inline)
        } else {
            let mut heap = Vec::with_capacity(total);
            heap.extend_from_slice(user_key);
            heap.extend_from_slice(&footer);
            KeyStorage::Heap(heap)
        };
        SeekKey { user_len, storage }
    }

    /// Replaces the content by the seek key of another user key.
    #[inline]
    fn set(&mut self, user_key: &[u8], seqno: SeqNo) {
        let user_len = user_key.len();
        let total = user_len + FOOTER_BYTES;
        match &mut self.storage {
            KeyStorage::Inline(inline) if total <= INLINE_KEY_BYTES => {
                inline[..user_len].copy_from_slice(user_key);
                let footer = pack(seqno, ValueType::FOR_SEEK).to_le_bytes();
                inline[user_len..total].copy_from_slice(&footer);
                self.user_len = user_len;
            }
            _ => *self = SeekKey::new(user_key, seqno),
        }
    }

    /// The whole internal key.
    #[inline]
    #[must_use]
    pub fn internal(&self) -> &[u8] {
        match &self.storage {
            KeyStorage::Inline(bytes) => &bytes[..self.user_len + FOOTER_BYTES],
            KeyStorage::Heap(bytes) => bytes,
        }
    }

    /// The user key.
    #[inline]
    #[must_use]
    pub fn user(&self) -> &[u8] {
        &self.internal()[..self.user_len]
    }
}

/// The state of a lookup that reads the entries of its key, newest first (`GetContext::GetState`).
#[derive(Debug)]
enum LookupState {
    /// Only merge operands were found so far.
    Searching,
    /// A value ends the search.
    Found(PinnedSlice),
    /// A wide-column entity ends the search.
    FoundEntity(PinnedSlice),
    /// A reference to a value in a blob file ends the search.
    FoundBlob(PinnedSlice),
    /// A deletion ends the search.
    Deleted,
    /// An entry with this sequence number ends the search, hidden by a range tombstone.
    Hidden(SeqNo),
}

impl LookupState {
    /// Returns the value that ended the search, if a value did: the default column of an entity.
    ///
    /// A value in a blob file is fetched.
    #[inline]
    fn value(self, key: &SeekKey, merger: Merger<'_>) -> Result<Option<PinnedSlice>> {
        match self {
            LookupState::Found(value) => Ok(Some(value)),
            LookupState::Deleted | LookupState::Searching | LookupState::Hidden(_) => Ok(None),
            LookupState::FoundEntity(entity) => default_of(key, &entity, merger),
            LookupState::FoundBlob(reference) => fetched(key, &reference, merger),
        }
    }

    /// Returns the columns that ended the search, if a value or an entity did.
    fn columns(self, key: &SeekKey, merger: Merger<'_>) -> Result<Option<WideColumns>> {
        match self {
            LookupState::FoundEntity(entity) => {
                let entity = merger.whole_entity(key.user(), entity)?;
                WideColumns::from_entity(entity).map(Some)
            }
            state => Ok(state.value(key, merger)?.map(WideColumns::from_value)),
        }
    }
}

/// A point lookup that visits sorted runs, newest first (RocksDB: `GetContext`).
#[derive(Debug)]
pub struct Lookup {
    key: SeekKey,
    snapshot: SeqNo,
    filter_hash: Cell<Option<u64>>,
    tombstone_seqno: SeqNo,
    state: LookupState,
    operands: Vec<PinnedSlice>,
    operands_at_checkpoint: usize,
    runs_searched: usize,
}

impl Lookup {
    /// Creates the lookup of `user_key` that sees entries up to the sequence number `snapshot`.
    #[inline]
    #[must_use]
    pub fn new(user_key: &[u8], snapshot: SeqNo) -> Self {
        Lookup {
            key: SeekKey::new(user_key, snapshot),
            snapshot,
            filter_hash: Cell::new(None),
            tombstone_seqno: 0,
            state: LookupState::Searching,
            operands: Vec::new(),
            operands_at_checkpoint: 0,
            runs_searched: 0,
        }
    }

    /// Creates a lookup of the newest sequence number of `user_key`, which any entry settles.
    ///
    /// The result is [`Lookup::newest_seqno`]; there is no answer to finish.
    #[must_use]
    pub fn newest(user_key: &[u8]) -> Self {
        Lookup {
            tombstone_seqno: NEWEST,
            // With `MAX_SEQNO` the seek key would sort before the bound of a table that a range
            // tombstone ends at this key, and the table of the key would not be searched.
            ..Lookup::new(user_key, MAX_SEQNO - 1)
        }
    }

    /// The newest sequence number found by [`Lookup::newest`]: of an entry or a range tombstone.
    #[must_use]
    pub fn newest_seqno(&self) -> SeqNo {
        let entry = match self.state {
            LookupState::Hidden(seqno) => seqno,
            _ => 0,
        };
        entry.max(self.tombstone_seqno & !NEWEST)
    }

    /// Resets the lookup for another key, reusing its memory; its answer must have been taken.
    #[inline]
    pub fn restart(&mut self, user_key: &[u8], snapshot: SeqNo) {
        self.key.set(user_key, snapshot);
        self.snapshot = snapshot;
        self.filter_hash.set(None);
        self.tombstone_seqno = 0;
        self.state = LookupState::Searching;
        self.operands.clear();
        self.operands_at_checkpoint = 0;
        self.runs_searched = 0;
    }

    /// The user key.
    #[inline]
    #[must_use]
    pub fn user_key(&self) -> &[u8] {
        self.key.user()
    }

    /// The internal key that sorts before every visible entry of the user key.
    #[inline]
    #[must_use]
    pub fn seek_key(&self) -> &[u8] {
        self.key.internal()
    }

    /// The sequence number up to which the lookup sees entries.
    #[inline]
    #[must_use]
    pub fn snapshot(&self) -> SeqNo {
        self.snapshot
    }

    /// The key's hash for filters, computed once for all files.
    #[inline]
    pub fn filter_hash(&self) -> u64 {
        match self.filter_hash.get() {
            Some(hash) => hash,
            None => {
                let hash = crate::checksum::xxph3_64(self.user_key());
                self.filter_hash.set(Some(hash));
                hash
            }
        }
    }

    /// Records that a range tombstone of the sequence number `seqno` covers the key.
    ///
    /// A run calls this before [`Lookup::offer`].
    #[inline]
    pub fn cover(&mut self, seqno: SeqNo) {
        let newest = self.tombstone_seqno & NEWEST;
        self.tombstone_seqno = self.tombstone_seqno.max(seqno | newest);
    }

    /// Adds the next older entry of the key; returns whether the search may stop (`SaveValue`).
    ///
    /// The entry must be visible and older than all entries added before. `pin` creates a value
    /// that outlives the run; it is called only for values that are kept.
    ///
    /// # Errors
    /// `NotSupported` for kinds of entry that need features not built in; `Corruption` for a
    /// malformed value.
    #[inline]
    pub fn offer(
        &mut self,
        seqno: SeqNo,
        value_type: ValueType,
        pin: impl FnOnce() -> PinnedSlice,
    ) -> Result<bool> {
        debug_assert!(seqno <= self.snapshot);
        if seqno < self.tombstone_seqno {
            self.state = LookupState::Hidden(seqno);
            return Ok(true);
        }
        if value_type == ValueType::Value {
            self.state = LookupState::Found(pin());
            return Ok(true);
        }
        self.offer_other(value_type, pin)
    }

    /// Adds an uncovered entry of another type than a plain value: the slow path of `offer`.
    #[inline(never)]
    fn offer_other(
        &mut self,
        value_type: ValueType,
        pin: impl FnOnce() -> PinnedSlice,
    ) -> Result<bool> {
        match value_type {
            ValueType::Value => self.state = LookupState::Found(pin()),
            ValueType::Merge => {
                self.operands.push(pin());
                return Ok(false);
            }
            ValueType::Deletion | ValueType::SingleDeletion | ValueType::DeletionWithTimestamp => {
                self.state = LookupState::Deleted;
            }
            ValueType::WideColumnEntity => {
                self.state = LookupState::FoundEntity(pin());
            }
            ValueType::ValuePreferredSeqno => {
                self.state = LookupState::Found(without_preferred_seqno(&pin())?);
            }
            ValueType::BlobIndex => self.state = LookupState::FoundBlob(pin()),
            ValueType::RangeDeletion => {
                return Err(Error::corruption("range tombstone among point entries"));
            }
        }
        Ok(true)
    }

    /// Whether the answer is final, so that no older sorted run needs to be searched.
    #[inline]
    #[must_use]
    pub fn is_settled(&self) -> bool {
        !matches!(self.state, LookupState::Searching)
    }

    /// Whether the answer is final and is a value, or merge operands (`GetContext::kFound`).
    #[inline]
    #[must_use]
    pub fn has_value(&self) -> bool {
        match self.state {
            LookupState::Searching => false,
            LookupState::Deleted | LookupState::Hidden(_) => !self.operands.is_empty(),
            _ => true,
        }
    }

    /// Whether a range tombstone covers the key.
    #[inline]
    #[must_use]
    pub fn is_covered(&self) -> bool {
        self.tombstone_seqno & !NEWEST != 0
    }

    /// The number of merge operands found so far.
    #[must_use]
    pub fn operand_count(&self) -> usize {
        self.operands.len()
    }

    /// Whether a wide-column entity was found.
    #[must_use]
    pub fn is_of_entity(&self) -> bool {
        matches!(self.state, LookupState::FoundEntity(_))
    }

    /// Marks the current sorted run as searched; a range tombstone over the key settles the lookup.
    ///
    /// The tombstone hides all entries of older runs. Those of its own run may be newer.
    #[inline]
    pub fn checkpoint(&mut self) {
        self.end_run(self.runs_searched);
    }

    /// Marks the sorted run with index `run`, and all newer ones, as fully searched.
    ///
    /// Replaces [`Lookup::checkpoint`] in searches that skip runs.
    #[inline]
    pub fn end_run(&mut self, run: usize) {
        self.begin_run(run + 1);
        if self.is_covered() && !self.is_settled() {
            self.state = LookupState::Deleted;
        }
    }

    /// Marks the start of the sorted run with index `runs`, where a suspended search resumes.
    #[inline]
    pub fn begin_run(&mut self, runs: usize) {
        self.operands_at_checkpoint = self.operands.len();
        self.runs_searched = runs;
    }

    /// Discards the entries of the sorted run in which the search suspended, to search it again.
    pub fn rewind(&mut self) {
        self.operands.truncate(self.operands_at_checkpoint);
        self.state = LookupState::Searching;
    }

    /// Passes the references to `visit` that [`Lookup::take_answer`] will fetch, or those that
    /// [`Lookup::take_columns`] will, if `all_columns` is set.
    ///
    /// A malformed entity has none: the call that takes the value reports it.
    pub fn visit_references(&self, all_columns: bool, mut visit: impl FnMut(&[u8])) {
        match &self.state {
            LookupState::FoundBlob(reference) => visit(reference),
            LookupState::FoundEntity(entity) => visit_columns(entity, all_columns, &mut visit),
            _ => {}
        }
    }

    /// Replaces the entity or reference that ended the search by what `replace` returns for it.
    ///
    /// # Errors
    /// Those of `replace`.
    pub fn replace_stored<F>(
        &mut self,
        replace: impl FnOnce(ValueType, &PinnedSlice) -> Result<Option<(ValueType, PinnedSlice)>, F>,
    ) -> Result<(), F> {
        let replaced = match &self.state {
            LookupState::FoundBlob(reference) => replace(ValueType::BlobIndex, reference)?,
            LookupState::FoundEntity(entity) => replace(ValueType::WideColumnEntity, entity)?,
            _ => None,
        };
        match replaced {
            Some((ValueType::WideColumnEntity, entity)) => {
                self.state = LookupState::FoundEntity(entity);
            }
            Some((_, value)) => self.state = LookupState::Found(value),
            None => {}
        }
        Ok(())
    }

    /// The number of sorted runs that were fully searched.
    #[must_use]
    pub fn runs_searched(&self) -> usize {
        self.runs_searched
    }

    /// Returns the value of the key, merging the operands found; `None` if it is absent or deleted.
    ///
    /// # Errors
    /// The error of the merge operator, or `NotSupported` if operands were found without an
    /// operator.
    #[inline]
    pub fn finish<'m>(self, merger: impl FnOnce() -> Merger<'m>) -> Result<Option<PinnedSlice>> {
        // Destructures `self` so that only the value is copied.
        let Lookup {
            key,
            state,
            operands,
            ..
        } = self;
        match state {
            LookupState::Found(value) if operands.is_empty() => Ok(Some(value)),
            LookupState::Deleted | LookupState::Searching if operands.is_empty() => Ok(None),
            state => merged(key, state, operands, merger()),
        }
    }

    /// Returns the base value and the merge operands found, oldest first and not merged.
    ///
    /// The base value of an entity is its default column.
    ///
    /// # Errors
    /// `Corruption` for a malformed entity; if the value is in a blob file and cannot be fetched.
    pub fn into_operands(self, merger: Merger<'_>) -> Result<Vec<PinnedSlice>> {
        let base = self.state.value(&self.key, merger)?;
        let operands = self.operands.into_iter().rev();
        Ok(base.into_iter().chain(operands).collect())
    }

    /// Returns the columns of the key like [`Lookup::take_answer`]; a plain value is one column.
    ///
    /// Operands change the default column of an entity and keep the others.
    ///
    /// # Errors
    /// See [`Lookup::finish`].
    pub fn take_columns(&mut self, merger: Merger<'_>) -> Result<Option<WideColumns>> {
        let mut state = std::mem::replace(&mut self.state, LookupState::Searching);
        if self.operands.is_empty() {
            return state.columns(&self.key, merger);
        }
        let mut entity = None;
        if let LookupState::FoundEntity(found) = state {
            let whole = merger.whole_entity(self.key.user(), found)?;
            state = LookupState::FoundEntity(whole.clone());
            entity = Some(whole);
        }
        let operands = std::mem::take(&mut self.operands);
        let Some(merged) = merged(self.key.clone(), state, operands, merger)? else {
            return Ok(None);
        };
        match entity {
            None => Ok(Some(WideColumns::from_value(merged))),
            Some(entity) => {
                let entity = with_default_column(&entity, &merged)?;
                WideColumns::from_entity(PinnedSlice::from(entity)).map(Some)
            }
        }
    }

    /// Returns the value like [`Lookup::finish`], but leaves the lookup, which can be restarted.
    ///
    /// # Errors
    /// See [`Lookup::finish`].
    #[inline]
    pub fn take_answer(&mut self, merger: Merger<'_>) -> Result<Option<PinnedSlice>> {
        let state = std::mem::replace(&mut self.state, LookupState::Searching);
        if self.operands.is_empty() {
            return state.value(&self.key, merger);
        }
        let operands = std::mem::take(&mut self.operands);
        merged(self.key.clone(), state, operands, merger)
    }
}

/// Merges the collected operands, if any, with the base value that ended the search, if any, which is
/// read from its blob file first.
#[expect(
    clippy::needless_pass_by_value,
    reason = "what is passed by reference has an address, for which every look-up would be copied"
)]
#[inline(never)]
fn merged(
    key: SeekKey,
    state: LookupState,
    operands: Vec<PinnedSlice>,
    merger: Merger<'_>,
) -> Result<Option<PinnedSlice>> {
    let base = state.value(&key, merger)?;
    if operands.is_empty() {
        return Ok(base);
    }
    let newest_first: Vec<&[u8]> = operands.iter().map(PinnedSlice::as_slice).collect();
    let merged = merge_values(merger, key.user(), base.as_deref(), &newest_first)?;
    Ok(Some(PinnedSlice::from(merged)))
}

/// Returns the default column of an entity that ended a search.
#[cold]
fn default_of(
    key: &SeekKey,
    entity: &PinnedSlice,
    merger: Merger<'_>,
) -> Result<Option<PinnedSlice>> {
    merger.default_column(key.user(), entity).map(Some)
}

/// Passes the references of the columns of an entity, or of the default column, to `visit`.
#[cold]
fn visit_columns(entity: &PinnedSlice, all_columns: bool, visit: &mut impl FnMut(&[u8])) {
    if !all_columns {
        if let Ok(Some((ColumnValue::BlobIndex(reference), _))) = stored_default(entity) {
            visit(reference);
        }
        return;
    }
    let Ok(entity) = Entity::decode(entity) else {
        return;
    };
    for (_, column) in entity.stored_columns() {
        if let ColumnValue::BlobIndex(reference) = column {
            visit(reference);
        }
    }
}

/// Returns the value in a blob file to which a reference refers that ended a search.
#[cold]
fn fetched(
    key: &SeekKey,
    reference: &PinnedSlice,
    merger: Merger<'_>,
) -> Result<Option<PinnedSlice>> {
    merger.fetch(key.user(), reference).map(Some)
}

/// Decodes the user's value from an entry of type [`ValueType::ValuePreferredSeqno`].
///
/// # Errors
/// `Corruption` if there is no room for the sequence number.
pub fn without_preferred_seqno(value: &PinnedSlice) -> Result<PinnedSlice> {
    match value.len().checked_sub(size_of::<SeqNo>()) {
        Some(end) => Ok(value.subslice(0..end)),
        None => Err(Error::corruption(
            "value with a preferred sequence number is shorter than 8 bytes",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge_operator::StringAppend;

    fn value(bytes: &[u8]) -> PinnedSlice {
        PinnedSlice::copy_of(bytes)
    }

    #[test]
    fn operands_stop_at_the_first_base() {
        let operator = StringAppend::default();
        let mut lookup = Lookup::new(b"k", 9);
        assert!(!lookup.offer(9, ValueType::Merge, || value(b"c")).unwrap());
        lookup.checkpoint();
        assert!(
            !lookup
                .offer(8, ValueType::Merge, || value(b"lost"))
                .unwrap()
        );
        lookup.rewind();
        assert!(!lookup.offer(8, ValueType::Merge, || value(b"b")).unwrap());
        assert!(lookup.offer(7, ValueType::Value, || value(b"a")).unwrap());
        assert!(lookup.is_settled());
        let answer = lookup
            .finish(|| Merger::new(Some(&operator), "default"))
            .unwrap();
        assert_eq!(answer.as_deref(), Some(&b"a,b,c"[..]));
    }

    #[test]
    fn a_range_tombstone_settles_at_the_end_of_its_run() {
        let operator = StringAppend::default();
        let mut lookup = Lookup::new(b"k", 9);
        lookup.checkpoint();
        assert!(!lookup.is_settled());
        lookup.cover(5);
        assert!(!lookup.is_settled());
        assert!(!lookup.offer(6, ValueType::Merge, || value(b"m")).unwrap());
        lookup.checkpoint();
        assert!(lookup.is_settled());
        assert_eq!(lookup.runs_searched(), 2);
        let answer = lookup
            .finish(|| Merger::new(Some(&operator), "default"))
            .unwrap();
        assert_eq!(answer.as_deref(), Some(&b"m"[..]));
        let mut newest = Lookup::newest(b"k");
        newest.checkpoint();
        assert!(!newest.is_settled());
        newest.cover(5);
        newest.checkpoint();
        assert!(newest.is_settled());
        assert_eq!(newest.newest_seqno(), 5);
    }

    #[test]
    fn a_range_tombstone_hides_only_what_is_older() {
        let mut lookup = Lookup::new(b"k", 9);
        lookup.cover(5);
        assert!(lookup.offer(4, ValueType::Value, || value(b"old")).unwrap());
        assert_eq!(lookup.finish(Merger::default).unwrap(), None);
        let mut lookup = Lookup::new(b"k", 9);
        lookup.cover(5);
        assert!(lookup.offer(5, ValueType::Value, || value(b"new")).unwrap());
        assert!(lookup.finish(Merger::default).unwrap().is_some());
    }
}
