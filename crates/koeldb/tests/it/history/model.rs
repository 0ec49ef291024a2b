//! The model of a history: the expected entries of column families, and the changes of batches.

use std::cmp::Ordering;
use std::collections::BTreeMap;

/// The key order of a column family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Bytewise,
    Reverse,
    /// Keys of eight bytes, little-endian.
    Uint64,
    /// Bytewise in lower case: keys of different bytes are equal.
    NoCase,
    /// Bytewise, with user-defined timestamps.
    Dated,
    /// Descending bytewise, with user-defined timestamps.
    ReverseDated,
}

impl Order {
    /// The name in the commands of `History.java`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Order::Bytewise => "bytewise",
            Order::Reverse => "reverse",
            Order::Uint64 => "uint64",
            Order::NoCase => "nocase",
            Order::Dated => "leveldb.BytewiseComparator.u64ts",
            Order::ReverseDated => "rocksdb.ReverseBytewiseComparator.u64ts",
        }
    }

    pub(super) fn compare(self, left: &[u8], right: &[u8]) -> Ordering {
        match self {
            Order::Bytewise | Order::Dated => left.cmp(right),
            Order::Reverse | Order::ReverseDated => right.cmp(left),
            Order::Uint64 => number(left).cmp(&number(right)),
            Order::NoCase => self.canonical(left).cmp(&self.canonical(right)),
        }
    }

    /// Returns the key that stands for all equal ones.
    pub(super) fn canonical(self, key: &[u8]) -> Vec<u8> {
        match self {
            Order::NoCase => key.to_ascii_lowercase(),
            _ => key.to_vec(),
        }
    }

    /// Whether an OPTIONS file is enough for RocksDB to find the comparator.
    pub(super) fn is_found_by_name(self) -> bool {
        !matches!(self, Order::Uint64 | Order::NoCase)
    }

    /// Whether keys have timestamps.
    pub(super) fn is_dated(self) -> bool {
        matches!(self, Order::Dated | Order::ReverseDated)
    }
}

fn number(key: &[u8]) -> u64 {
    u64::from_le_bytes(key.try_into().unwrap())
}

/// The merge operator of a column family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Merge {
    None,
    /// Operands joined by commas.
    Append,
    /// The sum of numbers of eight bytes.
    Add,
}

/// The table format of a column family, which decides what may be written to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    BlockBased,
    /// Plain tables without prefixes. In RocksDB they have no range deletions, are not ingested,
    /// and are scanned forward only.
    Plain,
    /// Cuckoo tables: keys of one length, values of one length, and one version of each key, so
    /// that there are neither snapshots nor operands.
    Cuckoo,
}

/// A change of one column family.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    SingleDelete(Vec<u8>),
    Merge(Vec<u8>, Vec<u8>),
    DeleteRange(Vec<u8>, Vec<u8>),
    /// A wide-column entity: columns by name, in order.
    PutEntity(Vec<u8>, Vec<(Vec<u8>, Vec<u8>)>),
}

impl Change {
    fn keys(&mut self) -> impl Iterator<Item = &mut Vec<u8>> {
        let (first, second) = match self {
            Change::Put(key, _)
            | Change::Delete(key)
            | Change::SingleDelete(key)
            | Change::Merge(key, _)
            | Change::PutEntity(key, _) => (key, None),
            Change::DeleteRange(from, to) => (from, Some(to)),
        };
        std::iter::once(first).chain(second)
    }

    /// Appends a timestamp to the keys.
    pub(super) fn date(&mut self, time: u64) {
        for key in self.keys() {
            key.extend_from_slice(&time.to_le_bytes());
        }
    }

    /// Removes the timestamp from the keys, and returns it.
    fn undate(&mut self) -> u64 {
        let times = self.keys().map(|key| number(&key.split_off(key.len() - 8)));
        times.max().unwrap()
    }
}

/// The entries of a family up to a timestamp.
#[derive(Clone, Debug)]
pub(super) struct Moment {
    pub(super) time: u64,
    entries: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// How many moments a family remembers.
const MOMENTS: usize = 2;

/// A column family in the model.
#[derive(Clone, Debug)]
pub(super) struct Family {
    pub(super) name: String,
    pub(super) id: u32,
    pub(super) order: Order,
    pub(super) merge: Merge,
    pub(super) format: Format,
    /// Constant options: compaction style, levels, merge operator.
    pub(super) fixed: String,
    /// By canonical key.
    pub(super) entries: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The columns of entities that have a name, by canonical key.
    pub(super) named: BTreeMap<Vec<u8>, Columns>,
    /// Whether `named` may not be what is stored: a scan of values does not show it.
    pub(super) are_columns_unknown: bool,
    /// The newest timestamp, where keys have them.
    pub(super) time: u64,
    /// The timestamp from which on the history is kept.
    pub(super) low: u64,
    /// Some earlier states, with rising timestamps from `low` on.
    pub(super) moments: Vec<Moment>,
}

/// Names and values of columns, by name.
pub(super) type Columns = Vec<(Vec<u8>, Vec<u8>)>;

/// The entries of a column family in the order of a scan.
pub(super) type Scan = Vec<(Vec<u8>, Vec<u8>)>;

/// The scans of all column families by name.
pub(super) type Dump = BTreeMap<String, Scan>;

impl Family {
    /// Gives up the columns that have a name, after a kill that writes may not have outlived.
    pub(super) fn forget_columns(&mut self) {
        self.named.clear();
        self.are_columns_unknown = true;
    }

    /// Raises the low mark.
    pub(super) fn raise(&mut self, low: u64) {
        self.low = low;
        self.moments.retain(|moment| moment.time >= low);
    }

    /// Remembers the present state now and then, before a change at `time`.
    fn advance(&mut self, time: u64) {
        if time / 8 > self.time / 8 && self.time >= self.low {
            self.moments.push(Moment {
                time: self.time,
                entries: self.entries.clone(),
            });
            if self.moments.len() > MOMENTS {
                self.moments.remove(0);
            }
        }
        self.time = time;
    }

    pub(super) fn apply(&mut self, change: &Change) {
        if !self.order.is_dated() {
            return self.change(change);
        }
        let mut change = change.clone();
        self.advance(change.undate());
        self.change(&change);
    }

    fn change(&mut self, change: &Change) {
        match change {
            Change::Put(key, value) => {
                let key = self.order.canonical(key);
                self.named.remove(&key);
                self.entries.insert(key, value.clone());
            }
            Change::Delete(key) | Change::SingleDelete(key) => {
                let key = self.order.canonical(key);
                self.named.remove(&key);
                self.entries.remove(&key);
            }
            Change::Merge(key, operand) => {
                let key = self.order.canonical(key);
                let merged = match (self.entries.get(&key), self.merge) {
                    (Some(base), Merge::Append) => [base, &b","[..], operand].concat(),
                    (Some(base), Merge::Add) => {
                        let sum = number(base).wrapping_add(number(operand));
                        sum.to_le_bytes().to_vec()
                    }
                    (None, _) => operand.clone(),
                    (Some(_), Merge::None) => unreachable!("a merge without an operator"),
                };
                self.entries.insert(key, merged);
            }
            Change::DeleteRange(from, to) => {
                let order = self.order;
                self.entries.retain(|key, _| {
                    order.compare(key, from).is_lt() || order.compare(key, to).is_ge()
                });
                let entries = &self.entries;
                self.named.retain(|key, _| entries.contains_key(key));
            }
            Change::PutEntity(key, columns) => {
                // Reads of plain values return the column without a name.
                let value = columns.iter().find(|(name, _)| name.is_empty());
                let value = value.map(|(_, value)| value.clone()).unwrap_or_default();
                let key = self.order.canonical(key);
                let mut named = columns.clone();
                named.retain(|(name, _)| !name.is_empty());
                self.named.insert(key.clone(), named);
                self.entries.insert(key, value);
            }
        }
    }

    /// Returns the entries in the order of a scan.
    pub(super) fn scan(&self) -> Scan {
        self.ordered(&self.entries)
    }

    /// Returns the entries of a moment in the order of a scan.
    pub(super) fn scan_of(&self, moment: &Moment) -> Scan {
        self.ordered(&moment.entries)
    }

    /// The timestamp of a read of the newest entries, where keys have timestamps.
    pub(super) fn newest(&self) -> Option<u64> {
        self.order.is_dated().then_some(u64::MAX)
    }

    fn ordered(&self, entries: &BTreeMap<Vec<u8>, Vec<u8>>) -> Scan {
        let mut entries: Scan = entries
            .iter()
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        entries.sort_by(|left, right| self.order.compare(&left.0, &right.0));
        entries
    }
}

fn put_varint32(out: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        out.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
        value >>= 7;
    }
    out.push(u8::try_from(value).unwrap());
}

fn put_slice(out: &mut Vec<u8>, slice: &[u8]) {
    put_varint32(out, u32::try_from(slice.len()).unwrap());
    out.extend_from_slice(slice);
}

/// Encodes a wide-column entity: version, number of columns, names and lengths, values.
fn entity(columns: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint32(&mut out, 1);
    put_varint32(&mut out, u32::try_from(columns.len()).unwrap());
    for (name, value) in columns {
        put_slice(&mut out, name);
        put_varint32(&mut out, u32::try_from(value.len()).unwrap());
    }
    for (_, value) in columns {
        out.extend_from_slice(value);
    }
    out
}

/// Encodes a batch in the format of the log, which both engines accept.
///
/// Each change has the id of its column family.
pub(crate) fn encode(changes: &[(u32, Change)]) -> Vec<u8> {
    let mut out = vec![0; 8];
    out.extend_from_slice(&u32::try_from(changes.len()).unwrap().to_le_bytes());
    for (family, change) in changes {
        let (plain, with_family) = match change {
            Change::Put(..) => (0x1, 0x5),
            Change::Delete(_) => (0x0, 0x4),
            Change::SingleDelete(_) => (0x7, 0x8),
            Change::Merge(..) => (0x2, 0x6),
            Change::DeleteRange(..) => (0xf, 0xe),
            Change::PutEntity(..) => (0x16, 0x17),
        };
        if *family == 0 {
            out.push(plain);
        } else {
            out.push(with_family);
            put_varint32(&mut out, *family);
        }
        match change {
            Change::Put(key, value) | Change::Merge(key, value) => {
                put_slice(&mut out, key);
                put_slice(&mut out, value);
            }
            Change::Delete(key) | Change::SingleDelete(key) => put_slice(&mut out, key),
            Change::DeleteRange(from, to) => {
                put_slice(&mut out, from);
                put_slice(&mut out, to);
            }
            Change::PutEntity(key, columns) => {
                put_slice(&mut out, key);
                put_slice(&mut out, &entity(columns));
            }
        }
    }
    out
}
