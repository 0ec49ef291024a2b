//! Merge operators, which combine a value with operands written by `Merge`.
//!
//! Readers collect operands newest first and pass them to operators oldest first. The engine lends
//! the result buffer and reuses it. Names are RocksDB's, because table properties and OPTIONS files
//! record them.

use std::fmt;
use std::sync::Arc;

use crate::entity::{self, ColumnValue, Entity};
use crate::error::{BoxError, Error, ErrorDetail, ErrorKind, Result};
use crate::limits::ENTRY_BYTES_MAX;
use crate::pinned::PinnedSlice;
use crate::stats::{HistogramKind, Statistics, Stopwatch, Ticker};

/// An operator that combines an existing value and operands into a new value.
pub trait MergeOperator: Send + Sync + 'static {
    /// The name recorded in table properties.
    fn name(&self) -> &str;

    /// Merges `existing` and `operands` into `result`, which is empty (RocksDB: `FullMergeV2`).
    ///
    /// `existing` is `None` if the key has no value.
    ///
    /// # Errors
    /// Any reason that makes the operands unusable. Reads of the key then fail with it as their
    /// source; flushes and compactions keep the operands unmerged.
    fn full_merge(
        &self,
        key: &[u8],
        existing: Option<&[u8]>,
        operands: MergeOperands<'_>,
        result: &mut Vec<u8>,
    ) -> Result<(), BoxError>;

    /// Merges `operands` into one in `result`; false keeps them separate (`PartialMergeMulti`).
    ///
    /// # Errors
    /// Any reason: the operands stay separate.
    fn partial_merge(
        &self,
        key: &[u8],
        operands: MergeOperands<'_>,
        result: &mut Vec<u8>,
    ) -> Result<bool, BoxError> {
        let _ = (key, operands, result);
        Ok(false)
    }

    /// Returns the delimiter of a [`StringAppend`]; `None` for any other operator.
    #[doc(hidden)]
    fn append_delimiter(&self) -> Option<&[u8]> {
        None
    }
}

impl<T: MergeOperator + ?Sized> MergeOperator for Arc<T> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn full_merge(
        &self,
        key: &[u8],
        existing: Option<&[u8]>,
        operands: MergeOperands<'_>,
        result: &mut Vec<u8>,
    ) -> Result<(), BoxError> {
        (**self).full_merge(key, existing, operands, result)
    }

    fn partial_merge(
        &self,
        key: &[u8],
        operands: MergeOperands<'_>,
        result: &mut Vec<u8>,
    ) -> Result<bool, BoxError> {
        (**self).partial_merge(key, operands, result)
    }

    fn append_delimiter(&self) -> Option<&[u8]> {
        (**self).append_delimiter()
    }
}

/// The merge operands of one key, oldest first.
#[derive(Clone, Copy)]
pub struct MergeOperands<'a> {
    newest_first: &'a [&'a [u8]],
}

impl<'a> MergeOperands<'a> {
    /// Wraps operands in the order in which readers collect them: newest first.
    #[must_use]
    pub fn from_newest_first(operands: &'a [&'a [u8]]) -> Self {
        MergeOperands {
            newest_first: operands,
        }
    }

    /// The number of operands.
    #[must_use]
    pub fn len(&self) -> usize {
        self.newest_first.len()
    }

    /// Whether there are no operands.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.newest_first.is_empty()
    }

    /// The operands, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &'a [u8]> + use<'a> {
        self.newest_first.iter().rev().copied()
    }
}

impl<'a> IntoIterator for MergeOperands<'a> {
    type Item = &'a [u8];
    type IntoIter = std::iter::Rev<std::iter::Copied<std::slice::Iter<'a, &'a [u8]>>>;

    fn into_iter(self) -> Self::IntoIter {
        self.newest_first.iter().copied().rev()
    }
}

/// Creates an operator from an associative function of two values: sums, unions, maxima.
///
/// `merge(key, older, newer, result)` writes the combination of the two into `result`, which is
/// empty. A single operand without a base value becomes the value unchanged.
pub fn associative_merge<F>(name: impl Into<String>, merge: F) -> impl MergeOperator
where
    F: Fn(&[u8], &[u8], &[u8], &mut Vec<u8>) -> Result<(), BoxError> + Send + Sync + 'static,
{
    Associative {
        name: name.into(),
        merge,
    }
}

/// A merge operator made from an associative function.
struct Associative<F> {
    name: String,
    merge: F,
}

impl<F> MergeOperator for Associative<F>
where
    F: Fn(&[u8], &[u8], &[u8], &mut Vec<u8>) -> Result<(), BoxError> + Send + Sync + 'static,
{
    fn name(&self) -> &str {
        &self.name
    }

    fn full_merge(
        &self,
        key: &[u8],
        existing: Option<&[u8]>,
        operands: MergeOperands<'_>,
        result: &mut Vec<u8>,
    ) -> Result<(), BoxError> {
        let mut values = existing.into_iter().chain(operands);
        result.extend_from_slice(values.next().unwrap_or_default());
        let mut merged = Vec::new();
        for newer in values {
            merged.clear();
            (self.merge)(key, result, newer, &mut merged)?;
            std::mem::swap(result, &mut merged);
        }
        Ok(())
    }

    fn partial_merge(
        &self,
        key: &[u8],
        operands: MergeOperands<'_>,
        result: &mut Vec<u8>,
    ) -> Result<bool, BoxError> {
        self.full_merge(key, None, operands, result)?;
        Ok(true)
    }
}

/// The use of the blob cache by a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlobCacheUse {
    /// Neither looks for values nor inserts them.
    Bypass,
    /// Looks for values, and inserts none.
    Lookup,
    /// Inserts the values that it did not find.
    Fill,
    /// Reads no file: a value that is not cached is an error of kind `Incomplete`.
    Only,
}

/// The options of reads of values in blob files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchOptions {
    /// Whether to compare records with their checksums and with their keys.
    pub verifies: bool,
    /// The use of the blob cache. Values that were not verified are not inserted.
    pub cache: BlobCacheUse,
}

impl Default for FetchOptions {
    fn default() -> Self {
        FetchOptions {
            verifies: true,
            cache: BlobCacheUse::Fill,
        }
    }
}

/// Reads values that are outside of their table, in blob files (RocksDB: `BlobFetcher`).
pub trait FetchBlob: Sync {
    /// Returns the value of `user_key` to which an entry of type `BlobIndex` refers.
    ///
    /// # Errors
    /// `Corruption` if the reference or the record is damaged; `Incomplete` if nothing may be read;
    /// otherwise if the system fails.
    fn fetch(&self, user_key: &[u8], reference: &[u8]) -> Result<PinnedSlice>;

    /// Returns the value like [`FetchBlob::fetch`], with the options of a read.
    ///
    /// A source with options of its own ignores these, as the default does.
    ///
    /// # Errors
    /// See [`FetchBlob::fetch`].
    fn fetch_with(
        &self,
        user_key: &[u8],
        reference: &[u8],
        options: FetchOptions,
    ) -> Result<PinnedSlice> {
        let _ = options;
        self.fetch(user_key, reference)
    }
}

/// The statistics that count full merges.
#[derive(Clone, Copy, Debug)]
pub struct MergeCounts<'a> {
    statistics: &'a Statistics,
    of_reads: bool,
}

impl<'a> MergeCounts<'a> {
    /// Counts the merges of reads, and their operands; `None` without statistics.
    #[inline]
    #[must_use]
    pub fn of_reads(statistics: Option<&'a Statistics>) -> Option<Self> {
        statistics.map(|statistics| MergeCounts {
            statistics,
            of_reads: true,
        })
    }

    /// Counts the merges of flushes and compactions; `None` without statistics.
    #[must_use]
    pub fn of_jobs(statistics: Option<&'a Statistics>) -> Option<Self> {
        statistics.map(|statistics| MergeCounts {
            statistics,
            of_reads: false,
        })
    }

    /// Makes a merge of `operands` operands, and counts it.
    fn measured<E>(&self, operands: usize, merge: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        if self.of_reads {
            self.statistics
                .record(HistogramKind::ReadNumMergeOperands, operands as u64);
        }
        let stopwatch = Stopwatch::start();
        let merged = merge();
        let nanos = u64::try_from(stopwatch.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.statistics.add_all(&[
            (Ticker::MergeOperationTotalTime, nanos),
            (Ticker::NumberMergeFailures, u64::from(merged.is_err())),
        ]);
        merged
    }
}

/// The merge operator of a column family, and the source of its values in blob files.
///
/// It has the name of the column family, for errors.
#[derive(Clone, Copy, Default)]
pub struct Merger<'a> {
    operator: Option<&'a dyn MergeOperator>,
    family: &'a str,
    blobs: Option<&'a dyn FetchBlob>,
    fetch_options: FetchOptions,
    counts: Option<MergeCounts<'a>>,
}

impl<'a> Merger<'a> {
    /// Wraps the merge operator of the column family named `family`, if it has one.
    #[inline]
    #[must_use]
    pub fn new(operator: Option<&'a dyn MergeOperator>, family: &'a str) -> Self {
        Merger {
            operator,
            family,
            blobs: None,
            fetch_options: FetchOptions::default(),
            counts: None,
        }
    }

    /// Sets the statistics that count full merges; none by default.
    #[inline]
    #[must_use]
    pub fn with_counts(mut self, counts: Option<MergeCounts<'a>>) -> Self {
        self.counts = counts;
        self
    }

    /// Sets the options of reads of values in blob files.
    #[inline]
    #[must_use]
    pub fn with_fetch_options(mut self, options: FetchOptions) -> Self {
        self.fetch_options = options;
        self
    }

    /// Sets the source of values in blob files.
    #[inline]
    #[must_use]
    pub fn with_blobs(mut self, blobs: &'a dyn FetchBlob) -> Self {
        self.blobs = Some(blobs);
        self
    }

    /// The source of values in blob files; `None` without one.
    #[must_use]
    pub fn blobs(&self) -> Option<&'a dyn FetchBlob> {
        self.blobs
    }

    /// Returns the value to which an entry of type `BlobIndex` refers.
    ///
    /// # Errors
    /// See [`FetchBlob::fetch`]; `NotSupported` without a source of such values.
    #[cold]
    pub fn fetch(&self, user_key: &[u8], reference: &[u8]) -> Result<PinnedSlice> {
        match self.blobs {
            Some(blobs) => blobs.fetch_with(user_key, reference, self.fetch_options),
            None => Err(Error::not_supported(
                "the value is in a blob file, which only an open database reads",
            )),
        }
    }
}

impl Merger<'_> {
    /// Returns the value of the default column of an entity; empty if it has none.
    ///
    /// # Errors
    /// `Corruption` if the entity is malformed; see [`Merger::fetch`].
    pub fn default_column(&self, user_key: &[u8], entity: &PinnedSlice) -> Result<PinnedSlice> {
        match entity::stored_default(entity)? {
            None => Ok(PinnedSlice::default()),
            Some((ColumnValue::BlobIndex(reference), _)) => self.fetch(user_key, reference),
            Some((ColumnValue::Inline(_), range)) => Ok(entity.subslice(range)),
        }
    }

    /// Returns an entity with all values of its columns, which may be in blob files.
    ///
    /// # Errors
    /// See [`Merger::default_column`].
    pub fn whole_entity(&self, user_key: &[u8], entity: PinnedSlice) -> Result<PinnedSlice> {
        if !Entity::decode(&entity)?.has_blob_indexes() {
            return Ok(entity);
        }
        let whole = entity::with_values(&entity, &mut |reference| self.fetch(user_key, reference))?;
        Ok(PinnedSlice::from(whole))
    }
}

/// Merges `existing` and the operands with the merge operator, and catches its panics.
///
/// # Errors
/// `NotSupported` without an operator; `Corruption` with detail `MergeOperatorFailed` if it fails,
/// with `PluginPanicked` if it panics. The message names key and column family.
pub fn merge_values(
    merger: Merger<'_>,
    key: &[u8],
    existing: Option<&[u8]>,
    newest_first: &[&[u8]],
) -> Result<Vec<u8>> {
    let Some(operator) = merger.operator else {
        return Err(Error::not_supported(format!(
            "merge operands found {}, but no merge_operator is set",
            Place(key, merger.family)
        ))
        .with_advice("set the merge_operator that they were written with"));
    };
    let mut result = Vec::new();
    let mut merge = || {
        let operands = MergeOperands::from_newest_first(newest_first);
        operator.full_merge(key, existing, operands, &mut result)
    };
    let merged = guarded(|| match merger.counts {
        Some(counts) => counts.measured(newest_first.len(), merge),
        None => merge(),
    });
    let what = match merged {
        Ok(Ok(())) => return check_merged(merger, key, result.len()).map(|()| result),
        Ok(Err(source)) => {
            Error::new(ErrorKind::Corruption, source).with_detail(ErrorDetail::MergeOperatorFailed)
        }
        Err(panic) => Error::corruption(format!("it panicked{panic}"))
            .with_detail(ErrorDetail::PluginPanicked),
    };
    Err(what.context(format_args!(
        "merge operator {} failed {}",
        operator.name(),
        Place(key, merger.family)
    )))
}

/// The key and the column family that an error message names.
struct Place<'a>(&'a [u8], &'a str);

/// The maximum number of bytes of a key that an error message shows.
const SHOWN_KEY_BYTES: usize = 64;

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place(key, family) = self;
        let shown = key.get(..SHOWN_KEY_BYTES).unwrap_or(key);
        write!(f, "for key \"{}\"", shown.escape_ascii())?;
        if shown.len() < key.len() {
            write!(f, " and {} more bytes", key.len() - shown.len())?;
        }
        write!(f, " of column family {family:?}")
    }
}

/// Checks that the merged value and its key are within the size limit of entries.
fn check_merged(merger: Merger<'_>, key: &[u8], bytes: usize) -> Result<()> {
    if fits(key.len(), bytes) {
        return Ok(());
    }
    Err(Error::corruption(format!(
        "merge operator {} returned a value that is too large {}: {bytes} bytes, at most {ENTRY_BYTES_MAX} with its key",
        merger.operator.map_or("", MergeOperator::name),
        Place(key, merger.family)
    ))
    .with_detail(ErrorDetail::MergeOperatorFailed))
}

/// Whether a merged entry is within the size limit of entries.
fn fits(key_bytes: usize, bytes: usize) -> bool {
    key_bytes.saturating_add(bytes) <= ENTRY_BYTES_MAX
}

/// Combines operands without a base value (partial merge); `None` if they stay separate.
///
/// They stay separate if there is no operator, if it refuses, fails or panics, and if their
/// combination is too large.
#[must_use]
pub fn merge_operands(merger: Merger<'_>, key: &[u8], newest_first: &[&[u8]]) -> Option<Vec<u8>> {
    let operator = merger.operator?;
    let mut result = Vec::new();
    let merged = guarded(|| {
        operator.partial_merge(
            key,
            MergeOperands::from_newest_first(newest_first),
            &mut result,
        )
    });
    (matches!(merged, Ok(Ok(true))) && fits(key.len(), result.len())).then_some(result)
}

/// Runs user code and catches its panic, whose message is the error.
fn guarded<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        text.map_or_else(String::new, |text| format!(": {text}"))
    })
}

/// `StringAppendOperator`: joins operands with a delimiter.
#[derive(Clone, Debug)]
pub struct StringAppend {
    delimiter: Vec<u8>,
}

impl StringAppend {
    /// Creates an operator that joins with `delimiter`, of any length.
    #[must_use]
    pub fn new(delimiter: impl Into<Vec<u8>>) -> Self {
        StringAppend {
            delimiter: delimiter.into(),
        }
    }

    /// The delimiter between appended operands.
    #[must_use]
    pub fn delimiter(&self) -> &[u8] {
        &self.delimiter
    }

    /// Appends the parts to `result` with delimiters between them.
    fn join<'a>(&self, parts: impl Iterator<Item = &'a [u8]>, result: &mut Vec<u8>) {
        for (index, part) in parts.enumerate() {
            if index > 0 {
                result.extend_from_slice(&self.delimiter);
            }
            result.extend_from_slice(part);
        }
    }
}

impl Default for StringAppend {
    fn default() -> Self {
        Self::new(",")
    }
}

impl MergeOperator for StringAppend {
    fn name(&self) -> &str {
        "StringAppendOperator"
    }

    fn full_merge(
        &self,
        _key: &[u8],
        existing: Option<&[u8]>,
        operands: MergeOperands<'_>,
        result: &mut Vec<u8>,
    ) -> Result<(), BoxError> {
        self.join(existing.into_iter().chain(operands), result);
        Ok(())
    }

    fn partial_merge(
        &self,
        _key: &[u8],
        operands: MergeOperands<'_>,
        result: &mut Vec<u8>,
    ) -> Result<bool, BoxError> {
        self.join(operands.into_iter(), result);
        Ok(true)
    }

    fn append_delimiter(&self) -> Option<&[u8]> {
        Some(&self.delimiter)
    }
}

/// Defines an operator whose function merges any values of a key, given oldest first.
macro_rules! operator {
    ($(#[$doc:meta])* $operator:ident, $name:literal, $merge:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $operator;

        impl MergeOperator for $operator {
            fn name(&self) -> &str {
                $name
            }

            fn full_merge(
                &self,
                _key: &[u8],
                existing: Option<&[u8]>,
                operands: MergeOperands<'_>,
                result: &mut Vec<u8>,
            ) -> Result<(), BoxError> {
                $merge(existing.into_iter().chain(operands), result);
                Ok(())
            }

            fn partial_merge(
                &self,
                _key: &[u8],
                operands: MergeOperands<'_>,
                result: &mut Vec<u8>,
            ) -> Result<bool, BoxError> {
                $merge(operands.into_iter(), result);
                Ok(true)
            }
        }
    };
}

operator! {
    /// `UInt64AddOperator`: adds little-endian 64-bit numbers, wrapping.
    ///
    /// Values of other lengths count as 0.
    Uint64Add, "UInt64AddOperator", add
}

operator! {
    /// `PutOperator`: the newest operand is the value.
    PutNewest, "PutOperator", put_newest
}

operator! {
    /// `MaxOperator`: the largest of value and operands in bytewise order.
    Max, "MaxOperator", put_largest
}

operator! {
    /// `BytesXOR`: XORs value and operands, the shorter padded with zeros.
    BytesXor, "BytesXOR", xor
}

/// Appends the wrapping sum of the values, 64-bit little-endian numbers, to `result`.
fn add<'a>(values: impl Iterator<Item = &'a [u8]>, result: &mut Vec<u8>) {
    let number = |value: &[u8]| value.try_into().map_or(0, u64::from_le_bytes);
    let sum = values.fold(0_u64, |sum, value| sum.wrapping_add(number(value)));
    result.extend_from_slice(&sum.to_le_bytes());
}

/// Appends the newest value, which is the last, to `result`.
fn put_newest<'a>(mut values: impl DoubleEndedIterator<Item = &'a [u8]>, result: &mut Vec<u8>) {
    result.extend_from_slice(values.next_back().unwrap_or_default());
}

/// Appends the largest value in bytewise order to `result`.
fn put_largest<'a>(values: impl Iterator<Item = &'a [u8]>, result: &mut Vec<u8>) {
    result.extend_from_slice(values.max().unwrap_or_default());
}

/// XORs the values into `result`.
fn xor<'a>(values: impl Iterator<Item = &'a [u8]>, result: &mut Vec<u8>) {
    for value in values {
        if result.len() < value.len() {
            result.resize(value.len(), 0);
        }
        for (out, byte) in result.iter_mut().zip(value) {
            *out ^= byte;
        }
    }
}

/// The built-in operator with this id: a name that RocksDB records, or one of its nicknames.
///
/// `delimiter` applies to `stringappend`.
#[must_use]
pub fn by_id(id: &str, delimiter: Option<&str>) -> Option<Arc<dyn MergeOperator>> {
    Some(match id {
        "StringAppendOperator"
        | "StringAppendTESTOperator"
        | "stringappend"
        | "stringappendtest" => Arc::new(StringAppend::new(delimiter.unwrap_or(","))),
        "UInt64AddOperator" | "uint64add" => Arc::new(Uint64Add),
        "PutOperator" | "put" | "put_v1" => Arc::new(PutNewest),
        "MaxOperator" | "max" => Arc::new(Max),
        "BytesXOR" | "bytesxor" => Arc::new(BytesXor),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_merged_value_that_no_table_can_hold_is_an_error() {
        let operator = StringAppend::new(",");
        let merger = Merger::new(Some(&operator), "default");
        check_merged(merger, &[0; 10], ENTRY_BYTES_MAX - 10).unwrap();
        let error = check_merged(merger, &[0; 10], ENTRY_BYTES_MAX - 9).unwrap_err();
        assert_eq!(error.detail(), Some(ErrorDetail::MergeOperatorFailed));
        assert!(error.to_string().contains("StringAppend"), "{error}");
        check_merged(merger, b"k", usize::MAX).unwrap_err();
    }

    #[test]
    fn operands_apply_oldest_first() {
        let append = StringAppend::default();
        let value = merge_values(
            Merger::new(Some(&append), "default"),
            b"k",
            Some(b"a"),
            &[b"c", b"b"],
        )
        .unwrap();
        assert_eq!(value, b"a,b,c");
        let one = 1_u64.to_le_bytes();
        let sum = merge_values(
            Merger::new(Some(&Uint64Add), "default"),
            b"k",
            Some(b"odd"),
            &[&one, &one],
        )
        .unwrap();
        assert_eq!(sum, 2_u64.to_le_bytes());
        assert!(merge_values(Merger::default(), b"k", None, &[&one]).is_err());
    }

    #[test]
    fn an_associative_function_is_an_operator() {
        let longest = associative_merge("longest", |_, older, newer, result| {
            result.extend_from_slice(if newer.len() > older.len() {
                newer
            } else {
                older
            });
            Ok(())
        });
        let value = merge_values(
            Merger::new(Some(&longest), "default"),
            b"k",
            Some(b"ab"),
            &[b"x", b"abc"],
        )
        .unwrap();
        assert_eq!(value, b"abc");
    }

    struct Panics;

    impl MergeOperator for Panics {
        fn name(&self) -> &str {
            "panics"
        }

        fn full_merge(
            &self,
            _: &[u8],
            _: Option<&[u8]>,
            _: MergeOperands<'_>,
            _: &mut Vec<u8>,
        ) -> Result<(), BoxError> {
            panic!("deliberate")
        }
    }

    #[test]
    fn a_panicking_operator_is_an_error() {
        let error =
            merge_values(Merger::new(Some(&Panics), "default"), b"k", None, &[b"x"]).unwrap_err();
        assert_eq!(error.detail(), Some(ErrorDetail::PluginPanicked));
    }
}
