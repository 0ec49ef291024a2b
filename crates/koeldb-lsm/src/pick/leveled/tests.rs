use koeldb_base::key::encode;
use koeldb_base::{KeyOrder, ValueType};

use super::*;
use crate::version::Level;

/// A file of so many MiB of all keys; the larger its number, the newer.
fn file(number: u64, mib: u64) -> Arc<FileMeta> {
    let key = |name: &str| encode(name.as_bytes(), number, ValueType::Value);
    let mut file = FileMeta::new(number, mib << 20, key("a"), key("z"));
    file.epoch = number;
    Arc::new(file)
}

/// A tree of files of level 0, newest first, over one file of level 5.
fn tree(level0: &[Arc<FileMeta>]) -> (Version, Arc<FileMeta>) {
    let last = file(1, 200);
    let mut levels: Vec<Level> = (0..6).map(|_| Level::default()).collect();
    levels[0].files = level0.to_vec();
    levels[5].files = vec![Arc::clone(&last)];
    (Version::new(KeyOrder::Bytewise, levels), last)
}

fn numbers(plan: &CompactionPlan) -> Vec<u64> {
    plan.files().map(|(_, file)| file.number).collect()
}

fn mark(file: &Arc<FileMeta>) {
    file.being_compacted
        .store(true, std::sync::atomic::Ordering::Relaxed);
}

#[test]
fn level_0_goes_into_the_base_level_where_it_can() {
    let files: Vec<_> = (11..=20).rev().map(|number| file(number, 64)).collect();
    let (version, last) = tree(&files);
    let plan = pick(&version, &PickSettings::default()).unwrap();
    assert_eq!(plan.output_level, 5);
    assert!(numbers(&plan).contains(&last.number));
}

#[test]
fn the_newest_files_are_merged_while_level_0_waits() {
    let settings = PickSettings::default();
    // Four are with the compaction into the base level.
    let files: Vec<_> = (11..=16).rev().map(|number| file(number, 64)).collect();
    let (version, last) = tree(&files);
    mark(&last);
    for file in &files[2..] {
        mark(file);
    }
    assert!(pick(&version, &settings).is_none(), "two are too few");

    let files: Vec<_> = (11..=18).rev().map(|number| file(number, 64)).collect();
    let (version, last) = tree(&files);
    mark(&last);
    for file in &files[4..] {
        mark(file);
    }
    let plan = pick(&version, &settings).unwrap();
    assert_eq!(numbers(&plan), [18, 17, 16, 15]);
    assert_eq!((plan.output_level, plan.bottommost), (0, false));
    assert_eq!(plan.inputs.len(), 1);

    mark(&files[0]);
    assert!(
        pick(&version, &settings).is_none(),
        "no file of level 0 overtakes another"
    );
}

#[test]
fn a_large_file_behind_small_ones_is_left_alone() {
    let mut files: Vec<_> = (13..=18).rev().map(|number| file(number, 64)).collect();
    files.push(file(12, 600));
    files.push(file(11, 64));
    let (version, last) = tree(&files);
    mark(&last);
    let plan = pick(&version, &PickSettings::default()).unwrap();
    assert_eq!(numbers(&plan), [18, 17, 16, 15, 14, 13]);

    let settings = PickSettings {
        max_compaction_bytes: 300 << 20,
        ..PickSettings::default()
    };
    let plan = pick(&version, &settings).unwrap();
    assert_eq!(numbers(&plan), [18, 17, 16, 15]);
}

#[test]
fn the_base_level_is_left_alone_while_level_0_waits_for_it() {
    let settings = PickSettings {
        level_compaction_dynamic_level_bytes: false,
        ..PickSettings::default()
    };
    let key = |name: &str| encode(name.as_bytes(), 1, ValueType::Value);
    let busy = Arc::new(FileMeta::new(1, 200 << 20, key("a"), key("m")));
    let idle = Arc::new(FileMeta::new(2, 300 << 20, key("n"), key("z")));
    let mut levels: Vec<Level> = (0..6).map(|_| Level::default()).collect();
    levels[1].files = vec![Arc::clone(&busy), idle];
    let version = Version::new(KeyOrder::Bytewise, levels.clone());
    let plan = pick(&version, &settings).unwrap();
    assert!(!plan.inputs.is_empty());

    mark(&busy);
    levels[0].files = (11..=15).rev().map(|number| file(number, 64)).collect();
    let version = Version::new(KeyOrder::Bytewise, levels);
    let scores = scores(&version, &settings, &level_targets(&version, &settings));
    assert!(scores[0] > scores[1] && scores[1] > 1.0, "{scores:?}");
    assert!(
        pick(&version, &settings).is_none(),
        "five files are not many"
    );
}
