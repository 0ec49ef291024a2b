//! Draws column families, keys, values and changes.

use std::fmt::Write as _;

use koeldb_testkit::random::mix;

use super::model::{Change, Family, Format, Merge, Order};
use super::{History, options};

impl History<'_> {
    pub(super) fn draw_family(&mut self, name: &str, id: u32) -> Family {
        let has_formats = self.fixed.contains(options::FORMATS);
        let format = match self.random.below(6) {
            0 if has_formats => Format::Plain,
            // Its tables have one version of each key.
            1 if has_formats && self.snapshots.is_empty() => Format::Cuckoo,
            _ => Format::BlockBased,
        };
        let order = match self.random.below(8) {
            _ if format == Format::Cuckoo => Order::Bytewise,
            0..4 => Order::Bytewise,
            // RocksDB does not find these comparators by their names in an OPTIONS file.
            6 if !self.latest.as_written => Order::Uint64,
            7 if !self.latest.as_written && format == Format::BlockBased => Order::NoCase,
            _ => Order::Reverse,
        };
        let is_dated = format == Format::BlockBased && self.dates.chance(1, 4);
        let order = match order {
            Order::Bytewise if is_dated => Order::Dated,
            Order::Reverse if is_dated => Order::ReverseDated,
            other => other,
        };
        let merge = match self.random.below(4) {
            _ if format == Format::Cuckoo => Merge::None,
            0 => Merge::None,
            1 | 2 => Merge::Append,
            _ => Merge::Add,
        };
        let operator = match merge {
            Merge::None => "",
            Merge::Append => "merge_operator=stringappend;",
            Merge::Add => "merge_operator=uint64add;",
        };
        Family {
            name: name.to_owned(),
            id,
            order,
            merge,
            format,
            fixed: format!(
                "{operator}{}",
                options::style(&mut self.random, self.has_paths)
            ),
            entries: Default::default(),
            named: Default::default(),
            are_columns_unknown: false,
            time: 0,
            low: 0,
            moments: Vec::new(),
        }
    }

    pub(super) fn family_text(&mut self, family: &Family) -> String {
        let drawn = options::family(&mut self.random, family);
        // RocksDB compares the key of a lookup with that of the record bytewise. Its compactions set
        // timestamps before the low mark to zero, after which those of the records are others.
        let has_blobs = self.has_blobs && family.order != Order::NoCase && !family.order.is_dated();
        let blobs = match has_blobs {
            true => options::blobs(&mut self.random),
            false => String::new(),
        };
        format!("{drawn}{blobs}{}", family.fixed)
    }

    pub(super) fn key(&mut self, order: Order, format: Format) -> Vec<u8> {
        let number = self.random.below(160);
        match order {
            Order::Uint64 => return number.to_le_bytes().to_vec(),
            Order::NoCase if self.random.chance(1, 2) => {
                return format!("K{:02}/{:03}", number / 20, number).into_bytes();
            }
            _ => {}
        }
        match format {
            // RocksDB hashes the first eight bytes, whether they are there or not.
            Format::Cuckoo => format!("k{:02}/{:04}", number / 20, number).into_bytes(),
            // Some keys are prefixes of others, or shorter than the prefix extractors require.
            _ if number.is_multiple_of(40) => format!("k{}", number / 40).into_bytes(),
            _ => format!("k{:02}/{:03}", number / 20, number).into_bytes(),
        }
    }

    /// Returns a key that is only put once and then singly deleted.
    pub(super) fn single_key(&mut self, order: Order) -> Vec<u8> {
        let number = self.random.below(12);
        match order {
            Order::Uint64 => (1_000_000 + number).to_le_bytes().to_vec(),
            Order::NoCase if self.random.chance(1, 2) => format!("SINGLE{number}").into_bytes(),
            _ => format!("single{number}").into_bytes(),
        }
    }

    pub(super) fn value(&mut self, merge: Merge, format: Format) -> Vec<u8> {
        if format == Format::Cuckoo {
            return format!("v{:023}", self.random.draw()).into_bytes();
        }
        if merge == Merge::Add {
            return self.random.below(1_000_000).to_le_bytes().to_vec();
        }
        let length = match self.random.below(20) {
            0 => 0,
            1 => 3000 + self.random.below(6000),
            2..8 => 200 + self.random.below(600),
            _ => self.random.below(60),
        };
        let word = self.random.draw().to_le_bytes();
        let is_plain = self.random.chance(1, 2);
        let mut value = format!("v{}:", self.random.below(1000)).into_bytes();
        for at in 0..length {
            value.push(match is_plain {
                true => word[usize::try_from(at % 8).unwrap()],
                false => mix(at ^ u64::from_le_bytes(word)).to_le_bytes()[0],
            });
        }
        value
    }

    pub(super) fn change(&mut self, family: usize) -> Change {
        let Family {
            order,
            merge,
            format,
            ..
        } = self.families[family];
        let kind = self.random.below(100);
        match (format, kind) {
            // Entities have no timestamps. RocksDB's compactions drop operands under a range deletion
            // of a later timestamp.
            (_, 84..96) if order.is_dated() && (kind >= 92 || merge != Merge::None) => {
                return Change::Put(self.key(order, format), self.value(merge, format));
            }
            (Format::Cuckoo, 50..62) => return Change::Delete(self.key(order, format)),
            (Format::Cuckoo, _) | (Format::Plain, 84..92) => {
                return Change::Put(self.key(order, format), self.value(merge, format));
            }
            _ => {}
        }
        match kind {
            0..50 => Change::Put(self.key(order, format), self.value(merge, format)),
            50..62 => Change::Delete(self.key(order, format)),
            62..70 => {
                let key = self.single_key(order);
                let known = order.canonical(&key);
                match self.families[family].entries.contains_key(&known) {
                    true => Change::SingleDelete(key),
                    false => Change::Put(key, self.value(merge, format)),
                }
            }
            70..84 if merge != Merge::None => {
                let operand = match merge {
                    Merge::Add => self.value(merge, format),
                    _ => format!("m{}", self.random.below(1000)).into_bytes(),
                };
                Change::Merge(self.key(order, format), operand)
            }
            84..92 => {
                let (mut from, mut to) = (self.key(order, format), self.key(order, format));
                if order.compare(&from, &to).is_gt() {
                    std::mem::swap(&mut from, &mut to);
                }
                Change::DeleteRange(from, to)
            }
            92..96 => {
                let mut columns = vec![(Vec::new(), self.value(merge, format))];
                for name in ["color", "song"] {
                    if self.random.chance(2, 3) {
                        columns.push((name.into(), self.value(Merge::None, format)));
                    }
                }
                Change::PutEntity(self.key(order, format), columns)
            }
            _ => Change::Put(self.key(order, format), self.value(merge, format)),
        }
    }

    /// Draws the changes of a batch and applies them to the model.
    pub(super) fn batch(&mut self) -> Vec<(u32, Change)> {
        let is_burst = self.random.chance(1, 8);
        let count = match is_burst {
            true => 40 + self.random.below(60),
            false => 1 + self.random.below(6),
        };
        self.time += self.dates.below(3);
        let only = self.random.index(self.families.len());
        let mut changes = Vec::new();
        for _ in 0..count {
            let family = match self.random.chance(2, 3) {
                true => only,
                false => self.random.index(self.families.len()),
            };
            let mut change = self.change(family);
            if self.families[family].order.is_dated() {
                change.date(self.time);
            }
            self.families[family].apply(&change);
            changes.push((self.families[family].id, change));
        }
        changes
    }
}

pub(super) fn show_bound(key: &Option<Vec<u8>>) -> String {
    key.as_ref()
        .map_or("-".to_owned(), |key| key.escape_ascii().to_string())
}

pub(super) fn show(changes: &[(u32, Change)]) -> String {
    let mut text = String::new();
    for (family, change) in changes {
        let _ = match change {
            Change::Put(key, value) => {
                write!(text, "{family}:put {} {};", key.escape_ascii(), value.len())
            }
            Change::Delete(key) => write!(text, "{family}:delete {};", key.escape_ascii()),
            Change::SingleDelete(key) => {
                write!(text, "{family}:single_delete {};", key.escape_ascii())
            }
            Change::Merge(key, _) => write!(text, "{family}:merge {};", key.escape_ascii()),
            Change::DeleteRange(from, to) => write!(
                text,
                "{family}:delete_range {}..{};",
                from.escape_ascii(),
                to.escape_ascii()
            ),
            Change::PutEntity(key, _) => write!(text, "{family}:entity {};", key.escape_ascii()),
        };
    }
    text
}
