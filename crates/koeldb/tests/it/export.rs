//! Export and import of column families.

use std::path::Path;
use std::sync::Arc;

use koeldb::fs::{Failure, FaultRule, FileSystem, Purpose, WriteOptions};
use koeldb::{
    ColumnFamily, ColumnFamilyOptions, CompactRangeOptions, Db, ErrorKind, ExportedColumnFamily,
    ExportedFile, ImportColumnFamilyOptions, ReverseBytewiseComparator,
};

use crate::expected::Expected;
use crate::prelude::creating;
use crate::rocksdb::Java;
use crate::scratch::ScratchDir;
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

/// The entries that a line `entry FAMILY KEY VALUE` of the Java program has.
fn printed(text: &str) -> Expected {
    let mut found = Expected::default();
    for entry in text.lines().filter_map(|line| line.strip_prefix("entry\t")) {
        found.add_line(entry);
    }
    found
}

#[test]
fn exports_of_rocksdb_are_imported() {
    let Some(java) = Java::find() else { return };
    let dir = ScratchDir::new();
    let (source, out) = (dir.join("source"), dir.join("out"));
    std::fs::create_dir(&out).unwrap();
    let text = java.files(&[
        "export",
        source.to_str().unwrap(),
        out.to_str().unwrap(),
        "0",
        "1000",
    ]);
    // As RocksDB describes them.
    let mut exports = [(); 2].map(|()| ExportedColumnFamily::new("leveldb.BytewiseComparator", []));
    for line in text.lines().filter_map(|line| line.strip_prefix("file\t")) {
        let [family, level, name, bytes, first, last] = line.split('\t').collect::<Vec<_>>()[..]
        else {
            panic!("{line}");
        };
        let number = |text: &str| text.parse::<u64>().unwrap();
        let mut file = ExportedFile::new(
            out.join(family),
            name,
            level.parse().unwrap(),
            number(first)..=number(last),
        );
        file.bytes = number(bytes);
        exports[usize::from(family != "0")].files.push(file);
    }
    assert!(
        exports.iter().all(|export| export.files.len() >= 3),
        "{text}"
    );
    let mut expected: Entries = Vec::new();
    for (_, entries) in printed(&text).families {
        expected.extend(entries);
    }
    for is_moved in [false, true] {
        let target = ScratchDir::new();
        let db = Db::open(&creating(), target.path()).unwrap();
        db.put("a", "1").unwrap();
        let mut how = ImportColumnFamilyOptions::new();
        how.set_move_files(is_moved);
        let family = ColumnFamilyOptions::new();
        let mut wrong = exports.clone();
        wrong[0].files[0].largest_seqno += 1;
        let made = db.create_column_family_with_import("wrong", &family, &wrong, &how);
        assert!(made.is_err() && db.cf_handle("wrong").is_none());
        let imported = db
            .create_column_family_with_import("imported", &family, &exports, &how)
            .unwrap();
        assert_eq!(entries(&imported), expected);
        imported.compact_range(..).unwrap();
        assert_eq!(entries(&imported), expected);
        db.verify_checksums().unwrap();
        db.close().unwrap();
        drop((imported, db));
        let found = java.check(target.path(), &[]).found;
        assert!(
            found.families["imported"]
                .clone()
                .into_iter()
                .eq(expected.clone())
        );
        assert_eq!(exports[0].files[0].path().exists(), !is_moved);
    }
}

#[test]
fn rocksdb_imports_the_exported_tables() {
    let Some(java) = Java::find() else { return };
    let dir = ScratchDir::new();
    let source = dir.join("source");
    let mut options = creating();
    options.set_disable_auto_compactions(true);
    let db = Db::open(&options, &source).unwrap();
    let family = layered(&db, "koel", 0);
    family.flush().unwrap();
    let export = family.export(dir.join("koel")).unwrap();
    let expected = entries(&family);
    db.close().unwrap();
    drop((family, db));
    // It has the same description of them.
    let theirs: Vec<Vec<String>> = (java.live(&source, &[]).iter())
        .map(|line| line.split('\t').map(str::to_owned).collect())
        .filter(|words: &Vec<String>| words[1] == "koel")
        .collect();
    assert_eq!(theirs.len(), export.files.len());
    for file in &export.files {
        let user = |key: &[u8]| {
            let user = &key[..key.len() - 8];
            user.iter()
                .map(|byte| format!("{byte:02X}"))
                .collect::<String>()
        };
        let ours = [
            file.level.to_string(),
            file.name.clone(),
            file.bytes.to_string(),
            file.smallest_seqno.to_string(),
            file.largest_seqno.to_string(),
            user(&file.smallest),
            user(&file.largest),
        ];
        let is_it = |words: &&Vec<String>| words[4] == file.name;
        let words = theirs.iter().find(is_it).unwrap();
        assert_eq!([&words[2..3], &words[4..]].concat(), ours);
    }
    for how in ["copy", "move"] {
        let text = java.files(&[
            "import",
            dir.join(format!("target-{how}")).to_str().unwrap(),
            source.to_str().unwrap(),
            "koel",
            dir.join("koel").to_str().unwrap(),
            dir.join(format!("exported-{how}")).to_str().unwrap(),
            how,
        ]);
        let found = printed(&text).families.remove("imported").unwrap();
        assert!(found.into_iter().eq(expected.clone()), "{how}");
        // KoelDB reads what RocksDB imported.
        let target = dir.join(format!("target-{how}"));
        let mut builder = Db::builder(&creating());
        builder.column_family("imported");
        let db = builder.open(target).unwrap();
        assert_eq!(entries(&db.cf_handle("imported").unwrap()), expected);
    }
}
