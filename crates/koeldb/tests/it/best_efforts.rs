//! `best_efforts_recovery`: the newest state whose tables exist, as RocksDB finds it.

use std::path::{Path, PathBuf};

use koeldb::{ColumnFamily, Db, ErrorKind, FlushOptions, Options, WriteBatch, WriteOptions};
use koeldb_testkit::random::mix;
use koeldb_testkit::{Floors, Random};

use crate::expected::Expected;
use crate::prelude::creating;
use crate::rocksdb::Java;
use crate::scratch::ScratchDir;

fn best_efforts() -> Options {
    let mut options = Options::new();
    options
        .set_best_efforts_recovery(true)
        .set_disable_auto_compactions(true);
    options
}

fn tables(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut tables: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "sst"))
        .collect();
    tables.sort();
    tables
}

fn content(db: &Db) -> Expected {
    let mut found = Expected::default();
    for family in db.cf_handles() {
        let entries = found.family(family.name());
        for entry in family.range(..) {
            let (key, value) = entry.unwrap();
            entries.insert(key.to_vec(), value.to_vec());
        }
    }
    found.families.retain(|_, entries| !entries.is_empty());
    found
}

fn open_all(options: &Options, dir: &Path) -> koeldb::Result<Db> {
    Db::builder(options)
        .other_column_families(options.cf_options())
        .open(dir)
}

/// A table of level 0 and, if asked for, one of the last level below it.
fn two_states(dir: &Path) {
    let mut options = creating();
    options.set_disable_auto_compactions(true);
    let db = Db::open(&options, dir).unwrap();
    for value in ["1", "2"] {
        db.put("key", value).unwrap();
        db.flush().unwrap();
    }
    db.put("logged", "3").unwrap();
    db.close().unwrap();
}

#[test]
fn the_newest_missing_table_of_level_0_is_left_out_and_logs_are_kept_aside() {
    let dir = ScratchDir::new();
    let path = dir.join("db");
    two_states(&path);
    std::fs::remove_file(tables(&path).pop().unwrap()).unwrap();
    assert!(Db::open(&Options::new(), &path).is_err());
    let db = Db::open(&best_efforts(), &path).unwrap();
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"1"[..]));
    assert!(!db.contains_key("logged").unwrap(), "no log is replayed");
    let report = db.recovery_report();
    assert_eq!(report.tables_missing.len(), 1);
    assert!(report.to_string().contains("an older state"), "{report}");
    db.put("key", "4").unwrap();
    db.close().unwrap();
    drop(db);
    let archived = std::fs::read_dir(path.join("archive")).unwrap();
    assert!(archived.count() >= 1);
    // The older state is the one of the MANIFEST now.
    let db = Db::open(&Options::new(), &path).unwrap();
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"4"[..]));
    assert!(!db.contains_key("logged").unwrap());
}

#[test]
fn current_and_a_damaged_manifest_are_not_needed() {
    let dir = ScratchDir::new();
    let path = dir.join("db");
    two_states(&path);
    std::fs::remove_file(path.join("CURRENT")).unwrap();
    std::fs::write(path.join("MANIFEST-999999"), b"no log of edits at all").unwrap();
    assert!(Db::open(&creating(), &path).is_err());
    let mut read_only = Db::builder(&best_efforts());
    let db = read_only.read_only().open(&path).unwrap();
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"2"[..]));
    drop(db);
    assert!(!path.join("CURRENT").exists());
    let db = Db::open(&best_efforts(), &path).unwrap();
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"2"[..]));
    db.close().unwrap();
    drop(db);
    Db::open(&Options::new(), &path).unwrap();
}

#[test]
fn a_directory_without_a_manifest_and_a_family_that_is_not_named_are_refused() {
    let dir = ScratchDir::new();
    let path = dir.join("db");
    let error = Db::open(&best_efforts(), &path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let (db, [_]) = Db::open_cf(&creating(), &path, ["a"]).unwrap();
    db.close().unwrap();
    drop(db);
    let error = Db::open(&best_efforts(), &path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("not opened"), "{error}");
}

#[test]
fn families_that_were_flushed_together_go_back_together() {
    let dir = ScratchDir::new();
    let path = dir.join("db");
    let mut options = creating();
    options
        .set_atomic_flush(true)
        .set_disable_auto_compactions(true);
    let (db, [a]) = Db::open_cf(&options, &path, ["a"]).unwrap();
    for value in ["1", "2", "3"] {
        let mut batch = WriteBatch::new();
        batch.put("key", value);
        batch.put_cf(&a, "key", value);
        db.write(&batch).unwrap();
        db.flush().unwrap();
    }
    db.close().unwrap();
    drop((db, a));
    // One of the two tables of the second flush.
    std::fs::remove_file(&tables(&path)[2]).unwrap();
    let (db, [a]) = Db::open_cf(&best_efforts(), &path, ["a"]).unwrap();
    for family in [db.default_cf(), &a] {
        assert_eq!(family.get("key").unwrap().as_deref(), Some(&b"1"[..]));
    }
}

/// Writes a random history whose tables all stay; returns the handle that keeps them.
fn history(random: &mut Random, dir: &Path, copy: &Path) {
    let mut options = creating();
    let is_atomic = random.chance(1, 2);
    options
        .set_atomic_flush(is_atomic)
        .set_disable_auto_compactions(true)
        .set_target_file_size_base(4 << 10)
        .set_level_compaction_dynamic_level_bytes(random.chance(1, 2));
    let (db, [a, b]) = Db::open_cf(&options, dir, ["a", "b"]).unwrap();
    let _kept = db.disable_file_deletions().unwrap();
    let families: [&ColumnFamily; 3] = [db.default_cf(), &a, &b];
    let mut later = None;
    for at in 0..12 + random.below(12) {
        let mut batch = WriteBatch::new();
        for family in families {
            if random.chance(2, 3) {
                for _ in 0..random.below(4) {
                    let key = format!("{:02}", random.below(30));
                    match random.chance(1, 6) {
                        true => batch.delete_cf(family, key),
                        false => batch.put_cf(family, key, format!("{at}").repeat(40)),
                    };
                }
            }
        }
        db.write_opt(&batch, &WriteOptions::new()).unwrap();
        match random.below(6) {
            0 => db.flush().unwrap(),
            1 | 2 => families[random.index(3)].flush().unwrap(),
            3 => {
                let named = [families[random.index(3)], families[random.index(3)]];
                db.flush_cfs(named, &FlushOptions::new()).unwrap();
            }
            4 => families[random.index(3)].compact_range(..).unwrap(),
            _ if later.is_none() && random.chance(1, 3) => {
                later = Some(db.create_cf("later", options.cf_options()).unwrap());
                later.as_ref().unwrap().put("key", "value").unwrap();
                later.as_ref().unwrap().flush().unwrap();
            }
            _ => {}
        }
    }
    // As after a crash: the copy has the logs, and the tables of all states.
    copy_dir(dir, copy);
    db.close().unwrap();
}

fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_file() && entry.file_name() != "LOCK" {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

/// Of random histories, random tables are removed or truncated: RocksDB recovers the same state.
#[test]
fn rocksdb_goes_back_to_the_same_state() {
    let Some(java) = Java::find() else { return };
    let seed = std::env::var("KOELDB_SEED").ok();
    let seed: Option<u64> = seed.and_then(|seed| seed.parse().ok());
    let seeds = seed.map_or(0..Floors::chosen().of(8, 60, 400), |seed| seed..seed + 1);
    let mut older = 0;
    for seed in seeds {
        let mut random = Random::new(mix(seed));
        let dir = ScratchDir::new();
        let broken = dir.join("broken");
        history(&mut random, &dir.join("db"), &broken);
        let all = tables(&broken);
        for _ in 0..random.below(3) + 1 {
            if all.is_empty() {
                break;
            }
            let table = &all[random.index(all.len())];
            if !table.exists() {
                continue;
            }
            match random.chance(1, 5) {
                true => std::fs::write(table, &std::fs::read(table).unwrap()[..10]).unwrap(),
                false => std::fs::remove_file(table).unwrap(),
            }
        }
        let ours = dir.join("ours");
        copy_dir(&broken, &ours);
        let db =
            open_all(&best_efforts(), &ours).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        older += u64::from(!db.recovery_report().tables_missing.is_empty());
        let found = content(&db);
        db.close().unwrap();
        drop(db);
        let mut theirs = java.check(&broken, &["best_efforts=true"]).found;
        theirs.families.retain(|_, entries| !entries.is_empty());
        assert_eq!(found, theirs, "seed {seed}");
        // The recovered state opens without the option, in either engine.
        let again = open_all(&Options::new(), &ours).unwrap();
        assert_eq!(content(&again), found, "seed {seed}, again");
        again.close().unwrap();
        drop(again);
        let mut theirs = java.check(&ours, &[]).found;
        theirs.families.retain(|_, entries| !entries.is_empty());
        assert_eq!(found, theirs, "seed {seed}, what we recovered");
    }
    assert!(seed.is_some() || older > 0);
}
