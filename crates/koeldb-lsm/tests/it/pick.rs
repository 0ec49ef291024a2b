//! Scripts for the pickers: a tree, a command, the plan.
//!
//! ```text
//! tree [levels=7]                 the tree of the following commands
//! cursor                          LEVEL KEY: where the next round-robin compaction begins
//! mark 12 11, unmark 12           tables that a running compaction reads
//! leveled, universal, fifo now=S  the compaction that is due, with settings as arguments
//! targets, scores, pending        the inputs of leveled compaction
//! range level=1 to=2 [from=a] [until=c | before=c]     a manual compaction of a range
//! levels to=6 [from=a] [until=c]  one manual compaction of all levels
//! files to=2                      a manual compaction of the tables named in the input
//! all                             universal: everything into the last level
//! ```

use std::sync::atomic::Ordering;

use datadriven::TestCase;
use koeldb_base::key::ValueType;
use koeldb_lsm::Version;
use koeldb_lsm::pick::{
    CompactionPlan, CompactionReason, FileOrder, PickSettings, fifo, leveled, manual, universal,
};
use koeldb_lsm::text::BytesText;
use proptest::prelude::*;

use crate::{entries, parse};

fn number(case: &mut TestCase, name: &str, into: &mut impl TryFrom<u64>) {
    if let Some(text) = case.try_take_arg::<String>(name).unwrap() {
        let value = parse::bytes(&text).try_into();
        *into = value.unwrap_or_else(|_| panic!("{name}={text}"));
    }
}

fn settings(case: &mut TestCase) -> PickSettings {
    let mut settings = PickSettings::default();
    let s = &mut settings;
    number(case, "trigger", &mut s.level0_file_num_compaction_trigger);
    number(case, "slowdown", &mut s.level0_slowdown);
    number(case, "base", &mut s.max_bytes_for_level_base);
    number(case, "target", &mut s.target_file_size_base);
    number(
        case,
        "target_multiplier",
        &mut s.target_file_size_multiplier,
    );
    number(case, "max_compaction", &mut s.max_compaction_bytes);
    number(case, "max_table", &mut s.table_bytes_max);
    let mut multiplier = 10_u32;
    number(case, "multiplier", &mut multiplier);
    s.max_bytes_for_level_multiplier = f64::from(multiplier);
    if let Some(factors) = case.try_take_args::<i32>("factors").unwrap() {
        s.max_bytes_for_level_multiplier_additional = factors;
    }
    if let Some(order) = case.try_take_arg::<String>("order").unwrap() {
        s.file_order = file_order(&order);
    }
    s.level_compaction_dynamic_level_bytes = !case.take_flag("static").unwrap();
    let u = &mut s.universal;
    number(case, "ratio", &mut u.size_ratio);
    number(case, "min_width", &mut u.min_merge_width);
    number(case, "max_width", &mut u.max_merge_width);
    number(case, "amp", &mut u.max_size_amplification_percent);
    u.stop_on_similar_size = case.take_flag("similar").unwrap();
    u.allow_trivial_move = case.take_flag("trivial").unwrap();
    u.run_limit = match case.try_take_arg::<String>("runs").unwrap().as_deref() {
        None => universal::RunLimit::Trigger,
        Some("auto") => {
            let mut first_run_bytes = 0;
            number(case, "buffer", &mut first_run_bytes);
            universal::RunLimit::BySizes { first_run_bytes }
        }
        Some(limit) => universal::RunLimit::Fixed(limit.parse().unwrap()),
    };
    number(case, "runs_max", &mut u.run_limit_max);
    let f = &mut s.fifo;
    number(case, "max_size", &mut f.max_table_files_size);
    number(case, "ttl", &mut f.ttl_secs);
    f.allow_compaction = case.take_flag("join").unwrap();
    if let Some(age) = case.try_take_arg("warm").unwrap() {
        f.temperature_ages = vec![(age, 8)];
    }
    settings
}

fn file_order(text: &str) -> FileOrder {
    match text {
        "overlap" => FileOrder::MinOverlappingRatio,
        "size" => FileOrder::CompensatedSize,
        "largest_seqno" => FileOrder::OldestLargestSeqno,
        "smallest_seqno" => FileOrder::OldestSmallestSeqno,
        "round_robin" => FileOrder::RoundRobin,
        _ => panic!("order={text}"),
    }
}

fn mark(case: &mut TestCase, version: &Version, being_compacted: bool) {
    for number in case.args.drain().map(|(name, _)| entries::number(&name)) {
        let mut files = version.files();
        let (_, file) = files.find(|(_, file)| file.number == number).unwrap();
        file.being_compacted
            .store(being_compacted, Ordering::Relaxed);
    }
}

fn said(plan: Option<CompactionPlan>) -> String {
    plan.map_or("none\n".to_owned(), |plan| format!("{plan}\n"))
}

fn said_of(picked: manual::ManualPick) -> String {
    match picked {
        manual::ManualPick::Part(plan, _) => said(Some(plan)),
        manual::ManualPick::Busy(refusal) => format!("{refusal}\n"),
        manual::ManualPick::Nothing => said(None),
    }
}

fn run(case: &mut TestCase, version: &mut Version) -> String {
    let directive = case.directive.clone();
    match directive.as_str() {
        "tree" => {
            let mut levels = 7;
            number(case, "levels", &mut levels);
            *version = parse::tree(&case.input, levels);
            return String::new();
        }
        "cursor" => {
            let (level, key) = case.input.trim().split_once(' ').expect("LEVEL KEY");
            let key = entries::key(key, 0, ValueType::Value);
            version.compact_cursors.insert(level.parse().unwrap(), key);
            return String::new();
        }
        "mark" | "unmark" => {
            mark(case, version, directive == "mark");
            return String::new();
        }
        _ => {}
    }
    let settings = settings(case);
    let targets = leveled::level_targets(version, &settings);
    let to = |case: &mut TestCase| {
        let mut level = 0;
        number(case, "to", &mut level);
        level
    };
    match directive.as_str() {
        "leveled" => match leveled::pick_or_refuse(version, &settings) {
            Ok(plan) => said(Some(plan)),
            Err(refusals) if refusals.is_empty() => said(None),
            Err(refusals) => refusals
                .iter()
                .map(|(level, refusal)| format!("L{level}: {refusal}\n"))
                .collect(),
        },
        "universal" => said(universal::pick(version, &settings)),
        "all" => {
            let reason = CompactionReason::ManualCompaction;
            said(universal::pick_all(version, &settings, reason))
        }
        "fifo" => {
            let mut now = 0;
            number(case, "now", &mut now);
            said(fifo::pick(version, &settings, now))
        }
        "targets" => {
            let mut text = format!("base level {}\n", targets.base_level);
            for (level, &bytes) in targets.bytes.iter().enumerate().skip(1) {
                if bytes != u64::MAX {
                    text += &format!("L{level} {}\n", BytesText(bytes));
                }
            }
            text
        }
        "scores" => {
            let scores = leveled::scores(version, &settings, &targets);
            let scores = scores.iter().enumerate();
            let lines = scores.filter(|(_, score)| **score > 0.0);
            lines
                .map(|(level, score)| format!("L{level} {score:.2}\n"))
                .collect()
        }
        "pending" => {
            let bytes = leveled::pending_compaction_bytes(version, &settings, &targets);
            format!("{}\n", BytesText(bytes))
        }
        "range" => {
            let mut level = 0;
            number(case, "level", &mut level);
            let output = to(case);
            let from = case.try_take_arg::<String>("from").unwrap();
            let until = case.try_take_arg::<String>("until").unwrap();
            let before = case.try_take_arg::<String>("before").unwrap();
            let range = manual::ManualRange {
                level,
                in_place: level == output,
                from: from.as_deref().map(str::as_bytes),
                to: until.as_deref().or(before.as_deref()).map(str::as_bytes),
                excludes_to: before.is_some(),
                after: None,
                older_than: u64::MAX,
            };
            said_of(manual::pick(version, &settings, &targets, &range))
        }
        "levels" => {
            let output = to(case);
            let from = case.try_take_arg::<String>("from").unwrap();
            let until = case.try_take_arg::<String>("until").unwrap();
            let (from, until) = (from.as_deref(), until.as_deref());
            let (from, until) = (from.map(str::as_bytes), until.map(str::as_bytes));
            said_of(manual::pick_levels(version, &settings, from, until, output))
        }
        "files" => {
            let output = to(case);
            let numbers: Vec<u64> = case.input.split_whitespace().map(entries::number).collect();
            said(manual::pick_files(version, &settings, &numbers, output))
        }
        other => panic!("no command {other:?}"),
    }
}

#[test]
fn pickers_plan_what_the_scripts_say() {
    datadriven::walk("tests/data/pick", |file| {
        let mut version = parse::tree("", 7);
        file.run(|case| {
            let output = run(case, &mut version);
            case.expect_empty().unwrap();
            output
        });
    });
}

fn settings_of_universal() -> impl Strategy<Value = PickSettings> {
    use universal::RunLimit;
    let limits = prop_oneof![
        Just(RunLimit::Trigger),
        (1..12_usize).prop_map(RunLimit::Fixed),
        Just(RunLimit::BySizes {
            first_run_bytes: 1 << 20
        }),
    ];
    let (widths, amplification) = ((0..12_usize, 0..12_usize), 0..1000_u32);
    (
        1..9_usize,
        1..9_usize,
        limits,
        widths,
        amplification,
        0..50_u32,
        any::<bool>(),
    )
        .prop_map(
            |(
                trigger,
                stop,
                run_limit,
                (narrowest, widest),
                amplification,
                size_ratio,
                similar,
            )| {
                let mut settings = PickSettings {
                    level0_file_num_compaction_trigger: trigger,
                    ..PickSettings::default()
                };
                settings.universal = universal::UniversalSettings {
                    size_ratio,
                    min_merge_width: narrowest,
                    max_merge_width: widest,
                    max_size_amplification_percent: amplification,
                    stop_on_similar_size: similar,
                    allow_trivial_move: false,
                    run_limit,
                    run_limit_max: trigger.max(stop).saturating_sub(1).max(1),
                };
                settings
            },
        )
}

proptest! {
    #[test]
    fn idle_runs_that_stop_writes_are_merged(
        settings in settings_of_universal(),
        bytes in proptest::collection::vec(1..1_u64 << 40, 1..14),
        deep in 0..4_usize,
    ) {
        let mut tree = String::new();
        let shallow = bytes.len() - deep.min(bytes.len());
        for (index, bytes) in bytes.iter().enumerate() {
            match index.checked_sub(shallow) {
                Some(level) => tree += &format!("L{}\n", level + 3),
                None if index == 0 => tree += "L0\n",
                None => {}
            }
            tree += &format!("  {}:[a-z] {bytes}\n", 100 - index);
        }
        let version = parse::tree(&tree, 7);
        let count = universal::run_count(&version);
        prop_assert_eq!(count, bytes.len());
        let plan = universal::pick(&version, &settings);
        if count > settings.universal.run_limit_max {
            let plan = plan.expect("a plan");
            let merged = plan.files().count();
            prop_assert!(merged >= 2, "{}", plan);
        }
    }
}

/// A run of a tree of universal compaction.
#[derive(Clone, Debug)]
struct ModelRun {
    number: u64,
    level: usize,
    bytes: u64,
    /// The places of its flushes in the order of all flushes.
    ages: std::ops::Range<u64>,
}

/// A tree of universal compaction, whose runs have the same keys, with its running compactions.
#[derive(Debug)]
struct UniversalTree {
    level_count: usize,
    /// Newest first.
    runs: Vec<ModelRun>,
    running: Vec<CompactionPlan>,
    numbers: u64,
}

impl UniversalTree {
    fn flush(&mut self, bytes: u64) {
        let newest = self.runs.first().map_or(1, |run| run.ages.end);
        let run = ModelRun {
            number: self.next_number(),
            level: 0,
            bytes,
            ages: newest..newest + 1,
        };
        self.runs.insert(0, run);
    }

    fn next_number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// The version of the tree, with the running compactions begun.
    fn version(&mut self) -> Version {
        let mut text = String::new();
        let mut level = None;
        for run in &self.runs {
            if level != Some(run.level) {
                level = Some(run.level);
                text += &format!("L{}\n", run.level);
            }
            let ModelRun {
                number,
                bytes,
                ages,
                ..
            } = run;
            let (oldest, newest) = (ages.start, ages.end - 1);
            text += &format!("  {number}:[a-z] {bytes} seqs={oldest}-{newest} epoch={oldest}\n");
        }
        let version = parse::tree(&text, self.level_count);
        for plan in &mut self.running {
            for file in plan.inputs.iter_mut().flat_map(|input| &mut input.files) {
                let mut files = version.files();
                let same = files.find(|(_, other)| other.number == file.number);
                *file = std::sync::Arc::clone(same.expect("an input that stays").1);
            }
            plan.begin(&version);
        }
        version
    }

    /// The places of the inputs of a plan among the runs.
    fn chosen(&self, plan: &CompactionPlan) -> std::ops::Range<usize> {
        let place = |number| self.runs.iter().position(|run| run.number == number);
        let files = plan.files().map(|(_, file)| place(file.number).unwrap());
        let places: Vec<usize> = files.collect();
        let chosen = places[0]..places[0] + places.len();
        assert!(places.iter().copied().eq(chosen.clone()), "{plan}");
        chosen
    }

    /// Begins the next compaction, if one is due.
    fn pick(&mut self, settings: &PickSettings) -> bool {
        let version = self.version();
        let Some(plan) = universal::pick(&version, settings) else {
            return false;
        };
        assert!(plan.files().all(|(_, file)| !file.is_being_compacted()));
        let chosen = self.chosen(&plan);
        assert!(chosen.len() >= 2, "{plan}");
        // All runs have the same keys.
        assert_eq!(plan.bottommost, chosen.end == self.runs.len(), "{plan}");
        self.running.push(plan);
        true
    }

    /// Begins the compaction of the runs whose bits are set into `level`, if it is possible.
    fn compact_files(&mut self, settings: &PickSettings, bits: u32, level: usize) {
        let bits = |index: usize| bits >> (index % 5) & 1 == 1;
        let named = self.runs.iter().enumerate();
        let named = named.filter_map(|(index, run)| bits(index).then_some(run.number));
        let numbers: Vec<u64> = named.collect();
        let version = self.version();
        if let Some(plan) = manual::pick_files(&version, settings, &numbers, level) {
            let chosen = self.chosen(&plan);
            assert!(!plan.bottommost || chosen.end == self.runs.len(), "{plan}");
            self.running.push(plan);
        }
    }

    /// Installs the result of a running compaction.
    fn finish(&mut self, index: usize) {
        let plan = self.running.remove(index);
        let chosen = self.chosen(&plan);
        let inputs = &self.runs[chosen.clone()];
        let output = ModelRun {
            number: self.numbers + 1,
            level: plan.output_level,
            bytes: inputs.iter().map(|run| run.bytes).sum(),
            ages: inputs.last().unwrap().ages.start..inputs[0].ages.end,
        };
        self.numbers += 1;
        self.runs.splice(chosen, [output]);
        for pair in self.runs.windows(2) {
            let [newer, older] = pair else { unreachable!() };
            let is_in_order = newer.level < older.level || newer.level + older.level == 0;
            assert!(is_in_order, "{newer:?} above {older:?} by {plan}");
            assert_eq!(newer.ages.start, older.ages.end);
        }
        assert!(self.runs.iter().all(|run| run.level < self.level_count));
    }
}

proptest! {
    #[test]
    fn concurrent_universal_compactions_keep_the_order_of_ages_and_come_to_an_end(
        settings in settings_of_universal(),
        level_count in 1..8_usize,
        steps in proptest::collection::vec((0..5_usize, 0..30_u32), 1..60),
    ) {
        let mut tree = UniversalTree {
            level_count,
            runs: Vec::new(),
            running: Vec::new(),
            numbers: 0,
        };
        for (number, (kind, size)) in steps.into_iter().enumerate() {
            match kind {
                0 | 1 => tree.flush(1 << size),
                2 => {
                    tree.pick(&settings);
                }
                // Such a compaction waits until no other runs.
                3 if tree.running.is_empty() => {
                    tree.compact_files(&settings, size, number % level_count);
                }
                _ if tree.running.is_empty() => {}
                _ => tree.finish(size as usize % tree.running.len()),
            }
        }
        // Each compaction leaves fewer runs.
        while tree.pick(&settings) || !tree.running.is_empty() {
            if let Some(last) = tree.running.len().checked_sub(1) {
                tree.finish(last);
            }
        }
        let count = universal::run_count(&tree.version());
        prop_assert_eq!(count, tree.runs.len());
        prop_assert!(count <= settings.universal.run_limit_max.max(1));
    }
}
