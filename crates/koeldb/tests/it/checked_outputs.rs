//! Checks of new tables, and other options of writing them.

use std::time::Duration;

use koeldb::fs::{FaultAction, FaultRule, Operation, Purpose};
use koeldb::{BlockBasedOptions, ConfigOptions, Db, ErrorKind, Options};

use crate::model::base_options;
use crate::rocksdb::{Java, Tool};
use crate::scratch::ScratchDir;
use crate::storage::{HERE, Storage};

/// Writes two tables and compacts them while one bit of every write is flipped.
fn compact_with_damage(text: &str) -> koeldb::Result<()> {
    let storage = Storage::new();
    let mut options = storage.options();
    options.set_disable_auto_compactions(true);
    options.apply_str(text, &ConfigOptions::new()).unwrap();
    let db = Db::open(&options, HERE).unwrap();
    for _ in 0..2 {
        for key in 0..100 {
            db.put(format!("key {key}"), [key; 100]).unwrap();
        }
        db.flush().unwrap();
    }
    let damage = FaultRule::new(FaultAction::FlipWrittenBits(1));
    let damage = damage.on(&[Operation::Append]).purpose(Purpose::Compaction);
    storage.faults.add_rule(damage);
    let compacted = db.compact_range(..);
    storage.faults.clear_rules();
    if compacted.is_err() {
        // The outputs are not part of the database, and removed.
        assert_eq!(db.live_files().len(), 2);
        assert_eq!(db.range(..).filter(Result::is_ok).count(), 100);
    }
    compacted
}

#[test]
fn compactions_verify_their_outputs_if_an_option_says_so() {
    for text in [
        "paranoid_file_checks=true",
        "verify_output_flags=1025",
        "verify_output_flags=1026",
        "verify_output_flags=4294967295",
    ] {
        let error = compact_with_damage(text).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{text}: {error}");
    }
    for text in ["", "verify_output_flags=1024", "verify_output_flags=3"] {
        compact_with_damage(text).unwrap();
    }
}

#[test]
fn flushes_verify_their_table_if_an_option_says_so() {
    for is_checked in [true, false] {
        let storage = Storage::new();
        let mut options = storage.options();
        options.set_paranoid_file_checks(is_checked);
        let db = Db::open(&options, HERE).unwrap();
        db.put("key", [7; 1000]).unwrap();
        let damage = FaultRule::new(FaultAction::FlipWrittenBits(1));
        let damage = damage.on(&[Operation::Append]).purpose(Purpose::Flush);
        storage.faults.add_rule(damage);
        let flushed = db.flush();
        assert_eq!(flushed.is_err(), is_checked);
        if let Err(error) = flushed {
            assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
            assert_eq!(db.live_files().len(), 0);
            assert_eq!(db.get("key").unwrap().unwrap(), vec![7; 1000]);
        }
    }
}

#[test]
fn a_memtable_with_many_range_deletions_is_flushed() {
    for (max, is_flushed) in [(3, true), (4, false), (0, false)] {
        let mut options = base_options();
        options.set_memtable_max_range_deletions(max);
        let db = Db::open(&options, "/ranges").unwrap();
        db.put("a", "value").unwrap();
        for _ in 0..3 {
            db.delete_range("b", "c").unwrap();
        }
        // The next write seals it.
        db.put("d", "value").unwrap();
        db.wait_for_compact(Some(Duration::from_secs(120))).unwrap();
        assert_eq!(db.live_files().len(), usize::from(is_flushed), "{max}");
        // While the database is open, too.
        db.set_options([("memtable_max_range_deletions", "1")])
            .unwrap();
        db.delete_range("b", "c").unwrap();
        db.put("d", "value").unwrap();
        db.wait_for_compact(Some(Duration::from_secs(120))).unwrap();
        assert!(db.live_files().len() > usize::from(is_flushed), "{max}");
    }
}

#[test]
fn each_entry_has_a_block_of_its_own_if_an_option_says_so() {
    let dir = ScratchDir::new();
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_block_based_table_factory(BlockBasedOptions::new().set_format_version(5))
        .apply_str(
            "table_factory.flush_block_policy_factory=FlushBlockEveryKeyPolicyFactory;\
             table_factory.verify_compression=true",
            &ConfigOptions::new(),
        )
        .unwrap();
    let db = Db::open(&options, dir.path()).unwrap();
    for key in 0..50 {
        db.put(format!("key {key}"), [7; 100]).unwrap();
    }
    db.flush().unwrap();
    let file = format!("--file={}{}", dir.path().display(), db.live_files()[0].name);
    drop(db);
    if let Some(sst_dump) = Tool::sst_dump() {
        let properties = sst_dump.run(&[&file, "--command=check", "--show_properties"]);
        assert!(properties.contains("# data blocks: 50"), "{properties}");
        sst_dump.run(&[&file, "--command=verify"]);
    }
    if let Some(java) = Java::find() {
        java.check(dir.path(), &[]);
    }
    let db = Db::open(&options, dir.path()).unwrap();
    assert_eq!(db.range(..).count(), 50);
}
