//! The search order of the tables of a column family.
//!
//! A read uses the first version of a key that it finds, so for any two tables that share keys, all
//! versions in the one searched first must be newer. Two facts guarantee that:
//!
//! - A readable MANIFEST names the levels of both tables: the tree was searched by levels.
//! - The sequence numbers of one table are all larger than those of the other.
//!
//! Tables for which neither holds are *tangled*. A deeper level may have newer entries of some keys
//! than a higher level has of others, so the largest sequence number alone is not sufficient.
//! Tangled tables are merged into new ones ([`super::merge`]).

use std::collections::BTreeMap;

use koeldb_base::file_name::FileNumber;
use koeldb_base::{KeyOrder, Result, SeqNo};

use super::tables::FoundTable;

/// The placement of a column family's tables: level 0 by age, and deeper levels.
#[derive(Debug, Default)]
pub(super) struct Arrangement {
    /// Tables of level 0, the oldest first.
    pub(super) level0: Vec<FoundTable>,
    /// Tables of deeper levels.
    pub(super) deeper: Vec<(usize, FoundTable)>,
}

impl Arrangement {
    /// Returns all tables with their levels, ordered so that older versions of a key come first.
    pub(super) fn oldest_first(self) -> impl Iterator<Item = (usize, FoundTable)> {
        let mut deeper = self.deeper;
        deeper.sort_by_key(|(level, table)| (std::cmp::Reverse(*level), table.file.number));
        let level0 = self.level0.into_iter().map(|table| (0, table));
        deeper.into_iter().chain(level0)
    }
}

/// Places `tables` on levels so that reads find the newest version of every key first.
///
/// `levels` are those in a MANIFEST; `merge` replaces tangled tables by ones that share no keys.
pub(super) fn arrange(
    order: &KeyOrder,
    tables: Vec<FoundTable>,
    levels: &BTreeMap<FileNumber, usize>,
    mut merge: impl FnMut(Vec<FoundTable>) -> Result<Vec<FoundTable>>,
) -> Result<Arrangement> {
    let (placed, mut others): (Vec<_>, Vec<_>) = tables
        .into_iter()
        .partition(|table| table.is_recorded && levels.contains_key(&table.file.number));
    let mut arrangement = Arrangement::default();
    let is_on_top = |other: &FoundTable| {
        let (other, mut placed) = (Extent::of(other), placed.iter().map(Extent::of));
        placed.all(|below| below.is_older(&other) || !below.shares_keys(&other, order))
    };
    if others.iter().all(is_on_top) {
        for table in placed {
            match levels.get(&table.file.number) {
                Some(0) | None => arrangement.level0.push(table),
                Some(&level) => arrangement.deeper.push((level, table)),
            }
        }
        arrangement
            .level0
            .sort_by_key(|table| (table.file.epoch, age(table)));
    } else {
        others.extend(placed);
    }
    let mut untangled = Vec::new();
    for cluster in interleaving_groups(order, others) {
        match cluster.len() {
            1 => untangled.extend(cluster),
            _ => untangled.extend(merge(cluster)?),
        }
    }
    untangled.sort_by_key(age);
    arrangement.level0.extend(untangled);
    Ok(arrangement)
}

/// Returns the sort key by which tables of disjoint sequence numbers are ordered by age.
fn age(table: &FoundTable) -> (SeqNo, SeqNo, FileNumber) {
    let file = &table.file;
    (file.largest_seqno, file.smallest_seqno, file.number)
}

/// The key range and sequence number range of a table or of a group of tables.
#[derive(Clone, Debug)]
struct Extent {
    first_key: Vec<u8>,
    last_key: Vec<u8>,
    first_seqno: SeqNo,
    last_seqno: SeqNo,
}

impl Extent {
    /// Returns the key range and sequence number range of a table.
    fn of(table: &FoundTable) -> Self {
        let file = &table.file;
        Extent {
            first_key: file.smallest_user_key().to_vec(),
            last_key: file.largest_user_key().to_vec(),
            first_seqno: file.smallest_seqno,
            last_seqno: file.largest_seqno,
        }
    }

    /// Whether the key ranges overlap.
    fn shares_keys(&self, other: &Extent, order: &KeyOrder) -> bool {
        order.compare(&self.first_key, &other.last_key).is_le()
            && order.compare(&other.first_key, &self.last_key).is_le()
    }

    /// Whether all sequence numbers of this range are below those of `other`.
    fn is_older(&self, other: &Extent) -> bool {
        self.last_seqno < other.first_seqno
    }

    /// Whether both the key ranges and the sequence number ranges overlap.
    fn interleaves(&self, other: &Extent, order: &KeyOrder) -> bool {
        !self.is_older(other) && !other.is_older(self) && self.shares_keys(other, order)
    }

    /// Extends both ranges to cover those of `other`.
    fn include(&mut self, other: Extent, order: &KeyOrder) {
        if order.compare(&other.first_key, &self.first_key).is_lt() {
            self.first_key = other.first_key;
        }
        if order.compare(&other.last_key, &self.last_key).is_gt() {
            self.last_key = other.last_key;
        }
        self.first_seqno = self.first_seqno.min(other.first_seqno);
        self.last_seqno = self.last_seqno.max(other.last_seqno);
    }
}

/// Partitions tables into groups that must be merged: overlapping in keys and sequence numbers.
///
/// The merged table of a group interleaves with no other group, either.
fn interleaving_groups(order: &KeyOrder, tables: Vec<FoundTable>) -> Vec<Vec<FoundTable>> {
    let mut done: Vec<(Extent, Vec<FoundTable>)> = Vec::new();
    for table in tables {
        let mut extent = Extent::of(&table);
        let mut members = vec![table];
        // A group that grows may become tangled with one that it was not tangled with before.
        while let Some(at) = done
            .iter()
            .position(|(other, _)| other.interleaves(&extent, order))
        {
            let (other, others) = done.swap_remove(at);
            extent.include(other, order);
            members.extend(others);
        }
        done.push((extent, members));
    }
    done.into_iter().map(|(_, members)| members).collect()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use koeldb_base::ValueType;
    use koeldb_base::key::encode;
    use koeldb_lsm::FileMeta;

    use super::*;

    fn table(number: FileNumber, keys: (&str, &str), seqnos: (SeqNo, SeqNo)) -> FoundTable {
        let bound = |key: &str| encode(key.as_bytes(), seqnos.1, ValueType::Value);
        let mut file = FileMeta::new(number, 1, bound(keys.0), bound(keys.1));
        (file.smallest_seqno, file.largest_seqno) = seqnos;
        FoundTable {
            path: PathBuf::new(),
            family: None,
            family_name: String::new(),
            order: KeyOrder::Bytewise,
            file,
            entries: 1,
            flushed: Some(seqnos.1),
            is_recorded: true,
            newest_blob_file: 0,
        }
    }

    /// The tables by number, the oldest first, as `level:number`; merged ones are joined by `+`.
    fn arranged(tables: Vec<FoundTable>, levels: &[(FileNumber, usize)]) -> String {
        let mut groups = Vec::new();
        let levels = levels.iter().copied().collect();
        let merge = |mut tangled: Vec<FoundTable>| {
            tangled.sort_by_key(|table| table.file.number);
            let numbers = tangled.iter().map(|table| table.file.number.to_string());
            groups.push(numbers.collect::<Vec<_>>().join("+"));
            let group = 1000 + groups.len() as u64 - 1;
            let last = tangled.iter().map(|table| table.file.largest_seqno).max();
            Ok(vec![table(group, ("a", "z"), (0, last.unwrap_or(0)))])
        };
        let arrangement = arrange(&KeyOrder::Bytewise, tables, &levels, merge).unwrap();
        let name = |number: FileNumber| match number.checked_sub(1000) {
            Some(group) => groups[usize::try_from(group).unwrap()].clone(),
            None => number.to_string(),
        };
        let tables = arrangement.oldest_first();
        let names = tables.map(|(level, table)| format!("{level}:{}", name(table.file.number)));
        names.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn only_levels_or_disjoint_sequence_numbers_make_an_order() {
        let old_level = || table(1, ("k", "y"), (1, 9));
        let new_level = || table(2, ("k", "k"), (5, 5));
        let newest = || table(3, ("a", "z"), (10, 12));
        let elsewhere = || table(4, ("m", "n"), (2, 6));
        let all = || vec![newest(), new_level(), old_level()];
        assert_eq!(arranged(all(), &[]), "0:1+2 0:3");
        assert_eq!(arranged(all(), &[(1, 2), (2, 1)]), "2:1 1:2 0:3");
        assert_eq!(arranged(all(), &[(1, 2), (2, 1), (3, 0)]), "2:1 1:2 0:3");
        // One of them is not in the MANIFEST and older than some of what is.
        assert_eq!(arranged(all(), &[(1, 2), (3, 0)]), "0:1+2 0:3");
        // Tables without common keys are never tangled.
        assert_eq!(arranged(vec![new_level(), elsewhere()], &[]), "0:2 0:4");
    }

    #[test]
    fn a_merged_table_is_tangled_with_no_other() {
        let tables = vec![
            table(1, ("a", "f"), (1, 5)),
            table(2, ("p", "z"), (4, 8)),
            table(3, ("g", "h"), (7, 9)),
            // Shares keys with the first two alone; what they become shares keys with the third.
            table(4, ("e", "q"), (3, 4)),
            table(5, ("b", "c"), (20, 30)),
        ];
        assert_eq!(arranged(tables, &[]), "0:1+2+3+4 0:5");
    }
}
