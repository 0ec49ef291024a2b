use std::collections::{BTreeMap, BTreeSet};

use koeldb_base::ErrorKind;
use koeldb_base::merge_operator::StringAppend;
use proptest::prelude::*;

use super::*;
use crate::{
    ColumnFamily, ColumnFamilyDescriptor, ColumnFamilyOptions, Columns, Db, Env, Options,
    ReadOptions, ReverseBytewiseComparator, WriteBatch,
};

type Row = BTreeMap<Vec<u8>, Vec<u8>>;
/// The columns of each key of each family.
type Model = [BTreeMap<Vec<u8>, Row>; 3];

fn options() -> Options {
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .create_missing_column_families(true)
        .set_merge_operator(StringAppend::default())
        .set_env(&Env::mem_env());
    options
}

fn open() -> (Db, [ColumnFamily; 3]) {
    let family = |name: &str| {
        let mut options = ColumnFamilyOptions::new();
        options.set_merge_operator(StringAppend::default());
        ColumnFamilyDescriptor::new(name, options)
    };
    let families = [family("b"), family("c")];
    let (db, [b, c]) = Db::open_cf(&options(), "/db", families).unwrap();
    let a = db.default_cf().clone();
    (db, [a, b, c])
}

fn row(columns: Columns<'_>) -> Row {
    columns.to_vec().into_iter().collect()
}

/// A change: the family, the key, the columns by their numbers, and whether the value is plain.
type Change = (usize, u8, BTreeSet<u8>, bool);

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let columns = proptest::collection::btree_set(0..4_u8, 0..4);
    proptest::collection::vec((0..3_usize, 0..8_u8, columns, any::<bool>()), 0..40)
}

/// Adds changes to a batch or transaction, which `put` and `delete` write to, and to the model.
fn apply(
    changes: &[Change],
    round: &str,
    model: &mut Model,
    mut put: impl FnMut(usize, &[u8], Option<&Row>),
) {
    for (at, (family, key, columns, is_plain)) in changes.iter().enumerate() {
        let key = vec![b'k', b'0' + key];
        if columns.is_empty() {
            put(*family, &key, None);
            model[*family].remove(&key);
            continue;
        }
        let name = |number: &u8| match (is_plain, number) {
            (true, _) | (_, 0) => Vec::new(),
            (_, number) => vec![b'a' + number],
        };
        let value = format!("{round}{at}").into_bytes();
        let row: Row = columns.iter().map(|n| (name(n), value.clone())).collect();
        put(*family, &key, Some(&row));
        model[*family].insert(key, row);
    }
}

/// A key with its columns: coalesced, and by family.
type Entry = (Vec<u8>, Row, Vec<(usize, Row)>);

/// The keys of all families with their columns.
fn expected(model: &Model) -> Vec<Entry> {
    let keys: BTreeSet<&Vec<u8>> = model.iter().flat_map(BTreeMap::keys).collect();
    let of = |key: &Vec<u8>| {
        let families = model.iter().enumerate();
        let rows = families.filter_map(|(at, all)| Some((at, all.get(key)?.clone())));
        let rows: Vec<(usize, Row)> = rows.collect();
        let all = rows.iter().flat_map(|(_, row)| row.clone()).collect();
        (key.clone(), all, rows)
    };
    keys.into_iter().map(of).collect()
}

/// Compares both cursors with the model, forward, backward and with turns.
fn check(
    model: &Model,
    families: &[ColumnFamily; 3],
    coalescing: &mut CoalescingCursor,
    by_group: &mut AttributeGroupCursor,
    moves: &[bool],
) {
    let expected = expected(model);
    let compare =
        |coalescing: &CoalescingCursor, by_group: &AttributeGroupCursor, at: Option<usize>| {
            let Some((key, all, groups)) = at.map(|at| &expected[at]) else {
                assert!(!coalescing.valid() && coalescing.columns().is_none());
                assert!(!by_group.valid() && by_group.attribute_groups().next().is_none());
                return;
            };
            assert_eq!(coalescing.key(), Some(&key[..]));
            assert_eq!(by_group.key(), Some(&key[..]));
            assert_eq!(row(coalescing.columns().unwrap()), *all);
            let value = all.get(&b""[..]).map(Vec::as_slice).unwrap_or_default();
            assert_eq!(coalescing.value(), Some(value));
            let found = by_group.attribute_groups();
            let found: Vec<_> = found.map(|(family, c)| (family.id(), row(c))).collect();
            let groups: Vec<_> = groups
                .iter()
                .map(|(at, row)| (families[*at].id(), row.clone()))
                .collect();
            assert_eq!(found, groups);
        };
    let mut is_at = [
        coalescing.seek_to_first().unwrap(),
        by_group.seek_to_first().unwrap(),
    ];
    for at in 0..expected.len() {
        assert_eq!(is_at, [true, true]);
        compare(coalescing, by_group, Some(at));
        is_at = [coalescing.next().unwrap(), by_group.next().unwrap()];
    }
    compare(coalescing, by_group, None);
    for start in 0..9 {
        let key = [b'k', b'0' + start];
        let before = expected.partition_point(|(other, ..)| other[..] < key[..]);
        let up_to = expected.partition_point(|(other, ..)| other[..] <= key[..]);
        let is_forward = start % 2 == 0;
        let mut at = match is_forward {
            true => Some(before).filter(|&at| at < expected.len()),
            false => up_to.checked_sub(1),
        };
        let found = match is_forward {
            true => [coalescing.seek(key).unwrap(), by_group.seek(key).unwrap()],
            false => [
                coalescing.seek_for_prev(key).unwrap(),
                by_group.seek_for_prev(key).unwrap(),
            ],
        };
        assert_eq!(found, [at.is_some(); 2]);
        compare(coalescing, by_group, at);
        for is_forward in moves {
            let Some(here) = at else { break };
            let moved = match is_forward {
                true => [coalescing.next().unwrap(), by_group.next().unwrap()],
                false => [coalescing.prev().unwrap(), by_group.prev().unwrap()],
            };
            at = match is_forward {
                true => Some(here + 1).filter(|&at| at < expected.len()),
                false => here.checked_sub(1),
            };
            assert_eq!(moved, [at.is_some(); 2]);
            compare(coalescing, by_group, at);
        }
    }
    assert_eq!(coalescing.seek_to_last().unwrap(), !expected.is_empty());
    by_group.seek_to_last().unwrap();
    compare(coalescing, by_group, expected.len().checked_sub(1));
}

fn pairs(row: &Row) -> Vec<(&[u8], &[u8])> {
    row.iter().map(|(n, v)| (&n[..], &v[..])).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn cursors_over_families_agree_with_a_model(
        stored in changes(),
        pending in changes(),
        moves in proptest::collection::vec(any::<bool>(), 0..10),
        is_flushed: bool,
    ) {
        let (db, families) = open();
        let all = families.each_ref();
        let read = ReadOptions::new();
        let mut model = Model::default();
        let mut batch = WriteBatch::new();
        apply(&stored, "stored", &mut model, |family, key, row| {
            match row {
                Some(row) => batch.put_entity_cf(all[family], key, &pairs(row)).unwrap(),
                None => batch.delete_cf(all[family], key),
            };
        });
        db.write(&batch).unwrap();
        if is_flushed {
            db.flush().unwrap();
        }
        let before = model.clone();
        let mut coalescing = db.coalescing_cursor(&all, &read).unwrap();
        let mut by_group = db.attribute_group_cursor(&all, &read).unwrap();
        let mut transaction = db.transaction();
        apply(&pending, "pending", &mut model, |family, key, row| match row {
            Some(row) => transaction.put_entity_cf(all[family], key, &pairs(row)).unwrap(),
            None => transaction.delete_cf(all[family], key).unwrap(),
        });
        check(
            &model,
            &families,
            &mut transaction.coalescing_cursor(&all, &read).unwrap(),
            &mut transaction.attribute_group_cursor(&all, &read).unwrap(),
            &moves,
        );
        transaction.commit().unwrap();
        // The cursors of before show what was before.
        check(&before, &families, &mut coalescing, &mut by_group, &moves);
        check(
            &model,
            &families,
            &mut db.coalescing_cursor(&all, &read).unwrap(),
            &mut db.attribute_group_cursor(&all, &read).unwrap(),
            &moves,
        );
        let keys: Vec<Vec<u8>> = (0..9).map(|at| vec![b'k', b'0' + at]).collect();
        let wanted: Vec<(&Vec<u8>, &[&ColumnFamily])> = keys
            .iter()
            .enumerate()
            .map(|(at, key)| (key, &all[at % 3..]))
            .collect();
        let many = db.multi_get_attribute_groups(&wanted, &read);
        for ((at, key), many) in keys.iter().enumerate().zip(many) {
            let found: Vec<_> = many.into_iter().map(Result::unwrap).collect();
            let one = db.get_attribute_groups(key, &all[at % 3..]);
            prop_assert_eq!(&found, &one.into_iter().map(Result::unwrap).collect::<Vec<_>>());
            let found: Vec<_> =
                found.into_iter().map(|c| c.map(|c| row(c.columns()))).collect();
            let expected: Vec<_> =
                model[at % 3..].iter().map(|family| family.get(key).cloned()).collect();
            prop_assert_eq!(found, expected);
        }
    }
}

#[test]
fn groups_are_written_together_or_not() {
    let (db, families) = open();
    let [a, b, _] = families.each_ref();
    let before = db.latest_sequence_number();
    let bad = [(a, &[("x", "1")][..]), (b, &[("y", "1"), ("y", "2")])];
    let error = db.put_attribute_groups("key", &bad).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let none: [(&ColumnFamily, &[(&str, &str)]); 0] = [];
    let error = db.put_attribute_groups("key", &none).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert_eq!(db.latest_sequence_number(), before);
    let good = [(a, &[("x", "1")][..]), (b, &[("y", "2")])];
    db.put_attribute_groups("key", &good).unwrap();
    let found = db.get_attribute_groups("key", &[b, a]);
    let found: Vec<_> = found
        .into_iter()
        .map(|c| row(c.unwrap().unwrap().columns()))
        .collect();
    assert_eq!(found[0][&b"y"[..]], b"2");
    assert_eq!(found[1][&b"x"[..]], b"1");
}

#[test]
fn families_of_a_cursor_have_one_order_and_one_database() {
    let (db, families) = open();
    let read = ReadOptions::new();
    let mut reverse = ColumnFamilyOptions::new();
    reverse.set_comparator(ReverseBytewiseComparator);
    let reverse = db.create_cf("reverse", &reverse).unwrap();
    let (other, _) = open();
    for families in [
        &[][..],
        &[&families[0], &reverse],
        &[&families[0], other.default_cf()],
    ] {
        let error = db.coalescing_cursor(families, &read).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let error = db.attribute_group_cursor(families, &read).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
    let error = db
        .get_attribute_groups("key", &[other.default_cf()])
        .remove(0);
    assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidArgument);
    // A failed step ends the position.
    db.put("bad", "value").unwrap();
    let mut rep = vec![0; 8];
    rep.extend_from_slice(b"\x01\0\0\0\x16\x03key\x02\x07\x00");
    db.write(&WriteBatch::from_data(rep).unwrap()).unwrap();
    let mut cursor = db.coalescing_cursor(&families.each_ref(), &read).unwrap();
    assert!(cursor.seek_to_first().unwrap());
    for _ in 0..2 {
        assert_eq!(cursor.next().unwrap_err().kind(), ErrorKind::Corruption);
        assert!(!cursor.valid() && cursor.status().is_err());
    }
    assert!(cursor.seek("bad").unwrap());
}
