//! Merge operators, which combine a value with operands written by `Merge`.
//!
//! Readers collect operands newest first and pass them to operators oldest first. The engine lends
//! the result buffer and reuses it. Names are RocksDB's, because table properties and OPTIONS files
//! record them.

use std::sync::Arc;

use crate::error::{BoxError, Error, ErrorDetail, ErrorKind, Result};
use crate::limits::ENTRY_BYTES_MAX;

/// An operator that combines an existing value and operands into a new value.
pub trait MergeOperator: Send + Sync + 'static {
    /// The name recorded in table properties.
    fn name(&self) -> &str;

    /// Writes the merged value into `result`, which is empty. `existing` is `None` if the key has
    /// no value.
    ///
    /// # Errors
    /// Any reason that makes the operands unusable; the read or compaction then fails with it as
    /// its source.
    fn full_merge(
        &self,
        key: &[u8],
        existing: Option<&[u8]>,
        operands: MergeOperands<'_>,
        result: &mut Vec<u8>,
    ) -> Result<(), BoxError>;

    /// Combines `operands` into one in `result`; returns false to keep them separate.
    ///
    /// # Errors
    /// See [`MergeOperator::full_merge`].
    fn partial_merge(
        &self,
        key: &[u8],
        operands: MergeOperands<'_>,
        result: &mut Vec<u8>,
    ) -> Result<bool, BoxError> {
        let _ = (key, operands, result);
        Ok(false)
    }

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

/// The operands of one key, oldest first.
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

/// Runs `operator`, catching a panic, and returns the merged value.
///
/// # Errors
/// `NotSupported` without an operator; `Corruption` with detail `MergeOperatorFailed` if it fails
/// or panics.
pub fn merge_values(
    operator: Option<&dyn MergeOperator>,
    key: &[u8],
    existing: Option<&[u8]>,
    newest_first: &[&[u8]],
) -> Result<Vec<u8>> {
    let operator = require(operator)?;
    let mut result = Vec::new();
    guarded(operator, || {
        operator.full_merge(
            key,
            existing,
            MergeOperands::from_newest_first(newest_first),
            &mut result,
        )
    })?;
    check_merged(operator, key.len(), result.len())?;
    Ok(result)
}

/// Checks that the merged value and its key fit into a table.
fn check_merged(operator: &dyn MergeOperator, key_bytes: usize, bytes: usize) -> Result<()> {
    if fits(key_bytes, bytes) {
        return Ok(());
    }
    Err(Error::corruption(format!(
        "merge operator {} returned a value that is too large: {bytes} bytes, at most {ENTRY_BYTES_MAX} with its key",
        operator.name()
    ))
    .with_detail(ErrorDetail::MergeOperatorFailed))
}

fn fits(key_bytes: usize, bytes: usize) -> bool {
    key_bytes.saturating_add(bytes) <= ENTRY_BYTES_MAX
}

/// Runs the partial merge of `operator`; `None` if the operands stay separate.
///
/// # Errors
/// See [`merge_values`].
pub fn merge_operands(
    operator: Option<&dyn MergeOperator>,
    key: &[u8],
    newest_first: &[&[u8]],
) -> Result<Option<Vec<u8>>> {
    let operator = require(operator)?;
    let mut result = Vec::new();
    let merged = guarded(operator, || {
        operator.partial_merge(
            key,
            MergeOperands::from_newest_first(newest_first),
            &mut result,
        )
    })?;
    // Operands that are too large together stay apart.
    Ok((merged && fits(key.len(), result.len())).then_some(result))
}

fn require(operator: Option<&dyn MergeOperator>) -> Result<&dyn MergeOperator> {
    operator.ok_or_else(|| {
        Error::not_supported(
            "merge operands found, but no merge_operator is set: set the one they were written with",
        )
    })
}

fn guarded<T>(
    operator: &dyn MergeOperator,
    run: impl FnOnce() -> Result<T, BoxError>,
) -> Result<T> {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(source)) => Err(Error::new(ErrorKind::Corruption, source)
            .context(format_args!("merge operator {} failed", operator.name()))
            .with_detail(ErrorDetail::MergeOperatorFailed)),
        Err(_) => Err(Error::with_kind(
            ErrorKind::Corruption,
            format!("merge operator {} panicked", operator.name()),
        )
        .with_detail(ErrorDetail::PluginPanicked)),
    }
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

/// `UInt64AddOperator`: adds little-endian 64-bit numbers, wrapping; values of other lengths count
/// as 0.
#[derive(Clone, Copy, Debug, Default)]
pub struct Uint64Add;

fn as_u64(value: &[u8]) -> u64 {
    value.try_into().map_or(0, u64::from_le_bytes)
}

impl MergeOperator for Uint64Add {
    fn name(&self) -> &str {
        "UInt64AddOperator"
    }

    fn full_merge(
        &self,
        _key: &[u8],
        existing: Option<&[u8]>,
        operands: MergeOperands<'_>,
        result: &mut Vec<u8>,
    ) -> Result<(), BoxError> {
        let sum = existing
            .into_iter()
            .chain(operands)
            .fold(0_u64, |sum, value| sum.wrapping_add(as_u64(value)));
        result.extend_from_slice(&sum.to_le_bytes());
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

/// `PutOperator`: the newest operand is the value.
#[derive(Clone, Copy, Debug, Default)]
pub struct PutNewest;

impl MergeOperator for PutNewest {
    fn name(&self) -> &str {
        "PutOperator"
    }

    fn full_merge(
        &self,
        _key: &[u8],
        existing: Option<&[u8]>,
        operands: MergeOperands<'_>,
        result: &mut Vec<u8>,
    ) -> Result<(), BoxError> {
        let newest = operands.iter().next_back().or(existing).unwrap_or_default();
        result.extend_from_slice(newest);
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

/// `MaxOperator`: the largest of value and operands in bytewise order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Max;

impl MergeOperator for Max {
    fn name(&self) -> &str {
        "MaxOperator"
    }

    fn full_merge(
        &self,
        _key: &[u8],
        existing: Option<&[u8]>,
        operands: MergeOperands<'_>,
        result: &mut Vec<u8>,
    ) -> Result<(), BoxError> {
        let largest = existing
            .into_iter()
            .chain(operands)
            .max()
            .unwrap_or_default();
        result.extend_from_slice(largest);
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

/// `BytesXOR`: XORs value and operands, the shorter padded with zeros.
#[derive(Clone, Copy, Debug, Default)]
pub struct BytesXor;

impl MergeOperator for BytesXor {
    fn name(&self) -> &str {
        "BytesXOR"
    }

    fn full_merge(
        &self,
        _key: &[u8],
        existing: Option<&[u8]>,
        operands: MergeOperands<'_>,
        result: &mut Vec<u8>,
    ) -> Result<(), BoxError> {
        for part in existing.into_iter().chain(operands) {
            if result.len() < part.len() {
                result.resize(part.len(), 0);
            }
            for (out, byte) in result.iter_mut().zip(part) {
                *out ^= byte;
            }
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
        check_merged(&operator, 10, ENTRY_BYTES_MAX - 10).unwrap();
        let error = check_merged(&operator, 10, ENTRY_BYTES_MAX - 9).unwrap_err();
        assert_eq!(error.detail(), Some(ErrorDetail::MergeOperatorFailed));
        assert!(error.to_string().contains("StringAppend"), "{error}");
        check_merged(&operator, usize::MAX, usize::MAX).unwrap_err();
    }

    #[test]
    fn operands_apply_oldest_first() {
        let append = StringAppend::default();
        let value = merge_values(Some(&append), b"k", Some(b"a"), &[b"c", b"b"]).unwrap();
        assert_eq!(value, b"a,b,c");
        let one = 1_u64.to_le_bytes();
        let sum = merge_values(Some(&Uint64Add), b"k", Some(b"odd"), &[&one, &one]).unwrap();
        assert_eq!(sum, 2_u64.to_le_bytes());
        assert!(merge_values(None, b"k", None, &[&one]).is_err());
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
        let value = merge_values(Some(&longest), b"k", Some(b"ab"), &[b"x", b"abc"]).unwrap();
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
        let error = merge_values(Some(&Panics), b"k", None, &[b"x"]).unwrap_err();
        assert_eq!(error.detail(), Some(ErrorDetail::PluginPanicked));
    }
}
