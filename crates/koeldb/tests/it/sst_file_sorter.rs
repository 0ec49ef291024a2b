//! Files sorted from entries in any order: contents, memory, many runs, and what failures leave.

use std::collections::BTreeMap;
use std::sync::Arc;

use koeldb::fs::{Failure, FaultRule, FileSystem, Operation};
use koeldb::{
    ColumnFamilyOptions, Db, Env, IngestExternalFileOptions, ReverseBytewiseComparator,
    SstFileSorter, SstFileSorterOptions,
};
use koeldb_testkit::Random;

use crate::storage::{HERE, Storage};

const SORTED: &str = "/sorted";

fn settings(storage: &Storage) -> SstFileSorterOptions {
    let mut how = SstFileSorterOptions::new();
    let fs: Arc<dyn FileSystem> = Arc::clone(&storage.faults) as _;
    how.set_env(&Env::new(fs, Arc::new(koeldb::fs::SystemClock)))
        .set_memory_bytes(64 << 10)
        .set_target_file_bytes(100 << 10);
    how
}

fn names(storage: &Storage) -> Vec<String> {
    let entries = storage.memory.list(SORTED.as_ref()).unwrap();
    entries.into_iter().map(|entry| entry.name).collect()
}

#[test]
fn entries_in_any_order_become_tables_that_do_not_overlap() {
    // Without runs, with some, and with so many that they are merged before the end.
    for (seed, count) in [(1, 100), (2, 20_000), (3, 90_000)] {
        for is_reversed in [false, true] {
            let storage = Storage::new();
            let mut options = storage.options();
            if is_reversed {
                options.set_comparator(ReverseBytewiseComparator);
            }
            let db = Db::open(&options, HERE).unwrap();
            let how = settings(&storage);
            let family = db.default_cf();
            let mut sorter = SstFileSorter::create_opt(&family.options(), SORTED, &how).unwrap();
            let (mut random, mut model) = (Random::new(seed), BTreeMap::new());
            for number in 0..count {
                let key = format!("key{:06}", random.below(count));
                if random.chance(1, 10) {
                    sorter.delete(&key).unwrap();
                    model.remove(&key);
                } else {
                    let value = format!("{number:0100}");
                    sorter.put(&key, &value).unwrap();
                    model.insert(key, value);
                }
            }
            let files = sorter.finish().unwrap();
            assert_eq!(names(&storage).len(), files.len(), "runs are removed");
            assert_eq!(files.len() > 1, count > 1000);
            let mut how = IngestExternalFileOptions::new();
            how.set_move_files(true)
                .set_fail_if_not_bottommost_level(true);
            let paths: Vec<_> = files.iter().map(|file| &file.path).collect();
            family.ingest_external_file_opt(&paths, &how).unwrap();
            let mut found: Vec<_> = db.range(..).map(Result::unwrap).collect();
            if is_reversed {
                found.reverse();
            }
            assert_eq!(found.len(), model.len());
            for ((key, value), (wanted_key, wanted)) in found.iter().zip(&model) {
                assert_eq!(
                    (&**key, &**value),
                    (wanted_key.as_bytes(), wanted.as_bytes())
                );
            }
        }
    }
}

#[test]
fn nothing_is_left_of_a_sorter_that_fails_or_is_dropped() {
    let options = ColumnFamilyOptions::new();
    for operation in [
        Operation::Create,
        Operation::Append,
        Operation::SyncAll,
        Operation::Open,
    ] {
        for nth in 1..6 {
            let storage = Storage::new();
            let how = settings(&storage);
            let mut sorter = SstFileSorter::create_opt(&options, SORTED, &how).unwrap();
            let rule = FaultRule::fail(Failure::NoSpace).on(&[operation]);
            storage.faults.add_rule(rule.nth(nth));
            let mut outcome = Ok(());
            for number in 0..5000_u32 {
                let key = number.wrapping_mul(2_654_435_761);
                outcome = sorter.put(key.to_le_bytes(), [7; 100]);
                if outcome.is_err() {
                    break;
                }
            }
            let outcome = outcome.and_then(|()| sorter.finish());
            storage.faults.clear_rules();
            if outcome.is_err() {
                assert_eq!(names(&storage), [""; 0], "{operation:?} {nth}");
            }
        }
    }
    let storage = Storage::new();
    let mut sorter = SstFileSorter::create_opt(&options, SORTED, &settings(&storage)).unwrap();
    for number in 0..5000_u32 {
        sorter.put(number.to_le_bytes(), [7; 100]).unwrap();
    }
    assert!(!names(&storage).is_empty());
    drop(sorter);
    assert!(names(&storage).is_empty());
    let empty = SstFileSorter::create_opt(&options, SORTED, &settings(&storage)).unwrap();
    assert!(empty.finish().unwrap().is_empty());
}
