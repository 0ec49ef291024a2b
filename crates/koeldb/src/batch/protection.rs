//! Checksums of the operations of a batch, verified on their way into the memtables.
//!
//! A protected batch carries the sum of its operations' checksums. The sum changes with any
//! operation but not with their order, and batches are appended by adding their sums.

use koeldb_base::checksum::entry_checksum;
use koeldb_base::{Error, Result, ValueType};

use super::format::BatchIter;

/// Returns the checksum of an operation, over its column family, value type, key and value.
pub(crate) fn checksum(cf: u32, value_type: ValueType, key: &[u8], value: &[u8]) -> u64 {
    let tag = u64::from(cf) << 8 | u64::from(value_type as u8);
    entry_checksum(key, value, tag)
}

/// Returns the sum of the checksums of the operations in `records`, up to the first invalid one.
pub(crate) fn sum_of(records: &[u8]) -> u64 {
    let mut sum = 0_u64;
    let mut operations = BatchIter::new(records);
    while let Ok(Some(operation)) = operations.next_operation() {
        let added = checksum(
            operation.cf,
            operation.value_type,
            operation.key,
            operation.value,
        );
        sum = sum.wrapping_add(added);
    }
    sum
}

/// Compares the checksums of the operations with the sum of a protected batch (`protection`).
///
/// # Errors
/// `Corruption` if they differ.
#[inline]
pub(crate) fn verify(records: &[u8], protection: Option<u64>) -> Result<()> {
    match protection {
        None => Ok(()),
        Some(sum) => verify_sum(records, sum),
    }
}

/// Fails with `Corruption` unless the checksums of the operations in `records` add up to `sum`.
#[cold]
fn verify_sum(records: &[u8], sum: u64) -> Result<()> {
    if sum_of(records) == sum {
        return Ok(());
    }
    Err(Error::corruption(
        "a batch was changed in memory: its operations differ from their checksums",
    ))
}
