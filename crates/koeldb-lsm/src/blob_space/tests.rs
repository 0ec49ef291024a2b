use koeldb_base::key::encode;
use koeldb_base::{KeyOrder, ValueType};

use super::*;
use crate::version::{BlobFileMeta, Level};

/// A table whose references are those given: file and number, of 100 bytes each.
fn table(number: u64, references: Option<&[(u64, u64)]>) -> Arc<FileMeta> {
    let key = |name: &str| encode(name.as_bytes(), number, ValueType::BlobIndex);
    let name = format!("{number:03}");
    let mut file = FileMeta::new(number, 1000, key(&name), key(&format!("{name}z")));
    file.epoch = number;
    file.oldest_blob_file = references.map_or(10, |list| list.first().map_or(0, |one| one.0));
    let mut properties = TableProperties::default();
    if let Some(list) = references.filter(|list| !list.is_empty()) {
        properties.set_user(names::BLOB_REFERENCES, property(list));
    }
    file.record_references(&properties);
    Arc::new(file)
}

fn property(list: &[(u64, u64)]) -> Vec<u8> {
    let list = list.iter().map(|&(file, count)| FileReferences {
        file,
        count,
        bytes: count * 100,
    });
    references::encode(&list.collect::<Vec<_>>()).unwrap()
}

/// A version with these tables, and blob files with a number of records and of garbage.
fn version(tables: &[Arc<FileMeta>], files: &[(u64, u64, u64)]) -> Version {
    let mut levels = vec![Level::default(); 3];
    levels[2].files = tables.to_vec();
    let mut version = Version::new(KeyOrder::Bytewise, levels);
    for &(number, count, garbage) in files {
        let file = BlobFileMeta::of_equal_records(number, count, garbage, 100);
        version.blob_files.insert(number, file);
    }
    version
}

fn garbage(number: u64, count: u64) -> BlobGarbage {
    BlobGarbage {
        number,
        count,
        bytes: count * 100,
    }
}

#[test]
fn the_lists_of_all_tables_tell_what_is_live() {
    let tables = [
        table(1, Some(&[(10, 4), (11, 1)])),
        table(2, Some(&[(11, 5)])),
        table(3, Some(&[])),
    ];
    let version = version(&tables, &[(10, 10, 6), (11, 8, 0), (12, 3, 0)]);
    let space = version.blob_space();
    assert!(space.is_exact());
    let file = space.files[&11];
    assert_eq!((file.listed, file.tables, file.table_bytes), (6, 2, 2000));
    assert_eq!((space.bytes(), space.live_bytes()), (2100, 1500));
    let missing = version.unrecorded_garbage();
    assert_eq!(missing, [garbage(11, 2), garbage(12, 3)]);
}

#[test]
fn one_opaque_table_leaves_everything_in_doubt() {
    let tables = [table(1, Some(&[(10, 4)])), table(2, None)];
    let version = version(&tables, &[(10, 10, 0)]);
    let space = version.blob_space();
    assert_eq!((space.is_exact(), space.opaque_tables), (false, 1));
    assert!(version.unrecorded_garbage().is_empty());
    assert_eq!(tables[1].references(), References::Opaque);
}

#[test]
fn lists_that_contradict_the_version_are_not_used() {
    // More references than records; a file that does not exist.
    for (list, files) in [
        (&[(10, 4)][..], &[(10, 5, 2)][..]),
        (&[(10, 4), (13, 1)], &[(10, 5, 0)]),
    ] {
        let tables = [table(1, Some(list))];
        let version = version(&tables, files);
        assert!(!version.blob_space().is_exact());
        assert!(version.unrecorded_garbage().is_empty());
    }
    // Another oldest file than in the MANIFEST, and damage.
    let mut file = FileMeta::new(1, 1000, Vec::new(), Vec::new());
    file.oldest_blob_file = 9;
    let mut properties = TableProperties::default();
    properties.set_user(names::BLOB_REFERENCES, property(&[(10, 1)]));
    file.record_references(&properties);
    assert_eq!(file.references(), References::Opaque);
    file.blob_references.take();
    assert_eq!(file.references(), References::Unknown);
    properties.set_user(names::BLOB_REFERENCES, *b"damaged");
    file.record_references(&properties);
    assert_eq!(file.references(), References::Opaque);
}

#[test]
fn tables_that_are_removed_unread_leave_garbage() {
    let tables = [
        table(1, Some(&[(10, 4), (11, 1)])),
        table(2, Some(&[(10, 3)])),
        table(3, None),
    ];
    let version = version(&tables, &[(10, 10, 2), (11, 1, 0)]);
    let of = |removed: &[Arc<FileMeta>], added: &[Arc<FileMeta>]| {
        version.garbage_of_replaced(removed, added)
    };
    assert_eq!(of(&tables[..1], &[]), [garbage(10, 4), garbage(11, 1)]);
    let new = [table(4, Some(&[(10, 3), (11, 1)]))];
    assert_eq!(of(&tables[..1], &new), [garbage(10, 1)]);
    assert_eq!(of(&tables[1..], &[]), [garbage(10, 3)]);
    assert_eq!(of(&tables[..1], &tables[2..]), []);
    // Not more than is left, and not all while another table names the file as its oldest.
    let many = [table(5, Some(&[(10, 9)]))];
    assert_eq!(of(&many, &[]), []);
    let all = [table(6, Some(&[(10, 8)]))];
    assert_eq!(of(&all, &[]), []);
}
