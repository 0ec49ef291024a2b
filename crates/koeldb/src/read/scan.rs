//! From internal entries to what a user sees: of each user key the newest visible version, merged where it must be.
//!
//! Going forward the inner cursor stands on the entry yielded, unless that was merged; then, and always when going
//! back, key and value are the scan's own and the inner cursor stands next to the key's entries, on the far side in
//! the direction of travel. Turning round repositions the inner cursor by the key.

use std::sync::Arc;

use koeldb_base::key::{MAX_SEQNO, encode_into, user_key};
use koeldb_base::merge_operator::{MergeOperator, merge_values};
use koeldb_base::prefix::PrefixExtractor;
use koeldb_base::range_del::FragmentedTombstones;
use koeldb_base::{Cursor, Error, Fault, InternalKey, KeyOrder, PinnedSlice, SeqNo, ValueType};
use koeldb_table::block_based::ahead::ScanLimits;

use super::bounds::{IterateBounds, KeyBounds, PrefixRange};
use std::ops::Bound;

/// Versions of one key stepped over before the rest is skipped by a seek.
const SKIPS_BEFORE_SEEK: u32 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// Nowhere.
    Nowhere,
    /// The inner cursor stands on the entry.
    Inner,
    /// The entry is the scan's own; the inner cursor stands behind the key.
    OwnedForward,
    /// The entry is the scan's own; the inner cursor stands before the key.
    OwnedBackward,
}

/// What a scan sees, fixed for its life.
pub(crate) struct View {
    pub(crate) order: KeyOrder,
    pub(crate) seqno: SeqNo,
    pub(crate) merge_operator: Option<Arc<dyn MergeOperator>>,
    pub(crate) tombstones: Vec<Arc<FragmentedTombstones>>,
    /// Set to end a scan where the prefix changes.
    pub(crate) prefix_extractor: Option<Arc<dyn PrefixExtractor>>,
}

impl View {
    #[inline]
    fn is_range_deleted(&self, user_key: &[u8], seqno: SeqNo) -> bool {
        !self.tombstones.is_empty()
            && self
                .tombstones
                .iter()
                .any(|list| list.covering_seqno(user_key, self.seqno) > seqno)
    }
}

/// A scan over the merged entries of a family.
pub(crate) struct Scan<C> {
    inner: C,
    view: View,
    bounds: KeyBounds,
    at: At,
    /// The user key under way.
    key: Vec<u8>,
    /// The value, where it is the scan's own.
    value: Vec<u8>,
    target: Vec<u8>,
    prefix: Option<Vec<u8>>,
    /// What the scan may see, for those who read ahead of it: the bounds, and the prefix.
    limits: Arc<ScanLimits>,
}

type Step<C> = Result<(), Fault<<C as Cursor>::Suspend>>;

impl<C: Cursor> Scan<C> {
    pub(crate) fn new(inner: C, view: View, bounds: KeyBounds, limits: Arc<ScanLimits>) -> Self {
        let scan = Scan {
            limits,
            inner,
            view,
            bounds,
            at: At::Nowhere,
            key: Vec::new(),
            value: Vec::new(),
            target: Vec::new(),
            prefix: None,
        };
        scan.limit();
        scan
    }

    pub(crate) fn set_bounds(&mut self, bounds: KeyBounds) {
        self.bounds = bounds;
        self.at = At::Nowhere;
        self.limit();
    }

    /// Says what can be seen from here on.
    fn limit(&self) {
        let order = &self.view.order;
        let prefix = self.prefix.as_ref();
        let within = prefix.and_then(|prefix| PrefixRange(prefix).into_bounds(order));
        let bounds = match within {
            Some(within) => self.bounds.clone().narrowed(order, within),
            None => self.bounds.clone(),
        };
        self.limits.set(bounds.lower, bounds.upper);
    }

    #[inline]
    pub(crate) fn valid(&self) -> bool {
        self.at != At::Nowhere
    }

    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    #[inline]
    pub(crate) fn value(&self) -> &[u8] {
        match self.at {
            At::Inner => self.inner.value(),
            _ => &self.value,
        }
    }

    pub(crate) fn pinned_value(&self) -> PinnedSlice {
        match self.at {
            At::Inner => self.inner.pinned_value(),
            _ => PinnedSlice::copy_of(&self.value),
        }
    }

    fn start_prefix(&mut self, key: Option<&[u8]>) {
        let Some(extractor) = &self.view.prefix_extractor else {
            return;
        };
        self.prefix = key.and_then(|key| extractor.prefix(key).map(<[u8]>::to_vec));
        self.limit();
    }

    #[inline]
    fn leaves_prefix(&self, key: &[u8]) -> bool {
        match (&self.prefix, &self.view.prefix_extractor) {
            (Some(prefix), Some(extractor)) => extractor.prefix(key) != Some(prefix),
            _ => false,
        }
    }

    pub(crate) fn seek_to_first(&mut self) -> Step<C> {
        self.at = At::Nowhere;
        self.start_prefix(None);
        match &self.bounds.lower {
            Bound::Unbounded => self.inner.seek_to_first()?,
            Bound::Included(lower) | Bound::Excluded(lower) => {
                encode_into(&mut self.target, lower, MAX_SEQNO, ValueType::FOR_SEEK);
                self.inner.seek(&self.target)?;
            }
        }
        self.settle_forward(false)
    }

    pub(crate) fn seek(&mut self, key: &[u8]) -> Step<C> {
        if self.bounds.is_before(&self.view.order, key) {
            return self.seek_to_first();
        }
        self.at = At::Nowhere;
        self.start_prefix(Some(key));
        encode_into(&mut self.target, key, self.view.seqno, ValueType::FOR_SEEK);
        self.inner.seek(&self.target)?;
        self.settle_forward(false)
    }

    pub(crate) fn seek_to_last(&mut self) -> Step<C> {
        self.at = At::Nowhere;
        self.start_prefix(None);
        match &self.bounds.upper {
            Bound::Unbounded => self.inner.seek_to_last()?,
            Bound::Included(upper) => {
                encode_into(&mut self.target, upper, 0, ValueType::Deletion);
                self.inner.seek_for_prev(&self.target)?;
            }
            Bound::Excluded(upper) => {
                encode_into(&mut self.target, upper, MAX_SEQNO, ValueType::FOR_SEEK);
                self.inner.seek_for_prev(&self.target)?;
            }
        }
        self.settle_backward()
    }

    pub(crate) fn seek_for_prev(&mut self, key: &[u8]) -> Step<C> {
        if self.bounds.is_behind(&self.view.order, key) {
            return self.seek_to_last();
        }
        self.at = At::Nowhere;
        self.start_prefix(Some(key));
        encode_into(&mut self.target, key, 0, ValueType::Deletion);
        self.inner.seek_for_prev(&self.target)?;
        self.settle_backward()
    }

    #[inline]
    pub(crate) fn next(&mut self) -> Step<C> {
        match self.at {
            At::Nowhere => return Ok(()),
            At::Inner => {
                self.at = At::Nowhere;
                self.inner.next()?;
            }
            At::OwnedForward => self.at = At::Nowhere,
            At::OwnedBackward => {
                self.at = At::Nowhere;
                encode_into(&mut self.target, &self.key, MAX_SEQNO, ValueType::FOR_SEEK);
                self.inner.seek(&self.target)?;
            }
        }
        self.settle_forward(true)
    }

    pub(crate) fn prev(&mut self) -> Step<C> {
        match self.at {
            At::Nowhere => return Ok(()),
            At::OwnedBackward => self.at = At::Nowhere,
            At::Inner | At::OwnedForward => {
                self.at = At::Nowhere;
                encode_into(&mut self.target, &self.key, MAX_SEQNO, ValueType::FOR_SEEK);
                self.inner.seek_for_prev(&self.target)?;
            }
        }
        self.settle_backward()
    }

    /// Goes on to the first visible entry at or behind the inner cursor; with `skipping`, of another key than
    /// the one under way.
    #[inline]
    fn settle_forward(&mut self, mut skipping: bool) -> Step<C> {
        let mut skips = 0;
        while self.inner.valid() {
            let entry = InternalKey::parse(self.inner.key())?;
            if self.bounds.is_behind(&self.view.order, entry.user_key) {
                return Ok(());
            }
            if skipping && entry.user_key == self.key.as_slice() {
                skips += 1;
                if skips > SKIPS_BEFORE_SEEK {
                    // Behind every version of the key.
                    encode_into(&mut self.target, &self.key, 0, ValueType::Deletion);
                    self.inner.seek(&self.target)?;
                    skips = 0;
                    if self.inner.valid() && user_key(self.inner.key()) == self.key.as_slice() {
                        self.inner.next()?;
                    }
                } else {
                    self.inner.next()?;
                }
                continue;
            }
            if entry.seqno > self.view.seqno {
                let is_same_key = skips > 0 && !skipping && entry.user_key == self.key.as_slice();
                if is_same_key && skips > SKIPS_BEFORE_SEEK {
                    encode_into(
                        &mut self.target,
                        entry.user_key,
                        self.view.seqno,
                        ValueType::FOR_SEEK,
                    );
                    self.inner.seek(&self.target)?;
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
                continue;
            }
            if self.leaves_prefix(entry.user_key) {
                return Ok(());
            }
            skips = 0;
            self.key.clear();
            self.key.extend_from_slice(entry.user_key);
            let is_deleted = entry.value_type.is_deletion()
                || self.view.is_range_deleted(entry.user_key, entry.seqno)
                || self.bounds.is_before(&self.view.order, entry.user_key);
            if is_deleted {
                skipping = true;
                self.inner.next()?;
                continue;
            }
            return match entry.value_type {
                ValueType::Value => {
                    self.at = At::Inner;
                    Ok(())
                }
                ValueType::Merge => self.merge_forward(),
                value_type => {
                    self.value = plain_value(value_type, &self.inner.pinned_value())?;
                    self.at = At::OwnedForward;
                    Ok(())
                }
            };
        }
        Ok(())
    }

    /// Combines the operands from the inner cursor on with the value beneath them.
    fn merge_forward(&mut self) -> Step<C> {
        let mut operands: Vec<Vec<u8>> = Vec::new();
        let mut base = None;
        while self.inner.valid() {
            let entry = InternalKey::parse(self.inner.key())?;
            if entry.user_key != self.key.as_slice() {
                break;
            }
            if entry.value_type.is_deletion()
                || self.view.is_range_deleted(entry.user_key, entry.seqno)
            {
                break;
            }
            if entry.value_type == ValueType::Merge {
                operands.push(self.inner.value().to_vec());
                self.inner.next()?;
                continue;
            }
            base = Some(plain_value(entry.value_type, &self.inner.pinned_value())?);
            break;
        }
        let newest_first: Vec<&[u8]> = operands.iter().map(Vec::as_slice).collect();
        self.value = merge_values(
            self.view.merge_operator.as_deref(),
            &self.key,
            base.as_deref(),
            &newest_first,
        )?;
        self.at = At::OwnedForward;
        Ok(())
    }

    /// Goes back to the last key with a visible value at or before the inner cursor.
    fn settle_backward(&mut self) -> Step<C> {
        while self.inner.valid() {
            self.key.clear();
            self.key.extend_from_slice(user_key(self.inner.key()));
            if self.bounds.is_before(&self.view.order, &self.key) || self.leaves_prefix(&self.key) {
                return Ok(());
            }
            if self.collect_backward()? && !self.bounds.is_behind(&self.view.order, &self.key) {
                self.at = At::OwnedBackward;
                return Ok(());
            }
        }
        Ok(())
    }

    /// Walks back over all versions of the key, oldest first, and keeps what the newest visible ones make.
    fn collect_backward(&mut self) -> Result<bool, Fault<C::Suspend>> {
        let mut has_base = false;
        let mut oldest_first: Vec<Vec<u8>> = Vec::new();
        while self.inner.valid() {
            let entry = InternalKey::parse(self.inner.key())?;
            if entry.user_key != self.key.as_slice() {
                break;
            }
            if entry.seqno <= self.view.seqno {
                if entry.value_type.is_deletion()
                    || self.view.is_range_deleted(entry.user_key, entry.seqno)
                {
                    has_base = false;
                    oldest_first.clear();
                } else if entry.value_type == ValueType::Merge {
                    oldest_first.push(self.inner.value().to_vec());
                } else {
                    has_base = true;
                    oldest_first.clear();
                    if entry.value_type == ValueType::Value {
                        self.value.clear();
                        self.value.extend_from_slice(self.inner.value());
                    } else {
                        self.value = plain_value(entry.value_type, &self.inner.pinned_value())?;
                    }
                }
            }
            self.inner.prev()?;
        }
        if oldest_first.is_empty() {
            return Ok(has_base);
        }
        let newest_first: Vec<&[u8]> = oldest_first.iter().rev().map(Vec::as_slice).collect();
        let base = has_base.then_some(self.value.as_slice());
        self.value = merge_values(
            self.view.merge_operator.as_deref(),
            &self.key,
            base,
            &newest_first,
        )?;
        Ok(true)
    }
}

/// The value a reader sees of an entry that has one.
fn plain_value(value_type: ValueType, value: &PinnedSlice) -> Result<Vec<u8>, Error> {
    match value_type {
        ValueType::Value => Ok(value.to_vec()),
        ValueType::WideColumnEntity => Ok(koeldb_base::lookup::default_column(value)?.to_vec()),
        ValueType::ValuePreferredSeqno => match value.split_last_chunk::<8>() {
            Some((value, _)) => Ok(value.to_vec()),
            None => Err(Error::corruption(
                "value with a preferred sequence number is shorter than 8 bytes",
            )),
        },
        ValueType::BlobIndex => Err(Error::not_supported(
            "the value lives in a blob file, which this release does not read",
        )),
        _ => Err(Error::corruption(format!(
            "entry of type {value_type:?} among values"
        ))),
    }
}
