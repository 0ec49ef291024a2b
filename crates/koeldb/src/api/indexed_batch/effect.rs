//! The combined effect of the operations of a batch on one key.

use koeldb_base::timestamp::split;

use crate::batch::BatchEntry;

/// The combined effect of a batch on one key: a value, a deletion, or merge operands.
#[derive(Debug)]
pub(super) enum Effect<'a> {
    Value(&'a [u8]),
    /// A wide-column entity.
    Entity(&'a [u8]),
    Deleted,
    /// Merge operands, newest first, and the value below them, as far as the batch decides it.
    Operands(Vec<&'a [u8]>, Base<'a>),
}

/// The base value for the merge operands of a batch on one key.
#[derive(Clone, Copy, Debug)]
pub(super) enum Base<'a> {
    /// The value in the database.
    Unknown,
    Value(&'a [u8]),
    /// A wide-column entity, whose default column the operands change.
    Entity(&'a [u8]),
    /// No value: the batch deletes the key.
    None,
}

/// Combines the operations on one key, given newest first, into their effect on its value.
pub(super) fn effect<'a>(newest_first: impl Iterator<Item = BatchEntry<'a>>) -> Effect<'a> {
    let mut operands = Vec::new();
    let mut base = Base::Unknown;
    for entry in newest_first {
        base = match entry {
            BatchEntry::Merge { operand, .. } => {
                operands.push(operand);
                continue;
            }
            BatchEntry::Put { value, .. } => Base::Value(value),
            BatchEntry::PutEntity { entity, .. } => Base::Entity(entity),
            _ => Base::None,
        };
        break;
    }
    match base {
        _ if !operands.is_empty() => Effect::Operands(operands, base),
        Base::Value(value) => Effect::Value(value),
        Base::Entity(entity) => Effect::Entity(entity),
        Base::None | Base::Unknown => Effect::Deleted,
    }
}

/// Returns the key of an operation without its user-defined timestamp, if keys have one.
pub(super) fn bare_key<'a>(entry: &BatchEntry<'a>, has_timestamps: bool) -> &'a [u8] {
    let key = key_of(entry);
    match has_timestamps {
        true => split(key).0,
        false => key,
    }
}

/// Returns the key of an operation; the start of the range for a range deletion.
fn key_of<'a>(entry: &BatchEntry<'a>) -> &'a [u8] {
    match *entry {
        BatchEntry::Put { key, .. }
        | BatchEntry::PutEntity { key, .. }
        | BatchEntry::Delete { key, .. }
        | BatchEntry::SingleDelete { key, .. }
        | BatchEntry::Merge { key, .. } => key,
        BatchEntry::DeleteRange { from, .. } => from,
        BatchEntry::LogData(note) => note,
    }
}
