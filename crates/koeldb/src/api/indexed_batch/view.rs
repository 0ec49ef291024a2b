//! An immutable, sorted view of the operations of a batch on one column family.

use koeldb_base::KeyOrder;
use koeldb_base::timestamp::split;

use super::index::{Index, NONE};
use crate::batch::{BatchEntry, entry_at};

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

/// Removes the user-defined timestamp from the key of an operation.
fn bare(entry: BatchEntry<'_>) -> BatchEntry<'_> {
    let mut entry = entry;
    match &mut entry {
        BatchEntry::Put { key, .. }
        | BatchEntry::PutEntity { key, .. }
        | BatchEntry::Delete { key, .. }
        | BatchEntry::SingleDelete { key, .. }
        | BatchEntry::Merge { key, .. } => *key = split(key).0,
        BatchEntry::DeleteRange { from, to, .. } => {
            (*from, *to) = (split(from).0, split(to).0);
        }
        BatchEntry::LogData(_) => {}
    }
    entry
}

/// Returns the key of an operation; the start of the range for a range deletion.
pub(super) fn key_of<'a>(entry: &BatchEntry<'a>) -> &'a [u8] {
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

/// A sorted copy of a batch's operations on one column family, those of each key newest first.
#[derive(Debug)]
pub(super) struct View {
    /// The size of the batch in bytes when the view was created.
    pub(super) batch_bytes: usize,
    /// Whether keys end with user-defined timestamps, which the view leaves out.
    has_timestamps: bool,
    rep: Vec<u8>,
    /// The offsets of the records, grouped by key.
    offsets: Vec<usize>,
    /// For each key, the index of its first offset, and at the end the number of offsets.
    keys: Vec<usize>,
}

impl View {
    /// Creates the view of column family `cf`: copies and sorts its operations.
    ///
    /// `order` compares keys without user-defined timestamps.
    pub(super) fn new(
        rep: &[u8],
        index: &Index,
        cf: u32,
        order: &KeyOrder,
        has_timestamps: bool,
    ) -> Self {
        let operations = index.operations();
        let mut newest: Vec<(u32, &[u8])> = index
            .keys()
            .filter_map(|number| {
                let entry = entry_at(rep, operations[number as usize].offset)?;
                (entry.family() == Some(cf)).then(|| (number, bare_key(&entry, has_timestamps)))
            })
            .collect();
        newest.sort_unstable_by(|(_, a), (_, b)| order.compare(a, b));
        let mut offsets = Vec::with_capacity(newest.len());
        let mut keys = Vec::with_capacity(newest.len() + 1);
        for (mut number, _) in newest {
            keys.push(offsets.len());
            while number != NONE {
                let operation = operations[number as usize];
                offsets.push(operation.offset);
                number = operation.previous;
            }
        }
        keys.push(offsets.len());
        View {
            batch_bytes: rep.len(),
            has_timestamps,
            rep: rep.to_vec(),
            offsets,
            keys,
        }
    }

    /// The number of distinct keys in the view.
    pub(super) fn len(&self) -> usize {
        self.keys.len() - 1
    }

    /// The operations on the key at `index`, newest first.
    pub(super) fn operations(&self, index: usize) -> impl Iterator<Item = BatchEntry<'_>> {
        let offsets = &self.offsets[self.keys[index]..self.keys[index + 1]];
        offsets
            .iter()
            .filter_map(|&offset| entry_at(&self.rep, offset))
            .map(|entry| match self.has_timestamps {
                true => bare(entry),
                false => entry,
            })
    }

    /// Returns the key at position `index` in key order.
    pub(super) fn key(&self, index: usize) -> &[u8] {
        let entry = entry_at(&self.rep, self.offsets[self.keys[index]]);
        entry.map_or(&[], |entry| bare_key(&entry, self.has_timestamps))
    }

    /// Returns the combined effect of the operations on the key at position `index`.
    pub(super) fn effect(&self, index: usize) -> Effect<'_> {
        effect(self.operations(index))
    }

    /// The position of the first key at or after `key` in key order.
    pub(super) fn lower_bound(&self, order: &KeyOrder, key: &[u8]) -> usize {
        self.partition_point(|other| order.compare(other, key).is_lt())
    }

    /// The position of the first key, in key order, for which `is_before` does not hold.
    pub(super) fn partition_point(&self, is_before: impl Fn(&[u8]) -> bool) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match is_before(self.key(middle)) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }
}
