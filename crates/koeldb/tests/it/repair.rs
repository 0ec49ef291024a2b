//! Repairs of damaged databases, which delete nothing.

use std::path::Path;
use std::sync::{Arc, Mutex};

use koeldb::fs::{FileSystem, MemoryFileSystem, Purpose, SurvivalPolicy, SystemClock};
use koeldb::{
    BlockBasedOptions, ColumnFamily, ColumnFamilyOptions, CompactRangeOptions, ConfigOptions, Db,
    Env, ImportColumnFamilyOptions, Options, RepairReport, SstFileWriter, StringAppend,
    WriteOptions,
};

use crate::golden::{expected, golden, is_readable, open_as_written};
use crate::prelude::creating;
use crate::rocksdb::Tool;
use crate::scratch::ScratchDir;

/// Options without background work that keep unflushed data in the logs.
fn options() -> Options {
    let mut options = creating();
    options
        .set_avoid_flush_during_shutdown(true)
        .set_disable_auto_compactions(true)
        .set_merge_operator(StringAppend::new(","));
    options
}

/// Removes the files that list the tables.
fn lose_the_manifest(dir: &ScratchDir) {
    std::fs::remove_file(dir.join("CURRENT")).unwrap();
    for manifest in dir.all("MANIFEST") {
        std::fs::remove_file(manifest).unwrap();
    }
}

fn repair(dir: &ScratchDir) -> RepairReport {
    Db::repair(&options(), dir.path()).unwrap()
}

fn value(family: &ColumnFamily, key: &str) -> Option<String> {
    let value = family.get(key).unwrap()?;
    Some(String::from_utf8(value.to_vec()).unwrap())
}

fn names(directory: &Path) -> Vec<String> {
    crate::scratch::files(directory).into_keys().collect()
}

#[test]
fn families_keep_their_ids_so_that_logs_find_them() {
    let dir = ScratchDir::new();
    let (db, [first, second]) = Db::open_cf(&options(), dir.path(), ["first", "second"]).unwrap();
    let ids = [first.id(), second.id()];
    // Their tables come in another order than their ids.
    second.put("in a table", "second").unwrap();
    second.flush().unwrap();
    first.put("in a table", "first").unwrap();
    first.flush().unwrap();
    first.put("in the log", "first").unwrap();
    drop((db, first, second));
    lose_the_manifest(&dir);
    let report = repair(&dir);
    assert_eq!(report.families, ["default", "first", "second"]);
    assert_eq!(report.logs.len(), 1, "{report:?}");
    let (_db, [first, second]) = Db::open_cf(&options(), dir.path(), ["first", "second"]).unwrap();
    assert_eq!([first.id(), second.id()], ids);
    assert_eq!(value(&first, "in the log").as_deref(), Some("first"));
    assert_eq!(value(&second, "in the log"), None);
    assert_eq!(value(&second, "in a table").as_deref(), Some("second"));
}

#[test]
fn operands_that_are_in_tables_are_not_taken_from_logs_again() {
    for (is_lost, is_compacted) in [(true, false), (true, true), (false, true)] {
        let dir = ScratchDir::new();
        let (db, [merged, unflushed]) =
            Db::open_cf(&options(), dir.path(), ["merged", "unflushed"]).unwrap();
        // It keeps all logs alive.
        unflushed.put("key", "value").unwrap();
        unflushed.flush().unwrap();
        unflushed.put("in the first log", "value").unwrap();
        for operand in ["a", "b"] {
            merged.merge("list", operand).unwrap();
            // The newest entries of the log, which the flush drops.
            merged.put("once", "value").unwrap();
            merged.single_delete("once").unwrap();
            merged.flush().unwrap();
        }
        if is_compacted {
            // The entries that remain have no sequence numbers.
            merged.compact_range(..).unwrap();
        }
        merged.merge("list", "c").unwrap();
        drop((db, merged, unflushed));
        assert_eq!(dir.all("log").len(), 3);
        if is_lost {
            lose_the_manifest(&dir);
        }
        repair(&dir);
        let (_db, [merged, unflushed]) =
            Db::open_cf(&options(), dir.path(), ["merged", "unflushed"]).unwrap();
        assert_eq!(value(&merged, "list").as_deref(), Some("a,b,c"));
        let logged = value(&unflushed, "in the first log");
        assert_eq!(logged.as_deref(), Some("value"));
    }
}

/// Copies the newest file with this extension to the same name in another directory.
fn copy_newest(from: &ScratchDir, extension: &str, to: &ScratchDir) {
    let newest = from.all(extension).into_iter().max().unwrap();
    std::fs::copy(&newest, to.join(newest.file_name().unwrap())).unwrap();
}

#[test]
fn a_log_that_is_in_tables_in_part_gives_the_rest_to_a_table() {
    for is_damaged in [false, true] {
        let dir = ScratchDir::new();
        let db = Db::open(&options(), dir.path()).unwrap();
        db.merge("list", "a").unwrap();
        let recovered = ScratchDir::copy_of(dir.path());
        db.merge("list", "b").unwrap();
        drop(db);
        // A recovery writes tables in the middle of a log.
        drop(Db::open(&options(), recovered.path()).unwrap());
        copy_newest(&recovered, "sst", &dir);
        let log = dir.all("log").pop().unwrap();
        if is_damaged {
            let mut bytes = std::fs::read(&log).unwrap();
            *bytes.last_mut().unwrap() ^= 1;
            std::fs::write(&log, bytes).unwrap();
        }
        let bytes = std::fs::read(&log).unwrap();
        lose_the_manifest(&dir);
        let report = repair(&dir);
        assert!(report.logs.is_empty(), "{report:?}");
        let db = Db::open(&options(), dir.path()).unwrap();
        let list = value(db.default_cf(), "list");
        assert_eq!(list.as_deref(), Some(if is_damaged { "a" } else { "a,b" }));
        drop(db);
        let archived = dir.join("archive").join(log.file_name().unwrap());
        assert_eq!(
            std::fs::read(archived).is_ok_and(|kept| kept == bytes),
            is_damaged
        );
    }
}

#[test]
fn logs_behind_a_compacted_ingested_table_are_kept() {
    for is_lost in [false, true] {
        let dir = ScratchDir::new();
        let db = Db::open(&options(), dir.path()).unwrap();
        db.put("a", "old").unwrap();
        db.flush().unwrap();
        db.compact_range(..).unwrap();
        let snapshot = db.snapshot();
        db.put("z", "in the log").unwrap();
        let file = dir.join("external.sst");
        let mut writer = SstFileWriter::create(&ColumnFamilyOptions::new(), &file).unwrap();
        writer.put("a", "ingested").unwrap();
        writer.finish().unwrap();
        db.ingest_external_file(&[file]).unwrap();
        let newest = db.live_files().into_iter().max_by_key(|file| file.number);
        let newest = newest.map(|file| file.directory.join(file.name.trim_start_matches('/')));
        let compacted = db
            .default_cf()
            .compact_files(&newest.into_iter().collect::<Vec<_>>(), 6);
        assert_eq!(compacted.unwrap().len(), 1);
        drop((snapshot, db));
        if is_lost {
            lose_the_manifest(&dir);
        }
        repair(&dir);
        let db = Db::open(&options(), dir.path()).unwrap();
        assert_eq!(value(db.default_cf(), "a").as_deref(), Some("ingested"));
        assert_eq!(value(db.default_cf(), "z").as_deref(), Some("in the log"));
    }
}

#[test]
fn a_table_of_an_unrecorded_flush_hides_no_log_of_an_older_memtable() {
    let dir = ScratchDir::new();
    let db = Db::open(&options(), dir.path()).unwrap();
    db.put("in a table", "value").unwrap();
    db.flush().unwrap();
    db.merge("list", "a").unwrap();
    let killed = ScratchDir::copy_of(dir.path());
    db.flush().unwrap();
    db.merge("list", "b").unwrap();
    copy_newest(&dir, "log", &killed);
    db.flush().unwrap();
    // RocksDB flushes both memtables at the same time: the second flush may end first.
    copy_newest(&dir, "sst", &killed);
    let report = repair(&killed);
    let db = Db::open(&options(), killed.path()).unwrap();
    let list = value(db.default_cf(), "list");
    assert_eq!(list.as_deref(), Some("a,b"), "{report:?}");
}

#[test]
fn a_table_of_an_unrecorded_flush_is_kept_if_the_logs_lack_one_of_its_entries() {
    let dir = ScratchDir::new();
    let (db, [other]) = Db::open_cf(&options(), dir.path(), ["other"]).unwrap();
    // It keeps the log.
    other.put("key", "value").unwrap();
    let manifest = dir.all("MANIFEST").pop().unwrap();
    let recorded = std::fs::metadata(&manifest).unwrap().len();
    db.put("a", "in the log").unwrap();
    let mut unlogged = WriteOptions::new();
    unlogged.disable_wal(true);
    db.put_opt("b", "in no log", &unlogged).unwrap();
    db.put("c", "in the log").unwrap();
    db.default_cf().flush().unwrap();
    drop((db, other));
    let file = std::fs::File::options().write(true).open(manifest).unwrap();
    file.set_len(recorded).unwrap();
    let report = repair(&dir);
    let (db, [_other]) = Db::open_cf(&options(), dir.path(), ["other"]).unwrap();
    let found = value(db.default_cf(), "b");
    assert_eq!(found.as_deref(), Some("in no log"), "{report:?}");
}

#[test]
fn writes_after_a_repair_are_in_the_next_one_although_a_compaction_zeroed_sequence_numbers() {
    let dir = ScratchDir::new();
    let db = Db::open(&options(), dir.path()).unwrap();
    for value in ["old", "new"] {
        db.put("a", value).unwrap();
        db.flush().unwrap();
    }
    db.compact_range(..).unwrap();
    drop(db);
    lose_the_manifest(&dir);
    repair(&dir);
    let db = Db::open(&options(), dir.path()).unwrap();
    db.put("b", "in the log").unwrap();
    drop(db);
    lose_the_manifest(&dir);
    let report = repair(&dir);
    let db = Db::open(&options(), dir.path()).unwrap();
    let found = value(db.default_cf(), "b");
    assert_eq!(found.as_deref(), Some("in the log"), "{report:?}");
}

#[test]
fn a_log_newer_than_the_tables_is_kept_although_rocksdb_let_sequence_numbers_begin_again() {
    let Some(ldb) = Tool::ldb() else {
        return;
    };
    let mut options = options();
    options.set_block_based_table_factory(BlockBasedOptions::new().set_format_version(5));
    for is_compacted in [false, true] {
        let dir = ScratchDir::new();
        let db = Db::open(&options, dir.path()).unwrap();
        for value in ["old", "new"] {
            db.put("a", value).unwrap();
            db.flush().unwrap();
        }
        db.compact_range(..).unwrap();
        drop(db);
        lose_the_manifest(&dir);
        ldb.run(&[&format!("--db={}", dir.path().display()), "repair"]);
        let db = Db::open(&options, dir.path()).unwrap();
        db.put("b", "in the log").unwrap();
        assert_eq!(db.latest_sequence_number(), 1);
        if is_compacted {
            let tables = db.live_files();
            let tables = tables
                .iter()
                .map(|table| dir.join(table.name.trim_start_matches('/')));
            let tables: Vec<_> = tables.collect();
            db.default_cf().compact_files(&tables, 6).unwrap();
        }
        drop(db);
        lose_the_manifest(&dir);
        let report = repair(&dir);
        let db = Db::open(&options, dir.path()).unwrap();
        let found = value(db.default_cf(), "b");
        assert_eq!(found.as_deref(), Some("in the log"), "{report:?}");
    }
}

#[test]
fn operands_are_not_taken_again_after_a_merge_of_tables_and_without_the_identity() {
    for is_identity_lost in [false, true] {
        let dir = ScratchDir::new();
        let (db, [other]) = Db::open_cf(&options(), dir.path(), ["other"]).unwrap();
        let merged = db.default_cf();
        for key in ["a", "z"] {
            merged.put(key, "in a table").unwrap();
        }
        merged.flush().unwrap();
        // It keeps the next log.
        other.put("key", "value").unwrap();
        merged.merge("a", "merged").unwrap();
        merged.flush().unwrap();
        merged.compact_range(..).unwrap();
        let only_one = || dir.all("sst").len() == 1;
        crate::wait::until("the deletion of obsolete tables", only_one);
        drop((db, other));
        // A copy of the table is tangled with it.
        let table = dir.all("sst").pop().unwrap();
        std::fs::copy(&table, dir.join("000900.sst")).unwrap();
        for _ in 0..2 {
            lose_the_manifest(&dir);
            if is_identity_lost {
                let _ = std::fs::remove_file(dir.join("IDENTITY"));
            }
            repair(&dir);
        }
        let db = Db::open(&options(), dir.path()).unwrap();
        let found = value(db.default_cf(), "a");
        assert_eq!(found.as_deref(), Some("in a table,merged"));
    }
}

#[test]
fn ingested_and_imported_tables_stay_in_the_family_that_a_manifest_names() {
    let dir = ScratchDir::new();
    let (db, [exported, other]) =
        Db::open_cf(&options(), dir.path(), ["exported", "other"]).unwrap();
    let file = dir.join("external.sst");
    let mut writer = SstFileWriter::create(&ColumnFamilyOptions::new(), &file).unwrap();
    writer.put("a", "ingested").unwrap();
    writer.finish().unwrap();
    other.ingest_external_file(&[file]).unwrap();
    exported.put("a", "imported").unwrap();
    let elsewhere = ScratchDir::new();
    let files = exported.export(elsewhere.join("export")).unwrap();
    db.drop_cf(&exported).unwrap();
    let how = ImportColumnFamilyOptions::new();
    let family = ColumnFamilyOptions::new();
    let imported = db.create_column_family_with_import("imported", &family, &[files], &how);
    drop((db, exported, other, imported.unwrap()));
    std::fs::remove_file(dir.join("CURRENT")).unwrap();
    let report = repair(&dir);
    let (db, [imported, other]) =
        Db::open_cf(&options(), dir.path(), ["imported", "other"]).unwrap();
    assert_eq!(
        value(&other, "a").as_deref(),
        Some("ingested"),
        "{report:?}"
    );
    assert_eq!(
        value(&imported, "a").as_deref(),
        Some("imported"),
        "{report:?}"
    );
    assert_eq!(value(db.default_cf(), "a"), None);
}

#[test]
fn families_without_tables_are_known_from_the_manifest() {
    let dir = ScratchDir::new();
    let (db, [logged, empty]) = Db::open_cf(&options(), dir.path(), ["logged", "empty"]).unwrap();
    let gone = db
        .create_cf("gone", &koeldb::ColumnFamilyOptions::new())
        .unwrap();
    gone.put("key", "value").unwrap();
    logged.put("key", "value").unwrap();
    db.drop_cf(&gone).unwrap();
    drop((db, logged, empty, gone));
    std::fs::remove_file(dir.join("CURRENT")).unwrap();
    let report = repair(&dir);
    assert_eq!(report.families, ["default", "logged", "empty"]);
    assert!(report.unknown_families.is_empty(), "{report:?}");
    let (_db, [logged, empty]) = Db::open_cf(&options(), dir.path(), ["logged", "empty"]).unwrap();
    assert_eq!(value(&logged, "key").as_deref(), Some("value"));
    assert_eq!(value(&empty, "key"), None);
}

#[test]
fn logs_of_families_that_nothing_names_are_kept() {
    let dir = ScratchDir::new();
    let (db, [logged]) = Db::open_cf(&options(), dir.path(), ["logged"]).unwrap();
    let id = logged.id();
    logged.put("key", "value").unwrap();
    db.put("key", "value").unwrap();
    drop((db, logged));
    let log = std::fs::read(dir.only("log")).unwrap();
    lose_the_manifest(&dir);
    assert_eq!(repair(&dir).unknown_families, [id]);
    let db = Db::open(&options(), dir.path()).unwrap();
    assert_eq!(value(db.default_cf(), "key").as_deref(), Some("value"));
    // A new column family does not get the entries of the old one.
    let other = db
        .create_cf("other", &koeldb::ColumnFamilyOptions::new())
        .unwrap();
    assert!(other.id() > id);
    drop((db, other));
    let archive = dir.join("archive");
    let kept = crate::scratch::files(&archive);
    assert_eq!(kept.values().collect::<Vec<_>>(), [&log]);
}

#[test]
fn of_families_of_one_name_the_last_one_is_there() {
    let dir = ScratchDir::new();
    let db = Db::open(&options(), dir.path()).unwrap();
    let again = |value| {
        let family = db
            .create_cf("again", &koeldb::ColumnFamilyOptions::new())
            .unwrap();
        family.put(value, value).unwrap();
        family.flush().unwrap();
        family
    };
    let old = again("old");
    let table = dir.only("sst");
    let bytes = std::fs::read(&table).unwrap();
    db.drop_cf(&old).unwrap();
    let new = again("new");
    let id = new.id();
    drop((old, new, db));
    for is_lost in [false, true] {
        std::fs::write(&table, &bytes).unwrap();
        if is_lost {
            lose_the_manifest(&dir);
        }
        let report = repair(&dir);
        assert_eq!(report.families, ["default", "again"]);
        let (_db, [family]) = Db::open_cf(&options(), dir.path(), ["again"]).unwrap();
        assert_eq!(family.id(), id);
        assert_eq!(value(&family, "new").as_deref(), Some("new"));
        assert_eq!(value(&family, "old"), None);
    }
    // Both times the old table got a unique name.
    let lost = names(&dir.join("lost"));
    assert_eq!(
        lost.iter().filter(|name| name.contains(".sst")).count(),
        2,
        "{lost:?}"
    );
}

#[test]
fn a_table_that_had_left_the_tree_does_not_undo_a_deletion() {
    let dir = ScratchDir::new();
    let db = Db::open(&options(), dir.path()).unwrap();
    db.put("deleted", "value").unwrap();
    db.put("kept", "value").unwrap();
    db.flush().unwrap();
    let table = dir.only("sst");
    let bytes = std::fs::read(&table).unwrap();
    db.delete("deleted").unwrap();
    db.flush().unwrap();
    db.compact_all(&CompactRangeOptions::new()).unwrap();
    drop(db);
    assert!(!table.exists());
    std::fs::write(&table, bytes).unwrap();
    let report = repair(&dir);
    let name = table.file_name().unwrap().to_str().unwrap();
    assert!(
        report.lost.iter().any(|(lost, _)| lost == name),
        "{report:?}"
    );
    let db = Db::open(&options(), dir.path()).unwrap();
    assert_eq!(value(db.default_cf(), "deleted"), None);
    assert_eq!(value(db.default_cf(), "kept").as_deref(), Some("value"));
}

#[test]
fn a_damaged_table_is_set_aside_and_the_others_are_used() {
    let dir = ScratchDir::new();
    let db = Db::open(&options(), dir.path()).unwrap();
    for key in ["a", "b", "c"] {
        db.put(key, "value").unwrap();
        db.flush().unwrap();
    }
    drop(db);
    let table = dir.all("sst")[1].clone();
    let mut bytes = std::fs::read(&table).unwrap();
    bytes[3] ^= 1;
    std::fs::write(&table, &bytes).unwrap();
    let report = repair(&dir);
    assert_eq!(report.tables.len(), 2);
    assert_eq!(report.entries, 2);
    let name = table.file_name().unwrap();
    assert!(!table.exists());
    assert_eq!(std::fs::read(dir.join("lost").join(name)).unwrap(), bytes);
    let db = Db::open(&options(), dir.path()).unwrap();
    let found: Vec<bool> = ["a", "b", "c"]
        .map(|key| db.contains_key(key).unwrap())
        .into();
    assert_eq!(found, [true, false, true]);
    // New writes are newer than all recovered entries.
    db.put("a", "newer").unwrap();
    assert_eq!(value(db.default_cf(), "a").as_deref(), Some("newer"));
}

#[test]
fn golden_directories_come_back_without_current_and_manifest() {
    for name in [
        "block-v6",
        "block-partitioned",
        "column-families",
        "deletes-ranges-single",
        "merge-stringappend",
        "merge-uint64add-wal",
        "reverse-comparator",
        "universal",
        "wal-only",
        "wal-zstd",
    ]
    .into_iter()
    .filter(|name| is_readable(name))
    {
        let dir = ScratchDir::copy_of(&golden(name));
        if name == "column-families" {
            // One of them is only in the log.
            std::fs::remove_file(dir.join("CURRENT")).unwrap();
        } else {
            lose_the_manifest(&dir);
        }
        let loaded = Options::load_latest(dir.path(), &ConfigOptions::new()).unwrap();
        let report = Db::repair(&loaded.options, dir.path()).unwrap();
        let has_lost = |(lost, why): &(String, String)| {
            !lost.starts_with("MANIFEST") && !why.contains("merged into")
        };
        assert!(!report.lost.iter().any(has_lost), "{name}: {report:?}");
        let db = open_as_written(dir.path());
        expected(name).check(&db, name);
    }
}

// The order of tables.

/// Takes CURRENT away, and all MANIFESTs if asked.
fn lose(dir: &ScratchDir, has_manifest: bool) {
    match has_manifest {
        true => std::fs::remove_file(dir.join("CURRENT")).unwrap(),
        false => lose_the_manifest(dir),
    }
}

#[test]
fn an_old_level_that_holds_newer_entries_of_other_keys_hides_no_newer_version() {
    for has_manifest in [true, false] {
        let dir = ScratchDir::new();
        let db = Db::open(&options(), dir.path()).unwrap();
        // Sequence numbers stay.
        let snapshot = db.snapshot();
        let move_down = |from: usize, key: &str, to: u32| {
            let is_it =
                |file: &koeldb::LiveFile| file.level == from && file.smallest_key == key.as_bytes();
            let table = db.live_files().into_iter().find(is_it);
            let table = std::path::PathBuf::from(table.unwrap().name);
            db.default_cf().compact_files(&[table], to).unwrap();
        };
        db.put("k", "old").unwrap();
        db.put("y", "old").unwrap();
        db.flush().unwrap();
        move_down(0, "k", 2);
        db.put("k", "new").unwrap();
        db.flush().unwrap();
        move_down(0, "k", 1);
        db.put("y", "new").unwrap();
        db.flush().unwrap();
        move_down(0, "y", 1);
        move_down(1, "y", 2);
        let levels: Vec<_> = db.live_files().iter().map(|file| file.level).collect();
        assert_eq!(levels, [1, 2]);
        drop((snapshot, db));
        lose(&dir, has_manifest);
        let report = repair(&dir);
        let merged = report.lost.iter().filter(|(_, why)| why.contains("merged"));
        assert_eq!(
            merged.count(),
            if has_manifest { 0 } else { 2 },
            "{report:?}"
        );
        let db = Db::open(&options(), dir.path()).unwrap();
        let found = ["k", "y"].map(|key| value(db.default_cf(), key));
        assert_eq!(found, [Some("new".to_owned()), Some("new".to_owned())]);
        if has_manifest {
            let levels: Vec<_> = db.live_files().iter().map(|file| file.level).collect();
            assert_eq!(levels, [1, 2]);
        }
    }
}

#[test]
fn trees_of_random_histories_come_back_whole() {
    for seed in 0..20 {
        let random = std::cell::RefCell::new(koeldb_testkit::Random::new(seed));
        let below = |bound: u64| random.borrow_mut().below(bound);
        let has_manifest = seed % 2 == 0;
        let dir = ScratchDir::new();
        let db = Db::open(&options(), dir.path()).unwrap();
        let family = db.default_cf();
        let key = || format!("{:02}", below(40));
        let mut snapshots = Vec::new();
        for step in 0..200 {
            match below(20) {
                0 => family.delete(key()).unwrap(),
                1 => {
                    let (a, b) = (key(), key());
                    family
                        .delete_range(a.clone().min(b.clone()), a.max(b))
                        .unwrap();
                }
                2 => family.merge(key(), format!("{step}")).unwrap(),
                3 | 4 => family.flush().unwrap(),
                5 => snapshots.push(db.snapshot()),
                6 => snapshots.clear(),
                7 => {
                    let files = db.live_files();
                    if !files.is_empty() {
                        let file = &files[usize::try_from(below(files.len() as u64)).unwrap()];
                        let level = u32::try_from(file.level).unwrap() + 1;
                        let _ = family.compact_files(&[file.name.clone().into()], level.min(5));
                    }
                }
                8 => {
                    let from = key();
                    let to = format!("{from}~");
                    family.compact_range(from..to).unwrap();
                }
                _ => family.put(key(), format!("put {step}")).unwrap(),
            }
        }
        let entries = |db: &Db| -> Vec<_> {
            db.range(..)
                .map(|entry| entry.unwrap())
                .map(|(key, value)| (key.to_vec(), value.to_vec()))
                .collect()
        };
        let before = entries(&db);
        let levels: std::collections::BTreeSet<_> =
            db.live_files().iter().map(|file| file.level).collect();
        snapshots.clear();
        drop(db);
        lose(&dir, has_manifest);
        let report = repair(&dir);
        let db = Db::open(&options(), dir.path()).unwrap();
        let what = format!("seed {seed}, levels {levels:?}: {report:?}");
        assert_eq!(entries(&db), before, "{what}");
        for key in 0..40 {
            let key = format!("{key:02}").into_bytes();
            let expected = before.iter().find(|(found, _)| *found == key);
            let found = db.get(&key).unwrap().map(|value| value.to_vec());
            assert_eq!(found.as_ref(), expected.map(|(_, value)| value), "{what}");
        }
        db.compact_all(&CompactRangeOptions::new()).unwrap();
        assert_eq!(entries(&db), before, "compacted, {what}");
    }
}

// Interrupted repairs.

const HERE: &str = "/db";

fn memory_options(fs: &MemoryFileSystem) -> Options {
    let mut options = options();
    options.set_env(&Env::new(Arc::new(fs.clone()), Arc::new(SystemClock)));
    options
}

fn read(fs: &MemoryFileSystem, path: &Path) -> Option<Vec<u8>> {
    fs.read_all(path, u64::MAX, Purpose::Read).ok()
}

/// A database with a damaged table, and that table's bytes. All is on the device.
fn damaged_database(has_manifest: bool) -> (MemoryFileSystem, Vec<u8>) {
    let fs = MemoryFileSystem::new();
    let directory = Path::new(HERE);
    let (db, [family]) = Db::open_cf(&memory_options(&fs), HERE, ["family"]).unwrap();
    family.merge("list", "a").unwrap();
    family.flush().unwrap();
    db.put("lost", "value").unwrap();
    db.flush().unwrap();
    let table = db.live_files();
    let table = table.iter().find(|file| file.column_family == "default");
    let table = directory.join(table.unwrap().name.trim_start_matches('/'));
    family.merge("list", "b").unwrap();
    family.flush().unwrap();
    family.merge("list", "c").unwrap();
    db.put("key", "value").unwrap();
    drop((db, family));
    let mut bytes = read(&fs, &table).unwrap();
    bytes[3] ^= 1;
    fs.remove_file(&table).unwrap();
    let mut file = fs
        .create(&table, &koeldb::fs::WriteOptions::default())
        .unwrap();
    file.append(&bytes).unwrap();
    file.close().unwrap();
    if !has_manifest {
        for entry in fs.list(directory).unwrap() {
            if entry.name == "CURRENT" || entry.name.starts_with("MANIFEST") {
                fs.remove_file(&directory.join(entry.name)).unwrap();
            }
        }
    }
    (fs.crash_image(SurvivalPolicy::Generous, 0), bytes)
}

/// Whether some file in the directory or in `lost` has these bytes.
fn has_file_of(fs: &MemoryFileSystem, bytes: &[u8]) -> bool {
    [Path::new(HERE).to_owned(), Path::new(HERE).join("lost")]
        .iter()
        .any(|directory| {
            let entries = fs.list(directory).unwrap_or_default();
            let mut files = entries.iter().map(|entry| directory.join(&entry.name));
            files.any(|file| read(fs, &file).as_deref() == Some(bytes))
        })
}

fn check_repaired(fs: &MemoryFileSystem, what: &str) {
    let (db, [family]) = Db::open_cf(&memory_options(fs), HERE, ["family"])
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(value(&family, "list").as_deref(), Some("a,b,c"), "{what}");
    let key = value(db.default_cf(), "key");
    assert_eq!(key.as_deref(), Some("value"), "{what}");
    assert_eq!(value(db.default_cf(), "lost"), None, "{what}");
}

#[test]
fn a_repair_that_was_interrupted_is_run_again() {
    for has_manifest in [true, false] {
        let (fs, lost) = damaged_database(has_manifest);
        let images: Arc<Mutex<Vec<(String, MemoryFileSystem)>>> = Arc::default();
        let taken = Arc::clone(&images);
        fs.observe_mutations(move |fs, operation| {
            for policy in [
                SurvivalPolicy::Strict,
                SurvivalPolicy::Generous,
                SurvivalPolicy::TornPrefix,
                SurvivalPolicy::DataWithoutEntries,
                SurvivalPolicy::Reordered,
            ] {
                let what = format!("crash before operation {operation}, {policy:?}");
                let image = fs.crash_image(policy, operation);
                taken.lock().unwrap().push((what, image));
            }
        });
        Db::repair(&memory_options(&fs), HERE).unwrap();
        fs.observe_mutations(|_, _| ());
        check_repaired(&fs, "without a crash");
        assert!(has_file_of(&fs, &lost));
        let images = std::mem::take(&mut *images.lock().unwrap());
        assert!(images.len() > 50, "{} images", images.len());
        for (what, image) in images {
            // Opening it as it is may work or not; it takes nothing away for ever.
            let opened = image.crash_image(SurvivalPolicy::Generous, 0);
            if let Ok((db, [family])) = Db::open_cf(&memory_options(&opened), HERE, ["family"]) {
                drop((db, family));
                assert!(has_file_of(&opened, &lost), "{what}, opened");
            }
            Db::repair(&memory_options(&image), HERE)
                .unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(has_file_of(&image, &lost), "{what}");
            check_repaired(&image, &what);
        }
    }
}
