//! Merge operators made of functions.

use koeldb::BoxError;

/// A merge function: combines the existing value of a key, if any, with its merge operands.
///
/// Operands come oldest first.
///
/// It returns `None` if the operands are invalid: reads of the key then fail. As the engine calls
/// it from many threads and repeats it, it should depend on its arguments alone.
pub trait MergeFn:
    Fn(&[u8], Option<&[u8]>, &MergeOperands<'_>) -> Option<Vec<u8>> + Send + Sync + 'static
{
}

impl<F> MergeFn for F where
    F: Fn(&[u8], Option<&[u8]>, &MergeOperands<'_>) -> Option<Vec<u8>> + Send + Sync + 'static
{
}

/// The merge operands of a key, oldest first.
pub struct MergeOperands<'a>(koeldb::MergeOperands<'a>);

impl<'a> MergeOperands<'a> {
    /// Returns the number of operands.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are no operands.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns an iterator over the operands, oldest first.
    #[must_use]
    pub fn iter(&self) -> MergeOperandsIter<'a> {
        MergeOperandsIter {
            operands: self.0.into_iter(),
        }
    }
}

/// An iterator over merge operands, oldest first.
pub struct MergeOperandsIter<'a> {
    operands: <koeldb::MergeOperands<'a> as IntoIterator>::IntoIter,
}

impl<'a> Iterator for MergeOperandsIter<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        self.operands.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.operands.size_hint()
    }
}

impl<'a> IntoIterator for &MergeOperands<'a> {
    type Item = &'a [u8];
    type IntoIter = MergeOperandsIter<'a>;

    fn into_iter(self) -> MergeOperandsIter<'a> {
        self.iter()
    }
}

/// A merge operator made of two closures, for full and for partial merges.
pub(crate) struct FunctionOperator<F, P> {
    pub(crate) name: String,
    pub(crate) full: F,
    pub(crate) partial: P,
}

impl<F: MergeFn, P: MergeFn> koeldb::MergeOperator for FunctionOperator<F, P> {
    fn name(&self) -> &str {
        &self.name
    }

    fn full_merge(
        &self,
        key: &[u8],
        existing: Option<&[u8]>,
        operands: koeldb::MergeOperands<'_>,
        result: &mut Vec<u8>,
    ) -> Result<(), BoxError> {
        match (self.full)(key, existing, &MergeOperands(operands)) {
            Some(merged) => {
                *result = merged;
                Ok(())
            }
            None => Err("Merge operator failed".into()),
        }
    }

    fn partial_merge(
        &self,
        key: &[u8],
        operands: koeldb::MergeOperands<'_>,
        result: &mut Vec<u8>,
    ) -> Result<bool, BoxError> {
        let Some(merged) = (self.partial)(key, None, &MergeOperands(operands)) else {
            return Ok(false);
        };
        *result = merged;
        Ok(true)
    }
}
