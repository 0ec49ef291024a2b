use koeldb_base::key::encode;
use koeldb_base::{KeyOrder, ValueType};

use super::super::is_compacting;
use super::*;
use crate::version::Level;

/// A file of `mib` MiB over all keys; larger numbers are newer.
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

fn in_place(level: usize, files: &[Arc<FileMeta>]) -> LevelRequest {
    LevelRequest {
        reason: CompactionReason::ManualCompaction,
        level,
        output_level: level,
        files: files.to_vec(),
    }
}

#[test]
fn level_0_goes_into_the_base_level_where_it_can() {
    let files: Vec<_> = (11..=20).rev().map(|number| file(number, 64)).collect();
    let (version, last) = tree(&files);
    let plan = pick(&version, &PickSettings::default()).unwrap();
    assert_eq!(plan.output_level, 5);
    assert!(numbers(&plan).contains(&last.number));
}

/// A tree whose level 0 has `idle` files and, older than these, `others` files.
///
/// The latter are being compacted into the last level.
fn waiting(idle: u64, others: u64) -> (Version, Vec<Arc<FileMeta>>) {
    let files: Vec<_> = (11..11 + idle + others)
        .rev()
        .map(|number| file(number, 64))
        .collect();
    let (version, last) = tree(&files);
    mark(&last);
    files
        .iter()
        .skip_while(|file| file.number >= 11 + others)
        .for_each(mark);
    (version, files)
}

#[test]
fn the_newest_files_are_merged_while_level_0_waits() {
    let settings = PickSettings {
        level0_file_num_compaction_trigger: 2,
        max_bytes_for_level_base: 1 << 30,
        ..PickSettings::default()
    };
    assert!(
        pick(&waiting(3, 4).0, &settings).is_none(),
        "three are too few"
    );
    let (version, _) = waiting(4, 4);
    let plan = pick(&version, &settings).unwrap();
    assert_eq!(numbers(&plan), [18, 17, 16, 15]);
    assert_eq!((plan.output_level, plan.bottommost), (0, false));
    assert_eq!(plan.inputs.len(), 1);
}

#[test]
fn no_file_of_level_0_overtakes_another() {
    let settings = PickSettings {
        level0_file_num_compaction_trigger: 2,
        ..PickSettings::default()
    };
    let (version, files) = waiting(9, 2);
    assert_eq!(pick(&version, &settings).unwrap().inputs[0].files.len(), 9);
    // Files after one that is being compacted stay unchanged.
    mark(&files[5]);
    let plan = pick(&version, &settings).unwrap();
    assert_eq!(numbers(&plan), [21, 20, 19, 18, 17]);
    mark(&files[0]);
    assert!(pick(&version, &settings).is_none());
}

#[test]
fn merges_within_level_0_do_not_follow_one_another_for_ever() {
    let settings = PickSettings::default();
    let files: Vec<_> = (11..=26).rev().map(|number| file(number, 64)).collect();
    let (version, last) = tree(&files);
    // One merge is running, over older files, and the oldest waits for it.
    files[8..15].iter().for_each(mark);
    assert!(pick(&version, &settings).is_none());
    mark(&last);
    assert!(pick(&version, &settings).is_none());
    mark(&files[15]);
    assert_eq!(pick(&version, &settings).unwrap().output_level, 0);
}

#[test]
fn a_few_large_files_are_due_by_their_bytes() {
    let settings = PickSettings::default();
    let (version, _) = tree(&[file(11, 900)]);
    let targets = level_targets(&version, &settings);
    assert!(pending_compaction_bytes(&version, &settings, &targets) >= 900 << 20);
    let plan = pick(&version, &settings).unwrap();
    assert_eq!((plan.inputs[0].level, plan.output_level), (0, 5));
    let (version, _) = tree(&[file(11, 200)]);
    let targets = level_targets(&version, &settings);
    assert_eq!(pending_compaction_bytes(&version, &settings, &targets), 0);
    assert!(pick(&version, &settings).is_none());
}

#[test]
fn level_0_due_by_its_bytes_leaves_a_larger_base_level_its_turn() {
    let settings = PickSettings::default();
    for level0_mib in [300, 1000] {
        let base = file(2, 900);
        let mut levels: Vec<Level> = (0..6).map(|_| Level::default()).collect();
        levels[0].files = vec![file(11, level0_mib)];
        levels[4].files = vec![Arc::clone(&base)];
        levels[5].files = vec![file(1, 2500)];
        let version = Version::new(KeyOrder::Bytewise, levels);
        let targets = level_targets(&version, &settings);
        assert_eq!(targets.base_level, 4);
        let scores_now = scores(&version, &settings, &targets);
        assert!(scores_now[0] >= 1.0, "{scores_now:?}");
        assert!(scores_now[4] > scores_now[0], "{scores_now:?}");
        assert_eq!(pick(&version, &settings).unwrap().inputs[0].level, 4);
        // It is still due when the base level is picked.
        mark(&base);
        assert!(scores(&version, &settings, &targets)[0] >= 1.0);
    }
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

    for (max_compaction_bytes, table_bytes_max) in [(300, 1000), (1000, 300)] {
        let settings = PickSettings {
            max_compaction_bytes: max_compaction_bytes << 20,
            table_bytes_max: table_bytes_max << 20,
            ..PickSettings::default()
        };
        let plan = pick(&version, &settings).unwrap();
        assert_eq!(numbers(&plan), [18, 17, 16, 15]);
    }
}

#[test]
fn the_base_level_is_left_alone_while_level_0_waits_for_it() {
    let settings = PickSettings {
        level_compaction_dynamic_level_bytes: false,
        level0_slowdown: 4,
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

/// Tables of level 0 whose keys are between those of two tables of the last level.
#[test]
fn nothing_is_written_between_the_inputs_of_a_running_compaction() {
    let key = |name: &str| encode(name.as_bytes(), 1, ValueType::Value);
    let file = |number, from, to| Arc::new(FileMeta::new(number, 1, key(from), key(to)));
    let mut levels = vec![Level::default(); 6];
    levels[0].files = vec![file(3, "m", "n")];
    levels[5].files = vec![file(1, "a", "c"), file(2, "x", "z")];
    let version = Version::new(KeyOrder::Bytewise, levels);
    let settings = PickSettings {
        level0_file_num_compaction_trigger: 1,
        ..PickSettings::default()
    };
    let targets = level_targets(&version, &settings);
    let rewrite = |files: &[Arc<FileMeta>]| {
        let request = in_place(5, files);
        request.plan(&version, &settings, &targets)
    };
    let around = rewrite(&version.levels[5].files).unwrap();
    around.begin(&version);
    assert!(pick(&version, &settings).is_none());
    around.end(&version);
    let aside = rewrite(&version.levels[5].files[..1]).unwrap();
    aside.begin(&version);
    let moved = pick(&version, &settings).unwrap();
    assert_eq!((numbers(&moved), moved.output_level), (vec![3], 5));
    moved.begin(&version);
    rewrite(&version.levels[5].files[1..]).unwrap();
    moved.end(&version);
    aside.end(&version);
}

/// A compaction ends after its result has been installed.
#[test]
fn an_installed_compaction_runs_until_its_claim_is_released() {
    let key = |name: &str| encode(name.as_bytes(), 1, ValueType::Value);
    let file = |number| Arc::new(FileMeta::new(number, 1, key("a"), key("z")));
    let mut levels = vec![Level::default(); 6];
    levels[3].files = vec![file(1)];
    let before = Version::new(KeyOrder::Bytewise, levels.clone());
    let settings = PickSettings::default();
    let targets = level_targets(&before, &settings);
    let request = in_place(3, &before.levels[3].files);
    let running = request.plan(&before, &settings, &targets).unwrap();
    running.begin(&before);
    levels[3].files = vec![file(2)];
    let mut after = Version::new(KeyOrder::Bytewise, levels);
    after.running = Arc::clone(&before.running);
    assert!(is_compacting(&after));
    running.end(&after);
    assert!(!is_compacting(&after));
}

#[test]
fn level_0_is_suggested_where_reads_gain_at_a_small_cost() {
    let suggests = |version: &Version| suggest_level0(version, &PickSettings::default());
    // One file of 200 MiB is below: four times 50 MiB.
    let small: Vec<_> = vec![file(12, 24), file(11, 25)];
    let (version, _) = tree(&small);
    assert!(!suggests(&version) && pick(&version, &PickSettings::default()).is_none());
    let (version, last) = tree(&[file(12, 25), file(11, 25)]);
    assert!(suggests(&version));
    let plan = pick(&version, &PickSettings::default()).unwrap();
    assert_eq!(numbers(&plan), [12, 11, last.number]);
    // Nothing below: two files become one, and one stays.
    let alone = |count: usize| {
        let mut levels: Vec<Level> = (0..6).map(|_| Level::default()).collect();
        levels[0].files = vec![file(12, 1), file(11, 1)].split_off(2 - count);
        Version::new(KeyOrder::Bytewise, levels)
    };
    assert!(!suggests(&alone(0)) && !suggests(&alone(1)) && suggests(&alone(2)));
}
