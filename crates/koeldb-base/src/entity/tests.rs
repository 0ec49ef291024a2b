use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::error::ErrorKind;
use crate::merge_operator::Merger;

fn entity(bytes: &[u8]) -> PinnedSlice {
    PinnedSlice::copy_of(bytes)
}

#[test]
fn the_default_column_is_found_in_an_entity() {
    let default = |bytes: &[u8]| Merger::default().default_column(b"key", &entity(bytes));
    let whole = default(b"\x01\x02\x00\x02\x01a\x03vvxyz");
    assert_eq!(&whole.unwrap()[..], b"vv");
    let without = default(b"\x01\x01\x01a\x03xyz");
    assert_eq!(&without.unwrap()[..], b"");
    assert!(default(b"\x01\x01\x00\x09vv").is_err());
    assert!(default(b"\x01\x02\x01b\x00\x01a\x00").is_err());
}

#[test]
fn a_new_default_column_leaves_the_others_alone() {
    let with = b"\x01\x03\x00\x02\x01a\x03\x01b\x01vvxyz!";
    let changed = with_default_column(with, b"longer").unwrap();
    assert_eq!(changed, b"\x01\x03\x00\x06\x01a\x03\x01b\x01longerxyz!");
    let without = b"\x01\x01\x01a\x03xyz";
    let added = with_default_column(without, b"new").unwrap();
    assert_eq!(added, b"\x01\x02\x00\x03\x01a\x03newxyz");
    assert_eq!(
        with_default_column(b"\x01\x00", b"").unwrap(),
        b"\x01\x01\x00\x00"
    );
}

#[test]
fn columns_are_sorted_and_a_name_occurs_once() {
    let columns = [("b", "2"), ("", "0"), ("a", "1")];
    let encoded = encode(&columns).unwrap();
    assert_eq!(encoded, b"\x01\x03\x00\x01\x01a\x01\x01b\x01012");
    let columns = Columns::of_entity(&encoded).unwrap();
    assert_eq!(columns.len(), 3);
    assert_eq!(columns.default_value(), b"0");
    assert_eq!(
        (columns.get("b"), columns.get("c")),
        (Some(&b"2"[..]), None)
    );
    let error = encode(&[("a", "1"), ("b", "2"), ("a", "3")]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(encode(&[] as &[(&str, &str)]).unwrap() == b"\x01\x00");
}

#[test]
fn version_two_has_references() {
    let columns = [
        (&b""[..], ColumnValue::Inline(b"vv")),
        (b"a", ColumnValue::BlobIndex(b"index")),
        (b"bc", ColumnValue::Inline(b"!")),
    ];
    let encoded = encode_with_references(&columns).unwrap();
    assert_eq!(
        encoded,
        b"\x02\x03\x03\x03\x03\x01\x11\x01\x00\x01\x02\x02\x05\x01abcvvindex!"
    );
    let decoded = Entity::decode(&encoded).unwrap();
    assert!(decoded.has_blob_indexes());
    assert!(decoded.stored_columns().eq(columns));
    // The default column can be read; all of the columns cannot.
    let default = Merger::default().default_column(b"key", &entity(&encoded));
    assert_eq!(&default.unwrap()[..], b"vv");
    let error = Columns::of_entity(&encoded).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported);
    // A new default column keeps the references.
    let changed = with_default_column(&encoded, b"new").unwrap();
    let mut expected = columns;
    expected[0].1 = ColumnValue::Inline(b"new");
    assert!(
        Entity::decode(&changed)
            .unwrap()
            .stored_columns()
            .eq(expected)
    );
    // With all values it is one of version 1.
    let mut fetch = |index: &[u8]| {
        assert_eq!(index, b"index");
        Ok(entity(b"a value"))
    };
    let whole = with_values(&encoded, &mut fetch).unwrap();
    assert_eq!(
        whole,
        encode(&[("", "vv"), ("a", "a value"), ("bc", "!")]).unwrap()
    );
    // Without references, it reads like one of version 1.
    let inline = encode_with_references(&[(b"a", ColumnValue::Inline(b"xyz"))]).unwrap();
    assert_eq!(
        with_default_column(&inline, b"new").unwrap(),
        b"\x01\x02\x00\x03\x01a\x03newxyz"
    );
    assert!(
        Columns::of_entity(b"\x02\x00\x00\x00\x00")
            .unwrap()
            .is_empty()
    );
}

#[test]
fn a_malformed_entity_is_corruption() {
    let bad: &[&[u8]] = &[
        b"",
        b"\x00\x00",
        b"\x03\x00",
        b"\x01",
        b"\x01\x00x",
        b"\x01\xff\xff\xff\xff\x0f",
        b"\x01\x01\x01a\xff\xff\xff\xff\x0f",
        b"\x02\x00",
        b"\x02\x00\x00\x00\x00x",
        b"\x02\xff\xff\xff\xff\x0f\x00\x00\x00",
        // A type that is none, names behind the last column, two equal names, an empty index.
        b"\x02\x01\x01\x01\x01\x02\x01\x01av",
        b"\x02\x01\x01\x01\x02\x01\x01\x01abv",
        b"\x02\x02\x02\x02\x02\x01\x01\x01\x01\x01\x01aavv",
        b"\x02\x01\x01\x01\x01\x11\x01\x00a",
    ];
    for bytes in bad {
        let error = Entity::decode(bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{bytes:?}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_an_entity_or_corruption(bytes: Vec<u8>, version in 0_u8..4) {
        for bytes in [bytes.clone(), [&[version][..], &bytes].concat()] {
            match Entity::decode(&bytes) {
                Ok(decoded) => prop_assert_eq!(
                    decoded.stored_columns().count(),
                    decoded.column_count() as usize
                ),
                Err(error) => prop_assert_eq!(error.kind(), ErrorKind::Corruption),
            }
        }
    }

    #[test]
    fn columns_come_back_from_both_versions(
        columns: BTreeMap<Vec<u8>, (Vec<u8>, bool)>,
        cut in 0_usize..200,
        flip in 0_usize..2000,
    ) {
        let inline: Vec<(&[u8], &[u8])> =
            columns.iter().map(|(name, (value, _))| (&name[..], &value[..])).collect();
        let one = encode(&inline).unwrap();
        prop_assert!(Columns::of_entity(&one).unwrap().iter().eq(inline.iter().copied()));
        let stored: Vec<(&[u8], ColumnValue<'_>)> = columns
            .iter()
            .map(|(name, (value, is_index))| {
                let value = &value[..];
                (&name[..], match *is_index && !value.is_empty() {
                    true => ColumnValue::BlobIndex(value),
                    false => ColumnValue::Inline(value),
                })
            })
            .collect();
        let two = encode_with_references(&stored).unwrap();
        prop_assert!(Entity::decode(&two).unwrap().stored_columns().eq(stored.iter().copied()));
        for mut bytes in [one, two] {
            if cut < bytes.len() {
                prop_assert!(Entity::decode(&bytes[..cut]).is_err());
            }
            if let Some(byte) = bytes.get_mut(flip / 8) {
                *byte ^= 1 << (flip % 8);
                let _ = Entity::decode(&bytes).map(|entity| entity.stored_columns().count());
            }
        }
    }
}
