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
}

impl Order {
    /// The name in the commands of `History.java`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Order::Bytewise => "bytewise",
            Order::Reverse => "reverse",
            Order::Uint64 => "uint64",
            Order::NoCase => "nocase",
        }
    }

    pub(super) fn compare(self, left: &[u8], right: &[u8]) -> Ordering {
        match self {
            Order::Bytewise => left.cmp(right),
            Order::Reverse => right.cmp(left),
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

    pub(super) fn apply(&mut self, change: &Change) {
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
        let mut entries: Scan = self
            .entries
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
