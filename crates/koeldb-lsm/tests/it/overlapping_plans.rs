//! Random trees whose compactions overlap in time: no plan puts an older version above a newer one.
//!
//! Tables have contents, plans run for some steps, and each result is checked: tables of a level do
//! not overlap, levels are ordered by sequence number, and a job at the bottom has nothing below it.

use std::collections::BTreeMap;
use std::sync::Arc;

use koeldb_base::KeyOrder;
use koeldb_base::key::{MAX_SEQNO, ValueType, encode};
use koeldb_lsm::pick::manual::{self, ManualPick, ManualRange};
use koeldb_lsm::pick::{CompactionPlan, PickSettings, leveled, universal};
use koeldb_lsm::{FileMeta, Level, Version};
use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, any, proptest};

const KEYS: u8 = 40;

/// An entry of a key: its sequence number, and whether it is of a range tombstone.
type Entry = (u64, bool);

/// The entries of a table by key, newest first.
type Content = BTreeMap<u8, Vec<Entry>>;

/// Drawn numbers, which are used up one by one.
struct Tape<'t>(std::slice::Iter<'t, u16>);

impl Tape<'_> {
    /// Returns the next number, below `bound`; 0 at the end of the tape.
    fn below(&mut self, bound: usize) -> usize {
        let drawn = self.0.next().copied().unwrap_or_default();
        usize::from(drawn) % bound
    }

    fn key(&mut self) -> u8 {
        u8::try_from(self.below(usize::from(KEYS))).unwrap()
    }

    fn chance(&mut self, of: usize) -> bool {
        self.below(of) == 0
    }
}

/// A tree, the contents of its tables, and the compactions that run.
struct Tree {
    version: Arc<Version>,
    contents: BTreeMap<u64, Content>,
    /// The running plans, each with the version that it was made for.
    running: Vec<(CompactionPlan, Arc<Version>)>,
    settings: PickSettings,
    is_universal: bool,
    last_number: u64,
    last_seqno: u64,
    steps: Vec<String>,
}

/// Describes a table with this content.
fn table(number: u64, content: &Content, epoch: u64, bytes_per_key: u64) -> FileMeta {
    let internal_key = |key: u8, (seqno, is_range): Entry| {
        let value_type = match is_range {
            true => ValueType::RangeDeletion,
            false => ValueType::Value,
        };
        encode(&[key], seqno, value_type)
    };
    let (&first, newest_first) = content.first_key_value().unwrap();
    let smallest = internal_key(first, newest_first[0]);
    let (&last, newest_first) = content.last_key_value().unwrap();
    let largest = match newest_first.iter().any(|entry| entry.1) {
        true => encode(&[last + 1], MAX_SEQNO, ValueType::RangeDeletion),
        false => internal_key(last, *newest_first.last().unwrap()),
    };
    let bytes = bytes_per_key * content.len() as u64;
    let mut file = FileMeta::new(number, bytes, smallest, largest);
    let seqnos = || content.values().flatten().map(|entry| entry.0);
    file.epoch = epoch;
    file.smallest_seqno = seqnos().min().unwrap();
    file.largest_seqno = seqnos().max().unwrap();
    file
}

impl Tree {
    fn new(tape: &mut Tape<'_>) -> Self {
        let mut settings = PickSettings {
            level0_file_num_compaction_trigger: 2 + tape.below(3),
            level0_slowdown: 4 + tape.below(8),
            max_bytes_for_level_base: [500, 1000, 2500][tape.below(3)],
            max_bytes_for_level_multiplier: [1.5, 2.5, 3.5][tape.below(3)],
            level_compaction_dynamic_level_bytes: tape.chance(2),
            target_file_size_base: [200, 400, 700][tape.below(3)],
            max_compaction_bytes: [1000, 5000, 1 << 40][tape.below(3)],
            ..PickSettings::default()
        };
        settings.universal.max_size_amplification_percent = 100;
        Tree {
            version: Arc::new(Version::empty(KeyOrder::Bytewise, 3 + tape.below(4))),
            contents: BTreeMap::new(),
            running: Vec::new(),
            settings,
            is_universal: tape.chance(8),
            last_number: 0,
            last_seqno: 0,
            steps: Vec::new(),
        }
    }

    /// Adds a table of level 0 with new entries.
    fn flush(&mut self, tape: &mut Tape<'_>) {
        let mut content = Content::new();
        let (first, spread) = (tape.key(), 1 + tape.key());
        for _ in 0..=tape.below(6) {
            self.last_seqno += 1;
            let key = (first + tape.key() % spread) % KEYS;
            content
                .entry(key)
                .or_default()
                .insert(0, (self.last_seqno, false));
        }
        if tape.chance(3) {
            self.last_seqno += 1;
            let first = tape.key();
            for key in first..(first + 1 + tape.key() % 8).min(KEYS) {
                content
                    .entry(key)
                    .or_default()
                    .insert(0, (self.last_seqno, true));
            }
        }
        self.steps.push(format!("flush {}", self.last_number + 1));
        let epoch = self.last_number + 1;
        let file = self.add(content, epoch, tape);
        self.install(&[], 0, vec![file]);
    }

    /// Creates a table, and keeps its content.
    fn add(&mut self, content: Content, epoch: u64, tape: &mut Tape<'_>) -> Arc<FileMeta> {
        self.last_number += 1;
        let bytes_per_key = [50, 90, 150][tape.below(3)];
        let file = table(self.last_number, &content, epoch, bytes_per_key);
        self.contents.insert(self.last_number, content);
        Arc::new(file)
    }

    /// Replaces tables by others of one level, and checks the tree.
    fn install(&mut self, removed: &[u64], level: usize, added: Vec<Arc<FileMeta>>) {
        let order = KeyOrder::Bytewise;
        let mut levels: Vec<Level> = self.version.levels.clone();
        for level in &mut levels {
            level.files.retain(|file| !removed.contains(&file.number));
        }
        levels[level].files.extend(added);
        levels[0]
            .files
            .sort_by_key(|file| std::cmp::Reverse((file.epoch, file.largest_seqno)));
        for level in &mut levels[1..] {
            level
                .files
                .sort_by(|a, b| order.compare_internal(&a.smallest, &b.smallest));
        }
        let mut version = Version::new(order, levels);
        version.running = Arc::clone(&self.version.running);
        self.version = Arc::new(version);
        self.check_overlaps();
        self.check_order();
    }

    fn check_overlaps(&self) {
        for (number, level) in self.version.levels.iter().enumerate().skip(1) {
            for pair in level.files.windows(2) {
                let (end, begin) = (pair[0].largest_user_key(), pair[1].smallest_user_key());
                let is_apart = end < begin || end == begin && pair[0].largest_is_exclusive();
                let (one, other) = (pair[0].number, pair[1].number);
                assert!(is_apart, "L{number}: {one} and {other} overlap\n{self}");
            }
        }
    }

    /// Checks that the versions of each key become older from table to table.
    fn check_order(&self) {
        for key in 0..KEYS {
            let mut oldest = u64::MAX;
            for (level, file) in self.version.files() {
                let Some(entries) = self.contents[&file.number].get(&key) else {
                    continue;
                };
                let (newest, number) = (entries[0].0, file.number);
                assert!(
                    newest < oldest,
                    "key {key}: {newest} of {number} on L{level} is below {oldest}\n{self}"
                );
                oldest = entries.last().unwrap().0;
            }
        }
    }

    fn begin(&mut self, kind: &str, plan: Option<CompactionPlan>) {
        let Some(plan) = plan else { return };
        self.steps.push(format!("begin {kind}: {plan}"));
        let is_free = plan.files().all(|(_, file)| !file.is_being_compacted());
        assert!(is_free, "an input is being compacted\n{self}");
        plan.begin(&self.version);
        self.running.push((plan, Arc::clone(&self.version)));
    }

    /// Ends one of the running compactions, perhaps as a failure.
    fn end(&mut self, tape: &mut Tape<'_>) {
        if self.running.is_empty() {
            return;
        }
        let (plan, then) = self.running.swap_remove(tape.below(self.running.len()));
        self.steps.push(format!("end {plan}"));
        let inputs: Vec<u64> = plan.files().map(|(_, file)| file.number).collect();
        if plan.trivial_move {
            let files = plan.files().map(|(_, file)| Arc::clone(file)).collect();
            self.install(&inputs, plan.output_level, files);
        } else if !tape.chance(8) {
            let merged = self.merged(&inputs);
            self.check_nothing_older_is_below(&plan, &then, &inputs, &merged);
            let outputs = cut(&plan, merged, tape);
            let epoch = plan.output_epoch();
            let files = outputs
                .into_iter()
                .map(|content| self.add(content, epoch, tape));
            let files = files.collect();
            self.install(&inputs, plan.output_level, files);
        }
        plan.end(&self.version);
    }

    fn merged(&self, inputs: &[u64]) -> Content {
        let mut merged = Content::new();
        for number in inputs {
            for (key, entries) in &self.contents[number] {
                merged.entry(*key).or_default().extend(entries);
            }
        }
        for entries in merged.values_mut() {
            entries.sort_unstable_by(|a, b| b.cmp(a));
        }
        merged
    }

    /// Checks what a job relies on when it drops deletions: nothing older is outside of its inputs.
    fn check_nothing_older_is_below(
        &self,
        plan: &CompactionPlan,
        then: &Version,
        inputs: &[u64],
        merged: &Content,
    ) {
        for (key, entries) in merged {
            let below = then.levels.iter().skip(plan.output_level + 1);
            let may_hold = |file: &Arc<FileMeta>| {
                (file.smallest_user_key()[0]..=file.largest_user_key()[0]).contains(key)
            };
            let is_lowest = !below.flat_map(|level| &level.files).any(may_hold);
            if !(plan.bottommost || plan.output_level > 0 && is_lowest) {
                continue;
            }
            let others = self.version.files();
            for (level, file) in others.filter(|(_, file)| !inputs.contains(&file.number)) {
                let held = self.contents[&file.number].get(key);
                let is_older = held.is_some_and(|held| held.iter().any(|one| one.0 < entries[0].0));
                let number = file.number;
                assert!(
                    !is_older,
                    "key {key}: {number} on L{level} is older\n{self}"
                );
            }
        }
    }

    fn step(&mut self, tape: &mut Tape<'_>) {
        let version = Arc::clone(&self.version);
        let (one, other) = (tape.key(), tape.key());
        let (from, to) = ([one.min(other)], [one.max(other)]);
        let from = (!tape.chance(4)).then_some(&from[..]);
        let to = (!tape.chance(4)).then_some(&to[..]);
        match tape.below(20) {
            0..5 => self.flush(tape),
            5..9 if self.running.len() < 5 => {
                let plan = match self.is_universal {
                    true => universal::pick(&version, &self.settings),
                    false => leveled::pick(&version, &self.settings),
                };
                self.begin("automatic", plan);
            }
            9..12 if !self.is_universal => {
                let last = match tape.below(6) {
                    0 => tape.below(version.levels.len()),
                    _ => version.deepest_level(),
                };
                let pick = manual::pick_levels(&version, &self.settings, from, to, last);
                self.begin("all levels", planned(pick));
            }
            12 if !self.is_universal => {
                let level = tape.below(version.levels.len() - 1);
                let range = ManualRange {
                    level,
                    in_place: level > 0 && version.deepest_level() == level && tape.chance(3),
                    from,
                    to,
                    excludes_to: tape.chance(3),
                    after: None,
                    older_than: u64::MAX,
                };
                let targets = leveled::level_targets(&version, &self.settings);
                let pick = manual::pick(&version, &self.settings, &targets, &range);
                self.begin("a level", planned(pick));
            }
            // Named files wait for all running compactions.
            13 if self.running.is_empty() => {
                let all: Vec<u64> = version.files().map(|(_, file)| file.number).collect();
                if all.is_empty() {
                    return;
                }
                let count = 1 + tape.below(3);
                let named: Vec<u64> = (0..count).map(|_| all[tape.below(all.len())]).collect();
                let output = tape.below(version.levels.len());
                let plan = manual::pick_files(&version, &self.settings, &named, output);
                self.begin("named files", plan);
            }
            14 if !self.is_universal => {
                leveled::suggest_level0(&version, &self.settings);
            }
            _ => self.end(tape),
        }
    }
}

impl std::fmt::Display for Tree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for step in &self.steps {
            writeln!(f, "{step}")?;
        }
        for (level, file) in self.version.files() {
            let content = &self.contents[&file.number];
            writeln!(
                f,
                "L{level} {} epoch {} {content:?}",
                file.number, file.epoch
            )?;
        }
        Ok(())
    }
}

fn planned(pick: ManualPick) -> Option<CompactionPlan> {
    match pick {
        ManualPick::Part(plan, _) => Some(plan),
        _ => None,
    }
}

/// Drops what a job may drop, and cuts the rest into tables.
fn cut(plan: &CompactionPlan, merged: Content, tape: &mut Tape<'_>) -> Vec<Content> {
    let mut outputs = vec![Content::new()];
    let keeps_all = tape.chance(2);
    for (key, mut entries) in merged {
        if !keeps_all {
            entries.truncate(1);
        }
        if plan.bottommost && tape.chance(2) {
            entries.retain(|entry| !entry.1);
        }
        if entries.is_empty() {
            continue;
        }
        if plan.output_level > 0 && tape.chance(4) {
            outputs.push(Content::new());
        }
        outputs.last_mut().unwrap().insert(key, entries);
    }
    outputs.retain(|content| !content.is_empty());
    outputs
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn plans_that_overlap_in_time_keep_the_order_of_versions(
        numbers in vec(any::<u16>(), 3000),
    ) {
        let mut tape = Tape(numbers.iter());
        let mut tree = Tree::new(&mut tape);
        while !tape.0.as_slice().is_empty() {
            tree.step(&mut tape);
        }
    }
}
