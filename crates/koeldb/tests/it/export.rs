//! Export and import of column families.

use std::path::Path;
use std::sync::Arc;

use koeldb::fs::{Failure, FaultRule, FileSystem, Purpose, WriteOptions};
use koeldb::{
    ColumnFamily, ColumnFamilyOptions, CompactRangeOptions, Db, ErrorKind, ExportedColumnFamily,
    ImportColumnFamilyOptions, ReverseBytewiseComparator,
};

use crate::storage::{HERE, Storage, over};

pub(crate) type Entries = Vec<(Vec<u8>, Vec<u8>)>;

pub(crate) fn entries(family: &ColumnFamily) -> Entries {
    let entries = family.range(..).map(Result::unwrap);
    entries
        .map(|(key, value)| (key.to_vec(), value.to_vec()))
        .collect()
}

fn fill(family: &ColumnFamily, from: u32, count: u32, value: &str) {
    for index in from..from + count {
        family.put(format!("key{index:05}"), value).unwrap();
    }
}

/// A column family on several levels, with overwritten and deleted keys.
fn layered(db: &Db, name: &str, from: u32) -> ColumnFamily {
    let family = db.create_cf(name, &db.default_cf().options()).unwrap();
    fill(&family, from, 100, "first");
    family.flush().unwrap();
    family
        .compact_range_opt(.., &CompactRangeOptions::new())
        .unwrap();
    fill(&family, from + 20, 30, "second");
    family
        .delete_range(
            format!("key{:05}", from + 70),
            format!("key{:05}", from + 80),
        )
        .unwrap();
    family.flush().unwrap();
    fill(&family, from + 25, 5, "third");
    family.delete(format!("key{from:05}")).unwrap();
    family
}

#[test]
fn families_go_to_another_database_with_their_levels() {
    let storage = Storage::new();
    let db = Db::open(&storage.options(), HERE).unwrap();
    let koel = layered(&db, "koel", 0);
    let cuckoo = layered(&db, "cuckoo", 1000);
    let exports = [
        koel.export("/out/koel").unwrap(),
        cuckoo.export("/out/cuckoo").unwrap(),
    ];
    assert_eq!(
        ExportedColumnFamily::read(&db, "/out/koel").unwrap(),
        exports[0]
    );
    let levels: Vec<usize> = exports[0].files.iter().map(|file| file.level).collect();
    assert!(levels.contains(&0) && levels.contains(&6), "{levels:?}");
    let mut expected = entries(&koel);
    expected.extend(entries(&cuckoo));
    for how in [false, true] {
        let other = Db::open(
            &over(Arc::clone(&storage.faults) as _),
            format!("/other {how}"),
        )
        .unwrap();
        other.put("a", "1").unwrap();
        let mut options = ImportColumnFamilyOptions::new();
        options.set_move_files(how);
        let name = format!("imported {how}");
        let family = db.default_cf().options();
        let imported = other
            .create_column_family_with_import(&name, &family, &exports, &options)
            .unwrap();
        assert_eq!(entries(&imported), expected);
        assert!(other.latest_sequence_number() >= exports[0].files[0].largest_seqno);
        fill(&imported, 22, 1, "after");
        assert_eq!(
            imported.get("key00022").unwrap().as_deref(),
            Some(&b"after"[..])
        );
        imported.delete("key00022").unwrap();
        fill(&imported, 22, 1, "second");
        imported.compact_range(..).unwrap();
        assert_eq!(entries(&imported), expected);
        let first = Path::new("/out/koel").join(&exports[0].files[0].name);
        assert_eq!(storage.memory.exists(&first).unwrap(), !how);
        other.verify_checksums().unwrap();
    }
}

#[test]
fn exports_that_do_not_fit_leave_no_family() {
    let storage = Storage::new();
    let db = Db::open(&storage.options(), HERE).unwrap();
    let koel = layered(&db, "koel", 0);
    let export = koel.export("/out/koel").unwrap();
    let options = db.default_cf().options();
    let how = ImportColumnFamilyOptions::new();
    let refused = |options: &ColumnFamilyOptions, exports: &[ExportedColumnFamily], what: &str| {
        let made = db.create_column_family_with_import("new", options, exports, &how);
        let error = made.unwrap_err();
        assert!(db.cf_handle("new").is_none(), "{what}");
        assert!(error.to_string().contains(what), "{what}: {error}");
    };
    refused(&options, &[], "no table");
    refused(&options, &[export.clone(), export.clone()], "overlap");
    let mut reversed = ColumnFamilyOptions::new();
    reversed.set_comparator(ReverseBytewiseComparator);
    refused(&reversed, std::slice::from_ref(&export), "comparator");
    let mut flat = options.clone();
    flat.set_num_levels(2);
    refused(&flat, std::slice::from_ref(&export), "levels");
    let lie = |change: fn(&mut koeldb::ExportedFile)| {
        let mut export = export.clone();
        change(&mut export.files[0]);
        [export]
    };
    refused(
        &options,
        &lie(|file| file.name = "../db/000001.sst".into()),
        "name of a table",
    );
    refused(&options, &lie(|file| file.bytes += 1), "bytes");
    refused(
        &options,
        &lie(|file| file.largest_seqno = u64::MAX),
        "bounds",
    );
    refused(
        &options,
        &lie(|file| std::mem::swap(&mut file.smallest, &mut file.largest)),
        "bounds",
    );
    refused(&options, &lie(|file| file.smallest.clear()), "key");
    refused(
        &options,
        &lie(|file| file.smallest = file.largest.clone()),
        "outside of its bounds",
    );
    refused(
        &options,
        &lie(|file| file.largest_seqno += 1),
        "largest sequence number",
    );
    let mut twice = export.clone();
    let deep = export.files.iter().find(|file| file.level > 0).unwrap();
    twice.files.push(deep.clone());
    refused(&options, &[twice], "overlap on level");
    // None of them stops writes.
    db.put("after", "1").unwrap();
    let error = db
        .create_column_family_with_import("koel", &options, std::slice::from_ref(&export), &how)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);

    let full = FaultRule::fail(Failure::NoSpace)
        .purpose(Purpose::Ingest)
        .on_mutations();
    storage.faults.add_rule(full.limit(1));
    refused(&options, std::slice::from_ref(&export), "No space left");

    let path = Path::new("/out/koel/export.koeldb");
    let memory = &storage.memory;
    let mut text = memory.read_all(path, u64::MAX, Purpose::Other).unwrap();
    text[60] ^= 1;
    memory.remove_file(path).unwrap();
    let mut file = memory.create(path, &WriteOptions::default()).unwrap();
    file.append(&text).unwrap();
    file.close().unwrap();
    let error = ExportedColumnFamily::read(&db, "/out/koel").unwrap_err();
    assert!(
        error.is_corruption() && error.to_string().contains("export.koeldb"),
        "{error}"
    );
}

#[test]
fn a_dropped_family_is_not_exported() {
    let storage = Storage::new();
    let db = Db::open(&storage.options(), HERE).unwrap();
    let koel = layered(&db, "koel", 0);
    db.drop_cf(&koel).unwrap();
    let error = koel.export("/out/koel").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ColumnFamilyDropped, "{error}");
    assert!(!storage.memory.exists("/out/koel".as_ref()).unwrap());
}

#[test]
fn an_error_at_any_operation_of_an_import_leaves_no_family_or_a_whole_one() {
    let mut at = 1;
    loop {
        let storage = Storage::new();
        let db = Db::open(&storage.options(), HERE).unwrap();
        let koel = layered(&db, "koel", 0);
        let export = koel.export("/out/koel").unwrap();
        let expected = entries(&koel);
        let rule = FaultRule::fail(Failure::NoSpace).on_mutations().nth(at);
        storage.faults.add_rule(rule);
        let how = ImportColumnFamilyOptions::new();
        let options = db.default_cf().options();
        let made = db.create_column_family_with_import("new", &options, &[export], &how);
        let is_struck = storage.faults.injection_count() > 0;
        storage.faults.clear_rules();
        let is_made = made.is_ok();
        drop(made);
        let _ = db.close();
        drop((db, koel));
        let options = storage.options();
        let names = Db::list_cf(&options, HERE).unwrap();
        let mut builder = Db::builder(&options);
        builder.column_families(names.clone());
        let db = builder.open(HERE).unwrap();
        match db.cf_handle("new") {
            Some(family) => {
                let found = entries(&family);
                assert!(
                    found == expected || !is_made && found.is_empty(),
                    "after {at}"
                );
            }
            None => assert!(!is_made, "after {at}"),
        }
        assert!(is_made || is_struck, "after {at}");
        if !is_struck {
            break;
        }
        at += 1;
    }
    assert!(at > 8, "{at} operations");
}
