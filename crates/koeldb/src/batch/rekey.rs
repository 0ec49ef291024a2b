//! Batches of logs from before user-defined timestamps were switched on or off.
//!
//! Their keys lack the timestamps that keys now have, or have such that keys no longer have.
//! (RocksDB 11.9: `util/udt_util.cc`, `TimestampRecoveryHandler`.)

use std::borrow::Cow;
use std::collections::BTreeMap;

use koeldb_base::coding::{put_length_prefixed, put_varint32, take_length_prefixed};
use koeldb_base::timestamp::{MIN_TIMESTAMP, TIMESTAMP_BYTES};
use koeldb_base::{Error, Result};

use super::format::{BatchIter, HEADER_BYTES, Operation, Record, tag};

/// The change of the keys of a column family in a log to those that it has now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyChange {
    /// Keys get the smallest timestamp.
    Pad,
    /// Keys lose their timestamps.
    Strip,
}

impl KeyChange {
    /// Returns `key` changed.
    fn of<'k>(self, key: &'k [u8]) -> Result<Cow<'k, [u8]>> {
        match self {
            KeyChange::Pad => Ok(Cow::Owned([key, &MIN_TIMESTAMP].concat())),
            KeyChange::Strip => match key.split_last_chunk::<TIMESTAMP_BYTES>() {
                Some((key, _)) => Ok(Cow::Borrowed(key)),
                None => Err(Error::corruption(format!(
                    "a key of {} bytes in a log of keys with timestamps",
                    key.len()
                ))),
            },
        }
    }
}

/// Returns a serialized batch with the keys of column families changed as `changes` says.
///
/// # Errors
/// `Corruption` if the batch is malformed or a key has no timestamp to lose.
pub(crate) fn with_changed_keys<'b>(
    batch: &'b [u8],
    changes: &BTreeMap<u32, KeyChange>,
) -> Result<Cow<'b, [u8]>> {
    // A batch without a header is left to its decoder.
    let Some((header, mut rest)) = batch.split_at_checked(HEADER_BYTES) else {
        return Ok(Cow::Borrowed(batch));
    };
    if changes.is_empty() {
        return Ok(Cow::Borrowed(batch));
    }
    let mut out = header.to_vec();
    let mut is_changed = false;
    while let Some((&tag, behind)) = rest.split_first() {
        let mut records = BatchIter::new(rest);
        let mut after = behind;
        if skip_mark(tag, &mut after)? {
            records = BatchIter::new(after);
        } else if let Record::Operation(operation) = records.decode()?
            && let Some(change) = changes.get(&operation.cf)
        {
            put_changed(&mut out, tag, &operation, *change)?;
            is_changed = true;
            rest = records.records();
            continue;
        }
        let left = records.records();
        out.extend_from_slice(&rest[..rest.len() - left.len()]);
        rest = left;
    }
    Ok(match is_changed {
        true => Cow::Owned(out),
        false => Cow::Borrowed(batch),
    })
}

/// Appends an operation with changed keys.
fn put_changed(
    out: &mut Vec<u8>,
    tag: u8,
    operation: &Operation<'_>,
    change: KeyChange,
) -> Result<()> {
    out.push(tag);
    let names_family = matches!(
        tag,
        tag::CF_VALUE
            | tag::CF_DELETION
            | tag::CF_SINGLE_DELETION
            | tag::CF_MERGE
            | tag::CF_RANGE_DELETION
            | tag::CF_WIDE_COLUMN_ENTITY
    );
    if names_family {
        put_varint32(out, operation.cf);
    }
    put_length_prefixed(out, &change.of(operation.key)?);
    match tag {
        tag::DELETION | tag::CF_DELETION | tag::SINGLE_DELETION | tag::CF_SINGLE_DELETION => {}
        tag::RANGE_DELETION | tag::CF_RANGE_DELETION => {
            put_length_prefixed(out, &change.of(operation.value)?);
        }
        _ => put_length_prefixed(out, operation.value),
    }
    Ok(())
}

/// Moves `rest` behind the payload of a mark of a transaction; `false` if `tag` is of no mark.
fn skip_mark(tag: u8, rest: &mut &[u8]) -> Result<bool> {
    let names = match tag {
        tag::BEGIN_PREPARE | tag::BEGIN_PERSISTED_PREPARE | tag::BEGIN_UNPREPARE => 0,
        tag::END_PREPARE | tag::COMMIT | tag::ROLLBACK => 1,
        tag::COMMIT_WITH_TIMESTAMP => 2,
        _ => return Ok(false),
    };
    for _ in 0..names {
        take_length_prefixed(rest)?;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::WriteBatch;

    #[test]
    fn only_the_keys_of_changed_families_change() {
        let written = |end: &[u8]| {
            let with = |key: &str| [key.as_bytes(), end].concat();
            let mut batch = WriteBatch::new();
            batch.put_id(3, &with("k"), b"value");
            batch.delete_id(3, &with(""));
            batch.delete_range_id(3, &with("a"), &with("b"));
            batch.put_id(0, b"k", b"value");
            batch.put_log_data("data");
            batch.data().to_vec()
        };
        let (plain, dated) = (written(b""), written(&MIN_TIMESTAMP));
        let pad = BTreeMap::from([(3, KeyChange::Pad)]);
        let strip = BTreeMap::from([(3, KeyChange::Strip)]);
        assert_eq!(*with_changed_keys(&plain, &pad).unwrap(), dated);
        assert_eq!(*with_changed_keys(&dated, &strip).unwrap(), plain);
        assert!(
            with_changed_keys(&plain, &strip)
                .unwrap_err()
                .is_corruption()
        );
        let others = BTreeMap::from([(4, KeyChange::Strip)]);
        let same = with_changed_keys(&plain, &others).unwrap();
        assert!(matches!(same, Cow::Borrowed(_)));
    }

    #[test]
    fn marks_of_transactions_stay() {
        let mut batch = vec![0; HEADER_BYTES];
        let padded = |key: &[u8]| {
            let mut out = vec![0; HEADER_BYTES];
            out.extend_from_slice(&[tag::BEGIN_PREPARE, tag::VALUE]);
            put_length_prefixed(&mut out, key);
            put_length_prefixed(&mut out, b"v");
            for mark in [tag::END_PREPARE, tag::COMMIT] {
                out.push(mark);
                put_length_prefixed(&mut out, b"name");
            }
            out
        };
        let changes = BTreeMap::from([(0, KeyChange::Pad)]);
        let changed = with_changed_keys(&padded(b"k"), &changes)
            .unwrap()
            .into_owned();
        assert_eq!(changed, padded(b"k\0\0\0\0\0\0\0\0"));
        batch.push(0x7f);
        assert!(with_changed_keys(&batch, &changes).is_err());
    }
}
