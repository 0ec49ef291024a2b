use koeldb_base::key::encode;
use koeldb_base::{KeyOrder, ValueType};
use koeldb_table::blob::references::FileReferences;

use super::*;
use crate::blob_space::TableReferences;
use crate::pick::CompactionInput;
use crate::version::{BlobFileMeta, Level};

const RULE: DeadBytesRule = DeadBytesRule {
    target: 1.3,
    share: 0.5,
    blob_file_bytes: 8000,
};

/// A table of 1000 bytes with references of 100 bytes each: file and number.
fn table(number: u64, references: &[(u64, u64)]) -> Arc<FileMeta> {
    let key = |name: String| encode(name.as_bytes(), number, ValueType::BlobIndex);
    let (first, last) = (format!("{number:03}a"), format!("{number:03}z"));
    let mut file = FileMeta::new(number, 1000, key(first), key(last));
    file.epoch = number;
    file.oldest_blob_file = references.first().map_or(0, |one| one.0);
    let list = references.iter().map(|&(file, count)| FileReferences {
        file,
        count,
        bytes: count * 100,
    });
    let list = TableReferences::Exact(list.collect());
    file.blob_references.set(list).unwrap();
    Arc::new(file)
}

/// A version with tables on levels 0 and 3, and blob files of 100 records of 100 bytes, with garbage.
fn version(level0: &[Arc<FileMeta>], level3: &[Arc<FileMeta>], files: &[(u64, u64)]) -> Version {
    let mut levels = vec![Level::default(); 5];
    levels[0].files = level0.to_vec();
    levels[3].files = level3.to_vec();
    let mut version = Version::new(KeyOrder::Bytewise, levels);
    for &(number, garbage) in files {
        let file = BlobFileMeta::of_equal_records(number, 100, garbage, 100);
        version.blob_files.insert(number, file);
    }
    version
}

fn picked(version: &Version) -> Option<(usize, usize, Vec<u64>)> {
    let plan = pick(version, &PickSettings::default(), RULE, false)?;
    let files = plan.files().map(|(_, file)| file.number).collect();
    assert_eq!(plan.reason, CompactionReason::ForcedBlobGc);
    Some((plan.start_level(), plan.output_level, files))
}

#[test]
fn the_tables_of_the_file_with_the_most_garbage_are_rewritten_where_they_are() {
    let tables = [
        table(1, &[(10, 90)]),
        table(2, &[(11, 20), (12, 90)]),
        table(3, &[(11, 10)]),
        table(4, &[(12, 10)]),
    ];
    let version = version(&[], &tables, &[(10, 10), (11, 70), (12, 0)]);
    // 300 of 220.
    assert!(RULE.is_due(&version, false) && !RULE.is_urgent(&version));
    assert_eq!(RULE.emptied(&version.blob_space()), [11]);
    assert_eq!(picked(&version), Some((3, 3, vec![2, 3])));
    tables[1].being_compacted.store(true, Ordering::Relaxed);
    assert_eq!(picked(&version), Some((3, 3, vec![3])));
    tables[2].being_compacted.store(true, Ordering::Relaxed);
    assert_eq!(picked(&version), None);
}

#[test]
fn a_collection_ends_a_little_below_the_target_and_begins_above_it() {
    let tables = [table(1, &[(10, 79)])];
    let version_of = |garbage| version(&[], &tables, &[(10, garbage)]);
    let due = |garbage, has_begun| RULE.is_due(&version_of(garbage), has_begun);
    assert!(due(24, false) && due(24, true));
    assert!(!due(22, false) && due(22, true));
    assert!(!due(18, true));
    // Less garbage than an eighth of a file.
    let large = DeadBytesRule {
        blob_file_bytes: 100_000,
        ..RULE
    };
    assert!(!large.is_due(&version_of(90), true));
}

#[test]
fn tables_of_level_0_go_down_only_if_no_others_are_left() {
    let (upper, lower) = ([table(1, &[(10, 20)])], [table(2, &[(11, 40)])]);
    let both = version(&upper, &lower, &[(10, 80), (11, 60)]);
    assert_eq!(picked(&both), Some((3, 3, vec![2])));
    let alone = version(&upper, &[], &[(10, 80)]);
    let (from, to, files) = picked(&alone).unwrap();
    assert!(from == 0 && to > 0 && files == [1]);
}

fn plan_of(files: &[Arc<FileMeta>], reason: CompactionReason) -> CompactionPlan {
    CompactionPlan {
        reason,
        inputs: vec![CompactionInput {
            level: 3,
            files: files.to_vec(),
        }],
        ..CompactionPlan::within_level0(reason, Vec::new(), false)
    }
}

#[test]
fn any_compaction_moves_values_out_of_files_with_much_garbage() {
    let tables = [table(1, &[(10, 45), (11, 40), (12, 80)])];
    let files = [(10, 55), (11, 60), (12, 5), (13, 0), (14, 0), (15, 0)];
    let version = version(&[], &tables, &files);
    let ordinary = plan_of(&tables, CompactionReason::LevelMaxLevelSize);
    let of = |plan: &CompactionPlan, rule, is_bounded| {
        let victims = victims(&version, rule, plan, false, is_bounded);
        victims.into_iter().collect::<Vec<_>>()
    };
    // 6000 of 4800 is no reason to empty any; twice the table's 1000 bytes are reached by the first.
    assert!(!RULE.is_due(&version, false));
    assert_eq!(of(&ordinary, RULE, true), [11]);
    assert_eq!(of(&ordinary, RULE, false), [10, 11]);
    // The moved values would be a small part of a file.
    let large = DeadBytesRule {
        blob_file_bytes: 80_000,
        ..RULE
    };
    assert_eq!(of(&ordinary, large, true), []);
    // A target below, and all that is needed is emptied.
    let strict = DeadBytesRule {
        target: 1.2,
        ..RULE
    };
    assert_eq!(of(&ordinary, strict, true), [10, 11]);
    let forced = plan_of(&tables, CompactionReason::ForcedBlobGc);
    assert_eq!(of(&forced, large, true), [10, 11]);
}

#[test]
fn a_table_that_may_hide_much_goes_down() {
    // Both have the keys of the lower one.
    let lower = table(1, &[(10, 100)]);
    let upper = |number, references: &[(u64, u64)]| {
        let file = table(number, references);
        let key = |name: &str| encode(name.as_bytes(), number, ValueType::BlobIndex);
        let mut moved = FileMeta::new(number, 1000, key("001a"), key("001z"));
        moved.epoch = number;
        moved.oldest_blob_file = file.oldest_blob_file;
        moved.blob_references = file.blob_references.clone();
        Arc::new(moved)
    };
    let of = |references: &[(u64, u64)], deletions| {
        let hiding = upper(2, references);
        hiding
            .entry_stats
            .deletions
            .store(deletions, Ordering::Relaxed);
        version(&[hiding], std::slice::from_ref(&lower), &[(10, 0), (11, 0)])
    };
    let plan = |version: &Version| picked(version);
    // 20000 bytes, of which the lower table's 10000 may be dead.
    let all = of(&[(11, 100)], 0);
    assert_eq!(hidden_bytes(&all), 10_000);
    assert_eq!(plan(&all).map(|it| (it.0, it.2)), Some((0, vec![2, 1])));
    // 20000 of 12500 is not far above 1.3.
    assert_eq!(plan(&of(&[(11, 75)], 0)), None);
    assert!(plan(&of(&[(11, 75)], 10)).is_some());
    assert_eq!(hidden_bytes(&of(&[(11, 75)], 10)), 8500);
    // Where nothing is below, nothing is hidden.
    let alone = version(&[upper(2, &[(11, 100)])], &[], &[(11, 0)]);
    assert_eq!((hidden_bytes(&alone), plan(&alone)), (0, None));
}
