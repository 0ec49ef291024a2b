//! The state of one point read: it visits runs newest first and collects the answer.
//!
//! A [`Lookup`] travels down through memtables and tables. Each run first raises the sequence number of the
//! newest range tombstone over the key, then offers its entries of the key, newest first, until the look-up is
//! settled. Merge operands are collected as pinned slices and combined once, in [`Lookup::finish`].
//!
//! [`Lookup::checkpoint`] marks the end of a run. A run that suspended half-way is searched again from its
//! start after [`Lookup::rewind`], so nothing is counted twice.

use std::cell::Cell;

use crate::coding;
use crate::error::{Error, Result};
use crate::key::{FOOTER_BYTES, SeqNo, ValueType, pack};
use crate::merge_operator::{MergeOperator, merge_values};
use crate::pinned::PinnedSlice;

const INLINE_KEY_BYTES: usize = 64;

/// An internal seek key, inline up to 56 bytes of user key.
#[derive(Clone, Debug)]
pub struct SeekKey {
    user_len: usize,
    storage: KeyStorage,
}

#[derive(Clone, Debug)]
enum KeyStorage {
    Inline([u8; INLINE_KEY_BYTES]),
    Heap(Vec<u8>),
}

impl SeekKey {
    /// The internal key that stands before all entries of `user_key` visible at `seqno`.
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

    /// Makes this the seek key of another user key.
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

#[derive(Debug)]
enum State {
    /// Nothing but merge operands was seen so far.
    Searching,
    /// A value ends the search.
    Found(PinnedSlice),
    /// A deletion ends the search.
    Deleted,
}

impl State {
    /// The value that ended the search, if one did.
    #[inline]
    fn value(self) -> Option<PinnedSlice> {
        match self {
            State::Found(value) => Some(value),
            State::Deleted | State::Searching => None,
        }
    }
}

/// One point read under way.
#[derive(Debug)]
pub struct Lookup {
    key: SeekKey,
    snapshot: SeqNo,
    filter_hash: Cell<Option<u64>>,
    tombstone_seqno: SeqNo,
    state: State,
    operands: Vec<PinnedSlice>,
    operands_at_checkpoint: usize,
    runs_searched: usize,
}

impl Lookup {
    /// A read of `user_key` that sees entries up to `snapshot`.
    #[inline]
    #[must_use]
    pub fn new(user_key: &[u8], snapshot: SeqNo) -> Self {
        Lookup {
            key: SeekKey::new(user_key, snapshot),
            snapshot,
            filter_hash: Cell::new(None),
            tombstone_seqno: 0,
            state: State::Searching,
            operands: Vec::new(),
            operands_at_checkpoint: 0,
            runs_searched: 0,
        }
    }

    /// Begins a read of another key in the memory of this one, whose answer was taken.
    #[inline]
    pub fn restart(&mut self, user_key: &[u8], snapshot: SeqNo) {
        self.key.set(user_key, snapshot);
        self.snapshot = snapshot;
        self.filter_hash.set(None);
        self.tombstone_seqno = 0;
        self.state = State::Searching;
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

    /// The internal key that stands before every visible entry.
    #[inline]
    #[must_use]
    pub fn seek_key(&self) -> &[u8] {
        self.key.internal()
    }

    /// The newest sequence number the read sees.
    #[inline]
    #[must_use]
    pub fn snapshot(&self) -> SeqNo {
        self.snapshot
    }

    /// The hash that filters use, computed once for all files.
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

    /// Notes a range tombstone over the key; called by a run before it offers entries.
    #[inline]
    pub fn cover(&mut self, seqno: SeqNo) {
        self.tombstone_seqno = self.tombstone_seqno.max(seqno);
    }

    /// Takes an entry of the key, which must be visible and older than all taken before, and says whether the
    /// search may stop. `pin` makes `value` outlive the run; it is called for what is kept.
    ///
    /// # Errors
    /// `NotSupported` for kinds of entry that need features not built in; `Corruption` for a malformed value.
    #[inline]
    pub fn offer(
        &mut self,
        seqno: SeqNo,
        value_type: ValueType,
        pin: impl FnOnce() -> PinnedSlice,
    ) -> Result<bool> {
        debug_assert!(seqno <= self.snapshot);
        if seqno < self.tombstone_seqno {
            self.state = State::Deleted;
            return Ok(true);
        }
        if value_type == ValueType::Value {
            self.state = State::Found(pin());
            return Ok(true);
        }
        self.offer_other(value_type, pin)
    }

    /// As [`Lookup::offer`] for what is no plain value and not covered.
    #[inline(never)]
    fn offer_other(
        &mut self,
        value_type: ValueType,
        pin: impl FnOnce() -> PinnedSlice,
    ) -> Result<bool> {
        match value_type {
            ValueType::Value => self.state = State::Found(pin()),
            ValueType::Merge => {
                self.operands.push(pin());
                return Ok(false);
            }
            ValueType::Deletion | ValueType::SingleDeletion | ValueType::DeletionWithTimestamp => {
                self.state = State::Deleted;
            }
            ValueType::WideColumnEntity => self.state = State::Found(default_column(&pin())?),
            ValueType::ValuePreferredSeqno => {
                let value = pin();
                let end = value.len().checked_sub(8).ok_or_else(|| {
                    Error::corruption(
                        "value with a preferred sequence number is shorter than 8 bytes",
                    )
                })?;
                self.state = State::Found(value.subslice(0..end));
            }
            ValueType::BlobIndex => {
                return Err(Error::not_supported(
                    "the value lives in a blob file, which this release does not read",
                ));
            }
            ValueType::RangeDeletion => {
                return Err(Error::corruption("range tombstone among point entries"));
            }
        }
        Ok(true)
    }

    /// Whether no older run can change the answer.
    #[inline]
    #[must_use]
    pub fn is_settled(&self) -> bool {
        !matches!(self.state, State::Searching)
    }

    /// Marks a run as searched whole.
    #[inline]
    pub fn checkpoint(&mut self) {
        self.operands_at_checkpoint = self.operands.len();
        self.runs_searched += 1;
    }

    /// Marks the beginning of a run that has `runs` others above it: where a search goes on if this one suspends. As
    /// [`Lookup::checkpoint`] for those who visit runs without one between them.
    #[inline]
    pub fn begin_run(&mut self, runs: usize) {
        self.operands_at_checkpoint = self.operands.len();
        self.runs_searched = runs;
    }

    /// Forgets what a suspended run offered; it will be searched again.
    pub fn rewind(&mut self) {
        self.operands.truncate(self.operands_at_checkpoint);
        self.state = State::Searching;
    }

    /// The runs searched whole so far.
    #[must_use]
    pub fn runs_searched(&self) -> usize {
        self.runs_searched
    }

    /// Combines what was collected into the answer.
    ///
    /// # Errors
    /// What the merge operator failed with, or `NotSupported` if operands were found and there is none.
    #[inline]
    pub fn finish(self, operator: Option<&dyn MergeOperator>) -> Result<Option<PinnedSlice>> {
        // Taken apart, so that nothing is copied but the value.
        let Lookup {
            key,
            state,
            operands,
            ..
        } = self;
        if operands.is_empty() {
            return Ok(state.value());
        }
        merged(key, state, operands, operator)
    }

    /// As [`Lookup::finish`]; the look-up is left empty, for [`Lookup::restart`].
    ///
    /// # Errors
    /// As [`Lookup::finish`].
    #[inline]
    pub fn take_answer(
        &mut self,
        operator: Option<&dyn MergeOperator>,
    ) -> Result<Option<PinnedSlice>> {
        let state = std::mem::replace(&mut self.state, State::Searching);
        if self.operands.is_empty() {
            return Ok(state.value());
        }
        let operands = std::mem::take(&mut self.operands);
        merged(self.key.clone(), state, operands, operator)
    }
}

/// What was collected for a key, operands among it, combined.
#[expect(
    clippy::needless_pass_by_value,
    reason = "what is passed by reference has an address, for which every look-up would be copied"
)]
#[inline(never)]
fn merged(
    key: SeekKey,
    state: State,
    operands: Vec<PinnedSlice>,
    operator: Option<&dyn MergeOperator>,
) -> Result<Option<PinnedSlice>> {
    let base = state.value();
    let newest_first: Vec<&[u8]> = operands.iter().map(PinnedSlice::as_slice).collect();
    let merged = merge_values(operator, key.user(), base.as_deref(), &newest_first)?;
    Ok(Some(PinnedSlice::from(merged)))
}

/// The value of the anonymous column of a wide-column entity (`docs/formats/keys.md`), empty if it has
/// none.
///
/// # Errors
/// `Corruption` if the entity is malformed, `NotSupported` for versions that refer to blobs.
pub fn default_column(entity: &PinnedSlice) -> Result<PinnedSlice> {
    let mut input = entity.as_slice();
    match coding::take_varint32(&mut input)? {
        1 => {}
        version => {
            return Err(Error::not_supported(format!(
                "wide-column entity of version {version}"
            )));
        }
    }
    let count = coding::take_varint32(&mut input)?;
    let mut default_len = None;
    let mut values_len = 0_u64;
    let mut previous: Option<&[u8]> = None;
    for _ in 0..count {
        let name = coding::take_length_prefixed(&mut input)?;
        let len = coding::take_varint32(&mut input)?;
        if previous.is_some_and(|previous| previous >= name) {
            return Err(Error::corruption(
                "wide-column entity whose columns are not in order",
            ));
        }
        previous = Some(name);
        if name.is_empty() {
            default_len = Some(len as usize);
        }
        values_len += u64::from(len);
    }
    if values_len != input.len() as u64 {
        return Err(Error::corruption(format!(
            "wide-column entity declares {values_len} bytes of values and has {}",
            input.len()
        )));
    }
    let start = entity.len() - input.len();
    Ok(match default_len {
        Some(len) => entity.subslice(start..start + len),
        None => PinnedSlice::default(),
    })
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
        let answer = lookup.finish(Some(&StringAppend::default())).unwrap();
        assert_eq!(answer.as_deref(), Some(&b"a,b,c"[..]));
    }

    #[test]
    fn a_range_tombstone_hides_only_what_is_older() {
        let mut lookup = Lookup::new(b"k", 9);
        lookup.cover(5);
        assert!(lookup.offer(4, ValueType::Value, || value(b"old")).unwrap());
        assert_eq!(lookup.finish(None).unwrap(), None);
        let mut lookup = Lookup::new(b"k", 9);
        lookup.cover(5);
        assert!(lookup.offer(5, ValueType::Value, || value(b"new")).unwrap());
        assert!(lookup.finish(None).unwrap().is_some());
    }

    #[test]
    fn the_default_column_is_found_in_an_entity() {
        let entity = value(b"\x01\x02\x00\x02\x01a\x03vvxyz");
        assert_eq!(&default_column(&entity).unwrap()[..], b"vv");
        assert!(default_column(&value(b"\x01\x01\x00\x09vv")).is_err());
    }
}
